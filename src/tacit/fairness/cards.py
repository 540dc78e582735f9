"""The card of a fair classifier: what it cost, how far its groups differ, and whether it must be told the group in use.

A classifier that must know the group may be forbidden where another one is allowed, so its card says so first. Everything on a
card was released or is public.

>>> from tacit.fairness import EqualizedOdds
>>> from tacit.learning import LogisticRegression
>>> from tacit.noise import test_mode
>>> import numpy as np
>>> rows, y, sex = np.array([[0.1], [0.9]] * 500), [0, 1] * 500, ["F", "F", "M", "M"] * 250
>>> model = LogisticRegression(epsilon=0.9, delta=1e-6, bounds=(0, 1), classes=[0, 1])
>>> with test_mode(1):
...     fair = EqualizedOdds(model, groups={"sex": ["F", "M"]}, epsilon=0.1).fit(rows, y, sensitive_features=sex)
>>> print(str(fair_card(fair)).splitlines()[0])
EqualizedOdds, which needs the group in use (sex: F, M)
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from tacit.accounting import Guarantee, to_json
from tacit.fairness.rates import group_words
from tacit.learning.scikit import check_is_fitted

NEEDS = "It must be told the group of everyone it is used on: check that this is allowed where it is used."
NEEDS_NOT = "It is not told anyone's group in use; groups were used in training only."
COINS = "Decisions are drawn with chances: the same person may get another answer another time."
LATER = "Gaps are about the people it was fitted to: small gaps for people who come later, or for a chain of decisions, are not promised."


@dataclass(frozen=True)
class FairCard:
    """What a fair classifier says of itself; `record` is the same as plain values, for JSON."""

    record: dict[str, Any]

    def to_json(self) -> str:
        """The card as JSON."""
        return json.dumps(self.record, indent=1, ensure_ascii=False)

    def __str__(self) -> str:
        one = self.record
        lines = [one["name"], f"price: {one['price']}; event {one['event_text']}"]
        if not one["private"]:
            lines.append("NOT PRIVATE: drawn in test mode")
        lines += [f"gap of equalized odds: {one['gap_text']} (asked: {one['asked']:g})"]
        for group, chances in one["accepted"].items():
            lines.append(f"{group}: accepts {chances[1]:.3f} of those the model accepts, {chances[0]:.3f} of the others")
        return "\n".join([*lines, *one["notes"]])


def fair_card(model: Any) -> FairCard:
    """The card of a fitted `EqualizedOdds` or `FairClassifier`."""
    check_is_fitted(model)
    groups, needs = model.groups_, bool(model.needs_group_)
    named = "; ".join(f"{name}: {', '.join(map(str, values))}" for name, values in groups.attributes)
    record: dict[str, Any] = {
        "name": f"{type(model).__name__}, which {'needs' if needs else 'does not need'} the group in use ({named})",
        "needs_group": needs,
        "groups": {name: list(map(str, values)) for name, values in groups.attributes},
        "price": model.price_ if needs else _guarantee(model),
        "event": json.loads(to_json(model.event_)),
        "event_text": repr(model.event_),
        "private": bool(model.private_),
        "asked": float(model.gap),
        "accepted": {},
        "notes": [NEEDS if needs else NEEDS_NOT, COINS, LATER],
    }
    if needs:
        gap = model.gap_
        record["gap"] = {end: _plain(getattr(gap, end)) for end in ("value", "low", "high")}
        record["gap_text"] = str(gap)
        keys = [group_words(key) for key in groups.keys]
        record["accepted"] = dict(zip(keys, model.correction_.accept.tolist(), strict=True))
    else:
        later = model.gaps_[len(model.gaps_) // 2 :]
        record["gap"] = {"value": _plain(float(later.mean())), "low": None, "high": None}
        record["gap_text"] = f"{later.mean():.3f} on average over the hypotheses it mixes, from noisy counts"
    return FairCard(record)


def _guarantee(model: Any) -> str:
    """What a classifier was asked to keep, in words."""
    terms = {name: getattr(model, name) for name in ("epsilon", "delta", "rho", "mu")}
    return str(Guarantee.of(model.guarantee, **terms).words)


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
