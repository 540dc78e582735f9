"""Which counts are above a threshold, for as little as the data need: rounds that stop when every cell is clear.

The question of APEx (Ge, He, Ilyas and Machanavajjhala 2019): which cells have more than `at` rows, where a cell within `within` of it may
go either way, and everything is right with a stated probability. Each round counts all cells again with fresh Gaussian noise and
averages with the rounds before, which is one count at the sum of their prices, so nothing is lost by asking in rounds. It stops
as soon as every cell is far enough from the threshold. Most tables are clear after a round or two, at a small part of the largest price.

The number of rounds follows from the data, so this is not a price that is fixed in advance: every round is a spend of its own, booked
before its draw, and the account's filter must be proved for whoever decides after each answer whether to go on. Accounts in rho, mu
and Rényi divergences are, and those with `Budget(filter="best")`; where epsilons are added, rounds would cost far more, and are refused.

>>> import pathlib, tempfile
>>> import pyarrow as pa
>>> from tacit.ledger import Budget, Ledger
>>> from tacit.tables import Session, Unit
>>> people = pa.table({"id": range(3000), "town": ["Ulm"] * 2600 + ["Ems"] * 400})
>>> book = Ledger.open(f"sqlite:///{pathlib.Path(tempfile.mkdtemp()) / 'tacit.db'}")
>>> session = Session(people, unit=Unit("id", max_rows=1), budget=Budget(rho=1), name="people", ledger=book,
...     columns={"town": ["Ulm", "Ems", "Wyk"]})
>>> asked = plan_above(session, ["town"], at=1000, within=10)
>>> asked.method.rounds, round(float(asked.method.least), 5), round(float(asked.method.most), 4)
(6, 0.00109, 0.0349)
>>> found = asked.run()
>>> found.above.tolist(), found.rounds, float(session.left()["rho"]) > 0.99
([True, False, False], 1, True)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tacit.accounting import APPROXIMATE, PURE, Adjacency, Composed, Event, Guarantee
from tacit.errors import ParameterError
from tacit.exact import Typed, root
from tacit.ledger import BudgetExceeded, Payment
from tacit.mechanisms import NoisySums, half_width
from tacit.parameters import count, number, positive
from tacit.tables import Cut, Session
from tacit.workloads.adaptive import Given
from tacit.workloads.joint_strategy import widened
from tacit.workloads.workload import Cells

#: Counts move in parts of a row, so that rounding takes little of a small error.
PARTS = 16
#: The share of the failure probability that the last round has; the others share the rest.
LAST = 0.5


@dataclass(frozen=True)
class Above:
    """Rounds of noise on `cells` counts, with the error that each round's averages keep. Made by `above_in`.

    Guarantee
        Statement: what is published after r rounds costs the sum of the first r of `events`, and the account's filter covers that r was
        chosen after looking.
        Conditions: a unit has at most `reach` rows in all cells together; each event was booked before its draw; the account's
        filter is proved for full adaptivity.
        Proved in: `NoisySums` for one round; `tacit.ledger.budget` for the filters. Averages and decisions are post-processing.

    Accuracy
        With probability `confidence` all averages of all rounds are within `widths` of the counts at once, so also in the round
        where it stops. Then a cell that is told to be above has more than `at - within` rows, one that is not less than `at + within`.
    """

    cells: int
    at: Fraction
    within: float
    confidence: float
    noises: tuple[NoisySums, ...]
    widths: tuple[float, ...]

    @property
    def rounds(self) -> int:
        """The most rounds."""
        return len(self.noises)

    @property
    def events(self) -> tuple[Event, ...]:
        """What each round costs."""
        return tuple(noise.event for noise in self.noises)

    @property
    def event(self) -> Event:
        """The most that all rounds cost together."""
        return Composed(*self.events)

    @property
    def least(self) -> Fraction:
        """The price of the first round in rho."""
        return self.spent(1)

    @property
    def most(self) -> Fraction:
        """The price of all rounds in rho."""
        return self.spent(self.rounds)

    def spent(self, rounds: int) -> Fraction:
        """The price of the first rounds in rho."""
        return sum((noise.reach**2 / 2 for noise in self.noises[:rounds]), Fraction(0))

    def averages(self, released: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
        """The least-variance averages of what was released, in rows."""
        weights = [noise.spread() ** -2.0 for noise in self.noises[: len(released)]]
        total = math.fsum(weights)
        return np.asarray(sum(w / total * np.asarray(sums, dtype=np.float64) for w, sums in zip(weights, released, strict=True)) / PARTS)

    def clear(self, averages: NDArray[np.float64], rounds: int) -> NDArray[np.bool_]:
        """Which cells are far enough from the threshold after so many rounds; all of them after the last.

        >>> above_in(3, at=100, within=10).clear(np.array([100.0, 200.0, 0.0]), 1).tolist()
        [False, True, True]
        """
        return np.asarray(np.abs(averages - float(self.at)) >= self.widths[rounds - 1] - self.within)


def above_in(
    cells: int, *, at: Typed, within: Typed, confidence: Typed = Fraction(95, 100), rounds: int = 6, reach: int = 1,
    replaced: bool = False,
) -> Above:  # fmt: skip
    """Rounds that keep an error of `within` rows, each twice as precise as all before it together.

    >>> wanted = above_in(50, at=1000, within=20)
    >>> [round(width, 1) for width in wanted.widths]
    [126.4, 89.4, 63.2, 44.7, 31.6, 20.0]
    """
    number_of, turns = count("cells", cells), count("rounds", rounds)
    bar = Fraction(number("at", at))
    goal, sure = float(positive("within", within)), float(number("confidence", confidence))
    if not 0 < sure < 1:
        raise ParameterError(f"confidence must lie strictly between 0 and 1, not {confidence}")
    rounding = 0.5 / PARTS
    if goal <= rounding:
        raise ParameterError(f"within must be more than {rounding:g} of a row, which rounding takes; not {within}")
    failure = 1 - sure
    shares = [failure] if turns == 1 else [failure * (1 - LAST) / (turns - 1)] * (turns - 1) + [failure * LAST]
    farthest = [_farthest(share, number_of) for share in shares]
    finest = (goal - rounding) / farthest[-1] * (1 - 1e-9)
    # a unit that is exchanged leaves one cell and enters another
    moved = PARTS * count("reach", reach) * (root(Fraction(2)) if replaced else 1)
    adjacency = Adjacency.REPLACE_ONE if replaced else Adjacency.ADD_REMOVE
    noises, widths = list[NoisySums](), list[float]()
    for place in range(turns):
        # precisions of the averages double from round to round; a round brings what is missing
        deviation = finest * math.sqrt(2.0 ** (turns - 1 - place))
        own = deviation if place == 0 else deviation * math.sqrt(2)
        noises.append(NoisySums.of_scale("gaussian", own * PARTS, moved, granularity=Fraction(1, PARTS), adjacency=adjacency))
        widths.append(deviation * farthest[place] + rounding)
    return Above(number_of, bar, goal, sure, tuple(noises), tuple(widths))


def _farthest(failure: float, cells: int) -> float:
    """What none of so many independent normal variables exceeds, in standard deviations, except with probability `failure`; rounded up."""
    each = -math.expm1(math.log1p(-failure) / cells)
    return float(half_width([1.0], "gaussian", 1 - each)[0]) * (1 + 1e-9)


@dataclass(frozen=True, eq=False)
class AbovePlan:
    """What would be asked of a session's table, and at which prices. No data was touched."""

    session: Session
    cut: Cut
    cells: Cells
    method: Above
    purpose: str = ""

    @property
    def event(self) -> Event:
        """The most that is spent."""
        return self.method.event

    def explain(self) -> str:
        """The plan in words."""
        asked, unit = self.method, self.session.unit.noun
        return (
            f"which of {asked.cells} cells have more than {float(asked.at):g} rows, give or take {asked.within:g}, "
            f"all right with probability {asked.confidence:g}; at most {asked.rounds} rounds, "
            f"rho {float(asked.least):.4g} for the first and {float(asked.most):.4g} for all; "
            f"{self.cut.counted}; one {unit} adds at most {self.cut.reach} rows"
        )

    def run(self) -> AboveAnswer:
        """Pay for a round, count, decide; again while a cell is unclear, rounds are left and the account admits the next one.

        Where the account refuses a later round, the answer is what the rounds before it say, and `clear` tells which cells are decided.
        """
        names = tuple(self.cells.names)

        def pay(noise: NoisySums) -> Payment:
            price = Guarantee(rho=noise.reach**2 / 2)
            return self.session.paying(noise.event, price, self.purpose, "plan.explain() says what is asked")

        released, payments = in_rounds(self.method, lambda: self.cut.counts([names])[names], pay)
        private, entries = all(payment.private for payment in payments), tuple(payment.entry for payment in payments)
        return AboveAnswer(self.method, self.cells, self.method.averages(released), len(released), private, entries)


def in_rounds(
    method: Above, counts: Callable[[], NDArray[Any]], pay: Callable[[NoisySums], Payment]
) -> tuple[list[NDArray[Any]], list[Payment]]:
    """What was released round by round, and the payments: each round is paid for by `pay` before its draw, the first before counting."""
    released, payments, counted = list[NDArray[Any]](), list[Payment](), None
    for turn, noise in enumerate(method.noises, 1):
        payment = pay(noise)
        try:
            payment.open()
        except BudgetExceeded:
            if not released:
                raise
            break
        with payment.touching():
            if counted is None:
                counted = widened(counts(), PARTS) * PARTS
            released.append(noise.add(counted))
        payment.commit()
        payments.append(payment)
        if method.clear(method.averages(released), turn).all():
            break
    return released, payments


@dataclass(frozen=True, eq=False, repr=False)
class AboveAnswer:
    """Which cells are above, after how many rounds, and the averages with the error that all of them keep at once."""

    method: Above
    cells: Cells
    values: NDArray[np.float64]
    rounds: int
    private: bool = True
    entries: tuple[int | None, ...] = ()

    def __repr__(self) -> str:
        kept = "" if self.private else ", NOT PRIVATE"
        return f"{int(self.above.sum())} of {self.method.cells} cells above {float(self.method.at):g}, after {self.rounds} rounds{kept}"

    @property
    def above(self) -> NDArray[np.bool_]:
        """Which cells are told to be above the threshold."""
        return np.asarray(self.values > float(self.method.at))

    @property
    def clear(self) -> NDArray[np.bool_]:
        """Which cells are decided with the wanted error; all of them, unless the account refused a round."""
        return self.method.clear(self.values, self.rounds)

    @property
    def error(self) -> float:
        """What no average is off by more than, with probability `confidence` for all cells and rounds at once."""
        return self.method.widths[self.rounds - 1]

    @property
    def rho(self) -> Fraction:
        """What was spent, in rho."""
        return self.method.spent(self.rounds)

    def table(self) -> pa.Table:
        """The cells with their averages, decisions and intervals."""
        grid = np.unravel_index(np.arange(self.method.cells), self.cells.shape)
        labels = {name: [self.cells.names[name][i] for i in grid[k]] for k, name in enumerate(self.cells.names)}
        flat = self.values.ravel()
        figures = {"value": flat, "low": flat - self.error, "high": flat + self.error}
        return pa.table({**labels, **figures, "above": self.above.ravel(), "clear": self.clear.ravel()})


def plan_above(
    session: Session, columns: Sequence[str], *, at: Typed, within: Typed, confidence: Typed | None = None, rounds: int = 6,
    cells: Given | None = None, rows: str | None = None, purpose: str = "",
) -> AbovePlan:  # fmt: skip
    """Ask which cells of some columns have more than `at` rows, wrong by `within` at most. Nothing is spent and no data is touched."""
    if not isinstance(session, Session):
        raise ParameterError(f"session must be a tacit.Session, not {type(session).__name__}")
    budget = session.account.budget
    if budget.filter == "basic" and budget.currency in (PURE, APPROXIMATE):
        raise ParameterError(
            "rounds that stop early need an account in rho, mu or Rényi divergences, or Budget(epsilon=..., delta=..., filter='best'); "
            "this one adds epsilons, so ask for the counts once: tacit.workloads.plan"
        )
    given = dict(cells or {})
    cut = Cut.of(session.desk, {name: given.get(name) for name in columns}, rows=rows)
    shape = Cells.of({name: list(found) for name, found in cut.names.items()})
    sure = Fraction(session.desk.confidence) if confidence is None else confidence
    replaced = session.unit.adjacency is Adjacency.REPLACE_ONE
    method = above_in(shape.total, at=at, within=within, confidence=sure, rounds=rounds, reach=cut.reach, replaced=replaced)
    return AbovePlan(session, cut, shape, method, purpose)
