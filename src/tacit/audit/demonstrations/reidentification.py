"""How exposed a published table is, record by record, and why k-anonymity is not enough.

A class is all records that agree on the quasi-identifiers. With k at least 2 no record is alone. Still, a class whose
members share their secret tells it (homogeneity), and so does one whose other secrets can be ruled out (background
knowledge; Machanavajjhala, Kifer, Gehrke and Venkitasubramaniam 2007).

>>> fair = [{"zip": "30***", "score": score} for score in ("fair", "fair", "fair", "fair")]
>>> mixed = [{"zip": "19***", "score": score} for score in ("good", "poor", "fair", "good")]
>>> table = fair + mixed
>>> k_of(table, ["zip"]), l_of(table, ["zip"], "score"), homogeneous(table, ["zip"], "score")
(4, 1, 0.5)
>>> risk(table, ["zip"]).average
0.25
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.accounting import ParameterError
from tacit.audit.demonstrations import Demonstration, Level, Row, Rows, draws, noisy_counts, over_k
from tacit.audit.demonstrations.linkage import key_of
from tacit.audit.experiment import Generator, generator
from tacit.parameters import count
from tacit.pictures import GREY

if TYPE_CHECKING:
    from matplotlib.axes import Axes



def classes(rows: Rows, quasi: Sequence[str]) -> dict[tuple[Hashable, ...], list[int]]:
    """The records of each class, by their quasi-identifiers.

    >>> classes([{"a": 1}, {"a": 2}, {"a": 1}], ["a"])
    {(1,): [0, 2], (2,): [1]}
    """
    found: dict[tuple[Hashable, ...], list[int]] = defaultdict(list)
    for i, row in enumerate(rows):
        found[key_of(row, quasi)].append(i)
    return dict(found)


def k_of(rows: Rows, quasi: Sequence[str]) -> int:
    """The size of the smallest class; 0 for an empty table."""
    return min((len(members) for members in classes(rows, quasi).values()), default=0)


def l_of(rows: Rows, quasi: Sequence[str], secret: str) -> int:
    """The fewest different secrets in a class (distinct l-diversity); 0 for an empty table."""
    return min((len(values) for values in _secrets(rows, quasi, secret)), default=0)


def entropy_l(rows: Rows, quasi: Sequence[str], secret: str) -> float:
    """Entropy l-diversity: e to the smallest entropy of the secrets in a class. At most the distinct one, equal where all are as frequent.

    >>> entropy_l([{"q": 0, "s": s} for s in "aab"], ["q"], "s") < 2
    True
    """
    shares = ([n / values.total() for n in values.values()] for values in _secrets(rows, quasi, secret))
    return math.exp(min((sum(-share * math.log(share) for share in part) for part in shares), default=-math.inf))


def _secrets(rows: Rows, quasi: Sequence[str], secret: str) -> list[Counter[Hashable]]:
    return [Counter(rows[i][secret] for i in members) for members in classes(rows, quasi).values()]


def homogeneous(rows: Rows, quasi: Sequence[str], secret: str) -> float:
    """The share of records whose whole class shares their secret: known with certainty to all who know that they are in the table."""
    return background(rows, quasi, secret, ruled_out=0)


def background(rows: Rows, quasi: Sequence[str], secret: str, ruled_out: int) -> float:
    """The share of records that are known with certainty to one who can rule out so many other secrets for the person.

    >>> rows = [{"q": q, "s": s} for q, s in ((0, "a"), (0, "b"), (1, "a"), (1, "a"), (2, "a"), (2, "b"), (2, "c"))]
    >>> [round(background(rows, ["q"], "s", m), 4) for m in range(3)]
    [0.2857, 0.5714, 1.0]
    """
    known = sum(values.total() for values in _secrets(rows, quasi, secret) if len(values) <= 1 + count("ruled_out", ruled_out, least=0))
    return known / len(rows) if rows else 0.0


@dataclass(frozen=True)
class Risk:
    """Chances of picking the right record for a person who is known to be in the table (the prosecutor's) and is picked at random."""

    records: int
    classes: int
    unique: float
    worst: float

    @property
    def average(self) -> float:
        """The expected share of people who are re-identified by picking within their class: the number of classes over that of records."""
        return self.classes / self.records if self.records else 0.0


def risk(rows: Rows, quasi: Sequence[str]) -> Risk:
    """How likely a re-identification is: on average, at worst, and for how many it is certain.

    >>> risk([{"a": 1}, {"a": 1}, {"a": 2}, {"a": 2}], ["a"])
    Risk(records=4, classes=2, unique=0.0, worst=0.5)
    """
    sizes = [len(members) for members in classes(rows, quasi).values()]
    return Risk(len(rows), len(sizes), sum(size == 1 for size in sizes) / len(rows) if rows else 0.0, 1 / min(sizes) if sizes else 0.0)


def generalise(rows: Rows, how: Mapping[str, Callable[[Any], Any]]) -> list[Row]:
    """The table with some columns made coarser.

    >>> generalise([{"age": 37, "x": 1}], {"age": lambda age: f"{age // 10 * 10}s"})
    [{'age': '30s', 'x': 1}]
    """
    return [{name: how[name](value) if name in how else value for name, value in row.items()} for row in rows]


def partition(rows: Rows, quasi: Sequence[str], k: int) -> list[list[int]]:
    """Classes of at least k records by cutting at medians, widest column first (Mondrian; LeFevre, DeWitt and Ramakrishnan 2006).

    >>> partition([{"a": a} for a in (1, 2, 8, 9)], ["a"], 2)
    [[0, 1], [2, 3]]
    """
    least = count("k", k)
    if least < 1 or len(rows) < least:
        raise ParameterError(f"k must lie between 1 and the number of records, not {k}")
    values = np.array([[float(row[name]) for name in quasi] for row in rows])
    spread = np.maximum(values.max(axis=0) - values.min(axis=0), 1e-300)
    waiting, done = [np.arange(len(rows))], []
    while waiting:
        part = waiting.pop()
        widths = (values[part].max(axis=0) - values[part].min(axis=0)) / spread
        for column in np.argsort(-widths, kind="stable").tolist():
            low = values[part, column] <= np.median(values[part, column])
            if min(low.sum(), (~low).sum()) >= least:
                waiting += [part[~low], part[low]]
                break
        else:
            done.append(part.tolist())
    return done


def best_guess(secrets: Collection[int]) -> int:
    """The most frequent secret of a class; the smallest of several."""
    found = Counter(secrets)
    return min(found, key=lambda value: (-found[value], value))


# --- shown ------------------------------------------------------------------------------------------------------------------------


def clinic(people: int, source: Generator) -> list[Row]:
    """Made-up patients: two quasi-identifiers, and a diagnosis, one of two, that runs in neighbourhoods, as diagnoses do."""
    age, home, mark = source.integers(90, size=people), source.integers(100, size=people), source.random(people)
    local = source.integers(2, size=(6, 5))
    ill = np.where(mark < 0.9, local[age // 15, home // 20], source.integers(2, size=people))
    return [{"age": a, "home": h, "ill": i} for a, h, i in zip(age.tolist(), home.tolist(), ill.tolist(), strict=True)]


def demonstrate(*, quick: bool = False, seed: int | None = 1, epsilons: Sequence[float] = (0.1, 1.0, 4.0)) -> Demonstration:
    """The same clinic k-anonymous for k from 2 to 20: how many diagnoses are certain, and how many are guessed right, class by class.

    Tacit's side: one patient's diagnosis is a fair coin; the attacker knows all others and reads the noisy count.

    >>> demonstrate(quick=True).raw.rate > 0.7
    True
    """
    source = generator(seed)
    rows = clinic(600 if quick else 3000, source)
    curves: dict[int, tuple[float, float]] = {}
    for k in (2, 3, 5, 10, 20):
        labelled: list[Row] = [dict(row) for row in rows]
        for label, members in enumerate(partition(rows, ["age", "home"], k)):
            for i in members:
                labelled[i]["class"] = label
        guesses = {key: best_guess([labelled[i]["ill"] for i in members]) for key, members in classes(labelled, ["class"]).items()}
        right = sum(guesses[(row["class"],)] == row["ill"] for row in labelled)
        curves[k] = homogeneous(labelled, ["class"], "ill"), right / len(rows)
    base = Counter(row["ill"] for row in rows).most_common(1)[0][1] / len(rows)
    hits = round(curves[5][1] * len(rows))
    levels = [Level("5-anonymous records", None, hits, len(rows), base)]
    trials = 60 if quick else 400
    truths = source.integers(2, size=trials)
    others = Counter(row["ill"] for row in rows)[1]
    with draws(seed):
        for epsilon in epsilons:
            noisy = np.array([noisy_counts([others + truth], epsilon)[0] for truth in truths.tolist()])
            right = int(np.sum((noisy - others > 0.5) == truths.astype(bool)))
            levels.append(Level.coin(epsilon, right, trials))
    certain, guessed = (100 * share for share in curves[5])
    return Demonstration(
        "re-identification",
        f"In a 5-anonymous table no record is alone, and {certain:.0f} % of diagnoses are certain, {guessed:.0f} % guessed right.",
        tuple(levels),
        draw=lambda axis: _picture(axis, curves, base),
    )


def _picture(axis: Axes, curves: Mapping[int, tuple[float, float]], base: float) -> None:
    axis.axhline(base, color=GREY, ls="--", lw=1.2, label="without the release")
    drawn = {
        "guessed right from the class": ("o-", {k: guessed for k, (_, guessed) in curves.items()}),
        "certain: all of the class share it": ("s-", {k: certain for k, (certain, _) in curves.items()}),
    }
    over_k(axis, drawn, "k of the k-anonymous table", "share of diagnoses")
