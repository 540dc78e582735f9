"""The errors of the ledger. A message is made of public parameters and never depends on the data.

Every error is a `LedgerError`. A refusal (`BudgetExceeded`, `PriceError`) costs nothing; `ReleaseFailed`
comes after the data was touched, and what was paid stays spent.

>>> issubclass(BudgetExceeded, LedgerError)
True
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from tacit.accounting import Refusal

#: The ledger's refusals, worded for Python. `tacit.release.faults` words them for job files.
WORDS: Mapping[str, str] = {
    "key-known": (
        "this key was booked before, as entry {entry} ({status}), and no answer of it is kept; it is never drawn again. "
        "A new attempt needs a new key, and costs again"
    ),
    "key-other-body": "this key was booked before for something else; nothing was spent. Use a new key for a new question",
    "account-closed": "account {account!r} was closed by an officer: {reason}; nothing was spent",
    "analyst-barred": "analyst {analyst!r} is {state} by an officer's decision: {reason}; nothing was spent",
    "analyst-needed": (
        "several analysts use this book ({analysts}), and the user of the system is none of them; say who asks: "
        "analyst='...'"
    ),
    "analyst-not-listed": (
        "account {account!r} admits the analysts {analysts}, and {analyst} is none of them; nothing was spent"
    ),
    "officer-unknown": "a decision is signed by officers of this book, who are {officers}; enrol the signer first",
    "purpose-missing": (
        "account {account!r} asks what each spend is for; give purpose='...', one of: {purposes}. Nothing was spent"
    ),
    "purpose-not-listed": (
        "account {account!r} admits the purposes {purposes}, and {purpose!r} is none of them (details go behind a "
        "colon); nothing was spent"
    ),
    "purpose-vague": (
        "account {account!r} asks what each spend is for, and {purpose!r} does not say it; name the product and "
        "its reader, such as 'weekly table for the board'. Nothing was spent"
    ),
    "second-signature": (
        "this decision ({kind}) loosens what holds, so two different officers must sign it; one may only tighten"
    ),
    "ledger-format": (
        "the book is of format {found}, and this version of Tacit knows format {known}; use the version that "
        "wrote it. The book was not changed"
    ),
    "ledger-missing": "there is no ledger at this URL; check the path, or open it with create=True",
    "ledger-replaced": (
        "the book was deleted, moved or replaced while it was in use; nothing is granted. Put it back where it "
        "was, run verify with the last head you remember, and open it anew"
    ),
    "other-process": (
        "this was opened in another process, which this one is a fork of: both would answer from one payment. Ask in the "
        "process that opened it, or open it here, which costs again. Nothing was touched"
    ),
    "made-up-after-book": (
        "this process has opened a book, so rows cannot be declared made up in it: errors of private rows could "
        "be seen. Debug in a process of its own, without a ledger"
    ),
    "made-up-book": "no book is opened among made-up rows: nothing is paid for there; leave made_up() first",
    "made-up-inside": "made_up() cannot begin inside a payment's block; begin it before the computation",
    "price-not-pure": (
        "a budget of pure epsilon admits only events with a finite epsilon at delta = 0 ({reason}); use "
        "Laplace noise, or an account with Budget(epsilon=..., delta=...) or Budget(rho=...)"
    ),
    "terms-fixed": (
        "{term}: {name!r} is account {account!r}, which was opened with {term}={opened!r}; terms never "
        "change. Leave {term} out, or open an account below it"
    ),
}


class LedgerError(Refusal, ValueError):
    """Something about the request or the book is wrong; the message names it and the fix."""

    words = WORDS


class PriceError(LedgerError):
    """The event has no proven price in the currency of an account it would be booked on."""


class LedgerBusy(LedgerError):
    """Another connection held the book for longer than the timeout; nothing was spent by this call."""


class LedgerUnwritable(LedgerError):
    """The database failed to store the entry (full disk, lost connection, ...): the spend is not granted."""


class LedgerBroken(LedgerError):
    """What is stored is not a book that this package wrote; `verify` says what is wrong."""


class KeyKnown(LedgerError):
    """A spend with this key is in the book already (`facts`: its `entry` and `status`), and it kept no answer."""


class ReleaseFailed(LedgerError):
    """The measurement failed after the data was touched: a constant text, because the reason may depend on the data."""


class BudgetExceeded(LedgerError):
    """The request does not fit. The refusal cost nothing, and depends on public parameters only.

    `account` is the account that refuses (the one asked, or one above it), `left` and `asked` are exact
    amounts by component, and `fits` says in words what would be granted.
    """

    # The defaults let a refusal cross a process boundary: an exception is unpickled from its message alone,
    # and gets its other attributes afterwards.
    def __init__(
        self,
        message: str,
        *,
        account: str = "",
        left: Mapping[str, Fraction] | None = None,
        asked: Mapping[str, Fraction] | None = None,
        fits: str = "",
    ) -> None:
        super().__init__(message)
        self.account, self.left, self.asked, self.fits = account, dict(left or {}), dict(asked or {}), fits
        self.code = "budget-exceeded"
        self.facts = {"account": account, "left": self.left, "asked": self.asked, "fits": fits}
