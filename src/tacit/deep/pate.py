"""Private aggregation of teacher ensembles: many teachers on disjoint data vote, and only the noisy winner is told.

The data is split, by person, among teachers that never see each other's part; any learner will do. A question is put to all; their votes
are counted, noise is added to the counts, and the label with the largest noisy count is the answer. One person sits in one teacher's data,
so one vote moves: two counts by one each. A student learns from the answers on *public* inputs, and publishing it costs nothing more.

>>> import numpy as np
>>> rows, people = np.arange(600) % 2, np.arange(600)                     # a person a row; the label is the row's parity
>>> teachers = train_teachers(lambda mine: (lambda x: np.asarray(x) % 2), people, teachers=250)
>>> ensemble = Ensemble(teachers, classes=2, votes=LaplaceVotes(gamma=0.1))
>>> labels = ensemble.label([0, 1, 2, 3])                                 # public questions
>>> labels.tolist(), round(ensemble.report(delta=1e-5).independent.upper, 2)
([0, 1, 0, 1], 0.4)

What a run cost *on these votes* is often far less, because where the teachers agree the noise hardly matters. But that figure depends on
the data and is itself private: `report` tells it only to those who may see the data, or released with noise at a price.

Guarantee
    Statement: `answer` costs `event(questions)`: each question the Laplace (or Gaussian) mechanism on counts with L1 distance 2 (L2
    distance sqrt 2), and the winner is post-processing.
    Conditions: a person's records reach one teacher; the partition does not depend on the data; the questions are public.
    Proved in: Papernot et al. 2017, Section 3 (Laplace); Papernot et al. 2018, Section 4 (Gaussian): checks and answers of a
    confident aggregator may come in any order that depends on what was told, since Gaussian prices have a filter (Smith and Thakurta
    2022) and the number of each is fixed in advance. Counts and noise are whole multiples of 2^-20 of a vote: rounded, not
    approximated. What the answers cost on the votes cast: `tacit.deep.pate_cost` for Laplace votes, `tacit.deep.pate_gaussian`
    for Gaussian ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import Bound, Composed, Event, NoOp, ParameterError, PureDP, Repeated
from tacit.accounting import account as price
from tacit.deep import pate_gaussian
from tacit.deep.pate_cost import FINE, Counts, LaplaceLaw, PublishedCost, dependent_epsilon, publish_cost, vote_counts
from tacit.deep.pate_gaussian import GaussianLaw
from tacit.ledger import Account, paying
from tacit.mechanisms import NoisySums
from tacit.noise import uniform_integers
from tacit.parameters import Number, count, positive

M = TypeVar("M")
ADVICE = "A teacher must return one label for each question, in one dimension"


def tally(votes: ArrayLike, classes: int) -> Counts:
    """Votes of shape (teachers, questions) as counts of shape (questions, classes); a vote for no class counts for none.

    >>> tally([[0, 1], [0, 2], [1, 2]], classes=3).tolist()
    [[2, 1, 0], [0, 1, 2]]
    """
    cast = np.asarray(votes, dtype=np.int64)
    if cast.ndim != 2:
        raise ParameterError(f"votes must have the shape (teachers, questions), not {cast.shape}")
    return np.stack([(cast == label).sum(axis=0) for label in range(count("classes", classes))], axis=1)


def winners(counts: Counts, noise: Any) -> NDArray[np.int64]:
    """The label of the largest noisy count of each question; the noise is in multiples of 1/FINE of a vote. Exact in whole numbers.

    >>> winners(np.array([[3, 1]]), np.array([[0, 2 * FINE + 1]])).tolist()
    [1]
    """
    return np.asarray(np.argmax(counts * FINE + np.asarray(noise), axis=1), dtype=np.int64)


@dataclass(frozen=True)
class LaplaceVotes:
    """Laplace noise of scale 2 / gamma on every count: each question is gamma-DP."""

    gamma: float

    def __post_init__(self) -> None:
        positive("gamma", self.gamma)

    @property
    def noise(self) -> NoisySums:
        """The noise on one question's counts: a teacher who votes otherwise moves two of them by a vote."""
        return NoisySums.of_multiplier("laplace", 1 / Fraction(self.gamma), 2 * FINE, granularity=Fraction(1, FINE))

    def event(self, questions: int) -> Event:
        """What so many questions cost, whatever the votes."""
        return Repeated(self.noise.event, count("questions", questions))

    def answer(self, votes: ArrayLike) -> NDArray[np.int64]:
        """One label a question."""
        counts = vote_counts(votes)
        return winners(counts, self.noise.draw(counts.shape))


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

    @property
    def noise(self) -> NoisySums:
        """The noise on one question's counts: a teacher who votes otherwise moves two of them, by sqrt(2) in all."""
        multiplier = math.nextafter(self.sigma / math.nextafter(math.sqrt(2), 2), 0)
        return NoisySums("gaussian", (FINE * Fraction(self.sigma),), multiplier, granularities=(Fraction(1, FINE),))

    @property
    def check(self) -> NoisySums | None:
        """The noise on the largest count, which a teacher moves by one vote."""
        return None if self.check_sigma is None else NoisySums.of_multiplier("gaussian", self.check_sigma)

    def event(self, questions: int) -> Event:
        """What so many questions cost, whatever the votes."""
        one, asked = self.noise.event, count("questions", questions)
        if self.check is None or self.answers is None:
            return Repeated(one, asked)
        return Composed(Repeated(self.check.event, asked), Repeated(one, min(asked, self.answers)))

    def answer(self, votes: ArrayLike) -> NDArray[np.int64]:
        """One label a question; -1 where the teachers did not agree enough, or the paid answers are used up."""
        counts = vote_counts(votes)
        found = winners(counts, self.noise.draw(counts.shape))
        if self.threshold is None or self.check is None or self.answers is None:
            return found
        agreed = self.check.add(counts.max(axis=1)) >= self.threshold
        return np.where(agreed & (np.cumsum(agreed) <= self.answers), found, -1)


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


def train_teachers(fit: Callable[[NDArray[np.int64]], M], people: ArrayLike, teachers: int) -> list[M]:
    """One teacher from each part: `fit` gets the row numbers of its part, and whatever it returns is a teacher. A part may be empty.

    >>> [type(teacher) for teacher in train_teachers(len, ["a", "b", "a"], teachers=2)]
    [<class 'int'>, <class 'int'>]
    """
    return [fit(rows) for rows in partition(people, teachers)]


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
    return Ensemble(list(teachers), classes, votes, account=account, delta=delta).label(questions, purpose=purpose)


@dataclass(frozen=True)
class Report:
    """What an ensemble's answers cost. `dependent` is private, and None in a report that may be published."""

    independent: Bound
    delta: float
    published: PublishedCost | None = None
    dependent: float | None = None


@dataclass
class Ensemble(Generic[M]):
    """Teachers that answer public questions, and what all their answers cost together.

    A teacher is a callable from questions to labels, or has a `predict`, like an estimator of scikit-learn. A confident aggregator's
    paid `answers` are those of one call of `label`.
    """

    teachers: list[M]
    classes: int
    votes: LaplaceVotes | GaussianVotes
    account: Account | None = field(default=None, repr=False)
    delta: float | None = None
    event: Event = field(default_factory=NoOp, init=False)
    _cast: list[Counts] = field(default_factory=list, init=False, repr=False)  # private
    _paid: int = field(default=0, init=False, repr=False)  # answers of a confident aggregator

    def __repr__(self) -> str:
        return f"Ensemble({len(self.teachers)} teachers, classes={self.classes}, {self.votes!r})"

    def label(self, questions: Any, *, purpose: str = "labels from teachers") -> NDArray[np.int64]:
        """One label a question, -1 where a confident aggregator declines. Paid for before a teacher is asked."""
        event = self.votes.event(len(questions))
        with paying(self.account, event, purpose=purpose, delta=self.delta, advice=ADVICE):
            return self._answer(questions, event)

    def _answer(self, questions: Any, event: Event) -> NDArray[np.int64]:
        counts = tally([_ask(teacher, questions) for teacher in self.teachers], self.classes)
        self._cast.append(counts)
        self._paid += min(len(counts), self.votes.answers or 0) if isinstance(self.votes, GaussianVotes) else 0
        self.event = Composed(self.event, event)
        return self.votes.answer(counts)

    def report(self, delta: float, *, publish: bool = True, sanitise: Number | None = None, order: int = 20) -> Report:
        """The cost of all answers so far. With `publish` only what may be told: the cost for any votes and, if `sanitise` gives the
        epsilon for it, a released bound on the cost of these votes. Without, the private figure is in it: keep it with the data.

        The release is paid for anew each time it is asked for, and added to `event`.

        >>> ensemble = Ensemble([lambda x: [0] * len(x)] * 10, classes=2, votes=LaplaceVotes(0.1))
        >>> answers = ensemble.label([1, 2])
        >>> ensemble.report(1e-5).dependent is None, ensemble.report(1e-5, publish=False).dependent <= 0.2
        (True, True)
        """
        independent = price(self.event).epsilon(delta)
        if not self._cast:
            if sanitise is not None or not publish:
                raise ParameterError("the cost on the votes cast is known after the first label(...); leave it out of the report till then")
            return Report(independent, delta)
        cast = np.concatenate(self._cast)
        law = self._law()
        told = None
        if sanitise is not None:
            moment = count("order", order)  # refused before it is paid for
            with paying(self.account, PureDP(sanitise), purpose="cost of labels", delta=self.delta):
                told = publish_cost(cast, law, teachers=len(self.teachers), delta=delta, order=moment, epsilon=sanitise)
            self.event = Composed(self.event, told.event)
        if publish:
            return Report(independent, delta, told)
        if isinstance(law, LaplaceLaw):
            return Report(independent, delta, told, dependent_epsilon(cast, law.gamma, delta))
        return Report(independent, delta, told, pate_gaussian.dependent_epsilon(cast, law, delta))

    def _law(self) -> LaplaceLaw | GaussianLaw:
        """The cost of all votes so far, which may be of several calls with paid answers each."""
        if isinstance(self.votes, LaplaceVotes):
            return LaplaceLaw(float(self.votes.gamma))
        if self.votes.check_sigma is None:
            return GaussianLaw(self.votes.sigma)
        return GaussianLaw(self.votes.sigma, self.votes.check_sigma, self._paid)


def _ask(teacher: Any, questions: Any) -> NDArray[np.int64]:
    """A teacher's votes; what is no whole number in reach is a vote for none."""
    said = np.asarray(teacher.predict(questions) if hasattr(teacher, "predict") else teacher(questions))
    if said.shape != (len(questions),):
        raise ParameterError(f"a teacher must return one label for each of the {len(questions)} questions, in one dimension")
    if said.dtype.kind in "iub":
        return said.astype(np.int64)
    numbers = said.astype(np.float64)
    usable = np.abs(numbers) < 2.0**53  # NaN is not
    return np.where(usable & (numbers == np.floor(numbers)), np.where(usable, numbers, 0), -1).astype(np.int64)


def train_student(fit: Callable[[Any, NDArray[np.int64]], M], questions: Any, labels: ArrayLike) -> M:
    """A student of the answered questions: `fit(inputs, labels)` on those whose label is not -1. Post-processing: it costs nothing.

    >>> train_student(lambda x, y: list(zip(x.tolist(), y.tolist())), np.array([5, 6, 7]), [0, -1, 1])
    [(5, 0), (7, 1)]
    """
    given = np.asarray(labels, dtype=np.int64)
    if len(given) != len(questions):
        raise ParameterError(f"there must be one label for each of the {len(questions)} questions, not {len(given)}")
    answered = np.flatnonzero(given >= 0)
    return fit(questions[answered], given[answered])
