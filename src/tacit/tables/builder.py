"""Questions in Python, with the same meaning as in SQL: both become one tree, which one reader turns into a `Question`.

>>> from tacit.tables.sql import parse
>>> from tacit.tables.unit import Unit
>>> catalog = Catalog({"visits": Table({"id": "BIGINT", "age": "INTEGER", "region": "VARCHAR"})}, Unit("id", max_rows=3))
>>> query = Query.of("visits", catalog).where("age >= 18").group_by("region").count("n").mean("age", "age")
>>> query.question == parse("SELECT region, COUNT(*) AS n, AVG(age) AS age FROM visits WHERE age >= 18 GROUP BY region", "duckdb", catalog)
True

Expressions are SQL text of one value; nothing else can be smuggled in, because each is parsed by itself.

>>> Query.of("visits", catalog).where("age > 1 GROUP BY region")
Traceback (most recent call last):
...
tacit.tables.errors.TableError: an expression must be one value, such as 'age + 1', and nothing behind it
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from tacit.exact import exact
from tacit.tables.errors import TableError
from tacit.tables.question import Question
from tacit.tables.relation import Catalog, Table
from tacit.tables.sql import HISTOGRAM, MOST_BINS, question_of, read

__all__ = ["Catalog", "Query", "Table"]

Asker = Callable[..., Any]


@dataclass(frozen=True, repr=False)
class Query:
    """A question in the making; every method gives a new one."""

    source: exp.Expression
    catalog: Catalog | None = None
    dialect: str = "duckdb"
    asker: Asker | None = None
    joins: tuple[exp.Join, ...] = ()
    conditions: tuple[exp.Expression, ...] = ()
    keys: tuple[exp.Expression, ...] = ()
    chosen: tuple[exp.Expression, ...] = ()
    filters: tuple[exp.Expression, ...] = ()
    orders: tuple[exp.Ordered, ...] = ()
    most: int | None = None

    @staticmethod
    def of(table: str, catalog: Catalog | None = None, dialect: str = "duckdb", asker: Asker | None = None) -> Query:
        """A question about a table; `visits AS v` gives it a name to be used in joins."""
        return Query(_item(table, dialect), catalog, dialect, asker)

    def __repr__(self) -> str:
        return f"Query({self.tree.sql(dialect=self.dialect) if self.chosen else self.source.sql(dialect=self.dialect)})"

    def _repr_html_(self) -> str:
        import html  # for notebooks alone

        text = self.tree.sql(dialect=self.dialect, pretty=True) if self.chosen else self.source.sql(dialect=self.dialect)
        return f"<pre>{html.escape(text)}</pre>"

    # --- rows ---------------------------------------------------------------------------------------------------------------------

    def where(self, condition: str) -> Query:
        """Only rows that satisfy a condition; several are joined by AND."""
        return replace(self, conditions=(*self.conditions, self._value(condition)))

    def join(
        self, other: str | Query, on: str | None = None, *, using: str | list[str] | None = None, how: str = "inner", name: str = ""
    ) -> Query:
        """Rows joined with a public table, or with a private one on the person. `on` is a condition, `using` names columns of both."""
        if how not in ("inner", "left"):
            raise TableError(f"how must be 'inner' or 'left', not {how!r}")
        item = _item(other, self.dialect) if isinstance(other, str) else other._inner(name or "other")
        join = exp.Join(this=item, kind="INNER") if how == "inner" else exp.Join(this=item, side="LEFT")
        if on is not None:
            join.set("on", self._value(on))
        if using is not None:
            join.set("using", [exp.to_identifier(n, quoted=True) for n in ([using] if isinstance(using, str) else using)])
        return replace(self, joins=(*self.joins, join))

    def select(self, *columns: str, name: str = "rows", **expressions: str) -> Query:
        """New rows with these columns and named expressions; the person is carried along."""
        chosen = [*(self._value(c) for c in columns), *(self._named(e, n) for n, e in expressions.items())]
        return self._around(self._select(chosen), name)

    def per_person(self, *columns: str, name: str = "people", **aggregates: str) -> Query:
        """One row for each person (and each combination of `columns`), aggregating the person's rows: per_person(visits="COUNT(*)")."""
        person = self.catalog.unit.person if self.catalog is not None else None
        if person is None:
            raise TableError(code="person-needed", what="per_person")
        keys = [exp.column(person, quoted=True), *(self._value(c) for c in columns)]
        tree = self._select([*keys, *(self._named(e, n) for n, e in aggregates.items())])
        tree.set("group", exp.Group(expressions=[key.copy() for key in keys]))
        return self._around(tree, name)

    def union(self, other: Query, name: str = "both") -> Query:
        """The rows of both, as UNION ALL; both must be made by select(...)."""
        return self._around(exp.Union(this=self._rows(), expression=other._rows(), distinct=False), name)

    # --- groups and aggregates ----------------------------------------------------------------------------------------------------

    def group_by(self, *keys: str, **named: str) -> Query:
        """Answer for each combination of these expressions; group_by(year="YEAR(day)") names one."""
        plain = [self._value(key) for key in keys]
        made = [self._named(value, name) for name, value in named.items()]
        inner = [*plain, *(value.this.copy() for value in made)]
        return replace(self, keys=(*self.keys, *inner), chosen=(*self.chosen, *plain, *made))

    def agg(self, expression: str, name: str | None = None) -> Query:
        """Any aggregate, or arithmetic of several: agg("SUM(cost) / COUNT(*)", "each")."""
        return replace(self, chosen=(*self.chosen, self._value(expression) if name is None else self._named(expression, name)))

    def count(self, name: str | None = None, *, of: str | None = None) -> Query:
        """The number of rows, or of rows that have a value."""
        return self._agg(exp.Count(this=exp.Star() if of is None else self._value(of), big_int=True), name)

    def count_distinct(self, of: str, name: str | None = None) -> Query:
        """The number of different values; of people, if it is the person's column."""
        return self._agg(exp.Count(this=exp.Distinct(expressions=[self._value(of)]), big_int=True), name)

    def sum(self, of: str, name: str | None = None) -> Query:
        """The sum of a value with public bounds."""
        return self._agg(exp.Sum(this=self._value(of)), name)

    def mean(self, of: str, name: str | None = None) -> Query:
        """The mean of a value with public bounds."""
        return self._agg(exp.Avg(this=self._value(of)), name)

    def variance(self, of: str, name: str | None = None, *, sample: bool = True) -> Query:
        """The variance, of a sample or of the population."""
        return self._agg((exp.Variance if sample else exp.VariancePop)(this=self._value(of)), name)

    def stddev(self, of: str, name: str | None = None, *, sample: bool = True) -> Query:
        """The standard deviation, of a sample or of the population."""
        return self._agg((exp.Stddev if sample else exp.StddevPop)(this=self._value(of)), name)

    def min(self, of: str, name: str | None = None) -> Query:
        """The least value."""
        return self._agg(exp.Min(this=self._value(of)), name)

    def max(self, of: str, name: str | None = None) -> Query:
        """The greatest value."""
        return self._agg(exp.Max(this=self._value(of)), name)

    def median(self, of: str, name: str | None = None) -> Query:
        """The median."""
        return self._agg(exp.Median(this=self._value(of)), name)

    def quantile(self, of: str, rank: float | str, name: str | None = None) -> Query:
        """A quantile: rank 0.9 is exceeded by a tenth of the values."""
        return self._agg(exp.PercentileCont(this=self._value(of), expression=exp.Literal.number(str(rank))), name)

    def covariance(self, of: str, and_: str, name: str | None = None, *, sample: bool = True) -> Query:
        """The covariance of two values."""
        return self._agg((exp.CovarSamp if sample else exp.CovarPop)(this=self._value(of), expression=self._value(and_)), name)

    def correlation(self, of: str, and_: str, name: str | None = None) -> Query:
        """The correlation of two values."""
        return self._agg(exp.Corr(this=self._value(of), expression=self._value(and_)), name)

    def histogram(
        self,
        of: str,
        name: str | None = None,
        *,
        bins: Sequence[float | str] | int | None = None,
        bounds: tuple[float, float] | None = None,
    ) -> Query:
        """How many rows lie in each bin, as one measurement: `bins` are edges, categories, or a number of equal bins between `bounds`.

        Without bins, the column's public categories are counted.
        """
        listed: Sequence[float | str]
        if isinstance(bins, int):
            if bounds is None or not 1 <= bins <= MOST_BINS:
                raise TableError(f"bins must be edges, or a number from 1 to {MOST_BINS} with bounds=(lower, upper) to divide")
            low, high = (exact("bounds", end) for end in bounds)
            listed = [float(low + (high - low) * i / bins) for i in range(bins + 1)]
        else:
            listed = list(bins) if bins is not None else []
        parts: list[exp.Expression] = []
        for edge in listed:
            if isinstance(edge, str):
                parts.append(exp.Literal.string(edge))
            else:
                text = repr(float(exact("bins", edge))).removesuffix(".0")
                parts.append(exp.Neg(this=exp.Literal.number(text[1:])) if text.startswith("-") else exp.Literal.number(text))
        return self._agg(exp.Anonymous(this=HISTOGRAM, expressions=[self._value(of), *parts]), name)

    # --- released values ----------------------------------------------------------------------------------------------------------

    def having(self, condition: str) -> Query:
        """Only groups whose released figures satisfy a condition."""
        return replace(self, filters=(*self.filters, self._value(condition)))

    def order_by(self, value: str, *, descending: bool = False) -> Query:
        """The order of the answer's rows, by released figures; NULL stands where the dialect has it."""
        written = read(f"SELECT 1 ORDER BY a{' DESC' if descending else ''}", self.dialect).args["order"].expressions[0]
        written.set("this", self._value(value))
        return replace(self, orders=(*self.orders, written))

    def limit(self, most: int) -> Query:
        """At most so many rows of the answer."""
        return replace(self, most=most)

    # --- asking -------------------------------------------------------------------------------------------------------------------

    @property
    def question(self) -> Question:
        """The question, checked."""
        return question_of(self.tree, self.dialect, self.catalog)

    def ask(self, **options: Any) -> Any:
        """Answer it, where the query comes from a session."""
        if self.asker is None:
            raise TableError("this query belongs to no session; hand its question to one: session.ask(query.question, epsilon=1)")
        return self.asker(self.question, **options)

    @property
    def tree(self) -> exp.Select:
        """The statement in SQL's own form."""
        tree = self._select(list(self.chosen))
        if self.keys:
            tree.set("group", exp.Group(expressions=[key.copy() for key in self.keys]))
        if self.filters:
            tree.set("having", exp.Having(this=_all(self.filters)))
        if self.orders:
            tree.set("order", exp.Order(expressions=[order.copy() for order in self.orders]))
        if self.most is not None:
            tree.set("limit", exp.Limit(expression=exp.Literal.number(str(self.most))))
        return tree

    def _agg(self, node: exp.Expression, name: str | None) -> Query:
        made = node if name is None else exp.Alias(this=node, alias=_identifier(name))
        return replace(self, chosen=(*self.chosen, made))

    def _value(self, text: str) -> exp.Expression:
        return _expression(text, self.dialect)

    def _named(self, text: str, name: str) -> exp.Alias:
        return exp.Alias(this=self._value(text), alias=_identifier(name))

    def _select(self, chosen: list[exp.Expression]) -> exp.Select:
        tree = exp.Select(expressions=[node.copy() for node in chosen]).from_(self.source.copy(), copy=False)
        if self.joins:
            tree.set("joins", [join.copy() for join in self.joins])
        if self.conditions:
            tree.set("where", exp.Where(this=_all(self.conditions)))
        return tree

    def _around(self, tree: exp.Expression, name: str) -> Query:
        if self.chosen or self.keys:
            raise TableError("make the rows first (select, per_person, union), then group and aggregate")
        named = exp.Subquery(this=tree, alias=exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
        return Query(named, self.catalog, self.dialect, self.asker)

    def _inner(self, name: str) -> exp.Subquery:
        return exp.Subquery(this=self._rows(), alias=exp.TableAlias(this=exp.to_identifier(name, quoted=True)))

    def _rows(self) -> exp.Expression:
        """The rows as a SELECT of everything."""
        if self.chosen or self.keys:
            raise TableError("only rows can be joined or united: aggregate afterwards")
        plain = isinstance(self.source, exp.Subquery) and not self.joins and not self.conditions
        found: exp.Expression = self.source.this.copy() if plain else self._select([exp.Star()])
        return found


def _identifier(name: str) -> exp.Identifier:
    if not isinstance(name, str) or not name:
        raise TableError("the name of a figure must be text, such as 'n'; what is counted is named by of=...")
    return exp.to_identifier(name, quoted=True)


def _all(conditions: tuple[exp.Expression, ...]) -> exp.Expression:
    found = conditions[0].copy()
    for condition in conditions[1:]:
        found = exp.And(this=found, expression=condition.copy())
    return found


def _expression(text: str, dialect: str) -> exp.Expression:
    """One value, parsed by itself."""
    if not isinstance(text, str):
        raise TableError("an expression must be text, such as 'age + 1'")
    tree = read(f"SELECT {text}", dialect)
    extra = [name for name, value in tree.args.items() if name != "expressions" and value not in (None, False, [])]
    if not isinstance(tree, exp.Select) or extra or len(tree.expressions) != 1 or isinstance(tree.expressions[0], exp.Alias):
        raise TableError("an expression must be one value, such as 'age + 1', and nothing behind it")
    found: exp.Expression = tree.expressions[0].copy()
    return found


def _item(text: str, dialect: str) -> exp.Expression:
    """One table, perhaps with a name."""
    if not isinstance(text, str):
        raise TableError("a table must be the name of one, such as 'visits'")
    tree = read(f"SELECT 1 FROM {text}", dialect)
    source = tree.args.get("from_") if isinstance(tree, exp.Select) else None
    extra = [name for name, value in tree.args.items() if name not in ("expressions", "from_") and value not in (None, False, [])]
    if source is None or extra or not isinstance(source.this, exp.Table):
        raise TableError("a table must be the name of one, such as 'visits' or 'visits AS v'")
    item: exp.Expression = source.this.copy()
    return item
