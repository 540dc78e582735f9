"""Attacks on devices: honest ones of every kind stay under their claim and close to it; every way of cheating that is named is found."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tacit import noise
from tacit.audit import audit_reports
from tacit.errors import ParameterError
from tacit.local import Label, LocalHash, Protocol, Response, Unary, frequencies, means, sealed, to_report

KINDS = ["response", "unary", "symmetric-unary", "local-hash", "hadamard", "block-hadamard", "projective", "subset"]
SIX = ("a", "b", "c", "d", "e", "f")


@pytest.mark.parametrize("kind", KINDS)
def test_every_randomiser_keeps_its_claim_and_the_attack_is_strong(kind: str) -> None:
    """A right randomiser is called broken once in 10^6 audits; 70% of its epsilon must be seen, so that a fault would be."""
    found = audit_reports(frequencies(6, epsilon=1, kind=kind), trials=20_000, confidence=1 - 1e-6, seed=2)
    assert not found.broken and found.worst.evidence.lower > 0.7


def test_shuffled_batches_keep_their_claim_and_smaller_ones_do_not() -> None:
    protocol = frequencies(2, epsilon=2)
    found = audit_reports(protocol, crowd=10, trials=20_000, confidence=1 - 1e-6, seed=4)
    assert not found.broken and 0.2 < found.worst.evidence.lower < found.worst.permitted < 2


class Forgetful:
    """Draws anew every day, or after every restart, at the price of one report."""

    def __init__(self, protocol: Protocol, restart: int) -> None:
        self.protocol, self.restart = protocol, restart

    def __call__(self, values: Sequence[Label]) -> list[bytes]:
        found: list[bytes] = []
        for day, value in enumerate(values):
            if day % self.restart == 0:
                kept = to_report(self.protocol, value)[17:]
            found.append(sealed(self.protocol, kept))
        return found


def test_a_year_of_a_device_that_remembers_tells_no_more_than_a_day() -> None:
    protocol = Protocol(SIX, Response(6, 1))
    for restart, broken in ((365, False), (30, True)):
        found = audit_reports(protocol, Forgetful(protocol, restart), days=365, trials=150, values=("a", "f"), seed=1, confidence=0.999)
        assert found.broken == broken


def _nonce(protocol: Protocol, values: Sequence[Label]) -> list[bytes]:
    """The nonce is derived from the value."""
    return [(r := to_report(protocol, v))[:9] + bytes([protocol.place(v)]) * 8 + r[17:] for v in values]


def _length(protocol: Protocol, values: Sequence[Label]) -> list[bytes]:
    """A value that is not the first makes a longer report, which no collector counts."""
    return [to_report(protocol, v) + b"x" * int(protocol.place(v) > 0) for v in values]


def _clear(protocol: Protocol, values: Sequence[Label]) -> list[bytes]:
    """One report in three has the value in it."""
    found = []
    for value in values:
        own = protocol.randomiser.privatise(np.array([protocol.place(value)]))
        if noise.uniform_integers(3) == 0:
            own[:] = protocol.place(value)
        found.append(sealed(protocol, protocol.randomiser.to_bytes(own)[0].tobytes()))
    return found


def _seed(protocol: Protocol, values: Sequence[Label]) -> list[bytes]:
    """The hash function is drawn again until the person's value gets symbol 0, three times at most."""
    oracle, found = protocol.randomiser, []
    assert isinstance(oracle, LocalHash)
    for value in values:
        place = np.array([protocol.place(value)])
        for _ in range(3):
            own = oracle.privatise(place)
            if oracle.hashed(own["a"], own["b"], place.astype(np.uint64))[0] == 0:
                break
        found.append(sealed(protocol, oracle.to_bytes(own)[0].tobytes()))
    return found


def _both_bits(protocol: Protocol, values: Sequence[Label]) -> list[bytes]:
    """The true bit is kept with odds e to 1 instead of evenly."""
    bits = np.zeros((len(values), protocol.size), dtype=bool)
    for row, value in enumerate(values):
        bits[row] = ~noise.odds_bits(1, protocol.size)
        bits[row, protocol.place(value)] = noise.odds_bits(1, 1)[0]
    return [sealed(protocol, row.tobytes()) for row in np.packbits(bits, axis=1)]


@pytest.mark.parametrize(
    ("cheat", "randomiser"),
    [(_nonce, Response(6, 1)), (_length, Response(6, 1)), (_clear, Response(6, 1)), (_seed, LocalHash(6, 1)), (_both_bits, Unary(6, 1))],
)
def test_a_device_that_cheats_is_found(cheat, randomiser) -> None:  # type: ignore[no-untyped-def]
    """Each at 95%; the same device without the fault passes at its usual error."""
    protocol = Protocol(SIX, randomiser)
    trials = 3000 if cheat is _seed else 1200
    assert audit_reports(protocol, lambda values: cheat(protocol, values), trials=trials, values=("a", "b"), seed=5).broken
    assert not audit_reports(
        protocol, lambda values: [to_report(protocol, v) for v in values], trials=500, values=("a", "b"), seed=5, confidence=1 - 1e-6
    ).broken


def test_garbled_reports_are_an_outcome_and_never_an_error() -> None:
    protocol = Protocol(SIX, Response(6, 1))
    assert not audit_reports(protocol, lambda values: [b""] * len(values), trials=200, seed=1).broken
    found = audit_reports(protocol, lambda values: [b"", b"\xff" * 18][: 1 + (values[0] == "a")], trials=200, seed=1)
    assert found.broken


def test_what_is_not_understood_is_refused_by_name() -> None:
    protocol = Protocol(SIX, Response(6, 1))
    with pytest.raises(ParameterError, match="two different values"):
        audit_reports(protocol, values=("a", "unheard of"))
    with pytest.raises(ParameterError, match="days need a device"):
        audit_reports(protocol, days=2)
    with pytest.raises(ParameterError, match="crowd"):
        audit_reports(protocol, lambda values: [], crowd=10)
    with pytest.raises(ParameterError, match="support no single values"):
        audit_reports(means(bounds=(0, 1), epsilon=1))
    assert not audit_reports(protocol, values=("b", "f"), trials=400, seed=1).broken
