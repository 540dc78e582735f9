"""Pairs with finitely many privacy losses: randomised response, discrete noise, the staircase, and guarantees stated as a curve.

Masses are kept as logarithms, so that both directions keep their relative accuracy however large the losses are. Where the losses
lie on a lattice the pair knows it, and its composition has no discretisation error. Infinitely many losses are truncated where both
tails are below 1e-60; what is cut counts as infinite loss, so upper bounds stay upper bounds.

>>> pair = randomised_response(1.0)
>>> pair.losses, pair.p.round(6)
(array([-1.,  1.]), array([0.268941, 0.731059]))
>>> round(pair.kappa(1.0), 10)  # the Rényi divergence of order 2
0.7353256641
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from tacit.accounting.pairs.pair import Array, Nodes, Pair
from tacit.errors import ParameterError, UnsupportedError

if TYPE_CHECKING:
    from tacit.accounting.engines.lattice import Lattice

_UNIT = 2.0**-53
LARGEST = 2**21  # losses of one pair
_DEEP = 140.0  # -log of the tails that are cut: below 1e-60


class FinitePair(Pair):
    """Finitely many losses, in increasing order, with the logarithms of their P-masses.

    `infinite` is the P-mass at infinite loss and `reverse_infinite` the Q-mass that P cannot give; `cut` is the part of either that stands
    for a truncated tail. The masses are right to a relative `rounding`, beyond that of their logarithms. With `step` the losses are
    offset + step (start + i), as on a `Lattice`; `losses` are their rounded values.
    """

    def __init__(
        self, losses: Sequence[float] | Array, log_masses: Sequence[float] | Array, *,
        infinite: float = 0.0, reverse_infinite: float = 0.0, cut: float = 0.0, rounding: float = 0.0,
        step: float | None = None, offset: float = 0.0, start: int = 0,
    ) -> None:
        self.losses = np.asarray(losses, dtype=float)
        self.log_p = np.asarray(log_masses, dtype=float)
        self.infinite, self.reverse_infinite, self.cut, self.rounding = infinite, reverse_infinite, cut, rounding
        self.step, self.offset, self.start = step, offset, start
        if self.losses.shape != self.log_p.shape or self.losses.ndim != 1 or len(self.losses) > LARGEST:
            raise ParameterError(f"losses and masses must be two equally long lists of at most {LARGEST} numbers")
        if not (np.all(np.isfinite(self.losses)) and np.all(np.diff(self.losses) > 0)):
            raise ParameterError("losses must be finite and increasing")
        if not np.all(self.log_p < 1e-9) or not (0 <= infinite <= 1 and 0 <= reverse_infinite <= 1):
            raise ParameterError("masses must be probabilities")
        total = float(np.exp(self.log_p).sum()) + infinite
        if abs(total - 1) > 1e-9:
            raise ParameterError(f"P-masses must add up to 1 with the infinite one, not to {total}")

    def __repr__(self) -> str:
        return f"FinitePair({len(self.losses)} losses in {self.support()}, infinite={self.infinite})"

    @cached_property
    def p(self) -> Array:
        """The P-mass of every loss."""
        return np.asarray(np.exp(self.log_p))

    def reverse(self) -> FinitePair:
        """The pair (Q, P): losses change sign, Q-masses are exp(-loss) P-masses.

        >>> randomised_response(1.0).reverse().p.round(6)
        array([0.268941, 0.731059])
        """
        return FinitePair(
            -self.losses[::-1],
            np.minimum((self.log_p - self.losses)[::-1], 0.0),
            infinite=self.reverse_infinite,
            reverse_infinite=self.infinite,
            cut=min(self.cut, self.reverse_infinite),
            rounding=self.rounding,
            step=self.step,
            offset=-self.offset,
            start=-(self.start + len(self.losses) - 1),
        )

    def kappa(self, c: float) -> float:
        exponent = self.log_p + c * self.losses
        peak = float(exponent.max(initial=-math.inf))
        return peak + math.log(float(np.exp(exponent - peak).sum())) if math.isfinite(peak) else -math.inf

    def support(self) -> tuple[float, float]:
        return (float(self.losses[0]), float(self.losses[-1])) if len(self.losses) else (0.0, 0.0)

    def atoms(self) -> tuple[Array, Array]:
        return self.losses, self.p

    def masses(self, edges: Array) -> tuple[Array, Array]:
        return np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)

    def nodes(self, c: float, reach: float) -> Nodes:
        exponent = self.log_p + c * self.losses
        peak = float(exponent.max(initial=-math.inf))
        if not math.isfinite(peak):
            raise UnsupportedError("a pair without finite losses has no quadrature")
        raw = np.exp(exponent - peak)
        total = float(raw.sum())
        weight = raw / total
        with np.errstate(invalid="ignore"):
            size = np.where(weight > 0, 4 + 3 * np.abs(self.log_p) + 3 * np.abs(c * self.losses), 0.0)
        error = self.rounding + _UNIT * (float(np.dot(weight, size)) + 4 + math.log2(len(raw)))
        return Nodes(self.losses, weight, peak + math.log(total), 2 * error, error, 2 * _UNIT * float(np.abs(self.losses).max()))

    def lattice(self) -> Lattice | None:
        """The pair as a lattice, where its losses lie on one.

        >>> randomised_response(0.5).lattice().step
        1.0
        """
        if self.step is None:
            return None
        from tacit.accounting.engines.lattice import Lattice  # it brings the grids along, which a single step does without

        rounding = self.rounding + _UNIT * (4 + 2 * np.abs(self.log_p) + np.abs(self.losses))
        reach = abs(self.offset) + self.step * max(abs(self.start), abs(self.start + len(self.losses)))
        return Lattice(self.step, self.offset, self.start, self.p, self.infinite, self.cut, np.minimum(rounding, 1.0), 4 * _UNIT * reach)


def randomised_response(epsilon: float, categories: int = 2) -> FinitePair:
    """Keep the true one of `categories` answers with odds e^epsilon to 1 against each other answer.

    >>> randomised_response(1.0, 4).p.round(6)
    array([0.174878, 0.349755, 0.475367])
    """
    log_keep = -math.log1p((categories - 1) * math.exp(-epsilon))
    if categories == 2:
        return FinitePair([-epsilon, epsilon], [log_keep - epsilon, log_keep], step=2 * epsilon, offset=-epsilon)
    others = math.log(categories - 2) - epsilon + log_keep
    return FinitePair([-epsilon, 0.0, epsilon], [log_keep - epsilon, others, log_keep], step=epsilon, start=-1)


def local_report(epsilon: float, alpha: float) -> FinitePair:
    """A report whose outcomes favour another value with probability alpha, the person's own with e^epsilon alpha, or neither.

    >>> local_report(1.0, 0.1).p.round(6)
    array([0.1     , 0.628172, 0.271828])
    """
    neither = 1 - alpha * (1 + math.exp(epsilon)) if epsilon < 700 else 0.0  # beyond, no alpha in floating point leaves any
    if neither <= 1e-12:
        return randomised_response(epsilon)
    masses = [math.log(alpha), math.log(neither), min(math.log(alpha) + epsilon, 0.0)]
    return FinitePair([-epsilon, 0.0, epsilon], masses, step=epsilon, start=-1, rounding=1e-15)


def leaky_randomised_response(epsilon: float, delta: float) -> FinitePair:
    """The worst (epsilon, delta) mechanism: randomised response that confesses with probability delta (Kairouz, Oh, Viswanath 2015).

    >>> leaky_randomised_response(1.0, 0.01).infinite
    0.01
    """
    if delta >= 1:
        return FinitePair([], [], infinite=1.0, reverse_infinite=1.0)
    log_rest = math.log1p(-delta)
    if epsilon == 0:
        return FinitePair([0.0], [log_rest], infinite=delta, reverse_infinite=delta, step=1.0)
    log_keep = log_rest - math.log1p(math.exp(-epsilon))
    masses = [log_keep - epsilon, log_keep]
    return FinitePair([-epsilon, epsilon], masses, infinite=delta, reverse_infinite=delta, step=2 * epsilon, offset=-epsilon)


def discrete_laplace(scale: float, sensitivity: int = 1) -> FinitePair:
    """Noise with mass proportional to exp(-|x| / scale) on the integers, for an integer query that moves by `sensitivity`.

    The loss at x is (|x - D| - |x|) / scale; all x <= 0 share the largest one and all x >= D the smallest.

    >>> discrete_laplace(2.0, 3).losses
    array([-1.5, -0.5,  0.5,  1.5])
    """
    if sensitivity >= LARGEST:
        raise UnsupportedError(f"sensitivity {sensitivity} has too many different losses; round the query to a lattice of fewer steps")
    x = np.arange(sensitivity, -1, -1.0)
    log_end = -math.log1p(math.exp(-1 / scale))
    log_masses = np.log(np.tanh(1 / (2 * scale))) - x / scale
    log_masses[0], log_masses[-1] = log_end - sensitivity / scale, log_end
    return FinitePair((sensitivity - 2 * x) / scale, log_masses, step=2 / scale, offset=-sensitivity / scale)


def discrete_gaussian(sigma: float, sensitivity: int = 1) -> FinitePair:
    """Noise with mass proportional to exp(-x^2 / (2 sigma^2)) on the integers (Canonne, Kamath, Steinke 2020).

    The loss at x is D (D - 2 x) / (2 sigma^2); x runs over all integers within about 17 sigma of the two centres, 0 and D.

    >>> pair = discrete_gaussian(1.0)
    >>> round(float(np.dot(pair.p, pair.losses)), 9)  # the Kullback-Leibler divergence is 1 / (2 sigma^2)
    0.5
    """
    reach = math.ceil(sigma * math.sqrt(2 * _DEEP)) + 1
    if 2 * reach + sensitivity >= LARGEST:
        raise UnsupportedError(f"sigma {sigma} has too many different losses; round the query to a coarser lattice first")
    x = np.arange(sensitivity + reach, -reach - 1, -1.0)
    log_masses = -(x * x) / (2 * sigma * sigma) - _log_gaussian_sum(sigma)
    # beyond `reach` a mass is at most exp(-1.5 reach / sigma^2) of the one before
    first = math.exp(-((reach + 1) ** 2) / (2 * sigma * sigma) - _log_gaussian_sum(sigma))
    cut = min(1.0, 2 * first / -math.expm1(-reach / (sigma * sigma)))
    step = sensitivity / (sigma * sigma)
    offset = -sensitivity * (sensitivity + 2 * reach) / (2 * sigma * sigma)
    losses = sensitivity * (sensitivity - 2 * x) / (2 * sigma * sigma)
    return FinitePair(losses, log_masses, infinite=cut, reverse_infinite=cut, cut=cut, step=step, offset=offset)


def skellam(variance: float, sensitivity: int = 1) -> FinitePair:
    """Skellam noise of this variance, mass e^-v I_x(v) on the integers, for an integer query that moves by `sensitivity`.

    The law is log-concave, so losses fall in x. They run until the masses are below 1e-60; what is left is cut.

    >>> pair = skellam(50.0)
    >>> 0 < float(np.dot(pair.p, pair.losses)) - 1 / 100 < 2e-4  # a Gaussian's divergence, and a little more
    True
    """
    from scipy.special import ive  # scipy's Bessel functions are loaded by this law alone

    # a Chernoff bound: mass beyond x is at most exp(-x asinh(x / v) + sqrt(x^2 + v^2) - v)
    reach = 1
    while reach * math.asinh(reach / variance) - math.hypot(reach, variance) + variance < _DEEP:
        reach += max(1, reach // 16)
    x = np.arange(sensitivity + reach, -reach - 1, -1.0)
    with np.errstate(divide="ignore"):
        log_masses = np.log(ive(np.abs(x), variance))
        shifted = np.log(ive(np.abs(x - sensitivity), variance))
    known = np.isfinite(log_masses) & np.isfinite(shifted)  # far from both centres masses underflow, and are cut as well
    cut = min(1.0, 2 * math.exp(-_DEEP) + max(0.0, 1e-300 * float((~known).sum())))
    losses = (log_masses - shifted)[known]
    return FinitePair(losses, log_masses[known], infinite=cut, reverse_infinite=cut, cut=cut, rounding=1e-12)


def discrete_gaussian_divergence(sigma: float, shift: int, orders: Array) -> Array:
    """The Rényi divergence of discrete Gaussian noise from itself moved by a whole number, at each order > 1.

    Completing the square leaves a shift^2 / (2 sigma^2) plus log(S(a shift) / S(0)) / (a - 1), with S(c) the sum of
    exp(-(x - c)^2 / (2 sigma^2)) over the integers. S is largest at the integers, so the second term is at most 0 (Canonne, Kamath,
    Steinke 2020, Proposition 5), and it is 0 where a shift is whole.

    >>> discrete_gaussian_divergence(0.5, 1, np.array([1.5, 2.0, math.inf])).round(6)
    array([2.942461, 4.      ,      inf])
    """
    a = np.atleast_1d(np.asarray(orders, dtype=float))
    top = a * (0.5 * (shift / sigma) ** 2)
    if sigma >= 4:  # by Poisson summation the sum varies by less than 2^-400
        return np.asarray(top)
    x = np.arange(-160.0, 161.0)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        part = np.remainder(a * shift, 1.0)
        total = np.exp(-((x[:, None] - part) ** 2) / (2 * sigma * sigma)).sum(axis=0)
        found = top + np.log(total / math.exp(_log_gaussian_sum(sigma))) / (a - 1)
    # where the second term is all rounding, it is left out
    return np.asarray(np.where(np.isfinite(found), np.minimum(found * (1 + 1e-14) + 1e-14 / (a - 1), top), top))


def _log_gaussian_sum(sigma: float) -> float:
    """log of the sum of exp(-x^2 / (2 sigma^2)) over the integers; from sigma = 4 on, Poisson summation leaves only the integral."""
    if sigma >= 4:
        return 0.5 * math.log(2 * math.pi) + math.log(sigma)
    return math.log(math.fsum(math.exp(-x * x / (2 * sigma * sigma)) for x in range(-160, 161)))


def staircase(epsilon: float, gamma: float) -> FinitePair:
    """The staircase mechanism (Geng, Viswanath 2014) at the full shift, which is the worst.

    The density falls by e^-epsilon at gamma, gamma + 1, gamma + 2, ... sensitivities from the centre. A shift by one sensitivity or less
    crosses at most one fall, so losses are -epsilon, 0 and epsilon; the mass at epsilon decides the whole curve and grows with the shift.

    >>> staircase(1.0, 0.5).p.round(6)
    array([0.268941, 0.731059])
    """
    fall = math.exp(-epsilon)
    height = -math.expm1(-epsilon) / (2 * (gamma + fall * (1 - gamma)))
    high = 0.5 + height * min(gamma, 1 - gamma)
    middle = height * abs(1 - 2 * gamma) * (1.0 if gamma > 0.5 else fall)
    log_high = math.log(high)
    if middle <= 0:
        return randomised_response(epsilon)
    return FinitePair([-epsilon, 0.0, epsilon], [log_high - epsilon, math.log(middle), log_high], step=epsilon, start=-1)


def from_profile(rows: Sequence[tuple[float, float]]) -> FinitePair:
    """The largest symmetric pair that is (epsilon, delta)-DP for every listed row, in both directions.

    Its hockey-stick curve in alpha = e^epsilon >= 1 is the lower convex hull of the rows, constant beyond the last; below 1 it is the
    mirror image, HS_(1/a) = 1 - 1/a + HS_a / a. At alpha = 1 it starts from the smallest total variation that any row implies,
    delta + (1 - delta) tanh(epsilon / 2).

    >>> from_profile([(1.0, 0.01)]).p.round(6) - leaky_randomised_response(1.0, 0.01).p.round(6)
    array([0., 0.])
    """
    if not rows:
        raise ParameterError("a privacy profile needs at least one pair (epsilon, delta)")
    ordered = sorted((float(e), float(d)) for e, d in rows)
    if ordered[0][0] < 0 or not all(0 <= d <= 1 for _, d in ordered):
        raise ParameterError("a privacy profile needs epsilon >= 0 and delta in [0, 1]")
    if ordered[0][0] > 700:
        return leaky_randomised_response(*ordered[0])
    points: list[tuple[float, float]] = []
    start, corner = min((d + (1 - d) * math.tanh(e / 2), (e, d)) for e, d in ordered)
    least = start

    def fall(a: tuple[float, float], b: tuple[float, float]) -> float:
        """Minus the slope of a chord; from the start to the row that implies it, without the difference of two nearly equal deltas."""
        if a[0] == 0 and b == corner and b[0] > 0:
            return (1 - b[1]) * math.tanh(b[0] / 2) / math.expm1(b[0])
        return _fall(a, b)

    for e, d in [(0.0, start), *ordered]:
        if e > 700:
            break
        least = min(least, d)
        if points and _width(points[-1], (e, least)) == 0:
            continue
        # a point on or above the chord of its neighbours is no corner of the hull
        while len(points) > 1 and fall(points[-2], points[-1]) <= fall(points[-1], (e, least)):
            points.pop()
        points.append((e, least))
    falls = [fall(a, b) for a, b in pairwise(points)] + [0.0]
    losses, log_p = [], []
    for (e, _), before, after in zip(points[1:], falls, falls[1:], strict=False):
        if before > after:
            losses.append(e)
            log_p.append(math.log(before - after) + e)
    centre = (1 - start) - 2 * falls[0]
    middle = [(0.0, math.log(centre))] if centre > 1e-16 else []
    mirrored = [(-e, value - e) for e, value in zip(losses, log_p, strict=True)][::-1]
    finite = [*mirrored, *middle, *zip(losses, log_p, strict=True)]
    leak = points[-1][1]
    return FinitePair([e for e, _ in finite], [min(v, 0.0) for _, v in finite], infinite=leak, reverse_infinite=leak)


def _width(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Between two points (epsilon, delta), in alpha."""
    return math.exp(a[0]) * math.expm1(b[0] - a[0])


def _fall(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Minus the slope of the chord between two points, in alpha."""
    return (a[1] - b[1]) / _width(a, b)
