"""What a spend does to the totals of an account and of every account above it.

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

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tacit.accounting import Adjacency, Event, as_typed
from tacit.errors import AdjacencyError
from tacit.exact import from_text, tidy, to_text
from tacit.ledger.errors import BudgetExceeded, PriceError
from tacit.ledger.filters import refusal
from tacit.ledger.pricing import cheap, price
from tacit.ledger.spec import MOVED, PLAIN, Amount, Spec

Key = tuple[int, str]  # account and period; the period "" is the whole life
_ZERO = Fraction(0)


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
