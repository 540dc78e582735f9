"""A client fails closed: one vector or one constant word leaves it, whatever training does and servers ask."""

from __future__ import annotations

import json
import logging
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.federated.apps import app, plan, policy, run

from tacit.federated import FederatedPlan, InProcessGrid, central, client_app, on_weights
from tacit.federated.messages import ANSWER, RECORD, REFUSED, Ask, Layout

LAYOUT = Layout.of({"w": np.zeros(4)})


def ask(made: FederatedPlan, **changes: Any) -> Ask:
    base = Ask(phase="vector", plan=made.text, run="r", turn=1, threshold=made.clip, layout=LAYOUT.text,
               model=LAYOUT.packed({"w": np.zeros(4)}))  # fmt: skip
    return replace(base, **changes)


def sent(client: Any, values: dict[str, Any], *, kind: str = "train.tacit_vector", grid: Any = None) -> Any:
    """The reply of one node to a record."""
    from flwr.app import ConfigRecord, Message, RecordDict

    grid = grid or InProcessGrid(client, nodes=1)
    message = Message(RecordDict({RECORD: ConfigRecord(values)}), dst_node_id=1, message_type=kind)
    (reply,) = grid.send_and_receive([message])
    return reply


def answer(client: Any, values: dict[str, Any], **more: Any) -> bytes:
    reply = sent(client, values, **more)
    assert not reply.has_error() and list(reply.content) == [RECORD] and list(reply.content[RECORD]) == [ANSWER]
    found = reply.content[RECORD][ANSWER]
    assert isinstance(found, bytes)
    return found


SECRET = "Ada Lovelace 4711"


def leaking(arrays: Any, context: Any) -> Any:
    logging.getLogger("training").error("loss of %s", SECRET)
    warnings.warn(SECRET, RuntimeWarning, stacklevel=1)
    raise ValueError(SECRET)


def odd(value: Any) -> Any:
    return lambda arrays, context: {"w": np.full(4, value)}


@pytest.mark.parametrize(
    "train",
    [leaking, odd(np.nan), odd(np.inf), lambda a, c: {"v": a["w"]}, lambda a, c: {"w": np.zeros(7)}, lambda a, c: None,
     lambda a, c: {"w": np.array(["x"] * 4)}, lambda a, c: ({"w": a["w"]}, "many")],
    ids=["raises", "nan", "inf", "name", "shape", "none", "text", "examples"],
)  # fmt: skip
def test_whatever_goes_wrong_looks_like_a_zero_update(train: Any, caplog: Any, recwarn: Any) -> None:
    """F7: no error, no log, no length, no type of the reply depends on it."""
    found = answer(app(train), ask(plan()).to_record())
    assert found == bytes(16)
    assert SECRET not in caplog.text and not any(SECRET in str(w.message) for w in recwarn)


def test_huge_updates_are_clipped_like_any_other() -> None:
    found = np.frombuffer(answer(app(odd(1e308)), ask(plan()).to_record()), dtype="<i4")
    assert np.allclose(found / central.CLIP, 0.5, atol=1e-6) and central.exact_norm_fits(found)


def test_metrics_and_extra_records_do_not_leave() -> None:
    from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

    def train(message: Any, context: Any) -> Any:
        content = {
            "arrays": ArrayRecord({"w": Array(np.full(4, 0.1))}), "metrics": MetricRecord({"loss": 0.123456, "num-examples": 3}),
            "notes": ConfigRecord({"name": SECRET}), "more": ArrayRecord({"rows": Array(np.arange(9.0))}),
        }  # fmt: skip
        return Message(RecordDict(content), reply_to=message)

    found = answer(client_app(train, policy=policy(), book=None), ask(plan()).to_record())
    assert len(found) == 16 and np.allclose(np.frombuffer(found, "<i4") / central.CLIP, 0.1, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"noise": 2.0}, "federated-noise"), ({"clip": 0.5}, "federated-clip"), ({"expires": "2020-01-01"}, "federated-expired"),
        ({"cohort": 50}, "federated-cohort"), ({"trust": "distributed"}, "federated-trust"), ({"workloads": ()}, "federated-workload"),
        ({"code": ("ab",)}, "federated-code"), ({"budget": "eps=0.01, delta=1e-5"}, "federated-book-spent"),
    ],
    ids=str,
)  # fmt: skip
def test_what_the_policy_forbids_is_refused_in_one_word_before_training(changes: dict[str, Any], code: str) -> None:
    """F5: weaker noise, a larger clip, an expired policy, a small cohort, unknown workloads and code, a spent book."""
    trained = []
    client = app(lambda arrays, context: trained.append(1) or arrays, **changes)
    assert answer(client, ask(plan()).to_record()) == REFUSED
    assert trained == [] and client.tacit.last_refusal == code


def test_a_server_cannot_lower_noise_or_clip_in_the_request() -> None:
    """A plan that says one thing and a request that says another; a plan of less noise is another plan, checked anew."""
    client = app(noise=0.9)
    assert answer(client, ask(plan(), threshold=5.0).to_record()) == REFUSED
    assert answer(client, ask(plan(), threshold=0.5).to_record()) == REFUSED  # not the plan's clip, which does not adapt
    weaker = json.loads(plan().text) | {"noise_multiplier": 0.1}
    assert answer(client, ask(plan(), plan=json.dumps(weaker)).to_record()) == REFUSED


def test_no_round_is_answered_twice_and_none_beyond_the_plan() -> None:
    client = app()
    grid = InProcessGrid(client, nodes=1)
    assert answer(client, ask(plan()).to_record(), grid=grid) != REFUSED
    assert answer(client, ask(plan()).to_record(), grid=grid) == REFUSED
    assert answer(client, ask(plan(), turn=3).to_record(), grid=grid) == REFUSED
    assert answer(client, ask(plan(), turn=2).to_record(), grid=grid) != REFUSED


VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.binary(max_size=20))


@given(st.sampled_from(sorted(ask(plan()).to_record())), VALUES)
def test_garbled_requests_get_one_word_and_no_error(name: str, value: Any) -> None:
    """F6: each field of a request replaced by anything."""
    values = {**ask(plan()).to_record(), name: value}
    from flwr.app import ConfigRecord

    try:
        ConfigRecord(values)
    except (TypeError, ValueError):
        return  # Flower itself does not carry such a value
    found = answer(app(), values)
    assert found == REFUSED or len(found) == 16


@pytest.mark.parametrize("values", [{}, {"plan": "{}"}, {"answer": b"x"}], ids=str)
def test_other_messages_are_refused(values: dict[str, Any]) -> None:
    assert answer(app(), values) == REFUSED
    assert answer(app(), ask(plan()).to_record(), kind="train.tacit_keys") == REFUSED


def test_plain_flower_messages_are_not_answered() -> None:
    """An app under a policy has no train or evaluate function of Flower's own, so nothing leaves by that way."""
    from flwr.app import Message, RecordDict

    grid = InProcessGrid(app(), nodes=1)
    for kind in ("train", "evaluate", "query"):
        (reply,) = grid.send_and_receive([Message(RecordDict(), dst_node_id=1, message_type=kind)])
        assert reply.has_error()


def test_durable_books_on_nodes(tmp_path: Path) -> None:
    made = plan()
    for turn in range(2):
        client = client_app(on_weights(lambda arrays, context: arrays), policy=policy())
        grid = InProcessGrid(client, nodes=2, node_config=lambda node: {"tacit-book": str(tmp_path / f"{node}.db")})
        found = answer(client, ask(made).to_record(), grid=grid)
        assert (found == REFUSED) == bool(turn)  # a restarted client remembers
    assert answer(client_app(on_weights(lambda a, c: a), policy=policy()), ask(made).to_record()) == REFUSED  # no book, no answer


def test_the_sum_with_n_minus_one_sybils_is_priced_and_refused_below_the_honest_cohort() -> None:
    made = plan(trust="distributed", clients=10, colluding=0.7, noise_multiplier=4.0)
    prices = {price.adversary: price.epsilon for price in made.prices()}
    assert prices["server and clients"] > 1.5 * prices["server"]
    strategy, _ = run(replace(made, question=None), app(cohort=5))
    assert strategy.rounds_void == 2
