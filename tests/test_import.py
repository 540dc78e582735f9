"""`import tacit` is light: it pulls in nothing heavy, and its accountant needs neither plotting nor statistics packages to load."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
HEAVY = ("scipy.stats", "matplotlib", "duckdb", "torch", "sklearn", "pandas", "flint", "mpmath", "dp_accounting")


@cache
def loaded_by(statement: str) -> frozenset[str]:
    """The modules a fresh interpreter holds after `statement`."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    return frozenset(json.loads(run.stdout.splitlines()[-1]))


def test_the_probe_sees_what_an_import_loads() -> None:
    """Without this, a broken probe would make every test below pass."""
    assert {"fractions", "json"} <= loaded_by("import fractions")
    assert "fractions" not in loaded_by("pass")


@pytest.mark.parametrize("module", [*HEAVY, "numpy", "scipy", "typer", "rich", "tacit.accounting", "tacit.cli"])
def test_import_tacit_loads_nothing_heavy(module: str) -> None:
    loaded = loaded_by("import tacit")
    assert "tacit" in loaded
    assert module not in loaded


@pytest.mark.parametrize("module", [*HEAVY, "typer", "rich"])
def test_import_accounting_loads_nothing_heavy(module: str) -> None:
    assert module not in loaded_by("import tacit.accounting")


@pytest.mark.parametrize("module", HEAVY)
def test_the_command_starts_without_heavy_packages(module: str) -> None:
    assert module not in loaded_by("import tacit.cli")
