"""Simulated cohorts: the same numbers as clients one by one, and the learning that a plan allows."""

from __future__ import annotations

import numpy as np
import pytest
from tests.federated import digits
from tests.federated.apps import plan

from tacit import federated
from tacit.accounting import SquareRoot
from tacit.errors import ParameterError
from tacit.federated import batched_sgd, central, simulate
from tacit.federated.device import composed
from tacit.federated.simulate import lattice_sum


@pytest.mark.parametrize("changes", [{}, {"weight_cap": 5}, {"adaptive": True}], ids=str)
def test_batches_have_the_sums_of_single_clients(changes: dict[str, object]) -> None:
    made = plan(size=50, clients=40, **changes)
    draws = np.random.default_rng(2)
    updates = draws.normal(size=(40, 50)) * np.exp(draws.normal(size=(40, 1)) * 2 - 2)
    updates[3] = np.nan
    updates[4] *= 1e300
    updates[5] = 0
    examples = draws.integers(0, 9, size=40)
    single = np.sum([central.to_lattice(composed(made, u, int(e), 1.0), made.radius()).astype(np.int64)
                     for u, e in zip(updates, examples, strict=True)], axis=0)  # fmt: skip
    assert (lattice_sum(made, updates, examples, 1.0) == single).all()


def test_a_batched_network_is_the_network_client_by_client() -> None:
    import torch

    parts, _ = digits.data(100)
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    x = np.stack([x[:14] for x, _ in parts])
    y = np.stack([y[:14] for _, y in parts])
    data = lambda ids: (torch.from_numpy(x[ids]), torch.from_numpy(y[ids]))  # noqa: E731
    start, cohort = batched_sgd(model, torch.nn.functional.cross_entropy, data, steps=3, rate=0.5)
    found = cohort(start, np.array([0, 7]))
    for row, client in enumerate((0, 7)):
        weights = [p.detach().numpy() for p in model.parameters()]
        arrays = {"w1": weights[0].T, "b1": weights[1], "w2": weights[2].T, "b2": weights[3]}
        after = digits.trained(arrays, x[client], y[client], steps=3)
        moved = [after["w1"].T - weights[0], after["b1"] - weights[1], after["w2"].T - weights[2], after["b2"] - weights[3]]
        assert np.abs(found[row] - np.concatenate([m.ravel() for m in moved])).max() < 5e-6


@pytest.mark.parametrize("strategy", [None, SquareRoot(6)], ids=["independent", "correlated"])
def test_simulations_learn_and_are_seen_through(strategy: object) -> None:
    made = federated.plan(clients=2000, size=3, clip=1.0, rounds=6, epsilon=4, delta=1e-6, strategy=strategy)  # type: ignore[arg-type]
    goal = np.array([0.3, -0.2, 0.1])
    run = simulate(made, np.zeros(3), lambda weights, ids: np.tile(goal - weights, (len(ids), 1)))
    assert np.abs(run.weights - goal).max() < 8 * made.deviation() * 3


def test_correlated_noise_has_the_deviation_of_its_strategy() -> None:
    """After 7 rounds a running sum of a tree is three blocks, after 8 rounds one: deviations sqrt(3) and 1 of one clip."""
    from tacit.accounting import Tree

    for rounds, blocks in ((7, 3), (8, 1)):
        made = federated.plan(clients=10, size=4000, clip=1.0, rounds=rounds, noise_multiplier=1.0, delta=1e-6, strategy=Tree(rounds),
                              participations=1, separation=rounds)  # fmt: skip
        run = simulate(made, np.zeros(4000), lambda weights, ids: np.zeros((len(ids), 4000)))
        # 4,000 numbers: the deviation of the estimate is 1.1 %; five of these
        assert run.weights.std() * 10 == pytest.approx(blocks**0.5, rel=0.056)


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(ParameterError):
        simulate(plan(), np.zeros(3), lambda weights, ids: np.zeros((len(ids), 4)))
