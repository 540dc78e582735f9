"""Hadamard response: the transform against its definition, and every place of the code in use."""

from __future__ import annotations

import numpy as np
import pytest
from tests.local.oracles import supports

from tacit.local import Hadamard
from tacit.local.hadamard import walsh


@pytest.mark.parametrize("size", [2, 3, 16, 17, 100])
def test_supports_by_their_definition(size: int) -> None:
    oracle = Hadamard(size, 1)
    reports = oracle.privatise(np.arange(300) % size).astype(np.int64)
    plain = [sum((int(r) >> 1 & v).bit_count() % 2 == int(r) & 1 for r in reports) for v in range(size)]
    assert supports(oracle, reports).tolist() == plain


def test_the_transform_twice_is_the_length() -> None:
    table = np.arange(64) ** 2 % 37
    assert (walsh(walsh(table)) == 64 * table).all()


def test_the_sampled_place_without_zero_is_not_used() -> None:
    """All places are drawn, also 0, whose bit says nothing: the plain form of the book."""
    places = np.unique(Hadamard(8, 1).privatise(np.zeros(2000, dtype=np.int64)) >> 1)
    assert places.tolist() == list(range(8))
