"""Accepted questions are answered as the engine's own plain SQL answers them: decimals, halves, the ends of the calendar, single floats."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlglot import exp
from tests.tables.engines.plain import compared, filled, session

from tacit.tables import dates, forms, keys
from tacit.tables.statistics import Interval

BOUNDS = {name: (-10_000, 10_000) for name in ("d", "w", "e", "r", "x", "i", "b", "k", "n")}
DECIMALS = [
    "d = 12.99", "d < 12.985", "d = 12.995", "d <> 12.995", "d IN (12.99, 0.1, 7.001)", "w = 0.1", "w > 9007199254740992", "d > e", "d = i",
    "w = b", "w < e", "d + 0.1 = 0.4", "d * 3 = 0.3", "d - e > 0.005", "-d = 12.99", "d BETWEEN 12.985 AND 12.99", "d < 1e30", "d > -1e60",
    "COALESCE(d, 0.1) = 0.1", "GREATEST(d, e) = 12.99", "NULLIF(d, 12.99) IS NULL",
    "CAST('12.99' AS DECIMAL(12, 2)) = d", "d = '12.99'", "d IS NOT NULL", "CASE WHEN f THEN d ELSE e END = 2.5",
    "x = d", "x + 0.1 = 0.3", "x = 0.1",
]  # fmt: skip
WHOLE = [
    "b = 9007199254740993", "b > 9007199254740992.5", "b = 9007199254740993e0", "b % 10 = 3",
    "CAST(k AS BIGINT) * 9007199254740993 = 9007199254740993",
    "b - k = 9007199254740992 AND b BETWEEN 0 AND 9100000000000000000", "ABS(i) > 7 AND i > -2147483648",
]  # fmt: skip
FLOATS = ["r = 0.1", "r < 0.2", "r IN (0.1, 0.5)", "r = x", "r = d", "r > i", "r <> 0.1", "r BETWEEN 0.1 AND 0.2"]
DATES = [
    "day >= DATE '9999-12-31'", "day + INTERVAL '1' DAY > DATE '2024-01-01'", "day - INTERVAL '1' YEAR < DATE '9998-12-31'",
    "day + INTERVAL '1' DAY <= DATE '9999-12-31'", "EXTRACT(YEAR FROM day) = 9999", "EXTRACT(YEAR FROM day - INTERVAL '1' DAY) = 1",
    "day - DATE '2024-01-01' > 100", "CAST(day AS TIMESTAMP) <= TIMESTAMP '0001-01-01 00:00:00'",
]  # fmt: skip
GROUPS = [
    "d", "w", "e", "r", "x", "b", "day", "EXTRACT(YEAR FROM day)",
    "ROUND(d)", "ROUND(e, 2)", "ROUND(e, 1)", "ROUND(-d, 1)", "CEIL(d)",
    "FLOOR(e)", "ABS(d)", "CAST(d AS BIGINT)", "CAST(e AS DECIMAL(18,1))", "d + e", "CASE WHEN f THEN d ELSE e END",
    "CASE WHEN f THEN 0.1 ELSE 0.35 END",
    "ROUND(i / 4.0)",
]  # fmt: skip
SMALL = ["ROUND(x)", "CAST(x AS INTEGER)", "CAST(x AS DECIMAL(18,0))", "FLOOR(x)"]
PEOPLE = ["SUM(d)", "SUM(e)", "MAX(d)", "MIN(w)", "SUM(i)", "SUM(i) / COUNT(*)", "COUNT(DISTINCT d)"]
FIGURES = [
    "SUM(CASE WHEN i > 0 THEN 0.5 END)", "SUM(CASE WHEN i > 0 THEN 0.5 ELSE 0.25 END)", "AVG(CASE WHEN f THEN 1.5 ELSE 0 END)", "SUM(0.3)",
    "COUNT(DISTINCT d)", "COUNT(DISTINCT w)", "COUNT(DISTINCT d + e)", "COUNT(*) / 7", "SUM(k) / COUNT(k)", "COUNT(DISTINCT r)",
    "SUM(CASE WHEN f THEN 0.1 END)",
]  # fmt: skip
QUALIFIED = (
    "SELECT COUNT(*) AS n FROM (SELECT a.id, a.k AS kk, b.k AS bk FROM numbers a JOIN numbers b ON a.id = b.id "
    "GROUP BY a.id, a.k, b.k HAVING b.k > a.k) q"
)


def asked() -> list[str]:
    found = [f"SELECT COUNT(*) AS n FROM numbers WHERE {condition}" for condition in (*DECIMALS, *WHOLE, *FLOATS, *DATES)]
    found += [f"SELECT {key} AS g, COUNT(*) AS n FROM numbers WHERE ABS(k) < 9 GROUP BY 1" for key in GROUPS]
    found += [f"SELECT {key} AS g, COUNT(*) AS n FROM numbers WHERE ABS(x) < 100 GROUP BY 1" for key in SMALL]
    found += [f"SELECT t, COUNT(*) AS n FROM (SELECT id, {figure} AS t FROM numbers GROUP BY id) q GROUP BY t" for figure in PEOPLE]
    found += [f"SELECT {figure} AS n FROM numbers" for figure in FIGURES]
    return [*found, QUALIFIED]



def check(name: str, text: str) -> None:
    bounds = {} if "0.5" in text or "0.3" in text else {"bounds": BOUNDS}
    assert compared(name, text, within=1e-3, **bounds) == ([], []), text


@pytest.mark.parametrize("name", ["duckdb", "postgres"])
def test_the_answer_is_the_plain_one(name: str) -> None:
    wrong = []
    for text in asked():
        found = compared(name, text, within=1e-3, bounds=BOUNDS if "THEN 0.5" not in text and "0.3" not in text else None)
        if found != ([], []):
            wrong.append((text, *found))
    assert not wrong


@pytest.mark.parametrize("text", asked()[::9])
def test_the_answer_is_the_plain_one_on_spark(text: str) -> None:
    check("spark", text)


def test_floats_in_place_of_decimals_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutants: what the code did before, one at a time."""

    def caught(text: str) -> bool:
        session.cache_clear()
        try:
            return compared("duckdb", text, within=1e-3) != ([], [])
        finally:
            session.cache_clear()

    count = "SELECT COUNT(*) AS n FROM numbers WHERE "
    with monkeypatch.context() as patch:
        patch.setattr(forms, "exactly", lambda values, plain: None)
        patch.setattr(forms, "in_digits", lambda node, left, right: None)
        assert caught(f"{count}d * 3 = 0.3") and caught(f"{count}w > 9007199254740992") and caught(f"{count}b % 10 = 3") is False
    with monkeypatch.context() as patch:
        ends = ((1, 1, 1), (9999, 12, 31))
        for module in (forms, dates):
            patch.setattr(module, "dated", lambda value: forms.limited(value.sql, *(forms._day(*end, value.kind) for end in ends)))
        assert caught(f"{count}EXTRACT(YEAR FROM day) = 9999")
    with monkeypatch.context() as patch:
        half = forms.double(0.5)
        patch.setattr(forms, "away", lambda value: replace(value, sql=exp.Floor(this=exp.Add(this=value.sql, expression=half))))
        assert caught("SELECT ROUND(x) AS g, COUNT(*) AS n FROM numbers WHERE ABS(x) < 100 GROUP BY 1")
    with monkeypatch.context() as patch:
        patch.setattr(Interval, "granularity", property(lambda self: 1))
        assert caught("SELECT SUM(CASE WHEN i > 0 THEN 0.5 END) AS n FROM numbers")
    with monkeypatch.context() as patch:
        patch.setattr(keys, "single", lambda value: value)
        text = "SELECT r, COUNT(*) AS n FROM numbers GROUP BY r"
        assert _counted(text) == 0
    assert _counted("SELECT r, COUNT(*) AS n FROM numbers GROUP BY r") == _plainly("r = 0.1")


def _counted(text: str) -> int:
    session.cache_clear()
    answer = session("duckdb").sql(text, epsilon=10**9, keys={"r": [0.1]})
    session.cache_clear()
    return round(float(answer["n"][0]))


def _plainly(condition: str) -> Any:
    return filled("duckdb").raw(f"SELECT COUNT(*) FROM numbers WHERE {condition}")[0][0]
