"""Privacy losses on a lattice: the composition is computed exactly but for certified rounding, however small delta is.

A `Lattice` puts P-mass p[i] on the loss offset + step (start + i). `compose` takes many of them and returns brackets that hold the
exact delta(eps) and eps(delta) of the composition.

Tilting. With K(t) = log E[exp(t L)] of the composed finite loss and any t > 0,

    delta(eps) = infinite + exp(K(t) - t eps) E~[g(L - eps)],      g(x) = exp(-t x) (1 - exp(-x)) for x > 0, else 0,

where E~ is the expectation under the law tilted by exp(t L). The payoff g is at most t^t / (t + 1)^(t + 1) < 1, so an absolute error of
the tilted law is the same error, relative, of delta: 1e-30 is as easy as 1e-3. Tilted factors compose by discrete Fourier transforms,
whose errors `tacit.accounting.engines.spectrum` bounds. All but 2 exp(-CUT) of the tilted mass lies in the window they cover, by Chernoff's
bound, and what is outside counts with the largest payoff. Every bracket contains these errors.

>>> coin = Lattice(step=0.2, offset=-0.1, start=0, p=np.array([1.0, math.exp(0.1)]) / (1 + math.exp(0.1)))
>>> found = compose([(coin, 1000)]).epsilon(1e-6)
>>> round(found.upper, 6), found.width < 1e-9
(19.344671, True)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tacit.accounting.bound import Bound
from tacit.accounting.engines import spectrum
from tacit.accounting.engines.spectrum import CUT, UNIT, Law, Points, Tilted, Window
from tacit.accounting.pairs.pair import Array
from tacit.errors import ParameterError, UnsupportedError

METHOD = "lattice, tilted FFT"
LARGEST = 2**21  # points of one transform


@dataclass(frozen=True, eq=False)
class Lattice:
    """P-mass p[i] at the loss offset + step (start + i), and `infinite` at infinity.

    What the figures are uncertain by: each mass by the factor 1 +- `rounding`, each loss by `jitter`, and `infinite` by `cut`, a part of
    it that counts in upper bounds only. The masses need not add up to 1: what is missing has loss minus infinity.
    """

    step: float
    offset: float
    start: int
    p: Array
    infinite: float = 0.0
    cut: float = 0.0
    rounding: float | Array = 0.0
    jitter: float = 0.0

    def __post_init__(self) -> None:
        if not (0 < self.step < math.inf and math.isfinite(self.offset)):
            raise ParameterError(f"step must be positive and finite and offset finite, not {self.step} and {self.offset}")
        if not (0 <= self.cut <= self.infinite <= 1):
            raise ParameterError(f"0 <= cut <= infinite <= 1 must hold, not cut={self.cut}, infinite={self.infinite}")
        if self.p.ndim != 1 or not len(self.p) or not np.all(np.isfinite(self.p)) or np.any(self.p < 0):
            raise ParameterError("p must be a one-dimensional array of finite masses, none negative and not empty")

    @property
    def losses(self) -> Array:
        """The loss of every point.

        >>> Lattice(0.5, 0.25, -1, np.array([0.5, 0.5])).losses
        array([-0.25,  0.25])
        """
        return np.asarray(self.offset + self.step * (self.start + np.arange(len(self.p))), dtype=float)

    def refined(self, step: float) -> Lattice:
        """The same law on a lattice that is a whole number of times finer.

        >>> Lattice(0.5, 0.0, 1, np.array([0.5, 0.5])).refined(0.25).p
        array([0.5, 0. , 0.5])
        """
        ratio = round(self.step / step)
        if ratio == 1 and step == self.step:
            return self
        if abs(self.step - ratio * step) > 1e-9 * self.step or (len(self.p) - 1) * ratio >= LARGEST:
            raise UnsupportedError(f"a lattice of {len(self.p)} points cannot be refined from step {self.step} to {step}")
        p = np.zeros((len(self.p) - 1) * ratio + 1)
        p[::ratio] = self.p
        rounding = self.rounding
        if isinstance(rounding, np.ndarray):
            rounding = np.repeat(rounding, ratio)[: len(p)]
        # how far the old points are from the new ones, rounding of this very computation included
        reach = max(abs(self.start), abs(self.start + len(self.p) - 1))
        drift = reach * (abs(self.step - ratio * step) + 2 * UNIT * self.step)
        return Lattice(step, self.offset, self.start * ratio, p, self.infinite, self.cut, rounding, self.jitter + drift)


def common_step(steps: Sequence[float], finest: float = 2.0**-20) -> float | None:
    """The largest step of which all are whole multiples, up to a few roundings; None if it would be below `finest` of the largest.

    >>> round(common_step([0.2, 0.3]), 12), common_step([0.2, 0.2 * math.sqrt(2)])
    (0.1, None)
    """
    largest = max(steps)
    result = largest
    for step in sorted(steps, reverse=True):
        a, b = result, step
        while b > 1e-9 * largest * max(1.0, a / largest):  # Euclid, where a remainder of this size is rounding
            a, b = b, abs(a - b * round(a / b))
            if b and a < finest * largest:
                return None
        result = a
    # Euclid's last remainder carries the error of all the others; the smallest step is the best ruler.
    smallest = min(steps)
    result = smallest / round(smallest / result)
    fits = all(abs(s / result - round(s / result)) <= 2.0**-46 * (s / result) for s in steps)
    return result if fits and result >= finest * largest else None


def compose(components: Sequence[tuple[Lattice, int]]) -> Composition:
    """The composition of `count` copies of each lattice.

    Lattices whose steps are multiples of one step share one transform. Others are first composed each on its own and then joined point
    by point, which is refused if all but the longest have more than 2e6 points together.

    >>> coin = Lattice(2.0, -1.0, 0, np.array([1.0, math.e]) / (1 + math.e))
    >>> compose([(coin, 2)]).delta(1.0).upper - 0.3378347121 < 1e-10
    True
    """
    kept = [(lattice, count) for lattice, count in components if count]
    if not kept:
        kept = [(Lattice(1.0, 0.0, 0, np.ones(1)), 1)]
    groups: list[list[tuple[Lattice, int]]] = []
    for lattice, count in kept:
        for group in groups:
            step = common_step([group[0][0].step, lattice.step], 2.0**-10)
            if step is not None and all((len(x.p) - 1) * round(x.step / step) < LARGEST for x, _ in [*group, (lattice, count)]):
                group[:] = [(x.refined(step), n) for x, n in [*group, (lattice, count)]]
                break
        else:
            groups.append([(lattice, count)])
    return Composition([[_Factor(lattice, count) for lattice, count in group] for group in groups])


def compose_groups(groups: Sequence[Sequence[tuple[Lattice, int]]]) -> Composition:
    """The same, where each group has one step and a transform of its own: quick for many short compositions.

    >>> coin, die = Lattice(2.0, -1.0, 0, np.array([1.0, math.e]) / (1 + math.e)), Lattice(0.1, 0.0, 0, np.array([0.5, 0.5]))
    >>> abs(compose_groups([[(coin, 2)], [(die, 1)]]).delta(1.0).upper - compose([(coin, 2), (die, 1)]).delta(1.0).upper) < 1e-12
    True
    """
    return Composition([[_Factor(lattice, count) for lattice, count in group if count] for group in groups], 2**18)


class _Factor:
    """One lattice, trimmed to its support, and how often it is used."""

    def __init__(self, lattice: Lattice, count: int) -> None:
        support = np.flatnonzero(lattice.p)
        first, last = (int(support[0]), int(support[-1])) if len(support) else (0, 0)
        self.lattice, self.count, self.step = lattice, count, lattice.step
        self.empty = not len(support)
        self.start = lattice.start + first
        self.p = lattice.p[first : last + 1]
        rounding = lattice.rounding
        self.rounding = rounding[first : last + 1] if isinstance(rounding, np.ndarray) else rounding

    @cached_property
    def log_p(self) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.p))

    @cached_property
    def loss(self) -> Array:
        return np.asarray(self.lattice.offset + self.step * (self.start + np.arange(len(self.p))), dtype=float)

    @cached_property
    def sketch(self) -> tuple[Array, Array]:
        """Some 2,000 points to search a tilt with: the top thousand as they are, the rest in blocks. They decide speed, not truth."""
        head = len(self.p) - 1024
        if head <= 1024:
            return self.loss, self.log_p
        width = -(-head // 1024)
        edges = np.arange(0, head, width)
        mass = np.add.reduceat(self.p[:head], edges)
        mean = np.add.reduceat(self.p[:head] * self.loss[:head], edges) / np.maximum(mass, 1e-300)
        keep = mass > 0
        with np.errstate(divide="ignore"):
            return np.concatenate([mean[keep], self.loss[head:]]), np.concatenate([np.log(mass[keep]), self.log_p[head:]])

    def tilted(self, t: float) -> Tilted:
        """The factor under the law tilted by exp(t L)."""
        return spectrum.tilt(self.p, self.log_p, self.rounding, self.step, t, self.count)

    def exact_cumulant(self, t: float) -> float:
        """log E[exp(t L)], to rounding."""
        exponent = self.log_p + t * self.loss
        peak = float(exponent.max())
        return peak + math.log(float(np.exp(exponent - peak).sum()))


def _cumulants(factors: Sequence[_Factor], t: float) -> tuple[float, float, float]:
    """K and its first two derivatives, on the sketches."""
    level = mean = variance = 0.0
    for factor in factors:
        loss, log_p = factor.sketch
        exponent = log_p + t * loss
        peak = float(exponent.max())
        weight = np.exp(exponent - peak)
        total = float(weight.sum())
        centre = float(np.dot(weight, loss)) / total
        level += factor.count * (peak + math.log(total))
        mean += factor.count * centre
        variance += factor.count * float(np.dot(weight, (loss - centre) ** 2)) / total
    return level, mean, variance


def _crossing(function: Callable[[float], float], low: float, high: float, tolerance: float = 1e-2) -> float:
    """Where an increasing function of x > 0 turns positive, to a relative tolerance; an end if it does not."""
    if function(low) >= 0:
        return low
    x = min(max(1.0, low), high)
    while function(x) < 0:
        if x >= high:
            return high
        low, x = x, min(8 * x, high)
    high = x
    while high > (1 + tolerance) * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return high


class Composition:
    """What `compose` returns: groups of factors, each group with one step."""

    def __init__(self, groups: list[list[_Factor]], dense: int = 2048) -> None:
        self.groups, self.dense = groups, dense  # up to so many points are transformed without looking for a shorter way
        self.factors = [factor for group in groups for factor in group]
        self.void = any(factor.empty for factor in self.factors)  # no finite loss at all
        self.jitter = self.top = upper = lower = 0.0
        for factor in self.factors:
            lattice, count = factor.lattice, factor.count
            reach = abs(lattice.offset) + factor.step * max(abs(factor.start), abs(factor.start + len(factor.p)))
            self.jitter += count * (lattice.jitter + 8 * UNIT * reach)
            self.top += count * float(factor.loss[-1])
            spoiled = float(np.max(factor.rounding)) + 4 * UNIT
            upper += count * _log_rest(lattice.infinite * (1 + spoiled))
            lower += count * _log_rest((lattice.infinite - lattice.cut) * (1 - spoiled))
        self.infinite = (max(0.0, -math.expm1(lower)) * (1 - 4 * UNIT), min(1.0, max(0.0, -math.expm1(upper)) * (1 + 4 * UNIT)))
        self.extent = 0.0  # of the losses that had to be transformed as a whole, weighted by the number of transforms
        self.points = 0  # of all transforms so far
        self._cache: tuple[float, Law, float, float, float] | None = None
        self._estimates: dict[float, tuple[float, float, float]] = {}

    @cached_property
    def _tilts(self) -> tuple[float, float]:
        """Below the first a tilt changes nothing; beyond the second only the largest loss is left."""
        _, mean, variance = _cumulants(self.factors, 0.0)
        finest = min(factor.step for factor in self.factors)
        low, spread = min(0.1 / max(math.sqrt(variance), 1e-12), 1.0), math.sqrt(variance)
        while low * self.top > 0.1 and _cumulants(self.factors, low)[1] > mean + spread:  # rare losses far out
            low /= 8
        return low, max(200.0 / finest, 2.0)

    def _saddle(self, t: float) -> tuple[float, float]:
        """The epsilon whose saddle point is t, and an estimate of log delta there."""
        level, mean, variance = _cumulants(self.factors, t)
        epsilon = mean - 1 / t - 1 / (t + 1)
        curvature = variance + t**-2 + (t + 1) ** -2
        return epsilon, level - t * epsilon - math.log(t) - math.log1p(t) - 0.5 * math.log(2 * math.pi * curvature)

    def tilt_for(self, epsilon: float) -> float:
        """The tilt whose saddle point is epsilon."""
        low, high = self._tilts
        below = min(max(_cumulants(self.factors, 0.0)[1] - epsilon, 0.0), 1e100)
        return _crossing(lambda t: self._saddle(t)[0] - epsilon, min(low, 1 / (1 + below)), high)

    def _law(self, t: float) -> tuple[float, Law, float, float, float]:
        """The tilted law, the loss of the anchors, K(t) less t times that, and the relative error of the whole."""
        if self._cache is not None and self._cache[0] == t:
            return self._cache
        level = spoiled = anchor = 0.0
        laws: list[Points | Window] = []
        result: Law
        for group in self.groups:
            parts = [factor.tilted(t) for factor in group]
            relative, loose = spectrum.spoiled(parts)
            spoiled += relative
            for part, factor in zip(parts, group, strict=True):
                level += part.count * part.level
                spoiled += 4 * UNIT * part.count * abs(part.level)
                anchor += part.count * (factor.lattice.offset + factor.step * (factor.start + part.anchor))
            if len(parts) == 1 and parts[0].count == 1:
                if len(self.groups) > 1 and len(parts[0].weight) > 2048:  # to be joined with others, which running sums do best
                    laws.append(Window(t, group[0].step, -parts[0].anchor, parts[0].weight, 0.0, loose))
                    continue
                laws.append(Points(t, np.asarray(group[0].step * parts[0].index, dtype=float), parts[0].weight, loose))
                continue
            first, last = self._window(group, parts, t)
            outside = loose + 2 * math.exp(-CUT)
            alone = len(self.groups) == 1 and last - first > self.dense
            sparse = spectrum.sparse(parts, t, group[0].step, first, last, outside) if alone else None
            if sparse is not None:
                result = sparse
                break
            self.extent = max(self.extent, group[0].step * (last - first) * max(1.0, len(parts) / 4))
            if self.extent >= LARGEST * group[0].step:
                raise UnsupportedError(f"the composed loss covers {last - first} lattice points; use a coarser grid")
            self.points += last - first
            laws.append(spectrum.dense(parts, t, group[0].step, first, last, outside))
        else:
            result = spectrum.joined(laws)
        self._cache = (t, result, anchor, level, spoiled)
        return self._cache

    def _window(self, group: list[_Factor], parts: list[Tilted], t: float) -> tuple[int, int]:
        """Steps from the anchors between which all but 2 exp(-CUT) of the tilted composed mass lies, by Chernoff's bound."""
        step, ends = group[0].step, []
        level, _, variance = _cumulants(group, t)
        exact = math.fsum(f.count * f.exact_cumulant(t) for f in group)
        anchor = math.fsum(f.count * float(f.loss[part.anchor]) for f, part in zip(group, parts, strict=True))
        guess = math.sqrt(2 * CUT / max(variance, 1e-300))
        for sign in (-1, 1):

            def excess(s: float, sign: int = sign) -> float:
                there, mean, _ = _cumulants(group, t + sign * s)
                return s * sign * mean - (there - level) - CUT

            # where the tail is heavy the right tilt is that of its end, far below what the variance suggests
            far = max(float(abs(f.loss[-1 if sign > 0 else 0] - f.loss[part.anchor])) for f, part in zip(group, parts, strict=True))
            s = _crossing(excess, min(guess / 64, 1 / max(far, 1e-300)), max(64 * guess, 1.0), 0.05)
            reach = min(
                (math.fsum(f.count * f.exact_cumulant(t + sign * x) for f in group) - exact + CUT + 1e-3) / x - sign * anchor
                for x in (s, 0.9 * s)
            )
            end = sum(f.count * (part.anchor if sign < 0 else len(f.p) - 1 - part.anchor) for f, part in zip(group, parts, strict=True))
            ends.append(min(math.floor(reach / step) + 1, end))
        return -ends[0], ends[1]

    def finite(self, t: float, epsilon: float, side: int) -> float:
        """The part of delta from finite losses: an upper bound (side 1), a lower bound (-1) or the estimate between them (0)."""
        value, error = self._payoff(t, epsilon, side)
        return max(value + side * error, 0.0)

    def chernoff(self, t: float, epsilon: float) -> float:
        """A quick upper bound on the part of delta from finite losses, which needs no transform."""
        level = math.fsum(factor.count * factor.exact_cumulant(t) for factor in self.factors)
        return math.exp(min(0.0, level + 1e-9 * (1 + abs(level)) - t * (epsilon - self.jitter)))

    def _payoff(self, t: float, epsilon: float, side: int) -> tuple[float, float]:
        """The finite part of delta and a bound on its error, after moving every loss by its uncertainty to the given side."""
        if self.void or epsilon - side * self.jitter >= self.top + (side > 0) * self.jitter:
            return 0.0, 0.0
        _, law, anchor, level, spoiled = self._law(t)
        x = epsilon - anchor - side * (self.jitter + 4 * UNIT * (abs(epsilon) + abs(anchor)))
        value, error = law.payoff(x)
        relative = spoiled + 8 * UNIT * (1 + abs(level) + t * abs(x))
        scale = math.exp(min(level - t * x, 700.0))
        return scale * value, scale * (error + (abs(value) + error) * math.expm1(min(relative, 700.0)))

    def delta(self, epsilon: float) -> Bound:
        """The bracket on delta at any real epsilon."""
        low, high = self.infinite
        if epsilon == -math.inf:
            return Bound(1.0, 1.0, METHOD)
        if self.void or epsilon >= self.top + 2 * self.jitter:
            return Bound(low, high, METHOD)
        t = self.tilt_for(epsilon)
        return Bound(min(1.0, low + self.finite(t, epsilon, -1)), min(1.0, high + self.finite(t, epsilon, 1)), METHOD)

    def epsilon(self, delta: float) -> Bound:
        """The bracket on the smallest epsilon >= 0 at this delta; infinite where none will do."""
        low = self._root(delta - self.infinite[0], -1)
        high = self._root(delta - self.infinite[1], 1)
        return Bound(low, max(low, high), METHOD)

    def _root(self, target: float, side: int) -> float:
        """The safe side of the smallest epsilon >= 0 at which the finite part of delta is at most `target`."""
        if target < 0:
            return math.inf
        ceiling = max(self.top + side * self.jitter, 0.0)
        if self.void or ceiling == 0 or target >= 1:
            return 0.0
        if target < 1e-290:  # no double can tell this from none at all
            return ceiling if side > 0 or target == 0 else self._root(1e-290, side)
        if target not in self._estimates:
            self._estimates[target] = self._estimate(target)
        t, root, slope = self._estimates[target]
        # Step outwards from the estimate until the certified figure is on the right side, then back half the last step a few times.
        certified = self.finite(t, root, side)
        pad = 2 * UNIT * abs(root) + max(side * (certified - target), 0.0) / max(slope, 1e-300)
        inner = end = root
        while side * (certified - target) > 0 and end != (ceiling if side > 0 else 0.0):
            inner, end = end, min(max(root + side * pad, 0.0), ceiling)
            certified = self.finite(t, end, side)
            pad *= 1.5
        for _ in range(8):
            if abs(end - inner) <= 1e-12 * abs(end):
                break
            middle = 0.5 * (inner + end)
            inner, end = (inner, middle) if side * (self.finite(t, middle, side) - target) <= 0 else (middle, end)
        return end

    def _estimate(self, target: float) -> tuple[float, float, float]:
        """The tilt, the root of the estimate and minus its slope there."""
        goal = math.log(target)
        t = _crossing(lambda s: goal - self._saddle(s)[1], *self._tilts)
        guess = self._saddle(t)[0]

        def height(epsilon: float) -> float:
            """log(delta / target) above the root, delta / target - 1 below it, where delta may vanish."""
            nonlocal t
            value, error = self._payoff(t, epsilon, 0)
            if error > 0.01 * max(value, target):  # this tilt does not reach so far
                t = self.tilt_for(epsilon)
                value, _ = self._payoff(t, epsilon, 0)
            return value / target - 1 if value < target else math.log(value / target)

        for _ in range(5):
            stride = 0.1 / t
            high = low = min(max(guess, 0.0), self.top)
            above = below = height(high)
            while above > 0 and high < self.top:
                low, below = high, above
                high, stride = min(high + stride, self.top), 4 * stride
                above = height(high)
            while below <= 0 and low > 0:
                high, above = low, below
                low, stride = max(low - stride, 0.0), 4 * stride
                below = height(low)
            guess = _secant(height, low, below, high, above) if below > 0 > above else (high if below > 0 else 0.0)
            if self._payoff(t, guess, 0)[1] <= 1e-9 * target:
                break
            better = self.tilt_for(guess)
            if abs(math.log(better / t)) < 0.05:
                break
            t = better
        nearby = max(guess - 1e-3 / (t + 1), 0.0)
        slope = (self.finite(t, nearby, 0) - self.finite(t, guess, 0)) / (guess - nearby) if guess > nearby else 0.0
        return t, guess, slope


def _secant(height: Callable[[float], float], low: float, below: float, high: float, above: float) -> float:
    """The root of a decreasing function in a bracket: false position with halved ends (Illinois), and bisection where that creeps."""
    kept, width = 0, high - low
    for turn in range(120):
        if high - low <= 2 * UNIT * high:
            break
        middle = low + (high - low) * below / (below - above)
        if not math.isfinite(middle):  # a height beyond the range of doubles
            middle = 0.5 * (low + high)
        if turn % 3 == 2:
            if high - low > 0.5 * width:
                middle = 0.5 * (low + high)
            width = high - low
        middle = min(max(middle, low + UNIT * high), high - UNIT * high)
        value = height(middle)
        if abs(value) < 1e-15:
            return middle
        if value > 0:
            low, below = middle, value
            above *= 0.5 if kept > 0 else 1.0
            kept = 1
        else:
            high, above = middle, value
            below *= 0.5 if kept < 0 else 1.0
            kept = -1
    return high


def _log_rest(infinite: float) -> float:
    return math.log1p(-infinite) if infinite < 1 else -math.inf
