"""The robust membership attack (Zarifzadeh, Liu and Shokri 2024): a record's likelihood ratio against those of the population.

The ratio of a record is its probability under the target over its mean probability under reference models. Members have a *high* ratio. A
printed account of the attack calls those with a low one members, which is worse than guessing (spec E16); here the score is the share of
the population whose ratio the record's exceeds by the factor gamma.

>>> model = lambda p: (lambda x: np.full((len(x), 2), [p, 1 - p]))
>>> records = np.zeros((1, 1)), np.array([0])
>>> attack = RobustAttack().fit(model(0.9), references=[model(0.5)], population=(np.zeros((4, 1)), np.array([1, 1, 1, 0])))
>>> attack.score(records).round(3).tolist()
[1.0]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.accounting import ParameterError
from tacit.accounting.parameters import positive, probability
from tacit.audit.membership import Attack, Mask
from tacit.audit.signals import CONFIDENCE, TINY, Floats, Signal


class RobustAttack(Attack):
    """RMIA. Offline, no reference was trained on the record: their mean is corrected to ((1 + a) p_out + (1 - a)) / 2.

    Online, half of the references were trained on the record and half were not, and the mean over both halves stands for its probability.
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

    def ratio(self, records: Any, inside: Mask | None) -> Floats:
        """The probability of each record under the target over that under the references."""
        own, others = self.signal(self.target, records), self._of_references(records)
        if inside is None or not (inside.any(axis=0) & (~inside).any(axis=0)).all():
            counted = np.ones(others.shape) if inside is None else (~inside).astype(np.float64)
            mean = (others * counted).sum(axis=0) / np.maximum(counted.sum(axis=0), 1)
            mean = ((1 + self.offline) * mean + (1 - self.offline)) / 2
        else:
            mean = (_mean(others, inside) + _mean(others, ~inside)) / 2
        return np.asarray(own / np.maximum(mean, TINY))

    def raw(self, records: Any, inside: Mask | None) -> Floats:
        """The share of the population with ratio(record) >= gamma ratio(other), and, far below one, the ratio itself to cut ties."""
        mine = self.ratio(records, inside)
        share = np.searchsorted(self._population, mine / self.gamma, side="right") / len(self._population)
        # Where many records beat the same share, the larger ratio goes first: less than one member of the population apart.
        return np.asarray(share - 1e-6 / (len(self._population) * (1 + mine)))


def _mean(values: Floats, counted: Mask) -> Floats:
    return np.asarray(np.where(counted, values, 0.0).sum(axis=0) / np.maximum(counted.sum(axis=0), 1))
