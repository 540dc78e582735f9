"""Convolutions in one, two and three dimensions: a linear layer on the windows of the input, position by position.

The windows are unfolded a few examples at a time, so that they stay in the cache and never take the memory of the whole batch.
Norms come from the gradients themselves or from Gram matrices, whichever the shapes make cheaper; in the second case the clipped
sum is one ordinary weight gradient of the weighted outputs.

>>> layer, book = nn.Conv2d(1, 1, 3, padding=1), Pass(count=2)
>>> layer_forward(book, "conv", layer, torch.ones(2, 1, 3, 3)).sum().backward()
>>> [part.explicit(0, 1).flatten().tolist() for part, _ in book.take()]
[[9.0], [4.0, 6.0, 4.0, 6.0, 9.0, 6.0, 4.0, 6.0, 4.0]]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.grad import conv1d_weight, conv2d_weight, conv3d_weight

from tacit.deep.clipping import parts
from tacit.deep.clipping.parts import Explicit, Part, blank, ghost_is_cheaper, ghost_norms, row_norms, weigh, weighted_rows, working_dtype
from tacit.deep.clipping.passes import Pass

Conv = nn.Conv1d | nn.Conv2d | nn.Conv3d
UNFOLDED = 1 << 19  # numbers of unfolded windows alive at once: about what a second-level cache holds
SPREAD = 6  # gradients are kept if they take at most so many times the room of the inputs and outputs they replace
SLOWER = 1.5  # the weight gradient of a convolution beside the same operations in a matrix product

_WEIGHT = {1: conv1d_weight, 2: conv2d_weight, 3: conv3d_weight}


class Windows(Part):
    """The gradient of a kernel: sum over positions of output gradient times window of the (already padded) input."""

    def __init__(self, layer: Conv, inputs: Tensor, outputs: Tensor) -> None:
        self.param, self.layer = layer.weight, layer
        self.inputs, self.outputs = inputs, outputs
        self.rows = len(layer.weight)
        self._kept: Tensor | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Positions, output channels of a group, numbers in a window of a group."""
        return math.prod(self.outputs.shape[2:]), self.rows // self.layer.groups, math.prod(self.param.shape[1:])

    def _keeps(self) -> bool:
        """Whether the gradients of all examples take little enough memory to be kept until the factors are known."""
        numbers = len(self.inputs) * self.param.numel()
        return numbers <= parts.KEEP and numbers <= SPREAD * (self.inputs.numel() + self.outputs.numel())

    def norms(self) -> Tensor:
        time, rows, width = self.shape
        if ghost_is_cheaper(time, rows, width, SLOWER if self._keeps() else 0.0):  # not kept: both need the product later
            found = [self._ghost(first, last) for first, last in self._chunks()]
            return torch.cat(found) if found else self.outputs.new_zeros(0)
        return parts.chunked_norms(self, len(self.inputs), self.param.numel())

    def settle(self) -> Tensor:
        time, rows, width = self.shape
        if not self._keeps() or ghost_is_cheaper(time, rows, width, SLOWER):
            return self.norms()
        self._kept = self.explicit(0, len(self.inputs))
        del self.inputs, self.outputs
        return row_norms(self._kept)

    def weighted(self, weights: Tensor) -> Tensor:
        if self._kept is not None:
            return weighted_rows(self._kept, weights)
        outputs = weigh(self.outputs, weights)
        layer = self.layer
        gradient: Callable[..., Tensor] = _WEIGHT[self.inputs.ndim - 2]
        return gradient(self.inputs, self.param.shape, outputs, layer.stride, 0, layer.dilation, layer.groups)

    def explicit(self, first: int, last: int) -> Tensor:
        if self._kept is not None:
            return self._kept[first:last]
        _, rows, width = self.shape
        groups = self.layer.groups
        found = self.outputs.new_empty((last - first) * groups, rows, width)
        for start, end in self._chunks(first, last):
            windows, outputs = self._unfolded(start, end)
            torch.bmm(outputs, windows.transpose(1, 2), out=found[(start - first) * groups : (end - first) * groups])
        return found.view(last - first, *self.param.shape)

    def drop(self, rows: Tensor) -> None:
        if self._kept is not None:
            self._kept = blank(self._kept, rows)
        else:
            self.inputs, self.outputs = blank(self.inputs, rows), blank(self.outputs, rows)

    def _ghost(self, first: int, last: int) -> Tensor:
        windows, outputs = self._unfolded(first, last)
        return ghost_norms(windows.transpose(1, 2), outputs.transpose(1, 2)).view(-1, self.layer.groups).sum(1)

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
