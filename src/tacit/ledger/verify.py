"""Verification: read every entry, recompute every hash and every total, and say what does not agree.

It trusts nothing that is stored, and whatever is stored, it reports instead of crashing. It finds an edited,
missing, added, repeated or reordered entry; a cut end, if the head was remembered elsewhere or the other
tables were not cut alike; running totals, account terms, names or identities that are not what the entries
say; spends beyond a budget; commits without a reservation, and second commits.

>>> import pathlib, tempfile
>>> from tacit.ledger.book import Ledger
>>> ledger = Ledger.open(f"sqlite:///{pathlib.Path(tempfile.mkdtemp()) / 'tacit.db'}")
>>> print(ledger.verify())
the book is in order: 1 entries, head 1:...

A `Rebuild` is what the entries say: every account, name and total, worked out from the first entry on.

>>> rebuild = Rebuild()
>>> list(rebuild.take(1, {"kind": "genesis", "format": 1, "secret": "..."}))
[]
>>> list(rebuild.take(2, {"kind": "gift"}))
['is of an unknown kind']
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tacit.exact import from_text
from tacit.ledger import journal
from tacit.ledger.booking import Key, Totals, booked, keys, refused
from tacit.ledger.errors import LedgerError
from tacit.ledger.governance import faults
from tacit.ledger.journal import FORMAT, START, canonical, digest, head_text, parse_head
from tacit.ledger.paying import DONE, FAILED
from tacit.ledger.spec import Rules, Spec, days
from tacit.ledger.store import Connection, Store, run, stream


@dataclass
class Rebuild:
    """The book rebuilt from its entries: what those read so far say that every other table must hold."""

    specs: dict[int, Spec] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    identities: dict[str, int] = field(default_factory=dict)
    totals: dict[Key, Totals] = field(default_factory=dict)
    pending: dict[int, int] = field(default_factory=dict)
    keys: dict[tuple[int, str], tuple[str, int]] = field(default_factory=dict)
    rules: Rules = field(default_factory=Rules)
    secret: str = ""

    def path(self, account: int) -> list[Spec]:
        """An account and all accounts above it, nearest first."""
        found = [self.specs[account]]
        while found[-1].parent is not None:
            found.append(self.specs[found[-1].parent])
        return found

    def take(self, seq: int, fields: dict[str, Any]) -> Iterator[str]:
        """Apply one entry; yield what is wrong with it. Malformed fields raise, and the caller reports that."""
        match fields["kind"]:
            case "genesis":
                if seq != 1 or fields["format"] != FORMAT:
                    yield "is a beginning in the wrong place or of another format"
                self.secret = fields["secret"]
            case "account":
                yield from self._account(seq, fields)
            case "alias":
                if fields["account"] not in self.specs or fields["name"] in self.names:
                    yield "gives a name that is taken, or to an account that does not exist"
                self.names[fields["name"]] = fields["account"]
            case "identity":
                if fields["account"] not in self.specs or fields["key"] in self.identities:
                    yield "gives data that is taken, or to an account that does not exist"
                self.identities[fields["key"]] = fields["account"]
            case "spend" | "reserve":
                yield from self._spend(seq, fields)
            case "commit":
                yield from self._commit(fields)
            case "officer" | "close" | "analyst" | "amend":
                number = fields.get("account")
                yield from faults(fields, self.rules, None if number is None else self.specs[number])
                self.rules.take(fields)
            case _:
                yield "is of an unknown kind"

    def _account(self, seq: int, fields: dict[str, Any]) -> Iterator[str]:
        spec = Spec.from_record(seq, fields["terms"])
        if fields["account"] != seq or spec.name in self.names:
            yield "opens an account under a wrong number or a name that is taken"
        spec.checked(None if spec.parent is None else self.specs[spec.parent])
        self.specs[seq] = spec
        self.names[spec.name] = seq

    def _commit(self, fields: dict[str, Any]) -> Iterator[str]:
        if self.pending.pop(fields["reservation"], None) != fields["account"]:
            yield "concludes a reservation that is not open"
        if fields["status"] not in (DONE, FAILED):
            yield "has an unknown status"

    def _spend(self, seq: int, fields: dict[str, Any]) -> Iterator[str]:
        path = self.path(fields["account"])
        period = fields.get("period", "")
        if path[0].window is not None:
            days(path[0].window, period)
        elif period:
            yield "names a period on an account without a window"
        charge = {name: from_text(value) for name, value in fields["charge"].items()}
        if set(charge) != set(path[0].components(path[1:])):
            yield "is priced in other components than its account keeps"
            return
        if any(value is not None and value < 0 for value in charge.values()):
            yield "has a negative price"
        now = {key: self.totals[key] for key in keys(path, period) if key in self.totals}
        after = booked(path, now, charge, period)
        if (against := refused([self.rules.amended(spec) for spec in path], after, period)) is not None:
            yield f"exceeds the budget of account {against.id}"
        try:
            self.rules.refuse(path, purpose=fields.get("purpose", ""), analyst=fields.get("analyst", ""))
        except LedgerError as error:
            yield f"was forbidden by a decision ({error.code})"
        self.totals |= after
        if fields["kind"] == "reserve":
            self.pending[seq] = fields["account"]
        if "key" in fields:
            if (fields["account"], fields["key"]) in self.keys:
                yield "books a key a second time"
            self.keys[fields["account"], fields["key"]] = (fields["body"], seq)


_COLUMNS = ("seq", "kind", "account", "reservation", "question", "body", "hash")
_MOST = 100  # problems listed; the rest is counted


@dataclass(frozen=True)
class Verification:
    """What `verify` found. `problems` name entries by number; `open` are unconcluded reservations (spent)."""

    entries: int
    head: str
    problems: tuple[str, ...]
    open: tuple[int, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        if self.ok:
            return f"the book is in order: {self.entries} entries, head {self.head}"
        return "\n".join([f"the book is BROKEN: {len(self.problems)} problems in {self.entries} entries", *self.problems])


def verify(store: Store, *, head: str | None = None) -> Verification:
    """Read the whole book in one consistent picture."""
    remembered = None if head is None else parse_head(head)
    problems: list[str] = []
    count, last, rebuild = 0, (0, START), Rebuild()

    def work(connection: Connection) -> None:
        nonlocal count, last, rebuild
        problems.clear()
        count, last, rebuild = 0, (0, START), Rebuild()
        seen: dict[int, str] = {}
        for values in stream(connection, f"SELECT {', '.join(_COLUMNS)} FROM tacit_entries ORDER BY seq"):
            row = dict(zip(_COLUMNS, values, strict=True))
            count += 1
            wrong = list(_entry(row, last, rebuild))
            problems.extend(f"entry {row['seq']} {what}" for what in wrong)
            if isinstance(row["seq"], int):
                last = (row["seq"], str(row["hash"]))
            if remembered is not None and row["seq"] == remembered[0]:
                seen[remembered[0]] = str(row["hash"])
        if remembered is not None and seen.get(remembered[0]) != remembered[1]:
            problems.append(f"entry {remembered[0]} is not the one whose hash was remembered: the book was cut or rewritten")
        problems.extend(_tables(connection, last, rebuild))

    try:
        store.read(work)
    except (LedgerError, ValueError, TypeError, OverflowError, AttributeError) as reason:
        kind = type(reason).__name__
        problems.append(str(reason) if isinstance(reason, LedgerError) else f"the tables cannot be read ({kind})")
    shown = problems[:_MOST] + ([f"and {len(problems) - _MOST} more"] if len(problems) > _MOST else [])
    return Verification(count, head_text(*last), tuple(shown), tuple(sorted(rebuild.pending)))


def _entry(row: dict[str, Any], last: tuple[int, str], rebuild: Rebuild) -> Iterator[str]:
    """What is wrong with one row, given the one before it."""
    body = row["body"]
    if not isinstance(body, str):
        yield "has no text"
        return
    if row["seq"] != last[0] + 1:
        yield f"follows entry {last[0]}: entries between them are missing"
    try:
        computed = digest(body)
        fields = json.loads(body)
        canonical_body = canonical(fields)
    except (ValueError, RecursionError):
        yield "is not in the form it was written in"
        return
    if computed != row["hash"]:
        yield "was edited: its text does not have its hash"
    if not isinstance(fields, dict) or canonical_body != body:
        yield "is not in the form it was written in"
        return
    if fields.get("previous") != last[1]:
        yield "is not chained to the entry before it"
    if fields.get("seq") != row["seq"]:
        yield "carries another number than its place"
    try:
        if any(row[name] != value for name, value in journal.columns(fields).items()):
            yield "has search columns that differ from its text"
        yield from rebuild.take(int(row["seq"]), fields)
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError, ZeroDivisionError, RecursionError):
        yield "has fields that make no sense"


def _tables(connection: Connection, last: tuple[int, str], rebuild: Rebuild) -> Iterator[str]:
    """What the other tables hold that the entries do not say, or the reverse."""
    if run(connection, "SELECT id, seq, hash FROM tacit_head").fetchall() != [(1, *last)]:
        yield "the head does not point to the last entry: entries were cut off or added"
    facts = {str(name): str(value) for name, value in run(connection, "SELECT name, value FROM tacit_facts").fetchall()}
    if facts.get("format") != str(journal.FORMAT) or set(facts) != {"format", "secret"}:
        yield "the facts about the book were changed"
    if hashlib.sha256(facts.get("secret", "").encode()).hexdigest() != rebuild.secret:
        yield "the secret of the book was changed"
    # Each table as rows (key, value): what is stored, and what it must be.
    expected: dict[str, Mapping[Any, object]] = {
        "tacit_accounts": {
            key: (spec.parent, canonical(spec.to_record())) for key, spec in rebuild.specs.items()
        },
        "tacit_names": rebuild.names,
        "tacit_identities": rebuild.identities,
        "tacit_totals": {key: canonical(value.to_record()) for key, value in rebuild.totals.items()},
    }
    accounts = _all(connection, "SELECT id, parent, spec FROM tacit_accounts")
    totals = _all(connection, "SELECT account, period, body FROM tacit_totals")
    stored = {
        "tacit_accounts": [(key, (parent, spec)) for key, parent, spec in accounts],
        "tacit_names": _all(connection, "SELECT name, account FROM tacit_names"),
        "tacit_identities": _all(connection, 'SELECT "key", account FROM tacit_identities'),
        "tacit_totals": [((account, period), body) for account, period, body in totals],
    }
    if rebuild.keys:
        # only now: a book that never had a key has no such table
        expected["tacit_keys"] = rebuild.keys
        booked_keys = _all(connection, 'SELECT account, "key", body, entry FROM tacit_keys')
        stored["tacit_keys"] = [((account, key), (body, entry)) for account, key, body, entry in booked_keys]
    for table, rows in stored.items():
        found, wanted = dict(rows), expected[table]
        if found != wanted or len(rows) != len(found):
            differing = sorted(str(key) for key in {*found, *wanted} if found.get(key) != wanted.get(key))
            where = ", ".join(differing[:5]) or "repeated rows"
            yield f"{table} differs from what the entries say, for {where}"


def _all(connection: Connection, query: str) -> list[Any]:
    rows: list[Any] = run(connection, query).fetchall()
    return rows
