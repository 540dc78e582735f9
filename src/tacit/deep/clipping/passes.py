"""One forward and backward pass: which parameters were used where, and the parts their gradients arrive in.

A pass knows its examples by the first dimension of every tensor: each layer's input is checked to have it, by name. It may be
differentiated once; what would count an example twice, or mix two examples in one place, is refused rather than summed.

>>> book = Pass(count=2)
>>> weight = torch.nn.Parameter(torch.ones(1, 3))
>>> output = book.tap("layer", torch.ones(2, 1), [weight], lambda g: [Explicit(weight, g.unsqueeze(2) * torch.ones(2, 1, 3))])
>>> output.sum().backward()
>>> [part.norms().tolist() for part, _ in book.take()]
[[3.0, 3.0]]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from tacit.deep.clipping.errors import ClippingError
from tacit.deep.clipping.parts import Explicit as Explicit
from tacit.deep.clipping.parts import Part, combine
from tacit.deep.clipping.tap import tap

Read = Callable[[Tensor], Iterable[Part]]


def full_precision(device: str) -> AbstractContextManager[Any]:
    """Norms and sums are not for autocast, even if backward runs inside it."""
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


class Watched:
    """An input that a layer needs again after the backward pass, and that nobody may change in between."""

    def __init__(self, path: str, value: Tensor) -> None:
        self.path, self.value, self.version = path, value.detach(), value._version

    def get(self) -> Tensor:
        if self.value._version != self.version:
            raise ClippingError(
                f"the input of layer {self.path!r} was changed in place after the layer used it; "
                "write `x = x + ...` instead of `x += ...` there"
            )
        return self.value


class Pass:
    """The book of one pass over `count` examples."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.uses: Counter[int] = Counter()
        self.parts: dict[int, list[Part]] = {}
        self.settled: dict[int, Tensor] = {}
        self.received = False
        self.closed = ""  # why its graph may no longer be differentiated

    @property
    def probing(self) -> bool:
        """Whether this pass only looks at shapes."""
        return False

    def check(self, path: str, value: Tensor, dim: int = 0) -> None:
        """Refuse an input whose dimension `dim` is not the examples."""
        if value.ndim <= dim or value.shape[dim] != self.count:
            shape = tuple(value.shape)
            raise ClippingError(
                f"layer {path!r} was given an input of shape {shape}, but dimension {dim} must be the {self.count} examples of the batch; "
                "keep the batch first: (batch, ..., features), also for positions shared by all examples (expand them to the batch), "
                "and build recurrent, attention and transformer layers with batch_first=True"
            )

    def watch(self, path: str, value: Tensor, dim: int = 0) -> Watched:
        """Check an input and remember it."""
        self.check(path, value, dim)
        return Watched(path, value)

    def tap(self, path: str, output: Tensor, params: Sequence[Tensor], read: Read) -> Tensor:
        """`output`, tapped: when its gradient arrives, `read` turns it into one part for each of `params`."""
        self.uses.update(map(id, params))
        waiting: Read | None = read

        def reader(gradient: Tensor) -> None:
            nonlocal waiting
            self.admit(again=waiting is None)
            # what it holds, the layer's input, goes with the pass: the graph may live as long as the caller keeps the loss
            once, waiting = waiting, None
            assert once is not None
            with full_precision(gradient.device.type):
                for part in once(gradient):
                    self.add(part)

        return tap(output, reader)

    def admit(self, *, again: bool) -> None:
        """Refuse a gradient that would not be part of one gradient of each example."""
        if self.closed:
            raise ClippingError(self.closed)
        if again:
            raise ClippingError(
                "backward ran twice over one forward pass, so an example would be clipped twice and count double; "
                "add the losses and call backward once"
            )
        if torch.is_grad_enabled():
            raise ClippingError("backward(create_graph=True) is not supported: gradients of gradients are not clipped per example")
        self.received = True

    def add(self, part: Part) -> None:
        """Keep a part. If its parameter has no other use in this pass its norms are taken now, while it is in the cache."""
        key = id(part.param)
        self.parts.setdefault(key, []).append(part)
        if self.uses[key] == 1:
            self.settled[key] = part.settle()

    def forget(self) -> None:
        """Let go of activations and gradients, which are summed: the graph keeps this book until the caller drops the loss."""
        self.parts.clear()
        self.settled.clear()

    def take(self) -> Iterator[tuple[Part, Tensor]]:
        """Every part with the squared norms of its examples; the squares of all parts add up to the square of the whole gradient."""
        for key, parts in self.parts.items():
            if key in self.settled:
                yield parts[0], self.settled[key]
            else:
                for part in combine(parts, self.count):
                    yield part, part.settle()


class Probe(Pass):
    """A pass that only checks that the examples are where they should be: it keeps nothing."""

    @property
    def probing(self) -> bool:
        return True

    def tap(self, path: str, output: Tensor, params: Sequence[Tensor], read: Read) -> Tensor:
        return output
