"""Laplace noise by Euclidean distance in a few dimensions: a point hidden among those nearby (metric privacy).

Two points at Euclidean distance d are epsilon*d-indistinguishable. In the plane this is `planar_laplace`; here the
points have up to 16 coordinates, such as the largest singular values of a picture. Points and reports lie on a public
lattice, and the law on the whole lattice is drawn exactly.

>>> from tacit.calculus import L2, Integers, Vectors
>>> plan = Space(Vectors(Integers(), 4), L2()) >> spherical_laplace(epsilon=0.5)
>>> plan.event(8), len(plan.release([10, 20, 30, 40]).value)
(PureDP(epsilon=4), 4)
>>> round(spherical_laplace(0.5).mean_move(4), 1), round(spherical_laplace(0.5).accuracy(0.05, dimension=4), 2)
(8.0, 15.51)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from scipy.special import gammainccinv

from tacit.accounting import Event, NoOp, PureDP
from tacit.calculus import L2, DomainError, Measurement, Space
from tacit.mechanisms.accuracy import failure, largest_scale, rounded_up
from tacit.mechanisms.gaussian import whole_length
from tacit.mechanisms.mechanism import Mechanism, add, numbers_of
from tacit.mechanisms.noisy_sums import tidy
from tacit.mechanisms.planar import FINE, draw
from tacit.mechanisms.planar import PROOF as IN_THE_PLANE
from tacit.parameters import Number, count, positive

PROOF = f"{IN_THE_PLANE}; the same in any dimension"
#: More coordinates would take too many proposals for one draw: about 57 in 16 dimensions, and twice as many for every two more.
MOST = 16


@dataclass(frozen=True)
class SphericalLaplace(Mechanism):
    """Moves a point by a whole vector v of mass proportional to exp(-e l(v)); epsilon is per unit of distance.

    l(v) is the Euclidean length rounded up to 2^-20 granules, and e is epsilon times the granularity, divided by 1 + 2^-20.

    Guarantee
        Statement: points at distance d cost PureDP(epsilon * d).
        Conditions: up to 16 coordinates on one lattice (or whole numbers), distances by L2.
        Proved in: as for `planar_laplace`, word for word: one normaliser for all points, and the triangle inequality. Draws:
        independent discrete Laplace coordinates of scale 1/(e c), c just below 1/sqrt(k), kept with probability
        exp(-e (l(v) - c |v|_1)); Cauchy and Schwarz give |v|_1 <= sqrt(k) |v|, so the exponent is at least 0.
    """

    epsilon: Number

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))

    def bind(self, space: Space) -> Measurement:
        numbers = numbers_of(space, "spherical_laplace", L2, "measure points by their Euclidean distance, L2()")
        length = numbers.length
        if length is None or not 1 <= length <= MOST:
            raise DomainError(f"spherical_laplace moves a vector of 1 to {MOST} coordinates, not {space.domain}")
        price = Fraction(self.epsilon) * numbers.granularity
        rate = price / (1 + Fraction(1, 1 << FINE))

        def privacy(distance: Number) -> Event:
            steps = whole_length(distance)
            return PureDP(tidy(price * steps)) if steps else NoOp()

        return Measurement(
            space,
            lambda value: add(numbers, value, draw(rate, length)),
            privacy,
            f"spherical_laplace(epsilon={self.epsilon})",
            PROOF,
            accuracy=lambda beta: self.accuracy(beta, dimension=length, granularity=numbers.granularity),
        )

    def mean_move(self, dimension: int) -> float:
        """How far continuous noise moves a point on average: its length has a Gamma law, of mean dimension / epsilon."""
        return count("dimension", dimension) / float(self.epsilon)

    def accuracy(self, beta: Number, *, dimension: int = 2, granularity: Number = 0) -> float:
        """The distance that is exceeded with probability at most beta; with a granularity, for the lattice law.

        A mass is at most exp(e h) times the integral of exp(-e |u|) over its unit cell, h = sqrt(k)/2, the sum of all
        masses at least exp(-e h - e 2^-20) times that over the space, and the cell of a point beyond r lies beyond r - h.

        >>> round(spherical_laplace(2).accuracy(0.05), 4)  # in the plane, as planar_laplace
        2.3719
        """
        fail, places = failure(beta), count("dimension", dimension)
        rate = float(self.epsilon)
        if granularity == 0:
            return rounded_up(float(gammainccinv(places, fail)) / rate * (1 + 1e-12))
        step = float(positive("granularity", granularity))
        inside, half = rate * step / (1 + 2.0**-FINE), math.sqrt(places) / 2
        beyond = float(gammainccinv(places, fail * math.exp(-inside * (2 * half + 2.0**-FINE)) * (1 - 1e-12)))
        return rounded_up(step * (half + beyond / inside * (1 + 1e-12)))

    @classmethod
    def for_accuracy(cls, alpha: Number, beta: Number, *, dimension: int = 2) -> Self:
        """The smallest epsilon whose report stays within alpha of the point except with probability beta.

        >>> round(SphericalLaplace.for_accuracy(2.3719, 0.05).epsilon, 3)
        2.0
        """
        wanted = float(positive("alpha", alpha))
        guess = wanted / float(gammainccinv(dimension, failure(beta)))
        return cls(1 / largest_scale(lambda s: cls(1 / s).accuracy(beta, dimension=dimension) <= wanted, guess))


def spherical_laplace(epsilon: Number) -> SphericalLaplace:
    """Noise by Euclidean distance: two points at distance d stay epsilon*d-indistinguishable."""
    return SphericalLaplace(epsilon)
