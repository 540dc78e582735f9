"""The disk under a run: an output is begun once and comes back as it was stored; the release appears whole, or not at all."""

from __future__ import annotations

import datetime
import json
import os
import stat
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import disk
from tacit.release import work as folders
from tacit.release.errors import JobError, OutputLost
from tacit.release.kinds import table
from tacit.release.kinds.table import record_of, released_of
from tacit.release.work import Work
from tacit.tables.figures import Released

_KEYS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(), st.dates(), st.datetimes(), st.decimals(allow_nan=False, allow_infinity=False)
)


def test_the_file_is_private_and_found_again(tmp_path: Path) -> None:
    with Work.beside(tmp_path / "out", "abc") as first:
        assert stat.S_IMODE(first.file.stat().st_mode) == 0o600
    with Work.beside(tmp_path / "out", "abc") as again:
        assert Work.left_by(tmp_path / "out") and again.token == first.token
    with pytest.raises(JobError, match="another version") as caught:
        Work.beside(tmp_path / "out", "abd")
    assert caught.value.code == "run-of-another-job"
    with Work.beside(tmp_path / "out", "abc") as last:
        last.remove()
    assert not Work.left_by(tmp_path / "out") and not list(tmp_path.iterdir())


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


@pytest.mark.parametrize("name", ["run", "journal", "out", "begin", "store", "a", "release", "registry", "report"])
def test_an_output_may_have_any_name(tmp_path: Path, name: str) -> None:
    with Work.beside(tmp_path / "out", "abc") as work:
        assert not work.begun(name) and not work.stored(name)
        work.begin(name, 3)
        work.store(name, {"n": 1}, True)
    with Work.beside(tmp_path / "out", "abc") as again:
        assert again.token == work.token and again.drawn(name) == ({"n": 1}, True, 3)


def test_a_second_process_is_told_to_wait(tmp_path: Path) -> None:
    with Work.beside(tmp_path / "out", "abc"):
        with pytest.raises(JobError) as caught:
            Work.beside(tmp_path / "out", "abc")
        assert caught.value.code == "run-at-work"
    Work.beside(tmp_path / "out", "abc").close()


def test_without_locks_the_first_line_has_the_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes at once on a system without locks: both see that nothing is begun, and one of them draws."""
    monkeypatch.setattr(disk, "fcntl", None)
    first, second = (Work.beside(tmp_path / "out", "abc") for _ in range(2))
    assert first.token == second.token
    assert not first.begun("a") and not second.begun("a")
    first.begin("a", 3)
    with pytest.raises(OutputLost):
        second.begin("a", 3)
    first.store("a", {"n": 1}, True)
    with Work.beside(tmp_path / "out", "abc") as third:
        assert third.drawn("a")[0] == {"n": 1}


def test_lines_that_were_cut_off_were_never_written(tmp_path: Path) -> None:
    """At every length of the file: what was synced before is there, and the next line is read whatever the last one was."""
    file = tmp_path / ".out.run"
    lengths = [0]
    with Work.beside(tmp_path / "out", "abc") as whole:
        lengths.append(file.stat().st_size)
        whole.begin("a", 3)
        lengths.append(file.stat().st_size)
        whole.store("a", {"n": 1}, True)
        lengths.append(file.stat().st_size)
    content = file.read_bytes()
    for length in range(len(content) + 1):
        file.write_bytes(content[:length])
        # a line is whole without the line break at its end
        known = sum(length >= end - 1 for end in lengths[1:])
        assert Work.left_by(tmp_path / "out") == (known > 0)
        with Work.beside(tmp_path / "out", "abc") as cut:
            assert (cut.token == whole.token) == (known > 0)
            assert (cut.begun("a"), cut.stored("a")) == (known > 1, known > 2)
            cut.begin("b", 4)
            cut.store("b", {"n": 2}, True)
        with Work.beside(tmp_path / "out", "abc") as again:
            assert again.drawn("b") == ({"n": 2}, True, 4)
            assert (again.begun("a"), again.stored("a")) == (known > 1, known > 2)


def test_a_link_or_a_folder_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / ".out.run").symlink_to(victim)
    with pytest.raises(JobError, match=r"publication.folder"):
        Work.beside(tmp_path / "out", "abc")
    (tmp_path / ".out.run").unlink()
    os.link(victim, tmp_path / ".out.run")
    with pytest.raises(JobError, match="not a file of a run"):
        Work.beside(tmp_path / "out", "abc")
    (tmp_path / ".out.run").unlink()
    (tmp_path / ".out.run").mkdir()
    with pytest.raises(JobError, match=r"publication.folder"):
        Work.beside(tmp_path / "out", "abc")
    assert victim.read_text() == "mine"


@settings(max_examples=40)
@given(st.lists(st.tuples(_KEYS, _KEYS), max_size=4), st.lists(st.integers(-(2**90), 2**90), max_size=4))
def test_what_is_stored_comes_back(groups: list[tuple[object, object]], sums: list[int]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        found = Work.beside(Path(folder) / "out", "abc")
        found.begin("a", 1)
        found.store("a", record_of(Released(list(groups), (np.array(sums, dtype=object),))), False)
        drawn, private, entry = found.drawn("a")
        found.close()
        released = released_of(drawn)
    assert released.groups == groups and released.sums[0].tolist() == sums and (private, entry) == (False, 1)
    assert [type(value) for group in released.groups for value in group] == [type(value) for group in groups for value in group]


def test_marked_keys() -> None:
    for value in (datetime.date(2026, 1, 31), datetime.datetime(2026, 1, 31, 12), Decimal("1.50")):
        assert table._untyped(table._typed(value)) == value


def _old_folder(folder: Path, **files: object) -> Path:
    """A work folder as earlier versions left it."""
    found = folder / ".out.work"
    found.mkdir(mode=0o700)
    for name, content in files.items():
        (found / name.replace("__", ".")).write_text(content if isinstance(content, str) else json.dumps(content))
    return found


def test_an_old_work_folder_becomes_a_work_file(tmp_path: Path) -> None:
    stored = {"released": {"n": 1}, "private": True, "entry": 4}
    old = _old_folder(
        tmp_path, run__json={"token": "t" * 32, "digest": "abc"}, a__begun={"entry": 4}, a__json=stored, b__begun={"entry": 4}
    )
    assert Work.left_by(tmp_path / "out")
    for _ in range(2):
        with Work.beside(tmp_path / "out", "abc") as work:
            assert work.token == "t" * 32 and work.drawn("a") == ({"n": 1}, True, 4) and work.lost(["a", "b", "c"]) == ("b",)
        assert not old.exists() and [file.name for file in tmp_path.iterdir()] == [".out.run"]


def test_what_an_interrupted_removal_left_of_an_old_folder_is_no_run(tmp_path: Path) -> None:
    old = _old_folder(tmp_path, a__json={"released": {"n": 1}, "private": True, "entry": 4}, a__begun={"entry": 4})
    assert not Work.left_by(tmp_path / "out")
    with Work.beside(tmp_path / "out", "abc") as work:
        assert not work.stored("a") and not work.begun("a")
    assert not old.exists()


def test_a_damaged_old_folder_is_said_to_be_one(tmp_path: Path) -> None:
    _old_folder(tmp_path, run__json="{")
    with pytest.raises(JobError, match=r"run.json"):
        Work.beside(tmp_path / "out", "abc")


def test_a_folder_that_cannot_be_made_is_an_error_of_the_job(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"publication.folder"):
        Work.beside(tmp_path / "absent" / "out", "abc")


def test_a_staged_folder_gets_its_name(tmp_path: Path) -> None:
    staged = folders.staged_folder(tmp_path / "out", "token")
    assert stat.S_IMODE(staged.stat().st_mode) == 0o700  # until it is published
    folders.write(staged / "a.txt", "a")
    folders.publish(staged, tmp_path / "out")
    assert [file.name for file in tmp_path.iterdir()] == ["out"] and (tmp_path / "out" / "a.txt").read_text() == "a"
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o755


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


@pytest.mark.parametrize("left", ["a file", "a link", "a folder"])
def test_what_a_crash_left_in_place_of_a_staged_folder_is_thrown_away(tmp_path: Path, left: str) -> None:
    place = tmp_path / ".out.token.staged"
    if left == "a file":
        place.write_text("torn")
    elif left == "a link":
        (tmp_path / "elsewhere").mkdir()
        place.symlink_to(tmp_path / "elsewhere")
    else:
        place.mkdir()
        (place / "old.csv").write_text("stale")
    staged = folders.staged_folder(tmp_path / "out", "token")
    assert staged == place and staged.is_dir() and not staged.is_symlink() and not list(staged.iterdir())
