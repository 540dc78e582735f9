"""Several measurements of one data set: all of it at once, or each a part of it.

`compose` runs a fixed batch on the same data; its price is the composition of theirs. `parallel` splits the rows by public keys and
runs one measurement on each part; its price is that of the worst way a change of the data can be spread over the parts.

>>> from tacit.accounting import PureDP
>>> from tacit.calculus import AddRemove, Categories, Measurement, ReplaceOne, Rows, Space
>>> def noisy(epsilon):
...     return Measurement(Space(Rows(Categories("ab")), AddRemove()), len, lambda d: PureDP(epsilon * d), "demo", proof="by fiat")
>>> compose(noisy(1), noisy(2)).event(1)
Composed(PureDP(epsilon=1), PureDP(epsilon=2))
>>> children = parallel(partition_by(["a", "b"]), {"a": noisy(1), "b": noisy(2)})
>>> (Space(Rows(Categories("ab")), AddRemove()) >> children).event(1)
PureDP(epsilon=Fraction(2, 1))
>>> (Space(Rows(Categories("ab")), ReplaceOne()) >> children).event(1)
PureDP(epsilon=Fraction(4, 1), adjacency=Adjacency.REPLACE_ONE)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tacit.accounting import (
    GDP,
    ZCDP,
    Adjacency,
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    Group,
    Leaf,
    NonPrivate,
    NoOp,
    PureDP,
    Repeated,
    Worst,
    exact_pure,
    exact_rho,
)
from tacit.calculus.chain import Measurement, Space, Step
from tacit.calculus.collection_domains import Records, Rows
from tacit.calculus.datasets import key, keys, take
from tacit.calculus.domains import Integers, Lattice, Reals
from tacit.calculus.errors import CalculusError, DomainError, MetricError
from tacit.calculus.metrics import AddRemove, Hamming, ReplaceOne
from tacit.calculus.rows import records_domain, rows_domain
from tacit.exact import root
from tacit.parameters import Number

_WAYS = 64  # ways to spread changes over the parts that are priced one by one


def compose(*measurements: Measurement) -> Measurement:
    """Several measurements of the same data, fixed beforehand; the answer is the tuple of theirs."""
    if not measurements:
        raise CalculusError("compose needs at least one measurement")
    first = measurements[0].input
    if any(m.input != first for m in measurements):
        raise DomainError("measurements of different inputs cannot be composed; bind them all to one space, or use batch(*steps)")
    unproved = tuple(name for m in measurements for name in m.unproved)
    return Measurement(
        first,
        lambda data: tuple(m.function(data) for m in measurements),
        lambda d: _together([m.privacy(d) for m in measurements]),
        f"compose({', '.join(m.name for m in measurements)})",
        None if unproved else "composition of its parts",
        unproved=unproved,
    )


def _together(events: list[Event]) -> Event:
    spent = [event for event in events if not isinstance(event, NoOp)]
    return NoOp() if not spent else spent[0] if len(spent) == 1 else Composed(*spent)


@dataclass(frozen=True)
class Batch(Step):
    """Several steps that each end in a measurement, waiting for one space."""

    steps: tuple[Step, ...]

    def bind(self, space: Space) -> Measurement:
        return compose(*(_measurement(step, space) for step in self.steps))


def _measurement(step: Step, space: Space) -> Measurement:
    plan = step.bind(space)
    if not isinstance(plan, Measurement):
        raise CalculusError(f"{plan.name} releases nothing; end it with a mechanism such as laplace(scale=2)")
    return plan


def batch(*steps: Step) -> Batch:
    """A batch as a step: `clamp(0, 100) >> batch(count() >> laplace(scale=2), total() >> laplace(scale=200))`."""
    if not steps:
        raise CalculusError("batch needs at least one step")
    return Batch(steps)


@dataclass(frozen=True)
class Partition:
    """Rows split by public keys: by a column of a table, or by the value itself."""

    keys: tuple[Hashable, ...]
    column: str | None = None

    def named(self, domain: Rows) -> list[Hashable]:
        """Each key as the rows of this domain hold it; refused where two keys become one value.

        Both would be given that value's rows, so the parts would not be disjoint.
        """
        element = domain.element
        if self.column is not None:
            assert isinstance(element, Records), "a column to split by is checked when the plan is made"
            element = element[self.column]
        numbers = isinstance(element, (Integers, Lattice, Reals))
        found = keys(element.enforce(list(self.keys))) if numbers else [key(k) for k in self.keys]
        if len(set(found)) != len(found):
            merged = tuple(str(k) for k, place in zip(self.keys, found, strict=True) if found.count(place) > 1)
            raise DomainError(code="keys-merged", keys=merged, domain=str(element))
        return found

    def split(self, data: Any, domain: Rows) -> dict[Hashable, Any]:
        """The rows of each key. Rows with another key go nowhere, and a key without rows has an empty part."""
        column = data if self.column is None else data[self.column]
        named = self.named(domain)
        places: dict[Hashable, list[int]] = {k: [] for k in named}
        for i, found in enumerate(keys(column)):
            if found in places:
                places[found].append(i)
        return {public: take(data, places[k]) for public, k in zip(self.keys, named, strict=True)}


def partition_by(keys: Iterable[Hashable], column: str | None = None) -> Partition:
    """Split by these public keys, which are never read from the data.

    Keys are compared as the domain of the rows holds them: 1.2 and 1.4 are one whole number, and are refused.

    >>> from tacit.calculus import Categories, Rows
    >>> partition_by(["a", "z"]).split(["a", "b", "a"], Rows(Categories("ab")))
    {'a': ['a', 'a'], 'z': []}
    """
    given = tuple(keys)
    if not given:
        raise DomainError("keys is empty; list the public keys to split by")
    if len(set(given)) != len(given):
        raise DomainError("keys lists a key twice")
    return Partition(given, column)


@dataclass(frozen=True)
class Parallel(Step):
    """One measurement on each part of a partition."""

    partition: Partition
    children: tuple[tuple[Hashable, Step], ...]

    def bind(self, space: Space) -> Measurement:
        rows = rows_domain(space, "parallel")
        if self.partition.column is not None and self.partition.column not in records_domain(space, "parallel"):
            raise DomainError(f"there is no column {self.partition.column!r} to split by")
        if isinstance(rows.element, Records) and self.partition.column is None:
            raise DomainError(f"name the column to split a table by: partition_by(keys, column), one of {', '.join(rows.element.names)}")
        if not isinstance(space.metric, (AddRemove, ReplaceOne, Hamming)):
            raise MetricError(f"a person's rows may lie in several parts under {space.metric}; put cap_rows(column, most) before parallel")
        self.partition.named(rows)  # refuses keys that the domain makes one
        moves = 1 if isinstance(space.metric, AddRemove) else 2
        part = Space(Rows(rows.element), AddRemove())
        plans = {k: _measurement(step, part) for k, step in self.children}
        unproved = tuple(name for plan in plans.values() for name in plan.unproved)
        split = self.partition.split

        def run(data: Any) -> dict[Hashable, Any]:
            return {k: plans[k].function(found) for k, found in split(data, rows).items()}

        def price(distance: Number) -> Event:
            return worst_spread([plan.event for plan in plans.values()], math.floor(moves * distance))

        name = f"parallel({len(plans)} parts: {', '.join(dict.fromkeys(plan.name for plan in plans.values()))})"
        proof = None if unproved else "parallel composition (McSherry 2009); rows that move are charged to both parts"
        return Measurement(space, run, price, name, proof, unproved=unproved)


def parallel(partition: Partition, children: Mapping[Any, Step] | Step) -> Parallel:
    """Run one measurement on each part of the data; children are given for each key, or one for all.

    Each child sees only the rows of its key, as rows that come and go. Under add/remove a changed row is in one part, so the price is that
    of the most expensive child. Under replace-one a row may be exchanged within a part, which that child sees as one row gone
    and one come (distance 2), or move from one part to another (distance 1 in each of two): the price is the worse of the most expensive
    child at distance 2 and of any two children composed. At larger distances all ways to spread the changes are compared.
    """
    given = children if isinstance(children, Mapping) else {k: children for k in partition.keys}
    if set(given) != set(partition.keys):
        raise DomainError("children must name exactly the keys of the partition; a key without one would be dropped unseen")
    return Parallel(partition, tuple((k, given[k]) for k in partition.keys))


def worst_spread(prices: list[Callable[[Number], Event]], changes: int) -> Event:
    """The price of the worst way to spread `changes` rows that come or go over parts with these privacy maps.

    Where one event is the answer it is returned as it is; otherwise exact prices are compared, pure or zCDP, and what they come to
    is a guarantee. Events without such prices become the `Worst` of all ways, unless there are too many.
    """
    if changes == 0:
        return NoOp()
    maps = [[NoOp(), *(price(j) for j in range(1, changes + 1))] for price in prices]
    alike = all(events == maps[0] for events in maps)
    if alike and (changes == 1 or len(maps) == 1):
        return maps[0][changes]
    if any(isinstance(event, NonPrivate) for events in maps for event in events):
        return NonPrivate()
    if alike:  # then as many equal parts as changes can be told apart, and no more
        maps = maps[:changes]
    gaussian = all(isinstance(event, (Gaussian, GDP, NoOp)) for events in maps for event in events)
    pure = _worst_sum(maps, changes, lambda event: exact_pure(_plain(event), Adjacency.ADD_REMOVE))
    if pure is not None:
        return PureDP(pure)
    rho = _worst_sum(maps, changes, lambda event: exact_rho(_plain(event), Adjacency.ADD_REMOVE))
    if rho is not None:
        # Gaussian trade-offs are ordered by mu alone, so there the whole curve is known, not only its rho. Rounded up.
        return GDP(root(2 * rho)) if gaussian else ZCDP(rho)
    mixed = _worst_sum(maps, changes, lambda event: exact_rho(_plain(event, concentrated=True), Adjacency.ADD_REMOVE))
    if mixed is not None:
        return ZCDP(mixed)
    ways = _spreads(maps, changes)
    if ways is not None:
        return Worst(*ways)
    raise CalculusError(
        "the parts' prices cannot be compared: their events have neither exact pure nor exact zCDP prices, and there are more than "
        f"{_WAYS} ways to spread the changes. Give every part the same measurement, or use mechanisms with such prices: Laplace or "
        "Gaussian noise, PureDP, ZCDP"
    )


def _spreads(maps: list[list[Event]], changes: int) -> list[Event] | None:
    """What can be touched together, one event for each way to spread the changes; None where there are too many ways."""
    ways: set[tuple[int, tuple[Event, ...]]] = {(0, ())}
    for events in maps:
        ways = {
            (used + j, tuple(sorted((*spent, events[j]), key=repr)) if j else spent)
            for used, spent in ways
            for j in range(changes - used + 1)
        }
        if len(ways) > _WAYS:
            return None
    return [_together(list(spent)) for used, spent in sorted(ways, key=repr) if used == changes]


def _worst_sum(maps: list[list[Event]], changes: int, exact: Callable[[Event], Fraction | None]) -> Fraction | None:
    """The largest sum of one price from each part, at distances that add up to `changes`; None where a price is not known."""
    best = [Fraction(0)] * (changes + 1)
    for events in maps:
        prices = []
        for event in events:
            found = exact(event)
            if found is None:
                return None
            prices.append(found)
        best = [max(best[n - j] + prices[j] for j in range(n + 1)) for n in range(changes + 1)]
    return best[changes]


def _plain(event: Event, concentrated: bool = False) -> Event:
    """The same tree with discrete noise replaced by the guarantee it is known to have; pure guarantees by their zCDP if wanted."""
    match event:
        case DiscreteLaplace():
            return _plain(PureDP(event.sensitivity / Fraction(event.scale), adjacency=event.adjacency), concentrated)
        case DiscreteGaussian():
            # Canonne, Kamath and Steinke 2020, theorem 4
            return ZCDP((event.sensitivity / Fraction(event.sigma)) ** 2 / 2, adjacency=event.adjacency)
        case Leaf() if concentrated:
            pure = exact_pure(event, event.adjacency)
            # Bun and Steinke 2016, proposition 1.4
            return event if pure is None else ZCDP(pure**2 / 2, adjacency=event.adjacency)
        case Composed():
            return Composed(*(_plain(part, concentrated) for part in event.events))
        case Repeated():
            return Repeated(_plain(event.event, concentrated), event.count)
        case Group():
            return Group(_plain(event.event, concentrated), event.size)
    return event
