"""Sources: opened before anything is charged; what does not fit the declaration is refused without a word from the rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from sqlglot import parse_one
from tests.release.jobs import CANARY, book, changed, visits

from tacit.release.errors import JobError
from tacit.release.running import run
from tacit.release.sources import blank, opened

JOB = changed()


def test_blank_tables_have_the_declared_columns_and_no_rows() -> None:
    found = blank(JOB).run(parse_one("SELECT * FROM visits"))
    assert found.num_rows == 0 and found.column_names == ["patient_id", "region", "ward", "age"]


def test_a_parquet_file_is_read_in_place(tmp_path: Path) -> None:
    parquet.write_table(visits(), tmp_path / "visits.parquet")
    found = opened(JOB, tmp_path)
    assert found.engine.run(parse_one("SELECT COUNT(*) AS n FROM visits")).to_pydict() == {"n": [241]}
    assert [identity.kind for identity in found.identities] == ["content"]


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
    assert not ledger.accounts() and not (tmp_path / ".out.work").exists()


@pytest.mark.parametrize(("name", "said"), [("visits.parquet", "no such file"), ("visits.xls", "neither CSV nor Parquet")])
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
