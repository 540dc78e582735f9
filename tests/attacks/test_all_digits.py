"""Digits that a column has and other types have not: nanoseconds, and PostgreSQL's numbers of any length.

Cut to microseconds, or to what Arrow holds, different values become one, or no group at all, and the answer is another than the plain
SQL's. Brought to their type by the engine, a date of the year 9999 makes a statement fail where there is such a row.
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from sqlglot import exp
from tests.tables.engines import places, servers

from tacit.accounting import Guarantee
from tacit.ledger import Budget
from tacit.tables import Desk, Refused, Source, TableError, Unit, forms, plan, values
from tacit.tables.engines.duckdb import DuckDB
from tacit.tables.figures import integers
from tacit.tables.values import Value

MOMENTS = (
    "2024-01-31 12:00:00.5", "2024-01-31 12:00:00.500000001", "1969-12-31 23:59:59.999999999", "1970-01-01 00:00:00", "infinity",
    "2262-04-11 23:47:16.854775806", "1677-09-22 00:00:00",
)  # fmt: skip
OTHERS = ("2024-01-31 12:00:00.5", "9999-12-31 23:59:59.999999", "0001-01-01 00:00:00", "1970-01-01 00:00:00", "infinity", "-infinity")
#: What the engine itself answers, of every row or of none.
PLAIN = [
    "ns = '2024-01-31 12:00:00.5'", "ns > '2024-01-31 12:00:00.5'", "ns <= '2024-01-31 12:00:00.500000001'", "ns <> '1970-01-01'",
    "ns < '1970-01-01'", "ns IN ('2024-01-31 12:00:00.5', '1970-01-01')", "ns BETWEEN '2024-01-31' AND '2024-01-31 12:00:00.5'", "ns = n2",
    "ns IS DISTINCT FROM n2", "ns < n2", "COALESCE(ns, '1970-01-01') = '1970-01-01'", "GREATEST(ns, n2) = ns", "NULLIF(ns, n2) IS NULL",
    "CASE WHEN id > 3 THEN ns ELSE n2 END > '1970-01-01'", "YEAR(ns) = 1970", "CAST(ns AS DATE) = '1970-01-01'",
    "CAST(ns AS VARCHAR) LIKE '%1'", "CAST(ns AS TIMESTAMP) = TIMESTAMP '2024-01-31 12:00:00.5'", "ns > DATE '2024-01-31'",
]  # fmt: skip
#: Where the engine fails on the year 9999, what it says of the same in whole nanoseconds.
SIDES = ("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM")


def table() -> DuckDB:
    """Every moment beside every other timestamp."""
    engine = DuckDB(threads=1)
    pairs = [(a, b) for a in (*MOMENTS, None) for b in (*OTHERS, None)]

    def text(value: str | None) -> str:
        return "NULL" if value is None else f"'{value}'"

    rows = [f"({i}, {text(a)}, {text(MOMENTS[i % 3])}, {text(b)})" for i, (a, b) in enumerate(pairs)]
    with engine._lock:
        engine._connection.execute("CREATE TABLE t (id BIGINT, ns TIMESTAMP_NS, n2 TIMESTAMP_NS, ts TIMESTAMP)")
        engine._connection.execute(f"INSERT INTO t VALUES {', '.join(rows)}")
        engine._connection.execute("CREATE TABLE codes AS SELECT * FROM t")
    return engine


def desk_of(engine: Any) -> Desk:
    return Desk.of(Source(engine, ("t", "codes"), frozenset({"codes"})), Unit("id", max_rows=1, capped=True), loss=False)


def ours(engine: DuckDB, text: str) -> Any:
    desk = desk_of(engine)
    made = desk.plan(desk.question(text), Guarantee(epsilon=1, delta="1e-3"))
    return integers(engine.run(made.statement(engine, 3)), made)


def count(engine: DuckDB, what: str) -> int:
    return int(ours(engine, f"SELECT COUNT({what}) AS n FROM t").sums[0][0])


def plainly(engine: DuckDB, what: str) -> int:
    found = engine._connection.execute(f"SELECT COUNT({what}) FROM t").fetchone()
    assert found is not None
    return int(found[0])


def test_nanoseconds_are_compared_and_counted_as_they_are() -> None:
    engine = table()
    for condition in PLAIN:
        assert count(engine, f"CASE WHEN {condition} THEN 1 END") == plainly(engine, f"CASE WHEN {condition} THEN 1 END"), condition
    assert count(engine, "DISTINCT ns") == plainly(engine, "DISTINCT ns") == len(MOMENTS)


def test_beside_dates_of_any_year_nothing_fails_and_nothing_is_cut() -> None:
    """In whole numbers of nanoseconds, which hold every year; infinities are greater and smaller than all."""
    engine = table()
    wide = "CASE {c} WHEN 'infinity' THEN 10000000000000000000000000 WHEN '-infinity' THEN -10000000000000000000000000 ELSE {n} END"
    mine, other = wide.format(c="ns", n="epoch_ns(ns)::HUGEINT"), wide.format(c="ts", n="epoch_us(ts)::HUGEINT * 1000")
    for sign in SIDES:
        told = f"CASE WHEN ({mine}) {sign} ({other}) THEN 1 END"
        assert count(engine, f"CASE WHEN ns {sign} ts THEN 1 END") == plainly(engine, told), sign
        turned = f"CASE WHEN ({other}) {sign} ({mine}) THEN 1 END"
        assert count(engine, f"CASE WHEN ts {sign} ns THEN 1 END") == plainly(engine, turned), sign
    finite = plainly(engine, "CASE WHEN ns < 'infinity' THEN 1 END")
    assert count(engine, "CASE WHEN ns < '9999-12-31' THEN 1 END") == finite
    assert count(engine, "CASE WHEN ns = '9999-12-31' THEN 1 END") == 0
    with pytest.raises(Exception, match="Conversion"):
        plainly(engine, "CASE WHEN ns < ts THEN 1 END")


def test_what_would_bring_other_dates_to_nanoseconds_is_refused() -> None:
    desk = desk_of(table())
    for what in ("COALESCE(ns, ts)", "GREATEST(ns, ts)", "NULLIF(ns, ts)", "CASE WHEN id > 1 THEN ns ELSE ts END"):
        with pytest.raises(Refused, match="nanoseconds"):
            desk.question(f"SELECT COUNT({what}) AS n FROM t")
    with pytest.raises(Refused, match="one type"):
        desk.question("SELECT COUNT(*) AS n FROM t AS a JOIN codes AS k ON a.ns = k.ts")
    with pytest.raises(TableError, match="same type"):
        desk.question("SELECT COUNT(*) AS n FROM (SELECT id, ns AS x FROM t UNION ALL SELECT id, ts AS x FROM t) w")
    for late in ("9999-12-31", "1600-01-01 00:00:00"):
        with pytest.raises(TableError, match="between 1677 and 2262"):
            desk.plan(desk.question("SELECT ns, COUNT(*) AS n FROM t GROUP BY ns"), Guarantee(epsilon=1), keys={"ns": [late]})
    with pytest.raises(TableError, match="six decimals"):
        desk.question("SELECT COUNT(*) AS n FROM t WHERE ts = '2024-01-31 12:00:00.5000001'")


def test_groups_of_nanoseconds_are_all_there() -> None:
    """A date of Python's where it holds the moment, and its text where it does not."""
    engine = table()
    found = {key[0] for _, key in ours(engine, "SELECT ns, COUNT(*) AS n FROM t GROUP BY ns").groups}
    whole = {datetime.datetime.fromisoformat(m) for m in MOMENTS if m != "infinity" and len(m) <= 26}
    assert found == whole | {m for m in MOMENTS if len(m) > 26}
    desk = desk_of(engine)
    asked = desk.plan(desk.question("SELECT ns, COUNT(*) AS n FROM t GROUP BY ns"), Guarantee(epsilon=1), keys={"ns": [MOMENTS[0]]})
    once = plainly(engine, f"CASE WHEN ns = '{MOMENTS[0]}' THEN 1 END")
    assert integers(engine.run(asked.statement(engine, 3)), asked).sums[0].tolist() == [once]


def test_nanoseconds_cut_to_microseconds_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: what the code did before."""
    whole = values.column

    def cut(name: str, sql_type: str | None) -> Value:
        return forms.in_microseconds(whole(name, sql_type))

    for module in ("relation", "from_clause", "joins", "forms", "expressions", "values", "dates"):
        monkeypatch.setattr(f"tacit.tables.{module}.column", cut, raising=False)
    engine = table()
    shown = [f"CASE WHEN {c} THEN 1 END" for c in PLAIN if "000001'" not in c]
    wrong = [c for c in shown if count(engine, c) != plainly(engine, c)]
    assert len(wrong) >= 6 and count(engine, "DISTINCT ns") < len(MOMENTS)


NUMBERS = ("12345678901234567890.5", "1e400", "-1e400", "1e-400", "1.50", "1.5", "0.0000000001", "NaN", "Infinity", "-7")


@pytest.fixture
def numbers() -> Any:
    """Each number twice, of two people, in a column of any length and, where it fits, in one of 60 digits."""
    place = places.place("postgres")
    with psycopg.connect(servers.postgres("attacks")) as connection:
        connection.execute("DROP TABLE IF EXISTS long_numbers")
        connection.execute("CREATE TABLE long_numbers (id bigint, x numeric, y numeric(60, 20))")
        for i, text in enumerate(NUMBERS * 2):
            short = text if len(text) < 30 and "e" not in text and text != "Infinity" else "2"
            connection.execute("INSERT INTO long_numbers VALUES (%s, %s::numeric, %s::numeric)", (i, text, short))
    return place


def groups(place: Any, column: str) -> dict[Any, int]:
    desk = Desk.of(Source(place.usual, ("long_numbers",)), Unit("id", max_rows=1, capped=True), loss=False)
    made = desk.plan(desk.question(f"SELECT {column} AS k, COUNT(*) AS n FROM long_numbers GROUP BY 1"), Guarantee(epsilon=1, delta="1e-3"))
    found = integers(place.usual.run(made.statement(place.usual, 3)), made)
    return {key[0]: int(n) for (_, key), n in zip(found.groups, found.sums[0], strict=True)}


def test_a_key_of_any_number_of_digits_is_its_own_group(numbers: Any) -> None:
    for column in ("x", "y", "x * 2", "COALESCE(x, 0)"):
        rows = numbers.raw(f"SELECT {column}, COUNT(*) FROM long_numbers WHERE {column} <> 'NaN' GROUP BY 1")
        held = {key: n for key, n in rows if not (column == "x * 2" and abs(key) > Decimal("1e37"))}  # beyond, arithmetic is NULL
        assert groups(numbers, column) == held, column
    assert len(groups(numbers, "x")) == len(NUMBERS) - 2  # two of them are equal, and NaN is none


def test_an_answer_with_such_keys_can_be_shown_and_kept(numbers: Any) -> None:
    session = numbers.session(Unit("id", max_rows=1), Budget(epsilon=10**6, delta="0.9"), name="long_numbers", loss=False)
    answer = session.sql("SELECT x, COUNT(*) AS n FROM long_numbers GROUP BY x", epsilon=1000, delta="0.5")
    assert set(answer.keys["x"]) <= {Decimal(text) for text in NUMBERS if text != "NaN"} and answer.rows >= 5
    shown = answer.to_arrow().column("x").to_pylist()
    assert shown == [str(key) for key in answer.keys["x"]]
    few = answer.taken([i for i, key in enumerate(answer.keys["x"]) if key.is_finite() and 1 <= abs(key) < 1e30])
    assert few.to_arrow().column("x").to_pylist() == list(few.keys["x"])


def test_keys_that_are_cut_to_what_arrow_holds_are_caught(numbers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: what the code did before, a NULL in place of a number beyond 1e19."""

    def short(value: exp.Expression) -> exp.Expression:
        inside = exp.Between(this=value, low=exp.Literal.number("-1e19"), high=exp.Literal.number("1e19"))
        return exp.Case(ifs=[exp.If(this=inside, true=exp.cast(value.copy(), "TEXT"))])

    monkeypatch.setattr(plan, "_digits", short)
    assert Decimal(NUMBERS[0]) not in groups(numbers, "x")
