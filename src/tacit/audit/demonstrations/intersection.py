"""Intersection: several anonymised releases, each harmless, whose overlap is one person.

Two companies publish 4-anonymous tables. A person known to be a customer of both has a score that is in both of their
classes, and there is one such score (Ganta, Kasiviswanathan and Smith 2008, "composition attacks"):

>>> first = [{"zip": "30***", "score": score} for score in (650, 590, 597, 613)]
>>> second = [{"district": "30", "score": score} for score in (815, 613, 376, 727)]
>>> intersection([(first, {"zip": "30***"}), (second, {"district": "30"})], "score")
{613}

Guarantees of differential privacy add up instead: after releases at epsilon each, k epsilon is what any attack may use.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import ParameterError
from tacit.audit.demonstrations import Demonstration, Level, Row, Rows, draws, noisy_counts, over_k
from tacit.audit.demonstrations.reidentification import classes, partition
from tacit.audit.experiment import Generator, generator
from tacit.parameters import count, positive

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Known = Mapping[str, object]  # what is known of a person, in the words of a release
VALUES = 20  # secrets that the demonstration chooses from


def candidates(rows: Rows, known: Known, secret: str) -> set[Hashable]:
    """The secrets that one release leaves for a person of whom this much is known, as the release words it.

    >>> sorted(candidates([{"a": 1, "s": 5}, {"a": 1, "s": 6}, {"a": 2, "s": 7}], {"a": 1}, "s"))
    [5, 6]
    """
    return {row[secret] for row in rows if all(row[name] == value for name, value in known.items())}


def intersection(releases: Sequence[tuple[Rows, Known]], secret: str) -> set[Hashable]:
    """The secrets that all releases together leave for a person: `releases` pairs each table with what it calls them."""
    if not releases:
        raise ParameterError("releases must hold at least one table with what is known of the person in it")
    return set.intersection(*(candidates(rows, known, secret) for rows, known in releases))


def left_by_chance(size: int, values: int, releases: int = 2) -> float:
    """The expected number of wrong secrets left by chance: classes of `size` others, secrets alike among so many values.

    A wrong value is in one class with probability 1 - (1 - 1/values)^size, independently in each release.

    >>> round(left_by_chance(3, 1000), 4)
    0.009
    """
    each = 1 - (1 - 1 / count("values", values)) ** count("size", size, least=0)
    return float((values - 1) * each ** count("releases", releases))


def most_of_many(epsilon: float, values: int) -> float:
    """The best probability, by any attack, of naming one of so many secrets that are alike beforehand, any two within e^epsilon.

    The likelihoods of an answer add up to at least the largest times 1 + (values - 1) e^-epsilon.

    >>> round(most_of_many(1, 2), 6), round(most_of_many(1, 20), 4)
    (0.731059, 0.1252)
    """
    return 1 / (1 + (count("values", values) - 1) * math.exp(-float(positive("epsilon", epsilon))))


def likeliest(releases: Sequence[ArrayLike], others: Sequence[ArrayLike]) -> NDArray[np.int64]:
    """Which cell one more person is in, from noisy counts by cell and the exact counts of all others, release by release.

    Under Laplace noise the likelihood of cell v exceeds that of no cell by |noise| - |noise - 1| there; the largest sum over the releases
    (each at the same price) wins. Ties go to the first, so shuffle the cells where that matters. Rows are trials.

    >>> likeliest([[[3, 9, 1]]], [[[3, 8, 1]]]).tolist()
    [1]
    """
    gains = []
    for noisy, known in zip(releases, others, strict=True):
        noise = np.asarray(noisy, dtype=np.float64) - np.asarray(known, dtype=np.float64)
        gains.append(np.abs(noise) - np.abs(noise - 1))
    return np.asarray(np.argmax(sum(gains), axis=-1), dtype=np.int64)


# --- shown ------------------------------------------------------------------------------------------------------------------------


def anonymised(people: Sequence[Row], k: int) -> list[Row]:
    """The people's records with class labels for quasi-identifiers, at least k in a class; `who` stays for keeping score only."""
    found = [{"who": row["who"], "score": row["score"]} for row in people]
    for label, members in enumerate(partition(people, ["age", "home"], k)):
        for i in members:
            found[i]["class"] = label
    return found


def made_up(people: int, source: Generator, first: int = 0) -> list[Row]:
    """Made-up customers: age, home, and one of a thousand scores."""
    age, home, score = (source.integers(top, size=people).tolist() for top in (90, 1000, 1000))
    return [{"who": first + i, "age": age[i], "home": home[i], "score": score[i]} for i in range(people)]


def pinned(first: Rows, second: Rows) -> tuple[int, int]:
    """Of those who are in both releases: for how many the intersection is one score, and how many they are."""
    places = [{row["who"]: {"class": row["class"]} for row in table} for table in (first, second)]
    both = sorted(set(places[0]) & set(places[1]))
    tables = [{key: [table[i] for i in members] for key, members in classes(table, ["class"]).items()} for table in (first, second)]
    found = 0
    for who in both:
        known = [place[who] for place in places]
        pairs = [(table[(spot["class"],)], spot) for table, spot in zip(tables, known, strict=True)]
        found += len(intersection(pairs, "score")) == 1
    return found, len(both)


def demonstrate(*, quick: bool = False, seed: int | None = 1, k: int = 5, epsilons: Sequence[float] = (0.1, 1.0, 4.0)) -> Demonstration:
    """Two companies with a hundred customers in common publish k-anonymous tables; Tacit's say how many have which of 20 scores.

    >>> demonstrate(quick=True).raw.rate > 0.6
    True
    """
    source = generator(seed)
    shared = made_up(40 if quick else 100, source)
    sides = [[*shared, *made_up(600 if quick else 2000, source, first=10**6 * side)] for side in (1, 2)]
    ks = (2, k, 10, 20, 40)
    rates = {}
    for size in ks:
        found, both = pinned(*(anonymised(side, size) for side in sides))
        rates[size] = found / both
    hits = round(rates[k] * len(shared))
    levels = [Level(f"two {k}-anonymous tables", None, hits, len(shared), 1 / 1000)]
    trials = 100 if quick else 400
    others = [np.array([Counter(row["score"] % VALUES for row in side)[v] for v in range(VALUES)]) for side in sides]
    truths = source.integers(VALUES, size=trials)
    with draws(seed):
        for epsilon in epsilons:
            # one person in place of another moves two cells; each company spends half of epsilon
            mine = np.eye(VALUES, dtype=np.int64)[truths]
            published = [
                np.stack([noisy_counts(side + row, epsilon / 2, sensitivity=2) for row in mine]) for side in others
            ]  # a fresh pair of releases for each trial
            right = int(np.sum(likeliest(published, others) == truths))
            levels.append(Level(f"epsilon {epsilon:g} in all", epsilon, right, trials, 1 / VALUES, most_of_many(epsilon, VALUES)))
    return Demonstration(
        "intersection",
        f"Two {k}-anonymous tables leave one possible score for {100 * rates[k]:.0f} % of the customers they share.",
        tuple(levels),
        draw=lambda axis: _picture(axis, rates),
        notes=(f"raw: one of 1000 scores; Tacit's: one of {VALUES}, and the attacker knows all other customers",),
    )


def _picture(axis: Axes, rates: Mapping[int, float]) -> None:
    over_k(axis, {"one score left, two tables": ("o-", rates)}, "k of each table", "share of shared customers")
