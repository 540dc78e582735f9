"""Secure sums that wait on the disk between two processes: the same sums, one answer each, nothing left behind."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.federated.apps import plan, policy, pushing, run

from tacit.federated import InProcessGrid, Private, client_app, on_weights
from tacit.federated.kept import KeptSums
from tacit.federated.messages import ANSWER, RECORD, REFUSED


def fresh_process(tmp_path: Path) -> Any:
    """An app that forgets everything in memory before each message, as a node does that starts a process for each."""
    from flwr.clientapp import ClientApp

    class Forgetful(ClientApp):
        def __call__(self, message: Any, context: Any) -> Any:
            inner = client_app(
                on_weights(lambda arrays, context: {"w": arrays["w"] + pushing(context)}),
                policy=policy(budget="eps=1e9, delta=1e-5", noise=0.001), book=str(tmp_path / f"{context.node_id}.db"),
            )  # fmt: skip
            return inner(message, context)

    return Forgetful()


def test_rounds_over_processes_that_forget(tmp_path: Path) -> None:
    made = plan(trust="distributed", clients=5, dropouts=0.2, noise_multiplier=0.05, rounds=2)
    strategy, result = run(made, fresh_process(tmp_path), faults={("train.tacit_masked", 2): "lost"})
    assert strategy.rounds_void == 0 and strategy.rounds.survivors == (1, 3, 4, 5)
    assert np.isfinite(result.arrays["w"].numpy()).all()
    left = [path for path in tmp_path.rglob("*.sums/*") if path.is_file()]
    assert len(left) <= 1  # the client whose request was lost still waits; the others have forgotten


def test_two_survivor_lists_at_once_get_one_answer(tmp_path: Path) -> None:
    """A server that asks again, with another list or the same: the sum was taken away with the first answer."""
    from flwr.app import ConfigRecord, Message, RecordDict
    from flwr.serverapp.strategy import FedAvg
    from tests.federated.apps import start

    made = plan(trust="distributed", clients=4, dropouts=0.25, noise_multiplier=0.05, rounds=1)
    asked: list[dict[str, Any]] = []

    class Curious(InProcessGrid):
        def send_and_receive(self, messages: Any, *, timeout: Any = None) -> Any:
            listed = list(messages)
            asked.extend(dict(m.content[RECORD]) for m in listed if m.metadata.message_type.endswith("unmask"))
            return super().send_and_receive(listed, timeout=timeout)

    app = fresh_process(tmp_path)
    grid = Curious(app, nodes=4)
    Private(FedAvg(), made, None, run="curious").start(grid, start())
    again = Message(RecordDict({RECORD: ConfigRecord(asked[0])}), dst_node_id=1, message_type="train.tacit_unmask")
    (reply,) = grid.pull_messages(grid.push_messages([again]))
    assert reply.content[RECORD][ANSWER] == REFUSED


def test_files_are_for_their_owner_and_taken_once(tmp_path: Path) -> None:
    from tacit.federated.secure_sum.client import SumClient
    from tacit.federated.secure_sum.wire import SumRound

    about = SumRound(1, bytes(32), clients=3, fewest=2, degree=2, threshold=2, length=2, bits=16)
    store = KeptSums(tmp_path / "me.db")
    client = SumClient(7, about)
    client.keys()
    store.keep("../../run", client)
    (path,) = (tmp_path / "me.db.sums").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = KeptSums(tmp_path / "me.db").take("../../run")
    assert found is not None and found._mask_secret == client._mask_secret and found._public() == client._public()
    assert store.take("../../run") is None and list((tmp_path / "me.db.sums").iterdir()) == []
    with pytest.raises(Exception, match="keys"):
        found.keys()  # the step was taken before it was kept
