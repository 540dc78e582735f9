"""docs/failures.md stays true: all known failures are there, every test it names exists, and what concerns the core has a test."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "failures.md"
HEADER = ["number", "failure", "caught by", "rest belongs to"]
# Failures of noise, sensitivity, composition and the ledger: the trusted core must catch them itself.
CORE = frozenset({*range(1, 11), *range(12, 18), *range(23, 31), *range(32, 38), 39})
# Parts of Tacit, as the design calls them, that a failure may be left to.
PARTS = frozenset({"tables", "workloads", "synthesis", "learning", "deep", "federated", "local", "audit", "release", "server"})


@dataclass(frozen=True)
class Failure:
    """One line of the index."""

    number: int
    what: str
    tests: tuple[str, ...]
    rest: str


def failures_in(text: str) -> list[Failure]:
    """The rows of the table under HEADER."""
    found: list[Failure] = []
    inside = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if cells == HEADER:
            inside = True
        elif not cells:
            inside = False
        elif inside and not set("".join(cells)) <= {"-", " "}:
            assert len(cells) == len(HEADER), f"{len(cells)} cells where there should be {len(HEADER)}: {line[:40]}"
            found.append(Failure(int(cells[0]), cells[1], tuple(re.findall(r"`([^`]+)`", cells[2])), cells[3]))
    return found


@cache
def names_in(path: Path) -> frozenset[str]:
    """The tests of a file."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return frozenset(node.name for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))


def exists(reference: str) -> bool:
    """Whether a reference leads to a test: a file, or a function in one."""
    path, _, name = reference.partition("::")
    if not path.startswith("tests/") or not (ROOT / path).is_file():
        return False
    return name in names_in(ROOT / path) if name else bool(names_in(ROOT / path))


def problems(failure: Failure) -> list[str]:
    """What is wrong with a line of the index."""
    found = [f"{reference} is no test" for reference in failure.tests if not exists(reference)]
    parts = {part.strip() for clause in re.split(r";", failure.rest) for part in clause.partition(":")[0].split(",")} - {""}
    found += [f"{part} is no part of Tacit" for part in parts - PARTS]
    if not failure.what:
        found.append("say what goes wrong")
    if failure.number in CORE and not failure.tests:
        found.append("the core must have a test for this")
    if not failure.tests and not parts:
        found.append("name a test, or the part it belongs to")
    return found


INDEX = failures_in(PAGE.read_text(encoding="utf-8"))


def test_every_known_failure_is_listed_once_and_in_order() -> None:
    assert [failure.number for failure in INDEX] == list(range(1, 80))


@pytest.mark.parametrize("failure", INDEX, ids=lambda failure: f"{failure.number}")
def test_failure(failure: Failure) -> None:
    assert problems(failure) == []


def test_every_attack_on_a_core_failure_is_listed() -> None:
    """The files written for this index are used by it to the last test: none is left that nobody would look for."""
    named = {reference for failure in INDEX for reference in failure.tests}
    for name in ("test_sensitivity", "test_composition", "test_ledger"):
        path = f"tests/attacks/{name}.py"
        assert {f"{path}::{test}" for test in names_in(ROOT / path)} <= named


def test_broken_lines_are_caught() -> None:
    good = INDEX[0]
    assert problems(good) == []
    broken = [
        Failure(1, "what", ("tests/attacks/test_index.py::test_that_never_was",), ""),
        Failure(1, "what", ("tests/attacks/no_such_file.py",), ""),
        Failure(1, "what", ("docs/failures.md",), ""),
        Failure(1, "what", (), "deep"),
        Failure(11, "what", (), ""),
        Failure(11, "what", (), "cellar"),
        Failure(11, "", (), "deep"),
    ]
    assert all(len(problems(line)) == 1 for line in broken)
    with pytest.raises(AssertionError, match="3 cells"):
        failures_in("| number | failure | caught by | rest belongs to |\n| 1 | a | b |\n")
