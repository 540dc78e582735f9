"""Forged reports move results by the computed gain, and checks find what they say they find."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.accounting import ParameterError
from tacit.local import Hadamard, Projective, Protocol, Response, Unary, forge, forged_for, frequencies, shift, suspicious
from tacit.local.poisoning import most_supported


@pytest.mark.parametrize(
    ("randomiser", "gain"),
    [(Response(2, 1), 1.58198), (Unary(100, 1), 3.16395), (Hadamard(64, 1), 2.16395), (Response(16, 1), 9.72965),
     (Response(128, 1), 74.91104), (Projective(1000, 1, 3, 8), 2.746), (Projective(1000, 1, 4, 6), 3.328)],
)  # fmt: skip
def test_gains_are_the_specifications(randomiser: Response, gain: float) -> None:
    assert randomiser.gain == pytest.approx(gain, rel=2e-3 if isinstance(randomiser, Projective) else 1e-5)


@pytest.mark.parametrize("kind", ["response", "unary", "hadamard", "projective", "subset", "local-hash", "symmetric-unary"])
def test_one_target_gains_what_is_computed(kind: str) -> None:
    """10% forged of 200,000; the estimate of the target moves by the formula within 3% of it, which is at least eight deviations."""
    protocol = frequencies(32, epsilon=1, kind=kind)
    randomiser, n = protocol.randomiser, 200_000
    table = randomiser.fresh()
    forged = forge(protocol, [5], n // 10)
    randomiser.add(table, forged)
    support = randomiser.support(table, len(forged))[5]
    moved = (support - len(forged) * randomiser.other) / randomiser.gap / n
    assert support == len(forged)
    assert moved == pytest.approx(shift(protocol, 0.1), rel=0.03)


def test_ten_targets_of_unary_reports() -> None:
    """Specification 10, L10: 1% forged reports on 10 targets move their shares by 10 x .01 x 3.164 in sum."""
    protocol = frequencies(100, epsilon=1, kind="unary")
    assert shift(protocol, 0.01, 10) == pytest.approx(10 * 0.01 * 3.16395, rel=1e-4)
    forged = forge(protocol, range(10), 1000)
    table = protocol.randomiser.fresh()
    protocol.randomiser.add(table, forged)
    share = (table[:10] / 1000 - protocol.randomiser.other) / protocol.randomiser.gap
    assert float(share.sum()) == pytest.approx(31.64, rel=1e-3)
    assert forged_for(protocol, 0.3164, 10) == pytest.approx(0.01, rel=1e-3)


def test_naive_unary_forgeries_are_found_and_honest_reports_are_not() -> None:
    protocol = frequencies(500, epsilon=1, kind="unary")
    honest = protocol.randomiser.privatise(np.arange(5000) % 500)
    found = suspicious(protocol, honest)
    assert found.flagged <= 2 and found.expected < 0.01  # Poisson of mean .005: more than two have a chance of 2e-8
    mixed = np.concatenate([honest, forge(protocol, range(10), 50), np.full((3, 63), 255, dtype=np.uint8)])
    assert suspicious(protocol, mixed).flagged - found.flagged == 53


def test_what_cannot_be_seen_is_said() -> None:
    protocol = frequencies(500, epsilon=1)
    assert "cannot be told" in suspicious(protocol, forge(protocol, [1], 10)).note
    with pytest.raises(ParameterError, match="targets"):
        forge(protocol, [500], 1)


def test_searched_forgeries_support_at_most_what_is_said() -> None:
    for kind in ("hadamard", "projective", "local-hash", "subset"):
        protocol = Protocol(64, frequencies(64, epsilon=1, kind=kind).randomiser)
        targets = [1, 2, 4]
        forged = forge(protocol, targets, 1)
        table = protocol.randomiser.fresh()
        protocol.randomiser.add(table, forged)
        assert 1 <= protocol.randomiser.support(table, 1)[targets].sum() <= most_supported(protocol, 3) + 1e-9
