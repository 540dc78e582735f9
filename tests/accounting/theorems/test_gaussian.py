"""The Gaussian profile against 60-digit arithmetic, its inverses from both sides, and the trade-off curve against its dual."""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting.bound import Estimate
from tacit.accounting.closed_form import mu_of_pure
from tacit.accounting.theorems import gaussian
from tacit.errors import AccountingError, ParameterError

mus = st.floats(-6, 3.5).map(lambda x: 10.0**x)
deltas = st.floats(-290, -0.01).map(lambda x: 10.0**x)


def exact(mu: float, eps: float) -> mp.mpf:
    """Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu) with digits to spare."""
    with mp.workdps(60):
        m, e = mp.mpf(mu), mp.mpf(eps)
        return mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)


UNIT = 2.0**-53


def off(found: float, truth: mp.mpf) -> float:
    return abs(float((mp.mpf(found) - truth) / truth))


def exact_erfcx(x: float) -> mp.mpf:
    with mp.workdps(60):
        point = mp.mpf(x)
        if x < 100:
            return mp.exp(point**2) * mp.erfc(point)
        return (1 - 1 / (2 * point**2) + 3 / (4 * point**4)) / (point * mp.sqrt(mp.pi))


@given(st.floats(-26.5, 60))
def test_erfcx_is_good_to_the_last_digits(x: float) -> None:
    """Four roundings, and a unit or two of math.erfc and math.exp."""
    assert off(float(gaussian.erfcx(np.array(x))), exact_erfcx(x)) <= 12 * UNIT


@pytest.mark.parametrize("x", [gaussian._FAR, math.nextafter(gaussian._FAR, 0), 26.0, 1e3, 1e9, 1e100, 1e200, 0.0, -0.0, 1e-300])
def test_erfcx_at_the_seams(x: float) -> None:
    assert off(float(gaussian.erfcx(np.array(x))), exact_erfcx(x)) <= 12 * UNIT


def test_a_square_in_one_word_would_not_do() -> None:
    """The mutant: exp(x * x) erfc(x) without the rest of the square loses x^2 units in the last place."""
    points = np.linspace(9.1, 11.9, 64).tolist()
    plain = max(off(math.exp(x * x) * math.erfc(x), exact_erfcx(x)) for x in points)
    assert plain > 20 * UNIT > max(off(float(gaussian.erfcx(np.array(x))), exact_erfcx(x)) for x in points)


@pytest.mark.parametrize("x", [-3.0, 0.0, 0.7, 4.9, 5.1, 40.0, 1e4])
def test_mills_ratio_and_its_drop_keep_their_digits(x):
    with mp.workdps(60):
        ratio = lambda y: mp.sqrt(mp.pi / 2) * mp.erfc(y / mp.sqrt(2)) * mp.exp(y * y / 2)  # noqa: E731
        assert float(gaussian.mills(np.asarray(x))) == pytest.approx(float(ratio(mp.mpf(x))), rel=1e-14)
        for mu in (1e-9, 1e-3, 0.8, 7.0, 50.0):
            if x >= -mu / 2:
                truth = ratio(mp.mpf(x)) - ratio(mp.mpf(x) + mp.mpf(mu))
                assert float(gaussian.mills_drop(np.asarray(x), np.asarray(mu))) == pytest.approx(float(truth), rel=1e-12)


@settings(deadline=None)
@given(mus, st.floats(-3, 37.0))
def test_delta_has_twelve_digits_down_to_1e300(mu, x):
    eps = mu * (max(x, -mu / 2) + mu / 2)  # x is the argument of the normal tail
    truth = exact(mu, eps)
    if truth > 1e-300:
        assert abs(mp.mpf(gaussian.delta(mu, eps)) / truth - 1) < 1e-12


@settings(max_examples=100, deadline=None)
@given(mus, st.floats(-50, 0))
def test_delta_at_negative_epsilon(mu, eps):
    truth = exact(mu, eps)
    if truth > 1e-300:
        assert abs(mp.mpf(gaussian.delta(mu, eps)) / truth - 1) < 1e-12


def test_log_delta_goes_on_where_delta_underflows():
    with mp.workdps(400):
        m, e = mp.mpf("0.01"), mp.mpf(1)
        truth = mp.log(mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m))
    assert gaussian.delta(0.01, 1.0) == 0.0
    assert gaussian.log_delta(0.01, 1.0) == pytest.approx(float(truth), rel=1e-14)


def test_arrays_agree_with_scalars():
    mu, eps = np.array([[0.1], [1.0], [30.0]]), np.array([-1.0, 0.0, 0.5, 20.0])
    table = gaussian.delta(mu, eps)
    assert table.shape == (3, 4)
    for i in range(3):
        for j in range(4):
            assert table[i, j] == pytest.approx(gaussian.delta(float(mu[i, 0]), float(eps[j])), rel=1e-14)


def test_limits():
    assert gaussian.delta(0.0, 0.5) == 0.0
    assert gaussian.delta(0.0, -1.0) == pytest.approx(-math.expm1(-1), rel=1e-15)
    assert gaussian.delta(math.inf, 3.0) == 1.0
    assert gaussian.delta(1.0, math.inf) == 0.0
    assert gaussian.delta(1.0, -math.inf) == 1.0
    assert gaussian.delta(1e-310, 1.0) == 0.0
    assert gaussian.epsilon(0.0, 0.0) == 0.0
    assert gaussian.epsilon(1.0, 0.0) == math.inf
    assert gaussian.epsilon(math.inf, 0.5) == math.inf
    assert gaussian.epsilon(1.0, 1.0) == 0.0
    assert gaussian.epsilon(1.0, 0.39) == 0.0
    assert gaussian.mu_for(1.0, 0.0) == 0.0
    assert gaussian.mu_for(1.0, 1.0) == math.inf
    assert gaussian.mu_for(math.inf, 0.1) == math.inf
    assert gaussian.sigma_for(1.0, 0.0) == math.inf
    assert gaussian.sigma_for(1.0, 1e-6, 0.0) == 0.0


@settings(deadline=None)
@given(mus, deltas)
def test_epsilon_is_safe_and_tight(mu, delta):
    eps = gaussian.epsilon(mu, delta)
    assert gaussian.delta(mu, eps) <= delta
    if eps > 0:
        # a delta 1e-10 larger already needs less
        assert gaussian.epsilon(mu, min(1.0, delta * (1 + 1e-10))) <= eps
        assert exact(mu, eps * (1 - 1e-9)) > delta


@settings(deadline=None)
@given(st.floats(-6, 5).map(lambda x: 10.0**x), deltas)
def test_mu_for_is_safe_and_tight(eps, delta):
    mu = gaussian.mu_for(eps, delta)
    assert gaussian.delta(mu, eps) <= delta
    assert gaussian.log_delta(mu * (1 + 1e-9), eps) > math.log(delta)
    sigma = gaussian.sigma_for(eps, delta, sensitivity=3.0)
    assert 3.0 / sigma <= mu


def test_mu_for_at_epsilon_zero_inverts_total_variation():
    for delta in (1e-200, 1e-8, 0.3, 0.9):
        with mp.workdps(250):
            truth = 2 * mp.sqrt(2) * mp.erfinv(mp.mpf(delta))
        assert gaussian.mu_for(0.0, delta) == pytest.approx(float(truth), rel=1e-11)
        assert gaussian.mu_for(0.0, delta) <= truth


def test_classic_calibrations_fail_where_the_exact_one_holds():
    # sqrt(2 log(1/delta))/eps and sqrt(2 log(1.25/delta))/eps are proofs for small eps only
    for factor, first in ((1.0, 8.0), (1.25, 8.45)):
        fails = [e for e in np.arange(7.0, 9.0, 0.01) if gaussian.delta(e / math.sqrt(2 * math.log(factor / 1e-5)), float(e)) > 1e-5]
        assert min(fails) == pytest.approx(first, abs=0.05)
    assert gaussian.delta(1 / gaussian.sigma_for(9.0, 1e-5), 9.0) <= 1e-5


def test_tail_bounds_are_in_order():
    for mu in (0.01, 0.1, 1.0, 4.0):
        for eps in np.linspace(mu * mu / 2, mu * mu / 2 + 8 * mu, 30):
            assert gaussian.delta(mu, float(eps)) <= gaussian.loss_tail(mu, float(eps)) <= gaussian.tail_bound(mu, float(eps))
    assert gaussian.tail_bound(1.0, 0.4) == 1.0
    assert gaussian.tail_bound(0.0, 0.4) == 0.0
    assert gaussian.loss_tail(0.0, 0.4) == 0.0


def test_tail_bounds_against_quadrature():
    with mp.workdps(30):
        for mu, eps in ((1.0, 2.0), (0.3, 1.0)):
            truth = mp.quad(lambda z, m=mu: mp.npdf(z, m**2 / 2, m), [eps, eps + 5 * mu, eps + 40 * mu])
            assert gaussian.loss_tail(mu, eps) == pytest.approx(float(truth), rel=1e-13)


def test_composition_is_one_gaussian():
    # the losses are independent normals N(mu^2/2, mu^2), so they add to a normal of the same shape
    assert gaussian.compose([0.3] * 100) == pytest.approx(3.0, rel=1e-15)
    assert gaussian.compose([]) == 0.0
    assert gaussian.rho_from_mu(gaussian.mu_from_rho(0.7)) == pytest.approx(0.7, rel=1e-15)


def test_profile_is_the_dual_of_the_tradeoff_curve():
    alpha = np.linspace(1e-6, 1 - 1e-6, 200_001)
    for mu, eps in ((1.0, 1.0), (0.5, 0.2), (2.0, 0.0)):
        dual = np.max(1 - gaussian.tradeoff_gdp(mu, alpha) - math.exp(eps) * alpha)
        assert dual == pytest.approx(gaussian.delta(mu, eps), abs=1e-9)


def test_tradeoff_of_approximate_dp_is_the_best_test_between_the_worst_pair():
    eps, delta = 0.8, 0.1
    p = np.array([(1 - delta) / (1 + math.exp(-eps)), (1 - delta) / (1 + math.exp(eps)), delta, 0.0])
    q = p[[1, 0, 3, 2]]
    for alpha in np.linspace(0, 1, 41):
        # Neyman-Pearson: reject outcomes in decreasing order of likelihood ratio until the level is used up
        order, left, miss = [2, 0, 1, 3], alpha, 1.0
        for i in order:
            share = 1.0 if q[i] == 0 else min(1.0, left / q[i])
            left, miss = left - share * q[i], miss - share * p[i]
        assert float(gaussian.tradeoff_dp(eps, delta, alpha)) == pytest.approx(miss, abs=1e-12)
    assert gaussian.tradeoff_dp(800.0, 0.0, np.array([0.0, 0.5])).tolist() == [1.0, 0.0]


@pytest.mark.parametrize("eps", [1e-3, 0.1, 1.0, 5.0, 50.0, 800.0])
def test_pure_dp_as_gdp_touches_and_never_crosses(eps):
    mu = float(mu_of_pure(Fraction(eps)))
    alpha = np.concatenate([np.logspace(-300, -1, 2000), np.linspace(0.1, 1, 500)])
    pure = gaussian.tradeoff_dp(eps, 0.0, alpha)
    assert (gaussian.tradeoff_gdp(mu, alpha) <= pure * (1 + 1e-12) + 1e-15).all()
    if eps < 20:
        corner = 1 / (1 + math.exp(eps))
        assert float(gaussian.tradeoff_gdp(mu * (1 - 1e-6), corner)) > corner
    assert mu_of_pure(Fraction(0)) == 0


def test_balanced_accuracy_is_half_plus_half_the_total_variation():
    assert gaussian.balanced_accuracy(1.0) == pytest.approx(0.5 + gaussian.delta(1.0, 0.0) / 2, rel=1e-14)


def test_central_limit_figures_refuse_to_be_numbers():
    for figure in (gaussian.clt_randomised_response(0.1, 100, 1e-6), gaussian.clt_poisson_gaussian(0.01, 1.0, 1000, 1e-5)):
        assert isinstance(figure, Estimate)
        with pytest.raises(AccountingError, match="estimate"):
            float(figure)
    assert gaussian.clt_poisson_gaussian(0.0, 1.0, 10, 1e-5).value == 0.0
    assert gaussian.clt_poisson_gaussian(0.5, 0.01, 10, 1e-5).value == math.inf


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: gaussian.delta(-1.0, 1.0), "mu"),
        (lambda: gaussian.delta(math.nan, 1.0), "mu"),
        (lambda: gaussian.delta(1.0, math.nan), "eps"),
        (lambda: gaussian.epsilon(1.0, 1.5), "delta"),
        (lambda: gaussian.epsilon(-1.0, 0.5), "mu"),
        (lambda: gaussian.mu_for(-0.1, 0.5), "eps"),
        (lambda: gaussian.sigma_for(1.0, 1e-5, -1.0), "sensitivity"),
        (lambda: gaussian.tradeoff_gdp(1.0, 1.2), "alpha"),
        (lambda: gaussian.clt_poisson_gaussian(0.1, 0.0, 10, 1e-5), "noise_multiplier"),
    ],
)
def test_bad_input_names_the_parameter(call, name):
    with pytest.raises(ParameterError, match=name):
        call()


def test_the_rule_that_is_written_down_is_that_of_gauss_and_legendre():
    """Nodes are the roots of P16, and weights are 2 / ((1 - x^2) P16'(x)^2), by mpmath."""
    with mp.workdps(40):
        for node, weight in zip(gaussian._NODES, gaussian._WEIGHTS, strict=True):
            root = mp.findroot(lambda x: mp.legendre(16, x), mp.mpf(float(node)))
            slope = 16 * (root * mp.legendre(16, root) - mp.legendre(15, root)) / (root**2 - 1)
            # numpy, whose figures these are, gets its weights to two roundings of their sum
            assert abs(node - root) < 1e-16 and abs(weight - 2 / ((1 - root**2) * slope**2)) < 4.5e-16
    assert (np.diff(gaussian._NODES) > 0).all()
