from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import ParameterError
from tacit.audit.experiment import generator
from tacit.audit.models.roc import most_auc, per_group, per_record_risk, permitted
from tacit.audit.rates import most_true_positives


@given(st.floats(0, 6), st.floats(0, 0.5))
def test_most_area_is_that_under_the_most_permitted_curve(epsilon: float, delta: float) -> None:
    grid = np.linspace(0, 1, 4001)
    area = float(np.trapezoid([most_true_positives(float(a), epsilon, delta) for a in grid], grid))
    assert most_auc(epsilon, delta) == pytest.approx(area, abs=2e-4)  # trapezoids cut the two corners


def test_permitted_figures_grow_with_the_promise() -> None:
    small, large = permitted(0.5, 1e-3), permitted(2.0, 1e-3)
    assert all(small[name] < large[name] for name in small)
    assert most_auc(0) == pytest.approx(0.5) and most_auc(3, 1) == 1


def test_the_exposed_record_is_found() -> None:
    draw = generator(1)
    inside = draw.random((60, 5)) < 0.5
    scores = draw.normal(size=(60, 5))
    scores[:, 3] += 4 * inside[:, 3]
    risk = per_record_risk(scores, inside)
    assert risk.argmax() == 3 and risk[3] > 0.95 and abs(np.delete(risk, 3) - 0.5).max() < 0.3


def test_a_record_never_seen_outside_has_unknown_risk() -> None:
    assert per_record_risk([[1.0], [2.0]], [[True], [True]]).tolist() == [0.5]


def test_groups_without_both_worlds_are_left_out() -> None:
    assert list(per_group([1, 2, 3], [True, False, True], ["a", "a", "b"])) == ["a"]


def test_refusals() -> None:
    with pytest.raises(ParameterError, match="same shape"):
        per_record_risk([[1.0]], [[True, False]])
    with pytest.raises(ParameterError, match="one group"):
        per_group([1, 2], [True, False], ["a"])
