"""Certified grids: any pair between two lattices.

`pessimistic` dominates the pair and `optimistic` is dominated by it, both in the order of hockey-stick curves at every alpha > 0, which
composition preserves (HS of a product is an average of one factor's curve over the other's law). The curve of a pair is convex in
alpha = e^loss, and a lattice has exactly the piecewise linear curves with corners on the grid:

- pessimistic: the chords through the curve at the grid points ("connect the dots", Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022);
- optimistic: the chords lowered at each grid point by the largest gap between chord and curve on the two sides of it, then the greatest
  convex function below. The gap is bounded from the tangents at the ends and the middle of a cell, so the loss is of second order too.

Both errors in epsilon are about count (tilt + 1) step^2 / 12; atoms that lie on the grid have none.

Rounding. `Pair.masses` is trusted so far that the P- and Q-mass beyond a grid point are right to a relative e = 2^-44; single cells may be
differences of such tails. So the curve at a grid point is off by at most e (P-tail + alpha Q-tail). Where the P-tail is at most 4 alpha
Q-tails, the share 8 e of every cell that is moved to the safe end covers this; elsewhere the curve is at least 3/4 of its P-tail, and the
`rounding` 4 e of the lattice does.

>>> from tacit.accounting.pairs.laplace import laplace
>>> from tacit.accounting.engines.lattice import compose
>>> low, high = (compose([(make(laplace(0.1), 1e-3, -0.1, 0.1), 100)]).epsilon(1e-6) for make in (optimistic, pessimistic))
>>> low.lower < 4.692667 < high.upper < low.lower + 1e-3
True

The worst of several pairs: one pair whose hockey-stick curve is, at every alpha, the largest of theirs.

Where a changed record may touch any one of several mechanisms, but only one, as with disjoint parts of the data, the two output laws are
those of one of the pairs; which one is not known. The pointwise maximum of their curves is convex, decreasing, 1 at alpha = 0 and at
least (1 - alpha)_+, as they are, so it is the curve of a pair (Zhu, Dong, Wang 2022, Proposition 8), and that pair dominates each of them.
So it may be composed with others, where a maximum of composed figures would only hold if the same part were touched every time.

Where the i-th curve is the largest, minus its slope is the Q-mass and its height the P-mass less alpha times that: the tails beyond
a loss are those of the pair that is worst there. Where two curves cross, the loss has an atom; masses of intervals include it.

>>> from tacit.accounting.pairs.finite import leaky_randomised_response
>>> from tacit.accounting.pairs.mixture import gaussian
>>> from tacit.accounting.pairs.pair import single_delta
>>> both = WorstPair([gaussian(2.0), leaky_randomised_response(0.5, 0.0)])
>>> [round(single_delta(both, e)[1], 4) for e in (0.0, 1.0)]  # the second is worse at 0, and costs nothing beyond 1/2
[0.2449, 0.0068]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tacit.accounting.engines.lattice import Lattice
from tacit.accounting.engines.spectrum import UNIT
from tacit.accounting.pairs.finite import FinitePair
from tacit.accounting.pairs.pair import Array, Pair
from tacit.accounting.pairs.sampled import BinnedPair

TAIL_ERROR = 2.0**-44  # relative error of the P- or Q-mass beyond a grid point; the tests hold every pair against it
_SLACK = 8 * TAIL_ERROR
_PILE = 256  # roundings of a sum from the right
FAR = 600.0  # beyond this loss alpha leaves the range of doubles


@dataclass(frozen=True)
class _Cells:
    """A pair on a grid: masses of half cells and of the atoms that lie on grid points."""

    edge: Array  # grid points
    first: int
    p: Array  # two half cells a row
    q: Array
    atom_p: Array
    atom_q: Array
    jitter: float
    below: float  # P-mass before the first grid point
    above: float  # P-mass beyond the last


@lru_cache(maxsize=2)  # the grids from above and from below share their cells
def _cells(pair: Pair, step: float, lo: float, hi: float, offset: float) -> _Cells:
    first, last = math.floor((lo - offset) / step + 1e-9), math.ceil((hi - offset) / step - 1e-9)
    last = max(last, first + 1)
    half = np.asarray(offset + 0.5 * step * np.arange(2 * first, 2 * last + 1), dtype=float)
    edge = half[::2]
    # A rounding must not cut a sliver off the support: it counts into the last cell, and the jitter says so.
    lowest, highest = pair.support()
    jitter = 4 * UNIT * float(np.abs(edge).max())
    ends = np.concatenate([[-math.inf], half, [math.inf]])
    if 0 < highest - edge[-1] <= jitter:
        ends[-2], jitter = math.inf, 2 * jitter
    if 0 < edge[0] - lowest <= jitter:
        ends[1], jitter = -math.inf, 2 * jitter
    outer = pair.masses(ends)
    p, q = outer[0][1:-1].copy(), outer[1][1:-1].copy()
    below, above = float(outer[0][0]), float(outer[0][-1])
    atom_p, atom_q = np.zeros(len(edge)), np.zeros(len(edge))
    loss, mass = pair.atoms()
    if len(loss):
        place = (loss - offset) / step - first
        near = np.rint(place)
        gap = np.abs(loss - (offset + step * (near + first)))
        on = (gap <= 2.0**-44 * np.maximum(np.abs(loss), step)) & (near >= 0) & (near < len(edge))
        if on.any():
            jitter += float(gap[on].max())
        np.add.at(atom_p, near[on].astype(int), mass[on])
        np.add.at(atom_q, near[on].astype(int), mass[on] * np.exp(-loss[on]))
        off = ~on & (place >= 0) & (place < len(edge) - 1)
        cell = np.minimum((2 * place[off]).astype(int), len(p) - 1)
        np.add.at(p, cell, mass[off])
        np.add.at(q, cell, mass[off] * np.exp(-loss[off]))
        below += float(mass[~on & (place < 0)].sum())
        above += float(mass[~on & (place >= len(edge) - 1)].sum())
    return _Cells(edge, first, p.reshape(-1, 2), q.reshape(-1, 2), atom_p, atom_q, jitter, below, above)


def from_the_right(x: Array) -> Array:
    """Sums of x[i:] for every i, in blocks of blocks, so that no sum is rounded more than _PILE times.

    >>> from_the_right(np.array([1.0, 2.0, 3.0]))
    array([6., 5., 3.])
    """
    if len(x) <= 64:
        return np.asarray(np.cumsum(x[::-1])[::-1])
    padded = np.zeros(-(-len(x) // 64) * 64)
    padded[len(padded) - len(x) :] = x
    rows = np.cumsum(padded.reshape(-1, 64)[:, ::-1], axis=1)[:, ::-1]
    later = np.append(from_the_right(rows[:, 0])[1:], 0.0)
    return np.asarray((rows + later[:, None]).ravel()[len(padded) - len(x) :])


def _tails(x: Array) -> Array:
    """The same, and exactly constant where x is zero."""
    filled = np.flatnonzero(x)
    return np.asarray(np.append(from_the_right(x[filled]), 0.0)[np.searchsorted(filled, np.arange(len(x)))])


def pessimistic(pair: Pair, step: float, lo: float, hi: float, offset: float = 0.0) -> Lattice:
    """The smallest lattice pair on offset + step Z that dominates; losses beyond hi count as infinite, those below lo as the first point.

    >>> from tacit.accounting.pairs.laplace import laplace
    >>> bool(abs(pessimistic(laplace(1.0), 0.125, -1, 1).p.sum() - 1) < 1e-14)
    True
    """
    cells = _cells(pair, step, lo, hi, offset)
    p, q = cells.p.sum(axis=1), cells.q.sum(axis=1)
    # The P-mass that goes to a cell's upper end when P and Q both keep their masses, rounded up.
    scaled = q * np.exp(np.minimum(cells.edge[:-1], FAR))
    up = np.clip((p - scaled + _SLACK * (p + scaled)) / -math.expm1(-step), 0.0, p)
    mass = cells.atom_p.copy()
    mass[1:] += up
    mass[:-1] += p - up
    infinite = pair.infinite
    mass[0] += cells.below
    if pair.support()[1] > cells.edge[-1] + cells.jitter:
        infinite = min(1.0, infinite + cells.above * (1 + 1e-9) + 1e-300)  # never nothing, even where it underflows
    return Lattice(step, offset, cells.first, mass, infinite, 0.0, _rounding(pair), cells.jitter)


def optimistic(pair: Pair, step: float, lo: float, hi: float, offset: float = 0.0) -> Lattice:
    """A lattice pair on offset + step Z that is dominated by the pair and second-order close; losses outside [lo, hi] are left out.

    >>> from tacit.accounting.pairs.laplace import laplace
    >>> bool(optimistic(laplace(1.0), 0.125, -1, 1).p.sum() < 1)
    True
    """
    cells = _cells(pair, step, max(lo, -FAR), min(hi, FAR), offset)
    alpha = np.exp(cells.edge)
    width = alpha[:-1] * math.expm1(step)
    p, q = cells.p.sum(axis=1), cells.q.sum(axis=1)
    slack = _SLACK * (p + q * alpha[:-1])
    # Q-mass of a cell that connect-the-dots puts at its upper end, rounded down
    upper = np.clip((p - q * alpha[:-1] - slack) / width, 0.0, q)
    own = cells.atom_q.copy()
    if cells.above > 0:
        own[-1] += cells.above / alpha[-1]  # what lies higher may be moved down, P-mass for P-mass
    tail = _tails(np.append(q, 0.0) + own) * (1 - _PILE * UNIT)  # Q-mass at or beyond each point
    gap = _gaps(cells, upper, width, slack)
    chord = tail[1:] + upper  # minus the slope of the curve's chord on each cell
    height = np.append(from_the_right(chord * width), 0.0)
    lowered = np.maximum(np.append(gap, 0.0), np.append(0.0, gap))
    if not len(pair.atoms()[0]):
        # A chord also gets below the curve where only its left end comes down to the tangent at the right one, or the other way round:
        # better where nearly all of a cell's mass lies at one end, as with a smooth bulk that is much narrower than the grid.
        left, right = upper * width + 4 * slack, (q - upper) * width + 4 * slack
        at_left, at_right = left < 2 * gap, (right < 2 * gap) & (right < left)
        lowered = np.append(np.where(at_right, 0.0, np.where(at_left, left, gap)), 0.0)
        lowered[1:] = np.maximum(lowered[1:], np.where(at_right, right, np.where(at_left, 0.0, gap)))
    # The last corner: from there on 0, before it at least 0 after lowering.
    room = np.minimum.accumulate(height[:-1] - lowered[:-1])
    last = int(np.flatnonzero(height[1:] <= room)[-1]) + 1 if np.any(height[1:] <= room) else 0
    infinite = pair.infinite - (pair.cut if isinstance(pair, FinitePair) else 0.0)
    if last == 0:
        return Lattice(step, offset, cells.first, np.zeros(1), infinite, 0.0, 0.0, cells.jitter)
    drop = lowered[: last + 1].copy()
    drop[last] = 0.0
    # On the last cell the curve is above its tangent at the right end.
    drop[last - 1] = max(drop[last - 1], height[last - 1] - height[last] - tail[last] * width[last - 1])
    slope = chord[:last] + np.diff(drop) / width[:last]
    convex = np.clip(_decreasing(slope, width[:last]), 0.0, tail[0])
    corner = -np.diff(convex, prepend=tail[0], append=0.0)
    mass = np.maximum(corner, 0.0) * alpha[: last + 1]
    return Lattice(step, offset, cells.first, mass, infinite, 0.0, _rounding(pair), cells.jitter)


def _rounding(pair: Pair) -> float:
    return 4 * TAIL_ERROR + (pair.rounding if isinstance(pair, FinitePair) else 0.0)


def _decreasing(value: Array, weight: Array) -> Array:
    """Slopes of the greatest convex function below: neighbours in the wrong order are pooled until none are (isotonic regression)."""
    starts = np.flatnonzero(np.append(True, np.diff(value) != 0))  # equal neighbours stay together
    mean, total, length = value[starts], np.add.reduceat(weight, starts), np.diff(np.append(starts, len(value)))
    for _ in range(40):  # all at once, as long as that gets far
        starts = np.flatnonzero(np.append(True, mean[1:] <= mean[:-1]))
        if len(starts) == len(mean):
            return np.asarray(np.repeat(mean, length))
        pooled = np.add.reduceat(total, starts)
        # the mean relative to the first member, so that rounding stays relative to their difference
        first = np.repeat(mean[starts], np.diff(np.append(starts, len(mean))))
        mean = mean[starts] + np.add.reduceat((mean - first) * total, starts) / pooled
        total, length = pooled, np.add.reduceat(length, starts)
    stack: list[list[float]] = []
    for m, w, n in zip(mean.tolist(), total.tolist(), length.tolist(), strict=True):
        stack.append([m, w, n])
        while len(stack) > 1 and stack[-1][0] > stack[-2][0]:
            m2, w2, n2 = stack.pop()
            last = stack[-1]
            last[0] += (m2 - last[0]) * (w2 / (last[1] + w2))
            last[1] += w2
            last[2] += n2
    return np.repeat([block[0] for block in stack], [int(block[2]) for block in stack])


def _gaps(cells: _Cells, upper: Array, width: Array, slack: Array) -> Array:
    """A bound on chord minus curve in each cell: concave, zero at both ends, and known with a tangent at the middle."""
    alpha = np.exp(cells.edge[:-1])
    share = -np.expm1(-0.5 * np.diff(cells.edge)) / -np.expm1(-np.diff(cells.edge))
    right = width * share  # from the middle to the right end, in alpha
    left = width - right
    middle = alpha + left
    q = cells.q.sum(axis=1)
    centre = np.maximum(upper * right - (cells.p[:, 1] - middle * cells.q[:, 1]), 0.0) + 4 * slack
    tangent = cells.q[:, 1] - upper
    rise, fall = q - upper, upper
    with np.errstate(divide="ignore", invalid="ignore"):
        beyond = np.where(tangent >= 0, (fall * right - centre) / (fall + tangent), (rise * left - centre) / (rise - tangent))
    beyond = np.nan_to_num(np.maximum(beyond, 0.0), nan=0.0, posinf=0.0)
    # never more than the triangle over the two end tangents
    with np.errstate(divide="ignore", invalid="ignore"):
        triangle = np.nan_to_num(rise * fall / q, nan=0.0, posinf=0.0) * width + 4 * slack
    return np.asarray(np.minimum(centre + np.abs(tangent) * beyond, triangle) * (1 + 4 * _SLACK))


def core(pair: Pair, step: float) -> float:
    """The one loss to which all losses of the bulk within a step can be contracted without a change of P- or Q-mass.

    Where nearly all losses are all but equal, a grid from below that has this point loses only their variance.

    >>> from tacit.accounting.pairs.mixture import poisson_gaussian
    >>> -1e-6 < core(poisson_gaussian(1e-6, 1.0), 1e-4) < 0
    True
    """
    low, high = pair.support()
    centre = low if math.isfinite(low) else high if math.isfinite(high) else 0.0
    p, q = pair.masses(np.array([centre - step, centre + step]))
    return float(np.log(p[0] / q[0])) if p[0] > 0 and q[0] > 0 else centre


class WorstPair(BinnedPair):
    """The pair whose curve is the pointwise maximum of those of `pairs`."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        super().__init__()
        self.pairs = tuple(pairs)
        self.infinite = max(pair.infinite for pair in self.pairs)
        self.symmetric = all(pair.symmetric for pair in self.pairs)

    def __repr__(self) -> str:
        return f"WorstPair({', '.join(map(repr, self.pairs))})"

    def reverse(self) -> Pair:
        # HS_a(Q||P) = 1 - a + a HS_1/a(P||Q) grows with the latter, so the reversed maximum is the maximum of the reversed
        return WorstPair([pair.reverse() for pair in self.pairs])

    def support(self) -> tuple[float, float]:
        ends = [pair.support() for pair in self.pairs]
        return min(low for low, _ in ends), max(high for _, high in ends)

    def masses(self, edges: Array) -> tuple[Array, Array]:
        p = np.empty((len(self.pairs), len(edges)))
        q = np.empty_like(p)
        for i, pair in enumerate(self.pairs):
            p[i], q[i] = _tails_of_worst(pair, edges)
        with np.errstate(over="ignore", invalid="ignore"):
            height = p - np.where(q > 0, np.exp(np.minimum(edges, 700.0)), 0.0) * q
        # beyond every loss what counts is the mass at infinity, and below all of them nothing is left to choose
        height[:, edges == math.inf] = np.array([[pair.infinite] for pair in self.pairs])
        worst = np.argmax(np.where(np.isnan(height), -np.inf, height), axis=0)
        at = np.arange(len(edges))
        return np.maximum(-np.diff(p[worst, at]), 0.0), np.maximum(-np.diff(q[worst, at]), 0.0)


def _tails_of_worst(pair: Pair, edges: Array) -> tuple[Array, Array]:
    """P-mass, infinity included, and Q-mass of all losses beyond each edge."""
    p, q = pair.masses(np.append(edges, math.inf))
    p, q = from_the_right(p), from_the_right(q)
    loss, mass = pair.atoms()
    order = np.argsort(loss)
    loss, mass = loss[order], mass[order]
    place = np.searchsorted(loss, edges, side="right")
    p = p + np.append(from_the_right(mass), 0.0)[place] + pair.infinite
    q = q + np.append(from_the_right(mass * np.exp(-loss)), 0.0)[place]
    return p, q
