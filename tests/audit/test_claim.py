"""Claims in every currency, evidence that must say what it is, and verdicts against the whole curve."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from tacit.accounting import Adjacency, Gaussian, Guarantee, ParameterError, PureDP
from tacit.audit.claim import Claim, Evidence, judge
from tacit.audit.rates import OperatingPoint


def evidence(lower: float, delta: float = 0.0, **more: object) -> Evidence:
    return Evidence("threshold", "worst case", lower, delta, 0.99, 1000, **more)  # type: ignore[arg-type]


def test_a_gaussian_claim_permits_the_gaussian_curve() -> None:
    claim = Claim.of(mu=1)
    for fpr in (0.001, 0.01, 0.5):
        assert claim.tpr(fpr) == pytest.approx(ndtr(ndtri(fpr) + 1), rel=1e-6)


def test_a_claim_may_be_any_event() -> None:
    claim = Claim(Gaussian(1), text="one Gaussian step")
    assert claim.epsilon(1e-5) == pytest.approx(4.377, abs=1e-3)
    assert claim.epsilon(0) == math.inf
    assert Claim.from_json(claim.to_json()) == claim


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("eps=1", "epsilon 1 (add-remove)"),
        ("EPS=0.5, delta=1e-6", "epsilon 0.5 at delta 1e-06 (add-remove)"),
        ("mu=2", "mu 2 (add-remove)"),
        ("rho=0.25", "rho 0.25 (add-remove)"),
    ],
)
def test_what_is_typed_is_what_is_claimed(text: str, words: str) -> None:
    assert Claim.of(text).describe() == words


UNREADABLE = ["", "eps", "eps=", "eps=nan", "eps=inf", "delta=1e-6", "eps=1,eps=2", "eps=1,mu=1", "sigma=1", "ε=1", "eps=1,,"]


@pytest.mark.parametrize("text", UNREADABLE)
def test_what_cannot_be_understood_names_the_form(text: str) -> None:
    with pytest.raises(ParameterError, match="eps=1"):
        Claim.of(text)


@given(st.text(max_size=30))
def test_any_text_is_a_claim_or_an_error_of_ours(text: str) -> None:
    with contextlib.suppress(ParameterError):
        assert Claim.of(text).describe()


def test_the_relation_is_carried() -> None:
    assert Claim.of("eps=1", adjacency="replace-one").adjacency is Adjacency.REPLACE_ONE
    with pytest.raises(ValueError, match="neighbour"):
        Claim.of("eps=1", adjacency="neighbour")


@pytest.mark.parametrize("relation", list(Adjacency))
@pytest.mark.parametrize("words", ["eps=1", "eps=1,delta=1e-6", "mu=1", "rho=0.5"])
def test_a_claim_is_stated_for_its_own_relation(words: str, relation: Adjacency) -> None:
    """What eps=1 permits does not depend on whom it protects; read for another relation it would permit twice as much."""
    stated, usual = Claim.of(words, adjacency=relation), Claim.of(words)
    assert stated.epsilon(1e-6) == pytest.approx(usual.epsilon(1e-6))
    assert stated.tpr(0.01) == pytest.approx(usual.tpr(0.01))


@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 0.0), (1, 0.0), (4, 0.0), (0.5, 0.05), (2, 1e-6)])
@pytest.mark.parametrize("fpr", [1e-4, 0.02, 0.5, 0.97])
def test_the_closed_form_of_epsilon_and_delta_is_what_the_accountant_finds(epsilon: float, delta: float, fpr: float) -> None:
    claim = Claim.of(epsilon=epsilon, delta=delta)
    found = claim.account.tpr(fpr)
    # 1e-9: what the accountant's search leaves between its two ends.
    assert found.lower * (1 - 1e-9) <= claim.tpr(fpr) <= found.upper * (1 + 1e-9)


def test_a_claim_that_is_read_under_another_relation_takes_the_long_way() -> None:
    """An exchange is a removal and an addition: twice the epsilon, which the closed form of the event does not know."""
    claim = Claim(PureDP(1), Adjacency.REPLACE_ONE)
    assert claim.tpr(0.01) == pytest.approx(0.01 * math.exp(2), rel=1e-6)


def test_a_bound_above_the_claim_breaks_it_and_one_below_does_not() -> None:
    claim = Claim.of(epsilon=1, delta=1e-6)
    assert judge(claim, evidence(1.01, 1e-6)).broken
    below = judge(claim, evidence(0.99, 1e-6))
    assert not below.broken and below.share == pytest.approx(0.99)
    assert "safe" not in str(below).lower()


def test_a_smaller_delta_than_claimed_refutes_nothing() -> None:
    assert not judge(Claim.of(epsilon=1, delta=1e-6), evidence(50, 1e-9)).broken


def test_a_point_is_held_against_the_whole_curve() -> None:
    """At delta 0 a Gaussian claim permits any epsilon; the test found still beats its curve."""
    point = OperatingPoint(0.01, 0.2, 0.99)
    verdict = judge(Claim.of(mu=1), Evidence.of_point(point, attack="loss", game="fixed model", delta=0, trials=10))
    assert verdict.broken
    weaker = OperatingPoint(0.01, 0.09, 0.99)
    assert not judge(Claim.of(mu=1), Evidence.of_point(weaker, attack="loss", game="fixed model", delta=0, trials=10)).broken


def test_mu_is_held_against_mu_only() -> None:
    assert judge(Claim.of(mu=1), evidence(1.2, measure="mu")).broken
    with pytest.raises(ParameterError, match="mu"):
        judge(Claim.of(epsilon=1), evidence(1.2, measure="mu"))


@pytest.mark.parametrize("confidence", [0.0, 1.0, math.nan])
def test_no_sample_is_certain(confidence: float) -> None:
    with pytest.raises(ParameterError, match="confidence"):
        Evidence("a", "b", 1, 0, confidence, 10)


def test_evidence_names_its_attack_and_game() -> None:
    with pytest.raises(ParameterError, match="attack and its game"):
        Evidence("", "worst case", 1, 0, 0.9, 10)


def test_a_guarantee_is_a_claim() -> None:
    whole = Guarantee(epsilon=1, delta=1e-6)
    assert Claim.of(whole) == Claim.of("eps=1, delta=1e-6") == Claim.of(epsilon=1, delta=1e-6)
    assert Claim.of(Guarantee(mu=0.5), adjacency="replace_one").describe() == "mu 0.5 (replace-one)"
    with pytest.raises(ParameterError, match="Rényi"):
        Claim.of(Guarantee(renyi={2: 1}))


def test_stored_claims_hold_the_numbers_as_they_were_typed() -> None:
    stored = [Claim.of(epsilon=1), Claim.of("eps=1"), Claim.of(epsilon=0.1, delta=1e-6), Claim.of(mu=2)]
    assert [claim.to_json()["event"] for claim in stored] == [
        '{"type": "PureDP", "adjacency": "add-remove", "epsilon": 1}',
        '{"type": "PureDP", "adjacency": "add-remove", "epsilon": 1.0}',
        '{"type": "ApproxDP", "adjacency": "add-remove", "epsilon": 0.1, "delta": 1e-06}',
        '{"type": "GDP", "adjacency": "add-remove", "mu": 2}',
    ]
