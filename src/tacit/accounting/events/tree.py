"""Events: immutable records of what was done to the data. A tree of them is the price; nothing stores a bare epsilon.

Structure lives here; `leaves` has the mechanisms and the guarantees, `schemes` the samplers.

>>> from fractions import Fraction
>>> from tacit.accounting.events.leaves import Gaussian
>>> from tacit.accounting.events.schemes import Poisson
>>> Repeated(Sampled(Poisson(Fraction(1, 100)), Gaussian(1.1)), 1000)
Repeated(event=Sampled(scheme=Poisson(rate=Fraction(1, 100)), event=Gaussian(noise_multiplier=1.1)), count=1000)
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from tacit.accounting.adjacency import Adjacency
from tacit.accounting.events.schemes import Scheme
from tacit.errors import AdjacencyError, ParameterError
from tacit.parameters import Number, count, nonnegative, positive


@dataclass(frozen=True, repr=False, eq=False)
class Event:
    """Something done to the data. Subclasses are plain records; `account` prices them."""

    @property
    def stated(self) -> Adjacency | None:
        """The relation this event is stated for; None where it holds for every relation."""
        raise NotImplementedError

    # Equality is written once, for all events: `dataclass` would compile it again for each of them whenever a process starts.
    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def __repr__(self) -> str:
        parts = []
        for f in sorted(fields(self), key=lambda f: f.name == "adjacency"):
            value = getattr(self, f.name)
            if f.name == "adjacency" and value == f.default:
                continue
            parts.append(f"{f.name}={value!r}")
        return f"{type(self).__name__}({', '.join(parts)})"


def _event(name: str, value: object) -> Event:
    if not isinstance(value, Event):
        raise ParameterError(f"{name} must be an event such as Gaussian(noise_multiplier=1.1), not {type(value).__name__}")
    return value


@dataclass(frozen=True, repr=False, eq=False)
class Leaf(Event):
    """One mechanism or guarantee, with the relation its sensitivity is measured under."""

    adjacency: Adjacency = field(default=Adjacency.ADD_REMOVE, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.adjacency, Adjacency):
            raise ParameterError(f"adjacency must be an Adjacency such as Adjacency.ADD_REMOVE, not {self.adjacency!r}")
        self.validate()

    def validate(self) -> None:
        """Normalise and check the parameters; called once, at construction."""

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    @property
    def stated(self) -> Adjacency | None:
        return self.adjacency


def _children(events: tuple[Event, ...], fix: str) -> tuple[Event, ...]:
    """The events of a node, all stated for one relation."""
    if len(events) == 1 and isinstance(events[0], (list, tuple)):
        events = tuple(events[0])
    if not events:
        raise ParameterError(f"events is empty; {fix}, or write NoOp() if nothing touches the data")
    checked = tuple(_event("events", e) for e in events)
    relations = sorted({e.stated for e in checked if e.stated is not None}, key=lambda a: a.value)
    if len(relations) > 1:
        raise AdjacencyError(
            f"events stated for different relations cannot be composed: {', '.join(r.value for r in relations)}. "
            "Restate each for one relation, for example Gaussian(..., adjacency=Adjacency.REPLACE_ONE) with the sensitivity "
            "measured under that relation."
        )
    return checked


@dataclass(frozen=True, repr=False, eq=False)
class Composed(Event):
    """Several events on the same data, in any order; later ones may depend on the outputs of earlier ones.

    An empty composition is refused: it is nearly always a plan that lost its steps. Write `NoOp()` for nothing.

    >>> from tacit.accounting.events.leaves import Gaussian, Laplace
    >>> Composed(Gaussian(2), Laplace(3))
    Composed(Gaussian(noise_multiplier=2), Laplace(noise_multiplier=3))
    """

    events: tuple[Event, ...]

    def __init__(self, *events: Event) -> None:
        object.__setattr__(self, "events", _children(events, "compose at least one event"))

    def __repr__(self) -> str:
        return f"Composed({', '.join(map(repr, self.events))})"

    @property
    def stated(self) -> Adjacency | None:
        return next((e.stated for e in self.events if e.stated is not None), None)


@dataclass(frozen=True, repr=False, eq=False)
class Worst(Event):
    """One of several events, and nobody may know which: a changed record touches at most one of them, as with disjoint parts of the data.

    At every epsilon it costs as much as the dearest of them there, and composes as such.

    >>> from tacit.accounting.events.leaves import Gaussian, Laplace
    >>> Worst(Gaussian(2), Laplace(3))
    Worst(Gaussian(noise_multiplier=2), Laplace(noise_multiplier=3))
    """

    events: tuple[Event, ...]

    def __init__(self, *events: Event) -> None:
        object.__setattr__(self, "events", _children(events, "choose from at least one event"))

    def __repr__(self) -> str:
        return f"Worst({', '.join(map(repr, self.events))})"

    @property
    def stated(self) -> Adjacency | None:
        return next((e.stated for e in self.events if e.stated is not None), None)


@dataclass(frozen=True, repr=False, eq=False)
class Repeated(Event):
    """The same event `count` times."""

    event: Event
    count: int

    def __post_init__(self) -> None:
        _event("event", self.event)
        object.__setattr__(self, "count", count("count", self.count))

    @property
    def stated(self) -> Adjacency | None:
        return self.event.stated


@dataclass(frozen=True, repr=False, eq=False)
class Sampled(Event):
    """An event run on a random sample of the records.

    The sensitivity of the inner event is that of the sum over the sample, never of the mean over a random size.
    """

    scheme: Scheme
    event: Event

    def __post_init__(self) -> None:
        if not isinstance(self.scheme, Scheme):
            raise ParameterError(f"scheme must be a sampling scheme such as Poisson(0.01), not {type(self.scheme).__name__}")
        _event("event", self.event)

    @property
    def stated(self) -> Adjacency | None:
        return self.event.stated


@dataclass(frozen=True, repr=False, eq=False)
class Group(Event):
    """An event whose unit is a group of up to `size` records: one person with several rows."""

    event: Event
    size: int

    def __post_init__(self) -> None:
        _event("event", self.event)
        object.__setattr__(self, "size", count("size", self.size))

    @property
    def stated(self) -> Adjacency | None:
        return self.event.stated


@dataclass(frozen=True, repr=False, eq=False)
class Selection(Event):
    """Run the event a random number of times and publish only the best run (Liu and Talwar 2019; Papernot and Steinke 2022).

    The number of runs has a negative binomial law truncated to at least 1 with mean `mean` and shape `shape`
    (1: geometric, 0: logarithmic), or a Poisson law with that mean where `shape` is infinite.
    """

    event: Event
    mean: Number
    shape: Number = 1

    def __post_init__(self) -> None:
        _event("event", self.event)
        object.__setattr__(self, "mean", positive("mean", self.mean))
        if self.shape != float("inf"):
            object.__setattr__(self, "shape", nonnegative("shape", self.shape))
            if self.mean < 1:
                raise ParameterError(f"mean must be at least 1 for a run count of at least one, not {self.mean}")

    @property
    def stated(self) -> Adjacency | None:
        return self.event.stated


@dataclass(frozen=True, repr=False, eq=False)
class NonPrivate(Event):
    """Something published as it is: costs infinitely much."""

    @property
    def stated(self) -> Adjacency | None:
        return None


@dataclass(frozen=True, repr=False, eq=False)
class NoOp(Event):
    """Nothing that touches private data: costs nothing."""

    @property
    def stated(self) -> Adjacency | None:
        return None
