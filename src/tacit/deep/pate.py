"""Private aggregation of teacher ensembles: many teachers on disjoint data vote, and only the noisy winner is told.

The data is split, by person, among teachers that never see each other's part; any learner will do. A question is put to all; their votes
are counted, noise is added to the counts, and the label with the largest noisy count is the answer. One person sits in one teacher's data,
so one vote moves: two counts by one each. A student learns from the answers on *public* inputs, and publishing it costs nothing more.

>>> import numpy as np
>>> from tacit.accounting import account
>>> votes = np.array([[180, 40, 30], [130, 120, 0]])  # two questions, three labels, 250 teachers
>>> teachers = LaplaceVotes(gamma=0.1)
>>> labels = teachers.answer(votes)
>>> len(labels), account(teachers.event(questions=2)).epsilon(1e-5).upper <= 0.2
(2, True)

What a run cost *on these votes* is often far less, because where the teachers agree the noise hardly matters. But that figure depends on
the data and is itself private.

>>> round(dependent_epsilon([[250, 0, 0, 0, 0, 0, 0, 0, 0, 0]] * 100, gamma=0.1, delta=1e-5), 4)
0.2634

Guarantee
    Statement: `answer` costs `event(questions)`: each question the Laplace (or Gaussian) mechanism on counts with L1 distance 2 (L2
    distance sqrt 2), and the winner is post-processing.
    Conditions: a person's records reach one teacher; the partition does not depend on the data; the questions are public.
    Proved in: Papernot et al. 2017, Section 3 (Laplace); Papernot et al. 2018, Section 4 (Gaussian). Data-dependent moments: Papernot et
    al. 2017, Theorem 3, which holds only where q < 1 / (e^gamma + 1); the textbook's (7.10) leaves the condition out, and its 2 lambda
    gamma in (7.12) belongs to another noise scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import Composed, Event, ParameterError, Repeated
from tacit.accounting import Gaussian as GaussianEvent
from tacit.accounting.parameters import count, positive, probability
from tacit.calculus import L1, L2, Integers, Space, Vectors
from tacit.ledger import Account
from tacit.mechanisms import gaussian, laplace
from tacit.noise import rounded_gaussian, uniform_integers

Counts = NDArray[np.int64]
LAMBDAS = range(1, 200)


def tally(votes: ArrayLike, classes: int) -> Counts:
    """Votes of shape (teachers, questions) as counts of shape (questions, classes); a vote for no class counts for none.

    >>> tally([[0, 1], [0, 2], [1, 2]], classes=3).tolist()
    [[2, 1, 0], [0, 1, 2]]
    """
    cast = np.asarray(votes, dtype=np.int64)
    if cast.ndim != 2:
        raise ParameterError(f"votes must have the shape (teachers, questions), not {cast.shape}")
    return np.stack([(cast == label).sum(axis=0) for label in range(count("classes", classes))], axis=1)


def _counts(votes: ArrayLike) -> Counts:
    counts = np.asarray(votes, dtype=np.int64)
    if counts.ndim != 2 or counts.shape[1] < 2:
        raise ParameterError(f"counts must have the shape (questions, classes) with at least two classes, not {counts.shape}")
    return counts


@dataclass(frozen=True)
class LaplaceVotes:
    """Laplace noise of scale 2 / gamma on every count: each question is gamma-DP."""

    gamma: float

    def __post_init__(self) -> None:
        positive("gamma", self.gamma)

    def event(self, questions: int) -> Event:
        """What so many questions cost, whatever the votes."""
        return Repeated(self._plan(2).event(2), count("questions", questions))

    def answer(self, votes: ArrayLike) -> NDArray[np.int64]:
        """One label a question."""
        counts = _counts(votes)
        plan = self._plan(counts.shape[1])
        return np.array([int(np.argmax(plan.function(row))) for row in counts], dtype=np.int64)

    def _plan(self, classes: int) -> Any:
        return Space(Vectors(Integers(), classes), L1()) >> laplace(2 / Fraction(self.gamma))


@dataclass(frozen=True)
class GaussianVotes:
    """Gaussian noise on every count; with `threshold`, only where the noisy largest count reaches it (Confident-GNMax).

    The largest count moves by at most one, so the check is a Gaussian mechanism of its own, paid for by every question asked; the answer is
    paid for by at most `answers` questions, fixed in advance: asking stops there.

    >>> round(float(GaussianVotes(sigma=40).event(questions=10).event.noise_multiplier), 4)
    28.2843
    """

    sigma: float
    threshold: float | None = None
    check_sigma: float | None = None
    answers: int | None = None

    def __post_init__(self) -> None:
        positive("sigma", self.sigma)
        checked = (self.threshold, self.check_sigma, self.answers)
        if any(value is not None for value in checked) and any(value is None for value in checked):
            raise ParameterError("a confident aggregator needs threshold, check_sigma and answers (how many answers are paid for) together")
        if self.check_sigma is not None:
            positive("check_sigma", self.check_sigma)
            count("answers", self.answers)

    def event(self, questions: int) -> Event:
        """What so many questions cost, whatever the votes."""
        one = self._plan(2).event(math.nextafter(math.sqrt(2), 2))
        if self.check_sigma is None or self.answers is None:
            return Repeated(one, count("questions", questions))
        asked = count("questions", questions)
        return Composed(Repeated(GaussianEvent(self.check_sigma), asked), Repeated(one, min(asked, self.answers)))

    def answer(self, votes: ArrayLike) -> NDArray[np.int64]:
        """One label a question; -1 where the teachers did not agree enough, or the paid answers are used up."""
        counts = _counts(votes)
        plan = self._plan(counts.shape[1])
        left = len(counts) if self.answers is None else self.answers
        found = np.full(len(counts), -1, dtype=np.int64)
        for i, row in enumerate(counts):
            if left > 0 and self._agreed(row):
                found[i] = int(np.argmax(plan.function(row)))
                left -= 1
        return found

    def _agreed(self, row: Counts) -> bool:
        if self.threshold is None or self.check_sigma is None:
            return True
        return int(row.max()) + int(rounded_gaussian(Fraction(self.check_sigma))) >= self.threshold

    def _plan(self, classes: int) -> Any:
        return Space(Vectors(Integers(), classes), L2()) >> gaussian(self.sigma)


# What it cost on these votes: private figures


def disagreement(votes: Sequence[int] | Counts, gamma: float) -> float:
    """A bound on the chance that the noisy winner is not the true one: (7.11), exact for two labels.

    >>> round(disagreement([150, 100], gamma=0.1), 7)
    0.0923456
    """
    ordered = sorted((int(v) for v in votes), reverse=True)
    half = positive("gamma", gamma) / 2
    gaps = [float(half) * (ordered[0] - other) for other in ordered[1:]]
    return sum((2 + gap) / (4 * math.exp(gap)) for gap in gaps)


def moment(lam: int, gamma: float, q: float) -> float:
    """The log moment of order lambda of one question: the least of three bounds, the data-dependent one only where it is proved.

    >>> round(moment(10, 0.1, 0.01), 8), moment(1, 0.1, 0.9) == moment(1, 0.1, 1.7)
    (0.02738325, True)
    """
    fixed = min(lam * gamma, gamma**2 * lam * (lam + 1) / 2)
    if not 0 < q < 1 / (math.exp(gamma) + 1):
        return fixed if q else 0.0
    dependent = math.log((1 - q) * ((1 - q) / (1 - math.exp(gamma) * q)) ** lam + q * math.exp(gamma * lam))
    return min(fixed, max(0.0, dependent))


def _epsilon(moments: Sequence[float], questions: int, gamma: float, delta: float) -> float:
    best = min((total - math.log(delta)) / lam for lam, total in zip(LAMBDAS, moments, strict=True))
    return min(best, questions * gamma)


def dependent_epsilon(votes: ArrayLike, gamma: float, delta: float) -> float:
    """The epsilon of `LaplaceVotes` on these very votes. It depends on the data: never publish it.

    >>> votes = [180, 40, 30, 0, 0, 0, 0, 0, 0, 0]
    >>> [round(dependent_epsilon([votes] * n, 0.1, 1e-5), 4) for n in (100, 1000)]
    [0.765, 2.6504]
    """
    counts = _counts(votes)
    rate, small = float(positive("gamma", gamma)), float(probability("delta", delta))
    qs = [disagreement(row, rate) for row in counts]
    return _epsilon([sum(moment(lam, rate, q) for q in qs) for lam in LAMBDAS], len(counts), rate, small)


def independent_epsilon(questions: int, gamma: float, delta: float) -> float:
    """The moments bound that holds for any votes; `account(LaplaceVotes(gamma).event(questions))` is tighter.

    >>> round(independent_epsilon(100, 0.1, 1e-5), 4)
    5.3026
    """
    rate = float(positive("gamma", gamma))
    asked = count("questions", questions)
    return _epsilon([asked * moment(lam, rate, 1.0) for lam in LAMBDAS], asked, rate, float(probability("delta", delta)))


# Teachers and student


def partition(people: ArrayLike, teachers: int) -> list[NDArray[np.int64]]:
    """Row numbers for each teacher: every person's rows go to one teacher, drawn uniformly and independently of the data.

    >>> parts = partition(["a", "b", "a", "c"], teachers=2)
    >>> sorted(np.concatenate(parts).tolist())
    [0, 1, 2, 3]
    """
    column = np.asarray(people)
    names, place = np.unique(column, return_inverse=True)
    drawn = np.asarray(uniform_integers(count("teachers", teachers), size=len(names)))
    owner = drawn[place]
    return [np.flatnonzero(owner == teacher).astype(np.int64) for teacher in range(teachers)]


def label(
    teachers: Iterable[Callable[[Any], ArrayLike]],
    questions: Any,
    classes: int,
    votes: LaplaceVotes | GaussianVotes,
    *,
    account: Account | None = None,
    purpose: str = "labels from teachers",
    delta: float | None = None,
) -> NDArray[np.int64]:
    """Put public questions to all teachers and return the noisy winners, paid for before a teacher is asked.

    >>> always = [lambda x, k=k: [k % 2] * len(x) for k in range(100)]
    >>> len(label(always, [0.1, 0.2, 0.3], classes=2, votes=LaplaceVotes(gamma=1)))
    3
    """
    event = votes.event(len(questions))

    def run() -> NDArray[np.int64]:
        return votes.answer(tally([np.asarray(teacher(questions), dtype=np.int64) for teacher in teachers], classes))

    if account is None:
        return run()
    with account.reserve(event, purpose=purpose, delta=delta):
        return run()
