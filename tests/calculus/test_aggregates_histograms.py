"""Histograms: every public cell and no other, and the largest change by brute force over all small data sets."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import ParameterError
from tacit.calculus import (
    L1,
    L2,
    Absolute,
    AddRemove,
    Categories,
    DomainError,
    Hamming,
    Identifiers,
    Integers,
    Lattice,
    LInfinity,
    MetricError,
    Reals,
    ReplaceOne,
    Rows,
    Space,
    histogram,
    marginal,
    quantile_scores,
    table,
)
from tacit.exact import root

LETTERS = Categories("abc")
SMALL = [list(rows) for n in range(5) for rows in combinations_with_replacement("abc", n)]
NORMS = (L1(), L2(), LInfinity(), LInfinity(monotone=True))


@pytest.mark.parametrize("norm", NORMS, ids=str)
@pytest.mark.parametrize("metric", [AddRemove(), ReplaceOne()], ids=str)
def test_the_map_is_the_largest_change_at_every_distance(norm: Any, metric: Any) -> None:
    plan = Space(Rows(LETTERS), metric) >> histogram(norm)
    cells = [plan(rows) for rows in SMALL]
    worst: dict[Any, Any] = {}
    for i, j in product(range(len(SMALL)), repeat=2):
        apart = metric.distance(SMALL[i], SMALL[j])
        worst[apart] = max(worst.get(apart, 0), norm.distance(cells[i], cells[j]))
    for distance in (1, 2, 3, 4):
        found, stated = worst[distance], plan.map(distance)
        assert found <= stated * (1 + Fraction(1, 2**60)) and stated <= found * (1 + Fraction(1, 2**60))


def test_the_textbook_values() -> None:
    for norm, one, exchanged in ((L1(), 1, 2), (L2(), 1, root(Fraction(2))), (LInfinity(), 1, 1), (LInfinity(monotone=True), 1, 2)):
        assert (Space(Rows(LETTERS), AddRemove()) >> histogram(norm)).map(1) == one
        for metric in (ReplaceOne(), Hamming()):
            assert (Space(Rows(LETTERS), metric) >> histogram(norm)).map(1) == exchanged


def test_cells_are_public() -> None:
    """Removing the only row of a class changes a number and nothing else."""
    plan = Space(Rows(LETTERS), AddRemove()) >> histogram()
    assert plan(["a", "c"]).tolist() == [1, 0, 1]
    assert plan(["a"]).tolist() == [1, 0, 0]
    assert plan([]).tolist() == [0, 0, 0]
    assert plan(["unheard of", None]).tolist() == [2, 0, 0]


def test_marginals() -> None:
    people = Space(table(sex=Categories("fm"), age=Categories((0, 1, 2)), id=Integers()), AddRemove())
    plan = people >> marginal("age", "sex")
    data = {"sex": ["f", "m", "m"], "age": [2, 0, 0], "id": [1, 2, 3]}
    assert plan(data).tolist() == [0, 2, 0, 0, 1, 0]
    assert plan.map(1) == 1
    assert (Space(people.domain, ReplaceOne()) >> marginal("age", "sex", norm=L2())).map(1) == root(Fraction(2))
    assert (people >> marginal("sex"))(data).tolist() == [1, 2]
    for columns in ((), ("sex", "sex")):
        with pytest.raises(DomainError, match="each once"):
            marginal(*columns)
    with pytest.raises(DomainError, match="public categories"):
        people >> marginal("id")


def test_refusals_name_the_fix() -> None:
    with pytest.raises(DomainError, match="bins"):
        Space(Rows(Integers(0, 9)), AddRemove()) >> histogram()
    with pytest.raises(MetricError, match="norm must be"):
        Space(Rows(LETTERS), AddRemove()) >> histogram(Absolute())
    with pytest.raises(MetricError, match="cap_rows"):
        Space(table(id=Integers(), c=LETTERS), Identifiers("id")) >> marginal("c")


levels = st.sampled_from([Fraction(1, 2), Fraction(1, 3), Fraction(9, 10), Fraction(0), Fraction(1)])


@given(st.lists(st.integers(0, 6), max_size=8), levels)
def test_scores_against_the_definition(values: list[int], level: Fraction) -> None:
    candidates = [-1, 0, Fraction(5, 2), 3, 6, 9]
    expected = [-abs((1 - level) * sum(v < c for v in values) - level * sum(v > c for v in values)) for c in candidates]
    for element, held in ((Integers(0, 6), values), (Reals(), [*map(float, values), float("nan")])):
        plan = Space(Rows(element), AddRemove()) >> quantile_scores(candidates, level)
        assert [score * plan.output.unit for score in plan(held).tolist()] == expected
        assert plan.output.domain.member(plan(held))
    halves = Space(Rows(Lattice(Fraction(1, 2))), AddRemove()) >> quantile_scores([Fraction(c) / 2 for c in candidates], level)
    assert [score * halves.output.unit for score in halves(values).tolist()] == expected


@pytest.mark.parametrize("level", [Fraction(1, 2), Fraction(1, 4), Fraction(1)], ids=str)
@pytest.mark.parametrize("metric", [AddRemove(), ReplaceOne()], ids=str)
def test_the_sensitivity_of_scores_by_brute_force(level: Fraction, metric: Any) -> None:
    plan = Space(Rows(Integers(0, 2)), metric) >> quantile_scores([0, 1, 2], level)
    small = [list(rows) for n in range(4) for rows in combinations_with_replacement(range(3), n)]
    found = max(LInfinity().distance(plan(a), plan(b)) for a, b in product(small, repeat=2) if metric.distance(a, b) == 1)
    assert found <= plan.map(1)
    assert plan.sensitivity() == (max(level, 1 - level) if metric == AddRemove() else 1)
    if level != 1:
        assert found == plan.map(1)


def test_a_level_is_read_as_the_decimal_it_is_written_as() -> None:
    assert quantile_scores([1], 0.1) == quantile_scores([1], Fraction(1, 10))
    with pytest.raises(ParameterError, match="level"):
        quantile_scores([1], 1.5)
    for candidates in ([], [float("inf")]):
        with pytest.raises(DomainError, match="candidates"):
            quantile_scores(candidates)
    with pytest.raises(DomainError, match="cast"):
        Space(Rows(LETTERS), AddRemove()) >> quantile_scores([1])
