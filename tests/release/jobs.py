"""Jobs and tables for the tests of this folder: small, and awkward where it matters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from tacit.ledger import Ledger
from tacit.release.job import Job, parse

#: A value that must never leave the data: it is in every column that can hold it.
CANARY = "zebra-7719"

TEXT = """
version: 1
title: Visits
purpose: Plan beds.
sources: {visits: {path: visits.parquet}}
unit: {person: patient_id, max_rows: 3, adjacency: add-remove}
budget: {rho: 0.5}
columns:
  patient_id: {type: text}
  region: {type: text, categories: [north, south]}
  ward: {type: text}
  age: {type: number, bounds: [0, 110]}
outputs:
  - {name: by_region, sql: "SELECT region, COUNT(*) AS n, AVG(age) AS age FROM visits GROUP BY region", weight: 1}
  - {name: overall, sql: SELECT COUNT(*) AS n FROM visits, weight: 1, postprocess: {nonnegative: [n], whole: [n]}}
publication: {folder: out, formats: [csv, parquet], confidence: 0.95}
"""


def changed(*pairs: tuple[str, str]) -> Job:
    """The job of this file, with some of its text replaced."""
    text = TEXT
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return parse(text)


def visits(people: int = 120) -> pa.Table:
    """Two visits a person, and one person with a canary for a name in a ward of that name."""
    rows: dict[str, list[Any]] = {"patient_id": [], "region": [], "ward": [], "age": []}
    for number in range(2 * people):
        rows["patient_id"].append(f"p{number // 2}")
        rows["region"].append("north" if number % 4 < 3 else "south")
        rows["ward"].append("A" if number % 2 else "B")
        rows["age"].append(float(number % 90))
    rows["patient_id"].append(CANARY)
    rows["region"].append(CANARY)
    rows["ward"].append(CANARY)
    rows["age"].append(float("nan"))
    return pa.table(rows)


def book(folder: Path) -> Ledger:
    """A ledger in a folder of its own."""
    return Ledger.open(f"sqlite:///{folder / 'tacit.db'}")
