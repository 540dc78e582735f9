"""What an engine must do: run one statement in its dialect and hand back a small Arrow table.

An engine also answers for two things that SQL dialects do differently. A statement must never fail because of a row: `prepare`, where
an engine has it, turns casts and arithmetic that could into forms that cannot. And where rows are put into an order, `shuffle_key` is a
hash of the engine's own, or with `portable` one that is the same on all engines (`portable_key`).

A cast that fails gives NULL, on every engine.

>>> from sqlglot import parse_one
>>> never_failing(parse_one("SELECT SUM(CAST(a AS BIGINT)), CAST(1.5 AS DOUBLE) FROM t")).sql("duckdb")
'SELECT SUM(TRY_CAST(a AS BIGINT)), CAST(1.5 AS DOUBLE) FROM t'

`portable_key` is md5 of the salt and of a text of each value that all engines write alike.

>>> words = Words(exp.DataType.Type.TEXT, "typeof", ("DOUBLE", "FLOAT"), ("TIMESTAMP WITH TIME ZONE",), "epoch_us")
>>> portable_key(7, [exp.column("a")], words).sql("duckdb").startswith("MD5('7' || ")
True

**Packing.** What has public bounds is packed into integers of 63 bits before an engine sorts, and unpacked after.
Sorting is what caps cost, and it costs by the width of a row: DuckDB picks ten rows of each person twice as fast when
group, count and sum are one integer. Values are first held within their public bounds, so that packing cannot mix
them up whatever a row says.

>>> pack = Packing.of({"group_": (0, 99), "sum_0": (-5, 5)})
>>> [word.sql("duckdb") for word in pack.words()]
['CAST((LEAST(GREATEST("group_", 0), 99)) * 16 + (LEAST(GREATEST("sum_0", -5), 5) + 5) AS BIGINT)']
>>> pack.value("group_").sql("duckdb"), pack.value("sum_0").sql("duckdb")
('("pack_0" >> 4)', '("pack_0" & 15) - 5')
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

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
        """The public schema of a relation, name to SQL type, without reading a row or waiting for a statement that runs."""

    def shuffle_key(self, salt: int, values: list[exp.Expression]) -> exp.Expression:
        """An expression to order by that is a pseudorandom function of the values, keyed by the salt."""

    def is_nan(self, value: exp.Expression) -> exp.Expression:
        """Whether a floating-point value is NaN, never an error."""


class Draw(Protocol):
    """An engine's own way to choose lines at random, quicker than a window over random numbers. An engine need not have one."""

    def __call__(self, rows: exp.Select, partition: Sequence[str], most: int, counted: str | None) -> exp.Select:
        """At most `most` lines of each partition, every choice alike; with `counted`, one line of each says how many there were."""


def draw_of(engine: Engine) -> Draw | None:
    """The engine's own way to draw; None where it has none, or is asked to choose as all engines do."""
    return None if getattr(engine, "portable", False) else getattr(engine, "drawn", None)


def run_aside(engine: Engine, statement: exp.Expression) -> pa.Table:
    """The result of a statement about public things alone, beside a statement about rows that may run meanwhile.

    Planning and prices ask in this way: if they waited for the statement of another, they would tell how long its rows took. An
    engine that has no such way of its own is asked by `run`; it must not make a statement wait for another then.
    """
    found: pa.Table = getattr(engine, "run_aside", engine.run)(statement)
    return found


# --- statements that cannot fail on a row -------------------------------------------------------------------


_DONE = "tacit_total"


def prepared(statement: exp.Expression, change: Callable[[exp.Expression], exp.Expression]) -> exp.Expression:
    """The statement with `change` applied to every node, inner nodes first, once: a second call returns it as it is."""
    if statement.meta.get(_DONE):
        return statement
    root = statement.copy()
    # Parents come after their children, so that a change may rely on what is below it.
    for node in reversed(list(root.walk(bfs=True))):
        if isinstance(node, (exp.Greatest, exp.Least)):
            # All engines skip NULL here; without this, sqlglot writes a CASE around each that gives NULL, and is slower.
            node.set("ignore_nulls", True)
        changed = change(node)  # type: ignore[arg-type]  # sqlglot's walk says Expr, the class above Expression
        if changed is not node:
            if node is root:
                root = changed
            else:
                node.replace(changed)
    root.meta[_DONE] = True
    return root


def unlinked(tree: exp.Expression) -> None:
    """Take every node's link to its parent away, from a tree that is only read or copied from now on.

    With these links a tree is a ring, which the collector of garbage alone can free: a question leaves some 8,000 objects
    in such rings, and a process that answers many spent a sixth of its time on looking for them. Without them a tree is freed
    where it is dropped. Whoever changes a tree copies it first, and a copy has its links.
    """
    nodes: list[Any] = [tree]
    for node in nodes:  # it grows on the way
        node.parent = None
        for value in node.args.values():
            if isinstance(value, list):
                nodes += [part for part in value if isinstance(part, exp.Expr)]
            elif isinstance(value, exp.Expr):
                nodes.append(value)


def last_text(tree: exp.Expression, dialect: str) -> str:
    """The text of a tree that nobody uses afterwards."""
    text = tree.sql(dialect=dialect, copy=False)
    unlinked(tree)
    return text


def constant(node: exp.Expression) -> bool:
    """Whether a node is a public literal, perhaps with a sign or a type."""
    while isinstance(node, (exp.Paren, exp.Neg, exp.Cast)):
        node = node.this
    return isinstance(node, (exp.Literal, exp.Null, exp.Boolean))


def try_cast(node: exp.Expression) -> exp.Expression:
    """CAST as TRY_CAST, where its operand comes from a row. `safe` is what sqlglot asks for before it writes TRY_CAST for Spark."""
    if isinstance(node, exp.Cast) and not node.args.get("safe") and not constant(node.this):
        return exp.TryCast(this=node.this.copy(), to=node.args["to"].copy(), safe=True)
    return node


def never_failing(statement: exp.Expression) -> exp.Expression:
    """The statement with casts that give NULL where they would fail."""
    return prepared(statement, try_cast)


# --- an order that is the same on every engine --------------------------------------------------------------


#: Beyond this, a floating-point number has no place among 64-bit integers.
FARTHEST = 2**62
#: The bits of a fraction.
FINEST = 2**52


@dataclass(frozen=True)
class Words:
    """How an engine says what is needed: its text type, the type of a value, its float and instant types, microseconds of an instant."""

    text: Any  # a member of exp.DataType.Type, which sqlglot does not declare as a type
    type_of: str
    floats: tuple[str, ...]
    instants: tuple[str, ...]
    microseconds: str


def portable_key(salt: int, values: Sequence[exp.Expression], words: Words) -> exp.Expression:
    """md5 over the salt and the canonical texts of the values."""
    whole: exp.Expression = exp.Literal.string(str(salt))
    for value in values:
        whole = exp.DPipe(this=whole, expression=_framed(_canonical(value, words)), safe=True)
    return exp.Anonymous(this="md5", expressions=[whole])


def _canonical(value: exp.Expression, words: Words) -> exp.Expression:
    """The text of a value, by its type. Branches that are not taken must still have types, so they start from the text."""
    text = exp.cast(value.copy(), words.text)
    kind = exp.cast(exp.Anonymous(this=words.type_of, expressions=[value.copy()]), words.text)
    number = exp.TryCast(this=text.copy(), to=exp.DataType.build("DOUBLE"), safe=True)
    instant = exp.TryCast(this=text.copy(), to=exp.DataType.build("TIMESTAMPTZ"), safe=True)
    micros = exp.cast(exp.Anonymous(this=words.microseconds, expressions=[instant]), words.text)
    missing = exp.If(this=exp.Is(this=value.copy(), expression=exp.null()), true=exp.null())  # LEAST and GREATEST would pass over it
    return exp.Case(
        ifs=[
            missing,
            exp.If(this=_among(kind, words.floats), true=_float(number, words)),
            exp.If(this=_among(kind.copy(), words.instants), true=micros),
        ],
        default=text,
    )


def _float(number: exp.Expression, words: Words) -> exp.Expression:
    """Two whole numbers: the floor, and the first bits of what is left. Every step is exact, or rounded by IEEE 754 alike everywhere."""
    near = exp.func("LEAST", exp.func("GREATEST", number, _double(-FARTHEST)), _double(FARTHEST))
    floor = exp.func("FLOOR", near)
    part = exp.func("FLOOR", exp.Mul(this=exp.Paren(this=exp.Sub(this=near.copy(), expression=floor.copy())), expression=_double(FINEST)))
    texts = [exp.cast(exp.cast(whole, "BIGINT"), words.text) for whole in (floor, part)]
    return exp.DPipe(this=exp.DPipe(this=texts[0], expression=exp.Literal.string("."), safe=True), expression=texts[1], safe=True)


def _framed(text: exp.Expression) -> exp.Expression:
    """The text with its end marked: a bar is doubled, '|;' ends a value and '|~' is NULL, so a list of values can be read back."""
    doubled = exp.Anonymous(this="replace", expressions=[text, exp.Literal.string("|"), exp.Literal.string("||")])
    return exp.DPipe(this=exp.func("COALESCE", doubled, exp.Literal.string("|~")), expression=exp.Literal.string("|;"), safe=True)


def _among(kind: exp.Expression, names: tuple[str, ...]) -> exp.Expression:
    return exp.In(this=kind, expressions=[exp.Literal.string(name) for name in names])


def _double(value: int) -> exp.Expression:
    literal = exp.Literal.number(f"{float(abs(value))!r}")
    return exp.cast(exp.Neg(this=literal) if value < 0 else literal, "DOUBLE")


#: Bits of a packed word; the sign is not used.
WIDTH = 62


@dataclass(frozen=True)
class Packing:
    """Where each column lies: its word, the bits below it, its width and its lowest value."""

    places: Mapping[str, tuple[int, int, int, int, int]]

    @staticmethod
    def of(ranges: Mapping[str, tuple[int, int]]) -> Packing:
        """Columns into words, in their order; a column too wide for a word is left out."""
        words: list[list[str]] = []
        widths = {name: max(1, (high - low).bit_length()) for name, (low, high) in ranges.items()}
        for name, width in widths.items():
            if width <= WIDTH and max(map(abs, ranges[name])) < 2**WIDTH:
                fits = next((word for word in words if sum(widths[other] for other in word) + width <= WIDTH), None)
                if fits is None:
                    words.append([name])
                else:
                    fits.append(name)
        places = {}
        for index, word in enumerate(words):
            shift = 0
            for name in reversed(word):  # the last column has the lowest bits
                places[name] = (index, shift, widths[name], *ranges[name])
                shift += widths[name]
        return Packing(places)

    @property
    def count(self) -> int:
        """How many words there are."""
        return len({place[0] for place in self.places.values()})

    def name(self, word: int) -> str:
        """The column of a word."""
        return f"pack_{word}"

    def words(self) -> list[exp.Expression]:
        """Each word, from the columns."""
        found: list[exp.Expression] = []
        for word in range(self.count):
            whole: exp.Expression | None = None
            for name, (index, _, width, low, high) in sorted(self.places.items(), key=lambda item: -item[1][1]):
                if index == word:
                    part: Any = exp.func("LEAST", exp.func("GREATEST", _column(name), _whole(low)), _whole(high))
                    part = part if low == 0 else exp.Paren(this=exp.Add(this=part, expression=_whole(-low)))
                    above = None if whole is None else exp.Mul(this=exp.Paren(this=whole), expression=_whole(2**width))
                    whole = part if above is None else exp.Add(this=above, expression=part)
            assert whole is not None
            found.append(exp.cast(whole, "BIGINT"))
        return found

    def value(self, name: str) -> exp.Expression:
        """A column, from its word."""
        word, shift, width, low, _ = self.places[name]
        found: exp.Expression = _column(self.name(word))
        top = all(place[0] != word or place[1] <= shift for place in self.places.values())
        if shift:
            found = exp.Paren(this=exp.BitwiseRightShift(this=found, expression=_whole(shift)))
        if not top:
            found = exp.Paren(this=exp.BitwiseAnd(this=found, expression=_whole(2**width - 1)))
        return found if low == 0 else exp.Sub(this=found, expression=_whole(-low))


@dataclass(frozen=True)
class Packed:
    """Rows with their bounded columns packed, and the way back."""

    rows: exp.Select
    names: tuple[str, ...]
    packing: Packing

    @staticmethod
    def of(rows: exp.Select, apart: Sequence[str], ranges: Mapping[str, tuple[int, int]]) -> Packed:
        """Pack all columns of `rows` that have a range, but those that must stay `apart` because rows are grouped by them."""
        names = tuple(projection.alias_or_name for projection in rows.selects)
        packing = Packing.of({name: ranges[name] for name in names if name in ranges and name not in apart})
        if len(packing.places) <= packing.count:  # nothing shares a word
            return Packed(rows, names, Packing({}))
        plain = [_column(name) for name in names if name not in packing.places]
        words: list[Any] = [exp.alias_(word, packing.name(i), quoted=True) for i, word in enumerate(packing.words())]
        return Packed(_from([*plain, *words], rows, "wide_"), names, packing)

    @property
    def values(self) -> list[str]:
        """The columns of the packed rows."""
        return [projection.alias_or_name for projection in self.rows.selects]

    def unpacked(self, found: exp.Select) -> exp.Select:
        """What was found among the packed rows, with the columns it had."""
        places = self.packing.places
        chosen: list[Any] = [
            exp.alias_(self.packing.value(name), name, quoted=True) if name in places else _column(name) for name in self.names
        ]
        return _from(chosen, found, "packed_")


def _from(chosen: Sequence[exp.Expression], rows: exp.Select, name: str) -> exp.Select:
    inner = exp.Subquery(this=rows, alias=exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
    return exp.Select(expressions=list(chosen)).from_(inner, copy=False)


def _column(name: str) -> exp.Column:
    return exp.column(name, quoted=True)


def _whole(value: int) -> exp.Expression:
    literal = exp.Literal.number(str(abs(value)))
    return exp.Neg(this=literal) if value < 0 else literal
