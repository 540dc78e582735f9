"""The fall-back against each example alone through plain autograd: bare parameters, custom modules, dropout, bounded memory."""

from __future__ import annotations

import pytest
import torch
from tests.deep.clipping.naive_clipping import agree, clipped, distance, norms
from torch import Tensor, nn

from tacit.deep.clipping import Clipper, ClippingError, flat, parts


class Bare(nn.Module):
    """Parameters of its own, one a scalar, and a layer besides."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix, self.scale = nn.Parameter(torch.randn(3, 4)), nn.Parameter(torch.randn(()))
        self.layer = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.layer(torch.tanh(x @ self.matrix) * self.scale)
        return output


class Branching(Bare):
    """vmap cannot trace a branch on the data."""

    def forward(self, x: Tensor) -> Tensor:
        output = super().forward(x)
        return output if x[0, 0] > 0 else 2 * output


class Several(nn.Module):
    """Several inputs, one of them shared by all examples, and several outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3))

    def forward(self, x: Tensor, mask: Tensor, *, scale: float = 2.0) -> dict[str, Tensor]:
        return {"first": x * self.weight * mask, "second": (x + self.weight) * scale}


class Borrowed(nn.Module):
    """Uses the weight of its layer without calling the layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 4, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x @ self.layer.weight.T) @ self.layer.weight


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(6)


def double(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize("kind", [Bare, Branching], ids=lambda kind: kind.__name__)
def test_custom_modules(kind: type[nn.Module]) -> None:
    agree(nn.Sequential(nn.Linear(2, 3), kind(), nn.Linear(2, 2)).double(), double(7, 2))


def test_transposed_convolution_and_parametrised_layers() -> None:
    agree(nn.ConvTranspose2d(2, 3, 3, stride=2).double(), double(5, 2, 4, 4))
    agree(nn.Sequential(nn.utils.parametrizations.orthogonal(nn.Linear(3, 3))).double(), double(5, 3))


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # vmap's own
def test_bilinear() -> None:
    agree(nn.Bilinear(3, 4, 2).double(), double(5, 3), double(5, 4))


def test_several_inputs_and_outputs_even_when_a_shared_input_has_as_many_rows_as_the_batch() -> None:
    model, x, mask = Several().double(), double(3, 3), torch.eye(3, dtype=torch.float64)[0]
    found = []
    for row in x:
        output = model(row.unsqueeze(0), mask)
        found.append({"weight": torch.autograd.grad(output["first"].square().sum() + output["second"].square().sum(), model.weight)[0]})
    clip = float(norms(found).median())
    with Clipper(model, flat(clip), loss_reduction="sum") as clipper:
        output = model(x, mask)
        (output["first"].square().sum() + output["second"].square().sum()).backward()
        assert distance(clipper.collect().sums, clipped(found, clip)) < 1e-12


def test_borrowed_weights_are_refused_by_name_and_right_with_the_fix() -> None:
    model = nn.Sequential(nn.Linear(3, 3), Borrowed()).double()
    with Clipper(model, flat(1.0)), pytest.raises(ClippingError, match=r"'1.layer.weight'.*fallback"):
        model(double(5, 3)).sum().backward()
    for param in model.parameters():
        param.grad = None
    agree(model, double(5, 3), fallback=["1"])


def test_bounded_memory_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "KEEP", 0)
    monkeypatch.setattr(parts, "CHUNK", 60)  # three examples at a time
    agree(nn.Sequential(nn.Linear(2, 3), Bare()).double(), double(7, 2))


def test_bounded_memory_with_an_untraceable_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "KEEP", 0)
    agree(Branching().double(), double(7, 3))


class Dropping(nn.Module):
    """One parameter per feature behind dropout: the gradient shows the mask."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.dropout = nn.Parameter(torch.ones(50, dtype=torch.float64)), nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        dropped: Tensor = self.dropout(x * self.weight)
        return dropped


@pytest.mark.parametrize("bounded", [False, True])
def test_dropout_is_the_same_forward_and_backward(bounded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if bounded:
        monkeypatch.setattr(parts, "KEEP", 0)
        monkeypatch.setattr(parts, "CHUNK", 150)
    model = Dropping()
    x = double(8, 50)
    with Clipper(model, flat(1e9), loss_reduction="sum") as clipper:
        output = model(x)
        output.sum().backward()
        total = clipper.collect().sums["weight"]
    assert 0 < int((output == 0).sum()) < output.numel()
    assert len({tuple(row) for row in (output == 0).tolist()}) == 8  # every example has a mask of its own
    assert torch.allclose(total, output.detach().sum(0))  # d/dw of sum(x w mask) at w = 1 is sum(x mask)
