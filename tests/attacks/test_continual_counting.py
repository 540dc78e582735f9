"""Attacks on continual counting: all published totals at once, against one changed item."""

from __future__ import annotations

import numpy as np
from tests.attacks.attack import lower_bound

from tacit import noise
from tacit.accounting import Adjacency, account
from tacit.calculus import Hamming, Integers, Space, Vectors
from tacit.mechanisms import BinaryTree, square_root
from tacit.mechanisms.continual_counting import coefficients

SPACE = Space(Vectors(Integers(0, 1), 4), Hamming())
DATA = [[0, 0, 0, 0], [1, 0, 0, 0]]


def test_the_tree_is_attacked_through_every_level() -> None:
    """The first item is in the blocks that end at 1, 2 and 4: undo the totals and vote."""
    plan = SPACE >> BinaryTree.for_epsilon(1.5, horizon=4)

    def votes(items: list[int]) -> int:
        first, second, _, fourth = plan.function(items).tolist()
        return sum(total > 0 for total in (first, second, fourth))

    found = lower_bound(*(lambda n, x=x: [votes(x) for _ in range(n)] for x in DATA), 2000)
    assert 0.55 * 1.5 <= found <= 1.5

    def careless(items: list[int]) -> int:
        """The mutant pays for one level and adds its noise to every block."""
        return sum(sum(items[:end]) + int(noise.rounded_laplace(1 / 1.5)) > 0 for end in (1, 2, 4))

    assert lower_bound(*(lambda n, x=x: [careless(x) for _ in range(n)] for x in DATA), 1500) > 1.5


def test_the_square_root_is_attacked_along_its_column() -> None:
    """Project the measurements, which the totals determine, on the direction in which the item moves them."""
    mechanism = square_root(4, sigma=1)
    plan = SPACE >> mechanism
    column = np.array(coefficients(4)) / 2**20
    running = np.tril(np.ones((4, 4)))
    encode = np.array([[column[i - j] if i >= j else 0 for j in range(4)] for i in range(4)]) @ np.linalg.inv(running)

    def projected(items: list[int]) -> float:
        return float(np.round(2 * (column @ encode @ plan.function(items))))

    delta = 0.01
    claimed = account(plan.event(1), Adjacency.REPLACE_ONE).epsilon(delta).upper
    found = lower_bound(*(lambda n, x=x: [projected(x) for _ in range(n)] for x in DATA), 2500, delta=delta)
    assert 0.6 * claimed <= found <= claimed
