"""Multi-head attention and transformer layers against each example alone through plain autograd, and outputs against the layer's own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.deep.clipping.naive_clipping import agree
from torch import Tensor, nn

from tacit.deep.clipping import Clipper, ClippingError, flat

CAUSAL = torch.ones(5, 5, dtype=torch.bool).triu(1)


class Attention(nn.Module):
    """Self-attention on one input, cross-attention on two; other arguments are passed on."""

    def __init__(self, *args: Any, turned: bool = False, call: dict[str, Any] | None = None, **options: Any) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(*args, batch_first=not turned, **options)
        self.turned, self.call = turned, call or {}

    def forward(self, x: Tensor, memory: Tensor | None = None, padding: Tensor | None = None) -> Tensor:
        other = x if memory is None else memory
        if self.turned:
            x, other = x.transpose(0, 1), other.transpose(0, 1)
            other = x if memory is None else other
        output: Tensor = self.attention(x, other, other, key_padding_mask=padding, **self.call)[0]
        return output.transpose(0, 1) if self.turned else output


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(4)


def double(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


MODELS: dict[str, tuple[nn.Module, int, int]] = {  # model, time and width of the memory (0: self-attention)
    "self": (Attention(8, 2), 0, 0),
    "self, no bias": (Attention(8, 2, bias=False, call={"need_weights": False}), 0, 0),
    "self, fused": (Attention(8, 2, call={"need_weights": False}), 0, 0),
    "causal": (Attention(8, 2, call={"attn_mask": CAUSAL, "need_weights": False, "is_causal": True}), 0, 0),
    "additive mask": (Attention(8, 2, call={"attn_mask": torch.linspace(-1, 1, 25, dtype=torch.float64).view(5, 5)}), 0, 0),
    "heads apart": (Attention(8, 2, call={"average_attn_weights": False}), 0, 0),
    "time first": (Attention(8, 2, turned=True), 0, 0),
    "cross": (Attention(8, 2), 4, 8),
    "cross, time first": (Attention(8, 2, turned=True), 4, 8),
    "cross, other width": (Attention(8, 2, kdim=3, vdim=3), 4, 3),
    "cross, other width, no bias": (Attention(8, 2, kdim=3, vdim=3, bias=False), 4, 3),
    "extra keys (fall-back)": (Attention(8, 2, add_bias_kv=True), 0, 0),
    "zero attention (fall-back)": (Attention(8, 2, add_zero_attn=True), 0, 0),
}


@pytest.mark.parametrize("name", MODELS)
def test_attention(name: str) -> None:
    model, time, width = MODELS[name]
    inputs = (double(6, 5, 8), double(6, time, width)) if time else (double(6, 5, 8),)
    model = model.double().train()
    for param in model.parameters():
        nn.init.normal_(param, std=0.5)
    agree(model, *inputs)
    expected = model(*inputs)
    with Clipper(model, flat(1.0)):
        assert torch.allclose(model(*inputs), expected, rtol=1e-12, atol=1e-12)


def test_padding_and_three_dimensional_masks() -> None:
    model = Attention(8, 2).double()
    padding = torch.arange(5) >= torch.tensor([[5], [4], [3], [2], [1], [5]])
    agree(model, double(6, 5, 8), None, padding)
    mask = torch.rand(6 * 2, 5, 5) < 0.3
    mask[:, :, 0] = False
    masked = Attention(8, 2, call={"attn_mask": mask}).double()
    expected = masked(x := double(6, 5, 8))
    with Clipper(masked, flat(1.0), check_batch=False):
        assert torch.allclose(masked(x), expected, atol=1e-12)


def test_one_layer_for_self_and_cross_attention() -> None:
    """The stacked weight is used whole and by slices: uses that meet are added before the norm is taken."""

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x: Tensor, memory: Tensor) -> Tensor:
            x = self.attention(x, x, x)[0]
            output: Tensor = self.attention(x, memory, memory)[0]
            return output

    agree(Both().double(), double(6, 5, 8), double(6, 4, 8))


@pytest.mark.parametrize("norm_first", [False, True])
def test_transformer_layers(norm_first: bool) -> None:
    options: dict[str, Any] = {"dropout": 0.0, "batch_first": True, "norm_first": norm_first, "dtype": torch.float64}
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, **options), 2, enable_nested_tensor=False)
    agree(encoder, double(6, 5, 8))
    agree(nn.TransformerDecoderLayer(8, 2, 16, **options), double(6, 5, 8), double(6, 4, 8))


def test_dropout_drops() -> None:
    model = Attention(8, 2, dropout=0.5, call={"need_weights": False}).train()
    with Clipper(model, flat(1.0)):
        x = torch.randn(3, 5, 8)
        assert not torch.allclose(model(x), model(x))


def test_inputs_without_a_batch_are_refused() -> None:
    model = Attention(8, 2)
    with Clipper(model, flat(1.0), check_batch=False), pytest.raises(ClippingError, match="without a batch dimension"):
        model(torch.randn(5, 8))
