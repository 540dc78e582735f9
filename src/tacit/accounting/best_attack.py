"""The best attack at a false-positive rate, from a privacy profile: the trade-off curve is the lower envelope of its tangents.

>>> from tacit.accounting import Gaussian, account
>>> cost = account(Gaussian(1))
>>> round(best_attack(cost.delta, 0.05, 30.0).upper, 6) == round(cost.tpr(0.05).upper, 6)
True
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tacit.accounting.bound import Bound


def best_attack(delta: Callable[[float], Bound], rate: float, reach: float) -> Bound:
    """min over |eps| <= reach of e^eps rate + delta(eps): convex in e^eps, so a bracket of the minimiser bounds the minimum from below."""

    def value(x: float) -> tuple[float, float]:
        d = delta(x)
        return math.exp(x) * rate + d.lower, math.exp(x) * rate + d.upper

    def search(end: int) -> tuple[float, float, float]:
        """Golden section on one end of the bracket: the best value, and an interval that holds the minimiser of a convex curve."""
        golden = (math.sqrt(5) - 1) / 2
        low, high = -reach, min(reach, -math.log(rate))
        a, b = high - golden * (high - low), low + golden * (high - low)
        fa, fb = value(a)[end], value(b)[end]
        while high - low > 1e-7 * (1 + abs(low)):
            if fa < fb:
                high, b, fb = b, a, fa
                a = high - golden * (high - low)
                fa = value(a)[end]
            else:
                low, a, fa = a, b, fb
                b = low + golden * (high - low)
                fb = value(b)[end]
        return min(fa, fb), low, high

    upper, low, high = search(1)
    # beyond the reach the value is at least that at its end less the delta left there, 1e-9 of the rate
    if delta(high).width > 1e-9 * upper:
        _, low, high = search(0)
    lower = math.exp(low) * rate + delta(high).lower - 1e-9 * rate
    upper = min(1.0, upper)
    return Bound(max(0.0, min(lower, upper)), upper, delta(high).method)
