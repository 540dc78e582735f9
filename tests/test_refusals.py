"""Every code that is raised has words at every front door that can meet it, and its facts fill them in."""

from __future__ import annotations

import ast
import copy
import pickle
import re
from fractions import Fraction
from functools import cache
from pathlib import Path
from string import Formatter

import pytest
from tests.release.jobs import changed

from tacit import errors as of_accounting
from tacit.accounting import AccountingError, Adjacency, AdjacencyError, Note, PackageMissing, ParameterError, Refusal
from tacit.applications.energy import errors as of_energy
from tacit.calculus import CalculusError
from tacit.calculus import errors as of_calculus
from tacit.cli import options as of_commands
from tacit.fairness import errors as of_fairness
from tacit.federated import errors as of_federated
from tacit.ledger import BudgetExceeded, LedgerError
from tacit.ledger import errors as of_ledger
from tacit.release import JobError, OutputLost, plan
from tacit.release import errors as of_release
from tacit.release import faults as of_jobs
from tacit.release.errors import OutputFailed
from tacit.tables import EngineError, Refused, TableError, Unit
from tacit.tables import errors as of_tables

ROOT = Path(__file__).resolve().parent.parent
PYTHON = {
    "accounting": of_accounting.WORDS, "calculus": of_calculus.WORDS, "tables": of_tables.WORDS, "ledger": of_ledger.WORDS,
    "release": of_release.WORDS, "fairness": of_fairness.WORDS, "energy": of_energy.WORDS,
    "federated": of_federated.WORDS,
}  # fmt: skip
CODES = {code: words for table in PYTHON.values() for code, words in table.items()}
#: The facts that stand in the way of a parameter of the errors' own constructors.
RESERVED = {"message", "code", "place", "file", "words", "otherwise", "wording"}
#: What no job file can meet: the book is opened by the command, and the words name no Python; or the command words it.
NOT_IN_JOBS = {"ledger-format", "ledger-missing", "ledger-replaced", "statement-failed"}
NOT_IN_JOBS |= {"key-known", "key-other-body"}  # of `key=`, which sessions and the service send
NOT_IN_JOBS |= {"analyst-needed", "officer-unknown", "second-signature"}  # of sessions, and of decisions, which no job makes
NOT_IN_JOBS |= {"other-process"}  # of a state that was copied into another process, which a job never does
NOT_IN_JOBS |= {"made-up-after-book", "made-up-book", "made-up-inside"}  # of `made_up`, which has no book, and so no job


@cache
def raised() -> dict[str, list[tuple[str, set[str]]]]:
    """For each code in the source: the files that raise it, with the names of the facts."""
    found: dict[str, list[tuple[str, set[str]]]] = {}
    for source in sorted((ROOT / "src" / "tacit").rglob("*.py")):
        text = source.read_text(encoding="utf-8")
        if "code=" not in text and "Note.of" not in text:
            continue  # neither way of naming a code is a word of the text
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.Call) or (isinstance(node.func, ast.Name) and node.func.id == "ServiceError"):
                continue  # the service's problems have a table and a test of their own
            given = {word.arg: word.value for word in node.keywords if word.arg}
            code = given.pop("code", None)
            if isinstance(node.func, ast.Attribute) and node.func.attr == "of" and ast.unparse(node.func) == "Note.of":
                code = node.args[1]
            if isinstance(code, ast.Constant) and isinstance(code.value, str):
                place = source.relative_to(ROOT / "src" / "tacit").as_posix()
                found.setdefault(code.value, []).append((place, set(given) - {"place", "file"}))
    return found



def fields(words: str) -> set[str]:
    """The facts that a wording is filled in with."""
    return {re.split(r"[.\[]", name)[0] for _, name, _, _ in Formatter().parse(words) if name}


def test_every_code_is_worded_once_and_raised() -> None:
    assert sum(len(table) for table in PYTHON.values()) == len(CODES), "a code has one meaning"
    assert set(raised()) == set(CODES)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)+", code) for code in CODES)


@pytest.mark.parametrize("code", sorted(CODES))
def test_the_facts_fill_in_the_words_of_every_front_door(code: str) -> None:
    for place, facts in raised()[code]:
        assert not facts & RESERVED, place
        assert fields(CODES[code]) == facts, f"{place}: a fact without a word, or a word without a fact"
        for table in (of_jobs.WORDS, of_commands.WORDS):
            assert fields(table.get(code, "")) <= facts, place


def test_jobs_and_commands_word_what_they_can_meet() -> None:
    assert set(of_jobs.WORDS) <= set(CODES) and set(of_commands.WORDS) <= set(CODES)
    met = set(PYTHON["tables"]) | set(PYTHON["ledger"]) | {"price-not-gaussian"}  # the accountant's, which the ledger passes on
    assert met == set(of_jobs.WORDS) | NOT_IN_JOBS
    # what names a keyword, a class or a function of Python is worded for the command, by its own table or by that of jobs
    python = re.compile(r"\w=[\[({'A-Z]|=True|=False|\w\(\.\.\.\)|Unit\(|Unit\.|Adjacency\.|Budget\(")
    assert {code for code, words in CODES.items() if python.search(words)} <= set(of_jobs.WORDS) | set(of_commands.WORDS)
    assert not [code for code, words in {**of_jobs.WORDS, **of_commands.WORDS}.items() if python.search(words)]


def test_the_page_lists_the_codes() -> None:
    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([a-z-]+)` \| [^|]+ \| [^|]+ \|$", text, flags=re.MULTILINE)
    assert listed == sorted({*CODES, "budget-exceeded"})


EXCEEDED = BudgetExceeded("no", account="a", left={"rho": Fraction(1)}, asked={"rho": Fraction(2)}, fits="half")


@pytest.mark.parametrize(
    ("error", "kinds"),
    [
        (ParameterError(code="parameter-range", parameter="delta", range="positive", given=-1), (AccountingError, ValueError)),
        (AdjacencyError(code="relation-not-covered", stated=Adjacency.REPLACE_ONE, asked=Adjacency.ADD_REMOVE), (AccountingError,)),
        (Refused(code="bounds-missing", column="it's"), (TableError, ValueError)),
        (TableError(code="table-unknown", table="x", tables=("a", "b")), (ValueError,)),
        (EngineError(code="statement-failed", engine="DuckDB"), (RuntimeError,)),
        (EXCEEDED, (LedgerError, ValueError)),
        (CalculusError("a plain message"), (ValueError,)),
        (PackageMissing(code="package-missing", package="torch", install="'tacit[torch]'"), (ImportError,)),
        (JobError("must be 1", place="version", file="job.yaml"), (ValueError,)),
        (JobError(code="correction-refused", names=("a", "b"), place="outputs"), (ValueError,)),
        (OutputLost(("a", "b")), (JobError,)),
        (OutputFailed(code="output-failed"), (EngineError, RuntimeError)),
    ],
)
def test_a_refusal_is_what_it_was_and_crosses_processes(error: Refusal, kinds: tuple[type[Exception], ...]) -> None:
    assert all(isinstance(error, kind) for kind in kinds)
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert (str(again), again.code, again.facts, again.message) == (str(error), error.code, error.facts, error.message)


def test_a_note_is_text_and_keeps_its_code() -> None:
    note = Note.of(of_tables.WORDS, "loss-unknown", noise=12.0, share=0.05)
    again = pickle.loads(pickle.dumps(note))
    assert isinstance(note, str) and note.endswith("loss=False saves it") and again == note
    assert note.said(of_jobs.WORDS) == again.said(of_jobs.WORDS) == note.replace("loss=False", "loss: false in the output")
    assert Note("plain").said(of_jobs.WORDS) == "plain"


def test_an_error_passed_on_keeps_its_code() -> None:
    given = TableError(code="table-unknown", table="x", tables=("a",))
    passed = of_jobs.in_job(given, "outputs[0].sql").within("job.yaml")
    assert (passed.code, passed.facts) == (given.code, given.facts)
    assert str(passed) == "job.yaml: outputs[0].sql: there is no table x; the job has a"


UNIT = "{person: patient_id, max_rows: 3,"
COUNT = "SELECT COUNT(*) AS n FROM visits,"


@pytest.mark.parametrize(
    ("code", "pairs", "said"),
    [
        ("bounds-missing", [(", bounds: [0, 110]", "")], "columns.age.bounds: [0, 100]"),
        ("table-unknown", [(COUNT, "SELECT COUNT(*) AS n FROM visit,")], "there is no table visit; the job has visits"),
        ("join-needs-person", [(UNIT, "{row: true,"), (COUNT, '"SELECT COUNT(*) AS n FROM visits AS a JOIN visits AS b USING (ward)",')],
         "unit: {person: patient_id, max_rows: 12}"),
        ("cap-missing", [(UNIT, "{person: patient_id,")], "max_rows: 12, or max_groups: 4 with rows_per_group: 3"),
        ("cap-not-enforceable", [(UNIT, "{node: [ward, region],")], "unit: {node: [src, dst], max_rows: 50, capped: true}"),
        ("window-incomplete", [(UNIT, f"{UNIT} window: month,")], "window: month, when: visit_date"),
        ("keys-need-delta", [("region: {type: text, categories: [north, south]}", "region: {type: text}"),
                             ("GROUP BY region\",", "GROUP BY region\", keys: private,")], "list them under categories or keys"),
        ("foreign-key-missing", [(UNIT, "{node: people.id, max_rows: 3,"),
                                 ("{path: visits.parquet}}", "{path: visits.parquet}, people: {path: p.parquet}}"),
                                 ("  ward: {type: text}", "  ward: {type: text}\n  people.id: {type: text}"),
                                 *((f"  {name}: {{", f"  visits.{name}: {{") for name in ("patient_id", "region", "ward", "age"))],
         "references: people.id}}, or declare visits public"),
    ],
)  # fmt: skip
def test_a_job_says_it_in_its_own_words(code: str, pairs: list[tuple[str, str]], said: str) -> None:
    with pytest.raises(JobError) as caught:
        plan(changed(*pairs))
    assert said in str(caught.value) and not re.search(r"Unit\(|Unit\.|session|max_rows=", str(caught.value))
    assert caught.value.code == code


def test_python_says_it_in_its_own_words() -> None:
    with pytest.raises(TableError, match=r"max_rows=12, or max_groups=4 with rows_per_group=3") as caught:
        Unit("patient_id")
    assert caught.value.code == "cap-missing"
    with pytest.raises(TableError, match=r"window='month', when='visit_date'"):
        Unit("patient_id", max_rows=1, window="month")
