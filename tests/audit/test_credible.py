"""Credible intervals of epsilon: against draws from the posterior, calibrated under their own prior, and narrower than exact ones."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.accounting import ParameterError
from tacit.audit import credible, operating_point, private_probability
from tacit.audit.rates import epsilon_of

COUNTS = {"false_positives": 10, "negatives": 1000, "true_positives": 100, "positives": 1000}


def epsilons(draw: np.random.Generator, counts: dict[str, int], delta: float, size: int) -> np.ndarray:
    """Epsilon of rates drawn from the posterior, both ways round: a test and its complement."""
    fpr = draw.beta(counts["false_positives"] + 0.5, counts["negatives"] - counts["false_positives"] + 0.5, size)
    tpr = draw.beta(counts["true_positives"] + 0.5, counts["positives"] - counts["true_positives"] + 0.5, size)
    return np.array([max(epsilon_of(a, b, delta), epsilon_of(b, a, delta)) for a, b in zip(fpr, tpr, strict=True)])


@pytest.mark.parametrize("delta", [0.0, 0.01])
def test_against_draws_from_the_posterior(delta: float) -> None:
    """20,000 draws: the share below an epsilon is within 4.5 deviations, .016, of the integral."""
    found = epsilons(np.random.default_rng(5), COUNTS, delta, 20_000)
    for epsilon in (1.5, 2.2, 2.8):
        assert private_probability(epsilon, delta, **COUNTS) == pytest.approx(np.mean(found <= epsilon), abs=0.016)
    interval = credible(**COUNTS, delta=delta, confidence=0.9)
    assert np.mean((interval.lower <= found) & (found <= interval.upper)) == pytest.approx(0.9, abs=0.01)


def test_calibrated_under_its_prior_and_a_narrower_one_is_not() -> None:
    """Rates from the prior, counts from the rates: 90 % intervals hold epsilon in 90 % of 60 runs, within 3.5 deviations, .136."""
    draw, held, mutant = np.random.default_rng(6), 0, 0
    for _ in range(60):
        fpr, tpr = draw.beta(0.5, 0.5, 2)
        counts = {"false_positives": int(draw.binomial(60, fpr)), "negatives": 60,
                  "true_positives": int(draw.binomial(60, tpr)), "positives": 60}
        truth = max(epsilon_of(fpr, tpr, 0.0), epsilon_of(tpr, fpr, 0.0))
        wide = credible(**counts, confidence=0.9)
        middle, half = 0.5 * (wide.lower + wide.upper), 0.25 * (wide.upper - wide.lower)
        held += wide.lower <= truth <= wide.upper
        mutant += middle - half <= truth <= middle + half
    assert held / 60 == pytest.approx(0.9, abs=0.136)
    assert mutant / 60 < 0.76


def test_narrower_than_the_exact_bound_and_said_to_be_no_guarantee() -> None:
    exact = operating_point(**COUNTS, confidence=0.95).epsilon(delta=0)
    found = credible(**COUNTS, confidence=0.95)
    assert exact < found.lower < math.log(10) < found.upper
    assert "no guarantee" in str(found) and "Jeffreys" in str(found)


def test_extremes_and_refusals() -> None:
    nothing = credible(false_positives=0, negatives=50, true_positives=0, positives=50)
    assert 0 <= nothing.lower < nothing.upper < math.inf
    clear = credible(false_positives=0, negatives=1000, true_positives=1000, positives=1000)
    assert clear.lower > 5
    for bad in ({"false_positives": 11, "negatives": 10}, {"positives": 0, "true_positives": 0}, {"prior": 0}, {"confidence": 1}):
        with pytest.raises(ParameterError):
            credible(**{**COUNTS, **bad})
