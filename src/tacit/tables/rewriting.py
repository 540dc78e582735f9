"""Other ways to write a join: comma joins, EXISTS, IN and scalar sub-queries about the person's own rows.

Each becomes a join with an ON, which `tacit.tables.joins` then checks like any other: two private tables meet on
the person or not at all. So nothing here needs to be trusted. What does not fit one of the forms is left as it is, and
the readers refuse it with their reasons.

>>> from sqlglot import parse_one
>>> print(rewritten(parse_one("SELECT COUNT(*) FROM visits v, codes c WHERE v.code = c.code AND v.age > 3")).sql())
SELECT COUNT(*) FROM visits AS v INNER JOIN codes AS c ON v.code = c.code WHERE v.age > 3
>>> print(rewritten(parse_one("SELECT COUNT(*) FROM visits WHERE id IN (SELECT id FROM stays WHERE nights > 9)")).sql())
SELECT COUNT(*) FROM visits LEFT JOIN (SELECT id AS who_0_ FROM stays WHERE nights > 9 GROUP BY id) AS per_person_0_
ON id = per_person_0_.who_0_ WHERE NOT per_person_0_.who_0_ IS NULL
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

#: A join with this mark is refused unless it is on the person.
ON_PERSON = "tacit_on_person"
#: What a sub-query in an expression may have: anything else is left to the readers.
_PLAIN = frozenset(("expressions", "from_", "from", "joins", "where"))


def rewritten(tree: exp.Select, person: str | None = None) -> exp.Select:
    """The statement with these forms as joins, in it and in the sub-queries of its FROM; itself where it has none of them.

    Sub-queries about another column than the `person`, where that is known, are left to be refused as they are written.
    """
    if not any(_is_form(node) for node in tree.walk()):
        return tree
    made = tree.copy()
    for select in [node for node in made.find_all(exp.Select) if not _in_expression(node)]:
        _Select(select, person).rewrite()
    return made


def _is_form(node: object) -> bool:
    comma = isinstance(node, exp.Join) and not any(node.args.get(part) for part in ("on", "using", "side", "kind", "method"))
    asked = isinstance(node, exp.Exists) or (isinstance(node, exp.In) and node.args.get("query") is not None)
    return comma or asked or (isinstance(node, exp.Subquery) and _in_expression(node.this))


def _in_expression(select: exp.Expression) -> bool:
    """Whether a SELECT stands in an expression, and not in FROM, a join, a CTE or a union."""
    outer = select.parent
    while isinstance(outer, (exp.Subquery, exp.SetOperation)):
        outer = outer.parent
    return outer is not None and not isinstance(outer, (exp.From, exp.Join, exp.CTE))


@dataclass
class _Select:
    """One SELECT whose FROM and WHERE are rewritten in place."""

    select: exp.Select
    person: str | None = None
    added: list[exp.Join] = field(default_factory=list)

    def rewrite(self) -> None:
        where = self.select.args.get("where")
        terms = _conjuncts(where.this) if where is not None else []
        terms = self._commas(terms)
        kept = [self._term(term) for term in terms]
        if self.added:
            self.select.set("joins", [*(self.select.args.get("joins") or []), *self.added])
        self.select.set("where", exp.Where(this=_all(kept)) if kept else None)

    # --- commas ---------------------------------------------------------------------------------------------------

    def _commas(self, terms: list[exp.Expression]) -> list[exp.Expression]:
        """Conditions of WHERE between a table behind a comma and one before it become that join's ON."""
        before = {self._first()}
        for join in self.select.args.get("joins") or []:
            alias = join.this.alias_or_name
            if _is_form(join):
                on = [term for term in terms if isinstance(term, exp.EQ) and _joins(term, alias, before)]
                if on:
                    terms = [term for term in terms if not any(term is taken for taken in on)]
                    join.set("on", _all([term.copy() for term in on]))
                    join.set("kind", "INNER")
            before.add(alias)
        return terms

    def _first(self) -> str:
        source = self.select.args.get("from_") or self.select.args.get("from")
        return "" if source is None else str(source.this.alias_or_name)

    def _names(self) -> set[str]:
        return {self._first().lower(), *(join.this.alias_or_name.lower() for join in self.select.args.get("joins") or [])}

    # --- sub-queries in WHERE --------------------------------------------------------------------------------------

    def _term(self, term: exp.Expression) -> exp.Expression:
        """A condition of WHERE with its sub-queries as columns of joins."""
        for node in [term, *term.find_all(exp.Exists, exp.In, exp.Subquery)]:
            found: exp.Expression | None = None
            if isinstance(node, exp.Exists):
                found = self._exists(node.this)
            elif isinstance(node, exp.In) and node.args.get("query") is not None and node.find_ancestor(exp.Not) is None:
                found = self._within(node)
            elif isinstance(node, exp.Subquery) and isinstance(node.this, exp.Select) and not isinstance(node.parent, (exp.In, exp.Exists)):
                found = self._scalar(node.this)
            if found is None:
                continue
            if node is term:
                return found
            node.replace(found)
        return term

    def _exists(self, inner: exp.Expression) -> exp.Expression | None:
        inner = inner.this if isinstance(inner, exp.Subquery) else inner
        link = self._correlated(inner)
        if link is None or not isinstance(inner, exp.Select):
            return None
        if any(chosen.find(exp.AggFunc, exp.Window) for chosen in inner.expressions):
            return None  # an aggregate has a row also where there are none, so that it always exists
        own, outer, rest = link
        return _present(self._join(inner, own, outer, rest))

    def _within(self, node: exp.In) -> exp.Expression | None:
        query = node.args["query"]
        inner = query.this if isinstance(query, exp.Subquery) else query
        if not _is_plain(inner) or len(inner.expressions) != 1 or not isinstance(node.this, exp.Column):
            return None
        own = inner.expressions[0].unalias()
        if not isinstance(own, exp.Column) or isinstance(own.this, exp.Star):
            return None
        where = inner.args.get("where")
        rest = _conjuncts(where.this) if where is not None else []
        if not self._is_person(own) or any(_foreign(term, _Select(inner)._names()) for term in rest):
            return None
        return _present(self._join(inner, own, node.this, rest))

    def _scalar(self, inner: exp.Select) -> exp.Expression | None:
        """One value for each person: a sub-query with an aggregate over the person's own rows."""
        link = self._correlated(inner)
        if link is None or len(inner.expressions) != 1:
            return None
        value = inner.expressions[0].unalias().copy()
        found = [_whole(node) for node in value.find_all(exp.AggFunc) if node.find_ancestor(exp.AggFunc) is None]
        outside = {id(column) for column in value.find_all(exp.Column)} - {id(c) for node in found for c in node.find_all(exp.Column)}
        if not found or outside or value.find(exp.Window) is not None:
            return None
        own, outer, rest = link
        name = self._join(inner, own, outer, rest, found).table
        for place, node in enumerate(found):
            # COUNT of no rows is 0, and every other aggregate of none is NULL: the rest of the expression is computed of that.
            column: exp.Expression = exp.column(f"value_{place}_", table=name)
            if isinstance(node.this if isinstance(node, exp.Filter) else node, (exp.Count, exp.CountIf, exp.ApproxDistinct)):
                column = exp.Coalesce(this=column, expressions=[exp.Literal.number(0)])
            if node is value:
                return column
            node.replace(column)
        return exp.Paren(this=value)

    def _correlated(self, inner: exp.Expression) -> tuple[exp.Column, exp.Column, list[exp.Expression]] | None:
        """The equality that ties a sub-query to the rows outside, and its other conditions, which know nothing of them."""
        if not _is_plain(inner) or not isinstance(inner, exp.Select):
            return None
        names, where = _Select(inner)._names(), inner.args.get("where")
        terms = _conjuncts(where.this) if where is not None else []
        links = [term for term in terms if isinstance(term, exp.EQ) and _foreign(term, names)]
        if len(links) != 1 or any(_foreign(term, names) for term in terms if term is not links[0]):
            return None
        sides = [links[0].this, links[0].expression]
        if not all(isinstance(side, exp.Column) and side.table for side in sides):
            return None
        own = [side for side in sides if side.table.lower() in names]
        outer = [side for side in sides if side.table.lower() in self._names() - names]
        if len(own) != 1 or len(outer) != 1 or not self._is_person(own[0]):
            return None
        return own[0], outer[0], [term for term in terms if term is not links[0]]

    def _is_person(self, column: exp.Column) -> bool:
        return self.person is None or column.name.lower() == self.person.lower()

    def _join(
        self, inner: exp.Select, own: exp.Column, outer: exp.Column, rest: list[exp.Expression], values: Sequence[exp.Expression] = ()
    ) -> exp.Column:
        """LEFT JOIN with one row for each person, and the column of it that is the person."""
        name, who = f"per_person_{len(self.added)}_", f"who_{len(self.added)}_"
        chosen: list[Any] = [exp.alias_(own.copy(), who)]
        chosen += [exp.alias_(value.copy(), f"value_{place}_") for place, value in enumerate(values)]
        below = inner.copy()
        below.set("expressions", chosen)
        below.set("where", exp.Where(this=_all([term.copy() for term in rest])) if rest else None)
        below.set("group", exp.Group(expressions=[own.copy()]))
        table = exp.Subquery(this=below, alias=exp.TableAlias(this=exp.to_identifier(name)))
        on = exp.EQ(this=outer.copy(), expression=exp.column(who, table=name))
        made = exp.Join(this=table, side="LEFT", on=on)
        # Along a foreign key a join keeps rows of one owner alone, which is not what these forms ask.
        made.meta[ON_PERSON] = True
        self.added.append(made)
        return exp.column(who, table=name)


def _whole(node: exp.Expression) -> exp.Expression:
    """An aggregate with its FILTER, if it has one."""
    return node.parent if isinstance(node.parent, exp.Filter) else node


def _is_plain(inner: object) -> bool:
    return isinstance(inner, exp.Select) and all(name in _PLAIN or value in (None, False, []) for name, value in inner.args.items())


def _present(column: exp.Column) -> exp.Expression:
    return exp.Not(this=exp.Is(this=column, expression=exp.null()))


def _joins(term: exp.EQ, alias: str, before: Iterable[str]) -> bool:
    """Whether an equality compares a column of this table with one of a table before it."""
    tables = [side.table.lower() if isinstance(side, exp.Column) else "" for side in (term.this, term.expression)]
    known = {name.lower() for name in before}
    return alias.lower() in tables and any(table in known for table in tables)


def _foreign(term: exp.Expression, names: set[str]) -> bool:
    """Whether a condition names a table that is not among these."""
    return any(column.table and column.table.lower() not in names for column in term.find_all(exp.Column))


def _conjuncts(tree: exp.Expression) -> list[exp.Expression]:
    if isinstance(tree, exp.Paren) and isinstance(tree.this, exp.And):
        tree = tree.this
    if isinstance(tree, exp.And):
        return [*_conjuncts(tree.this), *_conjuncts(tree.expression)]
    return [tree]


def _all(terms: list[exp.Expression]) -> exp.Expression:
    found = terms[0]
    for term in terms[1:]:
        found = exp.And(this=found, expression=term)
    return found
