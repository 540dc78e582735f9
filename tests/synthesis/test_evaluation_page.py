"""The page and the files of an evaluation: stamped, self-contained, and safe to open whatever the labels are."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tacit.errors import ParameterError
from tacit.noise import test_mode as seeded
from tacit.synthesis import CategoryColumn, evaluate, synthesize
from tacit.synthesis.evaluate import STAMP, Evaluation
from tacit.synthesis.evaluation_page import embedded

ROWS = {"sex": ["f", "m"] * 60, "<b>$x$</b>": ["a", "b", "b"] * 40, "rich": ["no", "yes", "yes", "no"] * 30}


@pytest.fixture(scope="module")
def found() -> Evaluation:
    declared = [CategoryColumn(name, tuple(sorted(set(values)))) for name, values in ROWS.items()]
    with seeded(1):
        return evaluate(ROWS, synthesize(ROWS, declared, mu=5), target="rich", by=["sex"])


def test_the_page_is_stamped_escaped_and_whole(found: Evaluation) -> None:
    page = found.to_html()
    assert page.count(STAMP) >= 3  # the title, the top and the bottom
    assert "<b>$x$</b>" not in page and "&lt;b&gt;$x$&lt;/b&gt;" in page
    assert not re.search(r"(src|href)=\"(?!data:)", page)
    for part in ("Models for rich", "Where the error comes in", "By subgroup", "The worst marginals"):
        assert part in page
    assert page.count("<img") == len(found.figures())


def test_every_picture_is_stamped(found: Evaluation) -> None:
    for figure in found.figures().values():
        assert STAMP in [text.get_text() for text in figure.texts]
        assert embedded(figure).startswith("data:image/png")


def test_files_are_written_by_their_endings(found: Evaluation, tmp_path: Path) -> None:
    found.report(tmp_path / "evaluation.html")
    found.report(str(tmp_path / "evaluation.json"))
    assert STAMP in (tmp_path / "evaluation.html").read_text(encoding="utf-8")
    written = json.loads((tmp_path / "evaluation.json").read_text(encoding="utf-8"))
    assert written["stamp"] == STAMP and written["total_variation"]["2"]["mean"] == pytest.approx(found.distance(2))
    with pytest.raises(ParameterError):
        found.report(tmp_path / "evaluation.txt")
