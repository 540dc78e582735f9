"""Does each test that the theory map names execute the code that its row names? Traces the tests and writes down what was found.

`docs/theory.md` maps sections to code and tests. A test that exists but never calls the code proves nothing, so this program runs every
named test under a tracer of calls and notes, for each row, which of its names were executed. What it finds is kept in
`tests/theory_trace.json` with a fingerprint of the test and of the code; `tests/test_theory_map.py` compares these, traces
what has changed since, and in `make test-slow` everything.

    python tools/theory_trace.py             trace what is new or has changed, and write the file
    python tools/theory_trace.py --all       trace everything again
    python tools/theory_trace.py B4.7 E13    trace these rows
    ... --rows=40 --minutes=10 --limit=60    forty rows at a time, written down after each; ten minutes for each pass, sixty seconds a test
    ... --passes=fast                        only this pass of fast, slow and forget
    ... --cut                                leave a test once it has executed what is looked for: many times faster
"""

from __future__ import annotations

import functools
import gc
import hashlib
import importlib
import inspect
import json
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "theory.md"
FOUND = ROOT / "tests" / "theory_trace.json"
MOMENT = 4.0  # seconds after which a test that has executed a name of each of its rows may be left
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
    """A pytest plugin: which of the wanted names each test executes.

    `rows` are the rows that the tests are traced for. A test runs as long as it can add something: until it was seen to execute a
    name of each of its rows, and these rows have no name left that no test was seen to execute. What a fixture executes counts for
    every test that asks for the fixture, also where it was made for an earlier one. With `cut` a test is left once it has executed all
    names that it is traced for, or after a moment if it has executed one for each of its rows: whether it passes is what
    `make test` says. With `forget` all remembered results (`cache`,
    `lru_cache`) are dropped before each test, so that a call which was answered from memory in the first pass is seen in the second.
    """

    def __init__(self, rows: list[dict[str, Any]], answer: Path, *, forget: bool = False, limit: float = 0, cut: bool = False) -> None:
        self.rows, self.answer, self.forget, self.limit, self.cut = rows, answer, forget, limit, cut
        self.wanted: dict[str, list[str]] = {}
        for row in rows:
            for test in row["due"]:
                names = self.wanted.setdefault(test, [])
                names += [name for name in row["names"] if name not in names]
        self.ran: set[str] = set()
        self.found: dict[str, set[str]] = {test: set() for test in self.wanted}
        self.failed: dict[str, str] = {}
        self.executed: set[CodeType] = set()
        self.fixtures: dict[int, set[CodeType]] = {}
        self._codes: dict[str, set[CodeType]] = {}
        self._references: dict[str, list[str]] = {}
        self._last = ""
        self._missing: dict[str, set[CodeType]] = {}
        self._needles: set[CodeType] = set()
        self._left = False
        self._hit: list[list[str]] = []
        self._over = False
        self.moment = MOMENT

    def pytest_collection_finish(self) -> None:
        """What the names stand for before any test puts something else in their place."""
        for name in {name for names in self.wanted.values() for name in names}:
            self.codes(name)

    def references(self, item: str) -> list[str]:
        plain = item.split("[")[0]
        if plain not in self._references:
            self._references[plain] = [test for test in self.wanted if plain == test or plain.startswith(test + "::")]
        return self._references[plain]

    def codes(self, name: str) -> set[CodeType]:
        if name not in self._codes:
            self._codes[name] = codes(resolve(name)[0])
        return self._codes[name]

    def adds(self, test: str) -> bool:
        """Whether running the test can still tell something about one of its rows."""
        for row in self.rows:
            if test in row["due"]:
                seen = {name for other in row["due"] for name in self.found[other]} | set(row.get("seen", ()))
                if not self.found[test] & set(row["names"]) or set(row["names"]) - seen:
                    return True
        return False

    def write(self) -> None:
        """What is known so far: a run that is stopped loses nothing."""
        told = {t: {"executed": sorted(self.found[t]), "failed": self.failed.get(t, "")} for t in self.wanted if t in self.ran}
        part = self.answer.with_suffix(".part")
        part.write_text(json.dumps(told), encoding="utf-8")
        part.replace(self.answer)

    def _called(self, frame: FrameType, event: str, _: object) -> None:
        # returns None: the lines of the call are not traced, which would take many times as long
        self.executed.add(frame.f_code)
        if self._over and threading.current_thread() is threading.main_thread():
            self._leave()
        if self.cut and frame.f_code in self._needles:
            self._missing = {name: own for name, own in self._missing.items() if frame.f_code not in own}
            self._needles = set().union(*self._missing.values())
            if not self._missing and threading.current_thread() is threading.main_thread():
                self._leave()

    def _leave(self) -> None:
        import pytest

        self._left, self._over = True, False
        sys.settrace(None)
        pytest.skip("it has executed what it is traced for")

    def _bell(self, *_: object) -> None:
        """A moment is over: a test that has executed a name for each of its rows may go; at the limit each test must."""
        import pytest

        # left at the next call into Python: an exception in the middle of a query would be taken for a fault of the query
        late = time.monotonic() - self._began > self.moment
        self._over = late and bool(self.cut and self._hit and all(any(n not in self._missing for n in names) for names in self._hit))
        if self.limit and time.monotonic() - self._began > self.limit:
            pytest.fail("it is out of time")

    def _start(self) -> None:
        threading.settrace(self._called)
        sys.settrace(self._called)

    @staticmethod
    def _stop() -> None:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type,unused-ignore]

    @staticmethod
    def _forget() -> None:
        for thing in gc.get_objects():
            if type(thing) is functools._lru_cache_wrapper and str(thing.__module__).startswith(("tacit", "test", "tests")):
                thing.cache_clear()

    def pytest_runtest_setup(self, item: Any) -> None:
        import pytest

        mine = self.references(item.nodeid)
        if mine and not any(self.adds(test) for test in mine):
            pytest.skip("it can add nothing to its rows")
        if self.forget and item.nodeid.split("[")[0] != self._last:
            self._forget()
        self._last = item.nodeid.split("[")[0]
        self.executed = set()
        names = {name for test in mine for name in self.wanted[test]}
        self._missing = {name: self.codes(name) for name in names if self.codes(name)}
        self._needles = set().union(*self._missing.values())
        self._hit = [row["names"] for row in self.rows if set(mine) & set(row["due"])]
        self._left, self._over, self._began = False, False, time.monotonic()
        signal.signal(signal.SIGALRM, self._bell)
        signal.setitimer(signal.ITIMER_REAL, 0.4, 0.4)
        self._start()

    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[None]:
        before, self.executed = self.executed, set()
        yield
        self.fixtures[id(fixturedef)] = self.fixtures.get(id(fixturedef), set()) | self.executed
        self.executed |= before

    pytest_fixture_setup.hookwrapper = True  # type: ignore[attr-defined]

    def pytest_runtest_makereport(self, item: Any, call: Any) -> None:
        if call.when == "call":
            self._stop()
            definitions = getattr(item, "_fixtureinfo", None)
            for several in definitions.name2fixturedefs.values() if definitions else ():
                for one in several:
                    self.executed |= self.fixtures.get(id(one), set())
            signal.setitimer(signal.ITIMER_REAL, 0)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if not (report.when == "call" or report.failed or self._left):
            return
        self._stop()
        signal.setitimer(signal.ITIMER_REAL, 0)
        for test in self.references(report.nodeid):
            if report.failed and "it is out of time" in str(report.longrepr):
                continue
            self.ran.add(test)
            if report.failed:
                self.failed[test] = str(report.longrepr)[-600:]
            if report.passed or self._left:
                source = (ROOT / test.partition("::")[0]).read_text(encoding="utf-8")
                for name in self.wanted[test]:
                    own = self.codes(name)
                    if (own & self.executed) if own else name.split(".")[-1] in source:
                        self.found[test].add(name)
        self._left = False
        self.write()


def trace(
    selected: list[dict[str, Any]], *, minutes: float = 60, slow: bool = False, forget: bool = False, limit: float = 0,
    cut: bool = False,
) -> dict[str, dict[str, Any]]:
    """Run the tests that are `due` in these rows in one process of their own, with `slow` the slow ones too; for each that ended in
    time the names that it executed, or why it failed."""
    with tempfile.TemporaryDirectory() as folder:
        told, answer = Path(folder, "wanted.json"), Path(folder, "found.json")
        how = {"rows": selected, "marks": "slow or not slow" if slow else "not slow", "forget": forget, "limit": limit, "cut": cut}
        told.write_text(json.dumps(how), encoding="utf-8")
        command = [sys.executable, str(Path(__file__).resolve()), "--run", str(told), str(answer)]
        try:
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60 * minutes, check=False)
        except subprocess.TimeoutExpired:
            done = None
        if not answer.exists():
            if done is None:
                return {}
            raise RuntimeError(f"no traced test ended: {done.stdout[-2000:] + done.stderr[-2000:]}")
        found: dict[str, dict[str, Any]] = json.loads(answer.read_text(encoding="utf-8"))
        return found


def _run(told: str, answer: str) -> None:
    import pytest

    sys.path.insert(0, str(ROOT))
    how = json.loads(Path(told).read_text(encoding="utf-8"))
    tracer = Tracer(how["rows"], Path(answer), forget=how["forget"], limit=how["limit"], cut=how["cut"])
    pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", how["marks"], *tracer.wanted], plugins=[tracer])
    tracer.write()


def known() -> dict[str, Any]:
    """What was found before."""
    return json.loads(FOUND.read_text(encoding="utf-8")) if FOUND.exists() else {}


def stale(row: dict[str, Any], kept: dict[str, Any]) -> list[str]:
    """The tests of a row whose entry is missing or older than the test or the code."""
    mine = kept.get(row["section"], {})
    return [test for test in row["tests"] if mine.get(test, {}).get("fingerprint") != fingerprint(row["names"], test)]


def _merge(rows_due: list[dict[str, Any]], entries: dict[str, Any], traced: dict[str, Any]) -> None:
    """Put what was traced into the entries. A test of which the code did not change keeps what an earlier run saw it execute."""
    for row in rows_due:
        mine = entries[row["section"]]
        for test in row["due"]:
            if test in traced:
                mark = fingerprint(row["names"], test)
                before = mine.get(test, {}) if mine.get(test, {}).get("fingerprint") == mark else {}
                hit = {*before.get("executed", ()), *traced[test]["executed"]}
                mine[test] = {"executed": [name for name in row["names"] if name in hit], "fingerprint": mark}


def _faults(row: dict[str, Any], mine: dict[str, Any], failed: dict[str, str]) -> list[str]:
    """What is wrong with a row by its entries; nothing where each name is executed by a test and each test executes a name."""
    if late := [test for test in row["tests"] if test not in mine]:
        return [f"{test} was not reached in time" for test in late]
    executed = {name for test in row["tests"] for name in mine[test]["executed"]}
    found = [f"{name} is executed by none of its tests" for name in row["names"] if name not in executed]
    found += [f"{test} executes none of its names" for test in row["tests"] if not mine[test]["executed"]]
    return found + [f"{test} fails: {failed[test]}" for test in row["tests"] if failed.get(test)]


def check(
    selected: list[dict[str, Any]], kept: dict[str, Any], *, everything: bool = False, minutes: float = 60, limit: float = 0,
    passes: tuple[str, ...] = ("fast", "slow", "forget"), cut: bool = False,
) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Trace what is stale among these rows, for at most so many minutes; the new entries, and the faults of each row that has any.

    Three passes, each in one process: the tests that are due; those that are slow as a whole; and those of rows that still have a
    fault, with all remembered results dropped before each test."""
    entries = {row["section"]: {} if everything else dict(kept.get(row["section"], {})) for row in selected}
    for row in selected:
        fresh = set(row["tests"]) - set(row["tests"] if everything else stale(row, kept))
        entries[row["section"]] = {test: found for test, found in entries[row["section"]].items() if test in fresh}
    failed: dict[str, str] = {}

    def due() -> list[dict[str, Any]]:
        found = []
        for row in selected:
            mine = entries[row["section"]]
            if faults := _faults(row, mine, failed):
                late = any("was not reached" in fault for fault in faults)
                tests = [test for test in row["tests"] if not (late and test in mine)]
                seen = sorted({name for test in mine if test not in tests for name in mine[test]["executed"]})
                found += [{**row, "due": tests, "seen": seen}] if tests else []
        return found

    for kind in passes:
        rows_due = due()
        if kind == "slow":
            rows_due = [row for row in rows_due if any(test not in entries[row["section"]] for test in row["tests"])]
        if rows_due:
            traced = trace(rows_due, minutes=minutes, slow=kind == "slow", forget=kind == "forget", limit=limit, cut=cut)
            failed |= {test: found["failed"] for test, found in traced.items()}
            _merge(rows_due, entries, traced)
    wrong = {row["section"]: faults for row in selected if (faults := _faults(row, entries[row["section"]], failed))}
    order = {row["section"]: row["tests"] for row in selected}
    return {section: {test: mine[test] for test in order[section] if test in mine} for section, mine in entries.items()}, wrong


def _chosen(arguments: list[str]) -> Iterator[dict[str, Any]]:
    for row in rows():
        if not arguments or row["section"] in arguments:
            yield row


def _keep(entries: dict[str, Any]) -> None:
    kept = {**known(), **entries}
    merged = {row["section"]: kept[row["section"]] for row in rows() if kept.get(row["section"])}
    FOUND.write_text(json.dumps(merged, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> int:
    if sys.argv[1:2] == ["--run"]:
        _run(*sys.argv[2:])
        return 0
    everything = "--all" in sys.argv
    options = dict(a.removeprefix("--").split("=") for a in sys.argv[1:] if a.startswith("--") and "=" in a)
    selected = list(_chosen([a for a in sys.argv[1:] if not a.startswith("--")]))
    minutes, limit, size = float(options.get("minutes", 60)), float(options.get("limit", 0)), int(options.get("rows", 1000))
    passes = tuple(options.get("passes", "fast,slow,forget").split(","))
    wrong: dict[str, list[str]] = {}
    for start in range(0, len(selected), size):
        part = selected[start : start + size]
        entries, faults = check(part, known(), everything=everything, minutes=minutes, limit=limit, passes=passes, cut="--cut" in sys.argv)
        _keep(entries)
        for section, found in faults.items():
            print(section, *found, sep="\n  ", flush=True)
        wrong |= faults
        print(f"{start + len(part)} of {len(selected)} rows, {len(wrong)} with faults", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
