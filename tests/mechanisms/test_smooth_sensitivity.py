"""Smooth sensitivity: the sensitivities against enumeration, the rungs against their definition, the price against exact sums."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from tacit.accounting import ApproxDP, Group, NoOp, ParameterError, PureDP
from tacit.calculus import AddRemove, DomainError, Hamming, Integers, Lattice, MetricError, ReplaceOne, Rows, Space, Vectors
from tacit.mechanisms import HeavyTail, elastic_join_size, ladder, smooth_interquartile_range, smooth_median, smooth_quantile
from tacit.mechanisms.smooth_sensitivity import (
    InterquartileRange,
    Quantile,
    SmoothSensitivity,
    TwoSidedGeometric,
    smooth_sensitivity,
)
from tacit.noise import test_mode as seeded

HALF = Fraction(1, 2)


def neighbours(data: tuple[int, ...], top: int) -> set[tuple[int, ...]]:
    return {tuple(sorted((*data[:i], value, *data[i + 1 :]))) for i in range(len(data)) for value in range(top + 1)}


def local_at_distance(statistic, n: int, top: int, most: int) -> dict[tuple[int, ...], list[int]]:
    """Brute force: the largest change to a neighbour, over all data sets within k replacements."""
    sets = list(itertools.combinations_with_replacement(range(top + 1), n))
    near = {x: neighbours(x, top) for x in sets}
    value = {x: statistic.value(np.array(x), 0, top) for x in sets}
    local = {x: max(abs(value[x] - value[y]) for y in near[x]) for x in sets}
    found = {x: [local[x]] for x in sets}
    for _ in range(most):
        found = {x: [*found[x], max(found[y][-1] for y in near[x])] for x in sets}
    return found


@pytest.mark.parametrize(("q", "n"), [(HALF, 3), (HALF, 4), (HALF, 5), (Fraction(1, 4), 4), (Fraction(3, 4), 5), (0, 3), (1, 3), (HALF, 1)])
def test_quantile_sensitivities_are_those_of_enumeration(q: Fraction, n: int) -> None:
    statistic, top = Quantile(q), 3
    for data, wanted in local_at_distance(statistic, n, top, most=n).items():
        assert statistic.sensitivities(np.array(data), 0, top, n).tolist() == wanted, data


def printed_form(data: np.ndarray, top: int, k: int) -> int:
    """E13: the index printed in the textbook."""
    n = len(data)
    m = (n + 1) // 2

    def at(i: int) -> int:
        return 0 if i < 1 else top if i > n else int(data[i - 1])

    return max(at(m + t) - at(m + t + k - 1) for t in range(k + 2))


def test_the_printed_index_is_wrong() -> None:
    data = np.arange(1, 10)
    assert [printed_form(data, 10, k) for k in range(3)] != [1, 2, 3]


def test_interquartile_range_is_bounded_at_every_distance() -> None:
    statistic, top, n = InterquartileRange(), 3, 5
    for data, exact in local_at_distance(statistic, n, top, most=3).items():
        assert (statistic.sensitivities(np.array(data), 0, top, 3) >= np.array(exact)).all()


@given(st.lists(st.integers(0, 50), min_size=1, max_size=12), st.data())
@settings(max_examples=150)
def test_sensitivities_are_smooth_and_rungs_differ_by_at_most_one(values: list[int], data: st.DataObject) -> None:
    place, new = data.draw(st.integers(0, len(values) - 1)), data.draw(st.integers(0, 50))
    statistic = data.draw(st.sampled_from([Quantile(HALF), Quantile(Fraction(1, 4)), InterquartileRange()]))
    other = [*values[:place], new, *values[place + 1 :]]
    one, two = (statistic.sensitivities(np.array(x), 0, 50, 60) for x in (values, other))
    assert (one[:-1] <= two[1:]).all() and (two[:-1] <= one[1:]).all()
    change = abs(statistic.value(np.array(values), 0, 50) - statistic.value(np.array(other), 0, 50))
    for rungs in (ladder(50, 1, None, 2), ladder(50, 0.5, 1e-3, 2)):
        most = len(rungs.scales)
        a, b = (rungs.rung(statistic.sensitivities(np.array(x), 0, 50, most)) for x in (values, other))
        assert abs(a - b) <= 1
        assert change <= rungs.covers[min(a, b)]


def test_the_rung_is_the_least_that_covers() -> None:
    rungs = ladder(40, 1, None, 2)
    near = Quantile(HALF).sensitivities(np.array([3, 9, 9, 30, 31]), 0, 40, len(rungs.scales))
    top = len(rungs.covers) - 1

    def covers(j: int) -> bool:
        return all(int(a) <= rungs.covers[min(j + k, top)] for k, a in enumerate(near))

    assert rungs.rung(near) == next(j for j in range(top + 1) if covers(j))


def test_a_rung_that_forgets_the_distance_is_not_smooth() -> None:
    """The mutant that scales noise by the local sensitivity alone: neighbours stand many rungs apart."""
    rungs = ladder(1000, 1, None, 2)
    flat, steep = (Quantile(HALF).sensitivities(np.array(x), 0, 1000, 60) for x in ([0, 0, 0, 0, 1000], [0, 0, 0, 1000, 1000]))
    assert abs(rungs.rung(flat[:1]) - rungs.rung(steep[:1])) > 5
    assert abs(rungs.rung(flat) - rungs.rung(steep)) <= 1


@pytest.mark.parametrize("tail", [2, 4])
@pytest.mark.parametrize("scale", [1.0, 1.5, 3.7, 40.0])
def test_the_sum_of_all_weights_is_the_closed_form(tail: int, scale: float) -> None:
    most = 10**6
    k = np.arange(1, most + 1, dtype=float)
    rest = 1 / (most + 0.5) if tail == 2 else 1 / (3 * (most + 0.5) ** 3)  # the integral; s is nothing beside a million
    total = scale**-tail + 2 * (math.fsum(1 / (scale**tail + k**tail)) + rest)
    assert HeavyTail(tail).log_total(scale) == pytest.approx(math.log(total), abs=2e-13)


def heavy_loss(law: HeavyTail, narrow: float, wide: float, shift: int) -> float:
    """The largest |log ratio| over a wide stretch of integers, by direct evaluation."""
    k = np.concatenate([np.arange(-3000, 3001), np.unique(np.geomspace(3000, 1e9, 400).astype(np.int64))]).astype(float)

    def log_mass(scale: float, centre: float) -> np.ndarray:
        return -np.log(scale**law.tail + np.abs(k - centre) ** law.tail) - law.log_total(scale)

    pairs = [(log_mass(narrow, 0), log_mass(wide, d)) for d in (shift, -shift)]
    pairs += [(log_mass(s, 0), log_mass(s, shift)) for s in (narrow, wide)]
    return max(float(np.abs(one - two).max()) for one, two in pairs)


@pytest.mark.parametrize(("epsilon", "tail"), [(1, 2), (0.2, 2), (3, 2), (1, 4), (0.5, 4)])
def test_heavy_tailed_noise_keeps_epsilon_on_every_pair_of_rungs(epsilon: float, tail: int) -> None:
    rungs = ladder(100, epsilon, None, tail)
    assert rungs.epsilon <= epsilon and rungs.covers[-1] >= 100
    worst = 0.0
    for j in range(len(rungs.scales) - 1):
        narrow, wide = float(rungs.scales[j]), float(rungs.scales[j + 1])
        worst = max(worst, heavy_loss(HeavyTail(tail), narrow, wide, rungs.covers[j]))
    assert worst <= epsilon
    assert worst >= (0.95 if tail == 2 else 0.5) * epsilon  # the analysis is not far from the truth
    # the mutant: rungs that cover twice (for tail 4, whose bound adds up, three times) the change exceed the claim
    assert heavy_loss(HeavyTail(tail), float(rungs.scales[-2]), float(rungs.scales[-1]), (tail // 2 + 1) * rungs.covers[-2]) > epsilon


def geometric_delta(narrow: Fraction, wide: Fraction, shift: int, epsilon: float) -> float:
    """The exact hockey-stick divergences between the two scales, the larger of the two directions, summed term by term."""
    mpmath.mp.dps = 30
    reach = int(80 * wide) + shift
    worst = mpmath.mpf(0)

    def mass(scale: Fraction, centre: int) -> list[mpmath.mpf]:
        s = mpmath.mpf(scale.numerator) / scale.denominator
        q, peak = mpmath.exp(-1 / s), mpmath.tanh(1 / (2 * s))
        powers = [peak]
        for _ in range(reach + shift + 1):
            powers.append(powers[-1] * q)
        return [powers[abs(k - centre)] for k in range(-reach, reach + 1)]

    factor = mpmath.exp(epsilon)
    one, two = mass(narrow, 0), mass(wide, shift)
    for p, q in ((one, two), (two, one)):
        worst = max(worst, mpmath.fsum(max(a - factor * b, 0) for a, b in zip(p, q, strict=True)))
    return float(worst)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.5, 1e-3), (2.0, 1e-2)])
def test_laplace_noise_keeps_delta_on_pairs_of_rungs(epsilon: float, delta: float) -> None:
    rungs = ladder(12, epsilon, delta, 2)
    assert rungs.delta <= delta and rungs.epsilon <= epsilon
    chosen = sorted({0, 1, len(rungs.scales) // 3, len(rungs.scales) - 2})
    worst = max(geometric_delta(rungs.scales[j], rungs.scales[j + 1], rungs.covers[j], epsilon) for j in chosen)
    assert worst <= delta
    if epsilon == 1.0:
        assert worst >= delta / 2  # the climb is found in steps of 2 %, each worth 1.3 of delta
        # the mutant: rungs three apart
        assert geometric_delta(rungs.scales[-4], rungs.scales[-1], rungs.covers[-4], epsilon) > delta


def test_the_customary_laplace_calibration_keeps_its_delta_too() -> None:
    """beta = eps / (2 ln(2/delta)) and scale 2 S / eps: the textbook proof gives delta (1 + e^(eps/2)) / 2; the truth is below delta."""
    epsilon, delta = 1.0, 1e-4
    wide = Fraction(30) * Fraction(math.exp(epsilon / (2 * math.log(2 / delta))))
    assert geometric_delta(Fraction(30), wide, 15, epsilon) <= delta < delta * (1 + math.exp(epsilon / 2)) / 2


def chi_square(draws: list[int], mass, reach: int) -> float:
    """The p-value of draws against a mass function on -reach..reach and everything beyond."""
    seen = Counter(draws)
    expected = {k: mass(k) * len(draws) for k in range(-reach, reach + 1)}
    rest = len(draws) - sum(expected.values())
    beyond = sum(c for k, c in seen.items() if abs(k) > reach)
    statistic = sum((seen[k] - e) ** 2 / e for k, e in expected.items()) + (beyond - rest) ** 2 / rest
    return float(chi2.sf(statistic, 2 * reach + 1))


@pytest.mark.parametrize("tail", [2, 4])
def test_heavy_tailed_draws_have_the_stated_law(tail: int) -> None:
    law, scale = HeavyTail(tail), Fraction(7, 3)
    with seeded(11):
        draws = [law.draw(scale) for _ in range(6000)]

    def mass(s: float):
        return lambda k: math.exp(-math.log(s**tail + abs(k) ** tail) - law.log_total(s))

    assert chi_square(draws, mass(7 / 3), 8) > 1e-4
    assert chi_square(draws, mass(7 / 3 * 1.3), 8) < 1e-9  # the mutant


def test_geometric_draws_have_the_stated_law() -> None:
    law = TwoSidedGeometric()
    with seeded(5):
        draws = [law.draw(Fraction(5, 2)) for _ in range(6000)]

    def mass(s: float):
        return lambda k: math.tanh(1 / (2 * s)) * math.exp(-abs(k) / s)

    assert chi_square(draws, mass(2.5), 8) > 1e-4
    assert chi_square(draws, mass(2.9), 8) < 1e-9  # the mutant


def test_the_plan_states_its_price_and_answers_in_range() -> None:
    space = Space(Rows(Integers(0, 100), size=9), ReplaceOne())
    plan = space >> smooth_median(epsilon=1)
    assert plan.privacy(0) == NoOp() and plan.privacy(3) == PureDP(3) and plan.check(1, epsilon=1)
    loose = space >> smooth_quantile(0.25, epsilon=1, delta=1e-6)
    assert loose.privacy(1) == ApproxDP(1, 1e-6) and loose.privacy(2) == Group(ApproxDP(1, 1e-6), 2)
    with seeded(1):
        for data in ([float("nan")] * 9, [float("inf")] * 9, [1e308] * 9, [-1e308, "x", None, 3, 4, 5, 6, 7, 8]):
            assert all(0 <= plan.release(data).value <= 100 for _ in range(20))
        empty = Space(Rows(Integers(0, 100)), ReplaceOne()) >> smooth_median(epsilon=1)
        assert all(0 <= empty.release([]).value <= 100 for _ in range(20))
    lattice = Space(Rows(Lattice(Fraction(1, 4), 0, 10)), ReplaceOne()) >> smooth_interquartile_range(epsilon=1)
    with seeded(2):
        value = lattice.release([0, 10, 20, 30, 40] * 20).value
    assert isinstance(value, float) and (value * 4).is_integer() and 0 <= value <= 10
    vector = Space(Vectors(Integers(0, 5), 4), Hamming()) >> smooth_median(epsilon=2)
    assert vector.release([1, 2, 3, 4]).private


def test_noise_shrinks_where_the_data_is_dense() -> None:
    plan = Space(Rows(Integers(0, 10**6)), ReplaceOne()) >> smooth_median(epsilon=1)
    with seeded(3):
        dense = [abs(plan.function(np.full(501, 5000)) - 5000) for _ in range(100)]
        spread = [abs(plan.function(np.array([0] * 250 + [10**6] * 251)) - 10**6) for _ in range(100)]
    assert np.median(dense) <= 3 < 10**4 < np.median(spread)


def test_what_cannot_be_proved_is_refused() -> None:
    median = smooth_median(epsilon=1)
    with pytest.raises(MetricError, match="come and go"):
        Space(Rows(Integers(0, 5)), AddRemove()) >> elastic_join_size(3, 7, epsilon=1)
    with pytest.raises(DomainError, match="public bounds"):
        Space(Rows(Integers()), ReplaceOne()) >> median
    with pytest.raises(DomainError, match=r"2\^60"):
        Space(Rows(Integers(0, 2**61)), ReplaceOne()) >> median
    with pytest.raises(ParameterError, match="tail"):
        smooth_median(epsilon=1, tail=3)
    with pytest.raises(ParameterError, match="delta"):
        smooth_median(epsilon=1, delta=0)
    with pytest.raises(ParameterError, match="rungs"):
        Space(Rows(Integers(0, 9)), ReplaceOne()) >> smooth_median(epsilon=1e-6)


def test_a_statistic_of_ones_own_is_unproved() -> None:
    class Largest:
        name = "largest"

        def range(self, lower: int, upper: int) -> tuple[int, int]:
            return lower, upper

        def value(self, data: np.ndarray, lower: int, upper: int) -> int:
            return int(data.max())

        def sensitivities(self, data: np.ndarray, lower: int, upper: int, most: int) -> np.ndarray:
            return np.full(most + 1, upper - lower)

    from tacit.mechanisms.smooth_sensitivity import SmoothSensitivity

    plan = Space(Rows(Integers(0, 9)), ReplaceOne()) >> SmoothSensitivity(Largest(), 1)
    assert plan.unproved and plan.release([1, 2]).unproved


def test_the_definition_for_study() -> None:
    assert smooth_sensitivity(lambda k: 1.0, 5, 0.3) == 1.0
    assert smooth_sensitivity(lambda k: float(k == 2), 5, 0.3) == pytest.approx(math.exp(-0.6))


# --- rows that come and go ----------------------------------------------------------------------------------------------------------

COMING = [Quantile(HALF), Quantile(Fraction(1, 4)), Quantile(Fraction(9, 10)), Quantile(0), Quantile(1), InterquartileRange()]


def with_one_less(data: tuple[int, ...]) -> set[tuple[int, ...]]:
    return {(*data[:i], *data[i + 1 :]) for i in range(len(data))}


@pytest.mark.parametrize("statistic", COMING, ids=lambda s: s.name)
def test_sensitivities_hold_for_all_rows_that_come_and_go_in_a_small_world(statistic) -> None:
    """All data sets of up to six values out of four, and all pairs that differ in one row: the two things that the ladder needs."""
    top, most = 3, 8
    sets = [x for n in range(7) for x in itertools.combinations_with_replacement(range(top + 1), n)]
    near = {x: statistic.sensitivities(np.array(x, dtype=np.int64), 0, top, most) for x in sets}
    value = {x: statistic.value(np.array(x, dtype=np.int64), 0, top) for x in sets}
    for x in sets:
        for y in with_one_less(x):
            assert abs(value[x] - value[y]) <= min(near[x][0], near[y][0])
            assert (near[x][:-1] <= near[y][1:]).all() and (near[y][:-1] <= near[x][1:]).all()


def test_other_quartiles_would_move_apart() -> None:
    """The mutant: an upper quartile that counts from below (rank floor(3 n / 4) + 1) can fall while the first rises, by more than A_0."""

    class Careless(InterquartileRange):
        def value(self, data: np.ndarray, lower: int, upper: int) -> int:
            return int(np.sort(data)[3 * len(data) // 4]) - Quantile(Fraction(1, 4)).value(data, lower, upper) if len(data) else 0

    sets = [x for n in range(1, 9) for x in itertools.combinations_with_replacement((0, 3, 6), n)]
    printed = Careless()
    assert any(
        abs(printed.value(np.array(x), 0, 6) - printed.value(np.array(y), 0, 6)) > printed.sensitivities(np.array(x), 0, 6, 1)[0]
        for x in sets for y in with_one_less(x) if y
    )


@pytest.mark.parametrize("delta", [None, 0.01])
def test_the_price_holds_where_rows_come_and_go(delta: float | None) -> None:
    """The law of the answer on every small data set, from the mass functions, against its neighbours with a row less: both directions."""
    top, epsilon = 4, 1.0
    rungs = ladder(top, epsilon, delta, 2)
    statistic = Quantile(HALF)

    def mass(scale: float, k: int) -> float:
        if delta is None:
            return math.exp(-HeavyTail(2).log_total(scale)) / (scale**2 + k**2)
        return math.tanh(1 / (2 * scale)) * math.exp(-abs(k) / scale)

    def law(x: tuple[int, ...], forgetful: bool = False) -> np.ndarray:
        data = np.array(x, dtype=np.int64)
        near = statistic.sensitivities(data, 0, top, len(rungs.scales))
        scale = float(rungs.scales[rungs.rung(near[:1] if forgetful else near)])
        centre = statistic.value(data, 0, top)
        inner = np.array([mass(scale, v - centre) for v in range(top + 1)])
        # what lies below 0 and above the top by symmetry: (1 - mass(0) - 2 * (mass(1) + ... + mass(m))) / 2 lies beyond m
        side = [(1 - mass(scale, 0) - 2 * sum(mass(scale, k) for k in range(1, m + 1))) / 2 for m in (centre, top - centre)]
        inner[0] += side[0]
        inner[-1] += side[1]
        return inner

    sets = [x for n in range(5) for x in itertools.combinations_with_replacement(range(top + 1), n)]
    laws = {kind: {x: law(x, kind) for x in sets} for kind in (False, True)}
    found = {False: 0.0, True: 0.0}
    for x in sets:
        for y in with_one_less(x):
            for kind, one in laws.items():
                for p, q in ((one[x], one[y]), (one[y], one[x])):
                    found[kind] = max(found[kind], float(np.maximum(p - math.exp(epsilon) * q, 0).sum()))
    worst, careless = found[False], found[True]
    assert worst <= (delta or 1e-9) and careless > 0.05


def test_the_number_of_rows_may_be_private() -> None:
    plan = Space(Rows(Integers(0, 1000)), AddRemove()) >> smooth_median(epsilon=1)
    assert plan.event(1) == PureDP(1) and plan.privacy(3) == PureDP(3)
    with seeded(4):
        close = [abs(plan.function(np.full(n, 500)) - 500) <= 60 for n in (400, 401) for _ in range(200)]
        assert np.mean(close) > 0.9
        for odd in ([], [math.nan] * 3, [1e308], [500]):
            assert 0 <= plan.release(odd).value <= 1000
        wide = Space(Rows(Integers(0, 1000)), AddRemove()) >> smooth_interquartile_range(epsilon=1)
        assert 0 <= wide.release([250] * 300 + [750] * 300).value <= 1000


# --- accuracy both ways --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", [HeavyTail(2), HeavyTail(4), TwoSidedGeometric()], ids=["2", "4", "geometric"])
def test_the_tail_is_that_of_the_sum_and_never_below(law) -> None:
    for scale in (1.0, 3.7, 40.0):
        for error in (0, 1, 5, 39, 41, 500):
            if isinstance(law, HeavyTail):  # all mass less the middle, which is a short sum
                k = np.arange(1, error + 1, dtype=float)
                middle = scale**-law.tail + 2 * math.fsum(1 / (scale**law.tail + k**law.tail))
                exact = 1 - middle * math.exp(-law.log_total(scale))
            else:
                exact = 1 - math.tanh(1 / (2 * scale)) * (1 + 2 * math.fsum(math.exp(-k / scale) for k in range(1, error + 1)))
            found = law.beyond(scale, error)
            assert found >= exact - 1e-13
            # an integral of a falling function from k exceeds the sum from k + 1 on by at most the value at k
            most = math.exp(-law.log_total(scale)) * 2 / (scale**law.tail + error**law.tail) if isinstance(law, HeavyTail) else 0.0
            assert found <= min(1.0, (exact + most) * (1 + 1e-8) + 1e-12)


DENSE = np.sort(np.concatenate([np.arange(0, 1000, 20), np.arange(400, 600)]))


@pytest.mark.parametrize("delta", [None, 1e-6])
@pytest.mark.parametrize("metric", [AddRemove(), ReplaceOne()])
def test_the_error_is_kept_as_often_as_it_says(delta: float | None, metric) -> None:
    """2,000 answers, beta 0.1: more than 240 misses would have a chance of 1e-8 at exactly 0.1; a tenth of the error is missed often."""
    space = Space(Rows(Integers(0, 1000)), metric)
    rule = smooth_median(epsilon=1, delta=delta)
    near = Quantile(HALF).sensitivities(DENSE, 0, 1000, 300)
    error = rule.accuracy(0.1, space=space, near=near)
    assert error < rule.accuracy(0.1, space=space) and error < rule.accuracy(0.1, space=space, near=near[:3])
    plan, truth = space >> rule, int(Quantile(HALF).value(DENSE, 0, 1000))
    with seeded(11):
        off = np.array([abs(plan.function(DENSE) - truth) for _ in range(2000)])
    assert (off > error).sum() <= 240
    assert (off > error / 10).mean() > 0.3  # the mutant: a bound ten times too small
    found = SmoothSensitivity.for_accuracy(error, 0.1, space=space, near=near, delta=delta)
    assert found.accuracy(0.1, space=space, near=near) <= error and found.epsilon <= 1.001
    less = SmoothSensitivity(found.statistic, found.epsilon * 0.97, delta)
    assert less.accuracy(0.1, space=space, near=near) > error


def test_an_accuracy_that_is_bought_holds_and_is_priced() -> None:
    """500 pairs of a bought error and an answer, beta 0.1: over 85 misses would have a chance below 1e-5; a margin of 0 misses more."""
    space = Space(Rows(Integers(0, 1000)), AddRemove())
    rule = smooth_median(epsilon=1)
    bought = space >> rule.measured_accuracy(epsilon=0.5, beta=0.1)
    assert bought.event(1) == PureDP(Fraction(1, 2)) and bought.privacy(2) == PureDP(1)
    plan, truth = space >> rule, int(Quantile(HALF).value(DENSE, 0, 1000))
    with seeded(12):
        misses = sum(abs(plan.function(DENSE) - truth) > bought.function(DENSE) for _ in range(500))
        assert misses <= 85
        assert all(0 < bought.release(odd).value <= 1000 for odd in ([], [math.nan], [1e308] * 9))
    step = rule.measured_accuracy(epsilon=0.5, beta=0.1)
    again = type(step).for_accuracy(step.accuracy(0.1, rungs=1000), 0.1, answer=rule)
    assert again.epsilon <= 0.5005 and again.accuracy(0.1, rungs=1000) <= step.accuracy(0.1, rungs=1000)


def test_rungs_told_without_noise_would_tell() -> None:
    """Why the rung costs: neighbours stand on different rungs, so the rung itself is no public number."""
    rungs = ladder(1000, 1, None, 2)
    one, two = [0] * 20 + [1000] * 8, [0] * 20 + [1000] * 9
    seen = {rungs.rung(Quantile(HALF).sensitivities(np.array(x), 0, 1000, len(rungs.scales))) for x in (one, two)}
    assert len(seen) == 2
