"""Tables of patients in the forms that hospitals keep: OMOP's common data model, and FHIR bulk exports.

`omop` takes a folder of OMOP tables (Parquet or CSV) and `fhir` one of NDJSON files; both return a `PatientRecords`: a source,
the patient as the unit, and the keys by which every row leads to her. A session on it counts patients, whichever
tables a question joins. Vocabulary tables are public. A file that does not parse is refused with its line; a value
that is not of its type is NULL.

>>> import pathlib, tempfile
>>> from tacit.ledger import Budget, Ledger
>>> folder = pathlib.Path(tempfile.mkdtemp())
>>> _ = (folder / "person.csv").write_text("person_id,year_of_birth\\n1,1950\\n2,1990\\n")
>>> _ = (folder / "visit_occurrence.csv").write_text("visit_occurrence_id,person_id\\n10,1\\n11,1\\n12,2\\n")
>>> records = omop(folder, max_rows=5)
>>> records.source.tables, records.unit
(('person', 'visit_occurrence'), Unit.node('person.person_id', max_rows=5))
>>> book = Ledger.open(f"sqlite:///{folder / 'tacit.db'}")
>>> session = records.session(budget=Budget(epsilon=1), name="cdm", ledger=book)
>>> session.price("SELECT COUNT(*) AS n FROM visit_occurrence", epsilon=1).epsilon
1.0
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from tacit.accounting import Adjacency
from tacit.applications.errors import FileRefused
from tacit.ledger import Budget, Ledger
from tacit.tables import Column, Session, Source, Unit

#: Tables of OMOP's common data model 5.4 whose rows are about one person, named in person_id.
CLINICAL = (
    "person", "observation_period", "visit_occurrence", "visit_detail", "condition_occurrence", "drug_exposure",
    "procedure_occurrence", "device_exposure", "measurement", "observation", "death", "note", "specimen", "payer_plan_period",
    "drug_era", "dose_era", "condition_era", "episode",
)  # fmt: skip
#: Tables without rows of people.
VOCABULARY = (
    "concept", "vocabulary", "domain", "concept_class", "concept_relationship", "relationship", "concept_synonym",
    "concept_ancestor", "drug_strength",
)  # fmt: skip
#: What a reference to a patient ends with.
REFERENCE = re.compile(r"(?:^|/)Patient/([^/]+)(?:/_history/[^/]+)?$")
WHOLE = ("year_of_birth", "month_of_birth", "day_of_birth", "days_supply", "refills")
NUMBERS = ("quantity", "value_as_number", "range_low", "range_high", "dose_value", "amount_value", "numerator_value")


@dataclass(frozen=True)
class PatientRecords:
    """Tables about patients: a source, the unit, and what is public about columns."""

    source: Source
    unit: Unit
    columns: Mapping[str, Column]

    def session(self, *, budget: Budget, name: str, ledger: Ledger, **more: Any) -> Session:
        """A session whose unit is the patient, with all her rows in all tables."""
        declared = {**self.columns, **more.pop("columns", {})}
        return Session(self.source, unit=self.unit, budget=budget, name=name, ledger=ledger, columns=declared, **more)


def _records(
    tables: Mapping[str, Any], public: Sequence[str], key: str, owned: Mapping[str, str], max_rows: int, adjacency: Adjacency,
    types: Mapping[str, Mapping[str, str]] | None = None,
) -> PatientRecords:
    source = Source.several(tables, public=tuple(public), types=types)
    columns = {f"{table}.{column}": Column(references=key) for table, column in owned.items()}
    return PatientRecords(source, Unit.node(key, max_rows=max_rows, adjacency=adjacency), columns)


# --- OMOP --------------------------------------------------------------------------------------------------


def type_of(column: str) -> str:
    """The type of a column of OMOP, from its name.

    >>> [type_of(name) for name in ("person_id", "visit_start_date", "value_as_number", "note_text")]
    ['BIGINT', 'DATE', 'DOUBLE', 'VARCHAR']
    """
    name = column.lower()
    if name.endswith("_id") or name in WHOLE:
        return "BIGINT"
    if name.endswith("_datetime"):
        return "TIMESTAMP"
    if name.endswith("_date"):
        return "DATE"
    return "DOUBLE" if name in NUMBERS else "VARCHAR"


def omop(folder: str | PathLike[str], *, max_rows: int, adjacency: Adjacency = Adjacency.ADD_REMOVE) -> PatientRecords:
    """The tables of a folder, one file each, named after them: person.parquet, visit_occurrence.csv, concept.csv.

    `max_rows` is how many rows of one person a question counts. Files of other names are left alone.
    """
    place = Path(folder)
    found, types = dict[str, str](), dict[str, dict[str, str]]()
    for name in (*CLINICAL, *VOCABULARY):
        files = [place / f"{name}{end}" for end in (".parquet", ".csv")]
        present = [file for file in files if file.is_file()]
        if len(present) > 1:
            raise FileRefused(present[1], f"{present[0].name} is there too", "keep one file for each table")
        if present:
            found[name], declared = str(present[0]), _types(present[0], name)
            types |= {} if declared is None else {name: declared}
    if "person" not in found:
        raise FileRefused(place, "there is no person.parquet or person.csv in it", "every row of OMOP leads to the table person")
    owned = {name: "person_id" for name in found if name in CLINICAL and name != "person"}
    public = [name for name in found if name in VOCABULARY]
    return _records(found, public, "person.person_id", owned, max_rows, adjacency, types)


def _types(path: Path, name: str) -> dict[str, str] | None:
    """The types of a CSV file's columns, by their names. Columns are checked, and no row is read."""
    types: dict[str, str] | None = None
    if path.suffix == ".csv":
        try:
            with open(path, encoding="utf-8", newline="") as opened:
                header = next(csv.reader(opened), [])
        except (OSError, UnicodeDecodeError, csv.Error):
            raise FileRefused(path, "it is no CSV file in UTF-8", "export the table again", line=1) from None
        columns, types = header, {column: type_of(column) for column in header}
    else:
        from pyarrow import ArrowException, parquet

        try:
            columns = parquet.read_schema(path).names
        except (OSError, ArrowException):
            raise FileRefused(path, "it is no Parquet file", "export the table again") from None
    if name in CLINICAL and "person_id" not in columns:
        raise FileRefused(path, "it has no column person_id", "OMOP names the person of every clinical row", line=1)
    return types


# --- FHIR --------------------------------------------------------------------------------------------------


def _text(value: object) -> str | None:
    """A text; half of a character, which JSON can write and no table can hold, becomes a question mark."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _inside(value: object, *path: str | int) -> object:
    """A value deep in a resource, None where something on the way is missing or is of another form."""
    for step in path:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and len(value) > step else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def _patient(resource: object) -> str | None:
    """The patient of a resource: Patient/12, its absolute forms and its versions lead to 12.

    A reference to a group or a device leads to none: its last part may be the number of some other patient.
    """
    told = _text(_inside(resource, "subject", "reference")) or _text(_inside(resource, "patient", "reference"))
    found = None if told is None else REFERENCE.search(told)
    return None if found is None else found[1]


Reading = Mapping[str, Callable[[Any], object]]
_ID: Reading = {"id": lambda r: _text(_inside(r, "id"))}
_OWNED: Reading = {**_ID, "patient_id": _patient}
_CODED: Reading = {
    **_OWNED,
    "system": lambda r: _text(_inside(r, "code", "coding", 0, "system")),
    "code": lambda r: _text(_inside(r, "code", "coding", 0, "code")),
}
#: The resources that are read, the table of each, and its columns.
RESOURCES: Mapping[str, tuple[str, Reading]] = {
    "Patient": ("patient", {
        **_ID,
        "gender": lambda r: _text(_inside(r, "gender")),
        "birth_date": lambda r: _text(_inside(r, "birthDate")),
        "deceased": lambda r: _text(_inside(r, "deceasedDateTime")) is not None or _inside(r, "deceasedBoolean") is True,
    }),
    "Encounter": ("encounter", {
        **_OWNED,
        "class": lambda r: _text(_inside(r, "class", "code")) or _text(_inside(r, "class", 0, "coding", 0, "code")),
        "status": lambda r: _text(_inside(r, "status")),
        "started": lambda r: _text(_inside(r, "period", "start")),
        "ended": lambda r: _text(_inside(r, "period", "end")),
    }),
    "Condition": ("condition", {**_CODED, "onset": lambda r: _text(_inside(r, "onsetDateTime"))}),
    "Procedure": ("procedure", {**_CODED, "performed": lambda r: _text(_inside(r, "performedDateTime"))}),
    "Observation": ("observation", {
        **_CODED,
        "value": lambda r: _number(_inside(r, "valueQuantity", "value")),
        "unit": lambda r: _text(_inside(r, "valueQuantity", "unit")),
        "effective": lambda r: _text(_inside(r, "effectiveDateTime")),
    }),
    "MedicationRequest": ("medication_request", {
        **_OWNED,
        "code": lambda r: _text(_inside(r, "medicationCodeableConcept", "coding", 0, "code")),
        "authored": lambda r: _text(_inside(r, "authoredOn")),
    }),
}  # fmt: skip


def fhir(folder: str | PathLike[str], *, max_rows: int, adjacency: Adjacency = Adjacency.ADD_REMOVE) -> PatientRecords:
    """The resources of a FHIR bulk export: Patient.ndjson, Encounter.ndjson and so on, also Patient.000.ndjson.

    Each kind of resource becomes a table with declared columns (`RESOURCES`), one row a resource; what a resource
    does not say, or says in another form, is NULL. Dates stay texts: '2026-01' is a date to FHIR.
    """
    import pyarrow as pa

    place = Path(folder)
    tables: dict[str, Any] = {}
    for kind, (name, reading) in RESOURCES.items():
        files = sorted({*place.glob(f"{kind}.ndjson"), *place.glob(f"{kind}.*.ndjson")})
        if not files:
            continue
        columns: dict[str, list[Any]] = {column: [] for column in reading}
        for file in files:
            for resource in _resources(file, kind):
                for column, read in reading.items():
                    columns[column].append(read(resource))
        kinds = {"value": pa.float64(), "deceased": pa.bool_()}
        tables[name] = pa.table({c: pa.array(v, kinds.get(c, pa.string())) for c, v in columns.items()})
    if "patient" not in tables:
        raise FileRefused(place, "there is no Patient.ndjson in it", "export the resource Patient as well: it is the unit")
    owned = {name: "patient_id" for name in tables if name != "patient"}
    return _records(tables, (), "patient.id", owned, max_rows, adjacency)


def _resources(path: Path, kind: str) -> Iterator[dict[str, Any]]:
    fix = f"write one {kind} as JSON on each line"
    try:
        with open(path, encoding="utf-8") as opened:
            for number, line in enumerate(opened, 1):
                if not line.strip():
                    continue
                try:
                    found = json.loads(line)
                except (ValueError, RecursionError):
                    raise FileRefused(path, "it is no JSON", fix, line=number) from None
                if not isinstance(found, dict) or found.get("resourceType") != kind:
                    raise FileRefused(path, f"it is no {kind}", fix, line=number)
                yield found
    except (OSError, UnicodeDecodeError):
        raise FileRefused(path, "it is no text in UTF-8", fix) from None

