"""The same rows under another name, in another format, behind a view or a link: one account, one budget.

Each attack opens an account and then asks again for the same rows on the same book. `fresh` says whether it got a budget. The mutant is
the identity of earlier versions, bytes and addresses alone, under which most of these had one.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from tests.release import jobs
from tests.tables.engines import servers

import tacit
from tacit.ledger import Budget, BudgetExceeded, DataIdentity, Ledger, LedgerError
from tacit.release.running import run
from tacit.tables import Source, TableError
from tacit.tables import source as sources
from tacit.tables.session import SameData

ROWS = pa.table(
    {
        "id": [1, 2, 3, 4, 5],
        "age": [31.5, 40.0, 0.1, None, 77.25],
        "name": ["Ada", "bob", "a,b", "Zoë", None],
        "day": pa.array(["2026-01-31", "2026-02-01", None, "1999-12-31", "2026-02-28"], pa.string()).cast(pa.date32()),
        "well": [True, False, True, None, False],
    }
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same rows in every form."""
    folder = tmp_path_factory.mktemp("forms")
    parquet.write_table(ROWS, folder / "rows.parquet")
    parquet.write_table(ROWS.slice(2).select(["name", "id", "day", "age", "well"]), folder / "part1.parquet")
    parquet.write_table(ROWS.slice(0, 2).select(["name", "id", "day", "age", "well"]), folder / "part2.parquet")
    csv.write_csv(ROWS, folder / "rows.csv")
    connection = duckdb.connect(str(folder / "rows.duckdb"))
    connection.register("given", ROWS)
    connection.execute("CREATE TABLE people AS SELECT * FROM given")
    connection.execute("CREATE VIEW everyone AS SELECT * FROM people")
    connection.execute("CREATE VIEW older AS SELECT id, age FROM everyone WHERE id > 2")
    connection.execute(f"CREATE VIEW outside AS SELECT * FROM read_parquet('{folder / 'rows.parquet'}')")
    connection.execute(f"CREATE VIEW quoted AS SELECT * FROM '{folder / 'rows.parquet'}'")
    connection.close()
    shutil.copy(folder / "rows.duckdb", folder / "copy.duckdb")
    os.link(folder / "rows.duckdb", folder / "linked.duckdb")
    (folder / "symbolic.duckdb").symlink_to(folder / "rows.duckdb")
    return folder


FORMS: dict[str, Callable[[Path], Any]] = {
    "parquet": lambda folder: folder / "rows.parquet",
    "parts": lambda folder: str(folder / "part*.parquet"),
    "csv": lambda folder: folder / "rows.csv",
    "arrow": lambda folder: ROWS,
    "other order": lambda folder: ROWS.take([4, 2, 0, 1, 3]).select(["well", "age", "id", "day", "name"]),
    "pandas of parquet": lambda folder: pd.read_parquet(folder / "rows.parquet"),
    "pandas of csv": lambda folder: pd.read_csv(folder / "rows.csv"),
    "polars": lambda folder: pl.read_parquet(folder / "rows.parquet"),
    "polars of csv": lambda folder: pl.read_csv(folder / "rows.csv"),
    "float32": lambda folder: ROWS.set_column(1, "age", ROWS["age"].cast(pa.float32())),
    "capital names": lambda folder: ROWS.rename_columns([name.upper() for name in ROWS.column_names]),
    "table": lambda folder: Source.of(folder / "rows.duckdb", table="people"),
    "view": lambda folder: Source.of(folder / "rows.duckdb", table="everyone"),
    "copy": lambda folder: Source.of(folder / "copy.duckdb", table="people"),
    "hard link": lambda folder: Source.of(folder / "linked.duckdb", table="people"),
    "symbolic link": lambda folder: Source.of(folder / "symbolic.duckdb", table="people"),
}


def _source(data: Any, name: str) -> Source:
    return data if isinstance(data, Source) else Source.of(data, name=name)


def fresh(book: Ledger, data: Any, name: str) -> bool:
    """Whether these rows get a budget of their own under a new name."""
    found = _source(data, name)
    account = book.account(name, Budget(epsilon=1), data=list(found.identities(book.knows)))
    found.close()
    return account.name == name


@pytest.mark.parametrize("first", ["csv", "pandas of parquet", "table"])
def test_no_form_of_the_same_rows_has_a_budget_of_its_own(place: Path, tmp_path: Path, first: str) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'book.db'}") as book:
        assert fresh(book, FORMS[first](place), "spent")
        found = {name: fresh(book, form(place), name) for name, form in FORMS.items() if name != first}
        assert not any(found.values()), found
        assert len(book.accounts()) == 1 and book.verify().ok


@pytest.fixture
def bytes_alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The mutant: no digest of rows, as in earlier versions."""
    monkeypatch.setattr(sources, "_content", lambda engine, table, *place: sources._of_rows(engine, table))
    monkeypatch.setattr(sources.Known, "found", lambda self, known: self.first())
    yield


def test_by_bytes_and_addresses_alone_most_have(bytes_alone: None, place: Path, tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'book.db'}") as book:
        assert fresh(book, FORMS["parquet"](place), "spent")
        found = {name: fresh(book, form(place), name) for name, form in FORMS.items() if name != "parquet"}
        assert sum(found.values()) >= 5 and found["pandas of parquet"] and found["copy"]


def test_other_rows_are_other_data(place: Path, tmp_path: Path) -> None:
    others = [ROWS.slice(1), pa.concat_tables([ROWS, ROWS.slice(0, 1)]), ROWS.drop_columns(["age"]), ROWS.slice(0, 0)]
    changed = ROWS.set_column(0, "id", pa.array([1, 2, 3, 4, 6]))
    with Ledger.open(f"sqlite:///{tmp_path / 'book.db'}") as book:
        assert all(fresh(book, table, f"data {number}") for number, table in enumerate([ROWS, *others, changed]))


def test_empty_tables_are_not_one_data_set(tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'book.db'}") as book:
        assert all(fresh(book, ROWS.slice(0, 0), f"month {number}") for number in range(3))


def test_a_view_on_part_of_the_rows_is_paid_by_its_table(place: Path, tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'book.db'}") as book:
        assert fresh(book, FORMS["table"](place), "spent")
        assert not fresh(book, Source.of(place / "rows.duckdb", table="older"), "a view")
        assert not fresh(book, Source.of(place / "copy.duckdb", table="older"), "a view of a copy")


@pytest.mark.parametrize("view", ["outside", "quoted"])
def test_a_view_that_reads_a_file_that_was_not_named_is_refused(place: Path, view: str) -> None:
    with pytest.raises(TableError) as caught:
        Source.of(place / "rows.duckdb", table=view)
    assert caught.value.code == "view-reads-files"


def test_a_file_of_an_old_book_is_still_found_and_from_then_on_its_rows_too(place: Path, tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'book.db'}") as book:
        book.account("old", Budget(epsilon=1), data=DataIdentity.file(place / "rows.parquet"))  # all that earlier versions wrote
        table = Source.of(ROWS, name="old frame")
        book.account("old frame", Budget(epsilon=1), data=sources._of_rows(table.engine, "old frame"))  # type: ignore[arg-type]
        assert not fresh(book, ROWS.take([4, 2, 0, 1, 3]), "and now")
    with Ledger.open(f"sqlite:///{tmp_path / 'second.db'}") as book:
        book.account("old", Budget(epsilon=1), data=DataIdentity.file(place / "rows.parquet"))
        assert not fresh(book, place / "rows.parquet", "new")
        assert not fresh(book, pd.read_parquet(place / "rows.parquet"), "newer")


def test_rows_are_read_once_for_a_file(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    plain = sources._content
    monkeypatch.setattr(sources, "_content", lambda *given: reads.append(given) or plain(*given))
    with Ledger.open(f"sqlite:///{tmp_path / 'book.db'}") as book:
        for _ in range(3):
            fresh(book, place / "rows.csv", "a")
            fresh(book, Source.of(place / "copy.duckdb", table="people"), "b")
    assert len(reads) == 2


def test_a_session_warns_and_shares_the_budget(place: Path, tmp_path: Path) -> None:
    with Ledger.open(f"sqlite:///{tmp_path / 'book.db'}") as book:
        terms: dict[str, Any] = {"unit": tacit.Unit("id", max_rows=1), "budget": tacit.Budget(epsilon=1), "ledger": book}
        tacit.Session(place / "rows.parquet", name="people", **terms).sql("SELECT COUNT(*) AS n FROM people", epsilon=1)
        with pytest.warns(SameData, match="'people'.*new_dataset=True"):
            again = tacit.Session(pd.read_parquet(place / "rows.parquet"), name="frame", **terms)
        with pytest.raises(BudgetExceeded):
            again.sql("SELECT COUNT(*) AS n FROM frame", epsilon=0.1)
        with pytest.raises(LedgerError, match="different accounts"):
            book.account("declared", Budget(epsilon=1))
            tacit.Session(ROWS, name="x", data="declared", **terms)  # a declared name does not hide what the rows say
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            other = tacit.Session(ROWS, name="a twin", new_dataset=True, **terms)
            assert other.left()["pure"] == 1
            other.sql('SELECT COUNT(*) AS n FROM "a twin"', epsilon=0.5)
            later = tacit.Session(ROWS, name="a twin", **terms)  # the book remembers what was said
        assert float(later.left()["pure"]) == 0.5 and book.verify().ok


def test_a_job_notes_it_and_takes_the_word_of_its_curator(tmp_path: Path) -> None:
    ledger = jobs.book(tmp_path)
    parquet.write_table(jobs.visits(), tmp_path / "visits.parquet")
    run(jobs.changed(), base=tmp_path, ledger=ledger, report=False)
    csv.write_csv(jobs.visits(), tmp_path / "visits.csv")
    renamed = jobs.changed(("title: Visits", "title: Others"), ("visits.parquet", "visits.csv"), ("folder: out", "folder: more"))
    with pytest.raises(BudgetExceeded):
        run(renamed, base=tmp_path, ledger=ledger, report=False)
    (tmp_path / ".more.run").unlink()
    with pytest.raises(LedgerError, match="stands for account 'Visits'"):
        run(renamed, base=tmp_path, ledger=ledger, report=False, new_dataset=True)
    renamed = jobs.changed(("title: Visits", "title: Twins"), ("visits.parquet", "visits.csv"), ("folder: out", "folder: more"))
    done = run(renamed, base=tmp_path, ledger=ledger, report=False, new_dataset=True)
    assert not [note for note in done.notes if "another name" in note] and len(ledger.accounts()) == 2


def test_the_book_shows_nothing_of_the_rows(place: Path, tmp_path: Path) -> None:
    file = tmp_path / "book.db"
    with Ledger.open(f"sqlite:///{file}") as book:
        found = Source.of(place / "rows.parquet", name="x")
        identities = found.identities()
        book.account("x", Budget(epsilon=1), data=list(identities))
        stored = "".join(str(entry) for entry in book.entries())
    assert not [one for one in identities if one.digest.hex() in stored or one.digest.hex() in repr(one)]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e308, 5e-324, -0.0, 2.0**63, 1e39])
def test_no_number_makes_the_digest_fail(value: float) -> None:
    table = pa.table({"x": [value, 1.0], "t": [repr(value), "2026-99-99 00:00:00"], "l": [[value], [1.0]]})
    assert Source.of(table).identity() == Source.of(table.take([1, 0])).identity()


def test_a_server_knows_its_tables_however_they_are_spelt(tmp_path: Path) -> None:
    """Other spellings of the table and of the address, and views of it."""
    pytest.importorskip("psycopg")
    import psycopg

    plain = servers.postgres("budgets")
    with psycopg.connect(plain, autocommit=True) as connection:
        for statement in (
            "CREATE SCHEMA IF NOT EXISTS clinic", "DROP TABLE IF EXISTS clinic.visits CASCADE",
            "CREATE TABLE clinic.visits (id int, age int) PARTITION BY RANGE (id)",
            "CREATE TABLE clinic.early PARTITION OF clinic.visits FOR VALUES FROM (0) TO (100)",
            "CREATE VIEW clinic.seen AS SELECT id FROM clinic.visits WHERE age > 3",
            "CREATE VIEW clinic.again AS SELECT * FROM clinic.seen",
            "CREATE TABLE clinic.other (id int)",
        ):
            connection.execute(statement.encode())
    other = plain + ("&" if "?" in plain else "?") + "application_name=x"
    with Ledger.open(f"sqlite:///{tmp_path / 'book.db'}") as book:
        assert fresh(book, Source.of(plain, table="clinic.visits"), "spent")
        for number, (url, table) in enumerate(
            [(plain, "CLINIC.visits"), (plain, '"clinic"."visits"'), (other, "clinic.visits"), (plain, "clinic.early"),
             (plain, "clinic.seen"), (plain, "clinic.again"), (plain.replace("postgresql://", "postgres://"), "clinic.visits")]
        ):
            assert not fresh(book, Source.of(url, table=table), f"again {number}"), table
        searched = plain + ("&" if "?" in plain else "?") + "options=-csearch_path%3Dclinic"
        assert not fresh(book, Source.of(searched, table="visits"), "by search path")
        assert fresh(book, Source.of(plain, table="clinic.other"), "other")


def test_a_spark_frame_under_another_name(tmp_path: Path) -> None:
    session = servers.spark().session.newSession()
    frame = session.createDataFrame([(1, "a", 2.5), (2, None, None), (3, "c", 0.1)], "id int, name string, x double")
    with Ledger.open(f"sqlite:///{tmp_path / 'book.db'}") as book:
        assert fresh(book, Source.of(frame, name="spent"), "spent")
        assert not fresh(book, Source.of(frame.orderBy("x").select("x", "name", "id"), name="again"), "again")
        frame.createOrReplaceTempView("catalogued")
        assert not fresh(book, Source.of(session, name="t", table="catalogued"), "from the catalogue")
        assert fresh(book, Source.of(frame.where("id > 1"), name="other"), "other")
