"""Numbers between public bounds, one randomised report a person, and the mean of all with its error.

Four randomisers: Duchi's bit, the piecewise report, a coin between both (hybrid), and Laplace noise. All work on a lattice of
public points, so every draw is exact and every law can be enumerated; all are unbiased on the lattice. With t from -1 to 1
between the bounds, their variances a person are those of Wang et al. (2019).

>>> protocol = means(bounds=(0, 100), epsilon=1)
>>> protocol.randomiser.kind, protocol.randomiser.width
('hybrid', 3)
>>> from tacit.local import Collector, to_batch
>>> collector = Collector(protocol).ingest([to_batch(protocol, [20.0, 40.0] * 50_000)])
>>> answer = Mean.of(collector)
>>> abs(answer.value - 30) < 6 * answer.deviation, round(answer.deviation, 2)
(True, 0.33)
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit import noise
from tacit.accounting import LocalReport, RandomizedResponse
from tacit.errors import ParameterError
from tacit.local.collector import Collector
from tacit.local.domain import Numbers
from tacit.local.protocol import Protocol
from tacit.local.randomiser import Interval, Randomiser, Reports, SymbolRandomiser, Table, local_report, named, shares
from tacit.mechanisms import exp_bracket, half_width
from tacit.parameters import Number, count, probability

SWITCH = 0.61  # epsilon up to which Duchi's bit alone is the best mixture (Wang et al. 2019)


@dataclass(frozen=True)
class ScalarRandomiser(Randomiser):
    """A randomiser of numbers: place j of `size` (odd) stands for t = 2 j / (size - 1) - 1, between -1 and 1."""

    answered_by: ClassVar[str] = "Mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size % 2 == 0 or self.size > 2**20 + 1:
            raise ParameterError("size must be odd and at most 2^20 + 1 points for numbers")

    @abstractmethod
    def spread(self, t: float) -> float:
        """The variance of the unbiased estimate of t that one report gives."""

    @abstractmethod
    def steps(self, reports: Reports) -> NDArray[np.int64]:
        """What each report adds to each cell of the table: a row a cell, in whole numbers, so that sums are exact."""

    @property
    @abstractmethod
    def worths(self) -> tuple[float, ...]:
        """What one step in each cell is worth."""

    @property
    def cells(self) -> int:
        return len(self.worths)

    def add(self, table: Table, reports: Reports) -> None:
        for start in range(0, len(reports), self.block):
            table += self.steps(reports[start : start + self.block]).sum(axis=1)

    def total(self, table: Table) -> float:
        """The sum of the unbiased estimates of all counted reports."""
        return math.fsum(float(cell) * worth for cell, worth in zip(table.tolist(), self.worths, strict=True))

    def worth(self, reports: Reports) -> NDArray[np.float64]:
        """The unbiased estimate of t that each report gives."""
        return np.asarray(np.array(self.worths) @ self.steps(reports))

    def bound(self, mean: float) -> float:
        """The most that spreads of people with this mean average to."""
        return max(self.spread(1.0), self.spread(0.0))

    def variance(self, n: int, share: Number = 0) -> float:
        """The most that the variance of a mean of n people can be, for t between -1 and 1; `share` is not used."""
        return max(self.spread(1.0), self.spread(0.0)) / count("n", n)


@named
@dataclass(frozen=True)
class Duchi(ScalarRandomiser, SymbolRandomiser):
    """One bit: t rounded at random to -1 or 1, told with odds e^epsilon to 1 (Duchi, Jordan, Wainwright 2013).

    >>> round(Duchi(2**16 + 1, 1).spread(0.3), 6)
    4.592694
    """

    kind: ClassVar[str] = "duchi"

    @property
    def symbols(self) -> int:
        return 2

    @property
    def scale(self) -> float:
        """(e^epsilon + 1) / (e^epsilon - 1), the size of every estimate."""
        return 1 / math.tanh(float(self.epsilon) / 2)

    @property
    def event(self) -> RandomizedResponse:
        # laws are linear in t, so two people's reports differ most at -1 and 1, where this is binary response
        return RandomizedResponse(self.epsilon, 2)

    def spread(self, t: float) -> float:
        return self.scale**2 - t * t

    def bound(self, mean: float) -> float:
        return self.spread(min(1.0, abs(mean)))  # concave in t

    def distribution(self, value: int, *, bits: int = 128) -> dict[int, Interval]:
        (kept, kept_most), (lied, lied_most) = shares(self.epsilon, 1, 1, bits)
        up = Fraction(value, self.size - 1)
        one = (up * kept + (1 - up) * lied, up * kept_most + (1 - up) * lied_most)
        return {0: (1 - one[1], 1 - one[0]), 1: one}

    def _drawn(self, values: NDArray[np.int64]) -> Reports:
        up = noise.uniform_integers(self.size - 1, len(values)) < values
        told: Reports = up == noise.odds_bits(self.epsilon, len(values))
        return told.astype(np.uint8)

    @property
    def worths(self) -> tuple[float, ...]:
        return (self.scale,)

    def steps(self, reports: Reports) -> NDArray[np.int64]:
        return 2 * reports.astype(np.int64)[None] - 1


@dataclass(frozen=True)
class _Windowed(ScalarRandomiser, SymbolRandomiser):
    """What piecewise and hybrid reports share: a window of outcomes that slides with t."""

    window: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        best = max(1, round((self.size - 1) * math.exp(-float(self.epsilon) / 2)))
        object.__setattr__(self, "window", count("window", self.window or best))
        if self.window > self.size - 1:
            raise ParameterError("window must be below size, so that the windows of the two bounds are apart")

    @property
    def outcomes(self) -> int:
        """How many outcomes a piecewise report has: the windows of all places together."""
        return self.size - 1 + self.window

    @property
    def _rate(self) -> float:
        """The probability of one outcome outside the window."""
        return 1 / (self.odds * self.window + self.size - 1)

    @property
    def _step(self) -> float:
        """The worth of one half-step: an outcome i is worth (2 i - outcomes + 1) of these."""
        return 1 / (self._rate * (self.odds - 1) * self.window * (self.size - 1))

    def _piecewise_spread(self, t: float) -> float:
        """E y^2 - t^2 in sums of squares of runs of half-steps."""
        m, w = self.outcomes, self.window
        middle = t * (self.size - 1)  # of the window, in half-steps
        everywhere = m * (m * m - 1) / 3
        inside = w * middle * middle + w * (w * w - 1) / 3
        return self._rate * (everywhere + (self.odds - 1) * inside) * self._step**2 - t * t

    def _piecewise_drawn(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        n, w = len(values), self.window
        inside = noise.odds_bits(self.epsilon, n, heads=w, tails=self.size - 1)
        within, beside = noise.uniform_integers(w, n), noise.uniform_integers(self.size - 1, n)
        found: NDArray[np.int64] = np.where(inside, values + within, beside + w * (beside >= values))
        return found

    def _piecewise_law(self, value: int, bits: int) -> dict[int, Interval]:
        inside, outside = shares(self.epsilon, self.window, self.size - 1, bits)
        return {i: inside if value <= i < value + self.window else outside for i in range(self.outcomes)}


@named
@dataclass(frozen=True)
class Piecewise(_Windowed):
    """An outcome of a lattice, e^epsilon times as likely inside a window around t as outside (Wang et al. 2019).

    The window has a share of 1 / (e^(epsilon/2) + 1) of the outcomes, which makes the worst variance least.

    >>> round(Piecewise(2**16 + 1, 2).spread(1), 4)
    1.2276
    """

    kind: ClassVar[str] = "piecewise"

    @property
    def symbols(self) -> int:
        return self.outcomes

    @property
    def event(self) -> LocalReport:
        # windows that overlap favour fewer outcomes, which costs less: the bounds' windows are apart
        return local_report(self.epsilon, self.outcomes * self._rate, self.window / self.outcomes, 0.0)

    def spread(self, t: float) -> float:
        return self._piecewise_spread(t)

    def distribution(self, value: int, *, bits: int = 128) -> dict[int, Interval]:
        return self._piecewise_law(value, bits)

    def _drawn(self, values: NDArray[np.int64]) -> Reports:
        return self._short(self._piecewise_drawn(values))

    @property
    def worths(self) -> tuple[float, ...]:
        return (self._step,)

    def steps(self, reports: Reports) -> NDArray[np.int64]:
        return 2 * reports.astype(np.int64)[None] - (self.outcomes - 1)


@named
@dataclass(frozen=True)
class Hybrid(_Windowed):
    """A piecewise report with probability 1 - e^(-epsilon/2), else Duchi's bit: a variance that does not depend on t (Wang et al. 2019).

    Up to epsilon 0.61 Duchi's bit alone is better, and is what `means` takes; this class mixes at every epsilon.

    >>> [round(Hybrid(2**16 + 1, 1).spread(t), 3) for t in (0, 1)]
    [4.289, 4.289]
    """

    kind: ClassVar[str] = "hybrid"

    @property
    def _bit(self) -> Duchi:
        return Duchi(self.size, self.epsilon)

    @property
    def _mixed(self) -> float:
        """The probability of Duchi's bit."""
        return math.exp(-float(self.epsilon) / 2)

    @property
    def symbols(self) -> int:
        return self.outcomes + 2

    @property
    def event(self) -> LocalReport:
        bit, rate = self._mixed, self._rate
        mass = (1 - bit) * self.outcomes * rate + bit * 2 / (self.odds + 1)
        favoured = (1 - bit) * self.window * rate + bit / (self.odds + 1)
        return local_report(self.epsilon, mass, favoured / mass, 0.0)

    def spread(self, t: float) -> float:
        bit = self._mixed
        return (1 - bit) * self._piecewise_spread(t) + bit * self._bit.spread(t)

    def distribution(self, value: int, *, bits: int = 128) -> dict[int, Interval]:
        low, high = exp_bracket(-Fraction(self.epsilon) / 2, bits)
        found = {i: (a * (1 - high), b * (1 - low)) for i, (a, b) in self._piecewise_law(value, bits).items()}
        two = self._bit.distribution(value, bits=bits)
        return found | {self.outcomes + i: (a * low, b * high) for i, (a, b) in two.items()}

    def _drawn(self, values: NDArray[np.int64]) -> Reports:
        bit = noise.bernoulli_exp(Fraction(self.epsilon) / 2, len(values)).astype(np.bool_)
        # both are drawn for all, so that the time does not tell
        wide, narrow = self._piecewise_drawn(values), self._bit._drawn(values).astype(np.int64)
        return self._short(np.where(bit, self.outcomes + narrow, wide))

    @property
    def worths(self) -> tuple[float, ...]:
        return self._step, self._bit.scale

    def steps(self, reports: Reports) -> NDArray[np.int64]:
        symbols = reports.astype(np.int64)
        bit = symbols >= self.outcomes
        return np.stack([~bit * (2 * symbols - (self.outcomes - 1)), bit * (2 * (symbols - self.outcomes) - 1)])


@named
@dataclass(frozen=True)
class LocalLaplace(ScalarRandomiser):
    """The place with discrete Laplace noise of scale (size - 1) / epsilon, cut off where e^-60 of it lies beyond.

    >>> round(LocalLaplace(2**16 + 1, 1).spread(0), 4)
    8.0
    """

    kind: ClassVar[str] = "laplace"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon < 1e-6:
            raise ParameterError("epsilon must be at least 1e-6 for Laplace noise")

    @property
    def noise_scale(self) -> Fraction:
        """The scale of the noise in steps of the lattice."""
        return (self.size - 1) / Fraction(self.epsilon)

    @property
    def most(self) -> int:
        """Reports lie between minus this and this, counted from the middle place."""
        return self.size + math.ceil(60 * self.noise_scale)

    @property
    def event(self) -> LocalReport:
        return LocalReport(self.epsilon)  # losses between -epsilon and epsilon: any randomiser is allowed for

    @property
    def width(self) -> int:
        return 8

    def spread(self, t: float) -> float:
        return 1 / (2 * math.sinh(1 / (2 * float(self.noise_scale))) ** 2) * (2 / (self.size - 1)) ** 2

    def distribution(self, value: int, *, bits: int = 128) -> dict[int, Interval]:
        """The law of reports near the lattice, and of all beyond on each side together."""
        half, rate = (self.size - 1) // 2, 1 / self.noise_scale
        low, high = exp_bracket(-rate, bits)
        found = {}
        for report in range(-2 * self.size, 2 * self.size + 1):
            least, most = exp_bracket(-rate * abs(report - (value - half)), bits)
            edge = abs(report) == 2 * self.size
            # the whole tail from here on is 1 / (1 + q) q^k
            found[report] = (
                (least / (1 + high), most / (1 + low)) if edge else (least * (1 - high) / (1 + high), most * (1 - low) / (1 + low))
            )
        return found

    def _drawn(self, values: NDArray[np.int64]) -> Reports:
        drawn: NDArray[Any] = values - (self.size - 1) // 2 + noise.discrete_laplace(self.noise_scale, len(values))
        return np.asarray(np.clip(drawn, -self.most, self.most), dtype=np.int64)

    def to_bytes(self, reports: Reports) -> NDArray[np.uint8]:
        return np.ascontiguousarray(reports, dtype="<i8").view(np.uint8).reshape(-1, 8)

    def from_bytes(self, rows: NDArray[np.uint8]) -> tuple[Reports, NDArray[np.bool_]]:
        found = np.ascontiguousarray(rows).view("<i8").ravel()
        return found, (found >= -self.most) & (found <= self.most)

    @property
    def worths(self) -> tuple[float, ...]:
        # halves of 31 bits, so that no number of reports overflows
        return 2.0**32 / (self.size - 1), 2 / (self.size - 1)

    def steps(self, reports: Reports) -> NDArray[np.int64]:
        return np.stack([reports >> 31, reports & (2**31 - 1)])


SCALARS: dict[str, type[ScalarRandomiser]] = {each.kind: each for each in (Duchi, Hybrid, Piecewise, LocalLaplace)}


def best_scalar(size: int, epsilon: Number) -> ScalarRandomiser:
    """The randomiser whose worst variance is least; the shortest report where two are alike.

    >>> best_scalar(2**16 + 1, 0.5).kind, best_scalar(2**16 + 1, 3).kind
    ('duchi', 'hybrid')
    """
    found = [make(size, epsilon) for make in SCALARS.values()]
    if epsilon <= SWITCH:
        found = [one for one in found if one.kind != "hybrid"]
    return min(found, key=lambda one: one.variance(1))


def means(*, bounds: Sequence[Number], epsilon: Number, kind: str = "auto", points: int = 2**16 + 1) -> Protocol:
    """A protocol for the mean of numbers between public bounds. "auto" takes the randomiser with the least worst variance.

    Values beyond a bound count as the bound, what is no number as the middle.

    >>> means(bounds=(-1, 1), epsilon=0.5).randomiser
    Duchi(size=65537, epsilon=0.5)
    """
    if len(bounds) != 2:
        raise ParameterError("bounds must be two numbers, the lower and the upper one")
    domain = Numbers(bounds[0], bounds[1], points)
    if kind != "auto" and kind not in SCALARS:
        raise ParameterError(f"kind must be auto or one of {', '.join(sorted(SCALARS))}, not {kind!r}")
    return Protocol(domain, best_scalar(domain.size, epsilon) if kind == "auto" else SCALARS[kind](domain.size, epsilon))


@dataclass(frozen=True)
class Mean:
    """The estimated mean of the numbers of the n people who reported, and the deviation of its noise, at the most."""

    value: float
    deviation: float
    n: int
    dropped: dict[str, int]

    @classmethod
    def of(cls, collector: Collector) -> Mean:
        """The mean that a collector's reports tell; not cut off at the bounds."""
        randomiser, domain = collector.protocol.randomiser, collector.protocol.values
        if not isinstance(randomiser, ScalarRandomiser) or not isinstance(domain, Numbers):
            raise ParameterError("the collector counts no reports of numbers; make the protocol with `means`")
        if collector.n < 2:
            raise ParameterError("there are fewer than two reports; nothing can be estimated")
        t = randomiser.total(collector.table) / collector.n
        wide = math.sqrt(randomiser.bound(t) / collector.n) * float(domain.upper - domain.lower) / 2
        return cls(domain.number(t), wide, collector.n, dict(collector.dropped))

    @property
    def sum(self) -> float:
        """The estimated sum."""
        return self.value * self.n

    def interval(self, confidence: Number = 0.95) -> tuple[float, float]:
        """Lower and upper end for the mean of the people who reported; a sum over many people, so by the normal law."""
        miss: Any = 1 - float(probability("confidence", confidence))
        if not 0 < miss < 1:
            raise ParameterError("confidence must be between 0 and 1")
        wide = float(half_width([self.deviation], "gaussian", 1 - miss)[0])
        return self.value - wide, self.value + wide
