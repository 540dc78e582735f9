"""Trees in `kind: model`: the published form is the fitted model, the release goes the whole way, and what cannot be saved is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.release.kinds.test_model import COST, TEXT, done, job

from tacit import learning
from tacit.noise import test_mode as seeded
from tacit.release import JobError, parse
from tacit.release.kinds import model, model_trees
from tacit.release.planning import plan

PLAIN = ("save: [json, npz, onnx, joblib]", "save: [json, npz]")


def walked(record: dict[str, Any], row: np.ndarray) -> float:
    """The file's own words, one node after another."""
    total = record["intercept"]
    for tree in record["trees"]:
        node = 0
        while node < len(tree["input"]):
            node = 2 * node + (2 if row[tree["input"][node]] >= tree["cut"][node] else 1)
        total += tree["value"][node - len(tree["input"])]
    return float(total)


@pytest.mark.parametrize("name", model_trees.TREES)
@pytest.mark.parametrize("delta", [0, 1e-6])
def test_the_form_is_the_fitted_model(name: str, delta: float) -> None:
    made = np.random.default_rng(2)
    X = made.random((600, 3))
    classifies = name in model_trees.CLASSIFIERS
    y = (X[:, 0] > 0.4).astype(int) if classifies else 10 * X[:, 0] + X[:, 1]
    public: dict[str, Any] = {"classes": [0, 1]} if classifies else {"label_bounds": (-2, 12)}
    if not delta and name.startswith("Gradient"):
        pytest.skip("boosting has no pure price")
    with seeded(1):
        fitted = getattr(learning, name)(epsilon=3, delta=delta, bounds=(0, 1), **public).fit(X, y)
    start, trees = model_trees.tree_form(fitted)
    at = np.vstack([made.random((50, 3)), np.eye(3), np.zeros((1, 3)), np.full((1, 3), 0.5)])
    z = model_trees.summed(start, trees, at)
    assert model_trees.sound(trees, 3) and not model_trees.sound(trees, 0)
    assert z == pytest.approx([walked({"intercept": start, "trees": trees}, row) for row in at])
    if classifies:
        assert 1 / (1 + np.exp(-z)) == pytest.approx(fitted.predict_proba(at)[:, 1])
    else:
        assert np.clip(z, -2, 12) == pytest.approx(fitted.predict(at))


@pytest.mark.parametrize("name", model_trees.CLASSIFIERS)
def test_a_release_of_trees(tmp_path: Path, name: str) -> None:
    given = job(("LogisticRegression", name), PLAIN)
    done(tmp_path, given)
    record = json.loads((tmp_path / "out" / "again_weights.json").read_text())
    card = json.loads((tmp_path / "out" / "again_card.json").read_text())
    assert record["estimator"] == name and record["trees"] and "weights" not in record
    assert walked(record, np.array([0.9, 1.0, 0.0])) > walked(record, np.array([0.1, 1.0, 0.0]))
    assert card["attack"]["fits"] == 20 and not card["attack"]["broken"]
    assert all(0 <= value <= 1 for value in card["rates"]["accuracy"]["value"] if value is not None)
    assert any("trees with" in note for note in card["notes"])
    with np.load(tmp_path / "out" / "again_weights.npz") as held:
        assert held["value_0"].tolist() == record["trees"][0]["value"]


@pytest.mark.parametrize("name", model_trees.REGRESSORS)
def test_a_release_of_regression_trees(tmp_path: Path, name: str) -> None:
    done(tmp_path, job(("publication:", COST.replace("LinearRegression", name))))
    record = json.loads((tmp_path / "out" / "cost_weights.json").read_text())
    assert record["label_bounds"] == [0.0, 1000.0] and math.isfinite(walked(record, np.array([0.5, 1.0, 0.0])))


def test_the_price_is_known_before_the_data() -> None:
    planned = plan(job(("LogisticRegression", "RandomForestClassifier"), PLAIN))["again"]
    assert isinstance(planned, model.PlannedModel)
    assert planned.portion.spend.keeps(planned.event, planned.adjacency)


@pytest.mark.parametrize("form", ["onnx", "joblib"])
def test_forms_that_trees_do_not_have_are_refused(form: str) -> None:
    with pytest.raises(JobError, match="json or npz"):
        job(("LogisticRegression", "DecisionTreeClassifier"), (PLAIN[0], f"save: [{form}]"))


def test_boosting_without_a_delta_is_refused_by_the_plan() -> None:
    text = TEXT.replace("estimator: LogisticRegression", "estimator: GradientBoostingClassifier")
    text = text.replace("save: [json, npz, onnx, joblib]", "save: [json]").replace("delta: 1e-6", "delta: 0")
    with pytest.raises(JobError) as refused:
        plan(parse(text))
    assert refused.value.place == "again.estimator"
    assert plan(parse(text.replace("GradientBoosting", "RandomForest")))["again"].event is not None
