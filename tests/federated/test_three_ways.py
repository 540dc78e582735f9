"""Every question over a grid, on values at hand and from a job: equal figures under equal coins, under both kinds of trust."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as csv
import pytest
import yaml
from tests.federated.apps import policy

from tacit import federated
from tacit.federated import CheckIns, InProcessGrid, client_app
from tacit.noise import test_mode as repeated_draws
from tacit.release import parse, run
from tacit.release import plan as planned
from tacit.release.kinds.clients import EXAMPLE

CLIENTS, WINDOW = 12, "2026-W47"
PLACES = [(0.1, 0.1), (0.9, 0.9)]


def node(i: int) -> dict[str, Any]:
    """What client i holds, for each question: as its app answers, and as the simulator takes it."""
    songs, age, point = ["a", "b"] if i % 3 else ["c"], 10.0 + 5 * i, PLACES[i // 2 % 2]
    cell = {(0.1, 0.1): [0], (0.9, 0.9): [3]}[point]
    return {
        "count": ([0] if i % 2 else [], [0] if i % 2 else []), "sum": (age, age), "mean": (age, age),
        "histogram": ([0, 1] if i % 3 else [2], songs), "top_k": ([0, 1] if i % 3 else [2], songs),
        "quantile": ([min(int(age // 20), 3)], age), "heatmap": (cell, [point]),
        "words": ("ab" if i // 2 % 3 else "b",) * 2, "places": (point, point),
    }  # fmt: skip


KEYS: dict[str, Any] = {"keys": ["a", "b", "c"], "max_contributions": 2}
JOBS: dict[str, dict[str, Any]] = {
    "count": {"question": "count"}, "sum": {"question": "sum", "bounds": [0, 60]}, "mean": {"question": "mean", "bounds": [0, 60]},
    "histogram": {"question": "histogram", **KEYS}, "top_k": {"question": "top_k", "k": 2, **KEYS},
    "quantile": {"question": "quantile", "edges": [0, 20, 40, 60, 80], "share": 0.5},
    "heatmap": {"question": "heatmap", "bounds": [0, 0, 1, 1], "shape": [2, 2], "max_contributions": 1},
    "words": {"question": "heavy_hitters", "alphabet": "ab", "length": 2, "prefixes": 4},
    "places": {"question": "heavy_hitters", "bounds": [0, 0, 1, 1], "length": 2, "prefixes": 4},
}  # fmt: skip
MADE: dict[str, Callable[..., Any]] = {
    "count": federated.count, "sum": lambda **how: federated.sum(0, 60, **how), "mean": lambda **how: federated.mean(0, 60, **how),
    "histogram": lambda **how: federated.histogram(["a", "b", "c"], max_contributions=2, **how),
    "top_k": lambda **how: federated.top_k(["a", "b", "c"], 2, max_contributions=2, **how),
    "quantile": lambda **how: federated.quantile(0.5, [0, 20, 40, 60, 80], **how),
    "heatmap": lambda **how: federated.heatmap((0, 0, 1, 1), (2, 2), max_contributions=1, **how),
    "words": lambda **how: federated.heavy_hitters("ab", 2, prefixes=4, **how),
    "places": lambda **how: federated.heavy_hitters((0, 0, 1, 1), 2, prefixes=4, **how),
}  # fmt: skip


def grid(name: str) -> InProcessGrid:
    allowed = policy(budget="eps=1e9, delta=0.5", clip=100, noise=1e-6)
    own = lambda asked, context: node(context.node_config["partition-id"])[name][0]  # noqa: E731
    return InProcessGrid(client_app(answer=own, policy=allowed, book=None), nodes=CLIENTS)


def asked(question: Any, name: str) -> Any:
    with repeated_draws(5):
        found = question.ask(grid(name), window=WINDOW)
    return found if isinstance(found, dict) else found.values.tolist()


def simulated(question: Any, name: str) -> Any:
    values = [node(i)[name][1] for i in range(CLIENTS)]
    with repeated_draws(5):
        if isinstance(question, federated.WordSearch):
            return question.found(values, window=WINDOW, in_law=False)
        return question.simulate(values, window=WINDOW, in_law=False).values.tolist()


@pytest.fixture(autouse=True)
def slots(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Equal coins for the levels of a search: clients come to them in turn."""

    def drawn() -> Callable[[CheckIns], int]:
        numbers = count()
        return lambda rule: next(numbers) % rule.slots + 1

    monkeypatch.setattr(CheckIns, "slot", drawn())
    monkeypatch.setattr(CheckIns, "slots_of", lambda rule, people: np.array(list(islice(cycle(range(1, rule.slots + 1)), people))))
    yield


@pytest.mark.parametrize("trust", ["central", "distributed"])
@pytest.mark.parametrize("name", MADE)
def test_grid_and_simulator_are_equal_under_equal_coins(name: str, trust: str) -> None:
    how = {"dropouts": 0.3} if trust == "distributed" else {}
    question = MADE[name](clients=CLIENTS, noise_multiplier=0.05, delta=1e-6, trust=trust, **how)
    found = asked(question, name)
    assert found == simulated(question, name)
    if name == "words":
        assert set(found) == {"ab", "b"} and found["ab"] == pytest.approx(8, abs=1)
    if name == "places":
        assert set(found) == {(0, 0), (3, 3)}
    if name == "count":
        assert found[0] == pytest.approx(6, abs=1)


@pytest.mark.parametrize("trust", ["central", "distributed"])
@pytest.mark.parametrize("name", MADE)
def test_a_job_publishes_what_the_simulator_says(name: str, trust: str, tmp_path: Path) -> None:
    tree = yaml.safe_load(EXAMPLE)
    tree["sources"]["phones"]["clients"] |= {"trust": trust, "window": WINDOW, **({"dropouts": 0.3} if trust == "distributed" else {})}
    tree |= {"budget": {"epsilon": 300, "delta": "1e-4"}, "expected": {"people": CLIENTS}}
    tree["outputs"] = [{"name": name, "kind": "clients", "source": "phones", "weight": 1, **JOBS[name]}]
    job = parse(yaml.safe_dump(tree))
    with repeated_draws(5):
        run(job, base=tmp_path, tables={"phones": grid(name)}, report=name in ("words", "places"))
    table = csv.read_csv(tmp_path / "release" / f"{name}.csv").to_pydict()
    question = planned(job)[name].asked
    expected = simulated(question, name)
    figure = {"sum": "sum", "mean": "mean"}.get(name, "clients")
    if isinstance(expected, dict):
        labels = [word if isinstance(word, str) else f"row {word[0]}, column {word[1]}" for word in expected]
        assert table["label"] == labels and len(labels) == 2
        expected = list(expected.values())
    assert table[figure][: len(expected)] == expected
    assert len(table[figure]) == len(expected) + (name == "quantile")
