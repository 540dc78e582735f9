"""Searched strategies on disk, so that a plan that took a minute takes a second in the next process.

A file holds a matrix of whole numbers (and for Gaussian noise the multipliers of its certificate) under a digest of the
questions and the law of noise: public things only, never a count. What is read is not trusted: sizes and entries are
checked, whoever reads recomputes error and certificate, and the price always follows from the matrix in hand. A damaged or
foreign file is ignored and written anew. `TACIT_PLAN_CACHE=off` turns it off; any other value is the folder to use.

>>> import os, tempfile
>>> before = os.environ.get("TACIT_PLAN_CACHE")
>>> os.environ["TACIT_PLAN_CACHE"] = tempfile.mkdtemp()
>>> from tacit.workloads.strategy import Need
>>> from tacit.workloads.workload import AllRanges
>>> key = digest(Need.of(AllRanges(300)), "laplace")
>>> store(key, np.eye(300, dtype=np.int64), None)
>>> load(key, 300).matrix.shape, load("0" * 64, 300)
((300, 300), None)
>>> os.environ["TACIT_PLAN_CACHE"] = before if before is not None else "off"
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tacit.mechanisms import Law
from tacit.workloads.strategy import Need
from tacit.workloads.workload import AllRanges, Array, Identity, Predicates, Prefix, Ranges, Total

#: Changed whenever a search finds other strategies than before.
VERSION = "1"
#: Columns shorter than this are searched in less time than a file is worth.
SHORTEST = 129
#: Entries of searched matrices are at most 2^18 (one, on their lattice); anything larger was not written here.
LARGEST = 2**20
VARIABLE = "TACIT_PLAN_CACHE"


@dataclass(frozen=True, eq=False)
class Stored:
    """A matrix that was searched for, and the multipliers that certify it under Gaussian noise."""

    matrix: NDArray[np.int64]
    multipliers: Array | None


def folder() -> Path | None:
    """Where files are; None where the cache is turned off."""
    given = os.environ.get(VARIABLE)
    if given is not None:
        return None if given.strip().lower() in ("", "0", "off", "no", "false") else Path(given)
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "tacit" / "plans"


def digest(need: Need, law: Law) -> str | None:
    """The name of a search; None where it is not kept: short columns, and questions that are not plainly public.

    >>> from tacit.workloads.workload import AllRanges
    >>> digest(Need.of(AllRanges(16)), "laplace") is None
    True
    """
    if need.size < SHORTEST:
        return None
    found = hashlib.sha256(f"tacit plan {VERSION} {law} {need.size}".encode())
    for weight, factor in need.factors:
        found.update(f"|{weight.hex() if isinstance(weight, float) else weight}|{type(factor).__name__}|{factor.size}".encode())
        if isinstance(factor, Ranges):
            found.update(repr(factor.ends).encode())
        elif isinstance(factor, Predicates):
            found.update(repr(factor.rows.shape).encode() + np.ascontiguousarray(factor.rows).tobytes())
        elif type(factor) not in (Identity, Total, Prefix, AllRanges):
            return None  # buckets, say, come from data; they have been published, but are no business of other plans
    return found.hexdigest()


def load(key: str, size: int) -> Stored | None:
    """What is kept under a name, if it is whole: a matrix with so many columns and small entries. No code is read."""
    place = folder()
    if place is None:
        return None
    try:
        with (place / f"{key}.npz").open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            if str(file["key"]) != key:
                return None
            matrix, multipliers = file["matrix"], file["multipliers"]
    except Exception:  # whatever is wrong with a file, it is written anew
        return None
    sound = matrix.dtype == np.int64 and matrix.ndim == 2 and matrix.shape[1] == size and len(matrix) <= 2 * size
    if not sound or (matrix.size and int(np.abs(matrix).max()) > LARGEST) or int(matrix.min(initial=0)) < -LARGEST:
        return None
    if multipliers.size == 0:
        return Stored(matrix, None)
    if multipliers.shape != (size,) or multipliers.dtype != np.float64 or not (np.isfinite(multipliers) & (multipliers > 0)).all():
        return None
    return Stored(matrix, multipliers)


def store(key: str, matrix: NDArray[np.int64], multipliers: Array | None) -> None:
    """Keep a matrix; without rows it says that no matrix beats the trees. A folder that cannot be written to changes nothing."""
    place = folder()
    if place is None:
        return
    with contextlib.suppress(OSError):
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(dir=place, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez_compressed(
                    file, key=np.array(key), matrix=matrix, multipliers=np.zeros(0) if multipliers is None else multipliers
                )
            Path(name).replace(place / f"{key}.npz")
        except OSError:
            Path(name).unlink(missing_ok=True)
