"""Schemas: what is written becomes bounds, categories or types; what is not understood is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tacit.tables import Column, Schema, TableError


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
