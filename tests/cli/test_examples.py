"""Every script in examples/ runs from any folder, and what it prints and draws is right."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Each script, the pictures it writes, and what its output must say.
SCRIPTS: dict[str, tuple[list[str], list[str]]] = {
    "composition_theorems.py": (["composition_theorems.png"], ["100     10   5.75653  5.75611         5.22154        4.77457"]),
    "dp_sgd_budget.py": (["dp_sgd_budget.png"], ["noise multiplier 1.0574", "spends epsilon 1.99999", '"rate": "8/1875"']),
    "survival_curves.py": (["survival_curves.png"], ["Laplace(noise_multiplier=Fraction(1, 1))", "drug: median", "LogRank(statistic="]),
    "read_a_tradeoff_curve.py": (["tradeoff_promise.png", "tradeoff_gaussian.png"], ["multiplier for the same promise: 1.99"]),
}
# Run once, where what they show is checked too.
ELSEWHERE = {
    "attacks_on_releases.py": "audit/demonstrations/test_demonstrations.py", "logistic_regression.py": "learning/test_example.py",
    "energy_figures.py": "applications/energy/test_pictures.py",
    "hidden_pictures.py": "applications/vision/test_example.py",
}  # fmt: skip


def test_every_example_is_listed() -> None:
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == {*SCRIPTS, *ELSEWHERE}
    for script, test in ELSEWHERE.items():
        assert script in (ROOT / "tests" / test).read_text(encoding="utf-8")


@pytest.mark.parametrize("script", SCRIPTS)
def test_example(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [script])
    runpy.run_path(str(ROOT / "examples" / script), run_name="__main__")
    printed = capsys.readouterr().out
    pictures, says = SCRIPTS[script]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(pictures)
    for picture in pictures:
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")
    for text in says:
        assert text in printed
    if script == "read_a_tradeoff_curve.py":
        # the promise alone allows e^2 fpr + 1e-5; Gaussian noise allows less
        row = next(line for line in printed.splitlines() if re.match(r"\s+0\.01 ", line)).split()
        assert float(row[1]) == pytest.approx(0.07390, abs=1e-4) and float(row[2]) == pytest.approx(0.03402, abs=1e-4)
