"""Presence bits: flips and prices by enumeration, counts without bias, refusals, an attack and its mutant."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from tests.attacks.attack import lower_bound

from tacit.accounting import Adjacency, account
from tacit.applications.vision import Presence, VisionError, presence_bits, release_tracks
from tacit.ledger import Budget, Ledger


@pytest.mark.parametrize(("keyframes", "epsilon", "flip"), [(10, 5, 0.3775), (10, 1, 0.475), (60, 1, 0.4958)])
def test_flips_of_the_specification(keyframes: int, epsilon: int, flip: float) -> None:
    assert round(Presence(keyframes=keyframes, epsilon=epsilon).flip, 4) == flip


def test_any_two_rows_cost_epsilon_and_some_cost_all_of_it() -> None:
    """All rows of 4 bits and all reports: the largest log-ratio is epsilon, between opposite rows."""
    plan = Presence(keyframes=4, epsilon=3)
    f = plan.flip

    def law(row: tuple[int, ...], report: tuple[int, ...]) -> float:
        return math.prod(1 - f if a == b else f for a, b in zip(row, report, strict=True))

    rows = list(itertools.product((0, 1), repeat=4))
    worst = max(abs(math.log(law(a, r) / law(b, r))) for a in rows for b in rows for r in rows)
    assert worst == pytest.approx(3)
    assert account(plan.event, Adjacency.REPLACE_ONE).epsilon(0).upper == pytest.approx(3)


def test_counts_are_unbiased_and_as_far_off_as_foretold() -> None:
    """400 releases of 200 objects: means within five standard errors, deviations within a tenth (chance about 1e-5)."""
    plan = Presence(keyframes=3, epsilon=3)
    bits = np.zeros((200, 3), dtype=np.int64)
    bits[:150, 0] = bits[:40, 1] = 1
    found = np.array([plan.counts(plan.reports(bits)) for _ in range(400)])
    deviation = plan.deviation(200)
    assert np.abs(found.mean(axis=0) - [150, 40, 0]).max() < 5 * deviation / math.sqrt(400)
    assert np.abs(found.std(axis=0) / deviation - 1).max() < 0.15
    # the mutant: what was seen, as it is
    assert abs(np.mean([plan.reports(bits).sum(axis=0)[1] for _ in range(20)]) - 40) > 20


def test_reports_are_sorted_so_that_no_order_is_told() -> None:
    plan = Presence(keyframes=4, epsilon=200)  # flips that never happen: the order alone would tell
    bits = np.array([[1, 0, 0, 0], [0, 1, 0, 1], [0, 0, 0, 1]])
    for order in itertools.permutations(range(3)):
        assert plan.reports(bits[list(order)]).tolist() == [[0, 0, 0, 1], [0, 1, 0, 1], [1, 0, 0, 0]]


def test_an_object_is_told_apart_by_no_more_than_epsilon() -> None:
    """An object in all frames, or in none: at most epsilon; with epsilon for each bit the attack finds more."""

    def drawn(each: Presence, present: int):  # type: ignore[no-untyped-def]
        def run(n: int) -> list[int]:
            rows = np.full((n, 3), present)
            # n objects, each a release of its own; the sum of its bits is all that tells
            return np.asarray(each.response.privatise(rows.ravel())).reshape(n, 3).sum(axis=1).tolist()

        return run

    right, wrong = Presence(keyframes=3, epsilon=1), Presence(keyframes=1, epsilon=1)
    assert 0.7 < lower_bound(drawn(right, 0), drawn(right, 1), 20_000) <= 1
    assert lower_bound(drawn(wrong, 0), drawn(wrong, 1), 20_000) > 2


def test_bits_come_from_tracks_at_public_frames() -> None:
    by_object = {7: [0, 5, 10], 9: [5], 11: []}
    assert presence_bits(by_object, [0, 10]).tolist() == [[1, 1], [0, 0], [0, 0]]
    pairs = [(7, 0), (7, 10), (9, 5), (7, 10)]
    assert presence_bits(pairs, [0, 10], objects=[9, 7]).tolist() == [[0, 0], [1, 1]]
    for bad in ([], [3, 1], [2, 2]):
        with pytest.raises(VisionError, match="increasing order"):
            presence_bits(pairs, bad)


def test_more_bits_than_the_budget_can_carry_are_refused(tmp_path: Path) -> None:
    plan = Presence(keyframes=60, epsilon=1)
    account = Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}").account("clip", Budget(epsilon=1), unit=plan.unit, adjacency="replace-one")
    with pytest.raises(VisionError, match="use at most 5 key frames"):
        release_tracks(plan, np.zeros((100, 60), int), account=account)
    assert account.spent().known()["pure"] == 0
    fits = Presence(keyframes=plan.carries(100), epsilon=1)
    assert fits.error(100) <= 100 < Presence(keyframes=fits.keyframes + 1, epsilon=1).error(100)
    assert release_tracks(fits, np.zeros((100, 5), int), account=account).entry is not None
    with pytest.raises(VisionError, match="more bits than epsilon"):
        release_tracks(Presence(keyframes=1, epsilon="0.01"), np.zeros((3, 1), int))


def test_wrong_tables_are_refused() -> None:
    for bits in (np.zeros((3, 5), int), np.zeros(4, int), np.zeros((0, 4), int)):
        with pytest.raises(VisionError, match="4 key frames"):
            release_tracks(Presence(keyframes=4, epsilon=8), bits)
    with pytest.raises(VisionError, match="epsilon alone"):
        Presence(keyframes=4, guarantee="rho=1")


def test_a_picture_of_the_counts(tmp_path: Path) -> None:
    released = release_tracks(Presence(keyframes=4, epsilon=8), np.ones((50, 4), int))
    released.plot(true=[50] * 4, path=tmp_path / "counts.png")
    assert (tmp_path / "counts.png").stat().st_size > 5000
