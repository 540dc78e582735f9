"""Unary encoding: packed bits, odd sizes, long and short blocks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.local.oracles import supports

from tacit.local import SymmetricUnary, Unary


@pytest.mark.parametrize("kind", [Unary, SymmetricUnary])
@pytest.mark.parametrize("size", [2, 7, 8, 9, 1000])
def test_counts_by_their_definition(kind: type[Unary], size: int) -> None:
    oracle = kind(size, 1)
    reports = oracle.privatise(np.arange(600) % size)
    assert supports(oracle, reports).tolist() == np.unpackbits(reports, axis=1)[:, :size].sum(axis=0).tolist()


def test_bits_beyond_the_size_are_no_report() -> None:
    rows = np.array([[0b11111110], [0b11111111]], dtype=np.uint8)
    assert Unary(7, 1).from_bytes(rows)[1].tolist() == [True, False]
    assert Unary(8, 1).from_bytes(rows)[1].tolist() == [True, True]


def test_bits_are_independent() -> None:
    """Two bits of people who hold a third value: the share with both is u^2 within 6 deviations."""
    n, u = 200_000, 1 / (math.e + 1)
    bits = np.unpackbits(Unary(3, 1).privatise(np.full(n, 2)), axis=1)[:, :2]
    assert abs(bits.all(axis=1).mean() - u * u) < 6 * math.sqrt(u * u * (1 - u * u) / n)


def test_a_block_of_wide_reports_stays_small() -> None:
    assert Unary(10**6, 1).block * 10**6 <= 2**24 and Unary(10**8, 1).block == 1 and Unary(100, 1).block == 1 << 12
