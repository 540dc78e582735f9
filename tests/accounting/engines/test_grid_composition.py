"""Brackets of compositions against quadrature, closed forms, published figures and an independent method; one pair of many."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from tests.accounting.engines.test_grid import true_curve

from tacit.accounting.engines import contour, grid
from tacit.accounting.engines.grid import bracket, composed_pair
from tacit.accounting.pairs import finite
from tacit.accounting.pairs.finite import FinitePair
from tacit.accounting.pairs.laplace import bounded_range, laplace
from tacit.accounting.pairs.mixture import gaussian as normal
from tacit.accounting.pairs.mixture import poisson_gaussian
from tacit.accounting.pairs.pair import Disclosure, Pair, Trivial
from tacit.accounting.theorems import gaussian
from tacit.errors import ParameterError

mp.dps = 30

def laplace_delta(theta: float, epsilon: mpf) -> mpf:
    """One step, any real epsilon (Balle, Barthe, Gaboardi 2018, Theorem 3)."""
    if epsilon >= theta:
        return mpf(0)
    return 1 - mp.exp((epsilon - theta) / 2) if epsilon > -theta else 1 - mp.exp(epsilon)


def laplace_power(theta: float, count: int, epsilon: mpf) -> mpf:
    """`count` steps by conditioning on one step's loss: two atoms, and the density exp((l - theta) / 2) / 4 between them."""
    if count == 1:
        return laplace_delta(theta, epsilon)
    t = mpf(theta)
    atoms = laplace_power(theta, count - 1, epsilon - t) / 2 + laplace_power(theta, count - 1, epsilon + t) * mp.exp(-t) / 2
    # the integrand has corners where the remaining loss is at a sum of atoms
    corners = sorted({epsilon - k * t for k in range(-count, count + 1) if -t < epsilon - k * t < t} | {-t, t})
    return atoms + mp.quad(
        lambda x: laplace_power(theta, count - 1, epsilon - x) * mp.exp((x - t) / 2) / 4, corners, method="gauss-legendre", maxdegree=3
    )


@pytest.mark.parametrize(
    ("theta", "count", "share"),
    [(0.1, 2, 0.3), (0.1, 2, 0.999), (1.0, 2, 0.3), (1.0, 2, 0.9), (1.0, 2, 0.999), (0.1, 3, 0.95), (1.0, 3, 0.6), (1.0, 3, 0.95)],
)
def test_few_laplace_steps_against_quadrature(theta: float, count: int, share: float) -> None:
    epsilon = share * count * theta
    with mp.workdps(16):
        truth = laplace_power(theta, count, mpf(epsilon))
    found = bracket([(laplace(theta), count)], epsilon=epsilon)
    assert found.lower * (1 - 1e-14) <= truth <= found.upper * (1 + 1e-14)
    assert found.width <= 1e-6 * found.upper
    back = bracket([(laplace(theta), count)], delta=float(truth))
    assert back.lower - 1e-13 <= epsilon <= back.upper + 1e-13
    assert back.width <= 1e-7


@pytest.mark.parametrize("theta", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("count", [1, 2, 10, 50, 100])
@pytest.mark.parametrize("delta", [1e-5, 1e-20])
def test_laplace_brackets_are_narrow(theta: float, count: int, delta: float) -> None:
    found = bracket([(laplace(theta), count)], delta=delta, tolerance=1e-6)
    assert found.width <= 1e-6
    assert found.upper <= count * theta * (1 + 1e-12)
    if count == 1:
        truth = theta + 2 * math.log1p(-delta)
        assert found.lower - 1e-15 <= truth <= found.upper + 1e-15


@pytest.mark.parametrize(
    ("theta", "count", "delta", "printed"),
    [
        (0.1, 10, 1e-6, 0.99897810),
        (0.1, 100, 1e-6, 4.69266742),
        (0.1, 1000, 1e-6, 18.95028743),  # an extrapolated figure, good to about 8 digits
        (0.01, 1000, 1e-5, 1.1957030),
        (0.1, 1000, 1e-5, 17.4236520),
    ],
)
def test_published_laplace_figures(theta: float, count: int, delta: float, printed: float) -> None:
    found = bracket([(laplace(theta), count)], delta=delta, tolerance=5e-7 if count == 1000 else 1e-7)
    assert found.width <= 5e-7
    assert found.lower - 1e-7 <= printed <= found.upper + 1e-7


def kov_delta(epsilon0: float, delta0: float, count: int, epsilon: float) -> mpf:
    """The optimal composition of `count` (epsilon0, delta0) mechanisms (Kairouz, Oh, Viswanath 2015), in mpmath."""
    e = mpf(epsilon0)
    terms = (
        mp.binomial(count, j) * mp.exp(j * e) * max(mpf(0), -mp.expm1(mpf(epsilon) - (2 * j - count) * e)) for j in range(count + 1)
    )
    keep = (1 - mpf(delta0)) ** count
    return 1 - keep + keep * mp.fsum(terms) / (1 + mp.exp(e)) ** count


@pytest.mark.parametrize(
    ("epsilon0", "delta0", "count", "epsilon", "printed"),
    [
        (1.0, 0.0, 2, 1.0, 0.3378347121),
        (0.5, 0.01, 3, 0.75, 0.1531736722),
        (0.3, 0.0, 5, 0.9, 0.02822219396),
        (0.3, 0.0, 5, 0.3, 0.1482484400),
        (0.1, 0.0, 100, 3.0, 1.361398695e-3),
        (0.1, 0.0, 100, 5.0, 2.792636101e-7),
    ],
)
def test_optimal_composition_is_exact(epsilon0: float, delta0: float, count: int, epsilon: float, printed: float) -> None:
    found = bracket([(finite.leaky_randomised_response(epsilon0, delta0), count)], epsilon=epsilon)
    truth = kov_delta(epsilon0, delta0, count, epsilon)
    assert found.lower <= truth <= found.upper
    assert found.width <= 1e-10 * found.upper
    assert float(truth) == pytest.approx(printed, rel=2e-10)


@pytest.mark.parametrize(
    ("components", "delta", "printed"),
    [
        ([(finite.discrete_laplace(10.0, 1), 1000)], 1e-5, 17.7871285),
        ([(finite.randomised_response(0.1), 1000)], 1e-5, 17.7871285),
        ([(finite.leaky_randomised_response(0.1, 1e-6), 100)], 2e-4, 3.7552028),
        ([(finite.randomised_response(0.02 * j), 1) for j in range(1, 16)], 1e-6, 2.389445237),
        ([(finite.randomised_response(0.02 * j), 1) for j in range(1, 16)], 1e-3, 1.854266638),
        ([(finite.leaky_randomised_response(0.02 * j, 1e-8), 1) for j in range(1, 16)], 1e-6, 2.391035569),
        ([(finite.randomised_response(e), 1) for e in (1, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25)], 1e-5, 2.999646482),
        ([(finite.randomised_response(e), 1) for e in (1, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25)], 1e-2, 2.563886293),
        ([(finite.randomised_response(0.1), 15)], 1e-6, 1.484102965),
    ],
)
def test_published_lattice_figures(components: list[tuple[Pair, int]], delta: float, printed: float) -> None:
    found = bracket(components, delta=delta)
    digits = 7 if printed in (17.7871285, 3.7552028) else 9
    assert abs(found.upper - printed) <= 0.51 * 10.0**-digits
    assert found.width < 1e-10


@pytest.mark.parametrize("count", [1_000, 1_000_000])
@pytest.mark.parametrize("delta", [1e-5, 1e-20])
@pytest.mark.parametrize(
    "pair", [finite.randomised_response(0.1), finite.discrete_laplace(10.0, 3), finite.discrete_gaussian(8.0, 2)], ids=repr
)
def test_discrete_noise_many_times(pair: FinitePair, count: int, delta: float) -> None:
    found = bracket([(pair, count)], delta=delta)
    assert 0 < found.width <= 1e-6
    assert found.upper > bracket([(pair, count)], delta=10 * delta).upper


@pytest.mark.parametrize("delta", [1e-5, 1e-20])
def test_gaussians_against_their_closed_form(delta: float) -> None:
    found = bracket([(normal(2.0), 3), (normal(5.0), 10)], delta=delta, tolerance=1e-6)
    truth = gaussian.epsilon(math.sqrt(3 / 4 + 10 / 25), delta)
    assert found.lower <= truth <= found.upper
    assert found.width <= 1e-6


def test_delta_of_gaussians_down_to_the_depths() -> None:
    for epsilon in (1.0, 9.0, 20.0):
        found = bracket([(normal(1.0), 1)], epsilon=epsilon, tolerance=1e-5)
        truth = gaussian.delta(1.0, epsilon)
        assert found.lower <= truth <= found.upper
        assert found.width <= 1e-5 * truth


@pytest.mark.parametrize(
    "components",
    [
        [(laplace(0.1), 40), (normal(2.0), 3)],
        [(laplace(0.2), 5), (poisson_gaussian(0.05, 1.0), 200)],
        [(bounded_range(0.5), 20)],
        [(laplace(0.3), 30), (finite.randomised_response(0.1), 10), (normal(3.0), 2)],
    ],
)
def test_two_independent_methods_agree(components: list[tuple[Pair, int]]) -> None:
    found, other = bracket(components, delta=1e-7, tolerance=1e-6), contour.epsilon(components, 1e-7)
    assert found.lower <= other.upper
    assert other.lower <= found.upper
    assert found.width <= 1e-6


def shifted_laplace_mixture(theta: float, count: int, coin: float, coins: int, epsilon: float) -> mpf:
    """Laplace steps and coins of an unrelated size: a mixture over the coins' binomial."""
    high = 1 / (1 + mp.exp(-mpf(coin)))
    total = mpf(0)
    for j in range(coins + 1):
        weight = mp.binomial(coins, j) * high**j * (1 - high) ** (coins - j)
        total += weight * laplace_power(theta, count, mpf(epsilon) - (2 * j - coins) * mpf(coin))
    return total


def test_steps_that_do_not_fit_together() -> None:
    coin = 0.1 * math.sqrt(2)
    components = [(laplace(0.3), 2), (finite.randomised_response(coin), 5)]
    with mp.workdps(18):
        truth = shifted_laplace_mixture(0.3, 2, coin, 5, 0.9)
    found = bracket(components, epsilon=0.9)
    assert found.lower <= truth <= found.upper
    assert found.width <= 1e-6 * found.upper


def test_many_unrelated_steps_are_gathered() -> None:
    """Nine sizes, thirty coins each: no exact join and no common grid; the bracket is still narrow."""
    sizes = [0.02 * math.sqrt(j + 0.1) for j in range(1, 10)]
    parts = [(finite.randomised_response(e), 30) for e in sizes]
    found = bracket(parts, delta=1e-6, tolerance=1e-6)
    assert found.width <= 2e-6
    # the same sizes once each can be enumerated; gathered pairs must give the same
    single = [(finite.randomised_response(e), 1) for e in sizes]
    exact = bracket(single, delta=1e-6)
    gathered = grid._refined(grid._gathered(single), grid._gathered(single), False, 1e-6, None, 1e-6)
    assert gathered is not None
    assert gathered.lower <= exact.upper
    assert exact.lower <= gathered.upper
    assert sum(count for _, count in grid._gathered(single)) == 1


def test_large_lattices_fall_back_to_a_grid() -> None:
    pair = finite.discrete_laplace(6e4, 60_000)
    found = bracket([(pair, 100)], delta=1e-6, tolerance=1e-5)
    assert found.method == grid.METHOD
    assert found.width <= 1e-5
    # 6e4 points a scale are next to a continuum
    assert found.lower - 1e-4 <= bracket([(laplace(1.0), 100)], delta=1e-6, tolerance=1e-5).upper <= found.upper + 1e-4


@pytest.mark.parametrize(
    "components",
    [
        [(finite.randomised_response(0.5), 6)],
        [(laplace(0.4), 3), (finite.randomised_response(0.3), 2)],
        [(normal(2.0), 4)],
        [(poisson_gaussian(0.2, 1.0), 8)],
        [(finite.leaky_randomised_response(0.2, 1e-4), 40), (laplace(0.1), 10)],
    ],
)
def test_composed_pair_dominates(components: list[tuple[Pair, int]]) -> None:
    for direction in (components, [(pair.reverse(), count) for pair, count in components]):
        pair = composed_pair(direction)
        for epsilon in (-1.0, 0.0, 0.3, 1.1, 2.5):
            truth = bracket(direction, epsilon=epsilon, tolerance=1e-5)
            value = float(true_curve(pair, np.array([epsilon]))[0])
            assert value >= truth.lower
            assert value <= truth.upper + 1e-4
        assert pair.reverse().p.sum() + pair.reverse_infinite == pytest.approx(1, abs=1e-9)


def test_composed_pair_of_nothing_and_everything() -> None:
    assert composed_pair([]).p.sum() == pytest.approx(1)
    assert composed_pair([(Disclosure(), 2)]).infinite == 1.0
    many = composed_pair([(finite.randomised_response(0.01), 100_000)])
    assert len(many.losses) <= 4000
    assert float(true_curve(many, np.array([10.0]))[0]) >= bracket([(finite.randomised_response(0.01), 100_000)], epsilon=10.0).lower


def test_disclosure_and_nothing() -> None:
    assert bracket([(Disclosure(), 1), (laplace(1.0), 3)], delta=1e-5).lower == math.inf
    assert bracket([(Disclosure(), 1)], delta=1.0).upper == 0.0
    assert bracket([(Disclosure(), 1)], epsilon=4.0).lower == 1.0
    assert bracket([(Trivial(), 7)], delta=1e-5).upper == 0.0
    assert bracket([], epsilon=0.5).upper == 0.0
    assert bracket([(laplace(1.0), 0)], delta=1e-9).upper == 0.0


def test_leaks_are_kept_apart() -> None:
    parts = [(finite.leaky_randomised_response(0.1, 1e-7), 10), (laplace(0.1), 10)]
    assert bracket(parts, delta=9e-7).lower == math.inf
    found = bracket(parts, delta=2e-6)
    assert found.width < 1e-6
    assert found.upper < math.inf


def test_exactly_one_question() -> None:
    with pytest.raises(ParameterError, match="exactly one"):
        bracket([(laplace(1.0), 1)])
    with pytest.raises(ParameterError, match="exactly one"):
        bracket([(laplace(1.0), 1)], delta=0.1, epsilon=0.1)


@settings(max_examples=12)
@given(
    thetas=st.lists(st.sampled_from([0.05, 0.1, 0.3, 0.7]), min_size=1, max_size=2),
    counts=st.lists(st.integers(1, 40), min_size=2, max_size=2),
    coins=st.integers(0, 20),
    delta=st.sampled_from([1e-3, 1e-8, 1e-15]),
)
def test_more_of_anything_never_costs_less(thetas: list[float], counts: list[int], coins: int, delta: float) -> None:
    parts: list[tuple[Pair, int]] = [(laplace(t), n) for t, n in zip(thetas, counts, strict=False)]
    parts.append((finite.randomised_response(0.2), coins))
    found = bracket(parts, delta=delta, tolerance=1e-4)
    more = bracket([*parts[:-1], (parts[-1][0], coins + 1)], delta=delta, tolerance=1e-4)
    assert 0 <= found.lower <= found.upper <= sum(n * p.support()[1] for p, n in parts) * (1 + 1e-9)
    assert found.lower <= more.upper
    assert bracket(parts, delta=delta / 10, tolerance=1e-4).upper >= found.lower
