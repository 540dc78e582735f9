"""A disk that remembers what a crash at any system call would leave behind.

`Disk(folder)` stands in front of `os` and `open`. Before every call that changes something below the folder it keeps
pictures of the folder: as a kill leaves it, and as a loss of power does. A kill keeps what was handed to the system; a
write may be cut off in the middle. A loss of power keeps what was synced: the content of a file at its last fsync, the
names in a folder at its last fsync, and either may have got further than the other. The files of the book are one thing,
synced when its log is.

SQLite writes by itself. `in_sqlite()` has it call back at every statement and every few instructions of one; there a kill
is pictured too, and where the log or the file of the book has changed since, kills in the middle of that: a log that ends at any
frame or within one, a file of which only some pages are new.
"""

from __future__ import annotations

import builtins
import hashlib
import io
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

Tree = dict[str, "bytes | Tree"]
CALLS = ("open", "write", "fsync", "rename", "replace", "unlink", "remove", "mkdir", "rmdir", "link", "chmod")
PAGE, HEADER = 4096, 32  # bytes: of a page, and of the head of a log
FRAME = PAGE + 24  # bytes of a frame of the log: its own head and a page
_real = {name: getattr(os, name) for name in CALLS}


@dataclass(frozen=True)
class Picture:
    """What a crash left: the folder's content, after which call, by what kind of crash, and how many draws had been made."""

    tree: Tree
    call: int
    what: str
    crash: str
    draws: int

    @property
    def digest(self) -> bytes:
        return _digest(self.tree)

    def laid_out(self, folder: Path) -> Path:
        folder.mkdir()
        _lay(self.tree, folder)
        return folder


def _digest(tree: bytes | Tree) -> bytes:
    if isinstance(tree, bytes):
        return hashlib.sha256(b"f" + tree).digest()
    parts = [name.encode() + _digest(tree[name]) for name in sorted(tree) if not name.endswith("-shm")]
    return hashlib.sha256(b"d" + b"".join(parts)).digest()


def _lay(tree: Tree, folder: Path) -> None:
    for name, content in tree.items():
        if isinstance(content, dict):
            (folder / name).mkdir()
            _lay(content, folder / name)
        else:
            (folder / name).write_bytes(content)


def _is_book(name: str) -> bool:
    return ".db" in name


def cut_off(name: str, old: bytes, content: bytes) -> list[bytes]:
    """A file of a book on its way from one content to the next: a log that ends at any frame or within one, a file with some new pages."""
    if name.endswith("-wal") and content[: len(old)] == old:
        frames = range(len(old) or HEADER, len(content), FRAME)
        return [content[:cut] for end in frames for cut in (end, end + FRAME // 2) if cut < len(content)]
    if name.endswith(".db"):
        pages = [content[:cut] + old[cut:] for cut in range(PAGE, len(content), PAGE)]
        return [page for page in pages if page not in (content, old)]
    return []


class Disk:
    """Takes pictures. `fault(number, name, path)` may raise in place of a call, such as an OSError for a full disk."""

    def __init__(self, folder: Path, draws: Callable[[], int], fault: Callable[[int, str, str], None] | None = None) -> None:
        self.folder = folder
        self.draws, self.fault = draws, fault
        self.calls = self.callbacks = 0
        self._last: Tree = {}
        self.pictures: list[Picture] = []
        self.seen: set[str] = set()
        self._seen: set[bytes] = set()
        self._files: dict[int, bytes] = {}  # durable content by inode
        self._names: dict[int, dict[str, int]] = {}  # durable names by the folder's inode
        self._book: Tree = {}
        for place, _, files in os.walk(folder):
            self._settled(Path(place))
            for name in files:
                self._files[os.stat(Path(place) / name).st_ino] = (Path(place) / name).read_bytes()
        self._keep_book()

    # --- what is there ----------------------------------------------------------------------------------------

    def _settled(self, folder: Path) -> None:
        self._names[os.stat(folder).st_ino] = {entry.name: entry.inode() for entry in os.scandir(folder)}

    def _keep_book(self) -> None:
        self._book = {e.name: Path(e).read_bytes() for e in os.scandir(self.folder) if e.is_file() and _is_book(e.name)}

    def killed(self) -> Tree:
        """As it is now: what was handed to the system stays."""
        return _tree(self.folder)

    def powerless(self, *, names: bool, contents: bool) -> Tree:
        """What is on the disk: unsynced names or contents are there only where they happened to be written already."""
        inodes: dict[int, Path] = {}
        for place, _, files in os.walk(self.folder):
            for found in (Path(place), *(Path(place) / name for name in files)):
                inodes[os.stat(found).st_ino] = found

        def of(inode: int) -> bytes | Tree | None:
            path = inodes.get(inode)
            if not path.is_dir() if path is not None else inode not in self._names:
                if contents and path is not None:
                    return path.read_bytes()
                return self._files.get(inode, b"" if path is not None else None)
            now = {e.name: e.inode() for e in os.scandir(path)} if path is not None else {}
            listed = now if names and path is not None else self._names.get(inode, {})
            found = {name: of(below) for name, below in listed.items() if not _is_book(name)}
            return {name: content for name, content in found.items() if content is not None}

        tree = of(os.stat(self.folder).st_ino)
        assert isinstance(tree, dict)
        return {**tree, **self._book}

    def _pictured(self, what: str) -> None:
        for crash, tree in (
            ("kill", self.killed()),
            ("power", self.powerless(names=False, contents=False)),
            ("power, names", self.powerless(names=True, contents=False)),
            ("power, contents", self.powerless(names=False, contents=True)),
        ):
            self._add(tree, what, crash)

    def _add(self, tree: Tree, what: str, crash: str) -> None:
        picture = Picture(tree, self.calls, what, crash, self.draws())
        mark = picture.digest + str(picture.draws).encode()
        if mark not in self._seen:
            self._seen.add(mark)
            self.pictures.append(picture)

    # --- SQLite ---------------------------------------------------------------------------------------------------

    def _in_book(self, what: str) -> None:
        """A kill now, or while the book got from its last state to this one."""
        self.callbacks += 1
        if self.fault is not None:
            self.fault(self.callbacks, "sqlite", what)
        now = self.killed()
        for name, content in now.items():
            old = self._last.get(name, b"")
            if not isinstance(content, bytes) or not isinstance(old, bytes) or content == old or not _is_book(name):
                continue
            for part in cut_off(name, old, content):
                self._add({**now, **self._last_book(), name: part}, f"in sqlite, {what}", "kill")
        self._add(now, f"at sqlite's {what}", "kill")
        self._last = now

    def _last_book(self) -> Tree:
        return {name: content for name, content in self._last.items() if _is_book(name)}

    @contextmanager
    def in_sqlite(self, every: int = 50) -> Iterator[Disk]:
        """Have every connection that is opened in the block call back, at each statement and at so many of its instructions."""
        plain = sqlite3.connect

        def connected(*given: Any, **more: Any) -> sqlite3.Connection:
            connection = plain(*given, **more)
            connection.set_trace_callback(lambda statement: self._in_book(statement.split(" ")[0]))
            connection.set_progress_handler(lambda: self._in_book("progress"), every)  # None lets it go on
            return connection

        self._last = self.killed()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(sqlite3, "connect", connected)
            yield self
        self._in_book("end")

    # --- calls ------------------------------------------------------------------------------------------------

    def _below(self, place: object) -> bool:
        if isinstance(place, int):
            try:
                place = os.readlink(f"/proc/self/fd/{place}")
            except OSError:
                return False
        if not isinstance(place, (str, os.PathLike)):
            return False
        return os.fspath(place) == str(self.folder) or os.fspath(place).startswith(f"{self.folder}{os.sep}")

    def _call(self, name: str, *given: Any, **more: Any) -> Any:
        if not given or not self._below(given[0]):
            return _real[name](*given, **more)
        self.calls += 1
        self.seen.add(name)
        self._pictured(f"before {name}")
        if self.fault is not None:
            self.fault(self.calls, name, str(given[0]))
        if name == "write" and len(given[1]) > 1:
            handle, content = given
            half = len(content) // 2
            _real["write"](handle, content[:half])
            self._pictured("in the middle of write")
            return half + int(_real["write"](handle, content[half:]))
        new = name in ("open", "mkdir") and not os.path.lexists(given[0])
        answer = _real[name](*given, **more)
        if new:  # the system may give a new file the number of one that is gone
            number = os.stat(given[0]).st_ino
            self._files.pop(number, None)
            self._names.pop(number, None)
        if name == "fsync":
            found, path = os.fstat(given[0]), os.readlink(f"/proc/self/fd/{given[0]}")
            if path.endswith("-wal"):
                self._keep_book()
            elif os.path.isdir(path):
                self._settled(Path(path))
            else:
                with open(path, "rb") as stream:
                    self._files[found.st_ino] = stream.read()
        return answer

    def _open(self, place: Any, mode: str = "r", *rest: Any, **more: Any) -> Any:
        if isinstance(place, int) or not self._below(place) or not set(mode) & set("wax+"):
            return _open(place, mode, *rest, **more)
        assert mode in ("wb", "xb", "ab"), mode
        flags = {"w": os.O_TRUNC, "x": os.O_EXCL, "a": os.O_APPEND}[mode[0]]
        handle = self._call("open", os.fspath(place), os.O_WRONLY | os.O_CREAT | flags, 0o666)
        return io.BufferedWriter(_Raw(self, handle))

    @contextmanager
    def in_place(self) -> Iterator[Disk]:
        """Take pictures of what the block does, and one after it."""
        with pytest.MonkeyPatch.context() as patched:
            for name in CALLS:
                patched.setattr(os, name, lambda *given, _name=name, **more: self._call(_name, *given, **more))
            patched.setattr(io, "open", self._open)
            patched.setattr(builtins, "open", self._open)
            yield self
        self._pictured("after everything")


_open = builtins.open


class _Raw(io.RawIOBase):
    """A file whose writes are calls of the disk."""

    def __init__(self, disk: Disk, handle: int) -> None:
        self.disk, self.handle = disk, handle

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.handle

    def write(self, content: Any) -> int:
        return int(self.disk._call("write", self.handle, bytes(content)))

    def close(self) -> None:
        if not self.closed:
            os.close(self.handle)
        super().close()


def _tree(folder: Path) -> Tree:
    found: Tree = {}
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            found[entry.name] = _tree(Path(entry))
        elif entry.is_file():
            with _open(entry.path, "rb") as stream:
                found[entry.name] = stream.read()
    return found
