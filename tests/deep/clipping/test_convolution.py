"""Convolutions of every geometry against each example alone through plain autograd."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.deep.clipping.naive_clipping import agree
from torch import nn

from tacit.deep.clipping import convolution
from tacit.deep.clipping.parts import ghost_is_cheaper


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(1)


def double(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64)


SHAPES: dict[str, tuple[Any, ...]] = {
    "plain": (nn.Conv2d, (3, 4, 3), {}, (3, 6, 7)),
    "stride not dividing": (nn.Conv2d, (2, 3, 3), {"stride": (3, 2), "padding": (1, 2)}, (2, 9, 8)),
    "dilated": (nn.Conv2d, (2, 3, 3), {"dilation": (1, 2), "bias": False}, (2, 7, 8)),
    "groups": (nn.Conv2d, (4, 6, 3), {"groups": 2, "padding": 1}, (4, 6, 5)),
    "depthwise": (nn.Conv2d, (4, 4, 3), {"groups": 4}, (4, 6, 5)),
    "one by one": (nn.Conv2d, (3, 5, 1), {}, (3, 4, 4)),
    "one by one, strided": (nn.Conv2d, (3, 5, 1), {"stride": 2}, (3, 4, 5)),
    "same, even kernel": (nn.Conv2d, (2, 3, (4, 2)), {"padding": "same"}, (2, 6, 7)),
    "valid": (nn.Conv2d, (2, 3, 2), {"padding": "valid"}, (2, 5, 5)),
    "circular": (nn.Conv2d, (2, 3, 3), {"padding": 1, "padding_mode": "circular"}, (2, 6, 7)),
    "reflect": (nn.Conv2d, (2, 3, 3), {"padding": (1, 2), "padding_mode": "reflect", "stride": 2}, (2, 6, 7)),
    "replicate": (nn.Conv1d, (2, 3, 3), {"padding": 2, "padding_mode": "replicate"}, (2, 7)),
    "few positions, many channels": (nn.Conv2d, (8, 20, 3), {}, (8, 4, 4)),
    "few positions, groups": (nn.Conv2d, (16, 40, 3), {"groups": 2}, (16, 4, 4)),
    "1d": (nn.Conv1d, (4, 6, 3), {"stride": 2, "padding": 1, "groups": 2, "dilation": 2}, (4, 12)),
    "3d": (nn.Conv3d, (2, 4, (2, 3, 1)), {"stride": (1, 2, 1), "padding": 1, "groups": 2, "dilation": (2, 1, 1)}, (2, 5, 6, 4)),
}


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")  # torch's own, in the plain layer
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("path", ["chosen", "explicit", "ghost", "no memory"])
def test_every_geometry_on_every_path(name: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, args, options, shape = SHAPES[name]
    if path in ("explicit", "ghost", "no memory"):
        monkeypatch.setattr(convolution, "ghost_is_cheaper", lambda *_: path == "ghost")
    if path == "no memory":
        monkeypatch.setattr(convolution.parts, "KEEP", 0)
        monkeypatch.setattr(convolution.parts, "CHUNK", 1)
        monkeypatch.setattr(convolution, "UNFOLDED", 1)
    agree(kind(*args, **options).double(), double(5, *shape))


def test_both_paths_are_taken_by_shapes_above() -> None:
    assert ghost_is_cheaper(4, 20, 72, convolution.SLOWER) and not ghost_is_cheaper(20, 4, 27, convolution.SLOWER)


def test_a_network_with_in_place_activations() -> None:
    model = nn.Sequential(
        *(nn.Conv2d(1, 4, 3), nn.ReLU(inplace=True), nn.MaxPool2d(2)),
        *(nn.Conv2d(4, 5, 2), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(20, 3)),
    ).double()
    agree(model, double(6, 1, 8, 8))


def test_channels_last_inputs() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 2, 3)).double()
    agree(model, double(5, 3, 6, 6).to(memory_format=torch.channels_last))


def test_frozen_kernel() -> None:
    layer = nn.Conv2d(2, 3, 3).double()
    layer.weight.requires_grad_(False)
    assert set(agree(layer, double(5, 2, 5, 5)).sums) == {"bias"}
