"""What a spend costs, and what it does to the totals of an account and of every account above it.

Everything here is a pure function of terms, totals and a charge. The book runs it when it books a spend, and
`tacit.ledger.verify` runs it again to check the book. An account's `rule` says how its children's totals
weigh on its own:

- `sum`: the parent is charged what the child is charged.
- `max`: the children hold disjoint parts of the data and a person is in one of them (add/remove). The
  parent's total is that of the dearest child, so a spend costs only the change in the maximum (parallel
  composition).
- `two-largest`: the same under replace-one, where a person may move from one part to another. The move
  removes them from one child and adds them to another, so the two largest *add/remove* totals add up; a
  change within one child costs that child's replace-one total. Both are kept, the second under the prefix
  `moved.`, and the parent pays the larger.
- `collusion=False`: the children are analysts who do not pool answers. The parent's total is that of the
  analyst who learned most.

A total is kept for every component of every currency on the way to the root, so parent and child may have
different currencies. Where a budget keeps a reserve for corrections, the ordinary spends alone are also
totalled, under the prefix `plain.`.

Prices are exact fractions that are never below the truth. Sums of stated guarantees and of Gaussian or Laplace
noise are priced in rational arithmetic, everything else by `tacit.accounting`, whose upper ends are certified,
as the exact value of the float. A whole plan (any event tree) is one entry: its steps were fixed before the
first answer was seen, so the tightest composition theorem may be used on it.

>>> from tacit.accounting import Gaussian, PureDP
>>> price(Repeated(PureDP(0.1), 10), ["pure"], Adjacency.ADD_REMOVE)
{'pure': Fraction(1, 1)}
>>> price(Gaussian(10), ["rho", "mu2", "renyi:4"], Adjacency.ADD_REMOVE)
{'rho': Fraction(1, 200), 'mu2': Fraction(1, 100), 'renyi:4': Fraction(1, 50)}
>>> from tacit.ledger import Budget
>>> visits = Spec(1, "visits", Budget(epsilon=1))
>>> after = booked([visits], {}, {"pure": Fraction(1, 2), "rho": Fraction(1, 8)}, "")
>>> after[1, ""].total["pure"], refused([visits], after, "")
(Fraction(1, 2), None)
>>> parent, child = Totals.empty(["pure"]), Totals.empty(["pure"])
>>> paid = child.charged({"pure": Fraction(3, 10)})
>>> parent.with_child("max", 7, child, paid).total
{'pure': Fraction(3, 10)}
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from tacit import accounting  # the accountant itself is loaded when it is first named: closed forms price most steps
from tacit.accounting import (
    AccountingError,
    Adjacency,
    Composed,
    Event,
    Exponential,
    Group,
    NoOp,
    Repeated,
    as_typed,
    cost_of,
    exact_pure,
    exact_rho,
    order_of,
    squared_mu,
    stated_sum,
)
from tacit.errors import AdjacencyError
from tacit.exact import at_most, from_float, from_text, tidy, to_text
from tacit.ledger.budget import BEST, SQUARES, alternatives, holding, largest_step, refusal, refusal_of_all
from tacit.ledger.errors import BudgetExceeded, LedgerError, PriceError
from tacit.ledger.spec import MOVED, PLAIN, Amount, Spec

Key = tuple[int, str]  # account and period; the period "" is the whole life
_ZERO = Fraction(0)
#: Where the accountant's figure is the result of plain floating point, it is raised by this before it is booked.
_MARGIN = 1 + Fraction(1, 10**12)


@dataclass(frozen=True)
class Totals:
    """What one account has spent: in its own name, the two largest children where the rule needs them, and in total."""

    direct: Mapping[str, Amount]
    total: Mapping[str, Amount]
    top: Mapping[str, tuple[tuple[int, Amount], ...]]

    @staticmethod
    def empty(components: Iterable[str]) -> Totals:
        """Nothing spent yet."""
        zeros: dict[str, Amount] = {name: _ZERO for name in components}
        return Totals(zeros, zeros, {})

    def charged(self, charge: Mapping[str, Amount]) -> Totals:
        """After a spend in the account's own name."""
        total = {name: plus(value, charge[name]) for name, value in self.total.items()}
        if self.direct is self.total:  # an account without children
            return Totals(total, total, self.top)
        return Totals({name: plus(value, charge[name]) for name, value in self.direct.items()}, total, self.top)

    def with_child(self, rule: str, child: int, before: Totals, after: Totals) -> Totals:
        """After a child's total went from `before` to `after`; what the child does not keep becomes unknown."""
        if rule == "sum":
            change = {name: minus(after.total.get(name), before.total.get(name)) for name in self.total}
            return Totals(self.direct, {name: plus(value, change[name]) for name, value in self.total.items()}, self.top)
        watched = set(self.total) | ({MOVED + name for name in self.total if MOVED not in name} if rule == "two-largest" else set())
        # the prefix of ordinary spends comes first: plain.moved.epsilon
        watched = {_ordered(name) for name in watched}
        top = {name: _largest(self.top.get(name, ()), child, after.total.get(name)) for name in watched}
        total = {name: plus(self.direct[name], _combined(rule, name, top)) for name in self.total}
        return Totals(self.direct, total, top)

    def plus_change(self, before: Totals, after: Totals) -> Totals:
        """A running sum over periods: this total plus the change of one period's total."""
        total = {name: plus(value, minus(after.total[name], before.total[name])) for name, value in self.total.items()}
        return Totals(self.direct, total, self.top)

    def to_record(self) -> dict[str, Any]:
        """A JSON-able form, exact."""
        record: dict[str, Any] = {"total": {name: to_text(value) for name, value in self.total.items()}}
        if self.direct is not self.total and dict(self.direct) != dict(self.total):
            record["direct"] = {name: to_text(value) for name, value in self.direct.items()}
        if self.top:
            record["top"] = {name: [[child, to_text(value)] for child, value in rows] for name, rows in self.top.items()}
        return record

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> Totals:
        """The inverse of `to_record`.

        >>> some = Totals.empty(["rho"]).charged({"rho": Fraction(1, 3)})
        >>> Totals.from_record(some.to_record()) == some
        True
        """
        total = {name: from_text(value) for name, value in record["total"].items()}
        direct = {name: from_text(value) for name, value in record["direct"].items()} if "direct" in record else total
        top = {name: tuple((int(child), from_text(value)) for child, value in rows) for name, rows in record.get("top", {}).items()}
        return Totals(direct, total, top)


def plus(a: Amount, b: Amount) -> Amount:
    """A sum in which an unknown bound stays unknown."""
    return None if a is None or b is None else tidy(a + b)


def minus(a: Amount, b: Amount) -> Amount:
    """The growth from b to a; unknown if either is."""
    return None if a is None or b is None else a - b


def larger(a: Amount, b: Amount) -> Amount:
    """The larger amount; an unknown bound is larger than all."""
    return None if a is None or b is None else max(a, b)


def _ordered(name: str) -> str:
    return PLAIN + MOVED + name.removeprefix(MOVED + PLAIN) if name.startswith(MOVED + PLAIN) else name


def _largest(rows: tuple[tuple[int, Amount], ...], child: int, value: Amount) -> tuple[tuple[int, Amount], ...]:
    """The two children with the largest totals. Totals never fall, so the two kept ones and the one that changed are enough."""
    others = [row for row in rows if row[0] != child]
    ranked = sorted([*others, (child, value)], key=lambda row: (row[1] is None, row[1] or _ZERO), reverse=True)
    return tuple(ranked[:2])


def _combined(rule: str, name: str, top: Mapping[str, tuple[tuple[int, Amount], ...]]) -> Amount:
    first = top[name][0][1]
    if rule == "max" or MOVED in name:
        return first
    pair = top[_ordered(MOVED + name)]
    return larger(first, plus(pair[0][1], pair[1][1]) if len(pair) > 1 else pair[0][1])


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
            found |= {
                prefix + name: value
                for name, value in watched_prices(typed, leaf.watched(above), relation, delta=delta, null_record=null_record).items()
            }
        except AdjacencyError as reason:
            raise PriceError(str(reason)).coded_as(reason) from reason
        found |= {prefix + name: value for name, value in prices.items()}
    ordinary = {PLAIN + name: Fraction(0) if correction else value for name, value in found.items()}
    found |= ordinary
    return {name: found.get(name, Fraction(0) if correction and name.startswith(PLAIN) else None) for name in leaf.components(above)}


def watched_prices(
    event: Event, components: Sequence[str], adjacency: Adjacency, *, delta: Fraction | None, null_record: bool
) -> dict[str, Amount]:
    """The price in every component that filters of filter="best" watch; None where there is none, which ends the filters that need it.

    >>> from tacit.accounting import PureDP
    >>> watched_prices(PureDP(Fraction(1, 2)), ("epsilon", "delta", "squares"), Adjacency.ADD_REMOVE, delta=None, null_record=False)
    {'epsilon': Fraction(1, 2), 'delta': Fraction(0, 1), 'squares': Fraction(1, 4)}
    """
    if not components:
        return {}
    found: dict[str, Amount] = dict.fromkeys(components)
    found["delta"] = _ZERO
    with suppress(PriceError):
        alone = price(event, ("epsilon", "delta"), adjacency, delta=delta, null_record=null_record)
        found |= {**alone, SQUARES: tidy(alone["epsilon"] ** 2)}
    for name in components:
        if name.startswith("renyi:"):
            with suppress(PriceError):
                found[name] = price(event, (name,), adjacency, null_record=null_record)[name]
    return {name: found[name] for name in components}


def keys(path: Sequence[Spec], period: str) -> list[Key]:
    """The totals that a spend reads and writes."""
    found: list[Key] = []
    for spec in path:
        found.append((spec.id, ""))
        if spec.window is not None:
            found.append((spec.id, period))
    return found


def booked(path: Sequence[Spec], now: Mapping[Key, Totals], charge: Mapping[str, Amount], period: str) -> dict[Key, Totals]:
    """The totals after the charge, for the whole path; `refused` says whether they fit."""
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
        if spec.budget.filter == BEST and not holding(alternatives(spec.budget), total):
            return spec
        # a total without a known bound is above every limit
        if any((amount := total[name]) is None or amount > limit for name, limit in spec.limits().items()):
            return spec
    return None


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
    for place, spec in enumerate(path):
        if spec.budget.filter == BEST:
            for name, left in largest_step(spec.budget, _state(path, now, place, period).total).items():
                found[name] = min(found.get(name, left), left)
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
    who = f"account {spec.name!r}" if spec.id == path[0].id else f"account {spec.name!r}, above {path[0].name!r},"
    if spec.budget.filter == BEST:
        total = _state(path, now, [other.id for other in path].index(spec.id), period).total
        when = f" for {period}" if spec.window is not None else ""
        return refusal_of_all(who, spec.budget, total, charge, note=when, name=spec.name)
    left = room(path, now, period, correction=correction)
    asked = {name: plus(charge[name], Fraction(0)) or Fraction(0) for name in spec.budget.limits}
    note = f" for {period}" if spec.window is not None else ""
    if spec.budget.reserve and not correction:
        note += " (a reserve is kept for corrections)"
    return refusal(who, spec.budget, {name: left.get(name, Fraction(0)) for name in spec.budget.limits}, asked, note=note, name=spec.name)


# --- prices ---


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
                if closed is None:
                    closed = _finite(accounting.account(typed, adjacency, null_record=null_record).rho().upper, name)
                found[name] = closed
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
        value = accounting.account(event, adjacency, null_record=null_record).epsilon(0).upper
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
    found = _finite(cost_of(event, adjacency, share, null_record=null_record).upper, "epsilon", Fraction(1))
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
    return _finite(accounting.account(event, adjacency, null_record=null_record).rdp(near).upper, f"Rényi divergence of order {order}")
