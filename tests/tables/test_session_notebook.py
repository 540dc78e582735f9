"""The analyst's notebook: what is shown, which sources and ledgers are taken, and questions that say their own bounds."""

from __future__ import annotations

import ast
import datetime
import decimal
import subprocess
import sys
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import tacit
from tacit.accounting import Gaussian, compare
from tacit.ledger import Budget, Ledger
from tacit.noise import test_mode
from tacit.tables import Session, TableError, Unit
from tacit.tables.session import Left

UNIT = Unit("id", max_groups=2, rows_per_group=3)
COLUMNS: dict[str, Any] = {"cost": (0, 100_000), "region": ["N", "S"]}


def rows() -> pa.Table:
    draws = np.random.default_rng(3)
    n = 600
    return pa.table(
        {
            "id": draws.integers(0, 200, n),
            "cost": draws.uniform(0, 1000, n),
            "region": draws.choice(["N", "S"], n),
            "age": draws.integers(0, 90, n),
        }
    )


def opened(**more: Any) -> Session:
    given: dict[str, Any] = {"unit": UNIT, "budget": Budget(epsilon=1000, delta="1e-6"), "name": "visits", "columns": COLUMNS}
    if "ledger" not in more:
        more["ledger"] = Path(tempfile.mkdtemp()) / "tacit.db"
    return Session(rows(), **{**given, **more})


# --- bounds in the question ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "figure",
    [
        "AVG(cost, contribution_bounds_per_group => (0, 500))",
        "AVG(cost, contribution_bounds_per_row => (0, 500))",
        "PERCENTILE_CONT(cost, 0.9, contribution_bounds_per_row => (0, 500))",
        "SUM(cost, contribution_bounds_per_row => (0, 500))",
    ],
)
@pytest.mark.parametrize("start", ["SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY"])
def test_bounds_in_the_question_win_over_the_columns(start: str, figure: str) -> None:
    narrow = opened(name="a").plan(f"{start} {figure} AS c FROM a", epsilon=5)
    assert [(i.lower, i.upper) for recipe in narrow.recipes for i in recipe.intervals] == [(0, 500)]
    assert opened(name="a").plan("SELECT AVG(cost) AS c FROM a", epsilon=5).recipes[0].intervals[0].upper == 100_000


def test_a_count_stands_beside_a_bounded_sum() -> None:
    question = "SELECT region, COUNT(*) AS n, SUM(cost, contribution_bounds_per_group => (0, 500)) AS c FROM visits GROUP BY region"
    with test_mode(1):
        answer = opened().sql(question, epsilon=500)
    table = rows().to_pandas()
    for place, region in enumerate(["N", "S"]):
        each = table[table.region == region].groupby("id")
        people = each.size().clip(upper=3).sum()  # at most three rows of a person in a group, as the caps have it
        paid = each.cost.sum().clip(upper=500).sum()
        assert answer["n"][place] == pytest.approx(people, abs=3)
        assert answer["c"][place] == pytest.approx(paid, abs=200)
    with test_mode(2):
        alone = opened(name="v").sql("SELECT COUNT(*) AS n, SUM(cost, contribution_bounds_per_group => (0, 500)) AS c FROM v", epsilon=500)
    assert alone["n"][0] == pytest.approx(table.groupby("id").size().clip(upper=6).sum(), abs=3)


def test_counting_people_loses_nothing_and_says_nothing_of_caps() -> None:
    session = opened()
    answer = session.sql("SELECT COUNT(DISTINCT id) AS n FROM visits", epsilon=5)
    assert not any("rows lost" in note for note in answer.notes)
    assert len(session.plan("SELECT COUNT(DISTINCT id) AS n FROM visits", epsilon=5).shares) == 1
    grouped = session.sql("SELECT region, COUNT(DISTINCT id) AS n FROM visits GROUP BY region", epsilon=5)
    assert any("rows lost" in note for note in grouped.notes)  # a person in many groups is cut to a few of them


# --- what is shown ---------------------------------------------------------------------------------------------


def test_keys_are_sorted_as_their_type(tmp_path: Path) -> None:
    price = [decimal.Decimal(v) for v in ("9.50", "10.25", "100.00")]
    day = [datetime.date(2026, 1, 9), datetime.date(2025, 12, 31), datetime.date(2026, 1, 10)]
    big = [2**62 + 1, 2**62, 2**62 + 2]
    copies = 60
    table = pa.table(
        {
            "id": np.arange(3 * copies),
            "price": pa.array(price * copies, pa.decimal128(8, 2)),
            "day": pa.array(day * copies),
            "big": pa.array(big * copies, pa.int64()),
        }
    )
    session = Session(table, unit=Unit("id", max_rows=1), budget="eps=900, delta=1e-6", name="t", ledger=tmp_path / "t.db")
    for key, values in (("price", price), ("day", day), ("big", big)):
        with test_mode(4):
            answer = session.sql(f"SELECT {key}, COUNT(*) AS n FROM t GROUP BY {key}", epsilon=100)
        assert list(answer.keys[key]) == sorted(values)


def test_sessions_prices_queries_and_comparisons_show_themselves() -> None:
    session = opened(analyst="ann")
    assert "protects" in repr(session) and "ann" in repr(session) and "left epsilon 1000" in repr(session)
    assert "region" in session._repr_html_() and "<table>" in session._repr_html_()
    price = session.price("SELECT COUNT(*) AS n FROM visits", epsilon=0.5)
    assert "epsilon 0.5" in repr(price) and "±" in price._repr_html_()
    query = session.query().group_by("region").count("n")
    assert repr(query) == 'Query(SELECT region, COUNT(*) AS "n" FROM visits GROUP BY region)'
    assert "SELECT" in query._repr_html_()
    assert session.price(query, epsilon=0.5).epsilon == pytest.approx(0.5)
    table = compare(Gaussian(1), 1e-5)
    assert "tightest" in repr(table) and "<table>" in table._repr_html_()
    shown = session.explain("SELECT COUNT(*) AS n FROM visits", epsilon=0.5)
    assert repr(shown) == str(shown) and repr(shown).count("\n") > 5


def test_what_is_left_is_exact_and_shown_as_numbers_never_too_large() -> None:
    session = opened(budget=Budget(epsilon=1, delta="1e-6"))
    session.sql("SELECT COUNT(*) AS n FROM visits", epsilon="1/3")
    left = session.left()
    assert isinstance(left["epsilon"], Fraction) and "Fraction" not in repr(left)
    assert Fraction(repr(left).split()[1].rstrip(",")) <= left["epsilon"]
    assert repr(Left({"epsilon": Fraction(2, 3)})) == "epsilon 0.666666"


def test_a_picture_shows_itself_where_pyplot_was_never_asked() -> None:
    with test_mode(5):
        figure = opened().sql("SELECT region, COUNT(*) AS n FROM visits GROUP BY region", epsilon=5).plot()
    assert figure._repr_png_()[:4] == b"\x89PNG"


# --- ledgers and sources ---------------------------------------------------------------------------------------


def test_a_ledger_is_a_file_name_wherever_one_is_taken(tmp_path: Path) -> None:
    for name in ("my.db", "what? 50%.db"):
        session = opened(ledger=str(tmp_path / name))
        session.sql("SELECT COUNT(*) AS n FROM visits", epsilon=1)
        assert (tmp_path / name).exists()
        with Ledger.open(tmp_path / name, create=False) as book:
            assert book.accounts()[0].name == "visits"
    with pytest.raises(tacit.TacitError, match="a ledger is a file"):
        opened(ledger="")


def test_types_of_a_csv_file_are_declared_on_the_session(tmp_path: Path) -> None:
    file = tmp_path / "v.csv"
    file.write_text("id,age\n" + "".join(f"{i},{20 + i % 9}\n" for i in range(90)))
    session = Session(
        str(file), unit=Unit("id", max_rows=1), budget="eps=90", name="v", ledger=tmp_path / "t.db",
        types={"age": "INTEGER"}, columns={"age": (0, 100)},
    )  # fmt: skip
    assert session.source.columns("v")["age"] == "INTEGER"
    with test_mode(6):
        assert session.sql("SELECT AVG(age) AS a FROM v", epsilon=50)["a"][0] == pytest.approx(24, abs=0.5)


@pytest.mark.parametrize(
    "question",
    ["SELECT AVG(age) AS a FROM v", "SELECT COUNT(*) AS n FROM v WHERE age >= 25", "SELECT COUNT(*) AS n FROM v WHERE age IN (25, 26)"],
)
def test_a_number_in_a_csv_file_of_texts_is_refused_with_both_ways_out(tmp_path: Path, question: str) -> None:
    """A comparison said CAST(... AS VARCHAR), by which 9 comes after 10: a wrong answer that is paid for."""
    file = tmp_path / "v.csv"
    file.write_text("id,age\n" + "".join(f"{i},{20 + i % 9}\n" for i in range(90)))
    options: dict[str, Any] = {"unit": Unit("id", max_rows=1), "budget": "eps=90", "name": "v", "columns": {"age": (0, 100)}}
    session = Session(str(file), ledger=tmp_path / "t.db", **options)
    with pytest.raises(TableError) as caught:
        session.price(question, epsilon=1)
    assert caught.value.code == "text-not-number"
    assert "CAST(age AS DOUBLE)" in str(caught.value) and "types={'age': 'DOUBLE'}" in str(caught.value)
    assert session.price(question.replace("age", "CAST(age AS DOUBLE)"), epsilon=1, bounds={"age": (0, 100)}).epsilon <= 1
    typed = Session(str(file), ledger=tmp_path / "u.db", types={"age": "DOUBLE"}, **options)
    assert typed.price(question, epsilon=1).epsilon <= 1


def test_bounds_that_are_none_are_refused_when_the_session_is_opened(tmp_path: Path) -> None:
    for wrong in ((100, 0), (0, float("nan")), (0, float("inf"))):
        with pytest.raises(TableError, match="bounds of age"):
            Session(rows(), unit=UNIT, budget="eps=9", name="v", ledger=tmp_path / "t.db", columns={"age": wrong})


def test_duckdb_connections_and_relations_are_sources() -> None:
    connection = duckdb.connect()
    connection.register("given", rows())
    connection.execute("CREATE TABLE visits AS SELECT * FROM given")
    relation = connection.sql("SELECT * FROM visits WHERE age < 50")
    budget = Budget(epsilon=100, delta="1e-6")
    book = Path(tempfile.mkdtemp()) / "tacit.db"
    whole = Session(connection, unit=UNIT, budget=budget, name="visits", columns=COLUMNS, ledger=book)
    part = Session(relation, unit=UNIT, budget=budget, name="young", columns=COLUMNS, ledger=book)
    with test_mode(7):
        n = whole.sql("SELECT COUNT(DISTINCT id) AS n FROM visits", epsilon=50)["n"][0]
        m = part.sql("SELECT COUNT(DISTINCT id) AS n FROM young", epsilon=50)["n"][0]
    assert n == pytest.approx(len(set(rows()["id"].to_pylist())), abs=1) and m < n
    with pytest.raises(TableError, match="has no table"):
        Session(connection, unit=UNIT, budget=budget, name="nothing")
    # the connection is not locked down: it is somebody else's
    assert connection.execute("SELECT COUNT(*) FROM visits").fetchone() == (600,)


def test_a_copy_in_a_connection_is_the_same_data() -> None:
    first = opened()
    connection = duckdb.connect()
    connection.register("visits_again", rows())
    with pytest.warns(UserWarning, match="data of account 'visits'"):
        again = Session(connection, unit=UNIT, budget=first.account.budget, name="visits_again", ledger=first.ledger)
    assert again.account.name == "visits"


# --- types -----------------------------------------------------------------------------------------------------

TYPED = """
import tacit

session = tacit.Session({"id": [1]}, unit=tacit.Unit("id", max_rows=1), budget=tacit.Budget(epsilon=1), name="t")
answer = session.sql("SELECT COUNT(*) FROM t", epsilon=1)
reveal_type(session)
reveal_type(answer)
reveal_type(session.price("SELECT COUNT(*) FROM t", epsilon=1))
reveal_type(tacit.Unit.row())
session.sql("SELECT COUNT(*) FROM t", epsilom=1)
"""


@pytest.mark.slow
def test_names_and_keywords_are_known_to_a_type_checker(tmp_path: Path) -> None:
    file = tmp_path / "typed.py"
    file.write_text(TYPED)
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--follow-imports=silent", str(file)]
    root = Path(tacit.__file__).parents[2]
    found = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=root, env=_environment(root)).stdout
    for kind in ("session.Session", "answer.Answer", "desk.Price", "unit.Unit"):
        assert f"tacit.tables.{kind}" in found, found
    assert 'Unexpected keyword argument "epsilom"' in found


def test_every_lazy_name_is_imported_for_type_checkers() -> None:
    tree = ast.parse(Path(tacit.__file__).read_text())
    checked = next(node for node in tree.body if isinstance(node, ast.If))
    named = {name.name for part in checked.body if isinstance(part, ast.ImportFrom) for name in part.names}
    assert named == set(tacit.__all__) - {"__version__"} and named <= set(dir(tacit))


def _environment(root: Path) -> dict[str, str]:
    import os

    return {**os.environ, "MYPYPATH": str(root / "src"), "PYTHONPATH": str(root / "src")}


def test_explicit_keywords_are_completed() -> None:
    import inspect

    for method in (Session.sql, Session.price):
        assert {"epsilon", "bounds", "keys", "accuracy", "period"} <= set(inspect.signature(method).parameters)
