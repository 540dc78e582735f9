"""Sampled Rényi curves, against exact divergences of random finite pairs, brute-force sampling and quadrature."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from tacit.accounting.theorems import subsampled_renyi as sub
from tacit.errors import ParameterError, UnsupportedError

seeds = st.integers(0, 2**32 - 1)
rates = st.sampled_from([1e-3, 0.05, 0.3, 0.6, 0.95])
some_orders = st.one_of(st.integers(2, 12).map(float), st.floats(1.01, 12))


def divergence(p: np.ndarray, q: np.ndarray, orders: object) -> np.ndarray:
    """D_a(P||Q) of two finite distributions with full support, for an array of orders."""
    a = np.asarray(orders, dtype=float)[..., None]
    return logsumexp(a * np.log(p) + (1 - a) * np.log(q), axis=-1) / (a[..., 0] - 1)


def both(p: np.ndarray, q: np.ndarray) -> sub.Curve:
    return lambda a: np.maximum(np.maximum(divergence(p, q, a), divergence(q, p, a)), 0.0)


def pair(seed: int, k: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.full(k, rng.choice([0.3, 1.0, 5.0])), size=2) + 1e-5
    return p / p.sum(), q / q.sum()


def gaussian(sigma: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda a: a / (2 * sigma**2)


# ---- Poisson ----------------------------------------------------------------------------------------------------------------------


@given(seed=seeds, rate=rates, order=st.integers(2, 30))
def test_the_sharp_formula_is_the_divergence_of_the_mixture(seed: int, rate: float, order: int) -> None:
    """With the exact curve of (P, Q) in it, Theorem 3.33 is the binomial expansion of D(qP + (1-q)Q || Q)."""
    p, q = pair(seed)
    truth = divergence(rate * p + (1 - rate) * q, q, order)
    assert sub.poisson([order], rate, lambda a: np.maximum(divergence(p, q, a), 0))[0] == pytest.approx(float(truth), rel=1e-8, abs=1e-14)


@given(seed=seeds, rate=rates, order=some_orders)
def test_every_poisson_bound_holds_in_both_directions(seed: int, rate: float, order: float) -> None:
    p, q = pair(seed)
    base, mixed = both(p, q), rate * p + (1 - rate) * q
    truth = max(float(divergence(mixed, q, order)), float(divergence(q, mixed, order)))
    for bound in (sub.poisson, sub.single_order, sub.analytic, sub.best):
        assert bound([order], rate, base)[0] >= truth - 1e-12
    for factor in (1.0, 1.3, 4.0):  # any auxiliary order is valid
        assert sub.analytic([order], rate, base, auxiliary=factor * order)[0] >= truth - 1e-12
    assert sub.lower([order], rate, lambda a: np.maximum(divergence(p, q, a), 0))[0] <= float(divergence(mixed, q, order)) + 1e-12


@given(seed=seeds, rate=st.floats(0.001, 0.999), order=st.floats(1.01, 40))
def test_adding_is_no_worse_than_removing_from_either_side(seed: int, rate: float, order: float) -> None:
    """Steinke, Theorem 3.34: why one formula may serve both directions when the base bounds both."""
    p, q = pair(seed)
    left = divergence(q, rate * p + (1 - rate) * q, order)
    assert left <= max(divergence(rate * p + (1 - rate) * q, q, order), divergence(rate * q + (1 - rate) * p, p, order)) + 1e-12


def test_tiny_rates_keep_their_digits() -> None:
    with mp.workdps(50):
        q, order = mp.mpf(1e-9), 6
        terms = [mp.binomial(order, k) * (1 - q) ** (order - k) * q**k * mp.exp(mp.mpf(k * (k - 1)) / 2) for k in range(order + 1)]
        truth = mp.log(mp.fsum(terms)) / (order - 1)
        assert float(sub.poisson([6], 1e-9, gaussian(1))[0] / truth - 1) == pytest.approx(0, abs=1e-12)


def test_interpolation_between_integers_is_above_and_below_the_next_integer() -> None:
    orders = np.arange(1.05, 12, 0.05)
    bound, exact = sub.poisson(orders, 0.05, gaussian(1)), sub.gaussian(orders, 0.05, 1)
    following = sub.poisson(np.maximum(2, np.ceil(orders - 1e-9)), 0.05, gaussian(1))
    assert np.all(exact <= bound * (1 + 1e-12)) and np.all(bound <= following * (1 + 1e-12))
    whole = np.arange(2.0, 12)
    assert sub.poisson(whole, 0.05, gaussian(1)) == pytest.approx(sub.gaussian(whole, 0.05, 1), rel=1e-10)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("power", "rate", "mu"),
    [
        *[(2.5, 0.05, 1), (1.01, 0.05, 1), (7.3, 0.01, 2), (30.7, 0.001, 0.2), (3.3, 0.01, 10), (1.001, 1e-3, 0.1)],
        *[(-1.5, 0.05, 1), (-9, 0.5, 1), (-20.5, 0.99, 3), (-0.01, 0.3, 1), (-50.5, 0.999, 0.5)],
    ],
)
def test_gaussian_moments_against_quadrature(power: float, rate: float, mu: float) -> None:
    """Relative error of log E[(1-q+q e^L)^c] at most 1e-11, and never below the truth."""
    with mp.workdps(26):
        c, q, m = mp.mpf(power), mp.mpf(rate), mp.mpf(mu)
        ends = mp.linspace(min(0, power) * mu - 12, max(1, power) * mu + 12, 25 + int(4 * mu))
        moment = mp.quad(lambda z: mp.npdf(z) * ((1 - q) + q * mp.exp(m * z - m * m / 2)) ** c, ends, method="gauss-legendre", maxdegree=5)
        error = float(sub._log_moment(power, rate, mu) / mp.log(moment) - 1)
    assert 0 <= error < 1e-11


def test_gaussian_directions() -> None:
    orders = np.array([1.1, 1.5, 2, 3.7, 8, 40.5, 300])
    for rate, sigma in [(0.01, 0.5), (0.3, 1), (0.9, 3)]:
        remove, add = sub.gaussian(orders, rate, sigma, "remove"), sub.gaussian(orders, rate, sigma, "add")
        assert np.all(add <= remove) and np.all(np.diff(remove) > 0) and np.all(np.diff(add) > 0)
        assert np.all(sub.gaussian(orders, rate, sigma) == remove)
        assert np.all(add <= -math.log1p(-rate))  # the largest loss of the added direction
        assert np.all(remove <= sub.best(orders, rate, gaussian(sigma)) * (1 + 1e-12))
    assert sub.gaussian([2.5], 1, 2.0)[0] == pytest.approx(2.5 / 8) and sub.gaussian([2.5], 0, 2.0)[0] == 0
    assert sub.gaussian([np.inf], 0.3, 1)[0] == math.inf and sub.gaussian([np.inf], 0.3, 1, "add")[0] == pytest.approx(-math.log(0.7))


# ---- fixed size -------------------------------------------------------------------------------------------------------------------


@settings(max_examples=20)
@given(seed=seeds, n=st.integers(2, 5), data=st.data(), order=some_orders)
def test_fixed_size_bounds_on_random_mechanisms(seed: int, n: int, data: st.DataObject, order: float) -> None:
    """All samples of size m from n records, a random output law for each: the bounds hold for the exact mixtures."""
    m = data.draw(st.integers(1, n))
    rng = np.random.default_rng(seed)
    concentration = rng.choice([0.5, 2.0, 20.0])
    laws = {}
    for sample in itertools.combinations(range(n + 1), m):
        law = rng.dirichlet(np.full(3, concentration)) + 1e-4
        laws[sample] = law / law.sum()
    neighbours = [(laws[x], laws[y]) for x in laws for y in laws if len(set(x) & set(y)) == m - 1]
    stacked = np.array([x for x, _ in neighbours]), np.array([y for _, y in neighbours])

    def base(orders: np.ndarray) -> np.ndarray:
        a = np.atleast_1d(np.asarray(orders, dtype=float))[:, None, None]
        values = logsumexp(a * np.log(stacked[0]) + (1 - a) * np.log(stacked[1]), axis=2) / (a[..., 0] - 1)
        return np.maximum(values.max(axis=1), 0).reshape(np.shape(orders))

    pure = float(np.max(np.abs(np.log(stacked[0] / stacked[1]))))
    p = np.mean([laws[s] for s in itertools.combinations(range(n), m)], axis=0)
    q = np.mean([laws[s] for s in itertools.combinations((*range(n - 1), n), m)], axis=0)
    truth = max(float(divergence(p, q, order)), float(divergence(q, p, order)))
    for bound in (sub.without_replacement_group, sub.without_replacement_moments, sub.without_replacement_convex):
        assert bound([order], m / n, base)[0] >= truth - 1e-12
    assert sub.without_replacement_moments([order], m / n, base, pure)[0] >= truth - 1e-12
    assert sub.best([order], m / n, base, "without replacement", pure)[0] >= truth - 1e-12
    assert np.log(p / q).max() <= sub.without_replacement_convex([np.inf], m / n, lambda a: np.full(np.shape(a), pure))[0] + 1e-12


@pytest.mark.parametrize(("rate", "sigma", "order"), [(0.01, 2.0, 2), (0.1, 1.0, 3), (0.3, 1.5, 6), (0.5, 3.0, 12)])
def test_fixed_size_bounds_on_three_gaussians(rate: float, sigma: float, order: int) -> None:
    """Samples without the record, with it, and with its replacement, at mutual distance 1 in the plane; summed over a grid."""
    grid = np.arange(-6 * sigma - order, 6 * sigma + order, sigma / 8)
    x, y = np.meshgrid(grid, grid)

    def log_density(a: float, b: float) -> np.ndarray:
        return -((x - a) ** 2 + (y - b) ** 2) / (2 * sigma**2) - math.log(2 * math.pi * sigma**2) + 2 * math.log(sigma / 8)

    rest = log_density(0, 0) + math.log1p(-rate)
    p = np.logaddexp(rest, log_density(1, 0) + math.log(rate))
    q = np.logaddexp(rest, log_density(0.5, math.sqrt(0.75)) + math.log(rate))
    truth = float(logsumexp(order * p + (1 - order) * q)) / (order - 1)
    for bound in (sub.without_replacement_group, sub.without_replacement_moments, sub.without_replacement_convex):
        assert bound([order], rate, gaussian(sigma))[0] >= truth
    assert sub.best([order], rate, gaussian(sigma), "without replacement")[0] < 8 * truth  # and they are not absurd


# ---- shape ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["poisson", "without replacement"])
def test_best_is_monotone_and_never_above_the_base(scheme: sub.Scheme) -> None:
    orders = np.array([1.01, 1.5, 2, 2.5, 3, 7, 20.5, 64, 300, 1024, 20_000, 1e6])
    previous = np.zeros(orders.shape)
    for rate in (0, 1e-6, 1e-3, 0.05, 0.3, 0.7, 1):
        value = sub.best(orders, rate, gaussian(2), scheme)
        assert np.all(value <= gaussian(2)(orders)) and np.all(value >= previous * (1 - 1e-9)) and np.all(np.isfinite(value))
        previous = value
    assert np.all(sub.best(orders, 0, gaussian(2), scheme) == 0)
    assert sub.best(orders, 1, gaussian(2), scheme) == pytest.approx(gaussian(2)(orders), rel=1e-12)


def test_orders_up_to_infinity() -> None:
    assert sub.poisson([512], 0.01, gaussian(0.5))[0] == pytest.approx(1019.385818, rel=1e-9)
    assert np.isfinite(sub.poisson([4096.5], 0.01, gaussian(0.05))[0]) and sub.poisson([1e6], 0.01, gaussian(1))[0] == math.inf
    flat: sub.Curve = lambda a: np.full(np.shape(a), 0.5)  # noqa: E731
    for bound in (sub.poisson, sub.best):
        assert bound([np.inf], 0.1, flat)[0] == pytest.approx(math.log1p(0.1 * math.expm1(0.5)))
    assert sub.poisson([[2, 3], [4, 5]], 0.1, flat).shape == (2, 2)


def test_infinite_divergences_are_values() -> None:
    cut: sub.Curve = lambda a: np.where(np.asarray(a) <= 4, np.asarray(a) / 2, np.inf)  # noqa: E731
    value = sub.best([2, 4, 5], 0.1, cut)
    assert np.all(np.isfinite(value[:2])) and value[2] == math.inf
    assert sub.best([5], 0.1, cut, "without replacement")[0] == math.inf and sub.best([5], 0, cut)[0] == 0


def test_the_planning_theorem_holds_where_it_applies() -> None:
    for rate, rho in [(1e-3, 0.1), (1e-4, 0.5), (1e-5, 0.3)]:
        scale, limit = sub.truncated_concentrated(rate, rho)
        orders = np.linspace(1.05, limit - 1e-9, 20)
        assert np.all(sub.gaussian(orders, rate, 1 / math.sqrt(2 * rho)) <= scale * orders)
    for rate, rho in [(0.05, 0.5), (0.01, 0.05), (0.6, 0.1), (1e-3, 1.5)]:
        with pytest.raises(UnsupportedError, match="best"):
            sub.truncated_concentrated(rate, rho)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: sub.poisson([1.0], 0.1, gaussian(1)), "orders"),
        (lambda: sub.poisson([math.nan], 0.1, gaussian(1)), "orders"),
        (lambda: sub.poisson([2.0], -0.1, gaussian(1)), "rate"),
        (lambda: sub.poisson([2.0], 0.1, lambda a: a * math.nan), "base"),
        (lambda: sub.poisson([2.0], 0.1, lambda a: -a), "base"),
        (lambda: sub.analytic([4.0], 0.1, gaussian(1), auxiliary=3.0), "auxiliary"),
        (lambda: sub.gaussian([4.0], 0.1, 0), "noise_multiplier"),
        (lambda: sub.gaussian([4.0], 0.1, 1, "sideways"), "direction"),  # type: ignore[arg-type]
        (lambda: sub.best([4.0], 0.1, gaussian(1), "shuffled"), "scheme"),  # type: ignore[arg-type]
        (lambda: sub.truncated_concentrated(0, 0.1), "rate"),
    ],
)
def test_bad_input_names_the_parameter(call: Callable[[], object], word: str) -> None:
    with pytest.raises(ParameterError, match=word):
        call()
