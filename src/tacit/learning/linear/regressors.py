"""Private linear regressions: least squares, ridge, lasso, robust, quantile and Poisson regression.

All of them move labels from public bounds to [-1, 1], fit there, and move the model back. Least squares is
fitted by descent or from one noisy matrix (`MomentPlan`), the lasso by Frank-Wolfe, the others by descent.
Error bars come with the fit and cost nothing.

>>> from tacit.noise import test_mode
>>> X = np.linspace(0, 10, 4001)[:, None]
>>> y = 3 * X[:, 0] + 1
>>> model = LinearRegression(epsilon=1, delta=1e-6, bounds=(0, 10), label_bounds=(0, 40))
>>> with test_mode(2):
...     fitted = model.fit(X, y)
>>> fitted.score(X, y) > 0.99, fitted.privacy_.upper <= 1
(True, True)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from tacit.accounting import Adjacency, Event, Gaussian, Guarantee, ParameterError
from tacit.learning.estimator import UNKNOWN_ROWS, Array, Bounds, PrivateEstimator, Request, label_interval
from tacit.learning.linear.error_bars import NoiseBar, least_squares_noise, to_data_units
from tacit.learning.linear.losses import Loss, huber, poisson, smoothed_quantile, squared
from tacit.learning.linear.purse import Purse
from tacit.learning.linear.solvers import Geometry, LinearFit, Plan, Schedule, descend, geometry, regressor_schedule, regularised_fit
from tacit.learning.linear.staged import staged_least_squares
from tacit.learning.reading import label_numbers
from tacit.learning.scikit import RegressorMixin
from tacit.learning.textbook.frank_wolfe import FrankWolfe, steps_for
from tacit.learning.textbook.sets import L1Ball
from tacit.ledger import Account
from tacit.mechanisms import farthest_moment, noisy_second_moment
from tacit.parameters import count, nonnegative, positive

Ends = tuple[float, float]  # public bounds of the labels
ONE, LABEL = 0.3, 0.6  # lengths of the constant and of the label in a vector of length 1; the row has the rest
ROW = math.sqrt(1 - ONE**2 - LABEL**2)
REACH = 0.6  # rows beyond this part of the longest possible length are weighted down
PLENTY = 1000  # n mu above so many times the features: noise is negligible, and all rows weigh the same


@dataclass(frozen=True)
class MomentPlan:
    """Least squares from one Gaussian release of the second moment of (row, 1, label), which is all it needs.

    The release gives X'X, X'y, the number of rows and the means together, at the sensitivity of the whole
    vector instead of a third of the budget each. Two things make its noise small: the three parts are
    weighted so that the noise falls where it does least harm, and rows longer than a public reach are
    weighted down *together with their label* (Mallows 1975), which leaves a linear model unbiased where
    clipping the row alone would not. The ridge adapts to the noise (as in AdaSSP, Wang 2018, which spends a
    third of its budget on the least eigenvalue; here it is read off the release): an eigenvalue is inverted
    by Wiener's filter at the edge of the noise's spectrum.

    >>> from tacit.noise import test_mode
    >>> U = np.linspace(-1, 1, 2001)[:, None]
    >>> plan = MomentPlan.make(Guarantee(epsilon=10, delta=1e-5), Adjacency.ADD_REMOVE, features=1, rows=2001)
    >>> with test_mode(0):
    ...     found = plan.run(U, 0.5 * U[:, 0] + 0.1)
    >>> found.coef.round(2), found.intercept.round(2)
    (array([[0.5]]), array([0.1]))
    >>> bool(abs(found.coef[0, 0] - 0.5) < 4 * found.bar.errors[0])
    True

    Guarantee
        Statement: costs Gaussian(multiplier). Conditions: labels are cut to [-1, 1] and rows weighted down to `reach` before anything is
        summed. Proved in: `noisy_second_moment` of vectors of length at most 1; all the rest is post-processing.
    """

    guarantee: Guarantee
    adjacency: Adjacency
    features: int
    reach: float
    event: Event
    multiplier: float

    @classmethod
    def make(
        cls, guarantee: Guarantee, adjacency: Adjacency, features: int, rows: int | None = None, reach: float | None = None
    ) -> MomentPlan:
        """The least noise that keeps the guarantee. `reach` is by default 0.6 of the longest row of [-1, 1]^d, and all of it where a public
        number of rows makes noise negligible: then this is ordinary least squares."""
        event, mu = guarantee.settle(lambda mu: Gaussian(1 / mu, adjacency=adjacency), adjacency)
        part = 1.0 if (rows or UNKNOWN_ROWS) * mu >= PLENTY * features else REACH
        return cls(guarantee, adjacency, features, part * math.sqrt(features) if reach is None else float(reach), event, 1 / mu)

    def run(self, U: Array, labels: Array, alpha: float = 0.0) -> LinearFit:
        """The ridge regression of labels in [-1, 1]; `alpha` penalises the squared coefficients of rows in public units, not the
        intercept."""
        penalty, d = float(nonnegative("alpha", alpha)), self.features
        rows = np.nan_to_num(U)
        weight = np.minimum(1.0, self.reach / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))
        parts = [ROW / self.reach * rows, np.full((len(U), 1), ONE), LABEL * np.clip(np.nan_to_num(labels), -1, 1)[:, None]]
        moment = noisy_second_moment(np.hstack(parts) * weight, bound=1.0, multiplier=self.multiplier, adjacency=self.adjacency)
        deviation = self.multiplier * farthest_moment(1.0, self.adjacency)
        gram, cross = moment[: d + 1, : d + 1], moment[: d + 1, d + 1]
        values, vectors = np.linalg.eigh(gram)
        edge = deviation * math.sqrt(2 * (d + 1))  # of the spectrum of noise alone: 2 sqrt(d) times the deviation beside the diagonal
        seen = np.maximum(values, 0.0)
        sound = (vectors * (seen + edge**2 / np.maximum(seen, edge))) @ vectors.T
        ridge = np.diag(np.append(np.full(d, penalty * (ROW / self.reach) ** 2), 0.0))
        inverse = np.linalg.inv(sound + ridge)
        theta = inverse @ cross
        units = np.append(np.full(d, ROW / self.reach), ONE) / LABEL  # of a coefficient for (row, 1) and a label of their own size
        bar = NoiseBar(least_squares_noise(inverse, theta, deviation), "first order", sampling=self._sampling(moment, inverse, theta))
        return LinearFit((theta * units)[None, :d], (theta * units)[d:], deviation, bar.through(np.diag(units)))

    def _sampling(self, moment: Array, inverse: Array, theta: Array) -> Array:
        """What the sample leaves uncertain: the variance of the residuals, read off the release, over the released moments.

        Weights are at most 1, so this is at most too large; rows with residuals of unequal variance are taken for equal.
        """
        gram, cross, labels = moment[:-1, :-1], moment[:-1, -1], moment[-1, -1]
        people = max(float(moment[-2, -2]) / ONE**2, 1.0)
        residual = max(float(labels - 2 * theta @ cross + theta @ gram @ theta), 0.0) / people
        return residual * inverse



class LinearRegressor(RegressorMixin, PrivateEstimator):
    """What linear regressions share: labels are moved from `label_bounds` to [-1, 1], fitted there, and the model is moved back."""

    quadratic = True  # whether the loss is the squared one: then the bar of a descent knows what its steps forget

    def __init__(
        self, *,
        epsilon: float | None = None, delta: float | None = None, rho: float | None = None,
        mu: float | None = None, guarantee: Guarantee | str | None = None, bounds: Bounds | None = None,
        data_norm: float | None = None, label_bounds: Bounds | None = None, adjacency: str = "add-remove",
        n_public: int | None = None, account: Account | None = None, random_state: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            epsilon=epsilon, delta=delta, rho=rho, mu=mu, guarantee=guarantee, bounds=bounds,
            data_norm=data_norm, adjacency=adjacency, n_public=n_public, account=account,
            random_state=random_state,
        )  # fmt: skip
        self.label_bounds = label_bounds

    def _labels(self, y: Array, lower: float, upper: float) -> Array:
        """Labels in [-1, 1]; a missing one counts as the middle."""
        middle, half = (lower + upper) / 2, (upper - lower) / 2
        return np.clip((np.where(np.isnan(y), middle, y) - middle) / half, -1.0, 1.0)

    def _solve(self, request: Request, y: Array, ends: Ends) -> LinearFit:
        raise NotImplementedError

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Spend the guarantee and fit; nothing about the values raises."""
        request, ends = self._request(X), label_interval(self.label_bounds)
        space = request.space
        labels = label_numbers(y, len(request.numbers))
        fitted = self._solve(request, labels, ends)
        coef, intercept = space.unscale(fitted.coef, fitted.intercept)
        self.space_ = space
        self.coef_, self.intercept_ = coef[0], float(intercept[0])
        self.noise_ = fitted.noise
        if fitted.bar is not None:
            self.bar_ = to_data_units(fitted.bar, space.half, space.centre)
            self.coef_error_, self.intercept_error_ = self.bar_.errors[:-1], float(self.bar_.errors[-1])
            self.error_kind_ = self.bar_.kind
        return self

    def _penalty(self) -> float:
        """What the squared coefficients in public units are weighed with."""
        return 0.0

    def _descent(self, request: Request, y: Array, ends: Ends, steps: int) -> LinearFit:
        guarantee, features, rows = request.guarantee, request.features, request.rows
        plan = Plan.regressor(guarantee, request.adjacency, features=features, rows=rows, steps=steps)
        self.n_iter_ = plan.steps
        with self._spend(plan.event, guarantee):
            U, labels = request.scaled(), self._labels(y, *ends)
            shape = geometry(U, plan, normalise=False)
            schedule, loss = self._schedule(plan, shape, ends), self._loss(ends)
            start = np.array([self._start(ends)])
            found = descend(
                U, lambda s: loss.derivative(s, labels), plan, shape, schedule, start=start, normalise=False,
                penalty=self._penalty(), quadratic=self.quadratic,
            )  # fmt: skip
        return self._restored(found, ends)

    def _restored(self, found: LinearFit, ends: Ends) -> LinearFit:
        """The fit in units of the labels."""
        middle, half = (ends[0] + ends[1]) / 2, (ends[1] - ends[0]) / 2
        bar = None if found.bar is None else found.bar.scaled(half)
        return LinearFit(found.coef * half, found.intercept * half + middle, found.noise * half, bar)

    def _loss(self, ends: Ends) -> Loss:
        return squared(2.0)

    def _schedule(self, plan: Plan, shape: Geometry, ends: Ends) -> Schedule:
        return regressor_schedule(plan, shape)

    def _start(self, ends: Ends) -> float:
        return 0.0

    def predict(self, X: ArrayLike) -> Array:
        """The fitted linear function; a missing feature counts as the middle of its bounds."""
        numbers = self._fitted(X)
        found: Array = self.space_.fill(numbers) @ self.coef_ + self.intercept_
        return found

    def predict_interval(self, X: ArrayLike, confidence: float = 0.95, *, sampling: bool = False) -> tuple[Array, Array]:
        """Lower and upper ends around `predict`: where the prediction without the noise lies, with the confidence given for each row.

        It is about the noise alone, not about clipping or shrinking, and not about the sample; `sampling=True` (solver "moments") adds what
        the sample leaves uncertain about the expected label. Nothing is paid for it: it reads what was released.
        """
        numbers = self._fitted(X)
        if not hasattr(self, "bar_"):
            raise ParameterError(f"{type(self).__name__} has no error bar with this solver; LinearRegression and Ridge have one")
        rows = self.space_.fill(numbers)
        middle = rows @ self.coef_ + self.intercept_
        width = self.bar_.factor(confidence) * self.bar_.deviation(rows, sampling=sampling)
        return self._answer(middle - width), self._answer(middle + width)

    def _answer(self, scores: Array) -> Array:
        """Predictions of linear scores."""
        return scores


class LinearRegression(LinearRegressor):
    """Private least squares.

    Parameters
        epsilon, delta, rho, mu, guarantee, bounds, data_norm, adjacency, n_public, account, random_state: as for `LogisticRegression`.
        label_bounds: public (lower, upper) of the labels; required.
        solver: "staged" (buys the range of the labels and the spread of the features, then one noisy matrix or a few
        directions; also for delta=0), "descent"
        (residual bounds that shrink with the fit: the noise ends at the size of the residuals, not of the labels),
        "moments" (one noisy matrix), "objective" (also for delta=0), or "auto", which looks at public numbers only.

    Fitted: coef_, intercept_, event_, privacy_, solver_, n_iter_ (descent), noise_; and what the noise alone may have done to the fit:
    coef_error_ and intercept_error_ (standard deviations), error_kind_ ("exact", "first order" or "bound":
    `tacit.learning.linear.error_bars`), and `predict_interval`.
    """

    solvers: tuple[str, ...] = ("auto", "staged", "descent", "moments", "objective")

    def __init__(
        self, *, solver: str = "auto",
        epsilon: float | None = None, delta: float | None = None, rho: float | None = None,
        mu: float | None = None, guarantee: Guarantee | str | None = None, bounds: Bounds | None = None,
        data_norm: float | None = None, label_bounds: Bounds | None = None, adjacency: str = "add-remove",
        n_public: int | None = None, account: Account | None = None, random_state: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            epsilon=epsilon, delta=delta, rho=rho, mu=mu, guarantee=guarantee, bounds=bounds,
            data_norm=data_norm, label_bounds=label_bounds, adjacency=adjacency, n_public=n_public,
            account=account, random_state=random_state,
        )  # fmt: skip
        self.solver = solver

    def _solve(self, request: Request, y: Array, ends: Ends) -> LinearFit:
        if self.solver not in self.solvers:
            raise ParameterError(f"solver must be one of {', '.join(map(repr, self.solvers))}, not {self.solver!r}")
        guarantee, adjacency = request.guarantee, request.adjacency
        features, rows, penalty = request.features, request.rows, self._penalty()
        self.solver_ = self._chosen(guarantee, features, rows) if self.solver == "auto" else self.solver
        if self.solver_ == "staged":
            purse = Purse.of(guarantee, adjacency)
            with self._spend(purse.event, guarantee):
                scaled, units = request.scaled(), self._labels(y, *ends)
                found = staged_least_squares(scaled, units, purse, guarantee, rows=rows, penalty=penalty)
            return self._restored(found, ends)
        if self.solver_ == "descent":
            return self._descent(request, y, ends, steps=6)
        if self.solver_ == "moments":
            plan = MomentPlan.make(guarantee, adjacency, features, rows)
            with self._spend(plan.event, guarantee):
                found = plan.run(request.scaled(), self._labels(y, *ends), penalty)
            return self._restored(found, ends)
        # residuals cut at half the width of the labels, and parameters about as long: both are public units
        noisy = regularised_fit("objective", guarantee, adjacency, squared(1.0), features=features, rows=rows, radius=1.0)
        with self._spend(noisy.event, guarantee):
            found = noisy.run(request.scaled(), self._labels(y, *ends))
        return self._restored(found, ends)

    def _chosen(self, guarantee: Guarantee, features: int, rows: int | None) -> str:
        """The staged solver decides for itself, by what it releases; the others need a public number of rows."""
        return "staged"


class Ridge(LinearRegression):
    """Private ridge regression.

    `alpha` penalises the squared coefficients of the rows in public units ([-1, 1] in every feature), the intercept not at all. Other
    parameters and solvers as for `LinearRegression`, without objective perturbation; with "moments" a ridge that grows with the noise comes
    on top.
    """

    solvers = ("auto", "staged", "descent", "moments")

    def __init__(
        self, alpha: float = 1.0, *, solver: str = "auto",
        epsilon: float | None = None, delta: float | None = None, rho: float | None = None,
        mu: float | None = None, guarantee: Guarantee | str | None = None, bounds: Bounds | None = None,
        data_norm: float | None = None, label_bounds: Bounds | None = None, adjacency: str = "add-remove",
        n_public: int | None = None, account: Account | None = None, random_state: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            solver=solver, epsilon=epsilon, delta=delta, rho=rho, mu=mu, guarantee=guarantee, bounds=bounds,
            data_norm=data_norm, label_bounds=label_bounds, adjacency=adjacency, n_public=n_public,
            account=account, random_state=random_state,
        )  # fmt: skip
        self.alpha = alpha

    def _penalty(self) -> float:
        return float(nonnegative("alpha", self.alpha))


class Lasso(LinearRegressor):
    """Private least squares over an l1 ball, by Frank-Wolfe: a sparse model whose price grows with the logarithm of the features.

    `radius` bounds the sum of absolute coefficients for features and labels in public units ([-1, 1]); `steps` is the number of corners to
    walk towards, by default 0.1 (n epsilon)^0.6 for a public number of rows. Other parameters as for `LinearRegression`.
    """

    def __init__(
        self, radius: float = 1.0, *, steps: int | None = None,
        epsilon: float | None = None, delta: float | None = None, rho: float | None = None,
        mu: float | None = None, guarantee: Guarantee | str | None = None, bounds: Bounds | None = None,
        data_norm: float | None = None, label_bounds: Bounds | None = None, adjacency: str = "add-remove",
        n_public: int | None = None, account: Account | None = None, random_state: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            epsilon=epsilon, delta=delta, rho=rho, mu=mu, guarantee=guarantee, bounds=bounds,
            data_norm=data_norm, label_bounds=label_bounds, adjacency=adjacency, n_public=n_public,
            account=account, random_state=random_state,
        )  # fmt: skip
        self.radius = radius
        self.steps = steps

    def _solve(self, request: Request, y: Array, ends: Ends) -> LinearFit:
        guarantee, radius = request.guarantee, float(positive("radius", self.radius))
        strength = guarantee.gaussian_mu * 4 if guarantee.floats.epsilon is None else guarantee.floats.epsilon
        rows = request.rows or UNKNOWN_ROWS
        steps = steps_for(rows, strength) if self.steps is None else count("steps", self.steps)
        # one coordinate more, the constant 1, is the intercept: it shares the ball
        ball = L1Ball(request.features + 1, radius)
        plan = FrankWolfe.plan(guarantee, request.adjacency, ball, gradient_bound=1.0, steps=steps)
        self.n_iter_ = plan.steps
        with self._spend(plan.event, guarantee):
            U = np.hstack([np.clip(request.scaled(), -1, 1), np.ones((len(y), 1))])
            labels = self._labels(y, *ends)
            theta = plan.run(lambda at: U * np.clip(U @ at - labels, -1.0, 1.0)[:, None])
        return self._restored(LinearFit(theta[None, :-1], theta[-1:], 2 * plan.sensitivity / plan.step_epsilon), ends)


class _DescentRegressor(LinearRegressor):
    """A regression with the common parameters and one of its own, fitted by descent."""

    quadratic = False
    steps = 12

    def _solve(self, request: Request, y: Array, ends: Ends) -> LinearFit:
        self._loss(ends)  # a bad parameter is refused before the data is touched
        return self._descent(request, y, ends, self.steps)


class HuberRegressor(_DescentRegressor):
    """Private robust regression: squared up to `threshold` (in units of the labels), absolute beyond (Huber 1964)."""

    steps = 8

    def __init__(
        self, threshold: float, *,
        epsilon: float | None = None, delta: float | None = None, rho: float | None = None,
        mu: float | None = None, guarantee: Guarantee | str | None = None, bounds: Bounds | None = None,
        data_norm: float | None = None, label_bounds: Bounds | None = None, adjacency: str = "add-remove",
        n_public: int | None = None, account: Account | None = None, random_state: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            epsilon=epsilon, delta=delta, rho=rho, mu=mu, guarantee=guarantee, bounds=bounds,
            data_norm=data_norm, label_bounds=label_bounds, adjacency=adjacency, n_public=n_public,
            account=account, random_state=random_state,
        )  # fmt: skip
        self.threshold = threshold

    def _loss(self, ends: Ends) -> Loss:
        return huber(2 * float(positive("threshold", self.threshold)) / (ends[1] - ends[0]))

    def _schedule(self, plan: Plan, shape: Geometry, ends: Ends) -> Schedule:
        slope = min(self._loss(ends).slope, 2.0)
        return regressor_schedule(plan, shape, start=slope, decay=1.0, least=slope)


class QuantileRegressor(_DescentRegressor):
    """Private quantile regression with the pinball loss smoothed over a tenth of the labels' half width."""

    def __init__(
        self, quantile: float = 0.5, *,
        epsilon: float | None = None, delta: float | None = None, rho: float | None = None,
        mu: float | None = None, guarantee: Guarantee | str | None = None, bounds: Bounds | None = None,
        data_norm: float | None = None, label_bounds: Bounds | None = None, adjacency: str = "add-remove",
        n_public: int | None = None, account: Account | None = None, random_state: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            epsilon=epsilon, delta=delta, rho=rho, mu=mu, guarantee=guarantee, bounds=bounds,
            data_norm=data_norm, label_bounds=label_bounds, adjacency=adjacency, n_public=n_public,
            account=account, random_state=random_state,
        )  # fmt: skip
        self.quantile = quantile

    def _loss(self, ends: Ends) -> Loss:
        return smoothed_quantile(self.quantile, 0.1)

    def _schedule(self, plan: Plan, shape: Geometry, ends: Ends) -> Schedule:
        # the expected second derivative is the density of the residuals at 0: about 1 where they spread over a third of the half width
        slope = self._loss(ends).slope
        steps = regressor_schedule(plan, shape, start=slope, decay=1.0, least=slope, curvature=1.0)
        return Schedule(steps.clips, steps.slope_steps, steps.intercept_steps, plan.steps // 2)


class PoissonRegressor(_DescentRegressor):
    """Private Poisson regression of counts in [0, upper], with a logarithmic link: predictions are exp(linear), at most upper.

    `label_bounds` must start at 0. Scores are cut at the logarithm of the upper bound, which is what makes the gradient bounded.
    """

    steps = 12

    def _labels(self, y: Array, lower: float, upper: float) -> Array:
        return np.clip(np.where(np.isnan(y), 0.0, y), 0.0, upper)

    def _restored(self, found: LinearFit, ends: Ends) -> LinearFit:
        return found

    def _loss(self, ends: Ends) -> Loss:
        if ends[0] != 0 or ends[1] <= 1:
            raise ParameterError(f"label_bounds of counts must be (0, upper) with upper above 1, not {ends}")
        whole = poisson(ends[1], math.log(ends[1]))
        # in units of the upper bound: residuals in [-1, 1], curvature the expected share of it
        return Loss(whole.name, whole.value, lambda s, y: whole.derivative(s, y) / ends[1], 1.0, 1.0, certified=True)

    def _schedule(self, plan: Plan, shape: Geometry, ends: Ends) -> Schedule:
        return regressor_schedule(plan, shape, start=0.7, decay=0.8, least=0.15, curvature=0.3)

    def _start(self, ends: Ends) -> float:
        return math.log(ends[1] / 4)

    def predict(self, X: ArrayLike) -> Array:
        """Expected counts."""
        return self._answer(super().predict(X))

    def _answer(self, scores: Array) -> Array:
        return np.exp(np.clip(scores, -700.0, math.log(label_interval(self.label_bounds)[1])))
