"""Maps: boxes against plain counts, their predicted errors against draws, and coordinates that are no numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tacit.errors import ParameterError
from tacit.ledger import Budget, Ledger
from tacit.noise import test_mode as seeded
from tacit.tables import Session, Unit
from tacit.workloads import AllRanges, Axis, Cells, Product, grid
from tacit.workloads.joint_strategy import best, unit_error
from tacit.workloads.spatial import GridAnswer, GridPlan, wanted_boxes

X, Y = Axis("lon", 0, 8, 8), Axis("lat", -1, 1, 4)
POINTS = np.random.default_rng(1).random((2000, 2)) * [10, 3] - [1, 1.5]


def opened(folder: Path, points: np.ndarray = POINTS, budget: Budget | None = None) -> Session:
    table = pa.table({"id": np.arange(len(points)), "lon": points[:, 0], "lat": points[:, 1]})
    book = Ledger.open(f"sqlite:///{folder / 'tacit.db'}")
    return Session(table, unit=Unit("id", max_rows=1), budget=budget or Budget(rho=100), name="points", ledger=book)


def inside(x: tuple[float, float], y: tuple[float, float]) -> int:
    """The points in a box; the map's last cells include their upper ends, which no point here meets."""
    return int((([x[0], y[0]] <= POINTS) & ([x[1], y[1]] > POINTS)).all(axis=1).sum())


def test_the_grid_counts_points_in_its_cells(tmp_path: Path) -> None:
    planned = grid(opened(tmp_path), x=X, y=Y, rho=1)
    counts = planned.inner.cut.counts([("lon", "lat")])[("lon", "lat")]
    for i in range(8):
        for j in range(4):
            assert counts[i, j] == inside((i, i + 1), (-1 + j / 2, -0.5 + j / 2))


def test_no_number_is_no_place(tmp_path: Path) -> None:
    odd = np.array([[np.nan, 0.0], [np.inf, 0.0], [1e308, 0.1], [-1e308, 0.1], [8.0, 1.0], [0.0, -1.0], [8.1, 0.0]])
    planned = grid(opened(tmp_path, odd), x=X, y=Y, rho=1)
    counts = planned.inner.cut.counts([("lon", "lat")])[("lon", "lat")]
    assert counts.sum() == 2 and counts[7, 3] == 1 and counts[0, 0] == 1


@pytest.mark.parametrize(("law", "spend"), [("gaussian", {"rho": "0.05"}), ("laplace", {"epsilon": "0.5"})])
def test_boxes_are_off_as_foretold_and_their_intervals_cover(tmp_path: Path, law: Any, spend: dict[str, Any]) -> None:
    """120 draws of 12 boxes: mean squares within 12 % of the prediction, 95 % of intervals within 2.5."""
    session = opened(tmp_path, budget=Budget(**dict.fromkeys(spend, 100)))  # type: ignore[arg-type]
    planned: GridPlan = grid(session, x=X, y=Y, law=law, **spend)
    random = np.random.default_rng(5)
    asked = []
    for _ in range(12):
        (a, b), (c, d) = sorted(random.choice(9, 2, replace=False)), sorted(random.choice(5, 2, replace=False))
        asked.append(((float(a), float(b)), (-1 + c / 2, -1 + d / 2)))
    held, total, squares, widths = 0, 0, 0.0, 0.0
    own = planned.inner.measured
    counts = planned.inner.cut.counts(planned.inner.tables)
    with seeded(4):
        for _ in range(120):
            answer = GridAnswer(own, tuple(own.draw(counts)), False, None, X, Y)
            for box, (x, y) in zip(answer.boxes(asked), asked, strict=True):
                truth = inside(x, y)
                held += box.low <= truth <= box.high
                total += 1
                squares += (box.value - truth) ** 2
                widths += ((box.high - box.low) / 2 / 1.959964) ** 2
                assert box.x == x and box.y == pytest.approx(y)
    assert abs(held / total - 0.95) < 0.025
    if law == "gaussian":
        assert squares == pytest.approx(widths, rel=0.12)


def test_boxes_agree_with_all_ranges_and_each_other(tmp_path: Path) -> None:
    answer = grid(opened(tmp_path), x=X, y=Y, rho=1).run()
    table = {(line["lon"], line["lat"]): line for line in answer.table("lon", "lat").to_pylist()}
    box = answer.box((0, 2), (-1, 0))
    line = table["0.0 to 2.0", "-1.0 to 0.0"]
    assert box.value == pytest.approx(line["value"]) and box.low == pytest.approx(line["low"])
    left, right, both = (answer.box(x, (-1, 1)).value for x in ((0, 3), (3, 8), (0, 8)))
    assert left + right == pytest.approx(both)
    assert answer.cells[0].sum() == pytest.approx(both)


def test_sides_go_to_the_nearest_edges(tmp_path: Path) -> None:
    answer = grid(opened(tmp_path), x=X, y=Y, rho=1).run()
    assert answer.box((0.4, 2.6), (-5, 0.3)).x == (0.0, 3.0)
    for wrong in (((3, 2), (-1, 1)), ((2.9, 3.1), (-1, 1)), ((float("nan"), 3), (-1, 1)), ((20, 30), (-1, 1))):
        with pytest.raises(ParameterError):
            answer.box(*wrong)


def test_a_map_is_drawn(tmp_path: Path) -> None:
    answer = grid(opened(tmp_path), x=X, y=Y, rho=1).run()
    answer.picture(tmp_path / "map.png")
    assert (tmp_path / "map.png").stat().st_size > 5000 and "8 x 4" in repr(answer)


@pytest.mark.parametrize("wrong", [("lon", 1, 0, 4), ("lon", 0, float("inf"), 4), ("lon", 0, 1, 0)])
def test_bad_axes_are_refused(wrong: Any) -> None:
    with pytest.raises(ParameterError):
        Axis(*wrong)
    with pytest.raises(ParameterError):
        wanted_boxes("lon", "lon")


def test_gaussian_boxes_of_64_by_64() -> None:
    """Spec 09: 5.3002 at sigma 1, and no strategy is below 5.186."""
    cells = Cells.of({"x": 64, "y": 64})
    boxes = Product(x=AllRanges, y=AllRanges).on(cells)
    found = (unit_error(best(boxes, "gaussian"), boxes, "gaussian") / boxes.questions) ** 0.5
    assert 5.2995 < found < 5.3005
