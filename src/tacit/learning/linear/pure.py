"""Linear classifiers under pure privacy: noise in the shape of a box, and two solvers that use it.

Rows in public units are bounded coordinate by coordinate, so the noise is too: `cube_noise` has a density
that depends on the largest coordinate alone, and is drawn exactly, on integers. `ClassSums` reads a
classifier off one release and is for few people; `CubePerturbation` is objective perturbation and is for
more. `solvers.choose_solver` says which, from public numbers.

>>> from tacit.learning.linear.losses import logistic
>>> plan = ClassSums.plan(Guarantee(epsilon=0.1, delta=0), Adjacency.ADD_REMOVE, features=30, classes=2, rows=455)
>>> plan.guarantee.keeps(plan.event, plan.adjacency), round(plan.noise)
(True, 188)
>>> plan = CubePerturbation.plan(Guarantee(epsilon=1, delta=0), Adjacency.ADD_REMOVE, logistic, features=30, outputs=1, rows=455)
>>> plan.guarantee.typed_price(plan.event, plan.adjacency).upper <= 1, round(plan.determinant, 3)
(True, 0.055)
>>> round(plan.tilt_epsilon, 3)  # what is left of epsilon for the tilt: all but the centre, the determinant and the distance
0.725
>>> round(deviation(30) / (2**0.5 * 30), 2)  # beside Laplace noise for 30 bounded coordinates
0.43

*The noise.* One person moves a sum of rows in [-1, 1]^d by a vector of that cube. Laplace noise on every
coordinate would pay for the corners of the l1 ball around it, a deviation of sqrt(2) d / epsilon each; noise
by the largest coordinate pays d / (sqrt(3) epsilon), less than half (the K-norm mechanism of Hardt and Talwar
2010, for the cube).

*Its law.* P(z) on the integer vectors in proportion to exp(-|z|_max / scale). It is a mixture of uniform laws
on cubes [-r, r]^d, with r drawn in proportion to (2r + 1)^d q^r, q = exp(-1/scale). A sum of d + 1 geometric
variables is r with probability in proportion to (r + 1) ... (r + d) q^r, and is kept with probability (2r +
1)^d / ((2r + 2) (2r + 4) ... (2r + 2d)), by d coins of rational probability. Nothing is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency, Composed, Event, Guarantee, ParameterError, PureDP
from tacit.learning.estimator import Array
from tacit.learning.linear.error_bars import NoiseBar
from tacit.learning.linear.losses import Loss
from tacit.learning.linear.newton import minimise_scores
from tacit.learning.linear.solvers import LinearFit, shrink
from tacit.mechanisms import LATTICE_BITS, farthest
from tacit.noise import bernoulli, from_lattice, geometric, round_to_lattice, uniform_integers
from tacit.parameters import Number, count, positive


def cube_noise(scale: Number, dimension: int) -> NDArray[Any]:
    """An integer vector z with probability in proportion to exp(-|z|_max / scale); int64, or Python integers beyond it.

    >>> cube_noise(Fraction(1, 1000), 2).tolist()  # anything but 0 has a probability below 1e-433
    [0, 0]
    """
    exact, places = Fraction(positive("scale", scale)), count("dimension", dimension)
    radius = _radius(exact, places)
    return uniform_integers(2 * radius + 1, places) - radius


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
    return np.trunc(np.clip(np.nan_to_num(rows, nan=0.0), -1.0, 1.0) * (1 << LATTICE_BITS)).astype(np.int64)


def box_scale(epsilon: float, adjacency: Adjacency) -> Fraction:
    """The scale of the noise, in the same units, that makes a sum of such rows epsilon-DP."""
    return Fraction(int(farthest(1.0, adjacency)) << LATTICE_BITS) / Fraction(positive("epsilon", epsilon))


def noisy_box_sum(rows: Array, *, epsilon: float, adjacency: Adjacency) -> Array:
    """The sum of the rows, each coordinate clipped to [-1, 1], plus cube noise; NaN counts as 0.

    Guarantee
        Statement: costs PureDP(epsilon) under the relation given.
        Proved in: coordinates are integers of at most 2^24 in absolute value, so one person moves the integer sum by at most that in the
        largest coordinate, twice that when exchanged, and the largest coordinate is a norm (Hardt and Talwar 2010, Section 4).
    """
    return noisy_box_sums([rows], rows.shape[1], epsilon=epsilon, adjacency=adjacency)


def noisy_box_sums(blocks: Iterable[Array], width: int, *, epsilon: float, adjacency: Adjacency) -> Array:
    """The same for rows that come in blocks, as products of coordinates do, which are too many to hold at once.

    Guarantee
        Statement: costs PureDP(epsilon). Proved in: `noisy_box_sum`; a sum of integers does not depend on how it is cut.
    """
    total = np.zeros(width, dtype=np.int64)
    for block in blocks:
        total += box_lattice(block).sum(axis=0)
    noise = cube_noise(box_scale(epsilon, adjacency), width)
    released: Array = from_lattice(total + noise, Fraction(1, 1 << LATTICE_BITS))
    return released


SUM_REACH = 0.7  # coordinates are clipped to this part of their range around the public centre
SPREAD = 0.25  # by how much of an equal share the shares of classes are expected to differ
LEAST = 0.1  # of an equal share: a class is not taken to be rarer
SIGNAL, WITHIN = 0.05, 0.3  # expected variances of a coordinate: of the means of classes, and of rows around them


@dataclass(frozen=True)
class ClassSums:
    """A linear classifier from one pure release, the sums of the rows of every class; for few people.

    With n epsilon below some thirty times the number of features, the noise of a second look costs more than
    it shows. A person is in one class only, so the sums of all classes together cost what one of them costs.
    The rest is computed from them: the centre of the rows (shrunk as its noise demands), for every class the
    sum of its rows around that centre, and its share. That is one step of multinomial logistic regression
    from 0 with centred rows, beside the logarithms of the shares: where the sums are lost in noise, the steps
    are short and the larger class is predicted. `noise` is the standard deviation on every coordinate of
    every sum.

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
        whole = box_lattice(np.hstack([np.clip(U, -SUM_REACH, SUM_REACH) / SUM_REACH, np.ones((len(U), 1))]))
        totals = np.array([whole[codes == k].sum(axis=0) for k in range(self.classes)])
        scale = box_scale(self.epsilon, self.adjacency)
        noise = np.array([cube_noise(scale, self.features + 1) for _ in range(self.classes)])
        released: Array = from_lattice(totals + noise, Fraction(1, 1 << LATTICE_BITS))
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
        units = np.diag(np.append(np.full(self.features, 1 / SUM_REACH), 1.0))
        return LinearFit(coef / SUM_REACH, level, self.noise / n, widest.through(units))

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


CENTRE, REST = 0.2, 0.02  # shares of epsilon: the centre, and the distance to the exact minimiser
REACH = 0.4  # coordinates are clipped to this part of their range around the centre
CONSTANT = 0.3  # the constant coordinate beside coordinates in [-1, 1]
LENGTH = 1.0  # of the parameters that the tilt alone would lead to: sets the ridge, not the guarantee
FINE = 0.01  # the noise for the distance, as a part of the noise that the tilt leaves
TILT_STEP, STEP = Fraction(1, 1 << 20), Fraction(1, 1 << 40)  # lattices of the tilt and of the point
LARGEST = 1 << 20  # parameters are cut off here


@dataclass(frozen=True)
class CubePerturbation:
    """Objective perturbation with cube noise; ridge, scales and event are fixed before the data is touched.

    1. *Centre.* A fifth of epsilon buys a noisy mean of the rows, shrunk as its noise demands. Around it the
       coordinates are clipped to a part of their range: noise falls with the range, and most signal stays.
    2. *Tilt.* The minimiser of the sum of losses with a ridge and a tilt of cube noise, one for each score,
       which pays for the sum of the absolute residuals of a person (2 for softmax, however many classes there
       are). The ridge lets noise alone reach parameters of length 1, and what its determinant costs is exact:
       log(1 + curvature |row|^2 / ridge) for each rank, not half of epsilon.
    3. *Distance.* A lattice point near the minimiser is released with a little cube noise, which pays for the
       distance between them.

    Guarantee
        Statement: costs `event`: the centre, the exact minimiser given the centre, and the distance to it, each pure.
        Conditions: a loss with a proved curvature, rank and bound on the sum of its absolute derivatives.
        Proved in: the centre is `noisy_box_sum`. The minimiser as in `ObjectivePerturbation`: at fixed
        parameters a person changes the log determinant by at most rank * log(1 + curvature |row|^2 / ridge),
        exchanging one by no more, as the two changes have opposite signs; and the tilt of score k by the
        derivative by that score times a row of the cube, so that the largest coordinates of the tilts change
        by a total of at most the bound on the sum of derivatives. The tilt is a lattice point with law
        exp(-sum_k |z_k|_max / scale), and the exact minimiser that of the lattice point moved uniformly
        within its cell: a density, which a cell more for each score pays for. The lattice point itself is
        computed with; the difference is in `distance`.
    """

    guarantee: Guarantee
    adjacency: Adjacency
    loss: Loss
    features: int
    outputs: int
    rows: int | None
    ridge: float
    determinant: float
    centre_epsilon: float
    tilt_epsilon: float
    tilt_scale: float  # in units of the tilt
    solver_distance: float
    output_scale: float  # in units of the parameters
    event: Event

    @classmethod
    def plan(
        cls, guarantee: Guarantee, adjacency: Adjacency, loss: Loss, *, features: int, outputs: int, rows: int | None
    ) -> CubePerturbation:
        """The least noise that keeps the guarantee with a ridge from public numbers."""
        loss.require_smooth("cube perturbation")
        if not guarantee.pure or guarantee.floats.epsilon is None:
            raise ParameterError("cube perturbation keeps a pure epsilon; give epsilon and delta=0, or another solver")
        epsilon, relation = guarantee.floats.epsilon * (1 - 1e-9), adjacency
        centre, rest, width = CENTRE * epsilon, REST * epsilon, features + 1
        main, size = epsilon - centre - rest, outputs * width
        bend = loss.curvature * (features + CONSTANT**2)
        change = farthest(loss.total_slope(outputs), relation)
        # the ridge as if the tilt got all of it, and at least so large that the determinant takes at most half
        ridge = max(deviation(width) * change / main * math.sqrt(size) / LENGTH, bend / math.expm1(min(main / (2 * loss.rank), 700.0)))
        determinant = loss.rank * math.log1p(bend / ridge) * (1 + 1e-12)
        tilt = main - determinant
        scale = (change + outputs * float(TILT_STEP)) / tilt * (1 + 1e-12)
        left = deviation(width) * scale / ridge  # what the tilt leaves in one parameter, at most
        unit = deviation(width) * 2 * math.sqrt(outputs) / rest  # output noise for a distance of 1
        distance = FINE * left / unit
        apart = distance + math.sqrt(size) * (float(TILT_STEP) / ridge + float(STEP)) / 2
        # |x|_max of every score, summed, is at most sqrt(outputs) times the length
        output = 2 * apart * math.sqrt(outputs) / rest * (1 + 1e-12)
        event = Composed(*(PureDP(part, adjacency=relation) for part in (centre, tilt + determinant, rest)))
        assert guarantee.keeps(event, adjacency)
        return cls(guarantee, adjacency, loss, features, outputs, rows, ridge, determinant, centre, tilt, scale, distance, output, event)

    def run(self, U: Array, labels: Array, known: NDArray[np.bool_]) -> LinearFit:
        """Fit rows in [-1, 1]^features (others are clipped to it); rows that are not `known` count for nothing beyond the centre."""
        inside = np.clip(np.nan_to_num(U, nan=0.0), -1.0, 1.0)
        centre = self.centre(inside)
        bounded = np.clip((inside - centre) / REACH, -1.0, 1.0)
        rows = np.hstack([bounded, np.full((len(U), 1), CONSTANT)]) * known[:, None]
        theta = self.released(rows, np.where(known, labels, 0.0))
        change = np.diag(np.append(np.full(self.features, 1 / REACH), CONSTANT))
        change[-1, :-1] = -centre / REACH
        linear = theta @ change.T
        return LinearFit(linear[:, :-1], linear[:, -1], self.tilt_scale, self.bar().through(change))

    def centre(self, U: Array) -> Array:
        """The noisy mean of the rows, shrunk towards 0 and within [-1, 1]; a private number of rows is one coordinate more of the sum."""
        relation = self.adjacency
        if self.rows is not None:
            total, n, noise = noisy_box_sum(U, epsilon=self.centre_epsilon, adjacency=relation), float(self.rows), deviation(self.features)
        else:
            joined = np.hstack([U, np.ones((len(U), 1))])
            total, noise = noisy_box_sum(joined, epsilon=self.centre_epsilon, adjacency=relation), deviation(self.features + 1)
            total, n = total[:-1], float(total[-1])
        noise *= farthest(1.0, relation) / self.centre_epsilon
        n = max(n, noise) if self.rows is None else n  # below its noise the count says nothing
        return np.clip(shrink(total / n, noise / n), -1.0, 1.0)

    def released(self, rows: Array, labels: Array) -> Array:
        """The parameters, (outputs, features + 1), for rows whose coordinates lie in [-1, 1] and whose constant is CONSTANT, or 0."""
        width = self.features + 1
        tilt = from_lattice(self._noise(self.tilt_scale, TILT_STEP), TILT_STEP).reshape(self.outputs, width)
        found = minimise_scores(self.loss, rows, labels, ridge=self.ridge, tilt=tilt, distance=self.solver_distance)
        point = round_to_lattice(found.ravel(), STEP, bounds=(-LARGEST, LARGEST))
        return from_lattice(point + self._noise(self.output_scale, STEP), STEP).reshape(self.outputs, width)

    def _noise(self, scale: float, step: Fraction) -> NDArray[np.int64]:
        return np.concatenate([cube_noise(Fraction(scale) / step, self.features + 1) for _ in range(self.outputs)])

    def bar(self) -> NoiseBar:
        """A bound on what the noise did: a tilt b moves the minimum by at most |b| / ridge; the small output noise comes on top."""
        width = self.features + 1
        square = deviation(width) ** 2 * (self.outputs * width * (self.tilt_scale / self.ridge) ** 2 + self.output_scale**2)
        return NoiseBar(square * np.eye(width), "bound", gaussian=False)
