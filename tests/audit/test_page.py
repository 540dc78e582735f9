"""The page says what was found and never that something is safe; what it is given is text, not markup."""

from __future__ import annotations

import re

import pytest

from tacit.audit import page_of
from tacit.audit.claim import Claim, Evidence, judge, surely
from tacit.audit.mechanisms.report import audit_mechanism
from tacit.audit.page import Page, embedded, number, tradeoff_figure
from tacit.audit.rates import OperatingPoint
from tacit.noise import discrete_laplace


def page(lower: float, title: str = "a count") -> Page:
    claim = Claim.of(epsilon=1)
    verdict = judge(claim, Evidence("threshold", "worst case", lower, 0, 0.95, 1000, assumptions=("independent runs",)))
    return Page(title, claim, (verdict,), ("a difference",), ("a warning",), ("two inputs",), verdict.broken)


@pytest.mark.parametrize("lower", [0.5, 2.0])
def test_it_states_attack_game_and_numbers_and_never_that_something_is_safe(lower: float) -> None:
    shown = page(lower).to_html()
    stated = ("threshold", "worst case", "assumes independent runs.", f"{lower:g}", "epsilon 1 (add-remove)", "a difference", "a warning")
    for words in stated:
        assert words in shown
    assert ("BROKEN" in shown) is (lower > 1)
    assert not re.search(r"\bsafe\b", shown.replace("'unsafe-inline'", ""), re.IGNORECASE)
    assert "What this cannot tell" in shown


def test_titles_are_text() -> None:
    shown = page(0.5, "<script>alert(1)</script>").to_html()
    assert "<script>" not in shown and "&lt;script&gt;" in shown


def test_it_needs_nothing_from_outside() -> None:
    shown = page(0.5).to_html()
    assert "default-src 'none'" in shown
    assert not re.findall(r'(?:src|href)="(?!data:)', shown)


def test_a_point_above_the_line_is_drawn_as_such() -> None:
    claim = Claim.of(epsilon=1)
    points = (OperatingPoint(0.01, 0.02, 0.95), OperatingPoint(0.01, 0.5, 0.95))
    verdicts = [judge(claim, Evidence.of_point(p, attack="a", game="b", delta=0, trials=10)) for p in points]
    assert [verdict.broken for verdict in verdicts] == [False, True]
    labels = [text.get_text() for text in tradeoff_figure(claim, verdicts).axes[0].get_legend().get_texts()]
    assert "found, within the claim" in labels and "found, above the claim" in labels
    assert embedded(tradeoff_figure(claim, verdicts)).startswith("data:image/svg+xml;base64,")


def test_the_page_of_a_real_audit() -> None:
    report = audit_mechanism(lambda rows: len(rows) + discrete_laplace(1), "eps=0.3", data=[1, 2, 3], trials=2000, seed=1)
    shown = page_of(report, "counts.py:release").to_html()
    assert report.broken and "BROKEN" in shown and "counts.py:release" in shown and "data:image/svg" in shown


@pytest.mark.parametrize("error", [0.05, 1e-4, 1e-5, 1e-8])
def test_no_confidence_is_rounded_to_certainty(error: float) -> None:
    assert "100" not in surely(1 - error)


def test_numbers() -> None:
    assert number(float("inf")) == "anything" and number(0.12345678) == "0.1235"
