"""Certified grids: the order of hockey-stick curves point by point, mutants that break it, and what grids rely on in pairs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from tacit.accounting.engines import grid
from tacit.accounting.engines.grid import bracket, optimistic, pessimistic
from tacit.accounting.engines.lattice import Lattice, compose
from tacit.accounting.pairs import finite
from tacit.accounting.pairs.laplace import bounded_range, laplace
from tacit.accounting.pairs.mixture import gaussian as normal
from tacit.accounting.pairs.mixture import poisson_gaussian
from tacit.accounting.pairs.pair import Array, Pair, single_delta
from tacit.accounting.pairs.sampled import DrawnGaussian, draw_counts

mp.dps = 30

PAIRS: dict[str, Pair] = {
    "laplace 0.1": laplace(0.1),
    "laplace 3": laplace(3.0),
    "gaussian 0.5": normal(2.0),
    "gaussian 1.2": normal(1 / 1.2),
    "sampled": poisson_gaussian(0.1, 1.0),
    "sampled reversed": poisson_gaussian(0.1, 1.0).reverse(),
    "bounded range": bounded_range(1.3),
    "atoms off the grid": finite.randomised_response(math.sqrt(0.5), 3),
    "profile": finite.from_profile([(0.1, 0.3), (0.55, 0.1), (1.7, 1e-4)]),
    "leaky": finite.leaky_randomised_response(0.77, 0.02),
}


def true_curve(pair: Pair, loss: Array) -> Array:
    """HS at alpha = e^loss, from the masses beyond each loss; a check of the grid, which reads them in cells."""
    values = []
    where, mass = pair.atoms()
    for x in loss.tolist():
        p, q = pair.masses(np.array([x, math.inf]))
        atoms = float(np.sum(np.maximum(-np.expm1(x - where), 0) * mass))
        values.append(float(p[0]) - math.exp(x) * float(q[0]) + atoms + pair.infinite)
    return np.array(values)


def lattice_curve(law: Lattice, loss: Array) -> Array:
    gain = np.maximum(-np.expm1(np.minimum(loss[:, None] - law.losses[None, :], 0.0)), 0.0)
    return np.asarray(gain @ law.p + law.infinite)


def ends(pair: Pair) -> tuple[float, float]:
    low, high = pair.support()
    return max(low, -12.0), min(high, 12.0)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("step", [0.3, 0.037, 0.002])
def test_curves_are_ordered_at_every_alpha(name: str, step: float) -> None:
    pair = PAIRS[name]
    lo, hi = ends(pair)
    offset = float(pair.atoms()[0][0]) if name.startswith("laplace") else 0.0
    above, below = pessimistic(pair, step, lo, hi, offset), optimistic(pair, step, lo, hi, offset)
    rng = np.random.default_rng(3)
    near = rng.choice(above.losses, 150) + rng.uniform(-step, step, 150)  # inside cells, between the grid points
    loss = np.concatenate([np.linspace(lo - 0.5, hi + 0.5, 401), near, above.losses[:: max(1, len(above.p) // 200)]])
    truth, upper, lower = true_curve(pair, loss), lattice_curve(above, loss), lattice_curve(below, loss)
    slack = 1e-14 * (1 + np.exp(np.minimum(loss, 0)))
    assert np.all(upper >= truth - slack)
    assert np.all(lower <= truth + slack)
    assert np.all(above.p >= 0)
    assert np.all(below.p >= 0)
    assert above.p.sum() + above.infinite >= 1 - 1e-13
    assert below.p.sum() + below.infinite <= 1 + 1e-13
    # and they are close: of second order where the step is small against the law
    if step == 0.002 and name not in ("atoms off the grid", "profile", "leaky"):
        assert np.max(upper - lower) < 20 * step**2


def gaussian_tails(mu: float, x: mpf) -> tuple[mpf, mpf]:
    return mp.ncdf(mpf(mu) / 2 - x / mpf(mu)), mp.ncdf(-mpf(mu) / 2 - x / mpf(mu))


def sampled_tails(q: float, sigma: float, x: mpf) -> tuple[mpf, mpf]:
    output = mpf("0.5") + mpf(sigma) ** 2 * mp.log((mp.exp(x) - 1 + mpf(q)) / mpf(q))
    below = mp.ncdf(-output / mpf(sigma))
    return (1 - mpf(q)) * below + mpf(q) * mp.ncdf((1 - output) / mpf(sigma)), below


def laplace_tails(theta: float, x: mpf) -> tuple[mpf, mpf]:
    return -mp.expm1((x - theta) / 2) / 2, mp.exp(-mpf(theta) / 2) * (mp.exp(-x / 2) - mp.exp(-mpf(theta) / 2)) / 2


@pytest.mark.parametrize(
    ("pair", "tails", "lo", "hi"),
    [
        (normal(1.0), lambda x: gaussian_tails(1.0, x), -8, 9),
        (normal(0.5), lambda x: gaussian_tails(2.0, x), -16, 20),
        (poisson_gaussian(0.01, 1.0), lambda x: sampled_tails(0.01, 1.0, x), -0.009, 6),
        (poisson_gaussian(0.3, 2.0), lambda x: sampled_tails(0.3, 2.0, x), -0.3, 5),
        (laplace(0.01), lambda x: laplace_tails(0.01, x), -0.01, 0.00999),
        (laplace(5.0), lambda x: laplace_tails(5.0, x), -5, 4.99),
    ],
)
def test_pairs_keep_the_accuracy_grids_rely_on(pair: Pair, tails: Callable[[mpf], tuple[mpf, mpf]], lo: float, hi: float) -> None:
    for x in np.linspace(lo, hi, 40).tolist():
        p, q = (mpf(float(mass[0])) for mass in pair.masses(np.array([x, math.inf])))
        true_p, true_q = tails(mpf(x))
        alpha = mp.exp(mpf(x))
        assert abs((p - alpha * q) - (true_p - alpha * true_q)) <= grid.TAIL_ERROR * (true_p + alpha * true_q)


@pytest.mark.parametrize("name", ["laplace 3", "gaussian 0.5", "sampled", "bounded range"])
def test_connect_the_dots_keeps_both_masses(name: str) -> None:
    pair = PAIRS[name]
    lo, hi = ends(pair)
    law = pessimistic(pair, 0.05, lo, hi, -lo)
    assert law.p.sum() + law.infinite == pytest.approx(1, abs=1e-12)
    assert np.dot(law.p, np.exp(-law.losses)) == pytest.approx(1, abs=1e-11)
    points = law.losses[:: len(law.p) // 20]
    assert lattice_curve(law, points) == pytest.approx(true_curve(pair, points), abs=1e-12)


def rounded_down(pair: Pair, step: float, lo: float, hi: float, offset: float) -> Lattice:
    """A mutant of the pessimistic grid: every cell's mass goes to its lower end."""
    safe = pessimistic(pair, step, lo, hi, offset)
    p, _ = pair.masses(safe.losses)
    loss, mass = pair.atoms()
    lowered = np.append(p, 0.0)
    np.add.at(lowered, np.rint((loss - safe.losses[0]) / step).astype(int), mass)
    return Lattice(step, offset, safe.start, lowered, pair.infinite)


def test_unsafe_rounding_breaks_the_upper_bound() -> None:
    pair = laplace(1.0)
    truth = bracket([(pair, 50)], delta=1e-5)
    safe, unsafe = (compose([(make(pair, 0.01, -1, 1, -1.0), 50)]).epsilon(1e-5) for make in (pessimistic, rounded_down))
    assert safe.upper >= truth.upper - 1e-7
    assert unsafe.upper < truth.lower


def test_chords_without_lowering_break_the_lower_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = laplace(1.0)
    truth = bracket([(pair, 50)], delta=1e-5)
    assert compose([(optimistic(pair, 0.05, -1, 1, -1.0), 50)]).epsilon(1e-5).lower <= truth.lower + 1e-7
    monkeypatch.setattr(grid, "_gaps", lambda cells, upper, width, slack: np.zeros_like(upper))
    mutant = optimistic(pair, 0.05, -1, 1, -1.0)
    assert compose([(mutant, 50)]).epsilon(1e-5).lower > truth.upper


def test_both_errors_are_of_second_order() -> None:
    pair, count = laplace(1.0), 100
    truth = bracket([(pair, count)], delta=1e-6, tolerance=1e-8)
    errors = []
    for cells in (100, 200, 400):
        law = [(make(pair, 1 / cells, -1, 1, -1.0), count) for make in (optimistic, pessimistic)]
        errors.append((truth.lower - compose([law[0]]).epsilon(1e-6).lower, compose([law[1]]).epsilon(1e-6).upper - truth.upper))
    for coarse, fine in pairwise(errors):
        assert 3.5 < coarse[0] / fine[0] < 4.5
        assert 3.8 < coarse[1] / fine[1] < 4.2



@given(st.lists(st.floats(-5, 5), min_size=1, max_size=60), st.randoms(use_true_random=False))
def test_pooling_gives_the_greatest_convex_minorant(values: list[float], random: object) -> None:
    """By the definition: a decreasing fit whose running weighted sum stays above that of the data and meets it at the end of each block."""
    value = np.array(values)
    weight = np.array([random.uniform(0.1, 2) for _ in values])  # type: ignore[attr-defined]
    fit = grid._decreasing(value, weight)
    assert np.all(np.diff(fit) <= 1e-12)
    gap = np.cumsum((fit - value) * weight)
    assert np.all(gap >= -1e-10)
    blocks = np.flatnonzero(np.append(np.abs(np.diff(fit)) > 1e-12, True))
    assert np.all(np.abs(gap[blocks]) < 1e-9)


@given(st.integers(1, 5000))
@settings(max_examples=20)
def test_sums_from_the_right(length: int) -> None:
    x = np.random.default_rng(length).random(length) * np.exp(np.linspace(0, -30, length))
    expected = [math.fsum(x[i:]) for i in range(0, length, 97)]
    assert grid.from_the_right(x)[::97] == pytest.approx(expected, rel=grid._PILE * 2.0**-53)
    x[length // 3 : length // 2] = 0
    flat = grid._tails(x)[length // 3 : length // 2]
    assert np.all(flat == flat[:1])


def test_a_bulk_narrower_than_the_grid_keeps_its_mean_from_below() -> None:
    """A sample of one in a million on a grid of 1e-5: the grid through the bulk's own loss moves it nowhere, another one by half a step."""
    pair, step = poisson_gaussian(1e-6, 1.0), 1e-5
    through = optimistic(pair, step, -1e-6, 0.1, grid.core(pair, step))
    beside = optimistic(pair, step, -1e-6, 0.1, grid.core(pair, step) + 0.4 * step)
    means = [float(law.p @ law.losses) for law in (through, beside)]
    truth = pair.moments(np.zeros(1))[1][0]
    assert means[1] < means[0] <= truth and truth - means[0] < 0.05 * (truth - means[1])
    for epsilon in (1e-7, 1e-5, 1e-3, 0.05):
        assert compose([(through, 1)]).delta(epsilon).upper <= single_delta(pair, epsilon)[1] * (1 + 1e-9)


def exact_delta(mu: float, epsilon: float) -> mpf:
    """delta of a Gaussian pair, in 60 digits: at a loss of 2,400, e^epsilon leaves the range of doubles."""
    with mp.workdps(60):
        away, near = mp.mpf(epsilon) / mu, mp.mpf(mu) / 2
        return mp.ncdf(near - away) - mp.exp(epsilon) * mp.ncdf(-near - away)


@pytest.mark.parametrize("step", [0.25, 2.0, 7.5])
def test_losses_beyond_the_range_of_doubles_are_rounded_outwards(step: float) -> None:
    """Losses of 800 +- 40: the P-mass beyond every point of the grid is at least that of one lattice and at most that of the other."""
    pair = normal(1 / 40)
    low, high = optimistic(pair, step, 300.0, 1300.0, 0.1), pessimistic(pair, step, 300.0, 1300.0, 0.1)
    for loss in np.linspace(610.0, 1290.0, 30):
        beyond = float(mp.ncdf((800 - mpf(float(loss))) / 40))
        assert low.p[low.losses > loss].sum() <= beyond * (1 + 1e-13)
        assert beyond <= high.infinite + high.p[high.losses > loss].sum() * (1 + 1e-13)
        # the mutant that rounds the other way is caught by the same comparison
        assert low.p[low.losses > loss - step].sum() > beyond > high.infinite + high.p[high.losses > loss + step].sum()
    assert low.p.sum() - 1e-12 <= 1 <= high.p.sum() + high.infinite + 1e-12


@pytest.mark.parametrize("epsilon", [1900.0, 2400.0, 2900.0])
def test_large_losses_compose(epsilon: float) -> None:
    found, truth = bracket([(normal(1 / 40), 3)], epsilon=epsilon, tolerance=1e-4), exact_delta(40 * math.sqrt(3), epsilon)
    assert found.lower <= truth <= found.upper
    if epsilon < 2000:  # delta is 1 but for 1e-13, of which a double keeps nothing
        return
    back = bracket([(normal(1 / 40), 3)], delta=float(truth), tolerance=1e-4)
    assert back.lower <= epsilon * (1 + 1e-12) and epsilon <= back.upper * (1 + 1e-12) and back.width <= 2e-3 * epsilon


@pytest.mark.parametrize("step", [1.0, 4.0, 10.0, 25.86])
def test_long_steps_stay_below(step: float) -> None:
    """Where alpha grows by orders of magnitude from point to point and the losses come in bunches, one point must not swamp the next."""
    pair = DrawnGaussian(10.0, draw_counts(10**6, 10**6)[0])
    law = optimistic(pair, step, -70.0, 2000.0, 0.0)
    at = law.losses[law.losses < 590.0]
    true = true_curve(pair, at)
    assert np.all(lattice_curve(law, at) <= true * (1 + 1e-12))
    assert law.p.sum() <= 1 + 1e-12
    # the mutant that is 1 % too heavy is caught by the same comparison
    heavier = replace(law, p=1.01 * law.p)
    assert not (np.all(lattice_curve(heavier, at) <= true * (1 + 1e-12)) and heavier.p.sum() <= 1 + 1e-12)
