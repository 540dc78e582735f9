"""The published page of a synthesizer: released figures, its price, nothing that can run, and test mode said."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from tacit.errors import ParameterError
from tacit.noise import test_mode as seeded
from tacit.synthesis import CategoryColumn, NumberColumn, synthesize

ROWS = {"sex": ["f", "m"] * 60, "<i>$x": [1.0, 2.0, 3.0] * 40}
DECLARED = [CategoryColumn("sex", ("f", "m")), NumberColumn.between("<i>$x", 0, 4, 4)]


def test_the_page_tells_the_price_and_what_was_measured(tmp_path: Path) -> None:
    with seeded(1):
        made = synthesize(ROWS, DECLARED, mu=2)
    made.report(tmp_path / "synthetic.html")
    page = (tmp_path / "synthetic.html").read_text(encoding="utf-8")
    assert html.escape(repr(made.event_)) in page and "NOT PRIVATE" in page
    assert "<i>$x" not in page and "&lt;i&gt;$x" in page
    assert not re.search(r"(src|href)=\"(?!data:)", page) and "<script" not in page
    assert page.count("<tr><td>") == len(made.measured_) + len(DECLARED)
    assert all(f"{one.sigma:.4g}" in page for one in made.measured_)
    with pytest.raises(ParameterError):
        made.report(tmp_path / "synthetic.pdf")


def test_a_real_run_is_not_marked(tmp_path: Path) -> None:
    synthesize(ROWS, DECLARED, mu=2, method="independent").report(str(tmp_path / "page.html"))
    assert "NOT PRIVATE" not in (tmp_path / "page.html").read_text(encoding="utf-8")
