"""Strategies made to measure: the coefficients with the least error for a number of steps and a way of taking part.

>>> from tacit.accounting import SquareRoot, max_error
>>> made = banded(100, bands=20, participations=5, separation=20)
>>> round(max_error(made, 5, 20), 2), round(max_error(SquareRoot(100), 5, 20), 2)
(7.05, 7.67)

What is optimised is the error of the running sums at a fixed price, the largest (`error="max"`) or the mean (`"mean"`). The price never
rests on the optimiser: whatever it returns, the event is worked out from the coefficients, which are rounded to what 32-bit floats
can hold so that the noise is made with the very numbers that are priced.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Buffered, ParameterError, SquareRoot, Toeplitz, coefficients, inverse_coefficients, sensitivity
from tacit.parameters import count

Array = NDArray[np.float64]
Error = Literal["max", "mean"]


def _checked(steps: int, participations: int, separation: int | None, error: str) -> tuple[int, int, int]:
    if error not in ("max", "mean"):
        raise ParameterError(f"error must be 'max' or 'mean', not {error!r}")
    n = count("steps", steps)
    apart = n if separation is None else count("separation", separation)
    return n, min(count("participations", participations), -(-n // apart)), apart


def _weights(n: int, error: str) -> Array:
    """How often each squared coefficient of A C^-1 counts: in the last running sum, or on average in all."""
    return np.ones(n) if error == "max" else (n - np.arange(n)) / n


def banded(steps: int, bands: int, *, participations: int = 1, separation: int | None = None, error: Error = "max") -> Toeplitz:
    """The best Toeplitz strategy of so many coefficients (Choquette-Choo et al. 2023; McKenna 2024).

    A record that takes part more than once must do so at least `bands` steps apart: then its columns do not meet, and the sensitivity is
    a sum of squares that gradients can be taken of.

    >>> banded(50, bands=1)
    Toeplitz(coefficients=(1,), steps=50)
    """
    n, times, apart = _checked(steps, participations, separation, error)
    bands = count("bands", bands)
    if bands > n or (times > 1 and bands > apart):
        most = min(n, apart) if times > 1 else n
        raise ParameterError(f"bands must be at most {most}, the steps and the separation of participations, not {bands}")
    if bands == 1:
        return Toeplitz((1,), n)
    from scipy.optimize import minimize
    from scipy.signal import lfilter

    seen = np.array([sum(j * apart + m < n for j in range(times)) for m in range(bands)], dtype=np.float64)
    weights, impulse = _weights(n, error), np.zeros(n)
    impulse[0] = 1.0

    def objective(rest: Array) -> tuple[float, Array]:
        column = np.concatenate([[1.0], rest])
        sums = np.cumsum(lfilter([1.0], column, impulse))  # 1 / (c(z) (1 - z))
        slope = lfilter([1.0], column, sums)  # minus its derivative in c_j is z^j / (c(z)^2 (1 - z))
        moved, noise = float(seen @ column**2), float(weights @ sums**2)
        inner = np.array([weights[j:] * sums[j:] @ slope[: n - j] for j in range(1, bands)])
        return math.log(moved) + math.log(noise), 2 * seen[1:] * rest / moved - 2 * inner / noise

    start = coefficients(SquareRoot(bands))[1:]
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=[(0.0, 1.0)] * (bands - 1), options={"maxiter": 300}).x
    best = found if objective(found)[0] <= objective(start)[0] else start
    return Toeplitz((1, *best.astype(np.float32).astype(np.float64).tolist()), n)


def buffered(steps: int, buffers: int = 4, *, participations: int = 1, separation: int | None = None, error: Error = "max") -> Buffered:
    """The best strategy of so many buffers that was found (Dvijotham, McMahan, Pillutla, Steinke, Thakurta 2024).

    >>> from tacit.accounting import max_error
    >>> made = buffered(1000, 3)
    >>> max_error(made) / max_error(SquareRoot(1000)) < 1.03
    True
    """
    n, times, apart = _checked(steps, participations, separation, error)
    d = count("buffers", buffers)
    from scipy.optimize import minimize

    weights = _weights(n, error)

    def strategy(parameters: Array) -> Buffered:
        shares = np.exp(parameters[1 : d + 1] - parameters[1 : d + 1].max())
        scales = shares / shares.sum() / (1 + math.exp(-min(max(parameters[0], -30.0), 30.0)))
        decays = np.minimum(np.exp(-np.exp(np.clip(parameters[d + 1 :], -30.0, 3.0))), 1 - 1e-7)
        return Buffered(tuple((scales * (1 - 1e-6)).tolist()), tuple(decays.tolist()), n)

    def objective(parameters: Array) -> float:
        made = strategy(parameters)
        noise = float(weights @ np.cumsum(inverse_coefficients(made)) ** 2)
        return 2 * math.log(sensitivity.__wrapped__(made, times, apart)) + math.log(noise)

    # a buffer for each magnitude of time, from one step to all of them; scales by the share of the square root's coefficients there
    rates = np.geomspace(1.0, 1.0 / max(n, 2), d) if d > 1 else np.array([0.5])
    start = np.concatenate([[0.0], 0.5 * np.log(rates), np.log(rates)])
    found = minimize(objective, start, method="L-BFGS-B", options={"maxiter": 200}).x
    made = strategy(found if objective(found) <= objective(start) else start)
    single = [np.array(part, dtype=np.float32).astype(np.float64) for part in (made.scales, made.decays)]
    return Buffered(tuple(single[0].tolist()), tuple(np.minimum(single[1], 1 - 2.0**-24).tolist()), n)
