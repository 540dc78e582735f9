"""The contract of a local randomiser: what runs on a person's device, and what the collector may conclude from its reports.

A randomiser is a frozen public record. It turns a value, given as its place 0 .. size - 1 in a public list, into a report whose
law is exact (`tacit.noise`), and prices the report with an event. All randomisers for frequencies here are *pure* (Wang, Blocki, Li,
Jha 2017): a report supports some of the values, the true one with probability `held` and every other one with probability `other`, so
support counts C give unbiased frequencies (C - n other) / (held - other), whatever the data.

Reports add up: `fresh` is an empty table of integers, `add` counts reports into it, and tables of different servers are added.

>>> from tacit.local import Response
>>> oracle = Response(4, epsilon=1)
>>> table = oracle.fresh()
>>> oracle.add(table, np.array([0, 0, 3], dtype=np.uint8))
>>> oracle.support(table, 3).tolist()
[2, 0, 0, 1]
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Event, LocalReport
from tacit.errors import ParameterError
from tacit.exact import from_text, to_text
from tacit.mechanisms import exp_bracket
from tacit.parameters import Number, count, positive, probability

Reports = NDArray[Any]
Table = NDArray[np.int64]
Interval = tuple[Fraction, Fraction]

#: Kinds of randomisers by the name that travels, filled by `named`.
KINDS: dict[str, type[Randomiser]] = {}


def named(kind: type[Randomiser]) -> type[Randomiser]:
    """Make a class of randomisers known by its `kind`, for protocols that arrive as text."""
    KINDS[kind.kind] = kind
    return kind


@dataclass(frozen=True)
class Randomiser(ABC):
    """A randomiser of values 0 .. size - 1 with parameter `epsilon`."""

    size: int
    epsilon: Number

    #: The name that travels in a protocol.
    kind: ClassVar[str] = ""
    #: For randomisers that are not for frequencies: whose `of(collector)` turns the counts into answers.
    answered_by: ClassVar[str] = "Estimates"
    #: Most values; randomisers of a listed domain have fewer, so that places and symbols stay far inside 64 bits.
    largest: ClassVar[int] = 1 << 64
    #: Most reports that are drawn or read at once; longer arrays are taken in blocks.
    block: ClassVar[int] = 1 << 20

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", count("size", self.size, least=2))
        if self.size > self.largest:
            raise ParameterError("size must be at most 2^32; use a sketch for more values")
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))
        if self.epsilon > 50:
            raise ParameterError(f"epsilon must be at most 50, not {self.epsilon}; a report of more is the value itself")

    # --- what is said of it before anything is sent ---

    @property
    def odds(self) -> float:
        """e^epsilon."""
        return math.exp(float(self.epsilon))

    @property
    def held(self) -> float:
        """The probability that a report supports the true value."""
        raise self._supports_nothing()

    @property
    def other(self) -> float:
        """The probability that a report supports a given other value."""
        raise self._supports_nothing()

    @property
    @abstractmethod
    def event(self) -> Event:
        """The price of one report, for the replacement of the person's value."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Bytes of one report on the wire."""

    @property
    def gap(self) -> float:
        """held - other, by which estimates divide."""
        return self.held - self.other

    def variance(self, n: int, share: Number = 0) -> float:
        """The variance of an estimated share among n people, of a value that this share of them holds.

        >>> from tacit.local import Response
        >>> round(Response(4, 1).variance(1), 5)
        1.59807
        """
        held = float(probability("share", share))
        spread = held * self.held * (1 - self.held) + (1 - held) * self.other * (1 - self.other)
        return spread / self.gap**2 / count("n", n)

    @property
    def gain(self) -> float:
        """How far one forged report can move the count of one value, where an honest one moves it by 1 on average."""
        return (1 - self.other) / self.gap

    @abstractmethod
    def distribution(self, value: int, *, bits: int = 128) -> Mapping[Any, Any]:
        """The exact law of the report of a value, outcome by outcome, for `tacit.mechanisms.verify`; only for few outcomes."""

    # --- the person's device ---

    def privatise(self, values: NDArray[Any] | Sequence[int] | int) -> Reports:
        """Reports of values, one for each; a place outside 0 .. size - 1 counts as place 0, and nothing else tells it.

        Guarantee
            Statement: for any two values, the report costs `event`.
            Conditions: the replacement of one person's value; one report a person and use, drawn from the operating system's entropy.
            Proved in: `distribution`, compared in fractions by `tacit.mechanisms.verify`.
        """
        given = np.atleast_1d(np.asarray(values))
        if given.dtype.kind == "O" and given.ndim == 1:  # whole numbers of more than 64 bits are outside, like any other
            given = np.array([v if type(v) is int and 0 <= v < self.size else 0 for v in given.tolist()], dtype=np.int64)
        if given.dtype.kind not in "iub" or given.ndim != 1:
            raise ParameterError(f"values must be places 0 to {self.size - 1} in the public list, as whole numbers in one row")
        known = np.where((given >= 0) & (given < self.size), given, 0).astype(np.int64)
        parts = [self._drawn(known[start : start + self.block]) for start in range(0, len(known), self.block)]
        return np.concatenate(parts) if len(parts) > 1 else parts[0] if parts else self._drawn(known)

    @abstractmethod
    def _drawn(self, values: NDArray[np.int64]) -> Reports:
        """Reports of values that are known to be places."""

    # --- the wire ---

    @abstractmethod
    def to_bytes(self, reports: Reports) -> NDArray[np.uint8]:
        """Reports as rows of `width` bytes."""

    @abstractmethod
    def from_bytes(self, rows: NDArray[np.uint8]) -> tuple[Reports, NDArray[np.bool_]]:
        """Reports from rows of bytes, and which rows are reports at all."""

    # --- the collector ---

    @property
    @abstractmethod
    def cells(self) -> int:
        """How many integers a table of counts has."""

    def fresh(self) -> Table:
        """An empty table of counts."""
        return np.zeros(self.cells, dtype=np.int64)

    @abstractmethod
    def add(self, table: Table, reports: Reports) -> None:
        """Count reports into a table."""

    def support(self, table: Table, n: int) -> NDArray[Any]:
        """For each value, how many of the n counted reports support it."""
        raise self._supports_nothing()

    def supporting(self, reports: Reports, values: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which reports support which of these values: a row for each report, a column for each value."""
        raise self._supports_nothing()

    def estimates(self, table: Table, n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Unbiased shares of all values among the n people who were counted, and their variances."""
        share = (self.support(table, n) / n - self.other) / self.gap
        p, q, held = self.held, self.other, np.clip(share, 0.0, 1.0)
        return share, (held * p * (1 - p) + (1 - held) * q * (1 - q)) / n / self.gap**2

    def _supports_nothing(self) -> ParameterError:
        return ParameterError(f"reports of kind {self.kind} support no single values; {self.answered_by} answers what they tell")

    # --- as text ---

    def parameters(self) -> dict[str, Any]:
        """Everything that is decided, for a protocol's text."""
        found: dict[str, Any] = {"kind": self.kind}
        for each in fields(self):
            value = getattr(self, each.name)
            found[each.name] = to_text(Fraction(value)) if each.name == "epsilon" else value
        return found


def from_parameters(given: Mapping[str, Any]) -> Randomiser:
    """The randomiser that `parameters` described.

    >>> from tacit.local import Response
    >>> from_parameters(Response(4, epsilon=1).parameters())
    Response(size=4, epsilon=Fraction(1, 1))
    """
    rest = dict(given)
    kind = KINDS.get(str(rest.pop("kind", "")))
    if kind is None:
        raise ParameterError(f"kind must be one of {', '.join(sorted(KINDS))}")
    expected = [each.name for each in fields(kind)]
    if sorted(rest) != sorted(expected):
        raise ParameterError(f"{kind.kind} has {', '.join(expected)}, and nothing else")
    return kind(**{**rest, "epsilon": from_text(str(rest["epsilon"]))})


# --- reports that are one whole number ---


@dataclass(frozen=True)
class SymbolRandomiser(Randomiser):
    """A randomiser whose report is one of `symbols` numbers."""

    @property
    @abstractmethod
    def symbols(self) -> int:
        """How many different reports there are."""

    @property
    def width(self) -> int:
        return max(1, ((self.symbols - 1).bit_length() + 7) // 8)

    @property
    def cells(self) -> int:
        return self.symbols

    def to_bytes(self, reports: Reports) -> NDArray[np.uint8]:
        wide = np.ascontiguousarray(reports, dtype="<u8").view(np.uint8).reshape(-1, 8)
        return np.ascontiguousarray(wide[:, : self.width])

    def from_bytes(self, rows: NDArray[np.uint8]) -> tuple[Reports, NDArray[np.bool_]]:
        wide = np.zeros((len(rows), 8), dtype=np.uint8)
        wide[:, : self.width] = rows
        found = wide.view("<u8").ravel()
        return found, found < np.uint64(self.symbols)

    def add(self, table: Table, reports: Reports) -> None:
        for start in range(0, len(reports), self.block):
            table += np.bincount(reports[start : start + self.block].astype(np.intp), minlength=self.symbols)

    def _short(self, reports: NDArray[Any]) -> Reports:
        """Reports in the smallest type that holds them."""
        return reports.astype(np.min_scalar_type(self.symbols - 1))


def shares(epsilon: Number, favoured: int, rest: int, bits: int) -> tuple[Interval, Interval]:
    """The probability of one of `favoured` outcomes, each e^epsilon times as likely as one of the `rest`, and of one of these.

    >>> [round(float(low), 6) for low, _ in shares(1, 1, 3, 64)]
    [0.475367, 0.174878]
    """
    low, high = exp_bracket(epsilon, bits)
    least, most = 1 / (high * favoured + rest), 1 / (low * favoured + rest)
    return (low * most, high * least), (least, most)


def local_report(epsilon: Number, blanket: float, one: float, both: float) -> LocalReport:
    """The event of a report with this blanket (`tacit.accounting.LocalReport`), its share rounded up."""
    return LocalReport(epsilon, blanket * one * (1 + 1e-14), min(1.0, blanket), both)
