"""Parts: what one use of one parameter contributes to the gradient of every example, in the form that is cheapest to clip.

A part bounds the norm of each example's gradient from above, rounding included, and adds the examples' gradients under given
weights to a sum. It writes down the gradient of a single example only where nothing else will do. Every rounding error has a bound
(`Blocks`), so one example moves the computed sum by its clip and a stated trifle (docs/decisions/0015).

>>> inputs, gradients = torch.eye(2), torch.tensor([[3.0, 4.0], [0.0, 1.0]])
>>> weight = torch.nn.Parameter(torch.zeros(2, 2))
>>> part = Outer(weight, inputs.unsqueeze(1), gradients.unsqueeze(1))
>>> [round(norm, 3) for norm in part.bounds().norms.tolist()]
[5.0, 1.0]
>>> sums = Sums({"weight": weight})
>>> sums.add("weight", part, torch.tensor([0.2, 1.0]), Blocks(rows=32))
>>> sums.take({"weight": weight})[0]["weight"]
tensor([[0.6000, 0.0000],
        [0.8000, 1.0000]], dtype=torch.float64)

Norms of sequences (Li et al. 2022, "ghost norm"): the squared norm of sum_t g_t a_t' is sum_{s,t} <a_s, a_t> <g_s, g_t>, so it needs two
Gram matrices of side T and no gradient. Which is cheaper, that or the gradient itself, depends on the shapes and is computed from them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from tacit.deep.errors import ClippingError

# What reading, writing and first touching one number of a per-example gradient costs, in floating-point operations of a matrix product
# (0.6 to 2 ns against 64 operations a ns, measured on one core).
TOUCH = 60
CHUNK = 1 << 22  # numbers of per-example gradients that may be alive at once where they are not kept
KEEP = 1 << 26  # numbers of per-example gradients of one parameter that may be kept until the factors are known
ROW = 1024  # numbers of a row whose squares are summed in the working precision
# A longer vector is taken for infinite: so no number that underflows can grow again to something that counts.
LARGE = {torch.float32: 2.0**62, torch.float64: 2.0**500}
FLOOR = {torch.float32: 2.0**-12, torch.float64: 2.0**-20}  # of its mass: no gradient is taken for shorter
UNIT = {torch.float32: 2.0**-24, torch.float64: 2.0**-53}  # the relative error of one operation
FEWEST = 24  # rows; products of fewer are not worth their while in single precision
GROUP = 8  # blocks that are added up in the working precision
DOUBLE = (1 << 14, 1 << 10, 1 << 6)  # rows of products in double precision


def working_dtype(*tensors: Tensor) -> torch.dtype:
    """The type products are computed in: at least single precision.

    >>> working_dtype(torch.zeros(1, dtype=torch.bfloat16)), working_dtype(torch.zeros(1), torch.zeros(1, dtype=torch.float64))
    (torch.float32, torch.float64)
    """
    dtype = torch.float32
    for tensor in tensors:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return dtype


class Bounds(NamedTuple):
    """For each example, in double precision: at least the norm of its gradient, and its mass, the norms of all its terms added up.

    Terms may cancel, so the norm may be far below the mass; the rounding error of a sum of them is a share of the mass.
    """

    norms: Tensor
    masses: Tensor


@dataclass(frozen=True)
class Blocks:
    """How sums are computed: products over `rows` rows at a time in `dtype`, up to `GROUP` such blocks added up in it, and the groups in
    double precision.

    The sum of K terms differs from the exact one by at most `error(K)` times the sum of the norms of the terms, in whatever order
    the products are taken (Higham 2002, Section 3.1): each term is scaled, multiplied and added at most `rows` times in its block and
    `GROUP` times in its group in `dtype`, and each group is added once in double.

    >>> Blocks(rows=64).error(512) < 4.6e-6
    True
    """

    rows: int
    dtype: torch.dtype = torch.float32

    def grouped(self, terms: int) -> bool:
        """Whether so many terms are one group, whose sum is all in `dtype`.

        >>> Blocks(rows=64).grouped(512), Blocks(rows=64).grouped(513)
        (True, False)
        """
        return terms <= GROUP * self.rows

    def error(self, terms: int) -> float:
        """The relative error of a sum of so many terms."""
        short = (min(self.rows, terms) + min(GROUP, -(-terms // self.rows)) + 4) * UNIT[self.dtype]
        long = (-(-terms // self.rows) + 2) * UNIT[torch.float64]
        return (short + long) / (1 - short - long) if short + long < 0.5 else math.inf

    @classmethod
    def within(cls, error: float, mass: float, terms: int, least: float = 0.0, *, single: bool = True) -> Blocks:
        """The fastest way to sum `terms` terms of the total `mass` that is within `error`, whatever the values.

        `least` is what single precision may lose to underflow, and `single` whether it may be used at all.

        >>> Blocks.within(2**-8, mass=512, terms=512).rows, Blocks.within(2**-9, mass=1e5, terms=100_000).dtype
        (112, torch.float64)
        """
        if single and least <= error / 64:
            allowed = error * (63 / 64)
            found = cls(max(terms, 1))
            if found.error(terms) * mass > allowed:
                found = cls(max(int(allowed / (mass * UNIT[torch.float32])) - 6 - GROUP, 1))
            if found.rows >= min(FEWEST, terms) and found.error(terms) * mass <= allowed:
                return found
        for rows in DOUBLE:
            found = cls(rows, torch.float64)
            if found.error(terms) * mass <= error:
                return found
        raise ClippingError("a step has too many records for sums of a known precision; sample smaller batches")


def row_norms(values: Tensor) -> Tensor:
    """At least the norm of each row, whatever the row's shape, in double precision; infinite or no number where the row is not finite.

    Squares of at most `ROW` numbers are summed in the working precision, which takes at most `ROW` roundings from them; a square that
    underflows is below the least normal number. A norm beyond `LARGE` is infinite.

    >>> [round(norm, 3) for norm in row_norms(torch.ones(2, 3, 3)).tolist()], bool(row_norms(torch.full((1, 4), 1e-23)) >= 2e-23)
    ([3.0, 3.0], True)
    """
    rows = values if values.ndim == 2 else values.reshape(values.shape[0], math.prod(values.shape[1:]))
    width = rows.shape[1]
    info = torch.finfo(rows.dtype)
    if width <= ROW:
        found: Tensor = torch.linalg.vector_norm(rows, dim=1).double()
    else:
        whole = width - width % ROW
        pieces = torch.linalg.vector_norm(rows[:, :whole].view(len(rows), -1, ROW), dim=2).double()
        if whole < width:
            pieces = torch.cat([pieces, torch.linalg.vector_norm(rows[:, whole:], dim=1, keepdim=True).double()], 1)
        found = torch.linalg.vector_norm(pieces, dim=1)
    found = found.mul_(1 + (min(width, ROW) / 2 + 8) * UNIT[rows.dtype]).add_(2 * math.sqrt(width * info.tiny))
    return found.masked_fill_(found > LARGE[rows.dtype], torch.inf)


def floored(norms: Tensor, masses: Tensor, dtype: torch.dtype) -> Bounds:
    """Bounds of gradients whose terms may cancel: where they do so almost wholly, the norm is taken to be a small share of the mass."""
    return Bounds(torch.maximum(norms, masses * FLOOR[dtype]), masses)


def weigh(values: Tensor, weights: Tensor) -> Tensor:
    """The rows of `values` times their weights."""
    return values * weights.to(values.dtype).view(-1, *[1] * (values.ndim - 1))


def add_products(total: Tensor, left: Tensor, right: Tensor, blocks: Blocks) -> None:
    """Add left' right, both (rows, ...), to `total`, a matrix in double precision, or in that of one group of blocks."""
    count = left.shape[0]
    if not count:
        return
    if total.dtype == blocks.dtype and blocks.grouped(count):
        for first in range(0, count, blocks.rows):
            total.addmm_(left[first : first + blocks.rows].to(blocks.dtype).T, right[first : first + blocks.rows].to(blocks.dtype))
        return
    room = torch.empty(total.shape, dtype=blocks.dtype, device=total.device)
    for start in range(0, count, GROUP * blocks.rows):
        stop = min(start + GROUP * blocks.rows, count)
        for first in range(start, stop, blocks.rows):
            last = min(first + blocks.rows, stop)
            one, other = left[first:last].to(blocks.dtype).T, right[first:last].to(blocks.dtype)
            # One pass over memory for each block: the product is added to the group as it is made.
            torch.mm(one, other, out=room) if first == start else room.addmm_(one, other)
        total += room


def add_rows(total: Tensor, values: Tensor, weights: Tensor, blocks: Blocks) -> None:
    """Add the rows of `values` times their weights to `total`, in double precision."""
    rows = values.reshape(values.shape[0], math.prod(values.shape[1:]))
    flat, own = total.view(-1), weights.to(blocks.dtype)
    for first in range(0, len(rows), blocks.rows):
        last = first + blocks.rows
        flat += torch.mv(rows[first:last].to(blocks.dtype).T, own[first:last])


class Part(ABC):
    """One use of a parameter. `start` is the first row of the parameter it concerns (a slice of an attention's stacked projections)."""

    param: Tensor
    start: int = 0
    rows: int
    grouping = False  # whether `add` adds nothing but blocks, so that one group of them needs no double precision

    @property
    def whole(self) -> bool:
        """Whether it concerns all of the parameter, not a slice of its rows."""
        return self.rows == self.param.shape[0] if self.param.ndim else True  # the length of a tensor takes five times as long

    @property
    def terms(self) -> int:
        """How many terms its sum has, over all examples."""
        return 0

    @property
    def dtype(self) -> torch.dtype:
        """The type of its numbers."""
        return working_dtype(self.param)

    @abstractmethod
    def bounds(self) -> Bounds:
        """What each example's gradient is at most."""

    @abstractmethod
    def add(self, total: Tensor, weights: Tensor, blocks: Blocks) -> None:
        """Add the examples' gradients under the weights to `total`, which has the shape of the rows it concerns, in double precision."""

    @abstractmethod
    def explicit(self, first: int, last: int) -> Tensor:
        """The gradients of the examples from `first` to `last`, in the shape of the rows it concerns."""

    @abstractmethod
    def drop(self, rows: Tensor) -> None:
        """Make the gradients of the examples marked in `rows` zero, whatever they held."""

    def settle(self) -> Bounds:
        """The bounds, at a time when the part will stay the only one of its parameter: it may change its form to save memory."""
        return self.bounds()


class Explicit(Part):
    """Per-example gradients as they are."""

    grouping = True

    def __init__(self, param: Tensor, gradients: Tensor, *, start: int = 0, norms: Tensor | None = None) -> None:
        self.param, self.gradients, self.start = param, gradients, start
        self.rows = gradients.shape[1] if gradients.ndim > 1 else 0
        self._norms = norms

    @property
    def terms(self) -> int:
        return self.gradients.shape[0]

    @property
    def dtype(self) -> torch.dtype:
        return self.gradients.dtype

    def bounds(self) -> Bounds:
        norms = row_norms(self.gradients) if self._norms is None else self._norms
        return Bounds(norms, norms)

    def add(self, total: Tensor, weights: Tensor, blocks: Blocks) -> None:
        add_rows(total, self.gradients, weights, blocks)

    def explicit(self, first: int, last: int) -> Tensor:
        return self.gradients[first:last]

    def drop(self, rows: Tensor) -> None:
        self.gradients = blank(self.gradients, rows)


class Keeping(Part):
    """Products of inputs and output gradients, which may turn into per-example gradients where those take less memory."""

    inputs: Tensor
    outputs: Tensor
    _kept: Tensor | None = None

    @property
    @abstractmethod
    def products(self) -> int:
        """How many terms the sum has as long as it is made of products."""

    @abstractmethod
    def add_from_products(self, total: Tensor, weights: Tensor, blocks: Blocks) -> None:
        """What `add` does with products."""

    @abstractmethod
    def explicit_from_products(self, first: int, last: int) -> Tensor:
        """The gradients of these examples, from their products."""

    def keep(self) -> Bounds:
        """From here on hold the gradients, and no longer what they are made of."""
        self._kept = self.explicit_from_products(0, len(self.inputs))
        del self.inputs, self.outputs
        norms = row_norms(self._kept)
        return Bounds(norms, norms)

    @property
    def terms(self) -> int:
        return self.products if self._kept is None else len(self._kept)

    @property
    def dtype(self) -> torch.dtype:
        return self.outputs.dtype if self._kept is None else self._kept.dtype

    def add(self, total: Tensor, weights: Tensor, blocks: Blocks) -> None:
        if self._kept is None:
            self.add_from_products(total, weights, blocks)
        else:
            add_rows(total, self._kept, weights, blocks)

    def explicit(self, first: int, last: int) -> Tensor:
        return self.explicit_from_products(first, last) if self._kept is None else self._kept[first:last]

    def drop(self, rows: Tensor) -> None:
        if self._kept is not None:
            self._kept = blank(self._kept, rows)
        else:
            self.inputs, self.outputs = blank(self.inputs, rows), blank(self.outputs, rows)


class Outer(Keeping):
    """The gradient of a matrix: sum over time of output gradient times input.

    `inputs` is (examples, time, features) and `outputs` (examples, time, rows of the matrix). `norms` may pass on
    norms of the outputs that were needed elsewhere, if time is one step.
    """

    grouping = True

    def __init__(self, param: Tensor, inputs: Tensor, outputs: Tensor, *, start: int = 0, norms: Tensor | None = None) -> None:
        dtype = working_dtype(inputs, outputs)
        self.param, self.start = param, start
        self.inputs, self.outputs = inputs.to(dtype), outputs.to(dtype)
        self.rows = outputs.shape[2]
        self._norms = norms

    @property
    def products(self) -> int:
        return self.inputs.shape[0] * self.inputs.shape[1]

    def bounds(self) -> Bounds:
        inputs, outputs = self.inputs, self.outputs
        if inputs.shape[1] == 1:
            norms = row_norms(outputs[:, 0]) if self._norms is None else self._norms
            norms = row_norms(inputs[:, 0]) * norms
            return Bounds(norms, norms)
        if ghost_is_cheaper(outputs.shape[1], outputs.shape[2], inputs.shape[2]):
            return ghost_bounds(inputs, outputs)
        return chunked_bounds(self, len(inputs), outputs.shape[2] * inputs.shape[2], step_masses(inputs, outputs), inputs.shape[1])

    def settle(self) -> Bounds:
        count, time, width = self.inputs.shape
        if time == 1 or ghost_is_cheaper(time, self.rows, width) or count * self.rows * width > KEEP:
            return self.bounds()
        return self.keep()

    def add_from_products(self, total: Tensor, weights: Tensor, blocks: Blocks) -> None:
        outputs = weigh(self.outputs.to(blocks.dtype), weights)
        add_products(total.view(self.rows, -1), outputs.flatten(0, 1), self.inputs.flatten(0, 1), blocks)

    def explicit_from_products(self, first: int, last: int) -> Tensor:
        return torch.bmm(self.outputs[first:last].transpose(1, 2), self.inputs[first:last])



class Joint(Part):
    """Several uses of one parameter by the same examples: the norm of a sum is not the sum of the norms, so gradients are added first."""

    def __init__(self, parts: Sequence[Part], count: int) -> None:
        self.param = parts[0].param
        self.rows = len(self.param) if self.param.ndim else 0
        self.parts = list(parts)
        self.count = count

    @property
    def terms(self) -> int:
        return sum(part.terms for part in self.parts)

    @property
    def dtype(self) -> torch.dtype:
        return torch.float32 if any(part.dtype == torch.float32 for part in self.parts) else torch.float64

    def bounds(self) -> Bounds:
        masses = torch.stack([part.bounds().masses for part in self.parts]).sum(0)
        return chunked_bounds(self, self.count, self.param.numel(), masses, self.terms // max(self.count, 1) + len(self.parts))

    def add(self, total: Tensor, weights: Tensor, blocks: Blocks) -> None:
        for part in self.parts:
            part.add(target(total, part), weights, blocks)

    def explicit(self, first: int, last: int) -> Tensor:
        total = self.param.new_zeros((last - first, *self.param.shape), dtype=self.dtype)
        for part in self.parts:
            rows = total if part.whole else total.narrow(1, part.start, part.rows)
            rows += part.explicit(first, last).reshape(rows.shape)
        return total

    def drop(self, rows: Tensor) -> None:
        for part in self.parts:
            part.drop(rows)


def target(total: Tensor, part: Part) -> Tensor:
    """The rows of `total` that a part concerns."""
    return total if part.whole else total.narrow(0, part.start, part.rows)


def blank(values: Tensor, rows: Tensor) -> Tensor:
    """A copy with the marked rows zero: multiplying by zero would keep a NaN."""
    return values.masked_fill(rows.view(-1, *[1] * (values.ndim - 1)), 0)


def step_masses(inputs: Tensor, outputs: Tensor) -> Tensor:
    """The sum over time of the norms of the steps' products; both (examples, time, numbers)."""
    count, time = inputs.shape[:2]
    lengths = [row_norms(values.flatten(0, 1)).view(count, time) for values in (inputs, outputs)]
    return (lengths[0] * lengths[1]).sum(1)


def chunked_bounds(part: Part, count: int, numbers: int, masses: Tensor, terms: int) -> Bounds:
    """Bounds from explicit gradients, a few examples at a time so that memory stays bounded; `terms` is how many each is the sum of."""
    step = max(1, CHUNK // max(numbers, 1))
    found = [row_norms(part.explicit(first, min(first + step, count))) for first in range(0, count, step)]
    norms = torch.cat(found) if found else part.param.new_zeros(0, dtype=torch.float64)
    return floored(norms + masses * Blocks(max(terms, 1), part.dtype).error(terms), masses, part.dtype)


def ghost_is_cheaper(time: int, rows: int, width: int, product: float = 1.0) -> bool:
    """Whether two Gram matrices and one product cost less than the gradient of each example; operations per example.

    >>> ghost_is_cheaper(16, 512, 512), ghost_is_cheaper(1024, 32, 288)
    (True, False)
    """
    ghost = 2 * time * time * (rows + width) + product * 2 * time * rows * width
    explicit = (2 * time + TOUCH) * rows * width
    return ghost < explicit


def ghost_bounds(inputs: Tensor, outputs: Tensor) -> Bounds:
    """Bounds from the two Gram matrices, in double precision: an example whose time steps cancel must not pass for a small one."""
    wide, high = inputs.double(), outputs.double()
    gram = torch.bmm(wide, wide.transpose(1, 2))
    gram *= torch.bmm(high, high.transpose(1, 2))
    masses = (wide.square().sum(2).sqrt() * high.square().sum(2).sqrt()).mul_(1 + 2.0**-30).sum(1)
    time, numbers = inputs.shape[1], inputs.shape[2] + outputs.shape[2]
    lost = (time * time + numbers + 8) * UNIT[torch.float64]
    norms = (gram.sum((1, 2)).clamp_(min=0) + masses.square() * lost).sqrt_()
    largest = torch.maximum(wide.abs().amax((1, 2)), high.abs().amax((1, 2))) if gram.numel() else masses
    return floored(norms.masked_fill_(largest > LARGE[inputs.dtype] / max(numbers, 1), torch.inf), masses, inputs.dtype)


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
    """The sums of one collection, for the parameters that are trained at its beginning, side by side in one piece.

    They are kept in double precision, or in another type if each is to be that of one group of blocks. What is handed
    out is never written to again.
    """

    def __init__(self, params: Mapping[str, Tensor], dtype: torch.dtype = torch.float64) -> None:
        self.dtype = dtype
        trained = {name: param for name, param in params.items() if param.requires_grad}
        self._views: dict[str, Tensor] = {}
        self._together: Tensor | None = None
        if len({param.device for param in trained.values()}) == 1:
            sizes = [param.numel() for param in trained.values()]
            self._together = torch.zeros(sum(sizes), dtype=dtype, device=next(iter(trained.values())).device)
            pieces = self._together.split_with_sizes(sizes)
            self._views = {name: piece.view(param.shape) for (name, param), piece in zip(trained.items(), pieces, strict=True)}
        self._side_by_side = self._views.keys() & trained.keys()

    def add(self, name: str, part: Part, weights: Tensor, blocks: Blocks) -> None:
        """Add a part's gradients under the weights to the sum of the parameter `name`."""
        part.add(target(self._view(name, part.param), part), weights, blocks)

    def widened(self, params: Mapping[str, Tensor]) -> Sums:
        """The same in double precision, to be added to further."""
        found = Sums(params)
        for name, view in self._views.items():
            found._view(name, params[name]).copy_(view)
        return found

    def _view(self, name: str, param: Tensor) -> Tensor:
        if name not in self._views:
            self._views[name] = torch.zeros_like(param, dtype=self.dtype, requires_grad=False, memory_format=torch.contiguous_format)
        return self._views[name]

    def take(self, params: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], Tensor | None]:
        """The sums of the parameters that are trained, zero for those without any; and all in one piece, if they are."""
        trained = {name: param for name, param in params.items() if param.requires_grad}
        whole = self._side_by_side == trained.keys()
        return {name: self._view(name, param) for name, param in trained.items()}, self._together if whole else None
