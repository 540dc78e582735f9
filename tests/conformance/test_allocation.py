"""Random allocation: the figures of the research package's brackets, of Poisson sampling at the same rate, and of composed epochs.

The published bounds (Feldman and Shenfeld 2025, numerical method) at noise multiplier 1 and delta 1e-5 are [0.6085, 0.6356] for one of 100
steps and [0.1364, 0.1422] for one of 1000; Poisson sampling at the same rates costs 0.7180 and 0.1490.
"""

from __future__ import annotations

import math

import pytest

from tacit.accounting.engines import compose
from tacit.accounting.engines.allocation import allocation_bracket
from tacit.accounting.pairs import mixture
from tacit.accounting.theorems import gaussian


@pytest.mark.parametrize(
    ("steps", "low", "high", "poisson", "figure"), [(100, 0.6085, 0.6356, 0.7180, 0.620939), (1000, 0.1364, 0.1422, 0.1490, 0.138846)]
)
def test_inside_the_published_bracket_and_below_poisson(steps: int, low: float, high: float, poisson: float, figure: float) -> None:
    found = allocation_bracket(1.0, steps, delta=1e-5)
    assert low < found.lower <= found.upper < high < poisson
    assert found.width <= 2e-6
    assert found.lower <= figure + 1e-6
    assert figure <= found.upper


@pytest.mark.parametrize(
    ("delta", "figure"),
    [(1e-10, 2.0765629), (1e-20, 4.9130738)],
)
def test_small_deltas(delta: float, figure: float) -> None:
    found = allocation_bracket(1.0, 100, delta=delta)
    assert found.width <= 1e-6
    assert abs(found.upper - figure) <= 1e-6


@pytest.mark.parametrize(("epochs", "figure"), [(1, 0.62094), (10, 1.70150), (60, 4.50439)])
def test_epochs(epochs: int, figure: float) -> None:
    found = allocation_bracket(1.0, 100, epochs=epochs, delta=1e-5)
    assert found.width <= 1e-3
    assert found.lower - 1e-5 <= figure <= found.upper + 1e-5
    once = allocation_bracket(1.0, 100, delta=1e-5 / epochs)
    assert found.upper <= epochs * once.upper + 1e-4  # basic composition
    poisson = compose.epsilon([(mixture.poisson_gaussian(0.01, 1.0), 100 * epochs)], 1e-5)
    assert found.upper < poisson.lower


def test_long_epochs_approach_the_gaussian_of_the_second_moment() -> None:
    """With many steps S/t is nearly normal with variance (exp(1/sigma^2) - 1) / t, and the epochs nearly Gaussian with that mu."""
    found = allocation_bracket(10.0, 100_000, delta=1e-5)
    mu = math.sqrt(math.expm1(0.01) / 100_000)
    assert found.upper == pytest.approx(gaussian.epsilon(mu, 1e-5), rel=2e-3)


@pytest.mark.parametrize(("steps", "epochs", "figure"), [(1000, 60, 1.22627), (234, 60, 2.76639)])
def test_long_trainings(steps: int, epochs: int, figure: float) -> None:
    found = allocation_bracket(1.0, steps, epochs=epochs, delta=1e-5)
    assert found.width <= 1e-3
    assert found.lower - 1e-5 <= figure <= found.upper + 1e-5
