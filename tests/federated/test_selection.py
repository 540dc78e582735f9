"""Cohorts: the rule that draws is the rule that is priced."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.errors import ParameterError
from tacit.federated import Arriving, CheckIns, Everyone, FixedCohort, PoissonClients, Separation
from tacit.federated.selection import rule_from_record


def test_poisson_cohorts_have_independent_coins() -> None:
    rule = PoissonClients(50, population=200)
    sizes = np.array([len(rule.cohort(range(200), turn)) for turn in range(400)])
    # Binomial(200, 1/4): mean 50, variance 37.5; five deviations of the estimates over 400 rounds
    assert abs(sizes.mean() - 50) < 5 * (37.5 / 400) ** 0.5 and abs(sizes.var() - 37.5) < 5 * 37.5 * (2 / 400) ** 0.5
    with pytest.raises(ParameterError):
        rule.cohort(range(201), 1)


def test_a_fixed_cohort_is_uniform_over_a_known_population() -> None:
    rule = FixedCohort(3, population=6)
    counts = np.zeros(6)
    for turn in range(600):
        chosen = rule.cohort(range(6), turn)
        assert len(set(chosen)) == 3
        counts[chosen] += 1
    assert np.abs(counts - 300).max() < 5 * 12.3  # Binomial(600, 1/2)
    with pytest.raises(ParameterError):
        rule.cohort(range(5), 1)


def test_check_ins_and_arrivals() -> None:
    rule = CheckIns(5, slots=7)
    drawn = [rule.slot() for _ in range(700)]
    assert set(drawn) == set(range(1, 8)) and max(np.bincount(drawn)) < 100 + 5 * 9.3
    assert Arriving(3, over=1.4).cohort([9, 8, 7, 6, 5], 1) == [9, 8, 7, 6]
    assert Everyone(3).cohort([3, 1, 2], 1) == [1, 2, 3]


def test_separation_admits_nobody_too_early() -> None:
    memory = Separation(5)
    last: dict[int, int] = {}
    for turn in range(1, 60):
        for client in memory.admitted(sorted({turn % 3, turn % 7}), turn):
            assert turn - last.get(client, -100) >= 5
            last[client] = turn


@pytest.mark.parametrize("rule", [Everyone(3), Arriving(3, 1.5), PoissonClients(3, 30), FixedCohort(3, 30), CheckIns(3, 4)], ids=repr)
def test_rules_come_back_from_records(rule: object) -> None:
    assert rule_from_record(rule.to_record()) == rule  # type: ignore[attr-defined]


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(ParameterError):
        rule_from_record({"rule": "Shuffled", "expected": 3})
