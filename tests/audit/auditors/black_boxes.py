"""Auditors of rates and of black boxes: intervals, the search and its parts, and the low bits of floats."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.special import ndtri
from tests.audit.auditors.auditor import (
    GAUSSIAN,
    HONEST,
    SMALL,
    Auditor,
    apart,
    best_seen,
    gaussian,
    hits_of,
    laplace,
    response,
)

from tacit.audit.claim import Claim
from tacit.audit.experiment import Generator
from tacit.audit.mechanisms.floats import bit_attack, check_floats, porous_attack
from tacit.audit.mechanisms.report import audit_mechanism
from tacit.audit.mechanisms.search import KINDS, attack, band, candidates, certified, certify, choose, sampled
from tacit.audit.mechanisms.sequential import audit_until, running_lower, running_upper
from tacit.audit.rates import epsilon_of, lower_rate, mu_of, operating_point, upper_rate


def counted(draw: Generator, n: int) -> dict[str, int]:
    false, true = draw.binomial(n, [1 - HONEST, HONEST]).tolist()
    return {"false_positives": false, "negatives": n, "true_positives": true, "positives": n}


def rates() -> Iterator[Auditor]:
    told = "randomised response"
    yield Auditor(
        "lower_rate", "rates.lower_rate", "a coin of 0.3, 400 times", 0.3,
        lambda draw, _: lower_rate(int(draw.binomial(400, 0.3)), 400, 0.05),
        lambda draw, _: float(draw.binomial(400, 0.3)) / 400, 0.25,
    )  # fmt: skip
    yield Auditor(
        "upper_rate", "rates.upper_rate", "a coin of 0.01, 400 times (negated)", -0.01,
        lambda draw, _: -upper_rate(int(draw.binomial(400, 0.01)), 400, 0.05),
        lambda draw, _: -float(draw.binomial(400, 0.01)) / 400, -0.03,
    )  # fmt: skip
    yield Auditor(
        "operating point, epsilon", "rates.operating_point", told, 1.0,
        lambda draw, _: operating_point(**counted(draw, 400), confidence=0.95).epsilon(),
        lambda draw, _: epsilon_of(*draw.binomial(400, [1 - HONEST, HONEST]) / 400), 0.7,
    )  # fmt: skip
    yield Auditor(
        "operating point, mu", "rates.operating_point", told, 2 * float(ndtri(HONEST)),
        lambda draw, _: operating_point(**counted(draw, 400), confidence=0.95).mu,
        lambda draw, _: mu_of(*draw.binomial(400, [1 - HONEST, HONEST]) / 400), 0.7,
    )  # fmt: skip
    yield Auditor(
        "running_lower at all times", "sequential.running_lower", "a coin of 0.3, looked at 15 times", 0.3,
        lambda draw, _: max(running_lower(int(h), 40 * (i + 1), 0.05) for i, h in enumerate(np.cumsum(draw.binomial(40, 0.3, 15)))),
        lambda draw, _: max(lower_rate(int(h), 40 * (i + 1), 0.05) for i, h in enumerate(np.cumsum(draw.binomial(40, 0.3, 15)))),
        0.24, mutant_runs=1000,
    )  # fmt: skip
    yield Auditor(
        "running_upper at all times", "sequential.running_upper", "a coin of 0.3, looked at 15 times (negated)", -0.3,
        lambda draw, _: -min(running_upper(int(h), 40 * (i + 1), 0.05) for i, h in enumerate(np.cumsum(draw.binomial(40, 0.3, 15)))),
        lambda draw, _: -min(upper_rate(int(h), 40 * (i + 1), 0.05) for i, h in enumerate(np.cumsum(draw.binomial(40, 0.3, 15)))),
        -0.37, mutant_runs=1000,
    )  # fmt: skip


def searches() -> Iterator[Auditor]:
    for kind in KINDS:
        yield Auditor(
            f"attack, events {kind}", "search.attack", "Laplace, epsilon 1", 1.0,
            lambda draw, seed, kind=kind: attack(laplace(draw, 0), laplace(draw, 1), 2000, events=kind, seed=seed).lower,  # type: ignore[misc]
            lambda draw, _: best_seen(*apart(laplace(draw, 0), laplace(draw, 1), 1000)), 0.5,
        )  # fmt: skip
    yield Auditor(
        "attack, auto", "search.attack", "randomised response, epsilon 1", 1.0,
        lambda draw, seed: attack(response(draw, 0), response(draw, 1), 500, seed=seed).lower,
        lambda draw, seed: hits_of(attack(response(draw, 0), response(draw, 1), 500, seed=seed)), 0.6,
    )  # fmt: skip
    yield Auditor(
        "attack, auto, mu", "search.attack", "Gaussian, mu 1", 1.0,
        lambda draw, seed: attack(gaussian(draw, 0), gaussian(draw, 1), 1000, measure="mu", seed=seed).lower,
        lambda draw, _: best_seen(*apart(gaussian(draw, 0), gaussian(draw, 1), 1000), measure="mu"), 0.7,
    )  # fmt: skip
    yield Auditor(
        f"attack, threshold, delta {SMALL}", "search.attack", "Gaussian, mu 1", GAUSSIAN,
        lambda draw, seed: attack(gaussian(draw, 0), gaussian(draw, 1), 1000, delta=SMALL, events="threshold", seed=seed).lower,
        lambda draw, _: best_seen(*apart(gaussian(draw, 0), gaussian(draw, 1), 1000), delta=SMALL), 0.7,
    )  # fmt: skip
    yield Auditor(
        "attack, histogram, nothing to find", "search.attack", "100 outputs, all alike", 0.0,
        lambda draw, seed: attack(*2 * [lambda n: draw.integers(100, size=n)], 500, events="histogram", seed=seed).lower,
        chosen_where_measured, 0.0,
    )  # fmt: skip
    yield Auditor(
        "certify", "search.certify", "Laplace, epsilon 1", 1.0,
        lambda draw, _: certify(lambda out: out > 1, laplace(draw, 0), laplace(draw, 1), 1000).lower,
        lambda draw, _: hits_of(certify(lambda out: out > 1, laplace(draw, 0), laplace(draw, 1), 1000)), 0.7,
    )  # fmt: skip
    yield Auditor(
        "band, epsilon at several deltas", "search.band", "Laplace, epsilon 1", 0.0,
        lambda draw, seed: several(band(laplace(draw, 0), laplace(draw, 1), 1000, seed=seed)),
        lambda draw, _: best_seen(*apart(laplace(draw, 0), laplace(draw, 1), 1000)) - 1.0, -0.5,
    )  # fmt: skip
    yield Auditor(
        "band, mu", "search.band", "Gaussian, mu 1", 1.0,
        lambda draw, seed: band(gaussian(draw, 0), gaussian(draw, 1), 1000, seed=seed).mu[0],
        lambda draw, _: best_seen(*apart(gaussian(draw, 0), gaussian(draw, 1), 1000), measure="mu"), 0.6,
    )  # fmt: skip
    yield Auditor(
        "band, evidence", "search.Band.evidence", "Laplace, epsilon 1", 1.0,
        lambda draw, seed: band(laplace(draw, 0), laplace(draw, 1), 1000, seed=seed, events="threshold").evidence().lower,
        lambda draw, _: best_seen(*apart(laplace(draw, 0), laplace(draw, 1), 1000)), 0.5,
    )  # fmt: skip
    yield Auditor(
        "audit_until", "sequential.audit_until", "Laplace, epsilon 1", 1.0,
        lambda draw, seed: until(draw, seed).lower, lambda draw, seed: until(draw, seed).estimate or 0.0, 0.5,
        mutant_runs=300,
    )  # fmt: skip
    yield Auditor(
        "audit_mechanism, whole report", "report.audit_mechanism", "Laplace on a lattice, epsilon 1", 1.0,
        lambda draw, seed: max(found.lower for found in reported(draw, seed)),
        lambda draw, seed: max(hits_of(found) for found in reported(draw, seed)), 0.2,
    )  # fmt: skip


def chosen_where_measured(draw: Generator, _: int) -> float:
    """The search with its parts run together: learnt, chosen and measured on the same samples."""
    first, second = sampled(*2 * [lambda n: draw.integers(100, size=n)], 500, None)
    both = (first, second)
    test = choose(candidates(*both, "histogram"), both, 500, 0.0, 0.95)
    return certified(test, both, draw, delta=0.0, confidence=0.95, measure="epsilon", trials=500, game="none").lower


def several(found: Any) -> float:
    """By how much a band is above the truth at the worst of three deltas: log((1/2 - delta) 2e), or the other end, for Laplace noise."""

    def most(delta: float) -> float:
        return max(math.log((0.5 - delta) * 2 * math.e), math.log(2 * (1 - delta) - math.exp(-1)))

    return max(found.epsilon(delta) - most(delta) for delta in (0.0, 0.02, 0.1))


def until(draw: Generator, seed: int) -> Any:
    claim = Claim.of(epsilon=1)
    how: Any = {"budget": 1500, "explore": 400, "batch": 200, "share": 2.0, "events": "threshold", "seed": seed}
    return audit_until(claim, laplace(draw, 0), laplace(draw, 1), **how).evidence


def reported(draw: Generator, seed: int) -> Any:
    """Noise on a lattice: the last bits of a float would tell more than epsilon."""
    report = audit_mechanism(
        lambda rows: len(rows) + round(1024 * draw.laplace()) / 1024, "eps=1", neighbours=[([], [1])], trials=250, seed=seed
    )
    return [verdict.evidence for verdict in report.verdicts]


def floats() -> Iterator[Auditor]:
    def told(draw: Generator, bit: int) -> Callable[[int], Any]:
        return lambda n: np.where(response(draw, bit)(n) > 0, 2.0**-60, 1.0)

    mechanism = "randomised response between 1 and 2^-60"
    yield Auditor(
        "bit_attack", "floats.bit_attack", mechanism, 1.0,
        lambda draw, seed: bit_attack(told(draw, 0), told(draw, 1), 500, seed=seed).lower,
        lambda draw, seed: hits_of(bit_attack(told(draw, 0), told(draw, 1), 500, seed=seed)), 0.6,
    )  # fmt: skip
    yield Auditor(
        "check_floats", "floats.check_floats", mechanism, 1.0,
        lambda draw, seed: check_floats(told(draw, 0), told(draw, 1), 500, seed=seed).evidence.lower,
        lambda draw, seed: hits_of(check_floats(told(draw, 0), told(draw, 1), 500, seed=seed).evidence), 0.6,
    )  # fmt: skip
    yield Auditor(
        "porous_attack", "floats.porous_attack", mechanism, 1.0,
        lambda draw, seed: porous_attack(told(draw, 0), told(draw, 1), 500, seed=seed).lower,
        lambda draw, seed: hits_of(porous_attack(told(draw, 0), told(draw, 1), 500, seed=seed)), 0.7,
    )  # fmt: skip
