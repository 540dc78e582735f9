"""Marginals of rows with several features: each person reports one Hadamard coefficient of the row, all small marginals follow.

A marginal of m bits is made of 2^m coefficients, and all marginals of up to k features of the same few (Cormode et al. 2018): for 10 binary
features and k = 3 of 175, where the whole table has 1,024 cells. So marginals that overlap agree exactly.

>>> from tacit.local import Collector, to_batch
>>> protocol = marginal_shares([2, 2, 3], order=2, epsilon=2)
>>> collector = Collector(protocol).ingest([to_batch(protocol, [(0, 1, 2), (1, 1, 0)] * 50_000)])
>>> table, deviation = MarginalAnswers.of(collector).marginal([0, 2])
>>> table.shape, bool(abs(table[0, 2] - 0.5) < 6 * deviation)
((2, 3), True)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit import noise
from tacit.accounting import RandomizedResponse
from tacit.errors import ParameterError
from tacit.local.collector import Collector
from tacit.local.domain import Domain, domain
from tacit.local.protocol import Protocol
from tacit.local.randomiser import Interval, Reports, SymbolRandomiser, Table, named, shares
from tacit.parameters import Number, count

Array = NDArray[np.float64]
MOST = 1 << 22  # coefficients


@domain
@dataclass(frozen=True)
class FeatureRows(Domain):
    """Rows of whole numbers, the i-th below sizes[i]; anything else in a row counts as 0. Features are coded in bits, the first highest."""

    sizes: tuple[int, ...]

    kind: ClassVar[str] = "feature-rows"

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", tuple(count("each of sizes", each, least=2) for each in self.sizes))
        if not self.sizes or sum(self.bits) > 62:
            raise ParameterError("sizes must be those of at least one feature, of 62 bits in all at the most")

    @property
    def bits(self) -> tuple[int, ...]:
        """How many bits each feature takes."""
        return tuple((each - 1).bit_length() for each in self.sizes)

    @property
    def size(self) -> int:
        return int(2 ** sum(self.bits))

    def place(self, value: object) -> int:
        row = value.tolist() if isinstance(value, np.ndarray) else value
        given = row if isinstance(row, (tuple, list)) and len(row) == len(self.sizes) else [0] * len(self.sizes)
        found = 0
        for each, size, bits in zip(given, self.sizes, self.bits, strict=True):
            whole = isinstance(each, (int, np.integer)) and not isinstance(each, bool)
            found = found << bits | (int(each) if whole and 0 <= each < size else 0)
        return found

    def places(self, values: Iterable[object]) -> NDArray[np.int64]:
        if isinstance(values, np.ndarray) and values.dtype.kind in "iu" and values.ndim == 2 and values.shape[1] == len(self.sizes):
            found = np.zeros(len(values), dtype=np.int64)
            for column, size, bits in zip(values.T, self.sizes, self.bits, strict=True):
                found = found << bits | np.where((column >= 0) & (column < size), column, 0).astype(np.int64)
            return found
        return super().places(values)


def feature_masks(bits: Sequence[int], features: Iterable[int]) -> NDArray[np.int64]:
    """All masks of bits of these features, the empty one first, in the order of the values of the features' own bits.

    >>> feature_masks([1, 2], [0]).tolist(), feature_masks([1, 2], [1]).tolist()
    ([0, 4], [0, 1, 2, 3])
    """
    found = np.zeros(1, dtype=np.int64)
    for feature in features:
        shift = sum(bits[feature + 1 :])
        found = (found[:, None] | np.arange(2 ** bits[feature], dtype=np.int64) << shift).ravel()
    return found


@named
@dataclass(frozen=True)
class HadamardMarginals(SymbolRandomiser):
    """The sign of one Hadamard coefficient of the row, true with odds e^epsilon to 1, of all that touch at most `order` features.

    >>> HadamardMarginals(2**10, 1, (1,) * 10, 3).coefficients
    175
    """

    bits: tuple[int, ...] = ()
    order: int = 1

    kind: ClassVar[str] = "hadamard-marginals"
    answered_by: ClassVar[str] = "MarginalAnswers"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "bits", tuple(count("each of bits", each) for each in self.bits))
        object.__setattr__(self, "order", count("order", self.order))
        if self.size != 2 ** sum(self.bits) or self.order > len(self.bits):
            raise ParameterError("size must be two to the number of bits, and order at most the number of features")
        # sizes of all sets of features, without listing them
        sums = [1] + [0] * self.order
        for each in self.bits:
            sums = [1] + [sums[k] + sums[k - 1] * (2**each - 1) for k in range(1, self.order + 1)]
        if sum(sums) > MOST:
            raise ParameterError(f"there are {sum(sums):,} coefficients, and at most {MOST:,} are allowed; take a lower order")

    @cached_property
    def masks(self) -> NDArray[np.int64]:
        """The coefficients: which bits' parity each is."""
        found = []
        for k in range(1, self.order + 1):
            for features in itertools.combinations(range(len(self.bits)), k):
                each = [feature_masks(self.bits, [feature])[1:] for feature in features]
                both = each[0]
                for more in each[1:]:
                    both = (both[:, None] | more).ravel()
                found.append(both)
        return np.concatenate(found)

    @property
    def coefficients(self) -> int:
        """How many coefficients there are."""
        return len(self.masks)

    @property
    def symbols(self) -> int:
        return 2 * self.coefficients

    @property
    def cells(self) -> int:
        return self.coefficients

    @property
    def scale(self) -> float:
        """(e^epsilon + 1) / (e^epsilon - 1)."""
        return 1 / math.tanh(float(self.epsilon) / 2)

    @property
    def event(self) -> RandomizedResponse:
        return RandomizedResponse(self.epsilon, 2)  # the coefficient is drawn without looking at the row

    def variance(self, n: int, share: Number = 0) -> float:
        """The variance of one coefficient, at the most; `share` is not used."""
        return self.coefficients * self.scale**2 / count("n", n)

    def distribution(self, value: int, *, bits: int = 128) -> dict[int, Interval]:
        true, false = shares(self.epsilon, 1, 1, bits)
        found = {}
        for index, mask in enumerate(self.masks.tolist()):
            bit = (mask & value).bit_count() & 1
            for said in (0, 1):
                low, high = true if said == bit else false
                found[2 * index + said] = (low / self.coefficients, high / self.coefficients)
        return found

    def _drawn(self, values: NDArray[np.int64]) -> Reports:
        index = noise.uniform_integers(self.coefficients, len(values))
        lie = ~noise.odds_bits(self.epsilon, len(values))
        return self._short(2 * index + (np.bitwise_count(self.masks[index] & values) + lie) % 2)

    def add(self, table: Table, reports: Reports) -> None:
        for start in range(0, len(reports), self.block):
            both = np.bincount(reports[start : start + self.block].astype(np.intp), minlength=self.symbols)
            table += both[0::2] - both[1::2]


def marginal_shares(sizes: Sequence[int], *, order: int, epsilon: Number) -> Protocol:
    """A protocol for all marginals of up to `order` features with so many values each.

    >>> marginal_shares([2] * 10, order=3, epsilon=1).randomiser.cells
    175
    """
    rows = FeatureRows(tuple(sizes))
    return Protocol(rows, HadamardMarginals(rows.size, epsilon, rows.bits, order))


@dataclass(frozen=True)
class MarginalAnswers:
    """Hadamard coefficients of the rows of the n people who reported, each with its variance, by the mask of bits."""

    rows: FeatureRows
    n: int
    coefficients: Mapping[int, tuple[float, float]]

    @classmethod
    def of(cls, collector: Collector) -> MarginalAnswers:
        """The answers that a collector's reports tell."""
        randomiser, rows = collector.protocol.randomiser, collector.protocol.values
        if not isinstance(randomiser, HadamardMarginals) or not isinstance(rows, FeatureRows):
            raise ParameterError("the collector counts no reports of rows; make the protocol with `marginal_shares`")
        if collector.n < 2:
            raise ParameterError("there are fewer than two reports; nothing can be estimated")
        found = collector.table * (randomiser.coefficients * randomiser.scale / collector.n)
        variance = randomiser.variance(collector.n)
        known = {mask: (value, variance) for mask, value in zip(randomiser.masks.tolist(), found.tolist(), strict=True)}
        return cls(rows, collector.n, {0: (1.0, 0.0), **known})

    def covered(self, features: Sequence[int]) -> bool:
        """Whether all coefficients of a marginal are known."""
        return all(mask in self.coefficients for mask in feature_masks(self.rows.bits, features).tolist())

    def marginal(self, features: Sequence[int]) -> tuple[Array, float]:
        """The shares of all combinations of these features' values, unbiased, and the deviation of one, at the most."""
        wanted = [count("each of features", each, least=0) for each in features]
        if len(set(wanted)) < len(wanted) or not wanted or max(wanted) >= len(self.rows.sizes):
            raise ParameterError(f"features must be different numbers from 0 to {len(self.rows.sizes) - 1}")
        if not self.covered(wanted):
            raise ParameterError("the marginal has more features than were asked for; make the protocol with a higher order")
        masks = feature_masks(self.rows.bits, wanted).tolist()
        theta = np.array([self.coefficients[mask][0] for mask in masks])
        variance = sum(self.coefficients[mask][1] for mask in masks) / len(masks) ** 2
        table = inverse_transform(theta).reshape([2 ** self.rows.bits[each] for each in wanted])
        return table[tuple(slice(self.rows.sizes[each]) for each in wanted)], math.sqrt(variance)


def inverse_transform(theta: Array) -> Array:
    """Shares from Hadamard coefficients.

    >>> inverse_transform(np.array([1.0, 1.0])).tolist()
    [1.0, 0.0]
    """
    found, half = np.array(theta, dtype=np.float64), 1
    while half < len(found):
        pairs = found.reshape(-1, 2, half)
        upper, lower = pairs[:, 0].copy(), pairs[:, 1].copy()
        pairs[:, 0], pairs[:, 1] = upper + lower, upper - lower
        half *= 2
    return found / len(found)
