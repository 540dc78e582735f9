"""Five situations in which fair parts make an unfair whole, and one in which OR is fair (Dwork, Ilvento 2019)."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.fairness import FairnessError, all_of, any_of, competing, in_sequence, measured, stages

GROUPS = {"g": ["a", "b"]}
G = ["a"] * 100 + ["b"] * 100
Y = [1] * 200


def gap(accepted: object) -> float:
    return measured(accepted, Y, groups=GROUPS, sensitive_features=G).difference("demographic_parity")  # type: ignore[arg-type]


def by_group(a: float, b: float) -> np.ndarray:
    return np.repeat([a, b], 100)


def half(first: bool) -> np.ndarray:
    """Accept the first or the second half of group a, and the first half of b: each is fair by itself."""
    found = np.zeros(200)
    found[:50] = first
    found[50:100] = not first
    found[100:150] = 1
    return found


def test_and_of_fair_parts() -> None:
    first, second = half(True), half(False)
    assert gap(first) == gap(second) == 0
    assert gap(all_of(first, second)) == pytest.approx(0.5)


def test_or_of_fair_parts_may_fail_and_may_pass() -> None:
    first, second = half(True), half(False)
    assert gap(any_of(first, second)) == pytest.approx(0.5)
    assert gap(any_of(by_group(0.3, 0.3), by_group(0.6, 0.6))) == pytest.approx(0)  # independent coins: fair


def test_two_fair_bidders_compete() -> None:
    """Each bidder is fair; where the first outbids the second mostly in one group's half, the second's picture is unequal."""
    wanted = [half(True), half(False)]
    assert all(gap(one) == 0 for one in wanted)
    won = competing(*wanted)
    assert gap(won[0]) == 0 and gap(won[1]) == pytest.approx(0.5)


def test_a_fair_one_beside_one_that_is_unequal_for_a_reason() -> None:
    """An advertiser for one group, rightly so, crowds out a fair one."""
    won = competing(by_group(0.8, 0.0), by_group(0.5, 0.5))
    assert gap(by_group(0.5, 0.5)) == 0 and gap(won[1]) == pytest.approx(0.4)


def test_small_gaps_multiply_through_stages() -> None:
    one = by_group(0.9, 0.8)
    assert gap(one) == pytest.approx(0.1)
    assert gap(stages(one, lambda there: there * one, lambda there: there * one)) == pytest.approx(0.9**3 - 0.8**3)
    assert gap(all_of(one, one, one)) > 0.2


def test_candidates_in_sequence() -> None:
    same = np.full(200, 0.5)
    assert gap(same) == 0
    assert gap(in_sequence(same, 10)) > 0.05  # group b comes later
    # against simulation
    made, runs = np.random.default_rng(0), 4000
    given = np.zeros(6)
    for _ in range(runs):
        left = 2
        for i, wants in enumerate(made.random(6) < 0.4):
            if wants and left:
                left -= 1
                given[i] += 1
    assert in_sequence(np.full(6, 0.4), 2) == pytest.approx(given / runs, abs=0.03)


@pytest.mark.parametrize("part", [[0.5, 1.2], [[0.5]], [float("nan"), 0]])
def test_chances_are_between_0_and_1(part: list[float]) -> None:
    with pytest.raises(FairnessError):
        all_of(part, part)
    with pytest.raises(FairnessError):
        all_of([0.5], [0.5, 0.5])
