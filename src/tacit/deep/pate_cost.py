"""What noisy votes cost on the very votes that were cast: a private figure, and how to publish it.

Where teachers agree, the noise hardly ever changes the winner, and an answer costs far less than its worst case. The saving is real, but
the figure depends on the data. It is returned here as a private number, or released with noise of its smooth sensitivity, at a price.

>>> votes = [[250, 0, 0, 0, 0, 0, 0, 0, 0, 0]] * 100
>>> round(dependent_epsilon(votes, gamma=0.1, delta=1e-5), 4), round(independent_epsilon(100, gamma=0.1, delta=1e-5), 4)
(0.2634, 5.3026)
>>> told = publish_cost(votes, LaplaceLaw(gamma=0.1), teachers=250, delta=1e-5, order=20, epsilon=1.0)
>>> told.event, told.epsilon < 5.3026
(PureDP(epsilon=1.0), True)

**The moment.** If the winner fails to be the true one with probability at most q, the log moment of order lambda of one answer is at most
log((1 - q)((1 - q)/(1 - e^gamma q))^lambda + q e^(gamma lambda)), *provided* q <= 1/(e^gamma + 1) (Papernot et al. 2017, Theorem 3; the
textbook's (7.10) leaves the condition out, and its 2 lambda gamma in (7.12) belongs to another noise scale). Why the condition: with
r = (1 - q)/(1 - e^gamma q), the derivative in q is at least e^(gamma lambda) - r^lambda, and r <= e^gamma exactly there; so the bound grows
with q, and an upper bound on q may stand for q.

**The release.** A person moves one vote of each question, so every gap between two sorted counts moves by at most 2. Let hi_t and lo_t be
the total moment with all gaps made smaller and larger by 2t. Data sets within t changes lie between them, so a change there is at
most A_t = max(hi_(t+1) - lo_t, hi_t - lo_(t+1)), and A_t(D) <= A_(t+1)(D') for neighbours: what the ladder of
`tacit.mechanisms.smooth_sensitivity` asks. Moments are tabulated as whole granules, nondecreasing in q, so the inequality holds in the
machine as on paper. The rung itself moves by at most one and is released with discrete Laplace noise, so that an upper bound can be told.
Gaussian votes are released in the same way: `tacit.deep.pate_gaussian`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import Event, ParameterError, PureDP
from tacit.mechanisms import HeavyTail, Ladder, ladder
from tacit.noise import discrete_laplace
from tacit.parameters import Number, count, positive, probability

Counts = NDArray[np.int64]
Array = NDArray[np.float64]
FINE = 2**20  # noisy counts are multiples of 1/FINE of a vote
LAMBDAS = range(1, 200)
WIDTH = 2**20  # granules of the published moment
LEAST = 1e-300
_MARGIN = 1 + 1e-12  # over the rounding of a few library functions


def vote_counts(votes: ArrayLike) -> Counts:
    """Counts of shape (questions, classes), checked.

    >>> vote_counts([[1, 2]]).shape
    (1, 2)
    """
    counts = np.asarray(votes, dtype=np.int64)
    if counts.ndim != 2 or counts.shape[1] < 2:
        raise ParameterError(f"counts must have the shape (questions, classes) with at least two classes, not {counts.shape}")
    return counts


def gaps(votes: ArrayLike) -> Counts:
    """How far the other labels lie behind the winner of each question, in ascending order.

    >>> gaps([[3, 10, 7]]).tolist()
    [[3, 7]]
    """
    ordered = np.sort(vote_counts(votes), axis=1)[:, ::-1]
    return ordered[:, :1] - ordered[:, 1:]


def _tail(gap: Array | Counts, gamma: float) -> Array:
    """P[Z' - Z >= gap - 1/FINE] for two Laplace variables of scale 2/gamma: noisy counts are rounded, and a tie may go to the wrong one."""
    scaled = np.maximum(gamma / 2 * (np.asarray(gap, dtype=np.float64) - 1 / FINE), 0.0)
    return np.asarray((2 + scaled) / 4 * np.exp(-scaled) * _MARGIN)


def disagreement(votes: Sequence[int] | Counts, gamma: float) -> float:
    """A bound on the chance that the noisy winner is not the true one: (7.11), exact for two labels.

    >>> round(disagreement([150, 100], gamma=0.1), 7)
    0.0923456
    """
    return float(_tail(gaps(np.asarray(votes)[None]), float(positive("gamma", gamma))).sum())


def fixed_moment(lam: float, gamma: float) -> float:
    """The log moment of order lambda of any gamma-private answer.

    >>> fixed_moment(1, 0.1)
    0.010000000000000002
    """
    return min(lam * gamma, gamma**2 * lam * (lam + 1) / 2)


def moments(lam: float, gamma: float, q: ArrayLike) -> Array:
    """The log moment of order lambda of answers with these chances of disagreement: the least of three bounds, each only where proved."""
    chance = np.maximum(np.asarray(q, dtype=np.float64), LEAST)  # a chance may have been too small for the machine, not zero
    fixed = fixed_moment(lam, gamma)
    if gamma > 600:
        return np.full(chance.shape, fixed)
    limit = 1 / (math.exp(gamma) + 1)
    safe = np.where(chance < limit, chance, LEAST)
    first = (lam + 1) * np.log1p(-safe) - lam * np.log1p(-math.exp(gamma) * safe)
    dependent = np.maximum(np.logaddexp(first, np.log(safe) + gamma * lam), 0.0) * _MARGIN
    return np.asarray(np.where(chance < limit, np.minimum(dependent, fixed), fixed))


def moment(lam: float, gamma: float, q: float) -> float:
    """`moments` of one answer.

    >>> round(moment(10, 0.1, 0.01), 8), moment(1, 0.1, 0.9) == moment(1, 0.1, 1.7)
    (0.02738325, True)
    """
    return float(moments(lam, gamma, q))


def _epsilon(totals: Sequence[float], questions: int, gamma: float, delta: float) -> float:
    best = min((total - math.log(delta)) / lam for lam, total in zip(LAMBDAS, totals, strict=True))
    return min(best, questions * gamma)


def dependent_epsilon(votes: ArrayLike, gamma: float, delta: float) -> float:
    """The epsilon of `LaplaceVotes` on these very votes. It depends on the data: never publish it.

    >>> votes = [180, 40, 30, 0, 0, 0, 0, 0, 0, 0]
    >>> [round(dependent_epsilon([votes] * n, 0.1, 1e-5), 4) for n in (100, 1000)]
    [0.765, 2.6504]
    """
    rate, small = float(positive("gamma", gamma)), float(probability("delta", positive("delta", delta)))
    q = _tail(gaps(votes), rate).sum(axis=1)
    return _epsilon([float(moments(lam, rate, q).sum()) for lam in LAMBDAS], len(q), rate, small)


def independent_epsilon(questions: int, gamma: float, delta: float) -> float:
    """The moments bound that holds for any votes; `account(LaplaceVotes(gamma).event(questions))` is tighter.

    >>> round(independent_epsilon(100, 0.1, 1e-5), 4)
    5.3026
    """
    rate, small = float(positive("gamma", gamma)), float(probability("delta", positive("delta", delta)))
    asked = count("questions", questions)
    return _epsilon([asked * fixed_moment(lam, rate) for lam in LAMBDAS], asked, rate, small)


# Publishing it


class Law(Protocol):
    """What the noise of the votes must tell for its cost to be published."""

    def __hash__(self) -> int: ...

    @property
    def limit(self) -> float:
        """A chance of disagreement from which on an answer is not cheaper than in the worst case."""

    @property
    def answers(self) -> int | None:
        """How many questions are answered at most; None: all."""

    def tail(self, gap: Counts) -> Array:
        """A bound on the chance that a label so far behind the true winner beats it; it must not grow with the gap."""

    def moments(self, lam: float, q: ArrayLike) -> Array:
        """The log moments of answers with these chances of disagreement."""

    def fixed(self, lam: float) -> float:
        """The log moment of an answer, whatever the votes."""

    def overhead(self, lam: float) -> float:
        """The log moment of what else is told about a question, whatever the votes."""

    def pure(self, questions: int) -> float:
        """An epsilon that needs no delta, or infinity."""


@dataclass(frozen=True)
class LaplaceLaw:
    """The cost of `LaplaceVotes`."""

    gamma: float
    answers: int | None = None

    def __post_init__(self) -> None:
        positive("gamma", self.gamma)

    @property
    def limit(self) -> float:
        return math.exp(-self.gamma) / (1 + math.exp(-self.gamma))

    def tail(self, gap: Counts) -> Array:
        return _tail(gap, self.gamma)

    def moments(self, lam: float, q: ArrayLike) -> Array:
        return moments(lam, self.gamma, q)

    def fixed(self, lam: float) -> float:
        return fixed_moment(lam, self.gamma)

    def overhead(self, lam: float) -> float:
        return 0.0

    def pure(self, questions: int) -> float:
        return questions * self.gamma


def chances(distances: Counts, law: Law) -> Array:
    """A bound on the chance of disagreement of each question."""
    q = np.zeros(len(distances))
    for column in distances.T:  # in one order always: a sum of smaller terms is then no larger, rounded or not
        q = q + law.tail(column)
    return q


def worst_epsilon(questions: int, law: Law, delta: float) -> float:
    """The moments bound that holds for any votes.

    >>> worst_epsilon(100, LaplaceLaw(0.1), 1e-5) == independent_epsilon(100, 0.1, 1e-5)
    True
    """
    paid = questions if law.answers is None else min(questions, law.answers)
    totals = [paid * law.fixed(lam) + questions * law.overhead(lam) for lam in LAMBDAS]
    return min(law.pure(questions), *((total - math.log(delta)) / lam for lam, total in zip(LAMBDAS, totals, strict=True)))


@lru_cache(maxsize=16)
def _table(lam: float, law: Law, granule: float) -> tuple[Array, Counts]:
    """Chances of disagreement, ascending, and for each interval up to the next a moment in whole granules, rounded up, never falling."""
    grid = np.concatenate([[0.0], np.geomspace(1e-15, law.limit, 20_000)])
    values = np.ceil(law.moments(lam, np.append(grid[1:], 1.0)) / granule).astype(np.int64)
    return grid, np.maximum.accumulate(values)


def total_moment(distances: Counts, lam: float, law: Law, granule: float, shift: int = 0) -> int:
    """The total moment in granules, rounded up, with every gap made larger by `shift`, but not negative.

    Where not all questions are answered, those that would cost most are taken for the answered ones, since which are is not fixed.

    >>> total_moment(gaps([[30, 0]]), 5, LaplaceLaw(0.1), 1e-6, shift=-30) == math.ceil(fixed_moment(5, 0.1) / 1e-6)
    True
    """
    grid, values = _table(lam, law, granule)
    found = values[np.searchsorted(grid, chances(np.maximum(distances + shift, 0), law), side="right") - 1]
    return int(found.sum() if law.answers is None else np.sort(found)[::-1][: law.answers].sum())


def sensitivities(distances: Counts, lam: float, law: Law, granule: float, most: int) -> Counts:
    """A_0 .. A_most in granules: how much the total moment can change within so many changes of the votes.

    >>> sensitivities(gaps([[120, 0]]), 5, LaplaceLaw(0.1), 1e-4, most=4).tolist()
    [5, 16, 27, 38, 49]
    """
    high = [total_moment(distances, lam, law, granule, -2 * t) for t in range(most + 2)]
    low = [total_moment(distances, lam, law, granule, 2 * t) for t in range(most + 2)]
    return np.array([max(high[t + 1] - low[t], high[t] - low[t + 1]) for t in range(most + 1)], dtype=np.int64)


@dataclass(frozen=True)
class PublishedCost:
    """A released bound: on these votes the answers cost at most (`epsilon`, `delta`), except with probability `failure`.

    The probability is over the noise of the release. `event` is what the release cost; it comes on top.
    """

    epsilon: float
    delta: float
    moment: float
    order: int
    failure: float
    event: Event


def publish_cost(
    votes: ArrayLike, law: Law, *, teachers: int, delta: float, order: int, epsilon: Number,
    failure: float = 0.01, tail: int = 4,
) -> PublishedCost:
    """Release an upper bound on what the answers to these votes cost, for one public moment order, at a price of `epsilon`.

    Half of epsilon buys the total moment with heavy-tailed noise of its rung's scale, half the rung, from which the bound's margin is
    made. It pays where almost all teachers agree on almost every question; elsewhere the independent cost is told. `tail` 4 is mostly the
    better law; 2 (Cauchy) where epsilon is small and agreement overwhelming.

    >>> publish_cost([[9, 1]], LaplaceLaw(0.1), teachers=10, delta=1e-5, order=8, epsilon=1).event
    PureDP(epsilon=1)
    """
    distances = gaps(votes)
    lam = count("order", order)
    small, fail = float(probability("delta", positive("delta", delta))), float(probability("failure", positive("failure", failure)))
    half = float(positive("epsilon", epsilon)) / 2 * (1 - 1e-9)
    asked = len(distances)
    worst = (asked if law.answers is None else min(asked, law.answers)) * law.fixed(lam)
    granule = max(worst, 5e-324) / WIDTH
    # each answer's moment is rounded up, so the total may pass the width by the number of answers
    steps = ladder(WIDTH + asked, half, None, tail)
    most = min(len(steps.scales), count("teachers", teachers))
    near = np.minimum(sensitivities(distances, lam, law, granule, most), WIDTH + asked)
    if most < len(steps.scales):
        near = np.append(near, np.full(len(steps.scales) - most, WIDTH + asked))
    rung = steps.rung(near)
    noisy = total_moment(distances, lam, law, granule) + steps.draw(rung)
    seen = rung + int(discrete_laplace(1 / half))
    highest = min(max(0, seen + math.ceil(math.log(2 / fail) / half)), len(steps.scales) - 1)
    bound = min(worst, max(0.0, (noisy + reach(steps, highest, fail / 2)) * granule)) + asked * law.overhead(lam)
    told = min((bound - math.log(small)) / lam, worst_epsilon(asked, law, small))
    return PublishedCost(told, small, bound, lam, fail, PureDP(epsilon))


def reach(steps: Ladder, rung: int, failure: float) -> int:
    """How far the noise of a rung goes in one direction, except with probability at most `failure`.

    The sum over k > x of 1/(s^g + k^g) is less than the integral of k^-g from x, x^(1-g)/(g - 1).

    >>> reach(ladder(1000, 1.0, None, 4), 0, 0.01)
    3
    """
    law = steps.law
    if not isinstance(law, HeavyTail):
        raise ParameterError("the reach is known for heavy-tailed noise")
    power = law.tail - 1
    return math.ceil(math.exp(-(math.log(power * failure) + law.log_total(float(steps.scales[rung]))) / power) * _MARGIN)
