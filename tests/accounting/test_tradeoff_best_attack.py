"""The best attack from a profile, against the trade-off curves that have closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from tacit.accounting import ApproxDP, Gaussian, NonPrivate, NoOp, PureDP, account
from tacit.accounting.bound import Bound
from tacit.accounting.theorems import gaussian
from tacit.accounting.tradeoff import attack_at_most, best_attack


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("rate", [1e-4, 0.05, 0.5])
def test_the_gaussian_curve(mu: float, rate: float) -> None:
    def delta(epsilon: float) -> Bound:
        value = float(gaussian.delta(mu, np.array([epsilon]))[0])
        return Bound(value, value, "closed form")

    found, truth = best_attack(delta, rate, 40.0), float(ndtr(mu + ndtri(rate)))
    assert found.lower <= truth * (1 + 1e-9) and truth * (1 - 1e-9) <= found.upper <= truth * (1 + 1e-6)


@pytest.mark.parametrize("rate", [0.01, 0.2, 0.6])
def test_a_pure_guarantee(rate: float) -> None:
    """min(e^eps rate, 1 - e^-eps (1 - rate)), which any epsilon-DP mechanism keeps to and randomised response reaches."""

    def delta(epsilon: float) -> Bound:
        value = max(0.0, (math.e - math.exp(epsilon)) / (1 + math.e), -math.expm1(epsilon))
        return Bound(value, value, "closed form")

    truth = min(math.e * rate, 1 - math.exp(-1) * (1 - rate))
    found = best_attack(delta, rate, 20.0)
    assert found.lower <= truth * (1 + 1e-9) and truth * (1 - 1e-9) <= found.upper <= truth * (1 + 1e-5)
    if rate < 1 / (1 + math.e):  # where the tangent that decides has a slope above 1
        mutant = best_attack(lambda e: Bound(0.0, 0.0, "nothing") if e >= 0 else delta(e), rate, 20.0)
        assert mutant.upper < 0.9 * truth, "delta forgotten"


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_an_early_end_on_gaussian_noise(mu: float) -> None:
    """Phi(Phi^-1(fpr) + mu), from above and closely."""
    truth = float(ndtr(ndtri(0.01) + mu))
    assert truth <= attack_at_most(account(Gaussian(1 / mu)).delta, 0.01) <= truth * 1.01


def test_an_early_end_on_other_events() -> None:
    assert attack_at_most(account(PureDP(1)).delta, 0.01) == pytest.approx(math.e * 0.01, rel=0.01)
    assert attack_at_most(account(ApproxDP(2, 1e-5)).delta, 0.01) == pytest.approx(math.exp(2) * 0.01 + 1e-5, rel=0.01)
    assert attack_at_most(account(NoOp()).delta, 0.01) == pytest.approx(0.01, rel=0.01)
    assert attack_at_most(account(NonPrivate()).delta, 0.01) == 1
