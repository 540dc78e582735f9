"""The example of three scenarios runs from any folder, draws its picture, and tells the story it should."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_logistic_regression_in_three_scenarios(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["logistic_regression.py", "1"])
    runpy.run_path(str(ROOT / "examples" / "logistic_regression.py"), run_name="__main__")
    assert (tmp_path / "logistic_regression.png").read_bytes().startswith(b"\x89PNG")
    words = [line.split() for line in capsys.readouterr().out.splitlines()]
    tables = {name: [[float(v) for v in line[1:]] for line in words if line[:1] == [name]] for name in ("pure", "full-batch", "poisson")}
    for name, (accuracy, noise) in tables.items():
        assert accuracy[-1] > 0.84, name
        assert noise == sorted(noise), "more steps, more noise on each"
    # Gaussian noise grows with the root of the steps, Laplace noise with their number
    assert tables["pure"][1][-1] / tables["pure"][1][0] > 2 * tables["full-batch"][1][-1] / tables["full-batch"][1][0]
