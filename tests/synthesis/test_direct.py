"""Given marginals: their noise, what is known beside them, and refusals before any draw."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tacit.accounting import ParameterError
from tacit.synthesis.direct import Direct
from tacit.synthesis.estimate import NoisyMarginal


def test_the_list_is_measured_with_the_whole_budget(run: Any) -> None:
    ran = run(Direct(((0, 1), (1, 2), (3,))), epsilon=5)
    assert [one.columns for one in ran.measuring.measured] == [(0, 1), (1, 2), (3,)]
    assert ran.spent_within_budget()
    assert ran.measuring.left / ran.measuring.whole < 1e-6
    precision = [one.sigma**-2 for one in ran.measuring.measured]
    assert precision[0] / precision[1] == pytest.approx((20 / 15) ** (2 / 3), rel=0.02)
    assert ran.total_variation((0, 1)) < 0.02


def test_what_is_known_costs_nothing(run: Any) -> None:
    table = np.arange(12.0).reshape(6, 2) * 75
    ran = run(Direct((), known=(NoisyMarginal((3, 4), table, 0.1),), enough=0.0))
    assert ran.measuring.events == []
    np.testing.assert_allclose(ran.model.marginal((3, 4)), table, atol=2.0)


def test_refusals_come_before_any_draw(run: Any) -> None:
    for wrong in ((), ((1, 0),), ((0, 0),), ((),)):
        with pytest.raises(ParameterError, match="at least one marginal"):
            Direct(wrong)
    with pytest.raises(ParameterError, match="above the cap"):
        run(Direct(((0, 1, 2, 3, 4),), cap=100))
    with pytest.raises(ParameterError, match="names a column"):
        run(Direct(((0, 9),)))
