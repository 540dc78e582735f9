"""The folders of a run: an output is begun once and comes back as it was stored; the release appears whole, or not at all."""

from __future__ import annotations

import datetime
import os
import stat
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.release import running as folders
from tacit.release.errors import JobError, OutputLost
from tacit.release.kinds import table
from tacit.release.kinds.table import record_of, released_of
from tacit.release.running import Work
from tacit.tables.figures import Released

_KEYS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(), st.dates(), st.datetimes(), st.decimals(allow_nan=False, allow_infinity=False)
)


def test_the_folder_is_private_and_found_again(tmp_path: Path) -> None:
    first = Work.beside(tmp_path / "out", "abc")
    assert stat.S_IMODE(first.folder.stat().st_mode) == 0o700
    assert Work.left_by(tmp_path / "out") and Work.beside(tmp_path / "out", "abc") == first
    with pytest.raises(JobError, match="another version"):
        Work.beside(tmp_path / "out", "abd")
    first.remove()
    assert not Work.left_by(tmp_path / "out")


def test_an_output_is_begun_once(tmp_path: Path) -> None:
    found = Work.beside(tmp_path / "out", "abc")
    found.begin("a", 3)
    assert found.lost(["a", "b"]) == ("a",)
    with pytest.raises(OutputLost):
        found.begin("a", 3)
    with pytest.raises(JobError, match="once under a reservation"):
        found.again("a", 3)
    found.again("a", 5)
    found.store("a", {"groups": [[]], "sums": [[7]]}, True)
    assert found.lost(["a", "b"]) == () and found.drawn("a")[1:] == (True, 5)


@settings(max_examples=40)
@given(st.lists(st.tuples(_KEYS, _KEYS), max_size=4), st.lists(st.integers(-(2**90), 2**90), max_size=4))
def test_what_is_stored_comes_back(groups: list[tuple[object, object]], sums: list[int]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        found = Work.beside(Path(folder) / "out", "abc")
        found.begin("a", 1)
        found.store("a", record_of(Released(list(groups), (np.array(sums, dtype=object),))), False)
        drawn, private, entry = found.drawn("a")
        released = released_of(drawn)
    assert released.groups == groups and released.sums[0].tolist() == sums and (private, entry) == (False, 1)
    assert [type(value) for group in released.groups for value in group] == [type(value) for group in groups for value in group]


def test_marked_keys() -> None:
    for value in (datetime.date(2026, 1, 31), datetime.datetime(2026, 1, 31, 12), Decimal("1.50")):
        assert table._untyped(table._typed(value)) == value


def test_a_damaged_folder_is_said_to_be_one(tmp_path: Path) -> None:
    Work.beside(tmp_path / "out", "abc")
    (tmp_path / ".out.work" / "run.json").write_text("{")
    with pytest.raises(JobError, match=r"run.json"):
        Work.beside(tmp_path / "out", "abc")


def test_a_folder_that_cannot_be_made_is_an_error_of_the_job(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"publication.folder"):
        Work.beside(tmp_path / "absent" / "out", "abc")


def test_a_staged_folder_gets_its_name(tmp_path: Path) -> None:
    staged = folders.staged_folder(tmp_path / "out", "token")
    folders.write(staged / "a.txt", "a")
    folders.publish(staged, tmp_path / "out")
    assert [file.name for file in tmp_path.iterdir()] == ["out"] and (tmp_path / "out" / "a.txt").read_text() == "a"


def test_leftovers_of_an_earlier_attempt_are_thrown_away(tmp_path: Path) -> None:
    folders.write(folders.staged_folder(tmp_path / "out", "token") / "old.txt", "old")
    assert list(folders.staged_folder(tmp_path / "out", "token").iterdir()) == []


@pytest.mark.parametrize("kind", ["folder", "empty folder", "file", "link"])
def test_what_is_there_is_never_replaced(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "out"
    if kind.endswith("folder"):
        target.mkdir()
    elif kind == "file":
        target.write_text("mine")
    else:
        target.symlink_to(tmp_path / "nowhere")
    if kind == "folder":
        (target / "mine.txt").write_text("mine")
    staged = folders.staged_folder(target, "token")
    with pytest.raises(JobError, match="never overwritten"):
        folders.publish(staged, target)
    assert staged.exists()


def test_a_rename_that_fails_publishes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError("no space")

    staged = folders.staged_folder(tmp_path / "out", "token")
    monkeypatch.setattr(os, "rename", full)
    with pytest.raises(JobError, match="nothing is published"):
        folders.publish(staged, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_parent_that_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="above it"):
        folders.free(tmp_path / "absent" / "out")
