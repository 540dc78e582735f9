"""The fit: exact marginals come back, inconsistent ones are reconciled, and no sequence of warm starts goes astray."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tacit.synthesis import estimate
from tacit.synthesis.estimate import EstimationError, Model, NoisyMarginal, fit, gauged, merged, simplex
from tacit.synthesis.inference import Passing
from tacit.synthesis.junction_tree import junction_tree


def chain(draws: np.random.Generator, sizes: tuple[int, ...]) -> np.ndarray:
    joint = draws.dirichlet(np.full(sizes[0], 4.0))
    for before, after in itertools.pairwise(sizes):
        joint = joint[..., None] * draws.dirichlet(np.full(after, 4.0), size=before)
    return 1000 * joint


def marginal(joint: np.ndarray, columns: tuple[int, ...]) -> np.ndarray:
    found: np.ndarray = joint.sum(axis=tuple(axis for axis in range(joint.ndim) if axis not in columns))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_exact_marginals_of_a_chain_come_back(seed: int) -> None:
    sizes = (3, 4, 5, 3)
    joint = chain(np.random.default_rng(seed), sizes)
    cliques = [(0, 1), (1, 2), (2, 3)]
    found = fit(sizes, [NoisyMarginal(c, marginal(joint, c), 1.0) for c in cliques], steps=1500)
    for clique in cliques:
        np.testing.assert_allclose(found.marginal(clique), marginal(joint, clique), atol=1e-9 * 1000)
    # the model is p(0, 1) p(1, 2) p(2, 3) / (p(1) p(2)), which is the chain itself
    np.testing.assert_allclose(found.marginal((0, 1, 2, 3)), joint, atol=1e-9 * 1000)
    np.testing.assert_allclose(found.marginal((3, 0)), marginal(joint, (0, 3)).T, atol=1e-9 * 1000)


def test_inconsistent_marginals_agree_on_what_they_share() -> None:
    draws = np.random.default_rng(5)
    sizes = (3, 4, 5, 3)
    joint = chain(draws, sizes)
    cliques = [(0, 1), (1, 2), (2, 3), (0, 2)]
    measured = [NoisyMarginal(c, marginal(joint, c) + draws.normal(0, 20, marginal(joint, c).shape), 20.0) for c in cliques]
    found = fit(sizes, measured)
    for first, second in itertools.combinations(found.tree.nodes, 2):
        shared = tuple(sorted(set(first) & set(second)))
        one, two = (
            found.nodes[found.tree.nodes.index(node)].sum(axis=tuple(i for i, c in enumerate(node) if c not in shared))
            for node in (first, second)
        )
        np.testing.assert_allclose(one, two, atol=1e-8)
    assert all((table >= 0).all() for table in found.nodes)


def test_one_marginal_is_projected_onto_the_simplex() -> None:
    values = np.array([[40.0, -9.0, 3.0], [25.0, 1.0, 60.0]])
    found = fit((2, 3), [NoisyMarginal((0, 1), values, 2.0)], steps=3000)
    np.testing.assert_allclose(found.marginal((0, 1)), simplex(values, values.sum()), atol=1e-6)
    assert found.total == pytest.approx(values.sum())


def test_repeated_measurements_and_totals_are_weighted_by_precision() -> None:
    same = [NoisyMarginal((0,), np.array([10.0, 30.0]), 1.0), NoisyMarginal((0,), np.array([30.0, 10.0]), 3.0)]
    (one,) = merged(same)
    np.testing.assert_allclose(one.values, [12.0, 28.0])
    assert one.sigma**-2 == pytest.approx(1 + 1 / 9)
    # totals 40 (2 cells of variance 1) and 52 (4 cells of variance 2): weights 1/2 and 1/8
    other = NoisyMarginal((1,), np.full(4, 13.0), 2**0.5)
    assert fit((2, 4), [NoisyMarginal((0,), np.array([10.0, 30.0]), 1.0), other]).total == pytest.approx(42.4)


@pytest.mark.parametrize("seed", range(6))
def test_a_gauge_changes_potentials_and_no_marginal(seed: int) -> None:
    draws = np.random.default_rng(seed)
    sizes = (3, 2, 4, 3)
    cliques = [(0, 1, 2), (1, 2, 3), (0, 3)]
    given = {c: draws.normal(0, 3, [sizes[i] for i in c]) for c in cliques}
    drift = draws.normal(0, 200, (2, 4))
    given[0, 1, 2] = given[0, 1, 2] + drift
    given[1, 2, 3] = given[1, 2, 3] - drift[..., None]
    moved = gauged(given)
    assert max(np.abs(table).max() for table in moved.values()) < 60
    passing = Passing(junction_tree(sizes, [(0, 1, 2, 3)]))

    def model(potentials: dict[tuple[int, ...], np.ndarray]) -> np.ndarray:
        table = np.zeros(sizes)
        for clique, part in potentials.items():
            table = table + part.reshape([sizes[c] if c in clique else 1 for c in range(4)])
        return passing.marginals([table]).nodes[0]

    np.testing.assert_allclose(model(moved), model(given), rtol=1e-9, atol=1e-15)
    again = gauged(moved)
    assert all(np.allclose(again[c], moved[c], atol=1e-9) for c in cliques)


def warm_fits(rounds: int, steps: int, every: int) -> list[float]:
    """Losses of warm-started fits over those of cold ones: one more noisy marginal each round, at eps .1's noise."""
    draws = np.random.default_rng(7)
    sizes = (4, 5, 3, 6, 4, 5)
    rows = draws.dirichlet(np.full(int(np.prod(sizes)), 0.05)).reshape(sizes) * 3000
    pairs = list(itertools.combinations(range(6), 2))
    measured, model, ratios = [], None, []
    for number in range(rounds):
        pair = pairs[int(draws.integers(len(pairs)))] if len(measured) > 8 else pairs[2 * len(measured) % 15]
        truth = marginal(rows, pair)
        measured.append(NoisyMarginal(pair, truth + draws.normal(0, 60, truth.shape), 60.0))
        model = fit(sizes, measured, steps=steps, warm=model)
        if number % every == 0:
            ratios.append(model.loss / fit(sizes, measured, steps=steps).loss)
    return ratios


def test_warm_starts_stay_near_cold_fits() -> None:
    ratios = warm_fits(50, 60, 1)
    assert max(ratios) < 1.05
    assert np.isfinite(ratios).all()


@pytest.mark.slow
def test_a_thousand_warm_starts_stay_near_cold_fits() -> None:
    assert max(warm_fits(1000, 300, 1)) < 1.05


def test_a_fit_that_overflows_says_so() -> None:
    with pytest.raises(EstimationError, match="range of floating point"), np.errstate(all="ignore"):
        fit((2, 2), [NoisyMarginal((0, 1), np.full((2, 2), 1e300), 1e-20)], steps=5)


def test_no_measurement_is_a_uniform_row() -> None:
    found: Model = fit((2, 4), [])
    np.testing.assert_allclose(found.marginal((0, 1)), np.full((2, 4), 1 / 8))
    assert found.total == 1.0
    assert estimate.estimated_total([NoisyMarginal((0,), np.array([-5.0, -6.0]), 1.0)]) == 1.0
