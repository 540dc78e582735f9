"""Integer sums with exact noise: scales, price, expected error and draw in one object.

A sum of whole numbers on a public lattice gets Laplace or Gaussian noise rounded to the same lattice.
`NoisySums` holds the scale of every block of sums and how far one unit can move all of them together; its
event follows from that, and so does its draw. Rooms that release sums make one of these and call nothing
else: no price is stated without its draw, and nothing is drawn without its price. `tacit.mechanisms.row_sums`
makes such sums from rows of floats.

>>> from tacit.noise import test_mode
>>> counts = NoisySums.of_scale("laplace", 2)  # one unit moves one count by 1
>>> counts.event, round(counts.deviation(), 4), round(counts.error(0.95), 4)
(Laplace(noise_multiplier=2), 2.8284, 6.4915)
>>> with test_mode(1):
...     noisy = counts.add(np.array([10, 0, 3]))
>>> noisy.shape, noisy.dtype
((3,), dtype('int64'))
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from tacit import noise
from tacit.accounting import Adjacency, Event, Gaussian, Laplace, NoOp, ParameterError
from tacit.noise import Size, from_lattice
from tacit.parameters import Number, positive

if TYPE_CHECKING:
    from tacit.noise import Fill

Floats = NDArray[np.float64]
Law = Literal["laplace", "gaussian"]


class CellLadder(Protocol):
    """Counts on a line of cells, measured through a whole-numbered matrix for accurate running totals."""

    def encoder(self, law: str) -> NDArray[np.int64]:
        """What one row in each cell adds to the sums that are released."""
        ...

    def error(self, law: str) -> float:
        """The typical deviation of a running total for noise of deviation 1 on each sum."""
        ...


@dataclass(frozen=True)
class NoisySums:
    """Noise for blocks of integer sums. `scales[i]` is the Laplace scale or the sigma of block i, in granules.

    `multiplier` is how much larger the noise is than what one unit can do to all sums together, each in its
    own scale: the sum of the absolute moves for Laplace noise, the root of the sum of their squares for
    Gaussian noise. `of_scale` and `of_multiplier` work it out for one block. `granularities[i]` is what one
    granule of block i is worth (1 if left out). A block with a ladder consists of the counts of its cells,
    which `add` encodes first.

    Guarantee
        Statement: releasing `add` of every block once costs `event`: Laplace(multiplier) or
        Gaussian(multiplier).
        Conditions: the sums are whole numbers. Neighbouring data move them by at most 1 / multiplier: l1
        distance for Laplace noise, Euclidean distance for Gaussian noise, each sum measured in the scale of
        its block, after the encoding of a ladder.
        Proved in: for whole x, round(x + Z) = x + round(Z), so rounded noise post-processes the textbook
        mechanism with real noise of the same scales. Divided by its scale every coordinate has noise of scale
        1, and the data move the divided vector by at most 1 / multiplier: for the curve of Laplace noise see
        `tacit.mechanisms.laplace`; spherical Gaussian noise leaves one coordinate (Dong, Roth, Su 2022,
        Theorem 2.7). `add_to_reals` is the same for sums that are no whole numbers: ceil(x) + floor(Z) is drawn
        (docs/decisions/0022), and what rounding up adds to `moved` is counted by whoever states it.
    """

    law: Law
    scales: tuple[Fraction, ...]
    multiplier: Number
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    granularities: tuple[Fraction, ...] = ()
    ladders: tuple[CellLadder | None, ...] = ()

    def __post_init__(self) -> None:
        if self.law not in ("laplace", "gaussian"):
            raise ParameterError(f"law must be 'laplace' or 'gaussian', not {self.law!r}")
        blocks = len(self.scales)
        object.__setattr__(self, "granularities", self.granularities or (Fraction(1),) * blocks)
        object.__setattr__(self, "ladders", self.ladders or (None,) * blocks)
        if not blocks == len(self.granularities) == len(self.ladders):
            raise ParameterError("scales, granularities and ladders must be equally many, one a block")
        if not all(scale > 0 for scale in self.scales) or not self.multiplier > 0:
            raise ParameterError("scales and multiplier must be positive")

    @classmethod
    def of_scale(
        cls, law: Law, scale: Number, moved: Number = 1, *, granularity: Number = 1, adjacency: Adjacency = Adjacency.ADD_REMOVE
    ) -> NoisySums:
        """One block with noise of this scale, whose sums one unit moves by at most `moved`, both in granules.

        >>> NoisySums.of_scale("gaussian", 6, moved=3).event, NoisySums.of_scale("gaussian", 6, moved=0).event
        (Gaussian(noise_multiplier=2), NoOp())
        """
        exact = Fraction(positive("scale", scale))
        return cls(law, (exact,), math.inf, adjacency, (Fraction(granularity),)).moving(moved)

    @classmethod
    def of_multiplier(
        cls, law: Law, multiplier: Number, moved: Number = 1, *, granularity: Number = 1, adjacency: Adjacency = Adjacency.ADD_REMOVE
    ) -> NoisySums:
        """One block with noise of `multiplier` times the `moved` granules by which one unit can move its sums.

        >>> NoisySums.of_multiplier("laplace", 0.5, moved=100).scales
        (Fraction(50, 1),)
        """
        scale = Fraction(positive("multiplier", multiplier)) * Fraction(moved)
        return cls(law, (scale,), multiplier, adjacency, (Fraction(granularity),))

    def moving(self, moved: Number) -> NoisySums:
        """The same noise on one block whose sums one unit moves by `moved` granules."""
        (scale,) = self.scales
        return replace(self, multiplier=tidy(scale / Fraction(moved)) if moved else math.inf)

    @property
    def event(self) -> Event:
        """What releasing all sums costs."""
        if self.multiplier == math.inf:
            return NoOp()
        leaf = Laplace if self.law == "laplace" else Gaussian
        return leaf(self.multiplier, adjacency=self.adjacency)

    @property
    def reach(self) -> Fraction:
        """How far one unit can move all sums together, in scales; never below the truth.

        >>> NoisySums.of_scale("laplace", 10, moved=4).reach
        Fraction(2, 5)
        """
        return Fraction(0) if self.multiplier == math.inf else 1 / Fraction(self.multiplier)

    def spread(self, block: int = 0) -> float:
        """The scale of a block in the unit of its sums."""
        return float(self.scales[block]) * float(self.granularities[block])

    def deviation(self, block: int = 0) -> float:
        """The standard deviation of the noise, in the unit of the sums; of a running total on a ladder."""
        ladder = self.ladders[block]
        wider = math.sqrt(2) if self.law == "laplace" else 1.0
        return self.spread(block) * wider * (1.0 if ladder is None else ladder.error(self.law))

    def error(self, confidence: float, block: int = 0) -> float:
        """What the noise of one sum exceeds with probability at most 1 - confidence, with half a granule for rounding."""
        wide = float(half_width([self.spread(block)], self.law, confidence)[0])
        return wide + float(self.granularities[block] / Fraction(2))

    @overload
    def draw(self, size: None = None, block: int = 0) -> int: ...
    @overload
    def draw(self, size: Size, block: int = 0) -> NDArray[Any]: ...
    def draw(self, size: Size | None = None, block: int = 0) -> int | NDArray[Any]:
        """The noise alone, in granules, for sums that are kept elsewhere, such as in a tensor."""
        sampler = noise.rounded_laplace if self.law == "laplace" else noise.rounded_gaussian
        found: int | NDArray[Any] = sampler(self.scales[block], size)
        return found

    @overload
    def add(self, sums: int, block: int = 0) -> int: ...
    @overload
    def add(self, sums: NDArray[Any], block: int = 0) -> NDArray[Any]: ...
    def add(self, sums: int | NDArray[Any], block: int = 0) -> int | NDArray[Any]:
        """The sums of one block with noise, in granules: one integer, or an array of any shape.

        >>> quiet = NoisySums.of_scale("gaussian", Fraction(1, 100))  # anything but 0 has probability 1e-545
        >>> quiet.add(2**70) == 2**70, quiet.add(np.array([], dtype=np.int64)).shape
        (True, (0,))
        """
        if not isinstance(sums, np.ndarray):
            return int(sums) + self.draw(None, block)
        ladder = self.ladders[block]
        if ladder is not None:
            sums = sums @ ladder.encoder(self.law).T
        return added(sums, self.draw(sums.shape, block))

    @overload
    def release(self, sums: int, block: int = 0) -> float: ...
    @overload
    def release(self, sums: NDArray[Any], block: int = 0) -> Floats: ...
    def release(self, sums: int | NDArray[Any], block: int = 0) -> float | Floats:
        """The same in the unit of the sums: granules times the granularity, rounded once."""
        return from_lattice(self.add(sums, block), self.granularities[block])


    def add_to_reals(self, sums: NDArray[Any], *, times: float = 1.0, fill: Fill | None = None, block: int = 0) -> NDArray[Any]:
        """Real sums, a vector of floats in their own unit, plus Gaussian noise, rounded to the lattice; times a public number. In place.

        A sum is read in granules as a float64 and rounded up: two sums come to lie apart by less than their distance, a
        granule, and 2^-52 of the larger. Whoever states the multiplier counts this for each coordinate.

        >>> fine = NoisySums.of_scale("gaussian", 4096, granularity=Fraction(1, 4096))
        >>> noisy = fine.add_to_reals(np.full(1000, 0.3))
        >>> bool((noisy * 4096 % 1 == 0).all()), bool(abs(noisy.mean() - 0.3) < 0.2)
        (True, True)
        """
        if self.law != "gaussian":
            raise ParameterError("real sums get Gaussian noise; round them to a lattice for Laplace noise")
        granule = self.granularities[block]
        into, out = granule.denominator / granule.numerator, float(granule * Fraction(times))
        return noise.add_gaussian(sums, self.scales[block], into=into, out=out, fill=fill)


def added(sums: NDArray[Any], drawn: NDArray[Any]) -> NDArray[Any]:
    """Sums of whole numbers: of 64 bits where all of them fit, else Python integers of any length.

    >>> added(np.array([2**63 - 1, 5]), np.array([1, -7])).tolist()
    [9223372036854775808, -2]
    """
    if sums.dtype.kind in "ib" and sums.dtype != np.int64:
        sums = sums.astype(np.int64)
    if sums.dtype == drawn.dtype == np.int64:
        found: NDArray[Any] = sums + drawn
        # A sum that has gone round has the other sign than both of its parts.
        if not ((sums ^ found) & (drawn ^ found) < 0).any():
            return found
    return np.asarray(sums.astype(object) + drawn.astype(object))


def tidy(value: Fraction) -> Number:
    """The same number in its plainest exact form: an integer, a short fraction, or the float it came from.

    >>> tidy(Fraction(4, 2)), tidy(Fraction(1, 3)), tidy(Fraction(0.1))
    (2, Fraction(1, 3), 0.1)
    """
    if value.denominator == 1 and abs(value.numerator) < 2**1000:
        return value.numerator
    if value.denominator < 2**20:
        return value
    try:
        near = float(value)
    except OverflowError:
        return value
    return near if near == value else value


def half_width(weights: Any, law: str, confidence: float) -> Floats:
    """What |weights times independent noise of scale 1, added up| exceeds with probability at most 1 - confidence.

    One width for each row of weights. Exact for Gaussian noise and for one Laplace variable; Chernoff's
    bound for several: E exp(t X) = 1 / (1 - t^2).

    >>> round(float(half_width([3.0, 4.0], "gaussian", 0.95)[0]), 12)
    9.7998199227
    >>> round(float(half_width([2.0], "laplace", 0.95)[0]), 6)
    5.991465
    """
    rows = np.atleast_2d(np.abs(np.asarray(weights, dtype=float)))
    if law == "gaussian":
        # By the tail, which does not round to nothing where the confidence is near 1.
        normal: Floats = np.sqrt((rows**2).sum(axis=1)) * -NormalDist().inv_cdf((1 - confidence) / 2)
        return normal
    largest = rows.max(axis=1, initial=0.0)
    single = (rows > 0).sum(axis=1) <= 1
    alone: Floats = -largest * math.log1p(-confidence)
    if single.all():
        return alone
    safe = np.where(largest > 0, largest, 1.0)
    scaled = (rows / safe[:, None]) ** 2
    best = np.full(len(rows), np.inf)
    for t in (0.1, 0.25, 0.4, 0.55, 0.7, 0.8, 0.88, 0.95):
        best = np.minimum(best, (math.log(2 / (1 - confidence)) - np.log1p(-(t**2) * scaled).sum(axis=1)) / t)
    several: Floats = np.where(single, alone, best * largest)
    return several
