"""From scores to a lower bound without wasting a sample: thresholds at fixed ranks.

Where the attack is a number for every trial, higher for members, nothing has to be learnt, and nobody needs to set samples aside to
choose a threshold. Take as thresholds the scores of given *ranks* among the outsiders: the chance that a fresh outsider exceeds the k-th
largest of n follows Beta(k, n - k + 1) exactly, whatever the law of the scores, and given the threshold the members above it are binomial
(Wilks 1941). A few ranks spread over the whole range share the error, and the same is done from the other end, with the members' smallest
scores.

>>> from tacit.audit.experiment import generator
>>> draw = generator(1)
>>> found = rank_attack(draw.normal(0, 1, 10_000), draw.normal(1, 1, 10_000), delta=1e-5)
>>> 1.9 < found.lower < 4.377  # the truth for mu = 1
True

Trials must be independent: one run of the game each, or canaries that do not touch each other. Ties make the bound smaller, never wrong.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, ndtri

from tacit.accounting import ParameterError
from tacit.audit.claim import Evidence
from tacit.audit.rates import OperatingPoint
from tacit.parameters import probability

Floats = NDArray[np.float64]
SPREAD = 3.0  # each rank is so many times the one before


def ranks(trials: int, spread: float = SPREAD) -> list[int]:
    """The ranks that are looked at, fixed by the number of trials alone.

    >>> ranks(1000)
    [1, 3, 9, 27, 81, 243]
    """
    found = [1]
    while found[-1] * spread <= trials / 2:
        found.append(max(found[-1] + 1, round(found[-1] * spread)))
    return found


def rank_attack(
    outside: ArrayLike,
    inside: ArrayLike,
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
    measure: str = "epsilon",
    attack: str = "scores at fixed ranks",
    game: str = "independent trials",
) -> Evidence:
    """A lower bound on epsilon at `delta`, or on mu, from the scores of outsiders and members.

    >>> rank_attack([0.0] * 50, [0.0] * 50).lower
    0.0
    """
    first, second = _scores("outside", outside), _scores("inside", inside)
    error = 1 - float(probability("confidence", confidence))
    small = float(probability("delta", delta))
    if measure not in ("epsilon", "mu"):
        raise ParameterError(f"measure must be 'epsilon' or 'mu', not {measure!r}")
    share = error / (2 * (len(ranks(len(first))) + len(ranks(len(second)))))
    high_scores = points(first, second, share)
    # From the other end: a member is missed where its score is low.
    low_scores = [(1 - hit, 1 - missed) for missed, hit in points(-second, -first, share)]

    def worth(point: tuple[float, float]) -> float:
        fpr, tpr = point
        if measure == "mu":
            return float(ndtri(tpr) - ndtri(fpr)) if fpr > 0 and tpr < 1 else -math.inf
        return max(_log(tpr - small, fpr), _log(1 - small - fpr, 1 - tpr))

    best = max([*high_scores, *low_scores], key=worth)
    lower = max(0.0, worth(best))
    trials = len(first) + len(second)
    return Evidence(attack, game, lower, small, 1 - error, trials, measure=measure, point=OperatingPoint(*best, 1 - error))


def points(outside: Floats, inside: Floats, error: float) -> list[tuple[float, float]]:
    """At every rank, a rate the false positives do not exceed and one the true positives reach, each wrong with chance at most `error`."""
    chosen = np.array(ranks(len(outside)))
    thresholds = np.sort(outside)[::-1][chosen - 1]
    hits = len(inside) - np.searchsorted(np.sort(inside), thresholds, side="right")
    fpr = betaincinv(chosen, len(outside) - chosen + 1, 1 - error)
    tpr = np.where(hits > 0, betaincinv(np.maximum(hits, 1), len(inside) - hits + 1, error), 0.0)
    return list(zip(fpr.tolist(), tpr.tolist(), strict=True))


def _scores(name: str, values: ArrayLike) -> Floats:
    scores = np.asarray(values, dtype=np.float64).ravel()
    if len(scores) < 1 or np.isnan(scores).any():
        raise ParameterError(f"{name} must be at least one score, none of them NaN; what cannot be scored is scored lowest")
    return scores


def _log(top: float, bottom: float) -> float:
    if top <= 0:
        return -math.inf
    return math.log(top / bottom) if bottom > 0 else math.inf
