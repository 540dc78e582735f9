"""One-shot: the allocation is optimal, the cap holds, the price is Gaussian."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from tacit.accounting import Gaussian, Guarantee
from tacit.noise import test_mode as seeded
from tacit.synthesis.independent import one_ways
from tacit.synthesis.junction_tree import cells
from tacit.synthesis.measure import Measuring
from tacit.synthesis.oneshot import OneShot, allocation, measure_best
from tacit.synthesis.sample import counted


def test_the_split_minimises_the_noise_of_a_set() -> None:
    noises = np.array([3.0, 10.0, 50.0])
    kept, costs = allocation(np.full(3, 1e6), noises, 2.0)
    best = minimize(lambda x: float((noises / np.sqrt(2 * np.exp(x) / np.exp(x).sum())).sum()), np.zeros(3), tol=1e-12)
    np.testing.assert_allclose(costs[np.argsort(kept)], 2 * np.exp(best.x) / np.exp(best.x).sum(), rtol=1e-4)


def test_the_set_is_the_best_of_all_sets() -> None:
    draws = np.random.default_rng(3)
    for _ in range(20):
        gains, noises = draws.uniform(0, 60, 6), draws.uniform(1, 20, 6)

        def value(some: tuple[int, ...], gains: Any = gains, noises: Any = noises) -> float:
            return float(gains[list(some)].sum() - (noises[list(some)] ** (2 / 3)).sum() ** 1.5)

        kept, costs = allocation(gains, noises, 1.0)
        sets = itertools.chain.from_iterable(itertools.combinations(range(6), size) for size in range(1, 7))
        # Sorting by gain over noise^(2/3) is the rule of a knapsack: near the best of all sets, and always a set.
        assert value(tuple(kept)) >= max(map(value, sets)) - 0.1 * gains.sum()
        assert costs.sum() == pytest.approx(1.0)


def test_all_steps_are_gaussian_and_within_the_budget(run: Any) -> None:
    ran = run(OneShot(), epsilon=3)
    assert all(isinstance(event, Gaussian) for event in ran.measuring.events)
    assert ran.spent_within_budget()
    assert ran.measuring.left / ran.measuring.whole < 1e-6
    assert max(ran.total_variation((place, place + 1)) for place in range(4)) < 0.04


def test_the_cap_holds_and_an_empty_table_raises_nothing(run: Any) -> None:
    assert run(OneShot(steps=10, cap=50), epsilon=10).model.tree.cells <= 50
    assert run(OneShot(steps=10), rows=0).spent_within_budget()


def test_scores_carry_the_persons_rows(run: Any) -> None:
    one, many = run(OneShot(steps=5)), run(OneShot(steps=5), max_rows=4)
    assert [float(e.noise_multiplier) for e in one.measuring.events[:6]] == pytest.approx(
        [float(e.noise_multiplier) for e in many.measuring.events[:6]], rel=1e-6
    )
    assert many.measuring.measured[0].sigma == pytest.approx(4 * one.measuring.measured[0].sigma, rel=0.01)


@pytest.mark.parametrize("seed", range(8))
def test_a_subset_that_eliminates_worse_is_cut_down(seed: int) -> None:
    # Greedy elimination is not monotone: what is kept of a set under the cap may be above it.
    draws = np.random.default_rng(seed)
    sizes = tuple(int(n) for n in draws.integers(2, 12, 9))
    data = [draws.integers(0, n, 300) for n in sizes]
    measuring = Measuring(sizes, lambda columns: counted(data, sizes, columns), Guarantee(mu=50))
    pairs = list(itertools.combinations(range(9), 2))
    with seeded(seed):
        one_ways(measuring, 1.0)
        measure_best(measuring, pairs, draws.uniform(50, 400, len(pairs)), measuring.left, 2000)
    assert cells(sizes, [one.columns for one in measuring.measured]) <= 2000


def test_weights_change_which_pairs_pay_and_what_they_get() -> None:
    draws = np.random.default_rng(2)
    first = draws.integers(0, 4, 2000)
    data = [first, np.where(draws.random(2000) < 0.5, first, draws.integers(0, 4, 2000)), first.copy()]
    sizes, pairs = (4, 4, 4), [(0, 1), (0, 2)]

    def sigmas(weights: np.ndarray | None) -> dict[tuple[int, ...], float]:
        measuring = Measuring(sizes, lambda columns: counted(data, sizes, columns), Guarantee(mu="0.2"))
        with seeded(1):
            one_ways(measuring, 0.01)
            measure_best(measuring, pairs, np.array([9000.0, 9000.0]), measuring.left, 10**6, weights=weights)
        return {one.columns: one.sigma for one in measuring.measured if len(one.columns) == 2}

    even, tilted = sigmas(None), sigmas(np.array([8.0, 1.0]))
    assert even[0, 1] == pytest.approx(even[0, 2], rel=0.02)
    # precision is proportional to weight^(2/3): 4 times that of the other, and four fifths of the whole
    assert tilted[0, 2] ** 2 / tilted[0, 1] ** 2 == pytest.approx(4, rel=0.05)


def test_at_most_so_many_pairs() -> None:
    measuring = Measuring((3, 3, 3), lambda columns: np.full([3] * len(columns), 9), Guarantee(mu=5))
    with seeded(1):
        one_ways(measuring, 5.0)
        found = measure_best(measuring, [(0, 1), (0, 2), (1, 2)], np.full(3, 1e5), measuring.left, 100, most=2)
    assert len(found) == 2
