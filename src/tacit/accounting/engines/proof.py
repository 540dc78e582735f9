"""Brackets that are theorems: the contour integral in ball arithmetic, every error bounded, the result rounded outwards.

The figures of `tacit.accounting.engines.contour` rest on floating point whose rounding is estimated. Here the same integral is enclosed by
arithmetic on balls (Johansson 2017), starting from exact rationals, so that what comes out is a proof. It covers compositions, in one
direction, of mixtures of Gaussians: the Gaussian mechanism, Poisson sampling of it, groups, and replacement under sampling.
Mechanisms with finitely many losses are composed exactly in `tacit.accounting.engines.ball_lattice`.

>>> training = [(exact_poisson_gaussian(Fraction(1, 100), 1), 1000)]
>>> found = certified_epsilon(training, Fraction(1, 10**5))
>>> found.lower <= 1.8282366665165769 <= found.upper and found.width < 1e-14
True

The exact mixtures are in `tacit.accounting.engines.ball_arithmetic`. Floating point only chooses where to integrate
(`tacit.accounting.engines.ball_arithmetic`); what is proved of the integral, and how, is in `tacit.accounting.engines.ball_arithmetic`.

Precision is a global setting of python-flint: do not call this from several threads at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tacit.accounting.bound import Bound
from tacit.accounting.engines import compose
from tacit.accounting.engines.allocation import allocation_bracket
from tacit.accounting.engines.ball_allocation import allocated_delta, allocated_epsilon
from tacit.accounting.engines.ball_arithmetic import (
    ExactMixture,
    Mixtures,
    build,
    exact_gaussian,
    exact_poisson_gaussian,
    exact_poisson_gaussian_replaced,
    floating,
    lay_out,
    log_fraction,
    one_step,
    support,
    to_ball,
)
from tacit.accounting.engines.ball_epochs import EpochCells
from tacit.accounting.engines.ball_grid import (
    AtomCells,
    Cells,
    FixedSizeCells,
    LaplaceCells,
    SampledGaussianCells,
    grid_delta,
    grid_epsilon,
)
from tacit.accounting.engines.ball_lattice import ExactLaw, exact_laws, finite_delta, finite_epsilon, restored
from tacit.accounting.engines.contour import Declined, search
from tacit.accounting.events.leaves import Gaussian, Laplace
from tacit.accounting.events.tree import Event, Poisson, Sampled, WithoutReplacement
from tacit.accounting.pairs.finite import FinitePair
from tacit.accounting.pairs.laplace import HalfTiltPair
from tacit.accounting.pairs.mixture import MixturePair
from tacit.accounting.pairs.pair import Pair, Trivial
from tacit.accounting.pairs.sampled import FixedSizeGaussian
from tacit.errors import UnsupportedError
from tacit.parameters import Number, count, number, probability

if TYPE_CHECKING:
    from flint import arb

    from tacit.accounting.resolve import AllocationStep, Resolved, Step

METHOD = "contour integral in ball arithmetic"
_ONE_STEP = "closed form in ball arithmetic"
_BITS = 320  # for closed forms
_DECLINED = "no proof within reach: {}; ask without certify=True"

Components = Sequence[tuple[MixturePair | ExactMixture, int]]


def _exact(components: Components) -> list[tuple[ExactMixture, int]]:
    """Equal parts merged, and nothing that is trivial."""
    try:
        import flint  # noqa: F401
    except ImportError:
        raise UnsupportedError("certify=True needs python-flint: pip install 'tacit[proof]'") from None
    merged: dict[ExactMixture, int] = {}
    for part, steps in components:
        mixture = ExactMixture.of(part) if isinstance(part, MixturePair) else part
        if not isinstance(mixture, ExactMixture):
            raise UnsupportedError(f"certify=True covers mixtures of Gaussians, not {type(part).__name__}; ask without it")
        if mixture.total_shift() != 0:
            merged[mixture] = merged.get(mixture, 0) + count("count", steps)
    return list(merged.items())


def _is_single(mixtures: Mixtures) -> bool:
    return len(mixtures) == 1 and mixtures[0][1] == 1 and mixtures[0][0].total_shift() is None


def _outwards(ball: arb, floor: float = 0.0, ceiling: float = 1.0) -> tuple[float, float]:
    """Floats on either side of the ball."""
    if not ball.is_finite():
        return floor, ceiling
    low, high = float(ball.lower()), float(ball.upper())
    while low > floor and not to_ball(low) <= ball.lower():
        low = math.nextafter(low, -math.inf)
    while high < ceiling and not to_ball(high) >= ball.upper():
        high = math.nextafter(high, math.inf)
    return min(max(low, floor), ceiling), max(min(high, ceiling), floor)


def certified_delta(components: Components, epsilon: Number) -> Bound:
    """The bracket on delta at any real epsilon, for one direction: proved, and rounded outwards.

    >>> found = certified_delta([(exact_gaussian(1), 1)], 1)  # Phi(-1/2) - e Phi(-3/2)
    >>> found.lower <= 0.12693673750664397 <= found.upper and found.width < 1e-16
    True
    """
    mixtures, eps = _exact(components), number("epsilon", epsilon)
    from flint import ctx

    if not math.isfinite(eps):
        return Bound(float(eps < 0), float(eps < 0), METHOD)
    exact = Fraction(eps)
    if not mixtures or _is_single(mixtures):
        with ctx.workprec(_BITS):
            ball = one_step(mixtures[0][0], to_ball(exact)) if mixtures else 1 - to_ball(min(exact, Fraction(0))).exp()
            return Bound(*_outwards(ball), _ONE_STEP)
    try:
        table = search(floating(mixtures), lambda p: p.epsilon < float(eps))
        guess = min(float(np.interp(float(eps), table.epsilon, table.log_delta)), 0.0)
        design = lay_out(mixtures, table, float(eps), guess)
        with ctx.workprec(design.bits):
            return Bound(*_outwards(build(mixtures, design).delta(to_ball(exact))), METHOD)
    except (Declined, OverflowError) as error:
        raise UnsupportedError(_DECLINED.format(error)) from None


def certified_epsilon(components: Components, delta: Number) -> Bound:
    """The bracket on the smallest epsilon >= 0 at a given delta, for one direction: proved, and rounded outwards.

    >>> found = certified_epsilon([(exact_gaussian(1), 1)], 1e-5)
    >>> found.lower <= 4.3771780956812250 <= found.upper and found.width < 1e-14
    True
    """
    mixtures, target = _exact(components), Fraction(probability("delta", delta))
    from flint import ctx

    if not mixtures or target == 1:
        return Bound(0.0, 0.0, METHOD)
    if target == 0 or _is_single(mixtures):
        with ctx.workprec(_BITS):
            if target == 0:
                top = support(mixtures)[1]
                return Bound(*_outwards(top, 0.0, math.inf), _ONE_STEP) if top.is_finite() else Bound(math.inf, math.inf, _ONE_STEP)
            curve = partial(one_step, mixtures[0][0])
            return Bound(*_bracket(curve, to_ball(target), _solve(curve, to_ball(target), 1.0, 1.0)), _ONE_STEP)
    try:
        table = search(floating(mixtures), lambda p: p.log_delta > log_fraction(target))
        guess = max(float(np.interp(-log_fraction(target), -table.log_delta, table.epsilon)), 0.0)
        for _ in range(4):
            design = lay_out(mixtures, table, guess, log_fraction(target))
            with ctx.workprec(design.bits):
                line = build(mixtures, design)
                lower, upper = _bracket(line.delta, to_ball(target), _solve(line.delta, to_ball(target), guess, design.c))
            # a line laid out for another epsilon proves as much, but perhaps less sharply
            if upper - lower <= 1e-13 * upper or abs(upper - guess) * design.c < 1e-3:
                break
            guess = upper
    except (Declined, OverflowError) as error:
        raise UnsupportedError(_DECLINED.format(error)) from None
    return Bound(lower, upper, METHOD)


def _solve(curve: Callable[[arb], arb], target: arb, guess: float, rate: float) -> arb:
    """Where the midpoints of a decreasing curve cross the target, near enough: Newton on the logarithm, kept inside a bracket."""
    low, high, x = to_ball(0), to_ball(math.inf), to_ball(guess)
    for _ in range(200):
        value = curve(x).mid()
        if value > target:
            low = x
        else:
            high = x
        if not high > 0:
            return high
        nudge = to_ball(1e-9) * (x if x > 0 else to_ball(1 / rate))
        ahead = curve(x + nudge).mid()
        following = to_ball(math.nan)
        if value > ahead and ahead > 0:
            following = (x + nudge * (value / target).log() / (value / ahead).log()).mid()
        if following <= 0:
            following = to_ball(0)
        if not (low <= following and following <= high):
            following = ((low + high) / 2).mid() if high.is_finite() else 2 * low + 1 / to_ball(rate)
        if abs(following - x) <= to_ball(2.0**-70) * x:
            return following
        x = following
    return x


def _bracket(curve: Callable[[arb], arb], target: arb, root: arb) -> tuple[float, float]:
    """The nearest floats, or nearly, at which the curve is proved to be above and below the target."""
    lower = upper = middle = float(root.mid())
    step = math.ulp(middle)
    for _ in range(1100):
        if curve(to_ball(upper)) <= target:
            break
        upper, step = middle + step, 2 * step
    else:
        raise Declined("the curve is flat to working precision")
    step = math.ulp(middle)
    while lower > 0 and not curve(to_ball(lower)) >= target:
        lower, step = max(middle - step, 0.0), 2 * step
    return lower, upper


def certify(event: Event, parts: Resolved, what: str, value: Number) -> Bound:
    """The worse of the two directions of a resolved event, proved: `what` is "epsilon" at a given delta, or "delta" at a given epsilon.

    Noise multipliers and sampling rates are taken from the event, where they are exact, and not from the pairs, where they are rounded.
    """
    if parts.renyi or parts.leak or any(step.floor is not None for step in parts.steps):
        raise UnsupportedError("certify=True covers what has a pair in closed form, not this sampler or Rényi guarantee; ask without it")
    if parts.allocations:
        return _allocated(event, parts, what, value)
    if parts.steps and all(isinstance(step.remove, FinitePair) for step in parts.steps):
        try:
            return _finite(event, parts, what, value)
        except UnsupportedError:  # no common unit, or too many points: one lattice for all, rounded both ways
            return _mixed(event, parts, what, value)
    if any(not isinstance(step.remove, MixturePair | Trivial) for step in parts.steps):
        return _mixed(event, parts, what, value)
    ask = {"epsilon": certified_epsilon, "delta": certified_delta}[what]
    known = _parameters(event)
    remove = [(_restored(step.remove, *known), step.count) for step in parts.steps if not isinstance(step.remove, Trivial)]
    add = [(_restored(step.add, *known), step.count) for step in parts.steps if not isinstance(step.add, Trivial)]
    # a Gaussian pair, and replacement under sampling, are the same in both directions
    same = [(m.total_shift() or m, n) for m, n in remove] == [(m.total_shift() or m, n) for m, n in add]
    found = ask(remove, value)
    return found if same else found.worst(ask(add, value))


def _finite(event: Event, parts: Resolved, what: str, value: Number) -> Bound:
    """The same for mechanisms with finitely many losses, whose two directions are alike."""
    _exact([])  # asks for python-flint
    known = exact_laws(event)
    laws = [(restored(step.remove, known), step.count) for step in parts.steps]
    for step in parts.steps:
        restored(step.add, known)
    if what == "epsilon":
        return finite_epsilon(laws, Fraction(probability("delta", value)))
    epsilon = number("epsilon", value)
    if not math.isfinite(epsilon):
        raise UnsupportedError("certify=True takes a finite epsilon here; ask without it")
    return finite_delta(laws, Fraction(epsilon))


def _mixed(event: Event, parts: Resolved, what: str, value: Number) -> Bound:
    """Steps of several kinds, on one lattice that is rounded both ways."""
    _exact([])  # asks for python-flint
    known = _exact_parameters(event)
    found: Bound | None = None
    directions: list[list[tuple[Cells, int]]] = [
        [(_cells(pair(step), known), step.count) for step in parts.steps] + _epochs(event, parts, pair is _adding)
        for pair in (_removing, _adding)
    ]
    for cells in directions if directions[0] != directions[1] else directions[:1]:
        if what == "epsilon":
            target = Fraction(probability("delta", value))
            if target == 0:
                raise UnsupportedError("certify=True takes a delta above 0 here; ask without it")
            one = grid_epsilon(cells, target)
        else:
            epsilon = Fraction(number("epsilon", value))
            about = _rough_delta(parts, float(epsilon), directions.index(cells))
            one = grid_delta(cells, epsilon, max(about, 1e-280))
        found = one if found is None else found.worst(one)
    assert found is not None
    return found


def _rough_delta(parts: Resolved, epsilon: float, direction: int) -> float:
    """About what delta will be: a guide for the lattice."""
    pairs = [((step.add if direction else step.remove), step.count) for step in parts.steps]
    if not parts.allocations:
        return compose.delta(pairs, epsilon).upper
    others = [(step.remove, step.add, step.count) for step in parts.steps]
    one = parts.allocations[0]
    alike = [s.count for s in parts.allocations if (s.noise_multiplier, s.steps) == (one.noise_multiplier, one.steps)]
    return allocation_bracket(one.noise_multiplier, one.steps, 1, sum(alike), others, epsilon=epsilon).upper


def _epochs(event: Event, parts: Resolved, added: bool) -> list[tuple[Cells, int]]:
    """The epochs of random allocation, equal ones together."""
    counts: dict[Cells, int] = {}
    for one in parts.allocations:
        sigma = _noise_of(event, one)
        cells: Cells = EpochCells(sigma, one.steps, added) if one.steps > 1 else SampledGaussianCells(Fraction(1), 1 / sigma)
        counts[cells] = counts.get(cells, 0) + one.count
    return list(counts.items())


def _removing(step: Step) -> Pair:
    return step.remove


def _adding(step: Step) -> Pair:
    return step.add


@dataclass(frozen=True)
class _Known:
    """What the event says exactly: noise multipliers of Gaussian sums, rates, Laplace noise, shares of fixed samples, finite laws."""

    noises: set[Fraction]
    rates: set[Fraction]
    thetas: set[Fraction]
    shares: set[Fraction]
    laws: list[ExactLaw]


def _exact_parameters(event: Event) -> _Known:
    thetas, shares, todo = set[Fraction](), set[Fraction](), [event]
    while todo:
        one = todo.pop()
        if isinstance(one, Laplace):
            thetas |= {k / Fraction(one.noise_multiplier) for k in (1, 2)}
        if isinstance(one, Sampled) and isinstance(one.scheme, WithoutReplacement):
            shares.add(Fraction(one.scheme.sample, one.scheme.size))
        todo += one.inner
    return _Known(*_parameters(event), thetas, shares, exact_laws(event))


def _cells(pair: Pair, known: _Known) -> Cells:
    """The exact law that the pair is the rounding of, as cells of losses."""

    def nearest(value: float, among: Iterable[Fraction]) -> Fraction | None:
        return next((exact for exact in among if math.isclose(float(exact), value, rel_tol=1e-13)), None)

    if isinstance(pair, FinitePair):
        law = restored(pair, known.laws)
        return AtomCells(law.losses, law.masses, law.infinite, law.lost)
    if isinstance(pair, MixturePair):
        exact = _restored(pair, known.noises, known.rates)
        if (shift := exact.total_shift()) is not None:
            return SampledGaussianCells(Fraction(1), shift)
        for mixture, added in ((exact, False), (exact.reverse(), True)):
            if len(mixture.up) == 2 and mixture.up[0][0] == 0 and mixture.down == ((Fraction(0), Fraction(1)),):
                return SampledGaussianCells(mixture.up[1][1], mixture.up[1][0], added)
    if isinstance(pair, HalfTiltPair) and pair.edge == 0.5 and pair.rate == 1 and (theta := nearest(pair.theta, known.thetas)):
        return LaplaceCells(theta)
    if isinstance(pair, FixedSizeGaussian):
        rate, shift = nearest(pair.rate, known.shares), nearest(pair.mu, [k / noise for noise in known.noises for k in (1, 2)])
        if rate is not None and shift is not None:
            return FixedSizeCells(rate, shift)
    raise UnsupportedError(f"certify=True has no exact law for {type(pair).__name__} here; ask without it")


def _noise_of(event: Event, step: AllocationStep) -> Fraction:
    """The exact noise multiplier of an allocation."""
    noises = _parameters(event)[0]
    sigma = next((noise for noise in noises if math.isclose(float(noise), step.noise_multiplier, rel_tol=1e-13)), None)
    if sigma is None:
        raise UnsupportedError("certify=True covers one Gaussian sum a step under random allocation; ask without it")
    if step.selected > 1:
        raise UnsupportedError("certify=True covers random allocation to one step of t; ask without it")
    return sigma


def _allocated(event: Event, parts: Resolved, what: str, value: Number) -> Bound:
    """Epochs of random allocation: one by itself from the law of its sum, anything else on a lattice of losses."""
    _exact([])
    steps = parts.allocations
    if len(steps) > 1 or steps[0].count > 1 or parts.steps:
        return _mixed(event, parts, what, value)
    sigma = _noise_of(event, steps[0])
    if what == "delta":
        epsilon = number("epsilon", value)
        if not 0 <= epsilon < math.inf:
            raise UnsupportedError("certify=True takes an epsilon of 0 or more here; ask without it")
        return allocated_delta(sigma, steps[0].steps, Fraction(epsilon))
    about = allocation_bracket(float(sigma), steps[0].steps, delta=float(probability("delta", value))).upper
    return allocated_epsilon(sigma, steps[0].steps, Fraction(probability("delta", value)), about)


def _parameters(event: Event) -> tuple[set[Fraction], set[Fraction]]:
    """The exact noise multipliers and sampling rates anywhere in the event."""
    if isinstance(event, Gaussian):
        return {Fraction(event.noise_multiplier)}, set()
    noises: set[Fraction] = set()
    rates: set[Fraction] = set()
    if isinstance(event, Sampled) and isinstance(event.scheme, Poisson):
        rates.add(Fraction(event.scheme.rate))
    for child in event.inner:
        more_noises, more_rates = _parameters(child)
        noises, rates = noises | more_noises, rates | more_rates
    return noises, rates


def _restored(pair: Pair, noises: set[Fraction], rates: set[Fraction]) -> ExactMixture:
    """The exact mixture that the pair is the rounding of; its own binary fractions where the event shows none."""
    if not isinstance(pair, MixturePair):
        raise UnsupportedError(f"certify=True covers mixtures of Gaussians, not {type(pair).__name__}; ask without it")
    group, farthest = max(len(pair.up), len(pair.down)) - 1, max(pair.up[-1][0], pair.down[-1][0])
    for sigma in sorted(noises):
        plain = exact_gaussian(sigma, max(1, round(farthest * float(sigma))))
        candidates = [plain, plain.reverse()]
        for rate in sorted(rates):
            removal = exact_poisson_gaussian(rate, sigma, max(group, 1))
            candidates += [removal, removal.reverse(), exact_poisson_gaussian_replaced(rate, sigma)]
        for candidate in candidates:
            if _near(candidate.pair().up, pair.up) and _near(candidate.pair().down, pair.down):
                return candidate
    return ExactMixture.of(pair)


def _near(rows: tuple[tuple[float, float], ...], others: tuple[tuple[float, float], ...]) -> bool:
    return len(rows) == len(others) and np.allclose(rows, others, rtol=1e-13, atol=0.0)
