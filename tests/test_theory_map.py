"""docs/theory.md stays true: every section of the sources is there, every name in it imports, every test it cites exists."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import json
import re
import sys
import textwrap
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
ABSENT = ["section", "why"]
LIVE = 2  # rows whose code or test has changed that `make test` traces again; `make test-slow` traces all rows
PAGE = ROOT / "docs" / "theory.md"
HEADER = ["source section", "what", "code", "test"]

# The numbered items of each part of the accounting sources and their errata; those of the textbook (B) and of papers (P).
SECTIONS = [
    *(f"{part}.{item}" for part, last in enumerate([10, 8, 2, 3, 12, 5, 8, 8], 1) for item in range(1, last + 1)),
    *(f"S{scenario}" for scenario in range(1, 4)),
    *(f"E{erratum}" for erratum in range(1, 22)),
    *(f"B1.{item}" for item in range(4, 15)),
    *(f"B1.E{erratum}" for erratum in (1, 2, 4, 5, 6, 7, 8, 12, 14, 15)),
    *("B4.5.1", "B4.5.2", "B4.6", "B4.4.1", "B4.7", "B4.7.0", "B4.7.1", "B4.7.2", "B4.7.3", "B4.7.4"),
    *("B4.3", "B4.3r", "B4.4.3g", "B4.4.3t", "B4.4.4m", "B4.8.3e", "B4.8.3t", "B4.8.3v"),
    "B8.2s", "B8.4s", "B8.4w", "B9.4.2", "B9.4.2n",
    *(f"B9.{item}" for item in ("3.1a", "3.1b", "3.1c", "3.2", "3.2t", "3.3a", "3.3b", "6", "E1", "E2", "E3", "E5", "E7", "E26")),
    *("B4.8.1", "B4.8.2", "B4.8.3", "B7.3", "B7.E4", "B7.E6", "B7.E7", "B7.E12", "B4.E13", "B4.E14", "B4.E18"),
    *(f"B11.{item}" for item in ("1", "2.1", "2.2", "2.3", "2.4", "3", "E15", "E16", "E17", "E23", "E24")),
    *(f"B6.{item}" for item in ("1", "2.1", "2.2", "2.3", "3.1", "3.2", "3.3", "4", "4.1", "5", "5.1")),
    *(f"B6.{item}" for item in ("E1", "E2", "E3", "E8", "E9", "E11")),
    *("B1.2", "B1.3", "B4.2", "B4.2.1", "B4.4.2", "B4.4.3", "B4.4.4", "B4.4.5", "B5.2", "B5.3.1", "B5.3.2", "B5.3.3", "B5.4.1", "B5.4.2"),
    *("B5.6", "B5.E16", "B7.2", "B7.4", "B7.5", "B7.6", "B7.7", "B8.3", "B1.E11"),
    *("B7.4t", "B7.4w", "B7.5s", "B7.7f", "B7.7p", "B7.7u"),
    *("B8.2", "B8.2m", "B8.3d", "B8.E5"),
    *("B8.1", "B8.1.3", "B8.3a", "B8.3q", "B8.3f", "B8.4", "B9.5"),
    *(f"B12.A4.{item}" for item in range(2, 10)),
    *(f"B12.A5.{item}" for item in range(1, 8)),
    *("B12.A6.4", "B12.A7.1", "B12.A7.2", "B12.E1", "B14.C3", "B14.C4.1", "B14.C5", "B1.2g"),
    *(f"B2.{item}" for item in ("1", "2", *(f"3.{k}" for k in range(1, 7)), "4.1", "4.2", "4.3", *(f"5.{k}" for k in range(1, 7)))),
    *(f"B2.{item}" for item in ("6.1", "6.2", "6.3", "E3", "E4", "E9", "E10", "E16")),
    *(f"B15.{item}" for item in ("1", "3.1", "3.3", "4.1", "4.2", "4.3", "5", "6", "7", "8", "E4", "E5", "E6", "E9", "E10")),
    *(f"B10.{item}" for item in ("3", "4", "5.2", "5.3", "5.4", "5.5", "E10", "E12", "E13", "E14", "E20", "E21", "E22")),
    *(f"B17.{item}" for item in ("2", "2.4", "3d", "3c", "3g", "4", "4.4", "5.1", "5.2", "5.3", "E1", "E2", "E3", "E4")),
    *("B13.1", "B13.B1", "B16.2", "B16.3", "B16.4", "B16.5.1", "B16.5.2", "B16.5.3"),
    *(f"P{paper}" for paper in range(1, 46)),
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


# --- every section of the sources -------------------------------------------------------------------------------------------------


def absent(text: str) -> dict[str, str]:
    """The sections without code of their own, with the reason."""
    found, inside = dict[str, str](), False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().split("|")[1:-1]] if line.startswith("|") else []
        inside = cells == ABSENT or (inside and len(cells) == 2)
        if inside and cells != ABSENT and not set("".join(cells)) <= {"-", " "}:
            found[cells[0].split()[0]] = cells[1]
    return found


def covered(section: str, labels: set[str]) -> bool:
    """Whether a row stands for the section, for a part of it, or for the section that it is a part of."""
    above = {section.rsplit(".", depth)[0] for depth in range(1, section.count("."))}
    below = {label for label in labels if label.startswith(section) and not label[len(section) : len(section) + 1].isdigit()}
    return bool(below or above & labels)


def missing(sections: list[str], labels: set[str], explained: dict[str, str]) -> list[str]:
    return [section for section in sections if not covered(section, labels) and not explained.get(section)]


def test_every_heading_of_the_sources_has_a_row_or_a_reason() -> None:
    listed = [entry["section"] for entry in json.loads((ROOT / "tests" / "theory_sections.json").read_text(encoding="utf-8"))]
    assert len(listed) > 200 and {entry.split(".")[0] for entry in listed} >= {f"B{chapter}" for chapter in range(1, 18) if chapter != 3}
    labels, explained = {row.section for row in ROWS}, absent(PAGE.read_text(encoding="utf-8"))
    assert missing(listed, labels, explained) == []
    assert [section for section in explained if section not in listed] == [], "a reason for a section that the sources do not have"
    assert [section for section in explained if covered(section, labels)] == [], "a section with a row needs no reason"


def test_a_missing_section_is_caught() -> None:
    assert missing(["B4.8.3", "B7.3", "B16.5"], {"B4.8.3v", "B7.30"}, {"B16.5": "law"}) == ["B7.3"]
    assert missing(["B5.2.3"], {"B5.2"}, {}) == [] and missing(["B16.5"], set(), {"B16.5": ""}) == ["B16.5"]


# --- every test executes what its row names -----------------------------------------------------------------------------------------


def tracing() -> ModuleType:
    """`tools/theory_trace.py` as a module."""
    if "theory_trace" not in sys.modules:
        spec = importlib.util.spec_from_file_location("theory_trace", ROOT / "tools" / "theory_trace.py")
        assert spec is not None and spec.loader is not None
        sys.modules["theory_trace"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["theory_trace"])
    return sys.modules["theory_trace"]


def test_every_row_was_traced_and_its_tests_execute_its_names() -> None:
    """By what was found when the rows were last traced; `python tools/theory_trace.py` renews it."""
    trace = tracing()
    kept, wrong = trace.known(), list[str]()
    waiting = set(json.loads((ROOT / "tests" / "theory_untraced.json").read_text(encoding="utf-8")))
    for row in trace.rows():
        found = kept.get(row["section"], {})
        if row["section"] in waiting:
            continue
        if set(found) != set(row["tests"]):
            wrong.append(f"{row['section']} was not traced with these tests")
            continue
        executed = {name for entry in found.values() for name in entry["executed"]}
        wrong += [f"{row['section']}: {name} is executed by none of its tests" for name in row["names"] if name not in executed]
        wrong += [f"{row['section']}: {test} executes none of its names" for test, entry in found.items() if not entry["executed"]]
    assert wrong == []


def test_rows_that_wait_to_be_traced_exist() -> None:
    """The list of rows that were never traced, or not to the end, may only shrink: `python tools/theory_trace.py` works it off."""
    waiting = json.loads((ROOT / "tests" / "theory_untraced.json").read_text(encoding="utf-8"))
    assert [section for section, why in waiting.items() if section not in SECTIONS or not why] == []


def test_rows_that_changed_are_traced_again() -> None:
    trace = tracing()
    kept = trace.known()
    waiting = set(json.loads((ROOT / "tests" / "theory_untraced.json").read_text(encoding="utf-8")))
    changed = [row for row in trace.rows() if row["section"] not in waiting and trace.stale(row, kept)]
    _, wrong = trace.check(changed[:LIVE], kept)
    assert wrong == {}


@pytest.mark.slow
def test_all_rows_traced() -> None:
    trace = tracing()
    _, wrong = trace.check(trace.rows(), trace.known(), everything=True)
    assert wrong == {}


SOUND = {"section": "E6", "names": ["accounting.theorems.composition.leaky_randomised_response"],
         "tests": ["tests/conformance/test_errata_composition.py::test_e6_randomised_response_has_a_plus"]}


def test_a_test_that_never_calls_the_code_is_caught() -> None:
    """One process for three rows: a true one, one that names a function its test never calls, and one with a stub in its place."""
    trace = tracing()
    test = SOUND["tests"][0]
    never = "accounting.pairs.finite.randomised_response"
    stubbed = ["tests/theory_stub.py::test_with_the_stub_in_place"]
    entries, wrong = trace.check([SOUND, {"section": "lie", "names": [never], "tests": [test]},
                                  {"section": "stub", "names": SOUND["names"], "tests": stubbed}], {})
    assert entries["E6"][test]["executed"] == SOUND["names"] and "E6" not in wrong
    assert f"{never} is executed by none of its tests" in wrong["lie"]
    assert any("is executed by none" in fault or "fails" in fault for fault in wrong["stub"])


def test_a_changed_function_or_test_is_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    from tacit.accounting.theorems import composition

    trace = tracing()
    test = SOUND["tests"][0]
    kept = {"E6": {test: {"executed": SOUND["names"], "fingerprint": trace.fingerprint(SOUND["names"], test)}}}
    assert trace.stale(SOUND, kept) == []

    def leaky_randomised_response(epsilon: float, delta: float) -> None:
        """A stub."""

    monkeypatch.setattr(composition, "leaky_randomised_response", leaky_randomised_response)
    assert trace.stale(SOUND, kept) == [test]


# --- no cited function is a stub ------------------------------------------------------------------------------------------------------


def stub(value: object) -> bool:
    """Whether a function does nothing: beside its docstring only pass, an ellipsis, a constant that it returns, or NotImplementedError."""
    value = inspect.unwrap(value) if callable(value) else value
    if not inspect.isfunction(value):
        return False
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(value)))
    except (OSError, TypeError, SyntaxError):
        return False
    body = tree.body[0].body if isinstance(tree.body[0], ast.FunctionDef) else []
    for statement in body:
        idle = isinstance(statement, ast.Pass) or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        idle |= isinstance(statement, ast.Return) and (statement.value is None or isinstance(statement.value, ast.Constant))
        idle |= isinstance(statement, ast.Raise) and "NotImplementedError" in ast.unparse(statement)
        if not idle:
            return False
    return bool(body)


def stubs(rows: list[Row]) -> list[str]:
    return sorted({name for row in rows for name in row.names if stub(resolve(name))})


def test_no_cited_function_is_a_stub() -> None:
    assert stubs(ROWS) == []


def test_a_stub_in_the_place_of_a_cited_function_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from tacit.accounting.theorems import composition

    def nothing(epsilon: float, delta: float) -> float:
        """Looks like a theorem."""
        return 0.0

    def later(epsilon: float, delta: float) -> float:
        raise NotImplementedError

    for fake in (nothing, later):
        monkeypatch.setattr(composition, "leaky_randomised_response", fake)
        assert stubs(ROWS) == ["accounting.theorems.composition.leaky_randomised_response"]
