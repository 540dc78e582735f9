"""The tables are those of every book so far: the stored dump was written through SQLAlchemy, before files were opened without it."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import pytest

from tacit.ledger import Ledger
from tacit.ledger.store import statements

OLD = Path(__file__).with_name("book_through_sqlalchemy.sql")


def shape(connection: sqlite3.Connection) -> dict[str, str]:
    """Every table, index and trigger with its definition, whatever the spaces in it."""
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    return {name: re.sub(r"\s*([(),])\s*", r"\1", re.sub(r"\s+", " ", sql)) for name, sql in rows}


def test_a_new_book_has_exactly_the_tables_of_an_old_one(tmp_path: Path) -> None:
    """So each version of the package opens the other's books."""
    old = sqlite3.connect(":memory:")
    old.executescript(OLD.read_text())
    with Ledger.open(f"sqlite:///{tmp_path / 'new.db'}"):
        new = sqlite3.connect(tmp_path / "new.db")
        assert shape(new) == shape(old)
        new.close()
    assert len(shape(old)) == 11
    old.execute("DROP TRIGGER tacit_no_delete")  # the mutant: a trigger is missing
    assert len(shape(old)) == 10
    old.close()


def test_the_number_of_an_entry_is_the_number_of_the_row() -> None:
    """SQLite's BIGINT PRIMARY KEY would be an index beside the rows; INTEGER is the row's own number. PostgreSQL has 64 bits either way."""
    connection = sqlite3.connect(":memory:")
    for statement in statements("sqlite"):
        connection.execute(statement)
    connection.execute("INSERT INTO tacit_entries (seq, kind, body, hash) VALUES (41, 'k', 'b', 'h')")
    assert connection.execute("SELECT rowid FROM tacit_entries").fetchone() == (41,)
    assert "seq BIGINT" in statements("postgresql")[2]
    with pytest.raises(sqlite3.IntegrityError, match="never changed"):
        connection.execute("DELETE FROM tacit_entries")
    connection.close()
