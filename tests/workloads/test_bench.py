"""The harness: errors against prediction, files that are gone on with and compared, and bad input."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from tacit.accounting import Guarantee, ParameterError
from tacit.noise import test_mode
from tacit.workloads import AllRanges, Cells, Product, bench, measured


def small(**more: object) -> bench.Results:
    given = {"shapes": ["spikes"], "sizes": [32], "scales": [500], "epsilons": [1.0], "trials": 2, **more}
    with test_mode(3):
        return bench.run(**given)  # type: ignore[arg-type]


def test_every_shape_has_its_rows() -> None:
    for shape in bench.SHAPES:
        counts = bench.histogram(shape, 64, 1000)
        assert counts.sum() == 1000 and (counts >= 0).all() and len(counts) == 64
        assert (counts == bench.histogram(shape, 64, 1000)).all()


def test_every_algorithm_runs_and_has_a_regret() -> None:
    found = small()
    assert [line.algorithm for line in found.lines] == list(bench.ALGORITHMS)
    regret = found.regret()
    assert min(mean for mean, _ in regret.values()) == pytest.approx(1.0)
    assert all(worst >= mean * (1 - 1e-9) for mean, worst in regret.values())


def test_errors_are_as_predicted() -> None:
    """200 trials of the plain plan: the mean square within four standard errors of the computed one (fails 1 in 16,000)."""
    with test_mode(5):
        found = bench.run(shapes=["bell"], sizes=[16], scales=[100], epsilons=[1.0], algorithms=["plain"], trials=200)
    workload = Product(x=AllRanges).on(Cells.of({"x": 16}))
    predicted = measured(workload, Guarantee(epsilon=1)).expected_error
    (line,) = found.lines
    # A root mean square has a mean a little below the root of the mean; its square and its spread make up for it.
    square = line.error**2 + line.deviation**2 * line.trials
    assert abs(square - predicted**2) < 4 * 2 * line.error * line.deviation


def test_a_file_is_gone_on_with_and_compared(tmp_path: Path) -> None:
    path, told = tmp_path / "run.json", []
    first = small(algorithms=["identity"], path=path, progress=lambda *what: told.append(what))
    again = small(algorithms=["identity", "plain"], path=path)
    assert again.lines[0] == first.lines[0] and len(again.lines) == 2
    assert told == [("identity on spikes", 1, 1)]
    ((line, ratio, apart),) = again.against(first)
    assert line.algorithm == "identity" and ratio == 1 and apart == 0
    assert bench.Results.load(path) == again
    assert list(tmp_path.iterdir()) == [path]  # nothing is left behind


def test_an_algorithm_of_ones_own_and_a_picture(tmp_path: Path) -> None:
    with test_mode(1):
        found = bench.run(
            shapes=["flat"], sizes=[8], scales=[80], epsilons=[1.0], trials=1, questions="cells",
            algorithms={"zeros": lambda counts, workload, price: np.zeros(8)},
        )  # fmt: skip
    assert found.lines[0].error == 10 and math.isfinite(found.regret()["zeros"][0])
    found.plot(tmp_path / "regret.png")
    assert (tmp_path / "regret.png").stat().st_size > 1000


@pytest.mark.parametrize(
    "wrong",
    [{"shapes": ["round"]}, {"algorithms": ["magic"]}, {"questions": "all"}, {"trials": 0}, {"epsilons": [-1.0]}, {"sizes": [0]}],
)
def test_bad_input(wrong: dict[str, object]) -> None:
    with pytest.raises(ParameterError):
        small(**wrong)


@pytest.mark.parametrize("text", ["", "[]", '{"version": 1}', json.dumps({"version": 9, "lines": []}), '{"version": 1, "lines": [{}]}'])
def test_a_broken_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(ParameterError):
        bench.Results.load(tmp_path / "run.json")
