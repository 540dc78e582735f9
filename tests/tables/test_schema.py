"""Schemas: what is written becomes bounds, categories or types; what is not understood is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tacit.tables import Column, Schema, TableError, Unit
from tacit.tables.relation import Catalog, Table
from tacit.tables.sql import parse


def test_short_forms() -> None:
    schema = Schema.of({"a": (0, 5), "b": ["x", "y"], "c": "DATE", "d": {"bounds": [1, 2], "nullable": False}, "e": Column()})
    assert schema.bounds == {"a": (0, 5), "d": (1, 2)} and schema.categories == {"b": ("x", "y")}
    assert schema.columns["c"].type == "DATE" and not schema.columns["d"].nullable
    assert Schema.of(schema) is schema and Schema.of(None) == Schema()
    interval = schema.interval("a")
    assert interval is not None and interval.upper == 5 and schema.interval("b") is None


@pytest.mark.parametrize("wrong", [5, {"bound": (0, 1)}, {"bounds": (1, 2, 3)}], ids=["number", "typo", "three"])
def test_what_is_not_understood_is_refused(wrong: Any) -> None:
    with pytest.raises(TableError):
        Schema.of({"a": wrong})


def test_a_pair_of_texts_is_two_categories() -> None:
    assert Schema.of({"sex": ("f", "m")}).categories == {"sex": ("f", "m")}


def test_foreign_keys_are_declared_with_their_tables() -> None:
    schema = Schema.of({"visit.person_id": Column(references="person.id"), "drug.visit_id": {"references": "visit.id"}})
    assert [str(link) for link in schema.links] == ["visit.person_id -> person.id", "drug.visit_id -> visit.id"]
    for wrong in ({"person_id": Column(references="person.id")}, {"visit.person_id": {"references": "person"}}):
        with pytest.raises(TableError):
            Schema.of(wrong)


def test_a_name_in_two_tables_has_the_wider_bounds_and_only_common_categories() -> None:
    schema = Schema.of({"a.x": (0, 5), "b.x": (-2, 3), "x": (0, 1), "a.k": ["u"], "b.k": ["u"], "a.m": ["u"], "b.m": ["v"]})
    assert schema.bounds["x"] == (-2, 5) and schema.bounds["a.x"] == (0, 5)
    assert schema.categories["k"] == ("u",) and "m" not in schema.categories


CATALOG = Catalog({"visits": Table({"id": "BIGINT", "age": "INTEGER", "cost": "DOUBLE", "region": "VARCHAR"})}, Unit("id", max_rows=3))
COLUMNS = {"id", "age", "cost", "region"}
DECLARED = Schema.of({"age": (0, 110), "cost": (0, 9), "region": ["N", "S"], "decade": [0, 10]})


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        ("visits", {"age": (0, 110), "cost": (0, 9)}),
        ("(SELECT age AS cost, cost AS age FROM visits)", {"cost": (0, 110), "age": (0, 9)}),
        ("(SELECT cost AS c FROM visits)", {"c": (0, 9)}),
        ("(SELECT 2 * age AS age, cost FROM visits)", {"cost": (0, 9)}),
        ("(SELECT id, SUM(cost) AS cost, MAX(age) AS oldest, MIN(age) + 1 AS age FROM visits GROUP BY id)", {"oldest": (0, 110)}),
        ("(SELECT age FROM visits UNION ALL SELECT age FROM visits)", {"age": (0, 110)}),
        ("(SELECT age FROM visits UNION ALL SELECT cost FROM visits)", {}),
    ],
)
def test_bounds_belong_to_columns_and_not_to_names(rows: str, wanted: dict[str, Any]) -> None:
    question = parse(f"SELECT COUNT(*) AS n FROM {rows} AS t", "duckdb", CATALOG)
    assert DECLARED.bounds_of(question, COLUMNS) == wanted


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        ("region", {"region": ("N", "S")}),
        ("region AS r", {"r": ("N", "S")}),
        ("UPPER(region) AS region", {}),
        ("age AS region", {}),
        ("FLOOR(age / 10) AS decade", {"decade": (0, 10)}),
    ],
)
def test_categories_belong_to_columns_and_not_to_names(key: str, wanted: dict[str, Any]) -> None:
    question = parse(f"SELECT {key}, COUNT(*) AS n FROM visits GROUP BY 1", "duckdb", CATALOG)
    assert DECLARED.categories_of(question, COLUMNS) == wanted
