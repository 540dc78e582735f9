"""Where to integrate for a proof: the vertical line, its frequencies and the quadrature rules, chosen in floating point.

Nothing here needs to be true. A `Design` or a `Rule` is a proposal, and `tacit.accounting.ball_arithmetic` bounds the error of whatever
it is given: a bad choice makes a wide enclosure or a refusal, never a false one. The notation is that module's.

>>> from tacit.accounting.exact_mixture import exact_poisson_gaussian
>>> rule = coarsest_rule(exact_poisson_gaussian(Fraction(1, 100), 1), c=3.0, digits=30.0)
>>> 0 < rule.height < rule.top and rule.low + (rule.size - 1) * rule.step == rule.high
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tacit.accounting.exact_mixture import ExactMixture, Mixtures, Parts
from tacit.accounting.mixture import MixturePair
from tacit.accounting.pairs import Array
from tacit.accounting.saddle import Declined, Plan, plan

# log of delta over each error, and the frequencies times nodes allowed for it: 19 digits where they are cheap, 13 at most elsewhere
_PRECISIONS = ((44.0, 5_000_000), (36.0, 8_000_000), (30.0, 12_000_000))


@dataclass(frozen=True)
class Rule:
    """A trapezoidal rule from low to high along Im u = height, and the top of the strip in which it is bounded."""

    low: Fraction
    high: Fraction
    step: Fraction
    size: int
    height: Fraction
    top: Fraction


@dataclass(frozen=True)
class Design:
    """A vertical line in the plane of tilts, and all the choices that its proof leaves open."""

    c: float
    step: float
    size: int  # frequencies 0, h, ..., (size - 1) h
    right: float  # the tilts c' and s that bound the aliases
    left: float
    tails: tuple[tuple[float, float], ...]  # for each mixture, the height of the line that bounds its tail, and the digits it needs
    digits: float  # minus the log of the quadrature error of phi, over phi(c)
    bits: int


def _growth(mixture: ExactMixture, c: float, y: Array) -> Array:
    """log F(y)."""
    a, b = mixture.ranges()
    return 0.5 * y * y - max(-c - 1, 0.0) * np.log(np.cos(0.5 * float(a) * y)) - max(c, 0.0) * np.log(np.cos(0.5 * float(b) * y))


def log_fraction(value: Fraction) -> float:
    return math.log(value.numerator) - math.log(value.denominator)


def _widest(mixture: ExactMixture) -> float:
    return math.pi / max(float(max(mixture.ranges())), 1e-9)


def _ends(mixture: ExactMixture, c: float, depth: float) -> tuple[Fraction, Fraction]:
    """The nearest outputs beyond which g falls, and is less than exp(-depth) phi(c); rounded outwards to eighths."""
    goal = mixture.pair().kappa(c) - depth

    def side(parts: Parts, sign: int, x: float) -> tuple[float, float]:
        logs = [log_fraction(w) + sign * float(m) * x - 0.5 * float(m) ** 2 for m, w in parts]
        weights = [math.exp(log - max(logs)) for log in logs]
        total = sum(weights)
        return max(logs) + math.log(total), sum(float(m) * weight for (m, _), weight in zip(parts, weights, strict=True)) / total

    found = []
    for sign, outer, inner in ((-1, 0, -1), (1, -1, 0)):
        near, far = 0.0, 1.0
        for k in range(80):
            x = sign * (far if k < 40 else 0.5 * (near + far))
            (log_a, m), (log_b, n) = side(mixture.up, 1, x), side(mixture.down, -1, x)
            m = m if c < -1 else float(mixture.up[outer][0])
            n = n if c > 0 else float(mixture.down[inner][0])
            enough = sign * (x - (c + 1) * m - c * n) >= 3 and -0.5 * x * x + (c + 1) * log_a - c * log_b < goal
            if k < 40:
                near, far = (near, far) if enough else (far, 2 * far)
            else:
                near, far = (near, abs(x)) if enough else (abs(x), far)
        found.append(Fraction(sign * math.ceil(8 * far + 1e-6), 8))
    return found[0], found[1]


def rule_between(mixture: ExactMixture, c: float, digits: float, step: float, height: float, top: float) -> Rule:
    """The rule with this step, or slightly less, between ends beyond which there is about exp(-digits)."""
    low, high = _ends(mixture, c, digits + float(_growth(mixture, c, np.array(height))))
    size = math.ceil(float(high - low) / step) + 1
    return Rule(low, high, (high - low) / (size - 1), size, Fraction(height), Fraction(top))


def coarsest_rule(mixture: ExactMixture, c: float, digits: float) -> Rule:
    """The coarsest rule with an error of about exp(-digits), relative to phi(c), at every frequency."""
    y = min(0.999 * _widest(mixture), 40.0) * np.linspace(0.02, 1.0, 99)
    steps = 2 * math.pi * y / (2 * digits + 3 + _growth(mixture, c, y))
    best = int(np.argmax(steps))
    step = float(steps[best])
    return rule_between(mixture, c, digits, step, (digits + 1) * step / (2 * math.pi), float(y[best]))


def tail_rule(mixture: ExactMixture, c: float, height: float, digits: float) -> Rule:
    """A rule for the modulus at this height with an error of about exp(-digits), relative to phi(c)."""
    widest = _widest(mixture)
    width = min(max(0.99 * height, 0.47 * widest - height), 0.97 * widest - height, 6.0) * np.linspace(0.02, 1.0, 50)
    growth = 0.5 * (_growth(mixture, c, width + height) + _growth(mixture, c, np.abs(width - height)))
    steps = 2 * math.pi * width / (digits + 1 + growth)
    best = int(np.argmax(steps))
    return rule_between(mixture, c, digits, float(steps[best]), height, height + float(width[best]))


def tail_decay(mixture: ExactMixture, c: float) -> Callable[[float], tuple[float, float]]:
    """A function from t to the bound on log |phi(c + it) / phi(c)| and the height that gives it."""
    pair, shift = mixture.pair(), mixture.total_shift()
    if shift is not None:
        return lambda t: (-0.5 * float(shift) ** 2 * t * t, 0.0)
    low, high = _ends(mixture, c, 50.0)
    x = np.arange(float(low), float(high), 0.25 * min(1.0, _widest(mixture) / math.pi))
    heights = 0.7 * _widest(mixture) * 2.0 ** -np.arange(0, 24, 0.5)
    y = heights[:, None]

    def polar(rows: Sequence[tuple[float, float]], sign: float) -> tuple[Array, Array]:
        terms = np.array([math.log(w) + sign * s * x - 0.5 * s * s for s, w in rows])
        peak, middle = terms.max(axis=0), 0.5 * (rows[0][0] + rows[-1][0])
        turned = np.zeros((len(heights), len(x)), dtype=np.complex128)
        for term, (s, _) in zip(terms, rows, strict=True):
            turned += np.exp(term - peak) * np.exp(1j * sign * (s - middle) * y)
        return peak + np.log(np.abs(turned)), np.angle(turned) + sign * middle * y

    (log_a, arg_a), (log_b, arg_b) = polar(pair.up, 1.0), polar(pair.down, -1.0)
    weight = 0.5 * (y * y - x * x) + math.log((x[1] - x[0]) / math.sqrt(2 * math.pi)) + (c + 1) * log_a - c * log_b - pair.kappa(c)
    angle = arg_a - arg_b

    def bound(t: float) -> tuple[float, float]:
        sums = np.exp(np.minimum(weight - t * angle, 600.0)).sum(axis=1)
        best = int(np.argmin(sums))
        return math.log(max(float(sums[best]), 1e-300)), float(heights[best])

    return bound


def floating(mixtures: Mixtures) -> list[tuple[MixturePair, int]]:
    return [(mixture.pair(), steps) for mixture, steps in mixtures]


def _design(mixtures: Mixtures, table: Plan, epsilon: float, log_delta: float, digits: float, limit: int) -> Design:
    """The line with the fewest frequencies whose errors are about exp(-digits) of delta."""
    pairs = floating(mixtures)
    goal = log_delta - digits
    height = table.level - table.c * epsilon
    bottom, top = (sum(steps * pair.support()[i] for pair, steps in pairs) for i in (0, 1))
    saddle = int(np.argmin(height - np.log(table.c) - np.log1p(table.c)))
    slopes = np.unique(np.append(float(table.c[saddle]) * np.geomspace(0.01, 10.0, 31), 1.0))
    while True:
        try:
            left = plan(pairs, -slopes).level
            break
        except OverflowError:
            slopes = slopes[: len(slopes) // 2]
            if not len(slopes):
                raise Declined("the left tail is out of reach") from None
    best = (math.inf, 0, 0.0, 0.0, 0.0)
    for i in range(saddle + 1):
        c = float(table.c[i])
        if height[i] - height[saddle] > 12.0:
            continue
        right = (height[i + 1 :] - goal + 1) / (table.c[i + 1 :] - c)
        fall = (left + slopes * epsilon - goal + 1) / (slopes + c)
        above, below = min(float(right.min(initial=math.inf)), max(top - epsilon, 0.0)), min(float(fall.min()), max(epsilon - bottom, 0.0))
        period = 1.001 * max(above, below)
        reach = math.sqrt(2 * max(height[i] - goal, 1.0) / table.variance[i])
        far = float(table.c[i + 1 + int(right.argmin())]) if len(right) else 2 * c
        best = min(best, (period * reach, i, period, far, float(slopes[int(fall.argmin())])))
    cost, i, period, far, slope = best
    if not 0 < cost < math.inf:
        raise Declined("the curve's tail cannot be bounded on this line")
    c, step = float(table.c[i]), 2 * math.pi / period
    quadrature = digits + max(float(height[i]) - log_delta, 0.0) + math.log(sum(steps for _, steps in mixtures)) + 6
    rules = [coarsest_rule(mixture, c, quadrature) for mixture, _ in mixtures if mixture.total_shift() is None]
    work = sum(rule.size for rule in rules) + 100
    decays = [(tail_decay(mixture, c), steps) for mixture, steps in mixtures]
    size = 2 + int(math.sqrt(2 * max(height[i] - goal, 1.0) / table.variance[i]) / step)
    while True:
        last = (size - 1) * step
        found = [decay(last) for decay, _ in decays]
        if height[i] + sum(n * log for (log, _), (_, n) in zip(found, decays, strict=True)) - math.log(math.pi * last) <= goal - 1:
            break
        size += 1 + size // 8
        if size * work > limit:
            raise Declined("too many frequencies")
    tails = tuple((y, 8 - log + math.log(n)) for (log, y), (_, n) in zip(found, decays, strict=True))
    lost = max((0.5 * float(rule.height) ** 2 for rule in rules), default=0.0) + math.log(2 + abs(epsilon) * (c + last))
    return Design(c, step, size, far, slope, tails, quadrature, 64 + math.ceil((quadrature + lost) / math.log(2)))


def lay_out(mixtures: Mixtures, table: Plan, epsilon: float, log_delta: float) -> Design:
    for digits, limit in _PRECISIONS:
        try:
            return _design(mixtures, table, epsilon, log_delta, digits, limit)
        except Declined as error:
            reason = error
    raise reason
