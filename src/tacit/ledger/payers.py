"""Who pays for the questions put to a queryable: a budget or a durable account at the root, and the parts of partitions below it.

Parts of a partition cost the largest of their totals where rows are added and removed. Where a row is replaced, it may leave one part and
enter another: the two largest add up, or one part sees a replacement, whichever is more (spec 06, A5.6).

>>> CONCURRENT["pure"]
'Vadhan and Wang 2021'
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from fractions import Fraction

from tacit.accounting import APPROXIMATE, MU, PURE, RENYI, RHO, Adjacency, ApproxDP, Guarantee
from tacit.ledger.account import Account
from tacit.ledger.budget import Budget
from tacit.ledger.errors import LedgerError
from tacit.ledger.filters import Filter, refusal
from tacit.parameters import Number

Prices = dict[str, Fraction]
Charge = Callable[[int], Prices]
Spread = Callable[[Number], Number]

#: Interleaving interactive mechanisms costs no more than running them one after the other, and this is where it is proved. That prices
#: may be chosen as one goes along, as under a filter, is in Haney, Shoemate, Tian, Vadhan, Vyrros, Xu and Zhang 2023.
CONCURRENT = {
    PURE: "Vadhan and Wang 2021",
    APPROXIMATE: "Lyu 2022; Vadhan and Zhang 2023",
    RHO: "Lyu 2022 and Vadhan and Zhang 2023 (Rényi), at every order",
    RENYI: "Lyu 2022 and Vadhan and Zhang 2023 (Rényi), at each listed order",
    MU: "Vadhan and Zhang 2023 (f-DP)",
}


class Frozen(LedgerError):
    """An interactive child may not be asked any more: something else was asked in between, and interleaving is not proved for it."""


class Child:
    """Something opened that answers more than one question: a conversation, a programme, or a share of the budget."""

    name: str
    concurrent = True
    frozen = False

    def insist_on_unfrozen(self) -> None:
        if self.frozen:
            raise Frozen(
                f"{self.name} was interrupted by a later question, and interleaving is not proved for it; open it again, which costs again"
            )


class Root(Child):
    """Who pays: a budget, the totals so far, and the children that may have to be frozen."""

    name = "this share of the budget"

    def __init__(self, purse: Budget | Guarantee | str | Account, adjacency: Adjacency, distance: int, concurrent: bool) -> None:
        self.account = purse if isinstance(purse, Account) else None
        self.budget = purse.budget if isinstance(purse, Account) else Budget.of(purse)
        self.filter = Filter(self.budget)
        self.adjacency = adjacency
        self.distance = distance
        self.interleaves = concurrent and self.budget.currency in CONCURRENT
        self.lock = threading.RLock()
        self.uninterrupted: list[Child] = []

    @property
    def root(self) -> Root:
        return self

    @property
    def distances(self) -> Sequence[int]:
        return (self.distance,)

    @property
    def left(self) -> Prices:
        """What may still be spent: of the account and all above it, or of the budget."""
        return self.filter.left() if self.account is None else self.account.left()

    def plan(self, charge: Charge) -> list[Callable[[], None]]:
        """What to do once every payer agrees; `BudgetExceeded` where this one does not."""
        self.insist_on_unfrozen()
        asked = charge(self.distance)
        left = self.left
        if any(value > left[name] for name, value in asked.items()):
            raise refusal("this queryable", self.budget, left, asked)

        def commit() -> None:
            if self.account is None:
                self.filter = self.filter.admit(asked)
                return
            if any(asked.values()):
                # Durable before the data is touched; another process may have been faster, and then this refuses.
                # stored as it always was: a charge to an account with delta states its delta, also where that is 0
                stated = ApproxDP(asked["epsilon"], asked["delta"]) if "delta" in asked else Guarantee.of_parts(asked).as_event()
                self.account.spend(stated, delta=asked.get("delta"), purpose="a question to a queryable")
            self.filter = Filter(self.budget, _sum(dict(self.filter.spent), asked))

        return [commit]


class Part:
    """One part of a partition: its totals at every distance that a change above can cause here."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.totals: dict[int, Prices] = {}
        self.replaced: Prices = {}

    @property
    def root(self) -> Root:
        return self.partition.scope.root

    @property
    def distances(self) -> Sequence[int]:
        return range(1, self.partition.most + 1)

    def plan(self, charge: Charge, in_place: Prices | None = None) -> list[Callable[[], None]]:
        totals = {d: _sum(self.totals.get(d, {}), charge(d)) for d in self.distances}
        # a row replaced within the part is one removed and one added, unless the question has a price of its own for it
        replaced = _sum(self.replaced, in_place if in_place is not None or 2 not in totals else charge(2))
        before = self.partition.total
        after = self.partition.with_changed(self, totals, replaced)
        above = self.partition.scope.plan(lambda d: _difference(after(d), before(d)))

        def commit() -> None:
            self.totals, self.replaced = totals, replaced

        return [*above, commit]


class Partition:
    """Disjoint parts below one node, and what they cost together at each distance of the scope above."""

    def __init__(self, scope: Root | Part, spread: Spread, replacing: bool) -> None:
        self.scope, self.spread, self.replacing = scope, spread, replacing
        farthest = max(self._changes(d) for d in scope.distances)
        self.most = 2 * farthest if replacing else farthest
        self.parts: list[Part] = []

    def _changes(self, distance: int) -> int:
        return math.floor(self.spread(distance))

    def total(self, distance: int) -> Prices:
        return self._worst([part.totals for part in self.parts], [part.replaced for part in self.parts], self._changes(distance))

    def with_changed(self, changed: Part, totals: dict[int, Prices], replaced: Prices) -> Charge:
        """The totals as they would be after a charge."""
        tables = [totals if part is changed else part.totals for part in self.parts]
        exchanged = [replaced if part is changed else part.replaced for part in self.parts]
        return lambda distance: self._worst(tables, exchanged, self._changes(distance))

    def _worst(self, tables: list[dict[int, Prices]], replaced: list[Prices], changes: int) -> Prices:
        names = list(self.scope.root.filter.budget.limits)
        return {name: self._worst_of(name, tables, replaced, changes) for name in names}

    def _worst_of(self, name: str, tables: list[dict[int, Prices]], replaced: list[Prices], changes: int) -> Fraction:
        none = Fraction(0)
        if changes == 0:
            return none
        if not self.replacing and changes == 1:
            return max((table.get(1, {}).get(name, none) for table in tables), default=none)
        if self.replacing and changes == 1:
            moved = sorted((table.get(1, {}).get(name, none) for table in tables), reverse=True)[:2]
            return max(sum(moved, none), max((prices.get(name, none) for prices in replaced), default=none))
        # rows added and removed, spread over the parts as badly as can be
        reach = 2 * changes if self.replacing else changes
        best = [none] * (reach + 1)
        for table in tables:
            costs = [none, *(table.get(d, {}).get(name, none) for d in range(1, reach + 1))]
            best = [max(best[j - d] + costs[d] for d in range(j + 1)) for j in range(reach + 1)]
        return best[reach]


def _sum(first: Prices, second: Prices | None) -> Prices:
    return {name: first.get(name, Fraction(0)) + (second or {}).get(name, Fraction(0)) for name in {**first, **(second or {})}}


def _difference(first: Prices, second: Prices) -> Prices:
    return {name: value - second.get(name, Fraction(0)) for name, value in first.items()}
