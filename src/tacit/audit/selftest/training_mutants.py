"""Faults of training loops, samplers and sessions: what is run is not what is priced.

>>> [mutant.name for mutant in mutants()][0]
'training: shuffled batches priced as Poisson'
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Gaussian, Poisson, Repeated, Sampled
from tacit.audit.claim import Claim
from tacit.audit.selftest.case import Mutant
from tacit.audit.selftest.table_cases import TABLE, session
from tacit.noise import bernoulli, rounded_gaussian, test_mode, uniform_integers
from tacit.tables import Unit

Draws = NDArray[Any]
GRAIN = 1 << 20
STEPS = 20


def normal(sigma: float, shape: tuple[int, ...]) -> Draws:
    """Gaussian noise on a fine lattice."""
    return np.asarray(rounded_gaussian(sigma * GRAIN, size=shape) / GRAIN)


def shuffled(target: int, n: int) -> Draws:
    """Everybody is in exactly one batch of an epoch, all batches are equally long, and the price is that of independent coins."""
    # 19 others push down by one, a batch of one each; the target's batch stands out whether she pushes or not (Chua et al. 2024).
    place = uniform_integers(STEPS, size=n)
    sums = np.full((n, STEPS), -1.0)
    sums[np.arange(n), place] = target
    found: Draws = np.sort(sums + normal(0.6, (n, STEPS)), axis=1)[:, ::-1][:, :1]
    return found


def poisson(target: int, n: int) -> Draws:
    """The same with a coin for each batch."""
    others = -bernoulli(1 / 2, size=(n, STEPS)).astype(float)
    sums = others + target * bernoulli(1 / 16, size=(n, STEPS))
    found: Draws = np.sort(sums + normal(0.6, (n, STEPS)), axis=1)[:, ::-1][:, :1]
    return found


def averaged_noise(target: int, n: int) -> Draws:
    """Noise for a batch is added to each of 16 pieces and the pieces are averaged: a sixteenth of the variance is left."""
    return np.asarray(target + normal(1.0, (n, 16)).mean(axis=1))


def one_noise(target: int, n: int) -> Draws:
    """Noise once, on the sum."""
    return np.asarray(target + normal(1.0, (n,)))


def private_divisor(records: int, n: int) -> Draws:
    """The sum is divided by the number of records that came, so the length of the noise tells that number."""
    found: Draws = np.abs(normal(1.0, (n, 1000)) / records).mean(axis=1)
    return found


def public_divisor(records: int, n: int) -> Draws:
    """Divided by the declared number."""
    found: Draws = np.abs(normal(1.0, (n, 1000)) / 10).mean(axis=1)
    return found


def reused_seed(value: int, n: int) -> Draws:
    """Two releases about the same people with one seed: their difference is exact."""
    with test_mode(7):
        first = normal(2.0, (n,))
    with test_mode(7):
        second = normal(2.0, (n,))
    # What is published: a total with the person and one without her field.
    found: Draws = np.column_stack([value + first, second])
    return found


def fresh_seeds(value: int, n: int) -> Draws:
    """Two releases, each with noise of its own."""
    found: Draws = np.column_stack([value + normal(2.0, (n,)), normal(2.0, (n,))])
    return found


def biased_canary(target: int, n: int) -> Draws:
    """The batch always takes the newest record, and the price has the credit of a random one."""
    return np.asarray(target + normal(1.0, (n,)))


def sampled_canary(target: int, n: int) -> Draws:
    """The newest record is in the batch with probability 1/16, as priced."""
    return np.asarray(target * bernoulli(1 / 16, size=n) + normal(1.0, (n,)))


def _counted(unit: Unit) -> Any:
    def run(rows: int, n: int) -> Draws:
        people = np.repeat(np.arange(n), rows)
        with session(people, people, np.ones(len(people)), unit) as open_:
            answer = open_.sql(f"SELECT g, COUNT(*) AS x FROM {TABLE} GROUP BY g", keys={"g": list(range(n))}, epsilon=1)
        return np.asarray(answer["x"], dtype=np.float64)

    return run


def mutants() -> list[Mutant]:
    """All of them."""
    sampled = Sampled(Poisson(1 / 16), Gaussian(1))
    return [
        Mutant(
            "training: shuffled batches priced as Poisson",
            shuffled,
            poisson,
            (0, 1),
            Claim(Repeated(Sampled(Poisson(1 / STEPS), Gaussian(0.6)), STEPS), text="20 Poisson steps at 1/20, noise 0.6"),
            8000,
            delta=0.2,
            bulk=True,
        ),
        Mutant("training: noise per microbatch", averaged_noise, one_noise, (0, 1), Claim.of(mu=1), 8000, bulk=True),
        Mutant("training: private divisor", private_divisor, public_divisor, (10, 11), Claim.of(mu=1), 1000, bulk=True),
        Mutant("training: seed used twice", reused_seed, fresh_seeds, (0, 1), Claim.of(mu=1), 4000, bulk=True),
        Mutant(
            "training: sampling that does not sample",
            biased_canary,
            sampled_canary,
            (0, 1),
            Claim(sampled, text="one Poisson step at 1/16, noise 1"),
            8000,
            delta=0.01,
            bulk=True,
        ),
        Mutant(
            "tables: a cap that is only declared",
            _counted(Unit("id", max_rows=1, capped=True)),
            _counted(Unit("id", max_rows=1)),
            (0, 5),
            Claim.of(epsilon=1),
            4000,
            "The unit says one row a person, the data has five, and nobody caps.",
            bulk=True,
        ),
    ]
