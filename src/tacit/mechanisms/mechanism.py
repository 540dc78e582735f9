"""What every mechanism offers: a step that ends a plan, and its accuracy in both directions.

A mechanism is a frozen record of its public parameters. Bound to a space it becomes a `Measurement`. Its accuracy is known
without data: `accuracy(beta)` is the error that is exceeded with probability at most beta, and `for_accuracy(alpha, beta)` is
the mechanism with the least privacy cost that keeps it. Errors are absolute, in the unit of the answer. The rest of the
module is what mechanisms share: the numbers that noise is added to (`numbers_of`, `add`), and rows of whole numbers with
public bounds (`whole_rows`).

>>> from tacit.calculus import Absolute, Lattice
>>> numbers_of(Space(Lattice(Fraction(1, 4)), Absolute()), "laplace", L1, "")
Numbers(granularity=Fraction(1, 4), length=None, whole=False)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np

from tacit.accounting import Event
from tacit.calculus import (
    L1,
    L2,
    Absolute,
    DomainError,
    Integers,
    Lattice,
    Measurement,
    MetricError,
    Rows,
    Space,
    Step,
    Vectors,
    granule,
    whole_bounds,
)
from tacit.mechanisms.noisy_sums import added
from tacit.noise import from_lattice
from tacit.parameters import Number, positive


class Mechanism(Step):
    """A step that ends a plan by adding noise."""

    def bind(self, space: Space) -> Measurement:
        """The mechanism on a space, or a refusal that says what the space lacks."""
        raise NotImplementedError

    def accuracy(self, beta: Number, *args: Any, **facts: Any) -> float:
        """An error that is exceeded with probability at most `beta`; rounded up. Each kind says which public facts it needs."""
        raise NotImplementedError

    @classmethod
    def for_accuracy(cls, alpha: Number, beta: Number, *args: Any, **facts: Any) -> Self:
        """The most private mechanism of this kind whose error exceeds `alpha` with probability at most `beta`."""
        raise NotImplementedError


class Additive(Mechanism):
    """A mechanism that adds independent noise of one law to each coordinate of the answer."""

    def accuracy(self, beta: Number, *, dimension: int = 1, granularity: Number = 0) -> float:
        """The error of all `dimension` coordinates that is exceeded with probability at most beta."""
        raise NotImplementedError

    def adding(
        self, space: Space, numbers: Numbers, draw: Callable[[int | None], Any], privacy: Callable[[Number], Event], name: str, proof: str
    ) -> Measurement:
        """The measurement that adds what `draw` returns for the length of the answer."""
        return Measurement(
            space,
            lambda value: add(numbers, value, draw(numbers.length)),
            privacy,
            name,
            proof,
            accuracy=lambda beta: self.accuracy(beta, dimension=numbers.dimension, granularity=numbers.granularity),
        )


@dataclass(frozen=True)
class Numbers:
    """What noise is added to: one number (`length` None) or a vector, whole or counted in granules of a lattice."""

    granularity: Fraction
    length: int | None
    whole: bool

    @property
    def dimension(self) -> int:
        """How many coordinates get noise."""
        return 1 if self.length is None else self.length

    def granules(self, name: str, value: Number) -> Fraction:
        """A scale in the unit of the answer, counted in granules; refused here, not at the draw, where floating point ends."""
        return Fraction(positive(f"{name} over granularity", Fraction(value) / self.granularity))


def numbers_of(space: Space, name: str, norm: type[L1] | type[L2], advice: str) -> Numbers:
    """Whole numbers under the metric a proof needs, or a refusal: `norm` for vectors, the absolute difference for one number."""
    domain = space.domain
    element = domain.element if isinstance(domain, Vectors) else domain
    if not isinstance(element, (Integers, Lattice)):
        raise DomainError(
            f"{name} adds noise to whole numbers or to lattice values, not to {space.domain}; "
            "aggregate the rows first (count, total, histogram), and put round_to(granularity) before the aggregate where values are real"
        )
    expected = norm if isinstance(domain, Vectors) else Absolute
    if not isinstance(space.metric, expected):
        raise MetricError(f"{name} is proved for distances measured by {norm.__name__}, not by {space.metric}; {advice}")
    return Numbers(granule(element), domain.length if isinstance(domain, Vectors) else None, isinstance(element, Integers))


def add(numbers: Numbers, value: Any, noise: Any) -> Any:
    """Value plus noise, both whole: a Python integer or an array of them, or floats where the value is counted in granules.

    >>> add(Numbers(Fraction(1), None, True), 40, 2), add(Numbers(Fraction(1, 4), None, False), 40, 2)
    (42, 10.5)
    >>> add(Numbers(Fraction(1), 2, True), [1, 2], np.array([0, -3])).tolist()
    [1, -1]
    """
    total: Any = single(value) + int(noise) if numbers.length is None else added(np.asarray(value), np.asarray(noise))
    return total if numbers.whole else from_lattice(total, numbers.granularity)


def single(value: Any) -> int:
    """One whole number, also where enforcing its domain has put it into an array of its own.

    >>> single(5), single(np.array([5]))
    (5, 5)
    """
    if isinstance(value, np.ndarray):
        if value.size != 1:
            raise DomainError("one number is needed, not an array of several; for several use Vectors(Integers(), length) and L1() or L2()")
        return int(value.reshape(-1)[0])
    return int(value)


def whole_rows(space: Space, what: str, *, vectors: bool = False) -> tuple[int, int, Fraction | None]:
    """The public bounds of rows of whole numbers, in granules, and the granularity (None for plain integers); or a refusal.

    With `vectors`, a vector of public length may stand for the rows.
    """
    element = space.domain.element if isinstance(space.domain, (Rows, Vectors) if vectors else Rows) else None
    if not isinstance(element, (Integers, Lattice)):
        raise DomainError(f"{what} needs rows of whole numbers or lattice values, not {space.domain}; put round_to(granularity) before it")
    low, high = whole_bounds(element)
    if low is None or high is None:
        raise DomainError(f"{what} needs public bounds; put clamp(lower, upper) before it, or find them with automatic_bounds")
    return low, high, element.granularity if isinstance(element, Lattice) else None
