"""`Guarantee`: how much privacy, in one currency and in exact fractions; the one value that rooms hand on.

| written | text | currency | what adds up |
| --- | --- | --- | --- |
| `Guarantee(epsilon=1)` | `eps=1` | pure | epsilon |
| `Guarantee(epsilon=1, delta=1e-6)` | `eps=1, delta=1e-6` | approximate | epsilon and delta |
| `Guarantee(rho=0.1)` | `rho=0.1` | rho | rho |
| `Guarantee(mu=1)` | `mu=1` | mu | mu squared |
| `Guarantee(renyi={2: 0.1, 8: 0.5})` | `renyi:2=0.1, renyi:8=0.5` | renyi | epsilon at each order |

A function that asks how much may be spent takes `guarantee=` (a `Guarantee` or its text) or the shorthand
`epsilon=`, `delta=`, `rho=`, `mu=`, and hands all of them to `Guarantee.of`. A guarantee does not say which
data sets are neighbours; methods that price an event take the relation.

>>> from tacit.accounting import Adjacency, Gaussian
>>> whole = Guarantee.parse("eps=1, delta=1e-6")
>>> whole
Guarantee(epsilon=1, delta=1e-6)
>>> print(whole.share("1/4"))
eps=0.25, delta=2.5e-7
>>> whole.admits(Gaussian(5), Adjacency.ADD_REMOVE), whole.admits(Gaussian(4), Adjacency.ADD_REMOVE)
(True, False)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from tacit.accounting.bound import Bound
from tacit.accounting.closed_form import as_typed, exact_rho, one_release, squared_mu, stated_sum
from tacit.accounting.events.leaves import GDP, ZCDP, ApproxDP, PureDP, RenyiDP
from tacit.accounting.events.tree import Adjacency, Event
from tacit.accounting.theorems.gaussian import mu_for, mu_from_rho, sigma_for
from tacit.errors import AccountingError, AdjacencyError, ParameterError
from tacit.exact import Typed, at_least, at_most, exact, from_text, root, shown, to_text

if TYPE_CHECKING:
    from tacit.accounting.account import Cost

PURE = "pure"
APPROXIMATE = "approximate"
RHO = "rho"
MU = "mu"
RENYI = "renyi"
_PREFIX = "renyi:"
_NAMES = {name: name for name in ("epsilon", "delta", "rho", "mu", "mu2")} | {"eps": "epsilon"}
_SHORT = {PURE: "eps", "epsilon": "eps"}
_LONG = {PURE: "epsilon"}
_FORMS = "'eps=1, delta=1e-6', 'eps=1', 'rho=0.1' or 'mu=1'"
_LONGEST = 100_000  # characters of a text; more is a mistake

#: A ledger may round a price up by one part in 1e12 before it compares. `keeps` leaves room for that, so that
#: an event settled for a guarantee fits into a budget of exactly that guarantee.
MARGIN = 1e-11


@dataclass(frozen=True)
class Floats:
    """The amounts of a guarantee as floats (see `Guarantee.floats`); None where the currency has none."""

    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None
    mu: float | None = None


@dataclass(frozen=True, init=False, repr=False)
class Guarantee:
    """How much privacy, in one currency. `parts` are the amounts that add up when guarantees are spent."""

    currency: str
    parts: tuple[tuple[str, Fraction], ...]

    def __init__(
        self,
        *,
        epsilon: Typed | None = None,
        delta: Typed | None = None,
        rho: Typed | None = None,
        mu: Typed | None = None,
        renyi: Mapping[Typed, Typed] | None = None,
        mu2: Typed | None = None,
    ) -> None:
        """`mu2` is mu squared: in a share of a guarantee it is a fraction, where mu itself may be none."""
        named = (("epsilon", epsilon), ("rho", rho), ("mu", mu), ("renyi", renyi), ("mu2", mu2))
        given = [name for name, value in named if value is not None]
        if len(given) != 1:
            raise ParameterError(
                f"a guarantee has one currency, not {len(given)}: give epsilon, epsilon and delta, rho, "
                f"mu, or renyi={{order: epsilon}}"
            )
        if delta is not None and epsilon is None:
            raise ParameterError(
                f"delta belongs to epsilon, not to {given[0]}; give epsilon and delta, or leave delta out"
            )
        currency: str
        parts: tuple[tuple[str, Fraction], ...]
        if epsilon is not None:
            slack = Fraction(0) if delta is None else _amount("delta", delta)
            if slack >= 1:
                raise ParameterError(
                    f"delta must be below 1, not {_plain(slack)}; use well below one over the number of "
                    "people, such as 1e-6"
                )
            limit = _amount("epsilon", epsilon)
            currency, parts = (
                (APPROXIMATE, (("epsilon", limit), ("delta", slack))) if slack else (PURE, ((PURE, limit),))
            )
        elif rho is not None:
            currency, parts = RHO, ((RHO, _amount("rho", rho)),)
        elif renyi is not None:
            currency, parts = RENYI, _orders(renyi)
        else:
            square = _amount("mu", mu) ** 2 if mu is not None else _amount("mu2", mu2)
            currency, parts = MU, (("mu2", square),)
        object.__setattr__(self, "currency", currency)
        object.__setattr__(self, "parts", parts)

    # --- where guarantees come from ---

    @staticmethod
    def of(
        given: Guarantee | str | None = None,
        *,
        epsilon: Typed | None = None,
        delta: Typed | None = None,
        rho: Typed | None = None,
        mu: Typed | None = None,
        renyi: Mapping[Typed, Typed] | None = None,
        state_delta: bool = False,
    ) -> Guarantee:
        """What a caller asked for: a guarantee, its text, or the shorthand; exactly one, without a default.

        With `state_delta`, the shorthand epsilon needs a delta beside it, 0 where none is meant: for callers
        for whom a forgotten delta would change the noise.

        >>> Guarantee.of("mu=1"), Guarantee.of(epsilon=1, delta=0)
        (Guarantee(mu=1), Guarantee(epsilon=1))
        >>> Guarantee.of("mu=1", epsilon=1)
        Traceback (most recent call last):
        tacit.errors.ParameterError: give a guarantee or the shorthand epsilon, not both
        """
        shorthand = {"epsilon": epsilon, "delta": delta, "rho": rho, "mu": mu, "renyi": renyi}
        named = [name for name, value in shorthand.items() if value is not None]
        if given is not None:
            if named:
                raise ParameterError(f"give a guarantee or the shorthand {' and '.join(named)}, not both")
            if isinstance(given, Guarantee):
                return given
            if isinstance(given, str):
                return Guarantee.parse(given)
            raise ParameterError(
                f"guarantee must be a Guarantee, or a text such as {_FORMS}, not {type(given).__name__}"
            )
        if not named:
            raise ParameterError(
                f"say how much privacy: a guarantee such as {_FORMS}, or epsilon with delta, rho or mu; "
                "there is no default"
            )
        if state_delta and epsilon is not None and delta is None:
            raise ParameterError(
                "delta is missing: give delta, such as 1e-6 and well below one over the number of "
                "people, or 0 for pure epsilon"
            )
        return Guarantee(epsilon=epsilon, delta=delta, rho=rho, mu=mu, renyi=renyi)

    @staticmethod
    def parse(text: str) -> Guarantee:
        """A guarantee as it is typed; `str(guarantee)` is read back as the same guarantee.

        >>> Guarantee.parse("rho=0.1"), Guarantee.parse("epsilon = 1/3")
        (Guarantee(rho=0.1), Guarantee(epsilon=1/3))
        """
        if not isinstance(text, str):
            raise ParameterError(f"text must be a string such as {_FORMS}, not {type(text).__name__}")
        found: dict[str, Any] = {}
        orders: dict[Typed, Typed] = {}
        for part in text.split(",") if len(text) <= _LONGEST else [""]:
            name, _, value = part.partition("=")
            written = name.strip().lower()
            known = _NAMES.get(written)
            if written.startswith(_PREFIX):
                orders[written.removeprefix(_PREFIX)] = value
            elif known is None or known in found or not value.strip():
                raise ParameterError(
                    f"the guarantee {text[:60]!r} is not understood at {part.strip()[:40]!r}; write for "
                    f"example {_FORMS}"
                )
            else:
                found[known] = value
        try:
            return Guarantee(**found, renyi=orders or None)
        except ParameterError as error:
            raise ParameterError(
                f"the guarantee {text[:60]!r} is not understood: {error}; write for example {_FORMS}"
            ) from None

    @staticmethod
    def of_parts(parts: Mapping[str, Fraction]) -> Guarantee:
        """The guarantee with these amounts: an inverse of `limits`.

        >>> Guarantee.of_parts({"mu2": Fraction(1, 4)})
        Guarantee(mu=0.5)
        """
        if any(name.startswith(_PREFIX) for name in parts):
            return Guarantee(renyi={order_of(name): value for name, value in parts.items()})
        amounts: dict[str, Any] = {_LONG.get(name, name): value for name, value in parts.items()}
        return Guarantee(**amounts)

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> Guarantee:
        """The guarantee that `to_record` wrote; anything else is a `ParameterError`.

        >>> Guarantee.from_record(Guarantee(renyi={2: 0.1}).to_record())
        Guarantee(renyi={2: 0.1})
        """
        try:
            amounts = {str(name): from_text(value) for name, value in record["amounts"].items()}
            known = {name: value for name, value in amounts.items() if value is not None}
            found = Guarantee.of_parts(known)
            stored = {key: record[key] for key in ("currency", "amounts")}
            if len(known) == len(amounts) and found.to_record() == stored:
                return found
        except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError):
            pass
        raise ParameterError(
            "this is no stored guarantee: its currency is pure, approximate, rho, mu or renyi, with "
            "finite amounts"
        )

    def to_record(self) -> dict[str, Any]:
        """A JSON-able form; `from_record` is its exact inverse. Books store it, so its bytes never change."""
        parts = self.parts
        if self.currency == MU and (mu := root(parts[0][1])) ** 2 == parts[0][1]:
            parts = ((MU, mu),)
        return {"currency": self.currency, "amounts": {name: to_text(value) for name, value in parts}}

    # --- amounts ---

    @property
    def limits(self) -> dict[str, Fraction]:
        """What adds up, by name: `pure`, `epsilon`, `delta`, `rho`, `mu2`, or `renyi:` and an order."""
        return dict(self.parts)

    @property
    def epsilon(self) -> Fraction | None:
        """Epsilon, where the currency has one."""
        return self.parts[0][1] if self.currency in (PURE, APPROXIMATE) else None

    @property
    def delta(self) -> Fraction:
        """Delta; 0 in every currency but approximate."""
        return self.parts[1][1] if self.currency == APPROXIMATE else Fraction(0)

    @property
    def rho(self) -> Fraction | None:
        """Rho, where it is the currency."""
        return self.parts[0][1] if self.currency == RHO else None

    @cached_property
    def mu(self) -> Fraction | None:
        """Mu, where it is the currency: exact if it is a fraction, else rounded down."""
        if self.currency != MU:
            return None
        square = self.parts[0][1]
        return square / root(square) if square else square

    @property
    def pure(self) -> bool:
        """Whether it is an epsilon without delta, so that Gaussian noise has no price in it."""
        return self.currency == PURE

    def positive(self) -> Guarantee:
        """Itself, where every amount is above 0: an answer that costs nothing would say nothing."""
        for name, value in self.parts:
            if value <= 0:
                raise ParameterError(f"{_LONG.get(name, name)} must be greater than 0, not {_plain(value)}")
        return self

    @cached_property
    def floats(self) -> Floats:
        """The amounts as the floats that were typed, for solvers that compute in floats.

        A fraction that prints as a float is that float: 1/10 is 0.1, although 0.1 in binary is a little more.
        Anything else is the largest float below. This is another convention than the exact amounts, and both
        stay: seeded models were drawn with these floats, seeded tables with the fractions. `keeps` has a
        margin that is far larger than the difference.

        >>> Guarantee(epsilon=0.1, delta=1e-5).floats
        Floats(epsilon=0.1, delta=1e-05, rho=None, mu=None)
        """
        if self.epsilon is not None:
            return Floats(epsilon=_typed("epsilon", self.epsilon), delta=_typed("delta", self.delta))
        if self.rho is not None:
            return Floats(rho=_typed("rho", self.rho))
        return Floats(mu=None if self.mu is None else _typed("mu", self.mu))

    # --- comparing and splitting ---

    def __le__(self, other: Guarantee) -> bool:
        """Whether it allows no more. Of a larger epsilon and a larger delta neither does."""
        return all(first <= second for first, second in self._beside(other))

    def __ge__(self, other: Guarantee) -> bool:
        return all(first >= second for first, second in self._beside(other))

    def __lt__(self, other: Guarantee) -> bool:
        return self <= other and self != other

    def __gt__(self, other: Guarantee) -> bool:
        return self >= other and self != other

    def __add__(self, other: Guarantee) -> Guarantee:
        """What both cost, spent one after the other.

        >>> Guarantee(mu=3) + Guarantee(mu=4)
        Guarantee(mu=5)
        """
        sums = [first + second for first, second in self._beside(other)]
        if self.epsilon is not None:
            return Guarantee(epsilon=sums[0], delta=sums[1])
        return Guarantee.of_parts(dict(zip(self.limits, sums, strict=True)))

    def _beside(self, other: Guarantee) -> list[tuple[Fraction, Fraction]]:
        """The amounts of both, pairwise; a pure epsilon is one with delta 0."""
        if not isinstance(other, Guarantee):
            raise ParameterError(f"a guarantee is compared with a guarantee, not with {type(other).__name__}")
        if self.epsilon is not None and other.epsilon is not None:
            return [(self.epsilon, other.epsilon), (self.delta, other.delta)]
        if [name for name, _ in self.parts] != [name for name, _ in other.parts]:
            raise ParameterError(
                f"{self} and {other} are of different currencies and have no order of their own; "
                "price an event in both, or state both in one currency"
            )
        return [(mine, value) for (_, mine), (_, value) in zip(self.parts, other.parts, strict=True)]

    def share(self, fraction: Typed) -> Guarantee:
        """A share of every amount that adds up: of epsilon and delta, of rho, of mu squared.

        >>> Guarantee(mu=1).share(Fraction(1, 4))
        Guarantee(mu=0.5)
        """
        part = exact("share", fraction)
        if not 0 <= part <= 1:
            raise ParameterError(f"share must be between 0 and 1, not {_plain(part)}")
        return Guarantee.of_parts({name: value * part for name, value in self.parts})

    def split(self, weights: Iterable[Typed]) -> list[Guarantee]:
        """Shares in proportion to the weights, which add up to the whole exactly.

        >>> print(*Guarantee(rho=0.1).split([1, 2, 2]), sep="; ")
        rho=0.02; rho=0.04; rho=0.04
        """
        parts = [_amount("weight", weight) for weight in weights]
        total = sum(parts, Fraction(0))
        if not total:
            raise ParameterError("weights must have at least one that is greater than 0")
        return [self.share(part / total) for part in parts]

    # --- events ---

    def price(self, event: Event, adjacency: Adjacency) -> Bound:
        """What an event costs in this currency, certified: epsilon at this delta, rho, mu, or a divergence.

        >>> from tacit.accounting import Gaussian
        >>> Guarantee(mu=1).price(Gaussian(2), Adjacency.ADD_REMOVE).upper
        0.5
        """
        return self._price(event, adjacency, at_most(self.delta))

    def _price(self, event: Event, adjacency: Adjacency, delta: float) -> Bound:
        if self.epsilon is not None:
            return cost_of(event, adjacency, delta)
        if self.rho is not None:
            return _accounted(event, adjacency).rho()
        if self.currency == MU:
            square = squared_mu(event, adjacency)
            # a pure step is priced by a bound, so nothing is known from below where there is one
            known = square and exact_rho(event, adjacency) is not None
            least = at_most(square / root(square)) if known else 0.0
            return Bound(least, at_least(root(square)), "closed form")
        found = _accounted(event, adjacency)
        bounds = {name: found.rdp(at_least(order_of(name))) for name, _ in self.parts}
        # the order whose limit is nearest, or exceeded most, is the one that decides
        name = max(bounds, key=lambda name: bounds[name].upper / max(float(self.limits[name]), 1e-300))
        worst = bounds[name]
        return Bound(worst.lower, worst.upper, f"{worst.method}, order {name.removeprefix(_PREFIX)}")

    def admits(self, event: Event, adjacency: Adjacency) -> bool:
        """Whether the event fits: its certified upper bound is at most this. Without a proof it does not.

        Stated floats are read as they were typed: `Guarantee(epsilon=1)` admits `PureDP(0.1)` ten times.

        >>> from tacit.accounting import Gaussian, Repeated
        >>> Guarantee(rho=0.125).admits(Gaussian(2), Adjacency.ADD_REMOVE)
        True
        >>> Guarantee(epsilon=1).admits(Repeated(PureDP(0.1), 10), Adjacency.ADD_REMOVE)
        True
        """
        if not isinstance(event, Event):
            raise ParameterError(
                f"event must be an event such as Gaussian(noise_multiplier=1.1), not {type(event).__name__}"
            )
        try:
            return self._admits(as_typed(event), adjacency)
        except AdjacencyError:
            raise  # a relation that the event says nothing about is a mistake, not a price
        except AccountingError:
            return False

    def _admits(self, event: Event, adjacency: Adjacency) -> bool:
        if self.epsilon is not None:
            known = stated_sum(event, adjacency)  # in fractions, where the event is made of stated guarantees
            if known is not None and known[0] <= self.epsilon and known[1] <= self.delta:
                return True
            upper = self.price(event, adjacency).upper
            return math.isfinite(upper) and Fraction(upper) <= self.epsilon
        if self.currency == MU:
            return squared_mu(event, adjacency) <= self.parts[0][1]
        rho = exact_rho(event, adjacency)  # a fraction: a budget of exactly the price admits it
        if rho is not None:
            return all(rho * (1 if name == RHO else order_of(name)) <= limit for name, limit in self.parts)
        found = _accounted(event, adjacency)
        for name, limit in self.parts:
            upper = (found.rho() if name == RHO else found.rdp(at_least(order_of(name)))).upper
            if not math.isfinite(upper) or Fraction(upper) > limit:
                return False
        return True

    def as_event(self, adjacency: Adjacency = Adjacency.ADD_REMOVE) -> Event:
        """What spending all of it guarantees, as an event.

        >>> Guarantee(rho=0.1).as_event(Adjacency.REPLACE_ONE)
        ZCDP(rho=Fraction(1, 10), adjacency=Adjacency.REPLACE_ONE)
        """
        if self.epsilon is not None:
            if self.pure:
                return PureDP(self.epsilon, adjacency=adjacency)
            return ApproxDP(self.epsilon, self.delta, adjacency=adjacency)
        if self.rho is not None:
            return ZCDP(self.rho, adjacency=adjacency)
        if self.currency == MU:
            return GDP(root(self.parts[0][1]), adjacency=adjacency)
        # the event keeps floats: the order goes down and the divergence up, both to the safe side
        orders = tuple((at_most(order_of(name)), at_least(value)) for name, value in self.parts)
        return RenyiDP(orders, adjacency=adjacency)

    # --- noise ---

    @property
    def noise_multiplier(self) -> Fraction | None:
        """The noise multiplier of one Gaussian release that costs all of it; None where that has no price.

        >>> Guarantee(rho=0.125).noise_multiplier, Guarantee(epsilon=1).noise_multiplier
        (Fraction(2, 1), None)
        """
        if self.pure or self.currency == RENYI:
            return None
        self.positive()
        if self.rho is not None:
            return root(1 / (2 * self.rho))
        if self.currency == MU:
            return root(1 / self.parts[0][1])
        return _sigma(float(self.epsilon or 0), float(self.delta))

    @property
    def laplace_epsilon(self) -> Fraction | None:
        """The epsilon of one Laplace release that costs all of it; rho = eps^2 / 2 (Bun, Steinke 2016, 1.4).

        >>> Guarantee(rho=0.125).laplace_epsilon
        Fraction(1, 2)
        """
        if self.epsilon is not None:
            return self.epsilon
        return None if self.rho is None else 2 * self.rho / root(2 * self.rho) if self.rho else self.rho

    @property
    def gaussian_mu(self) -> float:
        """The total mu of Gaussian noise that it allows, as a float; `settle` has the last word.

        >>> round(Guarantee(epsilon=1, delta=1e-5).gaussian_mu, 5)
        0.26805
        """
        amounts = self.floats
        if amounts.rho is not None:
            return mu_from_rho(amounts.rho)
        if amounts.mu is not None:
            return amounts.mu
        if self.pure:
            raise ParameterError(
                "delta is 0, and Gaussian noise has no pure epsilon; give a positive delta or another solver"
            )
        if amounts.epsilon is None or amounts.delta is None:
            raise ParameterError(
                "the noise of a guarantee at Rényi orders is not worked out here; give epsilon with "
                "delta, rho or mu"
            )
        return mu_for(amounts.epsilon, amounts.delta)

    def typed_price(self, event: Event, adjacency: Adjacency) -> Bound:
        """As `price`, at the delta of `floats`: what a fitted model reports, at the float that was typed."""
        return self._price(event, adjacency, self.floats.delta or 0.0)

    def keeps(self, event: Event, adjacency: Adjacency) -> bool:
        """As `admits`, in floats and with `MARGIN` to spare: what a solver may plan for a ledger."""
        amounts = self.floats
        limit = next((x for x in (amounts.epsilon, amounts.rho, amounts.mu) if x is not None), None)
        if limit is None:
            raise ParameterError("a solver needs epsilon with delta, rho or mu, not Rényi orders")
        return self.typed_price(event, adjacency).upper * (1 + MARGIN) <= limit

    def settle(self, make: Callable[[float], Event], adjacency: Adjacency) -> tuple[Event, float]:
        """`make(mu)` and mu, for the largest mu, up to rounding, whose event `keeps` the guarantee. The price
        must fall as mu does.

        A solver made of Gaussian releases spends a total mu^2, the sum of 1/multiplier^2 over its releases
        (Dong, Roth, Su 2022, Corollary 3.3). What is published as its price is then at most what was asked
        for, whatever was rounded on the way.

        >>> from tacit.accounting import Gaussian
        >>> whole = Guarantee(epsilon=1, delta=1e-5)
        >>> event, mu = whole.settle(lambda mu: Gaussian(1 / mu), Adjacency.ADD_REMOVE)
        >>> 0.9999 < whole.price(event, Adjacency.ADD_REMOVE).upper <= 1
        True
        """
        mu, step = self.positive().gaussian_mu, 1e-12
        event = make(mu)
        while not self.keeps(event, adjacency):
            mu, step = mu * (1 - step), min(2 * step, 0.25)
            if mu <= 0 or not math.isfinite(mu):  # pragma: no cover - brackets are far narrower
                raise ParameterError("no amount of noise keeps this guarantee")
            event = make(mu)
        return event, mu

    # --- printing ---

    @property
    def words(self) -> str:
        """A few digits for people: 'epsilon 0.1, delta 1e-06'. Cached questions and release records hold this
        text, so it stays as it is.

        >>> Guarantee(epsilon=0.1, delta=1e-6).words
        'epsilon 0.1, delta 1e-06'
        """
        if self.currency == MU:
            return f"mu {float(self.mu or 0):g}"
        return ", ".join(f"{_LONG.get(name, name)} {float(value):g}" for name, value in self.parts)

    def __str__(self) -> str:
        return ", ".join(f"{_SHORT.get(name, name)}={_plain(value)}" for name, value in self._shown())

    def __repr__(self) -> str:
        return f"Guarantee({self.arguments})"

    @property
    def arguments(self) -> str:
        """What stands between the brackets of `repr`."""
        if self.currency == RENYI:
            orders = (f"{name.removeprefix(_PREFIX)}: {_plain(value)}" for name, value in self.parts)
            return f"renyi={{{', '.join(orders)}}}"
        return ", ".join(f"{_LONG.get(name, name)}={_plain(value)}" for name, value in self._shown())

    def _shown(self) -> tuple[tuple[str, Fraction], ...]:
        """The parts, with mu itself where it is a fraction."""
        mu = self.mu
        return self.parts if mu is None or mu**2 != self.parts[0][1] else ((MU, mu),)


def order_of(part: str) -> Fraction:
    """The Rényi order of a part's name.

    >>> order_of("renyi:5/2")
    Fraction(5, 2)
    """
    return Fraction(part.removeprefix(_PREFIX))


@lru_cache(maxsize=512)
def cost_of(event: Event, adjacency: Adjacency, delta: float, *, null_record: bool = False) -> Bound:
    """The epsilon of an event at delta, remembered: a question is priced when planned, booked and answered.

    One release with Gaussian or Laplace noise has a closed form; anything else is worked out by `account`.

    >>> from tacit.accounting import Gaussian
    >>> round(cost_of(Gaussian(2), Adjacency.ADD_REMOVE, 1e-6).upper, 6)
    2.254085
    """
    known = one_release(event, adjacency, delta, null_record=null_record)
    return known if known is not None else _accounted(event, adjacency, null_record).epsilon(delta)


def _accounted(event: Event, adjacency: Adjacency, null_record: bool = False) -> Cost:
    """The accountant, which is loaded for what has no closed form."""
    from tacit.accounting.account import account

    return account(event, adjacency, null_record=null_record)


@lru_cache(maxsize=512)
def _sigma(epsilon: float, delta: float) -> Fraction:
    return Fraction(sigma_for(epsilon, delta))


def _orders(renyi: Mapping[Typed, Typed]) -> tuple[tuple[str, Fraction], ...]:
    if not isinstance(renyi, Mapping) or not renyi:
        raise ParameterError(
            "renyi is empty; give at least one order with its epsilon, such as {2: 0.1, 8: 0.5}"
        )
    found: dict[Fraction, Fraction] = {}
    for order, value in renyi.items():
        alpha = exact("order", order)
        if not alpha > 1:
            raise ParameterError(f"order must be greater than 1, not {order}")
        if alpha in found:
            raise ParameterError(f"order {order} is given twice in renyi")
        found[alpha] = _amount(f"renyi[{order}]", value)
    return tuple((f"{_PREFIX}{alpha}", found[alpha]) for alpha in sorted(found))


def _amount(name: str, value: object) -> Fraction:
    amount = exact(name, value)
    if amount < 0:
        raise ParameterError(f"{name} must be zero or more, not {value}")
    return amount


def _typed(name: str, value: Fraction) -> float:
    """The float that prints as this number, or else the largest float below it."""
    try:
        near = float(value)
    except OverflowError:
        near = math.inf
    if not math.isfinite(near) or (value > 0 and near == 0):
        raise ParameterError(f"{name} is outside the range of floating point; rescale it")
    return near if exact(name, near) == value else at_most(value)


def _plain(value: Fraction) -> str:
    """A decimal where one is exact, else the fraction."""
    short = shown(value, digits=17)
    return short if Fraction(short) == value else str(value)
