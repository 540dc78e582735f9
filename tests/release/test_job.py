"""Job files: every fault is a `JobError` that says where; nothing that decides privacy has a default."""

from __future__ import annotations

import contextlib
import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.release.jobs import TEXT, changed

from tacit.accounting import AccountingError
from tacit.ledger import Budget
from tacit.release import job_parts, plan
from tacit.release.errors import JobError
from tacit.release.job import EXAMPLE, LARGEST, Job, load, parse
from tacit.release.kinds import table

ROOT = Path(__file__).parents[2]
TREE: dict[str, Any] = yaml.safe_load(TEXT)


def test_a_job_is_read() -> None:
    job = parse(EXAMPLE)
    assert job.budget.typed() == Budget(epsilon=1, delta="1e-6")
    assert job.unit.typed().max_rows == 4
    assert job.outputs[0].name == "by_region"


def test_old_jobs_with_underscores_are_read_and_keep_their_fingerprint() -> None:
    for new, old in (("add-remove", "add_remove"), ("replace-one", "replace_one")):
        job = parse(EXAMPLE.replace("add-remove", new))
        before = parse(EXAMPLE.replace("add-remove", old))
        assert before == job and before.unit.typed() == job.unit.typed() and before.unit.adjacency == new
        assert before.digest() == job.digest()


def test_a_budget_may_be_the_text_of_a_guarantee() -> None:
    assert parse(EXAMPLE.replace("{epsilon: 1, delta: 1e-6}", "eps=1, delta=1e-6")).budget.typed() == Budget(epsilon=1, delta="1e-6")
    assert parse(EXAMPLE.replace("{epsilon: 1, delta: 1e-6}", "rho=0.5")).budget.typed() == Budget(rho=0.5)
    assert parse(EXAMPLE.replace("{epsilon: 1, delta: 1e-6}", "eps=1")).budget.typed() == Budget(epsilon=1)
    for wrong in ("mu=1", "eps=one", "eps=0", "eps=1, delta=2", "renyi:2=1"):
        with pytest.raises(JobError, match="budget"):
            parse(EXAMPLE.replace("{epsilon: 1, delta: 1e-6}", wrong))


def test_the_example_file_is_read() -> None:
    job = load(ROOT / "examples" / "hospital.yaml")
    assert [output.name for output in job.outputs] == ["by_region", "by_diagnosis", "region_and_sex", "overall"]


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("max_rows: 3", "max_row: 3", "unit.max_row"),
        ("title: Visits", "titel: Visits", "titel"),
        ("{rho: 0.5}", "{rho: 0.5, epsilonn: 1}", "budget.epsilonn"),
        ("bounds: [0, 110]", "bound: [0, 110]", "columns.age.bound"),
        ("sql: SELECT COUNT", "sequel: SELECT COUNT", "outputs[1]"),
        ("confidence: 0.95", "confidence: 0.95, formatz: 1", "publication.formatz"),
        ("path: visits.parquet", "path: visits.parquet, pubic: true", "sources.visits.pubic"),
    ],
)
def test_an_unknown_field_is_named_with_its_place(old: str, new: str, place: str) -> None:
    with pytest.raises(JobError) as caught:
        changed((old, new))
    assert caught.value.place.startswith(place)


@pytest.mark.parametrize(
    ("old", "new", "place", "said"),
    [
        ("{rho: 0.5}", "{}", "budget", "no default"),
        ("{rho: 0.5}", "{epsilon: 1}", "budget", "delta is missing"),
        ("{rho: 0.5}", "{epsilon: 1, rho: 1, delta: 0}", "budget", "epsilon with delta, or rho"),
        ("{rho: 0.5}", "{rho: 0}", "budget", "greater than 0"),
        ("{rho: 0.5}", "{rho: -1}", "budget", "greater than 0"),
        ("{rho: 0.5}", "{rho: .nan}", "budget.rho", "finite"),
        ("{rho: 0.5}", "{rho: .inf}", "budget.rho", "finite"),
        ("{rho: 0.5}", "{rho: lots}", "budget.rho", "finite"),
        ("{rho: 0.5}", "{rho: true}", "budget.rho", "number"),
        ("{rho: 0.5}", "{epsilon: 1, delta: 1}", "budget", "below 1"),
        ("{rho: 0.5}", "{rho: 1, reserve: 1}", "budget", "reserve"),
        (", max_rows: 3", "", "unit", "cap"),
        ("max_rows: 3", "max_rows: 0", "unit", "max_rows"),
        (", adjacency: add-remove", "", "unit.adjacency", "missing"),
        ("person: patient_id, ", "", "unit", "one of person"),
        ("person: patient_id", "person: somebody", "", "not in columns"),
        ("bounds: [0, 110]", "bounds: [110, 0]", "columns.age", "swap"),
        ("bounds: [0, 110]", "bounds: [0]", "columns.age.bounds", ""),
        ("type: text, categories: [north, south]", "type: text, categories: []", "columns.region", "empty"),
        ("[north, south]", "[north, north]", "columns.region", "twice"),
        ("ward: {type: text}", "ward: {type: text, bounds: [0, 1]}", "columns.ward", "for numbers"),
        ("name: overall", "name: by_region", "", "two outputs"),
        ("name: overall", "name: ../overall", "outputs[1]", "file name"),
        ("FROM visits, weight: 1", "FROM visits", "outputs[1]", "weight"),
        ("FROM visits, weight: 1", "FROM visits, weight: 0", "outputs[1]", "greater than 0"),
        ("{path: visits.parquet}", "{url: 'postgresql://ann:hunter2@db/x'}", "sources.visits", "table"),
        ("{path: visits.parquet}", "{path: visits.parquet, public: true}", "", "no people to protect"),
        ("[csv, parquet]", "[]", "publication", "formats"),
        ("[csv, parquet]", "[excel]", "publication.formats", ""),
        ("confidence: 0.95", "confidence: 1.0", "publication.confidence", ""),
        ("version: 1", "version: 2", "version", ""),
        ("weight: 1, postprocess", "weight: 1, checks: {n: {least: .nan}}, postprocess", "outputs[1].checks.n.least", "finite"),
        ("purpose: Plan beds.", "period: 2026-03\npurpose: Plan beds.", "", "window"),
    ],
)
def test_a_fault_says_where_and_what(old: str, new: str, place: str, said: str) -> None:
    with pytest.raises(JobError) as caught:
        changed((old, new))
    assert caught.value.place.startswith(place)
    assert said in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("field", ["version", "title", "purpose", "sources", "unit", "budget", "columns", "outputs", "publication"])
def test_what_is_missing_is_named(field: str) -> None:
    tree = {name: value for name, value in TREE.items() if name != field}
    with pytest.raises(JobError, match=field):
        parse(yaml.safe_dump(tree))


def test_no_field_that_decides_privacy_has_a_default() -> None:
    required = {name for name, info in Job.model_fields.items() if info.is_required()}
    assert {"unit", "budget", "columns", "outputs", "sources", "publication"} <= required
    for part in ("unit", "budget"):
        with pytest.raises(JobError):
            parse(yaml.safe_dump({**TREE, part: {}}))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "7",
        "a: [",
        "\t",
        "a: &x [1]\nb: *x",
        "{a: 1, a: 2}",
        "!!python/object/apply:os.system [ls]",
        "1: 2",
        "a: 2026-13-45",
        "? [x]\n: 1",
        "\x00",
    ],
    ids=["empty", "list", "number", "open", "tab", "alias", "twice", "object", "key", "date", "complex key", "control"],
)
def test_what_is_no_job_is_refused_in_words(text: str) -> None:
    with pytest.raises(JobError):
        parse(text)


def test_nesting_and_size_are_bounded() -> None:
    with pytest.raises(JobError):
        parse("a: " + "[" * 5000)
    with pytest.raises(JobError, match="more than"):
        parse(" " * (LARGEST + 1))


def test_files_that_cannot_be_read_are_job_errors(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="cannot be read"):
        load(tmp_path / "absent.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"title: \xff\xfe")
    with pytest.raises(JobError, match="UTF-8"):
        load(tmp_path / "latin.yaml")
    (tmp_path / "wrong.yaml").write_text(TEXT.replace("weight: 1,", "weight: x,", 1), encoding="utf-8")
    with pytest.raises(JobError) as caught:
        load(tmp_path / "wrong.yaml")
    assert "wrong.yaml: outputs[1].weight" in str(caught.value)


@given(st.text(max_size=200))
def test_random_text_is_a_job_error(text: str) -> None:
    with pytest.raises(JobError):
        parse(text)


@given(st.integers(0, len(TEXT)), st.integers(0, 30))
def test_a_cut_file_is_read_or_refused_in_words(start: int, length: int) -> None:
    with contextlib.suppress(JobError):
        assert isinstance(parse(TEXT[:start] + TEXT[start + length :]), Job)


_ATOMS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.dates(), st.binary(max_size=3))
_TREES = st.recursive(
    _ATOMS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=5
)


def _paths(tree: Any, before: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else []
    return [path for key, value in items for path in ((*before, key), *_paths(value, (*before, key)))]


@settings(max_examples=120)
@given(st.sampled_from(_paths(TREE)), _TREES)
def test_any_value_anywhere_is_read_or_refused_in_words(path: tuple[Any, ...], value: Any) -> None:
    tree = copy.deepcopy(TREE)
    place = tree
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with contextlib.suppress(JobError):
        assert isinstance(parse(yaml.safe_dump(tree, allow_unicode=True)), Job)


def test_the_hash_is_of_the_content() -> None:
    turned = {name: TREE[name] for name in reversed(TREE)}
    assert parse(yaml.safe_dump(turned)).digest() == parse(TEXT).digest() == parse("# a comment\n" + TEXT).digest()
    assert changed(("rho: 0.5", "rho: 0.6")).digest() != parse(TEXT).digest()
    assert parse(EXAMPLE).digest() == "58a02f3df4d25604054389e1b31f89cb6d866bc2dd0d9aff44586ba26d3ad61f"


@pytest.mark.parametrize(
    ("kind", "period", "said"),
    [
        ("date", "2026-3", "'2026-01'"),
        ("date", "'2026'", "'2026-01'"),
        ("text", "2026-03", "must be date or timestamp"),
        ("date", "2026-03", ""),
    ],
)
def test_a_window_needs_a_date_and_a_period_of_its_own(kind: str, period: str, said: str) -> None:
    """A text cast to a date would be missing in every row, and nobody would notice."""
    pairs = (
        ("max_rows: 3, adjacency", "max_rows: 3, window: month, when: day, adjacency"),
        ("columns:", f"period: {period}\ncolumns:\n  day: {{type: {kind}}}"),
    )
    if not said:
        assert changed(*pairs).period == period
        return
    with pytest.raises(JobError) as caught:
        changed(*pairs)
    assert said in str(caught.value)


def test_every_field_is_in_the_guide() -> None:
    """docs/jobs.md has every field of every block, and names none that there is not."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "jobs.md").read_text(encoding="utf-8")
    blocks = [*vars(job_parts).values(), *vars(table).values()]
    parts = [Job, *(part for part in blocks if isinstance(part, type) and issubclass(part, job_parts.JobPart))]
    fields = {name for part in parts for name in part.model_fields}
    missing = {name for name in fields if not re.search(rf"\b{name}\b", page)}
    assert not missing
    listed = page[page.index("| block | fields |") : page.index("Put a text that contains a comma")]
    assert {word for word in re.findall(r"`([a-z_]+)`", listed)} <= fields | {"table"}


_HUGE = (str(10**400), f"-{10**400}", "1" + "0" * 5000, "'1e300'", f"0x{'f' * 400}", "'1e-300'", f"'1/{'9' * 900}'", "1e200")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("rho: 0.5", "rho: {}"), ("max_rows: 3", "max_rows: {}"), ("[0, 110]", "[0, {}]"), ("weight: 1}", "weight: {}}}"),
        ("[north, south]", "[{}, south]"), ("confidence: 0.95", "confidence: {}"), ("version: 1", "version: {}"),
        ("budget: {rho: 0.5}", "budget: {{epsilon: {}, delta: 1e-6}}"), ("budget: {rho: 0.5}", "budget: {{epsilon: 1, delta: {}}}"),
        ("budget: {rho: 0.5}", "budget: {{rho: 0.5}}\nexpected: {{rows: {0}, people: {0}}}"),
        ("AS n FROM visits,", "AS n FROM visits WHERE age > {},"),
    ],
)
def test_absurd_numbers_are_refused_by_the_job(old: str, new: str) -> None:
    """Each is refused as an error of the job, or planned; none ends in an error of arithmetic."""
    coded = 0
    for number in _HUGE:
        try:
            plan(parse(TEXT.replace(old, new.format(number), 1)))
        except (JobError, AccountingError) as error:
            assert len(str(error)) < 1000
            coded += getattr(error, "code", "") == "number-out-of-range"
    assert coded >= 2 or old.startswith(("AS n", "version", "conf", "[0", "[north"))
    with pytest.raises(JobError) as caught:
        parse(TEXT.replace("max_rows: 3", f"max_rows: {10**400}"))
    assert caught.value.code == "number-out-of-range" and caught.value.place == "unit.max_rows"
