"""Sampling as a map on pairs: against exact enumeration, and the profile theorems of Balle, Barthe and Gaboardi."""

import numpy as np
import pytest

from tacit.accounting.pairs.finite import FinitePair
from tacit.accounting.pairs.laplace import laplace
from tacit.accounting.pairs.mixture import gaussian, poisson_gaussian
from tacit.accounting.pairs.pair import single_delta
from tacit.accounting.pairs.sampled import FixedSizeGaussian, Mirrored, PoissonPair, Revealed, poisson
from tacit.accounting.theorems import amplification

GRID = np.linspace(0, 3, 13)


def _hockey(p: np.ndarray, q: np.ndarray, eps: float) -> float:
    return float(np.maximum(p - np.exp(eps) * q, 0).sum())


@pytest.mark.parametrize("seed", range(5))
def test_poisson_pair_of_a_finite_mechanism_by_enumeration(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(6)), rng.dirichlet(np.ones(6))
    order = np.argsort(p / q)
    p, q = p[order], q[order]
    base = FinitePair(np.log(p / q), np.log(p))
    remove, add = poisson(base, base.reverse(), 0.2)
    mixed = 0.8 * q + 0.2 * p
    for eps in GRID:
        for pair, (a, b) in ((remove, (mixed, q)), (add, (q, mixed))):
            low, high = single_delta(pair, float(eps))
            assert low - 1e-12 <= _hockey(a, b, float(eps)) <= high + 1e-12


def test_poisson_pair_equals_the_closed_forms() -> None:
    generic, special = PoissonPair(gaussian(1.0), 0.1), poisson_gaussian(0.1, 1.0)
    edges = np.linspace(-0.1, 3, 50)
    for a, b in zip(generic.masses(edges), special.masses(edges), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-15)
    for c in (0.5, 2.0):
        assert special.kappa(c) <= generic.kappa(c) <= special.kappa(c) * 1.001  # binned from above
    sampled = laplace(2.0).sampled(0.3)
    for eps in (0.0, 0.3, 1.0):
        assert single_delta(PoissonPair(laplace(2.0), 0.3), eps)[1] == pytest.approx(single_delta(sampled, eps)[1], rel=1e-10)


def test_fixed_size_profile_is_theorem_9() -> None:
    profile = amplification.without_replacement(amplification.gaussian_profile(1.5), 100, 10)
    for pair in (FixedSizeGaussian(0.1, 1.5), Mirrored(PoissonPair(gaussian(1 / 1.5), 0.1))):
        for eps in GRID:
            low, high = single_delta(pair, float(eps))
            assert low - 1e-14 <= profile(float(eps)) <= high + 1e-14


def test_mirrored_pairs_are_symmetric() -> None:
    pair = FixedSizeGaussian(0.2, 1.0)
    p, q = pair.masses(np.array([-np.inf, -0.5, 0.0, 0.5, np.inf]))
    np.testing.assert_allclose(p, q[::-1], rtol=1e-12)
    _, mass = pair.atoms()
    assert p.sum() + mass.sum() == pytest.approx(1)
    assert pair.kappa(2.0) == pytest.approx(pair.kappa(-3.0), rel=1e-12)  # the same law read from the other side


def test_fixed_size_quadrature_against_the_binned_upper_bound() -> None:
    exact = FixedSizeGaussian(0.05, 2.0)
    binned = Mirrored(poisson_gaussian(0.05, 0.5))
    for c in (0.5, 2.0, 6.0):
        assert exact.kappa(c) <= binned.kappa(c) <= exact.kappa(c) * 1.01
    for t in (0.5, 3.0, 20.0):
        nodes = exact.nodes(1.0, 64.0)
        assert abs(np.sum(nodes.weight * np.exp(1j * t * nodes.loss))) <= exact.decay(1.0, t) + 1e-12


def test_revealed_mixture_is_the_average() -> None:
    parts, weights = [gaussian(1.0), gaussian(0.5)], [0.75, 0.25]
    for eps in GRID:
        average = sum(w * single_delta(p, float(eps))[1] for p, w in zip(parts, weights, strict=True))
        assert single_delta(Revealed(parts, weights), float(eps))[1] == pytest.approx(average, rel=1e-10, abs=1e-15)
