"""Joins: with public tables, between private ones on the person, and along declared foreign keys.

A join may multiply rows, but only one person's own: private tables meet on the person, or along a foreign key with the person added to the
condition. So the caps, applied after the join, bound what one person can do, and all other people's rows stay as they were.

>>> from sqlglot import parse_one
>>> from tacit.tables.from_clause import rows_of
>>> from tacit.tables.relation import Table
>>> catalog = Catalog({"visits": Table({"id": "BIGINT", "code": "VARCHAR"}), "stays": Table({"id": "BIGINT", "code": "VARCHAR"})},
...     Unit("id", max_rows=3))
>>> rows_of(parse_one("SELECT 1 FROM visits v JOIN stays s ON v.id = s.id"), catalog)[0].names
('id', 'code', 's_id', 's_code')
>>> rows_of(parse_one("SELECT 1 FROM visits v JOIN stays s ON v.code = s.code"), catalog)
Traceback (most recent call last):
...
tacit.tables.errors.Refused: s and v are both private, and joined on something else than the person...

Comma joins, EXISTS, IN and scalar sub-queries about the person's own rows are turned into joins with an ON first, by `rewritten`. These
are then checked like any other join, so nothing there needs to be trusted. What does not fit one of the forms is left as it is, and the
readers refuse it with their reasons.

>>> print(rewritten(parse_one("SELECT COUNT(*) FROM visits v, codes c WHERE v.code = c.code AND v.age > 3")).sql())
SELECT COUNT(*) FROM visits AS v INNER JOIN codes AS c ON v.code = c.code WHERE v.age > 3
>>> print(rewritten(parse_one("SELECT COUNT(*) FROM visits WHERE id IN (SELECT id FROM stays WHERE nights > 9)")).sql())
SELECT COUNT(*) FROM visits LEFT JOIN (SELECT id AS who_0_ FROM stays WHERE nights > 9 GROUP BY id) AS per_person_0_
ON id = per_person_0_.who_0_ WHERE NOT per_person_0_.who_0_ IS NULL
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, cast

from sqlglot import exp

from tacit.tables.engines.types import bare
from tacit.tables.errors import Refused, TableError
from tacit.tables.expressions import total
from tacit.tables.relation import (
    Catalog,
    Field,
    Relation,
    Resolve,
    asked_of,
    named,
    nested,
    not_in_from,
    owner_of,
    plain_people,
    same_people,
    shown_type,
    told_apart,
    usable,
)
from tacit.tables.unit import Auto, Unit
from tacit.tables.values import Value, column

#: A join with this mark is refused unless it is on the person.
ON_PERSON = "tacit_on_person"
#: What a sub-query in an expression may have: anything else is left to the readers.
_PLAIN = frozenset(("expressions", "from_", "from", "joins", "where"))


@dataclass(frozen=True)
class Side:
    """One side of a join: the name the user gave it, its rows, and our own name for it."""

    alias: str
    relation: Relation
    own: str


@dataclass(frozen=True)
class Joins:
    """Turns the joins of a FROM into one flat relation. `relation` reads one item of FROM."""

    unit: Unit
    catalog: Catalog
    relation: Callable[[exp.Expression], Relation]

    def joined(self, alias: str, first: Relation, joins: Sequence[exp.Join]) -> tuple[Relation, Resolve]:
        """All sides as one relation, and what the names of the SELECT stand for in it."""
        unit, catalog = self.unit, self.catalog
        sides = [Side(alias, first, "side_0_")]
        conditions: list[tuple[str, exp.Expression]] = []
        merged: set[str] = set()
        multiplicity, steps, thin = first.multiplicity, list(first.steps), False
        for place, join in enumerate(joins, start=1):
            side = Side(join.this.alias_or_name, self.relation(join.this), f"side_{place}_")
            if side.alias.lower() in {s.alias.lower() for s in sides}:
                raise TableError(f"two sides of a join are called {side.alias}; give one another name")
            how = _how(join)
            if any(s.relation.fields is None for s in (*sides, side)):
                raise Refused(code="columns-unknown")
            pairs, condition = _matched(join, sides, side, merged)
            merged |= {name.name.lower() for name in join.args.get("using") or []}
            private = [s for s in sides if not s.relation.public]
            if not side.relation.public and private:
                multiplicity *= side.relation.multiplicity * (unit.most_rows if unit.capped else 1)
                on_person = self._on_person(pairs, side, private)
                if not on_person and join.meta.get(ON_PERSON):
                    raise Refused(code="sub-query-not-person", person=unit.person)
                thin = thin or on_person
                if not on_person or not plain_people(side.relation.person_type):
                    # Said of the columns as they are: a condition of the question compares wide numbers as floats.
                    condition = exp.And(this=condition, expression=_same_owner(private[0], side, unit))
                how_far = (
                    "on the person: a person's rows of one times those of the other"
                    if on_person
                    else "along a foreign key, where both rows are the same person's"
                )
                steps.append(f"join with {side.alias} {how_far}, capped after the join")
            elif side.relation.public or how == "INNER":
                lookup = side if side.relation.public else sides[0]
                if lookup is not side and len(sides) > 1 and catalog.uncapped:
                    raise Refused("it is not known how many rows of several public tables one row can match; start from the private table")
                looked_up = [(p.new, p.old, p.of_new) if side.relation.public else (p.old, p.new, p.of_old) for p in pairs]
                most = self._matches(lookup, looked_up) if catalog.uncapped else 1
                multiplicity *= max(1, most) * (1 if side.relation.public else side.relation.multiplicity)
                steps.append(f"join with the public table {lookup.alias}" + (f": at most {most} rows for each" if catalog.uncapped else ""))
            else:
                raise Refused("a LEFT JOIN that keeps rows of a public table has rows without an owner; start from the private table")
            sides.append(side)
            conditions.append((how, condition))
        return self._flat(sides, conditions, multiplicity, tuple(steps), thin, frozenset(merged))

    def _on_person(self, pairs: Sequence[_Pair], side: Side, private: Sequence[Side]) -> bool:
        """Whether two private tables meet on the person; False where it is along a declared foreign key; else refused."""
        if self.unit.person is None:
            raise Refused(code="join-needs-person")
        types = (private[0].relation.person_type, side.relation.person_type)
        if not same_people(*types):
            types = (shown_type(types[0]), shown_type(types[1]))
            raise Refused(
                f"{private[0].alias} and {side.alias} tell people apart by columns of different types ({types[0]} and {types[1]}), so that "
                "several people of one could be one of the other; give both one type"
            )
        if any(pair.old.person and pair.new.person for pair in pairs):
            return True
        declared = {frozenset((f"{link.table}.{link.column}", f"{link.to_table}.{link.to_column}")) for link in self.catalog.links}
        if any(frozenset((pair.old.origin, pair.new.origin)) in declared for pair in pairs):
            return False
        raise Refused(
            f"{side.alias} and {private[0].alias} are both private, and joined on something else than the person, "
            f"so one person's rows meet all others', without bound; join them on {self.unit.person} or along a declared foreign key, "
            "or declare one of them public"
        )

    def _matches(self, side: Side, pairs: Sequence[tuple[Field, Field, exp.Expression]]) -> int:
        """The most rows of a public table that share the values joined on: declared, or counted, because the table is public.

        `pairs` are its columns, those they are compared with, and the expressions of its columns that the join compares: rows are counted
        by these, and what is declared of a column holds where it is compared as it is.
        """
        names = [own.name for own, _, _ in pairs]
        exact = [own.name for own, other, sql in pairs if isinstance(sql, exp.Column) and not _as_floats(own, other)]
        table = self.catalog.tables[side.relation.tables[0]] if len(side.relation.tables) == 1 else None
        for key, most in (table.at_most if table is not None else {}).items():
            if set(key) <= set(exact):
                return most
        if self.catalog.count is None:
            raise Refused(
                f"it is not known how many rows of {side.alias} one row can match; "
                f"declare at_most={{{tuple(names)!r}: 1}} for the public table"
            )
        columns = [_one_where_equal(own, other, sql) for own, other, sql in pairs]
        each = exp.Select(expressions=[named(exp.Count(this=exp.Star()), "n_")]).from_(side.relation.expression(), copy=False)
        each.set("group", exp.Group(expressions=columns))
        return int(
            self.catalog.count(
                exp.Select(expressions=[exp.Max(this=exp.column("n_", quoted=True))]).from_(nested(each, "each_"), copy=False)
            )
            or 0
        )

    def _flat(
        self,
        sides: Sequence[Side],
        conditions: Sequence[tuple[str, exp.Expression]],
        multiplicity: int,
        steps: tuple[str, ...],
        thin: bool,
        merged: frozenset[str],
    ) -> tuple[Relation, Resolve]:
        private = [side for side in sides if not side.relation.public]
        unit = self.unit
        chosen: list[exp.Expression] = []
        fields: list[Field] = []
        if private and unit.person is not None:
            chosen.append(named(exp.column(unit.person, table=private[0].own, quoted=True), unit.person))
        flat: dict[tuple[str, str], Field] = {}
        for side in sides:
            for f in side.relation.fields or ():
                if side is (private[0] if private else None) and f.name == unit.person:
                    made = replace(f, person=True)
                else:
                    taken = {g.name.lower() for g in fields} | {(unit.person or "").lower()}
                    name = f.name
                    while name.lower() in taken:
                        name = f"{side.alias}_{name}"
                    made = replace(f, name=name)
                    if usable(f):
                        chosen.append(named(exp.column(f.name, table=side.own, quoted=True), name))
                fields.append(made)
                flat[(side.own, f.name)] = made
        meeting = private if thin else []
        query = exp.Select(expressions=chosen).from_(_inner_of(self._thinned(sides[0], meeting), sides[0].own), copy=False)
        for side, (how, condition) in zip(sides[1:], conditions, strict=True):
            query = query.join(_inner_of(self._thinned(side, meeting), side.own), on=condition, join_type=how.lower(), copy=False)
        per_person = private[0].relation.rows_per_person if len(sides) == len(private) == 1 else None
        found = Relation(
            nested(query, "joined_"),
            tuple(fields),
            unit.person if private else None,
            multiplicity,
            per_person,
            tuple(dict.fromkeys(name for side in sides for name in side.relation.tables)),
            not private,
            steps,
            private[0].relation.person_type if private else None,
        )
        return found, _resolver(sides, flat, merged)

    def _thinned(self, side: Side, private: Sequence[Side]) -> Relation:
        """Where private tables meet, each person's rows of each side are capped first: a million rows must not become a million times as
        many."""
        relation, unit = side.relation, self.unit
        if relation.public or len(private) < 2 or relation.rows_per_person is not None or unit.capped or unit.person is None:
            return relation
        if all(other.relation.rows_per_person == 1 for other in private if other is not side):
            return relation  # one row of each other side multiplies nothing, and conditions come before the caps
        most = unit.max_rows.most if isinstance(unit.max_rows, Auto) else unit.most_rows
        names = list(dict.fromkeys([unit.person, *(f.name for f in relation.fields or () if usable(f))]))
        told = (f for f in relation.fields or () if usable(f) and column(f.name, f.type).kind != "instant")
        values: list[exp.Expression] = [exp.column(f.name, quoted=True) for f in told]
        shuffle = self.catalog.shuffle
        # What the pseudorandom order does not tell apart is put in an order of its own.
        order = [*([shuffle(values)] if shuffle is not None and values else []), *told_apart(relation)]
        place = exp.Window(
            this=exp.RowNumber(),
            partition_by=[exp.column(unit.person, quoted=True)],
            order=exp.Order(expressions=[exp.Ordered(this=value.copy()) for value in order]),
        )
        columns = [exp.column(name, quoted=True) for name in names]
        placed = exp.Select(expressions=[*columns, named(place, "place_")]).from_(relation.expression(), copy=False)
        kept = exp.Select(expressions=[c.copy() for c in columns]).from_(nested(placed, "placed_"), copy=False)
        kept = kept.where(exp.LTE(this=exp.column("place_", quoted=True), expression=exp.Literal.number(most)), copy=False)
        return replace(relation, source=nested(kept, "thinned_"), rows_per_person=most)


@dataclass(frozen=True)
class _Pair:
    """Two columns that a join compares, and the expressions of them that it compares, without their tables."""

    old: Field
    new: Field
    of_old: exp.Expression
    of_new: exp.Expression


def _one_where_equal(own: Field, other: Field, sql: exp.Expression) -> exp.Expression:
    """An expression of a column that is one value for all values that a join takes for equal.

    That is what the join compares; of numbers, a float of it, of four bytes where one of the two columns is one. An engine may compare
    whole numbers, decimals and floats in any of their types, and numbers that are equal in one of them have one float. Zero has two.
    """
    if not _as_floats(own, other):
        return sql
    short = any(f.type is not None and bare(f.type) in ("FLOAT", "REAL") for f in (own, other))
    value = exp.cast(sql, "FLOAT" if short else "DOUBLE")
    zero = exp.Literal.number(0)
    return exp.Case(ifs=[exp.If(this=exp.EQ(this=value.copy(), expression=zero), true=exp.cast(zero.copy(), "DOUBLE"))], default=value)


def _as_floats(first: Field, second: Field) -> bool:
    """Whether two columns are compared as floats."""
    kinds = {column(f.name, f.type).kind for f in (first, second)}
    return bool(kinds & {"decimal", "real", "float", "any"})


def _same_owner(first: Side, side: Side, unit: Unit) -> exp.Expression:
    """That both rows belong to one person, whatever the foreign keys say."""
    person = unit.person
    assert person is not None
    mine, hers = (owner_of(each.own, person, each.relation.person_type) for each in (first, side))
    return exp.EQ(this=mine, expression=hers)


def _inner_of(relation: Relation, name: str) -> exp.Expression:
    source = relation.expression()
    if isinstance(source, exp.Subquery):
        return nested(source.this, name)
    renamed: Any = exp.alias_(source, name, quoted=True, table=True)
    return cast(exp.Expression, renamed)


def _resolver(sides: Sequence[Side], flat: Mapping[tuple[str, str], Field], merged: Set[str]) -> Resolve:
    """What a column of the SELECT stands for in the flat rows; `merged` are the names of USING, which mean the left side's column."""

    def resolve(node: exp.Column) -> Value:
        return asked_of(_flat_field(sides, flat, node, merged), node.name)

    return resolve


def _flat_field(
    sides: Sequence[Side], flat: Mapping[tuple[str, str], Field], node: exp.Column, merged: Set[str]
) -> Field:
    if node.table:
        named = [side for side in sides if side.alias.lower() == node.table.lower()]
        if not named:
            raise not_in_from(node.table, [side.alias for side in sides])
    else:
        named = list(sides)
    hits = [(side, f) for side in named for f in side.relation.fields or () if f.name.lower() == node.name.lower()]
    if not hits:
        raise TableError(f"there is no column {node.name} in {', '.join(side.alias for side in named)}")
    if len(hits) > 1 and not node.table and node.name.lower() in merged:
        hits = hits[:1]
    if len(hits) > 1 and not (len({side.own for side, _ in hits}) == 1 and any(f.name == node.name for _, f in hits)):
        raise TableError(f"{node.name} is in several tables; say which: {hits[0][0].alias}.{node.name}")
    side, f = next(((s, f) for s, f in hits if f.name == node.name), hits[0])
    return flat[(side.own, f.name)]


def _conjuncts(node: exp.Expression) -> list[exp.Expression]:
    if isinstance(node, exp.Paren):
        return _conjuncts(node.this)
    return [*_conjuncts(node.this), *_conjuncts(node.expression)] if isinstance(node, exp.And) else [node]


def _how(join: exp.Join) -> str:
    side, kind, method = (str(join.args.get(part) or "").upper() for part in ("side", "kind", "method"))
    extra = [n for n, v in join.args.items() if n not in ("this", "on", "using", "side", "kind") and v not in (None, False, [])]
    if method == "NATURAL":
        raise Refused("NATURAL JOIN changes its meaning with every new column; name the columns: JOIN codes USING (code)")
    if kind == "CROSS" or (join.args.get("on") is None and not join.args.get("using")):
        raise Refused("a join needs ON or USING with an equality, not a comma: FROM visits v JOIN codes c ON v.code = c.code")
    if side == "RIGHT":
        raise Refused("of the joins INNER JOIN and LEFT JOIN are understood; turn a RIGHT JOIN round, to start from the private table")
    if kind in ("SEMI", "ANTI") or side in ("SEMI", "ANTI"):
        raise Refused(
            "SEMI and ANTI JOIN are not understood; join with one row for each: JOIN (SELECT person FROM other GROUP BY person) AS o "
            "USING (person), and LEFT JOIN with WHERE o.person IS NULL"
        )
    if method or extra or side not in ("", "LEFT") or kind not in ("", "INNER", "OUTER"):
        raise Refused("of the joins INNER JOIN and LEFT JOIN are understood; others have rows without an owner")
    return "LEFT" if side == "LEFT" else "INNER"


def _matched(join: exp.Join, sides: Sequence[Side], side: Side, merged: Set[str]) -> tuple[list[_Pair], exp.Expression]:
    """The pairs of columns that must be equal, and the whole condition."""
    everyone = [*sides, side]
    own = {(s.own, f.name): f for s in everyone for f in s.relation.fields or ()}

    def place(node: exp.Column, among: Sequence[Side]) -> tuple[str, Field]:
        marked = {key: replace(f, name=f"{key[0]}\0{key[1]}") for key, f in own.items()}
        made = _flat_field(among, marked, node, merged)
        holder, name = made.name.split("\0")
        return holder, replace(made, name=name)

    def resolve(node: exp.Column) -> Value:
        holder, f = place(node, everyone)
        value = asked_of(f)
        for found in value.sql.find_all(exp.Column):
            found.set("table", exp.to_identifier(holder, quoted=True))
        return value

    terms: list[exp.Expression] = []
    for name in join.args.get("using") or []:
        old, new = place(exp.column(name.name), sides), place(exp.column(name.name), [side])
        terms.append(
            exp.EQ(this=exp.column(old[1].name, table=_alias_of(sides, old[0])), expression=exp.column(new[1].name, table=side.alias))
        )
    on = join.args.get("on")
    terms += _conjuncts(on) if on is not None else []
    made, pairs = [], list[_Pair]()
    for term in terms:
        made.append(total(term, resolve, boolean=True).sql)
        if isinstance(term, exp.EQ) and isinstance(term.this, exp.Column) and isinstance(term.expression, exp.Column):
            first, second = place(term.this, everyone), place(term.expression, everyone)
            if not isinstance(made[-1].unnest(), exp.EQ):
                raise Refused(f"a join on {first[1].name} and {second[1].name} needs both in one type; CAST one of them in a sub-query")
            sqls = [_bare(part) for part in (made[-1].unnest().this, made[-1].unnest().expression)]
            if first[0] == side.own:
                first, second, sqls = second, first, sqls[::-1]
            if first[0] != side.own and second[0] == side.own:
                pairs.append(_Pair(first[1], second[1], *sqls))
    if not pairs:
        raise Refused(f"the join with {side.alias} needs an equality between a column of each side: ON a.code = b.code")
    condition: Any = exp.and_(*made, copy=False)
    return pairs, cast(exp.Expression, condition)


def _bare(sql: exp.Expression) -> exp.Expression:
    """An expression without the names of tables."""
    found = sql.copy()
    for node in found.find_all(exp.Column):
        node.set("table", None)
    return found


def _alias_of(sides: Sequence[Side], own: str) -> str:
    return next(side.alias for side in sides if side.own == own)


# --- other ways to write a join ---


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
        terms = _terms(where.this) if where is not None else []
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
        rest = _terms(where.this) if where is not None else []
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
        terms = _terms(where.this) if where is not None else []
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


def _terms(tree: exp.Expression) -> list[exp.Expression]:
    """The terms of a condition as they are written: the parentheses around an OR stay, because the terms are put together again."""
    if isinstance(tree, exp.Paren) and isinstance(tree.this, exp.And):
        tree = tree.this
    if isinstance(tree, exp.And):
        return [*_terms(tree.this), *_terms(tree.expression)]
    return [tree]


def _all(terms: list[exp.Expression]) -> exp.Expression:
    found = terms[0]
    for term in terms[1:]:
        found = exp.And(this=found, expression=term)
    return found
