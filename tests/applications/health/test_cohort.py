"""Cohort counts: the law as drawn, the posterior by enumeration, every loss, and what is refused before anything is spent."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from tests.noise.reference import chi_square

from tacit.accounting import Adjacency, DiscreteLaplace
from tacit.applications.health import (
    absolute,
    asymmetric,
    best_answer,
    cohort_count,
    exponential_count,
    plan_cohort,
    posterior,
    prevalence,
    squared,
    uniform,
)
from tacit.applications.health.cohort import count_utilities, farthest_utility
from tacit.errors import ParameterError
from tacit.ledger import Budget, BudgetExceeded, Ledger
from tacit.tables import Session, TableError, Unit

ROWS = {"id": [i // 3 for i in range(900)], "age": [30 + (i // 3) % 50 for i in range(900)]}


def opened(folder: Path, unit: Unit | None = None, epsilon: object = 10) -> Session:
    book = Ledger.open(f"sqlite:///{folder / 'tacit.db'}")
    return Session(ROWS, unit=unit or Unit("id", max_rows=3), budget=Budget(epsilon=epsilon), name="visits", ledger=book)


def test_a_patient_counts_once_however_many_rows_match(tmp_path: Path) -> None:
    session = opened(tmp_path)
    planned = plan_cohort(session.desk, "SELECT COUNT(*) FROM visits WHERE age >= 40", epsilon=1000, at_most=5000)
    assert planned.draw() == 240  # 300 patients, four fifths of them; 720 rows
    assert planned.event == DiscreteLaplace(Fraction(1, 1000), 1)
    assert session.left()["pure"] == 10  # a plan and its draw pay nothing by themselves


def test_an_answer_is_paid_for_once_and_read_often(tmp_path: Path) -> None:
    session = opened(tmp_path, epsilon="1/2")
    found = cohort_count(session, "SELECT COUNT(*) FROM visits", epsilon="1/2", at_most=1000)
    assert found.private and found.entry is not None and session.left()["pure"] == 0
    answers = {found.read(loss=asymmetric(over, 1)) for over in (1, 4, 9)}
    assert max(answers) == found.noisy and min(answers) < found.noisy
    low, high = found.interval(0.95)
    assert low <= found.value <= high and "patients" in repr(found)
    with pytest.raises(BudgetExceeded):
        cohort_count(session, "SELECT COUNT(*) FROM visits", epsilon="1/1000", at_most=1000)


def test_replace_one_is_stated(tmp_path: Path) -> None:
    session = opened(tmp_path, Unit("id", max_rows=3, adjacency=Adjacency.REPLACE_ONE))
    planned = plan_cohort(session.desk, "SELECT COUNT(*) FROM visits", epsilon=1, at_most=100)
    assert planned.event.adjacency is Adjacency.REPLACE_ONE


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "at_most"),
        ({"at_most": 0}, "at_most"),
        ({"at_most": 10, "prior": [1.0] * 5}, "one number for each count"),
        ({"prior": [-1.0, 2.0]}, "none below 0"),
        ({"prior": [0.0, 0.0]}, "not 0 everywhere"),
        ({"prior": [math.nan, 1.0]}, "finite"),
        ({"at_most": 10, "prior": ["x"] * 11}, "list of numbers"),
        ({"at_most": 10, "loss": lambda d: d / 0 if False else d * math.inf}, "finite"),
        ({"at_most": 10, "loss": np.ones((3, 3))}, "row for each count"),
        ({"at_most": 6000, "loss": np.ones((6001, 2))}, "up to 5000"),
    ],
)
def test_what_cannot_be_read_is_refused_before_anything_is_spent(tmp_path: Path, more: dict, said: str) -> None:
    session = opened(tmp_path)
    with np.errstate(all="ignore"), pytest.raises(ParameterError, match=said):
        cohort_count(session, "SELECT COUNT(*) FROM visits", epsilon=1, **more)
    assert session.left()["pure"] == 10


def test_only_a_plain_count_is_a_cohort(tmp_path: Path) -> None:
    session = opened(tmp_path)
    for sql in ("SELECT SUM(age) FROM visits", "SELECT age, COUNT(*) FROM visits GROUP BY age"):
        with pytest.raises(TableError, match="plain count"):
            cohort_count(session, sql, epsilon=1, at_most=100)
    with pytest.raises(ParameterError, match="by 3"):
        cohort_count(opened(tmp_path, Unit("id", max_rows=3, capped=True)), "SELECT COUNT(*) FROM visits", epsilon=1, at_most=100)


# --- reading ---


def enumerated(noisy: int, n: int, epsilon: float, prior: np.ndarray, loss) -> int:
    """The oracle: the truncated law by its definition, Bayes' rule, and every answer tried."""
    ratio = math.exp(-epsilon)
    likelihood = []
    for c in range(n + 1):
        if noisy == 0:
            likelihood.append(ratio**c / (1 + ratio))
        elif noisy == n:
            likelihood.append(ratio ** (n - c) / (1 + ratio))
        else:
            likelihood.append((1 - ratio) / (1 + ratio) * ratio ** abs(c - noisy))
    after = np.array(likelihood) * prior
    costs = [sum(after[c] * loss(np.array(float(y - c))) for c in range(n + 1)) for y in range(n + 1)]
    return int(np.argmin(costs))


@pytest.mark.parametrize("loss", [absolute, squared, asymmetric(3, 1), asymmetric(1, 7)])
@pytest.mark.parametrize("noisy", [0, 1, 13, 39, 40])
@pytest.mark.parametrize("prior", [uniform(40), prevalence(0.2, 40), 0.8 ** np.arange(41.0)])
def test_the_answer_is_the_one_of_least_expected_loss(noisy: int, loss, prior: np.ndarray) -> None:
    expected = enumerated(noisy, 40, 0.31, prior, loss)
    assert best_answer(noisy, 40, 0.31, prior=prior, loss=loss) == expected
    matrix = [[float(loss(np.array(float(y - c)))) for y in range(41)] for c in range(41)]
    assert best_answer(noisy, 40, 0.31, prior=prior, loss=matrix) == expected


def test_a_hundred_thousand_counts_are_read_at_once() -> None:
    assert best_answer(5000, 100_000, 0.05, loss=asymmetric(2, 1)) == 5000 - round(math.log(1.5) / 0.05)
    assert posterior(5000, 100_000, 0.05, prevalence(0.05, 100_000)).argmax() == 5000


# --- the older mechanism ---


@pytest.mark.parametrize("costs", [(2, 1, 1, 1), (1, 3, 2, 1), (1, 1, 1, 3), (5, 2, 2, 2)])
def test_the_exponential_mechanism_costs_what_neighbours_can_do(costs: tuple[int, int, int, int]) -> None:
    by_hand = max(
        abs(a - b)
        for c in range(-3, 16)
        for a, b in zip(count_utilities(c, 0, 12, *costs), count_utilities(c + 1, 0, 12, *costs), strict=True)
    )
    assert farthest_utility(12, *costs) == by_hand
    names = dict(zip(("over", "under", "power_over", "power_under"), costs, strict=True))
    plan = exponential_count("3/2", 0, 12, **names)
    assert plan.event(1).epsilon == Fraction(3, 2) and plan.event(2).epsilon == 3


def test_the_exponential_mechanism_draws_its_law() -> None:
    plan = exponential_count(1, 0, 6, over=2)
    drawn = Counter(plan.function(3) for _ in range(4000))
    weights = np.exp(np.array([-3, -2, -1, 0, -2, -4, -6]) / 4)
    # Fails by chance once in 10^5 times.
    assert chi_square([drawn[i] for i in range(7)], weights / weights.sum(), 4000) > 1e-5


def test_the_range_must_be_one() -> None:
    with pytest.raises(ParameterError, match="below high"):
        exponential_count(1, 5, 5)
