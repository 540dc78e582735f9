"""Proved brackets for mixed compositions: every loss on one lattice, once rounded so that it costs more and once so that it costs less.

`certify=True` has exact answers for Gaussian mixtures (`tacit.accounting.engines.proof`) and for laws with one unit
(`tacit.accounting.engines.ball_lattice`). Everything else that has a closed form is covered here: Laplace noise, Gaussian sums over
samples of fixed size, Poisson samples, finite laws, and any mixture of them. What comes out is a theorem, but not to all digits: its
width goes with the square of the lattice's step.

>>> noise = LaplaceCells(Fraction(1, 10))
>>> found = grid_epsilon([(noise, 100)], Fraction(1, 10**6))
>>> 4.69 < found.lower <= found.upper < 4.70 and found.width < 1e-5 * found.upper
True

What is proved. Write delta(eps) = E_P[(1 - exp(eps - L))_+], L the sum of the steps' losses. It grows with every loss, and it is convex
in each step's exp(-L), which is Q/P.

- *From above.* A cell of outputs with losses between two lattice points has P-mass p and Q-mass q; its mass is moved to the two points
  so that P and Q keep theirs. That is a spread of Q/P, so delta grows. Losses beyond the lattice go to infinity, those below it to its
  first point.
- *From below.* A cell around a lattice point is told as one output, whose Q/P is the mean over the cell: delta falls. Its loss log(p/q) is
  not on the lattice, but within a second-order distance; all of them are lowered by one shift eta, so that they are, or by a whole step.
- *Epochs of random allocation* are known from both sides only, and bring a law for each end (`tacit.accounting.engines.ball_epochs`).
- *Composition.* Products of polynomials in ball arithmetic. What a product loses at its ends is added to the upper end's mass at infinity.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

from tacit.accounting.bound import Bound
from tacit.accounting.engines.ball_arithmetic import to_ball
from tacit.errors import UnsupportedError

if TYPE_CHECKING:
    from flint import arb

METHOD = "lattice in ball arithmetic, rounded both ways"
_BITS = 224
_CELLS = 6000  # of one step's losses, about
_WIDE = 4000  # steps of the lattice to one deviation of the composed loss
_LONGEST = 120_000  # points of a composed lattice
_SPARE = 1e-14  # share of delta that all ends that are cut off may take


class Cells(Protocol):
    """One direction of a step: its losses' tails as balls, its atoms, and where all but a little of them lie."""

    def tails(self, loss: Fraction) -> tuple[arb, arb]:
        """P- and Q-mass of losses above this one, without atoms."""
        ...

    def whole(self) -> arb:
        """The P-mass without atoms."""
        ...

    def atoms(self) -> list[tuple[Fraction, arb, arb]]:
        """Losses with a mass of their own, and their P- and Q-mass."""
        ...

    def reach(self, budget: float) -> tuple[float, float, float]:
        """Losses beyond which P has at most this mass on either side, and about the variance. A guide: nothing rests on it."""
        ...

    @property
    def unit(self) -> Fraction | None:
        """A length that the lattice's step should divide, so that atoms lie on it."""
        ...

    @property
    def infinite(self) -> Fraction:
        """P-mass at infinity."""
        ...


def normal(x: arb) -> arb:
    """The normal distribution function."""
    return (-x / to_ball(2.0).sqrt()).erfc() / 2


@dataclass(frozen=True)
class LaplaceCells:
    """Laplace noise of scale 1/theta times the sensitivity: losses between -theta and theta, and atoms at both."""

    theta: Fraction

    def tails(self, loss: Fraction) -> tuple[arb, arb]:
        half = to_ball(Fraction(1, 2))
        at = max(-self.theta, min(loss, self.theta))
        # outputs x < (1 - loss / theta) / 2; what lies below x = 0 is the atom at theta
        p = half - half * to_ball((at - self.theta) / 2).exp()
        q = half * to_ball(-(self.theta + at) / 2).exp() - half * to_ball(-self.theta).exp()
        return p, q

    def whole(self) -> arb:
        return self.tails(-self.theta)[0]

    def atoms(self) -> list[tuple[Fraction, arb, arb]]:
        half = to_ball(Fraction(1, 2))
        small = half * to_ball(-self.theta).exp()
        return [(-self.theta, small, half), (self.theta, half, small)]

    def reach(self, budget: float) -> tuple[float, float, float]:
        theta = float(self.theta)
        return -theta, theta, min(theta * theta, 4.0 + theta)

    @property
    def unit(self) -> Fraction | None:
        return self.theta

    @property
    def infinite(self) -> Fraction:
        return Fraction(0)


@dataclass(frozen=True)
class SampledGaussianCells:
    """(1 - q) N(0, 1) + q N(m, 1) against N(0, 1), q = 1 included; `added` has the two the other way round."""

    rate: Fraction
    shift: Fraction
    added: bool = False

    def output(self, loss: Fraction) -> arb | None:
        """The output at which the mixture's loss is this; None below its smallest."""
        open_ = to_ball(loss).exp() - 1 + to_ball(self.rate)
        if not open_ > 0:
            return None
        return (open_ / to_ball(self.rate)).log() / to_ball(self.shift) + to_ball(self.shift) / 2

    def _above(self, loss: Fraction) -> tuple[arb, arb]:
        """Mass of the mixture, and of N(0, 1), above a loss of the mixture."""
        u = self.output(loss)
        if u is None:
            if not to_ball(loss).exp() - 1 + to_ball(self.rate) <= 0:
                raise UnsupportedError("no proof within reach: a point of the lattice is the smallest loss; ask without certify=True")
            return to_ball(1), to_ball(1)
        rate, below = to_ball(self.rate), normal(-u)
        return (1 - rate) * below + rate * normal(to_ball(self.shift) - u), below

    def tails(self, loss: Fraction) -> tuple[arb, arb]:
        if not self.added:
            return self._above(loss)
        mixed, plain = self._above(-loss)
        return 1 - plain, 1 - mixed

    def whole(self) -> arb:
        return to_ball(1)

    def atoms(self) -> list[tuple[Fraction, arb, arb]]:
        return []

    def reach(self, budget: float) -> tuple[float, float, float]:
        q, m = float(self.rate), float(self.shift)
        far = math.sqrt(-2 * math.log(budget)) + 0.5

        def loss(u: float) -> float:
            x = m * u - 0.5 * m * m
            return x + math.log(q + (1 - q) * math.exp(-x)) if x > 0 else math.log1p(q * math.expm1(x))

        ends = loss(-far), loss(far if self.added else far + m)
        points = [(-far + (2 * far + m) * i / 400) for i in range(401)]
        weights = [math.exp(-0.5 * u * u) * (1.0 if self.added else math.exp(loss(u))) for u in points]
        mean = sum(w * loss(u) for w, u in zip(weights, points, strict=True)) / sum(weights)
        variance = sum(w * (loss(u) - mean) ** 2 for w, u in zip(weights, points, strict=True)) / sum(weights)
        return (-ends[1], -ends[0], variance) if self.added else (ends[0], ends[1], variance)

    @property
    def unit(self) -> Fraction | None:
        return None

    @property
    def infinite(self) -> Fraction:
        return Fraction(0)


@dataclass(frozen=True)
class FixedSizeCells:
    """A Gaussian sum over a sample of fixed size: the sampled pair above loss 0, its mirror image below, and an atom between."""

    rate: Fraction
    shift: Fraction

    @property
    def _half(self) -> SampledGaussianCells:
        return SampledGaussianCells(self.rate, self.shift)

    def tails(self, loss: Fraction) -> tuple[arb, arb]:
        zero = self._half.tails(Fraction(0))
        if loss >= 0:
            return self._half.tails(loss)
        far = self._half.tails(-loss)  # mirrored: what P has below -l, Q has above l
        return zero[0] + zero[1] - far[1], zero[1] + zero[0] - far[0]

    def whole(self) -> arb:
        p, q = self._half.tails(Fraction(0))
        return p + q

    def atoms(self) -> list[tuple[Fraction, arb, arb]]:
        p, q = self._half.tails(Fraction(0))
        return [(Fraction(0), 1 - p - q, 1 - p - q)]

    def reach(self, budget: float) -> tuple[float, float, float]:
        _, high, variance = self._half.reach(budget)
        return -high, high, variance

    @property
    def unit(self) -> Fraction | None:
        return None

    @property
    def infinite(self) -> Fraction:
        return Fraction(0)


@dataclass(frozen=True)
class AtomCells:
    """Finitely many losses, and perhaps a mass at infinity."""

    losses: tuple[Fraction, ...]
    masses: Callable[[], list[arb]]
    infinite: Fraction = Fraction(0)
    lost: Fraction = Fraction(0)  # P-mass of losses that are not listed, at most

    def tails(self, loss: Fraction) -> tuple[arb, arb]:
        return to_ball(0), to_ball(0)

    def whole(self) -> arb:
        return to_ball(0)

    def atoms(self) -> list[tuple[Fraction, arb, arb]]:
        return [(loss, mass, mass * to_ball(-loss).exp()) for loss, mass in zip(self.losses, self.masses(), strict=True)]

    def reach(self, budget: float) -> tuple[float, float, float]:
        masses = [float(mass.mid()) for mass in self.masses()]
        mean = sum(m * float(x) for m, x in zip(masses, self.losses, strict=True))
        variance = sum(m * (float(x) - mean) ** 2 for m, x in zip(masses, self.losses, strict=True))
        return float(self.losses[0]), float(self.losses[-1]), variance

    @property
    def unit(self) -> Fraction | None:
        return self.losses[1] - self.losses[0] if len(self.losses) > 1 else None


class Enclosed(ABC):
    """A step that is known from both sides only: a law that costs more, and tails of outputs that cost less."""

    @abstractmethod
    def reach(self, budget: float) -> tuple[float, float, float]:
        """As in `Cells`."""

    @abstractmethod
    def raised(self, step: Fraction, first: int, last: int, cut: float) -> Law:
        """A law that costs more, on the lattice points from `first` to `last`; ends of `cut` in all may go to infinity."""

    @abstractmethod
    def tails(self, loss: Fraction) -> tuple[arb, arb]:
        """P- and Q-mass of the outputs whose loss is above this one."""

    def whole(self) -> arb:
        return to_ball(1)

    def atoms(self) -> list[tuple[Fraction, arb, arb]]:
        return []

    @property
    def unit(self) -> Fraction | None:
        return None

    @property
    def infinite(self) -> Fraction:
        return Fraction(0)


@dataclass(frozen=True)
class Law:
    """Masses on step times (start, start + 1, ...), less `shift`, and the mass at infinity."""

    start: int
    mass: list[arb]
    infinite: arb
    shift: Fraction = Fraction(0)

    def trimmed(self, cut: float, upper: bool) -> Law:
        """Without ends of less than `cut` in all; the upper law has them at infinity."""
        most, lost = to_ball(cut), to_ball(0)
        first, last = 0, len(self.mass)
        while last - first > 1 and (more := lost + self.mass[last - 1]) < most:
            lost, last = more, last - 1
        low = to_ball(0)
        while last - first > 1 and (more := low + self.mass[first]) < most:
            low, first = more, first + 1
        if first == 0 and last == len(self.mass):
            return self
        return Law(self.start + first, self.mass[first:last], self.infinite + lost + low if upper else self.infinite, self.shift)

    def times(self, other: Law, cut: float, upper: bool) -> Law:
        from flint import arb_poly

        if len(self.mass) + len(other.mass) > _LONGEST:
            raise UnsupportedError("no proof within reach: the losses spread too far; ask without certify=True")
        product = arb_poly(self.mass) * arb_poly(other.mass)
        mass = product.coeffs() + [to_ball(0)] * (len(self.mass) + len(other.mass) - 1 - product.length())
        infinite = self.infinite + other.infinite - self.infinite * other.infinite
        return Law(self.start + other.start, mass, infinite, self.shift + other.shift).trimmed(cut, upper)

    def power(self, count: int, cut: float, upper: bool) -> Law:
        result, base = None, self
        while count:
            if count & 1:
                result = base if result is None else result.times(base, cut, upper)
            count >>= 1
            if count:
                base = base.times(base, cut, upper)
        assert result is not None
        return result


def _raised(cells: Cells, step: Fraction, first: int, last: int) -> Law:
    """The law that costs more, on the lattice points from `first` to `last`."""
    mass = [to_ball(0)] * (last - first + 1)
    scale = 1 - to_ball(-step).exp()

    def put(low: int, p: arb, q: arb) -> None:
        top = (p - q * to_ball(step * low).exp()) / scale
        mass[low - first] += p - top
        mass[low + 1 - first] += top

    above = cells.tails(step * first)
    mass[0] += cells.whole() - above[0]  # losses below the lattice are raised to its first point
    for i in range(first, last):
        base = cells.tails(step * (i + 1))
        put(i, above[0] - base[0], above[1] - base[1])
        above = base
    infinite = above[0] + to_ball(cells.infinite)
    if isinstance(cells, AtomCells):
        infinite += to_ball(cells.lost)
    for loss, p, q in cells.atoms():
        place = loss / step
        if place > last:
            infinite += p
        elif place <= first:
            mass[0] += p
        elif place.denominator == 1:
            mass[int(place) - first] += p
        else:
            put(math.floor(place), p, q)
    return Law(first, mass, infinite)


def _lowered(cells: Cells, step: Fraction, first: int, last: int) -> Law:
    """The law that costs less."""
    found: list[tuple[int, arb, arb]] = []  # nearest point, P-mass, loss of the cell as one output
    above = cells.tails(step * first - step / 2)
    for i in range(first, last + 1):
        base = cells.tails(step * i + step / 2)
        p, q = above[0] - base[0], above[1] - base[1]
        if p > 0 and q > 0:
            found.append((i, p, (p / q).log()))
        above = base
    if above[0] > 0:  # what lies beyond the lattice is lowered to its last point
        top = to_ball(step * last)
        if isinstance(cells, Enclosed):  # of outputs that are smeared, some may lie lower
            if above[1] > 0:
                told = (above[0] / above[1]).log()
                found.append((last, above[0], top if told >= top else told))
        else:
            found.append((last, above[0], top))
    # a larger shift lowers all losses, a smaller one leaves more cells that go down by a whole step
    off = sorted(((max(0.0, float((to_ball(step * i) - loss).upper())), float(p.mid())) for i, p, loss in found), reverse=True)
    best, beyond, shift = math.inf, 0.0, 0.0
    for distance, mass_there in off:
        if distance < float(step) / 4 and (price := distance + float(step) * beyond) < best:
            best, shift = price, distance * (1 + 1e-9)
        beyond += mass_there
    eta = Fraction(shift)
    mass = [to_ball(0)] * (last - first + 1)

    def put(index: int, p: arb) -> None:
        if first <= index:
            mass[min(index, last) - first] += p

    for i, p, loss in found:
        index = i if loss >= to_ball(step * i - eta) else i - 1
        if not loss >= to_ball(step * index - eta):
            if not isinstance(cells, Enclosed):
                raise UnsupportedError("no proof within reach: a cell is wider than its losses; ask without certify=True")
            index = math.floor((Fraction(math.nextafter(float(loss.lower()), -math.inf)) + eta) / step)
        put(index, p)
    for exact, p, _ in cells.atoms():
        put(math.floor((exact + eta) / step), p)
    return Law(first, mass, to_ball(cells.infinite), eta)


@dataclass(frozen=True)
class _Curve:
    """The composed law, with sums from the right, so that delta is had at any epsilon at once."""

    step: Fraction
    law: Law
    above: list[arb]
    tilted: list[arb]

    @staticmethod
    def of(step: Fraction, law: Law) -> _Curve:
        above, tilted = [to_ball(0)], [to_ball(0)]
        ratio, weight = to_ball(step).exp(), to_ball(law.shift - step * (law.start + len(law.mass) - 1)).exp()
        for mass in reversed(law.mass):
            above.append(above[-1] + mass)
            tilted.append(tilted[-1] + mass * weight)
            weight *= ratio
        return _Curve(step, law, above[::-1], tilted[::-1])

    def delta(self, epsilon: Fraction) -> arb:
        first = math.floor((epsilon + self.law.shift) / self.step) + 1 - self.law.start
        first = min(max(first, 0), len(self.law.mass))
        return self.law.infinite + self.above[first] - to_ball(epsilon).exp() * self.tilted[first]


def _curves(components: Sequence[tuple[Cells, int]], level: float) -> tuple[_Curve, _Curve]:
    """The composition from below and from above, on a lattice that suits a delta of about `level`."""
    total = sum(count for _, count in components)
    budget = max(_SPARE * level / (4 * total), 1e-290)
    ends = [cells.reach(budget) for cells, _ in components]
    spread = math.sqrt(sum(count * variance for (_, count), (_, _, variance) in zip(components, ends, strict=True)))
    coarse = max(max(high - low for low, high, _ in ends) / _CELLS, spread / _WIDE)
    units = [cells.unit for cells, _ in components if cells.unit]
    unit = max(units) if units else None
    if unit is not None and all(isinstance(cells, AtomCells) for cells, _ in components) and float(unit) < coarse:
        coarse = float(unit)
    step = unit / math.ceil(float(unit) / coarse) if unit is not None else Fraction(coarse).limit_denominator(10**12)
    ops = 4 * sum(count.bit_length() + 1 for _, count in components)
    laws = []
    for upper in (False, True):
        result = None
        for (cells, count), (low, high, _) in zip(components, ends, strict=True):
            first, last = math.floor(low / float(step)) - 1, math.ceil(high / float(step)) + 1
            if not upper:
                one = _lowered(cells, step, first, last)
            elif isinstance(cells, Enclosed):
                one = cells.raised(step, first, last, _SPARE * level / ops)
            else:
                one = _raised(cells, step, first, last)
            power = one.power(count, _SPARE * level / ops, upper)
            result = power if result is None else result.times(power, _SPARE * level / ops, upper)
        assert result is not None
        laws.append(_Curve.of(step, result))
    return laws[0], laws[1]


def _ends(ball: arb) -> tuple[float, float]:
    """Floats on either side."""
    return math.nextafter(float(ball.lower()), -math.inf), math.nextafter(float(ball.upper()), math.inf)


def grid_delta(components: Sequence[tuple[Cells, int]], epsilon: Fraction, level: float) -> Bound:
    """The proved bracket on delta at epsilon, for one direction; `level` is about what it will be."""
    from flint import ctx

    with ctx.workprec(_BITS):
        below, above = _curves(components, level)
        return Bound(max(0.0, _ends(below.delta(epsilon))[0]), min(1.0, max(0.0, _ends(above.delta(epsilon))[1])), METHOD)


def grid_epsilon(components: Sequence[tuple[Cells, int]], delta: Fraction) -> Bound:
    """The proved bracket on the smallest epsilon >= 0 at delta, for one direction."""
    from flint import ctx

    with ctx.workprec(_BITS):
        below, above = _curves(components, float(delta))
        target = to_ball(delta)
        top = float(above.step) * (above.law.start + len(above.law.mass))
        upper = _search(lambda e: above.delta(Fraction(e)) <= target, top, True)
        lower = _search(lambda e: not below.delta(Fraction(e)) >= target, top, False)
        return Bound(min(lower, upper), upper, METHOD)


def _search(settled: Callable[[float], bool], top: float, upper: bool) -> float:
    """The smallest epsilon found for which it is settled, or the largest for which it is not."""
    if settled(0.0):
        return 0.0
    if not settled(top):
        return math.inf if upper else top
    low, high = 0.0, top
    while high - low > 4e-16 * high:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (low, middle) if settled(middle) else (middle, high)
    return high if upper else low
