"""Marginals: 175 coefficients, exact without noise, agreeing overlaps, the stated variance, enumerated epsilon."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tacit.accounting import ParameterError
from tacit.local import Collector, FeatureRows, HadamardMarginals, MarginalAnswers, Protocol, marginal_shares, means, to_batch, to_report
from tacit.mechanisms import verify

ROWS = np.stack([np.arange(60_000) % 2, np.arange(60_000) % 3 // 2, np.arange(60_000) % 5, np.arange(60_000) // 40_000], axis=1)


def test_the_number_of_coefficients() -> None:
    """Erratum E10: all three-way marginals of ten bits need 175 coefficients and the constant, not C(10, 3) = 120."""
    randomiser = marginal_shares([2] * 10, order=3, epsilon=1).randomiser
    assert randomiser.cells == sum(math.comb(10, k) for k in (1, 2, 3)) == 175
    assert randomiser.cells != math.comb(10, 3)
    e = math.e
    assert randomiser.variance(1000) == pytest.approx(175 * ((e + 1) / (e - 1)) ** 2 / 1000, rel=1e-12)
    assert len(list(itertools.combinations(range(3), 2))) == 3  # two-way marginals of three features
    mixed = marginal_shares([2, 3, 5], order=2, epsilon=1).randomiser
    assert mixed.cells == 1 + 3 + 7 + 3 + 7 + 21


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_enumerated_epsilon_is_the_claim(order: int) -> None:
    randomiser = HadamardMarginals(8, 1.5, (1, 1, 1), order)
    found = verify(randomiser, itertools.permutations(range(8), 2), epsilon=1.5)
    assert found.epsilon.lower == pytest.approx(1.5, rel=1e-9)
    assert found.epsilon.upper <= 1.5 * (1 + 1e-9)


def plain(rows: np.ndarray, sizes: list[int], features: tuple[int, ...]) -> np.ndarray:
    """The marginal by counting."""
    found = np.zeros([sizes[each] for each in features])
    np.add.at(found, tuple(rows[:, each] for each in features), 1 / len(rows))
    return found


def test_without_noise_marginals_are_exact() -> None:
    """Every coefficient as its definition says gives the counted marginals, for features of any size and in any order."""
    sizes = [2, 2, 5, 3]
    domain = FeatureRows(tuple(sizes))
    rows = ROWS.copy()
    rows[:, 3] += rows[:, 0]
    places = domain.places(rows)
    masks = HadamardMarginals(domain.size, 1, domain.bits, 3).masks.tolist()
    theta = {mask: (float(np.mean(1 - 2.0 * (np.bitwise_count(places & mask) % 2))), 0.0) for mask in [0, *masks]}
    found = MarginalAnswers(domain, len(rows), theta)
    for features in [(0,), (2, 1), (3, 0), (1, 2, 3), (3, 2, 0)]:
        assert found.marginal(features)[0] == pytest.approx(plain(rows, sizes, features), abs=1e-12)


def test_marginals_of_reports() -> None:
    """All cells within 6 deviations; the variance over 60 runs within 5 of its own; overlaps agree exactly; a shifted table fails."""
    sizes = [2, 2, 5, 2]
    protocol = marginal_shares(sizes, order=2, epsilon=1)
    cells, deviation = [], 0.0
    for _ in range(60):
        found = MarginalAnswers.of(Collector(protocol).ingest([to_batch(protocol, ROWS[::10])]))
        for features in ((0, 2), (1, 3), (2, 3)):
            table, deviation = found.marginal(features)
            truth = plain(ROWS[::10], sizes, features)
            assert (np.abs(table - truth) < 6 * deviation).all()
            if features == (2, 3):
                cells.append(table - truth)
                one = found.marginal((2,))[0]
    assert np.var(cells) == pytest.approx(deviation**2, rel=5 * math.sqrt(2 / 600) * 2)
    assert np.mean(cells) == pytest.approx(0, abs=5 * deviation / math.sqrt(600) * 2)
    whole = found.marginal((0, 1))[0]
    assert whole.sum(axis=1) == pytest.approx(found.marginal((0,))[0], abs=1e-12)
    assert whole.sum() == pytest.approx(1, abs=1e-12)
    assert one.sum() != pytest.approx(2)


def test_nothing_a_person_holds_raises() -> None:
    protocol = marginal_shares([2, 3], order=2, epsilon=1)
    nasty = [None, (1, 2), (5, 2), [1], "ab", (True, 1), (float("nan"), 2), np.array(3), np.array([1, 2]), {}, (10**30, 1)]
    assert [protocol.place(value) for value in nasty] == [0, 6, 2, 0, 0, 1, 2, 0, 6, 0, 1]
    assert protocol.places(np.array([[1, 2], [5, 2]])).tolist() == [6, 2]
    assert len({len(to_report(protocol, value)) for value in nasty}) == 1
    assert Protocol.from_json(protocol.to_json()) == protocol


def test_questions_that_make_no_sense_are_refused() -> None:
    protocol = marginal_shares([2, 2, 2], order=2, epsilon=1)
    found = MarginalAnswers.of(Collector(protocol).ingest([to_batch(protocol, [(0, 1, 0)] * 10)]))
    for features in ([0, 1, 2], [], [0, 0], [3]):
        with pytest.raises(ParameterError):
            found.marginal(features)
    for wrong in (lambda: marginal_shares([2] * 60, order=30, epsilon=1), lambda: marginal_shares([1, 2], order=1, epsilon=1),
                  lambda: marginal_shares([2], order=2, epsilon=1), lambda: MarginalAnswers.of(Collector(protocol)),
                  lambda: MarginalAnswers.of(Collector(means(bounds=(0, 1), epsilon=1)))):  # fmt: skip
        with pytest.raises(ParameterError):
            wrong()
