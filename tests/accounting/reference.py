"""A 30-digit reference for composed Poisson-sampled Gaussians: it imports nothing from Tacit and is the tests' second opinion.

One step compares the output laws with and without one record: M = (1-q) N(0, sigma^2) + q N(1, sigma^2) and N(0, sigma^2).
"remove" has P = M and Q = N(0), "add" the reverse. With r = dM/dN(0), L = log dP/dQ and m(z) = E[exp(z L)],

    delta(eps) = (1 / 2 pi i) * integral of m(z)^T exp(-z eps) / (z (z + 1)) dz

over any contour from the lower to the upper half plane that crosses the real axis at a point c > 0. The contour is a vertical line or a
branch of a hyperbola. "remove" bends to the right: the loss is bounded below, near that end its law is so smooth that m decays only
like exp(-log^2 |z|) along a vertical line, and a growing real part removes that part exponentially. "add" bends to the left.
Both integrals, over outputs for m and over the contour, use the trapezoidal rule, which converges exponentially for analytic
functions, with halved steps until 32 digits stand still; the arithmetic is python-flint's at 280 bits or more. One step is a
closed form and two are mpmath's quadrature over it, the oracle of the contour. Three to ten steps may be refused with ArithmeticError.

>>> mp.nstr(epsilon("0.9", 5, 100, "1e-5"), 30)
'8.82966672991809383721631444184'

`python -m tests.accounting.reference` prints the table of truths in tests/conformance/test_dpsgd_reference.py.
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import flint
import numpy as np
from mpmath import mp, mpf

Direction = Literal["remove", "add"]
Exact = int | str | Fraction | float  # text and fractions are exact; a float stands for its binary value

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

DIGITS = 34  # correct digits asked of every figure
LEAN = 0.7  # where the contour passes the real axis, as a share of the saddle point
_BENDS = (0.5, 0.0)  # slopes of the contour's asymptotes to try; below 1, so that Gaussian factors still decay
_SCALE = 3.0  # nodes are spread like sinh; nearly evenly over this many widths of the saddle
_EXCESS = 700.0  # nats of cancellation inside m beyond which the next slope is tried

# (q, sigma, T, delta): the accountant's showcases at four deltas, the extremes together and one at a time, and a few more.
CASES: tuple[tuple[str, str, int, str], ...] = (
    ("0.01", "1", 1000, "1e-5"),
    ("0.01", "1", 1000, "1e-10"),
    ("0.01", "1", 1000, "1e-15"),
    ("0.01", "1", 1000, "1e-20"),
    ("256/60000", "1.1", 14062, "1e-5"),
    ("256/60000", "1.1", 14062, "1e-10"),
    ("256/60000", "1.1", 14062, "1e-15"),
    ("256/60000", "1.1", 14062, "1e-20"),
    ("0.001", "0.8", 100_000, "1e-5"),
    ("0.001", "0.8", 100_000, "1e-10"),
    ("0.001", "0.8", 100_000, "1e-15"),
    ("0.001", "0.8", 100_000, "1e-20"),
    ("0.0001", "0.6", 1_000_000, "1e-5"),
    ("0.0001", "0.6", 1_000_000, "1e-10"),
    ("0.0001", "0.6", 1_000_000, "1e-15"),
    ("0.0001", "0.6", 1_000_000, "1e-20"),
    ("0.9", "0.3", 10_000_000, "1e-20"),
    ("0.999", "0.3", 10_000_000, "1e-20"),
    ("0.9", "1", 1000, "1e-5"),
    ("0.999", "1", 1000, "1e-5"),
    ("0.01", "0.3", 1000, "1e-5"),
    ("0.01", "1", 10_000_000, "1e-5"),
    ("0.01", "1", 1000, "1e-30"),
    ("0.001", "1", 1_000_000, "1e-5"),
    ("0.0001", "1", 10_000_000, "1e-5"),
    ("0.001", "5", 10_000_000, "1e-5"),
    ("0.9", "5", 100, "1e-5"),
    ("0.99", "5", 100, "1e-5"),
    ("1e-6", "1", 1_000_000, "1e-5"),
    ("0.01", "4", 10_000, "1e-5"),
    ("0.1", "2", 100, "1e-6"),
)


def fraction(value: Exact) -> Fraction:
    """The exact rational a value stands for.

    >>> fraction("256/60000"), fraction("1e-5")
    (Fraction(8, 1875), Fraction(1, 100000))
    """
    if isinstance(value, str) and "/" in value:
        above, below = value.split("/")
        return Fraction(above) / Fraction(below)
    return Fraction(value)


def _arb(value: Fraction) -> flint.arb:
    return flint.arb(value.numerator) / value.denominator


@dataclass(frozen=True)
class _Plan:
    """Where the contour passes, in double precision: a choice, not a result."""

    c: float
    epsilon: float
    log_delta: float
    deviation: float  # standard deviation of the tilted loss
    log_level: float  # log of the integrand's largest value


@dataclass(frozen=True)
class _Step:
    """One step of the composition, and how many of them."""

    q: Fraction
    sigma: Fraction
    count: int
    direction: Direction

    def loss(self, u: Array) -> Array:
        """log of the density ratio M / N(0) at the outputs u, in units of sigma; log r in the comments."""
        s, q = float(self.sigma), float(self.q)
        return np.logaddexp(math.log1p(-q) if q < 1 else -np.inf, math.log(q) + u / s - 0.5 / s**2)

    def height(self, c: float, u: Array) -> Array:
        """log of the tilted density exp(c L) dP, up to a constant."""
        return -0.5 * u * u + ((c + 1) if self.direction == "remove" else -c) * self.loss(u)

    def window(self, c: float, slack: float) -> tuple[float, float]:
        """Outputs beyond which the tilted density is below exp(-slack) of its peak."""
        power = c + 1 if self.direction == "remove" else -c
        s, q = float(self.sigma), float(self.q)
        # The slope -u + power * (log r)' vanishes between 0 and power / s: once, or three times where two peaks compete.
        low, high = (power / s, 0.0) if power < 0 else (0.0, power / s)
        for _ in range(200):
            middle = 0.5 * (low + high)
            share = 1 / (1 + (1 - q) / q * math.exp(min(0.5 / s**2 - middle / s, 700.0)))
            low, high = (middle, high) if power * share / s > middle else (low, middle)
        far = np.linspace(-1.0, 1.0, 4001) * (math.sqrt(2 * slack) + 1) * 1.5
        u = np.unique(np.concatenate([far, far + low, far + power / s]))
        height = self.height(c, u)
        if self.direction == "add" and c > 0:
            # A negative power of r is larger off the real axis: |r|^2 >= (1-q)^2 + (q exp(...))^2 up to the argument pi/2.
            off = np.logaddexp(2 * math.log1p(-q) if q < 1 else -np.inf, 2 * (math.log(q) + u / s - 0.5 / s**2))
            height = np.maximum(height, -0.5 * u * u - 0.5 * c * off)
        inside = u[height > height.max() - slack]
        return float(inside[0]), float(inside[-1])

    def kappa(self, c: float) -> float:
        """log E[exp(c L)]."""
        return self.tilted(c)[0]

    def tilted(self, c: float) -> tuple[float, float, float]:
        """log E[exp(c L)] and the mean and variance of L under that tilt."""
        u = np.linspace(*self.window(c, 45.0), 4001)
        loss = self.loss(u) if self.direction == "remove" else -self.loss(u)
        height = self.height(c, u)
        peak = float(height.max())
        weight = np.exp(height - peak)
        total = float(weight.sum())
        kappa = peak + math.log(total * (u[1] - u[0])) - 0.5 * math.log(2 * math.pi)
        mean = float(weight @ loss) / total
        return kappa, mean, float(weight @ (loss - mean) ** 2) / total

    def plan(self, c: float) -> _Plan:
        """The saddle-point estimate of (eps, delta) for the tilt c (Daniels 1954)."""
        kappa, mean, variance = self.tilted(c)
        variance *= self.count
        epsilon = self.count * mean - 1 / c - 1 / (c + 1)
        level = self.count * kappa - c * epsilon - math.log(c) - math.log1p(c)
        curvature = variance + 1 / c**2 + 1 / (c + 1) ** 2
        return _Plan(c, epsilon, level - 0.5 * math.log(2 * math.pi * curvature), math.sqrt(variance), level)

    def lean(self, saddle: _Plan, share: float) -> _Plan:
        """The same point of the curve with the contour moved to a share of the saddle's tilt.

        A little left of the saddle the integrand is hardly larger, and the trapezoidal rule has room on both sides: between the pole at 0
        and the tilts where m explodes.
        """
        kappa, _, variance = self.tilted(saddle.c * share)
        c, deviation = saddle.c * share, math.sqrt(self.count * variance)
        return replace(saddle, c=c, deviation=deviation, log_level=self.count * kappa - c * saddle.epsilon - math.log(c) - math.log1p(c))

    def saddle(self, goal: float, quantity: Literal["epsilon", "log_delta"]) -> _Plan:
        """The plan at which the estimate of epsilon (increasing in the tilt) or of log delta (decreasing) reaches the goal."""
        low, high = math.log(1e-9), math.log(1e9)
        for _ in range(60):
            middle = 0.5 * (low + high)
            found = getattr(self.plan(math.exp(middle)), quantity)
            if (found < goal) == (quantity == "epsilon"):
                low = middle
            else:
                high = middle
        return self.plan(math.exp(0.5 * (low + high)))


class _Moments:
    """m(z) for z in the upper half plane, by the trapezoidal rule over outputs on a line parallel to the real axis.

    The line keeps half way to the branch points of log r, at Im u = pi sigma. There r has an argument, and the factor exp(-Im z |arg r|)
    damps just the outputs that would oscillate fastest.
    """

    def __init__(self, step: _Step, tilts: tuple[float, ...], slack: float, spacing: float) -> None:
        windows = [step.window(c, slack) for c in tilts]
        low, high = min(w[0] for w in windows), max(w[1] for w in windows)
        s, q, h = _arb(step.sigma), _arb(step.q), _arb(Fraction(spacing))
        shift = _arb(Fraction(min(0.5 * math.pi * float(step.sigma), 2.0))) * (1 if step.direction == "remove" else -1)
        scale = h.log() - (2 * flint.arb.pi()).log() / 2
        self.terms: list[tuple[flint.acb, flint.acb]] = []
        for k in range(math.floor(low / spacing), math.ceil(high / spacing) + 1):
            u = flint.acb(h * k, shift)
            loss = (1 - q + q * (u / s - 1 / (2 * s * s)).exp()).log()
            log_weight = scale - u * u / 2
            self.terms.append((log_weight + loss, loss) if step.direction == "remove" else (log_weight, -loss))

    def __call__(self, z: flint.acb) -> flint.acb:
        total = flint.acb(0)
        for log_weight, loss in self.terms:
            total += (z * loss + log_weight).exp()
        return total


class Contour:
    """The integrand's values on the contour laid out for one plan; evaluates delta and its slope at any nearby epsilon."""

    def __init__(self, step: _Step, plan: _Plan) -> None:
        self.step, self.plan = step, plan
        # Everything below is relative to delta; the integrand's peak and T equal factors cost digits on top.
        self.slack = (DIGITS + 6) * math.log(10) + max(plan.log_level - plan.log_delta, 0.0)
        self.scale = _SCALE * min(plan.c, 1 / plan.deviation)
        self.nodes: list[tuple[flint.acb, flint.acb]] = []  # z, and m(z)^T dz/dt / pi
        for bend in _BENDS:
            self.bend = bend if step.direction == "remove" else -bend
            try:
                with flint.ctx.workprec(64 + int((self.slack + math.log(step.count) + 60) / math.log(2))):
                    self._lay()
                return
            except OverflowError:
                continue
        raise ArithmeticError("out of this reference's reach: few steps close to the largest possible loss")

    def _point(self, t: Fraction) -> tuple[flint.acb, flint.acb]:
        """z(t) and dz/dt on the hyperbola."""
        c, k, b = (_arb(Fraction(x)) for x in (self.plan.c, self.scale, self.bend))
        y, slope = k * _arb(t).sinh(), k * _arb(t).cosh()
        root = (c * c + y * y).sqrt()
        # Midpoints: the cancellation inside m would magnify the radius of an inexact z.
        return flint.acb((c + b * (root - c)).mid(), y.mid()), flint.acb(b * y / root, 1) * slope

    def _size(self, z: flint.acb, m: flint.acb) -> float:
        """log of the integrand's modulus over its value on the real axis."""
        modulus = abs(m**self.step.count * (-z * _arb(Fraction(self.plan.epsilon))).exp() / (z * (z + 1))).mid()
        return float(modulus.log().mid()) - self.plan.log_level if modulus > 0 else -math.inf

    def _moments(self, x: float, spacing: float) -> _Moments:
        """Quadrature for the tilts from c to x. Off the real axis |m(z)| is less than m(x), and that cancellation needs digits too."""
        excess = max(0.0, self.step.kappa(x) - self.step.kappa(self.plan.c))
        if excess > _EXCESS:
            raise OverflowError
        slack = self.slack + math.log(self.step.count) + 20 + excess
        flint.ctx.prec = max(flint.ctx.prec, int((slack + 40) / math.log(2)))
        return _Moments(self.step, (self.plan.c, x), slack, spacing)

    def _lay(self) -> None:
        spacing = 0.25 * min(1.0, float(self.step.sigma))
        reach = Fraction(2)
        while True:
            z, _ = self._point(reach)
            moments = self._moments(float(z.real.mid()), spacing)
            if self._error(moments, z, spacing) > -self.slack:
                spacing /= 2
            elif self._size(z, moments(z)) < -self.slack:
                # The end is found; m must also be accurate between it and the saddle point.
                if max(self._error(moments, self._point(reach * k / 6)[0], spacing) for k in range(6)) < -self.slack:
                    break
                spacing /= 2
            else:
                reach += Fraction(1, 4)
            if len(moments.terms) > 10_000 or reach > 16:
                raise OverflowError
        self.bits = flint.ctx.prec
        step = Fraction(1, 4)
        self.nodes = self._row(moments, Fraction(0), step, reach)
        value = self.value(_arb(Fraction(self.plan.epsilon)))[0]
        while step > Fraction(1, 1000):
            middle = self._row(moments, step / 2, step, reach)
            self.nodes = [(z, w / 2) for z, w in self.nodes + middle]
            step /= 2
            previous, value = value, self.value(_arb(Fraction(self.plan.epsilon)))[0]
            change = abs(value - previous).mid()
            digits = -(float(change.log()) - self.plan.log_delta) / math.log(10) if change > 0 else math.inf
            if digits > DIGITS - 2:
                return
        raise ArithmeticError("the contour did not converge")

    def _error(self, moments: _Moments, z: flint.acb, spacing: float) -> float:
        """log of the change of the integrand, over its peak, when m is integrated twice as finely; an error in m counts T times."""
        fine = self._moments(float(z.real.mid()), spacing / 2)(z)
        change = abs((moments(z) - fine) / fine).mid()
        return math.log(self.step.count) + float(change.log().mid()) + max(self._size(z, fine), -self.slack) if change > 0 else -math.inf

    def _row(self, moments: _Moments, first: Fraction, step: Fraction, reach: Fraction) -> list[tuple[flint.acb, flint.acb]]:
        """Nodes of the trapezoidal rule (first = 0) or of the midpoint rule (first = step / 2)."""
        row = []
        for k in range(int((reach - first) / step) + 1):
            z, slope = self._point(first + k * step)
            weight = _arb(step / 2 if first == k == 0 else step) / flint.arb.pi()
            row.append((z, moments(z) ** self.step.count * slope * weight))
        return row

    def value(self, epsilon: flint.arb) -> tuple[flint.arb, flint.arb]:
        """delta(epsilon) and its derivative."""
        total, slope = flint.acb(0), flint.acb(0)
        for z, weight in self.nodes:
            term = weight * (-z * epsilon).exp() / (z + 1)
            total += term / z
            slope -= term
        return total.imag, slope.imag

    def root(self, target: flint.arb) -> flint.arb:
        """The epsilon at which delta is the target: Newton's iteration on log delta, inside a bracket."""
        low, high = -math.inf, math.inf
        found = _arb(Fraction(self.plan.epsilon))
        for _ in range(200):
            value, slope = (x.mid() for x in self.value(found))
            if value > target:
                low = max(low, float(found))
            else:
                high = min(high, float(found))
            # Deep below the target the sum is all rounding; there a step of the contour's own width goes back.
            usable = value > target * _arb(Fraction(1, 10**8)) and slope < 0
            change = (-(value / target).log() * value / slope).mid() if usable else -_arb(Fraction(2 / self.plan.c))
            moved = (found + change).mid()
            if not low < float(moved) < high and abs(change) > 1e-12 * abs(found):
                moved = _arb(Fraction(0.5 * (low + high)))
            if abs(moved - found) < abs(moved) * _arb(Fraction(1, 10 ** (DIGITS + 4))):
                return moved
            found = moved
        raise ArithmeticError("Newton's iteration did not converge")


def _mpf(value: flint.arb) -> mpf:
    with mp.workdps(DIGITS + 16):
        return mpf(value.mid().str(DIGITS + 10, radius=False))


def one_step(q: Exact, sigma: Exact, epsilon: mpf, direction: Direction = "remove") -> mpf:
    """delta of one step at any real epsilon, in closed form (Steinke 2022, section 3.6).

    >>> mp.nstr(one_step("0.01", 1, mpf("0.1994504478"), "remove"), 8)
    '1.0e-5'
    """
    rate, s = _rational(q), _rational(sigma)

    def above(x: mpf) -> mpf:
        return mp.erfc(x / mp.sqrt(2)) / 2

    ratio = mp.exp(epsilon if direction == "remove" else -epsilon)  # r at the threshold of the best test
    if ratio <= 1 - rate:
        return 1 - mp.exp(epsilon) if direction == "remove" else mpf(0)
    u = s * mp.log((ratio - 1 + rate) / rate) + 1 / (2 * s)
    if direction == "remove":
        return (1 - rate) * above(u) + rate * above(u - 1 / s) - ratio * above(u)
    return above(-u) - ((1 - rate) * above(-u) + rate * above(1 / s - u)) / ratio


def two_steps(q: Exact, sigma: Exact, epsilon: mpf, direction: Direction = "remove") -> mpf:
    """delta of two steps: one step's delta, averaged over the loss of the other.

    >>> mp.nstr(two_steps("0.1", 1, mpf("0.5"), "remove"), 10)
    '0.00460589611'
    """
    with mp.workdps(DIGITS + 6):
        rate, s = _rational(q), _rational(sigma)

        def integrand(u: mpf) -> mpf:
            r = 1 - rate + rate * mp.exp(u / s - 1 / (2 * s * s))
            if direction == "remove":
                return mp.npdf(u) * r * one_step(q, sigma, epsilon - mp.log(r), direction)
            return mp.npdf(u) * one_step(q, sigma, epsilon + mp.log(r), direction)

        far = 14 + 2 / s
        edges = [far * k / 6 for k in range(-6, 7)]
        # where the other step would have to lie at the end of its support: the integrand is smooth there but not analytic
        corner = mp.exp(epsilon if direction == "remove" else -epsilon) / (1 - rate) if rate < 1 else mp.inf
        if 1 - rate < corner < mp.inf:
            edges.append(s * mp.log((corner - 1 + rate) / rate) + 1 / (2 * s))
        return mp.quad(integrand, sorted(edges))


def _rational(value: Exact) -> mpf:
    exact = fraction(value)
    return mpf(exact.numerator) / exact.denominator


def delta(q: Exact, sigma: Exact, steps: int, epsilon: Exact, direction: Direction = "remove", lean: float = LEAN) -> mpf:
    """delta at epsilon >= 0 of `steps` Poisson-sampled Gaussians, in one direction.

    `lean` moves the contour, as a share of the saddle point, and must not change a digit.

    >>> mp.nstr(delta("0.9", 5, 100, "8.82966672991809383721631444184"), 20)
    '0.00001'
    """
    if steps <= 2:
        with mp.workdps(DIGITS + 6):
            return (one_step if steps == 1 else two_steps)(q, sigma, _rational(epsilon), direction)
    return by_contour(q, sigma, steps, epsilon, direction, lean)


def by_contour(q: Exact, sigma: Exact, steps: int, epsilon: Exact, direction: Direction, lean: float = LEAN) -> mpf:
    """The same from the contour integral whatever the number of steps."""
    step, target = _Step(fraction(q), fraction(sigma), steps, direction), fraction(epsilon)
    contour = Contour(step, step.lean(step.saddle(float(target), "epsilon"), lean))
    with flint.ctx.workprec(contour.bits):
        return _mpf(contour.value(_arb(target))[0])


def epsilon(q: Exact, sigma: Exact, steps: int, delta: Exact, direction: Direction = "remove", lean: float = LEAN) -> mpf:
    """epsilon at delta of `steps` Poisson-sampled Gaussians, in one direction; negative where delta is large."""
    if steps <= 2:
        raise ArithmeticError("epsilon needs at least three steps here; delta has closed forms below that")
    step, target = _Step(fraction(q), fraction(sigma), steps, direction), fraction(delta)
    plan = step.lean(step.saddle(math.log(target), "log_delta"), lean)
    for _ in range(4):
        contour = Contour(step, plan)
        with flint.ctx.workprec(contour.bits):
            found = contour.root(_arb(target))
        # Where a few rare steps carry all the cost the saddle-point estimate is poor, and the contour was laid out for the wrong epsilon.
        near = abs(float(found.mid()) - plan.epsilon) * plan.c < 2
        plan = replace(plan, epsilon=float(found.mid()))
        if near:
            return _mpf(found)
    raise ArithmeticError("the search for epsilon did not settle")


if __name__ == "__main__":
    for case in CASES:
        start = time.perf_counter()
        rows = [mp.nstr(epsilon(*case, direction), 30, strip_zeros=False) for direction in ("remove", "add")]
        print(f"    Truth({', '.join(json.dumps(x) for x in (*case, *rows))}),  # {time.perf_counter() - start:.1f} s", flush=True)
