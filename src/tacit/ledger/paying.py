"""Paying: the one way to spend. A payment books its price before the data is touched, and withholds errors.

`with paying(account, event, purpose=...) as payment:` books the event (or raises the ledger's refusal, and
the block never runs), runs the block, and concludes the entry. Whatever goes wrong inside becomes one error
with one constant text: the reason may depend on a row, so it is dropped together with its traceback, and the
entry stays spent. With `None` for the account nothing is booked, and the rest is the same.

>>> import pathlib, tempfile
>>> from tacit.accounting import PureDP
>>> from tacit.ledger import Budget, Ledger
>>> ledger = Ledger.open(f"sqlite:///{pathlib.Path(tempfile.mkdtemp()) / 'tacit.db'}")
>>> visits = ledger.account("visits", Budget(epsilon=1))
>>> with paying(visits, PureDP(0.25), purpose="weekly table") as payment:
...     answer = len(["a row", "another"])  # touch the data here, and add noise
>>> payment.entry, payment.status, payment.private
(4, 'done', True)
>>> with paying(visits, PureDP(0.25), purpose="weekly table"):
...     {"Ada": 1}["Bob"]
Traceback (most recent call last):
    ...
tacit.ledger.errors.ReleaseFailed: the computation failed after the data was touched. Entry 6 stays spent, ...

What is withheld
    The error: its type, text, notes, cause, context, and the frames below the block. The frames of the block
    and of its callers are in the new error's traceback, as in any other, and hold what was handed to them.
    Warnings and log records made inside the block by the thread (or task) that runs it, whether it fails or
    not. Three things escape: a new thread that the block starts, a block that puts a filter of warnings of
    its own in front, and what is printed or written without `warnings` or `logging`. Not withheld: that the
    block failed, that it was interrupted from the keyboard, and how long it took. On made-up rows, and without
    an account, `made_up` shows everything.
"""

from __future__ import annotations

import contextlib
import logging
import os
import warnings
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypedDict

from tacit.accounting import Event
from tacit.ledger.errors import LedgerError, ReleaseFailed
from tacit.ledger.journal import canonical
from tacit.ledger.store import Opened
from tacit.noise import Seen, test_mode, watch

if TYPE_CHECKING:
    from tacit.exact import Typed
    from tacit.ledger.account import Account, Receipt, Reservation

DONE = "done"
FAILED = "failed"
OPEN = "open"
_BEFORE = "not opened"

#: Whether this thread or task is inside a payment's block.
_inside: ContextVar[bool] = ContextVar("tacit_paying", default=False)
#: Whether the rows were declared to be made up, so that errors are shown.
_shown: ContextVar[bool] = ContextVar("tacit_made_up", default=False)


class Terms(TypedDict, total=False):
    """What a spend says about itself, beside its event. All of it is public, and written into the book."""

    purpose: str  # what the answer is for
    run: str  # which run the spend belongs to; `Account.payments` finds it by this
    analyst: str  # who asks
    delta: Typed | None  # the share of an (epsilon, delta) budget's delta that the event may use
    period: str | None  # which period of an account with a window, from the data's dates
    correction: bool  # whether it may use the budget's reserve for corrections
    question: object  # what is asked, as a JSON value; a caching account answers the same question once
    key: str  # the caller's own name for this spend: it is booked once, however often it is sent
    body: str  # what was sent under the key; another text under the same key is refused


def paying(
    account: Account | None, event: Event, *, purpose: str = "", run: str = "", analyst: str = "",
    delta: Typed | None = None, period: str | None = None, correction: bool = False,
    question: object = None, key: str = "", body: str = "",
    error: type[Exception] = ReleaseFailed, advice: str = "",
) -> Payment:
    """A payment for `event`, to be used as a context manager; `Terms` says what the terms are.

    `error` is the class of the one error, `advice` a constant sentence at its end: what a user can do next.
    With a `key`, the spend is booked once. Sent again with the same `body`, the payment is `cached` and has the
    answer that was kept; where none was kept, `KeyKnown` is raised and names the first entry: what was drawn
    for it is lost or under way elsewhere, and it is never drawn again.
    """
    terms = Terms(purpose=purpose, run=run, analyst=analyst, delta=delta, period=period)
    terms |= Terms(correction=correction, question=question, key=key, body=body)
    return Payment(account, event, terms, error=error, advice=advice)


class Payment:
    """A price and what became of it. Made by `paying`; `Account.payments` finds those of a run.

    Work that spans several calls or processes does not use `with payment:`. It calls `open()`, then does each
    piece of work inside `with payment.touching():`, and ends with `commit()`. A forked child cannot go on with it;
    another process that finds it in the book, by `Account.payments`, can.
    """

    def __init__(
        self,
        account: Account | None,
        event: Event,
        terms: Terms | None = None,
        *,
        reservation: Reservation | None = None,
        error: type[Exception] = ReleaseFailed,
        advice: str = "",
    ) -> None:
        self.account = account
        self.event = event
        self.status = _BEFORE if reservation is None else reservation.status
        self._terms: Terms = terms or {}
        self._reservation = reservation
        self._private = True
        self._kept: object = None
        self._error, self._advice = error, advice
        self._block: Touching | None = None
        self._home = HomeProcess()

    def __repr__(self) -> str:
        entry = "no entry" if self.entry is None else f"entry {self.entry}"
        return f"Payment({self.event!r}, {entry}, {self.status})"

    @property
    def receipt(self) -> Receipt | None:
        """The booked entry; None without an account, and before the payment is opened."""
        return None if self._reservation is None else self._reservation.receipt

    @property
    def entry(self) -> int | None:
        """The number of the booked entry."""
        return None if self._reservation is None else self._reservation.receipt.entry

    @property
    def cached(self) -> bool:
        """Whether the account kept an answer to this very question: then nothing is booked."""
        return self._reservation is not None and self._reservation.cached

    @property
    def answer(self) -> object:
        """The kept answer, where `cached`."""
        reservation = self._reservation
        return reservation.answer if reservation is not None and reservation.cached else None

    @property
    def private(self) -> bool:
        """Whether everything drawn so far came from the operating system, and nothing from a test's seed."""
        return self._private and (self._reservation is None or self._reservation.receipt.private)

    def keep(self, answer: object) -> None:
        """Have a caching account keep this answer (a JSON value) for the identical question.

        An answer to no question, of another account, or without a JSON form is silently not kept: whether an
        answer has a JSON form may depend on the data.
        """
        with contextlib.suppress(LedgerError):
            canonical(answer)
            self._kept = answer

    def open(self) -> Payment:
        """Book the price, durably; a refusal is raised here, as it is: it depends on public numbers only."""
        if self.status != _BEFORE:
            raise LedgerError(f"this payment is already {self.status}; a new attempt is a new spend")
        if self.account is not None:
            if showing():
                raise LedgerError(code="made-up-book")
            self._reservation = self.account.reserve(self.event, **self._terms)
        self.status, self._home = DONE if self.cached else OPEN, HomeProcess()
        return self

    def touching(self, *, resumable: bool = False) -> Touching:
        """A block of work on the data, after `open()`: an error ends the payment, success leaves it open.

        Where the work can be resumed later, under the same entry, an error leaves the payment open as well.
        """
        return Touching(self, resumable)

    def noticed(self, private: bool) -> None:
        """Say whether what an earlier process drew is private; once something is not, it stays so."""
        self._private = self._private and private

    def commit(self) -> None:
        """Conclude the payment as done, once."""
        self._conclude(DONE)

    def fail(self) -> None:
        """Conclude the payment as failed, once: it stays spent, and no reason is recorded."""
        self._conclude(FAILED)

    def _conclude(self, status: str) -> None:
        if self.cached:
            return
        if self.status != OPEN:
            raise LedgerError(f"this payment is {self.status}; only an open one is concluded, and only once")
        reservation = self._reservation
        if reservation is not None:
            reservation.noticed(self._private)
            if status == DONE:
                reservation.commit(self._kept if reservation.keeps else None)
            else:
                reservation.fail()
        self.status = status

    def _failure(self) -> Exception:
        what = "What it cost" if self.entry is None else f"Entry {self.entry}"
        text = (
            f"the computation failed after the data was touched. {what} stays spent, and the reason is "
            "withheld, because it may depend on the data. Try made-up rows of the same shape before trying "
            "again, which costs again"
        )
        return self._error(f"{text}. {self._advice}" if self._advice else text)

    def __enter__(self) -> Payment:
        self.open()
        self._block = self.touching()
        self._block.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        kind = withheld(kind)
        del error, trace
        block, self._block = self._block, None
        if block is not None:
            block.__exit__(kind, None, None)
        if self.status == OPEN:
            self.commit()


class HomeProcess:
    """The process in which a state that answers for one payment was opened; no copy of the state may answer.

    A conversation, a stream or an in-memory budget was paid for once and remembers what it has answered. A fork (a
    server that starts its workers, a pool of processes) copies that memory, and every copy would go on answering
    with noise of its own: several draws for one payment. So such a state notes its process, and refuses in another.

    >>> HomeProcess().insist()
    """

    def __init__(self) -> None:
        self._process = os.getpid()

    def insist(self) -> None:
        """A refusal in a forked child; nothing was touched. It depends on the process alone."""
        if os.getpid() != self._process:
            raise LedgerError(code="other-process")


class Touching:
    """A block in which draws are watched, warnings and logs dropped, errors replaced by the payment's one."""

    def __init__(self, payment: Payment, resumable: bool) -> None:
        self.payment, self.resumable = payment, resumable
        self._watch = watch()
        self._seen: Seen | None = None
        self._token: Token[bool] | None = None
        self._shown = False  # the rows were made up when the block began, and no account pays

    def __enter__(self) -> Payment:
        if self.payment.status != OPEN and not self.payment.cached:
            raise LedgerError(f"this payment is {self.payment.status}; open() one before the data is touched")
        self.payment._home.insist()
        _hush()
        # Inside another payment's block the rows are that payment's: what it withholds stays withheld.
        self._shown = showing() and self.payment.account is None and not _inside.get()
        self._seen = self._watch.__enter__()
        self._token = _inside.set(not self._shown)
        return self.payment

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        kind = withheld(kind)
        del error, trace
        payment = self.payment
        if self._token is not None and self._seen is not None:
            _inside.reset(self._token)
            self._watch.__exit__(None, None, None)
            payment.noticed(self._seen.private and not self._shown)
            self._token = None
        if kind is None:
            return
        if self._shown:
            payment.status = FAILED
            return  # the error goes on its way as it is
        # A refusal by the ledger of a payment inside this one is withheld like the rest. A refusal is public
        # because the request is, and in here what is requested, and whether, can depend on the data.
        failure: BaseException = KeyboardInterrupt() if kind is KeyboardInterrupt else payment._failure()
        if payment.status == OPEN and not self.resumable:
            # where the book cannot be written now, the entry stays open, which is spent too
            with contextlib.suppress(Exception):
                payment.fail()
            payment.status = FAILED
        try:
            raise failure
        finally:
            # Python linked the error being handled, which is the one to withhold.
            failure.__context__ = None


def withheld(kind: type[BaseException] | None) -> type[BaseException] | None:
    """What may be known of a block's end: None for success, KeyboardInterrupt, Exception for the rest.

    For the first lines of an `__exit__` around a payment's, `kind = withheld(kind)` and `del error, trace`:
    its frame will be in the traceback of the new error, and must not hold the old one. For the same reason a
    payment is not wrapped in a generator (`contextlib.contextmanager`) or an `ExitStack`: their frames keep
    the old error.

    >>> withheld(KeyError), withheld(None)
    (<class 'Exception'>, None)
    """
    # Whether a process ends is an answer, so SystemExit is a failure like any other.
    if kind is None:
        return None
    return KeyboardInterrupt if issubclass(kind, KeyboardInterrupt) else Exception


# --- made-up rows ---------------------------------------------------------------------------------------------


def showing() -> bool:
    """Whether errors are shown, because the rows were declared to be made up.

    >>> showing()
    False
    """
    return _shown.get()


class made_up:
    """A context manager for rows that were made up: errors are shown, and everything is NOT PRIVATE.

    A mistake in a callback of one's own (a model to tune, a teacher, a function to aggregate) is hard to find
    where every error is withheld. On made-up rows nothing needs to be. Inside, errors, warnings and log records
    come through as they are. Draws come from a seed, so that whatever is released is marked NOT PRIVATE. No
    account can be there: a process that has opened a book cannot begin it, and no book is opened inside. It is
    refused in production, as `noise.test_mode` is, and inside a payment's block.

        with made_up():
            tune(candidates, train, made_up_rows, ...)   # without an account
    """

    def __init__(self, seed: int = 0) -> None:
        self._mode = test_mode(seed)
        self._tokens: list[Token[bool]] = []

    def __enter__(self) -> None:
        if Opened.here:
            raise LedgerError(code="made-up-after-book")
        if inside():
            raise LedgerError(code="made-up-inside")
        self._mode.__enter__()
        self._tokens.append(_shown.set(True))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _shown.reset(self._tokens.pop())
        self._mode.__exit__(kind, error, trace)


def inside() -> bool:
    """Whether this thread or task is inside a payment's block.

    >>> from tacit.accounting import PureDP
    >>> with paying(None, PureDP(1)):
    ...     inside()
    True
    """
    return _inside.get()


# --- warnings and logs ------------------------------------------------------------------------------------
# Neither `warnings.catch_warnings` nor `logging.disable` will do: both change the whole process until the
# block ends. Two threads whose blocks overlap would undo each other's change, or leave it behind for good.
# What is put in place here stays there, and does something only for the thread or task that is inside a
# block.


class _WhileInside:
    """Stands in for a filter's pattern: it matches every message inside a payment's block, none outside."""

    def match(self, text: str) -> bool:
        return _inside.get()

    @property
    def pattern(self) -> str:
        """The same as a regular expression, for scikit-learn, which copies filters into its workers."""
        return "" if _inside.get() else "(?!)"


_IGNORED: Any = ("ignore", _WhileInside(), Warning, None, 0)


def _hush() -> None:
    """Put the filter of warnings first, and ours around the maker of log records, unless they are there."""
    filters: Any = warnings.filters
    if not filters or filters[0] is not _IGNORED:
        filters.insert(0, _IGNORED)
    making = logging.getLogRecordFactory()
    if not isinstance(making, _Records):
        logging.setLogRecordFactory(_Records(making))


class _Records:
    """Makes log records; one made inside a payment's block is empty, and below the level of every handler."""

    def __init__(self, making: Any) -> None:
        self.making = making

    def __call__(self, name: str, level: int, *rest: Any, **more: Any) -> logging.LogRecord:
        if not _inside.get():
            made: logging.LogRecord = self.making(name, level, *rest, **more)
            return made
        return logging.LogRecord(name, -1, "", 0, "withheld", (), None)
