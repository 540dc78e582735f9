"""Bounded mean and variance: sensitivities by brute force, prices, safety at the edges, accuracy."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import Adjacency, Composed, Gaussian, Laplace, ParameterError, account
from tacit.calculus import (
    AddRemove,
    DomainError,
    Hamming,
    Identifiers,
    Integers,
    Lattice,
    MetricError,
    Reals,
    ReplaceOne,
    Rows,
    Space,
    clamp,
    table,
)
from tacit.mechanisms import bounded_mean, bounded_variance, gaussian, geometric, laplace
from tacit.mechanisms.bounded_mean import _rows, mean_for_epsilon
from tacit.noise import test_mode

AGES = Space(Rows(Integers(0, 100)), AddRemove())
PUBLIC = Space(Rows(Integers(0, 100), size=1000), ReplaceOne())


@pytest.mark.parametrize("bounds", [(0, 3), (-1, 2), (-5, -3), (2, 2), (0, 1)])
def test_the_pieces_are_as_sensitive_as_stated_by_brute_force(bounds: tuple[int, int]) -> None:
    """All multisets of up to three rows, all neighbours: the sums move by at most the stated step, and somewhere by as much."""
    values = range(bounds[0], bounds[1] + 1)
    data = [list(rows) for n in range(4) for rows in itertools.combinations_with_replacement(values, n)]
    for metric, stretch in ((AddRemove(), 1), (ReplaceOne(), 2)):
        rows = _rows(Space(Rows(Integers(*bounds)), metric), "test")
        pairs = [(a, b) for a in data for b in data if metric.distance(a, b) == 1]
        for query, step in ((rows.sum_of_deviations, rows.width), (rows.sum_of_squares, rows.width**2)):
            moves = [abs(query(np.array(a, dtype=np.int64)) - query(np.array(b, dtype=np.int64))) for a, b in pairs]
            assert max(moves, default=0) <= step * stretch
            if query == rows.sum_of_deviations and pairs:
                assert max(moves) == step * stretch
            if query == rows.sum_of_squares and stretch == 1 and pairs:
                assert max(moves) == step


def test_an_uncentred_sum_is_the_mutant_that_needs_twice_the_noise() -> None:
    """Sums from 0 move by 100, twice as much: the price stated for the centred ones would be exceeded."""
    rows = _rows(AGES, "test")
    assert abs(rows.sum_of_deviations(np.array([100])) - rows.sum_of_deviations(np.array([], dtype=np.int64))) == 100  # half granules
    assert rows.width < 2 * 100


def test_prices() -> None:
    mean = AGES >> bounded_mean(laplace(100), laplace(2))
    assert mean.event(1) == Composed(Laplace(2), Laplace(2))
    assert mean.event(3) == Composed(Laplace(Fraction(2, 3)), Laplace(Fraction(2, 3)))
    assert account(mean.event(1)).epsilon(0).upper == 1
    public = PUBLIC >> bounded_mean(laplace(200))
    assert public.event(1) == Composed(Laplace(2, adjacency=Adjacency.REPLACE_ONE))
    spread = AGES >> bounded_variance(gaussian(100), gaussian(2500), gaussian(2))
    assert spread.event(1) == Composed(Gaussian(2), Gaussian(2), Gaussian(2))
    replaced = Space(Rows(Integers(0, 100)), Hamming()) >> bounded_variance(laplace(200), laplace(5000))
    assert replaced.event(1) == Composed(*[Laplace(2, adjacency=Adjacency.REPLACE_ONE)] * 2)
    assert repr(mean.event(0)) == "NoOp()"


def test_a_lattice_is_priced_in_its_own_unit() -> None:
    cents = Space(Rows(Lattice(Fraction(1, 100), 0, 5)), AddRemove()) >> bounded_mean(laplace(5), geometric(1))
    assert cents.event(1).events[0] == Laplace(2)  # type: ignore[attr-defined]


def test_for_epsilon_spends_exactly_what_was_asked() -> None:
    plan = AGES >> mean_for_epsilon(Fraction(1, 2), 0, 100, share=Fraction(3, 4))
    assert account(plan.event(1)).epsilon(0).upper == 0.5
    public = PUBLIC >> mean_for_epsilon(0.5, 0, 100, n_public=True)
    assert account(public.event(1)).epsilon(0).upper == 0.5
    for wrong in ({"lower": 1, "upper": 1}, {"lower": 0, "upper": 1, "share": 1}):
        with pytest.raises(ParameterError, match=r"lower|share"):
            mean_for_epsilon(1, **wrong)  # type: ignore[arg-type]


def test_answers_are_near_the_truth() -> None:
    rng = np.random.default_rng(1)
    ages = rng.integers(0, 101, 20_000)
    with test_mode(81):
        mean = (AGES >> bounded_mean(laplace(100), laplace(2))).release(ages).value
        spread = (AGES >> bounded_variance(laplace(100), laplace(5000), laplace(2))).release(ages).value
        public = (Space(Rows(Integers(0, 100), size=20_000), ReplaceOne()) >> bounded_mean(laplace(200))).release(ages).value
    assert mean.value == pytest.approx(ages.mean(), abs=0.1)
    assert mean.value == pytest.approx(mean.centre + mean.total / mean.count)
    assert public.value == pytest.approx(ages.mean(), abs=0.1) and public.count == 20_000
    assert spread.value == pytest.approx(ages.var(), rel=0.02)
    assert spread.mean == pytest.approx(ages.mean(), abs=0.1)


@given(st.lists(st.integers(-20, 20), max_size=8))
def test_without_noise_the_formulas_are_those_of_mean_and_variance(data: list[int]) -> None:
    """Noise of scale 1e-6 rounds to none: the whole pipeline, in the presence of any bounds, against exact fractions."""
    space = Space(Rows(Integers(-20, 20)), AddRemove())
    tiny = laplace(Fraction(1, 10**6))
    with test_mode(82):
        answer = (space >> bounded_variance(tiny, tiny, tiny)).release(data).value
        mean = (space >> bounded_mean(tiny, tiny)).release(data).value
    n = max(len(data), 1)
    true = Fraction(sum(data), n)
    assert mean.value == pytest.approx(float(true), abs=1e-9)
    second = Fraction(sum(x * x for x in data), n) if data else Fraction(200)  # of nobody: half of the largest square
    assert answer.value == pytest.approx(float(second - true**2), abs=1e-9)


@pytest.mark.parametrize("data", [[], [50], [float("nan")] * 5, [float("inf"), -float("inf")], [10**30, -(10**30)], [None, "x"]], ids=str)
def test_nothing_in_the_data_makes_it_fail_or_leave_its_bounds(data: list[Any]) -> None:
    for space in (AGES, Space(Rows(Integers(0, 100)), ReplaceOne())):
        replaced = not isinstance(space.metric, AddRemove)
        mean = space >> bounded_mean(laplace(1000), None if replaced else laplace(50))
        spread = space >> bounded_variance(laplace(1000), laplace(10**6), None if replaced else laplace(50))
        for _ in range(20):
            answer = mean.release(data).value
            assert 0 <= answer.value <= 100 and not math.isnan(answer.value)
            found = spread.release(data).value
            assert 0 <= found.value <= 2500 and 0 <= found.mean <= 100


def test_noise_beyond_floating_point_gives_the_middle() -> None:
    """Draws that no float can hold are no error either; a scale that none can hold is refused when the plan is made."""
    plan = AGES >> bounded_mean(laplace(8e307), laplace(8e307))
    with test_mode(85):
        answers = [plan.release([100]).value for _ in range(60)]
    assert any(math.isinf(answer.count) for answer in answers)
    assert all(0 <= answer.value <= 100 for answer in answers)
    with pytest.raises(ParameterError, match="scale over granularity"):
        AGES >> bounded_mean(laplace(1e308), laplace(1))


def test_a_negative_noisy_count_is_never_divided_by() -> None:
    plan = AGES >> bounded_mean(laplace(1), laplace(1000), least=20)
    with test_mode(83):
        answers = [plan.release([100] * 30).value for _ in range(200)]
    low = [a for a in answers if a.count < 20]
    assert len(low) > 50
    assert all(a.value == pytest.approx(min(100, 50 + a.total / 20)) for a in low)


def test_large_values_are_squared_exactly() -> None:
    wide = _rows(Space(Rows(Integers(-(2**60), 2**60)), AddRemove()), "test")
    data = np.array([2**60, -(2**60), 12345], dtype=np.int64)
    assert wide.sum_of_squares(data) == 2 * sum((2 * x) ** 2 for x in data.tolist()) - 3 * 2**122
    narrow = _rows(Space(Rows(Integers(2**59, 2**59 + 10)), AddRemove()), "test")
    data = np.array([2**59, 2**59 + 10, 2**59 + 3], dtype=np.int64)
    assert narrow.sum_of_squares(data) == 2 * (100 + 100 + 16) - 3 * 100


def test_the_stated_accuracy_holds_and_is_not_idle() -> None:
    n, beta = 500, 0.1
    mechanism = bounded_mean(laplace(100), laplace(2))
    bound = mechanism.accuracy(beta, n=n, space=AGES)
    plan = AGES >> mechanism
    with test_mode(84):
        errors = [abs(plan.release([90] * n).value.value - 90) for _ in range(1000)]
    assert sum(e > bound for e in errors) <= 100
    assert sum(e > bound / 4 for e in errors) > 100
    assert mechanism.accuracy(beta, n=1, space=AGES) == 100


def test_what_is_missing_is_named_before_any_data() -> None:
    with pytest.raises(MetricError, match="count=laplace"):
        AGES >> bounded_mean(laplace(1))
    with pytest.raises(MetricError, match="leave count out"):
        PUBLIC >> bounded_mean(laplace(1), laplace(1))
    with pytest.raises(DomainError, match="clamp"):
        Space(Rows(Integers()), AddRemove()) >> bounded_mean(laplace(1), laplace(1))
    with pytest.raises(DomainError, match="round_to"):
        Space(Rows(Reals(0, 1)), AddRemove()) >> bounded_mean(laplace(1), laplace(1))
    with pytest.raises(DomainError):
        Space(table(id=Integers()), Identifiers("id")) >> bounded_mean(laplace(1), laplace(1))
    with pytest.raises(ParameterError, match="least"):
        bounded_mean(laplace(1), laplace(1), least=0.5)
    assert Space(Rows(Integers()), AddRemove()) >> clamp(0, 5) >> bounded_mean(laplace(1), laplace(1))
