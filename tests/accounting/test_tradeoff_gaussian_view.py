"""The fit of a mu to a profile: it finds the mu it was made from, and covers a profile that no mu matches."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.accounting.bound import Bound
from tacit.accounting.theorems import gaussian
from tacit.accounting.tradeoff import fitted


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_a_gaussian_profile_gives_its_mu_and_no_regret(mu: float) -> None:
    def profile(epsilon: float) -> Bound:
        value = float(gaussian.delta(mu, np.array([epsilon]))[0])
        return Bound(value, value, "closed form")

    found = fitted(profile, gaussian.epsilon(mu, 1e-10), 1e-10)
    assert found.mu.lower <= mu * (1 + 1e-9) and mu * (1 - 1e-6) <= found.mu.upper <= mu * 1.1
    assert found.mu.lower >= mu * (1 - 1e-6) and found.regret < 0.01


def test_every_point_of_a_pure_profile_is_covered() -> None:
    """Randomised response of epsilon 1: delta(eps) = (e - e^eps) / (1 + e). The mutant, a tenth less, leaves points bare."""

    def exact(epsilon: float) -> float:
        return max(0.0, (math.e - math.exp(epsilon)) / (1 + math.e))

    found = fitted(lambda e: Bound(exact(e), exact(e), "closed form"), 1.0, 1e-10)
    points = np.linspace(0, 1, 301)
    truth = np.array([exact(float(e)) for e in points])
    assert (truth <= gaussian.delta(found.mu.upper, points) + 1e-10).all()
    assert (truth > gaussian.delta(0.9 * found.mu.lower, points) + 1e-10).any()
    assert found.regret > 0.01, "two levels are not a bell"
