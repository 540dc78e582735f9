"""LiRA on signals whose laws are known: its score is the likelihood ratio, online, and the tail, offline."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import norm

from tacit.accounting import ParameterError
from tacit.audit.experiment import generator
from tacit.audit.models.membership import LikelihoodRatioAttack
from tacit.audit.models.roc import roc
from tacit.audit.models.signals import Signal

TABLE = Signal("table", lambda model, records: model[records], 1.0)


def test_online_score_is_the_log_ratio_of_the_fitted_densities() -> None:
    draw = generator(1)
    references = [draw.normal(size=4) for _ in range(40)]
    inside = draw.random((40, 4)) < 0.5
    target = np.array([0.3, -1.0, 2.0, 0.0])
    scores = LikelihoodRatioAttack(TABLE, shared_deviation=False).fit(target, references).score(np.arange(4), inside)
    seen = np.array(references)
    for j in range(4):
        ins, outs = seen[inside[:, j], j], seen[~inside[:, j], j]
        expected = norm.logpdf(target[j], ins.mean(), ins.std(ddof=1)) - norm.logpdf(target[j], outs.mean(), outs.std(ddof=1))
        assert scores[j] == pytest.approx(expected, rel=1e-9)


def test_offline_score_is_the_tail() -> None:
    references = [np.array([float(v)]) for v in (-1, 0, 1)]
    score = LikelihoodRatioAttack(TABLE).fit(np.array([2.0]), references).score(np.array([0]))
    assert score[0] == pytest.approx(np.log(ndtr(2.0)))


def test_it_reaches_the_best_area_where_its_laws_are_true() -> None:
    """Signals of mean 0 without and 1 with the record, deviation 1: the best area is Phi(1 / sqrt 2) = 0.760."""
    draw, n = generator(2), 3000
    inside = draw.random((64, n)) < 0.5
    references = list(inside + draw.normal(size=(64, n)) + 0.0)
    bits = draw.random(n) < 0.5
    target = bits + draw.normal(size=n)
    offsets = 3 * draw.normal(size=n)  # some records are easy and some hard: only a score of each record's own sees through
    attack = LikelihoodRatioAttack(TABLE).fit(target + offsets, [row + offsets for row in references])
    online, offline = (roc(attack.score(np.arange(n), mask), bits).auc for mask in (inside, None))
    plain = roc(target + offsets, bits).auc
    assert online == pytest.approx(ndtr(1 / np.sqrt(2)), abs=0.03)
    assert online >= offline - 0.01 > plain + 0.05


def test_references_that_agree_make_no_infinite_score() -> None:
    same = [np.zeros(1)] * 3
    assert np.isfinite(LikelihoodRatioAttack(TABLE).fit(np.ones(1), same).score(np.array([0]))).all()


def test_one_reference_is_too_few() -> None:
    with pytest.raises(ParameterError, match="at least 2"):
        LikelihoodRatioAttack(TABLE).fit(np.ones(1), [np.ones(1)])
