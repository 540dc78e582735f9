"""Rounding to the lattice is exact, total and blind to the data's low bits; scaling back is correctly rounded."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.noise.reference import LEVEL, chi_square

from tacit.accounting import ParameterError
from tacit.noise import discrete_gaussian, discrete_laplace, from_lattice, granularity_for, round_to_lattice, steps_apart, test_mode
from tacit.noise.lattice import LIMIT

GRANULARITIES = [Fraction(1), Fraction(1, 1024), Fraction(64), Fraction(1, 10), Fraction(7, 3), Fraction(1, 2**1074), Fraction(2**1000)]
NAMES = ["1", "1/1024", "64", "1/10", "7/3", "least", "2^1000"]
HUGE = 1.7976931348623157e308
EDGES = [0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 5e-324, -5e-324, HUGE / 2, HUGE, -HUGE, 2.0**63, 1e16 + 2]


def want(value: float, step: Fraction) -> int:
    """The exact quotient, rounded half to even by hand: floor, then compare the rest with one half."""
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return LIMIT if value > 0 else -LIMIT
    quotient = Fraction(value) / step
    whole = math.floor(quotient)
    rest = quotient - whole
    up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1)
    return min(max(whole + up, -LIMIT), LIMIT)


@pytest.mark.parametrize("step", GRANULARITIES, ids=NAMES)
def test_rounding_is_exact_at_the_edges(step: Fraction) -> None:
    values = np.array([*EDGES, math.nan, math.inf, -math.inf, float(step) / 2, float(step) * 1.5, np.nextafter(float(step) / 2, 1)])
    expected = [want(v, step) for v in values.tolist()]
    found = round_to_lattice(values, step)
    assert found.dtype == np.int64 and found.tolist() == expected
    assert [round_to_lattice(v, step) for v in values.tolist()] == expected


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=20), st.integers(min_value=-60, max_value=60))
def test_rounding_is_exact_everywhere(values: list[float], power: int) -> None:
    step = Fraction(2) ** power
    assert round_to_lattice(np.array(values), step).tolist() == [want(v, step) for v in values]


@given(st.floats(min_value=-1e6, max_value=1e6), st.fractions(min_value=Fraction(1, 1000), max_value=1000))
def test_rounding_to_any_fraction(value: float, step: Fraction) -> None:
    assert round_to_lattice(value, step) == want(value, step)
    assert abs(round_to_lattice(value, step) * step - Fraction(value)) <= step / 2


def test_bounds_cut_off() -> None:
    values = np.array([-math.inf, -5.0, 0.2, 3.3, 1e308, math.inf, math.nan])
    assert round_to_lattice(values, Fraction(1, 2), bounds=(-1, 3)).tolist() == [-2, -2, 0, 6, 6, 6, 0]
    assert round_to_lattice(values, Fraction(1, 2), bounds=(1, 3)).tolist() == [2, 2, 2, 6, 6, 6, 2]
    assert round_to_lattice(math.inf, 1, bounds=(0, 10**30)) == LIMIT
    assert round_to_lattice(np.array([2**63 - 1, -(2**63), 5]), 2, bounds=(-math.inf, 100)).tolist() == [50, -LIMIT, 2]


def test_integers_are_exact_too() -> None:
    assert round_to_lattice(np.array([2**53 + 1, 3, 5], dtype=np.int64), 2).tolist() == [2**52, 2, 2]
    assert round_to_lattice(10**400, 1) == LIMIT and round_to_lattice(7, Fraction(1, 3)) == 21
    assert round_to_lattice(np.array([255], dtype=np.uint8), 1).tolist() == [255]
    assert round_to_lattice(np.array([0.25, 0.75], dtype=np.float32), Fraction(1, 2)).tolist() == [0, 2]
    assert round_to_lattice(np.zeros((2, 0)), 1).shape == (2, 0)


@given(
    st.floats(min_value=-1000, max_value=1000),
    st.fractions(min_value=0, max_value=5, max_denominator=64),
    st.sampled_from([Fraction(1, 4), Fraction(1), Fraction(2, 3)]),
)
def test_steps_apart_bounds_every_pair(value: float, distance: Fraction, step: Fraction) -> None:
    x = Fraction(value).limit_denominator(64)
    moved = abs(round((x + distance) / step) - round(x / step))
    assert moved <= steps_apart(distance, step)


@pytest.mark.parametrize("steps", [Fraction(n, 4) for n in range(17)], ids=str)
def test_steps_apart_is_reached(steps: Fraction) -> None:
    """No smaller number would do: a grid of starting points attains it, half-way points included."""
    reached = max(abs(round(Fraction(i, 8) + steps) - round(Fraction(i, 8))) for i in range(-32, 33))
    assert reached == steps_apart(steps, 1)


@given(
    st.one_of(st.floats(min_value=1e-300, max_value=1e300), st.fractions(min_value=Fraction(1, 1000), max_value=1000)),
    st.integers(min_value=0, max_value=80),
)
def test_granularity_is_the_greatest_power_of_two_that_is_fine_enough(scale: float | Fraction, bits: int) -> None:
    found = granularity_for(scale, bits)
    top, under = found.numerator, found.denominator
    assert top & (top - 1) == 0 and under & (under - 1) == 0
    assert found <= Fraction(scale) / 2**bits < 2 * found


@given(st.integers(min_value=-(2**63), max_value=2**63 - 1), st.sampled_from(GRANULARITIES))
def test_scaling_back_is_correctly_rounded(multiple: int, step: Fraction) -> None:
    """Python divides integers with one rounding; Fraction's own conversion is the second opinion, in range."""
    try:
        expected = float(Fraction(multiple) * step)
    except OverflowError:
        expected = math.copysign(math.inf, multiple)
    assert from_lattice(multiple, step) == expected
    assert from_lattice(np.array([multiple], dtype=np.int64), step).tolist() == [expected]
    assert from_lattice(np.array([multiple, 10**400], dtype=object), step).tolist() == [expected, from_lattice(10**400, step)]


def test_every_lattice_float_survives_the_round_trip() -> None:
    values = np.arange(-1000, 1000) * 2.0**-10
    assert (from_lattice(round_to_lattice(values, Fraction(1, 1024)), Fraction(1, 1024)) == values).all()


@pytest.mark.parametrize("draw", [discrete_laplace, discrete_gaussian], ids=["laplace", "gaussian"])
def test_neighbours_share_one_support(draw: Any) -> None:
    """Outputs for 0 and for 1 are multiples of one step, all residues of which come up alike: nothing in the low bits tells them apart."""
    step = granularity_for(1.0)
    scale = int(1 / step)
    residues = []
    for seed, value in enumerate((0.0, 1.0, 0.1, 2.0**20)):
        with test_mode(seed):
            multiples = round_to_lattice(value, step) + draw(scale, 100_000)
        outputs = from_lattice(multiples, step)
        assert all(o == math.ldexp(int(m), -32) for o, m in zip(outputs[:2000].tolist(), multiples[:2000], strict=True))
        residues.append(np.bincount((multiples % 64).astype(int), minlength=64))
    for counts in residues:
        assert chi_square(counts, [1 / 64] * 64, 100_000) > LEVEL


def trailing(multiples: NDArray[Any]) -> NDArray[np.int64]:
    """The histogram of trailing zero bits, up to 8."""
    low = multiples & -multiples
    return np.bincount(np.minimum(np.log2(np.where(low == 0, 256, low)), 8).astype(int), minlength=9)


def test_trailing_zero_bits_do_not_depend_on_the_shift() -> None:
    """The precision attack of Haney et al. (2022): a large summand must not clear low bits. A share 2^-(j+1) has j of them zero."""
    law = [2.0 ** -(j + 1) for j in range(8)] + [2.0**-8]
    for seed, shift in enumerate((0, 1, 2**20, 2**50)):
        with test_mode(10 + seed):
            counts = trailing(shift + discrete_laplace(2**32, 100_000))
        assert chi_square(counts, law, 100_000) > LEVEL
    generator = np.random.default_rng(1)
    for shift, told in ((0.0, False), (2.0**20, True)):  # the mutant: float noise on a float; only at 0 are its lowest bits alive
        counts = trailing(np.rint(np.ldexp(shift + generator.laplace(0, 1, 100_000), 40)).astype(np.int64))
        assert (chi_square(counts, law, 100_000) < LEVEL) == told


def test_floating_point_noise_is_told_apart_and_ours_is_not() -> None:
    """Outputs in (0, 1/4) that are no multiples of 2^-53: 84.1 per cent for a true value of 0 and none for 1, with naive noise."""

    def off_grid(outputs: NDArray[np.float64]) -> float:
        near = outputs[(outputs > 0) & (outputs < 0.25)]
        scaled = np.ldexp(near, 53)
        return float(np.mean(scaled != np.rint(scaled)))

    generator = np.random.default_rng(0)
    naive = [off_grid(value + generator.laplace(0, 1, 1_000_000)) for value in (0.0, 1.0)]
    assert naive[0] == pytest.approx(0.841, abs=0.005) and naive[1] == 0.0
    step = granularity_for(1.0)
    with test_mode(3):
        ours = [off_grid(from_lattice(round_to_lattice(value, step) + discrete_laplace(1 / step, 200_000), step)) for value in (0.0, 1.0)]
    assert ours == [0.0, 0.0]


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, "1", None, True], ids=repr)
def test_bad_granularities_are_refused_by_name(bad: Any) -> None:
    for call in (lambda: round_to_lattice(1.0, bad), lambda: from_lattice(1, bad), lambda: steps_apart(1, bad)):
        with pytest.raises(ParameterError, match="granularity"):
            call()
    with pytest.raises(ParameterError, match="scale"):
        granularity_for(bad)


def test_other_bad_input() -> None:
    with pytest.raises(ParameterError, match="bounds must be in order"):
        round_to_lattice(1.0, 1, bounds=(1, 0))
    with pytest.raises(ParameterError, match="bounds must be two"):
        round_to_lattice(1.0, 1, bounds=(1,))  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="lower bound is NaN"):
        round_to_lattice(1.0, 1, bounds=(math.nan, 0))
    for bad in ("x", None, np.array(["x"]), np.array([1j]), np.array([True])):
        with pytest.raises(ParameterError, match="values"):
            round_to_lattice(bad, 1)  # type: ignore[call-overload]
    for bad in (1.5, "1", True, None, np.array([1.5])):
        with pytest.raises(ParameterError, match="multiples"):
            from_lattice(bad, 1)  # type: ignore[call-overload]
    with pytest.raises(ParameterError, match="bits"):
        granularity_for(1, -1)
    with pytest.raises(ParameterError, match="distance"):
        steps_apart(-1, 1)
