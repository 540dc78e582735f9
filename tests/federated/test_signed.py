"""Signed keys over Flower: a server that puts in keys, clients or registers of its own is refused before anything is masked."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.federated.apps import plan, policy, pushing, start

from tacit import federated
from tacit.errors import ParameterError
from tacit.federated import ClientIdentity, FederatedError, InProcessGrid, Private, Register, client_app, on_weights
from tacit.federated.distributed import graph_of, round_of
from tacit.federated.messages import RECORD, Ask
from tacit.federated.secure_sum import wire
from tacit.federated.secure_sum.keys import KeyPair

IDENTITIES = {node: ClientIdentity.create() for node in range(1, 8)}
REGISTER = Register({node: who.public for node, who in IDENTITIES.items()})


def signed_plan(**changes: Any) -> Any:
    terms: dict[str, Any] = {"trust": "distributed", "clients": 7, "rounds": 1, "noise_multiplier": 0.05, "dropouts": 1 / 7}
    return plan(register=REGISTER, **{**terms, **changes})


def app(register: Any = REGISTER, *, named: Any = REGISTER, identity: Any = None, book: Any = None) -> Any:
    allowed = policy(noise=0.001, budget="eps=1e9, delta=1e-5", register=None if named is None else named.fingerprint)
    train = on_weights(lambda arrays, context: {"w": arrays["w"] + pushing(context)})
    return client_app(train, policy=allowed, book=book, register=register,
                      identity=identity or (lambda context: IDENTITIES[context.node_id]))  # fmt: skip


def run(client: Any, made: Any = None, grid: Any = InProcessGrid, **more: Any) -> Private:
    from flwr.serverapp.strategy import FedAvg

    strategy = Private(FedAvg(), made or signed_plan(), None, run="test", register=REGISTER)
    strategy.start(grid(client, nodes=7, **more), start())
    return strategy


def test_a_signed_round_gives_the_sum_with_and_without_a_lost_client() -> None:
    made = signed_plan()
    found = graph_of(made)
    assert found.complete and 2 * found.threshold > found.degree  # no two lists of survivors have a majority each
    assert "may break the protocol" in str(made) and round_of(made, Ask("keys", made.text, "r", 1, 1.0)).signed
    for faults, count in (({}, 7), ({("train.tacit_masked", 2): "lost"}, 6)):
        strategy = run(app(), faults=faults)
        assert strategy.rounds_void == 0 and len(strategy.rounds.survivors) == count


def test_sums_wait_on_the_disk_without_the_identity(tmp_path: Path) -> None:
    """A process for each message: identity and register come from the node's configuration, and are not in the kept file."""
    files = {}
    for node, who in IDENTITIES.items():
        files[node] = tmp_path / f"identity-{node}"
        files[node].write_text(who.secret.hex())
    (tmp_path / "register.json").write_text(json.dumps(REGISTER.to_record()))

    def config(node: int) -> dict[str, Any]:
        return {"tacit-book": str(tmp_path / f"{node}.db"), "tacit-identity": str(files[node]),
                "tacit-register": str(tmp_path / "register.json")}  # fmt: skip

    kept: list[str] = []

    from flwr.clientapp import ClientApp

    class Forgetful(ClientApp):
        def __call__(self, message: Any, context: Any) -> Any:
            allowed = policy(noise=0.001, budget="eps=1e9, delta=1e-5", register=REGISTER.fingerprint)
            inner = client_app(on_weights(lambda arrays, context: {"w": arrays["w"] + pushing(context)}), policy=allowed)
            reply = inner(message, context)
            kept.extend(path.read_text() for path in tmp_path.rglob("*.open"))
            return reply

    strategy = run(Forgetful(), node_config=config)
    assert strategy.rounds_void == 0 and len(strategy.rounds.survivors) == 7
    assert kept and not any(who.secret.hex() in text for text in kept for who in IDENTITIES.values())


class Substituting(InProcessGrid):
    """A server that puts a key pair of its own in the place of client 3's, in the list that client 1 gets."""

    def send_and_receive(self, messages: Any, *, timeout: Any = None) -> Any:
        from flwr.app import ConfigRecord

        listed = list(messages)
        for message in listed:
            record = dict(message.content[RECORD])
            if message.metadata.message_type.endswith("shares") and message.metadata.dst_node_id == 1:
                payload, own = record["payload"], KeyPair.create().public + KeyPair.create().public
                place = payload.index((3).to_bytes(8, "big"), wire.HEADER) + 8
                record["payload"] = payload[:place] + own + payload[place + 64 :]
                message.content[RECORD] = ConfigRecord(record)
        return super().send_and_receive(listed, timeout=timeout)


def test_a_substituted_key_is_refused_where_keys_are_signed() -> None:
    client = app()
    strategy = run(client, grid=Substituting)
    assert strategy.rounds.excluded[0] == {"shares": 1} and client.tacit.last_refusal == "sum-not-registered"


def test_without_signatures_the_substitution_is_not_seen() -> None:
    """The mutant: what a register is for. The plan says "honest but curious" of such a server."""
    from flwr.serverapp.strategy import FedAvg

    made = plan(trust="distributed", clients=7, rounds=1, noise_multiplier=0.05, dropouts=1 / 7)
    strategy = Private(FedAvg(), made, None, run="test")
    strategy.start(Substituting(app(None, named=None), nodes=7), start())
    assert "shares" not in strategy.rounds.excluded[0] and "honest but curious" in str(made)


def test_clients_that_the_server_invents_are_refused() -> None:
    """A client that signs with an identity which is not registered under its number is left out by the server, and the
    honest clients refuse a list that has it."""
    strangers = {node: ClientIdentity.create() for node in IDENTITIES}
    strategy = run(app(identity=lambda context: (strangers if context.node_id == 4 else IDENTITIES)[context.node_id]))
    assert strategy.rounds.excluded[0]["keys"] == 1 and len(strategy.rounds.survivors) == 6
    other = run(app(identity=lambda context: IDENTITIES[context.node_id % 7 + 1]))  # registered, but under another number
    assert other.rounds_void == 1


def test_registers_must_be_the_policys() -> None:
    from flwr.serverapp.strategy import FedAvg

    other = Register({node: ClientIdentity.create().public for node in IDENTITIES})
    cases = [(other, REGISTER, "federated-register"), (None, REGISTER, "federated-register"), (REGISTER, other, "federated-register"),
             (REGISTER, None, "federated-register")]  # fmt: skip
    for held, named, code in cases:
        client = app(held, named=named)
        assert run(client).rounds_void == 1 and client.tacit.last_refusal == code
    with pytest.raises(FederatedError) as refused:
        Private(FedAvg(), signed_plan(), None)  # the server needs it as well
    assert refused.value.code == "federated-register"


def test_a_policy_that_names_a_register_takes_no_unsigned_plan() -> None:
    from flwr.serverapp.strategy import FedAvg

    client, made = app(), plan(trust="distributed", clients=7, rounds=1, noise_multiplier=0.05, dropouts=1 / 7)
    strategy = Private(FedAvg(), made, None, run="test")
    strategy.start(InProcessGrid(client, nodes=7), start())
    assert strategy.rounds_void == 1 and client.tacit.last_refusal == "federated-register"


def test_a_node_without_an_identity_says_so() -> None:
    client = client_app(on_weights(lambda a, c: a), policy=policy(noise=0.001, budget="eps=1e9, delta=1e-5",
                        register=REGISTER.fingerprint), book=None, register=REGISTER)  # fmt: skip
    assert run(client).rounds_void == 1 and client.tacit.last_refusal == "federated-identity"


def test_odd_registers_are_refused(tmp_path: Path) -> None:
    one = ClientIdentity.create().public
    with pytest.raises(ParameterError, match="same key"):
        Register({1: one, 2: one})
    for text in ("7: xyz", "[1, 2]", "a: " + one.hex(), ""):
        (tmp_path / "r.yaml").write_text(text)
        with pytest.raises(ParameterError):
            Register.load(tmp_path / "r.yaml")
    with pytest.raises(ParameterError, match="identities"):
        plan(trust="distributed", clients=9, register=REGISTER)
    with pytest.raises(ParameterError, match="distributed"):
        federated.plan(clients=5, size=4, clip=1.0, rounds=1, noise_multiplier=1.0, delta=1e-5, register=REGISTER)
    record = json.loads(signed_plan().text)
    assert federated.FederatedPlan.from_record(record) == signed_plan()


def test_signatures_of_policies_cover_the_register() -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = bytes(range(32))
    public = Ed25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw()
    signed = policy(register=REGISTER.fingerprint).signed(key)
    signed.verify(public)
    for changed in (replace(signed, register=None), replace(signed, register="0" * 64)):
        with pytest.raises(FederatedError):
            changed.verify(public)

