"""One direction of a composition, by the best engine that applies: closed form, single step, contour, or certified grid.

Most questions end at a closed form, so the other engines are loaded by the functions that turn to them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from tacit.accounting.bound import Bound
from tacit.accounting.closed_form import EXACT, gaussian_epsilon, least_epsilon
from tacit.accounting.pairs.finite import FinitePair
from tacit.accounting.pairs.mixture import MixturePair
from tacit.accounting.pairs.pair import Array, Disclosure, Pair, Trivial, inflated, single_delta, upper_levels
from tacit.accounting.theorems import gaussian
from tacit.errors import UnsupportedError

Components = Sequence[tuple[Pair, int]]

_NARROW = 5e-7  # a bracket this narrow, relative to its upper end, is not made narrower by another engine
_SHORT = 500  # frequencies of a line that is tried before all else
_WIDE = 5e-3  # a bracket wider than this is worth another engine, where both ends are those of one pair
NEGLIGIBLE = 1e-32  # a delta below this need not be known to more than an order of magnitude
_NOTHING = 1e-100  # and one below this only from above, and from one step alone


def merge(components: Components) -> list[tuple[Pair, int]]:
    """All plain Gaussians as one, and nothing that is trivial."""
    mu, others = 0.0, []
    for pair, count in components:
        if isinstance(pair, Trivial):
            continue
        if is_gaussian(pair):
            mu = math.hypot(mu, math.sqrt(count) * shift(pair))
        else:
            others.append((pair, count))
    if mu:
        others.append((MixturePair([(mu, 1.0)]), 1))
    return others


def trim(components: Components, mass: float) -> list[tuple[Pair, int]]:
    """Give up at most `mass` in all of what pairs that are bounds anyway can spare from their far tails."""
    from tacit.accounting.pairs.sampled import AttainedDraws, DrawnGaussian

    spare = (DrawnGaussian, AttainedDraws)
    total = sum(count for pair, count in components if isinstance(pair, spare))
    return [(pair.trimmed(mass / total, count) if isinstance(pair, spare) else pair, count) for pair, count in components]


def is_gaussian(pair: Pair) -> bool:
    """Whether the pair is two unit Gaussians."""
    return isinstance(pair, MixturePair) and len(pair.up) == len(pair.down) == 1


def shift(pair: Pair) -> float:
    """The distance between the two Gaussians of a Gaussian pair."""
    if not (isinstance(pair, MixturePair) and len(pair.up) == len(pair.down) == 1):
        raise TypeError("not a Gaussian pair")
    return pair.up[0][0] + pair.down[0][0]


def delta(components: Components, epsilon: float, *, tolerance: float = 1e-7, below: Components | None = None) -> Bound:
    """The bracket on delta at any real epsilon; `tolerance` is how narrow a grid tries to make it.

    With `below`, a list of the same length and order, the lower end is that of those pairs: for pairs that are known from both sides.

    >>> from tacit.accounting.pairs.mixture import gaussian as noise
    >>> delta([(noise(1.0), 1)], 1.0).upper  # doctest: +ELLIPSIS
    0.12693673750...
    """
    parts = merge(components)
    lows = parts if below is None else merge(below)
    if any(isinstance(pair, Disclosure) for pair, _ in parts):
        return Bound(1.0, 1.0, EXACT)
    if epsilon == math.inf:
        leak = -math.expm1(sum(count * math.log1p(-pair.infinite) for pair, count in parts))
        return Bound(leak, leak, EXACT)
    if not parts:
        value = max(0.0, -math.expm1(epsilon)) if epsilon < 0 else 0.0
        return Bound(value, value, EXACT)
    if epsilon < 0:
        # HS_a(P||Q) = 1 - a + a HS_1/a(Q||P)
        turned = None if below is None else [(pair.reverse(), count) for pair, count in below]
        other = delta([(pair.reverse(), count) for pair, count in components], -epsilon, tolerance=tolerance, below=turned)
        scale, base = math.exp(epsilon), -math.expm1(epsilon)
        return Bound(max(0.0, base + scale * other.lower - 4e-16), min(1.0, base + scale * other.upper + 4e-16), other.method)
    if len(parts) == 1 and parts[0][1] == 1:
        pair = parts[0][0]
        if is_gaussian(pair):
            value = gaussian.delta(shift(pair), epsilon)
            return Bound(value * (1 - 1e-11), min(1.0, value * (1 + 1e-11)), EXACT)
        return Bound(single_delta(lows[0][0], epsilon)[0], single_delta(pair, epsilon)[1], EXACT)
    from tacit.accounting.engines import contour, grid

    # one step alone costs no more than all of them
    alone = max(single_delta(pair, epsilon)[0] for pair, _ in lows)
    parts, lows = trim(parts, max(1e-6 * alone, 1e-40)), trim(lows, max(1e-6 * alone, 1e-40))
    if (cap := _vanishing(parts, epsilon)) < _NOTHING:
        leak = -math.expm1(sum(count * math.log1p(-pair.infinite) for pair, count in parts)) * (1 + 1e-9)
        upper = max(leak + cap, 5e-324)
        return Bound(min(alone, upper), upper, "Chernoff bound")
    if (rest := unsure(lows, epsilon)) < 1e-9:
        return Bound(min(1 - rest, math.nextafter(1.0, 0.0)), 1.0, "Chernoff bound")
    known = []
    attempts = _contours(parts) if below is None else []
    negligible = delta_cap(parts, epsilon) < NEGLIGIBLE
    if negligible and below is not None:
        cap = delta_cap(parts, epsilon)
        return Bound(min(alone, cap), cap, "Rényi divergence, improved conversion")
    if negligible:
        attempts, tolerance = attempts[:1], 0.5
    elif below is None and _decays(parts):
        attempts.append(partial(contour.delta, parts))
    for line in attempts:
        try:
            found = line(epsilon=epsilon)
            rough = tolerance >= 1e-5 and found.width <= 0.03 * found.upper
            if found.width <= _NARROW * found.upper or found.upper < NEGLIGIBLE or rough:
                return found
            known.append(found)  # so far out that the line's own errors are large
        except (contour.Declined, OverflowError, ZeroDivisionError):
            pass
    level = max(sum(count * single_delta(pair, epsilon)[0] for pair, count in parts), 1e-290)
    large = _few_large_losses(parts, lows, level, tolerance, epsilon=epsilon)
    if large is not None:
        best = large
        for other in known:
            best = best.intersect(other)
        if best.width <= 1e-4 * best.upper or best.upper < NEGLIGIBLE:
            return best
        known.append(large)
    found = grid.bracket(parts, epsilon=epsilon, tolerance=tolerance, below=lows)
    if large is None and _close(lows) and found.width > _WIDE * found.upper:
        large = _few_large_losses(parts, lows, level, tolerance, epsilon=epsilon, sure=True)
        known += [] if large is None else [large]
    for other in known:
        found = found.intersect(other)
    return found


def epsilon(components: Components, delta: float, *, tolerance: float = 1e-7, below: Components | None = None) -> Bound:
    """The bracket on the smallest epsilon >= 0 at delta; infinite where no epsilon will do. `below` is as for `delta`."""
    parts = merge(components)
    lows = parts if below is None else merge(below)
    if any(isinstance(pair, Disclosure) for pair, _ in parts):
        return Bound(math.inf, math.inf, EXACT) if delta < 1 else Bound(0.0, 0.0, EXACT)
    if not parts or delta >= 1:
        return Bound(0.0, 0.0, EXACT)
    if delta == 0:
        if any(pair.infinite > 0 for pair, _ in parts):
            return Bound(math.inf, math.inf, EXACT)
        least, top = (math.fsum(count * max(pair.support()[1], 0.0) for pair, count in some) for some in (lows, parts))
        return Bound(least * (1 - 1e-15), top * (1 + 1e-15), "largest privacy loss")
    if len(parts) == 1 and parts[0][1] == 1:
        pair = parts[0][0]
        if is_gaussian(pair):
            return gaussian_epsilon(shift(pair), delta)
        found = _single_epsilon(pair, delta)
        return found if below is None else Bound(min(_single_epsilon(lows[0][0], delta).lower, found.upper), found.upper, found.method)
    # total variations add, so small steps may fit into delta without any epsilon
    if sum(count * single_delta(pair, 0.0)[1] for pair, count in parts) <= delta:
        return Bound(0.0, 0.0, "total variation")
    from tacit.accounting.engines import contour, grid

    parts, lows = trim(parts, 1e-6 * delta), trim(lows, 1e-6 * delta)
    known = []
    attempts = _contours(parts) if below is None else []
    if below is None and _decays(parts):
        attempts.append(partial(contour.epsilon, parts))
    for attempt in attempts:
        try:
            line = attempt(delta=delta)
            if line.width <= _NARROW * line.upper or line.upper < 1e-12 or (tolerance >= 1e-5 and line.width <= 0.03 * line.upper):
                return line
            known.append(line)  # so far out that the line's own errors are large
        except (contour.Declined, OverflowError, ZeroDivisionError):
            pass
    large = _few_large_losses(parts, lows, delta, tolerance, delta=delta)
    if large is not None:
        best = large if not known else large.intersect(known[0])  # what is known holds, however wide
        if best.width <= (_WIDE if _close(lows) else 0.03) * best.upper:
            return best
        known.append(large)
    # losses far below 1 need a finer grid for the same number of digits
    rough = min((other.upper for other in known), default=1.0)
    finer = tolerance * min(1.0, rough) if tolerance < 1e-5 else tolerance
    found = grid.bracket(parts, delta=delta, tolerance=finer, below=lows)
    if large is None and _close(lows) and found.width > _WIDE * found.upper:
        large = _few_large_losses(parts, lows, delta, tolerance, delta=delta, sure=True)
        known += [] if large is None else [large]
    for other in known:
        found = found.intersect(other)
    if found.width > 0.05 * found.upper:  # losses so large that a grid from below cannot hold them: one step alone costs no more
        alone = max(_single_epsilon(pair, delta).lower for pair, _ in lows)
        found = Bound(min(max(found.lower, alone), found.upper), found.upper, found.method)
    if found.width > 1e-4 * found.upper and (cap := epsilon_cap(parts, delta)) < found.upper:
        return Bound(min(found.lower, cap), cap, "Rényi divergence, improved conversion")
    return found


def _contours(parts: Components) -> list[Callable[..., Bound]]:
    """Ways by contour integrals that are quick where they apply: one short line, or one for each number of large losses."""
    from tacit.accounting.engines import contour, jumps

    def short(*, delta: float | None = None, epsilon: float | None = None) -> Bound:
        if epsilon is not None:
            return contour.delta(parts, epsilon, most=_SHORT)
        assert delta is not None
        return contour.epsilon(parts, delta, most=_SHORT)

    if len(parts) != 1:
        return []
    pair, count = parts[0]
    if not isinstance(pair, MixturePair):
        return []
    return [short, partial(jumps.bracket, pair, count)] if _few(pair) else [short]


def _few(pair: Pair) -> bool:
    """Whether the pair is a mixture of so few Gaussians that its parts are cheap to integrate."""
    return isinstance(pair, MixturePair) and len(pair.up) + len(pair.down) <= 8


def _close(lows: Components) -> bool:
    """Whether the pairs from below are all but the same as those from above, so that what is wide can be made narrower."""
    return all(pair.close for pair, _ in lows)


def _few_large_losses(
    parts: Components,
    lows: Components,
    level: float,
    tolerance: float,
    *,
    delta: float | None = None,
    epsilon: float | None = None,
    sure: bool = False,
) -> Bound | None:
    """The expansion over the number of large losses, for one pair with a tail that one grid cannot hold; None where it does not apply.

    It is tried where the tail looks as if it were such a one, or, if `sure`, has shown that it is.
    """
    from tacit.accounting.engines import rare

    (pair, count), *others = parts
    if others or isinstance(pair, FinitePair) or not (sure or _few(pair) or rare.heavy(pair, count, level)):
        return None
    try:
        enough = _NARROW if tolerance < 1e-5 else 100 * tolerance if lows is parts else 0.3 * tolerance
        return rare.bracket(pair, count, delta=delta, epsilon=epsilon, enough=enough, below=lows[0][0])
    except UnsupportedError:
        return None


_TILTS = np.geomspace(0.02, 60.0, 40)


def epsilon_cap(components: Components, delta: float, enough: float = 0.0) -> float:
    """A quick upper bound on epsilon: the improved Rényi conversion on a few dozen orders; infinite where it does not apply.

    Steep tilts are tried only where the usual ones do not get below `enough`.
    """
    leak = sum(count * pair.infinite for pair, count in components)
    if not delta > leak:
        return math.inf
    best = math.inf
    for steep in (False, True):
        tilts = _steep_tilts(components) if steep else _TILTS
        try:
            level = _binned_levels(components, tilts) if steep else upper_levels(components, tilts)
        except OverflowError:
            continue
        if level is None:
            continue
        best = min(best, float(np.min((level - math.log(delta - leak) - np.log1p(tilts)) / tilts - np.log1p(1 / tilts), initial=math.inf)))
        if best <= enough:
            break
    return max(0.0, best)


def settled(components: Components, delta: float, floor: float) -> bool:
    """Whether this direction surely needs no more than epsilon = `floor`, by the cheapest argument that shows it."""
    from tacit.accounting.engines import contour

    if epsilon_cap(components, delta, math.inf) <= floor:
        return True
    parts = merge(components)
    if _decays(parts):
        try:
            return contour.delta(parts, floor).upper <= delta
        except (contour.Declined, OverflowError, ZeroDivisionError):
            pass
    if epsilon_cap(components, delta, floor) <= floor:
        return True
    if floor <= 0 or any(isinstance(pair, FinitePair) for pair, _ in parts):
        return False
    try:  # one coarse grid from above is cheaper than two fine ones
        from tacit.accounting.engines import grid

        return grid.bracket(parts, epsilon=floor, tolerance=1.0).upper <= delta
    except UnsupportedError:
        return False


def _steep_tilts(components: Components) -> Array:
    """Tilts on the scale of the composed loss, where all losses are bounded; none otherwise."""
    from tacit.accounting.engines import contour

    if any(pair.support()[1] == math.inf or isinstance(pair, FinitePair) for pair, _ in components):
        return np.empty(0)
    try:
        plan = contour.tabulated(components, np.zeros(1))
    except OverflowError:
        return np.empty(0)
    return np.empty(0) if plan is None else np.geomspace(0.5, 50.0, 24) / max(math.sqrt(float(plan.variance[0])), 1e-300)


def _binned_levels(components: Components, c: Array) -> Array:
    """Upper bounds on K from binned losses, at tilts that no quadrature reaches."""
    from tacit.accounting.engines.contour import binned

    total = np.zeros(len(c))
    for pair, count in components if len(c) else ():
        place, mass = binned(pair, pair.support()[1])
        total += count * np.log(np.exp(np.minimum(c[:, None] * place, 700.0)) @ mass)
    return np.asarray(inflated(total))


def delta_cap(components: Components, epsilon: float) -> float:
    """A quick upper bound on delta at epsilon >= 0, by the same conversion."""
    if epsilon < 0:
        return 1.0
    leak = sum(count * pair.infinite for pair, count in components)
    try:
        level = upper_levels(components, _TILTS)
    except OverflowError:
        return 1.0
    if level is None:
        return 1.0
    c = _TILTS
    return min(1.0, leak + math.exp(min(0.0, float(np.min(level - c * (epsilon + np.log1p(1 / c)) - np.log1p(c))))))


def _vanishing(parts: Components, epsilon: float) -> float:
    """Chernoff's bound on the finite part of delta at tilts steep enough to show that it is next to nothing."""
    best = 0.0
    for c in np.geomspace(1.0, 1e6, 25).tolist():
        try:
            level = sum(count * pair.kappa(c) for pair, count in parts)
        except OverflowError:
            break
        best = min(best, level + 1e-9 * (1 + abs(level)) - c * epsilon)
        if best < -800 or level == math.inf:
            break
    return math.exp(best)


def unsure(parts: Components, epsilon: float) -> float:
    """An upper bound on 1 - delta by Chernoff's bound on losses below epsilon; 1 where a pair does not know its moments exactly.

    1 - delta = E[min(1, exp(eps - L))] <= E[exp(s (eps - L))] for every s between 0 and 1.
    """
    if epsilon < 0 or not math.isfinite(epsilon):
        return 1.0
    if not all(pair.exact_cumulant for pair, _ in parts) or any(pair.infinite > 0 for pair, _ in parts):
        return 1.0
    best = 0.0
    for s in (0.5, 0.1, 0.01, 1e-3, 1e-4):
        try:
            level = sum(count * pair.kappa(-s) for pair, count in parts)
        except OverflowError:
            continue
        best = min(best, level + 1e-9 * (1 + abs(level)) + s * epsilon)
        if best < -50:
            break
    return math.exp(best) * (1 + 1e-9)


def _decays(parts: Components) -> bool:
    """Whether the characteristic function dies out at high frequencies: atoms keep it alive, unless enough smooth steps wear them down."""
    if any(isinstance(pair, MixturePair) for pair, _ in parts):  # Gaussian mixtures are smooth
        return True
    return sum(count * math.log(max(pair.decay(1.0, 1e12), 1e-300)) for pair, count in parts) < -30


def _single_epsilon(pair: Pair, delta: float) -> Bound:
    """Epsilon of one step: the pair's own way, or bisection on its closed form."""
    known = pair.least_epsilon(delta)
    if known is not None:
        return Bound(known, known, "privacy blanket")
    if pair.infinite > delta:
        return Bound(math.inf, math.inf, EXACT)
    return least_epsilon(lambda epsilon: single_delta(pair, epsilon), pair.support()[1], delta)
