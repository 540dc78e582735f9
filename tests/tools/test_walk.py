"""The walk is counted as it is walked: files, doors, and pairs that call each other, without what only runs at import."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "walk.py"


@pytest.fixture(scope="module")
def tool() -> Any:
    spec = importlib.util.spec_from_file_location("walk", TOOL)
    assert spec is not None and spec.loader is not None
    module = sys.modules["walk"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(folder: Path) -> None:
    """A package whose first file calls the second, which calls back; a third is only imported."""
    (folder / "inner").mkdir()
    (folder / "one.py").write_text(
        "import two, three\n"
        "def start():\n    return two.middle() + two.given(lambda: 1)\n"
        "def end():\n    return 1\n"
        "class Body:\n    value = end()\n"
    )
    (folder / "two.py").write_text("def middle():\n    import one\n    return one.end()\ndef given(f):\n    return f()\n")
    (folder / "three.py").write_text("def never():\n    return 0\nVALUE = never()\n")


def test_files_doors_and_pairs_of_a_small_package(tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    walk = tool.Walk(f"{tmp_path}/")
    before = sys.getprofile()
    try:
        with walk.watching():
            import one  # type: ignore[import-not-found]

            one.start()
    finally:
        sys.setprofile(before)
        for name in ("one", "two", "three"):
            sys.modules.pop(name, None)
    record = walk.record()
    assert record["files"] == 2  # three.py is only imported
    assert record["files_with_imports"] == 3
    assert {name for _, name in walk.doors} == {"middle", "given", "end", "start.<locals>.<lambda>"}
    assert record["both_ways_same_folder"] == [{"pair": ("one.py", "two.py"), "callback": False}]
    assert record["both_ways_different_folders"] == []


def test_the_accountants_walk_runs_and_prints() -> None:
    done = subprocess.run([sys.executable, str(TOOL), "accounting", "--json"], capture_output=True, text=True, check=True)
    record = json.loads(done.stdout)["accounting"]
    assert 0 < record["files"] <= record["files_with_imports"]
    assert record["files"] == len(record["calls"])
    assert all(file.endswith(".py") for file in record["calls"])


#: The most files that each walk may pass through; decisions 0212 and 0222 say which they are, and why there are not fewer.
MOST = {"sql": 30, "run": 70}


def test_a_question_is_walked_in_this_process(tool: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main(["--files", "sql", "--here"]) == 0
    listed = capsys.readouterr().out
    assert "tables/session.py" in listed and "ledger/account.py" in listed


@pytest.mark.parametrize("name", MOST)
def test_a_walk_does_not_grow(tool: Any, name: str) -> None:
    """In a process of its own, where nothing is warm from another test."""
    record = tool.walked_apart(name)
    assert record["files"] <= MOST[name], "join what always goes together, or say in a decision why it grew"
    assert record["both_ways_different_folders"] == []
