"""Views: every set is covered, exact without noise, overlaps agree, the greatest entropy is what it is, enumerated epsilon."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tacit.accounting import ParameterError
from tacit.local import Collector, FeatureRows, Protocol, ViewAnswers, Views, means, to_batch, view_shares
from tacit.local.calm import combined, cover, greatest_entropy
from tacit.mechanisms import verify

RNG = np.random.default_rng(6)
SIZES = [2, 3, 2, 2, 4]
ROWS = np.stack([RNG.integers(0, each, 60_000) for each in SIZES], axis=1)
ROWS[:, 2] = np.where(RNG.random(60_000) < 0.7, ROWS[:, 0], ROWS[:, 2])


def plain(features: tuple[int, ...]) -> np.ndarray:
    """The marginal by counting."""
    found = np.zeros([SIZES[each] for each in features])
    np.add.at(found, tuple(ROWS[:, each] for each in features), 1 / len(ROWS))
    return found


@pytest.mark.parametrize(("bits", "order", "most"), [([1] * 10, 3, 5), ([1, 2, 2, 3, 1], 2, 5), ([1] * 9, 2, 4), ([4, 4, 4], 2, 5)])
def test_every_set_is_in_a_view(bits: list[int], order: int, most: int) -> None:
    views = cover(bits, order, most)
    for features in itertools.combinations(range(len(bits)), order):
        assert any(set(features) <= set(view) for view in views)
    largest = max(sum(sorted(bits)[-order:]), most)
    assert all(sum(bits[each] for each in view) <= largest for view in views)
    assert views == cover(bits, order, most)


def test_the_enumerated_epsilon_is_the_claim() -> None:
    randomiser = Views(8, 1, (1, 1, 1), ((0, 1), (1, 2)))
    found = verify(randomiser, itertools.permutations(range(8), 2), epsilon=1)
    assert found.epsilon.lower == pytest.approx(1, rel=1e-9)
    assert found.epsilon.upper <= 1 + 1e-9


def test_without_noise_marginals_are_exact() -> None:
    rows = FeatureRows(tuple(SIZES))
    randomiser = view_shares(SIZES, order=2, epsilon=1).randomiser
    assert isinstance(randomiser, Views)
    places = rows.places(ROWS)
    found = []
    for group, part in enumerate(randomiser.parts):
        found.append((np.bincount(randomiser.mapped(group, places), minlength=part.size) / len(ROWS), 1.0))
    known = combined(rows, randomiser.views, found, len(ROWS))
    for features in itertools.permutations(range(5), 2):
        assert known.marginal(features)[0] == pytest.approx(plain(features), abs=1e-12)


def test_marginals_of_reports() -> None:
    """All cells of all pairs within 6 deviations; overlapping marginals agree exactly; one view's marginal alone is further off."""
    protocol = view_shares(SIZES, order=2, epsilon=2)
    found = ViewAnswers.of(Collector(protocol).ingest([to_batch(protocol, ROWS)]))
    for features in itertools.combinations(range(5), 2):
        table, deviation = found.marginal(features)
        assert deviation is not None
        assert (np.abs(table - plain(features)) < 6 * deviation).all()
    one, two = found.marginal((0, 2))[0].sum(axis=1), found.marginal((0, 3))[0].sum(axis=1)
    assert one == pytest.approx(two, abs=1e-12)
    assert not (np.abs(found.marginal((0, 2))[0] - 0.25) < 6 * (found.marginal((0, 2))[1] or 0)).all()  # independence would be wrong


def test_the_greatest_entropy_of_known_parts() -> None:
    """From two pairs that share a feature it is the product over the shared one; from single features, the product of all."""
    rows = FeatureRows((2, 2, 2))
    truth = np.array([[[0.1, 0.2], [0.05, 0.15]], [[0.2, 0.05], [0.05, 0.2]]])
    pairs = [((0, 1), truth.sum(axis=2)), ((1, 2), truth.sum(axis=0))]
    known = combined(rows, [view for view, _ in pairs], [(table.ravel(), 1.0) for _, table in pairs], 10)
    middle = truth.sum(axis=(0, 2))
    wanted = np.einsum("ab,bc,b->abc", pairs[0][1], pairs[1][1], 1 / middle)
    assert greatest_entropy(known, (0, 1, 2)) == pytest.approx(wanted, abs=1e-9)
    found, deviation = ViewAnswers(known).marginal((0, 2))
    assert deviation is None
    assert found == pytest.approx(np.outer(truth.sum(axis=(1, 2)), truth.sum(axis=(0, 1))), abs=1e-9)


def test_questions_that_make_no_sense_are_refused() -> None:
    protocol = view_shares([2, 2, 2], order=2, epsilon=1)
    assert Protocol.from_json(protocol.to_json()) == protocol
    found = ViewAnswers.of(Collector(protocol).ingest([to_batch(protocol, [(0, 1, 0)] * 100)]))
    for features in ([], [0, 0], [7]):
        with pytest.raises(ParameterError):
            found.marginal(features)
    for wrong in (lambda: view_shares([2, 2], order=3, epsilon=1), lambda: Views(4, 1, (1, 1), ()), lambda: Views(4, 1, (1, 1), ((0, 2),)),
                  lambda: view_shares([2] * 60, order=6, epsilon=1),
                  lambda: ViewAnswers.of(Collector(means(bounds=(0, 1), epsilon=1)))):  # fmt: skip
        with pytest.raises(ParameterError):
            wrong()
