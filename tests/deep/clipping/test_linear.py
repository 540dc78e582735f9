"""Linear layers against each example alone through plain autograd."""

from __future__ import annotations

import pytest
import torch
from tests.deep.clipping.naive_clipping import agree
from torch import nn


def double(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("bias", [True, False])
def test_vectors(bias: bool) -> None:
    model = nn.Sequential(nn.Linear(5, 4, bias=bias), nn.Tanh(), nn.Linear(4, 3, bias=bias)).double()
    agree(model, double(7, 5))


@pytest.mark.parametrize("shape", [(1,), (3,), (40,), (3, 2), (2, 2, 2)], ids=str)
def test_sequences_short_and_long(shape: tuple[int, ...]) -> None:
    """Short ones take Gram matrices, long ones explicit gradients; in-place activations follow the layer."""
    model = nn.Sequential(nn.Linear(5, 30), nn.ReLU(inplace=True), nn.Linear(30, 3)).double()
    agree(model, double(6, *shape, 5))


def test_a_single_layer_is_a_model() -> None:
    agree(nn.Linear(4, 2).double(), double(5, 4))


def test_single_precision_to_a_millionth() -> None:
    model = nn.Sequential(nn.Linear(50, 64), nn.ReLU(), nn.Linear(64, 10))
    agree(model, torch.randn(32, 50), tolerance=1e-4)


def test_frozen_weight_or_bias() -> None:
    model = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3), nn.Linear(3, 2)).double()
    model[0].weight.requires_grad_(False)
    model[2].bias.requires_grad_(False)
    model[3].requires_grad_(False)
    result = agree(model, double(6, 5))
    assert set(result.sums) == {"0.bias", "2.weight"}
