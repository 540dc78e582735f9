"""Sources: opened before anything is charged; what does not fit the declaration is refused without a word from the rows."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from sqlglot import parse_one
from tests.release.jobs import CANARY, TEXT, book, changed, visits
from tests.tables.engines import servers

from tacit.noise import test_mode
from tacit.release.errors import JobError
from tacit.release.job import Job, parse
from tacit.release.planning import plan
from tacit.release.running import run
from tacit.release.sources import blank, opened

JOB = changed()


def test_blank_tables_have_the_declared_columns_and_no_rows() -> None:
    found = blank(JOB).engine.run(parse_one("SELECT * FROM visits"))
    assert found.num_rows == 0 and found.column_names == ["patient_id", "region", "ward", "age"]


def test_a_parquet_file_is_read_in_place(tmp_path: Path) -> None:
    parquet.write_table(visits(), tmp_path / "visits.parquet")
    found = opened(JOB, tmp_path)
    assert found.engine.run(parse_one("SELECT COUNT(*) AS n FROM visits")).to_pydict() == {"n": [241]}
    assert [identity.kind for identity in found.identities()] == ["content", "table", "read"]


def test_a_malformed_csv_file_raises_nothing_and_no_field_has_another_type(tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text(
        f"age,patient_id,region,ward,more\n12,a,north,A,1\n{CANARY},b,north,B,\n1e400,c,south\n,d,north,A,x,y,z\n"
    )
    job = changed(("visits.parquet", "visits.csv"))
    found = opened(job, tmp_path).engine.run(parse_one("SELECT patient_id, age FROM visits")).to_pylist()
    assert found[0] == {"patient_id": "a", "age": 12.0}
    assert all(row["age"] is None or isinstance(row["age"], float) for row in found)


def test_a_csv_and_a_parquet_file_give_the_same_table(tmp_path: Path) -> None:
    table = visits().drop_columns(["age"]).append_column("age", pa.array([float(i % 90) for i in range(241)]))
    csv.write_csv(table, tmp_path / "visits.csv")
    found = opened(changed(("visits.parquet", "visits.csv")), tmp_path).engine
    assert found.run(parse_one("SELECT * FROM visits")).equals(table.select(["patient_id", "region", "ward", "age"]))


def test_a_copy_of_a_file_has_no_second_budget(tmp_path: Path) -> None:
    parquet.write_table(visits(), tmp_path / "visits.parquet")
    ledger = book(tmp_path)
    run(JOB, base=tmp_path, ledger=ledger, report=False)
    (tmp_path / "copy.parquet").write_bytes((tmp_path / "visits.parquet").read_bytes())
    again = changed(("visits.parquet", "copy.parquet"), ("title: Visits", "title: Others"), ("folder: out", "folder: more"))
    with pytest.raises(ValueError, match="refuses"):
        run(again, base=tmp_path, ledger=ledger, report=False)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (visits().drop_columns(["age"]), "columns.age: table 'visits' has no such column"),
        (visits().set_column(3, "age", pa.array(["old"] * 241)), "columns.age: is declared as number, but table 'visits' has VARCHAR"),
    ],
    ids=["missing", "type"],
)
def test_a_schema_that_drifted_is_refused_before_any_charge(tmp_path: Path, table: pa.Table, said: str) -> None:
    parquet.write_table(table, tmp_path / "visits.parquet")
    ledger = book(tmp_path)
    with pytest.raises(JobError, match=said):
        run(JOB, base=tmp_path, ledger=ledger, report=False)
    assert not ledger.accounts() and not (tmp_path / ".out.run").exists()


@pytest.mark.parametrize(
    ("name", "said"), [("visits.parquet", "there is no file 'visits.parquet'"), ("visits.xls", "neither CSV nor Parquet")]
)
def test_a_file_that_is_not_there_is_refused(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "visits.xls").write_text("x")
    with pytest.raises(JobError, match=said):
        opened(changed(("visits.parquet", name)), tmp_path)


def test_a_broken_file_says_nothing_of_its_content(tmp_path: Path) -> None:
    (tmp_path / "visits.parquet").write_text(f"PAR1 {CANARY}")
    with pytest.raises(JobError) as caught:
        opened(JOB, tmp_path)
    assert CANARY not in str(caught.value) and caught.value.__cause__ is None and caught.value.__context__ is None


@pytest.mark.parametrize(
    ("new", "said"),
    [
        ("{url: 'postgresql://ann:hunter2@db.example.org/x', table: others}", "by its own name"),
        ("{url: 'oracle://ann:hunter2@db.example.org/x', table: visits}", "not supported"),
        ("{path: visits.duckdb, table: visits}", "there is no file"),
        ("{path: visits.csv}, other: {url: 'postgresql://h/x', table: other, public: true}", "cannot be mixed"),
    ],
    ids=["name", "scheme", "absent", "mixed"],
)
def test_a_database_that_cannot_be_used_is_refused_without_its_password(tmp_path: Path, new: str, said: str) -> None:
    (tmp_path / "visits.csv").write_text("patient_id,region,ward,age\n")
    pairs = [("{path: visits.parquet}", new)]
    if "other:" in new:
        pairs += [(f"{name}: {{type:", f"{name}: {{table: visits, type:") for name in ("patient_id", "region", "ward", "age")]
    with pytest.raises(JobError, match=said) as caught:
        opened(changed(*pairs), tmp_path)
    assert "hunter2" not in str(caught.value)


def test_a_duckdb_file_is_a_source(tmp_path: Path) -> None:
    import duckdb

    with duckdb.connect(str(tmp_path / "book.duckdb")) as connection:
        connection.register("rows", visits())
        connection.execute("CREATE TABLE visits AS SELECT * FROM rows")
    job = changed(("{path: visits.parquet}", "{path: book.duckdb, table: visits}"))
    done = run(job, base=tmp_path, ledger=book(tmp_path), report=False)
    assert done.answers["by_region"].keys["region"] == ["north", "south"]


SEVERAL = (
    ("sources: {visits: {path: visits.parquet}}", "sources: {visits: {PLACE, table: visits}, wards: {PLACE, table: wards, public: true}}"),
    (
        "patient_id: {type: text}",
        "patient_id: {type: text, table: visits}\n  wards.ward: {type: text}\n  beds: {type: integer, table: wards}",
    ),
    ("region: {type: text,", "region: {type: text, table: visits,"),
    ("ward: {type: text}\n  age: {type: number,", "ward: {type: text, table: visits}\n  age: {type: number, table: visits,"),
    ("SELECT COUNT(*) AS n FROM visits,", "'SELECT COUNT(*) AS n FROM visits v JOIN wards w ON v.ward = w.ward WHERE w.beds > 3',"),
)
WARDS = pa.table({"ward": ["A", "B"], "beds": [2, 9]})


def several(place: str) -> Job:
    """The job over two tables of one database."""
    return changed(*((old, new.replace("PLACE", place)) for old, new in SEVERAL))


def test_several_tables_of_a_duckdb_file(tmp_path: Path) -> None:
    import duckdb

    with duckdb.connect(str(tmp_path / "book.duckdb")) as connection:
        for name, table in (("visits", visits()), ("wards", WARDS)):
            connection.register("rows", table)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM rows")
    with test_mode(2):
        done = run(several("path: book.duckdb"), base=tmp_path, ledger=book(tmp_path), report=False)
    assert 60 < done.answers["overall"]["n"][0] < 180  # of 240 visits those in ward B


def test_several_tables_of_postgres(tmp_path: Path) -> None:
    url = servers.postgres("jobs")
    servers.load_postgres(url, "visits", visits())
    servers.load_postgres(url, "wards", WARDS)
    with test_mode(2):
        done = run(several(f"url: '{url}'"), base=tmp_path, ledger=book(tmp_path), report=False)
    assert 60 < done.answers["overall"]["n"][0] < 180


def test_tables_of_a_spark_server(tmp_path: Path) -> None:
    server = servers.spark()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyspark's own, on newer Python and pandas
        for name, table in (("visits", visits()), ("wards", WARDS)):
            parquet.write_table(table, tmp_path / f"{name}.parquet")
            server.session.sql(f"CREATE TABLE {name} USING parquet LOCATION '{tmp_path / name}.parquet'")
        try:
            with test_mode(2):
                done = run(several(f"url: '{server.address}'"), base=tmp_path, ledger=book(tmp_path), report=False)
        finally:
            for name in ("visits", "wards"):
                server.session.sql(f"DROP TABLE {name}")
    assert 60 < done.answers["overall"]["n"][0] < 180


def test_tables_of_different_databases_are_refused(tmp_path: Path) -> None:
    two = SEVERAL[0][1].replace("PLACE", "path: a.duckdb", 1).replace("PLACE", "path: b.duckdb", 1)
    with pytest.raises(JobError, match="one database"):
        opened(changed((SEVERAL[0][0], two), *SEVERAL[1:]), tmp_path)


@pytest.mark.parametrize("name", ["names.csv", "names.pq"])
def test_a_plan_knows_the_public_tables_that_it_joins(tmp_path: Path, name: str) -> None:
    """Where nothing is capped, how many rows of a public table one row meets is part of the price: a list with each region twice costs
    more than one with each once, whatever kind of file it is in."""
    text = TEXT.replace(
        "sources: {visits: {path: visits.parquet}}", f"sources: {{visits: {{path: v.parquet}}, names: {{path: {name}, public: true}}}}"
    )
    text = text.replace("{person: patient_id, max_rows: 3, adjacency: add-remove}", "{row: true, adjacency: add-remove}")
    text = re.sub(r"(?m)^  (patient_id|region|ward|age): \{", r"  \1: {table: visits, ", text)
    text = text.replace("outputs:", "  code: {type: text, table: names}\noutputs:")
    text = text.replace("COUNT(*) AS n FROM visits, w", "COUNT(*) AS n FROM visits JOIN names ON visits.region = names.code, w")
    errors = []
    for codes in (["north", "south"], ["north", "south", "south"]):
        if name.endswith("csv"):
            (tmp_path / name).write_text("\n".join(["code", *codes]) + "\n")
        else:
            parquet.write_table(pa.table({"code": codes}), tmp_path / name)
        errors.append(plan(parse(text), base=tmp_path)["overall"].errors["n"])
    assert errors[1] > 1.5 * errors[0]
