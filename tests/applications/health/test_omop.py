"""OMOP and FHIR folders as sources: patients are the unit in every table, bad files are refused, bad values are NULL."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from sqlglot import parse_one

from tacit.applications.errors import FileRefused
from tacit.applications.health import cohort_count, fhir, omop
from tacit.ledger import Budget, Ledger


def cdm(folder: Path) -> Path:
    people = range(200)
    parquet.write_table(pa.table({"person_id": people, "year_of_birth": [1930 + i % 80 for i in people]}), folder / "person.parquet")
    visits = "visit_occurrence_id,person_id,visit_start_date\n" + "".join(f"{i},{i // 3},2026-01-0{1 + i % 9}\n" for i in range(600))
    (folder / "visit_occurrence.csv").write_text(visits + "601,5,no date\n602,,2026-01-01\nx,y,z\n")
    (folder / "concept.csv").write_text("concept_id,concept_name\n1,Pneumonia\n")
    return folder


def test_a_patient_is_the_unit_in_every_table(tmp_path: Path) -> None:
    records = omop(cdm(tmp_path), max_rows=3)
    assert records.source.tables == ("person", "visit_occurrence", "concept") and records.source.public == {"concept"}
    book = Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}")
    session = records.session(budget=Budget(epsilon=4000), name="cdm", ledger=book)
    assert session.sql("SELECT COUNT(*) AS n FROM visit_occurrence", epsilon=1000)["n"][0] == pytest.approx(600, abs=3)
    joined = "SELECT COUNT(*) AS n FROM visit_occurrence v JOIN person p ON v.person_id = p.person_id WHERE p.year_of_birth < 1950"
    assert session.sql(joined, epsilon=1000)["n"][0] == pytest.approx(3 * sum(i % 80 < 20 for i in range(200)), abs=3)
    assert cohort_count(session, "SELECT COUNT(*) FROM visit_occurrence", epsilon=1000, at_most=1000).value == 200


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("measurement.csv", "value\n1\n", "person_id"), ("death.parquet", "junk", "Parquet"), ("person.csv", "person_id\n1\n", "there too"),
        ("note.csv", b"\xff\xfe\x00", "UTF-8"),
    ],
)  # fmt: skip
def test_a_table_that_does_not_parse_is_refused(tmp_path: Path, name: str, text, said: str) -> None:
    (cdm(tmp_path) / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(FileRefused, match=said):
        omop(tmp_path, max_rows=3)


def test_a_folder_without_people_is_refused(tmp_path: Path) -> None:
    for read in (omop, fhir):
        with pytest.raises(FileRefused, match=r"person|Patient"):
            read(tmp_path, max_rows=1)


def export(folder: Path) -> Path:
    people = [{"resourceType": "Patient", "id": str(i), "gender": "female", "birthDate": "1950-01"} for i in range(40)]
    people.append({"resourceType": "Patient", "id": 7, "gender": ["odd"], "deceasedBoolean": "yes"})
    (folder / "Patient.ndjson").write_text("\n".join(map(json.dumps, people)) + "\n\n")
    reference = {"subject": {"reference": "urn:base/Patient/3"}}
    seen = [{"resourceType": "Observation", "id": "a", **reference, "valueQuantity": {"value": 5.5, "unit": "mg"}}]
    seen += [{"resourceType": "Observation", "subject": {"reference": f"Patient/{i}"}} for i in range(10)]
    seen += [{"resourceType": "Observation", "subject": "odd", "valueQuantity": {"value": "many"}, "code": {"coding": []}}]
    (folder / "Observation.000.ndjson").write_text("\n".join(map(json.dumps, seen)))
    return folder


def test_a_bulk_export_is_read_and_odd_values_are_null(tmp_path: Path) -> None:
    records = fhir(export(tmp_path), max_rows=2)
    assert records.source.tables == ("patient", "observation")
    book = Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}")
    session = records.session(budget=Budget(epsilon=4000), name="bulk", ledger=book, columns={"value": (0, 10)})
    assert session.sql("SELECT COUNT(*) AS n FROM patient WHERE gender = 'female'", epsilon=1000)["n"][0] == pytest.approx(40, abs=2)
    assert session.sql("SELECT COUNT(value) AS n FROM observation", epsilon=1000)["n"][0] == pytest.approx(1, abs=2)


@pytest.mark.parametrize(("text", "line"), [('{"resourceType": "Patient"}\n{"id": \n', 2), ('{"resourceType": "Group"}\n', 1), ("[]\n", 1)])
def test_a_line_that_is_no_resource_is_refused_with_its_number(tmp_path: Path, text: str, line: int) -> None:
    (tmp_path / "Patient.ndjson").write_text(text)
    with pytest.raises(FileRefused) as caught:
        fhir(tmp_path, max_rows=1)
    assert caught.value.line == line
    (tmp_path / "Patient.ndjson").write_bytes(b"\xff\xff")
    with pytest.raises(FileRefused, match="UTF-8"):
        fhir(tmp_path, max_rows=1)


@pytest.mark.parametrize(
    ("reference", "patient"),
    [
        ("Patient/3", "3"), ("https://fhir.example.org/r4/Patient/3", "3"), ("Patient/3/_history/8", "3"), ("Group/3", None),
        ("Device/3", None), ("Patient/", None), ("3", None), ("#3", None), ("NotPatient/3", None), ("Patient/3/x", None),
    ],
)  # fmt: skip
def test_a_row_leads_to_its_own_patient_or_to_none(tmp_path: Path, reference: str, patient: str | None) -> None:
    """The version 8 of patient 3 is no row of patient 8, and group 3 is no patient: a row would count for someone else."""
    (tmp_path / "Patient.ndjson").write_text('{"resourceType": "Patient", "id": "3"}')
    line = {"resourceType": "Observation", "subject": {"reference": reference}}
    (tmp_path / "Observation.ndjson").write_text(json.dumps(line))
    records = fhir(tmp_path, max_rows=2)
    assert records.source.engine.run(parse_one("SELECT patient_id AS p FROM observation")).to_pydict() == {"p": [patient]}


def test_half_a_character_is_no_error(tmp_path: Path) -> None:
    """JSON can write it and no table can hold it; the error would quote the patient's text."""
    (tmp_path / "Patient.ndjson").write_text('{"resourceType": "Patient", "id": "\\ud800", "gender": "fe\\udfffmale"}')
    found = fhir(tmp_path, max_rows=2).source.engine.run(parse_one("SELECT id, gender FROM patient")).to_pydict()
    assert found == {"id": ["?"], "gender": ["fe?male"]}
