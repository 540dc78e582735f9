"""Special functions without scipy: as exact as scipy's, judged by mpmath, and the same whatever is loaded."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import special
from tacit.accounting.theorems import gaussian

UNIT = 2.0**-53


def off(found: float, truth: mpmath.mpf) -> float:
    return abs(float((mpmath.mpf(found) - truth) / truth))


@given(st.floats(-38, 38))
def test_ndtr_is_as_good_as_its_argument(x: float) -> None:
    """A rounding of x / sqrt(2) moves the tail by x^2 units."""
    with mpmath.workdps(60):
        truth = mpmath.ncdf(mpmath.mpf(x))
    if truth > 1e-300:
        assert off(float(special.ndtr(x)), truth) <= (8 + 2 * x * x) * UNIT


@pytest.mark.parametrize(("ours", "theirs"), [(gaussian.erfcx, scipy.special.erfcx), (special.ndtr, scipy.special.ndtr)])
def test_few_and_many_values_agree_with_scipy(ours: Any, theirs: Any) -> None:
    points = np.array([-math.inf, -40.0, -3.0, 0.0, 2.0, 30.0, math.inf, math.nan])
    np.testing.assert_allclose(ours(points), theirs(points), rtol=1e-13)
    many = np.linspace(-20, 40, 1000)
    np.testing.assert_array_equal(ours(many), theirs(many))
    np.testing.assert_allclose(ours(many[:60]), theirs(many[:60]), rtol=1e-13)
    assert ours(np.empty((0, 3))).shape == (0, 3) and ours(np.zeros((2, 5))).shape == (2, 5)
    assert np.ndim(ours(np.array(0.5))) == 0


@pytest.mark.parametrize("name", ["log_ndtr", "ndtri_exp", "gammaln"])
def test_the_rest_is_scipy_s(name: str) -> None:
    points = np.array([-2.0, -0.5]) if name == "ndtri_exp" else np.array([0.5, 2.0, 30.0])
    np.testing.assert_array_equal(getattr(special, name)(points), getattr(scipy.special, name)(points))
    assert special.ndtri(0.975) == scipy.special.ndtri(0.975)
    assert special.logsumexp(points) == scipy.special.logsumexp(points)


def test_transforms_are_scipy_s() -> None:
    values = np.arange(12.0)
    np.testing.assert_allclose(special.irfft(special.rfft(values), 12), values, atol=1e-12)
    assert special.next_fast_len(1021, real=True) == 1024
