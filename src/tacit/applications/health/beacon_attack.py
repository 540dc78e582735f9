"""Was this person in the beacon? The likelihood-ratio attack with the rarest variants that she carries.

On exact answers five questions tell members apart nearly always (Shringarpure and Bustamante 2015; von Thenen, Ayday
and Cicek 2019). On answers that cost epsilon in all, no attack has an AUC above e^epsilon / (1 + e^epsilon).

>>> round(auc_limit(1), 3)
0.731
>>> auc([3.0, 2.0, 2.5], [1.0, 2.0, 0.0])
0.944...
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.applications.health.beacon import prior_with_absence, says_yes
from tacit.errors import ParameterError
from tacit.parameters import count, positive

Floats = NDArray[np.float64]
#: A genotype is read wrongly with this probability, so that no answer has probability 0.
MISREAD = 1e-6


def auc_limit(epsilon: float) -> float:
    """The largest area under the curve of an attack on an epsilon-DP release: e^epsilon / (1 + e^epsilon)."""
    return 1 / (1 + math.exp(-float(positive("epsilon", epsilon))))


def auc(members: ArrayLike, others: ArrayLike) -> float:
    """The chance that a member scores above another person; half where they are equal."""
    first, second = np.asarray(members, dtype=float), np.sort(np.asarray(others, dtype=float))
    below = np.searchsorted(second, first, side="left")
    upto = np.searchsorted(second, first, side="right")
    return float((below + upto).mean() / (2 * len(second)))


def rarest(genotypes: NDArray[np.integer], frequencies: Floats, number: int) -> list[NDArray[np.intp]]:
    """For every person the variants that she carries and that are rarest in public references, so many."""
    order = np.argsort(frequencies, kind="stable")
    carried = np.asarray(genotypes)[:, order] > 0
    return [order[np.flatnonzero(row)[: count("number", number)]] for row in carried]


@dataclass(frozen=True)
class BeaconAnswers:
    """What the attacker knows of a beacon: for a variant of this frequency, how likely "yes" is with and without the person."""

    people: int
    yes_at: Floats  # by count of carriers, 0 to people

    @staticmethod
    def exact(people: int) -> BeaconAnswers:
        """A beacon that tells the truth."""
        truth = np.ones(people + 1)
        truth[0] = 0.0
        return BeaconAnswers(people, truth)

    @staticmethod
    def noisy(people: int, epsilon: float, absence: float = 0.5) -> BeaconAnswers:
        """A beacon of `tacit.applications.health.Beacon`, each answer for epsilon."""
        yes = says_yes(people, epsilon, prior_with_absence(people, absence))
        ratio = math.exp(-epsilon)
        steps = np.arange(people + 1)
        law = (1 - ratio) / (1 + ratio) * ratio ** np.abs(steps[None, :] - steps[:, None])
        law[:, 0], law[:, -1] = ratio**steps / (1 + ratio), ratio ** (people - steps) / (1 + ratio)
        return BeaconAnswers(people, law @ yes)

    def ratios(self, frequencies: Floats) -> tuple[Floats, Floats]:
        """The logarithms of likelihood ratios, member against not, of "yes" and of "no"."""
        from scipy.special import gammaln, xlog1py, xlogy

        carrying = np.clip(1 - (1 - np.asarray(frequencies, dtype=float)) ** 2, 1e-12, 1 - 1e-12)[:, None]

        def binomial(n: int) -> Floats:
            k = np.arange(n + 1)[None, :]
            chosen = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
            return np.asarray(np.exp(chosen + xlogy(k, carrying) + xlog1py(n - k, -carrying)))

        without = binomial(self.people) @ self.yes_at
        inside = binomial(self.people - 1) @ self.yes_at[1:]
        inside = (1 - MISREAD) * inside + MISREAD * without
        without, inside = (np.clip(p, 1e-12, 1 - 1e-12) for p in (without, inside))
        return np.log(inside / without), np.log((1 - inside) / (1 - without))


def beacon_attack(
    genotypes: NDArray[np.integer], frequencies: ArrayLike, ask: Callable[[int], bool], known: BeaconAnswers, *, number: int = 5
) -> Floats:
    """The score of every person: the log likelihood ratio of the beacon's answers about her rarest variants.

    `genotypes` are the targets', `frequencies` public, and `ask` asks the beacon about a variant by its column.
    """
    shares = np.asarray(frequencies, dtype=float)
    if np.asarray(genotypes).ndim != 2 or np.asarray(genotypes).shape[1] != len(shares):
        raise ParameterError("genotypes must have a column for every frequency")
    scores = []
    for chosen in rarest(genotypes, shares, number):
        yes, no = known.ratios(shares[chosen])
        scores.append(sum(float(yes[i] if ask(int(column)) else no[i]) for i, column in enumerate(chosen)))
    return np.array(scores)


def simulated_people(people: int, frequencies: ArrayLike, rng: np.random.Generator) -> NDArray[np.int8]:
    """Made-up genotypes [people, variants] in Hardy-Weinberg proportions."""
    shares: list[float] = np.asarray(frequencies, dtype=float).tolist()
    return np.asarray(rng.binomial(2, shares, size=(people, len(shares))), dtype=np.int8)
