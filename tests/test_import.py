"""`import tacit` is light: it pulls in nothing heavy, and its accountant needs neither plotting nor statistics packages to load."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PRICE = "from tacit.accounting import Gaussian, account\naccount(Gaussian(2)).epsilon(1e-6)"
ANSWER = """
import pathlib, tempfile
from tacit.ledger import Budget, Ledger
from tacit.tables import Session, Unit
from tacit.tables.source import Source
rows = pathlib.Path(tempfile.mkdtemp()) / "visits.csv"
rows.write_text("id,region,age\\n1,N,30\\n2,S,40\\n")
source = Source.of(str(rows), name="visits", types={"id": "BIGINT", "age": "DOUBLE"}).engine
book = Ledger.open(f"sqlite:///{pathlib.Path(tempfile.mkdtemp()) / 'tacit.db'}")
session = Session(source, unit=Unit("id", max_rows=2), budget=Budget(epsilon=1, delta="1e-6"), name="visits", ledger=book)
answer = session.sql("SELECT region, COUNT(*) AS n, AVG(age) AS m FROM visits GROUP BY region",
                     bounds={"age": (0, 100)}, keys={"region": ["N", "S"]}, epsilon=0.5)
repr(answer)
"""
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


@pytest.mark.parametrize("module", [*HEAVY, "typer", "rich", "sqlalchemy", "tacit.ledger"])
def test_one_price_needs_no_scipy_and_no_book(module: str) -> None:
    """A Gaussian is priced by closed forms."""
    assert module not in loaded_by(PRICE) and "scipy" not in loaded_by(PRICE)


#: Engines of the accountant, and what they load: a question is priced by the closed form of one step.
ENGINES = [
    f"tacit.accounting.{name}"
    for name in (
        *("engines.contour", "engines.rare", "engines.spectrum", "pairs.sampled", "plots", "strategies"),
        *("theorems.conversions", "theorems.dpsgd", "theorems.renyi", "theorems.selection"),
    )
]
#: What a question about a table can do without. Asking one loads the engine and the book, and nothing else that is slow to load.
UNASKED = ("scipy", "matplotlib", "torch", "sklearn", "pandas", "polars", "pyspark", "psycopg", "pydantic", "jinja2", "typer", "rich")
#: Of all mechanisms a question needs the noise of its sums, and cells where bounds are to be found.
OTHERS = tuple(
    f"tacit.mechanisms.{path.stem}"
    for path in sorted((ROOT / "src" / "tacit" / "mechanisms").glob("*.py"))
    if path.stem not in ("__init__", "noisy_sums", "doubling_cells")
)


@pytest.mark.parametrize("module", [*ENGINES, "numpy.ma"])
@pytest.mark.parametrize("statement", ["import tacit.accounting", "import tacit.tables", ANSWER], ids=["accountant", "tables", "answer"])
def test_a_plan_of_plain_noise_loads_no_engine_for_compositions(statement: str, module: str) -> None:
    assert module not in loaded_by(statement)


def test_the_engines_are_looked_for_by_their_names() -> None:
    for name in ENGINES:
        assert find_spec(name), name


def test_a_composition_loads_them_where_it_needs_them() -> None:
    composed = "from tacit.accounting import *\naccount(Repeated(Laplace(2), 30)).epsilon(1e-6)\naccount(ZCDP(1)).epsilon(1e-6)"
    needed = ("engines.contour", "theorems.conversions", "theorems.renyi")
    assert {f"tacit.accounting.{name}" for name in needed} <= loaded_by(composed)


@pytest.mark.parametrize("module", [*UNASKED, *OTHERS, "tacit.release", "tacit.calculus.rows", "numpy.testing", "unittest"])
def test_importing_tables_loads_nothing_that_a_question_does_without(module: str) -> None:
    loaded = loaded_by("import tacit.tables")
    assert {"tacit.tables.session", "duckdb"} <= loaded
    assert module not in loaded


@pytest.mark.parametrize("module", [*UNASKED, *OTHERS, "tacit.release"])
def test_a_question_with_its_answer_loads_nothing_more(module: str) -> None:
    loaded = loaded_by(ANSWER)
    assert "tacit.tables.figures" in loaded
    assert module not in loaded


@pytest.mark.parametrize("module", HEAVY)
def test_the_command_starts_without_heavy_packages(module: str) -> None:
    assert module not in loaded_by("import tacit.cli")


def test_the_package_runs_as_the_command() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    run = subprocess.run([sys.executable, "-m", "tacit", "--version"], capture_output=True, text=True, env=environment)
    assert run.returncode == 0 and "tacit" in run.stdout.lower(), run.stderr
