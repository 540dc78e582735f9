"""Private linear classifiers: logistic regression and the support vector machine with a smoothed hinge.

They share their solvers. Public numbers choose one before the data is touched: descent in a private geometry
where there is a delta, objective perturbation in a bought frame where there is none. Both buy the shares of the
classes first and start there, so that a model is drawn back to the larger class where its noise would hide the
signal. The proofs stand beside the solvers, in `linear.solvers`, `linear.tilted`, `linear.perturbation` and `linear.pure`.

>>> from tacit.noise import test_mode
>>> X = np.array([[0.1, 0.9], [0.8, 0.2], [0.2, 0.7], [0.9, 0.1]] * 200)
>>> y = np.array([0, 1, 0, 1] * 200)
>>> model = LogisticRegression(epsilon=1, delta=1e-6, bounds=(0, 1), classes=[0, 1])
>>> with test_mode(1):
...     float(model.fit(X, y).score(X, y))
1.0
>>> model.privacy_.upper <= 1, model.private_
(True, False)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import APPROXIMATE, Guarantee, ParameterError
from tacit.calculus import codes_of
from tacit.learning.estimator import Array, Bounds, Labels, PrivateClassifier, Request
from tacit.learning.linear.error_bars import to_data_units
from tacit.learning.linear.losses import (
    Function,
    Loss,
    log_probabilities,
    logistic,
    multinomial,
    smoothed_hinge,
    softmax,
)
from tacit.learning.linear.prior import FIRST_PURE, LONG, Prior, held, look
from tacit.learning.linear.pure import ClassSums, CubePerturbation
from tacit.learning.linear.purse import Purse
from tacit.learning.linear.solvers import (
    COUNTED_ROWS,
    LinearFit,
    Plan,
    Solver,
    choose_solver,
    classifier_schedule,
    descend,
    drawn_back,
    geometry,
    regularised_fit,
    slope_energy,
)
from tacit.learning.linear.tilted import tilted_minimum
from tacit.learning.linear.weights import ClassWeight, Weighing
from tacit.ledger import Account

PURE_PART, VOTE = 0.8, 0.05  # of epsilon, for the pure one of two fits; and of that, to choose between them
PLAIN = 10.0  # n mu over d^1.5 above which rows keep their lengths


class LinearClassifier(PrivateClassifier):
    """What linear classifiers share; see `LogisticRegression` for the parameters."""

    def __init__(
        self, *, solver: str = "auto", C: float | None = None, class_weight: ClassWeight = None, weight_bound: float | None = None,
        epsilon: float | None = None, delta: float | None = None, rho: float | None = None,
        mu: float | None = None, guarantee: Guarantee | str | None = None, bounds: Bounds | None = None,
        data_norm: float | None = None, classes: ArrayLike | None = None, adjacency: str = "add-remove",
        n_public: int | None = None, account: Account | None = None, random_state: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            epsilon=epsilon, delta=delta, rho=rho, mu=mu, guarantee=guarantee, bounds=bounds,
            data_norm=data_norm, adjacency=adjacency, n_public=n_public, account=account,
            random_state=random_state,
        )  # fmt: skip
        self.classes = classes
        self.solver = solver
        self.C = C
        self.class_weight = class_weight
        self.weight_bound = weight_bound

    def _loss(self, classes: int) -> Loss:
        raise NotImplementedError

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Spend the guarantee and fit. Rows whose label was not declared count for nothing; nothing about the values raises.

        Weights of rows are cut to [0, weight_bound]; a missing one is 0.
        """
        request, classes, labels = self._labelled(X, y)
        loss, space, features = self._loss(len(classes)), request.space, request.features
        terms = (self.solver, request.guarantee, request.adjacency)
        solver = choose_solver(*terms, features=features, rows=request.rows, loss=loss)
        if self.solver == "auto" and solver in ("counted", "either") and self._books_otherwise(solver):
            solver = "descent"
        weighing = Weighing.of(
            classes, self.class_weight, sample_weight, self.weight_bound, C=self.C, rows=len(request.numbers)
        )
        if solver not in ("descent", "tilted", "either", "counted") and not weighing.plain:
            raise ParameterError(f"weights and C need solver 'descent', 'tilted', 'either', 'counted' or 'auto', not {solver!r}")
        fitted = self._solve(solver, loss, request, labels, classes, weighing)
        coef, intercept = space.unscale(fitted.coef, fitted.intercept)
        self.space_ = space
        self.classes_ = classes
        self.solver_ = solver
        self.coef_, self.intercept_ = coef, intercept
        self.noise_ = fitted.noise
        if fitted.bar is not None:
            bar, outputs = to_data_units(fitted.bar, space.half, space.centre), len(coef)
            self.coef_error_, self.intercept_error_ = np.tile(bar.errors[:-1], (outputs, 1)), np.full(outputs, bar.errors[-1])
            self.error_kind_ = bar.kind
        return self

    def _books_otherwise(self, solver: Solver) -> bool:
        """Whether the account keeps books in which an epsilon with a delta has no price, as rho and mu are, or in which many small Gaussian
        prices come to less than their epsilons. What an account is denominated in is public."""
        if self.account is None:
            return False
        budget = self.account.budget
        return budget.currency != APPROXIMATE or (solver == "counted" and budget.filter != "basic")

    def _solve(
        self, solver: Solver, loss: Loss, request: Request, labels: Iterable[object], classes: Labels, weighing: Weighing
    ) -> LinearFit:
        """Plan, pay, and only then look at rows and labels."""
        guarantee, adjacency = request.guarantee, request.adjacency
        features, rows = request.features, request.rows
        self.n_iter_ = 1
        if solver == "descent":
            purse = Purse.of(guarantee, adjacency)
            with self._spend(purse.event, guarantee):
                codes = codes_of(labels, classes)
                return self._descended(request, request.scaled(), codes, len(classes), loss, purse, weighing)
        if solver == "either":
            event, purse, pure = Purse.pair(guarantee, adjacency, PURE_PART)
            with self._spend(event, guarantee):
                codes, U = codes_of(labels, classes), request.scaled()
                vote = pure.apart(VOTE)
                one = _tilted(U, codes, len(classes), loss, pure, rows, weighing)
                other = self._descended(request, U, codes, len(classes), loss, purse, weighing)
                return other if better(U, codes, other, one, vote, weighing.people(codes)) else one
        if solver == "counted":
            event, before, purse, pure = Purse.after(guarantee, adjacency, FIRST_PURE)
            with self._spend(event, guarantee):
                codes, U = codes_of(labels, classes), request.scaled()
                first = look(codes, len(classes), before, before.left, weighing.people(codes))
                n = float(rows) if rows is not None else float(first[0].sum())
                if n * pure.strength < COUNTED_ROWS and not weighing.balanced:
                    return _tilted(U, codes, len(classes), loss, pure, rows, weighing, first)
                return self._descended(request, U, codes, len(classes), loss, purse, weighing, first)
        if solver == "tilted":
            purse = Purse.of(guarantee, adjacency, pure=True)
            with self._spend(purse.event, guarantee):
                return _tilted(request.scaled(), codes_of(labels, classes), len(classes), loss, purse, rows, weighing)
        if solver == "sums":
            sums = ClassSums.plan(guarantee, adjacency, features=features, classes=len(classes), rows=rows)
            with self._spend(sums.event, guarantee):
                return sums.run(request.scaled(), codes_of(labels, classes))
        if solver == "cube":
            outputs = 1 if len(classes) == 2 else len(classes)
            cube = CubePerturbation.plan(
                guarantee, adjacency, loss, features=features, outputs=outputs, rows=rows
            )
            with self._spend(cube.event, guarantee):
                codes = codes_of(labels, classes)
                return cube.run(request.scaled(), codes.astype(np.float64), codes >= 0)
        noisy = regularised_fit(solver, guarantee, adjacency, loss, features=features, rows=rows)
        with self._spend(noisy.event, guarantee):
            codes = codes_of(labels, classes)
            return noisy.run(request.scaled(), codes.astype(np.float64), known=codes >= 0)

    def _descended(
        self, request: Request, U: Array, codes: NDArray[np.int64], classes: int, loss: Loss, purse: Purse, weighing: Weighing,
        first: tuple[Array, float] | None = None,
    ) -> LinearFit:  # fmt: skip
        """Descent with all of a purse."""
        features, weights, factors = request.features, weighing.people(codes), np.ones(classes)
        prior = Prior.buy(codes, classes, purse, request.rows, weights=weights, first=first)
        if weighing.balanced:
            prior, factors = prior.balanced()
            weights = (np.ones(len(codes)) if weights is None else weights) * factors[np.maximum(codes, 0)]
        mu = purse.take(purse.left)
        plan = Plan.within(request.guarantee, request.adjacency, purse.event, mu, features=features, rows=prior.rows)
        self.n_iter_ = plan.steps
        return _descent(U, codes, classes, loss, plan, prior, weights, weighing.penalty(factors))

    def decision_function(self, X: ArrayLike) -> Array:
        """Scores: one a row for two classes, positive for the second; one a class otherwise."""
        numbers = self._fitted(X)
        scores: Array = self.space_.fill(numbers) @ self.coef_.T + self.intercept_
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: ArrayLike) -> Labels:
        """The class with the highest score."""
        scores = self.decision_function(X)
        places = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        found: Labels = self.classes_[places]
        return found


def _tilted(
    U: Array, codes: NDArray[np.int64], classes: int, loss: Loss, purse: Purse, rows: int | None, weighing: Weighing,
    first: tuple[Array, float] | None = None,
) -> LinearFit:  # fmt: skip
    return tilted_minimum(
        U, codes, classes, loss, purse, rows=rows, weights=weighing.people(codes), balanced=weighing.balanced, penalty=weighing.penalty,
        first=first,
    )  # fmt: skip


def _descent(
    U: Array, codes: NDArray[np.int64], classes: int, loss: Loss, plan: Plan, prior: Prior, weights: Array | None, penalty: float
) -> LinearFit:
    """Steps from the shares of the classes, and as much of what they come to as is worth keeping.

    Residuals of one score are cut at 1/sqrt(2), as long as those of two scores cut at 1 are; where there is much noise, at the larger
    class' share if that is less: no residual begins longer. Where there is little, that would bend probabilities for nothing.
    """
    outputs = 1 if classes == 2 else classes
    part = ((codes >= 0) * (1.0 if weights is None else weights))[:, None]
    labels = np.maximum(codes, 0).astype(np.float64)
    # where there is little noise, short rows are not stretched: only long ones are weighted down
    stretch = (plan.rows or 1) * plan.mu < PLAIN * plan.features**1.5
    shape = geometry(U, plan, normalise=stretch, weights=weights)
    longest = min(float(prior.shares.max()) if stretch else 1.0, 0.5**0.5)
    clip, gain = (longest, 2.0) if outputs == 1 else (1.0, 1.0)
    schedule = classifier_schedule(plan, shape, clip, gain)
    start = prior.scores
    found = descend(
        U, lambda scores: loss.clipped(scores, labels) * part, plan, shape, schedule, start=start, normalise=stretch, penalty=penalty
    )
    variance = float((prior.shares * (1 - prior.shares)).max())
    energy, chance, directions = slope_energy(found, plan, shape, schedule, variance, penalty)
    factor = held(energy, chance, directions, prior, LONG * math.sqrt(chance))
    return drawn_back(found, shape.centre, start, factor)


def better(
    U: Array, codes: NDArray[np.int64], one: LinearFit, other: LinearFit, purse: Purse, weights: Array | None = None
) -> bool:
    """Whether one released model classifies more rows rightly than another, by one noisy number with all that is left of a purse."""
    right = [_places(fit, U) == codes for fit in (one, other)]
    ahead_by = (right[0].astype(np.float64) - right[1]) * (1.0 if weights is None else weights)
    (ahead,), _ = purse.box_sum(ahead_by[:, None], purse.left)
    return bool(ahead > 0)


def _places(fit: LinearFit, U: Array) -> NDArray[np.int64]:
    """The class that a fit gives to each row."""
    scores = U @ fit.coef.T + fit.intercept
    found = (scores[:, 0] > 0).astype(np.int64) if scores.shape[1] == 1 else scores.argmax(axis=1)
    return found


class LogisticRegression(LinearClassifier):
    """Private logistic regression, binary or multinomial, with scikit-learn's API.

    Parameters
        epsilon, delta, rho, mu, guarantee: what it may cost (see `tacit.learning.estimator`); delta=0 asks for pure privacy.
        bounds, data_norm: public bounds of the features, or of the length of a row. One of them is required.
        classes: the labels that can occur; required, and public.
        adjacency: "add-remove" or "replace-one". n_public: a public number of rows; without it add-remove pays for one.
        solver: "descent" (preconditioned full-batch gradient descent); "tilted" (objective perturbation around the shares
        of the classes, in units of a bought spread, with pure noise); for delta=0 also "sums" (one release of the sums of
        the classes) or "cube" (objective perturbation in the public box); "objective" or "output" perturbation (two
        classes); "either" (descent and tilted with half of the price each, and the one that classifies more rows rightly by
        one noisy count); "counted" (for a small epsilon beside a delta: a pure look at the classes, and then tilted where there are
        so few rows that pure noise is less, or descent); or "auto".
        C: as in scikit-learn, the inverse of what half the squared coefficients are penalised by, for rows in public units ([-1, 1]
        in every feature); by default there is no penalty beyond the solver's own.
        class_weight: public numbers by class, or "balanced", by the released shares of the classes. weight_bound: the largest
        `sample_weight` of a row, public; required where `fit` is given weights. Neither changes the price.
        account: a ledger account to spend from. random_state: in test mode only.

    Fitted: coef_, intercept_, classes_, event_, privacy_, solver_, n_iter_, noise_ (the standard deviation of the noise on one coordinate
    of the last mean gradient), and coef_error_ and intercept_error_: standard deviations of what the noise alone did to the coefficients,
    as error_kind_ says "exact" or a "bound" (`tacit.learning.linear.error_bars`).

    Guarantee
        Statement: fitting costs event_, at most what was asked for, for any values in X and y.
        Conditions: bounds, classes and n_public are public; a person is one row.
        Proved in: `solvers.descend` (clipped sums with exact Gaussian noise), `tilted.tilted_minimum`, `purse.Purse`, `pure.ClassSums`,
        `pure.CubePerturbation`, `perturbation.ObjectivePerturbation`, `perturbation.OutputPerturbation`.
    """

    def _loss(self, classes: int) -> Loss:
        return logistic if classes == 2 else multinomial(classes)

    def predict_proba(self, X: ArrayLike) -> Array:
        """Probabilities of the classes, in the order of classes_."""
        scores = self.decision_function(X)
        return softmax(np.column_stack([np.zeros_like(scores), scores]) if scores.ndim == 1 else scores)

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """Logarithms of the probabilities."""
        return log_probabilities(self.predict_proba(X))


class LinearSVC(LinearClassifier):
    """A private support vector machine: hinge loss smoothed over a width of 0.5 on either side of the kink; one against the rest for
    several classes.

    Parameters, fitted attributes and guarantee are those of `LogisticRegression`.
    """

    def _loss(self, classes: int) -> Loss:
        return smoothed_hinge(0.5) if classes == 2 else one_against_rest(classes)


def one_against_rest(classes: int, width: float = 0.5) -> Loss:
    """The sum of smoothed hinge losses, each class against the others; its derivative is clipped to length 1."""
    single = smoothed_hinge(width)

    def parts(function: Function, scores: Array, labels: Array) -> list[Array]:
        return [function(scores[:, [k]], (labels.astype(int) == k).astype(np.float64)) for k in range(classes)]

    return Loss(
        f"one_against_rest({classes})",
        lambda scores, labels: np.sum(parts(single.value, scores, labels), axis=0),
        lambda scores, labels: np.hstack(parts(single.derivative, scores, labels)),
        slope=classes**0.5,
        curvature=single.curvature,
        rank=classes,
        certified=True,
    )
