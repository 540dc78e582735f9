"""Stop-loss premiums of sums of likelihood ratios: delta of one epoch of random allocation, from both sides.

Guarantees: with S = Y_1 + ... + Y_t independent, E[(S - K)_+] / t is delta when a record that is in one of t steps is removed, K = t e^eps,
and e^eps E[(t e^-eps - S)_+] / t when it is added. The law of the sum comes from one Fourier transform of the exponentially tilted lattice
law; its rounding, wrap-around and truncation are bounded and added to the bracket.

>>> from tacit.accounting.pairs.likelihood_ratio import GaussianRatio
>>> low, high = delta_once(GaussianRatio(1.0), 100, 0.5, 1, 1e-6)
>>> 0 < high - low < 1e-4 * high
True

`score_floor` is a lower bound for several steps out of many, from a sum of scores that is close to the loss:

>>> low = score_floor(GaussianRatio(1.0), 100, 5, 1, 1.0, None, 0.5)
>>> 0 < low < 1
True
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tacit.accounting.pairs.likelihood_ratio import GaussianRatio, Law, Ratio, contract, spread
from tacit.accounting.pairs.pair import Array
from tacit.accounting.special import irfft, ndtr, next_fast_len, rfft

UNIT = 2.0**-53
_MASS_ERROR = 5e-13  # relative error of one step's lattice masses, tilting included; the tests hold it against mpmath
_NATS = 34.0  # exp(-34) = 2e-15 of the tilted law may lie outside the window of the transform
COARSE = 1 << 16
POINTS = 1 << 20  # longest lattice of one step, and of one window of the sum


@dataclass(frozen=True)
class Plan:
    """How to compute E[(sign (S - K))_+] near one K: where to cap Y, how to tilt, and which window the tilted sum keeps to."""

    slope: float  # -d log E[(sign (S - K))_+] / d (sign K), about
    log_premium: float  # log E[(sign (S - K))_+], about
    theta: float
    top: float
    low: float
    high: float
    eta_low: float
    eta_high: float
    eta_rest: float

    def range(self) -> float:
        """How long the window of the transform is."""
        return max(self.high - self.low, self.top)

    def lattice(self, steps: int, accuracy: float, small: float = 0.0) -> float:
        """The step of a lattice that is about so accurate.

        On a lattice each of `steps` has at most step^2 / 4 more variance, and at most step times its mean, 1.
        """
        return max(2 * math.sqrt(accuracy / steps) / self.slope, small * accuracy / steps / self.slope**2)

    def scaled(self, factor: float) -> Plan:
        """The same plan for sums that are `factor` times as large."""
        return Plan(
            slope=self.slope / factor,
            log_premium=self.log_premium,
            theta=self.theta / factor,
            top=self.top * factor,
            low=self.low * factor,
            high=self.high * factor,
            eta_low=self.eta_low / factor,
            eta_high=self.eta_high / factor,
            eta_rest=self.eta_rest / factor,
        )


def log_mgfs(log_weight: Array, y: Array, theta: Array) -> Array:
    exponent = np.multiply.outer(theta, y) + log_weight
    peak = exponent.max(axis=-1)
    return np.asarray(peak + np.log(np.exp(exponent - peak[..., None]).sum(axis=-1)))


def log_mgf(log_weight: Array, y: Array, theta: float) -> float:
    exponent = log_weight + theta * y
    peak = float(exponent.max())
    return peak + math.log(float(np.exp(exponent - peak).sum()))


@lru_cache(maxsize=8)
def _whole(ratio: Ratio) -> tuple[Array, Array]:
    return ratio.sketch(math.inf)


@dataclass(frozen=True)
class Lean:
    """The first half of a plan: how steep E[(sign (S - K))_+] is near one K, and where to cap Y."""

    slope: float  # -d log E[(sign (S - K))_+] / d (sign K), about
    log_premium: float  # log E[(sign (S - K))_+], about
    top: float
    eta_rest: float
    y: Array  # of the capped ratio
    log_weight: Array
    theta: Array  # tilts, and Chernoff's bound for each
    level: Array
    best: int
    spread_out: float


def lean_for(ratio: Ratio, steps: int, at: float, sign: int, reach: float) -> Lean:
    """Rough numbers only: whatever is chosen here, the bounds computed from it hold."""
    value, log_value = _whole(ratio)
    share = np.exp(log_value)
    top = reach * (1 + 1e-9)
    y, log_weight = ratio.sketch(top)
    weight = np.exp(log_weight)
    mean = float(weight @ y)
    spread_out = max(math.sqrt(steps * float(weight @ (y - mean) ** 2)), 1e-12 * steps * mean, 1e-300)
    eta = np.exp(np.linspace(-6.0, 9.0, 31)) / spread_out
    rest = -((steps - 1) * log_mgfs(log_weight, y, -eta) + _NATS) / eta
    eta_rest = float(eta[np.argmax(rest)])
    if sign > 0:
        # The other steps add at least `rest`, so one step above top - rest alone puts the sum above every K in reach.
        top = max(top - max(0.0, float(rest.max())), 0.01 * top)
        y, log_weight = ratio.sketch(top)
    steepest = max(60 / spread_out, 1e3 / at) if sign > 0 else 60 / spread_out + 30.0 * steps / at
    rough = np.exp(np.linspace(math.log(0.1 / max(spread_out, at)), math.log(steepest), 40))

    def chernoff(y: Array, log_weight: Array) -> tuple[Array, Array, int]:
        """log of theta^-2 E[exp(sign theta (S - K))] at several theta, more of them near the best."""
        near = int(np.argmin(steps * log_mgfs(log_weight, y, sign * rough) - sign * rough * at - 2 * np.log(rough)))
        theta = np.unique(np.append(rough, np.geomspace(rough[max(near - 1, 0)], rough[min(near + 1, 39)], 24)))
        level = steps * log_mgfs(log_weight, y, sign * theta) - sign * theta * at - 2 * np.log(theta)
        return theta, level, int(np.argmin(level))

    theta, level, best = chernoff(y, log_weight)
    log_premium = float(level[best]) - math.log(3 * max(spread_out, 1 / float(theta[best])))
    if sign > 0:
        # Either many steps share the excess or one large jump makes it; the saddle alone is far off for the latter.
        small, log_small = ratio.sketch(max((at - steps * mean) / 3, 1 + spread_out, 2 * at / steps))
        slopes, shared, lowest = chernoff(small, log_small)
        one = steps * float(share @ np.maximum(value - max(at - (steps - 1) * float(np.exp(log_small) @ small), 0.0), 0.0))
        log_premium = float(shared[lowest]) - math.log(3 * max(spread_out, 1 / float(slopes[lowest])))
        log_premium = float(np.logaddexp(log_premium, math.log(one) if one > 0 else -math.inf))
    log_premium = min(log_premium, math.log(steps))
    stop_loss = np.cumsum((share * value)[::-1])[::-1] - value * np.cumsum(share[::-1])[::-1]
    negligible = np.flatnonzero(steps * stop_loss <= 1e-10 * math.exp(log_premium))
    cap = float(value[negligible[0]]) if len(negligible) else math.inf
    if sign < 0:
        # So large a step is as good as lost to the lower tail, whose tilt weighs it with exp(-40).
        eta_rest = float(theta[best])
        cap = min(cap, (40.0 - log_mgf(log_weight, y, -eta_rest)) / eta_rest)
    if cap < top:
        top = cap
        y, log_weight = ratio.sketch(top)
        theta, level, best = chernoff(y, log_weight)
    return Lean(float(theta[best]), log_premium, top, eta_rest, y, log_weight, theta, level, best, spread_out)


def plan_for(ratio: Ratio, steps: int, at: float, sign: int, reach: float) -> Plan:
    """Rough numbers only, as `lean_for`, with the tilt and the window of a transform."""
    lean = lean_for(ratio, steps, at, sign, reach)
    y, log_weight, theta, best, level, log_premium, top = (
        lean.y, lean.log_weight, lean.theta, lean.best, lean.level, lean.log_premium, lean.top
    )  # fmt: skip
    chosen = best
    if sign > 0:
        # A weaker tilt leaves fewer large jumps and so a shorter window; take it as long as rounding stays a ten-millionth of the whole.
        weight, small = np.exp(log_weight), np.minimum(y, 2.0)
        body = math.sqrt(steps * float(weight @ (small - weight @ small) ** 2))
        rounding = level + math.log(2e-14 * steps / max(body, 1e-5 * at))
        chosen = min(best, int(np.argmax(rounding <= log_premium - 16))) if (rounding <= log_premium - 16).any() else best
    tilt = sign * float(theta[chosen])
    centre = log_mgf(log_weight, y, tilt)
    tilted = np.exp(log_weight + tilt * y - centre)
    middle = float(tilted @ y)
    eta = np.exp(np.linspace(-7.0, 7.0, 29)) / max(math.sqrt(steps * float(tilted @ (y - middle) ** 2)), 1e-3 * lean.spread_out)
    high = (steps * (log_mgfs(log_weight, y, tilt + eta) - centre) + _NATS) / eta
    low = -(steps * (log_mgfs(log_weight, y, tilt - eta) - centre) + _NATS) / eta
    first, last = float(low.max()), min(float(high.min()), steps * top)
    return Plan(
        slope=lean.slope,
        log_premium=log_premium,
        theta=tilt,
        top=top,
        low=first if first > 0.2 * (last - first) else 0.0,  # a sharp lower end is not worth it where the window is wide anyway
        high=last,
        eta_low=float(eta[np.argmax(low)]),
        eta_high=float(eta[np.argmin(high)]),
        eta_rest=lean.eta_rest,
    )


@dataclass(frozen=True)
class Sum:
    """The law of the sum of `steps` lattice laws on one side of a threshold, un-tilted: E[(sign (S - K))_+] with its error."""

    sign: int
    theta: float
    at: float
    floor: float  # sums were kept from here on
    place: Array
    mass: Array  # tail sums of the masses beyond each place, scaled
    moment: Array
    log_scale: float
    unit_noise: float  # of one lattice mass
    lattice: float
    outside: float  # tilted mass beyond the window, wrapped around or lost
    relative: float  # error of the lattice masses of one step, to the power of the steps
    rounding: float  # of the tail sums

    def premium(self, threshold: Array) -> tuple[Array, Array]:
        """E[(sign (S - K))_+] at each K, and a bound on its error."""
        k = self.sign * threshold
        first = np.searchsorted(self.place, k, side="right")
        scale, mass, moment = math.exp(self.log_scale), self.mass[first], self.moment[first]
        noise = (self.unit_noise * (1 / (self.theta * self.lattice) + 1 / math.e) + self.outside / math.e) / self.theta
        with np.errstate(over="ignore", invalid="ignore"):  # so far from the threshold it was made for, a sum says nothing
            value = scale * (moment - (k - self.at) * mass)
            summing = scale * self.rounding * (np.abs(moment) + np.abs((k - self.at) * mass))
            growth = np.exp(np.minimum(self.log_scale - self.theta * (k - self.at), 700.0))
            error = growth * noise + np.abs(value) * self.relative + summing
        known = np.isfinite(value) & np.isfinite(error) & (k >= self.floor)
        return np.where(known, value, 0.0), np.where(known, error, np.inf)

    def masses(self, threshold: Array) -> Array:
        """An upper bound on the mass between consecutive thresholds, taken in order away from the bulk."""
        k = self.sign * threshold
        first = np.searchsorted(self.place, k, side="right")
        scale, mass = math.exp(self.log_scale), self.mass[first]
        with np.errstate(over="ignore", invalid="ignore"):
            growth = np.exp(np.minimum(self.log_scale - self.theta * (k[:-1] - self.at), 700.0))
            noise = growth * (self.unit_noise * (np.diff(first) + 1) + self.outside) + scale * self.rounding * np.abs(mass[:-1])
            found = scale * np.maximum(mass[:-1] - mass[1:], 0.0) * (1 + self.relative) + noise
        return np.where((k[:-1] >= self.floor) & np.isfinite(found), found, np.inf)


def sum_of(law: Law, steps: int, at: float, sign: int, plan: Plan) -> Sum:
    """The law of the sum by one transform of the tilted law.

    Error model. The tilted masses w sum to 1, so each Fourier coefficient has error at most e = c u log2(N) (each is a sum of w_j
    times a path of at most log2(N) butterflies). Its t-th power errs by t |f|^(t-1) e plus t times the error of its angle; the inverse
    averages these errors and adds its own. Wrapped-around mass is the tilted mass outside the window, bounded by Chernoff.
    """
    step, theta = law.step, plan.theta
    grid = law.grid
    with np.errstate(divide="ignore"):
        exponent = np.log(law.mass) + theta * grid
    log_total = log_mgf(exponent, grid, 0.0)
    weight = np.exp(exponent - log_total)
    first = max(0, math.floor((plan.low - steps * law.offset) / step))
    last = min(math.ceil((plan.high - steps * law.offset) / step), steps * (len(grid) - 1))
    size = next_fast_len(max(last - first + 2, 64), real=True)
    outside = 0.0
    if first > 0:
        log_below = steps * (log_mgf(exponent, grid, -plan.eta_low) - log_total) + plan.eta_low * step * first
        outside += math.exp(min(0.0, log_below))
    if first + size <= steps * (len(grid) - 1):
        log_above = steps * (log_mgf(exponent, grid, plan.eta_high) - log_total) - plan.eta_high * step * (first + size)
        outside += math.exp(min(0.0, log_above))
    folded = np.zeros(-(-len(weight) // size) * size)
    folded[: len(weight)] = weight
    transform = rfft(folded.reshape(-1, size).sum(axis=0))
    error = 8 * UNIT * (math.log2(size) + 2)
    modulus = np.abs(transform)
    keep = modulus > math.exp(-90 / steps)
    power = np.zeros_like(transform)
    power[keep] = np.exp(steps * (np.log(modulus[keep]) + 1j * np.angle(transform[keep])))
    average = 2 * float(np.abs(power).sum()) / size
    dropped = math.exp((steps - 1) * math.log(math.exp(-90 / steps) + 2 * error))
    average_less = 2 * float(np.exp((steps - 1) * np.log(modulus[keep] + 2 * error)).sum()) / size + dropped
    unit_noise = steps * error * average_less + (error + (8 * steps + 400) * UNIT) * average + math.exp(-90.0)
    mass = np.roll(irfft(power, size), -(first % size))
    place = steps * law.offset + step * np.arange(first, first + size)
    if sign < 0:
        place, mass = -place[::-1], mass[::-1]
    tilt, origin = abs(theta), sign * at
    kept = int(np.searchsorted(place, origin - 25 / tilt))
    place, mass = place[kept:], mass[kept:]
    mass = mass * np.exp(-tilt * (place - origin))
    return Sum(
        sign=sign,
        theta=tilt,
        at=origin,
        floor=origin - 25 / tilt if kept else -math.inf,
        place=np.asarray(place, dtype=np.float64),
        mass=np.append(np.cumsum(mass[::-1])[::-1], 0.0),
        moment=np.append(np.cumsum((mass * (place - origin))[::-1])[::-1], 0.0),
        log_scale=min(steps * log_total - theta * (at - steps * law.offset), 700.0),
        unit_noise=unit_noise,
        lattice=step,
        outside=outside,
        relative=math.expm1(8 * steps * _MASS_ERROR),
        rounding=4 * size * UNIT,
    )


@dataclass(frozen=True)
class Tail:
    """Both ends of E[(sign (S - K))_+] / t for K on one side of a threshold."""

    steps: int
    upper_sum: Sum
    lower_sum: Sum | None
    upper_constant: float
    lower_constant: float
    reach: float

    def bounds(self, threshold: Array) -> tuple[Array, Array]:
        """Lower and upper end at each K between the bulk and the reach of the tail; the lower one may be negative."""
        value, error = self.upper_sum.premium(threshold)
        upper = (value + error + self.upper_constant) / self.steps
        if self.lower_sum is None:
            return np.zeros_like(upper), upper
        value, error = self.lower_sum.premium(threshold)
        lower = (value - error + self.lower_constant) / self.steps
        return np.where(threshold <= self.reach, lower, 0.0), upper

    def slope(self, at: float) -> float:
        """About -d log E[(sign (S - K))_+] / d (sign log K)."""
        above = self.upper_sum
        mass = math.exp(above.log_scale) * float(above.mass[np.searchsorted(above.place, above.sign * at, side="right")])
        return at * mass / max(float(above.premium(np.array([at]))[0][0]) + self.upper_constant, 1e-320)

    def masses(self, threshold: Array) -> Array:
        """An upper bound on how much the slope of the lower end's curve, in K, changes between consecutive thresholds."""
        return np.zeros(len(threshold) - 1) if self.lower_sum is None else self.lower_sum.masses(threshold)


def tail_around(
    ratio: Ratio,
    steps: int,
    at: float,
    sign: int,
    accuracy: Callable[[float], float],
    reach: float = 0.0,
    points: int = POINTS,
    plan: Plan | None = None,
    small: float = 0.0,
) -> Tail:
    """The tail around K = at, good up to K = reach; `accuracy` says which relative error to aim for, given -d log / d log K.

    `plan` may be given where one is known that will do. `small` is how much is made of most steps being far
    smaller than the lattice.

    With Y' = min(Y, M), S' its sum and r = E[(Y - M)_+] per step, S' <= S gives E[(S'-K)_+] <= E[(S-K)_+] <= E[(S'-K)_+] + t r; and where
    one step above M puts S' above K whatever the others do, but for an event of probability f, the excess counts in
    full: E[(S-K)_+] >= E[(S'-K)_+] + t r (1 - f). Below, E[(K-S')_+] - t r f <= E[(K-S)_+] <= E[(K-S')_+].
    """
    reach = max(at, reach)
    plan = plan_for(ratio, steps, at, sign, reach) if plan is None else plan
    step = plan.lattice(steps, accuracy(plan.slope * at), small)
    step = min(step, (plan.high - plan.low) / 500, plan.top / 60)
    step = max(step, (plan.high - plan.low) / points, plan.top / points)
    cells = math.ceil(plan.top / step)
    above, below = spread(ratio, step, cells), contract(ratio, step, cells)

    def fails(top: float) -> float:
        """Chernoff's bound on the chance that the other steps, capped at `top`, stay below reach - top."""
        short, eta = reach - top, plan.eta_rest
        if short <= 0:
            return 0.0
        # Spreading and capping lower make the moment of exp(-eta Y) larger, so the smaller of two such figures holds.
        moments = []
        for law in (spread(ratio, 0.02 / eta, 2000), above):
            with np.errstate(divide="ignore"):
                moments.append(log_mgf(np.log(law.mass), law.grid, -eta))
        moments[0] = float(np.logaddexp(moments[0], math.log(max(ratio.tail(top)[0], 1e-300)) - eta * top))
        return min(1.0, math.exp(min(0.0, (steps - 1) * min(moments) + eta * short)) * (1 + 1e-3))

    excess = steps * above.infinite * (1 + 1e-11)
    if below is None:
        lower_constant = 0.0
    elif sign > 0:
        lower_constant = steps * below.infinite * (1 - 1e-11) * (1 - fails(below.top))
    else:
        lower_constant = -steps * below.infinite * (1 + 1e-11) * fails(below.top)
    return Tail(
        steps,
        sum_of(above, steps, at, sign, plan),
        None if below is None else sum_of(below, steps, at, sign, plan),
        excess if sign > 0 else 0.0,
        lower_constant,
        reach,
    )


def _weighted(sign: int, epsilon: float) -> float:
    """delta is this times E[(sign (S - K))_+] / t."""
    return 1.0 if sign > 0 else math.exp(epsilon)


def delta_once(ratio: Ratio, steps: int, epsilon: float, sign: int, relative: float, points: int = POINTS) -> tuple[float, float]:
    """Both ends of delta(epsilon), epsilon >= 0, in the remove (sign 1) or add (sign -1) direction of one epoch."""
    at = steps * math.exp(sign * epsilon)
    lower, upper = tail_around(ratio, steps, at, sign, lambda slope: relative * max(1.0, slope), points=points).bounds(np.array([at]))
    weight = _weighted(sign, epsilon)
    return min(1.0, max(0.0, weight * float(lower[0]))), min(1.0, weight * float(upper[0]))


def epsilon_once(ratio: Ratio, steps: int, delta: float, sign: int, most: float, tolerance: float) -> tuple[float, float]:
    """Both ends of the smallest epsilon >= 0 with delta(epsilon) <= delta in one direction; `most` is known to be enough."""
    log_target = math.log(delta) + math.log(steps)

    def rough(epsilon: float) -> float:
        at = steps * math.exp(sign * epsilon)
        return lean_for(ratio, steps, at, sign, at).log_premium + (0.0 if sign > 0 else epsilon) - log_target

    if delta_once(ratio, steps, 0.0, sign, 1e-3, COARSE)[1] <= delta:
        return 0.0, 0.0
    low, high = 1e-7 * most, most
    for _ in range(10):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if rough(middle) > 0 else (low, middle)
    guess, points = math.sqrt(low * high), COARSE
    for _ in range(14):  # Newton's method on log delta; the ends below are checked, however far it came
        at = steps * math.exp(sign * guess)
        tail = tail_around(ratio, steps, at, sign, lambda slope: 1e-3, points=points)
        lower, upper = (float(x[0]) for x in tail.bounds(np.array([at])))
        if upper > 1.2 * lower and points < POINTS // 4:
            points *= 4
            continue
        slope = max(tail.slope(at) - (0.0 if sign > 0 else 1.0), 1e-3)
        move = (math.log(max(upper * steps, 1e-320)) + (0.0 if sign > 0 else guess) - log_target) / slope
        guess += min(max(move, -guess / 2), (most - guess) / 2)
        if abs(move) * slope < 0.03:
            break
    at = steps * math.exp(sign * guess)
    for margin in (0.003, 0.1, 2.0):
        margin = (margin + 2 * min(1.0, max(0.0, 1 - lower / max(upper, 1e-320)))) / slope
        tail = tail_around(ratio, steps, at, sign, lambda slope: min(tolerance, 1e-4 * guess) * slope, at * math.exp(margin) * (1 + 1e-9))
        least, enough = (_root(tail, steps, delta, sign, guess, margin, end) for end in (0, 1))
        if least > 0.0 and enough < most:
            break
    return max(0.0, least), min(most, enough)


def _root(tail: Tail, steps: int, delta: float, sign: int, guess: float, margin: float, end: int) -> float:
    """The largest epsilon within the margin where the lower end exceeds delta, or the smallest where the upper one does not."""

    def above(epsilon: float) -> bool:
        value = tail.bounds(np.array([steps * math.exp(sign * epsilon)]))[end]
        return not _weighted(sign, epsilon) * float(value[0]) <= delta

    low, high = max(0.0, guess - margin), guess + margin
    if not above(low):
        return low if end else 0.0
    if above(high):
        return math.inf if end else high
    while high - low > 4e-16 * high + 1e-300:
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if above(middle) else (low, middle)
    return high if end else low


@dataclass(frozen=True)
class Score:
    """P- and Q-law of a sum of rounded scores over all steps, tilted by exp(theta T) and scaled, around one epsilon."""

    place: Array
    theta: float
    log_scale: tuple[float, float]
    mass: tuple[Array, Array]
    noise: tuple[float, float]
    outside: float
    relative: float

    def delta(self, epsilon: float) -> float:
        """A lower bound on P(T >= c) - e^epsilon Q(T >= c), for the best c."""
        exponents = [self.log_scale[0] - self.theta * self.place, self.log_scale[1] + epsilon - self.theta * self.place]
        start = int(np.argmax(np.maximum(*exponents) < 600)) if np.maximum(*exponents)[-1] < 600 else len(self.place) - 1
        gain, cost = (np.exp(np.minimum(e[start:], 600.0)) for e in exponents)
        net = gain * (self.mass[0][start:] * (1 - self.relative) - self.noise[0])
        net -= cost * (self.mass[1][start:] * (1 + self.relative) + self.noise[1])
        return max(0.0, float((np.cumsum(net[::-1])[::-1] - self.outside * gain).max()) * (1 - 1e-9))


def score_for(ratio: GaussianRatio, steps: int, selected: int, epochs: int, near: float, share: float = 1.0) -> Score:
    """The law of T = sum of rounded scores log(1 - q + q Y), q = share selected / steps, over all steps of all epochs.

    The score is the loss of one Poisson sampled step, so T is close to the loss of the whole; and being a function of the outputs it
    can only lose. Its two laws are powers of one step's, whichever steps were chosen. The tilt makes it good around epsilon = near.
    The whole likelihood ratio is a coefficient of the product of all 1 + x Y, and near epsilon its saddle point x is smaller than that of
    the mean: large ratios take up more of the `selected` there. So a share below 1 is the better score.
    """
    s, q, uses = 1 / ratio.sigma, share * selected / steps, (steps * epochs - selected * epochs, selected * epochs)
    y, log_weight = ratio.sketch(math.inf)
    weight, score = np.exp(log_weight), np.log1p(q * (y - 1))
    deviation = math.sqrt(max(float(weight @ score**2) - float(weight @ score) ** 2, 1e-300))
    unit = deviation / 32 * max(1.0, math.sqrt(sum(uses)) * 1e3 / POINTS)
    low, high = (math.floor(x / unit) for x in np.log1p(q * (np.exp(s * np.array([-12.0, 12.0 + s]) - s * s / 2) - 1)))
    index = np.arange(low, min(high, low + POINTS) + 1)
    ends = np.expm1(unit * (index[1:] - 0.5)) / q + 1  # ratios at which the rounded score goes up
    z = np.concatenate([[-math.inf], ratio.z(np.maximum(ends, 0.0)), [math.inf]])
    laws = [np.where(v[:-1] > 0, ndtr(-v[:-1]) - ndtr(-v[1:]), ndtr(v[1:]) - ndtr(v[:-1])) for v in (z, z - s)]
    with np.errstate(divide="ignore"):
        logs = [np.log(law) for law in laws]
    powers = (uses, (sum(uses), 0))  # how many steps have the law without and with the record: under P, then under Q

    def cumulant(theta: float, times: tuple[int, int]) -> float:
        return math.fsum(n * log_mgf(log, unit * index, theta) for log, n in zip(logs, times, strict=True) if n)

    theta = min((float(c) for c in np.exp(np.linspace(-7.0, 5.0, 25))), key=lambda c: cumulant(c, uses) - c * near)
    tilted = [np.exp(log + theta * unit * index - log_mgf(log, unit * index, theta)) for log in logs]
    mean = sum(n * float(w @ index) for w, n in zip(tilted, uses, strict=True))
    width = math.sqrt(sum(n * float(w @ (index - w @ index) ** 2) for w, n in zip(tilted, uses, strict=True)))
    size = next_fast_len(min(POINTS, int(24 * width) + len(index)), real=True)
    first = int(mean) - size // 2
    place = unit * np.arange(first, first + size)
    error = 8 * UNIT * (math.log2(size) + 2)
    transforms = [rfft(np.bincount((index - low) % size, w, size)) for w in tilted]
    modulus, angle = [np.abs(f) for f in transforms], [np.angle(f) for f in transforms]
    mass, noise = [], []
    for times in powers:
        used = [(n, m, a) for n, m, a in zip(times, modulus, angle, strict=True) if n]
        with np.errstate(divide="ignore"):
            power = np.exp(sum(n * np.log(m) for n, m, _ in used))
        most = np.exp(sum(n * np.log(m + 2 * error) for n, m, _ in used))
        turned = power * np.exp(1j * sum(n * a for n, _, a in used))
        mass.append(np.roll(irfft(turned, size), -((first - low * sum(uses)) % size)))
        noise.append(2 * float((most - power + (16 * sum(uses) * UNIT + error + 400 * UNIT) * power).sum()) / size)
    level = cumulant(theta, uses)
    etas = [float(x) for x in np.exp(np.linspace(-3.0, 3.0, 13)) * 6 / max(width * unit, 1e-300)]
    above = min(cumulant(theta + eta, uses) - level - eta * float(place[-1]) for eta in etas)
    below = min(cumulant(theta - eta, uses) - level + eta * float(place[0]) for eta in etas)
    return Score(
        place=np.asarray(place, dtype=np.float64),
        theta=theta,
        log_scale=(level, cumulant(theta, powers[1])),
        mass=(mass[0], mass[1]),
        noise=(noise[0], noise[1]),
        outside=math.exp(min(above, 0.0)) + math.exp(min(below, 0.0)),
        relative=1e-12 * (1 + sum(uses)),
    )


def score_floor(ratio: Ratio, steps: int, selected: int, epochs: int, upper: float, delta: float | None, epsilon: float | None) -> float:
    """The best lower bound from sums of scores, on epsilon or delta: each share gives one, and the best of a few is looked for."""
    if not isinstance(ratio, GaussianRatio):
        return 0.0
    known: dict[float, float] = {}

    def at(share: float) -> float:
        if share not in known:
            known[share] = _floor_at(ratio, steps, selected, epochs, upper, delta, epsilon, share)
        return known[share]

    centre = max((0.5, 0.7, 0.9), key=at)
    return max(at(centre), at(centre - 0.1 if centre > 0.6 else 0.6))


def _floor_at(
    ratio: GaussianRatio, steps: int, selected: int, epochs: int, upper: float, delta: float | None, epsilon: float | None, share: float
) -> float:
    if epsilon is not None:
        return min(upper, score_for(ratio, steps, selected, epochs, epsilon, share).delta(epsilon))
    assert delta is not None
    low, near = 0.0, upper
    for _ in range(4):
        low = crossing(score_for(ratio, steps, selected, epochs, near, share).delta, delta, low, upper, 1e-7)[0]
        if abs(low - near) < 1e-3 * near:  # the score was made for it
            break
        near = low
    return low


def crossing(bound: Callable[[float], float], target: float, low: float, high: float, tolerance: float) -> tuple[float, float]:
    """Two points within `tolerance` of each other, relatively: at the first a falling `bound` is above `target`, at the second it is not.

    If it is not above it at `low`, both are `low`; if it is even at `high`, both are `high`. Each turn tries two points close around
    where the line through the logarithms of the last two values crosses, and halves the interval if that did not.
    """
    above, below = bound(low), bound(high)
    if above <= target:
        return low, low
    if below > target:
        return high, high
    while (width := high - low) > tolerance * high:
        start = low
        share = math.log(above / target) / math.log(above / below) if below > 0 else 0.5
        for middle in (start + (share - 0.02) * width, start + (share + 0.02) * width, None):
            if middle is None:
                if high - low <= 0.5 * width:
                    break
                middle = 0.5 * (low + high)
            if not low < middle < high:
                continue
            value = bound(middle)
            low, above, high, below = (middle, value, high, below) if value > target else (low, above, middle, value)
        if high - low >= width:
            break
    return low, high
