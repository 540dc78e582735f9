"""Linear reconstruction: too many counts that are too accurate give the data away.

Each person has a secret bit. Counts over random groups are linear equations in the bits, and with error below a small
multiple of the root of n they can be solved (Dinur and Nissim 2003; the linear program: Dwork, McSherry and Talwar
2007). The book's "up to O(sqrt n)" must be read as at most c sqrt(n) with c small: `expected_recovery` says how small.

>>> truth = [1, 0, 0, 1, 1, 0, 1, 0]
>>> groups = random_subsets(8, 40, seed=1)
>>> recovered(least_squares(groups, groups @ truth), truth), recovered(linear_program(groups, groups @ truth), truth)
(1.0, 1.0)
>>> questions_for(128)  # n ln^2 n
3013
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from tacit.accounting import ParameterError
from tacit.audit.demonstrations import Demonstration, Level, draws, noisy_counts, numbered
from tacit.audit.experiment import Generator, generator
from tacit.audit.rates import most_accuracy
from tacit.parameters import count, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Matrix = NDArray[np.float64]
Bits = NDArray[np.int64]


def random_subsets(people: int, questions: int, *, seed: int | Generator | None = None) -> Matrix:
    """Random groups, one a row: each person is in each with probability one half."""
    return generator(seed).integers(2, size=(count("questions", questions), count("people", people))).astype(np.float64)


def questions_for(people: int) -> int:
    """n ln^2 n, the number of questions of the theorem.

    >>> questions_for(2)
    1
    """
    n = count("people", people)
    return max(1, round(n * math.log(n) ** 2))


def _system(groups: ArrayLike, answers: ArrayLike) -> tuple[Matrix, Matrix]:
    matrix, right = np.asarray(groups, dtype=np.float64), np.asarray(answers, dtype=np.float64).ravel()
    if matrix.ndim != 2 or len(matrix) != len(right):
        raise ParameterError("groups must be a matrix with one row for each answer")
    return matrix, right


def least_squares(groups: ArrayLike, answers: ArrayLike) -> Bits:
    """The bits nearest to the least-squares solution.

    >>> least_squares([[1, 1], [1, 0]], [1.2, 0.9]).tolist()
    [1, 0]
    """
    matrix, right = _system(groups, answers)
    return _rounded(np.asarray(np.linalg.lstsq(matrix, right, rcond=None)[0], dtype=np.float64))


def linear_program(groups: ArrayLike, answers: ArrayLike, *, norm: str = "sum") -> Bits:
    """The bits nearest to the fractions in [0, 1] that fit the answers best: in the sum of errors, or in the largest one.

    The sum shrugs off a minority of answers that are wildly wrong, which least squares does not; the largest error is Dinur and Nissim's
    own rule, for answers whose error is bounded.

    >>> linear_program([[1, 1], [1, 0], [0, 1]], [1, 1, 500], norm="sum").tolist()
    [1, 1]
    """
    from scipy.optimize import linprog

    if norm not in ("sum", "largest"):
        raise ParameterError(f"norm must be 'sum' or 'largest', not {norm!r}")
    matrix, right = _system(groups, answers)
    m, n = matrix.shape
    slack = np.eye(m) if norm == "sum" else np.ones((m, 1))
    width = slack.shape[1]
    upper = np.block([[matrix, -slack], [-matrix, -slack]])
    cost = np.concatenate([np.zeros(n), np.ones(width)])
    solved = linprog(cost, A_ub=upper, b_ub=np.concatenate([right, -right]), bounds=[(0, 1)] * n + [(0, None)] * width, method="highs")
    if solved.x is None:
        raise ParameterError("the linear program was not solved: answers must be finite")
    return _rounded(solved.x[:n])


def _rounded(values: Matrix) -> Bits:
    return (values > 0.5).astype(np.int64)


def recovered(bits: ArrayLike, truth: ArrayLike) -> float:
    """The share of bits that are right; one half is chance.

    >>> recovered([1, 0, 1, 1], [1, 1, 1, 1])
    0.75
    """
    return float(np.mean(np.asarray(bits) == np.asarray(truth)))


def expected_recovery(people: int, questions: int, deviation: float) -> float:
    """The share that least squares recovers where the errors have this standard deviation, by the normal approximation.

    Random halves give A^T A near m/4 (I + 1 1^T), so an estimate of a bit has variance near 4 s^2 / (m - n) and is rounded wrongly with
    probability Phi(-sqrt(m - n) / (4 s)): to recover all but a few the error may grow as sqrt(m), and with m = n ln^2 n as sqrt(n) ln n.

    >>> round(expected_recovery(128, 3013, math.sqrt(128 / 3)), 3)  # uniform errors within sqrt(n)
    0.98
    """
    n, m, s = count("people", people), count("questions", questions), float(number("deviation", deviation))
    if m <= n or s < 0:
        raise ParameterError(f"questions must exceed people, and deviation be at least 0; not {m} questions about {n} people and {s:g}")
    return 1.0 if s == 0 else float(ndtr(math.sqrt(m - n) / (4 * s)))


# --- shown ------------------------------------------------------------------------------------------------------------------------


def demonstrate(*, quick: bool = False, seed: int | None = 1, epsilons: Sequence[float] = (0.1, 1.0, 4.0)) -> Demonstration:
    """128 people, 3013 counts over random groups: rounded to tens they give all bits away; at epsilon in all they do not.

    A bit moves each count by at most one, so all m of them together by m: Laplace noise of scale m / epsilon.

    >>> demonstrate(quick=True).raw.rate
    1.0
    """
    source = generator(seed)
    n = 48 if quick else 128
    m = questions_for(n)
    groups, truth = random_subsets(n, m, seed=source), source.integers(2, size=n)
    exact = groups @ truth
    rounding = 10 * np.round(exact / 10)
    levels = [_level("counts rounded to tens", None, least_squares(groups, rounding), truth)]
    with draws(seed):
        for epsilon in epsilons:
            answers = noisy_counts(exact.astype(np.int64), epsilon, sensitivity=m)
            levels.append(_level(f"epsilon {epsilon:g} in all", epsilon, least_squares(groups, answers), truth))
        mine = noisy_counts(exact.astype(np.int64), 1)
        # the mistake of charging once for many answers: noise of scale 1 in each, which is epsilon m in all
        levels.insert(1, _level("Laplace noise of scale 1 in each", None, least_squares(groups, mine), truth))
    sizes = [round(n * factor) for factor in ((1.5, 3, 6) if quick else (1.5, 3, 6, 12, 24))]
    shares = [0.05, 0.25, 0.5, 1.0, 2.0, 4.0]
    errors = source.uniform(-1, 1, size=max(*sizes, m))
    wide = random_subsets(n, max(*sizes, m), seed=source)
    grid = [[recovered(least_squares(wide[:k], wide[:k] @ truth + c * math.sqrt(n) * errors[:k]), truth) for c in shares] for k in sizes]
    return Demonstration(
        "reconstruction",
        f"{m} counts over random groups of {n} people, each rounded to tens, give away {100 * levels[0].rate:.0f} % of their secret bits.",
        tuple(levels),
        draw=lambda axis: _picture(axis, sizes, shares, np.array(grid)),
    )


def _level(label: str, epsilon: float | None, bits: Bits, truth: Bits) -> Level:
    permitted = 1.0 if epsilon is None else most_accuracy(epsilon)
    return Level(label, epsilon, int(np.sum(bits == truth)), len(truth), 0.5, permitted)


def _picture(axis: Axes, sizes: Sequence[int], shares: Sequence[float], grid: Matrix) -> None:
    image = axis.imshow(grid, vmin=0.5, vmax=1, cmap="cividis", aspect="auto", origin="lower")
    numbered(axis, 100 * grid, lambda value: value < 80)
    axis.set(xticks=range(len(shares)), yticks=range(len(sizes)), xlabel="error of an answer, at most so many √n", ylabel="answers")
    axis.set_xticklabels([f"{share:g}" for share in shares])
    axis.set_yticklabels([str(size) for size in sizes])
    axis.set_title("% of bits recovered by least squares", fontsize=8)
    axis.figure.colorbar(image, ax=axis, fraction=0.05)
