"""What an analyst, a curator, an engineer and an officer write. Type checkers read it, and it is never run.

Under `mypy --strict` and under pyright's strict mode, every line must be understood: no error, and no name of unknown type.
`tests/test_typed_use.py` checks it with mypy, and with pyright where that is installed.
"""

from fractions import Fraction
from pathlib import Path

import pandas as pd

import tacit
from tacit import accounting, audit, ledger, mechanisms, release
from tacit.tables import Answer, Price, Source

visits = pd.DataFrame({"id": [1, 1, 2], "region": ["n", "s", "n"], "cost": [10.0, 20.0, 30.0]})


def ask(session: tacit.Session) -> float:
    """Price, question, interval, frame, what is left."""
    price: Price = session.price("SELECT COUNT(*) AS n FROM visits", epsilon=0.1)
    answer: Answer = session.sql(
        "SELECT region, COUNT(*) AS n, AVG(cost) AS cost FROM visits GROUP BY region",
        bounds={"cost": (0, 100)},
        keys={"region": ["n", "s"]},
        epsilon=0.1,
    )
    low, high = answer.interval("n", kind="total")
    frame: pd.DataFrame = answer.to_pandas()
    left: dict[str, Fraction] = dict(session.left())
    print(frame, left, answer.figures["n"].value[0])
    return float(high[0] - low[0]) + price.epsilon


def opened(file: Path) -> tacit.Session:
    """A session whose unit is called what it is."""
    unit = tacit.Unit("id", max_rows=4, called="patient")
    budget = tacit.Budget(epsilon=1, delta=1e-6)
    return tacit.Session(Source.of(visits, name="visits"), unit=unit, budget=budget, name="visits", ledger=file)


def published(file: Path) -> Path:
    """A job: read, planned, run."""
    job = release.load(file)
    print(release.plan(job, base=file.parent).cost.upper)
    return release.run(job, base=file.parent).folder


def priced() -> float:
    """What ten queries cost."""
    event = accounting.Repeated(accounting.Gaussian(noise_multiplier=1.1), 10)
    bound: accounting.Bound = accounting.account(event).epsilon(1e-5)
    return bound.upper


def booked(address: str) -> Fraction:
    """A spend, and what is left after it."""
    with ledger.Ledger.open(address) as book:
        account = book.account("visits", tacit.Budget(epsilon=1))
        with account.paying(accounting.Laplace(noise_multiplier=10), purpose="a test"):
            pass
        return account.left()["epsilon"]


def attacked(rows: list[int]) -> bool:
    """A function under attack."""

    def count(data: list[int]) -> int:
        return len(data)

    return audit.audit_mechanism(count, "eps=1", neighbours=[(rows, rows[1:])], trials=100).broken


def noisy(value: int) -> mechanisms.LaplaceMechanism:
    """A mechanism."""
    print(value)
    return mechanisms.laplace(scale=2)
