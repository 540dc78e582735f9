"""Lattices against exact arithmetic: binomial sums in mpmath, polynomial powers in big integers, enumeration of all outcomes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from tacit.accounting.bound import Bound
from tacit.accounting.engines import spectrum
from tacit.accounting.engines.lattice import Lattice, common_step, compose
from tacit.errors import ParameterError, UnsupportedError

mp.dps = 50


def coin(epsilon: float) -> Lattice:
    """Randomised response; the two floats are the exact masses."""
    high = 1 / (1 + math.exp(-epsilon))
    return Lattice(2 * epsilon, -epsilon, 0, np.array([1 - high, high]))


def exact(x: float | mpf) -> flint.arb:
    """A double, or a number of mpmath, as a ball without (visible) radius."""
    return flint.arb(mp.nstr(x, 60)) if isinstance(x, mpf) else flint.arb(x)


def number(ball: flint.arb) -> mpf:
    """The middle of a ball whose radius is far below what is tested."""
    assert ball.rel_accuracy_bits() > 100 or ball == 0
    return mpf(ball.mid().str(45, radius=False))


def payoffs(terms: Iterator[flint.arb], bottom: flint.arb, step: flint.arb, epsilon: float | mpf) -> mpf:
    """The sum of term_j (1 - exp(epsilon - bottom - j step))_+, until terms stay below 1e-32 of the largest."""
    total, peak, above = flint.arb(0), flint.arb(0), bottom - exact(epsilon)
    decay, ratio = (-above).exp(), (-step).exp()
    for term in terms:
        if above > 0:
            total += term * (1 - decay)
            peak = term if term > peak else peak
            if term < peak * 1e-32 and term > 0:
                break
        above, decay = above + step, decay * ratio
    return number(total)


def binomial_delta(law: Lattice, count: int, epsilon: float | mpf) -> mpf:
    """The exact delta of `count` copies of a two-point lattice, by the binomial sum in ball arithmetic."""
    flint.ctx.prec = 260
    a, b = flint.arb(float(law.p[0])), flint.arb(float(law.p[1]))
    step = flint.arb(law.step)
    bottom = count * (flint.arb(law.offset) + step * law.start)
    first = max(0, math.floor((float(epsilon) - float(bottom.mid())) / law.step) - 2)

    def terms() -> Iterator[flint.arb]:
        term = flint.arb(flint.fmpz(count).bin_uiui(count, first) if first else 1) * a ** (count - first) * b**first
        for j in range(first, count + 1):
            yield term
            term = term * (count - j) / (j + 1) * b / a

    return payoffs(terms(), bottom + step * first, step, epsilon)


def enumerated_delta(components: Sequence[tuple[Lattice, int]], epsilon: float) -> mpf:
    """The exact delta by enumerating all outcomes, infinite ones included."""
    total = mpf(0)
    copies = [law for law, count in components for _ in range(count)]
    survive = mpf(1)
    for law in copies:
        survive *= 1 - mpf(law.infinite)
    for outcome in itertools.product(*(range(len(law.p)) for law in copies)):
        mass, loss = mpf(1), mpf(0)
        for law, i in zip(copies, outcome, strict=True):
            mass *= mpf(float(law.p[i]))
            loss += mpf(law.offset) + mpf(law.step) * (law.start + i)
        if loss > epsilon:
            total += mass * -mp.expm1(mpf(epsilon) - loss)
    return total + 1 - survive


def power_delta(numerators: Sequence[int], scale: int, step: float, offset: float, count: int, epsilon: float) -> mpf:
    """The exact delta of `count` copies of masses numerators / scale, by a polynomial power in big integers."""
    flint.ctx.prec = 260
    power = flint.fmpz_poly(list(numerators)) ** count
    whole = flint.arb(scale) ** count
    return payoffs((flint.arb(c) / whole for c in power.coeffs()), count * flint.arb(offset), flint.arb(step), epsilon)


def relative_width(found: Bound) -> float:
    return found.width / found.upper


@pytest.mark.one_in(3)
@pytest.mark.parametrize("epsilon0", [0.01, 0.1, 0.5])
@pytest.mark.parametrize("count", [1, 2, 3, 10, 100, 1000, 10_000, 1_000_000])
@pytest.mark.parametrize("delta", [1e-5, 1e-20, 1e-30])
def test_two_points_against_binomial_sums(epsilon0: float, count: int, delta: float) -> None:
    law = coin(epsilon0)
    composed = compose([(law, count)])
    found = composed.epsilon(delta)
    # the smallest epsilon with delta(epsilon) <= delta lies between the ends
    assert binomial_delta(law, count, found.lower) >= delta or found.lower == 0
    assert binomial_delta(law, count, found.upper) <= delta
    assert found.width <= 5e-12 * max(1, count) ** 0.9 * epsilon0
    # a little lower, where delta is not about to vanish with the largest loss
    below = 0.98 * found.upper
    profile = composed.delta(below)
    assert profile.lower <= binomial_delta(law, count, below) <= profile.upper
    assert relative_width(profile) < 1e-8


@pytest.mark.parametrize("count", [20, 300, 2000])
@pytest.mark.parametrize("log_delta", [-3, -20, -30])
def test_many_points_against_big_integers(count: int, log_delta: int) -> None:
    numerators, scale, step, offset = [1, 0, 2, 3, 2], 8, 0.0625, -0.15625
    law = Lattice(step, offset, 0, np.array(numerators) / scale)
    composed = compose([(law, count)])
    found = composed.epsilon(10.0**log_delta)
    assert power_delta(numerators, scale, step, offset, count, found.upper) <= mpf(10) ** log_delta
    assert power_delta(numerators, scale, step, offset, count, found.lower) >= mpf(10) ** log_delta
    assert found.width < 1e-10
    profile = composed.delta(found.upper)
    assert profile.lower <= power_delta(numerators, scale, step, offset, count, found.upper) <= profile.upper


@given(
    masses=st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=4), min_size=1, max_size=3),
    counts=st.lists(st.integers(1, 2), min_size=3, max_size=3),
    starts=st.lists(st.integers(-3, 3), min_size=3, max_size=3),
    leak=st.sampled_from([0.0, 1e-9, 0.25]),
    epsilon=st.floats(-3, 4),
)
def test_small_compositions_against_enumeration(
    masses: list[list[int]], counts: list[int], starts: list[int], leak: float, epsilon: float
) -> None:
    components = []
    for p, count, start in zip(masses, counts, starts, strict=False):
        weights = np.array(p, dtype=float) + np.eye(len(p))[0]  # never all zero
        components.append((Lattice(0.37, 0.11 * start, start, weights / weights.sum() * (1 - leak), leak), count))
    truth = enumerated_delta(components, epsilon)
    found = compose(components).delta(epsilon)
    assert found.lower <= truth <= found.upper
    assert found.width < 1e-11


@pytest.mark.parametrize("steps", [(0.5, 0.5 * math.sqrt(2)), (0.3, 0.3 * math.sqrt(2), 0.3 * math.sqrt(3))])
@pytest.mark.parametrize("epsilon", [-1.0, 0.2, 1.5])
def test_incommensurate_steps_against_enumeration(steps: tuple[float, ...], epsilon: float) -> None:
    masses = ([0.25, 0.75], [0.5, 0.125, 0.375], [0.4375, 0.5625])
    components = [(Lattice(h, -h, 0, np.array(p)), n) for h, p, n in zip(steps, masses, (4, 2, 1), strict=False)]
    composed = compose(components)
    assert len(composed.groups) == len(steps)
    found = composed.delta(epsilon)
    assert found.lower <= enumerated_delta(components, epsilon) <= found.upper
    assert found.width < 1e-12


def test_a_long_window_joined_with_another_step() -> None:
    """The joint law of 400 coins of one size and 3 of another is a mixture of shifted binomials."""
    many, few = coin(0.1), coin(0.1 * math.sqrt(2))
    composed = compose([(many, 400), (few, 3)])
    for epsilon in (1.0, 6.0, 15.0):
        truth = mpf(0)
        for j in range(4):
            weight = mp.binomial(3, j) * mpf(float(few.p[0])) ** (3 - j) * mpf(float(few.p[1])) ** j
            shift = 3 * mpf(few.offset) + mpf(few.step) * j
            truth += weight * binomial_delta(many, 400, mpf(epsilon) - shift)
        found = composed.delta(epsilon)
        assert found.lower <= truth <= found.upper
        assert relative_width(found) < 1e-9


def test_window_holds_the_mass() -> None:
    """All but exp(-CUT) on each side, by the exact binomial law of the tilted coin."""
    composed = compose([(coin(0.3), 500)])
    tilt = 0.8
    parts = [composed.factors[0].tilted(tilt)]
    first, last = composed._window(composed.groups[0], parts, tilt)
    high = mpf(float(parts[0].weight[1]))
    index = [500 * int(parts[0].index[0]) + j for j in range(501)]
    outside = mp.fsum(mp.binomial(500, j) * high**j * (1 - high) ** (500 - j) for j in range(501) if not first <= index[j] <= last)
    assert outside <= 2 * mp.exp(-spectrum.CUT)
    assert last - first < 20 * math.sqrt(500 * float(high * (1 - high)))


def test_without_the_tilt_small_deltas_drown() -> None:
    """The mutant that forgets the tilt: its bracket stays honest, because errors are certified, but is useless; the tilted one is tight."""
    law = coin(0.1)
    composed = compose([(law, 1000)])
    epsilon = 33.4
    truth = binomial_delta(law, 1000, epsilon)
    assert 1e-21 < truth < 1e-19
    flat = composed._tilts[0]
    assert composed.finite(flat, epsilon, -1) <= truth <= composed.finite(flat, epsilon, 1)
    assert composed.finite(flat, epsilon, 1) > 1e3 * truth
    assert abs(composed.finite(flat, epsilon, 0) - truth) > 0.1 * truth  # and without its error it would be wrong
    assert relative_width(composed.delta(epsilon)) < 1e-9


def test_certified_errors_are_not_idle() -> None:
    """The estimate itself is off by rounding: a bracket without its certified width would miss the truth."""
    law = coin(0.1)
    composed = compose([(law, 100_000)])
    missed = 0
    for epsilon in np.linspace(500, 900, 9):
        found = composed.delta(float(epsilon))
        estimate = composed.finite(composed.tilt_for(float(epsilon)), float(epsilon), 0)
        truth = binomial_delta(law, 100_000, float(epsilon))
        assert found.lower <= truth <= found.upper
        missed += abs(estimate - truth) > 1e-15 * truth
    assert missed > 0


def test_infinite_mass() -> None:
    leaky = Lattice(2.0, -1.0, 0, np.array([0.2, 0.7]), 0.1)
    composed = compose([(leaky, 3)])
    leak = 1 - mpf(0.9) ** 3
    assert composed.epsilon(0.27).lower == math.inf
    for epsilon in (0.5, 1.0, 2.9, 3.1, 100.0, math.inf):
        found = composed.delta(epsilon)
        truth = enumerated_delta([(leaky, 3)], epsilon) if epsilon < 50 else 1 - (1 - mpf(0.1)) ** 3
        assert found.lower <= truth <= found.upper
        assert found.width < 1e-13
    assert abs(composed.delta(50.0).upper - float(leak)) < 1e-14
    everything = compose([(Lattice(1.0, 0.0, 0, np.zeros(1), 1.0), 1), (coin(1.0), 5)])
    assert everything.delta(3.0).lower == 1.0 == everything.delta(3.0).upper or everything.delta(3.0).lower > 1 - 1e-15
    assert everything.epsilon(0.5).lower == math.inf


def test_the_largest_loss_is_pure_privacy() -> None:
    composed = compose([(coin(0.25), 8)])
    found = composed.epsilon(0.0)
    assert found.lower <= 2.0 <= found.upper
    assert found.width < 1e-13
    assert composed.epsilon(1e-200).upper <= found.upper
    assert composed.delta(2.5).upper == 0.0
    assert composed.epsilon(1.0).upper == 0.0
    assert composed.delta(-math.inf).lower == 1.0


def test_nothing_composed_is_nothing_learned() -> None:
    composed = compose([])
    assert composed.epsilon(1e-9).upper == 0.0
    found = composed.delta(-1.0)
    assert found.lower <= -math.expm1(-1.0) <= found.upper
    assert found.width < 1e-12


@pytest.mark.parametrize("epsilon", [-1000.0, -40.0, -1e300])
def test_far_below_every_loss(epsilon: float) -> None:
    found = compose([(coin(0.3), 7)]).delta(epsilon)
    assert found.upper == 1.0
    assert found.lower > 1 - 1e-11 or epsilon == -1e300


def test_uncertainties_widen_the_bracket_to_the_right_side() -> None:
    plain = coin(0.1)
    exact = compose([(plain, 50)])
    middle = exact.epsilon(1e-6)
    shifted = compose([(Lattice(plain.step, plain.offset, 0, plain.p, jitter=1e-4), 50)]).epsilon(1e-6)
    assert middle.lower - 1.01 * 50e-4 < shifted.lower <= middle.lower - 50e-4
    assert middle.upper + 50e-4 <= shifted.upper < middle.upper + 1.01 * 50e-4
    rounded = compose([(Lattice(plain.step, plain.offset, 0, plain.p, rounding=1e-6), 50)]).delta(2.0)
    truth = float(binomial_delta(plain, 50, 2.0))
    assert rounded.upper / truth == pytest.approx(math.exp(50e-6), abs=1e-9)
    assert rounded.lower / truth == pytest.approx(2 - math.exp(50e-6), abs=1e-9)
    cut = compose([(Lattice(plain.step, plain.offset, 0, plain.p * (1 - 1e-3), 1e-3, cut=1e-3), 1)])
    assert cut.delta(5.0).lower == 0.0
    assert cut.delta(5.0).upper == pytest.approx(1e-3)
    assert cut.epsilon(1e-4).lower < math.inf == cut.epsilon(1e-4).upper


@pytest.mark.parametrize("count", [3, 400, 20_000])
def test_uneven_rounding_of_masses_is_covered(count: int) -> None:
    """Masses that are off by their stated errors, all up or all down, stay inside; and the bound is not count times the largest error."""
    masses, errors = np.array([0.25, 0.5, 0.2499, 0.0001]), np.array([1e-9, 2e-9, 1e-9, 1e-6])
    stated = compose([(Lattice(0.1, -0.1, 0, masses, rounding=errors), count)])
    epsilon = stated.epsilon(1e-8).upper
    found = stated.delta(epsilon)
    for sign in (-1, 1):
        other = compose([(Lattice(0.1, -0.1, 0, masses * (1 + sign * errors)), count)]).delta(epsilon)
        assert found.lower <= other.lower
        assert other.upper <= found.upper
    if count > 1000:
        assert relative_width(found) < 0.05 * count * 1e-6


def test_refined_lattices_are_the_same_law() -> None:
    law = coin(0.3)
    fine = law.refined(0.2)
    assert np.allclose(fine.losses[fine.p > 0], law.losses)
    a, b = compose([(law, 20)]).delta(1.0), compose([(fine, 20)]).delta(1.0)
    assert a.lower <= b.upper
    assert b.lower <= a.upper
    mixed = compose([(law, 3), (coin(0.2), 2)])
    assert len(mixed.groups) == 1
    found = mixed.delta(0.4)
    assert found.lower <= enumerated_delta([(law, 3), (coin(0.2), 2)], 0.4) <= found.upper
    with pytest.raises(UnsupportedError):
        law.refined(1.0)
    with pytest.raises(UnsupportedError):
        law.refined(1e-9)


@given(st.lists(st.integers(1, 400), min_size=1, max_size=5), st.floats(1e-4, 10))
def test_common_step_finds_the_greatest_common_divisor(multiples: list[int], unit: float) -> None:
    found = common_step([unit * m for m in multiples])
    assert found == pytest.approx(unit * math.gcd(*multiples), rel=1e-12)


def test_common_step_refuses_what_only_looks_commensurate() -> None:
    assert common_step([1.0, math.pi]) is None
    assert common_step([1.0, 0.5 + 1e-11]) is None
    assert common_step([1.0, 1 / 3000], 2.0**-10) is None


def test_too_fine_to_join_is_refused() -> None:
    components = [(Lattice(math.sqrt(k), 0.0, 0, np.full(2, 0.5)), 400) for k in (2, 3, 5, 7, 11, 13)]
    with pytest.raises(UnsupportedError, match="different steps"):
        compose(components).delta(100.0)


@pytest.mark.parametrize(
    "change",
    [
        {"step": 0.0},
        {"step": math.nan},
        {"offset": math.inf},
        {"p": np.array([-0.1, 1.1])},
        {"p": np.array([])},
        {"infinite": 1.5},
        {"cut": 0.5},
    ],
)
def test_bad_lattices_are_refused(change: dict[str, object]) -> None:
    good: dict[str, object] = {"step": 1.0, "offset": 0.0, "start": 0, "p": np.array([0.5, 0.5])}
    with pytest.raises(ParameterError):
        Lattice(**{**good, **change})  # type: ignore[arg-type]


@settings(max_examples=25)
@given(st.floats(1e-3, 3), st.integers(1, 3000), st.floats(-25, -1))
def test_brackets_are_ordered_and_monotone(epsilon0: float, count: int, log_delta: float) -> None:
    composed, more = compose([(coin(epsilon0), count)]), compose([(coin(epsilon0), count + 1)])
    a, b = composed.epsilon(10**log_delta), composed.epsilon(10 ** (log_delta - 1))
    assert a.lower <= b.upper
    assert a.lower <= more.epsilon(10**log_delta).upper
    assert a.upper <= count * epsilon0 * (1 + 1e-12)
    back = composed.delta(a.upper)
    assert back.lower <= 10**log_delta


@pytest.mark.parametrize("epsilon", [40.0, 90.0, 140.0])
def test_rare_losses_far_out_find_their_tilt(epsilon: float) -> None:
    """A bulk of .005 +- .005 and, once in 1e9, a loss of 50: against the sum over how many there are.

    The tilt lies far below 1 over the width of the bulk.
    """
    rare, count = 1e-9, 100
    p = np.zeros(5001)
    p[:2], p[-1] = (1 - rare) / 2, rare
    with mp.workdps(30):
        exact = mp.mpf(0)
        for j in range(1, 8):
            ways = mp.binomial(count, j) * mpf(rare) ** j * (1 - mpf(rare)) ** (count - j)
            for i in range(count - j + 1):
                loss = 50 * j + mpf(i) / 100
                if loss > epsilon:
                    exact += ways * mp.binomial(count - j, i) / mpf(2) ** (count - j) * -mp.expm1(epsilon - loss)
    found = compose([(Lattice(0.01, 0.0, 0, p), count)])
    bound = found.delta(epsilon)
    assert bound.lower * (1 - 1e-12) <= exact <= bound.upper * (1 + 1e-12) and bound.width <= 1e-6 * bound.upper
    back = found.epsilon(float(exact))
    assert back.lower <= epsilon + 1e-9 and epsilon - 1e-9 <= back.upper and back.width <= 1e-6 * epsilon
