"""The sheet for experts: half real, in no order, unmarked; its key in another file."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from tacit.errors import ParameterError
from tacit.synthesis import blinded, judged, write_blinded
from tacit.synthesis.evaluate import STAMP

REAL = {"x": [float(value) for value in range(100)], "y": ["r"] * 100}
MADE = {"x": [value + 0.5 for value in range(100)], "y": ["s"] * 100}


def test_half_are_real_and_the_key_is_right() -> None:
    sheet, key = blinded(REAL, MADE, rows=20, seed=4)
    assert sheet.num_rows == 20 and key.count("real") == 10
    truth = ["real" if value == "r" else "synthetic" for value in sheet["y"].to_pylist()]
    assert truth == key
    assert "real" not in sheet.column_names and set(sheet["real or synthetic?"].to_pylist()) == {""}


def test_the_order_says_nothing() -> None:
    first = [blinded(REAL, MADE, rows=10, seed=seed)[1][0] for seed in range(400)]
    # 400 fair coins deviate by .025, and 4 of that is one in 16,000
    assert np.mean([one == "real" for one in first]) == pytest.approx(0.5, abs=0.1)


def test_both_files_are_stamped_and_apart(tmp_path: Path) -> None:
    write_blinded(REAL, MADE, tmp_path / "sheet.csv", tmp_path / "key.csv", rows=8, seed=1)
    sheet, key = ((tmp_path / name).read_text(encoding="utf-8").splitlines() for name in ("sheet.csv", "key.csv"))
    assert STAMP in sheet[0] and STAMP in key[0]
    assert len(sheet) == len(key) == 2 + 8
    assert not {"real", "synthetic"} & {cell for line in csv.reader(sheet[2:]) for cell in line}
    with pytest.raises(ParameterError, match="of its own"):
        write_blinded(REAL, MADE, tmp_path / "one.csv", tmp_path / "one.csv")


def test_answers_are_scored_against_guessing() -> None:
    key = ["real", "synthetic"] * 10
    found = judged(["real"] * 20, key)
    assert (found.right, found.asked) == (10, 20)
    assert judged(key, key).chance == pytest.approx(binom.sf(19, 20, 0.5))
    assert judged([" Real ", *key[1:]], key).right == 20 and judged([""] * 20, key).right == 0
    with pytest.raises(ParameterError):
        judged(["real"], key)
    with pytest.raises(ParameterError):
        blinded(REAL, {"x": [1.0]}, rows=20)
