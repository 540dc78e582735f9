"""Parts: what one use of one parameter contributes to the gradient of every example, kept in the form that is cheapest to clip.

A part answers three questions without, where it can, writing down the gradient of a single example: the squared norm of each example's
gradient, the sum of all of them under given weights, and, if nothing else will do, the gradients themselves.

>>> inputs, gradients = torch.eye(2), torch.tensor([[3.0, 4.0], [0.0, 1.0]])
>>> part = Outer(torch.nn.Parameter(torch.zeros(2, 2)), inputs.unsqueeze(1), gradients.unsqueeze(1))
>>> part.norms().tolist()
[25.0, 1.0]
>>> part.weighted(torch.tensor([0.2, 1.0]))
tensor([[0.6000, 0.0000],
        [0.8000, 1.0000]])

Norms of sequences (Li et al. 2022, "ghost norm"): the squared norm of sum_t g_t a_t' is sum_{s,t} <a_s, a_t> <g_s, g_t>, so it needs two
Gram matrices of side T and no gradient. Which is cheaper, that or the gradient itself, depends on the shapes and is computed from them.

Where clipped gradients are added up: one tensor for each parameter, all side by side in one piece of memory if they are on one device.

>>> weight, bias = torch.nn.Parameter(torch.zeros(2, 2)), torch.nn.Parameter(torch.zeros(2))
>>> sums = Sums({"weight": weight, "bias": bias})
>>> sums.add("bias", Explicit(bias, torch.tensor([[1.0, 2.0], [3.0, 4.0]])), torch.tensor([1.0, 0.5]))
>>> found, together = sums.take({"weight": weight, "bias": bias})
>>> found["bias"], together
(tensor([2.5000, 4.0000]), tensor([0.0000, 0.0000, 0.0000, 0.0000, 2.5000, 4.0000]))

In one piece, noise is added in one go and the memory is that of ordinary gradients. What is handed out is never written to again.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor

# What reading, writing and first touching one number of a per-example gradient costs, in floating-point operations of a matrix product
# (0.6 to 2 ns against 64 operations a ns, measured on one core).
TOUCH = 60
CHUNK = 1 << 22  # numbers of per-example gradients that may be alive at once where they are not kept
KEEP = 1 << 26  # numbers of per-example gradients of one parameter that may be kept until the factors are known
CANCELLED = 2**14  # a sum of parts so many roundings shorter than they are is taken for no shorter


def working_dtype(*tensors: Tensor) -> torch.dtype:
    """The type norms and sums are computed in: at least single precision.

    >>> working_dtype(torch.zeros(1, dtype=torch.bfloat16)), working_dtype(torch.zeros(1), torch.zeros(1, dtype=torch.float64))
    (torch.float32, torch.float64)
    """
    dtype = torch.float32
    for tensor in tensors:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return dtype


def row_norms(values: Tensor) -> Tensor:
    """Squared norm of each row, whatever the row's shape.

    >>> row_norms(torch.ones(2, 3, 4)).tolist()
    [12.0, 12.0]
    """
    rows = values if values.ndim == 2 else values.reshape(values.shape[0], math.prod(values.shape[1:]))
    lengths: Tensor = torch.linalg.vector_norm(rows, dim=1)
    return lengths.square_()


def weigh(values: Tensor, weights: Tensor) -> Tensor:
    """The rows of `values` times their weights."""
    return values * weights.to(values.dtype).view(-1, *[1] * (values.ndim - 1))


def weighted_rows(values: Tensor, weights: Tensor) -> Tensor:
    """The sum of the rows of `values` times their weights, whatever the rows' shape."""
    if values.ndim == 2:
        return torch.mv(values.T, weights.to(values.dtype))
    rows = values.reshape(values.shape[0], math.prod(values.shape[1:]))
    return torch.mv(rows.T, weights.to(values.dtype)).view(values.shape[1:])


class Part(ABC):
    """One use of a parameter. `start` is the first row of the parameter it concerns (a slice of an attention's stacked projections)."""

    param: Tensor
    start: int = 0
    rows: int

    @property
    def whole(self) -> bool:
        """Whether it concerns all of the parameter, not a slice of its rows."""
        return self.rows == len(self.param) if self.param.ndim else True

    @abstractmethod
    def norms(self) -> Tensor:
        """Squared norm of each example's gradient."""

    @abstractmethod
    def weighted(self, weights: Tensor) -> Tensor:
        """Sum of the examples' gradients under the weights, in the shape of the rows it concerns."""

    def put(self, weights: Tensor, out: Tensor) -> None:
        """Write what `weighted` answers to `out`, which has the shape of the parameter."""
        out.copy_(self.weighted(weights).reshape(out.shape))

    @abstractmethod
    def explicit(self, first: int, last: int) -> Tensor:
        """The gradients of the examples from `first` to `last`, in the shape of the rows it concerns."""

    @abstractmethod
    def drop(self, rows: Tensor) -> None:
        """Make the gradients of the examples marked in `rows` zero, whatever they held."""

    def settle(self) -> Tensor:
        """The norms, at a time when the part will stay the only one of its parameter: it may change its form to save memory."""
        return self.norms()


class Explicit(Part):
    """Per-example gradients as they are."""

    def __init__(self, param: Tensor, gradients: Tensor, *, start: int = 0, norms: Tensor | None = None) -> None:
        self.param, self.gradients, self.start = param, gradients, start
        self.rows = gradients.shape[1] if gradients.ndim > 1 else 0
        self._norms = norms

    def norms(self) -> Tensor:
        return row_norms(self.gradients) if self._norms is None else self._norms

    def weighted(self, weights: Tensor) -> Tensor:
        return weighted_rows(self.gradients, weights)

    def explicit(self, first: int, last: int) -> Tensor:
        return self.gradients[first:last]

    def drop(self, rows: Tensor) -> None:
        self.gradients = blank(self.gradients, rows)


class Outer(Part):
    """The gradient of a matrix: sum over time of output gradient times input.

    `inputs` is (examples, time, features) and `outputs` (examples, time, rows of the matrix). `norms` may pass on
    squared norms of the outputs that were needed elsewhere, if time is one step.
    """

    def __init__(self, param: Tensor, inputs: Tensor, outputs: Tensor, *, start: int = 0, squares: Tensor | None = None) -> None:
        dtype = working_dtype(inputs, outputs)
        self.param, self.start = param, start
        self.inputs, self.outputs = inputs.to(dtype), outputs.to(dtype)
        self.rows = outputs.shape[2]
        self._squares = squares
        self._kept: Tensor | None = None

    def norms(self) -> Tensor:
        inputs, outputs = self.inputs, self.outputs
        if inputs.shape[1] == 1:
            squares = row_norms(outputs[:, 0]) if self._squares is None else self._squares
            return row_norms(inputs[:, 0]).mul_(squares)
        if ghost_is_cheaper(outputs.shape[1], outputs.shape[2], inputs.shape[2]):
            return ghost_norms(inputs, outputs)
        return chunked_norms(self, len(inputs), outputs.shape[2] * inputs.shape[2])

    def settle(self) -> Tensor:
        count, time, width = self.inputs.shape
        if time == 1 or ghost_is_cheaper(time, self.rows, width) or count * self.rows * width > KEEP:
            return self.norms()
        self._kept = self.explicit(0, count)
        del self.inputs, self.outputs
        return row_norms(self._kept)

    def weighted(self, weights: Tensor) -> Tensor:
        if self._kept is not None:
            return weighted_rows(self._kept, weights)
        return torch.mm(weigh(self.outputs, weights).flatten(0, 1).T, self.inputs.flatten(0, 1))

    def put(self, weights: Tensor, out: Tensor) -> None:
        if self._kept is not None or out.ndim != 2 or out.dtype != self.outputs.dtype:
            super().put(weights, out)
        else:
            torch.mm(weigh(self.outputs, weights).flatten(0, 1).T, self.inputs.flatten(0, 1), out=out)

    def explicit(self, first: int, last: int) -> Tensor:
        if self._kept is not None:
            return self._kept[first:last]
        return torch.bmm(self.outputs[first:last].transpose(1, 2), self.inputs[first:last])

    def drop(self, rows: Tensor) -> None:
        if self._kept is not None:
            self._kept = blank(self._kept, rows)
        else:
            self.inputs, self.outputs = blank(self.inputs, rows), blank(self.outputs, rows)


class Joint(Part):
    """Several uses of one parameter by the same examples: the norm of a sum is not the sum of the norms, so gradients are added first."""

    def __init__(self, parts: Sequence[Part], count: int) -> None:
        self.param = parts[0].param
        self.rows = len(self.param) if self.param.ndim else 0
        self.parts = list(parts)
        self.count = count

    def norms(self) -> Tensor:
        return chunked_norms(self, self.count, self.param.numel())

    def weighted(self, weights: Tensor) -> Tensor:
        total = torch.zeros_like(self.param, dtype=working_dtype(self.param))
        for part in self.parts:
            place(total, part, part.weighted(weights), dim=0)
        return total

    def explicit(self, first: int, last: int) -> Tensor:
        total = self.param.new_zeros((last - first, *self.param.shape), dtype=working_dtype(self.param))
        for part in self.parts:
            place(total, part, part.explicit(first, last), dim=1)
        return total

    def drop(self, rows: Tensor) -> None:
        for part in self.parts:
            part.drop(rows)


def place(total: Tensor, part: Part, values: Tensor, dim: int) -> None:
    """Add values of a part where its rows lie along `dim` of `total`."""
    target = total if part.whole else total.narrow(dim, part.start, part.rows)
    target += values.reshape(target.shape)


def blank(values: Tensor, rows: Tensor) -> Tensor:
    """A copy with the marked rows zero: multiplying by zero would keep a NaN."""
    return values.masked_fill(rows.view(-1, *[1] * (values.ndim - 1)), 0)


def chunked_norms(part: Part, count: int, numbers: int) -> Tensor:
    """Norms from explicit gradients, a few examples at a time so that memory stays bounded."""
    step = max(1, CHUNK // max(numbers, 1))
    parts = [row_norms(part.explicit(first, min(first + step, count))) for first in range(0, count, step)]
    return torch.cat(parts) if parts else part.param.new_zeros(0)


def ghost_is_cheaper(time: int, rows: int, width: int, product: float = 1.0) -> bool:
    """Whether two Gram matrices and one product cost less than the gradient of each example; operations per example.

    >>> ghost_is_cheaper(16, 512, 512), ghost_is_cheaper(1024, 32, 288)
    (True, False)
    """
    ghost = 2 * time * time * (rows + width) + product * 2 * time * rows * width
    explicit = (2 * time + TOUCH) * rows * width
    return ghost < explicit


def ghost_norms(inputs: Tensor, outputs: Tensor) -> Tensor:
    """Squared norms from the two Gram matrices, in double precision: an example whose time steps cancel must not pass for a small one.

    Where they cancel so far that the sum itself, in the working precision, would be rounding error, the norm is taken to be larger than it
    is: the example is shortened more, and what rounding leaves of it stays far below the threshold.
    """
    wide, high = inputs.double(), outputs.double()
    gram = torch.bmm(wide, wide.transpose(1, 2))
    gram *= torch.bmm(high, high.transpose(1, 2))
    lengths = (wide.square().sum(2) * high.square().sum(2)).sqrt().sum(1)
    blurred = CANCELLED * torch.finfo(inputs.dtype).eps * lengths
    return torch.maximum(gram.sum((1, 2)), blurred.square())


def combine(parts: Sequence[Part], count: int) -> list[Part]:
    """Parts of one parameter, rewritten so that squared norms add up: slices that do not meet stay apart, time steps are joined."""
    if len(parts) == 1:
        return list(parts)
    slices: dict[tuple[int, int], list[Part]] = {}
    for part in parts:
        slices.setdefault((part.start, part.rows), []).append(part)
    ends = sorted((start, start + rows) for start, rows in slices)
    if any(before[1] > after[0] for before, after in pairwise(ends)):
        return [Joint(parts, count)]
    joined: list[Part] = []
    for same in slices.values():
        if len(same) == 1:
            joined += same
        elif all(type(part) is Outer for part in same):
            outers = [part for part in same if isinstance(part, Outer)]
            inputs, outputs = torch.cat([part.inputs for part in outers], 1), torch.cat([part.outputs for part in outers], 1)
            joined.append(Outer(outers[0].param, inputs, outputs, start=outers[0].start))
        else:
            joined.append(Joint(same, count))
    return joined


class Sums:
    """The sums of one collection, for the parameters that are trained at its beginning. Nothing is written before it is needed."""

    def __init__(self, params: Mapping[str, Tensor]) -> None:
        trained = {name: param for name, param in params.items() if param.requires_grad}
        self._together: Tensor | None = None
        self._views: dict[str, Tensor] = {}
        self._written: set[str] = set()
        first = next(iter(trained.values()), None)
        if first is not None and len({param.device for param in trained.values()}) == 1:
            sizes = [param.numel() for param in trained.values()]
            self._together = torch.empty(sum(sizes), dtype=working_dtype(*trained.values()), device=first.device)
            pieces = torch.split(self._together, sizes)
            self._views = {name: piece.view(param.shape) for (name, param), piece in zip(trained.items(), pieces, strict=True)}

    def add(self, name: str, part: Part, weights: Tensor) -> None:
        """Add a part's gradients under the weights to the sum of the parameter `name`."""
        if name not in self._views:
            self._views[name] = torch.empty_like(part.param, dtype=working_dtype(part.param), requires_grad=False)
        sum_ = self._views[name]
        if name in self._written:
            place(sum_, part, part.weighted(weights), dim=0)
        elif part.whole:
            part.put(weights, sum_)
        else:
            place(sum_.zero_(), part, part.weighted(weights), dim=0)
        self._written.add(name)

    def take(self, params: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], Tensor | None]:
        """The sums of the parameters that are trained, zero for those without any, in a wide type; and all in one piece, if they are."""
        found: dict[str, Tensor] = {}
        for name, param in params.items():
            if not param.requires_grad:
                continue
            if name in self._written:
                found[name] = self._views[name]
            else:
                wide = torch.zeros_like(param, dtype=working_dtype(param), requires_grad=False)
                found[name] = self._views[name].zero_() if name in self._views else wide
        whole = self._together is not None and sum(map(Tensor.numel, found.values())) == self._together.numel()
        return found, self._together if whole and all(name in self._views and found[name] is self._views[name] for name in found) else None
