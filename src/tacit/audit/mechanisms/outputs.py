"""Outputs of any kind, made ready for a search, and the scores by which a search orders them.

A mechanism answers with numbers, vectors, tuples, texts, nothing, or an exception, and a leak can hide in the kind of
an answer as well as in its value: an exception on one input only, a list that is one longer. So each output becomes a
*kind* (type, length, names: a category), and, where it holds numbers, a row of *features*. An exception is an output.
NaN is a value.

>>> seen = encode([3.5, None, ValueError("its text is part of the output"), [1, 2]])
>>> [seen.names[kind] for kind in seen.kind.tolist()]
['number', 'nothing', 'raised ValueError', 'list of 2']

The scores learnt here order outputs by how much they speak for the second of two inputs; a test asks whether the score
is at least t.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.calculus import Release

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Outputs = Sequence[object] | NDArray[np.generic]  # in an array, a row for each output
Sampler = Callable[[int], Outputs]  # n -> n outputs
EXTRAS = 5  # features of an output as a whole, before its numbers one by one
WIDEST = 64  # numbers of one output that are looked at one by one; the rest counts in sums and extremes only
HUGE = 1e300  # stands for an infinity among features


@dataclass(frozen=True)
class Encoded:
    """Outputs as kinds, rows of numbers, and the identity of each output as a whole.

    Kinds and identities are hashes of what they stand for, and features always stand in the same columns: outputs that were encoded at
    different times can be compared.
    """

    kind: Whole
    features: Floats
    atom: Whole
    names: Mapping[int, str]

    def __len__(self) -> int:
        return len(self.kind)

    def take(self, places: slice | NDArray[np.integer]) -> Encoded:
        """Some of the outputs."""
        return Encoded(self.kind[places], self.features[places], self.atom[places], self.names)

    def column(self, j: int) -> Floats:
        """One feature; zero where no output is so long."""
        return self.features[:, j] if j < self.features.shape[1] else np.zeros(len(self))

    def columns(self, width: int) -> Floats:
        """The first features, filled up with zeros."""
        missing = max(0, width - self.features.shape[1])
        return np.hstack([self.features[:, :width], np.zeros((len(self), missing))]) if missing else self.features[:, :width]


def mark(text: str) -> int:
    """A number for a text, the same in every process."""
    return int.from_bytes(blake2b(text.encode("utf-8", "backslashreplace"), digest_size=8).digest(), "big", signed=True)


def encode(outputs: Outputs) -> Encoded:
    """Outputs of one kind or of many, in order. Arrays of numbers, a row for each output, take the short way.

    >>> encode(np.array([[1.0, 2.0], [3.0, 4.0]])).features[0].tolist()  # not numbers, sum, largest, smallest, where; then one by one
    [0.0, 3.0, 2.0, 1.0, 1.0, 1.0, 2.0]
    """
    if isinstance(outputs, np.ndarray) and outputs.dtype.kind in "biuf":
        rows = outputs.reshape(len(outputs), -1).astype(np.float64) if outputs.size else np.zeros((len(outputs), 0))
        name = "number" if outputs.ndim == 1 else f"array of {outputs.shape[1:]}"
        kind = np.full(len(rows), mark(name), dtype=np.int64)
        return Encoded(kind, features_of(rows), _marks_of_rows(rows), {mark(name): name})
    values = list(outputs)
    if values and all(type(v) is float or type(v) is int or type(v) is bool for v in values):
        try:
            return encode(np.array(values, dtype=np.float64))
        except OverflowError:
            pass
    return _encode_each(values)


def _encode_each(values: list[object]) -> Encoded:
    known: dict[tuple[object, ...] | str, tuple[str, list[float], Hashable]] = {}

    def described(value: object) -> tuple[str, list[float], Hashable]:
        if not isinstance(value, (tuple, str)):
            return describe(value)
        try:  # few different answers, many times each: describe each once
            found = known.get(value)
        except TypeError:
            return describe(value)
        if found is None:
            found = known[value] = describe(value)
        return found

    every = [described(value) for value in values]
    names = {mark(name): name for name in {name for name, _, _ in every}}
    marks = {name: number for number, name in names.items()}
    width = max((len(numbers) for _, numbers, _ in every), default=0)
    padded, lengths = np.zeros((len(values), width)), np.array([len(numbers) for _, numbers, _ in every], dtype=np.intp)
    for row, (_, numbers, _) in zip(padded, every, strict=True):
        row[: len(numbers)] = numbers
    lone = {marks["number"]} if "number" in marks else set()
    kind = np.array([marks[name] for name, _, _ in every], dtype=np.int64)
    texts = {(name, text) for name, _, text in every}
    atoms = {pair: mark(repr(pair)) for pair in texts}
    atom = np.array([atoms[name, text] for name, _, text in every], dtype=np.int64)
    numbers_only = np.isin(kind, list(lone))
    if numbers_only.any():  # single numbers have the same identity on the short way
        atom[numbers_only] = _marks_of_rows(padded[numbers_only, :1])
    return Encoded(kind, features_of(padded, np.arange(width) < lengths[:, None]), atom, names)


def describe(value: object) -> tuple[str, list[float], Hashable]:
    """The kind of one output, the numbers in it, and something equal for equal outputs.

    >>> describe((True, 2))
    ('tuple of 2', [1.0, 2.0], ('1', '2'))
    >>> describe("abc")[:2]
    ('text', [])
    """
    if isinstance(value, Release):
        return describe(value.value)
    if value is None:
        return "nothing", [], None
    if isinstance(value, BaseException):
        return f"raised {type(value).__name__}", [], _shown(value)  # its text reaches the attacker too
    if isinstance(value, (bool, np.bool_, int, np.integer)):
        return "number", [_bounded(int(value))], str(int(value))
    if isinstance(value, (float, np.floating)):
        return "number", [float(value)], "nan" if value != value else float(value).hex()
    if isinstance(value, (str, bytes)):
        return "text", [], value
    if isinstance(value, np.ndarray):
        flat = value.reshape(-1).tolist()
        return (f"array of {value.shape}", *_several(flat))
    if isinstance(value, Mapping):
        names = sorted(map(repr, value))
        numbers, text = _several([value[key] for key in sorted(value, key=repr)])
        return f"mapping of {', '.join(names)}", numbers, text
    if isinstance(value, (list, tuple, set, frozenset)):
        held = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else list(value)
        return (f"{type(value).__name__} of {len(held)}", *_several(held))
    unknown: Any = value  # of another library: what float() takes is a number
    try:
        return "number", [float(unknown)], _shown(value)
    except (TypeError, ValueError, OverflowError):
        return type(value).__name__, [], _shown(value)


def _shown(value: object) -> str:
    try:
        return str(value)
    except Exception:  # an object that cannot be shown is known by its type alone
        return ""


def _several(values: list[object]) -> tuple[list[float], Hashable]:
    parts = [describe(v) for v in values]
    return [number for _, numbers, _ in parts for number in numbers], tuple(
        text if kind == "number" else (kind, text) for kind, _, text in parts
    )


def _bounded(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def features_of(rows: Floats, held: NDArray[np.bool_] | None = None) -> Floats:
    """How many are no numbers, their sum, extremes and where the largest is; then the numbers one by one. All finite.

    `held` says which places of a row are filled, where outputs differ in length.

    >>> features_of(np.array([[1.0, math.nan], [2.0, math.inf]]))[:, :3].tolist()
    [[1.0, 1.0, 1.0], [0.0, 1e+300, 1e+300]]
    """
    if rows.shape[1] == 0:
        return np.zeros((len(rows), EXTRAS))
    bad = np.isnan(rows)
    clean = np.clip(np.where(bad, 0.0, rows), -HUGE, HUGE)
    with np.errstate(over="ignore"):
        total = np.clip(clean.sum(axis=1), -HUGE, HUGE)
    above = clean if held is None else np.where(held, clean, -math.inf)
    below = clean if held is None else np.where(held, clean, math.inf)
    largest, smallest = above.max(axis=1), below.min(axis=1)
    ends = [np.where(np.isfinite(end), end, 0.0) for end in (largest, smallest)]
    extras = [bad.sum(axis=1).astype(np.float64), total, *ends, above.argmax(axis=1).astype(np.float64)]
    return np.hstack([np.stack(extras, axis=1), clean[:, :WIDEST]])


def _marks_of_rows(rows: Floats) -> Whole:
    """A number for each row that is the same for rows with the same bits: the bits themselves where there is one column."""
    bits = np.ascontiguousarray(rows, dtype=np.float64).view(np.uint64).reshape(rows.shape)
    found = np.zeros(len(rows), dtype=np.uint64)
    for j in range(rows.shape[1]):
        found = (found ^ bits[:, j]) * np.uint64(0x9E3779B97F4A7C15)
        found ^= found >> np.uint64(29)
    return found.view(np.int64)


# --- scores ------------------------------------------------------------------------------------------------------------------------------

Score = Callable[[Encoded], Floats]


@dataclass(frozen=True)
class Candidate:
    """A way to order outputs, learnt on one part of the samples: the higher, the more an output speaks for the second input."""

    name: str
    score: Score


def oriented(column: Floats, second: NDArray[np.bool_]) -> float:
    """1 where large values speak for the second input, -1 where small ones do."""
    return 1.0 if np.median(column[second]) >= np.median(column[~second]) else -1.0


def thresholds(seen: Encoded, second: NDArray[np.bool_]) -> list[Candidate]:
    """Each feature by itself: large speaks for one input, small for the other."""

    def of(j: int, sign: float) -> Candidate:
        return Candidate(f"threshold on {feature_name(j)}", lambda x: sign * x.column(j))

    return [of(j, oriented(seen.column(j), second)) for j in different(seen)]


def different(seen: Encoded) -> list[int]:
    """The features that say something another does not: no constants, no copies."""
    found: list[int] = []
    for j in range(seen.features.shape[1]):
        column = seen.features[:, j]
        if len(column) and column.min() < column.max() and not any(np.array_equal(column, seen.features[:, i]) for i in found):
            found.append(j)
    return found


def feature_name(j: int) -> str:
    """What a column of features holds.

    >>> feature_name(1), feature_name(6)
    ('the sum', 'number 2 of the output')
    """
    return ("how many are no numbers", "the sum", "the largest", "the smallest", "where the largest is")[j] if j < EXTRAS else (
        f"number {j - EXTRAS + 1} of the output"
    )


def log_ratio(second: Floats, first: Floats) -> Floats:
    """Smoothed log-likelihood ratio of counts, so that an empty cell is no proof."""
    shares = [(counts + 0.5) / (counts.sum() + 0.5 * len(counts)) for counts in (second, first)]
    return np.asarray(np.log(shares[0]) - np.log(shares[1]))


def by_kind(seen: Encoded, second: NDArray[np.bool_]) -> Candidate:
    """The kind of an output alone: exceptions, lengths, names."""
    return Candidate("kind of output", _by_mark(seen.kind, second, lambda x: x.kind))


def by_atom(seen: Encoded, second: NDArray[np.bool_]) -> Candidate:
    """Each different output by itself: for mechanisms with few outputs, texts and sequences of bits. One not seen before says nothing."""
    return Candidate("set of outputs", _by_mark(seen.atom, second, lambda x: x.atom))


def _by_mark(marks: Whole, second: NDArray[np.bool_], of: Callable[[Encoded], Whole]) -> Score:
    known, cells = np.unique(marks, return_inverse=True)
    ratio = np.append(log_ratio(*(np.bincount(cells[m], minlength=len(known)).astype(np.float64) for m in (second, ~second))), 0.0)

    def score(x: Encoded) -> Floats:
        place = np.minimum(np.searchsorted(known, of(x)), len(known) - 1)
        return ratio[np.where(known[place] == of(x), place, len(known))]

    return score


def by_histogram(seen: Encoded, second: NDArray[np.bool_], j: int, bins: int = 40) -> Candidate:
    """The likelihood ratio of one feature, by quantile bins; a value that occurs often has a bin of its own."""
    column = seen.column(j)
    edges = np.quantile(column, np.linspace(0, 1, bins + 1)[1:-1])
    # Both v and the next float above it are edges, so that an atom at a quantile is alone in its bin.
    edges = np.unique(np.concatenate([edges, np.nextafter(edges, math.inf)]))
    cells = np.searchsorted(edges, column, side="right")
    ratio = log_ratio(*(np.bincount(cells[m], minlength=len(edges) + 1).astype(np.float64) for m in (second, ~second)))
    return Candidate(f"likelihood ratio of {feature_name(j)}", lambda x: ratio[np.searchsorted(edges, x.column(j), side="right")])


def by_kernel(seen: Encoded, second: NDArray[np.bool_], j: int, points: int = 256) -> Candidate:
    """The likelihood ratio of one feature, by Gaussian kernels of Silverman's width on a grid."""
    column = seen.column(j)
    low, high = np.quantile(column, [0.001, 0.999])
    grid = np.linspace(low, high, points) if high > low else np.array([low, low + 1.0])
    spread = np.subtract(*np.quantile(column, [0.75, 0.25])) / 1.34
    width = max(0.9 * float(spread) * len(column) ** -0.2, float(grid[1] - grid[0]))
    cells = np.clip(np.rint((column - grid[0]) / (grid[1] - grid[0])), 0, len(grid) - 1).astype(np.intp)
    reach = np.arange(-len(grid) + 1, len(grid)) * (grid[1] - grid[0]) / width
    kernel = np.exp(-(reach**2) / 2)
    middle = slice(len(grid) - 1, 2 * len(grid) - 1)
    ratio = log_ratio(*(np.convolve(np.bincount(cells[m], minlength=len(grid)), kernel)[middle] for m in (second, ~second)))
    return Candidate(f"kernel likelihood ratio of {feature_name(j)}", lambda x: np.interp(x.column(j), grid, ratio))


def by_classifier(seen: Encoded, second: NDArray[np.bool_], rounds: int = 30) -> Candidate:
    """Logistic regression on all features, their magnitudes and the kinds, by Newton's method (after Bichsel et al. 2021, DP-Sniper)."""
    prepare = _prepared(seen)
    x = prepare(seen)
    y = second.astype(np.float64)
    weights = np.zeros(x.shape[1])
    penalty = np.full(x.shape[1], 1e-3 * len(x) / max(1, x.shape[1]))
    penalty[0] = 1e-9
    for _ in range(rounds):
        p = _logistic(x @ weights)
        gradient = x.T @ (p - y) + penalty * weights
        curvature = (x * (p * (1 - p))[:, None]).T @ x + np.diag(penalty)
        step = np.linalg.solve(curvature, gradient)
        weights = weights - step
        if np.abs(step).max() < 1e-6:
            break
    return Candidate("logistic regression", lambda new: prepare(new) @ weights)


def _logistic(x: Floats) -> Floats:
    return 1 / (1 + np.exp(-np.clip(x, -500, 500)))


def _prepared(seen: Encoded) -> Callable[[Encoded], Floats]:
    """Features on one scale, fixed by the samples that are learnt from: ranks are not moved by an output of 1e300."""
    width, kept = seen.features.shape[1], different(seen)
    low, middle, high = np.quantile(seen.features[:, kept], [0.05, 0.5, 0.95], axis=0)
    spread = np.where(high > low, high - low, 1.0)
    kinds = np.unique(seen.kind)[:20]

    def prepare(x: Encoded) -> Floats:
        scaled = np.clip((x.columns(width)[:, kept] - middle) / spread, -5.0, 5.0)
        indicators = (x.kind[:, None] == kinds[None, 1:]).astype(np.float64)
        return np.hstack([np.ones((len(x), 1)), scaled, np.abs(scaled), indicators])

    return prepare


def stacked(first: Encoded, second: Encoded) -> tuple[Encoded, NDArray[np.bool_]]:
    """The samples of two inputs, encoded together, in one; and which of them are the second's."""
    both = Encoded(
        np.concatenate([first.kind, second.kind]),
        np.vstack([first.features, second.features]),
        np.concatenate([first.atom, second.atom]),
        {**first.names, **second.names},
    )
    return both, np.repeat([False, True], [len(first), len(second)])


def encode_both(first: Outputs, second: Outputs) -> tuple[Encoded, Encoded]:
    """Outputs on two inputs, with the same number of features on both sides.

    >>> one, two = encode_both([1, 2], [2, None])
    >>> int(one.atom[1]) == int(two.atom[0]), one.features.shape == two.features.shape
    (True, True)
    """
    arrays = [part for part in (first, second) if isinstance(part, np.ndarray) and part.dtype.kind in "biuf"]
    alike = len(arrays) == 2 and arrays[0].shape[1:] == arrays[1].shape[1:]
    together = encode(np.concatenate(arrays) if alike else [*first, *second])
    cut = len(first)
    return together.take(slice(None, cut)), together.take(slice(cut, None))


def outcomes(function: Callable[[Any], object], data: object) -> Callable[[int], list[object]]:
    """A sampler of n independent outputs of a function on one data set; an exception is an output like any other.

    >>> outcomes(lambda data: 1 / data, 0)(2)
    [ZeroDivisionError('division by zero'), ZeroDivisionError('division by zero')]
    """

    def one() -> object:
        try:
            return function(data)
        except (Exception, SystemExit) as error:  # whether a mechanism raises is part of what it says, and exit(0) is no verdict
            return error

    return lambda n: [one() for _ in range(n)]

