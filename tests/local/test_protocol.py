"""Protocols: one text and one fingerprint, odd values count as the default, damaged texts are refused in words."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.local.oracles import ALL
from tests.local.wire import fingerprint

from tacit.errors import ParameterError
from tacit.local import Protocol, Response, frequencies

EMOJI = Protocol(("smile", "wink", "cry", 1, 7), Response(5, 1), 2)
NUMBERS = Protocol(8, Response(8, 1), 3)


class Nasty(str):
    """A text whose own methods raise."""

    def __hash__(self) -> int:
        raise RuntimeError("the value was asked")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("the value was asked")

    __str__ = __hash__  # type: ignore[assignment]


class NastyNumber(int):
    def __lt__(self, other: object) -> bool:
        raise RuntimeError("the value was asked")

    __le__ = __ge__ = __gt__ = __eq__ = __lt__  # type: ignore[assignment]

    def __hash__(self) -> int:
        raise RuntimeError("the value was asked")


class Unhashable:
    __hash__ = None  # type: ignore[assignment]


ODD: list[Any] = [
    True,
    False,
    np.True_,
    None,
    math.nan,
    math.inf,
    -math.inf,
    1.0,
    np.float64(1),
    Fraction(1),
    Decimal(1),
    1j,
    [],
    {},
    set(),
    b"smile",
    bytearray(b"smile"),
    Unhashable(),
    object(),
    10**400,
    -(10**400),
    np.int64(-1),
    np.uint64(2**64 - 1),
    "",
    "SMILE",
    "smile ",
    "sm\u0131le",
    "\ud800",
    "cry\0",
    np.array([1]),
    np.array(1),
    np.datetime64("NaT"),
    pa.scalar(1),
    type,
    ...,
]


@pytest.mark.parametrize("value", ODD, ids=lambda v: type(v).__name__)
def test_odd_values_count_as_the_default(value: Any) -> None:
    assert EMOJI.place(value) == 2 and NUMBERS.place(value) == 3
    assert EMOJI.places([value, "wink"]).tolist() == [2, 1] and NUMBERS.places([value, 4]).tolist() == [3, 4]


def test_values_with_methods_of_their_own_are_not_asked() -> None:
    assert EMOJI.place(Nasty("wink")) == 1 and EMOJI.place(Nasty("none")) == 2
    assert NUMBERS.place(NastyNumber(5)) == 5 and NUMBERS.place(NastyNumber(50)) == 3 and EMOJI.place(NastyNumber(7)) == 4


def test_whole_numbers_of_any_type_are_their_number() -> None:
    for kind in (int, np.int8, np.uint8, np.int64, np.uint64):
        assert EMOJI.place(kind(7)) == 4 and EMOJI.place(kind(1)) == 3 and NUMBERS.place(kind(7)) == 7
    assert EMOJI.place(np.str_("cry")) == 2 and EMOJI.place(np.str_("wink")) == 1


@given(st.lists(st.integers() | st.text() | st.floats() | st.booleans() | st.none() | st.binary() | st.lists(st.integers())))
def test_places_are_those_of_one_by_one(values: list[Any]) -> None:
    for protocol in (EMOJI, NUMBERS):
        found = protocol.places(values)
        assert found.tolist() == [protocol.place(v) for v in values] and found.dtype == np.int64


def test_arrays_are_read_as_what_they_hold() -> None:
    numbers = np.array([0, 7, 8, -1, 2**62])
    assert NUMBERS.places(numbers).tolist() == [0, 7, 3, 3, 3] == NUMBERS.places(pa.array(numbers)).tolist()
    assert NUMBERS.places(numbers[:2].astype(np.uint64)).tolist() == [0, 7]
    assert NUMBERS.places(np.array([2**64 - 1, 1], dtype=np.uint64)).tolist() == [3, 1]
    assert EMOJI.places(pa.chunked_array([["wink"], ["smile", None]])).tolist() == [1, 0, 2]
    assert EMOJI.places(np.array(["wink", "x"])).tolist() == [1, 2] and EMOJI.places(np.array([7, 1, 0])).tolist() == [4, 3, 2]
    assert NUMBERS.places(np.ones((2, 2), dtype=np.int64)).tolist() == [3, 3]


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("epsilon", [1, 0.1, math.log(3), Fraction(1, 3), 8])
def test_the_text_comes_back(kind: Any, epsilon: Any, tmp_path: Path) -> None:
    protocol = Protocol(("a", "ü", "\N{GRINNING FACE}", -5, "5"), kind(5, epsilon), 4)
    text = protocol.to_json()
    again = Protocol.from_json(text)
    assert again == protocol and again.to_json() == text and hash(again) == hash(protocol)
    assert protocol.fingerprint == fingerprint(text) and text.isascii()
    protocol.write(tmp_path / "p.json")
    assert Protocol.read(tmp_path / "p.json") == protocol


def test_the_order_of_keys_and_spaces_do_not_matter() -> None:
    found = json.loads(EMOJI.to_json())
    shuffled = json.dumps(dict(reversed(found.items())), indent=3)
    assert Protocol.from_json(shuffled).fingerprint == EMOJI.fingerprint


def test_everything_that_is_decided_is_in_the_fingerprint() -> None:
    made = [
        EMOJI,
        Protocol(EMOJI.values, EMOJI.randomiser, 1),
        Protocol(EMOJI.values, Response(5, 2)),
        Protocol(5, Response(5, 1), 2),
        Protocol(("smile", "wink", "cry", "1", 7), Response(5, 1), 2),
        Protocol(("wink", "smile", "cry", 1, 7), Response(5, 1), 2),
        *(Protocol(5, kind(5, 1)) for kind in ALL),
    ]
    assert len({p.fingerprint for p in made}) == len(made)


TEXT = json.loads(EMOJI.to_json())
DAMAGED: list[Any] = [
    "",
    "{",
    "[]",
    "null",
    "1",
    '"text"',
    "[" * 100_000,
    {},
    {**TEXT, "more": 1},
    {**TEXT, "version": 2},
    {**TEXT, "version": True},
    {**TEXT, "version": 1.0},
    {**TEXT, "values": None},
    {**TEXT, "values": True},
    {**TEXT, "values": []},
    {**TEXT, "values": [[1], 2, 3, 4, 5]},
    {**TEXT, "values": ["a", "a", "b", "c", "d"]},
    {**TEXT, "values": [1, True, 2, 3, 4]},
    {**TEXT, "values": 4},
    {**TEXT, "values": 10**30},
    {**TEXT, "values": [10**30, 1, 2, 3, 4]},
    {**TEXT, "default": 5},
    {**TEXT, "default": -1},
    {**TEXT, "default": True},
    {**TEXT, "default": 1.5},
    {**TEXT, "default": None},
    {**TEXT, "randomiser": []},
    {**TEXT, "randomiser": {"kind": "response"}},
    {**TEXT, "randomiser": {**TEXT["randomiser"], "epsilon": "nan"}},
    {**TEXT, "randomiser": {**TEXT["randomiser"], "epsilon": "1e999999999"}},
    {**TEXT, "randomiser": {**TEXT["randomiser"], "epsilon": None}},
    {**TEXT, "randomiser": {**TEXT["randomiser"], "epsilon": "-1"}},
    {**TEXT, "randomiser": {**TEXT["randomiser"], "size": "5"}},
    {**TEXT, "randomiser": {**TEXT["randomiser"], "size": 10**30}},
    {**TEXT, "randomiser": {**TEXT["randomiser"], "kind": ["response"]}},
    {**TEXT, "randomiser": {"kind": "projective", "size": 5, "epsilon": "1", "order": 2.5, "dimension": 3}},
    {**TEXT, "randomiser": {"kind": "projective", "size": 5, "epsilon": "1", "order": 10**18 + 9, "dimension": 3}},
    {**TEXT, "randomiser": {"kind": "projective", "size": 5, "epsilon": "1", "order": 2, "dimension": 10**9}},
    {**TEXT, "randomiser": {"kind": "local-hash", "size": 5, "epsilon": "1", "symbols": True}},
    {**TEXT, "randomiser": {"kind": "subset", "size": 5, "epsilon": "1", "chosen": "2"}},
]


@pytest.mark.parametrize("text", DAMAGED, ids=lambda t: str(t)[-60:])
def test_damaged_texts_are_refused_in_words(text: Any) -> None:
    with pytest.raises(ParameterError):
        Protocol.from_json(text if isinstance(text, str) else json.dumps(text))


@given(st.binary(max_size=200))
def test_fuzzed_texts_are_refused_in_words(text: bytes) -> None:
    with pytest.raises(ParameterError):
        Protocol.from_json(text)


def test_a_protocol_says_what_it_is() -> None:
    told = frequencies(1000, epsilon=1).describe()
    assert told["values"] == 1000 and told["odds"] == pytest.approx(math.e) and told["bytes"] == 2
