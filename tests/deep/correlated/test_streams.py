"""The noise of every strategy, exactly: fed with unit vectors a stream writes out its matrix, and that must undo the strategy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.linalg import toeplitz

from tacit.accounting import ParameterError
from tacit.accounting.strategies import Buffered, SquareRoot, Stated, Strategy, Toeplitz, Tree, coefficients, sum_deviations
from tacit.deep.correlated import streams
from tacit.deep.correlated.streams import TreeStream, stream_of

Matrix = NDArray[np.float64]


def written_out(strategy: Strategy, sums: Matrix | None = None) -> Matrix:
    """M with noise = M Z: the i-th independent vector is the i-th unit vector, added to what is released."""
    steps, most = strategy.length, 2 * strategy.length
    stream, counter = stream_of(strategy, most), itertools.count()

    def release(row: torch.Tensor) -> torch.Tensor:
        row[next(counter)] += 1
        return row

    given = torch.zeros(steps, most, dtype=torch.float64) if sums is None else torch.from_numpy(sums)
    rows = torch.stack([stream.step(given[i].clone(), release).clone() for i in range(steps)]).numpy()
    return rows if sums is not None else rows[:, : next(counter)]


def strategy_matrix(strategy: Strategy) -> Matrix:
    """C with its rows in the order in which their noise is drawn: of a tree, the blocks in the order of completion, small ones first."""
    n = strategy.length
    if isinstance(strategy, Tree):
        rows = []
        for end in range(1, n + 1):
            ending = [width for width in (2**i for i in range(n.bit_length())) if end % width == 0]
            for width in ending if strategy.reduced else ending[-1:]:
                rows.append([float(end - width <= i < end) for i in range(n)])
        return np.array(rows)
    column = coefficients(strategy)
    return np.tril(toeplitz(np.concatenate([column, np.zeros(n - len(column))])))


STRATEGIES = [
    *(Tree(n, reduced) for n in (1, 2, 7, 8, 13, 64) for reduced in (False, True)),
    SquareRoot(1),
    SquareRoot(20),
    Toeplitz([1], 5),
    Toeplitz([1, 0.5], 9),
    Toeplitz([1, 0.7, 0.4, 0.1], 30),
    Toeplitz([1, -0.3, 0.2], 12),
    SquareRoot(150),
    Toeplitz([1 / (1 + m) for m in range(40)], 130),
    Toeplitz([1 / (1 + m) for m in range(33)], 66),
    Toeplitz([1 / (1 + m) for m in range(34)], 100),
    Buffered([0.3, 0.2, 0.1], [0.9, 0.5, 0.99], 40),
    Buffered([], [], 3),
]
NAMES = [f"{type(s).__name__}-{s.length}-{i}" for i, s in enumerate(STRATEGIES)]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=NAMES)
def test_the_noise_undoes_the_strategy(strategy: Strategy) -> None:
    """M C = 1 makes X + M Z = M (C X + Z) a function of the priced C X + Z; without noise, running sums are exact."""
    n = strategy.length
    m, c = written_out(strategy), strategy_matrix(strategy)
    assert np.allclose(m @ c, np.eye(n), atol=1e-12)
    if m.shape[0] == m.shape[1]:
        assert np.allclose(m, np.linalg.inv(c), atol=1e-12)
    sums = np.tril(np.ones((n, n))) @ m
    assert np.allclose(np.linalg.norm(sums, axis=1), sum_deviations(strategy), rtol=1e-10)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=NAMES)
def test_what_is_published_is_sums_plus_noise(strategy: Strategy) -> None:
    """X + M Z for any X: what a step releases is a row of C X + Z less something public, and X comes back out of it."""
    sums = np.random.default_rng(strategy.length).normal(size=(strategy.length, 2 * strategy.length))
    m = written_out(strategy)
    noise = np.zeros_like(sums)
    noise[:, : m.shape[1]] = m
    assert np.allclose(written_out(strategy, sums), sums + noise, atol=1e-11)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=NAMES)
def test_each_release_is_a_row_of_the_strategy_less_what_is_public(strategy: Strategy) -> None:
    """Two data sets, the same publications so far: what the release gets differs by C (X - X'), whatever was published.

    The lattice hides the step's own sum only behind what it adds to that very row, so this is what makes the price right.
    """
    n = strategy.length
    rng = np.random.default_rng(n)
    one, other, told = rng.normal(size=(n, 1)), rng.normal(size=(n, 1)), rng.normal(size=2 * n)

    def rows(sums: Matrix) -> Matrix:
        stream, told_next, seen = stream_of(strategy, 1), iter(told), []

        def release(row: torch.Tensor) -> torch.Tensor:
            seen.append(row.item())
            return torch.full_like(row, next(told_next))

        for value in torch.from_numpy(sums):
            stream.step(value.clone(), release)
        return np.array(seen)

    assert np.allclose(rows(one) - rows(other), strategy_matrix(strategy) @ (one - other)[:, 0], atol=1e-10)


def test_pieces_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = Buffered([0.3, 0.2, 0.1], [0.9, 0.5, 0.99], 40)
    whole = written_out(strategy)
    monkeypatch.setattr(streams, "PIECE", 7)
    assert np.allclose(written_out(strategy), whole, atol=1e-15)


@pytest.mark.parametrize("n", [1, 5, 8, 100, 200])
def test_a_tree_sum_uses_popcount_blocks(n: int) -> None:
    sums = np.cumsum(written_out(Tree(n)), axis=0)
    assert ((np.abs(sums) > 0.5).sum(axis=1) == [t.bit_count() for t in range(1, n + 1)]).all()
    assert set(np.unique(sums)) <= {0.0, 1.0}


@pytest.mark.parametrize("reduced", [False, True])
def test_a_tree_keeps_few_vectors(reduced: bool) -> None:
    stream = TreeStream(Tree(1000, reduced))
    most = 0
    for _ in range(1000):
        stream.step(torch.zeros(1, dtype=torch.float64), lambda row: row)
        most = max(most, len(stream._blocks))
    assert most <= 10


def test_a_tree_that_forgets_to_take_back_is_caught() -> None:
    """The mutant adds a block's noise and leaves that of its parts in: its sums are right in no sense, and M C tells."""

    class Forgetful(TreeStream):
        def step(self, sums: torch.Tensor, release: streams.Release) -> torch.Tensor:
            super().step(sums, release)
            return self._blocks[max(i for i in self._blocks if self._time % 2**i == 0)].clone()

    stream, counter, unit = Forgetful(Tree(8)), itertools.count(), torch.eye(8, dtype=torch.float64)
    nothing = torch.zeros(8, dtype=torch.float64)
    m = torch.stack([stream.step(nothing, lambda row: row + unit[next(counter)]) for _ in range(8)]).numpy()
    assert not np.allclose(m @ strategy_matrix(Tree(8)), np.eye(8), atol=0.1)


def test_too_much_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "LARGEST", 1000)
    with pytest.raises(ParameterError, match="Buffered"):
        stream_of(SquareRoot(100), 10)
    with pytest.raises(ParameterError, match="Stated"):
        stream_of(Stated(1, 3), 10)
