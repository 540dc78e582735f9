"""Columns: what is kept, what a vector of them is, and that nobody's name is lost while people are counted."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tacit.calculus import (
    AddRemove,
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
    column,
    select,
    table,
    vector,
)

DOMAIN = table(id=Integers(), age=Integers(0, 120), debt=Integers(-5, None), city=Categories("ab"))
DATA = {"id": [1, 2], "age": [30, 500], "debt": [-9, 10**30], "city": ["b", "?"]}
ROWS = Space(DOMAIN, AddRemove())


def test_column_and_select() -> None:
    assert (ROWS >> column("city"))(DATA) == ["b", "a"]
    plan = ROWS >> select("city", "age")
    assert list(plan(DATA)) == ["city", "age"]
    assert plan.output.domain == Rows(Records(city=Categories("ab"), age=Integers(0, 120)))
    assert plan.map(3) == 3
    with pytest.raises(DomainError, match="no field"):
        ROWS >> column("height")


def test_the_size_stays_public() -> None:
    space = Space(Rows(DOMAIN.element, size=2), ReplaceOne())
    for step in (column("age"), select("age"), vector("age")):
        assert (space >> step).output.domain.size == 2  # type: ignore[union-attr]


def test_vectors_hold_all_their_columns() -> None:
    plan = ROWS >> vector("age", "debt")
    assert plan.output.domain == Rows(Vectors(Integers(-5, None), 2))
    assert plan(DATA).tolist() == [[30, -5], [120, 10**30]]
    assert plan({"id": [], "age": [], "debt": [], "city": []}).shape == (0, 2)
    cents = Space(table(a=Lattice(Fraction(1, 2), 0, 1), b=Lattice(Fraction(1, 2), -1, 0)), AddRemove()) >> vector("a", "b")
    assert cents.output.domain == Rows(Vectors(Lattice(Fraction(1, 2), -1, 1), 2))
    reals = Space(table(a=Reals(0, 1, missing=False), b=Reals(0, 2)), AddRemove()) >> vector("a", "b")
    assert reals.output.domain == Rows(Vectors(Reals(0, 2, missing=True), 2))
    assert np.isnan(reals({"a": [1.0], "b": [None]})[0, 1])
    for names in (("age", "city"), ("city",), ()):
        with pytest.raises(DomainError):
            ROWS >> vector(*names)


def test_people_must_stay_named() -> None:
    people = Space(DOMAIN, Identifiers("id"))
    assert (people >> select("id", "age")).map(1) == 1
    for step in (column("age"), select("age"), vector("age")):
        with pytest.raises(MetricError, match="cap_rows"):
            people >> step
