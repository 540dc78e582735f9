"""Training a few parameters of a large model: low-rank adapters beside frozen layers, and freezing by name.

A frozen layer has no gradient, so there is nothing to clip and nothing to noise: the price of a step is the same, and the noise falls on
fewer numbers. Clipping and noise then cost what the adapters cost, not what the model does.

>>> import torch
>>> model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
>>> before = model(torch.ones(1, 64))
>>> add_adapters(model, rank=2, only=["0"])
['0']
>>> bool((model(torch.ones(1, 64)) == before).all()), trainable(model)  # nothing has changed yet; 2 * (64 + 64) numbers can
(True, 256)

After training, `merge_adapters` folds them into the weights and gives back the plain model. The frozen weights must be public, or paid for
elsewhere: what was learned from private data before is not covered by the price of this run.

Low-rank adapters: Hu et al. 2022; under differential privacy Yu et al. 2022.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from tacit.accounting import ParameterError
from tacit.parameters import count, positive


class Adapter(nn.Module):
    """A frozen linear layer plus a trainable product of two thin ones; the second starts at zero, so the sum starts at the layer.

    >>> adapter = Adapter(nn.Linear(8, 4), rank=2)
    >>> [name for name, p in adapter.named_parameters() if p.requires_grad]
    ['down.weight', 'up.weight']
    """

    def __init__(self, base: nn.Linear, rank: int, alpha: float | None = None) -> None:
        super().__init__()
        rank = count("rank", rank)
        if rank > min(base.in_features, base.out_features):
            raise ParameterError(
                f"rank must be at most {min(base.in_features, base.out_features)} for this layer, not {rank}; train it whole instead"
            )
        self.base = base.requires_grad_(False)
        like = base.weight
        self.down = nn.Linear(base.in_features, rank, bias=False, device=like.device, dtype=like.dtype)
        self.up = nn.Linear(rank, base.out_features, bias=False, device=like.device, dtype=like.dtype)
        nn.init.zeros_(self.up.weight)
        self.scale = float(positive("alpha", rank if alpha is None else alpha)) / rank

    def forward(self, inputs: Tensor) -> Tensor:
        changed: Tensor = self.base(inputs) + self.up(self.down(inputs)) * self.scale
        return changed

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """The plain layer that computes the same."""
        self.base.weight += self.up.weight @ self.down.weight * self.scale
        return self.base.requires_grad_(True)


def add_adapters(model: nn.Module, rank: int, *, only: Iterable[str] | None = None, alpha: float | None = None) -> list[str]:
    """Freeze the model and put an adapter beside its linear layers, in place; returns the names of the layers that got one.

    `only` holds names or patterns such as "encoder.*.query". Layers that are no plain `nn.Linear`, such as the projections inside an
    attention module, are frozen. Do this before the optimiser is made.

    >>> add_adapters(nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 3)), rank=1)
    ['0', '2']
    """
    if isinstance(only, str):
        raise ParameterError(f"only must be a list of names or patterns, not the string {only!r}; write [{only!r}]")
    patterns = None if only is None else list(only)
    found = [
        name
        for name, module in model.named_modules()
        if type(module) is nn.Linear and name and (patterns is None or any(fnmatchcase(name, pattern) for pattern in patterns))
    ]
    if not found:
        raise ParameterError(
            "no linear layer has a name that only= allows; see dict(model.named_modules()). A bare nn.Linear needs a parent"
        )
    adapters = {name: Adapter(_linear(model, name), rank, alpha) for name in found}  # refuses a rank before anything is changed
    model.requires_grad_(False)
    for name, adapter in adapters.items():
        adapter.down.requires_grad_(True)
        adapter.up.requires_grad_(True)
        _replace(model, name, adapter)
    return found


def merge_adapters(model: nn.Module) -> list[str]:
    """Fold every adapter into its layer, in place: the plain model again, computing the same, every parameter trainable.

    >>> model = nn.Sequential(nn.Linear(4, 3))
    >>> merge_adapters(model) if add_adapters(model, rank=1) else None
    ['0']
    >>> type(model[0]).__name__, trainable(model)
    ('Linear', 15)
    """
    found = [name for name, module in model.named_modules() if isinstance(module, Adapter)]
    for name in found:
        adapter = model.get_submodule(name)
        assert isinstance(adapter, Adapter)
        _replace(model, name, adapter.merged())
    model.requires_grad_(True)
    return found


def train_only(model: nn.Module, names: Iterable[str]) -> list[str]:
    """Freeze every parameter whose name fits none of `names` (names or patterns), in place; returns those that stay trainable.

    >>> train_only(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)), ["1.*"])
    ['1.weight', '1.bias']
    """
    if isinstance(names, str):
        raise ParameterError(f"names must be a list of names or patterns, not the string {names!r}; write [{names!r}]")
    patterns = list(names)
    kept = [name for name, _ in model.named_parameters() if any(fnmatchcase(name, pattern) for pattern in patterns)]
    if not kept:
        raise ParameterError("no parameter has a name that fits; see dict(model.named_parameters())")
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in kept)
    return kept


def trainable(model: nn.Module) -> int:
    """How many numbers training changes: those that are noised.

    >>> trainable(nn.Linear(3, 2))
    8
    """
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def _linear(model: nn.Module, name: str) -> nn.Linear:
    layer = model.get_submodule(name)
    assert isinstance(layer, nn.Linear)
    return layer


def _replace(model: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, child = name.rpartition(".")
    setattr(model.get_submodule(parent), child, module)
