"""Errors of the ledger. Every message is made of public parameters; none depends on the data.

>>> issubclass(BudgetExceeded, LedgerError)
True
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from tacit.accounting import Refusal

#: The ledger's refusals, worded for Python. `tacit.release.faults` words them for job files.
WORDS: Mapping[str, str] = {
    "ledger-missing": "there is no ledger at this URL; check the path, or open it with create=True",
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
    """The database refused to store the entry (full disk, read-only file, lost connection); treat the spend as not granted."""


class LedgerBroken(LedgerError):
    """The stored form is not a book this package wrote; run `verify` for the particulars."""


class ReleaseFailed(LedgerError):
    """The measurement failed after the data was touched: a constant text, because the reason may depend on the data."""


class BudgetExceeded(LedgerError):
    """The request does not fit. It cost nothing, and it depends on parameters only.

    `account` is the account that refuses (the one asked, or one above it), `left` and `asked` are its components in exact fractions,
    `fits` says in words what would be granted.
    """

    def __init__(self, message: str, *, account: str, left: Mapping[str, Fraction], asked: Mapping[str, Fraction], fits: str) -> None:
        super().__init__(message)
        self.code = "budget-exceeded"
        self.facts = {"account": account, "left": dict(left), "asked": dict(asked), "fits": fits}
        self.account = account
        self.left = dict(left)
        self.asked = dict(asked)
        self.fits = fits

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (str(self), self.account, self.left, self.asked, self.fits)


def _rebuild(message: str, account: str, left: Mapping[str, Fraction], asked: Mapping[str, Fraction], fits: str) -> BudgetExceeded:
    """A refusal that crossed a process boundary (exceptions with keyword arguments do not pickle by themselves)."""
    return BudgetExceeded(message, account=account, left=left, asked=asked, fits=fits)
