"""Curves against enumeration and quadrature, and their combinations against the divergences of random pairs."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting.theorems import conversions, gaussian, renyi
from tacit.errors import ParameterError

orders_above_one = st.floats(-3, 3).map(lambda x: 1 + 10.0**x)


def pairs(rng, count, size=4):
    """Random pairs of distributions, some of them far apart."""
    for _ in range(count):
        sharp = rng.uniform(0.1, 3)
        yield rng.dirichlet(np.full(size, sharp)) * 0.999 + 0.001 / size, rng.dirichlet(np.full(size, sharp)) * 0.999 + 0.001 / size


def divergence(a, p, q):
    """log sum p^a q^(1-a) / (a-1), digit by digit."""
    with mp.workdps(60):
        a = mp.mpf(a)
        return mp.log(mp.fsum(mp.mpf(x) ** a * mp.mpf(y) ** (1 - a) for x, y in zip(p, q, strict=True))) / (a - 1)


# --- curves -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("x", [-700.0, -0.5, -0.1, -1e-9, 0.0, 1e-9, 0.3, 0.5, 20.0])
def test_the_excess_of_the_exponential_keeps_its_digits(x):
    with mp.workdps(60):
        truth = mp.exp(mp.mpf(x)) - 1 - mp.mpf(x)
    assert float(renyi.exp_excess(np.asarray(x))) == pytest.approx(float(truth), rel=1e-14)


@settings(max_examples=100, deadline=None)
@given(orders_above_one, st.floats(-8, 2).map(lambda x: 10.0**x))
def test_randomised_response_closed_form(a, eps):
    with mp.workdps(80):
        x, e = mp.mpf(a), mp.mpf(eps)
        truth = mp.log((mp.exp(x * e) + mp.exp((1 - x) * e)) / (1 + mp.exp(e))) / (x - 1)
    assert float(renyi.randomised_response(a, eps)) == pytest.approx(float(truth), rel=1e-13)


@settings(deadline=None)
@given(orders_above_one, st.floats(-8, 2).map(lambda x: 10.0**x))
def test_laplace_closed_form(a, theta):
    with mp.workdps(80):
        x, t = mp.mpf(a), mp.mpf(theta)
        truth = mp.log(x / (2 * x - 1) * mp.exp((x - 1) * t) + (x - 1) / (2 * x - 1) * mp.exp(-x * t)) / (x - 1)
    assert float(renyi.laplace(a, theta)) == pytest.approx(float(truth), rel=1e-13)


def test_laplace_by_quadrature():
    for a, theta in ((1.5, 1.0), (4.0, 0.3)):
        with mp.workdps(30):
            value = mp.quad(lambda x, a=a, t=theta: mp.exp(-a * abs(x) - (1 - a) * abs(x - t)) / 2, [-60, 0, theta, 60])
        assert float(renyi.laplace(a, theta)) == pytest.approx(float(mp.log(value)) / (a - 1), rel=1e-12)


def test_gaussians_of_unequal_variance_by_quadrature():
    for a, shift, s, t in ((2.0, 1.0, 1.0, 1.3), (1.5, 0.5, 2.0, 1.5), (3.0, 0.0, 1.0, 2.0)):
        with mp.workdps(30):
            value = mp.quad(lambda x, a=a, m=shift, s=s, t=t: mp.npdf(x, m, s) ** a * mp.npdf(x, 0, t) ** (1 - a), [-60, 0, 60])
        assert float(renyi.gaussian_unequal(a, shift, s, t)) == pytest.approx(float(mp.log(value)) / (a - 1), rel=1e-10)
    assert float(renyi.gaussian_unequal(3.0, 1.0, 2.0, 1.0)) == math.inf
    kl = mp.quad(lambda x: mp.npdf(x, 1, 2) * mp.log(mp.npdf(x, 1, 2) / mp.npdf(x, 0, 3)), [-40, 1, 40])
    assert float(renyi.gaussian_unequal(1.0, 1.0, 2.0, 3.0)) == pytest.approx(float(kl), rel=1e-10)


@pytest.mark.parametrize(("sigma", "step"), [(0.5, 1), (0.7, 3), (2.0, 2)])
def test_discrete_gaussian_by_enumeration(sigma, step):
    x = range(-80, 81)
    with mp.workdps(40):
        p = [mp.exp(-mp.mpf(i) ** 2 / (2 * mp.mpf(sigma) ** 2)) for i in x]
        q = [mp.exp(-mp.mpf(i - step) ** 2 / (2 * mp.mpf(sigma) ** 2)) for i in x]
        p, q = [v / mp.fsum(p) for v in p], [v / mp.fsum(q) for v in q]
    for a in (1.2, 1.5, 2.0, 3.3):
        value = float(renyi.discrete_gaussian(a, sigma, step))
        assert value == pytest.approx(float(divergence(a, p, q)), rel=1e-10)
        assert value <= float(renyi.gaussian(a, step / sigma)) * (1 + 1e-15)


@pytest.mark.parametrize(("scale", "step"), [(0.5, 1), (10.0, 1), (2.0, 3), (1e6, 2)])
def test_discrete_laplace_by_enumeration(scale, step):
    with mp.workdps(60):
        r = mp.exp(-1 / mp.mpf(scale))
        for a in (1.001, 2.0, 7.5):
            # three geometric sums: left of 0, right of the shift, and between
            middle = mp.fsum(r ** (a * x + (1 - a) * (step - x)) for x in range(1, step))
            total = (1 - r) / (1 + r) * ((r ** ((1 - a) * step) + r ** (a * step)) / (1 - r) + middle)
            assert float(renyi.discrete_laplace(a, scale, step)) == pytest.approx(float(mp.log(total) / (a - 1)), rel=1e-12)


def test_many_answers_by_enumeration():
    k, eps = 7, 1.3
    p = np.full(k, 1 / (math.exp(eps) + k - 1))
    q = p.copy()
    p[0] *= math.exp(eps)
    q[1] *= math.exp(eps)
    for a in (1.1, 2.0, 30.0):
        assert float(renyi.randomised_response(a, eps, k)) == pytest.approx(float(divergence(a, p, q)), rel=1e-12)
        assert float(renyi.randomised_response(a, eps, k)) < float(renyi.randomised_response(a, eps))


def test_finite_pairs_in_both_directions():
    for p, q in pairs(np.random.default_rng(1), 50):
        for a in (1.01, 2.0, 20.0):
            assert float(renyi.from_masses(a, p, q)) == pytest.approx(float(divergence(a, p, q)), rel=1e-11, abs=1e-15)
        assert float(renyi.from_masses(np.inf, p, q)) == pytest.approx(float(np.log(p / q).max()), rel=1e-14)
        assert float(renyi.from_masses(1.0, p, q)) == pytest.approx(float(p @ np.log(p / q)), rel=1e-10)
    assert np.isinf(renyi.from_masses([2.0], [0.5, 0.5], [1.0, 0.0])).all()
    assert renyi.from_masses([2.0], [1.0, 0.0], [0.5, 0.5])[0] == pytest.approx(math.log(2))


def test_curves_grow_with_the_order_and_reach_the_largest_loss():
    for curve in (
        lambda a: renyi.laplace(a, 0.7),
        lambda a: renyi.randomised_response(a, 0.7),
        lambda a: renyi.discrete_laplace(a, 2.0, 3),
        lambda a: renyi.discrete_gaussian(a, 0.6),
    ):
        values = curve(np.append(1.0, renyi.ORDERS))
        assert (np.diff(values) >= -1e-12 * values[1:]).all()
        assert values[0] > 0
    assert float(renyi.laplace(np.inf, 0.7)) == 0.7
    assert float(renyi.laplace(1e9, 0.7)) == pytest.approx(0.7, rel=1e-8)
    assert (renyi.laplace(renyi.ORDERS, 0.7) <= renyi.randomised_response(renyi.ORDERS, 0.7)).all()


def test_profile_to_renyi_is_a_close_upper_bound():
    for mu in (0.1, 1.0, 3.0):
        for a in (1.01, 1.5, 4.0, 30.0, 200.0):
            value = renyi.from_log_profile(a, lambda e, m=mu: gaussian.log_delta(m, e))
            assert a * mu**2 / 2 <= value * (1 + 1e-12) <= a * mu**2 / 2 * (1 + 1e-5) + 2e-6


def test_profile_to_renyi_of_an_asymmetric_pair():
    p, q = np.array([0.7, 0.2, 0.1]), np.array([0.2, 0.3, 0.5])

    def log_profile(first, second):
        return lambda e: np.log(np.maximum(np.maximum(first - np.exp(e)[:, None] * second, 0.0).sum(1), 1e-320))

    for a in (1.5, 3.0, 9.0):
        value = renyi.from_log_profile(a, log_profile(p, q), log_profile(q, p), cutoff=float(np.log(p / q).max()))
        truth = float(divergence(a, p, q))
        # the reverse profile reaches further than this cutoff; its moment is a lower term and must not be cut off
        far = renyi.from_log_profile(a, log_profile(p, q), log_profile(q, p), cutoff=float(np.abs(np.log(p / q)).max()))
        assert truth <= far * (1 + 1e-12) <= truth * (1 + 1e-4)
        assert value <= far * (1 + 1e-12)


def test_profile_with_a_heavy_tail_has_infinite_renyi_divergence():
    assert renyi.from_log_profile(3.0, lambda e: np.log(0.1) - e) == math.inf
    assert renyi.from_log_profile(1.5, lambda e: np.log(0.1) - 2 * e) < math.inf
    with pytest.raises(ParameterError, match="order"):
        renyi.from_log_profile(1.0, lambda e: -e)


# --- combining --------------------------------------------------------------------------------------------------------


def test_composition_adds_for_products():
    for (p, q), (r, s) in zip(pairs(np.random.default_rng(2), 20), pairs(np.random.default_rng(3), 20), strict=True):
        orders = np.array([1.5, 4.0])
        product = renyi.from_masses(orders, np.outer(p, r).ravel(), np.outer(q, s).ravel())
        assert renyi.compose([renyi.from_masses(orders, p, q), renyi.from_masses(orders, r, s)]) == pytest.approx(product, rel=1e-10)
    assert renyi.compose([[1.0]], counts=[5]).tolist() == [5.0]
    with pytest.raises(ParameterError, match="empty"):
        renyi.compose([])


def test_interpolation_lies_above_the_curve():
    grid = np.array([2.0, 3.0, 5.0, 20.0, 21.0])
    between = np.linspace(1.0, 21.0, 400)
    for p, q in pairs(np.random.default_rng(4), 50):
        truth = renyi.from_masses(between, p, q)
        bound = renyi.interpolate(between, grid, renyi.from_masses(grid, p, q))
        assert (truth <= bound * (1 + 1e-12)).all()
        assert bound[between == 21.0] == pytest.approx(truth[between == 21.0])
    assert renyi.interpolate([30.0], grid, grid)[0] == math.inf
    assert renyi.interpolate([4.0], grid, np.full(5, np.inf))[0] == math.inf
    assert renyi.interpolate([4.0], grid, np.array([1.0, 1.0, np.inf, 9.0, 9.0]))[0] < math.inf


def test_triangle_and_group_bound_random_chains():
    rng = np.random.default_rng(5)
    for i, ((p, q), (r, s)) in enumerate(zip(pairs(rng, 40, 3), pairs(rng, 40, 3), strict=True)):
        a = rng.uniform(1.1, 6)
        split = a + rng.uniform(0.05, 10)
        truth = float(renyi.from_masses(a, p, r))
        bound = renyi.triangle(a, split, lambda x, p=p, q=q: renyi.from_masses(x, p, q), lambda x, q=q, r=r: renyi.from_masses(x, q, r))
        assert truth <= bound * (1 + 1e-12)
        if i >= 4:
            continue

        def worst(x, p=p, q=q, r=r, s=s):
            return np.max([renyi.from_masses(x, *pair) for pair in ((p, q), (q, r), (r, s))], axis=0)

        assert truth <= float(renyi.group(a, worst, 2)) * (1 + 1e-12)
        assert float(renyi.from_masses(a, p, s)) <= float(renyi.group(a, worst, 3)) * (1 + 1e-12)
    with pytest.raises(ParameterError, match="order"):
        renyi.triangle(3.0, 2.0, lambda x: x, lambda x: x)


def test_group_of_gaussians_is_nearly_the_square():
    for size in (1, 2, 3, 4, 7):
        bound = renyi.group([1.5, 2.0, 8.0], lambda a: renyi.gaussian(a, 0.5), size)
        truth = renyi.gaussian([1.5, 2.0, 8.0], 0.5 * size)
        assert (bound >= truth * (1 - 1e-12)).all()
        assert (bound <= truth * 1.02).all()
        assert conversions.zcdp_group(0.125, size) == pytest.approx(truth[1] / 2)
    assert float(renyi.group(np.inf, lambda a: renyi.randomised_response(a, 0.3), 4)) == pytest.approx(1.2)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: renyi.gaussian([0.5], 1.0), "order"),
        (lambda: renyi.laplace([2.0], -1.0), "theta"),
        (lambda: renyi.randomised_response([2.0], 1.0, 1), "categories"),
    ],
)
def test_bad_input_names_the_parameter(call, name):
    with pytest.raises(ParameterError, match=name):
        call()


@pytest.mark.parametrize("seed", range(20))
def test_post_processing_never_raises_a_divergence(seed: int) -> None:
    """Lemma 3.20: any kernel applied to both outputs keeps every Rényi divergence at or below what it was."""
    rng = np.random.default_rng(seed)
    orders = np.array([1.1, 2.0, 8.0, 64.0])
    p, q, kernel = rng.dirichlet(np.ones(6)), rng.dirichlet(np.ones(6)), rng.dirichlet(np.ones(3), size=6)
    before, after = renyi.from_masses(orders, p, q), renyi.from_masses(orders, p @ kernel, q @ kernel)
    assert np.all(after <= before * (1 + 1e-12) + 1e-15)
