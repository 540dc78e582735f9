"""Compositions on certified grids: finer and finer ones, until the bracket is as narrow as it is asked to be.

`bracket` composes the lattices of `tacit.accounting.engines.grid` from above and from below; `composed_pair` makes one pair of a
composition, from above. Both hold for any pairs, in one direction.

>>> from tacit.accounting.pairs.laplace import laplace
>>> found = bracket([(laplace(0.1), 100)], delta=1e-6)
>>> round(found.upper, 6), found.width < 1e-6
(4.692667, True)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from tacit.accounting.bound import Bound
from tacit.accounting.engines import lattice
from tacit.accounting.engines.grid import FAR, core, from_the_right, optimistic, pessimistic
from tacit.accounting.engines.lattice import Composition, Lattice, common_step, compose
from tacit.accounting.engines.spectrum import UNIT
from tacit.accounting.pairs.finite import FinitePair
from tacit.accounting.pairs.mixture import MixturePair
from tacit.accounting.pairs.pair import Pair, Trivial
from tacit.accounting.pairs.sampled import DrawnGaussian, Mirrored, Revealed
from tacit.errors import ParameterError, UnsupportedError

METHOD = "connect-the-dots grid, tilted FFT"
_LONGEST = 2**19  # grid points of one pair
_WORK = 1_100_000  # grid points times components after which no finer grid is tried

_Parts = Sequence[tuple[Pair, int]]


def bracket(
    components: Sequence[tuple[Pair, int]], *, delta: float | None = None, epsilon: float | None = None, tolerance: float = 1e-7
) -> Bound:
    """The bracket on epsilon at `delta`, or on delta at `epsilon`, for one direction of a composition.

    The step is refined until the bracket is at most `tolerance` wide (relative to its upper end, for delta) or no finer grid is affordable.

    >>> from tacit.accounting.pairs.finite import randomised_response
    >>> round(bracket([(randomised_response(1.0), 2)], epsilon=1.0).upper, 10)
    0.3378347121
    """
    if (delta is None) == (epsilon is None):
        raise ParameterError("give exactly one of delta and epsilon")
    parts = [(pair, count) for pair, count in components if count and not isinstance(pair, Trivial)]
    if any(pair.infinite >= 1 for pair, _ in parts):
        return Bound(1.0, 1.0, METHOD) if delta is None else Bound(0.0, 0.0, METHOD) if delta >= 1 else Bound(math.inf, math.inf, METHOD)
    known = [(_lattice(pair), count) for pair, count in parts]
    exact = [(found, count) for found, count in known if found is not None]
    if len(exact) == len(parts):
        try:
            return _ask(compose(exact), delta, epsilon)
        except UnsupportedError:
            pass
    found = _refined(parts, True, delta, epsilon, tolerance)
    found = found or _refined(_gathered(parts), False, delta, epsilon, tolerance)
    if found is not None:
        return found
    raise UnsupportedError("the losses spread too far for a grid that fits in memory; ask for a looser method")


def _refined(parts: _Parts, separate: bool, delta: float | None, epsilon: float | None, tolerance: float) -> Bound | None:
    """Brackets on finer and finer grids until one is narrow enough; None where not even the first is affordable."""
    level = max(delta, 1e-300) if delta is not None else _expected(parts, epsilon or 0.0)
    plan = _Plan(parts, level, separate)
    best, step, done, floor, spent = None, plan.start, math.inf, 0.0, 0
    rough = tolerance >= 1e-4  # where the theorem itself is no better, digits beyond the first few are not worth it
    budget = _WORK // 2 if rough else _WORK
    while spent < budget:
        try:
            ends, before = [], spent
            for make in (optimistic, pessimistic):
                grids = plan.grids(make, step)
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
        enough = tolerance * max(1.0, best.upper) if rough and epsilon is None and best.upper < math.inf else tolerance
        if width <= enough:
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

    def grids(self, make: Callable[..., Lattice], step: float) -> list[tuple[Lattice, int]]:
        """Every pair on a grid no coarser than `step` and, if that can be, through its atoms."""
        result = []
        for (pair, count), (lo, hi, _), offset, place in zip(self.parts, self.ends, self.offsets, self.member, strict=True):
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
