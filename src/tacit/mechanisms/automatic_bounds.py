"""Bounds found privately: where the values lie, up to a power of two.

Values are counted in public cells that double in width on either side of 0. Noise is added to every count, and the outermost
cells whose noisy counts pass a public threshold give the bounds. Where none passes, a public fallback is returned, and the
answer says so. Use it where a column has no public bounds to clamp to.

>>> from tacit.calculus import AddRemove
>>> from tacit.mechanisms.laplace import laplace
>>> plan = Space(Rows(Integers()), AddRemove()) >> automatic_bounds(laplace(1), beta=1e-12)
>>> plan.event(1)
Laplace(noise_multiplier=1)
>>> found = plan.release([5, 6, 7, 40] * 100).value
>>> found.lower, found.upper, found.found
(Fraction(4, 1), Fraction(63, 1), True)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np

from tacit.accounting import Event, ParameterError
from tacit.calculus import DomainError, Integers, Lattice, Measurement, Rows, Space, Step, granule
from tacit.mechanisms.accuracy import failure, largest_scale
from tacit.mechanisms.doubling_cells import FoundBounds, bounds_from
from tacit.mechanisms.histogram import NoisyHistogram, on_counts
from tacit.mechanisms.mechanism import Mechanism
from tacit.parameters import Number, count, number, positive

PROOF = "a noisy histogram over public cells, then post-processing (Wilson et al. 2020, Section 5.1)"


@dataclass(frozen=True)
class AutomaticBounds(Step):
    """Bounds by a noisy histogram with cells 0, [1, 1], [2, 3], [4, 7], ... granules, and the same below 0.

    Guarantee
        Statement: d rows cost the noise's event at L1 distance d under add/remove and 2d under replace-one, however many cells there are.
        Conditions: rows of whole numbers or lattice values; `bits`, `beta`, `fallback` public. Values of more bits count in the last cell.
        Proved in: each row is in one cell; choosing the outermost cells above a public threshold is post-processing.
        Correction: the threshold bounds all noises at once, so a cell without rows passes with probability at most beta altogether.
    """

    noise: Mechanism
    bits: int = 40
    beta: Number = 1e-3
    fallback: tuple[Number, Number] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "bits", count("bits", self.bits))
        if self.bits > 62:
            raise ParameterError(f"bits must be at most 62, the size of the largest values in granules, not {self.bits}")
        failure(self.beta)
        if self.fallback is not None:
            low, high = (Fraction(number("fallback", end)) for end in self.fallback)
            if low > high:
                raise ParameterError(f"fallback must be lower then upper bound, not {low} and {high}")
            object.__setattr__(self, "fallback", (low, high))

    @property
    def cells(self) -> int:
        """How many public cells there are."""
        return 2 * self.bits + 1

    def bind(self, space: Space) -> Measurement:
        element = space.domain.element if isinstance(space.domain, Rows) else None
        if not isinstance(element, (Integers, Lattice)):
            raise DomainError(f"automatic_bounds needs rows on a lattice, not {space.domain}; put round_to(granularity) before it")
        step = granule(element)
        measured, stretch = on_counts(self.noise, self.cells, space)
        if measured.accuracy is None:
            raise DomainError(f"automatic_bounds needs noise whose accuracy is known, such as laplace(scale), not {measured.name}")
        threshold = measured.accuracy(float(self.beta))

        whole = (2**self.bits - 1) * step
        low, high = (-whole, whole) if self.fallback is None else self.fallback
        otherwise = Fraction(low), Fraction(high)

        def function(data: Any) -> FoundBounds:
            noisy = measured.function(counts(data, self.bits))
            return bounds_from(noisy.tolist(), threshold, otherwise, whole=True, step=step)

        def privacy(distance: Number) -> Event:
            return measured.privacy(distance * stretch)

        return Measurement(space, function, privacy, f"automatic_bounds({measured.name})", PROOF)

    def accuracy(self, beta: Number) -> float:
        """How many rows may lie on either side of the bounds that are found, except with probability beta.

        A cell with more rows than the threshold and the noise's own error passes, so an outermost cell that does not pass has at most so
        many, and there are `bits` cells, or `bits` + 1 with that of 0, on a side. A single cell with more rows than `accuracy(beta) /
        (bits + 1)` is within the bounds.

        >>> from tacit.mechanisms.laplace import laplace
        >>> automatic_bounds(laplace(1), bits=10).accuracy(0.05)
        176.0
        """
        return (self.bits + 1) * (self._error(float(self.beta)) + self._error(failure(beta)))

    @classmethod
    def for_accuracy(
        cls, alpha: Number, beta: Number, *, bits: int = 40, empty: Number = 1e-3, fallback: tuple[Number, Number] | None = None
    ) -> Self:
        """Bounds with the least Laplace noise that leave at most alpha rows on either side except with probability beta; `empty` is the
        chance that some cell without rows passes (the `beta` of `automatic_bounds`).

        >>> AutomaticBounds.for_accuracy(176, 0.05, bits=10).accuracy(0.05)
        176.0
        """
        from tacit.mechanisms.laplace import LaplaceMechanism

        goal = float(positive("alpha", alpha))

        scale = largest_scale(lambda scale: cls(LaplaceMechanism(scale), bits, empty, fallback).accuracy(beta) <= goal, 1.0)
        return cls(LaplaceMechanism(scale), bits, empty, fallback)

    def _error(self, beta: float) -> float:
        return NoisyHistogram(self.noise).accuracy(beta, cells=self.cells)


def counts(data: Any, bits: int) -> np.ndarray:
    """How many whole numbers have each sign and number of bits; longer ones count in the outermost cells.

    >>> counts([-9, -1, 0, 3, 10**30], 2).tolist()
    [1, 1, 1, 0, 2]
    """
    array = np.asarray(data)
    if array.dtype == object:
        cell = np.array([min(abs(x).bit_length(), bits) * ((x > 0) - (x < 0)) for x in array.tolist()], dtype=np.int64)
    else:
        limit = 2**bits - 1
        array = np.clip(array.astype(np.int64), -limit, limit)
        # the number of powers of two up to |x| is its number of bits, in integers throughout
        cell = np.searchsorted(2 ** np.arange(bits, dtype=np.int64), np.abs(array), side="right") * np.sign(array)
    return np.bincount(cell + bits, minlength=2 * bits + 1)


def automatic_bounds(
    noise: Mechanism, *, bits: int = 40, beta: Number = 1e-3, fallback: tuple[Number, Number] | None = None
) -> AutomaticBounds:
    """Bounds within a factor 2 of the values' own, as far as enough rows lie near them.

    `bits` is how large values may be, in granules; beta the chance that some cell without rows passes; `fallback` the public bounds to
    return where nothing passes, by default the whole range.
    """
    return AutomaticBounds(noise, bits, beta, fallback)
