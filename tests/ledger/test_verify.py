"""Whoever edits, deletes, swaps or cuts the book is found out; whatever the bytes, verification answers and never crashes."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from tacit.accounting import PureDP
from tacit.ledger import Budget, BudgetExceeded, Ledger, LedgerError
from tacit.ledger.journal import canonical, digest, parse_head, sealed
from tacit.ledger.store import Store
from tacit.ledger.verify import Verification, verify


def fill(ledger: Ledger) -> None:
    """A small book with something of every kind in it."""
    top = ledger.account("visits", Budget(epsilon=2, reserve="0.1"), data=["visits", "a copy"])
    ledger.account("second name", data="a copy")
    split = top.child("regions", Budget(epsilon=2), rule="max", cache=True)
    north = split.child("north", Budget(epsilon=1), cache=True)
    with north.reserve(PureDP(0.25), purpose="table", analyst="ann", question="how many") as reservation:
        reservation.commit(answer=41)
    top.spend(PureDP(0.25))
    split.child("south", Budget(epsilon=1)).spend(PureDP(0.125), correction=True)
    with pytest.raises(BudgetExceeded):
        north.spend(PureDP(5))
    months = ledger.account("months", Budget(rho=1), window="month")
    months.spend(PureDP(0.5), period="2026-01")
    months.reserve(PureDP(0.5), period="2026-02")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A filled book in one file, to be copied and damaged."""
    path = tmp_path_factory.mktemp("template") / "book.db"
    with Ledger.open(f"sqlite:///{path}") as ledger:
        fill(ledger)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode=DELETE")
        for trigger in ("tacit_no_update", "tacit_no_delete"):
            connection.execute(f"DROP TRIGGER {trigger}")  # an attacker would
    connection.close()
    return path


@pytest.fixture
def book(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(template, tmp_path / "book.db"))


def changed(book: Path, *statements: str) -> Verification:
    connection = sqlite3.connect(book)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return checked(book)


def checked(book: Path, head: str | None = None) -> Verification:
    store = Store(f"sqlite:///{book}", timeout=0.5)
    try:
        return verify(store, head=head)
    finally:
        store.close()


def test_a_book_that_nobody_touched_is_in_order(book: Path) -> None:
    found = checked(book)
    assert found.ok and found.entries == 16 and len(found.open) == 1
    assert "in order" in str(found)


def test_both_databases_hold_the_same_book(url: str) -> None:
    with Ledger.open(url) as ledger:
        fill(ledger)
        found = ledger.verify()
        assert found.ok and found.entries == 16
        assert ledger.verify(head=ledger.head()).ok


EDITS = {
    "a price": "UPDATE tacit_entries SET body = replace(body, '\"pure\":\"1/4\"', '\"pure\":\"1/8\"') WHERE kind = 'spend'",
    "a purpose": "UPDATE tacit_entries SET body = replace(body, 'table', 'other') WHERE body LIKE '%table%'",
    "a deleted entry": "DELETE FROM tacit_entries WHERE seq = 9",
    "the first entry": "DELETE FROM tacit_entries WHERE seq = 1",
    "the last entry": "DELETE FROM tacit_entries WHERE seq = 16",
    "all entries": "DELETE FROM tacit_entries",
    "a hash": "UPDATE tacit_entries SET hash = replace(hash, substr(hash, 1, 1), 'x') WHERE seq = 8",
    "a column": "UPDATE tacit_entries SET question = NULL WHERE question IS NOT NULL",
    "a kind column": "UPDATE tacit_entries SET kind = 'genesis' WHERE seq = 9",
    "a total": "UPDATE tacit_totals SET body = replace(body, '1/4', '1/8')",
    "a deleted total": "DELETE FROM tacit_totals WHERE rowid = 1",
    "a budget": "UPDATE tacit_accounts SET spec = replace(spec, '\"pure\":\"2\"', '\"pure\":\"9\"')",
    "a deleted account": "DELETE FROM tacit_accounts WHERE parent IS NOT NULL",
    "a name": "UPDATE tacit_names SET name = 'another' WHERE name = 'visits'",
    "a freed name": "DELETE FROM tacit_names WHERE name = 'second name'",
    "freed data": "DELETE FROM tacit_identities WHERE rowid = 1",
    "moved data": "UPDATE tacit_identities SET account = 13",
    "the secret": "UPDATE tacit_facts SET value = 'x' WHERE name = 'secret'",
    "the format": "UPDATE tacit_facts SET value = '2' WHERE name = 'format'",
    "the head": "UPDATE tacit_head SET seq = 15",
    "no head": "DELETE FROM tacit_head",
    "a blob": "UPDATE tacit_entries SET body = x'00ff' WHERE seq = 5",
    "a number": "UPDATE tacit_entries SET body = '7' WHERE seq = 5",
    "deep nesting": "UPDATE tacit_entries SET body = '" + "[" * 5000 + "]" * 5000 + "' WHERE seq = 5",
    "a huge number": "UPDATE tacit_entries SET body = '{\"seq\":1e999}' WHERE seq = 5",
    "a lost table": "DROP TABLE tacit_totals",
    "no book": "DROP TABLE tacit_entries",
}


@pytest.mark.parametrize("edit", EDITS)
def test_every_edit_is_found(book: Path, edit: str) -> None:
    found = changed(book, EDITS[edit])
    assert not found.ok and "BROKEN" in str(found)


def test_two_entries_that_changed_places_are_found(book: Path) -> None:
    found = changed(
        book,
        "UPDATE tacit_entries SET reservation = NULL",
        "UPDATE tacit_entries SET seq = -1 WHERE seq = 9",
        "UPDATE tacit_entries SET seq = 9 WHERE seq = 10",
        "UPDATE tacit_entries SET seq = 10 WHERE seq = -1",
    )
    assert not found.ok


def test_one_entry_forged_with_its_own_hash_breaks_the_chain(book: Path) -> None:
    connection = sqlite3.connect(book)
    (body,) = connection.execute("SELECT body FROM tacit_entries WHERE body LIKE '%table%'").fetchone()
    forged = body.replace("table", "other")
    connection.execute("UPDATE tacit_entries SET body = ?, hash = ? WHERE body = ?", (forged, digest(forged), body))
    connection.commit()
    connection.close()
    found = checked(book)
    assert len(found.problems) == 1 and "not chained to the entry before it" in found.problems[0]


def rewritten(book: Path, change: Callable[[dict[str, object]], dict[str, object] | None]) -> None:
    """What a patient forger does: change entries and compute every following hash anew, and the head with them."""
    connection = sqlite3.connect(book)
    rows = connection.execute("SELECT seq, kind, account, reservation, question, body FROM tacit_entries ORDER BY seq").fetchall()
    connection.execute("DELETE FROM tacit_entries")
    seq, previous = 0, "0" * 64
    for _, kind, account, reservation, question, body in rows:
        fields = change(json.loads(body))
        if fields is None:
            continue
        entry = sealed(seq + 1, previous, {k: v for k, v in fields.items() if k not in ("seq", "previous")})
        seq, previous = entry.seq, entry.hash
        connection.execute(
            "INSERT INTO tacit_entries VALUES (?,?,?,?,?,?,?)", (seq, kind, account, reservation, question, entry.body, entry.hash)
        )
    connection.execute("UPDATE tacit_head SET seq = ?, hash = ?", (seq, previous))
    connection.commit()
    connection.close()


def test_a_forged_chain_still_contradicts_the_totals(book: Path) -> None:
    def cheaper(fields: dict[str, object]) -> dict[str, object]:
        if fields["kind"] == "spend":
            fields["charge"] = {name: "0" for name in fields["charge"]}  # type: ignore[attr-defined]
        return fields

    rewritten(book, cheaper)
    assert any("tacit_totals" in problem for problem in checked(book).problems)


def test_a_perfect_forgery_is_found_by_a_remembered_head(book: Path) -> None:
    """Rewritten with all hashes and totals: only somebody who remembers a head can tell. That is what head() is for."""
    remembered = checked(book).head
    assert checked(book, remembered).ok
    rewritten(book, lambda fields: {**fields, "purpose": "harmless"} if fields["kind"] == "spend" else fields)
    assert checked(book).ok  # the mutant: verification without a remembered head
    found = checked(book, remembered)
    assert not found.ok and "cut or rewritten" in found.problems[0]


def test_a_cut_end_is_found_by_a_remembered_head(book: Path) -> None:
    remembered = checked(book).head
    number, _ = parse_head(remembered)
    rewritten(book, lambda fields: None if fields["seq"] == number else fields)
    connection = sqlite3.connect(book)
    connection.execute("DELETE FROM tacit_totals WHERE period = '2026-02'")
    connection.close()
    assert not checked(book, remembered).ok


def test_an_overspent_book_is_named(book: Path) -> None:
    def dearer(fields: dict[str, object]) -> dict[str, object]:
        if fields["kind"] == "spend":
            fields["charge"] = {name: "50" for name in fields["charge"]}  # type: ignore[attr-defined]
        return fields

    rewritten(book, dearer)
    assert any("exceeds the budget" in problem for problem in checked(book).problems)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"charge": {}}, "other components"),
        ({"account": 99}, "no sense"),
        ({"period": "2026-01"}, "period on an account without"),
        ({"kind": "gift"}, "unknown kind"),
        ({"kind": "commit", "reservation": 3, "status": "done"}, "not open"),
        ({"kind": "genesis", "format": 1, "secret": ""}, "wrong place"),
        ({"kind": "alias", "name": "visits"}, "taken"),
        ({"charge": "free"}, "no sense"),
        ({"charge": {name: "-1" for name in ("pure", "rho", "plain.pure", "plain.rho")}}, "negative"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_entries_that_make_no_sense_are_named_even_with_good_hashes(book: Path, change: dict[str, object], complaint: str) -> None:
    rewritten(book, lambda fields: {**fields, **change} if fields["kind"] == "spend" and fields["account"] == 2 else fields)
    assert any(complaint in problem for problem in checked(book).problems)


def meaning(book: Path) -> object:
    """Everything the book says, read by SQLite itself; None where it cannot."""
    connection = sqlite3.connect(book)
    try:
        tables = ["facts", "head", "entries", "accounts", "names", "identities", "totals"]
        return [sorted(map(repr, connection.execute(f"SELECT * FROM tacit_{table}"))) for table in tables]
    except (sqlite3.Error, ValueError, OverflowError):
        return None
    finally:
        connection.close()


def test_flipped_bytes_are_reported_unless_they_mean_nothing(template: Path, tmp_path: Path) -> None:
    """200 files with damaged bytes: each is reported, or every table still reads exactly as before. Nothing crashes."""
    choose = random.Random(20260101)
    original, before = template.read_bytes(), meaning(template)
    found, harmless = 0, 0
    for number in range(200):
        damaged = bytearray(original)
        for _ in range(choose.choice([1, 1, 1, 8])):
            place = choose.randrange(len(damaged))
            damaged[place] ^= 1 << choose.randrange(8)
        book = tmp_path / f"{number}.db"
        book.write_bytes(damaged)
        outcome = checked(book)
        if outcome.ok:
            assert meaning(book) == before
            harmless += 1
        else:
            found += 1
        for leftover in tmp_path.glob(f"{number}.db*"):
            leftover.unlink()
    assert found > 25  # most of a small file is free space, where a flip means nothing


def test_cut_files_are_reported(template: Path, tmp_path: Path) -> None:
    original = template.read_bytes()
    for length in range(0, len(original), 4096):
        book = tmp_path / "cut.db"
        book.write_bytes(original[:length])
        assert not checked(book).ok
        for leftover in tmp_path.glob("cut.db*"):
            leftover.unlink()


def test_a_damaged_book_refuses_to_spend(book: Path) -> None:
    changed(book, "UPDATE tacit_totals SET body = 'nonsense'")
    with Ledger.open(f"sqlite:///{book}") as ledger, pytest.raises(LedgerError, match="run verify"):
        ledger.account("visits").spend(PureDP(0.001))


def test_tampering_is_found_on_postgresql_too(postgres_url: str) -> None:
    with Ledger.open(postgres_url) as ledger:
        fill(ledger)
        head = ledger.head()
        with ledger.store.engine().begin() as connection:
            connection.exec_driver_sql("ALTER TABLE tacit_entries DISABLE TRIGGER ALL")
            connection.execute(sa.text("UPDATE tacit_entries SET body = replace(body, 'table', 'other') WHERE body LIKE '%table%'"))
        found = ledger.verify(head=head)
        assert not found.ok and "edited" in found.problems[0]


def test_heads_are_checked() -> None:
    for wrong in ("", "12", "x:" + "0" * 64, "1:abc", None):
        with pytest.raises(LedgerError, match="head must be"):
            parse_head(wrong)  # type: ignore[arg-type]


def test_the_chain_is_plain_sha256_over_canonical_text(book: Path) -> None:
    """The oracle: anybody can check the chain with nothing but a hash function and a JSON parser."""
    import hashlib

    previous = "0" * 64
    for body, value in sqlite3.connect(book).execute("SELECT body, hash FROM tacit_entries ORDER BY seq"):
        assert hashlib.sha256(body.encode()).hexdigest() == value == digest(body)
        assert json.loads(body)["previous"] == previous and canonical(json.loads(body)) == body
        previous = value


