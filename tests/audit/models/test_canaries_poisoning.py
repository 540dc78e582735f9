from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.audit.toy_models import NoisySum, ridge, toy

from tacit.accounting import ParameterError
from tacit.audit.models.canaries import audit_poisoning, backdoor, group_delta, group_epsilon, joined
from tacit.audit.rates import OperatingPoint, most_true_positives


def model_itself(model: float, poison: object) -> float:
    return model


SURE = 1 - 1e-6


@pytest.mark.parametrize(("records", "floor"), [(1, 0.25), (3, 0.45)])
def test_the_bound_is_for_one_record(records: int, floor: float) -> None:
    """Epsilon 1 a record: the test on the group would say up to `records`, the bound says at most 1.

    Over fifteen seeds the bounds are 0.49 and 0.66 with a deviation of 0.045 and 0.04: the floors lie five of them below.
    """
    found = audit_poisoning(NoisySum(1.0), np.zeros(4), np.ones(records), model_itself, trials=3000, confidence=SURE, seed=2)
    assert floor < found.lower <= 1
    assert found.details["group"] > floor * records


def test_forgetting_the_group_is_caught_by_the_truth() -> None:
    """The mutant: the group's epsilon taken for a record's is above the truth."""
    found = audit_poisoning(NoisySum(1.0), np.zeros(4), np.ones(3), model_itself, trials=3000, confidence=SURE, seed=2)
    assert found.details["group"] > 1


@given(st.floats(0.05, 2.0), st.integers(1, 5), st.sampled_from([0.0, 1e-5, 1e-2]), st.floats(0.01, 0.5))
def test_the_best_test_that_is_permitted_is_not_refuted(epsilon: float, records: int, delta: float, fpr: float) -> None:
    tpr = most_true_positives(fpr, records * epsilon, group_delta(epsilon, delta, records))
    found = group_epsilon(OperatingPoint(fpr, min(1.0, tpr), 0.95), records=records, delta=delta)
    assert found <= epsilon * (1 + 1e-6) + 1e-9
    if tpr < 1:
        assert found == pytest.approx(epsilon, rel=1e-5, abs=1e-7)


@given(st.floats(0.01, 3.0), st.integers(1, 6))
def test_group_delta_is_the_sum_of_steps(epsilon: float, records: int) -> None:
    assert group_delta(epsilon, 1e-6, records) == pytest.approx(
        min(1.0, 1e-6 * sum(math.exp(i * epsilon) for i in range(records))), rel=1e-9
    )


def test_a_backdoor_shows_in_a_model_without_privacy() -> None:
    data = toy(80, columns=6, coins=1)
    label = 1 - int(ridge(data).predict(backdoor(data[0], 0, records=1)[0])[0])
    poison = backdoor(data[0], label, records=3)
    wide = joined(data, poison)
    assert len(wide[1]) == 83
    score = [float(model.predict_proba(poison[0])[0, label]) for model in (ridge(data), ridge(wide))]
    assert score[0] < 0.5 and score[1] > score[0] + 0.3


@pytest.mark.parametrize("kind", [list, tuple, dict], ids=["list", "tuple", "dict"])
def test_joining(kind: type) -> None:
    data = {list: [1], tuple: (np.array([1]),), dict: {"a": np.array([1])}}[kind]
    both = joined(data, data)
    flat = both["a"] if kind is dict else both[0] if kind is tuple else both
    assert list(flat) == [1, 1]


def test_no_poison_is_refused() -> None:
    with pytest.raises(ParameterError, match="poison"):
        audit_poisoning(NoisySum(1.0), np.zeros(4), np.zeros(0), model_itself, trials=10)
