"""Released tables in a DuckDB file and in PostgreSQL: what the folder holds, whole or not at all, and never over foreign tables."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.ledger.conftest import postgres, postgres_url

from tacit.ledger import Ledger
from tacit.release import JobError, parse, run
from tacit.release.in_database import LIST, into
from tacit.release.job import EXAMPLE
from tacit.release.job_parts import InDatabase

__all__ = ["postgres", "postgres_url"]  # fixtures
VISITS = pa.table({"patient_id": [1, 1, 2, 3], "region": ["north", "south", "north", "south"]})
RELEASE = {"title": "Visits", "time": "2026-01-31", "run": "a1"}


def job(folder: str, database: str) -> Any:
    text = EXAMPLE.replace("folder: release", f"folder: {folder}, database: {{{database}}}").replace("[csv]", "[csv, parquet]")
    return parse(text + "account: {name: visits, budget: {epsilon: 4, delta: 1e-5}}\n")


def read(place: Path, table: str) -> list[Any]:
    with duckdb.connect(str(place), read_only=True) as database:
        return database.execute(f"SELECT * FROM released.{table} ORDER BY ALL").fetchall()


def test_a_job_writes_what_its_folder_holds_and_the_next_takes_its_place(tmp_path: Path) -> None:
    book = Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}")
    for folder in ("first", "second"):
        run(job(folder, "file: out.duckdb"), base=tmp_path, ledger=book, tables={"visits": VISITS}, report=False)
        wanted = sorted(tuple(row.values()) for row in pq.read_table(tmp_path / folder / "by_region.parquet").to_pylist())
        assert read(tmp_path / "out.duckdb", "by_region") == wanted
    (name, title, _, token), = read(tmp_path / "out.duckdb", LIST)
    assert (name, title) == ("by_region", parse(EXAMPLE).title) and token


def test_a_file_of_the_schemas_name_is_written_too(tmp_path: Path) -> None:
    into(InDatabase(file="released.duckdb"), tmp_path, {"by_region": VISITS}, RELEASE)
    with duckdb.connect(str(tmp_path / "released.duckdb"), read_only=True) as database:
        assert len(database.execute("SELECT * FROM released.released.by_region").fetchall()) == VISITS.num_rows


def test_a_database_that_fails_is_written_by_running_again_and_nothing_is_paid_twice(tmp_path: Path) -> None:
    book = Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}")
    (tmp_path / "out.duckdb").mkdir()  # not a file
    with pytest.raises(JobError, match="published in its folder") as caught:
        run(job("first", "file: out.duckdb"), base=tmp_path, ledger=book, tables={"visits": VISITS}, report=False)
    assert caught.value.place == "publication.database" and (tmp_path / "first" / "release.json").exists()
    (tmp_path / "out.duckdb").rmdir()
    run(job("first", "file: out.duckdb"), base=tmp_path, ledger=book, tables={"visits": VISITS}, report=False)
    assert len(read(tmp_path / "out.duckdb", "by_region")) == 2
    assert sum(entry["kind"] == "reserve" for entry in book.entries()) == 1


def test_a_table_that_tacit_did_not_write_is_never_touched(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "d.duckdb")) as database:
        database.execute("CREATE SCHEMA released; CREATE TABLE released.by_region AS SELECT 'private' AS row")
    with pytest.raises(JobError, match="did not write"):
        into(InDatabase(file="d.duckdb"), tmp_path, {"other": VISITS, "by_region": VISITS}, RELEASE)
    assert read(tmp_path / "d.duckdb", "by_region") == [("private",)]
    with duckdb.connect(str(tmp_path / "d.duckdb")) as database:  # nor is anything else of that release there
        assert database.execute("SELECT table_name FROM information_schema.tables").fetchall() == [("by_region",)]


def test_postgresql_has_the_same_values_in_types_of_its_own(tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import psycopg

    monkeypatch.setenv("TACIT_TEST_TARGET", postgres_url)
    spec = InDatabase(url_env="TACIT_TEST_TARGET", schema_name="released_here")
    table = pa.table({
        "text": pa.array(["a\tb\\N", None]), "whole": pa.array([2**62, None]), "real": pa.array([0.1, float("inf")]),
        "yes": pa.array([True, None]), "day": pa.array([datetime.date(2026, 1, 31), None]),
        "exact": pa.array([decimal.Decimal("1.50"), None]), 'odd "name"': pa.array([1, 2]),
    })  # fmt: skip
    for _ in range(2):
        into(spec, tmp_path, {"by_region": table}, RELEASE)
    plain = postgres_url.replace("postgresql+psycopg://", "postgresql://")
    with psycopg.connect(plain) as connection:
        found = connection.execute("SELECT * FROM released_here.by_region").fetchall()
        assert [tuple(row.values()) for row in table.to_pylist()] == found
        assert connection.execute(f"SELECT COUNT(*) FROM released_here.{LIST}").fetchone() == (1,)
        connection.execute("CREATE TABLE released_here.patients (name TEXT)")
    with pytest.raises(JobError, match="did not write"):
        into(spec, tmp_path, {"patients": table}, RELEASE)
    with psycopg.connect(plain) as connection:
        connection.execute("DROP SCHEMA released_here CASCADE")


@pytest.mark.parametrize("address", ["", "sqlite:///x.db", "postgresql://u:secret-word@127.0.0.1:1/x"])
def test_an_address_that_does_not_work_is_not_repeated(tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACIT_TEST_TARGET", address)
    with pytest.raises(JobError) as caught:
        into(InDatabase(url_env="TACIT_TEST_TARGET"), tmp_path, {"by_region": VISITS}, RELEASE)
    assert "secret-word" not in str(caught.value) and caught.value.__context__ is None


def test_it_is_refused_before_anything_is_paid(tmp_path: Path) -> None:
    book = Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}")
    with pytest.raises(JobError, match="TACIT_TEST_NO_SUCH"):
        run(job("first", "url_env: TACIT_TEST_NO_SUCH"), base=tmp_path, ledger=book, tables={"visits": VISITS}, report=False)
    assert not any(entry["kind"] == "reserve" for entry in book.entries())
    for wrong in ("file: a, url_env: B", "schema_name: x", "file: a, schema_name: 'x; drop'"):
        with pytest.raises(JobError):
            job("first", wrong)


def test_where_it_is_written_does_not_change_the_job() -> None:
    assert job("r", "file: out.duckdb").digest() == job("r", "file: other.duckdb").digest()
