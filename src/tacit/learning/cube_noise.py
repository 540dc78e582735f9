"""Pure noise in the shape of a box: for sums of rows whose every coordinate is bounded, exactly, on integers.

One person moves a sum of rows in [-1, 1]^d by a vector of that cube. Laplace noise on every coordinate would pay for the corners of the
l1 ball around it, a deviation of sqrt(2) d / epsilon each; noise with a density that depends on the *largest* coordinate alone pays
d / (sqrt(3) epsilon), less than half (the K-norm mechanism of Hardt and Talwar 2010, for the cube).

>>> from tacit.noise import test_mode
>>> with test_mode(1):
...     cube_noise(1000, 3).shape
(3,)
>>> round(deviation(30) / (2**0.5 * 30), 2)  # beside Laplace noise for 30 bounded coordinates
0.43

*The law.* P(z) on the integer vectors in proportion to exp(-|z|_max / scale). It is a mixture of uniform laws on cubes [-r, r]^d, with r
drawn in proportion to (2r + 1)^d q^r, q = exp(-1/scale). A sum of d + 1 geometric variables is r with probability in proportion to
(r + 1) ... (r + d) q^r, and is kept with probability (2r + 1)^d / ((2r + 2) (2r + 4) ... (2r + 2d)), by d coins of rational
probability. Nothing is rounded.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency
from tacit.accounting.parameters import Number, count, positive
from tacit.mechanisms.row_sums import BITS, farthest
from tacit.noise import bernoulli, from_lattice, geometric, uniform_integers

Array = NDArray[np.float64]


def cube_noise(scale: Number, dimension: int) -> NDArray[Any]:
    """An integer vector z with probability in proportion to exp(-|z|_max / scale); int64, or Python integers beyond it.

    >>> cube_noise(Fraction(1, 1000), 2).tolist()  # anything but 0 has a probability below 1e-433
    [0, 0]
    """
    exact, places = Fraction(positive("scale", scale)), count("dimension", dimension)
    radius = _radius(exact, places)
    found: NDArray[Any] = uniform_integers(2 * radius + 1, places) - radius
    return found


def _radius(scale: Fraction, dimension: int) -> int:
    while True:
        radius: int = sum(geometric(scale, dimension + 1).tolist())
        if all(bernoulli(Fraction(2 * radius + 1, 2 * (radius + j))) for j in range(1, dimension + 1)):
            return radius


def deviation(dimension: int) -> float:
    """The standard deviation of one coordinate in units of the scale, for a scale of many granules.

    The radius is then Gamma-distributed with shape d + 1, and the place in the cube uniform: sqrt((d + 1) (d + 2) / 3).

    >>> deviation(1) == 2**0.5  # in one dimension this is Laplace noise
    True
    """
    return math.sqrt((dimension + 1) * (dimension + 2) / 3)


def box_lattice(rows: Array) -> NDArray[np.int64]:
    """Rows with every coordinate clipped to [-1, 1], in units of 2^-24, cut towards zero; NaN counts as 0.

    >>> box_lattice(np.array([[0.5, -7.0, float("nan")]])).tolist() == [[1 << 23, -(1 << 24), 0]]
    True
    """
    return np.trunc(np.clip(np.nan_to_num(rows, nan=0.0), -1.0, 1.0) * (1 << BITS)).astype(np.int64)


def box_scale(epsilon: float, adjacency: Adjacency) -> Fraction:
    """The scale of the noise, in the same units, that makes a sum of such rows epsilon-DP."""
    return Fraction(int(farthest(1.0, adjacency)) << BITS) / Fraction(positive("epsilon", epsilon))


def noisy_box_sum(rows: Array, *, epsilon: float, adjacency: Adjacency) -> Array:
    """The sum of the rows, each coordinate clipped to [-1, 1], plus cube noise; NaN counts as 0.

    Guarantee
        Statement: costs PureDP(epsilon) under the relation given.
        Proved in: coordinates are integers of at most 2^24 in absolute value, so one person moves the integer sum by at most that in the
        largest coordinate, twice that when exchanged, and the largest coordinate is a norm (Hardt and Talwar 2010, Section 4).
    """
    noise = cube_noise(box_scale(epsilon, adjacency), rows.shape[1])
    released: Array = from_lattice(box_lattice(rows).sum(axis=0) + noise, Fraction(1, 1 << BITS))
    return released
