"""A choice among finitely many candidates, exactly in proportion to their weights.

`choose` takes the logarithms of the weights, as the exponential mechanism (McSherry and Talwar 2007) needs them: candidate i has a
probability proportional to exp(w_i), where w_i is the exact value of the number given. `choose_weighted` takes the weights themselves.

>>> choose([0, -1000, float("-inf")])  # the second has probability 1e-434, the third none
0
>>> choose_weighted([0, 3, 0], size=4).tolist()
[1, 1, 1, 1]

Weights may come from private data. They appear in no error message, no table made from them is kept, and every candidate's boundary is
looked at in the same way. `choose` works with boundaries in floating point, each with its proven error, and computes in integers only
for a uniform word that falls within that error of one: a chance of about 1e-12 for each candidate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from tacit.errors import ParameterError
from tacit.noise.enclosed import CUTOFF, Rationals, Table, Weights, exp_bounds, rough_exp
from tacit.noise.source import WORD, Integers, Size, shape_of, shaped
from tacit.parameters import Number, number, positive

Weighting = Sequence[Number] | NDArray[Any]
BLOCK = 1 << 10  # terms summed in a row before the sums are summed
MANY = 1 << 13  # draws for which a table's index is worth making
FORM = "must be a sequence of numbers (int, float or Fraction) or a one-dimensional array of them, not empty"


@dataclass(frozen=True)
class Exponentials:
    """Weights exp(-x_i), the x_i rational and the least of them 0; they are worked out only if a draw must be settled."""

    exponents: Callable[[], list[Fraction]]

    def bounds(self, bits: int) -> tuple[list[int], list[int]]:
        low, high = zip(*(exp_bounds(x, bits) for x in self.exponents()), strict=True)
        return list(low), list(high)


@overload
def choose(log_weights: Weighting, size: None = None, *, multiplier: Number = 1) -> int: ...
@overload
def choose(log_weights: Weighting, size: Size, *, multiplier: Number = 1) -> NDArray[Any]: ...
def choose(log_weights: Weighting, size: Size | None = None, *, multiplier: Number = 1) -> int | NDArray[Any]:
    """The index i with probability proportional to exp(multiplier * log_weights[i]); minus infinity is a weight of zero.

    The product is exact: integer scores with a `Fraction` as multiplier lose nothing and are fast as an array of int64. NaN, plus
    infinity and weights that are all zero are refused, so scores from private data must be made finite before.

    >>> choose(np.array([3, 1000, 5]), multiplier=Fraction(1, 2))
    1
    """
    factor = Fraction(positive("multiplier", multiplier))
    shape_of(size)  # refuse a bad size before any work
    places, rough, exact = _exponents(log_weights, factor)
    table = _rough_table(rough, Exponentials(exact))

    def bulk(count: int) -> Integers:
        return places[table.draw(count)]

    return shaped(bulk, size)


def _exponents(
    log_weights: Weighting, factor: Fraction
) -> tuple[NDArray[np.int64], NDArray[np.float64], Callable[[], list[Fraction]]]:
    """Where the weights are positive, and there factor * (greatest - w_i): within 4 roundings, and exactly on demand."""
    array = log_weights if isinstance(log_weights, np.ndarray) else None
    if array is not None and array.dtype.kind == "f" and array.dtype.itemsize <= 8:
        values = np.asarray(array, dtype=np.float64)
        _check_form("log_weights", values.shape)
        if np.isnan(values).any() or (values == math.inf).any():
            raise ParameterError("log_weights must be numbers below infinity, not NaN; make scores finite first")
        places = np.flatnonzero(values > -math.inf)
        kept = values[places]
        if not len(kept):
            raise ParameterError("log_weights must not all be minus infinity: give one candidate a positive weight")
        highest = float(kept.max())
        with np.errstate(over="ignore"):
            rough = np.minimum((highest - kept) * float(factor), CUTOFF)
        return places, rough, lambda: [(Fraction(highest) - Fraction(w)) * factor for w in kept.tolist()]
    if array is not None and array.dtype.kind in "iu":
        _check_form("log_weights", array.shape)
        most = int(array.max())
        # The differences lie between 0 and 2^64 - 1, so arithmetic modulo 2^64 gets them right, whatever overflows on the way.
        gap = (np.uint64(most % (1 << WORD)) - array.astype(np.uint64)).astype(np.float64)
        return np.arange(len(array)), np.minimum(gap * float(factor), CUTOFF), lambda: [(most - w) * factor for w in array.tolist()]
    numbers = _numbers("log_weights", log_weights)
    if any(w == math.inf for w in numbers):
        raise ParameterError("log_weights must be numbers below infinity, not NaN; make scores finite first")
    where = [i for i, w in enumerate(numbers) if w != -math.inf]
    if not where:
        raise ParameterError("log_weights must not all be minus infinity: give one candidate a positive weight")
    finite = [Fraction(numbers[i]) for i in where]
    top = max(finite)
    exponents = [(top - w) * factor for w in finite]
    return np.array(where), np.array([float(min(x, Fraction(CUTOFF))) for x in exponents], dtype=np.float64), lambda: exponents


def _rough_table(rough: NDArray[np.float64], weights: Weights) -> Table:
    """The table of exp(-x_i) from exponents in floating point.

    Errors, relative to the total, which is at least 1/2: an exponent below 64 is off by at most 64 * 4 roundings of 2^-53, hence a weight
    by 2^-45, and by 2^-46 from `rough_exp`; beyond 64 a weight is wrong by less than 2^-92. A sum of nonnegative terms is off by
    one rounding for each addition on the longest path, here a row of BLOCK and one of all rows. A quotient of two such sums is off
    by twice that and one more rounding.
    """
    count = len(rough)
    rows = -(-count // BLOCK)
    padded = np.zeros(rows * BLOCK)
    padded[:count] = rough_exp(rough)
    within = np.cumsum(padded.reshape(rows, BLOCK), axis=1)
    before = np.concatenate([[0.0], np.cumsum(within[:, -1])])
    sums = (within + before[:-1, None]).ravel()[: count - 1] / before[-1]
    error = 2.0**-42 + (BLOCK + rows + 4) * 2.0**-51
    first = (np.maximum(sums - error, 0) * 2.0**WORD).astype(np.uint64)
    beyond = sums + error
    last = (np.minimum(beyond, 1 - 2.0**-53) * 2.0**WORD).astype(np.uint64)
    last[beyond >= 1] = np.uint64(2**WORD - 1)
    return Table(weights, np.minimum.accumulate(first[::-1])[::-1], np.maximum.accumulate(last), indexed=False)


@overload
def choose_weighted(weights: Weighting, size: None = None) -> int: ...
@overload
def choose_weighted(weights: Weighting, size: Size) -> NDArray[Any]: ...
def choose_weighted(weights: Weighting, size: Size | None = None) -> int | NDArray[Any]:
    """The index i with probability weights[i] / sum(weights), for weights >= 0 that are not all zero; floats count with their exact value.

    >>> 2 in choose_weighted([Fraction(1, 3), Fraction(2, 3), 0], size=(2, 5))
    False
    """
    shape = shape_of(size)
    numbers = _numbers("weights", weights)
    if any(not 0 <= w < math.inf for w in numbers):
        raise ParameterError("weights must be zero or more and finite")
    places = np.array([i for i, w in enumerate(numbers) if w > 0], dtype=np.int64)
    if not len(places):
        raise ParameterError("weights must not all be zero: give one candidate a positive weight")
    exact = [Fraction(numbers[i]) for i in places.tolist()]
    common = math.lcm(*(w.denominator for w in exact))
    whole = Rationals(tuple(w.numerator * (common // w.denominator) for w in exact))
    table = Table.of(whole, indexed=math.prod(shape) >= MANY)

    def bulk(count: int) -> Integers:
        return places[table.draw(count)]

    return shaped(bulk, size)


def _numbers(name: str, values: Weighting) -> list[Number]:
    """The entries as Python numbers, without any of them in an error."""
    if isinstance(values, np.ndarray):
        _check_form(name, values.shape)
        values = list(values)
    elif isinstance(values, str | bytes) or not isinstance(values, Sequence) or not len(values):
        raise ParameterError(f"{name} {FORM}")
    return [number(f"each of {name}", value) for value in values]


def _check_form(name: str, shape: tuple[int, ...]) -> None:
    if len(shape) != 1 or not shape[0]:
        raise ParameterError(f"{name} {FORM}")
