"""One theorem at a time: what each composition theorem says about an event, for comparison with the tightest figure.

>>> sorted(METHODS)[:3]
['advanced', 'basic', 'central-limit']
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np

from tacit.accounting.bound import Bound, Estimate
from tacit.accounting.events.tree import Adjacency, Event
from tacit.accounting.pairs.mixture import MixturePair
from tacit.accounting.resolve import Resolved, renyi_curve
from tacit.accounting.theorems import gaussian
from tacit.errors import ParameterError, UnsupportedError

Row = tuple[float, float, int]
#: The names in `METHODS` that give a bound.
Theorem = Literal[
    "basic", "advanced", "strong", "drv", "zcdp", "zcdp-improved", "rdp", "rdp-improved", "optimal", "heterogeneous", "pld"
]

#: Every theorem that can be asked for by name, with what it is.
METHODS: dict[str, str] = {
    "basic": "basic composition: epsilons and deltas add",
    "advanced": "advanced composition (Steinke 2022, Theorem 3.22)",
    "strong": "strong composition, tanh form (Smith's lecture 10, Theorem 1.1)",
    "drv": "the first advanced composition (Dwork, Rothblum, Vadhan 2010)",
    "zcdp": "concentrated DP, basic conversion (Bun and Steinke 2016)",
    "zcdp-improved": "concentrated DP, improved conversion (Canonne, Kamath, Steinke 2020)",
    "rdp": "Rényi DP, basic conversion (Mironov 2017)",
    "rdp-improved": "Rényi DP, improved conversion (Canonne, Kamath, Steinke 2020)",
    "optimal": "optimal composition of equal guarantees (Kairouz, Oh, Viswanath 2015)",
    "heterogeneous": "optimal composition of any guarantees (Murtagh and Vadhan 2016)",
    "pld": "privacy-loss distribution: the exact composition, bracketed",
    "central-limit": "central-limit estimate; no guarantee",
}


def epsilon(method: str, event: Event, adjacency: Adjacency, parts: Resolved, delta: float) -> Bound | Estimate:
    """Epsilon at delta by one theorem; `UnsupportedError` where the theorem says nothing about the event."""
    if method not in METHODS:
        raise ParameterError(f"method must be one of {', '.join(METHODS)}, not {method!r}")
    if parts.leak or parts.allocations:
        raise UnsupportedError(f"{method} has no form for truncated batches or random allocation; leave method out for the tightest figure")
    from tacit.accounting.theorems import composition as theorems
    from tacit.accounting.theorems import conversions

    simple: dict[str, Callable[[list[Row], float], float]] = {
        "basic": theorems.basic,
        "advanced": theorems.advanced,
        "strong": theorems.strong,
        "drv": theorems.drv,
    }
    if method in simple:
        return Bound(0.0, simple[method](rows(parts, method), delta), METHODS[method])
    if method in ("optimal", "heterogeneous"):
        return _optimal(method, parts, delta)
    if method in ("zcdp", "zcdp-improved"):
        total = parts.rho()
        convert = conversions.zcdp_epsilon_basic if method == "zcdp" else conversions.zcdp_epsilon
        return Bound(0.0, convert(total, delta) if delta else math.inf, METHODS[method])
    if method in ("rdp", "rdp-improved"):
        curve = renyi_curve(parts)
        if method == "rdp-improved":
            return Bound(0.0, conversions.epsilon_from_curve(curve, delta) if delta else math.inf, METHODS[method])
        # the basic conversion at the improved one's best order is valid, and refined around it
        best = conversions.order_from_curve(curve, delta)
        orders = 1 + (best - 1) * np.geomspace(0.4, 2.5, 61)
        return Bound(0.0, conversions.rdp_epsilon_basic(orders, curve(orders), delta), METHODS[method])
    return central_limit(parts, delta)


def rows(parts: Resolved, method: str = "this method") -> list[Row]:
    """Each step as (epsilon, delta, count): its largest loss and its mass at infinity, the worse direction."""
    if parts.renyi:
        raise UnsupportedError(
            f"{method} composes (epsilon, delta) guarantees, and part of this event is known only by its Rényi curve; use rdp-improved"
        )
    found = []
    for step in parts.steps:
        top = max(step.remove.support()[1], step.add.support()[1], 0.0)
        if not math.isfinite(top):
            raise UnsupportedError(
                f"{method} composes (epsilon, delta) guarantees, and Gaussian noise has none without a choice of delta; use zcdp-improved, "
                "rdp-improved or pld, or state each step as ApproxDP(epsilon, delta)"
            )
        found.append((top, max(step.remove.infinite, step.add.infinite), step.count))
    return found


def _optimal(method: str, parts: Resolved, delta: float) -> Bound:
    from tacit.accounting.theorems import optimal

    found = rows(parts, method)
    if not found:
        return Bound(0.0, 0.0, METHODS[method])
    if len({(e, d) for e, d, _ in found}) == 1:
        eps0, delta0, _ = found[0]
        value = optimal.epsilon_optimal(eps0, delta0, sum(n for _, _, n in found), delta)
        return Bound(value * (1 - 1e-11), value, METHODS[method])
    if method == "optimal":
        raise UnsupportedError("optimal composes equal guarantees, and these differ; use heterogeneous")
    return optimal.epsilon_heterogeneous(found, delta)


def central_limit(parts: Resolved, delta: float) -> Estimate:
    """The loss taken as a normal of its mean and variance; for sampled Gaussians the usual mu. Often below the truth, never a guarantee."""
    if parts.renyi:
        raise UnsupportedError("a central limit needs the loss distribution, and part of this event is known only by its Rényi curve")
    if len(parts.steps) == 1 and isinstance(pair := parts.steps[0].remove, MixturePair):
        (low, _), *rest = pair.up
        if low == 0 and len(rest) == 1 and pair.down == ((0.0, 1.0),):
            return gaussian.clt_poisson_gaussian(rest[0][1], 1 / rest[0][0], parts.steps[0].count, delta)
    mean = variance = 0.0
    for step in parts.steps:
        if step.remove.infinite > 0:
            raise UnsupportedError("a central limit needs finite losses; part of this event may disclose everything")
        found = step.remove.moments(np.zeros(1))
        if found is None:
            raise UnsupportedError("a central limit needs the mean and the variance of the loss, and part of this event has no quadrature")
        _, first, second = found
        mean, variance = mean + step.count * float(first[0]), variance + step.count * float(second[0])
    if variance == 0:
        return Estimate(0.0, "central limit (no bound)")
    spread = math.sqrt(variance)
    return Estimate(max(0.0, gaussian.epsilon(spread, delta) + mean - variance / 2), "central limit (no bound)")
