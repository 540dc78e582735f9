"""Few large losses: the bracket against exact enumeration, the contour where it reaches, and the grid; and mutants that must fail."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting.engines import contour, grid, rare
from tacit.accounting.pairs.mixture import poisson_gaussian, poisson_gaussian_replaced
from tacit.accounting.pairs.pair import Pair, single_delta
from tacit.accounting.pairs.sampled import FixedSizeGaussian
from tacit.errors import ParameterError

PAIRS = {"add/remove": poisson_gaussian, "replace-one": poisson_gaussian_replaced}


def _two_steps(pair: Pair, epsilon: float) -> float:
    """delta of two uses of a mixture pair, by one integral over the first output of the second's closed form."""
    top = max(m for m, _ in pair.up)
    x, w = np.polynomial.legendre.leggauss(40)
    cuts = np.unique([*np.linspace(-8, top + 14, 45), float(pair.invert(np.array([epsilon]))[0])])
    half = 0.5 * np.diff(cuts)[:, None]
    u, weight = (cuts[:-1, None] + half * (1 + x)).ravel(), (half * w).ravel()
    density = sum(v * np.exp(-0.5 * (u - m) ** 2) for m, v in pair.up) / math.sqrt(2 * math.pi)
    left = epsilon - pair.loss(u)
    order = np.argsort(left)
    edges = np.concatenate([[-math.inf], left[order], [math.inf]])
    p, q = (np.cumsum(mass[::-1])[::-1][1:] for mass in pair.masses(edges))
    below_p, below_q = (np.cumsum(mass)[:-1] for mass in pair.masses(edges))
    at = np.exp(left[order])
    # from the nearer end: delta(e) = P(L > e) - e^e Q(L > e) = 1 - e^e + e^e Q(L <= e) - P(L <= e)
    delta = np.where(left[order] >= 0, np.maximum(p - at * q, 0.0), 1 - at + at * below_q - below_p)
    return float(np.dot((density * weight)[order], delta))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("relation", PAIRS)
@pytest.mark.parametrize(("rate", "sigma", "epsilon"), [(1e-4, 0.5, 2.0), (1e-3, 1.0, 0.5), (1e-5, 0.3, 5.0)])
def test_two_steps_are_an_integral(relation: str, rate: float, sigma: float, epsilon: float) -> None:
    pair = PAIRS[relation](rate, sigma)
    truth = _two_steps(pair, epsilon)
    found = rare.bracket(pair, 2, epsilon=epsilon)
    assert found.lower * (1 - 1e-6) <= truth <= found.upper * (1 + 1e-6)
    assert found.width <= 0.02 * found.upper
    # the mutant that forgets one of the two places a jump may have is caught by the same comparison
    assert not found.lower * (1 - 1e-6) <= truth / 2 <= found.upper * (1 + 1e-6)


def test_one_step_is_the_closed_form() -> None:
    pair = poisson_gaussian(1e-4, 1.0)
    found = rare.bracket(pair, 1, epsilon=0.3)
    low, high = single_delta(pair, 0.3)
    assert found.lower <= high and low <= found.upper and found.width <= 1e-3 * found.upper


@pytest.mark.parametrize(
    ("rate", "sigma", "steps", "delta"), [(1e-3, 0.9, 1000, 1e-5), (0.01, 1.0, 1000, 1e-20), (1e-4, 0.6, 10**6, 1e-10)]
)
def test_holds_the_truth_where_the_contour_knows_it(rate: float, sigma: float, steps: int, delta: float) -> None:
    pair = poisson_gaussian(rate, sigma)
    truth = contour.epsilon([(pair, steps)], delta)
    found = rare.bracket(pair, steps, delta=delta)
    assert found.lower <= truth.upper and truth.lower <= found.upper


@pytest.mark.parametrize(
    ("pair", "steps", "delta"),
    [
        (poisson_gaussian(1e-4, 0.5), 3, 1e-10),
        (poisson_gaussian_replaced(1e-4, 1.0), 10, 1e-10),
        (FixedSizeGaussian(1e-4, 2.0), 3, 1e-20),
        (FixedSizeGaussian(1e-3, 4.0), 100, 1e-15),
    ],
    ids=["add/remove", "replace-one", "without replacement", "without replacement, more steps"],
)
def test_agrees_with_the_grid(pair: Pair, steps: int, delta: float) -> None:
    found, other = rare.bracket(pair, steps, delta=delta), grid.bracket([(pair, steps)], delta=delta, tolerance=1e-4)
    assert found.lower <= other.upper and other.lower <= found.upper
    assert found.width <= 2e-3 * found.upper


@pytest.mark.parametrize("relation", PAIRS)
def test_far_tails_of_rare_samples_are_narrow_and_grow(relation: str) -> None:
    previous = 0.0
    for steps in (30, 1000, 100_000):
        found = rare.bracket(PAIRS[relation](1e-6, 1.0), steps, delta=1e-30)
        assert 0 < found.lower < found.upper < math.inf
        assert found.width < 0.03 * found.upper
        assert found.upper > previous
        previous = found.lower


def test_leaving_out_the_jumps_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant without its term of one far jump gives an upper end below a certified lower one."""
    pair = poisson_gaussian(1e-6, 1.0)
    honest = rare.bracket(pair, 30, delta=1e-30)
    whole = rare._series
    monkeypatch.setattr(rare, "_series", lambda *given: {j: term for j, term in whole(*given).items() if j != -1})
    assert rare.bracket(pair, 30, delta=1e-30).upper < honest.lower


def test_parts_add_up() -> None:
    pair = FixedSizeGaussian(0.1, 2.0)
    edges = np.linspace(-3, 3, 101)
    pieces = [rare.Restricted(pair, a, b) for a, b in ((-math.inf, 0.5), (0.5, 1.0), (1.0, math.inf))]
    whole = pair.masses(edges)
    for i in (0, 1):
        assert np.allclose(sum(piece.masses(edges)[i] for piece in pieces), whole[i], rtol=1e-12, atol=0)
    assert sum(piece.atoms()[1].sum() for piece in pieces) == pair.atoms()[1].sum()
    assert pieces[1].support() == (0.5, 1.0) and pieces[1].reverse().support() == (-1.0, -0.5)


@settings(max_examples=6)
@given(
    st.floats(-6, -3.3).map(lambda x: 10**x),
    st.floats(0.25, 2.0),
    st.integers(2, 1000),
    st.floats(-20, -6).map(lambda x: 10**x),
    st.sampled_from(sorted(PAIRS)),
)
def test_epsilon_and_delta_are_consistent(rate: float, sigma: float, steps: int, delta: float, relation: str) -> None:
    pair = PAIRS[relation](rate, sigma)
    try:
        found = rare.bracket(pair, steps, delta=delta)
        back = rare.bracket(pair, steps, epsilon=found.upper)
    except rare.UnsupportedError:
        return
    assert 0 <= found.lower <= found.upper
    assert back.lower <= delta * (1 + 1e-9)
    assert found.upper == math.inf or found.width <= 0.25 * found.upper


def test_nothing_to_pay_where_total_variation_fits() -> None:
    assert rare.bracket(poisson_gaussian(1e-6, 1.0), 10, delta=1e-3).upper == 0


def test_asks_for_one_question() -> None:
    with pytest.raises(ParameterError, match="exactly one"):
        rare.bracket(poisson_gaussian(1e-6, 1.0), 10)
