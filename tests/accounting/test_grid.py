"""Certified grids: the order of hockey-stick curves point by point, compositions against quadrature in mpmath, and published figures."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from tacit.accounting import contour, finite, gaussian, grid
from tacit.accounting.errors import ParameterError
from tacit.accounting.finite import FinitePair
from tacit.accounting.grid import bracket, composed_pair, optimistic, pessimistic
from tacit.accounting.laplace import bounded_range, laplace
from tacit.accounting.lattice import Lattice, compose
from tacit.accounting.mixture import gaussian as normal
from tacit.accounting.mixture import poisson_gaussian
from tacit.accounting.pairs import Array, Disclosure, Pair, Trivial, single_delta

mp.dps = 30

PAIRS: dict[str, Pair] = {
    "laplace 0.1": laplace(0.1),
    "laplace 3": laplace(3.0),
    "gaussian 0.5": normal(2.0),
    "gaussian 1.2": normal(1 / 1.2),
    "sampled": poisson_gaussian(0.1, 1.0),
    "sampled reversed": poisson_gaussian(0.1, 1.0).reverse(),
    "bounded range": bounded_range(1.3),
    "atoms off the grid": finite.randomised_response(math.sqrt(0.5), 3),
    "profile": finite.from_profile([(0.1, 0.3), (0.55, 0.1), (1.7, 1e-4)]),
    "leaky": finite.leaky_randomised_response(0.77, 0.02),
}


def true_curve(pair: Pair, loss: Array) -> Array:
    """HS at alpha = e^loss, from the masses beyond each loss; a check of the grid, which reads them in cells."""
    values = []
    where, mass = pair.atoms()
    for x in loss.tolist():
        p, q = pair.masses(np.array([x, math.inf]))
        atoms = float(np.sum(np.maximum(-np.expm1(x - where), 0) * mass))
        values.append(float(p[0]) - math.exp(x) * float(q[0]) + atoms + pair.infinite)
    return np.array(values)


def lattice_curve(law: Lattice, loss: Array) -> Array:
    gain = np.maximum(-np.expm1(np.minimum(loss[:, None] - law.losses[None, :], 0.0)), 0.0)
    return np.asarray(gain @ law.p + law.infinite)


def ends(pair: Pair) -> tuple[float, float]:
    low, high = pair.support()
    return max(low, -12.0), min(high, 12.0)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("step", [0.3, 0.037, 0.002])
def test_curves_are_ordered_at_every_alpha(name: str, step: float) -> None:
    pair = PAIRS[name]
    lo, hi = ends(pair)
    offset = float(pair.atoms()[0][0]) if name.startswith("laplace") else 0.0
    above, below = pessimistic(pair, step, lo, hi, offset), optimistic(pair, step, lo, hi, offset)
    rng = np.random.default_rng(3)
    near = rng.choice(above.losses, 150) + rng.uniform(-step, step, 150)  # inside cells, between the grid points
    loss = np.concatenate([np.linspace(lo - 0.5, hi + 0.5, 401), near, above.losses[:: max(1, len(above.p) // 200)]])
    truth, upper, lower = true_curve(pair, loss), lattice_curve(above, loss), lattice_curve(below, loss)
    slack = 1e-14 * (1 + np.exp(np.minimum(loss, 0)))
    assert np.all(upper >= truth - slack)
    assert np.all(lower <= truth + slack)
    assert np.all(above.p >= 0)
    assert np.all(below.p >= 0)
    assert above.p.sum() + above.infinite >= 1 - 1e-13
    assert below.p.sum() + below.infinite <= 1 + 1e-13
    # and they are close: of second order where the step is small against the law
    if step == 0.002 and name not in ("atoms off the grid", "profile", "leaky"):
        assert np.max(upper - lower) < 20 * step**2


def gaussian_tails(mu: float, x: mpf) -> tuple[mpf, mpf]:
    return mp.ncdf(mpf(mu) / 2 - x / mpf(mu)), mp.ncdf(-mpf(mu) / 2 - x / mpf(mu))


def sampled_tails(q: float, sigma: float, x: mpf) -> tuple[mpf, mpf]:
    output = mpf("0.5") + mpf(sigma) ** 2 * mp.log((mp.exp(x) - 1 + mpf(q)) / mpf(q))
    below = mp.ncdf(-output / mpf(sigma))
    return (1 - mpf(q)) * below + mpf(q) * mp.ncdf((1 - output) / mpf(sigma)), below


def laplace_tails(theta: float, x: mpf) -> tuple[mpf, mpf]:
    return -mp.expm1((x - theta) / 2) / 2, mp.exp(-mpf(theta) / 2) * (mp.exp(-x / 2) - mp.exp(-mpf(theta) / 2)) / 2


@pytest.mark.parametrize(
    ("pair", "tails", "lo", "hi"),
    [
        (normal(1.0), lambda x: gaussian_tails(1.0, x), -8, 9),
        (normal(0.5), lambda x: gaussian_tails(2.0, x), -16, 20),
        (poisson_gaussian(0.01, 1.0), lambda x: sampled_tails(0.01, 1.0, x), -0.009, 6),
        (poisson_gaussian(0.3, 2.0), lambda x: sampled_tails(0.3, 2.0, x), -0.3, 5),
        (laplace(0.01), lambda x: laplace_tails(0.01, x), -0.01, 0.00999),
        (laplace(5.0), lambda x: laplace_tails(5.0, x), -5, 4.99),
    ],
)
def test_pairs_keep_the_accuracy_grids_rely_on(pair: Pair, tails: Callable[[mpf], tuple[mpf, mpf]], lo: float, hi: float) -> None:
    for x in np.linspace(lo, hi, 40).tolist():
        p, q = (mpf(float(mass[0])) for mass in pair.masses(np.array([x, math.inf])))
        true_p, true_q = tails(mpf(x))
        alpha = mp.exp(mpf(x))
        assert abs((p - alpha * q) - (true_p - alpha * true_q)) <= grid.TAIL_ERROR * (true_p + alpha * true_q)


@pytest.mark.parametrize("name", ["laplace 3", "gaussian 0.5", "sampled", "bounded range"])
def test_connect_the_dots_keeps_both_masses(name: str) -> None:
    pair = PAIRS[name]
    lo, hi = ends(pair)
    law = pessimistic(pair, 0.05, lo, hi, -lo)
    assert law.p.sum() + law.infinite == pytest.approx(1, abs=1e-12)
    assert np.dot(law.p, np.exp(-law.losses)) == pytest.approx(1, abs=1e-11)
    points = law.losses[:: len(law.p) // 20]
    assert lattice_curve(law, points) == pytest.approx(true_curve(pair, points), abs=1e-12)


def rounded_down(pair: Pair, step: float, lo: float, hi: float, offset: float) -> Lattice:
    """A mutant of the pessimistic grid: every cell's mass goes to its lower end."""
    safe = pessimistic(pair, step, lo, hi, offset)
    p, _ = pair.masses(safe.losses)
    loss, mass = pair.atoms()
    lowered = np.append(p, 0.0)
    np.add.at(lowered, np.rint((loss - safe.losses[0]) / step).astype(int), mass)
    return Lattice(step, offset, safe.start, lowered, pair.infinite)


def test_unsafe_rounding_breaks_the_upper_bound() -> None:
    pair = laplace(1.0)
    truth = bracket([(pair, 50)], delta=1e-5)
    safe, unsafe = (compose([(make(pair, 0.01, -1, 1, -1.0), 50)]).epsilon(1e-5) for make in (pessimistic, rounded_down))
    assert safe.upper >= truth.upper - 1e-7
    assert unsafe.upper < truth.lower


def test_chords_without_lowering_break_the_lower_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = laplace(1.0)
    truth = bracket([(pair, 50)], delta=1e-5)
    assert compose([(optimistic(pair, 0.05, -1, 1, -1.0), 50)]).epsilon(1e-5).lower <= truth.lower + 1e-7
    monkeypatch.setattr(grid, "_gaps", lambda cells, upper, width, slack: np.zeros_like(upper))
    mutant = optimistic(pair, 0.05, -1, 1, -1.0)
    assert compose([(mutant, 50)]).epsilon(1e-5).lower > truth.upper


def test_both_errors_are_of_second_order() -> None:
    pair, count = laplace(1.0), 100
    truth = bracket([(pair, count)], delta=1e-6, tolerance=1e-8)
    errors = []
    for cells in (100, 200, 400):
        law = [(make(pair, 1 / cells, -1, 1, -1.0), count) for make in (optimistic, pessimistic)]
        errors.append((truth.lower - compose([law[0]]).epsilon(1e-6).lower, compose([law[1]]).epsilon(1e-6).upper - truth.upper))
    for coarse, fine in pairwise(errors):
        assert 3.5 < coarse[0] / fine[0] < 4.5
        assert 3.8 < coarse[1] / fine[1] < 4.2


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
    gathered = grid._refined(grid._gathered(single), False, 1e-6, None, 1e-6)
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


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=60), st.randoms(use_true_random=False))
def test_pooling_gives_the_greatest_convex_minorant(values: list[float], random: object) -> None:
    """By the definition: a decreasing fit whose running weighted sum stays above that of the data and meets it at the end of each block."""
    value = np.array(values)
    weight = np.array([random.uniform(0.1, 2) for _ in values])  # type: ignore[attr-defined]
    fit = grid._decreasing(value, weight)
    assert np.all(np.diff(fit) <= 1e-12)
    gap = np.cumsum((fit - value) * weight)
    assert np.all(gap >= -1e-10)
    blocks = np.flatnonzero(np.append(np.abs(np.diff(fit)) > 1e-12, True))
    assert np.all(np.abs(gap[blocks]) < 1e-9)


@given(st.integers(1, 5000))
@settings(max_examples=20)
def test_sums_from_the_right(length: int) -> None:
    x = np.random.default_rng(length).random(length) * np.exp(np.linspace(0, -30, length))
    expected = [math.fsum(x[i:]) for i in range(0, length, 97)]
    assert grid.from_the_right(x)[::97] == pytest.approx(expected, rel=grid._PILE * 2.0**-53)
    x[length // 3 : length // 2] = 0
    flat = grid._tails(x)[length // 3 : length // 2]
    assert np.all(flat == flat[:1])


def test_a_bulk_narrower_than_the_grid_keeps_its_mean_from_below() -> None:
    """A sample of one in a million on a grid of 1e-5: the grid through the bulk's own loss moves it nowhere, another one by half a step."""
    pair, step = poisson_gaussian(1e-6, 1.0), 1e-5
    through = optimistic(pair, step, -1e-6, 0.1, grid.core(pair, step))
    beside = optimistic(pair, step, -1e-6, 0.1, grid.core(pair, step) + 0.4 * step)
    means = [float(law.p @ law.losses) for law in (through, beside)]
    truth = pair.moments(np.zeros(1))[1][0]
    assert means[1] < means[0] <= truth and truth - means[0] < 0.05 * (truth - means[1])
    for epsilon in (1e-7, 1e-5, 1e-3, 0.05):
        assert compose([(through, 1)]).delta(epsilon).upper <= single_delta(pair, epsilon)[1] * (1 + 1e-9)
