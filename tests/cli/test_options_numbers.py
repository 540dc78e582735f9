"""Numbers are read exactly, or refused with the option's name."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.cli import options as numbers
from tacit.cli.options import OptionError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("1", 1), ("0.1", Fraction(1, 10)), (".5", Fraction(1, 2)), ("5.", 5), ("+2", 2), ("-2.50", Fraction(-5, 2))),
        *(("1e-5", Fraction(1, 10**5)), (" 1/3 ", Fraction(1, 3)), ("256/60000", Fraction(8, 1875)), ("1e-3/2", Fraction(1, 2000))),
        *(("0.5/0.25", 2), ("0", 0), ("1E3", 1000)),
    ],
)
def test_exact(text: str, value: Fraction) -> None:
    assert numbers.exact("--x", text) == value


@given(st.fractions(Fraction(-(10**20)), Fraction(10**20), max_denominator=10**15))
def test_fractions_are_read_exactly(value: Fraction) -> None:
    assert numbers.exact("--x", str(value)) == value


@given(st.floats(1e-290, 1e290))
def test_floats_are_read_to_the_last_bit(value: float) -> None:
    assert numbers.number("--x", repr(value)) == value


@given(st.text())
def test_text_is_a_number_or_an_error_that_names_the_option(text: str) -> None:
    for read in (numbers.exact, numbers.number, numbers.positive, numbers.share, numbers.probability, numbers.whole):
        try:
            read("--x", text)
        except OptionError as error:
            assert str(error).startswith("--x ") and "\n" not in str(error) and len(str(error)) < 200


LARGE = ["1e1000", "1e-999", "9" * 81, "1e99999999999"]
ODD = ["٣", "1_000", "0x10", "1//2", "/2", "1/", "1e", "e5", "1 2", "½", "²"]


@pytest.mark.parametrize("text", [*LARGE, *ODD])
def test_refused(text: str) -> None:
    with pytest.raises(OptionError, match=r"^--x must"):
        numbers.exact("--x", text)


def test_ranges() -> None:
    assert numbers.share("--x", "1") == 1 and numbers.whole("--x", "1e6") == 10**6 and numbers.probability("--x", "0") == 0
    for read, texts in (
        (numbers.positive, ("0", "-1")),
        (numbers.share, ("0", "1.01")),
        (numbers.probability, ("-0.1", "1.1")),
        (numbers.whole, ("0", "1.5", "-1", "1e16")),
    ):
        for text in texts:
            with pytest.raises(OptionError, match=r"^--x must be"):
                read("--x", text)


def test_lists() -> None:
    assert numbers.several("--x", ["1,2", "3"], numbers.whole, "1") == [1, 2, 3]
    for texts in ([], None):
        with pytest.raises(OptionError, match="--x is missing; give for example --x 5"):
            numbers.several("--x", texts, numbers.whole, "5")
    with pytest.raises(OptionError):
        numbers.several("--x", ["1,"], numbers.whole, "1")
