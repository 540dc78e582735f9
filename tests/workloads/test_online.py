"""Questions one at a time: the span against least squares, free repeats, learning, exhaustion, and what one person can move."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tacit.accounting import Guarantee
from tacit.errors import ParameterError
from tacit.ledger import Budget, BudgetExceeded, Ledger
from tacit.noise import test_mode as seeded
from tacit.tables import Session, Unit
from tacit.workloads import AllRanges, Cells, Marginals, Online, Predicates, Prefix, Product, WorkloadAnswer, measured, open_online
from tacit.workloads.online import GRANULES, Known, online_price, questions

CELLS = Cells.of({"a": 16})
SKEWED = np.array([2000, 900, 40, 0, 0, 3, 1, 0, 0, 0, 0, 0, 0, 5, 0, 51])


def opened(counts: np.ndarray, text: str = "eps=10", **more: Any) -> Online:
    known = more.pop("known", None)
    price = online_price(Guarantee.parse(text), expected_rows=int(counts.sum()), **more)
    return Online.on_counts(counts, CELLS, price, known=known)


def answered(text: str = "eps=1", wanted: Any = None) -> WorkloadAnswer:
    plan = measured((wanted or Product(a=AllRanges)).on(CELLS), Guarantee.parse(text))
    return WorkloadAnswer(plan, tuple(plan.draw({("a",): SKEWED})), True)


@pytest.mark.parametrize("text", ["eps=1", "rho=0.1"])
def test_what_was_measured_answers_ranges_as_the_plan_does(text: str) -> None:
    """All ranges from the plan's own sums: the values, and under Gaussian noise the intervals, of `WorkloadAnswer`."""
    with seeded(3):
        answer = answered(text)
    known, (figures,) = Known.of(answer), answer.figures
    for place, row in enumerate(questions(Product(a=AllRanges).on(CELLS))):
        found = known.answer(row, 0.95)
        assert found is not None and found.source == "known" and found.low is not None
        assert found.value == pytest.approx(float(figures.values[place]), rel=1e-6, abs=1e-6)
        wide = found.value - found.low
        assert wide == pytest.approx(float(figures.widths[place]), rel=1e-6 if text.startswith("rho") else 0.05)


def test_the_variance_is_the_formula_of_the_specification() -> None:
    """q (A^T S^-1 A)^+ q^T, for sums with different noises, some of them redundant."""
    rng = np.random.default_rng(1)
    rows = np.vstack([rng.integers(0, 2, (5, 6)), np.ones((1, 6))]).astype(float)
    scales = rng.uniform(1, 5, 6)
    known = Known(rows, rng.normal(size=6), scales, ("gaussian",) * 6)
    question = rows[0] + rows[5]
    weights = known.combination(question)
    assert weights is not None
    inverse = np.linalg.pinv(rows.T @ np.diag(1 / scales**2) @ rows)
    assert float((weights**2 * scales**2).sum()) == pytest.approx(float(question @ inverse @ question), rel=1e-9)
    assert known.combination(np.eye(6)[0] * 0.5 + np.eye(6)[3] * 0.3) is None or np.linalg.matrix_rank(rows) == 6


def test_what_is_known_touches_no_data() -> None:
    with seeded(5):
        desk = opened(SKEWED, known=Known.of(answered(wanted=Marginals("a", ways=1))))
    desk._counts = None  # type: ignore[assignment]
    assert all(found.source == "known" for found in desk.ask(Product(a=Prefix)))
    assert desk.left == desk.price.updates


def test_the_same_question_and_what_follows_from_two_are_free() -> None:
    with seeded(7):
        desk = opened(SKEWED, "eps=100", updates=5)
        first, second = desk.ask(Product(a=[(0, 0)]))[0], desk.ask(Product(a=[(1, 1)]))[0]
        left = desk.left
        again, both = desk.ask(Product(a=[(0, 0), (0, 1)]))
    assert (first.source, second.source, again.source, both.source) == ("measured", "measured", "known", "known")
    assert again.value == pytest.approx(first.value) and both.value == pytest.approx(first.value + second.value)
    assert desk.left == left == 3


def test_flat_data_need_no_updates_and_skewed_data_are_learnt() -> None:
    with seeded(9):
        flat = opened(np.full(16, 100), "eps=5", updates=4, within=400)
        assert {found.source for found in flat.ask(Product(a=Prefix))} == {"estimate"} and flat.left == 4
        desk = opened(SKEWED, "eps=200", updates=8, within=60)
        truth = SKEWED / SKEWED.sum()

        def distance() -> float:
            return float((truth[truth > 0] * np.log(truth[truth > 0] / (desk.estimate / desk.estimate.sum())[truth > 0])).sum())

        before = distance()
        for place in (0, 1, 15):
            left = desk.left
            (found,) = desk.ask(Product(a=[(place, place)]))
            if found.source == "measured":
                assert desk.left == left - 1 and distance() < before
                before = distance()
    assert desk.estimate.sum() == pytest.approx(SKEWED.sum())
    assert float(np.abs(desk.estimate - SKEWED).max()) < 200


def test_after_the_last_update_it_answers_for_ever() -> None:
    with seeded(11):
        desk = opened(SKEWED, "eps=200", updates=1, within=10)
        assert desk.ask(Product(a=[(0, 0)]))[0].source == "measured" and desk.left == 0
    desk._counts = None  # type: ignore[assignment]
    answers = desk.ask(Product(a=AllRanges))
    assert len(answers) == 136 and {found.source for found in answers} == {"known", "estimate"}
    assert all(math.isfinite(found.value) for found in answers)


def test_one_person_moves_the_tested_error_by_at_most_the_declared_sensitivity() -> None:
    """What the sparse vector is asked, for neighbours of three rows in every pair of cells, against one estimate."""
    price = online_price(Guarantee(epsilon=1), reach=3, expected_rows=3000)
    assert price.tests.sensitivity == 3 and price.measurement.scales[0] == 3 * 20 / Fraction(1, 2)
    rng = np.random.default_rng(2)
    worst = 0
    for _ in range(200):
        question, estimate = rng.integers(0, 2, 16).astype(float), rng.uniform(0, 300, 16)
        other = SKEWED.copy()
        np.add.at(other, rng.integers(0, 16, 3), 1)
        off = [abs(int(c[question > 0].sum()) * GRANULES - round(float(question @ estimate) * GRANULES)) for c in (SKEWED, other)]
        worst = max(worst, abs(off[0] - off[1]))
    assert worst == 3 * GRANULES


def test_what_is_paid_for_is_everything_at_the_start() -> None:
    for text in ("eps=0.5", "eps=1, delta=1e-9", "rho=0.02"):
        for rows in (None, 1000):
            spend = Guarantee.parse(text)
            price = online_price(spend, updates=7, reach=3, replaced=True, expected_rows=rows)
            assert spend.admits(price.event, price.adjacency)
            assert price.reach == 6 and price.tests.aboves == 7
            # seven measurements cost what is stated for them
            each = price.measurement.reach
            assert (7 * each if spend.rho is None else 7 * each**2 / 2) <= next(
                iter(v for n, v in vars(price.measured).items() if n in ("epsilon", "rho"))
            )


def test_a_session_pays_once_and_stays_flat(tmp_path: Path) -> None:
    table = pa.table({"id": [1] * 1000 + [2, 3], "x": [5] * 1000 + [1, None]})
    book = Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}")
    session = Session(table, unit=Unit("id", max_rows=2), budget=Budget(epsilon=1), name="t", ledger=book, columns={"x": (0, 9)})
    desk = open_online(session, ["x"], epsilon=1, updates=2)
    assert session.left()["pure"] == 0 and desk.price.reach == 2
    assert len(desk.ask(Product(x=AllRanges))) == 55 and session.left()["pure"] == 0
    with pytest.raises(BudgetExceeded):
        open_online(session, ["x"], epsilon=1)
    assert "updates left" in repr(desk)


def test_refusals_depend_on_the_questions_and_the_price() -> None:
    desk = opened(SKEWED)
    with pytest.raises(ParameterError, match="0 or 1"):
        desk.ask(Product(a=Predicates.of(np.full((1, 16), 0.5))))
    with pytest.raises(ParameterError, match="no price"):
        online_price(Guarantee(mu=1))
    with pytest.raises(ParameterError, match="are a workload"):
        questions(Product(a=AllRanges).on(Cells.of({"a": 200})))
    residuals = measured(Marginals("a", "b", up_to=2).on(Cells.of({"a": 3, "b": 3})), Guarantee(rho=1))
    with pytest.raises(ParameterError, match="differences"):
        Known.of(WorkloadAnswer(residuals, (), True))
