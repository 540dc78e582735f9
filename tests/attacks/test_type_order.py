"""Attacks through ties and through what is counted as equal: one person's leaving moves nobody else's choice of rows, and no join
multiplies rows more often than was counted.

Rows that differ only in a column which the order does not look at are chosen by where they lie, and that is everybody's doing. A public
table whose rows are told apart by more than the join compares is counted too low.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from sqlglot import exp
from tests.tables.engines import every_type
from tests.tables.engines.every_type import COLUMNS, Typed
from tests.tables.engines.places import Place

from tacit.accounting import Guarantee
from tacit.tables import Desk, Source, TableError, Unit, from_clause, joins
from tacit.tables.figures import integers
from tacit.tables.plan import multiplicity_of
from tacit.tables.relation import Field, Relation

SPEND = Guarantee(epsilon=1)
PEOPLE = 60
#: What shows which of her rows was chosen; everything that a question may do with the column `c` of any type.
CHOICES = (
    "SELECT COUNT(*) AS n FROM (SELECT id, c, ROW_NUMBER() OVER (PARTITION BY id ORDER BY k) AS p FROM order_t) w WHERE p = 1 AND {shown}",
    "SELECT COUNT(*) AS n FROM order_t a JOIN order_t b ON a.id = b.id AND a.k = b.k WHERE {joined}",
)
SHOWN = {
    "boolean": "c", "integer": "c = {0}", "decimal": "c = {0}", "float": "c > 1.7", "text": "c = {0}", "date": "c = {0}",
    "timestamp": "c = {0}",
}  # fmt: skip


def rows(column: Typed, seed: int, without: int | None = None) -> list[list[str]]:
    """Every person has each value of the column in a row of its own, all alike but for it; in an order that the seed says."""
    values = list(dict.fromkeys(column.plain))[:2]
    made = [[str(person), f"CAST({value} AS {column.native})", "CAST(1 AS BIGINT)"] for person in range(PEOPLE) for value in values]
    kept = [row for row in made if row[0] != str(without)]
    random.Random(seed).shuffle(kept)
    return kept


def desk_on(place: Place, unit: Unit, *tables: str, public: frozenset[str] = frozenset()) -> Desk:
    return Desk.of(Source(place.steady, tables, public), unit, loss=False)


def sums(place: Place, desk: Desk, text: str) -> list[Any]:
    plan = desk.plan(desk.question(text), SPEND)
    return [each.tolist() for each in integers(place.steady.run(plan.statement(place.steady, 7)), plan).sums]


def moved(place: Place, column: Typed, text: str) -> int:
    """How far the count moves when person 5 leaves, and the others' rows lie elsewhere."""
    k = Typed("k", "BIGINT", "integer", ("1",), ("1",))
    found = []
    for seed, without in ((1, None), (2, 5), (3, 5)):
        every_type.put(place, "order_t", [_called(column), k], rows(column, seed, without))
        found.append(sums(place, desk_on(place, Unit("id", max_rows=1), "order_t"), text)[0][0])
    return max(abs(found[0] - found[1]), abs(found[0] - found[2]), 10 * abs(found[1] - found[2]))


ORDERED = {
    "duckdb": [c for c in COLUMNS["duckdb"] if c.kind != "other" and c.name not in ("tz", "uu", "ns") and len(set(c.plain)) > 1][::4],
    "postgres": [
        c for c in COLUMNS["postgres"] if c.kind != "other" and c.name not in ("tz", "uu", "na", "dom") and len(set(c.plain)) > 1
    ][::4],
    "spark": [c for c in COLUMNS["spark"] if c.name in ("vc", "d38")],
}  # fmt: skip


def test_one_person_moves_no_other_choice(place: Place) -> None:
    for column in ORDERED[place.name]:
        shown = SHOWN[column.kind].format(column.plain[0])
        for text in CHOICES[:1] if place.slow else CHOICES:
            asked = text.format(shown=shown, joined=shown.replace("c", "a.c", 1))
            assert moved(place, column, asked) <= 1, (column, asked)


@pytest.mark.parametrize("place", ["duckdb", "postgres"], indirect=True)
def test_an_order_that_leaves_out_a_column_is_caught(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: only whether the value is there takes part, as it was with times, JSON and structures."""

    def forgetful(relation: Relation) -> list[exp.Expression]:
        return [exp.Is(this=exp.column(f.name, quoted=True), expression=exp.null()) for f in relation.fields or ()]

    for module in (from_clause, joins):
        monkeypatch.setattr(module, "told_apart", forgetful)
    column = next(c for c in COLUMNS[place.name] if c.name == "vc")
    assert moved(place, column, CHOICES[0].format(shown="c = 'a'")) > 1


# ---- joins -----------------------------------------------------------------------------------------------------------------------------

ASKED = "SELECT COUNT(*) AS n FROM join_visits v JOIN join_codes k ON v.c = k.c"


def matched(place: Place, private: Typed, public: Typed, values: tuple[str, ...], codes: tuple[str, ...]) -> tuple[int, int] | None:
    """The most rows that one row of the data becomes, and what the plan says; None where the join is refused."""
    every_type.put(place, "join_visits", [_called(private)], [[str(i), f"CAST({v} AS {private.native})"] for i, v in enumerate(values)])
    every_type.put(place, "join_codes", [_called(public)], [[str(i), f"CAST({v} AS {public.native})"] for i, v in enumerate(codes)])
    desk = desk_on(place, Unit.row(), "join_visits", "join_codes", public=frozenset({"join_codes"}))
    try:
        question = desk.question(ASKED)
    except TableError:
        return None
    assert isinstance(question.relation, Relation)
    each = exp.Select(expressions=[exp.alias_(exp.Count(this=exp.Star()), "n")]).from_(question.relation.expression())
    each.set("group", exp.Group(expressions=[exp.column("id", quoted=True)]))
    most = exp.Select(expressions=[exp.func("MAX", exp.column("n"))]).from_(exp.Subquery(this=each, alias=exp.to_identifier("e")))
    return int(place.steady.run(most).column(0).to_pylist()[0] or 0), multiplicity_of(question)


def _called(column: Typed) -> Typed:
    return Typed("c", column.native, column.kind, column.plain, column.extreme)


def _of(place: Place, name: str) -> Typed:
    return next(column for column in COLUMNS[place.name] if column.name == name)


def nanoseconds(count: int) -> tuple[str, ...]:
    return tuple(f"'2024-01-01 00:00:00.000000{i:03}'" for i in range(count))


#: The private column, the public one, and values of it that are different by themselves and one in the join.
ONE_IN_THE_JOIN = {
    "duckdb": [
        ("ts", "ns", ("'2024-01-01 00:00:00'",), nanoseconds(500)),
        ("ns", "ns", ("'2024-01-01 00:00:00'",), nanoseconds(500)),
        ("f8", "s64", ("9007199254740992",), tuple(str(2**53 + i) for i in range(2))),
        ("f4", "s32", ("16777216",), ("16777216", "16777217")),
        ("f8", "f8", ("0.0",), ("'0.0'", "'-0.0'", "0.0")),
        ("f8", "f8", ("'NaN'",), ("'NaN'", "'NaN'", "1")),
        ("d4", "d38", ("1.5",), ("1.5", "1.50", "1.4")),
        ("vc", "en", ("'a'",), ("'a'", "'a'")),
        ("vc", "uu", ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",), ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",) * 3),
        ("s64", "s128", ("7",), ("7", "7")),
        ("f8", "s128", ("1e30",), tuple(str(10**30 + i) for i in range(5))),
    ],
    "postgres": [
        ("vc", "bp", ("'a'",), ("'a'", "'a  '", "'a '")),
        ("bp", "bp", ("'a'",), ("'a'", "'a  '", "'a '")),
        ("vc", "ch", ("'a'",), ("'a'", "'a  '")),
        ("nu", "nu", ("1.0",), ("1.0", "1.00", "1")),
        ("f8", "nu", ("0.1",), ("0.1", "0.10", "0.10000000000000000001")),
        ("f8", "f8", ("0.0",), ("'0.0'", "'-0.0'")),
        ("f8", "s64", ("9007199254740992",), tuple(str(2**53 + i) for i in range(2))),
        ("ts", "da", ("'2024-01-31'",), ("'2024-01-31'", "'2024-01-31'")),
    ],
}  # fmt: skip


@pytest.mark.parametrize("place", ["duckdb", "postgres"], indirect=True)
def test_no_join_multiplies_rows_beyond_the_count(place: Place) -> None:
    compared = 0
    for private, public, values, codes in ONE_IN_THE_JOIN[place.name]:
        found = matched(place, _of(place, private), _of(place, public), values, codes)
        if found is not None:
            compared += 1
            assert found[0] <= found[1], (private, public)
    assert compared >= 6


@pytest.mark.parametrize("place", ["duckdb"], indirect=True)
def test_rows_counted_by_the_column_are_too_few(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: whole numbers are counted, and compared with floats, of which many are one."""

    def by_column(own: Field, other: Field, sql: exp.Expression) -> exp.Expression:
        return exp.column(own.name, quoted=True)

    monkeypatch.setattr(joins, "_one_where_equal", by_column)
    found = matched(place, _of(place, "f8"), _of(place, "s64"), (str(2**60),), tuple(f"'{2**60 + i}'" for i in range(100)))
    assert found == (100, 1)


@pytest.mark.parametrize("place", ["duckdb"], indirect=True)
def test_neighbours_of_128_bits_do_not_meet(place: Place) -> None:
    """As floats, the largest whole numbers are one; compared as they are, they are not."""
    huge = _of(place, "s128")
    for name, values in (("join_visits", (2**127 - 1, 2**127 - 2, 5)), ("join_codes", (2**127 - 1,))):
        every_type.put(place, name, [_called(huge)], [[str(i), f"CAST('{v}' AS HUGEINT)"] for i, v in enumerate(values)])
    desk = desk_on(place, Unit("id", max_rows=1), "join_visits", "join_codes", public=frozenset({"join_codes"}))
    assert sums(place, desk, ASKED) == [[1]]
