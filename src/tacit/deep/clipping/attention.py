"""Multi-head attention, taken apart into its projections, which are linear layers, and the attention itself, which has no parameters.

>>> layer, book = nn.MultiheadAttention(4, 2, batch_first=True), Pass(count=3)
>>> x = torch.ones(3, 5, 4)
>>> output, weights = layer_forward(book, "attention", layer, x, x, x)
>>> bool(torch.allclose(output, layer(x, x, x)[0])), weights.shape
(True, torch.Size([3, 5, 5]))
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tacit.deep.clipping.linear import linear, linear_parts
from tacit.deep.clipping.passes import ClippingError, Pass


def supported(layer: nn.MultiheadAttention) -> bool:
    """Whether the layer has no more parameters than its projections: learned extra keys go to the fall-back."""
    return layer.bias_k is None and layer.bias_v is None and not layer.add_zero_attn


def layer_forward(
    book: Pass, path: str, layer: nn.MultiheadAttention, query: Tensor, key: Tensor, value: Tensor,
    key_padding_mask: Tensor | None = None, need_weights: bool = True, attn_mask: Tensor | None = None,
    average_attn_weights: bool = True, is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """nn.MultiheadAttention, with the same arguments and results."""
    if query.ndim != 3:
        raise ClippingError(f"attention {path!r} was given an input without a batch dimension; pass (batch, time, features)")
    if is_causal and attn_mask is None:
        raise ClippingError(f"attention {path!r}: is_causal=True needs attn_mask as well, as in PyTorch; pass the causal mask")
    if layer.batch_first:
        q, k, v = _project(book, path, layer, query, key, value)
    else:  # the projections want the examples first
        turned = {id(x): x.transpose(0, 1) for x in (query, key, value)}
        q, k, v = _project(book, path, layer, turned[id(query)], turned[id(key)], turned[id(value)])
    count, time, width = q.shape
    heads, size = layer.num_heads, width // layer.num_heads

    def split(x: Tensor) -> Tensor:
        return x.reshape(count, x.shape[1], heads, size).transpose(1, 2)

    mask = _mask(attn_mask, key_padding_mask, count, heads, q.dtype)
    dropout = layer.dropout if layer.training else 0.0
    weights: Tensor | None = None
    if need_weights:
        scores = split(q) @ split(k).transpose(2, 3) / math.sqrt(size)
        weights = torch.softmax(scores if mask is None else scores + mask, dim=-1)
        weights = F.dropout(weights, dropout, training=dropout > 0)
        mixed = weights @ split(v)
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        mixed = F.scaled_dot_product_attention(split(q), split(k), split(v), mask, dropout)
    mixed = mixed.transpose(1, 2).reshape(count, time, width)
    output = linear(book, path, mixed, layer.out_proj.weight, layer.out_proj.bias)
    return (output if layer.batch_first else output.transpose(0, 1)), weights


def _project(
    book: Pass, path: str, layer: nn.MultiheadAttention, query: Tensor, key: Tensor, value: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values. One stacked projection if all three come from the same input."""
    width, weight, bias = layer.embed_dim, layer.in_proj_weight, layer.in_proj_bias
    if not layer._qkv_same_embed_dim:
        separate = (layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight)
        q, k, v = (linear(book, path, x, w, None) for x, w in zip((query, key, value), separate, strict=True))
        if bias is not None:
            q, k, v = (_shift(book, path, x, bias, n * width) for n, x in enumerate((q, k, v)))
        return q, k, v
    if query is key and key is value:
        q, k, v = linear(book, path, query, weight, bias).chunk(3, dim=-1)
        return q, k, v
    q, k, v = (linear(book, path, x, weight, bias, start=n * width, rows=width) for n, x in enumerate((query, key, value)))
    return q, k, v


def _shift(book: Pass, path: str, inputs: Tensor, bias: Tensor, start: int) -> Tensor:
    """Add a slice of the stacked bias, tapped."""
    output = inputs + bias.detach()[start : start + inputs.shape[-1]]
    if not bias.requires_grad:
        return output
    return book.tap(path, output, [bias], lambda gradient: linear_parts(None, gradient, bias, bias, start=start))


def _mask(attn_mask: Tensor | None, padding: Tensor | None, count: int, heads: int, dtype: torch.dtype) -> Tensor | None:
    """Both masks as one tensor to add to the scores, minus infinity where attention is forbidden."""
    total: Tensor | None = None
    if attn_mask is not None:
        total = _additive(attn_mask, dtype)
        total = total.view(count, heads, *total.shape[1:]) if total.ndim == 3 else total
    if padding is not None:
        columns = _additive(padding, dtype)[:, None, None, :]
        total = columns if total is None else total + columns
    return total


def _additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    if mask.dtype != torch.bool:
        return mask.to(dtype)
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(mask, -torch.inf)
