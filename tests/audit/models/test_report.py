"""Reports on trainings: alarms where a claim is broken, never a word too much, and nothing without its game."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.audit.toy_models import NoisySum, constant, ridge, toy

from tacit.accounting import GDP, ZCDP, Adjacency, Laplace, ParameterError
from tacit.audit.claim import Claim
from tacit.audit.experiment import generator
from tacit.audit.models.games import Game
from tacit.audit.models.membership import LossAttack
from tacit.audit.models.report import ModelReport, audit_model, replaced, usual_attacks
from tacit.audit.models.signals import SQUARED_ERROR

DATA = toy(400, columns=60, coins=3)


@pytest.fixture(scope="module")
def leaking() -> ModelReport:
    groups = ["even" if i % 2 == 0 else "odd" for i in range(400)]
    return audit_model(ridge, DATA, "eps=0.2", seed=1, references=8, groups=groups, title="ridge")


def test_a_model_that_memorises_breaks_its_claim(leaking: ModelReport) -> None:
    assert leaking.broken and leaking.worst.evidence.lower > 0.2
    assert str(leaking).startswith("epsilon 0.2 (add-remove): BROKEN")
    assert {result.attack.partition(" on ")[0] for result in leaking.results} == {
        "loss threshold", "gap", "population", "difficulty calibrated", "reference", "LiRA", "RMIA"
    }  # fmt: skip
    assert set(leaking.groups) == {"even", "odd"} and len(leaking.exposed) == 10 and leaking.trainings == 9


def test_a_model_that_ignores_its_data_does_not_and_is_not_called_safe() -> None:
    report = audit_model(constant, DATA, "eps=0.2", seed=2, references=4)
    assert not report.broken
    page, text = report.to_html(), str(report)
    assert "no proof" in page and "no proof" in text
    assert " safe" not in (page + text).lower() and "secure" not in (page + text).lower()


def test_a_page_names_attack_and_game_and_shows_curves(leaking: ModelReport) -> None:
    page = leaking.to_html()
    for needed in ("RMIA", "fixed model", "data:image/svg+xml;base64,", "TPR at FPR 0.001", "most exposed", "BROKEN"):
        assert needed in page
    assert "http://" not in page.replace("http://www.w3.org", "") and "<script" not in page


def test_json_is_plain_and_complete(leaking: ModelReport) -> None:
    record = json.loads(json.dumps(leaking.to_json()))
    assert record["broken"] is True and "coins" in record["game"]
    assert all({"attack", "lower", "permitted", "auc", "tpr_at_fpr", "confidence"} <= set(one) for one in record["attacks"])
    assert Claim.from_json(record["claim"]) == leaking.claim


def test_nothing_is_reported_without_attack_and_game(leaking: ModelReport) -> None:
    nameless = replace(leaking.results[0], attack=" ")
    gameless = replace(leaking.results[0], game="a game")  # type: ignore[arg-type]
    for broken in (nameless, gameless):
        with pytest.raises(ParameterError, match="attack and the game"):
            replace(leaking, results=(broken, *leaking.results[1:]))
    with pytest.raises(ParameterError, match="at least one attack"):
        replace(leaking, results=(), verdicts=())


def told(model: float, record: Any) -> float:
    return model


@pytest.mark.parametrize(("scale", "broken"), [(1.0, False), (0.25, True)], ids=["as claimed", "a quarter of the noise"])
def test_a_mechanism_in_the_worst_case(scale: float, broken: bool) -> None:
    report = audit_model(NoisySum(scale), np.ones(12), "eps=1", attacks=[told], game="worst case", runs=1500, seed=4)
    assert report.broken is broken
    assert report.trainings == 1500


def test_replacing_a_record_is_held_against_twice_the_claim() -> None:
    """Sums of -1 and 1 with Laplace noise 1: epsilon 1 under add-remove, 2 when one is replaced; the average game replaces."""
    population = np.where(np.arange(40) % 2 == 0, 1.0, -1.0)

    def guess(model: float, record: Any) -> float:
        return model * float(record[0])

    report = audit_model(NoisySum(1.0), population, "eps=1", attacks=[guess], game="average", size=1, runs=2000, seed=5)
    assert not report.broken and report.worst.permitted == 2
    assert report.worst.evidence.lower > 0.3
    assert "when one record is replaced, from epsilon 1" in report.to_html()


def test_a_claim_under_replacement_is_played_with_replacement() -> None:
    claim = Claim.of(epsilon=1, adjacency=Adjacency.REPLACE_ONE)
    report = audit_model(NoisySum(1.0), np.ones(12), claim, attacks=[told], game="worst case", runs=300, seed=6)
    assert report.results[0].replace and not report.broken  # the other record is the same: nothing can be seen
    with pytest.raises(ParameterError, match="add-remove"):
        audit_model(constant, DATA, claim, game=Game.FIXED_MODEL)


def test_what_a_claim_says_about_a_replaced_record() -> None:
    assert replaced(Claim.of(epsilon=0.7)).epsilon(0) == pytest.approx(1.4)
    assert replaced(Claim.of(mu=1)).event == GDP(2.0) and replaced(Claim.of(rho=0.1)).event == ZCDP(0.4)
    wide = replaced(Claim.of(epsilon=1, delta=1e-6))
    assert wide.epsilon((1 + np.e) * 1e-6 * (1 + 1e-9)) == pytest.approx(2, rel=1e-6)
    assert wide.epsilon((1 + np.e) * 1e-6 * (1 - 1e-9)) == np.inf
    already = replaced(Claim.of(epsilon=1, adjacency=Adjacency.REPLACE_ONE))
    assert already.epsilon(0) == 1 and already.tpr(0.01) == pytest.approx(0.01 * np.e, rel=1e-5)
    with pytest.raises(ParameterError, match="replaced record"):
        replaced(Claim(Laplace(1)))


def test_claims_of_mu_are_judged_by_mu() -> None:
    report = audit_model(NoisySum(0.3, "normal"), np.ones(12), "mu=1", attacks=[told], game="worst case", runs=600, seed=7)
    assert report.broken and report.worst.evidence.measure == "mu"


def test_regressors_are_attacked_by_their_error() -> None:
    names = [attack.name for attack in usual_attacks(4, population=True, signal=SQUARED_ERROR)]
    assert "gap" not in names and "RMIA" not in names and "reference" in names

    def fit(data: Any) -> Any:
        weights = np.linalg.lstsq(data[0], data[1], rcond=None)[0]
        return lambda x: x @ weights

    x = generator(8).normal(size=(120, 30))
    report = audit_model(fit, (x, generator(9).normal(size=120)), "eps=1", signal=SQUARED_ERROR, references=4, seed=10)
    assert max(result.roc.auc for result in report.results) > 0.7


def test_the_same_seed_gives_the_same_report() -> None:
    how: dict[str, Any] = {"attacks": [LossAttack()], "seed": 11}
    assert audit_model(ridge, DATA, "eps=1", **how).to_json() == audit_model(ridge, DATA, "eps=1", **how).to_json()


def test_refusals() -> None:
    with pytest.raises(ParameterError, match="at least one attack"):
        audit_model(constant, DATA, "eps=1", attacks=[])
    with pytest.raises(ParameterError, match="add-remove or replace-one"):
        audit_model(constant, DATA, Claim.of(epsilon=1, adjacency=Adjacency.ZERO_OUT))
