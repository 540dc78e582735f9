"""MWEM: measure, again and again, the question that the estimate answers worst, and learn from it by multiplicative weights.

For many questions over many cells at a small price, where measuring everything would drown in noise (Hardt, Ligett and
McSherry 2012). The estimate starts flat or from a public table; every round chooses one question by the exponential
mechanism, measures it, and replays all measurements so far. The last estimate answers everything. Answers are biased
towards the start and have no intervals. For few cells the plain plan is better.

>>> from tacit.accounting import Guarantee
>>> from tacit.workloads.workload import AllRanges, Cells, Product
>>> plan = with_mwem(Product(age=AllRanges).on(Cells.of({"age": 64})), Guarantee(epsilon=1), rounds=5, expected_rows=1000)
>>> counts = np.rint(1000 * np.exp(-(((np.arange(64) - 20) / 6) ** 2) / 2) / 15).astype(np.int64)
>>> record = plan.draw({("age",): counts})
>>> len(record["asked"]), plan.estimate(record).shape
(5, (64,))
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import ZCDP, Adjacency, Composed, Event, Guarantee, PureDP, Repeated
from tacit.calculus import Integers, LInfinity, Space, Vectors
from tacit.errors import ParameterError
from tacit.exact import Typed
from tacit.mechanisms import NoisySums, exponential
from tacit.parameters import count
from tacit.tables import Session
from tacit.workloads.adaptive import AdaptivePlan, Given, Record, planned
from tacit.workloads.joint_strategy import MOST_ROWS, widened
from tacit.workloads.plan import TermAnswers
from tacit.workloads.strategy import range_ends
from tacit.workloads.workload import Array, Factor, Wanted, Workload

#: Scores are multiples of one over this many rows.
GRANULES = 16
#: The most cells, and the most questions.
MOST_CELLS, MOST_QUESTIONS = 2**22, 2**23
#: The share of the price that buys the number of rows where it is not public.
ROWS = Fraction(1, 20)

Output = Literal["last", "average"]


@dataclass(frozen=True, eq=False)
class Mwem:
    """Questions with the prices of a round. `replay` is how often past measurements are gone through after a round.

    Guarantee
        Statement: `draw` costs `event`: every round an exponential mechanism and one noisy count, and the number of rows.
        Conditions: all questions have whole weights of at most `largest`; a unit has at most `reach` rows, so that it moves
        every score by at most reach * largest; the estimate depends on published numbers only.
        Proved in: Hardt, Ligett and McSherry 2012, Theorem 2.1; composition. Replaying and the last estimate are
        post-processing.
        Correction: the bound of 4.7.3 lacks an exponent (erratum E12), and fractions need a public or paid number of rows (E22).
    """

    workload: Workload
    rounds: int
    choice: Fraction  # epsilon of one choice
    measurement: NoisySums
    reach: int
    rows: Fraction | int  # the epsilon that buys the number of rows; or that number, if it is public
    public: bool
    replaced: bool = False
    in_rho: bool = False
    replay: int = 20
    output: Output = "last"
    start: Array | None = field(default=None, repr=False)

    @property
    def adjacency(self) -> Adjacency:
        """Which tables are neighbours."""
        return Adjacency.REPLACE_ONE if self.replaced else Adjacency.ADD_REMOVE

    @property
    def event(self) -> Event:
        """Choices, measurements and, where it is not public, the number of rows; known before the data is touched."""
        if self.in_rho:
            # A bounded range of epsilon is epsilon^2 / 8 of rho (Cesar and Rogers 2021), half of the price of a round.
            round_ = ZCDP(self.choice**2 / 4, adjacency=self.adjacency)
            parts: list[Event] = [Repeated(round_, self.rounds)]
            rows: Event = ZCDP(Fraction(self.rows) ** 2 / 2, adjacency=self.adjacency)
        else:
            parts = [Repeated(PureDP(2 * self.choice, adjacency=self.adjacency), self.rounds)]
            rows = PureDP(Fraction(self.rows), adjacency=self.adjacency)
        return parts[0] if self.public else Composed(rows, *parts)

    @property
    def tables(self) -> list[tuple[str, ...]]:
        """The one table of counts that is needed."""
        return [tuple(self.workload.cells.names)]

    @cached_property
    def largest(self) -> int:
        """The largest weight that a question has on a cell."""
        return max(math.prod(_largest(factor) for _, factor in term.factors) for term in self.workload.terms)

    def draw(self, counts: Mapping[tuple[str, ...], NDArray[Any]]) -> Record:
        """The questions that were measured and their noisy answers. The caller has paid."""
        table = widened(counts[self.tables[0]], self.largest * GRANULES)
        rows = int(self.rows)
        if not self.public:
            rows = NoisySums.of_multiplier("laplace", 1 / Fraction(self.rows), moved=self.reach).add(int(table.sum()))
        exact = self._exact(table)
        moved = self.reach * self.largest * GRANULES
        space = Space(Vectors(Integers(), len(exact)), LInfinity())
        chooser = exponential(self.choice / moved).bind(space)
        record: Record = {"rows": rows, "asked": [], "values": []}
        asked: list[tuple[list[Array], int]] = []
        now = self._begin(rows)
        for _ in range(self.rounds):
            scores = np.abs(exact * GRANULES - self._guessed(now, table.dtype))
            pick = int(chooser.release(scores, moved).value)
            value = int(self.measurement.add(int(exact[pick])))
            record["asked"].append(pick)
            record["values"].append(value)
            asked.append((self.question(pick), value))
            now = self._learnt(now, asked, rows)
        return record

    def _exact(self, table: NDArray[Any]) -> NDArray[Any]:
        """The true answers, in whole numbers of the table's type.

        Float sums are exact up to 2^53. Beyond, a rounding could move an answer further than a person's rows may.
        """
        if self.largest * MOST_ROWS <= 2**53:
            return self._flat(self.workload.answers(table)).astype(table.dtype)
        found = []
        for term in self.workload.terms:
            own = table.sum(axis=tuple(i for i, c in enumerate(self.workload.cells.names) if c not in term.columns))
            told = self.workload.told(term)
            for axis, (_, factor) in enumerate(told):
                if range_ends(factor) is None:
                    rows = np.vectorize(int, otypes=[object])(factor.matrix())
                    own = np.moveaxis(np.tensordot(rows, own.astype(object), axes=(1, axis)), 0, axis)
                else:
                    own = factor.answer(own, axis)
            order = [list(dict(told)).index(column) for column in term.columns]
            found.append(np.transpose(own, order) if order else np.asarray(own))
        return self._flat(found).astype(table.dtype)

    def _guessed(self, now: Array, kind: np.dtype[Any]) -> NDArray[Any]:
        """What the estimate answers, in granules, kept where scores do not overflow, which would turn their order around."""
        most = self.largest * GRANULES * MOST_ROWS
        found = np.clip(np.nan_to_num(np.rint(self._flat(self.workload.answers(now)) * GRANULES)), -most, most)
        return np.array([int(value) for value in found], dtype=object) if kind.hasobject else found.astype(kind)

    @staticmethod
    def _flat(answers: Sequence[NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate([own.ravel() for own in answers])

    def question(self, index: int) -> list[Array]:
        """The weights of one question along each column, in the order of the cells."""
        for term in self.workload.terms:
            if index < term.questions:
                places = dict(zip(term.columns, np.unravel_index(index, term.shape), strict=True))
                return [_row(factor, int(places.get(name, 0))) for name, factor in self.workload.factors(term)]
            index -= term.questions
        raise AssertionError("there are fewer questions")

    def _begin(self, rows: int) -> Array:
        now = np.ones(self.workload.cells.shape) if self.start is None else self.start
        return np.asarray(now * (max(1, rows) / now.sum()))

    def _learnt(self, now: Array, asked: list[tuple[list[Array], int]], rows: int) -> Array:
        """The estimate after one more measurement, the last of `asked`."""
        if not self.replay:
            return updated(now, *asked[-1], float(max(1, rows)))
        for _ in range(self.replay):
            for weights, value in asked:
                now = updated(now, weights, value, float(max(1, rows)))
        return now

    def estimate(self, record: Record) -> Array:
        """The estimated counts of all cells, from what was published."""
        rows, asked = record["rows"], [(self.question(i), value) for i, value in zip(record["asked"], record["values"], strict=True)]
        now = self._begin(rows)
        total = np.zeros_like(now)
        for known in range(1, len(asked) + 1):
            now = self._learnt(now, asked[:known], rows)
            total += now
        return total / len(asked) if self.output == "average" and asked else now

    def answers(self, record: Record) -> list[TermAnswers]:
        """The figures of every term. How far they are off is not known: the intervals are empty (NaN)."""
        values = self.workload.answers(self.estimate(record))
        return [
            TermAnswers(self.workload.cells, term, np.asarray(own), np.full(term.shape, math.nan))
            for term, own in zip(self.workload.terms, values, strict=True)
        ]

    def describe(self) -> str:
        """In a few words, for reports."""
        return f"MWEM: {self.rounds} rounds of measuring the question that is answered worst"


def updated(now: Array, weights: list[Array], value: float, rows: float) -> Array:
    """One step of multiplicative weights towards a measured answer.

    >>> updated(np.array([50.0, 50.0]), [np.array([1.0, 0.0])], 80, 100).round(2).tolist()
    [53.74, 46.26]
    """
    along = now
    for own in weights:
        along = np.tensordot(own, along, axes=(0, 0))
    step = (value - float(along)) / (2 * rows)
    whole = weights[0]
    for own in weights[1:]:
        whole = np.multiply.outer(whole, own)
    # A noisy answer may lie far outside; the exponent is kept where exp is finite.
    found = now * np.exp(np.clip(whole * step, -50.0, 50.0))
    return np.asarray(found * (rows / found.sum()))


def _largest(factor: Factor) -> int:
    if range_ends(factor) is not None:
        return 1
    matrix = factor.matrix()
    if not (matrix == np.rint(matrix)).all():
        raise ParameterError("MWEM takes questions with whole weights; multiply these until they are")
    return max(1, int(np.abs(matrix).max()))


def _row(factor: Factor, place: int) -> Array:
    ends = range_ends(factor)
    if ends is None:
        return np.asarray(factor.matrix()[place])
    cells = np.arange(factor.size)
    return np.asarray((cells >= ends[0][place]) & (cells <= ends[1][place]), dtype=np.float64)


def with_mwem(
    workload: Workload, guarantee: Guarantee, *, rounds: int | None = None, expected_rows: int | None = None,
    start: Any = None, replay: int = 20, output: Output = "last", reach: int = 1, replaced: bool = False,
) -> Mwem:  # fmt: skip
    """MWEM for a workload. No data is touched.

    `rounds` is 10 if left out, or with `expected_rows`, a public number of rows, where the bound on the error is least.
    Without it a twentieth of the price buys the number. `start` is a public table of the cells' shape, such as last
    year's. A price with delta is used without it.

    >>> from tacit.workloads.workload import Cells, Marginals
    >>> tables = Marginals("a", "b", "c", ways=2).on(Cells.of({"a": 10, "b": 10, "c": 10}))
    >>> with_mwem(tables, Guarantee(epsilon=1), expected_rows=10_000).rounds
    60
    """
    spend = guarantee.positive()
    narrow = workload.narrowed()
    if narrow.cells.total > MOST_CELLS or narrow.questions > MOST_QUESTIONS:
        raise ParameterError(f"MWEM takes at most {MOST_CELLS} cells and {MOST_QUESTIONS} questions; ask about fewer columns or cells")
    if output not in ("last", "average"):
        raise ParameterError(f"output must be 'last' or 'average', not {output!r}")
    begin = None
    if start is not None:
        begin = np.array(start, dtype=np.float64)
        if begin.shape != narrow.cells.shape or not (np.isfinite(begin) & (begin > 0)).all():
            raise ParameterError(f"start must have the shape {narrow.cells.shape} and hold numbers greater than 0 only")
    whole = spend.laplace_epsilon
    if whole is None:
        raise ParameterError(f"MWEM has no price in {spend}; give epsilon or rho")
    public = expected_rows is not None
    moved = count("reach", reach) * (2 if replaced else 1)
    turns = count("rounds", rounds) if rounds is not None else 10
    if rounds is None and expected_rows is not None:
        turns = best_rounds(expected_rows / moved * float(whole), narrow.cells.total, narrow.questions)
    in_rho = spend.rho is not None
    adjacency = Adjacency.REPLACE_ONE if replaced else Adjacency.ADD_REMOVE
    part = spend.share((1 - (0 if public else ROWS)) / Fraction(turns)).laplace_epsilon
    bought = Fraction(0) if public else spend.share(ROWS).laplace_epsilon
    assert part is not None and bought is not None
    # A round of rho r is a choice of epsilon^2 / 8 = r / 2 and noise of 1 / (2 sigma^2) = r / 2: epsilon = sqrt(4 r), part^2 / 2 = r.
    choice = _root_below(2 * part**2) if in_rho else part / 2
    probe = Mwem(narrow, turns, choice, NoisySums.of_scale("laplace", 1), moved, Fraction(1), True)
    far = moved * probe.largest
    law: Literal["laplace", "gaussian"] = "gaussian" if in_rho else "laplace"
    noise = NoisySums.of_multiplier(law, 2 / choice if in_rho else 1 / choice, moved=far, adjacency=adjacency)
    rows = count("expected_rows", expected_rows) if expected_rows is not None else bought
    return Mwem(narrow, turns, choice, noise, moved, rows, public, replaced, in_rho, replay, output, begin)


def _root_below(value: Fraction) -> Fraction:
    """A fraction at most the square root, to forty binary digits."""
    scale = 2**60
    return Fraction(math.isqrt(math.floor(value * scale * scale)), scale)


def best_rounds(strength: float, cells: int, questions: int) -> int:
    """Where 2 n sqrt(ln cells / T) + 10 T ln questions / epsilon is least, for n * epsilon = strength.

    >>> best_rounds(10_000, 1024, 1000)
    53
    """
    found = (strength / 10) ** (2 / 3) * math.log(max(2, cells)) ** (1 / 3) / math.log(max(2, questions)) ** (2 / 3)
    return max(1, round(float(found)))


def plan_mwem(
    session: Session, wanted: Wanted, *, guarantee: Guarantee | str | None = None, epsilon: Typed | None = None,
    delta: Typed | None = None, rho: Typed | None = None, cells: Given | None = None, rows: str | None = None,
    rounds: int | None = None, expected_rows: int | None = None, start: Any = None, purpose: str = "",
) -> AdaptivePlan:  # fmt: skip
    """Plan questions about a session's table by MWEM. Nothing is spent and no data is touched.

    `cells` and `rows` are those of `plan`, the others those of `with_mwem`. See `tacit.workloads.adaptive` for an example with DAWA.
    """

    def make(workload: Workload, spend: Guarantee, reach: int, replaced: bool, confidence: float) -> Mwem:
        return with_mwem(workload, spend, rounds=rounds, expected_rows=expected_rows, start=start, reach=reach, replaced=replaced)

    return planned(
        session, wanted, make, guarantee=guarantee, epsilon=epsilon, delta=delta, rho=rho, cells=cells, rows=rows, purpose=purpose
    )
