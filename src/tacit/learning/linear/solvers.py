"""Solvers of linear models, and the choice between them.

A solver takes rows in public units, and gives a linear function with its error bar. `choose_solver` predicts
the excess risk of each one from public numbers (rows, features, budget), before any data is touched. `Plan`
with `geometry` and `descend` is preconditioned gradient descent; `regularised_fit` is objective or output
perturbation. The solvers for pure privacy stand in `linear.pure` and `linear.tilted`, least squares from one noisy matrix in
`linear.regressors`.

>>> from tacit.learning.linear.losses import logistic
>>> relation = Adjacency.ADD_REMOVE
>>> choose_solver("auto", Guarantee(epsilon=1, delta=1e-5), relation, features=10, rows=1000, loss=logistic)
'descent'
>>> choose_solver("auto", Guarantee(epsilon=1, delta=0), relation, features=10, rows=1000, loss=logistic)
'tilted'
>>> guarantee = Guarantee(epsilon=1, delta=1e-5)
>>> plan = Plan.classifier(guarantee, relation, features=30, rows=455)
>>> plan.steps, plan.shape_share, guarantee.typed_price(plan.event, relation).upper <= 1
(12, 0.0, True)
>>> pure = Guarantee(epsilon=1, delta=0)
>>> plan = regularised_fit("objective", pure, relation, logistic, features=3, rows=100)
>>> type(plan.method).__name__, plan.guarantee.typed_price(plan.event, plan.adjacency).upper <= 1
('ObjectivePerturbation', True)

*Descent.* The noise of a gradient step is the same in every direction, and what it does to a prediction grows
with the length of the row it is measured on. So the budget goes further when rows are centred and round
before the descent:

1. *Geometry.* A noisy mean of the rows (shrunk towards the public centre by as much as its known noise demands: James and Stein 1961) and,
   where the budget carries d^2 numbers, a noisy second moment, whose inverse root makes the rows round. Directions below the noise are
   left alone.
2. *Steps.* Full-batch steps on the sum of per-person gradients. The influence of a person is bounded twice:
   the row is weighted down to unit length (Mallows 1975) and the residual is clipped to a public schedule.
   The model itself stays linear in the row.

Every choice (which releases, how many steps, how long) is a formula in public numbers: features, classes, the budget and a number of
rows that is declared or paid for. Everything after the releases is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency, Composed, Event, Gaussian, Guarantee, ParameterError, Repeated
from tacit.learning.estimator import UNKNOWN_ROWS, Array
from tacit.learning.linear.error_bars import NoiseBar, remembered
from tacit.learning.linear.losses import Loss
from tacit.learning.linear.perturbation import (
    RADIUS,
    ObjectivePerturbation,
    OutputPerturbation,
    gaussian_scale,
)
from tacit.mechanisms import (
    FactorRows,
    clip_rows,
    farthest,
    farthest_moment,
    noisy_count,
    noisy_outer_sum,
    noisy_second_moment,
    noisy_sum,
)

#: The derivative of every person's loss at the scores, one column for each output.
Derivative = Callable[[Array], Array]

REACH = 0.5  # rows are clipped to this part of the longest possible length before their mean and second moment are taken
SHORT = 1e-9  # rows shorter than this are not stretched
FEW = 10.0  # n mu below which a classifier takes one step
ONE, RICH = 14.0, 2.0  # the same beside a bought number of rows; and n mu over d^1.5 from which a second moment is bought there
COUNT_SHARE = 0.02  # of the squared budget, where the number of rows is private

Solver = Literal["descent", "tilted", "objective", "output", "sums", "cube", "either", "counted"]
SOLVERS: tuple[Solver, ...] = ("descent", "tilted", "objective", "output", "sums", "cube", "either", "counted")
FEATURES_EACH = 1.5  # features for each unit of epsilon up to which pure noise is used beside a delta; measured
COUNTED_FEATURES, COUNTED_ROWS = 14, 160.0  # "counted": the most features, and n epsilon, with which pure noise is less; measured
ONE_STEP = 0.04  # what one step leaves of the excess where there is no noise; measured


def predicted_excess(
    solver: Solver, guarantee: Guarantee, adjacency: Adjacency, *, features: int, rows: int, loss: Loss, radius: float = 1.0
) -> float:
    """The excess risk per row to expect for rows of unit length and an optimum within `radius`; infinite where the solver does not apply.

    These are the rates of chapter 6 and of Bassily, Smith and Thakurta 2014, with the constants of the
    solvers as implemented. They rank solvers; they do not bound the error of a fit.

    >>> from tacit.learning.linear.losses import logistic
    >>> pure, relation = Guarantee(epsilon=1), Adjacency.ADD_REMOVE
    >>> [round(predicted_excess(s, pure, relation, features=10, rows=1000, loss=logistic), 4) for s in SOLVERS]
    [inf, 0.0115, 0.0566, 0.2378, 0.0515, 0.0231, inf, inf]
    """
    if solver == "either":  # half of the price for each of two fits, whose faults differ
        if guarantee.pure or guarantee.floats.epsilon is None or guarantee.floats.epsilon * FEATURES_EACH < features:
            return math.inf
        return 0.0 if loss.smooth and loss.certified else math.inf
    if solver == "counted":  # a pure look at the classes first, which says which of two solvers has fewer faults
        if guarantee.pure or guarantee.floats.epsilon is None or not guarantee.floats.delta or loss.rank > 1:
            return math.inf
        within = rows * guarantee.floats.epsilon < COUNTED_ROWS and features <= COUNTED_FEATURES
        return 0.0 if within and loss.smooth and loss.certified else math.inf
    if solver == "descent":
        if guarantee.pure:
            return math.inf
        # the first term of (6.47) is an optimisation error that steps remove; this is the noise
        return loss.slope * radius * math.sqrt(features) / (rows * guarantee.gaussian_mu)
    if solver in ("sums", "cube", "tilted"):
        if guarantee.floats.epsilon is None or not loss.smooth or not loss.certified:
            return math.inf
        if not guarantee.pure and (solver != "tilted" or guarantee.floats.epsilon * FEATURES_EACH < features):
            return math.inf  # with a delta, Gaussian noise is less beyond a few features
        # cube noise has the length d^(3/2) / sqrt(3), where rows are as long as half the diagonal of their cube; several scores pay for
        # the sum of their derivatives, several sums do not. Both shrink what noise hides, so that they are never worse than no model
        noise = 2 / math.sqrt(3) * features / (guarantee.floats.epsilon * rows)
        several = loss.total_slope(loss.rank + 1) if loss.rank > 1 else loss.slope
        found = ONE_STEP * loss.slope + noise if solver == "sums" else 2 * several * noise
        if solver == "tilted":  # it buys what sets its ridge and its lengths: half the noise of the cube, measured
            found = several * noise * (1.0 if guarantee.pure else 0.5)
        return radius * min(found, loss.slope)
    if not loss.smooth or not loss.certified or loss.rank > 1 or guarantee.floats.epsilon is None:
        return math.inf  # their proofs need a curvature; and they fit one score
    assert guarantee.floats.epsilon is not None and guarantee.floats.delta is not None
    if guarantee.pure:
        noise = 2 * math.sqrt(2) * features * loss.slope / guarantee.floats.epsilon
    else:
        noise = math.sqrt(features) * gaussian_scale(guarantee, adjacency, loss, guarantee.floats.epsilon)
    if solver == "objective":
        # Theorem 6.9 as corrected: 2 |C| times the root of the expected squared noise, with |C| the radius here
        return 2 * radius * noise / rows
    # output perturbation: noise 2 L / (n lambda) times dimension, at the lambda that balances it with the regularisation's bias
    return math.sqrt(2) * radius * math.sqrt(noise * loss.slope / rows)


def choose_solver(solver: str, guarantee: Guarantee, adjacency: Adjacency, *, features: int, rows: int | None, loss: Loss) -> Solver:
    """The solver asked for, refused where it cannot keep the guarantee; or the best by prediction for "auto"."""
    if solver not in (*SOLVERS, "auto"):
        raise ParameterError(f"solver must be 'auto', {', '.join(map(repr, SOLVERS))}, not {solver!r}")
    known = rows or UNKNOWN_ROWS
    predictions = {
        each: predicted_excess(each, guarantee, adjacency, features=features, rows=known, loss=loss)
        for each in SOLVERS
    }
    if solver == "auto":
        best = min(predictions, key=lambda s: predictions[s])
        if math.isinf(predictions[best]):
            raise ParameterError(f"no solver keeps this guarantee with the loss {loss.name}; give a positive delta, or rho")
        return best
    chosen = cast(Solver, solver)
    if math.isinf(predictions[chosen]):
        raise ParameterError(f"solver {solver!r} cannot keep this guarantee with the loss {loss.name}; solver='auto' picks one that can")
    return chosen


@dataclass(frozen=True)
class Plan:
    """What will be released, fixed before the data is touched: the shares of the squared budget, the steps, and the resulting event."""

    guarantee: Guarantee
    adjacency: Adjacency
    features: int
    rows: int | None  # public, or None where the count is released too
    steps: int
    centre_share: float
    shape_share: float
    intercept: float  # length of the constant coordinate beside a row of length 1
    event: Event
    mu: float

    @classmethod
    def make(
        cls, guarantee: Guarantee, adjacency: Adjacency, features: int, rows: int | None, steps: int,
        centre: float, shape: float, intercept: float,
    ) -> Plan:
        """A plan with the least noise that keeps the guarantee."""

        def event(mu: float) -> Event:
            parts: list[Event] = [
                Gaussian(1 / (mu * math.sqrt(share)), adjacency=adjacency) for share in (counted, centre, shape) if share > 0
            ]
            left = 1 - counted - centre - shape
            parts.append(Repeated(Gaussian(math.sqrt(steps / left) / mu, adjacency=adjacency), steps))
            return Composed(*parts)

        counted = 0.0 if rows is not None else COUNT_SHARE
        found, mu = guarantee.settle(event, adjacency)
        return cls(guarantee, adjacency, features, rows, steps, centre, shape, intercept, found, mu)

    @classmethod
    def classifier(cls, guarantee: Guarantee, adjacency: Adjacency, *, features: int, rows: int | None) -> Plan:
        """Shares and steps for bounded residuals: the second moment once n mu exceeds d^(3/2), where its noise falls below its
        eigenvalues; one step around the public centre, with all of the budget, below n mu = 10, where a second would answer to the noise of
        the first."""
        if (rows or UNKNOWN_ROWS) * guarantee.gaussian_mu < FEW:
            return cls.make(guarantee, adjacency, features, rows, 1, 0.0, 0.0, 0.3)
        rich = (rows or UNKNOWN_ROWS) * guarantee.gaussian_mu >= features**1.5
        return cls.make(guarantee, adjacency, features, rows, 24 if rich else 12, 0.1, 0.1 if rich else 0.0, 0.3)

    @classmethod
    def within(cls, guarantee: Guarantee, adjacency: Adjacency, event: Event, mu: float, *, features: int, rows: float) -> Plan:
        """A classifier's plan with what is left of a larger price, whose `event` it is a part of; for a known number of rows."""
        budget = rows * mu
        enough = budget >= RICH * features**1.5
        steps, centre, shape = (1, 0.0, 0.0) if budget < ONE else (24, 0.1, 0.1) if enough else (12, 0.1, 0.0)
        return cls(guarantee, adjacency, features, max(round(rows), 1), steps, centre, shape, 0.3, event, mu)

    @classmethod
    def small_regressor(cls, guarantee: Guarantee, adjacency: Adjacency, event: Event, mu: float, *, features: int, rows: float) -> Plan:
        """A regressor's plan of six steps with what is left of a larger price, whose `event` it is a part of."""
        rich = rows * mu >= 2 * features
        centre, shape = (0.05, 0.2) if rich else (0.0, 0.0)
        return cls(guarantee, adjacency, features, max(round(rows), 1), 6, centre, shape, 1.0, event, mu)

    @classmethod
    def regressor(cls, guarantee: Guarantee, adjacency: Adjacency, *, features: int, rows: int | None, steps: int = 6) -> Plan:
        """Shares and steps for residuals that shrink as the fit improves; the geometry is left out below n mu = 2 d."""
        rich = (rows or UNKNOWN_ROWS) * guarantee.gaussian_mu >= 2 * features
        return cls.make(guarantee, adjacency, features, rows, steps, 0.05 if rich else 0.0, 0.2 if rich else 0.0, 1.0)

    def multiplier(self, share: float) -> float:
        """The noise multiplier of a release with this share of the squared budget."""
        return 1 / (self.mu * math.sqrt(share))

    @property
    def descent_share(self) -> float:
        return 1 - self.centre_share - self.shape_share - (0.0 if self.rows is not None else COUNT_SHARE)

    @property
    def step_multiplier(self) -> float:
        """The noise multiplier of one step."""
        return math.sqrt(self.steps / self.descent_share) / self.mu


@dataclass(frozen=True)
class Geometry:
    """A released change of coordinates: rows minus `centre`, times `shape`; typical rows then have length about 1.

    `spread` is the inverse of their variance in a typical direction: the length of a Newton step for a squared loss. `bend` is their
    released second moment, 0 where none was: what a step on a squared loss forgets of the noise before it.
    """

    rows: float
    centre: Array
    shape: Array
    spread: float
    bend: Array

    def apply(self, U: Array) -> Array:
        return (U - self.centre) @ self.shape


def geometry(U: Array, plan: Plan, *, normalise: bool, weights: Array | None = None) -> Geometry:
    """Release the count, the centre and the shape of the rows, as far as the plan pays for them.

    `normalise` stretches short rows to the full length as well; otherwise long ones are only clipped. `weights` in [0, 1] add up to
    about the plan's rows: a row counts as its weight says, and never becomes longer.
    """
    part: Array | float = 1.0 if weights is None else np.clip(weights, 0.0, 1.0)[:, None]
    d, relation = plan.features, plan.adjacency
    reach = REACH * math.sqrt(d)
    held = _stretched if normalise else clip_rows
    n = row_count(U, plan.rows, plan.mu, COUNT_SHARE, relation)
    centre = np.zeros(d)
    if plan.centre_share:
        multiplier = plan.multiplier(plan.centre_share)
        centre = noisy_sum(held(U, reach) * part, bound=reach, multiplier=multiplier, adjacency=relation) / n
        centre = shrink(centre, _deviation(plan, multiplier) * reach / n)
    shape, spread, bend = np.eye(d) / reach, float(d), np.zeros((d, d))
    if plan.shape_share:
        multiplier = plan.multiplier(plan.shape_share)
        moment = noisy_second_moment(held(U - centre, reach) * np.sqrt(part), bound=reach, multiplier=multiplier, adjacency=relation) / n
        spare = 1.0 if normalise else 1.2  # clipped rows keep their lengths: leave room above the typical one
        shape, spread, bend = _round(moment, farthest_moment(reach, relation) * multiplier * math.sqrt(d) / n, spare)
    return Geometry(n, centre, shape, spread, bend)


def row_count(U: Array, rows: int | None, mu: float, share: float, adjacency: Adjacency) -> float:
    """The number of rows: public, or released with this share of the squared budget.

    A count below its noise says nothing, so the number is at least that.
    """
    if rows is not None:
        return float(rows)
    multiplier = 1 / (mu * math.sqrt(share))
    return max(noisy_count(len(U), multiplier=multiplier, adjacency=adjacency), multiplier)


def _deviation(plan: Plan, multiplier: float) -> float:
    """The standard deviation of the noise on a sum of unit rows."""
    return farthest(multiplier, plan.adjacency)


def shrink(estimate: Array, deviation: float) -> Array:
    """An estimate with known noise moved towards 0: the positive part of James and Stein's factor.

    >>> shrink(np.array([3.0, 4.0]), 1.0), shrink(np.array([0.3, 0.4]), 1.0)
    (array([2.76, 3.68]), array([0., 0.]))
    """
    energy = float(estimate @ estimate)
    return estimate * max(0.0, 1 - len(estimate) * deviation**2 / energy) if energy > 0 else estimate


def _stretched(rows: Array, bound: float) -> Array:
    """Rows of length `bound`, except those too short to have a direction."""
    found: Array = rows * (bound / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), SHORT))
    return found


def _round(moment: Array, floor: float, spare: float) -> tuple[Array, float, Array]:
    """The inverse root of a noisy second moment plus its noise level, scaled so that a row of `spare` times the typical length gets
    length 1; the spread; and the second moment of the rows after it."""
    values, vectors = np.linalg.eigh(moment)
    kept = np.maximum(values, 0.0)
    spread = spare**2 * max(0.05 * len(kept), float((kept / (kept + floor)).sum()))
    found: Array = (vectors / np.sqrt((kept + floor) * spread)) @ vectors.T
    return found, spread, (vectors * (kept / ((kept + floor) * spread))) @ vectors.T


@dataclass(frozen=True)
class Schedule:
    """Public numbers of a descent: the bound on the residuals and the two step lengths, one of each for every step."""

    clips: Array
    slope_steps: Array
    intercept_steps: Array
    averaged: int  # how many of the last iterates are averaged


@dataclass(frozen=True)
class LinearFit:
    """A linear function of scaled rows, (outputs, features) and (outputs,), the standard deviation that the noise of the last step left,
    and the error bar of each output where there is one."""

    coef: Array
    intercept: Array
    noise: float
    bar: NoiseBar | None = None


def descend(
    U: Array, derivative: Derivative, plan: Plan, space: Geometry, schedule: Schedule, *, start: Array,
    normalise: bool, penalty: float = 0.0, quadratic: bool = False,
) -> LinearFit:
    """Full-batch steps against the noisy sum of bounded per-person gradients; `quadratic` says that the loss is the squared one.

    `penalty` times half the squared coefficients is added to the sum of losses; its part of a step is implicit, so that any penalty is
    stable.

    Guarantee
        Statement: costs Repeated(Gaussian(plan.step_multiplier), plan.steps), whatever the loss, convex or not.
        Proved in: a person's term is the product of a residual of length at most `clips[t]` and a row of length at most
        sqrt(1 + intercept^2), both whole numbers on a lattice; the rest is `noisy_outer_sum`, and steps compose.
    """
    rows = space.apply(U)
    weight = 1 / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), SHORT if normalise else 1.0)
    kappa = plan.intercept
    reach = math.sqrt(1 + kappa * kappa)
    bounded = FactorRows.of(np.hstack([rows * weight, np.full((len(rows), 1), kappa)]), reach)
    slope, level = np.zeros((len(start), plan.features)), start.astype(np.float64)
    total_slope, total_level = np.zeros_like(slope), np.zeros_like(level)
    square, whole = space.shape @ space.shape.T, np.eye(plan.features)
    for t in range(plan.steps):
        clip = float(schedule.clips[t])
        residual = FactorRows.of(derivative(rows @ slope.T + level), clip)
        gradient = noisy_outer_sum(residual, bounded, multiplier=plan.step_multiplier, adjacency=plan.adjacency)
        slope = slope - schedule.slope_steps[t] * gradient[:, :-1] / space.rows
        if penalty:
            slope = np.linalg.solve(whole + schedule.slope_steps[t] * penalty / space.rows * square, slope.T).T
        level = level - schedule.intercept_steps[t] * gradient[:, -1] / (kappa * space.rows)
        if t >= plan.steps - schedule.averaged:
            total_slope, total_level = total_slope + slope / schedule.averaged, total_level + level / schedule.averaged
    coef = total_slope @ space.shape.T
    noise = float(_deviation(plan, plan.step_multiplier) * schedule.clips[-1] * reach / space.rows)
    return LinearFit(coef, total_level - coef @ space.centre, noise, step_noise(plan, space, schedule, penalty, quadratic))


def step_noise(plan: Plan, space: Geometry, schedule: Schedule, penalty: float, quadratic: bool) -> NoiseBar:
    """The error bar that the steps' noise leaves in (coefficients, intercept).

    On a squared loss the released moment says what a step forgets, where residuals stay within their bounds. On other convex losses nothing
    is taken to be forgotten: to first order a step multiplies earlier noise by a contraction, so this is a bound. A penalty forgets more.
    """
    reach = math.sqrt(1 + plan.intercept**2)
    deviations = _deviation(plan, plan.step_multiplier) * schedule.clips * reach / space.rows
    squares, vectors = np.linalg.eigh(space.shape @ space.shape.T)  # the axes of the second moment too
    bend = np.einsum("ji,jk,ki->i", vectors, space.bend, vectors) * quadratic
    slopes = remembered(schedule.slope_steps, deviations, np.maximum(bend, 0.0), schedule.averaged, penalty / space.rows * squares)
    # a level moves by its step times the noise over the length of the constant, and a squared loss has curvature 1 in it
    levels = remembered(schedule.intercept_steps, deviations / plan.intercept, np.ones(1) * quadratic, schedule.averaged)
    change = np.zeros((plan.features + 1, plan.features + 1))
    change[:-1, :-1] = space.shape @ vectors
    change[-1, :-1], change[-1, -1] = -space.centre @ change[:-1, :-1], 1.0
    return NoiseBar(np.diag(np.append(slopes, levels)), "first order" if quadratic else "bound").through(change)


# a typical second derivative of the logistic loss beside the variance of the labels, and how much of a sample's own noise counts
CURVE, SAMPLED = 0.6, 0.3
UNEQUAL = -np.log1p(-(np.arange(8) + 0.5) / 8)  # quantiles of an exponential variable
UNEQUAL /= UNEQUAL.mean()


def slope_energy(
    fit: LinearFit, plan: Plan, space: Geometry, schedule: Schedule, variance: float = 0.25, penalty: float = 0.0
) -> tuple[float, float, float]:
    """The mean square of a fit's scores around their level, the one to expect of noise alone, and in how many directions noise acts.

    Noise is what was drawn, and that of a sample of people: labels of this `variance` around their mean covary with features by chance, the
    same in every step.

    Rows have length 1 in the geometry, so that a second moment which was not released has a mean eigenvalue of 1/d. What
    steps forget of the noise before them is that, times a typical second derivative.
    """
    d = plan.features
    slope = np.linalg.solve(space.shape, fit.coef.T).T
    bend = space.bend if space.bend.any() else np.eye(d) / d
    values, vectors = np.linalg.eigh(bend)
    values = np.maximum(values, 0.0)
    reach = math.sqrt(1 + plan.intercept**2)
    deviations = _deviation(plan, plan.step_multiplier) * schedule.clips * reach / space.rows
    # where no second moment was released, its eigenvalues are taken to be as unequal as exponential variables
    apart = np.ones((1, 1)) if space.bend.any() else UNEQUAL[:, None]
    curve = CURVE * variance * values * apart
    squares = penalty / space.rows * ((space.shape @ vectors) ** 2).sum(axis=0)  # of coefficients, by what they are in the geometry
    wide = np.broadcast_to(squares, curve.shape)
    drawn = remembered(schedule.slope_steps, deviations, curve.ravel(), schedule.averaged, wide.ravel()).reshape(curve.shape)
    at, mean = np.zeros_like(curve), np.zeros_like(curve)  # what a steady pull of 1 comes to
    for t, step in enumerate(schedule.slope_steps):
        at = (at + step * (1 - curve * at)) / (1 + step * squares)
        mean += at / schedule.averaged if t >= plan.steps - schedule.averaged else 0.0
    sampled = SAMPLED * variance * values * apart / space.rows * mean**2
    energy = float((((slope @ vectors) ** 2) * values).sum())
    parts, outputs = (drawn + sampled).mean(axis=0) * values, len(fit.coef)
    # a sum of unequal squares varies like one of fewer equal ones
    return energy, outputs * float(parts.sum()), outputs * float(parts.sum() ** 2 / max(float((parts**2).sum()), 1e-300))


def drawn_back(fit: LinearFit, centre: Array, start: Array, factor: float) -> LinearFit:
    """A fit drawn towards the constant scores `start`, around the centre of the rows."""
    coef, level = factor * fit.coef, fit.intercept + fit.coef @ centre
    bar = None if fit.bar is None else fit.bar.scaled(factor)
    return LinearFit(coef, start + factor * (level - start) - coef @ centre, factor * fit.noise, bar)


def classifier_schedule(plan: Plan, space: Geometry, clip: float, gain: float = 1.0) -> Schedule:
    """Steps for residuals of length at most `clip`: their total length is 3 (n mu)^(3/4), so that signal and noise grow together.

    Twelve steps (with a second moment twenty-four), the last half averaged. The constants were chosen on breast_cancer and digits.
    """
    whole = np.ones(plan.steps)
    step = gain * 3 * max(space.rows * plan.mu, 1e-6) ** 0.75 / plan.steps / math.sqrt(1 + plan.intercept**2)
    step = min(step, 4 * space.spread)  # a Newton step of the logistic loss at 0: beyond it, descent without noise would not settle
    # the level is `intercept` times the weight of a coordinate of that length: a step on the weight moves the level by its square
    return Schedule(clip * whole, step * whole, step * plan.intercept**2 * whole, max(plan.steps // 2, 1))


def regressor_schedule(
    plan: Plan, space: Geometry, *, start: float = 0.7, decay: float = 0.7, least: float = 0.1, curvature: float = 1.0
) -> Schedule:
    """Newton steps for a loss of this curvature, shortened where noise would drown them; residual bounds shrink by `decay` a step.

    Step lengths are those of a Wiener filter: prior variance over prior plus noise variance, in units of the half width of the labels,
    with prior variances 0.1 (slopes) and 0.25 (level).
    """
    clips = np.maximum(start * decay ** np.arange(plan.steps), least)
    reach = math.sqrt(1 + plan.intercept**2)
    deviation = math.sqrt(float((clips**2).mean())) * _deviation(plan, plan.step_multiplier) * reach / (space.rows * curvature)
    slope_noise, level_noise = plan.features * space.spread * deviation**2, (deviation / plan.intercept) ** 2
    whole = np.ones(plan.steps) / curvature
    return Schedule(clips, space.spread * 0.1 / (0.1 + slope_noise) * whole, 0.25 / (0.25 + level_noise) * whole, 1)


@dataclass(frozen=True)
class Regularised:
    """A planned fit of a linear model with one score a row."""

    guarantee: Guarantee
    adjacency: Adjacency
    method: ObjectivePerturbation | OutputPerturbation
    features: int

    @property
    def event(self) -> Event:
        return self.method.event

    def run(self, U: Array, labels: Array, known: NDArray[np.bool_] | None = None) -> LinearFit:
        """Rows are divided by the usual reach and joined by a constant 1, and the whole by sqrt(2), so that typical rows have length
        about 1."""
        reach = REACH * math.sqrt(self.features)
        rows = np.hstack([U / reach, np.ones((len(U), 1))]) / math.sqrt(2)
        if known is not None:
            rows, labels = rows * known[:, None], np.where(known, labels, 0.0)
        theta = self.method.run(rows, labels) / math.sqrt(2)
        units = np.append(np.full(self.features, 1 / reach), 1.0) / math.sqrt(2)
        return LinearFit(theta[None, :-1] / reach, theta[-1:], self.method.scale, self.method.bar().through(np.diag(units)))


def regularised_fit(
    solver: Solver, guarantee: Guarantee, adjacency: Adjacency, loss: Loss, *, features: int, rows: int | None, radius: float = RADIUS
) -> Regularised:
    """The plan of a solver for rows in the box [-1, 1]^features and parameters of a typical length of `radius`."""
    method: ObjectivePerturbation | OutputPerturbation
    if solver == "objective":
        method = ObjectivePerturbation.plan(guarantee, adjacency, loss, features + 1, radius=radius)
    else:
        method = OutputPerturbation.plan(guarantee, adjacency, loss, features + 1, rows=rows or UNKNOWN_ROWS)
    return Regularised(guarantee, adjacency, method, features)
