"""Rare samples of little noise: a contour integral for each number of large losses, where no single tilt suits all of them.

With rare samples a step's loss is almost always tiny, and now and then large. A tilt that suits the tiny losses makes the large ones
explode, so one contour must resolve the tiny ones over the whole range of the large ones. Cut the step's law smoothly into
small losses and jumps, s + r (`tacit.accounting.pairs.part`); then T steps have the law

    (s + r)^T = sum over j of C(T, j) s^(T-j) r^j,

and each term has a line of its own, at its own saddle point, with some hundred frequencies. All terms are positive
measures with analytic densities, so `contour.lay_out` certifies each of them. What is left out is added to the upper end:
jumps beyond the last cut (at most T times their mass), and terms with too many jumps or with little weight (Chernoff's bound).

>>> from tacit.accounting.pairs.mixture import poisson_gaussian
>>> found = bracket(poisson_gaussian(1e-6, 1.0), 30, delta=1e-30)
>>> 0.04748 < found.lower < found.upper < 0.04749, found.width < 1e-8
(True, True)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from tacit.accounting.bound import Bound
from tacit.accounting.engines import contour
from tacit.accounting.engines.contour import Declined, Line, Plan
from tacit.accounting.pairs.mixture import MixturePair
from tacit.accounting.pairs.pair import Array, Pair, inflated, single_delta
from tacit.accounting.pairs.part import ENDS, REACH, Part
from tacit.accounting.special import ndtr

METHOD = "privacy-loss distribution (contour integrals by number of large losses)"
_SPARE = 1e-10  # share of delta that losses beyond the last cut may take
_FLOOR = 1e-9  # chance of an output below the floor, in all steps together
_BAND = 2.3  # log of how far apart the losses of far jumps may be
_REST = 1e-9  # share of delta that terms which are not summed may take
_GOAL = 1e-10  # each certified error of a line, relative to delta
_MOST = 40  # jumps at most
_APART = 22.0  # widths between two cuts that do not see each other:
_APART_MASS = 1e-54  # Phi(-11)^2 at most
_TRIES = 12  # expansions that are tried
_NEGLIGIBLE = 1e-32  # a delta of no consequence
_NARROW = 5e-7  # relative width at which no other cut is tried
_LONG = 20_000  # frequencies of one line at most


def _beyond(pair: MixturePair, u: float, width: float) -> float:
    """P-mass beyond a smooth cut."""
    m, w = np.array(pair.up).T
    return float(np.dot(w, ndtr((m - u) / math.hypot(1.0, width))))


def _below(pair: MixturePair, u: float, width: float) -> float:
    """P-mass below a smooth cut."""
    m, w = np.array(pair.up).T
    return float(np.dot(w, ndtr((u - m) / math.hypot(1.0, width))))


def _quantile(pair: MixturePair, mass: float, width: float) -> float:
    """A cut with about this P-mass beyond it."""
    low, high = -40.0, 40.0 + float(pair.shifts[0].max())
    while high - low > 1e-6:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _beyond(pair, middle, width) > mass else (low, middle)
    return high


def _floor(pair: MixturePair, mass: float, width: float) -> float:
    """A cut with about this P-mass below it."""
    low, high = -40.0 - float(pair.shifts[1].max()), 40.0
    while high - low > 1e-6:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if _below(pair, middle, width) > mass else (middle, high)
    return low


def _further(pair: MixturePair, border: float, end: float, width: float) -> tuple[float, ...]:
    """Borders among far jumps, so that the losses between two of them differ by no more than some ten times."""
    low, high = (max(float(loss), 1e-300) for loss in pair.loss(np.array([border, end])))
    bands = min(4, math.ceil(math.log(max(high / low, 1.0)) / _BAND)) if high > 0 else 1
    if bands < 2 or math.log(high / low) < 1.5 * _BAND:
        return ()
    places = pair.invert(low * (high / low) ** (np.arange(1, bands) / bands))
    return tuple(float(x) for x in places if border + width < x < end - width)


@dataclass(frozen=True)
class _Term:
    """The law of so many large losses and the other steps' small ones, all ways to place them counted."""

    ways: float  # log of their number
    parts: list[tuple[Pair, int]]
    curve: Plan  # on the coarse grid of tilts

    def log_delta(self, epsilon: float) -> float:
        """The saddle-point estimate, or Chernoff's where no tilt in reach has this epsilon."""
        place = self.curve.epsilon
        if len(place) < 2:
            return -math.inf
        if epsilon > place[-1]:
            return self.chernoff(epsilon)
        return float(np.interp(epsilon, place, self.curve.log_delta))

    def chernoff(self, epsilon: float) -> float:
        """log of an upper bound on this term's delta: the payoff is at most c^c / (c + 1)^(c + 1) exp(c (L - eps))."""
        c = self.curve.c
        if not len(c):
            return math.inf
        return float(np.min(inflated(self.curve.level) - c * epsilon + c * np.log(c) - (c + 1) * np.log1p(c)))

    def length(self, epsilon: float, goal: float) -> float:
        """About how many frequencies a line takes."""
        c, height = self.curve.c, self.curve.level - self.curve.c * epsilon
        saddle = int(np.argmin(height - np.log(c) - np.log1p(c)))
        right = (height[saddle + 1 :] - goal) / (c[saddle + 1 :] - c[saddle])
        period = float(right.min()) if len(right) else 1e3 / float(c[saddle])
        known = math.log1p(math.exp(min(self.curve.level[0] - goal, 690.0)) * 1e-14) / c[saddle]
        return float(max(period, known) * math.sqrt(2 * max(height[saddle] - goal, 1.0) / self.curve.variance[saddle]) / (2 * math.pi))


@dataclass(frozen=True)
class _Expansion:
    """All terms for one place of the cut."""

    terms: list[_Term]
    left_out: float  # P-mass that no term has: beyond the last cut, or with more jumps
    raised: float = 0.0  # by how much, relatively, outputs below the floor may raise delta

    def log_delta(self, epsilon: float) -> float:
        logs = np.array([term.log_delta(epsilon) for term in self.terms])
        return float(np.logaddexp.reduce(logs))

    def epsilon(self, log_delta: float) -> float:
        """About the epsilon at a delta."""
        low, high = 0.0, 1e-9
        while self.log_delta(high) > log_delta:
            low, high = high, 4 * high
            if high > 1e6:
                raise Declined("no epsilon in reach")
        while high - low > 1e-4 * high:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.log_delta(middle) > log_delta else (low, middle)
        return high

    def weighty(self, epsilon: float, log_delta: float) -> list[_Term]:
        """The terms that need a line."""
        return [term for term in self.terms if term.chernoff(epsilon) > log_delta + math.log(_REST / (4 * len(self.terms)))]

    def cost(self, epsilon: float, log_delta: float) -> float:
        goal = log_delta + math.log(_GOAL)
        lengths = [term.length(epsilon, goal) for term in self.weighty(epsilon, log_delta)]
        return sum(150 + length for length in lengths) if max(lengths, default=0.0) < _LONG else math.inf


def _moments(part: Part, tilts: Array) -> tuple[Array, Array, Array]:
    """The part's cumulant and two derivatives; infinite from the tilt on that moves its mass to its end."""
    top = part.support()[1]
    inside = tilts * top < 0.5 * REACH * REACH + 200
    level, mean, variance = np.full((3, len(tilts)), np.inf)
    while inside.any():
        try:
            level[inside], mean[inside], variance[inside] = part.moments(tilts[inside])
            break
        except OverflowError:
            inside &= tilts < 0.5 * tilts[inside][-1]
    return level, mean, variance


@dataclass(frozen=True)
class _Cuts:
    """Outputs at which jumps begin, at which far jumps do, and beyond which all is left out."""

    cut: float
    border: float
    end: float
    width: float
    floor: float | None  # where losses have no smallest value, outputs below this are left out as well
    further: tuple[float, ...] = ()  # between border and end: jumps so far apart that no tilt suits them together

    def below(self, *cuts: float) -> tuple[float, ...]:
        """The cuts that matter for what lies below all of them: one far beyond another changes nothing."""
        return tuple(x for x in sorted(set(cuts)) if x - min(cuts) < _APART * self.width)


def _expand(pair: MixturePair, count: int, cuts: _Cuts, level: float) -> _Expansion:
    """The terms that matter at a delta of about `level`."""
    cut, border, end, width = cuts.cut, cuts.border, cuts.end, cuts.width
    many = border - cut >= width
    cut = cut if many else border
    digits = min(40.0, 25 + math.log(count))

    def part(low: float | None, *cut: float) -> Part:
        return Part(pair, low, cuts.below(*cut), width, digits)

    borders = [border, *cuts.further, end] if end - border >= width else [end]
    small = part(cuts.floor, cut, *borders)
    near = part(cut, *borders) if many else None
    levels = [(small, near)]
    for i in range(len(borders) - 1):
        levels.append((part(cuts.floor, *borders[i:]), part(borders[i], *borders[i + 1 :])))
    # no mass may get lost: neither of the whole, nor of the jumps, whose mass beyond a cut has a closed form
    lost = _beyond(pair, end, width)
    large = math.fsum([lost, *(math.exp(jump.kappa(0.0)) for _, jump in levels if jump is not None)])
    whole = large + math.exp(small.kappa(0.0)) + (0.0 if cuts.floor is None else _below(pair, cuts.floor, width))
    if whole < 1 - 1e-9 or large < _beyond(pair, cut, width) * (1 - 1e-9):
        raise Declined("the parts do not add up to the whole")
    spread = max(math.sqrt(count * float(small.moments(np.zeros(1))[2][0])), 1e-300)
    first = 0.03 / max(float(pair.loss(np.array([end]))[0]), spread)
    tilts = np.geomspace(first, 120.0 / spread, max(16, int(9 * math.log10(120.0 / spread / first))))
    beyond = count * (lost + ENDS + _APART_MASS)
    # Losses grow with the output, so a law that gives more weight to larger outputs costs more: that of what lies above the floor,
    # made a law again, bounds the whole.
    raised = 0.0 if cuts.floor is None else math.expm1(-count * math.log1p(-_below(pair, cuts.floor, width))) * (1 + 1e-9)
    terms: list[_Term] = []
    for base, jump in levels:
        start, ways = 0 if base is small else 1, [0.0]
        if jump is not None:
            chance = count * math.exp(jump.kappa(0.0))
            while len(ways) <= min(count, _MOST):
                j = len(ways)
                ways.append(math.lgamma(count + 1) - math.lgamma(j + 1) - math.lgamma(count - j + 1))
                if (j + 1) * math.log(max(chance, 1e-300)) - math.lgamma(j + 2) < math.log(_REST * level):
                    break
            if len(ways) <= count:
                left = len(ways) * math.log(max(chance, 1e-300)) - math.lgamma(len(ways) + 1)
                if left > math.log(2 * _REST * level):
                    raise Declined("too many jumps matter")
                beyond += math.exp(left)
        terms += _terms(base, jump, count, tilts, ways, start)
    return _Expansion(terms, beyond * (1 + 1e-9), raised)


def _terms(base: Part, jump: Part | None, count: int, tilts: Array, ways: list[float], start: int) -> list[_Term]:
    """C(T, j) base^(T-j) jump^j for every j from `start` on."""
    usual = _moments(base, tilts)
    large = _moments(jump, tilts) if jump is not None and len(ways) > 1 else None
    terms = []
    for j in range(start, len(ways)):
        figures = [np.zeros(len(tilts))] * 3
        parts: list[tuple[Pair, int]] = []
        if j < count:
            figures = [x + (count - j) * y for x, y in zip(figures, usual, strict=True)]
            parts.append((base, count - j))
        if j and jump is not None and large is not None:
            figures = [x + j * y for x, y in zip(figures, large, strict=True)]
            parts.append((jump, j))
        keep = np.isfinite(figures[0])
        level, mean, variance = (x[keep] for x in figures)
        terms.append(_Term(ways[j], parts, Plan(tilts[keep], level + ways[j], mean, variance)))
    return terms


@dataclass(frozen=True)
class _Sum:
    """The lines of all terms, as one curve."""

    lines: list[Line]
    rest: Callable[[float], float]
    raised: float

    @property
    def c(self) -> float:
        return min(line.c for line in self.lines)

    def delta(self, epsilon: float) -> tuple[float, float, float, float]:
        found = np.array([line.delta(epsilon) for line in self.lines]).sum(axis=0)
        above = float(found[3]) + self.rest(epsilon)
        return float(found[0]), float(found[1]), float(found[2]), above + self.raised * max(0.0, float(found[0]) + above)


def _laid(expansion: _Expansion, epsilon: float, log_delta: float) -> _Sum:
    """A line for each term that matters, and Chernoff's bound on the others."""
    weighty = expansion.weighty(epsilon, log_delta)
    lines = []
    for term in weighty:
        curve = term.curve
        height = curve.level - curve.c * epsilon - np.log(curve.c) - np.log1p(curve.c)
        centre = float(curve.c[int(np.argmin(height))])
        tilts = centre * np.concatenate([np.geomspace(0.4, 1.6, 33), [2.0, 3.0, 5.0]])
        found = [np.zeros(len(tilts))] * 3
        for part, count in term.parts:
            moments = part.moments(tilts)
            assert moments is not None
            found = [x + count * y for x, y in zip(found, moments, strict=True)]
        keep = np.isfinite(found[0])
        table = Plan(tilts[keep], found[0][keep] + term.ways, found[1][keep], found[2][keep])
        if len(table.c) < 8:
            raise Declined("the tilt reaches the end of a part")
        lines.append(contour.lay_out(term.parts, table, epsilon, log_delta, ways=term.ways, most=_LONG, goal=_GOAL))
    if not lines:
        raise Declined("no term matters")
    rest = [term for term in expansion.terms if term not in weighty]
    return _Sum(lines, lambda e: expansion.left_out + sum(math.exp(min(term.chernoff(e), 0.0)) for term in rest), expansion.raised)


def _candidates(pair: MixturePair, count: int, level: float, epsilon: float | None) -> Iterator[tuple[float, float]]:
    """Cuts to try, each with the sharpness of its ends; a negative one marks a cut at a share of epsilon.

    Where one large loss alone reaches epsilon and the others hardly move it, jumps begin at some share of epsilon. Otherwise cuts are
    tried by how many jumps there are beyond them: few first, and where the small losses alone never die out, more of them soon.
    """
    near = _alone(pair, count, level) if epsilon is None else epsilon
    u = np.linspace(-12.0, _output(pair, 0.4 * near, 40.0), 500)
    density = np.exp(pair.log_up(u) - 0.5 * u * u) / math.sqrt(2 * math.pi)
    bulk = math.sqrt(count * float(density @ pair.loss(u) ** 2) * float(u[1] - u[0]) * 2 * abs(math.log(level)))
    shares = ((0.2, 0.4), (0.4, 0.4), (0.1, 1.0), (0.1, 0.4), (0.6, 0.4))
    by_loss = [(_output(pair, share * near, 60.0), -sharp) for share, sharp in shares]
    rates = np.geomspace(max(1e-6 * math.sqrt(level), 1e-22), 3.0, 12)
    order = (_SPARE * level, *rates[[0, 3, 6, 8, 10, 9, 7, 5, 4, 2, 1, 11]].tolist())
    by_rate = [(_quantile(pair, rate / count, 0.5), sharp) for sharp in (1.0, 0.4) for rate in order]
    if bulk < 0.3 * near:
        yield from by_loss
    yield from by_rate[:3]
    if 0.3 * near <= bulk < 3 * near:
        yield from by_loss
    yield from by_rate[3:]


def _alone(pair: MixturePair, count: int, level: float) -> float:
    """About the epsilon at which one of the steps alone has this delta."""
    low, high = 0.0, 1e-9
    while count * single_delta(pair, high)[0] > level and high < 1e6:
        low, high = high, 4 * high
    while high - low > 1e-3 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if count * single_delta(pair, middle)[0] > level else (low, middle)
    return high


def _expansions(pair: MixturePair, count: int, level: float, epsilon: float | None) -> Iterator[tuple[_Expansion, float, float]]:
    """Expansions with about their epsilon and log delta, from few jumps to many: first those with short lines.

    Where one did not do, small losses that reach even further will not either.
    """
    shift = float(max(pair.shifts[0].max(), pair.shifts[1].max()))
    later, done, failed = list[tuple[float, int, tuple[_Expansion, float, float]]](), list[_Cuts](), list[tuple[float, float]]()
    at = math.inf if epsilon is None else epsilon
    for cut, sharp in _candidates(pair, count, level, epsilon):
        if 0 < sharp < 1 and len(failed) > 2:  # sharper cuts help where tilts reach the ends of parts, not where small losses never die out
            break
        # large losses grow in proportion to the output, small ones exponentially
        width = abs(sharp) * min(0.5, (0.15 + 0.35 * min(1.0, max(0.0, float(pair.loss(np.array([cut]))[0])))) / shift)
        if any(cut >= place for place, its in failed if its == sharp):
            continue
        end = _quantile(pair, _SPARE * level / count, width)
        floor = _floor(pair, _FLOOR / count, width) if pair.support()[0] == -math.inf else None
        try:
            for _ in range(4):  # far jumps are those that alone exceed epsilon
                border = _output(pair, 1.5 * at, end) if at < math.inf else end
                cuts = _Cuts(min(cut, border), border, end, width, floor, _further(pair, border, end, width))
                if any(abs(cuts.cut - other.cut) + abs(border - other.border) < 0.2 * width <= 0.3 * other.width for other in done):
                    raise Declined("tried already")
                done.append(cuts)
                found = _expand(pair, count, cuts, level)
                if epsilon is not None:
                    break
                at = min(at, found.epsilon(math.log(level)))
                if border - _output(pair, 1.5 * at, end) < 3 * width:
                    break
        except (Declined, OverflowError):
            continue
        log_delta = math.log(level) if epsilon is None else found.log_delta(epsilon)
        place = found.epsilon(log_delta) if epsilon is None else epsilon
        cost = found.cost(place, log_delta)
        if cost < 1500:
            if sharp > 0:
                failed.append((cut, sharp))  # or nothing more is asked
            yield found, place, log_delta
        elif cost < math.inf:
            later.append((cost, len(later), (found, place, log_delta)))
    for _, _, candidate in sorted(later)[:4]:
        yield candidate


def _output(pair: MixturePair, loss: float, end: float) -> float:
    """The output at which a loss is reached, if that is before the end."""
    return min(float(pair.invert(np.array([loss]))[0]), end)


def bracket(pair: MixturePair, count: int, *, delta: float | None = None, epsilon: float | None = None) -> Bound:
    """The bracket on epsilon at `delta`, or on delta at `epsilon` >= 0, for `count` uses of one pair; `Declined` where no cut will do.

    >>> from tacit.accounting.pairs.mixture import poisson_gaussian
    >>> found = bracket(poisson_gaussian(1e-5, 0.5), 1000, epsilon=1.0)
    >>> 6.77e-10 < found.lower <= found.upper < 6.79e-10
    True
    """
    best: Bound | None = None
    for level in [delta] if delta is not None else _expected(pair, count, epsilon or 0.0):
        for expansion, guess, log_delta in islice(_expansions(pair, count, level, epsilon), _TRIES):
            try:
                if delta is None:
                    value, _, below, above = _laid(expansion, guess, log_delta).delta(guess)
                    found = Bound(min(1.0, max(0.0, value - below)), min(1.0, max(0.0, value + above)), METHOD)
                else:
                    found = _epsilon(expansion, guess, delta)
            except (Declined, OverflowError):
                continue
            best = found if best is None else best.intersect(found)
            if best.width <= _NARROW * best.upper or (delta is None and best.upper < _NEGLIGIBLE):
                return best
    if best is None:
        raise Declined("no cut makes all lines short")
    return best


def _expected(pair: MixturePair, count: int, epsilon: float) -> Iterator[float]:
    """Deltas that the true one is hardly below: what one step has alone; then, if that was no help, a tenth of the saddle point's."""
    alone = max(single_delta(pair, epsilon)[0], 1e-290)
    yield alone
    try:
        table = contour.search([(pair, count)], lambda p: p.epsilon < epsilon)
    except (Declined, OverflowError):
        return
    more = 0.1 * math.exp(min(0.0, float(np.interp(epsilon, table.epsilon, table.log_delta))))
    if more > 1e3 * alone:
        yield more


def _epsilon(expansion: _Expansion, guess: float, delta: float) -> Bound:
    for _ in range(4):
        lines = _laid(expansion, guess, math.log(delta))
        value, _, _, above = lines.delta(0.0)
        if value + above <= delta:
            return Bound(0.0, 0.0, METHOD)
        root = contour.newton(lines, guess, delta)
        _, _, below, above = lines.delta(root)
        if below + above <= 1e-8 * delta or abs(root - guess) * lines.c < 0.05:
            break
        guess = root
    found = contour.bracket_root(lines, root, delta)
    return Bound(found.lower, found.upper, METHOD)
