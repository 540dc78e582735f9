"""Training data out of gradients: exact from a raw update, no better than permitted from a private one, in numpy and in the real loop."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from tacit.accounting import Adjacency, Gaussian, ParameterError, account
from tacit.audit.demonstrations import gradients
from tacit.audit.demonstrations.gradients import DELTA, recovered, softmax_gradient
from tacit.audit.rates import most_accuracy

PIXELS, CLASSES = 12, 3


def test_a_record_is_read_off_its_gradients() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        x, w, b = rng.normal(size=PIXELS), rng.normal(size=(CLASSES, PIXELS)), rng.normal(size=CLASSES)
        found = softmax_gradient(x, int(rng.integers(CLASSES)), w, b)
        assert recovered(*found) == pytest.approx(x, abs=1e-9)
    with pytest.raises(ParameterError, match="row for each"):
        recovered(np.zeros((2, 3)), np.zeros(3))


def test_the_gradient_is_that_of_the_loss() -> None:
    """Against central differences of the cross-entropy."""
    rng = np.random.default_rng(2)
    x, w, b, label = rng.normal(size=4), rng.normal(size=(3, 4)), rng.normal(size=3), 1

    def loss(weights: np.ndarray, biases: np.ndarray) -> float:
        scores = weights @ x + biases
        return float(np.log(np.exp(scores).sum()) - scores[label])

    on_weights, on_biases = softmax_gradient(x, label, w, b)
    for i, j in np.ndindex(3, 4):
        step = np.zeros((3, 4))
        step[i, j] = 1e-6
        assert on_weights[i, j] == pytest.approx((loss(w + step, b) - loss(w - step, b)) / 2e-6, abs=1e-8)
    for i in range(3):
        step = np.eye(3)[i] * 1e-6
        assert on_biases[i] == pytest.approx((loss(w, b + step) - loss(w, b - step)) / 2e-6, abs=1e-8)


def test_the_demonstration() -> None:
    """Raw updates give every pixel; private ones no more than epsilon permits (wrong with probability 1e-6 a level)."""
    shown = gradients.demonstrate(quick=True)
    assert shown.raw.rate == 1.0
    assert not any(level.beats() for level in shown.levels if level.epsilon is not None)
    assert shown.at(0.1).permitted == most_accuracy(0.1, DELTA) and shown.at(0.1).rate < 0.65 < shown.raw.rate
    assert shown.at(10.0).rate > 0.6  # a large epsilon hides little, and the attack finds it


def updates(noise: float, runs: int) -> int:
    """In how many runs of the real training loop the first pixel is read off the gradients that the optimiser gets."""
    import torch

    from tacit.deep import FixedSize, make_private

    class Still(torch.optim.Optimizer):
        """Takes gradients and moves nothing."""

        def __init__(self, parameters: object) -> None:
            super().__init__(parameters, {})

        def add_param_group(self, group: dict) -> None:
            self.param_groups.append({**group, "params": list(group["params"])})

        def step(self, closure: object = None) -> None:
            return None

    coins, hits = np.random.default_rng(3), 0
    for _ in range(runs):
        record, label = coins.choice([-1.0, 1.0], PIXELS), int(coins.integers(CLASSES))
        model = torch.nn.Linear(PIXELS, CLASSES)
        for parameter in model.parameters():
            torch.nn.init.zeros_(parameter)
        optimizer = Still(model.parameters())
        data = torch.utils.data.TensorDataset(torch.tensor(record[None], dtype=torch.float32), torch.tensor([label]))
        private = make_private(
            model, optimizer, data, noise_multiplier=noise, clip=1.0, sampler=FixedSize(batch=1, size=1), steps=1,
            loss_reduction="sum",
        )
        for x, y in private.loader:
            torch.nn.functional.cross_entropy(model(x), y, reduction="sum").backward()
            optimizer.step()
        seen = [parameter.grad.double().numpy() for parameter in model.parameters()]
        known = np.full(CLASSES, 1 / CLASSES)
        known[label] -= 1
        hits += int((float((known @ seen[0])[0]) > 0) == (record[0] > 0))
        if noise < 1e-3:
            assert np.sign(recovered(*seen)) == pytest.approx(record)
    return hits


def test_the_training_loop_hides_the_record() -> None:
    """60 runs with noise 4: at most as many hits as the price permits (one in 1e6 would be more). With hardly any noise all are read."""
    pytest.importorskip("torch")
    runs = 60
    most = account(Gaussian(4.0), Adjacency.REPLACE_ONE).accuracy().upper
    assert 0.5 < most < 0.7
    assert updates(4.0, runs) <= binom.isf(1e-6, runs, most)
    assert updates(1e-6, 10) == 10  # the mutant: clipping alone hides nothing
