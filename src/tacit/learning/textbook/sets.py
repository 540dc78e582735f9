"""Constraint sets of parameters: where to project, how wide they are, and what their corners are.

The algorithms of the textbook stay inside such a set; its diameter enters their bounds. A set of your own
needs what `ConstraintSet` names.

>>> ball = L2Ball(2, radius=1.0)
>>> ball.project(np.array([3.0, 4.0])), ball.diameter(2), ball.contains(np.array([0.6, 0.8]))
(array([0.6, 0.8]), 2.0, True)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import ParameterError
from tacit.parameters import count, positive

Array = NDArray[np.float64]
ROOM = 1e-9  # what rounding may leave of a projection outside the set


class ConstraintSet(Protocol):
    """A closed convex set of parameters of one dimension."""

    @property
    def dimension(self) -> int: ...

    def project(self, theta: Array) -> Array:
        """The nearest point of the set, in Euclidean distance."""

    def diameter(self, q: float = 2) -> float:
        """The largest l_q distance of two points."""

    def contains(self, theta: Array) -> bool:
        """Whether a point belongs to the set, up to rounding."""


@dataclass(frozen=True)
class Everything:
    """All of R^p."""

    dimension: int

    def __post_init__(self) -> None:
        count("dimension", self.dimension)

    def project(self, theta: Array) -> Array:
        return theta

    def diameter(self, q: float = 2) -> float:
        return math.inf

    def contains(self, theta: Array) -> bool:
        return True


@dataclass(frozen=True)
class _Ball:
    """What balls around 0 are given by."""

    dimension: int
    radius: float = 1.0

    def __post_init__(self) -> None:
        count("dimension", self.dimension)
        positive("radius", self.radius)


@dataclass(frozen=True)
class L2Ball(_Ball):
    """Points of Euclidean length at most `radius`."""

    def project(self, theta: Array) -> Array:
        length = float(np.linalg.norm(theta))
        return theta if length <= self.radius else theta * (self.radius / length)

    def diameter(self, q: float = 2) -> float:
        """Two opposite points: along an axis for q >= 2, along a diagonal below.

        >>> L2Ball(4).diameter(1)
        4.0
        """
        return 2 * self.radius * (1.0 if q >= 2 else self.dimension ** (1 / q - 0.5))

    def contains(self, theta: Array) -> bool:
        return float(np.linalg.norm(theta)) <= self.radius * (1 + ROOM)


@dataclass(frozen=True)
class L1Ball(_Ball):
    """Points whose absolute coordinates sum to at most `radius`; its corners are radius times plus or minus a unit vector."""

    def project(self, theta: Array) -> Array:
        """Soft thresholding at the level that brings the sum to the radius (Duchi et al. 2008).

        >>> L1Ball(3).project(np.array([1.0, 0.5, -0.1]))
        array([ 0.75,  0.25, -0.  ])
        """
        size = np.abs(theta)
        if size.sum() <= self.radius:
            return theta
        ordered = np.sort(size)[::-1]
        levels = (np.cumsum(ordered) - self.radius) / np.arange(1, len(ordered) + 1)
        level = levels[np.flatnonzero(ordered > levels)[-1]]
        found: Array = np.sign(theta) * np.maximum(size - level, 0.0)
        return found

    def diameter(self, q: float = 2) -> float:
        """Two corners: opposite ones for every q >= 1."""
        return 2 * self.radius

    def contains(self, theta: Array) -> bool:
        return float(np.abs(theta).sum()) <= self.radius * (1 + ROOM)

    def vertices(self) -> Array:
        """All 2 p corners, plus before minus.

        >>> L1Ball(2).vertices().tolist()
        [[1.0, 0.0], [0.0, 1.0], [-1.0, -0.0], [-0.0, -1.0]]
        """
        one = self.radius * np.eye(self.dimension)
        return np.vstack([one, -one])


@dataclass(frozen=True)
class Box:
    """Points with every coordinate between two bounds."""

    dimension: int
    lower: float = -1.0
    upper: float = 1.0

    def __post_init__(self) -> None:
        count("dimension", self.dimension)
        if not -math.inf < self.lower < self.upper < math.inf:
            raise ParameterError(f"lower must be below upper, both finite, not {self.lower} and {self.upper}")

    def project(self, theta: Array) -> Array:
        return np.clip(theta, self.lower, self.upper)

    def diameter(self, q: float = 2) -> float:
        """Two opposite corners.

        >>> Box(4).diameter(2), Box(4).diameter(math.inf)
        (4.0, 2.0)
        """
        return (self.upper - self.lower) * (1.0 if math.isinf(q) else self.dimension ** (1 / q))

    def contains(self, theta: Array) -> bool:
        room = ROOM * (self.upper - self.lower)
        return bool((theta >= self.lower - room).all() and (theta <= self.upper + room).all())
