"""Domains place anything and travel as text."""

from __future__ import annotations

import json
import sqlite3
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tacit.accounting import ParameterError
from tacit.local import (
    Client,
    Collector,
    Numbers,
    Protocol,
    marginal_shares,
    means,
    range_shares,
    sketched,
    to_batch,
    to_report,
    unit_vectors,
    vector_means,
)
from tacit.local.domain import from_description

INF = float("inf")
NASTY = [None, "x", b"y", True, float("nan"), INF, -INF, 10**400, -(10**400), 1e308, Fraction(1, 3), [], {}, np.float32(2)]


def test_nothing_raises_and_everything_has_a_place() -> None:
    domain = Numbers(-2, 4, points=7)
    places = domain.places(NASTY)
    assert places.tolist() == [3, 3, 3, 3, 3, 6, 0, 6, 0, 6, 2, 3, 3, 4]
    assert [domain.place(value) for value in NASTY] == places.tolist()


def test_rounding_is_to_the_nearest_point() -> None:
    domain = Numbers(0, 1, points=101)
    values = np.linspace(-0.2, 1.2, 1001)
    assert np.abs(domain.places(values) / 100 - np.clip(values, 0, 1)).max() <= 0.005 + 1e-12


def test_a_protocol_of_numbers_travels() -> None:
    protocol = means(bounds=("0.1", Fraction(7, 3)), epsilon=0.7)
    again = Protocol.from_json(protocol.to_json())
    assert again == protocol
    assert again.fingerprint == protocol.fingerprint
    assert means(bounds=(0.1, Fraction(7, 3)), epsilon=0.7).fingerprint == protocol.fingerprint
    other = means(bounds=("0.1", Fraction(8, 3)), epsilon=0.7)
    assert other.fingerprint != protocol.fingerprint


@pytest.mark.parametrize("change", [{"kind": "nothing"}, {"extra": 1}, {"points": 4}, {"upper": {"exact": "0"}}])
def test_a_wrong_description_is_refused(change: dict[str, object]) -> None:
    found = json.loads(means(bounds=(0, 1), epsilon=1).to_json())
    with pytest.raises(ParameterError):
        from_description({**found["values"], **change})
    with pytest.raises(ParameterError):
        Protocol.from_json(json.dumps({**found, "values": {**found["values"], **change}}))


@pytest.mark.parametrize(
    ("protocol", "values"),
    [
        (means(bounds=(0, 1), epsilon=1), (0.25, float("nan"), "x")),
        (vector_means(40, bounds=(0, 1), epsilon=1), ([0.5] * 40, [0.5] * 39 + [0.6], None)),
        (marginal_shares([2, 3], order=2, epsilon=1), ((1, 2), (0, 0), 7)),
        (sketched(epsilon=1), ("a", "b", 3)),
        (range_shares(50, epsilon=1), (3, 4, -1)),
    ],
    ids=lambda each: each.randomiser.kind if isinstance(each, Protocol) else "",
)
def test_a_device_keeps_its_book_for_every_domain(protocol: Protocol, values: tuple[object, ...], tmp_path: Path) -> None:
    """A memorised value gives the same payload again, for nothing; another value is drawn and told apart, also a vector's last number."""
    client = Client(protocol, ledger=tmp_path / "me.db", lifetime="eps=3", values=3)
    first = [client.report(value)[17:] for value in values]
    assert [client.report(value)[17:] for value in values] == first
    memo = sqlite3.connect(tmp_path / "me.db").execute("SELECT value FROM tacit_memo WHERE value <> CAST('paid' AS BLOB)").fetchall()
    assert len(set(memo)) == len({str(protocol.place(value)) for value in values})
    assert Collector(protocol).ingest([client.report(value) for value in values]).n == 3


class Raising(float):
    def __float__(self) -> float:
        raise RuntimeError("looked at")


class RaisingInt(int):
    def __int__(self) -> int:
        raise RuntimeError("looked at")

    __index__ = __float__ = __int__  # type: ignore[assignment]


@pytest.mark.filterwarnings("error")
def test_no_value_raises_or_warns_whatever_its_class_does() -> None:
    nasty = [Raising(3.0), RaisingInt(3), np.longdouble("1e4000"), np.complex128(1 + 1j), np.array([1j, 2j]), [Raising(1.0)] * 2, 10**400]
    vectors = (vector_means(2, bounds=(0, 5), epsilon=1), unit_vectors(3, epsilon=2))
    for protocol in (means(bounds=(0, 10), epsilon=1), *vectors, sketched(epsilon=2)):
        assert len({len(to_report(protocol, value)) for value in nasty}) == 1
        assert to_batch(protocol, nasty).num_rows == len(nasty)
    assert Numbers(0, 10, 11).places([Raising(3.0), RaisingInt(3)]).tolist() == [3, 3]
    assert Numbers(0, 10, 11).places(np.array(["1e4000"], dtype=np.longdouble)).tolist() == [10]
