"""What a sandbox is made of: made-up rows to learn with, and draws from a seed, which are marked NOT PRIVATE.

`Session.sandbox()` makes a session of it. No row is about a person, the ledger is thrown away with the session,
and every answer says NOT PRIVATE, so that nothing learnt there can be mistaken for a release.

>>> made_up_visits(3, edition=7).column_names
['patient_id', 'region', 'ward', 'age', 'cost', 'admitted']
>>> made_up_visits(100, edition=7) == made_up_visits(100, edition=7)
True
"""

from __future__ import annotations

import datetime
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tacit.noise import test_mode
from tacit.tables.dummy import EPOCH, check_rows, dummy
from tacit.tables.relation import Column, Schema
from tacit.tables.unit import Unit

REGIONS = ("East", "North", "South", "West")
WARDS = ("emergency", "medicine", "surgery")
FIRST = datetime.date(2025, 1, 1)

#: What is public about the made-up visits.
VISITS = Schema(
    {
        "patient_id": Column("BIGINT", nullable=False),
        "region": Column("VARCHAR", categories=REGIONS),
        "ward": Column("VARCHAR", categories=WARDS),
        "age": Column("BIGINT", bounds=(0, 110)),
        "cost": Column("DOUBLE", bounds=(0, 5000)),
        "admitted": Column("DATE"),
    }
)


def made_up_visits(rows: int, edition: int) -> pa.Table:
    """Visits of about a third as many patients, most of whom come once or twice, in four regions and three wards."""
    check_rows(rows)
    draws = np.random.default_rng(edition)
    patients = max(1, rows // 3)
    # Few people have many visits: what caps are for.
    eager = draws.gamma(1.5, size=patients)
    patient = draws.choice(patients, rows, p=eager / eager.sum())
    lives = draws.choice(len(REGIONS), patients, p=(0.2, 0.4, 0.25, 0.15))
    born = draws.integers(0, 100, patients)
    cost = np.minimum(draws.gamma(2.0, 300.0, rows), 4990.0)
    day = (FIRST - EPOCH).days + draws.integers(0, 365, rows).astype(np.int32)
    return pa.table(
        {
            "patient_id": pa.array(patient, pa.int64()),
            "region": np.array(REGIONS)[lives[patient]],
            "ward": np.array(WARDS)[draws.choice(len(WARDS), rows, p=(0.5, 0.3, 0.2))],
            "age": born[patient],
            "cost": np.round(cost, 2),
            "admitted": pa.array(day, pa.int32()).cast(pa.date32()),
        }
    )


def like_declared(columns: Schema, rows: int, unit: Unit, edition: int) -> pa.Table:
    """Rows that fit declared columns, about four for each person; the person's column is added if it is not among them."""
    declared = dict(columns.columns)
    if unit.person is not None:
        declared.setdefault(unit.person, Column("BIGINT"))
    return dummy(Schema(declared), rows, person=unit.person, edition=edition)


@dataclass(eq=False)
class MadeUp:
    """The seed of a sandbox, how many questions it has answered, and the folder of its ledger, which goes with it."""

    seed: int
    folder: str
    asked: int = 0

    @staticmethod
    def of(edition: int) -> MadeUp:
        """A new one, in a folder of its own that is removed when it is no longer used."""
        made = MadeUp(edition, tempfile.mkdtemp(prefix="tacit-sandbox-"))
        weakref.finalize(made, shutil.rmtree, made.folder, ignore_errors=True)
        return made

    @contextmanager
    def drawn(self) -> Iterator[None]:
        """Draws from a seed: another one for each question, the same ones in every run."""
        self.asked += 1
        with test_mode(1_000_003 * self.seed + self.asked):
            yield
