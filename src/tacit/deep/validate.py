"""What keeps a model from being trained privately, layer by layer, with the reason and the fix; and the fixes that can be made for you.

Clipping bounds what one example can do to the sum of gradients only if each example's gradient is its own. A layer that lets examples see
each other in the forward pass (batch normalisation), or that carries statistics of the data outside the parameters (running averages),
breaks that, whatever the noise.

>>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
>>> for finding in validate(model):
...     print(finding)
layer '1' (BatchNorm2d): every example is normalised with the mean and variance of its batch, so each one's gradient depends on all
others; fix: use nn.GroupNorm(2, 8), or let fix(model) do it
>>> validate(fix(model))
[]
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm

from tacit.accounting import Refusal

TURNED = (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer, nn.Transformer)

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@dataclass(frozen=True)
class Finding:
    """One reason why a model cannot be trained privately as it is."""

    path: str
    kind: str
    why: str
    fix: str

    def __str__(self) -> str:
        where = f"layer {self.path!r}" if self.path else "the model"
        return f"{where} ({self.kind}): {self.why}; fix: {self.fix}"


class ModelError(Refusal, ValueError):
    """The model cannot be trained privately as it is; the message lists every reason and `findings` holds them."""

    def __init__(self, findings: list[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("this model cannot be trained privately as it is:\n" + "\n".join(f"- {finding}" for finding in findings))


def validate(model: nn.Module, sample: Any = None) -> list[Finding]:
    """All findings, from the layers alone or, with a public `sample` batch of at least two examples, also from running a copy of the model.

    The run finds what no list of layer types can: a custom layer that mixes examples, or a buffer that is updated in training.
    The sample is a tensor, or a tuple of the model's arguments; use made-up data of the right shape.

    >>> class Centre(nn.Module):
    ...     def forward(self, x):
    ...         return x - x.mean(0)
    >>> model = nn.Sequential(nn.Linear(2, 2), Centre())
    >>> validate(model), [finding.kind for finding in validate(model, torch.eye(2))]
    ([], ['Sequential'])
    """
    findings = list(_static(model))
    if sample is not None and not findings:
        findings += _mixing(model, sample if isinstance(sample, tuple) else (sample,))
    return findings


def ensure_valid(model: nn.Module) -> None:
    """Raise a ModelError that names everything `validate` found.

    >>> ensure_valid(nn.BatchNorm1d(4))
    Traceback (most recent call last):
    tacit.deep.validate.ModelError: this model cannot be trained privately as it is:
    - the model (BatchNorm1d): every example ...
    """
    findings = validate(model)
    if findings:
        raise ModelError(findings)


def fix(model: nn.Module) -> nn.Module:
    """A copy of the model with what can be replaced replaced. A new normalisation takes over the old scale and shift.

    Batch normalisation becomes group normalisation, instance normalisation forgets its running statistics, embeddings lose `max_norm`
    and `scale_grad_by_freq`. Everything else stays, and `validate` still names it. Build the optimiser after this: parameters are new.

    >>> fix(nn.Sequential(nn.BatchNorm1d(6)))
    Sequential(
      (0): GroupNorm(1, 6, eps=1e-05, affine=True, ...)
    )
    """
    if isinstance(model, nn.Module) and (replacement := _replacement(model)) is not None:
        return replacement
    model = copy.deepcopy(model)
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if (replacement := _replacement(child)) is not None:
                setattr(parent, name, replacement)
    return model


def groups_for(layer: _BatchNorm) -> int:
    """The number of groups that replaces batch normalisation: up to 32, of at least four channels.

    One group where the layer may get vectors without positions: a group of one number would be normalised to zero.

    >>> [groups_for(nn.BatchNorm2d(n)) for n in (64, 24, 7)], groups_for(nn.BatchNorm1d(64))
    ([16, 6, 1], 1)
    """
    if isinstance(layer, nn.BatchNorm1d):
        return 1
    channels = layer.num_features
    return max(n for n in range(1, min(32, max(1, channels // 4)) + 1) if channels % n == 0)


def _replacement(layer: nn.Module) -> nn.Module | None:
    if isinstance(layer, _BatchNorm):
        if isinstance(layer, nn.modules.lazy.LazyModuleMixin):
            return None
        new: nn.Module = nn.GroupNorm(groups_for(layer), layer.num_features, eps=layer.eps, affine=layer.affine)
    elif isinstance(layer, _InstanceNorm) and layer.track_running_stats:
        new = type(layer)(layer.num_features, eps=layer.eps, affine=layer.affine)
    elif isinstance(layer, nn.Embedding) and (layer.max_norm is not None or layer.scale_grad_by_freq):
        table = nn.Embedding(1, 1, layer.padding_idx if layer.padding_idx == 0 else None, sparse=layer.sparse)
        table.num_embeddings, table.embedding_dim, table.padding_idx = layer.num_embeddings, layer.embedding_dim, layer.padding_idx
        table.weight = layer.weight  # the parameter itself, which may be tied to another layer's
        return table.train(layer.training)
    else:
        return None
    for name, param in layer.named_parameters(recurse=False):
        target = getattr(new, name)
        target.data.copy_(param.data)
        target.requires_grad_(param.requires_grad)
    return new.to(next(layer.parameters(), torch.empty(0)).device).train(layer.training)


def _static(model: nn.Module) -> Iterator[Finding]:
    if isinstance(model, torch.jit.ScriptModule):
        yield Finding("", type(model).__name__, "a scripted model's layers cannot be reached", "pass the model before torch.jit")
        return
    for path, layer in model.named_modules():
        kind = type(layer).__name__
        if kind == "OptimizedModule" or getattr(layer, "_compiled_call_impl", None) is not None:
            yield Finding(
                path, kind, "a compiled model's layers cannot be reached", "pass the model before torch.compile, and do not compile it"
            )
        if layer._backward_hooks or layer._backward_pre_hooks:
            yield Finding(path, kind, "its backward hook sees and may join examples' gradients before they are clipped", "remove the hook")
        if isinstance(layer, nn.DataParallel):
            yield Finding(path, kind, "replicas hide which gradient belongs to which example", "pass the module inside it")
        for name, param in layer.named_parameters(recurse=False):
            if isinstance(param, nn.parameter.UninitializedParameter):
                yield Finding(path, kind, f"its parameter {name!r} has no shape yet", "run the model once on made-up data first")
            elif param.requires_grad and param.dtype not in FLOATS:
                yield Finding(path, kind, f"norms of {param.dtype} are not bounded", "use parameters of half, single or double precision")
        if (reason := _layer(layer)) is not None:
            yield Finding(path, kind, *reason)
    if not any(param.requires_grad for param in model.parameters()):
        yield Finding("", type(model).__name__, "no parameter is trainable", "call requires_grad_() on those that should be trained")


def _layer(layer: nn.Module) -> tuple[str, str] | None:
    """Why a known layer cannot be used, and the fix."""
    if isinstance(layer, _BatchNorm):
        groups = "groups" if isinstance(layer, nn.modules.lazy.LazyModuleMixin) else f"{groups_for(layer)}, {layer.num_features}"
        return (
            "every example is normalised with the mean and variance of its batch, so each one's gradient depends on all others",
            f"use nn.GroupNorm({groups}), or let fix(model) do it",
        )
    if isinstance(layer, _InstanceNorm) and layer.track_running_stats:
        return "its running averages carry the data outside the noise", "use track_running_stats=False, or let fix(model) do it"
    if isinstance(layer, nn.EmbeddingBag):
        return "its bags lie across one another in one flat list", "use nn.Embedding and a sum or mean over the tokens"
    if isinstance(layer, nn.Embedding) and layer.max_norm is not None:
        return "max_norm rewrites the rows that the data looks up, without noise", "use max_norm=None, or let fix(model) do it"
    if isinstance(layer, nn.Embedding) and layer.scale_grad_by_freq:
        return "each gradient is divided by how often its token occurs in the batch", "use scale_grad_by_freq=False, or fix(model)"
    if isinstance(layer, TURNED) and not _batch_first(layer):
        return "it takes time first and examples second", "build it with batch_first=True and pass (batch, time, features)"
    if any(type(hook).__name__ in ("WeightNorm", "SpectralNorm") for hook in layer._forward_pre_hooks.values()):
        return "a hook computes its weight outside the layer", "use torch.nn.utils.parametrizations.weight_norm"
    if type(layer).__name__ == "_SpectralNorm":
        return "it keeps vectors that each forward pass updates", "use torch.nn.utils.parametrizations.weight_norm, or none"
    return None


def _batch_first(layer: nn.Module) -> bool:
    if isinstance(layer, nn.Transformer):
        return bool(layer.batch_first)
    attention = layer.self_attn
    return bool(getattr(attention, "batch_first", True))


def _mixing(model: nn.Module, args: tuple[Any, ...]) -> Iterator[Finding]:
    """Run a copy in training mode, without dropout: other rows must not change a row's output, nor anything a buffer."""
    model = copy.deepcopy(model).train()
    for layer in model.modules():
        if isinstance(layer, nn.modules.dropout._DropoutNd):
            layer.eval()
        if isinstance(getattr(layer, "dropout", None), float):
            setattr(layer, "dropout", 0.0)  # noqa: B010  (a number here, a module elsewhere)
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        whole = _first(model(*args))
        turned = _first(model(*_map(args, lambda t: t.roll(1, 0) if t.ndim else t)))
        alone = _first(model(*_map(args, lambda t: t[:1] if t.ndim else t)))
    for name, buffer in model.named_buffers():
        if not torch.equal(buffer, before[name]):
            why = f"its buffer {name!r} is updated in training, without noise"
            yield Finding(name.rpartition(".")[0], type(model).__name__, why, "remove or freeze it")
    scale = 1e-4 * (1 + float(whole.abs().max()))
    mixed = whole.shape != turned.shape or not torch.allclose(whole.roll(1, 0), turned, rtol=0, atol=scale)
    if mixed or not torch.allclose(whole[:1], alone, rtol=0, atol=scale):
        why = "an example's output changes with the other examples of its batch"
        yield Finding("", type(model).__name__, why, "compute each output from its own example only")


def _first(output: Any) -> Tensor:
    while not isinstance(output, Tensor):
        output = next(iter(output.values())) if isinstance(output, dict) else output[0]
    return output.double()


def _map(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, dict):
        return {key: _map(item, change) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_map(item, change) for item in value)
    return value


