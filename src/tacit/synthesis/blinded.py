"""A sheet for experts: real and made-up rows in random order, to be told apart, with the key in a file of its own.

The sheet shows real rows as they are, so it is for people who may see them; it says so, as does the key. `judged` scores
the answers: experts who guess are right half of the time.

>>> sheet, key = blinded({"age": [30, 40, 50]}, {"age": [31, 41, 51]}, rows=4, seed=1)
>>> sheet.column_names, len(key), sorted(set(key))
(['row', 'age', 'real or synthetic?'], 4, ['real', 'synthetic'])
>>> judged(["real", "real", "synthetic", "synthetic"], ["real", "real", "synthetic", "synthetic"]).right
4
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import ParameterError
from tacit.parameters import count
from tacit.synthesis.evaluate import STAMP, WHY, _shared
from tacit.synthesis.synthesizer import column_of, values_of

if TYPE_CHECKING:
    import pyarrow as pa

QUESTION = "real or synthetic?"
REAL, MADE = "real", "synthetic"


def blinded(real: Any, synthetic: Any, *, rows: int = 20, seed: int | None = None) -> tuple[pa.Table, list[str]]:
    """A table of so many rows, half of them real, in random order, and what each of them is."""
    import pyarrow as pa

    half = count("rows", rows, least=2) // 2
    names = _shared(real, synthetic)
    sides = [{name: values_of(column_of(table, name)) for name in names} for table in (real, synthetic)]
    draws = np.random.default_rng(seed)
    lengths = [len(side[names[0]]) for side in sides]
    if min(lengths) < half:
        raise ParameterError(f"a sheet of {rows} rows needs {half} of each table; ask for fewer")
    picked = [(which, int(row)) for which, n in enumerate(lengths) for row in draws.choice(n, half, replace=False)]
    order = [picked[place] for place in draws.permutation(len(picked))]
    told = {name: [_text(sides[which][name][row]) for which, row in order] for name in names}
    sheet = {"row": [str(place + 1) for place in range(len(order))], **told, QUESTION: [""] * len(order)}
    return pa.table(sheet), [(REAL, MADE)[which] for which, _ in order]


def write_blinded(
    real: Any, synthetic: Any, sheet: str | Path, key: str | Path, *, rows: int = 20, seed: int | None = None
) -> None:
    """Write the sheet and its key as two files, each stamped in its first line. Keep the key apart until all have answered."""
    if Path(sheet).resolve() == Path(key).resolve():
        raise ParameterError("the key must be a file of its own")
    table, answers = blinded(real, synthetic, rows=rows, seed=seed)
    shown = [table.column_names, *zip(*(table[name].to_pylist() for name in table.column_names), strict=True)]
    _written(sheet, shown)
    _written(key, [["row", "truth"], *([str(place + 1), truth] for place, truth in enumerate(answers))])


def _written(path: str | Path, lines: Sequence[Sequence[str]]) -> None:
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        file.write(f"# {STAMP}: {WHY}\n")
        csv.writer(file).writerows(lines)


def _text(value: Any) -> str:
    """A value as text, numbers in few digits: how many digits a number has must not give it away."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Judged:
    """How many answers were right, of how many, and how likely so many or more are by guessing."""

    right: int
    asked: int
    chance: float


def judged(answers: Sequence[str], key: Sequence[str]) -> Judged:
    """Score a filled sheet; an empty answer counts as wrong."""
    if len(answers) != len(key):
        raise ParameterError(f"{len(key)} answers are needed, one a row, not {len(answers)}")
    right = sum(str(one).strip().lower() == truth for one, truth in zip(answers, key, strict=True))
    tail = sum(math.comb(len(key), k) for k in range(right, len(key) + 1)) / 2 ** len(key)
    return Judged(right, len(key), tail)
