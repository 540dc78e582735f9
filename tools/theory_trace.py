"""Does each test that the theory map names execute the code that its row names? Traces the tests and writes down what was found.

`docs/theory.md` maps sections to code and tests. A test that exists but never calls the code proves nothing, so this program runs every
named test under a profiler and notes, for each row, which of its names were executed. What it finds is kept in
`tests/theory_trace.json` with a fingerprint of the test and of the code; `tests/test_theory_map.py` compares these, traces
what has changed since, and in `make test-slow` everything.

    python tools/theory_trace.py             trace what is new or has changed, and write the file
    python tools/theory_trace.py --all       trace everything again
    python tools/theory_trace.py B4.7 E13    trace these rows
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import inspect
import json
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "theory.md"
FOUND = ROOT / "tests" / "theory_trace.json"
HEADER = ["source section", "what", "code", "test"]


def rows() -> list[dict[str, Any]]:
    """Section, names and tests of every row of the map that has code."""
    found, inside = [], False
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]] if line.startswith("|") else []
        if cells == HEADER:
            inside = True
        elif not cells:
            inside = False
        elif inside and not set("".join(cells)) <= {"-", ":", " "} and not cells[2].startswith("planned:"):
            quoted = [re.findall(r"`([^`]+)`", cell) for cell in cells[2:]]
            found.append({"section": cells[0].split()[0], "names": quoted[0], "tests": quoted[1]})
    return found


def resolve(name: str) -> tuple[object, ModuleType]:
    """What a dotted name below `tacit` stands for, and the module it was looked up in."""
    parts = ["tacit", *name.removeprefix("tacit.").split(".")]
    for length in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        value: object = module
        for attribute in parts[length:]:
            value = inspect.getattr_static(value, attribute) if isinstance(value, type) else getattr(value, attribute)
        return value, module
    raise AttributeError(f"no module for {name}")


def codes(value: object) -> set[CodeType]:
    """Code of which some is executed wherever the named thing is used; empty for constants."""
    seen: set[CodeType] = set()

    def add(thing: object, depth: int = 0) -> None:
        if depth > 4:
            return
        if isinstance(thing, (staticmethod, classmethod)):
            add(thing.__func__, depth + 1)
        elif isinstance(thing, property):
            add(thing.fget, depth + 1)
        elif isinstance(thing, (functools.cached_property, functools.partial)):
            add(thing.func, depth + 1)
        elif inspect.isfunction(thing):
            seen.add(thing.__code__)
            add(getattr(thing, "__wrapped__", None), depth + 1)
        elif hasattr(thing, "__wrapped__"):
            add(thing.__wrapped__, depth + 1)
        elif isinstance(thing, type):
            for base in thing.__mro__:
                if base is thing or (base.__module__.startswith("tacit") and depth == 0 and "__init__" not in vars(thing)):
                    for member in vars(base).values():
                        add(member, depth + 1)
        elif inspect.ismodule(thing):
            for member in vars(thing).values():
                if getattr(member, "__module__", None) == thing.__name__:
                    add(member, depth + 1)

    add(value)
    return seen


def fingerprint(names: list[str], test: str) -> str:
    """Changes with the source of the test or of any of the names."""
    text = [test]
    path, _, function = test.partition("::")
    source = (ROOT / path).read_text(encoding="utf-8")
    if function:
        match = re.search(rf"^( *)(?:async )?def {re.escape(function.split('::')[-1])}\b.*?(?=^\1\S|\Z)", source, re.M | re.S)
        source = match.group(0) if match else source
    text.append(source)
    for name in names:
        value, _ = resolve(name)
        try:
            text.append(inspect.getsource(value))  # type: ignore[arg-type]
        except (TypeError, OSError):
            text.append(repr(type(value)))
    return hashlib.sha256("\0".join(text).encode()).hexdigest()[:16]


class Tracer:
    """A pytest plugin: which of the wanted names each test executes; tests that can add nothing are left out."""

    def __init__(self, wanted: dict[str, list[str]], answer: Path) -> None:
        self.wanted, self.answer = wanted, answer
        self.ran: set[str] = set()
        self.found: dict[str, set[str]] = {test: set() for test in wanted}
        self.failed: dict[str, str] = {}
        self.executed: set[CodeType] = set()
        self._codes: dict[str, set[CodeType]] = {}

    def pytest_collection_finish(self) -> None:
        """What the names stand for before any test puts something else in their place."""
        for name in {name for names in self.wanted.values() for name in names}:
            self.codes(name)

    def references(self, item: str) -> list[str]:
        plain = item.split("[")[0]
        return [test for test in self.wanted if plain == test or plain.startswith(test + "::") or item.startswith(test + "::")]

    def codes(self, name: str) -> set[CodeType]:
        if name not in self._codes:
            self._codes[name] = codes(resolve(name)[0])
        return self._codes[name]

    def write(self) -> None:
        """What is known so far: a run that is stopped loses nothing."""
        told = {t: {"executed": sorted(self.found[t]), "failed": self.failed.get(t, "")} for t in self.wanted if t in self.ran}
        part = self.answer.with_suffix(".part")
        part.write_text(json.dumps(told), encoding="utf-8")
        part.replace(self.answer)

    def _profile(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            self.executed.add(frame.f_code)

    def pytest_runtest_setup(self, item: Any) -> None:
        import pytest

        mine = self.references(item.nodeid)
        if mine and all(set(self.wanted[test]) <= self.found[test] for test in mine):
            pytest.skip("all names of its rows were seen already")
        self.executed = set()
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when != "call" and not report.failed:
            return
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
        for test in self.references(report.nodeid):
            self.ran.add(test)
            if report.failed:
                self.failed[test] = str(report.longrepr)[-600:]
            if report.passed:
                source = (ROOT / test.partition("::")[0]).read_text(encoding="utf-8")
                for name in self.wanted[test]:
                    own = self.codes(name)
                    if (own & self.executed) if own else name.split(".")[-1] in source:
                        self.found[test].add(name)
        self.write()


def trace(wanted: dict[str, list[str]], *, minutes: float = 60, slow: bool = False) -> dict[str, dict[str, Any]]:
    """Run the tests in a process of their own, with `slow` the slow ones too; for each that ended in time the names that it
    executed, or why it failed."""
    with tempfile.TemporaryDirectory() as folder:
        told, answer = Path(folder, "wanted.json"), Path(folder, "found.json")
        told.write_text(json.dumps(wanted), encoding="utf-8")
        marks = "slow or not slow" if slow else "not slow"
        command = [sys.executable, str(Path(__file__).resolve()), "--run", str(told), str(answer), marks]
        try:
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60 * minutes, check=False)
        except subprocess.TimeoutExpired:
            done = None
        if not answer.exists():
            raise RuntimeError(f"no traced test ended: {done.stdout[-2000:] + done.stderr[-2000:] if done else 'out of time'}")
        found: dict[str, dict[str, Any]] = json.loads(answer.read_text(encoding="utf-8"))
        return found


def _run(told: str, answer: str, marks: str) -> None:
    import pytest

    sys.path.insert(0, str(ROOT))
    wanted = json.loads(Path(told).read_text(encoding="utf-8"))
    tracer = Tracer(wanted, Path(answer))
    pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", marks, *wanted], plugins=[tracer])
    tracer.write()


def known() -> dict[str, Any]:
    """What was found before."""
    return json.loads(FOUND.read_text(encoding="utf-8")) if FOUND.exists() else {}


def stale(row: dict[str, Any], kept: dict[str, Any]) -> list[str]:
    """The tests of a row whose entry is missing or older than the test or the code."""
    mine = kept.get(row["section"], {})
    return [test for test in row["tests"] if mine.get(test, {}).get("fingerprint") != fingerprint(row["names"], test)]


def check(
    selected: list[dict[str, Any]], kept: dict[str, Any], *, everything: bool = False, minutes: float = 60
) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Trace what is stale among these rows, for at most so many minutes; the new entries, and the faults of each row that has any."""
    wanted: dict[str, list[str]] = {}
    due = {test for row in selected for test in (row["tests"] if everything else stale(row, kept))}
    for row in selected:  # a test that runs for one row is looked at for all of them
        for test in [test for test in row["tests"] if test in due]:
            wanted.setdefault(test, [])
            wanted[test] += [name for name in row["names"] if name not in wanted[test]]
    traced = trace(wanted, minutes=minutes) if wanted else {}
    # a file or a test that is slow as a whole
    left = {test: names for test, names in wanted.items() if test not in traced}
    traced |= trace(left, minutes=minutes, slow=True) if left else {}
    # a result that was remembered from an earlier test is a call that was not seen: those tests once more, in a fresh process
    again = {
        test: wanted[test]
        for row in selected
        for test in row["tests"]
        if test in traced and not traced[test]["failed"] and not set(row["names"]) & set(traced[test]["executed"])
    }
    if again and len(again) < len(wanted):
        traced |= trace(again, minutes=minutes)
    entries = {row["section"]: dict(kept.get(row["section"], {})) for row in selected}
    wrong: dict[str, list[str]] = {}
    for row in selected:
        mine = entries[row["section"]]
        for test in row["tests"]:
            if test in traced:
                hit = [name for name in row["names"] if name in traced[test]["executed"]]
                mine[test] = {"executed": hit, "fingerprint": fingerprint(row["names"], test)}
        entries[row["section"]] = {test: mine[test] for test in row["tests"] if test in mine}
        executed = {name for test in row["tests"] for name in mine.get(test, {}).get("executed", ())}
        if late := [test for test in row["tests"] if test not in mine]:
            wrong[row["section"]] = [f"{test} was not reached in time" for test in late]
            continue
        found = [f"{name} is executed by none of its tests" for name in row["names"] if name not in executed]
        found += [f"{test} executes none of its names" for test in row["tests"] if not mine.get(test, {}).get("executed")]
        found += [f"{test} fails: {traced[test]['failed']}" for test in row["tests"] if traced.get(test, {}).get("failed")]
        if found:
            wrong[row["section"]] = found
    return entries, wrong


def _chosen(arguments: list[str]) -> Iterator[dict[str, Any]]:
    for row in rows():
        if not arguments or row["section"] in arguments:
            yield row


def main() -> int:
    if sys.argv[1:2] == ["--run"]:
        _run(*sys.argv[2:])
        return 0
    everything = "--all" in sys.argv
    selected = list(_chosen([a for a in sys.argv[1:] if not a.startswith("--")]))
    limit = next((float(a.removeprefix("--minutes=")) for a in sys.argv if a.startswith("--minutes=")), 60.0)
    entries, wrong = check(selected, known(), everything=everything, minutes=limit)
    kept = {**known(), **entries}
    merged = {row["section"]: kept[row["section"]] for row in rows() if kept.get(row["section"])}
    FOUND.write_text(json.dumps(merged, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for section, found in wrong.items():
        print(section, *found, sep="\n  ")
    print(f"{len(selected)} rows, {len(wrong)} with faults")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
