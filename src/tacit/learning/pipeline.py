"""A private pipeline: several private steps, one composed event, one line in the book.

The `Pipeline` here reserves the total before any step touches the data. It can, because an event depends on
public numbers only: clones of the steps are fitted to rows of zeros first, and the prices they show are those
of the fit. scikit-learn's own `Pipeline` works with private steps too; each step then spends for itself, and
`pipeline_event` says what the whole cost.

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
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tacit.accounting import Adjacency, Composed, Event, Guarantee, NoOp, ParameterError, account
from tacit.learning.scikit import SklearnPipeline, clone, get_tags
from tacit.ledger import Account, paying
from tacit.parameters import Number


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


def _idle(step: Any) -> bool:
    """Whether a step learns nothing from the data: no step, or an estimator that need not be fitted."""
    return step is None or step == "passthrough" or (not hasattr(step, "event_") and not get_tags(step).requires_fit)


def _event_of(name: str, step: Any) -> Event:
    if isinstance(step, SklearnPipeline):
        return pipeline_event(step)
    if _idle(step):
        return NoOp()
    found = getattr(step, "event_", None)
    if isinstance(found, Event):
        return found
    raise ParameterError(f"step {name!r} ({type(step).__name__}) carries no event_: it reads the data and nothing says what that costs")


class Pipeline(SklearnPipeline):
    """Private steps with one total.

    Parameters
        steps: as in scikit-learn. Every step is private (carries `event_` once fitted) or learns nothing; others are refused before the
        data is touched. No step has an account of its own.
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
        rows, columns = np.shape(X)[0], np.shape(X)[1:]
        copies = [(name, _rehearsed(step)) for name, step in self.steps]
        for name, step in copies:
            if not _idle(step) and not hasattr(step, "epsilon") and not isinstance(step, SklearnPipeline):
                _event_of(name, _stood_in(step, columns))  # before any fit to the data: a step without a price is refused
        stand_in = SklearnPipeline(copies)
        # labels are declared by the classifiers themselves; any label is as good for the price
        stand_in.fit(np.zeros((rows, *columns)), None if y is None else np.zeros(rows))
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
        stated, deltas, concentrated = _stated(self.steps)
        event = self.price(X, y)
        delta = self.delta if self.delta is not None else (sum(deltas) if deltas and not concentrated else None)
        payer = None if isinstance(event, NoOp) else self.account
        with paying(payer, event, purpose="fit Pipeline", delta=delta or None) as payment:
            fitted = fit()
        found = pipeline_event(self)
        if found != event:  # cannot happen while an event is a function of public numbers
            raise ParameterError("a step's price changed between the reservation and the fit; it must depend on public numbers only")
        self.event_ = event
        total = account(event, stated)
        self.privacy_ = total.epsilon(float(delta)) if delta is not None else total.rho()
        self.private_ = payment.private
        return fitted


def _rehearsed(step: Any) -> Any:
    """A copy to be fitted to zeros."""
    return step if step is None or step == "passthrough" else clone(step)


def _stood_in(step: Any, columns: tuple[int, ...]) -> Any:
    """A copy fitted to zeros, if it can be: to see whether it carries a price."""
    copy = clone(step)
    with contextlib.suppress(Exception):
        copy.fit(np.zeros((10, *columns)), np.zeros(10))
    return copy


def _stated(steps: list[tuple[str, Any]]) -> tuple[Adjacency, list[Number], bool]:
    """The relation of all private steps, which must be one, their deltas, and whether one of them is in rho or mu."""
    relations, deltas, concentrated = set(), [], False
    for _, step in steps:
        if isinstance(step, SklearnPipeline):
            stated, more, other = _stated(step.steps)
            relations.add(stated)
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
