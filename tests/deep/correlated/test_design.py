"""Designed strategies: never better than any can be, hardly worse than the best known, and priced whatever the optimiser did."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.linalg import toeplitz

from tacit.accounting import ParameterError
from tacit.accounting.strategies import SquareRoot, Strategy, Toeplitz, coefficients, matrix_sensitivity, max_error, mean_error, sensitivity
from tacit.deep.correlated.design import banded, buffered


def floor(n: int) -> float:
    """No factorisation A = B C has less error, largest or mean: |A|_tr <= |B|_F |C|_F <= |B|_F sqrt(n) sens(C)."""
    return float(np.linalg.svd(np.tril(np.ones((n, n))), compute_uv=False).sum()) / n


@pytest.mark.parametrize("error", ["max", "mean"])
@pytest.mark.parametrize("n", [32, 200])
def test_one_participation(n: int, error: Any) -> None:
    measure = max_error if error == "max" else mean_error
    root = measure(SquareRoot(n))
    full, light = banded(n, n, error=error), buffered(n, 4, error=error)
    for made in (full, light):
        assert floor(n) <= measure(made) <= root * 1.001
    assert measure(full) <= measure(light) * 1.0001, "all coefficients are free there"
    narrow = [measure(banded(n, b, error=error)) for b in (1, 4, 16, 32)]
    assert narrow == sorted(narrow, reverse=True), "more bands are no worse"
    assert narrow[0] == pytest.approx(measure(Toeplitz([1], n)))


@pytest.mark.parametrize("error", ["max", "mean"])
def test_several_participations(error: Any) -> None:
    n, times, apart = 100, 5, 20
    measure = max_error if error == "max" else mean_error
    band, buffer = (
        banded(n, apart, participations=times, separation=apart, error=error),
        buffered(n, 3, participations=times, separation=apart, error=error),
    )
    for made in (band, buffer):
        assert measure(made, times, apart) < measure(SquareRoot(n), times, apart)
        column = coefficients(made)
        full = np.tril(toeplitz(np.concatenate([column, np.zeros(n - len(column))])))
        assert sensitivity(made, times, apart) == pytest.approx(matrix_sensitivity(full, times, apart, fixed=True), rel=1e-10)


def local_changes(made: Strategy) -> list[Toeplitz]:
    assert isinstance(made, Toeplitz)
    base = [float(c) for c in made.coefficients]
    return [Toeplitz([*base[:j], base[j] + h, *base[j + 1 :]], made.steps) for j in range(1, len(base)) for h in (-0.01, 0.01)]


@pytest.mark.parametrize("error", ["max", "mean"])
def test_no_small_change_helps(error: Any) -> None:
    """The gradient is right: a wrong one would stop elsewhere."""
    measure = max_error if error == "max" else mean_error
    made = banded(60, 6, participations=6, separation=10, error=error)
    assert all(measure(other, 6, 10) > measure(made, 6, 10) for other in local_changes(made))


def test_parameters_are_single_precision_numbers() -> None:
    made = buffered(50, 2)
    for value in (*made.scales, *made.decays, *banded(50, 5).coefficients):
        assert float(np.float32(value)) == value
    assert sum(made.scales) <= 1


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda: banded(10, 11), "bands"),
        (lambda: banded(10, 6, participations=2, separation=5), "bands"),
        (lambda: banded(10, 0), "bands"),
        (lambda: banded(10, 2, error="median"), "error"),  # type: ignore[arg-type]
        (lambda: buffered(0), "steps"),
        (lambda: buffered(10, 0), "buffers"),
        (lambda: buffered(10, 2, separation=0), "separation"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_refusals(call: Any, names: str) -> None:
    with pytest.raises(ParameterError, match=names):
        call()
