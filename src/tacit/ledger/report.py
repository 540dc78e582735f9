"""The book for people: who spent what on which data for which purpose, what remains, and how it came about.

>>> import pathlib, tempfile
>>> from tacit.accounting import Gaussian
>>> from tacit.ledger.book import Ledger
>>> from tacit.ledger.budget import Budget
>>> ledger = Ledger.open(f"sqlite:///{pathlib.Path(tempfile.mkdtemp()) / 'tacit.db'}")
>>> _ = ledger.account("visits", Budget(rho=0.1)).spend(Gaussian(10), purpose="weekly table", analyst="ann")
>>> [(row.account, row.analyst, row.purpose, row.event, row.price, row.status) for row in spends(ledger)]
[('visits', 'ann', 'weekly table', 'Gaussian(noise_multiplier=10)', 'rho 0.005', 'done')]
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

from tacit.accounting import AccountingError, from_json
from tacit.accounting.exact import from_text
from tacit.ledger import journal
from tacit.ledger.account import NOT_PRIVATE, Account
from tacit.ledger.book import Ledger
from tacit.ledger.chain import parse_head
from tacit.ledger.filters import in_words
from tacit.ledger.paying import DONE, OPEN
from tacit.ledger.replay import Replay
from tacit.ledger.spec import Spec
from tacit.ledger.store import Connection, run
from tacit.ledger.tree import Totals


@dataclass(frozen=True)
class Spend:
    """One spend or reservation: `status` is done, failed, or open (reserved, not concluded: spent all the same)."""

    entry: int
    time: str
    account: str
    period: str
    analyst: str
    purpose: str
    question: Any
    event: str
    price: str
    charge: dict[str, str]
    correction: bool
    status: str
    mark: str

    def to_record(self) -> dict[str, Any]:
        """A JSON-able form."""
        return asdict(self)


@dataclass(frozen=True)
class Standing:
    """Where an account stands: amounts in words, `share` of the budget used (in the fullest period, where there are periods)."""

    id: int
    account: str
    depth: int
    names: tuple[str, ...]
    unit: str
    adjacency: str
    rule: str
    window: str
    budget: str
    spent: str
    left: str
    share: float
    entries: int
    mark: str

    def to_record(self) -> dict[str, Any]:
        """A JSON-able form."""
        return asdict(self)


def spends(ledger: Ledger, *, account: str | None = None, last: int | None = None) -> list[Spend]:
    """The spends of an account and of all below it, or of all accounts; of the whole book, or the `last` ones."""
    specs = {found.spec.id: found.spec for found in ledger.accounts()}
    wanted = None if account is None else _family(specs, ledger.account(account).spec.id)
    end, _ = parse_head(ledger.head())
    reach = end if last is None else 6 * last + 100
    while True:
        start = max(1, end - reach)
        found = _spends(ledger.entries(since=start), specs, wanted)
        if start == 1 or (last is not None and len(found) >= last):
            return found if last is None else found[-last:] if last else []
        reach *= 4


def _family(specs: dict[int, Spec], root: int) -> set[int]:
    found = {root}
    for number, spec in sorted(specs.items()):
        if spec.parent in found:
            found.add(number)
    return found


def _spends(entries: Iterable[dict[str, Any]], specs: dict[int, Spec], wanted: set[int] | None) -> list[Spend]:
    found: dict[int, Spend] = {}
    for fields in entries:
        if fields["kind"] == "commit" and fields["reservation"] in found:
            row = found[fields["reservation"]]
            found[row.entry] = replace(row, status=fields["status"], mark=row.mark if fields["private"] else NOT_PRIVATE)
        if fields["kind"] in ("spend", "reserve") and (wanted is None or fields["account"] in wanted):
            found[fields["seq"]] = _spend(fields, specs[fields["account"]])
    return list(found.values())


def _spend(fields: dict[str, Any], spec: Spec) -> Spend:
    price = {name: from_text(fields["charge"][name]) or Fraction(0) for name in spec.budget.limits}
    try:
        event = repr(from_json(json.dumps(fields["event"])))
    except AccountingError:
        event = str(fields["event"].get("type", "?"))
    return Spend(
        entry=fields["seq"],
        time=fields["time"],
        account=spec.name,
        period=fields.get("period", ""),
        analyst=fields.get("analyst", ""),
        purpose=fields.get("purpose", ""),
        question=fields.get("question"),
        event=event,
        price=in_words(spec.budget, price),
        charge=fields["charge"],
        correction=fields.get("correction", False),
        status=DONE if fields["kind"] == "spend" else OPEN,
        mark="" if fields["private"] else NOT_PRIVATE,
    )


def standings(ledger: Ledger, *, account: str | None = None) -> list[Standing]:
    """Every account, parents before their children, with what it has spent and has left."""
    handles = {found.spec.id: found for found in ledger.accounts()}
    specs = {number: found.spec for number, found in handles.items()}
    wanted = set(specs) if account is None else _family(specs, ledger.account(account).spec.id)
    names, entries, unsafe = ledger.store.read(_counted)
    found: list[Standing] = []

    def visit(parent: int | None, depth: int) -> None:
        for number, spec in specs.items():
            if spec.parent == parent:
                if number in wanted:
                    found.append(one(handles[number], spec, depth))
                visit(number, depth + 1)

    def one(handle: Account, spec: Spec, depth: int) -> Standing:
        period, spent, share = ledger.store.read(lambda connection: _fullest(connection, spec))
        left = handle.left(period or None) if spec.window is None or period else spec.budget.usable(correction=False)
        when = f" in {period}" if period else ""
        kept = f" ({float(100 * spec.budget.reserve):.4g} % of it for corrections only)" if spec.budget.reserve else ""
        return Standing(
            id=spec.id,
            account=spec.name,
            depth=depth,
            names=tuple(name for name in names.get(spec.id, []) if name != spec.name),
            unit=spec.unit,
            adjacency=spec.adjacency.value,
            rule=spec.rule if spec.collusion else "no collusion",
            window=spec.window or "",
            budget=in_words(spec.budget, spec.budget.limits) + (f" a {spec.window}" if spec.window else "") + kept,
            spent=in_words(spec.budget, spent) + when,
            left=in_words(spec.budget, {name: left[name] for name in spec.budget.limits}, up=False) + when,
            share=share,
            entries=entries.get(spec.id, 0),
            mark=NOT_PRIVATE if spec.id in unsafe else "",
        )

    visit(None, 0)
    return found


def _counted(connection: Connection) -> tuple[dict[int, list[str]], dict[int, int], set[int]]:
    """The names of each account, how many spends it has, and which have one that was drawn in test mode."""
    names: dict[int, list[str]] = {}
    for name, number in run(connection, "SELECT name, account FROM tacit_names ORDER BY name").fetchall():
        names.setdefault(number, []).append(name)
    query = "SELECT account, COUNT(*) FROM tacit_entries WHERE kind IN ('spend', 'reserve') GROUP BY account"
    entries = {int(number): int(count) for number, count in run(connection, query).fetchall()}
    suspects = run(connection, "SELECT account, body FROM tacit_entries WHERE body LIKE ?", ('%"private":false%',)).fetchall()
    return names, entries, {int(number) for number, body in suspects if json.loads(body).get("private") is False}


def _fullest(connection: Connection, spec: Spec) -> tuple[str, dict[str, Fraction], float]:
    """The period with the largest share of the budget used (the only one, "", without a window), its totals and that share."""
    best: tuple[str, dict[str, Fraction], float] = ("", {name: Fraction(0) for name in spec.budget.limits}, 0.0)
    for period, totals in sorted(journal.all_periods(connection, spec.id).items()):
        if bool(period) == (spec.window is not None):
            used = share(spec, totals)
            if used >= best[2]:
                best = (period, {name: totals.total[name] or Fraction(0) for name in spec.budget.limits}, used)
    return best


def share(spec: Spec, totals: Totals) -> float:
    """The used share of a budget: of its scarcest component."""
    parts = []
    for name, limit in spec.budget.limits.items():
        value = totals.total[name]
        parts.append(math.inf if value is None else float(value / limit) if limit else (math.inf if value else 0.0))
    return max(parts)


def timeline(ledger: Ledger) -> dict[str, list[tuple[datetime.datetime, float]]]:
    """For each account the share of its budget used after each spend on it or below it, over time (the fullest period, with a window)."""
    replay = Replay()
    found: dict[str, list[tuple[datetime.datetime, float]]] = {}
    for fields in ledger.entries():
        for _ in replay.take(fields["seq"], fields):
            pass  # verification speaks about faults; the picture shows what is there
        if fields["kind"] in ("spend", "reserve"):
            when = datetime.datetime.fromisoformat(fields["time"])
            for spec in replay.path(fields["account"]):
                used = share(spec, replay.totals[spec.id, fields.get("period", "") if spec.window else ""])
                rows = found.setdefault(spec.name, [])
                rows.append((when, max(used, rows[-1][1]) if rows else used))
    return found
