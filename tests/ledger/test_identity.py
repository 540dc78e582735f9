"""The same data is the same, whatever it is called; other data is other data; nothing about it can be read from what is stored."""

from __future__ import annotations

import datetime
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.ledger import DataIdentity, LedgerError

VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.binary(max_size=5), st.dates())
ROWS = st.lists(st.dictionaries(st.text(max_size=3), VALUES, max_size=3), max_size=6)


@given(ROWS, st.randoms())
def test_the_order_of_rows_and_columns_makes_no_difference(rows: list[dict[str, object]], shuffle: object) -> None:
    other = [dict(reversed(list(row.items()))) for row in rows]
    shuffle.shuffle(other)  # type: ignore[attr-defined]
    assert DataIdentity.rows(rows) == DataIdentity.rows(other)


@given(ROWS, ROWS)
def test_other_rows_are_other_data(first: list[dict[str, object]], second: list[dict[str, object]]) -> None:
    same = sorted(repr(sorted((k, type(v), repr(v)) for k, v in row.items())) for row in first) == sorted(
        repr(sorted((k, type(v), repr(v)) for k, v in row.items())) for row in second
    )
    assert (DataIdentity.rows(first) == DataIdentity.rows(second)) == same


def test_types_lengths_and_repetitions_count() -> None:
    different = [
        *([], [[]], [[1]], [["1"]], [[1.0]], [[True]], [[None]], [[1], [1]], [["ab", "c"]], [["a", "bc"]], [[b"1"]], [{"a": 1}]),
        *([["a"], ["b"]], [["a", "b"]], [[["a"], "b"]], [[math.nan]], [[-0.0]], [[0.0]], [[datetime.date(2026, 1, 1)]]),
    ]
    assert len({DataIdentity.rows(rows).digest for rows in different}) == len(different)  # type: ignore[arg-type]
    assert DataIdentity.rows([[1], [2]], ordered=True) != DataIdentity.rows([[2], [1]], ordered=True)


def test_a_source_is_its_address_without_who_asks() -> None:
    base = DataIdentity.source("postgresql://db.example.org/health", table="visits")
    for url in ("postgres://db.example.org:5432/health", "postgresql+psycopg://ann:pw@DB.EXAMPLE.ORG/health", "postgresql://db.example.org/./health"):
        assert DataIdentity.source(url, table=" Visits ") == base
    for url, table in (("postgresql://db2.example.org/health", "visits"), ("postgresql://db.example.org:5433/health", "visits")):
        assert DataIdentity.source(url, table=table) != base
    assert DataIdentity.source("postgresql://db.example.org/health", table="lab") != base
    for wrong in ("visits", "", "postgresql://host:x/db"):
        with pytest.raises(LedgerError):
            DataIdentity.source(wrong)


def test_a_file_is_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 3_000_000)
    (tmp_path / "b").write_bytes(b"x" * 3_000_000)
    (tmp_path / "c").write_bytes(b"x" * 3_000_001)
    a, b, c = (DataIdentity.file(tmp_path / name) for name in "abc")
    assert a == b != c
    with pytest.raises(LedgerError, match="FileNotFoundError"):
        DataIdentity.file(tmp_path / "none")


def test_kinds_do_not_collide_and_keys_need_the_secret() -> None:
    declared, rows = DataIdentity.declared("x"), DataIdentity.rows(["x"])
    assert declared.key(b"s") != rows.key(b"s")
    assert declared.key(b"s") != declared.key(b"t")
    assert declared.digest.hex() not in repr(declared) + declared.key(b"s")
    for wrong in ("", "  ", None, 7):
        with pytest.raises(LedgerError, match="data must be"):
            DataIdentity.declared(wrong)  # type: ignore[arg-type]
