"""A budget: how much may be learned in total. It is a `Guarantee` with, perhaps, a reserve and a period.

Each amount of the guarantee is a limit of its own. Amounts of one currency add up under fully adaptive
composition (see `tacit.ledger.filters` for the theorems), so an account compares their sums with the limits,
in exact fractions.

>>> Budget(epsilon=0.1, delta="1e-6")
Budget(epsilon=0.1, delta=1e-6)
>>> Budget("mu=1/2").limits
{'mu2': Fraction(1, 4)}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tacit.accounting import APPROXIMATE, Guarantee, ParameterError
from tacit.exact import Typed, exact, from_text, to_text
from tacit.ledger.errors import LedgerError

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
    advanced composition, and Rényi divergences of several orders. Each has a share of delta (see `tacit.ledger.filters`).
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
