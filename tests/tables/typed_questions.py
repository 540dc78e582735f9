"""A seeded stream of questions about columns of every type that an engine has, in DuckDB's SQL.

A question has several figures, each a count of what a random condition or expression picks out, over rows that come from a table, a
sub-query, a union, a join with a public table or a sub-query by person. Columns of types that cannot be asked about occur as well.

>>> made = Questions("duckdb", 1).asked()
>>> made.figures[0][:6], made.source in SOURCES
('COUNT(', True)
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.tables.engines.every_type import COLUMNS, Typed

#: Where rows come from; the names of columns stay. `{c}` is a condition.
SOURCES = (
    "every_plain", "every_plain", "every_plain", "(SELECT * FROM every_plain WHERE {c}) AS w",
    "(SELECT * FROM every_plain UNION ALL SELECT * FROM every_plain) AS w",
    "(SELECT a.* FROM every_plain AS a JOIN every_codes AS k ON a.bo = k.bo) AS w",
)  # fmt: skip
PARTS = ("YEAR", "MONTH", "DAY", "QUARTER", "WEEK", "DOY", "ISODOW")


@dataclass(frozen=True)
class Asked:
    """One statement with several figures; `texts` are the conditions and expressions in them."""

    figures: tuple[str, ...]
    source: str
    where: str
    filled: str

    @property
    def text(self) -> str:
        named = ", ".join(f"{figure} AS f{i}" for i, figure in enumerate(self.figures))
        return f"SELECT {named} FROM {self.filled}" + (f" WHERE {self.where}" if self.where else "")


class Questions:
    """A stream of questions for an engine."""

    def __init__(self, engine: str, seed: int) -> None:
        self.rng = random.Random(f"{engine} {seed}")
        self.columns = COLUMNS[engine]
        self.by_kind: dict[str, list[Typed]] = {}
        for column in self.columns:
            self.by_kind.setdefault(column.kind, []).append(column)

    def asked(self, figures: int = 8) -> Asked:
        pick = self.rng.choice
        source = pick(SOURCES)
        made = tuple(self.figure() for _ in range(figures))
        where = self.condition() if self.rng.random() < 0.4 else ""
        return Asked(made, source, where, source.format(c=self.condition()))

    def figure(self) -> str:
        kind = self.rng.randrange(4)
        if kind == 0:
            return f"COUNT({self.expression()})"
        if kind == 1:
            return f"COUNT(DISTINCT {self.expression()})"
        return f"COUNT(CASE WHEN {self.condition(1)} THEN 1 END)"

    def column(self) -> Typed:
        return self.rng.choice(self.columns if self.rng.random() < 0.05 else [c for c in self.columns if c.kind != "other"])

    def expression(self) -> str:
        pick = self.rng.choice
        column = self.column()
        c, value = column.name, pick(column.plain)
        forms = {
            "integer": [c, f"{c} + 1", f"{c} * 2", f"ABS({c})", f"COALESCE({c}, 1)", f"CAST({c} AS VARCHAR)", f"NULLIF({c}, {value})"],
            "float": [c, f"{c} / 2", f"FLOOR({c})", f"CEIL({c})", f"{c} - 0.5", f"GREATEST({c}, 1)"],
            "decimal": [c, f"{c} + 1", f"FLOOR({c})", f"CAST({c} AS DOUBLE)"],
            "text": [c, f"LOWER({c})", f"UPPER({c})", f"LENGTH({c})", f"SUBSTRING({c}, 1, 1)", f"COALESCE({c}, 'x')", f"{c} || 'x'"],
            "date": [c, f"YEAR({c})", f"EXTRACT({pick(PARTS)} FROM {c})", f"DATE_TRUNC('month', {c})", f"CAST({c} AS VARCHAR)",
                     f"{c} + INTERVAL 40 DAY"],
            "timestamp": [c, f"YEAR({c})", f"EXTRACT({pick(PARTS)} FROM {c})", f"DATE_TRUNC('hour', {c})", f"CAST({c} AS DATE)"],
            "boolean": [c, f"NOT {c}", f"CAST({c} AS INTEGER)"],
            "other": [c, f"LOWER({c})", f"{c} + 1", f"CAST({c} AS VARCHAR)", f"YEAR({c})"],
        }  # fmt: skip
        return pick(forms[column.kind])

    def condition(self, depth: int = 0) -> str:
        pick = self.rng.choice
        if depth and self.rng.random() < 0.4:
            first, second = self.condition(), self.condition()
            return pick([f"({first} AND {second})", f"({first} OR {second})", f"NOT ({first})"])
        column = self.column()
        c, value, other = column.name, pick(column.plain), pick(column.plain)
        same = pick(self.by_kind[column.kind]).name
        sign = pick(["=", "<>", "<", "<=", ">", ">="])
        forms = [f"{c} IS NULL", f"{c} IS NOT NULL", f"{c} {sign} {value}", f"{c} IN ({value}, {other})"]
        if column.kind == "boolean":
            forms = [c, f"NOT {c}", f"{c} IS NULL", f"{c} IS TRUE", f"{c} = true"]
        elif column.kind == "other":
            forms = [f"{c} IS NULL", f"{c} = {value}", f"{c} = 'a'", f"{c} > 3", f"LENGTH({c}) > 1"]
        elif column.kind in ("integer", "float", "decimal"):
            forms += [f"{c} BETWEEN {value} AND 9", f"{c} * 2 > 3", f"COALESCE({c}, 0) < 2", f"{c} {sign} {same}", f"{c} / 4 >= 0.5"]
            forms += [f"CASE WHEN {c} > 1 THEN 1 ELSE 2 END = 2", f"{c} NOT BETWEEN 1 AND 3"]
        elif column.kind == "text":
            forms += [f"{c} LIKE 'a%'", f"{c} NOT LIKE '%b'", f"LENGTH({c}) > 1", f"{c} = {same}", f"LOWER({c}) = 'a'"]
        else:
            forms += [f"YEAR({c}) = 2024", f"EXTRACT({pick(PARTS)} FROM {c}) > 1", f"{c} >= '2024-02-01'", f"{c} {sign} {same}"]
        return pick(forms)
