"""Planar Laplace noise: a location hidden among those nearby, the more so the nearer they are (geo-indistinguishability).

Two places at Euclidean distance d are epsilon*d-indistinguishable, whatever else is known about them. Places lie on a public lattice,
and so do reports; the law on the whole lattice is drawn exactly.

>>> from tacit.calculus import L2, Lattice, Vectors
>>> grid = Vectors(Lattice(Fraction(1, 8)), 2)  # kilometres, in eighths
>>> plan = Space(grid, L2()) >> planar_laplace(epsilon=2)
>>> plan.event(8)  # places one kilometre apart
PureDP(epsilon=2)
>>> len(plan.release([80, -16]).value)
2
>>> round(radius(math.log(4) / 0.2, 0.05), 4)  # ln 4 within 200 m: the continuous noise stays within this many kilometres 19 times in 20
0.6844
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
from scipy.special import lambertw

from tacit import noise
from tacit.accounting import Event, NoOp, ParameterError, PureDP
from tacit.calculus import L2, DomainError, Measurement, Space
from tacit.mechanisms.accuracy import failure, largest_scale, rounded_up
from tacit.mechanisms.gaussian import whole_length
from tacit.mechanisms.mechanism import Mechanism, add, numbers_of
from tacit.mechanisms.noisy_sums import tidy
from tacit.mechanisms.verify import Interval, exp_bracket
from tacit.parameters import Number, positive

PROOF = "Andrés, Bordenabe, Chatzikokolakis, Palamidessi 2013, on a lattice: the triangle inequality, and one normaliser for all places"
#: Lengths are rounded up to multiples of 2^-FINE granules.
FINE = 20


def slope(dimension: int) -> Fraction:
    """A fraction just below 1/sqrt(dimension): Euclidean length is at least this much of the sum of absolute coordinates.

    >>> slope(4), slope(2) ** 2 < Fraction(1, 2)
    (Fraction(1, 2), True)
    """
    return Fraction(math.isqrt(2**64 // dimension), 2**32)


#: In the plane.
SLOPE = slope(2)


def rounded_length(*coordinates: int) -> Fraction:
    """The Euclidean length of a whole vector, rounded up to a multiple of 2^-20.

    >>> rounded_length(3, 4), rounded_length(1, 1) ** 2 >= 2
    (Fraction(5, 1), True)
    """
    square = sum(each * each for each in coordinates) << (2 * FINE)
    return Fraction(math.isqrt(square - 1) + 1 if square else 0, 1 << FINE)


def radius(epsilon: float, beta: float) -> float:
    """The distance that continuous planar Laplace noise exceeds with probability beta: (1 + epsilon r) exp(-epsilon r) = beta.

    Solved with the lower branch of Lambert's function (Andrés et al. 2013, Section 4).
    """
    return rounded_up(-(float(np.real(lambertw(-beta / math.e, -1))) + 1) / epsilon * (1 + 1e-12))


@dataclass(frozen=True)
class PlanarLaplace(Mechanism):
    """Moves a place by a whole vector v of mass proportional to exp(-e l(v)); epsilon is per unit of distance.

    l(v) is the Euclidean length rounded up to 2^-20 granules, and e is epsilon times the granularity, divided by 1 + 2^-20.

    Guarantee
        Statement: places at distance d cost PureDP(epsilon * d): metric privacy for the Euclidean distance, with no factor 2.
        Conditions: two coordinates on one lattice (or whole numbers), distances by L2.
        Proved in: the normaliser is a sum over all of Z^2, the same for every place. For a whole vector h that is not 0,
        |l(v + h) - l(v)| <= |h| + 2^-20 <= (1 + 2^-20) |h|, since |h| >= 1; so masses differ by at most exp(e (1 + 2^-20) |h|). Draws:
        two independent discrete Laplace coordinates of scale 1/(e c), c just below 1/sqrt(2), kept with probability
        exp(-e (l(v) - c (|x| + |y|))), whose exponent is a fraction of at least 0 as l(v) >= |v| >= c (|x| + |y|): exact rejection.
        Correction: the paper draws angle and radius in floating point and pays for it with a larger epsilon (its Section 4); here
        nothing is rounded.
    """

    epsilon: Number

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))

    def rate(self, granularity: Number = 1) -> Fraction:
        """e, the rate at which the mass falls for each granule of rounded length."""
        return Fraction(self.epsilon) * Fraction(granularity) / (1 + Fraction(1, 1 << FINE))

    def bind(self, space: Space) -> Measurement:
        numbers = numbers_of(space, "planar_laplace", L2, "measure places by their Euclidean distance, L2()")
        if numbers.length != 2:
            raise DomainError(f"planar_laplace moves a place in the plane, a vector of length 2, not {space.domain}")
        rate, price = self.rate(numbers.granularity), Fraction(self.epsilon) * numbers.granularity

        def privacy(distance: Number) -> Event:
            steps = whole_length(distance)
            return PureDP(tidy(price * steps)) if steps else NoOp()

        return Measurement(
            space,
            lambda value: add(numbers, value, draw(rate)),
            privacy,
            f"planar_laplace(epsilon={self.epsilon})",
            PROOF,
            accuracy=lambda beta: self.accuracy(beta, granularity=numbers.granularity),
        )

    def accuracy(self, beta: Number, *, granularity: Number = 0) -> float:
        """The distance that is exceeded with probability at most beta; with a granularity, for the lattice law.

        A mass is at most exp(e/sqrt(2)) times the integral of exp(-e |u|) over its unit cell, the sum of all masses at least
        exp(-e/sqrt(2) - e 2^-20) times that over the plane, and the cell of a point beyond r lies beyond r - 1/sqrt(2).

        >>> round(planar_laplace(2).accuracy(0.05), 4)
        2.3719
        """
        fail = failure(beta)
        if granularity == 0:
            return radius(float(self.epsilon), fail)
        step = float(positive("granularity", granularity))
        rate = float(self.rate(granularity))
        spread = math.sqrt(0.5)
        return rounded_up(step * (spread + radius(rate * (1 - 1e-15), fail * math.exp(-rate * (2 * spread + 2.0**-FINE)) * (1 - 1e-12))))

    @classmethod
    def for_accuracy(cls, alpha: Number, beta: Number, *, granularity: Number = 0) -> Self:
        """The smallest epsilon whose report stays within alpha of the place except with probability beta.

        >>> round(PlanarLaplace.for_accuracy(2.3719, 0.05).epsilon, 4)
        2.0
        """
        wanted = float(positive("alpha", alpha))
        if wanted <= 2 * float(granularity):
            raise ParameterError(f"alpha must exceed two granules, {2 * float(granularity)}, not {wanted}; use a finer granularity")
        guess = wanted / radius(1.0, failure(beta))
        scale = largest_scale(lambda s: cls(1 / s).accuracy(beta, granularity=granularity) <= wanted, guess)
        return cls(1 / scale)

    def weights(self, value: tuple[int, int], *, bits: int = 128, reach: int = 12) -> dict[tuple[int, int], Interval]:
        """Masses of the reports within `reach` granules of the origin, unnormalised: the normaliser is the same for every place.

        >>> law = planar_laplace(1).weights((0, 0), reach=1)
        >>> round(float(law[0, 1][0]), 6)
        0.36788
        """
        rate = self.rate()
        return {
            (x, y): exp_bracket(-rate * rounded_length(x - value[0], y - value[1]), bits)
            for x in range(-reach, reach + 1)
            for y in range(-reach, reach + 1)
        }


def draw(rate: Fraction, dimension: int = 2) -> Any:
    """One exact draw of whole coordinates of mass proportional to exp(-rate * rounded_length).

    How many proposals it takes is independent of the one that is accepted, so the time tells nothing about the move.
    """
    steep = slope(dimension)
    while True:
        move = noise.discrete_laplace(1 / (rate * steep), dimension).tolist()
        sizes = [abs(each) for each in move]
        if noise.bernoulli_exp(rate * (rounded_length(*move) - steep * sum(sizes))):
            return np.array(move, dtype=np.int64 if max(sizes) < 2**62 else object)


def planar_laplace(epsilon: Number) -> PlanarLaplace:
    """Planar Laplace noise: two places at distance d stay epsilon*d-indistinguishable."""
    return PlanarLaplace(epsilon)
