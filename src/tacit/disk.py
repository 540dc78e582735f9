"""Files as every system has them: what makes them durable, who holds them, and how one takes another's place.

POSIX and Windows differ here, and nowhere else in the package. Windows refuses to sync a file through a handle that
cannot write, has no handles of folders, and locks a range of bytes where POSIX locks a file. Everything that
must survive a crash, or must have one owner, goes through these functions.

>>> import pathlib, tempfile
>>> file = pathlib.Path(tempfile.mkdtemp()) / "release.json"
>>> write_whole(file, b"{}")
>>> file.read_bytes(), [path.name for path in file.parent.iterdir()]
(b'{}', ['release.json'])
"""

from __future__ import annotations

import contextlib
import os
from importlib import import_module
from os import PathLike
from typing import Any

Path = str | PathLike[str]


def _on_this_system(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None


fcntl = _on_this_system("fcntl")  # POSIX
msvcrt = _on_this_system("msvcrt")  # Windows
#: Whether a folder can be opened, and so synced.
FOLDERS_OPEN = os.name == "posix"
#: The byte that is locked on Windows, far behind the end of any file here: a locked byte cannot be read by others.
LOCKED_BYTE = 1 << 40


def sync_file(path: Path) -> None:
    """Wait until the content of a file is on the disk. The handle can write, as Windows demands."""
    handle = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk; systems that cannot open folders do this by themselves."""
    if not FOLDERS_OPEN:
        return
    with contextlib.suppress(PermissionError, IsADirectoryError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that after a crash it is there whole or not at all."""
    name = os.fspath(path)
    part = f"{name}.part"
    with open(part, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(part, name)
    sync_folder(os.path.dirname(os.path.abspath(name)))


def lock(handle: int) -> None:
    """Hold an open file alone until the handle is closed; BlockingIOError where another process has it.

    The handle must be able to write. The system lets go when the process ends, however it ends.
    """
    if fcntl is not None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    elif msvcrt is not None:
        place = os.lseek(handle, 0, os.SEEK_CUR)
        try:
            os.lseek(handle, LOCKED_BYTE, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError(*error.args) from None
        finally:
            os.lseek(handle, place, os.SEEK_SET)
