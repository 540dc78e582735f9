"""Contours by number of large losses: against an exact integral, 22-digit truths and other engines; corners; and mutants that must fail."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from tacit.accounting import Gaussian, Poisson, Repeated, Sampled, account
from tacit.accounting.engines import contour, grid, jumps, rare
from tacit.accounting.pairs.mixture import MixturePair, poisson_gaussian, poisson_gaussian_replaced

PAIRS = {"add/remove": poisson_gaussian, "replace-one": poisson_gaussian_replaced}


def _two_steps(rate: float, sigma: float, epsilon: float) -> float:
    """delta of two removals: the first output by Gauss and Legendre, the second by its closed form."""
    mu = 1 / sigma
    lowest = math.log1p(-rate)

    def loss(u: np.ndarray) -> np.ndarray:
        return np.log1p(rate * np.expm1(mu * u - mu * mu / 2))

    def output(loss: np.ndarray) -> np.ndarray:
        return np.log(1 + np.expm1(loss) / rate) / mu + mu / 2

    def once(rest: np.ndarray) -> np.ndarray:
        u = output(np.maximum(rest, lowest + 1e-300))
        above = rate * (norm.sf(u - mu) - norm.sf(u)) - np.expm1(rest) * norm.sf(u)
        return np.where(rest <= lowest, -np.expm1(rest), above)

    x, w = np.polynomial.legendre.leggauss(40)
    # where the second step can no longer make the rest, its curve has a kink
    cuts = np.unique([*np.linspace(-9, mu + 14, 500), float(output(np.array(epsilon - lowest)))])
    half = 0.5 * np.diff(cuts)[:, None]
    u, weight = (cuts[:-1, None] + half * (1 + x)).ravel(), (half * w).ravel()
    density = (1 - rate) * norm.pdf(u) + rate * norm.pdf(u - mu)
    with np.errstate(divide="ignore", invalid="ignore"):
        return math.fsum(density * weight * once(epsilon - loss(u)))


@pytest.mark.parametrize(("rate", "sigma", "epsilon"), [(1e-4, 0.5, 2.0), (1e-3, 1.0, 0.5)])
def test_two_steps_are_an_integral(rate: float, sigma: float, epsilon: float) -> None:
    truth = _two_steps(rate, sigma, epsilon)
    found = jumps.bracket(poisson_gaussian(rate, sigma), 2, epsilon=epsilon)
    # the oracle was the same to 1e-10 with four times as many panels
    assert found.lower * (1 - 1e-9) <= truth <= found.upper * (1 + 1e-9)
    assert found.width <= 1e-7 * found.upper
    # the mutant that forgets one of the two places a jump may have is caught by the same comparison
    assert not found.lower * (1 - 1e-9) <= truth / 2 <= found.upper * (1 + 1e-9)


@pytest.mark.parametrize(
    ("rate", "sigma", "steps", "delta", "truth"),
    [
        (0.01, 1.0, 1000, 1e-20, 6.361700204079350),
        (1e-4, 0.6, 10**6, 1e-10, 3.953464859674381),
        (1e-3, 0.8, 10**5, 1e-10, 4.069167306996267),
    ],
)
def test_truths_of_the_contour(rate: float, sigma: float, steps: int, delta: float, truth: float) -> None:
    found = jumps.bracket(poisson_gaussian(rate, sigma), steps, delta=delta)
    assert found.lower <= truth <= found.upper
    assert found.width <= 1e-7 * truth


@pytest.mark.parametrize(
    ("relation", "rate", "sigma", "steps", "delta"),
    [
        ("add/remove", 1e-6, 0.5, 1000, 1e-15),
        ("add/remove", 1e-5, 3.0, 10, 1e-6),
        ("add/remove", 7.6e-6, 0.9, 10**6, 1.6e-9),
        ("replace-one", 1e-5, 1.0, 10**4, 1e-15),
        ("replace-one", 1e-4, 3.0, 100, 1e-6),
    ],
)
def test_wider_engines_agree(relation: str, rate: float, sigma: float, steps: int, delta: float) -> None:
    pair = PAIRS[relation](rate, sigma)
    found = jumps.bracket(pair, steps, delta=delta)
    other = rare.bracket(pair, steps, delta=delta) if sigma < 3 else grid.bracket([(pair, steps)], delta=delta, tolerance=1e-6)
    assert found.width <= 1e-7 * found.upper
    assert other.lower <= found.upper and found.lower <= other.upper


def test_mutant_without_far_jumps_falls_out_of_the_bracket(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = poisson_gaussian(1e-6, 0.5)
    found = jumps.bracket(pair, 1000, delta=1e-10)

    def nearest(pair: MixturePair, count: int, cuts: jumps._Cuts, level: float) -> jumps._Expansion:
        made = whole(pair, count, cuts, level)
        return jumps._Expansion([t for t in made.terms if all(p.low is None or p.low < cuts.border for p, _ in t.parts)], made.left_out)

    whole = jumps._expand
    monkeypatch.setattr(jumps, "_expand", nearest)
    mutant = jumps.bracket(pair, 1000, delta=1e-10)
    assert mutant.upper < found.lower


def test_parts_that_do_not_add_up_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jumps._Cuts, "below", lambda self, *cuts: (min(cuts) - len(cuts) * self.width,))
    with pytest.raises(contour.Declined):
        jumps.bracket(poisson_gaussian(1e-6, 0.5), 1000, delta=1e-10)


# one case of each kind that used to be wide: (rate, sigma, steps, delta)
CORNERS = [
    (7.6e-6, 0.9, 10**6, 1.6e-9),
    (1e-6, 0.2, 3, 1e-30),
    (1e-5, 100.0, 3, 1e-15),
    (1e-4, 10.0, 1000, 1e-30),
    (1e-4, 1.0, 10**6, 1e-20),
    (2.15895e-06, 61.412, 1, 2.1195e-17),
    (1.13458e-06, 11.3602, 2699452, 1.16738e-27),
]


@pytest.mark.parametrize(("rate", "sigma", "steps", "delta"), CORNERS)
def test_corners_are_narrow(rate: float, sigma: float, steps: int, delta: float) -> None:
    found = account(Repeated(Sampled(Poisson(rate), Gaussian(sigma)), steps)).epsilon(delta)
    assert found.width <= 1e-6 * found.upper


def test_replacements_with_many_middling_jumps() -> None:
    """Losses over three orders of magnitude, each with a band of its own; one grid was 6.5% wide, and the bracket lies inside it."""
    found = jumps.bracket(poisson_gaussian_replaced(1e-6, 0.5), 10**6, delta=1e-3)
    assert 0.0093716803 < found.lower <= found.upper < 0.0100181461
    assert found.width <= 1e-7 * found.upper


def test_what_lies_below_the_floor_raises_the_upper_end_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A floor that cuts off a hundredth of all runs: both ends still hold, and the upper one is off by a hundredth."""
    pair = poisson_gaussian_replaced(1e-4, 1.0)
    close = jumps.bracket(pair, 1000, epsilon=0.05)
    monkeypatch.setattr(jumps, "_FLOOR", 1e-2)
    rough = jumps.bracket(pair, 1000, epsilon=0.05)
    assert rough.lower <= close.upper and close.lower <= rough.upper
    assert rough.width == pytest.approx(0.01 * rough.upper, rel=0.05)


def test_many_large_losses_that_one_step_alone_never_has() -> None:
    """Epsilon 100 takes a handful of draws: one step's delta there is 1e-42, that of 1,000 is 1e-9."""
    found = jumps.bracket(poisson_gaussian(1e-3, 0.2), 1000, epsilon=100.0)
    assert 1.00068827e-9 < found.lower <= found.upper < 1.00071962e-9  # the grid's bracket
    assert found.width <= 1e-7 * found.upper
