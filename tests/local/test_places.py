"""Places: a grid, safe zones that are labelled as personalised, and planar Laplace noise with an exact law."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.errors import ParameterError
from tacit.local import (
    Collector,
    PlanarLaplace,
    Protocol,
    SafeZone,
    Taxonomy,
    UniformGrid,
    ZoneAnswers,
    frequencies,
    grid_shares,
    to_batch,
    zone_protocol,
)
from tacit.noise import test_mode as seeded

TOWNS = Taxonomy({"north": {"n1": ["a", "b"], "n2": ["c", "d"]}, "south": ["e", "f"]})


def test_a_grid_takes_any_point_and_raises_for_none() -> None:
    protocol = grid_shares((-10, 10, 0, 5), columns=4, rows=2, epsilon=1)
    grid = protocol.values
    assert isinstance(grid, UniformGrid) and protocol.protects == "any two values"
    points = [(-10, 0), (9.9, 4.9), (1e308, -1e308), (math.inf, 2), (math.nan, 1), None, "a place", (1, 2, 3), (10**400, 0), [0.1, 2.6]]
    assert grid.places(points).tolist() == [0, 7, 3, 3, 0, 0, 0, 0, 0, 6]
    assert grid.cell(7) == (7.5, 3.75)
    assert Protocol.from_json(protocol.to_json()) == protocol
    with seeded(1):
        held = [(-9.0, 1.0)] * 6000 + [(9.0, 4.0)] * 4000
        share = Collector(protocol).ingest([to_batch(protocol, held)]).estimate().share
    assert abs(share[0] - 0.6) < 6 * protocol.randomiser.variance(10_000, 0.6) ** 0.5
    for box in ((1, 0, 0, 1), (0, 1, 0)):
        with pytest.raises(ParameterError):
            grid_shares(box, columns=2, rows=2, epsilon=1)


def test_zones_put_nothing_outside_and_add_up() -> None:
    asked = {("n1", 1): ["a"] * 3000 + ["b"] * 1000, ("north", 2): ["c"] * 2000, ("south", 1): ["e"] * 2000 + ["f"] * 2000}
    collectors = []
    with seeded(2):
        for (zone, epsilon), held in asked.items():
            protocol = zone_protocol(TOWNS, zone, epsilon=epsilon)
            collectors.append(Collector(protocol).ingest([to_batch(protocol, held)]))
    found = ZoneAnswers.of(TOWNS, collectors)
    truth = np.array([3000, 1000, 2000, 0, 2000, 2000])
    assert found.places == tuple("abcdef") and found.n == 10_000
    assert (np.abs(found.count - truth) < 6 * found.deviation).all()
    only = ZoneAnswers.of(TOWNS, collectors[:1])
    assert (only.count[2:] == 0).all() and (only.deviation[2:] == 0).all()  # no mass outside the zone


def test_the_whole_hierarchy_as_a_zone_is_the_plain_protocol() -> None:
    protocol = zone_protocol(TOWNS, "everywhere", epsilon=1)
    assert protocol == frequencies(list("abcdef"), epsilon=1)
    assert protocol.protects == "any two values"
    with seeded(3):
        plain = Collector(protocol).ingest([to_batch(protocol, ["a"] * 500 + ["f"] * 500)])
    np.testing.assert_allclose(ZoneAnswers.of(TOWNS, [plain]).count, plain.estimate().count)


def test_prices_of_one_zone_may_be_pooled() -> None:
    with seeded(4):
        collectors = []
        for epsilon in (0.5, 3):
            protocol = zone_protocol(TOWNS, "n1", epsilon=epsilon)
            collectors.append(Collector(protocol).ingest([to_batch(protocol, ["a"] * 3000 + ["b"] * 1000)]))
    apart, alike = ZoneAnswers.of(TOWNS, collectors), ZoneAnswers.of(TOWNS, collectors, alike=True)
    truth = np.array([6000, 2000])
    assert (alike.deviation[:2] < 0.5 * apart.deviation[:2]).all()
    assert (np.abs(alike.count[:2] - truth) < 6 * alike.deviation[:2]).all()


def test_a_zone_is_labelled_and_its_protocol_survives_as_text() -> None:
    protocol = zone_protocol(TOWNS, "n2", epsilon=1)
    assert isinstance(protocol.values, SafeZone) and protocol.protects == "two places of one safe zone"
    assert Protocol.from_json(protocol.to_json()) == protocol
    assert [protocol.place(v) for v in ("c", "d", "a", None, 3)] == [0, 1, 0, 0, 0]
    with pytest.raises(ParameterError):
        TOWNS.leaves("west")
    with pytest.raises(ParameterError, match="hierarchy"):
        ZoneAnswers.of(TOWNS, [Collector(frequencies(["x", "y"], epsilon=1))])
    for tree in ({"a": ["b", "b"]}, {"a": []}, {"a": {"a": ["b"]}}, {"a": 3}):
        with pytest.raises(ParameterError):
            Taxonomy(tree)


# --- planar Laplace ---


def planar_masses(rate: float, reach: int = 60) -> dict[tuple[int, int], float]:
    """The law on the lattice by summing up, to 1e-15 of its mass for rates of 1 and more."""
    found = {(x, y): math.exp(-rate * math.hypot(x, y)) for x in range(-reach, reach + 1) for y in range(-reach, reach + 1)}
    total = math.fsum(found.values())
    return {place: mass / total for place, mass in found.items()}


@pytest.mark.parametrize("rate", [1.0, 2.0])
def test_the_law_is_the_planar_laplace_law(rate: float) -> None:
    law, n = PlanarLaplace(epsilon=rate, step=1), 4000
    with seeded(11):
        drawn = [law._noise() for _ in range(n)]
    masses = planar_masses(rate)
    cells = [place for place, mass in masses.items() if n * mass >= 20]
    counts = {place: 0 for place in cells}
    for place in drawn:
        if place in counts:
            counts[place] += 1
    rest = n - sum(counts.values())
    expected = [n * masses[place] for place in cells]
    tail = n - sum(expected)
    chi = sum((counts[place] - e) ** 2 / e for place, e in zip(cells, expected, strict=True)) + (rest - tail) ** 2 / tail
    # Wilson and Hilferty: beyond this a right law lies once in 1e6
    degrees = len(cells)
    assert chi < degrees * (1 - 2 / (9 * degrees) + 4.75 * math.sqrt(2 / (9 * degrees))) ** 3
    # a mutant: proposals without acceptance are diamonds, not circles
    slow = rate * 13860 / 19601
    diamond = {p: math.exp(-slow * (abs(p[0]) + abs(p[1]))) for p in masses}
    total = sum(diamond.values())
    wrong = sum((n * diamond[p] / total - n * masses[p]) ** 2 / (n * masses[p]) for p in cells)
    assert wrong > degrees


def test_the_coin_is_exact_at_its_digits() -> None:
    """The chance of acceptance, from enclosures, against mpmath."""
    import mpmath

    law = PlanarLaplace(epsilon=0.7, step=1)
    slow = law._rate * 13860 / 19601
    for x, y in ((1, 0), (1, 1), (7, 3), (40, 41)):
        with mpmath.workdps(40):
            true = mpmath.exp(mpmath.mpf(slow.numerator) / slow.denominator * (x + y) - mpmath.mpf(0.7) * mpmath.sqrt(x * x + y * y))
        assert 0 < true <= 1
        with seeded(x + 100 * y):
            heads = sum(law._accepted(x * x + y * y, slow * (x + y)) for _ in range(1500))
        p = float(true)
        assert abs(heads - 1500 * p) <= 6 * math.sqrt(1500 * p * (1 - p)) + 1


def test_the_mean_distance_is_two_over_epsilon() -> None:
    law, n = PlanarLaplace(epsilon=2, step=0.05), 1500
    with seeded(12):
        distance = [math.hypot(*law.privatise((0.0, 0.0))) for _ in range(n)]
    # a gamma law of shape 2: deviation sqrt(2)/epsilon
    assert abs(np.mean(distance) - law.mean_distance) < 6 * math.sqrt(2) / 2 / math.sqrt(n) + 0.05**2


def test_the_price_grows_with_the_distance_and_covers_rounding() -> None:
    law = PlanarLaplace(epsilon=1, step=0.5)
    assert float(law.event(2).epsilon) == pytest.approx(2 + 0.5 * math.sqrt(2), rel=1e-5)
    assert float(law.event(2).epsilon) >= 2 + 0.5 * math.sqrt(2)
    assert law.protects != "any two values"
    for odd in (None, "x", (math.nan, 1), (math.inf, -math.inf), (10**400, 1), (1, 2, 3)):
        assert len(law.privatise(odd)) == 2
    for bad in ({"epsilon": 0, "step": 1}, {"epsilon": 1, "step": 100}, {"epsilon": 1, "step": 1e-9}):
        with pytest.raises(ParameterError):
            PlanarLaplace(**bad)
