"""Objective and output perturbation: minimise a regularised sum of losses, with noise before or after.

Objective perturbation draws its noise once, before the optimisation, as a random linear term that tilts the
objective: the stronger the data, the less the tilt moves the minimum. Output perturbation adds noise to the
minimiser. Both release one point and need a loss with a proved curvature. They keep an epsilon, also with
delta = 0; `linear.solvers` uses them for models with one score.

>>> farthest_minimiser(1.0, 4.0, Adjacency.ADD_REMOVE), farthest_minimiser(1.0, 4.0, Adjacency.REPLACE_ONE)
(0.25, 0.5)
>>> round(least_ridge(1.0, 0.25), 5), round(book_ridge(1.0, 0.25), 5)
(0.38537, 0.63537)
>>> noise_moments(10, 1.0, 1.0)
(20.0, 440.0)

*Objective perturbation.* The proof needs a smooth loss and the *exact* minimiser, which no computer has. What
is released here is a lattice point near it with exact output noise, and the distance between the two (of the
solver, and of rounding the tilt and the point) is charged. Write the density of the minimiser at theta as
that of the tilt b = -grad(theta) times the Jacobian det(Hessian) (printed inverted in (6.16) to (6.24); Claim
6.8 is symmetric in it). Adding a person changes the log determinant by at most rank * log(1 + curvature /
ridge), and the
tilt by their gradient, whose direction is the row, whatever theta: so the other term is, for Laplace noise,
at most slope * |row|_1 / scale; and for Gaussian noise at most mu^2/2 + mu |N| with N standard normal and mu
= slope / sigma.

*Output perturbation.* With a ridge, one person moves the minimiser of a sum of losses by at most slope /
ridge: the gradients of the two objectives differ by one person's gradient, and the objective is
ridge-strongly convex. (In means, the familiar 2 L / (n lambda) with ridge = n lambda.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from tacit.accounting import Adjacency, ApproxDP, Composed, Event, Gaussian, Guarantee, ParameterError, PureDP
from tacit.learning.linear.error_bars import NoiseBar
from tacit.learning.linear.losses import Loss
from tacit.learning.linear.newton import minimise
from tacit.mechanisms import Law, NoisySums, clip_rows
from tacit.noise import from_lattice, round_to_lattice, rounded_gaussian, rounded_laplace
from tacit.parameters import positive

Array = NDArray[np.float64]
MAIN, REST = 0.98, 0.0199  # shares of epsilon: the tilt, and the distance to the exact minimiser
STEP = Fraction(1, 1 << 30)  # lattice of the tilt and of the point
DISTANCE = 1e-6  # how near the solver comes
RADIUS = 10.0  # a typical length of the parameters for rows of length 1: sets the default ridge, not the guarantee


def least_ridge(epsilon: float, curvature: float, rank: int = 1) -> float:
    """The least ridge at which the determinant costs half of epsilon: curvature / (exp(epsilon / (2 rank)) - 1)."""
    return float(positive("curvature", curvature)) / math.expm1(min(float(positive("epsilon", epsilon)) / (2 * rank), 700.0))


def book_ridge(epsilon: float, curvature: float, rank: int = 1) -> float:
    """Theorem 6.7 as printed: rank * curvature / (1 - exp(-epsilon / 2)); larger by about one curvature, and so safe too."""
    return -rank * float(positive("curvature", curvature)) / math.expm1(-float(positive("epsilon", epsilon)) / 2)


def noise_moments(dimension: int, slope: float, epsilon: float) -> tuple[float, float]:
    """E|b| and E|b|^2 of the textbook's tilt, density proportional to exp(-epsilon |b| / (2 slope)): a Gamma length in a uniform
    direction."""
    scale = 2 * slope / epsilon
    return dimension * scale, dimension * (dimension + 1) * scale**2


def excess_bound(dimension: int, slope: float, diameter: float, epsilon: float) -> float:
    """Expected excess of the summed loss: 2 |C| sqrt(E|b|^2), at ridge 2 sqrt(E|b|^2)/|C|. (6.37) is printed without the factor 2.

    >>> round(excess_bound(10, 1.0, 2.0, 1.0), 2)
    83.9
    """
    return 2 * diameter * math.sqrt(noise_moments(dimension, slope, epsilon)[1])


def tail(epsilon: float, mu: float, determinant: float, adjacency: Adjacency) -> float:
    """The probability that the privacy loss of a Gaussian tilt exceeds epsilon: a valid delta.

    One person: |N| mu + mu^2/2 + determinant. Exchanging one moves the tilt within the plane of two rows by up to twice as much, where
    the length of the noise has a Rayleigh tail.

    >>> round(tail(1.0, 0.25, 0.1, Adjacency.ADD_REMOVE), 6)
    0.000511
    """
    if adjacency is Adjacency.REPLACE_ONE:
        room = (epsilon - determinant - 2 * mu * mu) / (2 * mu)
        return math.exp(-room * room / 2) if room > 0 else 1.0
    room = (epsilon - determinant - mu * mu / 2) / mu
    return 2 * float(ndtr(-room)) * (1 + 1e-12) if room > 0 else 1.0


@dataclass(frozen=True)
class ObjectivePerturbation:
    """A plan of objective perturbation: the ridge, the scales of tilt and output noise, and the event.

    Guarantee
        Statement: costs `event`: (MAIN epsilon, delta) for the exact minimiser, REST epsilon for the distance to it.
        Conditions: loss twice differentiable almost everywhere with a proved curvature (a Lipschitz gradient suffices for the change of
        variables), rows clipped to length 1.
        Proved in: Chaudhuri, Monteleoni, Sarwate 2011; Kifer, Smith, Thakurta 2012; Iyengar et al. 2019 for approximate minima; here with
        the determinant bound (1 + curvature/ridge)^rank and the Gaussian term along the row. Given the exact minimiser, the difference to
        the point computed has length at most `distance` for any data, so that adding noise for twice that releases it.
        Correction: Theorem 6.7's ridge is larger than needed; its Jacobian is printed inverted.
    """

    guarantee: Guarantee
    adjacency: Adjacency
    loss: Loss
    dimension: int
    ridge: float
    scale: float
    output_scale: float
    event: Event

    @classmethod
    def plan(
        cls, guarantee: Guarantee, adjacency: Adjacency, loss: Loss, dimension: int, *, ridge: float | None = None, radius: float = RADIUS
    ) -> ObjectivePerturbation:
        """The least tilt that keeps the guarantee; a ridge below the least one is refused. Without one, it brings the tilt to `radius`."""
        loss.require_smooth("objective perturbation")
        if guarantee.floats.epsilon is None or guarantee.floats.delta is None:
            raise ParameterError("objective perturbation keeps an epsilon and a delta, not a rho; give epsilon and delta")
        main, rest = MAIN * guarantee.floats.epsilon, REST * guarantee.floats.epsilon
        least = least_ridge(main, loss.curvature, loss.rank)
        if ridge is not None and ridge < least:
            raise ParameterError(f"ridge must be at least {least:.6g} at this epsilon, not {ridge}, which overspends")
        pairs = 2.0 if adjacency is Adjacency.REPLACE_ONE else 1.0

        def tilt(at: float) -> float:
            """The scale of the tilt with what the determinant leaves of epsilon at this ridge."""
            determinant = loss.rank * math.log1p(loss.curvature / at) * (1 + 1e-12)
            if guarantee.pure:
                return pairs * loss.slope * math.sqrt(dimension) / (main - determinant) * (1 + 1e-12)
            return gaussian_scale(guarantee, adjacency, loss, main, determinant)

        if ridge is None:
            # the ridge brings the tilt to `radius`; its own cost falls as it grows, so from the least one upwards few turns settle it
            length = math.sqrt((2 if guarantee.pure else 1) * dimension)
            chosen = least
            for _ in range(20):
                chosen = max(least, tilt(chosen) * length / radius)
        else:
            chosen = float(ridge)
        scale = tilt(chosen)
        # how far the released point lies from the exact minimiser: the solver, the rounded tilt over the ridge, the rounded point
        apart = DISTANCE + math.sqrt(dimension) * float(STEP) / 2 * (1 / chosen + 1)
        output = 2 * apart * math.sqrt(dimension) / rest * (1 + 1e-12)
        first: Event = PureDP(main, adjacency=adjacency)
        if not guarantee.pure:
            first = ApproxDP(main, guarantee.floats.delta * (1 - 1e-9), adjacency=adjacency)
        event = Composed(first, PureDP(rest, adjacency=adjacency))
        assert guarantee.keeps(event, adjacency)
        return cls(guarantee, adjacency, loss, dimension, chosen, scale, output, event)

    @property
    def output(self) -> NoisySums:
        """The noise that covers the distance to the exact minimiser, for REST of epsilon."""
        assert self.guarantee.floats.epsilon is not None
        multiplier = 1 / Fraction(REST * self.guarantee.floats.epsilon)
        scale = Fraction(self.output_scale) / STEP
        return NoisySums("laplace", (scale,), multiplier, self.adjacency, (STEP,))

    def run(self, rows: Array, labels: Array) -> Array:
        """The released parameters. Rows are clipped to length 1."""
        draw = rounded_laplace if self.guarantee.pure else rounded_gaussian
        tilt = from_lattice(draw(Fraction(self.scale) / STEP, self.dimension), STEP)
        found = minimise(self.loss, clip_rows(rows, 1.0), labels, ridge=self.ridge, tilt=tilt, distance=DISTANCE)
        point = round_to_lattice(found, STEP, bounds=(-(2**30), 2**30))
        return self.output.release(point)

    def bar(self) -> NoiseBar:
        """A bound on what the noise did to the parameters: a tilt b moves the minimum by at most |b| / ridge, by strong convexity.

        So the expected square of any component is at most that of |b| / ridge; the small output noise comes on top.

        >>> from tacit.learning.linear.losses import logistic
        >>> plan = ObjectivePerturbation.plan(Guarantee(epsilon=1, delta=1e-5), Adjacency.ADD_REMOVE, logistic, 4, ridge=50.0)
        >>> round(float(plan.bar().errors[0] / (2 * plan.scale / 50.0)), 3)
        1.0
        """
        tilt = self.dimension * self.scale**2 * (2 if self.guarantee.pure else 1) / self.ridge**2
        return NoiseBar((tilt + 2 * self.output_scale**2) * np.eye(self.dimension), "bound", gaussian=not self.guarantee.pure)


def gaussian_scale(
    guarantee: Guarantee, adjacency: Adjacency, loss: Loss, epsilon: float, determinant: float | None = None
) -> float:
    """The least sigma whose tail stays within delta beside what the determinant takes, by default half of epsilon; from above."""
    taken = epsilon / 2 if determinant is None else determinant
    assert guarantee.floats.delta is not None
    low, high = 1e-6 * loss.slope, loss.slope
    while tail(epsilon, loss.slope / high, taken, adjacency) > guarantee.floats.delta:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        if tail(epsilon, loss.slope / middle, taken, adjacency) > guarantee.floats.delta:
            low = middle
        else:
            high = middle
    return high * (1 + 1e-12)


def farthest_minimiser(slope: float, ridge: float, adjacency: Adjacency) -> float:
    """How far one person moves the exact minimiser, in Euclidean distance."""
    return (2 if adjacency is Adjacency.REPLACE_ONE else 1) * slope / float(positive("ridge", ridge))


@dataclass(frozen=True)
class OutputPerturbation:
    """A plan of output perturbation: the ridge, the noise and the event.

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

        >>> from tacit.learning.linear.losses import logistic
        >>> plan = OutputPerturbation.plan(Guarantee(epsilon=1, delta=0), Adjacency.ADD_REMOVE, logistic, 2, ridge=10.0)
        >>> plan.bar().errors / plan.scale  # Laplace noise has a variance of 2 scale^2
        array([1.41421356, 1.41421356])
        """
        variance = self.scale**2 * (2 if self.guarantee.pure else 1)
        return NoiseBar(variance * np.eye(self.dimension), "exact", gaussian=not self.guarantee.pure)
