"""Counts above a threshold in rounds: the error as often as it says, prices by hand, refusals between rounds, and what stops early."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, norm

from tacit.accounting import Adjacency, Gaussian
from tacit.errors import ParameterError
from tacit.ledger import Budget, BudgetExceeded, Ledger, paying
from tacit.noise import test_mode as seeded
from tacit.tables import Session, Unit
from tacit.workloads import Above, above_in, plan_above
from tacit.workloads.above import PARTS, in_rounds

RUNS, FAILS = 300, 0.1
MOST = int(binom.isf(1e-6, RUNS, FAILS))
#: Sixteen cells as near to the threshold as decisions must still be right, on either side, and some that are clear at once.
EDGES = np.array([110, 90] * 8 + [0, 5000])


def asked(method: Above, counts: NDArray[Any]) -> tuple[NDArray[np.float64], int]:
    """The averages and the number of rounds, without an account."""
    released, payments = in_rounds(method, lambda: counts, lambda noise: paying(None, noise.event))
    assert len(released) == len(payments)
    return method.averages(released), len(released)


def wrong(method: Above, counts: NDArray[Any]) -> int:
    """In how many runs some cell beyond the wanted error is told to be on the other side, or an average leaves its interval."""
    missed, at, within = 0, float(method.at), method.within
    for _ in range(RUNS):
        values, rounds = asked(method, counts)
        side = ((values > at) & (counts <= at - within)) | ((values <= at) & (counts >= at + within))
        missed += bool(side.any() or (np.abs(values - counts) > method.widths[rounds - 1]).any())
    return missed


@pytest.mark.parametrize("rounds", [1, 2, 6])
def test_everything_is_right_as_often_as_it_says(rounds: int) -> None:
    method = above_in(len(EDGES), at=100, within=10, confidence=1 - FAILS, rounds=rounds)
    with seeded(rounds):
        assert wrong(method, EDGES) <= MOST
        # the mutant: noise of the right size, and widths of three fifths
        assert wrong(replace(method, widths=tuple(0.6 * width for width in method.widths)), EDGES) > MOST


def test_prices_and_averages_by_hand() -> None:
    """Precisions of averages double; the last error is the wanted one, at half of the failure probability and all cells at once."""
    method = above_in(50, at=1000, within=20, confidence=0.95, rounds=5)
    own = [float(noise.scales[0]) / PARTS for noise in method.noises]
    together = [1 / math.sqrt(sum(1 / s**2 for s in own[:k])) for k in range(1, 6)]
    assert all(a == pytest.approx(b * math.sqrt(2), rel=1e-9) for a, b in itertools.pairwise(together))
    for k, deviation in enumerate(together):
        each = 1 - (1 - (0.025 if k == 4 else 0.025 / 4)) ** (1 / 50)
        assert method.widths[k] == pytest.approx(deviation * norm.isf(each / 2) + 0.5 / PARTS, rel=1e-6)
    assert method.widths[-1] == pytest.approx(20, rel=1e-6) and method.widths[-1] <= 20
    # one row moves one count by 1: rho = 1 / (2 sigma^2), and what is spent is that of the average
    for k, deviation in enumerate(together, 1):
        assert float(method.spent(k)) == pytest.approx(1 / (2 * deviation**2), rel=1e-9)
    assert list(method.events) == [Gaussian(noise.multiplier) for noise in method.noises]
    released = [np.array([PARTS * (10.0 + k)] * 50) for k in range(5)]
    weights = np.array([1 / s**2 for s in own])
    assert method.averages(released)[0] == pytest.approx(float((weights * (10 + np.arange(5))).sum() / weights.sum()), rel=1e-12)


@pytest.mark.parametrize(("replaced", "moved"), [(False, 3.0), (True, 3 * math.sqrt(2))])
def test_what_a_unit_moves(replaced: bool, moved: float) -> None:
    method = above_in(4, at=10, within=5, reach=3, replaced=replaced)
    noise = method.noises[0]
    assert float(noise.multiplier) <= float(noise.scales[0]) / PARTS / moved * (1 + 1e-12)
    assert float(noise.multiplier) == pytest.approx(float(noise.scales[0]) / PARTS / moved, rel=1e-12)
    assert noise.adjacency is (Adjacency.REPLACE_ONE if replaced else Adjacency.ADD_REMOVE)


def test_a_clear_table_stops_early_and_an_unclear_one_goes_on() -> None:
    with seeded(3):
        clear = above_in(20, at=100, within=5, rounds=6)
        _, rounds = asked(clear, np.array([0] * 10 + [100_000] * 10))
        assert rounds == 1 and clear.spent(1) < clear.most / 30
        _, rounds = asked(clear, np.full(20, 100))
        assert rounds == 6
    assert clear.clear(np.full(20, 100.0), 6).all()  # nothing is left to wait for after the last


def session(tmp_path: Path, budget: Budget, towns: list[str]) -> Session:
    people = pa.table({"id": range(len(towns)), "town": towns})
    book = Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}")
    columns = {"town": ["Ulm", "Ems", "Wyk"]}
    return Session(people, unit=Unit("id", max_rows=1), budget=budget, name="people", ledger=book, columns=columns)


@pytest.mark.parametrize("budget", [Budget(rho=1), Budget(epsilon=4, delta=1e-6, filter="best"), Budget(mu=2), Budget(renyi={8: 9})])
def test_a_session_pays_for_the_rounds_that_were_drawn(tmp_path: Path, budget: Budget) -> None:
    opened = session(tmp_path, budget, ["Ulm"] * 900 + ["Ems"] * 100)
    plan = plan_above(opened, ["town"], at=500, within=20, confidence=0.99)
    found = plan.run()
    assert found.above.tolist() == [True, False, False] and found.rounds == 1 and found.clear.all() and found.private
    assert len(found.entries) == 1 and opened.account.ledger.verify().ok
    if budget.currency == "rho":
        assert opened.account.spent()["rho"] == found.rho == plan.method.least
    assert found.table().column_names == ["town", "value", "low", "high", "above", "clear"]
    assert found.table().column("town").to_pylist() == ["Ulm", "Ems", "Wyk"]
    assert "at most 6 rounds" in plan.explain() and "after 1 rounds" in repr(found)


def test_a_refused_round_ends_with_what_is_known(tmp_path: Path) -> None:
    """The account admits two rounds: the cell near the threshold stays unclear, and says so. Where none is admitted, nothing is counted."""
    opened = session(tmp_path, Budget(rho="0.02"), ["Ulm"] * 502 + ["Ems"] * 5)
    plan = plan_above(opened, ["town"], at=500, within=10)
    admitted = max(k for k in range(7) if plan.method.spent(k) <= Fraction(2, 100))
    assert 1 <= admitted < plan.method.rounds
    found = plan.run()
    assert found.rounds == admitted and found.clear.tolist() == [False, True, True]
    assert opened.account.spent()["rho"] == found.rho and found.error == plan.method.widths[admitted - 1]
    with pytest.raises(BudgetExceeded):
        plan_above(opened, ["town"], at=500, within=1).run()
    assert opened.account.spent()["rho"] == found.rho


def test_accounts_that_add_epsilons_are_refused(tmp_path: Path) -> None:
    for place, budget in enumerate((Budget(epsilon=1), Budget(epsilon=1, delta=1e-6))):
        (tmp_path / str(place)).mkdir()
        with pytest.raises(ParameterError, match="filter='best'"):
            plan_above(session(tmp_path / str(place), budget, ["Ulm"]), ["town"], at=1, within=1)


@pytest.mark.parametrize("bad", [
    lambda: above_in(3, at=1, within=0.01), lambda: above_in(3, at=1, within=0), lambda: above_in(0, at=1, within=1),
    lambda: above_in(3, at=1, within=1, confidence=1), lambda: above_in(3, at=1, within=1, rounds=0),
    lambda: above_in(3, at=math.nan, within=1), lambda: plan_above("people", ["town"], at=1, within=1),
])  # fmt: skip
def test_what_makes_no_sense_is_refused(bad: Callable[[], object]) -> None:
    with pytest.raises(ParameterError):
        bad()
