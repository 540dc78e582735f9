"""A mutant of questions about odd types: an engine that fails where a secret holds, which is an answer without noise.

The real code stands beside it, on the same rows: there the question is refused by its types, before anything is paid.

>>> [mutant.name for mutant in mutants()][0]
'tables: a type that is matched by how its name begins'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tacit.accounting import Guarantee
from tacit.audit.claim import Claim
from tacit.audit.selftest.case import Mutant
from tacit.tables import Desk, EngineError, Source, TableError, Unit

#: So many answers: what the fault shows, it shows in every one.
TRIALS = 150

Answers = Callable[[Any, int], NDArray[np.float64]]


def _outcome(types: Mapping[str, str]) -> Answers:
    """Whether a question about person 17 is answered, by her age; `types` replaces what the engine says of columns."""

    def run(age: int, n: int) -> NDArray[np.float64]:
        people = pa.table({"id": [17], "age": [age], "tags": [["b"]]})
        desk = Desk.of(Source.of(people, name="people"), Unit("id", max_rows=1), loss=False)
        known = {name: types.get(name, kind) for name, kind in (desk.catalog.tables["people"].columns or {}).items()}
        table = replace(desk.catalog.tables["people"], columns=known)
        desk = replace(desk, catalog=replace(desk.catalog, tables={"people": table}))
        answered = 0.0
        try:
            question = desk.question("SELECT COUNT(*) AS n FROM people WHERE age >= 64 AND tags = 'a'")
            desk.draw(desk.plan(question, Guarantee(epsilon=1)))
            answered = 1.0
        except (TableError, EngineError):
            pass
        return np.full(n, answered)

    return run


def mutants() -> list[Mutant]:
    """A fault, caught by what it does to the outcome."""
    one = Claim.of(epsilon=1)
    return [
        Mutant(
            "tables: a type that is matched by how its name begins", _outcome({"tags": "VARCHAR"}), _outcome({}), (64, 30), one, TRIALS,
            "A list of texts counts as a text, and the engine fails where a row gets as far.", bulk=True,
        ),
    ]  # fmt: skip
