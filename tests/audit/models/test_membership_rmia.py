from __future__ import annotations

import numpy as np
import pytest

from tacit.accounting import ParameterError
from tacit.audit.experiment import generator
from tacit.audit.models.membership import RobustAttack
from tacit.audit.models.roc import roc
from tacit.audit.models.signals import Signal

TABLE = Signal("table", lambda model, records: model[records], 1.0)


def test_the_ratio_by_hand() -> None:
    references = [np.array([0.2, 0.5]), np.array([0.4, 0.9])]
    attack = RobustAttack(TABLE, offline=0.3).fit(np.array([0.9, 0.6]), references, np.array([0, 1]))
    corrected = [(1.3 * mean + 0.7) / 2 for mean in (0.3, 0.7)]
    assert attack.ratio(np.array([0, 1]), None).tolist() == pytest.approx([0.9 / corrected[0], 0.6 / corrected[1]])
    online = attack.ratio(np.array([0, 1]), np.array([[True, False], [False, True]]))
    assert online.tolist() == pytest.approx([0.9 / 0.3, 0.6 / 0.7])


def test_the_score_is_a_share_of_the_population() -> None:
    population = np.arange(1, 11)
    target = np.concatenate([[0.5], np.linspace(0.1, 1.0, 10)])
    attack = RobustAttack(TABLE, offline=1.0).fit(target, [np.ones(11)], population)
    assert attack.score(np.array([0]))[0] == pytest.approx(0.5, abs=1e-6)
    doubled = RobustAttack(TABLE, gamma=2.0, offline=1.0).fit(target, [np.ones(11)], population)
    assert doubled.score(np.array([0]))[0] == pytest.approx(0.2, abs=1e-6)


def test_members_have_a_high_ratio_and_the_printed_direction_is_worse_than_guessing() -> None:
    draw, n = generator(3), 2000
    bits = np.arange(n) < n // 2
    difficulty = draw.normal(size=n)
    expit = lambda v: 1 / (1 + np.exp(-v))  # noqa: E731
    target = expit(difficulty + 0.8 * bits + 0.5 * draw.normal(size=n))
    references = [expit(difficulty + 0.5 * draw.normal(size=n)) for _ in range(8)]
    scores = RobustAttack(TABLE).fit(target, references, np.arange(n // 2, n)).score(np.arange(n))
    area = roc(scores, bits).auc
    assert area > 0.7 and area > roc(target, bits).auc
    assert roc(-scores, bits).auc < 0.3


def test_refusals() -> None:
    with pytest.raises(ParameterError, match="population"):
        RobustAttack(TABLE).fit(np.ones(1), [np.ones(1)])
    with pytest.raises(ParameterError, match="gamma"):
        RobustAttack(TABLE, gamma=0)
