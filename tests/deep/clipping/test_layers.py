"""Which layers are known: exact types, subclasses that change nothing, and no others."""

from __future__ import annotations

import pytest
from torch import Tensor, nn

from tacit.deep.clipping import linear
from tacit.deep.clipping.layers import LAYERS, how


class Same(nn.Linear):
    """A subclass that computes what its parent does."""


class Other(nn.Linear):
    """A subclass that does not."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


def test_subclasses_count_only_if_they_compute_the_same() -> None:
    assert how(nn.Linear(2, 2)) is how(Same(2, 2)) is linear.layer_forward
    assert how(Other(2, 2)) is None


@pytest.mark.parametrize(
    "layer",
    [
        nn.utils.parametrizations.weight_norm(nn.Linear(2, 2)),
        nn.LSTM(2, 4, proj_size=2),
        nn.MultiheadAttention(4, 2, add_bias_kv=True),
        nn.MultiheadAttention(4, 2, add_zero_attn=True),
        nn.ConvTranspose2d(1, 1, 1),
        nn.Sequential(),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_what_is_not_known_goes_to_the_fallback(layer: nn.Module) -> None:
    assert how(layer) is None


def test_every_layer_of_the_issue_is_known() -> None:
    named = {"Linear", "Conv1d", "Conv2d", "Conv3d", "Embedding", "LayerNorm", "GroupNorm", "RNN", "LSTM", "GRU", "MultiheadAttention"}
    assert named <= {kind.__name__ for kind in LAYERS}
