"""What an account is: fixed when it is opened, written into the book, never changed.

>>> Spec(1, "visits", Budget(epsilon=1)).components([])
('pure', 'rho')

Periods of a privacy unit with a time window: user-months and the like. A period is named by the data, never by the clock.

>>> days("month", "2026-02")
(datetime.date(2026, 2, 1), datetime.date(2026, 2, 28))
>>> overlaps("month", "2026-02", "2026-01-15", "2026-02-01")
True

Accounts as a tree: how a child's total weighs on its parent. Pure functions; the book stores what they return.

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

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tacit.accounting import PURE, Adjacency
from tacit.exact import from_text, tidy, to_text
from tacit.ledger.budget import Budget
from tacit.ledger.errors import LedgerError
from tacit.ledger.filters import theorem
from tacit.ledger.pricing import CHEAP

_FORMS = {
    "day": (re.compile(r"(\d{4})-(\d{2})-(\d{2})"), "2026-01-31"),
    "week": (re.compile(r"(\d{4})-W(\d{2})"), "2026-W05"),
    "month": (re.compile(r"(\d{4})-(\d{2})"), "2026-01"),
    "quarter": (re.compile(r"(\d{4})-Q([1-4])"), "2026-Q1"),
    "year": (re.compile(r"(\d{4})"), "2026"),
}
WINDOWS = tuple(_FORMS)


def check_window(window: str | None) -> str | None:
    """A known window or none."""
    if window is not None and window not in _FORMS:
        raise LedgerError(f"window must be one of {', '.join(WINDOWS)} or None, not {window!r}")
    return window


def days(window: str, period: object) -> tuple[datetime.date, datetime.date]:
    """The first and last day of a period; an error shows how a period of this window is written."""
    form, example = _FORMS[window]
    match = form.fullmatch(period) if isinstance(period, str) else None
    if match is not None:
        numbers = [int(text) for text in match.groups()]
        try:
            return _span(window, numbers)
        except ValueError:
            pass
    raise LedgerError(f"period must name a {window} such as {example!r}, not {period!r}")


def _span(window: str, numbers: list[int]) -> tuple[datetime.date, datetime.date]:
    one = datetime.timedelta(days=1)
    match window:
        case "day":
            day = datetime.date(*numbers)
            return day, day
        case "week":
            first = datetime.date.fromisocalendar(numbers[0], numbers[1], 1)
            return first, first + 6 * one
        case "year":
            return datetime.date(numbers[0], 1, 1), datetime.date(numbers[0], 12, 31)
    months = 1 if window == "month" else 3
    start = numbers[1] if window == "month" else 3 * numbers[1] - 2
    first = datetime.date(numbers[0], start, 1)
    after = datetime.date(numbers[0] + (start + months - 1) // 12, (start + months - 1) % 12 + 1, 1)
    return first, after - one


def bounds(value: object, *, end: bool) -> datetime.date:
    """The day a stretch begins or ends on: a date, or any period's text, whose first or last day is meant.

    >>> bounds("2026-Q1", end=True), bounds("2026-01-15", end=False)
    (datetime.date(2026, 3, 31), datetime.date(2026, 1, 15))
    """
    if isinstance(value, datetime.datetime):
        return value.date()
    if isinstance(value, datetime.date):
        return value
    for window, (form, _) in _FORMS.items():
        if isinstance(value, str) and form.fullmatch(value):
            return days(window, value)[1 if end else 0]
    raise LedgerError(f"a stretch of time is given by dates or periods such as '2026-01-31', '2026-01' or '2026', not {value!r}")


def overlaps(window: str, period: str, since: object | None, until: object | None) -> bool:
    """Whether a period shares a day with the stretch from `since` to `until`, both included; None is open."""
    first, last = days(window, period)
    return (since is None or last >= bounds(since, end=False)) and (until is None or first <= bounds(until, end=True))


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


@dataclass(frozen=True)
class Spec:
    """The terms of an account. `id` is the number of the entry that opened it; `parent` is the id of the account above, or None.

    - `rule`: how its children's totals combine (see `tacit.ledger.spec`); `growing`: records may arrive while the account is in use.
    - `collusion`: whether its children are taken to pool their answers. False bounds each child alone.
    - `window`: the budget holds for each period of this length, and every spend names its period.
    - `null_record`: computations treat an absent record as a fixed public one.
    - `cache`: an identical question may be answered again from the book.
    """

    id: int
    name: str
    budget: Budget
    parent: int | None = None
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    unit: str = "row"
    rule: str = "sum"
    collusion: bool = True
    window: str | None = None
    growing: bool = False
    null_record: bool = False
    cache: bool = False

    def checked(self, parent: Spec | None) -> Spec:
        """Itself, if the terms are sound together and with those of the parent."""
        if not isinstance(self.name, str) or not self.name.strip() or len(self.name) > 200:
            raise LedgerError("name must be a text of 1 to 200 characters")
        if not isinstance(self.budget, Budget):
            raise LedgerError(f"budget must be a Budget such as Budget(epsilon=1), not {type(self.budget).__name__}")
        if not isinstance(self.adjacency, Adjacency):
            raise LedgerError(f"adjacency must be an Adjacency such as Adjacency.ADD_REMOVE, not {self.adjacency!r}")
        theorem(self.budget.currency)
        check_window(self.window)
        self._checked_rule()
        if parent is not None:
            self._checked_parent(parent)
        return self

    def _checked_rule(self) -> None:
        if self.rule not in RULES:
            raise LedgerError(f"rule must be one of {', '.join(RULES)}, not {self.rule!r}")
        if self.rule == "sum":
            return
        if not self.collusion:
            raise LedgerError(
                "collusion=False is about analysts who see the same data, a rule other than 'sum' about disjoint data; use two levels"
            )
        if self.rule == "max" and self.adjacency is not Adjacency.ADD_REMOVE:
            raise LedgerError(
                f"rule='max' is parallel composition under add-remove; under {self.adjacency.value} a person may move from one part to "
                "another: use rule='two-largest' with replace-one, or rule='sum'"
            )
        if self.rule == "two-largest" and self.adjacency is not Adjacency.REPLACE_ONE:
            raise LedgerError("rule='two-largest' is for adjacency=Adjacency.REPLACE_ONE; under add-remove use rule='max'")
        if self.growing and self.budget.currency != PURE:
            raise LedgerError(
                f"rule={self.rule!r} on growing data is proved for pure epsilon only: with a delta (or in rho, mu, Rényi) the analyst may "
                "steer a new record to the part whose noise turned out badly. Use rule='sum', a budget of pure epsilon, or declare the "
                "partition fixed with growing=False"
            )

    def _checked_parent(self, parent: Spec) -> None:
        if parent.adjacency is not self.adjacency:
            raise LedgerError(f"adjacency must be that of the parent, {parent.adjacency.value}, not {self.adjacency.value}")
        if parent.window is not None and self.window != parent.window:
            raise LedgerError(f"window must be that of the parent, {parent.window!r}, not {self.window!r}")
        if parent.unit != self.unit:
            raise LedgerError(f"unit must be that of the parent, {parent.unit!r}, not {self.unit!r}: one budget protects one unit")
        if parent.growing and parent.rule != "sum" and self.budget.currency != PURE:
            raise LedgerError("the parent is a growing partition, proved for pure epsilon only; give the child Budget(epsilon=...)")

    @property
    def combines(self) -> str:
        """How children weigh on this account: its rule, or the largest alone where analysts do not pool answers."""
        return self.rule if self.collusion else "max"

    def required(self, above: Sequence[Spec]) -> tuple[str, ...]:
        """The components that a spend must have a price in: those of this account and of every account above it."""
        found = dict.fromkeys(self.budget.limits)
        for spec in above:
            found |= dict.fromkeys(spec.budget.limits)
        return tuple(found)

    def components(self, above: Sequence[Spec]) -> tuple[str, ...]:
        """Every total this account keeps, given the accounts above it (nearest first)."""
        required = self.required(above)
        partitioned = self.growing and self.rule != "sum"
        base = [*required, *(name for name in CHEAP if name not in required and not (partitioned and name != PURE))]
        if any(spec.rule == "two-largest" for spec in above):
            base += [MOVED + name for name in base]
        if any(spec.budget.reserve for spec in (self, *above)):
            base += [PLAIN + name for name in base]
        return tuple(base)

    def limits(self) -> dict[str, Fraction]:
        """The limit on each total, ordinary spends included where a reserve is kept for corrections."""
        found = dict(self.budget.limits)
        if self.budget.reserve:
            found |= {PLAIN + name: limit for name, limit in self.budget.usable(correction=False).items()}
        return found

    def to_record(self) -> dict[str, Any]:
        """A JSON-able form without the id, which is the number of the entry it stands in."""
        return {
            "name": self.name,
            "budget": self.budget.to_record(),
            "parent": self.parent,
            "adjacency": self.adjacency.value,
            "unit": self.unit,
            "rule": self.rule,
            "collusion": self.collusion,
            "window": self.window,
            "growing": self.growing,
            "null_record": self.null_record,
            "cache": self.cache,
        }

    @staticmethod
    def from_record(id: int, record: Mapping[str, Any]) -> Spec:
        """The inverse of `to_record`.

        >>> Spec.from_record(1, Spec(1, "visits", Budget(rho="1/3")).to_record())
        Spec(id=1, name='visits', budget=Budget(rho=1/3), parent=None, adjacency=Adjacency.ADD_REMOVE, unit='row', ...)
        """
        fields = dict(record)
        fields["budget"] = Budget.from_record(fields["budget"])
        fields["adjacency"] = Adjacency.parse(fields["adjacency"])
        return Spec(id, **fields)
