"""Recurrent layers against each example alone through torch's own kernels and plain autograd."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.deep.clipping.naive_clipping import agree
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from tacit.deep.clipping import Clipper, ClippingError, flat


class Turned(nn.Module):
    """A recurrent layer that takes time first, in a model that takes examples first."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.layer(x.transpose(0, 1))[0]
        return output.transpose(0, 1)


class Unrolled(nn.Module):
    """A cell called once for each step."""

    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Tensor) -> Tensor:
        state: Any = None
        for step in x.unbind(1):
            state = self.cell(step, state)
        output: Tensor = state[0] if isinstance(state, tuple) else state
        return output


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(5)


def double(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("options", [{}, {"bias": False}, {"num_layers": 2}, {"num_layers": 2, "bidirectional": True}], ids=str)
def test_layers(kind: Any, options: dict[str, Any]) -> None:
    layer = kind(3, 4, batch_first=True, **options).double()
    agree(layer, double(6, 5, 3))
    x = double(6, 5, 3)
    output, state = layer(x)
    with Clipper(layer, flat(1.0)):
        mine, final = layer(x)
    assert torch.allclose(mine, output, atol=1e-12)
    assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(final, state, strict=True))


def test_relu_and_projections() -> None:
    agree(nn.RNN(3, 4, nonlinearity="relu", batch_first=True).double(), double(6, 5, 3))
    agree(nn.LSTM(3, 4, proj_size=2, batch_first=True).double(), double(6, 5, 3))  # the fall-back, example by example


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU], ids=lambda kind: kind.__name__)
def test_time_first(kind: Any) -> None:
    agree(Turned(kind(3, 4)).double(), double(6, 5, 3))


@pytest.mark.parametrize("cell", [nn.RNNCell(3, 4), nn.LSTMCell(3, 4), nn.GRUCell(3, 4, bias=False)], ids=lambda cell: type(cell).__name__)
def test_cells(cell: nn.Module) -> None:
    agree(Unrolled(cell).double(), double(6, 5, 3))


def test_an_initial_state_is_used() -> None:
    layer = nn.LSTM(3, 4, batch_first=True).double()
    state = double(1, 6, 4), double(1, 6, 4)
    x = double(6, 5, 3)
    expected = layer(x, state)[0]
    with Clipper(layer, flat(1.0), check_batch=False):
        assert torch.allclose(layer(x, state)[0], expected, atol=1e-12)


def test_frozen_recurrence() -> None:
    layer = nn.GRU(3, 4, batch_first=True).double()
    layer.weight_hh_l0.requires_grad_(False)
    assert set(agree(layer, double(6, 5, 3)).sums) == {"weight_ih_l0", "bias_ih_l0", "bias_hh_l0"}


def test_packed_sequences_are_refused_with_the_fix() -> None:
    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(3, 4, batch_first=True)

        def forward(self, x: Tensor) -> Any:
            return self.lstm(pack_padded_sequence(x, [5] * len(x), batch_first=True))

    model = Packed()
    with Clipper(model, flat(1.0)), pytest.raises(ClippingError, match=r"'lstm'.*PackedSequence.*padded tensor"):
        model(torch.randn(6, 5, 3))
