"""What a client refuses: each rule alone, by its code; and that a refusal, like an answer, leaves no secret
behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.federated.rounds import MODEL, Play, plain_sum, stated, vectors_for

from tacit.errors import ParameterError
from tacit.federated import ClientIdentity, Register, SumClient, SumRefused, SumRound
from tacit.federated.secure_sum import wire
from tacit.federated.secure_sum.wire import Phase

SECRETS = ("_self_seed", "_mask_secret", "_mask_keys", "_channel_keys")


def up_to(phase: str, about: SumRound) -> tuple[Play, dict[int, bytes]]:
    """A round played until this phase, and the messages that clients get in it."""
    play = Play(about, vectors_for(about, about.clients))
    inbox = dict.fromkeys(play.clients, b"")
    for name in ("keys", "shares", "masked"):
        if name == phase:
            break
        play.phase(name, inbox)
        inbox = play.server.close()
    return play, inbox


def forgotten(client: SumClient) -> bool:
    return (
        all(getattr(client, name) is None for name in SECRETS) and not client._held and not client._channels
    )


def refused(play: Play, phase: str, client: int, message: bytes) -> str:
    """The code of the refusal, after which the client has forgotten everything and answers nothing more."""
    with pytest.raises(SumRefused) as error:
        play.answer(phase, client, message)
    assert forgotten(play.clients[client])
    for later in ("shares", "masked", "unmask"):
        with pytest.raises(SumRefused) as again:
            play.answer(later, client, message)
        assert again.value.code == "sum-late"
    assert str(error.value) == f"{phase}: {str(error.value).split(': ', 1)[1]}" and b"" not in (
        str(error.value).encode(),
    )
    return error.value.code


def roster(play: Play, client: int, change: Callable[[dict[int, tuple[bytes, ...]]], object]) -> bytes:
    """The list of keys as a dishonest server might send it."""
    rows = dict(play.server._roster)
    change(rows)
    return wire.header(play.about, Phase.SHARES, client) + wire.listed(rows)


def swapped(rows: dict[int, tuple[bytes, ...]], client: int, place: int, key: bytes) -> None:
    row = list(rows[client])
    row[place] = key
    rows[client] = tuple(row)


def test_a_list_of_keys_that_is_not_right() -> None:
    about = stated(4, fewest=3, threshold=2)
    cases: dict[str, list[Callable[[dict[int, tuple[bytes, ...]]], object]]] = {
        "sum-own-key": [
            lambda rows: rows.pop(8),
            lambda rows: swapped(rows, 8, 0, bytes(range(32))),
            lambda rows: swapped(rows, 8, 1, bytes(range(32))),
        ],
        "sum-keys-repeated": [
            lambda rows: swapped(rows, 11, 0, rows[14][0]),
            lambda rows: swapped(rows, 11, 1, rows[8][0]),
            lambda rows: swapped(rows, 5, 1, bytes(32)),  # a point with which nothing secret can be shared
        ],
        "sum-few-clients": [
            lambda rows: (rows.pop(5), rows.pop(11)),
            lambda rows: rows.update({99: (b"a" * 32, b"b" * 32)}),
        ],
    }
    for code, changes in cases.items():
        for change in changes:
            play, _ = up_to("shares", about)
            assert refused(play, "shares", 8, roster(play, 8, change)) == code


def test_a_key_that_no_registered_identity_signed() -> None:
    about = stated(3, signed=True, threshold=1)
    play, _ = up_to("shares", about)
    assert (
        refused(play, "shares", 8, roster(play, 8, lambda rows: swapped(rows, 5, 0, bytes(range(32)))))
        == "sum-not-registered"
    )
    play, _ = up_to("shares", about)
    assert (
        refused(play, "shares", 8, roster(play, 8, lambda rows: rows.update({99: rows.pop(5)})))
        == "sum-not-registered"
    )
    # a key signed for another round
    play, _ = up_to("shares", about)
    who = ClientIdentity.create()
    eight = ClientIdentity.create()
    register = Register({5: who.public, 8: eight.public})
    old = SumClient(5, stated(3, signed=True, threshold=1, number=7), identity=who, register=register).keys()[
        wire.HEADER :
    ]
    play.clients[8]._register = register
    rows = {5: (old[:32], old[32:64], old[64:])}
    own = play.server._roster[8]
    signed = eight.sign(wire.signed_part(about, 8, own[0] + own[1]))
    message = wire.header(about, Phase.SHARES, 8) + wire.listed({**rows, 8: (*own[:2], signed)})
    assert refused(play, "shares", 8, message) == "sum-not-registered"


@pytest.mark.parametrize("phase", ["shares", "masked", "unmask"])
@pytest.mark.parametrize(
    "other",
    [{"number": 2}, {"plan": bytes(32)}, {"length": 6}, {"bits": 16}, {"fewest": 3}, {"threshold": 1}],
)
def test_another_round_or_plan_or_weaker_terms(phase: str, other: dict[str, Any]) -> None:
    """Whatever the server states otherwise makes another session, and its messages are refused."""
    play, _ = up_to(phase, stated(4))
    _, inbox = up_to(phase, stated(4, **other))
    assert refused(play, phase, 8, inbox[8]) == "sum-other-round"


@pytest.mark.parametrize("phase", ["shares", "masked", "unmask"])
def test_garbled_messages(phase: str) -> None:
    codes = set()
    for change in (
        lambda m: m + b"\0", lambda m: m[:-1], lambda m: m * 2, lambda m: m[:25], lambda m: m[:25] + b"\xff" * 4, lambda m: b"",
        lambda m: m[:25] + b"\xff\xff\xff\xff" + m[29:], lambda m: m[:29], lambda m: "text", lambda m: m[:29] + m[29:37][::-1] + m[37:],
    ):  # fmt: skip
        play, inbox = up_to(phase, stated(3, threshold=1))
        codes.add(refused(play, phase, 8, change(inbox[8]) or b"-"))
    assert codes <= {
        "sum-malformed",
        "sum-other-round",
        "sum-own-key",
        "sum-unknown-survivor",
        "sum-few-neighbours",
    }
    assert "sum-malformed" in codes and "sum-other-round" in codes


def survivors(about: SumRound, client: int, alive: list[int]) -> bytes:
    return wire.header(about, Phase.UNMASK, client) + wire.listed(dict.fromkeys(alive, ()))


@pytest.mark.parametrize(
    ("alive", "code"),
    [
        ([5, 8, 11, 14, 99], "sum-unknown-survivor"),
        ([5, 11, 14], "sum-not-surviving"),
        ([5, 8], "sum-few-clients"),
        ([], "sum-not-surviving"),
    ],
)
def test_lists_of_survivors_that_are_not_answered(alive: list[int], code: str) -> None:
    about = stated(4, fewest=3, threshold=2)
    play, _ = up_to("unmask", about)
    assert refused(play, "unmask", 8, survivors(about, 8, alive)) == code


def test_too_few_living_neighbours_get_no_answer() -> None:
    """Enough clients for the noise, but of this client's own neighbours fewer than the threshold."""
    about = stated(8, degree=4, threshold=3, fewest=2)
    play, _ = up_to("unmask", about)
    near = play.clients[8]._neighbours
    assert len(near) == 4
    alive = sorted({*play.vectors} - set(near[:2]))
    assert refused(play, "unmask", 8, survivors(about, 8, alive)) == "sum-few-neighbours"
    play, inbox = up_to("masked", about)
    body = wire.numbered(inbox[8][wire.HEADER :], wire.SEALED_SHARES) or {}
    few = dict(list(body.items())[:2])
    assert (
        refused(play, "masked", 8, wire.header(about, Phase.MASKED, 8) + wire.listed(few))
        == "sum-few-neighbours"
    )


def test_a_survivor_who_had_sent_no_shares() -> None:
    about = stated(4, fewest=2, threshold=2)
    play = Play(about, vectors_for(about, 4), {"shares": [5]})
    inbox = dict.fromkeys(play.clients, b"")
    for name in ("keys", "shares", "masked"):
        play.phase(name, inbox)
        inbox = play.server.close()
    assert refused(play, "unmask", 8, survivors(about, 8, [5, 8, 11, 14])) == "sum-unknown-survivor"


def test_one_answer_with_one_kind_of_share_for_each_neighbour() -> None:
    about = stated(4, fewest=2, threshold=2)
    play, _ = up_to("unmask", about)
    held = dict(play.clients[8]._held)
    answer = play.answer("unmask", 8, survivors(about, 8, [5, 8, 11]))
    rows = wire.numbered(answer[wire.HEADER :], 1, 32) or {}
    assert {near: kind[0] for near, (kind, _) in rows.items()} == {
        5: wire.SELF_SEED,
        11: wire.SELF_SEED,
        14: wire.MASK_KEY,
    }
    assert all(share == held[near][kind[0]] for near, (kind, share) in rows.items())
    assert all(held[near][1 - kind[0]] not in answer for near, (kind, _) in rows.items())
    for second in ([5, 8, 14], [5, 8, 11]):
        with pytest.raises(SumRefused) as error:
            play.answer("unmask", 8, survivors(about, 8, second))
        assert error.value.code == "sum-late"
    assert forgotten(play.clients[8])


def test_secrets_are_gone_as_soon_as_they_are_not_needed() -> None:
    about = stated(3)
    play, inbox = up_to("unmask", about)
    client = play.clients[8]
    assert all(getattr(client, name) is None for name in SECRETS) and not client._channels and client._held
    client.forget()  # a round that takes too long
    assert forgotten(client)
    with pytest.raises(SumRefused):
        play.answer("unmask", 8, inbox[8])


def test_steps_are_taken_in_order() -> None:
    about = stated(3)
    for step in ("shares", "masked", "unmask"):
        client = Play(about, vectors_for(about, 3))
        with pytest.raises(SumRefused) as error:
            client.answer(step, 8, b"")
        assert error.value.code == "sum-late"
    twice = SumClient(1, about)
    twice.keys()
    with pytest.raises(SumRefused):
        twice.keys()


@pytest.mark.parametrize(
    "vector",
    [
        np.zeros(4, dtype=np.uint32),
        np.zeros(5, dtype=np.uint64),
        np.zeros(5),
        np.zeros((5, 1), dtype=np.uint32),
        [0] * 5,
        None,
    ],
)
def test_a_vector_of_another_form_does_not_leave(vector: Any) -> None:
    about = stated(3)
    play, inbox = up_to("masked", about)
    with pytest.raises(SumRefused) as error:
        play.clients[8].masked(inbox[8], vector, MODEL)
    assert error.value.code == "sum-wrong-vector" and forgotten(play.clients[8])


def test_numbers_beyond_the_modulus_are_reduced_and_raise_nothing() -> None:
    about = stated(3, bits=20)
    vectors = {client: np.full(5, 2**32 - 1, dtype=np.uint32) for client in (5, 8, 11)}
    assert Play(about, vectors).run().total.tolist() == plain_sum(about, vectors, [5, 8, 11])


def test_what_a_client_is_made_with() -> None:
    about = stated(3)
    for me in (-1, 1 << 64, True, "8", 1.0):
        with pytest.raises(ParameterError):
            SumClient(me, about)  # type: ignore[arg-type]
    with pytest.raises(ParameterError):
        SumClient(1, about, identity=ClientIdentity.create())
    with pytest.raises(ParameterError):
        SumClient(1, stated(3, signed=True))
    play, inbox = up_to("masked", about)
    with pytest.raises(ParameterError):
        play.clients[8].masked(inbox[8], play.vectors[8], b"short")
    assert forgotten(play.clients[8])
