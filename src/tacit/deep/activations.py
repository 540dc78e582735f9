"""Tempered activations: bounded ones, whose gradients stay short, so that clipping takes less of them away.

With ReLU activations grow during training, gradients with them, and a fixed clipping norm cuts ever more off. A tempered sigmoid
s / (1 + exp(-T x)) - o is bounded by its scale s, and its slope by s T / 4 (Papernot, Thakurta, Song, Chien and Erlingsson 2021). With
s = 2, T = 2 and o = 1 it is the hyperbolic tangent, the choice that they recommend to begin with.

>>> curve = TemperedSigmoid(scale=2, temperature=2, offset=1)
>>> x = torch.linspace(-3, 3, 7, dtype=torch.float64)
>>> bool((curve(x) - torch.tanh(x)).abs().max() < 1e-15), curve.steepest
(True, 1.0)

This changes the model and nothing about the price: any architecture chosen without the data is free.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from tacit.accounting import ParameterError
from tacit.parameters import positive

#: Activations without a bound, which `temper` replaces.
UNBOUNDED = (nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Softplus, nn.CELU, nn.SELU, nn.ReLU6, nn.Mish, nn.Hardswish)


class TemperedSigmoid(nn.Module):
    """scale / (1 + exp(-temperature x)) - offset."""

    def __init__(self, scale: float = 2.0, temperature: float = 2.0, offset: float = 1.0) -> None:
        super().__init__()
        self.scale, self.temperature = float(positive("scale", scale)), float(positive("temperature", temperature))
        self.offset = float(offset)

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * torch.sigmoid(self.temperature * x) - self.offset

    @property
    def steepest(self) -> float:
        """The largest slope, at zero."""
        return self.scale * self.temperature / 4

    @property
    def largest(self) -> float:
        """No value is larger in size."""
        return max(abs(self.scale - self.offset), abs(self.offset))

    def extra_repr(self) -> str:
        return f"scale={self.scale:g}, temperature={self.temperature:g}, offset={self.offset:g}"


def temper(model: nn.Module, activation: nn.Module | None = None) -> nn.Module:
    """A copy of the model with every unbounded activation replaced by a tempered one. Calls of functions (`F.relu`) stay as they are.

    >>> temper(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)))[1]
    TemperedSigmoid(scale=2, temperature=2, offset=1)
    """
    curve = TemperedSigmoid() if activation is None else activation
    if isinstance(model, UNBOUNDED):
        return copy.deepcopy(curve)
    made = copy.deepcopy(model)
    found = [(parent, name) for parent in made.modules() for name, child in parent.named_children() if isinstance(child, UNBOUNDED)]
    if not found:
        raise ParameterError(
            "the model has no activation module without a bound; nn.ReLU() and its kin are replaced, calls of F.relu are not seen"
        )
    for parent, name in found:
        setattr(parent, name, copy.deepcopy(curve))
    return made
