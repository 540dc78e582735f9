"""Accounts as a tree: how a child's total weighs on its parent. Pure functions; the book stores what they return.

- `sum`: the parent is charged what the child is charged.
- `max`: the children hold disjoint parts of the data and one person is in one of them (add/remove), so the parent's total is that of the
  dearest child and a spend costs only the change in the maximum (parallel composition).
- `two-largest`: the same under replace-one, where a person may move from one part to another. The move removes them from one child and
  adds them to another, so the two largest *add/remove* totals add up; a change within one child costs that child's replace-one total. Both
  are kept, the second under the prefix `moved.`, and the parent pays the larger.
- `collusion=False`: the children are analysts who do not pool answers; the parent's total is that of the analyst who learned most.

A total is kept for every component of every currency on the way to the root, so parent and child may have different currencies; where a
budget keeps a reserve for corrections, also for the ordinary spends alone, under the prefix `plain.`.

>>> parent, child = Totals.empty(["pure"]), Totals.empty(["pure"])
>>> paid = child.charged({"pure": Fraction(3, 10)})
>>> parent.with_child("max", 7, child, paid).total
{'pure': Fraction(3, 10)}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tacit.accounting.exact import from_text, tidy, to_text

MOVED, PLAIN = "moved.", "plain."
RULES = ("sum", "max", "two-largest")
Amount = Fraction | None  # None: no bound is known
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
        if self.direct is self.total:  # an account that nobody else spends from
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
