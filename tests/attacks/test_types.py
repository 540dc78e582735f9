"""Attacks through types: whether a question is answered must follow from the types of its columns, and never from a row.

An engine that compares a list with a text fails only where there is such a row, so `WHERE id = 17 AND age >= 64 AND tags = 'a'` tells
whether person 17 is 64. Every function and operator is asked about every type that an engine has, of a table without rows, one with
ordinary rows and one with rows at the limits of every type: all three are answered, or it was refused before anything was paid.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from sqlglot import exp, parse_one
from tests.tables.engines import every_type, places
from tests.tables.engines.every_type import COLUMNS, SIZES
from tests.tables.engines.places import Place

from tacit.accounting import Guarantee
from tacit.tables import Desk, Refused, Source, TableError, Unit
from tacit.tables.dialects import spoken
from tacit.tables.engines import types
from tacit.tables.engines.duckdb import DuckDB
from tacit.tables.engines.types import kind_of
from tacit.tables.errors import EngineError
from tacit.tables.expressions import total
from tacit.tables.figures import integers
from tacit.tables.plan import Plan

#: Every function and operator of one column; constants are of every kind.
CONSTANTS = ("1", "0.5", "-3", "1e30", "'a'", "'12'", "'2024-01-31'", "'2024-01-31 12:00:00'", "NULL", "TRUE", "DATE '2024-01-31'")
ONE = [
    "c", "-c", "NOT c", "c IS NULL", "c IS NOT NULL", "c IS TRUE", "ABS(c)", "ROUND(c)", "ROUND(c, 2)", "FLOOR(c)", "CEIL(c)", "TRUNC(c)",
    "SIGN(c)", "SQRT(c)", "LN(c)", "LOG10(c)", "LOG(2, c)", "EXP(c)", "POWER(c, 2)", "POWER(c, -3)", "POWER(c, 0.5)", "POWER(2, c)",
    "POWER(c, c)", "MOD(c, 7)", "c % 3", "c // 2", "c // c", "LOWER(c)", "UPPER(c)", "LENGTH(c)", "TRIM(c)", "SUBSTRING(c, 1, 2)",
    "LEFT(c, 2)", "RIGHT(c, 2)", "STARTS_WITH(c, 'a')", "c LIKE 'a%'", "c ILIKE '%A'", "c NOT LIKE '_'", "CONCAT(c, 'x')", "c || c",
    "CONCAT(c, c, 1)", "CASE WHEN c IS NULL THEN 1 ELSE 2 END", "CASE c WHEN 'a' THEN 1 WHEN 'b' THEN 2 END", "CASE c WHEN 1 THEN 'x' END",
    "CASE WHEN c THEN 1 END", "IF(c, 1, 2)", "c BETWEEN 1 AND 5", "c BETWEEN 'a' AND 'b'", "c BETWEEN '2024-01-01' AND '2024-12-31'",
    "c IN (1, 2)", "c IN ('a', 'b')", "c IN ('2024-01-31')", "c IN (TRUE)",
    *(f"EXTRACT({part} FROM c)" for part in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOY", "HOUR", "MINUTE", "ISODOW", "DOW")),
    *(f"{part}(c)" for part in ("YEAR", "MONTH", "DAY", "QUARTER")),
    *(f"DATE_TRUNC('{unit}', c)" for unit in ("year", "quarter", "month", "week", "day", "hour", "minute")),
    "DATE_DIFF('day', DATE '2024-01-31', c)", "DATE_DIFF('day', c, c)", "c - c", "c - DATE '2024-01-31'",
    *(f"c {sign} INTERVAL {count} {unit}" for sign, count, unit in
      (("+", 1, "DAY"), ("-", 100000, "DAY"), ("+", 9000, "WEEK"), ("-", 12000, "MONTH"), ("+", 1000, "YEAR"))),
    "c AT TIME ZONE 'UTC'", "CAST(c AT TIME ZONE 'Europe/Oslo' AS DATE)", "YEAR(c AT TIME ZONE 'America/New_York')",
    *(f"CAST(c AS {kind})" for kind in
      ("DOUBLE", "REAL", "BIGINT", "INTEGER", "SMALLINT", "TINYINT", "VARCHAR", "DATE", "TIMESTAMP", "BOOLEAN",
       "DECIMAL(18, 3)", "DECIMAL(4, 1)")),
    *(f"TRY_CAST(c AS {kind})" for kind in ("DOUBLE", "BIGINT", "DATE")),
    *(f"c {sign} {constant}" for sign in ("=", "<", "<>", "+", "*", "/") for constant in CONSTANTS),
    *(f"{name}(c, {constant})" for name in ("COALESCE", "NULLIF", "LEAST", "GREATEST") for constant in CONSTANTS),
]  # fmt: skip
#: Of two columns, of every two types.
TWO = ("a = b", "a < b", "a + b", "COALESCE(a, b)", "GREATEST(a, b)", "CASE WHEN bo THEN a ELSE b END", "NULLIF(a, b)", "a || b", "a - b")
#: Whole questions about one column, through a session. Each line is asked of every type.
QUESTIONS = [
    "SELECT COUNT(c) AS n, COUNT(DISTINCT c) AS d FROM types_t",
    "SELECT COUNT(DISTINCT c) AS d FROM types_t",
    "SELECT COUNT(c) AS n FROM types_t",
    "SELECT SUM(c) AS s FROM types_t",
    "SELECT AVG(c) AS a, VAR_POP(c) AS v FROM types_t",
    "SELECT MEDIAN(c) AS m, MAX(c) AS x FROM types_t",
    "SELECT CORR(c, c) AS r FROM types_t",
    "SELECT c, COUNT(*) AS n FROM types_t GROUP BY c",
    "SELECT COUNT_IF(c IS NULL) AS n FROM types_t WHERE c IS NOT NULL",
    "SELECT COUNT(*) AS n FROM (SELECT id, MIN(c) AS c, COUNT(DISTINCT c) AS k FROM types_t GROUP BY id) w WHERE c IS NOT NULL",
    "SELECT COUNT(*) AS n FROM (SELECT id, MAX(c) AS c FROM types_t GROUP BY id) w WHERE c IS NOT NULL",
    "SELECT COUNT(*) AS n FROM (SELECT id, SUM(c) AS c, AVG(c) AS k FROM types_t GROUP BY id HAVING SUM(c) > 1) w WHERE k > 0",
    "SELECT COUNT(*) AS n FROM (SELECT id, c, COUNT(*) AS k FROM types_t GROUP BY id, c) w WHERE k > 1",
    "SELECT COUNT(*) AS n FROM (SELECT DISTINCT id, c FROM types_t) w",
    "SELECT COUNT(c) AS n FROM (SELECT id, c FROM types_t UNION ALL SELECT id, c FROM types_t) w",
    "SELECT COUNT(*) AS n FROM (SELECT id, c, ROW_NUMBER() OVER (PARTITION BY id ORDER BY c) AS p FROM types_t) w WHERE p = 1",
    "SELECT COUNT(*) AS n FROM types_t a JOIN types_t b ON a.id = b.id AND a.c = b.c",
    "SELECT COUNT(*) AS n FROM types_t a JOIN types_codes k ON a.c = k.c",
]
#: One in so many of what could be asked, or with `make test-slow` all of it.
STRIDES = pytest.mark.parametrize("all_of_them", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["some", "all"])
BOUNDS = {"c": (-5, 10), "k": (-5, 10)}
EVERY = {"duckdb": 25, "postgres": 25, "spark": 60}


def accepted(place: Place, texts: Sequence[str], known: dict[str, str]) -> list[tuple[str, exp.Expression]]:
    """The expressions that are not refused, made total."""
    found = []
    for text in texts:
        tree = spoken(parse_one(f"SELECT {text}", read="duckdb"), place.usual.dialect)
        try:
            found.append((text, total(tree.expressions[0], lambda node: _asked(node, known)).sql))
        except TableError:
            continue
    return found


def _asked(node: exp.Column, known: dict[str, str]) -> Any:
    from tacit.tables.relation import Field, asked_of

    return asked_of(Field(node.name, known[node.name]))


def outcomes(place: Place, asked: Sequence[tuple[str, exp.Expression]], table: str) -> list[str]:
    """Which of the expressions an engine fails on; all at once, and where that fails, by halves."""
    chosen = [exp.alias_(exp.Count(this=sql.copy()), f"c{i}") for i, (_, sql) in enumerate(asked)]
    try:
        place.usual.run(exp.Select(expressions=chosen).from_(table))
        return []
    except EngineError:
        if len(asked) == 1:
            return [asked[0][0]]
    middle = len(asked) // 2
    return [*outcomes(place, asked[:middle], table), *outcomes(place, asked[middle:], table)]


def failures(place: Place, asked: Sequence[tuple[str, exp.Expression]], batch: int = 60) -> dict[str, list[str]]:
    """For every expression that fails anywhere: where."""
    found: dict[str, list[str]] = {}
    for size in SIZES:
        for start in range(0, len(asked), batch):
            for text in outcomes(place, asked[start : start + batch], f"every_{size}"):
                found.setdefault(text, []).append(size)
    return found


def known_types(place: Place) -> dict[str, str]:
    return dict(place.usual.columns(exp.to_table("every_plain")))


@pytest.fixture(scope="module")
def _loaded() -> set[str]:
    return set()


@pytest.fixture
def typed(place: Place, _loaded: set[str]) -> Place:
    """The engine with the tables of every type."""
    if place.name not in _loaded:
        every_type.load(place)
        _loaded.add(place.name)
    return place


def test_the_table_of_types_is_exact(typed: Place) -> None:
    """Every native type has the kind that the list says, and none is taken for another because their names begin alike."""
    known = known_types(typed)
    assert {column.name: kind_of(known[column.name]) for column in COLUMNS[typed.name]} == {c.name: c.kind for c in COLUMNS[typed.name]}


@STRIDES
def test_every_function_of_every_type_has_one_outcome(typed: Place, all_of_them: bool) -> None:
    known = known_types(typed)
    asked: list[tuple[str, exp.Expression]] = []
    for column in COLUMNS[typed.name]:
        texts = [_named(text, c=column.name) for text in ONE]
        found = accepted(typed, texts if all_of_them else texts[:: EVERY[typed.name]], known)
        assert bool(found) == (column.kind != "other"), column
        asked += found
    assert not failures(typed, asked, 400 if typed.slow else 60)


@STRIDES
def test_every_operator_of_every_two_types_has_one_outcome(typed: Place, all_of_them: bool) -> None:
    known = known_types(typed)
    usable = [column.name for column in COLUMNS[typed.name] if column.kind != "other"]
    pairs = [(a, b) for a in usable for b in usable if a != b]
    texts = [_named(text, a=a, b=b) for a, b in pairs for text in TWO]
    texts = texts if all_of_them else texts[:: 4 * EVERY[typed.name]]
    assert not failures(typed, accepted(typed, texts, known), 300 if typed.slow else 60)


def _named(text: str, **names: str) -> str:
    tree = parse_one(f"SELECT {text}", read="duckdb")
    for node in tree.find_all(exp.Column):
        node.set("this", exp.to_identifier(names.get(node.name, node.name), quoted=True))
    return tree.expressions[0].sql("duckdb")


def planned(place: Place) -> dict[str, Plan | None]:
    """What is made of each question, before any row is read; None where it is refused."""
    desk = Desk.of(Source(place.usual, ("types_t", "types_codes"), frozenset({"types_codes"})), Unit("id", max_rows=2), loss=False)
    found: dict[str, Plan | None] = {}
    for text in QUESTIONS:
        try:
            found[text] = desk.plan(desk.question(text), Guarantee(epsilon=1, delta="1e-3"), bounds=BOUNDS)
        except TableError:
            found[text] = None
    return found


def ran(place: Place, plan: Plan) -> bool:
    try:
        integers(place.usual.run(plan.statement(place.usual, 3)), plan)
    except EngineError:
        return False
    return True


def view(place: Place, name: str, text: str) -> None:
    if place.name == "spark":
        place.usual.session.sql(text).createOrReplaceTempView(name)
        return
    if place.name == "duckdb":
        for engine in (place.usual, place.steady):
            with engine._lock:
                engine._forget(name)
                engine._connection.execute(f"CREATE OR REPLACE VIEW {name} AS {text}")
        return
    import psycopg
    from tests.tables.engines import servers

    with psycopg.connect(servers.postgres("attacks")) as connection:
        connection.execute(f"DROP VIEW IF EXISTS {name}".encode())
        connection.execute(f"CREATE VIEW {name} AS {text}".encode())


@pytest.mark.parametrize("place", ["duckdb", "postgres"], indirect=True)
@STRIDES
def test_every_question_about_every_type_has_one_outcome(typed: Place, all_of_them: bool) -> None:
    columns = COLUMNS[typed.name]
    for column in columns if all_of_them else columns[3 :: 14 if typed.name == "duckdb" else 18]:
        made: list[dict[str, Plan | None]] = []
        for size in SIZES:
            view(typed, "types_t", f"SELECT id, {column.name} AS c FROM every_{size}")
            view(typed, "types_codes", f"SELECT {column.name} AS c FROM every_{size}")
            if not made or all_of_them:
                made.append(planned(typed))
            refused = [[text for text, plan in each.items() if plan is None] for each in made]
            assert refused[0] == refused[-1], (column, size)
            failed = [text for text, plan in made[-1].items() if plan is not None and not ran(typed, plan)]
            assert not failed, (column, size, failed)
        counted = made[0]["SELECT COUNT(c) AS n FROM types_t"] is not None
        assert counted == (column.kind != "other"), column


ORACLE = "SELECT COUNT(*) AS n FROM people WHERE id = 17 AND age >= {least} AND {shape}"
SHAPES = (
    "tags = 'a'", "codes = 5", "span > 3", "big = 1", "LOWER(tags) = 'a'", "codes + 1 > 0", "tags IN ('a', 'b')",
    "COALESCE(tags, 'a') = 'a'",
)  # fmt: skip


def oracle() -> DuckDB:
    """Ages of three people, each with a list, an interval and a number of any size."""
    engine = DuckDB(threads=1)
    made = "SELECT unnest([17, 18, 19]) AS id, unnest([64, 30, 81]) AS age, ['a'] AS tags, [5] AS codes, INTERVAL 3 DAY AS span, "
    with engine._lock:
        engine._connection.execute(f"CREATE TABLE people AS {made} CAST('9' AS BIGNUM) AS big")
    return engine


def works(engine: DuckDB, text: str) -> str:
    desk = Desk.of(Source(engine, ("people",)), Unit("id", max_rows=1), loss=False)
    try:
        plan = desk.plan(desk.question(text), Guarantee(epsilon=1))
    except TableError:
        return "refused"
    try:
        engine.run(plan.statement(engine, 1))
    except EngineError:
        return "failed"
    return "answered"


@pytest.mark.parametrize("shape", SHAPES)
def test_a_comparison_with_another_type_is_no_oracle(shape: str) -> None:
    """Person 17 is 64: whether a statement fails must not tell it."""
    engine = oracle()
    assert {works(engine, ORACLE.format(least=least, shape=shape)) for least in (64, 65)} == {"refused"}
    with pytest.raises(Refused) as caught:
        desk = Desk.of(Source(engine, ("people",)), Unit("id", max_rows=1))
        desk.question(ORACLE.format(least=64, shape=shape))
    assert caught.value.code == "type-unsupported"
    assert works(engine, "SELECT COUNT(*) AS n FROM people WHERE age >= 64") == "answered"


def test_types_matched_by_prefix_are_an_oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: VARCHAR[] is a text because its name begins so, and the engine fails exactly where the row is."""

    def by_prefix(native: str) -> str:
        starts = {"VARCHAR": "VARCHAR", "INT": "BIGINT", "BIG": "BIGINT"}
        return next((name for start, name in starts.items() if native.startswith(start)), native)

    monkeypatch.setattr("tacit.tables.engines.duckdb.duckdb_type", by_prefix)
    found = [{works(oracle(), ORACLE.format(least=least, shape=shape)) for least in (64, 65)} for shape in SHAPES[:3]]
    assert {"answered", "failed"} in found


def test_no_value_is_in_the_name_of_a_type() -> None:
    """Labels of an enumeration come from the rows of a frame, also where it is inside of something."""
    for native in ("ENUM('smith')", "ENUM('smith')[]", "STRUCT(a ENUM('smith'))", "MAP(ENUM('smith'), INTEGER)", "UNION(a ENUM('smith'))"):
        assert "smith" not in types.duckdb_type(native)


def test_a_person_is_told_apart_by_what_can_be_compared() -> None:
    engine = oracle()
    for person in ("tags", "span", "big"):
        desk = Desk.of(Source(engine, ("people",)), Unit(person, max_rows=1))
        with pytest.raises(Refused) as caught:
            desk.plan(desk.question("SELECT COUNT(*) AS n FROM people"), Guarantee(epsilon=1))
        assert caught.value.code == "type-unsupported"


def test_a_table_with_a_list_is_open_to_other_questions(place: Place) -> None:
    """A column that cannot be asked about stops no question about the others: not in a sub-query, a join, a union or beside DISTINCT."""
    listed = {"duckdb": "['a']", "postgres": "ARRAY['a']", "spark": "array('a')"}[place.name]
    view(place, "types_t", f"SELECT CAST(1 AS BIGINT) AS id, CAST(5 AS BIGINT) AS n, {listed} AS tags")
    desk = Desk.of(Source(place.usual, ("types_t",)), Unit("id", max_rows=2), loss=False)
    texts = [
        "SELECT COUNT(*) AS n FROM types_t",
        "SELECT COUNT(*) AS k FROM (SELECT * FROM types_t WHERE n > 1) w WHERE n < 9",
        "SELECT COUNT(*) AS k FROM types_t a JOIN types_t b ON a.id = b.id AND a.n = b.n",
        "SELECT COUNT(*) AS k FROM (SELECT * FROM types_t UNION ALL SELECT * FROM types_t) w",
        "SELECT COUNT(*) AS k FROM (SELECT id, n, ROW_NUMBER() OVER (PARTITION BY id ORDER BY n) AS p FROM types_t) w WHERE p = 1",
    ]
    for text in texts[:: 2 if place.slow else 1]:
        plan = desk.plan(desk.question(text), Guarantee(epsilon=1))
        assert integers(place.usual.run(plan.statement(place.usual, 3)), plan).sums[0].tolist() in ([1], [2])
    for text in ("SELECT COUNT(tags) AS n FROM types_t", "SELECT COUNT(*) AS n FROM (SELECT DISTINCT * FROM types_t) w",
                 "SELECT COUNT(*) AS n FROM types_t WHERE tags IS NULL",
                 "SELECT COUNT(*) AS n FROM (SELECT CAST(tags AS VARCHAR) AS x, id FROM types_t) w"):
        with pytest.raises(Refused):
            desk.question(text)


#: A computed whole number beside a decimal that has no room for another digit; the rest of a number of more than 64 bits.
COMPUTED = ("s32 % 7 - d0", "LENGTH(vc) - d0", "EXTRACT(YEAR FROM da) + d0", "s8 % 3 + d38", "(s32 % 7) * d0", "s64 % 2 - d0 * 1")


def engines_fail(texts: Sequence[str]) -> list[str]:
    place = places.place("duckdb")
    every_type.load(place)
    asked = accepted(place, texts, known_types(place))
    assert len(asked) == len(texts)
    return sorted(failures(place, asked))


def test_a_computed_whole_number_beside_a_full_decimal_fails_on_no_row() -> None:
    assert not engines_fail(COMPUTED)


def test_a_whole_number_without_digits_is_an_oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: what is computed has no digits, counts as a number of any length, and the sum with it is not checked to fit."""
    monkeypatch.setattr("tacit.tables.forms.Value.__post_init__", lambda self: None)
    assert "s32 % 7 - d0" in engines_fail(COMPUTED)


@pytest.mark.parametrize("place", ["spark"], indirect=True)
def test_abs_of_a_long_decimal_fails_on_no_row(place: Place) -> None:
    """Spark's own ABS rounds to 34 digits and fails on what then has too many; the mutant is that ABS as it stands."""
    every_type.load(place)
    asked = accepted(place, ["ABS(d38)", "ABS(d0)", "-d38", "ABS(d4)", "ABS(d38) + 1"], known_types(place))
    assert len(asked) == 5 and not failures(place, asked)
    bare = [("ABS(d38)", parse_one("ABS(d38)", read="spark"))]
    assert failures(place, bare) == {"ABS(d38)": ["extreme"]}


def test_the_remainder_of_a_number_beyond_64_bits_is_its_own() -> None:
    place = places.place("duckdb")
    every_type.load(place)
    desk = Desk.of(Source(place.usual, ("every_extreme",)), Unit("id", max_rows=50, capped=True), loss=False)
    for c in ("u64", "s128", "d0"):
        text = f"SELECT COUNT(CASE WHEN {c} % 7 = 1 THEN 1 END) AS a, COUNT({c} % 7) AS b FROM every_extreme"
        plan = desk.plan(desk.question(text), Guarantee(epsilon=1))
        found = integers(place.usual.run(plan.statement(place.usual, 3)), plan).sums
        assert [int(each[0]) for each in found] == [int(v) for v in place.raw(text)[0]], c


@pytest.mark.parametrize("place", ["postgres"], indirect=True)
def test_the_blanks_of_a_char_are_refused_or_as_in_plain_sql(place: Place) -> None:
    """LIKE and CONCAT see the blanks that fill up a char(n), and other functions do not."""
    every_type.load(place)
    desk = Desk.of(Source(place.usual, ("every_plain",)), Unit("id", max_rows=50, capped=True), loss=False)
    for c in ("ch", "bp"):
        for seen in (f"{c} LIKE 'a%'", f"{c} NOT LIKE '%b'", f"CONCAT({c}, 'x') = 'ax'", f"COALESCE({c}, 'z') LIKE 'a%'",
                     f"CASE WHEN bo THEN {c} END ILIKE 'a%'"):  # fmt: skip
            with pytest.raises(Refused) as caught:
                desk.question(f"SELECT COUNT(CASE WHEN {seen} THEN 1 END) AS n FROM every_plain")
            assert caught.value.code == "text-padded"
        with pytest.raises(Refused):
            desk.question(f"SELECT COUNT(CASE WHEN x LIKE 'a%' THEN 1 END) AS n FROM (SELECT id, {c} AS x FROM every_plain) w")
        for mixed in (f"CASE WHEN bo THEN vc ELSE {c} END = 'a'", f"COALESCE(vc, {c}) = 'a'", f"{c} = vc"):
            with pytest.raises(Refused) as caught:
                desk.question(f"SELECT COUNT(CASE WHEN {mixed} THEN 1 END) AS n FROM every_plain")
            assert caught.value.code == "text-padded"
        with pytest.raises(Refused):
            by_person = f"SELECT id, MAX({c}) AS x FROM every_plain GROUP BY id"
            desk.question(f"SELECT COUNT(CASE WHEN x LIKE 'a%' THEN 1 END) AS n FROM ({by_person}) w")
        for same in (f"CAST({c} AS VARCHAR) LIKE 'a%'", f"CAST({c} AS VARCHAR) NOT LIKE '%b'", f"{c} = 'a  '", f"{c} || 'x' = 'ax'",
                     f"{c} IN ('a ', 'z')", f"LENGTH({c}) = 1", f"{c} < 'b  '", f"NULLIF({c}, 'a   ') IS NULL", "na LIKE 'a'"):  # fmt: skip
            text = f"SELECT COUNT(CASE WHEN {same} THEN 1 END) AS n FROM every_plain"
            plan = desk.plan(desk.question(text), Guarantee(epsilon=1))
            found = integers(place.usual.run(plan.statement(place.usual, 3)), plan).sums[0][0]
            assert int(found) == place.raw(text)[0][0], same
