"""DuckDB: reads in place, opens nothing else, says nothing."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sqlglot import exp, parse_one

from tacit.tables.engines.duckdb import DuckDB
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
