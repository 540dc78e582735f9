"""Noisy histograms over public categories: every cell gets its own noise, the empty ones too.

A row is in one cell, so all cells together cost what one count costs (parallel composition) under add/remove, and twice that
where a row may be exchanged for one of another cell. Which cells there are is never read from the data.

>>> from tacit.calculus import AddRemove, ReplaceOne
>>> from tacit.mechanisms.laplace import laplace
>>> ages = Rows(Categories(("young", "old")))
>>> plan = Space(ages, AddRemove()) >> noisy_histogram(laplace(2))
>>> plan.event(1), (Space(ages, ReplaceOne()) >> noisy_histogram(laplace(2))).event(1)
(Laplace(noise_multiplier=2), Laplace(noise_multiplier=1, adjacency=Adjacency.REPLACE_ONE))
>>> sorted(plan.release(["old"] * 50).value.raw)
['old', 'young']
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np

from tacit.accounting import Event, ParameterError
from tacit.calculus import (
    L1,
    L2,
    AddRemove,
    Categories,
    Domain,
    DomainError,
    Integers,
    Measurement,
    MetricError,
    Records,
    Rows,
    Space,
    Step,
    Vectors,
    cell_step,
    listed,
)
from tacit.mechanisms.accuracy import failure
from tacit.mechanisms.mechanism import Mechanism
from tacit.mechanisms.noisy_sums import Law
from tacit.parameters import Number, count

PROOF = "a row is counted in one cell (parallel composition; McSherry 2009, Theorem 4), then the noise's own guarantee"
#: More cells than this are surely a mistake: each of them is released.
MOST = 10_000_000
Post = Literal["clip0", "round"]


@dataclass(frozen=True)
class HistogramAnswer:
    """Noisy counts by category: `raw` as drawn, unbiased; `counts` after post-processing, which costs nothing but may bias."""

    raw: Mapping[Hashable, int]
    counts: Mapping[Hashable, int] = field(default_factory=dict)


def on_counts(mechanism: Mechanism, cells: int, space: Space) -> tuple[Measurement, Number]:
    """The mechanism on a vector of counts of disjoint cells, and how far one step of the data moves that vector in its norm.

    Under add/remove a row moves one cell by one. An exchanged row moves two: by 2 in L1, by the square root of 2 in L2.

    >>> from tacit.calculus import ReplaceOne
    >>> from tacit.mechanisms.laplace import laplace
    >>> on_counts(laplace(2), 3, Space(Rows(Categories("abc")), ReplaceOne()))[1]
    2
    """
    vectors = Vectors(Integers(0, None), cells)
    norm: L1 | L2 = L1()
    stretch = cell_step(space, norm, "a histogram")
    try:
        return mechanism.bind(Space(vectors, norm)), stretch
    except MetricError:  # noise that is proved for Euclidean distances
        norm = L2()
        return mechanism.bind(Space(vectors, norm)), cell_step(space, norm, "a histogram")


def public_values(domain: Domain) -> tuple[Hashable, ...] | None:
    """The public values of a domain, where it has a finite list of them.

    >>> public_values(Integers(0, 2)), public_values(Categories(("a", "b"))), public_values(Integers())
    ((0, 1, 2), ('a', 'b'), None)
    """
    match domain:
        case Categories():
            return domain.values
        case Integers(lower=int(low), upper=int(high)) if high - low < MOST:
            return tuple(range(low, high + 1))
    return None


@dataclass(frozen=True)
class NoisyHistogram(Step):
    """Counts of all public categories with independent noise.

    Guarantee
        Statement: d rows cost the noise's event at L1 distance d under add/remove and 2d under replace-one (L2: d, and sqrt(2) d).
        Conditions: categories public; rows of unlisted values are counted nowhere, or as the domain's default where it has one.
        Proved in: McSherry 2009, Theorem 4 (parallel composition); textbook 1.4.4, example 2.
        Correction: the textbook's Lap(1/epsilon) is for add/remove; with exchanged rows the scale doubles. Setting negatives to 0 moves an
        empty cell up by scale/2 on average, so the raw counts are kept.
    """

    noise: Mechanism
    categories: tuple[Hashable, ...] | None = None
    by: tuple[str, ...] = ()
    postprocess: tuple[Post, ...] = ()

    def __post_init__(self) -> None:
        unknown = [name for name in self.postprocess if name not in ("clip0", "round")]
        if unknown:
            raise ParameterError(f"postprocess may name 'clip0' and 'round', not {unknown[0]!r}")

    def cells(self, domain: Domain) -> tuple[Hashable, ...]:
        """The public cells: listed here, or those of the domain, or all combinations of the columns named in `by`."""
        if self.categories is not None:
            found: tuple[Hashable, ...] = tuple(self.categories)
            if not found or len(set(found)) != len(found):
                raise ParameterError("categories must be a list of different public values, at least one")
            return found
        element = domain.element if isinstance(domain, Rows) else None
        if isinstance(element, Records):
            if not self.by:
                raise DomainError(f"name the columns to count by: by=({element.names[0]!r}, ...)")
            columns = [(name, public_values(element[name])) for name in self.by]
            open_ones = [name for name, values in columns if values is None]
            if open_ones:
                raise DomainError(f"column {open_ones[0]!r} has no public list of values; bin it, or give categories")
            found = tuple(itertools.product(*(values for _, values in columns if values is not None)))
        else:
            values = None if element is None else public_values(element)
            if values is None:
                raise DomainError(f"{domain} has no public list of values, and it is never read from the data; give categories")
            found = values
        if len(found) > MOST:
            raise DomainError(f"there would be {len(found)} cells, more than {MOST}; count by fewer columns, or coarser ones")
        return found

    def bind(self, space: Space) -> Measurement:
        if not isinstance(space.domain, Rows):
            raise DomainError(f"a histogram counts rows, not {space.domain}")
        cells = self.cells(space.domain)
        measured, stretch = on_counts(self.noise, len(cells), space)
        place = {value: index for index, value in enumerate(cells)}

        def function(data: Any) -> HistogramAnswer:
            drawn = measured.function(counts_of(_keys(data, self.by), place))
            raw = dict(zip(cells, drawn.tolist(), strict=True))
            return HistogramAnswer(raw, {cell: self.finished(value) for cell, value in raw.items()})

        def privacy(distance: Number) -> Event:
            return measured.privacy(distance * stretch)

        return Measurement(space, function, privacy, f"noisy_histogram({measured.name})", PROOF, accuracy=measured.accuracy)

    def accuracy(self, beta: Number, *, cells: int) -> float:
        """The error of all `cells` counts at once that is exceeded with probability at most beta, before post-processing.

        >>> from tacit.mechanisms.laplace import laplace
        >>> noisy_histogram(laplace(2)).accuracy(0.05, cells=1), noisy_histogram(laplace(2)).accuracy(0.05, cells=100)
        (6.0, 15.0)
        """
        # the noise has independent coordinates and no distance is asked for, so any space of counts will do
        found = on_counts(self.noise, count("cells", cells), Space(Rows(Integers(0, 1)), AddRemove()))[0].accuracy
        if found is None:
            raise ParameterError("noise must be a mechanism whose accuracy is known, such as laplace(scale)")
        return found(failure(beta))

    @classmethod
    def for_accuracy(
        cls, alpha: Number, beta: Number, *, cells: int, kind: Law = "laplace",
        categories: Sequence[Hashable] | None = None, by: Sequence[str] = (), postprocess: Sequence[Post] = (),
    ) -> Self:  # fmt: skip
        """The histogram with the least privacy cost of which all counts are within alpha except with probability beta.

        >>> found = NoisyHistogram.for_accuracy(15, 0.05, cells=100)
        >>> found.accuracy(0.05, cells=100), round(float(found.noise.scale), 3)
        (15.0, 2.046)
        """
        from tacit.mechanisms.gaussian import GaussianMechanism
        from tacit.mechanisms.laplace import LaplaceMechanism

        law = GaussianMechanism if kind == "gaussian" else LaplaceMechanism
        noise = law.for_accuracy(alpha, beta, dimension=count("cells", cells), granularity=1)
        return cls(noise, None if categories is None else tuple(categories), tuple(by), tuple(postprocess))

    def finished(self, value: int) -> int:
        """One count after post-processing. Counts are whole already, so `round` has nothing left to do."""
        return max(0, value) if "clip0" in self.postprocess else value


def _keys(data: Any, by: Sequence[str]) -> list[Any]:
    """What each row is counted as."""
    if isinstance(data, Mapping):
        return list(zip(*(listed(data[name]) for name in by), strict=True))
    return listed(data)


def counts_of(values: list[Any], place: Mapping[Hashable, int]) -> np.ndarray:
    """How many values fall into each cell; unlisted ones, and what cannot be looked up, into none.

    >>> counts_of(["a", "c", "a", ["d"], ("e", [])], {"a": 0, "b": 1}).tolist()
    [2, 0]
    """
    found = [_placed(value, place) for value in values]
    return np.bincount(np.asarray(found, dtype=np.int64) + 1, minlength=len(place) + 1)[1:]


def _placed(value: Any, place: Mapping[Hashable, int]) -> int:
    try:
        return place.get(value, -1)
    except (TypeError, ValueError):  # it has no hash, so it equals no category: not an error, which would tell
        return -1


def noisy_histogram(
    noise: Mechanism, categories: Sequence[Hashable] | None = None, *, by: Sequence[str] = (), postprocess: Sequence[Post] = ()
) -> NoisyHistogram:
    """A noisy count for every public category (or combination of the columns `by`); `postprocess` may name "clip0" and "round"."""
    return NoisyHistogram(noise, None if categories is None else tuple(categories), tuple(by), tuple(postprocess))
