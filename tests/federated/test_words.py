"""Searches for words and places: one answer a client at a level of its own draw, and nothing that a client holds breaks it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.federated.apps import policy

from tacit import federated
from tacit.accounting import Gaussian, RandomAllocation, Sampled, account
from tacit.errors import ParameterError
from tacit.federated import ClientBook, FederatedError, InProcessGrid, client_app
from tacit.federated.analytics import vector
from tacit.federated.messages import ANSWER, RECORD, REFUSED, Ask
from tacit.federated.words import cell, quarters

HOW: dict[str, Any] = {"delta": 1e-6}
WIDE = policy(budget="eps=1e6, delta=1e-3", noise=1e-3)


def search(**changes: Any) -> federated.WordSearch:
    return federated.heavy_hitters("ab", 3, prefixes=4, **{"clients": 60, "noise_multiplier": 0.3, **HOW, **changes})


@pytest.mark.parametrize("trust", ["central", "distributed"])
def test_every_client_answers_at_one_level_of_its_own(trust: str) -> None:
    """A server asks everyone at every level, and each client is in one sum."""
    answered: Counter[int] = Counter()

    def word(asked: Any, context: Any) -> str:
        answered[context.node_id] += 1
        return "ab"

    made = search(trust=trust, clients=90, **({"dropouts": 0.4} if trust == "distributed" else {}))
    found = made.ask(InProcessGrid(client_app(answer=word, policy=WIDE, book=None), nodes=90), window="2026")
    assert set(found) == {"ab"} and set(answered.values()) == {1}
    # Under distributed trust a level has room for a third of the clients; who comes after that stays away, and has paid nothing.
    assert len(answered) == 90 if trust == "central" else 65 < len(answered) <= 90


def test_levels_that_no_graph_can_carry_are_refused_before_payment() -> None:
    with pytest.raises(ParameterError, match="secure sum"):
        search(trust="distributed", dropouts=0.5)


def test_levels_last_through_a_restart(tmp_path: Path) -> None:
    made = search().plan
    for level in (1, 2, 3):
        for _ in range(4):
            try:
                ClientBook(tmp_path / "me.db", WIDE).shows_up(made, run="w", turn=level)
            except FederatedError as refused:
                assert refused.code == "federated-book-slot"
            else:
                ClientBook(tmp_path / "me.db", WIDE).enter(made, run="w", turn=level)
                break
    assert len(ClientBook(tmp_path / "me.db", WIDE).rounds(made, "w")) == 1


def test_the_price_is_that_of_random_check_ins() -> None:
    """Against the accountant's own allocation; a search by levels costs less than one question with the same noise."""
    made = search(noise_multiplier=2.0).plan
    assert made.event == Sampled(RandomAllocation(3), Gaussian(2)) and made.participations == 1
    assert account(made.event).epsilon(1e-6).upper < account(Gaussian(2)).epsilon(1e-6).upper
    shared = search(trust="distributed", dropouts=0.3).plan
    assert not shared.credited and shared.participations == 1
    with pytest.raises(ParameterError):
        search(population=1000)


ANYTHING = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40) | st.binary(max_size=5) | st.tuples(
    st.floats(), st.floats()) | st.lists(st.floats(), max_size=3) | st.characters(categories=("Cs",))  # fmt: skip


@given(ANYTHING, st.integers(1, 3))
def test_no_word_or_point_moves_a_sum_by_more_than_one(value: Any, level: int) -> None:
    for bounds, prefixes in ((None, ["a", "b\0", "ab"]), ([0.0, 0.0, 1.0, 1.0], ["0", "31", "123"])):
        terms = {"kind": "words", "length": 3, "bounds": bounds, "prefixes": prefixes, "level": level}
        found = vector(terms, value, 3)
        assert found.shape == (3,) and np.linalg.norm(found) <= 1 and set(found.tolist()) <= {0.0, 1.0}


@given(st.floats(-0.2, 1.2), st.floats(-0.2, 1.2), st.integers(1, 12))
def test_quarters_are_the_cells_of_a_heat_map(x: float, y: float, depth: int) -> None:
    """Against the cells of `heatmap`, which are worked out otherwise."""
    word = quarters((x, y), (0, 0, 1, 1), depth)
    if depth <= 6:
        map_ = federated.heatmap((0, 0, 1, 1), (2**depth, 2**depth), max_contributions=1, clients=10, noise_multiplier=1, **HOW)
        assert [map_.labels[place] for place in map_.cells([(x, y)])] == ([cell(word)] if word else [])
    assert len(word) in (0, depth)


@pytest.mark.parametrize(
    "config", ["", "{}", "[]", '{"prefixes": 3}', '{"prefixes": [1]}', '{"prefixes": ["abcdef"]}', '{"prefixes": null}', "x"]
)
def test_garbled_levels_are_refused_before_anything_is_paid(config: str) -> None:
    from flwr.app import ConfigRecord, Message, RecordDict

    app = client_app(answer=lambda asked, context: "ab", policy=WIDE, book=None)
    made = federated.heavy_hitters("ab", 1, prefixes=4, clients=10, noise_multiplier=0.3, **HOW).plan
    ask = Ask(phase="vector", plan=made.text, run="w", turn=1, threshold=made.clip, config=config)
    grid = InProcessGrid(app, nodes=1)

    def sent(config: str) -> bytes:
        asked = RecordDict({RECORD: ConfigRecord({**ask.to_record(), "config": config})})
        (reply,) = grid.send_and_receive([Message(asked, dst_node_id=1, message_type="train.tacit_vector", group_id="1")])
        return bytes(reply.content[RECORD][ANSWER])

    assert sent(config) == REFUSED
    assert sent(json.dumps({"prefixes": ["a", "a", "b"] * 50})) != REFUSED  # not paid before; more beginnings than cells are no error


def test_busy_places_are_found_and_quiet_ones_are_not() -> None:
    """A map of 64 times 64: three places with 700 people each, 900 spread out. Each level has a sixth of them."""
    draws = np.random.default_rng(4)
    busy = {(5, 60), (33, 33), (62, 1)}
    points: list[Any] = [((column + 0.5) / 64, (row + 0.5) / 64) for row, column in busy for _ in range(700)]
    points += [tuple(point) for point in draws.random((900, 2)).tolist()]
    made = federated.heavy_hitters((0, 0, 1, 1), 6, clients=3000, epsilon=2, **HOW)
    found = made.found(points)
    assert set(found) == busy
    spread = np.hypot(made.deviation, np.sqrt(700 * 5))  # of the noise, and of who drew the last of six levels
    assert all(abs(number - 700) < 4.5 * spread for number in found.values())


FEW: dict[str, Any] = {"clients": 10, "epsilon": 1, **HOW}


@pytest.mark.parametrize(
    "make",
    [
        lambda: federated.heavy_hitters((0, 0, 0, 1), 3, **FEW), lambda: federated.heavy_hitters((0, 0, 1, 1), 40, **FEW),
        lambda: federated.heavy_hitters((0, 0, float("inf"), 1), 3, **FEW),
        lambda: federated.heavy_hitters((0, 0, float("nan"), 1), 3, **FEW),
        lambda: federated.heavy_hitters("", 3, **FEW), lambda: federated.heavy_hitters("ab", 0, **FEW),
        lambda: federated.heavy_hitters("ab", 3, epsilon=1, **HOW), lambda: search().ask(None, window=""),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_bad_searches_are_refused(make: Any) -> None:
    with pytest.raises((ParameterError, FederatedError, ValueError)):
        make()
