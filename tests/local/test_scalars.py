"""Numbers: laws enumerated in fractions, the specification's variances, unbiased means, refusals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tacit.accounting import Adjacency, ParameterError, account
from tacit.local import (
    Collector,
    Duchi,
    Hybrid,
    LocalLaplace,
    Mean,
    Piecewise,
    ScalarRandomiser,
    as_batch,
    best_scalar,
    frequencies,
    means,
    to_batch,
    to_report,
)
from tacit.mechanisms import verify

POINTS = 2**16 + 1
KINDS = [Duchi, Piecewise, Hybrid, LocalLaplace]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", [0.5, 1, 2.5])
def test_the_enumerated_epsilon_is_the_claim(kind: type[ScalarRandomiser], epsilon: float) -> None:
    randomiser = kind(5, epsilon)
    found = verify(randomiser, itertools.permutations(range(5), 2), epsilon=epsilon)
    assert found.epsilon.upper <= epsilon * (1 + 1e-12)
    assert found.epsilon.lower == pytest.approx(epsilon, rel=1e-9)
    assert account(randomiser.event, Adjacency.REPLACE_ONE).epsilon(0).upper <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_laws_add_up_and_are_unbiased_with_the_stated_spread(kind: type[ScalarRandomiser]) -> None:
    randomiser = kind(9, 1.5)
    for place in range(9):
        law = {outcome: float(low + high) / 2 for outcome, (low, high) in randomiser.distribution(place).items()}
        assert math.fsum(law.values()) == pytest.approx(1, abs=1e-12)
        if kind is LocalLaplace:
            continue  # its tails are merged in the enumeration; its moments are simulated below
        worth = randomiser.worth(np.array(list(law)))
        mean = float(worth @ list(law.values()))
        assert mean == pytest.approx(place / 4 - 1, abs=1e-12)
        assert float(worth**2 @ list(law.values())) - mean**2 == pytest.approx(randomiser.spread(mean), rel=1e-9)


@pytest.mark.parametrize(
    ("kind", "worst"),
    [
        (Duchi, (16.671, 4.6827, 1.7241, 1.0760)),
        (Piecewise, (21.223, 5.2236, 1.2276, 0.24135)),
        (Hybrid, (None, 4.28899, 1.04234, 0.21898)),
        (LocalLaplace, (32.0, 8.0, 2.0, 0.5)),
    ],
)
def test_worst_variances_are_the_specifications(kind: type[ScalarRandomiser], worst: tuple[float, ...]) -> None:
    for epsilon, variance in zip((0.5, 1, 2, 4), worst, strict=True):
        if variance is not None:
            assert kind(POINTS, epsilon).variance(1) == pytest.approx(variance, rel=1e-4)


def test_the_best_is_never_worse_than_the_table() -> None:
    for epsilon, variance in ((0.5, 16.671), (1, 4.28899), (2, 1.04234), (4, 0.21898)):
        assert best_scalar(POINTS, epsilon).variance(1) == pytest.approx(variance, rel=1e-4)
    for epsilon in (0.1, 0.6, 0.62, 1, 3, 8):
        least = min(kind(POINTS, epsilon).variance(1) for kind in KINDS)
        assert best_scalar(POINTS, epsilon).variance(1) <= least * 1.001


def test_the_probability_of_duchis_bit() -> None:
    """P(+1) = (E + 1 + r (E - 1)) / (2 (E + 1)); the variance at .3 is 4.592694."""
    (low, high), e = Duchi(11, 1).distribution(8)[1], math.e
    assert float(low) == pytest.approx((e + 1 + 0.6 * (e - 1)) / (2 * (e + 1)), rel=1e-12)
    assert high >= low
    assert Duchi(POINTS, 1).spread(0.3) == pytest.approx(4.592694, rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("epsilon", [0.5, 2])
def test_drawn_reports_follow_the_law(kind: type[ScalarRandomiser], epsilon: float) -> None:
    """Chi-square of 60,000 reports of one place on a small lattice: limit at 8 deviations, false alarms below 1e-9."""
    randomiser = kind(5, epsilon)
    law = {outcome: float(low) for outcome, (low, _) in randomiser.distribution(1).items()}
    drawn = randomiser.privatise(np.full(60_000, 1)).astype(np.int64)
    assert chi_square(np.clip(drawn, min(law), max(law)), law) < 8
    # a mutant: the window or the noise one place off
    assert chi_square(np.clip(randomiser.privatise(np.full(60_000, 2)).astype(np.int64), min(law), max(law)), law) > 8


def chi_square(drawn: np.ndarray, law: dict[int, float]) -> float:
    """How many deviations the statistic lies above its mean."""
    expected = {outcome: p * len(drawn) for outcome, p in law.items()}
    found = sum((np.count_nonzero(drawn == outcome) - e) ** 2 / e for outcome, e in expected.items() if e > 5)
    cells = sum(e > 5 for e in expected.values()) - 1
    return float((found - cells) / math.sqrt(2 * cells))


@pytest.mark.parametrize("kind", ["duchi", "piecewise", "hybrid", "laplace"])
def test_means_are_right_within_their_intervals(kind: str) -> None:
    """Sixty runs of 4,000 people: means within 5 deviations of the truth, the variance within its own 5 deviations (33%)."""
    protocol = means(bounds=(10, 30), epsilon=1.5, kind=kind)
    values = np.linspace(12, 22, 4000)
    found = []
    for _ in range(60):
        one = Mean.of(Collector(protocol).ingest([to_batch(protocol, values)]))
        low, high = one.interval(0.999999)
        assert low <= 17 <= high
        found.append(one.value)
    randomiser = protocol.randomiser
    assert isinstance(randomiser, ScalarRandomiser)
    spread = np.mean([randomiser.spread(t) for t in (values - 20) / 10]) * 100 / 4000
    assert np.mean(found) == pytest.approx(17, abs=5 * math.sqrt(spread / 60))
    assert abs(np.var(found) / spread - 1) < 5 * math.sqrt(2 / 60)
    assert one.deviation**2 >= spread * 0.98  # stated at the most
    assert not abs(np.mean(found) - 17.5) < 5 * math.sqrt(spread / 60)  # what a biased debiasing would give


def test_what_is_out_of_bounds_only_counts_as_a_bound() -> None:
    protocol = means(bounds=(0, 1), epsilon=8, kind="hybrid")
    sent = [to_report(protocol, value) for value in [float("nan"), None, "a", float("inf"), 10**400, -5, [1]]]
    assert len({len(one) for one in sent}) == 1
    assert Collector(protocol).ingest(sent).n == len(sent)


def test_reports_survive_the_wire_and_impossible_ones_are_dropped() -> None:
    for kind in ("duchi", "piecewise", "hybrid", "laplace"):
        protocol = means(bounds=(0, 1), epsilon=1, kind=kind)
        randomiser = protocol.randomiser
        drawn = randomiser.privatise(np.arange(0, POINTS, 601))
        again, good = randomiser.from_bytes(randomiser.to_bytes(drawn))
        assert good.all()
        assert (again == drawn).all()
        _, good = randomiser.from_bytes(np.full((1, randomiser.width), 255 if kind != "laplace" else 127, dtype=np.uint8))
        assert not good.any()
        one, two = (Collector(protocol).ingest([as_batch(protocol, part)]) for part in (drawn[:50], drawn[50:]))
        assert one.merge(two).n == len(drawn)


def test_questions_that_make_no_sense_are_refused() -> None:
    protocol = means(bounds=(0, 1), epsilon=1)
    collector = Collector(protocol).ingest([to_batch(protocol, [0.5] * 10)])
    with pytest.raises(ParameterError, match="Mean"):
        collector.estimate()
    with pytest.raises(ParameterError, match="means"):
        Mean.of(Collector(frequencies(3, epsilon=1)))
    with pytest.raises(ParameterError, match="two reports"):
        Mean.of(Collector(protocol))
    with pytest.raises(ParameterError):
        frequencies(5, epsilon=1, kind="duchi")
    for wrong in ({"bounds": (1, 0)}, {"bounds": (1,)}, {"bounds": (0, 1), "kind": "unary"}, {"bounds": (0, 1), "points": 10}):
        with pytest.raises(ParameterError):
            means(epsilon=1, **wrong)  # type: ignore[arg-type]


def test_local_laplace_against_response_at_a_million() -> None:
    """Specification 01, 2.1: a bit by Laplace noise .00141421, by response .00095952; in t, which is twice as wide."""
    assert math.sqrt(LocalLaplace(3, 1).spread(0) / 1e6) / 2 == pytest.approx(0.00141421, rel=0.05)  # a lattice of three points
    assert math.sqrt(LocalLaplace(POINTS, 1).spread(0) / 1e6) / 2 == pytest.approx(0.00141421, rel=1e-5)
    assert math.sqrt(Duchi(3, 1).spread(1) / 1e6) / 2 == pytest.approx(0.00095952, rel=1e-4)
