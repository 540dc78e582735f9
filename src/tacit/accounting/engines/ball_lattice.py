"""Proved brackets for mechanisms with losses on one lattice: randomised response, discrete noise, and stated guarantees.

Every loss of these is a whole multiple of one rational unit, and every mass a short expression in exponentials. So the law of
a composition is a product of powers of polynomials with ball coefficients (Johansson 2017), and delta a finite sum over
it: nothing is truncated, and what comes out is a proof. All these pairs are the same in both directions.

>>> coin = response(Fraction(1, 10))
>>> found = finite_epsilon([(coin, 1000)], Fraction(1, 10**6))  # optimal composition (Kairouz, Oh, Viswanath 2015)
>>> round(found.upper, 8), found.width < 1e-14
(19.34467145, True)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from tacit.accounting.bound import Bound
from tacit.accounting.engines.ball_arithmetic import to_ball
from tacit.accounting.events.leaves import (
    ApproxDP,
    DiscreteGaussian,
    DiscreteLaplace,
    LeakyRandomizedResponse,
    PureDP,
    RandomizedResponse,
)
from tacit.accounting.events.tree import Event
from tacit.accounting.pairs.finite import FinitePair
from tacit.accounting.pairs.finite import discrete_gaussian as noise
from tacit.accounting.pairs.pair import Pair
from tacit.errors import UnsupportedError

if TYPE_CHECKING:
    from flint import arb

METHOD = "product of polynomials in ball arithmetic"
_BITS = 320
_LONGEST = 100_000  # points of the composed lattice


@dataclass(frozen=True)
class ExactLaw:
    """Losses as exact fractions, each with a function that gives its mass as a ball; `infinite` is the mass at infinity."""

    losses: tuple[Fraction, ...]
    masses: Callable[[], list[arb]]
    infinite: Fraction = Fraction(0)
    lost: Fraction = Fraction(0)  # the mass of losses that are not listed, at most: they may be anywhere

    def near(self, pair: FinitePair) -> bool:
        """Whether the pair is this law, rounded."""
        if len(self.losses) != len(pair.losses):
            return False
        if not self.lost and not math.isclose(float(self.infinite), pair.infinite, rel_tol=1e-12, abs_tol=0.0):
            return False
        masses = [float(mass.mid()) for mass in self.masses()]
        losses = [float(loss) for loss in self.losses]
        return bool(np.allclose(pair.losses, losses, rtol=1e-13, atol=1e-300) and np.allclose(pair.p, masses, rtol=1e-11))


def response(epsilon: Fraction, categories: int = 2, delta: Fraction = Fraction(0)) -> ExactLaw:
    """Randomised response, which dominates every pure guarantee where it has two categories, with a leak of `delta`.

    >>> response(Fraction(1, 2), 3).losses
    (Fraction(-1, 2), Fraction(0, 1), Fraction(1, 2))
    """

    def masses() -> list[arb]:
        odds, kept = to_ball(epsilon).exp(), 1 - to_ball(delta)
        total = odds + categories - 1
        middle = [kept * (categories - 2) / total] if categories > 2 else []
        return [kept / total, *middle, kept * odds / total]

    middle = (Fraction(0),) if categories > 2 else ()
    return ExactLaw((-epsilon, *middle, epsilon), masses, delta)


def discrete_laplace(scale: Fraction, sensitivity: int) -> ExactLaw:
    """Discrete Laplace noise: the loss at x is (|x - D| - |x|) / scale, and all x beyond 0 and D share the ends.

    >>> discrete_laplace(Fraction(2), 3).losses
    (Fraction(-3, 2), Fraction(-1, 2), Fraction(1, 2), Fraction(3, 2))
    """

    def masses() -> list[arb]:
        r = to_ball(-1 / scale).exp()
        inner = [(1 - r) / (1 + r) * to_ball(Fraction(-x) / scale).exp() for x in range(sensitivity - 1, 0, -1)]
        return [to_ball(Fraction(-sensitivity) / scale).exp() / (1 + r), *inner, 1 / (1 + r)]

    return ExactLaw(tuple((sensitivity - 2 * x) / scale for x in range(sensitivity, -1, -1)), masses)


def discrete_gaussian(sigma: Fraction, shift: int) -> ExactLaw:
    """Discrete Gaussian noise: the loss at x is D (D - 2 x) / (2 sigma^2), for all x within about 17 sigma of 0 and D.

    >>> law = discrete_gaussian(Fraction(2), 1)
    >>> law.losses[1] - law.losses[0], 0 < law.lost < Fraction(1, 10**50)
    (Fraction(1, 4), True)
    """
    reach = len(noise(float(sigma), shift).losses) - shift - 1
    reach //= 2
    places = range(shift + reach, -reach - 1, -1)

    def total() -> arb:
        """The sum over all integers; beyond `reach` each term is at most a fixed part of the one before."""
        known = to_ball(1)
        for x in range(1, reach + 1):
            known += 2 * to_ball(Fraction(-x * x) / (2 * sigma * sigma)).exp()
        return known + to_ball(0).union(rest())

    def rest() -> arb:
        """A bound on all terms beyond `reach`, on both sides."""
        first = to_ball(Fraction(-((reach + 1) ** 2)) / (2 * sigma * sigma)).exp()
        return 2 * first / (1 - to_ball(Fraction(-(reach + 1)) / (sigma * sigma)).exp())

    def masses() -> list[arb]:
        whole = total()
        return [to_ball(Fraction(-x * x) / (2 * sigma * sigma)).exp() / whole for x in places]

    losses = tuple(Fraction(shift * (shift - 2 * x)) / (2 * sigma * sigma) for x in places)
    # the sum over all integers is at least 1, so the terms beyond bound the mass beyond
    return ExactLaw(losses, masses, lost=Fraction(math.nextafter(float(rest().upper()), math.inf)))


@dataclass(frozen=True)
class Composed:
    """The composed law: balls of mass on offset + unit times 0, 1, 2, ..., and the mass at infinity."""

    offset: Fraction
    unit: Fraction
    mass: list[arb]
    infinite: arb
    lost: arb

    def delta(self, epsilon: Fraction) -> arb:
        """Delta at any epsilon."""
        first = max(0, math.floor((epsilon - self.offset) / self.unit) + 1)
        total, step = to_ball(0), to_ball(-self.unit).exp()
        weight = to_ball(epsilon - self.offset - self.unit * first).exp()
        for mass in self.mass[first:]:
            total += mass * (1 - weight)
            weight *= step
        return self.infinite + total + to_ball(0).union(self.lost)


def composed(laws: Sequence[tuple[ExactLaw, int]]) -> Composed:
    """The law of all losses together."""
    from flint import arb_poly

    gaps = [abs(b - a) for law, _ in laws for a, b in zip(law.losses, law.losses[1:], strict=False)]
    unit = gaps[0]
    for gap in gaps[1:]:
        unit = Fraction(math.gcd(unit.numerator * gap.denominator, gap.numerator * unit.denominator), unit.denominator * gap.denominator)
    length = sum(n * int((law.losses[-1] - law.losses[0]) / unit) for law, n in laws)
    if length > _LONGEST:
        raise UnsupportedError(f"no proof within reach: the losses lie on {length} points; ask without certify=True")
    product, offset, kept, lost = arb_poly([1]), Fraction(0), to_ball(1), to_ball(0)
    for law, n in laws:
        coefficients = [to_ball(0)] * (int((law.losses[-1] - law.losses[0]) / unit) + 1)
        for loss, mass in zip(law.losses, law.masses(), strict=True):
            coefficients[int((loss - law.losses[0]) / unit)] = mass
        product *= arb_poly(coefficients) ** n
        offset += n * law.losses[0]
        kept *= (1 - to_ball(law.infinite)) ** n
        lost += n * to_ball(law.lost)
    return Composed(offset, unit, product.coeffs(), 1 - kept, lost)


def _floats(ball: arb, ceiling: float) -> tuple[float, float]:
    low, high = float(ball.lower()), float(ball.upper())
    while low > 0 and not to_ball(low) <= ball.lower():
        low = math.nextafter(low, -math.inf)
    while high < ceiling and not to_ball(high) >= ball.upper():
        high = math.nextafter(high, math.inf)
    return max(low, 0.0), max(min(high, ceiling), 0.0)


def finite_delta(laws: Sequence[tuple[ExactLaw, int]], epsilon: Fraction) -> Bound:
    """The proved bracket on delta at epsilon.

    >>> found = finite_delta([(response(Fraction(1)), 2)], Fraction(1))
    >>> round(found.upper, 10), found.width < 1e-15
    (0.3378347121, True)
    """
    from flint import ctx

    with ctx.workprec(_BITS):
        return Bound(*_floats(composed(laws).delta(epsilon), 1.0), METHOD)


def finite_epsilon(laws: Sequence[tuple[ExactLaw, int]], delta: Fraction) -> Bound:
    """The proved bracket on the smallest epsilon >= 0 at delta."""
    from flint import ctx

    with ctx.workprec(_BITS):
        law, target = composed(laws), to_ball(delta)
        if law.delta(Fraction(0)) <= target:
            return Bound(0.0, 0.0, METHOD)
        if law.infinite > target:
            return Bound(math.inf, math.inf, METHOD)
        top = law.offset + law.unit * (len(law.mass) - 1)
        low, high = 0.0, math.nextafter(float(top), math.inf)
        if not law.delta(Fraction(high)) <= target:  # delta is the mass at infinity, which no ball can tell from the target
            raise UnsupportedError("no proof within reach: delta equals the mass at infinity; ask without certify=True")
        lower = 0.0
        while math.nextafter(low, math.inf) < high:
            middle = 0.5 * (low + high)
            if not low < middle < high:
                break
            if law.delta(Fraction(middle)) <= target:
                high = middle
            else:
                low = middle
                if law.delta(Fraction(middle)) >= target:
                    lower = middle
        return Bound(lower, high, METHOD)


def exact_laws(event: Event) -> list[ExactLaw]:
    """The laws of all leaves of an event that have one here, also as groups of two."""
    match event:
        case PureDP():
            own = [response(k * Fraction(event.epsilon)) for k in (1, 2)]
        case ApproxDP() | LeakyRandomizedResponse():
            own = [response(Fraction(event.epsilon), 2, Fraction(event.delta))]
        case RandomizedResponse():
            own = [response(Fraction(event.epsilon), event.categories)]
        case DiscreteLaplace():
            own = [discrete_laplace(Fraction(event.scale), k * event.sensitivity) for k in (1, 2)]
        case DiscreteGaussian():
            own = [discrete_gaussian(Fraction(event.sigma), k * event.sensitivity) for k in (1, 2)]
        case _:
            own = []
    return own + [law for child in event.inner for law in exact_laws(child)]


def restored(pair: Pair, known: Sequence[ExactLaw]) -> ExactLaw:
    """The exact law that the pair is the rounding of."""
    if isinstance(pair, FinitePair):
        for law in known:
            if law.near(pair):
                return law
    raise UnsupportedError(f"certify=True has no exact law for {type(pair).__name__} here; ask without it")
