"""Where clipped gradients are added up: one tensor for each parameter, all side by side in one piece of memory if they are of one type.

>>> weight, bias = torch.nn.Parameter(torch.zeros(2, 2)), torch.nn.Parameter(torch.zeros(2))
>>> sums = Sums({"weight": weight, "bias": bias})
>>> sums.add("bias", Explicit(bias, torch.tensor([[1.0, 2.0], [3.0, 4.0]])), torch.tensor([1.0, 0.5]))
>>> found, together = sums.take({"weight": weight, "bias": bias})
>>> found["bias"], together
(tensor([2.5000, 4.0000]), tensor([0.0000, 0.0000, 0.0000, 0.0000, 2.5000, 4.0000]))

In one piece, noise is added in one go and the memory is that of ordinary gradients. What is handed out is never written to again.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from tacit.deep.clipping.parts import Explicit as Explicit
from tacit.deep.clipping.parts import Part, place, working_dtype


class Sums:
    """The sums of one collection, for the parameters that are trained at its beginning. Nothing is written before it is needed."""

    def __init__(self, params: Mapping[str, Tensor]) -> None:
        trained = {name: param for name, param in params.items() if param.requires_grad}
        self._together: Tensor | None = None
        self._views: dict[str, Tensor] = {}
        self._written: set[str] = set()
        first = next(iter(trained.values()), None)
        kinds = {(param.dtype, param.device) for param in trained.values()}
        if first is not None and len(kinds) == 1 and working_dtype(first) == first.dtype:
            sizes = [param.numel() for param in trained.values()]
            self._together = torch.empty(sum(sizes), dtype=first.dtype, device=first.device)
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
        """The sums of the parameters that are trained, zero for those without any, in their types; and all in one piece, if they are."""
        found: dict[str, Tensor] = {}
        for name, param in params.items():
            if not param.requires_grad:
                continue
            if name in self._written:
                found[name] = self._views[name].to(param.dtype)
            else:
                found[name] = self._views[name].zero_() if name in self._views else torch.zeros_like(param, requires_grad=False)
        whole = self._together is not None and sum(map(Tensor.numel, found.values())) == self._together.numel()
        return found, self._together if whole and all(name in self._views and found[name] is self._views[name] for name in found) else None
