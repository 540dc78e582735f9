"""Convolutions in one, two and three dimensions: a linear layer on the windows of the input, position by position.

The windows are unfolded a few examples at a time, so that they stay in the cache and never take the memory of the whole batch.
Norms come from the gradients themselves or from Gram matrices, whichever the shapes make cheaper; in the second case the windows are
unfolded again for the clipped sum.

>>> layer, book = nn.Conv2d(1, 1, 3, padding=1), Pass(count=2)
>>> layer_forward(book, "conv", layer, torch.ones(2, 1, 3, 3)).sum().backward()
>>> [part.explicit(0, 1).flatten().tolist() for part, _ in book.take()]
[[9.0], [4.0, 6.0, 4.0, 6.0, 9.0, 6.0, 4.0, 6.0, 4.0]]
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tacit.deep.clipping import parts
from tacit.deep.clipping.parts import (
    DOUBLE,
    Blocks,
    Bounds,
    Explicit,
    Keeping,
    Part,
    add_products,
    ghost_bounds,
    ghost_is_cheaper,
    step_masses,
    weigh,
    working_dtype,
)
from tacit.deep.clipping.passes import Pass

Conv = nn.Conv1d | nn.Conv2d | nn.Conv3d
UNFOLDED = 1 << 19  # numbers of unfolded windows alive at once: about what a second-level cache holds
SPREAD = 6  # gradients are kept if they take at most so many times the room of the inputs and outputs they replace
SLOWER = 1.5  # the product over unfolded windows beside the same operations in one matrix product


class Windows(Keeping):
    """The gradient of a kernel: sum over positions of output gradient times window of the (already padded) input."""

    def __init__(self, layer: Conv, inputs: Tensor, outputs: Tensor) -> None:
        self.param, self.layer = layer.weight, layer
        self.inputs, self.outputs = inputs, outputs
        self.rows = len(layer.weight)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Positions, output channels of a group, numbers in a window of a group."""
        return math.prod(self.outputs.shape[2:]), self.rows // self.layer.groups, math.prod(self.param.shape[1:])

    def _keeps(self) -> bool:
        """Whether the gradients of all examples take little enough memory to be kept until the factors are known."""
        numbers = len(self.inputs) * self.param.numel()
        return numbers <= parts.KEEP and numbers <= SPREAD * (self.inputs.numel() + self.outputs.numel())

    @property
    def products(self) -> int:
        return len(self.outputs) * (self.shape[0] + DOUBLE[0])  # each example's windows are blocks of their own

    def bounds(self) -> Bounds:
        time, rows, width = self.shape
        if ghost_is_cheaper(time, rows, width, SLOWER if self._keeps() else 0.0):  # not kept: both need the product later
            found = [self._ghost(first, last) for first, last in self._chunks()]
            empty = self.outputs.new_zeros(0, dtype=torch.float64)
            return Bounds(*(torch.cat(column) for column in zip(*found, strict=True))) if found else Bounds(empty, empty)
        masses = [self._masses(first, last) for first, last in self._chunks()]
        total = torch.cat(masses) if masses else self.outputs.new_zeros(0, dtype=torch.float64)
        return parts.chunked_bounds(self, len(self.inputs), self.param.numel(), total, time)

    def settle(self) -> Bounds:
        if not self._keeps() or ghost_is_cheaper(*self.shape, SLOWER):
            return self.bounds()
        return self.keep()

    def add_from_products(self, total: Tensor, weights: Tensor, blocks: Blocks) -> None:
        _, rows, width = self.shape
        groups = self.layer.groups
        slices = total.view(groups, rows, width)
        for first, last in self._chunks():
            windows, outputs = self._unfolded(first, last)
            outputs = weigh(outputs.to(blocks.dtype), weights[first:last].repeat_interleave(groups))
            for group in range(groups):
                left, right = (values[group::groups].transpose(1, 2).flatten(0, 1) for values in (outputs, windows))
                add_products(slices[group], left, right, blocks)

    def explicit_from_products(self, first: int, last: int) -> Tensor:
        _, rows, width = self.shape
        groups = self.layer.groups
        found = self.outputs.new_empty((last - first) * groups, rows, width)
        for start, end in self._chunks(first, last):
            windows, outputs = self._unfolded(start, end)
            torch.bmm(outputs, windows.transpose(1, 2), out=found[(start - first) * groups : (end - first) * groups])
        return found.view(last - first, *self.param.shape)

    def _ghost(self, first: int, last: int) -> Bounds:
        windows, outputs = self._unfolded(first, last)
        norms, masses = ghost_bounds(windows.transpose(1, 2), outputs.transpose(1, 2))
        groups = self.layer.groups
        return Bounds(norms.view(-1, groups).square().sum(1).sqrt(), masses.view(-1, groups).sum(1))

    def _masses(self, first: int, last: int) -> Tensor:
        windows, outputs = self._unfolded(first, last)
        found = step_masses(windows.transpose(1, 2).contiguous(), outputs.transpose(1, 2).contiguous())
        return found.view(-1, self.layer.groups).sum(1)

    def _chunks(self, first: int = 0, last: int | None = None) -> Iterator[tuple[int, int]]:
        time, _, width = self.shape
        step = max(1, UNFOLDED // max(1, time * width * self.layer.groups))
        last = len(self.inputs) if last is None else last
        for start in range(first, last, step):
            yield start, min(start + step, last)

    def _unfolded(self, first: int, last: int) -> tuple[Tensor, Tensor]:
        """Windows (examples x groups, window, positions) and output gradients (examples x groups, channels, positions)."""
        inputs, outputs = self.inputs[first:last], self.outputs[first:last]
        time, rows, width = self.shape
        size = (last - first) * self.layer.groups
        return unfold(inputs, self.layer).reshape(size, width, time), outputs.reshape(size, rows, time)


def unfold(inputs: Tensor, layer: Conv) -> Tensor:
    """The windows of padded inputs, (examples, channels x window, positions).

    One strided copy, whose inner loop runs along the last dimension of the image: several times faster than F.unfold.
    """
    kernel, stride, dilation = layer.kernel_size, layer.stride, layer.dilation
    if math.prod(kernel) == 1 and math.prod(stride) == 1:
        return inputs.flatten(2)
    sizes = [(n - d * (k - 1) - 1) // s + 1 for n, k, d, s in zip(inputs.shape[2:], kernel, dilation, stride, strict=True)]
    steps = inputs.stride()
    view = inputs.as_strided(
        (*inputs.shape[:2], *kernel, *sizes),
        (*steps[:2], *(a * d for a, d in zip(steps[2:], dilation, strict=True)), *(a * s for a, s in zip(steps[2:], stride, strict=True))),
        inputs.storage_offset(),
    )
    return view.reshape(len(inputs), -1, math.prod(sizes))


def margins(layer: Conv) -> list[int]:
    """How much the input is padded, before and after each dimension, last dimension first.

    >>> margins(nn.Conv2d(1, 1, (4, 3), padding="same"))
    [1, 1, 1, 2]
    """
    found: list[int] = []
    for k in reversed(range(len(layer.kernel_size))):
        if layer.padding == "same":
            total = layer.dilation[k] * (layer.kernel_size[k] - 1)
            found += [total // 2, total - total // 2]
        else:
            found += [0, 0] if isinstance(layer.padding, str) else [layer.padding[k]] * 2
    return found


def layer_forward(book: Pass, path: str, layer: Conv, inputs: Tensor) -> Tensor:
    """nn.Conv1d, nn.Conv2d and nn.Conv3d."""
    weight, bias = layer.weight, layer.bias
    output = layer._conv_forward(inputs, weight.detach(), None if bias is None else bias.detach())
    params = [param for param in (weight, bias) if param is not None and param.requires_grad]
    watched = book.watch(path, inputs)

    def read(gradient: Tensor) -> Iterator[Part]:
        gradient = gradient.to(working_dtype(gradient, weight))
        if bias is not None and bias.requires_grad:
            yield Explicit(bias, gradient.flatten(2).sum(2))
        if weight.requires_grad:
            value, around = watched.get().to(gradient.dtype), margins(layer)
            if any(around):
                mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
                value = F.pad(value, around, mode=mode)
            yield Windows(layer, value, gradient.contiguous())

    return book.tap(path, output, params, read)
