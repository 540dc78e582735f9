"""The curator's check, and how files are read: what a messy file has is found, said NOT PRIVATE, and read
right where it is declared.

The oracle is the generator of the file (`tests/release/messy.py`), which knows the rows before they were made
messy.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlglot import parse_one
from tests.release import messy

from tacit.release import DataCheck, JobError, check_data, run
from tacit.release.checking import MARK, check_in_words, save_check
from tacit.release.job import parse
from tacit.release.sources import opened

ROWS = 4000


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, messy.Truth]:
    folder = tmp_path_factory.mktemp("survey")
    return folder, messy.write(folder / "survey-2026-01.csv", ROWS, seed=5)


@pytest.fixture(scope="module")
def checked(survey: tuple[Path, messy.Truth]) -> DataCheck:
    """The check of the job that says how the file is written."""
    return check_data(parse(messy.job(ROWS), period="2026-01"), base=survey[0])


def counts(folder: Path, text: str, query: str) -> dict[object, object]:
    """What the engine sees when the job has opened its file."""
    source = opened(parse(text, period="2026-01" if "series:" in text else None), folder)
    found = source.engine.run(parse_one(query, read="duckdb")).to_pydict()
    source.close()
    keys, values = found.values()
    return dict(zip(keys, values, strict=True))


# --- reading ---


def test_mixed_encodings_are_read_as_the_texts_they_are(survey: tuple[Path, messy.Truth]) -> None:
    folder, truth = survey
    query = "SELECT canton, COUNT(*) AS n FROM survey GROUP BY canton"
    assert counts(folder, messy.job(ROWS), query) == truth.by_canton
    # Without the encoding the rows are gone, as they always were: that is what the check is for.
    assert (
        counts(folder, messy.job(ROWS, clean=False, series=False), query).get("Zürich", 0)
        < 0.8 * truth.by_canton["Zürich"]
    )


def test_dates_codes_and_decimal_commas_are_read(survey: tuple[Path, messy.Truth]) -> None:
    folder, truth = survey
    text = messy.job(ROWS)
    found = counts(
        folder, text, ("SELECT CAST(interviewed AS VARCHAR) AS d, COUNT(*) AS n FROM survey GROUP BY 1")
    )
    assert found == {day: number for day, number in truth.by_day.items() if number}
    ages = counts(folder, text, "SELECT canton, AVG(age) AS a FROM survey GROUP BY canton")
    assert ages == pytest.approx(truth.age)
    money = counts(folder, text, "SELECT heating, SUM(income) AS s FROM survey GROUP BY heating")
    assert money == pytest.approx(truth.income)


def test_other_collects_what_is_not_declared_and_a_parquet_file_is_read_in_the_same_way(
    tmp_path: Path,
) -> None:
    text = """
version: 1
title: Cities
purpose: Count.
sources: {t: {path: t.parquet}}
unit: {row: true, adjacency: add-remove}
budget: {epsilon: 1, delta: 0}
columns:
  city: {type: text, categories: [Bern, Basel], other: Elsewhere, missing: [unknown]}
  day: {type: date, format: [dd.mm.yyyy, yyyy-mm-dd]}
  age: {type: integer, missing: [-9]}
outputs: [{name: all, sql: "SELECT city, COUNT(*) AS n FROM t GROUP BY city", weight: 1}]
publication: {folder: out, formats: [csv], confidence: 0.95}
"""
    cities = ["Bern", "Basel", "Genf", "unknown", None, "bern"]
    days = ["01.02.2026", "2026-02-01", "31.02.2026", "x", None, "1.2.26"]
    pq.write_table(
        pa.table({"city": cities, "day": days, "age": [1, -9, 3, 4, None, 6]}), tmp_path / "t.parquet"
    )
    job = parse(text)
    assert job.schema_().categories["city"] == ("Bern", "Basel", "Elsewhere")
    source = opened(job, tmp_path)
    found = source.engine.run(parse_one("SELECT city, day, age FROM t", read="duckdb")).to_pydict()
    assert found["city"] == ["Bern", "Basel", "Elsewhere", None, None, "Elsewhere"]
    assert [None if day is None else day.isoformat() for day in found["day"]] == [
        "2026-02-01",
        "2026-02-01",
        None,
        None,
        None,
        None,
    ]
    assert found["age"] == [1, None, 3, 4, None, 6]
    done = run(job, base=tmp_path, report=False)
    assert list(done.answers["all"].keys["city"]) == ["Bern", "Basel", "Elsewhere"]
    assert any("counted under Elsewhere" in note for note in done.answers["all"].notes)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("{type: text, format: dd.mm.yyyy}", "format is for dates"),
        ("{type: date, format: soon}", "format"),
        ("{type: date, format: '%Q'}", "format"),
        ("{type: number, format: '1;234'}", "format"),
        ("{type: integer, missing: []}", "missing"),
        ("{type: integer, missing: [true]}", "missing"),
        ("{type: text, missing: [-9]}", "quotes"),
        ("{type: text, other: x}", "categories"),
        ("{type: text, categories: [a], other: 3}", "type"),
        ("{type: text, encoding: klingon}", "encoding"),
        ("{type: text, encoding: latin-1}", "CSV"),
    ],
)  # fmt: skip
def test_a_slip_in_how_a_column_is_read_is_refused_before_anything_is_paid(column: str, words: str) -> None:
    from tests.release.jobs import TEXT

    with pytest.raises(JobError, match=words):
        parse(TEXT.replace("{type: text}\n  age", column + "\n  age"))


def test_no_bytes_make_the_reading_fail(tmp_path: Path) -> None:
    """Every byte there is, in every encoding: rows stay apart, whatever one of them holds."""
    every = bytes(b for b in range(256) if b not in b'\n\r;"')
    lines = [b"id;x", b"1;a", b"2;" + every, b"3;\xc3", b"4;\xe2\x82", b"5;z"]
    (tmp_path / "t.csv").write_bytes(b"\n".join(lines) + b"\n")
    for encoding in ("mixed", "latin-1", "cp1252"):
        text = f"""
version: 1
title: Bytes
purpose: Read.
sources: {{t: {{path: t.csv, delimiter: ";", encoding: {encoding}}}}}
unit: {{row: true, adjacency: add-remove}}
budget: {{epsilon: 1, delta: 0}}
columns: {{id: {{type: integer}}, x: {{type: text}}}}
outputs: [{{name: all, sql: SELECT COUNT(*) AS n FROM t, weight: 1}}]
publication: {{folder: out, formats: [csv], confidence: 0.95}}
"""
        source = opened(parse(text), tmp_path)
        found = source.engine.run(parse_one("SELECT id, x FROM t ORDER BY id", read="duckdb")).to_pydict()
        assert found["id"] == [1, 2, 3, 4, 5]
        assert (found["x"][0], found["x"][4]) == ("a", "z")
        source.close()


# --- the check ---


def test_a_check_of_what_a_newcomer_writes_finds_every_trap(survey: tuple[Path, messy.Truth]) -> None:
    folder, truth = survey
    found = check_data(parse(messy.job(ROWS, clean=False, series=False)), base=folder)
    said = "\n".join(found.all_hints)
    assert "encoding: mixed" in said
    assert "format: dd.mm.yyyy" in said
    assert "missing: [-9, 999]" in said
    assert "format: 1.234,56" in said
    assert found["interviewed"].read == 0
    assert found.dropped["survey"] > 0
    assert found.rows["survey"] == truth.rows
    assert found["age"].below + found["age"].above == pytest.approx(0.06 * truth.rows, rel=0.3)


def test_a_check_of_the_right_job_has_nothing_to_say_and_its_counts_are_the_generators(
    survey: tuple[Path, messy.Truth], checked: DataCheck
) -> None:
    truth, found = survey[1], checked
    # So few rows have much noise, so that a lower cap is proposed; nothing else is.
    assert [hint for hint in found.all_hints if not hint.startswith("unit.max_rows")] == []
    assert found["canton"].inside == truth.rows
    rows = next(spread for spread in found.spreads if spread.what == "rows of survey")
    assert rows.people == truth.households
    assert {figure.output for figure in found.figures} == {"by_canton", "by_day", "by_heating", "households"}
    assert all(abs(figure.cut) < 0.02 for figure in found.figures)


def test_a_check_says_what_caps_cut_and_which_would_be_better(survey: tuple[Path, messy.Truth]) -> None:
    folder, truth = survey
    found = check_data(parse(messy.job(ROWS, caps=1), period="2026-01"), base=folder)
    rows = next(spread for spread in found.spreads if spread.what == "rows of survey")
    assert rows.cut == pytest.approx(1 - truth.households / truth.rows, abs=1e-9)
    assert any(hint.startswith("unit.max_rows: with ") for hint in found.hints)
    assert "MOSTLY CUT OFF" in check_in_words(found)


def test_a_check_foretells_a_release_that_would_be_held_back(tmp_path: Path) -> None:
    """A fifth of the rows has no region: the check said that nothing looks wrong, and the run paid and published nothing."""
    region = [None if i % 5 == 0 else "ns"[i % 2] for i in range(1000)]
    pq.write_table(pa.table({"region": region, "ward": ["a"] * 1000}), tmp_path / "v.parquet")
    text = """
version: 1
title: T
purpose: P
sources: {v: {path: v.parquet}}
unit: {row: true, adjacency: add-remove}
budget: {epsilon: 1, delta: 1e-6}
expected: {people: 1000, rows: 1000}
columns: {region: {type: text, categories: [n, s], other: z}, ward: {type: text, categories: [a]}}
outputs: [{name: by_region, sql: "SELECT region, ward, COUNT(*) AS n FROM v GROUP BY region, ward", weight: 1}]
publication: {folder: out, formats: [csv], confidence: 0.95}
"""
    (hint,) = check_data(parse(text), base=tmp_path).hints
    assert hint.startswith("by_region: 20.00% of the rows have no declared region")
    left_out = text.replace("weight: 1", "weight: 1, partial: true")
    assert not check_data(parse(left_out), base=tmp_path).hints


def test_a_check_is_marked_and_is_not_written_beside_a_release(checked: DataCheck, tmp_path: Path) -> None:
    found = checked
    assert check_in_words(found).startswith(MARK) and MARK.startswith("NOT PRIVATE")
    assert next(iter(found.to_record())) == "mark"
    release = tmp_path / "job" / "release"
    release.parent.mkdir()
    for wrong in (
        tmp_path / "check.json",
        release.parent / "a.not-private.json",
        release / "a.not-private.json",
    ):
        with pytest.raises(JobError):
            save_check(found, wrong, release)
    place = tmp_path / "a.not-private.json"
    save_check(found, place, release)
    assert json.loads(place.read_text())["mark"] == MARK
    assert place.stat().st_mode & 0o077 == 0
    with pytest.raises(JobError, match="does not exist yet"):
        save_check(found, place, release)


def test_a_run_refuses_to_publish_beside_a_check(survey: tuple[Path, messy.Truth]) -> None:
    folder, _ = survey
    (folder / "feb.not-private.txt").write_text(MARK)
    try:
        with pytest.raises(JobError, match="exact figures about private rows"):
            run(parse(messy.job(ROWS), period="2026-01"), base=folder)
    finally:
        (folder / "feb.not-private.txt").unlink()
    assert not (folder / "tacit.db").exists() or not list(folder.glob("release*"))
