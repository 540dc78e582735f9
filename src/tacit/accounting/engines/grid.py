"""Certified grids: any pair between two lattices, and compositions on finer and finer ones.

`bracket` composes lattices from above and from below until the bracket is as narrow as it is asked to be;
`composed_pair` makes one pair of a composition, from above; `WorstPair` is the worst of several pairs. All hold
for any pairs, in one direction.

>>> from tacit.accounting.pairs.laplace import laplace
>>> found = bracket([(laplace(0.1), 100)], delta=1e-6)
>>> round(found.upper, 6), found.width < 1e-6
(4.692667, True)

`pessimistic` dominates the pair and `optimistic` is dominated by it, both in the order of hockey-stick curves at every alpha > 0, which
composition preserves (HS of a product is an average of one factor's curve over the other's law). The curve of a pair is convex in
alpha = e^loss, and a lattice has exactly the piecewise linear curves with corners on the grid:

- pessimistic: the chords through the curve at the grid points ("connect the dots", Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022);
- optimistic: the chords lowered at each grid point by the largest gap between chord and curve on the two sides of it, then the greatest
  convex function below. The gap is bounded from the tangents at the ends and the middle of a cell, so the loss is of second order too.

Both errors in epsilon are about count (tilt + 1) step^2 / 12; atoms that lie on the grid have none.

Beyond a loss of 600, where e^loss leaves the range of doubles, every mass moves as a whole to the next grid point, up or down. That is in
order because delta of a composition is E[(1 - e^(eps - S))_+] over the sum S of its losses, which grows with each of them, and it is
linear in the masses of each factor, so that near and far losses may be treated apart. One large loss costs at most a step, which is
little beside 600.

Rounding. `Pair.masses` is trusted so far that the P- and Q-mass beyond a grid point are right to a relative e = 2^-44; single cells may be
differences of such tails. So the curve at a grid point is off by at most e (P-tail + alpha Q-tail). Where the P-tail is at most 4 alpha
Q-tails, the share 8 e of every cell that is moved to the safe end covers this; elsewhere the curve is at least 3/4 of its P-tail, and the
`rounding` 4 e of the lattice does.

>>> low, high = (compose([(make(laplace(0.1), 1e-3, -0.1, 0.1), 100)]).epsilon(1e-6) for make in (optimistic, pessimistic))
>>> low.lower < 4.692667 < high.upper < low.lower + 1e-3
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from tacit.accounting.bound import Bound
from tacit.accounting.engines import lattice
from tacit.accounting.engines.lattice import Composition, Lattice, common_step, compose
from tacit.accounting.engines.spectrum import UNIT
from tacit.accounting.pairs.finite import FinitePair
from tacit.accounting.pairs.mixture import MixturePair
from tacit.accounting.pairs.pair import Array, Pair, Trivial
from tacit.accounting.pairs.sampled import BinnedPair, DrawnGaussian, Mirrored, Revealed
from tacit.errors import ParameterError, UnsupportedError

TAIL_ERROR = 2.0**-44  # relative error of the P- or Q-mass beyond a grid point; the tests hold every pair against it
_SLACK = 8 * TAIL_ERROR
_PILE = 256  # roundings of a sum from the right
METHOD = "connect-the-dots grid, tilted FFT"
_LONGEST = 2**19  # grid points of one pair
_WORK = 1_100_000  # grid points times components after which no finer grid is tried
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
    """A lattice pair on offset + step Z that is dominated by the pair and second-order close.

    Losses below lo are left out, those above hi count as the last point.

    >>> from tacit.accounting.pairs.laplace import laplace
    >>> bool(optimistic(laplace(1.0), 0.125, -1, 1).p.sum() < 1)
    True
    """
    cells = _cells(pair, step, max(lo, -FAR), hi, offset)
    infinite = pair.infinite - (pair.cut if isinstance(pair, FinitePair) else 0.0)
    near, far = _rounded_down(cells)
    mass = np.zeros(1) if near is None else _lowered(near, step, len(pair.atoms()[0]) > 0)
    if far is not None:
        far[: len(mass)] += mass
        mass = far
    return Lattice(step, offset, cells.first, mass, infinite, 0.0, _rounding(pair), cells.jitter)


def _rounded_down(cells: _Cells) -> tuple[_Cells | None, Array | None]:
    """The cells up to FAR, and every mass beyond at the next lower grid point, where it is worth less against any alpha."""
    size = int(np.searchsorted(cells.edge, FAR, side="right"))
    if size == len(cells.edge):
        return cells, None
    first = max(size - 1, 0)
    far = np.zeros(len(cells.edge))
    far[first:-1] = cells.p[first:].sum(axis=1)
    far[size:] += cells.atom_p[size:]
    far[-1] += cells.above
    if size < 2:
        far[:size] += cells.atom_p[:size]
        return None, far
    near = replace(cells, edge=cells.edge[:size], p=cells.p[: size - 1], q=cells.q[: size - 1], above=0.0)
    return replace(near, atom_p=cells.atom_p[:size], atom_q=cells.atom_q[:size]), far


def _lowered(cells: _Cells, step: float, atoms: bool) -> Array:
    """The masses of a lattice pair that is dominated by the measure in these cells."""
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
    if not atoms:
        # A chord also gets below the curve where only its left end comes down to the tangent at the right one, or the other way round:
        # better where nearly all of a cell's mass lies at one end, as with a smooth bulk that is much narrower than the grid.
        left, right = upper * width + 4 * slack, (q - upper) * width + 4 * slack
        at_left, at_right = left < 2 * gap, (right < 2 * gap) & (right < left)
        lowered = np.append(np.where(at_right, 0.0, np.where(at_left, left, gap)), 0.0)
        lowered[1:] = np.maximum(lowered[1:], np.where(at_right, right, np.where(at_left, 0.0, gap)))
    # The last corner: from there on 0, before it at least 0 after lowering.
    room = np.minimum.accumulate(height[:-1] - lowered[:-1])
    last = int(np.flatnonzero(height[1:] <= room)[-1]) + 1 if np.any(height[1:] <= room) else 0
    if last == 0:
        return np.zeros(1)
    drop = lowered[: last + 1].copy()
    drop[last] = 0.0
    # On the last cell the curve is above its tangent at the right end.
    drop[last - 1] = max(drop[last - 1], height[last - 1] - height[last] - tail[last] * width[last - 1])
    # A point that is higher than one before it makes no corner. Where steps are long, its slope, negative and taken on a short width,
    # would swamp those after it.
    drop[:last] = np.maximum(drop[:last], height[:last] - np.minimum.accumulate(height[:last] - drop[:last]))
    slope = np.maximum(chord[:last] + np.diff(drop) / width[:last], 0.0)
    convex = np.clip(_decreasing(slope, width[:last]), 0.0, tail[0])
    corner = -np.diff(convex, prepend=tail[0], append=0.0)
    return np.asarray(np.maximum(corner, 0.0) * alpha[: last + 1])


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
    """The pair whose hockey-stick curve is, at every alpha, the largest of those of `pairs`.

    Where a changed record may touch any one of several mechanisms, but only one, as with disjoint parts of
    the data, the two output laws are those of one of the pairs; which one is not known. The pointwise maximum
    of their curves is convex, decreasing, 1 at alpha = 0 and at least (1 - alpha)_+, as they are, so it is
    the curve of a pair (Zhu, Dong, Wang 2022, Proposition 8), and that pair dominates each of them. So it may
    be composed with others, where a maximum of composed figures would only hold if the same part were touched
    every time.

    Where the i-th curve is the largest, minus its slope is the Q-mass and its height the P-mass less alpha
    times that: the tails beyond a loss are those of the pair that is worst there. Where two curves cross, the
    loss has an atom; masses of intervals include it.

    >>> from tacit.accounting.pairs.finite import leaky_randomised_response
    >>> from tacit.accounting.pairs.mixture import gaussian
    >>> from tacit.accounting.pairs.pair import single_delta
    >>> both = WorstPair([gaussian(2.0), leaky_randomised_response(0.5, 0.0)])
    >>> [round(single_delta(both, e)[1], 4) for e in (0.0, 1.0)]  # the second is worse at 0, and costs nothing beyond 1/2
    [0.2449, 0.0068]
    """

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

# --- compositions -----------------------------------------------------------------------------------------------

_Parts = Sequence[tuple[Pair, int]]


def bracket(
    components: _Parts, *, delta: float | None = None, epsilon: float | None = None, tolerance: float = 1e-7, below: _Parts | None = None
) -> Bound:
    """The bracket on epsilon at `delta`, or on delta at `epsilon`, for one direction of a composition.

    With `below`, pairs in the same order that are dominated by those of `components` and close to them, the lower end is theirs.
    The step is refined until the bracket is at most `tolerance` wide (relative to its upper end, for delta) or no finer grid is affordable.

    >>> from tacit.accounting.pairs.finite import randomised_response
    >>> round(bracket([(randomised_response(1.0), 2)], epsilon=1.0).upper, 10)
    0.3378347121
    """
    if (delta is None) == (epsilon is None):
        raise ParameterError("give exactly one of delta and epsilon")
    kept = [i for i, (pair, count) in enumerate(components) if count and not isinstance(pair, Trivial)]
    parts = [components[i] for i in kept]
    lows = parts if below is None or below is components else [below[i] for i in kept]
    if any(pair.infinite >= 1 for pair, _ in parts):
        return Bound(1.0, 1.0, METHOD) if delta is None else Bound(0.0, 0.0, METHOD) if delta >= 1 else Bound(math.inf, math.inf, METHOD)
    known = [(_lattice(pair), count) for pair, count in parts]
    exact = [(found, count) for found, count in known if found is not None]
    if len(exact) == len(parts):
        try:
            return _ask(compose(exact), delta, epsilon)
        except UnsupportedError:
            pass
    found = _refined(parts, lows, True, delta, epsilon, tolerance)
    found = found or _refined(_gathered(parts), _gathered(lows), False, delta, epsilon, tolerance)
    if found is not None:
        return found
    raise UnsupportedError("the losses spread too far for a grid that fits in memory; ask for a looser method")


def _refined(
    parts: _Parts, lows: _Parts, separate: bool, delta: float | None, epsilon: float | None, tolerance: float
) -> Bound | None:
    """Brackets on finer and finer grids until one is narrow enough; None where not even the first is affordable."""
    level = max(delta, 1e-300) if delta is not None else _expected(parts, epsilon or 0.0)
    plan = _Plan(parts, level, separate)
    best, step, done, floor, spent = None, plan.start, math.inf, 0.0, 0
    rough = tolerance >= 1e-4  # where the theorem itself is no better, digits beyond the first few are not worth it
    budget = _WORK if all(isinstance(pair, MixturePair | FinitePair) for pair, _ in parts) else 3 * _WORK // 5
    tight = all(pair.close or pair is above for (pair, _), (above, _) in zip(lows, parts, strict=True))
    if rough and not tight:
        budget = _WORK // 5
    while spent < budget:
        try:
            ends, before = [], spent
            for make, some in ((optimistic, lows), (pessimistic, parts)):
                grids = plan.grids(make, step, some)
                spent += 1000 + sum(len(law.p) * effort for (law, _), effort in zip(grids, plan.effort, strict=True))
                composition = compose(grids)
                ends.append(_ask(composition, delta, epsilon))
                spent += composition.points // 4 if rough else 0
            low, high = ends
        except UnsupportedError:
            floor = step = 2 * step
            if step > 0.75 * done or (separate and done == math.inf and plan.classes > 1):
                break
            continue
        done = step
        found = Bound(min(low.lower, high.upper), high.upper, METHOD)
        best = found if best is None else best.intersect(found)
        width = best.width if epsilon is None else best.width / max(best.upper, 1e-300)
        if epsilon is not None and best.upper < level and level > 1e-290:  # what was cut off could be seen
            level = max(best.lower, 1e-3 * best.upper, 1e-295)
            plan = _Plan(parts, level, separate)
            continue
        enough = tolerance * best.upper if rough and epsilon is None and best.upper < math.inf else tolerance
        if width <= enough or (rough and spent > _WORK // 5 and width <= 10 * enough):
            break
        # the width goes with the square of the step, once the step is small; and one transform must hold all losses
        affordable = 0.4 * step * (spent - before) / max(budget - spent, 1)
        floor = max(floor, plan.finest, composition.extent / (0.9 * lattice.LARGEST), affordable)
        step = max(step * min(max(math.sqrt(0.7 * enough / width), 1 / 64), 0.7), floor)
        if step > 0.75 * done:
            break
    return best


def _expected(parts: _Parts, epsilon: float) -> float:
    """A figure that delta at epsilon is probably not far below: Chernoff's bound, with room."""
    best = 0.0
    for c in np.geomspace(0.01, 1000, 26).tolist():
        try:
            height = sum(count * pair.kappa(c) for pair, count in parts) - c * epsilon
        except OverflowError:
            break
        best = min(best, height + c * math.log(c) - (c + 1) * math.log1p(c))
    return math.exp(max(best - 10, -680.0))


def _gathered(parts: _Parts) -> _Parts:
    """The same composition, with pairs of few losses joined exactly into pairs of many, for this one direction.

    Off the grid many small atoms cost less than a few large ones: the lower end is off by about step times the largest mass.
    """
    rest, small = [], []
    for pair, count in parts:
        known = _lattice(pair)
        if known is None or (len(known.p) - 1) * count >= 4096 or known.cut:
            rest.append((pair, count))
            continue
        mass, error, number = np.ones(1), 0.0, count
        power, spoiled = known.p, float(np.max(known.rounding)) + 4 * UNIT
        while number:
            if number & 1:
                mass, error = np.convolve(mass, power), error + spoiled + 4096 * UNIT
            number >>= 1
            if number:
                power, spoiled = np.convolve(power, power), 2 * spoiled + 4096 * UNIT
        losses = count * known.offset + known.step * (count * known.start + np.arange(len(mass)))
        small.append((losses[mass > 0], mass[mass > 0], error, count * math.log1p(-pair.infinite)))
    small.sort(key=lambda item: len(item[0]))
    while small:
        losses, mass, error, survive = small.pop()
        while small and len(losses) * len(small[0][0]) <= 2**15:
            other = small.pop(0)
            losses, mass = np.add.outer(losses, other[0]).ravel(), np.multiply.outer(mass, other[1]).ravel()
            error, survive = error + other[2] + 4 * UNIT, survive + other[3]
        losses, place = np.unique(losses, return_inverse=True)
        leak = -math.expm1(survive)
        rest.append((FinitePair(losses, np.log(np.bincount(place, mass)), infinite=leak, rounding=error), 1))
    return rest


def _ask(composition: Composition, delta: float | None, epsilon: float | None) -> Bound:
    if epsilon is not None:
        return composition.delta(epsilon)
    assert delta is not None
    return composition.epsilon(delta)


def _lattice(pair: Pair) -> Lattice | None:
    return pair.lattice() if isinstance(pair, FinitePair) else None


class _Plan:
    """Where each pair's grid begins and ends, and which steps keep its atoms on grid points.

    Pairs whose atoms fit no common grid get grids of their own, if `separate`. Otherwise atoms off the grid are split between its
    points: still a bracket, but where the largest or smallest loss is such an atom the lower end is only first-order close.
    """

    def __init__(self, parts: _Parts, level: float, separate: bool) -> None:
        self.parts = parts
        self.ends = [_ends(pair, level * 1e-11 / count) for pair, count in parts]
        distances: list[list[float]] = [[]]  # of each class
        self.offsets, self.member = [], []
        for pair, _ in parts:
            loss, _ = pair.atoms()
            known = _lattice(pair)
            own = [known.step] if known is not None else [float(x) for x in np.diff(loss)] if len(loss) <= 64 else []
            self.offsets.append(float(loss[0]) if len(loss) else None)
            fits = (i for i, others in enumerate(distances) if not own or not separate or common_step(others + own, 2.0**-12) is not None)
            place = next(fits, len(distances))
            if place == len(distances):
                distances.append([])
            distances[place] += own
            self.member.append(place)
        self.units = [common_step(own, 2.0**-12) if own else None for own in distances]
        self.classes = len(distances)
        # a class of nothing but lattices needs no finer grid
        self.exact = [all(_lattice(pair) for (pair, _), m in zip(parts, self.member, strict=True) if m == i) for i in range(self.classes)]
        spans = [max(hi - lo, 1e-12) for lo, hi, _ in self.ends]
        spread = math.sqrt(sum(count * variance for (_, count), (_, _, variance) in zip(parts, self.ends, strict=True)))
        narrowest = min(math.sqrt(variance) for _, _, variance in self.ends)
        self.effort = [_effort(pair) for pair, _ in parts]
        self.finest = max(spans) * max(self.effort) / _LONGEST
        self.start = max(min(min(spans) / 16, spread / 64, narrowest / 2), max(spans) / 2**14)

    def grids(self, make: Callable[..., Lattice], step: float, parts: _Parts) -> list[tuple[Lattice, int]]:
        """Every pair, or one close to it, on a grid no coarser than `step` and, if that can be, through its atoms."""
        result = []
        for (pair, count), (lo, hi, _), offset, place in zip(parts, self.ends, self.offsets, self.member, strict=True):
            unit, known = self.units[place], _lattice(pair)
            fitted = step
            if unit is not None and unit >= step:
                fitted = unit if self.exact[place] else unit / math.ceil(unit / step - 1e-9)
            ratio = known.step / fitted if known is not None else 0.0
            if known is not None and ratio > 0.99 and abs(ratio - round(ratio)) < 1e-9 and (len(known.p) - 1) * ratio < lattice.LARGEST:
                result.append((known.refined(fitted), count))
            else:
                result.append((make(pair, fitted, lo, hi, core(pair, fitted) if offset is None else offset), count))
        return result


def _effort(pair: Pair) -> int:
    """How many components the masses of a pair are sums of, as far as that is more than a few."""
    half = pair.half if isinstance(pair, Mirrored) else pair
    if isinstance(half, Revealed):
        return max(1, len(half.pairs) // 2)
    if isinstance(pair, DrawnGaussian):
        return max(2, len(pair.counts) // 2)
    return max(2, (len(half.up) + len(half.down)) // 2) if isinstance(half, MixturePair) else 1


def _ends(pair: Pair, budget: float) -> tuple[float, float, float]:
    """Losses that leave at most `budget` P-mass outside on each side, and about the variance between them."""
    low, high = pair.support()
    reach = 0.01 * np.sinh(np.linspace(-math.asinh(7e4), math.asinh(1e8), 4001))
    edges = np.unique(np.clip(reach, max(low, -700.0), min(high, 1e6)))
    loss, mass = pair.atoms()
    p = pair.masses(np.concatenate([[-math.inf], edges, [math.inf]]))[0]
    place = np.searchsorted(edges, loss, side="left")
    np.add.at(p, place, mass)
    below, above = np.cumsum(p)[:-1], np.cumsum(p[::-1])[::-1][1:]
    lo = max(float(edges[np.flatnonzero(below <= budget)[-1]]), low) if np.any(below <= budget) else max(low, -FAR)
    hi = min(float(edges[np.flatnonzero(above <= budget)[0]]), high) if np.any(above <= budget) else min(high, 1e6)
    middle = np.concatenate([edges[:1], 0.5 * (edges[1:] + edges[:-1]), edges[-1:]])
    total = max(float(p.sum()), 1e-300)
    mean = float(np.dot(p, middle)) / total
    return lo, hi, float(np.dot(p, (middle - mean) ** 2)) / total


def composed_pair(components: Sequence[tuple[Pair, int]]) -> FinitePair:
    """A pair that dominates the composition, for use where one pair is asked for, such as under a sampler.

    Each pair is put on a pessimistic grid of at most 2,000 points. Convolutions are sums of positive terms, so every mass keeps its
    relative accuracy; afterwards the grid is coarsened, again pessimistically, to at most 4,000 points. Masses are inflated by 1e-10, far
    more than all roundings.

    >>> from tacit.accounting.pairs.finite import randomised_response
    >>> twice = composed_pair([(randomised_response(1.0), 2)])
    >>> twice.losses, twice.p.round(6)
    (array([-2.,  0.,  2.]), array([0.072329, 0.393224, 0.534447]))
    """
    total, seen = Lattice(1.0, 0.0, 0, np.ones(1)), 0.0  # seen: log of the Q-mass where P has any
    for pair, count in components:
        if pair.infinite >= 1:
            return FinitePair([], [], infinite=1.0, reverse_infinite=1.0)
        power, unseen = _lattice(pair), pair.reverse().infinite
        if power is None or len(power.p) > 2000:
            lo, hi, _ = _ends(pair, 1e-40)
            lo, hi = max(lo, -FAR), min(hi, FAR)
            loss, _ = pair.atoms()
            step, unit = max((hi - lo) / 2000, 1e-9), float(np.diff(loss).min()) if 1 < len(loss) <= 64 else 0.0
            power = pessimistic(pair, unit / math.ceil(unit / step) if unit > step else step, lo, hi, float(loss[0]) if len(loss) else lo)
            unseen += max(0.0, float(pair.masses(np.array([-math.inf, lo]))[1][0])) + power.infinite * math.exp(-hi)
        if unseen >= 1:
            return FinitePair([], [], infinite=1.0, reverse_infinite=1.0)
        seen += count * math.log1p(-unseen)
        while count:
            total = _convolved(total, power) if count & 1 else total
            count >>= 1
            power = _convolved(power, power) if count else power
    keep = total.p > 0
    inflated = np.minimum(np.log(total.p[keep]) + 1e-10, 0.0)
    return FinitePair(total.losses[keep], inflated, infinite=total.infinite, reverse_infinite=-math.expm1(seen - 1e-40))


def _convolved(a: Lattice, b: Lattice) -> Lattice:
    """The composition of two lattices, pessimistic in every simplification."""
    span = sum(x.step * (len(x.p) - 1) for x in (a, b))
    # a single point has any step; four thousand points must do for all others
    step = max(min([x.step for x in (a, b) if len(x.p) > 1], default=a.step), span / 4000)
    a, b = _placed(a, step), _placed(b, step)
    mass = np.convolve(a.p, b.p)
    # tails that no delta will see: the lower one moves up to the first point kept, the upper one to infinity
    keep = np.flatnonzero((np.cumsum(mass) > 1e-45) & (from_the_right(mass) > 1e-45))
    first, last = (int(keep[0]), int(keep[-1])) if len(keep) else (0, 0)
    kept = mass[first : last + 1].copy()
    kept[0] += mass[:first].sum()
    infinite = a.infinite + b.infinite - a.infinite * b.infinite + float(mass[last + 1 :].sum())
    return Lattice(step, a.offset + b.offset, a.start + b.start + first, kept, min(1.0, infinite))


def _placed(law: Lattice, step: float) -> Lattice:
    """On a lattice of another step through the first point; each mass is split between its neighbours, so that P and Q both keep theirs."""
    if step == law.step:
        return law
    place = (law.losses - law.losses[0]) / step
    cell = np.floor(place + 1e-12).astype(int)
    up = np.clip(np.expm1(-step * (place - cell)) / math.expm1(-step), 0.0, 1.0)
    mass = np.zeros(cell[-1] + 2)
    np.add.at(mass, cell, law.p * (1 - up))
    np.add.at(mass, cell + 1, law.p * up)
    return Lattice(step, float(law.losses[0]), 0, mass if mass[-1] > 0 else mass[:-1], law.infinite)
