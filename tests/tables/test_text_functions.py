"""Functions of texts that messy columns need: STRPTIME, REPLACE, regular expressions, and weights of 1/m for
each person.

Oracles are Python's own: datetime.strptime, str.replace, re. Nothing that a row holds may make a statement
fail.
"""

from __future__ import annotations

import datetime
import re

import pyarrow as pa
import pytest
from sqlglot import exp, parse_one

from tacit.accounting import Guarantee
from tacit.tables import Refused, Source, Unit
from tacit.tables.desk import Desk
from tacit.tables.engines.duckdb import DuckDB
from tacit.tables.expressions import total
from tacit.tables.figures import integers
from tacit.tables.plan import _refuse_regular

TEXTS = [
    "31.12.2025", "01.02.2026", "29.02.2024", "29.02.2023", "31.04.2026", "1.2.2026", "2026-01-01", "", None, "00.00.0000", "99.99.9999",
    " 01.02.2026", "01.02.2026 ", "01x02x2026", "0１.02.2026", "A-12-b", "aaa", "a" * 5000, "Zürich", "\x00",
    "'; DROP TABLE t; --", "01.02.0001",
]  # fmt: skip


def answers(text: str) -> list[object]:
    """What an expression is in every row."""
    engine = DuckDB()
    engine.register("t", pa.table({"x": pa.array(TEXTS, pa.string()), "i": list(range(len(TEXTS)))}))
    made = total(parse_one(text, read="duckdb"), {"x": "VARCHAR"}).sql
    query = (
        exp.Select(expressions=[exp.alias_(made, "v"), exp.column("i")])
        .from_(exp.to_table("t"))
        .order_by("i")
    )
    return list(engine.run(query).column("v").to_pylist())


def of_python(text: str | None, form: str) -> datetime.datetime | None:
    """strptime of Python, which also takes a single digit and blanks; those are none here."""
    try:
        return (
            datetime.datetime.strptime(text or "", form)
            if re.fullmatch(r"[0-9]{2}\.[0-9]{2}\.[0-9]{4}", text or "", re.ASCII)
            else None
        )
    except ValueError:
        return None


def test_strptime_reads_what_python_reads_and_nothing_else() -> None:
    assert answers("STRPTIME(x, '%d.%m.%Y')") == [of_python(text, "%d.%m.%Y") for text in TEXTS]


def test_strptime_reads_times() -> None:
    engine = DuckDB()
    engine.register("t", pa.table({"x": ["31/12/2025 23:59:58", "31/12/2025 24:00:00", "31/12/2025"]}))
    made = total(parse_one("STRPTIME(x, '%d/%m/%Y %H:%M:%S')", read="duckdb"), {"x": "VARCHAR"}).sql
    found = (
        engine.run(exp.Select(expressions=[exp.alias_(made, "v")]).from_(exp.to_table("t")))
        .column("v")
        .to_pylist()
    )
    assert found == [datetime.datetime(2025, 12, 31, 23, 59, 58), None, None]


@pytest.mark.parametrize("form", ["%d.%m", "%d.%m.%Y%Y", "%j.%Y", "", "%", "%d.%m.%Y" + "x" * 40, "%d\n%m%Y"])
def test_formats_that_are_no_date_are_refused(form: str) -> None:
    with pytest.raises(Refused):
        total(exp.StrToTime(this=exp.column("x"), format=exp.Literal.string(form)), {"x": "VARCHAR"})


def test_replace_is_pythons() -> None:
    assert answers("REPLACE(x, '.', '/')") == [
        None if text is None else text.replace(".", "/") for text in TEXTS
    ]
    for bad in ("REPLACE(x, '', 'a')", "REPLACE(x, x, 'a')", f"REPLACE(x, 'a', '{'b' * 101}')"):
        with pytest.raises(Refused):
            total(parse_one(bad, read="duckdb"), {"x": "VARCHAR"})


@pytest.mark.parametrize("pattern", ["^[0-9]{2}[.]", "(a+)+$", "[A-Z]-", "^$", "ü"])
def test_regular_expressions_are_pythons(pattern: str) -> None:
    # Of the long text Python is asked about the beginning: where RE2 takes a millisecond, its own engine
    # takes for ever.
    wanted = [None if text is None else re.search(pattern, text[:20], re.ASCII) is not None for text in TEXTS]
    assert answers(f"REGEXP_MATCHES(x, '{pattern}')") == wanted


def test_regular_expressions_extract_and_replace() -> None:
    assert answers("REGEXP_EXTRACT(x, '([0-9]+)[.]([0-9]+)', 2)")[:2] == ["12", "02"]
    assert answers("REGEXP_REPLACE(x, '[.]', '', 'g')")[:2] == ["31122025", "01022026"]
    assert answers("REGEXP_REPLACE(x, '[.]', '')")[:2] == ["3112.2025", "0102.2026"]


@pytest.mark.parametrize("pattern", [r"(a)\1", "(?=a)", "(?<!a)b", "[", "a{2000}", "a" * 301])
def test_what_could_take_for_ever_is_refused_before_any_row(pattern: str) -> None:
    with pytest.raises(Refused):
        total(exp.RegexpLike(this=exp.column("x"), expression=exp.Literal.string(pattern)), {"x": "VARCHAR"})


def test_regular_expressions_are_refused_on_other_engines_and_other_functions_are_not() -> None:
    source = Source.of(pa.table({"id": [1], "x": ["a"]}), name="t")
    desk = Desk.of(source, Unit("id", max_rows=1), None)

    class Other:
        dialect = "spark"

    with pytest.raises(Refused, match="DuckDB alone"):
        _refuse_regular(desk.question("SELECT COUNT(*) AS n FROM t WHERE REGEXP_MATCHES(x, 'a')"), Other())  # type: ignore[arg-type]
    _refuse_regular(
        desk.question("SELECT COUNT(*) AS n FROM t WHERE REPLACE(x, 'a', 'b') LIKE 'b%'"), Other()
    )  # type: ignore[arg-type]


def test_a_weight_of_one_over_the_persons_rows_counts_each_person_once() -> None:
    source = Source.of(
        pa.table({"id": [1, 1, 1, 2, 3, 3], "region": ["n", "n", "s", "n", "s", "s"]}), name="t"
    )
    desk = Desk.of(source, Unit("id", max_rows=5), None)
    text = (
        "SELECT region, SUM(w) AS people FROM (SELECT id, region, 1.0 / COUNT(*) OVER (PARTITION BY id) "
        "AS w FROM t) AS r GROUP BY region"
    )
    plan = desk.plan(
        desk.question(text),
        Guarantee(epsilon=1),
        bounds={"w": (0, 1)},
        keys={"region": ["n", "s"]},
        loss=False,
    )
    found = integers(desk.engine.run(plan.statement(desk.engine, 1)), plan)
    assert [factor for _, factor in plan.recipes[0].value] == [1.0]
    sums = [float(value * plan.wanted.measures[0].granularity) for value in found.sums[0]]
    assert sums == pytest.approx([2 / 3 + 1, 1 / 3 + 1], abs=1e-6)


WEIGHTED = "SELECT id, region, 1.0 / COUNT(*) OVER (PARTITION BY id) AS w FROM t"


@pytest.mark.parametrize(
    ("inner", "moves"),
    [
        (WEIGHTED, 1), (f"SELECT w, region FROM ({WEIGHTED}) AS a WHERE region = 'n'", 1), (f"SELECT * FROM ({WEIGHTED}) AS a", 1),
        (f"SELECT w AS w, region FROM ({WEIGHTED}) AS a", 1),
        ("SELECT id, region, (1 / (COUNT(*) OVER (PARTITION BY id))) AS w FROM t", 1),
        ("SELECT id, region, 2.0 / COUNT(*) OVER (PARTITION BY id) AS w FROM t", 5),
        ("SELECT id, region, 1.0 / COUNT(*) OVER (PARTITION BY id, region) AS w FROM t", 5),
        (f"SELECT a.w, a.region FROM ({WEIGHTED}) AS a JOIN t AS b ON a.id = b.id", 5),
        (f"{WEIGHTED} UNION ALL {WEIGHTED}", 5), (f"SELECT w + 0 AS w, region FROM ({WEIGHTED}) AS a", 5),
    ],
)  # fmt: skip
def test_a_person_s_weights_are_priced_together(inner: str, moves: int) -> None:
    """Five rows of one person weigh 1, not 5; what makes rows twice, or is another fraction, is priced by the row."""
    rows = {"id": [1, 1, 1, 2, 3, 3, *[4] * 9], "region": [*"nnsnss", *"nsnsnsnsn"]}
    unit, sums = Unit("id", max_rows=5), []
    for people in (rows, {name: [v for v, who in zip(values, rows["id"], strict=True) if who != 4] for name, values in rows.items()}):
        desk = Desk.of(Source.of(pa.table(people), name="t"), unit, None)
        question = desk.question(f"SELECT region, SUM(w) AS people FROM ({inner}) AS r GROUP BY region")
        plan = desk.plan(question, Guarantee(epsilon=1), bounds={"w": (0, 1)}, keys={"region": ["n", "s"]}, loss=False)
        sums.append(integers(desk.engine.run(plan.statement(desk.engine, 1)), plan).sums[0])
    (share,) = plan.shares
    assert float(share.scale * share.measure.granularity) == pytest.approx(moves, rel=1e-6)
    moved = sum(abs(int(a) - int(b)) for a, b in zip(*sums, strict=True))
    assert 0 < moved <= share.scale, "the price holds"


def test_weights_need_no_bounds_and_cheaper_ones_are_no_reason_to_pay_less() -> None:
    """The bounds of 0 to 1 are known. A bound below 1 makes no person's rows together less than 1; one above 0 may make them more."""
    desk = Desk.of(Source.of(pa.table({"id": [1], "region": ["n"]}), name="t"), Unit("id", max_rows=5), None)
    scales = []
    for bounds in ({}, {"w": (0, "0.5")}, {"w": ("0.5", 1)}):
        question = desk.question(f"SELECT SUM(w) AS people, COUNT(*) AS n FROM ({WEIGHTED}) AS r")
        plan = desk.plan(question, Guarantee(epsilon=1), bounds=bounds, loss=False)
        weighed = next(share for share in plan.shares if share.measure.name.startswith("sum"))
        scales.append(float(weighed.scale * weighed.measure.granularity * weighed.part))
    assert scales[:2] == pytest.approx([1, 1], rel=1e-6) and scales[2] > 1.2


@pytest.mark.parametrize(
    "window",
    [
        "COUNT(*) OVER ()",
        "COUNT(*) OVER (PARTITION BY region)",
        "SUM(id) OVER (PARTITION BY id)",
        "COUNT(*) OVER (PARTITION BY id ORDER BY region)",
    ],
)
def test_windows_that_mix_people_are_refused(window: str) -> None:
    source = Source.of(pa.table({"id": [1], "region": ["n"]}), name="t")
    desk = Desk.of(source, Unit("id", max_rows=5), None)
    with pytest.raises(Refused):
        desk.question(f"SELECT SUM(w) AS people FROM (SELECT id, 1.0 / {window} AS w FROM t) AS r")
