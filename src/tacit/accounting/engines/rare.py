"""Rare samples of little noise, where a few large losses decide and no exponential tilt reaches them: sum over how many there are.

Call a loss of at least a a jump. A step's law is then s + r, small losses and jumps, and T steps have the law

    (s + r)^T = sum over j of C(T, j) s^(T-j) r^j.

Each term has a fixed number of jumps, so it can be tilted: the tilt that makes j jumps large no longer makes more of them. Small
losses get a fine grid, jumps a coarse one; both are put on lattices that dominate, or are dominated by, their part of the pair, and
`tacit.accounting.engines.lattice` composes each term with its errors. Terms beyond the last are at most C(T, J+1) P(jump)^(J+1) in all,
losses beyond the grid at most T times their mass: both are added to the upper end, and left out of the lower.

Rounding: the two lattices of a step add up to one lattice of the whole pair on a grid of two steps, so what `grid` says of
rounded masses holds for their sum. Every term of the expansion is positive, so the sum over j loses nothing.

>>> from tacit.accounting.pairs.mixture import poisson_gaussian
>>> found = bracket(poisson_gaussian(1e-6, 1.0), 30, delta=1e-30)
>>> 0.04748 < found.lower < found.upper < 0.04749
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np

from tacit.accounting.bound import Bound
from tacit.accounting.engines import grid
from tacit.accounting.engines.contour import binned
from tacit.accounting.engines.lattice import Composition, Lattice, compose_groups
from tacit.accounting.pairs.pair import Array, Pair, single_delta
from tacit.accounting.pairs.sampled import BinnedPair, DrawnGaussian
from tacit.errors import ParameterError, UnsupportedError

METHOD = "privacy-loss distribution (few large losses)"
_MOST = 8  # jumps that are counted one by one
_JUMPS = 6144  # grid points of near and of far jumps
_SPARE = 1e-7  # share of delta that what is left out may take
_ENOUGH = 1e-4  # relative width at which no finer grid is tried
_WORK = 1_200_000  # points of all transforms together after which none is
_NOTHING = 1e-40  # a delta or epsilon below this is as good as none
_LONGEST = 2**18  # grid points of one step's small losses
_FAR = 1e7  # losses beyond this are not looked at


class Restricted(BinnedPair):
    """The part of a pair whose finite losses lie in [low, high): a measure of less than mass 1."""

    def __init__(self, pair: Pair, low: float, high: float) -> None:
        super().__init__()
        self.pair, self.low, self.high = pair, low, high

    def reverse(self) -> Pair:
        return Restricted(self.pair.reverse(), -self.high, -self.low)

    def support(self) -> tuple[float, float]:
        low, high = self.pair.support()
        return max(low, self.low), min(high, self.high)

    def atoms(self) -> tuple[Array, Array]:
        loss, mass = self.pair.atoms()
        keep = (loss >= self.low) & (loss < self.high)
        return loss[keep], mass[keep]

    def masses(self, edges: Array) -> tuple[Array, Array]:
        return self.pair.masses(np.clip(edges, self.low, self.high))


@dataclass(frozen=True)
class _Table:
    """One step's law on a coarse logarithmic partition: it decides speed and width, not truth."""

    edge: Array
    above: Array  # P-mass at or above each edge
    below: Array
    square: Array  # of the losses below each edge

    def quantile(self, mass: float) -> float:
        """A loss with at most this P-mass at or above it."""
        found = np.flatnonzero(self.above <= mass)
        return float(self.edge[found[0]]) if len(found) else math.inf

    def floor(self, mass: float) -> float:
        """A loss with at most this P-mass below it."""
        return float(self.edge[np.flatnonzero(self.below <= mass)[-1]])

    def beyond(self, loss: float) -> float:
        """About the P-mass at or above a loss, interpolated in logarithms."""
        return float(np.exp(np.interp(loss, self.edge, np.log(np.maximum(self.above, 1e-320)))))


def _tabulate(pair: Pair) -> _Table:
    low, high = pair.support()
    size = np.geomspace(1e-14, 1e7, 2000)
    edge = np.unique(np.clip(np.concatenate([-size, [0.0], size]), low, high))
    p = pair.masses(np.concatenate([[-math.inf], edge, [math.inf]]))[0]
    loss, mass = pair.atoms()
    np.add.at(p, np.searchsorted(edge, loss, side="right"), mass)
    above = np.cumsum(p[::-1])[::-1][1:]
    middle = np.concatenate([edge[:1], 0.5 * (edge[1:] + edge[:-1])])
    return _Table(edge, above, np.cumsum(p)[:-1], np.cumsum(p[:-1] * middle * middle))


@dataclass(frozen=True)
class _Frame:
    """Where a step's losses are cut: small ones below `cut`, near jumps below `border`, far ones below `end`."""

    pair: Pair
    count: int
    low: float  # smaller losses count as this one, or not at all
    offset: float | None  # a point of the grid, where an atom is
    cut: float
    border: float
    end: float
    most: int  # near jumps that are counted
    spread: float  # of the small losses
    alone: bool  # a near jump beside a far one is left out as well
    left_out: float  # what the terms that are not summed add to delta at most

    def ends(self, make: Callable[..., Lattice], step: float) -> _Lattices:
        """All parts on lattices, the small losses with about this step."""
        offset = self.offset if self.offset is not None else grid.core(self.pair, step)
        if self.cut > offset:
            step = (self.cut - offset) / math.ceil((self.cut - offset) / step)
        near = far = None
        body = small = make(Restricted(self.pair, -math.inf, self.cut), step, self.low, self.cut, offset)
        if self.cut < self.border:
            pitch = (self.border - self.cut) / _JUMPS
            near = make(Restricted(self.pair, self.cut, self.border), pitch, self.cut, self.border, self.cut)
        if self.border < self.end:
            if not self.alone and make is grid.pessimistic:
                # beside a far jump the others hardly matter, so their grid may be coarse
                wide = max(step, (self.border - self.low) / 2**14)
                body = make(Restricted(self.pair, -math.inf, self.border), wide, self.low, self.border, offset)
            pitch = (self.end - self.border) / _JUMPS
            far = make(Restricted(self.pair, self.border, self.end), pitch, self.border, self.end, self.border)
        return _Lattices(self.count, small, near, body, far)


@dataclass(frozen=True)
class _Lattices:
    """The parts of one step, all from below or all from above."""

    count: int
    small: Lattice
    near: Lattice | None
    body: Lattice  # small losses and, in upper bounds where they matter, near jumps as well: what goes with a far jump
    far: Lattice | None

    def term(self, jumps: int, epsilon: float) -> _Term | None:
        """The terms with so many near jumps and no far one, or those with one far jump (jumps = -1), at a tilt for about this epsilon."""
        base, jump, number = (self.body, self.far, 1) if jumps < 0 else (self.small, self.near, jumps)
        if number and jump is None:
            return None
        parts = [(base, self.count - number), *([(jump, number)] if number and jump is not None else [])]
        composition = compose_groups([[part] for part in parts if part[1]])
        if composition.void:
            return None
        tilt = composition.tilt_for(epsilon)
        try:
            composition.finite(tilt, epsilon, 0)
        except UnsupportedError:  # too long a grid; such terms hardly ever matter
            return _Term(float(math.comb(self.count, number)), composition, tilt, False)
        return _Term(float(math.comb(self.count, number)), composition, tilt, True)


@dataclass(frozen=True)
class _Term:
    ways: float
    composition: Composition
    tilt: float
    known: bool  # otherwise only Chernoff's bound is

    def at(self, epsilon: float, side: int) -> float:
        """An upper bound (side 1), a lower bound (-1) or the estimate between them (0)."""
        if self.known:
            return self.ways * self.composition.finite(self.tilt, epsilon, side)
        return self.ways * self.composition.chernoff(self.tilt, epsilon) if side > 0 else 0.0


_Series = dict[int, _Term]


def _series(frame: _Frame, lattices: _Lattices, epsilon: float, only: Iterable[int] | None = None) -> _Series:
    """The expansion, or some of its terms."""
    places = range(-1, min(frame.most, frame.count) + 1) if only is None else only
    found = {j: lattices.term(j, epsilon) for j in places}
    return {j: term for j, term in found.items() if term is not None}


def _total(series: _Series, epsilon: float, side: int) -> float:
    return math.fsum(term.at(epsilon, side) for term in series.values())


def heavy(pair: Pair, count: int, level: float) -> bool:
    """Whether losses that matter at this delta lie so far out that one grid can hardly hold them and the bulk as well.

    >>> from tacit.accounting.pairs.mixture import poisson_gaussian
    >>> heavy(poisson_gaussian(1e-6, 1.0), 30, 1e-30), heavy(poisson_gaussian(0.1, 10.0), 30, 1e-30)
    (True, False)
    """
    table = _tabulate(pair)
    far, spread = table.quantile(1e-3 * level / count), math.sqrt(float(table.square[-1]))
    # one large loss of a draw with replacement is worth many others, and the expansion is then the quicker engine
    return far > 300 * spread or (isinstance(pair, DrawnGaussian) and far > 20 * math.sqrt(count) * spread)


def _threshold(table: _Table, count: int, epsilon: float, level: float) -> tuple[float, int]:
    """Where jumps begin, and how many of them need be counted: few jumps, and not too long a range of small losses.

    Above half of epsilon a single small loss would do what only jumps should.
    """
    best, price = (math.inf, 0), math.inf
    for a in epsilon * np.geomspace(0.5, 1 / 64, 16):
        chance = count * table.beyond(float(a))
        most, term = 0, chance
        while term > _SPARE * level and most < _MOST:
            most += 1
            term *= chance / (most + 1)
        if term > _SPARE * level:
            break
        spread = math.sqrt(float(np.interp(a, table.edge, table.square)))
        cost = (most + 1.0) * math.sqrt(1 + float(a) / (1e3 * max(spread, 1e-300)))
        if cost < price:
            best, price = (float(a), most), cost
    return best


def _frame(pair: Pair, table: _Table, count: int, epsilon: float, level: float) -> _Frame:
    """Where to cut for about this epsilon and delta."""
    a, most = _threshold(table, count, epsilon, level)
    reach = table.quantile(_SPARE * level / count)
    if not (math.isfinite(a) and reach < _FAR):
        raise UnsupportedError("too many large losses matter, or too large ones")
    low, high = max(table.floor(1e-7 / count), -_FAR), pair.support()[1]
    cut = min(a, reach, high)
    spread = math.sqrt(float(np.interp(cut, table.edge, table.square)))
    loss, mass = pair.atoms()
    inside = (loss > low) & (loss < cut)
    offset = float(loss[inside][np.argmax(mass[inside])]) if inside.any() else None
    end = min(max(reach, cut), high)
    # two far jumps are left out, so they must be rare
    border = min(max(1.1 * epsilon, table.quantile(math.sqrt(20 * _SPARE * level) / count), cut), end)
    p, _ = pair.masses(np.array([cut, border, end, math.inf]))
    p += [float(mass[(loss >= start) & (loss < stop)].sum()) for start, stop in pairwise([cut, border, end, math.inf])]
    log_near, log_far = (math.log(max(count * float(x), 1e-320)) for x in p[:2])
    left_out = count * float(p[2] + pair.infinite) + 0.5 * math.exp(min(0.0, 2 * log_far))
    if most < count:
        left_out += math.exp(min(0.0, (most + 1) * log_near - math.lgamma(most + 2)))
    if alone := log_near + log_far < math.log(_SPARE * level):
        left_out += math.exp(log_near + log_far)
    return _Frame(pair, count, low, offset, cut, border, end, most, spread, alone, left_out * (1 + 1e-9))


def bracket(
    pair: Pair, count: int, *, delta: float | None = None, epsilon: float | None = None, enough: float = _ENOUGH, below: Pair | None = None
) -> Bound:
    """The bracket on epsilon at `delta`, or on delta at `epsilon` >= 0, for `count` uses of one pair.

    With `below`, a pair that is dominated by the first and close to it, the lower end is that pair's. No finer grid is tried once
    the bracket is narrower than `enough`, relative to its upper end. Raises `UnsupportedError` where more than a few jumps matter.

    >>> from tacit.accounting.pairs.mixture import poisson_gaussian
    >>> found = bracket(poisson_gaussian(1e-5, 0.5), 1000, epsilon=1.0)
    >>> 6.77e-10 < found.lower <= found.upper < 6.79e-10
    True
    """
    if (delta is None) == (epsilon is None):
        raise ParameterError("give exactly one of delta and epsilon")
    table = _tabulate(pair)
    if epsilon is not None:
        near, level = max(epsilon, 1e-12), max(count * single_delta(pair, epsilon)[0], 1e-290)
    else:
        assert delta is not None
        if count * single_delta(pair, 0.0)[1] <= delta:
            return Bound(0.0, 0.0, METHOD)
        near, level = _approach(pair, table, count, delta), delta
    frame = _frame(pair, table, count, near, level)
    lower = frame if below is None else replace(frame, pair=below)
    step = _coarse(frame)
    above = _series(frame, frame.ends(grid.pessimistic, step), near)
    under = _series(frame, lower.ends(grid.optimistic, step), near)
    best, spent, previous = None, 0, math.inf
    budget = _WORK if enough < _ENOUGH else _WORK // 4
    while True:
        if delta is None:
            upper = min(1.0, _total(above, near, 1) + frame.left_out)
            found = Bound(min(_total(under, near, -1), upper), upper, METHOD)
        else:
            found = _ends(above, under, frame.left_out, delta, near)
        best = found if best is None else best.intersect(found)
        # terms that hardly matter stay as they are in the upper end, and are left out of the lower
        shares = {j: term.at(near, 1) for j, term in above.items()}
        matter = [j for j, share in shares.items() if share > 1e-5 * sum(shares.values())]
        work = 1000 + sum(series[j].composition.points for series in (above, under) for j in matter if j in series)
        if isinstance(pair, DrawnGaussian):  # whose masses are sums over all counts
            work += round(len(pair.counts) * (frame.cut - frame.low) / step)
        spent += work
        relative = best.width / best.upper if 0 < best.upper < math.inf else 1.0
        if isinstance(pair, DrawnGaussian) and spent > budget // 8 and (relative <= 10 * enough or best.upper < _NOTHING):
            return best
        longest = (frame.cut - frame.low) / (step * _LONGEST)
        finer = max(math.sqrt(0.5 * enough / max(relative, 1e-300)), 1 / 16, work / max(budget - spent, 1), longest)
        if relative <= enough or relative > 0.8 * previous or best.upper == 0 or finer > 0.7:
            if delta is not None and relative > 0.05:  # a bulk too fine for the grid from below
                floor = _one_jump(lower.pair, count, near, delta)
                return Bound(min(max(best.lower, floor), best.upper), best.upper, METHOD)
            return best
        previous = relative if relative < 1 else math.inf
        step *= finer
        above = above | _series(frame, frame.ends(grid.pessimistic, step), near, matter)
        under = _series(frame, lower.ends(grid.optimistic, step), near, matter)


def _ends(above: _Series, below: _Series, left_out: float, delta: float, near: float) -> Bound:
    """Epsilon at delta between two series."""
    upper = _outwards(lambda e: _total(above, e, 1) + left_out <= delta, near, 1)
    lower = _outwards(lambda e: _total(below, e, -1) >= delta, near, -1)
    return Bound(min(lower, upper), upper, METHOD)


def _coarse(frame: _Frame) -> float:
    """A step to look around with."""
    return max(0.3 * frame.spread, (frame.cut - frame.low) / 2**12, 24 * math.sqrt(frame.count) * frame.spread / 2**14)


def _approach(pair: Pair, table: _Table, count: int, delta: float) -> float:
    """About epsilon at delta, on coarse grids."""
    near = _solve(lambda e: count * single_delta(pair, e)[1], delta)
    # or many small losses, which add up to about a Gaussian
    bulk = math.sqrt(count * float(np.interp(near, table.edge, table.square)) * -2 * math.log(delta))
    near = max(near, 0.7 * bulk)
    for _ in range(6):
        frame = _frame(pair, table, count, near, delta)
        series = _series(frame, frame.ends(grid.pessimistic, _coarse(frame)), near)
        found = _solve(partial(_total, series, side=0), delta)
        if found == 0:
            raise UnsupportedError("no epsilon was found on the coarse grid")
        close = abs(found - near) <= 0.05 * near
        near = found
        if close:
            break
    return near


def _one_jump(pair: Pair, count: int, near: float, delta: float) -> float:
    """A lower bound on epsilon without any grid of the bulk: delta(eps) >= P(N = 1, S >= s) E[(1 - e^(eps-s-L))_+ | L > a].

    N is the number of losses above a, and S the sum of the others, whose lower tail is Chernoff's.
    """
    low = 0.0
    place, mass = binned(pair, near)
    for a in near * np.array([0.75, 0.6, 0.45, 0.3, 0.2, 0.1, 0.05, 0.02]):
        small = place < a
        if not float(mass[small].sum()) > 0:
            continue
        jump = float(mass[~small].sum() + max(0.0, 1 - mass.sum()))
        none = math.exp((count - 1) * math.log1p(-min(jump, 0.5)))

        def log_mgf(c: float, small: Array = small) -> float:
            return count * math.log(float(np.dot(mass[small], np.exp(np.minimum(c * place[small], 700.0)))))

        for missed in (0.03, 1e-3):
            # binned moments bound those with c <= -1 from above; S < fall has at most this chance
            fall = max(-(log_mgf(-float(c)) - math.log(missed)) / float(c) for c in np.maximum(np.geomspace(0.5, 400, 40) / a, 1.0))
            chance = count * (none - missed)
            if chance > 0 and delta / chance < 1 and single_delta(pair, 0.0)[0] > delta / chance:
                start = _solve(lambda e: single_delta(pair, e)[0], delta / chance) * (1 - 1e-3)
                if start >= a and single_delta(pair, start)[0] >= delta / chance:
                    low = max(low, fall + start)
    return low


def _outwards(settled: Callable[[float], bool], near: float, side: int) -> float:
    """The end nearest to `near`, on the given side of the root, that is certified; 0 or infinity where none is found."""
    inner, pad = near, 1e-6 * near
    end = near
    while not settled(end):
        if end == 0:
            return 0.0
        if end > 1e3 * near:
            return math.inf
        inner, end, pad = end, max(near + side * pad, 0.0), 2 * pad
    if end == near:  # already on the safe side: look inwards for the other
        while settled(end - side * pad) and pad < near:
            end, pad = end - side * pad, 2 * pad
        inner = max(end - side * pad, 0.0)
    for _ in range(40):
        if abs(end - inner) <= 1e-7 * near:
            break
        middle = 0.5 * (inner + end)
        inner, end = (inner, middle) if settled(middle) else (middle, end)
    return end


def _solve(profile: Callable[[float], float], target: float) -> float:
    """About the epsilon >= 0 at which a decreasing profile meets the target."""
    if profile(0.0) <= target:
        return 0.0
    low, high = 0.0, 1.0
    while profile(high) > target and high < 1e8:
        low, high = high, 2 * high
    while low == 0 and high > 1e-18:
        low, high = (0.5 * high, high) if profile(0.5 * high) > target else (0.0, 0.5 * high)
    while high - low > 1e-4 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if profile(middle) > target else (low, middle)
    return high
