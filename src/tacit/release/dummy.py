"""Public data made up from a seed: hospital visits for the demo, and rows for any declared schema. Nobody is in them.

The visits are made to be awkward in the ways real ones are: a few patients come very often, costs and ages are skewed, some diagnoses are
rare, values are missing or not a number. The same edition gives the same rows. Rows for a schema are drawn from what the schema declares
and nothing else, so that questions can be written and rehearsed by people who may not see the data.

>>> visits(4).column_names
['patient_id', 'visit_date', 'region', 'sex', 'age', 'diagnosis', 'nights', 'cost']
>>> first, same, other = (visits(1000, edition=edition)["age"] for edition in (7, 7, 8))
>>> first.equals(same), first.equals(other)
(True, False)
>>> from tacit.tables.schema import Schema
>>> table = dummy(Schema.of({"region": ["N", "S"], "age": (0, 110), "id": "BIGINT"}), 3)
>>> table.num_rows, table.column_names
(3, ['region', 'age', 'id'])
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tacit.tables.errors import TableError
from tacit.tables.schema import Column, Schema

#: The regions of the made-up country, and what share of its patients lives in each.
REGIONS = {"Capital": 0.34, "North": 0.24, "East": 0.16, "South": 0.14, "West": 0.09, "Islands": 0.03}
#: What people come with, from common to rare, with the median cost of a visit.
DIAGNOSES = {
    "injury": (0.22, 260),
    "respiratory": (0.19, 310),
    "circulatory": (0.17, 900),
    "digestive": (0.13, 480),
    "pregnancy": (0.09, 1400),
    "mental health": (0.08, 390),
    "cancer": (0.06, 2300),
    "infection": (0.04, 520),
    "burns": (0.012, 1900),
    "poisoning": (0.006, 700),
    "tropical disease": (0.0015, 1200),
    "rare metabolic": (0.0005, 3100),
}
SEXES = ("female", "male", "other")
#: The year that the visits are of.
YEAR = 2025
#: What a curator would declare about the visits: types, bounds and categories from public knowledge, not from the rows.
SCHEMA = Schema(
    {
        "patient_id": Column("BIGINT", nullable=False),
        "visit_date": Column("DATE", nullable=False),
        "region": Column("VARCHAR", categories=tuple(REGIONS)),
        "sex": Column("VARCHAR", categories=SEXES),
        "age": Column("BIGINT", bounds=(0, 110)),
        "diagnosis": Column("VARCHAR", categories=tuple(DIAGNOSES)),
        "nights": Column("BIGINT", bounds=(0, 30)),
        "cost": Column("DOUBLE", bounds=(0, 5000)),
    }
)

_EPOCH = datetime.date(1970, 1, 1)
_MISSING = 0.05
Mask = NDArray[np.bool_]


def visits(rows: int, *, edition: int = 7) -> pa.Table:
    """So many hospital visits of about a quarter as many patients, in one Arrow table; another `edition` is another made-up country.

    >>> table = visits(20000)
    >>> from collections import Counter
    >>> Counter(Counter(table["patient_id"].to_pylist()).values()).most_common(1)[0][0] <= 3
    True
    """
    _check(rows)
    draws = np.random.default_rng(edition)
    people = max(1, rows // 4)
    # Pareto weights: most patients come once or twice, a handful dozens of times.
    weights = (1.0 - draws.random(people)) ** (-1 / 2.4)
    person = np.searchsorted(np.cumsum(weights) / weights.sum(), draws.random(rows), side="right").clip(0, people - 1)
    born = np.where(draws.random(people) < 0.12, draws.gamma(1.2, 2.5, people), 18 + 80 * draws.beta(2.6, 1.9, people))
    age = np.minimum(born.astype(np.int64), 109)[person]
    region = draws.choice(len(REGIONS), people, p=_shares(REGIONS.values()))[person]
    sex = draws.choice(3, people, p=(0.52, 0.475, 0.005))[person]
    diagnosis = draws.choice(len(DIAGNOSES), rows, p=_shares(share for share, _ in DIAGNOSES.values()))
    # nobody is ever pregnant at seventy, and made-up data that say so distract from what they are for
    pregnancy = list(DIAGNOSES).index("pregnancy")
    diagnosis = np.where((diagnosis == pregnancy) & ((sex != 0) | (age < 15) | (age > 50)), 0, diagnosis)
    median = np.array([cost for _, cost in DIAGNOSES.values()], dtype=np.float64)[diagnosis]
    cost = np.round(median * np.exp(0.9 * draws.standard_normal(rows)) * (1 + age / 150), 2)
    cost[draws.random(rows) < 0.004] = np.nan
    nights = np.minimum(draws.geometric(1 / (1 + median / 900)) - 1, 120)
    day = (datetime.date(YEAR, 1, 1) - _EPOCH).days + draws.integers(0, 365, rows)
    return pa.table(
        {
            # identifiers are spread out, so that no one takes them for row numbers
            "patient_id": pa.array((person.astype(np.int64) * 7919 + 100003) % (8 * people + 1000003)),
            "visit_date": pa.array(day.astype(np.int32), type=pa.int32()).cast(pa.date32()),
            "region": _labels(tuple(REGIONS), region, draws.random(rows) < 0.01),
            "sex": _labels(SEXES, sex, None),
            "age": pa.array(age, mask=draws.random(rows) < 0.02),
            "diagnosis": _labels(tuple(DIAGNOSES), diagnosis, draws.random(rows) < 0.015),
            "nights": pa.array(nights.astype(np.int64)),
            "cost": pa.array(cost, mask=draws.random(rows) < 0.01, from_pandas=False),
        }
    )


def write_visits(path: str | Path, rows: int, *, edition: int = 7) -> Path:
    """The visits as a Parquet file; its path."""
    import pyarrow.parquet as pq

    place = Path(path)
    pq.write_table(visits(rows, edition=edition), place)
    return place


def dummy(schema: Schema, rows: int, *, person: str | None = None, edition: int = 7) -> pa.Table:
    """Rows that fit a declared schema, each column drawn by itself, evenly over its categories or between its bounds.

    The `person` column gets about four rows a person. A column that declares neither gets values of its type that mean nothing.

    >>> dummy(Schema.of({"ward": ["A"], "id": "BIGINT"}), 8, person="id")["ward"].to_pylist().count("A") > 0
    True
    """
    _check(rows)
    if person is not None and person not in schema.columns:
        raise TableError(f"person must name a column of the schema, not {person!r}; there are {', '.join(schema.columns) or 'none'}")
    draws = np.random.default_rng(edition)
    made = {}
    for name, column in schema.columns.items():
        people = max(1, rows // 4) if name == person else None
        missing = draws.random(rows) < _MISSING if column.nullable and name != person else None
        made[name] = _values(name, column, rows, people, missing, draws)
    return pa.table(made)


def _values(name: str, column: Column, rows: int, people: int | None, missing: Mask | None, draws: np.random.Generator) -> pa.Array:
    kind = (column.type or "").upper().split("(")[0].strip()
    if column.categories:
        return _labels(column.categories, draws.integers(0, len(column.categories), rows), missing)
    whole = kind in _WHOLE or (not kind and people is not None)
    if column.bounds is not None and people is None:
        low, high = (float(Fraction(str(end))) for end in column.bounds)
        values = low + (high - low) * draws.random(rows)
        return pa.array(np.floor(values).clip(low, high).astype(np.int64) if whole else values, mask=missing)
    numbers = draws.integers(0, people or max(1, rows), rows)
    if whole:
        return pa.array(numbers, mask=missing)
    if kind in _REAL or not kind:
        return pa.array(numbers.astype(np.float64), mask=missing)
    if kind == "BOOLEAN":
        return pa.array(numbers % 2 == 0, mask=missing)
    if kind == "DATE":
        return pa.array(_DAY + (numbers % 365).astype(np.int32), mask=missing, type=pa.int32()).cast(pa.date32())
    if kind.startswith("TIMESTAMP"):
        return pa.array((_DAY + numbers % 365) * 86_400_000_000, mask=missing).cast(pa.timestamp("us"))
    if kind in _TEXT:
        return pa.array([f"{name} {number}" for number in numbers.tolist()], mask=missing)
    raise TableError(f"columns[{name!r}] has the type {column.type!r}, which dummy data does not know; use BIGINT, DOUBLE, VARCHAR or DATE")


_WHOLE = {"BIGINT", "INTEGER", "INT", "SMALLINT", "TINYINT", "INT64", "INT32", "UBIGINT", "UINTEGER", "HUGEINT", "LONG"}
_REAL = {"DOUBLE", "FLOAT", "REAL", "DECIMAL", "NUMERIC", "FLOAT64", "DOUBLE PRECISION"}
_TEXT = {"VARCHAR", "TEXT", "STRING", "CHAR", "UUID", "CHARACTER VARYING", "BPCHAR"}
_DAY = (datetime.date(YEAR, 1, 1) - _EPOCH).days


def _labels(names: Sequence[Any], chosen: NDArray[Any], missing: Mask | None) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(chosen.astype(np.int32), mask=missing), pa.array(list(names))).dictionary_decode()


def _shares(shares: Any) -> NDArray[np.float64]:
    found = np.array(list(shares), dtype=np.float64)
    return np.asarray(found / found.sum())


def _check(rows: int) -> None:
    if isinstance(rows, bool) or not isinstance(rows, int) or not 0 <= rows <= 10**9:
        raise TableError(f"rows must be a whole number between 0 and 1e9, not {rows!r}")
