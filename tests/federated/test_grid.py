"""The in-process grid: one file holds what is internal to Flower, and this test says when Flower moves it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import tacit
from tacit.errors import ParameterError
from tacit.federated import InProcessGrid


def echo() -> Any:
    from flwr.app import ConfigRecord, Message, RecordDict
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.train()
    def train(message: Any, context: Any) -> Any:
        message.content["config"]["seen"] = context.node_id  # a copy: the sender's record stays as it is
        context.state["count"] = ConfigRecord({"n": context.state["count"]["n"] + 1 if "count" in context.state else 1})
        return Message(RecordDict({"config": ConfigRecord({"bytes": b"abcdef", "n": context.state["count"]["n"]})}), reply_to=message)

    return app


def asked(grid: InProcessGrid) -> Any:
    from flwr.app import ConfigRecord, Message, RecordDict

    content = RecordDict({"config": ConfigRecord({"x": 1})})
    return content, [Message(content, dst_node_id=node, message_type="train") for node in grid.get_node_ids()]


def test_flower_keeps_its_identity_of_a_process_where_the_grid_sets_it() -> None:
    """Internal to Flower: if this fails after an upgrade, grid.py is the one file to change."""
    from flwr.supercore.task_identity import TaskIdentity

    InProcessGrid(echo(), nodes=1)
    assert (TaskIdentity.run_id, TaskIdentity.node_id) == (1, 0)
    source = Path(tacit.__file__).parent
    users = [path for path in source.rglob("*.py") if re.search(r"flwr\.supercore\.(task_identity|run)", path.read_text(encoding="utf-8"))]
    assert [path.name for path in users] == ["grid.py"]


def test_nodes_have_states_of_their_own_and_messages_are_copied() -> None:
    grid = InProcessGrid(echo(), nodes=3)
    content, messages = asked(grid)
    replies = grid.send_and_receive(messages)
    assert [reply.metadata.src_node_id for reply in replies] == [1, 2, 3] and "seen" not in content["config"]
    assert [reply.content["config"]["n"] for reply in grid.send_and_receive(messages)] == [2, 2, 2]
    assert list(grid.pull_messages(["unknown"])) == []


def test_scripted_faults() -> None:
    expected = {"lost": 0, "silent": 0, "late": 0, "doubled": 2, "cut": 1, "garbled": 1, "error": 1, "extra": 1}
    for fault, number in expected.items():
        grid = InProcessGrid(echo(), nodes=1, faults={("train", 1): fault})  # type: ignore[dict-item]
        assert len(grid.send_and_receive(asked(grid)[1])) == number, fault
    grid = InProcessGrid(echo(), nodes=1, faults={("train", 1): "explode"})  # type: ignore[dict-item]
    with pytest.raises(ParameterError):
        grid.send_and_receive(asked(grid)[1])
