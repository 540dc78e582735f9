"""The terms of an account: its budget, its place in the tree of accounts, how children's spends add up, and what
officers changed since.

Terms are fixed when the account is opened, written into the book, and never changed there. `Spec.checked` refuses
terms that no theorem covers together. `Rules` are what all decisions of officers amount to, and every spend is held
against them inside the transaction that books it. This module also reads the periods of accounts with a time window
(user-months and the like): a period is named by the data, never by the clock.

>>> Spec(1, "visits", Budget(epsilon=1)).components([])
('pure', 'rho')
>>> days("month", "2026-02")
(datetime.date(2026, 2, 1), datetime.date(2026, 2, 28))
>>> overlaps("month", "2026-02", "2026-01-15", "2026-02-01")
True
>>> rules = Rules()
>>> rules.take({"kind": "close", "account": 2, "reason": "the study is over"})
>>> rules.closed[2]
'the study is over'
>>> rules.take({"kind": "amend", "account": 3, "terms": {"purposes": ["weekly table"]}})
>>> rules.purposes[3]
('weekly table',)
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Any

from tacit.accounting import PURE, Adjacency
from tacit.ledger.budget import BEST, Budget, alternatives, theorem
from tacit.ledger.errors import LedgerError

_FORMS = {
    "day": (re.compile(r"(\d{4})-(\d{2})-(\d{2})"), "2026-01-31"),
    "week": (re.compile(r"(\d{4})-W(\d{2})"), "2026-W05"),
    "month": (re.compile(r"(\d{4})-(\d{2})"), "2026-01"),
    "quarter": (re.compile(r"(\d{4})-Q([1-4])"), "2026-Q1"),
    "year": (re.compile(r"(\d{4})"), "2026"),
}
WINDOWS = tuple(_FORMS)


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


#: Prefixes of totals that are kept beside the plain ones; `tacit.ledger.booking` says what they are for.
MOVED, PLAIN = "moved.", "plain."
#: Prices that cost next to nothing to compute and are booked beside the account's own currency, for the odometers.
CHEAP = ("pure", "rho")
#: How the totals of an account's children weigh on it (see `tacit.ledger.booking`).
RULES = ("sum", "max", "two-largest")
Amount = Fraction | None  # None: no bound is known


@dataclass(frozen=True)
class Spec:
    """The terms of an account. `id` is the number of the entry that opened it; `parent` is the id of the account above, or None.

    - `rule`: how its children's totals combine (see `tacit.ledger.booking`).
    - `growing`: records may arrive while the account is in use.
    - `collusion`: whether its children are taken to pool their answers. False bounds each child alone.
    - `window`: the budget holds for each period of this length, and every spend names its period.
    - `null_record`: computations treat an absent record as a fixed public one.
    - `cache`: an identical question may be answered again from the book.
    - `called`: the word for one unit in what people read, such as household. It is no part of what is compared.
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
    called: str = ""

    def checked(self, parent: Spec | None) -> Spec:
        """Itself, if the terms are sound together and with those of the parent."""
        if not isinstance(self.name, str) or not self.name.strip() or len(self.name) > 200:
            raise LedgerError("name must be a text of 1 to 200 characters")
        if not isinstance(self.called, str) or len(self.called) > 100:
            raise LedgerError("called must be a word for one unit, such as 'household'")
        if not isinstance(self.budget, Budget):
            raise LedgerError(f"budget must be a Budget such as Budget(epsilon=1), not {type(self.budget).__name__}")
        if not isinstance(self.adjacency, Adjacency):
            raise LedgerError(f"adjacency must be an Adjacency such as Adjacency.ADD_REMOVE, not {self.adjacency!r}")
        theorem(self.budget.currency)
        if self.window is not None and self.window not in WINDOWS:
            raise LedgerError(f"window must be one of {', '.join(WINDOWS)} or None, not {self.window!r}")
        self._checked_rule()
        if parent is not None:
            self._checked_parent(parent)
        return self

    def _checked_rule(self) -> None:
        if self.rule not in RULES:
            raise LedgerError(f"rule must be one of {', '.join(RULES)}, not {self.rule!r}")
        if self.budget.filter == BEST and self.combines != "sum":
            raise LedgerError("filter='best' is proved for totals that add up: use rule='sum' with collusion=True, or the usual filter")
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
        found: dict[str, None] = {}
        for spec in (self, *above):
            found |= dict.fromkeys(() if spec.budget.filter == BEST else spec.budget.limits)
        return tuple(found)

    def watched(self, above: Sequence[Spec]) -> tuple[str, ...]:
        """The components in which a spend may go without a price, as long as one filter of each such account holds."""
        found: dict[str, None] = {}
        for spec in (self, *above):
            if spec.budget.filter == BEST:
                found |= {part: None for limits in alternatives(spec.budget).values() for part in limits}
        return tuple(found)

    def components(self, above: Sequence[Spec]) -> tuple[str, ...]:
        """Every total this account keeps, given the accounts above it (nearest first)."""
        required = self.required(above)
        partitioned = self.growing and self.rule != "sum"
        base = [*required, *(name for name in self.watched(above) if name not in required)]
        base += [name for name in CHEAP if name not in required and not (partitioned and name != PURE)]
        if any(spec.rule == "two-largest" for spec in above):
            base += [MOVED + name for name in base]
        if any(spec.budget.reserve for spec in (self, *above)):
            base += [PLAIN + name for name in base]
        return tuple(base)

    def limits(self) -> dict[str, Fraction]:
        """The limit on each total, ordinary spends included where a reserve is kept for corrections.

        Where one of several filters is enough, no total has a limit of its own.
        """
        if self.budget.filter == BEST:
            return {}
        found = dict(self.budget.limits)
        if self.budget.reserve:
            found |= {PLAIN + name: limit for name, limit in self.budget.usable(correction=False).items()}
        return found

    def to_record(self) -> dict[str, Any]:
        """A JSON-able form without the id, which is the number of the entry it stands in."""
        terms = {term.name: getattr(self, term.name) for term in fields(self) if term.name != "id"}
        if not self.called:
            del terms["called"]  # as books had it before there was such a word
        return terms | {"budget": self.budget.to_record(), "adjacency": self.adjacency.value}

    @staticmethod
    def from_record(id: int, record: Mapping[str, Any]) -> Spec:
        """The inverse of `to_record`.

        >>> Spec.from_record(1, Spec(1, "visits", Budget(rho="1/3")).to_record())
        Spec(id=1, name='visits', budget=Budget(rho=1/3), parent=None, adjacency=Adjacency.ADD_REMOVE, unit='row', ...)
        """
        budget, adjacency = Budget.from_record(record["budget"]), Adjacency.parse(record["adjacency"])
        return Spec(id, **{**record, "budget": budget, "adjacency": adjacency})


# --- what officers changed ------------------------------------------------------------------------------------------

#: A list of purposes that admits any one that says something.
ANY = "*"
#: Words that say nothing about what an answer is for.
VAGUE = frozenset((
    "test", "tests", "testing", "misc", "miscellaneous", "other", "various", "stuff", "analysis", "analyses", "research",
    "statistics", "data", "work", "todo", "tbd", "none", "query", "question", "report", "project", "general", "any", "anything",
    "foo", "bar", "some", "the", "for", "new",
))  # fmt: skip


def vague(purpose: str) -> bool:
    """Whether a purpose says nothing: fewer than two words that mean something.

    >>> [vague(text) for text in ("", "test", "some analysis", "weekly table of visits", "flu report 2026")]
    [True, True, True, False, False]
    """
    words = re.findall(r"[^\W_]+(?:/[^\W_]+)?", purpose.casefold())
    return len([word for word in words if word not in VAGUE and len(word) > 2]) < 2


@dataclass
class Rules:
    """What all decisions of a book amount to, up to entry `seen`."""

    seen: int = 0
    officers: dict[str, str] = field(default_factory=dict)  # public key -> name
    closed: dict[int, str] = field(default_factory=dict)
    analysts: dict[str, tuple[str, str]] = field(default_factory=dict)  # name -> state, reason
    budgets: dict[int, Budget] = field(default_factory=dict)
    purposes: dict[int, tuple[str, ...]] = field(default_factory=dict)
    allowed: dict[int, tuple[str, ...]] = field(default_factory=dict)
    marks: set[str] = field(default_factory=set)

    def take(self, fields: Mapping[str, Any]) -> None:
        """Apply one entry; others than decisions change nothing."""
        self.marks.add(str(fields.get("mark", "")))
        match fields.get("kind"):
            case "officer":
                self.officers[fields["key"]] = fields["name"]
            case "close":
                self.closed[fields["account"]] = fields["reason"]
            case "analyst":
                self.analysts[fields["analyst"]] = (fields["state"], fields["reason"])
            case "amend":
                terms = fields["terms"]
                if "budget" in terms:
                    self.budgets[fields["account"]] = Budget.from_record(terms["budget"])
                if "purposes" in terms:
                    self.purposes[fields["account"]] = tuple(terms["purposes"])
                if "analysts" in terms:
                    self.allowed[fields["account"]] = tuple(terms["analysts"])

    def tightens(self, fields: Mapping[str, Any], spec: Spec | None) -> bool:
        """Whether a decision only takes away; one that may give needs a second officer."""
        match fields["kind"]:
            case "close":
                return True
            case "analyst":
                order = {"active": 0, "frozen": 1, "revoked": 2}
                return order[fields["state"]] >= order[self.analysts.get(fields["analyst"], ("active", ""))[0]]
            case "amend":
                assert spec is not None
                return self._tightens(fields["terms"], spec)
        return not self.officers  # the first officer enrols alone

    def _tightens(self, terms: Mapping[str, Any], spec: Spec) -> bool:
        if "budget" in terms:
            now, new = self.budgets.get(spec.id, spec.budget), Budget.from_record(terms["budget"])
            if any(new.limits[name] > limit for name, limit in now.limits.items()):
                return False
        for name, known in (("purposes", self.purposes.get(spec.id, ())), ("analysts", self.allowed.get(spec.id, ()))):
            if name in terms and known and known != (ANY,) and not set(terms[name]) <= set(known):
                return False
            if name in terms and known and not terms[name]:
                return False
        return True

    def amended(self, spec: Spec) -> Spec:
        """An account's terms with the budget that holds now."""
        return replace(spec, budget=self.budgets[spec.id]) if spec.id in self.budgets else spec

    def refuse(self, path: Sequence[Spec], *, purpose: str, analyst: str) -> None:
        """Refuse a spend that a decision forbids, on the account or on any above it. The refusal is public."""
        state, reason = self.analysts.get(analyst, ("active", ""))
        if state != "active":
            raise LedgerError(code="analyst-barred", analyst=analyst, state=state, reason=reason)
        for spec in path:
            if spec.id in self.closed:
                raise LedgerError(code="account-closed", account=spec.name, reason=self.closed[spec.id])
            allowed = self.allowed.get(spec.id)
            if allowed and analyst not in allowed:
                raise LedgerError(code="analyst-not-listed", account=spec.name, analyst=analyst or "nobody", analysts=allowed)
            listed = self.purposes.get(spec.id)
            if listed:
                _check_purpose(spec.name, listed, purpose)


def _check_purpose(account: str, listed: Sequence[str], purpose: str) -> None:
    """One of the list, or one of them and details behind a colon; any that says something where the list is open."""
    if not purpose.strip():
        raise LedgerError(code="purpose-missing", account=account, purposes=tuple(listed))
    if tuple(listed) == (ANY,):
        if vague(purpose):
            raise LedgerError(code="purpose-vague", account=account, purpose=purpose)
        return
    if not any(purpose == name or purpose.startswith((f"{name}:", f"{name} (")) for name in listed):
        raise LedgerError(code="purpose-not-listed", account=account, purpose=purpose, purposes=tuple(listed))
