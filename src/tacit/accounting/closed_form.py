"""Figures that need no engine: one Gaussian or Laplace release, exact sums, and what a stated guarantee says.

Most questions to a table are one release of noise, and most totals are sums of stated guarantees. Both are
priced here, in rational arithmetic or by the closed form of the one release, with the same figures as the
engines give. What has no closed form is None, and then `tacit.accounting.account` works it out. What a stated
guarantee says in another currency, and what it lets an attacker gain, is a formula too.

>>> from tacit.accounting import Gaussian, Repeated
>>> exact_rho(Repeated(Gaussian(10), 20), Adjacency.ADD_REMOVE)
Fraction(1, 10)
>>> found = one_release(Laplace(noise_multiplier=2), Adjacency.ADD_REMOVE, 1e-6)
>>> 0.499997 < found.lower <= found.upper < 0.499999
True
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting.bound import Bound
from tacit.accounting.events.leaves import (
    GDP,
    ZCDP,
    ApproxDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    Gaussian,
    Laplace,
    LocalReport,
    MatrixMechanism,
    PureDP,
    RandomizedResponse,
    RenyiDP,
    Staircase,
)
from tacit.accounting.events.tree import Adjacency, Composed, Event, Group, Leaf, NoOp, Repeated, Sampled, Selection, Shuffled, Worst, hops
from tacit.accounting.special import ndtri_exp
from tacit.accounting.theorems import gaussian
from tacit.errors import UnsupportedError
from tacit.exact import exact
from tacit.parameters import nonnegative

Array = NDArray[np.float64]

EXACT = "closed form"
LARGEST_LOSS = 600  # of Laplace noise: beyond it the scale of the loss's density underflows
_GUARANTEES: dict[type[Event], tuple[str, ...]] = {
    PureDP: ("epsilon",),
    ApproxDP: ("epsilon", "delta"),
    ZCDP: ("rho",),
    GDP: ("mu",),
}

# --- one release ---


def one_release(event: Event, adjacency: Adjacency, delta: float, *, null_record: bool = False) -> Bound | None:
    """Epsilon at 0 < delta < 1 of one release with Gaussian or Laplace noise; None for any other event.

    >>> found = one_release(Gaussian(noise_multiplier=2), Adjacency.ADD_REMOVE, 1e-6)
    >>> round(found.upper, 6), one_release(Repeated(Gaussian(2), 3), Adjacency.ADD_REMOVE, 1e-6)
    (2.254085, None)
    """
    if not (isinstance(event, (Gaussian, Laplace)) and isinstance(adjacency, Adjacency) and 0 < delta < 1):
        return None
    size = hops(event.adjacency, adjacency, null_record=null_record)
    try:
        shift = size / float(event.noise_multiplier)
        if isinstance(event, Gaussian):
            return gaussian_epsilon(shift, delta)
        if shift < LARGEST_LOSS:
            return least_epsilon(lambda epsilon: laplace_delta(shift, epsilon), shift, delta)
    except (OverflowError, ZeroDivisionError, ValueError):
        pass  # beyond what floating point holds: the engines say so
    return None


def gaussian_epsilon(mu: float, delta: float) -> Bound:
    """Epsilon at delta of Gaussian noise whose two outputs are mu standard deviations apart."""
    value = gaussian.epsilon(mu, delta)
    return Bound(max(0.0, value * (1 - 1e-11) - 1e-15), value * (1 + 1e-11) + 1e-15 if value else 0.0, EXACT)


def laplace_delta(theta: float, epsilon: float) -> tuple[float, float]:
    """Both ends of delta at epsilon >= 0 of Laplace noise whose largest loss is theta.

    The loss has Q-density e^(-theta/2) / 4 exp(-l/2) between -theta and theta, and atoms at both ends. In real
    numbers delta is 1 - exp((epsilon - theta) / 2); the parts are added up here as the engines do.

    >>> low, high = laplace_delta(1.0, 0.5)
    >>> low < 1 - math.exp(-0.25) < high
    True
    """
    scale = 2 * (math.exp(-theta / 2) / 4)
    start = min(epsilon, theta)
    q = scale * np.exp(-start / 2) * -np.expm1(-(theta - start) / 2)
    p = scale * np.exp(start / 2) * np.expm1((theta - start) / 2)
    mass = 0.5 * math.exp(-theta) * np.exp(theta)
    atom = float(mass * -np.expm1(epsilon - theta)) if theta > epsilon else 0.0
    return hockey_stick(float(p), float(q), epsilon, atoms=atom)


def hockey_stick(p: float, q: float, epsilon: float, *, atoms: float, infinite: float = 0.0) -> tuple[float, float]:
    """Both ends of P(L > epsilon) - e^epsilon Q(L > epsilon), from the two tails p and q of the smooth part, what
    the atoms add, and the mass at infinity."""
    scaled = math.exp(min(epsilon + math.log(q), 0.0)) if q > 0 else 0.0
    value = infinite + max(0.0, p - scaled) + atoms
    error = 1e-13 * (value + p * (1 + abs(epsilon)))  # rounding of the two tails, with room
    return max(0.0, value - error), min(1.0, value + error)


def least_epsilon(delta_at: Callable[[float], tuple[float, float]], top: float, delta: float) -> Bound:
    """Bisection on the closed form of one step, each end on its safe side; no epsilon beyond `top` is needed."""
    if delta_at(0.0)[1] <= delta:
        return Bound(0.0, 0.0, EXACT)
    high = max(top, 0.0)
    if not math.isfinite(high):
        high = 1.0
        while delta_at(high)[1] > delta:
            high *= 2
            if high > 1e9:
                return Bound(0.0, math.inf, EXACT)
    low = 0.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        if delta_at(middle)[1] <= delta:
            high = middle
        else:
            low = middle
    upper, step = high, max(high * 1e-12, 1e-300)
    lower = high
    while lower > 0 and delta_at(lower)[0] < delta:
        lower, step = lower - step, 2 * step
    return Bound(max(lower, 0.0), upper, EXACT)


# --- sums in fractions ---


def exact_rho(event: Event, adjacency: Adjacency, *, null_record: bool = False) -> Fraction | None:
    """rho as a fraction, for trees of Gaussian noise, continuous or discrete, and zCDP guarantees; None for anything else.

    Discrete Gaussian noise has the rho of the continuous one (Canonne, Kamath, Steinke 2020, Theorem 4).

    >>> from tacit.accounting import Gaussian, Repeated
    >>> exact_rho(Repeated(Gaussian(10), 20), Adjacency.ADD_REMOVE)
    Fraction(1, 10)
    """

    def price(leaf: Leaf, size: int) -> Fraction | None:
        match leaf:
            case ZCDP():
                return Fraction(leaf.rho) * size**2
            case GDP():
                return (size * Fraction(leaf.mu)) ** 2 / 2
            case MatrixMechanism():
                return price(leaf.gaussian, size)
            case Gaussian():
                return (size / Fraction(leaf.noise_multiplier)) ** 2 / 2
            case DiscreteGaussian():
                return (size * leaf.sensitivity / Fraction(leaf.sigma)) ** 2 / 2
        return None

    return _exact_sum(event, adjacency, price, null_record, 1)


def exact_pure(event: Event, adjacency: Adjacency, *, null_record: bool = False) -> Fraction | None:
    """The sum of pure guarantees as a fraction: ten times 1/10 is 1. None for trees with anything else in them.

    >>> from tacit.accounting import PureDP, Repeated
    >>> exact_pure(Repeated(PureDP(Fraction(1, 10)), 10), Adjacency.ADD_REMOVE)
    Fraction(1, 1)
    """

    def price(leaf: Leaf, size: int) -> Fraction | None:
        match leaf:
            case PureDP() | RandomizedResponse() | LocalReport() | Staircase() | Exponential():
                return size * Fraction(leaf.epsilon)
            case Laplace():
                return size / Fraction(leaf.noise_multiplier)
            case DiscreteLaplace():
                return size * leaf.sensitivity / Fraction(leaf.scale)
        return None

    return _exact_sum(event, adjacency, price, null_record, 1)


def as_typed(event: Event) -> Event:
    """The event with the floats of its stated guarantees read as the decimals that were typed: PureDP(0.1) is one tenth.

    Parameters of mechanisms (noise multipliers, rates) keep their binary value: a sampler may use exactly that.

    >>> from tacit.accounting import PureDP, Repeated
    >>> as_typed(Repeated(PureDP(0.1), 10))
    Repeated(event=PureDP(epsilon=Fraction(1, 10)), count=10)
    """
    match event:
        case Composed():
            return Composed(*(as_typed(child) for child in event.events))
        case Repeated() | Group() | Sampled() | Shuffled() | Selection():
            return replace(event, event=as_typed(event.event))
        case RenyiDP():
            return event
    names = _GUARANTEES.get(type(event), ())
    changed: dict[str, Any] = {name: exact(name, getattr(event, name)) for name in names}
    return replace(event, **changed) if changed else event


def stated_sum(event: Event, adjacency: Adjacency, *, null_record: bool = False) -> tuple[Fraction, Fraction] | None:
    """Sums of the epsilons and deltas of stated guarantees; None as soon as one step states none for this relation."""
    match event:
        case Repeated():
            inner = stated_sum(event.event, adjacency, null_record=null_record)
            return None if inner is None else (event.count * inner[0], event.count * inner[1])
        case Composed():
            parts = [stated_sum(child, adjacency, null_record=null_record) for child in event.events]
            known = [part for part in parts if part is not None]
            if len(known) < len(parts):
                return None
            return sum((part[0] for part in known), Fraction(0)), sum((part[1] for part in known), Fraction(0))
        case ApproxDP() if event.adjacency is adjacency:
            return Fraction(event.epsilon), Fraction(event.delta)
    pure = exact_pure(event, adjacency, null_record=null_record)
    return None if pure is None else (pure, Fraction(0))


def squared_mu(event: Event, adjacency: Adjacency, *, null_record: bool = False) -> Fraction:
    """mu squared of Gaussian differential privacy, as a fraction that is not below the truth.

    It is exact for trees of Gaussian noise and GDP guarantees; a pure step counts as `mu_of_pure`. Nothing else has a trade-off curve
    above a Gaussian one, so everything else is refused.

    >>> from tacit.accounting import Gaussian, Repeated
    >>> squared_mu(Repeated(Gaussian(10), 20), Adjacency.ADD_REMOVE)
    Fraction(1, 5)
    """
    return _squared_mu(event, adjacency, null_record, 1)


def _squared_mu(event: Event, adjacency: Adjacency, null_record: bool, group: int) -> Fraction:
    match event:
        case NoOp():
            return Fraction(0)
        case Repeated():
            return event.count * _squared_mu(event.event, adjacency, null_record, group)
        case Composed():
            return sum((_squared_mu(child, adjacency, null_record, group) for child in event.events), Fraction(0))
        case Group():
            return _squared_mu(event.event, adjacency, null_record, group * event.size)
    unit = Group(event, group) if group > 1 else event
    if isinstance(event, (Gaussian, GDP, MatrixMechanism)):
        known = exact_rho(unit, adjacency, null_record=null_record)
        if known is not None:
            return 2 * known
    epsilon = exact_pure(unit, adjacency, null_record=null_record)
    if epsilon is None:
        raise UnsupportedError(code="price-not-gaussian", event=type(event).__name__)
    return mu_of_pure(epsilon) ** 2


def _exact_sum(
    event: Event, adjacency: Adjacency, price: Callable[[Leaf, int], Fraction | None], null_record: bool, group: int
) -> Fraction | None:
    """The sum over the tree of what each leaf costs for its group; None as soon as one leaf has no such price."""
    match event:
        case NoOp():
            return Fraction(0)
        case Repeated():
            inner = _exact_sum(event.event, adjacency, price, null_record, group)
            return None if inner is None else event.count * inner
        case Group():
            return _exact_sum(event.event, adjacency, price, null_record, group * event.size)
        case Composed():
            parts = [_exact_sum(child, adjacency, price, null_record, group) for child in event.events]
            return None if any(p is None for p in parts) else sum((p for p in parts if p is not None), Fraction(0))
        case Worst() if group * (hops(event.stated, adjacency, null_record=null_record) if event.stated else 1) == 1:
            found = [_exact_sum(child, adjacency, price, null_record, group) for child in event.events]
            return None if any(p is None for p in found) else max(p for p in found if p is not None)
        case Leaf():
            return price(event, group * hops(event.adjacency, adjacency, null_record=null_record))
    return None


# --- what a stated guarantee says ---


def attack_rate(fpr: Array, epsilons: Array, deltas: Array) -> Array:
    """The largest true-positive rate that (epsilon, delta) guarantees at these points allow, epsilon >= 0.

    Each allows at most e^eps fpr + delta and, as the relation is symmetric, 1 - e^-eps (1 - delta - fpr)
    (Kairouz, Oh, Viswanath 2015).

    >>> attack_rate(np.array([0.1, 0.9]), np.array([0.0, 1.0]), np.array([0.2, 0.0])).round(3)
    array([0.272, 0.963])
    """
    growth = np.exp(np.minimum(epsilons, 700.0))[:, None]
    small = growth * fpr[None, :] + deltas[:, None]
    large = 1 - (1 - deltas[:, None] - fpr[None, :]) / growth
    return np.asarray(np.minimum(np.minimum(small, large).min(axis=0), 1.0))


def mu_of_pure(epsilon: Fraction) -> Fraction:
    """A mu, rounded up, such that every epsilon-DP mechanism is mu-GDP: 2 Phi^-1(e^eps / (1 + e^eps)) (Dong, Roth, Su 2022).

    >>> round(float(mu_of_pure(Fraction(1))), 6)
    1.232035
    """
    # concave in epsilon with slope sqrt(pi / 2) at zero, so the line is a bound, and the better one where epsilon is tiny
    line = epsilon * Fraction("1.2533141373156")
    value = float(epsilon)
    if value < 1e-3:
        return line
    curve = -2 * float(ndtri_exp(-value - math.log1p(math.exp(-value))))
    return min(line, Fraction(curve) * (1 + Fraction(1, 10**9)))


def rho_from_pure(eps: float) -> float:
    """Every eps-DP mechanism is (eps^2/2)-zCDP (Steinke 2022, Proposition 3.16).

    >>> rho_from_pure(0.1)
    0.005000000000000001
    """
    return float(nonnegative("eps", eps)) ** 2 / 2


def rho_from_range(width: float) -> float:
    """Losses in a range of this width give (width^2/8)-zCDP (Steinke 2022, Lemma 3.32.5; Cesar and Rogers 2021).

    An eps-DP mechanism has width 2 eps; the exponential mechanism of parameter eps has width eps.

    >>> rho_from_range(2.0)
    0.5
    """
    return float(nonnegative("width", width)) ** 2 / 8
