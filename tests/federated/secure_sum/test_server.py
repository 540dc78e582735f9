"""Sums are exact for every pattern of dropouts, or void; bad messages leave out their sender and change
nothing else."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.federated.rounds import MODEL, PHASES, Play, plain_sum, stated, vectors_for

from tacit.errors import ParameterError
from tacit.federated import SumClient, SumRefused, SumRound, SumServer, graph_for


def patterns(clients: int, most: int) -> list[tuple[int, ...]]:
    """For every client the phase in which it is lost, 4 where it never is; at most so many are lost."""
    every = itertools.product(range(5), repeat=clients)
    return [pattern for pattern in every if sum(phase < 4 for phase in pattern) <= most]


def checked(about: SumRound, pattern: tuple[int, ...]) -> str:
    """Play a pattern; the outcome must be the plain sum, or void where the rules say so. Says which."""
    vectors = vectors_for(about, len(pattern))
    names = sorted(vectors)
    lost = {
        phase: [name for name, at in zip(names, pattern, strict=True) if at == place]
        for place, phase in enumerate(PHASES)
    }
    play = Play(about, vectors, lost)
    server = play.run()
    survivors = [name for name, at in zip(names, pattern, strict=True) if at >= 3]
    answering = [name for name, at in zip(names, pattern, strict=True) if at == 4]
    if server.phase == "done":
        assert server.survivors == tuple(survivors) and len(survivors) >= about.fewest
        assert server.total.tolist() == plain_sum(about, vectors, survivors)
        assert server.excluded == {
            name: PHASES[at] for name, at in zip(names, pattern, strict=True) if 0 < at < 4
        }  # in the first phase none is expected
        return "sum"
    with pytest.raises(SumRefused):
        _ = server.total
    # everyone masks with everyone: each survivor must find `threshold` others alive, and as many others must
    # answer
    enough = (
        len(survivors) >= max(about.fewest, about.threshold + 1) and len(answering) >= about.threshold + 1
    )
    assert not enough, pattern
    return "void"


@pytest.mark.parametrize(("clients", "threshold", "most"), [(3, 1, 3), (4, 2, 3), (5, 2, 2)])
def test_sums_are_exact_for_every_pattern_of_dropouts(clients: int, threshold: int, most: int) -> None:
    about = stated(clients, threshold=threshold, length=3)
    outcomes = [checked(about, pattern) for pattern in patterns(clients, most)]
    assert set(outcomes) == ({"sum", "void"} if most > clients - threshold - 1 else {"sum"})
    # the rule of the void is no excuse: one client lost, in whatever phase, never ends these rounds
    assert all(checked(about, pattern) == "sum" for pattern in patterns(clients, 1))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(5))
@pytest.mark.parametrize("threshold", [2, 3])
def test_sums_are_exact_for_every_pattern_among_six(threshold: int, first: int) -> None:
    """All 15,625 patterns, by the phase in which the first client is lost."""
    about = stated(6, threshold=threshold, length=2)
    assert {checked(about, pattern) for pattern in patterns(6, 6) if pattern[0] == first} == {"sum", "void"}


def test_sums_are_exact_for_every_pattern_of_two_lost_among_six() -> None:
    about = stated(6, threshold=3, length=2)
    assert {checked(about, pattern) for pattern in patterns(6, 2)} == {"sum"}


def expected(play: Play, gone: dict[str, set[int]]) -> list[int] | None:
    """Who is in the sum by the rules of the protocol, written out from the graph alone; None where the round is void."""
    about, near = play.about, play.server._near
    sent_keys = set(play.vectors) - gone["keys"]
    sent_shares = sent_keys - gone["shares"]
    if len(sent_keys) < max(about.fewest, about.threshold + 1) or len(sent_shares) < about.fewest:
        return None

    def having(clients: set[int], others: set[int]) -> set[int]:
        return {client for client in clients if len(set(near[client]) & others) >= about.threshold}

    in_sum = having(sent_shares, sent_shares) - gone["masked"]
    if len(in_sum) < about.fewest:
        return None
    answering = having(in_sum, in_sum) - gone["unmask"]
    needed = in_sum | {client for client in sent_shares - in_sum if set(near[client]) & in_sum}
    return sorted(in_sum) if having(needed, answering) == needed else None


def played(about: SumRound, gone: dict[str, set[int]]) -> str:
    """Play a round with these clients lost: the sum must be the plain one, and void exactly where the rules say so."""
    vectors = vectors_for(about, about.clients)
    play = Play(about, vectors, gone)
    server = play.run()
    survivors = expected(play, gone)
    assert (server.phase == "done") == (survivors is not None)
    if survivors is None:
        with pytest.raises(SumRefused):
            _ = server.total
        return "void"
    assert server.survivors == tuple(survivors) and server.total.tolist() == plain_sum(about, vectors, survivors)
    return "sum"


def each_phase(clients: int, most: int) -> Iterator[dict[str, set[int]]]:
    """Every pattern in which at most so many are lost in each of the four phases."""
    for pattern in itertools.product(range(5), repeat=clients):
        if all(pattern.count(phase) <= most for phase in range(4)):
            yield {name: {3 * i + 5 for i, at in enumerate(pattern) if at == place} for place, name in enumerate(PHASES)}


@pytest.mark.parametrize(("clients", "threshold", "patterns"), [(3, 1, 73), (4, 1, 209), pytest.param(5, 2, 501, marks=pytest.mark.slow)])
def test_sums_are_exact_for_every_pattern_in_each_phase(clients: int, threshold: int, patterns: int) -> None:
    """30 % of these clients is one, in each of the phases."""
    about = stated(clients, threshold=threshold, length=2)
    outcomes = [played(about, gone) for gone in each_phase(clients, 1)]
    assert len(outcomes) == patterns and outcomes.count("sum") > 10 and "void" in outcomes


@pytest.mark.slow
@pytest.mark.parametrize(("threshold", "degree"), [(1, 5), (2, 5), (2, 4)])
def test_sums_are_exact_for_every_pattern_in_each_phase_among_six(threshold: int, degree: int) -> None:
    """One of six is lost in each phase, or two, which is more than 30 %. With one and a threshold of one no round is void."""
    about = stated(6, threshold=threshold, degree=degree, length=2)
    outcomes = [played(about, gone) for gone in each_phase(6, 1)]
    assert len(outcomes) == 1045 and set(outcomes) == ({"sum"} if threshold == 1 else {"sum", "void"})
    if threshold == 2:
        assert {played(about, gone) for gone in itertools.islice(each_phase(6, 2), 0, None, 7)} == {"sum", "void"}


def random_round(seed: int) -> str:
    """10 to 30 clients on a graph of any degree; up to 30 % of those who are left are lost in each phase."""
    draw = np.random.default_rng(seed)
    clients = int(draw.integers(10, 31))
    degree = int(draw.choice([clients - 1, 2 * int(draw.integers(3, clients // 2))]))
    threshold = int(draw.integers(2, max(3, degree // 2)))
    about = stated(
        clients, degree=degree, threshold=threshold, length=3, bits=int(draw.choice([8, 13, 16, 20, 24, 32, 40])),
        fewest=int(draw.integers(2, 1 + clients // 3)), signed=bool(draw.random() < 0.2),
    )  # fmt: skip
    left, gone = [3 * i + 5 for i in range(clients)], {}
    for phase in PHASES:
        lost = set(draw.permutation(left)[: int(draw.integers(0, int(0.3 * len(left)) + 1))].tolist())
        gone[phase], left = lost, [client for client in left if client not in lost]
    return played(about, gone)


def test_sums_are_exact_for_random_patterns_in_each_phase() -> None:
    outcomes = [random_round(seed) for seed in range(14)]
    assert outcomes.count("sum") > 6


@pytest.mark.slow
@pytest.mark.parametrize("hundred", range(10))
def test_sums_are_exact_for_a_thousand_random_patterns_in_each_phase(hundred: int) -> None:
    outcomes = [random_round(100 * hundred + seed) for seed in range(100)]
    assert outcomes.count("sum") > 50 and "void" in outcomes


def planned_round(seed: int) -> str:
    """A hundred clients on the graph that a plan for 30 % of dropouts has, with up to as many lost over all phases."""
    draw = np.random.default_rng(seed)
    found = graph_for(100, dropouts=0.3, colluding=0.1)
    about = stated(100, degree=found.degree, threshold=found.threshold, length=2, fewest=70)
    lost = draw.permutation([3 * i + 5 for i in range(100)])[: int(draw.integers(0, 31))].tolist()
    cuts = sorted(draw.integers(0, len(lost) + 1, size=3).tolist())
    parts = [set(lost[a:b]) for a, b in itertools.pairwise([0, *cuts, len(lost)])]
    return played(about, dict(zip(PHASES, parts, strict=True)))


def test_sums_are_exact_for_dropouts_on_a_planned_graph() -> None:
    """What the graph is chosen for: a void round has a chance below 2^-20."""
    assert planned_round(0) == "sum"


@pytest.mark.slow
def test_sums_are_exact_for_many_dropouts_on_a_planned_graph() -> None:
    assert [planned_round(seed) for seed in range(100)] == ["sum"] * 100


def test_thirty_percent_lost_in_every_phase_at_once() -> None:
    """Of 60 a fifth in each phase: the sum, or void, never something else."""
    about = stated(40, degree=38, threshold=10, length=2, fewest=12)
    vectors = vectors_for(about, 40)
    names = sorted(vectors)
    lost = {phase: names[12 * i : 12 * i + 12] for i, phase in enumerate(PHASES[:2])} | {
        "masked": names[24:28]
    }
    server = Play(about, vectors, lost).run()
    assert server.total.tolist() == plain_sum(about, vectors, names[28:])
    assert Play(about, vectors, lost | {"unmask": names[28:32]}).run().phase == "void"


def test_one_more_lost_than_allowed_is_void_before_anything_is_unmasked() -> None:
    """70 of 100 must survive: the sum with 70, and at 69 no list of survivors leaves the server."""
    for lost, phase in ((30, "done"), (31, "void")):
        about = stated(100, degree=24, threshold=8, fewest=70, length=1)
        vectors = vectors_for(about, 100)
        play = Play(about, vectors, {"masked": sorted(vectors)[:lost]})
        inbox = dict.fromkeys(play.clients, b"")
        for name in PHASES[:3]:
            play.phase(name, inbox)
            if name == "masked" and phase == "void":
                with pytest.raises(SumRefused) as refused:
                    play.server.close()
                assert (refused.value.code, play.server.phase, play.server.survivors) == (
                    "sum-void",
                    "void",
                    (),
                )
                with pytest.raises(SumRefused):
                    play.server.close()  # void for good
                assert not play.server.receive(sorted(vectors)[50], b"")
                assert len(play.server._sum) == 0  # nothing is kept that could be unmasked later
            else:
                inbox = play.server.close()
        if phase == "done":
            play.phase("unmask", inbox)
            play.server.close()
            assert play.server.total.tolist() == plain_sum(about, vectors, sorted(vectors)[30:])


def test_a_round_is_unmasked_once() -> None:
    about = stated(3)
    server = Play(about, vectors_for(about, 3)).run()
    before = server.total.copy()
    with pytest.raises(SumRefused) as refused:
        server.close()
    assert refused.value.code == "sum-late" and server.phase == "done" and (server.total == before).all()


@pytest.mark.parametrize("bits", [4, 8, 16, 17, 24, 32, 33, 48, 64])
@pytest.mark.parametrize("signed", [False, True])
def test_every_modulus(bits: int, signed: bool) -> None:
    about = stated(4, bits=bits, signed=signed, length=70)
    vectors = vectors_for(about, 4)
    server = Play(about, vectors, {"masked": [5]}).run()
    assert server.total.tolist() == plain_sum(about, vectors, sorted(vectors)[1:])


def test_three_messages_when_keys_ride_along() -> None:
    """The second round starts from the keys that came with the first one's answers, after a client was
    lost."""
    first, second = stated(4, number=1), stated(4, number=2)
    vectors = vectors_for(first, 4)
    play = Play(first, vectors, {"unmask": [5]})
    answer = play.answer
    play.answer = lambda phase, client, message: (  # type: ignore[method-assign]
        play.clients[client].unmask(message, following=second)
        if phase == "unmask"
        else answer(phase, client, message)
    )
    server = play.run()
    assert sorted(server.following) == [8, 11, 14]
    again = Play(second, vectors)
    again.clients = {client: play.clients[client].following for client in server.following}  # type: ignore[misc]
    for client, message in server.following.items():
        assert again.server.receive(client, message)
    inbox = again.server.close()
    for phase in PHASES[1:]:
        again.phase(phase, inbox)
        inbox = again.server.close()
    assert again.server.total.tolist() == plain_sum(second, vectors, [8, 11, 14])


# --- garbled messages


def broken(message: bytes) -> dict[str, bytes]:
    """A message changed in every way: each field flipped, cut, doubled, oversized."""
    found: dict[str, bytes] = {
        "empty": b"",
        "doubled": message * 2,
        "oversized": message + bytes(1000),
        "one more": message + b"\0",
    }
    for at in sorted({*range(0, min(len(message), 140), 7), len(message) // 2, len(message) - 1}):
        found[f"flipped {at}"] = message[:at] + bytes([message[at] ^ 0x81]) + message[at + 1 :]
        found[f"cut {at}"] = message[:at]
        found[f"repeated {at}"] = message[: at + 1] + message[at:]
    return found


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("phase", PHASES)
def test_a_garbled_message_leaves_out_its_sender_by_phase(phase: str, signed: bool) -> None:
    about = stated(4, threshold=2, bits=20, length=3, signed=signed)
    vectors = vectors_for(about, 4)
    sample: list[bytes] = []
    Play(
        about, vectors, to_server=lambda p, c, m: (sample.append(m), m)[1] if (p, c) == (phase, 8) else m
    ).run()
    seen = set()
    for name in broken(sample[0]):
        play = Play(
            about,
            vectors,
            to_server=lambda p, c, m, name=name: broken(m)[name] if (p, c) == (phase, 8) else m,
        )  # type: ignore[misc]
        server = play.run()
        if (
            server.phase == "void"
        ):  # a client that does not stand by its own secrets can end a round, and learns nothing by it
            assert phase == "shares" and 8 not in server.excluded, name
            continue
        without = [5, 11, 14] if phase != "unmask" else sorted(vectors)
        if 8 in server.excluded:
            assert set(server.excluded) == {8} and server.excluded[8] in PHASES
            seen.add(server.excluded[8])
            assert list(server.survivors) == without, name
            assert server.total.tolist() == plain_sum(about, vectors, without), name
        else:  # a share that is not used, or a number of the client's own masked vector, which is not the server's to see
            assert list(server.survivors) == sorted(vectors), name
            assert phase == "masked" or server.total.tolist() == plain_sum(about, vectors, sorted(vectors)), (
                name
            )
    assert phase in seen


def test_a_changed_sealed_share_hurts_nobody() -> None:
    """The server passes it on, its receiver cannot open it and goes on without."""
    about = stated(4, threshold=2, length=3)
    vectors = vectors_for(about, 4)

    def change(phase: str, client: int, message: bytes) -> bytes:
        return message[:-1] + bytes([message[-1] ^ 1]) if (phase, client) == ("shares", 8) else message

    server = Play(about, vectors, to_server=change).run()
    assert server.excluded == {} and server.total.tolist() == plain_sum(about, vectors, sorted(vectors))


def test_forged_shares_are_seen() -> None:
    """Each share was committed to when it was made, so another one is not used, and the rest is enough."""
    about = stated(5, threshold=2, length=3)
    vectors = vectors_for(about, 5)

    def forge(phase: str, client: int, message: bytes) -> bytes:
        return message[:-1] + bytes([message[-1] ^ 1]) if (phase, client) == ("unmask", 8) else message

    server = Play(about, vectors, {"masked": [5]}, to_server=forge).run()
    assert server.excluded == {5: "masked"}
    assert server.total.tolist() == plain_sum(about, vectors, [8, 11, 14, 17])


def test_too_many_forged_shares_are_void() -> None:
    """With three neighbours that answer and a threshold of three, one forged share is one too many: void,
    and no wrong sum."""
    about = stated(5, threshold=3, length=3)

    def forge(phase: str, client: int, message: bytes) -> bytes:
        return message[:-1] + bytes([message[-1] ^ 1]) if (phase, client) == ("unmask", 8) else message

    assert Play(about, vectors_for(about, 5), {"unmask": [5]}, to_server=forge).run().phase == "void"


def test_late_replayed_and_foreign_messages_change_nothing() -> None:
    about, other_round, other_plan = (
        stated(3, threshold=1),
        stated(3, threshold=1, number=2),
        stated(3, threshold=1, plan=bytes(32)),
    )
    vectors = vectors_for(about, 3)
    play = Play(about, vectors)
    server = play.server
    sent: dict[tuple[str, int], bytes] = {}
    inbox = dict.fromkeys(play.clients, b"")
    for phase in PHASES:
        for client, message in inbox.items():
            answer = sent[phase, client] = play.answer(phase, client, message)
            if (phase, client) == ("masked", 5):
                for earlier in ("keys", "shares"):
                    assert (
                        not server.receive(5, sent[earlier, 5]) and server.excluded == {}
                    )  # late: no fault of this phase
                assert (
                    not server.receive(99, answer) and server.excluded == {}
                )  # from a client that is not in the round
            assert server.receive(client, answer)
            assert not server.receive(client, answer)  # replayed
        inbox = server.close()
    assert server.total.tolist() == plain_sum(about, vectors, sorted(vectors))
    for foreign in (other_round, other_plan):
        fresh = SumServer(about, MODEL)
        assert not fresh.receive(5, SumClient(5, foreign).keys()) and fresh.excluded == {5: "keys"}
    fresh = SumServer(about, MODEL)
    assert not fresh.receive(5, SumClient(6, about).keys()) and fresh.excluded == {
        5: "keys"
    }  # another's message


def test_duplicate_keys_and_too_many_clients_are_left_out() -> None:
    about = stated(3)
    server = SumServer(about, MODEL)
    first = SumClient(1, about).keys()
    assert server.receive(1, first)
    assert not server.receive(2, first[:17] + (2).to_bytes(8, "big") + first[25:])
    assert server.excluded == {2: "keys"}
    assert server.receive(3, SumClient(3, about).keys()) and server.receive(4, SumClient(4, about).keys())
    assert not server.receive(5, SumClient(5, about).keys())
    assert server.excluded == {2: "keys", 5: "keys"}


def test_anything_is_taken_without_an_exception() -> None:
    """Random bytes, types that are no bytes, odd senders, in every phase."""
    about = stated(3, threshold=1)
    vectors = vectors_for(about, 3)
    play = Play(about, vectors)
    inbox = dict.fromkeys(play.clients, b"")
    junk: list[Any] = [
        b"",
        b"\0" * 25,
        b"\xff" * 300,
        "text",
        None,
        7,
        about.session,
        about.session + b"\x03" + bytes(8) + b"\xff" * 8,
    ]
    for phase in PHASES:
        for message in junk:
            for sender in (-1, 99, 1 << 70):
                assert not play.server.receive(sender, message)
        play.phase(phase, inbox)
        inbox = play.server.close()
    assert play.server.total.tolist() == plain_sum(about, vectors, sorted(vectors))


def test_a_round_is_stated_in_full() -> None:
    for changes in (
        {"plan": b"short"},
        {"bits": 0},
        {"bits": 65},
        {"fewest": 1},
        {"fewest": 9},
        {"degree": 3},
        {"threshold": 3},
        {"length": 0},
    ):
        with pytest.raises(ParameterError):
            stated(3, **changes)
    with pytest.raises(ParameterError):
        SumServer(stated(3), b"short")
    with pytest.raises(ParameterError):
        SumServer(stated(3, signed=True), MODEL)
