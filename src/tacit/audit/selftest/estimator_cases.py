"""A case for every private estimator of `tacit.learning`, found by enumeration: with one person more, against the price of the fit.

Every class that fits privately is taken from the room's door. It is fitted on nobody and on one person at the upper end of all bounds,
and what is looked at is what anyone may ask of the fitted model. An estimator that needs an argument of its own is made
with what `ARGUMENTS` says; one that is new and needs one fails until it is there. A fit is a sample, so these are slow.

>>> [name for name in estimators() if name.startswith("Gradient")]
['GradientBoostingClassifier', 'GradientBoostingRegressor']
>>> made("Ridge").event_.adjacency
Adjacency.ADD_REMOVE
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency
from tacit.audit.mechanisms.outputs import outcomes
from tacit.audit.selftest.case import Case, between, promise
from tacit.noise import test_mode

EPSILON, DELTA = 6, 0.01
#: Samples on either side. What an attack can show grows with their logarithm.
FITS = 1000
#: What estimators must be told beside price, bounds and classes.
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "HuberRegressor": {"threshold": 0.5},
    "KMeans": {"n_clusters": 2},
    "PCA": {"n_components": 1},
    "PoissonRegressor": {"label_bounds": (0, 2)},
    "GradientBoostingClassifier": {"n_estimators": 2},
    "GradientBoostingRegressor": {"n_estimators": 2},
    "RandomForestClassifier": {"n_estimators": 2},
    "RandomForestRegressor": {"n_estimators": 2},
}
#: What the attack must reach, as a share of the price: half of what it reached with other seeds, rounded down to a hundredth. The two that
#: are not here publish votes of few rounds, or ends of ranges, which one person hardly moves; sold too cheaply, they are caught as well.
FLOORS: Mapping[str, float] = {
    "CalibratedClassifier": 0.32,
    "DecisionTreeClassifier": 0.11,
    "DecisionTreeRegressor": 0.07,
    "GaussianNB": 0.22,
    "GradientBoostingRegressor": 0.03,
    "HuberRegressor": 0.09,
    "KMeans": 0.05,
    "Lasso": 0.06,
    "LinearRegression": 0.14,
    "LinearSVC": 0.03,
    "LogisticRegression": 0.03,
    "PCA": 0.04,
    "PoissonRegressor": 0.05,
    "QuantileRegressor": 0.09,
    "RandomForestClassifier": 0.19,
    "RandomForestRegressor": 0.13,
    "Ridge": 0.2,
    "StandardScaler": 0.26,
}
MOVED = "one person moves a fit less than its price allows: that is the price of the proof, not of the noise"

Data = tuple[NDArray[np.float64], NDArray[np.generic]]
#: Rows and labels of nobody, and of one person. Others would only be noise of another kind.
NOBODY: Data = (np.zeros((0, 2)), np.zeros(0, dtype=np.int64))
ONE: Data = (np.ones((1, 2)), np.ones(1, dtype=np.int64))
PROBES = np.array([[0.0, 0.0], [0.5, 0.5], [1.0, 1.0]])
#: What anyone may read of a fitted model beside its answers.
PUBLISHED = (
    "coef_", "intercept_", "cluster_centers_", "components_", "mean_", "scale_", "data_min_", "data_max_", "theta_", "var_", "table_",
)  # fmt: skip


def estimators() -> dict[str, type]:
    """Every class behind the door of `tacit.learning` that fits privately, but for the one that the others are made from."""
    from tacit import learning

    found = {name: getattr(learning, name) for name in learning.__all__}
    base = learning.PrivateEstimator
    return {name: kind for name, kind in found.items() if isinstance(kind, type) and issubclass(kind, base) and kind is not base}


def unfitted(name: str, epsilon: float = EPSILON) -> Any:
    """An estimator for two features between 0 and 1 and, where it has them, two classes or labels between 0 and 1."""
    kind = estimators()[name]
    asked = inspect.signature(kind).parameters
    usual: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA, "bounds": (0, 1), "classes": [0, 1], "label_bounds": (0, 1)}
    if "estimator" in asked:
        usual["estimator"] = _before()
    return kind(**{key: value for key, value in usual.items() if key in asked} | dict(ARGUMENTS.get(name, {})))


@cache
def _before() -> Any:
    """The classifier that another estimator works on: fitted once, on nobody, and the same in every run."""
    with test_mode(1):
        return made("GaussianNB")


def made(name: str, data: Data = NOBODY, epsilon: float = EPSILON) -> Any:
    """The estimator fitted on some rows."""
    return unfitted(name, epsilon).fit(*data)


def seen(name: str, data: Data, epsilon: float = EPSILON) -> tuple[float, ...]:
    """What is published of one fit: its answers to three rows, and the numbers that it consists of."""
    model = made(name, data, epsilon)
    ways = ("predict_proba", "decision_function", "predict", "transform")
    answers = [np.ravel(getattr(model, way)(PROBES)) for way in ways if hasattr(model, way)]
    numbers = [np.ravel(getattr(model, attribute)) for attribute in PUBLISHED if hasattr(model, attribute)]
    return tuple(float(value) for part in (*answers, *numbers) for value in part)


def cases() -> list[Case]:
    """One for each estimator."""
    found = []
    for name in estimators():
        claim = promise(made(name).event_, Adjacency.ADD_REMOVE, text="the event of its fit")
        worlds = [outcomes(partial(seen, name), data) for data in (NOBODY, ONE)]
        floor = FLOORS.get(name, 0.0)
        found.append(between(f"learning: {name}", claim, worlds, floor, trials=FITS, delta=DELTA, why=MOVED, slow=True))
    return found

