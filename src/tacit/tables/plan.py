"""From a question to what will be measured: integer sums, the noise each gets, and how figures are made of them. No data is touched.

A COUNT serves the AVG and the VAR beside it, and each shared part is measured once. Demands say how much of the budget a part deserves:
equal ones for what is asked for, less for what only helps (the count below a mean matters as far as the mean is from the middle of
its bounds).

**Derived bounds.** `derived` finds the public bounds of an expression from those of its columns, so that AVG(2 * a +
1) needs no further declaration. Ends are exact fractions, or infinite where nothing is declared; what floating point
does to a value is covered by rounding outward.

>>> from sqlglot import parse_one
>>> found = derived(parse_one("2 * a + 1"), {"a": (0, 100)})
>>> float(found.lower), float(found.upper)
(1.0, 201.0)
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from tacit.accounting import Composed, Event, Guarantee
from tacit.exact import exact
from tacit.tables import statistics as measures_of
from tacit.tables.dates import PARTS
from tacit.tables.engines.engine import Engine
from tacit.tables.engines.types import NANOSECONDS, bare, kind_of
from tacit.tables.errors import Refused, TableError
from tacit.tables.forms import EXPONENT, REGULAR, SHORTENED, dated
from tacit.tables.keys import KeyList, Keys, both, keys_of
from tacit.tables.question import Aggregate, Question
from tacit.tables.ranks import ladder_for
from tacit.tables.relation import Relation
from tacit.tables.statement import Wanted, key_name, rows_of, statement
from tacit.tables.statistics import Interval, Share, Split, Statistic, better, interval_of, split
from tacit.tables.unit import Reach, Unit
from tacit.tables.values import Value

Ends = tuple[Fraction | float, Fraction | float]
_ALL: Ends = (-math.inf, math.inf)
#: Narrower intervals are widened to what a lattice can be laid on.
_NARROW = Fraction(1, 10**200)


def derived(tree: exp.Expression, bounds: Mapping[str, Any]) -> Interval | None:
    """The bounds of a total expression from declared bounds of columns, rounded outward; None where there are none.

    >>> from sqlglot import parse_one
    >>> derived(parse_one("LEAST(GREATEST(cost, 0), 10)"), {}).upper
    Fraction(10, 1)
    >>> derived(parse_one("cost + 1"), {}) is None
    True
    """
    low, high = _ends(tree, bounds)
    if not (-(10**300) < low <= high < 10**300):
        return None
    if low < high < low + _NARROW:
        low, high = low - _NARROW, high + _NARROW
    return Interval(Fraction(_outward(low, -math.inf)), Fraction(_outward(high, math.inf)))


def _outward(end: Fraction | float, towards: float) -> float:
    nearest = float(end)
    exact = Fraction(nearest) >= end if towards > 0 else Fraction(nearest) <= end
    return nearest if exact else math.nextafter(nearest, towards)


def _ends(node: exp.Expression, bounds: Mapping[str, Any]) -> Ends:
    inner = _unlimited(node)
    if inner is not None:
        return _ends(inner, bounds)
    match node:
        case exp.Paren():
            return _ends(node.this, bounds)
        case exp.Column():
            return _declared(bounds.get(node.name))
        case exp.Literal():
            return _ALL if node.is_string else (Fraction(node.this), Fraction(node.this))
        case exp.Cast():
            decimal = node.args["to"].this == exp.DataType.Type.DECIMAL
            is_number = decimal or node.args["to"].this in (*exp.DataType.INTEGER_TYPES, *exp.DataType.FLOAT_TYPES)
            if not is_number:
                return _ALL
            low, high = _ends(node.this, bounds)
            if decimal and not isinstance(node.this, (exp.Literal, exp.Abs)):
                return low - 1, high + 1  # it may round
            if node.args["to"].this in exp.DataType.INTEGER_TYPES and isinstance(node.this, (exp.Paren, exp.Is)) and (low, high) == _ALL:
                return _truth(node.this)
            return low, high
        case exp.Neg():
            low, high = _ends(node.this, bounds)
            return -high, -low
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
            return _combined(node, _ends(node.this, bounds), _ends(node.expression, bounds))
        case exp.Abs():
            low, high = _ends(node.this, bounds)
            return (Fraction(0) if low <= 0 <= high else min(max(low, -low), max(high, -high))), max(-low, high)
        case exp.Floor() | exp.Ceil():
            low, high = _ends(node.this, bounds)
            step = math.floor if isinstance(node, exp.Floor) else math.ceil
            whole_low, whole_high = (end if math.isinf(end) else Fraction(step(end)) for end in (low, high))
            return whole_low, whole_high
        case exp.Round():
            low, high = _ends(node.this, bounds)
            places = node.args.get("decimals")
            half = Fraction(1, 2 * 10 ** (int(places.this) if isinstance(places, exp.Literal) else 0))
            return low - half, high + half
        case exp.Mod():
            _, most = _ends(node.expression, bounds)
            low, high = _ends(node.this, bounds)
            return (1 - most if low < 0 else Fraction(0)), (most - 1 if high > 0 else Fraction(0))
        case exp.Sqrt() | exp.Ln() | exp.Exp():
            return _monotone(node, _ends(node.this, bounds))
        case exp.Pow():
            return _raised(_ends(node.this, bounds), _ends(node.expression, bounds))
        case exp.Nullif():
            return _ends(node.this, bounds)
        case exp.Least() | exp.Greatest():
            return _extreme(node, bounds)
        case exp.Coalesce():
            return _hull([_ends(part, bounds) for part in (node.this, *node.expressions)])
        case exp.Case():
            branches = [
                *(branch.args["true"] for branch in node.args["ifs"]),
                *([node.args["default"]] if node.args.get("default") else []),
            ]
            return _hull([_ends(part, bounds) for part in branches if not isinstance(_bare(part), exp.Null)])
        case exp.Extract():
            known = PARTS.get(node.this.name.upper())
            return _ALL if known is None else (Fraction(known[0]), Fraction(known[1]))
    return _ALL


def _bare(node: exp.Expression) -> exp.Expression:
    while isinstance(node, (exp.Paren, exp.Cast)):
        node = node.this
    return node


def _truth(node: exp.Expression) -> Ends:
    """A condition cast to a number is 0 or 1."""
    inner = node.this if isinstance(node, exp.Paren) else node
    logical = (exp.Predicate, exp.Connector, exp.Not)
    return (Fraction(0), Fraction(1)) if isinstance(inner, logical) else _ALL


def _unlimited(node: exp.Expression) -> exp.Expression | None:
    """What `_limited` was made of: its guard takes nothing from the bounds."""
    if not isinstance(node, exp.Nullif) or not isinstance(node.this, exp.Nullif) or not isinstance(node.this.this, exp.Least):
        return None
    inside = node.this.this.this
    made = (
        isinstance(inside, exp.Greatest)
        and inside.expressions == [node.expression]
        and node.this.this.expressions == [node.this.expression]
    )
    return inside.this if made else None


def _declared(pair: Any) -> Ends:
    try:
        low, high = pair
        found = Fraction(low), Fraction(high)
    except (TypeError, ValueError, OverflowError):
        return _ALL
    return found if found[0] <= found[1] else _ALL


def _times(first: Fraction | float, second: Fraction | float) -> Fraction | float:
    return Fraction(0) if first == 0 or second == 0 else first * second


def _combined(node: exp.Expression, first: Ends, second: Ends) -> Ends:
    match node:
        case exp.Add():
            return first[0] + second[0], first[1] + second[1]
        case exp.Sub():
            return first[0] - second[1], first[1] - second[0]
        case exp.Mul():
            corners = [_times(a, b) for a in first for b in second]
            return min(corners), max(corners)
    if second[0] <= 0 <= second[1]:
        return _ALL
    inverse = [Fraction(0) if math.isinf(end) else 1 / Fraction(end) for end in second]
    corners = [_times(a, b) for a in first for b in inverse]
    return min(corners), max(corners)


def _monotone(node: exp.Expression, ends: Ends) -> Ends:
    low, high = (float(end) for end in ends)
    match node:
        case exp.Sqrt():
            found = math.sqrt(max(low, 0.0)), math.sqrt(max(high, 0.0))
        case exp.Ln():
            found = math.log(low) if low > 0 else -350.0, math.log(high) if high > 0 else -350.0
        case _:
            found = math.exp(min(low, EXPONENT)), math.exp(high) if high <= EXPONENT else math.inf
    # Each library is right to one unit in the last place; four cover this one's and the engine's.
    down, up = found[0] - 4 * math.ulp(found[0]), found[1] + 4 * math.ulp(found[1])
    return (Fraction(down) if math.isfinite(down) else down), (Fraction(up) if math.isfinite(up) else up)


def _raised(base: Ends, exponent: Ends) -> Ends:
    if exponent[0] != exponent[1] or exponent[0] != int(exponent[0]) or not 1 <= exponent[0] <= 8:
        return _ALL
    k = int(exponent[0])
    ends = [end**k for end in base]
    if k % 2 == 0:
        return (Fraction(0) if base[0] <= 0 <= base[1] else min(ends)), max(ends)
    return ends[0], ends[1]


def _sure(node: exp.Expression) -> bool:
    """Whether a value is never NULL, whatever the row."""
    inner = _bare(node)
    if isinstance(inner, (exp.Least, exp.Greatest, exp.Coalesce)):
        return any(_sure(part) for part in (inner.this, *inner.expressions))
    return isinstance(inner.this, exp.Literal) if isinstance(inner, exp.Neg) else isinstance(inner, exp.Literal)


def _extreme(node: exp.Expression, bounds: Mapping[str, Any]) -> Ends:
    """LEAST and GREATEST skip what is NULL, so only parts that never are can narrow the other side."""
    parts = [node.this, *node.expressions]
    ends = [_ends(part, bounds) for part in parts]
    sure = [end for part, end in zip(parts, ends, strict=True) if _sure(part)]
    low, high = _hull(ends)
    if isinstance(node, exp.Least):
        return low, min([high, *(end[1] for end in sure)])
    return max([low, *(end[0] for end in sure)]), high


def _hull(ends: Sequence[Ends]) -> Ends:
    return (min(end[0] for end in ends), max(end[1] for end in ends)) if ends else _ALL


if TYPE_CHECKING:
    from tacit.tables.selection import SelectionRule

Bounds = Mapping[str, Any]
Linear = tuple[tuple[int, float], ...]

#: The part of the budget that the share of rows lost to the caps is measured with, under each law: Gaussian noise falls with the root of
#: the part, and costs the other figures half of it; Laplace noise falls with the part itself.
LOSS_PARTS = {"gaussian": Fraction(1, 2000), "laplace": Fraction(1, 50)}
#: The part that it takes to count values beyond their bounds, where that is wanted.
BEYOND_PARTS = {"gaussian": Fraction(1, 250), "laplace": Fraction(1, 40)}
#: For that share a person's rows count up to this many times the cap: more would see further, through more noise.
LOSS_REACH = 4


@dataclass(frozen=True)
class Recipe:
    """How one figure is made of the released sums: sums of measures with factors, and the bounds of the values they are about."""

    aggregate: Aggregate
    kind: str
    value: Linear = ()
    count: Linear = ()
    other: Linear = ()
    squares: tuple[Linear, ...] = ()
    intervals: tuple[Interval, ...] = ()
    cells: int | None = None
    q: Fraction = Fraction(1, 2)
    sample: bool = False


@dataclass(frozen=True)
class RowLoss:
    """Which measures tell how many rows there were before the caps (each person's at most `most`) and after."""

    seen: int
    kept: int
    most: int


@dataclass(frozen=True)
class Plan:
    """Everything about the answer but the data: what is sent, what is added to it, what it costs."""

    question: Question
    wanted: Wanted
    split: Split
    recipes: tuple[Recipe, ...]
    spend: Guarantee
    event: Event
    selection: SelectionRule | None = None
    loss: RowLoss | None = None
    notes: tuple[str, ...] = field(default=())
    #: Which measure counts the rows whose value lies beyond its bounds, by the name of the aggregate.
    beyond: tuple[tuple[str, int], ...] = ()

    @property
    def unit(self) -> Unit:
        return self.wanted.unit

    @property
    def keys(self) -> Keys:
        return self.wanted.keys

    @property
    def reach(self) -> Reach:
        """How far one unit's rows can spread over the groups."""
        return _reach(self.question, self.unit, self.keys)

    @property
    def shares(self) -> tuple[Share, ...]:
        return self.split.shares

    def statement(self, engine: Engine, salt: int) -> exp.Select:
        return statement(self.question, self.wanted, engine, salt)


@dataclass
class _Wishes:
    """Measures as they are asked for, with the greatest demand for each."""

    measures: list[Statistic] = field(default_factory=list)
    demands: list[Fraction] = field(default_factory=list)

    def add(self, measure: Statistic, demand: Fraction) -> int:
        if measure not in self.measures:
            self.measures.append(measure)
            self.demands.append(Fraction(0))
        index = self.measures.index(measure)
        self.demands[index] = max(self.demands[index], demand)
        return index


@dataclass(frozen=True)
class Settings:
    """What is declared and asked beside the question itself."""

    bounds: Bounds = field(default_factory=dict)
    keys: KeyList = field(default_factory=dict)
    weights: Mapping[str, Any] = field(default_factory=dict)
    law: str | None = None
    loss: bool = True
    beyond: bool = False
    period: tuple[datetime.date, datetime.date] | None = None


def make(question: Question, unit: Unit, engine: Engine, settings: Settings, spend: Guarantee) -> Plan:
    """Plan a question, or refuse it with what is missing."""
    return prepare(question, unit, engine, settings).at(spend)


@dataclass(frozen=True)
class Prepared:
    """What a plan is made of whatever it costs: types, keys, measures and recipes. `at` adds the noise of a price.

    Many prices of one question, as a curve needs them, share it.
    """

    question: Question
    unit: Unit
    settings: Settings
    keys: Keys
    wishes: _Wishes
    asked: int
    told: int
    recipes: tuple[Recipe, ...]
    loss: RowLoss | None
    beyond: tuple[tuple[str, int], ...]
    numbered: bool

    @cached_property
    def reach(self) -> Reach:
        """How far one unit's rows can spread over the groups."""
        return _reach(self.question, self.unit, self.keys)

    def at(self, spend: Guarantee) -> Plan:
        """The plan for a price."""
        question, unit, keys, law = self.question, self.unit, self.keys, self.settings.law
        selection = None
        if keys.private:
            from tacit.tables.selection import selection_for  # with all mechanisms, which other questions do without

            names = ", ".join(repr(question.keys[i].name) for i in keys.private)
            selection, found = selection_for(self._noise, unit, spend, law, self.reach, names)
            event: Event = Composed(found.event, *selection.events)
        else:
            found = self._noise(spend, law)
            event = found.event
        measures = tuple(self.wishes.measures)
        _fits(measures)
        most = self.loss.most if self.loss else None
        wanted = Wanted(keys, measures, unit, self.settings.period, bool(keys.private), most, self.numbered)
        return Plan(question, wanted, found, self.recipes, spend, event, selection, self.loss, beyond=self.beyond)

    def _noise(self, price: Guarantee, law: str | None) -> Split:
        if law is None and price.laplace_epsilon is not None and price.noise_multiplier is not None:
            # The loss takes another part under each law, so both are made, and the better one is taken as it is.
            return better(self._noise(price, "gaussian"), self._noise(price, "laplace"))
        own = law or ("gaussian" if price.laplace_epsilon is None else "laplace")
        demands = _demands(self.wishes.demands, self.asked, self.told, own)
        return split(self.wishes.measures, demands, self.reach, price, law)


def prepare(question: Question, unit: Unit, engine: Engine, settings: Settings) -> Prepared:
    """Everything of a plan but its price, or a refusal with what is missing."""
    if settings.law not in (None, "laplace", "gaussian"):
        raise TableError(f"noise must be 'laplace' or 'gaussian', or left out to have the better one taken, not {settings.law!r}")
    unknown = [name for name in settings.weights if name not in {a.name for a in question.aggregates}]
    if unknown:
        raise TableError(f"weights names {unknown[0]!r}, which is no aggregate of the question")
    unit = _narrowed(question, unit)
    types = types_of(question, engine, unit)
    keys = _publishable(keys_of(question.keys, settings.keys, [types[key.value] for key in question.keys]), types, engine.dialect)
    if question.levels:
        _check_levels(question, keys)
    wishes = _Wishes()
    planner = _Planner(question, unit, engine, settings, wishes, keys.count, types)
    recipes = tuple(planner.recipe(aggregate) for aggregate in question.aggregates)
    capping = unit.person is not None and not unit.capped
    asked, reach = len(wishes.measures), _reach(question, unit, keys)
    loses = capping and not _counts_people(question)
    loss = _loss(wishes, unit, keys, reach) if settings.loss and loses else None
    told = len(wishes.measures)
    beyond = _beyond(wishes, recipes, reach.rows, engine, types) if settings.beyond else ()
    numbered = unit.person is not None and kind_of(types[exp.column(unit.person, quoted=True)]) == "float"
    return Prepared(question, unit, settings, keys, wishes, asked, told, recipes, loss, beyond, numbered)


def _fits(measures: Sequence[Statistic]) -> None:
    """Refuse what an engine could not count in 64 bits; what a row can add is public."""
    for measure in measures:
        if measure.most >= measures_of.LARGEST:
            raise TableError(
                f"{measure.name}: one unit could add {float(measure.most):.3g}, which must stay below 2**62; "
                "narrow the bounds, or lower max_rows (or max_groups and rows_per_group)"
            )


def _check_levels(question: Question, keys: Keys) -> None:
    """Sub-totals are sums of released groups: refuse where they would miss groups, or count people and values twice."""
    if keys.private:
        names = ", ".join(repr(question.keys[place].name) for place in keys.private)
        raise Refused(f"ROLLUP and CUBE add up declared groups, and the values of {names} are not declared; say keys={{{names}: [...]}}")
    twice = [a.name for a in question.aggregates if _kind(a)[0] in ("count_person", "count_distinct", "quantile")]
    if twice:
        raise Refused(f"{twice[0]} of a sub-total is no sum of those of its groups; ask for it in a question of its own, without ROLLUP")


def _counts_people(question: Question) -> bool:
    """Whether only people are counted, all together: each keeps a row below every cap, so nothing is lost to them."""
    return not question.grouped and all(_kind(aggregate)[0] == "count_person" for aggregate in question.aggregates)


def _reach(question: Question, unit: Unit, keys: Keys) -> Reach:
    """How far one unit's rows can spread over a question's groups."""
    return unit.reach(question.grouped, multiplicity_of(question), among=keys.most)


def multiplicity_of(question: Question) -> int:
    """The most rows of the question that one row of the data can become."""
    return question.relation.multiplicity if isinstance(question.relation, Relation) else 1


def _narrowed(question: Question, unit: Unit) -> Unit:
    """The unit with a cap that holds in the question's rows by construction, such as one row a person."""
    most = question.relation.rows_per_person if isinstance(question.relation, Relation) else None
    if most is None or unit.person is None or unit.automatic or most >= unit.most_rows:
        return unit
    return replace(unit, max_rows=most)


def _publishable(keys: Keys, types: Mapping[exp.Expression, str], dialect: str) -> Keys:
    """Keys to be selected, NULL where a date, a number or a text cannot be handed over: a row must not make the answer fail."""
    found = list(keys.keys)
    for place in keys.private:
        key = found[place]
        kind, value = kind_of(types[key.value]), exp.Paren(this=key.value.copy())
        if bare(types[key.value]) in NANOSECONDS:
            found[place] = replace(key, value=_nanoseconds(value), digits=kind)
        elif kind in ("date", "timestamp"):
            found[place] = replace(key, value=dated(Value(value, kind)))
        elif kind == "text" and dialect == "spark":
            # A text of Spark may be any bytes, as files have them, and those that are no UTF-8 are no text anywhere else.
            found[place] = replace(key, value=exp.Anonymous(this="try_validate_utf8", expressions=[value]))
        elif kind == "float":
            # 0.0 and -0.0 are one group, and which of them is shown would be the row's that comes first.
            zero = exp.EQ(this=value.copy(), expression=exp.Literal.number(0))
            plain = exp.cast(exp.Literal.number(0), types[key.value])
            found[place] = replace(key, value=exp.Case(ifs=[exp.If(this=zero, true=plain)], default=value))
        elif kind == "decimal" and "(" not in types[key.value]:
            found[place] = replace(key, value=_digits(value), digits=kind)
    return replace(keys, keys=tuple(found))


def _digits(value: exp.Expression) -> exp.Expression:
    """One of PostgreSQL's numbers as a text, one for all that are equal: no column of numbers holds all their digits. NaN is NULL, as of
    floats."""
    written = exp.cast(exp.Anonymous(this="trim_scale", expressions=[value]), "TEXT")
    return exp.Nullif(this=written, expression=exp.Literal.string("NaN"))


def _nanoseconds(value: exp.Expression) -> exp.Expression:
    """A timestamp of nanoseconds as a text: no date of Python's has so many decimals. Infinite ones are NULL, as of others."""
    written: exp.Expression = exp.cast(value, "TEXT")
    for infinite in ("infinity", "-infinity"):
        written = exp.Nullif(this=written, expression=exp.Literal.string(infinite))
    return written


def types_of(question: Question, engine: Engine, unit: Unit | None = None) -> dict[exp.Expression, str]:
    """The types of keys and values, and of the unit's person, as the engine has them: public, and known without reading a row."""
    _refuse_regular(question, engine)
    _refuse_shortened(question, engine)
    values = dict.fromkeys([key.value for key in question.keys])
    if unit is not None and unit.person is not None:
        values |= {exp.column(unit.person, quoted=True): None}
    for aggregate in question.aggregates:
        values |= dict.fromkeys(value for value in (aggregate.value, aggregate.other) if value is not None)
    if unit is not None and unit.when is not None:
        values |= {exp.column(unit.when, quoted=True): None}
    chosen = [exp.alias_(value.copy(), key_name(i), quoted=True) for i, value in enumerate(values)]
    query = exp.Select(expressions=chosen or [exp.alias_(exp.Literal.number(1), key_name(0))]).from_(rows_of(question), copy=False)
    if question.where is not None:
        # Its types too are checked here: what the engine cannot bind must not be paid for.
        query = query.where(question.where.copy(), copy=False)
    try:
        found = engine.columns(exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier("typed_"))))
    except Exception:
        found = {}
    if not found:
        # No row was read; still, the engine's own words stay out of ours.
        raise TableError("the engine knows no such table or column, or cannot type an expression; check the names") from None
    types = {value: found[key_name(i)] for i, value in enumerate(values)}
    for value, kind in types.items():
        if kind_of(kind) == "other" and value.find(exp.Column) is not None:
            raise Refused(code="type-unsupported", column=next(node.name for node in value.find_all(exp.Column)), type=kind)
    return types


def _refuse_regular(question: Question, engine: Engine) -> None:
    """Refuse regular expressions where the engine's own may take for ever: a row could then be told by the time that it takes."""
    if engine.dialect == "duckdb":
        return
    for node in (node for part in _parts(question) for node in part.find_all(exp.Anonymous)):
        if node.name.upper() in REGULAR:
            raise Refused(f"{node.name.upper()} is for DuckDB alone: the regular expressions of {engine.dialect} can take for ever on "
                          "one row; "
                          "use LIKE, STARTS_WITH, SUBSTRING or REPLACE")


def _refuse_shortened(question: Question, engine: Engine) -> None:
    """Refuse decimals that Spark would leave digits out of: its answer is not that of the numbers, and other versions fail on a row."""
    if engine.dialect == "spark" and any(node.meta.get(SHORTENED) for part in _parts(question) for node in part.walk()):
        raise Refused(code="digits-too-many")


def _parts(question: Question) -> list[exp.Expression]:
    """Everything that is computed of a row."""
    parts = [rows_of(question), question.where, *(key.value for key in question.keys)]
    parts += [part for a in question.aggregates for part in (a.value, a.other)]
    return [part for part in parts if part is not None]


def _loss(wishes: _Wishes, unit: Unit, keys: Keys, reach: Reach) -> RowLoss:
    """One or two more sums for a small part of the budget: rows of all people before the caps, and after them."""
    most = LOSS_REACH * unit.most_rows
    rows = next((i for i, m in enumerate(wishes.measures) if m.name == "rows"), None)
    one = exp.Literal.number(1)
    seen = wishes.add(Statistic("rows before the caps", one, 0, most, over="seen"), Fraction(1))
    if rows is not None and not keys.private:
        return RowLoss(seen, rows, most)
    return RowLoss(seen, wishes.add(Statistic("rows after the caps", one, 0, reach.rows, over="kept"), Fraction(1)), most)


def _beyond(
    wishes: _Wishes, recipes: Sequence[Recipe], most: int, engine: Engine, types: Mapping[exp.Expression, str]
) -> tuple[tuple[str, int], ...]:
    """One more sum for every clamped value: in how many rows it lies beyond its bounds, over all groups. `most` are a unit's rows."""
    found: list[tuple[str, int]] = []
    for recipe in recipes:
        value = recipe.aggregate.value
        if recipe.aggregate.kind not in ("sum", "avg") or value is None or not isinstance(value, exp.Column):
            continue
        ends = (recipe.intervals[0].lower, recipe.intervals[0].upper)
        low, high = (exp.cast(exp.Literal.number(repr(float(end))), "DOUBLE") for end in ends)
        outside: list[exp.Expression] = [
            exp.LT(this=exp.cast(value.copy(), "DOUBLE"), expression=low), exp.GT(this=exp.cast(value.copy(), "DOUBLE"), expression=high)
        ]
        condition: exp.Expression = exp.Paren(this=exp.Or(this=outside[0], expression=outside[1]))
        if kind_of(types[value]) == "float":
            condition = exp.And(this=condition, expression=exp.Not(this=engine.is_nan(value.copy())))
        one = exp.Case(ifs=[exp.If(this=condition, true=exp.Literal.number(1))], default=exp.Literal.number(0))
        measure = Statistic(f"rows beyond the bounds of {value.sql()}", one, 0, most, over="kept")
        found.append((recipe.aggregate.name, wishes.add(measure, Fraction(1))))
    return tuple(found)


def _demands(wished: list[Fraction], asked: int, told: int, law: str) -> list[Fraction]:
    """What is asked for, and a small part beside it, under this law: for the measures of the loss, which come next, and for those of what
    lies beyond the bounds, which come last."""
    whole = sum(wished[:asked], Fraction(0))
    found = list(wished[:asked])
    for extra, shares in ((told - asked, LOSS_PARTS), (len(wished) - told, BEYOND_PARTS)):
        if extra:
            part = whole * shares[law] / (1 - shares[law])
            found += [part / extra] * extra
    return found


@dataclass(frozen=True)
class _Planner:
    """Makes recipes, and asks for the measures they need."""

    question: Question
    unit: Unit
    engine: Engine
    settings: Settings
    wishes: _Wishes
    groups: int
    types: Mapping[exp.Expression, str]

    def recipe(self, aggregate: Aggregate) -> Recipe:
        weight = exact("weight", self.settings.weights.get(aggregate.name, 1))
        if weight <= 0:
            raise TableError(f"weights[{aggregate.name!r}] must be greater than 0, not {weight}")
        kind, sample = _kind(aggregate)
        if kind == "count":
            return Recipe(aggregate, "linear", ((self.wishes.add(measures_of.row_count(), weight), 1.0),))
        if kind == "count_person":
            if self.unit.person is None:
                raise Refused(code="person-needed", what="COUNT(DISTINCT person)")
            return Recipe(aggregate, "linear", ((self.wishes.add(measures_of.people_count(self.unit.person), weight), 1.0),))
        if aggregate.value is None:
            raise Refused(f"{aggregate.kind} needs a value to work on")
        if kind in ("covariance", "correlation"):
            return self._pair(aggregate, kind, sample, weight)
        subject, present = self._subject(aggregate.value)
        if kind in ("count_value", "count_distinct") and kind_of(self.types[aggregate.value]) == "float":
            # NaN is a value to every engine's COUNT, though none that could be added up: a subject of its own, because a row with NaN
            # is counted here and lacks the value where it is added up.
            there = exp.Not(this=exp.Is(this=exp.Paren(this=aggregate.value.copy()), expression=exp.null()))
            subject, present = f"{subject}, NaN too", there
        if kind == "count_value":
            return Recipe(aggregate, "linear", ((self.wishes.add(measures_of.present_count(subject, present), weight), 1.0),))
        if kind == "count_distinct":
            measure = measures_of.distinct_count(subject, aggregate.value, present)
            return Recipe(aggregate, "linear", ((self.wishes.add(measure, weight), 1.0),))
        interval = self.interval(aggregate, aggregate.value)
        if kind == "sum":
            return self._sum(aggregate, subject, present, interval, weight)
        if kind == "quantile":
            whole = kind_of(self.types[aggregate.value]) == "integer"
            ladder = ladder_for(interval.lower, interval.upper, self.groups, whole=whole)
            place = self.wishes.add(measures_of.cells(subject, aggregate.value, present, interval, ladder), weight)
            return Recipe(aggregate, "quantile", intervals=(interval,), cells=place, q=_rank(aggregate))
        total = self.wishes.add(measures_of.total(subject, aggregate.value, present, interval, centred=True), weight)
        value: Linear = ((total, 1.0),)
        count = self._count(subject, present, weight / 4)
        if kind == "avg":
            return Recipe(aggregate, "mean", value, count, intervals=(interval,))
        if kind in ("var", "stddev"):
            square = self.wishes.add(measures_of.squares(subject, aggregate.value, present, interval), weight)
            return Recipe(aggregate, kind, value, count, squares=(((square, 1.0),),), intervals=(interval,), sample=sample)
        raise Refused(f"{aggregate.kind} is not one of the aggregates that can be answered")

    def _subject(self, *values: exp.Expression) -> tuple[str, exp.Expression]:
        """The name of what a row has or lacks, and the condition that it has it: neither NULL nor NaN."""
        conditions: list[exp.Expression] = []
        for value in values:
            conditions.append(exp.Not(this=exp.Is(this=exp.Paren(this=value.copy()), expression=exp.null())))
            if kind_of(self.types[value]) == "float":
                conditions.append(exp.Not(this=self.engine.is_nan(value.copy())))
        return ", ".join(value.sql() for value in values), both(conditions)

    def _asked(self, subject: str, *kinds: str) -> bool:
        return any(
            _kind(a)[0] in kinds and a.value is not None and a.value.sql() == subject and a.other is None for a in self.question.aggregates
        )

    def _count(self, subject: str, present: exp.Expression, demand: Fraction) -> Linear:
        """Rows that have the value: measured, or all rows without the NULLs, which cost nothing beside a sum."""
        counted = any(_kind(a)[0] == "count" for a in self.question.aggregates)
        if counted and not self._asked(subject, "count_value"):
            rows = self.wishes.add(measures_of.row_count(), Fraction(0))
            return ((rows, 1.0), (self.wishes.add(measures_of.null_count(subject, present), Fraction(0)), -1.0))
        return ((self.wishes.add(measures_of.present_count(subject, present), demand), 1.0),)

    def _sum(self, aggregate: Aggregate, subject: str, present: exp.Expression, interval: Interval, weight: Fraction) -> Recipe:
        assert aggregate.value is not None
        if self._weighs(aggregate.value) and interval.lower <= 0:
            measure = measures_of.total(subject, aggregate.value, present, interval, centred=False)
            measure = replace(measure, shared=math.ceil(1 / measure.granularity))
            return Recipe(aggregate, "linear", ((self.wishes.add(measure, weight), 1.0),), intervals=(interval,))
        counted = any(_kind(a)[0] == "count" for a in self.question.aggregates)
        centred = counted or self._asked(subject, "count_value", "avg", "var", "stddev")
        total = measures_of.total(subject, aggregate.value, present, interval, centred=centred)
        value: Linear = ((self.wishes.add(total, weight), 1.0),)
        if centred:
            # The count is multiplied by the middle of the bounds, so it deserves as much more.
            count = self._count(subject, present, weight * min(Fraction(1), abs(interval.centre) / interval.half))
            value += tuple((index, factor * float(interval.centre)) for index, factor in count)
        return Recipe(aggregate, "linear", value, intervals=(interval,))

    def _weighs(self, value: exp.Expression) -> bool:
        """Whether it is one over the number of the person's rows."""
        relation = self.question.relation
        return isinstance(relation, Relation) and isinstance(value, exp.Column) and value.name in relation.weights

    def _pair(self, aggregate: Aggregate, kind: str, sample: bool, weight: Fraction) -> Recipe:
        if aggregate.value is None or aggregate.other is None:
            raise Refused(f"{aggregate.kind} needs two values")
        values = (aggregate.value, aggregate.other)
        subject, present = self._subject(*values)
        intervals = (self.interval(aggregate, values[0]), self.interval(aggregate, values[1]))
        product = self.wishes.add(measures_of.products(subject, values, present, intervals), weight)
        totals = []
        for value, interval in zip(values, intervals, strict=True):
            measure = measures_of.total(subject, value, present, interval, centred=True)
            totals.append(((self.wishes.add(_named(measure, value), weight / 2), 1.0),))
        found: list[Linear] = [((product, 1.0),)]
        if kind == "correlation":
            for value, interval in zip(values, intervals, strict=True):
                measure = _named(measures_of.squares(subject, value, present, interval), value)
                found.append(((self.wishes.add(measure, weight / 2), 1.0),))
        count = self._count(subject, present, weight / 4)
        return Recipe(aggregate, kind, totals[0], count, totals[1], tuple(found), intervals, sample=sample)

    def interval(self, aggregate: Aggregate, value: exp.Expression) -> Interval:
        """The declared bounds of a value, under its column's name, its text or the name of the figure; or those of its columns.

        In SUM(cost) AS age the name of the figure is that of another column, whose bounds are not meant.
        """
        text = value.sql(dialect=self.engine.dialect)
        relation, bounds = self.question.relation, self.settings.bounds
        columns = {name.lower() for name in relation.names} if isinstance(relation, Relation) else set[str]()
        names = [text, value.sql(), *([value.name] if isinstance(value, exp.Column) else [])]
        names += [aggregate.name] if aggregate.name.lower() not in columns else []
        # What the question itself says goes before what was declared of the column.
        declared = aggregate.bounds or next((bounds[name] for name in names if name in bounds), None)
        if declared is None and self._weighs(value):
            declared = (0, 1)
        if declared is None:
            known = derived(value, bounds)
            if known is not None:
                return Interval(known.lower, known.upper)
            if {node.name for node in value.find_all(exp.Column)} == {aggregate.name}:
                declared = bounds.get(aggregate.name)
        if declared is None:
            shown = value.name if isinstance(value, exp.Column) else aggregate.name
            raise Refused(code="bounds-missing", column=shown)
        return interval_of(value.name or aggregate.name, declared)


def _named(measure: Statistic, value: exp.Expression) -> Statistic:
    return replace(measure, name=f"{measure.name}: {value.sql()}")


def _kind(aggregate: Aggregate) -> tuple[str, bool]:
    """The kind without its variants, and whether it is the sample's (divided by n - 1)."""
    kind = aggregate.kind
    sample = kind.endswith("_samp")
    plain = kind.removesuffix("_samp").removesuffix("_pop")
    short = {"median": "quantile", "min": "quantile", "max": "quantile", "covar": "covariance", "corr": "correlation", "variance": "var"}
    return short.get(plain, plain), sample


def _rank(aggregate: Aggregate) -> Fraction:
    fixed = {"median": Fraction(1, 2), "min": Fraction(0), "max": Fraction(1)}
    q = fixed.get(aggregate.kind, aggregate.quantile if aggregate.quantile is not None else Fraction(1, 2))
    if not 0 <= q <= 1:
        raise TableError(f"a quantile's rank must lie between 0 and 1, not {q}")
    return Fraction(q)
