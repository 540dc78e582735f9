"""Data sets as multisets, checked against all small ones."""

from __future__ import annotations

from collections import Counter
from itertools import combinations_with_replacement, product
from typing import Any

import pytest

from tacit.calculus import (
    L1,
    AddRemove,
    CalculusError,
    Categories,
    DomainError,
    Hamming,
    Identifiers,
    Integers,
    MetricError,
    Reals,
    ReplaceOne,
    Rows,
    Space,
    Vectors,
    append,
    clamp,
    count,
    distinct,
    filter_rows,
    histogram,
    join_public,
    resize,
    round_to,
    table,
    total,
    union,
)

NUMBERS = Space(Rows(Integers(0, 9)), AddRemove())
PEOPLE = Space(table(id=Integers(), city=Categories("ab")), Identifiers("id"))
SMALL = [list(rows) for n in range(5) for rows in combinations_with_replacement([1, 2, 3], n)]


def test_distinct() -> None:
    assert sorted((NUMBERS >> distinct())([3, 1, 3, 3]).tolist()) == [1, 3]
    assert (NUMBERS >> distinct()).map(2) == 2
    assert (Space(Rows(Integers()), ReplaceOne()) >> distinct()).map(1) == 2
    both = Space(table(a=Reals(), b=Categories("xy")), AddRemove()) >> distinct()
    assert both({"a": [1.0, 1.0, None, None], "b": ["x", "y", "x", "x"]})["b"] == ["x", "y", "x"]


@pytest.mark.parametrize("size", [1, 2, 3, 6])
@pytest.mark.parametrize("salt", [b"", b"another"])
def test_resizing_is_one_stable_on_all_small_multisets(size: int, salt: bytes) -> None:
    """Add/remove to replace-one, d to d, and replace-one to replace-one, d to d: every pair of multisets."""
    plan = NUMBERS >> resize(size, 2, salt=salt)
    results = [plan(rows) for rows in SMALL]
    for (one, made), (two, other) in product(zip(SMALL, results, strict=True), repeat=2):
        apart = ReplaceOne().distance(made, other)
        assert apart <= AddRemove().distance(one, two)
        assert apart <= ReplaceOne().distance(one, two)
    for rows, made in zip(SMALL, results, strict=True):
        assert len(made) == size
        kept = Counter(made.tolist()) - Counter({2: max(0, size - len(rows))})
        assert not kept - Counter(rows)


def test_keeping_the_first_rows_by_position_is_not_stable() -> None:
    """The mutant: a data set has no order, so what depends on it is not a function of the data."""
    assert ReplaceOne().distance([1, 2, 3][:2], [3, 2, 1][:2]) > AddRemove().distance([1, 2, 3], [3, 2, 1])


def test_resize_says_what_it_needs() -> None:
    assert (NUMBERS >> resize(2)).output == Space(Rows(Integers(0, 9), size=2), ReplaceOne())
    with pytest.raises(DomainError, match="constant"):
        NUMBERS >> resize(3, 50)
    with pytest.raises(MetricError, match="cap_rows"):
        PEOPLE >> resize(3)
    with pytest.raises(DomainError, match="64 bytes"):
        resize(3, salt=b"x" * 65)
    filled = Space(table(a=Integers(0, 9), b=Categories("xy")), AddRemove()) >> resize(2, {"a": 7, "b": "y"})
    empty = filled({"a": [], "b": []})
    assert empty["a"].tolist() == [7, 7] and empty["b"] == ["y", "y"]
    vectors = Space(Rows(Vectors(Integers(0, 9), 2)), AddRemove()) >> resize(2, [1, 2])
    assert vectors([]).tolist() == [[1, 2], [1, 2]]


def test_union_uses_every_row_in_each_branch() -> None:
    twice = NUMBERS >> union(clamp(0, 9), clamp(0, 9))
    assert sorted(twice([1, 5]).tolist()) == [1, 1, 5, 5]
    assert twice.map(1) == 2
    assert (NUMBERS >> union(clamp(0, 5), filter_rows(lambda x: x > 3), clamp(0, 2)) >> count()).map(2) == 6
    assert (NUMBERS >> union(clamp(0, 5), clamp(0, 2))).output.domain == Rows(Integers(0, 5))
    fixed = Space(Rows(Integers(0, 9), size=3), ReplaceOne()) >> union(clamp(0, 9), clamp(0, 1))
    assert fixed.output.domain == Rows(Integers(0, 9), size=6)
    tables = Space(table(a=Integers()), AddRemove()) >> union(clamp(0, 1, column="a"), clamp(0, 5, column="a"))
    assert tables({"a": [9]})["a"].tolist() == [1, 5]


def test_unions_that_do_not_fit_are_refused() -> None:
    reals = Space(Rows(Reals(0, 9)), AddRemove())
    with pytest.raises(DomainError, match="one domain"):
        reals >> union(clamp(0, 1), round_to(1))
    with pytest.raises(DomainError, match="one domain"):
        Space(Rows(Integers(0, 9)), ReplaceOne()) >> union(clamp(0, 9), filter_rows(bool))
    with pytest.raises(DomainError, match="puts rows together"):
        NUMBERS >> union(count(), count())
    with pytest.raises(MetricError, match="unordered"):
        Space(Rows(Integers(0, 9)), Hamming()) >> union(clamp(0, 9))
    with pytest.raises(CalculusError, match="transformations"):
        NUMBERS >> union()


def test_an_unproved_branch_leaves_a_union_unproved() -> None:
    from tacit.calculus import Transformation

    claim = Transformation(NUMBERS, NUMBERS, lambda x: x, lambda d: d, "mine")
    assert (NUMBERS >> union(clamp(0, 9), claim)).unproved == ("mine",)


def test_public_rows_cost_nothing() -> None:
    plan = NUMBERS >> append([1, 99])
    assert plan([5]).tolist() == [5, 1, 9]
    assert plan.map(3) == 3
    assert (Space(Rows(Integers(), size=2), ReplaceOne()) >> append([1])).output.domain == Rows(Integers(), size=3)
    assert (Space(Rows(Categories("ab")), AddRemove()) >> append(["b"]) >> histogram(L1()))(["a"]).tolist() == [1, 1]
    with pytest.raises(MetricError, match="cap_rows"):
        PEOPLE >> append({"id": [1], "city": ["a"]})


CITIES = {"city": ["a", "a", "b", "z"], "rank": [1, 2, 3, 4]}


def test_joins_with_a_public_table() -> None:
    people = Space(table(id=Integers(), city=Categories("abc")), AddRemove())
    plan = people >> join_public("city", CITIES, rank=Integers(0, 3))
    found = plan({"id": [1, 2, 3], "city": ["a", "b", "c"]})
    assert list(zip(found["id"].tolist(), found["rank"].tolist(), strict=True)) == [(1, 1), (1, 2), (2, 3)]
    assert plan.map(1) == 2
    assert (Space(people.domain, ReplaceOne()) >> join_public("city", CITIES, rank=Integers())).map(1) == 4
    assert (PEOPLE >> join_public("city", CITIES, rank=Integers())).map(1) == 1
    assert (people >> join_public("city", {"city": [], "rank": []}, rank=Integers())).map(5) == 0
    numbers = Space(table(k=Reals()), AddRemove()) >> join_public("k", {"k": [1, 2], "v": [5, 6]}, v=Integers())
    assert numbers({"k": [2.0, 3.0]})["v"].tolist() == [6]


def test_joins_that_do_not_fit_are_refused() -> None:
    people = Space(table(city=Categories("abc"), rank=Integers()), AddRemove())
    with pytest.raises(DomainError, match="already"):
        people >> join_public("city", CITIES, rank=Integers())
    for columns, message in (({"country": Integers()}, "no column"), ({}, "at least one")):
        with pytest.raises(DomainError, match=message):
            join_public("city", CITIES, **columns)
    with pytest.raises(DomainError, match="equally long"):
        join_public("city", {"city": ["a"], "rank": []}, rank=Integers())


def test_what_a_sum_after_a_union_costs() -> None:
    plan: Any = NUMBERS >> union(clamp(0, 5), clamp(0, 2)) >> total()
    assert plan.map(1) == 10
    assert plan([9]) == 7
