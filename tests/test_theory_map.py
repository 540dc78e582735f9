"""docs/theory.md stays true: every section of the sources is there, every name in it imports, every test it cites exists."""

from __future__ import annotations

import ast
import importlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "theory.md"
HEADER = ["source section", "what", "code", "test"]

# The numbered items of each part of the accounting sources and their errata; those of the textbook (B) and of papers (P).
SECTIONS = [
    *(f"{part}.{item}" for part, last in enumerate([10, 8, 2, 3, 12, 5, 8, 8], 1) for item in range(1, last + 1)),
    *(f"S{scenario}" for scenario in range(1, 4)),
    *(f"E{erratum}" for erratum in range(1, 22)),
    *(f"B1.{item}" for item in range(4, 15)),
    *(f"B1.E{erratum}" for erratum in (1, 2, 4, 5, 6, 7, 8, 12, 14, 15)),
    *("B4.5.1", "B4.5.2", "B4.6", "B4.4.1", "B4.7", "B4.7.0", "B4.7.1", "B4.7.2", "B4.7.3"),
    *("B4.3", "B4.4.3g", "B4.4.3t", "B4.4.4m", "B4.8.3v"),
    "B9.4.2",
    *("B4.8.1", "B4.8.2", "B4.E13", "B4.E14", "B4.E18"),
    *(f"B6.{item}" for item in ("1", "2.1", "2.2", "3.1", "3.2", "4", "5", "E1", "E2", "E3", "E8", "E9", "E11")),
    *("B1.2", "B1.3", "B4.2", "B4.2.1", "B4.4.2", "B4.4.3", "B4.4.4", "B4.4.5", "B5.2", "B5.3.1", "B5.3.2", "B5.3.3", "B5.4.1", "B5.4.2"),
    *("B5.6", "B5.E16", "B7.2", "B7.4", "B7.5", "B7.6", "B7.7", "B8.3", "B1.E11"),
    *(f"B12.A4.{item}" for item in range(2, 10)),
    *(f"B12.A5.{item}" for item in range(1, 8)),
    *("B12.A6.4", "B12.A7.1", "B12.A7.2", "B12.E1", "B14.C4.1"),
    *(f"B2.{item}" for item in ("1", "2", "3.1", "3.2", "3.3", "3.4", "3.5", "6.1", "E3", "E4", "E9")),
    *(f"B15.{item}" for item in ("3.1", "3.3", "4.1", "4.2", "4.3", "5", "6", "7", "8", "E4", "E5", "E6", "E9", "E10")),
    *(f"P{paper}" for paper in range(1, 38)),
]
# Sections that have no code yet, each on purpose: the row says where they will live. The list may only shrink.
PLANNED: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Row:
    """One line of a table of the map."""

    section: str
    what: str
    code: str
    test: str
    line: int

    @property
    def names(self) -> list[str]:
        return re.findall(r"`([^`]+)`", self.code)

    @property
    def tests(self) -> list[str]:
        return re.findall(r"`([^`]+)`", self.test)


def rows_of(text: str) -> list[Row]:
    """The rows of every table whose header is HEADER; a row with another number of cells is an error."""
    rows: list[Row] = []
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]] if line.startswith("|") else []
        if cells == HEADER:
            inside = True
        elif not cells:
            inside = False
        elif inside and not set("".join(cells)) <= {"-", ":", " "}:
            assert len(cells) == len(HEADER), f"line {number}: {len(cells)} cells where there should be {len(HEADER)}"
            rows.append(Row(cells[0].split()[0], *cells[1:], line=number))
    return rows


def resolve(name: str) -> object:
    """What a dotted name stands for, below `tacit`: the longest prefix that is a module, then attributes."""
    parts = ["tacit", *name.removeprefix("tacit.").split(".")]
    for length in range(len(parts), 0, -1):
        module = ".".join(parts[:length])
        try:
            found: object = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if not f"{module}.".startswith(f"{error.name}."):  # the module exists, and one of its own imports is missing
                raise
            continue
        for attribute in parts[length:]:
            found = getattr(found, attribute)
        return found
    raise AssertionError(f"no module for {name}")


@cache
def names_in(path: Path) -> frozenset[str]:
    """The names that can follow `::` in a reference to a test file: functions, classes, and methods of classes."""
    names = set[str]()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}::{child.name}" for child in node.body if isinstance(child, ast.FunctionDef)}
    return frozenset(name for name in names if name.startswith(("test_", "Test")))


def check_test(reference: str) -> None:
    """A reference is a test file, or a test in one: `tests/accounting/test_x.py::test_y`."""
    path, _, name = reference.partition("::")
    assert path.startswith("tests/") and path.endswith(".py"), f"{reference} is not a reference to a test"
    assert (ROOT / path).is_file(), f"{path} does not exist"
    assert not name or name in names_in(ROOT / path), f"{path} has no test {name}"


ROWS = rows_of(PAGE.read_text(encoding="utf-8"))


def test_every_section_is_mapped() -> None:
    assert [section for section in SECTIONS if section not in {row.section for row in ROWS}] == []


def test_no_section_is_invented() -> None:
    assert [row.section for row in ROWS if row.section not in SECTIONS] == []


def test_every_label_stands_for_one_section() -> None:
    assert len(set(SECTIONS)) == len(SECTIONS)
    assert sorted(row.section for row in ROWS) == sorted(SECTIONS)


def test_every_mechanism_is_on_the_map() -> None:
    """A file of mechanisms that no row names would be a mechanism without a theorem."""
    named = {name for row in ROWS for name in row.names if name.startswith("mechanisms.")}
    files = {path.stem for path in (ROOT / "src" / "tacit" / "mechanisms").glob("*.py")} - {"__init__"}
    modules = {getattr(resolve(name), "__module__", "").removeprefix("tacit.mechanisms.") for name in named}
    assert files - modules == set()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.section}-line-{row.line}")
def test_row(row: Row) -> None:
    assert row.what, "say what the section states"
    if row.code.startswith("planned:"):
        assert row.section in PLANNED, "only the listed sections may be without code"
        return
    assert row.names, "name the code in backquotes, or say 'planned: where'"
    for name in row.names:
        resolve(name)
    assert row.tests, "name the test in backquotes"
    for reference in row.tests:
        check_test(reference)


def test_planned_sections_are_still_planned() -> None:
    assert {row.section for row in ROWS if row.code.startswith("planned:")} == PLANNED


def test_a_dead_name_is_caught() -> None:
    assert resolve("accounting.bound.Bound.width") is not None
    for dead in ("accounting.bound.Bund", "accounting.bound.Bound.breadth", "acounting.bound"):
        with pytest.raises(AttributeError):
            resolve(dead)


def test_a_dead_test_is_caught() -> None:
    check_test("tests/test_theory_map.py")
    check_test("tests/test_theory_map.py::test_a_dead_test_is_caught")
    for dead in ("tests/test_theory_map.py::test_nothing", "tests/test_nothing.py", "tests/test_theory_map.py::resolve", "docs/theory.md"):
        with pytest.raises(AssertionError):
            check_test(dead)


def test_the_tables_are_read() -> None:
    head = "| source section | what | code | test |\n| --- | --- | --- | --- |\n"
    other = "\n| 9 | not | a | row |\n"
    assert rows_of(f"{head}| 1.1 Theorem 2 | sum \\| max | `a.b` | `tests/x.py` |\n{other}") == [
        Row("1.1", "sum \\| max", "`a.b`", "`tests/x.py`", 3)
    ]
    with pytest.raises(AssertionError, match="3 cells"):
        rows_of(f"{head}| 1.1 | what | code |\n")
