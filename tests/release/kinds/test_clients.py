"""Questions to clients from a job: planned without a client, paid once, asked through a grid, published like any release."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as csv
import pytest
import yaml

from tacit.federated import InProcessGrid, Policy, client_app
from tacit.ledger import Ledger
from tacit.mechanisms import half_width
from tacit.release import JobError, parse, plan, run
from tacit.release.kinds.clients import EXAMPLE

QUESTIONS: dict[str, dict[str, Any]] = {
    "emoji": {"question": "histogram", "keys": ["smile", "wink", "cry"], "max_contributions": 1},
    "users": {"question": "count"},
    "minutes": {"question": "mean", "bounds": [0, 60]},
    "total": {"question": "sum", "bounds": [0, 60]},
    "middle": {"question": "quantile", "edges": [0, 20, 40, 60], "share": 0.5},
    "top": {"question": "top_k", "keys": [1, 2, 3], "k": 1, "max_contributions": 2},
    "places": {"question": "heatmap", "bounds": [0, 0, 2, 2], "shape": [2, 2], "max_contributions": 1},
}
#: What every client answers to each question.
VALUES: dict[str, Any] = {"emoji": [1], "users": [0], "minutes": 30.0, "total": 30.0, "middle": [1], "top": [0, 2], "places": [3]}


def job(names: list[str] | None = None, *, epsilon: float = 50, people: int = 8, **clients: Any) -> Any:
    tree = yaml.safe_load(EXAMPLE)
    tree["sources"]["phones"]["clients"] |= clients
    tree["budget"] = {"epsilon": epsilon, "delta": "1e-4"}
    tree["expected"] = {"people": people}
    tree["outputs"] = [{"name": name, "kind": "clients", "source": "phones", "weight": 1, **QUESTIONS[name]} for name in names or ["emoji"]]
    return parse(yaml.safe_dump(tree))


def grid(nodes: int = 8, **more: Any) -> Any:
    allowed = Policy("phones", budget="eps=1e9, delta=0.5", expires="2099-01-01", clip=100, noise=1e-6, trust=("central", "distributed"),
                     workloads=("any",), code=("any",))  # fmt: skip
    return InProcessGrid(client_app(policy=allowed, book=None, answer=lambda asked, context: VALUES[asked["name"]]), nodes=nodes, **more)


@pytest.fixture
def book(tmp_path: Path) -> Any:
    with Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}") as ledger:
        yield ledger


def test_every_question_is_planned_paid_asked_and_published(tmp_path: Path, book: Any) -> None:
    names = list(QUESTIONS)
    found = run(job(names, epsilon=400), base=tmp_path, ledger=book, tables={"phones": grid()})
    release = json.loads((tmp_path / "release" / "release.json").read_text())
    told = {name: csv.read_csv(tmp_path / "release" / f"{name}.csv").to_pydict() for name in names}
    for name, figure, expected in [("emoji", "clients", [0, 8, 0]), ("users", "clients", [8]), ("minutes", "mean", [30.0]),
                                   ("total", "sum", [240.0]), ("top", "clients", [8, 0, 8]),
                                   ("places", "clients", [0, 0, 0, 8])]:  # fmt: skip
        apart = np.abs(np.array(told[name][figure]) - expected)
        width = np.array(told[name]["high"]) - told[name][figure]
        assert (apart < 4 * width + 1e-9).all(), name  # eight deviations: never by chance
    assert told["middle"]["label"][-1] == "quantile 0.5" and 10 < told["middle"]["clients"][-1] < 50
    assert float(found.plan.cost.upper) <= 400
    assert release["deployment"]["model"] == "Federated" and "Against server" in (tmp_path / "release" / "report.html").read_text()
    with pytest.raises(JobError):
        run(job(names, epsilon=400), base=tmp_path, ledger=book, tables={"phones": grid()})  # published already


def test_the_price_and_the_error_are_those_of_the_question(tmp_path: Path) -> None:
    """Against the closed form: a count's half width is that of a normal of deviation z."""
    found = plan(job(["users"], epsilon=1))
    z = found["users"].asked.plan.noise_multiplier
    assert found["users"].errors["clients"] == pytest.approx(float(half_width([1.0], "gaussian", 0.95)[0]) * z, rel=1e-6)
    assert found.cost.upper <= 1


def test_distributed_trust_from_a_job_and_a_void_round_stays_spent(tmp_path: Path, book: Any) -> None:
    asked = job(["users"], epsilon=30, trust="distributed", dropouts=0.25)
    with pytest.raises(Exception, match="stays paid"):
        run(asked, base=tmp_path, ledger=book, tables={"phones": grid(faults={("train.tacit_masked", n): "lost" for n in (1, 2, 3)})})
    (tmp_path / "second").mkdir()
    done = run(asked, base=tmp_path / "second", tables={"phones": grid(faults={("train.tacit_masked", 1): "lost"})})
    assert done.plan["users"].noise == "skellam shares"
    value = csv.read_csv(tmp_path / "second" / "release" / "users.csv").to_pydict()
    assert abs(value["clients"][0] - 7) < 4 * (value["high"][0] - value["clients"][0])


def test_without_a_grid_the_error_says_where_to_run(tmp_path: Path, book: Any) -> None:
    for tables in (None, {}, {"phones": "a table"}):
        with pytest.raises(JobError, match="ServerApp"):
            run(job(), base=tmp_path, ledger=book, tables=tables)


@pytest.mark.parametrize(
    "change",
    [
        {"outputs": [{"name": "a", "kind": "clients", "source": "phones", "question": "histogram", "keys": ["x"], "weight": 1}]},
        {"outputs": [{"name": "a", "kind": "clients", "source": "other", "question": "count", "weight": 1}]},
        {"outputs": [{"name": "a", "kind": "clients", "source": "phones", "question": "mean", "weight": 1}]},
        {"outputs": [{"name": "a", "kind": "clients", "source": "phones", "question": "median", "weight": 1}]},
        {"outputs": [{"name": "a", "sql": "SELECT COUNT(*) FROM phones", "weight": 1}]},
        {"unit": {"person": "id", "max_rows": 1, "adjacency": "add-remove"}}, {"unit": {"clients": 1, "adjacency": "replace-one"}},
        {"budget": {"epsilon": 1, "delta": 0}}, {"expected": {}}, {"sources": {"phones": {"clients": {"trust": "nobody", "window": "w"}}}},
        {"sources": {"phones": {"clients": {"trust": "central", "window": "w"}, "path": "a.csv"}}},
        {"sources": {"phones": {"clients": {"trust": "distributed", "window": "w", "dropouts": 0.9}}}, "expected": {"people": 4}},
    ],
    ids=lambda change: json.dumps(change)[:60],
)  # fmt: skip
def test_jobs_that_cannot_be_asked_are_refused_before_anything_is_paid(change: dict[str, Any]) -> None:
    tree = yaml.safe_load(EXAMPLE) | change
    with pytest.raises(JobError):
        plan(parse(yaml.safe_dump(tree)))
