"""Finite pairs against brute force: integer noise summed term by term, the staircase integrated piece by piece, profiles by their hulls."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from tacit.accounting.engines.lattice import compose
from tacit.accounting.pairs import finite
from tacit.accounting.pairs.finite import FinitePair
from tacit.accounting.theorems import gaussian
from tacit.errors import ParameterError, UnsupportedError

mp.dps = 40

ALPHAS = np.exp(np.concatenate([np.linspace(-4, 4, 801), [-30.0, 30.0]]))


def hockey_stick(pair: FinitePair, alpha: np.ndarray) -> np.ndarray:
    """HS_alpha(P || Q), from P- and Q-masses."""
    p, q = pair.p, pair.reverse().p[::-1]
    return np.maximum(p - alpha[:, None] * q, 0).sum(axis=1) + pair.infinite


def integer_hockey_stick(log_mass: list[mpf], shift: int, alpha: float) -> mpf:
    """The same for two shifted copies of integer noise given on -n..n, in 40 digits; mass off the table counts as zero."""
    total, n = mpf(0), len(log_mass) // 2
    for x in range(-n, n + shift + 1):
        p = mp.exp(log_mass[x + n]) if x <= n else mpf(0)
        q = mp.exp(log_mass[x - shift + n]) if x - shift >= -n else mpf(0)
        total += max(mpf(0), p - mpf(alpha) * q)
    return total


def laplace_table(scale: float, n: int) -> list[mpf]:
    b = mp.exp(-1 / mpf(scale))
    return [mp.log((1 - b) / (1 + b)) - abs(x) / mpf(scale) for x in range(-n, n + 1)]


def gaussian_table(sigma: float, n: int) -> list[mpf]:
    total = mp.fsum(mp.exp(-mpf(x * x) / (2 * mpf(sigma) ** 2)) for x in range(-n, n + 1))
    return [-mpf(x * x) / (2 * mpf(sigma) ** 2) - mp.log(total) for x in range(-n, n + 1)]


EXAMPLES = [
    finite.randomised_response(0.3),
    finite.randomised_response(2.0, 7),
    finite.leaky_randomised_response(1.5, 0.03),
    finite.leaky_randomised_response(0.0, 0.2),
    finite.discrete_laplace(2.5, 4),
    finite.discrete_gaussian(0.4, 2),
    finite.discrete_gaussian(3.0, 5),
    finite.staircase(1.0, 0.2),
    finite.staircase(0.7, 0.9),
    finite.from_profile([(0.0, 0.4), (0.5, 0.2), (1.0, 0.15), (2.0, 1e-3)]),
]


@pytest.mark.parametrize("pair", EXAMPLES, ids=repr)
def test_pairs_are_two_distributions(pair: FinitePair) -> None:
    assert pair.p.sum() + pair.infinite == pytest.approx(1, abs=1e-13)
    other = pair.reverse()
    assert other.p.sum() + other.infinite == pytest.approx(1, abs=1e-13)
    assert pair.kappa(0.0) == pytest.approx(math.log1p(-pair.infinite), abs=1e-14)
    assert pair.kappa(-1.0) == pytest.approx(math.log1p(-other.infinite), abs=1e-13)
    again = other.reverse()
    assert np.allclose(again.losses, pair.losses, rtol=1e-15)
    assert np.allclose(again.log_p, pair.log_p, atol=1e-13)
    assert (again.infinite, again.reverse_infinite) == (pair.infinite, pair.reverse_infinite)


@pytest.mark.parametrize("pair", EXAMPLES, ids=repr)
def test_reversing_mirrors_the_curve(pair: FinitePair) -> None:
    """HS_a(P||Q) = 1 - a + a HS_1/a(Q||P)."""
    mirrored = 1 - ALPHAS + ALPHAS * hockey_stick(pair.reverse(), 1 / ALPHAS)
    assert np.all(np.abs(hockey_stick(pair, ALPHAS) - mirrored) <= 2e-14 * np.maximum(ALPHAS, 1))


@pytest.mark.parametrize("pair", EXAMPLES, ids=repr)
def test_quadrature_is_the_pair_itself(pair: FinitePair) -> None:
    for c in (-1.0, 0.0, 0.7, 30.0):
        nodes = pair.nodes(c, 100.0)
        assert nodes.weight.sum() == pytest.approx(1, abs=1e-14)
        truth = mp.log(mp.fsum(mp.exp(mpf(float(a)) + mpf(c) * mpf(float(x))) for a, x in zip(pair.log_p, pair.losses, strict=True)))
        assert abs(nodes.log_mgf - truth) <= nodes.log_error + 1e-15 * abs(truth)
        assert pair.kappa(c) == pytest.approx(float(truth), abs=1e-13, rel=1e-14)
    assert pair.decay(1.0, 1e6) == 1.0
    p, q = pair.masses(np.array([-1.0, 0.0, math.inf]))
    assert not p.any()
    assert not q.any()
    loss, mass = pair.atoms()
    assert pair.support() == (loss[0], loss[-1])
    assert np.array_equal(mass, pair.p)


@pytest.mark.parametrize("pair", EXAMPLES[:9], ids=repr)
def test_lattice_has_the_same_points(pair: FinitePair) -> None:
    for direction in (pair, pair.reverse()):
        law = direction.lattice()
        assert law is not None
        assert np.all(np.abs(law.losses - direction.losses) <= 4e-16 * (np.abs(direction.losses) + abs(law.offset)))
        assert np.array_equal(law.p, direction.p)
        assert (law.infinite, law.cut) == (direction.infinite, direction.cut)
        one = compose([(law, 1)])
        for epsilon in (-1.5, 0.0, 0.4, 1.7):
            expected = float(hockey_stick(direction, np.array([math.exp(epsilon)]))[0])
            found = one.delta(epsilon)
            assert found.lower - 1e-14 <= expected <= found.upper + 1e-14


def test_profiles_have_no_lattice() -> None:
    assert EXAMPLES[9].lattice() is None


@pytest.mark.parametrize(("scale", "sensitivity"), [(0.5, 1), (2.0, 1), (3.3, 4), (10.0, 25)])
def test_discrete_laplace_against_brute_force(scale: float, sensitivity: int) -> None:
    pair = finite.discrete_laplace(scale, sensitivity)
    table = laplace_table(scale, math.ceil(60 * scale) + sensitivity)
    alphas = np.exp(np.array([-2.0, -0.3, 0.0, 0.2, 0.9, 2.4]))
    for alpha, found in zip(alphas, hockey_stick(pair, alphas), strict=True):
        assert found == pytest.approx(float(integer_hockey_stick(table, sensitivity, float(alpha))), rel=1e-12, abs=1e-16)
    assert pair.losses[-1] == pytest.approx(sensitivity / scale)
    assert len(pair.losses) == sensitivity + 1


@pytest.mark.parametrize(("sigma", "sensitivity"), [(0.3, 1), (1.0, 1), (2.7, 3), (6.0, 2), (20.0, 31)])
def test_discrete_gaussian_against_brute_force(sigma: float, sensitivity: int) -> None:
    pair = finite.discrete_gaussian(sigma, sensitivity)
    table = gaussian_table(sigma, math.ceil(20 * sigma) + sensitivity + 2)
    alphas = np.exp(np.array([-2.0, -0.3, 0.0, 0.2, 0.9, 2.4]))
    for alpha, found in zip(alphas, hockey_stick(pair, alphas), strict=True):
        assert found == pytest.approx(float(integer_hockey_stick(table, sensitivity, float(alpha))), rel=1e-12, abs=1e-15)
    assert float(np.dot(pair.p, pair.losses)) == pytest.approx(sensitivity**2 / (2 * sigma**2), rel=1e-12)
    assert 0 < pair.cut < 1e-60
    beyond = 2 * mp.nsum(lambda x: mp.exp(-(x**2) / (2 * mpf(sigma) ** 2)), [int((len(pair.losses) - sensitivity - 1) / 2) + 1, mp.inf])
    assert beyond * mp.exp(table[len(table) // 2]) <= pair.cut


@pytest.mark.parametrize("make", [finite.discrete_laplace, finite.discrete_gaussian])
def test_smaller_shifts_are_dominated(make: object) -> None:
    """The pair at the full sensitivity is the worst: a smaller change of the query is harder to see at every alpha."""
    curves = [hockey_stick(make(4.0, shift), ALPHAS) for shift in range(1, 8)]  # type: ignore[operator]
    for smaller, larger in pairwise(curves):
        assert np.all(smaller <= larger + 1e-15)


def staircase_hockey_stick(epsilon: float, gamma: float, shift: float, alpha: float) -> float:
    """By integration over the pieces between all jumps of the density and its shifted copy."""
    fall = math.exp(-epsilon)
    height = (1 - fall) / (2 * (gamma + fall * (1 - gamma)))

    def density(x: float) -> float:
        return height * fall ** math.floor(abs(x) + 1 - gamma)

    jumps = [sign * (k + gamma) for k in range(60) for sign in (-1, 1)]
    points = sorted({0.0, shift, *jumps, *(j + shift for j in jumps)})
    total = 0.0
    for a, b in pairwise(points):
        middle = 0.5 * (a + b)
        total += (b - a) * max(0.0, density(middle) - alpha * density(middle - shift))
    return total


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("gamma", [0.0, 0.1, 0.37, 0.5, 0.8, 1.0])
def test_staircase_against_integration(epsilon: float, gamma: float) -> None:
    pair = finite.staircase(epsilon, gamma)
    tail = 2 * math.exp(-55 * epsilon)  # the oracle stops after 60 steps
    for alpha in np.exp(epsilon * np.array([-1.5, -0.99, -0.4, 0.0, 0.3, 0.8, 1.1])):
        found = float(hockey_stick(pair, np.array([alpha]))[0])
        assert found == pytest.approx(staircase_hockey_stick(epsilon, gamma, 1.0, float(alpha)), abs=1e-13 + tail)
        for shift in np.linspace(0.02, 0.98, 25):
            assert staircase_hockey_stick(epsilon, gamma, float(shift), float(alpha)) <= found + 1e-13 + tail


def test_staircase_is_randomised_response_at_one_half() -> None:
    assert np.allclose(finite.staircase(0.9, 0.5).p, finite.randomised_response(0.9).p)


def test_large_losses_do_not_overflow() -> None:
    pair = finite.randomised_response(1e4)
    assert pair.kappa(5.0) == pytest.approx(5e4)
    assert pair.reverse().p[1] == pytest.approx(1.0)
    assert compose([(pair.lattice(), 3)]).epsilon(1e-6).upper == pytest.approx(3e4)  # type: ignore[list-item]
    assert finite.discrete_gaussian(0.05).support()[1] > 200


def test_total_disclosure() -> None:
    pair = finite.leaky_randomised_response(1.0, 1.0)
    assert pair.infinite == 1.0
    assert pair.kappa(1.0) == -math.inf
    assert pair.support() == (0.0, 0.0)
    assert pair.lattice() is None
    with pytest.raises(UnsupportedError):
        pair.nodes(1.0, 1.0)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.2, 0.0), (1.0, 0.01), (3.0, 1e-6), (0.0, 0.3), (800.0, 1e-3)])
def test_one_row_is_leaky_randomised_response(epsilon: float, delta: float) -> None:
    found, expected = finite.from_profile([(epsilon, delta)]), finite.leaky_randomised_response(epsilon, delta)
    assert np.allclose(hockey_stick(found, ALPHAS), hockey_stick(expected, ALPHAS), atol=1e-14)


def test_a_table_of_a_true_curve_gives_a_pair_above_it() -> None:
    epsilons = np.linspace(0, 6, 61)
    pair = finite.from_profile([(float(e), gaussian.delta(1.0, float(e))) for e in epsilons])
    fine = np.linspace(-5, 5.99, 1100)
    truth = [gaussian.delta(1.0, e) if e >= 0 else 1 - math.exp(e) + math.exp(e) * gaussian.delta(1.0, -e) for e in fine.tolist()]
    found = hockey_stick(pair, np.exp(fine))
    assert np.all(found >= np.array(truth) - 1e-15)
    at_rows = hockey_stick(pair, np.exp(epsilons))
    assert at_rows == pytest.approx([gaussian.delta(1.0, float(e)) for e in epsilons], rel=1e-9)
    assert np.max(found - np.array(truth)) < 2e-3


@settings(max_examples=60)
@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 1)), min_size=1, max_size=8))
def test_profiles_are_the_largest_convex_symmetric_curve(rows: list[tuple[float, float]]) -> None:
    pair = finite.from_profile(rows)
    for epsilon, delta in rows:
        assert float(hockey_stick(pair, np.array([math.exp(epsilon)]))[0]) <= delta + 1e-12
    mirrored = 1 - ALPHAS + ALPHAS * hockey_stick(pair, 1 / ALPHAS)
    assert np.all(np.abs(hockey_stick(pair, ALPHAS) - mirrored) <= 1e-12 * np.maximum(ALPHAS, 1))
    # every corner above 1 is a stated row: nothing smaller would still allow all rows
    for loss in pair.losses[pair.losses > 0]:
        value = float(hockey_stick(pair, np.array([math.exp(loss)]))[0])
        assert any(abs(loss - e) < 1e-12 for e, _ in rows)
        assert value == pytest.approx(min(d for e, d in rows if e <= loss + 1e-12), abs=1e-10)


@pytest.mark.parametrize(
    "make",
    [
        lambda: FinitePair([0.0, 0.0], [math.log(0.5), math.log(0.5)]),
        lambda: FinitePair([1.0, 0.0], [math.log(0.5), math.log(0.5)]),
        lambda: FinitePair([0.0], [math.log(0.5)]),
        lambda: FinitePair([0.0], [0.0], infinite=2.0),
        lambda: FinitePair([0.0], [1.0]),
        lambda: FinitePair([0.0, 1.0], [0.0]),
        lambda: FinitePair([math.nan], [0.0]),
        lambda: finite.from_profile([]),
        lambda: finite.from_profile([(-1.0, 0.1)]),
        lambda: finite.from_profile([(1.0, 1.1)]),
    ],
)
def test_what_is_no_pair_is_refused(make: object) -> None:
    with pytest.raises(ParameterError):
        make()  # type: ignore[operator]


def test_too_many_losses_are_refused_with_the_fix() -> None:
    with pytest.raises(UnsupportedError, match="coarser lattice"):
        finite.discrete_gaussian(1e6)
    with pytest.raises(UnsupportedError, match="fewer steps"):
        finite.discrete_laplace(1e7, 10**7)


@pytest.mark.parametrize("sigma", [0.3, 0.5, 1.0, 2.5, 10.0])
@pytest.mark.parametrize("shift", [1, 3])
def test_the_divergence_of_discrete_gaussian_noise_is_the_sum_over_the_integers(sigma: float, shift: int) -> None:
    """Term by term in 40 digits. Where the order times the shift is whole it is the continuous one's; elsewhere it is below."""
    orders = [1.01, 1.5, 2.0, 2.5, 7.25]
    found = finite.discrete_gaussian_divergence(sigma, shift, np.array(orders))
    s2 = 2 * mpf(sigma) ** 2
    span = range(-250, 251)
    total = mp.fsum(mp.exp(-mpf(x) ** 2 / s2) for x in span)
    for order, value in zip(orders, found.tolist(), strict=True):
        a = mpf(order)
        power = mp.fsum(mp.exp(-(a * mpf(x - shift) ** 2 + (1 - a) * mpf(x) ** 2) / s2) for x in span) / total
        truth = mp.log(power) / (a - 1)
        assert truth * (1 - mpf(2) ** -50) <= value <= truth * (1 + mpf(1e-12)) + mpf(1e-12) / (a - 1)
        continuous = order * shift**2 / (2 * sigma**2)
        assert value <= continuous * (1 + 1e-15)
        assert (order * shift != int(order * shift)) or value == pytest.approx(continuous, rel=1e-15)
    if sigma == 0.5:
        assert found[1] < 1.5 * shift**2 / (2 * sigma**2) - 0.05, "the term that the continuous formula leaves out is not nothing"


def test_the_divergence_of_discrete_gaussian_noise_at_its_ends() -> None:
    found = finite.discrete_gaussian_divergence(0.01, 1, np.array([1 + 1e-12, 1.5, 1e12, math.inf]))
    assert not np.isnan(found).any() and (np.diff(found) > 0).all() and found[-1] == math.inf
