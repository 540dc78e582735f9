"""Tacit itself, asked the same questions, for `bench_leaks.py`."""

from __future__ import annotations

import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

from leaks_sampling import Asked, main, spent_in_tenths

import tacit
from tacit.accounting import PureDP
from tacit.calculus import Absolute, AddRemove, Integers, Lattice, ReplaceOne, Rows, Space, total
from tacit.ledger import Budget, Ledger
from tacit.mechanisms import GaussianMechanism, bounded_mean, gaussian, geometric, laplace

SLOW = 1.0
STEP = Fraction(1, 1024)


def budget() -> str:
    with tempfile.TemporaryDirectory() as folder, Ledger.open(f"sqlite:///{Path(folder) / 'book.db'}") as book:
        account = book.account("people", Budget(epsilon=1), unit="person")

        def spend(epsilon: float) -> None:
            with account.paying(PureDP(Fraction(str(epsilon))), purpose="a question", analyst="ann"):
                pass

        return spent_in_tenths(spend)


if __name__ == "__main__":
    whole, real = Space(Integers(), Absolute()), Space(Lattice(STEP), Absolute())
    values = Rows(Lattice(STEP, 0, 1))
    plans: dict[str, Any] = {
        "laplace": whole >> laplace(1),
        "geometric": whole >> geometric(1),
        "gaussian": whole >> gaussian(GaussianMechanism.for_epsilon(1, 0.01).sigma),
        "real": real >> laplace(1),
        "more": Space(values, AddRemove()) >> total() >> laplace(1),
        "exchanged": Space(values, ReplaceOne()) >> total() >> laplace(1),
        "mean": Space(Rows(Lattice(STEP, 0, 1), size=3), ReplaceOne()) >> bounded_mean(laplace(1)),
    }
    main(
        tacit.__version__,
        {
            "count, Laplace": Asked(plans["laplace"].function, share=SLOW),
            "count, geometric": Asked(plans["geometric"].function, share=SLOW),
            "count, Gaussian": Asked(plans["gaussian"].function, "eps=1,delta=0.01", share=SLOW),
            "float noise": Asked(lambda value: plans["real"].function(int(value / STEP)), share=SLOW),
            "sum, one row more": Asked(lambda rows: plans["more"].release([v * 1024 for v in rows]).value, share=SLOW),
            "sum, one row NaN": Asked(lambda rows: plans["exchanged"].release([v * 1024 for v in rows]).value, share=SLOW),
            "sum, one row 1e308": Asked(lambda rows: plans["exchanged"].release([v * 1024 for v in rows]).value, share=SLOW),
            "mean, one row NaN": Asked(lambda rows: plans["mean"].release([v * 1024 for v in rows]).value.value, share=SLOW),
            "mean, one row 1e308": Asked(lambda rows: plans["mean"].release([v * 1024 for v in rows]).value.value, share=SLOW),
        },
        budget,
    )
