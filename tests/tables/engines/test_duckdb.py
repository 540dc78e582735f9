"""DuckDB: reads in place, opens nothing else, says nothing."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp, parse_one
from tests.noise.reference import LIVE, binomial_p

from tacit.tables.engines import duckdb as duckdb_module
from tacit.tables.engines.duckdb import LISTED, LISTS, SHORTEST, DuckDB, direct
from tacit.tables.engines.engine import KEPT
from tacit.tables.engines.types import duckdb_type
from tacit.tables.errors import EngineError, TableError
from tacit.tables.statistics import Interval, total

ROWS = {"id": [1, 2, 2], "x": [0.5, None, 2.0]}


@pytest.mark.parametrize("make", [pa.table, pd.DataFrame, pl.DataFrame], ids=["arrow", "pandas", "polars"])
def test_frames(make: type) -> None:
    engine = DuckDB(threads=1)
    engine.register("t", make(ROWS))
    assert engine.run(parse_one("SELECT COUNT(*) AS n, SUM(CAST(x AS BIGINT)) AS s FROM t")).to_pylist() == [{"n": 3, "s": 2}]
    assert engine.columns(exp.to_table("t")) == {"id": "BIGINT", "x": "DOUBLE"}


def test_a_file_is_read_only(tmp_path: Path) -> None:
    path = tmp_path / "book.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS a")
    engine = DuckDB(path)
    assert engine.tables() == ["t"]
    with pytest.raises(EngineError):
        engine.run(parse_one("DROP TABLE t"))
    assert engine.run(parse_one("SELECT COUNT(*) AS n FROM t")).to_pylist() == [{"n": 1}]
    engine.close()


def test_python_variables_cannot_be_named() -> None:
    hidden = pa.table({"a": [1]})
    with pytest.raises(EngineError):
        DuckDB().run(parse_one("SELECT * FROM hidden"))
    assert hidden.num_rows == 1


def test_no_other_file_can_be_opened(tmp_path: Path) -> None:
    for name in ("mine", "other"):
        (tmp_path / f"{name}.csv").write_text("a\n1\n")
    engine, mine, other = DuckDB(), str(tmp_path / "mine.csv"), str(tmp_path / "other.csv")
    engine.csv("t", [mine], ["a"], {"a": "BIGINT"})
    engine.only([mine])
    assert engine.run(parse_one("SELECT SUM(a) AS s FROM t")).to_pylist() == [{"s": 1}]
    for text in (f"SELECT * FROM read_csv('{other}')", f"SELECT * FROM '{other}'", f"SELECT * FROM read_text('{other}')"):
        with pytest.raises(EngineError):
            engine.run(parse_one(text, read="duckdb"))
    with pytest.raises(EngineError):
        engine.run(parse_one("SET enable_external_access = true", read="duckdb"))


@pytest.mark.parametrize(
    ("given", "message"), [({"threads": 0}, "threads"), ({"memory": "much"}, "memory"), ({"path": "/none/x.duckdb"}, "no file")]
)
def test_settings_are_checked(given: dict[str, object], message: str) -> None:
    with pytest.raises(TableError, match=message):
        DuckDB(**given)  # type: ignore[arg-type]


def test_errors_carry_nothing() -> None:
    engine = DuckDB()
    engine.register("t", pa.table({"a": ["a secret"]}))
    with pytest.raises(EngineError) as caught:
        engine.run(parse_one("SELECT error(a) FROM t", read="duckdb"))
    assert "secret" not in str(caught.value) and caught.value.__context__ is None and caught.value.__cause__ is None
    with pytest.raises(EngineError, match="no such table"):
        engine.columns(exp.to_table("nowhere"))


# ---- quick ways that must not change an answer ---------------------------------------------------------------------------------------


def test_bounds_as_comparisons_are_what_the_functions_are() -> None:
    engine = DuckDB(threads=1)
    values = [None, float("nan"), float("inf"), float("-inf"), -1.0, -0.0, 0.0, 50.0, 100.0, 100.5, 1e308, 5e-324]
    engine.register("t", pa.table({"i": list(range(len(values))), "x": pa.array(values, pa.float64())}))
    bounded = "LEAST(GREATEST(CAST(x AS DOUBLE), CAST(0.0 AS DOUBLE)), CAST(100.0 AS DOUBLE))"
    tree = parse_one(f"SELECT {bounded} AS y FROM t ORDER BY i", dialect="duckdb")
    assert "CASE" in engine.prepare(tree).sql("duckdb") and "LEAST" not in engine.prepare(tree).sql("duckdb")
    functions = engine._connection.execute(f"SELECT {bounded} AS y FROM t ORDER BY i").fetchall()
    assert engine.run(tree).column("y").to_pylist() == [row[0] for row in functions]


OTHERS = ["LEAST(GREATEST(x, y), 1)", "LEAST(GREATEST(x, 0, 2), 1)", "LEAST(x, 1)", "LEAST(GREATEST(x + y, 0), 1)"]


@pytest.mark.parametrize("other", OTHERS)
def test_other_bounds_are_left_alone(other: str) -> None:
    tree = parse_one(f"SELECT {other} FROM t", dialect="duckdb")
    assert "LEAST" in DuckDB(threads=1).prepare(tree).sql("duckdb")


def listed(values: list[str]) -> exp.Expression:
    rows = ", ".join(f"({i}, {value})" for i, value in enumerate(values))
    return parse_one(f"SELECT SUM(k.i) AS s FROM t JOIN (VALUES {rows}) AS k(i, v) ON t.x IS NOT DISTINCT FROM k.v", dialect="duckdb")


def test_lists_are_tables_of_their_own_until_there_are_too_many() -> None:
    engine = DuckDB(threads=1)
    engine.register("t", pa.table({"x": ["a3", "a5", "b", None]}))
    for turn in range(2):
        for first in range(LISTS + 5):
            values = [f"'a{i + first}'" for i in range(SHORTEST)]
            truth = sum(i for i in range(SHORTEST) if i + first in (3, 5))
            assert (engine.run(listed(values)).column("s").to_pylist()[0] or 0) == truth, turn
    assert len(engine._lists) == LISTS
    assert engine.tables() == ["t"]
    # Short lists, and columns of nothing but NULL, which have no type, stay in the statement.
    assert LISTED not in engine._written(listed(["'a3'"] * 3))[0]
    nothing = listed(["NULL"] * SHORTEST)
    assert LISTED not in engine._written(nothing)[0]
    assert engine.run(nothing).column("s").to_pylist() == [sum(range(SHORTEST))]


def test_lists_on_a_file_that_is_read_only_and_of_other_types(tmp_path: Path) -> None:
    path = tmp_path / "book.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TYPE mood AS ENUM ('sad', 'glad')")
        connection.execute("CREATE TABLE t AS SELECT 'glad'::mood AS x UNION ALL SELECT 'sad'::mood UNION ALL SELECT NULL")
    engine = DuckDB(path)
    engine.only([str(path)])
    values = ["'glad'", "'other'", *(f"'m{i}'" for i in range(SHORTEST)), "'sad'"]
    assert engine.run(listed(values)).column("s").to_pylist() == [len(values) - 1]
    engine.close()


def test_a_kept_statement_is_not_written_again_and_a_copy_is() -> None:
    engine, other = DuckDB(threads=1), DuckDB(threads=1)
    for place, rows in ((engine, [1]), (other, [1, 2])):
        place.register("t", pa.table({"x": rows}))
    statement = parse_one("SELECT COUNT(*) AS n FROM t")
    statement.meta[KEPT] = True
    assert engine.run(statement).column("n").to_pylist() == [1]
    assert engine._written(statement)[0] is engine._written(statement)[0]
    changed = statement.copy()
    changed.set("where", exp.Where(this=parse_one("x > 1")))
    assert engine.run(changed).column("n").to_pylist() == [0]
    assert other.run(statement).column("n").to_pylist() == [2]


def drawn(engine: DuckDB, most: int, values: str = "x, y") -> list[tuple[int, ...]]:
    rows = parse_one(f"SELECT p, {values} FROM t", dialect="duckdb")
    assert isinstance(rows, exp.Select)
    return [tuple(row.values()) for row in engine.run(engine.drawn(rows, ["p"], most, "n")).to_pylist()]


@pytest.mark.parametrize("most", [1, 2, 4, 10**6, 10**7])
def test_lines_are_drawn_and_counted(most: int) -> None:
    engine = DuckDB(threads=1)
    engine.register("t", pa.table({"p": [1] * 6 + [2], "x": pa.array([None, 1, 2, 3, 4, None, 7]), "y": pa.array([None] * 7, pa.string())}))
    found = drawn(engine, most)
    for person, count in ((1, 6), (2, 1)):
        own = [row for row in found if row[0] == person]
        assert len(own) == min(most, count)  # lines of nothing but NULL are lines too
        assert [row[-1] for row in own if row[-1] is not None] == [count]


def test_every_line_has_the_same_chance() -> None:
    """2 of 5 lines, 3000 times: each in two fifths of the draws. The engine's own draws: right ones fail in one run of 1e9."""
    many = 3000
    engine = DuckDB(threads=1)
    engine.register("t", pa.table({"p": [p for p in range(many) for _ in range(5)], "pack_0": list(range(5)) * many}))
    found = drawn(engine, 2, "pack_0")
    counts = [sum(1 for row in found if row[1] == value) for value in range(5)]
    assert sum(counts) == 2 * many
    assert min(binomial_p(count, many, 0.4) for count in counts) > LIVE / 5
    assert binomial_p(many // 2, many, 0.4) < LIVE / 5, "a line taken half of the time would be seen"


def test_the_keyed_order_is_even_and_one_hash_is_not() -> None:
    """The first of three groups, over 3000 salts. The mutant is DuckDB's hash of several values, which prefers the middle one."""
    engine = DuckDB(threads=1)

    def firsts(key: str) -> list[int]:
        rank = f"ROW_NUMBER() OVER (PARTITION BY s ORDER BY {key})"
        source = f"SELECT g, {rank} AS r FROM range(3) AS a(g), (SELECT i * 7919 + 13 AS s FROM range(3000) AS b(i))"
        rows = engine._connection.execute(f"SELECT g, COUNT(*) FROM ({source}) WHERE r = 1 GROUP BY g ORDER BY g").fetchall()
        return [count for _, count in rows]

    def far(counts: list[int]) -> float:
        return max(abs(count - 1000) for count in counts) / (3000 * 2 / 9) ** 0.5

    order = engine.shuffle_key(17, [exp.column("s"), exp.column("g")]).sql("duckdb")
    assert far(firsts(order)) < 5 < far(firsts("hash(17, s, g)"))


def test_nothing_is_printed_while_a_long_statement_runs(capfd: pytest.CaptureFixture[str]) -> None:
    engine = DuckDB(threads=1)
    assert engine._connection.execute("SELECT current_setting('enable_progress_bar')").fetchall() == [(False,)]
    engine.run(parse_one("SELECT SUM(i) AS s FROM range(1000000) AS r(i)"))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT g, COUNT(*) AS n, SUM(x) AS s, COUNT(*) - COUNT(x) AS m FROM t GROUP BY g ORDER BY g",
        "SELECT SUM(x) AS s, SUM(x) AS r FROM t WHERE g = 3",
        "SELECT g, COUNT(*) AS n FROM t WHERE g > 99 GROUP BY g",
        "SELECT g, word FROM t ORDER BY g, word",
        "SELECT g, AVG(x) AS a, MIN(word) AS w FROM t GROUP BY g ORDER BY g",
    ],
)
def test_a_kept_statement_gives_the_same_table_every_time(text: str) -> None:
    """Sums beyond 64 bits, sums of nothing, no line at all, and columns that are no numbers; the oracle is a statement that is not kept."""
    engine = DuckDB(threads=1)
    rows = {"g": [1, 1, 1, 2, 3], "x": [2**63 - 1, 2**63 - 1, 2**63 - 1, -(2**63), None], "word": ["b", "a", None, "é", ""]}
    engine.register("t", pa.table({"g": rows["g"], "x": pa.array(rows["x"], pa.int64()), "word": rows["word"]}))
    expected = engine.run(parse_one(text, dialect="duckdb"))
    statement = parse_one(text, dialect="duckdb")
    statement.meta[KEPT] = True
    for _ in range(3):
        found = engine.run(statement)
        assert found.equals(expected) and found.schema.equals(expected.schema)


# --- duckdb_forms -------------------------------------------------------------------------------------------


DOUBLES = DuckDB(threads=1)

@given(st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=60)
def test_a_number_is_read_as_python_has_it(number: float) -> None:
    """The oracle: Python's own floating-point number."""
    statement = exp.select(exp.alias_(exp.cast(exp.Literal.number(repr(abs(number))), "DOUBLE"), "x"))
    assert DOUBLES.run(statement).column(0)[0].as_py() == abs(number)


EDGES = [None, math.nan, math.inf, -math.inf, 0.0, -0.0, 1e308, -1e308, 5e-324, 0.5, 2.0**53]


@given(ends=st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)).filter(lambda ends: ends[0] < ends[1]), more=st.lists(st.floats()))
@settings(max_examples=40)
def test_the_bounds_are_asked_first_and_nothing_else_changes(ends: tuple[float, float], more: list[float]) -> None:
    """floor((clamp(x) - centre) * k + 1/2) where x is there: the integers are Python's, at the bounds and one step beside them too."""
    low, high = ends
    beside = [math.nextafter(end, way) for end in ends for way in (-math.inf, math.inf)]
    values = [*EDGES, low, high, *beside, *more]
    DOUBLES.register("t", pa.table({"i": range(len(values)), "x": pa.array(values, pa.float64())}))
    x = exp.column("x", quoted=True)
    present = exp.And(
        this=exp.Not(this=exp.Is(this=exp.Paren(this=x.copy()), expression=exp.null())), expression=exp.Not(this=DOUBLES.is_nan(x.copy()))
    )
    interval = Interval(low, high)
    measure = total("x", x, present, interval, centred=True)
    statement = exp.select("i", exp.alias_(measure.integer, "n")).from_("t").order_by("i")
    text = DOUBLES.prepare(statement).sql("duckdb")
    assert text.count("CASE") == 1 and text.index("BETWEEN") < text.index("'inf'") and "ISNAN" not in text
    scale, centre = float(1 / measure.granularity), float(interval.centre)
    expected = [
        0 if v is None or math.isnan(v) else math.floor((min(max(v, low), high) - centre) * scale + 0.5) for v in values
    ]
    assert DOUBLES.run(statement).column("n").to_pylist() == expected


@pytest.mark.parametrize(
    "condition",
    ['NOT "y" IS NULL', 'NOT "x" IS NULL AND "y" > 0', '"x" > 1', 'NOT "x" IS NULL OR "y" > 0', 'NOT "x" IS NULL AND NOT ISNAN("y")'],
)
def test_a_condition_about_anything_else_is_asked_first(condition: str) -> None:
    """The mutant would take a value within its bounds although the condition does not hold."""
    text = f'SELECT CASE WHEN {condition} THEN LEAST(GREATEST("x", 0.0), 10.0) ELSE -1 END AS n FROM t'
    engine = DuckDB(threads=1)
    rows = {"x": [0.5, None, 50.0, math.nan, 3.0], "y": [None, 1.0, math.nan, -1.0, 2.0]}
    engine.register("t", pa.table({name: pa.array(values, pa.float64()) for name, values in rows.items()}))
    statement = parse_one(text, read="duckdb")
    first = engine.prepare(statement).find(exp.Case)
    assert first is not None and first.args["ifs"][0].this.find(exp.Between) is None
    plain = duckdb.connect()
    plain.register("t", pa.table({name: pa.array(values, pa.float64()) for name, values in rows.items()}))
    assert engine.run(statement).column(0).to_pylist() == [row[0] for row in plain.execute(text).fetchall()]


def test_a_condition_about_the_value_itself_is_asked_second() -> None:
    text = 'SELECT CASE WHEN NOT "x" IS NULL AND NOT ISNAN("x") THEN LEAST(GREATEST("x", 0.0), 10.0) ELSE -1 END AS n FROM t'
    engine = DuckDB(threads=1)
    engine.register("t", pa.table({"x": pa.array([0.5, None, 50.0, math.nan, -3.0])}))
    first = engine.prepare(parse_one(text, read="duckdb")).find(exp.Case)
    assert first is not None and isinstance(first.args["ifs"][0].this, exp.Between)
    assert engine.run(parse_one(text, read="duckdb")).column(0).to_pylist() == [0.5, -1, 10, -1, 0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('SELECT TRY_CAST("v" AS DOUBLE) FROM "q"', 'SELECT "v" FROM READ_PARQUET(\'a\') AS "q"'),
        ('SELECT TRY_CAST("z"."v" AS DOUBLE) FROM "q" AS "z"', 'SELECT "z"."v" FROM READ_PARQUET(\'a\') AS "z"'),
        ('SELECT TRY_CAST("w" AS DOUBLE) FROM "q"', 'SELECT TRY_CAST("w" AS DOUBLE) FROM READ_PARQUET(\'a\') AS "q"'),
        ('SELECT TRY_CAST("v" AS BIGINT) FROM "q"', 'SELECT TRY_CAST("v" AS BIGINT) FROM READ_PARQUET(\'a\') AS "q"'),
        ('SELECT TRY_CAST("v" AS DOUBLE) FROM "other"', None),
        ('SELECT TRY_CAST("v" AS DOUBLE) FROM "main"."q"', None),
        ('WITH "q" AS (SELECT \'x\' AS "v") SELECT TRY_CAST("v" AS DOUBLE) FROM "q"', None),
        (
            'SELECT TRY_CAST("v" AS DOUBLE) FROM "q" JOIN "p" ON "a" = "b"',
            'SELECT TRY_CAST("v" AS DOUBLE) FROM READ_PARQUET(\'a\') AS "q" JOIN "p" ON "a" = "b"',
        ),
        (
            'SELECT (SELECT MAX(TRY_CAST("v" AS DOUBLE)) FROM "p") FROM "q"',
            'SELECT (SELECT MAX(TRY_CAST("v" AS DOUBLE)) FROM "p") FROM READ_PARQUET(\'a\') AS "q"',
        ),
    ],
)
def test_only_what_a_column_of_the_table_itself_is_cast_to_is_dropped(text: str, expected: str | None) -> None:
    tree = parse_one(text, read="duckdb")
    direct(tree, {"q": {"v": "DOUBLE", "w": "VARCHAR"}}, {"q": parse_one("READ_PARQUET('a')", read="duckdb")})
    assert tree.sql("duckdb") == (text if expected is None else expected)


def test_files_are_read_as_their_view_would_be(tmp_path: Path) -> None:
    """Odd names and all; and a name that comes to mean something else is read as that."""
    where = tmp_path / "a 'quoted' name.parquet"
    pq.write_table(pa.table({"v": [1.5, 2.5], "odd \"name\"": [1, 2]}), where)
    engine = DuckDB(threads=1)
    engine.parquet('the "table"', [str(where)])
    table = exp.to_table('"the ""table"""')
    assert engine.columns(table) == {"v": "DOUBLE", 'odd "name"': "BIGINT"}
    statement = exp.select(exp.alias_(exp.Sum(this=exp.cast(exp.column("v", quoted=True), "DOUBLE")), "s")).from_(table)
    assert "read_parquet" in engine._written(statement)[0].lower() and "TRY_CAST" not in engine._written(statement)[0]
    assert engine.run(statement).to_pydict() == {"s": [4.0]}
    for connection in (engine._connection, engine._beside):
        connection.execute('DROP VIEW "the ""table"""')
    engine.register('the "table"', pa.table({"v": ["1", "x", None]}))
    assert "TRY_CAST" in engine._written(statement)[0]
    assert engine.run(statement).to_pydict() == {"s": [1.0]}


def by_arrow(engine: DuckDB, text: str) -> pa.Table:
    """DuckDB's own Arrow, all of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return engine._connection.execute(text).to_arrow_table()


@pytest.mark.parametrize("lines", [0, 1, 6, 7, 8, 30])
@pytest.mark.parametrize(
    "values",
    [
        "range AS a, CASE WHEN range % 3 <> 0 THEN -range END AS b",
        "(range - 9) * 8507059173023461586584365185794205286::HUGEINT AS a, CASE WHEN range <> 1 THEN range::HUGEINT END AS b",
        "170141183460469231731687303715884105727::HUGEINT - range AS a, -170141183460469231731687303715884105727::HUGEINT + range AS b",
        "CASE WHEN range <> 2 THEN 170141183460469231731687303715884105727::HUGEINT END AS a, (-range)::DECIMAL(38, 0) AS b",
        "NULL::HUGEINT AS a, NULL::BIGINT AS b",
        "range AS a, range AS a",
        "range AS a, 'x' AS b",
        "range AS a, range::INTEGER AS b, range / 2 AS c",
    ],
)
def test_whole_numbers_come_as_duckdbs_own_arrow_has_them(values: str, lines: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first lines are made of Python's numbers, the rest by DuckDB: fewer lines, as many, more."""
    monkeypatch.setattr(duckdb_module, "FEW", 7)
    engine, text = DuckDB(threads=1), f"SELECT {values} FROM range({lines}) ORDER BY range"
    found, wanted = duckdb_module._fetched(engine._connection, text), by_arrow(engine, text)
    assert found.schema == wanted.schema
    assert [column.to_pylist() for column in found.columns] == [column.to_pylist() for column in wanted.columns]
    found.validate()  # not in full: DuckDB itself has decimals of 39 digits, which that would refuse


def test_types_are_those_that_describe_tells() -> None:
    """A query is bound and not run to know its types. The oracle for every type that there is: DESCRIBE, which is run."""
    engine = DuckDB(threads=1)
    kinds = [str(row[0]) for row in engine._connection.execute("SELECT DISTINCT type_name FROM duckdb_types()").fetchall()]
    sized = ["DECIMAL(9, 3)", "DECIMAL(38, 0)", "VARCHAR(3)", "BIGINT[]", "INTEGER[3]", "STRUCT(a BIGINT, \"b c\" VARCHAR)",
             "MAP(VARCHAR, BIGINT)",
             "ENUM('x', 'y z')", "UNION(n BIGINT, t VARCHAR)", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_NS"]  # fmt: skip
    tried = 0
    for kind in [*kinds, *sized]:
        try:
            engine._connection.execute(f"CREATE OR REPLACE TABLE t (a {kind}, \"B b\" {kind})")
        except duckdb.Error:
            continue  # a name that no column can have
        told = engine._connection.execute("DESCRIBE SELECT * FROM t").fetchall()
        assert engine.columns(exp.to_table("t")) == {str(row[0]): duckdb_type(str(row[1])) for row in told}, kind
        tried += 1
    assert tried > 25


def test_a_query_that_is_typed_is_not_run() -> None:
    engine = DuckDB(threads=1)
    subquery = exp.Subquery(this=parse_one("SELECT error('run') AS a"), alias=exp.TableAlias(this=exp.to_identifier("t")))
    assert list(engine.columns(subquery)) == ["a"]
    with pytest.raises(EngineError):
        engine.columns(exp.to_table("nowhere"))


def test_a_text_that_was_written_ahead_is_sent_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = DuckDB(threads=1)
    engine.register("t", pa.table(ROWS))
    statement = parse_one("SELECT SUM(CAST(id AS BIGINT)) AS s FROM t")
    engine.write(statement)
    monkeypatch.setattr(duckdb_module, "last_text", lambda *given: pytest.fail("it is written already"))
    assert [engine.run(statement).to_pylist() for _ in range(2)] == [[{"s": 5}]] * 2


class NoArrow:
    """A connection whose results are not made Arrow by DuckDB."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection

    def execute(self, text: str) -> NoArrow:
        self.connection.execute(text)
        return self

    def __getattr__(self, name: str) -> Any:
        if "arrow" in name:
            raise AssertionError(name)
        return getattr(self.connection, name)


def test_few_whole_numbers_are_not_made_arrow_by_another_statement() -> None:
    """For each step of it DuckDB would wait for the interpreter, which others have."""
    connection: Any = NoArrow(DuckDB(threads=1)._connection)
    text = "SELECT range AS n, range::HUGEINT AS s FROM range({})"
    assert duckdb_module._fetched(connection, text.format(5)).num_rows == 5
    with pytest.raises(AssertionError, match="arrow"):
        duckdb_module._fetched(connection, text.format(duckdb_module.FEW))
