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
    "ledger-format": (
        "the book is of format {found}, and this version of Tacit knows format {known}; use the version that "
        "wrote it. The book was not changed"
    ),
    "ledger-missing": "there is no ledger at this URL; check the path, or open it with create=True",
    "ledger-replaced": (
        "the book was deleted, moved or replaced while it was in use; nothing is granted. Put it back where it "
        "was, run verify with the last head you remember, and open it anew"
    ),
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
