"""Row by row: each step does to a row what it says, whatever the row holds, and says what it needs."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import ParameterError
from tacit.calculus import (
    Absolute,
    AddRemove,
    Anything,
    Ball,
    Categories,
    DomainError,
    Identifiers,
    Integers,
    Lattice,
    MetricError,
    Reals,
    Records,
    ReplaceOne,
    Rows,
    Space,
    Vectors,
    bins,
    cast,
    clamp,
    clip_norm,
    histogram,
    impute,
    one_hot,
    round_to,
    table,
)


def on(element: Any, metric: Any = None) -> Space:
    return Space(Rows(element), AddRemove() if metric is None else metric)


def element(plan: Any) -> Any:
    return plan.output.domain.element


def test_clamping_keeps_what_was_tighter() -> None:
    assert element(on(Integers()) >> clamp(0, 10)) == Integers(0, 10)
    assert element(on(Integers(2, 5)) >> clamp(0, 10)) == Integers(2, 5)
    assert element(on(Integers(-5, 3)) >> clamp(0, 10)) == Integers(0, 3)
    assert element(on(Integers(20, 30)) >> clamp(0, 10)) == Integers(10, 10)
    assert element(on(Integers(0, None)) >> clamp(-3, 10)) == Integers(0, 10)
    assert element(on(Lattice(Fraction(1, 2))) >> clamp(0, 1)) == Lattice(Fraction(1, 2), 0, 1)
    assert element(on(Reals(missing=False)) >> clamp(0, 1)) == Reals(0, 1, missing=False)
    assert element(on(Vectors(Integers(), 2)) >> clamp(0, 1)) == Vectors(Integers(0, 1), 2)
    assert (on(Integers(20, 30)) >> clamp(0, 10))([25, 99]).tolist() == [10, 10]


@given(st.lists(st.floats(), max_size=5), st.floats(-10, 0), st.floats(0, 10))
def test_clamping_against_the_definition(values: list[float], low: float, high: float) -> None:
    found = (on(Reals()) >> clamp(low, high))(values).tolist()
    for given_, clamped in zip(values, found, strict=True):
        assert math.isnan(clamped) if math.isnan(given_) else clamped == min(max(given_, low), high)


def test_casting_reads_numbers_and_drops_nonsense() -> None:
    raw = ["12", " 7 ", "1e3", "nan", "-inf", b"5", "many", None, 4.6, True, "9" * 5000]
    assert (on(Anything()) >> cast(Integers(0, 2000)))(raw).tolist() == [12, 7, 1000, 0, 0, 5, 0, 0, 5, 1, 2000]
    reals = (on(Anything()) >> cast(Reals()))(raw).tolist()
    assert reals[:3] == [12.0, 7.0, 1000.0] and reals[4] == -math.inf and math.isnan(reals[6]) and reals[10] == math.inf
    assert (on(Anything()) >> cast(Categories(("no", "yes"))))(["yes", 3, None]) == ["yes", "no", "no"]
    with pytest.raises(DomainError, match="round_to"):
        on(Anything()) >> cast(Lattice(1))


def test_imputing() -> None:
    plan = on(Reals(0, 9)) >> impute(4)
    assert plan([None, 20.0, "x"]).tolist() == [4.0, 9.0, 4.0]
    assert element(plan) == Reals(0, 9, missing=False)
    with pytest.raises(DomainError, match="public bounds"):
        on(Reals(0, 9)) >> impute(10)
    with pytest.raises(DomainError, match="cast"):
        on(Integers()) >> impute(1)


some_floats = st.one_of(st.floats(-50, 50), st.sampled_from([math.inf, -math.inf, 5e-324]))


@given(st.lists(some_floats, max_size=5), st.sampled_from(["1/3", "1/8", "3"]))
def test_rounding_is_to_the_nearest_multiple(values: list[float], step: str) -> None:
    granularity = Fraction(step)
    plan = on(Reals(-4, 10)) >> round_to(granularity)
    for given_, found in zip(values, plan(values).tolist(), strict=True):
        inside = Fraction(min(max(given_, -4.0), 10.0))
        assert abs(found * granularity - inside) <= granularity / 2
        assert element(plan).member(found)
    with pytest.raises(DomainError, match="no rounding"):
        on(Integers()) >> round_to(1)
    with pytest.raises(ParameterError, match="granularity"):
        round_to(0)


def test_rounding_vectors_and_missing_numbers() -> None:
    plan = on(Vectors(Reals(0, 1), 2)) >> round_to(Fraction(1, 4))
    assert plan([[0.3, math.nan], [2.0, -1.0]]).tolist() == [[1, 0], [4, 0]]
    assert element(plan) == Vectors(Lattice(Fraction(1, 4), 0, 1), 2)


@given(st.lists(st.one_of(st.integers(-20, 20), st.floats(-20, 20)), max_size=6))
def test_bins_against_the_definition(values: list[Any]) -> None:
    edges = [-3, Fraction(1, 3), 7.5]
    reals = [float(v) for v in values]
    expected = [sum(v >= edge for edge in edges) for v in reals]
    assert (on(Reals()) >> bins(edges))(reals) == expected
    whole = [round(v) for v in values]
    assert (on(Integers()) >> bins(edges))(whole) == [sum(v >= edge for edge in edges) for v in whole]
    thirds = (on(Lattice(Fraction(1, 3))) >> bins(edges))(whole)
    assert thirds == [sum(Fraction(v, 3) >= edge for edge in edges) for v in whole]


def test_bins_have_a_cell_for_the_missing_only_where_something_may_be() -> None:
    assert element(on(Reals()) >> bins([0])) == Categories((0, 1, 2))
    assert element(on(Reals(missing=False)) >> bins([0])) == Categories((0, 1))
    assert (on(Reals()) >> bins([0]) >> histogram())([1.0, None, -1.0, math.inf]).tolist() == [1, 2, 1]
    for edges, message in (([], "at least one"), ([1, 1], "increase"), ([math.inf], "finite")):
        with pytest.raises(DomainError, match=message):
            bins(edges)
    with pytest.raises(DomainError, match="cast"):
        on(Categories("ab")) >> bins([0])


def test_one_hot_and_norms() -> None:
    assert element(on(Categories("abc")) >> one_hot()) == Ball(Integers(0, 1), 3, 1, 1)
    with pytest.raises(DomainError, match="public categories"):
        on(Integers(0, 3)) >> one_hot()
    with pytest.raises(DomainError, match="vector"):
        on(Integers()) >> clip_norm(1, 2)


def test_one_column_of_a_table() -> None:
    people = Space(table(age=Reals(), city=Categories("ab")), ReplaceOne())
    plan = people >> impute(30, column="age") >> clamp(0, 120, column="age") >> round_to(1, column="age")
    found = plan({"age": [None, 200.0], "city": ["b", "z"]})
    assert found["age"].tolist() == [30, 120] and found["city"] == ["b", "a"]
    assert element(plan) == Records(age=Lattice(1, 0, 120), city=Categories("ab"))
    assert "column='age'" in plan.name
    assert "one_hot(column='city')" in (people >> one_hot(column="city")).name
    with pytest.raises(DomainError, match="no field"):
        people >> clamp(0, 1, column="height")
    with pytest.raises(DomainError, match="named columns"):
        on(Reals()) >> clamp(0, 1, column="age")
    with pytest.raises(DomainError, match="cast"):
        people >> clamp(0, 1)


def test_the_column_that_names_people_is_left_alone() -> None:
    people = Space(table(id=Integers(), age=Reals()), Identifiers("id"))
    with pytest.raises(MetricError, match="merge people"):
        people >> clamp(0, 1, column="id")
    assert (people >> clamp(0, 1, column="age")).map(2) == 2


def test_clamp_refuses_bounds_that_make_no_sense() -> None:
    with pytest.raises(DomainError, match="swap"):
        on(Reals()) >> clamp(3, 1)
    with pytest.raises(ParameterError, match="whole"):
        on(Integers()) >> clamp(0.5, 1)
    with pytest.raises(ParameterError, match="NaN"):
        clamp(math.nan, 1)
    with pytest.raises(DomainError, match="works on rows"):
        Space(Integers(), Absolute()) >> clamp(0, 1)
