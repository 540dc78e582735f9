"""Publication: the folder appears whole, or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tacit.release import publication
from tacit.release.errors import JobError


def test_a_staged_folder_gets_its_name(tmp_path: Path) -> None:
    staged = publication.staged(tmp_path / "out", "token")
    publication.write(staged / "a.txt", "a")
    publication.publish(staged, tmp_path / "out")
    assert [file.name for file in tmp_path.iterdir()] == ["out"] and (tmp_path / "out" / "a.txt").read_text() == "a"


def test_leftovers_of_an_earlier_attempt_are_thrown_away(tmp_path: Path) -> None:
    publication.write(publication.staged(tmp_path / "out", "token") / "old.txt", "old")
    assert list(publication.staged(tmp_path / "out", "token").iterdir()) == []


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
    staged = publication.staged(target, "token")
    with pytest.raises(JobError, match="never overwritten"):
        publication.publish(staged, target)
    assert staged.exists()


def test_a_rename_that_fails_publishes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError("no space")

    staged = publication.staged(tmp_path / "out", "token")
    monkeypatch.setattr(os, "rename", full)
    with pytest.raises(JobError, match="nothing is published"):
        publication.publish(staged, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_parent_that_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="above it"):
        publication.free(tmp_path / "absent" / "out")
