"""What an attack's counts make likely about epsilon: Bayesian intervals, narrower than exact ones and no guarantee.

An exact interval bounds each error rate for the worst case. Where a prior on the two rates is accepted, the counts give them
independent Beta laws, and the posterior probability that both rates are possible under (epsilon, delta) is one integral
(Zanella-Béguelin et al. 2023). Use it beside `operating_point`, to see how much of a gap is left to chance. It is an opinion with a stated
prior: it refutes no claim, and no report prints it as a bound.

>>> seen = credible(false_positives=10, negatives=1000, true_positives=100, positives=1000, confidence=0.95)
>>> print(seen)
epsilon 1.7 to 2.99 with probability 0.95 (Jeffreys' prior on both rates; a credible interval, no guarantee)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaincinv

from tacit.accounting import ParameterError
from tacit.parameters import nonnegative, positive, probability

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)
_FAR = 60.0  # an epsilon beyond which no count of trials says anything


@dataclass(frozen=True)
class Credible:
    """An interval that holds epsilon with posterior probability `confidence`, under `prior`."""

    lower: float
    upper: float
    confidence: float
    prior: float

    def __str__(self) -> str:
        name = "Jeffreys' prior" if self.prior == 0.5 else "uniform prior" if self.prior == 1 else f"Beta({self.prior:g}, {self.prior:g})"
        ends = f"epsilon {self.lower:.3g} to {self.upper:.3g}"
        return f"{ends} with probability {self.confidence:g} ({name} on both rates; a credible interval, no guarantee)"


def private_probability(
    epsilon: float, delta: float = 0.0, *, false_positives: int, negatives: int, true_positives: int, positives: int, prior: float = 0.5
) -> float:
    """The posterior probability that both error rates are possible under (epsilon, delta)-DP.

    >>> round(private_probability(0.0, false_positives=5, negatives=10, true_positives=5, positives=10), 12)
    0.0
    """
    for hits, trials in ((false_positives, negatives), (true_positives, positives)):
        if not 0 <= hits <= trials or trials < 1:
            raise ParameterError(f"hits must be between 0 and trials, and trials at least 1, not {hits} of {trials}: run the attack first")
    level, share = float(nonnegative("epsilon", epsilon)), float(probability("delta", delta))
    weight = float(positive("prior", prior))
    # the false positive rate at equal steps of its own law, each with the interval that the false negative rate may lie in
    rate = _places(false_positives + weight, negatives - false_positives + weight)
    misses = positives - true_positives
    a, b = misses + weight, true_positives + weight
    low, high = _least(rate, level, share), 1 - _least(1 - rate, level, share)
    inside = betainc(a, b, np.maximum(high, low)) - betainc(a, b, low)
    return float(np.dot(0.5 * _WEIGHTS, np.maximum(inside, 0.0)))


@lru_cache(maxsize=64)
def _places(a: float, b: float) -> NDArray[np.float64]:
    """Rates at the nodes of a quadrature over their own law, which is the same at every epsilon."""
    return np.asarray(betaincinv(a, b, 0.5 * (_NODES + 1)), dtype=np.float64)


def _least(rate: NDArray[np.float64], epsilon: float, delta: float) -> NDArray[np.float64]:
    """The smallest false negative rate at each false positive rate."""
    return np.maximum(0.0, np.maximum(1 - delta - math.exp(epsilon) * rate, math.exp(-epsilon) * (1 - delta - rate)))


def credible(
    *, false_positives: int, negatives: int, true_positives: int, positives: int, confidence: float = 0.95, delta: float = 0.0,
    prior: float = 0.5,
) -> Credible:
    """The central interval of epsilon at `delta`: equal posterior probability below and above it.

    `prior` is the parameter of the symmetric Beta law of both rates before the counts: 1/2 for Jeffreys', 1 for the uniform one.
    """
    level = float(probability("confidence", confidence))
    if not 0 < level < 1:
        raise ParameterError(f"confidence must lie between 0 and 1, not {confidence}")

    def below(epsilon: float) -> float:
        return private_probability(
            epsilon, delta, false_positives=false_positives, negatives=negatives, true_positives=true_positives, positives=positives,
            prior=prior,
        )

    ends = []
    for share in ((1 - level) / 2, (1 + level) / 2):
        low, high = 0.0, _FAR
        if below(low) >= share:
            high = 0.0
        for _ in range(36):  # to 1e-9
            middle = 0.5 * (low + high)
            low, high = (low, middle) if below(middle) >= share else (middle, high)
        ends.append(high)
    return Credible(ends[0], ends[1], level, float(prior))
