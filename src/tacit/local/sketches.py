"""Frequencies of anything, without a list: keys are hashed by public functions into few buckets, and buckets are reported.

Count-mean sketch (Apple's CMS, by unary reports, and HCMS, by one Hadamard bit), Count sketch with signs (Bassily et al. 2020) and
Bloom filters. Any key may be asked for afterwards. Estimates are right on average over the public functions; for given ones, keys
that share buckets disturb each other, by at most `collisions`.

>>> from tacit.local import Collector, to_batch
>>> protocol = sketched(epsilon=4, kind="hcms", rows=8, buckets=256)
>>> collector = Collector(protocol).ingest([to_batch(protocol, ["tacit"] * 30_000 + ["other"] * 10_000)])
>>> share, deviation = SketchAnswers.of(collector).share("tacit")
>>> abs(share - 0.75) < 6 * deviation + 0.1
True
"""

from __future__ import annotations

import hashlib
import itertools
import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit import noise
from tacit.accounting import LocalReport, RandomizedResponse
from tacit.errors import ParameterError
from tacit.local.collector import Collector
from tacit.local.domain import Domain, domain
from tacit.local.grouped import GroupedRandomiser, oracle
from tacit.local.hadamard import walsh
from tacit.local.protocol import Protocol
from tacit.local.randomiser import Interval, Randomiser, Reports, SymbolRandomiser, Table, named
from tacit.mechanisms import exp_bracket
from tacit.parameters import Number, count

Array = NDArray[np.float64]
KEYS = 2**62


@domain
@dataclass(frozen=True)
class AnyKeys(Domain):
    """Texts, bytes and whole numbers, placed by a public hash of 62 bits; anything else counts as the empty text."""

    kind: ClassVar[str] = "any-keys"

    @property
    def size(self) -> int:
        return KEYS

    def place(self, value: object) -> int:
        if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            whole = int.__int__(value) if isinstance(value, int) else int(value)
            text = b"i" + hex(whole).encode()  # not str, which refuses very long numbers
        elif isinstance(value, bytes):
            text = b"b" + value
        else:
            text = b"s" + (str.__str__(value) if isinstance(value, str) else "").encode("utf-8", "surrogatepass")
        return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> 2


@lru_cache(maxsize=32)
def _functions(family: int, number: int) -> NDArray[np.uint64]:
    """Public odd multipliers and summands, a pair a function."""
    drawn = np.frombuffer(hashlib.shake_256(f"tacit sketch {family} {number}".encode()).digest(16 * number), dtype="<u8").reshape(number, 2)
    return np.stack([drawn[:, 0] | np.uint64(1), drawn[:, 1]], axis=1)


def _hashed(values: NDArray[np.int64], family: int, number: int, which: NDArray[np.int64] | int, bits: int) -> NDArray[np.int64]:
    """The top bits of a x + b: places are hashes already, so these are as good as random buckets."""
    functions = _functions(family, number)[which]
    with np.errstate(over="ignore"):
        mixed = functions[..., 0] * values.astype(np.uint64) + functions[..., 1]
    return (mixed >> np.uint64(64 - bits)).astype(np.int64)


def _checked(buckets: int) -> int:
    found = count("buckets", buckets, least=2)
    if found & (found - 1) or found > 2**20:
        raise ParameterError("buckets must be a power of two, at most 2^20")
    return found


def _check_table(sketch: CountMeanSketch | CountSketch) -> None:
    """Rows, buckets and the family of functions, as a frozen sketch keeps them."""
    object.__setattr__(sketch, "rows", count("rows", sketch.rows))
    object.__setattr__(sketch, "buckets", _checked(sketch.buckets))
    object.__setattr__(sketch, "family", count("family", sketch.family, least=0))


class SketchRandomiser(Randomiser):
    """What sketches share: shares of any keys from the counts."""

    answered_by: ClassVar[str] = "SketchAnswers"
    largest: ClassVar[int] = KEYS

    @property
    @abstractmethod
    def collisions(self) -> float:
        """The most that the deviation of a share by keys in the same buckets can be, over public functions."""

    @abstractmethod
    def key_shares(self, table: Table, n: int, places: NDArray[np.int64]) -> tuple[Array, float]:
        """Shares of keys by their places, and the deviation of the noise in one, at the most."""


@named
@dataclass(frozen=True)
class CountMeanSketch(GroupedRandomiser, SketchRandomiser):
    """The key's bucket in a random row, by a randomiser for frequencies: unary bits are Apple's CMS, a Hadamard bit is HCMS.

    >>> CountMeanSketch(2**62, 2, 16, 1024, 0, "hadamard").width
    4
    """

    rows: int = 16
    buckets: int = 1024
    family: int = 0
    inner: str = "auto"

    kind: ClassVar[str] = "count-mean-sketch"
    answered_by: ClassVar[str] = "SketchAnswers"
    largest: ClassVar[int] = KEYS

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_table(self)
        _ = self.parts

    def _parts(self) -> list[Randomiser]:
        return [oracle(self.buckets, self.epsilon, self.inner)] * self.rows

    def mapped(self, group: int, values: NDArray[np.int64]) -> NDArray[np.int64]:
        return _hashed(values, self.family, self.rows, group, (self.buckets - 1).bit_length())

    @property
    def collisions(self) -> float:
        return 1 / math.sqrt(self.rows * self.buckets)

    def key_shares(self, table: Table, n: int, places: NDArray[np.int64]) -> tuple[Array, float]:
        total, spread = np.zeros(len(places)), 0.0
        for row, (_, share, variance) in enumerate(self.shares(table)):
            total += share[self.mapped(row, places)] / self.rows
            spread += float(variance.max()) / self.rows**2
        factor = self.buckets / (self.buckets - 1)
        return factor * (total - 1 / self.buckets), factor * math.sqrt(spread)


@named
@dataclass(frozen=True)
class CountSketch(SymbolRandomiser, SketchRandomiser):
    """A random row's signed bucket, through a random Hadamard function, as one bit told with odds e^epsilon to 1."""

    rows: int = 16
    buckets: int = 1024
    family: int = 0

    kind: ClassVar[str] = "count-sketch"
    answered_by: ClassVar[str] = "SketchAnswers"
    largest: ClassVar[int] = KEYS

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_table(self)

    @property
    def symbols(self) -> int:
        return 2 * self.rows * self.buckets

    @property
    def cells(self) -> int:
        return self.rows * self.buckets

    @property
    def scale(self) -> float:
        """(e^epsilon + 1) / (e^epsilon - 1)."""
        return 1 / math.tanh(float(self.epsilon) / 2)

    @property
    def event(self) -> RandomizedResponse:
        return RandomizedResponse(self.epsilon, 2)  # row and function are drawn without looking at the key

    def variance(self, n: int, share: Number = 0) -> float:
        """The variance of a share by noise, at the most; `share` is not used."""
        return self.scale**2 / count("n", n)

    @property
    def collisions(self) -> float:
        return 1 / math.sqrt(self.rows * self.buckets)

    def signed(self, values: NDArray[np.int64], which: NDArray[np.int64] | int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The bucket of a key in a row, and its sign as a bit: one more bit of the same hash."""
        both = _hashed(values, self.family, self.rows, which, 1 + (self.buckets - 1).bit_length())
        return both >> 1, both & 1

    def distribution(self, value: int, *, bits: int = 128) -> dict[int, Interval]:
        low, high = exp_bracket(self.epsilon, bits)
        true, false = (low / (1 + low), high / (1 + high)), (1 / (1 + high), 1 / (1 + low))
        found = {}
        for row in range(self.rows):
            bucket, sign = (int(each[0]) for each in self.signed(np.array([value]), row))
            for function in range(self.buckets):
                bit = ((function & bucket).bit_count() + sign) & 1
                for said in (0, 1):
                    least, most = true if said == bit else false
                    found[2 * (row * self.buckets + function) + said] = (least / self.cells, most / self.cells)
        return found

    def _drawn(self, values: NDArray[np.int64]) -> Reports:
        row = noise.uniform_integers(self.rows, len(values))
        function = noise.uniform_integers(self.buckets, len(values))
        bucket, sign = self.signed(values, row)
        lie = ~noise.odds_bits(self.epsilon, len(values))
        return self._short(2 * (row * self.buckets + function) + (np.bitwise_count(function & bucket) + sign + lie) % 2)

    def add(self, table: Table, reports: Reports) -> None:
        for start in range(0, len(reports), self.block):
            both = np.bincount(reports[start : start + self.block].astype(np.intp), minlength=self.symbols)
            table += both[0::2] - both[1::2]

    def key_shares(self, table: Table, n: int, places: NDArray[np.int64]) -> tuple[Array, float]:
        total = np.zeros(len(places))
        for row in range(self.rows):
            sketch = walsh(table[row * self.buckets : (row + 1) * self.buckets])
            bucket, sign = self.signed(places, row)
            total += sketch[bucket] * (1 - 2 * sign)
        return total * (self.scale / n), math.sqrt(self.variance(n))


@named
@dataclass(frozen=True)
class Bloom(SketchRandomiser):
    """A Bloom filter: the key's `hashes` bits of `buckets` are set, and every bit is told with odds e^(epsilon / 2 hashes) to 1.

    Two keys' filters differ in at most twice `hashes` bits. This is RAPPOR's report without memory, for comparison with its successors.
    """

    buckets: int = 128
    hashes: int = 2
    family: int = 0

    kind: ClassVar[str] = "bloom"
    block: ClassVar[int] = 1 << 12

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "buckets", _checked(self.buckets))
        object.__setattr__(self, "hashes", count("hashes", self.hashes))
        object.__setattr__(self, "family", count("family", self.family, least=0))
        if self.buckets < 8:
            raise ParameterError("buckets must be at least 8, whole bytes")

    @property
    def each(self) -> Fraction:
        """The epsilon of one bit."""
        return Fraction(self.epsilon) / (2 * self.hashes)

    @property
    def width(self) -> int:
        return self.buckets // 8

    @property
    def cells(self) -> int:
        return self.buckets

    @property
    def event(self) -> LocalReport:
        return LocalReport(self.epsilon)

    @property
    def _truth(self) -> float:
        return 1 / (1 + math.exp(-float(self.each)))

    def variance(self, n: int, share: Number = 0) -> float:
        """The variance of a share by noise; `share` is not used."""
        kept = (1 - 1 / self.buckets) ** self.hashes
        return self._truth * (1 - self._truth) / (2 * self._truth - 1) ** 2 / self.hashes / kept**2 / count("n", n)

    @property
    def collisions(self) -> float:
        return math.sqrt(self.hashes / self.buckets)

    def filters(self, values: NDArray[np.int64]) -> NDArray[np.bool_]:
        """The filters of keys, a row each."""
        found = np.zeros((len(values), self.buckets), dtype=np.bool_)
        for function in range(self.hashes):
            found[np.arange(len(values)), _hashed(values, self.family, self.hashes, function, (self.buckets - 1).bit_length())] = True
        return found

    def distribution(self, value: int, *, bits: int = 128) -> dict[tuple[int, ...], Interval]:
        low, high = exp_bracket(self.each, bits)
        true, false = (low / (1 + low), high / (1 + high)), (1 / (1 + high), 1 / (1 + low))
        own, found = self.filters(np.array([value]))[0].tolist(), {}
        for row in itertools.product((0, 1), repeat=self.buckets):
            least = most = Fraction(1)
            for bit, said in zip(own, row, strict=True):
                one = true if bit == said else false
                least, most = least * one[0], most * one[1]
            found[row] = (least, most)
        return found

    def _drawn(self, values: NDArray[np.int64]) -> Reports:
        true = noise.odds_bits(self.each, len(values) * self.buckets).reshape(len(values), self.buckets)
        return np.packbits(self.filters(values) == true, axis=1)

    def to_bytes(self, reports: Reports) -> NDArray[np.uint8]:
        return np.asarray(reports, dtype=np.uint8)

    def from_bytes(self, rows: NDArray[np.uint8]) -> tuple[Reports, NDArray[np.bool_]]:
        return rows, np.ones(len(rows), dtype=np.bool_)

    def add(self, table: Table, reports: Reports) -> None:
        for start in range(0, len(reports), self.block):
            table += np.unpackbits(reports[start : start + self.block], axis=1).sum(axis=0, dtype=np.int64)

    def key_shares(self, table: Table, n: int, places: NDArray[np.int64]) -> tuple[Array, float]:
        told = (table / n - (1 - self._truth)) / (2 * self._truth - 1)
        own = self.filters(places)
        mean = (own * told).sum(axis=1) / own.sum(axis=1)
        chance = 1 - (1 - 1 / self.buckets) ** self.hashes  # that another key sets a given bit
        # fewer bits than functions, where these collide, leave more noise
        fewest = int(own.sum(axis=1).min(initial=self.hashes))
        return (mean - chance) / (1 - chance), math.sqrt(self.variance(n) * self.hashes / fewest)


def sketched(*, epsilon: Number, kind: str = "hcms", rows: int = 16, buckets: int = 1024, family: int = 0) -> Protocol:
    """A protocol for shares of any keys: "cms", "hcms", "auto" (the best randomiser for the buckets), "count-sketch" or "bloom".

    >>> sketched(epsilon=1, kind="count-sketch").randomiser.width
    2
    """
    inner = {"cms": "symmetric-unary", "hcms": "hadamard", "auto": "auto"}
    if kind in inner:
        return Protocol(AnyKeys(), CountMeanSketch(KEYS, epsilon, rows, buckets, family, inner[kind]))
    if kind == "count-sketch":
        return Protocol(AnyKeys(), CountSketch(KEYS, epsilon, rows, buckets, family))
    if kind == "bloom":
        return Protocol(AnyKeys(), Bloom(KEYS, epsilon, buckets, family=family))
    raise ParameterError(f"kind must be cms, hcms, auto, count-sketch or bloom, not {kind!r}")


@dataclass(frozen=True)
class SketchAnswers:
    """Shares of any keys among the n people who reported."""

    collector: Collector

    @classmethod
    def of(cls, collector: Collector) -> SketchAnswers:
        """The answers that a collector's reports tell."""
        if not isinstance(collector.protocol.randomiser, SketchRandomiser):
            raise ParameterError("the collector counts no reports of a sketch; make the protocol with `sketched`")
        if collector.n < 2:
            raise ParameterError("there are fewer than two reports; nothing can be estimated")
        return cls(collector)

    @property
    def collisions(self) -> float:
        """The most that the deviation by keys in the same buckets can be; much less where shares are small."""
        randomiser = self.collector.protocol.randomiser
        assert isinstance(randomiser, SketchRandomiser)
        return randomiser.collisions

    def shares(self, keys: list[object] | tuple[object, ...]) -> tuple[Array, float]:
        """The shares of keys, and the deviation of one's noise, at the most."""
        randomiser = self.collector.protocol.randomiser
        assert isinstance(randomiser, SketchRandomiser)
        return randomiser.key_shares(self.collector.table, self.collector.n, self.collector.protocol.places(keys))

    def share(self, key: object) -> tuple[float, float]:
        """The share of a key, and the deviation of its noise."""
        found, deviation = self.shares([key])
        return float(found[0]), deviation
