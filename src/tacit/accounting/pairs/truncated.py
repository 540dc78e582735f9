"""Poisson batches that are cut at random to a largest size: a Gaussian sum over such a batch, one record added or removed.

`CutGaussian` dominates the mechanism on all data sets of at most `size` records; `attained_cuts` is a mechanism of
sensitivity 1 that does occur. Both are finite however often batches are cut, and close to each other. The proof is
decision 0067; in short:

O of the others are drawn, in random order, and the first `batch` of them are kept: the sum walks through s_0, s_1, ...,
at most mu = 1/sigma apart, and stops at s_B where O >= B = batch. The record, drawn with probability q, moves s_O by at most mu
where O < B. Where O >= B it is kept with probability q_O = q B / (O + 1) and takes the place of the last one: the sum moves from s_B
to a place at most mu from s_{B-1}. A test accepts N(s) with probability Phi(g(s)), where g changes by at most the
distance, so with g_0, g_1 and g_B for its values at O < B - 1, O = B - 1 and O >= B

    HS_alpha <= max over g of  sum over O < B of w_O ((1 - q - alpha) Phi(g_O) + q Phi(g_O + mu))
                             + sum over O >= B of w_O ((1 - q_O - alpha) Phi(g_B) + q_O Phi(g_1 + mu)),   |g_B - g_1| <= mu,

which has a closed form. Counting each O >= B only where it costs more than an uncut batch makes the bound grow with the number of
the others, so it holds for every smaller data set too.

>>> from tacit.accounting.pairs.pair import single_delta
>>> rarely = CutGaussian(0.01, 1.0, size=10_000, batch=150)
>>> [f"{single_delta(rarely, e)[1]:.4e}" for e in (0.5, 2.0)]
['2.2147e-07', '1.7266e-12']
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import lru_cache

import numpy as np

from tacit.accounting.pairs.finite import FinitePair
from tacit.accounting.pairs.pair import Array, Pair
from tacit.accounting.pairs.sampled import BinnedPair, Reversed
from tacit.accounting.special import ndtr

_DIGITS = Context(prec=45)
_PI = Decimal("3.14159265358979323846264338327950288419716939937511")
_STIRLING = 60  # from here on the series is right to 1e-30
_FIRST = 8  # numbers of draws beyond the cut that are told apart one by one
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

    `before` is the chance of B - 2 others, `full` that of B - 1, and `groups` lists runs of numbers >= B with their chance, the
    chance that the record is kept as well, and the largest chance q_O with which it is kept inside the run.
    """

    before: float
    full: float
    groups: tuple[tuple[float, float, float], ...]

    @property
    def cut(self) -> float:
        """The chance of B others or more."""
        return math.fsum(w for w, _, _ in self.groups)

    @property
    def kept(self) -> float:
        """The chance of that, and that the record is drawn and kept."""
        return math.fsum(k for _, k, _ in self.groups)


@lru_cache(maxsize=64)
def cuts(rate: float, size: int, batch: int) -> Cuts:
    """The law of full batches.

    >>> found = cuts(0.01, 10_000, 120)
    >>> round(found.cut, 6), round(found.kept / found.cut, 7)
    (0.027531, 0.0096389)
    """
    others = size - 1
    before, full = binomial_mass(others, rate, batch - 2), binomial_mass(others, rate, batch - 1)
    groups: list[tuple[float, float, float]] = []
    mass, total, at, length = binomial_mass(others, rate, batch), 0.0, batch, 1
    odds = rate / (1 - rate)
    while at <= others and mass > 0:
        count = np.arange(at, min(at + length, others + 1), dtype=np.float64)
        each = mass * np.cumprod(np.append(1.0, odds * (others - count[:-1]) / (count[:-1] + 1)))
        share = rate * batch / (count + 1)
        groups.append((float(each.sum()), float(each @ share), float(share[0])))
        total += groups[-1][0]
        at += len(count)
        mass = float(each[-1]) * odds * (others - count[-1]) / (count[-1] + 1)
        length = 1 if len(groups) < _FIRST else 2 * length
        fading = odds * (others - at) / (at + 1)
        if fading < 1 and mass / (1 - fading) < _RARE * total:
            rest = mass / (1 - fading)
            groups.append((rest, rest * rate * batch / (at + 1), rate * batch / (at + 1)))
            break
    return Cuts(before, full, tuple(groups))


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

    def __repr__(self) -> str:
        return f"CutGaussian({self.rate}, {1 / self.mu}, size={self.size}, batch={self.batch})"

    def reverse(self) -> Pair:
        return Reversed(self)

    def support(self) -> tuple[float, float]:
        return math.log1p(-self.rate), math.inf

    def _candidates(self) -> list[tuple[float, float]]:
        """Chances of a cut batch, and of one that keeps the record: all numbers of draws, and those up to each run."""
        groups, found, weight, kept = self.cuts.groups, [(self.cuts.cut, self.cuts.kept)], 0.0, 0.0
        for w, k, largest in groups[:-1]:
            found.append((weight + w, kept + w * largest))
            weight, kept = weight + w, kept + k
        return found

    def tails(self, loss: Array) -> tuple[Array, Array]:
        """The P- and the Q-mass of losses beyond each of these."""
        q, mu, full, before = self.rate, self.mu, self.cuts.full, self.cuts.before
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            above = np.expm1(np.minimum(loss, 700.0))
            open_ = np.maximum(above + q, 0.0)
            # beyond 700 alpha is out of range, but its logarithm is not
            log_open = np.where(loss > 700.0, loss, np.log(open_))
            g0 = -((log_open - math.log(q)) / mu + 0.5 * mu)
            drawn = ndtr(g0 + mu)
            alone = ndtr(g0)
            base = q * drawn - open_ * alone  # what an uncut batch adds, (1 - q - alpha) Phi(g) + q Phi(g + mu) at its largest
            p, tail = (1 - q) * alone + q * drawn, alone
            best = np.zeros(len(loss))
            for cut, kept in self._candidates() if self.cuts.cut > 0 else ():
                b = above + kept / cut
                a = full * q + kept - cut * np.minimum(b, 0.0)
                shrink = math.exp(-mu * mu)
                g = self._place(a, full * open_, cut * np.maximum(b, 0.0) * shrink)
                # further than mu from g_0 the walk's place before, B - 2, comes along
                late = g > g0 + mu
                g = np.where(late, self._place(a, full * open_ - before * q, (before * open_ + cut * np.maximum(b, 0.0)) * shrink), g)
                previous = np.where(late, np.maximum(g - mu, g0), g0)
                last = np.where(b > 0, g - mu, g + mu)
                near, far, end = ndtr(g), ndtr(g + mu), ndtr(last)
                early, moved = ndtr(previous), ndtr(previous + mu)
                gain = full * (q * far - open_ * near - base) + (kept * far - cut * b * end - cut * base)
                gain += before * (q * moved - open_ * early - base)
                better = (gain > best) & (loss <= 700.0)
                best = np.where(better, gain, best)
                rest = 1 - before - full - cut
                stay = rest * alone + before * early + full * near
                drawing = rest * drawn + before * moved + full * far
                p = np.where(better, (1 - q) * stay + q * drawing + (cut - kept) * end + kept * far, p)
                tail = np.where(better, stay + cut * end, tail)
            below = open_ <= 0
        return np.where(below, 1.0, p), np.where(below, 1.0, tail)

    def _place(self, a: Array, c: Array, d: Array) -> Array:
        """The g at which z = exp(-mu g - mu^2 / 2) solves a z^2 = c z + d."""
        root = np.sqrt(np.maximum(c * c + 4 * a * d, 0.0))
        z = np.where(c >= 0, (c + root) / (2 * a), 2 * d / np.maximum(root - c, 1e-300))
        return np.asarray(-np.log(z) / self.mu - 0.5 * self.mu)

    def masses(self, edges: Array) -> tuple[Array, Array]:
        finite = np.isfinite(edges)
        p, q = np.where(edges < 0, 1.0, 0.0), np.where(edges < 0, 1.0, 0.0)
        p[finite], q[finite] = self.tails(edges[finite])
        return np.maximum(-np.diff(p), 0.0), np.maximum(-np.diff(q), 0.0)


_CELL = 0.02  # of the output along the record, in standard deviations
_LANE = 0.25  # across it
_GROUPS = 8000
_ASIDE = 0.3  # the part of its last step by which the walk goes the record's way, chosen by trial


def attained_cuts(rate: float, sigma: float, *, size: int, batch: int, walk: int | None = None) -> tuple[FinitePair, FinitePair]:
    """Both directions of a mechanism of sensitivity 1 on a data set of `size` records, its outputs put into cells: a lower bound.

    The sum over a batch with fewer than B - 1 - `walk` others is 0. Then each further one moves it by mu in one direction, so that full
    batches stand apart; the (B-1)-th by mu the way in which the record goes, and the B-th back again. The record adds mu, so a
    cut batch that keeps it stands 2 mu from one that does not.
    """
    mu, law = 1 / sigma, cuts(rate, size, batch)
    steps = max(1, min(batch - 2, math.ceil(6 * sigma) if walk is None else walk, 200))
    lanes = [binomial_mass(size - 1, rate, batch - 1 - steps + i) for i in range(steps)]
    rest = max(0.0, 1 - law.cut - law.full - math.fsum(lanes))
    aside = _ASIDE * mu
    final = (steps - 1 + math.sqrt(1 - _ASIDE * _ASIDE)) * mu
    across = np.concatenate([[-math.inf], np.arange(-7.0, final + 7.0, _LANE), [math.inf]])
    along = np.concatenate([[-math.inf], np.arange(-10.0, 2 * mu + aside + 12.0, _CELL), [math.inf]])

    def cells(edges: Array, place: float) -> Array:
        x = edges - place
        k = int(np.count_nonzero(x[:-1] <= -x[1:]))
        mass = np.empty(len(x) - 1)
        mass[:k], mass[k:] = np.diff(ndtr(x[: k + 1])), -np.diff(ndtr(-x[k:]))
        return mass

    walking = rest * cells(across, 0.0)
    for i, weight in enumerate(lanes[:-1]):
        walking = walking + weight * cells(across, (i + 1) * mu)
    end = cells(across, final)
    plain, drawn = cells(along, 0.0), cells(along, mu)
    here, there, far = (cells(along, aside + x) for x in (0.0, mu, 2 * mu))
    cut, kept, full, before = law.cut, law.kept, law.full, lanes[-1]
    q_mass = np.outer(walking, plain) + np.outer(end, (cut + before) * here + full * there)
    p_mass = np.outer(walking, (1 - rate) * plain + rate * drawn)
    p_mass += np.outer(
        end, (cut - kept + before * (1 - rate)) * here + (full * (1 - rate) + before * rate) * there + (full * rate + kept) * far
    )
    return _grouped(p_mass.ravel(), q_mass.ravel())


def _grouped(p: Array, q: Array) -> tuple[FinitePair, FinitePair]:
    """Cells of like losses put together: what a function of the output tells is at most what the output tells."""
    inside = (p > 0) & (q > 0)
    p, q = np.append(p[inside], p[~inside].sum()), np.append(q[inside], q[~inside].sum())
    p, q = p[(p > 0) | (q > 0)], q[(p > 0) | (q > 0)]
    with np.errstate(divide="ignore"):
        loss = np.clip(np.log(p) - np.log(q), -600.0, 600.0)
    ladder = np.arcsinh(loss / 0.002)
    place = np.floor((ladder - ladder.min()) / max(float(np.ptp(ladder)), 1e-300) * _GROUPS).astype(int)
    together = np.asarray(np.bincount(place, p), dtype=float), np.asarray(np.bincount(place, q), dtype=float)
    kept = (together[0] > 0) & (together[1] > 0)
    p, q = together[0][kept], together[1][kept]
    return _finite(p / p.sum(), q / q.sum()), _finite(q / q.sum(), p / p.sum())


def _finite(p: Array, q: Array) -> FinitePair:
    loss = np.log(p) - np.log(q)
    order = np.argsort(loss, kind="stable")
    loss, p = loss[order], p[order]
    distinct, place = np.unique(loss, return_inverse=True)
    return FinitePair(distinct, np.log(np.bincount(place, p)), rounding=1e-12)

