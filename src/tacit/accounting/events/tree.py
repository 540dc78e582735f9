"""Events: immutable records of what is done to the data, and of how the records of a step are chosen; and the
neighbouring relations that their prices are stated for.

A tree of events is the price of a computation; nothing stores a bare epsilon. This module has the nodes of the
tree and the sampling schemes, `leaves` the mechanisms and the guarantees. The object that samples and the event
that prices it name the same scheme.

A relation says which two data sets must be hard to tell apart. It is spelled "add-remove", "replace-one" or
"zero-out" in Python, in jobs and in commands. `Adjacency.parse` is the one place that reads it; underscores are
read too, because older jobs and books have them.

>>> from fractions import Fraction
>>> from tacit.accounting.events.leaves import Gaussian
>>> Repeated(Sampled(Poisson(Fraction(1, 100)), Gaussian(1.1)), 1000)
Repeated(event=Sampled(scheme=Poisson(rate=Fraction(1, 100)), event=Gaussian(noise_multiplier=1.1)), count=1000)
>>> Adjacency.parse("add-remove")
Adjacency.ADD_REMOVE
>>> hops(Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE)
2
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from enum import Enum
from fractions import Fraction
from typing import ClassVar

from tacit.errors import AdjacencyError, ParameterError
from tacit.parameters import Number, nonnegative, positive, probability
from tacit.parameters import count as whole


class Adjacency(Enum):
    """The relation a guarantee is stated for."""

    ADD_REMOVE = "add-remove"  # one record is present or absent
    REPLACE_ONE = "replace-one"  # one record is exchanged for any other; the size is public
    ZERO_OUT = "zero-out"  # one record is exchanged for the null record, which adds nothing; the size is public

    def __repr__(self) -> str:
        return f"Adjacency.{self.name}"

    @staticmethod
    def parse(
        given: Adjacency | str, *, among: Iterable[Adjacency] | None = None, name: str = "adjacency"
    ) -> Adjacency:
        """The relation that is meant, one of `among`; an error calls the parameter `name`.

        >>> Adjacency.parse("replace_one"), Adjacency.parse(Adjacency.ZERO_OUT)
        (Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT)
        """
        allowed = tuple(Adjacency if among is None else among)
        found = given
        if isinstance(given, str):
            found = next((one for one in allowed if one.value == given.replace("_", "-")), given)
        if isinstance(found, Adjacency) and found in allowed:
            return found
        names = [repr(relation.value) for relation in allowed]
        raise ParameterError(
            f"{name} must be {', '.join(names[:-1])} or {names[-1]}, not {str(given)[:40]!r}"
        )


def hops(stated: Adjacency, asked: Adjacency, *, null_record: bool = False) -> int:
    """How many steps of the `stated` relation make one step of the `asked` relation.

    A replacement is a removal and an addition, so it costs a group of two. A record that is zeroed out adds
    nothing, as an absent one does, so noise that hides an addition hides that. The way back, from a relation
    that keeps the size fixed to one that reveals it, exists only where a null record stands for an absent
    one (Steinke 2022, section 3.6: releasing n is free under replacement and infinite under addition).

    >>> hops(Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE, null_record=True)
    1
    """
    if stated is asked:
        return 1
    if asked is Adjacency.REPLACE_ONE:
        return 2
    if stated is Adjacency.REPLACE_ONE and asked is Adjacency.ZERO_OUT:
        return 1
    if asked is Adjacency.ZERO_OUT:
        return 1
    if null_record:
        return 1
    raise AdjacencyError(code="relation-not-covered", stated=stated, asked=asked)


#: Checks a parameter's value, given its name, and returns it as it is stored.
Check = Callable[[str, object], object]


class _Record:
    """What events and schemes share. Equality and the hash are written once: `dataclass` would compile them
    again for each class whenever a process starts.
    """

    #: The parameters, each with its check when a record is made.
    checks: ClassVar[tuple[tuple[str, Check], ...]] = ()

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check(self) -> None:
        for name, check in self.checks:
            self._set(name, check(name, getattr(self, name)))


@dataclass(frozen=True, eq=False)
class Scheme(_Record):
    """How a step picks its records."""

    def __post_init__(self) -> None:
        self._check()


@dataclass(frozen=True, eq=False)
class Poisson(Scheme):
    """Every record enters independently with probability `rate`; the size of the sample is random and private."""

    rate: Number
    checks = (("rate", probability),)


@dataclass(frozen=True, eq=False)
class TruncatedPoisson(Scheme):
    """Poisson sampling from at most `size` records, with batches cut at random to at most `batch` records."""

    rate: Number
    size: int
    batch: int
    checks = (("rate", probability), ("size", whole), ("batch", whole))


@dataclass(frozen=True, eq=False)
class WithoutReplacement(Scheme):
    """A uniformly random subset of exactly `sample` of the `size` records; `size` is public."""

    size: int
    sample: int
    checks = (("size", whole), ("sample", whole))

    def __post_init__(self) -> None:
        self._check()
        if self.sample > self.size:
            raise ParameterError(f"sample must be at most size ({self.size}) without replacement, not {self.sample}")

    @property
    def rate(self) -> Fraction:
        """The chance that one given record is in the sample."""
        return Fraction(self.sample, self.size)


@dataclass(frozen=True, eq=False)
class WithReplacement(Scheme):
    """`sample` independent uniform draws from the `size` records; one record may be drawn several times."""

    size: int
    sample: int
    checks = (("size", whole), ("sample", whole))


@dataclass(frozen=True, eq=False)
class RandomAllocation(Scheme):
    """Each record takes part in `selected` of `steps` steps, chosen uniformly and independently of all others (balls in bins).

    One event covers all the steps of one epoch: `Sampled(RandomAllocation(100), Gaussian(1))` is 100 noisy sums.
    """

    steps: int
    selected: int = 1
    checks = (("steps", whole), ("selected", whole))

    def __post_init__(self) -> None:
        self._check()
        if self.selected > self.steps:
            raise ParameterError(f"selected must be at most steps ({self.steps}), not {self.selected}")


@dataclass(frozen=True, repr=False, eq=False)
class Event(_Record):
    """Something done to the data. Subclasses are plain records; `account` prices them."""

    @property
    def stated(self) -> Adjacency | None:
        """The relation this event is stated for; None where it holds for every relation."""
        return next((event.stated for event in self.inner if event.stated is not None), None)

    @property
    def inner(self) -> tuple[Event, ...]:
        """The events that this one is made of."""
        return ()

    def __post_init__(self) -> None:
        self._check()

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
        """Check the parameters and store them as plain numbers; called once, at construction."""
        self._check()

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
class _Several(Event):
    """Several events, stated for one relation."""

    events: tuple[Event, ...]
    fix: ClassVar[str]

    def __init__(self, *events: Event) -> None:
        self._set("events", _children(events, self.fix))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.events))})"

    @property
    def inner(self) -> tuple[Event, ...]:
        return self.events


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Composed(_Several):
    """Several events on the same data, in any order; later ones may depend on the outputs of earlier ones.

    An empty composition is refused: it is nearly always a plan that lost its steps. Write `NoOp()` for nothing.

    >>> from tacit.accounting.events.leaves import Gaussian, Laplace
    >>> Composed(Gaussian(2), Laplace(3))
    Composed(Gaussian(noise_multiplier=2), Laplace(noise_multiplier=3))
    """

    fix = "compose at least one event"


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Worst(_Several):
    """One of several events, and it is not known which: a changed record touches at most one of them, as with
    disjoint parts of the data.

    At every epsilon it costs as much as the dearest of them there, and composes as such.

    >>> from tacit.accounting.events.leaves import Gaussian, Laplace
    >>> Worst(Gaussian(2), Laplace(3))
    Worst(Gaussian(noise_multiplier=2), Laplace(noise_multiplier=3))
    """

    fix = "choose from at least one event"


class _Around(Event):
    """A node around one event."""

    event: Event

    @property
    def inner(self) -> tuple[Event, ...]:
        return (self.event,)


@dataclass(frozen=True, repr=False, eq=False)
class Repeated(_Around):
    """The same event `count` times."""

    event: Event
    count: int
    checks = (("event", _event), ("count", whole))


@dataclass(frozen=True, repr=False, eq=False)
class Sampled(_Around):
    """An event run on a random sample of the records.

    The sensitivity of the inner event is that of the sum over the sample, never of the mean over a random size.
    """

    scheme: Scheme
    event: Event

    def __post_init__(self) -> None:
        if not isinstance(self.scheme, Scheme):
            raise ParameterError(f"scheme must be a sampling scheme such as Poisson(0.01), not {type(self.scheme).__name__}")
        _event("event", self.event)


@dataclass(frozen=True, repr=False, eq=False)
class Group(_Around):
    """An event whose unit is a group of up to `size` records: one person with several rows."""

    event: Event
    size: int
    checks = (("event", _event), ("size", whole))


@dataclass(frozen=True, repr=False, eq=False)
class Shuffled(_Around):
    """Local reports of at least `n` honest people, of which only the multiset is seen: who sent which, and when, is gone.

    The event is one person's report, such as `LocalReport(1)` or `RandomizedResponse(1, 16)`; nothing is amplified against whoever
    shuffles. A person with two reports in the batch is a `Group` of two.

    >>> from tacit.accounting.events.leaves import LocalReport
    >>> Shuffled(LocalReport(1, 0.25), 10_000).n
    10000
    """

    event: Event
    n: int
    checks = (("event", _event), ("n", whole))

    def __post_init__(self) -> None:
        self._check()
        if self.event.stated is not Adjacency.REPLACE_ONE:
            raise AdjacencyError(
                "only local reports are shuffled: the event must be stated for the replacement of one person's value, such as "
                "LocalReport(epsilon) or RandomizedResponse(epsilon, categories)"
            )


@dataclass(frozen=True, repr=False, eq=False)
class Selection(_Around):
    """Run the event a random number of times and publish only the best run (Liu and Talwar 2019; Papernot and Steinke 2022).

    The number of runs has a negative binomial law truncated to at least 1 with mean `mean` and shape `shape`
    (1: geometric, 0: logarithmic), or a Poisson law with that mean where `shape` is infinite.
    """

    event: Event
    mean: Number
    shape: Number = 1
    checks = (("event", _event), ("mean", positive))

    def __post_init__(self) -> None:
        self._check()
        if self.shape != float("inf"):
            self._set("shape", nonnegative("shape", self.shape))
            if self.mean < 1:
                raise ParameterError(f"mean must be at least 1 for a run count of at least one, not {self.mean}")


@dataclass(frozen=True, repr=False, eq=False)
class NonPrivate(Event):
    """Something published as it is: costs infinitely much."""


@dataclass(frozen=True, repr=False, eq=False)
class NoOp(Event):
    """Nothing that touches private data: costs nothing."""
