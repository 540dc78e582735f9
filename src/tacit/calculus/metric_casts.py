"""Steps that leave the data as it is and measure distances another way.

Use one where a step or a mechanism is proved for another metric than the plan has: its stability map says what the change
of metric costs.

>>> from tacit.calculus import Integers, ReplaceOne, Rows, Space, count
>>> (Space(Rows(Integers(), size=10), ReplaceOne()) >> as_add_remove() >> count()).map(1)
2
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from tacit.calculus.chain import Space, Stability, Step, Transformation
from tacit.calculus.collection_domains import Rows, Vectors
from tacit.calculus.domains import Integers, Lattice
from tacit.calculus.errors import DomainError, MetricError
from tacit.calculus.metrics import L1, L2, AddRemove, Hamming, LInfinity, Metric, ReplaceOne
from tacit.exact import root
from tacit.parameters import Number


@dataclass(frozen=True)
class AsAddRemove(Step):
    """An exchange, counted as one row gone and one come."""

    def bind(self, space: Space) -> Transformation:
        if not (isinstance(space.domain, Rows) and isinstance(space.metric, (ReplaceOne, Hamming))):
            raise MetricError(f"as_add_remove converts from ReplaceOne() or Hamming(), not from {space.metric}; there is no way back")
        output, proof = Space(Rows(space.domain.element), AddRemove()), "an exchange removes a row and adds one"
        return Transformation(space, output, lambda data: data, lambda d: 2 * d, "as_add_remove()", proof)


def as_add_remove() -> AsAddRemove:
    """Use what is proved under add/remove on data whose rows are exchanged: each exchange counts twice (textbook, theorem 1.6)."""
    return AsAddRemove()


@dataclass(frozen=True)
class Unordered(Step):
    """Rows at positions, seen as rows in no order."""

    def bind(self, space: Space) -> Transformation:
        if not (isinstance(space.domain, Rows) and isinstance(space.metric, Hamming)):
            raise MetricError(f"unordered converts from Hamming(), not from {space.metric}")
        proof = "a position that differs exchanges at most one row"
        return Transformation(space, Space(space.domain, ReplaceOne()), lambda data: data, lambda d: d, "unordered()", proof)


def unordered() -> Unordered:
    """From positions that differ to rows that are exchanged.

    >>> from tacit.calculus import Hamming, Integers, Rows, Space
    >>> (Space(Rows(Integers()), Hamming()) >> unordered()).output.metric
    ReplaceOne()
    """
    return Unordered()


@dataclass(frozen=True)
class AsNorm(Step):
    """A vector whose distances are measured by another norm."""

    norm: Metric

    def bind(self, space: Space) -> Transformation:
        if not isinstance(space.domain, Vectors):
            raise DomainError(f"norms measure vectors, not {space.domain}")
        whole = isinstance(space.domain.element, (Integers, Lattice))
        stability, proof = _between(space.metric, self.norm, space.domain.length, whole)
        name = f"as_norm({self.norm})"
        return Transformation(space, Space(space.domain, self.norm), lambda data: data, stability, name, proof)


def _between(have: Metric, want: Metric, size: int, whole: bool) -> tuple[Stability, str]:
    """How large the wanted norm can be where the known one is at most d."""
    if isinstance(want, LInfinity) and want.monotone:
        # Rise plus fall is at most the L1 norm, and at most two coordinates of the others.
        match have:
            case L1():
                return lambda d: d, "rise plus fall is at most the sum of all changes"
            case L2():
                return _spread(min(size, 2), whole), "rise and fall are two coordinates (Cauchy-Schwarz); on whole numbers |x| <= x^2"
            case LInfinity():
                return (lambda d: d if have.monotone or size == 1 else 2 * d), "rise and fall are at most d each"
    match have, want:
        case (L1(), L1() | L2() | LInfinity()) | (L2(), L2() | LInfinity()) | (LInfinity(), LInfinity()):
            return lambda d: d, "a p-norm does not grow with p"
        case L2(), L1():
            return _spread(size, whole), "Cauchy-Schwarz; on whole numbers |x| <= x^2"
        case LInfinity(), L1():
            return lambda d: size * d, "every coordinate is at most d"
        case LInfinity(), L2():
            return (lambda d: root(size * Fraction(d) ** 2)), "every coordinate is at most d"
    raise MetricError(f"there is no conversion from {have} to {want}; use L1(), L2() or LInfinity()")


def _spread(size: int, whole: bool) -> Stability:
    """The largest L1 norm of `size` coordinates whose L2 norm is at most d."""

    def stability(d: Number) -> Number:
        wide = root(size * Fraction(d) ** 2)
        # A whole number is at most its own square, so the L1 norm is at most the square of the L2 norm as well.
        return min(wide, Fraction(d) ** 2) if whole else wide

    return stability


def as_norm(norm: Metric) -> AsNorm:
    """Measure the distances of a vector by another norm.

    >>> from tacit.calculus import Vectors, Space
    >>> scores = Space(Vectors(Integers(), 9), L1())
    >>> (scores >> as_norm(L2())).map(3), (scores >> as_norm(L2()) >> as_norm(L1())).map(3)
    (3, Fraction(9, 1))
    """
    return AsNorm(norm)
