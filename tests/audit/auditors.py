"""Every auditor of the package beside a mechanism whose truth is known: the table that `test_validity` runs a thousand times.

An auditor here is one way to get a number with a confidence out of `tacit.audit`. Its run returns that number; it is wrong where it lies
above the truth, which may happen in at most `error` of the runs. Tests that only say "found" or not return 1 or 0, with a truth of 1/2.
The mutant is what one would get by a mistake that is made in practice: a point estimate, the luckiest of many thresholds, a look after
each batch, an interval where two are needed. It is run through the same check and must fail it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit, ndtr, ndtri

from tacit.accounting import Gaussian, account
from tacit.audit.attributes import attribute_risk
from tacit.audit.canaries import audit_gradients
from tacit.audit.channel_builders import randomised_response
from tacit.audit.claim import Claim
from tacit.audit.demonstrations import Level
from tacit.audit.experiment import Generator
from tacit.audit.extraction import exposure
from tacit.audit.floats import bit_attack, check_floats, porous_attack
from tacit.audit.games import MembershipGame
from tacit.audit.independent import coin_evidence
from tacit.audit.leakage_audit import audit_examples, audit_local, audit_neighbours, estimate_risk
from tacit.audit.leakage_bounds import local_epsilon_floor
from tacit.audit.leakage_confidence import prior_upper, risk_interval, risk_upper
from tacit.audit.lira import LikelihoodRatioAttack
from tacit.audit.mechanism_report import audit_mechanism
from tacit.audit.membership import Attack, CalibratedAttack, LossAttack, PopulationAttack, ReferenceAttack, order_statistic
from tacit.audit.model_report import audit_model
from tacit.audit.one_run import SHARES, audit_one_run, one_run, right_guesses
from tacit.audit.poisoning import audit_poisoning
from tacit.audit.ranks import rank_attack
from tacit.audit.rates import epsilon_of, lower_rate, mu_of, operating_point, upper_rate
from tacit.audit.rmia import RobustAttack
from tacit.audit.roc import evidence_of, roc
from tacit.audit.search import KINDS, attack, band, candidates, certified, certify, choose, sampled
from tacit.audit.sequential import audit_until, running_lower, running_upper
from tacit.audit.signals import Signal
from tacit.audit.synthetic_inference import play
from tacit.audit.timing import compare_times, paired_times, regress_times, time_draws

Run = Callable[[Generator, int], float]
HONEST = float(expit(1.0))  # how often randomised response tells the truth at epsilon 1
SMALL = 0.05  # delta, where there is one
GAUSSIAN = account(Gaussian(1.0)).epsilon(SMALL).upper  # epsilon at that delta for mu = 1


@dataclass(frozen=True)
class Auditor:
    """One auditor on one mechanism.

    `run(draw, seed)` draws the mechanism's outputs from `draw` and gives the seed to the auditor. `reaches` is what half of the
    bounds must reach: an auditor that says nothing is never wrong. `covers` names the functions it stands for.
    """

    name: str
    covers: str
    mechanism: str
    truth: float
    run: Run
    mutant: Run
    reaches: float
    error: float = 0.05
    mutant_runs: int = 100


# --- mechanisms -------------------------------------------------------------------------------------------------------------------------


def laplace(draw: Generator, shift: float) -> Callable[[int], Any]:
    return lambda n: shift + draw.laplace(size=n)


def gaussian(draw: Generator, shift: float) -> Callable[[int], Any]:
    return lambda n: shift + draw.normal(size=n)


def response(draw: Generator, bit: int) -> Callable[[int], Any]:
    return lambda n: np.where(draw.random(n) < HONEST, bit, 1 - bit).astype(float)


def coins_and(draw: Generator, n: int, law: str) -> tuple[Any, Any]:
    """Scores of n independent trials whose worlds are fair coins, and the coins."""
    bits = draw.random(n) < 0.5
    if law == "response":
        return np.where(draw.random(n) < HONEST, bits, ~bits) + 1e-3 * draw.random(n), bits
    return bits + getattr(draw, law)(size=n), bits


def halves_and(draw: Generator, n: int, law: str) -> tuple[Any, Any]:
    """The same with as many trials in either world."""
    bits = np.arange(n) % 2 == 0
    return bits + getattr(draw, law)(size=n), bits


# --- mistakes ---------------------------------------------------------------------------------------------------------------------------


def hits_of(found: Any, delta: float = 0.0, measure: str = "epsilon") -> float:
    """The point estimate of the test that was chosen: the mistake of leaving the interval out."""
    rates = [min(1.0, hits / found.details["measured"]) for hits in found.details["hits"]]
    return mu_of(*rates) if measure == "mu" else epsilon_of(*rates, delta)


def best_seen(scores: Any, bits: Any, delta: float = 0.0, measure: str = "epsilon") -> float:
    """The best point of the curve as it was seen, a few trials from either end: chosen and measured on the same trials, no interval."""
    outside, inside = np.sort(scores[~bits]), np.sort(scores[bits])
    levels = np.unique(scores)
    false, true = ((part.searchsorted(levels) * -1 + len(part)) / len(part) for part in (outside, inside))
    kept = (false >= 0.03) & (true <= 0.97)
    points = zip(false[kept].tolist(), true[kept].tolist(), strict=True)
    return max(((mu_of(a, b) if measure == "mu" else epsilon_of(a, b, delta)) for a, b in points), default=0.0)


def apart(on_first: Callable[[int], Any], on_second: Callable[[int], Any], n: int) -> tuple[Any, Any]:
    """Scores and worlds of n outputs on either input."""
    return np.concatenate([on_first(n), on_second(n)]), np.arange(2 * n) >= n


# --- rates ------------------------------------------------------------------------------------------------------------------------------


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


# --- black boxes ------------------------------------------------------------------------------------------------------------------------


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
        "audit_mechanism, whole report", "mechanism_report.audit_mechanism", "Laplace on a lattice, epsilon 1", 1.0,
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


# --- scores -----------------------------------------------------------------------------------------------------------------------------


def scores() -> Iterator[Auditor]:
    how: Any = {"attack": "score", "game": "independent trials"}
    laws = (("laplace", 1.0, {}), ("normal", 1.0, {"measure": "mu"}), ("normal", GAUSSIAN, {"delta": SMALL}))
    for law, truth, more in laws:
        asked: Any = more
        what = f"{'Laplace, epsilon 1' if law == 'laplace' else 'Gaussian, mu 1'}"
        form = ", ".join(f"{k} {v}" for k, v in asked.items()) or "epsilon"
        yield Auditor(
            f"rank_attack, {form}", "ranks.rank_attack", what, truth,
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


# --- games and models -------------------------------------------------------------------------------------------------------------------

NOISY = Signal("what the model says of the record", lambda model, records: model[np.asarray(records, dtype=np.int64)], 1.0)
POSITIVE = Signal("the same, positive", lambda model, records: expit(model[np.asarray(records, dtype=np.int64)]), 1.0)


class Said:
    """A training that says of each of `size` records whether it was there, with Laplace noise of its own: epsilon 1."""

    def __init__(self, draw: Generator, size: int) -> None:
        self.draw, self.size = draw, size

    def __call__(self, data: Any) -> Any:
        return np.bincount(np.asarray(data, dtype=np.int64), minlength=self.size) + self.draw.laplace(size=self.size)


def one_of_three(draw: Generator) -> Callable[[Any], float]:
    """Randomised response over three values, epsilon 1."""

    def train(data: Any) -> float:
        others = [value for value in (0.0, 1.0, 2.0) if value != data[0]]
        return float(data[0] if draw.random() < math.e / (math.e + 2) else others[int(draw.integers(2))])

    return train


def games() -> Iterator[Auditor]:
    for name, replace in (("worst case", False), ("fixed record", True)):
        yield Auditor(
            f"MembershipGame, {name}", "games.GameResult.evidence", "Laplace, epsilon 1", 1.0,
            lambda draw, seed, name=name, replace=replace: played(draw, seed, name, replace).evidence(seed=seed).lower,  # type: ignore[misc]
            lambda draw, seed, name=name, replace=replace: seen_in(played(draw, seed, name, replace)), 0.05,  # type: ignore[misc]
        )  # fmt: skip
    yield Auditor(
        "MembershipGame, average", "games.GameResult.evidence", "randomised response over 3 values, epsilon 1", 1.0,
        lambda draw, seed: averaged(draw, seed).evidence(seed=seed).lower,
        lambda draw, seed: estimate_of(averaged(draw, seed)), 0.05,
    )  # fmt: skip
    attacks: dict[str, tuple[Attack, str]] = {
        "loss": (LossAttack(NOISY), "membership.LossAttack"),
        "population": (PopulationAttack(NOISY), "membership.PopulationAttack"),
        "difficulty calibrated": (CalibratedAttack(NOISY), "membership.CalibratedAttack"),
        "reference": (ReferenceAttack(NOISY), "membership.ReferenceAttack"),
        "LiRA online": (LikelihoodRatioAttack(NOISY), "lira.LikelihoodRatioAttack"),
        "LiRA offline": (LikelihoodRatioAttack(NOISY), "lira.LikelihoodRatioAttack"),
        "RMIA": (RobustAttack(POSITIVE), "rmia.RobustAttack"),
    }
    for name, (chosen, covers) in attacks.items():
        yield Auditor(
            f"fixed model, {name}", covers, "Laplace, epsilon 1, for each of 200 records", 1.0,
            lambda draw, seed, name=name, chosen=chosen: fixed_model(draw, seed, chosen, name != "LiRA offline"),  # type: ignore[misc]
            lambda draw, seed, name=name, chosen=chosen: fixed_model(draw, seed, chosen, name != "LiRA offline", seen=True),  # type: ignore[misc]
            0.1,
        )  # fmt: skip
    yield Auditor(
        "audit_model, whole report", "model_report.audit_model", "Laplace, epsilon 1, for each of 200 records", 1.0,
        lambda draw, seed: max(verdict.evidence.lower for verdict in modelled(draw, seed).verdicts),
        lambda draw, seed: max(best_seen(one.scores, one.bits) for one in modelled(draw, seed).results), 0.1,
    )  # fmt: skip
    yield Auditor(
        "audit_poisoning, two records", "poisoning.audit_poisoning", "Laplace, epsilon 1 a record", 1.0,
        lambda draw, seed: poisoned(draw, seed).lower, lambda draw, seed: poisoned(draw, seed).details["group"], 0.3,
    )  # fmt: skip
    yield Auditor(
        "audit_gradients", "canaries.audit_gradients", "a step of private gradient descent, mu 1", GAUSSIAN,
        lambda _, seed: gradients(seed, noise=1.0), lambda _, seed: gradients(seed, noise=0.5), 0.1, mutant_runs=60,
    )  # fmt: skip


def played(draw: Generator, seed: int, name: str, replace: bool) -> Any:
    population = (np.arange(6) == 0).astype(float)
    game = MembershipGame(lambda data: float(np.sum(data) + draw.laplace()), population, 2, name, record=0, replace=replace, seed=seed)
    return game.run(lambda model, _: model, trials=80)


def averaged(draw: Generator, seed: int) -> Any:
    game = MembershipGame(one_of_three(draw), np.arange(3.0), 1, "average", seed=seed)
    return game.run(lambda model, record: float(model == record[0]), trials=80)


def seen_in(result: Any) -> float:
    return best_seen(result.scores, result.bits)


def estimate_of(result: Any) -> float:
    return epsilon_of(float(result.scores[~result.bits].mean()), float(result.scores[result.bits].mean()))


def fixed_model(draw: Generator, seed: int, chosen: Attack, online: bool, *, seen: bool = False) -> float:
    size = 260
    game = MembershipGame(Said(draw, size), np.arange(size), 100, "fixed model", seed=seed)
    references, inside = game.train_references(6)
    rest = np.setdiff1d(np.arange(size), game.candidates)
    result = game.run_all([chosen], 200, references=references, inside=inside if online else None, population=rest)[0]
    if seen:
        return best_seen(result.scores, result.bits)
    return result.evidence(seed=seed).lower


def modelled(draw: Generator, seed: int) -> Any:
    attacks = [LossAttack(NOISY), CalibratedAttack(NOISY)]
    return audit_model(Said(draw, 260), np.arange(260), "eps=1", attacks=attacks, size=100, references=3, signal=NOISY, seed=seed)


def poisoned(draw: Generator, seed: int) -> Any:
    def train(rows: Any) -> float:
        return float(rows.sum() + draw.laplace())

    return audit_poisoning(train, np.zeros(1), np.ones(2), lambda model, _: model, trials=200, seed=seed)


def gradients(seed: int, noise: float) -> float:
    from tacit.deep import FullBatch, make_private

    how: Any = {"noise_multiplier": noise, "clip": 1.0, "sampler": FullBatch(200), "steps": 1, "loss_reduction": "sum"}
    return audit_gradients(lambda *parts: make_private(*parts, **how), canaries=200, delta=SMALL, seed=seed).lower


# --- secrets, leakage, clocks -----------------------------------------------------------------------------------------------------------


def secrets() -> Iterator[Auditor]:
    yield Auditor(
        "exposure of a secret, from a sample", "extraction.exposure", "rank 100 of 2^14, 500 of the others seen", 14 - math.log2(100),
        lambda draw, _: exposed(draw).at_least, lambda draw, _: exposed(draw).bits, 5.0,
    )  # fmt: skip
    yield Auditor(
        "attribute_risk", "attributes.attribute_risk", "the attribute told to 0.731 for members, 0.5 for others: either end", 0.5,
        lambda draw, _: advantage_missed(draw), lambda draw, _: advantage_missed(draw, alone=True), 0.0, mutant_runs=1000,
    )  # fmt: skip
    yield Auditor(
        "Leak.epsilon", "synthetic_inference.Leak.epsilon", "one record, its secret by randomised response", math.log((1 + math.e) / 2),
        lambda draw, _: synthesised(draw).epsilon(),
        lambda draw, _: epsilon_of(*(getattr(synthesised(draw), name) for name in ("generalisation", "rate"))), 0.15,
    )  # fmt: skip
    yield Auditor(
        "Level.beats", "demonstrations.Level.beats", "400 bits by randomised response, epsilon 1", 0.5,
        lambda draw, _: float(Level("bits", 1.0, int(draw.binomial(400, HONEST)), 400, 0.5, HONEST).beats(0.05)),
        lambda draw, _: float(Level("bits", 1.0, int(draw.binomial(400, HONEST)), 400, 0.5, HONEST).rate > HONEST), 0.0,
    )  # fmt: skip
    yield Auditor(
        "Level.interval", "demonstrations.Level.interval", "a coin of 0.9, 100 times: either end", 0.5,
        lambda draw, _: missed(0.9, Level("coin", 1.0, int(draw.binomial(100, 0.9)), 100, 0.5).interval()),
        lambda draw, _: missed(0.9, normal_interval(int(draw.binomial(20, 0.9)), 20)), 0.0, mutant_runs=1000,
    )  # fmt: skip


def missed(truth: float, interval: tuple[float, float]) -> float:
    return float(not interval[0] <= truth <= interval[1])


def normal_interval(hits: int, trials: int) -> tuple[float, float]:
    """Wald's interval, which is what one finds in most programs."""
    rate = hits / trials
    wide = 1.96 * math.sqrt(rate * (1 - rate) / trials)
    return rate - wide, rate + wide


def exposed(draw: Generator) -> Any:
    others = [str(i) for i in draw.integers(1, 2**14, size=500)]  # the secret is "0"; 1 to 99 are likelier
    return exposure(lambda text: 1.0 if 1 <= int(text) <= 99 else 0.5 if text == "0" else 0.0, "0", others, space=2**14)


def advantage_missed(draw: Generator, *, alone: bool = False) -> float:
    """Whether the true difference lies outside the interval: the model repeats what it was told of the attribute of record i.

    The mistake: an interval for the members alone, as if the others' share were known.
    """
    worlds = []
    for rate in (HONEST, 0.5):
        truth = draw.integers(2, size=300).astype(float)
        said = np.where(draw.random(300) < rate, truth, 1 - truth)
        worlds.append((np.column_stack([said, truth]), np.ones(300, dtype=int)))

    def model(x: Any) -> Any:
        known = np.where(x[:, 0] == x[:, 1], 0.9, 0.1)
        return np.column_stack([1 - known, known])

    found = attribute_risk(model, *worlds, column=1, values=[0.0, 1.0])
    if alone:
        low, high = risk_interval(round(300 * found.members), 300)
        return missed(HONEST - 0.5, (low - found.others, high - found.others))
    return missed(HONEST - 0.5, found.advantage_interval)


def synthesised(draw: Generator) -> Any:
    def synthesise(people: Any) -> Any:
        turned = people.copy()
        turned[0, -1] ^= int(draw.random() > HONEST)
        return turned

    return play(
        synthesise, lambda n: draw.integers(2, size=(n, 2)), size=1, trials=200, attack=lambda known, secret, asked: np.repeat(secret, 2)
    )


def leakage() -> Iterator[Auditor]:
    risk = 1 - HONEST
    channel = randomised_response(2, 1.0)

    def mechanism(values: Any, draw: Generator) -> Any:
        return channel.sample(len(values), draw, secrets=values)[1]

    def local(draw: Generator) -> Any:
        return audit_local(mechanism, 2, 600, draw, rules=["frequentist"])

    def neighbouring(draw: Generator) -> Any:
        return audit_neighbours(lambda bit: int(response(draw, bit)(1)[0]), 0, 1, 400, draw, rules=["frequentist"])

    def examined(draw: Generator) -> Any:
        return audit_examples(*channel.sample(600, draw), 2, rules=["frequentist"])

    for method in ("clopper-pearson", "hoeffding"):
        yield Auditor(
            f"risk_upper, {method}", "leakage_confidence.risk_upper", "a risk of 0.269 on 400 (negated)", -risk,
            lambda draw, _, method=method: -risk_upper(int(draw.binomial(400, risk)), 400, method=method),  # type: ignore[misc]
            lambda draw, _: -float(draw.binomial(400, risk)) / 400, -0.34,
        )  # fmt: skip
        yield Auditor(
            f"risk_interval, {method}", "leakage_confidence.risk_interval", "a risk of 0.1 on 100: either end", 0.5,
            lambda draw, _, method=method: missed(0.1, risk_interval(int(draw.binomial(100, 0.1)), 100, method=method)),  # type: ignore[misc]
            lambda draw, _: missed(0.1, normal_interval(int(draw.binomial(20, 0.1)), 20)), 0.0, mutant_runs=1000,
        )  # fmt: skip
    yield Auditor(
        "prior_upper", "leakage_confidence.prior_upper", "ten secrets alike, 500 drawn (negated)", -0.1,
        lambda draw, _: -prior_upper(draw.multinomial(500, [0.1] * 10).tolist()),
        lambda draw, _: -float(draw.multinomial(500, [0.1] * 10)[0]) / 500, -0.2,
    )  # fmt: skip
    yield Auditor(
        "estimate_risk", "leakage_audit.estimate_risk", "randomised response (negated)", -risk,
        lambda draw, _: -estimated(channel, draw).upper, lambda draw, _: -estimated(channel, draw).point, -0.34,
    )  # fmt: skip
    for name, found in (("audit_local", local), ("audit_neighbours", neighbouring), ("audit_examples", examined)):
        yield Auditor(
            name, f"leakage_audit.{name}", "randomised response, epsilon 1", 1.0,
            lambda draw, _, found=found: found(draw).epsilon_lower,  # type: ignore[misc]
            lambda draw, _, found=found: local_epsilon_floor(found(draw).estimate.point, 2), 0.3,  # type: ignore[misc]
        )  # fmt: skip


def estimated(channel: Any, draw: Generator) -> Any:
    return estimate_risk("frequentist", channel.sample(100, draw), channel.sample(400, draw), secrets=2)


def clocks() -> Iterator[Auditor]:
    def clock(draw: Generator) -> Callable[[], int]:
        """A clock that drifts and jitters, and on which the first of two calls is the slower one, whatever it is."""
        drift = 1 + 0.3 * np.sin(np.arange(100))[:, None]
        now = itertools.accumulate((drift * (draw.exponential(1000, size=(100, 4)) + np.array([0, 800, 0, 0]))).ravel())
        return lambda: int(next(now))

    def in_order(draw: Generator, seed: int) -> float:
        """The first input always first: the mistake of not flipping a coin for the order."""
        tick = clock(draw)
        spent = [[-tick() + tick() for _ in range(2)] for _ in range(60)]
        return float(paired_times([b - a for a, b in spent], error=0.05, seed=seed).found)

    def looked(test: Callable[[Generator, int], Any]) -> Run:
        """Ten looks, and the best of them: the mistake of trying again."""
        return lambda draw, seed: float(any(test(draw, seed + i).found for i in range(10)))

    def paired(draw: Generator, seed: int) -> Any:
        return paired_times(draw.standard_t(2, size=60), error=0.05, seed=seed)

    def regressed(draw: Generator, seed: int) -> Any:
        return regress_times(draw.exponential(size=60), draw.laplace(size=60), error=0.05, seed=seed)

    def drawn(draw: Generator, seed: int) -> Any:
        return time_draws(draw.laplace, 60, error=0.05, seed=seed, clock=clock(draw))

    told = ": a leak is found"
    yield Auditor(
        "paired_times", "timing.paired_times", f"differences of one law{told}", 0.5,
        lambda draw, seed: float(paired(draw, seed).found), looked(paired), 0.0,
    )  # fmt: skip
    yield Auditor(
        "compare_times", "timing.compare_times", f"a clock that drifts{told}", 0.5,
        lambda draw, seed: float(compare_times(int, int, 60, error=0.05, seed=seed, clock=clock(draw)).found), in_order, 0.0,
    )  # fmt: skip
    yield Auditor(
        "regress_times", "timing.regress_times", f"times that know no sizes{told}", 0.5,
        lambda draw, seed: float(regressed(draw, seed).found), looked(regressed), 0.0,
    )  # fmt: skip
    yield Auditor(
        "time_draws", "timing.time_draws", f"a clock that drifts{told}", 0.5,
        lambda draw, seed: float(drawn(draw, seed).found), looked(drawn), 0.0,
    )  # fmt: skip


AUDITORS: tuple[Auditor, ...] = (
    *rates(), *searches(), *floats(), *scores(), *canaries(), *games(), *secrets(), *leakage(), *clocks(),
)  # fmt: skip
