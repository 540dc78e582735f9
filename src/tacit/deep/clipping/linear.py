"""Linear layers, on vectors and on sequences: per-example clipping from inputs and output gradients alone.

>>> import torch
>>> layer, book = nn.Linear(3, 2), Pass(count=4)
>>> layer_forward(book, "layer", layer, torch.ones(4, 5, 3)).sum().backward()
>>> sorted(round(bounds.norms[0].item() ** 2, 1) for _, bounds in book.take())  # the bias: 2 rows of 5; the weight: 6 numbers of 5
[50.0, 150.0]
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch.nn.functional as F
from torch import Tensor, nn

from tacit.deep.clipping.parts import Explicit, Outer, Part, row_norms, working_dtype
from tacit.deep.clipping.passes import Pass, Watched


def layer_forward(book: Pass, path: str, layer: nn.Linear, inputs: Tensor) -> Tensor:
    """nn.Linear."""
    return linear(book, path, inputs, layer.weight, layer.bias)


def linear(
    book: Pass,
    path: str,
    inputs: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    *,
    start: int = 0,
    rows: int | None = None,
) -> Tensor:
    """`inputs @ weight' + bias`, tapped; with `start` and `rows`, by a slice of the rows of the weight and the bias."""
    matrix, offset = weight.detach(), None if bias is None else bias.detach()
    if rows is not None:
        matrix, offset = matrix[start : start + rows], None if offset is None else offset[start : start + rows]
    output = F.linear(inputs, matrix, offset)
    params = [param for param in (weight, bias) if param is not None and param.requires_grad]
    if not params:
        return output
    book.check(path, inputs)
    watched = Watched(path, inputs) if weight.requires_grad else None

    def read(gradient: Tensor) -> Iterator[Part]:
        yield from linear_parts(watched, gradient, weight, bias, start=start)

    return book.tap(path, output, params, read)


def linear_parts(
    inputs: Watched | None, gradient: Tensor, weight: Tensor, bias: Tensor | None, *, start: int = 0
) -> Iterator[Part]:
    """The parts of a weight and a bias from the layer's input and the gradient of its output, both (examples, ..., features)."""
    count, time = gradient.shape[0], math.prod(gradient.shape[1:-1])
    wide = gradient.to(working_dtype(gradient, weight))
    steps = wide.reshape(count, time, gradient.shape[-1])
    once = None if time != 1 else wide if wide.ndim == 2 else steps[:, 0]  # the only step
    norms = None if once is None else row_norms(once)
    if bias is not None and bias.requires_grad:
        yield Explicit(bias, steps.sum(1) if once is None else once, start=start, norms=norms)
    if inputs is not None:
        value = inputs.get()
        yield Outer(weight, value.reshape(count, time, value.shape[-1]), steps, start=start, norms=norms)
