"""A linear classifier from one pure release: the sum of the rows of every class, for when there are too few people for more.

With n epsilon below some thirty times the number of features, the noise of a second look costs more than it shows. A person is in one class
only, so the sums of all classes together cost what one of them costs, and everything else is computed from them: the centre of the rows
(shrunk as its noise demands), for every class the sum of its rows around that centre, and its share. That is one step of multinomial
logistic regression from 0 with centred rows, beside the logarithms of the shares: where the sums are lost in noise, the steps are short and
the larger class is foretold.

>>> plan = ClassSums.plan(Guarantee(epsilon=0.1, delta=0), Adjacency.ADD_REMOVE, features=30, classes=2, rows=455)
>>> plan.guarantee.keeps(plan.event, plan.adjacency), round(plan.noise)
(True, 188)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency, Event, Guarantee, ParameterError, PureDP
from tacit.learning.cube_noise import box_lattice, box_scale, cube_noise, deviation
from tacit.learning.error_bars import NoiseBar
from tacit.learning.preconditioned_descent import LinearFit, shrink
from tacit.mechanisms.row_sums import BITS, farthest
from tacit.noise import from_lattice

Array = NDArray[np.float64]
REACH = 0.7  # coordinates are clipped to this part of their range around the public centre
SPREAD = 0.25  # by how much of an equal share the shares of classes are expected to differ
LEAST = 0.1  # of an equal share: a class is not taken to be rarer
SIGNAL, WITHIN = 0.05, 0.3  # expected variances of a coordinate: of the means of classes, and of rows around them


@dataclass(frozen=True)
class ClassSums:
    """A plan: `noise` is the standard deviation on every coordinate of every sum.

    Guarantee
        Statement: costs PureDP(epsilon).
        Conditions: the classes are public.
        Proved in: rows are integers of at most 2^24 in every coordinate, the constant included, and the noise has the law
        exp(-sum_k |z_k|_max / scale). Adding a person moves the sum of one class by at most 2^24 in the largest coordinate; exchanging one
        moves the sums of two classes by that, or of one by twice that. The rest is post-processing.
    """

    guarantee: Guarantee
    adjacency: Adjacency
    features: int
    classes: int
    rows: int | None
    epsilon: float
    event: Event

    @classmethod
    def plan(cls, guarantee: Guarantee, adjacency: Adjacency, *, features: int, classes: int, rows: int | None) -> ClassSums:
        """All of a pure guarantee for the one release."""
        if not guarantee.pure or guarantee.floats.epsilon is None:
            raise ParameterError("class sums keep a pure epsilon; give epsilon and delta=0, or another solver")
        epsilon = guarantee.floats.epsilon * (1 - 1e-10)  # the price may be rounded up before it is compared
        event = PureDP(epsilon, adjacency=adjacency)
        assert guarantee.keeps(event, adjacency)
        return cls(guarantee, adjacency, features, classes, rows, epsilon, event)

    @property
    def noise(self) -> float:
        return deviation(self.features + 1) * farthest(1.0, self.adjacency) / self.epsilon

    def sums(self, U: Array, codes: NDArray[np.int64]) -> Array:
        """(classes, features + 1): what is released. The last column counts; rows of no declared class count for nothing."""
        whole = box_lattice(np.hstack([np.clip(U, -REACH, REACH) / REACH, np.ones((len(U), 1))]))
        totals = np.array([whole[codes == k].sum(axis=0) for k in range(self.classes)])
        scale = box_scale(self.epsilon, self.adjacency)
        noise = np.array([cube_noise(scale, self.features + 1) for _ in range(self.classes)])
        released: Array = from_lattice(totals + noise, Fraction(1, 1 << BITS))
        return released

    def run(self, U: Array, codes: NDArray[np.int64]) -> LinearFit:
        """Release the sums and read a linear function of the rows off them: one score for two classes, one a class otherwise."""
        return self.fit(self.sums(U, codes))

    def fit(self, sums: Array) -> LinearFit:
        """Post-processing of the sums."""
        most = self.noise * math.sqrt(self.classes)  # of the total
        n = float(self.rows) if self.rows is not None else max(float(sums[:, -1].sum()), most)
        centre = np.clip(shrink(sums[:, :-1].sum(axis=0) / n, most / n), -1.0, 1.0)
        equal = n / self.classes
        trust = (SPREAD * equal) ** 2 / ((SPREAD * equal) ** 2 + self.noise**2)
        counts = np.maximum(equal + trust * (sums[:, -1] - equal), LEAST * equal)
        slopes = sums[:, :-1] - counts[:, None] * centre
        mixing = np.eye(self.classes) if self.classes > 2 else np.array([[-1.0, 1.0]])
        # the mean of a class, as a Wiener filter leaves it, over the variance within: the rule for normal classes of one variance
        step = SIGNAL / (SIGNAL + (self.noise / equal) ** 2) / (WITHIN * equal)
        coef: Array = step * mixing @ slopes
        level: Array = mixing @ np.log(counts / n) - coef @ centre
        bars = [self._bar(c, m, counts, centre, n, trust, step) for c, m in zip(coef, mixing, strict=True)]
        widest = max(bars, key=lambda bar: float(np.trace(bar.covariance)))
        units = np.diag(np.append(np.full(self.features, 1 / REACH), 1.0))
        return LinearFit(coef / REACH, level, self.noise / n, widest.through(units))

    def _bar(self, coef: Array, mixed: Array, counts: Array, centre: Array, n: float, trust: float, step: float) -> NoiseBar:
        """To first order in the noise of the sums, with the factor of shrinking and a private n taken as given.

        A slope moves by the weighted noise of the sums, and by the centre times the noise of the counts; the intercept by what the slope
        moves times the centre, by the slope times what the centre moves, and by the logarithms of the counts.
        """
        d = self.features
        slope, level = np.vstack([np.eye(d), -centre]), np.vstack([np.zeros((d, d)), -coef])
        weights = step * (mixed - mixed @ counts / n)  # of the noise of every sum in the slope
        cross = weights.sum() / n * slope @ level.T
        covariance = (weights @ weights) * slope @ slope.T + cross + cross.T + self.classes / n**2 * level @ level.T
        counted = np.outer(-step * slope @ centre, mixed)
        counted[-1] += mixed / counts
        return NoiseBar(self.noise**2 * (covariance + trust**2 * counted @ counted.T), "first order", gaussian=False)
