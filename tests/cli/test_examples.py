"""Every script in examples/ runs from any folder, and what it prints and draws is right."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Each script, the pictures it writes, and what its output must say.
SCRIPTS: dict[str, tuple[list[str], list[str]]] = {
    "attacks_on_releases.py": (
        [
            "averaging.png",
            "database_reconstruction.png",
            "differencing.png",
            "intersection.png",
            "linkage.png",
            "re_identification.png",
            "reconstruction.png",
            "synthetic_data.png",
            "tracing.png",
        ],
        ["wrote differencing.png"],
    ),
    "composition_theorems.py": (["composition_theorems.png"], ["100     10   5.75653  5.75611         5.22154        4.77457"]),
    "dp_sgd_budget.py": (["dp_sgd_budget.png"], ["noise multiplier 1.0574", "spends epsilon 1.99999", '"rate": "8/1875"']),
    "logistic_regression.py": (["logistic_regression.png"], ["wrote logistic_regression.png"]),
    "read_a_tradeoff_curve.py": (["tradeoff_promise.png", "tradeoff_gaussian.png"], ["multiplier for the same promise: 1.99"]),
}
# What makes the long ones short.
ARGUMENTS = {"attacks_on_releases.py": [".", "--quick"], "logistic_regression.py": ["1"]}


def test_every_example_is_listed() -> None:
    assert {path.name for path in (ROOT / "examples").glob("*.py")} == set(SCRIPTS)


@pytest.mark.parametrize("script", SCRIPTS)
def test_example(script: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, str(ROOT / "examples" / script), *ARGUMENTS.get(script, [])]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=900)
    assert run.returncode == 0, run.stderr
    pictures, says = SCRIPTS[script]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(pictures)
    for picture in pictures:
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")
    for text in says:
        assert text in run.stdout
    if script == "read_a_tradeoff_curve.py":
        # the promise alone allows e^2 fpr + 1e-5; Gaussian noise allows less
        row = next(line for line in run.stdout.splitlines() if re.match(r"\s+0\.01 ", line)).split()
        assert float(row[1]) == pytest.approx(0.07390, abs=1e-4) and float(row[2]) == pytest.approx(0.03402, abs=1e-4)
