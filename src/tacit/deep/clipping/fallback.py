"""The fall-back for any module: a copy of its parameters for every example, and torch.func.vmap over the examples.

Autograd then gives each example's copy a gradient of its own. This is right for every module that treats examples independently and takes
them in the first dimension of its arguments; dropout draws one mask, which forward and backward share. A module that vmap cannot trace
(data-dependent branches, native recurrent kernels) is run example by example. Where a gradient per example would take too much
memory, gradients are computed again, a few examples at a time, once for the norms and once for the sum.

>>> class Scale(nn.Module):
...     def __init__(self):
...         super().__init__()
...         self.scale = nn.Parameter(torch.ones(3))
...     def forward(self, x):
...         return x * self.scale
>>> module, book = Scale(), Pass(count=2)
>>> fallback = Fallback("scale", module, module.forward)
>>> fallback(book, torch.tensor([[1.0, 2.0, 2.0], [3.0, 4.0, 0.0]])).sum().backward()
>>> [[round(norm, 3) for norm in bounds.norms.tolist()] for _, bounds in book.take()]
[[3.0, 5.0]]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap

from tacit.deep.clipping import parts
from tacit.deep.clipping.parts import DOUBLE, Blocks, Bounds, Explicit, Part, add_rows, blank, row_norms, working_dtype
from tacit.deep.clipping.passes import ClippingError, Pass, Rebuild, Watched, flatten

Values = dict[str, Tensor]


class _Bare(nn.Module):
    """The module without its own hooks: they have run already, around the call that came here."""

    def __init__(self, module: nn.Module, original: Callable[..., Any]) -> None:
        super().__init__()
        self.module, self.original = module, original

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.original(*args, **kwargs)


class Fallback:
    """Runs one module so that each example's gradient can be told apart."""

    def __init__(self, path: str, module: nn.Module, original: Callable[..., Any]) -> None:
        self.path, self.module = path, module
        self.bare = _Bare(module, original)
        self.traceable = True
        self.shared: set[int] = set()  # positions of arguments that are not per example, as the probe found them

    def __call__(self, book: Pass, *args: Any, **kwargs: Any) -> Any:
        params: Values = {name: param for name, param in self.module.named_parameters() if param.requires_grad}
        tensors, rebuild = flatten((args, kwargs))
        if book.probing:
            self.shared = {k for k, tensor in enumerate(tensors) if tensor.ndim == 0 or len(tensor) != book.count}
        dims = self._dims(book, tensors)
        fixed = {f"module.{name}": param.detach() for name, param in params.items()}
        if book.probing or book.count == 0:
            output = self._run(fixed, tensors, rebuild)
            return output if book.probing else self._empty(book, output, list(params.values()))
        numbers = book.count * sum(param.numel() for param in params.values())
        if numbers > parts.KEEP and self.traceable and tensors[0].device.type == "cpu":
            return self._bounded(book, params, fixed, tensors, dims, rebuild)
        copies = {f"module.{name}": self._copies(book, param) for name, param in params.items()}
        return self._mapped(copies, tensors, dims, rebuild)

    def _dims(self, book: Pass, tensors: Sequence[Tensor]) -> list[int | None]:
        dims = [
            0 if tensor.ndim and len(tensor) == book.count and k not in self.shared else None for k, tensor in enumerate(tensors)
        ]
        if 0 not in dims:
            raise ClippingError(
                f"module {self.path!r} was given no tensor whose first dimension is the {book.count} examples of the batch; "
                "keep the batch first"
            )
        return dims

    def _copies(self, book: Pass, param: Tensor) -> Tensor:
        """The parameter once for each example, without a copy in memory; the gradient is one for each."""
        leaf = param.detach().unsqueeze(0).expand(book.count, *param.shape).requires_grad_()
        book.uses[id(param)] += 1
        arrived = False

        def read(leaf: Tensor) -> None:
            nonlocal arrived
            book.admit(again=arrived)
            arrived = True
            if leaf.grad is not None:
                with torch.no_grad():
                    book.add(Explicit(param, leaf.grad.to(working_dtype(leaf.grad))))
            leaf.grad = None

        leaf.register_post_accumulate_grad_hook(read)  # type: ignore[no-untyped-call]
        return leaf

    def _run(self, values: Values, tensors: Sequence[Tensor], rebuild: Rebuild) -> Any:
        args, kwargs = rebuild(tensors)
        return functional_call(self.bare, values, args, kwargs)

    def _mapped(
        self, values: Values, tensors: Sequence[Tensor], dims: Sequence[int | None], rebuild: Rebuild, *, copied: bool = True
    ) -> Any:
        """The module's output for all examples, each under its own values."""
        outline: list[Rebuild] = []

        def one(mine: Values, *own: Tensor) -> tuple[Tensor, ...]:
            batch = [tensor if dim is None else tensor.unsqueeze(0) for tensor, dim in zip(own, dims, strict=True)]
            results, shape = flatten(self._run(mine, batch, rebuild))
            outline.append(shape)
            return tuple(result.squeeze(0) for result in results)

        if self.traceable:
            try:
                places = (0 if copied else None, *dims)
                results = vmap(one, in_dims=places, randomness="different")(values, *tensors)
                return outline[-1](results)
            except (RuntimeError, ValueError, NotImplementedError):
                self.traceable = False
        count = next(len(tensor) for tensor, dim in zip(tensors, dims, strict=True) if dim == 0)
        rows = []
        for k in range(count):
            mine = {name: value[k] for name, value in values.items()} if copied else values
            rows.append(one(mine, *[tensor if dim is None else tensor[k] for tensor, dim in zip(tensors, dims, strict=True)]))
        return outline[-1]([torch.stack(column) for column in zip(*rows, strict=True)])

    def _empty(self, book: Pass, output: Any, params: list[Tensor]) -> Any:
        results, shape = flatten(output)
        return shape([book.tap(self.path, result.clone(), params, lambda g: []) for result in results])

    def _bounded(
        self, book: Pass, params: Values, fixed: Values, tensors: Sequence[Tensor], dims: list[int | None], rebuild: Rebuild
    ) -> Any:
        """Forward in chunks; the gradients are computed when they are asked for, under the same dropout."""
        step = max(1, parts.CHUNK // sum(param.numel() for param in params.values()))
        replay = Replay(self, fixed, dims, rebuild, [Watched(self.path, tensor) for tensor in tensors])
        chunks = []
        for first in range(0, book.count, step):
            last = min(first + step, book.count)
            replay.chunks.append((first, last, torch.get_rng_state()))
            piece = [tensor if dim is None else tensor[first:last] for tensor, dim in zip(tensors, dims, strict=True)]
            chunks.append(flatten(self._mapped(fixed, piece, dims, rebuild, copied=False)))
        if not self.traceable:  # found out just now
            return self(book, *rebuild(tensors)[0], **rebuild(tensors)[1])
        results = [torch.cat(column) for column in zip(*[tensors for tensors, _ in chunks], strict=True)]
        if len(results) != 1:
            raise ClippingError(f"module {self.path!r} returns several tensors and is too large to clip at once; use smaller batches")

        def read(gradient: Tensor) -> Iterator[Part]:
            replay.gradient = gradient
            for name, param in params.items():
                yield Replayed(replay, f"module.{name}", param)

        return chunks[0][1]([book.tap(self.path, results[0], list(params.values()), read)])


class Replay:
    """Computes the gradients of a module again, chunk by chunk."""

    def __init__(
        self, fallback: Fallback, fixed: Values, dims: list[int | None], rebuild: Rebuild, inputs: list[Watched]
    ) -> None:
        self.fallback, self.fixed, self.dims, self.rebuild, self.inputs = fallback, fixed, dims, rebuild, inputs
        self.chunks: list[tuple[int, int, Tensor]] = []
        self.gradient = torch.empty(0)
        self.bad: Tensor | None = None
        self._norms: Values = {}
        self._sums: tuple[Tensor, Values] | None = None

    def gradients(self, first: int, last: int, state: Tensor) -> Values:
        """One chunk's gradients of all parameters."""
        tensors = []
        for watched, dim in zip(self.inputs, self.dims, strict=True):
            value = watched.get() if dim is None else watched.get()[first:last]
            if dim is not None and self.bad is not None:
                value = blank(value, self.bad[first:last])
            tensors.append(value)

        def one(gradient: Tensor, *own: Tensor) -> Values:
            batch = [tensor if dim is None else tensor.unsqueeze(0) for tensor, dim in zip(own, self.dims, strict=True)]

            def output(values: Values) -> Tensor:
                return flatten(self.fallback._run(values, batch, self.rebuild))[0][0]

            pull = vjp(output, self.fixed)[1]
            result: Values = pull(gradient.unsqueeze(0))[0]
            return result

        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(state)
            found: Values = vmap(one, in_dims=(0, *self.dims), randomness="different")(self.gradient[first:last], *tensors)
        return {key: value.to(working_dtype(value)) for key, value in found.items()}

    def norms(self, name: str) -> Tensor:
        if not self._norms:
            found = [{key: row_norms(value) for key, value in self.gradients(*chunk).items()} for chunk in self.chunks]
            self._norms = {key: torch.cat([chunk[key] for chunk in found]) for key in self.fixed}
        return self._norms[name]

    def add(self, name: str, total: Tensor, weights: Tensor, blocks: Blocks) -> None:
        """Gradients that came out longer than the first time are shortened to that: the factors were made for them."""
        if self._sums is None or self._sums[0] is not weights:
            sums = {key: torch.zeros_like(value, dtype=torch.float64) for key, value in self.fixed.items()}
            for first, last, state in self.chunks:
                for key, value in self.gradients(first, last, state).items():
                    shrink = (self.norms(key)[first:last] / row_norms(value)).clamp_(max=1).nan_to_num_(0.0)
                    add_rows(sums[key], value, weights[first:last] * shrink, blocks)
            self._sums = weights, sums
        total += self._sums[1][name]

    def drop(self, rows: Tensor) -> None:
        self.bad = rows
        self.gradient = blank(self.gradient, rows)
        self._norms, self._sums = {}, None


class Replayed(Part):
    """One parameter of a module whose gradients are computed again when needed."""

    def __init__(self, replay: Replay, name: str, param: Tensor) -> None:
        self.replay, self.name, self.param = replay, name, param
        self.rows = len(param) if param.ndim else 0

    @property
    def terms(self) -> int:
        return len(self.replay.gradient) + len(self.replay.chunks) * DOUBLE[0]

    def bounds(self) -> Bounds:
        norms = self.replay.norms(self.name)
        return Bounds(norms, norms)

    def add(self, total: Tensor, weights: Tensor, blocks: Blocks) -> None:
        self.replay.add(self.name, total, weights, blocks)

    def explicit(self, first: int, last: int) -> Tensor:
        found = []
        for start, end, state in self.replay.chunks:
            if start < last and first < end:
                whole = self.replay.gradients(start, end, state)[self.name]
                found.append(whole[max(first - start, 0) : last - start])
        return torch.cat(found)

    def drop(self, rows: Tensor) -> None:
        self.replay.drop(rows)
