"""Proved laws of one epoch of random allocation, to compose with further epochs and with anything else on one lattice of losses.

One epoch is no single law here but two, of which the first costs more than the truth and the second less. With S = Y_1 + ... + Y_t, the
sum of the steps' likelihood ratios under Q, the curve of one epoch is h(alpha) = E_Q[(S - t alpha)_+] / t, decreasing and convex.

- *From above.* At the points of the lattice of losses h is bounded by a spread law of Y, as in `tacit.accounting.engines.ball_allocation`,
  on a lattice of its own for each range of t alpha. A polygon through any of these points lies above h, and where it is convex it is the
  curve of a pair whose losses lie on the lattice. Points at which ball arithmetic cannot prove it convex are left out.
- *From below.* T = sum of the Y_i, each rounded to a lattice, is a function of the outputs; its laws under P and Q are products of
  polynomials, exact but for the balls. A pair of laws of a function of the outputs costs no more than the epoch. The lattice gets coarser
  with the largest of the rounded Y, which is told as well: with A_k and B_k the masses up to the ends of level k and of the level before,
  both on the lattice of level k, the outputs of level k have the law A_k^t - B_k^t.

Both ends need only balls: normal distribution functions and products of polynomials. Decision 0205 proves each line.

>>> from tacit.accounting.engines.ball_grid import grid_epsilon
>>> found = grid_epsilon([(EpochCells(Fraction(2), 3), 2)], Fraction(1, 1000))
>>> 1.1 < found.lower <= found.upper < 1.3 and found.width < 1e-3
True
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from tacit.accounting.engines import allocation
from tacit.accounting.engines.ball_allocation import spread_sums
from tacit.accounting.engines.ball_arithmetic import to_ball
from tacit.accounting.engines.ball_grid import Enclosed, Law, normal
from tacit.accounting.pairs.likelihood_ratio import GaussianRatio
from tacit.errors import UnsupportedError

if TYPE_CHECKING:
    from flint import arb, arb_poly

_POINTS = 12_000  # of the lattice of the sums that are most usual
_TURNS = 3  # each lattice of the upper end reaches so many times as far as the one before
_LEVELS = 5  # each lattice of the lower end is so many times coarser than the one before; odd, so that cells of both have common ends
_MOST_STEPS = 5000

Outputs = list[tuple["arb", "arb"]]  # P- and Q-mass of each output of a statistic


@dataclass(frozen=True)
class EpochCells(Enclosed):
    """An epoch in which a record is in one of `steps` Gaussian sums of noise `sigma`: removed, or `added`."""

    sigma: Fraction
    steps: int
    added: bool = False

    def reach(self, budget: float) -> tuple[float, float, float]:
        low, high, variance = _reach(float(self.sigma), self.steps, budget, self.added)
        return (-high, -low, variance) if self.added else (low, high, variance)

    def raised(self, step: Fraction, first: int, last: int, cut: float) -> Law:
        if self.added:
            first, last = -last, -first
        return polygon(self.sigma, self.steps, step, first, last).law(self.added)

    def tails(self, loss: Fraction) -> tuple[arb, arb]:
        p, q = to_ball(0), to_ball(0)
        for level in _told(self.sigma, self.steps):
            more = level.tails(loss, self.added)
            p, q = p + more[0], q + more[1]
        return p, q


@lru_cache(maxsize=16)
def _reach(sigma: float, steps: int, budget: float, added: bool) -> tuple[float, float, float]:
    """Losses of the removed record beyond which all but `budget` lies, and their variance in the direction asked about."""
    if steps > _MOST_STEPS:
        raise UnsupportedError(f"no proof within reach: certify=True takes at most {_MOST_STEPS} steps an epoch; ask without it")
    ratio = GaussianRatio(sigma)
    deviation = math.sqrt(min(math.expm1(min(sigma**-2, 50.0)) / steps, 1.0))
    pair = allocation.epoch_laws(ratio, steps, deviation / 24, budget)[True]
    losses, weights = pair.losses, pair.reverse().p[::-1] if added else pair.p
    mean = float(weights @ losses) / float(weights.sum())
    variance = float(weights @ (losses - mean) ** 2) / float(weights.sum())
    return float(losses[0]), float(losses[-1]), variance


# --- from above -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Polygon:
    """A convex polygon above the curve of one epoch: the changes of its slope at lattice points of losses, and its two ends."""

    start: int
    ratios: list[arb]  # e^loss at each point
    bends: list[arb]  # Q-mass there
    infinite: arb  # its value at the last point: P-mass without Q-mass
    missing: arb  # Q-mass without P-mass

    def law(self, added: bool) -> Law:
        """The losses of P, or of Q against P."""
        if added:
            return Law(-(self.start + len(self.bends) - 1), self.bends[::-1], self.missing)
        return Law(self.start, [ratio * bend for ratio, bend in zip(self.ratios, self.bends, strict=True)], self.infinite)


@lru_cache(maxsize=8)
def polygon(sigma: Fraction, steps: int, step: Fraction, first: int, last: int) -> Polygon:
    """The polygon through upper ends of h at exp(step i), i from `first` to `last`, without those that would not leave it convex."""
    ratios = [to_ball(step * i).exp() for i in range(first, last + 1)]
    values: list[arb] = []
    ends = [float(ratio.mid()) for ratio in ratios]
    at = 0
    for most, points in windows(float(sigma), steps, ends[0], ends[-1]):
        sums = spread_sums(sigma, steps, Fraction(steps * most), points)
        while at < len(ends) and ends[at] < most * (1 - 1e-9):
            values.append((1 - ratios[at] + sums.below(steps * ratios[at]) / steps).upper())
            at += 1
    return _convex(first, ratios, values)


def windows(sigma: float, steps: int, first: float, last: float) -> list[tuple[float, int]]:
    """Ends of the ranges of S / t that have a lattice each, and its number of points: more where S usually is, if that range is narrow."""
    deviation = math.sqrt(math.expm1(min(sigma**-2, 50.0)) / steps)
    usual = 1 + min(6 * deviation, _TURNS)
    found, most = [(usual, _POINTS if deviation > 0.05 else 2 * _POINTS)], usual
    while most < last * (1 + 1e-6):
        most *= _TURNS
        found.append((most, _POINTS // 2))
    most = usual
    while most > _TURNS * first and len(found) < 60:
        most /= _TURNS
        found.insert(0, (most, _POINTS // 2))
    return [(most * (1 + 1e-3 / 1.618), points) for most, points in found]


def _convex(first: int, ratios: Sequence[arb], values: Sequence[arb]) -> Polygon:
    """The lower hull of the points, of (0, 1), and of a level line behind the last one.

    A point goes where the slope is not proved to grow. What is left bounds the curve as well: it is a polygon through points above it.
    """
    kept: list[tuple[arb, arb, int]] = [(to_ball(0), to_ball(1), -1)]
    slopes: list[arb] = []  # to the points kept, from the ones before
    for index, (ratio, value) in enumerate(zip(ratios, values, strict=True)):
        slope = (value - kept[-1][1]) / (ratio - kept[-1][0])
        while slopes and not slope > slopes[-1]:
            kept.pop()
            slopes.pop()
            slope = (value - kept[-1][1]) / (ratio - kept[-1][0])
        kept.append((ratio, value, index))
        slopes.append(slope)
    while slopes and not slopes[-1] < 0:
        kept.pop()
        slopes.pop()
    if not slopes:
        raise UnsupportedError("no proof within reach: one epoch has no losses on this lattice; ask without certify=True")
    bends = [to_ball(0)] * len(ratios)
    for (_, _, index), before, after in zip(kept[1:], slopes, [*slopes[1:], to_ball(0)], strict=True):
        bends[index] = after - before
    return Polygon(first, list(ratios), bends, kept[-1][1], 1 + slopes[0])


# --- from below -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Told:
    """Outputs of one level in the order of their losses, each smeared by a coin of its own over losses around it.

    `ends` are where the outputs' ranges meet. A lattice of losses that cuts a range takes part of the output on either side: that is
    post-processing with a coin, and without it the means of cells would be off their middles by the distance of outputs.
    """

    ends: list[float]
    masses: Outputs
    above: Outputs  # summed from each output on, and nothing at the end
    below: Outputs  # of the outputs before each one

    @staticmethod
    def of(outputs: Outputs) -> Told:
        """Outputs of which the balls do not prove that they have mass are left out: a sum of positive parts only loses by that."""
        kept = [(float((p / q).log().mid()), p, q) for p, q in outputs if p > 0 and q > 0]
        kept.sort(key=lambda row: row[0])
        losses, masses = [loss for loss, _, _ in kept], [(p, q) for _, p, q in kept]
        above, below = [(to_ball(0), to_ball(0))], [(to_ball(0), to_ball(0))]
        for last, first in zip(reversed(masses), masses, strict=True):
            above.append((above[-1][0] + last[0], above[-1][1] + last[1]))
            below.append((below[-1][0] + first[0], below[-1][1] + first[1]))
        middles = [0.5 * (a + b) for a, b in pairwise(losses)]
        if middles:
            middles = [2 * losses[0] - middles[0], *middles, 2 * losses[-1] - middles[-1]]
        return Told(middles or 2 * losses, masses, above[::-1], below)

    def tails(self, loss: Fraction, added: bool) -> tuple[arb, arb]:
        """P- and Q-mass of larger losses; with P and Q changed over, of losses below -loss.

        Shares of an output fall with the loss, and that is all that has to hold of them; so floats are good enough.
        """
        at = -float(loss) if added else float(loss)
        index = min(max(bisect_right(self.ends, at) - 1, 0), len(self.masses) - 1)
        if index < 0:
            return to_ball(0), to_ball(0)
        left, right = self.ends[index], self.ends[index + 1]
        share = min(max((right - at) / (right - left), 0.0), 1.0) if right > left else float(at < right)
        (p, q), whole = self.masses[index], (self.below[index] if added else self.above[index + 1])
        part = to_ball(1.0 - share if added else share)
        found = whole[0] + part * p, whole[1] + part * q
        return (found[1], found[0]) if added else found


@lru_cache(maxsize=8)
def _told(sigma: Fraction, steps: int) -> tuple[Told, ...]:
    _, high, _ = _reach(float(sigma), steps, 1e-40, False)
    return tuple(Told.of(outputs) for outputs in rounded_sums(sigma, steps, math.exp(high)))


def rounded_sums(sigma: Fraction, steps: int, last: float) -> list[Outputs]:
    """The outputs T of one epoch, level by level; levels end where the largest ratio is beyond `last` times t.

    Sums beyond the lattice of a level are one output, and so are ratios beyond the last level.
    """
    deviation = math.sqrt(math.expm1(min(float(sigma) ** -2, 50.0)) / steps)
    usual = steps * (1 + min(12 * deviation, 3.0))
    points = _POINTS if deviation > 0.05 else 2 * _POINTS
    largest = _LEVELS * (points // (4 * _LEVELS)) + _LEVELS // 2  # the largest rounded ratio of a level
    lattice = Fraction(usual / points)
    levels: list[Outputs] = []
    before: int | None = None  # the largest rounded ratio of the level before, on this lattice
    passed = to_ball(0), to_ball(0)
    while True:
        p, q = cells_of(sigma, lattice, largest)
        done, law = _whole(p, q, steps), _sum_laws(p, q, steps, points)
        if before is not None:
            known = _sum_laws(p[: before + 1], q[: before + 1], steps, points)
            law = [a - b for a, b in zip(law[0], known[0], strict=True)], [a - b for a, b in zip(law[1], known[1], strict=True)]
        rest = [done[i] - passed[i] - sum(law[i], to_ball(0)) for i in (0, 1)]
        levels += [list(zip(law[0], law[1], strict=True)), [(rest[0], rest[1])]]
        passed = done
        if float(lattice) * largest > last * steps:
            break
        lattice, points, before = lattice * _LEVELS, 2 * largest, (largest - _LEVELS // 2) // _LEVELS
    levels.append([(1 - passed[0], 1 - passed[1])])
    return levels


def cells_of(sigma: Fraction, lattice: Fraction, largest: int) -> tuple[list[arb], list[arb]]:
    """P- and Q-mass of Y rounded to each point of the lattice up to the largest."""
    below = _head(sigma)
    before, p, q = (to_ball(0), to_ball(0)), [], []
    for j in range(largest + 1):
        after = below(lattice * j + lattice / 2)
        p.append(after[0] - before[0])
        q.append(after[1] - before[1])
        before = after
    return p, q


def _head(sigma: Fraction) -> Callable[[Fraction], tuple[arb, arb]]:
    spread = to_ball(1 / sigma)

    def head(y: Fraction) -> tuple[arb, arb]:
        """P- and Q-mass of Y below y > 0."""
        z = to_ball(y).log() / spread + spread / 2
        return normal(z - spread), normal(z)

    return head


def _whole(p: Sequence[arb], q: Sequence[arb], steps: int) -> tuple[arb, arb]:
    """P- and Q-mass of all sums of rounded ratios that have these masses."""
    all_p, all_q = to_ball(0), to_ball(0)
    for one, other in zip(p, q, strict=True):
        all_p += one
        all_q += other
    return all_p * all_q ** (steps - 1), all_q**steps


def _sum_laws(p: Sequence[arb], q: Sequence[arb], steps: int, points: int) -> tuple[list[arb], list[arb]]:
    """The laws of T up to `points` under P, where one step has the law p and the others q, and under Q."""
    from flint import arb_poly

    size = points + 1
    result, base, left = arb_poly([1]), arb_poly(list(q)), steps - 1
    while left:
        if left & 1:
            result = _first(result * base, size)
        left >>= 1
        if left:
            base = _first(base * base, size)
    laws = []
    for one in (p, q):
        law = _first(result * arb_poly(list(one)), size).coeffs()
        laws.append(law + [to_ball(0)] * (size - len(law)))
    return laws[0], laws[1]


def _first(polynomial: arb_poly, size: int) -> arb_poly:
    """The first coefficients: larger sums do not come back."""
    from flint import arb_poly

    return polynomial if polynomial.length() <= size else arb_poly(polynomial.coeffs()[:size])
