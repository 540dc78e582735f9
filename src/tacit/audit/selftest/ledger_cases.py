"""Attacks on payments: a second draw for a run that has ended, and a fresh budget for a copy of the data.

Both are about the book and not about noise: whoever gets two draws for one price has twice the loss. Each mutant shows
two answers; the right one asks the book for the second, is refused, and shows the first again.

>>> [mutant.name for mutant in mutants()]
['two draws for one payment', 'a copy gets a fresh budget']
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tacit.accounting import PureDP
from tacit.audit.selftest.case import Mutant
from tacit.ledger import Account, Budget, BudgetExceeded, DataIdentity, Ledger, LedgerError
from tacit.noise import discrete_laplace


def _drawn(data: Sequence[int], n: int) -> Any:
    return len(data) + np.asarray(discrete_laplace(1, size=n))


def _shown(first: Any, second: Any | None) -> list[tuple[int, int]]:
    other = first if second is None else second
    return [(int(a), int(b)) for a, b in zip(first, other, strict=True)]


def _ended(account: Account, data: Sequence[int], n: int) -> Any:
    """A run that pays, draws and ends."""
    payment = account.paying(PureDP(1), run="the run").open()
    with payment.touching():
        found = _drawn(data, n)
    payment.commit()
    return found


def resumed_by_a_file(data: Sequence[int], n: int) -> list[tuple[int, int]]:
    """A work file that is left over from a finished run is enough to draw once more."""
    with tempfile.TemporaryDirectory() as folder, Ledger.open(f"sqlite:///{folder}/book.db") as book:
        return _shown(_ended(book.account("data", Budget(epsilon=1)), data, n), _drawn(data, n))


def resumed_by_the_ledger(data: Sequence[int], n: int) -> list[tuple[int, int]]:
    """The ledger is asked whether the run may draw."""
    with tempfile.TemporaryDirectory() as folder, Ledger.open(f"sqlite:///{folder}/book.db") as book:
        account = book.account("data", Budget(epsilon=1))
        first = _ended(account, data, n)
        try:
            with account.payments(run="the run")[0].touching():
                return _shown(first, _drawn(data, n))
        except LedgerError:
            return _shown(first, None)


def _asked_twice(data: Sequence[int], n: int, *, rows_too: bool) -> list[tuple[int, int]]:
    """Spend all for a file, then ask again for the same rows in another format."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    from tacit.tables import Source

    table = pa.table({"id": list(range(len(data))), "x": [float(value) for value in data]})
    with tempfile.TemporaryDirectory() as folder, Ledger.open(f"sqlite:///{folder}/book.db") as book:
        parquet.write_table(table, f"{folder}/data.parquet")
        csv.write_csv(table, f"{folder}/data.csv")
        answers = []
        for file in ("data.parquet", "data.csv"):
            source = Source.of(Path(folder, file), name="data")
            known = list(source.identities(book.knows)) if rows_too else [DataIdentity.file(Path(folder, file))]
            source.close()
            try:
                with book.account(file, Budget(epsilon=1), data=known).paying(PureDP(1)):
                    answers.append(_drawn(data, n))
            except BudgetExceeded:
                answers.append(None)
        return _shown(answers[0], answers[1])


def known_by_bytes(data: Sequence[int], n: int) -> list[tuple[int, int]]:
    """Data is known by the bytes of its file alone."""
    return _asked_twice(data, n, rows_too=False)


def known_by_rows(data: Sequence[int], n: int) -> list[tuple[int, int]]:
    """Data is known by its rows."""
    return _asked_twice(data, n, rows_too=True)


def mutants() -> list[Mutant]:
    """Both, with what is right beside them."""
    pair = ([1, 1], [1])
    return [
        Mutant("two draws for one payment", resumed_by_a_file, resumed_by_the_ledger, pair, trials=8000, bulk=True),
        Mutant("a copy gets a fresh budget", known_by_bytes, known_by_rows, pair, trials=8000, bulk=True),
    ]
