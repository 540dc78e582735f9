"""Tables that belong together, counted where their rows are: one capped statement for the single columns of a level,
one for its pairs.

The source has a table for every level, and its unit says whose rows they are: a person's column that all tables have,
or `Unit.node` with foreign keys. Only integers leave the engine. A person's rows of a level are capped at the product
of the caps above it, which is what the noise is for; numbers of children are cut off at their caps.

>>> import pathlib, tempfile
>>> import pyarrow as pa
>>> from tacit.ledger import Budget, Ledger
>>> from tacit.synthesis.relational import Level
>>> from tacit.tables import Unit
>>> visits = pa.table({"patient": [place // 2 for place in range(900)], "sex": ["f", "f", "m", "m"] * 225,
...     "ward": ["A", "B", "B"] * 300})
>>> book = Ledger.open(f"sqlite:///{pathlib.Path(tempfile.mkdtemp()) / 'tacit.db'}")
>>> session = Session(visits, unit=Unit("patient", max_rows=3), budget=Budget(epsilon=2, delta="1e-9"), name="visits",
...     ledger=book, columns={"sex": ["f", "m"], "ward": ["A", "B"]})
>>> levels = [Level("patients", ["sex"], key="patient", rows_of="visits"),
...           Level("visits", ["ward"], of="patients", by="patient", most=3)]
>>> made = tables_from_session(session, levels, epsilon=1)
>>> tables = made.sample()
>>> {name: table.column_names for name, table in tables.items()}, round(float(session.left()["epsilon"]), 6)
({'patients': ['patient', 'sex'], 'visits': ['patient', 'ward']}, 1.0)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from tacit.accounting import Event, Guarantee, ParameterError
from tacit.exact import Typed
from tacit.ledger import paying
from tacit.synthesis.columns import Column
from tacit.synthesis.constraints import possible
from tacit.synthesis.in_engine import asked_of, checked_desk, counts_of, declared_column, delta_of, engine_cells
from tacit.synthesis.junction_tree import Clique
from tacit.synthesis.measure import Counts, concentrated_budget, gaussian_budget
from tacit.synthesis.relational import (
    CountColumn,
    Given,
    Level,
    LevelModel,
    LevelTree,
    SyntheticTables,
    check_levels,
    context,
    fit_levels,
    method_for_levels,
)
from tacit.synthesis.synthesizer import Method
from tacit.tables import Brackets, Cut, Desk, EngineError, Session

#: What sub-queries call a row's own key, its parent's, and the number of its children.
KEY, BY, NUMBER = "key_", "by_", "number_"


@dataclass(frozen=True, eq=False)
class LevelsPlan:
    """What would be fitted to a desk's tables, and its price. No data was touched."""

    tree: LevelTree
    columns: Mapping[str, tuple[Column, ...]]
    cuts: Mapping[str, Cut]
    method: Method
    budget: Guarantee
    event: Event

    def fit(self) -> tuple[LevelModel, ...]:
        """Count, measure and fit. The caller has paid."""
        return fit_levels(self.tree, self.columns, self._counts, self.budget.split(self.tree.weights()), self.method)

    def _counts(self, level: Level, columns: tuple[Column, ...], given: tuple[Given, ...]) -> Counts:
        every = (*columns, *(one.column for one in given))
        names = tuple(_name(place) for place in range(len(every)))
        count = counts_of(self.cuts[level.name], names, tuple(column.size for column in every))

        def cut_off(clique: Clique) -> NDArray[np.int64]:
            """The engine has a cell more for what is in none; a number of children is in one."""
            found = count(clique)
            return found[tuple(slice(0, every[place].size) for place in clique)]

        return cut_off

    def every(self, level: Level) -> tuple[Column, ...]:
        """The columns of a level's model: its own, the numbers of its children, what it knows of its parents."""
        return (*self.columns[level.name], *(one.column for one in context(self.tree, level, self.columns)))

    def statement(self, level: str) -> exp.Select:
        """The statement that counts all single columns of a level."""
        cut = self.cuts[level]
        return cut.statement([(name,) for name in cut.names])


def plan_tables(
    desk: Desk, levels: Sequence[Level], spend: Guarantee, *, method: str | Method = "auto"
) -> LevelsPlan:
    """What is fitted for a price; refusals depend on what is declared alone."""
    tree = LevelTree.of(levels)
    checked_desk(desk)
    if desk.unit.person is None or desk.unit.capped:
        raise ParameterError("levels need a unit with a person, whose caps are enforced: Unit('patient_id', max_rows=12)")
    chosen = method_for_levels(method)
    tables = {(level.rows_of or level.name): level for level in tree.levels}
    for name in tables:
        if name not in desk.source.tables or name in desk.source.public:
            raise ParameterError(f"the source has no private table {name}; levels are named as their tables are")
    columns: dict[str, tuple[Column, ...]] = {}
    cuts = {}
    for level in tree.levels:
        own = tuple(declared_column(desk, one, level.rows_of or level.name) if isinstance(one, str) else one for one in level.columns)
        possible(own, level.constraints)
        columns[level.name] = (*own, *tree.counts(level))
        given = context(tree, level, columns)
        cells = {_name(place): _cells(one) for place, one in enumerate((*columns[level.name], *(g.column for g in given)))}
        rows = Statements(tree, columns, desk.unit.person).rows(level, given)
        capped = replace(desk.unit, max_rows=tree.reach(level), max_groups=None, rows_per_group=None)
        own_desk = Desk.of(desk.source, capped, desk.schema, dialect=desk.dialect, confidence=desk.confidence)
        cuts[level.name] = Cut.of(own_desk, cells, rows=rows.sql(dialect=desk.dialect), outside=True)
    budget, event = (concentrated_budget if chosen.selects else gaussian_budget)(spend)
    check_levels(tree, columns, chosen)
    return LevelsPlan(tree, columns, cuts, chosen, budget, event)


def tables_from_session(
    session: Session, levels: Sequence[Level], *, guarantee: Guarantee | str | None = None,
    epsilon: Typed | None = None, delta: Typed | None = None, rho: Typed | None = None, mu: Typed | None = None,
    method: str | Method = "auto", purpose: str = "synthetic tables",
) -> SyntheticTables:
    """Models of a session's tables within a guarantee, paid from its account before a row is read.

    Columns are names that the session declares, or columns with bins of your own (see `synthesize_tables`).
    """
    spend = asked_of(session, guarantee, epsilon=epsilon, delta=delta, rho=rho, mu=mu)
    planned = plan_tables(session.desk, levels, spend, method=method)
    with paying(
        session.account, planned.event, purpose=purpose, analyst=session.analyst, delta=delta_of(session, spend), error=EngineError
    ) as payment:
        found = planned.fit()
    return SyntheticTables(planned.tree, found, planned.event, payment.private)


def _name(place: int) -> str:
    """What a column of a level's model is called in statements, whatever its own name is."""
    return f"c{place}"


def _cells(column: Column) -> Sequence[Any] | Brackets:
    if isinstance(column, CountColumn):
        return Brackets((*column.starts, column.starts[-1] + 1))
    return engine_cells(column)


@dataclass(frozen=True)
class Statements:
    """The rows of every level as a sub-query: its columns, the numbers of its children, its parents' columns.

    Every sub-query selects the person, and every join is one of a person's own rows: a key that two people share by
    mistake joins nothing of one to the other.
    """

    tree: LevelTree
    columns: Mapping[str, tuple[Column, ...]]
    person: str

    def rows(self, level: Level, given: Sequence[Given]) -> exp.Select:
        """A plain count of the rows of a level, with all its model's columns in reach."""
        above = self.tree.above(level)
        width = len(self.columns[level.name])
        found = exp.select().from_(self._level(level, "l0_"))
        outer = [_as(_column("l0_", _name(place)), _name(place)) for place in range(width)]
        for depth, one in enumerate(above, start=1):
            here, there = f"l{depth}_", f"l{depth - 1}_"
            found = found.join(self._level(one, here), on=self._joined(there, BY, here, KEY))
            wanted = [(place, g) for place, g in enumerate(given) if g.level == one.name]
            outer += [_as(_column(here, _name(g.place)), _name(width + place)) for place, g in wanted]
        found = found.select(_as(_column("l0_", self.person), self.person), *outer)
        return exp.select(_as(exp.Count(this=exp.Star()), "n")).from_(_nested(found, "rows_"))

    def _level(self, level: Level, alias: str) -> exp.Subquery:
        """A level's own columns, its keys and the numbers of its children."""
        own = [one if isinstance(one, str) else one.name for one in level.columns]
        children = self.tree.children(level)
        numbers: list[exp.Expression] = []
        if level.rows_of is None:
            found = exp.select(_as(_column("t_", self.person), self.person)).from_(_from(level.name, "t_"))
            chosen = [_as(_column("t_", name), _name(place)) for place, name in enumerate(own)]
        else:
            # People without a table: one row each, from the rows of another level.
            inner = exp.select(_as(_column("s_", self.person), self.person)).from_(_from(level.rows_of, "s_"))
            inner = inner.select(*(_as(exp.Max(this=_column("s_", name)), _name(place)) for place, name in enumerate(own)))
            inner = inner.group_by(_column("s_", self.person))
            found = exp.select(_as(_column("t_", self.person), self.person)).from_(_nested(inner, "t_"))
            chosen = [_as(_column("t_", _name(place)), _name(place)) for place in range(len(own))]
        key = self.person if level.rows_of is not None else level.key
        for place, child in enumerate(children):
            side = f"n{place}_"
            found = found.join(self._numbers(child, side), on=self._joined("t_", key or "", side, BY), join_type="left")
            numbers.append(exp.Coalesce(this=_column(side, NUMBER), expressions=[exp.Literal.number(0)]))
        chosen += [_as(number, _name(len(own) + place)) for place, number in enumerate(numbers)]
        keys = [_as(_column("t_", key), KEY)] if key and children else []
        keys += [_as(_column("t_", level.by), BY)] if level.by else []
        return _nested(found.select(*keys, *chosen), alias)

    def _numbers(self, child: Level, alias: str) -> exp.Subquery:
        """How many rows of a child each key has, for every person."""
        by = [_column("r_", self.person)] + ([_column("r_", child.by)] if child.by and child.by != self.person else [])
        found = exp.select(_as(_column("r_", self.person), self.person)).from_(_from(child.name, "r_"))
        found = found.select(_as(_column("r_", child.by or ""), BY), _as(exp.Count(this=exp.Star()), NUMBER))
        return _nested(found.group_by(*by), alias)

    def _joined(self, left: str, first: str, right: str, second: str) -> exp.Expression:
        """Equal keys, among the rows of one person."""
        same = exp.EQ(this=_column(left, self.person), expression=_column(right, self.person))
        return exp.And(this=exp.EQ(this=_column(left, first), expression=_column(right, second)), expression=same)


def _column(table: str, name: str) -> exp.Column:
    return exp.column(name, table=table, quoted=True)


def _as(value: exp.Expression, name: str) -> exp.Expression:
    return exp.Alias(this=value, alias=exp.to_identifier(name, quoted=True))


def _nested(query: exp.Select, alias: str) -> exp.Subquery:
    return exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))


def _from(name: str, alias: str) -> exp.Table:
    found = exp.to_table(".".join(f'"{part}"' for part in name.split(".")))
    found.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
    return found
