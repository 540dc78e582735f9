"""One epoch as a pair: on its side of the truth, in both directions, and of the protocol of pairs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from tacit.accounting.engines import allocation, lattice
from tacit.accounting.engines.allocation import allocation_bracket, epoch_laws
from tacit.accounting.engines.stop_loss import COARSE, POINTS, delta_once
from tacit.accounting.pairs.likelihood_ratio import GaussianRatio


def one_of_two(sigma: float, sign: int, epsilon: float) -> float:
    """delta when a record in one of two steps is removed (sign 1) or added.

    The trapezoidal rule over one output, closed forms for the other.
    """
    z = np.arange(-38.0, 38.0, 1e-3)
    y, k = np.exp(z / sigma - 0.5 / sigma**2), 2 * math.exp(sign * epsilon)
    left = k - y  # the other ratio less this, or this less the other ratio
    with np.errstate(divide="ignore", invalid="ignore"):
        d = sigma * np.log(left) + 0.5 / sigma
    if sign > 0:
        value = np.where(left > 0, norm.sf(d - 1 / sigma) - left * norm.sf(d), 1 - left)
    else:
        value = np.where(left > 0, left * norm.cdf(d) - norm.cdf(d - 1 / sigma), 0.0)
    return float((norm.pdf(z) * value).sum()) * 1e-3 / 2 * (1 if sign > 0 else math.exp(epsilon))


def curve(
    rounding: str, sigma: float, steps: int, sign: int, step: float, most: int = COARSE
) -> lattice.Composition:
    pair = epoch_laws(GaussianRatio(sigma), steps, step, 1e-25, most)[rounding == "up"]
    found = (pair if sign > 0 else pair.reverse()).lattice()
    assert found is not None
    return lattice.compose([(found, 1)])


@pytest.mark.parametrize("rounding", ["up", "down"])
def test_the_pair_of_one_epoch_is_on_its_side_of_the_truth(rounding: str) -> None:
    pair = epoch_laws(GaussianRatio(1.0), 50, 1e-3, 1e-15)[rounding == "up"]
    for direction, sign in ((pair, 1), (pair.reverse(), -1)):
        assert direction.p.sum() + direction.infinite == pytest.approx(1, abs=1e-9)
        composition = lattice.compose([(direction.lattice() or lattice.Lattice(1.0, 0.0, 0, np.ones(1)), 1)])
        for epsilon in (-0.3, 0.0, 0.1, 0.33, 0.5, 1.0):
            if epsilon >= 0:
                lower, upper = delta_once(GaussianRatio(1.0), 50, epsilon, sign, 1e-7)
            else:
                other = delta_once(GaussianRatio(1.0), 50, -epsilon, -sign, 1e-7)
                lower, upper = (1 - math.exp(epsilon) + math.exp(epsilon) * x for x in other)
            found = composition.delta(epsilon)
            if rounding == "up":
                assert found.upper >= lower
            else:
                assert found.lower <= upper
            assert found.upper == pytest.approx(upper, rel=2e-3)


def test_the_pair_knows_the_protocol() -> None:
    pair = epoch_laws(GaussianRatio(1.0), 10, 5e-3, 1e-12)[1].reverse()
    losses, masses = pair.atoms()
    assert pair.support() == (losses[0], losses[-1])
    assert pair.kappa(0.0) == pytest.approx(math.log1p(-pair.infinite), abs=1e-9)
    assert pair.kappa(1.0) == pytest.approx(math.log(float(masses @ np.exp(losses))), rel=1e-9)


@pytest.mark.parametrize("alike", [0.07, 3.0])
@pytest.mark.parametrize("sign", [1, -1])
def test_plans_that_are_used_again_leave_the_pair_on_its_side(
    sign: int, alike: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two steps of little noise, far out, against quadrature; plans hardly ever made anew are as sound."""
    monkeypatch.setattr(allocation, "_ALIKE", alike)
    epoch_laws.cache_clear()
    lower, upper = (curve(rounding, 0.2, 2, sign, 1 / 56) for rounding in ("down", "up"))
    epoch_laws.cache_clear()
    for epsilon in (0.0, 0.4, 3.0, 11.0, 21.0, 31.0, 41.0):
        exact = one_of_two(0.2, sign, epsilon)
        assert lower.delta(epsilon).lower <= exact * (1 + 1e-9)
        assert upper.delta(epsilon).upper >= exact * (1 - 1e-9)
        if alike < 1 and exact > 1e-15:
            assert upper.delta(epsilon).upper - lower.delta(epsilon).lower < 0.01 * exact


@pytest.mark.parametrize("sign", [1, -1])
def test_short_windows_of_many_steps_agree_with_one_epoch_solved_directly(sign: int) -> None:
    """Of a hundred thousand steps windows are halved until large jumps do not make their lattice coarse."""
    lower, upper = (curve(rounding, 1.0, 100_000, sign, 4e-5, POINTS // 4) for rounding in ("down", "up"))
    for epsilon in (0.003, 0.01):
        least, most = delta_once(GaussianRatio(1.0), 100_000, epsilon, sign, 1e-7)
        assert lower.delta(epsilon).lower <= most and least <= upper.delta(epsilon).upper
        # one removed would be 0.026 and 0.1 wide were no window halved
        assert upper.delta(epsilon).upper - lower.delta(epsilon).lower < 0.005 * most


def test_a_million_steps_get_a_bracket() -> None:
    """Windows too coarse for so little delta are made finer, and losses are looked at up to the largest."""
    found = allocation_bracket(1.0, 10**6, epochs=100, delta=1e-10)
    assert found.width < 2e-3 * found.upper
    assert found.upper < allocation_bracket(1.0, 10**5, epochs=100, delta=1e-10).lower
    assert found.lower > allocation_bracket(1.0, 10**6, epochs=80, delta=1e-10).upper
    found = allocation_bracket(0.2, 10**6, epochs=10**5, delta=1e-15)
    assert found.width < 3e-5 * found.upper
    assert found.upper < 242_357 < 1_262_555  # of 10^5 steps, and were the steps known
