"""Tempered sigmoids: against their formula, bounds that hold, gradients that are shorter than those of ReLU."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from tacit.accounting import ParameterError
from tacit.deep import TemperedSigmoid, flat, temper
from tacit.deep.clipping import Clipper


@pytest.mark.parametrize(("scale", "temperature", "offset"), [(2, 2, 1), (1.58, 3, 0.71), (4, 0.5, 0)])
def test_values_bounds_and_slope(scale: float, temperature: float, offset: float) -> None:
    curve = TemperedSigmoid(scale, temperature, offset)
    x = torch.linspace(-50, 50, 4001, dtype=torch.float64, requires_grad=True)
    y = curve(x)
    place = float(x.detach()[1234])
    assert float(y.detach()[1234]) == pytest.approx(scale / (1 + math.exp(-temperature * place)) - offset, rel=1e-12, abs=1e-12)
    assert float(y.detach().abs().max()) <= curve.largest
    (slope,) = torch.autograd.grad(y.sum(), x)
    assert float(slope.max()) == pytest.approx(curve.steepest, rel=1e-9)
    assert curve.steepest == scale * temperature / 4


def test_every_unbounded_activation_is_replaced_in_a_copy() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Sequential(nn.Linear(3, 3), nn.GELU(), nn.Tanh()))
    made = temper(model, TemperedSigmoid(1, 3, 0.5))
    assert [type(module).__name__ for module in made.modules() if not list(module.children())] == [
        "Linear", "TemperedSigmoid", "Linear", "TemperedSigmoid", "Tanh",
    ]
    assert isinstance(model[1], nn.ReLU)
    assert isinstance(temper(nn.ReLU()), TemperedSigmoid)
    with pytest.raises(ParameterError, match=r"F\.relu"):
        temper(nn.Sequential(nn.Linear(2, 2), nn.Tanh()))


def test_gradients_are_shorter_where_activations_are_large() -> None:
    """The reason for them: with weights and inputs of some size, ReLU's gradients are many times longer, and clipped as often."""
    torch.manual_seed(0)
    loud = nn.Sequential(nn.Linear(20, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 2))
    with torch.no_grad():
        for parameter in loud.parameters():
            parameter.mul_(3)
    x, y = 3 * torch.randn(64, 20), torch.randint(2, (64,))
    norms = []
    for model in (loud, temper(loud)):
        with Clipper(model, flat(1.0)) as clipper:
            nn.functional.cross_entropy(model(x), y).backward()
            norms.append(float(clipper.collect().norms.median()))
    assert norms[0] > 5 * norms[1]
