"""Differencing: two harmless answers whose difference is one person.

Two means over 25 and 26 people give the salary of the one who came, exactly:

>>> mean_difference(25, 500_000, 26, 505_000)
630000

A clause that singles one person out need never be asked: "all ill people" and "all ill people but those like the
target" are two large groups (the tracker of Denning, Denning and Schwartz 1979), so a rule on the smallest group does
not help. Tacit charges both answers, and their noise hides the difference.

>>> people = [{"age": 30, "sex": "f"}, {"age": 30, "sex": "m"}, {"age": 41, "sex": "f"}]
>>> clause = isolating_clause(people, people[0], ["age", "sex"])
>>> clause
{'age': 30, 'sex': 'f'}
>>> tracker(clause, "ill = 1")
('ill = 1', "ill = 1 AND NOT (age = 30 AND sex = 'f')")
"""

from __future__ import annotations

import itertools
import math
import pathlib
import tempfile
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from tacit.accounting import ParameterError
from tacit.audit.demonstrations import Demonstration, Level, Row, Rows, draws
from tacit.audit.experiment import Generator, generator
from tacit.audit.rates import most_accuracy
from tacit.parameters import positive
from tacit.pictures import BLUE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tacit.tables import Session

Clause = Mapping[str, object]  # columns and the values that single a person out
Exact = int | str | Fraction


def mean_difference(
    first_count: int, first_mean: Exact, second_count: int, second_mean: Exact
) -> Fraction | int:
    """The value of the one person who is in the second mean and not in the first; exact where the means are.

    >>> mean_difference(2, "1.5", 3, "2.5")
    Fraction(9, 2)
    """
    if second_count != first_count + 1:
        raise ParameterError(f"second_count must be first_count + 1, not {second_count} after {first_count}: one person is to be found")
    found = second_count * Fraction(second_mean) - first_count * Fraction(first_mean)
    return found.numerator if found.denominator == 1 else found


def isolating_clause(rows: Rows, target: Clause, columns: Sequence[str]) -> Row | None:
    """The fewest of these columns whose values single the target out among the rows; None where all of them together do not.

    >>> isolating_clause([{"a": 1}, {"a": 1}], {"a": 1}, ["a"]) is None
    True
    """
    for size in range(1, len(columns) + 1):
        for chosen in itertools.combinations(columns, size):
            if sum(all(row[name] == target[name] for name in chosen) for row in rows) == 1:
                return {name: target[name] for name in chosen}
    return None


def where(clause: Clause) -> str:
    """The clause as SQL.

    >>> where({"name": "O'Hara", "age": 30})
    "name = 'O''Hara' AND age = 30"
    """

    def literal(value: object) -> str:
        return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)

    return " AND ".join(f"{name} = {literal(value)}" for name, value in clause.items())


def tracker(clause: Clause, condition: str) -> tuple[str, str]:
    """Two WHERE clauses over large groups, whose counts differ by one exactly if the person singled out meets the condition."""
    return condition, f"{condition} AND NOT ({where(clause)})"


def guess(larger: float, smaller: float) -> bool:
    """Whether the person meets the condition: the difference is nearer to 1 than to 0.

    >>> guess(12, 11), guess(11, 11)
    (True, False)
    """
    return larger - smaller > 0.5


def success(epsilon: float, *, reach: float = 60.0) -> float:
    """The exact probability that `guess` is right, for a fair secret, on two counts with discrete Laplace noise that cost epsilon in all.

    The law of the difference of the two noises is added up over integers; what lies beyond `reach` scales is below e^-reach. By symmetry
    it is right with P[difference <= 0].

    >>> [round(success(epsilon), 4) for epsilon in (0.1, 1, 10)]
    [0.5063, 0.5649, 0.9867]
    """
    scale = 2 / float(positive("epsilon", epsilon))
    wide = math.ceil(reach * scale)
    mass = np.exp(-np.abs(np.arange(-wide, wide + 1)) / scale) * math.tanh(1 / (2 * scale))
    same = float(np.sum(mass * mass))  # P[the two noises are equal]
    return (1 + same) / 2


def demonstrate(*, quick: bool = False, seed: int | None = 1, epsilons: Sequence[float] = (0.1, 1.0, 4.0)) -> Demonstration:
    """One patient of a thousand, of whom an attacker knows age, sex and region, and two counts of more than a hundred people.

    >>> demonstrate(quick=True).raw.rate
    1.0
    """
    trials = 12 if quick else 50
    source = generator(seed)
    people = made_up(1000, source)
    target = next(row for row in people if isolating_clause(people, row, ["region", "sex", "age"]) is not None)
    clause = isolating_clause(people, target, ["region", "sex", "age"]) or {}
    questions = tracker(clause, "ill = 1")
    truths = [bool(bit) for bit in source.integers(2, size=trials)]
    worlds = {bit: [{**row, "ill": int(bit)} if row is target else row for row in people] for bit in (False, True)}
    raw = {bit: [_count(rows, clause, whole) for whole in (True, False)] for bit, rows in worlds.items()}
    hits = sum(guess(*raw[truth]) == truth for truth in truths)
    levels = [Level("raw counts", None, hits, trials, 0.5)]
    with draws(seed), tempfile.TemporaryDirectory() as place:
        for epsilon in epsilons:
            sessions = {bit: _session(rows, epsilon * trials, pathlib.Path(place), f"e{epsilon}_{bit}") for bit, rows in worlds.items()}
            right = 0
            for truth in truths:
                answers = [_ask(sessions[truth], question, epsilon) for question in questions]
                right += guess(*answers) == truth
            levels.append(Level.coin(epsilon, right, trials))
    sizes = " and ".join(str(size) for size in raw[True])
    return Demonstration(
        "differencing",
        f"Two counts, {sizes} people, say exactly whether the one patient with {where(clause)} is ill.",
        tuple(levels),
        draw=_curve,
        notes=(f"asked: COUNT(*) WHERE {questions[0]}; COUNT(*) WHERE {questions[1]}",),
    )


def made_up(size: int, source: Generator) -> list[Row]:
    """Made-up patients: region, sex, age, and whether they are ill, one in seven."""
    regions = ["North", "East", "South", "West"]
    return [
        {"region": regions[int(region)], "sex": "fm"[int(sex)], "age": int(age), "ill": int(ill)}
        for region, sex, age, ill in zip(
            source.integers(4, size=size),
            source.integers(2, size=size),
            np.clip(source.normal(50, 20, size), 0, 100).astype(int),
            source.random(size) < 1 / 7,
            strict=True,
        )
    ]


def _count(rows: Rows, clause: Clause, whole: bool) -> int:
    return sum(row["ill"] == 1 and (whole or any(row[name] != value for name, value in clause.items())) for row in rows)


def _session(rows: Rows, budget: float, place: pathlib.Path, name: str) -> Session:
    """A session whose budget is that of all trials together: each trial stands for another world in which it is the only one."""
    import pyarrow as pa

    from tacit.ledger import Budget, Ledger
    from tacit.tables import Session, Unit

    book = Ledger.open(f"sqlite:///{place / (name.replace('.', '_') + '.db')}")
    table = pa.Table.from_pylist(list(rows))
    return Session(table, unit=Unit.row(), budget=Budget(epsilon=Fraction(str(budget)) + 1), name="people", ledger=book, loss=False)


def _ask(session: Session, condition: str, epsilon: float) -> float:
    answer = session.sql(f"SELECT COUNT(*) AS n FROM people WHERE {condition}", epsilon=Fraction(str(epsilon)) / 2)
    return float(answer["n"][0])


def _curve(axis: Axes) -> None:
    grid = np.geomspace(0.03, 12, 60)
    axis.plot(grid, [success(epsilon) for epsilon in grid.tolist()], color=BLUE, label="this attack, exactly")
    axis.plot(grid, [most_accuracy(epsilon) for epsilon in grid.tolist()], color="black", label="any attack, at most")
    axis.set(xscale="log", ylim=(0.45, 1.02), xlabel="epsilon of the two counts together", ylabel="probability of being right")
    axis.legend(fontsize=8, frameon=False)
