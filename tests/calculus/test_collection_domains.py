"""Categories, vectors, balls, records and data sets: total, idempotent, and containing what they say."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.calculus.test_domains_number_domains import NASTY

from tacit.calculus import Anything, Ball, Categories, DomainError, Integers, Lattice, Reals, Records, Rows, Vectors, table

COLOURS = Categories(("red", "green", 1, None), other="green")


class Unequal:
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        raise ValueError("a secret")


@given(st.lists(st.sampled_from([*NASTY, "red", "green", 1, Unequal(), ([],)]), max_size=6))
def test_unlisted_values_count_as_the_default(values: list[Any]) -> None:
    found = COLOURS.enforce(values)
    assert len(found) == len(values)
    assert all(COLOURS.member(v) for v in found)
    assert COLOURS.enforce(found) == found
    assert all(f == "green" for f, v in zip(found, values, strict=True) if not COLOURS.member(v))


def test_categories_are_public_and_sound() -> None:
    assert Categories("ab").default == "a"
    assert Categories("ab").complete("z") == "a"
    assert Categories("abc").contains(Categories("ca"))
    assert not Categories("ab").contains(Categories("abc"))
    for values, message in ((("a", "a"), "twice"), ((), "empty"), ((math.nan,), "NaN")):
        with pytest.raises(DomainError, match=message):
            Categories(values)
    with pytest.raises(DomainError, match="other"):
        Categories("ab", other="z")


def test_vectors_of_the_wrong_length_are_defaults_as_rows_and_errors_alone() -> None:
    pairs = Vectors(Integers(0, 9), 2)
    assert Rows(pairs).enforce([[1, 2], [3], None, "ab", [50, -1]]).tolist() == [[1, 2], [0, 0], [0, 0], [0, 0], [9, 0]]
    assert Rows(pairs).enforce([]).shape == (0, 2)
    assert pairs.enforce([3, 40]).tolist() == [3, 9]
    with pytest.raises(DomainError, match="length 2"):
        pairs.enforce([1])
    assert pairs.member(pairs.default)
    assert Vectors(Integers(), 2).contains(pairs)
    assert not Vectors(Integers(), 3).contains(pairs)


@given(
    st.sampled_from([1, 2]),
    st.fractions(min_value=Fraction(1, 4), max_value=50),
    st.lists(st.integers(-(10**20), 10**20), min_size=3, max_size=3),
    st.sampled_from([Integers(), Integers(0, None), Integers(-3, 40), Lattice(Fraction(1, 2))]),
)
def test_clipped_vectors_are_in_the_ball_and_as_long_as_can_be(p: int, radius: Fraction, vector: list[int], element: Any) -> None:
    ball = Ball(element, 3, p, radius)
    found = ball.enforce(vector).tolist()
    granules = radius * (2 if isinstance(element, Lattice) else 1)
    norm = sum(map(abs, found)) if p == 1 else math.isqrt(sum(v * v for v in found))
    assert norm <= granules
    assert ball.member(found)
    assert ball.enforce(found).tolist() == found
    boxed = element.enforce(vector).tolist()
    if Vectors(element, 3).member(vector) and ball.member(vector):
        assert found == vector
    # The oracle: scale in exact arithmetic, squares compared, and cut towards zero.
    size = Fraction(sum(map(abs, boxed))) ** 2 if p == 1 else Fraction(sum(v * v for v in boxed))
    if size > granules**2:
        for cut, v in zip(found, boxed, strict=True):
            square = Fraction(v * v) * granules**2 / size
            assert cut * v >= 0
            assert cut * cut <= square < (abs(cut) + 1) ** 2


def test_a_ball_says_what_it_needs() -> None:
    with pytest.raises(DomainError, match="round_to"):
        Ball(Reals(), 2)
    with pytest.raises(DomainError, match="include 0"):
        Ball(Integers(1, 5), 2)
    with pytest.raises(DomainError, match="p must be 1 or 2"):
        Ball(Integers(), 2, p=3)
    assert Vectors(Integers(), 2).contains(Ball(Integers(), 2, 2, 1))
    assert not Ball(Integers(), 2, 2, 1).contains(Vectors(Integers(), 2))
    assert Ball(Integers(), 2, 2, 3).contains(Ball(Integers(0, 1), 2, 2, 1))
    assert not Ball(Integers(), 2, 2, 1).contains(Ball(Integers(), 2, 1, 1))


@given(st.lists(st.tuples(st.sampled_from(NASTY), st.sampled_from(NASTY)), max_size=4))
def test_tables_are_enforced_column_by_column(rows: list[tuple[Any, Any]]) -> None:
    people = table(age=Integers(0, 120), city=Categories(("Bonn", "Graz")))
    found = people.enforce({"age": [a for a, _ in rows], "city": [c for _, c in rows], "unused": "x"})
    assert people.member(found)
    assert set(found) == {"age", "city"}


@given(st.sampled_from([*NASTY, {"age": 5}, {"age": "x", "v": [1, 2]}, {"v": [1]}]))
def test_a_record_is_made_of_anything(value: Any) -> None:
    record = Records(age=Integers(0, 120), v=Vectors(Integers(0, 3), 2))
    assert record.member(record.enforce(value))


def test_tables_refuse_another_schema_without_showing_data() -> None:
    people = table(age=Integers(0, 120), city=Categories(("Bonn",)))
    for given_, message in (
        ([1, 2], "mapping"),
        ({"age": [918273]}, "no column city"),
        ({"age": [918273, 2], "city": ["Bonn"]}, "equally long"),
    ):
        with pytest.raises(DomainError, match=message) as refused:
            people.enforce(given_)
        assert "918273" not in str(refused.value)
    with pytest.raises(DomainError, match="no field"):
        people.element["height"]  # type: ignore[index]
    with pytest.raises(DomainError, match="at least one"):
        Records()


def test_a_public_size_is_checked() -> None:
    assert Rows(Integers(0, 9), size=2).enforce([1, 20]).tolist() == [1, 9]
    with pytest.raises(DomainError, match="public number of rows"):
        Rows(Integers(0, 9), size=2).enforce([1])
    with pytest.raises(DomainError, match="public number of rows"):
        Rows(Records(a=Integers()), size=2).enforce({"a": [1]})
    assert Rows(Integers(), size=3).member(Rows(Integers(), size=3).default)
    assert Rows(Integers()).contains(Rows(Integers(0, 1), size=4))
    assert not Rows(Integers(), size=4).contains(Rows(Integers()))
    assert not Rows(Integers(), size=4).contains(Rows(Integers(), size=5))


def test_containment_of_records_is_field_by_field() -> None:
    wide, narrow = Records(a=Integers(), b=Anything()), Records(b=Reals(), a=Integers(0, 1))
    assert wide.contains(narrow)
    assert not narrow.contains(wide)
    assert not wide.contains(Records(a=Integers()))


def test_arrays_come_out_for_arrays() -> None:
    found = Rows(Vectors(Anything(), 2)).enforce([["a", 1], [None, 2]])
    assert isinstance(found, np.ndarray)
    assert found.tolist() == [["a", 1], [None, 2]]
