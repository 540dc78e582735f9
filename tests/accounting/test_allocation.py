"""Random allocation against quadrature, enumeration, exact binomials and sampling."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting import allocation, gaussian, lattice, mixture
from tacit.accounting.allocation import AllocationPair, FiniteRatio, GaussianRatio, allocation_bracket, contract, spread
from tacit.accounting.bound import Bound
from tacit.accounting.errors import ParameterError

COIN = FiniteRatio((0.4, 2.0), (0.625, 0.375))  # two outcomes; under Q the ratio has mean 1


def premium(law: allocation.Law, y: float) -> float:
    """E[(Y - y)_+] of a lattice law, the part above its top included."""
    return float(law.mass @ np.maximum(law.offset + law.grid - y, 0.0)) + law.infinite


def enumerated(ratio: FiniteRatio, steps: int, selected: int, epochs: int) -> dict[float, float]:
    """The Q-law of dP/dQ of `epochs` epochs, by going through every outcome of every step."""
    epoch: dict[float, float] = {}
    for outcome in itertools.product(range(len(ratio.ratios)), repeat=steps):
        symmetric = [1.0] + [0.0] * selected  # elementary symmetric polynomials of the ratios
        for i in outcome:
            for j in range(selected, 0, -1):
                symmetric[j] += symmetric[j - 1] * ratio.ratios[i]
        value = round(symmetric[selected] / math.comb(steps, selected), 13)
        epoch[value] = epoch.get(value, 0.0) + math.prod(ratio.masses[i] for i in outcome)
    total = {1.0: 1.0}
    for _ in range(epochs):
        following: dict[float, float] = {}
        for (a, p), (b, q) in itertools.product(total.items(), epoch.items()):
            following[round(a * b, 12)] = following.get(round(a * b, 12), 0.0) + p * q
        total = following
    return total


def worst_delta(law: dict[float, float], epsilon: float) -> float:
    """The larger of the two directions."""
    a = math.exp(epsilon)
    return max(sum(q * max(y - a, 0.0) for y, q in law.items()), sum(q * max(1 - a * y, 0.0) for y, q in law.items()))


def holds(bound: Bound, value: float, slack: float = 1e-11) -> bool:
    """Whether a bracket holds a value known to about twelve digits."""
    return bound.lower * (1 - slack) <= value <= bound.upper * (1 + slack)


# --- one step on a lattice ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [0.3, 1.0, 10.0])
@pytest.mark.parametrize("offset", [0.0, 0.003])
def test_cells_have_the_relative_error_that_the_bounds_assume(sigma: float, offset: float) -> None:
    step, edge = 0.01, 0.01 if offset else -1.0
    low, high = GaussianRatio(sigma).cells(edge, offset, step, 60_000)
    with mpmath.workdps(60):
        s = 1 / mpmath.mpf(sigma)
        for i in (0, 1, 2, 7, 30, 63, 64, 99, 100, 105, 130, 300, 1_000, 3_999, 4_000, 20_000, 39_999, 40_000, 59_999):
            a, b = (mpmath.mpf(offset) + mpmath.mpf(step) * k for k in (i, i + 1))
            start = max(a, mpmath.mpf(edge)) if i == 0 else a
            ends = [mpmath.log(x) / s + s / 2 if x > 0 else mpmath.mpf(-60) for x in (start, b)]
            q, p = (mpmath.ncdf(ends[1] - shift) - mpmath.ncdf(ends[0] - shift) for shift in (0, s))
            exact_high = (p - a * q) / (b - a)
            if q > 1e-290:
                assert abs(high[i] / exact_high - 1) < 5e-13, i
                assert abs(low[i] / (q - exact_high) - 1) < 5e-13, i


@pytest.mark.parametrize("sigma", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("step", [0.1, 0.01])
def test_spread_and_contraction_lie_above_and_below_in_the_convex_order(sigma: float, step: float) -> None:
    ratio = GaussianRatio(sigma)
    cells = math.ceil(30 / step)
    above, below = spread(ratio, step, cells), contract(ratio, step, cells)
    assert below is not None
    for law in (above, below):
        assert abs(law.mass.sum() - 1) < 1e-12
        assert abs(premium(law, 0.0) - 1) < 1e-11
        assert law.mass.min() >= 0
    for y in np.random.default_rng(1).uniform(0, 30, 300):
        exact = gaussian.delta(1 / sigma, math.log(y))
        assert premium(below, y) - 1e-14 <= exact <= premium(above, y) + 1e-14


def test_both_roundings_lose_a_second_order_amount() -> None:
    ratio, y = GaussianRatio(1.0), 1.27
    exact = gaussian.delta(1.0, math.log(y))
    for make in (spread, contract):
        errors = []
        for halving in range(3):
            law = make(ratio, 0.02 / 2**halving, 1000 * 2**halving)
            assert law is not None
            # the curves are polygons: average over a cell rather than sit on a node
            errors.append(np.mean([premium(law, y + 0.02 * k / 64) - gaussian.delta(1.0, math.log(y + 0.02 * k / 64)) for k in range(64)]))
        assert all(3.7 < abs(a / b) < 4.3 for a, b in itertools.pairwise(errors))
    assert exact > 0


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.floats(0.0, 6.0), st.floats(0.05, 1.0)), min_size=2, max_size=6),
    st.floats(0.05, 0.7),
)
def test_roundings_of_any_finite_ratio_are_ordered(pairs: list[tuple[float, float]], step: float) -> None:
    values, weights = np.array([y for y, _ in pairs]), np.array([w for _, w in pairs])
    weights /= weights.sum()
    mean = float(values @ weights)
    ratio = FiniteRatio(tuple(values / max(mean, 1.0)), tuple(weights))
    cells = math.ceil(max(ratio.ratios) / step) + 1
    above, below = spread(ratio, step, cells), contract(ratio, step, cells)
    for y in np.linspace(0.0, max(ratio.ratios) + step, 97):
        exact = ratio.tail(float(y))[1]
        assert premium(above, y) >= exact - 1e-12
        assert below is None or premium(below, y) <= exact + 1e-12
    assert below is None or abs(premium(below, 0.0) - ratio.tail(0.0)[1]) < 1e-12


def test_a_ratio_on_the_lattice_is_kept_as_it_is() -> None:
    ratio = FiniteRatio((0.5, 2.0), (2 / 3, 1 / 3))
    for law in (spread(ratio, 0.5, 4), contract(ratio, 0.5, 4)):
        assert law is not None
        found = {round(law.offset + x, 12): q for x, q in zip(law.grid, law.mass, strict=True) if q > 1e-15}
        assert found == pytest.approx({0.5: 2 / 3, 2.0: 1 / 3}, abs=1e-15)


# --- one epoch ------------------------------------------------------------------------------------------------------------------


def two_steps(sigma: float, epsilon: float, sign: int) -> float:
    """E[(sign (Y_1 + Y_2 - K))_+] / 2 by quadrature over Y_1 and the closed form for Y_2."""
    with mpmath.workdps(25):
        s, k = 1 / mpmath.mpf(sigma), 2 * mpmath.exp(sign * mpmath.mpf(epsilon))

        def inner(x: mpmath.mpf) -> mpmath.mpf:
            if x <= 0:
                return 1 - x if sign > 0 else mpmath.mpf(0)
            d = mpmath.log(x) / s
            if sign > 0:
                return mpmath.ncdf(s / 2 - d) - x * mpmath.ncdf(-s / 2 - d)
            return x * mpmath.ncdf(s / 2 + d) - mpmath.ncdf(-s / 2 + d)

        end = mpmath.log(k) / s + s / 2
        points = [end - 14, end - 8, end - 4, end - 2, end - 1, end - 0.1, end - 0.01, end]
        if sign > 0:
            points = sorted({*map(mpmath.mpf, (-14, -6, -3, 0)), end - 1, end - 0.1, end, end + 1, end + 4, end + 14})
        value = mpmath.quad(lambda z: mpmath.npdf(z) * inner(k - mpmath.exp(s * z - s * s / 2)), points) / 2
        return float(value * (1 if sign > 0 else mpmath.exp(epsilon)))


@pytest.mark.parametrize(
    ("sigma", "epsilon", "sign"),
    [(1.0, 1.0, 1), (1.0, 7.0, 1), (0.3, 15.0, 1), (10.0, 0.5, 1), (1.0, 1.0, -1), (1.0, 3.0, -1), (10.0, 0.3, -1)],
)
def test_two_steps_agree_with_quadrature(sigma: float, epsilon: float, sign: int) -> None:
    lower, upper = allocation._delta_once(GaussianRatio(sigma), 2, epsilon, sign, 1e-7)
    exact = two_steps(sigma, epsilon, sign)
    assert lower <= exact <= upper
    assert upper / lower < 1 + 3e-5


def test_swapping_the_roundings_would_break_the_bracket() -> None:
    """The mutant: with contraction above and spreading below, the truth falls outside at once."""
    exact = two_steps(1.0, 1.0, 1)
    k = 2 * math.exp(1.0)
    plan = allocation._plan(GaussianRatio(1.0), 2, k, 1, k)
    wrong_upper = contract(GaussianRatio(1.0), 0.02, math.ceil(k / 0.02))
    wrong_lower = spread(GaussianRatio(1.0), 0.02, math.ceil(k / 0.02))
    assert wrong_upper is not None
    for law, sign in ((wrong_upper, 1), (wrong_lower, -1)):
        value, error = allocation._sum(law, 2, k, 1, plan).premium(np.array([k]))
        claimed = (float(value[0]) + sign * float(error[0])) / 2 + law.infinite
        assert claimed < exact if sign > 0 else claimed > exact


@pytest.mark.parametrize(("steps", "epsilon"), [(1, 0.3), (2, 0.2), (5, 0.1), (8, 0.25)])
def test_two_outcomes_agree_with_enumeration(steps: int, epsilon: float) -> None:
    exact = worst_delta(enumerated(COIN, steps, 1, 1), epsilon)
    found = allocation_bracket(COIN, steps, epsilon=epsilon)
    assert holds(found, exact)
    assert found.width < 2e-3 * exact
    found = allocation_bracket(COIN, steps, delta=exact)
    assert holds(found, epsilon)


def binomial_premium(steps: int, k: Fraction, sign: int) -> Fraction:
    """E[(sign (S - K))_+] exactly for ratios 1/2 and 2 of Q-mass 2/3 and 1/3."""
    total = Fraction(0)
    for twos in range(steps + 1):
        excess = sign * (Fraction(steps - twos, 2) + 2 * twos - k)
        if excess > 0:
            total += Fraction(math.comb(steps, twos) * 2 ** (steps - twos), 3**steps) * excess
    return total


LATTICE = FiniteRatio((0.5, 2.0), (2 / 3, 1 / 3))


@pytest.mark.parametrize("steps", [3, 50, 400])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_tilted_transform_is_exact_down_to_tiny_deltas(steps: int, sign: int) -> None:
    law = spread(LATTICE, 0.5, 4)
    for share in (0.1, 0.4, 0.8):
        k = steps * (1 + share * (1.0 if sign > 0 else -0.5))
        exact = binomial_premium(steps, Fraction(k), sign)
        if exact < Fraction(1, 10**60) or exact == 0:
            continue
        plan = allocation._plan(LATTICE, steps, k, sign, 2.0 * steps)
        value, error = allocation._sum(law, steps, k, sign, plan).premium(np.array([k]))
        assert abs(Fraction(float(value[0])) - exact) <= Fraction(float(error[0]))
        assert error[0] < 1e-6 * value[0]  # the plan trades rounding up to 1e-7 for a shorter transform


@settings(max_examples=40)
@given(st.floats(0.05, 3.0), st.floats(-0.3, 0.3), st.floats(-0.3, 0.3), st.floats(0.5, 2.0), st.sampled_from([1, -1]))
def test_whatever_the_plan_the_error_bound_holds(tilt: float, low: float, high: float, eta: float, sign: int) -> None:
    """Tilt, window and Chernoff parameters are guesses; a bad guess must widen the bracket and never move it off the truth."""
    steps, k = 60, 60 * (1.5 if sign > 0 else 0.75)
    exact = binomial_premium(steps, Fraction(k), sign)
    plan = allocation._plan(LATTICE, steps, k, sign, 2.0 * steps)
    span = plan.high - plan.low
    bent = replace(
        plan,
        theta=plan.theta * tilt,
        low=max(0.0, plan.low + low * span),
        high=plan.high + high * span,
        eta_low=plan.eta_low * eta,
        eta_high=plan.eta_high * eta,
    )
    value, error = allocation._sum(spread(LATTICE, 0.5, 4), steps, k, sign, bent).premium(np.array([k]))
    assert abs(Fraction(float(value[0])) - exact) <= Fraction(float(error[0]))


def test_without_the_tilt_small_deltas_drown_in_rounding() -> None:
    """The mutant: the same transform with hardly any tilt says nothing about a delta of 1e-30."""
    steps, k = 400, 700.0
    exact = float(binomial_premium(steps, Fraction(700), 1))
    plan = allocation._plan(LATTICE, steps, k, 1, 800.0)
    flat = allocation._sum(spread(LATTICE, 0.5, 4), steps, k, 1, replace(plan, theta=1e-3, low=0.0, high=800.0))
    assert exact < 1e-30
    assert float(flat.premium(np.array([k]))[1][0]) > 1e6 * exact


@pytest.mark.parametrize(("steps", "epochs", "epsilons"), [(100, 1, (0.0, 0.1, 0.2)), (12, 6, (0.5, 1.0, 1.5))])
def test_sampling_agrees(steps: int, epochs: int, epsilons: tuple[float, ...]) -> None:
    """Simulation under P with a fixed seed; the empirical Bernstein interval fails with probability below 1e-9 (Maurer, Pontil 2009)."""
    rng = np.random.default_rng(20250)
    runs, log_term = 150_000, math.log(3 / 1e-9)
    loss = np.zeros(runs)
    for _ in range(epochs):
        total = np.exp(rng.standard_normal(runs) + 0.5)  # the step with the record
        for _ in range(steps - 1):
            total += np.exp(rng.standard_normal(runs) - 0.5)
        loss += np.log(total / steps)
    for epsilon in epsilons:
        gain = -np.expm1(np.minimum(epsilon - loss, 0.0))
        radius = math.sqrt(2 * float(gain.var()) * log_term / runs) + 3 * log_term / runs
        found = allocation_bracket(1.0, steps, epochs=epochs, epsilon=epsilon, tolerance=1e-5)
        assert found.lower - radius <= gain.mean() <= found.upper + radius  # removing is the worse direction here
        assert radius < 0.25 * found.upper


@pytest.mark.parametrize("delta", [1e-5, 1e-10, 1e-20])
def test_epsilon_and_delta_are_inverse(delta: float) -> None:
    found = allocation_bracket(1.0, 100, delta=delta)
    assert found.width < 2e-6
    assert allocation_bracket(1.0, 100, epsilon=found.upper).lower <= delta
    assert allocation_bracket(1.0, 100, epsilon=found.lower).upper >= delta


def test_both_directions_are_priced() -> None:
    """Under many steps of low noise the remove direction is the worse one; of the two-outcome step below the add direction is."""
    lopsided = FiniteRatio((0.1, 1.1), (0.1, 0.9))
    law = enumerated(lopsided, 3, 1, 1)
    a = math.exp(0.2)
    removed = sum(q * max(y - a, 0.0) for y, q in law.items())
    assert worst_delta(law, 0.2) > 2 * removed
    assert holds(allocation_bracket(lopsided, 3, epsilon=0.2), worst_delta(law, 0.2))


def test_negative_epsilon_follows_from_the_other_direction() -> None:
    positive, negative = allocation_bracket(1.0, 20, epsilon=0.4), allocation_bracket(1.0, 20, epsilon=-0.4)
    assert negative.upper == pytest.approx(1 - math.exp(-0.4) + math.exp(-0.4) * positive.upper, rel=1e-12)
    assert holds(allocation_bracket(COIN, 4, epsilon=-0.3), worst_delta(enumerated(COIN, 4, 1, 1), -0.3))


# --- monotone -------------------------------------------------------------------------------------------------------------------


@settings(max_examples=5)
@given(st.floats(0.4, 8.0), st.integers(1, 400), st.floats(-14.0, -2.0))
def test_more_noise_more_steps_and_more_delta_never_cost_more(sigma: float, steps: int, exponent: float) -> None:
    delta = 10.0**exponent
    base = allocation_bracket(sigma, steps, delta=delta, tolerance=1e-5)
    assert 0 <= base.lower <= base.upper <= gaussian.epsilon(1 / sigma, delta) * (1 + 1e-9)
    for other in (
        allocation_bracket(1.2 * sigma, steps, delta=delta, tolerance=1e-5),
        allocation_bracket(sigma, steps + max(1, steps // 3), delta=delta, tolerance=1e-5),
        allocation_bracket(sigma, steps, delta=3 * delta, tolerance=1e-5),
    ):
        assert other.lower <= base.upper


# --- extremes -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sigma", "steps", "delta"),
    [(0.3, 100, 1e-20), (0.2, 1000, 1e-5), (10.0, 100_000, 1e-5), (0.3, 100_000, 1e-5), (100.0, 2, 1e-30), (2.0, 10_000, 1e-6)],
)
def test_hard_corners_stay_narrow(sigma: float, steps: int, delta: float) -> None:
    found = allocation_bracket(sigma, steps, delta=delta)
    plain = gaussian.epsilon(1 / sigma, delta)
    assert plain - math.log(steps) <= found.upper <= plain
    assert found.width < 2e-5


def test_where_the_lattice_gives_up_the_simple_bounds_remain() -> None:
    found = allocation_bracket(0.02, 100, delta=1e-5)
    plain = gaussian.epsilon(50.0, 1e-5)
    assert found.upper == pytest.approx(plain, rel=1e-10)
    assert found.lower == pytest.approx(plain - math.log(100), rel=1e-10)
    found = allocation_bracket(0.02, 100, epochs=3, delta=1e-5)
    assert 0 < found.lower <= found.upper < math.inf


def test_ends_of_the_scale() -> None:
    assert allocation_bracket(1.0, 100, delta=1.0) == Bound(0.0, 0.0, "closed form")
    assert allocation_bracket(1.0, 100, delta=0.0).lower == math.inf
    assert allocation_bracket(1.0, 100, epsilon=math.inf).upper == 0.0
    assert allocation_bracket(1.0, 100, delta=0.5).upper == 0.0
    found = allocation_bracket(1.0, 100, epsilon=60.0)
    assert found.lower == 0.0 < found.upper < 1e-300


# --- several epochs, other pairs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rounding", ["up", "down"])
def test_the_pair_of_one_epoch_is_on_its_side_of_the_truth(rounding: str) -> None:
    pair = AllocationPair(1.0, 50, "remove", rounding)
    for direction, sign in ((pair, 1), (pair.reverse(), -1)):
        assert direction.p.sum() + direction.infinite == pytest.approx(1, abs=1e-9)
        composition = lattice.compose([(direction.lattice() or lattice.Lattice(1.0, 0.0, 0, np.ones(1)), 1)])
        for epsilon in (-0.3, 0.0, 0.1, 0.33, 0.5, 1.0):
            if epsilon >= 0:
                lower, upper = allocation._delta_once(GaussianRatio(1.0), 50, epsilon, sign, 1e-7)
            else:
                other = allocation._delta_once(GaussianRatio(1.0), 50, -epsilon, -sign, 1e-7)
                lower, upper = (1 - math.exp(epsilon) + math.exp(epsilon) * x for x in other)
            found = composition.delta(epsilon)
            if rounding == "up":
                assert found.upper >= lower
            else:
                assert found.lower <= upper
            assert found.upper == pytest.approx(upper, rel=2e-3)


def test_the_pair_knows_the_protocol() -> None:
    pair = AllocationPair(Fraction(1), 10, "add", "up", step=5e-3, budget=1e-12)
    losses, masses = pair.atoms()
    assert pair.support() == (losses[0], losses[-1])
    assert pair.kappa(0.0) == pytest.approx(math.log1p(-pair.infinite), abs=1e-9)
    assert pair.kappa(1.0) == pytest.approx(math.log(float(masses @ np.exp(losses))), rel=1e-9)
    for bad in ({"direction": "sideways"}, {"rounding": "nearest"}):
        with pytest.raises(ParameterError, match=next(iter(bad))):
            AllocationPair(1.0, 10, **bad)


def test_two_epochs_of_two_outcomes_agree_with_enumeration() -> None:
    law = enumerated(COIN, 3, 1, 2)
    exact = worst_delta(law, 0.4)
    found = allocation_bracket(COIN, 3, epochs=2, epsilon=0.4, tolerance=3e-6)
    assert holds(found, exact)
    assert found.width < 2e-3 * exact


def test_one_epoch_on_the_lattice_agrees_with_one_epoch_solved_directly() -> None:
    direct = allocation_bracket(1.0, 100, delta=1e-5)
    composed = allocation._composed(GaussianRatio(1.0), [(100, 1)], (), 1e-5, None, 1e-5, 1e-6)
    assert composed.lower <= direct.upper
    assert direct.lower <= composed.upper
    assert composed.width < 5e-5


def test_other_pairs_compose() -> None:
    """delta of a finite law with a Gaussian is a sum of Gaussian deltas, so the exact figure is a sum of eight terms."""
    other = mixture.gaussian(2.0)
    law = enumerated(COIN, 3, 1, 1)
    epsilon = 0.6
    removed = sum(q * y * gaussian.delta(0.5, epsilon - math.log(y)) for y, q in law.items())
    added = sum(q * gaussian.delta(0.5, epsilon + math.log(y)) for y, q in law.items())
    found = allocation_bracket(COIN, 3, others=[(other, other.reverse(), 1)], epsilon=epsilon, tolerance=2e-5)
    assert holds(found, max(removed, added))
    assert found.width < 0.01 * found.upper


def test_other_pairs_cost_something_and_not_too_much() -> None:
    other = mixture.gaussian(5.0)
    alone = allocation_bracket(1.0, 200, delta=1e-6)
    both = allocation_bracket(1.0, 200, others=[(other, other.reverse(), 1)], delta=1e-6)
    assert alone.lower < both.lower
    assert both.upper < alone.upper + gaussian.epsilon(0.2, 1e-6)
    assert both.width < 1e-3


# --- k out of t -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("steps", "selected"), [(4, 2), (5, 2), (6, 3), (6, 4)])
def test_blocks_dominate_a_random_subset(steps: int, selected: int) -> None:
    """The reduction to one step out of each block, on every alpha where either curve bends, by enumeration."""
    subset = enumerated(COIN, steps, selected, 1)
    size, longer = divmod(steps, selected)
    blocks = {1.0: 1.0}
    for length in [size + 1] * longer + [size] * (selected - longer):
        one = enumerated(COIN, length, 1, 1)
        following: dict[float, float] = {}
        for (a, p), (b, q) in itertools.product(blocks.items(), one.items()):
            following[round(a * b, 12)] = following.get(round(a * b, 12), 0.0) + p * q
        blocks = following
    strictly = 0
    for alpha in sorted({*subset, *blocks}):
        small, large = (sum(q * max(y - alpha, 0.0) for y, q in law.items()) for law in (subset, blocks))
        assert small <= large + 1e-12
        strictly += small < large - 1e-6
    assert strictly > 0


def test_the_bracket_of_a_random_subset_holds_the_enumerated_figure() -> None:
    exact = worst_delta(enumerated(COIN, 5, 2, 1), 0.5)
    assert holds(allocation_bracket(COIN, 5, 2, epsilon=0.5, tolerance=1e-5), exact)


@pytest.mark.parametrize(("steps", "selected"), [(1, 1), (7, 7)])
def test_every_step_is_the_plain_gaussian(steps: int, selected: int) -> None:
    found = allocation_bracket(1.3, steps, selected, epochs=3, delta=1e-6)
    exact = gaussian.epsilon(math.sqrt(3 * selected) / 1.3, 1e-6)
    assert found.lower <= exact <= found.upper
    assert found.width < 1e-8


@pytest.mark.parametrize("epsilon", [0.1, 0.62, 1.5])
def test_the_score_is_a_lower_bound_and_a_good_one(epsilon: float) -> None:
    """For one step out of a hundred the truth is known; the sum of scores must stay below it, and not by much."""
    lower, upper = allocation._delta_once(GaussianRatio(1.0), 100, epsilon, 1, 1e-6)
    score = allocation._score(GaussianRatio(1.0), 100, 1, 1, epsilon).delta(epsilon)
    assert 0.6 * lower < score <= upper
    # all of the steps: the score is the loss, but for the rounding
    plain = gaussian.delta(math.sqrt(5), 3.0)
    assert 0.99 * plain < allocation._score(GaussianRatio(1.0), 5, 5, 1, 3.0).delta(3.0) <= plain


def test_several_steps_out_of_many() -> None:
    plain = gaussian.epsilon(math.sqrt(10), 1e-5)
    found = allocation_bracket(1.0, 100, 10, delta=1e-5)
    assert gaussian.epsilon(1.0, 1e-5) < found.lower  # better than the sum of all outputs
    assert found.upper < 0.55 * plain
    assert found.width < 0.06 * found.upper
    fewer = allocation_bracket(1.0, 100, 9, delta=1e-5)
    assert fewer.lower < found.upper


# --- refusals -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "options", "named"),
    [
        ((0.0, 10), {"delta": 1e-5}, "sigma"),
        ((math.nan, 10), {"delta": 1e-5}, "sigma"),
        ((True, 10), {"delta": 1e-5}, "sigma"),
        ((1.0, 0), {"delta": 1e-5}, "steps"),
        ((1.0, 2.5), {"delta": 1e-5}, "steps"),
        ((1.0, 10, 11), {"delta": 1e-5}, "selected"),
        ((1.0, 10, 1, 0), {"delta": 1e-5}, "epochs"),
        ((1.0, 10), {"delta": 1.5}, "delta"),
        ((1.0, 10), {"epsilon": math.nan}, "epsilon"),
        ((1.0, 10), {}, "exactly one"),
        ((1.0, 10), {"delta": 1e-5, "epsilon": 1.0}, "exactly one"),
    ],
)
def test_bad_parameters_are_named(arguments: tuple[object, ...], options: dict[str, float], named: str) -> None:
    with pytest.raises(ParameterError, match=named):
        allocation_bracket(*arguments, **options)  # type: ignore[arg-type]
