"""Planar Laplace noise: metric privacy by enumeration, the law that is drawn, its accuracy."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.noise.reference import LEVEL, chi_square

from tacit.accounting import NoOp, ParameterError, PureDP
from tacit.calculus import L2, Integers, Lattice, Space, Vectors
from tacit.mechanisms import planar_laplace
from tacit.mechanisms.planar import SLOPE, PlanarLaplace, draw, radius, rounded_length
from tacit.noise import test_mode

RUNS = 4000


def plane(granularity: Fraction | None = None) -> Space:
    return Space(Vectors(Integers() if granularity is None else Lattice(granularity), 2), L2())


@given(st.integers(-(10**9), 10**9), st.integers(-(10**9), 10**9))
def test_lengths_are_rounded_up_by_less_than_the_last_place(x: int, y: int) -> None:
    found = rounded_length(x, y)
    assert found**2 >= x * x + y * y
    assert x == y == 0 or (found - Fraction(1, 2**20)) ** 2 < x * x + y * y
    assert found >= SLOPE * (abs(x) + abs(y))  # what makes the rejection exact: its exponent is never negative


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(2)])
def test_metric_privacy_by_enumeration(epsilon: Fraction) -> None:
    """All moves within a square, all reports near them: log-ratios of masses, whose normaliser is common, stay below epsilon * distance."""
    made = planar_laplace(epsilon)
    base = made.weights((0, 0))
    for move in [(1, 0), (1, 1), (2, 1), (3, 4), (0, 5)]:
        other = made.weights(move)
        event = (plane() >> made).event(rounded_length(*move))
        assert isinstance(event, PureDP)
        worst = max(max(base[z][1] / other[z][0], other[z][1] / base[z][0]) for z in base)
        assert math.log(worst) <= float(epsilon) * math.hypot(*move) * (1 + 1e-15) <= event.epsilon * (1 + 1e-6)
        # attained along the line through both places
        assert math.log(worst) >= float(epsilon) * math.hypot(*move) * (1 - 3e-6) or 0 not in move


def test_without_the_safety_factor_a_neighbouring_place_could_cost_more() -> None:
    """The mutant: masses exp(-epsilon * l) with rounded lengths l. Along a diagonal rounding adds to the length itself."""
    excess = rounded_length(1, 1) - rounded_length(0, 0)
    assert excess**2 > 2
    assert (excess / (1 + Fraction(1, 2**20))) ** 2 <= 2


def test_the_price_is_per_unit_of_distance() -> None:
    plan = plane(Fraction(1, 8)) >> planar_laplace(2)
    assert plan.event(8) == PureDP(2)
    assert plan.event(0) == NoOp()
    assert plan.event(Fraction(1, 2)) == NoOp()
    far = plan.event(rounded_length(3, 4))
    assert far == PureDP(Fraction(5, 4))


@pytest.mark.parametrize("rate", [Fraction(1), Fraction(1, 3)])
def test_draws_follow_the_law(rate: Fraction) -> None:
    with test_mode(71):
        drawn = [tuple(draw(rate).tolist()) for _ in range(RUNS)]
    reach = 60
    weight = {(x, y): math.exp(-rate * rounded_length(x, y)) for x in range(-reach, reach + 1) for y in range(-reach, reach + 1)}
    total = math.fsum(weight.values())
    shells: dict[int, float] = {}
    for (x, y), w in weight.items():
        shell = min(int(math.hypot(x, y)), 8)
        shells[shell] = shells.get(shell, 0.0) + w / total
    counts = np.bincount([min(int(math.hypot(x, y)), 8) for x, y in drawn], minlength=9)
    kept = [s for s in sorted(shells) if shells[s] * RUNS >= 10]
    assert chi_square([counts[s] for s in kept], [shells[s] for s in kept], RUNS) > LEVEL
    # all directions alike, and the axes no likelier than they should be (the proposals without rejection make them so)
    quadrants = np.bincount([2 * (x > 0) + (y > 0) for x, y in drawn if x and y], minlength=4)
    assert chi_square(quadrants, [0.25] * 4, int(quadrants.sum())) > LEVEL
    on_axis = math.fsum(w for (x, y), w in weight.items() if not (x and y)) / total
    assert chi_square([sum(not (x and y) for x, y in drawn)], [on_axis], RUNS) > LEVEL


def test_independent_coordinates_are_caught() -> None:
    """The mutant: the proposals themselves, two independent discrete Laplace coordinates."""
    from tacit.noise import discrete_laplace

    rate = Fraction(1)
    with test_mode(72):
        proposals = discrete_laplace(1 / (rate * SLOPE), (20_000, 2))
    weight = {(x, y): math.exp(-rate * rounded_length(x, y)) for x in range(-60, 61) for y in range(-60, 61)}
    within = math.fsum(w for z, w in weight.items() if math.hypot(*z) < 2) / math.fsum(weight.values())
    assert chi_square([int((np.hypot(proposals[:, 0], proposals[:, 1]) < 2).sum())], [within], 20_000) < LEVEL


@given(st.floats(0.01, 100), st.floats(1e-9, 0.99))
def test_the_radius_solves_its_equation(epsilon: float, beta: float) -> None:
    found = radius(epsilon, beta)
    with mpmath.workdps(40):
        tail = (1 + mpmath.mpf(epsilon) * found) * mpmath.exp(-mpmath.mpf(epsilon) * found)
        assert tail <= beta
        assert float(tail) == pytest.approx(beta, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("rate", [0.05, 0.4, 1.5])
@pytest.mark.parametrize("beta", [0.3, 0.01])
def test_the_accuracy_of_the_lattice_law_by_summation(rate: float, beta: float) -> None:
    made = planar_laplace(rate)
    bound = made.accuracy(beta, granularity=1)
    reach = math.ceil(40 / rate)
    x = np.arange(-reach, reach + 1)
    length = np.hypot(*np.meshgrid(x, x))
    mass = np.exp(-float(made.rate()) * length)
    assert mass[length > bound].sum() / mass.sum() <= beta
    assert bound <= radius(rate, beta) + 1 + 2 * math.sqrt(2) + 2e-6 / rate  # what discreteness costs: a few granules


def test_for_accuracy_keeps_it() -> None:
    made = PlanarLaplace.for_accuracy(10, 0.05, granularity=Fraction(1, 8))
    assert made.accuracy(0.05, granularity=Fraction(1, 8)) <= 10 < planar_laplace(float(made.epsilon) * 0.999).accuracy(
        0.05, granularity=Fraction(1, 8)
    )
    with pytest.raises(ParameterError, match="granule"):
        PlanarLaplace.for_accuracy(0.1, 0.05, granularity=Fraction(1, 8))


def test_reports_lie_on_the_lattice() -> None:
    value = (plane(Fraction(1, 8)) >> planar_laplace(2)).release([80, -16]).value
    assert value.shape == (2,) and np.all(value * 8 == np.rint(value * 8))
