"""What an event costs in each currency, as exact fractions that are never below the truth.

Sums of stated guarantees and of Gaussian or Laplace noise are priced in rational arithmetic. Everything else
is priced by `tacit.accounting`, whose upper ends are certified, as the exact value of the float. A whole plan
(any event tree) is one entry: its steps were fixed before the first answer was seen, so the tightest
composition theorem may be used on it.

>>> from tacit.accounting import Gaussian, PureDP, Repeated
>>> price(Repeated(PureDP(0.1), 10), ["pure"], Adjacency.ADD_REMOVE)
{'pure': Fraction(1, 1)}
>>> price(Gaussian(10), ["rho", "mu2", "renyi:4"], Adjacency.ADD_REMOVE)
{'rho': Fraction(1, 200), 'mu2': Fraction(1, 100), 'renyi:4': Fraction(1, 50)}
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from tacit.accounting import (
    AccountingError,
    Adjacency,
    Composed,
    Event,
    Exponential,
    Group,
    NoOp,
    Repeated,
    account,
    as_typed,
    exact_pure,
    exact_rho,
    order_of,
    squared_mu,
    stated_sum,
)
from tacit.exact import at_most, from_float
from tacit.ledger.errors import LedgerError, PriceError

#: Where the accountant's figure is the result of plain floating point, it is raised by this before it is booked.
_MARGIN = 1 + Fraction(1, 10**12)
#: Prices that cost next to nothing to compute and are booked beside the account's own currency, for the odometers.
CHEAP = ("pure", "rho")


def price(
    event: Event,
    components: Sequence[str],
    adjacency: Adjacency,
    *,
    delta: Fraction | None = None,
    null_record: bool = False,
) -> dict[str, Fraction]:
    """The price in every named component; `PriceError` says which has none, and what to do.

    `delta` is the entry's share of an (epsilon, delta) budget: the event is priced as the smallest epsilon at that delta.
    """
    if not isinstance(event, Event):
        raise LedgerError(f"event must be an event such as Gaussian(noise_multiplier=1.1), not {type(event).__name__}")
    return dict(_priced(event, tuple(components), adjacency, delta, null_record))


def cheap(event: Event, adjacency: Adjacency, *, null_record: bool = False) -> dict[str, Fraction]:
    """The prices in `CHEAP` that exist in closed form; a missing one means that no bound is booked.

    >>> from tacit.accounting import PureDP
    >>> cheap(PureDP(Fraction(1, 2)), Adjacency.ADD_REMOVE)
    {'pure': Fraction(1, 2), 'rho': Fraction(1, 8)}
    """
    pure = exact_pure(event, adjacency, null_record=null_record)
    found = {"pure": pure, "rho": _rho(event, adjacency, null_record)}
    return {name: value for name, value in found.items() if value is not None}


@lru_cache(maxsize=1024)
def _priced(
    event: Event, components: tuple[str, ...], adjacency: Adjacency, delta: Fraction | None, null_record: bool
) -> tuple[tuple[str, Fraction], ...]:
    try:
        found: dict[str, Fraction] = {}
        typed = as_typed(event)
        for name in components:
            if name in found:
                continue
            if name == "pure":
                found[name] = _pure_or_account(typed, adjacency, null_record)
            elif name in ("epsilon", "delta"):
                found["epsilon"], found["delta"] = _approximate(typed, adjacency, delta, null_record)
            elif name == "rho":
                closed = _rho(typed, adjacency, null_record)
                found[name] = _finite(account(typed, adjacency, null_record=null_record).rho().upper, name) if closed is None else closed
            elif name == "mu2":
                found[name] = squared_mu(typed, adjacency, null_record=null_record)
            else:
                found[name] = _renyi(typed, adjacency, null_record, name)
        return tuple((name, found[name]) for name in components)
    except AccountingError as reason:
        raise PriceError(f"{' and '.join(components)}: {reason}").coded_as(reason) from reason


def _finite(value: float, name: str, margin: Fraction = _MARGIN) -> Fraction:
    if not math.isfinite(value):
        raise PriceError(f"this event has no finite price in {name}, so no budget admits it; add noise, or use another currency")
    return from_float(value) * margin


def _pure_or_account(event: Event, adjacency: Adjacency, null_record: bool) -> Fraction:
    found = exact_pure(event, adjacency, null_record=null_record)
    if found is not None:
        return found
    try:
        value = account(event, adjacency, null_record=null_record).epsilon(0).upper
    except AccountingError as reason:
        raise PriceError(code="price-not-pure", reason=str(reason)) from reason
    return _finite(value, "pure epsilon", Fraction(1))


def _rho(event: Event, adjacency: Adjacency, null_record: bool, group: int = 1) -> Fraction | None:
    """rho in closed form, for groups of `group` records: exact for Gaussian noise, eps**2 / 8 for the exponential mechanism, whose losses
    lie in a range of width eps (Cesar and Rogers 2021), and eps**2 / 2 for any other pure step (Bun and Steinke 2016, Proposition 1.4)."""
    match event:
        case NoOp():
            return Fraction(0)
        case Repeated():
            inner = _rho(event.event, adjacency, null_record, group)
            return None if inner is None else event.count * inner
        case Composed():
            parts = [_rho(child, adjacency, null_record, group) for child in event.events]
            return None if any(p is None for p in parts) else sum((p for p in parts if p is not None), Fraction(0))
        case Group():
            return _rho(event.event, adjacency, null_record, group * event.size)
    unit = Group(event, group) if group > 1 else event
    found = exact_rho(unit, adjacency, null_record=null_record)
    if found is None and (epsilon := exact_pure(unit, adjacency, null_record=null_record)) is not None:
        found = epsilon**2 / (8 if isinstance(event, Exponential) else 2)
    return found


def _approximate(event: Event, adjacency: Adjacency, delta: Fraction | None, null_record: bool) -> tuple[Fraction, Fraction]:
    """(epsilon, delta) of one entry: exact sums of stated guarantees, or the accountant's epsilon at the entry's share of delta."""
    basic = stated_sum(event, adjacency, null_record=null_record)
    if delta is None or (basic is not None and basic[1] == delta and delta == 0):
        if basic is None:
            raise PriceError(
                "delta: this event has no finite epsilon at delta = 0, so an (epsilon, delta) account must know how much of its delta the "
                "entry may use; pass delta=, for example a tenth of the account's delta"
            )
        return basic
    share = at_most(delta)
    found = _finite(account(event, adjacency, null_record=null_record).epsilon(share).upper, "epsilon", Fraction(1))
    if basic is not None and basic[1] <= delta and basic[0] <= found:
        return basic
    return found, delta


def _renyi(event: Event, adjacency: Adjacency, null_record: bool, component: str) -> Fraction:
    order = order_of(component)
    rho = exact_rho(event, adjacency, null_record=null_record)
    if rho is not None:
        return rho * order
    # divergence grows with the order, so an order that is no float is priced at the next one
    near = float(order)
    near = near if Fraction(near) >= order else math.nextafter(near, math.inf)
    return _finite(account(event, adjacency, null_record=null_record).rdp(near).upper, f"Rényi divergence of order {order}")
