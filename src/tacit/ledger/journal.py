"""The entries of the book: their form, and the few statements that read and append them.

An entry is one line of canonical JSON, chained by hash to the entry before it. Every function that takes a
connection works inside a transaction of `Store`.

>>> from tacit.ledger.store import Store
>>> import tempfile, pathlib
>>> store = Store(f"sqlite:///{pathlib.Path(tempfile.mkdtemp()) / 'book.db'}")
>>> create(store)
>>> store.read(last).seq
1
>>> first = sealed(1, START, {"kind": "genesis"})
>>> first.hash == digest(first.body), sealed(2, first.hash, {"kind": "note"}).body
(True, '{"kind":"note","previous":"...","seq":2}')
"""

from __future__ import annotations

import datetime
import hashlib
import json
import secrets
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tacit.ledger.booking import Key, Totals
from tacit.ledger.errors import LedgerBroken, LedgerError
from tacit.ledger.spec import Rules, Spec
from tacit.ledger.store import HEAD, Connection, Store, run, run_many

#: The hash that the first entry points to.
START = "0" * 64


@dataclass(frozen=True)
class Entry:
    """A sealed entry: its number, its text, and the hash of the text (which holds the number and the previous hash)."""

    seq: int
    body: str
    hash: str


def canonical(value: object) -> str:
    """The one JSON text of a value: sorted keys, no spaces, ASCII, no NaN. Anything else is refused unseen.

    >>> canonical({"b": [1, None], "a": "é"})
    '{"a":"\\\\u00e9","b":[1,null]}'
    """
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        pass
    # outside the handler: the original error may quote the value
    raise LedgerError("a question or answer must be JSON: text, finite numbers, booleans, None, lists, objects with text keys")


def digest(body: str) -> str:
    """SHA-256 of an entry's text; the text contains the hash of the entry before it."""
    return hashlib.sha256(body.encode()).hexdigest()


def sealed(seq: int, previous: str, fields: Mapping[str, Any]) -> Entry:
    """The entry with its place in the chain."""
    body = canonical({**fields, "seq": seq, "previous": previous})
    return Entry(seq, body, digest(body))


def head_text(seq: int, value: str) -> str:
    """A head to write down elsewhere ("1042:9f0c..."): it shows whether the book was cut or rewritten.

    >>> parse_head(head_text(3, START)) == (3, START)
    True
    """
    return f"{seq}:{value}"


def parse_head(text: str) -> tuple[int, str]:
    """The number and hash of a remembered head."""
    number, colon, value = text.partition(":") if isinstance(text, str) else ("", "", "")
    if not colon or not number.isascii() or not number.isdigit() or len(value) != 64:
        raise LedgerError("head must be a text 'number:hash' as returned by ledger.head()")
    return int(number), value


FORMAT = 1

#: The kinds of entries that officers sign (see `tacit.ledger.governance`), and what stands in the column `account` of
#: them, so that they are found without reading the others.
DECIDED = ("officer", "close", "analyst", "amend")
DECISIONS = -1

# Statements are text and run on the driver's own cursor, because every other writer waits meanwhile.
_APPEND = "INSERT INTO tacit_entries (seq, kind, account, reservation, question, body, hash) VALUES (?, ?, ?, ?, ?, ?, ?)"
_SET_TOTAL = (
    "INSERT INTO tacit_totals (account, period, body) VALUES (?, ?, ?) ON CONFLICT (account, period) DO UPDATE SET body = excluded.body"
)

#: Totals by the text that they were written as: the next to read that text is mostly the same process.
_WRITTEN: dict[str, Totals] = {}
_MOST = 64


def create(store: Store) -> None:
    """The tables with their first entry, if they are not there yet; the secret of the book is drawn here, once."""

    def genesis(connection: Connection) -> None:
        secret = secrets.token_hex(32)
        fields = {"kind": "genesis", "format": FORMAT, "secret": hashlib.sha256(secret.encode()).hexdigest(), "time": now()}
        entry = sealed(1, START, fields)
        for fact in (("format", str(FORMAT)), ("secret", secret)):
            run(connection, "INSERT INTO tacit_facts (name, value) VALUES (?, ?)", fact)
        run(connection, _APPEND, row_of(entry, fields))
        run(connection, "INSERT INTO tacit_head (id, seq, hash) VALUES (1, ?, ?)", (1, entry.hash))

    store.create(genesis)


def now() -> str:
    """The time of an entry, in UTC. The clock orders nothing; the numbers do."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def known_format(found: object) -> None:
    """Refuse a book of another format: a newer version may mean something else by what stands in it."""
    if found is None:
        raise LedgerBroken("the format of the book is missing; run verify")
    if str(found) != str(FORMAT):
        raise LedgerError(code="ledger-format", found=str(found)[:20], known=FORMAT)


def last(connection: Connection) -> Entry:
    """The number and hash of the last entry (its text is not read)."""
    known = None if isinstance(connection, sqlite3.Connection) else connection.info.pop("tacit_head", None)
    row = known or run(connection, HEAD).fetchone()
    if row is None:
        raise LedgerBroken("the book has no head; run verify")
    known_format(row[2])
    return Entry(int(row[0]), "", str(row[1]))


def append(connection: Connection, records: Sequence[Mapping[str, Any]], *, head: Entry | None = None) -> list[Entry]:
    """Seal the records, in order, onto the end of the chain."""
    previous = head or last(connection)
    written: list[Entry] = []
    for fields in records:
        previous = sealed(previous.seq + 1, previous.hash, fields)
        written.append(previous)
    append_rows(connection, [row_of(entry, fields) for entry, fields in zip(written, records, strict=True)], previous)
    return written


def append_rows(connection: Connection, rows: Sequence[tuple[Any, ...]], head: Entry) -> None:
    """Store sealed rows (from `row_of`) and the head after them."""
    if len(rows) == 1:
        run(connection, _APPEND, rows[0])
    else:
        run_many(connection, _APPEND, rows)
    run(connection, "UPDATE tacit_head SET seq = ?, hash = ? WHERE id = 1", (head.seq, head.hash))


def columns(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The copies of an entry's fields that are kept in columns for searching; `verify` compares them with the text."""
    return {
        "kind": fields["kind"],
        "account": DECISIONS if fields["kind"] in DECIDED else fields.get("account"),
        "reservation": fields.get("reservation"),
        "question": fields.get("question_key") if "answer" in fields else None,
    }


def row_of(entry: Entry, fields: Mapping[str, Any]) -> tuple[Any, ...]:
    """A sealed entry as a row of the table."""
    return (entry.seq, *columns(fields).values(), entry.body, entry.hash)


def totals_of(connection: Connection, keys: Iterable[Key]) -> dict[Key, Totals]:
    """The stored totals; a missing one is nothing spent."""
    found: dict[Key, Totals] = {}
    for account, period in keys:
        query = "SELECT body FROM tacit_totals WHERE account = ? AND period = ?"
        row = run(connection, query, (account, period)).fetchone()
        if row is not None:
            found[account, period] = _read(row[0], "a running total")
    return found


def _read(body: str, what: str) -> Totals:
    known = _WRITTEN.get(body)
    if known is not None:
        return known
    try:
        return Totals.from_record(json.loads(body))
    except (ValueError, TypeError, KeyError, AttributeError):
        raise LedgerBroken(f"{what} is not in the form it was written in; run verify") from None


def set_totals(connection: Connection, after: Mapping[Key, Totals]) -> None:
    """Store new totals."""
    if len(_WRITTEN) > _MOST:
        _WRITTEN.clear()
    for (account, period), totals in after.items():
        body = canonical(totals.to_record())
        _WRITTEN[body] = totals
        run(connection, _SET_TOTAL, (account, period, body))


def all_periods(connection: Connection, account: int) -> dict[str, Totals]:
    """Every stored period of an account, "" for its whole life included."""
    rows = run(connection, "SELECT period, body FROM tacit_totals WHERE account = ?", (account,)).fetchall()
    return {str(period): _read(body, "a running total") for period, body in rows}


def spec_of(connection: Connection, account: int) -> Spec:
    """The terms of an account."""
    text = _value(connection, "SELECT spec FROM tacit_accounts WHERE id = ?", account)
    try:
        return Spec.from_record(account, json.loads(text or ""))
    except (ValueError, TypeError, KeyError):
        raise LedgerBroken(f"the terms of account {account} are missing or damaged; run verify") from None


def account_named(connection: Connection, name: str) -> int | None:
    """The account with this name or alias."""
    found: int | None = _value(connection, "SELECT account FROM tacit_names WHERE name = ?", name)
    return found


def account_of_data(connection: Connection, key: str) -> int | None:
    """The account that the data belongs to."""
    found: int | None = _value(connection, 'SELECT account FROM tacit_identities WHERE "key" = ?', key)
    return found


def secret_of(connection: Connection) -> bytes:
    """The secret under which identities are stored."""
    value = _value(connection, "SELECT value FROM tacit_facts WHERE name = ?", "secret")
    if value is None:
        raise LedgerBroken("the secret of the book is missing; run verify")
    return str(value).encode()


def _value(connection: Connection, query: str, key: Any) -> Any:
    """The one value that a query finds, or None."""
    row = run(connection, query, (key,)).fetchone()
    return None if row is None else row[0]


def add_account(connection: Connection, spec: Spec) -> None:
    """The terms of a new account, under its name."""
    terms = (spec.id, spec.parent, canonical(spec.to_record()))
    run(connection, "INSERT INTO tacit_accounts (id, parent, spec) VALUES (?, ?, ?)", terms)
    add_name(connection, spec.name, spec.id)


def add_name(connection: Connection, name: str, account: int) -> None:
    """One more name of an account."""
    run(connection, "INSERT INTO tacit_names (name, account) VALUES (?, ?)", (name, account))


def add_identities(connection: Connection, keys: Iterable[str], account: int) -> None:
    """Data that belongs to an account."""
    for key in keys:
        run(connection, 'INSERT INTO tacit_identities ("key", account) VALUES (?, ?)', (key, account))


def all_accounts(connection: Connection) -> list[int]:
    """The numbers of all accounts, in the order they were opened."""
    return [int(row[0]) for row in run(connection, "SELECT id FROM tacit_accounts ORDER BY id").fetchall()]


def portion(connection: Connection, since: int, most: int) -> list[tuple[int, str]]:
    """At most so many entries' numbers and texts, from a number on."""
    query = "SELECT seq, body FROM tacit_entries WHERE seq >= ? ORDER BY seq LIMIT ?"
    return [(int(seq), str(body)) for seq, body in run(connection, query, (since, most)).fetchall()]


def conclusion_of(connection: Connection, reservation: int) -> dict[str, Any] | None:
    """How a reservation ended, if it did."""
    row = run(connection, "SELECT body FROM tacit_entries WHERE reservation = ?", (reservation,)).fetchone()
    return None if row is None else _fields(row[0])


#: Made when the first key is booked, so that books from before keys are opened as they are.
_KEYS = (
    'CREATE TABLE IF NOT EXISTS tacit_keys (account BIGINT NOT NULL, "key" VARCHAR(64) NOT NULL, body VARCHAR(64) NOT NULL, '
    'entry BIGINT NOT NULL, PRIMARY KEY (account, "key"))'
)


def keyed(connection: Connection, account: int, key: str) -> tuple[int, str] | None:
    """The entry that was booked under a key, and the digest of what was sent with it. Inside a write only."""
    run(connection, _KEYS)
    row = run(connection, 'SELECT entry, body FROM tacit_keys WHERE account = ? AND "key" = ?', (account, key)).fetchone()
    return None if row is None else (int(row[0]), str(row[1]))


def add_key(connection: Connection, account: int, key: str, body: str, entry: int) -> None:
    """A key that is booked from now on."""
    run(connection, 'INSERT INTO tacit_keys (account, "key", body, entry) VALUES (?, ?, ?, ?)', (account, key, body, entry))


def entry_of(connection: Connection, seq: int) -> dict[str, Any]:
    """One entry, with its hash."""
    row = run(connection, "SELECT body, hash FROM tacit_entries WHERE seq = ?", (seq,)).fetchone()
    if row is None:
        raise LedgerBroken(f"entry {seq} is missing; run verify")
    return _fields(row[0]) | {"hash": row[1]}


def reservations_of(connection: Connection, account: int) -> list[dict[str, Any]]:
    """Every reservation on an account, in order, with its hash."""
    query = "SELECT body, hash FROM tacit_entries WHERE account = ? AND kind = 'reserve' ORDER BY seq"
    return [_fields(body) | {"hash": value} for body, value in run(connection, query, (account,)).fetchall()]


def stored_answer(connection: Connection, account: int, question: str, *, private: bool) -> dict[str, Any] | None:
    """The newest answer to an identical question; one drawn in test mode is no answer to a real question."""
    # `+account` is no column with an index: SQLite would take that one, and read all that the account has ever booked
    query = "SELECT body FROM tacit_entries WHERE question = ? AND +account = ? ORDER BY seq DESC"
    for row in run(connection, query, (question, account)).fetchall():
        fields = _fields(row[0])
        if fields.get("private") is True or not private:
            return fields
    return None


def rules_of(connection: Connection, known: Rules, end: int | None = None) -> Rules:
    """The rules with every decision since they were last read; entries are only ever added, so nothing is read twice.

    `end` is the number of the last entry, where it is known.
    """
    end = last(connection).seq if end is None else end
    if end > known.seen:
        query = "SELECT body FROM tacit_entries WHERE account = ? AND seq > ? ORDER BY seq"
        for (body,) in run(connection, query, (DECISIONS, known.seen)).fetchall():
            known.take(json.loads(body))
        known.seen = end
    return known


def _fields(body: str) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise LedgerBroken("an entry is not in the form it was written in; run verify")
    return found
