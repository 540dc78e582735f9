"""Several filters on one (epsilon, delta) at once: questions go on as long as one of them admits the next.

The analyst chooses every mechanism, its parameters and the moment to stop after all earlier answers. Each filter bounds
the privacy loss at all moments at once, with a failure probability of its own; these add up to at most delta, so whichever
filter still holds at the end, the whole was (epsilon, delta)-DP. Use it where it is not known in advance which questions will be asked:
few large ones are cheapest by adding, many small ones by advanced composition, Gaussian noise by Rényi divergences.

| filter | admits while | proof |
| --- | --- | --- |
| `basic` | sum e_m <= epsilon | Rogers, Roth, Ullman, Vadhan 2016 |
| `advanced` | sum e_m^2 / 2 + sqrt(2 log(1/d) sum e_m^2) <= epsilon | Whitehouse, Ramdas, Rogers, Wu 2023, filter for approximate DP |
| `renyi:a` | sum R_m(a) + log(1/d) / (a - 1) <= epsilon | Feldman and Zrnic 2021; Lécuyer 2021 |

Steps that are (e_m, d_m)-DP with d_m > 0 take their d_m from a share of delta set aside for that.

>>> from tacit.accounting import Laplace
>>> many = AdaptiveFilter(epsilon=6, delta=4e-6)
>>> for _ in range(100):
...     many = many.admit(Laplace(10))
>>> many.best, round(many.spent("advanced"), 3), round(many.spent("basic"), 3)
('advanced', 5.757, 10.0)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

from tacit.accounting import AccountingError, Adjacency, Event, ParameterError, account
from tacit.exact import Typed, at_least, at_most
from tacit.ledger.budget import typed
from tacit.ledger.errors import BudgetExceeded, LedgerError

#: Rényi orders that are watched where none are given.
ORDERS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128)
#: Shares of delta: of steps that have one themselves, of advanced composition, and of all Rényi orders together.
SHARES = {"steps": Fraction(1, 4), "advanced": Fraction(1, 4), "renyi": Fraction(1, 2)}
_SAFE = 1 + 1e-12  # more than the roundings of the few operations on each total

#: The theorem behind each filter.
PROOFS = {
    "basic": "Rogers, Roth, Ullman, Vadhan 2016, basic-composition filter",
    "advanced": "Whitehouse, Ramdas, Rogers, Wu 2023, filter for approximate DP",
    "renyi": "Feldman and Zrnic 2021, Rényi filter of one order",
}


@dataclass(frozen=True)
class AdaptiveFilter:
    """A target and the totals of every filter.

    Guarantee: whatever the analyst does, as long as every step was admitted before it ran, all answers together are
    (epsilon, delta)-DP under `adjacency`. Conditions: each event prices its step whatever was answered before. Proof: outside events of
    probability d (for each filter) and sum d_m (for the steps) the loss is at most each filter's left-hand side at all moments, by
    Ville's inequality; the probabilities add up to at most delta.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    orders: tuple[int, ...] = ORDERS
    _sums: Mapping[str, float] = field(default_factory=dict, repr=False)

    def __init__(
        self, epsilon: Typed, delta: Typed, *, adjacency: Adjacency = Adjacency.ADD_REMOVE, orders: Iterable[int] = ORDERS
    ) -> None:
        target, slack = typed("epsilon", epsilon), typed("delta", delta)
        listed = tuple(sorted(set(orders)))
        if not target > 0 or not 0 < slack < 1:
            raise LedgerError(f"epsilon must be positive and delta between 0 and 1, not {epsilon} and {delta}")
        if not listed or any(not isinstance(a, int) or isinstance(a, bool) or a < 2 for a in listed):
            raise LedgerError("orders must be whole numbers from 2 on, such as (2, 8, 32)")
        object.__setattr__(self, "epsilon", at_most(target))
        object.__setattr__(self, "delta", at_most(slack))
        object.__setattr__(self, "adjacency", Adjacency.parse(adjacency))
        object.__setattr__(self, "orders", listed)
        object.__setattr__(self, "_sums", {"epsilon": 0.0, "squares": 0.0, "delta": 0.0, **{f"renyi:{a}": 0.0 for a in listed}})

    @property
    def filters(self) -> tuple[str, ...]:
        """The names of all filters."""
        return ("basic", "advanced", *(f"renyi:{a}" for a in self.orders))

    def spent(self, name: str) -> float:
        """The bound on the privacy loss that one filter has reached; infinite where it does not apply to a step.

        >>> AdaptiveFilter(1, 1e-6).spent("basic")
        0.0
        """
        return self._reached(name, self._sums)

    def left(self) -> dict[str, float]:
        """How much of epsilon each filter still has; 0 where it refuses everything."""
        return {name: max(0.0, self.epsilon - self.spent(name)) for name in self.filters}

    @property
    def best(self) -> str:
        """The filter that has the most left."""
        return min(self.filters, key=self.spent)

    def price(self, event: Event, *, delta: Typed = 0) -> dict[str, float]:
        """What a step adds to each total: its epsilon at `delta`, the square of that, and its divergences."""
        share = at_least(typed("delta", delta))
        if not 0 <= share < 1:
            raise LedgerError(f"delta of a step must be at least 0 and below 1, not {delta}")
        alone = _epsilon(event, self.adjacency, share)
        return {
            "epsilon": alone,
            "squares": alone * alone * _SAFE,
            "delta": share,
            **{f"renyi:{a}": _divergence(event, self.adjacency, a) for a in self.orders},
        }

    def admit(self, event: Event, *, delta: Typed = 0) -> AdaptiveFilter:
        """The filter after the step; `BudgetExceeded` says which filters refuse, and what the best of them has left.

        >>> from tacit.accounting import PureDP
        >>> AdaptiveFilter(1, 1e-6).admit(PureDP(2))
        Traceback (most recent call last):
        tacit.ledger.errors.BudgetExceeded: every filter refuses: ... nothing was spent. What fits: epsilon 1 by basic
        """
        asked = self.price(event, delta=delta)
        after = {name: (value + asked[name]) * (_SAFE if asked[name] else 1.0) for name, value in self._sums.items()}
        holding = [name for name in self.filters if self._reached(name, after) <= self.epsilon]
        stepping = after["delta"] <= at_most(SHARES["steps"] * Fraction(self.delta))
        if not holding or not stepping:
            raise self._refusal(asked, after, stepping)
        found = copy(self)
        object.__setattr__(found, "_sums", after)
        return found

    def _reached(self, name: str, sums: Mapping[str, float]) -> float:
        if name == "basic":
            return sums["epsilon"]
        if name == "advanced":
            return _advanced(sums["squares"], self.delta)
        if name not in sums:
            raise ParameterError(f"filter must be one of {', '.join(self.filters)}, not {name!r}")
        order = int(name.removeprefix("renyi:"))
        if sums[name] == 0:
            return 0.0
        each = at_most(SHARES["renyi"] * Fraction(self.delta) / len(self.orders))
        return (sums[name] - math.log(each) / (order - 1)) * _SAFE

    def _refusal(self, asked: Mapping[str, float], after: Mapping[str, float], stepping: bool) -> BudgetExceeded:
        best = self.best
        left = self.left()
        if not stepping:
            room = max(Fraction(0), SHARES["steps"] * Fraction(self.delta) - Fraction(self._sums["delta"]))
            why, fits = f"the share of delta for steps has {float(room):.3g} left", f"steps with delta {float(room):.3g}"
        else:
            priced = [name for name in self.filters if asked[_total(name)] < math.inf]
            why = ", ".join(f"{name} would reach {self._reached(name, after):.6g}" for name in priced)
            fits = f"epsilon {left[best]:.6g} by {best}" if left[best] > 0 else "nothing, every filter is used up"
        message = f"every filter refuses: of epsilon {self.epsilon:.6g} {why or 'no filter has a price for this event'}"
        wanted = {name: Fraction(value) for name, value in asked.items() if math.isfinite(value)}
        known = {name: Fraction(value) for name, value in left.items()}
        return BudgetExceeded(f"{message}; nothing was spent. What fits: {fits}", account=best, left=known, asked=wanted, fits=fits)


def _total(name: str) -> str:
    return {"basic": "epsilon", "advanced": "squares"}.get(name, name)


def _advanced(squares: float, delta: float) -> float:
    """The left-hand side of the advanced filter; 0 before the first step."""
    if squares == 0:
        return 0.0
    share = at_most(SHARES["advanced"] * Fraction(delta))
    return (0.5 * squares + math.sqrt(-2 * math.log(share) * squares)) * _SAFE


@lru_cache(maxsize=1024)
def _epsilon(event: Event, adjacency: Adjacency, delta: float) -> float:
    try:
        return account(event, adjacency).epsilon(delta).upper
    except AccountingError:
        return math.inf


@lru_cache(maxsize=8192)
def _divergence(event: Event, adjacency: Adjacency, order: int) -> float:
    try:
        return account(event, adjacency).rdp(order).upper
    except AccountingError:
        return math.inf
