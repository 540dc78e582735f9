"""Curves, areas and intervals held against counting, and the figures of a claim against the accountant's."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from tacit.accounting import ParameterError
from tacit.audit.claim import Claim
from tacit.audit.experiment import generator
from tacit.audit.models.roc import evidence_of, roc, roc_figure, summary

SCORED = st.lists(st.tuples(st.sampled_from([-1.0, 0.0, 0.5, 2.0, math.inf, -math.inf]), st.booleans()), min_size=2, max_size=20)


@given(SCORED)
@settings(max_examples=60)
def test_area_is_the_share_of_ordered_pairs(pairs: list[tuple[float, bool]]) -> None:
    scores, bits = [s for s, _ in pairs], [b for _, b in pairs]
    if all(bits) or not any(bits):
        with pytest.raises(ParameterError):
            roc(scores, bits)
        return
    inside, outside = ([s for s, b in pairs if b is which] for which in (True, False))
    counted = np.mean([(a > b) + 0.5 * (a == b) for a, b in itertools.product(inside, outside)])
    curve = roc(scores, bits)
    assert curve.auc == pytest.approx(counted, abs=1e-12)
    assert roc([-s for s in scores], bits).auc == pytest.approx(1 - counted, abs=1e-12)
    best = max(np.mean([s >= c for s in inside]) - np.mean([s >= c for s in outside]) for c in scores)
    assert curve.advantage == pytest.approx(max(0.0, float(best)), abs=1e-12)


def test_a_score_that_is_no_number_speaks_against_membership() -> None:
    assert roc([math.nan, 1.0], [False, True]).auc == 1.0
    assert roc([math.nan, 1.0], [True, False]).auc == 0.0


def test_intervals_of_the_rate_at_few_false_alarms_cover_the_truth() -> None:
    """Gaussian scores: the true rates at the threshold used are known. Both intervals together miss in at most five percent of runs."""
    draw, missed, mutant = generator(3), 0, 0
    bits = np.arange(600) < 300
    for _ in range(400):
        at = roc(bits + draw.normal(size=600), bits).tpr_at(0.05)
        true_fpr, true_tpr = float(ndtr(-at.threshold)), float(ndtr(1 - at.threshold))
        missed += not (at.fpr_interval[0] <= true_fpr <= at.fpr_interval[1] and at.tpr_interval[0] <= true_tpr <= at.tpr_interval[1])
        mutant += not 0.05 * 0.9 <= true_fpr <= 0.05 * 1.1  # who takes the wanted rate for the true one
    assert missed <= 20 + 3 * 4.4
    assert mutant > 100


def test_the_band_holds_everywhere_at_once() -> None:
    draw, missed = generator(4), 0
    bits = np.arange(400) < 200
    for _ in range(200):
        curve = roc(bits + draw.normal(size=400), bits)
        wide_out, wide_in = curve.band(0.95)
        off_out = np.max(np.abs(curve.fpr - ndtr(-curve.thresholds))) - wide_out
        off_in = np.max(np.abs(curve.tpr - ndtr(1 - curve.thresholds))) - wide_in
        # At a jump the empirical rate is off by one record more than just beside it.
        missed += max(off_out, off_in) > 1 / 200
    assert missed <= 10 + 3 * 3.1
    assert curve.band_point(confidence=0.95).epsilon() < 4


def test_evidence_is_valid_and_a_point_estimate_is_not() -> None:
    """Laplace scores with epsilon 1: the bound is above the truth in at most five percent, the best empirical ratio nearly always."""
    draw, above, mutant = generator(5), 0, 0
    bits = np.arange(800) < 400
    for i in range(120):
        scores = bits + draw.laplace(size=800)
        above += evidence_of(scores, bits, attack="a", game="g", seed=i).lower > 1
        curve = roc(scores, bits)
        seen = (curve.fpr > 0) & (curve.tpr > 0)
        mutant += float(np.max(np.log(curve.tpr[seen] / curve.fpr[seen]))) > 1
    assert above <= 6 + 3 * 2.4
    assert mutant > 60


def test_few_trials_claim_nothing() -> None:
    assert evidence_of([1.0, 0.0], [True, False], attack="a", game="g").lower == 0


def test_infinite_scores_are_evidence_too() -> None:
    bits = np.arange(400) % 2 == 0
    assert evidence_of(np.where(bits, math.inf, -math.inf), bits, attack="a", game="g", seed=1).lower > 3


def test_the_picture_shows_the_claim_above_the_curve() -> None:
    bits = np.arange(400) < 200
    figure = roc_figure({"score": roc(bits + generator(6).normal(size=400), bits)}, Claim.of(mu=1))
    axis = figure.axes[0]
    assert axis.get_xscale() == axis.get_yscale() == "log"
    assert {line.get_label() for line in axis.lines} >= {"score", "most that mu 1 permits", "guessing"}


def test_of_many_attacks_one_has_a_band_and_all_have_a_name() -> None:
    bits, draw = np.arange(400) < 200, generator(7)
    curves = {f"attack {k}": roc(k * bits + draw.normal(size=400), bits) for k in range(5)}
    axis = roc_figure(curves, Claim.of(epsilon=1)).axes[0]
    assert len(axis.collections) == 1, "seven bands over one another cannot be read"
    widths = {str(line.get_label()): line.get_linewidth() for line in axis.lines}
    assert max(curves, key=lambda name: widths[name]) == "attack 4" and sum(widths[name] == widths["attack 4"] for name in curves) == 1
    said = [text.get_text() for text in axis.texts]
    named = [text for text in said if text in curves]
    assert sorted(named) == sorted(curves)
    assert named == sorted(curves, key=lambda name: (curves[name].tpr_at(0.01).tpr, curves[name].auc), reverse=True)
    colours = {text.get_text(): text.get_color() for text in axis.texts if text.get_text() in curves}
    assert colours == {str(line.get_label()): line.get_color() for line in axis.lines if line.get_label() in curves}
    chosen = roc_figure(curves, selected="attack 1").axes[0]
    assert {line.get_label(): line.get_linewidth() for line in chosen.lines}["attack 1"] == widths["attack 4"]
    with pytest.raises(ParameterError, match="selected"):
        roc_figure(curves, selected="attack 9")


def test_summary_is_plain() -> None:
    found = summary(roc([2.0, 1.0, 3.0, 0.0], [True, False, True, False]))
    assert found["auc"] == 1.0 and found["tpr_at_fpr"][0]["tpr"] == 1.0
