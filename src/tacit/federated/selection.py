"""Which clients take part in a round, and what that choice is worth.

The object that draws a cohort is the one that prices it: `cohort` draws and `event` wraps the price of one round
as seen by whoever sees only the models. Nothing is credited against the server, which knows the cohort. A choice
that no theorem covers gets no credit: its rounds are priced as if every client took part as often as it may.

>>> from tacit.accounting import Gaussian
>>> PoissonClients(population=10_000, expected=100).event(Gaussian(1), rounds=5, participations=5)
Repeated(event=Sampled(scheme=Poisson(rate=Fraction(1, 100)), event=Gaussian(noise_multiplier=1)), count=5)
>>> Arriving(expected=100).event(Gaussian(1), rounds=5, participations=2)
Repeated(event=Gaussian(noise_multiplier=1), count=2)

Guarantee
    Statement: all rounds of a run cost at most `event` for whoever sees the models but not the cohorts.
    Conditions: sums with a fixed public divisor. PoissonClients: the coins are thrown by `cohort`, over a register
    of the population. FixedCohort: the size of the population is public, and the relation is the replacement of one
    client. CheckIns: every client draws its own slot, and *all* that arrive in a slot are added up.
    Proved in: the accountant's theorems for `Sampled`. Random check-ins in which one arrival of a slot is used and
    the others are sent away (Balle, Kairouz, McMahan, Thakkar, Thakurta 2020) are not random allocation: an update
    then replaces another one. This variant gets no credit here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import (
    Adjacency,
    Event,
    Poisson,
    RandomAllocation,
    Repeated,
    Sampled,
    WithoutReplacement,
)
from tacit.errors import ParameterError
from tacit.noise import bernoulli, permutation, uniform_integers
from tacit.parameters import count

Ids = Sequence[int]


@dataclass(frozen=True)
class CohortRule:
    """How the clients of a round are chosen. `expected` is public and divides the sums."""

    expected: int

    #: Whether a sampling theorem covers the choice.
    credited = False
    adjacency = Adjacency.ADD_REMOVE

    def __post_init__(self) -> None:
        object.__setattr__(self, "expected", count("expected", self.expected))

    def cohort(self, ids: Ids, turn: int) -> list[int]:
        """The clients that are asked in round `turn` (from 1), out of those that can be reached."""
        raise NotImplementedError

    def event(self, step: Event, *, rounds: int, participations: int) -> Event:
        """The price of a run for whoever sees the models; `step` is the price of one round."""
        return repeated(step, min(rounds, participations))

    def participations(self, rounds: int) -> int:
        """How often one client can take part, by the rule alone."""
        return rounds

    def to_record(self) -> dict[str, Any]:
        """A JSON-able form; `rule_from_record` reads it."""
        return {"rule": type(self).__name__, **vars(self)}


def repeated(event: Event, times: int) -> Event:
    """An event some times, without a node for once.

    >>> from tacit.accounting import Gaussian
    >>> repeated(Gaussian(1), 1)
    Gaussian(noise_multiplier=1)
    """
    return event if times == 1 else Repeated(event, times)


@dataclass(frozen=True)
class Everyone(CohortRule):
    """All clients in every round, as between silos."""

    def cohort(self, ids: Ids, turn: int) -> list[int]:
        return sorted(ids)


@dataclass(frozen=True)
class Arriving(CohortRule):
    """Whoever is there, at most `over` times as many as are needed: nothing is random, so nothing is credited.

    With `over` above 1 more clients are asked than a round needs, and the first `expected` that answer count.
    """

    over: float = 1.0

    def cohort(self, ids: Ids, turn: int) -> list[int]:
        return list(ids)[: max(1, round(self.expected * self.over))]


@dataclass(frozen=True)
class PoissonClients(CohortRule):
    """Every client of a known population takes part with probability expected / population, by a coin of its own."""

    population: int = 0
    credited = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if count("population", self.population) < self.expected:
            raise ParameterError(f"expected must be at most population ({self.population}), not {self.expected}")

    @property
    def rate(self) -> Fraction:
        """The chance of one client in one round."""
        return Fraction(self.expected, self.population)

    def cohort(self, ids: Ids, turn: int) -> list[int]:
        known = sorted(ids)
        if len(known) > self.population:
            raise ParameterError(f"{len(known)} clients are registered, more than population={self.population}")
        return [client for client, coin in zip(known, bernoulli(self.rate, len(known)), strict=True) if coin]

    def event(self, step: Event, *, rounds: int, participations: int) -> Event:
        return repeated(Sampled(Poisson(self.rate), step), rounds)


@dataclass(frozen=True)
class FixedCohort(CohortRule):
    """Exactly `expected` clients of a population of public size, uniformly; one client replaces another."""

    population: int = 0
    credited = True
    adjacency = Adjacency.REPLACE_ONE

    def __post_init__(self) -> None:
        super().__post_init__()
        if count("population", self.population) < self.expected:
            raise ParameterError(f"expected must be at most population ({self.population}), not {self.expected}")

    def cohort(self, ids: Ids, turn: int) -> list[int]:
        known = sorted(ids)
        if len(known) != self.population:
            raise ParameterError(f"{len(known)} clients are registered, not population={self.population}")
        return sorted(known[place] for place in permutation(self.population)[: self.expected])

    def event(self, step: Event, *, rounds: int, participations: int) -> Event:
        return repeated(Sampled(WithoutReplacement(self.population, self.expected), step), rounds)


@dataclass(frozen=True)
class CheckIns(CohortRule):
    """Every client draws one of `slots` rounds by itself and shows up then; all that show up are added up.

    After these rounds it draws again. The server asks everyone in every round, and the client's own book answers in
    the drawn one alone.
    """

    slots: int = 1
    credited = True

    def __post_init__(self) -> None:
        super().__post_init__()
        count("slots", self.slots)

    def slot(self) -> int:
        """The round of a block, from 1, in which a client takes part; drawn on the device, and kept in its book."""
        return 1 + int(uniform_integers(self.slots))

    def slots_of(self, people: int) -> NDArray[np.int64]:
        """The same for many clients at once, for simulations."""
        return 1 + np.asarray(uniform_integers(self.slots, people), dtype=np.int64)

    def place(self, turn: int) -> tuple[int, int]:
        """The block of a round, and its place in the block from 1.

        >>> CheckIns(10, slots=4).place(6)
        (1, 2)
        """
        return (turn - 1) // self.slots, (turn - 1) % self.slots + 1

    def cohort(self, ids: Ids, turn: int) -> list[int]:
        return sorted(ids)

    def participations(self, rounds: int) -> int:
        return -(-rounds // self.slots)

    def event(self, step: Event, *, rounds: int, participations: int) -> Event:
        return repeated(Sampled(RandomAllocation(self.slots), step), -(-rounds // self.slots))


class Separation:
    """The server's memory of who took part when: whoever was there less than `least` rounds ago is not asked.

    It saves messages only. What counts is the book on the device, which refuses by itself.

    >>> memory = Separation(3)
    >>> memory.admitted([1, 2], turn=1), memory.admitted([1, 3], turn=2), memory.admitted([1, 3], turn=4)
    ([1, 2], [3], [1])
    """

    def __init__(self, least: int) -> None:
        self.least = count("least", least)
        self._last: dict[int, int] = {}

    def admitted(self, ids: Ids, turn: int) -> list[int]:
        """Those of the clients that may take part in this round, which is noted."""
        free = [client for client in ids if turn - self._last.get(client, -self.least) >= self.least]
        self._last.update(dict.fromkeys(free, turn))
        return free


RULES: dict[str, Callable[..., CohortRule]] = {
    rule.__name__: rule for rule in (Everyone, Arriving, PoissonClients, FixedCohort, CheckIns)
}


def rule_from_record(record: dict[str, Any]) -> CohortRule:
    """The rule that `to_record` wrote.

    >>> rule_from_record(PoissonClients(10, population=100).to_record())
    PoissonClients(expected=10, population=100)
    """
    given = dict(record)
    name = given.pop("rule", None)
    if name not in RULES:
        raise ParameterError(f"the rule of choice must be one of {', '.join(RULES)}, not {name!r}")
    return RULES[name](**given)
