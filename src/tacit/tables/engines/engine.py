"""What an engine must do: run one statement in its dialect and hand back a small Arrow table.

An engine also answers for two things that SQL dialects do differently. A statement must never fail because of a row: `prepare`, where
an engine has it, turns casts and arithmetic that could into forms that cannot. And where rows are put into an order, `shuffle_key` is a
hash of the engine's own, or with `portable` one that is the same on all engines (see `tacit.tables.engines.order`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa
from sqlglot import exp

from tacit.tables.errors import TableError

#: The types that counts and sums have in Arrow.
INT64, DECIMAL = pa.int64(), pa.decimal128(38, 0)
#: The mark, in a statement's `meta`, that it will be sent again as it is: an engine may keep its text with it.
KEPT = "tacit_kept"


#: Texts that some collation takes for one: without regard to case, to accents, to how they are composed, to what is not seen.
ALIKE = (("a", "A"), ("a", "\u00e1"), ("\u00e9", "e\u0301"), ("a", "a\u200b"))


def collation_probe(relation: exp.Expression, names: Sequence[str]) -> exp.Select:
    """For each column of texts, whether its collation takes different texts for one. No row is read.

    >>> print(collation_probe(exp.to_table("t"), ["k"]).sql("duckdb").split(" OR ")[0])
    SELECT COALESCE((SELECT "k" FROM t WHERE FALSE), 'a') = 'A'
    """
    chosen = []
    for name in names:
        none = exp.Select(expressions=[exp.column(name, quoted=True)]).from_(relation.copy(), copy=False).where(exp.false(), copy=False)
        pairs = [
            exp.EQ(
                this=exp.Coalesce(this=exp.Subquery(this=none.copy()), expressions=[exp.Literal.string(one)]),
                expression=exp.Literal.string(other),
            )
            for one, other in ALIKE
        ]
        chosen.append(exp.alias_(exp.or_(*pairs, copy=False), name, quoted=True))
    return exp.Select(expressions=chosen)


def refuse_collated(names: Sequence[str], table: str) -> None:
    """Refuse a table with a column under whose collation different texts are one.

    A row would be in several groups at once, and of the texts that are one, rows would decide which is published.
    """
    if names:
        raise TableError(
            f"the column {names[0]} of {table} has a collation that takes different texts for one, so that a row would be in several "
            f"groups; ask about a view of the table that has its texts as they are: {names[0]} COLLATE \"C\" AS {names[0]}"
        )


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
