"""Publishing all of a release or none of it: files are written into a folder of their own, made durable, and the folder gets its name last.

A folder that is there already is never touched: releases are not overwritten. Readers see the whole release or nothing.
"""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from pyarrow import csv, parquet

from tacit.release.errors import JobError
from tacit.release.work import sync, write
from tacit.tables.answer import MARK, Answer


def table_of(answer: Answer) -> pa.Table:
    """Keys and figures with their intervals; where figures were post-processed, the released ones stand beside as `<name>_raw`."""
    table = answer.to_arrow()
    for name, figures in (answer.raw_figures or {}).items():
        if figures is not answer.figures[name]:
            table = table.append_column(f"{name}_raw", pa.array(figures.value))
    return table if answer.private else table.append_column("not_private", pa.array([MARK] * table.num_rows))


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


def write_tables(folder: Path, answers: Mapping[str, Answer], formats: tuple[str, ...]) -> list[str]:
    """The tables in every format; the names of the files."""
    names = []
    for name, answer in answers.items():
        table = table_of(answer)
        for form in formats:
            buffer = io.BytesIO()
            if form == "csv":
                csv.write_csv(table, buffer)
            else:
                parquet.write_table(table, buffer)
            write(folder / f"{name}.{form}", buffer.getvalue())
            names.append(f"{name}.{form}")
    return names


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
