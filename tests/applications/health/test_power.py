"""Sample sizes: the law of normal plus Laplace noise by quadrature, both sizes, and what is refused."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from tacit.applications.health import critical_share, normal_laplace_cdf, sample_size, trial_power
from tacit.errors import ParameterError


@pytest.mark.parametrize("deviation", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("scale", [0.02, 1.0, 7.0])
@pytest.mark.parametrize("x", [-9.0, -0.4, 0.0, 2.5])
def test_the_law_is_that_of_the_sum(x: float, deviation: float, scale: float) -> None:
    """The oracle integrates the Laplace density against the normal distribution function, with 30 digits."""
    with mpmath.workdps(30):
        found = mpmath.quad(
            lambda u: mpmath.exp(-abs(u) / scale) / (2 * scale) * mpmath.ncdf((x - u) / deviation),
            [-mpmath.inf, *sorted({x - 8 * deviation, x, 0.0, x + 8 * deviation}), mpmath.inf],
        )
    assert float(normal_laplace_cdf(x, 0.0, deviation, scale)) == pytest.approx(float(found), abs=2e-9)


def test_the_law_stays_a_law_at_the_ends() -> None:
    for deviation, scale in ((1e-9, 1.0), (1.0, 1e-9), (1e6, 1e-3), (1e-3, 1e6)):
        grid = np.linspace(-50, 50, 2001) * (deviation + scale)
        found = normal_laplace_cdf(grid, 0.0, deviation, scale)
        assert np.isfinite(found).all() and (np.diff(found) >= -1e-13).all() and found[0] < 1e-9 and found[-1] > 1 - 1e-9


def test_more_privacy_more_effect_and_more_power_need_what_they_should() -> None:
    sizes = [sample_size(0.3, 0.1, epsilon=e).private for e in (0.01, 0.1, 1, 10)]
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] > sample_size(0.3, 0.1, epsilon=1).plain
    assert sample_size(0.3, 0.2, epsilon=1).private < sizes[2] < sample_size(0.3, 0.1, epsilon=1, power=0.9).private
    found = sample_size(0.3, 0.1, epsilon=0.2)
    assert trial_power(found.private, 0.3, 0.1, epsilon=0.2) == pytest.approx(0.8, abs=1e-10)
    assert found.people == math.ceil(found.private)
    assert 0.3 < critical_share(found.people, 0.3, 0.1, epsilon=0.2) < 0.4


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((0.5, 0.5), "below 1"), ((0, 0.1), "rate"), ((0.5, -0.1), "effect"), ((math.nan, 0.1), "rate"),
        ((0.5, 0.1, {"epsilon": 0}), "epsilon"), ((0.5, 0.1, {"alpha": 1}), "alpha"),
        ((0.5, 0.1, {"power": 0.01}), "power"), ((0.5, 0.1, {"power": 1}), "power"), ((0.5, 0.1, {"method": "guess"}), "method"),
    ],
)  # fmt: skip
def test_what_is_no_trial_is_refused(arguments: tuple, said: str) -> None:
    *shares, more = (*arguments, {}) if not isinstance(arguments[-1], dict) else arguments
    with pytest.raises(ParameterError, match=said):
        sample_size(*shares, **{"epsilon": 1, **more})
