"""Strategies for one column: the numbers of spec 03 and 09, and least squares against numpy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tacit.workloads import AllRanges, Identity, Prefix, Total
from tacit.workloads.strategy import Dense, Levels, Need, Strategy, dense_powers, haar, identity, levels, rms, squared_error


def matrix_of(strategy: Strategy) -> np.ndarray:
    """The strategy as one matrix, its blocks times their weights; with the cells that fill up the last blocks."""
    whole = replace(strategy, size=strategy.padded) if isinstance(strategy, Levels) else strategy
    blocks = whole.measure(np.eye(whole.size), 0)
    return np.concatenate([block * float(w) for block, w in zip(blocks, strategy.weights, strict=True)])


STRATEGIES: list[Strategy] = [
    identity(6), levels(6, 2), levels(9, 3), levels(8, 2, [0.5, 0.0, 1.0, 0.7]), haar(8), haar(6),
    Dense.rounded(np.vstack([np.eye(5), np.ones((1, 5)) / 3])),
]  # fmt: skip


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: f"{type(s).__name__}{s.size}")
def test_errors_and_estimates_are_those_of_least_squares(strategy: Strategy) -> None:
    rows = matrix_of(strategy)
    inverse = np.linalg.pinv(rows)[: strategy.size]
    for factor in (Identity(strategy.size), AllRanges(strategy.size), Prefix(strategy.size), Total(strategy.size)):
        through = factor.matrix() @ inverse
        assert strategy.error(Need.of(factor)) == pytest.approx((through**2).sum(), rel=1e-9)
        squares, fourths = strategy.powers(factor, True)
        np.testing.assert_allclose(squares, (through**2).sum(axis=1), rtol=1e-8)
        assert fourths is not None
        np.testing.assert_allclose(fourths, (through**4).sum(axis=1), rtol=1e-8)
        np.testing.assert_allclose(strategy.powers(factor, False)[0], squares, rtol=1e-8)
        np.testing.assert_allclose(dense_powers(strategy, factor)[0], squares, rtol=1e-8)
    assert float(strategy.norm("laplace")) == pytest.approx(np.abs(rows).sum(axis=0).max())
    assert float(strategy.norm("gaussian")) == pytest.approx(np.sqrt((rows**2).sum(axis=0).max()))
    counts = np.random.default_rng(1).integers(0, 50, size=(2, strategy.size))
    noisy = [block + np.random.default_rng(2).integers(-9, 9, block.shape) for block in strategy.measure(counts, 1)]
    stacked = np.concatenate([b * float(w) for b, w in zip(noisy, strategy.weights, strict=True)], axis=1)
    found = strategy.solve(strategy.gather(noisy, 1), 1)
    np.testing.assert_allclose(found, stacked @ inverse.T, atol=1e-8)


@pytest.mark.parametrize(
    ("strategy", "factor", "expected"),
    [
        (identity(4), AllRanges(4), 40),
        (levels(4, 2), AllRanges(4), 876 / 7),
        (haar(4), AllRanges(4), 108),
        (Levels(4, (2, 1), (levels(4, 2).weights[0],) * 2), AllRanges(4), 224 / 3),
        (Dense(AllRanges(4).matrix().astype(np.int64)), AllRanges(4), 288),
        (Dense(AllRanges(8).matrix().astype(np.int64)), AllRanges(8), 6400),
        (levels(8, 2), AllRanges(8), 938.666667),
        (levels(16, 2), AllRanges(16), 6576.0983),
        (levels(64, 2), AllRanges(64), 264672.1515),
        (identity(4), Prefix(4), 20),
        (Dense(Prefix(4).matrix().astype(np.int64)), Prefix(4), 128),
        (levels(4, 2), Prefix(4), 46.285714),
        (levels(256, 4), AllRanges(256), 5060277.60),
        (levels(256, 16), AllRanges(256), 4453994.90),
        (levels(1024, 32), AllRanges(1024), 146520530.95),
    ],
)
def test_laplace_errors_of_the_texts(strategy: Strategy, factor, expected: float) -> None:  # type: ignore[no-untyped-def]
    assert squared_error(strategy, Need.of(factor), "laplace") == pytest.approx(expected, rel=1e-6)


def test_the_printed_201_is_not_reproduced() -> None:
    """The book prints 201 for the binary tree on four cells; its own formula gives 125.14 (erratum E7)."""
    assert squared_error(levels(4, 2), Need.of(AllRanges(4)), "laplace") != pytest.approx(201, rel=0.1)


@pytest.mark.parametrize(
    ("strategy", "laplace", "gaussian"),
    [(identity(256), 13.115, 9.274), (levels(256, 2), 16.272, 3.835), (levels(256, 4), 12.403, 3.922), (haar(256), 14.871, 3.505)],
)
def test_root_mean_squares_of_all_ranges(strategy: Strategy, laplace: float, gaussian: float) -> None:
    need = Need.of(AllRanges(256))
    assert rms(strategy, need, "laplace") == pytest.approx(laplace, abs=6e-4)
    assert rms(strategy, need, "gaussian") == pytest.approx(gaussian, abs=6e-4)


def test_long_columns_need_no_matrix() -> None:
    """A million cells: single cells have variance 1, and the tree answers a long range far better."""
    size = 10**6
    tree = levels(size, 16)
    squares, _ = tree.powers(Prefix(size), False)
    assert squares.shape == (size,) and squares.max() < 100 < size
    counts = np.zeros(size, dtype=np.int64)
    counts[[5, 999_999]] = 7
    found = tree.solve(tree.gather(tree.measure(counts, 0), 0), 0)
    np.testing.assert_allclose(found, counts, atol=1e-6)


@pytest.mark.parametrize(("size", "b"), [(8, 2), (16, 4), (27, 3)])
def test_the_printed_two_passes_are_least_squares(size: int, b: int) -> None:
    """Weighted averages upwards and equal shares downwards (Hay et al. 2010, spec 03) give the leaves of `solve`, to 1e-9."""
    tree = levels(size, b)
    random = np.random.default_rng(size)
    blocks = [block + random.integers(-50, 50, block.shape) for block in tree.measure(random.integers(0, 99, size), 0)]
    up = [blocks[-1].astype(float)]
    for height, block in enumerate(reversed(blocks[:-1]), start=2):
        own = (b**height - b ** (height - 1)) / (b**height - 1)
        up.insert(0, own * block + (b ** (height - 1) - 1) / (b**height - 1) * up[0].reshape(-1, b).sum(axis=1))
    down = up[0]
    for level in up[1:]:
        down = level + np.repeat((down - level.reshape(-1, b).sum(axis=1)) / b, b)
    np.testing.assert_allclose(tree.solve(tree.gather(blocks, 0), 0), down, atol=1e-9)
