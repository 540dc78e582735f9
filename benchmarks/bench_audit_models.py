"""Canaries in one run: lower bounds on epsilon from the same scores, beside jax-privacy's and privacy-meter's: valid, large, then fast.

Two games whose truth is known. Gaussian canaries: each canary's score is its coin plus normal noise, the Gaussian mechanism; and canaries
in a run of private gradient descent, with a gradient direction each, seen at every step. Every auditor sees the same scores and coins, at
95% confidence. A bound must exceed the truth in at most 5% of runs. "One run" assumes nothing about how noise is shared between canaries;
"independent" counts each canary as a trial of its own, which holds in both games here. "Gaussian" takes the claim's family for granted.
Then the attacks on models: the area each reaches on a classifier that memorises.

Run with `make bench`, or `python benchmarks/bench_audit_models.py [runs]`. Peers are installed in `.venv-peers` when first asked for.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "peers"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "audit"))

import numpy as np
from audit_board import Board, Found, theirs  # type: ignore[import-not-found]
from measure import busy, table
from models import ridge, toy  # type: ignore[import-not-found]

from tacit.accounting import GDP, account
from tacit.audit import audit_model, audit_one_run, coin_evidence, generator
from tacit.audit.models import canary_bank, gradient_scores, watched_steps

DELTA, CONFIDENCE = 1e-5, 0.95
PLAIN = ("one run", "one run, Gaussian", "independent")
RIVALS = {f"tacit: {kind}": (f"jax-privacy: {kind}", f"jax-privacy: {kind}, split") for kind in PLAIN}
RIVALS["tacit: independent"] += ("privacy-meter: population attack, rates as they are",)
RIVALS["tacit: independent, Gaussian"] = ("jax-privacy: independent, Gaussian",)


def epsilon_of_mu(mu: float) -> float:
    """What mu-Gaussian privacy means at DELTA, from below."""
    return float(account(GDP(mu)).epsilon(DELTA).lower) if mu > 0 else 0.0


def ours(scores: Any, bits: Any) -> dict[str, tuple[float, float]]:
    """Bound and seconds of each of our auditors on one run."""
    told: dict[str, Any] = {"attack": "score", "game": "canaries", "confidence": CONFIDENCE, "seed": 1}
    methods = {
        "one run": lambda: audit_one_run(scores, bits, delta=DELTA, confidence=CONFIDENCE).lower,
        "one run, recursion": lambda: audit_one_run(scores, bits, delta=DELTA, confidence=CONFIDENCE, method="tail").lower,
        "one run, Gaussian": lambda: epsilon_of_mu(audit_one_run(scores, bits, measure="mu", confidence=CONFIDENCE).lower),
        "independent": lambda: coin_evidence(scores, bits, delta=DELTA, **told).lower,
        "independent, Gaussian": lambda: epsilon_of_mu(coin_evidence(scores, bits, measure="mu", **told).lower),
    }
    found = {}
    for name, method in methods.items():
        start = time.process_time()
        bound = method()
        found[name] = bound, time.process_time() - start
    return found


def gaussian_canaries(mu: float, canaries: int, runs: int) -> tuple[Any, Any]:
    draw = generator(1)
    bits = draw.random((runs, canaries)) < 0.5
    return mu * bits + draw.normal(size=bits.shape), bits


def descent_canaries(canaries: int, runs: int) -> tuple[Any, Any, float]:
    """Scores of canaries in runs of private gradient descent: 4 full-batch steps at noise multiplier 2, so mu = 1."""
    import torch

    from tacit.deep import FullBatch, make_private

    draw = generator(2)
    bits = draw.random((runs, canaries)) < 0.5
    scores = []
    for i, inside in enumerate(bits):
        bank = canary_bank(canaries)
        members = torch.as_tensor(np.flatnonzero(inside))
        run = make_private(
            bank, torch.optim.SGD(bank.parameters(), lr=0.0), members,
            noise_multiplier=2.0, clip=1.0, sampler=FullBatch(len(members)), steps=4, loss_reduction="sum",
        )  # fmt: skip
        scores.append(gradient_scores(watched_steps(run, seed=i), rate=1.0, noise_multiplier=2.0))
    return np.array(scores), bits, 1.0


def compared(board: Board, title: str, scores: Any, bits: Any, truth: float) -> None:
    runs, canaries = scores.shape
    found: dict[str, Found] = {}
    ours(scores[0], bits[0])  # unmeasured
    for row, coins in zip(scores, bits, strict=True):
        for name, measured in ours(row, coins).items():
            found.setdefault(f"tacit: {name}", Found()).add(*measured)
    for peer, adapter in (("jax-privacy", "jax_privacy_one_run.py"), ("privacy-meter", "privacy_meter_audit.py")):
        found |= theirs(peer, adapter, {"scores": scores, "bits": bits}, DELTA, 1 - CONFIDENCE)
    board.show(f"{title}, {canaries:,} canaries: {runs} runs", truth, found, RIVALS, CONFIDENCE)


def attacks_on_a_classifier() -> None:
    print("\nAttacks on a ridge classifier that memorises (300 candidates, 16 reference models)")
    start = time.process_time()
    report = audit_model(ridge, toy(400, coins=5), "eps=1", references=16, seed=3)
    rows = []
    for result, judged in zip(report.results, report.verdicts, strict=True):
        at = result.roc.tpr_at(0.01)
        name = result.attack.partition(" (")[0]
        rows.append((name, f"{result.roc.auc:.3f}", f"{at.tpr:.1%}", f"{judged.evidence.lower:.3f}", "BROKEN" if judged.broken else ""))
    table(("attack", "area", "TPR at 1% FPR", "epsilon at least", "claim of epsilon 1"), rows)
    print(f"{time.process_time() - start:.1f} s for {report.trainings} trainings and {len(rows)} attacks")


def main() -> int:
    print(busy())
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    board = Board()
    for mu, canaries in ((0.2682, 1_000), (1.0, 1_000), (1.0, 5_000)):
        compared(board, f"Gaussian canaries, mu = {mu:g}", *gaussian_canaries(mu, canaries, runs), epsilon_of_mu(mu))
    scores, bits, mu = descent_canaries(1_000, max(5, runs // 5))
    compared(board, "Private gradient descent, white box", scores, bits, epsilon_of_mu(mu))
    attacks_on_a_classifier()
    print()
    board.compare()
    return 0 if board.close() else 1


if __name__ == "__main__":
    sys.exit(main())
