"""Plans: steps chained with `>>`, checked when they are chained, with no data in sight.

A `Space` is a domain with a metric. A `Step` is a recipe that waits for its space (`clamp(0, 100)`, `laplace(scale=2)`); bound
to one it becomes a `Transformation` (data to data, with a stability map) or a `Measurement` (data to noise, with a privacy
map). Maps are functions of the distance, never constants, so groups and chains are priced by applying them. Running a
measurement gives a `Release`: the value and what must travel with it. `fit` finds the least noise that keeps a target.

>>> from tacit.accounting import PureDP
>>> from tacit.calculus import AddRemove, Anything, Rows
>>> rows = Space(Rows(Anything()), AddRemove())
>>> triple = Transformation(rows, rows, lambda data: 3 * data, lambda d: 3 * d, "triple", proof="each row appears three times")
>>> double = Transformation(rows, rows, lambda data: 2 * data, lambda d: 2 * d, "double", proof="each row appears twice")
>>> noisy = Measurement(rows, lambda data: 0, lambda d: PureDP(Fraction(1, 10) * d), "demo", proof="by fiat")
>>> (triple >> double >> noisy).event(1)
PureDP(epsilon=Fraction(3, 5))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from tacit import noise
from tacit.accounting import (
    Adjacency,
    Bound,
    Composed,
    Event,
    Group,
    Leaf,
    Repeated,
    Sampled,
    Selection,
    Shuffled,
    UnsupportedError,
    Worst,
    account,
    exact_pure,
    exact_rho,
)
from tacit.calculus.collection_domains import Vectors
from tacit.calculus.domains import Domain, granule
from tacit.calculus.errors import CalculusError, DomainError, MetricError, UnprovedError
from tacit.calculus.metrics import Metric
from tacit.parameters import Number, nonnegative, number, positive, probability


@dataclass(frozen=True, repr=False)
class Release:
    """A value that may be published, with the event that prices it.

    A value drawn from seeded noise says NOT PRIVATE wherever it goes, through post-processing too. One that rests on an
    unproved claim names the claim and prints no epsilon.

    >>> from tacit.accounting import PureDP
    >>> Release(41, PureDP(1), private=False).map(lambda v: v + 1)
    Release(42, PureDP(epsilon=1), NOT PRIVATE: drawn in test mode)
    """

    value: Any
    event: Event
    adjacency: Adjacency | None = None
    private: bool = True
    unproved: tuple[str, ...] = ()

    def map(self, function: Callable[[Any], Any]) -> Release:
        """Post-processing: free, and the marks stay."""
        return replace(self, value=function(self.value))

    def epsilon(self, delta: Number = 0) -> Bound:
        """What this release costs at a delta, from both sides."""
        if not self.private:
            raise UnprovedError("this value was drawn in test mode from a seed, so it is NOT PRIVATE and has no epsilon")
        if self.unproved:
            raise UnprovedError(f"no epsilon without a proof: this release rests on {', '.join(self.unproved)}")
        return account(self.event, self.adjacency or Adjacency.ADD_REMOVE).epsilon(float(delta))

    @property
    def marks(self) -> tuple[str, ...]:
        """What a reader must know before anything else."""
        unproved = (f"UNPROVED: {', '.join(self.unproved)}",) if self.unproved else ()
        return (*unproved, *(() if self.private else ("NOT PRIVATE: drawn in test mode",)))

    def __repr__(self) -> str:
        return f"Release({', '.join([repr(self.value), repr(self.event), *self.marks])})"


Stability = Callable[[Number], Number]
Privacy = Callable[[Number], Event]
Accuracy = Callable[[float], float]


@dataclass(frozen=True)
class Space:
    """Values and how far apart they are.

    >>> from tacit.calculus import L1, Rows, Integers
    >>> Space(Rows(Integers()), L1())
    Traceback (most recent call last):
    tacit.calculus.errors.MetricError: L1() does not measure Rows(element=Integers(lower=None, upper=None), size=None)...
    """

    domain: Domain
    metric: Metric

    def __post_init__(self) -> None:
        if not isinstance(self.domain, Domain):
            raise DomainError(f"domain must be a Domain such as Rows(Integers(0, 10)), not {type(self.domain).__name__}")
        if not isinstance(self.metric, Metric):
            raise MetricError(f"metric must be a Metric such as AddRemove(), not {type(self.metric).__name__}")
        if not self.metric.admits(self.domain):
            raise MetricError(f"{self.metric} does not measure {self.domain}; choose the metric that fits, or change the domain first")

    def __rshift__(self, step: Step) -> Plan:
        return _bind(self, step)

    @property
    def unit(self) -> Fraction:
        """What one whole number of an aggregate stands for: the granularity of its lattice, or 1."""
        return granule(self.domain.element if isinstance(self.domain, Vectors) else self.domain)

    def complete(self, data: Any) -> Any:
        """A member of the domain, whatever was given; where distances count people, without rows that have no owner.

        >>> from tacit.calculus import Identifiers, Integers, table
        >>> visits = Space(table(id=Integers(0, 9)), Identifiers("id"))
        >>> visits.complete({"id": [3, 99, None, "3", 3.0]})["id"].tolist()
        [3, 3]
        """
        return self.domain.complete(self.metric.counted(self.domain, data))

    def accepts(self, other: Space) -> None:
        """Refuse a space whose values or distances this one does not cover."""
        if other.metric != self.metric:
            raise MetricError(f"distances are measured by {other.metric} where {self.metric} is needed; insert a step that converts them")
        if not self.domain.contains(other.domain):
            raise DomainError(f"values of {other.domain} are not all in {self.domain}; clamp, cast or impute them first")


class Step:
    """A recipe that becomes a transformation or a measurement once its space is known."""

    def bind(self, space: Space) -> Plan:
        """The step on a space, or a refusal that says what the space lacks."""
        raise NotImplementedError

    def __rshift__(self, other: Step) -> Any:
        if not isinstance(other, Step):
            return NotImplemented
        return Pipeline((*steps_of(self), *steps_of(other)))


def steps_of(step: Step) -> tuple[Step, ...]:
    """The single steps a step is made of."""
    return step.steps if isinstance(step, Pipeline) else (step,)


@dataclass(frozen=True)
class Pipeline(Step):
    """Several steps waiting for one space: `clamp(0, 100) >> total() >> laplace(scale=200)`."""

    steps: tuple[Step, ...]

    def bind(self, space: Space) -> Plan:
        plan: Plan | Space = space
        for step in self.steps:
            plan = plan >> step
        if isinstance(plan, Space):
            raise CalculusError("an empty pipeline has nothing to bind")
        return plan


def _bind(space: Space, step: Step) -> Plan:
    if not isinstance(step, Step):
        raise CalculusError(f"what follows >> must be a step such as clamp(0, 1) or laplace(scale=2), not {type(step).__name__}")
    return step.bind(space)


def _distance(value: Number) -> Number:
    found = nonnegative("distance", value)
    return Fraction(found) if isinstance(found, float) else found


@dataclass(frozen=True)
class Transformation(Step):
    """A deterministic function with a bound on how much it spreads its inputs apart.

    `proof` names where the stability map is proved. Without one the transformation is *unproved*: it runs, but whatever it is part
    of says so and prints no epsilon of its own.
    """

    input: Space
    output: Space
    function: Callable[[Any], Any] = field(compare=False, repr=False)
    stability: Stability = field(compare=False, repr=False)
    name: str
    proof: str | None = None
    unproved: tuple[str, ...] = ()
    parts: tuple[Transformation, ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.proof is None and not self.unproved:
            object.__setattr__(self, "unproved", (self.name,))

    def __call__(self, data: Any) -> Any:
        """The function on data, whose domain is enforced first. What comes out is as private as what went in."""
        return self.function(self.input.complete(data))

    def map(self, distance: Number) -> Number:
        """How far apart the outputs can be when the inputs are `distance` apart."""
        return _distance(self.stability(_distance(distance)))

    def sensitivity(self, distance: Number = 1) -> Number:
        """The map in the unit of the answer: on a lattice, granules times the granularity.

        >>> from tacit.calculus import Integers, ReplaceOne, Rows, mean
        >>> plan = Space(Rows(Integers(0, 100), size=10_000), ReplaceOne()) >> mean()
        >>> plan.map(1), plan.sensitivity()
        (100, Fraction(1, 100))
        """
        return self.map(distance) * self.output.unit

    def bind(self, space: Space) -> Transformation:
        self.input.accepts(space)
        return self if space == self.input else replace(self, input=space)

    def __rshift__(self, other: Step) -> Any:
        if isinstance(other, Pipeline):
            plan: Any = self
            for step in other.steps:
                plan = plan >> step
            return plan
        return join(self, _bind(self.output, other))


@dataclass(frozen=True)
class Measurement(Step):
    """A randomised function with a privacy map: from the distance of two inputs to the event that prices telling them apart.

    `accuracy(beta)`, where known, is how far the answer is from what would have been answered without noise, except with
    probability beta, in the answer's own unit.
    """

    input: Space
    function: Callable[[Any], Any] = field(compare=False, repr=False)
    privacy: Privacy = field(compare=False, repr=False)
    name: str
    proof: str | None = None
    unproved: tuple[str, ...] = ()
    accuracy: Accuracy | None = field(default=None, compare=False, repr=False)
    parts: tuple[Transformation | Measurement, ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.proof is None and not self.unproved:
            object.__setattr__(self, "unproved", (self.name,))

    def event(self, distance: Number = 1) -> Event:
        """The price of telling apart inputs this far from each other, stated for the relation of the input metric."""
        event = self.privacy(_distance(distance))
        if not isinstance(event, Event):
            raise CalculusError(f"the privacy map of {self.name} must return an event, not {type(event).__name__}")
        return event if self.adjacency is None else restate(event, self.adjacency)

    @property
    def adjacency(self) -> Adjacency | None:
        """The neighbouring relation of the input, None on numbers."""
        return self.input.metric.adjacency

    def check(self, distance: Number, *, epsilon: Number, delta: Number = 0) -> bool:
        """Whether inputs this far apart stay (epsilon, delta)-indistinguishable. No data is needed.

        >>> from tacit.calculus import AddRemove, Integers, Rows, count
        >>> from tacit.mechanisms import laplace
        >>> plan = Space(Rows(Integers()), AddRemove()) >> count() >> laplace(scale=2)
        >>> plan.check(1, epsilon=0.5), plan.check(3, epsilon=1.4)
        (True, False)
        """
        self.insist_on_proof()
        return account(self.event(distance), self.adjacency or Adjacency.ADD_REMOVE).epsilon(float(delta)).upper <= epsilon

    def insist_on_proof(self) -> None:
        """Refuse to give a figure that rests on an unproved claim."""
        if self.unproved:
            raise UnprovedError(
                f"no epsilon is given for {self.name}: it rests on unproved claims ({', '.join(self.unproved)}). "
                "Build it with proof='where it is proved', or test it with tacit.calculus.check_stability"
            )

    def release(self, data: Any, distance: Number = 1) -> Release:
        """Run it once. The input domain is enforced first, so that a wrong declaration costs accuracy and not privacy.

        Of identifiers this is true because they are never changed: a row whose identifier is not in its domain is left out.
        """
        event = self.event(distance)
        observer = None if noise.is_private() else _observer.get()
        with noise.watch() as seen:
            given = self.input.complete(data)
            value = self.function(given) if observer is None else observer(self, given, _distance(distance))
        return Release(value, event, self.adjacency, private=seen.private and observer is None, unproved=self.unproved)

    def bind(self, space: Space) -> Measurement:
        self.input.accepts(space)
        return self if space == self.input else replace(self, input=space)

    def __rshift__(self, other: Step) -> Measurement:
        if isinstance(other, PostProcess):
            return self.then(other.function, other.name)
        raise CalculusError("only post-processing may follow a measurement: what is released cannot be measured again for free")

    def then(self, function: Callable[[Any], Any], name: str = "post-processing") -> Measurement:
        """The same measurement with a function applied to its answer. The price is unchanged, whatever the function does."""
        run = self.function
        return replace(self, function=lambda data: function(run(data)), name=f"{self.name} >> {name}", accuracy=None)


Plan = Transformation | Measurement


Observer = Callable[[Measurement, Any, Number], Any]
_observer: ContextVar[Observer | None] = ContextVar("tacit_calculus_observer", default=None)


@contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """For audits: releases in test mode are made by `observer(measurement, data, distance)` and marked NOT PRIVATE. Others never see it.

    >>> from tacit.calculus import AddRemove, Integers, Rows, count
    >>> from tacit.mechanisms import laplace
    >>> plan = Space(Rows(Integers()), AddRemove()) >> count() >> laplace(scale=2)
    >>> with observed(lambda measurement, data, distance: "seen"), noise.test_mode(1):
    ...     plan.release([1, 2, 3])
    Release('seen', Laplace(noise_multiplier=2), NOT PRIVATE: drawn in test mode)
    """
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


@dataclass(frozen=True)
class PostProcess(Step):
    """A function of what is already released."""

    function: Callable[[Any], Any] = field(compare=False, repr=False)
    name: str = "post-processing"

    def bind(self, space: Space) -> Plan:
        raise CalculusError("post-processing follows a measurement; on private data use map_rows or another transformation")


def post(function: Callable[[Any], Any], name: str = "post-processing") -> PostProcess:
    """Post-processing as a step: `... >> laplace(scale=2) >> post(abs)`."""
    return PostProcess(function, name)


def join(first: Transformation, second: Plan) -> Plan:
    """One after the other: functions and maps are composed, so stabilities multiply only where both are linear."""
    before, after = first.function, second.function
    shared: dict[str, Any] = {
        "name": f"{first.name} >> {second.name}",
        "proof": None if first.unproved or second.unproved else "chaining of its parts",
        "unproved": (*first.unproved, *second.unproved),
        "parts": (*(first.parts or (first,)), *(second.parts or (second,))),
    }
    if isinstance(second, Transformation):
        spread = second.map
        return Transformation(
            first.input, second.output, lambda data: after(before(data)), lambda d: spread(first.map(d)), **shared
        )
    price = second.privacy
    return Measurement(
        first.input, lambda data: after(before(data)), lambda d: price(first.map(d)), accuracy=second.accuracy, **shared
    )


def restate(event: Event, adjacency: Adjacency) -> Event:
    """The same event, its sensitivities understood under another relation: what a stability map has just converted.

    >>> from tacit.accounting import Laplace
    >>> restate(Laplace(2), Adjacency.REPLACE_ONE)
    Laplace(noise_multiplier=2, adjacency=Adjacency.REPLACE_ONE)
    """
    match event:
        case Leaf():
            return replace(event, adjacency=adjacency)
        case Composed() | Worst():
            return type(event)(*(restate(part, adjacency) for part in event.events))
        case Repeated() | Sampled() | Shuffled() | Group() | Selection():
            return replace(event, event=restate(event.event, adjacency))
    return event


def walk(plan: Plan) -> Iterator[Plan]:
    """The single steps of a plan, in order."""
    for part in plan.parts or (plan,):
        if part is plan:
            yield part
        else:
            yield from walk(part)


def explain(plan: Plan, distance: Number = 1) -> str:
    """The steps of a plan with the distance after each, without touching data.

    >>> from tacit.calculus import AddRemove, Integers, Rows, clamp, total
    >>> from tacit.mechanisms import laplace
    >>> plan = Space(Rows(Integers()), AddRemove()) >> clamp(0, 10) >> total() >> laplace(scale=20)
    >>> print(explain(plan))
    clamp(0, 10)      AddRemove() 1 -> AddRemove() 1
    total()           AddRemove() 1 -> Absolute() 10
    laplace(scale=20) Absolute() 10 -> Laplace(noise_multiplier=2)
    """
    rows = []
    current = _distance(distance)
    for part in walk(plan):
        before = f"{part.input.metric} {current}"
        if isinstance(part, Transformation):
            current = part.map(current)
            rows.append((part.name, f"{before} -> {part.output.metric} {current}", part.proof))
        else:
            rows.append((part.name, f"{before} -> {part.privacy(current)}", part.proof))
    width = max(len(name) for name, _, _ in rows)
    return "\n".join(f"{name:<{width}} {text}{'' if proof else '   UNPROVED'}" for name, text, proof in rows)


def fit(
    make: Callable[[float], Measurement],
    distance: Number = 1,
    *,
    epsilon: Number | None = None,
    delta: Number = 0,
    rho: Number | None = None,
    mu: Number | None = None,
    bounds: tuple[Number, Number] = (1e-9, 1e12),
) -> float:
    """The smallest parameter within `bounds` whose plan costs at most the target for inputs `distance` apart.

    `make` builds the plan from the parameter, and a larger parameter must not cost more, as for a scale of noise. Give `epsilon` (with
    `delta`), or `rho`, or `mu`. The result meets the target, and a number smaller by one part in 1e12 does not.

    >>> from tacit.calculus import AddRemove, Integers, Rows, count
    >>> from tacit.mechanisms import laplace
    >>> counting = Space(Rows(Integers()), AddRemove()) >> count()
    >>> fit(lambda scale: counting >> laplace(scale), epsilon=0.5)
    2.0
    """
    low, high = (float(positive("bounds", bound)) for bound in bounds)
    if not low < high:
        raise CalculusError(f"bounds must be two positive numbers in order, not {bounds}")
    meets = _target(epsilon, delta, rho, mu)
    apart = nonnegative("distance", distance)

    def good(value: float) -> bool:
        plan = make(value)
        if not isinstance(plan, Measurement):
            raise CalculusError(f"make must return a measurement, not {type(plan).__name__}; end the plan with a mechanism")
        plan.insist_on_proof()
        return meets(plan, apart)

    if not good(high):
        raise CalculusError(f"no value up to {high:g} meets the target; widen bounds or relax it; a larger parameter must cost less")
    if good(low):
        return low
    # The invariant is that `high` meets the target and `low` does not; halve on a logarithmic axis first, then plainly.
    while high / low > 1 + 1e-12:
        middle = math.sqrt(low) * math.sqrt(high) if high / low > 2 else low + (high - low) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if good(middle) else (middle, high)
    return _rounded(low, high, good)


def _rounded(low: float, high: float, good: Callable[[float], bool]) -> float:
    """A shorter decimal between the two ends, if it meets the target: 2 rather than 2.0000000000004."""
    for digits in range(1, 13):
        found = float(f"{high:.{digits}g}")
        if low <= found <= high and good(found):
            return found
    return high


def _target(epsilon: Number | None, delta: Number, rho: Number | None, mu: Number | None) -> Callable[[Measurement, Number], bool]:
    """Whether a plan keeps the target, by exact fractions where there are any and by certified upper bounds elsewhere."""
    given = [(name, number(name, value)) for name, value in (("epsilon", epsilon), ("rho", rho), ("mu", mu)) if value is not None]
    if len(given) != 1:
        raise CalculusError("give exactly one target: epsilon with delta, or rho, or mu")
    name, goal = given[0][0], Fraction(positive(*given[0]))
    level = probability("delta", delta)
    if level and name != "epsilon":
        raise CalculusError("delta goes with epsilon; rho and mu stand alone")

    def meets(plan: Measurement, distance: Number) -> bool:
        event, relation = plan.event(distance), plan.adjacency or Adjacency.ADD_REMOVE
        exact = exact_pure(event, relation) if name == "epsilon" else exact_rho(event, relation)
        if exact is not None and (name == "rho" or (name == "epsilon" and level == 0)):
            return exact <= goal
        cost = account(event, relation)
        try:
            if name == "epsilon":
                return cost.epsilon(float(level)).upper <= goal
            return (cost.rho().upper if name == "rho" else cost.gdp().mu.upper) <= goal
        except UnsupportedError as error:
            raise CalculusError(f"this plan has no {name}: {error}") from error

    return meets
