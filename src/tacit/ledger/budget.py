"""A budget, the filters that keep it, and the odometers that read it: how much may be learned in total, also where
questions depend on answers.

A `Budget` is a `Guarantee` with, perhaps, a reserve and a period. Each amount of the guarantee is a limit of its
own, and an account compares sums with the limits, in exact fractions. A filter admits a step if the totals,
including that step, stay within the budget. It looks at parameters only. Each rule below is proved for *fully
adaptive* choice: the mechanism, its parameters and the moment of stopping may depend on all earlier answers.

| currency | rule | proof |
| --- | --- | --- |
| `pure`, `approximate` | sums of epsilon and of delta | Rogers, Roth, Ullman, Vadhan 2016, the basic-composition filter |
| `rho` | sum of rho | zCDP is Rényi DP at all orders at once: the filter of Feldman and Zrnic 2021 with capacity rho * order at each |
| `renyi` | sum at every listed order, all of which must fit | the Rényi filter of Feldman and Zrnic 2021, each order on its own |
| `mu` | sum of mu squared | Smith and Thakurta 2022, fully adaptive composition for GDP; Koskela, Tobaben and Honkela 2023 |

A budget with `filter="best"` has several filters on one (epsilon, delta), and a question is admitted as long as one of them holds:

| filter | admits while | proof |
| --- | --- | --- |
| `basic` | sum e_m <= epsilon | Rogers, Roth, Ullman, Vadhan 2016 |
| `advanced` | sum e_m^2 / 2 + sqrt(2 log(1/d) sum e_m^2) <= epsilon | Whitehouse, Ramdas, Rogers, Wu 2023, filter for approximate DP |
| `renyi:a` | sum R_m(a) + log(1 - 1/a) - log(d a) / (a - 1) <= epsilon | Feldman and Zrnic 2021; Canonne, Kamath and Steinke 2020 |

A conversation that one filter would have stopped in time is (epsilon, d)-DP by that filter alone. Every transcript is one that some
filter let through to its end, and the shares d of delta add up to at most delta, so the whole is (epsilon, delta)-DP (decision 0083).
Each filter is a limit on one running sum.

A running filter on privacy-loss distributions, or on any composition theorem for parameters fixed in advance,
is unsound and refused: an analyst who may stop when the loss looks favourable exceeds the target (arXiv
2602.06756). A plan that is fixed in advance is booked as one entry.

>>> Budget(epsilon=0.1, delta="1e-6")
Budget(epsilon=0.1, delta=1e-6)
>>> Budget("mu=1/2").limits
{'mu2': Fraction(1, 4)}
>>> running = Filter(Budget(epsilon=1))
>>> for _ in range(10):
...     running = running.admit({"pure": Fraction(1, 10)})
>>> running.left()
{'pure': Fraction(0, 1)}
>>> running.fits({"pure": Fraction(1, 10**12)})
False
>>> {name: sorted(limits) for name, limits in alternatives(Budget(epsilon=1, delta=1e-6, filter="best"), (64,)).items()}
{'basic': ['delta', 'epsilon'], 'advanced': ['delta', 'squares'], 'renyi:64': ['renyi:64']}
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

from tacit.accounting import APPROXIMATE, MU, PURE, RENYI, RHO, Guarantee, ParameterError, UnsupportedError, order_of
from tacit.exact import Typed, at_least, at_most, exact, from_float, from_text, shown, tidy, to_text
from tacit.ledger.errors import BudgetExceeded, LedgerError

#: How the totals of an account decide: by the sums of its currency, or by the best of several filters on one (epsilon, delta).
BASIC, BEST = "basic", "best"


def typed(name: str, value: object) -> Fraction:
    """A number given to the ledger, as the fraction that was typed.

    >>> typed("delta", float("nan"))
    Traceback (most recent call last):
    tacit.ledger.errors.LedgerError: delta must be a finite number, not nan
    """
    try:
        return exact(name, value)
    except ParameterError as error:
        raise LedgerError(str(error)) from None


@dataclass(frozen=True, init=False, repr=False)
class Budget:
    """A limit in one currency. `reserve` is the share that only corrections may use (of mu squared, where the
    currency is mu).

    `period` is a window, such as "month": the budget is then one for each of these periods (see `window` of
    `Ledger.account`).

    `filter="best"` keeps several filters on one (epsilon, delta) and admits a question as long as one of them holds: adding, fully adaptive
    advanced composition, and Rényi divergences of several orders. Each has a share of delta (see above).
    """

    guarantee: Guarantee
    reserve: Fraction
    period: str | None
    filter: str

    def __init__(
        self, guarantee: Guarantee | str | None = None, *, epsilon: Typed | None = None,
        delta: Typed | None = None, rho: Typed | None = None, mu: Typed | None = None,
        renyi: Mapping[Typed, Typed] | None = None, reserve: Typed = 0, period: str | None = None,
        filter: str = BASIC,
    ) -> None:
        try:
            whole = Guarantee.of(guarantee, epsilon=epsilon, delta=delta, rho=rho, mu=mu, renyi=renyi)
        except ParameterError as error:
            raise LedgerError(str(error)) from None
        kept = typed("reserve", reserve)
        if not 0 <= kept <= 1:
            raise LedgerError(f"reserve must be a share between 0 and 1, not {reserve}")
        if filter not in (BASIC, BEST):
            raise LedgerError(f"filter must be {BASIC!r} or {BEST!r}, not {filter!r}")
        if filter == BEST and (whole.currency != APPROXIMATE or not whole.limits["delta"] > 0 or not whole.limits["epsilon"] > 0 or kept):
            raise LedgerError("filter='best' shares a delta among several filters: it needs epsilon and delta above 0, and no reserve")
        object.__setattr__(self, "guarantee", whole)
        object.__setattr__(self, "reserve", kept)
        object.__setattr__(self, "period", period)
        object.__setattr__(self, "filter", filter)

    @staticmethod
    def of(given: Budget | Guarantee | str) -> Budget:
        """What a caller gave as a budget: a budget, a guarantee, or its text.

        >>> Budget.of("eps=1, delta=1e-6")
        Budget(epsilon=1, delta=1e-6)
        """
        if isinstance(given, Budget):
            return given
        if not isinstance(given, (Guarantee, str)):
            raise LedgerError(
                "budget must be a Budget such as Budget(epsilon=1), a Guarantee or its text, not "
                f"{type(given).__name__}"
            )
        return Budget(given)

    @property
    def currency(self) -> str:
        """The currency of the guarantee: pure, approximate, rho, mu or renyi."""
        return self.guarantee.currency

    @property
    def limits(self) -> dict[str, Fraction]:
        """The limit on each amount that adds up."""
        return self.guarantee.limits

    def usable(self, *, correction: bool) -> dict[str, Fraction]:
        """What ordinary spends may use of the limits, or everything for a correction.

        >>> Budget(epsilon=1, reserve=Fraction(1, 10)).usable(correction=False)
        {'pure': Fraction(9, 10)}
        """
        share = 1 if correction else 1 - self.reserve
        return {name: limit * share for name, limit in self.limits.items()}

    def to_record(self) -> dict[str, Any]:
        """A JSON-able form that `from_record` reads exactly. The period is among the account's terms."""
        # the usual filter is not written, so that budgets stay as books always had them
        own = {} if self.filter == BASIC else {"filter": self.filter}
        return {**self.guarantee.to_record(), "reserve": to_text(self.reserve), **own}

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> Budget:
        """The budget that `to_record` wrote.

        >>> Budget.from_record(Budget(renyi={2: 0.1}).to_record())
        Budget(renyi={2: 0.1})
        """
        reserve = from_text(record["reserve"])
        if reserve is None:
            raise LedgerError("a stored reserve is not finite")
        try:
            return Budget(Guarantee.from_record(record), reserve=reserve, filter=record.get("filter", BASIC))
        except ParameterError as error:
            raise LedgerError(str(error)) from None

    def __repr__(self) -> str:
        share = Guarantee(rho=self.reserve).arguments.removeprefix("rho=") if self.reserve else ""
        kept = f", reserve={share}" if share else ""
        period = f", period={self.period!r}" if self.period is not None else ""
        filtered = f", filter={self.filter!r}" if self.filter != BASIC else ""
        return f"Budget({self.guarantee.arguments}{kept}{period}{filtered})"


#: The theorem behind each currency's filter.
THEOREMS = {
    PURE: "Rogers, Roth, Ullman, Vadhan 2016, basic-composition filter",
    APPROXIMATE: "Rogers, Roth, Ullman, Vadhan 2016, basic-composition filter",
    RHO: "Feldman and Zrnic 2021, Rényi filter at every order",
    RENYI: "Feldman and Zrnic 2021, Rényi filter at each listed order",
    MU: "Smith and Thakurta 2022, fully adaptive composition for Gaussian DP",
}
#: The theorem behind each filter of a budget with filter="best".
PROOFS = {
    "basic": "Rogers, Roth, Ullman, Vadhan 2016, basic-composition filter",
    "advanced": "Whitehouse, Ramdas, Rogers, Wu 2023, filter for approximate DP",
    "renyi": "Feldman and Zrnic 2021, Rényi filter of one order; converted by Canonne, Kamath and Steinke 2020",
}
#: The Rényi orders that it watches, and its shares of delta: of steps that have one themselves, of advanced composition, and of all
#: orders together. Books depend on both, so they never change; another choice would be a filter of another name.
ORDERS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128)
SHARES = {"steps": Fraction(1, 4), "advanced": Fraction(1, 4), "renyi": Fraction(1, 2)}
#: The running sum of squared epsilons.
SQUARES = "squares"
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


def share_of_step(budget: Budget, epsilon: Fraction) -> Fraction:
    """The share of delta that a question of this epsilon has where it does not say: in proportion to its part of the budget.

    With filter="best" what is set aside for steps must last as long as adding or advanced composition does.

    >>> share_of_step(Budget(epsilon=1, delta=1e-6), Fraction(1, 10))
    Fraction(1, 10000000)
    """
    whole, delta = budget.limits["epsilon"], budget.limits["delta"]
    if budget.filter != BEST:
        return min(delta * epsilon / whole, delta)
    squares = alternatives(budget)["advanced"][SQUARES]
    return SHARES["steps"] * delta * min(epsilon / whole, epsilon**2 / squares, Fraction(1))


@lru_cache(maxsize=256)
def alternatives(budget: Budget, orders: tuple[int, ...] = ORDERS) -> dict[str, dict[str, Fraction]]:
    """The filters on a budget, each with its limit on every sum that it watches. A step is admitted if one of them holds after it.

    Advanced composition stops at the sum of squares v at which v / 2 + sqrt(2 log(1/d) v) is epsilon, and order a at
    epsilon - log(1 - 1/a) + log(d a) / (a - 1). Both limits are rounded down to twelve digits, so that every machine has the same.
    Orders with epsilon at most log(1/d) / (a - 1) are left out: books that were begun with that conversion do not have them.
    """
    if budget.filter != BEST:
        return {budget.currency: dict(budget.limits)}
    epsilon, delta = budget.limits["epsilon"], budget.limits["delta"]
    steps, target = SHARES["steps"] * delta, at_most(epsilon)
    tail = -math.log(at_most(SHARES["advanced"] * delta))
    # sqrt(v) = sqrt(2 tail + 2 epsilon) - sqrt(2 tail), without the cancellation
    squares = (2 * target / (math.sqrt(2 * tail + 2 * target) + math.sqrt(2 * tail))) ** 2
    found = {"basic": {"epsilon": epsilon, "delta": steps}, "advanced": {SQUARES: _down(squares), "delta": steps}}
    share = at_most(SHARES["renyi"] * delta / len(orders))
    for order in orders:
        if target > -math.log(share) / (order - 1):
            rest = conversion(order, share)
            # what the difference may have lost to rounding is taken off
            found[f"renyi:{order}"] = {f"renyi:{order}": _down(target - rest - 1e-14 * (target + abs(rest)))}
    return found


def conversion(order: int, delta: float) -> float:
    """What epsilon has beyond a Rényi divergence of one order (Canonne, Kamath and Steinke 2020).

    >>> round(conversion(8, 1e-6), 4), round(math.log(1e6) / 7, 4)
    (1.543, 1.9736)
    """
    return math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)


def _down(value: float) -> Fraction:
    """A positive figure of floating point, twelve digits of it, on the safe side."""
    scale = 10 ** (12 - math.ceil(math.log10(value))) if value < 1e12 else 1
    return Fraction(math.floor(Fraction(value) * (1 - Fraction(1, 10**12)) * scale), scale)


def holding(filters: Mapping[str, Mapping[str, Fraction]], totals: Mapping[str, Fraction | None]) -> list[str]:
    """The filters whose sums are all within their limits; a sum without a known bound is above every limit."""
    return [
        name
        for name, limits in filters.items()
        if all((total := totals.get(part)) is not None and total <= limit for part, limit in limits.items())
    ]


def reached(budget: Budget, name: str, totals: Mapping[str, Fraction | None], orders: tuple[int, ...] = ORDERS) -> float:
    """The epsilon that one filter of filter="best" has reached; infinite where a step has no price in it."""
    part = {"basic": "epsilon", "advanced": SQUARES}.get(name, name)
    total = totals.get(part)
    if total is None:
        return math.inf
    if total == 0:
        return 0.0
    value, delta = at_least(total), budget.limits["delta"]
    if name == "basic":
        return value
    if name == "advanced":
        return (0.5 * value + math.sqrt(-2 * math.log(at_most(SHARES["advanced"] * delta)) * value)) * (1 + 1e-12)
    rest = conversion(int(name.removeprefix("renyi:")), at_most(SHARES["renyi"] * delta / len(orders)))
    return max(0.0, value + rest) + 1e-12 * (value + abs(rest))


def standing(budget: Budget, totals: Mapping[str, Fraction | None]) -> dict[str, Fraction | None]:
    """What was spent, in the amounts of the guarantee: the totals, or for filter="best" what the best filter has reached.

    >>> several = Budget(epsilon=6, delta="4e-6", filter="best")
    >>> after = standing(several, {"epsilon": Fraction(10), "squares": Fraction(1), "delta": Fraction(0)})
    >>> round(float(after["epsilon"]), 3)
    5.757
    """
    if budget.filter != BEST:
        return {name: totals[name] for name in budget.limits}
    if not any(value is None or value for value in totals.values()):
        return {"epsilon": Fraction(0), "delta": Fraction(0)}
    name = best_of(budget, totals)
    value = reached(budget, name, totals)
    # adding fails only where a step does
    spent = totals.get("delta") if name == "basic" else budget.limits["delta"]
    return {"epsilon": Fraction(value) if math.isfinite(value) else None, "delta": spent}


def best_of(budget: Budget, totals: Mapping[str, Fraction | None]) -> str:
    """The filter that has the most left."""
    return min(alternatives(budget), key=lambda name: reached(budget, name, totals))


def largest_step(budget: Budget, totals: Mapping[str, Fraction | None]) -> dict[str, Fraction]:
    """The largest epsilon of one further pure question that some filter of filter="best" admits, and the delta left for steps."""
    filters = alternatives(budget)
    found = Fraction(0)
    room = {part: limit - (totals.get(part, Fraction(0)) or Fraction(0)) for limits in filters.values() for part, limit in limits.items()}
    for name, limits in filters.items():
        if any(totals.get(part, Fraction(0)) is None or room[part] < 0 for part in limits):
            continue
        if name == "basic":
            found = max(found, room["epsilon"])
        elif name == "advanced":
            found = max(found, from_float(math.sqrt(at_most(room[SQUARES])) * (1 - 1e-12)))
        else:
            # order a of a pure step is at most a e^2 / 2, and at most e
            order = int(name.removeprefix("renyi:"))
            found = max(found, room[name], from_float(math.sqrt(2 * at_most(room[name]) / order) * (1 - 1e-12)))
    return {"epsilon": found, "delta": max(Fraction(0), room["delta"])}


@dataclass(frozen=True)
class Filter:
    """A budget and what was admitted so far, in memory. The durable form is an account of the ledger."""

    budget: Budget
    spent: Mapping[str, Fraction] = field(default_factory=dict)

    def __post_init__(self) -> None:
        theorem(self.budget.currency)
        if self.budget.filter == BEST:
            raise LedgerError("filter='best' needs every step's event: use AdaptiveFilter, or an account of a ledger")

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


def refusal_of_all(
    who: str, budget: Budget, totals: Mapping[str, Fraction | None], asked: Mapping[str, Fraction | None], *,
    note: str = "", name: str | None = None, orders: tuple[int, ...] = ORDERS,
) -> BudgetExceeded:
    """The error where every filter of filter="best" refuses: what each would reach, and what the best of them has left."""
    filters, after = alternatives(budget, orders), dict[str, Fraction | None]()
    for part in {part for limits in filters.values() for part in limits}:
        before, more = totals.get(part, Fraction(0)), asked.get(part)
        after[part] = None if before is None or more is None else before + more
    best = min(filters, key=lambda one: reached(budget, one, totals, orders))
    left = {one: max(0.0, at_most(budget.limits["epsilon"]) - reached(budget, one, totals, orders)) for one in filters}
    priced = [one for one in filters if all(after[part] is not None for part in filters[one])]
    steps = max(Fraction(0), SHARES["steps"] * budget.limits["delta"] - (totals.get("delta") or Fraction(0)))
    if asked.get("delta") is not None and (asked["delta"] or 0) > steps and not any(one.startswith("renyi:") for one in priced):
        why, fits = f"the share of delta for steps has {float(steps):.3g} left", f"steps with delta {float(steps):.3g}"
    else:
        why = ", ".join(f"{one} would reach {reached(budget, one, after, orders):.6g}" for one in priced)
        fits = f"epsilon {left[best]:.6g} by {best}" if left[best] > 0 else "nothing, every filter is used up"
    said = why or "no filter has a price for this event"
    whole = float(budget.limits["epsilon"])
    message = f"{who}: every filter refuses{note}: of epsilon {whole:.6g} {said}; nothing was spent. What fits: {fits}"
    wanted = {part: value for part, value in asked.items() if value is not None}
    remaining = {one: Fraction(value) for one, value in left.items()}
    return BudgetExceeded(message, account=name or best, left=remaining, asked=wanted, fits=fits)


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
    if budget.filter == BEST:
        # the other filters bound the loss by the budget only, however little of it they have used
        sum_so_far = at_least(spent["epsilon"]) if "epsilon" in spent else math.inf
        return Reading(min(sum_so_far, at_least(budget.limits["epsilon"])), budget.limits["delta"], "running sum, or the whole budget")
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
