"""Membership inference attacks behind one interface: fit(target, references, population), score, threshold, predict.

A higher score says "member". `threshold(alpha)` keeps false alarms among fresh non-members to at most alpha on average,
exactly: it is an order statistic of the population's scores, which are exchangeable with theirs. Each attack states
what it sees and what its two worlds are. Use `tacit.audit.audit_model` to run them in a game against a claim.

>>> model = lambda x: np.column_stack([x[:, 0], 1 - x[:, 0]])
>>> population = np.linspace(0.01, 0.99, 99)[:, None], np.zeros(99, dtype=int)
>>> attack = PopulationAttack().fit(model, population=population)
>>> attack.predict((np.array([[0.995], [0.5]]), np.array([0, 0])), alpha=0.1).tolist()
[True, False]
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from tacit.accounting import ParameterError
from tacit.audit.experiment import generator, spawn
from tacit.audit.models.signals import (
    CONFIDENCE,
    LABEL,
    LOGIT,
    LOSS,
    TINY,
    Floats,
    Inputs,
    Labels,
    Model,
    Records,
    Signal,
    features_labels,
    predicted,
    probabilities,
)
from tacit.parameters import positive, probability

Mask = NDArray[np.bool_]
FLOOR = 1e-9  # of a deviation: references that agree to the last digit do not make a score infinite
FEW = 8  # with fewer references than this on a side, one deviation is shared by all records (the paper's advice for small numbers)


@dataclass(frozen=True)
class Reference:
    """A model that the attacker trained, and, where they were kept, records that it was and was not trained on."""

    model: Model
    members: Records = None
    others: Records = None


class Attack:
    """What all attacks share. A subclass says in `raw` what its score is."""

    name = "attack"
    worlds = "unstated"
    references_needed = 0

    def __init__(self, signal: Signal = LOSS) -> None:
        self.signal = signal
        self.target: Model = None
        self.references: tuple[Reference, ...] = ()
        self.population: Records = None
        self._calibration: Floats | None = None

    def fit(self, target: Model, references: Sequence[Reference | Model] = (), population: Records = None) -> Self:
        """A copy of the attack, ready for one target model. `population` are records that the target was not trained on."""
        fitted = copy.copy(self)
        fitted.target, fitted.population, fitted._calibration = target, population, None
        fitted.references = tuple(one if isinstance(one, Reference) else Reference(one) for one in references)
        if len(fitted.references) < self.references_needed:
            raise ParameterError(f"{self.name} needs at least {self.references_needed} reference models, not {len(fitted.references)}")
        fitted.prepare()
        return fitted

    def prepare(self) -> None:
        """Whatever can be computed before records are seen."""

    def raw(self, records: Records, inside: Mask | None) -> Floats:
        """The score of each record."""
        raise NotImplementedError

    def score(self, records: Records, inside: Mask | None = None) -> Floats:
        """One number for each record, higher for members. `inside[i, j]` says whether reference i was trained on record j."""
        if self.target is None:
            raise ParameterError(f"{self.name} has no target yet; call fit(target, references, population) first")
        return self.raw(records, inside)

    def threshold(self, alpha: float) -> float:
        """Members are those with a higher score: at most alpha false alarms, on average over the population."""
        if self.population is None:
            raise ParameterError("a threshold needs records of the population that the target was not trained on; give population= to fit")
        if self._calibration is None:
            self._calibration = np.sort(self.score(self.population))
        return order_statistic(self._calibration, float(probability("alpha", alpha)))

    def predict(self, records: Records, alpha: float, inside: Mask | None = None) -> Mask:
        """Who is called a member when false alarms are kept to alpha."""
        return np.asarray(self.score(records, inside) > self.threshold(alpha))

    def describe(self) -> str:
        """Signal, worlds and access, for a report."""
        return f"{self.name} on {self.signal.name} ({self.signal.access}); {self.worlds}"

    def _of_references(self, records: Records) -> Floats:
        """The signal of every reference (rows) on every record."""
        return np.array([self.signal(one.model, records) for one in self.references])


def order_statistic(ordered: Floats, alpha: float) -> float:
    """The threshold that a fresh score from the same law exceeds with probability at most alpha; infinite where the sample is too small.

    >>> order_statistic(np.arange(99.0), 0.1), order_statistic(np.arange(5.0), 0.1)
    (89.0, inf)
    """
    place = math.ceil((1 - alpha) * (len(ordered) + 1) - 1e-9)
    return math.inf if place > len(ordered) else -math.inf if place < 1 else float(ordered[place - 1])


class LossAttack(Attack):
    """One threshold on the loss for all records (Yeom et al. 2018)."""

    name = "loss threshold"
    worlds = "OUT: any record on any model"

    def raw(self, records: Records, inside: Mask | None) -> Floats:
        """The signal itself."""
        return self.signal(self.target, records)


class PopulationAttack(LossAttack):
    """The loss held against that of the population on the same model (Ye et al. 2022, Attack P): a p-value for each record."""

    name = "population"
    worlds = "OUT: this model, a fresh record"

    def prepare(self) -> None:
        """The population's signals on the target."""
        if self.population is None:
            raise ParameterError("the population attack needs records of the population; give population= to fit")


class GapAttack(LossAttack):
    """Whoever is classified right is called a member (Yeom et al. 2018): its advantage is the gap between train and test accuracy."""

    name = "gap"
    worlds = "OUT: any record on any model"

    def __init__(self) -> None:
        super().__init__(LABEL)


class ShadowAttack(Attack):
    """Thresholds, or a classifier, learnt from shadow models whose members are known (Shokri et al. 2017).

    With objective "accuracy" the threshold is that with the most right answers on the shadows; with a number it is the quantile of the
    shadows' non-members that lets this share of them through (5.1). A `classifier` with scikit-learn's fit and predict_proba sees the
    sorted probabilities, the loss and whether the label is right, as the original attack does.
    """

    name = "shadow models"
    worlds = "IN: a shadow model and its member; OUT: a shadow model and another record"
    references_needed = 1

    def __init__(self, signal: Signal = LOSS, objective: Literal["accuracy"] | float = "accuracy", classifier: Model = None) -> None:
        super().__init__(signal)
        self.objective, self.classifier = objective, classifier
        self.cut = 0.0
        self._learnt: Model = None

    def prepare(self) -> None:
        """Learn from the shadows."""
        known = [one for one in self.references if one.members is not None and one.others is not None]
        if not known:
            raise ParameterError("shadow models need their members and others: references must be Reference(model, members, others)")
        if self.classifier is not None:
            rows = [self._features(one.model, part) for one in known for part in (one.members, one.others)]
            bits = [np.full(len(row), i % 2 == 0) for i, row in enumerate(rows)]
            self._learnt = copy.deepcopy(self.classifier).fit(np.vstack(rows), np.concatenate(bits))
            return
        inside = np.concatenate([self.signal(one.model, one.members) for one in known])
        outside = np.sort(np.concatenate([self.signal(one.model, one.others) for one in known]))
        if self.objective == "accuracy":
            levels = np.unique(np.concatenate([inside, outside]))
            right = np.searchsorted(outside, levels, side="left") / len(outside) - np.searchsorted(np.sort(inside), levels) / len(inside)
            self.cut = float(levels[int(np.argmax(right))])
        else:
            self.cut = order_statistic(outside, float(probability("objective", self.objective)))

    def raw(self, records: Records, inside: Mask | None) -> Floats:
        """The signal above the learnt threshold, or the classifier's probability."""
        if self._learnt is None:
            return self.signal(self.target, records) - self.cut
        return np.asarray(self._learnt.predict_proba(self._features(self.target, records))[:, 1], dtype=np.float64)

    def decide(self, records: Records) -> Mask:
        """Who is called a member at the threshold the shadows taught."""
        scores = self.score(records)
        return np.asarray(scores >= (0.0 if self._learnt is None else 0.5))

    def _features(self, model: Model, records: Records) -> Floats:
        rows = np.sort(probabilities(model, features_labels(records)[0]), axis=1)[:, ::-1]
        return np.column_stack([rows, LOSS(model, records), LABEL(model, records)])


class ReferenceAttack(Attack):
    """The loss held against that of the same record on models trained without it (Ye et al. 2022, Attack R): better on outliers.

    The score is the share of reference models on which the record does worse; ties count half.
    """

    name = "reference"
    worlds = "OUT: this record, a fresh model"
    references_needed = 2

    def raw(self, records: Records, inside: Mask | None) -> Floats:
        """One less the p-value among the references that were trained without the record."""
        own, others = self.signal(self.target, records), self._of_references(records)
        worse = (others < own) + 0.5 * (others == own)
        return _mean(worse, _outside(others, inside))

    def threshold(self, alpha: float) -> float:
        """The (1 - alpha)-quantile of the record's own reference signals (5.3): the score is already a rank among them."""
        if self.population is not None:
            return super().threshold(alpha)
        return 1 - float(probability("alpha", alpha))


class CalibratedAttack(Attack):
    """The signal less its mean over reference models: hard records are not mistaken for outsiders (Watson et al. 2022)."""

    name = "difficulty calibrated"
    worlds = "OUT: this record, a fresh model, by its mean"
    references_needed = 1

    def raw(self, records: Records, inside: Mask | None) -> Floats:
        """Own signal less that of the references trained without the record."""
        others = self._of_references(records)
        return np.asarray(self.signal(self.target, records) - _mean(others, _outside(others, inside)))


class LabelOnlyAttack(Attack):
    """How far a record is from the decision boundary, seen through labels alone (Choquette-Choo et al. 2021).

    `how="noise"`: the share of copies with Gaussian noise of each scale that keep their label. `how="boundary"`: how far one can go in
    random directions before the label changes, by bisection. `how="augmentation"`: the share of `augment(x, i)`, i = 0, 1, ..., with the
    right label. A record with a wrong label scores below all others.
    """

    name = "label only"
    worlds = "OUT: this model, a fresh record, seen by labels"

    def __init__(
        self, how: Literal["noise", "boundary", "augmentation"] = "noise", *, scales: Sequence[float] = (0.1, 0.3, 1.0),
        queries: int = 20, augment: Callable[[Inputs, int], Inputs] | None = None, seed: int = 0,
    ) -> None:
        super().__init__(LABEL)
        if how not in ("noise", "boundary", "augmentation") or (how == "augmentation") != (augment is not None):
            raise ParameterError("how must be 'noise', 'boundary', or 'augmentation' together with augment=function(x, i)")
        self.how, self.scales, self.queries, self.augment, self.seed = how, tuple(scales), queries, augment, seed

    def raw(self, records: Records, inside: Mask | None) -> Floats:
        """Robustness of the right label."""
        x, y = features_labels(records)
        right = self.signal(self.target, records)
        if self.augment is not None:
            kept = np.mean([predicted(self.target, self.augment(x, i)) == y for i in range(self.queries)], axis=0)
            return np.asarray(right + kept)
        inputs = np.asarray(x, dtype=np.float64)
        # Each record has coins of its own, so that its score does not depend on who else is asked about.
        noise = np.array([coins.normal(size=inputs.shape[1:]) for coins in spawn(generator(self.seed), self.queries)])
        if self.how == "noise":
            kept = np.mean([predicted(self.target, inputs + s * z) == y for s in self.scales for z in noise], axis=0)
            return np.asarray(right + kept)
        return np.asarray(right * (1 + np.mean([self._distance(inputs, y, z / np.linalg.norm(z)) for z in noise], axis=0)))

    def _distance(self, inputs: Floats, y: Labels, direction: Floats) -> Floats:
        """Steps of halving between the record and a point far out in this direction."""
        shape = (len(inputs),) + (1,) * (inputs.ndim - 1)
        low, high = np.zeros(len(inputs)), np.full(len(inputs), 8.0 * max(self.scales))
        for _ in range(10):
            middle = (low + high) / 2
            kept = predicted(self.target, inputs + middle.reshape(shape) * direction) == y
            low, high = np.where(kept, middle, low), np.where(kept, high, middle)
        return low


class LikelihoodRatioAttack(Attack):
    """LiRA, the likelihood ratio attack (Carlini et al. 2022): the signal with and without the record, as two normal laws.

    Online, where `score` is told who was inside the references, some were trained on the record and some were not, and
    the score is the logarithm of the ratio of the two densities. Offline, none was, and the score is the probability
    that a model trained without it would give a lower signal.

    >>> told = Signal("told", lambda model, records: np.full(len(records), model), 1.0)
    >>> attack = LikelihoodRatioAttack(signal=told).fit(2.0, references=[0.0, 0.5, -0.5, 2.0, 2.5, 1.5])
    >>> round(float(attack.score([0], inside=np.array([[False]] * 3 + [[True]] * 3))[0]), 6)
    8.0
    """

    name = "LiRA"
    worlds = "IN and OUT: this record, fresh models with and without it, normal laws"
    references_needed = 2

    def __init__(self, signal: Signal = LOGIT, *, shared_deviation: bool | None = None) -> None:
        super().__init__(signal)
        self.shared_deviation = shared_deviation

    def raw(self, records: Records, inside: Mask | None) -> Floats:
        """The logarithm of the likelihood ratio, or the logarithm of the probability of a lower signal without the record."""
        own, others = self.signal(self.target, records), self._of_references(records)
        mean_out, spread_out = self._law(others, _outside(others, inside))
        z_out = (own - mean_out) / spread_out
        if inside is None or not inside.any(axis=0).all():
            return np.asarray(log_ndtr(z_out))
        mean_in, spread_in = self._law(others, inside)
        z_in = (own - mean_in) / spread_in
        return np.asarray(np.log(spread_out / spread_in) + (z_out**2 - z_in**2) / 2)

    def _law(self, values: Floats, counted: Mask) -> tuple[Floats, Floats]:
        """Mean and deviation of each column over the rows that count."""
        number = np.maximum(counted.sum(axis=0), 1)
        mean = _mean(values, counted)
        squares = (np.where(counted, values - mean, 0.0) ** 2).sum(axis=0)
        shared = self.shared_deviation if self.shared_deviation is not None else bool(number.min() < FEW)
        if shared:
            freedom = max(1, int((number - 1).sum()))
            return mean, np.full(mean.shape, max(FLOOR, float(np.sqrt(squares.sum() / freedom))))
        return mean, np.maximum(FLOOR, np.sqrt(squares / np.maximum(number - 1, 1)))


class RobustAttack(Attack):
    """RMIA, the robust attack (Zarifzadeh, Liu and Shokri 2024): a record's likelihood ratio against the population's.

    The ratio of a record is its probability under the target over its mean probability under reference models. Members
    have a *high* ratio; a printed account calls those with a low one members, which is worse than guessing (spec E16).
    The score is the share of the population whose ratio the record's exceeds by the factor gamma. Offline, no reference
    was trained on the record: their mean is corrected to ((1 + a) p_out + (1 - a)) / 2. Online, half of the references
    were trained on the record and half were not, and the mean over both halves stands for its probability.

    >>> model = lambda p: (lambda x: np.full((len(x), 2), [p, 1 - p]))
    >>> population = np.zeros((4, 1)), np.array([1, 1, 1, 0])
    >>> attack = RobustAttack().fit(model(0.9), references=[model(0.5)], population=population)
    >>> attack.score((np.zeros((1, 1)), np.array([0]))).round(3).tolist()
    [1.0]
    """

    name = "RMIA"
    worlds = "OUT: this model and a fresh record, and this record and a fresh model"
    references_needed = 1

    def __init__(self, signal: Signal = CONFIDENCE, *, gamma: float = 1.0, offline: float = 0.3) -> None:
        super().__init__(signal)
        self.gamma = float(positive("gamma", gamma))
        self.offline = float(probability("offline", offline))
        self._population: Floats = np.zeros(0)

    def prepare(self) -> None:
        """The population's ratios, once."""
        if self.population is None:
            raise ParameterError("RMIA compares with records of the population; give population= to fit")
        self._population = np.sort(self.ratio(self.population, None))

    def ratio(self, records: Records, inside: Mask | None) -> Floats:
        """The probability of each record under the target over that under the references."""
        own, others = self.signal(self.target, records), self._of_references(records)
        if inside is None or not (inside.any(axis=0) & (~inside).any(axis=0)).all():
            mean = ((1 + self.offline) * _mean(others, _outside(others, inside)) + (1 - self.offline)) / 2
        else:
            mean = (_mean(others, inside) + _mean(others, ~inside)) / 2
        return np.asarray(own / np.maximum(mean, TINY))

    def raw(self, records: Records, inside: Mask | None) -> Floats:
        """The share of the population with ratio(record) >= gamma ratio(other), and, far below one, the ratio itself to cut ties."""
        mine = self.ratio(records, inside)
        share = np.searchsorted(self._population, mine / self.gamma, side="right") / len(self._population)
        # Where many records beat the same share, the larger ratio goes first: less than one member of the population apart.
        return np.asarray(share - 1e-6 / (len(self._population) * (1 + mine)))


def _outside(values: Floats, inside: Mask | None) -> Mask:
    """Which references (rows) were trained without each record: all of them where nothing is said."""
    return np.ones(values.shape, dtype=bool) if inside is None else ~inside


def _mean(values: Floats, counted: Mask) -> Floats:
    """The mean of each column over the rows that count."""
    return np.asarray(np.where(counted, values, 0.0).sum(axis=0) / np.maximum(counted.sum(axis=0), 1))
