"""How far a model is from the data on many candidate marginals: L1 distances, counted on sampled rows.

The model's side of every candidate is counted on rows sampled from it, which is free and takes a millisecond; exact
inference would need one elimination a candidate. Distances are whole numbers of granules, and one row more or less in
the data moves each by at most the granules of one row: that is all a price needs to know.

>>> distances([np.array([3, 1])], [np.array([1.5, 2.5])], granules=2).tolist()
[6]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.synthesis.estimate import Model
from tacit.synthesis.junction_tree import Clique
from tacit.synthesis.sample import counted, sampled

#: Rows that are sampled at a time: ten million at once would take a gigabyte.
TOGETHER = 2**20


def distances(
    exact: Sequence[NDArray[np.int64]], expected: Sequence[NDArray[Any]], *, granules: int = 1
) -> NDArray[np.int64]:
    """|x - y|_1 of each candidate in granules of 1 / `granules` row; y is rounded to whole granules first."""
    found = []
    for counts, other in zip(exact, expected, strict=True):
        # Kept where the sum over all cells has room in 64 bits: an overflow would move by far more than a row.
        most = 2**61 // max(1, counts.size)
        whole = np.clip(np.nan_to_num(np.rint(granules * np.asarray(other, dtype=np.float64))), -most, most).astype(np.int64)
        found.append(int(np.abs(granules * counts - whole).sum()))
    return np.array(found, dtype=np.int64)


def model_counts(model: Model, candidates: Sequence[Clique]) -> list[NDArray[np.int64]]:
    """Counts of all candidates on rows sampled from the model, as many as it estimates; a million of them at a time."""
    sizes, wanted = model.tree.sizes, max(0, round(model.total))
    found = [np.zeros([sizes[column] for column in candidate], dtype=np.int64) for candidate in candidates]
    for first in range(0, wanted, TOGETHER):
        rows = sampled(model, min(TOGETHER, wanted - first))
        for table, candidate in zip(found, candidates, strict=True):
            table += counted(rows, sizes, candidate)
    return found
