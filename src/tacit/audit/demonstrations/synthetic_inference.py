"""Attribute inference from synthetic data: the target's known columns, and the synthetic record that looks most like them.

What the nearest record says about a person is a mixture of two things: what is true of people like them, which is what
statistics are for, and what is true of them alone. So the attack is run on members and on others, who were not in the
data: the difference is the leak (Stadler, Oprisanu and Troncoso 2022; Houssiau et al. 2022). A copy of the data leaks
everything; one that was drawn from noisy counts leaks little.

>>> synthetic = [[0, 0], [5, 5], [9, 1]]
>>> nearest(synthetic, ["a", "b", "c"], [[5, 4], [9, 0]])
['b', 'c']
>>> leak = Leak(members=90, members_tried=100, others=60, others_tried=100)
>>> leak.excess, leak.excess <= most_excess(2.0)
(0.3, True)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import ParameterError
from tacit.audit.demonstrations import Demonstration, Level, draws, named_bars, noisy_counts
from tacit.audit.experiment import Generator, generator
from tacit.audit.rates import most_advantage, most_true_positives, operating_point
from tacit.parameters import count
from tacit.pictures import GREY, RED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Integers = NDArray[np.int64]
Secret = TypeVar("Secret")


def nearest(synthetic: ArrayLike, secrets: Sequence[Secret], known: ArrayLike) -> list[Secret]:
    """The secret of the synthetic record that is nearest to each known row, in the sum of differences; the first of several."""
    table, wanted = np.asarray(synthetic, dtype=np.float64), np.asarray(known, dtype=np.float64)
    if table.ndim != 2 or not len(table) or len(table) != len(secrets) or wanted.ndim != 2 or wanted.shape[1] != table.shape[1]:
        raise ParameterError("synthetic and known must be tables with the same columns, with one secret for each synthetic record")
    places = [int(np.argmin(np.abs(table - row).sum(axis=1))) for row in wanted]
    return [secrets[place] for place in places]


def by_agreement(synthetic: ArrayLike, secrets: ArrayLike, known: ArrayLike) -> Integers:
    """The commonest secret among the synthetic records that agree with most of the known columns; the smallest of several.

    >>> by_agreement([[0, 0], [0, 0], [0, 1]], [7, 7, 8], [[0, 0], [1, 1]]).tolist()
    [7, 8]
    """
    table, said, wanted = np.asarray(synthetic), np.asarray(secrets, dtype=np.int64), np.asarray(known)
    found = np.empty(len(wanted), dtype=np.int64)
    for i, row in enumerate(wanted):
        agree = (table == row).sum(axis=1)
        found[i] = np.argmax(np.bincount(said[agree == agree.max()]))
    return found


@dataclass(frozen=True)
class Leak:
    """How often the attack was right about members, and about others like them who were not in the data."""

    members: int
    members_tried: int
    others: int
    others_tried: int

    @property
    def rate(self) -> float:
        """The share of members whose secret was named."""
        return self.members / self.members_tried

    @property
    def generalisation(self) -> float:
        """The same for others: what can be said of people in general, and would be without their data."""
        return self.others / self.others_tried

    @property
    def excess(self) -> float:
        """What was said about members only because they were there; an estimate."""
        return round(self.rate - self.generalisation, 12)

    def epsilon(self, confidence: float = 0.95) -> float:
        """The epsilon that the two shares refute everything below, with this confidence: naming a secret is a test for being a member.

        >>> round(Leak(95, 100, 50, 100).epsilon(), 4)
        1.2613
        """
        return operating_point(
            false_positives=self.others, negatives=self.others_tried, true_positives=self.members, positives=self.members_tried,
            confidence=confidence,
        ).epsilon()  # fmt: skip


def most_excess(epsilon: float) -> float:
    """The largest excess that epsilon permits, where one person in place of another costs epsilon.

    >>> round(most_excess(1.0), 6)
    0.462117
    """
    return most_advantage(epsilon)


def play(
    synthesise: Callable[[Integers], Integers],
    population: Callable[[int], Integers],
    *,
    size: int,
    trials: int,
    attack: Callable[[ArrayLike, ArrayLike, ArrayLike], Integers] = by_agreement,
) -> Leak:
    """The game: fresh data each time, one member and one other person attacked; the last column is the secret."""
    members = others = 0
    for _ in range(count("trials", trials)):
        people = population(count("size", size) + 1)
        synthetic = synthesise(people[:-1])
        guesses = attack(synthetic[:, :-1], synthetic[:, -1], people[[0, -1], :-1])
        members += bool(guesses[0] == people[0, -1])
        others += bool(guesses[1] == people[-1, -1])
    return Leak(members, trials, others, trials)


# --- shown ------------------------------------------------------------------------------------------------------------------------

SIZES = (4, 4, 4, 2)  # three known columns of four values each, and a secret bit


def made_up(source: Generator) -> Callable[[int], Integers]:
    """Made-up people: three columns alike, and a bit that follows the first column six times in ten."""

    def population(size: int) -> Integers:
        known = source.integers(4, size=(size, 3))
        secret = np.where(source.random(size) < 0.6, known[:, 0] % 2, 1 - known[:, 0] % 2)
        return np.column_stack([known, secret]).astype(np.int64)

    return population


def from_noisy_counts(people: Integers, epsilon: float, source: Generator) -> Integers:
    """Tacit's: noisy counts of all cells, the negative ones dropped, and as many records drawn from them.

    Another person in place of one moves two cells. What is drawn from noisy counts is post-processing, and free.
    """
    cells = np.ravel_multi_index(tuple(people.T), SIZES)
    counts = np.maximum(noisy_counts(np.bincount(cells, minlength=int(np.prod(SIZES))), epsilon, sensitivity=2), 0)
    weights = counts / counts.sum() if counts.sum() else np.full(len(counts), 1 / len(counts))
    drawn = source.choice(len(counts), size=len(people), p=weights)
    return np.column_stack(np.unravel_index(drawn, SIZES)).astype(np.int64)


def demonstrate(*, quick: bool = False, seed: int | None = 1, epsilons: Sequence[float] = (0.1, 1.0, 4.0)) -> Demonstration:
    """Synthetic records of 40 people: resampled from their own rows, and drawn from noisy counts.

    "Without the release" is the same attack on people who were not in the data; that share is measured, and so the most that epsilon
    permits is an estimate here. `Leak.epsilon` is the bound that holds.

    >>> shown = demonstrate(quick=True)
    >>> shown.raw.rate > shown.raw.base
    True
    """
    source = generator(seed)
    trials = 60 if quick else 1000
    leaks: dict[str, Leak] = {}
    levels: list[Level] = []

    def add(label: str, epsilon: float | None, synthesise: Callable[[Integers], Integers]) -> None:
        leak = leaks[label] = play(synthesise, made_up(source), size=40, trials=trials)
        base = leak.generalisation
        permitted = 1.0 if epsilon is None else most_true_positives(base, epsilon)
        levels.append(Level(label, epsilon, leak.members, trials, base, permitted))

    add("a shuffled copy", None, lambda people: source.permutation(people))
    add("rows drawn again", None, lambda people: source.choice(people, size=len(people)))
    with draws(seed):
        for epsilon in epsilons:
            add(f"epsilon {epsilon:g}", epsilon, partial(from_noisy_counts, epsilon=epsilon, source=source))
    members, others = (100 * share for share in (leaks["a shuffled copy"].rate, leaks["a shuffled copy"].generalisation))
    return Demonstration(
        "synthetic data",
        f"The nearest record of a shuffled copy names the secret of {members:.0f} % of members, and of {others:.0f} % of others.",
        tuple(levels),
        draw=lambda axis: _picture(axis, leaks),
    )


def _picture(axis: Axes, leaks: Mapping[str, Leak]) -> None:
    places = np.arange(len(leaks))
    axis.bar(places - 0.2, [leak.rate for leak in leaks.values()], width=0.38, color=RED, label="members")
    axis.bar(places + 0.2, [leak.generalisation for leak in leaks.values()], width=0.38, color=GREY, label="others")
    named_bars(axis, list(leaks), "share whose secret is named")
    axis.legend(fontsize=8, frameon=False)
