"""`kind: network`: a job that publishes a case whose loads are protected, under a unit of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.applications.energy.cases import PANDAPOWER

from tacit.applications.energy import Network, dispatch
from tacit.ledger import Ledger
from tacit.release import JobError, plan, run
from tacit.release.job import parse
from tacit.release.kinds.network import EXAMPLE
from tacit.release.tuner import suggestions

PAID = EXAMPLE.replace("{public: 5216.03}", "{price: 40, share: 0.25}")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    Network.nine_buses().to_matpower(tmp_path / "case9.m")
    return tmp_path


@pytest.mark.filterwarnings("ignore")
def test_a_job_publishes_a_case_that_solves(base: Path) -> None:
    ledger = Ledger.open(f"sqlite:///{base / 'tacit.db'}")
    done = run(parse(EXAMPLE), base=base, ledger=ledger)
    files = {file.name for file in done.folder.iterdir()} - ({"loads.json"} if PANDAPOWER else set())
    assert files == {"loads.m", "loads_loads.csv", "release.json", "registry.yaml", "report.html", "datapackage.json"}
    again = Network.read(done.folder / "loads.m")
    assert abs(dispatch(again).cost / 5216.03 - 1) <= 0.01
    (account,) = ledger.accounts()
    assert account.spec.unit == "one load by at most 5 MW" and account.left()["pure"] == 0
    record = json.loads((done.folder / "release.json").read_text(encoding="utf-8"))
    assert record["unit"]["text"].startswith("one load by at most 5 MW")
    assert record["deployment"]["protects"] == "one load by at most 5 MW"
    text = (done.folder / "report.html").read_text(encoding="utf-8")
    assert "One load by at most 5 MW" in text or "one load by at most 5 MW" in text
    assert "never added to the epsilon of people" in text and "learns almost the same about one person" not in text
    assert done.unit_text.startswith("One load by at most 5 MW is protected")


def test_the_same_case_under_another_name_has_no_second_budget(base: Path) -> None:
    ledger = Ledger.open(f"sqlite:///{base / 'tacit.db'}")
    run(parse(EXAMPLE), base=base, ledger=ledger, report=False)
    text = (base / "case9.m").read_text(encoding="utf-8")
    (base / "copy.m").write_text("% a copy\n" + text.replace("nine_buses", "other"), encoding="utf-8")
    second = EXAMPLE.replace("case9.m", "copy.m").replace("Winter peak", "Other").replace("folder: release", "folder: second")
    with pytest.raises(Exception, match=r"epsilon|left|budget"):
        run(parse(second), base=base, ledger=ledger, report=False)
    assert len(ledger.accounts()) == 1 and not (base / "second").exists()


def test_which_buses_have_a_load_is_declared(base: Path) -> None:
    """A file whose load of 5 MW is set to 0 is its neighbour; which of the two it is must not be taken from it unasked."""
    with pytest.raises(JobError, match="buses"):
        parse(EXAMPLE.replace("buses: file, ", ""))
    job = parse(EXAMPLE.replace("buses: file", "buses: all"))
    text = (base / "case9.m").read_text(encoding="utf-8")
    first = plan(job, base=base)
    (base / "case9.m").write_text(text.replace("\t90\t30\t", "\t0\t0\t"), encoding="utf-8")
    assert plan(job, base=base)["loads"].size == first["loads"].size == 9


def test_plans_do_not_depend_on_loads(base: Path) -> None:
    first = plan(parse(EXAMPLE), base=base)
    text = (base / "case9.m").read_text(encoding="utf-8")
    (base / "case9.m").write_text(text.replace("\t90\t30\t", "\tNaN\t1e308\t"), encoding="utf-8")
    second = plan(parse(EXAMPLE), base=base)
    assert first["loads"].event == second["loads"].event and first["loads"].errors == second["loads"].errors
    done = run(parse(EXAMPLE), base=base, report=False)
    assert all(finding.passed for finding in done.findings)


def test_a_paid_cost_has_its_share(base: Path) -> None:
    found = plan(parse(PAID), base=base)
    assert found.cost.upper == pytest.approx(1) and len(found["loads"].event.events) == 2  # type: ignore[attr-defined]
    done = run(parse(PAID), base=base, report=False)
    assert done.record["outputs"][0]["cost"] == "paid for"


def test_all_buses_can_have_loads(base: Path) -> None:
    found = plan(parse(EXAMPLE.replace("buses: file", "buses: all")), base=base)
    assert found["loads"].size == 9


def test_there_is_nothing_to_tune_or_to_rehearse(base: Path) -> None:
    assert suggestions(parse(EXAMPLE), base=base) == []
    from tacit.release.dummy import tables_for

    with pytest.raises(JobError, match="no rows to make up"):
        tables_for(parse(EXAMPLE), 100)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("unit: {load: 5, adjacency: replace-one}", "unit: {row: true, adjacency: add-remove}", "unit: {load"),
        ("load: 5,", "load: 0,", "a unit of networks"),
        ("adjacency: replace-one}", "adjacency: add-remove}", "a unit of networks"),
        ("kind: network", "kind: workload", "kind: network|no such field|source"),
        ("{public: 5216.03}", "{public: 5216.03, price: 4}", "cost is"),
        ("{public: 5216.03}", "{price: 4, share: 2}", "share must lie"),
        ("cost: {public: 5216.03}, ", "", "cost: is missing"),
        ("band: 0.01, ", "", "band: is missing"),
        ("{network: case9.m}", "{network: case9.m, public: true}", "nothing else"),
        ("budget:", "columns: {a: {type: integer}}\nbudget:", "not both"),
    ],
)
def test_jobs_that_mix_units_or_leave_decisions_out_are_refused(old: str, new: str, words: str) -> None:
    assert old in EXAMPLE
    with pytest.raises(JobError, match=words):
        parse(EXAMPLE.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("public: 5216.03", "public: 1e9", "correct the public cost"),
        ("band: 0.01", "band: 2.0", "band"),
        ("source: grid", "source: other", "names no network"),
        ("case9.m", "none.m", "no such file"),
        ("case9.m", "bad.m", "bad.m, line 2"),
    ],
)
def test_faults_are_found_before_anything_is_paid(base: Path, old: str, new: str, words: str) -> None:
    (base / "bad.m").write_text("function mpc = bad\nmpc.bus = [1 2 3.75];\n", encoding="utf-8")
    ledger = Ledger.open(f"sqlite:///{base / 'tacit.db'}")
    with pytest.raises(JobError, match=words) as caught:
        run(parse(EXAMPLE.replace(old, new)), base=base, ledger=ledger)
    assert "3.75" not in str(caught.value) and ledger.accounts() == []


def test_table_jobs_have_no_loads() -> None:
    from tacit.release.job import EXAMPLE as TABLES

    with pytest.raises(JobError, match="kind: network"):
        parse(TABLES.replace("unit: {person: patient_id, max_rows: 4, adjacency: add-remove}", "unit: {load: 5, adjacency: replace-one}"))
