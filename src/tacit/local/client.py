"""A person's device: one file holds what was reported before and the book of what it may ever cost.

The lifetime budget is declared first; without one there is no client. Every report is booked before the value is looked at, and a
refusal depends on the book alone. A device that memorises draws once for each value and sends the same randomised value again and
again: it books, once, the price of as many different values as it will ever report. What comes after these is reported as the last of
them. With one value, the default, years of reports tell no more than the first. With more, two different reports show that the value
changed, and when: this is not in the price.

>>> import pathlib, tempfile
>>> from tacit.local import frequencies
>>> protocol = frequencies(["yes", "no", "maybe"], epsilon=1)
>>> client = Client(protocol, ledger=pathlib.Path(tempfile.mkdtemp()) / "me.db", lifetime="eps=4", values=2)
>>> first, again = client.report("yes"), client.report("yes")
>>> first[:9] == again[:9], first[17:] == again[17:], str(client.spent())
(True, True, 'epsilon 2')
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tacit.accounting import Adjacency, Event, Guarantee, NoOp, Repeated
from tacit.errors import ParameterError
from tacit.ledger import Account, Budget, Ledger, LedgerError, Spent, paying
from tacit.local.protocol import Protocol
from tacit.local.reports import sealed
from tacit.parameters import count

ACCOUNT = "lifetime"


class Client:
    """Reports values of one person under a lifetime budget.

    With `values=k` the device memorises: it draws once for each of the first k different values, and pays for k reports, ever. With
    `values=None` every report is drawn anew and paid for by itself; a period, such as a date, that was reported before is reported
    with the same bytes again, for nothing. `each`, such as Budget(epsilon=1, period="day"), bounds what all protocols of the file spend
    in one period besides; every report then names its period. Periods are named by the caller: a clock that is set back finds the old
    reports and draws nothing.

    Guarantee
        Statement: all reports together, however many, cost k times `protocol.event` where the device memorises, and otherwise that
        event times the number of payments in the book; never more than the lifetime budget, nor in one period than `each`.
        Conditions: the file is the only one of this person. For k = 1 and for values=None, the replacement of all the person's values
        by any others. For k > 1, by others that change and come back at the same reports: *when* a value changes shows, and no finite
        price covers that, since a person whose value stays never sends two different reports.
        Proved in: which of the k draws is sent, and when, is a function of when values change and come back (what is sent beyond k values
        repeats the last draw). Given that, the reports are post-processing of k draws.
    """

    def __init__(
        self, protocol: Protocol, *, ledger: str | Path, lifetime: Guarantee | Budget | str, values: int | None = 1,
        each: Budget | None = None,
    ) -> None:  # fmt: skip
        self.protocol = protocol
        self.values = None if values is None else count("values", values)
        self.path = Path(ledger)
        budget = Budget.of(lifetime)
        if budget.period is not None:
            raise ParameterError("lifetime must be one budget for good; a budget that begins anew each period adds up without end")
        if each is not None and (self.values is not None or not isinstance(each, Budget) or each.period is None):
            raise ParameterError('each is a budget with a period, such as Budget(epsilon=1, period="day"), for clients with values=None')
        self.each = each
        with self._alone():
            self._book = Ledger.open(f"sqlite:///{self.path}")
            self.lifetime: Account = self._book.account(ACCOUNT, budget, unit="person", adjacency=Adjacency.REPLACE_ONE)
            self.account: Account = self.lifetime
            if each is not None:
                self.account = self._book.account(f"each {each.period}", each, parent=self.lifetime)
            with self._memo() as memo:
                memo.execute(
                    "CREATE TABLE IF NOT EXISTS tacit_memo (protocol BLOB, slot TEXT, value BLOB, payload BLOB, "
                    "PRIMARY KEY (protocol, slot))"
                )
                memo.execute("CREATE TABLE IF NOT EXISTS tacit_terms (protocol BLOB PRIMARY KEY, vals TEXT)")
                memo.execute("INSERT OR IGNORE INTO tacit_terms VALUES (?, ?)", (protocol.fingerprint, self._terms))
                ((known,),) = memo.execute("SELECT vals FROM tacit_terms WHERE protocol = ?", (protocol.fingerprint,))
        if known != self._terms:
            raise ParameterError(f"this file reports by this protocol with values={known}; go on with that")

    @property
    def _terms(self) -> str:
        return str(self.values) if self.each is None else f"{self.values}, each={self.each!r}"

    @property
    def event(self) -> Event:
        """What is booked: once where the device memorises, else for every report."""
        return self.protocol.event if self.values in (None, 1) else Repeated(self.protocol.event, self.values)

    def spent(self) -> Spent:
        """What the lifetime budget has paid for so far."""
        return self.lifetime.spent()

    def report(self, value: object, *, period: str | None = None) -> bytes:
        """The person's report as bytes. It is refused, before the value is looked at, when the lifetime budget is spent.

        Only a device that does not memorise takes a `period`.
        """
        if period is not None and (self.values is not None or not isinstance(period, str) or not period):
            raise ParameterError("period is a text for clients with values=None; a device that memorises repeats itself anyway")
        if period is None and self.each is not None:
            raise ParameterError(f"period must be given: the budget is one for each {self.each.period}")
        with self._alone():
            if not self.path.exists():  # what was paid is not known any more
                raise LedgerError("the device's file is gone; nothing is reported without its book")
            payload = self._anew(value, period) if self.values is None else self._memorised(value, self.values)
        return sealed(self.protocol, payload)

    def _anew(self, value: object, period: str | None) -> bytes:
        if period is not None:
            with self._memo() as memo:
                rows = memo.execute("SELECT payload FROM tacit_memo WHERE protocol = ? AND slot = ?", (self.protocol.fingerprint, period))
                known = rows.fetchone()
            if known is not None:
                return bytes(known[0])
        when = period if self.each is not None else None
        with self.account.paying(self.event, purpose="local report", period=when, error=LedgerError):
            payload = self._sent(value, [], 1)[1]
            if period is not None:
                self._remember(period, b"", payload)
        return payload

    def _memorised(self, value: object, values: int) -> bytes:
        with self._memo() as memo:
            asked = "SELECT slot, value, payload FROM tacit_memo WHERE protocol = ? ORDER BY CAST(slot AS INTEGER)"
            rows = memo.execute(asked, (self.protocol.fingerprint,)).fetchall()
        if not rows:
            # the whole lifetime of this protocol, before the value is looked at
            with self.account.paying(self.event, purpose="local reports, memorised", error=LedgerError):
                self._remember("-1", b"paid", b"")
            rows = [("-1", b"paid", b"")]
        known = [(bytes(memorised), bytes(payload)) for _, memorised, payload in rows[1:]]
        own, payload, fresh = self._sent(value, known, values)
        if fresh:
            self._remember(str(len(known)), own, payload)
        return payload

    def _sent(self, value: object, known: list[tuple[bytes, bytes]], most: int) -> tuple[bytes, bytes, bool]:
        """The value's place as bytes, what is sent for it, and whether that was drawn now. It was paid for.

        What fails in here says nothing of the value.
        """
        randomiser = self.protocol.randomiser
        with paying(None, NoOp(), error=LedgerError):
            place = self.protocol.place(value)
            own = np.asarray(place).tobytes()
            same = [payload for memorised, payload in known if memorised == own]
            fresh = not same and len(known) < most
            payload = bytes(randomiser.to_bytes(randomiser.privatise(np.array([place])))[0]) if fresh else (same or [known[-1][1]])[0]
        return own, payload, fresh

    def _remember(self, slot: str, value: bytes, payload: bytes) -> None:
        with self._memo() as memo:
            memo.execute("INSERT INTO tacit_memo VALUES (?, ?, ?, ?)", (self.protocol.fingerprint, slot, value, payload))

    @contextmanager
    def _memo(self) -> Iterator[sqlite3.Connection]:
        """One transaction on the memory, in the same file as the book."""
        connection = sqlite3.connect(self.path, timeout=30, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
        finally:
            connection.close()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One report at a time from this file, whatever processes ask for one. The lock is an empty database beside it.

        It holds nothing and may be deleted while no device runs. The file's own lock will not do: the book makes transactions of its own in
        it, and another lock on the same file would end SQLite's when it is closed.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(f"{self.path}.lock", timeout=60, isolation_level=None)
        try:
            connection.execute("BEGIN EXCLUSIVE")
            yield
        finally:
            connection.close()
