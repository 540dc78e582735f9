"""What `tacit selftest` attacks in fairness: every release on two neighbours, and faults that would be easy to make.

>>> [case.name for case in cases()][:1], len(mutants())
(['fairness: rates'], 5)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.accounting import Adjacency, Event, Gaussian, Guarantee
from tacit.audit.selftest import Case, Mutant, Part, promise
from tacit.fairness.game import Auditor, _Game, _multipliers, _People
from tacit.fairness.multicalibration import BOUND
from tacit.fairness.private_rates import noise_for
from tacit.fairness.rates import People
from tacit.fairness.thresholds import correct
from tacit.mechanisms import NoisySums, farthest_table, noisy_table

SEX = {"sex": ["F", "M"]}
ONE = Guarantee(epsilon=1)
GAME_MU = 2.0  # large, so that few games show it


def part() -> Part:
    """The cases and mutants of fairness."""
    return Part("fairness", (), "", cases, mutants)


def _people(extra: bool) -> People:
    """Eight people, and one more in a small group."""
    sex = ["F", "F", "F", "M", "M", "F", "F", "F"] + ["M"] * extra
    return People.of([1, 0, 1, 0, 1, 0, 1, 1] + [1] * extra, [1, 0, 0, 0, 1, 1, 1, 1] + [1] * extra, sex, SEX)


def _noise() -> NoisySums:
    return noise_for(ONE, Adjacency.ADD_REMOVE)


def _rates(extra: bool, n: int) -> Any:
    """The released count in which the two data sets differ: that of M with the label, accepted."""
    counts = _people(extra).confusion()
    return _noise().add(np.tile(counts, (n, 1, 1, 1)))[:, 1, 1, 1]


def _table(extra: bool, n: int, views: int = 4) -> Any:
    """One round of multicalibration: what the person adds to the table, projected on its direction, with its noise."""
    rows = np.array([[1.0, -1.0]] * (3 + extra))
    cells = np.zeros((3 + extra, 4), dtype=np.int64)
    drawn = np.array([
        noisy_table(rows, cells, size=1, bound=BOUND, multiplier=1.0 / float(farthest_table(4, Adjacency.ADD_REMOVE))
                    * float(farthest_table(views, Adjacency.ADD_REMOVE)), adjacency=Adjacency.ADD_REMOVE).ravel()
        for _ in range(n)
    ])  # fmt: skip
    direction = np.tile([1.0, -1.0], 4)
    return drawn @ direction


def _game_event() -> Event:
    return noise_for(Guarantee(mu=1), Adjacency.ADD_REMOVE, "gaussian").event


def _played(extra: bool, n: int) -> Any:
    """Both turns of the game, whole: the coefficient that only the added person moves."""
    rows = np.array([[0.0]] * 4 + [[1.0]] * extra)
    label, group = np.array([0, 1, 0, 1] + [1] * extra), np.array([0, 0, 1, 1] + [1] * extra)
    looks, moves = _multipliers(GAME_MU, 2, 1)
    game = _Game(
        _People(rows, label, group, 2), Auditor(2, 0.02, 0.5), looks=looks, moves=moves, adjacency=Adjacency.ADD_REMOVE,
        least=0.02, rate=0.2, roles="auditor", steps=1,
    )  # fmt: skip
    return np.array([game.play(2)[0][-1, 0] for _ in range(n)])


def _played_event() -> Event:
    """The price of all turns: shares of mu^2 add up to the whole (Dong, Roth, Su 2022, Corollary 3.3)."""
    return Gaussian(1 / GAME_MU)


def _corrected(extra: bool, n: int) -> Any:
    """The correction, whole: how often the group of the added person is accepted after it."""
    people, noise = _people(extra), _noise()
    counts = people.confusion()
    return np.array([correct(noise.add(counts), gap=0.0).accept[1, 1] for _ in range(n)])


def cases() -> list[Case]:
    """Right releases: each loses nearly what it claims."""
    mu = promise(_game_event())
    return [
        Case("fairness: rates", promise(_noise().event), lambda n: _rates(False, n), lambda n: _rates(True, n), 0.8, 100_000),
        Case(
            "fairness: a round of multicalibration", mu, lambda n: _table(False, n), lambda n: _table(True, n), 0.6, 4000,
            why="one round is drawn a few thousand times",
        ),
        Case(
            "fairness: the game", promise(_played_event()), lambda n: _played(False, n), lambda n: _played(True, n), 0.25, 2000,
            slow=True, why="steps of Adam show little but the sign of a gradient, and a person's gradient is shorter than the bound",
        ),
        Case(
            "fairness: a correction", promise(_noise().event), lambda n: _corrected(False, n), lambda n: _corrected(True, n),
            0.05, 3000, slow=True, why="a linear programme over twelve noisy counts shows little of one of them",
        ),
    ]  # fmt: skip


def mutants() -> list[Mutant]:
    """Faults that must be caught."""
    event = promise(_noise().event)
    mu = promise(_game_event())

    def right(extra: bool, n: int) -> Any:
        return _rates(extra, n)

    def true_denominator(extra: bool, n: int) -> Any:
        """The noisy count over the true size of its group: the quotient tells the size."""
        size = 2 + extra
        return right(extra, n) / size

    def missing_group(extra: bool, n: int) -> Any:
        """Noise for one group's histogram, laid on two attributes at once: a person is in a cell of each."""
        counts = _people(extra).confusion()[1, 1, 1]
        noise = _noise()
        return noise.add(np.full(n, counts)) + noise.add(np.full(n, counts))

    def plain_model(extra: bool, n: int) -> Any:
        """A base model that is not private: its prediction for one person follows the data."""
        flipped = int(_people(extra).confusion()[1, 1, 1] >= 2)
        return _noise().add(np.full(n, 20 * flipped))

    def free_auditor(extra: bool, n: int) -> Any:
        """An auditor who looks at exact rates and tells the learner which group is worse off."""
        return np.full(n, _people(extra).confusion()[1, 1].sum())

    def old_noise(extra: bool, n: int) -> Any:
        """Two rounds with one draw: their difference is exact."""
        noise = _noise().draw(n)
        counts = _people(extra).confusion()[1, 1, 1]
        return (3 * counts + noise) - (counts + noise)

    pair = (False, True)
    return [
        Mutant("fairness: a true denominator", true_denominator, right, pair, event, 4000, "group size for free", bulk=True),
        Mutant("fairness: an attribute not in the sensitivity", missing_group, right, pair, event, 40_000, bulk=True),
        Mutant("fairness: a base model that is not private", plain_model, right, pair, event, 4000, bulk=True),
        Mutant("fairness: an auditor who is not paid", free_auditor, right, pair, event, 4000, bulk=True),
        Mutant("fairness: one draw for two rounds", old_noise, lambda extra, n: _table(extra, n), pair, mu, 4000, bulk=True),
    ]


