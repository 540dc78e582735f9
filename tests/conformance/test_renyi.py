"""The printed numbers of concentrated and Rényi differential privacy: Steinke 2022, sections 3.4 and 3.6; Balle, Barthe, Gaboardi 2018."""

import math

import mpmath as mp
import numpy as np
import pytest

from tacit.accounting import closed_form
from tacit.accounting.theorems import conversions, gaussian, renyi
from tacit.accounting.theorems.composition import hockey_stick


def test_gaussian_concentration():
    # sigma^2 = Delta^2/(2 rho), and the curve a rho, for every order
    for rho in (0.01, 0.5):
        orders = np.array([1.5, 2.0, 50.0])
        assert renyi.gaussian(orders, gaussian.mu_from_rho(rho)) == pytest.approx(rho * orders, rel=1e-14)
    # the moment form E[e^(tZ)] = e^(t(t+1) rho) of Z ~ N(rho, 2 rho)
    rho, t = 0.3, 2.5
    with mp.workdps(30):
        moment = mp.quad(lambda z: mp.exp(t * z) * mp.npdf(z, rho, mp.sqrt(2 * rho)), [-20, 0, 20])
    assert float(moment) == pytest.approx(math.exp(t * (t + 1) * rho), rel=1e-12)


def test_exact_curve_of_pure_dp():
    for eps, order, printed in (
        (0.1, 2, "9.958584e-3"),
        (0.1, 10, "4.388779e-2"),
        (0.1, 100, "9.349094e-2"),
        (1.0, 2, "0.7353256641"),
        (1.0, 10, "0.9651931465"),
    ):
        value = float(renyi.randomised_response(order, eps))
        places = len(printed.split("e")[0].replace(".", "").lstrip("0"))
        assert float(f"{value:.{places - 1}e}") == float(printed)


def test_pure_composition_by_its_exact_curve():
    def curve(a):
        return 100 * renyi.randomised_response(a, 0.1)

    # 5.07310619 is the conversion at the printed order; the minimum over all real orders is a little smaller still
    assert round(conversions.rdp_epsilon(6.326, curve(6.326), 1e-6), 8) == 5.07310619
    least = conversions.epsilon_from_curve(curve, 1e-6)
    assert round(least, 8) == 5.07310617
    assert round(conversions.order_from_curve(curve, 1e-6), 3) == 6.326
    assert least < conversions.zcdp_epsilon(0.5, 1e-6) == pytest.approx(5.22153444, abs=5e-9)


def test_pure_and_bounded_range():
    assert closed_form.rho_from_pure(0.1) == pytest.approx(0.005)
    assert closed_form.rho_from_range(0.2) == pytest.approx(closed_form.rho_from_pure(0.1))  # eps-DP losses lie in a range of 2 eps
    assert closed_form.rho_from_range(1.0) == 1 / 8


def test_hoeffding_for_privacy_losses():
    # Z in [-e, e]: E[e^(tZ)] <= e^(t E[Z] + t^2 e^2/2), and E[Z] <= e^2/2
    for eps in (0.1, 1.0, 3.0):
        kl = eps * math.tanh(eps / 2)
        assert kl <= eps**2 / 2
        for t in (0.5, 2.0, 9.0):
            assert t * float(renyi.randomised_response(t + 1, eps)) <= t * kl + t * t * eps**2 / 2 + 1e-12


def test_zcdp_conversions():
    assert round(conversions.zcdp_rho_basic(1.0, 1e-6), 10) == 0.0174689048
    assert round(conversions.zcdp_rho_basic(1.0, 1e-5), 10) == 0.0208199383
    log = math.log(1e6)
    assert round(1 / (4 * log + 4), 10) == 0.0168742075
    assert round(1 / (4 * log), 10) == 0.0180956034
    for (eps, delta), printed in {
        (1.0, 1e-5): 0.0305565952,
        (1.0, 1e-6): 0.0243559704,
        (0.5, 1e-6): 0.0066415244,
        (3.0, 1e-6): 0.1850698407,
    }.items():
        assert round(conversions.zcdp_rho(eps, delta), 10) == printed


def test_renyi_conversions():
    for order, value, delta, basic, improved in (
        (10.0, 1.0, 1e-5, 2.279213941, 1.918010637),
        (2.0, 0.1, 1e-5, 11.61292546, 10.22663110),
        (32.0, 0.5, 1e-6, 0.9456616309, 0.8021150002),
    ):
        assert conversions.rdp_epsilon_basic(order, value, delta) == pytest.approx(basic, rel=1e-9)
        assert conversions.rdp_epsilon(order, value, delta) == pytest.approx(improved, rel=1e-9)
        assert conversions.rdp_delta(order, value, improved) == pytest.approx(delta, rel=1e-7)
        assert float(conversions.rdp_budget(order, improved, delta)) == pytest.approx(value, rel=1e-7)


def test_improved_conversion_on_twenty_thousand_pairs():
    rng = np.random.default_rng(20)
    p, q = rng.dirichlet(np.ones(4), 20_000), rng.dirichlet(np.ones(4), 20_000)
    a, eps = rng.uniform(1.05, 30, 20_000), rng.uniform(0, 3, 20_000)
    value = np.log((p ** a[:, None] * q ** (1 - a[:, None])).sum(1)) / (a - 1)
    truth = np.maximum(p - np.exp(eps)[:, None] * q, 0).sum(1)
    bound = np.exp((a - 1) * (value - eps + np.log1p(-1 / a)) - np.log(a))
    assert (truth <= bound * (1 + 1e-9)).all()
    for i in range(0, 20_000, 500):
        assert conversions.rdp_delta(a[i], value[i], eps[i]) == pytest.approx(min(1.0, bound[i]), rel=1e-9)
        assert hockey_stick(p[i], q[i], eps[i]) == pytest.approx(truth[i], abs=1e-15)


def test_profile_to_renyi():
    moment = math.exp(3 * renyi.from_log_profile(4.0, lambda e: gaussian.log_delta(1.0, e)))
    assert moment == pytest.approx(403.428793, rel=2e-6)
    assert moment >= math.exp(6) * (1 - 1e-12)  # an upper bound
    assert round(math.exp(6), 6) == 403.428793

    def laplace(e):
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(-np.expm1((e - 1.0) / 2), 0.0))

    assert renyi.from_log_profile(3.0, laplace, cutoff=1.0) == pytest.approx(0.7468281411, rel=1e-6)
    assert round(float(renyi.laplace(3.0, 1.0)), 10) == 0.7468281411


def test_truncated_concentration():
    assert round(conversions.tcdp_epsilon_basic(0.1, 6.0, 1e-6), 9) == 3.363102112
    assert round(conversions.tcdp_epsilon(0.1, 6.0, 1e-6), 9) == 2.822428661


def test_group_privacy():
    def unit(a):
        return renyi.gaussian(a, 1.0)

    assert renyi.triangle(2.0, 4.0, unit, unit) == 4.0
    assert conversions.zcdp_group(0.5, 2) == 2.0  # (sqrt rho + sqrt rho)^2
    assert float(renyi.gaussian(2.0, 2.0)) == 4.0


def test_kullback_leibler_divergences():
    assert float(renyi.laplace(1.0, 0.1)) == pytest.approx(4.837418036e-3, abs=5e-13)
    assert round(float(renyi.laplace(1.0, 1.0)), 10) == 0.3678794412
    assert float(renyi.randomised_response(1.0, 0.1)) == pytest.approx(4.995837496e-3, abs=5e-13)
    assert round(float(renyi.randomised_response(1.0, 1.0)), 10) == 0.4621171573


def test_composition_at_different_orders_uses_the_smaller():
    # (a1, e1) and (a2, e2) give (min(a1, a2), e1 + e2): divergences grow with the order
    grid = np.array([3.0, 8.0])
    one, other = np.array([np.inf, 0.5]), np.array([0.2, np.inf])
    at_3 = renyi.interpolate([3.0], grid, one) + renyi.interpolate([3.0], grid, other)
    assert at_3[0] == pytest.approx(0.7)
