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


def written_out(strategy: Strategy, dtype: torch.dtype = torch.float64) -> Matrix:
    """M with noise = M Z: the i-th independent vector is the i-th unit vector."""
    steps, most = strategy.length, 2 * strategy.length
    stream, counter = stream_of(strategy), itertools.count()

    def draw() -> torch.Tensor:
        found = torch.zeros(most, dtype=dtype)
        found[next(counter)] = 1
        return found

    rows = torch.stack([stream.step(draw) for _ in range(steps)]).double().numpy()
    return rows[:, : next(counter)]


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


@pytest.mark.parametrize("strategy", STRATEGIES[-5:], ids=NAMES[-5:])
def test_single_precision_is_as_good(strategy: Strategy) -> None:
    assert np.allclose(written_out(strategy, torch.float32), written_out(strategy), atol=1e-6)


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
        stream.step(lambda: torch.zeros(1))
        most = max(most, len(stream._blocks))
    assert most <= 10


def test_a_tree_that_forgets_to_take_back_is_caught() -> None:
    """The mutant adds a block's noise and leaves that of its parts in: its sums are right in no sense, and M C tells."""

    class Forgetful(TreeStream):
        def step(self, draw: streams.Draw) -> torch.Tensor:
            super().step(draw)
            return self._blocks[max(i for i in self._blocks if self._time % 2**i == 0)].clone()

    stream, counter = Forgetful(Tree(8)), itertools.count()
    m = torch.stack([stream.step(lambda: torch.eye(8, dtype=torch.float64)[next(counter)]) for _ in range(8)]).numpy()
    assert not np.allclose(m @ strategy_matrix(Tree(8)), np.eye(8), atol=0.1)


def test_too_much_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "LARGEST", 1000)
    stream = stream_of(SquareRoot(100))
    with pytest.raises(ParameterError, match="Buffered"):
        stream.step(lambda: torch.zeros(10))
    with pytest.raises(ParameterError, match="Stated"):
        stream_of(Stated(1, 3))
