"""What a model may cost: epsilon and delta, or rho, turned into one total of Gaussian noise and checked against the certified accountant.

A solver made of Gaussian releases spends a total mu^2, the sum of 1/multiplier^2 over its releases (Dong, Roth, Su 2022, Corollary 3.3). A
`Promise` says how large that total may be and hands it out in shares; `settle` makes sure that what is published as the price is at most
what was promised, whatever was rounded on the way.

>>> promise = Promise.of(epsilon=1, delta=1e-5)
>>> round(promise.mu, 5)
0.26805
>>> from tacit.accounting import Composed
>>> event, mu = promise.settle(lambda mu: Composed(Gaussian(1 / (mu * 0.6)), Gaussian(1 / (mu * 0.8))))
>>> 0.9999 < promise.price(event).upper <= 1
True
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tacit.accounting import Adjacency, Bound, Event, Gaussian, ParameterError, PureDP, account
from tacit.accounting.gaussian import mu_for, mu_from_rho
from tacit.accounting.parameters import Number, nonnegative, positive

MARGIN = 1e-11  # the book may round a price up by 1e-12 before it compares; a budget of exactly the promise must still admit it


def relation(adjacency: str | Adjacency) -> Adjacency:
    """The neighbouring relation of an estimator: "add-remove" or "replace-one".

    >>> relation("replace-one")
    Adjacency.REPLACE_ONE
    """
    known = {"add-remove": Adjacency.ADD_REMOVE, "replace-one": Adjacency.REPLACE_ONE}
    if isinstance(adjacency, Adjacency) and adjacency in known.values():
        return adjacency
    if isinstance(adjacency, str) and adjacency in known:
        return known[adjacency]
    raise ParameterError(f"adjacency must be 'add-remove' or 'replace-one', not {adjacency!r}")


@dataclass(frozen=True)
class Promise:
    """A target: epsilon with delta (delta 0 for pure privacy), or rho, under one neighbouring relation."""

    adjacency: Adjacency
    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None

    @classmethod
    def of(
        cls,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        rho: Number | None = None,
        adjacency: str | Adjacency = Adjacency.ADD_REMOVE,
    ) -> Promise:
        """A checked promise: exactly one of epsilon (with delta) and rho, and no defaults."""
        stated = relation(adjacency)
        if (epsilon is None) == (rho is None):
            raise ParameterError("give either epsilon (with delta; delta=0 for pure privacy) or rho, and not both: there is no default")
        if rho is not None:
            if delta is not None:
                raise ParameterError("delta goes with epsilon; leave it out beside rho")
            return cls(stated, rho=_below(positive("rho", rho)))
        if delta is None:
            raise ParameterError("delta is missing: give delta, such as 1e-6 and well below one over the number of people, or 0")
        slack = _below(nonnegative("delta", delta))
        if slack >= 1:
            raise ParameterError(f"delta must be at least 0 and below 1, not {delta}")
        return cls(stated, epsilon=_below(positive("epsilon", epsilon)), delta=slack)

    @property
    def pure(self) -> bool:
        """Whether no delta is allowed, so that Gaussian noise is out of the question."""
        return self.delta == 0

    @property
    def mu(self) -> float:
        """The total of Gaussian noise that the promise allows, before the accountant has the last word."""
        if self.rho is not None:
            return mu_from_rho(self.rho)
        if self.pure:
            raise ParameterError("delta is 0, and Gaussian noise has no pure epsilon; give a positive delta or another solver")
        assert self.epsilon is not None and self.delta is not None
        return mu_for(self.epsilon, self.delta)

    def price(self, event: Event) -> Bound:
        """What an event costs in the currency of the promise, certified."""
        found = account(event, self.adjacency)
        if self.rho is not None:
            return found.rho()
        assert self.delta is not None
        return found.epsilon(self.delta)

    def keeps(self, event: Event) -> bool:
        """Whether the certified upper bound is within the promise."""
        limit = self.rho if self.rho is not None else self.epsilon
        assert limit is not None
        return self.price(event).upper * (1 + MARGIN) <= limit

    def settle(self, make: Callable[[float], Event]) -> tuple[Event, float]:
        """make(mu), and mu: the largest one, up to rounding, whose event keeps the promise. The price falls as mu does."""
        mu, step = self.mu, 1e-12
        event = make(mu)
        while not self.keeps(event):
            mu, step = mu * (1 - step), min(2 * step, 0.25)
            if mu <= 0 or not math.isfinite(mu):  # pragma: no cover - the accountant's brackets are far narrower
                raise ParameterError("no amount of noise keeps this promise")
            event = make(mu)
        return event, mu

    def stated(self, multiplier: float) -> Gaussian:
        """The event of one Gaussian release under this relation."""
        return Gaussian(multiplier, adjacency=self.adjacency)

    def pure_event(self) -> PureDP:
        """The whole promise as one pure guarantee."""
        assert self.epsilon is not None
        return PureDP(self.epsilon, adjacency=self.adjacency)


def _below(value: Number) -> float:
    """The largest float that does not exceed the number."""
    result = float(value)
    return math.nextafter(result, 0.0) if result > value else result
