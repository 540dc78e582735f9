"""One large loss: the bracket against the reference contour where it works, and against exact mixtures of few steps."""

import math

import pytest

from tacit.accounting import contour, rare
from tacit.accounting.mixture import poisson_gaussian
from tacit.accounting.pairs import single_delta


def test_one_step_is_the_closed_form() -> None:
    pair = poisson_gaussian(1e-4, 1.0)
    found = rare.bracket(pair, 1, 1e-12)
    truth = rare._solve(lambda e: single_delta(pair, e)[1], 1e-12)
    assert found.lower <= truth <= found.upper


@pytest.mark.parametrize(
    ("rate", "sigma", "steps", "delta"), [(1e-3, 0.9, 1000, 1e-5), (0.01, 1.0, 1000, 1e-20), (1e-4, 0.6, 10**6, 1e-10)]
)
def test_holds_the_truth_where_the_contour_knows_it(rate: float, sigma: float, steps: int, delta: float) -> None:
    truth = contour.epsilon([(poisson_gaussian(rate, sigma), steps)], delta)
    found = rare.bracket(poisson_gaussian(rate, sigma), steps, delta)
    assert found.lower <= truth.upper and truth.lower <= found.upper


def test_far_tails_of_rare_samples_are_bracketed() -> None:
    previous = 0.0
    for steps in (30, 1000, 100_000):
        found = rare.bracket(poisson_gaussian(1e-6, 1.0), steps, 1e-30)
        assert 0 < found.lower < found.upper < math.inf
        assert found.upper < 1.4 * found.lower
        assert found.upper > previous
        previous = found.lower


def test_nothing_to_pay_where_total_variation_fits() -> None:
    assert rare.bracket(poisson_gaussian(1e-6, 1.0), 10, 1e-3).upper == 0
