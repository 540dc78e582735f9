"""Attacks through comparisons: two values that an engine takes for one make two people one, or put one row into many groups.

Whole numbers beyond 2**53 and long decimals are compared with others as floats, of which many of them are one. What that does to the
caps and to what one row can become is measured on neighbours, on every engine; each defence is taken away too, and the check must notice.
"""

from __future__ import annotations

import datetime
import os
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from sqlglot import exp
from tests.tables.engines.places import Place
from tests.tables.people import exact_sums, loss_between

from tacit.accounting import Guarantee
from tacit.ledger import Budget, Ledger
from tacit.tables import Refused, Session, TableError, Unit, forms, joins
from tacit.tables.engines.duckdb import DuckDB
from tacit.tables.engines.engine import collation_probe
from tacit.tables.keys import Listed, literal
from tacit.tables.plan import Plan, Settings, make
from tacit.tables.relation import Catalog, Table
from tacit.tables.sql import parse
from tacit.tables.statement import salt_marked

KIND = pa.decimal128(18, 3)
#: Of one float: around 1e14 floats are 2**-6 apart, and these only a thousandth.
ALIKE = [Decimal(10) ** 14 + Decimal(n) / 1000 for n in range(7)]


def load(place: Place, name: str, **columns: pa.Array) -> None:
    place.load(name, pa.table(columns))


def planned(place: Place, text: str, tables: dict[str, Table], unit: Unit) -> Plan:
    def count(statement: Any) -> int:
        return int(place.steady.run(statement).column(0).to_pylist()[0] or 0)

    catalog = Catalog(tables, unit, count, salt_marked(place.steady))
    asked = parse(text, place.steady.dialect, catalog)
    return make(asked, unit, place.steady, Settings(loss=False), Guarantee(epsilon=Fraction(1)))


def test_people_who_are_one_float_do_not_meet(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven people in one table, one of them in the other. She leaves, and the others' rows must stay as they were."""
    tables = {"visits": Table({"id": "DECIMAL(18,3)"}), "stays": Table({"id": "DECIMAL(18,3)"})}
    text = "SELECT COUNT(*) AS n FROM visits v JOIN stays s ON v.id = s.id"

    def moved() -> float:
        load(place, "visits", id=pa.array(ALIKE, KIND))
        load(place, "stays", id=pa.array(ALIKE[:1], KIND))
        plan = planned(place, text, tables, Unit("id", max_rows=1))
        start = exact_sums(plan, place.steady)
        load(place, "visits", id=pa.array(ALIKE[1:], KIND))
        load(place, "stays", id=pa.array([], KIND))
        return loss_between(plan, start, exact_sums(plan, place.steady))

    assert 0 < moved() <= 1
    # The mutant: people are compared as a question compares wide numbers that it cannot keep exact, as floats.
    monkeypatch.setattr(joins, "plain_people", lambda kind: "text")
    monkeypatch.setattr(forms, "exactly", lambda values, plain: None)
    assert moved() > 1


def test_a_row_becomes_no_more_rows_than_its_price_says(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A public table in which every code occurs once, and seven times as a float."""
    tables = {"visits": Table({"id": "BIGINT", "k": "DECIMAL(18,3)"}), "codes": Table({"k": "DECIMAL(18,3)"}, public=True)}
    load(place, "codes", k=pa.array(ALIKE, KIND))

    def moved() -> float:
        load(place, "visits", id=pa.array([], pa.int64()), k=pa.array([], KIND))
        plan = planned(place, "SELECT COUNT(*) AS n FROM visits v JOIN codes c ON v.k = c.k", tables, Unit.row())
        start = exact_sums(plan, place.steady)
        load(place, "visits", id=pa.array([1], pa.int64()), k=pa.array(ALIKE[:1], KIND))
        return loss_between(plan, start, exact_sums(plan, place.steady))

    assert moved() <= 1
    # The mutant: counted as they are, compared as floats.
    monkeypatch.setattr(joins, "_one_where_equal", lambda own, other, sql: exp.column(own.name, quoted=True))
    monkeypatch.setattr(forms, "exactly", lambda values, plain: None)
    assert moved() > 1


def test_what_several_public_tables_make_of_a_row_is_not_guessed() -> None:
    """Each of two public tables has every key once; together, joined on something else, they have one key fifty times."""
    columns = {"a": "BIGINT", "k": "BIGINT"}
    tables = {"visits": Table({"id": "BIGINT", "k": "BIGINT"}), "p": Table(columns, public=True), "q": Table(columns, public=True)}
    text = "SELECT COUNT(*) AS n FROM p JOIN q ON p.a = q.a JOIN visits v ON q.k = v.k"
    with pytest.raises(Refused, match="start from the private table"):
        parse(text, "duckdb", Catalog(tables, Unit.row(), lambda statement: 1))
    assert parse(text, "duckdb", Catalog(tables, Unit("id", max_rows=2))).aggregates[0].name == "n"  # where caps come after the join


PEOPLE = [("BIGINT", "DOUBLE"), ("BIGINT", "VARCHAR"), ("UBIGINT", "BIGINT"), ("DECIMAL(18,3)", "DECIMAL(20,3)"), ("UUID", "VARCHAR")]


@pytest.mark.parametrize(("first", "second"), PEOPLE, ids=["-".join(pair) for pair in PEOPLE])
def test_people_of_different_types_do_not_meet(first: str, second: str) -> None:
    tables = {"a": Table({"id": first, "x": "BIGINT"}), "b": Table({"id": second, "x": "BIGINT"})}
    catalog = Catalog(tables, Unit("id", max_rows=2))
    for rows in (
        "a JOIN b ON a.id = b.id",
        "(SELECT x FROM a UNION ALL SELECT x FROM b) AS t",
        "(SELECT id, x FROM a UNION ALL SELECT id, x FROM b) AS t",
    ):
        with pytest.raises(TableError):
            parse(f"SELECT COUNT(*) AS n FROM {rows}", "duckdb", catalog)
    same = Catalog({"a": tables["a"], "b": Table({"id": first, "x": "BIGINT"})}, Unit("id", max_rows=2))
    assert parse("SELECT COUNT(*) AS n FROM a JOIN b ON a.id = b.id", "duckdb", same).aggregates


def test_a_row_is_in_one_group(place: Place) -> None:
    """Keys that differ here and are one value to an engine: noon and noon in UTC, and decimals of so many digits that they are floats."""
    noon = datetime.datetime(2026, 1, 1, 12)
    long = [Decimal("12345678901234567.01"), Decimal("12345678901234567.02"), Decimal("1E-7")]
    for kind, keys in (
        ("TIMESTAMP", [noon, noon.replace(tzinfo=datetime.UTC)]),
        ("DECIMAL(20, 2)", long),
        ("DECIMAL", [Decimal(10) ** 38, Decimal(10) ** 38 + 1]),
        ("BIGINT", [2**60, 2**60 + 1, 10**40]),
    ):
        with pytest.raises(TableError, match="must be"):
            Listed.of(["k"], [[key] for key in keys], [kind])
    kept = ["123456789012345.123", "123456789012345.124", "0.001", "-5", "1E+3"]
    listed = Listed.of(["k"], [[Decimal(text)] for text in kept], ["DECIMAL(18,3)"])
    assert [literal(row[0], "decimal").sql() for row in listed.values] == [
        "123456789012345.123", "123456789012345.124", "0.001", "-5", "1000",
    ]  # fmt: skip
    load(place, "visits", id=pa.array([1, 2], pa.int64()), k=pa.array([Decimal(kept[0]), Decimal("1000")], KIND))
    session = place.session(Unit.row(), steady=True)
    plan = session.plan("SELECT k, COUNT(*) AS n FROM visits GROUP BY k", epsilon=1, keys={"k": [row[0] for row in listed.values]})
    assert exact_sums(plan, place.steady).sums[0].tolist() == [1, 0, 0, 0, 1]


def test_long_decimals_are_written_with_all_their_digits() -> None:
    """Python's own abs() rounds a decimal to 28 digits, which would make two keys one."""
    keys = [Decimal("-1234567890123456789.1234567890123456781"), Decimal("-1234567890123456789.1234567890123456782")]
    assert abs(keys[0]) == abs(keys[1])
    assert len({literal(key, "decimal").sql() for key in keys}) == 2


def test_nobody_is_not_a_person(place: Place) -> None:
    """NaN is how a missing number is written where there is no NULL: were all of them one person, her cap would be everybody's."""
    nan = float("nan")
    load(place, "visits", id=pa.array([nan, nan, nan, 1.0, -0.0, 0.0], pa.float64()), x=pa.array([1.0] * 6, pa.float64()))
    session = place.session(Unit("id", max_rows=1), steady=True, loss=False)
    plan = session.plan("SELECT COUNT(*) AS n, COUNT(DISTINCT id) AS p FROM visits", epsilon=1)
    assert [int(sums[0]) for sums in exact_sums(plan, place.steady).sums] == [2, 2]  # zero is one person, whatever its sign


def test_a_text_of_a_question_is_no_variable_of_the_engine(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark puts its environment, passwords and all, where a statement says ${env:...}: noisy counts would spell it out."""
    monkeypatch.setenv("TACIT_CANARY", "secret")
    texts = ["${env:TACIT_CANARY}", "${env:PATH}", os.environ["PATH"], "secret", "a${b}${c", "$", "{"]
    load(place, "visits", id=pa.array(range(len(texts)), pa.int64()), s=pa.array(texts, pa.string()))
    session: Session = place.session(Unit("id", max_rows=1), steady=True, loss=False)
    asked = ", ".join(f"COUNT(CASE WHEN s = '{text}' THEN 1 END) AS f{i}" for i, text in enumerate(texts))
    plan = session.plan(f"SELECT {asked} FROM visits", epsilon=1)
    assert [int(sums[0]) for sums in exact_sums(plan, place.steady).sums] == [1] * len(texts)
    keyed = session.plan("SELECT s, COUNT(*) AS n FROM visits GROUP BY s", epsilon=1, keys={"s": texts})
    assert exact_sums(keyed, place.steady).sums[0].tolist() == [1] * len(texts)
    if place.name == "spark":
        assert place.raw("SELECT '${env:PATH}'")[0][0] == os.environ["PATH"]  # the mutant: what Spark makes of it
        with pytest.raises(TableError):
            session.plan("SELECT SUM(`${env:PATH}`) AS n FROM (SELECT id AS i, 1 AS `${env:PATH}` FROM visits) t", epsilon=1)


def test_an_answer_from_the_book_has_the_noise_it_was_drawn_with(tmp_path: Path) -> None:
    """The same statement at the same price, split otherwise, is another question: its intervals would be wrong.

    Only rows that can be compared are answered from the book, so the table is a frame."""
    table = pa.table({"id": [1, 2], "x": pa.array([1, None], pa.int64()), "y": [1, 2]})
    book = Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}")
    budget = Budget(epsilon=100, delta="1e-6")
    session = Session(
        table, unit=Unit("id", max_rows=1), budget=budget, name="visits", ledger=book, cache=True, loss=False
    )
    text = "SELECT COUNT(x) AS a, COUNT(y) AS b FROM visits"
    first, again = (session.sql(text, epsilon=1, weights={"a": 1, "b": 1}) for _ in range(2))
    other = session.sql(text, epsilon=1, weights={"a": 100, "b": 1})
    assert first.entry == again.entry != other.entry
    assert first.noise == again.noise != other.noise


def test_a_collation_makes_no_two_texts_one(place: Place, tmp_path: Path) -> None:
    """Without regard to case, a row is in the groups ab, Ab, aB and AB at once; and the key that is published is one person's spelling."""
    if place.name == "duckdb":
        with duckdb.connect(str(tmp_path / "book.duckdb")) as own:
            own.execute("CREATE TABLE visits (id BIGINT, k VARCHAR COLLATE NOCASE)")
            own.execute("CREATE VIEW seen AS SELECT id, k AS z FROM visits")
            own.execute("CREATE VIEW plain AS SELECT id, k COLLATE C AS k FROM visits")
            own.execute("INSERT INTO visits VALUES (1, 'ab')")
            assert own.execute("SELECT COUNT(*) FROM visits v JOIN (VALUES ('ab'), ('AB')) t(k) ON v.k = t.k").fetchall() == [(2,)]
        engine: Any = DuckDB(tmp_path / "book.duckdb")
    elif place.name == "postgres":
        # Collations of this kind come with ICU, which the server of the tests is made without: it is asked, and has none.
        load(place, "plain", id=pa.array([1], pa.int64()), k=pa.array(["ab"], pa.string()))
        assert place.usual.run(collation_probe(exp.to_table("plain"), ["k"])).to_pylist() == [{"k": False}]
        assert list(place.usual.columns(exp.to_table("plain", quoted=True))) == ["id", "k"]
        return
    else:
        place.usual.session.sql("CREATE OR REPLACE TEMP VIEW seen AS SELECT CAST(1 AS BIGINT) AS id, 'ab' COLLATE UTF8_LCASE AS z")
        place.usual.session.sql("CREATE OR REPLACE TEMP VIEW plain AS SELECT id, z COLLATE UTF8_BINARY AS k FROM seen")
        engine = place.usual
    with pytest.raises(TableError, match="z of seen has a collation"):
        engine.columns(exp.to_table("seen", quoted=True))
    assert list(engine.columns(exp.to_table("plain", quoted=True))) == ["id", "k"]
