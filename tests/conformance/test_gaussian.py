"""The printed numbers of the Gaussian mechanism and the hypothesis-testing view: Steinke 2022, section 3.3; Balle and Wang 2018."""

import math
from decimal import Decimal

import numpy as np
import pytest

from tacit.accounting.theorems import conversions, gaussian


def digits(value, printed):
    """Agreement to the last digit printed."""
    number = Decimal(printed)
    return abs(value - float(number)) <= 0.5000001 * 10.0 ** number.as_tuple().exponent


# mu, eps, delta, P[Z > eps], the elementary bound, zCDP improved, zCDP basic
PROFILE = [
    (1.0, 0.0, "0.382924922548", "0.6914624613", None, "0.5588356393", None),
    (1.0, 1.0, "0.126936737507", "0.3085375387", "0.4412484513", "0.2468463308", "0.8824969"),
    (1.0, 2.0, "0.0209236358211", "0.0668072013", "0.0863450638", "0.0542929966", "0.32465247"),
    (0.5, 1.0, "0.00682959498311", "0.0400591569", "0.0493013250", "0.0179854482", "0.21626517"),
    (0.1, 0.5, "6.85658245584e-9", "3.710674e-7", "3.851719e-7", "3.449309e-8", "4.77914e-6"),
]


@pytest.mark.parametrize("row", PROFILE, ids=lambda r: f"mu={r[0]}, eps={r[1]}")
def test_profile_table(row):
    mu, eps, delta, tail, bound, improved, basic = row
    rho = gaussian.rho_from_mu(mu)
    assert digits(gaussian.delta(mu, eps), delta)
    assert digits(gaussian.loss_tail(mu, eps), tail)
    assert bound is None or digits(gaussian.tail_bound(mu, eps), bound)
    assert digits(conversions.zcdp_delta(rho, eps), improved)
    assert basic is None or digits(conversions.zcdp_delta_basic(rho, eps), basic)


@pytest.mark.parametrize(
    ("mu", "at_5", "at_6"),
    [
        (1.0, 4.3771780957, 4.8865541175),
        (0.5, 1.9930914044, 2.2540846502),
        (0.1, 0.3406693647, 0.3968573776),
        (2.0, 9.9972561464, 10.9971512142),
    ],
)
def test_epsilons(mu, at_5, at_6):
    assert round(gaussian.epsilon(mu, 1e-5), 10) == at_5
    assert round(gaussian.epsilon(mu, 1e-6), 10) == at_6


def test_calibration():
    for (eps, delta), exact in {
        (1, 1e-5): 3.730631635,
        (1, 1e-6): 4.224678889,
        (0.5, 1e-6): 8.057618481,
        (3, 1e-6): 1.543861418,
        (8, 1e-5): 0.600229072,
    }.items():
        assert round(gaussian.sigma_for(eps, delta), 9) == exact
    for delta, improved, basic, classic in ((1e-5, 4.045130358, 4.900555169, 4.844805263), (1e-6, 4.530877117, 5.349980062, 5.298802527)):
        assert round(1 / math.sqrt(2 * conversions.zcdp_rho(1.0, delta)), 9) == improved
        assert round(1 / math.sqrt(2 * conversions.zcdp_rho_basic(1.0, delta)), 9) == basic
        assert round(math.sqrt(2 * math.log(1.25 / delta)), 9) == classic
        assert gaussian.sigma_for(1.0, delta) < improved < classic


@pytest.mark.parametrize(
    ("factor", "delta", "first"), [(1.0, 1e-5, 8.0), (1.0, 1e-2, 6.25), (1.25, 1e-5, 8.45), (1.25, 1e-2, 6.8)]
)
def test_classic_calibrations_fail_for_large_epsilon(factor, delta, first):
    eps = np.arange(0.5, 10.0, 0.01)
    true = gaussian.delta(eps / math.sqrt(2 * math.log(factor / delta)), eps)
    assert eps[true > delta].min() == pytest.approx(first, abs=0.05)
    ours = [gaussian.delta(1 / gaussian.sigma_for(float(e), delta), float(e)) for e in eps[::50]]
    assert max(ours) <= delta


def test_lecture_calibration_at_epsilon_eight():
    assert digits(gaussian.delta(8 / math.sqrt(2 * math.log(1e5)), 8.0), "1.0175e-5")


def test_trade_off_curves():
    assert round(float(gaussian.tradeoff_gdp(1.0, 0.05)), 10) == 0.7404889772
    assert round(float(gaussian.tradeoff_dp(1.0, 0.0, 0.05)), 10) == 0.8640859086
    assert round(gaussian.mu_for(1.0, 1e-5), 10) == 0.2680511232
    assert round(gaussian.balanced_accuracy(1.0), 10) == 0.6914624613


def test_gdp_composition_and_rho():
    mus = [0.3, 0.4, 1.2]
    assert gaussian.compose(mus) == pytest.approx(1.3, rel=1e-15)
    assert gaussian.rho_from_mu(1.3) == pytest.approx(sum(gaussian.rho_from_mu(m) for m in mus), rel=1e-15)


def test_central_limit_is_not_a_bound():
    # it reports less than the truth for sampled Gaussians, and more than the optimum for randomised response
    for q, sigma, steps, delta, printed, truth in (
        (0.01, 1.0, 1000, 1e-5, 1.61771181, 1.82823667),
        (0.001, 0.8, 10_000, 1e-6, 0.80807010, 0.9471955),
    ):
        value = gaussian.clt_poisson_gaussian(q, sigma, steps, delta).value
        assert round(value, 8) == printed
        assert value < truth
    assert round(gaussian.clt_randomised_response(0.1, 100, 1e-6).value, 8) == 4.88044243
