"""Every conversion against the exact hockey-stick divergence of random pairs, the best order on a fine grid, and the exact Gaussian."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting import closed_form
from tacit.accounting.theorems import conversions, gaussian, renyi
from tacit.accounting.theorems.composition import hockey_stick
from tacit.errors import ParameterError

orders_above_one = st.floats(-3, 3).map(lambda x: 1 + 10.0**x)


def pairs(rng, count, size=4):
    """Random pairs of distributions, some of them far apart."""
    for _ in range(count):
        sharp = rng.uniform(0.1, 3)
        yield rng.dirichlet(np.full(size, sharp)) * 0.999 + 0.001 / size, rng.dirichlet(np.full(size, sharp)) * 0.999 + 0.001 / size


def test_pure_and_bounded_range_curves_lie_below_their_zcdp_lines():
    for eps in (0.01, 0.5, 3.0):
        assert (renyi.randomised_response(renyi.ORDERS, eps) <= closed_form.rho_from_pure(eps) * renyi.ORDERS * (1 + 1e-12)).all()
    # losses of width eps: the worst pair of the exponential mechanism, losses t and t - eps
    for eps in (0.1, 1.0, 4.0):
        for t in np.linspace(0.05, 0.95, 19) * eps:
            p = (math.exp(t) - math.exp(t - eps) * math.exp(t)) / (math.exp(t) - math.exp(t - eps))
            masses = np.array([p, 1 - p])
            losses = np.array([t, t - eps])
            assert masses @ np.exp(-losses) == pytest.approx(1.0)
            assert (renyi.from_losses(renyi.ORDERS, losses, masses) <= closed_form.rho_from_range(eps) * renyi.ORDERS * (1 + 1e-9)).all()


def test_conversions_are_valid_for_random_pairs():
    rng = np.random.default_rng(6)
    for p, q in pairs(rng, 400):
        a, eps = 1 + 10 ** rng.uniform(-1.5, 1.5), rng.uniform(0, 2)
        value = float(renyi.from_masses(a, p, q))
        truth = hockey_stick(p, q, eps)
        assert truth <= conversions.rdp_delta(a, value, eps) * (1 + 1e-12) + 1e-15  # every eps >= 0, below the divergence too
        tail = float(p[np.log(p / q) > eps].sum())
        assert tail <= conversions.rdp_tail(a, value, eps) * (1 + 1e-12)
        delta = 10 ** rng.uniform(-6, -0.5)
        improved = conversions.rdp_epsilon(a, value, delta)
        assert hockey_stick(p, q, improved) <= delta * (1 + 1e-12)
        assert improved <= conversions.rdp_epsilon_basic(a, value, delta) + 1e-15
        least = conversions.epsilon_from_curve(lambda x, p=p, q=q: renyi.from_masses(x, p, q), delta)
        assert hockey_stick(p, q, least) <= delta * (1 + 1e-12)
        assert least <= improved + 1e-9


@settings(max_examples=100, deadline=None)
@given(orders_above_one, st.floats(0, 20), st.floats(-30, -0.1).map(lambda x: 10.0**x))
def test_budget_inverts_the_improved_conversion(a, eps, delta):
    value = float(conversions.rdp_budget(a, eps, delta))
    if value >= 0:
        scale = 1 + eps + value + abs(math.log(delta)) / (a - 1)
        assert conversions.rdp_epsilon(a, value, delta) == pytest.approx(eps, abs=1e-13 * scale)
        if eps > 0 and value < 1e6:
            assert math.log(conversions.rdp_delta(a, value, eps)) == pytest.approx(min(0.0, math.log(delta)), abs=1e-12 * scale * a)


@settings(max_examples=60, deadline=None)
@given(st.floats(-5, 2).map(lambda x: 10.0**x), st.floats(-100, -0.3).map(lambda x: 10.0**x))
def test_zcdp_epsilon_is_the_least_over_orders(rho, delta):
    value = conversions.zcdp_epsilon(rho, delta)
    orders = 1 + np.logspace(-6, 7, 4001)
    assert value <= conversions.rdp_epsilon(orders, rho * orders, delta) * (1 + 1e-13) + 1e-13
    assert value <= conversions.zcdp_epsilon_basic(rho, delta)
    assert gaussian.epsilon(gaussian.mu_from_rho(rho), delta) <= value * (1 + 1e-12) + 1e-12


@settings(max_examples=60, deadline=None)
@given(st.floats(-5, 2).map(lambda x: 10.0**x), st.floats(0, 30))
def test_zcdp_delta_is_the_least_over_orders(rho, eps):
    value = conversions.zcdp_delta(rho, eps)
    orders = 1 + np.logspace(-6, 7, 4001)
    assert value <= conversions.rdp_delta(orders, rho * orders, eps) * (1 + 1e-12)
    assert gaussian.delta(gaussian.mu_from_rho(rho), eps) <= value * (1 + 1e-12)
    assert value <= conversions.zcdp_delta_basic(rho, eps) * (1 + 1e-12)


@settings(max_examples=60, deadline=None)
@given(st.floats(-4, 2).map(lambda x: 10.0**x), st.floats(-60, -0.3).map(lambda x: 10.0**x))
def test_zcdp_budgets_are_safe_and_tight(eps, delta):
    improved, basic = conversions.zcdp_rho(eps, delta), conversions.zcdp_rho_basic(eps, delta)
    assert conversions.zcdp_epsilon(improved, delta) <= eps
    assert conversions.zcdp_epsilon(improved * (1 + 1e-6), delta) > eps
    assert conversions.zcdp_epsilon_basic(basic, delta) <= eps
    assert conversions.zcdp_epsilon_basic(basic * (1 + 1e-9), delta) > eps
    assert basic <= improved <= gaussian.mu_for(eps, delta) ** 2 / 2 * (1 + 1e-12)


def test_truncated_concentration_stops_at_omega():
    for rho, omega, delta in ((0.1, 6.0, 1e-6), (0.1, 30.0, 1e-6), (0.01, 3.0, 1e-3), (1.0, 1.5, 1e-9)):
        orders = np.linspace(1.0001, omega, 20_001)
        assert conversions.tcdp_epsilon(rho, omega, delta) == pytest.approx(conversions.rdp_epsilon(orders, rho * orders, delta), rel=1e-7)
        basic = conversions.rdp_epsilon_basic(orders, rho * orders, delta)
        assert conversions.tcdp_epsilon_basic(rho, omega, delta) == pytest.approx(basic, rel=1e-6)
    assert conversions.tcdp_epsilon(0.1, math.inf, 1e-6) == conversions.zcdp_epsilon(0.1, 1e-6)
    assert conversions.tcdp_epsilon(0.1, 1e6, 1e-6) == conversions.zcdp_epsilon(0.1, 1e-6)


def test_curves_may_be_infinite_or_missing_beyond_some_order():
    def partial(a):
        return np.where(a < 4, 0.1 * a, np.inf)

    def undefined(a):
        return np.where(a < 4, 0.1 * a, np.nan)

    best = conversions.epsilon_from_curve(partial, 1e-6)
    assert best == pytest.approx(conversions.rdp_epsilon(4.0, 0.4, 1e-6), rel=1e-4)
    assert conversions.epsilon_from_curve(undefined, 1e-6) == best
    assert conversions.epsilon_from_curve(lambda a: np.full_like(a, np.inf), 1e-6) == math.inf
    assert conversions.delta_from_curve(lambda a: np.full_like(a, np.inf), 1.0) == 1.0
    orders = np.linspace(1.01, 4, 5000)
    assert conversions.delta_from_curve(partial, 1.0) == pytest.approx(conversions.rdp_delta(orders, 0.1 * orders, 1.0), rel=1e-3)


def test_limits_of_the_conversions():
    assert conversions.zcdp_epsilon(0.0, 0.0) == conversions.zcdp_epsilon_basic(0.0, 0.0) == 0.0
    assert conversions.zcdp_epsilon(0.1, 0.0) == conversions.zcdp_epsilon_basic(0.1, 0.0) == math.inf
    assert conversions.zcdp_epsilon(0.1, 1.0) == 0.0
    assert conversions.zcdp_delta(0.0, 0.0) == conversions.zcdp_delta_basic(0.0, 0.0) == 0.0
    assert conversions.zcdp_rho(1.0, 0.0) == conversions.zcdp_rho_basic(1.0, 0.0) == 0.0
    assert conversions.zcdp_rho(1.0, 1.0) == math.inf
    # a pure guarantee is the infinite order
    assert conversions.rdp_epsilon([2.0, np.inf], [0.1, 0.5], 0.0) == conversions.rdp_epsilon_basic([2.0, np.inf], [0.1, 0.5], 0.0) == 0.5
    assert conversions.epsilon_from_curve(lambda a: renyi.laplace(a, 0.5), 0.0) == 0.5
    assert conversions.rdp_delta(np.inf, 0.5, 0.5) == 0.0
    assert conversions.rdp_delta(np.inf, 0.5, 0.4) == 1.0


@pytest.mark.parametrize("scale", [1e-8, 0.3, 4.0, 1e6])
def test_the_minimiser_finds_the_order_and_survives_what_is_undefined(scale):
    """a + scale/(a-1) is least, 1 + 2 sqrt(scale), at 1 + sqrt(scale)."""
    order, value = conversions.minimise(lambda a: np.where(a < 1e6, a + scale / (a - 1), np.nan))
    assert order - 1 == pytest.approx(math.sqrt(scale), rel=1e-3)
    assert 0 <= value - (1 + 2 * math.sqrt(scale)) <= 1e-9 * value
    assert conversions.minimise(lambda a: np.full_like(a, np.inf)) == (math.inf, math.inf)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: conversions.zcdp_epsilon(-1.0, 0.1), "rho"),
        (lambda: conversions.zcdp_epsilon(1.0, math.nan), "delta"),
        (lambda: conversions.rdp_epsilon(2.0, 1.0, 1.1), "delta"),
        (lambda: conversions.tcdp_epsilon(0.1, 0.5, 0.1), "omega"),
    ],
)
def test_bad_input_names_the_parameter(call, name):
    with pytest.raises(ParameterError, match=name):
        call()
