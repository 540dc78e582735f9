"""The disk under a run: one work file that makes it resumable, and one rename that publishes it.

The work file says which run of the ledger pays, which outputs were begun, and what was drawn. It is a journal:
lines are appended and synced, never changed, and a line that was cut off by a crash counts as not written. It
begins to exist with its first line and is gone with one unlink, so there is no half of it. The release is
staged in a hidden folder, which gets its public name last. Whether anything may still be drawn is not decided
here but by the ledger: see `tacit.release.running`.

>>> import pathlib, tempfile
>>> place = pathlib.Path(tempfile.mkdtemp()) / "out"
>>> with Work.beside(place, digest="job and data") as work:
...     work.begin("run", 7)
...     work.store("run", {"sums": [[3]]}, private=True)
>>> Work.left_by(place)
True
>>> with Work.beside(place, digest="job and data") as again:
...     again.token == work.token, again.drawn("run"), again.lost(["run", "other"])
...     again.remove()
(True, ({'sums': [[3]]}, True, 7), ())
>>> Work.left_by(place)
False

**One draw for one payment.** `begin` is on the disk before the data is touched, `store` after the noise was added. An output that was
begun and not stored is lost: drawing it again would be a second release for one price. Of two processes that begin an output under one
payment, the one whose line is first in the file has it. Where the system has locks, the second does not get that far.

**Old work folders.** Earlier versions kept a folder of files. An unfinished run in one becomes the first line of a work file; a folder
that lost its `run.json` to an interrupted removal belongs to no run, and nothing in it is ever published.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from tacit import disk
from tacit.release.errors import JobError, OutputLost

PLACE = "publication.folder"
#: How files end that hold the curator's check of the data: a run refuses to publish beside one.
NOT_PRIVATE = (".not-private.json", ".not-private.txt")
_START = 16  # hexadecimal digits of the hash in front of a line


@dataclass(frozen=True)
class Begun:
    """A line that says an output's data is about to be touched: which entry pays, and whose claim it is."""

    entry: int
    claim: str


@dataclass
class Journal:
    """What the lines of a work file say, in their order: the first line of a kind wins."""

    token: str = ""
    digest: str = ""
    begun: dict[str, list[Begun]] = field(default_factory=dict)
    stored: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)  # by output and claim

    def take(self, lines: bytes) -> Journal:
        """Read lines of a work file; what is not a whole line was never written."""
        for line in lines.split(b"\n"):
            said = _said(line)
            if said is not None:
                self._take(said)
        return self

    def _take(self, said: Mapping[str, Any]) -> None:
        if "run" in said:
            if self.token:
                return
            self.token, self.digest = str(said["run"]), str(said["digest"])
            for one in said.get("lines", ()):  # of an old work folder
                self._take(one)
        elif "begin" in said:
            listed = self.begun.setdefault(str(said["begin"]), [])
            if all(known.entry != said["entry"] for known in listed):
                listed.append(Begun(int(said["entry"]), str(said["claim"])))
        elif "store" in said:
            self.stored.setdefault((str(said["store"]), str(said["claim"])), dict(said))

    def drawn(self, name: str) -> dict[str, Any] | None:
        """The draw of the last beginning of an output."""
        listed = self.begun.get(name)
        return self.stored.get((name, listed[-1].claim)) if listed else None


def _line(said: Mapping[str, Any]) -> bytes:
    text = json.dumps(said).encode()
    return hashlib.sha256(text).hexdigest()[:_START].encode() + b" " + text


def _said(line: bytes) -> dict[str, Any] | None:
    """What a line says; None where it is not whole."""
    mark, _, text = line.partition(b" ")
    if not text or hashlib.sha256(text).hexdigest()[:_START].encode() != mark:
        return None
    said: dict[str, Any] = json.loads(text)
    return said


class Work:
    """An open work file. `token` names the run in the ledger; the file is locked until `close`, where the system can."""

    def __init__(self, file: Path, handle: int) -> None:
        self.file = file
        self.token = ""
        self._handle: int | None = handle
        self._known, self._place, self._unread = Journal(), 0, b""

    @staticmethod
    def beside(target: Path, digest: str) -> Work:
        """The work file of the run that publishes to `target`: a new one, or the one that an earlier attempt left.

        `digest` is of the job and its data. An attempt at another job, or at other data, is refused.
        """
        file = _file(target)
        try:
            work = Work(file, _opened(file))
            with _closed_after_an_error(work):
                work._begin(target, digest)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise JobError(f"the work file beside it cannot be written ({reason}); check the path", place=PLACE) from None
        return work

    def _begin(self, target: Path, digest: str) -> None:
        found = self._reread()
        if not found.token:
            first = _old_run(target) or {"run": secrets.token_hex(16), "digest": digest}
            self._append(first)
            sync(self.file.parent)
            found = self._reread()
        if found.digest != digest:
            raise JobError(code="run-of-another-job", work=self.file.name, place=PLACE)
        self.token = found.token
        # After the line is on the disk: an old folder that is still there is not read again.
        _put_away(_old_folder(target))

    @staticmethod
    def left_by(target: Path) -> bool:
        """Whether an unfinished run is there."""
        try:
            with open(_file(target), "rb") as stream:
                if Journal().take(stream.read()).token:
                    return True
        except FileNotFoundError:
            pass
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise JobError(f"the work file {_file(target).name} cannot be read ({reason})", place=PLACE) from None
        return (_old_folder(target) / "run.json").exists()

    def __enter__(self) -> Work:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file and its lock; the run can go on later."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    # --- lines ------------------------------------------------------------------------------------------------

    def _reread(self) -> Journal:
        """What the file says now. Lines are only added, so what was read before is not read again."""
        assert self._handle is not None
        blocks = [self._unread]
        os.lseek(self._handle, self._place, os.SEEK_SET)
        while block := os.read(self._handle, 1 << 20):
            blocks.append(block)
            self._place += len(block)
        whole, _, self._unread = b"".join(blocks).rpartition(b"\n")
        return self._known.take(whole).take(self._unread)  # the last line may be whole but for its end; reading it twice changes nothing

    def _append(self, said: Mapping[str, Any]) -> None:
        """Add a line, durably. It starts on a new line, whatever a crash left at the end of the file."""
        left = memoryview(b"\n" + _line(said) + b"\n")
        assert self._handle is not None
        while left:
            left = left[os.write(self._handle, left) :]
        os.fsync(self._handle)

    def begun(self, name: str) -> bool:
        """Whether this output's data may have been touched."""
        return name in self._known.begun

    def stored(self, name: str) -> bool:
        """Whether the output's draw is here."""
        return self._known.drawn(name) is not None

    def lost(self, names: list[str]) -> tuple[str, ...]:
        """Outputs that were begun and not stored."""
        found = self._known
        return tuple(name for name in names if name in found.begun and found.drawn(name) is None)

    def begin(self, name: str, entry: int) -> None:
        """Say, durably, that this output's data is about to be touched, and which entry of the ledger pays. Only one run can say so."""
        if self.begun(name):
            raise OutputLost((name,))
        self._claim(name, entry)

    def again(self, name: str, entry: int) -> None:
        """Begin a lost output once more, under another reservation: never under one that it was begun under before."""
        if any(known.entry == entry for known in self._known.begun.get(name, ())):
            raise JobError("an output is drawn once under a reservation", place="outputs")
        self._claim(name, entry)

    def _claim(self, name: str, entry: int) -> None:
        claim = secrets.token_hex(8)
        self._append({"begin": name, "entry": entry, "claim": claim})
        if self._reread().begun[name][-1] != Begun(entry, claim):
            raise OutputLost((name,))  # another process was first

    def store(self, name: str, drawn: Mapping[str, Any], private: bool) -> None:
        """Keep what was drawn under the last beginning of the output."""
        claim = self._known.begun[name][-1]
        self._append({"store": name, "claim": claim.claim, "entry": claim.entry, "private": private, "released": drawn})
        self._reread()

    def drawn(self, name: str) -> tuple[dict[str, Any], bool, int]:
        """What was drawn, whether privately, and which entry paid."""
        found = self._known.drawn(name)
        if found is None:
            raise OutputLost((name,))
        return found["released"], bool(found["private"]), int(found["entry"])

    def remove(self) -> None:
        """The run is over: in one step of the file system, so that no part of it can be left."""
        os.unlink(self.file)
        sync(self.file.parent)
        self.close()


@contextlib.contextmanager
def _closed_after_an_error(work: Work) -> Iterator[None]:
    try:
        yield
    except BaseException:
        work.close()
        raise


def _file(target: Path) -> Path:
    return target.parent / f".{target.name}.run"


def _opened(file: Path) -> int:
    """The work file, made if need be, private and locked. It is not followed where it is a link."""
    how = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    while True:
        handle = os.open(file, how, 0o600)
        try:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
                raise JobError(f"{file.name} beside it is not a file of a run; move it away", place=PLACE)
            disk.lock(handle)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.stat(file), found):
                    return handle
        except BlockingIOError:
            os.close(handle)
            raise JobError(code="run-at-work", place=PLACE) from None
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # another process finished the run, and removed the file, between opening and locking


# --- work folders of earlier versions -------------------------------------------------------------------------------------------------


def _old_folder(target: Path) -> Path:
    return target.parent / f".{target.name}.work"


def _old_run(target: Path) -> dict[str, Any] | None:
    """The unfinished run in an old work folder, as the first line of a work file."""
    folder = _old_folder(target)
    if not (folder / "run.json").exists():
        return None
    known, lines = _old(folder / "run.json"), list[dict[str, Any]]()
    for file in sorted(folder.glob("*.begun")):
        name = file.name.removesuffix(".begun")
        begun = {"begin": name, "entry": int(_old(file)["entry"]), "claim": "old"}
        lines.append(begun)
        if (folder / f"{name}.json").exists() and name != "run":
            lines.append({**begun, **_old(folder / f"{name}.json"), "store": name})
            del lines[-1]["begin"]
    return {"run": str(known["token"]), "digest": known.get("digest"), "lines": lines}


def _old(file: Path) -> dict[str, Any]:
    found: Any = None
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise JobError(f"{file.name} in {file.parent.name} cannot be read; remove the folder to start anew (what was spent stays spent)")
    return found


def _put_away(folder: Path) -> None:
    """Remove an old work folder. It loses its name first, in one step: no part of it can be taken for a run."""
    if not folder.is_dir() or folder.is_symlink():
        return
    gone = folder.with_name(f"{folder.name}.{secrets.token_hex(4)}.old")
    os.rename(folder, gone)
    sync(folder.parent)
    shutil.rmtree(gone, ignore_errors=True)


# --- files and the published folder ---------------------------------------------------------------------------------------------------


def write(file: Path, text: str | bytes) -> None:
    """Write a file so that after a crash it is there whole or not at all."""
    disk.write_whole(file, text.encode() if isinstance(text, str) else text)


def sync(folder: Path) -> None:
    """Make the names in a folder durable, where the system can."""
    disk.sync_folder(folder)


def free(target: Path) -> None:
    """Refuse a target that exists, or whose parent does not."""
    if target.exists() or target.is_symlink():
        raise JobError("the folder is there already, and a release is never overwritten; name another, or move it away", place=PLACE)
    if not target.parent.is_dir():
        raise JobError("the folder above it does not exist; make it first", place=PLACE)


def checks_beside(target: Path) -> list[str]:
    """Files with the curator's checks in the folder where a release is going to stand."""
    parent = target.parent
    return sorted(file.name for file in parent.iterdir() if file.name.endswith(NOT_PRIVATE)) if parent.is_dir() else []


def staged_folder(target: Path, token: str) -> Path:
    """An empty private folder beside the target, on the same file system; what an earlier attempt left in it is thrown away."""
    folder = target.parent / f".{target.name}.{token[:8]}.staged"
    # A disk that lost its power may have left a file, or a link, where the folder was.
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    return folder


def publish(folder: Path, target: Path) -> None:
    """Give the staged folder its name, in one step of the file system."""
    for place, _, files in os.walk(folder):
        for name in files:
            disk.sync_file(Path(place) / name)
        sync(Path(place))
    free(target)
    try:
        os.chmod(folder, 0o755)
        os.rename(folder, target)
    except OSError as error:
        raise JobError(
            f"the release could not get its name ({type(error).__name__}); nothing is published; run again to go on", place=PLACE
        ) from None
    sync(target.parent)


def published_by(target: Path) -> str:
    """Which run published a folder; empty where none did."""
    try:
        return str(json.loads((target / "release.json").read_text(encoding="utf-8"))["ledger"]["run"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
