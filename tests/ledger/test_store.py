"""Where a book may be, and that a file and a server keep the same book."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest
import sqlalchemy as sa

from tacit.accounting import PureDP
from tacit.ledger import Budget, BudgetExceeded, DataIdentity, Ledger, LedgerError, LedgerUnwritable
from tacit.ledger.store import Store, file_of, run

OLD = Path(__file__).with_name("book_through_sqlalchemy.sql")
#: The head that the old book's own writer printed.
HEAD = "10:5a1ea42d34231ba7b5b7c8a1f2aa6586ab412a05d74d65ee47ae80b1b39d09ac"


@pytest.mark.parametrize("wrong", ["sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite:///file:x?mode=memory&uri=true"])
def test_a_book_in_memory_is_refused(wrong: str) -> None:
    with pytest.raises(LedgerError, match="forgets"):
        Store(wrong)


@pytest.mark.parametrize("wrong", ["sqlite://host/book.db", "sqlite:///book.db?cache=shared", "sqlite+aiosqlite:///book.db"])
def test_a_file_is_written_in_one_way(wrong: str) -> None:
    with pytest.raises(LedgerError, match="sqlite:///"):
        Store(wrong)


def test_the_path_is_what_sqlalchemy_reads() -> None:
    """The oracle: SQLAlchemy's own reading of the URL."""
    for url in ("sqlite:///a.db", "sqlite:////tmp/a b.db", "sqlite+pysqlite:///x/y.db", "sqlite:///100%25.db", "sqlite:///ö.db"):
        assert file_of(url) == sa.make_url(url).database
    for url in ("postgresql://host/db", "nonsense", "", None):
        assert file_of(url) is None  # type: ignore[arg-type]


def old_book(tmp_path: Path) -> Path:
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(OLD.read_text())
    return path


def test_a_book_written_through_sqlalchemy_goes_on(tmp_path: Path) -> None:
    path = old_book(tmp_path)
    with Ledger.open(f"sqlite:///{path}", create=False) as ledger:
        found = ledger.verify(head=HEAD)
        assert found.ok and found.entries == 10 and found.open == (7,)
        account = ledger.account("visits", Budget(epsilon=1))
        assert account.spent()["pure"] == Fraction(3, 5)
        account.spend(PureDP(Fraction(2, 5)))
        with pytest.raises(BudgetExceeded):
            account.spend(PureDP(Fraction(1, 10**9)))
        assert ledger.verify(head=HEAD).ok


def test_a_book_of_ours_can_be_read_and_continued_through_sqlalchemy(tmp_path: Path) -> None:
    """Another connection than ours sees the entries, and its additions are ours: here a line that our verification then refuses."""
    url = f"sqlite:///{tmp_path / 'book.db'}"
    with Ledger.open(url) as ledger:
        ledger.account("visits", Budget(epsilon=1)).spend(PureDP(Fraction(1, 4)))
        engine = sa.create_engine(url)
        with engine.connect() as connection:
            kinds = connection.execute(sa.text("SELECT kind FROM tacit_entries ORDER BY seq")).scalars().all()
            names = connection.execute(sa.text("SELECT name, account FROM tacit_names")).all()
        assert kinds == ["genesis", "account", "identity", "spend"] and [tuple(row) for row in names] == [("visits", 2)]
        with engine.begin() as connection:
            connection.execute(sa.text("INSERT INTO tacit_names (name, account) VALUES ('alias', 2)"))
        engine.dispose()
        assert ledger.account("alias").spent()["pure"] == Fraction(1, 4)
        assert not ledger.verify().ok


def test_values_have_their_places_on_either_database(url: str) -> None:
    with Ledger.open(url) as ledger:
        found = ledger.store.read(lambda connection: run(connection, "SELECT name FROM tacit_facts WHERE name = ?", ("secret",)).fetchall())
        assert [tuple(row) for row in found] == [("secret",)]


def test_a_book_that_stays_locked_is_given_up_after_the_timeout(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'book.db'}"
    with Ledger.open(url, timeout=0.1) as ledger, closing(sqlite3.connect(tmp_path / "book.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        calls: list[int] = []
        with pytest.raises(LedgerError, match=r"more than 0\.1 seconds; nothing was spent"):
            ledger.store.write(lambda connection: calls.append(1))
        assert not calls
        other.execute("ROLLBACK")


def test_a_file_needs_no_engine(tmp_path: Path) -> None:
    """What a file's book runs on is the standard library; the patch of SQLAlchemy below would fail at its first use."""
    code = (
        "import sys; from tacit.ledger.store import Store, run; sys.modules['sqlalchemy'] = None\n"
        "store = Store(sys.argv[1]); store.create(lambda connection: None)\n"
        "print(store.exists(), store.read(lambda c: run(c, 'SELECT COUNT(*) FROM tacit_entries').fetchone()[0]))"
    )
    command = [sys.executable, "-c", code, f"sqlite:///{tmp_path / 'book.db'}"]
    assert subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout.split() == ["True", "0"]
    with pytest.raises(LedgerError, match="no engine"):
        Store(f"sqlite:///{tmp_path / 'book.db'}").engine()


def test_a_book_is_read_again_after_its_server_was_started_again(postgres_url: str) -> None:
    """A connection that was cut is no fault of the book's. Who reads looks once more; who spends is refused, and asks again."""
    admin = sa.create_engine(postgres_url, isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)

    def cut() -> int:
        others = "FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()"
        with admin.connect() as connection:
            return int(connection.execute(sa.text(f"SELECT COUNT(pg_terminate_backend(pid)) {others}")).scalar_one())

    with Ledger.open(postgres_url) as ledger:
        account = ledger.account("visits", Budget(epsilon=1), data=DataIdentity.declared("visits"))
        account.spend(PureDP(0.25))
        assert cut() > 0
        assert account.left()["pure"] == Fraction("0.75")
        assert cut() > 0
        with pytest.raises(LedgerUnwritable):
            account.spend(PureDP(0.25))
        account.spend(PureDP(0.25))
        assert account.left()["pure"] == Fraction("0.5")
    admin.dispose()
