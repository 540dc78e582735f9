"""What synthetic records say about members and about others: a copy leaks, noisy counts do not, and the bound on the difference."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.accounting import ParameterError
from tacit.audit.demonstrations import draws
from tacit.audit.demonstrations import synthetic_inference as module
from tacit.audit.demonstrations.synthetic_inference import SIZES, Leak, by_agreement, from_noisy_counts, made_up, most_excess, nearest, play
from tacit.audit.experiment import generator


def test_nearest_by_brute_force() -> None:
    source = generator(1)
    table, wanted = source.integers(9, size=(30, 3)), source.integers(9, size=(10, 3))
    for row, found in zip(wanted.tolist(), nearest(table, list(range(30)), wanted), strict=True):
        far = [sum(abs(a - b) for a, b in zip(row, other, strict=True)) for other in table.tolist()]
        assert found == far.index(min(far))


def test_agreement_by_brute_force() -> None:
    source = generator(2)
    table, secrets, wanted = source.integers(3, size=(40, 3)), source.integers(2, size=40), source.integers(3, size=(10, 3))
    for row, found in zip(wanted.tolist(), by_agreement(table, secrets, wanted).tolist(), strict=True):
        agree = [sum(a == b for a, b in zip(row, other, strict=True)) for other in table.tolist()]
        votes = [int(secret) for secret, fit in zip(secrets, agree, strict=True) if fit == max(agree)]
        assert found == min(set(votes), key=lambda vote: (-votes.count(vote), vote))


def test_tables_must_fit() -> None:
    with pytest.raises(ParameterError, match="same columns"):
        nearest([[1, 2]], ["a"], [[1]])


def test_a_copy_of_unique_people_leaks_all() -> None:
    """With identifiers the nearest record is the member's own; others learn a fair coin."""
    source = generator(3)

    def population(size: int) -> np.ndarray:
        return np.column_stack([source.integers(10**12, size=size), source.integers(2, size=size)])

    leak = play(lambda people: people, population, size=20, trials=200)
    assert leak.rate == 1.0 and abs(leak.generalisation - 0.5) < 0.2
    assert leak.epsilon(1 - 1e-6) > 0.3


def test_a_release_without_the_data_leaks_nothing() -> None:
    source = generator(4)
    people = made_up(source)
    leak = play(lambda _: people(40), people, size=40, trials=400)
    assert leak.epsilon(1 - 1e-6) == 0.0 and abs(leak.excess) < 5 * math.sqrt(0.5 / 400)


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_noisy_counts_stay_within_epsilon(epsilon: float) -> None:
    source = generator(5)
    with draws(5):
        leak = play(lambda people: from_noisy_counts(people, epsilon, source), made_up(source), size=40, trials=300)
    assert leak.epsilon(1 - 1e-6) <= epsilon
    assert leak.excess <= most_excess(epsilon) + 5 * math.sqrt(0.5 / 300)


def test_noise_far_too_small_is_caught() -> None:
    """Five people among 64 kinds, claimed at epsilon 0.2 and released at 100: the difference of the shares refutes the claim."""
    source = generator(6)
    with draws(6):
        leak = play(lambda people: from_noisy_counts(people, 100.0, source), made_up(source), size=5, trials=500)
    assert leak.epsilon(1 - 1e-3) > 0.2
    assert leak.excess > most_excess(0.2)


def test_records_lie_in_the_public_domain() -> None:
    source = generator(7)
    with draws(7):
        drawn = from_noisy_counts(made_up(source)(50), 0.5, source)
    assert drawn.shape == (50, 4) and (drawn >= 0).all() and (drawn < np.array(SIZES)).all()


def test_rates_of_a_leak() -> None:
    leak = Leak(80, 100, 50, 100)
    assert (leak.rate, leak.generalisation, leak.excess) == (0.8, 0.5, 0.3)


def test_shown() -> None:
    shown = module.demonstrate(quick=True)
    assert shown.levels[0].rate > shown.levels[0].base + 0.15
    assert not any(level.beats() for level in shown.levels)
    assert len(shown.picture().axes[0].patches) == 2 * len(shown.levels)
