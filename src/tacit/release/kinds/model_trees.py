"""Trees of `kind: model` as plain numbers: splits, cuts and the values of leaves, which add up to a score.

A tree, a forest and boosting have one form here: a start plus one value from each tree. For a classifier the sum is the logarithm of
the odds of `positive`; for a regressor it is the prediction, cut to the label's bounds. The form is read off a fitted estimator, which
was released: nothing here reads data.

>>> trees = [{"input": [0], "cut": [0.5], "value": [-1.0, 2.0]}]
>>> summed(0.25, trees, np.array([[0.2], [0.5]])).tolist()
[-0.75, 2.25]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
CLASSIFIERS = ("DecisionTreeClassifier", "RandomForestClassifier", "GradientBoostingClassifier")
REGRESSORS = ("DecisionTreeRegressor", "RandomForestRegressor", "GradientBoostingRegressor")
TREES = (*CLASSIFIERS, *REGRESSORS)
#: How a file of trees is used, in words.
CLASSIFIER = "the chance of `positive` is 1 / (1 + exp(-z)); a half and more is accepted"
REGRESSOR = "the prediction is z, cut to the label's bounds"
HOW = (
    "z is the intercept plus one value of each tree; a tree is full and in breadth-first order: from node i go to 2 i + 2 if the node's "
    "input is at least its cut, else to 2 i + 1, until there is no such node; leaves are numbered from the left"
)


def tree_form(model: Any) -> tuple[float, list[dict[str, Any]]]:
    """The start and the trees of a fitted estimator whose inputs lie in [0, 1]."""
    if hasattr(model, "log_shares_"):  # a forest: the geometric mean over its trees
        parts, many = zip(model.trees_, model.log_shares_, strict=True), len(model.trees_)
        pairs = [(shape, (shares[:, 1] - shares[:, 0]) / many) for shape, shares in parts]
        start = float(model.log_prior_[1] - model.log_prior_[0]) / many
    elif hasattr(model, "counts_"):  # one tree: shares of the classes, drawn towards equal ones
        counts = np.maximum(model.counts_, 0.0) + model.noise_ * 0.5
        pairs, start = [(model.tree_, np.log(counts[:, 1]) - np.log(counts[:, 0]))], 0.0
    elif hasattr(model, "label_half_"):
        pairs, start = [(shape, model.label_half_ * values) for shape, values in model.trees_], float(model.label_middle_)
    else:
        pairs, start = [(shape, values[:, 1] - values[:, 0]) for shape, values in model.trees_], 0.0
    return start, [
        {
            "input": shape.feature.tolist(),
            "cut": ((shape.threshold + 1) / model.parts_).tolist(),
            "value": np.asarray(values, dtype=np.float64).tolist(),
        }
        for shape, values in pairs
    ]


def summed(start: float, trees: Sequence[Mapping[str, Any]], X: Array) -> Array:
    """The start plus the value of each row's leaf in every tree."""
    total = np.full(len(X), start)
    for tree in trees:
        node, inner, rows = np.zeros(len(X), dtype=np.int64), len(tree["input"]), np.arange(len(X))
        chosen, cut = np.asarray(tree["input"], dtype=np.int64), np.asarray(tree["cut"], dtype=np.float64)
        for _ in range(inner.bit_length()):
            node = 2 * node + 1 + (X[rows, chosen[node]] >= cut[node])
        total = total + np.asarray(tree["value"], dtype=np.float64)[node - inner]
    return total


def sound(trees: Sequence[Mapping[str, Any]], inputs: int) -> bool:
    """Whether every tree is full, asks for inputs that there are, and has finite values."""
    return all(
        len(tree["value"]) == len(tree["input"]) + 1 == len(tree["cut"]) + 1
        and len(tree["value"]) & (len(tree["value"]) - 1) == 0
        and all(0 <= one < inputs for one in tree["input"])
        and bool(np.isfinite(tree["value"]).all())
        for tree in trees
    )
