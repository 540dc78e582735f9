"""Output perturbation: the minimiser of a strongly convex sum, plus noise as large as one person can move it.

With a ridge, one person moves the minimiser of a sum of losses by at most slope / ridge: the gradients of the two objectives differ by one
person's gradient, and the objective is ridge-strongly convex. (In means, the familiar 2 L / (n lambda) with ridge = n lambda.)

>>> farthest_minimiser(1.0, 4.0, Adjacency.ADD_REMOVE), farthest_minimiser(1.0, 4.0, Adjacency.REPLACE_ONE)
(0.25, 0.5)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency, Event, Gaussian, Guarantee, PureDP
from tacit.accounting.parameters import positive
from tacit.learning.error_bars import NoiseBar
from tacit.learning.losses import Loss
from tacit.learning.newton import minimise
from tacit.mechanisms.noisy_sums import Law, NoisySums
from tacit.mechanisms.row_sums import clip_rows
from tacit.noise import round_to_lattice

Array = NDArray[np.float64]
STEP = Fraction(1, 1 << 30)
DISTANCE = 1e-6
RADIUS = 10.0


def farthest_minimiser(slope: float, ridge: float, adjacency: Adjacency) -> float:
    """How far one person moves the exact minimiser, in Euclidean distance."""
    return (2 if adjacency is Adjacency.REPLACE_ONE else 1) * slope / float(positive("ridge", ridge))


@dataclass(frozen=True)
class OutputPerturbation:
    """A plan: the ridge, the noise and the event.

    Guarantee
        Statement: costs Gaussian(multiplier), or epsilon-DP with Laplace noise where delta is 0.
        Conditions: convex loss, slope enforced by rows of length at most 1, ridge > 0.
        Proved in: Chaudhuri, Monteleoni, Sarwate 2011, Lemma 7; the solver's distance to the minimiser and the rounding to the lattice are
        added, twice, to the sensitivity.
    """

    guarantee: Guarantee
    adjacency: Adjacency
    loss: Loss
    dimension: int
    ridge: float
    sensitivity: float
    scale: float
    event: Event

    @classmethod
    def plan(
        cls, guarantee: Guarantee, adjacency: Adjacency, loss: Loss, dimension: int, *, ridge: float | None = None, rows: int = 1000
    ) -> OutputPerturbation:
        """The least noise for a ridge; without one, the ridge that balances noise and regularisation for so many rows."""
        loss.require_smooth("the solver of output perturbation")
        strength = guarantee.gaussian_mu if not guarantee.pure else float(guarantee.floats.epsilon or 0) / math.sqrt(2 * dimension)
        balanced = loss.slope * math.sqrt(2 * rows * math.sqrt(dimension) / strength) / RADIUS
        chosen = balanced if ridge is None else float(positive("ridge", ridge))
        apart = DISTANCE + math.sqrt(dimension) * float(STEP) / 2
        sensitivity = (farthest_minimiser(loss.slope, chosen, adjacency) + 2 * apart) * (1 + 1e-12)
        if guarantee.pure:
            assert guarantee.floats.epsilon is not None
            epsilon = guarantee.floats.epsilon * (1 - 1e-9)
            event: Event = PureDP(epsilon, adjacency=adjacency)
            scale = sensitivity * math.sqrt(dimension) / epsilon * (1 + 1e-12)
        else:
            event, mu = guarantee.settle(lambda mu: Gaussian(1 / mu, adjacency=adjacency), adjacency)
            scale = sensitivity / mu * (1 + 1e-12)
        return cls(guarantee, adjacency, loss, dimension, chosen, sensitivity, scale, event)

    @property
    def noise(self) -> NoisySums:
        """The noise on the lattice point, which one person moves by at most `sensitivity`; sqrt(dimension) times that in l1 norm."""
        pure = self.guarantee.pure
        moved = self.sensitivity * (math.sqrt(self.dimension) if pure else 1.0)
        scale, moved_by = Fraction(self.scale) / STEP, Fraction(moved) / STEP
        law: Law = "laplace" if pure else "gaussian"
        return NoisySums.of_scale(law, scale, moved_by, granularity=STEP, adjacency=self.adjacency)

    def run(self, rows: Array, labels: Array) -> Array:
        """The released parameters. Rows are clipped to length 1."""
        zero = np.zeros(self.dimension)
        found = minimise(self.loss, clip_rows(rows, 1.0), labels, ridge=self.ridge, tilt=zero, distance=DISTANCE)
        point = round_to_lattice(found, STEP, bounds=(-(2**30), 2**30))
        return self.noise.release(point)

    def bar(self) -> NoiseBar:
        """The error bar of the parameters: the noise that is added to them, nothing else.

        >>> from tacit.learning.losses import logistic
        >>> plan = OutputPerturbation.plan(Guarantee(epsilon=1, delta=0), Adjacency.ADD_REMOVE, logistic, 2, ridge=10.0)
        >>> plan.bar().errors / plan.scale  # Laplace noise has a variance of 2 scale^2
        array([1.41421356, 1.41421356])
        """
        variance = self.scale**2 * (2 if self.guarantee.pure else 1)
        return NoiseBar(variance * np.eye(self.dimension), "exact", gaussian=not self.guarantee.pure)
