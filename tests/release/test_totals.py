"""Tables that add up to one total: exactly, with honest intervals, never where they count different rows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.release.jobs import TEXT, book, visits

from tacit.release.errors import JobError
from tacit.release.job import Job, parse
from tacit.release.planning import plan
from tacit.release.running import run
from tacit.release.totals import _moved, _variances, agreeing
from tacit.tables import Figures

WARDS = (
    '  - {name: by_ward, sql: "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", weight: 1, '
    "postprocess: {nonnegative: [n], whole: [n]}}"
)
TOTALS = "totals: [{figure: n, outputs: [by_region, by_ward, overall]}]\n"


def job(totals: str = TOTALS, *pairs: tuple[str, str]) -> Job:
    text = TEXT.replace("  ward: {type: text}", "  ward: {type: text, categories: [A, B]}")
    text = text.replace("publication:", f"{WARDS}\n{totals}publication:")
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return parse(text)


def whole(rows: int = 240) -> pa.Table:
    """Visits of declared regions and wards alone."""
    return visits(rows // 2).slice(0, rows)


def test_published_tables_add_up(tmp_path: Path) -> None:
    done = run(job(), base=tmp_path, ledger=book(tmp_path), tables={"visits": whole()}, report=False)
    totals = {name: float(answer["n"].sum()) for name, answer in done.answers.items()}
    assert len(set(totals.values())) == 1 and totals["overall"] == round(totals["overall"])
    assert all((answer["n"] >= 0).all() for answer in done.answers.values())
    raw = {name: float(answer.raw_figures["n"].value.sum()) for name, answer in done.answers.items()}
    assert len(set(raw.values())) > 1  # they did not before
    assert any("same total" in note for note in done.answers["by_ward"].notes)
    assert "same total" in json.dumps(json.loads((done.folder / "release.json").read_text()))


def test_a_job_without_totals_keeps_its_fingerprint() -> None:
    assert job("").digest() == job("totals: []\n").digest() != job().digest()


@pytest.mark.parametrize(
    ("pair", "why"),
    [
        (("COUNT(*) AS n FROM visits GROUP BY ward", "COUNT(*) AS n FROM visits WHERE age > 5 GROUP BY ward"), "part of the rows"),
        (("COUNT(*) AS n FROM visits GROUP BY ward", "AVG(age) AS n FROM visits GROUP BY ward"), "no count or sum"),
        (("COUNT(*) AS n FROM visits GROUP BY ward", "SUM(age) AS n FROM visits GROUP BY ward"), "not the same figure"),
        (("max_rows: 3", "max_groups: 1, rows_per_group: 3"), "capped by groups"),
        (("outputs: [by_region,", "outputs: [by_sea,"), "no output"),
        (("figure: n", "figure: m"), "no count or sum"),
    ],
)  # fmt: skip
def test_totals_of_different_rows_are_refused(pair: tuple[str, str], why: str) -> None:
    with pytest.raises(JobError, match=why):
        plan(job(TOTALS, pair))


def test_tables_that_contradict_each_other_are_left_as_they_are(tmp_path: Path) -> None:
    """Half of the wards are not declared: the totals differ by more than noise, the release is held back, and nothing is forced."""
    rows = whole(4000)
    wards = ["A", "X"] * 2000
    changed_rows = rows.set_column(rows.schema.get_field_index("ward"), "ward", pa.array(wards))
    done = run(job(), base=tmp_path, ledger=book(tmp_path), tables={"visits": changed_rows}, report=False, accept=True)
    assert done.accepted and done.answers["by_ward"]["n"].sum() < 0.7 * done.answers["overall"]["n"].sum()


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("rounded", [False, True])
def test_values_add_up(nonnegative: bool, rounded: bool) -> None:
    draws = np.random.default_rng(3)
    for total in (0.0, 1.0, 17.0, 400.0):
        for size in (1, 2, 7, 40):
            values = draws.normal(total / size, 10, size)
            found = agreeing(values, total, nonnegative=nonnegative, whole=rounded)
            assert found.sum() == pytest.approx(total, abs=1e-9) and (not nonnegative or (found >= 0).all())
            assert not rounded or (found == np.rint(found)).all()
            if nonnegative and not rounded:  # the nearest one: no exchange between two groups comes nearer
                for i in range(size):
                    for j in set(range(size)) - {i}:
                        step = min(1e-4, found[i])
                        other = found.copy()
                        other[i], other[j] = other[i] - step, other[j] + step
                        assert ((other - values) ** 2).sum() >= ((found - values) ** 2).sum() - 1e-9


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_intervals_stay_honest(law: str) -> None:
    """Coverage over 4,000 pairs of tables, within four deviations of a binomial; the mutant keeps the width of a known total."""
    draws, confidence = np.random.default_rng(5), 0.95
    first, second = 5, 3
    half = {"gaussian": 1.959964, "laplace": -np.log(1 - confidence)}[law]
    noise = (lambda size: draws.normal(size=size)) if law == "gaussian" else (lambda size: draws.laplace(size=size))
    runs, inside, narrow = 4000, 0, 0
    for _ in range(runs):
        tables = [np.full(n, 100.0 / n) + noise(n) for n in (first, second)]
        figures = [Figures(v, v - half, v + half) for v in tables]
        variances = [_variances(f) for f in figures]
        weights = [1 / v.sum() for v in variances]
        common = sum(w * f.value.sum() for w, f in zip(weights, figures, strict=True)) / sum(weights)
        moved = _moved(figures[0], variances[0], common, 1 / sum(weights), gaussian=law == "gaussian")
        inside += bool(moved.low[0] <= 20 <= moved.high[0])
        wrong = _moved(figures[0], variances[0], common, 0.0, gaussian=True)
        narrow += bool(wrong.low[0] <= 20 <= wrong.high[0])
    error = 4 * np.sqrt(0.05 * 0.95 / runs)
    assert inside / runs > 0.95 - error and (law == "laplace" or inside / runs < 0.95 + error)
    assert law == "laplace" or narrow < inside
