"""Local reports: clients and collectors of every randomiser for frequencies, and certified prices of shuffled reports.

Processor seconds for a million people and 10,000 values at epsilon 1; slow randomisers are measured on fewer people and scaled. The peers
pure-ldp and multi-freq-ldpy run beside ours where they are installed, each with its own arrays.

    .venv/bin/python benchmarks/bench_local.py
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import math
import time
from collections.abc import Callable

import numpy as np

from tacit.accounting import Adjacency, LocalReport, RandomizedResponse, Repeated, Shuffled, account
from tacit.local import Hadamard, LocalHash, Projective, Randomiser, Subset, Unary, best

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


def shuffled() -> None:
    print(f"\n{'shuffled reports':<44} {'epsilon from':>13} {'to':>12} {'s':>6}")
    for name, event, delta in (
        ("binary, eps 1, 1e4 people, delta 1e-6", Shuffled(RandomizedResponse(1, 2), 10**4), 1e-6),
        ("three categories, the same", Shuffled(RandomizedResponse(1, 3), 10**4), 1e-6),
        ("any randomiser, eps 4, 1e5 people, delta 1e-6", Shuffled(LocalReport(4), 10**5), 1e-6),
        ("any randomiser, eps 1, 1e8 people, delta 1e-8", Shuffled(LocalReport(1), 10**8), 1e-8),
        ("a hundred rounds of the first", Repeated(Shuffled(RandomizedResponse(1, 2), 10**4), 100), 1e-6),
    ):
        start = time.process_time()
        found = account(event, Adjacency.REPLACE_ONE).epsilon(delta)
        print(f"{name:<44} {found.lower:>13.6g} {found.upper:>12.6g} {time.process_time() - start:>6.2f}")


def peers() -> None:
    try:
        from pure_ldp.frequency_oracles.hadamard_response import HadamardResponseClient, HadamardResponseServer
    except ImportError as error:
        print(f"\npure-ldp: not run ({error}); install pure-ldp in an environment of its own and run this there")
        return
    people, values = 20_000, np.random.default_rng(1).integers(0, VALUES, 20_000)
    server = HadamardResponseServer(1, VALUES)
    client = HadamardResponseClient(1, VALUES, server.get_hash_funcs())
    sent: list[object] = []
    making = seconds(lambda: sent.extend(client.privatise(int(v) + 1) for v in values)) * PEOPLE / people
    counting = seconds(lambda: [server.aggregate(one) for one in sent]) * PEOPLE / people
    print(f"\npure-ldp Hadamard response: clients {making:.1f} s, collector {counting:.1f} s")


if __name__ == "__main__":
    oracles()
    shuffled()
    peers()
