"""Poisson batches that are cut at random to a largest size: a Gaussian sum over such a batch, one record added or removed.

`CutGaussian` dominates the mechanism on all data sets of at most `size` records; `AttainedCuts` is what the worst mechanisms of
sensitivity 1 cost on data sets of exactly `size`. Both are finite however often batches are cut, and all but the same. The proofs are
decisions 0067 and 0131; in short:

O of the others are drawn, in random order, and the first `batch` of them are kept: the sum walks through s_0, s_1, ...,
at most mu = 1/sigma apart, and stops at s_B where O >= B = batch. The record, drawn with probability q, moves s_O by at most mu
where O < B. Where O >= B it is kept with probability q_O = q B / (O + 1) and takes the place of the last one: the sum moves from s_B
to a place at most mu from s_{B-1}. A test accepts N(s) with probability Phi(g(s)), where g changes by at most the
distance, so with g_O for its values

    HS_alpha <= max over g of  sum over O < B of w_O ((1 - q - alpha) Phi(g_O) + q Phi(g_O + mu))
                             + sum over O >= B of w_O ((1 - q_O - alpha) Phi(g_B) + q_O Phi(g_{B-1} + mu)),   |g_O - g_{O-1}| <= mu.

Counting each O >= B only where it costs more than an uncut batch makes the bound grow with the number of the others, so it holds for
every smaller data set too.

>>> from tacit.accounting.pairs.pair import single_delta
>>> rarely = CutGaussian(0.01, 1.0, size=10_000, batch=150)
>>> [f"{single_delta(rarely, e)[1]:.4e}" for e in (0.5, 2.0)]
['2.2147e-07', '1.7266e-12']
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.pairs.pair import Array, Pair
from tacit.accounting.pairs.sampled import BinnedPair, Reversed
from tacit.accounting.special import ndtr

Index = NDArray[np.signedinteger[Any]]

_DIGITS = Context(prec=45)
_PI = Decimal("3.14159265358979323846264338327950288419716939937511")
_STIRLING = 60  # from here on the series is right to 1e-30
_EARLIER = 64  # places of the walk before the last that are tied to each other
_FIRST = 2  # numbers of draws beyond the cut that are told apart one by one
_ROUNDS = 60
_STRIDE = 32  # of many points every so manieth is solved from scratch, and the others from there
_RARE = 1e-25  # numbers of draws that are rarer than this, relative to all cut batches, are counted with the last


def _log_factorial(n: int) -> Decimal:
    """log n! to more than 25 digits."""
    if n < _STIRLING:
        return _DIGITS.ln(Decimal(math.factorial(n)))
    x, d = Decimal(n), _DIGITS
    total = d.subtract(d.multiply(d.add(x, Decimal("0.5")), d.ln(x)), x)
    total = d.add(total, d.divide(d.ln(d.multiply(2, _PI)), Decimal(2)))
    power = x
    for c in (12, -360, 1260, -1680, 1188, Decimal(-360360) / 691, 156, Decimal(-122400) / 3617):
        total = d.add(total, d.divide(Decimal(1), d.multiply(Decimal(c), power)))
        power = d.multiply(power, d.multiply(x, x))
    return total


def binomial_mass(trials: int, rate: float, k: int) -> float:
    """P[Bin(trials, rate) = k] to the last few bits, whatever the size of the numbers; 0 outside the range.

    >>> binomial_mass(4, 0.5, 2), f"{binomial_mass(60_000, 256 / 60_000, 300):.14e}"
    (0.375, '6.32192399757268e-04')
    """
    if not 0 <= k <= trials:
        return 0.0
    if rate in (0.0, 1.0):
        return float(k == trials * rate)
    d, q = _DIGITS, Decimal(rate)
    ways = d.subtract(_log_factorial(trials), d.add(_log_factorial(k), _log_factorial(trials - k)))
    found = d.add(ways, d.add(d.multiply(k, d.ln(q)), d.multiply(trials - k, d.ln(d.subtract(1, q)))))
    return float(d.exp(found)) if found > -740 else 0.0


@dataclass(frozen=True)
class Cuts:
    """How often a batch of Poisson draws from `size` - 1 others is full, and cut.

    `full` is the chance of B - 1 others, `earlier` lists those of B - 2, B - 3 and so on, and `groups` runs of numbers >= B with their
    chance, the chance that the record is kept as well, and the largest and the smallest chance q_O with which it is kept inside the run.
    """

    full: float
    earlier: tuple[float, ...]
    groups: tuple[tuple[float, float, float, float], ...]

    @property
    def before(self) -> float:
        """The chance of B - 2 others."""
        return self.earlier[0] if self.earlier else 0.0

    @property
    def cut(self) -> float:
        """The chance of B others or more."""
        return math.fsum(group[0] for group in self.groups)

    @property
    def kept(self) -> float:
        """The chance of that, and that the record is drawn and kept."""
        return math.fsum(group[1] for group in self.groups)


@lru_cache(maxsize=64)
def cuts(rate: float, size: int, batch: int) -> Cuts:
    """The law of full batches.

    >>> found = cuts(0.01, 10_000, 120)
    >>> round(found.cut, 6), round(found.kept / found.cut, 7)
    (0.027531, 0.0096389)
    """
    others = size - 1
    full = binomial_mass(others, rate, batch - 1)
    first = min(batch - 2, others)
    earlier = [binomial_mass(others, rate, first)] if first >= 0 else []
    while len(earlier) < _EARLIER and first > 0 and earlier[-1] > 0:
        earlier.append(earlier[-1] * first * (1 - rate) / (rate * (others - first + 1)))
        first -= 1
    groups: list[tuple[float, float, float, float]] = []
    mass, total, at, length = binomial_mass(others, rate, batch), 0.0, batch, 1
    odds = rate / (1 - rate)
    while at <= others and mass > 0:
        count = np.arange(at, min(at + length, others + 1), dtype=np.float64)
        each = mass * np.cumprod(np.append(1.0, odds * (others - count[:-1]) / (count[:-1] + 1)))
        share = rate * batch / (count + 1)
        groups.append((float(each.sum()), float(each @ share), float(share[0]), float(share[-1])))
        total += groups[-1][0]
        at += len(count)
        mass = float(each[-1]) * odds * (others - count[-1]) / (count[-1] + 1)
        length = 1 if len(groups) < _FIRST else 2 * length
        fading = odds * (others - at) / (at + 1)
        if fading < 1 and mass / (1 - fading) < _RARE * total:
            rest = mass / (1 - fading)
            groups.append((rest, rest * rate * batch / (at + 1), *[rate * batch / (at + 1)] * 2))
            break
    return Cuts(full, tuple(earlier), tuple(groups))


@dataclass(frozen=True)
class _At:
    """Losses, each as alpha - 1 and log((alpha - 1 + q) / q), the best place g* of uncut batches, and what is accepted there."""

    above: Array
    log_open: Array
    g0: Array
    alone: Array  # Phi(g*)
    drawn: Array  # Phi(g* + mu)
    base: Array  # what an uncut batch adds to the curve, (1 - q - alpha) Phi(g*) + q Phi(g* + mu)

    def some(self, which: Index) -> _At:
        rows = (self.above, self.log_open, self.g0, self.alone, self.drawn, self.base)
        return _At(*(row[which] for row in rows))


class CutGaussian(BinnedPair):
    """A record removed from a Poisson-sampled Gaussian sum whose batches are cut to at most `batch` of at most `size` records.

    Guarantee: add/remove, sums of l2 sensitivity 1 with Gaussian noise of standard deviation `sigma`, batches cut uniformly at random,
    data sets of at most `size` records. Proved in decision 0067.
    """

    def __init__(self, rate: float, sigma: float, *, size: int, batch: int) -> None:
        super().__init__()
        self.rate, self.mu, self.size, self.batch = rate, 1 / sigma, size, batch
        self.cuts = cuts(rate, size, batch)
        if self.cuts.before < self.cuts.full:
            raise ValueError("batches that are usually cut")
        self._earlier = np.array(self.cuts.earlier[: self._tied()])

    def _tied(self) -> int:
        """How many places before the last are tied to it: enough for it to be some standard deviations away from the others."""
        return min(len(self.cuts.earlier), 4 + math.ceil(6 / self.mu))

    def __repr__(self) -> str:
        return f"CutGaussian({self.rate}, {1 / self.mu}, size={self.size}, batch={self.batch})"

    def reverse(self) -> Pair:
        return Reversed(self)

    def support(self) -> tuple[float, float]:
        return math.log1p(-self.rate), math.inf

    def _candidates(self) -> list[tuple[float, float]]:
        """Chances of a cut batch, and of one that keeps the record: all numbers of draws, and those up to each.

        A positive part is convex in q_O, so it is at most what its run has with all of its weight at the largest and the smallest.
        """
        points = []
        for weight, kept, largest, smallest in self.cuts.groups:
            if not weight > 0:
                continue
            mean = kept / weight
            late = weight * min(1.0, max(0.0, (largest - mean) / (largest - smallest))) if largest > smallest else 0.0
            points += [(weight - late, (weight - late) * largest), (late, late * smallest)]
        found, cut, kept = [(self.cuts.cut, self.cuts.kept)], 0.0, 0.0
        for weight, chance in points:
            cut, kept = cut + weight, kept + chance
            if weight > 0 and cut < (1 - 1e-9) * self.cuts.cut:
                found.append((cut, kept))
        return found

    def tails(self, loss: Array) -> tuple[Array, Array]:
        """The P- and the Q-mass of losses beyond each of these."""
        q, mu = self.rate, self.mu
        p, tail = np.ones(len(loss)), np.ones(len(loss))
        inside = np.flatnonzero(np.expm1(np.minimum(loss, 1.0)) + q > 0)
        loss = loss[inside]
        above = np.expm1(np.minimum(loss, 700.0))
        # beyond 700 alpha is out of range, but its logarithm is not
        log_open = np.where(loss > 700.0, loss, np.log(above + q)) - math.log(q)
        g0 = -(log_open / mu + 0.5 * mu)
        alone, drawn = ndtr(g0), ndtr(g0 + mu)
        p[inside], tail[inside] = (1 - q) * alone + q * drawn, alone
        finite = loss <= 700.0
        at = _At(above, log_open, g0, alone, drawn, q * drawn - (above + q) * alone).some(np.flatnonzero(finite))
        if self.cuts.cut > 0:
            changed, p_mass, q_mass = self._cut(at)
            p[inside[finite][changed]], tail[inside[finite][changed]] = p_mass, q_mass
        return p, tail

    def _cut(self, at: _At) -> tuple[Index, Array, Array]:
        """Where cut batches cost more than uncut ones, and the P- and Q-mass there."""
        full = self.cuts.full
        best, p, q = np.zeros((3, len(at.g0)))
        for cut, kept in self._candidates():
            g = self._start(at, full, cut, kept)
            # with no earlier place tied to it the last one may be anywhere, which costs most
            some = np.flatnonzero(self._gain(at, g, full, cut, kept)[0] > best)
            if not len(some):
                continue
            here = at.some(some)
            gain, p_mass, q_mass = self._gain(here, self._settle(here, g[some], cut, kept), full, cut, kept, self._earlier)
            better = gain > best[some]
            some = some[better]
            best[some], p[some], q[some] = gain[better], p_mass[better], q_mass[better]
        changed = np.flatnonzero(best > 0)
        return changed, p[changed], q[changed]

    def _gain(
        self, at: _At, g: Array, full: float, cut: float, kept: float, earlier: Sequence[float] | Array = ()
    ) -> tuple[Array, Array, Array]:
        """What cut batches add to the curve where the walk's last place is g, and the P- and Q-mass beyond each loss."""
        q, mu = self.rate, self.mu
        open_, b = at.above + q, at.above + kept / cut
        near, far, end = ndtr(g), ndtr(g + mu), ndtr(np.where(b > 0, g - mu, g + mu))
        gain = full * (q * far - open_ * near - at.base) + (kept * far - cut * b * end - cut * at.base)
        alone, drawn = at.alone, at.drawn
        stay, drawing, rest = full * near, full * far, 1 - full - cut
        for side in (1, -1):  # the last place may lie above the others, or below
            some, here = np.arange(len(g)), near if side > 0 else far
            for i, weight in enumerate(earlier, 1):
                off = side * (g[some] - at.g0[some]) > i * mu
                some, before = some[off], here[off]
                if not len(some):
                    break
                # the place before is one step away, and so is where the record moves the sum
                after = ndtr(g[some] - (i * mu if side > 0 else -(i + 1) * mu))
                here, there = (after, before) if side > 0 else (before, after)
                gain[some] += weight * (q * there - open_[some] * here - at.base[some])
                stay[some] += weight * (here - alone[some])
                drawing[some] += weight * (there - drawn[some])
                here = after
        stay, drawing = rest * alone + stay, rest * drawn + drawing
        return gain, (1 - q) * stay + q * drawing + (cut - kept) * end + kept * far, stay + cut * end

    def _coefficients(self, at: _At, full: float, cut: float, kept: float) -> tuple[Array, Array, Array]:
        q, b = self.rate, at.above + kept / cut
        return full * q + kept - cut * np.minimum(b, 0.0), full * (at.above + q), cut * np.maximum(b, 0.0) * math.exp(-self.mu**2)

    def _start(self, at: _At, full: float, cut: float, kept: float) -> Array:
        """The best place g_{B-1} were no earlier one tied to it: v = exp(mu g + mu^2 / 2) solves a = c v + d v^2."""
        a, c, d = self._coefficients(at, full, cut, kept)
        return np.asarray(np.log(2 * a / np.maximum(c + np.hypot(c, 2 * np.sqrt(a) * np.sqrt(d)), 1e-300)) / self.mu - 0.5 * self.mu)

    def _settle(self, at: _At, g: Array, cut: float, kept: float) -> Array:
        """The best place g_{B-1} with the earlier ones, from where it would be without them."""
        found = g.copy()
        for side in (1, -1):
            some = np.flatnonzero(side * (g - at.g0) > self.mu)
            if len(some) and len(self._earlier):
                found[some] = self._tied_place(at.some(some), g[some], cut, kept, side)
        return found

    def _tied_place(self, at: _At, g: Array, cut: float, kept: float, side: int) -> Array:
        """The same where all of them lie above the others' best (`side` 1), or all below.

        Above, it is the root of a - c v - d v^2 less, for the place i steps before,

            w_i exp(-i (i + 1) mu^2 / 2) v^i (open v - q exp(i mu^2))_+,

        a falling, concave function. Below, with z = 1 / v, it is that of a z^2 - c z - d and, for each such place,

            w_i exp(-i (i - 1) mu^2 / 2) z^(i+1) (q exp(-i mu^2) z - open)_+,

        a convex one. Newton's steps from the far side stay there, and after one from the near side they are there. They start from the root
        without earlier places, or between roots of neighbours.
        """
        q, mu2, open_ = self.rate, self.mu**2, at.above + self.rate
        if len(g) > 64 * _STRIDE:
            few = np.unique(np.append(np.arange(0, len(g), _STRIDE), len(g) - 1))
            between = np.interp(np.arange(len(g)), few, self._tied_place(at.some(few), g[few], cut, kept, side))
            g = np.minimum(g, between) if side > 0 else np.maximum(g, between)
        a, c, d = self._coefficients(at, self.cuts.full, cut, kept)
        log_x = side * (self.mu * g + 0.5 * mu2)  # of v or of z
        left = np.arange(len(g))  # still to be moved
        for _ in range(_ROUNDS):
            x = np.exp(log_x[left])
            if side > 0:
                value, slope = a[left] - c[left] * x - d[left] * x * x, -c[left] - 2 * d[left] * x
            else:
                value, slope = d[left] + c[left] * x - a[left] * x * x, c[left] - 2 * a[left] * x
            excess = side * at.log_open[left] + log_x[left]
            within = np.arange(len(left))
            for i, weight in enumerate(self._earlier, 1):
                within = within[excess[within] > i * mu2]
                if not len(within):
                    break
                here, power = log_x[left[within]], i if side > 0 else i + 1
                scale = (q if side > 0 else open_[left[within]]) * weight
                scale = scale * np.exp(np.minimum(power * here - 0.5 * i * (i - 1) * mu2, 600.0))
                grown = np.exp(np.minimum(excess[within] - i * mu2, 600.0))
                value[within] -= scale * (grown - 1)
                slope[within] -= scale * (grown + power * (grown - 1)) / x[within]
            move = np.clip(value / slope / x, -1e6, 0.999)
            log_x[left] += np.log1p(-move)
            left = left[np.abs(move) > 1e-13 * np.maximum(1.0, np.abs(log_x[left]))]
            if not len(left):
                break
        return np.asarray((side * log_x - 0.5 * mu2) / self.mu)

    def masses(self, edges: Array) -> tuple[Array, Array]:
        finite = np.isfinite(edges)
        p, q = np.where(edges < 0, 1.0, 0.0), np.where(edges < 0, 1.0, 0.0)
        p[finite], q[finite] = self.tails(edges[finite])
        return np.maximum(-np.diff(p), 0.0), np.maximum(-np.diff(q), 0.0)


class AttainedCuts(CutGaussian):
    """The same on data sets of exactly `size` records, from below: at every alpha some mechanism of sensitivity 1 attains it.

    A walk of the best test is a walk of the sum as well: let a batch of j others have the sum g_j, and g_j + mu with the record. No record
    moves it by more than mu, and a half-line tests it. Here a walk begins where the tied places do: all batches before stand at the first.
    """

    close = True

    def __init__(self, rate: float, sigma: float, *, size: int, batch: int) -> None:
        super().__init__(rate, sigma, size=size, batch=batch)
        if len(self._earlier):
            self._earlier[-1] = max(0.0, 1 - self.cuts.full - self.cuts.cut - float(self._earlier[:-1].sum()))

    def __repr__(self) -> str:
        return f"AttainedCuts({self.rate}, {1 / self.mu}, size={self.size}, batch={self.batch})"

    def _cut(self, at: _At) -> tuple[Index, Array, Array]:
        full, cut, kept = self.cuts.full, self.cuts.cut, self.cuts.kept
        g = self._settle(at, self._start(at, full, cut, kept), cut, kept)
        _, p, q = self._gain(at, g, full, cut, kept, self._earlier)
        return np.arange(len(g)), p, q
