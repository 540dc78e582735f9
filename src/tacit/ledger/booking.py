"""Booking: what a spend does to the totals of an account and of all accounts above it. Pure; the book and its verification both run this.

>>> visits = Spec(1, "visits", Budget(epsilon=1))
>>> after = booked([visits], {}, {"pure": Fraction(1, 2), "rho": Fraction(1, 8)}, "")
>>> after[1, ""].total["pure"], refused([visits], after, "")
(Fraction(1, 2), None)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from tacit.accounting import Adjacency, Event, as_typed
from tacit.errors import AdjacencyError
from tacit.ledger.budget import Budget  # noqa: F401  (used by the example above)
from tacit.ledger.errors import BudgetExceeded, PriceError
from tacit.ledger.filters import refusal
from tacit.ledger.pricing import cheap, price
from tacit.ledger.spec import MOVED, PLAIN, Amount, Spec, Totals, plus

Key = tuple[int, str]  # account and period; the period "" is the whole life


def charge_of(event: Event, path: Sequence[Spec], *, delta: Fraction | None, correction: bool) -> dict[str, Amount]:
    """The event's price in everything that the account (first in `path`) keeps a total of."""
    leaf, *above = path
    required = leaf.required(above)
    null_record = all(spec.null_record for spec in path)
    typed = as_typed(event)
    found: dict[str, Amount] = {}
    for prefix in ("", MOVED):
        # a move between parts of the data is a removal and an addition, so it is priced under add/remove whatever the account's relation
        relation = Adjacency.ADD_REMOVE if prefix else leaf.adjacency
        if prefix and not any(spec.rule == "two-largest" for spec in above):
            continue
        try:
            prices: dict[str, Fraction] = cheap(typed, relation, null_record=null_record)
            prices |= price(typed, required, relation, delta=delta, null_record=null_record)
        except AdjacencyError as reason:
            raise PriceError(str(reason)).coded_as(reason) from reason
        found |= {prefix + name: value for name, value in prices.items()}
    ordinary = {PLAIN + name: Fraction(0) if correction else value for name, value in found.items()}
    found |= ordinary
    return {name: found.get(name, Fraction(0) if correction and name.startswith(PLAIN) else None) for name in leaf.components(above)}


def keys(path: Sequence[Spec], period: str) -> list[Key]:
    """The totals that a spend reads and writes."""
    found: list[Key] = []
    for spec in path:
        found.append((spec.id, ""))
        if spec.window is not None:
            found.append((spec.id, period))
    return found


def booked(path: Sequence[Spec], now: Mapping[Key, Totals], charge: Mapping[str, Amount], period: str) -> dict[Key, Totals]:
    """The totals after the charge, for the account (first in `path`) and everything above it. Whether they fit is `refused`'s question."""
    after: dict[Key, Totals] = {}
    for place, spec in enumerate(path):
        own = period if spec.window is not None else ""
        empty = Totals.empty(spec.components(path[place + 1 :]))
        before = now.get((spec.id, own), empty)
        if place == 0:
            following = before.charged(charge)
        else:
            child = path[place - 1]
            # a parent with the same window sees the child's period, one without sees the child's whole life
            seen = (child.id, period if child.window is not None and spec.window is not None else "")
            below = Totals.empty(child.components(path[place:]))
            following = before.with_child(spec.combines, child.id, now.get(seen, below), after[seen])
        after[spec.id, own] = following
        if spec.window is not None:
            after[spec.id, ""] = now.get((spec.id, ""), empty).plus_change(before, following)
    return after


def refused(path: Sequence[Spec], after: Mapping[Key, Totals], period: str) -> Spec | None:
    """The first account, from the bottom, whose limits the totals would pass; None if all fit."""
    for spec in path:
        total = after[spec.id, period if spec.window is not None else ""].total
        if any(_above(total[name], limit) for name, limit in spec.limits().items()):
            return spec
    return None


def _above(amount: Amount, limit: Fraction) -> bool:
    return amount is None or amount > limit


def room(path: Sequence[Spec], now: Mapping[Key, Totals], period: str, *, correction: bool) -> dict[str, Fraction]:
    """The largest charge, component by component, that every account on the path would admit.

    From the root down: what a total may become limits what the child's total may become.
    """
    ceiling: dict[str, Amount] = {}
    for place in range(len(path) - 1, -1, -1):
        spec = path[place]
        state = _state(path, now, place, period)
        limits = {name: limit for name, limit in spec.limits().items() if not (correction and name.startswith(PLAIN))}
        ceiling = {name: _lower(ceiling.get(name), limits.get(name)) for name in {**ceiling, **limits}}
        if place == 0:
            break
        child = path[place - 1]
        total = _state(path, now, place - 1, period, seen_by=spec).total
        below: dict[str, Amount] = {}
        for name, limit in ceiling.items():
            if limit is None:
                continue
            if spec.combines == "sum":
                below[name] = _or_zero(total[name]) + limit - _or_zero(state.total[name])
                continue
            space = limit - _or_zero(state.direct[name])
            below[name] = space
            if spec.combines == "two-largest" and MOVED not in name:
                moved = PLAIN + MOVED + name.removeprefix(PLAIN) if name.startswith(PLAIN) else MOVED + name
                others = [value for who, value in state.top.get(moved, ()) if who != child.id]
                below[moved] = _lower(below.get(moved), space - (_or_zero(others[0]) if others else 0))
        if child.window is not None and spec.window is None:
            # the parent watches the child's whole life; the child's own state is that of the period
            life, now_period = total, _state(path, now, place - 1, period).total
            below = {name: _or_zero(limit) - _or_zero(life[name]) + _or_zero(now_period[name]) for name, limit in below.items()}
        ceiling = below
    leaf = _state(path, now, 0, period).total
    found: dict[str, Fraction] = {}
    for name, limit in ceiling.items():
        if limit is not None:
            bare = name.removeprefix(PLAIN).removeprefix(MOVED)
            left = max(Fraction(0), limit - _or_zero(leaf[name]))
            found[bare] = min(found.get(bare, left), left)
    return found


def _state(path: Sequence[Spec], now: Mapping[Key, Totals], place: int, period: str, seen_by: Spec | None = None) -> Totals:
    spec = path[place]
    watched = spec if seen_by is None else seen_by
    own = period if spec.window is not None and watched.window is not None else ""
    return now.get((spec.id, own), Totals.empty(spec.components(path[place + 1 :])))


def _or_zero(amount: Amount) -> Fraction:
    return amount or Fraction(0)


def _lower(a: Amount, b: Amount) -> Amount:
    return b if a is None else a if b is None else min(a, b)


def refusal_for(
    spec: Spec, path: Sequence[Spec], now: Mapping[Key, Totals], charge: Mapping[str, Amount], period: str, *, correction: bool
) -> BudgetExceeded:
    """The error to raise: what this request could still get, through every account above."""
    left = room(path, now, period, correction=correction)
    asked = {name: plus(charge[name], Fraction(0)) or Fraction(0) for name in spec.budget.limits}
    note = f" for {period}" if spec.window is not None else ""
    if spec.budget.reserve and not correction:
        note += " (a reserve is kept for corrections)"
    who = f"account {spec.name!r}" if spec.id == path[0].id else f"account {spec.name!r}, above {path[0].name!r},"
    return refusal(who, spec.budget, {name: left.get(name, Fraction(0)) for name in spec.budget.limits}, asked, note=note, name=spec.name)
