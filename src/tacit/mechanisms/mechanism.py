"""What every mechanism offers: a step to put at the end of a plan, and its accuracy in both directions.

A mechanism is a frozen record of its public parameters. Bound to a space it becomes a `Measurement`. Its accuracy is known
without data: `accuracy(beta)` is the error that is exceeded with probability at most beta, and `for_accuracy(alpha, beta)` is the
mechanism with the least privacy cost that keeps it. Errors are absolute, in the unit of the answer.

Mechanisms that add noise share the second half of this module: what they are put on (`numbers_of`), and how whole noise is added to
whole numbers and handed back (`add`).

>>> from tacit.calculus import Absolute, Lattice
>>> numbers_of(Space(Lattice(Fraction(1, 4)), Absolute()), "laplace", L1, "")
Numbers(granularity=Fraction(1, 4), length=None, whole=False)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np

from tacit.calculus import L1, L2, Absolute, DomainError, Integers, Lattice, Measurement, MetricError, Space, Step, Vectors
from tacit.mechanisms.noisy_sums import added
from tacit.noise import from_lattice
from tacit.parameters import Number, positive


class Mechanism(Step):
    """A step that ends a plan by adding noise."""

    def bind(self, space: Space) -> Measurement:
        """The mechanism on a space, or a refusal that says what the space lacks."""
        raise NotImplementedError

    def accuracy(self, beta: Number) -> float:
        """An error that is exceeded with probability at most `beta`; rounded up."""
        raise NotImplementedError

    @classmethod
    def for_accuracy(cls, alpha: Number, beta: Number) -> Self:
        """The most private mechanism of this kind whose error exceeds `alpha` with probability at most `beta`."""
        raise NotImplementedError


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
    length = domain.length if isinstance(domain, Vectors) else None
    return Numbers(element.granularity if isinstance(element, Lattice) else Fraction(1), length, isinstance(element, Integers))


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
