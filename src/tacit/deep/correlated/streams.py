"""Steps released under C^-1 Z, one after the other, for millions of parameters, with as few vectors in memory as the strategy allows.

What is exact is the release of C G + Z, row by row, on a lattice: with y the steps published so far, step t publishes
L(u - Σ c_m x_(t-m)), where u is its sum in deviations, L rounds its argument plus real noise to the lattice, and
x = y - u is the noise that earlier steps turned out to have. Since u - Σ c x is the row of C G less a sum of what is
public, all that follows from these releases is post-processing.

>>> from tacit.accounting import Toeplitz
>>> stream = stream_of(Toeplitz([1, 0.5], 3), 1)
>>> [stream.step(torch.zeros(1), lambda v: v + 1).item() for _ in range(3)]  # a noise of 1
[1.0, 0.5, 0.75]

| strategy | vectors kept | work a step |
| --- | --- | --- |
| `Tree` | at most log2 n + 1 | about 2 vectors, on average |
| `Toeplitz` | one less than there are coefficients | as many |
| `SquareRoot` | as many as steps so far | as many |
| `Buffered` | one a buffer | one a buffer |

What is kept is secret for as long as the run's data are: whoever knows it can subtract part of the noise. It never leaves the process.
All of it is in double precision: `past_weight` says how far its rounding errors can grow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from tacit.accounting import Buffered, ParameterError, SquareRoot, Strategy, Toeplitz, Tree, coefficients, tree_block, tree_levels

Release = Callable[[Tensor], Tensor]  # a vector in double precision plus fresh noise, on the lattice; its argument is lost
LARGEST = 2**32  # bytes of earlier noise
BLOCK = 32  # steps
PIECE = 2**15  # parameters


class Stream(Protocol):
    """A run, step by step."""

    def step(self, sums: Tensor, release: Release) -> Tensor:
        """What the next step publishes, from its sums (float64, in deviations) and fresh noise."""


def stream_of(strategy: Strategy, parameters: int) -> Stream:
    """The stream of a strategy for so many parameters, before its first step."""
    match strategy:
        case Tree():
            return TreeStream(strategy)
        case Buffered():
            return BufferedStream(strategy, parameters)
        case Toeplitz() | SquareRoot():
            return ToeplitzStream(coefficients(strategy), parameters)
    raise ParameterError(f"there is no stream for {type(strategy).__name__}; use Tree, Toeplitz, SquareRoot or Buffered")


def past_weight(strategy: Strategy) -> float:
    """How often, at most, the rounding error of one kept vector enters a release.

    >>> past_weight(Toeplitz([1, 0.5, 0.25], 10)), past_weight(Tree(8))
    (1.75, 2.0)
    """
    return 2.0 if isinstance(strategy, Tree) else float(np.abs(coefficients(strategy)).sum())


class TreeStream:
    """Blocks of steps: a step completes one or several, and keeps the noise of the largest in place of those it is made of.

    With variance reduction each block that a step completes is released, and the step's value is the weighted mean.
    """

    def __init__(self, tree: Tree) -> None:
        self._weights = tree.block_variances().tolist() if tree.reduced else None
        self._time = 0
        self._blocks: dict[int, Tensor] = {}  # noise by level: of the blocks that the running sum is made of

    def step(self, sums: Tensor, release: Release) -> Tensor:
        self._time += 1
        level = tree_levels(tree_block(self._time)) - 1
        replaced = [self._blocks.pop(i) for i in range(level)]
        known = torch.zeros_like(sums)
        if self._weights is None:
            for part in replaced:
                known += part
            found = release(sums - known)
        else:
            found = release(sums.clone())
            for i, part in enumerate(replaced, 1):
                known += part
                own = self._weights[i]  # precision of its own noise: the variance of the two together
                found = release(sums - known).mul_(own).add_(found, alpha=1 - own)
        self._blocks[level] = (found - sums).add_(known)
        return found


class ToeplitzStream:
    """The last x are kept in a ring.

    With many coefficients most of the time goes into reading the ring, so what all x before a block of steps contribute to the block
    is found at its beginning, in one matrix product.
    """

    def __init__(self, column: np.ndarray, parameters: int) -> None:
        self._size = len(column) - 1
        self._block = 1 if self._size <= BLOCK else BLOCK
        self._lags = torch.from_numpy(np.concatenate([column[1:], np.zeros(self._block)]))  # lag m at m - 1
        self._time = 0
        needed = self._size * parameters * 8
        if needed > LARGEST:
            raise ParameterError(
                f"this noise keeps {self._size} vectors of {parameters} numbers, {needed / 2**30:.0f} GiB; use a Buffered strategy or "
                "fewer bands"
            )
        self._ring = torch.zeros(self._size, parameters, dtype=torch.float64)
        self._within, self._ahead = (torch.zeros(self._block if self._size else 0, parameters, dtype=torch.float64) for _ in range(2))

    def step(self, sums: Tensor, release: Release) -> Tensor:
        if self._size == 0:
            return release(sums)
        place = self._time % self._block
        if place == 0:
            self._look_ahead()
        row = sums - self._ahead[place]
        if place:
            row.addmv_(self._within[:place].t(), self._lags[:place].flip(0), alpha=-1)
        found = release(row)
        torch.sub(found, sums, out=self._within[place])
        self._ring[self._time % self._size] = self._within[place]
        self._time += 1
        return found

    def _look_ahead(self) -> None:
        filled = min(self._time, self._size)
        if filled:
            lag = (self._time - 1 - torch.arange(filled)) % self._size  # less one, of each x in the ring, seen from the next step
            torch.mm(self._lags[lag[None, :] + torch.arange(self._block)[:, None]], self._ring[:filled], out=self._ahead)


class BufferedStream:
    """The sum of earlier x is that of scales_j s_j, and then s_j becomes decays_j s_j + x; piece by piece, to stay in the cache."""

    def __init__(self, strategy: Buffered, parameters: int) -> None:
        self._scales = torch.tensor([float(value) for value in strategy.scales], dtype=torch.float64)
        self._decays = torch.tensor([float(value) for value in strategy.decays], dtype=torch.float64).unsqueeze(1)
        self._buffers = torch.zeros(len(self._scales), parameters, dtype=torch.float64)

    def step(self, sums: Tensor, release: Release) -> Tensor:
        found = release(torch.addmv(sums, self._buffers.t(), self._scales, alpha=-1))
        for start in range(0, len(sums), PIECE):
            part = slice(start, start + PIECE)
            self._buffers[:, part].mul_(self._decays).add_(found[part] - sums[part])
        return found
