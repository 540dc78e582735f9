"""The base of every private estimator: it checks what is asked, pays, fits, and says what the fit cost.

A private estimator is a scikit-learn estimator (clone, get_params, pipelines, grid search) with a few more
parameters:

- `epsilon` and `delta`, `rho`, `mu`, or `guarantee` (a `Guarantee` or its text): what fitting may cost. Exactly one way, no default.
- `bounds` or `data_norm`: what is public about a row. Missing is an error, not a warning: a bound read from the data leaks it.
- `adjacency`: "add-remove" (the number of rows is private) or "replace-one" (it is public). `n_public` declares a number of rows public.
- `account`: an account of a ledger. The price is reserved before the data is touched and committed after; a
  failed fit stays spent. In a grid search every fit is a spend: the account refuses when the budget is gone.
- `random_state`: accepted only inside `tacit.noise.test_mode`; a model drawn from a seed is not private.

After `fit`: `event_` (the price), `privacy_` (its certified bracket: epsilon at the delta asked for, rho or mu), `private_`
(False if drawn in test mode), `n_features_in_`, `feature_names_in_`.

Missing values and infinities raise nothing: whether an error is raised would itself be an answer. NaN becomes the middle of the
public bounds (0 under `data_norm`), values beyond the bounds become the bound. Values are read one by one (`tacit.learning.reading`):
a text among numbers is read as a number or as missing, and changes no other value. A list of rows has the number of features that
`bounds` lists; with one pair of bounds for all features, give an array or a data frame.

>>> RowSpace.of(2, bounds=(0, 10)).scale(np.array([[0.0, 5.0], [float("nan"), 1e308]]))
array([[-1.,  0.],
       [ 0.,  1.]])
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import Adjacency, Bound, Event, Guarantee, ParameterError
from tacit.learning.reading import column_of, declared_classes, declared_width, float_matrix
from tacit.learning.scikit import BaseEstimator, ClassifierMixin, check_is_fitted, clone
from tacit.ledger import Account, Ledger, paying, withheld
from tacit.mechanisms import clip_rows
from tacit.noise import SeedRefusedError, is_private, test_mode
from tacit.parameters import count, number, positive

Array = NDArray[np.float64]
#: Labels of classes: numbers, texts, whatever the caller declares.
Labels = NDArray[np.generic]
#: (lower, upper), each one number or one for each feature; or such a pair of numbers for each column by its name.
Bounds = Sequence[ArrayLike] | NDArray[np.generic] | Mapping[str, Sequence[float]]
LARGEST = 1e100  # of a bound: widths and squares of numbers up to it are floats
UNKNOWN_ROWS = 1000  # plans choose shares and steps for so many rows where the number is private


@dataclass(frozen=True)
class RowSpace:
    """What is public about a row: a box, moved to [-1, 1] in every coordinate, or a Euclidean ball, scaled to radius sqrt(d)."""

    centre: Array
    half: Array
    norm: float | None = None

    @classmethod
    def of(cls, features: int, *, bounds: Bounds | None = None, data_norm: float | None = None) -> RowSpace:
        """The space of rows of `features` numbers; bounds are (lower, upper), each one number or one for each feature.

        >>> RowSpace.of(2, bounds=([0, 0], [1, 4])).half
        array([0.5, 2. ])
        """
        if (bounds is None) == (data_norm is None):
            raise ParameterError(
                "give either bounds=(lower, upper), numbers or one for each feature, or data_norm=, the largest Euclidean length of a row; "
                "they must be public knowledge, not taken from this data"
            )
        if data_norm is not None:
            radius = float(positive("data_norm", data_norm))
            if radius > LARGEST:
                raise ParameterError(f"data_norm must be at most {LARGEST:g}: squares of larger lengths are no floats; scale the rows")
            return cls(np.zeros(features), np.full(features, radius / np.sqrt(max(features, 1))), radius)
        lower, upper = interval("bounds", bounds, features)
        return cls((lower + upper) / 2, (upper - lower) / 2)

    def scale(self, X: Array) -> Array:
        """Rows in public units, every one of them finite and inside; a feature with equal bounds becomes 0."""
        if self.norm is not None:
            # half is norm / sqrt(d): a row on the sphere gets length sqrt(d), like the corners of the box
            known = np.where(np.isnan(X), 0.0, X) / np.where(self.half > 0, self.half, 1.0)
            return clip_rows(known, float(np.sqrt(len(self.half))))
        scaled: Array = np.where(np.isnan(X), self.centre, X)
        np.clip(scaled, self.centre - self.half, self.centre + self.half, out=scaled)  # in place: a million rows are written once
        scaled -= self.centre
        scaled /= np.where(self.half > 0, self.half, np.inf)
        return np.clip(scaled, -1.0, 1.0, out=scaled)

    def fill(self, X: Array) -> Array:
        """Rows to predict for: a missing value counts as the centre, as in training; infinities are cut where sums stay finite."""
        return np.clip(np.where(np.isnan(X), self.centre, X), -1e100, 1e100)

    def unscale(self, coef: Array, intercept: Array) -> tuple[Array, Array]:
        """A linear function of scaled rows as one of the rows themselves: (coefficients, intercepts)."""
        original = np.where(self.half > 0, coef / np.where(self.half > 0, self.half, 1.0), 0.0)
        return original, intercept - original @ self.centre


def by_column(bounds: Bounds | None, names: Sequence[object] | NDArray[np.object_] | None) -> Bounds | None:
    """Bounds by the names of columns as two lists in the order of the columns; other bounds as they are.

    >>> by_column({"age": (0, 120), "height": (50, 250)}, ["height", "age"])
    ([50, 0], [250, 120])
    """
    if not isinstance(bounds, Mapping):
        return bounds
    if names is None:
        raise ParameterError(code="bounds-without-names")
    listed = [str(name) for name in names]
    missing, extra = [name for name in listed if name not in bounds], [name for name in bounds if name not in listed]
    if missing or extra:
        raise ParameterError(code="bounds-of-other-columns", missing=missing, extra=extra)
    pairs = [bounds[name] for name in listed]
    if any(np.shape(pair) != (2,) for pair in pairs):
        raise ParameterError("bounds by column must be pairs (lower, upper) of numbers")
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def interval(name: str, bounds: object, length: int) -> tuple[Array, Array]:
    """Public bounds as two arrays of the given length.

    >>> interval("bounds", (0, [1, 2]), 2)
    (array([0., 0.]), array([1., 2.]))
    """
    if not isinstance(bounds, Sequence | np.ndarray) or isinstance(bounds, str) or len(bounds) != 2:
        raise ParameterError(f"{name} must be a pair (lower, upper), each a number or one number for each feature")
    ends = []
    for side, end in zip(("lower", "upper"), bounds, strict=True):
        given = np.asarray(end, dtype=np.float64)
        if given.ndim > 1 or (given.ndim == 1 and len(given) != length):
            raise ParameterError(f"the {side} end of {name} must be a number or {length} numbers, one for each feature")
        if not (np.abs(given) <= LARGEST).all():
            raise ParameterError(f"the {side} end of {name} must be finite, and at most {LARGEST:g} in size; scale the values")
        ends.append(np.broadcast_to(given, (length,)).astype(np.float64))
    if (ends[0] > ends[1]).any():
        raise ParameterError(f"{name} must be in order: lower at most upper, for every feature")
    return ends[0], ends[1]


@dataclass(frozen=True)
class Request:
    """A fit that was asked for. Its public terms are checked; of the data, only shapes and types are."""

    guarantee: Guarantee
    adjacency: Adjacency
    numbers: Array  # private: to be touched once the fit is paid for
    space: RowSpace
    rows: int | None  # where their number is public

    @property
    def features(self) -> int:
        return int(self.numbers.shape[1])

    def scaled(self) -> Array:
        """The rows in public units."""
        return self.space.scale(self.numbers)


class PrivateEstimator(BaseEstimator):
    """What all private estimators share. A subclass checks its public parameters, says what it will cost, and then touches the data.

    A subclass defines `__init__` and `fit`. scikit-learn wants every parameter named in `__init__`, so the
    common ones are repeated there, after the estimator's own. `fit` calls `_request(X)`, which sees shapes
    and types only, and touches values inside `with self._spend(event, guarantee):`.
    """

    event_: Event
    privacy_: Bound
    private_: bool
    space_: RowSpace
    _account_was: str | None = None  # the name of the account of a fitted model that was unpickled

    def __init__(
        self, *,
        epsilon: float | None = None, delta: float | None = None, rho: float | None = None,
        mu: float | None = None, guarantee: Guarantee | str | None = None, bounds: Bounds | None = None,
        data_norm: float | None = None, adjacency: str = "add-remove", n_public: int | None = None,
        account: Account | None = None, random_state: int | None = None,
    ) -> None:  # fmt: skip
        # a record of parameters, as scikit-learn wants it: nothing is checked before fit
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.mu = mu
        self.guarantee = guarantee
        self.bounds = bounds
        self.data_norm = data_norm
        self.adjacency = adjacency
        self.n_public = n_public
        self.account = account
        self.random_state = random_state

    def __sklearn_clone__(self) -> Self:
        """A clone shares the account: a copy of the handle is a handle on the same book."""
        given = self.get_params(deep=False)
        own = {key: value if key == "account" else clone(value, safe=False) for key, value in given.items()}
        return type(self)(**own)

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: a fitted model without its account, one yet to be fitted with the place of its book and its name there.

        A fitted model has paid; whoever loads it must not need the book. One that is still to be fitted, in another
        process of a search, must pay there: it opens the same book again.
        """
        state: dict[str, Any] = {**super().__getstate__()}
        account = state.get("account")
        if account is not None:
            state["account"] = None
            state["_account_was"] = account.name if hasattr(self, "event_") else account.reopening()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        was = state.get("_account_was")
        if isinstance(was, tuple):
            state = {key: value for key, value in state.items() if key != "_account_was"}
            state["account"] = Ledger.open(was[0], create=False).account(was[1])
        super().__setstate__(state)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.input_tags.allow_nan = True
        return tags

    def _asked(self) -> tuple[Guarantee, Adjacency]:
        """The guarantee and the relation that were asked for; nothing about the data is looked at."""
        if self.account is None and self._account_was is not None:
            raise ParameterError(code="account-left-behind", account=self._account_was)
        adjacency = Adjacency.parse(self.adjacency, among=(Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE))
        guarantee = Guarantee.of(
            self.guarantee, epsilon=self.epsilon, delta=self.delta, rho=self.rho, mu=self.mu, state_delta=True
        ).positive()
        if guarantee.currency == "renyi":
            raise ParameterError("a model takes epsilon with delta, rho or mu, not Rényi orders")
        if self.random_state is not None:
            if is_private():
                raise SeedRefusedError(
                    "random_state is accepted only inside tacit.noise.test_mode: a model drawn from a seed is not private; leave it out"
                )
            count("random_state", self.random_state, least=0)
        return guarantee, adjacency

    def _request(self, X: ArrayLike) -> Request:
        """The fit that is asked for; whatever can be refused without looking at a value is refused here."""
        guarantee, adjacency = self._asked()
        numbers = self._numbers(X, reset=True)
        bounds = by_column(self.bounds, getattr(self, "feature_names_in_", None))
        space = RowSpace.of(numbers.shape[1], bounds=bounds, data_norm=self.data_norm)
        rows = declared_rows(self.n_public, len(numbers), adjacency)
        return Request(guarantee, adjacency, numbers, space, rows)

    def _numbers(self, X: ArrayLike, *, reset: bool) -> Array:
        return float_matrix(self, X, reset=reset, width=declared_width(self.bounds))

    def _spend(self, event: Event, guarantee: Guarantee) -> Fitting:
        """The block that touches the data: paid for before, errors withheld. With a seed, the draws repeat."""
        return Fitting(self, event, guarantee)

    def _fitted(self, X: ArrayLike) -> Array:
        check_is_fitted(self)
        return self._numbers(X, reset=False)


class PrivateClassifier(ClassifierMixin, PrivateEstimator):
    """What classifiers share: the labels are declared, and the class with the highest score is predicted."""

    classes: ArrayLike | None
    classes_: Labels

    def _labelled(self, X: ArrayLike, y: ArrayLike) -> tuple[Request, Labels, Iterable[object]]:
        """The fit that is asked for, the declared classes, and the labels of the rows."""
        request, classes = self._request(X), declared_classes(self.classes)
        return request, classes, column_of(y, len(request.numbers))

    def _scores(self, X: ArrayLike) -> Array:
        """One score a class for every row."""
        raise NotImplementedError

    def predict(self, X: ArrayLike) -> Labels:
        """The class with the highest score."""
        scores = self._scores(X)
        found: Labels = self.classes_[scores.argmax(axis=1)]
        return found


class Fitting:
    """The block in which an estimator touches its data; after it the estimator says what the fit cost.

    It is a class because a generator would keep the original exception in its frame (see
    `tacit.ledger.withheld`).
    """

    def __init__(self, estimator: PrivateEstimator, event: Event, guarantee: Guarantee) -> None:
        share = guarantee.delta or None  # what an account in epsilon and delta must know
        self.estimator, self.guarantee = estimator, guarantee
        self.payment = paying(estimator.account, event, purpose=f"fit {type(estimator).__name__}", delta=share)
        seed = estimator.random_state
        self._seed = contextlib.nullcontext() if seed is None else test_mode(int(seed))

    def __enter__(self) -> None:
        self._seed.__enter__()  # first: where a seed is refused, nothing is booked
        try:
            self.payment.__enter__()
        except BaseException:
            self._seed.__exit__(None, None, None)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        kind = withheld(kind)
        del error, trace
        try:
            self.payment.__exit__(kind, None, None)
        finally:
            self._seed.__exit__(None, None, None)
        if kind is not None:
            return  # on made-up rows the error is shown
        self.estimator.event_ = self.payment.event
        self.estimator.privacy_ = self.guarantee.typed_price(
            self.payment.event, Adjacency.parse(self.estimator.adjacency)
        )
        self.estimator.private_ = self.payment.private


def declared_rows(n_public: object, rows: int, adjacency: Adjacency) -> int | None:
    """The number of rows where it is public: declared, or fixed by the relation; None where it must be paid for.

    >>> declared_rows(None, 10, Adjacency.REPLACE_ONE), declared_rows(None, 10, Adjacency.ADD_REMOVE)
    (10, None)
    """
    if n_public is not None:
        return count("n_public", n_public)
    return max(rows, 1) if adjacency is Adjacency.REPLACE_ONE else None


def label_interval(label_bounds: object) -> tuple[float, float]:
    """The public bounds of the labels of a regression."""
    if label_bounds is None:
        raise ParameterError("label_bounds is missing: give (lower, upper), public knowledge about the labels, not taken from this data")
    lower, upper = (float(end[0]) for end in interval("label_bounds", label_bounds, 1))
    if not lower < upper:
        raise ParameterError(f"label_bounds must be in order and different, not {number('lower', lower)} and {number('upper', upper)}")
    return lower, upper
