"""Random expressions of every function on the allow-list, and rows that are as nasty as rows can be."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from typing import Any

TYPES = {
    "i": "INTEGER",
    "b": "BIGINT",
    "x": "DOUBLE",
    "y": "DOUBLE",
    "s": "VARCHAR",
    "u": "VARCHAR",
    "d": "DATE",
    "t": "TIMESTAMP",
    "f": "BOOLEAN",
    "m": "DECIMAL(18,3)",
}

_INTEGERS = [0, 1, -1, None, 2**31 - 1, -(2**31), 7]
_LONGS = [0, 1, -1, None, 2**63 - 1, -(2**63), 12]
_REALS = [0.0, -0.0, 1.0, -2.5, None, float("nan"), float("inf"), -float("inf"), 1e308, -1e308, 5e-324, 1e-200, 1e150, 1e-160, 340.5, 0.5]
_TEXTS = [
    "",
    "a",
    "ab",
    None,
    "12",
    "1e400",
    "1e-99",
    "nan",
    "inf",
    "2021-02-30",
    "2020-02-29",
    "0000-01-01",
    "2999-12-31",
    " 7 ",
    "-5.25",
    "a%_",
    "x" * 50,
    "'; DROP TABLE t; --",
    "1_000",
    "0x1F",
    "12d",
]
_DATES = [None, datetime.date(2020, 2, 29), datetime.date(1, 1, 1), datetime.date(9999, 12, 31), datetime.date(1969, 12, 31)]
_TIMES = [
    None,
    datetime.datetime(2020, 2, 29, 23, 59, 59),
    datetime.datetime(1, 1, 2),
    datetime.datetime(9999, 12, 30, 23),
    datetime.datetime(1900, 1, 1, 12),
]
_DECIMALS = [None, Decimal("0"), Decimal("0.001"), Decimal("-999999999999999.999"), Decimal("12.5")]


def rows(count: int, seed: int = 1) -> list[tuple[Any, ...]]:
    """Rows of the columns of TYPES."""
    rng = random.Random(seed)
    values: list[list[Any]] = [_INTEGERS, _LONGS, _REALS, _REALS, _TEXTS, _TEXTS, _DATES, _TIMES, [True, False, None], _DECIMALS]
    return [tuple(rng.choice(column) for column in values) for _ in range(count)]


class Expressions:
    """A stream of random expressions of four kinds."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def any(self, depth: int) -> str:
        return self.rng.choice([self.number, self.text, self.date, self.condition])(depth)

    def number(self, depth: int) -> str:
        pick = self.rng.choice
        if depth <= 0:
            return pick(["i", "b", "x", "y", "m", "0", "1", "2", "-3", "0.5", "1e-3", "1e100", "7", "NULL"])
        a, b = self.number(depth - 1 - self.rng.randrange(2)), self.number(depth - 1 - self.rng.randrange(2))
        forms = [
            f"({a} + {b})",
            f"({a} - {b})",
            f"({a} * {b})",
            f"({a} / {b})",
            f"-({a})",
            f"ABS({a})",
            f"ROUND({a}, {self.rng.randrange(4)})",
            f"FLOOR({a})",
            f"CEIL({a})",
            f"SQRT({a})",
            f"LN({a})",
            f"LOG10({a})",
            f"EXP({a})",
            f"POWER({a}, {pick(['2', '3', '-1', '8', '0.5', '1.7'])})",
            f"POWER({a}, {b})",
            f"MOD(CAST({a} AS BIGINT), 7)",
            f"COALESCE({a}, {b})",
            f"NULLIF({a}, {b})",
            f"LEAST({a}, {b})",
            f"GREATEST({a}, {b})",
            f"CASE WHEN {self.condition(depth - 1)} THEN {a} ELSE {b} END",
            f"CAST({self.text(depth - 1)} AS DOUBLE)",
            f"LENGTH({self.text(depth - 1)})",
            f"EXTRACT({pick(['YEAR', 'MONTH', 'DAY', 'QUARTER'])} FROM {self.date(depth - 1)})",
            f"CAST({self.condition(depth - 1)} AS INTEGER)",
            f"TRUNC({self.number(0)})",
            f"SIGN({self.number(0)})",
            f"CAST({a} AS INTEGER)",
            f"CAST({a} AS DECIMAL(20, 2))",
            f"(CAST({self.number(0)} AS BIGINT) // {pick(['i', 'b', '3', '-7'])})",
            f"DATE_DIFF('day', {self.date(depth - 1)}, {self.date(depth - 1)})",
            f"({self.date(depth - 1)} - {self.date(0)})",
            f"EXTRACT({pick(['ISODOW', 'DOW', 'WEEK', 'DOY'])} FROM {self.date(depth - 1)})",
        ]
        return pick(forms)

    def text(self, depth: int) -> str:
        pick = self.rng.choice
        if depth <= 0:
            return pick(["s", "u", "'a'", "'12'", "''"])
        a, b = self.text(depth - 1), self.text(depth - 1)
        forms = [
            f"LOWER({a})",
            f"UPPER({a})",
            f"SUBSTRING({a}, {self.rng.randrange(1, 4)}, {self.rng.randrange(4)})",
            f"CONCAT({a}, {b})",
            f"({a} || {b})",
            f"TRIM({a})",
            f"CAST({pick(['i', 'b', 'd', 'f'])} AS VARCHAR)",
            f"COALESCE({a}, {b})",
            f"LEFT({a}, 2)",
            f"RIGHT({a}, 2)",
            f"CONCAT({a}, i)",
        ]
        return pick(forms)

    def date(self, depth: int) -> str:
        pick = self.rng.choice
        if depth <= 0:
            return pick(["d", "d", "CAST(t AS DATE)"])
        inner = self.date(depth - 1)
        return pick(
            [
                f"DATE_TRUNC('{pick(['month', 'year', 'week', 'quarter'])}', {inner})",
                f"CAST(s || {self.text(depth - 1)} AS DATE)",
                "CAST(s AS DATE)",
                f"({inner} {pick('+-')} INTERVAL {self.rng.randrange(1_001)} {pick(['DAY', 'WEEK', 'MONTH', 'YEAR'])})",
            ]
        )

    def condition(self, depth: int) -> str:
        pick = self.rng.choice
        if depth <= 0:
            return pick(
                [
                    "f",
                    "i > 3",
                    "s = 'a'",
                    "x IS NULL",
                    "d >= '2020-01-01'",
                    "i IN (1, 2)",
                    "s LIKE 'a%'",
                    "x BETWEEN 0 AND 5",
                    "x > y",
                    "s ILIKE 'A_'",
                ]
            )
        a, b = self.condition(depth - 1), self.condition(depth - 1)
        forms = [
            f"({a} AND {b})",
            f"(NOT {a})",
            f"({a} OR {b})",
            f"({self.number(depth - 1)} {pick(['<', '<=', '=', '<>', '>'])} {self.number(depth - 1)})",
            f"({self.text(depth - 1)} {pick(['=', '<>'])} {self.text(depth - 1)})",
            f"({self.date(depth - 1)} <= {self.date(depth - 1)})",
            f"STARTS_WITH({self.text(depth - 1)}, '1')",
        ]
        return pick(forms)
