"""Sample and aggregate: any function, private or not, run on disjoint blocks of the rows, whose answers are aggregated privately.

One row is in one block, so one row more or less changes one of the `blocks` answers, and one row replaced changes two: the
answers are a list of public length, and its distance is Hamming's. An aggregator must be private for *changed* answers; one
for added and removed answers has too little noise (textbook 12.3 and its footnote ii state the map for the wrong metric:
erratum E1).

>>> from tacit.calculus import AddRemove, Integers, Rows
>>> ages = Space(Rows(Integers(0, 120)), AddRemove())
>>> plan = ages >> sample_aggregate(lambda block: sorted(block)[len(block) // 2], blocks=10, bounds=(0, 120)) >> block_mean(epsilon=1)
>>> plan.event(1)
PureDP(epsilon=1)
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import io
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, Self

import numpy as np

from tacit import noise
from tacit.accounting import Event, NoOp, PureDP
from tacit.calculus import (
    AddRemove,
    Anything,
    Domain,
    DomainError,
    Hamming,
    Identifiers,
    Lattice,
    Measurement,
    MetricError,
    Records,
    ReplaceOne,
    Rows,
    Space,
    Step,
    Transformation,
    Vectors,
    canonical,
    exact_sum,
    keys,
    length,
    listed,
    owners,
    take,
)
from tacit.mechanisms.accuracy import laplace_error, least_that_keeps, rounded_up
from tacit.mechanisms.mechanism import Mechanism
from tacit.mechanisms.smooth_sensitivity import SmoothSensitivity, bounded_rows, smooth_median
from tacit.noise import from_lattice, round_to_lattice
from tacit.parameters import Number, count, number, positive

ANYTHING = Anything()


@dataclass(frozen=True)
class SampleAggregate(Step):
    """A function's answers on disjoint blocks of rows: whole granules within public bounds, always `blocks` of them.

    Without `key` each row goes to a block drawn at random, whatever its value. With `key` (a secret or public byte string) a row goes where
    a keyed hash of its `by` column, or of the whole row, sends it: the same block every time, so that a person's rows stay together.
    The hash is of the value: 1, 1.0 and numpy's 1 are one value, whatever type the column has. A block sees its own rows in an order by
    their content, in columns whose type follows from the domain and from its own rows; rows without an owner (a missing
    identifier) are in none.

    Guarantee
        Statement: d rows added or removed change at most d of the answers; d rows replaced change at most 2 d; d people, where `by` is
        their identifier, change at most d.
        Conditions: the function is deterministic and keeps no state between blocks. What it raises, and what is no number, counts as
        `default`; what it prints or warns is swallowed. The time it takes is not hidden.
        Proved in: textbook 12.3 (Mohan et al. 2012, GUPT), after Nissim, Raskhodnikova and Smith 2007, section 4.
        Correction: the printed "1-stable" holds from add/remove into Hamming, not into add/remove, where it is 2 (E1).
    """

    function: Callable[[Any], Any] = field(compare=False)
    blocks: int
    bounds: tuple[Number, Number]
    granularity: Number | None = None
    default: Number | None = None
    by: str | None = None
    key: bytes | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "blocks", count("blocks", self.blocks))
        lower, upper = (Fraction(number("bounds", bound)) for bound in self.bounds)
        if not lower < upper:
            raise DomainError(f"bounds must be in order, lower below upper, not {self.bounds}")
        step = _fine(lower, upper) if self.granularity is None else Fraction(positive("granularity", self.granularity))
        if (lower / step).denominator != 1 or (upper / step).denominator != 1:
            raise DomainError(f"granularity must divide both bounds, and {step} does not divide {lower} and {upper}")
        object.__setattr__(self, "granularity", step)
        object.__setattr__(self, "bounds", (lower, upper))
        default = (lower + upper) / 2 if self.default is None else Fraction(number("default", self.default))
        if not lower <= default <= upper:
            raise DomainError(f"default must lie within the bounds, and {default} does not; it stands for an answer that makes no sense")
        object.__setattr__(self, "default", default)
        if self.by is not None and self.key is None:
            raise DomainError("by names the column to hash, so a key is needed: key=secrets.token_bytes(16), the same for every release")

    @property
    def _step(self) -> Fraction:
        return Fraction(self.granularity or 1)

    def bind(self, space: Space) -> Transformation:
        if not isinstance(space.domain, Rows):
            raise DomainError(f"sample_aggregate works on rows, not on {space.domain}")
        lower, upper = self.bounds
        output = Space(Vectors(Lattice(self._step, lower, upper), self.blocks), Hamming())
        name = f"sample_aggregate(blocks={self.blocks})"
        stability, element = self._stability(space), space.domain.element
        person = space.metric.column if isinstance(space.metric, Identifiers) else None
        return Transformation(
            space, output, lambda data: self.answers(data, element, person), stability, name, "textbook 12.3, E1"
        )

    def _stability(self, space: Space) -> Callable[[Number], Number]:
        match space.metric:
            case AddRemove():
                factor = 1
            case ReplaceOne() | Hamming():
                factor = 2
            case Identifiers() if self.by == space.metric.column:
                factor = 1
            case Identifiers():
                raise MetricError(f"a person's rows must share a block: pass by={space.metric.column!r} and a key")
            case _:
                raise MetricError(f"sample_aggregate has no stability under {space.metric}")
        return lambda distance: min(factor * math.floor(distance), self.blocks)

    def answers(self, data: Any, element: Domain = ANYTHING, person: str | None = None) -> np.ndarray:
        """Every block's answer, in granules; `person` is the column that names people, where distances count them."""
        places = self._places(data)
        if person is not None:
            places = np.where([owner is None for owner in owners(data, person)], -1, places)
        sink = io.StringIO()
        with warnings.catch_warnings(), contextlib.redirect_stdout(sink), contextlib.redirect_stderr(sink), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = [self._answer(self._block(data, element, places == block)) for block in range(self.blocks)]
        return np.array(found, dtype=np.int64)

    def _block(self, data: Any, element: Domain, chosen: np.ndarray) -> Any:
        """The rows of a block: nothing about them, not even a column's type, depends on rows elsewhere, or on their order."""
        part = take(data, np.flatnonzero(chosen).tolist())
        part = take(part, canonical(part, (self.key or b"")[:64]))
        if isinstance(part, Mapping):
            known = dict(element.fields) if isinstance(element, Records) else {}
            return {name: _own(known.get(name, ANYTHING), column) for name, column in part.items()}
        return _own(element, part)

    def _places(self, data: Any) -> np.ndarray:
        if self.key is None:
            return np.asarray(noise.uniform_integers(self.blocks, size=length(data)))
        columns = [data]
        if isinstance(data, Mapping):
            columns = [data[self.by]] if self.by is not None else [data[name] for name in sorted(data)]
        records = zip(*(keys([_value(value) for value in listed(column)]) for column in columns), strict=True)
        return np.array([self._hashed(record) for record in records], dtype=np.int64)

    def _hashed(self, record: Any) -> int:
        text = repr(record).encode("utf-8", "backslashreplace")
        digest = hashlib.blake2b(text, key=(self.key or b"")[:64], digest_size=16).digest()
        return int.from_bytes(digest, "big") % self.blocks

    def _answer(self, block: Any) -> int:
        """One block's answer, whatever the function does: nothing that it says but a number within the bounds gets out."""
        lower, upper = (Fraction(bound) for bound in self.bounds)
        try:
            value: float | Fraction = float(self.function(copy.deepcopy(block)))
        except (Exception, SystemExit, GeneratorExit):
            value = math.nan
        if math.isnan(value):
            value = Fraction(self.default or 0)
        return round_to_lattice(value, self._step, (lower, upper))


def _value(value: Any) -> Any:
    """A number as the fraction that it is, whatever its type; lists element by element; anything else as it is."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_value(v) if not isinstance(v, (list, tuple)) else v for v in value]
    try:
        return Fraction(value) if isinstance(value, (int, float, Decimal)) else value
    except (ValueError, OverflowError):  # NaN and infinities
        return str(float(value)) if not isinstance(value, Decimal) else str(value)


def _own(element: Domain, column: Any) -> Any:
    """A block's column, with a type of its own: that of the domain, or of the block's own values."""
    if isinstance(element, Anything):
        numbers = isinstance(column, np.ndarray) and column.ndim == 1 and column.dtype.kind in "biuf"
        return column.astype(np.float64) if numbers else listed(column)
    return Rows(element).enforce(listed(column))


def _fine(lower: Fraction, upper: Fraction) -> Fraction:
    """A step that divides both bounds, with at least 2^20 of them between: rounding moves an answer by less than a millionth."""
    shared = lower.denominator * upper.denominator
    common = Fraction(math.gcd(int(lower * shared), int(upper * shared)), shared)
    return common / math.ceil(common * 2**20 / (upper - lower))


def sample_aggregate(
    function: Callable[[Any], Any], *, blocks: int, bounds: tuple[Number, Number], granularity: Number | None = None,
    default: Number | None = None, by: str | None = None, key: bytes | None = None,
) -> SampleAggregate:  # fmt: skip
    """Any function's answers on disjoint blocks, to be followed by `block_mean` or `block_median`."""
    return SampleAggregate(function, blocks, bounds, granularity, default, by, key)


@dataclass(frozen=True)
class BlockMean(Mechanism):
    """The mean of answers in public bounds, with Laplace noise of scale width / (blocks * epsilon).

    Guarantee
        Statement: d changed answers cost d * epsilon.
        Conditions: Hamming distance on a vector of public length with public bounds; the width is what one changed answer moves the sum by.
        Proved in: the Laplace mechanism on the exact integer sum (textbook Theorem 1.9), divided by a public number afterwards.
    """

    epsilon: Number

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))

    def scale(self, width: Number, blocks: int) -> float:
        """The scale of the noise on the mean.

        >>> [block_mean(epsilon=1).scale(1, m) for m in (10, 100, 1000)]
        [0.1, 0.01, 0.001]
        """
        return float(Fraction(width) / (blocks * Fraction(self.epsilon)))

    def bind(self, space: Space) -> Measurement:
        lower, upper, granularity = bounded_rows(space, "mean of the blocks")
        if not isinstance(space.domain, Vectors) or not isinstance(space.metric, Hamming):
            raise MetricError(f"block_mean needs a vector of public length under Hamming(), not {space.metric}; use sample_aggregate first")
        step, blocks, width = granularity or Fraction(1), space.domain.length, upper - lower
        if not width:
            raise DomainError("the bounds of the answers must not be equal: there is nothing to learn")
        spread = Fraction(width) / Fraction(self.epsilon)

        def answer(values: Any) -> float:
            total = exact_sum(values) + int(noise.rounded_laplace(spread))
            return from_lattice(total, step / blocks)

        def privacy(distance: Number) -> Event:
            changed = math.floor(distance)
            return PureDP(self.epsilon if changed == 1 else Fraction(self.epsilon) * changed) if changed else NoOp()

        return Measurement(
            space,
            answer,
            privacy,
            f"block_mean(epsilon={self.epsilon})",
            "textbook Theorem 1.9 on the exact sum",
            accuracy=lambda beta: laplace_error(spread, beta, granularity=1) * float(step) / blocks,
        )

    def accuracy(  # the error needs public facts
        self, beta: Number, *, blocks: int, bounds: tuple[Number, Number], granularity: Number | None = None
    ) -> float:
        """How far the released mean is from the mean of the blocks' answers, except with probability beta.

        How far that is from the function of all rows is a matter of the function and the rows, and nothing here says it.

        >>> round(block_mean(epsilon=1).accuracy(0.05, blocks=100, bounds=(0, 1)), 6)
        0.029957
        """
        step, width = _steps(bounds, granularity)
        return rounded_up(laplace_error(width / step / Fraction(self.epsilon), beta, granularity=1) * float(step) / count("blocks", blocks))

    @classmethod
    def for_accuracy(
        cls, alpha: Number, beta: Number, *, blocks: int, bounds: tuple[Number, Number], granularity: Number | None = None
    ) -> Self:
        """The least epsilon at which the released mean is within alpha of the mean of the blocks' answers except with probability beta.

        >>> found = BlockMean.for_accuracy(0.03, 0.05, blocks=100, bounds=(0, 1))
        >>> round(found.epsilon, 4), found.accuracy(0.05, blocks=100, bounds=(0, 1)) <= 0.03
        (0.9986, True)
        """
        goal = float(positive("alpha", alpha))

        def keeps(epsilon: float) -> bool:
            return cls(epsilon).accuracy(beta, blocks=blocks, bounds=bounds, granularity=granularity) <= goal

        return cls(least_that_keeps(keeps))


def _steps(bounds: tuple[Number, Number], granularity: Number | None) -> tuple[Fraction, Fraction]:
    """The lattice and the width of blocks' answers, as `SampleAggregate` has them."""
    lower, upper = (Fraction(number("bounds", bound)) for bound in bounds)
    if not lower < upper:
        raise DomainError(f"bounds must be in order, lower below upper, not {bounds}")
    return _fine(lower, upper) if granularity is None else Fraction(positive("granularity", granularity)), upper - lower


def block_mean(*, epsilon: Number) -> BlockMean:
    """The noisy mean of the blocks' answers."""
    return BlockMean(epsilon)


def block_median(*, epsilon: Number, delta: Number | None = None) -> SmoothSensitivity:
    """The median of the blocks' answers with noise of its smooth sensitivity: little where most blocks agree."""
    return smooth_median(epsilon=epsilon, delta=delta)
