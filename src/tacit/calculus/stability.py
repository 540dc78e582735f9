"""An automatic test of stability: is a transformation as stable as it says, and total?

For random members of its domain, full of edge values, and random neighbours of them under the metric, the distances before
and after are measured exactly and compared with the stability map. A violation disproves the map; finding none proves
nothing, and the transformation stays unproved. Draws come from `tacit.noise`, so they repeat inside its test mode and
nowhere else.

>>> from tacit.calculus import Absolute, AddRemove, Integers, Rows, Space, Transformation
>>> numbers = Space(Rows(Integers(0, 10)), AddRemove())
>>> largest = Transformation(numbers, Space(Integers(0, 10), Absolute()), lambda x: int(max(x, default=0)), lambda d: d, "largest")
>>> check_stability(largest).holds
False
>>> data = member(numbers.domain)
>>> numbers.domain.member(data), numbers.metric.distance(data, neighbour(numbers, data, 2)) <= 2
(True, True)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeVar

from tacit.calculus.chain import Space, Transformation
from tacit.calculus.collection_domains import Categories, Graph, Graphs, Records, Rows, Vectors
from tacit.calculus.datasets import held, key, length, rows_of, take
from tacit.calculus.domains import Anything, Domain, Integers, Lattice, Reals, listed, whole_bounds
from tacit.calculus.errors import CalculusError
from tacit.calculus.metrics import AddRemove, Edges, Hamming, Identifiers, Metric, Nodes, ReplaceOne
from tacit.calculus.rows import members
from tacit.noise import permutation, uniform_integers
from tacit.parameters import Number
from tacit.parameters import count as whole

T = TypeVar("T")
WHOLE = (0, 1, -1, 2, 7, 2**31, 2**53 + 1, 2**62, -(2**62), 2**63 - 1, -(2**63), 10**20)
HUGE, SMALLEST, NORMAL = 1.7976931348623157e308, 5e-324, 2.2250738585072014e-308
FLOATS = (math.nan, math.inf, -math.inf, 0.0, -0.0, SMALLEST, -SMALLEST, NORMAL, HUGE, -HUGE, 1e16, 1.0, -1.0, 0.1, 1 / 3)
OBJECTS = (None, "", "x", 0, 1, True, 1.0, 1.5, math.nan, math.inf, b"", (1, 2), [1], {"a": 1}, 2**70, "12", "nan", "-1e400")
MOST_ROWS = 6


def below(n: int) -> int:
    """A whole number from 0 to n - 1."""
    return int(uniform_integers(n))


def one_of(values: Sequence[T]) -> T:
    return values[below(len(values))]


def value_of(domain: Domain) -> Any:
    """One member of a domain, more often than not at an edge of it."""
    match domain:
        case Integers() | Lattice():
            low, high = whole_bounds(domain)
            edges = [e for e in (low, high, *(() if low is None else (low + 1,)), *(() if high is None else (high - 1,))) if e is not None]
            inner = [] if low is None or high is None else [low + below(high - low + 1)]
            return domain.enforce([one_of([*edges, *inner, *WHOLE])]).tolist()[0]
        case Reals():
            bounds = [float(b) for b in (domain.lower, domain.upper) if b is not None]
            inner_ = [bounds[0] + (bounds[1] - bounds[0]) * below(1025) / 1024] if len(bounds) == 2 else []
            return domain.enforce([one_of([*bounds, *inner_, *FLOATS])]).tolist()[0]
        case Categories():
            return one_of(domain.values)
        case Vectors():
            return listed(domain.enforce([value_of(domain.element) for _ in range(domain.length)]))
        case Records():
            return {name: value_of(inner) for name, inner in domain.fields}
        case Anything():
            return one_of(OBJECTS)
        case Graphs():
            return _graph(domain)
    raise CalculusError(f"no members of {type(domain).__name__} can be made up; pass generator= a function that returns one")


def member(domain: Domain) -> Any:
    """A member of a domain; a data set has a few rows, copies among them, or none."""
    if not isinstance(domain, Rows):
        return value_of(domain)
    size = below(MOST_ROWS + 1) if domain.size is None else domain.size
    distinct = [value_of(domain.element) for _ in range(1 + below(max(size, 1)))]
    return members(domain.element, [one_of(distinct) for _ in range(size)])


def _graph(domain: Graphs) -> Graph:
    vertices = range(1 + below(5))
    pairs = [(i, j) for i in vertices for j in vertices if i < j and below(2)]
    while True:
        graph = Graph.of(pairs, vertices)
        if domain.member(graph):
            return graph
        pairs.pop()


def shuffled(data: Any) -> Any:
    """The same rows in another order."""
    return take(data, [int(i) for i in permutation(length(data))])


def neighbour(space: Space, data: Any, distance: int) -> Any:
    """Another member at most so far away, its rows in another order where the metric knows none."""
    metric, domain = space.metric, space.domain
    if isinstance(domain, Rows) and isinstance(metric, (AddRemove, ReplaceOne, Hamming, Identifiers)):
        found = _changed(metric, domain, rows_of(data), distance)
        made = members(domain.element, found) if found or not isinstance(domain.element, Records) else held(domain.element, [])
        return made if isinstance(metric, Hamming) else shuffled(made)
    if isinstance(domain, Graphs):
        return _graph_neighbour(metric, domain, data, distance)
    return _moved(space, data, distance)


def _changed(metric: Metric, domain: Rows, rows: list[Any], distance: int) -> list[Any]:
    for _ in range(distance):
        if isinstance(metric, (ReplaceOne, Hamming)):
            if rows:
                rows[below(len(rows))] = _new_row(domain, rows)
        elif isinstance(metric, Identifiers):
            rows = _person_changed(metric.column, domain, rows)
        elif rows and below(2):
            rows.pop(below(len(rows)))
        else:
            rows.append(_new_row(domain, rows))
    return rows


def _new_row(domain: Rows, rows: list[Any]) -> Any:
    """A new row: a copy of one that is there now and then, since copies are where multisets go wrong."""
    if rows and not below(3):
        found = one_of(rows)
        return dict(found) if isinstance(found, Mapping) else found
    return value_of(domain.element)


def _person_changed(column: str, domain: Rows, rows: list[Any]) -> list[Any]:
    owners: list[Hashable] = list(dict.fromkeys(key(row[column]) for row in rows))
    if owners and below(2):
        gone = one_of(owners)
        return [row for row in rows if key(row[column]) != gone]
    person = value_of(domain.element)
    if key(person[column]) in owners:
        return rows
    return [*rows, *({**value_of(domain.element), column: person[column]} for _ in range(1 + below(4)))]


def _graph_neighbour(metric: Metric, domain: Graphs, graph: Graph, distance: int) -> Graph:
    for _ in range(distance):
        vertices = sorted(graph.vertices, key=repr)
        changed = graph
        if isinstance(metric, Edges) and len(vertices) > 1:
            first, second = (vertices[int(i)] for i in permutation(len(vertices))[:2])
            changed = Graph(graph.vertices, graph.edges ^ {frozenset((first, second))})
        elif isinstance(metric, Nodes) and len(vertices) > 1:
            changed = graph.without(one_of(vertices))
        graph = changed if domain.member(changed) else graph
    return graph


def _moved(space: Space, value: Any, distance: int) -> Any:
    """Numbers moved by whole steps, as far as the metric and the domain allow."""
    many = isinstance(space.domain, Vectors)
    moved = [_exact(v) for v in (listed(value) if many else [value])]
    for _ in range(distance):
        moved[below(len(moved))] += one_of((-1, 1))
    floats = isinstance(space.domain.element if isinstance(space.domain, Vectors) else space.domain, Reals)
    back: list[Number] = [float(v) if floats else int(v) for v in moved]
    found = space.domain.enforce(back if many else [back[0]])
    found = found if many else found.tolist()[0]
    return found if space.metric.within(value, found, distance) else value


def _exact(value: Any) -> Fraction:
    return Fraction(value) if math.isfinite(value) else Fraction(0)


MOST_KEPT = 10


@dataclass(frozen=True)
class Violation:
    """One case in which a transformation did not keep its word. The data are held only if they were asked for."""

    what: str
    distance: Number
    allowed: Number | None = None
    found: Number | None = None
    inputs: tuple[Any, Any] | None = field(default=None, repr=False)

    def __str__(self) -> str:
        figures = "" if self.allowed is None else f": {float(self.found or 0):g} apart where {float(self.allowed):g} is allowed"
        return f"inputs {self.distance} apart: {self.what}{figures}"


@dataclass(frozen=True)
class StabilityReport:
    """What the test found. `reached` is the largest share of the allowed distance that was seen: 1 means the map is tight."""

    name: str
    trials: int
    violations: tuple[Violation, ...]
    reached: float

    @property
    def holds(self) -> bool:
        """Whether no violation was found."""
        return not self.violations

    def __str__(self) -> str:
        if self.holds:
            return f"{self.name}: no violation in {self.trials} trials; the map was used to {self.reached:.0%}. This is no proof."
        return "\n".join([f"{self.name}: NOT as stable as stated", *(f"- {violation}" for violation in self.violations)])


def check_stability(
    transformation: Transformation,
    generator: Callable[[], Any] | None = None,
    *,
    trials: int = 200,
    distances: Iterable[int] = (1, 2, 3),
    reveal: bool = False,
) -> StabilityReport:
    """Try to refute a transformation's stability map.

    `generator` returns members of the input's domain; without one they are made up, with NaN, infinities, subnormal and huge numbers,
    copies and empty data. Each is compared with itself in another order (distance 0) and with neighbours at each of the `distances`. The
    function must not raise, must stay in its output's domain and must keep the distance. The report holds no data unless `reveal` is
    set.
    """
    space = transformation.input
    steps = [0, *(whole("distances", d) for d in distances)]
    found: list[Violation] = []
    reached = 0.0
    tried = 0
    for _ in range(whole("trials", trials)):
        if len(found) >= MOST_KEPT:
            break
        tried += 1
        # The domain is enforced, so that a generator's slip is not taken for the transformation's.
        data = space.complete(member(space.domain) if generator is None else generator())
        result = _run(transformation, data)
        for step in steps:
            other = neighbour(space, data, step)
            violation, share = _compare(transformation, space.metric.distance(data, other), result, _run(transformation, other))
            reached = max(reached, share)
            if violation is not None:
                what, distance, allowed, apart = violation
                found.append(Violation(what, distance, allowed, apart, (data, other) if reveal else None))
    return StabilityReport(transformation.name, tried, tuple(found[:MOST_KEPT]), reached)


Finding = tuple[str, Number, Number | None, Number | None]


def _run(transformation: Transformation, data: Any) -> Any:
    """The result, or what kind of error was raised: its message may hold data, its type does not."""
    try:
        return transformation.function(data)
    except Exception as error:
        return _Raised(type(error).__name__)


@dataclass(frozen=True)
class _Raised:
    kind: str


def _compare(transformation: Transformation, before: Number, one: Any, two: Any) -> tuple[Finding | None, float]:
    """What goes wrong between the results of two inputs, if anything, and which share of the allowed distance was used."""
    output = transformation.output
    for result in (one, two):
        if isinstance(result, _Raised):
            return (f"the function raised {result.kind}", before, None, None), 0.0
    after: Number = 0
    try:
        inside = output.domain.member(one) and output.domain.member(two)
        after = output.metric.distance(one, two) if inside else 0
    except Exception:  # results of another kind than declared
        inside = False
    if not inside:
        return ("the result is not in the declared domain", before, None, None), 0.0
    allowed = transformation.map(before)
    if not output.metric.within(one, two, allowed):
        return ("the distance grew too much", before, allowed, after), 0.0
    return None, float(Fraction(after) / Fraction(allowed)) if allowed else 0.0
