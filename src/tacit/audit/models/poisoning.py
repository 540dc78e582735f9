"""Privacy as a defence against poisoning: what an attacker who may change k training records can reach at most, and what one reached.

A differentially private training hardly depends on k records, so neither does what they do to it (Ma, Zhu and Hsu 2019). Whatever the
attacker wants, if it happens with probability p on clean data it happens with at most e^(k eps) p and a little when k records are
changed; and a cost of the attacker's that is never negative, with mean J on clean data, has mean at least e^(-k eps) J.

>>> round(most_success(0.01, epsilon=0.5, records=4), 4), round(least_cost(2.0, epsilon=0.5, records=4), 4)
(0.0739, 0.2707)
>>> records_needed(2.0, 0.5, epsilon=0.1)
14

The auditor measures: `poisoning_success` trains with and without the poison and compares how often the attack works with the
bound. Where it works more often than the bound allows, the training is not what it says.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tacit.accounting import ParameterError
from tacit.audit.experiment import generator, map_trials, spawn
from tacit.audit.models.games import Train, trained
from tacit.audit.models.signals import Model, Records
from tacit.audit.rates import lower_rate, upper_rate
from tacit.parameters import count, positive, probability


def most_success(clean: float, *, epsilon: float, records: int, delta: float = 0.0) -> float:
    """The most that an event of probability `clean` can have when so many records are added or removed: group privacy.

    e^(k eps) p + delta (e^(k eps) - 1) / (e^eps - 1), at most 1; or, by the other direction, 1 - e^(-k eps) (1 - p - ...) if that is less.

    >>> most_success(0.5, epsilon=math.log(3), records=1)
    0.8333333333333334
    """
    p, k, d = float(probability("clean", clean)), count("records", records, least=0), float(delta)
    e = float(positive("epsilon", epsilon))
    grown = math.exp(min(k * e, 700.0))
    slack = d * (math.expm1(min(k * e, 700.0)) / math.expm1(e))
    # not happening has probability 1 - p on clean data, and at least e^(-k eps) (1 - p - slack) on poisoned
    return max(0.0, min(1.0, grown * p + slack, 1 - (1 - p - slack) / grown))


def least_cost(clean: float, *, epsilon: float, records: int) -> float:
    """The least mean of a cost that is never negative and has mean `clean` on clean data (Ma, Zhu and Hsu 2019, Theorem 3).

    >>> least_cost(1.0, epsilon=1.0, records=0)
    1.0
    """
    return float(positive("clean", clean)) * math.exp(-count("records", records, least=0) * float(positive("epsilon", epsilon)))


def records_needed(clean: float, goal: float, *, epsilon: float) -> int:
    """How many records an attacker must change to bring the mean cost from `clean` down to `goal` (their Corollary 5)."""
    if not 0 < goal <= clean:
        raise ParameterError("goal must be positive and at most the clean cost")
    return math.ceil(math.log(float(clean) / float(goal)) / float(positive("epsilon", epsilon)) * (1 - 1e-12))


@dataclass(frozen=True)
class Poisoned:
    """How often an attack worked, with and without its poison, and what the claim allows."""

    clean: float
    poisoned: float
    least_poisoned: float  # below it at the confidence
    allowed: float  # for the largest clean rate at the confidence
    records: int
    trials: int

    @property
    def refuted(self) -> bool:
        """Whether it worked more often than a training of that epsilon allows."""
        return self.least_poisoned > self.allowed


def poisoning_success(
    train: Train, data: Records, poisoned: Records, works: Callable[[Model], bool], *, records: int, epsilon: float, delta: float = 0.0,
    trials: int, confidence: float = 0.95, seed: int | None = None, workers: int = 1,
) -> Poisoned:
    """Train `trials` times on each of two data sets that differ in `records` records; how often does the attack work on each?

    Both rates get one-sided exact bounds, at half of the risk each, so a training that keeps its claim is refuted with
    probability at most 1 - `confidence`.
    """
    coins = generator(seed)
    number = count("trials", trials, least=2)
    seeds = [None if seed is None else int(one.integers(2**62)) for one in spawn(coins, 2 * number)]
    plays = [(data if k < number else poisoned, own) for k, own in enumerate(seeds)]
    found = np.array(map_trials(lambda play: float(works(trained(train, *play))), plays, workers=workers, what="poisoned trainings")) > 0
    risk = (1 - float(probability("confidence", confidence))) / 2
    clean, bad = int(found[:number].sum()), int(found[number:].sum())
    highest, lowest = upper_rate(clean, number, risk), lower_rate(bad, number, risk)
    allowed = most_success(highest, epsilon=epsilon, records=records, delta=delta)
    return Poisoned(clean / number, bad / number, lowest, allowed, records, number)
