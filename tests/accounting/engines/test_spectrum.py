"""Tilted laws against enumeration in mpmath, exact powers of polynomials, and one another."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf

from tacit.accounting.engines import spectrum
from tacit.accounting.engines.lattice import Lattice, compose
from tacit.accounting.engines.spectrum import Points, Tilted, Window, dense, joined, spoiled, tilt
from tacit.errors import UnsupportedError

mp.dps = 50


def tilted(p: list[float], step: float, t: float, count: int, rounding: float = 0.0) -> Tilted:
    masses = np.array(p)
    with np.errstate(divide="ignore"):
        return tilt(masses, np.log(masses), rounding, step, t, count)


def payoff(t: float, y: mpf) -> mpf:
    """exp(-t y) (1 - exp(-y)) above 0."""
    return mp.exp(-mpf(t) * y) * -mp.expm1(-y) if y > 0 else mpf(0)


@pytest.mark.parametrize("p", [[0.5, 0.25, 0.25], [1e-300, 0.0, 1.0], [0.3, 0.7, 1e-280], [1.0]])
@pytest.mark.parametrize("t", [0.0, 0.7, 40.0, 900.0])
def test_weights_are_tilted_masses_within_their_stated_error(p: list[float], t: float) -> None:
    part = tilted(p, 0.75, t, 3)
    raw = [mpf(x) * mp.exp(mpf(t) * mpf(0.75) * (i - part.anchor)) for i, x in enumerate(p)]
    total = mp.fsum(raw)
    for weight, error, x in zip(part.weight, part.error, raw, strict=True):
        assert abs(mpf(float(weight)) - x / total) <= float(error) * x / total + mpf(10) ** -305
    assert abs(mpf(part.level) - mp.log(total)) <= float(part.error.max())
    assert float(part.error.max()) < 1e-11
    assert part.mean == pytest.approx(float(mp.fsum(i * x for i, x in zip(part.index.tolist(), raw, strict=True)) / total), abs=1e-12)


def test_the_relative_error_of_a_composition_covers_every_product() -> None:
    part = tilted([0.25, 0.5, 0.25], 0.1, 1.0, 4, rounding=1e-4)
    relative, share = spoiled([part])
    assert relative >= 4e-4
    assert share in (0.0, math.exp(-spectrum.CUT))
    sure, none = spoiled([tilted([0.25, 0.5, 0.25], 0.1, 1.0, 4)])
    assert sure < 1e-11 and none == 0.0


@pytest.mark.parametrize("x", [-3.0, -0.31, -0.1, 0.0, 0.24])
def test_the_transform_against_an_exact_power(x: float) -> None:
    """The masses of 5 + 3 uses by multiplying out in fractions; the tilted weights are the exact starting point."""
    t, step = 1.5, 0.125
    parts = [tilted([0.25, 0.5, 0.25], step, t, 5), tilted([0.125, 0.875], step, t, 3)]
    law, lowest = [Fraction(1)], 0
    for part in parts:
        weights = [Fraction(float(w)) for w in part.weight]
        for _ in range(part.count):
            longer = [Fraction(0)] * (len(law) + len(weights) - 1)
            for (i, mass), (j, weight) in itertools.product(enumerate(law), enumerate(weights)):
                longer[i + j] += mass * weight
            law = longer
            lowest -= part.anchor
    last = lowest + len(law) - 1
    found, error = dense(parts, t, step, lowest, last, 0.0).payoff(x)
    truth = mp.fsum(mpf(w.numerator) / w.denominator * payoff(t, mpf(step) * (lowest + i) - mpf(x)) for i, w in enumerate(law))
    assert abs(found - truth) <= error < 1e-12


@pytest.mark.parametrize("x", [-4.0, -1.0, 0.2, 1.7, 9.0])
def test_joined_laws_against_all_sums(x: float) -> None:
    t = 0.8
    points = Points(t, np.array([-1.0, 0.5, math.sqrt(2)]), np.array([0.25, 0.5, 0.25]), 0.0)
    window = Window(t, 0.3, -4, np.full(8, 0.125), 0.0, 0.0)
    other = Points(t, np.array([0.0, math.pi / 7]), np.array([0.5, 0.5]), 0.0)
    for laws in ([points, window], [points, other], [points, window, other]):
        rows = [
            [(mpf(float(loss)), mpf(float(mass))) for loss, mass in zip(law.loss, law.mass, strict=True)]
            if isinstance(law, Points)
            else [(mpf(law.step) * (law.first + i), mpf(float(mass))) for i, mass in enumerate(law.mass)]
            for law in laws
        ]
        truth = mp.fsum(mp.fprod(m for _, m in each) * payoff(t, mp.fsum(y for y, _ in each) - mpf(x)) for each in itertools.product(*rows))
        found, error = joined(list(laws)).payoff(x)
        assert abs(found - truth) <= error + 1e-15
        assert error < 1e-12


def test_too_many_sums_are_refused() -> None:
    fine = Points(1.0, np.linspace(0, 1, 2000), np.full(2000, 1 / 2000), 0.0)
    with pytest.raises(UnsupportedError, match="different steps"):
        joined([fine, fine])


@pytest.mark.parametrize("count", [200, 5000])
def test_low_frequencies_agree_with_the_full_transform(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    p = rng.random(40)
    law = Lattice(0.01, -0.2, 0, p / p.sum())
    full = compose([(law, count)])
    monkeypatch.setattr(spectrum, "sparse", lambda *_: None)
    expected = full.epsilon(1e-9)
    monkeypatch.undo()
    sparse = compose([(law, count)])
    tilt = sparse.tilt_for(expected.upper)
    parts = [sparse.factors[0].tilted(tilt)]
    first, last = sparse._window(sparse.groups[0], parts, tilt)
    low, high = (make(parts, tilt, 0.01, first, last, 1e-15) for make in (spectrum.sparse, spectrum.dense))
    assert low is not None
    for x in 0.01 * np.linspace(first, last, 9):
        (value, error), (other, slack) = low.payoff(float(x)), high.payoff(float(x))
        assert abs(value - other) <= error + slack
        assert error + slack < 1e-9
