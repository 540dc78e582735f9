"""Tracing: whether a person is in the data, from nothing but means.

The mean of a small group leans towards its members, a little in every column; over many columns the leaning adds up
(Homer et al. 2008 on genomes). With d columns and n members the best test has power Phi(sqrt(d / n) - z) (Sankararaman,
Obozinski, Jordan and Halperin 2009; Dwork, Smith, Steinke, Ullman and Vadhan 2015), so d must stay well below n, or the
means must be noisy.

>>> population, mean = [0.5, 0.5, 0.5], [0.8, 0.2, 0.7]
>>> bool(homer(mean, population, [1, 0, 1]) > 0 > homer(mean, population, [0, 1, 0]))
True
>>> round(float(inner_product(mean, population, [1, 0, 1])), 3)
0.4
>>> round(power(dimension=1000, members=100, fpr=0.001), 3)
0.529
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from tacit.audit.demonstrations import Demonstration, Level, draws, noisy_counts
from tacit.audit.experiment import Generator, generator
from tacit.audit.models.roc import Roc, roc
from tacit.audit.rates import most_true_positives
from tacit.parameters import count, number, probability
from tacit.pictures import BLUE, GREEN, GREY, ORANGE, RED, SKY

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]
Statistic = Callable[[ArrayLike, ArrayLike, ArrayLike], Floats]


def _three(mean: ArrayLike, population: ArrayLike, person: ArrayLike) -> tuple[Floats, Floats, Floats]:
    q, p, z = (np.asarray(values, dtype=np.float64) for values in (mean, population, person))
    return q, p, z


def homer(mean: ArrayLike, population: ArrayLike, person: ArrayLike) -> Floats:
    """Homer's distance: how much nearer the person is to the released mean than to the population, summed over columns.

    Large says "member". `person` may be one row or many.
    """
    q, p, z = _three(mean, population, person)
    return np.asarray(np.sum(np.abs(z - p) - np.abs(z - q), axis=-1))


def inner_product(mean: ArrayLike, population: ArrayLike, person: ArrayLike) -> Floats:
    """The inner product of the person's and the mean's deviations from the population (Dwork et al. 2015).

    A reference person in place of the population's mean serves as well where that is not known.
    """
    q, p, z = _three(mean, population, person)
    return np.asarray(np.sum((z - p) * (q - p), axis=-1))


def likelihood_ratio(mean: ArrayLike, population: ArrayLike, person: ArrayLike) -> Floats:
    """The log of how much likelier the person's bits are under the released means than under the population (Sankararaman et al. 2009).

    Means are kept within [1/1000, 999/1000], since noise may move them outside.

    >>> float(likelihood_ratio([0.5], [0.5], [1]))
    0.0
    """
    q, p, z = _three(mean, population, person)
    q, p = np.clip(q, 1e-3, 1 - 1e-3), np.clip(p, 1e-3, 1 - 1e-3)
    return np.asarray(np.sum(z * np.log(q / p) + (1 - z) * np.log((1 - q) / (1 - p)), axis=-1))


def separation(population: ArrayLike, members: int, deviation: float = 0.0) -> float:
    """By how many standard deviations members and others differ in the inner product; the mean carries noise of this deviation.

    Of n members with column means p and v = p(1 - p): a member's score has mean sum v / n, another's 0, and a variance of
    sum v (v / n + deviation^2), up to terms of order 1/n. Without noise that is sqrt(d / n) where all columns vary alike, and less
    otherwise (Cauchy and Schwarz); the likelihood ratio, which weighs columns by 1/v, has sqrt(d / n) whatever the population.

    >>> round(separation([0.3] * 400, 100), 9)
    2.0
    """
    p, n, s = np.asarray(population, dtype=np.float64), count("members", members), float(number("deviation", deviation))
    v = p * (1 - p)
    spread = math.sqrt(float(np.sum(v * (v / n + s * s))))
    return float(np.sum(v)) / n / spread if spread > 0 else 0.0


def power(*, dimension: int, members: int, fpr: float) -> float:
    """The true positive rate at this false positive rate from exact means: Phi(sqrt(d / n) + Phi^-1(fpr)).

    >>> round(power(dimension=100, members=100, fpr=0.5), 4)
    0.8413
    """
    apart = math.sqrt(count("dimension", dimension) / count("members", members))
    return float(ndtr(apart + ndtri(float(probability("fpr", fpr)))))


def expected_auc(apart: float) -> float:
    """The area under the curve of two normal laws that are so many deviations apart: Phi(apart / sqrt 2).

    >>> round(expected_auc(1.0), 6)  # of mu = 1 in Gaussian privacy
    0.76025
    """
    return float(ndtr(apart / math.sqrt(2)))


def trace(
    release: Callable[[NDArray[np.int64]], Floats],
    *,
    members: int,
    dimension: int,
    trials: int,
    seed: int | Generator | None = None,
    statistic: Statistic = inner_product,
) -> tuple[Floats, NDArray[np.bool_]]:
    """The game: a fresh group and release each time, and one person, a member or not by a fair coin. The scores, and the coins.

    `release` maps the n by d bits to what is published of their column means. Column frequencies are uniform on [0.1, 0.9], and known.
    """
    source = generator(seed)
    population = source.uniform(0.1, 0.9, size=count("dimension", dimension))
    coins = source.integers(2, size=count("trials", trials)).astype(bool)
    scores = np.empty(len(coins))
    for i, coin in enumerate(coins.tolist()):
        group = (source.random((members, dimension), dtype=np.float32) < population).astype(np.int64)
        other = (source.random(dimension) < population).astype(np.int64)
        scores[i] = statistic(release(group), population, group[0] if coin else other)
    return scores, coins


# --- shown ------------------------------------------------------------------------------------------------------------------------


def demonstrate(*, quick: bool = False, seed: int | None = 1, epsilons: Sequence[float] = (0.1, 1.0, 4.0)) -> Demonstration:
    """The means of 1000 yes-or-no columns over 100 people: whether a given person is one of them.

    Tacit's: all the counts at epsilon in all; another person in place of one moves each by at most one, so d together. The threshold lies
    half way between the two means that the theory gives, so it is fixed before any score is seen.

    >>> demonstrate(quick=True).raw.rate > 0.8
    True
    """
    source = generator(seed)
    d, n, trials = (400, 40, 60) if quick else (1000, 100, 400)
    curves: dict[str, Roc] = {}

    def play(label: str, release: Callable[[NDArray[np.int64]], Floats]) -> int:
        scores, coins = trace(release, members=n, dimension=d, trials=trials, seed=source)
        curves[label] = roc(scores, coins)
        # E[p(1 - p)] for p uniform on [0.1, 0.9] is 0.5 - (0.91 / 3) = 0.19666...
        middle = d * (0.5 - 0.91 / 3) / n / 2
        return int(np.sum((scores > middle) == coins))

    levels = [Level("exact means", None, play("exact means", lambda group: group.mean(axis=0)), trials, 0.5)]
    with draws(seed):
        for epsilon in epsilons:

            def noisy(group: NDArray[np.int64], price: float = epsilon) -> Floats:
                return noisy_counts(group.sum(axis=0), price, sensitivity=d) / n

            hits = play(f"ε = {epsilon:g}", noisy)
            levels.append(Level.coin(epsilon, hits, trials, " in all"))
    return Demonstration(
        "tracing",
        f"From the means of {d} columns over {n} people, a member is told from another person {100 * levels[0].rate:.0f} % of the time.",
        tuple(levels),
        draw=lambda axis: _picture(axis, curves, d, n, epsilons),
        notes=(f"theory: members and others lie {math.sqrt(d / n):.2f} deviations apart; area {expected_auc(math.sqrt(d / n)):.4f}",),
    )


def _picture(axis: Axes, curves: dict[str, Roc], d: int, n: int, epsilons: Sequence[float]) -> None:
    for (label, curve), colour in zip(curves.items(), (RED, SKY, BLUE, GREEN, ORANGE), strict=False):
        axis.step(np.append(0, curve.fpr), np.append(0, curve.tpr), where="post", color=colour, lw=1.6, label=label)
    rates = np.linspace(0, 1, 200)
    theory = [power(dimension=d, members=n, fpr=rate) for rate in rates.tolist()]
    axis.plot(rates, theory, color=RED, lw=1, ls="--", label="theory, exact means")
    axis.plot(rates, [most_true_positives(rate, 1.0) for rate in rates.tolist()], color="black", lw=1.4, label="most that ε = 1 permits")
    axis.plot(rates, rates, color=GREY, lw=0.8, ls=":")
    axis.set(xlim=(0, 1), ylim=(0, 1.01), xlabel="false positive rate", ylabel="true positive rate")
    axis.legend(fontsize=7, frameon=False, loc="lower right")
