"""The source texts' numbers on amplification of (epsilon, delta) and of privacy profiles (items 7.1 to 7.7)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from tacit.accounting.theorems import amplification as amp
from tacit.accounting.theorems import conversions
from tacit.accounting.theorems import subsampled_renyi as sub

MU = 0.2680511232  # the Gaussian that is exactly (1, 1e-5)


def printed(value: float) -> object:
    """Equal to the digits printed: half a unit in the last of ten."""
    return pytest.approx(value, rel=6e-10)


@pytest.mark.parametrize(("rate", "epsilon", "delta"), [(0.01, 0.0170368632, 1e-7), (0.1, 0.1585650787, 1e-6), (0.5, 0.6201145070, 5e-6)])
def test_7_1_poisson(rate: float, epsilon: float, delta: float) -> None:
    found = amp.amplify(rate, 1, 1e-5)
    assert found[0] == pytest.approx(epsilon, abs=6e-11) and found[1] == pytest.approx(delta, rel=1e-14)
    assert amp.poisson(amp.guarantee(1, 1e-5), rate)(found[0]) == pytest.approx(delta, rel=1e-9)
    assert found[0] <= rate * math.expm1(1) <= 2 * rate


def test_7_1_without_replacement() -> None:
    epsilon = amp.amplified_epsilon(100 / 1000, 1)
    assert epsilon == printed(0.1585650787)
    assert amp.without_replacement(amp.guarantee(1, 1e-5), 1000, 100)(epsilon) == pytest.approx(1e-6, rel=1e-9)


def test_7_1_with_replacement() -> None:
    rate = amp.with_replacement_rate(1000, 100)
    epsilon = amp.amplified_epsilon(rate, 1)
    assert (rate, epsilon) == (pytest.approx(0.0952078529, abs=6e-11), printed(0.1515134255))
    white = amp.with_replacement(amp.gaussian_groups(MU), 1000, 100)(epsilon)
    black = amp.with_replacement(amp.groups(amp.gaussian_profile(MU)), 1000, 100)(epsilon)
    assert (white, black) == (pytest.approx(5.7559928e-5, rel=1e-8), pytest.approx(6.0951738e-5, rel=1e-8))
    assert 57 < white / 1e-6 < 58.5  # 58 times worse than without replacement
    assert amp.with_replacement(amp.laplace_groups(1), 1000, 100)(epsilon) == printed(1.861357062e-3)
    smaller = amp.amplified_epsilon(rate, 0.1)
    assert smaller == pytest.approx(0.0099632984, abs=6e-11)
    assert amp.with_replacement(amp.laplace_groups(0.1), 1000, 100)(smaller) == pytest.approx(2.3334075e-4, rel=2e-8)
    assert amp.hybrid(amp.laplace_groups(1), 1000, 100)(epsilon) == printed(1.861357062e-3)  # Theorem 11: the same bound


def test_7_1_matching_lower_bounds() -> None:
    assert amp.membership_probability(1, 1e-5) == pytest.approx(0.7310612680, abs=6e-11)
    rate = amp.with_replacement_rate(1000, 100)
    lower = amp.membership_profile(rate, 1, 1e-5)(amp.amplified_epsilon(rate, 1))
    assert lower == pytest.approx(9.5207853e-7, rel=1e-8) and lower == pytest.approx(rate * 1e-5, rel=1e-9)
    for q in (0.01, 0.1, 0.5):
        at = amp.amplified_epsilon(q, 1)
        assert amp.membership_profile(q, 1, 1e-5)(at) == pytest.approx(amp.poisson(amp.guarantee(1, 1e-5), q)(at), rel=1e-9)


def test_7_2_joint_convexity() -> None:
    rng = np.random.default_rng(7)
    for _ in range(500):
        m0, m1, m2 = rng.dirichlet(np.ones(6), size=3)
        left, right = amp.joint_convexity(m0, m1, m2, rng.uniform(0.01, 1), rng.uniform(0, 3))
        assert abs(left - right) <= 6e-16


def test_7_3_profiles_decrease_and_are_convex_in_the_exponential() -> None:
    alphas = np.linspace(1, 8, 300)
    base = amp.gaussian_profile(1)
    for profile in (amp.poisson(base, 0.2), amp.poisson_add(base, 0.2), amp.sampled_gaussian_replace(1, 0.2)):
        delta = profile(np.log(alphas))
        assert np.all(np.diff(delta) <= 0) and np.all(np.diff(delta, 2) >= -1e-15)


def test_7_4_groups() -> None:
    assert amp.group_guarantee(1, 1e-6, 2) == (2.0, pytest.approx(3.718281828e-6, rel=1e-9))
    assert amp.group_guarantee(1, 1e-6, 3) == (3.0, pytest.approx(1.110733793e-5, rel=1e-9))
    assert amp.gaussian_groups(MU)(2)(1.0) == pytest.approx(0.0103949119, abs=6e-11)
    assert amp.group(amp.gaussian_profile(MU), 2)(1.0) == pytest.approx(0.0109464004, abs=6e-11)
    assert amp.replace_from_add_remove(1, 1e-6) == (2.0, pytest.approx((1 + math.e) * 1e-6))


def test_7_6_one_step_of_the_sampled_gaussian() -> None:
    remove, add = amp.poisson(amp.gaussian_profile(0.5), 0.1), amp.poisson_add(amp.gaussian_profile(0.5), 0.1)
    low, high = amp.amplified_epsilon(0.1, 0.2), amp.amplified_epsilon(0.1, 1)
    assert (low, high) == (pytest.approx(0.0218987385, abs=6e-11), printed(0.1585650787))
    assert (remove(low), remove(high)) == (pytest.approx(0.0125448357, abs=6e-11), printed(6.829594983e-4))
    assert (add(low), add(high)) == (pytest.approx(0.0089696648, abs=6e-11), 0.0)
    edge = -math.log(0.9)
    assert add(edge * (1 - 1e-6)) > 0 and add(edge * (1 + 1e-12)) == 0


def test_7_6_renyi_is_poor_at_a_single_step() -> None:
    base = brentq(lambda e: amp.gaussian_profile(1)(e) - 1e-3, 0, 10, xtol=1e-14)
    assert base == printed(3.138670549)
    assert amp.amplified_epsilon(0.01, base) == printed(0.1994504478)
    orders = np.arange(2.0, 513)
    assert conversions.rdp_epsilon(orders, sub.poisson(orders, 0.01, lambda a: a / 2), 1e-5) == pytest.approx(0.956, abs=6e-4)


def test_7_7_poisson_under_replacement() -> None:
    epsilon = amp.amplified_epsilon(0.1, 1)
    coupled = amp.poisson_replace(amp.gaussian_profile(1), 0.1, amp.gaussian_profile(2))
    assert amp.sampled_gaussian_replace(1, 0.1)(epsilon) == pytest.approx(0.0229518616, abs=6e-11)
    assert coupled(epsilon) == pytest.approx(0.0292012416, abs=6e-11)
    assert amp.group(amp.poisson(amp.gaussian_profile(1), 0.1), 2)(epsilon) == pytest.approx(0.0442675823, abs=6e-11)


def test_7_7_the_smaller_of_the_two_black_box_bounds_is_taken() -> None:
    epsilon = amp.amplified_epsilon(0.1, 2)
    assert epsilon == pytest.approx(0.4940287, abs=6e-8)
    single, double = amp.gaussian_profile(0.5), amp.gaussian_profile(1)
    b = math.exp(epsilon - 2)
    coupled = 0.1 * ((1 - b) * single(2.0) + b * double(2.0))
    grouped = amp.group(amp.poisson(single, 0.1), 2)(epsilon)
    assert amp.sampled_gaussian_replace(2, 0.1)(epsilon) == pytest.approx(5.361876e-6, rel=2e-7)
    assert (coupled, grouped) == (pytest.approx(4.648e-4, rel=2e-4), pytest.approx(2.522e-4, rel=2e-4))
    assert amp.poisson_replace(single, 0.1, double)(epsilon) == pytest.approx(min(coupled, grouped), rel=1e-12)
