"""Questions in SQL: parsed in the user's dialect into a `Question`, or refused with what is not understood and what to write instead.

>>> parse("SELECT region, COUNT(*) AS n, AVG(age) FROM visits GROUP BY region", "duckdb").aggregates[0].name
'n'
>>> question = parse("SELECT SUM(cost) / COUNT(*) AS each FROM visits ORDER BY each DESC LIMIT 5", "postgres")
>>> [a.kind for a in question.aggregates], question.outputs[0].value.sql(), question.limit
(['sum', 'count'], '"sum(cost)" / "count(*)"', 5)

Garbage in any form gives a `TableError`, of which `Refused` is one kind, and never another exception.

HISTOGRAM counts the rows in each of some public bins, as one measurement. A row is in one bin or in none, so a histogram of a hundred bins
costs what one count costs. Empty bins are answered too. What lies beyond the outer edges, NULL and NaN are in no bin.

>>> from sqlglot import parse_one
>>> found, bins = unfolded(parse_one("SELECT region, HISTOGRAM(age, 0, 18, 65) AS n FROM visits GROUP BY region"))
>>> print(found.expressions[1].sql())
CASE WHEN age < 0 THEN NULL WHEN age < 18 THEN '[0, 18)' WHEN age <= 65 THEN '[18, 65]' END AS "age"
>>> found.expressions[2].sql(), len(found.args["group"].expressions)
('COUNT(*) AS "n"', 2)
>>> bins.name, bins.labels, bins.ends["[18, 65]"]
('age', ('[0, 18)', '[18, 65]'), (18.0, 65.0))
"""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError

from tacit.tables import grammar
from tacit.tables.dialects import Asked, per_group, settled, spoken, understood
from tacit.tables.errors import Refused, TableError
from tacit.tables.expressions import number, total, why_not
from tacit.tables.forms import as_whole, in_zone
from tacit.tables.from_clause import refuse_clauses, rows_of
from tacit.tables.joins import rewritten
from tacit.tables.question import (
    EVALUATED,
    Aggregate,
    Key,
    Order,
    Output,
    Question,
    aggregated,
    contribution_bounds,
    grouped_by,
    levels_of,
    named_key,
    narrowed,
    rank,
    recast,
    whole,
    written,
)
from tacit.tables.relation import Catalog, Resolve

#: Longer questions are refused before they are parsed.
LONGEST = 100_000
MOST_NODES, DEEPEST = 5_000, 100
AGGREGATES = (
    "COUNT, COUNT(DISTINCT), COUNT_IF, SUM, AVG, VAR_POP, VAR_SAMP, STDDEV_POP, STDDEV_SAMP, MIN, MAX, MEDIAN, PERCENTILE_CONT, QUANTILE, "
    "COVAR_POP, COVAR_SAMP, CORR, HISTOGRAM"
)

_PLAIN: dict[type[exp.Expression], str] = {
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.Min: "min",
    exp.Max: "max",
    exp.Variance: "var_samp",
    exp.VariancePop: "var_pop",
    exp.Stddev: "stddev_samp",
    exp.StddevSamp: "stddev_samp",
    exp.StddevPop: "stddev_pop",
}
_PAIRS: dict[type[exp.Expression], str] = {exp.CovarPop: "covar_pop", exp.CovarSamp: "covar_samp", exp.Corr: "corr"}
#: Window functions that are computed of released figures.
WINDOWED = (exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Count, exp.RowNumber, exp.Rank, exp.DenseRank, exp.Lag, exp.Lead)
_QUANTILES = (exp.PercentileCont, exp.PercentileDisc, exp.Quantile, exp.ApproxQuantile)
_NEEDS_NUMBERS = ("sum", "avg", "var_samp", "var_pop", "stddev_samp", "stddev_pop", "quantile", "min", "max", *_PAIRS.values())


def parse(text: str, dialect: str, catalog: Catalog | None = None) -> Question:
    """The question that a SELECT statement asks. Without a catalogue of tables only one table can be asked about, and types are not
    known."""
    if not isinstance(text, str):
        raise TableError("a question must be text: SELECT COUNT(*) FROM visits")
    plain, asked = understood(text) if len(text) <= LONGEST else (text, Asked())
    return question_of(read(plain, dialect), dialect, catalog, asked)


def read(text: str, dialect: str, into: type[exp.Expression] | None = None) -> exp.Expression:
    """One statement or expression, small enough to be worked on; every failure is a TableError."""
    if len(text) > LONGEST:
        raise TableError(f"a question must have at most {LONGEST} characters, not {len(text)}")
    if "\0" in text:
        raise TableError("a question must not contain the character NUL")
    trees: Sequence[object] = []
    try:
        with _silent():
            trees = sqlglot.parse(text, read=dialect) if into is None else [sqlglot.parse_one(text, read=dialect, into=into)]
        problem = None
    except ParseError as error:
        found = error.errors[0] if error.errors else {}
        where = f" at line {found['line']}, column {found['col']}" if found.get("line") is not None else ""
        problem = f"{str(found.get('description') or 'it does not parse').rstrip('.')}{where}"
    except RecursionError:
        problem = "it is nested too deeply"
    except Exception:
        problem = "it does not parse"
    if problem is not None:
        raise TableError(f"this is not SQL that {dialect} understands: {problem}")
    present = [tree for tree in trees if isinstance(tree, exp.Expression)]
    if len(present) != 1:
        raise TableError(
            "a question is one statement; ask one after the other" if present else "the question is empty: SELECT COUNT(*) FROM visits"
        )
    _check_size(present[0])
    return spoken(present[0], dialect)


@contextmanager
def _silent() -> Iterator[None]:
    """The parser would write a question that it does not know to the log; what is wrong with it is said once, by us."""
    log = logging.getLogger("sqlglot")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


def _check_size(tree: exp.Expression) -> None:
    seen = 0
    level = [tree]
    for _ in range(DEEPEST):
        seen += len(level)
        if seen > MOST_NODES:
            raise TableError("the question is too large; split it, or compute parts of it in a view")
        level = [child for node in level for child in node.iter_expressions()]
        if not level:
            return
    raise TableError("the question is nested too deeply; split it, or compute parts of it in a view")


def question_of(tree: exp.Expression, dialect: str, catalog: Catalog | None = None, asked: Asked | None = None) -> Question:
    """The question of a parsed statement."""
    while isinstance(tree, exp.Subquery) and tree.args.get("alias") is None:
        tree = tree.this
    if isinstance(tree, exp.SetOperation):
        raise Refused(
            "a question is one SELECT; ask two questions, or put UNION ALL into FROM: SELECT COUNT(*) FROM (... UNION ALL ...) AS t"
        )
    if not isinstance(tree, exp.Select):
        raise Refused("a question is one SELECT statement")
    refuse_clauses(tree, "having", "order", "limit", "offset")
    if catalog is not None and not _of_one_table(tree):
        tree = rewritten(tree, catalog.unit.person)
    whole_tree = tree
    person = catalog.unit.person if catalog is not None else None
    asked = asked or Asked()
    tree, bins = unfolded(tree)
    given, tree = tree, per_group(tree, person or asked.person, _rows_of_one(catalog, tree))
    asked = settled(asked, person, given is not tree)
    rows, resolve = rows_of(tree, catalog)
    if rows.public:
        raise Refused("only public tables are asked about; they need no noise: query them directly")
    found = _binned(_Reader(tree, dialect, resolve, person, asked).question(), bins)
    # Last, because the readers say better why: what none of them has looked at is refused here.
    grammar.check(whole_tree)
    return replace(found, relation=rows) if catalog is not None else replace(found, relation=rows.expression())


def _of_one_table(tree: exp.Select) -> bool:
    """Whether it has no join and no sub-query, as most questions; then no join is written in another way."""
    return not any(node is not tree for node in tree.find_all(exp.Select, exp.Join))


def _rows_of_one(catalog: Catalog | None, tree: exp.Select) -> int | None:
    """How many rows of one person a group of the question may have, where that is known."""
    if catalog is None or catalog.unit.person is None or catalog.unit.automatic:
        return None
    return (catalog.unit.rows_per_group if tree.args.get("group") else None) or catalog.unit.most_rows


def _binned(question: Question, bins: Bins | None) -> Question:
    """The question with the public bins of its histogram, which is all that it asks for."""
    if bins is None:
        return question
    if [a.kind for a in question.aggregates] != ["count"]:
        raise Refused("beside HISTOGRAM there would be a figure for each bin; ask for other aggregates in a question of their own")
    keys = tuple(replace(k, listed=bins.labels, ends=bins.ends) if k.name == bins.name else k for k in question.keys)
    return replace(question, keys=keys)


@dataclass
class _Reader:
    """Reads the SELECT list and what stands behind it; aggregates are gathered as they occur."""

    tree: exp.Select
    dialect: str
    resolve: Resolve
    person: str | None
    asked: Asked
    aggregates: list[Aggregate] = field(default_factory=list)
    keys: list[tuple[exp.Expression, Key]] = field(default_factory=list)
    names: dict[str, exp.Expression] = field(default_factory=dict)
    levels: list[list[exp.Expression]] = field(default_factory=list)
    windows: list[tuple[str, exp.Window]] = field(default_factory=list)

    def question(self) -> Question:
        projections = self.tree.expressions
        grouping = self._grouping()
        outputs: list[Output] = []
        simple = True
        named = [(projection.unalias(), self._name(projection)) for projection in projections]
        places = [self._place(inner, grouping) for inner, _ in named]
        # Keys first, so that what is computed of them finds them, wherever it stands.
        for (_, name), place in zip(named, places, strict=True):
            if place is not None:
                self._key(grouping[place], name)
        for key in grouping:
            if not any(key == known for known, _ in self.keys):
                self._key(key, key.name if isinstance(key, exp.Column) else key.sql(dialect=self.dialect).lower())
                simple = False
        for (inner, name), place in zip(named, places, strict=True):
            if place is not None:
                value: exp.Expression = exp.column(name, quoted=True)
            else:
                aggregate = aggregated(inner)
                if aggregate is None and not any(aggregated(node) for node in inner.walk()):
                    self._released_alone(inner, name)
                value = self.released(inner, name if aggregate is not None else None)
                simple = simple and isinstance(value, exp.Column)
            if name in [output.name for output in outputs]:
                raise TableError(f"two columns of the answer are called {name}; give one another name with AS")
            outputs.append(Output(name, value))
            self.names[name] = value
        for output in outputs:
            beside = [name for end in ("low", "high") if (name := f"{output.name}_{end}") in [other.name for other in outputs]]
            if beside:
                raise TableError(f"{beside[0]} is where the interval of {output.name} stands; give one of the two another name with AS")
        shown = len(self.aggregates)
        having = self._having()
        order, limit, offset = self._order(outputs), self._limit(), self._offset()
        if not self.aggregates:
            raise Refused("the question has no aggregate: rows themselves are never released")
        keys = tuple(key for _, key in self.keys)
        direct = [key.name for key in keys] + [a.name for a in self.aggregates]
        if (
            simple
            and shown == len(self.aggregates)
            and direct == [o.name for o in outputs]
            and all(o.value.name == o.name for o in outputs)
        ):
            outputs = []
        where = self.tree.args.get("where")
        condition = None if where is None else total(where.this, self.resolve, boolean=True).sql
        levels = tuple(tuple(key.name for known, key in self.keys if known in level) for level in self.levels)
        return Question(
            exp.null(), keys, tuple(self.aggregates), condition, having, order, limit, tuple(outputs), self.asked, offset,
            levels, tuple(self.windows),
        )  # fmt: skip

    def _name(self, projection: exp.Expression) -> str:
        """What a column of the answer is called."""
        inner = projection.unalias()
        if isinstance(inner, exp.Star) or (isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)):
            raise Refused("SELECT * asks for rows, which are never released; ask for aggregates: COUNT(*), SUM(column), AVG(column)")
        return str(projection.alias or (inner.name if isinstance(inner, exp.Column) else inner.sql(dialect=self.dialect).lower()))

    def _released_alone(self, inner: exp.Expression, name: str) -> None:
        """Refuse what is no aggregate, unless it is a constant, or computed of keys alone."""
        if isinstance(inner, exp.Anonymous):
            raise Refused(f"{inner.name.upper()} is neither an aggregate that is known here nor in GROUP BY; aggregates are {AGGREGATES}")
        if isinstance(inner, exp.Window):
            raise Refused(why_not(inner))
        if isinstance(inner, exp.Column) or not self._of_keys(inner):
            raise Refused(f"{name} is neither an aggregate nor in GROUP BY: rows themselves are never released")
        if any(inner.find_all(exp.Column)) and not isinstance(inner, EVALUATED):
            raise Refused(f"{name} is computed of a key, so put it into GROUP BY too; arithmetic and CASE of keys need not be there")

    def _of_keys(self, tree: exp.Expression) -> bool:
        """Whether an expression has no column but in keys, and in names of released values."""
        keys = [known for known, _ in self.keys]
        if tree in keys or (isinstance(tree, exp.Column) and not tree.table and tree.name in self.names):
            return True
        if isinstance(tree, exp.Column):
            return self._place(tree, keys) is not None
        return all(self._of_keys(child) for child in tree.iter_expressions())

    def _grouping(self) -> list[exp.Expression]:
        group = self.tree.args.get("group")
        if group is None:
            return []
        if any(group.args.get(part) for part in ("rollup", "cube", "grouping_sets")) or group.find(exp.Rollup, exp.Cube, exp.GroupingSets):
            group, levels = levels_of(group)
            self.levels = [[named_key(term, self.tree.expressions) for term in level] for level in levels]
        keys = grouped_by(group, self.tree.expressions, self.resolve)
        for key in keys:
            if any(aggregated(node) for node in key.walk()):
                raise Refused("GROUP BY cannot contain an aggregate")
        return list(dict.fromkeys(keys))

    def _place(self, tree: exp.Expression, keys: Sequence[exp.Expression]) -> int | None:
        """Which key a term is, however it is written: with a table's name or not, in capitals or not."""
        if tree in keys:
            return list(keys).index(tree)
        columns = list(tree.find_all(exp.Column))
        if not keys or not columns or any(aggregated(node) for node in tree.walk()):
            return None
        named = {p.alias for p in self.tree.expressions if isinstance(p, exp.Alias)}
        if any(not node.table and node.name in named and not self._is_column(node) for node in columns):
            return None  # computed of a released value, by its name
        meant = total(tree, self.resolve).sql
        return next((i for i, key in enumerate(keys) if total(key, self.resolve).sql == meant), None)

    def _is_column(self, node: exp.Column) -> bool:
        try:
            self.resolve(node)
        except TableError:
            return False
        return True

    def _key(self, tree: exp.Expression, name: str) -> None:
        value = total(tree, self.resolve)
        if value.kind == "instant":
            raise Refused(in_zone(value))
        if value.kind in ("other", "null"):
            raise Refused(f"{name} has a type that cannot be a key; cast it: GROUP BY CAST({name} AS VARCHAR)")
        if value.constant is not None:
            raise Refused(f"{name} is a constant, so there is nothing to group by")
        if self.person is not None and isinstance(value.sql, exp.Column) and value.sql.name == self.person:
            raise Refused(f"GROUP BY {name} would answer about single people; group by something that many share")
        if all(known.name != name for _, known in self.keys):
            self.keys.append((tree, Key(value.sql, name)))

    # --- aggregates ---------------------------------------------------------------------------------------------------------------

    def aggregate(self, node: exp.Expression, name: str | None) -> exp.Expression:
        """The column of released figures that an aggregate stands for; asked for once however often it is written."""
        text = node.sql(dialect=self.dialect).lower()
        made = self._aggregate(node, name or text)
        for known in self.aggregates:
            if replace(known, name=made.name) == made and (name is None or known.name == name):
                return exp.column(known.name, quoted=True)
        taken = {known.name for known in self.aggregates}
        if made.name in taken:
            raise TableError(f"two columns of the answer are called {made.name}; give one another name with AS")
        self.aggregates.append(made)
        return exp.column(made.name, quoted=True)

    def _aggregate(self, node: exp.Expression, name: str) -> Aggregate:
        condition: exp.Expression | None = None
        if isinstance(node, exp.Filter):
            node, condition = node.this, node.expression.this
        node = node.this if isinstance(node, exp.IgnoreNulls) else node
        node, order = (node.this, node.expression) if isinstance(node, exp.WithinGroup) else (node, None)
        if isinstance(node, exp.Bracket):
            return self._approximate(node, name)
        node, bounds, per_group = contribution_bounds(node)
        if per_group:
            raise Refused("contribution_bounds_per_group belongs to SUM, COUNT and AVG of a SELECT WITH DIFFERENTIAL_PRIVACY")
        if order is not None:
            if not isinstance(node, _QUANTILES) or len(order.expressions) != 1:
                raise Refused("WITHIN GROUP belongs to PERCENTILE_CONT and PERCENTILE_DISC, with one ORDER BY")
            q = rank(node.this)
            node = exp.Quantile(
                this=order.expressions[0].this, quantile=exp.Literal.number(str(1 - q if order.expressions[0].args.get("desc") else q))
            )
        made = self._kind(node, name, condition)
        return replace(made, bounds=bounds) if bounds is not None else made

    def _kind(self, node: exp.Expression, name: str, condition: exp.Expression | None) -> Aggregate:
        inner = node.this
        one = exp.Literal.number(1)
        if isinstance(node, exp.CountIf):
            return Aggregate("count_value", self.value(one, narrowed(condition, inner), "count_value"), name)
        if isinstance(node, exp.ApproxDistinct):
            return Aggregate("count_distinct", self.value(inner, condition, "count_distinct"), name)
        if isinstance(node, exp.Count):
            if inner is None:
                inner = exp.Star()  # DuckDB's COUNT() is COUNT(*)
            if node.expressions or (isinstance(inner, exp.Distinct) and len(inner.expressions) != 1):
                raise Refused("COUNT takes one value; COUNT(DISTINCT a || ' ' || b) counts pairs")
            if isinstance(inner, exp.Distinct):
                value = self.value(inner.expressions[0], condition, "count_distinct")
                if self.person is not None and isinstance(value, exp.Column) and value.name == self.person:
                    return Aggregate("count_person", None, name)
                return Aggregate("count_distinct", value, name)
            if isinstance(inner, exp.Star) or (isinstance(inner, exp.Literal) and not inner.is_string):
                return (
                    Aggregate("count", None, name)
                    if condition is None
                    else Aggregate("count_value", self.value(one, condition, "count_value"), name)
                )
            return Aggregate("count_value", self.value(inner, condition, "count_value"), name)
        if isinstance(inner, exp.Distinct):
            raise Refused(f"{node.key.upper()}(DISTINCT ...) can change by any amount with one row; only COUNT takes DISTINCT")
        if isinstance(node, exp.Median):
            return Aggregate("quantile", self.value(inner, condition, "quantile"), name, quantile=Fraction(1, 2))
        if isinstance(node, _QUANTILES):
            where = node.args.get("quantile") or node.args.get("expression")
            return Aggregate("quantile", self.value(inner, condition, "quantile"), name, quantile=rank(where))
        if type(node) in _PAIRS:
            kind = _PAIRS[type(node)]
            return Aggregate(kind, self.value(inner, condition, kind), name, self.value(node.expression, condition, kind))
        if type(node) in _PLAIN and not node.expressions:
            kind = _PLAIN[type(node)]
            quantile = {"min": Fraction(0), "max": Fraction(1)}.get(kind)
            return Aggregate(kind, self.value(inner, condition, kind), name, quantile=quantile)
        if isinstance(node, (exp.LogicalOr, exp.LogicalAnd)):
            raise Refused("whether any row, or every row, is true hangs on a single one; ask how many are: COUNT_IF(condition)")
        raise Refused(f"{written(node)} is not one of the aggregates that can be answered; they are {AGGREGATES}")

    def _approximate(self, node: exp.Bracket, name: str) -> Aggregate:
        """BigQuery's APPROX_QUANTILES(x, 4)[OFFSET(2)] is the rank 2/4."""
        inner, places = node.this, node.expressions
        if not isinstance(inner, exp.ApproxQuantiles) or len(places) != 1:
            raise Refused("brackets are understood only in APPROX_QUANTILES(x, n)[OFFSET(k)]")
        # ORDINAL counts from 1, OFFSET from 0.
        parts, place = rank(inner.expression, whole=True), rank(places[0], whole=True) - int(node.args.get("offset") or 0)
        if not 0 <= place <= parts or parts < 1:
            raise TableError("APPROX_QUANTILES(x, n)[OFFSET(k)] needs 0 <= k <= n")
        return Aggregate("quantile", self.value(inner.this, None, "quantile"), name, quantile=place / parts)

    def value(self, tree: exp.Expression, condition: exp.Expression | None, kind: str) -> exp.Expression:
        """The total expression that an aggregate is about, NULL where a FILTER does not hold."""
        if condition is not None:
            tree = exp.Case(ifs=[exp.If(this=condition.copy(), true=tree.copy())])
        found = total(tree, self.resolve)
        if kind == "count_distinct" and found.kind in ("other", "instant"):
            raise Refused(in_zone(found) if found.kind == "instant" else "COUNT(DISTINCT ...) of this type needs a CAST to a text first")
        if kind in _NEEDS_NUMBERS and found.kind == "boolean":
            return as_whole(found).sql
        if kind in _NEEDS_NUMBERS and found.kind in ("date", "timestamp", "nanoseconds", "instant"):
            what = found.name or "a date"
            moment = what if found.kind != "instant" else f"{what} AT TIME ZONE 'UTC'"
            day = what if found.kind == "date" else f"CAST({moment} AS DATE)"
            raise Refused(
                f"{kind.upper()} needs numbers, and {what} is a {found.kind}; count days from a public date, with bounds of their own: "
                f"DATE_DIFF('day', DATE '2020-01-01', {day})"
            )
        sized = found.kind == "decimal" and found.size is not None
        if kind in _NEEDS_NUMBERS and not sized and found.kind not in ("integer", "real", "float"):
            # A bare column of unknown type stays as it is: the planner knows its type.
            found = found if found.kind == "any" and isinstance(found.sql, exp.Column) else number(found, kind.upper())
        return found.sql

    # --- released values ----------------------------------------------------------------------------------------------------------

    def released(self, tree: exp.Expression, name: str | None = None) -> exp.Expression:
        """An expression of aggregates and keys as one of released names."""
        if aggregated(tree) is not None:
            return self.aggregate(tree, name)
        if isinstance(tree, exp.Column) and not tree.table and tree.name in self.names:
            return self.names[tree.name].copy()
        place = next((i for i, (known, _) in enumerate(self.keys) if known == tree), None)
        if place is None and isinstance(tree, exp.Column):
            place = self._place(tree, [known for known, _ in self.keys])
        if place is not None:
            return exp.column(self.keys[place][1].name, quoted=True)
        if isinstance(tree, exp.Column):
            raise Refused(f"{tree.name} is neither an aggregate, nor in GROUP BY, nor a name of the SELECT list")
        if isinstance(tree, exp.Window) and (self.keys or self.aggregates):
            return self._window(tree)
        if isinstance(tree, (exp.Window, exp.Query, exp.Exists)):
            raise Refused(why_not(tree))
        if isinstance(tree, exp.Cast):
            return self.released(recast(tree))
        if isinstance(tree, exp.SafeDivide):
            tree = exp.Div(this=tree.this, expression=tree.expression)
        if not isinstance(tree, EVALUATED):
            raise Refused(f"{written(tree)} cannot be computed of released values; arithmetic, comparisons, ROUND, CASE and COALESCE can")
        made = tree.copy()
        for part, child in list(made.args.items()):
            if isinstance(child, list):
                made.set(part, [self.released(c) if isinstance(c, exp.Expression) else c for c in child])
            elif isinstance(child, exp.Expression) and not isinstance(child, exp.Identifier):
                made.set(part, self.released(child))
        if isinstance(made, exp.Div):
            quotient = exp.Div(this=made.this, expression=made.expression)
            if not (tree.args.get("typed") and self._whole(tree.this) and self._whole(tree.expression)):
                return quotient
            # In the user's dialect 7 / 2 is 3.
            below = exp.LT(this=quotient, expression=exp.Literal.number(0))
            return exp.Case(ifs=[exp.If(this=below, true=exp.Ceil(this=quotient.copy()))], default=exp.Floor(this=quotient.copy()))
        if isinstance(made, exp.Round) and made.args.get("decimals") is not None:
            decimals = made.args["decimals"]
            if not isinstance(decimals, exp.Literal) or not decimals.this.isdigit() or int(decimals.this[:9]) > 15:
                raise Refused("the decimals of ROUND must be a whole constant from 0 to 15")
        return made

    def _window(self, tree: exp.Window) -> exp.Expression:
        """A window function over the released lines; a name stands for it."""
        if self.levels:
            raise Refused("a window over sub-totals would add them to what they are sums of; ask without ROLLUP, CUBE or GROUPING SETS")
        made = exp.Window(this=tree.this.copy())
        extra = [name for name, value in tree.args.items() if name not in ("this", "partition_by", "order", "over") and value]
        if extra or not isinstance(tree.this, WINDOWED):
            raise Refused(
                "of window functions over released figures SUM, AVG, MIN, MAX, COUNT, ROW_NUMBER, RANK, DENSE_RANK, LAG and LEAD are "
                "computed, without a frame of rows"
            )
        for part in ("this", "expression", "offset", "default"):
            value = made.this.args.get(part)
            if isinstance(value, exp.Expression) and not isinstance(value, (exp.Literal, exp.Star)):
                made.this.set(part, self.released(value))
        made.set("partition_by", [self.released(part) for part in tree.args.get("partition_by") or []])
        order = tree.args.get("order")
        if order is not None:
            terms = [(term, term.this if isinstance(term, exp.Ordered) else term) for term in order.expressions]
            made.set("order", exp.Order(expressions=[
                exp.Ordered(this=self.released(inner), desc=isinstance(term, exp.Ordered) and bool(term.args.get("desc")))
                for term, inner in terms
            ]))  # fmt: skip
        for name, known in self.windows:
            if known == made:
                return exp.column(name, quoted=True)
        self.windows.append((f"window_{len(self.windows)}_", made))
        return exp.column(self.windows[-1][0], quoted=True)

    def _whole(self, tree: exp.Expression) -> bool:
        """Whether a released value is a whole number to a dialect that tells them apart."""
        if isinstance(tree, exp.Filter):
            return self._whole(tree.this)
        if isinstance(tree, (exp.Paren, exp.Neg)):
            return self._whole(tree.this)
        if isinstance(tree, exp.Literal):
            return not tree.is_string and tree.this.isdigit()
        if isinstance(tree, (exp.Count, exp.CountIf)):
            return True
        if isinstance(tree, (exp.Sum, exp.Min, exp.Max)) and not isinstance(tree.this, exp.Distinct):
            value = total(tree.this, self.resolve)
            # The sum of 64-bit integers is a decimal.
            return value.kind == "integer" and (value.most <= 2.0**32 or not isinstance(tree, exp.Sum))
        if isinstance(tree, (exp.Add, exp.Sub, exp.Mul, exp.Div)):
            return self._whole(tree.this) and self._whole(tree.expression)
        if isinstance(tree, exp.Column):
            named = [p.this for p in self.tree.expressions if isinstance(p, exp.Alias) and p.alias == tree.name and not tree.table]
            if named:
                return self._whole(named[0])
            return self._is_column(tree) and total(tree, self.resolve).kind == "integer"
        return False

    def _having(self) -> exp.Expression | None:
        having = self.tree.args.get("having")
        if having is None:
            return None
        return self.released(having.this)

    def _order(self, outputs: Sequence[Output]) -> tuple[Order, ...]:
        order = self.tree.args.get("order")
        found = []
        for term in order.expressions if order is not None else []:
            inner = term.this if isinstance(term, exp.Ordered) else term
            if isinstance(inner, exp.Literal) and not inner.is_string:
                if not inner.this.isdigit() or not 1 <= int(inner.this[:9]) <= len(outputs):
                    raise TableError(f"ORDER BY {inner.this[:9]} must be the place of a column, from 1 to {len(outputs)}")
                value = outputs[int(inner.this) - 1].value.copy()
            else:
                value = self.released(inner)
            found.append(Order(value, *(bool(isinstance(term, exp.Ordered) and term.args.get(part)) for part in ("desc", "nulls_first"))))
        return tuple(found)

    def _limit(self) -> int | None:
        limit = self.tree.args.get("limit")
        if limit is None:
            return None
        options = limit.args.get("limit_options")
        if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
            raise Refused("FETCH and TOP take a number of rows; PERCENT and WITH TIES are not understood")
        return whole("LIMIT", limit.expression if isinstance(limit, exp.Limit) else limit.args.get("count"))

    def _offset(self) -> int:
        offset = self.tree.args.get("offset")
        return 0 if offset is None else whole("OFFSET", offset.expression)


# --- histograms ---------------------------------------------------------------------------------------------


#: More bins than this are refused: each is written into the statement.
MOST_BINS = 500
HISTOGRAM = "HISTOGRAM"


@dataclass(frozen=True)
class Bins:
    """The bins of a question's histogram: the key they become, their public labels (None: declared elsewhere), the ends of each."""

    name: str
    labels: tuple[str, ...] | None
    ends: Mapping[str, tuple[float, float]] = field(default_factory=dict)


def is_histogram(node: object) -> bool:
    """Whether a node is HISTOGRAM(...)."""
    return isinstance(node, exp.Anonymous) and node.name.upper() == HISTOGRAM


def unfolded(tree: exp.Select) -> tuple[exp.Select, Bins | None]:
    """The statement with HISTOGRAM written as a key and a count, and its bins; a statement without one is handed back."""
    places = [i for i, projection in enumerate(tree.expressions) if is_histogram(projection.unalias())]
    found = [node for node in tree.walk() if is_histogram(node)]
    if not found:
        return tree, None
    if len(places) != 1 or len(found) != 1:
        raise Refused("HISTOGRAM stands once, by itself, in the SELECT list; GROUP BY a second column, filter with WHERE")
    place, order = places[0], tree.args.get("order")
    if any(isinstance(term.this, exp.Literal) for term in (order.expressions if order is not None else [])):
        raise Refused("a histogram has a column for its bins and one for its counts; name the column in ORDER BY instead of its place")
    projection = tree.expressions[place]
    value, *edges = projection.unalias().expressions or [None]
    if value is None:
        raise Refused(f"{HISTOGRAM} takes a value and the edges of its bins, such as {HISTOGRAM}(age, 0, 18, 65, 110)")
    taken = {p.alias_or_name for i, p in enumerate(tree.expressions) if i != place}
    own = value.name if isinstance(value, exp.Column) else "bin"
    bins = _bins(own if own not in taken else f"{own} bin", value, edges)
    key = _bin_of(value, edges, bins)
    made = tree.copy()
    group = made.args.get("group")
    keys = [named_key(term, tree.expressions).copy() for term in group.expressions] if group is not None else []
    if any(is_histogram(term) for term in keys):
        raise Refused("GROUP BY cannot name the histogram; its bins are groups already")
    if group is None:
        group = exp.Group()
        made.set("group", group)
    group.set("expressions", [*keys, key.copy()])
    count = exp.Alias(this=exp.Count(this=exp.Star(), big_int=True), alias=exp.to_identifier(projection.alias or "count", quoted=True))
    shown = exp.Alias(this=key, alias=exp.to_identifier(bins.name, quoted=True))
    made.set("expressions", [*made.expressions[:place], shown, count, *made.expressions[place + 1 :]])
    return made, bins


def _bins(name: str, value: exp.Expression, edges: list[Any]) -> Bins:
    if not edges:
        return Bins(name, None)
    if all(isinstance(edge, exp.Literal) and edge.is_string for edge in edges):
        labels = tuple(str(edge.this) for edge in edges)
        if len(set(labels)) < len(labels) or len(labels) > MOST_BINS:
            raise TableError(f"the categories of {HISTOGRAM} must be at most {MOST_BINS} and different from each other")
        return Bins(name, labels)
    numbers = [_edge(edge) for edge in edges]
    if (
        len(numbers) < 2
        or len(numbers) > MOST_BINS + 1
        or any(not low < high for (low, _), (high, _) in itertools.pairwise(numbers))
    ):
        raise TableError(
            f"the edges of {HISTOGRAM} must be 2 to {MOST_BINS + 1} constants that grow, such as {HISTOGRAM}(age, 0, 18, 65, 110)"
        )
    last = len(numbers) - 2
    pairs = list(itertools.pairwise(numbers))
    labels = tuple(f"[{low[1]}, {high[1]}{']' if i == last else ')'}" for i, (low, high) in enumerate(pairs))
    return Bins(name, labels, {label: (low[0], high[0]) for label, (low, high) in zip(labels, pairs, strict=True)})


def _edge(node: Any) -> tuple[float, str]:
    """A constant and its text."""
    sign, digits = ("-", node.this) if isinstance(node, exp.Neg) else ("", node)
    if not isinstance(digits, exp.Literal) or digits.is_string or not re.fullmatch(r"[0-9]*\.?[0-9]+([eE][+-]?[0-9]{1,2})?", digits.this):
        raise TableError(f"the edges of {HISTOGRAM} must all be numbers, or all categories in quotes; compute nothing in them")
    return float(f"{sign}{digits.this}"), f"{sign}{digits.this}"


def _bin_of(value: exp.Expression, edges: list[Any], bins: Bins) -> exp.Expression:
    """The label of the bin that a value is in, NULL where it is in none. Comparisons only, so NULL and NaN are in none."""
    if not bins.ends or bins.labels is None:
        return value.copy()
    ifs = [exp.If(this=exp.LT(this=value.copy(), expression=edges[0].copy()), true=exp.null())]
    for label, edge in zip(bins.labels, edges[1:], strict=True):
        below = exp.LTE if label == bins.labels[-1] else exp.LT
        ifs.append(exp.If(this=below(this=value.copy(), expression=edge.copy()), true=exp.Literal.string(label)))
    return exp.Case(ifs=ifs)
