"""A book of a format that is not known is left as it is; a book that is not the one that was opened grants nothing."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from tacit.accounting import PureDP
from tacit.ledger import Account, Budget, Ledger, LedgerError
from tacit.ledger.store import BookFile


def _opened(file: Path) -> tuple[Ledger, Account]:
    ledger = Ledger.open(f"sqlite:///{file}")
    return ledger, ledger.account("visits", Budget(epsilon=1))


@pytest.mark.parametrize("found", ["2", "1.1", "0", "", "999999999999999999999999999999"])
@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_a_book_of_an_unknown_format_is_not_written_to(tmp_path: Path, found: str, mode: str) -> None:
    file = tmp_path / "book.db"
    _opened(file)[0].close()
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE tacit_facts SET value = ? WHERE name = 'format'", (found,))
        connection.commit()
        connection.execute(f"PRAGMA journal_mode={mode}")
    before = file.read_bytes()
    with pytest.raises(LedgerError) as caught:
        Ledger.open(f"sqlite:///{file}")
    assert caught.value.code == "ledger-format" and len(str(caught.value)) < 300
    assert file.read_bytes() == before


def test_a_book_that_becomes_newer_under_a_live_process_is_refused(tmp_path: Path) -> None:
    ledger, account = _opened(tmp_path / "book.db")
    with closing(sqlite3.connect(tmp_path / "book.db")) as other, other:
        other.execute("UPDATE tacit_facts SET value = '2' WHERE name = 'format'")
    with pytest.raises(LedgerError) as caught:
        account.spend(PureDP(0.1))
    assert caught.value.code == "ledger-format"
    ledger.close()


def test_the_same_on_a_server(postgres_url: str) -> None:
    ledger = Ledger.open(postgres_url)
    account = ledger.account("visits", Budget(epsilon=1))
    account.spend(PureDP(0.1))
    with ledger.store.engine().begin() as connection:
        connection.execute(sa.text("UPDATE tacit_facts SET value = '2' WHERE name = 'format'"))
    for attempt in (lambda: account.spend(PureDP(0.1)), lambda: Ledger.open(postgres_url)):
        with pytest.raises(LedgerError) as caught:
            attempt()
        assert caught.value.code == "ledger-format"
    ledger.close()


CHANGES = ["deleted", "moved", "replaced by a new book", "replaced by an older copy", "replaced by an empty file"]


def _changed(how: str, file: Path) -> None:
    for part in ("", "-wal", "-shm"):
        if os.path.exists(f"{file}{part}"):
            os.rename(f"{file}{part}", f"{file}.away{part}")
    if how == "replaced by a new book":
        Ledger.open(f"sqlite:///{file}").account("visits", Budget(epsilon=1))
    elif how == "replaced by an older copy":
        shutil.copy(file.with_name("older.db"), file)
    elif how == "replaced by an empty file":
        file.touch()
    elif how == "deleted":
        for part in ("", "-wal", "-shm"):
            Path(f"{file}.away{part}").unlink(missing_ok=True)


@pytest.mark.parametrize("how", CHANGES)
def test_a_book_that_is_gone_grants_nothing(tmp_path: Path, how: str) -> None:
    file = tmp_path / "book.db"
    _opened(file)[0].close()
    shutil.copy(file, tmp_path / "older.db")
    ledger, account = _opened(file)
    account.spend(PureDP(0.5))
    payment = account.paying(PureDP(0.1)).open()
    _changed(how, file)
    for attempt in (lambda: account.spend(PureDP(0.5)), account.left, payment.commit, lambda: ledger.account("x", Budget(epsilon=1))):
        with pytest.raises(LedgerError) as caught:
            attempt()
        assert caught.value.code == "ledger-replaced"
    if how in ("deleted", "moved"):
        assert not file.exists()  # asking did not make a new one
    ledger.close()


def test_a_book_that_goes_while_an_entry_is_written_grants_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "book.db"
    ledger, account = _opened(file)
    plain = type(ledger.store).sync

    def moved(self: object) -> None:
        plain(ledger.store)
        os.rename(file, tmp_path / "away.db")

    monkeypatch.setattr(type(ledger.store), "sync", moved)
    with pytest.raises(LedgerError) as caught:
        account.spend(PureDP(0.5))
    assert caught.value.code == "ledger-replaced"
    ledger.close()


def test_an_older_copy_in_the_same_file_is_noticed(tmp_path: Path) -> None:
    """Written over in place, the file has the same number: the book has become shorter."""
    file = tmp_path / "book.db"
    _opened(file)[0].close()
    older = file.read_bytes()
    ledger, account = _opened(file)
    account.spend(PureDP(0.5))
    ledger.close()
    file.write_bytes(older)
    with pytest.raises(LedgerError) as caught:
        account.spend(PureDP(0.75))
    assert caught.value.code == "ledger-replaced"


def test_without_the_look_a_deleted_book_goes_on_granting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: the same attack finds what is booked nowhere."""
    monkeypatch.setattr(BookFile, "check", lambda self: None)
    file = tmp_path / "book.db"
    ledger, account = _opened(file)
    account.spend(PureDP(0.5))
    _changed("deleted", file)
    assert account.spend(PureDP(0.5)).entry and not file.exists()
    ledger.close()


def test_a_child_after_a_fork_looks_too(tmp_path: Path) -> None:
    file = tmp_path / "book.db"
    ledger, account = _opened(file)
    account.spend(PureDP(0.1))
    _changed("replaced by a new book", file)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            account.spend(PureDP(0.1))
        except LedgerError as error:
            status = 0 if error.code == "ledger-replaced" else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    ledger.close()
