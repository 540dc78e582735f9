"""Where people are: a grid with any randomiser, safe zones that people choose themselves, and planar Laplace noise.

A uniform grid is ordinary local privacy: any two cells are hidden from each other. The other two say less, and say so:

- *Personalised* local privacy (Chen et al. 2016): a person names a zone of a public hierarchy (country, city, quarter) that may be known,
  and a price; only the place within the zone is hidden. Errors are far smaller, because no report is about places outside.
- *Geo-indistinguishability* (Andres et al. 2013): the place itself with noise; two places are hidden the better the nearer they are,
  by epsilon times their distance.

>>> towns = Taxonomy({"north": {"n1": ["a", "b"], "n2": ["c", "d"]}, "south": ["e", "f"]})
>>> towns.leaves("north"), towns.parent("n1")
(('a', 'b', 'c', 'd'), 'north')
>>> zone_protocol(towns, "n1", epsilon=1).protects
'two places of one safe zone'
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit import noise
from tacit.accounting import Adjacency, PureDP
from tacit.errors import ParameterError
from tacit.local.choose import best
from tacit.local.collector import Collector
from tacit.local.domain import Domain, domain
from tacit.local.protocol import Protocol
from tacit.mechanisms import exp_bracket
from tacit.parameters import Number, count, number, positive

Array = NDArray[np.float64]
#: Just below the root of 1/2: 2 * 13860^2 + 1 = 19601^2.
BELOW = Fraction(13860, 19601)


# --- a grid ---


@domain
@dataclass(frozen=True)
class UniformGrid(Domain):
    """A box of the plane cut into columns and rows of equal cells; what lies outside counts in the nearest cell, what is no place in 0."""

    west: Number
    east: Number
    south: Number
    north: Number
    columns: int
    rows: int

    kind: ClassVar[str] = "uniform-grid"

    def __post_init__(self) -> None:
        for low, high in (("west", "east"), ("south", "north")):
            for name in (low, high):
                object.__setattr__(self, name, Fraction(number(name, getattr(self, name))))
            if not getattr(self, low) < getattr(self, high):
                raise ParameterError(f"{low} must be below {high}")
        for name in ("columns", "rows"):
            object.__setattr__(self, name, count(name, getattr(self, name)))
        if not 2 <= self.columns * self.rows <= 2**32:
            raise ParameterError("columns times rows must be between 2 and 2^32 cells")

    @property
    def size(self) -> int:
        return self.columns * self.rows

    def place(self, value: object) -> int:
        return int(self.places([value])[0])

    def places(self, values: Iterable[object]) -> NDArray[np.int64]:
        given = np.array([_pair(value) for value in values], dtype=np.float64).reshape(-1, 2)
        known = ~np.isnan(given).any(axis=1)
        found = np.zeros(len(given), dtype=np.int64)
        for axis, (low, high, cells) in enumerate(((self.west, self.east, self.columns), (self.south, self.north, self.rows))):
            share = (np.clip(given[:, axis], float(low), float(high)) - float(low)) / float(high - low)
            cell = np.clip(np.where(known, share, 0.0) * cells, 0, cells - 1).astype(np.int64)
            found += cell if axis == 0 else cell * self.columns
        return np.where(known, found, 0)

    def cell(self, place: int) -> tuple[float, float]:
        """The middle of a cell."""
        row, column = divmod(int(place), self.columns)
        across = float(self.west) + (column + 0.5) / self.columns * float(self.east - self.west)
        return across, float(self.south) + (row + 0.5) / self.rows * float(self.north - self.south)


def _pair(value: object) -> tuple[float, float]:
    """Two finite numbers, or two NaN for anything else; no value raises."""
    nothing = (math.nan, math.nan)
    if not isinstance(value, Iterable):
        return nothing
    try:
        x, y = (float(each) for each in value)
    except (TypeError, ValueError, OverflowError):
        return nothing
    return (x, y) if not math.isnan(x) and not math.isnan(y) else nothing


def grid_shares(box: Sequence[Number], *, columns: int, rows: int, epsilon: Number) -> Protocol:
    """A protocol for the share of people in each cell of a box (west, east, south, north).

    >>> grid_shares((0, 10, 0, 5), columns=10, rows=5, epsilon=1).place((9.9, 4.9))
    49
    """
    if len(box) != 4:
        raise ParameterError("box must be west, east, south and north")
    west, east, south, north = box
    cells = UniformGrid(west, east, south, north, columns, rows)
    return Protocol(cells, best(cells.size, epsilon))


# --- safe zones ---


class Taxonomy:
    """A public hierarchy of places: mappings of names to parts, and lists of places at the end."""

    def __init__(self, tree: Mapping[str, Any], *, root: str = "everywhere") -> None:
        self.root = root
        self._below: dict[str, tuple[str, ...]] = {}
        self._parent: dict[str, str] = {}
        self._leaves(root, tree)
        self.places = self._below[root]

    def _leaves(self, name: str, parts: Any) -> tuple[str, ...]:
        if not isinstance(name, str) or name in self._below or name in self._parent.values():
            raise ParameterError("every zone must have a name of its own")
        if isinstance(parts, Mapping):
            found: tuple[str, ...] = ()
            for each, below in parts.items():
                self._parent[each] = name
                found += self._leaves(each, below)
        elif isinstance(parts, (list, tuple)) and parts and all(isinstance(each, str) for each in parts):
            found = tuple(parts)
            self._parent.update(dict.fromkeys(found, name))
        else:
            raise ParameterError("a zone holds other zones, or a list of places that is not empty")
        if len(set(found)) < len(found):
            raise ParameterError("a place stands in the hierarchy twice")
        self._below[name] = found
        return found

    def leaves(self, zone: str) -> tuple[str, ...]:
        """The places of a zone."""
        if zone not in self._below:
            raise ParameterError("zone must be one of the hierarchy's")
        return self._below[zone]

    def parent(self, name: str) -> str:
        """The zone that a zone or place lies in."""
        if name not in self._parent:
            raise ParameterError("the name must be a zone or place below the root")
        return self._parent[name]


@domain
@dataclass(frozen=True)
class SafeZone(Domain):
    """The places of one zone, which is known of whoever reports by it; a place outside counts as the first."""

    zone: str
    leaves: tuple[str, ...]

    kind: ClassVar[str] = "safe-zone"
    protects: ClassVar[str] = "two places of one safe zone"

    def __post_init__(self) -> None:
        given = tuple(self.leaves)
        if len(given) < 2 or len(set(given)) < len(given) or not all(isinstance(each, str) for each in given):
            raise ParameterError("a safe zone needs at least two different places")
        object.__setattr__(self, "leaves", given)

    @property
    def size(self) -> int:
        return len(self.leaves)

    def place(self, value: object) -> int:
        own = str.__str__(value) if isinstance(value, str) else ""
        return self.leaves.index(own) if own in self.leaves else 0


def zone_protocol(taxonomy: Taxonomy, zone: str, *, epsilon: Number) -> Protocol:
    """The protocol of those who choose this zone and this price. With the root as the zone it is a plain list of places.

    Guarantee
        Statement: a report costs `protocol.event` for two places *of the zone*. This is personalised local privacy, not local privacy.
        Conditions: zone and epsilon are public and chosen without looking at the place within the zone.
        Proved in: the randomiser's own guarantee on the zone's places; the report's fingerprint tells zone and epsilon.
    """
    leaves = taxonomy.leaves(zone)
    randomiser = best(len(leaves), epsilon)
    return Protocol(leaves if zone == taxonomy.root else SafeZone(zone, leaves), randomiser)


@dataclass(frozen=True)
class ZoneAnswers:
    """Estimated numbers of people at each place, from all zones together, with deviations."""

    places: tuple[str, ...]
    count: Array
    deviation: Array
    n: int

    @classmethod
    def of(cls, taxonomy: Taxonomy, collectors: Iterable[Collector], *, alike: bool = False) -> ZoneAnswers:
        """What the collectors of all zones tell. Counts add up: everyone is in one zone's collector.

        With `alike`, people of one zone who chose different prices are taken to be spread alike, and their shares are weighted by their
        variances: smaller errors, if that is so.
        """
        index = {place: i for i, place in enumerate(taxonomy.places)}
        zones: dict[tuple[str, ...], list[tuple[int, Array, Array]]] = {}
        for collector in collectors:
            holding = collector.protocol.values
            leaves = holding.leaves if isinstance(holding, SafeZone) else holding
            if not isinstance(leaves, tuple) or not set(leaves) <= set(index):
                raise ParameterError("each collector must be of a protocol that `zone_protocol` made of this hierarchy")
            found = collector.estimate()
            zones.setdefault(tuple(str(leaf) for leaf in leaves), []).append((found.n, found.share, found.deviation**2))
        total, spread, people = np.zeros(len(index)), np.zeros(len(index)), 0
        for leaves, groups in zones.items():
            own, n = [index[leaf] for leaf in leaves], sum(group[0] for group in groups)
            if alike:
                weights = np.stack([1 / variance for _, _, variance in groups])
                share = (weights * np.stack([share for _, share, _ in groups])).sum(axis=0) / weights.sum(axis=0)
                counts, variance = n * share, n**2 / weights.sum(axis=0)
            else:
                counts = np.asarray(sum(m * share for m, share, _ in groups))
                variance = np.asarray(sum(m**2 * variance for m, _, variance in groups))
            total[own] += counts
            spread[own] += variance
            people += n
        return cls(taxonomy.places, total, np.sqrt(spread), people)


# --- planar Laplace noise ---


@dataclass(frozen=True)
class PlanarLaplace:
    """A place on a lattice of `step` with noise z of mass proportional to exp(-epsilon step |z|).

    Epsilon is a loss for each unit of length.

    Guarantee
        Statement: reports of two places at distance r have likelihood ratios of at most e^(epsilon (r + `rounding`)): `event(r)`. This
        is geo-indistinguishability, not local privacy.
        Conditions: one report a person, or one payment for each; drawn from the operating system's entropy.
        Proved in: the mass depends on the distance alone, so the triangle inequality gives the statement on the lattice; rounding to it
        moves each place by at most half a diagonal. Whole-number proposals of mass exp(-a (|x| + |y|)), a a fraction below epsilon step
        over the root of 2, are accepted with exp(a (|x| + |y|) - epsilon step |z|), compared with a uniform number digit by digit
        between fractions that enclose it.

    >>> law = PlanarLaplace(epsilon=2, step=0.1)
    >>> len(law.privatise((3.0, 4.0)))
    2
    >>> round(law.mean_distance, 2)
    1.0
    """

    epsilon: Number
    step: Number

    #: Between which values the price holds.
    protects: ClassVar[str] = "two places, by their distance"

    def __post_init__(self) -> None:
        for name in ("epsilon", "step"):
            object.__setattr__(self, name, Fraction(positive(name, getattr(self, name))))
        if not Fraction(1, 2**20) <= self._rate <= 50:
            raise ParameterError("epsilon times step must be between 2^-20 and 50; choose another step of the lattice")

    @property
    def _rate(self) -> Fraction:
        return Fraction(self.epsilon) * Fraction(self.step)

    @property
    def rounding(self) -> float:
        """How far two places can be moved apart by rounding to the lattice, and by the division's own rounding."""
        return float(self.step) * math.sqrt(2) * (1 + 1e-6)

    @property
    def mean_distance(self) -> float:
        """The mean distance of a report from its place, for a lattice much finer than the noise."""
        return 2 / float(self.epsilon)

    def event(self, radius: Number) -> PureDP:
        """The price for places within this distance of each other."""
        reach = Fraction(positive("radius", radius)) + Fraction(self.rounding) * (1 + Fraction(1, 2**50))
        return PureDP(Fraction(self.epsilon) * reach, adjacency=Adjacency.REPLACE_ONE)

    def privatise(self, place: object) -> tuple[float, float]:
        """A noisy place. What is no place, or beyond 1e9 steps, counts as the nearest place that is, or as 0."""
        given = _pair(place)
        step = float(self.step)
        own = [0 if math.isnan(each) else round(max(-1e9, min(1e9, each / step))) for each in given]
        x, y = self._noise()
        return (own[0] + x) * step, (own[1] + y) * step

    def _noise(self) -> tuple[int, int]:
        slow = self._rate * BELOW
        while True:
            x, y = (int(each) for each in noise.discrete_laplace(1 / slow, 2))
            if self._accepted(x * x + y * y, slow * (abs(x) + abs(y))):
                return x, y

    def _accepted(self, square: int, proposed: Fraction) -> bool:
        """A coin of probability exp(proposed - rate sqrt(square))."""
        bits = 64
        drawn = int(noise.words(1)[0])
        while True:
            root = math.isqrt(square << (2 * bits))
            low, high = (self._rate * Fraction(end, 1 << bits) - proposed for end in (root, root + 1))
            if square == 0:
                return True
            least, most = exp_bracket(-max(high, Fraction(0)), bits)[0], exp_bracket(-max(low, Fraction(0)), bits)[1]
            here = Fraction(drawn, 1 << bits), Fraction(drawn + 1, 1 << bits)
            if here[1] <= least:
                return True
            if here[0] >= most:
                return False
            drawn, bits = drawn << 64 | int(noise.words(1)[0]), bits + 64
