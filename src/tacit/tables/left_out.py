"""People whose rows are in no statement: those who withdrew, objected or were erased.

`LeftOut` stands in front of an engine. Every statement that is sent through it reads the private tables without the
people on a list, by an anti-join on the person, so that sessions, workloads and release jobs need not know of it.
The list is a table beside the data, in the same engine; its names are in no statement.

>>> import pyarrow as pa
>>> from sqlglot import parse_one
>>> from tacit.tables.source import Source
>>> source = Source.of(pa.table({"id": [1, 1, 2], "age": [30, 31, 44]}), name="visits")
>>> source.engine.register("tacit_left_out", pa.table({"person": [1]}))
>>> engine = LeftOut(source.engine, {"visits": "id"}, "tacit_left_out")
>>> engine.run(parse_one("SELECT COUNT(*) AS n FROM visits")).to_pydict()
{'n': [1]}

Guarantee
    Statement: the rows after the anti-join differ between two neighbouring data sets by the rows of the same person
    that they differed by before: stability 1 for the unit, so no price changes.
    Conditions: the list is the people's own doing. Who is on it does not depend on the rows of anyone else, and a
    person's entry on it is added and removed together with that person.
    Where proved: book, chapter 16 (withdrawal); a filter by a predicate of the person is 1-stable (McSherry 2009).
    Correction: the list is private. No one who may ask is told how long it is or on which day it changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from tacit.tables.engines.engine import KEPT, Engine, run_aside, unlinked
from tacit.tables.errors import TableError

if TYPE_CHECKING:
    import pyarrow as pa

#: The column of the list.
PERSON = "person"
_DONE = "tacit_left_out"


class LeftOut:
    """An engine whose private tables lack the people on a list. `tables` names the person's column of each of them."""

    def __init__(self, engine: Engine, tables: Mapping[str, str], listed: str) -> None:
        if not tables:
            raise TableError("people can be left out where a private table has their column; this source has none")
        self.engine, self.listed = engine, listed
        self._columns = {name.casefold(): column for name, column in tables.items()}

    def __getattr__(self, name: str) -> Any:
        # everything else is the engine's own: types, functions, what the ledger knows the rows by
        return getattr(self.engine, name)

    @property
    def dialect(self) -> str:
        """The engine's."""
        return self.engine.dialect

    def columns(self, relation: exp.Expression) -> dict[str, str]:
        """The engine's."""
        return self.engine.columns(relation)

    def run(self, statement: exp.Expression) -> pa.Table:
        """The statement, about everyone who is not on the list."""
        if KEPT not in statement.meta:
            return self.engine.run(self.without(statement))
        # a statement that is sent again is rewritten once
        found = statement.meta.get(_DONE)
        if found is None:
            found = self.without(statement)
            found.meta[KEPT] = True
            statement.meta[_DONE] = found
        return self.engine.run(found)

    def run_aside(self, statement: exp.Expression) -> pa.Table:
        """A statement about public things, without waiting for one that runs; if it names a private table, without those on the list."""
        return run_aside(self.engine, self.without(statement))

    def without(self, statement: exp.Expression) -> exp.Expression:
        """The statement with an anti-join in the place of every private table."""
        tree = statement.copy()
        for table in list(tree.find_all(exp.Table)):
            name = ".".join(part.name for part in (table.args.get("db"), table.this) if isinstance(part, exp.Identifier))
            column = self._columns.get(name.casefold())
            if column is not None:
                table.replace(self._others(table, column))
                unlinked(table)
        unlinked(tree)
        return tree

    def _others(self, table: exp.Table, column: str) -> exp.Subquery:
        alias, base = table.alias_or_name, table.copy()
        base.set("alias", exp.TableAlias(this=exp.to_identifier("rows_of_all", quoted=True)))
        person = exp.column(column, "rows_of_all", quoted=True)
        gone = exp.Select(expressions=[exp.Literal.number(1)]).from_(
            exp.alias_(exp.to_table(self.listed, quoted=True), "left_out", table=True, quoted=True), copy=False
        )
        gone = gone.where(exp.EQ(this=exp.column(PERSON, "left_out", quoted=True), expression=person), copy=False)
        every = exp.Select(expressions=[exp.Column(this=exp.Star(), table=exp.to_identifier("rows_of_all", quoted=True))])
        kept = every.from_(base, copy=False).where(exp.Not(this=exp.Exists(this=gone)), copy=False)
        return exp.Subquery(this=kept, alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
