"""Public data made up from a seed: hospital visits for the demo, and rows for any job. They hold no real people.

The visits are made to be awkward in the ways real ones are: a few patients come very often, costs and ages are skewed, some diagnoses are
rare, values are missing or not a number. The same edition gives the same rows. Rows for a job are those of its schema
(`tacit.tables.Schema`), and fit together: foreign keys lead to rows that are there, the two ends of edges are the same nodes, dates lie
about the job's period, and what the job declares to be capped is.

>>> visits(4).column_names
['patient_id', 'visit_date', 'region', 'sex', 'age', 'diagnosis', 'nights', 'cost']
>>> first, same, other = (visits(1000, edition=edition)["age"] for edition in (7, 7, 8))
>>> first.equals(same), first.equals(other)
(True, False)
"""

from __future__ import annotations

import datetime
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tacit.ledger import days
from tacit.release.errors import JobError
from tacit.release.job import Job
from tacit.release.rehearsal import owners_of, why_no_rows
from tacit.release.sources import TYPES
from tacit.tables import Column, Schema
from tacit.tables.dummy import EPOCH, REAL, TEXT, check_rows, dummy, labels, typed

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



def visits(rows: int, *, edition: int = 7) -> pa.Table:
    """So many hospital visits of about a quarter as many patients, in one Arrow table; another `edition` is another made-up country.

    >>> table = visits(20000)
    >>> from collections import Counter
    >>> Counter(Counter(table["patient_id"].to_pylist()).values()).most_common(1)[0][0] <= 3
    True
    """
    check_rows(rows)
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
    # made-up data with a pregnancy at seventy would distract
    pregnancy = list(DIAGNOSES).index("pregnancy")
    diagnosis = np.where((diagnosis == pregnancy) & ((sex != 0) | (age < 15) | (age > 50)), 0, diagnosis)
    median = np.array([cost for _, cost in DIAGNOSES.values()], dtype=np.float64)[diagnosis]
    cost = np.round(median * np.exp(0.9 * draws.standard_normal(rows)) * (1 + age / 150), 2)
    cost[draws.random(rows) < 0.004] = np.nan
    nights = np.minimum(draws.geometric(1 / (1 + median / 900)) - 1, 120)
    day = (datetime.date(YEAR, 1, 1) - EPOCH).days + draws.integers(0, 365, rows)
    return pa.table(
        {
            # identifiers are spread out, so that no one takes them for row numbers
            "patient_id": pa.array((person.astype(np.int64) * 7919 + 100003) % (8 * people + 1000003)),
            "visit_date": pa.array(day.astype(np.int32), type=pa.int32()).cast(pa.date32()),
            "region": labels(tuple(REGIONS), region, draws.random(rows) < 0.01),
            "sex": labels(SEXES, sex, None),
            "age": pa.array(age, mask=draws.random(rows) < 0.02),
            "diagnosis": labels(tuple(DIAGNOSES), diagnosis, draws.random(rows) < 0.015),
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


def tables_for(job: Job, rows: int, *, edition: int = 7) -> dict[str, pa.Table]:
    """Made-up rows for every source of a job: `rows` of each, and a quarter as many of what other tables' foreign keys lead to.

    >>> from tacit.release.job import EXAMPLE, parse
    >>> tables_for(parse(EXAMPLE), 8)["visits"].column_names
    ['patient_id', 'region']
    """
    check_rows(rows)
    if job.without_rows:
        raise JobError(why_no_rows(job), place="sources")
    draws = np.random.default_rng(edition)
    links = {(link.table, link.column): (link.to_table, link.to_column) for link in job.schema_().links}
    sizes = {name: max(1, rows // 4) if any(to == name for to, _ in links.values()) else rows for name in job.sources}
    unit = job.unit.typed()
    made: dict[str, dict[str, pa.Array]] = {}
    for name, size in sizes.items():
        declared = {n: Column(TYPES[c.type], c.bounds, c.categories, c.nullable) for n, c in job.columns_of(name).items()}
        person = unit.person if unit.person in declared and unit.key is None else None
        found = dummy(Schema(declared), size, person=person, edition=int(draws.integers(2**31)))
        made[name] = {n: found.column(n).combine_chunks() for n in found.column_names}
        for key in {column for table, column in links.values() if table == name}:
            made[name][key] = _numbered(key, declared[key], np.arange(size))
        if job.sources[name].public:
            continue
        if person is not None:
            made[name][person] = _numbered(person, declared[person], _skewed(size, max(1, size // 4), draws))
        if unit.ends is not None and set(unit.ends) <= set(declared):
            for end, nodes in zip(unit.ends, _met(size, draws), strict=True):
                made[name][end] = _numbered("node", declared[end], nodes)
        if unit.when in declared and unit.window is not None:
            made[name][unit.when] = _around(days(unit.window, job.period or ""), declared[unit.when], size, draws)
    for (name, column), (to, key) in links.items():
        keys = made[to][key]
        made[name][column] = keys.take(pa.array(_skewed(sizes[name], len(keys), draws)))
    whole = {name: pa.table(columns) for name, columns in made.items()}
    return _within_caps(job, whole) if unit.capped and not job.unit.row else whole


def _numbered(name: str, column: Column, numbers: NDArray[np.int64]) -> pa.Array:
    """Identifiers of the column's type: the same for the same number, and for another number another."""
    kind = (column.type or "").upper().split("(")[0].strip()
    if kind in TEXT:
        return pa.array([f"{name} {number}" for number in numbers.tolist()])
    if kind == "DATE":
        return pa.array(numbers.astype(np.int32), type=pa.int32()).cast(pa.date32())
    return typed(numbers.astype(np.float64) if kind in REAL else numbers, kind, None)


def _skewed(rows: int, owners: int, draws: np.random.Generator) -> NDArray[np.int64]:
    """An owner for each row; most have few rows, a handful has many."""
    weights = (1.0 - draws.random(owners)) ** (-1 / 2.4)
    places = np.searchsorted(np.cumsum(weights) / weights.sum(), draws.random(rows), side="right")
    return np.asarray(places.clip(0, owners - 1), np.int64)


def _met(rows: int, draws: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The two ends of each edge, never the same; an edge is met again, in either direction, about every third time."""
    nodes = max(2, rows // 4)
    first = _skewed(rows, nodes, draws)
    second = (first + 1 + _skewed(rows, nodes - 1, draws)) % nodes
    again = np.where(draws.random(rows) < 1 / 3, draws.integers(0, max(1, rows), rows), np.arange(rows))
    turned = draws.random(rows) < 0.5
    first, second = first[again], second[again]
    return np.where(turned, second, first), np.where(turned, first, second)


def _around(span: tuple[datetime.date, datetime.date], column: Column, rows: int, draws: np.random.Generator) -> pa.Array:
    """Days of a period, and one in ten from shortly before or after it."""
    first, last = ((day - EPOCH).days for day in span)
    day = np.where(draws.random(rows) < 0.1, draws.integers(first - 10, last + 11, rows), draws.integers(first, last + 1, rows))
    if (column.type or "").upper().startswith("TIMESTAMP"):
        return pa.array(day * 86_400_000_000 + draws.integers(0, 86_400_000_000, rows)).cast(pa.timestamp("us"))
    return pa.array(day.astype(np.int32), type=pa.int32()).cast(pa.date32())


def _within_caps(job: Job, tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """The rows that keep every owner below every cap that is declared to hold: a row goes where one of its owners has no room."""
    unit = job.unit.typed()
    caps = [cap for cap in (unit.most_rows, unit.max_groups, unit.rows_per_group) if cap is not None]
    found = {}
    for name, owners in owners_of(job, tables).items():
        there: dict[int, list[int]] = {}
        for row, owner in zip(owners.row.tolist(), owners.owner.tolist(), strict=True):
            there.setdefault(row, []).append(owner)
        counted: Counter[int] = Counter()
        kept = []
        for row in range(tables[name].num_rows):
            if all(counted[owner] < min(caps) for owner in there.get(row, [])):
                counted.update(there.get(row, []))
                kept.append(row)
        found[name] = tables[name].take(pa.array(kept, pa.int64()))
    return {**tables, **found}


def _shares(shares: Any) -> NDArray[np.float64]:
    found = np.array(list(shares), dtype=np.float64)
    return np.asarray(found / found.sum())
