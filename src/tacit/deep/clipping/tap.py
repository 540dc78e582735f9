"""Taps: where the gradient of a layer's output is read during the backward pass, and nothing else is changed.

A layer computes its output with its parameters detached, so autograd spends nothing on gradients of weights. The tap is the identity on
that output; on the way back it hands the output's gradient to whoever keeps the books.

>>> seen = []
>>> output = tap(torch.ones(2, 3), seen.append)
>>> output.mul_(5).sum().backward()  # in-place layers may follow
>>> seen[0][0].tolist()
[5.0, 5.0, 5.0]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

Reader = Callable[[Tensor], None]


class _Tap(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, output: Tensor, anchor: Tensor | None, reader: Reader) -> Tensor:
        ctx.reader = reader
        ctx.mark_dirty(output)  # so that the result is no view, which an in-place layer could not follow
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        ctx.reader(gradient)
        return gradient, None, None


def tap(output: Tensor, reader: Reader) -> Tensor:
    """The output itself, in a graph that hands its gradient to `reader` even if nothing before it needs one."""
    # a layer whose input needs no gradient has an output that needs none either: then something else must, for the tap to be reached
    anchor = None if output.requires_grad else torch.empty(0, dtype=output.dtype, device=output.device, requires_grad=True)
    return cast(Tensor, _Tap.apply(output, anchor, reader))  # type: ignore[no-untyped-call]
