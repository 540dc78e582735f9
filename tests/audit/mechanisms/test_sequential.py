"""Stopping when it is clear: bounds that hold however often one looks; the naive ones do not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import beta as beta_law
from scipy.stats import binom

from tacit.accounting import ParameterError
from tacit.audit.claim import Claim
from tacit.audit.experiment import Generator, generator
from tacit.audit.mechanisms.sequential import audit_until, log_wealth, running_lower, running_upper
from tacit.audit.rates import lower_rate


def laplace(shift: float, epsilon: float, coins: Generator) -> Callable[[int], Any]:
    return lambda n: shift + coins.laplace(0.0, 1 / epsilon, n)


@given(st.integers(0, 30), st.integers(0, 30), st.floats(0.05, 0.95))
def test_the_wealth_is_the_mixture_by_quadrature(hits: int, misses: int, rate: float) -> None:
    """The average of the likelihood ratio over Jeffreys' law above the rate, integrated numerically."""
    weight = beta_law(0.5, 0.5).sf(rate)

    def integrand(angle: float) -> float:
        q = math.sin(angle) ** 2  # takes the two poles of the prior away: dq / (pi sqrt(q (1 - q))) = 2 / pi dangle
        ratio = hits * math.log(max(q, 1e-300) / rate) + misses * math.log(max(1 - q, 1e-300) / (1 - rate))
        return 2 / math.pi * math.exp(ratio)

    value = quad(integrand, math.asin(math.sqrt(rate)), math.pi / 2, limit=200)[0] / weight
    assert log_wealth(hits, misses, rate) == pytest.approx(math.log(value), abs=1e-6)


def test_the_wealth_is_a_fair_wager_at_its_rate_and_a_losing_one_below() -> None:
    """Exactly, over all outcomes of twelve tosses: the mean wealth is 1 or less for every rate that is not above."""
    for rate in (0.1, 0.5, 0.8):
        for truth in (rate, rate / 2):
            mean = math.fsum(binom.pmf(k, 12, truth) * math.exp(log_wealth(k, 12 - k, rate)) for k in range(13))
            assert mean <= 1 + 1e-9
        winning = math.fsum(binom.pmf(k, 12, min(1, rate * 1.5)) * math.exp(log_wealth(k, 12 - k, rate)) for k in range(13))
        assert winning > 1


@given(st.integers(1, 200), st.data())
def test_bounds_are_ordered_and_wider_than_those_of_one_look(trials: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, trials))
    low, high = running_lower(hits, trials, 0.05), running_upper(hits, trials, 0.05)
    assert 0 <= low <= hits / trials <= high <= 1
    assert low <= lower_rate(hits, trials, 0.05) + 1e-9


@given(st.integers(1, 200), st.data(), st.floats(0.01, 0.99))
def test_the_bound_is_above_a_rate_where_the_wager_against_it_is_won(trials: int, data: st.DataObject, rate: float) -> None:
    hits = data.draw(st.integers(0, trials))
    low = running_lower(hits, trials, 0.05)
    if abs(low - rate) > 1e-6 and rate < hits / trials:
        assert (low > rate) == (log_wealth(hits, trials - hits, rate) >= math.log(20))


def ever_wrong(wrong: Callable[[int, int, float], bool], runs: int, coins: Generator, rate: float) -> int:
    """In how many runs the bound is above the truth at some moment of the first thousand tosses."""
    looks = np.unique(np.geomspace(5, 1000, 60).astype(int))
    found = 0
    for _ in range(runs):
        hits = np.cumsum(coins.random(1000) < rate)
        found += any(wrong(int(hits[n - 1]), int(n), rate) for n in looks)
    return found


def test_at_no_moment_wrong_more_often_than_stated_and_the_naive_bound_is() -> None:
    most = int(binom.ppf(1 - 1e-4, 300, 0.05))

    def ours(hits: int, n: int, rate: float) -> bool:
        return log_wealth(hits, n - hits, rate) >= math.log(20)  # the bound is above the rate: see the test before

    for rate in (0.02, 0.3, 0.9):
        assert ever_wrong(ours, 300, generator(1), rate) <= most
    naive = ever_wrong(lambda hits, n, rate: lower_rate(hits, n, 0.05) > rate, 300, generator(1), 0.3)
    assert naive > 2 * most, "the mutant: Clopper and Pearson looked at again and again"


def test_a_wrong_claim_is_refuted_early() -> None:
    coins = generator(2)
    found = audit_until(Claim.of(epsilon=1), laplace(0, 2, coins), laplace(1, 2, coins), budget=200_000, confidence=0.99)
    assert found.reason == "refuted" and found.verdict.broken and found.evidence.trials < 20_000
    assert "BROKEN" in str(found) and found.evidence.details["looks"] == found.looks


def test_a_tight_claim_ends_when_the_bound_is_close() -> None:
    coins = generator(3)
    found = audit_until(Claim.of(epsilon=1), laplace(0, 1, coins), laplace(1, 1, coins), budget=400_000, share=0.9)
    assert found.reason == "close" and 0.9 <= found.evidence.lower <= 1 and found.evidence.trials < 100_000


def test_a_loose_claim_uses_up_the_budget() -> None:
    coins = generator(4)
    found = audit_until(Claim.of(epsilon=3), laplace(0, 1, coins), laplace(1, 1, coins), budget=20_000)
    assert found.reason == "budget" and found.evidence.trials == 20_000 and not found.verdict.broken


def test_a_claim_of_mu_is_judged_as_one() -> None:
    coins = generator(5)

    def gaussian(shift: float) -> Callable[[int], Any]:
        return lambda n: coins.normal(shift, 1.0, n)

    assert audit_until(Claim.of(mu=0.7), gaussian(0), gaussian(1), budget=50_000).reason == "refuted"
    right = audit_until(Claim.of(mu=1), gaussian(0), gaussian(1), budget=100_000)
    assert right.reason == "close" and right.evidence.measure == "mu" and right.evidence.lower <= 1


def false_alarms(runs: int) -> int:
    coins = generator(6)
    claim = Claim.of(epsilon=1)
    return sum(
        audit_until(claim, laplace(0, 1, coins), laplace(1, 1, coins), budget=3000, explore=400, batch=100, share=2).verdict.broken
        for _ in range(runs)
    )


def test_a_true_claim_is_rarely_refuted() -> None:
    assert false_alarms(60) <= int(binom.ppf(1 - 1e-3, 60, 0.05))


@pytest.mark.slow
def test_a_true_claim_is_rarely_refuted_in_a_thousand_audits() -> None:
    assert false_alarms(1000) <= int(binom.ppf(1 - 1e-3, 1000, 0.05))


def test_texts_mean_the_same_in_every_batch() -> None:
    """Outputs are known again by what they are, not by when they were first seen."""
    coins = generator(7)

    def words(p: float) -> Callable[[int], list[str]]:
        return lambda n: np.where(coins.random(n) < p, "yes", "no").tolist()

    found = audit_until(Claim.of(epsilon=1), words(0.1), words(0.9), budget=20_000)
    assert found.reason == "refuted" and found.evidence.lower > 1


def test_refusals() -> None:
    with pytest.raises(ParameterError, match="between 0 and trials"):
        running_lower(3, 2, 0.05)
