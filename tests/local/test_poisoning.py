"""Forged reports move results by the computed gain, and checks find what they say they find."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.local.oracles import ALL, shares, supports

from tacit.accounting import ParameterError
from tacit.local import Hadamard, Projective, Protocol, Randomiser, Response, Unary, forge, forged_for, frequencies, shift, suspicious
from tacit.local.poisoning import most_supported


@pytest.mark.parametrize(
    ("randomiser", "gain"),
    [(Response(2, 1), 1.58198), (Unary(100, 1), 3.16395), (Hadamard(64, 1), 2.16395), (Response(16, 1), 9.72965),
     (Response(128, 1), 74.91104), (Projective(1000, 1, 3, 8), 2.746), (Projective(1000, 1, 4, 6), 3.328)],
)  # fmt: skip
def test_gains_are_the_specifications(randomiser: Response, gain: float) -> None:
    assert randomiser.gain == pytest.approx(gain, rel=2e-3 if isinstance(randomiser, Projective) else 1e-5)


@pytest.mark.parametrize("kind", [each.kind for each in ALL])
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
    assert "are not seen" in suspicious(protocol, forge(protocol, [1], 10)).note
    assert "cannot be told" in suspicious(frequencies(3, epsilon=1), np.zeros(10, dtype=np.uint8)).note
    with pytest.raises(ParameterError, match="how"):
        forge(protocol, [1], 1, "magic")  # type: ignore[arg-type]
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


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("size", [2, 9, 40])
def test_which_reports_support_which_values(kind: Any, size: int) -> None:
    """`supporting` and the collector's own counts agree; halves of other blocks are no support."""
    oracle = kind(size, 2)
    drawn = oracle.privatise(np.arange(60) % size)
    values = np.array([0, size - 1, size // 2])
    alone = np.array([supports(oracle, drawn[k : k + 1])[values] == 1 for k in range(60)])
    assert (oracle.supporting(drawn, values) == alone).all()


@pytest.mark.parametrize(
    ("randomiser", "gain"),
    [(Response(2, 1), 1.582), (Unary(32, 1), 3.164), (Hadamard(32, 1), 2.164), (Projective(40, 1, 3, 4), 2.746), (Response(128, 1), 74.9)],
    ids=lambda each: getattr(each, "kind", ""),
)
def test_the_measured_gain_is_the_formula(randomiser: Randomiser, gain: float) -> None:
    """800,000 honest people and 200,000 forged reports: the target's share moves by the gain within 3%, at least six deviations."""
    protocol, n = Protocol(randomiser.size, randomiser), 1_000_000
    honest = randomiser.privatise(np.arange(4 * n // 5) % randomiser.size)
    found = shares(randomiser, np.concatenate([honest, forge(protocol, [1], n // 5)]))[1] - 0.8 / randomiser.size
    assert found / 0.2 == pytest.approx(gain, rel=0.03) and randomiser.gain == pytest.approx(gain, rel=0.02)
    assert 0.03 * 0.2 * gain > 6 * (randomiser.variance(n) ** 0.5)


@pytest.mark.parametrize("kind", ["unary", "hadamard", "block-hadamard", "projective", "local-hash"])
def test_one_percent_of_naive_forgeries_is_found_and_hidden_ones_are_not(kind: str) -> None:
    """20,000 honest people who all hold one value, the worst for the checks, and 200 forged reports on three targets; chance 1e-6."""
    protocol = frequencies(500, epsilon=1, kind=kind)
    honest = protocol.randomiser.privatise(np.zeros(20_000, dtype=np.int64))
    assert suspicious(protocol, honest).flagged == 0 and suspicious(protocol, honest).values == 0
    for how, least, most in (("maximal", 60, 210), ("hidden", 0, 0), ("random", 0, 0)):
        forged = forge(protocol, [7, 8, 9], 200, how)  # type: ignore[arg-type]
        found = suspicious(protocol, np.concatenate([honest, forged]))
        assert least <= found.flagged <= most, (how, found)
        supported = protocol.randomiser.supporting(forged, np.array([7, 8, 9])).sum() / 200
        if how == "hidden":  # as strong as the naive ones
            assert supported >= 0.9 * min(2.0, most_supported(protocol, 3))
        if how == "random":  # each counts as one person
            spread = (3 * protocol.randomiser.variance(200)) ** 0.5
            assert shares(protocol.randomiser, forged)[7:10].sum() == pytest.approx(1, abs=6 * spread)
    assert shift(protocol, 0.01, 3, "random") == 0.01


def test_a_value_that_more_support_than_can_be_is_counted() -> None:
    protocol = frequencies(100, epsilon=1)
    forged = forge(protocol, [5], 20_000, "hidden")
    found = suspicious(protocol, forged)
    assert found.values >= 1 and suspicious(protocol, forged[:0]).flagged == 0


def test_hidden_subsets_have_their_size() -> None:
    for targets in ([1, 2], list(range(40))):
        protocol = frequencies(50, epsilon=1, kind="subset")
        forged = forge(protocol, targets, 300, "hidden")
        assert protocol.randomiser.from_bytes(protocol.randomiser.to_bytes(forged))[1].all()
        assert protocol.randomiser.supporting(forged, np.array(targets)).sum(axis=1).min() == min(len(targets), 13)
