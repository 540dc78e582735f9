"""Many at once: 64 processes with B/32 each succeed exactly 32 times, and the last half of a half goes to one of two."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import pytest

from tacit.accounting import PureDP
from tacit.ledger import Budget, BudgetExceeded, Ledger

ROOT = Path(__file__).resolve().parents[2]

# One interpreter loads the packages and forks; every child opens the book for itself and waits for the starting gun.
DRIVER = """
import os, sys
from fractions import Fraction
from tacit.accounting import PureDP
from tacit.ledger import Budget, BudgetExceeded, Ledger
from tacit.ledger import account as module

url, processes, share, variant = sys.argv[1], int(sys.argv[2]), Fraction(sys.argv[3]), sys.argv[4]
if variant == "racy":
    # what a ledger without a lock does: look, decide, write
    def spend(account, event):
        if account.left()["pure"] < event.epsilon:
            raise BudgetExceeded("", account="", left={}, asked={}, fits="")
        os.write(ready[1], b".")  # everybody has looked before anybody writes, however busy the machine is
        os.read(write[0], 1)
        module.refused = lambda *_: None
        account.spend(event)
else:
    def spend(account, event):
        with account.reserve(event):
            pass

Ledger.open(url).close()  # loads the driver once, before the forks
ready, go, write = os.pipe(), os.pipe(), os.pipe()
children = []
for _ in range(processes):
    child = os.fork()
    if child == 0:
        status = 2
        try:
            os.close(go[1])
            os.close(write[1])
            account = Ledger.open(url, timeout=600).account("visits")
            os.write(ready[1], b".")
            os.read(go[0], 1)  # returns when the parent closes its end
            try:
                spend(account, PureDP(share))
                status = 0
            except BudgetExceeded:
                status = 1
        finally:
            os._exit(status)
    children.append(child)
def wait_for_all():
    seen = 0
    while seen < processes:
        seen += len(os.read(ready[0], processes - seen))

wait_for_all()
os.close(go[1])
if variant == "racy":
    wait_for_all()
os.close(write[1])
outcomes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
print(outcomes.count(0), outcomes.count(1), len(outcomes))
"""


def race(url: str, processes: int, share: Fraction, variant: str = "ledger") -> list[int]:
    """How many succeeded, how many were refused, how many there were."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", DRIVER, url, str(processes), str(share), variant]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=900)
    assert run.returncode == 0, run.stderr
    return [int(word) for word in run.stdout.split()]


def test_64_processes_with_a_32nd_each_succeed_32_times(url: str) -> None:
    with Ledger.open(url) as ledger:
        account = ledger.account("visits", Budget(epsilon="0.1"))
        assert race(url, 64, Fraction(1, 320)) == [32, 32, 64]
        assert account.spent()["pure"] == Fraction(1, 10)
        assert ledger.verify().ok and ledger.verify().open == ()


def test_a_ledger_that_looks_before_it_locks_overspends(sqlite_url: str) -> None:
    """The mutant of the test above, through the same race: it must be caught, by the count and by the book."""
    with Ledger.open(sqlite_url) as ledger:
        ledger.account("visits", Budget(epsilon="0.1"))
        succeeded, _, _ = race(sqlite_url, 16, Fraction(1, 20), "racy")
        assert succeeded == 16
        assert any("exceeds the budget" in problem for problem in ledger.verify().problems)


def test_the_last_half_of_a_half_goes_to_exactly_one(url: str) -> None:
    with Ledger.open(url) as ledger:
        account = ledger.account("visits", Budget(epsilon="0.5"))
        gate, outcomes = threading.Barrier(2), list[bool]()

        def ask() -> None:
            gate.wait()
            try:
                account.spend(PureDP(0.5))
                outcomes.append(True)
            except BudgetExceeded:
                outcomes.append(False)

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == [False, True]
        assert account.spent()["pure"] == Fraction(1, 2)


@pytest.mark.parametrize("books", ["one handle", "a handle each"])
def test_threads_spend_exactly_the_budget(url: str, books: str) -> None:
    with Ledger.open(url) as shared:
        shared.account("visits", Budget(epsilon=1))
        granted = []

        def ask() -> None:
            ledger = shared if books == "one handle" else Ledger.open(url)
            account = ledger.account("visits")
            for _ in range(4):
                with suppress(BudgetExceeded):
                    granted.append(account.spend(PureDP(Fraction(1, 16))).entry)
            if ledger is not shared:
                ledger.close()

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(granted) == len(set(granted)) == 16
        assert shared.verify().ok


def test_many_may_create_the_same_book_at_once(url: str) -> None:
    faults = []

    def create() -> None:
        try:
            with Ledger.open(url) as ledger:
                ledger.account("visits", Budget(epsilon=1))
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    with Ledger.open(url) as ledger:
        assert len(ledger.accounts()) == 1 and ledger.verify().ok
