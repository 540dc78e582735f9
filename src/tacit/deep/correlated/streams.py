"""The rows of C^-1 Z one after the other, for millions of parameters, with as few vectors in memory as the strategy allows.

>>> import torch
>>> from tacit.accounting import Toeplitz
>>> stream = stream_of(Toeplitz([1, 0.5], 3))
>>> [stream.step(lambda: torch.ones(1)).item() for _ in range(3)]
[1.0, 0.5, 0.75]

| strategy | vectors kept | work a step |
| --- | --- | --- |
| `Tree` | at most log2 n + 1 | about 2 vectors, on average |
| `Toeplitz` | one less than there are coefficients | as many |
| `SquareRoot` | as many as steps so far | as many |
| `Buffered` | one a buffer | one a buffer |

What is kept is secret for as long as the run's data are: whoever knows it can subtract part of the noise. It never leaves the process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from tacit.accounting import Buffered, ParameterError, SquareRoot, Strategy, Toeplitz, Tree, coefficients, tree_block, tree_levels

Draw = Callable[[], Tensor]
LARGEST = 2**32  # bytes of earlier noise
BLOCK = 32  # steps
PIECE = 2**15  # parameters


class Stream(Protocol):
    """The noise of a run, step by step."""

    def step(self, draw: Draw) -> Tensor:
        """The noise of the next step, made of fresh independent noise and of what was kept."""


def stream_of(strategy: Strategy) -> Stream:
    """The stream of a strategy, before its first step."""
    match strategy:
        case Tree():
            return TreeStream(strategy)
        case Buffered():
            return BufferedStream(strategy)
        case Toeplitz() | SquareRoot():
            return ToeplitzStream(coefficients(strategy))
    raise ParameterError(f"there is no stream for {type(strategy).__name__}; use Tree, Toeplitz, SquareRoot or Buffered")


class TreeStream:
    """Noise of blocks: a step brings that of the block it completes, less that of the smaller blocks which this one replaces."""

    def __init__(self, tree: Tree) -> None:
        self._weights = tree.block_variances().tolist() if tree.reduced else None
        self._time = 0
        self._blocks: dict[int, Tensor] = {}  # by level: those that the running sum is made of

    def step(self, draw: Draw) -> Tensor:
        self._time += 1
        level = tree_levels(tree_block(self._time)) - 1
        replaced = [self._blocks.pop(i) for i in range(level)]
        block = draw()
        for i, left in enumerate(replaced, 1):
            if self._weights is not None:
                own = self._weights[i]  # precision of its own noise: the variance of the two together
                block = draw().mul_(own).add_(left + block, alpha=1 - own)
        self._blocks[level] = block
        found = block.clone()
        for part in replaced:
            found.sub_(part)
        return found


class ToeplitzStream:
    """x_t = z_t - sum_m c_m x_(t-m), m = 1, 2, ...: the last x are kept in a ring.

    With many coefficients most of the time goes into reading the ring, so what all x before a block of steps contribute to the block
    is found at its beginning, in one matrix product.
    """

    def __init__(self, column: np.ndarray) -> None:
        self._size = len(column) - 1
        self._block = 1 if self._size <= BLOCK else BLOCK
        self._lags = torch.from_numpy(np.concatenate([column[1:], np.zeros(self._block)]))  # lag m at m - 1
        self._time = 0
        self._ring = self._ahead = self._within = torch.empty(0)

    def step(self, draw: Draw) -> Tensor:
        found = draw()
        if self._size == 0:
            return found
        place = self._time % self._block
        if self._time == 0:
            self._allocate(found)
        if place == 0:
            self._look_ahead()
        found.sub_(self._ahead[place])
        if place:
            weights = self._lags[:place].flip(0).to(found.dtype)
            found = torch.addmv(found, self._within[:place].t(), weights, alpha=-1)
        self._within[place] = found
        self._ring[self._time % self._size] = found
        self._time += 1
        return found

    def _allocate(self, like: Tensor) -> None:
        needed = self._size * like.numel() * like.element_size()
        if needed > LARGEST:
            raise ParameterError(
                f"this noise keeps {self._size} vectors of {like.numel()} numbers, {needed / 2**30:.0f} GiB; use a Buffered strategy or "
                "fewer bands"
            )
        self._ring = torch.zeros(self._size, like.numel(), dtype=like.dtype)
        self._within = torch.zeros(self._block, like.numel(), dtype=like.dtype)
        self._ahead = torch.zeros_like(self._within)

    def _look_ahead(self) -> None:
        filled = min(self._time, self._size)
        if filled:
            lag = (self._time - 1 - torch.arange(filled)) % self._size  # less one, of each x in the ring, seen from the next step
            weights = self._lags[lag[None, :] + torch.arange(self._block)[:, None]].to(self._ring.dtype)
            torch.mm(weights, self._ring[:filled], out=self._ahead)


class BufferedStream:
    """x_t = z_t - sum_j scales_j s_j, and then s_j becomes decays_j s_j + x_t; piece by piece, so that a piece stays in the cache."""

    def __init__(self, strategy: Buffered) -> None:
        self._scales = torch.tensor([float(value) for value in strategy.scales], dtype=torch.float64)
        self._decays = [float(value) for value in strategy.decays]
        self._buffers: Tensor | None = None

    def step(self, draw: Draw) -> Tensor:
        found = draw()
        if self._buffers is None:
            self._buffers = found.repeat(len(self._decays), 1)
            return found
        scales = self._scales.to(found.dtype)
        for start in range(0, found.numel(), PIECE):
            piece, kept = found[start : start + PIECE], self._buffers[:, start : start + PIECE]
            piece.addmv_(kept.t(), scales, alpha=-1)
            for buffer, decay in zip(kept, self._decays, strict=True):
                torch.add(piece, buffer, alpha=decay, out=buffer)
        return found
