"""Plan many questions at once, pay once, and answer all of them consistently, each with its interval.

`plan` takes a session (or a desk) and what is wanted by the names of columns. It chooses what to measure and with
which noise by the computed error, and tells price and expected error without touching the data. `run` pays from the
session's account, counts everything with one statement, and adds noise once.

>>> import pathlib, tempfile
>>> import pyarrow as pa
>>> from tacit.ledger import Budget, Ledger
>>> from tacit.tables import Session, Unit
>>> from tacit.workloads import Marginals
>>> people = pa.table({"id": range(900), "sex": ["f", "m", "f"] * 300, "region": ["N", "S", "S"] * 300})
>>> book = Ledger.open(f"sqlite:///{pathlib.Path(tempfile.mkdtemp()) / 'tacit.db'}")
>>> session = Session(people, unit=Unit("id", max_rows=1), budget=Budget(rho=1), name="people", ledger=book,
...     columns={"sex": ["f", "m"], "region": ["N", "S"]})
>>> pairs = plan(session, Marginals("sex", "region", up_to=2), rho=0.1)
>>> round(float(pairs.event.noise_multiplier), 3), round(pairs.expected_error, 2)
(2.236, 2.65)
>>> pairs.run().table("sex", "region").column_names
['sex', 'region', 'value', 'low', 'high']
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tacit.accounting import Adjacency, Event, Guarantee
from tacit.errors import ParameterError
from tacit.exact import Typed, at_most
from tacit.mechanisms import Law, NoisySums
from tacit.tables import Brackets, Cut, Desk, Periods, Session
from tacit.workloads.bounds import warnings_for
from tacit.workloads.intervals import half_widths, lifts
from tacit.workloads.joint_strategy import Answers, JointStrategy, best, candidates, unit_error, wider_than_64_bits
from tacit.workloads.reconstruct import whole_figures
from tacit.workloads.workload import Array, Cells, Term, Wanted, Workload

#: Noise of a smaller scale, in steps of its sums, is too coarse to be taken as smooth.
FEW_STEPS = 0.3
#: Sums are counted in parts of a row so fine that the least scale has at least so many of them.
FINE_STEPS = 16
#: Scales have at most so many binary digits, so that the event is short to write down.
DIGITS = 60


@dataclass(frozen=True, eq=False)
class Measured:
    """A workload with what is measured for it and the noise: everything but the data.

    `noise` holds price and draw of all sums together. Its granule, the same for all blocks, is a row where noise is wide, and a binary
    fraction of a row where noise of whole rows would be so coarse that no interval could cover as often as it says.
    """

    workload: Workload
    selection: JointStrategy
    law: Law
    noise: NoisySums
    scale: float  # of noise at weight 1
    confidence: float = 0.95

    @property
    def event(self) -> Event:
        """What is done to the data."""
        return self.noise.event

    @cached_property
    def total_error(self) -> float:
        """The weighted sum of the expected squared errors of all answers."""
        variance = self.scale**2 * (2 if self.law == "laplace" else 1)
        return variance * self.selection.error(self.workload)

    @property
    def expected_error(self) -> float:
        """The root of the mean squared error over all answers; terms count by their weights."""
        return math.sqrt(self.total_error / sum(t.weight * t.questions for t in self.workload.terms))

    def draw(self, counts: Mapping[tuple[str, ...], NDArray[Any]]) -> list[NDArray[Any]]:
        """The noisy sums in rows, whole numbers or binary fractions: what may be published. The caller has paid."""
        # A total by itself is an array without an axis, which comes back as one number.
        noisy = [np.asarray(self.noise.add(block, i)).reshape(block.shape) for i, block in enumerate(self.sums(counts))]
        found = self.selection.released(noisy)
        return found if self.parts == 1 else [np.asarray(block / self.parts, dtype=np.float64) for block in found]

    def sums(self, counts: Mapping[tuple[str, ...], NDArray[Any]]) -> list[NDArray[Any]]:
        """The exact sums of every block in granules, which noise is added to: private."""
        found = self.selection.measure(counts)
        if self.parts == 1:
            return found
        wide = wider_than_64_bits(self.selection.largest * self.parts)
        return [(block.astype(object) if wide else block) * self.parts for block in found]

    @property
    def parts(self) -> int:
        """The granules of a row: 1, or a power of two."""
        return int(1 / self.noise.granularities[0])

    def of_whole_rows(self) -> Measured:
        """The same sums with noise rounded to whole rows, as they were published before granules were finer."""
        noise = replace(self.noise, scales=tuple(scale / self.parts for scale in self.noise.scales), granularities=())
        return replace(self, noise=noise)

    def widths(self, confidence: float) -> list[float]:
        """How far the answers of each term may be off, on average over them, with this confidence."""
        zeros = [np.zeros(block) for block in self.shapes]
        found = self.selection.answers(self.workload, zeros, self.law)
        return [float(self._widths(a, confidence).mean()) for a in found]

    def _widths(self, own: Answers, confidence: float) -> Array:
        """How far each answer may be off.

        Laplace noise is rounded to granules, so an answer of one sum moves in steps, and the width of the smooth law may end just
        below one: it is moved to the least step that covers. Steps are a sixteenth of the scale at most, so that this covers 95.3 % where
        95 % are asked. In figures of whole rows, published before granules were finer, steps may be coarse: answers of one sum cover
        more then, combinations of several are taken as smooth down to a scale of a third of a step and get part of a step more below.
        """
        widths = half_widths(own.squares, own.fourths, self.law, confidence) * self.scale
        if self.law != "laplace" or own.fourths is None:
            return widths
        weight = float(max(self.selection.weights)) / self.parts
        step = np.sqrt(own.fourths / np.maximum(own.squares, 1e-300)) * weight
        alone = (own.fourths > (1 - 1e-9) * own.squares**2) & (step > 0)
        # |noise| rounds to at most k steps where it is below k + 1/2
        whole = step * np.ceil(widths / np.maximum(step, 1e-300) - 0.5 - 1e-9)
        part = step / 2 * np.sqrt(own.fourths) / np.maximum(own.squares, 1e-300) if self.scale < FEW_STEPS * weight else 0.0
        return np.where(alone, whole, widths * math.sqrt(self.rounding) + part)

    @cached_property
    def rounding(self) -> float:
        """What rounding to granules makes of the variance: next to 1, but 1.04 where a scale is one granule; mean over blocks.

        `expected_error` is that of smooth noise; squared errors that are drawn are this much larger.
        """
        return float(np.mean([rounded_variance(self.law, float(scale)) for scale in self.noise.scales]))

    @cached_property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of what is published: known without data."""
        sizes = self.workload.cells.sizes
        empty = {t: np.zeros(tuple(sizes[c] for c in t), dtype=np.int64) for t in self.selection.tables}
        return [block.shape for block in self.selection.released(self.selection.measure(empty))]

    def answers(self, released: Sequence[NDArray[Any]]) -> list[TermAnswers]:
        """The figures of every term, by least squares, with intervals. No data is touched."""
        found = []
        for term, own in zip(
            self.workload.terms, self.selection.answers(self.workload, released, self.law), strict=True
        ):
            widths = self._widths(own, self.confidence)
            lifted = lifts(own.squares, own.fourths, self.law) * self.scale
            found.append(TermAnswers(self.workload.cells, term, own.values, widths, lifted))
        return found


@dataclass(frozen=True, eq=False)
class TermAnswers:
    """The answers of one term, in an array with one axis for each of its columns, and how far each may be off.

    `lifts` is what an answer that is truly 0 gains, at most and on average, when figures below 0 are moved to 0; None where what was
    measured follows the data, and that is not known.
    """

    cells: Cells
    term: Term
    values: Array
    widths: Array
    lifts: Array | None = None

    def to_arrow(self, whole: NDArray[Any] | None = None) -> pa.Table:
        """One line for each answer: what it asks about every column, value, low, high; and the whole figure if given."""
        labels = [factor.labels(self.cells.names[column]) for column, factor in self.term.factors]
        columns: dict[str, Any] = {}
        for axis, (column, names) in enumerate(zip(self.term.columns, labels, strict=True)):
            shape = [1] * len(labels)
            shape[axis] = len(names)
            spread = np.broadcast_to(np.array(names, dtype=object).reshape(shape), self.values.shape)
            columns[column] = pa.array(spread.ravel().tolist(), pa.string())
        values, widths = self.values.ravel(), self.widths.ravel()
        columns |= {"value": values, "low": values - widths, "high": values + widths}
        return pa.table(columns if whole is None else {**columns, "whole": whole.ravel()})


def measured(
    workload: Workload, guarantee: Guarantee, *, reach: int = 1, replaced: bool = False, law: Law | None = None,
    confidence: float = 0.95, select: Callable[[Workload, Law], JointStrategy] = best,
) -> Measured:
    """The plan of least computed error for a price, over both laws of noise where the price allows both.

    >>> from tacit.workloads.workload import AllRanges, Cells, Product
    >>> ranges = Product(age=AllRanges).on(Cells.of({"age": 64}))
    >>> found = measured(ranges, Guarantee(epsilon=1))
    >>> found.law, found.expected_error < 5.6
    ('laplace', True)
    """
    spend = guarantee.positive()
    if law not in (None, "laplace", "gaussian"):
        raise ParameterError(f"law must be 'laplace' or 'gaussian', or left out to have the better one, not {law!r}")
    adjacency = Adjacency.REPLACE_ONE if replaced else Adjacency.ADD_REMOVE
    narrow = workload.narrowed()
    found: list[Measured] = []
    if law in (None, "gaussian") and spend.noise_multiplier is not None:
        found.append(_noisy(narrow, "gaussian", spend, spend.noise_multiplier, reach, adjacency, confidence, select))
    if law in (None, "laplace") and spend.laplace_epsilon is not None:
        # Under a price with delta Laplace noise is the better one only where few sums are measured.
        few = law == "laplace" or spend.pure or narrow.cells.total <= 4096
        if few or not found:
            found.append(_noisy(narrow, "laplace", spend, 1 / spend.laplace_epsilon, reach, adjacency, confidence, select))
    if not found:
        raise ParameterError(f"{law or 'this'} noise has no price in {spend}; give epsilon with delta, rho or mu")
    return min(found, key=lambda one: one.total_error)


def _noisy(
    workload: Workload, law: Law, spend: Guarantee, multiplier: Fraction, reach: int, adjacency: Adjacency, confidence: float,
    select: Callable[[Workload, Law], JointStrategy],
) -> Measured:
    chosen = select(workload, law)
    moved = reach * (2 if adjacency is Adjacency.REPLACE_ONE else 1) * chosen.norm(law)
    while True:
        base = short(multiplier * moved)
        scales = tuple(base / weight for weight in chosen.weights)
        # The largest float below the ratio: a short number to write down, and never above the truth.
        joint = base / moved if law == "laplace" else Fraction(at_most(base / moved))
        granule = Fraction(1)
        while min(scales) < FINE_STEPS * granule:
            granule /= 2
        noise = NoisySums(law, tuple(scale / granule for scale in scales), joint, adjacency, (granule,) * len(scales))
        if spend.admits(noise.event, adjacency):
            return Measured(workload, chosen, law, noise, float(base), confidence)
        multiplier *= 1 + Fraction(1, 2**28)  # what roundings and the bracket's own width may cost


def rounded_variance(law: Law, scale: float) -> float:
    """The variance of noise rounded to whole numbers, over that of the noise.

    For Laplace noise P(|K| >= k) = q^(k - 1/2), q = exp(-1 / scale), so that E K^2 = sqrt(q) (1 + q) / (1 - q)^2. Gaussian noise
    gains a twelfth, as long as it is not much less than a step.

    >>> round(rounded_variance("laplace", 1.0), 4), round(rounded_variance("gaussian", 1.0), 4)
    (1.0382, 1.0833)
    """
    if law == "gaussian":
        return 1 + 1 / (12 * scale**2)
    if scale > 1e4:
        return 1.0
    q = math.exp(-1 / scale)
    return math.sqrt(q) * (1 + q) / (1 - q) ** 2 / (2 * scale**2)


def short(value: Fraction) -> Fraction:
    """The value with few binary digits, rounded up."""
    power = value.numerator.bit_length() - value.denominator.bit_length() - DIGITS
    unit = Fraction(2) ** power
    return -(-value // unit) * unit


# --- with a session ---


@dataclass(frozen=True, eq=False, repr=False)
class WorkloadPlan:
    """What would be measured on a session's table, at which price, with which errors. No data was touched."""

    session: Session
    cut: Cut
    measured: Measured
    spend: Guarantee
    purpose: str = ""

    @property
    def event(self) -> Event:
        """What is done to the data."""
        return self.measured.event

    @property
    def expected_error(self) -> float:
        """The root of the mean squared error over all answers."""
        return self.measured.expected_error

    def warnings(self, expected_rows: int) -> list[str]:
        """Cells that would hold less than the noise, and answers so many and so exact that rows could be rebuilt from them."""
        return warnings_for(self.measured, expected_rows)

    def __repr__(self) -> str:
        plan = self.measured
        return (
            f"{plan.workload.questions} answers from {plan.selection.describe()}; {plan.law} noise; a typical answer is off "
            f"by {plan.expected_error:.4g}; {self.cut.counted}; one {self.session.unit.noun} adds at most {self.cut.reach} rows; "
            f"costs {self.spend.words}, and nothing is paid before run()"
        )

    def explain(self) -> str:
        """The plan in words, and the statement."""
        text = self.cut.statement(self.tables).sql(dialect=self.session.engine.dialect, pretty=True)
        return f"{self!r}.\n\n{text}"

    @property
    def tables(self) -> list[tuple[str, ...]]:
        """The tables of counts that the statement makes."""
        return self.measured.selection.tables

    def run(self) -> WorkloadAnswer:
        """Pay, count, add noise. What fails after the payment stays spent and says nothing of why."""
        with self.session.paying(self.event, self.spend, self.purpose, "plan.explain() shows the statement") as payment:
            released = self.measured.draw(self.cut.counts(self.tables))
        return WorkloadAnswer(self.measured, tuple(released), payment.private, payment.entry)


@dataclass(frozen=True, eq=False, repr=False)
class FrontPlan:
    """A plan for one kind of question (time, maps) around the plan of its workload. No data was touched."""

    inner: WorkloadPlan

    def __repr__(self) -> str:
        return repr(self.inner)

    @property
    def event(self) -> Event:
        """What is done to the data."""
        return self.inner.event

    @property
    def expected_error(self) -> float:
        """The root of the mean squared error over all answers."""
        return self.inner.expected_error

    def explain(self) -> str:
        """The plan in words, and the statement."""
        return self.inner.explain()


@dataclass(frozen=True, eq=False, repr=False)
class WorkloadAnswer:
    """All answers of a workload, from sums that were measured once."""

    measured: Measured
    released: tuple[NDArray[Any], ...]
    private: bool
    entry: int | None = None

    @cached_property
    def figures(self) -> list[TermAnswers]:
        """The answers of every term, in the order of the workload."""
        return self.measured.answers(self.released)

    @cached_property
    def whole(self) -> list[NDArray[Any]]:
        """For every term whole figures, none below 0, that agree in all tables (see `tacit.workloads.reconstruct`).

        They are made of what was published, so they cost nothing. They are biased: a cell without rows gains up to
        `figures[i].lifts`, and cells with rows lose it. The total is that of the unbiased figures, rounded.
        """
        plan = self.measured
        return whole_figures(plan.workload, plan.selection, self.released, plan.law)

    def __repr__(self) -> str:
        lines = [f"{self.measured.workload.questions} answers; a typical one is off by {self.measured.expected_error:.3g}"]
        for own in self.figures:
            about = " by ".join(own.term.columns) or "total"
            lines.append(f"{about}: {own.values.size} answers, within about {float(own.widths.mean()):.3g} each")
        return "\n".join(lines)

    def table(self, *columns: str, whole: bool = False) -> pa.Table:
        """The answers about exactly these columns: value, low, high; with `whole`, the whole figure beside them."""
        for i, found in enumerate(self.figures):
            if found.term.columns and set(found.term.columns) == set(columns):
                table = found.to_arrow(self.whole[i] if whole else None)
                return table.select([*columns, "value", "low", "high", *(["whole"] if whole else [])])
        asked = "; ".join(", ".join(f.term.columns) for f in self.figures if f.term.columns)
        raise ParameterError(f"no answers about exactly {', '.join(columns)} were asked for; there are {asked}")

    def to_record(self) -> list[list[int | float]]:
        """The noisy sums, as JSON has them: all that was published, from which every answer follows."""
        return [written(block) for block in self.released]

    @staticmethod
    def from_record(measured: Measured, record: Sequence[Sequence[int | float]], private: bool, entry: int | None) -> WorkloadAnswer:
        """The answers that `to_record` wrote down.

        Sums without any fraction where granules are finer than a row were published in whole rows, and get the intervals of such.
        """
        if measured.parts > 1 and all(float(value).is_integer() for values in record for value in values):
            measured = measured.of_whole_rows()
        blocks = []
        for values, shape in zip(record, measured.shapes, strict=True):
            wide = all(-(2**62) < value < 2**62 for value in values)
            kind: Any = np.float64 if any(isinstance(value, float) for value in values) else np.int64 if wide else object
            blocks.append(np.array(values, dtype=kind).reshape(shape))
        return WorkloadAnswer(measured, tuple(blocks), private, entry)


def written(block: NDArray[Any]) -> list[int | float]:
    """Noisy sums as JSON has them: whole ones as integers of any length, others as floats, exactly.

    >>> written(np.array([3.0, 2.125])), written(np.array([2**70, -1], dtype=object))
    ([3, 2.125], [1180591620717411303424, -1])
    """
    return [int(value) if int(value) == value else float(value) for value in block.ravel().tolist()]


def plan(
    session: Session, wanted: Wanted, *, guarantee: Guarantee | str | None = None, epsilon: Typed | None = None,
    delta: Typed | None = None, rho: Typed | None = None, mu: Typed | None = None,
    cells: Mapping[str, Sequence[Any] | Brackets | Periods | None] | None = None, rows: str | None = None, law: Law | None = None,
    other: bool = False, purpose: str = "",
) -> WorkloadPlan:
    """Plan a workload on a session's table. Nothing is spent and no data is touched.

    `cells` cuts columns that the session does not declare: categories, `Brackets` for numbers, `Periods` for dates. `rows` is a
    plain count whose rows are meant, 'SELECT COUNT(*) FROM visits WHERE age > 17'. Columns that no question names
    are not looked at.

    A row counts only if it has a value in some cell of every column that is named: one whose age is missing is in no table, not in that
    of the sexes either. With `other`, which is for tables of combinations (`Marginals`), each column has one cell more, "(other)", for
    what is missing or in no cell, and every row counts.
    """
    if not isinstance(session, Session):
        raise ParameterError(f"session must be a tacit.Session, not {type(session).__name__}")
    if not isinstance(wanted, Wanted):
        raise ParameterError("wanted must say what is asked, such as Marginals('region', 'sex', up_to=2)")
    spend = session.spend_of(guarantee, epsilon=epsilon, delta=delta, rho=rho, mu=mu)
    cut, workload = bound(session.desk, wanted, cells, rows, other=other)
    found = measured(
        workload, spend, reach=cut.reach, replaced=session.unit.adjacency is Adjacency.REPLACE_ONE, law=law,
        confidence=session.desk.confidence,
    )  # fmt: skip
    return WorkloadPlan(session, cut, found, spend, purpose)


def bound(
    desk: Desk, wanted: Wanted, cells: Mapping[str, Sequence[Any] | Brackets | Periods | None] | None = None, rows: str | None = None,
    *, other: bool = False,
) -> tuple[Cut, Workload]:  # fmt: skip
    """The wanted questions over a desk's columns: how they are cut, and the workload."""
    names = wanted.columns
    if not names:
        raise ParameterError("a workload needs questions that name columns")
    given = dict(cells or {})
    unknown = [name for name in given if name not in names]
    if unknown:
        raise ParameterError(f"cells names {unknown[0]!r}, which no question is about; there are {', '.join(names)}")
    cut = Cut.of(desk, {name: given.get(name) for name in names}, rows=rows, outside=other)
    found = wanted.on(Cells.of({name: list(cell) for name, cell in cut.names.items()}))
    if other and not all(term.marginal for term in found.terms):
        raise ParameterError("a cell for what is missing or in no other stands in no range; with other=True ask for Marginals alone")
    return cut, found


def compared(workload: Workload, law: Law) -> dict[str, float]:
    """The expected error of every candidate at the unit price, best first: root of the mean square over the answers."""
    narrow = workload.narrowed()
    questions = sum(t.weight * t.questions for t in narrow.terms)
    found = {one.describe(): math.sqrt(unit_error(one, narrow, law) / questions) for one in candidates(narrow, law)}
    return dict(sorted(found.items(), key=lambda pair: pair[1]))

