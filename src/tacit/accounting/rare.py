"""Rare samples of little noise, where one large loss decides and no exponential tilt reaches it.

Call a loss above a threshold a a jump. With N jumps among T steps, and S the sum of the other losses,

    delta(eps) <= P(S > s) + T E[(1 - e^(eps-s-L))_+; L > a] + P(N >= 2)       and
    delta(eps) >= P(N = 1, S >= s) E[(1 - e^(eps-s-L))_+ | L > a],

for every s and a; both tails of S come from Chernoff's bound on truncated losses, which allows large tilts. The bracket is as narrow as
the small losses' sum is concentrated.

>>> from tacit.accounting.mixture import poisson_gaussian
>>> found = bracket(poisson_gaussian(1e-6, 1.0), 30, 1e-30)
>>> 0.047 < found.lower < found.upper < 0.057
True
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tacit.accounting.bound import Bound
from tacit.accounting.pairs import Array, Pair, single_delta
from tacit.accounting.tails import binned

METHOD = "privacy-loss distribution (one large loss)"


def bracket(pair: Pair, count: int, delta: float) -> Bound:
    """Epsilon at delta for `count` uses of one pair; infinitely wide where more than one jump matters."""
    guess = _solve(lambda e: count * single_delta(pair, e)[1], delta)
    if guess == 0:
        return Bound(0.0, 0.0, METHOD)
    low, high = 0.0, math.inf
    place, mass = binned(pair, guess)
    for a in guess * np.array([0.9, 0.75, 0.6, 0.45, 0.3, 0.2, 0.1, 0.05, 0.02]):
        small = place < a
        if not float(mass[small].sum()) > 0:
            continue
        jump = float(mass[~small].sum() + max(0.0, 1 - mass.sum()))
        pairs_of_jumps = 0.5 * (count * jump) ** 2

        def log_mgf(c: float, small: Array = small) -> float:
            return count * math.log(float(np.dot(mass[small], np.exp(np.minimum(c * place[small], 700.0)))))

        tilts = np.geomspace(0.5, 400, 40) / a
        spare = 1e-3 * delta
        rise = min((log_mgf(float(c)) - math.log(spare)) / float(c) for c in tilts)
        left = (delta - spare - pairs_of_jumps) / count
        if left > 0:
            found = rise + _solve(lambda e: single_delta(pair, e)[1], left)
            if found - rise >= a:
                high = min(high, found)
        fall = max(-(log_mgf(-float(c)) - math.log(1e-3)) / float(c) for c in tilts)
        chance = count * math.exp((count - 1) * math.log1p(-min(jump, 0.5))) * (1 - 1e-3 / max(1e-3, 1 - count * jump))
        if chance > 0 and delta / chance < 1:
            floor = _solve(lambda e: single_delta(pair, e)[0], delta / chance, lower=True)
            if floor >= a:
                low = max(low, fall + floor)
    return Bound(min(low, high), high, METHOD)


def _solve(profile: Callable[[float], float], target: float, *, lower: bool = False) -> float:
    """The epsilon >= 0 at which a decreasing profile meets the target, from above or from below."""
    if profile(0.0) <= target:
        return 0.0
    low, high = 0.0, 1.0
    while profile(high) > target and high < 1e8:
        low, high = high, 2 * high
    for _ in range(100):
        middle = 0.5 * (low + high)
        if not low < middle < high or high - low < 1e-13 * high:
            break
        low, high = (middle, high) if profile(middle) > target else (low, middle)
    return low if lower else high
