"""Several filters on one (epsilon, delta) at once, in memory: questions go on as long as one of them admits the next.

The filters, their proofs and their limits are those of a budget with `filter="best"` (`tacit.ledger.budget`); an account of
the ledger keeps the same sums in its book. Use this one where nothing is to be written down. The analyst chooses every mechanism, its
parameters and the moment to stop after all earlier answers. Few large questions are cheapest by adding, many small ones and Gaussian
noise by Rényi divergences, steps that have no divergence by advanced composition.

Steps that are (e_m, d_m)-DP with d_m > 0 take their d_m from a share of delta set aside for that.

>>> from tacit.accounting import Laplace
>>> many = AdaptiveFilter(epsilon=6, delta=4e-6)
>>> for _ in range(100):
...     many = many.admit(Laplace(10))
>>> many.best, *(round(many.spent(name), 3) for name in (many.best, "advanced", "basic"))
('renyi:6', 5.337, 5.757, 10.0)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from fractions import Fraction

from tacit.accounting import Adjacency, Event, ParameterError
from tacit.exact import Typed, at_most, tidy
from tacit.ledger.booking import watched_prices
from tacit.ledger.budget import BEST, ORDERS, PROOFS, SHARES, Budget, alternatives, holding, reached, refusal_of_all, typed
from tacit.ledger.errors import LedgerError
from tacit.ledger.spec import Amount

__all__ = ["ORDERS", "PROOFS", "SHARES", "AdaptiveFilter"]


@dataclass(frozen=True)
class AdaptiveFilter:
    """A target and the totals of every filter.

    Guarantee: whatever the analyst does, as long as every step was admitted before it ran, all answers together are
    (epsilon, delta)-DP under `adjacency`. Conditions: each event prices its step whatever was answered before.

    Proof: which filters hold can be read off the transcript. Transcripts through which adding or advanced composition held have
    a loss of at most epsilon at their end, outside events of probability sum d_m and d (Ville's inequality). Of the others, those through
    which order a held are transcripts of the conversation that stops where order a ends. Its divergence is at most the limit (Feldman
    and Zrnic 2021), so it is (epsilon, d_a)-DP. These sets are apart, so their deltas add up, to at most delta.
    """

    budget: Budget
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    orders: tuple[int, ...] = ORDERS
    _sums: Mapping[str, Amount] = field(default_factory=dict, repr=False)

    def __init__(
        self, epsilon: Typed, delta: Typed, *, adjacency: Adjacency = Adjacency.ADD_REMOVE, orders: Iterable[int] = ORDERS
    ) -> None:
        target, slack = typed("epsilon", epsilon), typed("delta", delta)
        listed = tuple(sorted(set(orders)))
        if not target > 0 or not 0 < slack < 1:
            raise LedgerError(f"epsilon must be positive and delta between 0 and 1, not {epsilon} and {delta}")
        if not listed or any(not isinstance(a, int) or isinstance(a, bool) or a < 2 for a in listed):
            raise LedgerError("orders must be whole numbers from 2 on, such as (2, 8, 32)")
        object.__setattr__(self, "budget", Budget(epsilon=target, delta=slack, filter=BEST))
        object.__setattr__(self, "adjacency", Adjacency.parse(adjacency))
        object.__setattr__(self, "orders", listed)
        object.__setattr__(self, "_sums", dict.fromkeys(self._watched, Fraction(0)))

    @property
    def epsilon(self) -> float:
        """The whole epsilon."""
        return at_most(self.budget.limits["epsilon"])

    @property
    def delta(self) -> float:
        """The whole delta."""
        return at_most(self.budget.limits["delta"])

    @property
    def _watched(self) -> tuple[str, ...]:
        return ("epsilon", "delta", "squares", *(f"renyi:{a}" for a in self.orders))

    @property
    def filters(self) -> tuple[str, ...]:
        """The names of all filters."""
        return ("basic", "advanced", *(f"renyi:{a}" for a in self.orders))

    def spent(self, name: str) -> float:
        """The epsilon that one filter has reached; infinite where it does not apply to a step.

        >>> AdaptiveFilter(1, 1e-6).spent("basic")
        0.0
        """
        if name not in self.filters:
            raise ParameterError(f"filter must be one of {', '.join(self.filters)}, not {name!r}")
        return reached(self.budget, name, self._sums, self.orders)

    def left(self) -> dict[str, float]:
        """How much of epsilon each filter still has; 0 where it refuses everything."""
        return {name: max(0.0, self.epsilon - self.spent(name)) for name in self.filters}

    @property
    def best(self) -> str:
        """The filter that has the most left."""
        return min(self.filters, key=self.spent)

    def price(self, event: Event, *, delta: Typed = 0) -> dict[str, float]:
        """What a step adds to each total: its epsilon at `delta`, the square of that, and its divergences."""
        return {name: math.inf if value is None else float(value) for name, value in self._priced(event, delta).items()}

    def admit(self, event: Event, *, delta: Typed = 0) -> AdaptiveFilter:
        """The filter after the step; `BudgetExceeded` says which filters refuse, and what the best of them has left.

        >>> from tacit.accounting import PureDP
        >>> AdaptiveFilter(1, 1e-6).admit(PureDP(2))
        Traceback (most recent call last):
        tacit.ledger.errors.BudgetExceeded: this filter: every filter refuses: ... nothing was spent. What fits: epsilon 1 by basic
        """
        asked, after = self._priced(event, delta), dict[str, Amount]()
        for name, value in self._sums.items():
            more = asked[name]
            after[name] = None if value is None or more is None else tidy(value + more)
        if not holding(alternatives(self.budget, self.orders), after):
            raise refusal_of_all("this filter", self.budget, self._sums, asked, orders=self.orders)
        found = copy(self)
        object.__setattr__(found, "_sums", after)
        return found

    def _priced(self, event: Event, delta: Typed) -> dict[str, Amount]:
        share = typed("delta", delta)
        if not 0 <= share < 1:
            raise LedgerError(f"delta of a step must be at least 0 and below 1, not {delta}")
        return watched_prices(event, self._watched, self.adjacency, delta=share or None, null_record=False)
