"""Domains place anything and travel as text."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest

from tacit.accounting import ParameterError
from tacit.local import Numbers, Protocol, means
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
