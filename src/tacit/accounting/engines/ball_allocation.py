"""Proved brackets for random allocation: one epoch, in which each record takes part in one of t Gaussian sums.

With S = Y_1 + ... + Y_t, the sum of the steps' likelihood ratios under Q, and K = t e^eps, delta is (t - K + E[(K - S)_+]) / t when
the record is removed and e^eps E[(t e^-eps - S)_+] / t when it is added (`tacit.accounting.engines.allocation`). Both need the law of
S below one point only, and every Y is positive, so a truncated power of a polynomial has it without any tail.

Both payoffs are convex in each Y. From above, Y is spread onto a lattice with its mean kept, cell by cell. From below, for the record that
is removed, each cell is replaced by its mean, which is lowered onto the lattice, moved by one small shift for all; (S - K)_+ grows with Y,
and E[(S - K)_+] = E[S] - K + E[(K - S)_+] with the mean of the lowered law. Masses and means are normal distribution functions in ball
arithmetic, so what comes out is a theorem.

>>> found = allocated_epsilon(Fraction(1), 100, Fraction(1, 10**5), 0.63)
>>> 0.6085 < found.lower <= found.upper < 0.6356 and found.width < 1e-3
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from tacit.accounting.bound import Bound
from tacit.accounting.engines.ball_arithmetic import to_ball
from tacit.accounting.engines.ball_grid import normal
from tacit.errors import UnsupportedError

if TYPE_CHECKING:
    from flint import arb, arb_poly

METHOD = "random allocation, power of a polynomial in ball arithmetic"
_BITS = 224
_POINTS = 12_000  # lattice points of the sum, up to the largest K


@dataclass(frozen=True)
class Sums:
    """E[(K - S)_+] for every K up to the end of the lattice, from one of the two laws: prefix sums of masses and of first moments."""

    step: Fraction
    shift: Fraction  # by which the whole sum was lowered
    mean: arb  # of the whole sum
    mass: list[arb]
    moment: list[arb]

    def below(self, at: arb) -> arb:
        """E[(at - S)_+], for a point inside the lattice."""
        moved = at + to_ball(self.shift)
        place = (moved / to_ball(self.step)).floor()
        if (known := place.unique_fmpz()) is None:
            raise UnsupportedError("no proof within reach: epsilon lies on the lattice; ask without certify=True")
        index = min(int(known), len(self.mass) - 1)
        return moved * self.mass[index] - self.moment[index]


def _sums(sigma: Fraction, steps: int, most: Fraction, upper: bool, points: int = 0) -> Sums:
    from flint import arb_poly

    points = points or _POINTS
    step, spread = most / points, to_ball(1 / sigma)

    def head(y: Fraction) -> tuple[arb, arb]:
        """Mass and first moment of Y below y."""
        if y <= 0:
            return to_ball(0), to_ball(0)
        z = to_ball(y).log() / spread + spread / 2
        return normal(z), normal(z - spread)

    size = points + 2
    mass, shift, mean = [to_ball(0)] * size, Fraction(0), to_ball(1)
    if upper:
        before = head(Fraction(0))
        for j in range(size - 1):
            after = head(step * (j + 1))
            p, f = after[0] - before[0], after[1] - before[1]
            top = f / to_ball(step) - j * p
            mass[j] += p - top
            mass[j + 1] += top
            before = after
    else:
        found, before = [], head(Fraction(0))
        for j in range(size):
            after = head(step * j + step / 2)
            p, f = after[0] - before[0], after[1] - before[1]
            if p > 0:
                found.append((j, p, f / p))
            before = after
        off = sorted(((max(0.0, float((to_ball(step * j) - place).upper())), float(p.mid())) for j, p, place in found), reverse=True)
        best, beyond = math.inf, 0.0
        for distance, there in off:
            if distance < float(step) / 4 and (price := distance + float(step) * beyond) < best:
                best, shift = price, Fraction(distance * (1 + 1e-9))
            beyond += there
        mean = 1 - before[1]  # what lies beyond the lattice is one cell
        for j, p, place in found:
            index = j if place >= to_ball(step * j - shift) else j - 1
            mass[index] += p
            mean += p * to_ball(step * index - shift)
    result, base, left = None, arb_poly(mass), steps
    while left:
        if left & 1:
            result = base if result is None else _cut(result * base, size)
        left >>= 1
        if left:
            base = _cut(base * base, size)
    assert result is not None
    law = result.coeffs() + [to_ball(0)] * max(0, size - result.length())
    total, moment, masses, moments = to_ball(0), to_ball(0), [], []
    for k, p in enumerate(law[:size]):
        total += p
        moment += p * to_ball(step * k)
        masses.append(total)
        moments.append(moment)
    return Sums(step, steps * shift, steps * mean, masses, moments)


def spread_sums(sigma: Fraction, steps: int, most: Fraction, points: int) -> Sums:
    """The upper end of E[(K - S)_+] for K up to `most`, on a lattice of so many points; the mean of the sum is exact."""
    return _sums(sigma, steps, most, True, points)


def _cut(polynomial: arb_poly, size: int) -> arb_poly:
    """The first coefficients: sums beyond the lattice do not come back."""
    from flint import arb_poly

    return arb_poly(polynomial.coeffs()[:size])


def _deltas(low: Sums, high: Sums, steps: int, epsilon: Fraction) -> tuple[float, float]:
    """The larger of the two directions, from below and from above."""
    factor = to_ball(epsilon).exp()
    removed = [sums.mean / steps - factor + sums.below(steps * factor) / steps for sums in (low, high)]
    added = factor * high.below(steps / factor) / steps
    lower, upper = float(removed[0].lower()), max(float(removed[1].upper()), float(added.upper()))
    return max(0.0, math.nextafter(lower, -math.inf)), min(1.0, max(0.0, math.nextafter(upper, math.inf)))


def _both(sigma: Fraction, steps: int, epsilon: float) -> tuple[Sums, Sums]:
    if steps * math.exp(min(epsilon, 50.0)) > 200 * steps or steps > 5000:
        raise UnsupportedError("no proof within reach: the sums spread too far; ask without certify=True")
    most = Fraction(steps * math.exp(epsilon) * (1 + 1e-3))
    return _sums(sigma, steps, most, False), _sums(sigma, steps, most, True)


def allocated_delta(sigma: Fraction, steps: int, epsilon: Fraction) -> Bound:
    """The proved bracket on delta at epsilon >= 0."""
    from flint import ctx

    with ctx.workprec(_BITS):
        return Bound(*_deltas(*_both(sigma, steps, float(epsilon)), steps, epsilon), METHOD)


def allocated_epsilon(sigma: Fraction, steps: int, delta: Fraction, about: float) -> Bound:
    """The proved bracket on the smallest epsilon >= 0 at delta; `about` is near it, and decides how far the lattice goes."""
    from flint import ctx

    if delta <= 0:
        raise UnsupportedError("certify=True takes a delta above 0 here; ask without it")
    with ctx.workprec(_BITS):
        top = about * 1.01 + 1e-6
        low, high = _both(sigma, steps, top)
        target, found = float(delta), []
        for end in (0, 1):
            least, most = 0.0, top

            def settled(epsilon: float, end: int = end) -> bool:
                value = _deltas(low, high, steps, Fraction(epsilon))[end]
                return value <= target if end else value < target

            if settled(0.0):
                found.append(0.0)
                continue
            if not settled(top):
                if end:
                    raise UnsupportedError("no proof within reach: the lattice ends before epsilon; ask without certify=True")
                found.append(top)
                continue
            while most - least > 4e-16 * most:
                middle = 0.5 * (least + most)
                if not least < middle < most:
                    break
                least, most = (least, middle) if settled(middle) else (middle, most)
            found.append(most if end else least)
        return Bound(min(found), found[1], METHOD)
