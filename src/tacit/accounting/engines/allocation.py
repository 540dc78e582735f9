"""Random allocation (balls in bins): each record takes part in exactly one of t steps, chosen uniformly. Priced from both sides.

Guarantees: with P the t noisy sums when the record is there and Q when it is not, dP/dQ = S/t, where S = Y_1 + ... + Y_t and the
Y_i are independent likelihood ratios of one step under Q (Chua et al. 2024; Feldman and Shenfeld 2025). So, writing K = t e^eps,

    delta when the record is removed = E_Q[(S - K)_+] / t,        when it is added = e^eps E_Q[(t e^-eps - S)_+] / t,

which are stop-loss premiums of a sum of independent non-negative variables. Both are convex in each Y_i, hence grow when Y is
replaced by a law that is larger in the convex order: a mean-preserving spread onto a lattice gives an upper bound, a
mean-preserving contraction onto a lattice a lower bound, both with second-order error. The law of the sum comes from one Fourier
transform of the exponentially tilted lattice law, whose rounding, wrap-around and truncation are bounded and added to the bracket.

>>> bound = allocation_bracket(1.0, 100, delta=1e-5)
>>> 0.6085 < bound.lower <= bound.upper < 0.6356, bound.width < 1e-5
(True, True)

`epoch_laws` gives one epoch as two pairs on a lattice of losses, to compose with other epochs and other pairs:
at every alpha the first is dominated by the epoch and the second dominates it. A few windows, each with its own
tilt, give the epoch's curve at the lattice points; between them convexity bounds it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tacit.accounting.bound import Bound
from tacit.accounting.engines import compose, grid, lattice
from tacit.accounting.engines.stop_loss import (
    COARSE,
    POINTS,
    Plan,
    delta_once,
    epsilon_once,
    lean_for,
    plan_for,
    score_floor,
    tail_around,
)
from tacit.accounting.engines.subset import MOST, NARROW, subset_delta, subset_epsilon
from tacit.accounting.pairs import mixture
from tacit.accounting.pairs.finite import FinitePair
from tacit.accounting.pairs.likelihood_ratio import GaussianRatio, Ratio, as_ratio, convex_minorant
from tacit.accounting.pairs.pair import Array, Pair
from tacit.accounting.theorems import gaussian
from tacit.errors import ParameterError, UnsupportedError
from tacit.parameters import Number, count, number, probability

LONG = 14.0  # losses of one epoch that spread further take many windows
FAR = 100.0  # where log(t e^eps) would be beyond this only the simple bounds are given
_ALIKE = 0.07  # logarithms of two plans' numbers that differ by less are as good as equal
_EFFORT = 1 << 20  # lattice points of all windows of one side of a law together


@dataclass
class _Plans:
    """Plans of the windows of one side of a law, in turn. A plan is rough numbers only, so any will do.

    In units of K they change slowly where single steps decide. So the last one is used again as far as it and the
    one before it let expect little change: planning takes as long as a few short transforms.
    """

    ratio: Ratio
    steps: int
    sign: int
    last: Plan | None = None
    at: float = 1.0
    reach: float = 1.0
    again: bool = True  # whether plans are used again at all
    trust: float = 0.0  # how far from `at` the last plan holds, in log K

    def _known(self, at: float) -> Plan | None:
        if self.last is None or abs(math.log(at / self.at)) > self.trust:
            return None
        return self.last.scaled(at / self.at)

    def slope(self, at: float) -> float:
        """-d log E[(sign (S - K))_+] / d (sign K), about, in a window from `at` on."""
        known = self._known(at)
        if known is not None:
            return known.slope
        slope = lean_for(self.ratio, self.steps, at, self.sign, at).slope
        ahead = min(max(at + self.sign * 14 / slope, 0.5 * at), 2 * at)
        return 0.5 * (slope + lean_for(self.ratio, self.steps, ahead, self.sign, ahead).slope)

    def window(self, k: Array, first: int, last: int) -> tuple[float, float, Plan]:
        """Where a window from one node to another has its centre, how far it reaches, and its plan."""
        at = float(k[first + (7 * (last - first)) // 10])
        reach = float(max(k[first], k[last])) * (1 + 1e-9)
        return at, reach, self._plan(at, reach)

    def _plan(self, at: float, reach: float) -> Plan:
        known = self._known(at)
        if known is not None and abs(math.log(reach / at) - math.log(self.reach / self.at)) < _ALIKE:
            return known
        plan = plan_for(self.ratio, self.steps, at, self.sign, reach)
        if self.again and self.last is not None:
            guess, distance = self.last.scaled(at / self.at), abs(math.log(at / self.at))
            pairs = ((plan.slope, guess.slope), (plan.theta, guess.theta), (plan.top, guess.top))
            off = max(abs(math.log(new / old)) for new, old in pairs)
            self.trust = min(distance * _ALIKE / max(off, 1e-9), 1.0)
        self.last, self.at, self.reach = plan, at, reach
        return plan


def _side(ratio: Ratio, steps: int, step: float, length: int, sign: int, budget: float, most: int) -> tuple[Array, Array]:
    """Node values, at K/t = exp(sign step i), of a curve above and of one whose polygon lies below E[(sign (S - K))_+] / t.

    A few windows cover the range, each with its own tilt and lattice. In each the lower curve is convex, so its chord between
    two nodes exceeds it by at most a quarter of the change of slope times the distance: that much is taken off at the nodes.
    Windows far below the deltas that will be asked for need less accuracy.
    Where losses spread far, plans are used again; elsewhere windows are halved while their lattices are too
    coarse (0219).
    """
    k = steps * np.exp(sign * step * np.arange(length + 1))
    upper = np.ones(length + 1) if sign > 0 else k / steps
    lower = np.full(length + 1, math.inf)
    first = 0
    far = length * step > LONG
    # of many windows plans are used again, and what that saves goes into finer lattices
    affordable = min(most, int(_EFFORT / max(1.0, length * step / 0.7)))
    points = max((3 * COARSE if far else 2 * COARSE) // 8, affordable)
    plans = _Plans(ratio, steps, sign, again=far)
    while first < length:
        last = length
        if steps == 1:
            mass, value = np.array([ratio.tail(float(x)) if sign > 0 else ratio.head(float(x)) for x in k]).T
            low = high = value if sign > 0 else k * mass - value
            bend, slack = np.abs(np.diff(mass)) + 1e-12 * mass.max(), 1e-11 * (high + k * mass)
        else:
            slope = plans.slope(float(k[first]))
            inside = np.flatnonzero(np.abs(k[first:] - k[first]) <= 14 / slope)
            last = min(first + max(int(inside[-1]), 1), first + math.ceil(0.7 / step), length)
            ease = max(1.0, 1e6 * budget / max(float(upper[first]), 1e-300))
            accuracy = _accuracy(step, ease * (0.7 if far else 1.0))
            splits = most > COARSE and not far and upper[first] > 1e9 * budget
            centre, reach, plan = plans.window(k, first, last)
            crowded = plan.range() > 3 * points * plan.lattice(steps, accuracy(plan.slope * centre))
            # large jumps make a window's lattice long or coarse; a shorter window caps them lower
            while crowded and splits and last - first > 3:
                half = (first + last) // 2
                shorter = plans.window(k, first, half)
                if shorter[2].range() > 0.7 * plan.range():
                    break
                last, (centre, reach, plan) = half, shorter
                crowded = plan.range() > 3 * points * plan.lattice(steps, accuracy(plan.slope * centre))
            # far out nearly all of so many steps are far smaller than a lattice of the sum
            small = 0.002 if far and (ease > 1 or steps > 50_000) else 0.0
            tail = tail_around(ratio, steps, centre, sign, accuracy, reach, points, plan, small)
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


def _heavy(ratio: Ratio, steps: int) -> bool:
    """Whether single steps decide, so that losses spread far."""
    value, log_weight = ratio.sketch(math.inf)
    with np.errstate(over="ignore"):
        return bool(np.exp(log_weight) @ value**2 > 1 + steps)


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
            return lean_for(ratio, steps, at, sign, at).log_premium - math.log(at if sign < 0 else steps) <= math.log(budget)

        low, high = 0.0, step
        while not small(high):
            if high == FAR:
                raise UnsupportedError(f"the losses of one epoch exceed {FAR}")
            low, high = high, min(2 * high, FAR)
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


_EXACT = "closed form"
_METHOD = "random allocation, spread and contracted lattices"
_SUMS = "random allocation, laws of two sums"
_Others = Sequence[tuple[Pair, Pair, int]]


def _directed(others: _Others, direction: int) -> list[tuple[Pair, int]]:
    return [(add if direction else remove, n) for remove, add, n in others]


def _gaussian(mu: float, delta: float | None, epsilon: float | None) -> Bound:
    if delta is not None:
        value = gaussian.epsilon(mu, delta)
        return Bound(max(0.0, value * (1 - 1e-11) - 1e-15), value * (1 + 1e-11) + 1e-15 if value else 0.0, _EXACT)
    assert epsilon is not None
    value = gaussian.delta(mu, epsilon)
    return Bound(value * (1 - 1e-11), min(1.0, value * (1 + 1e-11) + 5e-324), _EXACT)


def _once(ratio: Ratio, steps: int, most: float, delta: float | None, epsilon: float | None, tolerance: float) -> Bound:
    """One epoch by itself; the add direction is worked out only where it could be the worse one."""
    if delta is not None:
        lower, upper = epsilon_once(ratio, steps, delta, 1, most, tolerance)
        if delta_once(ratio, steps, lower, -1, 1e-3, COARSE)[1] > delta:
            least, enough = epsilon_once(ratio, steps, delta, -1, most, tolerance)
            lower, upper = max(lower, least), max(upper, enough)
        return Bound(lower, upper, _METHOD)
    assert epsilon is not None
    lower, upper = delta_once(ratio, steps, epsilon, 1, 0.1 * tolerance)
    if delta_once(ratio, steps, epsilon, -1, 1e-3, COARSE)[1] > lower:
        least, most = delta_once(ratio, steps, epsilon, -1, 0.1 * tolerance)
        lower, upper = max(lower, least), max(upper, most)
    return Bound(lower, upper, _METHOD)


def _composed(
    ratio: Ratio,
    blocks: Sequence[tuple[int, int]],
    others: _Others,
    delta: float | None,
    epsilon: float | None,
    level: float,
    tolerance: float,
    directions: Sequence[int] = (0, 1),
) -> Bound:
    """The bracket of (steps, count) one-of-steps epochs and other pairs, on a lattice refined until it is narrow enough.

    Of direction 0 the record is removed, of direction 1 added; the larger of those given is bounded.
    """
    total = sum(n for _, n in blocks)
    value, log_weight = ratio.sketch(1e3)
    weight = np.exp(log_weight)
    deviation = math.sqrt(float(weight @ (value - 1) ** 2) / min(t for t, _ in blocks))
    step = min(deviation, 1.0) / 48
    if _heavy(ratio, min(t for t, _ in blocks)):  # nodes cost less than windows; many epochs need no small steps
        step = min(max(step, 1e-3) if total >= 10_000 else step, 1 / 56)

    def ask(up: bool, direction: int) -> Bound:
        known = [(epoch_laws(ratio, steps, step, budget, most)[up], n) for steps, n in blocks]
        pairs = [(pair.reverse() if direction else pair, n) for pair, n in known]
        if others:
            aim = 10 * tolerance if epsilon is None else 100 * tolerance
            return grid.bracket([*pairs, *_directed(others, direction)], delta=delta, epsilon=epsilon, tolerance=aim)
        composition = lattice.compose([(found, n) for pair, n in pairs if (found := pair.lattice()) is not None])
        return composition.epsilon(delta) if delta is not None else composition.delta(epsilon or 0.0)

    width, most = math.inf, COARSE  # to look around with
    for _ in range(4):
        budget = 1e-8 * level / total
        upper = max(ask(True, direction).upper for direction in directions)
        lower = min(upper, max(ask(False, direction).lower for direction in directions))
        missed = delta is None and 1e-30 < upper < 1e-4 * level  # the lattice was cut far above the delta found, which matters
        level = level if delta is not None else max(lower, 1e-3 * upper, 1e-300)
        if upper == math.inf and most < POINTS // 4:  # windows so coarse that their errors exceed delta
            most = POINTS // 4
            continue
        narrow = 20 * tolerance * max(1.0, upper) if delta is not None else 200 * tolerance * upper
        longest = max(len(epoch_laws(ratio, steps, step, budget, most)[True].losses) for steps, _ in blocks)
        finer = step * max(math.sqrt(0.6 * narrow / max(upper - lower, 1e-300)), 0.02, longest / 30_000)
        done = upper - lower <= narrow or upper - lower > 0.5 * width or not finer < 0.8 * step
        # many windows make a law dear, and the windows' own accuracy its limit
        if delta is None and upper < compose.NEGLIGIBLE:
            break
        if not missed and (done or (longest * step > LONG and upper - lower <= 0.02 * upper)):
            break
        step, width, most = (step, math.inf, most) if missed else (finer, upper - lower, POINTS // 4)
    return Bound(lower, upper, _METHOD)


def allocation_bracket(
    sigma: Number | Ratio, steps: int, selected: int = 1, epochs: int = 1, others: _Others = (), *,
    delta: float | None = None, epsilon: float | None = None, tolerance: float = 1e-6,
) -> Bound:
    """The bracket on epsilon at `delta`, or delta at `epsilon`, where a record enters `selected` of `steps` sums in each of `epochs`.

    `sigma` is the noise multiplier of one sum; `others` are further (remove pair, add pair, count) composed with the epochs. The larger
    of the two directions is bounded. One epoch is solved directly; several, or others, on a lattice of losses.

    More than one step out of t, from above: a random partition of the steps into k blocks of sizes floor(t/k) and ceil(t/k), and one
    uniform step from each block, together are a uniform k-subset, by symmetry. Given the partition the blocks are independent
    epochs of one step each, and Q does not depend on it; the hockey stick is convex in P, so the k-fold composition dominates (Feldman
    and Shenfeld 2025). From below: any function of the outputs, here a sum of scores that is close to the loss. For one epoch by itself the
    removed record, nearly always the dearer one, has both ends from laws of two sums (`tacit.accounting.engines.subset`).

    Guarantee: add/remove or zero-out, Gaussian sums of l2 sensitivity 1, records allocated independently and uniformly, all outputs seen.

    >>> found = allocation_bracket(1.0, 100, epochs=10, delta=1e-5)
    >>> round(found.lower, 3), round(found.upper, 3)
    (1.701, 1.702)
    """
    ratio = as_ratio(sigma)
    steps, selected, epochs = count("steps", steps), count("selected", selected), count("epochs", epochs)
    if selected > steps:
        raise ParameterError(f"selected must be at most steps ({steps}), not {selected}")
    if (delta is None) == (epsilon is None):
        raise ParameterError("give exactly one of delta and epsilon")
    others = [other for other in others if other[2]]
    if delta is not None:
        delta = float(probability("delta", delta))
        if delta in (0.0, 1.0):
            bounded = not isinstance(ratio, GaussianRatio)
            return Bound(0.0, 0.0, _EXACT) if delta else Bound(0.0 if bounded else math.inf, math.inf, "Gaussian noise has no largest loss")
    if epsilon is not None:
        epsilon = float(number("epsilon", epsilon))
        if epsilon < 0:
            # HS_a(P||Q) = 1 - a + a HS_1/a(Q||P), whatever P and Q are
            found = allocation_bracket(ratio, steps, selected, epochs, others, epsilon=-epsilon, tolerance=tolerance)
            base, scale = -math.expm1(epsilon), math.exp(epsilon)
            return Bound(max(0.0, base + scale * found.lower - 4e-16), min(1.0, base + scale * found.upper + 4e-16), found.method)
        if epsilon == math.inf:
            if any(pair.infinite >= 1 for other in others for pair in other[:2]):
                return Bound(1.0, 1.0, _EXACT)
            own = 0.0 if isinstance(ratio, GaussianRatio) else selected * epochs * math.log1p(-ratio.tail(1e300)[1])
            leak = max(-math.expm1(own + sum(n * math.log1p(-pair.infinite) for pair, n in _directed(others, i))) for i in (0, 1))
            return Bound(leak, leak, _EXACT)
    plain, floor = _simple(ratio, steps, selected, epochs, others, delta, epsilon)
    if selected == steps and isinstance(ratio, GaussianRatio):
        return plain
    if epsilon is not None and plain.upper < compose.NEGLIGIBLE:  # even were the steps known
        return Bound(min(floor, plain.upper), plain.upper, plain.method)
    if selected == epochs == 1 and not others:
        most = plain.upper if delta is not None else math.inf
        if (most if epsilon is None else epsilon) + math.log(steps) > FAR:
            return Bound(floor, plain.upper, plain.method)
        found = _once(ratio, steps, most, delta, epsilon, tolerance)
    else:
        size, longer = divmod(steps, selected)
        longer = longer if size < 50 else 0  # a shorter block dominates a longer one, and here by little
        blocks = [(t, n * epochs) for t, n in ((size, selected - longer), (size + 1, longer)) if n]
        try:
            coarser = 1 if selected == 1 else 20  # the two ends are further apart than any lattice makes them
            level = delta or max(floor, min(1e-12, _about(ratio, steps, selected, epochs, epsilon or 0.0)))

            def composed(directions: Sequence[int] = (0, 1)) -> Bound:
                return _composed(ratio, blocks, others, delta, epsilon, level, coarser * tolerance, directions)

            if isinstance(ratio, GaussianRatio) and 1 < selected <= MOST and epochs == 1 and not others:
                found = _chosen(ratio, steps, selected, plain.upper, floor, delta, epsilon, composed)
            else:
                found = composed()
                if selected > 1:
                    found = Bound(score_floor(ratio, steps, selected, epochs, found.upper, delta, epsilon), found.upper, found.method)
        except (UnsupportedError, OverflowError):
            return Bound(floor, plain.upper, plain.method)
    upper, method = (found.upper, found.method) if found.upper <= plain.upper else (plain.upper, plain.method)
    return Bound(min(max(found.lower, floor), upper), upper, method)


def _chosen(
    ratio: GaussianRatio,
    steps: int,
    selected: int,
    most: float,
    floor: float,
    delta: float | None,
    epsilon: float | None,
    composed: Callable[[Sequence[int]], Bound],
) -> Bound:
    """Several steps of one epoch: blocks bound the record that is added, and laws of two sums the one that is removed.

    Where blocks are close, with much noise or in many steps, they are asked about both, and laws of sums only if they do not do; where laws
    of sums are wide, both are asked.
    """
    low = max(floor, score_floor(ratio, steps, selected, 1, most, delta, epsilon))
    close = selected * math.expm1(min(1 / ratio.sigma**2, 100.0)) < 2e-3 * steps
    removed = Bound(0.0, most, _METHOD)
    if close:
        removed = composed((0,))
    added = composed((1,)).upper
    narrow = (1 if epsilon is None else 10) * NARROW
    if max(added, removed.upper) - low > narrow * removed.upper:
        try:
            if delta is not None:
                low, high = subset_epsilon(ratio, steps, selected, delta, low, removed.upper)
            else:
                low, high = subset_delta(ratio, steps, selected, epsilon or 0.0, low, removed.upper)
        except (UnsupportedError, OverflowError):
            high = removed.upper
        if not close and high - low > 2 * narrow * high:
            high = min(high, composed((0,)).upper)
        removed = Bound(low, max(low, high), _SUMS)
    upper = max(added, removed.upper)
    return Bound(min(low, upper), upper, removed.method)


def _about(ratio: Ratio, steps: int, selected: int, epochs: int, epsilon: float) -> float:
    """A delta that the true one is probably not far below: what Rényi divergences say of Poisson sampling at the same rate."""
    if not isinstance(ratio, GaussianRatio):
        return 1.0
    cap = compose.delta_cap([(mixture.poisson_gaussian(selected / steps, ratio.sigma), steps * epochs)], epsilon)
    return max(1e-3 * cap, 1e-30)


def _simple(
    ratio: Ratio, steps: int, selected: int, epochs: int, others: _Others, delta: float | None, epsilon: float | None
) -> tuple[Bound, float]:
    """Figures without any lattice: the bracket were the chosen steps known, which is an upper bound, and a lower bound.

    The latter is the larger of two: the sum of all outputs is Gaussian, and the likelihood ratio of all subsets is at least the
    largest, so (sum_A r_A - a)_+ >= sum_A (r_A - a)_+ gives delta(eps) >= delta of the known steps at eps + log of the number of subsets.
    """
    if not isinstance(ratio, GaussianRatio):
        alone_too = delta is not None and selected == epochs == 1 and not others
        return Bound(0.0, 1.0 if delta is None else _enough(ratio, delta) if alone_too else math.inf, _METHOD), 0.0
    alone = math.sqrt(selected * epochs) / ratio.sigma
    # C(t, k) <= (e t / k)^k, exact for one step
    ways = epochs * (math.log(steps) if selected == 1 else selected * (1 + math.log(steps / selected))) * (1 + 1e-12) + 1e-12
    if delta is not None:
        floor = max(0.0, _gaussian(alone, delta, None).lower - ways)
    else:
        floor = _gaussian(alone, None, (epsilon or 0.0) + ways).lower
    results = []
    for mu in (alone, selected * math.sqrt(epochs / steps) / ratio.sigma):
        if not others:
            results.append(_gaussian(mu, delta, epsilon))
            continue
        sides = []
        for direction in (0, 1):
            parts = [(mixture.gaussian(1 / mu), 1), *_directed(others, direction)]
            sides.append(compose.epsilon(parts, delta) if delta is not None else compose.delta(parts, epsilon or 0.0))
        results.append(sides[0].worst(sides[1]))
    return results[0], max(floor, results[1].lower)


def _enough(ratio: Ratio, delta: float) -> float:
    """An epsilon that is enough for one step alone, and so for one of many, in both directions."""
    epsilon = 1.0
    while max(ratio.tail(math.exp(epsilon))[1], ratio.head(math.exp(-epsilon))[0]) > delta:
        epsilon *= 2
        if epsilon > FAR:
            return math.inf
    return epsilon
