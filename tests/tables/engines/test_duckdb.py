"""DuckDB: reads in place, opens nothing else, says nothing."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sqlglot import exp, parse_one
from tests.noise.reference import LIVE, binomial_p

from tacit.tables.engines.duckdb import LISTED, LISTS, SHORTEST, DuckDB
from tacit.tables.engines.engine import KEPT
from tacit.tables.errors import EngineError, TableError

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
