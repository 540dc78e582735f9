"""What a stranger asks, in the SQL that she is used to, against the plain query in DuckDB: with a huge epsilon the answers are the same.

The table has what real ones have: people with many rows, NULLs, decimals, dates, moments with a zone, booleans, enumerations, whole numbers
beyond 2^53 and 2^63, names with quotes, reserved words as names of columns, texts that are no numbers. The caps are declared to hold. The
oracle shares no code with the answer: DuckDB runs the question as it stands, or what another dialect's question means, written by hand.
"""

from __future__ import annotations

import datetime
import decimal
import math
import pathlib
import random
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import tacit
from tacit.ledger import Budget, Ledger
from tacit.tables import Refused, Session, TableError
from tacit.tables.source import Source

REGIONS = ["North", "Østlandet", "東京", "O'Brien", None]
NAMES = ["Bob", "bob", " Anna ", "50%_off", "Zoë", None]
BOUNDS = {
    "age": (0, 100),
    "cost": (0, 5000),
    "weight": (0, 200),
    "order": (0, 10),
    "Mixed Case": (0, 10),
    'quo"te': (0, 5),
    "nights": (0, 20),
}


@cache
def tables() -> dict[str, pa.Table]:
    draw = random.Random(11)
    count, people = 500, 60
    owners = [draw.randrange(people) for _ in range(count)]

    def column(values: Sequence[Any], kind: pa.DataType | None = None, missing: float = 0.05) -> pa.Array:
        return pa.array([None if draw.random() < missing else draw.choice(values) for _ in range(count)], kind)

    day = datetime.date(2024, 1, 1)
    noon = datetime.datetime(2024, 1, 1, 12)
    visits = {
        "patient_id": pa.array(owners, pa.int64()),
        "name": pa.array([NAMES[owner % len(NAMES)] for owner in owners]),
        "region": column(REGIONS),
        "age": column(range(100), pa.int32()),
        "cost": column([decimal.Decimal(cents) / 100 for cents in range(0, 500_000, 37)], pa.decimal128(12, 2)),
        "weight": column([40 + i / 7 for i in range(560)], pa.float64()),
        "day": column([day + datetime.timedelta(days=i) for i in range(0, 800, 3)], pa.date32()),
        "seen": column([noon + datetime.timedelta(hours=7 * i) for i in range(2700)], pa.timestamp("us")),
        "moment": column([noon + datetime.timedelta(hours=5 * i) for i in range(3800)], pa.timestamp("us", tz="UTC")),
        "smoker": column([True, False]),
        "severity": column(["mild", "severe"], missing=0).dictionary_encode(),
        "big": column([2**62, -(2**62), 7, 2**53, 2**53 + 1], pa.int64()),
        "huge": column([2**63 - 1, 2**63, 2**63 + 1, 7], pa.uint64()),
        "order": column(range(10), pa.int16()),
        "group": column(["a", "b", "c"]),
        "Mixed Case": column(range(5), pa.int64()),
        'quo"te': column(range(3), pa.int64()),
        "code": column(["A01", "B02", "Z99"], missing=0),
        "number": column(["12", "3.5", "x", ""]),
    }
    stays = [owner for owner in range(0, people, 2) for _ in range(draw.randrange(1, 4))]
    return {
        "visits": pa.table(visits),
        "stays": pa.table(
            {
                "patient_id": pa.array(stays, pa.int64()),
                "nights": [draw.randrange(20) for _ in stays],
                "ward": [draw.choice("xy") for _ in stays],
            }
        ),
        "codes": pa.table({"code": ["A01", "B02", "C03"], "title": ["Cholera", "Flu", "Café"]}),
    }


@cache
def plain() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    for name, table in tables().items():
        connection.register(name, table)
    return connection


@cache
def session(dialect: str) -> Session:
    book = Ledger.open(f"sqlite:///{pathlib.Path(tempfile.mkdtemp()) / 'tacit.db'}")
    source = Source.several(tables(), public=["codes"])
    unit = tacit.Unit("patient_id", max_rows=60, capped=True)
    return Session(
        source, name="visits", unit=unit, budget=Budget(epsilon=10**12, delta="1e-6"), columns=BOUNDS, ledger=book, dialect=dialect
    )


def wanted(oracle: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    found = plain().execute(oracle)
    return [column[0] for column in found.description], found.fetchall()


def asked(text: str, dialect: str, oracle: str, options: Mapping[str, Any]) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The answer's lines and the plain query's, both in the order of the columns that were asked for."""
    names, expected = wanted(oracle)
    here = session(dialect)
    question = here.desk.question(text)
    given = dict(options)
    keys = [key.name for key in question.keys]
    shown = [output.name for output in question.outputs] or [*keys, *(a.name for a in question.aggregates)]
    assert len(shown) == len(names)
    if keys and "keys" not in given and set(keys) <= set(shown):
        # Keys as a curator would declare them; only a test may take them from the data.
        lines = [tuple(row[shown.index(name)] for name in keys) for row in expected]
        given["keys"] = [line if len(keys) > 1 else line[0] for line in dict.fromkeys(lines)]
        given["keys"] = {keys[0]: given["keys"]} if len(keys) == 1 else given["keys"]
    answer = here.ask(question, epsilon=10**7, **given)
    lines = answer.to_arrow().to_pylist()
    return [tuple(line[name] for name in shown) for line in lines], expected


def same(value: Any, expected: Any, near: float) -> bool:
    if isinstance(expected, datetime.datetime) and isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value == expected.date() and expected.time() == datetime.time()
    if expected is None or isinstance(expected, (str, datetime.date)):
        return bool(value == expected) or (expected is None and isinstance(value, float) and math.isnan(value))
    return value is not None and abs(float(value) - float(expected)) <= near * max(1.0, abs(float(expected)))


def check(
    text: str, dialect: str = "duckdb", oracle: str | None = None, *, near: float = 2e-3, ordered: bool = False, **options: Any
) -> None:
    found, expected = asked(text, dialect, oracle or text, options)
    if not ordered:
        texts = (
            [i for i, value in enumerate(expected[0]) if value is None or not isinstance(value, (float, decimal.Decimal))]
            if expected
            else []
        )

        def place(row: tuple[Any, ...]) -> list[str]:
            return [str(row[i])[:10] if not isinstance(row[i], (int, float)) else f"{round(float(row[i]))}" for i in texts]

        found, expected = sorted(found, key=place), sorted(expected, key=place)
    assert len(found) == len(expected)
    for line, other in zip(found, expected, strict=True):
        assert all(same(value, right, near) for value, right in zip(line, other, strict=True)), (line, other)


FIGURES = [
    "SELECT COUNT(*) FROM visits;",
    "select count() as n from visits -- how many\n;",
    "/* all */ SELECT COUNT(1), COUNT(age), COUNT(DISTINCT patient_id), COUNT(DISTINCT code), COUNT(DISTINCT age) FROM visits",
    "SELECT SUM(age), AVG(age), VAR_SAMP(cost), VAR_POP(cost), STDDEV(cost), STDDEV_POP(cost) FROM visits",
    "SELECT COVAR_POP(age, weight), COVAR_SAMP(age, weight), CORR(age, weight) FROM visits",
    "SELECT COUNT(*) FILTER (WHERE age > 50), AVG(cost) FILTER (WHERE smoker), COUNT_IF(smoker AND age > 40) FROM visits",
    "SELECT SUM(cost) / COUNT(*) AS each, 100.0 * COUNT_IF(smoker) / COUNT(*) AS share, -COUNT(*) AS less FROM visits",
    "SELECT CAST(COUNT(*) AS DOUBLE) / COUNT(DISTINCT patient_id) AS each, ROUND(CAST(AVG(cost) AS DECIMAL(18, 3)), 1) AS mean FROM visits",
    "SELECT 'all' AS who, 1 + 1 AS two, NULL AS nothing, COUNT(*) AS n FROM visits",
    "SELECT SUM(smoker) AS n, SUM(CAST(smoker AS INT)) AS m, SUM(CASE WHEN smoker THEN 1 ELSE 0 END) AS k FROM visits",
    "SELECT AVG(visits.age) FROM visits",
    'SELECT AVG("v"."age"), AVG(V.AGE) AS a FROM Visits AS v',
    'SELECT SUM("Mixed Case"), SUM("mixed case") AS again, SUM("quo""te"), SUM("order") AS "select" FROM visits',
    "SELECT SUM(age * 2 + 1), SUM(ABS(age - 50)), SUM(SQRT(age)), AVG(LN(age + 1)), AVG(LOG10(age + 1)), SUM(age ^ 2) FROM visits",
    "SELECT SUM(LEAST(cost, 1000)), SUM(GREATEST(cost, 1000)), SUM(IF(smoker, cost, 0)), SUM(IFNULL(cost, 0)) FROM visits",
    "SELECT SUM(SIGN(age - 50)), SUM(TRUNC(weight - 80)), SUM(CEIL(weight)), SUM(CAST(weight AS DECIMAL(9, 1))) FROM visits",
    # Names that mean something else elsewhere: the bounds of a value are its own, whatever the figure is called.
    "SELECT SUM(age) AS cost, SUM(cost) AS age FROM visits",
    "SELECT SUM(cost) AS age FROM (SELECT cost, weight FROM visits)",
    "SELECT AVG(x) FROM (SELECT cost AS x, age AS cost FROM visits)",
    "SELECT AVG(y), SUM(x) FROM (SELECT age AS x, cost AS y FROM visits UNION ALL SELECT age, cost FROM visits) t",
    "SELECT AVG(age) FROM (SELECT patient_id, MAX(age) AS age FROM visits GROUP BY patient_id)",
]
FILTERS = [
    "region IN ('Østlandet', '東京')",
    "region NOT IN ('North', '東京')",
    "age IN (1, 2, NULL)",
    "age BETWEEN 18 AND 65",
    "age NOT BETWEEN 18 AND 65",
    "name LIKE '%o%'",
    "name NOT LIKE 'B%'",
    "name ILIKE 'bob'",
    "region = 'O''Brien'",
    "region IS NULL",
    "NOT smoker",
    "smoker IS NOT TRUE",
    "smoker = false",
    "smoker IS DISTINCT FROM true",
    "severity = 'mild'",
    "age % 2 = 0 AND age // 10 > 3",
    "starts_with(code, 'A')",
    "RIGHT(code, 1) = '9'",
    "code || severity = 'A01mild'",
    "CONCAT(code, age) = 'A017'",
    "cost > 99.99 OR weight > age",
    "1 = 1",
    "TRUE",
    "big > 4611686018427387903",
    "big = 9007199254740993",
    "huge > 9223372036854775807",
    "huge = 9223372036854775809",
    "huge IN (7, 9223372036854775808)",
    "huge >= big",
    "day >= DATE '2024-06-01' AND day < '2025-01-01'",
    "seen >= '2024-06-01'",
    "seen >= DATE '2024-06-01'",
    "day < seen",
    "EXTRACT(year FROM day) = 2024",
    "MONTH(day) IN (1, 2)",
    "day >= DATE '2025-01-01' - INTERVAL 30 DAY",
    "day + INTERVAL 1 MONTH > DATE '2025-03-31'",
    "date_diff('day', DATE '2024-01-01', day) > 100",
    "day - DATE '2024-01-01' > 100",
    "EXTRACT(dow FROM day) = 0",
    "EXTRACT(isodow FROM seen) = 7",
    "dayofweek(day) = 6",
    "EXTRACT(week FROM day) = 1",
    "EXTRACT(doy FROM day) > 300",
    "moment AT TIME ZONE 'Europe/Oslo' >= '2024-06-01 02:00:00'",
    "YEAR(moment AT TIME ZONE 'UTC') = 2024",
    "TRY_CAST(number AS DOUBLE) > 4",
]
GROUPS = [
    "SELECT region, smoker, COUNT(*) AS n, AVG(age) AS age FROM visits GROUP BY region, smoker",
    "SELECT region, COUNT(*) AS n FROM visits GROUP BY ALL",
    'SELECT "group", SUM("order") AS "select" FROM visits GROUP BY "group"',
    "SELECT severity, huge, COUNT(*) AS n FROM visits GROUP BY 1, 2",
    "SELECT big, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY big",
    "SELECT CASE WHEN age < 18 THEN 'child' WHEN age < 65 THEN 'adult' ELSE 'old' END AS who, COUNT(*) AS n FROM visits GROUP BY 1",
    "SELECT COALESCE(region, 'unknown') AS place, COUNT(*) AS n FROM visits GROUP BY place",
    "SELECT age // 10 AS decade, COUNT(*) AS n FROM visits GROUP BY 1",
    "SELECT FLOOR(age / 10) * 10 AS decade, COUNT(*) AS n FROM visits GROUP BY 1",
    "SELECT CAST(age / 10 AS INTEGER) AS decade, COUNT(*) AS n FROM visits GROUP BY 1",
    "SELECT age - age % 10 AS decade, AVG(cost) AS n FROM visits GROUP BY 1",
    "SELECT DATE_TRUNC('month', day) AS m, COUNT(*) AS n FROM visits GROUP BY 1",
    "SELECT seen::date AS d, COUNT(*) AS n FROM visits WHERE seen < '2024-03-01' GROUP BY d",
    "SELECT EXTRACT(year FROM day) AS y, EXTRACT(quarter FROM day) AS q, COUNT(*) AS n FROM visits GROUP BY y, q",
    "SELECT isodow(day) AS d, COUNT(*) AS n FROM visits GROUP BY ALL",
    "SELECT age, age * 2 AS twice, CASE WHEN age > 2 THEN 'b' ELSE 'a' END AS who, COUNT(*) AS n FROM visits WHERE age < 4 GROUP BY age",
    "SELECT region, 'x' AS tag, COUNT(*) AS n FROM visits GROUP BY region",
    "SELECT region, COUNT(*) AS n, n * 2 AS twice FROM visits GROUP BY region",
    "SELECT YEAR(day) AS y, YEAR(day) - 2000 AS since, COUNT(*) AS n FROM visits GROUP BY YEAR(day)",
    "SELECT LOWER(TRIM(name)) AS who, LENGTH(name) AS long, COUNT(*) AS n FROM visits GROUP BY 1, 2",
    "SELECT c.title, COUNT(*) AS n FROM visits v JOIN codes c ON v.code = c.code GROUP BY c.title",
    "SELECT code, title, COUNT(*) AS n FROM visits LEFT JOIN codes USING (code) GROUP BY code, title",
    "SELECT ward, AVG(age) AS age, COUNT(DISTINCT patient_id) AS n FROM visits JOIN stays USING (patient_id) GROUP BY ward",
    "SELECT n, COUNT(*) AS people FROM (SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id) t GROUP BY n",
    "SELECT r, COUNT(*) AS n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY patient_id ORDER BY cost) AS r FROM visits) GROUP BY r",
    "WITH a(x, y) AS (SELECT region, age FROM visits WHERE age >= 18) SELECT x, SUM(y) AS s FROM a GROUP BY x",
    "SELECT code, COUNT(*) AS people FROM (SELECT DISTINCT patient_id, code FROM visits) t GROUP BY code",
]
ROWS = [
    "SELECT COUNT(*) FROM (SELECT patient_id FROM visits UNION SELECT patient_id FROM stays) t",
    "SELECT COUNT(*) FROM (SELECT patient_id, age FROM visits UNION ALL SELECT patient_id, nights FROM stays) t",
    "SELECT COUNT(*) FROM visits v LEFT JOIN stays s ON v.patient_id = s.patient_id WHERE s.patient_id IS NULL",
    "SELECT COUNT(*) FROM visits a JOIN visits b ON a.patient_id = b.patient_id AND a.day < b.day",
    "SELECT COUNT(*) FROM visits JOIN (SELECT patient_id, SUM(nights) AS s FROM stays GROUP BY 1) t USING (patient_id) WHERE s > 9",
    "SELECT SUM(m) FROM (SELECT patient_id, COUNT(*) FILTER (WHERE smoker) AS m FROM visits GROUP BY patient_id) t",
    "SELECT SUM(m) FROM (SELECT patient_id, COUNT_IF(age > 50) AS m FROM visits GROUP BY patient_id) t",
    "SELECT COUNT_IF(m) FROM (SELECT patient_id, BOOL_OR(age > 95) AS m FROM visits GROUP BY patient_id) t",
    "SELECT COUNT_IF(m) FROM (SELECT patient_id, BOOL_AND(age > 9) AS m FROM visits GROUP BY patient_id HAVING COUNT(*) > 3) t",
    "SELECT COUNT(*), AVG(age) FROM (SELECT *, RANK() OVER (PARTITION BY patient_id ORDER BY day DESC) AS r FROM visits) t WHERE r = 1",
]
CODES = {"code": ["A01", "B02", "Z99"]}
PLACES = {"region": ["東京", "O'Brien", "North", None, "Østlandet"]}
ORDERS = [
    ("SELECT code, COUNT(*) AS n FROM visits GROUP BY code ORDER BY n DESC LIMIT 2", CODES),
    ("SELECT code, COUNT(*) AS n FROM visits GROUP BY code ORDER BY AVG(age) LIMIT 2 OFFSET 1", CODES),
    ("SELECT code, COUNT(*) AS n FROM visits GROUP BY code HAVING n > 100 AND code <> 'B02' ORDER BY 1 DESC", CODES),
    ("SELECT region, COUNT(*) AS n FROM visits GROUP BY region ORDER BY region NULLS FIRST", PLACES),
    ("SELECT region, COUNT(*) AS n FROM visits GROUP BY region ORDER BY region DESC", PLACES),
]
#: A dialect, a question in it, and what it means.
SPOKEN: list[tuple[str, str, str]] = [
    ("postgres", "SELECT age / 10 AS d, COUNT(*) AS n FROM visits GROUP BY 1", "SELECT age // 10, COUNT(*) FROM visits GROUP BY 1"),
    ("postgres", "SELECT age / 10.0 AS d, COUNT(*) AS n FROM visits GROUP BY 1", "SELECT age / 10, COUNT(*) FROM visits GROUP BY 1"),
    (
        "postgres",
        "SELECT ROUND(AVG(cost)::numeric, 2) AS m, COUNT(*)::float / 2 AS h FROM visits",
        "SELECT AVG(cost), COUNT(*) / 2 FROM visits",
    ),
    (
        "postgres",
        "SELECT date_part('year', day) AS y, COUNT(*) AS n FROM visits GROUP BY 1",
        "SELECT YEAR(day), COUNT(*) FROM visits GROUP BY 1",
    ),
    (
        "postgres",
        "SELECT EXTRACT(DOW FROM day) AS d, COUNT(*) AS n FROM visits GROUP BY 1",
        "SELECT dayofweek(day), COUNT(*) FROM visits GROUP BY 1",
    ),
    (
        "postgres",
        "SELECT COUNT(*) FROM visits WHERE day > '2025-01-01'::date - interval '1' month",
        "SELECT COUNT(*) FROM visits WHERE day > DATE '2024-12-01'",
    ),
    (
        "tsql",
        "SELECT [age] / 10 AS d, COUNT(*) AS n FROM [visits] GROUP BY [age] / 10",
        "SELECT age // 10, COUNT(*) FROM visits GROUP BY 1",
    ),
    (
        "tsql",
        "SELECT STDEV(age) AS a, STDEVP(age) AS b, VAR(age) AS c, VARP(age) AS d FROM visits",
        "SELECT stddev_samp(age), stddev_pop(age), var_samp(age), var_pop(age) FROM visits",
    ),
    (
        "tsql",
        "SELECT CONVERT(INT, weight) AS a, COUNT(*) AS n FROM visits WHERE weight < 50 GROUP BY CONVERT(INT, weight)",
        "SELECT FLOOR(weight), COUNT(*) FROM visits WHERE weight < 50 GROUP BY 1",
    ),
    (
        "tsql",
        "SELECT YEAR([day]) AS y, COUNT_BIG(*) AS n FROM dbo.visits GROUP BY YEAR([day])",
        "SELECT YEAR(day), COUNT(*) FROM visits GROUP BY 1",
    ),
    ("tsql", "SELECT SUM(CASE WHEN smoker = 1 THEN 1 ELSE 0 END) AS s FROM visits", "SELECT COUNT_IF(smoker) FROM visits"),
    ("tsql", "SELECT SUM(DATEDIFF(day, '2024-01-01', [day])) AS s FROM visits", "SELECT SUM(day - DATE '2024-01-01') FROM visits"),
    ("mysql", "SELECT age DIV 10 AS d, COUNT(*) AS n FROM `visits` GROUP BY d", "SELECT age // 10, COUNT(*) FROM visits GROUP BY 1"),
    ("mysql", "SELECT age / 10 AS d, COUNT(*) AS n FROM visits GROUP BY d", "SELECT age / 10, COUNT(*) FROM visits GROUP BY 1"),
    (
        "mysql",
        "SELECT DAYOFWEEK(day) AS d, COUNT(*) AS n FROM visits GROUP BY d",
        "SELECT dayofweek(day) + 1, COUNT(*) FROM visits GROUP BY 1",
    ),
    (
        "mysql",
        "SELECT DATE(seen) AS d, COUNT(*) AS n FROM visits WHERE YEAR(seen) = 2024 GROUP BY d",
        "SELECT seen::date, COUNT(*) FROM visits WHERE YEAR(seen) = 2024 GROUP BY 1",
    ),
    (
        "mysql",
        "SELECT STD(age) AS a, VARIANCE(age) AS v, SUM(age > 50) AS n FROM visits WHERE age < 9",
        "SELECT stddev_pop(age), var_pop(age), COUNT_IF(age > 50) FROM visits WHERE age < 9",
    ),
    (
        "spark",
        "SELECT CAST(age / 10 AS INT) AS d, COUNT(*) AS n FROM visits GROUP BY 1",
        "SELECT age // 10, COUNT(*) FROM visits GROUP BY 1",
    ),
    (
        "spark",
        "SELECT dayofweek(day) AS d, COUNT(*) AS n FROM visits GROUP BY 1",
        "SELECT dayofweek(day) + 1, COUNT(*) FROM visits GROUP BY 1",
    ),
    (
        "spark",
        "SELECT year(day) AS y, std(age) AS s FROM visits GROUP BY year(day)",
        "SELECT YEAR(day), stddev_samp(age) FROM visits GROUP BY 1",
    ),
    (
        "spark",
        "SELECT trunc(day, 'MM') AS m, COUNT(*) AS n FROM visits GROUP BY 1",
        "SELECT DATE_TRUNC('month', day), COUNT(*) FROM visits GROUP BY 1",
    ),
    (
        "bigquery",
        "SELECT EXTRACT(DAYOFWEEK FROM day) AS d, COUNT(*) AS n FROM `a.b.visits` GROUP BY d",
        "SELECT dayofweek(day) + 1, COUNT(*) FROM visits GROUP BY 1",
    ),
    (
        "bigquery",
        "SELECT DATE_TRUNC(day, ISOWEEK) AS w, COUNT(*) AS n FROM visits GROUP BY w",
        "SELECT DATE_TRUNC('week', day), COUNT(*) FROM visits GROUP BY 1",
    ),
    (
        "bigquery",
        "SELECT SAFE_DIVIDE(SUM(cost), COUNT(*)) AS m, COUNTIF(smoker) AS s, r'x' AS t FROM visits",
        "SELECT SUM(cost) / COUNT(*), COUNT_IF(smoker), 'x' FROM visits",
    ),
    ("bigquery", "SELECT SUM(DATE_DIFF(day, DATE '2024-01-01', DAY)) AS s FROM visits", "SELECT SUM(day - DATE '2024-01-01') FROM visits"),
    (
        "snowflake",
        "SELECT IFF(age > 50, 'old', 'young') AS w, COUNT(*) AS n FROM visits GROUP BY ALL",
        "SELECT IF(age > 50, 'old', 'young'), COUNT(*) FROM visits GROUP BY 1",
    ),
    (
        "snowflake",
        "SELECT TO_DATE(seen) AS d, COUNT_IF(smoker) AS n FROM visits WHERE seen < '2024-02-01' GROUP BY d",
        "SELECT seen::date, COUNT_IF(smoker) FROM visits WHERE seen < '2024-02-01' GROUP BY 1",
    ),
]
DAYS = {"bounds": {"s": (0, 1000), "n": (0, 60), "m": (0, 60), "sum(m)": (0, 60), "sum(total)": (0, 60)}}


@pytest.mark.parametrize("text", FIGURES)
def test_figures(text: str) -> None:
    check(text)


@pytest.mark.parametrize("where", FILTERS)
def test_filters(where: str) -> None:
    check(f"SELECT COUNT(*) AS n, SUM(age) AS s FROM visits WHERE {where}", near=1e-3)


@pytest.mark.parametrize("text", GROUPS)
def test_groups(text: str) -> None:
    check(text)


@pytest.mark.parametrize("text", ROWS)
def test_rows(text: str) -> None:
    check(text, **DAYS)


@pytest.mark.parametrize(("text", "keys"), ORDERS, ids=[text for text, _ in ORDERS])
def test_orders(text: str, keys: dict[str, list[Any]]) -> None:
    check(text, ordered=True, keys=keys)


@pytest.mark.parametrize(("dialect", "text", "meaning"), SPOKEN, ids=[f"{dialect}-{text}" for dialect, text, _ in SPOKEN])
def test_dialects(dialect: str, text: str, meaning: str) -> None:
    check(text, dialect, meaning, **DAYS)


def test_nulls_stand_where_the_dialect_has_them() -> None:
    text = "SELECT region, COUNT(*) AS n FROM visits GROUP BY region ORDER BY region DESC"
    check(text, "postgres", f"{text} NULLS FIRST", ordered=True, keys=PLACES)
    check(text.removesuffix(" DESC"), "spark", f"{text.removesuffix(' DESC')} NULLS FIRST", ordered=True, keys=PLACES)


def test_quantiles() -> None:
    """To a cell of their ladder, a thousandth of the bounds, and a row's distance to the next."""
    check("SELECT MIN(age), MAX(age), MEDIAN(age), QUANTILE_CONT(age, 0.25) FROM visits", near=0.11)
    meaning = "SELECT QUANTILE_CONT(weight, 0.9) FROM visits"
    for dialect, text in (
        ("postgres", "SELECT PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY weight) AS p FROM visits"),
        ("postgres", "SELECT PERCENTILE_CONT(0.1) WITHIN GROUP (ORDER BY weight DESC) AS p FROM visits"),
        ("bigquery", "SELECT APPROX_QUANTILES(weight, 10)[OFFSET(9)] AS p FROM visits"),
        ("spark", "SELECT percentile_approx(weight, 0.9) AS p FROM visits"),
        ("snowflake", "SELECT APPROX_PERCENTILE(weight, 0.9) AS p FROM visits"),
    ):
        check(text, dialect, meaning, near=0.01)


def test_the_oracle_tells_meanings_apart() -> None:
    """The mutants: what another dialect means by the same words, and what another rounding would give."""
    halves = "SELECT CAST(age / 10 AS INTEGER) AS decade, COUNT(*) AS n FROM visits GROUP BY 1"
    for text, dialect, other in (
        (SPOKEN[0][1], "postgres", "SELECT age / 10, COUNT(*) FROM visits GROUP BY 1"),
        (halves, "duckdb", "SELECT CAST(FLOOR(age / 10 + 0.5) AS INTEGER), COUNT(*) FROM visits GROUP BY 1"),
        (
            "SELECT dayofweek(day) AS d, COUNT(*) AS n FROM visits GROUP BY 1",
            "spark",
            "SELECT dayofweek(day), COUNT(*) FROM visits GROUP BY 1",
        ),
        (
            "SELECT COUNT(*) AS n FROM visits WHERE huge > 9223372036854775807",
            "duckdb",
            "SELECT COUNT(*) FROM visits WHERE huge::DOUBLE > 9223372036854775807",
        ),
        ("SELECT SUM(cost) AS age FROM visits", "duckdb", "SELECT SUM(LEAST(cost, 100)) FROM visits"),
    ):
        with pytest.raises((AssertionError, TableError)):
            check(text, dialect, other)


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("SELECT SUM(total) AS t FROM (SELECT patient_id, SUM(cost) AS total FROM visits GROUP BY 1)", r"bounds=\{'total': \(0, 100\)\}"),
        ("SELECT SUM(cost) AS t FROM (SELECT patient_id, SUM(cost) AS cost FROM visits GROUP BY 1)", r"bounds=\{'cost': \(0, 100\)\}"),
        ("SELECT AVG(age) AS a FROM (SELECT age FROM visits UNION ALL SELECT nights FROM stays)", r"bounds=\{'age': \(0, 100\)\}"),
        ("SELECT AVG(weight / age) AS ratio FROM visits", r"bounds=\{'ratio': \(0, 100\)\}"),
        ("SELECT UPPER(name) AS name, COUNT(*) FROM visits GROUP BY name", "GROUP BY 1"),
        ("SELECT region, UPPER(region) AS u, COUNT(*) FROM visits GROUP BY region", "put it into GROUP BY"),
        ("SELECT moment, COUNT(*) FROM visits GROUP BY 1", "moment AT TIME ZONE 'UTC'"),
        ("SELECT MIN(day) FROM visits", r"DATE_DIFF\('day', DATE '2020-01-01', day\)"),
        ("SELECT MAX(seen) FROM visits", r"CAST\(seen AS DATE\)"),
        ("SELECT BOOL_OR(smoker) FROM visits", "COUNT_IF"),
        ("SELECT ANY_VALUE(age) FROM visits", "they are COUNT"),
        ("SELECT GEOMEAN(age) FROM visits", "aggregates are COUNT"),
        ("SELECT COUNT(*) FROM visits WHERE day < CURRENT_DATE", "write the date itself"),
        ("SELECT strftime(day, '%Y') AS y, COUNT(*) FROM visits GROUP BY 1", "DATE_TRUNC"),
        ("SELECT COUNT(*) FROM visits WHERE code IN (SELECT code FROM codes)", "join the table"),
        ("SELECT COUNT(*) FROM visits SEMI JOIN stays USING (patient_id)", "GROUP BY person"),
        ("SELECT COUNT(*) FROM visits, codes", "JOIN codes c ON"),
        ("SELECT COUNT(*) FROM visits NATURAL JOIN codes", "USING"),
        ("SELECT COUNT(*) FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY age) AS r FROM visits)", "PARTITION BY patient_id"),
        ("SELECT COUNT(*) FROM (SELECT *, SUM(age) OVER (PARTITION BY patient_id ORDER BY day) AS r FROM visits)", "ROW_NUMBER"),
        ("SELECT COUNT(*) FROM (SELECT DISTINCT code FROM visits)", r"select the person too \(patient_id\)"),
        ("SELECT quantile_cont(cost, [0.25, 0.5]) FROM visits", "several columns"),
        ("SELECT COUNT(*) FROM visits; SELECT COUNT(*) FROM stays", "one after the other"),
        ("SELECT code + name AS k, COUNT(*) FROM visits GROUP BY 1", "CONCAT"),
    ],
)
def test_a_refusal_says_what_to_write_instead(text: str, fix: str) -> None:
    with pytest.raises(TableError, match=fix):
        session("duckdb").price(text, epsilon=1)


def test_a_week_that_begins_on_sunday_is_not_taken_for_another() -> None:
    for dialect, text in (
        ("tsql", "SELECT DATETRUNC(week, [day]) AS w, COUNT(*) AS n FROM visits GROUP BY DATETRUNC(week, [day])"),
        ("bigquery", "SELECT DATE_TRUNC(day, WEEK) AS w, COUNT(*) AS n FROM visits GROUP BY w"),
        ("bigquery", "SELECT EXTRACT(WEEK FROM day) AS w, COUNT(*) AS n FROM visits GROUP BY w"),
        ("mysql", "SELECT WEEK(day) AS w, COUNT(*) AS n FROM visits GROUP BY w"),
        ("trino", "SELECT EXTRACT(DOW FROM day) AS w, COUNT(*) AS n FROM visits GROUP BY 1"),
    ):
        with pytest.raises(Refused, match="Monday"):
            session(dialect).price(text, epsilon=1)


def test_categories_belong_to_the_column_and_not_to_its_name() -> None:
    book = Ledger.open(f"sqlite:///{pathlib.Path(tempfile.mkdtemp()) / 'tacit.db'}")
    here = Session(
        tables()["visits"],
        name="visits",
        unit=tacit.Unit("patient_id", max_rows=60, capped=True),
        ledger=book,
        budget=Budget(epsilon=10**6, delta="1e-6"),
        columns={"code": ["A01", "B02", "Z99"]},
    )
    renamed = here.sql("SELECT code AS c, COUNT(*) AS n FROM visits GROUP BY code", epsilon=1000)
    assert renamed.keys["c"] == ["A01", "B02", "Z99"]  # all of them, in the declared order: nothing was selected
    changed = here.sql("SELECT LOWER(code) AS code, COUNT(*) AS n FROM (SELECT code FROM visits) GROUP BY 1", epsilon=1000)
    assert changed.keys["code"] == ["a01", "b02", "z99"] and min(changed["n"]) > 50
    assert any("selected privately" in note and "NULL" in note for note in changed.notes)
    assert not any("selected privately" in note for note in renamed.notes)
