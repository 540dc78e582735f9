"""An account of a book: ask what was spent and what is left, and pay before the data is touched.

`account.paying(event, ...)` is how to spend (see `tacit.ledger.paying`). What it books is on the disk before
the data may be touched, and from then on it is spent: a crash, an exception or a forgotten commit refunds
nothing, and a second attempt is a second spend.

>>> import pathlib, tempfile
>>> from tacit.accounting import PureDP
>>> from tacit.ledger import Budget, Ledger
>>> ledger = Ledger.open(f"sqlite:///{pathlib.Path(tempfile.mkdtemp()) / 'tacit.db'}")
>>> visits = ledger.account("visits", Budget(epsilon=1))
>>> with visits.paying(PureDP(0.25), purpose="weekly table"):
...     pass  # touch the data here
>>> visits.left()
{'pure': Fraction(3, 4)}
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from tacit.accounting import Event, Guarantee, as_typed, from_json, to_json
from tacit.exact import Typed, from_text, to_text
from tacit.ledger import journal
from tacit.ledger.booking import Totals, booked, charge_of, keys, refusal_for, refused, room
from tacit.ledger.budget import BEST, Budget, Reading, in_words, odometer, standing, typed
from tacit.ledger.errors import KeyKnown, LedgerError, ReleaseFailed
from tacit.ledger.journal import canonical, rules_of
from tacit.ledger.paying import DONE, FAILED, OPEN, Payment, Terms, paying
from tacit.ledger.spec import Amount, Spec, days, overlaps
from tacit.ledger.store import Connection, run
from tacit.noise import Seen, is_private, watch

if TYPE_CHECKING:
    from tacit.ledger.book import Ledger

NOT_PRIVATE = "NOT PRIVATE"


class Releasable(Protocol):
    """What `Account.release` needs of a measurement: its price as an event, and the release itself."""

    def event(self, distance: Any) -> Event:
        """What the release costs at an input distance."""

    def release(self, data: Any, distance: Any) -> Any:
        """The answer."""


@dataclass(frozen=True)
class Spent:
    """What an account has spent, in every currency it keeps a total of; `None` where no bound is known."""

    budget: Budget
    totals: Mapping[str, Amount]

    def __getitem__(self, component: str) -> Fraction:
        value = self.totals[component]
        if value is None:
            raise LedgerError(f"no bound on {component} is known: some entry has no price in it")
        return value

    def known(self) -> dict[str, Fraction]:
        """The components with a bound."""
        return {name: value for name, value in self.totals.items() if value is not None}

    def __str__(self) -> str:
        return in_words(self.budget, self.standing())

    def standing(self) -> dict[str, Fraction]:
        """What was spent, in the amounts of the guarantee; with filter="best", what the best filter has reached."""
        if self.budget.filter != BEST:
            return {name: self[name] for name in self.budget.limits}
        found = standing(self.budget, self.totals)
        return {name: self.budget.limits[name] if value is None else value for name, value in found.items()}


@dataclass(frozen=True)
class Receipt:
    """A spend as it stands in the book: its entry, its charge, and whether its draws were private."""

    entry: int
    hash: str
    charge: Mapping[str, Amount]
    private: bool

    def __str__(self) -> str:
        return f"entry {self.entry}{'' if self.private else f' ({NOT_PRIVATE})'}"


@dataclass(frozen=True)
class _Request:
    """A spend before the book is opened: public parameters only. `fields` go into the entry as they are."""

    path: list[Spec]
    charge: dict[str, Amount]
    period: str
    correction: bool
    fields: Mapping[str, object]
    question_key: str | None
    key: str = ""
    body: str = ""


@dataclass(frozen=True)
class _Booked:
    """A spend in the book. `status` is empty for a new one; under a known key, how the first ended and what it kept."""

    receipt: Receipt
    status: str = ""
    answer: object = None


class Account:
    """A handle on one account of a book; cheap to make, and never out of date."""

    def __init__(self, ledger: Ledger, spec: Spec) -> None:
        self.ledger = ledger
        self.spec = spec

    def __repr__(self) -> str:
        return f"Account({self.spec.name!r}, {self.spec.budget!r})"

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def budget(self) -> Budget:
        """The budget that holds: the one it was opened with, or as officers amended it."""
        return self.ledger.rules.amended(self.spec).budget

    def reopening(self) -> tuple[str, str]:
        """The URL of the book and the name of the account there, for another process of this machine to open it again.

        A book on a server is not handed on: its URL may hold a password.
        """
        if self.ledger.store.kind != "sqlite":
            raise LedgerError("an account of a book on a server is not pickled; open the book in the other process")
        return self.ledger.store.url, self.name

    def child(self, name: str, budget: Budget | Guarantee | str | None = None, **terms: Any) -> Account:
        """An account below this one; see `Ledger.account` for the terms."""
        return self.ledger.account(name, budget, parent=self, **terms)

    def path(self) -> list[Spec]:
        """This account's terms and those of every account above it, nearest first. They never change."""
        known, path = self.ledger.specs, [self.spec]
        while path[-1].parent is not None:
            if path[-1].parent not in known:
                return self.ledger.store.read(lambda connection: self.ledger.path(connection, self.spec))
            path.append(known[path[-1].parent])
        return path

    # --- what was spent -----------------------------------------------------------------------------------------------------------

    def spent(self, period: str | None = None) -> Spent:
        """The totals of the account: of one period, or of its whole life."""
        period = self._period(period, needed=False)

        def work(connection: Connection) -> dict[str, Amount]:
            names = self.spec.components(self.ledger.path(connection, self.spec)[1:])
            found = journal.totals_of(connection, [(self.spec.id, period)])
            total = (found.get((self.spec.id, period)) or Totals.empty(names)).total
            return {name: total[name] for name in names}  # in this order, also where the book's own is another one

        return self._spent(self.ledger.store.read(work))

    def left(self, period: str | None = None, *, correction: bool = False) -> dict[str, Fraction]:
        """The largest charge that this account and all accounts above it would admit now."""
        period = self._period(period)

        def work(connection: Connection) -> dict[str, Fraction]:
            rules = rules_of(connection, self.ledger.rules)
            path = [rules.amended(spec) for spec in self.ledger.path(connection, self.spec)]
            left = room(path, journal.totals_of(connection, keys(path, period)), period, correction=correction)
            # A budget that was amended to less than what is spent has nothing left, and no debt.
            return {name: max(value, Fraction(0)) for name, value in left.items()}

        return self.ledger.store.read(work)

    def stamp(self, *, timeout: float | None = None) -> tuple[object, ...]:
        """What totals, limits and what is left follow from, as the book has it: while it is the same, so are they. It is cheap to ask.

        Like `spent()` without a period, it is about the whole life of the account and of those above it.
        """
        path = [spec.id for spec in self.path()]

        def work(connection: Connection) -> tuple[object, ...]:
            places = ", ".join("?" for _ in path)
            query = f"SELECT account, body FROM tacit_totals WHERE period = '' AND account IN ({places}) ORDER BY account"
            decided = run(connection, "SELECT MAX(seq) FROM tacit_entries WHERE account = ?", (journal.DECISIONS,)).fetchone()
            return (decided[0], *map(tuple, run(connection, query, path).fetchall()))

        return self.ledger.store.read(work, timeout=timeout)

    def total(self, since: object | None = None, until: object | None = None) -> Spent:
        """One person's total over a stretch of time: the sum over all periods that share a day with it.

        An account without a window has no periods, and its total is that of its whole life.
        """
        if self.spec.window is None:
            if since is not None or until is not None:
                raise LedgerError("this account has no window, so its entries belong to no period; leave since and until out")
            return self.spent()
        window = self.spec.window

        def work(connection: Connection) -> dict[str, Amount]:
            above = self.ledger.path(connection, self.spec)[1:]
            sums = dict(Totals.empty(self.spec.components(above)).total)
            for period, totals in journal.all_periods(connection, self.spec.id).items():
                if period and overlaps(window, period, since, until):
                    for name, value in totals.total.items():
                        so_far = sums[name]
                        sums[name] = None if so_far is None or value is None else so_far + value
            return sums

        return self._spent(self.ledger.store.read(work))

    def _spent(self, totals: Mapping[str, Amount]) -> Spent:
        """The totals without a prefix; those with one (`moved.`, `plain.`) are for the book only."""
        return Spent(self.spec.budget, {name: value for name, value in totals.items() if "." not in name})

    def odometer(self, delta: Typed = 0, *, period: str | None = None) -> Reading:
        """A bound on the privacy loss so far that holds at every moment at once (see `tacit.ledger.budget.odometer`)."""
        spent = self.spent(self._period(period) or None)
        return odometer(self.budget, spent.known(), delta)

    def assumptions(self) -> list[str]:
        """What the totals take for granted beyond the mathematics, in sentences for a report."""
        found = []
        for account in self.ledger.accounts():
            if self.spec.id not in {spec.id for spec in account.path()}:
                continue
            if not account.spec.collusion:
                found.append(f"{account.name}: assuming analysts do not pool answers")
            if account.spec.rule != "sum":
                found.append(f"{account.name}: the accounts below it hold disjoint parts of the data, split by a public rule")
        return found

    # --- spending -----------------------------------------------------------------------------------------------------------------

    def spend(self, event: Event, **terms: Unpack[Terms]) -> Receipt:
        """Book a spend in one entry, durable on return: touch the data only afterwards.

        A spend whose `key` is in the book already is not booked again: the first receipt is returned.
        """
        return self._book("spend", self._request(event, **terms)).receipt

    def reserve(self, event: Event, **terms: Unpack[Terms]) -> Reservation:
        """Book a price, and leave the rest to the caller. Use `paying` instead.

        `paying` reserves, and it also withholds errors that may quote a row and concludes the entry. A caller
        of `reserve` must do both. Where the account caches and the identical question (with the same event
        and period) was answered before, nothing is booked, and the reservation carries that answer with
        `cached` set.
        """
        request = self._request(event, **terms)
        key = request.question_key
        if self.spec.cache and key is not None:
            private = is_private()
            found = self.ledger.store.read(
                lambda connection: journal.stored_answer(connection, self.spec.id, key, private=private)
            )
            if found is not None:
                receipt = Receipt(int(found["reservation"]), "", {}, bool(found["private"]))
                return Reservation(self, receipt, cached=True, answer=found["answer"])
        found_key = self._book("reserve", request)
        if found_key.answer is not None:
            return Reservation(self, found_key.receipt, cached=True, answer=found_key.answer)
        if found_key.status:
            raise KeyKnown(code="key-known", entry=found_key.receipt.entry, status=found_key.status)
        return Reservation(self, found_key.receipt, question_key=key, keyed=bool(request.key))

    def paying(
        self,
        event: Event,
        *,
        error: type[Exception] = ReleaseFailed,
        advice: str = "",
        **terms: Unpack[Terms],
    ) -> Payment:
        """`with account.paying(event, purpose=...) as payment:` books, runs, withholds errors, commits.

        See `tacit.ledger.paying`.
        """
        return paying(self, event, error=error, advice=advice, **terms)

    def payments(self, *, run: str, error: type[Exception] = ReleaseFailed, advice: str = "") -> list[Payment]:
        """The payments of one run on this account, in order, as they stand in the book.

        Work on one that is open can go on. `error` and `advice` are those of `paying`.
        """
        if not run or not isinstance(run, str):
            raise LedgerError("run must be a text that is not empty: the one that was given to paying(run=...)")

        def work(connection: Connection) -> list[tuple[dict[str, Any], str]]:
            found = journal.reservations_of(connection, self.spec.id)
            mine = [fields for fields in found if _belongs(fields, run)]
            ends = [journal.conclusion_of(connection, int(fields["seq"])) for fields in mine]
            return [(fields, OPEN if end is None else str(end["status"])) for fields, end in zip(mine, ends, strict=True)]

        found = []
        for fields, status in self.ledger.store.read(work):
            charge = {name: from_text(value) for name, value in fields["charge"].items()}
            receipt = Receipt(int(fields["seq"]), str(fields["hash"]), charge, bool(fields["private"]))
            reservation = Reservation(self, receipt, question_key=fields.get("question_key"), keyed="key" in fields)
            reservation.status = status
            event = from_json(json.dumps(fields["event"]))
            found.append(Payment(self, event, reservation=reservation, error=error, advice=advice))
        return found

    def booked(self, key: str) -> tuple[int, str, bool] | None:
        """What stands in the book under a key: its entry, how it ended ("open" where it did not), and whether an answer was kept."""

        def work(connection: Connection) -> tuple[int, str, bool] | None:
            first = journal.keyed(connection, self.spec.id, _digest(key))
            if first is None:
                return None
            end = journal.conclusion_of(connection, first[0])
            return first[0], OPEN if end is None else str(end["status"]), end is not None and "answer" in end

        return self.ledger.store.write(work, durable=False)

    def release(self, measurement: Releasable, data: Any, distance: Any = 1, **terms: Unpack[Terms]) -> Any:
        """Pay for a measurement and run it. A failure after that is charged, and its reason withheld."""
        insist = getattr(measurement, "insist_on_proof", None)
        if insist is not None:
            insist()  # what has no proof is refused before anything is booked
        event = measurement.event(distance)
        with self.paying(event, **terms) as payment:
            if payment.cached:
                return _as_released(measurement, event, payment.answer, payment.private)
            answer = measurement.release(data, distance)
            payment.keep(_plain(answer))
        return answer

    def _period(self, period: str | None, *, needed: bool = True) -> str:
        if self.spec.window is None:
            if period is not None:
                raise LedgerError(f"period: account {self.name!r} has no window; leave period out, or open the account with window='month'")
            return ""
        if period is None:
            if needed:
                raise LedgerError(f"period: account {self.name!r} has one budget a {self.spec.window}; say which, from the data's dates")
            return ""
        days(self.spec.window, period)
        return period

    def _request(
        self, event: Event, *, purpose: str = "", run: str = "", analyst: str = "",
        question: object = None, delta: Typed | None = None, period: str | None = None,
        correction: bool = False, key: str = "", body: str = "",
    ) -> _Request:
        for label, text in (("purpose", purpose), ("run", run), ("analyst", analyst), ("key", key), ("body", body)):
            if not isinstance(text, str):
                raise LedgerError(f"{label} must be a text, not {type(text).__name__}")
        share = None if delta is None else typed("delta", delta)
        if share is not None and not 0 <= share < 1:
            raise LedgerError(f"delta must be at least 0 and below 1, not {delta}")
        path, charge, record = self._priced(event, share, bool(correction))
        when = self._period(period)
        asked, question_key = None, None
        if question is not None:
            asked = json.loads(canonical(question))
            question_key = _digest(canonical([self.spec.id, asked, record, when]))
        given: dict[str, object] = {"period": when, "purpose": purpose, "run": run, "analyst": analyst}
        if body and not key:
            raise LedgerError("body: it belongs to a key; give key= as well, or leave body out")
        known = {"key": _digest(key), "body": _digest(body)} if key else {"key": "", "body": ""}
        given |= {"correction": bool(correction), "question": asked, "question_key": question_key, **known}
        # a term that was not given is not written, so that entries stay as short as they always were
        fields = {"event": record} | {name: value for name, value in given.items() if value}
        return _Request(path, charge, when, bool(correction), fields, question_key, **known)

    def _priced(self, event: Event, delta: Fraction | None, correction: bool) -> tuple[list[Spec], dict[str, Amount], dict[str, Any]]:
        """The accounts on the way up, the charge, and the event's record; kept for the next equal event."""
        try:
            found = self.ledger.priced.get((self.spec.id, event, delta, correction))
        except TypeError:
            found = None  # not an event; the pricing below says so
        if found is None:
            path = self.path()
            charge = charge_of(event, path, delta=delta, correction=correction)
            found = path, charge, json.loads(to_json(as_typed(event)))
            if len(self.ledger.priced) > 1000:
                self.ledger.priced.clear()
            self.ledger.priced[self.spec.id, event, delta, correction] = found
        return found

    def _book(self, kind: str, request: _Request) -> _Booked:
        path, charge, period = request.path, request.charge, request.period
        private = is_private()
        fields = {
            "kind": kind,
            "account": self.spec.id,
            "charge": {name: to_text(value) for name, value in charge.items()},
            "time": journal.now(),
            "private": private,
            **request.fields,
        }

        said = {name: str(fields.get(name, "")) for name in ("purpose", "analyst")}

        def work(connection: Connection) -> _Booked:
            first = journal.keyed(connection, self.spec.id, request.key) if request.key else None
            if first is not None:
                return self._booked_before(connection, *first, request.body)
            head = self._head(connection)
            rules = rules_of(connection, self.ledger.rules, head.seq)
            rules.refuse(path, **said)
            now = journal.totals_of(connection, keys(path, period))
            after = booked(path, now, charge, period)
            held = [rules.amended(spec) for spec in path] if rules.budgets else path
            against = refused(held, after, period)
            if against is not None:
                raise refusal_for(against, held, now, charge, period, correction=request.correction)
            entry = journal.append(connection, [fields], head=head)[0]
            journal.set_totals(connection, after)
            if request.key:
                journal.add_key(connection, self.spec.id, request.key, request.body, entry.seq)
            return _Booked(Receipt(entry.seq, entry.hash, charge, private))

        found = self.ledger.store.write(work)
        self.ledger.seen = max(self.ledger.seen, found.receipt.entry)
        return found

    def _booked_before(self, connection: Connection, entry: int, body: str, asked: str) -> _Booked:
        """What stands in the book under a key: its receipt, how it ended, and the answer that it kept."""
        if body != asked:
            raise LedgerError(code="key-other-body")
        fields, end = journal.entry_of(connection, entry), journal.conclusion_of(connection, entry)
        charge = {name: from_text(value) for name, value in fields["charge"].items()}
        private = bool(fields["private"]) and (end is None or bool(end["private"]))
        receipt = Receipt(entry, str(fields["hash"]), charge, private)
        return _Booked(receipt, OPEN if end is None else str(end["status"]), None if end is None else end.get("answer"))

    def _head(self, connection: Connection) -> journal.Entry:
        """The last entry. A book that is shorter than it was is another one, or an old copy."""
        found = journal.last(connection)
        if found.seq < self.ledger.seen:
            raise LedgerError(code="ledger-replaced")
        return found

    def _conclude(self, receipt: Receipt, status: str, question_key: str | None, answer: object, private: bool) -> None:
        fields: dict[str, Any] = {
            "kind": "commit",
            "account": self.spec.id,
            "reservation": receipt.entry,
            "status": status,
            "time": journal.now(),
            "private": receipt.private and private and is_private(),
        }
        if answer is not None:
            fields["answer"] = json.loads(canonical(answer))
            # without a question, the answer is found by its key alone
            fields |= {} if question_key is None else {"question_key": question_key}

        def work(connection: Connection) -> None:
            if journal.conclusion_of(connection, receipt.entry) is not None:
                raise LedgerError(f"reservation {receipt.entry} was concluded before; a new attempt is a new spend")
            journal.append(connection, [fields], head=self._head(connection))

        # The spend is on the disk since the reservation. A power cut may lose this mark, and refunds nothing.
        self.ledger.store.write(work, durable=False)


class Reservation:
    """A spend whose data may now be touched, as `Account.reserve` books it. A `Payment` holds one; use that.

    `with reservation:` concludes it at the end, as `failed` after an exception and as `done` otherwise, and
    passes exceptions on as they are.
    """

    def __init__(
        self, account: Account, receipt: Receipt, *, cached: bool = False, answer: object = None,
        question_key: str | None = None, keyed: bool = False,
    ) -> None:  # fmt: skip
        self.account = account
        self.receipt = receipt
        self.cached = cached
        self.answer = answer
        self.status = DONE if cached else OPEN
        self._question_key = question_key
        self._keyed = keyed
        self._private = True
        self._watch: watch | None = None
        self._seen = Seen()

    @property
    def keeps(self) -> bool:
        """Whether an answer given to `commit` is kept."""
        return self._keyed or bool(self.account.spec.cache and self._question_key)

    def noticed(self, private: bool) -> None:
        """Say whether what was drawn for this reservation is private; once something is not, it stays so."""
        self._private = self._private and private

    def commit(self, answer: object = None) -> None:
        """Conclude the reservation. `answer`, a JSON value, is kept only where the account caches and a question was given, or a key."""
        if self.cached:
            return
        if answer is not None and not self.keeps:
            raise LedgerError(
                "an answer is kept only by an account with cache=True for a spend with question=, or for one with key=; leave answer out"
            )
        self._conclude(DONE, answer)

    def fail(self) -> None:
        """Conclude the reservation as failed: it stays spent, and no reason is recorded."""
        if not self.cached:
            self._conclude(FAILED, None)

    def _conclude(self, status: str, answer: object) -> None:
        if self.status != OPEN:
            raise LedgerError(f"this reservation is already {self.status}; a new attempt is a new spend")
        self._unwatch()
        self.account._conclude(self.receipt, status, self._question_key, answer, self._private)
        self.status = status
        self.answer = answer

    def _unwatch(self) -> None:
        if self._watch is not None:
            current, self._watch = self._watch, None
            current.__exit__(None, None, None)
            self.noticed(self._seen.private)

    def __enter__(self) -> Reservation:
        self._watch = watch()
        self._seen = self._watch.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._unwatch()
        if self.status == OPEN:
            self._conclude(DONE if kind is None else FAILED, None)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _belongs(fields: Mapping[str, Any], run: str) -> bool:
    """Whether an entry belongs to a run. Old books lack the field, and name it at the end of the purpose."""
    named = fields.get("run")
    return bool(named == run if named is not None else str(fields.get("purpose", "")).endswith(f"(run {run})"))


def _plain(answer: Any) -> object:
    """An answer without what it is wrapped in: the value of a release, the numbers of an array."""
    value = getattr(answer, "value", answer)
    return value.tolist() if hasattr(value, "tolist") else value


def _as_released(measurement: Releasable, event: Event, answer: object, private: bool) -> Any:
    """A kept answer as the measurement would have returned it."""
    from tacit.calculus import Measurement, Release

    if isinstance(measurement, Measurement):
        return Release(answer, event, measurement.adjacency, private=private)
    return answer
