"""The likelihood ratio attack (Carlini et al. 2022): for every record, the signal with and without it, as two normal laws.

Online, some references were trained on the record and some were not, and the score is the logarithm of the ratio of the two densities.
Offline, none was, and the score is the probability that a model trained without it would give a lower signal.

>>> from tacit.audit.signals import Signal
>>> told = Signal("told", lambda model, records: np.full(len(records), model), 1.0)
>>> attack = LikelihoodRatioAttack(signal=told).fit(2.0, references=[0.0, 0.5, -0.5, 2.0, 2.5, 1.5])
>>> inside = np.array([[False]] * 3 + [[True]] * 3)
>>> round(float(attack.score([0], inside)[0]), 6)
8.0
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import log_ndtr

from tacit.audit.membership import Attack, Mask
from tacit.audit.signals import LOGIT, Floats, Signal

FLOOR = 1e-9  # of a deviation: references that agree to the last digit do not make a score infinite
FEW = 8  # with fewer references than this on a side, one deviation is shared by all records (the paper's advice for small numbers)


class LikelihoodRatioAttack(Attack):
    """LiRA, online where the references' members are given to `score`, offline otherwise."""

    name = "LiRA"
    worlds = "IN and OUT: this record, fresh models with and without it, normal laws"
    references_needed = 2

    def __init__(self, signal: Signal = LOGIT, *, shared_deviation: bool | None = None) -> None:
        super().__init__(signal)
        self.shared_deviation = shared_deviation

    def raw(self, records: Any, inside: Mask | None) -> Floats:
        """The logarithm of the likelihood ratio, or the logarithm of the probability of a lower signal without the record."""
        own, others = self.signal(self.target, records), self._of_references(records)
        outside = np.ones(others.shape, dtype=bool) if inside is None else ~inside
        mean_out, spread_out = self._law(others, outside)
        z_out = (own - mean_out) / spread_out
        if inside is None or not inside.any(axis=0).all():
            return np.asarray(log_ndtr(z_out))
        mean_in, spread_in = self._law(others, inside)
        z_in = (own - mean_in) / spread_in
        return np.asarray(np.log(spread_out / spread_in) + (z_out**2 - z_in**2) / 2)

    def _law(self, values: Floats, counted: Mask) -> tuple[Floats, Floats]:
        """Mean and deviation of each column over the rows that count."""
        number = np.maximum(counted.sum(axis=0), 1)
        mean = np.where(counted, values, 0.0).sum(axis=0) / number
        squares = (np.where(counted, values - mean, 0.0) ** 2).sum(axis=0)
        shared = self.shared_deviation if self.shared_deviation is not None else bool(number.min() < FEW)
        if shared:
            freedom = max(1, int((number - 1).sum()))
            return mean, np.full(mean.shape, max(FLOOR, float(np.sqrt(squares.sum() / freedom))))
        return mean, np.maximum(FLOOR, np.sqrt(squares / np.maximum(number - 1, 1)))
