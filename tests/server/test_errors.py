"""Problem documents: every code that is raised has a status, a constant title and a fix whose facts are given."""

from __future__ import annotations

import ast
from pathlib import Path
from string import Formatter

from tacit.ledger import BudgetExceeded, LedgerBusy, LedgerError, LedgerUnwritable
from tacit.server.errors import PROBLEMS, ServiceError, of_refusal, problem
from tacit.tables import EngineError, TableError

ROOT = Path(__file__).resolve().parents[2] / "src" / "tacit" / "server"


def raised() -> dict[str, list[set[str]]]:
    """The codes in the source with the facts that they are raised with."""
    found: dict[str, list[set[str]]] = {}
    for source in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "ServiceError":
                given = {word.arg: word.value for word in node.keywords if word.arg}
                code = given.pop("code")
                for one in ast.walk(code):
                    if isinstance(one, ast.Constant) and isinstance(one.value, str) and one.value in PROBLEMS:
                        found.setdefault(one.value, []).append(set(given))
                if isinstance(code, ast.Constant):
                    assert code.value in PROBLEMS, (source, code.value)
    return found


def test_every_code_has_a_problem_and_its_facts() -> None:
    for code, places in raised().items():
        needed = {name for _, name, spec, _ in Formatter().parse(PROBLEMS[code].fix) if name}
        for given in places:
            assert needed <= given, (code, needed - given)


def test_every_problem_has_a_title_and_a_fix() -> None:
    for code, kind in PROBLEMS.items():
        assert 400 <= kind.status < 600 and kind.title and kind.fix, code
        assert kind.status != 500 or code == "set-up"


def test_refusals_below_are_told_and_failures_are_not() -> None:
    assert problem(of_refusal(TableError("age has no bounds")))["detail"] == "age has no bounds"
    lost = problem(of_refusal(EngineError("row of Ada")))
    assert "Ada" not in str(lost) and lost["status"] == 409
    assert of_refusal(LedgerBusy("x")).status == of_refusal(LedgerUnwritable("x")).status == 503
    assert of_refusal(LedgerError(code="key-other-body")).code == "key-other-body"
    left = of_refusal(BudgetExceeded("no", left={"epsilon": 1 / 2}, asked={}, fits="half"))  # type: ignore[dict-item]
    assert problem(left)["fits"] == "half"
    same = ServiceError(code="not-found")
    assert of_refusal(same) is same
