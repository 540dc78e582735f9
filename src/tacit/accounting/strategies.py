"""Strategies for running sums: trees, square roots, bands and buffers, how far one record can move them, and how well they answer.

They serve streams, training runs with correlated noise, and ranges of cells: every room takes its coefficients, blocks and
sensitivities from here. A record takes part once, or several times at least so far apart, or in a cycle (`fixed`).

A run adds up what its steps see. Instead of fresh noise in every step it may add row t of C^-1 Z, Z independent Gaussian noise and C a
lower triangular *strategy*: everything published is then a function of C X + Z, one Gaussian mechanism, whose sensitivity is how far the
steps that one record takes part in can move C X. The noise in a running sum is A C^-1 Z, A the matrix of ones below the diagonal.

>>> from tacit.accounting.strategies import SquareRoot, Tree, max_error, sensitivity
>>> round(max_error(Tree(1000)), 4), round(max_error(SquareRoot(1000)), 4), round(max_error(Toeplitz([1], 1000)), 4)
(9.4868, 3.265, 31.6228)
>>> round(sensitivity(SquareRoot(1000), participations=4, separation=250), 4)
4.3844

Guarantee
    Statement: with X_t of norm at most 1 in each step that a record takes part in and independent Gaussian noise of deviation sigma in
    every entry of Z, the whole sequence costs at most one Gaussian of noise multiplier sigma / `sensitivity`.
    Conditions: a record takes part in at most `participations` steps, any two at least `separation` apart (`fixed`: exactly that far, one
    after the other), and which ones does not depend on what was published. Gradients may depend on everything published before.
    Proved in: Denisov, McMahan, Rush, Smith, Thakurta 2022, Theorem 2.1 (adaptive inputs cost no more when C is lower triangular); the
    sensitivities here are proved at each function. Contributions are vectors, so cross terms count by their absolute value; for strategies
    without negative entries this is exact (all contributions equal), and all of these are of that kind unless coefficients say otherwise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import ParameterError
from tacit.parameters import Number, count, nonnegative, number, positive

Array = NDArray[np.float64]
LONGEST = 10**7  # steps; beyond, the sums below are no longer a matter of seconds


def _steps(value: object) -> int:
    steps = count("steps", value)
    if steps > LONGEST:
        raise ParameterError(f"steps must be at most {LONGEST}, not {steps}; restart the noise after some steps and compose")
    return steps


# --- coefficients and blocks ------------------------------------------------------------------------------------------------------


def square_root_coefficients(n: int) -> Array:
    """The first n coefficients of (1 - z)^(-1/2): binom(2k, k) / 4^k.

    >>> square_root_coefficients(4).tolist()
    [1.0, 0.5, 0.375, 0.3125]
    """
    k = np.arange(1, n, dtype=np.float64)
    return np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])


def whole_square_root(n: int, unit: int) -> NDArray[np.int64]:
    """The same in whole multiples of 1 / `unit`: what is measured with them has a sensitivity in exact integers.

    >>> whole_square_root(4, 16).tolist()
    [16, 8, 6, 5]
    """
    return np.rint(square_root_coefficients(n) * unit).astype(np.int64)


def tree_levels(n: int) -> int:
    """In how many blocks of a binary tree over n steps one of them is at most: floor(lg n) + 1.

    >>> [tree_levels(n) for n in (1, 2, 1000, 1024)]
    [1, 2, 10, 11]
    """
    return count("n", n).bit_length()


def tree_block(t: int) -> int:
    """How many steps the block has that step t completes: the largest power of two that divides t.

    >>> [tree_block(t) for t in (1, 2, 3, 4, 12)]
    [1, 2, 1, 4, 4]
    """
    return t & -t


def tree_blocks(t: int) -> list[tuple[int, int]]:
    """The blocks (first, last) that make up the steps 1..t, as many as t has ones in binary.

    >>> tree_blocks(13)
    [(1, 8), (9, 12), (13, 13)]
    """
    found, end = [], t
    while end:
        size = tree_block(end)
        found.append((end - size + 1, end))
        end -= size
    return found[::-1]


class Strategy:
    """The matrix C of a run of `steps` steps, with ones on its diagonal."""

    steps: int

    @property
    def length(self) -> int:
        """The number of steps."""
        return self.steps

    def prefix(self, steps: int) -> Strategy:
        """The strategy of the first `steps` steps alone: the upper left corner of the matrix."""
        raise NotImplementedError


@dataclass(frozen=True)
class Tree(Strategy):
    """Binary tree aggregation: a block of 2^i steps gets its noise when it is complete, and a running sum adds the blocks it is made of.

    Step t (from 1) completes the block of its last 2^i steps, 2^i the largest power of two dividing t, so C is square with one block a row.
    A step lies in at most floor(log2 n) + 1 blocks (ceil(log2 n), which is also in print, forgets the root when n is a power of two).
    With `reduced` the right-hand blocks are measured as well, at the same sensitivity, and each block's noise is averaged with that of its
    two halves (Honaker 2015, from below): about half the variance.

    >>> sensitivity(Tree(1024)) ** 2, sensitivity(Tree(1)) ** 2
    (11.0..., 1.0...)
    """

    steps: int
    reduced: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", _steps(self.steps))
        object.__setattr__(self, "reduced", bool(self.reduced))

    def prefix(self, steps: int) -> Tree:
        return Tree(steps, self.reduced)

    @property
    def levels(self) -> int:
        """The sizes of blocks: floor(log2 n) + 1."""
        return tree_levels(self.steps)

    def block_variances(self) -> Array:
        """The variance of the noise that a block of 2^i steps brings into a running sum, i = 0, 1, ..."""
        found = np.ones(self.levels)
        if self.reduced:
            for i in range(1, self.levels):
                found[i] = 1 / (1 + 1 / (2 * found[i - 1]))  # its own noise, and the sum of its halves', weighted by precision
        return found


@dataclass(frozen=True)
class Toeplitz(Strategy):
    """Every column of C is the first, moved down: `coefficients`, beginning with 1, and zeros below. Few coefficients make C banded.

    >>> Toeplitz([1, 0.5], 4)
    Toeplitz(coefficients=(1, 0.5), steps=4)
    """

    coefficients: tuple[Number, ...]
    steps: int

    def __post_init__(self) -> None:
        steps = _steps(self.steps)
        values = tuple(number("coefficients", value) for value in self.coefficients)
        if not values or values[0] != 1:
            raise ParameterError("coefficients must begin with 1; divide all of them, and the noise multiplier, by the first")
        if not all(-1e100 < value < 1e100 for value in values):
            raise ParameterError("coefficients must be finite and below 1e100")
        if len(values) > steps:
            raise ParameterError(f"coefficients must be at most steps ({steps}) in number, not {len(values)}")
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "coefficients", values)

    def prefix(self, steps: int) -> Toeplitz:
        return Toeplitz(self.coefficients[:steps], steps)


@dataclass(frozen=True)
class SquareRoot(Strategy):
    """C is the square root of A: coefficients of (1 - z)^(-1/2) (Fichtenberger, Henzinger, Upadhyay 2023). Needs all earlier noise.

    >>> coefficients(SquareRoot(6)).tolist()
    [1.0, 0.5, 0.375, 0.3125, 0.2734375, 0.24609375]
    """

    steps: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", _steps(self.steps))

    def prefix(self, steps: int) -> SquareRoot:
        return SquareRoot(steps)


@dataclass(frozen=True)
class Buffered(Strategy):
    """Toeplitz with coefficients 1, then sum_j scales_j decays_j^(m-1): noise from one buffer for each j (Dvijotham et al. 2024).

    >>> coefficients(Buffered([0.5], [0.5], 4)).tolist()
    [1.0, 0.5, 0.25, 0.125]
    """

    scales: tuple[Number, ...]
    decays: tuple[Number, ...]
    steps: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", _steps(self.steps))
        object.__setattr__(self, "scales", tuple(nonnegative("scales", value) for value in self.scales))
        object.__setattr__(self, "decays", tuple(nonnegative("decays", value) for value in self.decays))
        if len(self.scales) != len(self.decays):
            raise ParameterError(f"scales and decays must be equally many, not {len(self.scales)} and {len(self.decays)}")
        if not all(value < 1 for value in self.decays):
            raise ParameterError("decays must be below 1: a buffer that never forgets makes no usable strategy")
        if not sum(self.scales) <= 1:
            raise ParameterError(f"scales must add up to at most 1, not {float(sum(self.scales))}, so that the coefficients decrease")

    def prefix(self, steps: int) -> Buffered:
        return Buffered(self.scales, self.decays, steps)


@dataclass(frozen=True)
class Stated(Strategy):
    """Some strategy whose sensitivity under the participation of the event was worked out elsewhere, such as by `matrix_sensitivity`."""

    sensitivity: Number
    steps: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", _steps(self.steps))
        object.__setattr__(self, "sensitivity", positive("sensitivity", self.sensitivity))

    def prefix(self, steps: int) -> Stated:
        return Stated(self.sensitivity, steps)  # a corner of the matrix moves no further than the whole


def coefficients(strategy: Strategy) -> Array:
    """The first column of a Toeplitz strategy, as far as it is not zero."""
    match strategy:
        case Toeplitz():
            return np.array([float(value) for value in strategy.coefficients])
        case SquareRoot():
            return square_root_coefficients(strategy.steps)
        case Buffered():
            powers = _powers(np.array(strategy.decays, dtype=np.float64), strategy.steps - 1)
            return np.concatenate([[1.0], powers @ np.array(strategy.scales, dtype=np.float64)])
    raise ParameterError(f"{type(strategy).__name__} is no Toeplitz strategy")


def inverse_coefficients(strategy: Strategy) -> Array:
    """The first column of C^-1: how the independent noise of earlier steps enters the noise of a step.

    >>> inverse_coefficients(Toeplitz([1, 0.5], 4)).tolist()
    [1.0, -0.5, 0.25, -0.125]
    """
    n = strategy.length
    match strategy:
        case SquareRoot():
            k = np.arange(1, n, dtype=np.float64)
            return np.concatenate([[1.0], np.cumprod((2 * k - 3) / (2 * k))])
        case Buffered():
            # a buffer follows s' = D s + x with x = z - <scales, s>, so s' = (D - 1 scales^T) s + z, which is similar to the symmetric
            # D - v v^T with v = sqrt(scales): its eigenvalues are real and well conditioned
            v = np.sqrt(np.array(strategy.scales, dtype=np.float64))
            values, vectors = np.linalg.eigh(np.diag(np.array(strategy.decays, dtype=np.float64)) - np.outer(v, v))
            return np.concatenate([[1.0], -_powers(values, n - 1) @ (vectors.T @ v) ** 2])
    from scipy.signal import lfilter

    impulse = np.zeros(n)
    impulse[0] = 1.0
    return np.asarray(lfilter([1.0], coefficients(strategy), impulse), dtype=np.float64)


def _powers(base: Array, rows: int) -> Array:
    return np.asarray(base[None, :] ** np.arange(rows, dtype=np.float64)[:, None])


# --- sensitivity ------------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def sensitivity(strategy: Strategy, participations: int = 1, separation: int = 1, fixed: bool = False) -> float:
    """How far one record can move C X, at most, when each of its contributions has norm at most 1; rounded up.

    >>> round(sensitivity(Toeplitz([1, 0.75], 10), participations=2, separation=2), 6)  # columns that do not meet
    1.767767
    """
    n = strategy.length
    separation = count("separation", separation)
    times = min(count("participations", participations), -(-n // separation))
    if isinstance(strategy, Stated):
        return float(strategy.sensitivity)
    if isinstance(strategy, Tree):
        square = _tree(strategy, times, separation, fixed)
    else:
        square = _toeplitz(coefficients(strategy), n, times, separation)
    return math.sqrt(square) * (1 + (n + 64) * 2.0**-52)  # each of at most n sums of products was rounded


def _toeplitz(column: Array, n: int, times: int, separation: int) -> float:
    """The square. Exact where the columns do not meet, or the coefficients are non-negative and do not increase; an upper bound otherwise.

    Columns further apart than the band are orthogonal and their norms do not increase with the index, so the earliest indices are worst.
    Otherwise let c be the least non-increasing sequence above the |coefficients|. Columns i < j then have an inner product of at most
    sum_{m < n - j} c_m c_{m+j-i}, which decreases in j and in j - i. The indices 0, b, 2b, ... are the least and the closest together of
    all admissible ones, so no other choice has larger terms (Kalinin and Lampert 2024, Theorem 2).
    """
    if len(column) <= separation or times == 1:
        return math.fsum(float(np.sum(column[: n - j * separation] ** 2)) for j in range(times))
    envelope = np.maximum.accumulate(np.abs(column)[::-1])[::-1]
    total = np.zeros(n)
    for j in range(times):
        piece = envelope[: n - j * separation]
        total[j * separation : j * separation + len(piece)] += piece
    return float(np.sum(total**2))


def _tree(tree: Tree, times: int, separation: int, fixed: bool) -> float:
    """The square: the sum over all blocks of (how often the record is in it) squared.

    One participation, or a fixed distance: the largest over all first steps, exactly. Otherwise a bound for each size w of blocks: a block
    holds at most min(k, ceil(w / b)) participations, all blocks of a size together at most k of them and at most as many as there are
    blocks; and a sum of squares is largest when the blocks are filled one after the other.
    """
    n = tree.steps
    if times == 1:
        return float(tree.levels)  # the first step is in the blocks of 1, 2, 4, ... steps that begin with it
    if fixed:
        return _tree_fixed(tree, times, separation)
    total = 0
    for level in range(tree.levels):
        width = 1 << level
        blocks = n // width if tree.reduced else (n // width + 1) // 2
        most = min(times, -(-width // separation))
        full = min(times // most, blocks)
        rest = times - full * most if full < blocks else 0
        total += full * most**2 + rest**2
    return float(total)


def _tree_fixed(tree: Tree, times: int, separation: int) -> float:
    n = tree.steps
    first = np.arange(separation if times * separation >= n else n)
    total = np.zeros(len(first), dtype=np.int64)
    for level in range(tree.levels):
        previous, run = np.full(len(first), -1), np.zeros(len(first), dtype=np.int64)
        for j in range(times):
            step = first + j * separation
            block = step >> level
            counted = (((block + 1) << level) <= n) & (step < n)
            if not tree.reduced:
                counted &= block % 2 == 0  # the right-hand ones are never completed by a step of their own
            run = np.where(block == previous, run, 0) + counted
            total += np.where(counted, 2 * run - 1, 0)  # the next odd number makes the next square
            previous = block
    return float(total.max())


def matrix_sensitivity(matrix: ArrayLike, participations: int = 1, separation: int = 1, fixed: bool = False) -> float:
    """The same for any matrix C, given in full: exact for one participation, a fixed distance, or columns that do not meet; else a bound.

    The bound gives each column i the weight max_P sum_{j in P} |<C_i, C_j>| over admissible P that contain i, and takes the heaviest
    admissible set: no set has more. Both by dynamic programming (Choquette-Choo et al. 2023).

    >>> round(matrix_sensitivity([[1, 0, 0], [1, 1, 0], [0, 1, 1]], participations=2, separation=2), 6)
    1.732051
    """
    given = np.array(matrix, dtype=np.float64)
    if given.ndim != 2 or not given.size or not np.isfinite(given).all():
        raise ParameterError("matrix must be a matrix of finite numbers, not empty")
    n = int(given.shape[1])
    separation = count("separation", separation)
    times = min(count("participations", participations), -(-n // separation))
    inner = np.abs(given.T @ given)
    if times == 1:
        square = float(inner.diagonal().max())
    elif fixed:
        square = max(float(inner[np.ix_(at, at)].sum()) for first in range(n) if len(at := np.arange(first, n, separation)[:times]))
    else:
        distance = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
        others = _heaviest(np.where(distance >= separation, inner, 0.0), times - 1, separation)
        square = float(_heaviest((inner.diagonal() + others)[None, :], times, separation)[0])
    return math.sqrt(square) * (1 + 4 * (n + len(given) + 64) * 2.0**-52)


def _heaviest(weights: Array, times: int, separation: int) -> Array:
    """For each row of non-negative weights the largest sum of at most `times` of them whose places are `separation` apart."""
    best = np.zeros_like(weights)  # best[:, i]: among places up to i
    for _ in range(times):
        before = np.zeros_like(weights)
        before[:, separation:] = best[:, :-separation] if separation < weights.shape[1] else 0.0
        best = np.maximum.accumulate(weights + before, axis=1)
    return np.asarray(best[:, -1])


# --- error ------------------------------------------------------------------------------------------------------------------------


def sum_deviations(strategy: Strategy) -> Array:
    """The standard deviation of the noise in each running sum, for independent noise of deviation 1: the row norms of A C^-1.

    >>> sum_deviations(Toeplitz([1], 4)).round(4).tolist()
    [1.0, 1.4142, 1.7321, 2.0]
    """
    if isinstance(strategy, Stated):
        raise ParameterError("the error of a Stated strategy is not known: only its sensitivity is")
    if isinstance(strategy, Tree):
        times = np.arange(1, strategy.steps + 1)
        bits = (times[:, None] >> np.arange(strategy.levels)) & 1
        return np.asarray(np.sqrt(bits @ strategy.block_variances()))
    return np.asarray(np.sqrt(np.cumsum(np.cumsum(inverse_coefficients(strategy)) ** 2)))


def max_error(strategy: Strategy, participations: int = 1, separation: int = 1, fixed: bool = False) -> float:
    """The largest deviation of a running sum when the whole run costs Gaussian(1): sensitivity times the largest row norm.

    >>> round(max_error(SquareRoot(7)), 4), round(max_error(Tree(7)), 4)
    (1.6745, 3.0)
    """
    return sensitivity(strategy, participations, separation, fixed) * float(sum_deviations(strategy).max())


def mean_error(strategy: Strategy, participations: int = 1, separation: int = 1, fixed: bool = False) -> float:
    """The root of the mean over the running sums of the squared deviation, when the whole run costs Gaussian(1).

    >>> round(mean_error(Toeplitz([1], 100)), 4)
    7.1063
    """
    return sensitivity(strategy, participations, separation, fixed) * float(np.sqrt(np.mean(sum_deviations(strategy) ** 2)))


# --- running totals over cells ----------------------------------------------------------------------------------------------------

#: Units of the whole-numbered matrix in one row: fine enough that rounding its entries costs nothing.
FINE = 1 << 16


@dataclass(frozen=True)
class RunningTotals:
    """Counts on a line of `cells` cells, a power of two, measured as C x + noise for a public whole-numbered matrix C.

    Running totals are R (C x + noise). For Gaussian noise C is the square root of the running-total matrix: its columns have squared
    length 1 + log(n)/pi about, and so have R's rows (Henzinger, Kalemaj, Upadhyay 2023). For Laplace noise it is two levels of a tree.

    >>> totals = RunningTotals(4)
    >>> bool(np.allclose(totals.decoder("gaussian") @ totals.encoder("gaussian"), np.tril(np.ones((4, 4)))))
    True
    """

    cells: int

    def encoder(self, law: str) -> NDArray[np.int64]:
        """C: what one row in each cell adds to the released numbers."""
        return _encoder(self.cells, law)

    def decoder(self, law: str) -> Array:
        """R: running totals from released numbers, R C = lower triangle of ones."""
        return _decoder(self.cells, law)

    def square(self) -> int:
        """The greatest squared length of a column of C for Gaussian noise."""
        return _square(self.cells)

    def absolute(self) -> int:
        """The greatest absolute sum of a column of C for Laplace noise."""
        return 1 if _blocks(self.cells) == 1 else 2

    def error(self, law: str) -> float:
        """The typical deviation of a running total for noise of deviation 1 on each released number."""
        return _error(self.cells, law)


@lru_cache(maxsize=8)
def _encoder(cells: int, law: str) -> NDArray[np.int64]:
    if law == "laplace":
        blocks = _blocks(cells)
        leaves = np.eye(cells, dtype=np.int64)
        upper = np.kron(np.eye(blocks, dtype=np.int64), np.ones(cells // blocks, dtype=np.int64))
        return leaves if blocks == 1 else np.vstack([upper, leaves])
    whole = whole_square_root(cells, FINE)
    places = np.arange(cells)
    shift = places[:, None] - places[None, :]
    return np.where(shift >= 0, whole[np.maximum(shift, 0)], 0)


@lru_cache(maxsize=32)
def _square(cells: int) -> int:
    # Entries are at most 2^16 and there are at most 2^10 of them, so the sums are exact in 64 bits.
    return int((_encoder(cells, "gaussian") ** 2).sum(axis=0).max())


@lru_cache(maxsize=32)
def _error(cells: int, law: str) -> float:
    return float(np.sqrt((_decoder(cells, law) ** 2).sum(axis=1).mean()))


def _blocks(cells: int) -> int:
    """How many blocks the upper level of the tree has; one level where there are few cells."""
    return 1 if cells <= 16 else 2 ** ((cells.bit_length() - 1) // 2)


@lru_cache(maxsize=8)
def _decoder(cells: int, law: str) -> Array:
    from scipy.linalg import solve_triangular

    sums = np.tril(np.ones((cells, cells)))
    if law == "laplace":
        blocks = _blocks(cells)
        if blocks == 1:
            return sums
        inside = cells // blocks
        # Least squares: C'C is one plus a block of ones, whose inverse is one minus a block of 1 / (inside + 1).
        inverse = np.eye(cells) - np.kron(np.eye(blocks), np.ones((inside, inside))) / (inside + 1)
        found: Array = sums @ (inverse @ _encoder(cells, law).T)
        return found
    # R C = sums with C lower triangular: C' R' = sums'.
    solved: Array = solve_triangular(_encoder(cells, law).astype(float).T, sums.T, lower=False).T
    return solved
