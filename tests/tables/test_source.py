"""Sources: the same rows from every kind of place, types without rows, and an identity that a new name does not change."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlglot import parse_one

from tacit.tables.engines.duckdb import DuckDB
from tacit.tables.errors import EngineError, TableError
from tacit.tables.source import Source

ROWS: dict[str, list[Any]] = {"id": [1, 2, 2], "region": ["N", "S", None], "age": [30, 41, None]}
TYPES = {"id": "BIGINT", "region": "VARCHAR", "age": "BIGINT"}
CSV = 'id,region,age\n1,N,30\n2,"S",41\n2,,\n'


def place(kind: str, directory: Path) -> Source:
    """The rows in a place of some kind."""
    table = pa.table(ROWS)
    match kind:
        case "arrow":
            return Source.of(table, name="visits")
        case "mapping":
            return Source.of(ROWS, name="visits")
        case "pandas":
            return Source.of(
                pd.DataFrame({"id": ROWS["id"], "region": ROWS["region"], "age": pd.array(ROWS["age"], "Int64")}), name="visits"
            )
        case "polars":
            return Source.of(pl.DataFrame(ROWS), name="visits")
        case "parquet":
            pq.write_table(table, directory / "v.parquet")
            return Source.of(directory / "v.parquet", name="visits")
        case "parquet glob":
            pq.write_table(table.slice(0, 1), directory / "v1.parquet")
            pq.write_table(table.slice(1), directory / "v2.parquet")
            return Source.of(str(directory / "v*.parquet"), name="visits")
        case "csv":
            (directory / "v.csv").write_text(CSV)
            return Source.of(directory / "v.csv", name="visits", types=TYPES)
        case "csv.gz":
            (directory / "v.csv.gz").write_bytes(gzip.compress(CSV.encode()))
            return Source.of(directory / "v.csv.gz", name="visits", types=TYPES)
        case "semicolons":
            (directory / "v.txt").write_text(CSV.replace(",", ";"))
            return Source.of(directory / "v.txt", name="visits", types=TYPES, delimiter=";")
        case "duckdb":
            with duckdb.connect(str(directory / "v.duckdb")) as connection:
                connection.register("rows", table)
                connection.execute("CREATE TABLE visits AS SELECT * FROM rows")
            return Source.of(directory / "v.duckdb", table="visits")
    raise AssertionError(kind)


@pytest.mark.parametrize(
    "kind", ["arrow", "mapping", "pandas", "polars", "parquet", "parquet glob", "csv", "csv.gz", "semicolons", "duckdb"]
)
def test_the_same_rows_from_everywhere(kind: str, tmp_path: Path) -> None:
    source = place(kind, tmp_path)
    assert source.tables == ("visits",)
    assert source.columns("visits") == TYPES
    query = "SELECT COUNT(*) AS n, SUM(age) AS age, COUNT(region) AS regions, SUM(id) AS ids FROM visits"
    assert source.engine.run(parse_one(query)).to_pylist() == [{"n": 3, "age": 71, "regions": 2, "ids": 5}]


def test_csv_types_are_declared_and_never_sniffed(tmp_path: Path) -> None:
    path = tmp_path / "v.csv"
    found = []
    for last in ("1", "x", "1.5", "2026-01-01", '"unclosed', "1,2,3"):
        path.write_text(f"id,age\n1,2\n2,{last}\n")
        plain, typed = Source.of(path), Source.of(path, types={"age": "BIGINT"})
        found.append((plain.columns("data"), typed.columns("data")))
        assert typed.engine.run(parse_one("SELECT SUM(age) AS s FROM data")).num_rows == 1  # whatever the row says, no error
    assert found == [({"id": "VARCHAR", "age": "VARCHAR"}, {"id": "VARCHAR", "age": "BIGINT"})] * 6


def test_identity_is_of_the_content(tmp_path: Path) -> None:
    first = place("csv", tmp_path)
    (tmp_path / "copy.csv").write_text(CSV)
    assert Source.of(tmp_path / "copy.csv", name="other").identity() == first.identity()
    (tmp_path / "copy.csv").write_text(CSV + "3,N,4\n")
    assert Source.of(tmp_path / "copy.csv").identity() != first.identity()


def test_identity_of_frames_ignores_order_chunks_and_library() -> None:
    table = pa.table(ROWS)
    turned = pa.concat_tables([table.slice(2), table.slice(0, 2)]).select(["age", "id", "region"])
    assert Source.of(table).identity() == Source.of(turned, name="else").identity() == Source.of(pl.DataFrame(ROWS)).identity()
    doubled = pa.concat_tables([table, table, table])  # an even number of copies would cancel in an exclusive or alone
    assert len({Source.of(t).identity().digest for t in (table, doubled, table.slice(1), table.slice(0, 0))}) == 4


def test_several_tables(tmp_path: Path) -> None:
    pq.write_table(pa.table(ROWS), tmp_path / "v.parquet")
    (tmp_path / "r.csv").write_text("region,size\nN,3\nS,4\n")
    source = Source.several(
        {"visits": tmp_path / "v.parquet", "regions": tmp_path / "r.csv"}, public=["regions"], types={"regions": {"size": "BIGINT"}}
    )
    query = "SELECT SUM(size) AS s FROM visits JOIN regions USING (region)"
    assert source.engine.run(parse_one(query)).to_pylist() == [{"s": 7}]
    assert source.public == {"regions"}
    assert source.identity() == Source.of(tmp_path / "v.parquet").identity()  # what is public does not matter
    with pytest.raises(TableError, match="public names 'x'"):
        Source.several({"visits": ROWS}, public=["x"])
    with pytest.raises(TableError, match="at least one table must be private"):
        Source.several({"visits": ROWS}, public=["visits"])


def test_a_file_source_opens_no_other_file(tmp_path: Path) -> None:
    source = place("csv", tmp_path)
    (tmp_path / "secret.csv").write_text("a\n1\n")
    with pytest.raises(EngineError):
        source.engine.run(parse_one(f"SELECT * FROM read_csv('{tmp_path / 'secret.csv'}')", read="duckdb"))


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ("none.csv", {}, "there is no file"),
        ("none*.csv", {}, "no file matches"),
        ("s3://bucket/x.parquet", {}, "s3:// is not supported"),
        ("none.duckdb", {"table": "t"}, "there is no file"),
        ("none.duckdb", {}, "has many tables"),
        ("postgresql://localhost/x", {}, "has many tables"),
        (ROWS, {"types": {"id": "BIGINT"}}, "CSV files only"),
        (ROWS, {"name": ""}, "name must be"),
        (object(), {}, "cannot be a source"),
        ([1, 2], {}, "cannot be a source"),
    ],
    ids=["file", "glob", "scheme", "duckdb file", "duckdb table", "postgres table", "types", "name", "object", "list"],
)
def test_what_cannot_be_a_source(data: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(TableError, match=message):
        Source.of(data, **options)


def test_a_csv_field_that_cannot_be_cast_costs_the_field_and_not_the_row(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("age,code\nxx,b\n12,a\n,c\n", encoding="utf-8")
    source = Source.of(path, name="t", types={"age": "DOUBLE"})
    found = source.engine.run(parse_one("SELECT COUNT(*) AS n, COUNT(age) AS a, SUM(age) AS s FROM t"))
    assert found.to_pydict() == {"n": [3], "a": [1], "s": [12.0]}



@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("id,id\n1,2\n", {}, "must be its header"),
        ("", {}, "must be its header"),
        ("id,\n1,2\n", {}, "must be its header"),
        ("id,age\n", {"types": {"old": "BIGINT", "id": "BIGINT"}}, "no column of the file; its header has id, age"),
        ("7719,zebra\n", {"types": {"id": "BIGINT", "age": "BIGINT"}}, "its first line must be a header, with ',' between"),
        ("id,age\n", {"types": {"age": "BIGINT); DROP"}}, "is no type"),
        ("id,age\n", {"types": {"age": "NUMBR"}}, "is no type"),
        ("id,age\n", {"delimiter": ";;"}, "one character"),
        ("id;zebra\n1;2\n", {}, "delimiter=';'"),
        ("id\tzebra\n1\t2\n", {}, "what separates its columns"),
    ],
    ids=["twice", "empty", "no name", "unknown", "no header", "injected", "misspelt", "delimiter", "semicolon", "tab"],
)
def test_csv_files_that_are_refused(text: str, options: dict[str, Any], message: str, tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text(text)
    with pytest.raises(TableError, match=message) as caught:
        Source.of(tmp_path / "v.csv", **options)
    assert "zebra" not in str(caught.value), "a first line that is a row is not shown"


def test_a_missing_column_is_named_with_what_there_is() -> None:
    source = Source.of(ROWS, name="visits")
    source.check("visits", ["id", "age"])
    with pytest.raises(TableError, match="did you mean 'age'"):
        source.check("visits", ["Age"])
    with pytest.raises(TableError, match="it has id, region, age"):
        source.check("visits", ["weight"])
    with pytest.raises(TableError, match="there is no table 'x'; there are visits"):
        source.columns("x")


def test_a_broken_file_says_nothing_of_its_content(tmp_path: Path) -> None:
    (tmp_path / "v.parquet").write_text("a secret that is no Parquet")
    with pytest.raises(EngineError) as caught:
        Source.of(tmp_path / "v.parquet")
    assert "secret" not in str(caught.value) and caught.value.__context__ is None


def test_an_engine_is_taken_as_it_is() -> None:
    engine = DuckDB()
    engine.register("t", pa.table(ROWS))
    assert Source.of(engine, name="t").engine is engine
    source = Source.of(engine, name="t")
    assert Source.of(source) is source


def test_several_tables_of_one_database(tmp_path: Path) -> None:
    import duckdb

    with duckdb.connect(str(tmp_path / "book.duckdb")) as connection:
        connection.execute("CREATE TABLE visits (id BIGINT); CREATE TABLE people (id BIGINT); CREATE TABLE codes (c TEXT)")
    path = str(tmp_path / "book.duckdb")
    source = Source.of(path, table=["visits", "people", "codes"], public=["codes"])
    assert source.tables == ("visits", "people", "codes") and source.public == {"codes"}
    one = Source.of(path, table="visits").identities()
    assert len(source.fingerprints()) == 2 and set(one) <= set(source.identities())  # a table has one identity, alone or beside others
    assert source.columns("people") == {"id": "BIGINT"}
    for wrong in ({"table": ["visits", "nothing"]}, {"table": ["visits"], "public": ["codes"]}, {"table": ["codes"], "public": ["codes"]}):
        with pytest.raises(TableError):
            Source.of(path, **wrong)
    for each in (source, Source.of(source.engine, name="book", table=["visits", "people"])):
        assert each.identity() == each.identity()
    source.close()
    with pytest.raises(TableError, match="many tables"):
        Source.of("sc://localhost:1")


@pytest.mark.parametrize(
    "columns", [{"x": [4711, "s4711"]}, {"x": pa.table({"y": [4711]})}, {"x": [4711], "y": [1, 2]}, {"x": [b"4711", 1]}]
)
def test_a_mapping_that_is_no_table_is_refused_without_its_values(columns: Any) -> None:
    """Arrow's own message shows them."""
    with pytest.raises(TableError) as error:
        Source.of(columns, name="visits")
    assert "4711" not in str(error.value) and error.value.__cause__ is None and error.value.__context__ is None
