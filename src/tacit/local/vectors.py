"""Vectors: one randomised report of many coordinates, and the mean vector of all people.

For coordinates between public bounds a person reports one coordinate, drawn without looking, with the whole epsilon (Harmony; Nguyen et al.
2016). Splitting epsilon over all of them is possible and worse, and warns with the factor that it loses. For vectors of length 1 `PrivUnit`
(Bhowmick et al. 2018; Asi, Feldman, Talwar 2022) has the least error there is; a public random projection shrinks long vectors first.

>>> from tacit.local import Collector, to_batch
>>> protocol = vector_means(3, bounds=(0, 10), epsilon=2)
>>> collector = Collector(protocol).ingest([to_batch(protocol, [[1, 2, 9]] * 50_000)])
>>> answer = MeanVector.of(collector)
>>> bool((abs(answer.value - [1, 2, 9]) < 6 * answer.deviation).all())
True
"""

from __future__ import annotations

import hashlib
import itertools
import math
import warnings
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit import noise
from tacit.accounting import Event, LocalReport, Repeated
from tacit.errors import ParameterError
from tacit.local.collector import Collector
from tacit.local.domain import Domain, Numbers, domain
from tacit.local.protocol import Protocol
from tacit.local.randomiser import Interval, Randomiser, Reports, SymbolRandomiser, Table, named
from tacit.local.scalars import SCALARS, ScalarRandomiser, best_scalar
from tacit.mechanisms import half_width
from tacit.parameters import Number, count, positive, probability

Array = NDArray[np.float64]
FINE = 2**30  # steps from the middle to the end of a coordinate of a unit vector
SIGMA = 2**40  # deviation of the normal draws that make a direction, in whole numbers


class ShareOfEpsilonWarning(UserWarning):
    """Epsilon is split where people could be."""


# --- what people hold ---


def _rows(values: Iterable[object], dimensions: int) -> Array:
    """Vectors as rows; what is no vector of so many numbers becomes a row of NaN."""
    if isinstance(values, np.ndarray) and values.ndim == 2 and values.dtype.kind in "iuf" and values.shape[1] == dimensions:
        with np.errstate(over="ignore"):  # a warning would tell of a value
            return values.astype(np.float64)
    found = []
    for value in values:
        try:
            with np.errstate(all="ignore"):
                # complex numbers are no numbers here, and numpy would warn
                row = np.empty(0) if getattr(value, "dtype", np.dtype(float)).kind == "c" else np.asarray(value, dtype=np.float64)
        except Exception:  # whatever a value's own class raises
            row = np.empty(0)
        found.append(row if row.shape == (dimensions,) else np.full(dimensions, np.nan))
    return np.array(found, dtype=np.float64).reshape(-1, dimensions)


@domain
@dataclass(frozen=True)
class BoundedVectors(Domain):
    """Vectors of `dimensions` numbers between two public bounds; what is no such vector counts as the middle."""

    dimensions: int
    lower: Number
    upper: Number
    points: int = 2**16 + 1

    kind: ClassVar[str] = "vectors"

    def __post_init__(self) -> None:
        object.__setattr__(self, "dimensions", count("dimensions", self.dimensions))
        each = Numbers(self.lower, self.upper, self.points)
        for name in ("lower", "upper", "points"):
            object.__setattr__(self, name, getattr(each, name))

    @property
    def numbers(self) -> Numbers:
        """The domain of one coordinate."""
        return Numbers(self.lower, self.upper, self.points)

    @property
    def size(self) -> int:
        return self.points

    def place(self, value: object) -> tuple[int, ...]:
        return tuple(self.places([value])[0].tolist())

    def places(self, values: Iterable[object]) -> NDArray[np.int64]:
        rows = _rows(values, self.dimensions)
        return self.numbers.places(rows.ravel()).reshape(rows.shape)

    def restored(self, t: Array) -> tuple[Array, Array | float]:
        """The mean from the mean of t, and the factor by which deviations of t grow."""
        low, high = float(self.lower), float(self.upper)
        return (low + high) / 2 + t * (high - low) / 2, (high - low) / 2


@domain
@dataclass(frozen=True)
class UnitVectors(Domain):
    """Directions in `dimensions` dimensions; vectors are scaled to length 1, and what has no direction counts as the first axis."""

    dimensions: int

    kind: ClassVar[str] = "unit-vectors"

    def __post_init__(self) -> None:
        object.__setattr__(self, "dimensions", count("dimensions", self.dimensions, least=3))

    @property
    def size(self) -> int:
        return 2 * FINE + 1

    def place(self, value: object) -> tuple[int, ...]:
        return tuple(self.places([value])[0].tolist())

    def places(self, values: Iterable[object]) -> NDArray[np.int64]:
        rows = _rows(values, self.dimensions)
        largest = np.abs(rows).max(axis=1, keepdims=True)
        known = np.isfinite(largest) & (largest > 0)
        rows = np.where(known, rows, np.eye(1, self.dimensions))
        rows = rows / np.where(known, largest, 1.0)  # so that squares neither overflow nor vanish
        rows /= np.sqrt((rows**2).sum(axis=1, keepdims=True))
        return np.asarray(np.rint(rows * FINE) + FINE, dtype=np.int64)

    def restored(self, t: Array) -> tuple[Array, Array | float]:
        """The mean of the directions is what was estimated."""
        return t, 1.0


@domain
@dataclass(frozen=True)
class Projected(Domain):
    """Vectors of length at most 1, multiplied by a public matrix of signs over the root of `coordinates`, which are fewer.

    The matrix is that of the public `family`; longer vectors are scaled to length 1. Coordinates beyond `reach` deviations of a
    random matrix are cut off. The mean is brought back with the transposed matrix, right on average over matrices.
    """

    dimensions: int
    coordinates: int
    family: int = 0
    reach: int = 4
    points: int = 2**16 + 1

    kind: ClassVar[str] = "projected"

    def __post_init__(self) -> None:
        for name, least in (("dimensions", 2), ("coordinates", 1), ("family", 0), ("reach", 1)):
            object.__setattr__(self, name, count(name, getattr(self, name), least=least))
        object.__setattr__(self, "points", Numbers(-1, 1, self.points).points)
        if self.dimensions * self.coordinates > 2**28:
            raise ParameterError("the matrix of dimensions times coordinates must have at most 2^28 signs")

    @property
    def size(self) -> int:
        return self.points

    @property
    def matrix(self) -> Array:
        """The public matrix, a row a coordinate."""
        return _signs(self.family, self.coordinates, self.dimensions) / math.sqrt(self.coordinates)

    @property
    def _limit(self) -> float:
        return self.reach / math.sqrt(self.coordinates)

    def place(self, value: object) -> tuple[int, ...]:
        return tuple(self.places([value])[0].tolist())

    def places(self, values: Iterable[object]) -> NDArray[np.int64]:
        rows = _rows(values, self.dimensions)
        rows = np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, 0.0)
        largest = np.maximum(np.abs(rows).max(axis=1, keepdims=True), 1.0)
        rows = rows / largest
        rows *= np.minimum(largest, 1 / np.maximum(np.sqrt((rows**2).sum(axis=1, keepdims=True)), 1e-300))
        short = rows @ self.matrix.T
        return Numbers(-1, 1, self.points).places(short.ravel() / self._limit).reshape(short.shape)

    def restored(self, t: Array) -> tuple[Array, Array | float]:
        """The mean of the long vectors, and the factors by which the deviation of a coordinate grows."""
        return self.matrix.T @ t * self._limit, self._limit * np.ones(self.dimensions)


@lru_cache(maxsize=4)
def _signs(family: int, rows: int, columns: int) -> Array:
    name = f"tacit projection {family} {rows} {columns}".encode()
    bits = np.frombuffer(hashlib.shake_256(name).digest(-(-rows * columns // 8)), dtype=np.uint8)
    return np.asarray(1 - 2.0 * np.unpackbits(bits, count=rows * columns).reshape(rows, columns), dtype=np.float64)


# --- randomisers ---


@dataclass(frozen=True)
class VectorRandomiser(Randomiser):
    """A randomiser that takes a row of places, one for each of `dimensions` coordinates."""

    dimensions: int = 0

    answered_by: ClassVar[str] = "MeanVector"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "dimensions", count("dimensions", self.dimensions))

    def privatise(self, values: NDArray[Any] | Sequence[Any] | int) -> Reports:
        """Reports of rows of places, one for each row; a place outside 0 .. size - 1 counts as the middle one.

        Guarantee
            Statement: for any two vectors, the report costs `event`.
            Conditions: the replacement of one person's whole vector; one report a person, drawn from the operating system's entropy.
            Proved in: `distribution`, compared in fractions by `tacit.mechanisms.verify`; for `PrivUnit` in its own text.
        """
        given = np.atleast_2d(np.asarray(values))
        if given.dtype.kind not in "iu" or given.ndim != 2 or given.shape[1] != self.dimensions:
            raise ParameterError(f"values must be rows of {self.dimensions} places, whole numbers from 0 to {self.size - 1}")
        known = np.where((given >= 0) & (given < self.size), given, (self.size - 1) // 2).astype(np.int64)
        rows = max(1, self.block // self.dimensions)
        parts = [self._drawn(known[start : start + rows]) for start in range(0, len(known), rows)]
        return np.concatenate(parts) if parts else self._drawn(known)

    @abstractmethod
    def mean(self, table: Table, n: int) -> tuple[Array, Array]:
        """The unbiased mean of t of n reports and its deviation at the most, a coordinate each."""


@named
@dataclass(frozen=True)
class SampledCoordinates(VectorRandomiser, SymbolRandomiser):
    """One coordinate, drawn alike from all, by a randomiser for numbers with the whole epsilon; the estimate is `dimensions` times it.

    >>> one = SampledCoordinates(2**16 + 1, 1, 10, "duchi")
    >>> round(one.variance(50_000) ** 0.5, 4)
    0.0306
    """

    scalar: str = ""

    kind: ClassVar[str] = "sampled-coordinates"

    def __post_init__(self) -> None:
        super().__post_init__()
        # coordinates that are not drawn cost t^2 as well, so the best here need not be the best for one number
        chosen = self.scalar or min(("duchi", "hybrid", "piecewise"), key=self._worst)
        object.__setattr__(self, "scalar", chosen)
        _ = self.inner

    def _worst(self, scalar: str) -> float:
        inner = _inner(scalar, self.size, self.epsilon)
        return max(self.dimensions * (inner.spread(t) + t * t) - t * t for t in (0.0, 1.0))

    @property
    def inner(self) -> ScalarRandomiser:
        """The randomiser of one coordinate."""
        return _inner(self.scalar, self.size, self.epsilon)

    @property
    def _each(self) -> int:
        inner = self.inner
        assert isinstance(inner, SymbolRandomiser)
        return inner.symbols

    @property
    def symbols(self) -> int:
        return self.dimensions * self._each

    @property
    def cells(self) -> int:
        return self.dimensions * self.inner.cells

    @property
    def event(self) -> Event:
        return self.inner.event

    def spread(self, t: float) -> float:
        """The variance of the estimate of one coordinate that one report gives."""
        return self.dimensions * (self.inner.spread(t) + t * t) - t * t

    def variance(self, n: int, share: Number = 0) -> float:
        """The most that the variance of a coordinate's mean can be; `share` is not used."""
        return self._worst(self.scalar) / count("n", n)

    def distribution(self, value: Any, *, bits: int = 128) -> dict[int, Interval]:
        found = {}
        for j, place in enumerate(value):
            for outcome, (low, high) in self.inner.distribution(place, bits=bits).items():
                found[j * self._each + outcome] = (low / self.dimensions, high / self.dimensions)
        return found

    def _drawn(self, values: NDArray[np.int64]) -> Reports:
        which = noise.uniform_integers(self.dimensions, len(values))
        told = self.inner._drawn(values[np.arange(len(values)), which])
        return self._short(which * self._each + told.astype(np.int64))

    def add(self, table: Table, reports: Reports) -> None:
        cells = table.reshape(self.dimensions, -1)
        for start in range(0, len(reports), self.block):
            which, told = np.divmod(reports[start : start + self.block].astype(np.int64), self._each)
            for cell, steps in enumerate(self.inner.steps(told)):
                # sums of whole numbers below 2^53 are exact in floating point
                cells[:, cell] += np.bincount(which, weights=steps, minlength=self.dimensions).astype(np.int64)

    def mean(self, table: Table, n: int) -> tuple[Array, Array]:
        t = table.reshape(self.dimensions, -1) @ np.array(self.inner.worths) * (self.dimensions / n)
        return t, np.full(self.dimensions, math.sqrt(self.variance(n)))


@named
@dataclass(frozen=True)
class SplitCoordinates(VectorRandomiser):
    """All coordinates, each with epsilon / dimensions: for comparison, since its deviation is about the root of `dimensions` larger."""

    scalar: str = ""

    kind: ClassVar[str] = "split-coordinates"

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen = self.scalar or best_scalar(self.size, self._share).kind
        object.__setattr__(self, "scalar", chosen)
        _ = self.inner

    @property
    def _share(self) -> Fraction:
        return Fraction(self.epsilon) / self.dimensions

    @property
    def inner(self) -> ScalarRandomiser:
        """The randomiser of one coordinate."""
        return _inner(self.scalar, self.size, self._share)

    @property
    def width(self) -> int:
        return self.dimensions * self.inner.width

    @property
    def cells(self) -> int:
        return self.dimensions * self.inner.cells

    @property
    def event(self) -> Event:
        return Repeated(self.inner.event, self.dimensions) if self.dimensions > 1 else self.inner.event

    def variance(self, n: int, share: Number = 0) -> float:
        """The most that the variance of a coordinate's mean can be; `share` is not used."""
        return self.inner.variance(n)

    def distribution(self, value: Any, *, bits: int = 128) -> dict[tuple[int, ...], Interval]:
        laws = [self.inner.distribution(place, bits=bits) for place in value]
        found = {}
        for outcome in itertools.product(*laws):
            ends = [law[each] for law, each in zip(laws, outcome, strict=True)]
            found[outcome] = (math.prod((low for low, _ in ends), start=Fraction(1)), math.prod((h for _, h in ends), start=Fraction(1)))
        return found

    def _drawn(self, values: NDArray[np.int64]) -> Reports:
        return self.inner._drawn(values.ravel()).reshape(values.shape)

    def to_bytes(self, reports: Reports) -> NDArray[np.uint8]:
        return self.inner.to_bytes(reports.ravel()).reshape(len(reports), self.width)

    def from_bytes(self, rows: NDArray[np.uint8]) -> tuple[Reports, NDArray[np.bool_]]:
        found, whole = self.inner.from_bytes(np.ascontiguousarray(rows).reshape(-1, self.inner.width))
        shape = len(rows), self.dimensions
        return found.reshape(shape), np.asarray(whole.reshape(shape).all(axis=1))

    def add(self, table: Table, reports: Reports) -> None:
        cells = table.reshape(self.dimensions, -1)
        rows = max(1, self.block // self.dimensions)
        for start in range(0, len(reports), rows):
            part = reports[start : start + rows]
            steps = self.inner.steps(part.ravel()).reshape(-1, *part.shape)
            cells += steps.sum(axis=1).T

    def mean(self, table: Table, n: int) -> tuple[Array, Array]:
        t = table.reshape(self.dimensions, -1) @ np.array(self.inner.worths) / n
        return t, np.full(self.dimensions, math.sqrt(self.variance(n)))


def _inner(kind: str, size: int, epsilon: Number) -> ScalarRandomiser:
    if kind not in SCALARS or not issubclass(SCALARS[kind], SymbolRandomiser):
        raise ParameterError("scalar must be duchi, piecewise or hybrid")
    return SCALARS[kind](size, epsilon)


# --- directions ---


def cap_share(dimensions: int, cosine: float) -> float:
    """The share of the sphere whose cosine with a given direction is at least this.

    >>> round(cap_share(3, 0.5), 12), round(cap_share(50, 0.0), 12)
    (0.25, 0.5)
    """
    if cosine < 0:
        return 1 - cap_share(dimensions, -cosine)
    top = math.acos(min(1.0, cosine))
    bottom = max(0.0, top - 12 / math.sqrt(dimensions))  # beyond, the integrand has fallen by e^-72
    nodes, weights = _nodes()
    angles = bottom + (top - bottom) * (nodes + 1) / 2
    with np.errstate(divide="ignore"):
        logs = (dimensions - 2) * np.log(np.sin(angles))
    return float(math.exp(_log_density(dimensions)) * (weights @ np.exp(logs)) * (top - bottom) / 2)


@lru_cache(maxsize=1)
def _nodes() -> tuple[Array, Array]:
    nodes, weights = np.polynomial.legendre.leggauss(200)
    return nodes, weights


def _log_density(dimensions: int) -> float:
    """The logarithm of the greatest density of a cosine."""
    return math.lgamma(dimensions / 2) - math.lgamma((dimensions - 1) / 2) - math.log(math.pi) / 2


def _length(dimensions: int, odds: float, cosine: float) -> float:
    """The length of the mean report, by which estimates divide."""
    q = cap_share(dimensions, cosine)
    p = odds * q / (odds * q + 1 - q)
    slope = _log_density(dimensions) + (dimensions - 1) / 2 * math.log1p(-cosine * cosine)
    return math.exp(slope) / (dimensions - 1) * (p / q - (1 - p) / (1 - q))


@lru_cache(maxsize=256)
def best_cap(dimensions: int, epsilon: Number) -> int:
    """The least cosine of the cap that gives the least error, in steps of 2^-32.

    >>> round(best_cap(64, 4) / 2**32, 3)
    0.188
    """
    odds = math.exp(float(epsilon))
    low, high, golden = 0.0, min(0.999, (math.sqrt(2 * float(epsilon)) + 8) / math.sqrt(dimensions)), (math.sqrt(5) - 1) / 2
    for _ in range(60):
        one, two = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, two) if _length(dimensions, odds, one) > _length(dimensions, odds, two) else (one, high)
    return round((low + high) / 2 * 2**32)


@named
@dataclass(frozen=True)
class PrivUnit(VectorRandomiser):
    """A random direction, one of the cap around the person's own with odds e^epsilon to 1 a direction.

    Directions are those of normal draws in whole numbers, each the exact normal law rounded, proposed until one is kept: inside the cap
    always, outside with probability e^-epsilon. So a direction's probabilities for two people differ by at most e^epsilon and the ratio of
    their caps' shares. These are the same but for proposals so near the cap's edge that rounding decides, a share of at most `slack`; the
    odds are lowered by what that can matter.

    >>> one = PrivUnit(2**31 + 1, 4, 64)
    >>> round(one.error, 2)
    27.15
    """

    cap: int = 0

    kind: ClassVar[str] = "privunit"
    block: ClassVar[int] = 1 << 18

    def __post_init__(self) -> None:
        super().__post_init__()
        count("dimensions", self.dimensions, least=3)
        if self.size != 2 * FINE + 1 or self.epsilon > 12:
            raise ParameterError(f"size must be {2 * FINE + 1} and epsilon at most 12 for directions")
        object.__setattr__(self, "cap", count("cap", self.cap or best_cap(self.dimensions, float(self.epsilon))))
        if self.cap >= 2**32 or cap_share(self.dimensions, self.cosine) < 1e-12:
            raise ParameterError("cap must leave a share of at least 1e-12 of all directions")

    @property
    def cosine(self) -> float:
        """The least cosine of the cap."""
        return self.cap / 2**32

    @property
    def slack(self) -> float:
        """The most that rounding can change a cap's share: the chance that a direction is so near the edge.

        Rounding moves a normal vector by at most half the root of `dimensions`, and its cosine by twice that over its length, which is
        independent of its direction; the sum of products in floating point errs by less than (dimensions + 10) 2^-52.
        """
        d = self.dimensions
        inverse = math.exp(math.lgamma((d - 1) / 2) - math.lgamma(d / 2)) / math.sqrt(2)
        return 2 * math.exp(_log_density(d)) * (math.sqrt(d) * inverse / SIGMA + (d + 10) * 2.0**-52)

    @property
    def inner_epsilon(self) -> Fraction:
        """The epsilon of the odds, which with the slack stays below the promised one."""
        odds, q = self.odds, cap_share(self.dimensions, self.cosine)
        lost = 4 * self.slack * (odds - 1) / (1 + (odds - 1) * (q - self.slack))
        return Fraction(self.epsilon) - Fraction(lost)

    @property
    def length(self) -> float:
        """The length of the mean report of one direction."""
        return _length(self.dimensions, math.exp(float(self.inner_epsilon)), self.cosine)

    @property
    def error(self) -> float:
        """The expected squared distance between one person's estimate and direction."""
        return 1 / self.length**2 - 1

    @property
    def event(self) -> LocalReport:
        return LocalReport(self.epsilon)

    @property
    def width(self) -> int:
        return 4 * self.dimensions

    @property
    def cells(self) -> int:
        return self.dimensions

    def variance(self, n: int, share: Number = 0) -> float:
        """The variance of a coordinate's mean, on average over coordinates; `share` is not used."""
        return self.error / self.dimensions / count("n", n)

    def distribution(self, value: Any, *, bits: int = 128) -> dict[str, Interval]:
        """Not finite."""
        raise ParameterError("directions are not enumerated; the proof is in the class's text")

    def _drawn(self, values: NDArray[np.int64]) -> Reports:
        own = (values - FINE).astype(np.float64)
        own[~own.any(axis=1)] = np.eye(1, self.dimensions)
        own /= np.sqrt((own**2).sum(axis=1, keepdims=True))
        found = np.empty(values.shape, dtype=np.int32)
        open_, epsilon = np.arange(len(values)), self.inner_epsilon
        while len(open_):
            drawn = noise.rounded_gaussian(SIGMA, (len(open_), self.dimensions)).astype(np.float64)
            inner = (drawn * own[open_]).sum(axis=1)
            inside = inner >= self.cosine * np.sqrt((drawn**2).sum(axis=1))
            keep = inside | noise.bernoulli_exp(epsilon, len(open_)).astype(np.bool_)
            # 27 bits and a sign of each draw are enough for a direction
            found[open_[keep]] = np.clip(np.rint(drawn[keep] * 2.0**-16), -(2**31) + 1, 2**31 - 1).astype(np.int32)
            open_ = open_[~keep]
        return found

    def to_bytes(self, reports: Reports) -> NDArray[np.uint8]:
        return np.ascontiguousarray(reports, dtype="<i4").view(np.uint8).reshape(len(reports), self.width)

    def from_bytes(self, rows: NDArray[np.uint8]) -> tuple[Reports, NDArray[np.bool_]]:
        found = np.ascontiguousarray(rows).view("<i4").reshape(len(rows), self.dimensions)
        return found, np.asarray(found.any(axis=1))

    def add(self, table: Table, reports: Reports) -> None:
        rows = max(1, self.block // self.dimensions)
        for start in range(0, len(reports), rows):
            part = reports[start : start + rows].astype(np.float64)
            part /= np.sqrt((part**2).sum(axis=1, keepdims=True))
            table += np.rint(part * FINE).astype(np.int64).sum(axis=0)

    def mean(self, table: Table, n: int) -> tuple[Array, Array]:
        t = table / (n * FINE * self.length)
        # a coordinate's spread lies between those along the person's direction and across it; the best cap makes them alike
        across = (self.error - self._along) / (self.dimensions - 1)
        return t, np.full(self.dimensions, math.sqrt(max(across, self._along) / n))

    @property
    def _along(self) -> float:
        """The variance of an estimate along the person's own direction: E cos^2 / length^2 - 1."""
        d, g, odds = self.dimensions, self.cosine, math.exp(float(self.inner_epsilon))
        q = cap_share(d, g)
        # E[cos^2; cap] = q / d + g (1 - g^2)^((d-1)/2) c / d, by parts
        inside = q / d + g * math.exp(_log_density(d) + (d - 1) / 2 * math.log1p(-g * g)) / d
        square = (odds * inside + 1 / d - inside) / (odds * q + 1 - q)
        return square / self.length**2 - 1


# --- protocols and answers ---


def vector_means(
    dimensions: int, *, bounds: Sequence[Number], epsilon: Number, kind: str = "sampled", points: int = 2**16 + 1
) -> Protocol:
    """A protocol for the mean of vectors whose coordinates lie between two public bounds.

    "sampled" reports one coordinate with the whole epsilon, "split" all of them with a share of it each, which warns.

    >>> vector_means(10, bounds=(-1, 1), epsilon=1).randomiser.variance(1) < 47
    True
    """
    if len(bounds) != 2:
        raise ParameterError("bounds must be two numbers, the lower and the upper one")
    holding = BoundedVectors(dimensions, bounds[0], bounds[1], points)
    if kind not in ("sampled", "split"):
        raise ParameterError(f"kind must be sampled or split, not {kind!r}")
    sampled = SampledCoordinates(holding.size, epsilon, holding.dimensions)
    if kind == "sampled":
        return Protocol(holding, sampled)
    split = SplitCoordinates(holding.size, epsilon, holding.dimensions)
    factor = math.sqrt(split.variance(1) / sampled.variance(1))
    if factor > 1:
        warnings.warn(
            f"epsilon is split over {dimensions} coordinates: deviations are {factor:.2f} times those of reporting one coordinate each",
            ShareOfEpsilonWarning, stacklevel=2,
        )  # fmt: skip
    return Protocol(holding, split)


def unit_vectors(dimensions: int, *, epsilon: Number) -> Protocol:
    """A protocol for the mean of vectors of length 1, by `PrivUnit`.

    >>> unit_vectors(64, epsilon=8).randomiser.width
    256
    """
    positive("epsilon", epsilon)
    holding = UnitVectors(dimensions)
    return Protocol(holding, PrivUnit(holding.size, epsilon, holding.dimensions))


def projected(dimensions: int, coordinates: int, *, epsilon: Number, family: int = 0) -> Protocol:
    """A protocol for the mean of long vectors of length at most 1, of which one coordinate after a public projection is reported.

    >>> projected(1000, 20, epsilon=1).randomiser.dimensions
    20
    """
    holding = Projected(dimensions, coordinates, family)
    return Protocol(holding, SampledCoordinates(holding.size, epsilon, holding.coordinates))


@dataclass(frozen=True)
class MeanVector:
    """The estimated mean vector of the n people who reported, and the deviation of each coordinate's noise, at the most."""

    value: Array
    deviation: Array
    n: int
    dropped: dict[str, int]

    @classmethod
    def of(cls, collector: Collector) -> MeanVector:
        """The mean that a collector's reports tell."""
        randomiser, holding = collector.protocol.randomiser, collector.protocol.values
        if not isinstance(randomiser, VectorRandomiser) or not isinstance(holding, (BoundedVectors, UnitVectors, Projected)):
            raise ParameterError("the collector counts no reports of vectors; make the protocol with `vector_means`")
        if collector.n < 2:
            raise ParameterError("there are fewer than two reports; nothing can be estimated")
        t, deviation = randomiser.mean(collector.table, collector.n)
        value, factor = holding.restored(t)
        spread = deviation[0] * factor * np.ones(len(value))
        return cls(value, spread, collector.n, dict(collector.dropped))

    def interval(self, confidence: Number = 0.95, *, together: bool = False) -> tuple[Array, Array]:
        """Lower and upper ends of each coordinate by itself, or such that all hold at once (Bonferroni), by the normal law."""
        miss = 1 - float(probability("confidence", confidence))
        if not 0 < miss < 1:
            raise ParameterError("confidence must be between 0 and 1")
        wide = float(half_width([1.0], "gaussian", 1 - miss / (len(self.value) if together else 1))[0])
        return self.value - wide * self.deviation, self.value + wide * self.deviation
