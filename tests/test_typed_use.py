"""The public types as users meet them: `tests/typed_use.py` passes mypy and pyright in their strict modes, and mistakes in it are found."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
USE = Path(__file__).with_name("typed_use.py")
#: Mistakes that a newcomer makes, each in one line: the right text and the wrong one.
MISTAKES = (
    ('epsilon=0.1,\n    )', 'epsilom=0.1,\n    )'),
    ('name="visits", ledger=file', "ledger=file"),
    ("left: dict[str, Fraction]", "left: dict[str, int]"),
    ("mechanisms.laplace(scale=2)", "mechanisms.laplace(sensitivity=2)"),
)  # fmt: skip


@pytest.mark.slow
def test_users_code_passes_mypy_and_mistakes_do_not(tmp_path: Path) -> None:
    text = USE.read_text(encoding="utf-8")
    files = [tmp_path / "right.py", *(tmp_path / f"wrong{i}.py" for i in range(len(MISTAKES)))]
    files[0].write_text(text, encoding="utf-8")
    for file, (right, wrong) in zip(files[1:], MISTAKES, strict=True):
        assert right in text
        file.write_text(text.replace(right, wrong), encoding="utf-8")
    silent = ("--no-error-summary", "--ignore-missing-imports", "--follow-imports=silent")
    command = [sys.executable, "-m", "mypy", "--strict", *silent, *map(str, files)]
    environment = {**os.environ, "MYPYPATH": str(ROOT / "src"), "PYTHONPATH": str(ROOT / "src")}
    found = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=tmp_path, env=environment).stdout
    assert "right.py" not in found, found
    for file in files[1:]:
        assert file.name in found, file.name


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pyright") is None, reason="pyright is not installed: pip install basedpyright, which brings its own node")
def test_users_code_passes_pyright(tmp_path: Path) -> None:
    (tmp_path / "right.py").write_text(USE.read_text(encoding="utf-8"), encoding="utf-8")
    settings = {"include": ["right.py"], "extraPaths": [str(ROOT / "src")], "typeCheckingMode": "strict", "reportMissingTypeStubs": False}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = ["pyright", "--pythonpath", sys.executable, "-p", str(tmp_path / "pyrightconfig.json")]
    found = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert found.returncode == 0, found.stdout
