"""Local reports: clients and collectors of every randomiser for frequencies, and certified prices of shuffled reports.

Processor seconds for a million people and 10,000 values at epsilon 1; slow randomisers are measured on fewer people and scaled. The peers
pure-ldp and multi-freq-ldpy run beside ours in an environment of their own (`--alone` leaves them out). `--large` counts a hundred million
reports in 64 shards.

    .venv/bin/python benchmarks/bench_local.py
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tacit.accounting import Adjacency, LocalReport, RandomizedResponse, Repeated, Shuffled, account
from tacit.local import (
    Collector,
    Hadamard,
    LocalHash,
    Projective,
    Protocol,
    Randomiser,
    Response,
    Subset,
    Unary,
    as_batch,
    best,
)

PEOPLE, VALUES = 1_000_000, 10_000
#: A randomiser, on how many people it is measured, and the most seconds of its clients and its collector (issue 18).
ORACLES: dict[str, tuple[Callable[[], Randomiser], int, float, float]] = {
    "auto": (lambda: best(VALUES, 1), PEOPLE, 3.0, 0.1),
    "projective": (lambda: Projective(VALUES, 1), PEOPLE, 3.0, 0.1),
    "hadamard": (lambda: Hadamard(VALUES, 1), PEOPLE, 0.5, 0.5),
    "local hash": (lambda: LocalHash(VALUES, 1), 50_000, math.inf, 15.0),
    "unary": (lambda: Unary(VALUES, 1), 20_000, math.inf, 4.0),
    "subset": (lambda: Subset(VALUES, 1), 5_000, 120.0, 120.0),
}


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def oracles() -> None:
    values = np.random.default_rng(1).integers(0, VALUES, PEOPLE)
    print(f"{'randomiser':<14} {'clients, s':>10} {'collector, s':>13} {'bytes':>6} {'variance':>9}  within the limits")
    for name, (make, people, clients, server) in ORACLES.items():
        oracle, sent, table = make(), [], None
        client = seconds(lambda o=oracle, s=sent, n=people: s.append(o.privatise(values[:n]))) * PEOPLE / people
        table = oracle.fresh()
        counting = seconds(lambda o=oracle, t=table, s=sent: o.add(t, s[0])) * PEOPLE / people
        counting += seconds(lambda o=oracle, t=table, n=people: o.support(t, n))
        good = "yes" if client <= clients and counting <= server else "NO"
        print(f"{name:<14} {client:>10.2f} {counting:>13.3f} {oracle.width:>6} {oracle.variance(1):>9.4f}  {good}")


def shuffled(most: float = 0.2) -> None:
    """Certified prices, each at most so many seconds (issue 18): the figures asked for, huge crowds, and rounds that compose."""
    binary, one = Shuffled(RandomizedResponse(1, 2), 10**4), Adjacency.REPLACE_ONE
    account(Repeated(Shuffled(RandomizedResponse(1, 3), 999), 3), one).epsilon(1e-6)  # imports are not counted
    print(f"\n{'shuffled reports':<50} {'epsilon from':>13} {'to':>12} {'s':>6}")
    for name, event, delta in (
        ("binary, eps 1, 1e4 people, delta 1e-6", binary, 1e-6),
        ("binary, eps 4, 1e5 people, delta 1e-6", Shuffled(RandomizedResponse(4, 2), 10**5), 1e-6),
        ("three categories, eps 1, 1e4 people, delta 1e-6", Shuffled(RandomizedResponse(1, 3), 10**4), 1e-6),
        ("16 categories, the same", Shuffled(RandomizedResponse(1, 16), 10**4), 1e-6),
        ("unary, eps 4, 1e6 people, delta 1e-8", Shuffled(Unary(1024, 4).event, 10**6), 1e-8),
        ("any randomiser, eps 4, 1e5 people, delta 1e-6", Shuffled(LocalReport(4), 10**5), 1e-6),
        ("binary, eps 1, 1e8 people, delta 1e-8", Shuffled(RandomizedResponse(1, 2), 10**8), 1e-8),
        ("16 categories, eps 4, 1e8 people, delta 1e-8", Shuffled(RandomizedResponse(4, 16), 10**8), 1e-8),
        ("any randomiser, eps 1, 1e8 people, delta 1e-8", Shuffled(LocalReport(1), 10**8), 1e-8),
        ("ten rounds of the first", Repeated(binary, 10), 1e-6),
        ("a hundred rounds of the first", Repeated(Shuffled(RandomizedResponse(1, 2), 10_001), 100), 1e-6),
        ("a hundred rounds, eps 2", Repeated(Shuffled(RandomizedResponse(2, 2), 10**4), 100), 1e-6),
        ("ten rounds, unary, eps 4, 1e6 people", Repeated(Shuffled(Unary(1024, 4).event, 10**6), 10), 1e-6),
        ("ten rounds of 40 people, unary, eps 1", Repeated(Shuffled(Unary(1024, 1).event, 40), 10), 1e-6),
    ):
        start = time.process_time()
        found = account(event, one).epsilon(delta)
        spent = time.process_time() - start
        print(f"{name:<50} {found.lower:>13.6g} {found.upper:>12.6g} {spent:>6.2f}  {'yes' if spent <= most else 'NO'}")


def streams() -> None:
    """Reports a second from Arrow batches, what the collector needs of memory, and shards in any order."""
    print(f"\n{'collector, from Arrow':<44} {'reports/s':>12} {'asked':>10}")
    for name, oracle, reports, batches, asked in (
        ("hadamard, 10,000 values", Hadamard(VALUES, 1), 1 << 20, 8, 1e7),
        ("projective, 10,000 values", Projective(VALUES, 1), 1 << 20, 8, 1e7),
        ("response, 16 values", Response(16, 1), 1 << 20, 8, 1e7),
        ("unary, 1,024 values", Unary(1024, 1), 1 << 16, 4, 1e6),
    ):
        protocol = Protocol(oracle.size, oracle)
        drawn = oracle.privatise(np.random.default_rng(2).integers(0, oracle.size, reports))
        parts = [as_batch(protocol, np.roll(drawn, k, axis=0), nonces=False) for k in range(batches)]
        collector = Collector(protocol, nonces=False)
        spent = seconds(lambda c=collector, p=parts: c.ingest(p))
        rate = collector.n / spent
        print(f"{name:<44} {rate:>12.3g} {asked:>10.0e}  {'yes' if rate >= asked else 'NO'}")


def shards(reports: int = 10**8, count: int = 64) -> None:
    """So many Hadamard reports in shards, merged in three orders: the same bytes; memory does not grow with the reports."""
    protocol = Protocol(1024, Hadamard(1024, 1))
    collectors, made, counted = [], 0.0, 0.0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for shard in range(count):
        collector = Collector(protocol, nonces=False)
        left = reports // count + (shard < reports % count)
        while left:
            held = np.full(min(left, 1 << 20), shard, dtype=np.int64)
            start = time.process_time()
            batch = as_batch(protocol, protocol.randomiser.privatise(held), nonces=False)
            made += time.process_time() - start
            counted += seconds(lambda c=collector, b=batch: c.ingest(b))
            left -= len(held)
        collectors.append(collector)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    seen = set()
    for order in (range(count), range(count - 1, -1, -1), np.random.default_rng(3).permutation(count)):
        whole = Collector(protocol, nonces=False)
        for k in order:
            whole.merge(collectors[k])
        seen.add(whole.to_bytes())
    off = np.abs(whole.estimate().share[:count] - 1 / count).max() / whole.estimate().deviation[0]
    print(
        f"\n{whole.n:,} Hadamard reports in {count} shards: made in {made:.1f} s, counted in {counted:.1f} s ({whole.n / counted:.3g}/s), "
        f"{grown:.0f} MB more; {len(seen)} different state(s) of three orders; shares off by at most {off:.1f} deviations"
    )


def peers() -> None:
    """pure-ldp and multi-freq-ldpy on the same tasks, in an environment of their own."""
    here = Path(__file__).resolve().parent / "peers"
    sys.path.insert(0, str(here))
    import environments

    environments.PEERS["local"] = ("pure-ldp==1.2.0", "multi-freq-ldpy==0.2.5", "statsmodels", "scikit-learn", "xxhash<3.1")
    try:
        python = str(environments.interpreter("local"))
    except environments.Unavailable as why:
        print(f"\npeers: {why}")
        return
    for size in (1024, VALUES):
        done = subprocess.run([python, str(here / "local_frequencies.py"), str(size), "1"], capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"\npeers: did not answer ({done.stderr.strip().splitlines()[-1:]})")
            return
        print(f"\n{size:,} values, a million people, peers:  {'clients, s':>12} {'server, s':>12}")
        for row in json.loads(done.stdout.strip().splitlines()[-1]):
            told = row.get("failed") or f"{row['clients']:>12.1f} {row['server']:>12.2f}"
            print(f"  {row['package']:<18} {row['kind']:<20} {told}")


if __name__ == "__main__":
    oracles()
    streams()
    shuffled()
    if "--large" in sys.argv:
        shards()
    if "--alone" not in sys.argv:
        peers()
