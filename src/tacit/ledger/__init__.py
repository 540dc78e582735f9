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

from tacit.ledger.account import Account, Receipt, Releasable, Reservation, Spent
from tacit.ledger.book import Ledger
from tacit.ledger.budget import Budget
from tacit.ledger.errors import (
    BudgetExceeded,
    LedgerBroken,
    LedgerBusy,
    LedgerError,
    LedgerUnwritable,
    PriceError,
    ReleaseFailed,
)
from tacit.ledger.filters import Filter, Reading, odometer, theorem
from tacit.ledger.identity import DataIdentity
from tacit.ledger.journal import canonical
from tacit.ledger.paying import OPEN, Payment, Terms, paying, withheld
from tacit.ledger.pricing import price
from tacit.ledger.queryable import Frozen, InteractiveMeasurement, Queryable, queryable
from tacit.ledger.spec import WINDOWS, days
from tacit.ledger.verify import Verification

# The book, its accounts and their budgets; `report` is a module, loaded when it is first imported.
__all__ = ["WINDOWS", "Account", "Budget", "DataIdentity", "Ledger", "Spent", "Verification", "days"]
__all__ += ["report"]
# Spending.
__all__ += ["OPEN", "Payment", "Receipt", "Releasable", "Reservation", "Terms", "paying", "withheld"]
# Prices and filters.
__all__ += ["Filter", "Reading", "canonical", "odometer", "price", "theorem"]
# Data that answers questions under a budget.
__all__ += ["Frozen", "InteractiveMeasurement", "Queryable", "queryable"]
# Refusals.
__all__ += ["BudgetExceeded", "LedgerBroken", "LedgerBusy", "LedgerError", "LedgerUnwritable", "PriceError"]
__all__ += ["ReleaseFailed"]
