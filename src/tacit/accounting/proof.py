"""Brackets that are theorems: the contour integral in ball arithmetic, every error bounded, the result rounded outwards.

The figures of `tacit.accounting.contour` rest on floating point whose rounding is estimated. Here the same integral is enclosed by
arithmetic on balls (Johansson 2017), starting from exact rationals, so that what comes out is a proof. It covers compositions, in one
direction, of mixtures of Gaussians: the Gaussian mechanism, Poisson sampling of it, groups, and replacement under sampling.

>>> training = [(exact_poisson_gaussian(Fraction(1, 100), 1), 1000)]
>>> found = certified_epsilon(training, Fraction(1, 10**5))
>>> found.lower <= 1.8282366665165769 <= found.upper and found.width < 1e-14
True

Floating point only chooses where to integrate. In the notation of `ExactMixture`, with phi(z) = E[exp(z L)] for one step, N the
standard normal density, A = dP/dN and B = dQ/dN, what is proved is this.

1. **Strip.** Let a and b be the ranges of the shifts of P and of Q, and 0 <= y < pi / max(a, b). The terms of A(x + iy) have angles
   between y min(m) and y max(m), less than pi apart: so A has no zero there, |A(x + iy)| lies between A(x) cos(a y / 2) and A(x), and
   the continuous arg A between y min(m) and y max(m). In the same way arg B lies between -y max(n) and -y min(n). Hence
   f(u) = N(u) A(u)^(z+1) B(u)^-z at z = c + it, t >= 0, obeys |f(x + iy)| <= F(y) g(x), where g is f at t = 0 on the real line
   and F(y) = exp(y^2 / 2) sec(a y / 2)^max(-c - 1, 0) sec(b y / 2)^max(c, 0): the frequency only helps, as arg A - arg B >= 0.
2. **Quadrature.** By Cauchy, phi(z) is the integral of f along Im u = y0. The trapezoidal rule with step h on that line errs by
   at most phi(c) [1 / (exp(2 pi y0 / h) - 1) + F(y1) / (exp(2 pi (y1 - y0) / h) - 1)] for 0 < y0 < y1 < pi / max(a, b), whatever the
   frequency: move the line down to the real axis for one half of the aliases and up to y1 for the other (after Trefethen and
   Weideman 2014, Theorem 5.1).
3. **Ends.** (log g)'(x) = -x + (c + 1) m(x) + c n(x), where m and n are means of the shifts, weighted by the terms of A and B at x: so m
   increases and n decreases. Beyond an end x this bounds the slope by its value there, with the extreme shift for m if c + 1 > 0 and
   for n if c < 0. Where log g so falls at slope X or more, all nodes beyond x contribute at most F(y) g(x) / X.
4. **Frequencies not summed.** |phi(c + is)| <= integral of |f(x + iy)| dx at s = t, for every s >= t and any one y, again as
   arg A - arg B >= 0. The integrand continues to x + iv as the root of f(x + iv + iy) at t times f(x + iv - iy) at -t, of modulus at most
   g(x) sqrt(F(y + v) F(|y - v|)) if arg A increases and arg B decreases from height v - y to v + y. They do if |v| <= y, because they have
   opposite signs there, and if (y + |v|) max(a, b) <= pi / 2, because then d arg A / dy is a sum of positive terms. So the trapezoidal
   rule errs by at most 2 phi(c) sqrt(F(y + v) F(|y - v|)) / (exp(2 pi v / h) - 1), with all frequencies and all ends as before.
5. **Aliases.** The trapezoidal sum over all frequencies k h is the sum over integers j of exp(c j W) delta(eps + j W), W = 2 pi / h.
   For j > 0, delta(x) <= exp(K(c') - c' x), c' > c. For j < 0 either delta(x) = 1 - E[min(1, exp(x - L))], the mean at most
   exp(K(-s) + s x) for 0 <= s <= 1, or delta(x) = 1 - exp(x) + E[(exp(x - L) - 1)_+], the mean at most that for s >= 1; for x below
   all losses the last mean is 0, and for x above all of them delta(x) is.

Precision is a global setting of python-flint: do not call this from several threads at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tacit.accounting.bound import Bound
from tacit.accounting.errors import ParameterError, UnsupportedError
from tacit.accounting.events import Composed, Event, Group, Repeated, Sampled
from tacit.accounting.leaves import Gaussian
from tacit.accounting.mixture import MixturePair
from tacit.accounting.pairs import Array, Pair, Trivial
from tacit.accounting.parameters import Number, count, number, positive, probability
from tacit.accounting.saddle import Declined, Plan, plan, search
from tacit.accounting.schemes import Poisson

if TYPE_CHECKING:
    from flint import acb, acb_mat, arb

    from tacit.accounting.components import Resolved

METHOD = "contour integral in ball arithmetic"
_ONE_STEP = "closed form in ball arithmetic"
_BITS = 320  # for closed forms
_FAR = 2**20  # outputs beyond which the Gaussian tail is nothing
_DECLINED = "no proof within reach: {}; ask without certify=True"
# log of delta over each error, and the frequencies times nodes allowed for it: 19 digits where they are cheap, 13 at most elsewhere
_PRECISIONS = ((44.0, 5_000_000), (36.0, 8_000_000), (30.0, 12_000_000))

Parts = tuple[tuple[Fraction, Fraction], ...]


@dataclass(frozen=True)
class ExactMixture:
    """P = sum w_k N(+m_k, 1) against Q = sum v_k N(-n_k, 1): `up` holds the exact (m_k, w_k), `down` the exact (n_k, v_k).

    >>> ExactMixture(((Fraction(0), Fraction(3, 4)), (Fraction(1), Fraction(1, 4)))).down
    ((Fraction(0, 1), Fraction(1, 1)),)
    """

    up: Parts
    down: Parts = ((Fraction(0), Fraction(1)),)

    def __post_init__(self) -> None:
        for name in ("up", "down"):
            merged: dict[Fraction, Fraction] = {}
            for shift, weight in getattr(self, name):
                if shift < 0 or weight < 0:
                    raise ParameterError(f"{name} must hold shifts and weights of zero or more, not ({shift}, {weight})")
                if weight:
                    merged[Fraction(shift)] = merged.get(Fraction(shift), Fraction(0)) + Fraction(weight)
            if sum(merged.values()) != 1:
                raise ParameterError(f"{name} must have weights that sum to exactly 1; give them as Fractions")
            object.__setattr__(self, name, tuple(sorted(merged.items())))

    @classmethod
    def of(cls, pair: MixturePair) -> ExactMixture:
        """The pair whose parameters are the stored binary fractions; the largest weight is one minus the others.

        >>> ExactMixture.of(MixturePair([(0.0, 0.75), (2.0, 0.25)])) == exact_poisson_gaussian(Fraction(1, 4), Fraction(1, 2))
        True
        """

        def parts(rows: Sequence[tuple[float, float]]) -> Parts:
            exact = sorted(((Fraction(m), Fraction(w)) for m, w in rows), key=lambda row: row[1])
            return (*exact[:-1], (exact[-1][0], 1 - sum((w for _, w in exact[:-1]), Fraction(0))))

        return cls(parts(pair.up), parts(pair.down))

    def reverse(self) -> ExactMixture:
        """The other direction."""
        return ExactMixture(self.down, self.up)

    def pair(self) -> MixturePair:
        """The same in floating point."""
        return MixturePair([(float(m), float(w)) for m, w in self.up], [(float(n), float(v)) for n, v in self.down])

    def total_shift(self) -> Fraction | None:
        """m + n where both sides are single Gaussians, else None."""
        return self.up[0][0] + self.down[0][0] if len(self.up) == len(self.down) == 1 else None

    def ranges(self) -> tuple[Fraction, Fraction]:
        """The ranges of the shifts of P and of Q."""
        return self.up[-1][0] - self.up[0][0], self.down[-1][0] - self.down[0][0]


Mixtures = Sequence[tuple[ExactMixture, int]]
Components = Sequence[tuple[MixturePair | ExactMixture, int]]


def exact_gaussian(noise_multiplier: Number, group: int = 1) -> ExactMixture:
    """The Gaussian mechanism; a float is taken as the binary fraction it is.

    >>> exact_gaussian(0.5).up
    ((Fraction(2, 1), Fraction(1, 1)),)
    """
    return ExactMixture(((count("group", group) / Fraction(positive("noise_multiplier", noise_multiplier)), Fraction(1)),))


def exact_poisson_gaussian(rate: Number, noise_multiplier: Number, group: int = 1) -> ExactMixture:
    """Removal of a group of records from a Poisson-sampled Gaussian sum; `.reverse()` is the addition.

    >>> exact_poisson_gaussian(Fraction(256, 60000), 1).up[1]
    (Fraction(1, 1), Fraction(8, 1875))
    """
    q, sigma, size = Fraction(probability("rate", rate)), Fraction(positive("noise_multiplier", noise_multiplier)), count("group", group)
    return ExactMixture(tuple((k / sigma, math.comb(size, k) * q**k * (1 - q) ** (size - k)) for k in range(size + 1)))


def exact_poisson_gaussian_replaced(rate: Number, noise_multiplier: Number) -> ExactMixture:
    """Replacement of one record in a Poisson-sampled Gaussian sum of clipped terms.

    >>> pair = exact_poisson_gaussian_replaced(Fraction(1, 10), 2)
    >>> pair == pair.reverse()
    True
    """
    up = exact_poisson_gaussian(rate, noise_multiplier).up
    return ExactMixture(up, up)


# --- where to integrate: floating point, nothing here needs to be true -----------------------------------------------------------


@dataclass(frozen=True)
class _Rule:
    """A trapezoidal rule from low to high along Im u = height, and the top of the strip in which it is bounded."""

    low: Fraction
    high: Fraction
    step: Fraction
    size: int
    height: Fraction
    top: Fraction


@dataclass(frozen=True)
class _Design:
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


def _log(value: Fraction) -> float:
    return math.log(value.numerator) - math.log(value.denominator)


def _widest(mixture: ExactMixture) -> float:
    return math.pi / max(float(max(mixture.ranges())), 1e-9)


def _ends(mixture: ExactMixture, c: float, depth: float) -> tuple[Fraction, Fraction]:
    """The nearest outputs beyond which g falls, and is less than exp(-depth) phi(c); rounded outwards to eighths."""
    goal = mixture.pair().kappa(c) - depth

    def side(parts: Parts, sign: int, x: float) -> tuple[float, float]:
        logs = [_log(w) + sign * float(m) * x - 0.5 * float(m) ** 2 for m, w in parts]
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


def _grid(mixture: ExactMixture, c: float, digits: float, step: float, height: float, top: float) -> _Rule:
    """The rule with this step, or slightly less, between ends beyond which there is about exp(-digits)."""
    low, high = _ends(mixture, c, digits + float(_growth(mixture, c, np.array(height))))
    size = math.ceil(float(high - low) / step) + 1
    return _Rule(low, high, (high - low) / (size - 1), size, Fraction(height), Fraction(top))


def _rule(mixture: ExactMixture, c: float, digits: float) -> _Rule:
    """The coarsest rule with an error of about exp(-digits), relative to phi(c), at every frequency."""
    y = min(0.999 * _widest(mixture), 40.0) * np.linspace(0.02, 1.0, 99)
    steps = 2 * math.pi * y / (2 * digits + 3 + _growth(mixture, c, y))
    best = int(np.argmax(steps))
    step = float(steps[best])
    return _grid(mixture, c, digits, step, (digits + 1) * step / (2 * math.pi), float(y[best]))


def _tail_rule(mixture: ExactMixture, c: float, height: float, digits: float) -> _Rule:
    """A rule for the modulus at this height with an error of about exp(-digits), relative to phi(c)."""
    widest = _widest(mixture)
    width = min(max(0.99 * height, 0.47 * widest - height), 0.97 * widest - height, 6.0) * np.linspace(0.02, 1.0, 50)
    growth = 0.5 * (_growth(mixture, c, width + height) + _growth(mixture, c, np.abs(width - height)))
    steps = 2 * math.pi * width / (digits + 1 + growth)
    best = int(np.argmax(steps))
    return _grid(mixture, c, digits, float(steps[best]), height, height + float(width[best]))


def _decay(mixture: ExactMixture, c: float) -> Callable[[float], tuple[float, float]]:
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


def _floating(mixtures: Mixtures) -> list[tuple[MixturePair, int]]:
    return [(mixture.pair(), steps) for mixture, steps in mixtures]


def _design(mixtures: Mixtures, table: Plan, epsilon: float, log_delta: float, digits: float, limit: int) -> _Design:
    """The line with the fewest frequencies whose errors are about exp(-digits) of delta."""
    pairs = _floating(mixtures)
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
    rules = [_rule(mixture, c, quadrature) for mixture, _ in mixtures if mixture.total_shift() is None]
    work = sum(rule.size for rule in rules) + 100
    decays = [(_decay(mixture, c), steps) for mixture, steps in mixtures]
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
    return _Design(c, step, size, far, slope, tails, quadrature, 64 + math.ceil((quadrature + lost) / math.log(2)))


# --- the proof: balls from here on ----------------------------------------------------------------------------------------------


def _ball(value: Fraction | float) -> arb:
    from flint import arb, fmpq

    return arb(value) if isinstance(value, float) else arb(fmpq(value.numerator, value.denominator))


class _Balls:
    """One mixture at the current precision: logarithms of A and B off the real line, and the bounds of the module's docstring."""

    def __init__(self, mixture: ExactMixture) -> None:
        self.mixture = mixture
        self.ranges = tuple(_ball(r) for r in mixture.ranges())
        self.sides = []
        for parts, sign in ((mixture.up, 1), (mixture.down, -1)):
            middle = (parts[0][0] + parts[-1][0]) / 2
            # turned by the middle angle, all terms are within a right angle of the real axis: the principal logarithm is continuous
            terms = [(_ball(sign * (m - middle)), _ball(w) * (-_ball(m * m / 2)).exp()) for m, w in parts]
            self.sides.append((_ball(sign * middle), terms))

    def logs(self, u: acb) -> tuple[acb, acb]:
        """log A(u) and log B(u)."""
        from flint import acb

        found = []
        for middle, terms in self.sides:
            total = acb(0)
            for rate, weight in terms:
                total += weight * (rate * u).exp()
            found.append(middle * u + total.log())
        return found[0], found[1]

    def factor(self, c: Fraction, y: Fraction) -> arb:
        """F(y)."""
        result = (_ball(y * y) / 2).exp()
        for power, width in ((max(-c - 1, Fraction(0)), self.ranges[0]), (max(c, Fraction(0)), self.ranges[1])):
            if not width * _ball(y) < width.pi():
                raise Declined("the strip is too wide")
            result /= (width * _ball(y) / 2).cos() ** _ball(power)
        return result

    def density(self, c: Fraction, x: arb) -> arb:
        """g(x)."""
        from flint import acb

        log_a, log_b = self.logs(acb(x))
        exponent = _ball(c + 1) * log_a - _ball(c) * log_b - x * x / 2
        return exponent.real.exp() / (2 * _ball(1).pi()).sqrt()

    def ends(self, c: Fraction, rule: _Rule) -> arb:
        """What lies beyond the ends of the rule, over F of the height."""
        total = _ball(0)
        for x, sign, outer, inner in ((_ball(rule.low), -1, 0, -1), (_ball(rule.high), 1, -1, 0)):
            m = self._mean(0, x) if c < -1 else _ball(self.mixture.up[outer][0])
            n = self._mean(1, x) if c > 0 else _ball(self.mixture.down[inner][0])
            slope = sign * (x - _ball(c + 1) * m - _ball(c) * n)
            if not slope > 1:
                raise Declined("the ends are too near")
            total += self.density(c, x) / slope
        return total

    def _mean(self, side: int, x: arb) -> arb:
        """m(x) or n(x)."""
        middle, terms = self.sides[side]
        weights = [weight * (rate * x).exp() for rate, weight in terms]
        slope = middle + sum((rate * w for (rate, _), w in zip(terms, weights, strict=True)), _ball(0)) / sum(weights, _ball(0))
        return -slope if side else slope

    def nodes(self, c: Fraction, rule: _Rule) -> tuple[list[acb], list[acb], arb, arb]:
        """Terms f h and losses at the nodes; the error of the sum over phi(c), and a further absolute error."""
        from flint import acb

        scale, half = _ball(rule.step) / (2 * _ball(1).pi()).sqrt(), _ball(Fraction(1, 2))
        up, down = _ball(c + 1), _ball(c)
        terms, losses = [], []
        for j in range(rule.size):
            u = acb(_ball(rule.low + j * rule.step), _ball(rule.height))
            log_a, log_b = self.logs(u)
            terms.append(scale * (up * log_a - down * log_b - half * u * u).exp())
            losses.append(log_a - log_b)
        if not 0 < rule.height < rule.top:
            raise Declined("the line is outside its strip")
        turn = 2 * _ball(1).pi() / _ball(rule.step)
        alias = 1 / (turn * _ball(rule.height)).expm1() + self.factor(c, rule.top) / (turn * _ball(rule.top - rule.height)).expm1()
        return terms, losses, alias, self.factor(c, rule.height) * self.ends(c, rule)

    def moment(self, c: Fraction, digits: float) -> arb:
        """phi(c)."""
        shift = self.mixture.total_shift()
        if shift is not None:
            return _ball(shift * shift * c * (c + 1) / 2).exp()
        terms, _, alias, cut = self.nodes(c, _rule(self.mixture, float(c), digits))
        return _moment(sum(terms[1:], terms[0]).real, alias, cut)

    def tail(self, c: Fraction, t: Fraction, y: Fraction, digits: float, moment: arb) -> arb:
        """A bound on |phi(c + is)| for every s >= t, given phi(c)."""
        from flint import acb, arb

        shift = self.mixture.total_shift()
        if shift is not None:
            return _ball(shift * shift * (c * (c + 1) - t * t) / 2).exp()
        rule = _tail_rule(self.mixture, float(c), float(y), digits)
        width = rule.top - y
        if not (0 < width <= y or (width > 0 and 2 * rule.top * max(self.mixture.ranges()) <= 3)):
            raise Declined("the strip of the modulus is too wide")
        up, down, total = acb(_ball(c + 1), _ball(t)), acb(_ball(c), _ball(t)), arb(0)
        for j in range(rule.size):
            u = acb(_ball(rule.low + j * rule.step), _ball(y))
            log_a, log_b = self.logs(u)
            total += (up * log_a - down * log_b - u * u / 2).real.exp()
        total *= _ball(rule.step) / (2 * arb.pi()).sqrt()
        strip = (self.factor(c, rule.top) * self.factor(c, abs(width - y))).sqrt()
        alias = 2 * strip / (2 * arb.pi() * _ball(width) / _ball(rule.step)).expm1()
        return total + alias * moment + self.factor(c, y) * self.ends(c, rule)


def _moment(total: arb, alias: arb, cut: arb) -> arb:
    """phi(c) from a sum that errs by at most alias phi(c) + cut."""
    if not alias < 1:
        raise Declined("the quadrature is too coarse")
    return ((total - cut) / (1 + alias)).union((total + cut) / (1 - alias))


@dataclass(frozen=True)
class _Line:
    """The summands of the trapezoidal rule but for exp(-z eps), in rows, and everything its errors need."""

    c: arb
    step: arb
    summands: acb_mat
    truncation: arb
    right: tuple[arb, arb]  # c', exp K(c')
    left: tuple[arb, arb]  # s, exp K(-s)
    bottom: arb
    top: arb

    def delta(self, epsilon: arb) -> arb:
        """An enclosure of delta at epsilon."""
        from flint import acb, acb_mat, arb

        rows, columns = self.summands.nrows(), self.summands.ncols()
        angle = -self.step * epsilon
        inner = acb_mat(columns, 1, [acb(0, angle * k).exp() for k in range(columns)])
        outer = acb_mat(1, rows, [acb(0, angle * columns * k).exp() for k in range(rows)])
        period = 2 * arb.pi() / self.step
        value = (-self.c * epsilon).exp() * ((outer * self.summands * inner)[0, 0].real + arb(0, self.truncation.abs_upper()))
        value -= 1 / (self.c * period).expm1()
        if not epsilon + period >= self.top:
            c, moment = self.right
            value -= _from_zero(moment * (-c * epsilon).exp() / ((c - self.c) * period).expm1())
        s, moment = self.left
        second = epsilon.exp() / ((self.c + 1) * period).expm1()
        rest = _from_zero(moment * (s * epsilon).exp() / ((s + self.c) * period).expm1())
        if epsilon - period <= self.bottom:
            return value + second
        return value + second - rest if s > 1 else value + rest


def _from_zero(upper: arb) -> arb:
    from flint import arb

    return arb(0).union(upper)


def _support(mixtures: Mixtures) -> tuple[arb, arb]:
    """The smallest and the largest loss of the composition."""
    from flint import arb

    bottom, top = arb(0), arb(0)
    for mixture, steps in mixtures:
        (m_low, w), (n_low, v) = mixture.up[0], mixture.down[0]
        bottom += steps * _ball(w).log() if m_low == 0 == mixture.down[-1][0] else arb.neg_inf()
        top -= steps * _ball(v).log() if n_low == 0 == mixture.up[-1][0] else arb.neg_inf()
    return bottom, top


def _build(mixtures: Mixtures, design: _Design) -> _Line:
    """Enclose everything on the line that does not depend on epsilon."""
    from flint import acb, acb_mat, arb

    c, right, left = Fraction(design.c), Fraction(design.right), Fraction(design.left)
    if not (0 < c < right and left > 0 and design.step > 0 and design.size > 1):
        raise Declined("the curve's tail cannot be bounded on this line")
    h, line = _ball(design.step), _ball(design.c)
    columns = math.isqrt(design.size - 1) + 1
    rows = -(-design.size // columns)
    times = [h * k for k in range(rows * columns)]
    last = Fraction(design.step) * (rows * columns - 1)
    product = [h / arb.pi() / (acb(line, t) * acb(line + 1, t)) for t in times]
    product[0] /= 2
    truncation, moments = 1 / (arb.pi() * _ball(last)), {right: arb(1), -left: arb(1)}
    for (mixture, steps), (height, digits) in zip(mixtures, design.tails, strict=True):
        balls, shift = _Balls(mixture), mixture.total_shift()
        if shift is not None:
            half = _ball(shift * shift / 2)
            values = [(half * acb(line, t) * acb(line + 1, t)).exp() for t in times]
        else:
            terms, losses, alias, cut = balls.nodes(c, _rule(mixture, design.c, design.digits))
            # exp(i t l) for all frequencies and nodes at once: every t is one of few large steps plus one of few small ones
            nodes = list(zip(terms, losses, strict=True))
            outer = acb_mat([[w * acb(-t * x.imag, t * x.real).exp() for w, x in nodes] for t in times[::columns]])
            inner = acb_mat([[acb(-t * x.imag, t * x.real).exp() for x in losses] for t in times[:columns]])
            values = (outer * inner.transpose()).entries()
            radius = arb(0, (alias * _moment(values[0].real, alias, cut) + cut).abs_upper())
            error = acb(radius, radius)
            values = [value + error for value in values]
        product = [so_far * value**steps for so_far, value in zip(product, values, strict=True)]
        truncation *= balls.tail(c, last, Fraction(height), digits, values[0].real) ** steps
        for point in moments:
            moments[point] *= balls.moment(point, 30.0) ** steps
    aliases = (_ball(right), moments[right]), (_ball(left), moments[-left])
    return _Line(line, h, acb_mat(rows, columns, product), truncation, *aliases, *_support(mixtures))


def _one_step(mixture: ExactMixture, epsilon: arb) -> arb:
    """delta of a single use, P(U > u) - e^eps Q(U > u) at its maximum over u, which is where the loss crosses eps."""
    from flint import acb, arb

    balls, root = _Balls(mixture), arb(2).sqrt()

    def above(u: arb) -> bool | None:
        log_a, log_b = balls.logs(acb(u))
        loss = (log_a - log_b).real
        return True if loss > epsilon else False if loss < epsilon else None

    def beyond(u: arb, parts: Parts, sign: int) -> arb:
        return sum((_ball(w) * ((u - sign * _ball(m)) / root).erfc() for m, w in parts), arb(0)) / 2

    def value(u: arb) -> arb:
        return beyond(u, mixture.up, 1) - epsilon.exp() * beyond(u, mixture.down, -1)

    low, high = arb(-1), arb(1)
    while above(low) is not False and low > -_FAR:
        low *= 2
    while above(high) is not True and high < _FAR:
        high *= 2
    # the loss never crosses eps within reach: all of P beyond the end is too little to matter
    if above(low) is not False:
        return value(low) + _from_zero(1 - beyond(low, mixture.up, 1))
    if above(high) is not True:
        return value(high) + _from_zero(beyond(high, mixture.up, 1))
    for _ in range(400):
        middle = ((low + high) / 2).mid()
        side = above(middle)
        if side is None:
            break
        low, high = (low, middle) if side else (middle, high)
    return value(low.union(high))


# --- the answers -----------------------------------------------------------------------------------------------------------------


def _exact(components: Components) -> list[tuple[ExactMixture, int]]:
    """Equal parts merged, and nothing that is trivial."""
    try:
        import flint  # noqa: F401
    except ImportError:
        raise UnsupportedError("certify=True needs python-flint: pip install 'tacit[proof]'") from None
    merged: dict[ExactMixture, int] = {}
    for part, steps in components:
        mixture = ExactMixture.of(part) if isinstance(part, MixturePair) else part
        if not isinstance(mixture, ExactMixture):
            raise UnsupportedError(f"certify=True covers mixtures of Gaussians, not {type(part).__name__}; ask without it")
        if mixture.total_shift() != 0:
            merged[mixture] = merged.get(mixture, 0) + count("count", steps)
    return list(merged.items())


def _is_single(mixtures: Mixtures) -> bool:
    return len(mixtures) == 1 and mixtures[0][1] == 1 and mixtures[0][0].total_shift() is None


def _lay_out(mixtures: Mixtures, table: Plan, epsilon: float, log_delta: float) -> _Design:
    for digits, limit in _PRECISIONS:
        try:
            return _design(mixtures, table, epsilon, log_delta, digits, limit)
        except Declined as error:
            reason = error
    raise reason


def _outwards(ball: arb, floor: float = 0.0, ceiling: float = 1.0) -> tuple[float, float]:
    """Floats on either side of the ball."""
    if not ball.is_finite():
        return floor, ceiling
    low, high = float(ball.lower()), float(ball.upper())
    while low > floor and not _ball(low) <= ball.lower():
        low = math.nextafter(low, -math.inf)
    while high < ceiling and not _ball(high) >= ball.upper():
        high = math.nextafter(high, math.inf)
    return min(max(low, floor), ceiling), max(min(high, ceiling), floor)


def certified_delta(components: Components, epsilon: Number) -> Bound:
    """The bracket on delta at any real epsilon, for one direction: proved, and rounded outwards.

    >>> found = certified_delta([(exact_gaussian(1), 1)], 1)  # Phi(-1/2) - e Phi(-3/2)
    >>> found.lower <= 0.12693673750664397 <= found.upper and found.width < 1e-16
    True
    """
    mixtures, eps = _exact(components), number("epsilon", epsilon)
    from flint import ctx

    if not math.isfinite(eps):
        return Bound(float(eps < 0), float(eps < 0), METHOD)
    exact = Fraction(eps)
    if not mixtures or _is_single(mixtures):
        with ctx.workprec(_BITS):
            ball = _one_step(mixtures[0][0], _ball(exact)) if mixtures else 1 - _ball(min(exact, Fraction(0))).exp()
            return Bound(*_outwards(ball), _ONE_STEP)
    try:
        table = search(_floating(mixtures), lambda p: p.epsilon < float(eps))
        guess = min(float(np.interp(float(eps), table.epsilon, table.log_delta)), 0.0)
        design = _lay_out(mixtures, table, float(eps), guess)
        with ctx.workprec(design.bits):
            return Bound(*_outwards(_build(mixtures, design).delta(_ball(exact))), METHOD)
    except (Declined, OverflowError) as error:
        raise UnsupportedError(_DECLINED.format(error)) from None


def certified_epsilon(components: Components, delta: Number) -> Bound:
    """The bracket on the smallest epsilon >= 0 at a given delta, for one direction: proved, and rounded outwards.

    >>> found = certified_epsilon([(exact_gaussian(1), 1)], 1e-5)
    >>> found.lower <= 4.3771780956812250 <= found.upper and found.width < 1e-14
    True
    """
    mixtures, target = _exact(components), Fraction(probability("delta", delta))
    from flint import ctx

    if not mixtures or target == 1:
        return Bound(0.0, 0.0, METHOD)
    if target == 0 or _is_single(mixtures):
        with ctx.workprec(_BITS):
            if target == 0:
                top = _support(mixtures)[1]
                return Bound(*_outwards(top, 0.0, math.inf), _ONE_STEP) if top.is_finite() else Bound(math.inf, math.inf, _ONE_STEP)
            curve = partial(_one_step, mixtures[0][0])
            return Bound(*_bracket(curve, _ball(target), _solve(curve, _ball(target), 1.0, 1.0)), _ONE_STEP)
    try:
        table = search(_floating(mixtures), lambda p: p.log_delta > _log(target))
        guess = max(float(np.interp(-_log(target), -table.log_delta, table.epsilon)), 0.0)
        for _ in range(4):
            design = _lay_out(mixtures, table, guess, _log(target))
            with ctx.workprec(design.bits):
                line = _build(mixtures, design)
                lower, upper = _bracket(line.delta, _ball(target), _solve(line.delta, _ball(target), guess, design.c))
            # a line laid out for another epsilon proves as much, but perhaps less sharply
            if upper - lower <= 1e-13 * upper or abs(upper - guess) * design.c < 1e-3:
                break
            guess = upper
    except (Declined, OverflowError) as error:
        raise UnsupportedError(_DECLINED.format(error)) from None
    return Bound(lower, upper, METHOD)


def _solve(curve: Callable[[arb], arb], target: arb, guess: float, rate: float) -> arb:
    """Where the midpoints of a decreasing curve cross the target, near enough: Newton on the logarithm, kept inside a bracket."""
    low, high, x = _ball(0), _ball(math.inf), _ball(guess)
    for _ in range(200):
        value = curve(x).mid()
        if value > target:
            low = x
        else:
            high = x
        if not high > 0:
            return high
        nudge = _ball(1e-9) * (x if x > 0 else _ball(1 / rate))
        ahead = curve(x + nudge).mid()
        following = _ball(math.nan)
        if value > ahead and ahead > 0:
            following = (x + nudge * (value / target).log() / (value / ahead).log()).mid()
        if following <= 0:
            following = _ball(0)
        if not (low <= following and following <= high):
            following = ((low + high) / 2).mid() if high.is_finite() else 2 * low + 1 / _ball(rate)
        if abs(following - x) <= _ball(2.0**-70) * x:
            return following
        x = following
    return x


def _bracket(curve: Callable[[arb], arb], target: arb, root: arb) -> tuple[float, float]:
    """The nearest floats, or nearly, at which the curve is proved to be above and below the target."""
    lower = upper = middle = float(root.mid())
    step = math.ulp(middle)
    for _ in range(1100):
        if curve(_ball(upper)) <= target:
            break
        upper, step = middle + step, 2 * step
    else:
        raise Declined("the curve is flat to working precision")
    step = math.ulp(middle)
    while lower > 0 and not curve(_ball(lower)) >= target:
        lower, step = max(middle - step, 0.0), 2 * step
    return lower, upper


def certify(event: Event, parts: Resolved, what: str, value: Number) -> Bound:
    """The worse of the two directions of a resolved event, proved: `what` is "epsilon" at a given delta, or "delta" at a given epsilon.

    Noise multipliers and sampling rates are taken from the event, where they are exact, and not from the pairs, where they are rounded.
    """
    if parts.renyi or parts.allocations or parts.slack or any(step.floor is not None for step in parts.steps):
        raise UnsupportedError("certify=True covers compositions of plain and Poisson-sampled Gaussians; ask without it")
    ask = {"epsilon": certified_epsilon, "delta": certified_delta}[what]
    known = _parameters(event)
    remove = [(_restored(step.remove, *known), step.count) for step in parts.steps if not isinstance(step.remove, Trivial)]
    add = [(_restored(step.add, *known), step.count) for step in parts.steps if not isinstance(step.add, Trivial)]
    # a Gaussian pair, and replacement under sampling, are the same in both directions
    same = [(m.total_shift() or m, n) for m, n in remove] == [(m.total_shift() or m, n) for m, n in add]
    found = ask(remove, value)
    return found if same else found.worst(ask(add, value))


def _parameters(event: Event) -> tuple[set[Fraction], set[Fraction]]:
    """The exact noise multipliers and sampling rates anywhere in the event."""
    if isinstance(event, Gaussian):
        return {Fraction(event.noise_multiplier)}, set()
    noises: set[Fraction] = set()
    rates: set[Fraction] = set()
    if isinstance(event, Sampled) and isinstance(event.scheme, Poisson):
        rates.add(Fraction(event.scheme.rate))
    inner = event.events if isinstance(event, Composed) else (event.event,) if isinstance(event, Repeated | Sampled | Group) else ()
    for child in inner:
        more_noises, more_rates = _parameters(child)
        noises, rates = noises | more_noises, rates | more_rates
    return noises, rates


def _restored(pair: Pair, noises: set[Fraction], rates: set[Fraction]) -> ExactMixture:
    """The exact mixture that the pair is the rounding of; its own binary fractions where the event shows none."""
    if not isinstance(pair, MixturePair):
        raise UnsupportedError(f"certify=True covers mixtures of Gaussians, not {type(pair).__name__}; ask without it")
    group, farthest = max(len(pair.up), len(pair.down)) - 1, max(pair.up[-1][0], pair.down[-1][0])
    for sigma in sorted(noises):
        plain = exact_gaussian(sigma, max(1, round(farthest * float(sigma))))
        candidates = [plain, plain.reverse()]
        for rate in sorted(rates):
            removal = exact_poisson_gaussian(rate, sigma, max(group, 1))
            candidates += [removal, removal.reverse(), exact_poisson_gaussian_replaced(rate, sigma)]
        for candidate in candidates:
            if _near(candidate.pair().up, pair.up) and _near(candidate.pair().down, pair.down):
                return candidate
    return ExactMixture.of(pair)


def _near(rows: tuple[tuple[float, float], ...], others: tuple[tuple[float, float], ...]) -> bool:
    return len(rows) == len(others) and np.allclose(rows, others, rtol=1e-13, atol=0.0)
