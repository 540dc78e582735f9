"""The cases of estimators: under their price, at their floor, and a fit that is sold too cheaply is caught by the same attack."""

from __future__ import annotations

from functools import partial

import pytest

from tacit.audit.claim import Claim
from tacit.audit.mechanisms.outputs import outcomes
from tacit.audit.selftest.case import between
from tacit.audit.selftest.estimator_cases import DELTA, FLOORS, NOBODY, ONE, cases, estimators, seen

#: Sums, choices, and sums with a penalty.
FAST = ["GaussianNB", "DecisionTreeClassifier", "Ridge"]


def caught(name: str, trials: int) -> bool:
    """The mutant: a fit at epsilon 300 that says it was one at epsilon 1."""
    worlds = [outcomes(partial(seen, name, epsilon=300), data) for data in (NOBODY, ONE)]
    return between(name, Claim.of(epsilon=1), worlds, 0.0, delta=DELTA).tried(trials=trials, error=1e-4, seed=1).verdict.broken


@pytest.mark.parametrize("name", FAST)
def test_a_price_that_is_too_low_is_caught(name: str) -> None:
    assert caught(name, 200)


@pytest.mark.slow
def test_prices_that_are_too_low_are_caught() -> None:
    assert [name for name in estimators() if not caught(name, 300)] == []


def test_a_fit_tells_no_more_than_its_price() -> None:
    """One here; all of them, with their floors, among the slow tests."""
    (case,) = (case for case in cases() if case.name == "learning: GaussianNB")
    assert not case.tried(trials=300, error=1e-6, seed=2).verdict.broken


@pytest.mark.slow
def test_all_estimators_reach_their_floors() -> None:
    outcomes_of = [case.tried(error=1e-7, seed=77 + place) for place, case in enumerate(cases())]
    assert [(found.case.name, found.reason) for found in outcomes_of if not found.passed] == []


def test_floors_are_of_estimators() -> None:
    assert set(FLOORS) <= set(estimators()) and all(0 < floor < 1 for floor in FLOORS.values())
