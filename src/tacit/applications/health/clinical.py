"""The card of a clinical model: how well it ranks patients, by group and before and after a date, private beside not.

A private model may serve some groups worse, or age faster, than one trained without privacy; the card shows both
models in every part. On development data, whose patients agreed or are made up, figures are exact and cost nothing.
On protected patients one noisy histogram of scores is paid for, and every AUC is read from it.

>>> import numpy as np
>>> rng = np.random.default_rng(1)
>>> sick = rng.random(4000) < 0.3
>>> scores = {"private": np.clip(0.4 + 0.1 * sick + 0.2 * rng.normal(size=4000), 0, 1), "plain": np.where(sick, 0.8, 0.2)}
>>> sex = rng.choice(["f", "m"], 4000)
>>> card = clinical_card(sick, scores, groups=sex, names=["f", "m"])
>>> [(row.part, row.model, round(row.auc, 2)) for row in card.rows if row.model == "plain"]
[('all', 'plain', 1.0), ('f', 'plain', 1.0), ('m', 'plain', 1.0)]
>>> paid = clinical_card(sick, scores, groups=sex, names=["f", "m"], epsilon=2)
>>> abs(paid["all", "private"].auc - card["all", "private"].auc) < 0.05, paid.event
(True, Laplace(noise_multiplier=Fraction(1, 2)))
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import Adjacency, Event
from tacit.applications.health.beacon_attack import auc
from tacit.applications.health.simulation import SEED
from tacit.applications.health.survival import Column, column_of, numbers_of, places_of
from tacit.errors import ParameterError
from tacit.exact import Typed, exact
from tacit.ledger import paying
from tacit.mechanisms import NoisySums
from tacit.parameters import count, positive

if TYPE_CHECKING:
    from tacit.ledger import Account

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
#: Simulated draws of the noise behind an interval.
DRAWS = 200


@dataclass(frozen=True)
class CardRow:
    """The AUC of one model in one part of the patients, with a 95% interval over patients and noise."""

    part: str
    model: str
    auc: float
    low: float
    high: float


@dataclass(frozen=True)
class ModelCard:
    """All rows, and what they cost. Without an event they are exact figures of development data, under no guarantee."""

    rows: tuple[CardRow, ...]
    event: Event | None = None
    private: bool = True
    entry: int | None = None

    def __getitem__(self, key: tuple[str, str]) -> CardRow:
        return next(row for row in self.rows if (row.part, row.model) == key)

    def gaps(self, private: str = "private", plain: str = "plain") -> dict[str, float]:
        """How much AUC privacy costs in each part."""
        parts = dict.fromkeys(row.part for row in self.rows)
        return {part: self[part, plain].auc - self[part, private].auc for part in parts}

    def __str__(self) -> str:
        head = "exact figures of development data, under no guarantee" if self.event is None else f"paid for: {self.event!r}"
        mark = "" if self.private else " NOT PRIVATE"
        lines = [f"{row.part:<16} {row.model:<12} AUC {row.auc:.3f} ({row.low:.3f} to {row.high:.3f})" for row in self.rows]
        return "\n".join([f"Model card: {head}{mark}", *lines])


def auc_of(histogram: Floats) -> float:
    """The AUC of scores counted by [label, bin]: the chance that a sick patient scores above a healthy one.

    >>> auc_of(np.array([[2.0, 1.0], [0.0, 3.0]]))
    0.833...
    """
    healthy, sick = np.maximum(histogram[0], 0.0), np.maximum(histogram[1], 0.0)
    pairs = healthy.sum() * sick.sum()
    if not pairs > 0:
        return 0.5
    below = np.concatenate([[0.0], np.cumsum(healthy)[:-1]])
    return float(sick @ (below + healthy / 2) / pairs)


def hanley_mcneil(auc: float, sick: float, healthy: float) -> float:
    """The standard error of an AUC over patients (Hanley and McNeil 1982)."""
    if sick < 1 or healthy < 1:
        return 0.5
    first, second = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    spread = auc * (1 - auc) + (sick - 1) * (first - auc**2) + (healthy - 1) * (second - auc**2)
    return math.sqrt(max(spread, 0.0) / (sick * healthy))


@dataclass(frozen=True, eq=False)
class _Parts:
    """Public names of the parts, and how cells [group, time] add up to them."""

    groups: tuple[str, ...]
    timed: bool

    @property
    def named(self) -> list[tuple[str, Any]]:
        found: list[tuple[str, Any]] = [("all", (slice(None), slice(None)))]
        found += [(name, (slice(i, i + 1), slice(None))) for i, name in enumerate(self.groups) if self.groups != ("",)]
        if self.timed:
            found += [("before the split", (slice(None), slice(0, 1))), ("after the split", (slice(None), slice(1, 2)))]
        return found


def clinical_card(
    labels: ArrayLike, scores: Mapping[str, ArrayLike], *, groups: ArrayLike | None = None, names: Sequence[str] = (),
    when: ArrayLike | None = None, split: float | None = None, epsilon: Typed | None = None, bins: int = 50,
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE, account: Account | None = None, purpose: str = "",
) -> ModelCard:
    """AUC of each model's scores, between 0 and 1, in all patients, by group, and before and after the time `split`.

    `names` are the declared groups. Without epsilon the patients are development data: exact figures under no
    guarantee. With epsilon they are protected, each row being one patient, and all figures together cost epsilon.

    Guarantee
        Statement: with epsilon, all figures cost one Laplace event of that price.
        Conditions: each row is one patient, who is in one cell (group, time, label, bin) for each model; add-remove
        moves as many cells as there are models by 1, replace-one twice as many. Bins, groups and split are public.
        Proved in: the l1 distance of the histogram; every AUC is post-processing.
        Correction: none; Section 9.6 of the source asks for such figures and gives no way to publish them.
    """
    if not scores:
        raise ParameterError("scores are missing: the scores of each model, such as {'private': ..., 'plain': ...}")
    if (groups is None) != (not names) or (when is None) != (split is None):
        raise ParameterError("groups go with their declared names, and when with the time to split at")
    given = {"labels": column_of(labels), **{f"scores of {k}": column_of(v) for k, v in scores.items()}}
    given |= {k: column_of(v) for k, v in (("groups", groups), ("when", when)) if v is not None}
    if len({len(one) for one in given.values()}) != 1:
        raise ParameterError(f"{', '.join(given)} must be columns of one length")
    fine = count("bins", bins, least=2)
    parts = _Parts(tuple(map(str, names)) or ("",), when is not None)

    if epsilon is None:
        return ModelCard(tuple(_exact_rows(given, tuple(scores), parts, split)))
    price = exact("epsilon", epsilon)
    positive("epsilon", price)
    relation = Adjacency.parse(adjacency, among=(Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE))
    moved = len(scores) * (2 if relation is Adjacency.REPLACE_ONE else 1)
    sums = NoisySums.of_multiplier("laplace", 1 / price, moved, adjacency=relation)
    with paying(account, sums.event, purpose=purpose or "model card") as payment:
        noisy = sums.add(_histogram(given, tuple(scores), parts, split, fine)).astype(float)
    return ModelCard(tuple(_rows(noisy, tuple(scores), parts, sums)), sums.event, payment.private, payment.entry)


def _placed(
    given: Mapping[str, Column], parts: _Parts, split: float | None
) -> tuple[NDArray[np.bool_], Ints, Ints, Floats]:
    """Which patients count, their groups, whether they come after the split, and their labels."""
    label = numbers_of(given["labels"])
    group = np.zeros(len(label), dtype=np.int64)
    if "groups" in given:
        group = places_of(given["groups"], parts.groups)
    time, good = np.zeros(len(label), dtype=np.int64), ((label == 0) | (label == 1)) & (group >= 0)
    if "when" in given:
        moment = numbers_of(given["when"])
        good &= np.isfinite(moment)
        time = (moment >= float(split or 0.0)).astype(np.int64)
    return good, group, time, label


def _exact_rows(given: Mapping[str, Column], models: Sequence[str], parts: _Parts, split: float | None) -> list[CardRow]:
    """Exact figures, by ranks."""
    good, group, time, label = _placed(given, parts, split)
    found = []
    for part, (groups, times) in parts.named:
        inside = good & np.isin(group, np.arange(len(parts.groups))[groups]) & np.isin(time, np.arange(2)[times])
        for model in models:
            score = numbers_of(given[f"scores of {model}"])
            sick, healthy = (score[inside & np.isfinite(score) & (label == one)] for one in (1, 0))
            area = auc(sick, healthy) if len(sick) and len(healthy) else 0.5
            error = hanley_mcneil(area, len(sick), len(healthy))
            found.append(CardRow(part, model, area, max(0.0, area - 1.96 * error), min(1.0, area + 1.96 * error)))
    return found


def _histogram(
    given: Mapping[str, Column], models: Sequence[str], parts: _Parts, split: float | None, bins: int
) -> Ints:
    """Patients by [model, group, time, label, bin]. A score that is no number, or a label that is none, counts for nothing."""
    good, group, time, label = _placed(given, parts, split)
    found = np.zeros((len(models), len(parts.groups), 2 if parts.timed else 1, 2, bins), dtype=np.int64)
    for i, model in enumerate(models):
        score = numbers_of(given[f"scores of {model}"])
        kept = good & np.isfinite(score)
        place = np.clip((np.clip(score[kept], 0.0, 1.0) * bins).astype(np.int64), 0, bins - 1)
        np.add.at(found[i], (group[kept], time[kept], label[kept].astype(np.int64), place), 1)
    return found


def _rows(counts: Floats, models: Sequence[str], parts: _Parts, sums: NoisySums) -> list[CardRow]:
    rng = np.random.default_rng(SEED)
    found = []
    for part, chosen in parts.named:
        for i, model in enumerate(models):
            piece = counts[i][chosen]
            table = piece.sum(axis=(0, 1))
            area = auc_of(table)
            error = hanley_mcneil(area, float(max(table[1].sum(), 0)), float(max(table[0].sum(), 0)))
            cells = piece.shape[0] * piece.shape[1]
            noise = np.rint(rng.laplace(0.0, float(sums.scales[0]), (DRAWS, cells, *table.shape))).sum(axis=1)
            base = np.maximum(table, 0.0)
            error = math.hypot(error, float(np.sqrt(np.mean([(auc_of(base + one) - area) ** 2 for one in noise]))))
            low, high = max(0.0, area - 1.96 * error), min(1.0, area + 1.96 * error)
            found.append(CardRow(part, model, area, low, high))
    return found
