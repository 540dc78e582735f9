"""Floating-point leaks: outputs that only one of two inputs can produce, and low-order bits that follow the input.

Noise drawn as a float and added to a float leaves holes: some floats are reachable from 0 and not from 1, so one
output can give the input away (Mironov 2012). And a sum keeps no finer bits than its larger summand, so trailing zeros
tell how large the input was (Haney, Desfontaines, Hartman, Shrestha and Hay 2022). Every number is looked at as
odd * 2^e: its size and its last bit e together are an output for the black-box search, so what is reported is a lower
bound on epsilon with its confidence, as in any other attack.

>>> last_bits(np.array([1.0, 0.75, 6.0])).tolist()
[0, -2, 1]
>>> from tacit.audit.experiment import generator
>>> coins = generator(5)
>>> naive = lambda true: lambda n: true + coins.laplace(0.0, 1.0, n)  # claims epsilon 1
>>> found = bit_attack(naive(0.0), naive(1.0), 20_000, confidence=0.999)
>>> found.lower > 4
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from tacit.audit.claim import Evidence
from tacit.audit.mechanisms.outputs import Outputs, Sampler
from tacit.audit.mechanisms.search import Terms, attack, certify
from tacit.calculus import Release
from tacit.parameters import count

ZERO, ENDLESS = 5000, 6000  # stand for the last bit of 0, and of infinities and NaN
PRECISION = 53
ENOUGH = 100  # values of one size before its finest bit says something


def numbers(outputs: Outputs) -> NDArray[np.float64]:
    """The numbers in outputs, one for each: the first of a vector, NaN where there is none.

    >>> numbers([1, [2.5, 3.0], None]).tolist()
    [1.0, 2.5, nan]
    """
    if isinstance(outputs, np.ndarray) and outputs.dtype.kind in "biuf":
        return outputs.reshape(len(outputs), -1)[:, 0].astype(np.float64) if outputs.size else np.zeros(0)
    return np.array([_first(value) for value in outputs], dtype=np.float64)


def _first(output: object) -> float:
    value: Any = output.value if isinstance(output, Release) else output
    try:
        flat = np.asarray(value, dtype=np.float64).reshape(-1)
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return float(flat[0]) if flat.size else math.nan


def last_bits(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """The e of odd * 2^e for each number; marks of their own for 0 and for what is not finite."""
    finite = np.isfinite(values)
    fraction, power = np.frexp(np.where(finite, values, 0.0))
    whole = np.abs(np.ldexp(fraction, PRECISION)).astype(np.int64)
    lowest = whole & -whole
    trailing = np.where(lowest > 0, np.log2(np.maximum(lowest, 1).astype(np.float64)), 0.0).astype(np.int64)
    found = power.astype(np.int64) - PRECISION + trailing
    return np.where(finite, np.where(whole == 0, ZERO, found), ENDLESS)


def sizes(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """The k with 2^(k-1) <= |value| < 2^k; 0 for zero and for what is not finite."""
    return np.frexp(np.where(np.isfinite(values), values, 0.0))[1].astype(np.int64)


def codes(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Sign, size and last bit of each number, as one whole number."""
    with np.errstate(invalid="ignore"):
        sign = np.where(np.isnan(values), 0, np.sign(np.where(np.isnan(values), 0.0, values))).astype(np.int64)
    return (sizes(values) * 20_000 + last_bits(values) + 10_000) * 3 + sign + 1


def bit_attack(on_first: Sampler, on_second: Sampler, n: int, **terms: Unpack[Terms]) -> Evidence:
    """A lower bound on epsilon from sign, size and last bit of the outputs alone; `terms` as for `attack`."""

    def coded(sample: Sampler) -> Sampler:
        return lambda k: codes(numbers(sample(k)))

    found = attack(coded(on_first), coded(on_second), n, events="histogram", **terms)
    return replace(found, attack="low-order bits of the output")


def porous_attack(
    on_first: Sampler, on_second: Sampler, n: int, *, step: int = PRECISION, **terms: Unpack[Terms]
) -> Evidence:
    """Mironov's test by name: outputs between 0 and 1/4 that are no multiple of 2^-step, which 1 plus a float cannot be.

    The test is fixed beforehand, so all samples measure it. The second input is the one nearer to 0.
    """

    def off_the_grid(outputs: object) -> NDArray[np.bool_] | bool:
        values = numbers(outputs if isinstance(outputs, np.ndarray) else [outputs])
        found = (values > 0) & (values < 0.25) & (last_bits(values) < -step)
        return found if isinstance(outputs, np.ndarray) else bool(found[0])

    found = certify(off_the_grid, on_first, on_second, n, **terms)
    return replace(found, attack=f"outputs in (0, 1/4) off the multiples of 2^-{step}")


@dataclass(frozen=True)
class Spacing:
    """What the outputs on one input look like: the finest step 2^`step` seen, how many different values, and whether they are floats.

    `floating` says that the finest bit follows the size of the output, as in floating point, and not one lattice; and that values hardly
    ever repeat.
    """

    step: int | None
    distinct: int
    seen: int
    floating: bool

    def __str__(self) -> str:
        if self.floating:
            return "floating point: the finest bit follows the size of the output"
        return f"{self.distinct} different values" + ("" if self.step is None else f", all multiples of 2^{self.step}")


def spacing(outputs: Outputs) -> Spacing:
    """Look at the support of outputs on one input.

    >>> spacing(np.arange(1000) / 4).step, spacing(np.arange(1000) / 4).floating
    (-2, False)
    >>> from tacit.audit.experiment import generator
    >>> spacing(generator(1).normal(size=1000)).floating
    True
    """
    values = numbers(outputs)
    values = values[np.isfinite(values)]
    distinct = len(np.unique(values))
    bits, size = last_bits(values), sizes(values)
    real = bits != ZERO
    if not real.any():
        return Spacing(None, distinct, len(values), False)
    finest = {int(k): int(bits[real & (size == k)].min()) for k in np.unique(size[real]) if int((real & (size == k)).sum()) >= ENOUGH}
    moves = max(finest.values(), default=0) > min(finest.values(), default=0)
    follows = moves and len({e - k for k, e in finest.items()}) <= len(finest) / 2
    return Spacing(int(bits[real].min()), distinct, len(values), follows and distinct > len(values) / 2)


@dataclass(frozen=True)
class FloatReport:
    """Supports on both inputs, and the bound that low bits give."""

    first: Spacing
    second: Spacing
    evidence: Evidence

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is no refutation by itself but has been one elsewhere."""
        found = []
        if self.first.floating or self.second.floating:
            found.append("outputs are floating-point noise, not a lattice: on other inputs low bits may give the input away")
        elif self.first.step != self.second.step and min(self.first.distinct, self.second.distinct) > ENOUGH:
            found.append("the outputs on the two inputs lie on different lattices")
        return tuple(found)


def check_floats(on_first: Sampler, on_second: Sampler, n: int, **terms: Unpack[Terms]) -> FloatReport:
    """Compare the supports of the outputs on two inputs, and attack with their low bits."""
    drawn: list[NDArray[np.float64]] = []

    def kept(sample: Sampler) -> Sampler:
        def call(k: int) -> NDArray[np.float64]:
            drawn.append(numbers(sample(k)))
            return drawn[-1]

        return call

    evidence = bit_attack(kept(on_first), kept(on_second), count("n", n, least=20), **terms)
    return FloatReport(spacing(drawn[0]), spacing(drawn[1]), evidence)
