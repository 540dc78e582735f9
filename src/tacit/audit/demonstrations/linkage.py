"""Linkage: a table without names, joined with one that has them.

Place, sex and date of birth are in the voters' list and in the hospital's "anonymous" table; together they single most
people out. Sweeney (1997) found a governor's record in this way: six people shared his birthday, three of them were
men, one lived in his district.

>>> hospital = [{"zip": 1, "sex": "m", "ill": "flu"}, {"zip": 1, "sex": "f", "ill": "cold"}, {"zip": 2, "sex": "f", "ill": "burn"}]
>>> voters = [{"name": "Ann", "zip": 2, "sex": "f"}, {"name": "Bob", "zip": 1, "sex": "m"}, {"name": "Eve", "zip": 2, "sex": "m"}]
>>> found = link(hospital, voters, ["zip", "sex"])
>>> found.candidates
((2,), (0,), ())
>>> found.names("name", "ill")
{'Ann': 'burn', 'Bob': 'flu'}
>>> narrowing(hospital, voters[0], ["sex", "zip"])
[3, 2, 1]
"""

from __future__ import annotations

import datetime
import itertools
from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit.accounting import ParameterError
from tacit.audit.demonstrations import Demonstration, Level, Row, Rows, draws, noisy_counts
from tacit.audit.experiment import Generator, generator
from tacit.parameters import count
from tacit.pictures import RED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SEXES = ("f", "m")


def key_of(row: Mapping[str, Hashable], columns: Sequence[str]) -> tuple[Hashable, ...]:
    """The values of a row in these columns."""
    return tuple(row[name] for name in columns)


@dataclass(frozen=True)
class Linkage:
    """For every known person, which published records fit."""

    published: Rows
    known: Rows
    candidates: tuple[tuple[int, ...], ...]

    @property
    def linked(self) -> float:
        """The share of known people with exactly one record that fits."""
        return sum(len(fit) == 1 for fit in self.candidates) / len(self.candidates) if self.candidates else 0.0

    def names(self, name: str, secret: str) -> dict[Hashable, Hashable]:
        """What is learned: the secret of each person to whom one record only fits, or several that agree."""
        said = {person[name]: {self.published[i][secret] for i in fit} for person, fit in zip(self.known, self.candidates, strict=True)}
        return {person: next(iter(values)) for person, values in said.items() if len(values) == 1}


def link(published: Rows, known: Rows, columns: Sequence[str]) -> Linkage:
    """Join the two tables on the columns that they share."""
    if not columns:
        raise ParameterError("columns must name at least one column that both tables have")
    places: dict[tuple[Hashable, ...], list[int]] = defaultdict(list)
    for i, row in enumerate(published):
        places[key_of(row, columns)].append(i)
    return Linkage(published, known, tuple(tuple(places.get(key_of(person, columns), ())) for person in known))


def narrowing(rows: Rows, person: Mapping[str, object], columns: Sequence[str]) -> list[int]:
    """How many records are left as one thing after the other becomes known about a person; the first figure is all of them."""
    left, sizes = list(rows), [len(rows)]
    for name in columns:
        left = [row for row in left if row[name] == person[name]]
        sizes.append(len(left))
    return sizes


def uniqueness(rows: Rows, columns: Sequence[str]) -> float:
    """The share of records that are alone with these values.

    >>> uniqueness([{"a": 1}, {"a": 1}, {"a": 2}, {"a": 3}], ["a"])
    0.5
    """
    sizes = Counter(key_of(row, columns) for row in rows)
    return sum(size == 1 for size in sizes.values()) / len(rows) if rows else 0.0


def uniqueness_by_columns(rows: Rows, columns: Sequence[str]) -> dict[tuple[str, ...], float]:
    """The uniqueness of every set of these columns, from the smallest sets up: which combination gives people away.

    >>> uniqueness_by_columns([{"a": 1, "b": 1}, {"a": 1, "b": 2}], ["a", "b"])
    {('a',): 0.0, ('b',): 1.0, ('a', 'b'): 1.0}
    """
    sets = itertools.chain.from_iterable(itertools.combinations(columns, size) for size in range(1, len(columns) + 1))
    return {chosen: uniqueness(rows, chosen) for chosen in sets}


def expected_uniqueness(people: int, cells: int) -> float:
    """The expected share of unique people where each of `people` falls into one of `cells` alike: (1 - 1/cells)^(people - 1).

    >>> round(expected_uniqueness(25, 365), 4)
    0.9363
    """
    return float((1 - 1 / count("cells", cells)) ** (count("people", people) - 1))


# --- shown ------------------------------------------------------------------------------------------------------------------------


def town(people: int, source: Generator) -> list[Row]:
    """A made-up town: name, place, sex, date of birth, and a secret that is a fair coin."""
    day = datetime.date(1935, 1, 1)
    born, place, sex, ill = (source.integers(top, size=people).tolist() for top in (365 * 70, 12, 2, 2))
    return [
        {"name": f"person {i}", "zip": 2100 + place[i], "sex": SEXES[sex[i]], "born": day + datetime.timedelta(days=born[i]), "ill": ill[i]}
        for i in range(people)
    ]


def demonstrate(*, quick: bool = False, seed: int | None = 1, epsilons: Sequence[float] = (0.1, 1.0, 4.0)) -> Demonstration:
    """A hospital publishes its records without names; a voters' list has names, place, sex and date of birth.

    Raw, the join names people with their secret. Tacit publishes how many are ill by place and sex. The attacker, who
    knows all others in the cell, names the secret that the noisy count makes likelier: the strongest attacker there is.

    >>> demonstrate(quick=True).raw.rate > 0.99
    True
    """
    people = town(300 if quick else 2000, generator(seed))
    columns = ["zip", "sex", "born"]
    published = [{name: value for name, value in row.items() if name != "name"} for row in people]
    learned = link(published, people, columns).names("name", "ill")
    truth = {row["name"]: row["ill"] for row in people}
    levels = [Level("records without names", None, sum(truth[name] == value for name, value in learned.items()), len(people), 0.5)]
    cells = sorted({key_of(row, ["zip", "sex"]) for row in people})
    ill = Counter(key_of(row, ["zip", "sex"]) for row in people if row["ill"])
    targets = people[: 100 if quick else 400]
    with draws(seed):
        for epsilon in epsilons:
            right = 0
            for person in targets:
                # a fresh release for each target: what is said of one says nothing about the next
                noisy = dict(zip(cells, noisy_counts([ill[cell] for cell in cells], epsilon).tolist(), strict=True))
                place = key_of(person, ["zip", "sex"])
                others = ill[place] - person["ill"]
                right += (noisy[place] - others > 0.5) == bool(person["ill"])
            levels.append(Level.coin(epsilon, right, len(targets)))
    alone = uniqueness_by_columns(published, columns)
    share = 100 * alone[tuple(columns)]
    steps = narrowing(published, people[0], ["sex", "zip", "born"])
    return Demonstration(
        "linkage",
        f"Place, sex and date of birth single out {share:.0f} % of a town of {len(people)}; a voters' list gives the names.",
        tuple(levels),
        draw=lambda axis: _picture(axis, alone),
        notes=(f"one person: {' → '.join(str(size) for size in steps)} records as sex, place and date of birth become known",),
    )


def _picture(axis: Axes, alone: Mapping[tuple[str, ...], float]) -> None:
    sets = list(alone)
    places = np.arange(len(sets))
    axis.barh(places, [alone[chosen] for chosen in sets], color=RED, height=0.6)
    axis.set(xlim=(0, 1), xlabel="share of people who are alone with these values", yticks=places)
    axis.set_yticklabels([" + ".join(chosen) for chosen in sets], fontsize=8)
    axis.invert_yaxis()
