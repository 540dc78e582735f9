"""What `kind: model` publishes: the weights in plain forms, and a card for people (HTML) and for programs (JSON).

The weights are numbers, and the file says how columns become the inputs that they belong to, so that they can be applied without
Tacit. The card has the price, what the attack found, and accuracy and calibration of every declared group with intervals. Everything
here is made of what was released.

>>> applied({"intercept": 1.0, "inputs": [{"column": "age", "low": 0, "high": 100}], "weights": [2.0]}, {"age": 50})
2.0
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.exact import exact
from tacit.fairness import RateEstimate, corrected_gap, group_words
from tacit.release import page as pictures
from tacit.release.kinds import Record, fields, model_trees
from tacit.release.kinds.model_onnx import onnx_file
from tacit.release.page import plain, template
from tacit.tables import MARK

if TYPE_CHECKING:
    from tacit.fairness import Correction
    from tacit.release.kinds.model import PlannedModel, TrainedModel

#: Rates of a classifier that the card shows for every group.
SHOWN = ("accuracy", "selection_rate", "true_positive_rate", "false_positive_rate")
#: How the weights are used, in words.
CLASSIFIER = "the chance of `positive` is 1 / (1 + exp(-z)) with z = intercept + sum of weight times input; a half and more is accepted"
REGRESSOR = "the prediction is intercept + sum of weight times input"
INPUTS = (
    "a column with low and high becomes (value - low) / (high - low), cut to [0, 1], and one half where it is missing; a column with "
    "categories becomes one input for each of them, 1 for the value's own and 0 for the others"
)
#: How a correction is used, and what it needs.
CORRECTION = (
    "take the model's own decision (a half and more is accepted), then accept with the chance that stands for the person's group and that "
    "decision, by a coin; a person of no declared group keeps the model's decision"
)
NEEDS_GROUP = (
    "Corrected decisions need the group of everyone the model is used on. Check that it may be known and used where the model is used; "
    "without it, use the model's own decisions, which are not corrected."
)
#: What loading a joblib file means.
JOBLIB = "The joblib file is a scikit-learn model. Loading such a file runs code: load it only if you trust whoever gave it to you."


def weights_record(planned: PlannedModel, result: TrainedModel) -> Record:
    """The weights with all that is needed to apply them."""
    spec, output = planned.spec, planned.output
    found: Record = {
        "estimator": spec.estimator,
        "label": spec.label,
        "columns": [column.record for column in output.columns],
        "inputs": planned.inputs,
        "weights": [plain(float(value)) for value in result.coef],
        "intercept": plain(result.intercept),
        "how": f"{CLASSIFIER if spec.classifies else REGRESSOR}; {INPUTS}",
    }
    if spec.grows:
        del found["weights"]
        link = model_trees.CLASSIFIER if spec.classifies else model_trees.REGRESSOR
        found |= {"trees": list(result.trees), "how": f"{link}; {model_trees.HOW}; {INPUTS}"}
        if output.range is not None:
            found["label_bounds"] = list(output.range)
    if spec.classifies:
        found |= {"other": str(output.labels[0]), "positive": str(output.labels[1])}
    if result.correction is not None:
        found["correction"] = {"needs_group": True, "how": CORRECTION, **_accepted(planned, result.correction)}
    return found if result.private else {"NOT PRIVATE": MARK, **found}


def _accepted(planned: PlannedModel, correction: Correction) -> Record:
    """The chances of acceptance, by group and by the model's own decision."""
    attributes, rows = planned.output.groups.names, []
    for key, (rejected, accepted) in zip(planned.output.groups.keys, correction.accept.tolist(), strict=True):
        values = key if isinstance(key, tuple) and len(attributes) > 1 else (key,)
        group = {name: str(value) for name, value in zip(attributes, values, strict=True)}
        rows.append({"group": group, "if_model_rejects": plain(rejected), "if_model_accepts": plain(accepted)})
    return {"gap": float(exact("gap", planned.spec.gap or 0)), "accept": rows}


def applied(record: Mapping[str, Any], row: Mapping[str, Any]) -> float:
    """What the weights of a file make of one row: intercept plus weighted inputs. It shows that the file says enough to be used."""
    columns = record.get("columns", record["inputs"])
    inputs: list[float] = []
    for column in columns:
        value = row.get(column["column"])
        if "categories" in column:
            inputs += [float(value == category) for category in column["categories"]]
        else:
            low, high = column["low"], column["high"]
            share = 0.5 if value is None else (min(max(value, low), high) - low) / ((high - low) or 1.0)
            inputs.append(share)
    return float(record["intercept"] + sum(w * x for w, x in zip(record["weights"], inputs, strict=True)))


def weights(planned: PlannedModel, result: TrainedModel) -> dict[str, bytes]:
    """The files of the weights."""
    spec, found = planned.spec, dict[str, bytes]()
    record, name = weights_record(planned, result), f"{spec.name}_weights"
    if "json" in spec.save:
        found[f"{name}.json"] = (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode()
    if "npz" in spec.save:
        buffer = io.BytesIO()
        grown: dict[str, Any] = {
            f"{part}_{i}": np.array(tree[part]) for i, tree in enumerate(result.trees) for part in ("input", "cut", "value")
        }
        np.savez(buffer, **grown, weights=result.coef, intercept=np.array([result.intercept]), about=np.array(json.dumps(record)))
        found[f"{name}.npz"] = buffer.getvalue()
    if "onnx" in spec.save:
        about = {"price": planned.portion.spend.words, "event": repr(planned.event)}
        if result.correction is not None:
            about["correction"] = f"decisions in this file are not corrected; the chances by group are in {spec.name}_card.json"
        found[f"{name}.onnx"] = onnx_file(record, about if result.private else {"NOT PRIVATE": MARK, **about})
    if "joblib" in spec.save:
        found[f"{name}.joblib"] = _joblib(planned, result)
    return found


def _joblib(planned: PlannedModel, result: TrainedModel) -> bytes:
    """A scikit-learn model of the same weights, which needs no Tacit to be used."""
    import joblib
    from sklearn import linear_model

    output = planned.output
    if planned.spec.classifies:
        model = linear_model.LogisticRegression()
        model.coef_, model.intercept_ = result.coef[None], np.array([result.intercept])
        model.classes_ = np.array(output.labels)
    else:
        model = linear_model.LinearRegression()
        model.coef_, model.intercept_ = result.coef, result.intercept
    model.n_features_in_ = len(result.coef)
    model.feature_names_in_ = np.array(planned.inputs, dtype=object)
    if not result.private:
        model.not_private_ = MARK
    buffer = io.BytesIO()
    joblib.dump(model, buffer)
    return buffer.getvalue()


def _ends(estimates: Sequence[RateEstimate]) -> Record:
    return {end: [plain(float(getattr(one, end))) for one in estimates] for end in ("value", "low", "high")}


def described(planned: PlannedModel, result: TrainedModel | None) -> Record:
    """All that the report and the card say, as JSON."""
    spec, output = planned.spec, planned.output
    share = float(exact("holdout", spec.holdout))
    found: Record = fields.opening_of(planned, result) | {
        "estimator": spec.estimator, "label": spec.label,
        "source": spec.source, "features": list(spec.features), "inputs": planned.inputs, "holdout": share,
        "price": planned.portion.spend.words, "training": repr(planned.training),
        "evaluation": repr(planned.evaluation.event), "save": list(spec.save), "attributes": list(spec.groups),
        "groups": [group_words(key) for key in output.groups.keys],
        "rates": {}, "calibration": [], "gaps": [], "weights": [], "attack": {}, "joblib": JOBLIB if "joblib" in spec.save else "",
        "needs_group": NEEDS_GROUP if spec.gap is not None else "", "correction": {},
        "notes": [
            f"Every person was trained on or held out by a coin ({share:.0%} held out), so a person's data touched either the weights "
            "or the figures below, never both: the two together cost what the dearer of them costs.",
            "Intervals cover the noise on the counts of held-out people, not the choice of these people. Sizes of groups are private.",
            "Figures about one model say nothing of a chain of decisions that it is part of: measure the chain.",
        ],
    }  # fmt: skip
    if spec.within is not None:
        found["within"] = float(exact("within", spec.within))
    if result is None:
        return found
    keys = list(output.groups.keys)
    if result.rates is not None:
        for rate in SHOWN:
            found["rates"][rate] = _ends(result.rates.estimates(rate))
        if output.groups.size > 1:
            gaps = {"equalized odds": result.rates.difference("equalized_odds")}
            if result.correction is not None:
                gaps["equalized odds, corrected decisions"] = corrected_gap(result.rates, result.correction)
                found["correction"] = _accepted(planned, result.correction)
            found["gaps"] = [
                {"notion": notion, **{end: plain(getattr(gap, end)) for end in ("value", "low", "high")}} for notion, gap in gaps.items()
            ]
        half = 0.5 / output.cells
        for key, group in zip(keys, found["groups"], strict=True):
            curve = result.calibration.curve(key)
            found["calibration"].append(
                {"group": group, "scores": [f"{at - half:.2f} to {at + half:.2f}" for at, _ in curve], "middle": [at for at, _ in curve],
                 **_ends([one for _, one in curve]), "known": [one.known for _, one in curve]}
            )  # fmt: skip
        found["notes"].append("Calibrated means that, of the people with a score of about .3, about 30 % have the label.")
    else:
        found["rates"]["within"] = _ends([result.calibration.curve(key)[0][1] for key in keys])
    found["weights"] = [plain(float(value)) for value in result.coef]
    found["intercept"] = plain(result.intercept)
    found["attack"] = result.attack
    if result.trees:
        leaves = sum(len(tree["value"]) for tree in result.trees)
        found["notes"].append(f"The model adds up {len(result.trees)} trees with {leaves} leaves in all; the file of weights has them.")
    if not result.private:
        found["notes"].insert(0, "NOT PRIVATE: drawn in test mode.")
    return found


def _numbers(values: Sequence[float | None]) -> list[float]:
    return [math.nan if value is None else value for value in values]


def section(described: Record, confidence: str) -> str:
    """The figures of every group as pictures, the attack in words, and the weights as a table."""
    drawn = []
    for rate, of in described["rates"].items():
        ends = (_numbers(of[end]) for end in ("value", "low", "high"))
        title = f"predictions within {described['within']:g} of the truth" if rate == "within" else rate.replace("_", " ")
        drawn.append(pictures.table({"group": described["groups"]}, title, *ends))
    curves = []
    for one in described["calibration"]:
        places = [i for i, known in enumerate(one["known"]) if known]
        if not places:
            curves.append({"group": one["group"], "picture": ""})
            continue
        keys = {"score": [one["scores"][i] for i in places]}
        ends = ([_numbers(one[end])[i] for i in places] for end in ("value", "low", "high"))
        curves.append({"group": one["group"], "picture": pictures.table(keys, f"share with the label, {one['group']}", *ends)})
    listed = list(zip(described["inputs"], described["weights"], strict=False))
    return template("model.html").render(output=described, pictures=drawn, curves=curves, listed=listed, confidence=confidence)


def card_files(planned: PlannedModel, described: Record, private: bool) -> dict[str, bytes]:
    """The card as a page of its own, and as JSON."""
    job, confidence = planned.spec, f"{planned.output.desk.confidence:.0%}"
    body = section(described, confidence)
    page = template("model_card.html").render(title=job.title or job.name, output=described, body=body, private=private)
    content = {"kind": "model card", "private": private, **described}
    return {
        f"{job.name}_card.html": page.encode(),
        f"{job.name}_card.json": (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode(),
    }
