"""The example of three scenarios runs from any folder, draws its picture, and tells the story it should."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_logistic_regression_in_three_scenarios(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / "logistic_regression.py"), "1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OPENBLAS_NUM_THREADS": "1"}
    run = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=900)
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "logistic_regression.png").read_bytes().startswith(b"\x89PNG")
    words = [line.split() for line in run.stdout.splitlines()]
    tables = {name: [[float(v) for v in line[1:]] for line in words if line[:1] == [name]] for name in ("pure", "full-batch", "poisson")}
    for name, (accuracy, noise) in tables.items():
        assert accuracy[-1] > 0.84, name
        assert noise == sorted(noise), "more steps, more noise on each"
    # Gaussian noise grows with the root of the steps, Laplace noise with their number
    assert tables["pure"][1][-1] / tables["pure"][1][0] > 2 * tables["full-batch"][1][-1] / tables["full-batch"][1][0]
