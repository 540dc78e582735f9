"""Tail bounds hold: of the characteristic function at every sampled frequency, of the loss by simulation and by moments."""

import math

import numpy as np
import pytest

from tacit.accounting.engines.contour import binned, find_jumps, geometric, tail
from tacit.accounting.pairs.laplace import bounded_range, laplace
from tacit.accounting.pairs.mixture import poisson_gaussian
from tacit.accounting.pairs.sampled import FixedSizeGaussian

PAIRS = [laplace(0.3), laplace(1.0).sampled(0.2), bounded_range(0.7), FixedSizeGaussian(0.1, 1.0)]


@pytest.mark.parametrize("pair", PAIRS, ids=repr)
@pytest.mark.parametrize("c", [0.5, 3.0])
def test_tail_bounds_every_higher_frequency(pair, c: float) -> None:
    nodes = pair.nodes(c, 256.0)
    t = np.geomspace(0.05, 250, 400)
    size = np.abs(np.exp(1j * t[:, None] * nodes.loss) @ nodes.weight)
    later = np.maximum.accumulate(size[::-1])[::-1]
    for x, worst in zip(t[::20], later[::20], strict=True):
        assert tail(pair, c, float(x)) >= worst - 1e-12


def test_binned_moments_are_upper_bounds_and_close() -> None:
    pair = poisson_gaussian(0.05, 1.0)
    place, mass = binned(pair, 40.0)
    assert mass.sum() == pytest.approx(1, abs=1e-12)
    for c in (0.5, 2.0, -1.0, -3.0):
        bound = math.log(float(np.dot(mass, np.exp(c * place))))
        assert pair.kappa(c) - 1e-12 <= bound <= pair.kappa(c) + 1e-3 * max(abs(pair.kappa(c)), 1e-3)


def test_jumps_bound_the_tail_of_a_simulated_sum() -> None:
    """10,000 sums of 200 losses, fixed seed: the bound fails at a point only if the empirical tail exceeds it by five standard errors."""
    rng = np.random.default_rng(7)
    pair = poisson_gaussian(0.01, 0.5)
    sampled = rng.random((10_000, 200)) < 0.01
    u = rng.standard_normal((10_000, 200)) + 2.0 * sampled
    total = pair.loss(u.ravel()).reshape(u.shape).sum(axis=1)
    jumps = find_jumps([(pair, 200)], 20.0)
    for x, bound in zip(jumps.x, np.exp(jumps.log_tail), strict=True):
        share = float(np.mean(total > x))
        assert share <= bound + 5 * math.sqrt(share * (1 - share) / 10_000)


def test_geometric_series() -> None:
    assert geometric(np.array([0.0]), np.array([math.log(2)])) == pytest.approx(2)
    assert geometric(np.empty(0), np.empty(0)) == math.inf
