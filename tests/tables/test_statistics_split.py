"""Splitting: never over the price, equal shares where they are asked for, NULLs for nothing, the better law."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp
from tests.tables.test_statistics_measure import NULLS, TOTAL

from tacit.accounting import Adjacency, Gaussian, Guarantee, Laplace, ParameterError, account
from tacit.tables import TableError, Unit
from tacit.tables.statistics import Statistic, parts_of, row_count, split

MICRO = Fraction(1, 10**6)
ONE = exp.Literal.number(1)


@given(
    st.fractions(Fraction(1, 1000), 20, max_denominator=1000),
    st.sampled_from([Fraction(0), MICRO, Fraction(1, 10**9)]),
    st.lists(st.integers(0, 3), min_size=3, max_size=3).filter(lambda demands: demands[0] > 0 and demands[2] > 0),
    st.integers(1, 30),
    st.sampled_from([Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE]),
)
def test_the_event_costs_no_more_than_the_price(
    epsilon: Fraction, delta: Fraction, demands: list[int], cap: int, adjacency: Adjacency
) -> None:
    unit = Unit("id", max_rows=cap, adjacency=adjacency)
    found = split([row_count(), NULLS, TOTAL], [Fraction(d) for d in demands], unit.reach(True), Guarantee(epsilon=epsilon, delta=delta))
    assert Fraction(account(found.event, adjacency).epsilon(float(delta)).upper) <= epsilon * (1 + Fraction(1, 10**12))
    assert all(share.scale > 0 for share in found.shares)


def test_the_whole_budget_is_used() -> None:
    for spend in (Guarantee(epsilon=Fraction(1), delta=MICRO), Guarantee(rho=Fraction(1, 10)), Guarantee(mu=Fraction(1, 2))):
        found = split([row_count(), TOTAL], [Fraction(1), Fraction(1)], Unit("id", max_rows=10).reach(True), spend, law="gaussian")
        assert isinstance(found.event, Gaussian) and spend.noise_multiplier is not None
        assert float(found.event.noise_multiplier) == pytest.approx(float(spend.noise_multiplier), rel=1e-6)


def test_a_count_and_a_mean_take_two_equal_shares_and_nulls_none() -> None:
    """The newcomer's task: 10 keys of one row each, epsilon 1, delta 1e-6; sigma_for(1, 1e-6) = 4.2247 by the closed form."""
    unit = Unit("id", max_groups=10, rows_per_group=1)
    demands = [Fraction(1), Fraction(0), Fraction(1)]
    shares = split([row_count(), NULLS, TOTAL], demands, unit.reach(True), Guarantee(epsilon=Fraction(1), delta=MICRO)).shares
    best = 4.224678889 * math.sqrt(2) * math.sqrt(10)
    assert [share.deviation for share in shares] == pytest.approx([best, best, 3 * best], rel=1e-6)
    assert best < 18.9


def test_laplace_is_taken_for_one_count_and_gaussian_for_many_groups() -> None:
    spend = Guarantee(epsilon=Fraction(1), delta=MICRO)
    assert split([row_count()], [Fraction(1)], Unit("id", max_rows=1).reach(True), spend).law == "laplace"
    assert split([row_count()], [Fraction(1)], Unit("id", max_groups=50, rows_per_group=1).reach(True), spend).law == "gaussian"


def test_pure_prices_are_exact() -> None:
    found = split([row_count(), TOTAL], [Fraction(1), Fraction(2)], Unit("id", max_rows=3).reach(False), Guarantee(epsilon=Fraction(1, 10)))
    assert found.event == Laplace(Fraction(10))
    assert [share.scale for share in found.shares] == [90, 135]


@given(st.lists(st.fractions(0, 5, max_denominator=20), min_size=3, max_size=3).filter(lambda d: d[0] > 0 and d[2] > 0))
def test_parts_add_up_to_one_along_the_worst_row(demands: list[Fraction]) -> None:
    parts = parts_of([row_count(), NULLS, TOTAL], demands)
    assert parts[0] + max(parts[1], parts[2]) == 1


def test_a_measure_nobody_pays_for_is_refused() -> None:
    with pytest.raises(TableError, match="weight"):
        parts_of([row_count(), Statistic("extra", ONE, 0, 1)], [Fraction(1), Fraction(0)])


def test_a_price_of_nothing_is_refused() -> None:
    for nothing in (Guarantee(epsilon=0), Guarantee(rho=0), Guarantee(mu=0), Guarantee(epsilon=0, delta=MICRO)):
        with pytest.raises(ParameterError, match="must be greater than 0"):
            split([row_count()], [Fraction(1)], Unit("id", max_rows=1).reach(True), nothing)
