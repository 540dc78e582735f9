"""Cases for the estimators of `tacit.learning`: a whole fit is one sample, so these are few, and left out in quick mode.

>>> [case.slow for case in cases()]
[True, True, True]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tacit.accounting import Adjacency
from tacit.audit.mechanisms.outputs import outcomes
from tacit.audit.selftest.case import Case, promise

FITS = 250
MOVED = "one person moves a fit less than its price allows: that is the price of the proof, not of the noise"


def _fitted(make: Callable[[], Any]) -> Callable[[Any], Any]:
    def fit(data: tuple[Any, Any]) -> tuple[float, ...]:
        model = make().fit(*data)
        return (*np.ravel(model.coef_).tolist(), *np.ravel(model.intercept_).tolist())

    return fit


def _case(name: str, make: Callable[[], Any], first: tuple[Any, Any], second: tuple[Any, Any], floor: float, delta: float) -> Case:
    event = make().fit(*first).event_
    claim = promise(event, Adjacency.REPLACE_ONE, text="the event of its fit")
    fit = _fitted(make)
    return Case(name, claim, outcomes(fit, first), outcomes(fit, second), floor, trials=FITS, delta=delta, why=MOVED, slow=True)


def cases() -> list[Case]:
    """One for each way of solving."""
    from tacit.learning import LinearRegression, LogisticRegression

    x = np.array([[1.0]])
    labels = (x, np.array([1])), (x, np.array([0]))
    shared: dict[str, Any] = {"bounds": (0, 1), "adjacency": "replace-one", "n_public": 1}
    return [
        _case(
            "learning: output perturbation",
            lambda: LogisticRegression(epsilon=40, delta=1e-2, classes=[0, 1], solver="output", **shared),
            *labels,
            0.0,
            0.0,
        ),
        _case(
            "learning: gradient descent",
            lambda: LogisticRegression(epsilon=40, delta=1e-2, classes=[0, 1], solver="descent", **shared),
            *labels,
            0.01,
            1e-2,
        ),
        _case(
            "learning: linear regression",
            lambda: LinearRegression(epsilon=40, delta=1e-2, label_bounds=(0, 1), **shared),
            (x, np.array([1.0])),
            (x, np.array([0.0])),
            0.02,
            1e-2,
        ),
    ]
