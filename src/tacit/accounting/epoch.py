"""One epoch of random allocation as a pair on a lattice of losses, to compose with other epochs and other pairs.

Guarantees: of the two pairs of `epoch_laws` the first is dominated by the epoch and the second dominates it, at every alpha. A few windows,
each with its own tilt, give the epoch's curve at the lattice points; between them convexity bounds it.

>>> from tacit.accounting.likelihood_ratio import GaussianRatio
>>> lower, upper = epoch_laws(GaussianRatio(1.0), 100, 0.01, 1e-12)
>>> bool(lower.p.sum() <= 1 and upper.infinite > 0)
True
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from tacit.accounting.errors import ParameterError, UnsupportedError
from tacit.accounting.finite import FinitePair
from tacit.accounting.likelihood_ratio import Ratio, as_ratio, convex_minorant
from tacit.accounting.pairs import Array
from tacit.accounting.parameters import Number, count
from tacit.accounting.stop_loss import COARSE, POINTS, plan_for, tail_around

FAR = 100.0  # where log(t e^eps) would be beyond this only the simple bounds are given
_EFFORT = 1 << 20  # lattice points of all windows of one side of a law together


def _side(ratio: Ratio, steps: int, step: float, length: int, sign: int, budget: float, most: int) -> tuple[Array, Array]:
    """Node values, at K/t = exp(sign step i), of a curve above and of one whose polygon lies below E[(sign (S - K))_+] / t.

    A few windows cover the range, each with its own tilt and lattice. In each the lower curve is convex, so its chord between
    two nodes exceeds it by at most a quarter of the change of slope times the distance: that much is taken off at the nodes.
    Windows far below the deltas that will be asked for need less accuracy.
    """
    k = steps * np.exp(sign * step * np.arange(length + 1))
    upper = np.ones(length + 1) if sign > 0 else k / steps
    lower = np.full(length + 1, math.inf)
    first = 0
    points = max(COARSE // 4, min(most, int(_EFFORT / max(1.0, length * step / 0.7))))
    while first < length:
        last = length
        if steps == 1:
            mass, value = np.array([ratio.tail(float(x)) if sign > 0 else ratio.head(float(x)) for x in k]).T
            low = high = value if sign > 0 else k * mass - value
            bend, slack = np.abs(np.diff(mass)) + 1e-12 * mass.max(), 1e-11 * (high + k * mass)
        else:
            slope = plan_for(ratio, steps, k[first], sign, k[first]).slope
            ahead = min(max(k[first] + sign * 14 / slope, 0.5 * k[first]), 2 * k[first])
            slope = 0.5 * (slope + plan_for(ratio, steps, ahead, sign, ahead).slope)
            inside = np.flatnonzero(np.abs(k[first:] - k[first]) <= 14 / slope)
            last = min(first + max(int(inside[-1]), 1), first + math.ceil(0.7 / step), length)
            ease = max(1.0, 1e6 * budget / max(float(upper[first]), 1e-300))
            centre, reach = float(k[first + (7 * (last - first)) // 10]), float(max(k[first], k[last])) * (1 + 1e-9)
            tail = tail_around(ratio, steps, centre, sign, _accuracy(step, ease), reach, points)
            low, high = tail.bounds(k[first : last + 1])
            bend, slack = tail.masses(k[first : last + 1]), 1e-11 * high
        part = slice(first, last + 1)
        with np.errstate(over="ignore"):
            gap = 0.25 * bend * np.abs(np.diff(k[part])) / steps
        upper[part] = np.minimum(upper[part], high + slack)
        lower[part] = np.minimum(lower[part], low - slack - np.maximum(np.append(gap, 0.0), np.insert(gap, 0, 0.0)))
        first = last
    return np.minimum.accumulate(upper), lower


def _accuracy(step: float, ease: float) -> Callable[[float], float]:
    """The relative error that is no worse than what rounding losses to the lattice adds."""
    return lambda slope: min(0.03, (step * slope) ** 2 / 8 * ease)


def _floor(lower: Array) -> Array:
    """Zero from the node before the first negative one on: the polygon may only be lowered."""
    result = lower.copy()
    result[max(int(np.argmax(np.append(~(lower >= 0), True))) - 1, 0) :] = 0.0
    return result


@lru_cache(maxsize=32)
def epoch_laws(ratio: Ratio, steps: int, step: float, budget: float, most: int = POINTS // 4) -> tuple[FinitePair, FinitePair]:
    """One epoch, record removed, with losses on multiples of step: a pair that is dominated by the true one, and one that dominates it.

    `most` is the longest lattice of one window of the sum.
    """
    counts = []
    for sign in (-1, 1):

        def small(loss: float, sign: int = sign) -> bool:
            at = steps * math.exp(sign * loss)
            if steps == 1:
                return (ratio.tail(at)[1] if sign > 0 else ratio.head(at)[0]) <= budget
            return plan_for(ratio, steps, at, sign, at).log_premium - math.log(at if sign < 0 else steps) <= math.log(budget)

        low, high = 0.0, step
        while not small(high):
            low, high = high, 2 * high
            if high > FAR:
                raise UnsupportedError(f"the losses of one epoch exceed {FAR}")
        while high - low > max(step, 0.02 * high):
            middle = (low + high) / 2
            low, high = (low, middle) if small(middle) else (middle, high)
        counts.append(max(math.ceil(high / step), 2))
    if sum(counts) > 1 << 19:
        raise UnsupportedError(f"the losses of one epoch spread over {sum(counts)} steps of {step}; ask for a larger tolerance")
    left_upper, left_lower = _side(ratio, steps, step, counts[0], -1, budget, most)
    right_upper, right_lower = _side(ratio, steps, step, counts[1], 1, budget, most)
    index = np.arange(-counts[0], counts[1] + 1)
    alpha = np.exp(step * index)
    pairs = []
    for left, right, dominates in ((_floor(left_lower), _floor(right_lower), False), (left_upper, right_upper, True)):
        left[0] = right[0] = min(left[0], right[0])
        if dominates:
            left, right = np.minimum.accumulate(left), np.minimum.accumulate(right)
        # The curve's slopes below and above alpha = 1, the former less -1, so that both tails keep their relative accuracy.
        below = np.diff(left[::-1]) / np.diff(alpha[: counts[0] + 1])
        above = np.diff(right) / np.diff(alpha[counts[0] :])
        start = left[-1] / alpha[0]
        q = np.concatenate([[start], np.diff(below, prepend=start), [1 + above[0] - below[-1]], np.diff(above, append=0.0)])
        q = convex_minorant(q, np.insert(alpha, 0, 0.0))
        with np.errstate(divide="ignore"):
            log_p = np.minimum(np.log(q[1:]) + step * index, 0.0)
        kept = np.flatnonzero(q[1:] > 0)
        part = slice(int(kept[0]), int(kept[-1]) + 1)
        infinite, reverse_infinite = (float(right[-1]), float(q[0])) if dominates else (0.0, 0.0)
        losses, start_at = np.asarray(step * index[part], dtype=float), int(index[part][0])
        pairs.append(FinitePair(losses, log_p[part], infinite=infinite, reverse_infinite=reverse_infinite, step=step, start=start_at))
    return pairs[0], pairs[1]


class AllocationPair(FinitePair):
    """One epoch of one-of-`steps` allocation as a pair with its losses log(S/t) on multiples of `step`, to compose with other pairs.

    rounding "up" dominates the epoch and "down" is dominated by it, so upper bounds must come from the first and lower ones from the
    second. P-mass beyond the lattice, about `budget`, counts as infinite loss.

    >>> pair = AllocationPair(1.0, 100, "remove", "up")
    >>> from tacit.accounting import lattice
    >>> lattice.compose([(pair.lattice(), 1)]).epsilon(1e-5).upper - 0.62094 < 1e-5
    True
    """

    def __init__(
        self,
        sigma: Number | Ratio,
        steps: int,
        direction: str = "remove",
        rounding: str = "up",
        *,
        step: float = 1e-3,
        budget: float = 1e-15,
    ) -> None:
        if direction not in ("remove", "add"):
            raise ParameterError(f"direction must be 'remove' or 'add', not {direction!r}")
        if rounding not in ("up", "down"):
            raise ParameterError(f"rounding must be 'up' or 'down', not {rounding!r}")
        pair = epoch_laws(as_ratio(sigma), count("steps", steps), step, budget)[rounding == "up"]
        pair = pair if direction == "remove" else pair.reverse()
        super().__init__(
            pair.losses, pair.log_p, infinite=pair.infinite, reverse_infinite=pair.reverse_infinite, step=step, start=pair.start
        )
