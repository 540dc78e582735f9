"""A search over parameters that is paid for: a secret, random number of random settings, and only the best is published.

scikit-learn's `GridSearchCV` fits every setting in every fold, which costs the sum of all fits, and then picks by
exact scores on private rows, which has no price at all. `PrivateSearchCV` draws how many settings it tries and which,
fits each to a random part of the rows, scores it on the others with noise, and publishes the best try alone. That
costs a small multiple of one try, however many settings the grid has.

>>> from tacit.learning import LogisticRegression
>>> from tacit.noise import test_mode
>>> X = np.repeat([[0.1, 0.9], [0.8, 0.2]], 2000, axis=0)
>>> y = np.repeat([0, 1], 2000)
>>> base = LogisticRegression(epsilon=0.5, delta=1e-6, bounds=(0, 1), classes=[0, 1])
>>> search = PrivateSearchCV(base, {"solver": ["auto", "descent"]}, mean_trials=4)
>>> with test_mode(1):
...     fitted = search.fit(X, y)
>>> sorted(fitted.best_params_) == ["solver"], fitted.score(X, y) > 0.9
(True, True)
>>> fitted.privacy_.upper > 0.5  # the honest total: more than one fit
True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import Adjacency, Bound, Composed, Event, Guarantee, Laplace, ParameterError, Selection, account
from tacit.learning.reading import column_of, label_numbers, matrix
from tacit.learning.scikit import BaseEstimator, check_is_fitted, clone
from tacit.ledger import Account, paying
from tacit.mechanisms import draw_runs, noisy_l1_sum
from tacit.noise import bernoulli, is_private, uniform_integers
from tacit.parameters import Number, number, positive

SCORE = 0.2  # the epsilon of one score, as a part of the epsilon of one fit


class PrivateSearchCV(BaseEstimator):
    """The best of a random number of settings, chosen within the guarantee.

    Parameters
        estimator: a private classifier or regressor with `epsilon`; what it states is the price of one try.
        param_grid: names of its parameters with lists of values; every setting must cost the same.
        mean_trials: how many settings are tried on average; the number itself stays secret.
        score_epsilon: what one score costs; by default a fifth of the estimator's epsilon.
        held_out: the chance of a row to be scored instead of fitted.
        delta: at which the total is stated; by default twice the estimator's, as a total needs more than one fit.
        account: a ledger account; the whole is reserved before any row is looked at. The estimator has none.

    Fitted: best_estimator_, best_params_, best_score_ (minus the noisy sum of losses on held-out rows), event_, privacy_, private_.
    How many settings were tried, and how long it took, must stay secret: the guarantee rests on it.

    Guarantee
        Statement: fitting costs event_ = Selection(fit and score together, mean_trials, 1).
        Conditions: as those of the estimator; the settings are public.
        Proved in: Papernot and Steinke 2022, Theorem 2 (a geometric number of trials). A row is drawn for scoring by a coin of its own, so
        a person changes the fit or the score of a try, and both are charged; a score is a sum of numbers in [0, 1] with Laplace noise.
    """

    event_: Event
    privacy_: Bound

    def __init__(
        self, estimator: Any, param_grid: Mapping[str, Sequence[Any]], *, mean_trials: Number = 10,
        score_epsilon: Number | None = None, held_out: float = 0.25, delta: Number | None = None,
        account: Account | None = None,
    ) -> None:  # fmt: skip
        self.estimator = estimator
        self.param_grid = param_grid
        self.mean_trials = mean_trials
        self.score_epsilon = score_epsilon
        self.held_out = held_out
        self.delta = delta
        self.account = account

    def __sklearn_clone__(self) -> Self:
        """A clone shares the account."""
        own = {name: clone(value, safe=False) for name, value in self.get_params(deep=False).items() if name != "account"}
        return type(self)(**own, account=self.account)

    def price(self, X: Any) -> Event:
        """What the search costs for data of this shape; the values are not looked at."""
        settings = self._settings()
        rows, columns = matrix(X, width=None).shape
        zeros = type(X)(np.zeros((rows, columns)), columns=X.columns) if hasattr(X, "iloc") else np.zeros((rows, columns))
        events = []
        for setting in settings:
            copy = clone(self.estimator).set_params(**setting)
            if getattr(copy, "account", None) is not None:
                raise ParameterError("the estimator has an account of its own; give the account to the search, which pays once")
            events.append(copy.fit(zeros, np.zeros(rows)).event_)
        if any(event != events[0] for event in events):
            raise ParameterError("the settings cost differently, and which one wins must not say what was paid; search over others")
        score = Laplace(1 / Fraction(self._score_epsilon()), adjacency=self._relation())
        return Selection(Composed(events[0], score), self.mean_trials, 1)

    def fit(self, X: Any, y: Any) -> Self:
        """Pay for the whole, try settings, and keep the best."""
        event, settings = self.price(X), self._settings()
        delta = self._delta()
        with paying(self.account, event, purpose="search", delta=delta or None) as payment:
            self._best = self._run(X, y, settings)
        self.best_params_, self.best_estimator_, self.best_score_ = self._best
        del self._best
        self.event_ = event
        self.privacy_ = account(event, self._relation()).epsilon(delta)
        self.private_ = payment.private and is_private()
        return self

    def _run(self, X: ArrayLike, y: ArrayLike, settings: list[dict[str, Any]]) -> tuple[dict[str, Any], Any, float]:
        best: tuple[dict[str, Any], Any, float] | None = None
        rows = len(matrix(X, width=None))
        chance = Fraction(number("held_out", self.held_out))
        for _ in range(draw_runs(self.mean_trials, 1)):
            setting = settings[uniform_integers(len(settings))]
            held = np.asarray(bernoulli(chance, size=rows)).astype(bool)
            model = clone(self.estimator).set_params(**setting).fit(_part(X, ~held), _part(y, ~held))
            score = self._score(model, _part(X, held), _part(y, held))
            if best is None or score > best[2]:
                best = setting, model, score
        assert best is not None
        return best

    def _score(self, model: Any, X: Any, y: Any) -> float:
        """Minus the noisy sum of what every held-out row loses: wrong or right, or how far in units of the label bounds, squared.

        Losses and not gains: every try holds out another number of rows, and a sum of gains would mostly count them.
        """
        if len(X) == 0:
            lost = np.zeros(0)
        elif hasattr(model, "classes_"):
            lost = (np.asarray(model.predict(X)) != np.asarray(column_of(y, len(X)))).astype(np.float64)
        else:
            low, high = (float(np.ravel(end)[0]) for end in model.label_bounds)
            gap = (model.predict(X) - np.clip(np.nan_to_num(label_numbers(y, len(X))), low, high)) / (high - low)
            lost = np.clip(gap * gap, 0.0, 1.0)
        epsilon = self._score_epsilon()
        (total,) = noisy_l1_sum(lost[:, None], bound=1.0, multiplier=1 / float(epsilon), adjacency=self._relation())
        return -float(total)

    def _settings(self) -> list[dict[str, Any]]:
        if not isinstance(self.param_grid, Mapping) or not self.param_grid or any(not len(v) for v in self.param_grid.values()):
            raise ParameterError("param_grid must name at least one parameter, each with a list of values")
        if not 0 < number("held_out", self.held_out) < 1:
            raise ParameterError(f"held_out must be above 0 and below 1, not {self.held_out}")
        if positive("mean_trials", self.mean_trials) < 1:
            raise ParameterError(f"mean_trials must be at least 1, not {self.mean_trials}")
        return [dict(zip(self.param_grid, values, strict=True)) for values in product(*self.param_grid.values())]

    def _score_epsilon(self) -> Number:
        if self.score_epsilon is not None:
            return positive("score_epsilon", self.score_epsilon)
        stated = Guarantee.of(
            getattr(self.estimator, "guarantee", None), epsilon=self.estimator.epsilon, delta=self.estimator.delta,
            rho=self.estimator.rho, mu=self.estimator.mu, state_delta=True,
        ).floats  # fmt: skip
        if stated.epsilon is None:
            raise ParameterError("the estimator states no epsilon; give score_epsilon=, the price of one score")
        return SCORE * stated.epsilon

    def _delta(self) -> float:
        if self.delta is not None:
            return float(self.delta)
        return 2 * float(self.estimator.delta or 0.0)

    def _relation(self) -> Adjacency:
        return Adjacency.parse(self.estimator.adjacency, among=(Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """What the best estimator predicts."""
        check_is_fitted(self)
        found: NDArray[Any] = self.best_estimator_.predict(X)
        return found

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """The score of the best estimator; exact, so for rows that are public or not these."""
        check_is_fitted(self)
        return float(self.best_estimator_.score(X, y))


def _part(values: Any, chosen: NDArray[np.bool_]) -> Any:
    """Some rows of an array, a data frame or a list, in their own container."""
    if hasattr(values, "iloc"):
        return values.iloc[np.flatnonzero(chosen)]
    if hasattr(values, "filter") and hasattr(values, "get_columns"):
        return values.filter(chosen)
    if isinstance(values, (list, tuple)):
        return [value for value, taken in zip(values, chosen, strict=True) if taken]
    return np.asarray(values)[chosen]
