"""The contour integral in ball arithmetic: `build` encloses delta on a line, `one_step` a single use, and both are proofs.

Balls (Johansson 2017) carry every rounding, at the current precision of python-flint. A proof starts from an
`ExactMixture`, mixtures of Gaussians with rational parameters, and the rest is bounded by the theorems below. A
`Design` or a `Rule` is only a proposal, chosen in floating point: a bad one makes a wide enclosure or a refusal,
never a false one.

>>> found = one_step(exact_gaussian(1), to_ball(1.0))  # Phi(-1/2) - e Phi(-3/2)
>>> abs(float(found.mid()) - 0.12693673750664397) < 1e-14 and found.is_finite()
True
>>> rule = coarsest_rule(exact_poisson_gaussian(Fraction(1, 100), 1), c=3.0, digits=30.0)
>>> 0 < rule.height < rule.top and rule.low + (rule.size - 1) * rule.step == rule.high
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
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from tacit.accounting.engines.contour import Declined, Plan, plan
from tacit.accounting.pairs.mixture import MixturePair
from tacit.accounting.pairs.pair import Array
from tacit.errors import ParameterError
from tacit.parameters import Number, count, positive, probability

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


if TYPE_CHECKING:
    from flint import acb, acb_mat, arb

_FAR = 2**20  # outputs beyond which the Gaussian tail is nothing


def to_ball(value: Fraction | float) -> arb:
    from flint import arb, fmpq

    return arb(value) if isinstance(value, float) else arb(fmpq(value.numerator, value.denominator))


class Balls:
    """One mixture at the current precision: logarithms of A and B off the real line, and the bounds of the module's docstring."""

    def __init__(self, mixture: ExactMixture) -> None:
        self.mixture = mixture
        self.ranges = tuple(to_ball(r) for r in mixture.ranges())
        self.sides = []
        for parts, sign in ((mixture.up, 1), (mixture.down, -1)):
            middle = (parts[0][0] + parts[-1][0]) / 2
            # turned by the middle angle, all terms are within a right angle of the real axis: the principal logarithm is continuous
            terms = [(to_ball(sign * (m - middle)), to_ball(w) * (-to_ball(m * m / 2)).exp()) for m, w in parts]
            self.sides.append((to_ball(sign * middle), terms))

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
        result = (to_ball(y * y) / 2).exp()
        for power, width in ((max(-c - 1, Fraction(0)), self.ranges[0]), (max(c, Fraction(0)), self.ranges[1])):
            if not width * to_ball(y) < width.pi():
                raise Declined("the strip is too wide")
            result /= (width * to_ball(y) / 2).cos() ** to_ball(power)
        return result

    def density(self, c: Fraction, x: arb) -> arb:
        """g(x)."""
        from flint import acb

        log_a, log_b = self.logs(acb(x))
        exponent = to_ball(c + 1) * log_a - to_ball(c) * log_b - x * x / 2
        return exponent.real.exp() / (2 * to_ball(1).pi()).sqrt()

    def ends(self, c: Fraction, rule: Rule) -> arb:
        """What lies beyond the ends of the rule, over F of the height."""
        total = to_ball(0)
        for x, sign, outer, inner in ((to_ball(rule.low), -1, 0, -1), (to_ball(rule.high), 1, -1, 0)):
            m = self._mean(0, x) if c < -1 else to_ball(self.mixture.up[outer][0])
            n = self._mean(1, x) if c > 0 else to_ball(self.mixture.down[inner][0])
            slope = sign * (x - to_ball(c + 1) * m - to_ball(c) * n)
            if not slope > 1:
                raise Declined("the ends are too near")
            total += self.density(c, x) / slope
        return total

    def _mean(self, side: int, x: arb) -> arb:
        """m(x) or n(x)."""
        middle, terms = self.sides[side]
        weights = [weight * (rate * x).exp() for rate, weight in terms]
        slope = middle + sum((rate * w for (rate, _), w in zip(terms, weights, strict=True)), to_ball(0)) / sum(weights, to_ball(0))
        return -slope if side else slope

    def nodes(self, c: Fraction, rule: Rule) -> tuple[list[acb], list[acb], arb, arb]:
        """Terms f h and losses at the nodes; the error of the sum over phi(c), and a further absolute error."""
        from flint import acb

        scale, half = to_ball(rule.step) / (2 * to_ball(1).pi()).sqrt(), to_ball(Fraction(1, 2))
        up, down = to_ball(c + 1), to_ball(c)
        terms, losses = [], []
        for j in range(rule.size):
            u = acb(to_ball(rule.low + j * rule.step), to_ball(rule.height))
            log_a, log_b = self.logs(u)
            terms.append(scale * (up * log_a - down * log_b - half * u * u).exp())
            losses.append(log_a - log_b)
        if not 0 < rule.height < rule.top:
            raise Declined("the line is outside its strip")
        turn = 2 * to_ball(1).pi() / to_ball(rule.step)
        alias = 1 / (turn * to_ball(rule.height)).expm1() + self.factor(c, rule.top) / (turn * to_ball(rule.top - rule.height)).expm1()
        return terms, losses, alias, self.factor(c, rule.height) * self.ends(c, rule)

    def moment(self, c: Fraction, digits: float) -> arb:
        """phi(c)."""
        shift = self.mixture.total_shift()
        if shift is not None:
            return to_ball(shift * shift * c * (c + 1) / 2).exp()
        terms, _, alias, cut = self.nodes(c, coarsest_rule(self.mixture, float(c), digits))
        return _moment(sum(terms[1:], terms[0]).real, alias, cut)

    def tail(self, c: Fraction, t: Fraction, y: Fraction, digits: float, moment: arb) -> arb:
        """A bound on |phi(c + is)| for every s >= t, given phi(c)."""
        from flint import acb, arb

        shift = self.mixture.total_shift()
        if shift is not None:
            return to_ball(shift * shift * (c * (c + 1) - t * t) / 2).exp()
        rule = tail_rule(self.mixture, float(c), float(y), digits)
        width = rule.top - y
        if not (0 < width <= y or (width > 0 and 2 * rule.top * max(self.mixture.ranges()) <= 3)):
            raise Declined("the strip of the modulus is too wide")
        up, down, total = acb(to_ball(c + 1), to_ball(t)), acb(to_ball(c), to_ball(t)), arb(0)
        for j in range(rule.size):
            u = acb(to_ball(rule.low + j * rule.step), to_ball(y))
            log_a, log_b = self.logs(u)
            total += (up * log_a - down * log_b - u * u / 2).real.exp()
        total *= to_ball(rule.step) / (2 * arb.pi()).sqrt()
        strip = (self.factor(c, rule.top) * self.factor(c, abs(width - y))).sqrt()
        alias = 2 * strip / (2 * arb.pi() * to_ball(width) / to_ball(rule.step)).expm1()
        return total + alias * moment + self.factor(c, y) * self.ends(c, rule)


def _moment(total: arb, alias: arb, cut: arb) -> arb:
    """phi(c) from a sum that errs by at most alias phi(c) + cut."""
    if not alias < 1:
        raise Declined("the quadrature is too coarse")
    return ((total - cut) / (1 + alias)).union((total + cut) / (1 - alias))


@dataclass(frozen=True)
class Line:
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


def support(mixtures: Mixtures) -> tuple[arb, arb]:
    """The smallest and the largest loss of the composition."""
    from flint import arb

    bottom, top = arb(0), arb(0)
    for mixture, steps in mixtures:
        (m_low, w), (n_low, v) = mixture.up[0], mixture.down[0]
        bottom += steps * to_ball(w).log() if m_low == 0 == mixture.down[-1][0] else arb.neg_inf()
        top -= steps * to_ball(v).log() if n_low == 0 == mixture.up[-1][0] else arb.neg_inf()
    return bottom, top


def build(mixtures: Mixtures, design: Design) -> Line:
    """Enclose everything on the line that does not depend on epsilon."""
    from flint import acb, acb_mat, arb

    c, right, left = Fraction(design.c), Fraction(design.right), Fraction(design.left)
    if not (0 < c < right and left > 0 and design.step > 0 and design.size > 1):
        raise Declined("the curve's tail cannot be bounded on this line")
    h, line = to_ball(design.step), to_ball(design.c)
    columns = math.isqrt(design.size - 1) + 1
    rows = -(-design.size // columns)
    times = [h * k for k in range(rows * columns)]
    last = Fraction(design.step) * (rows * columns - 1)
    product = [h / arb.pi() / (acb(line, t) * acb(line + 1, t)) for t in times]
    product[0] /= 2
    truncation, moments = 1 / (arb.pi() * to_ball(last)), {right: arb(1), -left: arb(1)}
    for (mixture, steps), (height, digits) in zip(mixtures, design.tails, strict=True):
        balls, shift = Balls(mixture), mixture.total_shift()
        if shift is not None:
            half = to_ball(shift * shift / 2)
            values = [(half * acb(line, t) * acb(line + 1, t)).exp() for t in times]
        else:
            terms, losses, alias, cut = balls.nodes(c, coarsest_rule(mixture, design.c, design.digits))
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
    aliases = (to_ball(right), moments[right]), (to_ball(left), moments[-left])
    return Line(line, h, acb_mat(rows, columns, product), truncation, *aliases, *support(mixtures))


def one_step(mixture: ExactMixture, epsilon: arb) -> arb:
    """delta of a single use, P(U > u) - e^eps Q(U > u) at its maximum over u, which is where the loss crosses eps."""
    from flint import acb, arb

    balls, root = Balls(mixture), arb(2).sqrt()

    def above(u: arb) -> bool | None:
        log_a, log_b = balls.logs(acb(u))
        loss = (log_a - log_b).real
        return True if loss > epsilon else False if loss < epsilon else None

    def beyond(u: arb, parts: Parts, sign: int) -> arb:
        return sum((to_ball(w) * ((u - sign * to_ball(m)) / root).erfc() for m, w in parts), arb(0)) / 2

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
