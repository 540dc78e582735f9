"""Auditors of scores: one number for each independent trial, and many canaries in one run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.special import logit, ndtr, ndtri
from tests.audit.auditors.auditor import (
    GAUSSIAN,
    HONEST,
    SMALL,
    Auditor,
    best_seen,
    coins_and,
    halves_and,
)

from tacit.audit.experiment import Generator
from tacit.audit.models.independent import coin_evidence, rank_attack
from tacit.audit.models.membership import order_statistic
from tacit.audit.models.one_run import SHARES, audit_one_run, one_run, right_guesses
from tacit.audit.models.roc import evidence_of, roc


def scores() -> Iterator[Auditor]:
    how: Any = {"attack": "score", "game": "independent trials"}
    laws = (("laplace", 1.0, {}), ("normal", 1.0, {"measure": "mu"}), ("normal", GAUSSIAN, {"delta": SMALL}))
    for law, truth, more in laws:
        asked: Any = more
        what = f"{'Laplace, epsilon 1' if law == 'laplace' else 'Gaussian, mu 1'}"
        form = ", ".join(f"{k} {v}" for k, v in asked.items()) or "epsilon"
        yield Auditor(
            f"rank_attack, {form}", "independent.rank_attack", what, truth,
            lambda draw, _, law=law, asked=asked: ranked(*halves_and(draw, 1000, law), asked),  # type: ignore[misc]
            lambda draw, _, law=law, asked=asked: best_seen(*halves_and(draw, 1000, law), **asked), 0.3,  # type: ignore[misc]
        )  # fmt: skip
        yield Auditor(
            f"coin_evidence, {form}", "independent.coin_evidence", what, truth,
            lambda draw, seed, law=law, asked=asked: coin_evidence(*coins_and(draw, 1000, law), seed=seed, **asked, **how).lower,  # type: ignore[misc]
            lambda draw, _, law=law, asked=asked: best_seen(*coins_and(draw, 1000, law), **asked), 0.3,  # type: ignore[misc]
        )  # fmt: skip
        yield Auditor(
            f"coin_evidence, worlds of equal number, {form}", "independent.coin_evidence", what, truth,
            lambda draw, seed, law=law, asked=asked: coin_evidence(  # type: ignore[misc]
                *halves_and(draw, 400, law), seed=seed, coins=False, **asked, **how
            ).lower,
            lambda draw, _, law=law, asked=asked: best_seen(*halves_and(draw, 400, law), **asked), 0.2,  # type: ignore[misc]
        )  # fmt: skip
        yield Auditor(
            f"evidence_of, {form}", "roc.evidence_of", what, truth,
            lambda draw, seed, law=law, asked=asked: evidence_of(*halves_and(draw, 4000, law), seed=seed, **asked, **how).lower,  # type: ignore[misc]
            lambda draw, _, law=law, asked=asked: best_seen(*halves_and(draw, 1000, law), **asked), 0.2,  # type: ignore[misc]
        )  # fmt: skip
    yield Auditor(
        "Roc.band_point", "roc.Roc.band_point", "Laplace, epsilon 1", 1.0,
        lambda draw, _: roc(*halves_and(draw, 400, "laplace")).band_point().epsilon(),
        lambda draw, _: best_seen(*halves_and(draw, 400, "laplace")), 0.3,
    )  # fmt: skip
    yield Auditor(
        "Roc.tpr_at", "roc.Roc.tpr_at", "Gaussian, mu 1: all four ends of both intervals", 0.5,
        lambda draw, _: outside_rates(*halves_and(draw, 600, "normal"), sure=True),
        lambda draw, _: outside_rates(*halves_and(draw, 600, "normal"), sure=False), 0.0,
    )  # fmt: skip
    yield Auditor(
        "order_statistic", "membership.order_statistic", "20 scores of one law, alpha 1/20: a false alarm on the last", 0.5,
        lambda draw, _: alarm(draw.normal(size=20), order_statistic),
        lambda draw, _: alarm(draw.normal(size=8), lambda ordered, alpha: float(np.quantile(ordered, 1 - alpha))), 0.0, mutant_runs=1000,
    )  # fmt: skip


def alarm(values: Any, place: Callable[[Any, float], float]) -> float:
    return float(values[-1] > place(np.sort(values[:-1]), 0.05))


def ranked(values: Any, bits: Any, asked: dict[str, Any]) -> float:
    return rank_attack(values[~bits], values[bits], **asked).lower


def outside_rates(values: Any, bits: Any, *, sure: bool) -> float:
    """Whether one of the true rates at the threshold found lies outside its interval."""
    at = roc(values, bits).tpr_at(0.1, 0.95 if sure else 0.5)
    fpr, tpr = ndtr(-at.threshold), ndtr(1 - at.threshold)
    return float(not (at.fpr_interval[0] <= fpr <= at.fpr_interval[1] and at.tpr_interval[0] <= tpr <= at.tpr_interval[1]))


KNOWN: dict[Any, float] = {}


def in_one_run(values: Any, bits: Any, **asked: Any) -> float:
    """A bound from one run depends on the numbers of right guesses alone: a thousand runs ask about a few hundred of them."""
    shares = asked.setdefault("shares", SHARES)
    counts = tuple(right_guesses(values, bits, max(1, round(share * len(bits)))) for share in shares)
    key = (len(bits), counts, *sorted(asked.items()))
    if key not in KNOWN:
        KNOWN[key] = audit_one_run(values, bits, **asked).lower
    return KNOWN[key]


def canaries() -> Iterator[Auditor]:
    def estimated(values: Any, bits: Any, measure: str) -> float:
        share = right_guesses(values, bits, len(bits)) / len(bits)
        return 2 * float(ndtri(share)) if measure == "mu" else float(logit(share))

    yield Auditor(
        "one_run, all guessed", "one_run.one_run", "randomised response, epsilon 1", 1.0,
        lambda draw, _: one_run(correct=int(draw.binomial(300, HONEST)), made=300, canaries=300).lower,
        lambda draw, _: one_run(correct=int(draw.binomial(300, HONEST)), made=300, canaries=300).estimate or 0.0, 0.6,
    )  # fmt: skip
    kinds: tuple[tuple[str, str, float, dict[str, Any]], ...] = (
        ("response", "randomised response, epsilon 1", 1.0, {"method": "binomial"}),
        ("response", "randomised response, epsilon 1", 1.0, {"method": "tail", "delta": 0.001}),
        ("response", "randomised response, epsilon 1", 1.0, {"method": "exact", "delta": 0.001}),
        ("leaky", "randomised response, all told once in 50 runs", 1.0, {"method": "tail", "delta": 0.02}),
        ("leaky", "randomised response, all told once in 50 runs", 1.0, {"method": "exact", "delta": 0.02}),
        ("normal", "Gaussian, mu 1", 1.0, {"method": "tail", "measure": "mu"}),
        ("normal", "Gaussian, mu 1", 1.0, {"method": "exact", "measure": "mu", "shares": (1.0, 0.2)}),
    )
    for law, what, truth, asked in kinds:
        form = ", ".join(f"{k} {v}" for k, v in asked.items() if k != "shares")
        yield Auditor(
            f"audit_one_run, {form}, {law}", "one_run.audit_one_run", what, truth,
            lambda draw, _, law=law, asked=asked: in_one_run(*run_of(draw, 200, law), **asked),  # type: ignore[misc]
            lambda draw, _, law=law, asked=asked: estimated(  # type: ignore[misc]
                *run_of(draw, 200, law), asked.get("measure", "epsilon")
            ), 0.0 if law == "leaky" else 0.25,  # with 200 canaries and a delta of 0.02 most runs prove nothing, which is right
            mutant_runs=1000,
        )  # fmt: skip


def run_of(draw: Generator, n: int, law: str) -> tuple[Any, Any]:
    values, bits = coins_and(draw, n, "response" if law == "leaky" else law)
    return (bits + 1e-3 * draw.random(n), bits) if law == "leaky" and draw.random() < 0.02 else (values, bits)
