"""The Gaussian view of an event: the smallest mu whose curve covers its privacy profile, and how much is lost by saying only mu.

>>> from tacit.accounting import Laplace, account
>>> found = account(Laplace(1)).gdp()
>>> found.mu.width < 0.01 * found.mu.upper, 0 < found.regret < 1
(True, True)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np

from tacit.accounting import gaussian
from tacit.accounting.bound import Bound
from tacit.accounting.pairs import Array

_PIECES = 24  # between two epsilons of which delta is known
_NARROW = 5e-3  # relative width of mu


@dataclass(frozen=True)
class GdpReport:
    """The smallest mu such that delta(eps) <= delta of mu-GDP + slack for every eps >= 0, and how far below it the curve lies.

    `regret` is the largest gap between the two trade-off curves: 0 means the event is Gaussian, near 1 that mu says little.
    """

    mu: Bound
    slack: float
    regret: float


def fitted(profile: Callable[[float], Bound], top: float, floor: float) -> GdpReport:
    """The report of the event whose delta at each epsilon is `profile`, with `floor` as slack; beyond `top` delta is below the slack."""
    points = [0.0, *np.linspace(0, top, 12)[1:]] if top > 0 else [0.0]
    found = {e: profile(float(e)) for e in points}

    @cache
    def reach(e: float, d: float) -> float:
        return _mu(e, max(0.0, d - floor))

    def excess(mu: float, a: float, b: float) -> float:
        """How far mu is from enough between two epsilons: delta is convex in e^eps, so on each piece at most its chord at the start."""
        middle = np.linspace(a, b, _PIECES + 1)
        chord = np.interp(np.exp(middle - b), np.exp([a - b, 0.0]), [found[a].upper, found[b].upper])
        return float(np.max((chord[:-1] * (1 + 1e-12) - floor) / np.maximum(gaussian.delta(mu, middle[1:]), 1e-300)))

    # try a mu a little above the least possible, and halve the gap in which it is furthest from enough
    for _ in range(40):
        epsilons = sorted(found)
        lower = max(reach(e, found[e].lower) for e in epsilons)
        upper = max(lower, reach(0.0, found[0.0].upper)) * (1 + _NARROW)
        lacking = [excess(upper, a, b) for a, b in pairwise(epsilons)]
        if max(lacking, default=0.0) <= 1:
            break
        i = int(np.argmax(lacking))
        middle = 0.5 * (epsilons[i] + epsilons[i + 1])
        found[middle] = profile(middle)
    else:  # between two points delta is at most the earlier one and epsilon at most the later one
        upper = max(upper, *(reach(b, found[a].upper) for a, b in pairwise(sorted(found))))
    curve = gaussian.tradeoff_gdp(lower, np.geomspace(1e-6, 1 - 1e-6, 200))
    own = _tradeoff_from_profile(
        np.array(sorted(found)), np.array([found[e].upper for e in sorted(found)]), np.geomspace(1e-6, 1 - 1e-6, 200)
    )
    return GdpReport(Bound(min(lower, upper), upper, "privacy profile"), floor, float(np.max(np.maximum(own - curve, 0.0))))


def _mu(epsilon: float, delta: float) -> float:
    """The mu whose Gaussian profile passes through (epsilon, delta)."""
    if delta <= 0:
        return 0.0
    return math.inf if delta >= 1 else gaussian.mu_for(epsilon, delta)


def _tradeoff_from_profile(epsilons: Array, deltas: Array, fpr: Array) -> Array:
    e = np.exp(epsilons)[:, None]
    rows = np.maximum(1 - deltas[:, None] - e * fpr[None, :], (1 - deltas[:, None] - fpr[None, :]) / e)
    return np.asarray(np.maximum(rows.max(axis=0), 0.0))
