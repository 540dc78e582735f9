"""The two folders of a run: a private one to work in, and the one that is published.

The work folder makes a run resumable. It says which run in the ledger pays, which outputs were begun, and what was drawn. Under one payment
each output is drawn at most once: `begin` is on the disk before the data is touched, `store` after the noise was added. An output that was
begun and not stored is lost; drawing it again would be a second release for one price. What is stored was released, yet the folder is
private: until all checks have passed, nothing of it is published.

A release is published whole or not at all. Files are written into a folder beside the target and made durable, and the folder gets its name
last. A folder that is there already is never touched.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.release.errors import JobError, OutputLost


@dataclass(frozen=True)
class Work:
    """A work folder on the disk. `token` names the run in the ledger."""

    folder: Path
    token: str
    digest: str

    @staticmethod
    def beside(target: Path, digest: str) -> Work:
        """The work folder of the run that publishes to `target`: a new one, or the one that an earlier attempt left."""
        folder = target.parent / f".{target.name}.work"
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise JobError(
                f"the work folder beside it cannot be made ({error.strerror or type(error).__name__}); check the path",
                place="publication.folder",
            ) from None
        file = folder / "run.json"
        if file.exists():
            known = _read(file)
            if known.get("digest") != digest:
                raise JobError(
                    f"an unfinished run of another version of this job, or of its data, is in {folder.name}; finish that one, "
                    "or remove the folder (what it spent stays spent)",
                    place="publication.folder",
                )
            return Work(folder, str(known["token"]), digest)
        work = Work(folder, secrets.token_hex(16), digest)
        write(file, json.dumps({"token": work.token, "digest": digest}))
        return work

    @staticmethod
    def left_by(target: Path) -> bool:
        """Whether an unfinished run is there."""
        return (target.parent / f".{target.name}.work" / "run.json").exists()

    def begun(self, name: str) -> bool:
        return (self.folder / f"{name}.begun").exists()

    def stored(self, name: str) -> bool:
        return (self.folder / f"{name}.json").exists()

    def lost(self, names: list[str]) -> tuple[str, ...]:
        """Outputs that were begun and not stored."""
        return tuple(name for name in names if self.begun(name) and not self.stored(name))

    def begin(self, name: str, entry: int) -> None:
        """Say, durably, that this output's data is about to be touched, and which entry of the ledger pays. Only one run can say so."""
        taken = False
        try:
            with open(self.folder / f"{name}.begun", "x", encoding="utf-8") as stream:
                stream.write(json.dumps({"entry": entry}))
                stream.flush()
                os.fsync(stream.fileno())
        except FileExistsError:
            taken = True
        if taken:
            raise OutputLost((name,))
        sync(self.folder)

    def again(self, name: str, entry: int) -> None:
        """Begin a lost output once more, under another reservation: never under one that it was begun under before."""
        file = self.folder / f"{name}.begun"
        if _read(file).get("entry") == entry:
            raise JobError("an output is drawn once under a reservation", place="outputs")
        write(file, json.dumps({"entry": entry}))

    def store(self, name: str, drawn: Mapping[str, Any], private: bool) -> None:
        """Keep what was drawn."""
        entry = _read(self.folder / f"{name}.begun")["entry"]
        write(self.folder / f"{name}.json", json.dumps({"released": drawn, "private": private, "entry": entry}))

    def drawn(self, name: str) -> tuple[dict[str, Any], bool, int]:
        """What was drawn, whether privately, and which entry paid."""
        record = _read(self.folder / f"{name}.json")
        return record["released"], bool(record["private"]), int(record["entry"])

    def remove(self) -> None:
        """The run is over."""
        shutil.rmtree(self.folder, ignore_errors=True)


def write(file: Path, text: str | bytes) -> None:
    """Write a file so that after a crash it is there whole or not at all."""
    content = text.encode() if isinstance(text, str) else text
    part = file.with_name(f"{file.name}.part")
    with open(part, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(part, file)
    sync(file.parent)


def sync(folder: Path) -> None:
    """Make the names in a folder durable, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _read(file: Path) -> dict[str, Any]:
    found: Any = None
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise JobError(f"{file.name} in the work folder cannot be read; remove the folder to start anew (what was spent stays spent)")
    return found


# --- the published folder -------------------------------------------------------------------------------------------------------------


def free(target: Path) -> None:
    """Refuse a target that exists, or whose parent does not."""
    if target.exists() or target.is_symlink():
        raise JobError(
            "the folder is there already, and a release is never overwritten; name another, or move it away", place="publication.folder"
        )
    if not target.parent.is_dir():
        raise JobError("the folder above it does not exist; make it first", place="publication.folder")


def staged(target: Path, token: str) -> Path:
    """An empty folder beside the target, on the same file system; what an earlier attempt left in it is thrown away."""
    folder = target.parent / f".{target.name}.{token[:8]}.staged"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o755)
    return folder


def publish(folder: Path, target: Path) -> None:
    """Give the staged folder its name, in one step of the file system."""
    for place, _, files in os.walk(folder):
        for name in files:
            with open(Path(place) / name, "rb") as stream:
                os.fsync(stream.fileno())
        sync(Path(place))
    free(target)
    try:
        os.rename(folder, target)
    except OSError as error:
        raise JobError(
            f"the release could not get its name ({type(error).__name__}); nothing is published; run again to go on",
            place="publication.folder",
        ) from None
    sync(target.parent)
