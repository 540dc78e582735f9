"""MWEM: the specification's prototype, the price of a round, updates against plain arithmetic, neighbours' scores."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tacit.accounting import Guarantee
from tacit.calculus import Measurement
from tacit.errors import ParameterError
from tacit.ledger import Budget, BudgetExceeded, Ledger
from tacit.noise import test_mode as seeded
from tacit.tables import Session, Unit
from tacit.workloads import AllRanges, Cells, Identity, Marginals, Mwem, Predicates, Prefix, Product, Ranges, plan_mwem, with_mwem
from tacit.workloads.mwem import GRANULES, best_rounds

CELLS = Cells.of({"a": 64})
BELL = np.rint(1000 * np.exp(-(((np.arange(64) - 20) / 5) ** 2) / 2) / (5 * math.sqrt(2 * math.pi))).astype(np.int64)


def worst(plan: Mwem, counts: np.ndarray, seeds: range) -> float:
    """The largest error over all questions, on average over seeds."""
    found = []
    for seed in seeds:
        with seeded(seed):
            record = plan.draw({plan.tables[0]: counts})
        (truth,), (own,) = plan.workload.answers(counts), plan.answers(record)
        found.append(float(np.abs(own.values - truth).max()))
    return float(np.mean(found))


def test_replay_and_the_last_estimate_beat_the_average() -> None:
    """The prototype: uniform 648.5, average 410, last 304, last with replay 61 (rounds 10), 44 (rounds 5)."""
    workload, price = Product(a=AllRanges).on(CELLS), Guarantee(epsilon=1)
    rows = int(BELL.sum())
    flat = float(np.abs(workload.answers(np.full(64, rows / 64))[0] - workload.answers(BELL)[0]).max())
    assert 600 < flat < 750
    found = {
        name: worst(with_mwem(workload, price, rounds=rounds, expected_rows=rows, replay=replay, output=output), BELL, range(1, 4))  # type: ignore[arg-type]
        for name, rounds, replay, output in (
            ("average", 10, 0, "average"),
            ("last", 10, 0, "last"),
            ("replay", 10, 20, "last"),
            ("five", 5, 20, "last"),
        )
    }
    assert 300 < found["average"] < 500 and 200 < found["last"] < 400
    assert found["replay"] < 110 and found["five"] < 110
    assert found["replay"] < 0.4 * found["last"] < 0.4 * found["average"]


def test_a_public_start_helps() -> None:
    workload, price = Product(a=AllRanges).on(CELLS), Guarantee(epsilon="0.05")
    rows = int(BELL.sum())
    near = worst(with_mwem(workload, price, rounds=1, expected_rows=rows, start=np.roll(BELL, 1) + 0.5), BELL, range(3))
    assert near < worst(with_mwem(workload, price, rounds=1, expected_rows=rows), BELL, range(3))


def test_an_update_is_the_printed_one() -> None:
    plan = with_mwem(Product(a=AllRanges).on(Cells.of({"a": 4})), Guarantee(epsilon=1), rounds=1, expected_rows=100, replay=0)
    (row,) = plan.question(1)
    assert row.tolist() == [1, 1, 0, 0]
    found = plan.estimate({"rows": 100, "asked": [1], "values": [80]})
    raw = 25 * np.exp(row * (80 - 50) / 200)
    assert np.allclose(found, raw * 100 / raw.sum())


def test_questions_over_several_columns_are_rows_of_the_workload() -> None:
    workload = (Marginals("a", "b", ways=2) + Product(b=Ranges(3, ((0, 1),)))).on(Cells.of({"a": 2, "b": 3}))
    plan = with_mwem(workload, Guarantee(epsilon=1), rounds=1)
    table = np.arange(6).reshape(2, 3)
    flat = np.concatenate([own.ravel() for own in workload.answers(table)])
    for i, value in enumerate(flat):
        one, other = plan.question(i)
        assert one @ table @ other == value


def test_what_is_paid_for_is_all_rounds() -> None:
    workload = Product(a=AllRanges).on(CELLS)
    for text in ("eps=0.5", "rho=0.02"):
        for rows in (None, 1000):
            spend = Guarantee.parse(text)
            plan = with_mwem(workload, spend, rounds=7, reach=3, replaced=True, expected_rows=rows)
            assert spend.admits(plan.event, plan.adjacency) and not spend.share("0.99").admits(plan.event, plan.adjacency)
    # half of a round chooses, half measures: rho of both halves, and how far six rows move a count
    assert plan.choice**2 / 8 == pytest.approx(float(plan.measurement.reach**2 / 2), rel=1e-9)
    assert plan.measurement.scales[0] == 6 * Fraction(plan.measurement.multiplier)


def test_a_person_moves_no_score_further_than_the_price() -> None:
    """Scores as `draw` makes them, for neighbours, against the same published estimate."""
    plan = with_mwem(Product(a=Predicates.of([[1, -2, 0, 3], [0, 1, 1, 1]])).on(Cells.of({"a": 4})), Guarantee(epsilon=1), reach=2)
    assert plan.largest == 3
    counts, guess = np.array([5, 1, 0, 7]), np.array([3.3, 2.2, 1.1, 0.4])
    base = np.abs(plan.workload.answers(counts)[0] * GRANULES - np.rint(plan.workload.answers(guess)[0] * GRANULES))
    far = 0.0
    for one in range(4):
        other = counts.copy()
        other[one] += 2
        moved = np.abs(plan.workload.answers(other)[0] * GRANULES - np.rint(plan.workload.answers(guess)[0] * GRANULES))
        far = max(far, float(np.abs(moved - base).max()))
    assert far == plan.reach * plan.largest * GRANULES


def test_the_rounds_of_the_specification() -> None:
    assert best_rounds(10_000, 1024, 1000) == 53  # printed 52.6
    assert best_rounds(1, 4, 4) == 1


def test_a_session_pays_before_the_data(tmp_path: Path) -> None:
    table = pa.table({"id": [1] * 1000 + [2, 3], "x": [5] * 1000 + [1, None]})
    book = Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}")
    session = Session(table, unit=Unit("id", max_rows=2), budget=Budget(rho="0.1"), name="t", ledger=book, columns={"x": (0, 9)})
    plan = plan_mwem(session, Product(x=AllRanges), rho="0.1", rounds=3)
    found = plan.run()
    assert found.table("x").num_rows == 55 and float(session.left()["rho"]) < 1e-9
    with pytest.raises(BudgetExceeded):
        plan.run()


def test_refusals_depend_on_the_questions_and_the_price() -> None:
    with pytest.raises(ParameterError, match="whole weights"):
        with_mwem(Product(a=Predicates.of([[0.5, 1]])).on(Cells.of({"a": 2})), Guarantee(epsilon=1))
    with pytest.raises(ParameterError, match="no price"):
        with_mwem(Product(a=Identity).on(CELLS), Guarantee(mu=1))
    with pytest.raises(ParameterError, match="start"):
        with_mwem(Product(a=Identity).on(CELLS), Guarantee(epsilon=1), start=np.zeros(64))
    with pytest.raises(ParameterError, match="at most"):
        with_mwem(Product(a=Identity, b=Identity).on(Cells.of({"a": 4000, "b": 4000})), Guarantee(epsilon=1))


def scored(plan: Mwem, counts: list[int], monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], int]:
    """The scores that the first choice is made from, exactly, and how far the price lets them move."""
    seen: list[tuple[list[int], int]] = []
    release = Measurement.release

    def listening(self: Any, scores: Any, moved: Any) -> Any:
        seen.append(([int(score) for score in scores], int(moved)))
        return release(self, scores, moved)

    with monkeypatch.context() as patch:
        patch.setattr(Measurement, "release", listening)
        plan.draw({plan.tables[0]: np.array(counts)})
    return seen[0]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("rows", [10**3, 6 * 10**17, 10**18, 10**30])
def test_no_declared_number_of_rows_makes_scores_overflow(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guesses beyond 64 bits became the least integer, and one row then turned the order of the scores around."""
    plan = with_mwem(Product(a=Prefix).on(Cells.of({"a": 3})), Guarantee(epsilon=1), rounds=1, expected_rows=rows)
    (before, moved), (after, _) = (scored(plan, counts, monkeypatch) for counts in ([0, 0, 0], [1, 0, 0]))
    assert min(before) >= 0 and max(abs(x - y) for x, y in zip(before, after, strict=True)) <= moved


@pytest.mark.parametrize("weight", [2**14 + 1, 2**30 + 1, 2**52 + 1])
def test_large_weights_are_added_up_without_rounding(weight: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [[weight - 2, weight, 1], [0, -1, 0]]
    plan = with_mwem(Product(a=Predicates.of(rows)).on(Cells.of({"a": 3})), Guarantee(epsilon=1), rounds=1, expected_rows=1000)
    for near in range(2**31, 2**31 + 5):
        counts, more = [2**31 + 1, near, 2**30], [2**31 + 1, near + 1, 2**30]
        (before, moved), (after, _) = scored(plan, counts, monkeypatch), scored(plan, more, monkeypatch)
        assert moved == weight * GRANULES
        assert [abs(x - y) for x, y in zip(before, after, strict=True)] == [moved, GRANULES]  # both answers lie far from the guess
