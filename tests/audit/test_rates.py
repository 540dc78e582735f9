"""Rates against closed forms, exact binomial tails, and the numbers of chapter 5."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import ApproxDP, ParameterError, account
from tacit.audit.rates import (
    OperatingPoint,
    epsilon_of,
    lower_rate,
    most_accuracy,
    most_advantage,
    most_true_positives,
    mu_of,
    operating_point,
    poisoned_accuracy,
    upper_rate,
)

RATE = st.floats(0, 1)


def at_least(rate: float, hits: int, trials: int) -> float:
    """The chance of `hits` or more successes, by exact summation."""
    p = Fraction(rate)
    return float(sum(math.comb(trials, k) * p**k * (1 - p) ** (trials - k) for k in range(hits, trials + 1)))


@pytest.mark.parametrize("error", [0.05, 1e-6])
@pytest.mark.parametrize(("hits", "trials"), [(1, 10), (5, 10), (10, 10), (3, 40), (39, 40)])
def test_ends_of_the_interval_invert_the_binomial_tail(hits: int, trials: int, error: float) -> None:
    assert at_least(lower_rate(hits, trials, error), hits, trials) == pytest.approx(error, rel=1e-8)
    if hits < trials:
        assert 1 - at_least(upper_rate(hits, trials, error), hits + 1, trials) == pytest.approx(error, rel=1e-6)


@given(RATE, RATE, st.floats(0, 0.5))
def test_epsilon_is_the_least_that_permits_the_rates(fpr: float, tpr: float, delta: float) -> None:
    epsilon = epsilon_of(fpr, tpr, delta)
    assert epsilon >= 0
    if epsilon < 30:
        assert tpr <= math.exp(epsilon) * fpr + delta + 1e-9
        assert 1 - fpr <= math.exp(epsilon) * (1 - tpr) + delta + 1e-9
    if 0.01 < epsilon < 30:
        below = epsilon - 1e-6
        assert tpr > math.exp(below) * fpr + delta - 1e-12 or 1 - fpr > math.exp(below) * (1 - tpr) + delta - 1e-12


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 0.1])
@pytest.mark.parametrize("fpr", [0.001, 0.01, 0.3, 0.9])
def test_the_curve_is_the_accountants(epsilon: float, delta: float, fpr: float) -> None:
    curve, best = account(ApproxDP(epsilon, delta)).tpr(fpr), account(ApproxDP(epsilon, delta)).advantage()
    assert curve.lower * (1 - 1e-12) <= most_true_positives(fpr, epsilon, delta) <= curve.upper * (1 + 1e-12) and curve.width < 1e-5
    assert best.lower * (1 - 1e-12) <= most_advantage(epsilon, delta) <= best.upper * (1 + 1e-12) and best.width < 1e-5
    assert epsilon_of(fpr, most_true_positives(fpr, epsilon, delta), delta) <= epsilon + 1e-9


@pytest.mark.parametrize(("epsilon", "accuracy"), [(0.1, 0.524979), (0.5, 0.622459), (1, 0.731059), (2, 0.880797), (4, 0.982014)])
def test_printed_accuracies(epsilon: float, accuracy: float) -> None:
    assert most_accuracy(epsilon) == pytest.approx(accuracy, abs=5e-7)
    assert poisoned_accuracy(epsilon, 1) == pytest.approx(accuracy, abs=5e-7)


@pytest.mark.parametrize(
    ("fpr", "tpr", "delta", "epsilon"), [(0.01, 0.1, 0, 2.302585), (0.1, 0.5, 1e-5, 1.609418), (0.05, 0.9, 0, 2.890372), (0.5, 0.5, 0, 0)]
)
def test_printed_lower_bounds(fpr: float, tpr: float, delta: float, epsilon: float) -> None:
    assert epsilon_of(fpr, tpr, delta) == pytest.approx(epsilon, abs=5e-7)


def test_poisoned_bound_never_exceeds_one_where_the_printed_one_does() -> None:
    printed = math.exp(2 * 1) / (1 + math.exp(1))
    assert printed > 1.98
    assert all(0.5 < poisoned_accuracy(epsilon, k) <= 1 for epsilon in (0.1, 1, 8) for k in (1, 2, 8, 100))
    assert poisoned_accuracy(math.log(3), 1) == pytest.approx(0.75)


def test_printed_numbers_at_a_delta() -> None:
    assert most_accuracy(1, 0.1) == pytest.approx(0.757953, abs=5e-7)
    assert most_true_positives(0.01, 1, 0.1) == pytest.approx(0.127183, abs=5e-7)


def test_gaussian_rates() -> None:
    assert mu_of(0.01, 0.092362) == pytest.approx(1, abs=1e-5)
    assert mu_of(0.3, 0.2) == 0


@pytest.mark.parametrize("bad", [(-1, 10), (11, 10), (0, 0)], ids=str)
def test_impossible_counts_are_refused(bad: tuple[int, int]) -> None:
    with pytest.raises(ParameterError, match="hits"):
        lower_rate(*bad, 0.05)
    with pytest.raises(ParameterError, match="trials"):
        upper_rate(*bad, 0.05)


@pytest.mark.parametrize("bad", [math.nan, -0.1, 1.1])
def test_rates_outside_zero_and_one_are_refused(bad: float) -> None:
    with pytest.raises(ParameterError, match="fpr"):
        OperatingPoint(bad, 0.5, 0.9)


def test_coverage_over_all_outcomes_of_a_small_experiment() -> None:
    """Summed over every outcome, the chance that the bound exceeds the truth is at most the error; half the error is not enough."""
    n, confidence, epsilon = 30, 0.9, 1.0
    fpr, tpr = 1 / (1 + math.e), math.e / (1 + math.e)  # randomised response: the truth is exactly 1

    def chance(k: int, p: float) -> float:
        return math.comb(n, k) * p**k * (1 - p) ** (n - k)

    def wrong(level: float) -> float:
        return sum(
            chance(f, fpr) * chance(t, tpr)
            for f in range(n + 1)
            for t in range(n + 1)
            if operating_point(false_positives=f, negatives=n, true_positives=t, positives=n, confidence=level).epsilon() > epsilon
        )

    assert wrong(confidence) <= 1 - confidence
    assert wrong(0.0 + 1e-9) > 1 - confidence, "a bound at no confidence must be seen to fail"
