"""Questions one at a time, for one price paid at the start: reuse what is known, learn what is not, and never run out.

A new count that follows from what was already published (it lies in the span of the measured questions) is answered from
it, with its own interval. Otherwise a sparse-vector test asks privately whether the current estimate answers it well
enough; only if not, the count is measured and the estimate learns from it by multiplicative weights (Hardt and Rothblum
2010). When all updates are used up, the estimate answers for ever, and nothing more is spent.

>>> import pathlib, tempfile
>>> import pyarrow as pa
>>> from tacit.ledger import Budget, Ledger
>>> from tacit.tables import Session, Unit
>>> from tacit.workloads import Product
>>> people = pa.table({"id": range(9000), "age": [30, 31, 70] * 3000})
>>> book = Ledger.open(f"sqlite:///{pathlib.Path(tempfile.mkdtemp()) / 'tacit.db'}")
>>> session = Session(people, unit=Unit("id", max_rows=1), budget=Budget(epsilon=1), name="people", ledger=book,
...     columns={"age": (0, 99)})
>>> desk = open_online(session, ["age"], epsilon=1, updates=3)
>>> first, again = desk.ask(Product(age=[(0, 49)]))[0], desk.ask(Product(age=[(0, 49)]))[0]
>>> first.source, again.source, again.value == first.value
('measured', 'known', True)
>>> float(session.left()["pure"])
0.0
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import ZCDP, Adjacency, Composed, Event, Guarantee, NoOp, PureDP
from tacit.errors import ParameterError
from tacit.exact import Typed, root
from tacit.ledger import HomeProcess, paying
from tacit.mechanisms import AboveThreshold, Law, NoisySums, Sparse, above_threshold
from tacit.parameters import count, positive
from tacit.tables import Cut, EngineError, Session
from tacit.workloads.adaptive import Given
from tacit.workloads.intervals import half_widths
from tacit.workloads.joint_strategy import JointStrategy, widened
from tacit.workloads.mwem import Mwem, updated
from tacit.workloads.plan import FEW_STEPS, WorkloadAnswer
from tacit.workloads.workload import Array, Cells, Wanted, Workload

#: The most cells: questions and what is known are kept as vectors over all of them.
MOST_CELLS = 4096
#: How far, relatively, a question may be from a combination of known ones that counts as one.
SPAN = 1e-9
#: Shares of the price: number of rows (where it is not public), sparse vector, measurements.
ROWS, TESTS = Fraction(1, 20), Fraction(1, 2)
#: Errors are compared in multiples of one over this many rows.
GRANULES = 16
#: How often all measurements are gone through after a new one, at most.
PASSES = 300

Source = Literal["known", "estimate", "measured"]


@dataclass(frozen=True)
class OnlineAnswer:
    """A count: its value, where it is from, and an interval of the noise; an estimate has none."""

    value: float
    source: Source
    low: float | None = None
    high: float | None = None


# --- what is known ---


@dataclass(frozen=True, eq=False)
class Known:
    """Published sums with independent noise: rows of weights over the cells, values, and the scale of each noise.

    A sum moves in steps of its granule, a row if nothing is said.
    """

    rows: Array
    values: Array
    scales: Array
    laws: tuple[Law, ...]
    granules: Array | None = None

    @property
    def steps(self) -> Array:
        """The granule of each sum."""
        return np.ones(len(self.values)) if self.granules is None else self.granules

    @staticmethod
    def nothing(cells: int) -> Known:
        """Before anything is published."""
        return Known(np.zeros((0, cells)), np.zeros(0), np.zeros(0), ())

    @staticmethod
    def of(answer: WorkloadAnswer) -> Known:
        """What a plan's run published, over the cells of its workload."""
        plan = answer.measured
        if type(plan.selection).released is not JointStrategy.released:
            raise ParameterError("what was published there are differences of noisy tables; only independent sums are reused")
        cells = plan.workload.cells
        if cells.total > MOST_CELLS:
            raise ParameterError(f"questions one at a time are over at most {MOST_CELLS} cells, and these are {cells.total}")
        names = list(cells.names)
        columns = []
        for place in range(cells.total):
            unit = np.zeros(cells.total, dtype=np.int64)
            unit[place] = 1
            table = unit.reshape(cells.shape)
            tables = {t: table.sum(axis=tuple(i for i, c in enumerate(names) if c not in t)) for t in plan.selection.tables}
            columns.append(np.concatenate([np.asarray(block).ravel() for block in plan.selection.measure(tables)]))
        values = np.concatenate([np.asarray(block).ravel() for block in answer.released]).astype(np.float64)
        sizes = [int(np.prod(shape)) for shape in plan.shapes]
        scales = np.repeat([plan.noise.spread(block) for block in range(len(sizes))], sizes)
        granules = np.full(len(values), 1 / plan.parts)
        return Known(np.array(columns, dtype=np.float64).T, values, scales, (plan.law,) * len(values), granules)

    def and_(self, other: Known) -> Known:
        """What is known from both."""
        return Known(
            np.vstack([self.rows, other.rows]), np.r_[self.values, other.values], np.r_[self.scales, other.scales], self.laws + other.laws,
            np.r_[self.steps, other.steps],
        )  # fmt: skip

    def combination(self, question: Array) -> Array | None:
        """The weights on the known values that answer the question with least variance; None outside the span.

        >>> known = Known(np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), np.array([10.0, 4.0]), np.ones(2), ("laplace",) * 2)
        >>> known.combination(np.array([1.0, 1.0, 1.0])).round(6).tolist(), known.combination(np.array([1.0, 0.0, 0.0]))
        ([1.0, 1.0], None)
        """
        if not len(self.values):
            return None
        deviations = self.scales * np.array([math.sqrt(2) if law == "laplace" else 1.0 for law in self.laws])
        scaled = self.rows / deviations[:, None]
        # Least variance: w = S^-1 A (A^T S^-1 A)^+ q
        weights = np.linalg.pinv(scaled, rcond=1e-12).T @ question / deviations
        if float(np.abs(weights @ self.rows - question).max()) > SPAN * max(1.0, float(np.abs(question).max())):
            return None
        return np.asarray(weights)

    def answer(self, question: Array, confidence: float) -> OnlineAnswer | None:
        """The answer of a question in the span; None outside. It depends on published things only."""
        weights = self.combination(question)
        if weights is None:
            return None
        parts = (weights * self.scales) ** 2
        if all(law == "gaussian" for law in self.laws):
            wide = float(half_widths(np.array([parts.sum()]), None, "gaussian", confidence)[0])
        else:  # a Gaussian part is a little lighter than the Laplace one that stands for it here
            twice = np.where([law == "laplace" for law in self.laws], parts, parts / 2)
            wide = float(half_widths(np.array([twice.sum()]), np.array([(twice**2).sum()]), "laplace", confidence)[0])
            used = np.abs(weights) > 1e-12
            finest = float((self.scales / self.steps).min())
            if int(used.sum()) == 1:  # one sum moves in steps: the least number of them that covers
                step = float(np.abs(weights[used] * self.steps[used])[0])
                wide = step * math.ceil(wide / step - 0.5 - 1e-9)
            elif finest < FEW_STEPS:  # as a plan's intervals
                square, fourth = float(twice.sum()), float((twice**2).sum())
                wide += math.sqrt(fourth / square) / finest / 2 * math.sqrt(fourth) / square
        value = float(weights @ self.values)
        return OnlineAnswer(value, "known", value - wide, value + wide)


# --- prices ---


@dataclass(frozen=True)
class OnlinePrice:
    """What opening costs: the sparse vector, `updates` measurements and, where it is not public, the number of rows.

    Guarantee
        Statement: all answers together, however many, and however questions depend on answers before, cost `event`.
        Conditions: a question counts rows (weights 0 and 1), so that a unit moves it by at most `reach`; whether a question is in
        the span, and the estimate, depend on published things only.
        Proved in: `tacit.mechanisms.above_threshold` for the tests; each "above" is followed by one measurement of its own price;
        composition. Answers in the span and from the estimate are post-processing.
    """

    tests: AboveThreshold
    measurement: NoisySums
    updates: int
    measured: Event
    rows: Fraction | int
    public: bool
    reach: int
    in_rho: bool
    adjacency: Adjacency

    @property
    def event(self) -> Event:
        """All that is ever spent."""
        parts = [self._stated(Fraction(self.tests.epsilon)), self.measured]
        if not self.public:
            parts.insert(0, self._stated(Fraction(self.rows)))
        return Composed(*parts)

    def _stated(self, epsilon: Fraction) -> Event:
        if self.in_rho:
            return ZCDP(epsilon**2 / 2, adjacency=self.adjacency)
        return PureDP(epsilon, adjacency=self.adjacency)


def online_price(
    guarantee: Guarantee, *, updates: int = 20, within: float | None = None, expected_rows: int | None = None, reach: int = 1,
    replaced: bool = False,
) -> OnlinePrice:  # fmt: skip
    """The prices of questions one at a time. `within` is the error above which the estimate learns.

    >>> online_price(Guarantee(epsilon=1), expected_rows=1000).event
    Composed(PureDP(epsilon=Fraction(1, 2)), PureDP(epsilon=Fraction(1, 2)))
    """
    spend = guarantee.positive()
    if spend.laplace_epsilon is None:
        raise ParameterError(f"questions one at a time have no price in {spend}; give epsilon or rho")
    adjacency = Adjacency.REPLACE_ONE if replaced else Adjacency.ADD_REMOVE
    public = expected_rows is not None
    moved, turns = count("reach", reach) * (2 if replaced else 1), count("updates", updates)
    first = Fraction(0) if public else ROWS
    tests = spend.share(TESTS).laplace_epsilon
    bought = spend.share(first).laplace_epsilon if first else Fraction(0)
    left = spend.share(1 - TESTS - first)
    assert tests is not None and bought is not None and left.laplace_epsilon is not None
    in_rho = spend.rho is not None
    if left.rho is not None:
        noise = NoisySums.of_multiplier("gaussian", root(turns / (2 * left.rho)), moved=moved, adjacency=adjacency)
        measured: Event = ZCDP(left.rho, adjacency=adjacency)
    else:
        noise = NoisySums.of_multiplier("laplace", turns / left.laplace_epsilon, moved=moved, adjacency=adjacency)
        measured = PureDP(left.laplace_epsilon, adjacency=adjacency)
    plain = above_threshold(tests, 0, turns, sensitivity=moved, granularity=Fraction(1, GRANULES))
    bar = plain.accuracy(0.1, questions=100) if within is None else positive("within", within)
    sparse = above_threshold(tests, Fraction(bar), turns, sensitivity=moved, granularity=Fraction(1, GRANULES))
    rows = count("expected_rows", expected_rows) if expected_rows is not None else bought
    return OnlinePrice(sparse, noise, turns, measured, rows, public, moved, in_rho, adjacency)


# --- questions ---


@dataclass(eq=False, repr=False)
class Online:
    """An open desk for counts over cells. Everything was paid for when it was opened; `left` says how many updates remain."""

    cells: Cells
    price: OnlinePrice
    known: Known
    rows: int
    confidence: float
    _counts: NDArray[Any]
    _sparse: Sparse
    estimate: Array
    private: bool = True
    entry: int | None = None
    _learnt: list[tuple[Array, float]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _home: HomeProcess = field(default_factory=HomeProcess)

    def __repr__(self) -> str:
        return f"Online({', '.join(self.cells.names)}; {self.left} of {self.price.updates} updates left)"

    @property
    def left(self) -> int:
        """The updates that are left. When there are none, the estimate answers for ever."""
        return int(self._sparse.left)

    @staticmethod
    def on_counts(
        counts: NDArray[Any], cells: Cells, price: OnlinePrice, *, known: Known | None = None, confidence: float = 0.95
    ) -> Online:
        """On a table of counts. The caller has paid `price.event`."""
        table = widened(np.asarray(counts), GRANULES).ravel()
        rows = int(price.rows)
        if not price.public:
            rows = NoisySums.of_multiplier("laplace", 1 / Fraction(price.rows), moved=price.reach).add(int(table.sum()))
        start = np.full(cells.total, max(1, rows) / cells.total)
        sparse = Sparse(price.tests, Fraction(price.tests.granularity))
        return Online(cells, price, known or Known.nothing(cells.total), rows, confidence, table, sparse, start)

    def ask(self, wanted: Wanted) -> list[OnlineAnswer]:
        """The answers of all questions, in their order; each is a count of rows in some of the cells."""
        workload = wanted.on(self.cells)
        rows = questions(workload)
        return [self._answer(row) for row in rows]

    def _answer(self, question: Array) -> OnlineAnswer:
        with self._lock:
            found = self.known.answer(question, self.confidence)
            if found is not None:
                return found
            guess = float(question @ self.estimate)
            if self._sparse.halted:
                return OnlineAnswer(guess, "estimate")
            self._home.insist()
            with paying(None, NoOp(), error=EngineError) as payment:
                exact = int(self._counts[question > 0].sum())
                off = abs(exact * GRANULES - round(guess * GRANULES))
                value = self.price.measurement.add(exact) if self._sparse.ask(off) else None
            self.private &= payment.private
            if value is None:
                return OnlineAnswer(guess, "estimate")
            noise = self.price.measurement
            fresh = Known(question[None, :], np.array([float(value)]), np.array([float(noise.scales[0])]), (noise.law,))
            self.known = self.known.and_(fresh)
            self._learn(question, float(value))
            wide = noise.error(self.confidence)
            return OnlineAnswer(float(value), "measured", value - wide, value + wide)

    def _learn(self, question: Array, value: float) -> None:
        """Go through all measurements, published already, until the estimate agrees with them within a row."""
        self._learnt.append((question, value))
        for _ in range(PASSES):
            if all(abs(float(weights @ self.estimate) - measured) <= 1 for weights, measured in self._learnt):
                break
            for weights, measured in self._learnt:
                self.estimate = updated(self.estimate, [weights], measured, float(max(1, self.rows)))


def questions(workload: Workload) -> list[Array]:
    """Each question of a workload as weights 0 and 1 over all cells, flat.

    >>> from tacit.workloads.workload import Prefix, Product
    >>> [row.tolist() for row in questions(Product(a=Prefix).on(Cells.of({"a": 2, "b": 2})))]
    [[1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]]
    """
    if workload.questions > 10_000:
        raise ParameterError(f"{workload.questions} questions at once are a workload: tacit.workloads.plan answers them together")
    noise = NoisySums.of_scale("laplace", 1)
    rows = Mwem(workload, 1, Fraction(1), noise, 1, 1, True)
    found = []
    for place in range(workload.questions):
        along = rows.question(place)
        whole = along[0]
        for own in along[1:]:
            whole = np.multiply.outer(whole, own)
        if not ((whole == 0) | (whole == 1)).all():
            raise ParameterError("a question asked one at a time counts rows: its weights must be 0 or 1")
        found.append(np.asarray(whole, dtype=np.float64).ravel())
    return found


def open_online(
    session: Session, columns: Sequence[str], *, guarantee: Guarantee | str | None = None, epsilon: Typed | None = None,
    delta: Typed | None = None, rho: Typed | None = None, cells: Given | None = None, rows: str | None = None,
    updates: int = 20, within: float | None = None, expected_rows: int | None = None, known: Sequence[WorkloadAnswer] = (),
    purpose: str = "",
) -> Online:  # fmt: skip
    """Pay once, count once, and answer questions about some columns of a session's table one at a time.

    `known` are answers of plans over the same columns, in the same order; what follows from them is free. `within` is the error
    above which the estimate learns, `updates` how often it may. The counts stay in this process, so keep the object to yourself.
    """
    if not isinstance(session, Session):
        raise ParameterError(f"session must be a tacit.Session, not {type(session).__name__}")
    spend = session.spend_of(guarantee, epsilon=epsilon, delta=delta, rho=rho, mu=None)
    given = dict(cells or {})
    cut = Cut.of(session.desk, {name: given.get(name) for name in columns}, rows=rows)
    shape = Cells.of({name: list(found) for name, found in cut.names.items()})
    if shape.total > MOST_CELLS:
        raise ParameterError(f"questions one at a time are over at most {MOST_CELLS} cells, and these are {shape.total}")
    replaced = session.unit.adjacency is Adjacency.REPLACE_ONE
    price = online_price(spend, updates=updates, within=within, expected_rows=expected_rows, reach=cut.reach, replaced=replaced)
    heard = Known.nothing(shape.total)
    for answer in known:
        if answer.measured.workload.cells.names != shape.names:
            raise ParameterError("known answers must be about the same columns and cells, in the same order")
        heard = heard.and_(Known.of(answer))
    with session.paying(price.event, spend, purpose) as payment:
        counts = cut.counts([tuple(columns)])[tuple(columns)]
        found = Online.on_counts(counts, shape, price, known=heard, confidence=session.desk.confidence)
    found.private, found.entry = payment.private, payment.entry
    return found
