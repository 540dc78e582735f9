"""Normalisation layers and PReLU against each example alone through plain autograd."""

from __future__ import annotations

import pytest
import torch
from tests.deep.clipping.naive_clipping import agree
from torch import nn

MODELS = {
    "layer norm": (lambda: nn.LayerNorm(6), (6,)),
    "layer norm, sequence": (lambda: nn.LayerNorm(6), (3, 4, 6)),
    "layer norm, two dimensions": (lambda: nn.LayerNorm((3, 5)), (4, 3, 5)),
    "layer norm, no bias": (lambda: nn.LayerNorm(6, bias=False), (4, 6)),
    "rms norm": (lambda: nn.RMSNorm(6), (4, 6)),
    "rms norm, eps": (lambda: nn.RMSNorm((2, 6), eps=0.1), (2, 6)),
    "group norm": (lambda: nn.GroupNorm(2, 4), (4, 3, 3)),
    "group norm, vectors": (lambda: nn.GroupNorm(2, 6), (6,)),
    "instance norm": (lambda: nn.InstanceNorm2d(3, affine=True), (3, 4, 4)),
    "instance norm 1d": (lambda: nn.InstanceNorm1d(3, affine=True, eps=0.1), (3, 4)),
    "prelu": (lambda: nn.PReLU(), (4, 5)),
    "prelu, channels": (lambda: nn.PReLU(4), (4, 5)),
    "prelu, vectors": (lambda: nn.PReLU(4), (4,)),
}


@pytest.mark.parametrize("name", MODELS)
def test_layer(name: str) -> None:
    torch.manual_seed(3)
    make, shape = MODELS[name]
    layer = make().double()
    for param in layer.parameters():
        nn.init.normal_(param)
    agree(layer, 2 * torch.randn(7, *shape, dtype=torch.float64))


def test_without_parameters_it_is_left_alone() -> None:
    model = nn.Sequential(nn.LayerNorm(4, elementwise_affine=False), nn.InstanceNorm1d(3), nn.Linear(4, 2)).double()
    assert set(agree(model, torch.randn(5, 3, 4, dtype=torch.float64)).sums) == {"2.weight", "2.bias"}
