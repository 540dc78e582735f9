"""Vectors: enumerated laws, the specification's tables, unbiased means, and what splitting epsilon loses."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tacit.accounting import Adjacency, ParameterError, account
from tacit.local import (
    BoundedVectors,
    Collector,
    MeanVector,
    PrivUnit,
    Protocol,
    SampledCoordinates,
    ShareOfEpsilonWarning,
    SplitCoordinates,
    UnitVectors,
    cap_share,
    means,
    projected,
    to_batch,
    to_report,
    unit_vectors,
    vector_means,
)
from tacit.mechanisms import verify

POINTS = 2**16 + 1
UNIT = 2**31 + 1


@pytest.mark.parametrize("kind", [SampledCoordinates, SplitCoordinates])
@pytest.mark.parametrize("scalar", ["duchi", "piecewise", "hybrid"])
def test_the_enumerated_epsilon_is_the_claim(kind: type[SampledCoordinates], scalar: str) -> None:
    randomiser = kind(3, 1.25, 2, scalar)
    vectors = list(itertools.product(range(3), repeat=2))
    found = verify(randomiser, itertools.permutations(vectors, 2), epsilon=1.25)
    assert found.epsilon.lower == pytest.approx(1.25, rel=1e-9)
    assert found.epsilon.upper <= 1.25 * (1 + 1e-9)
    assert account(randomiser.event, Adjacency.REPLACE_ONE).epsilon(0).upper <= 1.25 * (1 + 1e-9)


def test_a_sampled_coordinate_has_the_specifications_error() -> None:
    """Specification 01, 2.11: N = 50,000, d = 10, epsilon 1, uniform data: .03049 by theory. Split: .0895, a ratio of 2.93."""
    sampled, split = SampledCoordinates(POINTS, 1, 10, "duchi"), SplitCoordinates(POINTS, 1, 10, "duchi")
    third = math.sqrt(1 / 3)  # the spread is linear in t^2
    assert math.sqrt(sampled.spread(third) / 50_000) == pytest.approx(0.03049, rel=2e-4)
    ratio = math.sqrt(split.inner.spread(third) / sampled.spread(third))
    assert ratio == pytest.approx(2.934, rel=1e-3)
    small = SplitCoordinates(POINTS, 0.001, 10, "duchi").inner.spread(0) / SampledCoordinates(POINTS, 0.001, 10, "duchi").spread(0)
    assert math.sqrt(small) == pytest.approx(math.sqrt(10), rel=1e-3)


def test_the_measured_ratio_at_ten_coordinates() -> None:
    """Ten runs of 5,000 people a form: a hundred squared errors each, so the ratio is within 30% at 4 deviations (7% each)."""
    values = np.linspace(-1, 1, 50_000).reshape(5000, 10)
    error = {}
    for kind in (SampledCoordinates, SplitCoordinates):
        protocol = Protocol(BoundedVectors(10, -1, 1), kind(POINTS, 1, 10, "duchi"))
        runs = [MeanVector.of(Collector(protocol).ingest([to_batch(protocol, values)])).value - values.mean(axis=0) for _ in range(10)]
        error[kind] = math.sqrt(np.mean(np.square(runs)))
    assert error[SampledCoordinates] == pytest.approx(0.03049 * math.sqrt(10), rel=0.25)
    assert 2.97 * 0.7 < error[SplitCoordinates] / error[SampledCoordinates] < 2.97 * 1.3


def test_splitting_epsilon_warns_with_the_factor() -> None:
    with pytest.warns(ShareOfEpsilonWarning, match=r"10 coordinates.*2\.9\d times"):
        protocol = vector_means(10, bounds=(0, 1), epsilon=1, kind="split")
    values = np.tile(np.linspace(0, 1, 10), (4000, 1))
    found = MeanVector.of(Collector(protocol).ingest([to_batch(protocol, values)]))
    assert (np.abs(found.value - values[0]) < 6 * found.deviation).all()


@pytest.mark.parametrize("epsilon", [1, 4])
def test_means_of_vectors_and_their_intervals(epsilon: float) -> None:
    """Coordinates within 6 deviations (a chance of 1e-8 for 20 of them); the mutant that forgets the factor of dimensions fails."""
    protocol = vector_means(5, bounds=(0, 10), epsilon=epsilon)
    values = np.tile([0.0, 2, 5, 9, 10], (60_000, 1))
    collector = Collector(protocol).ingest([to_batch(protocol, values)])
    found = MeanVector.of(collector)
    assert (np.abs(found.value - values[0]) < 6 * found.deviation).all()
    low, high = found.interval(0.999999, together=True)
    assert ((low < values[0]) & (values[0] < high)).all()
    forgotten = 5 + (found.value - 5) / 5
    assert not (np.abs(forgotten - values[0]) < 6 * found.deviation).all()


@pytest.mark.parametrize(
    ("dimensions", "epsilon", "error"),
    [(64, 1, 401.47), (64, 4, 27.149), (64, 8, 7.952), (1024, 1, 6478.3), (1024, 4, 445.05), (1024, 8, 135.54),
     (10_000, 1, 63_297), (10_000, 4, 4352.5), (10_000, 8, 1328.6)],
)  # fmt: skip
def test_privunit_has_the_specifications_error(dimensions: int, epsilon: float, error: float) -> None:
    assert PrivUnit(UNIT, epsilon, dimensions).error == pytest.approx(error, rel=1e-4)


def test_shares_of_caps() -> None:
    for cosine in (-0.9, -0.2, 0.0, 0.3, 0.99):
        assert cap_share(3, cosine) == pytest.approx((1 - cosine) / 2, rel=1e-12)  # Archimedes
    for cosine in (0.1, 0.5):
        angle = math.acos(cosine)
        assert cap_share(4, cosine) == pytest.approx((angle - math.sin(2 * angle) / 2) / math.pi, rel=1e-12)
    assert cap_share(10_000, 0.02) == pytest.approx(0.5 * math.erfc(2 / math.sqrt(2)), rel=1e-3)  # nearly normal


def test_the_odds_leave_room_for_rounding() -> None:
    """What the text proves: inner epsilon plus the logarithm of the ratio of normalisers stays below epsilon, and within 1e-4 of it."""
    for dimensions, epsilon in ((3, 0.1), (64, 4), (10_000, 12)):
        one = PrivUnit(UNIT, epsilon, dimensions)
        inner, q = float(one.inner_epsilon), cap_share(dimensions, one.cosine)
        e = math.exp(inner)
        ratio = math.log1p((e - 1) * (q + one.slack)) - math.log1p((e - 1) * (q - one.slack))
        assert inner + ratio <= epsilon
        assert inner > epsilon * (1 - 1e-4)


@pytest.mark.parametrize(("dimensions", "epsilon"), [(3, 2), (12, 4)])
def test_privunit_is_drawn_right(dimensions: int, epsilon: float) -> None:
    """4,000 directions: the share inside the cap, the mean and the squared error, each within 5 deviations."""
    protocol = unit_vectors(dimensions, epsilon=epsilon)
    one = protocol.randomiser
    assert isinstance(one, PrivUnit)
    own = np.arange(1.0, dimensions + 1)
    own /= np.linalg.norm(own)
    n = 4000
    drawn = one.privatise(protocol.places(np.tile(own * 7, (n, 1)))).astype(float)
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    q, e = cap_share(dimensions, one.cosine), math.exp(epsilon)
    p = e * q / (e * q + 1 - q)
    assert np.mean(drawn @ own >= one.cosine) == pytest.approx(p, abs=5 * math.sqrt(p * (1 - p) / n))
    assert np.mean(drawn @ own >= one.cosine) != pytest.approx(q, abs=5 * math.sqrt(p * (1 - p) / n))  # drawn without the odds
    assert np.mean(np.sum((drawn / one.length - own) ** 2, axis=1)) == pytest.approx(one.error, rel=0.15)
    along = drawn @ own / one.length
    assert np.mean(along) == pytest.approx(1, abs=5 * math.sqrt(one._along / n))
    assert np.var(along) == pytest.approx(one._along, rel=0.15)
    found = MeanVector.of(Collector(protocol).ingest([to_batch(protocol, np.tile(own, (n, 1)))]))
    assert (np.abs(found.value - own) < 6 * found.deviation).all()


def test_a_projection_brings_long_vectors_back() -> None:
    """The mean of 30,000 people's vectors of 40 coordinates through 20: right within noise after the public matrix's own mixing."""
    protocol = projected(40, 20, epsilon=4, family=3)
    own = np.zeros(40)
    own[[2, 7]] = 0.8, -0.6
    found = MeanVector.of(Collector(protocol).ingest([to_batch(protocol, np.tile(own, (30_000, 1)))]))
    assert isinstance(protocol.values, type(projected(40, 20, epsilon=4).values))
    matrix = protocol.values.matrix  # type: ignore[union-attr]
    assert (np.abs(found.value - matrix.T @ matrix @ own) < 6 * found.deviation).all()
    mixed = [projected(40, 20, epsilon=4, family=seed).values.matrix for seed in range(300)]  # type: ignore[union-attr]
    assert np.mean([m.T @ m @ own for m in mixed], axis=0) == pytest.approx(own, abs=5 * 0.23 / math.sqrt(300) + 0.02)


NASTY = [None, "x", [1, 2], [float("nan")] * 4, [float("inf"), 0, 0, 0], [1e308] * 4, [10**400] * 4, {"a": 1}, np.zeros((2, 4)), [0] * 4]


@pytest.mark.parametrize("protocol", [vector_means(4, bounds=(0, 1), epsilon=1), unit_vectors(4, epsilon=2), projected(4, 3, epsilon=1)])
def test_nothing_a_person_holds_raises_or_shows_in_the_length(protocol: Protocol) -> None:
    sent = [to_report(protocol, value) for value in NASTY]
    assert len({len(one) for one in sent}) == 1
    assert Collector(protocol).ingest(sent).n == len(NASTY)
    assert Protocol.from_json(protocol.to_json()).fingerprint == protocol.fingerprint
    places = protocol.places(NASTY)
    assert places.min() >= 0
    assert places.max() < protocol.size
    assert [tuple(row) for row in places.tolist()] == [protocol.place(value) for value in NASTY]


def test_shards_merge_to_the_same_bytes() -> None:
    protocol = unit_vectors(5, epsilon=3)
    batches = [to_batch(protocol, np.random.default_rng(i).normal(size=(50, 5))) for i in range(4)]
    whole = Collector(protocol).ingest(batches).to_bytes()
    one, two = Collector(protocol).ingest(batches[2:]), Collector(protocol).ingest(batches[:2])
    assert one.merge(two).to_bytes() == whole


def test_questions_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ParameterError):
        vector_means(4, bounds=(0, 1), epsilon=1, kind="none")
    with pytest.raises(ParameterError):
        SampledCoordinates(POINTS, 1, 4, "laplace")
    with pytest.raises(ParameterError, match="vector_means"):
        MeanVector.of(Collector(means(bounds=(0, 1), epsilon=1)))
    with pytest.raises(ParameterError, match="MeanVector"):
        Collector(vector_means(4, bounds=(0, 1), epsilon=1)).protocol.randomiser.support(np.zeros(1, dtype=np.int64), 2)
    with pytest.raises(ParameterError):
        UnitVectors(2)
    with pytest.raises(ParameterError):
        PrivUnit(UNIT, 20, 64)


@pytest.mark.parametrize("cosine", [0.2, 0.95, 0.998])
def test_the_deviation_of_a_direction_covers_every_coordinate(cosine: float) -> None:
    """Three dimensions, where a cosine is uniform: spreads along and across by closed form, for caps that are not the best one."""
    one, n, odds = PrivUnit(2**31 + 1, 8, 3, round(cosine * 2**32)), 100, math.exp(8)
    whole = odds * (1 - cosine) / 2 + (1 + cosine) / 2
    length = (odds - 1) * (1 - cosine**2) / 4 / whole
    square = (odds * (1 - cosine**3) + 1 + cosine**3) / 6 / whole
    along, across = square / length**2 - 1, (1 - square) / 2 / length**2
    _, deviation = one.mean(np.zeros(3, dtype=np.int64), n)
    assert deviation == pytest.approx(np.full(3, math.sqrt(max(along, across) / n)), rel=1e-6)
