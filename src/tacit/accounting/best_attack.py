"""The best membership attack at a false-positive rate: at most how many members it finds.

Every (epsilon, delta) allows a true-positive rate of at most e^eps rate + delta, and the trade-off curve is
the lower envelope of all these lines. `best_attack` brackets the minimum over a privacy profile,
`attack_at_most` stops its search early with a bound that is valid and nearly as good, and `attack_rate` takes
the lines that are at hand.

>>> from tacit.accounting import Gaussian, account
>>> cost = account(Gaussian(1))
>>> round(best_attack(cost.delta, 0.05, 30.0).upper, 6) == round(cost.tpr(0.05).upper, 6)
True
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.bound import Bound

Array = NDArray[np.float64]
_GOLDEN = (math.sqrt(5) - 1) / 2


def best_attack(delta: Callable[[float], Bound], rate: float, reach: float) -> Bound:
    """min over |eps| <= reach of e^eps rate + delta(eps): convex in e^eps, so a bracket of the minimiser bounds the minimum from below."""
    ends = -reach, min(reach, -math.log(rate))
    upper, low, high = _least(lambda x: math.exp(x) * rate + delta(x).upper, *ends)
    # beyond the reach the value is at least that at its end less the delta left there, 1e-9 of the rate
    if delta(high).width > 1e-9 * upper:
        _, low, high = _least(lambda x: math.exp(x) * rate + delta(x).lower, *ends)
    lower = math.exp(low) * rate + delta(high).lower - 1e-9 * rate
    upper = min(1.0, upper)
    return Bound(max(0.0, min(lower, upper)), upper, delta(high).method)


def attack_at_most(delta: Callable[[float], Bound], rate: float, evaluations: int = 13) -> float:
    """An upper bound on the true-positive rate, within a hundredth of the best, for a few looks at the profile.

    >>> from tacit.accounting import PureDP, account
    >>> round(attack_at_most(account(PureDP(1)).delta, 0.01), 4)
    0.0273
    """
    least, _, _ = _least(lambda x: math.exp(x) * rate + delta(x).upper, 0.0, -math.log(rate), evaluations)
    return min(1.0, least)


def _least(
    value: Callable[[float], float], low: float, high: float, evaluations: int | None = None
) -> tuple[float, float, float]:
    """Golden section: the best value found, and an interval that holds the minimiser of a convex curve."""
    a, b = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_a, at_b, done = value(a), value(b), 2
    while high - low > 1e-7 * (1 + abs(low)) if evaluations is None else done < evaluations:
        if at_a < at_b:
            high, b, at_b = b, a, at_a
            a = high - _GOLDEN * (high - low)
            at_a = value(a)
        else:
            low, a, at_a = a, b, at_b
            b = low + _GOLDEN * (high - low)
            at_b = value(b)
        done += 1
    return min(at_a, at_b), low, high


def attack_rate(fpr: Array, epsilons: Array, deltas: Array) -> Array:
    """The largest true-positive rate that (epsilon, delta) guarantees at these points allow, epsilon >= 0.

    Each allows at most e^eps fpr + delta and, as the relation is symmetric, 1 - e^-eps (1 - delta - fpr)
    (Kairouz, Oh, Viswanath 2015).

    >>> attack_rate(np.array([0.1, 0.9]), np.array([0.0, 1.0]), np.array([0.2, 0.0])).round(3)
    array([0.272, 0.963])
    """
    growth = np.exp(np.minimum(epsilons, 700.0))[:, None]
    small = growth * fpr[None, :] + deltas[:, None]
    large = 1 - (1 - deltas[:, None] - fpr[None, :]) / growth
    return np.asarray(np.minimum(np.minimum(small, large).min(axis=0), 1.0))
