"""One forward and backward pass: which parameters were used where, and the parts their gradients arrive in.

A pass knows its examples by the first dimension of every tensor: each layer's input is checked to have it, by name. It may be
differentiated once; what would count an example twice, or mix two examples in one place, is refused rather than summed.

>>> book = Pass(count=2)
>>> weight = torch.nn.Parameter(torch.ones(1, 3))
>>> output = book.tap("layer", torch.ones(2, 1), [weight], lambda g: [Explicit(weight, g.unsqueeze(2) * torch.ones(2, 1, 3))])
>>> output.sum().backward()
>>> [[round(norm, 3) for norm in bounds.norms.tolist()] for _, bounds in book.take()]
[[1.732, 1.732]]

Tensors inside nested arguments and results: lists, tuples and dictionaries of tensors and of anything else.

>>> tensors, rebuild = flatten((torch.zeros(2), {"mask": torch.ones(3), "flag": True}))
>>> [len(tensor) for tensor in tensors], rebuild([1, 2])
([2, 3], (1, {'mask': 2, 'flag': True}))

Errors of clipping: each names the layer and the fix, and none holds a value of the data.

Taps: where the gradient of a layer's output is read during the backward pass, and nothing else is changed.

A layer computes its output with its parameters detached, so autograd spends nothing on gradients of weights. The tap is the identity on
that output; on the way back it hands the output's gradient to whoever keeps the books.

>>> seen = []
>>> output = tap(torch.ones(2, 3), seen.append)
>>> output.mul_(5).sum().backward()  # in-place layers may follow
>>> seen[0][0].tolist()
[5.0, 5.0, 5.0]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, cast

import torch
from torch import Tensor

from tacit.deep.clipping.parts import Bounds, Part, combine
from tacit.deep.clipping.parts import Explicit as Explicit
from tacit.deep.errors import ClippingError as ClippingError

Rebuild = Callable[[Sequence[Any]], Any]


def flatten(value: Any) -> tuple[list[Tensor], Rebuild]:
    """The tensors in `value`, in order, and the function that puts others in their places."""
    tensors: list[Tensor] = []
    shape = _outline(value, tensors)

    def rebuild(others: Sequence[Any]) -> Any:
        return _fill(shape, list(others))

    return tensors, rebuild


class _Place:
    def __init__(self, index: int) -> None:
        self.index = index


def _outline(value: Any, tensors: list[Tensor]) -> Any:
    if isinstance(value, Tensor):
        tensors.append(value)
        return _Place(len(tensors) - 1)
    if isinstance(value, dict):
        return {key: _outline(item, tensors) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return _rebuilt(value, [_outline(item, tensors) for item in value])
    return value


def _fill(shape: Any, values: list[Any]) -> Any:
    if isinstance(shape, _Place):
        return values[shape.index]
    if isinstance(shape, dict):
        return {key: _fill(item, values) for key, item in shape.items()}
    if isinstance(shape, tuple | list):
        return _rebuilt(shape, [_fill(item, values) for item in shape])
    return shape


def _rebuilt(old: Any, items: list[Any]) -> Any:
    return type(old)(*items) if hasattr(old, "_fields") else type(old)(items)


def repeat_first(value: Any, count: int, *, only_one: bool = False) -> Any:
    """The arguments with one more example: the first one again, in every tensor that holds `count` of them, or only in the first such.

    >>> repeat_first([torch.arange(2), torch.zeros(3), torch.ones(2)], 2)
    [tensor([0, 1, 0]), tensor([0., 0., 0.]), tensor([1., 1., 1.])]
    """
    tensors, rebuild = flatten(value)
    longer: list[Tensor] = []
    grown = False
    for tensor in tensors:
        grow = tensor.ndim > 0 and len(tensor) == count and not (only_one and grown)
        longer.append(torch.cat([tensor, tensor[:1]]) if grow else tensor)
        grown = grown or grow
    return rebuild(longer)


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


def own_backward(outputs: Iterable[Tensor]) -> bool:
    """Whether a function with a backward pass of its own, written in Python, is on the way to these outputs.

    >>> class Twice(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return 2 * x
    ...     @staticmethod
    ...     def backward(ctx, gradient):
    ...         return 2 * gradient
    >>> x = torch.ones(3, requires_grad=True)
    >>> own_backward([x.exp() + 1]), own_backward([Twice.apply(x).exp() + 1])
    (False, True)
    """
    left: list[Any] = [output.grad_fn for output in outputs]
    seen = set[Any]()
    while left:
        node = left.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if isinstance(node, torch.autograd.function.BackwardCFunction) and getattr(node, "_forward_cls", None) is not _Tap:
            return True
        left += [before for before, _ in node.next_functions]
    return False


Read = Callable[[Tensor], Iterable[Part]]


@contextmanager
def full_precision(device: str) -> Iterator[None]:
    """Norms and sums are not for autocast, even if backward runs inside it, nor for products of fewer bits than their type has."""
    rough = torch.get_float32_matmul_precision()
    with torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext():
        if rough == "highest":
            yield
            return
        torch.set_float32_matmul_precision("highest")
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(rough)


class Watched:
    """An input that a layer needs again after the backward pass, and that must not change in between."""

    def __init__(self, path: str, value: Tensor) -> None:
        self.path, self.value, self.version = path, value.detach(), value._version

    def get(self) -> Tensor:
        if self.value._version != self.version:
            raise ClippingError(
                f"the input of layer {self.path!r} was changed in place after the layer used it; "
                "write `x = x + ...` instead of `x += ...` there"
            )
        return self.value


class Sharing:
    """Which inputs of embeddings all examples share, such as positions: known by the layer and the number of its use in a pass.

    One input of length T looks like T examples in a batch of T. A probe runs the model with one more example, so an input that does
    not grow with it is shared, and one that has grown and fits the real batch too belongs to the examples. That is settled once.

    >>> sharing = Sharing()
    >>> [sharing.shared("positions", 0, 4, count, probing=probing) for count, probing in ((5, True), (4, False))]
    [True, True]
    >>> [sharing.shared("tokens", 0, count, count, probing=probing) for count, probing in ((5, True), (4, False))]
    [False, False]
    """

    def __init__(self) -> None:
        self.common: set[tuple[str, int]] = set()
        self.own: set[tuple[str, int]] = set()

    def shared(self, path: str, use: int, length: int, count: int, *, probing: bool) -> bool:
        """Whether the input of this use is the same for all examples."""
        key = path, use
        if key in self.common or key in self.own:
            return key in self.common
        if length != count:
            self.common.add(key)
            return True
        if not probing:
            self.own.add(key)
        return False


class Pass:
    """The book of one pass over `count` examples; `sharing` knows the inputs that all of them share, None refuses such."""

    def __init__(self, count: int, sharing: Sharing | None = None) -> None:
        self.count = count
        self.sharing = sharing
        self.calls: Counter[str] = Counter()
        self.uses: Counter[int] = Counter()
        self.parts: dict[int, list[Part]] = {}
        self.settled: dict[int, Bounds] = {}
        self.received = False
        self.closed = ""  # why its graph may no longer be differentiated

    @property
    def probing(self) -> bool:
        """Whether this pass only looks at shapes."""
        return False

    def stirred(self, output: Tensor) -> Tensor:
        """The output of a shared input as a probe wants it."""
        return output

    def check(self, path: str, value: Tensor, dim: int = 0) -> None:
        """Refuse an input whose dimension `dim` is not the examples."""
        if value.ndim <= dim or value.shape[dim] != self.count:
            shape = tuple(value.shape)
            raise ClippingError(
                f"layer {path!r} was given an input of shape {shape}, but dimension {dim} must be the {self.count} examples of the batch; "
                "keep the batch first: (batch, ..., features), also for positions shared by all examples (expand them to the batch), "
                "and build recurrent, attention and transformer layers with batch_first=True"
            )

    def spread(self, path: str, tokens: Tensor) -> Tensor:
        """The input of an embedding with a row for each example: one that they share is repeated for each."""
        use = self.calls[path]
        self.calls[path] += 1
        length = len(tokens) if tokens.ndim else 0
        if self.sharing is None or not self.sharing.shared(path, use, length, self.count, probing=self.probing):
            return tokens
        alone = tokens[0] if tokens.ndim > 1 and length == 1 else tokens
        return alone.expand(self.count, *alone.shape)

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
        """Keep a part. If its parameter has no other use in this pass its bounds are taken now, while it is in the cache."""
        key = id(part.param)
        self.parts.setdefault(key, []).append(part)
        if self.uses[key] == 1:
            self.settled[key] = part.settle()

    def forget(self) -> None:
        """Let go of activations and gradients, which are summed: the graph keeps this book until the caller drops the loss."""
        self.parts.clear()
        self.settled.clear()

    def take(self) -> Iterator[tuple[Part, Bounds]]:
        """Every part with the bounds of its examples; the squared norms of all parts add up to that of the whole gradient."""
        for key, parts in self.parts.items():
            if key in self.settled:
                yield parts[0], self.settled[key]
            else:
                for part in combine(parts, self.count):
                    yield part, part.settle()


class Probe(Pass):
    """A pass that only checks that the examples are where they should be: it keeps nothing.

    `moved` are examples whose rows of shared inputs' outputs get noise: what the other examples come to must stay.
    """

    def __init__(self, count: int, sharing: Sharing | None = None, moved: slice | None = None) -> None:
        super().__init__(count, sharing)
        self.moved = moved
        self.spreads = 0

    @property
    def probing(self) -> bool:
        return True

    def spread(self, path: str, tokens: Tensor) -> Tensor:
        found = super().spread(path, tokens)
        self.spreads += found is not tokens
        return found

    def stirred(self, output: Tensor) -> Tensor:
        """The output of a shared input, with noise in the rows that are moved."""
        if self.moved is None:
            return output
        noise = torch.randn(output.shape, generator=torch.Generator().manual_seed(self.spreads), dtype=torch.float64).to(output)
        changed = output.clone()
        changed[self.moved] += noise[self.moved]
        return changed

    def tap(self, path: str, output: Tensor, params: Sequence[Tensor], read: Read) -> Tensor:
        return output
