"""Files on POSIX and, under simulation, on Windows: writable handles for every sync, locks on a byte, no handles of folders."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import tacit
from tacit import disk
from tacit.release import work

SOURCES = Path(tacit.__file__).parent


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[int, int], int]:
    """What Windows does: fsync needs a handle that can write, folders have none, bytes are locked, one holder each."""
    held: dict[tuple[int, int], int] = {}
    plain_sync, plain_open = os.fsync, os.open

    def sync(handle: int) -> None:
        os.write(handle, b"")  # EBADF on a handle that only reads, as _commit() has it
        plain_sync(handle)

    def opened(path: object, flags: int, *rest: int, **more: object) -> int:
        if os.path.isdir(path):  # type: ignore[arg-type]
            raise PermissionError(13, "Permission denied")
        return plain_open(path, flags, *rest)  # type: ignore[arg-type]

    def locking(handle: int, mode: int, count: int) -> None:
        found = os.fstat(handle)
        key = (found.st_ino, os.lseek(handle, 0, os.SEEK_CUR))
        if held.setdefault(key, handle) != handle:
            raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(disk, "FOLDERS_OPEN", False)
    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(disk, "fcntl", None)
    monkeypatch.setattr(disk, "msvcrt", SimpleNamespace(locking=locking, LK_NBLCK=2))
    return held


def test_files_are_synced_through_handles_that_can_write(windows: object, tmp_path: Path) -> None:
    disk.write_whole(str(tmp_path / "a.json"), b"[1]")
    disk.sync_file(str(tmp_path / "a.json"))
    disk.sync_folder(str(tmp_path))
    assert (tmp_path / "a.json").read_bytes() == b"[1]"


def test_a_release_is_published_on_windows(windows: object, tmp_path: Path) -> None:
    """It ended in EBADF: every file of the folder was synced through a handle that only reads."""
    folder = tmp_path / "staged"
    folder.mkdir()
    (folder / "table.csv").write_text("a\n1\n")
    work.publish(folder, tmp_path / "release")
    assert (tmp_path / "release" / "table.csv").read_text() == "a\n1\n"


def test_a_lock_on_windows_has_one_holder_and_leaves_the_file_readable(windows: dict[tuple[int, int], int], tmp_path: Path) -> None:
    file = tmp_path / "run"
    file.write_bytes(b"abc")
    first, second = (os.open(file, os.O_RDWR) for _ in range(2))
    os.lseek(first, 1, os.SEEK_SET)
    disk.lock(first)
    assert os.lseek(first, 0, os.SEEK_CUR) == 1  # reading goes on where it was
    assert [place for _, place in windows] == [disk.LOCKED_BYTE]
    with pytest.raises(BlockingIOError):
        disk.lock(second)
    assert os.read(second, 3) == b"abc"
    os.close(first)
    os.close(second)


def test_a_lock_has_one_holder_here(tmp_path: Path) -> None:
    file = tmp_path / "run"
    handle = os.open(file, os.O_RDWR | os.O_CREAT)
    disk.lock(handle)
    program = f"import os; from tacit import disk; disk.lock(os.open({str(file)!r}, os.O_RDWR))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "BlockingIOError" in found.stderr
    os.close(handle)
    assert subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 0


def test_systems_differ_in_one_module_only() -> None:
    for file in SOURCES.rglob("*.py"):
        if file != SOURCES / "disk.py":
            found = re.findall(r"\bimport (?:fcntl|msvcrt)\b|\bos\.fsync\(", file.read_text())
            # an open log of the ledger is synced through the writable handle it has
            assert not found or (found == ["os.fsync("] and file.name in ("store.py", "work.py")), file
