"""Messages are read only in their exact form."""

from __future__ import annotations

import dataclasses
import os

from hypothesis import given
from hypothesis import strategies as st
from tests.federated.rounds import stated

from tacit.federated.secure_sum import wire
from tacit.federated.secure_sum.wire import Phase


def test_the_session_names_everything_that_is_stated() -> None:
    about = stated(9)
    others = {
        "number": 2, "plan": bytes(32), "clients": 10, "fewest": 3, "degree": 6, "threshold": 4, "length": 6, "bits": 16, "signed": True,
    }  # fmt: skip
    assert set(others) == {field.name for field in dataclasses.fields(about)}
    sessions = {about.session, *(dataclasses.replace(about, **{name: value}).session for name, value in others.items())}  # type: ignore[arg-type]
    assert len(sessions) == 10


def test_a_header_is_of_one_session_phase_and_client() -> None:
    about = stated(3)
    message = wire.header(about, Phase.MASKED, 8) + b"body"
    assert wire.body_of(about, Phase.MASKED, 8, message) == b"body"
    assert wire.body_of(about, Phase.UNMASK, 8, message) is None and wire.body_of(about, Phase.MASKED, 9, message) is None
    assert wire.body_of(stated(3, number=2), Phase.MASKED, 8, message) is None


@given(st.dictionaries(st.integers(0, 2**64 - 1), st.binary(min_size=3, max_size=3), max_size=8))
def test_lists_are_read_back(rows: dict[int, bytes]) -> None:
    body = wire.listed({client: (value[:1], value[1:]) for client, value in rows.items()})
    assert wire.numbered(body, 1, 2) == {client: (rows[client][:1], rows[client][1:]) for client in sorted(rows)}
    assert wire.numbered(body + b"\0", 1, 2) is None and (not rows or wire.numbered(body[:-1], 1, 2) is None)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_list_or_none(body: bytes) -> None:
    found = wire.numbered(body, 2)
    assert found is None or wire.listed({client: fields for client, fields in found.items()}) == body  # type: ignore[misc]


def test_lists_out_of_order_or_with_repeats_are_none() -> None:
    two = wire.listed({1: (), 2: ()})
    assert wire.numbered(two) == {1: (), 2: ()}
    assert wire.numbered(two[:4] + two[12:20] + two[4:12]) is None and wire.numbered(two[:4] + two[4:12] * 2) is None
    assert wire.numbered(b"\xff\xff\xff\xff" + two[4:]) is None


def test_a_commitment_binds_owner_holder_kind_round_and_value() -> None:
    about, value = stated(3), os.urandom(32)
    base = wire.commitment(about, 1, 2, 0, value)
    others = [
        wire.commitment(about, 2, 1, 0, value),
        wire.commitment(about, 1, 2, 1, value),
        wire.commitment(about, 1, 3, 0, value),
        wire.commitment(stated(3, number=2), 1, 2, 0, value),
        wire.commitment(about, 1, 2, 0, value[::-1]),
    ]
    assert base == wire.commitment(about, 1, 2, 0, value) and base not in others
