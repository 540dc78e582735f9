"""The randomness of an experiment repeats, and is not that of the noise it is run on."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.audit.experiment import generator, spawn
from tacit.noise import test_mode
from tacit.noise.source import words


def test_a_seed_repeats_and_none_does_not() -> None:
    assert generator(3).random() == generator(3).random()
    assert generator().random() != generator().random()
    made = generator(3)
    assert generator(made) is made


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_the_same_number_seeds_another_stream_than_the_noise(seed: int) -> None:
    with test_mode(seed):
        noise = words(1000)
    own = generator(seed).integers(2**64, size=1000, dtype=np.uint64)
    assert len(np.intersect1d(noise, own)) == 0
    naive = np.random.default_rng(seed).integers(2**64, size=1000, dtype=np.uint64)
    assert len(np.intersect1d(noise, naive)) > 0, "the generator of numpy itself would have been the noise's own"


def test_children_are_independent_and_repeat() -> None:
    first, second = (spawn(generator(1), 3) for _ in range(2))
    assert [child.random() for child in first] == [child.random() for child in second]
    assert len({child.random() for child in first}) == 3
