"""Linear classifiers under pure privacy: a noisy centre, then objective perturbation with noise in the shape of the box of the rows.

Rows in public units are bounded coordinate by coordinate. So the noise is too (`cube_noise`): for one score a tilt whose density depends on
its largest coordinate, for several scores one such tilt for each, which pays for the sum of the absolute residuals of a person (2 for
softmax, however many classes there are).

1. *Centre.* A fifth of epsilon buys a noisy mean of the rows, shrunk as its noise demands. Around it the coordinates are clipped to a
   part of their range: noise falls with the range, and most of the signal stays.
2. *Tilt.* The minimiser of the sum of losses with a ridge and the tilt. The ridge lets noise alone reach parameters of length 1, and what
   its determinant costs is exact: log(1 + curvature |row|^2 / ridge) for each rank, not half of epsilon.
3. *Distance.* What is released is a lattice point near the minimiser with a little cube noise, which pays for the distance between them.

>>> plan = CubePerturbation.plan(Guarantee(epsilon=1, delta=0), Adjacency.ADD_REMOVE, logistic, features=30, outputs=1, rows=455)
>>> plan.guarantee.typed_price(plan.event, plan.adjacency).upper <= 1, round(plan.determinant, 3)
(True, 0.055)
>>> round(plan.tilt_epsilon, 3)  # what is left of epsilon for the tilt: all but the centre, the determinant and the distance
0.725
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency, Composed, Event, Guarantee, ParameterError, PureDP
from tacit.learning.cube_noise import cube_noise, deviation, noisy_box_sum
from tacit.learning.error_bars import NoiseBar
from tacit.learning.losses import Loss, logistic
from tacit.learning.newton import minimise_scores
from tacit.learning.preconditioned_descent import LinearFit, shrink
from tacit.mechanisms.row_sums import farthest
from tacit.noise import from_lattice, round_to_lattice

__all__ = ["CubePerturbation", "logistic"]

Array = NDArray[np.float64]
CENTRE, REST = 0.2, 0.02  # shares of epsilon: the centre, and the distance to the exact minimiser
REACH = 0.4  # coordinates are clipped to this part of their range around the centre
CONSTANT = 0.3  # the constant coordinate beside coordinates in [-1, 1]
LENGTH = 1.0  # of the parameters that the tilt alone would lead to: sets the ridge, not the guarantee
FINE = 0.01  # the noise for the distance, as a part of the noise that the tilt leaves
TILT_STEP, STEP = Fraction(1, 1 << 20), Fraction(1, 1 << 40)  # lattices of the tilt and of the point
LARGEST = 1 << 20  # parameters are cut off here


@dataclass(frozen=True)
class CubePerturbation:
    """A plan: the ridge, the scales of all noise and the event, fixed before the data is touched.

    Guarantee
        Statement: costs `event`: the centre, the exact minimiser given the centre, and the distance to it, each pure.
        Conditions: a loss with a proved curvature, rank and bound on the sum of its absolute derivatives.
        Proved in: the centre is `noisy_box_sum`. The minimiser as in `objective_perturbation`: at fixed parameters a person changes the
        log determinant by at most rank * log(1 + curvature |row|^2 / ridge), exchanging one by no more, as the two changes have opposite
        signs; and the tilt of score k by the derivative by that score times a row of the cube, so that the largest coordinates of the
        tilts change by a total of at most the bound on the sum of derivatives. The tilt is a lattice point with law
        exp(-sum_k |z_k|_max / scale), and the exact minimiser that of the lattice point moved uniformly within its cell: a density, which
        a cell more for each score pays for. The lattice point itself is computed with; the difference is in `distance`.
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
        found: Array = np.clip(shrink(total / n, noise / n), -1.0, 1.0)
        return found

    def released(self, rows: Array, labels: Array) -> Array:
        """The parameters, (outputs, features + 1), for rows whose coordinates lie in [-1, 1] and whose constant is CONSTANT, or 0."""
        width = self.features + 1
        tilt = from_lattice(self._noise(self.tilt_scale, TILT_STEP), TILT_STEP).reshape(self.outputs, width)
        found = minimise_scores(self.loss, rows, labels, ridge=self.ridge, tilt=tilt, distance=self.solver_distance)
        point = round_to_lattice(found.ravel(), STEP, bounds=(-LARGEST, LARGEST))
        released: Array = from_lattice(point + self._noise(self.output_scale, STEP), STEP).reshape(self.outputs, width)
        return released

    def _noise(self, scale: float, step: Fraction) -> NDArray[np.int64]:
        return np.concatenate([cube_noise(Fraction(scale) / step, self.features + 1) for _ in range(self.outputs)])

    def bar(self) -> NoiseBar:
        """A bound on what the noise did: a tilt b moves the minimum by at most |b| / ridge; the small output noise comes on top."""
        width = self.features + 1
        square = deviation(width) ** 2 * (self.outputs * width * (self.tilt_scale / self.ridge) ** 2 + self.output_scale**2)
        return NoiseBar(square * np.eye(width), "bound", gaussian=False)
