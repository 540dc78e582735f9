"""The one generator of questions: a seeded stream of whole questions about columns of every type that an engine has, in DuckDB's SQL.

A question has several figures over rows that come from a table, a sub-query, a union, a join with a public or a private table on a key of
any type, a sub-query by person or a choice of each person's rows; it may be grouped, by keys that are listed or that are to be selected.
Each figure comes with the plain SQL that says what it is without caps and noise, and with whether that holds of rows at the limits of
every type as well. `broken` takes such a question apart, `unsupported` asks about columns whose type cannot be asked about.

>>> made = Questions("duckdb", 1).asked()
>>> made.figures[0].text.split("(")[0] in FUNCTIONS, made.source.startswith(("every_plain", "("))
(True, True)
"""

from __future__ import annotations

import datetime
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from tests.tables.engines.every_type import COLUMNS, Typed

#: What the figures of a question begin with.
FUNCTIONS = ("COUNT", "SUM", "AVG", "VAR_POP", "MEDIAN", "MAX", "COVAR_POP", "COUNT_IF")
PARTS = ("YEAR", "MONTH", "DAY", "QUARTER", "WEEK", "DOY", "ISODOW", "DOW")
UNITS = ("year", "quarter", "month", "week", "day")
#: Columns that lie within the years 1 to 9999 also at the limits, of microseconds; of others, what is beyond is no date.
DATED = ("da", "ts", "ns")
#: Columns of nanoseconds.
NANOSECONDS = ("ns", "n2")
#: What a number is clamped to.
LOW, HIGH = -5, 10


@dataclass(frozen=True)
class Part:
    """An expression; `same`: the plain SQL says the same of every row, or fails; where not, of ordinary rows alone.

    Others become NULL here: floats that are not finite or beyond 1e150 in arithmetic, dates beyond the years 1 to 9999 in functions.
    """

    text: str
    same: bool = True


@dataclass(frozen=True)
class Figure:
    """What is asked; `plain`: the same in plain SQL, or empty where its figure is no number of the rows (a quantile)."""

    text: str
    plain: str
    same: bool = True


@dataclass(frozen=True)
class Asked:
    """One question. `keys`: the listed values of `key`; None where they are to be selected."""

    figures: tuple[Figure, ...]
    source: str
    where: Part = Part("")
    key: Part = Part("")
    keys: tuple[Any, ...] | None = None
    same: bool = True

    @property
    def text(self) -> str:
        return self._with([figure.text for figure in self.figures])

    def keyed_by(self, columns: Sequence[str]) -> bool:
        """Whether the key is one of these columns, under its own name or under one that the source gives it."""
        key = self.key.text
        return key in columns or any(f".{name} AS {key} " in f"{self.source} " for name in columns)

    def plain(self, chosen: tuple[int, ...]) -> str:
        """The plain SQL of some of the figures. A key of nanoseconds is shown as a text, because Python's dates end before."""
        shown = f"CAST({self.key.text} AS VARCHAR)" if self.keyed_by(NANOSECONDS) else self.key.text
        return self._with([self.figures[i].plain for i in chosen], shown)

    def _with(self, figures: list[str], shown: str = "") -> str:
        named = [*([f"{shown or self.key.text} AS k"] if self.key.text else []), *(f"{figure} AS q{i}" for i, figure in enumerate(figures))]
        where, group = (f" WHERE {self.where.text}" if self.where.text else ""), (f" GROUP BY {self.key.text}" if self.key.text else "")
        return f"SELECT {', '.join(named)} FROM {self.source}{where}{group}"

    @property
    def bounds(self) -> dict[str, tuple[int, int]]:
        return {f"q{i}": (LOW, HIGH) for i in range(len(self.figures))}

    def whole(self) -> Asked:
        """The same without fractions: beside one, Spark rounds a decimal that has no room for another digit, and so compares others."""

        def cut(text: str) -> str:
            return re.sub(r"(?<![\w.'])(\d+)\.\d+", r"\1", text)

        figures = tuple(replace(figure, text=cut(figure.text), plain=cut(figure.plain)) for figure in self.figures)
        where, key = (replace(part, text=cut(part.text)) for part in (self.where, self.key))
        return replace(self, figures=figures, source=cut(self.source), where=where, key=key)

    def only(self, chosen: list[int]) -> Asked:
        return replace(self, figures=tuple(self.figures[i] for i in chosen))


class Questions:
    """A stream of questions for an engine."""

    def __init__(self, engine: str, seed: int) -> None:
        self.engine = engine
        self.rng = random.Random(f"{engine} {seed}")
        self.usable = [_known(column) for column in COLUMNS[engine] if column.kind != "other"]
        self.others = [column for column in COLUMNS[engine] if column.kind == "other"]
        self.columns = self.usable

    # ---- whole questions -------------------------------------------------------------------------------------------------------------

    def asked(self, figures: int = 24, *, grouped: bool | None = None) -> Asked:
        """A question; all its columns are of types that can be asked about."""
        source = self.source()
        grouped = self.rng.random() < 0.4 if grouped is None else grouped
        key, keys = self.key() if grouped else (Part(""), None)
        ranked = self.rng.random() < 0.1
        made = tuple(self.quantile() if ranked else self.figure() for _ in range(min(figures, 2) if ranked else figures))
        where = self.condition(1) if self.rng.random() < 0.4 else Part("")
        same = source.same and where.same and key.same
        self.columns = self.usable
        found = Asked(made, source.text, where, key, keys, same)
        return found.whole() if self.engine == "spark" and re.search(r"\bd0\b", found.text) else found

    def broken(self) -> str:
        """A question with words taken out, doubled or put elsewhere."""
        words = self.asked(self.rng.randrange(1, 4)).text.split(" ")
        strange = ["(", ")", "'", "NULL", "OVER ()", "1/0", ";", "--", "raise_error(vc)", "pg_sleep(9)", "vc::date", "*"]
        for _ in range(self.rng.randrange(1, 4)):
            at, other = self.rng.randrange(len(words)), self.rng.randrange(len(words))
            match self.rng.randrange(4):
                case 0:
                    del words[at]
                case 1:
                    words.insert(at, words[other])
                case 2:
                    words[at] = self.rng.choice(strange)
                case 3:
                    words[at], words[other] = words[other], words[at]
            words = words or ["SELECT"]
        return " ".join(words)

    def unsupported(self) -> str:
        """A figure about a column of a type that cannot be asked about: refused, whatever is done with it."""
        pick = self.rng.choice
        column = pick(self.others)
        c, value = column.name, pick(column.plain)
        used = pick([c, f"LOWER({c})", f"{c} + 1", f"CAST({c} AS VARCHAR)", f"YEAR({c})", f"ABS({c})", f"COALESCE({c}, {value})",
                     f"CASE WHEN {c} IS NULL THEN 1 END", f"{c} = {value}", f"{c} IN ({value})", f"{c} = 'a'", f"{c} > 3",
                     f"LENGTH({c}) > 1", f"{c} IS NOT NULL", f"{c} || 'a'", f"{c} LIKE 'a%'", f"CONCAT({c}, 'x')"])  # fmt: skip
        return pick([f"COUNT({used})", f"COUNT(DISTINCT {used})", f"SUM({used})", f"COUNT_IF({used})", f"MAX({used})"])

    # ---- where rows come from --------------------------------------------------------------------------------------------------------

    def source(self) -> Part:
        """Rows to ask about, with `columns` set to what they have."""
        pick, rng = self.rng.choice, self.rng
        self.columns = self.usable
        condition, column = self.condition(), self.joinable()
        # Most columns are left out, as in most sub-queries; the statement names all that are there.
        some = rng.sample(self.usable, 9)
        c, names = column.name, [each.name for each in some]
        own = ", ".join(["a.id", *(f"a.{name}" for name in names)])
        match rng.randrange(16):
            case 0 | 1:
                chosen, self.columns = ("*", self.usable) if rng.random() < 0.3 else (f"id, {', '.join(names)}", some)
                return Part(f"(SELECT {chosen} FROM every_plain WHERE {condition.text}) AS w", condition.same)
            case 2:
                self.columns, two = some, [f"SELECT id, {', '.join(names)} FROM every_plain"] * 2
                return Part(f"({two[0]} UNION ALL {two[1]} WHERE {condition.text}) AS w", condition.same)
            case 3 | 4:
                self.columns = some
                return Part(f"(SELECT {own} FROM every_plain AS a JOIN every_codes AS k ON a.{c} = k.{c}) AS w", _exact(column))
            case 5:
                other = self.joinable()
                self.columns = [*some, _known(Typed("label", "VARCHAR", "text", ("'l1'", "'l2'"), ("'l3'",)))]
                joined = f"every_plain AS a LEFT JOIN every_codes AS k ON a.{c} = k.{c} AND a.{other.name} = k.{other.name}"
                return Part(f"(SELECT {own}, k.label AS label FROM {joined}) AS w", _exact(column) and _exact(other))
            case 6 | 7:
                second = self.any_column("boolean")
                self.columns = [*some, replace(second, name="second")]
                joined = f"every_plain AS a JOIN every_plain AS b ON a.id = b.id AND a.{c} = b.{c}"
                return Part(f"(SELECT {own}, b.{second.name} AS second FROM {joined}) AS w", _exact(column))
            case 8 | 9 | 10:
                return self.by_person(condition)
            case 11:
                order = self.any_column("boolean", "instant").name
                number = f"ROW_NUMBER() OVER (PARTITION BY id ORDER BY {order}, no) AS place"
                numbered = f"SELECT id, {', '.join(names)}, {number} FROM every_plain"
                self.columns = [*some, _known(Typed("place", "BIGINT", "integer", ("1", "2"), ("1",)))]
                return Part(f"(SELECT * FROM ({numbered}) AS p WHERE place <= {rng.randrange(1, 3)}) AS w", False)
            case 12:
                kept = [self.any_column("instant") for _ in range(3)]
                self.columns = list({column.name: column for column in kept}.values())
                names = ", ".join(column.name for column in self.columns)
                distinct = f"SELECT DISTINCT id, {names} FROM every_plain WHERE {condition.text}"
                union = f"SELECT id, {names} FROM every_plain UNION SELECT id, {names} FROM every_plain WHERE {condition.text}"
                exact = condition.same and all(map(_exact, self.columns))
                return Part(f"({pick([distinct, union])}) AS w", exact)
        return Part("every_plain")

    def by_person(self, condition: Part) -> Part:
        """One row a person, or one for each person and value."""
        rng, pick = self.rng, self.rng.choice
        chosen: list[str] = []
        columns: list[Typed] = []
        for place in range(rng.randrange(2, 5)):
            column, name = self.any_column("boolean", "instant"), f"v{place}"
            if rng.random() < 0.6:
                chosen.append(f"{pick(['MIN', 'MAX'])}({column.name}) AS {name}")
                columns.append(replace(column, name=name))
            elif column.kind in ("integer", "decimal", "float"):
                chosen.append(f"{pick(['SUM', 'AVG'])}({column.name}) AS {name}")
                columns.append(Typed(name, "DOUBLE", "float", ("3", "1.5", "24"), ()))
            else:
                distinct = "DISTINCT " if rng.random() < 0.5 else ""
                chosen.append(f"COUNT({distinct}{column.name}) AS {name}")
                columns.append(Typed(name, "BIGINT", "integer", ("1", "2"), ()))
        held = self.any_column("boolean", "instant")
        having = pick(["", "", "COUNT(*) > 3", f"MAX({held.name}) >= {pick(held.plain)}", f"COUNT(DISTINCT {held.name}) = 2",
                       f"COUNT({held.name}) < COUNT(*)", "COUNT_IF(bo) > 1"])  # fmt: skip
        second, group = self.any_column("instant"), "id"
        if rng.random() < 0.3:
            group, chosen = f"id, {second.name}", [second.name, *chosen]
            columns.append(second)
        filtered = f" WHERE {condition.text}" if rng.random() < 0.4 else ""
        self.columns = columns
        text = f"SELECT id, {', '.join(chosen)} FROM every_plain{filtered} GROUP BY {group}" + (f" HAVING {having}" if having else "")
        return Part(f"({text}) AS w", False)

    def any_column(self, *but: str) -> Typed:
        return self.rng.choice([column for column in self.columns if column.kind not in but])

    def joinable(self) -> Typed:
        """A column to join on: of any type that can be compared with itself."""
        return self.rng.choice([column for column in self.usable if column.kind != "instant"])

    # ---- keys ------------------------------------------------------------------------------------------------------------------------

    def key(self) -> tuple[Part, tuple[Any, ...] | None]:
        """What a question is grouped by, and the listed values; None where they are to be selected."""
        pick = self.rng.choice
        column = self.any_column("instant")
        c, listed = column.name, self.rng.random() < 0.5
        made: list[tuple[Part, tuple[Any, ...]]] = [(Part(c, _exact(column)), tuple(_python(column, text) for text in column.plain))]
        match column.kind:
            case "integer":
                made += [(Part(f"{c} % 3"), (0, 1, 2)), (Part(f"CAST({c} AS VARCHAR)"), ("1", "2", "7"))]
            case "text":
                made += [(Part(f"UPPER({c})"), ("A", "B")), (Part(f"SUBSTRING({c}, 1, 1)"), ("a", "b", "1"))]
            case "date" | "timestamp":
                made += [(Part(f"YEAR({c})", c in DATED), (2023, 2024)), (Part(f"EXTRACT(MONTH FROM {c})", c in DATED), (1, 2, 3))]
            case "boolean":
                made += [(Part(f"NOT {c}"), (True, False))]
            case "decimal":
                made += [(Part(f"{c} > 1"), (True, False))]
        if self.rng.random() < 0.2:
            found = self.condition()
            made = [(Part(f"({found.text})", found.same), (True, False))]
        key, values = pick(made)
        unique = tuple(dict.fromkeys(values))
        missing = (None,) if self.rng.random() < 0.5 else ()
        return key, ((*unique, *missing) if listed else None)

    # ---- figures ---------------------------------------------------------------------------------------------------------------------

    def figure(self) -> Figure:
        found = self._figure()
        # Beside other numbers DuckDB drops decimals of one that has nothing but decimals.
        return replace(found, plain="") if re.search(r"\bdd\b", found.text) else found

    def _figure(self) -> Figure:
        kind = self.rng.randrange(20)
        if kind < 8:
            made = self.condition(self.depth())
            return Figure(f"COUNT(CASE WHEN {made.text} THEN 1 END)", f"COUNT(CASE WHEN {made.text} THEN 1 END)", made.same)
        if kind < 12:
            made = self.expression()
            return Figure(f"COUNT({made.text})", f"COUNT({made.text})", made.same)
        if kind < 15:
            made = self.expression(counted_apart=True)
            return Figure(f"COUNT(DISTINCT {made.text})", f"COUNT(DISTINCT {made.text})", made.same)
        if kind == 15:
            made = self.condition(1)
            return Figure(f"COUNT_IF({made.text})", f"COUNT(CASE WHEN {made.text} THEN 1 END)", made.same)
        if kind == 16:
            return Figure("COUNT(*)", "COUNT(*)") if self.rng.random() < 0.5 else Figure("COUNT(DISTINCT id)", "COUNT(DISTINCT id)")
        number = self.number(self.depth())
        clamped = f"CASE WHEN {number.text} < {LOW} THEN {LOW} WHEN {number.text} > {HIGH} THEN {HIGH} ELSE {number.text} END"
        if kind < 19:
            name = self.rng.choice(["SUM", "AVG", "AVG", "VAR_POP"])
            return Figure(f"{name}({number.text})", f"{name}(CAST({clamped} AS DOUBLE))", False)
        made = self.condition()
        text = f"SUM({number.text}) FILTER (WHERE {made.text})"
        return Figure(text, f"SUM(CASE WHEN {made.text} THEN CAST({clamped} AS DOUBLE) END)", False)

    def quantile(self) -> Figure:
        """By itself, because each makes a statement much longer."""
        return Figure(f"{self.rng.choice(['MEDIAN', 'MAX', 'MIN'])}({self.number(1).text})", "", False)

    # ---- expressions -----------------------------------------------------------------------------------------------------------------

    def depth(self) -> int:
        """How deep an expression is: most are short, because every step of one is made safe, and the longest take most of the time."""
        return self.rng.choice((0, 0, 0, 0, 0, 1, 1, 1, 1, 2))

    def expression(self, *, counted_apart: bool = False) -> Part:
        """A value of any kind; `counted_apart`: one that COUNT(DISTINCT) takes, so no moment, and no two floats that are nearly one."""
        column = self.any_column(*(["instant"] if counted_apart else []))
        match column.kind:
            case "integer" | "decimal" | "float":
                return self.number(self.depth()) if not counted_apart else Part(column.name, column.kind != "float")
            case "text":
                return self.texts(self.depth())
            case "date" | "timestamp":
                return self.dates(self.depth())
            case "instant":
                return Part(self.rng.choice([column.name, f"YEAR({column.name} AT TIME ZONE 'UTC')"]), False)
        return self.condition(1)

    def number(self, depth: int) -> Part:
        pick, rng = self.rng.choice, self.rng
        columns = [column for column in self.columns if column.kind in ("integer", "decimal", "float")]
        if depth <= 0 or not columns:
            if not columns:
                return Part(pick(["1", "2.5", "7"]))
            column = pick(columns)
            return Part(column.name, _finite(column) and _computed(column))
        a, b = self.number(depth - 1), self.number(0)
        whole = [column.name for column in columns if column.kind == "integer"]
        leaf, either = self.leaf(), a.same and b.same
        forms = [
            Part(f"({a.text} + {pick(['1', '2', '0.5'])})", a.same), Part(f"({a.text} + {b.text})", either),
            Part(f"({a.text} - {b.text})", either), Part(f"({a.text} * {pick(['2', '0.5'])})", a.same),
            Part(f"({a.text} * {b.text})", either), Part(f"({a.text} / {pick(['2', '4'])})", a.same),
            Part(f"({a.text} / NULLIF({b.text}, 0))", False), Part(f"-({a.text})", a.same), Part(f"ABS({a.text})", a.same),
            Part(f"FLOOR({a.text})", a.same), Part(f"CEIL({a.text})", a.same), Part(f"ROUND({a.text}, {rng.randrange(3)})", a.same),
            Part(f"COALESCE({a.text}, {b.text})", either), Part(f"COALESCE({a.text}, 1)", a.same),
            Part(f"NULLIF({a.text}, {pick(['1', '2', '7'])})", a.same), Part(f"GREATEST({a.text}, {b.text})", either),
            Part(f"LEAST({a.text}, 3)", a.same), Part(f"SQRT(ABS({a.text}))", False), Part(f"LN(ABS({a.text}) + 1)", False),
            Part(f"POWER({a.text}, 2)", False), Part(f"SIGN({a.text})", a.same),
            Part(f"CASE WHEN {leaf.text} THEN {a.text} ELSE {b.text} END", leaf.same and either),
            Part(f"CASE WHEN {leaf.text} THEN {pick(['0.5', '3'])} END", leaf.same),
            Part(f"LENGTH({self.texts(depth - 1).text})"), Part(f"CAST({leaf.text} AS INTEGER)", leaf.same),
            *([Part(f"{pick(whole)} % {pick(['2', '7'])}"), Part(f"MOD({pick(whole)}, 3)")] if whole else []),
        ]  # fmt: skip
        if any(column.kind in ("date", "timestamp") for column in self.columns):
            day = self.dates(depth - 1)
            forms += [
                Part(f"EXTRACT({pick(PARTS)} FROM {day.text})", day.same), Part(f"YEAR({day.text})", day.same),
                Part(f"DATE_DIFF('day', DATE '2024-01-31', CAST({day.text} AS DATE))", day.same),
            ]  # fmt: skip
        return pick(forms)

    def texts(self, depth: int) -> Part:
        pick, rng = self.rng.choice, self.rng
        columns = [column.name for column in self.columns if column.kind == "text"]
        if depth <= 0:
            return Part(pick(columns) if columns else "'a'")
        a, b, leaf = self.texts(depth - 1), self.texts(0), self.leaf()
        whole = [column.name for column in self.columns if column.kind in ("integer", "date", "boolean")] or ["1"]
        forms = [
            f"LOWER({a.text})", f"UPPER({a.text})", f"SUBSTRING({a.text}, {rng.randrange(1, 3)}, {rng.randrange(1, 3)})",
            f"CONCAT({self.bare(a.text)}, {self.bare(b.text)})", f"({a.text} || {b.text})", f"({a.text} || 'x')", f"TRIM({a.text})",
            f"LEFT({a.text}, {rng.randrange(1, 3)})", f"RIGHT({a.text}, 2)", f"COALESCE({a.text}, 'x')",
            f"NULLIF({a.text}, 'a')", f"CASE WHEN {leaf.text} THEN {a.text} ELSE {b.text} END", f"CAST({pick(whole)} AS VARCHAR)",
        ]  # fmt: skip
        return Part(pick(forms), a.same and b.same and leaf.same)

    def bare(self, text: str) -> str:
        """A text for what sees the blanks that PostgreSQL fills up a char(n) with: those are refused."""
        return f"CAST({text} AS VARCHAR)" if self.engine == "postgres" else text

    def dates(self, depth: int) -> Part:
        pick = self.rng.choice
        columns = [column for column in self.columns if column.kind in ("date", "timestamp")]
        if depth <= 0 or not columns:
            if not columns:
                return Part("DATE '2024-01-31'")
            column = pick(columns)
            return Part(column.name, column.name in DATED)
        inner = self.dates(depth - 1)
        a = inner.text
        forms = [
            f"DATE_TRUNC('{pick(UNITS)}', {a})", f"CAST({a} AS DATE)", f"COALESCE({a}, {a})",
            f"(CAST({a} AS DATE) {pick('+-')} INTERVAL {self.rng.randrange(1, 100)} {pick(['DAY', 'WEEK', 'MONTH', 'YEAR'])})",
        ]  # fmt: skip
        return Part(pick(forms), inner.same)

    def leaf(self) -> Part:
        """A condition of one column."""
        return self.condition(computed=False)

    def condition(self, depth: int = 0, *, computed: bool = True) -> Part:
        pick = self.rng.choice
        if depth and self.rng.random() < 0.5:
            first, second = self.condition(depth - 1), self.condition(depth - 1)
            text = pick([f"({first.text} AND {second.text})", f"({first.text} OR {second.text})", f"NOT ({first.text})"])
            return Part(text, first.same and second.same)
        column = self.any_column()
        c, value, other = column.name, pick(column.plain), pick(column.plain)
        alike = [each.name for each in self.columns if each.kind == column.kind]
        sign = pick(["=", "<>", "<", "<=", ">", ">="])
        plain = [f"{c} IS NULL", f"{c} IS NOT NULL", f"{c} {sign} {value}", f"{c} IN ({value}, {other})", f"{c} NOT IN ({value})"]
        plain += [f"{c} IS DISTINCT FROM {value}"]
        plain += [f"CASE WHEN {c} {sign} {value} THEN 1 ELSE 2 END = 2", f"{c} BETWEEN {value} AND {other}"]
        made: list[Part] = []
        match column.kind:
            case "boolean":
                plain = [c, f"NOT {c}", f"{c} IS NULL", f"{c} IS TRUE", f"{c} IS NOT FALSE", f"{c} = true", f"COALESCE({c}, false)"]
            case "instant":
                plain = [f"{c} IS NULL", f"{c} IS NOT NULL"]
                made = [Part(f"CAST({c} AT TIME ZONE 'UTC' AS DATE) = '2024-01-31'", False)]
            case "integer" | "float" | "decimal" if computed:
                plain += [f"{c} NOT BETWEEN 1 AND 3", f"{c} > 0.5"]
                value_, finite = self.number(1), _finite(column)
                made = [Part(f"{value_.text} {sign} {pick(['1', '2.5', '3'])}", value_.same),
                        Part(f"{value_.text} {sign} {self.number(0).text}", False), Part(f"{c} {sign} {pick(alike)}", finite),
                        Part(f"{c} / 4 >= 0.5", finite and _computed(column)), Part(f"COALESCE({c}, 0) < 2", finite)]  # fmt: skip
            case "text" if computed:
                patterns = ["a%", "_", "%b", "%2%", "a ", "% ", "a____", "A%", "__"]
                plain += [f"{self.bare(c)} {pick(['LIKE', 'NOT LIKE', 'ILIKE'])} '{pick(patterns)}'", f"{c} = 'a  '",
                          f"LENGTH({c}) > 1", f"STARTS_WITH({c}, 'a')"]  # fmt: skip
                one, two = self.texts(1), self.texts(1)
                made = [Part(f"{one.text} {pick(['=', '<>'])} 'a'", one.same), Part(f"{c} {sign} {pick(alike)}"),
                        Part(f"{pick(['LEAST', 'GREATEST'])}({c}, {pick(alike)}) = {c}"),
                        Part(f"{self.bare(two.text)} LIKE '%a%'", two.same)]  # fmt: skip
            case "date" | "timestamp" if computed:
                plain += [f"{c} >= '2024-02-01'", f"{c} < DATE '2024-02-01'"]
                one, two = self.dates(1), self.dates(1)
                made = [Part(f"YEAR({one.text}) = 2024", one.same), Part(f"EXTRACT({pick(PARTS)} FROM {c}) > 1", c in DATED),
                        Part(f"{c} {sign} {pick(alike)}"), Part(f"{two.text} > '2024-01-31'", two.same)]  # fmt: skip
        plainly = not made or not computed or self.rng.random() < 0.6
        return Part(pick(plain)) if plainly else pick(made)


def _known(column: Typed) -> Typed:
    """A column with its kind; moments are a kind of their own."""
    zoned = column.native.upper() in ("TIMESTAMPTZ",) or (column.name == "tz")
    return replace(column, kind="instant") if zoned else column


def _exact(column: Typed) -> bool:
    """Whether a column's values are themselves as keys: not floats, of which NaN is one, and not dates that are none here."""
    return (column.kind in ("integer", "text", "boolean", "decimal") and _finite(column)) or column.name in DATED


def _finite(column: Typed) -> bool:
    """Whether a number is finite also at the limits of its type: NaN and infinities, where a type has them, are NULL in arithmetic."""
    return column.kind != "float" and not any("NaN" in value or "Infinity" in value for value in column.extreme)


def _computed(column: Typed) -> bool:
    """Whether arithmetic takes all of a number: PostgreSQL's beyond 1e37 are NULL in it."""
    return column.native not in ("numeric", "numeric(60,20)")


def _python(column: Typed, text: str) -> Any:
    """A value of a column, as a list of keys has it."""
    plain = text.strip("'")
    match column.kind:
        case "integer":
            return int(plain)
        case "float":
            return float(plain)
        case "decimal":
            return Decimal(plain)
        case "boolean":
            return plain == "true"
        case "date":
            return datetime.date.fromisoformat(plain)
        case "timestamp":
            return datetime.datetime.fromisoformat(plain[:26])  # of nanoseconds, those that a list of keys can have
    return plain
