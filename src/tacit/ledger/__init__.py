"""The book that never forgets: budgets in exact fractions, spends refused before the data is touched, a record that is never changed.

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
from tacit.ledger.filters import Filter, Reading, odometer
from tacit.ledger.identity import DataIdentity
from tacit.ledger.payers import Frozen
from tacit.ledger.paying import Payment, paying, withheld
from tacit.ledger.pricing import price
from tacit.ledger.queryable import InteractiveMeasurement, Queryable, queryable
from tacit.ledger.verify import Verification

__all__ = [
    "Account",
    "Budget",
    "BudgetExceeded",
    "DataIdentity",
    "Filter",
    "Frozen",
    "InteractiveMeasurement",
    "Ledger",
    "LedgerBroken",
    "LedgerBusy",
    "LedgerError",
    "LedgerUnwritable",
    "Payment",
    "PriceError",
    "Queryable",
    "Reading",
    "Receipt",
    "Releasable",
    "ReleaseFailed",
    "Reservation",
    "Spent",
    "Verification",
    "odometer",
    "paying",
    "price",
    "queryable",
    "withheld",
]
