"""Noise in shares: the published figures, exact laws in one dimension, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest

from tacit.accounting import (
    Adjacency,
    Composed,
    DistributedDiscreteGaussian,
    Gaussian,
    Group,
    ParameterError,
    Poisson,
    Repeated,
    Sampled,
    Skellam,
    UnsupportedError,
    account,
    calibrate,
    from_json,
    to_dp_event,
    to_json,
)
from tacit.accounting.theorems.conversions import epsilon_from_curve, rdp_epsilon
from tacit.accounting.theorems.distributed import (
    discrete_gaussian_sum,
    discrete_gaussian_sum_rho,
    gaussian_closeness,
    skellam,
)

#: clients, dimension, scaled clip, multiplier, rounds, delta -> norm, sigma, discrete Gaussian, Skellam,
#: Gaussian by Rényi and exactly
TABLE: dict[tuple[int, int, float, float, int, float], tuple[float, ...]] = {
    (1000, 1024, 100, 1, 1, 1e-6): (101.843, 3.2206, 5.22154, 5.22274, 5.22154, 4.88655),
    (1000, 1024, 100, 4, 100, 1e-6): (101.843, 12.882, 15.32786, 15.32805, 15.32786, 14.45078),
    (1000, 1024, 10, 4, 100, 1e-6): (19.545, 2.4722, 15.32786, 15.33080, 15.32786, 14.45078),
    (1000, 1024, 10, 1, 1, 1e-6): (19.545, 0.6181, math.inf, 5.23355, 5.22154, 4.88655),
    (10_000, 65_536, 200, 8, 200, 1e-8): (238.143, 19.051, 11.59407, 11.64045, 11.59407, 11.03452),
}


def norm(scaled: float, dimension: int) -> float:
    return math.sqrt(scaled**2 + dimension / 4 + scaled + math.sqrt(dimension) / 2)


@pytest.mark.parametrize(("given", "wanted"), TABLE.items())
def test_the_table_of_distributed_noise(given: tuple[Any, ...], wanted: tuple[float, ...]) -> None:
    """Specification 10, section 5 (Kairouz, Liu, Steinke 2021; Agarwal, Kairouz, Liu 2021)."""
    clients, dimension, scaled, multiplier, rounds, delta = given
    size = norm(scaled, dimension)
    sigma = multiplier * size / math.sqrt(clients)
    assert (size, sigma) == (pytest.approx(wanted[0], rel=1e-4), pytest.approx(wanted[1], rel=1e-4))
    event = DistributedDiscreteGaussian(sigma, clients, size, dimension)
    if math.isinf(wanted[2]):
        with pytest.raises(UnsupportedError) as refused:
            account(event)
        assert refused.value.code == "shares-too-small"
        assert gaussian_closeness(sigma, clients) == pytest.approx(5.884, rel=1e-4)
        # as the theorem has it, with no refusal
        bare = epsilon_from_curve(
            lambda a: rounds * discrete_gaussian_sum(a, sigma, clients, size, size**2, dimension), delta
        )
        assert bare == pytest.approx(6030, rel=1e-3)
    else:
        assert account(Repeated(event, rounds)).epsilon_one_way(delta) == pytest.approx(wanted[2], rel=1e-4)
    noisy = Repeated(Skellam(clients * sigma**2, size, dimension), rounds)
    assert account(noisy).epsilon_one_way(delta) == pytest.approx(wanted[3], rel=1e-4)
    plain = Repeated(Gaussian(multiplier), rounds)
    assert epsilon_from_curve(lambda a: rounds * a / (2 * multiplier**2), delta) == pytest.approx(
        wanted[4], rel=1e-4
    )
    exact = account(plain).epsilon(delta)
    assert exact.upper == pytest.approx(wanted[5], rel=1e-4)


def test_brackets_hold_the_attained_law() -> None:
    """From below: a query that moves one coordinate, whose law is known; it is a little below the Gaussian's
    own epsilon."""
    size = norm(100, 1024)
    for multiplier, rounds, gauss in ((1, 1, 4.88655), (4, 100, 14.45078)):
        found = account(
            Repeated(
                DistributedDiscreteGaussian(multiplier * size / math.sqrt(1000), 1000, size, 1024), rounds
            )
        ).epsilon(1e-6)
        assert 0.98 * gauss < found.lower <= gauss < found.upper
    found = account(Skellam(size**2, size, 1024)).epsilon(1e-6)
    assert 0.98 * 4.88655 < found.lower < found.upper


def test_closeness_of_sums() -> None:
    assert gaussian_closeness(0.5, 100) == pytest.approx(9.70, rel=1e-3)
    assert gaussian_closeness(1, 100) == pytest.approx(5.478e-4, rel=1e-3)
    assert gaussian_closeness(2, 100) == pytest.approx(7.16e-17, rel=1e-3)
    assert gaussian_closeness(0.1, 1) == 0
    # a million clients and one: the tail is bounded by its first term
    direct = 10 * math.fsum(math.exp(-2 * math.pi**2 * k / (k + 1)) for k in range(1, 300_000))
    assert direct <= gaussian_closeness(1, 300_000) <= direct * (1 + 1e-4)
    with pytest.raises(ParameterError):
        gaussian_closeness(0.4, 2)


def sum_law(sigma: float, clients: int) -> np.ndarray:
    """Masses of the sum of discrete Gaussians, by convolution, from the middle out; far tails are not
    used."""
    reach = math.ceil(14 * sigma) + 4
    x = np.arange(-reach, reach + 1.0)
    one = np.exp(-x * x / (2 * sigma**2))
    one /= one.sum()
    found = np.ones(1)
    for _ in range(clients):
        found = np.convolve(found, one)
    return found


def renyi(p: np.ndarray, q: np.ndarray, order: float) -> float:
    kept = (p > 1e-250) & (q > 1e-250)
    terms = order * np.log(p[kept]) + (1 - order) * np.log(q[kept])
    top = terms.max()
    return float((top + math.log(np.exp(terms - top).sum())) / (order - 1))


@pytest.mark.parametrize("sigma", [0.5, 0.6, 0.8, 1.2])
@pytest.mark.parametrize("clients", [1, 2, 3, 10, 40])
def test_the_curve_of_a_sum_is_above_the_exact_law(sigma: float, clients: int) -> None:
    """One dimension, where masses can be added up: log-masses within tau, divergences within the curve."""
    law = sum_law(sigma, clients)
    middle, spread = len(law) // 2, sigma * math.sqrt(clients)
    y = np.arange(len(law)) - middle
    near = np.abs(y) <= 6 * spread
    one = np.exp(-(y**2) / (2 * spread**2))
    one /= one.sum()
    assert np.abs(np.log(law[near]) - np.log(one[near])).max() <= gaussian_closeness(sigma, clients) + 1e-11
    for shift in (1, 2, 5):
        moved = np.concatenate([np.zeros(shift), law[:-shift]])
        window = np.abs(y - shift / 2) <= 9 * spread + 2 * shift
        for order in (1.01, 1.5, 2, 3, 8):
            exact = renyi(moved[window], law[window], order)
            assert exact <= discrete_gaussian_sum([order], sigma, clients, shift, shift, 1)[0] * (1 + 1e-9)
            assert exact <= order * discrete_gaussian_sum_rho(sigma, clients, shift, shift, 1) * (1 + 1e-9)


def exact_skellam(variance: float, shift: int, order: float) -> float:
    """The divergence in one dimension, from Bessel functions of high precision."""
    with mpmath.workdps(30):
        reach = int(14 * math.sqrt(variance)) + 40 + 3 * shift
        mass = [mpmath.besseli(k, variance) * mpmath.exp(-variance) for k in range(reach + shift + 1)]
        total = mpmath.fsum(
            mass[abs(x - shift)] ** order * mass[abs(x)] ** (1 - order) for x in range(-reach, reach + 1)
        )
        return float(mpmath.log(total) / (order - 1))


@pytest.mark.parametrize("variance", [0.3, 1.0, 8.0])
def test_the_skellam_curve_is_above_the_exact_law(variance: float) -> None:
    for shift in (1, 3, 6):
        for order in (1.3, 2, 2.5, 3, 7.75, 16):
            exact, bound = exact_skellam(variance, shift, order), skellam([order], variance, shift, shift)[0]
            assert exact <= bound * (1 + 1e-12)
    # and not far above it where the noise is large
    assert variance < 8 or skellam([2], 8.0, 1, 1)[0] <= 2 * exact_skellam(8.0, 1, 2)


def test_the_gaussian_s_divergence_alone_would_fail() -> None:
    """A mutant: the Gaussian's own divergence, without what Skellam noise costs more, is below the truth."""
    assert exact_skellam(8.0, 1, 1.01) > 1.01 / 16


def test_orders_between_whole_ones_are_chords() -> None:
    whole = np.arange(2.0, 60)
    at = skellam(whole, 400, 10, 100)
    assert epsilon_from_curve(lambda a: skellam(a, 400, 10, 100), 1e-6) <= rdp_epsilon(whole, at, 1e-6) * (
        1 + 1e-8
    )
    between = skellam(whole + 0.5, 400, 10, 100)
    assert (between >= at).all() and (between[:-1] <= at[1:]).all()
    assert skellam([1.001], 400, 10, 100)[0] == pytest.approx(at[0])
    assert (
        skellam([math.inf], 400, 10, 100)[0]
        == math.inf
        == discrete_gaussian_sum([math.inf], 2, 9, 1, 1, 1)[0]
    )


@pytest.mark.parametrize(
    "event",
    [
        DistributedDiscreteGaussian(3.5, 100, 20.5, 64),
        DistributedDiscreteGaussian(2, 7, 3, 4, 5),
        Skellam(100, 4, 16),
        Skellam(0.5, 1),
        Repeated(Sampled(Poisson(0.1), Skellam(90.0, 4, 16, adjacency=Adjacency.ZERO_OUT)), 5),
    ],
)
def test_events_travel_as_json(event: Any) -> None:
    assert from_json(to_json(event)) == event
    with pytest.raises(UnsupportedError):
        to_dp_event(event)


def test_groups_relations_and_sampling() -> None:
    event = Skellam(400, 10, 64)
    one = account(event, Adjacency.ADD_REMOVE)
    assert (
        account(event, Adjacency.REPLACE_ONE).epsilon(1e-6).upper
        == account(Group(event, 2), Adjacency.ADD_REMOVE).epsilon(1e-6).upper
    )
    assert account(Group(event, 2)).rdp(4).upper == pytest.approx(skellam([4], 400, 20, 160)[0])
    assert account(Sampled(Poisson(0.01), event)).epsilon(1e-6).upper < one.epsilon(1e-6).upper / 3
    both = account(Composed(event, DistributedDiscreteGaussian(2, 100, 10, 64))).epsilon(1e-6)
    assert both.upper > one.epsilon(1e-6).upper and both.lower <= both.upper


def test_noise_is_calibrated() -> None:
    """Never over the target; a little above the Gaussian's multiplier."""
    size = norm(100, 1024)
    found = calibrate(lambda z: Repeated(Skellam((z * size) ** 2, size, 1024), 100), epsilon=8, delta=1e-6)
    assert account(Repeated(Skellam((found * size) ** 2, size, 1024), 100)).epsilon_one_way(1e-6) <= 8
    plain = calibrate(lambda z: Repeated(Gaussian(z), 100), epsilon=8, delta=1e-6)
    assert plain < found < 1.1 * plain


def test_monotone_in_everything() -> None:
    base = account(Skellam(400, 10, 64)).rdp(5).upper
    assert account(Skellam(500, 10, 64)).rdp(5).upper < base < account(Skellam(400, 11, 64)).rdp(5).upper
    assert (
        account(Skellam(400, 10, 64, 200)).rdp(5).upper
        >= base
        >= account(Skellam(400, 10, 64, 12)).rdp(5).upper
    )
    sums = [account(DistributedDiscreteGaussian(2, n, 10, 64)).rdp(5).upper for n in (50, 100, 200)]
    assert sums[0] > sums[1] > sums[2]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Skellam(0, 1), lambda: Skellam(1, 0), lambda: Skellam(1, 1, 0), lambda: Skellam(1, 1, 1, -1), lambda: Skellam(math.nan, 1),
        lambda: DistributedDiscreteGaussian(1, 0, 1), lambda: DistributedDiscreteGaussian(-1, 1, 1),
        lambda: DistributedDiscreteGaussian(1, 1, math.inf),
        lambda: DistributedDiscreteGaussian("1", 1, 1),
    ],
)  # fmt: skip
def test_parameters_are_checked(make: Any) -> None:
    with pytest.raises(ParameterError):
        make()
