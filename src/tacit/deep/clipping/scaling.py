"""Layers that scale and shift each feature: LayerNorm, GroupNorm, InstanceNorm, RMSNorm, PReLU.

Their gradients per example are as small as the parameters, so they are written down: the output's gradient, times what was scaled.

>>> layer, book = nn.LayerNorm(2), Pass(count=1)
>>> layer_norm(book, "norm", layer, torch.tensor([[0.0, 2.0]])).sum().backward()
>>> [part.explicit(0, 1).tolist() for part, _ in book.take()]  # the normalised input is -1, 1
[[[-0.999..., 0.999...]], [[1.0, 1.0]]]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.instancenorm import _InstanceNorm

from tacit.deep.clipping.parts import Explicit, Part, working_dtype
from tacit.deep.clipping.passes import Pass

Reduce = Callable[[Tensor], Tensor]


def _detached(param: Tensor | None) -> Tensor | None:
    return None if param is None else param.detach()


def _affine(
    book: Pass, path: str, inputs: Tensor, output: Tensor, weight: Tensor | None, bias: Tensor | None,
    normalise: Callable[[Tensor], Tensor], reduce: Reduce,
) -> Tensor:
    """Tap `output = normalise(inputs) * weight + bias`, where `reduce` sums a tensor of that shape to one row per example."""
    params = [param for param in (weight, bias) if param is not None and param.requires_grad]
    if not params:
        return output
    watched = book.watch(path, inputs)

    def read(gradient: Tensor) -> Iterator[Part]:
        gradient = gradient.to(working_dtype(gradient, params[0]))
        if weight is not None and weight.requires_grad:
            yield Explicit(weight, reduce(gradient * normalise(watched.get().to(gradient.dtype))).view(-1, *weight.shape))
        if bias is not None and bias.requires_grad:
            yield Explicit(bias, reduce(gradient).view(-1, *bias.shape))

    return book.tap(path, output, params, read)


def _leading(trailing: int) -> Reduce:
    """Sum over every dimension between the examples and the last `trailing`."""
    return lambda values: values.flatten(1, values.ndim - trailing - 1).sum(1) if values.ndim > trailing + 1 else values


def _channels(values: Tensor) -> Tensor:
    """Sum over every dimension after the examples and the channels."""
    return values.flatten(2).sum(2) if values.ndim > 2 else values


def layer_norm(book: Pass, path: str, layer: nn.LayerNorm, inputs: Tensor) -> Tensor:
    """nn.LayerNorm."""
    shape = layer.normalized_shape
    output = F.layer_norm(inputs, list(shape), _detached(layer.weight), _detached(layer.bias), layer.eps)
    return _affine(
        book, path, inputs, output, layer.weight, layer.bias, lambda x: F.layer_norm(x, list(shape), eps=layer.eps), _leading(len(shape))
    )


def rms_norm(book: Pass, path: str, layer: nn.RMSNorm, inputs: Tensor) -> Tensor:
    """nn.RMSNorm."""
    shape = list(layer.normalized_shape)
    output = F.rms_norm(inputs, shape, _detached(layer.weight), layer.eps)
    return _affine(book, path, inputs, output, layer.weight, None, lambda x: F.rms_norm(x, shape, eps=layer.eps), _leading(len(shape)))


def group_norm(book: Pass, path: str, layer: nn.GroupNorm, inputs: Tensor) -> Tensor:
    """nn.GroupNorm."""
    groups, eps = layer.num_groups, layer.eps
    output = F.group_norm(inputs, groups, _detached(layer.weight), _detached(layer.bias), eps)
    return _affine(book, path, inputs, output, layer.weight, layer.bias, lambda x: F.group_norm(x, groups, eps=eps), _channels)


def instance_norm(book: Pass, path: str, layer: _InstanceNorm, inputs: Tensor) -> Tensor:
    """nn.InstanceNorm1d, 2d and 3d without running statistics."""
    eps = layer.eps
    book.check(path, inputs)
    output = F.instance_norm(inputs, None, None, _detached(layer.weight), _detached(layer.bias), True, 0.0, eps)
    return _affine(book, path, inputs, output, layer.weight, layer.bias, lambda x: F.instance_norm(x, eps=eps), _channels)


def prelu(book: Pass, path: str, layer: nn.PReLU, inputs: Tensor) -> Tensor:
    """nn.PReLU, with one slope or one for each channel."""
    output = F.prelu(inputs, layer.weight.detach())
    shared = len(layer.weight) == 1

    def reduce(values: Tensor) -> Tensor:
        return values.flatten(1).sum(1, keepdim=True) if shared else _channels(values)

    return _affine(book, path, inputs, output, layer.weight, None, lambda x: torch.clamp(x, max=0), reduce)
