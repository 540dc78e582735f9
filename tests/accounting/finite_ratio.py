"""A step with finitely many outcomes: the tests' second likelihood ratio beside the Gaussian one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit.accounting.pairs.pair import Array


@dataclass(frozen=True)
class FiniteRatio:
    """A step with finitely many outcomes: ratios dP/dQ and their Q-masses; what the P-masses lack to 1 lies where Q has no mass.

    >>> FiniteRatio((0.5, 2.0), (2 / 3, 1 / 3)).head(1.0)
    (0.6666666666666666, 0.3333333333333333)
    """

    ratios: tuple[float, ...]
    masses: tuple[float, ...]

    def _arrays(self) -> tuple[Array, Array]:
        order = np.argsort(self.ratios)
        return np.asarray(self.ratios)[order], np.asarray(self.masses)[order]

    def sketch(self, top: float) -> tuple[Array, Array]:
        y, q = self._arrays()
        return np.minimum(y, top), np.log(q)

    def tail(self, y: float) -> tuple[float, float]:
        ratio, q = self._arrays()
        above = ratio > y
        return float(q[above].sum()), max(0.0, 1 - float(q @ ratio)) + float(q[above] @ (ratio[above] - y))

    def head(self, y: float) -> tuple[float, float]:
        ratio, q = self._arrays()
        below = ratio <= y
        return float(q[below].sum()), float(q[below] @ ratio[below])

    def cells(self, edge: float, offset: float, step: float, count: int) -> tuple[Array, Array]:
        ratio, q = self._arrays()
        inside = (ratio > edge) & (ratio <= offset + step * count)
        place = (ratio[inside] - offset) / step
        cell = np.clip(np.floor(place).astype(np.intp), 0, count - 1)
        part = np.clip(place - cell, 0, 1)
        low, high = (np.bincount(cell, q[inside] * share, count).astype(float) for share in (1 - part, part))
        return low, high
