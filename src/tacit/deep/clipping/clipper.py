"""The clipper: attached to a model, it turns every training pass into the sum of clipped per-example gradients.

Forward and backward run once, as in ordinary training; autograd computes gradients of activations only. Norms come from each layer's input
and output gradient, and one weighted product per layer gives the clipped sum.

>>> model = nn.Linear(2, 1, bias=False)
>>> with Clipper(model, flat(1.0), loss_reduction="sum") as clipper:
...     model(torch.tensor([[3.0, 4.0], [0.3, 0.4]])).sum().backward()
...     clipped = clipper.collect()
>>> clipped.sums["weight"]  # (3, 4) has norm 5 and becomes (0.6, 0.8); (0.3, 0.4) stays
tensor([[0.9000, 1.2000]], dtype=torch.float64)
>>> clipped.count, clipped.sensitivity
(2, 1.0)

**Guarantee.** If the model treats examples independently and the loss is the sum or mean over examples of terms that each depend on one
example (no weights or divisors from the rest of the batch), then the exact sum of the clipped gradients changes by at most `sensitivity`
in Euclidean norm when an example is added or removed, and `sums`, as computed, is within `ROUNDING * sensitivity` of it after one pass
(twice that after several). So the computed sums move by at most `sensitivity * (1 + 2 * ROUNDING)`, whatever the values are. An example
whose gradient is not finite contributes nothing. Whether anything is refused depends on shapes and on the program, not on values.
Assumed of PyTorch: what it computes for one example in the forward and backward pass does not depend on the others.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn

from tacit.deep.clipping.fallback import Fallback
from tacit.deep.clipping.layers import Forward, how
from tacit.deep.clipping.parts import DOUBLE, Blocks, Bounds, Part, Sums, target
from tacit.deep.clipping.passes import ClippingError, Pass, Probe, Sharing, flatten, full_precision, own_backward, repeat_first, tap
from tacit.deep.clipping.rules import Rule
from tacit.deep.clipping.rules import flat as flat
from tacit.deep.validate import ensure_valid
from tacit.errors import ParameterError

ROUNDING = 2.0**-8  # of the sensitivity: how far the computed sum may be from the exact sum of the clipped gradients

SEVERAL = (
    "several forward passes came before one backward, and it cannot be known whether their rows are the same examples; "
    "call the model once on one batch, then backward, then the next (under torch.no_grad() a forward pass does not count)"
)
SHARED = (
    "an embedding looks up positions that all examples share, and what one example makes of its copy reaches another; look them up for "
    "each example, positions.expand(batch, -1), or give them no dimension of the batch"
)
AGAIN = "backward ran over a forward pass that is already clipped and summed; run the forward pass again"


@dataclass(frozen=True)
class Units:
    """What is clipped in a pass: `count` examples or users; `owner` says whose each row is, `own` what a row counts before clipping."""

    count: int
    owner: Tensor | None
    own: Tensor

    def rows(self, values: Tensor) -> Tensor:
        """Values of the units, along the last dimension, as values of their rows."""
        return values if self.owner is None else values[..., self.owner]


@dataclass(frozen=True)
class ClippedSum:
    """What the examples seen since the last collection add up to. Everything but `sensitivity` is private until noise is added."""

    sums: dict[str, Tensor]
    count: int
    norms: Tensor  # (groups, examples); for a detector of silent failures, never to be released
    factors: Tensor
    sensitivity: float
    seen: int = 0  # the examples that passed, those that count for nothing included
    passes: int = 0
    together: Tensor | None = None  # the sums side by side in one vector, whose parts they are, if they are of one type

    @property
    def reach(self) -> float:
        """How far one example moves the sums as computed, after one pass."""
        return self.sensitivity * (1 + 2 * ROUNDING)

    def within(self) -> int:
        """How many examples were not shortened: what an adaptive threshold counts."""
        return int((self.factors.amin(0) >= 1).sum()) if self.factors.numel() else 0


@dataclass(frozen=True)
class Rehearsed:
    """Gradients of a pass that was only rehearsed: parts of pieces that begin at certain examples, with the bounds of each example."""

    count: int
    parts: tuple[tuple[int, Part, Bounds], ...]

    def norms(self) -> Tensor:
        """The norm of each example's gradient in every use of a parameter: (examples, uses)."""
        columns: dict[tuple[int, int], Tensor] = {}
        uses: Counter[tuple[int, int]] = Counter()
        for first, part, bounds in self.parts:
            place = id(part.param), uses[first, id(part.param)]
            uses[first, id(part.param)] += 1
            column = columns.setdefault(place, torch.zeros(self.count, dtype=torch.float64))
            column[first : first + len(bounds.norms)] = bounds.norms.cpu()
        return torch.stack(list(columns.values()), 1) if columns else torch.zeros(self.count, 0, dtype=torch.float64)

    def dropped(self) -> Tensor:
        """Which examples have gradients that are not finite. They are made zero, as in training."""
        rows = ~self.norms().isfinite().all(1)
        for first, part, bounds in self.parts:
            part.drop(rows[first : first + len(bounds.norms)].to(part.param.device))
        return rows

    @torch.no_grad()
    def sums(self, weights: Tensor) -> list[Tensor]:
        """The examples' gradients under the weights, added up for each parameter."""
        found: dict[int, Tensor] = {}
        for first, part, bounds in self.parts:
            total = found.setdefault(id(part.param), torch.zeros_like(part.param, dtype=torch.float64, requires_grad=False))
            own = weights[first : first + len(bounds.norms)].to(part.param.device)
            part.add(target(total, part), own, Blocks(DOUBLE[0], torch.float64))
        return list(found.values())


class Clipper:
    """Clips the gradient of each example that passes through a model.

    `loss_reduction` says whether the loss is the mean or the sum over the batch's examples. `fallback` names modules to treat by the
    general path because they use the parameters of the layers inside them directly. `check_batch=False` leaves out the one extra
    forward pass, on the first batch with one row repeated, that shows that every layer's first dimension is the examples.
    """

    def __init__(
        self,
        model: nn.Module,
        rule: Rule,
        *,
        loss_reduction: Literal["mean", "sum"] = "mean",
        fallback: Sequence[str] = (),
        check_batch: bool = True,
    ) -> None:
        if loss_reduction not in ("mean", "sum"):
            raise ParameterError(f"loss_reduction must be 'mean' or 'sum', not {loss_reduction!r}")
        if isinstance(fallback, str):
            raise ParameterError(f"fallback must be a list of module names, not the string {fallback!r}; write [{fallback!r}]")
        if not isinstance(rule, Rule):
            raise ParameterError(f"rule must be a clipping rule such as flat(1.0), not {type(rule).__name__}")
        ensure_valid(model)
        known = dict(model.named_modules())
        for name in fallback:
            if name not in known:
                raise ParameterError(f"fallback names {name!r}, which is not a module of the model; see dict(model.named_modules())")
        self.model, self.rule, self.loss_reduction = model, rule, loss_reduction
        self._fallback, self._check = frozenset(fallback), check_batch
        self._names = {id(param): name for name, param in model.named_parameters()}
        self._params = dict(model.named_parameters())
        self._patched: list[_Patched | _Root] = []
        self._hooks: dict[str, Any] = {}
        self.largest: int | None = None  # examples at once; a larger batch is run in pieces, twice forward
        self.witness: Callable[..., Any] | None = None  # is told of every training call of the model
        self.rehearsal = False
        self.own_backward = False  # whether a pass so far had a function with a backward pass of its own
        self.narrow = False  # whether sums may come in single precision, where that is within the same error
        self.counting = True  # whether the next examples count: a placeholder for an empty batch does not
        self.book: Pass | None = None  # the pass in progress
        self.recording = False
        self._sharing: Sharing | None = None  # what all examples share, once the probe has told
        self._clear()

    @property
    def sharing(self) -> Sharing | None:
        """Which inputs all examples share; None before the probe, and without one."""
        return self._sharing

    @property
    def params(self) -> Mapping[str, nn.Parameter]:
        """The model's parameters by name, as they were when the clipper was made."""
        return self._params

    # Attaching

    @property
    def attached(self) -> bool:
        """Whether the model's passes are being recorded."""
        return bool(self._patched)

    def attach(self) -> Self:
        """Start: from now on training passes of the model leave no ordinary gradients."""
        if self.attached:
            return self
        if any(isinstance(module.__dict__.get("forward"), _Patched | _Root) for module in self.model.modules()):
            raise ClippingError("another clipper is attached to this model or to a part of it; detach it first")
        self._patch("", self.model)
        self._patched.append(_Root(self, self.model))
        return self

    def detach(self) -> None:
        """Stop, and leave the model as it was. What was not collected is forgotten."""
        for patch in reversed(self._patched):
            patch.undo()
        self._patched.clear()
        for hook in self._hooks.values():
            hook.remove()
        self._hooks.clear()
        self._clear()
        self.book, self.recording = None, False

    def __enter__(self) -> Self:
        return self.attach()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.detach()

    def _patch(self, path: str, module: nn.Module) -> None:
        """Patch the smallest modules that own parameters: known layers by book-keeping, others by the fall-back."""
        if any(isinstance(patch, _Patched) and patch.module is module for patch in self._patched):
            return  # one module under two names
        if path in self._fallback:
            self._patched.append(_Patched(self, path, module, None))
            return
        forward = how(module)
        if forward is not None or any(param is not None for param in module._parameters.values()) or "parametrizations" in module._modules:
            if any(True for _ in module.parameters()):
                self._patched.append(_Patched(self, path, module, forward))
            return
        for name, child in module.named_children():
            self._patch(f"{path}.{name}" if path else name, child)

    # Passes

    def begin(self, args: Any) -> None:
        """A forward pass of the model starts: settle the one before, and find the examples."""
        if self.book is not None:
            self._finish()
        tensors, _ = flatten(args)
        batch = next((tensor for tensor in tensors if tensor.ndim), None)
        if batch is None:
            raise ClippingError("the model was called without a tensor that has a first dimension, so there are no examples to tell apart")
        self._watch_strays()
        self.book = Pass(len(batch), self._sharing)

    def probe(self, forward: Forward, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Once, before the first recorded pass: with one more row, every layer must see one more example.

        An argument that all examples share may happen to have as many rows as the batch: then it is left as it is in a second try.
        """
        if not self._check or self.book is None or self.book.count == 0:
            return
        count, real = self.book.count, self.book
        try:
            with torch.no_grad():
                try:
                    sharing = self._probed(forward, repeat_first((args, kwargs), count), count + 1)
                except (RuntimeError, ValueError, IndexError, AssertionError):
                    sharing = self._probed(forward, repeat_first((args, kwargs), count, only_one=True), count + 1)
        finally:
            self.book = real
        self._sharing = real.sharing = sharing
        self._check = False

    def _probed(self, forward: Forward, given: Any, count: int) -> Sharing:
        """Run the model on `count` examples; which inputs they share. Their copies must not meet: no example may use another's."""
        args, kwargs = given
        found: list[list[Tensor]] = []
        sharing = Sharing()
        # The first run finds what is shared. Then all copies but the last are stirred, then the last alone: what the others come to stays.
        for moved in (None, slice(0, count - 1), slice(count - 1, count)):
            self.book = book = Probe(count, sharing, moved)
            with torch.random.fork_rng():
                found.append(flatten(forward(*args, **kwargs))[0])
            if not book.spreads:
                return sharing
        for stirred, others in ((found[1], slice(count - 1, count)), (found[2], slice(0, count - 1))):
            for one, other in zip(found[0], stirred, strict=True):
                if one.ndim and len(one) == count and _apart(one[others], other[others]):
                    raise ClippingError(SHARED)
        return sharing

    def _watch_strays(self) -> None:
        """A gradient that autograd brings to a parameter by itself was not clipped: refuse it by name."""
        for name, param in self._params.items():
            if param.requires_grad and name not in self._hooks:
                self._hooks[name] = param.register_hook(self._stray(name))  # type: ignore[no-untyped-call]

    def _stray(self, name: str) -> Any:
        owner = name.rpartition(".")[0]

        def refuse(gradient: Tensor) -> None:
            if not self.attached:
                return
            raise ClippingError(
                f"parameter {name!r} got a gradient that was not clipped per example. If a module uses it directly rather than by calling "
                f"{owner or 'its owner'!r}, name that module in Clipper(fallback=[...]); if the loss holds a penalty on it, use the "
                "optimiser's weight_decay; if the model was in eval mode, call model.train() before the forward pass"
            )

        return refuse

    # Sums

    def _clear(self) -> None:
        self._sums: Sums | None = None
        self._norms: list[Tensor] = []
        self._factors: list[Tensor] = []
        self._count = self._seen = self._passes = 0

    def groups(self) -> list[str]:
        """The names of the groups that the rule clips together: the whole model, or each layer with a trainable parameter."""
        if not self.rule.by_layer:
            return [""]
        return list(dict.fromkeys(name.rpartition(".")[0] for name, param in self._params.items() if param.requires_grad))

    def discard(self) -> None:
        """Forget everything since the last collection."""
        self._close()
        self._clear()

    def collect(self) -> ClippedSum:
        """The clipped sums of all examples since the last call, and start afresh. Without any pass the sums are zero."""
        if self.recording:
            raise ClippingError("collect() was called inside the model's forward pass; call it after backward")
        self._finish()
        groups = self.groups()
        sums, together = (self._sums or Sums(self._params)).take(self._params)
        empty = torch.zeros(len(groups), 0, dtype=torch.float64)
        result = ClippedSum(
            sums,
            self._count,
            torch.cat(self._norms, 1) if self._norms else empty,
            torch.cat(self._factors, 1) if self._factors else empty,
            self.rule.sensitivity(len(groups)),
            self._seen,
            self._passes,
            together,
        )
        self._clear()
        return result

    def _close(self) -> Pass | None:
        """Take the current pass out of use: its graph may not be differentiated any more."""
        book, self.book = self.book, None
        if book is not None:
            book.closed = AGAIN if book.received else SEVERAL
        return book

    @torch.no_grad()
    def _finish(self) -> None:
        """Clip and add what the last pass received."""
        book = self._close()
        if book is None or not book.received:
            return
        self._passes += 1
        if isinstance(book, Split):
            for piece, share in book.run(self):
                self._settle(piece, book.count, share)
        else:
            self._settle(book, book.count, 1.0)

    def _settle(self, book: Pass, whole: int, share: float) -> None:
        """Clip and add one pass, or a piece of one over `whole` examples."""
        with full_precision(next(iter(self._params.values())).device.type):
            taken = list(book.take())
            members = self._members([part for part, _ in taken])
            bounds = [Bounds(bounds.norms.cpu(), bounds.masses.cpu()) for _, bounds in taken]
            units = self._units(book, whole)
            self._seen += units.count
            if self.counting:
                self._add(members, bounds, units, share)
        book.forget()

    @contextmanager
    def rehearsing(self) -> Iterator[None]:
        """A block in which the model is only run again, in pieces as in training."""
        self.rehearsal = True
        try:
            yield
        finally:
            self.rehearsal = False

    def again(self, args: Any, kwargs: Any, gradients: Sequence[Tensor | None]) -> Rehearsed:
        """The model once more on these arguments, differentiated with these gradients of its floating outputs by the very backward pass
        of training: what each example's gradient is. The pass in progress stays as it is.
        """
        root, (tensors, rebuild) = self._patched[-1], flatten((args, kwargs))
        count = next((len(tensor) for tensor in tensors if tensor.ndim), 0)
        found: list[tuple[int, Part, Bounds]] = []
        before = self.book, self.recording
        try:
            for first, last in self.cuts(count, self.largest or max(count, 1)):
                book = self.book = Pass(last - first, self._sharing)
                own = [tensor[first:last] if tensor.ndim and len(tensor) == count else tensor for tensor in tensors]
                self.recording = True
                with torch.enable_grad():
                    own_args, own_kwargs = rebuild(own)
                    outputs = [output for output in flatten(root.original(*own_args, **own_kwargs))[0] if output.is_floating_point()]
                self.recording = False
                pairs = [
                    (output, gradient if gradient.shape == output.shape else gradient[first:last])
                    for output, gradient in zip(outputs, gradients, strict=True)
                    if gradient is not None and output.requires_grad
                ]
                torch.autograd.backward([output for output, _ in pairs], [gradient for _, gradient in pairs])
                with torch.no_grad(), full_precision(next(iter(self._params.values())).device.type):
                    found += [(first, part, bounds) for part, bounds in book.take()]
        finally:
            self.book, self.recording = before
        return Rehearsed(count, tuple(found))

    def cuts(self, count: int, largest: int) -> list[tuple[int, int]]:
        """Where a batch is cut into pieces of at most `largest` examples."""
        return [(first, min(first + largest, count)) for first in range(0, count, largest)]

    def _units(self, book: Pass, whole: int) -> Units:
        """What is clipped: each example, in the scale of a loss that is its own."""
        scale = float(whole) if self.loss_reduction == "mean" else 1.0
        return Units(book.count, None, torch.full((book.count,), scale, dtype=torch.float64))

    def _add(self, members: Sequence[tuple[int, str, Part]], bounds: Sequence[Bounds], units: Units, share: float) -> None:
        """Clip the gradient of each unit and add it to the sums, with a rounding error within its share of `ROUNDING`."""
        norms = self._norms_of(members, bounds, units)
        factors = self.rule.factors(norms)
        if not math.isfinite(float(norms.sum())):  # one look at all of them is cheaper than one at each
            usable = norms.isfinite().all(0)
            factors[:, ~usable] = 0
            rows = units.rows(~usable)
            for _, _, part in members:
                part.drop(rows.to(part.param.device))
        weights = units.rows(factors) * units.own
        weights.masked_fill_(weights < 2.0**-100, 0.0)  # a smaller one could lose digits in single precision
        blocks = self._blocks(members, bounds, weights, share)
        if self._sums is None:
            self._sums = Sums(self._params, blocks.dtype if self._in_one_group(members, blocks, share) else torch.float64)
        elif self._sums.dtype != torch.float64:
            self._sums = self._sums.widened(self._params)
        by_device: dict[tuple[int, torch.device], Tensor] = {}
        for group, name, part in members:
            place = group, part.param.device
            if place not in by_device:
                by_device[place] = weights[group].to(part.param.device)
            self._sums.add(name, part, by_device[place], blocks)
        self._norms.append(norms)
        self._factors.append(factors)
        self._count += units.count

    def _in_one_group(self, members: Sequence[tuple[int, str, Part]], blocks: Blocks, share: float) -> bool:
        """Whether every sum of this pass is that of one group of blocks, as `Blocks.error` counts it, and none needs another type."""
        return (
            self.narrow
            and share == 1
            and len({name for _, name, _ in members}) == len(members)
            and all(part.grouping and part.whole and blocks.grouped(part.terms) for _, _, part in members)
        )

    def _blocks(self, members: Sequence[tuple[int, str, Part]], bounds: Sequence[Bounds], weights: Tensor, share: float) -> Blocks:
        """How to add up this pass: the first may err by `ROUNDING`, all later ones together by as much again."""
        later = self._passes * (self._passes - 1)
        error = self.rule.sensitivity(len(self.groups())) * ROUNDING * share / (later if later else 1)
        if not members:
            return Blocks(1)
        own = weights if len(weights) == 1 else weights[[group for group, _, _ in members]]
        masses = torch.stack([bound.masses for bound in bounds]).mul_(own)
        # a unit without weight is zero in every part
        mass = float(torch.linalg.vector_norm(masses.nan_to_num_(0.0, 0.0).sum(1))) * (1 + 2.0**-20)
        parts = [part for _, _, part in members]
        least = sum(part.terms * math.sqrt(part.param.numel()) for part in parts) * 2.0**-64
        single = all(part.dtype == torch.float32 for part in parts)
        return Blocks.within(error, mass, max(part.terms for part in parts), least, single=single)

    def _members(self, parts: Sequence[Part]) -> list[tuple[int, str, Part]]:
        """Each part with its group and the name of its parameter."""
        names = [self._name(part.param) for part in parts]
        if not self.rule.by_layer:
            return [(0, name, part) for name, part in zip(names, parts, strict=True)]
        groups = self.groups()
        return [(groups.index(name.rpartition(".")[0]), name, part) for name, part in zip(names, parts, strict=True)]

    def _norms_of(self, members: Sequence[tuple[int, str, Part]], bounds: Sequence[Bounds], units: Units) -> Tensor:
        """At least the norm of each group of parameters for each unit: (groups, units)."""
        squares = torch.zeros(len(self.groups()), units.count, dtype=torch.float64)
        for (group, _, part), bound in zip(members, bounds, strict=True):
            squares[group].add_(self._part_norms(part, bound, units).square_())
        return squares.sqrt_().mul_(1 + (len(members) + 8) * 2.0**-52)

    def _part_norms(self, part: Part, bound: Bounds, units: Units) -> Tensor:
        """At least the norm of each unit's gradient of one part."""
        return bound.norms * units.own

    def _name(self, param: Tensor) -> str:
        name = self._names.get(id(param))
        if name is None:
            raise ClippingError("a parameter was replaced after the clipper was made; detach it and make a new one for the changed model")
        return name


def _apart(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors differ by more than rounding."""
    if one.shape != other.shape:
        return True
    left, right = (torch.nan_to_num(value.double()) for value in (one, other))
    return bool(((left - right).abs() > 1e-4 * (1e-6 + left.abs() + right.abs())).any())


class Split(Pass):
    """A pass in pieces: forward once without a graph, and once more, piece by piece, when the gradients of the outputs are known.

    What the loop sees is one batch; what is in memory at once is one piece.
    """

    def __init__(self, count: int, cuts: Sequence[tuple[int, int]], original: Forward) -> None:
        super().__init__(count)
        self.cuts, self.original = cuts, original
        self.states: list[Tensor] = []
        self.gradients: dict[int, Tensor] = {}
        self.pieces: list[tuple[Any, Any]] = []
        self.autocast = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")

    def forward(self, args: Any, kwargs: Any) -> Any:
        tensors, rebuild = flatten((args, kwargs))
        outputs, shape = [], None
        for first, last in self.cuts:
            own = [tensor[first:last] if tensor.ndim and len(tensor) == self.count else tensor for tensor in tensors]
            self.pieces.append(rebuild(own))
            self.states.append(torch.get_rng_state())
            with torch.no_grad():
                found, shape = flatten(self.original(*self.pieces[-1][0], **self.pieces[-1][1]))
            outputs.append(found)
        assert shape is not None
        return shape([self._joined(place, column) for place, column in enumerate(zip(*outputs, strict=True))])

    def _joined(self, place: int, column: Sequence[Tensor]) -> Tensor:
        if any(not tensor.ndim or len(tensor) != last - first for tensor, (first, last) in zip(column, self.cuts, strict=True)):
            raise ClippingError("with physical_batch= every output of the model must have the examples in its first dimension")
        joined = torch.cat(list(column))
        if not joined.is_floating_point():
            return joined

        def reader(gradient: Tensor) -> None:
            self.admit(again=place in self.gradients)
            self.gradients[place] = gradient

        return tap(joined, reader)

    def run(self, clipper: Clipper) -> Iterator[tuple[Pass, float]]:
        """Each piece's pass, differentiated, with its share of the examples."""
        if not clipper.model.training:
            raise ClippingError("with physical_batch= the model must stay in train mode until optimizer.step()")
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            for (first, last), (args, kwargs), state in zip(self.cuts, self.pieces, self.states, strict=True):
                torch.set_rng_state(state)
                book = clipper.book = Pass(last - first, clipper.sharing)
                clipper.recording = True
                try:
                    clipper.probe(self.original, args, kwargs)
                    with torch.autocast("cpu", dtype=self.autocast[1], enabled=self.autocast[0]):
                        outputs, _ = flatten(self.original(*args, **kwargs))
                finally:
                    clipper.recording, clipper.book = False, None
                clipper.own_backward = clipper.own_backward or own_backward(outputs)
                wanted = [(outputs[place], gradient[first:last]) for place, gradient in self.gradients.items()]
                with full_precision("cpu"):
                    torch.autograd.backward([output for output, _ in wanted], [gradient for _, gradient in wanted])
                with torch.no_grad():
                    yield book, (last - first) / self.count
                book.closed = AGAIN
        self.pieces.clear()
        self.gradients.clear()


class _Patched:
    """Stands in for a layer's forward while a clipper is attached."""

    def __init__(self, clipper: Clipper, path: str, module: nn.Module, forward: Forward | None) -> None:
        self.clipper, self.path, self.module, self.forward = clipper, path, module, forward
        self.own = module.__dict__.get("forward")
        self.original = module.forward
        self.params = list(module.parameters())
        self.fallback = Fallback(path, module, self.original) if forward is None else None
        module.forward = self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        clipper = self.clipper
        if not clipper.recording:
            if clipper.model.training and torch.is_grad_enabled() and any(param.requires_grad for param in self.params):
                raise ClippingError(
                    f"layer {self.path!r} was called outside the model's own forward pass; call the model itself (put the pieces in one "
                    "nn.Module, and leave out activation checkpointing), or use torch.no_grad() if no gradient is wanted"
                )
            return self.original(*args, **kwargs)
        book = clipper.book
        if book is None or not any(param.requires_grad for param in self.params) or not (torch.is_grad_enabled() or book.probing):
            return self.original(*args, **kwargs)
        if self.fallback is not None:
            return self.fallback(book, *args, **kwargs)
        assert self.forward is not None
        return self.forward(book, self.path, self.module, *args, **kwargs)

    def undo(self) -> None:
        if self.own is None:
            del self.module.__dict__["forward"]
        else:
            self.module.forward = self.own

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A copy of the model is an ordinary model."""
        copied = memo.get(id(self.module))
        return self.original if copied is None else type(copied).forward.__get__(copied)

    def __reduce__(self) -> tuple[Any, ...]:
        """So is what is loaded from a file."""
        return getattr, (self.module, "forward")


class _Root(_Patched):
    """Stands in for the model's forward: opens a pass for every call in training."""

    def __init__(self, clipper: Clipper, module: nn.Module) -> None:
        self.clipper, self.module = clipper, module
        self.own = module.__dict__.get("forward")
        self.original = module.forward
        module.forward = self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        clipper = self.clipper
        if clipper.rehearsal and clipper.largest is not None:
            count = next((len(tensor) for tensor in flatten((args, kwargs))[0] if tensor.ndim), 0)
            return Split(count, clipper.cuts(count, clipper.largest), self.original).forward(args, kwargs)
        if clipper.recording or not clipper.model.training or not torch.is_grad_enabled():
            return self._plain(*args, **kwargs)
        if clipper.witness is not None:  # sees each call once, and calls back
            witness, clipper.witness = clipper.witness, None
            try:
                return witness(self, args, kwargs)
            finally:
                clipper.witness = witness
        clipper.begin((args, kwargs))
        if clipper.largest is not None and clipper.book is not None:
            cuts = clipper.cuts(clipper.book.count, clipper.largest)
            if len(cuts) > 1:
                clipper.book = Split(clipper.book.count, cuts, self.original)
                return clipper.book.forward(args, kwargs)
        clipper.recording = True
        try:
            clipper.probe(self.original, args, kwargs)
            found = self.original(*args, **kwargs)
        finally:
            clipper.recording = False
        clipper.own_backward = clipper.own_backward or own_backward(flatten(found)[0])
        return found

    def _plain(self, *args: Any, **kwargs: Any) -> Any:
        return self.original(*args, **kwargs)
