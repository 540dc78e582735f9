"""Auditors of everything else that leaks: secrets in texts, attributes, channels, and clocks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from tests.audit.auditors.auditor import (
    HONEST,
    Auditor,
    Run,
    response,
)

from tacit.audit.demonstrations import Level
from tacit.audit.demonstrations.synthetic_inference import play
from tacit.audit.experiment import Generator
from tacit.audit.leakage.attack import audit_examples, audit_local, audit_neighbours, estimate_risk, prior_upper, risk_interval, risk_upper
from tacit.audit.leakage.bounds import local_epsilon_floor
from tacit.audit.leakage.builders import randomised_response
from tacit.audit.mechanisms.timing import compare_times, paired_times, regress_times, time_draws
from tacit.audit.models.disclosure import attribute_risk, exposure
from tacit.audit.rates import epsilon_of


def secrets() -> Iterator[Auditor]:
    yield Auditor(
        "exposure of a secret, from a sample", "disclosure.exposure", "rank 100 of 2^14, 500 of the others seen", 14 - math.log2(100),
        lambda draw, _: exposed(draw).at_least, lambda draw, _: exposed(draw).bits, 5.0,
    )  # fmt: skip
    yield Auditor(
        "attribute_risk", "disclosure.attribute_risk", "the attribute told to 0.731 for members, 0.5 for others: either end", 0.5,
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
            f"risk_upper, {method}", "attack.risk_upper", "a risk of 0.269 on 400 (negated)", -risk,
            lambda draw, _, method=method: -risk_upper(int(draw.binomial(400, risk)), 400, method=method),  # type: ignore[misc]
            lambda draw, _: -float(draw.binomial(400, risk)) / 400, -0.34,
        )  # fmt: skip
        yield Auditor(
            f"risk_interval, {method}", "attack.risk_interval", "a risk of 0.1 on 100: either end", 0.5,
            lambda draw, _, method=method: missed(0.1, risk_interval(int(draw.binomial(100, 0.1)), 100, method=method)),  # type: ignore[misc]
            lambda draw, _: missed(0.1, normal_interval(int(draw.binomial(20, 0.1)), 20)), 0.0, mutant_runs=1000,
        )  # fmt: skip
    yield Auditor(
        "prior_upper", "attack.prior_upper", "ten secrets alike, 500 drawn (negated)", -0.1,
        lambda draw, _: -prior_upper(draw.multinomial(500, [0.1] * 10).tolist()),
        lambda draw, _: -float(draw.multinomial(500, [0.1] * 10)[0]) / 500, -0.2,
    )  # fmt: skip
    yield Auditor(
        "estimate_risk", "attack.estimate_risk", "randomised response (negated)", -risk,
        lambda draw, _: -estimated(channel, draw).upper, lambda draw, _: -estimated(channel, draw).point, -0.34,
    )  # fmt: skip
    for name, found in (("audit_local", local), ("audit_neighbours", neighbouring), ("audit_examples", examined)):
        yield Auditor(
            name, f"attack.{name}", "randomised response, epsilon 1", 1.0,
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
