"""Prices: budgets from guarantees, every step admitted by the filter, `max_rows` in each of them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tacit.accounting import Adjacency, Composed, Exponential, Gaussian, Guarantee, ParameterError, exact_rho, squared_mu
from tacit.ledger import BudgetExceeded, price
from tacit.noise import test_mode as seeded
from tacit.synthesis import measure
from tacit.synthesis.measure import Measuring, concentrated_budget, gaussian_budget

RELATION = Adjacency.ADD_REMOVE


def measuring(budget: Guarantee, max_rows: int = 1) -> Measuring:
    return Measuring((2, 3), lambda columns: np.full([(2, 3)[c] for c in columns], 1000), budget, max_rows=max_rows)


@pytest.mark.parametrize(
    ("epsilon", "rho", "gaussian", "concentrated"),
    [(0.1, 0.000177138447, 50.210, 53.129), (1, 0.0149730577, 5.4953, 5.7787), (10, 1.0907857044, 0.65025, 0.67704)],
)
def test_budgets_of_the_specification(epsilon: float, rho: float, gaussian: float, concentrated: float) -> None:
    whole = Guarantee(epsilon=epsilon, delta=1e-9)
    mu, mu_event = gaussian_budget(whole)
    assert float(mu.mu or 0) ** -1 == pytest.approx(gaussian, rel=1e-4)
    stated, rho_event = concentrated_budget(whole)
    assert float(stated.rho or 0) == pytest.approx(rho, abs=5e-11)
    assert (2 * float(stated.rho or 0)) ** -0.5 == pytest.approx(concentrated, rel=1e-4)
    assert whole.admits(mu_event, RELATION)
    assert whole.admits(rho_event, RELATION)


def test_a_pure_guarantee_is_refused() -> None:
    for budget in (gaussian_budget, concentrated_budget):
        with pytest.raises(ParameterError, match="no pure epsilon"):
            budget(Guarantee(epsilon=1))


@pytest.mark.parametrize("max_rows", [1, 5])
def test_every_step_is_priced_for_the_whole_person(max_rows: int) -> None:
    steps = measuring(Guarantee(rho=10), max_rows)
    with seeded(1):
        steps.marginal((0, 1), sigma=10.0)
        steps.noisy_scores(np.array([10, 20, 30]), moved=4, sigma=400.0)
        steps.choose(np.array([0, 50]), moved=2, epsilon=0.5)
    marginal, scores, choice = steps.events
    assert isinstance(marginal, Gaussian)
    assert float(marginal.noise_multiplier) == pytest.approx(10 / max_rows)
    assert isinstance(scores, Gaussian)
    assert float(scores.noise_multiplier) == pytest.approx(400 / (4 * 3**0.5 * max_rows))
    assert choice == Exponential(0.5)  # the mechanism itself is flatter, by max_rows
    paid = price(Composed(*steps.events), ["rho"], RELATION)["rho"]
    assert steps.whole - steps.left == pytest.approx(float(2 * paid))


def test_the_choice_is_flatter_for_a_person_with_more_rows() -> None:
    shares = []
    for max_rows in (1, 4):
        with seeded(3):
            steps = measuring(Guarantee(rho=10_000), max_rows)
            picks = [steps.choose(np.array([0, 4]), moved=1, epsilon=1.0) for _ in range(1500)]
        shares.append(np.mean(picks))
    # exp(2) / (1 + exp(2)) and exp(1/2) / (1 + exp(1/2)); 1500 draws deviate by .013, and 5 of them are one in 2e6
    assert shares == pytest.approx([0.8808, 0.6225], abs=0.065)


def test_beyond_the_budget_nothing_is_drawn() -> None:
    touched = []

    def counts(columns: tuple[int, ...]) -> np.ndarray:
        touched.append(columns)
        return np.zeros((2,) * len(columns), dtype=np.int64)

    steps = Measuring((2, 2), counts, Guarantee(mu=1))
    with seeded(1):
        steps.marginal((0,), sigma=1.25)
        assert steps.left == pytest.approx(0.36)
        with pytest.raises(BudgetExceeded):
            steps.marginal((1,), sigma=1.6)
        steps.marginal((0, 1), sigma=steps.sigma_for(steps.left))
    assert touched == [(0,), (0, 1)]
    assert float(squared_mu(Composed(*steps.events), RELATION)) <= 1
    assert steps.left < 1e-11


def test_gaussian_steps_cost_the_same_in_rho() -> None:
    with seeded(1):
        steps = measuring(gaussian_budget(Guarantee(rho=0.5))[0])
        steps.marginal((0,), sigma=2.0)
    assert exact_rho(Composed(*steps.events), RELATION) == 0.125
    assert steps.left == pytest.approx(0.75)


def test_noise_has_the_stated_deviation() -> None:
    with seeded(5):
        steps = Measuring((20000,), lambda columns: np.zeros(20000, dtype=np.int64), Guarantee(mu=1), max_rows=3)
        seen = steps.marginal((0,), sigma=4.0)
    # 20,000 draws: the deviation is known to 0.5 %, and 4 of that is one in 16,000
    assert seen.values.std() == pytest.approx(seen.sigma, rel=0.02)
    assert seen.sigma == pytest.approx((16 + 1 / 12) ** 0.5)


def test_a_table_is_counted_once_and_large_ones_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.synthesis.measure.KEPT", 5)
    touched = []

    def counts(columns: tuple[int, ...]) -> np.ndarray:
        touched.append(columns)
        return np.full((2,) * len(columns), 3, dtype=np.int64)

    steps = Measuring((2, 2), counts, Guarantee(mu=1))
    for clique in ((0,), (0,), (0, 1), (0, 1), (1,), (1,)):
        assert (steps.exact(clique) == 3).all()
    assert touched == [(0,), (0, 1), (0, 1), (1,)]


@pytest.mark.parametrize(("sizes", "ways"), [((3, 4, 5), 1), ((3, 4, 5), 2), ((3, 4, 5, 7), 3), ((9,), 2), ((2, 2), 5)])
def test_cells_of_all_tables_are_counted_without_listing_them(sizes: tuple[int, ...], ways: int, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = sum(math.prod(some) for k in range(1, ways + 1) for some in itertools.combinations(sizes, k))
    monkeypatch.setattr(measure, "LOOKED_AT", listed)
    measure.check_tables(sizes, ways)
    monkeypatch.setattr(measure, "LOOKED_AT", listed - 1)
    with pytest.raises(ParameterError, match=f"{listed:,} cells together"):
        measure.check_tables(sizes, ways)
