"""Known failures 6 to 10, 12 to 14, 32 and 36: what a mechanism is told about the data moves by more than was declared.

The finder is record and replay: run a plan on two neighbouring data sets with mechanisms that keep what they are given and add nothing, and
compare. A difference in what was called, in shapes or in sizes counts as infinitely far, and so does NaN. Each known mistake is run
through the same finder first, and must be found.
"""

from __future__ import annotations

import itertools
import logging
import math
import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betaincinv

from tacit.accounting import Adjacency, Event, ParameterError, PureDP
from tacit.accounting.closed_form import exact_pure
from tacit.calculus import (
    L1,
    L2,
    Absolute,
    AddRemove,
    Anything,
    CalculusError,
    Categories,
    DomainError,
    Hamming,
    Identifiers,
    Integers,
    LInfinity,
    Measurement,
    Metric,
    MetricError,
    Reals,
    Records,
    ReplaceOne,
    Rows,
    Space,
    Step,
    Transformation,
    Vectors,
    batch,
    cap_rows,
    cast,
    clamp,
    column,
    count,
    drop_missing,
    filter_rows,
    histogram,
    join_public,
    map_rows,
    marginal,
    mean,
    one_hot,
    parallel,
    partition_by,
    round_to,
    table,
    total,
)
from tacit.mechanisms import (
    LaplaceSelection,
    Mechanism,
    OptimalSelection,
    bounded_mean,
    bounded_variance,
    discrete_gaussian,
    gaussian,
    geometric,
    laplace,
    noisy_histogram,
    quantile,
    sample_aggregate,
    staircase,
)
from tacit.noise import discrete_laplace, test_mode

NASTY: list[Any] = [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -0.0, 2**63 - 1, -(2**70), None, "", "12", True, [1], {"a": 1}]


class Recorder(Mechanism):
    """Stands where a mechanism would: keeps what it is given, answers zero, and costs one epsilon for each unit of declared distance."""

    def __init__(self) -> None:
        self.metrics: list[Metric] = []
        self.calls: list[tuple[int, Any]] = []

    def bind(self, space: Space) -> Measurement:
        place = len(self.metrics)
        self.metrics.append(space.metric)

        def function(value: Any) -> Any:
            self.calls.append((place, value))
            return np.zeros_like(np.asarray(value)) if np.ndim(value) else 0

        return Measurement(space, function, lambda d: PureDP(d), "recorder", proof="records only")


def moved(recorder: Recorder, first: list[tuple[int, Any]], second: list[tuple[int, Any]]) -> Fraction | float:
    """The sum over all mechanisms of how far their inputs are apart."""
    if [place for place, _ in first] != [place for place, _ in second]:
        return math.inf
    apart: Fraction | float = Fraction(0)
    for (place, one), (_, two) in zip(first, second, strict=True):
        if np.shape(one) != np.shape(two) or not _numbers(one) or not _numbers(two):
            return math.inf
        apart += Fraction(recorder.metrics[place].distance(one, two))
    return apart


def _numbers(value: Any) -> bool:
    return all(isinstance(v, (int, np.integer)) or math.isfinite(v) for v in np.asarray(value, dtype=object).ravel().tolist())


def replay(space: Space, build: Callable[[Recorder], Step], first: Any, second: Any) -> tuple[Fraction | float, Fraction]:
    """How far what the mechanisms see moves between two data sets, and how far it was declared to move at most."""
    recorder = Recorder()
    plan = space >> build(recorder)
    assert isinstance(plan, Measurement)
    plan.release(first)
    on_first, recorder.calls = recorder.calls, []
    plan.release(second)
    return moved(recorder, on_first, recorder.calls), declared(plan)


def declared(plan: Measurement) -> Fraction:
    price = exact_pure(plan.event(1), plan.adjacency or Adjacency.ADD_REMOVE)
    assert price is not None
    return price


def neighbours(metric: Metric, base: list[Any], rows: list[Any]) -> list[tuple[list[Any], list[Any]]]:
    """Pairs at distance one: a row more, or a row exchanged for another."""
    if isinstance(metric, AddRemove):
        return [(base, [*base, row]) for row in rows]
    return [([*base, a], [*base, b]) for a, b in itertools.combinations(rows, 2)]


def by_hand(
    metric: Metric, function: Callable[[Any], Any], step: Fraction | int, output: Space | None = None
) -> tuple[Space, Transformation]:
    """A transformation as somebody might write it who checks nothing: on raw rows, with a stability of their own belief."""
    space = Space(Rows(Anything()), metric)
    output = Space(Integers(), Absolute()) if output is None else output
    return space, Transformation(space, output, function, lambda d: step * d, "by hand", proof="so the author believes")


def clipped(row: Any, low: float, high: float) -> float:
    return float(np.clip(float(row), low, high))


# --- 6: NaN and infinities slip through a clip --------------------------------------------------------------------------------------------

RELATIONS = {"add-remove": AddRemove(), "replace-one": ReplaceOne()}
ONE_COLUMN: dict[str, Callable[[Recorder], Step]] = {
    "count": lambda r: count() >> r,
    "total": lambda r: cast(Integers()) >> clamp(-7, 100) >> total() >> r,
    "rounded total": lambda r: clamp(-7, 100) >> round_to(Fraction(1, 4)) >> total() >> r,
    "mean": lambda r: clamp(-7, 100) >> round_to(1) >> bounded_mean(r, r),
    "variance": lambda r: clamp(-7, 100) >> round_to(1) >> bounded_variance(r, r, r),
    "mapped": lambda r: map_rows(lambda x: 1 / x, Integers(-3, 5)) >> total() >> r,
    "filtered": lambda r: filter_rows(lambda x: 1 / x > 0) >> count() >> r,
}
WITH_PUBLIC_SIZE = {"mean", "variance"}  # under replace-one the last mechanism, that of the count, is left out


def one_column(name: str, metric: Metric) -> Callable[[Recorder], Step]:
    if name in WITH_PUBLIC_SIZE and not isinstance(metric, AddRemove):
        start = clamp(-7, 100) >> round_to(1)
        return (lambda r: start >> bounded_mean(r)) if name == "mean" else (lambda r: start >> bounded_variance(r, r))
    return ONE_COLUMN[name]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("name", ONE_COLUMN)
def test_no_value_moves_a_plan_by_more_than_declared(name: str, relation: str) -> None:
    metric = RELATIONS[relation]
    for first, second in neighbours(metric, [3.0, 50.0], [*NASTY, 0, 4.5, -7, 100]):
        apart, allowed = replay(Space(Rows(Reals()), metric), one_column(name, metric), first, second)
        assert apart <= allowed


def test_a_clip_that_lets_nan_through_is_found() -> None:
    space, careless = by_hand(AddRemove(), lambda rows: sum(clipped(row, 0, 100) for row in rows), 100, Space(Reals(), Absolute()))
    apart, allowed = replay(space, lambda r: careless >> _Any(r), [3.0], [3.0, math.nan])
    assert apart > allowed
    assert replay(space, lambda r: careless >> _Any(r), [3.0], [3.0, 1e308]) == (100, 100)


class _Any(Step):
    """Puts a recorder on floats, where no mechanism of ours would bind."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def bind(self, space: Space) -> Measurement:
        return self.recorder.bind(space)


@pytest.mark.parametrize("name", ["laplace", "gaussian", "geometric", "discrete gaussian", "staircase"])
def test_a_missing_row_that_is_dropped_changes_nothing_at_all(name: str) -> None:
    noise: Mechanism = {
        "laplace": laplace(50),
        "gaussian": gaussian(50),
        "geometric": geometric(50),
        "discrete gaussian": discrete_gaussian(50),
        "staircase": staircase(1, 100),
    }[name]
    space = Space(Rows(Reals(0, 100)), AddRemove())
    plan = space >> drop_missing() >> round_to(1) >> total() >> noise

    def released(rows: list[Any]) -> float:
        with test_mode(4):
            return float(plan.release(rows).value)

    without = released([10.0, 20.0])
    assert math.isfinite(without)
    assert released([10.0, math.nan, 20.0]) == released([10.0, 20.0, None]) == without
    assert released([10.0, math.inf, 20.0]) == released([10.0, 100.0, 20.0]) != without


# --- 7: the clip is computed, and then the raw data is used -------------------------------------------------------------------------------


def test_raw_data_behind_a_computed_clip_is_found_by_one_outlier() -> None:
    def forgetful(rows: list[Any]) -> int:
        bounded = [int(clipped(row, 0, 100)) for row in rows]
        return sum(int(row) for row in rows) if bounded else 0

    def careful(rows: list[Any]) -> int:
        return sum(int(clipped(row, 0, 100)) for row in rows)

    base, outlier = [3, 4], [3, 4, 10**9]
    verdicts = {}
    for function in (forgetful, careful):
        space, sum_by_hand = by_hand(AddRemove(), function, 100)
        apart, allowed = replay(space, lambda r, plan=sum_by_hand: plan >> r, base, outlier)  # type: ignore[misc]
        verdicts[function.__name__] = apart <= allowed
    assert verdicts == {"forgetful": False, "careful": True}
    apart, allowed = replay(Space(Rows(Integers()), AddRemove()), lambda r: clamp(0, 100) >> total() >> r, base, outlier)
    assert apart == allowed == 100


def test_second_moments_are_made_of_clipped_rows() -> None:
    """The covariance that used unclipped rows: here the sum of squares, which an outlier would move by its square."""
    for metric in RELATIONS.values():
        for first, second in neighbours(metric, [1, 2], [10**12, -(10**12), 0]):
            apart, allowed = replay(Space(Rows(Integers()), metric), _variance(metric), first, second)
            assert apart <= allowed


def _variance(metric: Metric) -> Callable[[Recorder], Step]:
    private = isinstance(metric, AddRemove)
    return lambda r: clamp(0, 10) >> (bounded_variance(r, r, r) if private else bounded_variance(r, r))


# --- 8: a slip in the formula of the sensitivity ------------------------------------------------------------------------------------------

BOUNDS = [(0, 100), (10, 20), (-20, -10), (-1, 1), (-7, 3), (-3, 7), (0, 0), (5, 5), (-(2**40), 1)]
FORMULAS: dict[str, Callable[[int, int], int]] = {
    "width": lambda low, high: high - low,
    "larger bound": lambda low, high: max(abs(low), abs(high)),
    "lower bound": lambda low, high: abs(low),
    "upper bound": lambda low, high: abs(high),
    "sum of the bounds": lambda low, high: abs(low + high),
    "half the width": lambda low, high: (high - low) // 2,
}
RIGHT = {"add-remove": "larger bound", "replace-one": "width"}


def worst(metric: Metric, low: int, high: int, build: Callable[[Recorder], Step], space: Space) -> tuple[Fraction | float, Fraction]:
    pairs = neighbours(metric, [low, high], [low, high, low - 1000, high + 1000, (low + high) // 2])
    found = [replay(space, build, first, second) for first, second in pairs]
    return max(apart for apart, _ in found), found[0][1]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("low", "high"), BOUNDS)
def test_asymmetric_and_sign_crossing_bounds_are_met_exactly(low: int, high: int, relation: str) -> None:
    metric = RELATIONS[relation]
    space = Space(Rows(Integers()), metric)
    apart, allowed = worst(metric, low, high, lambda r: clamp(low, high) >> total() >> r, space)
    assert apart == allowed == FORMULAS[RIGHT[relation]](low, high)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("formula", FORMULAS)
def test_wrong_formulas_are_found_on_some_bounds(formula: str, relation: str) -> None:
    metric, claim = RELATIONS[relation], FORMULAS[formula]
    caught = False
    for low, high in BOUNDS:
        space, sum_by_hand = by_hand(metric, lambda rows, a=low, b=high: sum(min(max(r, a), b) for r in rows), claim(low, high))  # type: ignore[misc]
        apart, allowed = worst(metric, low, high, lambda r, plan=sum_by_hand: plan >> r, space)  # type: ignore[misc]
        caught = caught or apart > allowed
    assert caught == (formula != RIGHT[relation])


@given(st.integers(-50, 50), st.integers(0, 60), st.lists(st.integers(-200, 200), min_size=1, max_size=4), st.integers(-200, 200))
def test_any_bounds_and_any_rows(low: int, width: int, rows: list[int], other: int) -> None:
    high = low + width
    for metric in RELATIONS.values():
        second = [*rows, other] if isinstance(metric, AddRemove) else [other, *rows[1:]]
        apart, allowed = replay(Space(Rows(Integers()), metric), lambda r: clamp(low, high) >> total() >> r, rows, second)
        assert apart <= allowed


def test_a_mean_declared_n_times_too_small_is_found() -> None:
    """The sum of values scaled to two, declared as two over n: n times too little noise."""
    n = 50
    space, scaled = by_hand(Hamming(), lambda rows: sum(rows), Fraction(2, n))
    apart, allowed = replay(space, lambda r: scaled >> r, [0] * n, [2] + [0] * (n - 1))
    assert apart == n * allowed
    public = Space(Rows(Integers(0, 2), size=n), ReplaceOne())
    assert replay(public, lambda r: mean() >> r, [0] * n, [2] + [0] * (n - 1)) == (2, 2)  # in units of 1/n
    assert (public >> mean()).sensitivity() == Fraction(2, n)


# --- 9: no noise at all -------------------------------------------------------------------------------------------------------------------

NOISE: dict[str, Callable[[Any], Step]] = {
    "laplace": laplace,
    "gaussian": gaussian,
    "geometric": geometric,
    "discrete gaussian": discrete_gaussian,
}


def silent(plan: Measurement, data: Any, draws: int = 40) -> bool:
    """Whether every answer is the same: then there is no noise."""
    with test_mode(9):
        return len({float(plan.release(data).value) for _ in range(draws)}) == 1


@pytest.mark.parametrize("name", NOISE)
@pytest.mark.parametrize("scale", [0, 0.0, -1, math.nan, math.inf, Fraction(0)], ids=["0", "0.0", "-1", "nan", "inf", "fraction"])
def test_a_scale_of_zero_cannot_be_asked_for(name: str, scale: Any) -> None:
    with pytest.raises(ParameterError, match=r"must be (positive|finite)|scale|sigma"):
        NOISE[name](scale)


@pytest.mark.parametrize("name", NOISE)
def test_small_hyper_parameters_still_give_noise(name: str) -> None:
    space = Space(Rows(Integers(0, 1)), AddRemove())
    assert not silent(space >> total() >> NOISE[name](1), [1] * 5)

    class Truncated(Mechanism):
        """The mutant: a scale that an integer division brings to zero."""

        def bind(self, space: Space) -> Measurement:
            scale = 1 // 2
            function = lambda x: x + (discrete_laplace(scale) if scale else 0)  # noqa: E731
            return Measurement(space, function, lambda d: PureDP(d), "truncated", proof="none")

    assert silent(space >> total() >> Truncated(), [1] * 5)


def test_what_has_no_bounds_is_refused_before_any_data() -> None:
    unbounded = Space(Rows(Integers()), AddRemove())
    for step in (total(), bounded_mean(laplace(1), laplace(1)), quantile(Fraction(1, 2), 1)):
        with pytest.raises(CalculusError, match=r"bounds|clamp"):
            unbounded >> step
    for step in (histogram(), noisy_histogram(laplace(1))):
        with pytest.raises(DomainError):
            Space(Rows(Anything()), AddRemove()) >> step


# --- 10: the number of rows treated as public ---------------------------------------------------------------------------------------------


def test_a_mean_over_a_private_number_of_rows_is_refused() -> None:
    rows = Space(Rows(Integers(0, 100)), AddRemove())
    with pytest.raises(MetricError, match="number of rows, which is private"):
        rows >> mean()
    with pytest.raises(MetricError, match="number of rows is private"):
        rows >> bounded_mean(laplace(100))
    with pytest.raises(MetricError):
        Space(Rows(Integers(0, 100), size=3), AddRemove())  # a public size and rows that come and go contradict each other


def test_the_count_is_an_answer_that_costs() -> None:
    rows = Space(Rows(Integers(0, 100)), AddRemove())
    assert replay(rows, lambda r: count() >> r, [1, 2], [1, 2, 3]) == (1, 1)
    # in half granules a row moves the sum about the middle by 100, and the count by 1
    assert replay(rows, lambda r: clamp(0, 100) >> bounded_mean(r, r), [100] * 3, [100] * 4) == (101, 101)


def test_dividing_by_the_true_number_of_rows_is_found() -> None:
    """The mutant: a mean with the sensitivity of exchanged rows, on data where rows come and go."""
    n, fine = 4, 12
    space, naive = by_hand(AddRemove(), lambda rows: sum(rows) * fine // len(rows), Fraction(100 * fine, n * 2))
    apart, allowed = replay(space, lambda r: naive >> r, [0], [0, 100])
    assert apart > allowed


# --- 12: categories, labels and their order are read from the data ------------------------------------------------------------------------

CLASSES = Rows(Categories(("z", "a", "rare")))


def schema(value: Any) -> Any:
    """What can be seen of an answer without looking at its numbers."""
    value = getattr(value, "raw", value)
    return list(value) if isinstance(value, dict) else np.shape(value)


SHAPES: dict[str, Callable[[Recorder], Step]] = {
    "histogram": lambda r: histogram() >> r,
    "noisy histogram": lambda r: noisy_histogram(r),
    "parallel": lambda r: parallel(partition_by(("z", "a", "rare")), count() >> r),
    "one hot": lambda r: one_hot() >> total(L1()) >> r,
}


@pytest.mark.parametrize("name", SHAPES)
def test_removing_the_only_row_of_a_class_changes_no_schema(name: str) -> None:
    data = ["a", "rare", "z", "a"]
    space = Space(CLASSES, AddRemove())
    seen = []
    for rows in (data, [row for row in data if row != "rare"], [], ["never seen", None]):
        recorder = Recorder()
        plan = space >> SHAPES[name](recorder)
        seen.append((schema(plan.release(rows).value), [(place, np.shape(v)) for place, v in recorder.calls]))
    assert all(one == seen[0] for one in seen)
    apart, allowed = replay(space, SHAPES[name], data, data[:1] + data[2:])
    assert apart <= allowed


def test_categories_taken_from_the_data_are_found() -> None:
    def by_sight(rows: list[Any]) -> np.ndarray:
        return np.unique(np.asarray(rows), return_counts=True)[1]

    space, mutant = by_hand(AddRemove(), by_sight, 1, Space(Vectors(Integers(), 3), L1()))
    apart, allowed = replay(space, lambda r: mutant >> r, ["a", "rare", "z"], ["a", "z"])
    assert apart == math.inf > allowed


def test_marginals_have_a_cell_for_every_public_combination() -> None:
    people = Space(table(place=Categories(("n", "s")), grade=Categories((1, 2, 3))), AddRemove())
    recorder = Recorder()
    plan = people >> marginal("place", "grade") >> recorder
    for data in ({"place": ["n"], "grade": [3]}, {"place": [], "grade": []}):
        assert np.shape(plan.release(data).value) == (6,)


# --- 13: keys that betray people, and one noise for all empty keys ------------------------------------------------------------------------


def test_empty_keys_get_noise_of_their_own_and_shared_noise_is_found() -> None:
    cells = tuple(range(400))

    def shared(answers: list[int]) -> bool:
        """All equal, or a variance that cannot be that of independent draws: 2 * 4^2 = 32, relative deviation below 6 * sqrt(5 / 400)."""
        return len(set(answers)) == 1 or abs(float(np.var(answers)) / 32 - 1) > 0.7

    with test_mode(13):
        ours = Space(Rows(Categories(cells)), AddRemove()) >> noisy_histogram(geometric(4))
        assert not shared(list(ours.release([]).value.raw.values()))
        one = int(discrete_laplace(4))
    assert shared([one] * 400), "the mutant: one draw for all empty keys"


def share_at_most(hits: int, n: int, sure: float) -> float:
    """The lower Clopper-Pearson end of a share: what it is at least, except with probability `sure`."""
    return 0.0 if hits == 0 else float(betaincinv(hits, n - hits + 1, sure))


@pytest.mark.parametrize("rule", ["laplace", "optimal"])
def test_a_key_that_one_person_has_vanishes_but_for_delta(rule: str) -> None:
    """Each release is one trial with chance delta; the mutant publishes every key that is there."""
    delta, n, sure = 0.05, 1500, 1e-9
    kind = LaplaceSelection if rule == "laplace" else OptimalSelection
    plan = Space(Rows(Anything()), AddRemove()) >> kind.for_budget(1, delta)
    data = [{"common"}] * 60 + [{"only hers"}]
    with test_mode(13):
        found = [plan.release(data).value for _ in range(n)]
    assert share_at_most(sum("only hers" in keys for keys in found), n, sure) <= delta
    assert sum("common" in keys for keys in found) > 0.99 * n
    raw = [sorted(set().union(*data)) for _ in range(n)]
    assert share_at_most(sum("only hers" in keys for keys in raw), n, sure) > delta, "the mutant: no threshold"


# --- 14: contributions without a bound ----------------------------------------------------------------------------------------------------

VISITS = Space(table(id=Integers(), cost=Integers(0, 50)), Identifiers("id"))


def visits(ids: list[int]) -> dict[str, np.ndarray]:
    return {"id": np.asarray(ids, dtype=np.int64), "cost": np.arange(len(ids), dtype=np.int64) % 51}


@pytest.mark.parametrize("many", [20_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_a_person_with_very_many_rows_counts_for_the_cap(many: int) -> None:
    others = [1, 2, 2, 3]
    cap = cap_rows("id", 5)
    builds: list[tuple[Step, int]] = [(cap >> count(), 5), (cap >> column("cost") >> total(), 250)]
    for step, most in builds:
        apart, allowed = replay(VISITS, lambda r, step=step: step >> r, visits(others), visits([7] * many + others))  # type: ignore[misc]
        assert apart <= allowed == most


def test_without_a_cap_people_are_refused_and_a_claimed_cap_is_found() -> None:
    for step in (count(), total(), histogram()):
        with pytest.raises(CalculusError):
            VISITS >> step
    claimed = Transformation(VISITS, Space(Integers(), Absolute()), lambda rows: len(rows["id"]), lambda d: 5 * d, "no cap", proof="none")
    apart, allowed = replay(VISITS, lambda r: claimed >> r, visits([1]), visits([1] + [7] * 1000))
    assert apart == 1000 > allowed == 5


def test_a_join_declares_how_often_it_multiplies_a_row() -> None:
    """A key that the public table has three times makes three rows of one; the mutant forgets that."""
    left = Space(table(key=Integers(0, 9), cost=Integers(0, 50)), AddRemove())
    public = {"key": [1, 2, 2, 2], "w": [5, 6, 7, 8]}
    join = join_public("key", public, w=Integers(0, 9))
    data = [{"key": [1], "cost": [1]}, {"key": [1, 2], "cost": [1, 7]}]
    assert replay(left, lambda r: join >> count() >> r, *data) == (3, 3)
    joined = left >> join
    numbers = Space(Integers(), Absolute())
    forgetful = Transformation(left, numbers, lambda rows: len(joined.function(rows)["w"]), lambda d: d, "join", proof="none")
    apart, allowed = replay(left, lambda r: forgetful >> r, *data)
    assert apart == 3 > allowed


# --- 32: functions of the user ------------------------------------------------------------------------------------------------------------

TARGET = 7


def raising(row: int) -> int:
    if row == TARGET:
        raise ValueError(f"found {row}")
    return row


def leaving(row: int) -> int:
    if row == TARGET:
        raise SystemExit(row)
    return row


def mutating(row: Any) -> int:
    if isinstance(row, dict):
        row["x"] = 10**9
    return 1


class Evil:
    """A result that fails wherever it is looked at."""

    def __int__(self) -> int:
        raise RuntimeError("seven")

    __float__ = __index__ = __int__  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("seven")

    __hash__ = None  # type: ignore[assignment]


def poisoning(row: int) -> Any:
    return Evil() if row == TARGET else row


MISBEHAVIOUR: dict[str, Callable[[int], Any]] = {"raises": raising, "exits": leaving, "poisons": poisoning}
# A process that ends for one person's row is an answer, so SystemExit must not get out either.
MISDEEDS = [(how, where) for how in MISBEHAVIOUR for where in ("map", "filter", "blocks")]


@pytest.mark.parametrize(("how", "wrap"), MISDEEDS)
def test_a_function_that_fails_on_one_person_changes_neither_status_nor_shape(
    how: str, wrap: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    function = MISBEHAVIOUR[how]
    space = Space(Rows(Integers(0, 9)), AddRemove())
    builds: dict[str, Callable[[Recorder], Step]] = {
        "map": lambda r: map_rows(function, Integers(0, 9)) >> total() >> r,
        "filter": lambda r: filter_rows(function) >> count() >> r,
        "blocks": lambda r: sample_aggregate(lambda b: sum(function(int(x)) for x in b), blocks=3, bounds=(0, 9), key=b"fixed") >> r,
    }
    with caplog.at_level(logging.DEBUG):
        apart, allowed = replay(space, builds[wrap], [1, 2, 3], [1, 2, 3, TARGET])
    assert apart <= allowed
    assert "7" not in caplog.text and "seven" not in caplog.text
    assert capsys.readouterr() == ("", "")


def test_an_unguarded_function_is_found() -> None:
    space, mutant = by_hand(AddRemove(), lambda rows: sum(raising(row) for row in rows), 9)
    replay(space, lambda r: mutant >> r, [1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match="found 7"):  # the error is an answer, and its text another
        replay(space, lambda r: mutant >> r, [1, 2], [1, 2, TARGET])


def test_a_function_sees_copies_only() -> None:
    given = {"x": [1, 2]}
    for step in (map_rows(mutating, Records(y=Integers(0, 9))), filter_rows(mutating)):
        (Space(table(x=Integers()), AddRemove()) >> step)(given)
    assert given == {"x": [1, 2]}


def test_what_the_function_of_a_block_prints_goes_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    def telling(block: Any) -> int:
        print("rows:", list(block))
        warnings.warn("a row was seen", stacklevel=1)
        return 1

    with pytest.warns(UserWarning, match="a row was seen"):
        telling([TARGET])
    assert str(TARGET) in capsys.readouterr().out, "the mutant: the function as it is"
    space = Space(Rows(Integers(0, 9)), AddRemove())
    replay(space, lambda r: sample_aggregate(telling, blocks=2, bounds=(0, 9), key=b"fixed") >> r, [1], [1, TARGET])
    assert capsys.readouterr() == ("", "")


# --- 36: many numbers, each priced as if it were the only one -----------------------------------------------------------------------------

SIZE = 4
POINTS = Rows(Vectors(Integers(-1, 3), SIZE))


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("norm", [L1(), L2(), LInfinity()], ids=["l1", "l2", "linf"])
def test_a_vector_is_declared_with_the_change_of_all_its_coordinates(norm: Metric, relation: str) -> None:
    metric = RELATIONS[relation]
    rows: list[Any] = [[3] * SIZE, [-1] * SIZE, [10**9] * SIZE, [math.nan] * SIZE, [3, -1, 3, -1], "x"]
    found = [replay(Space(POINTS, metric), lambda r: total(norm) >> r, *pair) for pair in neighbours(metric, [[0] * SIZE], rows)]
    assert max(apart for apart, _ in found) == found[0][1]


def test_the_change_of_one_coordinate_is_found_to_be_too_little() -> None:
    output = Space(Vectors(Integers(), SIZE), L1())
    space, mutant = by_hand(AddRemove(), lambda rows: np.asarray(rows, dtype=np.int64).reshape(-1, SIZE).sum(axis=0), 3, output)
    apart, allowed = replay(space, lambda r: mutant >> r, [[0] * SIZE], [[0] * SIZE, [3] * SIZE])
    assert apart == SIZE * allowed


def test_noise_for_single_numbers_does_not_bind_to_what_moves_jointly() -> None:
    wide = Space(POINTS, AddRemove()) >> total(LInfinity())
    for noise in (laplace(3), gaussian(3), geometric(3)):
        with pytest.raises(MetricError):
            wide >> noise


def test_coordinates_released_one_by_one_cost_their_sum() -> None:
    people = Space(table(a=Integers(0, 3), b=Integers(0, 3), c=Integers(0, 3)), AddRemove())
    recorder = Recorder()
    single = people >> batch(*(column(name) >> total() >> recorder for name in "abc"))
    event: Event = single.event(1)
    assert exact_pure(event, Adjacency.ADD_REMOVE) == 9
    both = [{"a": [], "b": [], "c": []}, {"a": [3], "b": [3], "c": [3]}]
    assert replay(people, lambda r: batch(*(column(name) >> total() >> r for name in "abc")), *both) == (9, 9)
