"""Budgets: how much may be learned in total, in one currency, in exact fractions.

A budget is a limit on each *component* of a price. The components of each currency add up under fully adaptive composition (see
`tacit.ledger.filters` for the theorems):

| currency | components |
| --- | --- |
| `Budget(epsilon=1)` | `pure`: the sum of pure epsilons |
| `Budget(epsilon=1, delta=1e-6)` | `epsilon` and `delta`: the sums over approximate guarantees |
| `Budget(rho=0.1)` | `rho` |
| `Budget(mu=1)` | `mu2`: the sum of the squares of mu |
| `Budget(renyi={2: 0.1, 8: 0.5})` | `renyi:2`, `renyi:8`: one sum for each order |

>>> Budget(epsilon=0.1, delta="1e-6")
Budget(epsilon=0.1, delta=1e-6)
>>> Budget(mu=Fraction(1, 2)).limits
{'mu2': Fraction(1, 4)}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tacit.ledger.errors import LedgerError
from tacit.ledger.exact import Typed, exact, from_text, shown, to_text

PURE, APPROXIMATE, RHO, MU, RENYI = "pure", "approximate", "rho", "mu", "renyi"
_PREFIX = "renyi:"


@dataclass(frozen=True, init=False, repr=False)
class Budget:
    """A limit in one currency. `reserve` is the share that only corrections may use (of mu squared, where the currency is mu)."""

    currency: str
    amounts: tuple[tuple[str, Fraction], ...]
    reserve: Fraction

    def __init__(
        self,
        *,
        epsilon: Typed | None = None,
        delta: Typed | None = None,
        rho: Typed | None = None,
        mu: Typed | None = None,
        renyi: Mapping[Typed, Typed] | None = None,
        reserve: Typed = 0,
    ) -> None:
        given = [name for name, value in (("epsilon", epsilon), ("rho", rho), ("mu", mu), ("renyi", renyi)) if value is not None]
        if len(given) != 1:
            raise LedgerError(
                f"a budget has one currency, not {len(given)}: give epsilon, epsilon and delta, rho, mu, or renyi={{order: epsilon}}"
            )
        if delta is not None and epsilon is None:
            raise LedgerError(f"delta belongs to epsilon, not to {given[0]}; write Budget(epsilon=..., delta=...) or leave delta out")
        currency: str
        amounts: tuple[tuple[str, Fraction], ...]
        if epsilon is not None:
            share = Fraction(0) if delta is None else _amount("delta", delta)
            if share >= 1:
                raise LedgerError(f"delta must be below 1, not {delta}; use well below one over the number of people, such as 1e-6")
            limit = _amount("epsilon", epsilon)
            currency, amounts = (APPROXIMATE, (("epsilon", limit), ("delta", share))) if share else (PURE, ((PURE, limit),))
        elif rho is not None:
            currency, amounts = RHO, ((RHO, _amount("rho", rho)),)
        elif mu is not None:
            currency, amounts = MU, (("mu", _amount("mu", mu)),)
        else:
            currency, amounts = RENYI, _orders(renyi or {})
        kept = exact("reserve", reserve)
        if not 0 <= kept <= 1:
            raise LedgerError(f"reserve must be a share between 0 and 1, not {reserve}")
        object.__setattr__(self, "currency", currency)
        object.__setattr__(self, "amounts", amounts)
        object.__setattr__(self, "reserve", kept)

    @property
    def limits(self) -> dict[str, Fraction]:
        """The limit on each component, in the additive measure of the currency."""
        if self.currency == MU:
            return {"mu2": self.amounts[0][1] ** 2}
        return dict(self.amounts)

    def usable(self, *, correction: bool) -> dict[str, Fraction]:
        """What ordinary spends may use of the limits, or everything for a correction.

        >>> Budget(epsilon=1, reserve=Fraction(1, 10)).usable(correction=False)
        {'pure': Fraction(9, 10)}
        """
        return self.limits if correction else {name: limit * (1 - self.reserve) for name, limit in self.limits.items()}

    def to_record(self) -> dict[str, Any]:
        """A JSON-able form; `from_record` is its exact inverse."""
        return {
            "currency": self.currency,
            "amounts": {name: to_text(value) for name, value in self.amounts},
            "reserve": to_text(self.reserve),
        }

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> Budget:
        """The budget that `to_record` wrote.

        >>> Budget.from_record(Budget(renyi={2: 0.1}).to_record())
        Budget(renyi={2: 0.1})
        """
        amounts: dict[str, Fraction] = {name: _known(value) for name, value in record["amounts"].items()}
        reserve = _known(record["reserve"])
        match record["currency"]:
            case "pure":
                return Budget(epsilon=amounts[PURE], reserve=reserve)
            case "approximate":
                return Budget(epsilon=amounts["epsilon"], delta=amounts["delta"], reserve=reserve)
            case "rho":
                return Budget(rho=amounts["rho"], reserve=reserve)
            case "mu":
                return Budget(mu=amounts["mu"], reserve=reserve)
            case "renyi":
                return Budget(renyi={name.removeprefix(_PREFIX): value for name, value in amounts.items()}, reserve=reserve)
        raise LedgerError("currency must be pure, approximate, rho, mu or renyi")

    def __repr__(self) -> str:
        if self.currency == RENYI:
            inside = "renyi={" + ", ".join(f"{name.removeprefix(_PREFIX)}: {_plain(value)}" for name, value in self.amounts) + "}"
        else:
            inside = ", ".join(f"{'epsilon' if name == PURE else name}={_plain(value)}" for name, value in self.amounts)
        return f"Budget({inside}{f', reserve={_plain(self.reserve)}' if self.reserve else ''})"


def order_of(component: str) -> Fraction:
    """The Rényi order of a component name.

    >>> order_of("renyi:5/2")
    Fraction(5, 2)
    """
    return Fraction(component.removeprefix(_PREFIX))


def _orders(renyi: Mapping[Typed, Typed]) -> tuple[tuple[str, Fraction], ...]:
    if not renyi:
        raise LedgerError("renyi is empty; give at least one order with its epsilon, such as {2: 0.1, 8: 0.5}")
    found: dict[Fraction, Fraction] = {}
    for order, value in renyi.items():
        alpha = exact("order", order)
        if not alpha > 1:
            raise LedgerError(f"order must be greater than 1, not {order}")
        if alpha in found:
            raise LedgerError(f"order {order} is given twice in renyi")
        found[alpha] = _amount(f"renyi[{order}]", value)
    return tuple((f"{_PREFIX}{alpha}", found[alpha]) for alpha in sorted(found))


def _amount(name: str, value: object) -> Fraction:
    amount = exact(name, value)
    if amount < 0:
        raise LedgerError(f"{name} must be zero or more, not {value}")
    return amount


def _known(text: str) -> Fraction:
    value = from_text(text)
    if value is None:
        raise LedgerError("a stored limit is not finite")
    return value


def _plain(value: Fraction) -> str:
    """A decimal where one is exact, else the fraction."""
    short = shown(value, digits=17)
    return short if Fraction(short) == value else str(value)
