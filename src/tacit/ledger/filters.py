"""Filters and odometers: what may still be asked and what was lost, where questions depend on answers.

A filter admits a step if the totals, including that step, stay within the budget. It looks at parameters
only. Each rule below is proved for *fully adaptive* choice: the mechanism, its parameters and the moment of
stopping may depend on all earlier answers.

| currency | rule | proof |
| --- | --- | --- |
| `pure`, `approximate` | sums of epsilon and of delta | Rogers, Roth, Ullman, Vadhan 2016, the basic-composition filter |
| `rho` | sum of rho | zCDP is Rényi DP at all orders at once: the filter of Feldman and Zrnic 2021 with capacity rho * order at each |
| `renyi` | sum at every listed order, all of which must fit | the Rényi filter of Feldman and Zrnic 2021, each order on its own |
| `mu` | sum of mu squared | Smith and Thakurta 2022, fully adaptive composition for GDP; Koskela, Tobaben and Honkela 2023 |

A running filter on privacy-loss distributions, or on any composition theorem for parameters fixed in advance,
is unsound and refused: an analyst who may stop when the loss looks favourable exceeds the target (arXiv
2602.06756). A plan that is fixed in advance is booked as one entry.

>>> running = Filter(Budget(epsilon=1))
>>> for _ in range(10):
...     running = running.admit({"pure": Fraction(1, 10)})
>>> running.left()
{'pure': Fraction(0, 1)}
>>> running.fits({"pure": Fraction(1, 10**12)})
False
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from tacit.accounting import APPROXIMATE, MU, PURE, RENYI, RHO, UnsupportedError, order_of
from tacit.exact import at_least, at_most, shown, tidy
from tacit.ledger.budget import Budget, typed
from tacit.ledger.errors import BudgetExceeded, LedgerError

#: The theorem behind each currency's filter.
THEOREMS = {
    PURE: "Rogers, Roth, Ullman, Vadhan 2016, basic-composition filter",
    APPROXIMATE: "Rogers, Roth, Ullman, Vadhan 2016, basic-composition filter",
    RHO: "Feldman and Zrnic 2021, Rényi filter at every order",
    RENYI: "Feldman and Zrnic 2021, Rényi filter at each listed order",
    MU: "Smith and Thakurta 2022, fully adaptive composition for Gaussian DP",
}
#: How many budgets an odometer watches: the whole, its half, its quarter, ...
LEVELS = 16


def theorem(currency: str) -> str:
    """The proof behind a currency's filter; an `UnsupportedError` for rules that are no filters.

    >>> theorem("privacy-loss distribution")
    Traceback (most recent call last):
    tacit.errors.UnsupportedError: no filter is proved for privacy-loss distribution; ...
    """
    if currency not in THEOREMS:
        raise UnsupportedError(
            f"no filter is proved for {currency}; an adaptive analyst may use pure, approximate, rho, renyi or mu, "
            "and a plan fixed in advance is booked as one event, priced by its privacy-loss distribution"
        )
    return THEOREMS[currency]


@dataclass(frozen=True)
class Filter:
    """A budget and what was admitted so far, in memory. The durable form is an account of the ledger."""

    budget: Budget
    spent: Mapping[str, Fraction] = field(default_factory=dict)

    def __post_init__(self) -> None:
        theorem(self.budget.currency)

    def fits(self, charge: Mapping[str, Fraction], *, correction: bool = False) -> bool:
        """Whether every component stays within the budget."""
        limits = self.budget.usable(correction=correction)
        return all(self.spent.get(name, Fraction(0)) + charge[name] <= limit for name, limit in limits.items())

    def admit(self, charge: Mapping[str, Fraction], *, correction: bool = False) -> Filter:
        """The filter after the step; `BudgetExceeded` where it does not fit."""
        if not self.fits(charge, correction=correction):
            raise refusal("this filter", self.budget, self.left(correction=correction), charge)
        return Filter(self.budget, {name: tidy(self.spent.get(name, Fraction(0)) + charge[name]) for name in self.budget.limits})

    def left(self, *, correction: bool = False) -> dict[str, Fraction]:
        """What may still be spent of each component."""
        limits = self.budget.usable(correction=correction)
        return {name: max(Fraction(0), limit - self.spent.get(name, Fraction(0))) for name, limit in limits.items()}


def refusal(
    who: str, budget: Budget, left: Mapping[str, Fraction], asked: Mapping[str, Fraction], *, note: str = "", name: str | None = None
) -> BudgetExceeded:
    """The error of a filter that refuses: what is left, what was asked, what would fit."""
    wanted = {component: asked[component] for component in budget.limits}
    fits = what_fits(budget, left, wanted)
    message = (
        f"{who} refuses: asked {in_words(budget, wanted)}, left {in_words(budget, left, up=False)} of {in_words(budget, budget.limits)}"
        f"{note}; nothing was spent. What fits: {fits}"
    )
    return BudgetExceeded(message, account=name or who, left=left, asked=wanted, fits=fits)


def what_fits(budget: Budget, left: Mapping[str, Fraction], asked: Mapping[str, Fraction]) -> str:
    """The largest request that would be granted, and by how much the noise must grow."""
    if any(asked[name] > 0 and left[name] <= 0 for name in budget.limits):
        return "nothing, the budget is used up"
    worst = max((asked[name] / left[name] for name in budget.limits if left[name] > 0 and name != "delta"), default=Fraction(1))
    parts = f"at most {in_words(budget, left, up=False)}"
    if worst <= 1:
        return parts
    # epsilon falls with the noise, rho, mu squared and Gaussian Rényi divergences with its square
    factor = float(worst) if budget.currency in (PURE, APPROXIMATE) else math.sqrt(worst)
    unit = "about " if budget.currency == APPROXIMATE else ""
    return f"{parts}, which is {unit}{math.ceil(factor * 1000) / 1000:g} times the noise"


def in_words(budget: Budget, amounts: Mapping[str, Fraction], *, up: bool = True) -> str:
    """Amounts of a currency in words: rounded up for what was spent, down (`up=False`) for what is left.

    >>> in_words(Budget(mu=1), {"mu2": Fraction(1, 4)})
    'mu 0.5'
    """
    if budget.currency == MU:
        root = Fraction(math.isqrt(math.floor(amounts["mu2"] * 10**24)) + (1 if up and not _square(amounts["mu2"]) else 0), 10**12)
        return f"mu {shown(root, up=up)}"
    names = {PURE: "epsilon"}
    return ", ".join(
        f"{names.get(name, f'Rényi order {order_of(name)}: epsilon' if name.startswith('renyi:') else name)} {shown(amounts[name], up=up)}"
        for name in budget.limits
    )


def _square(value: Fraction) -> bool:
    return math.isqrt(value.numerator) ** 2 == value.numerator and math.isqrt(value.denominator) ** 2 == value.denominator


@dataclass(frozen=True)
class Reading:
    """An odometer's reading: with probability at least 1 - delta, at no time did the privacy loss exceed this epsilon."""

    epsilon: float
    delta: Fraction
    method: str


def odometer(budget: Budget, spent: Mapping[str, Fraction], delta: object = 0) -> Reading:
    """What was lost so far, valid at every moment at once, although the analyst chooses when to look.

    - `pure`: the running sum, at delta = 0.
    - `approximate`: the running sum of epsilon, at the account's whole delta (Rogers et al. 2016, the basic odometer).
    - `rho`, `mu`, `renyi`: the running total is covered by the smallest of the budgets B, B/2, B/4, ... that it has not passed; each of
      these is a filter in its own right, and their failure probabilities, delta / 16 each, add up (the doubling argument of Rogers et
      al. 2016; for Rényi filters Lécuyer 2021). The tail of each is P(loss > R + ln(1/d) / (a - 1)) <= d at order a.

    >>> odometer(Budget(epsilon=1), {"pure": Fraction(1, 4)}).epsilon
    0.25
    >>> round(odometer(Budget(rho=1), {"rho": Fraction(1, 10)}, 1e-6).epsilon, 3)
    3.005
    """
    share = typed("delta", delta)
    if budget.currency == PURE:
        return Reading(at_least(spent[PURE]), Fraction(0), "running sum")
    if budget.currency == APPROXIMATE:
        return Reading(at_least(spent["epsilon"]), budget.limits["delta"], "running sum at the account's delta")
    if not 0 < share < 1:
        raise LedgerError(f"delta must lie between 0 and 1 for an odometer in {budget.currency}, not {delta}; pass delta=1e-6")
    each = at_most(share / LEVELS)
    if each <= 0:
        raise LedgerError(f"delta is too small for floating point: {delta}")
    level = 0
    while level + 1 < LEVELS and all(spent[name] <= limit / 2 ** (level + 1) for name, limit in budget.limits.items()):
        level += 1
    covered = {name: limit / 2**level for name, limit in budget.limits.items()}
    tail = -math.log(each)
    if budget.currency == RENYI:
        values = [at_least(bound) + tail / (at_most(order_of(name)) - 1) for name, bound in covered.items() if at_most(order_of(name)) > 1]
        best = min(values, default=math.inf)
    else:
        rho = at_least(covered["rho"] if budget.currency == RHO else covered["mu2"] / 2)
        best = rho + 2 * math.sqrt(rho * tail)
    return Reading(best * (1 + 1e-12), share, f"filter of 1/{2**level} of the budget, {LEVELS} watched at once")
