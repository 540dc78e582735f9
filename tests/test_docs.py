"""Every example of the documentation runs, and prints what the page says it prints. Nothing is skipped
silently.

- ```python``` blocks of one page share a namespace and run in a temporary directory, in the page's order. A
  block with `>>>` prompts is checked like a doctest; a plain block must run without an exception.
- ```console``` and ```sh``` blocks: a `$ tacit ...` line runs the real command, which must end with status
  0. In a console block the lines below it must be its output, where a line `...` stands for any number of
  lines and `...` within a line for any text.
- A block with a title, such as ```yaml title="job.yaml"```, is written to a file of that name.
- `$ make target` and `$ pip install 'tacit[extra]'` must name a target and an extra that exist. Any other
  command fails the test, and so does a fence in a language this file does not know.
- Links to other pages of the repository must lead somewhere.
- The site (`make docs`) has every page in its navigation, every public name in its reference, and asks
  nothing of the network.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import importlib.util
import json
import re
import shlex
import sys
import tomllib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import yaml
from tools.site import pages as site

from tacit.cli import main
from tools import comparison

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]
)
PROSE = {"text", "json", "toml", "yaml", "bibtex", "math", "diff"}  # shown, not run
FENCE = re.compile(
    r"(?P<indent>\s*)(?P<fence>`{3,}|~{3,})\s*(?P<language>[\w+-]*)"
    r"(?: title=\"(?P<title>[\w.-]+)\")?"
)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
PLAIN = {
    "NO_COLOR": "1",
    "TERM": "dumb",
    "COLUMNS": "100",
    "MPLBACKEND": "Agg",
}  # the same output on every terminal


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, the line of the page on which the text begins, its title."""

    language: str
    text: str
    line: int
    title: str = ""


class ExampleError(AssertionError):
    """An example of a page does not do what the page says."""


def blocks_of(page: str) -> list[Block]:
    """The fenced blocks of a page; an unclosed fence or one without a language is an error."""
    found: list[Block] = []
    opening: re.Match[str] | None = None
    start, body = 0, list[str]()
    for number, line in enumerate(page.splitlines(), 1):
        if opening is None:
            opening = FENCE.match(line)
            if opening is not None:
                start, body = number + 1, []
                if not opening["language"]:
                    raise ExampleError(
                        f"line {number}: a fence without a language; write ```text for what is not run"
                    )
        elif line.strip().startswith(opening["fence"]) and not line.strip().strip(opening["fence"][0]):
            found.append(Block(opening["language"], "\n".join(body) + "\n", start, opening["title"] or ""))
            opening = None
        else:
            body.append(line.removeprefix(opening["indent"]))
    if opening is not None:
        raise ExampleError(f"line {start - 1}: a fence that is never closed")
    return found


def run_python(block: Block, namespace: dict[str, object], name: str) -> None:
    """Execute a block in the page's namespace; errors carry the page's own line numbers."""
    if ">>>" in block.text:
        example = doctest.DocTestParser().get_doctest(block.text, namespace, name, name, block.line - 1)
        report: list[str] = []
        results = doctest.DocTestRunner(optionflags=FLAGS).run(example, out=report.append, clear_globs=False)
        namespace.update(example.globs)
        if results.failed:
            raise ExampleError("".join(report))
    else:
        exec(compile("\n" * (block.line - 1) + block.text, name, "exec"), namespace)


def commands_of(block: Block) -> list[tuple[int, str, list[str]]]:
    """The `$` lines of a block, each with its line number and the output below it; backslashes join."""
    commands: list[tuple[int, str, list[str]]] = []
    continued = False
    for number, line in enumerate(block.text.splitlines(), block.line):
        if continued:
            at, command, output = commands[-1]
            commands[-1] = (at, f"{command} {line.removeprefix('>').strip()}", output)
        elif line.startswith("$ "):
            commands.append((number, line[2:].strip(), []))
        elif block.language == "sh" and line.strip() and not line.startswith("#"):
            raise ExampleError(
                f"line {number}: a sh block has '$ command' lines only; output goes into a console block"
            )
        elif commands:
            commands[-1][2].append(line.rstrip())
        elif line.strip():
            raise ExampleError(f"line {number}: output without a command above it")
        continued = bool(commands) and commands[-1][1].endswith("\\")
        if continued:
            at, command, output = commands[-1]
            commands[-1] = (at, command.removesuffix("\\").rstrip(), output)
    return commands


def matches(expected: list[str], printed: list[str]) -> bool:
    """Whether the lines agree, with `...` standing for any lines, or for any text within a line."""
    if not expected:
        return not printed
    if expected[0].strip() == "...":
        return any(matches(expected[1:], printed[skip:]) for skip in range(len(printed) + 1))
    if not printed:
        return False
    pattern = ".*".join(re.escape(part) for part in expected[0].split("..."))
    return re.fullmatch(pattern, printed[0]) is not None and matches(expected[1:], printed[1:])


def stripped(text: list[str]) -> list[str]:
    """Lines without trailing blanks, and without empty lines at either end."""
    return "\n".join(line.rstrip() for line in text).strip("\n").splitlines()


def run_tacit(words: list[str], directory: Path) -> tuple[int, str, str]:
    """The command in this process, which has imported what it needs; its status, output and complaints."""
    printed, complained = StringIO(), StringIO()
    with (
        pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(),
        contextlib.redirect_stdout(printed), contextlib.redirect_stderr(complained),
    ):  # fmt: skip
        for name, value in PLAIN.items():
            patch.setenv(name, value)
        patch.chdir(directory)
        warnings.simplefilter("ignore")  # a user of the command sees no warnings of Python
        try:
            status = main(words)
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
    return status, printed.getvalue(), complained.getvalue()


def run_command(command: str, expected: list[str], directory: Path) -> None:
    """Run one documented command and compare its output with the page's."""
    words = shlex.split(command, comments=True)
    if words[0] == "tacit":
        status, printed, complained = run_tacit(words[1:], directory)
        if status != 0:
            raise ExampleError(f"'{command}' ended with status {status}:\n{printed}{complained}")
        if stripped(expected) and not matches(stripped(expected), stripped(printed.splitlines())):
            raise ExampleError(f"'{command}' printed\n{printed}\nwhere the page says\n" + "\n".join(expected))
    elif words[0] == "make":
        targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        if unknown := [word for word in words[1:] if "=" not in word and word not in targets]:
            raise ExampleError(f"'{command}' names make targets that do not exist: {unknown}")
    elif words[:2] == ["pip", "install"]:
        extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
        asked = {
            extra
            for word in words[2:]
            for part in re.findall(r"\[(.*?)\]", word)
            for extra in part.split(",")
        }
        if not asked <= extras:
            raise ExampleError(f"'{command}' names extras that do not exist: {sorted(asked - extras)}")
    else:
        raise ExampleError(
            f"'{command}' is not checked by any rule; document tacit, make or pip install, or teach this test"
        )


def run_page(text: str, name: str, directory: Path) -> int:
    """Run every block of a page in order; how many were run or checked."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    checked = 0
    for block in blocks_of(text):
        if block.title:
            (directory / Path(block.title).name).write_text(block.text, encoding="utf-8")
        if block.language in PROSE:
            continue
        checked += 1
        try:
            if block.language == "python":
                run_python(block, namespace, name)
            elif block.language in ("console", "sh"):
                commands = commands_of(block)
                if not commands:
                    raise ExampleError("a console block without a '$ command'")
                for _, command, output in commands:
                    run_command(command, output, directory)
            else:
                raise ExampleError(
                    f"unknown language '{block.language}'; known: python, console, sh, {sorted(PROSE)}"
                )
        except Exception as error:
            raise ExampleError(
                f"{name}, block at line {block.line}: {type(error).__name__}: {error}"
            ) from error
    return checked


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_examples_of(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page.read_text(encoding="utf-8"), page.relative_to(ROOT).as_posix(), tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_of(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    targets = [
        target.partition("#")[0]
        for target in re.findall(r"\]\(([^)\s]+)\)", text)
        if not re.match(r"https?:|mailto:|#", target)
    ]
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_plain_words_of(page: Path) -> None:
    """Say "no group", "a user" or "the caller": what is meant, and not nobody or somebody."""
    code = re.compile(r"^```.*?^```|`[^`]*`", re.MULTILINE | re.DOTALL)
    text = code.sub("", page.read_text(encoding="utf-8"))
    assert re.findall(r"(?i)\b(?:no|some|every|any)body\b", text) == []


def test_the_readme_is_short_and_has_an_example_for_each_person() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) < 200
    people = re.split(
        r"^### ", text.partition("## Five people")[2].partition("\n## ")[0], flags=re.MULTILINE
    )[1:]
    assert [re.match(r"The ([a-z -]+):", part)[1] for part in people] == [  # type: ignore[index]
        *("curator", "analyst", "machine-learning engineer", "privacy officer", "researcher")
    ]
    assert all(blocks_of(part) for part in people)


def listed(nav: object) -> Iterator[str]:
    """The pages that a navigation names, at any depth."""
    if isinstance(nav, str):
        yield nav
    else:
        for part in nav.values() if isinstance(nav, dict) else nav:  # type: ignore[attr-defined]
            yield from listed(part)


def site_settings() -> dict[str, object]:
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert isinstance(settings, dict)
    return settings


def test_every_page_is_in_the_navigation_once() -> None:
    written = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    assert sorted(listed(site_settings()["nav"])) == sorted([*written, *site.GUESTS.values()])


def test_the_first_page_names_every_page_and_counts_the_failures() -> None:
    first = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\]\(([\w/-]+\.md)", first))
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    # Pages of the reference and of the decisions are named by an index of their own.
    assert {page for page in pages - named if not page.startswith(("reference/", "decisions/"))} == {"index.md"}
    rows = re.findall(r"^\| \d+ \|", (ROOT / "docs" / "failures.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert f"(failures.md): {len(rows)} ways" in first


def test_the_site_asks_nothing_of_the_network() -> None:
    settings = site_settings()
    assert settings["theme"]["font"] is False  # type: ignore[index]
    # The theme would add a script from elsewhere to the offline search, if none of this name were given.
    assert settings["extra"]["polyfills"] == ["assets/iframe-worker.js"]  # type: ignore[index]
    for asset in (ROOT / "docs" / "assets").iterdir():
        assert "//" not in re.sub(
            r"^ *//.*|/\*.*?\*/", "", asset.read_text(encoding="utf-8"), flags=re.MULTILINE
        ), asset.name


ROOMS = sorted(
    path.parent.name for path in (ROOT / "src" / "tacit").glob("*/__init__.py") if path.parent.name != "cli"
)
# The fields of the applications have pages of their own.
ROOMS += sorted(f"applications.{path.parent.name}" for path in (ROOT / "src" / "tacit" / "applications").glob("*/__init__.py"))


@pytest.mark.parametrize("room", ROOMS)
def test_the_reference_finds_every_public_name(room: str) -> None:
    page = ROOT / "docs" / "reference" / f"{room.rpartition('.')[2]}.md"
    assert f"::: tacit.{room}\n" in page.read_text(encoding="utf-8")
    asked = re.findall(r"^::: (tacit\.[\w.]+)$", site.reference(f"tacit.{room}"), flags=re.MULTILINE)
    assert len(asked) > len(site.public_names(f"tacit.{room}"))
    for name in asked[1:]:
        module, _, last = name.rpartition(".")
        there = hasattr(importlib.import_module(module), last) or importlib.util.find_spec(name) is not None
        assert there, f"tacit.{room} exports {name}, which is not there"


@pytest.mark.parametrize("room", ROOMS)
def test_what_a_room_exports_is_defined_by_itself(room: str) -> None:
    """The site reads the code, and does not see a name that is assigned together with others, or is another package's."""
    for public in site.public_names(f"tacit.{room}"):
        module, name = site.home_of(f"tacit.{room}", public)
        named = set[str]()
        for node in site.tree_of(module).body:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
            named |= {target.id for target in targets if isinstance(target, ast.Name)}
            named |= {node.name} if isinstance(node, ast.ClassDef | ast.FunctionDef) else set()
        assert name in named or site.source_of(f"{module}.{name}").exists(), f"{module}.{name}"


def test_links_are_rewritten_for_the_site() -> None:
    text = "[a](docs/theory.md#errata) [b](LICENSE) [c](https://example.org/x.md)"
    assert (
        site.relinked(text, "CONTRIBUTING.md", "contributing.md")
        == "[a](theory.md#errata) [b](LICENSE) [c](https://example.org/x.md)"
    )
    assert (
        site.relinked("[a](../../CONTRIBUTING.md#tests)", "docs/guide/x.md", "guide/x.md")
        == "[a](../contributing.md#tests)"
    )
    assert (
        site.relinked("[a](../README.md) [b](jobs.md)", "docs/tables.md", "tables.md")
        == "[a](index.md) [b](jobs.md)"
    )


@pytest.fixture
def docstrings(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The extension that renders docstrings, without the package that it extends."""
    monkeypatch.setitem(sys.modules, "griffe", SimpleNamespace(Extension=object, Object=object))
    monkeypatch.delitem(sys.modules, "tools.site.docstrings", raising=False)
    return importlib.import_module("tools.site.docstrings")


def test_docstrings_become_markdown(docstrings: ModuleType) -> None:
    assert doctest.testmod(docstrings) == (0, 1)
    assert (
        docstrings.as_markdown("Adds.\n\n>>> 1 + 1\n2\n\nSo.")
        == "Adds.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nSo."
    )
    assert docstrings.as_markdown("Plain.\n\nSecond.") == "Plain.\n\nSecond."
    parameters = "Parameters\n    epsilon, delta: the price\n    in all.\n\nAfter."
    assert (
        docstrings.as_markdown(parameters)
        == "**Parameters**\n\n- *epsilon, delta*: the price in all.\n\nAfter."
    )


def test_a_full_run_of_the_benchmarks_is_copied_as_it_was_printed(tmp_path: Path) -> None:
    run = {
        "date": "2026-11-16",
        "commit": "abc1234",
        "machine": "Linux x86_64",
        "cores": 2,
        "python": "3.11.7",
        "full": True,
    }
    run["scripts"] = {"bench_import": {"ended": "met its targets", "seconds": 12.4}}
    (tmp_path / "run.json").write_text(json.dumps(run))
    (tmp_path / "bench_import.txt").write_text("import   s over bare\ntacit    0.058\n")
    page = comparison.replaced(comparison.PAGE.read_text(encoding="utf-8"), comparison.section(tmp_path))
    assert "Run of 2026-11-16, commit abc1234; 2 cores, Linux x86_64, Python 3.11.7." in page
    assert "| [bench_import](#bench_import) | met its targets | 12 |" in page
    assert "```text\nimport   s over bare\ntacit    0.058\n```" in page
    assert comparison.replaced(page, comparison.section(tmp_path)) == page
    assert "## Recorded figures" in page
    blocks_of(page)

    (tmp_path / "run.json").write_text(json.dumps({**run, "full": False}))
    with pytest.raises(ValueError, match="make bench"):
        comparison.section(tmp_path)


FAULTS = {
    "exception": "```python\n1 / 0\n```",
    "wrong result": "```python\n>>> 1 + 1\n3\n```",
    "name from nowhere": "```python\nprint(undefined)\n```",
    "unknown language": "```pyhton\n1\n```",
    "no language": "```\n1\n```",
    "never closed": "```python\n1",
    "unchecked command": "```sh\n$ rm -r data\n```",
    "no prompt": "```sh\ntacit --help\n```",
    "no command": "```console\nsome output\n```",
    "dead target": "```sh\n$ make coffee\n```",
    "dead extra": "```sh\n$ pip install 'tacit[coffee]'\n```",
    "failing command": "```sh\n$ tacit no-such-command\n```",
    "wrong output": "```console\n$ tacit --help\nthis is not what it prints\n```",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_example_is_caught(fault: str, tmp_path: Path) -> None:
    with pytest.raises(ExampleError):
        run_page(f"# A page\n\n{FAULTS[fault]}\n", "page.md", tmp_path)


def test_blocks_share_a_namespace_and_all_are_counted(tmp_path: Path) -> None:
    blocks = [
        "python\nx = 41",
        "python\n>>> x + 1\n42\n>>> y = x + 2",
        "text\nanything",
        "python\nassert y == 43",
    ]
    assert run_page("\n\nwords\n\n".join(f"```{block}\n```" for block in blocks), "page.md", tmp_path) == 3


def test_a_block_with_a_title_becomes_a_file(tmp_path: Path) -> None:
    run_page('```yaml title="job.yaml"\nversion: 1\n```\n', "page.md", tmp_path)
    assert (tmp_path / "job.yaml").read_text() == "version: 1\n"


def test_a_working_command_passes(tmp_path: Path) -> None:
    """The commands among the faults above fail for their fault, not because the command cannot run at all."""
    assert (
        run_page(
            "```console\n$ tacit --help\n...\n```\n\n```sh\n$ tacit --help\n$ make test\n```\n",
            "page.md",
            tmp_path,
        )
        == 2
    )


def test_continued_commands_and_their_output() -> None:
    block = Block("console", "$ tacit epsilon \\\n    --noise 1\nline one\nline two\n$ tacit delta\n", 10)
    assert commands_of(block) == [
        (10, "tacit epsilon --noise 1", ["line one", "line two"]),
        (14, "tacit delta", []),
    ]


def test_ellipsis_stands_for_lines_and_for_text() -> None:
    assert matches(["a", "...", "d"], ["a", "b", "c", "d"])
    assert matches(["epsilon ... at 1e-05"], ["epsilon 2.38 at 1e-05"])
    assert not matches(["a", "...", "e"], ["a", "b", "c", "d"])
    assert not matches(["a"], ["a", "b"])
    assert not matches(["a", "b"], ["a"])
