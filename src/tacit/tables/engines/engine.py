"""What an engine must do: run one statement in its dialect and hand back a small Arrow table.

An engine also answers for two things that SQL dialects do differently. A statement must never fail because of a row: `prepare`, where
an engine has it, turns casts and arithmetic that could into forms that cannot. And where rows are put into an order, `shuffle_key` is a
hash of the engine's own, or with `portable` one that is the same on all engines (see `tacit.tables.engines.order`).
"""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa
from sqlglot import exp

#: The mark, in a statement's `meta`, that it will be sent again as it is: an engine may keep its text with it.
KEPT = "tacit_kept"


class Engine(Protocol):
    """A place where rows live. Adding one is writing these members; docs/engines.md shows it on a toy."""

    @property
    def dialect(self) -> str:
        """sqlglot's name of the engine's SQL."""

    def run(self, statement: exp.Expression) -> pa.Table:
        """The statement's result; only aggregates are ever asked for. Raises `EngineError` without the engine's own words."""

    def columns(self, relation: exp.Expression) -> dict[str, str]:
        """The public schema of a relation, name to SQL type, without reading a row."""

    def shuffle_key(self, salt: int, values: list[exp.Expression]) -> exp.Expression:
        """An expression to order by that is a pseudorandom function of the values, keyed by the salt."""

    def is_nan(self, value: exp.Expression) -> exp.Expression:
        """Whether a floating-point value is NaN, never an error."""
