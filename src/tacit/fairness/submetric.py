"""A metric for individual fairness, learnt from a person who judges: an arbiter.

How similar any two people are is hard to write down, but an arbiter can say which of two is closer to a third,
and with more effort how far two are apart. For each representative, `MetricSession` sorts all items by their
distance to it with comparisons only, then asks for a few distances, and combines what is known into a submetric:
a distance that is never above the arbiter's by more than alpha. The session counts its questions, takes "too close
to call", and can be interrupted: it is its list of answers.

>>> ages = [20, 34, 50, 71]
>>> far = lambda one, other: abs(one - other) / 100
>>> learnt = learn_submetric(ages, far, alpha=0.05, representatives=[0])
>>> learnt.comparisons <= 3 * 4 * 2, all(
...     learnt.distances[i, j] <= far(ages[i], ages[j]) + 0.05 + 1e-12 for i in range(4) for j in range(4))
(True, True)
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.fairness.errors import FairnessError
from tacit.parameters import count, nonnegative, positive
from tacit.pictures import Path as PicturePath
from tacit.pictures import canvas, dress, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
FIRST, SECOND, TIE = "first", "second", "too close to call"


@dataclass(frozen=True)
class CloserQuestion:
    """Which of two items is closer to the representative? Answered `"first"`, `"second"` or `"too close to call"`."""

    representative: int
    first: int
    second: int


@dataclass(frozen=True)
class DistanceQuestion:
    """How far is an item from the representative, between 0 and 1?"""

    representative: int
    item: int


Question = CloserQuestion | DistanceQuestion
Asking = Generator[Question, Any, Any]


@dataclass(frozen=True)
class Submetric:
    """What was learnt: distances that are at most the arbiter's plus alpha, and how many questions it took."""

    distances: Array
    alpha: float
    comparisons: int
    measured: int

    def plot(self, *, ax: Axes | None = None, path: PicturePath | None = None) -> Figure:
        """The learnt distances, individuals ordered so that near ones stand together: dark pairs may be treated more differently."""
        figure, axes = canvas(ax, path)
        order = np.argsort(self.distances[int(self.distances.sum(axis=1).argmax())], kind="stable")
        drawn = axes.imshow(self.distances[np.ix_(order, order)], cmap="Blues", vmin=0.0, vmax=1.0)
        figure.colorbar(drawn, ax=axes, label="distance learnt")
        dress(axes, f"{self.comparisons} comparisons, {self.measured} distances asked", "individuals", "individuals")
        axes.grid(False)
        return finish(figure, path)

    def __str__(self) -> str:
        pairs = np.triu_indices(len(self.distances), 1)
        told = float((self.distances[pairs] > 0).mean()) if len(pairs[0]) else 0.0
        return (
            f"{self.comparisons} comparisons and {self.measured} distances tell {told:.0%} of the pairs apart; no distance "
            f"is above the arbiter's by more than {self.alpha:g}"
        )


@dataclass
class MetricSession:
    """The questions to an arbiter, one after the other; `answers` is all of its state.

    `question` is the next one, or None when the session is complete; `answer(...)` goes on. `noise` is how far off
    the arbiter's distances may be, and how close two distances may be for a comparison to come out wrong or to be
    too close to call (0: only equal ones are). It widens what is held possible, so that a noisy arbiter makes the
    submetric coarser and not wrong.

    >>> session = MetricSession(3, alpha=0.5, representatives=[0])
    >>> while (question := session.question) is not None:
    ...     session.answer("first" if isinstance(question, CloserQuestion) else 0.25 * question.item)
    >>> session.result.comparisons, session.result.measured
    (1, 2)

    Guarantee
        Statement: d'(u, v) <= d(u, v) + alpha for every pair, if the arbiter's answers are within `noise` of a metric d
        into [0, 1].
        Proved in: for a representative r, |d(r, u) - d(r, v)| <= d(u, v) (triangle inequality; Ilvento 2020). An item
        between two measured ones in the order lies between their distances, widened by `noise` for each level of
        the merge sort and for the measurement. Where every such bracket is at most alpha wide, its lower end is
        the label and labels are off by at most alpha; else only what two brackets exclude counts. The largest
        over the representatives is then below d + alpha.
    """

    items: int
    alpha: float
    representatives: Sequence[int] = (0,)
    noise: float = 0.0
    answers: list[str | float] = field(default_factory=list)

    def __post_init__(self) -> None:
        count("items", self.items)
        positive("alpha", self.alpha)
        nonnegative("noise", self.noise)
        if not self.representatives or not all(0 <= r < self.items for r in self.representatives):
            raise FairnessError(code="answer-unknown", given=list(self.representatives), known="places of items")
        self.result: Submetric | None = None
        self.question: Question | None = None
        self._comparisons = self._measured = 0
        self._work = self._run()
        given, self.answers = self.answers, []
        self._advance(None)
        for one in given:  # an interrupted session goes on by hearing its answers again
            self.answer(one)

    def answer(self, given: str | float) -> None:
        """Answer the question that is open."""
        question = self.question
        if question is None:
            raise FairnessError(code="answer-unknown", given=given, known="needed no more: the session is complete")
        if isinstance(question, CloserQuestion):
            if given not in (FIRST, SECOND, TIE):
                raise FairnessError(code="answer-unknown", given=given, known=f"{FIRST!r}, {SECOND!r} or {TIE!r}")
            self._comparisons += 1
        else:
            if isinstance(given, str | bool) or not 0 <= float(given) <= 1:
                raise FairnessError(code="answer-unknown", given=given, known="a number between 0 and 1")
            given = float(given)
            self._measured += 1
        self.answers.append(given)
        self._advance(given)

    def save(self, path: str | Path) -> None:
        """Write the session to a file; `MetricSession.load` goes on with it."""
        state = {"items": self.items, "alpha": self.alpha, "representatives": list(self.representatives)}
        Path(path).write_text(json.dumps({**state, "noise": self.noise, "answers": self.answers}), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> MetricSession:
        """The session in a file that `save` wrote."""
        try:
            return cls(**json.loads(Path(path).read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise FairnessError(code="session-other") from error

    def _advance(self, given: str | float | None) -> None:
        try:
            self.question = next(self._work) if given is None else self._work.send(given)
        except StopIteration as done:
            self.question = None
            self.result = Submetric(done.value, self.alpha, self._comparisons, self._measured)

    @property
    def measurements(self) -> int:
        """How many distances are asked for at most, for each representative."""
        return math.ceil(max(1 / self.alpha, math.log2(max(self.items, 2)))) + 1

    def _run(self) -> Asking:
        found = np.zeros((self.items, self.items))
        for representative in self.representatives:
            others = [item for item in range(self.items) if item != representative]
            order = yield from _sorted(representative, others)
            low, high = yield from self._brackets(representative, order)
            found = np.maximum(found, _combined(low, high, self.alpha))
        return found

    def _brackets(self, representative: int, order: list[int]) -> Generator[Question, Any, tuple[Array, Array]]:
        """What is known about the distance of each item: a lower and an upper end."""
        low, high = np.zeros(self.items), np.zeros(self.items)
        if not order:
            return low, high
        known: dict[int, float] = {}

        def ask(place: int) -> Generator[Question, Any, None]:
            if place not in known:
                known[place] = yield DistanceQuestion(representative, order[place])

        yield from ask(0)
        yield from ask(len(order) - 1)
        while len(known) < self.measurements:
            # The widest bracket that still has items inside is halved.
            places = sorted(known)
            wide = [(known[b] - known[a], a, b) for a, b in itertools.pairwise(places) if b - a > 1]
            wide = [gap for gap in wide if gap[0] > self.alpha]
            if not wide:
                break
            _, a, b = max(wide)
            yield from ask((a + b) // 2)
        slack = self.noise * (1 + math.ceil(math.log2(max(len(order), 2)))) if self.noise else 0.0
        places = sorted(known)
        for place, item in enumerate(order):
            below = max(p for p in places if p <= place)
            above = min(p for p in places if p >= place)
            low[item] = max(min(known[below], known[above]) - slack, 0.0)
            high[item] = min(max(known[above], known[below]) + slack, 1.0)
        return low, high


def _combined(low: Array, high: Array, alpha: float) -> Array:
    """The distances that follow from brackets around d(r, u): by labels where all are narrow, else by what they exclude."""
    if (high - low <= alpha).all():
        return np.asarray(np.abs(low[:, None] - low[None, :]))
    apart = np.maximum(low[:, None] - high[None, :], low[None, :] - high[:, None])
    return np.asarray(np.maximum(apart, 0.0))


def _sorted(representative: int, items: list[int]) -> Generator[Question, Any, list[int]]:
    """Items by their distance to the representative; merge sort, at most n log2 n comparisons."""
    if len(items) < 2:
        return items
    middle = len(items) // 2
    left = yield from _sorted(representative, items[:middle])
    right = yield from _sorted(representative, items[middle:])
    merged: list[int] = []
    i = j = 0
    while i < len(left) and j < len(right):
        answer: Literal["first", "second", "too close to call"] = yield CloserQuestion(representative, left[i], right[j])
        if answer == SECOND:
            merged.append(right[j])
            j += 1
        else:
            merged.append(left[i])
            i += 1
    return merged + left[i:] + right[j:]


def learn_submetric(
    items: Sequence[Any], distance: Callable[[Any, Any], float], *, alpha: float, representatives: Sequence[int] = (0,),
    closer: Callable[[Any, Any, Any], str] | None = None, noise: float = 0.0,
) -> Submetric:  # fmt: skip
    """Ask an arbiter who is a function: `distance(r, x)`, and `closer(r, x, y)` which says "first", "second" or "too close to call".

    Without `closer` the comparisons are made from distances, as a stand-in for a person.
    """
    session = MetricSession(len(items), alpha, representatives, noise)
    while (question := session.question) is not None:
        centre = items[question.representative]
        if isinstance(question, DistanceQuestion):
            session.answer(float(distance(centre, items[question.item])))
            continue
        one, other = items[question.first], items[question.second]
        if closer is not None:
            session.answer(closer(centre, one, other))
        else:
            near, far = distance(centre, one), distance(centre, other)
            session.answer(TIE if near == far else FIRST if near < far else SECOND)
    assert session.result is not None  # a session without a question is complete
    return session.result
