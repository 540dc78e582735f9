"""A private pipeline: several private steps, one composed event, one line in the book.

The `Pipeline` here reserves the total before any step touches the data. It can, because an event depends on
public numbers only: clones of the steps are fitted to rows of zeros first, and the prices they show are those
of the fit. scikit-learn's own `Pipeline` works with private steps too; each step then spends for itself, and
`pipeline_event` says what the whole cost.

A step that is not private and learns nothing (`Normalizer`, `FunctionTransformer`) is run on one row at a time, so that
no row can change another: a function such as `lambda X: X - X.mean(0)` would carry every row into every other one.

>>> from tacit.learning import LogisticRegression, StandardScaler
>>> from tacit.noise import test_mode
>>> X = np.repeat([[1.0, 9.0], [8.0, 2.0]], 500, axis=0)
>>> model = Pipeline([
...     ("scale", StandardScaler(epsilon=0.5, delta=1e-6, bounds=(0, 10))),
...     ("classify", LogisticRegression(epsilon=0.5, delta=1e-6, data_norm=4.0, classes=[0, 1])),
... ])
>>> with test_mode(1):
...     float(model.fit(X, np.repeat([0, 1], 500)).score(X, np.repeat([0, 1], 500)))
1.0
>>> 0 < model.privacy_.upper < 1  # less than the sum: one event, accounted as one
True
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tacit.accounting import Adjacency, Composed, Event, Guarantee, NoOp, ParameterError, account
from tacit.learning.reading import Array, declared_width, float_matrix, matrix
from tacit.learning.scikit import BaseEstimator, SklearnPipeline, TransformerMixin, check_is_fitted, clone, get_tags
from tacit.ledger import Account, paying
from tacit.parameters import Number


class RowByRow(TransformerMixin, BaseEstimator):
    """A public transformer of rows, given one row at a time and nothing else.

    `fit` shows the step one row of zeros, to learn how many numbers it makes of a row; it never sees the data.
    Rows are read as numbers first (`tacit.learning.reading`). A row for which the step raises, or makes another
    number of numbers, becomes a row of missing values.

    Guarantee
        Statement: costs nothing: a row of the data becomes one row of the output, which depends on no other.
        Conditions: the step is pure, as for `tacit.calculus.map_rows`: it keeps nothing between two calls.
        Proved in: a function of each row alone is 1-stable (McSherry 2009).

    >>> from sklearn.preprocessing import FunctionTransformer
    >>> rows = np.array([[1.0, 2.0], [3.0, 5.0]])
    >>> RowByRow(FunctionTransformer(lambda X: X - X.mean(0))).fit_transform(rows).tolist()  # each row's mean is itself
    [[0.0, 0.0], [0.0, 0.0]]
    """

    event_: Event

    def __init__(self, step: Any) -> None:
        self.step = step

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: ArrayLike, y: object = None, **_: object) -> Self:
        """Show the step a row of zeros."""
        numbers = float_matrix(self, X, reset=True)
        self.step_ = clone(self.step)
        made = None
        with contextlib.suppress(Exception), _silent():
            zeros = np.zeros((1, numbers.shape[1]))
            made = _made(self.step_.fit(self._named(zeros)).transform(self._named(zeros)))
        if made is None or made.shape[0] != 1:
            raise ParameterError(code="step-not-row-wise", step=type(self.step).__name__)
        self.zero_ = made[0]
        self.event_ = NoOp()
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Every row transformed by itself."""
        check_is_fitted(self)
        numbers = float_matrix(self, X, reset=False)
        found = np.full((len(numbers), len(self.zero_)), np.nan)
        with _silent():
            for i in range(len(numbers)):
                with contextlib.suppress(Exception, SystemExit, GeneratorExit):
                    # a copy: what the step writes into its input must not reach the data
                    made = _made(self.step_.transform(self._named(numbers[i : i + 1].copy())))
                    if made.shape == (1, found.shape[1]):
                        found[i] = made[0]
        return found

    def _named(self, row: Array) -> Any:
        """The row as a data frame, where the data was one: a step may choose columns by name."""
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            return row
        import pandas

        return pandas.DataFrame(row, columns=names)


class Rehearsal(RowByRow):
    """The same, for rows of zeros: the step sees one of them, and the rest are copies of what it made."""

    def transform(self, X: ArrayLike) -> Array:
        """Every row as the row of zeros."""
        return np.repeat(self.zero_[None, :], len(matrix(X)), axis=0)


def _made(found: Any) -> Array:
    """What a step made of a row, as numbers."""
    return matrix(found.toarray() if hasattr(found, "toarray") else found)


@contextlib.contextmanager
def _silent() -> Any:
    """What a step warns of one row is about that row."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def pipeline_event(pipeline: SklearnPipeline) -> Event:
    """What fitting a pipeline cost: the composition of its steps' events; steps that learn nothing cost nothing.

    Guarantee
        Statement: the fit of the whole costs this event. Proved in: adaptive composition; a step may depend on what steps before it
        released, and a row of the data becomes one row for the next step.
        Conditions: every step carries `event_`, or learns nothing from the data.

    >>> from sklearn.pipeline import Pipeline as Plain
    >>> from tacit.learning import MinMaxScaler
    >>> pipeline_event(Plain([("scale", MinMaxScaler(bounds=(0, 1)))]).fit(np.zeros((2, 1))))
    NoOp()
    """
    events = [_event_of(name, step) for name, step in pipeline.steps]
    paid = [event for event in events if not isinstance(event, NoOp)]
    return (paid[0] if len(paid) == 1 else Composed(*paid)) if paid else NoOp()


def _absent(step: Any) -> bool:
    return step is None or isinstance(step, str)


def idle(step: Any) -> bool:
    """Whether a step learns nothing from the data: no step, or an estimator that need not be fitted."""
    return _absent(step) or isinstance(step, RowByRow) or (not hasattr(step, "event_") and not get_tags(step).requires_fit)


def _row_by_row(step: Any, wrap: type[RowByRow] = RowByRow) -> Any:
    """The step, or the steps of a pipeline inside, with those that learn nothing run on one row at a time."""
    if isinstance(step, SklearnPipeline):
        step.steps = [(name, _row_by_row(inner, wrap)) for name, inner in step.steps]
        return step
    if isinstance(step, RowByRow):
        return step if type(step) is wrap else wrap(step.step)
    return wrap(step) if not _absent(step) and idle(step) else step


def _event_of(name: str, step: Any) -> Event:
    if isinstance(step, SklearnPipeline):
        return pipeline_event(step)
    if _absent(step):
        return NoOp()
    found = getattr(step, "event_", None)
    if isinstance(found, Event):
        return found
    if idle(step):
        raise ParameterError(code="step-sees-all-rows", step=f"{name!r} ({type(step).__name__})")
    raise ParameterError(f"step {name!r} ({type(step).__name__}) carries no event_: it reads the data and nothing says what that costs")


class Pipeline(SklearnPipeline):
    """Private steps with one total.

    Parameters
        steps: as in scikit-learn. Every step is private (carries `event_` once fitted) or learns nothing; others are refused before the
        data is touched. A step that learns nothing is run as `RowByRow(step)`. No step has an account of its own.
        delta: at which the total is stated; by default the sum of the steps' deltas, or rho if they are in rho or mu.
        account: a ledger account; the total is reserved once, before the first step.

    Fitted: event_, privacy_ (epsilon at delta, or rho), private_, and the fitted steps.

    Guarantee
        Statement: fitting costs event_, whatever the values. Proved in: `pipeline_event`.
    """

    def __init__(
        self,
        steps: list[tuple[str, Any]],
        *,
        delta: Number | None = None,
        account: Account | None = None,
        transform_input: Any = None,
        memory: Any = None,
        verbose: bool = False,
    ) -> None:
        super().__init__(steps, transform_input=transform_input, memory=memory, verbose=verbose)
        self.delta = delta
        self.account = account

    def __sklearn_clone__(self) -> Self:
        """A clone shares the account."""
        own = {name: clone(value, safe=False) for name, value in self.get_params(deep=False).items() if name != "account"}
        return type(self)(**own, account=self.account)

    def price(self, X: ArrayLike, y: ArrayLike | None = None) -> Event:
        """What a fit to data of this shape will cost; the values are not looked at."""
        self._validate_steps()
        for name, step in self.steps:
            if getattr(step, "account", None) is not None:
                raise ParameterError(f"step {name!r} has an account of its own; give the account to the pipeline, which pays once")
        rows, columns = matrix(X, width=_width(self)).shape
        copies = [(name, _rehearsed(step)) for name, step in self.steps]
        for name, step in copies:
            if not idle(step) and not hasattr(step, "epsilon") and not hasattr(step, "price") and not isinstance(step, SklearnPipeline):
                _event_of(name, _stood_in(step, columns))  # before any fit to the data: a step without a price is refused
        stand_in = SklearnPipeline(copies)
        # labels are declared by the classifiers themselves; any label is as good for the price
        stand_in.fit(_zeros(X, rows, columns), None if y is None else np.zeros(rows))
        return pipeline_event(stand_in)

    def fit(self, X: ArrayLike, y: ArrayLike | None = None, **params: Any) -> Self:
        """Reserve the total, then fit step by step."""
        self._paid(X, y, lambda: super(Pipeline, self).fit(X, y, **params))
        return self

    def fit_transform(self, X: ArrayLike, y: ArrayLike | None = None, **params: Any) -> Any:
        """Reserve the total, fit, and transform."""
        return self._paid(X, y, lambda: super(Pipeline, self).fit_transform(X, y, **params))

    def fit_predict(self, X: ArrayLike, y: ArrayLike | None = None, **params: Any) -> Any:
        """Reserve the total, fit, and predict."""
        return self._paid(X, y, lambda: super(Pipeline, self).fit_predict(X, y, **params))

    def _paid(self, X: ArrayLike, y: ArrayLike | None, fit: Callable[[], Any]) -> Any:
        relation, deltas, concentrated = stated(self.steps)
        event = self.price(X, y)
        delta = self.delta if self.delta is not None else (sum(deltas) if deltas and not concentrated else None)
        payer = None if isinstance(event, NoOp) else self.account
        _row_by_row(self)
        with paying(payer, event, purpose="fit Pipeline", delta=delta or None) as payment:
            fitted = fit()
        found = pipeline_event(self)
        if found != event:  # cannot happen while an event is a function of public numbers
            raise ParameterError("a step's price changed between the reservation and the fit; it must depend on public numbers only")
        self.event_ = event
        total = account(event, relation)
        self.privacy_ = total.epsilon(float(delta)) if delta is not None else total.rho()
        self.private_ = payment.private
        return fitted


def _rehearsed(step: Any) -> Any:
    """A copy to be fitted to zeros."""
    return step if _absent(step) else _row_by_row(clone(step), Rehearsal)


def _width(pipeline: SklearnPipeline) -> int | None:
    """The declared number of features: that of the first step that declares one."""
    for _, step in pipeline.steps:
        found = _width(step) if isinstance(step, SklearnPipeline) else declared_width(getattr(step, "bounds", None))
        if found is not None or not _absent(step):
            return found
    return None


def _zeros(X: Any, rows: int, columns: int) -> Any:
    """As many rows of zeros, under the names of a data frame."""
    zeros = np.zeros((rows, columns))
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        return type(X)(zeros, columns=X.columns)
    return type(X)(zeros, schema=X.columns) if hasattr(X, "get_columns") else zeros


def _stood_in(step: Any, columns: int) -> Any:
    """A copy fitted to zeros, if it can be: to see whether it carries a price."""
    copy = clone(step)
    with contextlib.suppress(Exception):
        copy.fit(np.zeros((10, columns)), np.zeros(10))
    return copy


def stated(steps: list[tuple[str, Any]]) -> tuple[Adjacency, list[Number], bool]:
    """The relation of all private steps, which must be one, their deltas, and whether one of them is in rho or mu."""
    relations, deltas, concentrated = set(), [], False
    for _, step in steps:
        if isinstance(step, SklearnPipeline) or hasattr(step, "transformers"):
            inner = step.steps if isinstance(step, SklearnPipeline) else [part[:2] for part in step.transformers]
            relation, more, other = stated(inner)
            if more or other:
                relations.add(relation)
            deltas += more
            concentrated = concentrated or other
            continue
        shorthand = {name: getattr(step, name, None) for name in ("epsilon", "delta", "rho", "mu")}
        given = getattr(step, "guarantee", None)
        if given is None and all(shorthand[name] is None for name in ("epsilon", "rho", "mu")):
            continue
        guarantee = Guarantee.of(given, **shorthand, state_delta=True)
        relations.add(Adjacency.parse(step.adjacency, among=(Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE)))
        if guarantee.epsilon is None:
            concentrated = True
        else:
            typed = shorthand["delta"]
            deltas.append((guarantee.floats.delta or 0.0) if typed is None or isinstance(typed, str) else typed)
    if len(relations) > 1:
        raise ParameterError("the steps are private under different relations; give all of them the same adjacency")
    return (relations.pop() if relations else Adjacency.ADD_REMOVE), deltas, concentrated
