"""The oracle: each example alone through the model and plain autograd, clipped by the definition, summed one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tacit.deep.clipping import ClippedSum, Clipper, flat

Loss = Callable[[Any], Tensor]


def gradients(model: nn.Module, args: tuple[Any, ...], loss: Loss) -> list[dict[str, Tensor]]:
    """The gradient of each example, by name, from a pass of its own."""
    count = len(args[0])
    found = []
    params = {name: param for name, param in model.named_parameters() if param.requires_grad}
    for k in range(count):
        value = loss(model(*[arg[k : k + 1] if isinstance(arg, Tensor) and len(arg) == count else arg for arg in args]))
        grads = torch.autograd.grad(value, list(params.values()), allow_unused=True)
        found.append({n: torch.zeros_like(p) if g is None else g.to_dense() for (n, p), g in zip(params.items(), grads, strict=True)})
    return found


def clipped(found: list[dict[str, Tensor]], clip: float) -> dict[str, Tensor]:
    """The sum of the gradients, each scaled down to norm `clip` if it is longer."""
    total = {name: torch.zeros_like(value) for name, value in found[0].items()}
    for gradient in found:
        norm = torch.sqrt(sum((value.double().square().sum() for value in gradient.values()), torch.zeros((), dtype=torch.float64)))
        factor = min(1.0, clip / float(norm)) if norm > 0 else 1.0
        for name, value in gradient.items():
            total[name] += factor * value
    return total


def norms(found: list[dict[str, Tensor]]) -> Tensor:
    return torch.stack([torch.sqrt(sum(v.double().square().sum() for v in g.values())) for g in found])  # type: ignore[arg-type]


def distance(mine: dict[str, Tensor], theirs: dict[str, Tensor]) -> float:
    """The largest difference, relative to the norm of the whole sum."""
    assert mine.keys() == theirs.keys()
    scale = max(float(torch.cat([v.flatten() for v in theirs.values()]).double().norm()), 1e-300)
    return max(float((mine[name].double() - theirs[name].double()).norm()) for name in mine) / scale


def squares(output: Any) -> Tensor:
    """A loss that is a sum over examples, bends, and sees every output."""
    value = output[0] if isinstance(output, tuple) else output
    return 3 * value.flatten(1).tanh().square().sum()


def agree(model: nn.Module, *args: Any, loss: Loss = squares, tolerance: float = 1e-10, **options: Any) -> ClippedSum:
    """Assert that the clipper's sum and norms are those of the definition, at a threshold that clips half of the examples."""
    model.train()
    found = gradients(model, args, loss)
    lengths = norms(found)
    clip = float(lengths.median())
    expected = clipped(found, clip)
    for reduction in ("sum", "mean"):
        with Clipper(model, flat(clip), loss_reduction=reduction, **options) as clipper:  # type: ignore[arg-type]
            value = loss(model(*args))
            (value / len(args[0]) if reduction == "mean" else value).backward()
            result = clipper.collect()
        assert distance(result.sums, expected) <= tolerance
        assert torch.allclose(result.norms[0], lengths, rtol=tolerance, atol=0)
        assert result.count == len(args[0])
        assert 0 < result.within() < result.count  # the threshold bites for some and not for others
    assert all(param.grad is None for param in model.parameters())
    return result
