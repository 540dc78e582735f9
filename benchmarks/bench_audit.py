"""Lower bounds on epsilon from samples of a mechanism, beside jax-privacy and privacy-meter on the same samples: valid, large, then fast.

The Gaussian mechanism with mu = 1 (epsilon 4.377 at delta 1e-5) on two neighbouring inputs, and the Laplace mechanism with epsilon 1, whose
bound is reached at many thresholds, so whoever picks the luckiest shows. Every auditor sees the same outputs at 95% confidence; a bound
must exceed the truth in at most 5% of runs. Two kinds are compared: bounds that assume nothing, and bounds that take the mechanism to be
Gaussian, as its claim says, and go by way of mu. All of them are told that higher outputs point to the second input; "learns" are ours
when they are not. Then Tacit alone: what the search reaches on tight mechanisms as samples grow, and how soon a wrong claim is refuted when
it may stop early.

Run with `make bench`, or `python benchmarks/bench_audit.py [runs]`. Peers are installed in `.venv-peers` when first asked for.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))

import numpy as np
from audit_board import Board, Found, theirs  # type: ignore[import-not-found]
from measure import busy, table

from tacit.accounting import GDP, Adjacency, Laplace, account
from tacit.audit import Claim, attack, audit_until, band, coin_evidence, rank_attack

DELTA, CONFIDENCE, MU = 1e-5, 0.95, 1.0
SIZES = (1_000, 10_000, 100_000)
NOTHING = (
    "jax-privacy: Clopper-Pearson, Bonferroni",
    "jax-privacy: Clopper-Pearson, split",
    "privacy-meter: population attack, rates as they are",
)
RIVALS = {"tacit: assumes nothing": NOTHING, "tacit: Gaussian": ("jax-privacy: Gaussian",)}


def epsilon_of_mu(mu: float) -> float:
    """What mu-Gaussian privacy means at DELTA, from below."""
    return float(account(GDP(mu), Adjacency.ADD_REMOVE).epsilon(DELTA).lower) if mu > 0 else 0.0


def ours(first: Any, second: Any, gaussian: bool) -> dict[str, tuple[float, float]]:
    """Bound and seconds of each of our auditors on one pair of samples."""
    n = len(first)

    def one(k: int) -> Any:
        return first

    def two(k: int) -> Any:
        return second

    trials: dict[str, Any] = {"attack": "score", "game": "mechanism", "confidence": CONFIDENCE, "coins": False, "seed": 1}
    second_half = np.arange(2 * n) >= n
    shared: dict[str, Any] = {"confidence": CONFIDENCE, "events": "threshold"}
    methods = {
        "assumes nothing": lambda: coin_evidence(np.append(first, second), second_half, delta=DELTA, **trials).lower,
        "assumes nothing, at ranks": lambda: rank_attack(first, second, delta=DELTA, confidence=CONFIDENCE).lower,
        "assumes nothing, learns": lambda: attack(one, two, n, delta=DELTA, **shared).lower,
    }
    if gaussian:
        methods |= {
            "Gaussian": lambda: epsilon_of_mu(rank_attack(first, second, measure="mu", confidence=CONFIDENCE).lower),
            "Gaussian, learns": lambda: epsilon_of_mu(attack(one, two, n, measure="mu", **shared).lower),
            "Gaussian, whole band": lambda: epsilon_of_mu(band(one, two, n, **shared).mu[0]),
        }
    found = {}
    for name, method in methods.items():
        start = time.process_time()
        bound = method()
        found[f"tacit: {name}"] = bound, time.process_time() - start
    return found


def compared(board: Board, title: str, truth: float, firsts: Any, seconds: Any, *, gaussian: bool) -> None:
    found: dict[str, Found] = {}
    ours(firsts[0], seconds[0], gaussian)  # unmeasured
    for first, second in zip(firsts, seconds, strict=True):
        for name, measured in ours(first, second, gaussian).items():
            found.setdefault(name, Found()).add(*measured)
    for peer, adapter in (("jax-privacy", "jax_privacy_audit.py"), ("privacy-meter", "privacy_meter_audit.py")):
        found |= theirs(peer, adapter, {"first": firsts, "second": seconds}, DELTA, 1 - CONFIDENCE)
    if not gaussian:  # what is not Gaussian must not be taken for it
        found.pop("jax-privacy: Gaussian", None)
    board.show(title, truth, found, {mine: them for mine, them in RIVALS.items() if mine in found}, CONFIDENCE)


def settings(board: Board, runs: int) -> None:
    generator = np.random.default_rng(1)
    for n in SIZES:
        times = max(5, runs // 4) if n >= 100_000 else runs
        title = f"Gaussian, mu {MU:g}, {n:,} samples: {times} runs"
        compared(board, title, epsilon_of_mu(MU), generator.normal(0, 1, (times, n)), generator.normal(MU, 1, (times, n)), gaussian=True)
    for n in SIZES[:2]:
        truth = float(account(Laplace(1.0), Adjacency.ADD_REMOVE).epsilon(DELTA).lower)
        title = f"Laplace, epsilon 1, {n:,} samples: {runs} runs"
        compared(board, title, truth, generator.laplace(0, 1, (runs, n)), generator.laplace(1, 1, (runs, n)), gaussian=False)


def alone() -> None:
    print("\nTacit's search on tight mechanisms: the bound at 95%, and its share of the truth")
    generator = np.random.default_rng(2)

    def laplace(shift: float) -> Any:
        return lambda n: shift + generator.laplace(0, 1, n)

    def gaussian(shift: float) -> Any:
        return lambda n: shift + generator.normal(0, 1, n)

    rows = []
    for n in SIZES:
        epsilon, mu = (attack(f(0), f(1), n, measure=m).lower for f, m in ((laplace, "epsilon"), (gaussian, "mu")))  # type: ignore[arg-type]
        rows.append((f"{n:,} samples", f"{epsilon:.3f}", f"{mu:.3f}", ""))
    table(("", "Laplace, epsilon 1", "Gaussian, mu 1", ""), rows)
    print("\nStopping early: samples on either input until a wrong claim of epsilon 1 is refuted (budget 1,000,000)")
    rows = []
    for true in (1.1, 1.5, 2.0, 4.0):
        scaled = [lambda n, x=x, s=1 / true: x + generator.laplace(0, s, n) for x in (0, 1)]
        found = [audit_until(Claim.of(epsilon=1), scaled[0], scaled[1], budget=1_000_000, share=0.99) for _ in range(5)]
        used = [one.evidence.trials for one in found if one.reason == "refuted"]
        rows.append((f"true epsilon {true:g}", f"{int(np.median(used)):,}" if used else "-", f"{len(used)} of {len(found)}", ""))
    table(("", "samples (median)", "refuted", ""), rows)


def main() -> int:
    print(busy())
    board = Board()
    settings(board, int(sys.argv[1]) if len(sys.argv) > 1 else 100)
    alone()
    print("\nprivacy-meter 1.0.1 has no epsilon, confidence or one-run game: its rates are read as if they were exact")
    board.compare()
    return 0 if board.close() else 1


if __name__ == "__main__":
    sys.exit(main())
