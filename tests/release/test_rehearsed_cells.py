"""Rehearsals of workloads and of made-up rows: the truth is counted apart, caps and baselines have their known errors."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tacit.cli.app import app
from tacit.release.job import Job, parse
from tacit.release.rehearsal import Rehearsal, rehearse
from tacit.release.rehearsed_cells import TOO_MANY

TEXT = """
version: 1
title: Visits
purpose: Rehearse what is counted in cells.
sources: {visits: {path: visits.parquet}}
unit: {person: id, max_rows: 2, adjacency: add-remove}
budget: {rho: 0.5}
columns:
  id: {type: integer}
  region: {type: text, categories: [N, E, S]}
  sex: {type: text, categories: [f, m]}
  nights: {type: integer, bounds: [0, 5]}
outputs:
  - {name: pairs, kind: workload, source: visits, marginals: {of: [sex, region], up_to: 2}, weight: 1}
  - {name: stays, kind: workload, source: visits, ranges: {nights: all}, weight: 1}
  - {name: rows, kind: synthesis, source: visits, columns: [region, sex, nights], weight: 2}
publication: {folder: release, formats: [csv], confidence: 0.95}
"""
#: The third person has nine rows where two are counted; two rows have no region that is declared, one has no person.
EXTRA = {"id": [3] * 7 + [None], "region": ["S"] * 5 + ["W", None, "N"], "sex": ["m"] * 8, "nights": [9, -1, 2, 3, 4, 5, 0, 0]}


def job() -> Job:
    return parse(TEXT)


def visits() -> pa.Table:
    random = np.random.default_rng(17)
    people = 2000
    plain = {
        "id": np.arange(people).tolist() + list(range(300)),
        "region": random.choice(["N", "E", "S"], people + 300, p=[0.6, 0.395, 0.005]).tolist(),
        "sex": random.choice(["f", "m"], people + 300).tolist(),
        "nights": random.integers(0, 6, people + 300).tolist(),
    }
    return pa.table({name: [*values, *EXTRA[name]] for name, values in plain.items()})


@pytest.fixture(scope="module")
def found() -> Rehearsal:
    return rehearse(job(), {"visits": visits()}, data="public", runs=12)


def lines(found: Rehearsal, output: str, figure: str) -> dict[tuple[object, ...], object]:
    return {line.group: line for line in found.lines if line.output == output and line.figure == figure}


def test_the_truth_is_that_of_all_rows(found: Rehearsal) -> None:
    """Counted here row by row: every row counts, of any person and of none, where its columns have declared values."""
    rows = visits().to_pylist()
    pairs = lines(found, "pairs", "sex by region")
    for sex, region in itertools.product("fm", "NES"):
        mine = [row for row in rows if row["sex"] == sex and row["region"] == region]
        assert pairs[sex, region].truth == len(mine)
        assert pairs[sex, region].people == len({row["id"] for row in mine} - {None})
    assert sum(line.truth for line in lines(found, "pairs", "sex").values()) == sum(row["region"] in list("NES") for row in rows)


def test_ranges_add_up_cells_and_bounds_move_values(found: Rehearsal) -> None:
    held = [min(5, max(0, row["nights"])) for row in visits().to_pylist()]
    stays = lines(found, "stays", "nights (ranges)")
    assert len(stays) == 21
    for (words,), line in stays.items():
        first, last = ([*str(words).split(" to "), str(words)])[0], str(words).split(" to ")[-1]
        assert line.truth == sum(int(first) <= value <= int(last) for value in held)


def test_made_up_rows_are_compared_cell_by_cell(found: Rehearsal) -> None:
    rows = visits().to_pylist()
    single = lines(found, "rows", "single columns")
    assert single["region", "N"].truth == sum(row["region"] == "N" for row in rows)
    assert single["region", "missing"].truth == 2
    assert len(lines(found, "rows", "pairs of columns")) == 4 * 3 + 4 * 7 + 3 * 7
    assert all(math.isnan(line.covered) for line in single.values())
    assert all(line.size < 60 for line in single.values())


def test_what_a_cap_cuts_off_is_the_rows_beyond_it(found: Rehearsal) -> None:
    """Person 3 has nine or ten rows that a cap of two leaves out, the row without a person one; nobody else is capped."""
    cut = sum(line.cut for line in lines(found, "stays", "nights (ranges)").values() if " " not in str(line.group[0]))
    mine = sum(row["id"] == 3 for row in visits().to_pylist())
    assert cut == pytest.approx(-(mine - 2) - 1)


def test_intervals_hold_as_often_as_they_say() -> None:
    """Nothing is cut off here: 32 answers in 40 runs, from seeds. Intervals half as wide would hold 67 %, half as wide again 99.7 %."""
    alone = parse("".join(line for line in TEXT.splitlines(keepends=True) if "synthesis" not in line))
    within = visits().slice(0, 2300)
    found = rehearse(alone, {"visits": within}, data="public", runs=40)
    assert len(found.lines) == 32 and all(line.cut == 0 for line in found.lines)
    assert 0.91 < np.mean([line.covered for line in found.lines]) < 0.98


def test_baselines_of_cells(found: Rehearsal) -> None:
    """A sample of two fifths is off by the root of 1.5 times the count; a cell of fewer than 25 people is hidden."""
    pairs = lines(found, "pairs", "sex by region")
    big = [line for line in pairs.values() if line.truth > 300]
    assert np.mean([line.sample / math.sqrt(1.5 * line.truth) for line in big]) == pytest.approx(1, abs=0.5)
    assert all(line.suppressed == (line.people < 25) for line in pairs.values())
    assert any(line.suppressed for line in pairs.values()) and not all(line.suppressed for line in pairs.values())


def test_levels_say_where_they_are_compared() -> None:
    people = "{name: people, columns: [sex], key: id, rows_of: visits}"
    levels = f"levels: [{people}, {{name: visits, columns: [region], of: people, by: id, most: 2}}]"
    changed = parse(TEXT.replace("source: visits, columns: [region, sex, nights]", levels))
    found = rehearse(changed, {"visits": visits()}, data="public", runs=1)
    assert list(found.left_out) == ["rows"] and "evaluate" in found.left_out["rows"]


def test_more_figures_than_can_be_listed_are_not_compared() -> None:
    """All boxes of 10,000 cells are 50 million: they are not even named."""
    alone = "".join(line for line in TEXT.splitlines(keepends=True) if "synthesis" not in line and "marginals" not in line)
    wide = parse(alone.replace("bounds: [0, 5]", "bounds: [0, 9999]"))
    found = rehearse(wide, {"visits": visits().slice(0, 5)}, data="public", runs=1)
    assert not found.lines and found.left_out == {"stays": TOO_MANY}


def test_the_command_tells_them_and_json_has_no_nan(tmp_path: Path) -> None:
    (tmp_path / "visits.yaml").write_text(TEXT)
    pq.write_table(visits(), tmp_path / "visits.parquet")
    arguments = ["rehearse", str(tmp_path / "visits.yaml"), "--runs", "1", "--public", f"visits={tmp_path / 'visits.parquet'}"]
    told = CliRunner().invoke(app, arguments)
    assert told.exit_code == 0 and "rows.pairs of columns" in told.stdout and "nan" not in told.stdout
    record = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout, parse_constant=lambda name: pytest.fail(name))
    assert record["errors"]["rows.single columns"]["coverage"] is None and record["errors"]["pairs.sex"]["coverage"] is not None
