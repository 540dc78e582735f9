"""Budgets, and the book that records every spend.

A spend is refused before the data is touched, or it is written down and never forgotten. Amounts are exact
fractions. `account.paying(event, ...)` is how to spend; everything else opens accounts, asks what is left, or
reads the book.

>>> import pathlib, tempfile
>>> from tacit.accounting import Gaussian
>>> ledger = Ledger.open(f"sqlite:///{pathlib.Path(tempfile.mkdtemp()) / 'tacit.db'}")
>>> visits = ledger.account("visits-2026", Budget(rho=0.1), unit="patient")
>>> with visits.paying(Gaussian(noise_multiplier=10), purpose="weekly table", analyst="ann") as payment:
...     pass  # touch the data here
>>> str(visits.spent()), visits.left()
('rho 0.005', {'rho': Fraction(19, 200)})
"""

# Imports inside functions: a book in a file needs no SQLAlchemy, and only a report needs pictures.

from typing import TYPE_CHECKING

from tacit.lazy import lazily
from tacit.ledger.account import Account, Receipt, Releasable, Reservation, Spent
from tacit.ledger.book import DataIdentity, Ledger
from tacit.ledger.booking import price
from tacit.ledger.budget import Budget, Filter, Reading, alternatives, odometer, share_of_step, theorem
from tacit.ledger.errors import (
    BudgetExceeded,
    KeyKnown,
    LedgerBroken,
    LedgerBusy,
    LedgerError,
    LedgerUnwritable,
    PriceError,
    ReleaseFailed,
)
from tacit.ledger.journal import canonical
from tacit.ledger.paying import OPEN, HomeProcess, Payment, Terms, made_up, paying, withheld
from tacit.ledger.spec import WINDOWS, Rules, days, vague

if TYPE_CHECKING:
    from tacit.ledger.adaptive import AdaptiveFilter
    from tacit.ledger.governance import Decision, Governance, OfficerKey
    from tacit.ledger.queryable import Frozen, InteractiveMeasurement, Queryable, queryable
    from tacit.ledger.verify import Verification

#: What a single spend does not need is loaded when it is first used.
__getattr__, __dir__ = lazily(__name__, {
    "adaptive": ("AdaptiveFilter",),
    "governance": ("Decision", "Governance", "OfficerKey"),
    "queryable": ("Frozen", "InteractiveMeasurement", "Queryable", "queryable"),
    "verify": ("Verification",),
})  # fmt: skip

# The book, its accounts and their budgets; `report` and `officer` are modules, loaded when they are first imported.
__all__ = ["WINDOWS", "Account", "Budget", "DataIdentity", "Ledger", "Spent", "Verification", "days"]
__all__ += ["officer", "report"]
# Spending.
__all__ += ["OPEN", "HomeProcess", "Payment", "Receipt", "Releasable", "Reservation", "Terms", "made_up"]
__all__ += ["paying", "withheld"]
# Prices and filters.
__all__ += ["AdaptiveFilter", "Filter", "Reading", "alternatives", "canonical", "odometer", "price", "share_of_step", "theorem"]
# Decisions of officers.
__all__ += ["Decision", "Governance", "OfficerKey", "Rules", "vague"]
# Data that answers questions under a budget.
__all__ += ["Frozen", "InteractiveMeasurement", "Queryable", "queryable"]
# Refusals.
__all__ += ["BudgetExceeded", "KeyKnown", "LedgerBroken", "LedgerBusy", "LedgerError", "LedgerUnwritable", "PriceError"]
__all__ += ["ReleaseFailed"]
