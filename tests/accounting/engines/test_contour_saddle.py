"""The plan: cumulants add, and the saddle-point estimate is near the truth for Gaussians."""

import math

import numpy as np
import pytest

from tacit.accounting.engines.contour import cumulant, plan, search
from tacit.accounting.pairs.mixture import gaussian as noise
from tacit.accounting.pairs.mixture import poisson_gaussian
from tacit.accounting.pairs.pair import upper_levels
from tacit.accounting.theorems import gaussian


def test_cumulants_add_and_bounds_are_above() -> None:
    components = [(noise(2.0), 3), (poisson_gaussian(0.1, 1.0), 5)]
    c = np.array([0.5, 2.0, 7.0])
    table = plan(components, c)
    for i, x in enumerate(c):
        assert table.level[i] == pytest.approx(cumulant(components, float(x)), rel=1e-9)
    assert np.all(upper_levels(components, c) > table.level)


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-15])
def test_saddle_point_estimate_of_a_gaussian(delta: float) -> None:
    table = search([(noise(1.0), 1)], lambda p: p.log_delta > math.log(delta))
    estimate = float(np.interp(-math.log(delta), -table.log_delta, table.epsilon))
    assert estimate == pytest.approx(gaussian.epsilon(1.0, delta), rel=0.05)
