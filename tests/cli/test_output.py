"""What is printed is rounded to the safe side, and the plain words are true."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import Gaussian, NonPrivate, account
from tacit.accounting.bound import Bound, Estimate
from tacit.cli.output import console, figure, percent, plain_words, print_figure, print_json, rounded_down


@given(st.floats(1e-300, 1e300), st.integers(2, 12))
def test_lower_ends_are_rounded_down(value: float, digits: int) -> None:
    printed = float(rounded_down(value, digits))
    assert value * (1 - 10.0 ** (1 - digits)) * (1 - 1e-15) <= printed <= value


@pytest.mark.parametrize(("value", "text"), [(0.0, "0 %"), (0.5, "50 %"), (0.12345, "12.4 %"), (1e-7, "1e-5 %"), (2.0, "100 %")])
def test_percent(value: float, text: str) -> None:
    assert percent(value) == text


def test_plain_words() -> None:
    assert plain_words(account(NonPrivate())) == ["An attacker can be certain who is in the data: this is no protection at all."]
    attack, posterior, advantage = plain_words(account(Gaussian(1)))
    assert "9.24 %" in attack  # Phi(Phi^-1(0.01) + 1) = 0.09236
    assert "69.2 %" in posterior and "38.3 points" in advantage


def test_known_guarantees_bound_the_attack() -> None:
    """A guarantee somebody already has is used where it is better than the search."""
    assert "2 %" in plain_words(account(Gaussian(1)), [(0.0, 0.01)])[0]


def test_json_has_no_infinities(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"upper": math.inf, "rows": [(-math.inf, 1.5)], "text": "é"})
    assert json.loads(capsys.readouterr().out) == {"upper": "inf", "rows": [["-inf", 1.5]], "text": "é"}


def test_estimates_have_no_ends(capsys: pytest.CaptureFixture[str]) -> None:
    assert figure(Estimate(1.5, "central limit")) == {"lower": None, "upper": None, "estimate": 1.5, "method": "central limit"}
    print_figure(console(), "epsilon = {}", Estimate(1.5, "central limit"))
    print_figure(console(), "epsilon = {}", Bound(1.0, 1.23456789, "[bold]theorem[/bold] :smile:"))
    text = capsys.readouterr().out
    assert "epsilon = about 1.5" in text and "no guarantee" in text
    assert "epsilon = 1.234568" in text and "[bold]theorem[/bold] :smile:" in text, "text is printed as it is"
