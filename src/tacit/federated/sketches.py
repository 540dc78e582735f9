"""Sums of sparse vectors by a sketch: counts of keys from a universe that is too large to list.

A client has a few keys out of very many. Each key falls, by public hashes, into one cell of each of a few rows, with a
sign of its own; the noisy sum of these small tables is one question. Afterwards the count of any key is read off, as the
median over the rows of its cells (Charikar, Chen, Farach-Colton 2002). The vector is rows x width numbers, however many
keys there are.

>>> pages = sketch(1024, 5, max_contributions=1, clients=2000, epsilon=8, delta=1e-6, name="pages")
>>> answer = pages.simulate([["a.example"]] * 1200 + [[f"{i}.example"] for i in range(800)])
>>> bool(abs(pages.counts(answer, ["a.example"])[0] - 1200) < 60)
True

Guarantee
    Statement: the sketch, and all counts that are read off it, cost `question.plan.event` for one client.
    Conditions: at most `max_contributions` keys of a client; its table is clipped at the square root of that times rows.
    Proved in: a table without collisions has that norm, and one with collisions is clipped to it on the device. Reading
    counts is post-processing. The family of the hashes is public; whoever chooses it can make counts worse, not less private.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import ParameterError
from tacit.federated.analytics import ROOM, ClientAnswers, ClientQuestion, question
from tacit.federated.errors import FederatedError
from tacit.noise import permutation
from tacit.parameters import count as whole

Floats = NDArray[np.float64]
MOST_ROWS = 8  # a digest has 64 bytes, eight for each row


def cells_of(key: str, rows: int, width: int, family: str) -> tuple[NDArray[np.int64], Floats]:
    """The cell of a key in each row, counted through the whole table, and its signs.

    >>> cells, signs = cells_of("a", 2, 10, "family")
    >>> bool((cells // 10 == [0, 1]).all()), set(signs.tolist()) <= {-1.0, 1.0}
    (True, True)
    """
    # "surrogatepass": a key that is no proper text is a key all the same, and raises nothing
    digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), key=hashlib.sha256(family.encode()).digest()).digest()
    words = np.frombuffer(digest, dtype="<u8")[:rows]
    cells = (words >> np.uint64(1)) % np.uint64(width)
    return cells.astype(np.int64) + width * np.arange(rows), np.where(words & np.uint64(1), 1.0, -1.0)


def sketched(terms: Mapping[str, Any], value: Any, size: int) -> Floats:
    """One client's table as a vector; what is no list of texts counts as none.

    >>> terms = {"rows": 2, "width": 4, "contributions": 1, "family": "s"}
    >>> np.abs(sketched(terms, ["a", 5, None], 8)).sum(), sketched(terms, 7, 8).sum()
    (np.float64(2.0), np.float64(0.0))
    """
    found = np.zeros(size)
    rows, width, most = int(terms["rows"]), int(terms["width"]), int(terms["contributions"])
    listed = value if isinstance(value, list | tuple | set | frozenset) else [value]
    keys = sorted({key for key in listed if isinstance(key, str)})
    if len(keys) > most:  # which ones are kept is drawn on the device
        keys = [keys[place] for place in permutation(len(keys))[:most]]
    for key in keys:
        cells, signs = cells_of(key, rows, width, str(terms["family"]))
        found[cells] += signs
    norm, limit = float(np.sqrt(np.dot(found, found))), math.sqrt(most * rows)
    return found if norm <= limit else np.asarray(found * (limit / norm))


class SketchQuestion(ClientQuestion):
    """A question whose answer holds the counts of all keys there could be."""

    def counts(self, answer: ClientAnswers, keys: Sequence[str]) -> Floats:
        """The estimated number of clients with each key: the noise of a row is `answer.deviation`, its collisions add to it."""
        rows, width, family = (self.terms[name] for name in ("rows", "width", "family"))
        found = []
        for key in keys:
            cells, signs = cells_of(key, rows, width, family)
            found.append(float(np.median(answer.values[cells] * signs)))
        return np.array(found)

    def top(self, answer: ClientAnswers, keys: Iterable[str], number: int) -> list[tuple[str, float]]:
        """Of some candidates, which may come from public lists, those with the largest counts."""
        listed = list(keys)
        counts = self.counts(answer, listed)
        return [(listed[place], float(counts[place])) for place in np.argsort(-counts, kind="stable")[: whole("number", number)]]


def sketch(width: int, rows: int = 5, *, max_contributions: int | None, family: str = "tacit sketch", **how: Any) -> SketchQuestion:
    """Counts of keys that need not be listed before; a client counts for at most `max_contributions` of them.

    `width` decides how much keys disturb each other: about the square root of the sum of squared counts over it. `how` is
    that of `plan`.
    """
    if max_contributions is None:
        raise FederatedError(code="federated-contributions", question=str(how.get("name", "sketch")))
    if not 1 <= whole("rows", rows) <= MOST_ROWS or rows % 2 == 0:
        raise ParameterError(f"rows must be an odd number of at most {MOST_ROWS}, so that there is a middle one, not {rows}")
    most = whole("max_contributions", max_contributions)
    terms = {"kind": "sketch", "rows": rows, "width": whole("width", width), "contributions": most, "family": str(family)}
    made = question(terms, rows * width, math.sqrt(most * rows) * ROOM, range(rows * width), {"name": "sketch", **how})
    return SketchQuestion(made.plan, made.labels)
