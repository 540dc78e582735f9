"""An automatic test of stability: is a transformation as stable as it says, and total?

For random members of its domain, full of edge values, and random neighbours of them, the distances before and after are measured exactly
and compared with the stability map. A violation disproves the map; none found proves nothing, and the transformation stays unproved.

>>> from tacit.calculus import Absolute, AddRemove, Integers, Rows, Space, Transformation
>>> numbers = Space(Rows(Integers(0, 10)), AddRemove())
>>> largest = Transformation(numbers, Space(Integers(0, 10), Absolute()), lambda x: int(max(x, default=0)), lambda d: d, "largest")
>>> check_stability(largest).holds
False
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tacit.accounting.parameters import Number
from tacit.accounting.parameters import count as whole
from tacit.calculus.adversarial import member, neighbour
from tacit.calculus.plan import Transformation

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
        data = space.domain.complete(member(space.domain) if generator is None else generator())
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
    except Exception:  # results of another kind than declared, or numbers that are none
        inside = False
    if not inside:
        return ("the result is not in the declared domain", before, None, None), 0.0
    allowed = transformation.map(before)
    if not output.metric.within(one, two, allowed):
        return ("the distance grew too much", before, allowed, after), 0.0
    return None, float(Fraction(after) / Fraction(allowed)) if allowed else 0.0
