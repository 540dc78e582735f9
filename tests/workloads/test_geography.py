"""Regions from the top down: known totals against dense least squares with constraints, sums that add up, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tacit.accounting import Guarantee
from tacit.errors import ParameterError
from tacit.ledger import Budget, Ledger
from tacit.noise import test_mode as seeded
from tacit.tables import Session, Unit
from tacit.workloads import Cells, Hierarchy, Invariants, Measured, RegionsAnswer, measured, regions, wanted_of
from tacit.workloads.geography import children_of, top_down
from tacit.workloads.joint_strategy import OneProduct
from tacit.workloads.regions import RegionTree, region_tree
from tacit.workloads.strategy import Need, identity

PLACES = {"north": {"n1": ["a", "b", "c"], "n2": ["d"]}, "south": {"s1": ["e", "f"], "s2": ["g", "h", "i", "j"]}}
NODES = Hierarchy.of(PLACES)
CELLS = Cells.of({"place": list(NODES.leaves), "sex": ["f", "m"]})
COUNTS = np.random.default_rng(3).integers(0, 60, size=(10, 2)) * np.array([[1, 0], [1, 1]] * 5)
TRUE = {name: int(COUNTS[first : last + 1].sum()) for name, (first, last) in zip(NODES.names, NODES.ends, strict=True)}


def made(law: Any = "gaussian", *, tree: bool = False) -> Measured:
    spend = Guarantee(rho="0.02") if law == "gaussian" else Guarantee(epsilon="0.4")

    def chosen(workload: Any, law: Any) -> OneProduct:
        return OneProduct(("place", "sex"), (region_tree(Need.of(NODES), NODES, law), identity(2)))

    more: dict[str, Any] = {"select": chosen} if tree else {}
    return measured(wanted_of("place", NODES, ["sex"]).on(CELLS), spend, law=law, **more)


def drawn(plan: Measured, unprotected: dict[str, int]) -> RegionsAnswer:
    return RegionsAnswer(plan, tuple(plan.draw({("place", "sex"): COUNTS})), True, None, Invariants.of(NODES, unprotected))


@pytest.mark.parametrize("names", [("all",), ("north", "south"), ("all", "n1", "s2"), ("all", "north", "south", "d", "n2"), ()])
@pytest.mark.parametrize("tree", [True, False])
def test_known_totals_are_joined_by_least_squares(names: tuple[str, ...], tree: bool) -> None:
    """Against one dense solution of least squares under equations, with its covariance, to 1e-9."""
    plan = made(tree=tree)
    with seeded(1):
        answer = drawn(plan, {name: TRUE[name] for name in names})
    selection = plan.selection
    rows, noisy = [], []
    for place in np.ndindex(10, 2):
        unit = np.zeros((10, 2), dtype=np.int64)
        unit[place] = 1
        blocks = selection.measure({("place", "sex"): unit})
        rows.append(np.concatenate([b.astype(float).ravel() * float(w) for b, w in zip(blocks, selection.weights, strict=True)]))
    noisy = np.concatenate([b.astype(float).ravel() * float(w) for b, w in zip(answer.released, selection.weights, strict=True)])
    matrix = np.array(rows).T
    equations = np.array([[first <= leaf <= last for leaf in range(10) for _ in range(2)] for first, last in NODES.ends], dtype=float)
    given = equations[[NODES.names.index(name) for name in names]].reshape(-1, 20)
    known = np.array([TRUE[name] for name in names])
    inverse = np.linalg.inv(matrix.T @ matrix)
    cells = inverse @ matrix.T @ noisy
    gain = inverse @ given.T @ np.linalg.pinv(given @ inverse @ given.T)
    cells, covariance = cells + gain @ (known - given @ cells), inverse - gain @ given @ inverse
    own = answer.figures[0]
    expected = NODES.answer(cells.reshape(10, 2), 0)
    np.testing.assert_allclose(own.values, expected, atol=1e-6 if tree else 1e-5)
    for i, (first, last) in enumerate(NODES.ends):
        for sex in range(2):
            pick = np.zeros((10, 2))
            pick[first : last + 1, sex] = 1
            variance = pick.ravel() @ covariance @ pick.ravel()
            assert own.widths[i, sex] == pytest.approx(1.959964 * math.sqrt(max(variance, 0)) * plan.scale, rel=1e-5, abs=1e-4)
    for name in names:
        assert own.values[NODES.names.index(name)].sum() == pytest.approx(TRUE[name], abs=1e-6)


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_intervals_with_known_totals_cover(law: Any) -> None:
    """250 draws of 34 figures: 95 % within 2 (Gaussian), at least 94 % (Laplace: the widest of its family)."""
    plan, inside, total = made(law), 0, 0
    expected = NODES.answer(COUNTS, 0)
    errors = np.zeros(2)
    with seeded(7):
        for _ in range(250):
            answer = drawn(plan, {"all": TRUE["all"], "north": TRUE["north"]})
            own = answer.figures[0]
            inside += int((np.abs(own.values - expected) <= own.widths + 1e-9).sum())
            total += expected.size
            plain = plan.answers(answer.released)[0].values
            errors += ((plain - expected) ** 2).sum(), ((own.values - expected) ** 2).sum()
    assert errors[1] < errors[0]  # a mutant that ignores the known totals fails
    share = inside / total
    assert abs(share - 0.95) < 0.02 if law == "gaussian" else 0.94 < share < 0.99


@pytest.mark.parametrize("unprotected", [{}, {"all": 1}, {"all": "true"}, {"north": "true", "g": "true"}, {"s1": "true", "s2": "true"}])
@pytest.mark.parametrize("scale", ["0.02", "0.00002"])
def test_whole_figures_add_up_from_the_top_down(unprotected: dict[str, Any], scale: str) -> None:
    given = {name: TRUE[name] if value == "true" else value for name, value in unprotected.items()}
    plan = measured(wanted_of("place", NODES, ["sex"]).on(CELLS), Guarantee(rho=scale))
    with seeded(4):
        answer = drawn(plan, given)
    whole = answer.whole[0]
    assert whole.dtype == np.int64 and whole.min() >= 0
    for node, inside in enumerate(children_of(NODES)):
        if inside:
            np.testing.assert_array_equal(whole[inside].sum(axis=0), whole[node])
    for name, value in given.items():
        assert whole[NODES.names.index(name)].sum() == value
    if not given:
        assert whole[0].sum() == max(0, round(answer.figures[0].values[0].sum()))


def test_top_down_changes_nothing_that_is_already_right() -> None:
    exact = NODES.answer(COUNTS, 0).astype(float)
    np.testing.assert_array_equal(top_down(exact, Invariants.of(NODES, None)), exact.astype(int))


@pytest.mark.parametrize(
    "wrong", [{"nowhere": 1}, {"all": -1}, {"all": 1.5}, {"all": True}, {"all": 5, "north": 6}, {"n1": 3, "n2": 3, "north": 7}]
)
def test_contradicting_totals_are_refused(wrong: Any) -> None:
    with pytest.raises(ParameterError):
        Invariants.of(NODES, wrong)


def test_totals_that_follow_are_said_once() -> None:
    found = Invariants.of(NODES, {"n1": 3, "n2": 3, "north": 6})
    assert [NODES.names[i] for i in found.places] == ["n1", "n2"]
    assert "n1, n2, north" in found.words("place") and "not protected" in found.words("place")


# --- with a session ---


def opened(folder: Path, table: pa.Table, **more: Any) -> Session:
    book = Ledger.open(f"sqlite:///{folder / 'tacit.db'}")
    return Session(
        table, unit=more.pop("unit", Unit("id", max_rows=1)), budget=Budget(rho=1), name="people", ledger=book, columns={"sex": ["f", "m"]}
    )


def people(count: int = 4000) -> pa.Table:
    random = np.random.default_rng(2)
    return pa.table(
        {"id": np.arange(count), "place": random.choice([*"abcdefghij", "elsewhere"], count), "sex": random.choice(["f", "m"], count)}
    )


def test_a_session_counts_regions(tmp_path: Path) -> None:
    table = people()
    session = opened(tmp_path, table)
    planned = regions(session, "place", PLACES, by=["sex"], rho="0.5", unprotected={"north": 1500})
    assert session.left()["rho"] == 1 and "not protected: north" in planned.explain()
    answer = planned.run()
    assert float(session.left()["rho"]) == 0.5
    lines = {(line["place"], line["sex"]): line for line in answer.table("place", "sex", whole=True).to_pylist()}
    assert len(lines) == 34
    rows = table.to_pylist()
    for name in "ghij":
        truth = sum(row["place"] == name and row["sex"] == "f" for row in rows)
        assert abs(lines[name, "f"]["value"] - truth) < 60
    # the given total is believed, whatever the table holds
    assert lines["north", "f"]["whole"] + lines["north", "m"]["whole"] == 1500
    assert lines["north", "f"]["value"] + lines["north", "m"]["value"] == pytest.approx(1500)


def test_one_person_moves_no_level_further_than_the_price(tmp_path: Path) -> None:
    """Record and replay on neighbours: a person with a thousand rows, in one place or in many, added to the table."""
    table = people(200)
    for extra in (["a"] * 1000, [*"abcdefghij"] * 100, [None, "elsewhere"] * 5):
        more = pa.table({"id": [9999] * len(extra), "place": pa.array(extra, pa.string()), "sex": ["f"] * len(extra)})
        (tmp_path / str(len(extra))).mkdir(exist_ok=True)
        measured_sums = []
        for rows in (table, pa.concat_tables([table, more])):
            session = opened(tmp_path / str(len(extra)), rows, unit=Unit("id", max_rows=3))
            planned = regions(session, "place", PLACES, by=["sex"], rho="0.1")
            selection, noise = planned.inner.measured.selection, planned.inner.measured.noise
            measured_sums.append(selection.measure(planned.inner.cut.counts(planned.inner.tables)))
        moved = sum(
            float((((new - old) / float(scale)).astype(float) ** 2).sum())
            for old, new, scale in zip(*measured_sums, noise.scales, strict=True)
        )
        assert moved <= float(1 / noise.multiplier) ** 2 * (1 + 1e-9)
        assert moved > 0 or None in extra


@pytest.mark.parametrize(
    ("column", "more"),
    [("nothing", {}), ("place", {"by": ["place"]}), ("place", {"by": ["id"]}), ("place", {"unprotected": {"x": 1}})],
)
def test_what_cannot_be_planned_is_refused(tmp_path: Path, column: str, more: Any) -> None:
    session = opened(tmp_path, people(10))
    with pytest.raises(Exception):  # noqa: B017
        regions(session, column, PLACES, rho="0.1", **more)
    assert session.left()["rho"] == 1


def test_the_tree_is_the_strategy_of_long_columns() -> None:
    assert isinstance(made(tree=True).selection.strategies[0], RegionTree)  # type: ignore[attr-defined]
