"""RNN, LSTM and GRU, and their cells: unrolled with the layer's own parameters, so that the gradients of all gates can be read.

In an RNN or LSTM the gates are `x W_ih' + h W_hh' + b`: the gradient of the first term, read for all time steps at once, is that of the
gates, and together with the inputs and the earlier hidden states it gives all four parameters. In a GRU the recurrent term
of the candidate is scaled by the reset gate, so it is read on its own.

>>> layer, book = nn.LSTM(3, 2, batch_first=True), Pass(count=4)
>>> x = torch.ones(4, 5, 3)
>>> output, (h, c) = layer_forward(book, "lstm", layer, x)
>>> bool(torch.allclose(output, layer(x)[0])), h.shape
(True, torch.Size([1, 4, 2]))
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from tacit.deep.clipping.linear import linear, linear_parts
from tacit.deep.clipping.parts import Part
from tacit.deep.clipping.passes import ClippingError, Pass, Watched

Bias = Tensor | None
Recurrent = nn.RNN | nn.LSTM | nn.GRU
State = tuple[Tensor, ...]


def supported(layer: Recurrent) -> bool:
    """Whether the layer has no projections of its hidden state, which go to the fall-back."""
    return layer.proj_size == 0


def layer_forward(book: Pass, path: str, layer: Recurrent, inputs: Tensor | PackedSequence, hx: Any = None) -> tuple[Tensor, Any]:
    """nn.RNN, nn.LSTM and nn.GRU, with the same arguments and results."""
    if isinstance(inputs, PackedSequence):
        raise ClippingError(
            f"layer {path!r} was given a PackedSequence, in which examples lie across one another; pass the padded tensor and mask the loss"
        )
    if inputs.ndim != 3:
        raise ClippingError(f"layer {path!r} was given an input without a batch dimension; pass (batch, time, features), batch_first=True")
    book.check(path, inputs, 0 if layer.batch_first else 1)
    values = inputs if layer.batch_first else inputs.transpose(0, 1)
    directions = 2 if layer.bidirectional else 1
    initial = _initial(layer, hx, values, directions)
    finals: list[State] = []
    for level in range(layer.num_layers):
        outputs = []
        for direction in range(directions):
            params = _params(layer, level, direction)
            state = tuple(part[level * directions + direction] for part in initial)
            steps = values.flip(1) if direction else values
            result, final = _run(book, path, layer, steps, state, *params)
            outputs.append(result.flip(1) if direction else result)
            finals.append(final)
        values = outputs[0] if directions == 1 else torch.cat(outputs, dim=2)
        if layer.dropout and layer.training and level + 1 < layer.num_layers:
            values = F.dropout(values, layer.dropout)
    stacked = tuple(torch.stack(parts) for parts in zip(*finals, strict=True))
    output = values if layer.batch_first else values.transpose(0, 1)
    return output, stacked if isinstance(layer, nn.LSTM) else stacked[0]


def _initial(layer: Recurrent, hx: Any, values: Tensor, directions: int) -> State:
    if hx is not None:
        return tuple(hx) if isinstance(layer, nn.LSTM) else (hx,)
    zeros = values.new_zeros(layer.num_layers * directions, len(values), layer.hidden_size)
    return (zeros, zeros) if isinstance(layer, nn.LSTM) else (zeros,)


def _params(layer: Recurrent, level: int, direction: int) -> tuple[Tensor, Tensor, Bias, Bias]:
    suffix = f"_l{level}{'_reverse' if direction else ''}"
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    found: list[Any] = [getattr(layer, name + suffix, None) for name in names]
    return found[0], found[1], found[2], found[3]


def _run(
    book: Pass, path: str, layer: Recurrent, values: Tensor, state: State, w_ih: Tensor, w_hh: Tensor,
    b_ih: Bias, b_hh: Bias,
) -> tuple[Tensor, State]:
    """One level in one direction."""
    if isinstance(layer, nn.GRU):
        return _run_gru(book, path, values, state[0], w_ih, w_hh, b_ih, b_hh)
    gates = F.linear(values, w_ih.detach(), None if b_ih is None or b_hh is None else b_ih.detach() + b_hh.detach())
    earlier = [state[0].detach()]
    params = [param for param in (w_ih, w_hh, b_ih, b_hh) if param is not None and param.requires_grad]
    if params:
        watched = book.watch(path, values)

        def read(gradient: Tensor) -> Iterator[Part]:
            yield from linear_parts(watched if w_ih.requires_grad else None, gradient, w_ih, b_ih)
            yield from _recurrent_parts(path, earlier, gradient, w_hh, b_hh)

        gates = book.tap(path, gates, params, read)
    recurrent = w_hh.detach().T
    outputs = []
    for step in gates.unbind(1):
        state = _cell(layer, torch.addmm(step, state[0], recurrent), state)
        outputs.append(state[0])
        earlier.append(state[0].detach())
    return torch.stack(outputs, dim=1), state


def _recurrent_parts(path: str, earlier: list[Tensor], gradient: Tensor, weight: Tensor, bias: Bias) -> Iterator[Part]:
    """The parts of the recurrent parameters, from the hidden states before each step."""
    states = Watched(path, torch.stack(earlier[:-1], dim=1)) if weight.requires_grad else None
    yield from linear_parts(states, gradient, weight, bias)


def _cell(layer: Recurrent | nn.RNNCell | nn.LSTMCell, gates: Tensor, state: State) -> State:
    """The next state of an RNN or LSTM from its gates."""
    if isinstance(layer, nn.LSTM | nn.LSTMCell):
        i, f, g, o = gates.chunk(4, dim=1)
        memory = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(memory), memory
    return (torch.relu(gates) if getattr(layer, "nonlinearity", "tanh") == "relu" else torch.tanh(gates),)


def _run_gru(
    book: Pass, path: str, values: Tensor, hidden: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Bias, b_hh: Bias
) -> tuple[Tensor, State]:
    """The recurrent products of all steps are read through what they are added to: the recurrent bias, or zero."""
    gates = linear(book, path, values, w_ih, b_ih)
    bias = w_hh.new_zeros(len(w_hh)) if b_hh is None else b_hh
    offsets = bias.detach().to(gates.dtype).expand_as(gates).clone()
    earlier = [hidden.detach()]
    params = [param for param in (w_hh, b_hh) if param is not None and param.requires_grad]
    if params:
        offsets = book.tap(path, offsets, params, lambda gradient: _recurrent_parts(path, earlier, gradient, w_hh, b_hh))
    recurrent = w_hh.detach().T
    outputs = []
    for step, offset in zip(gates.unbind(1), offsets.unbind(1), strict=True):
        hidden = _gru_cell(step, torch.addmm(offset, hidden, recurrent), hidden)
        outputs.append(hidden)
        earlier.append(hidden.detach())
    return torch.stack(outputs, dim=1), (hidden,)


def _gru_cell(gates: Tensor, recurrent: Tensor, hidden: Tensor) -> Tensor:
    r, z, n = gates.chunk(3, dim=1)
    hr, hz, hn = recurrent.chunk(3, dim=1)
    candidate = torch.tanh(n + torch.sigmoid(r + hr) * hn)
    update = torch.sigmoid(z + hz)
    return candidate + update * (hidden - candidate)


def cell_forward(book: Pass, path: str, cell: nn.RNNCell | nn.LSTMCell | nn.GRUCell, inputs: Tensor, hx: Any = None) -> Any:
    """nn.RNNCell, nn.LSTMCell and nn.GRUCell."""
    book.check(path, inputs)
    if inputs.ndim != 2:
        raise ClippingError(f"cell {path!r} was given an input without a batch dimension; pass (batch, features)")
    zeros = inputs.new_zeros(len(inputs), cell.hidden_size) if hx is None else None
    state: State = (zeros, zeros) if zeros is not None else tuple(hx) if isinstance(cell, nn.LSTMCell) else (hx,)
    gates = linear(book, path, inputs, cell.weight_ih, cell.bias_ih)
    recurrent = linear(book, path, state[0], cell.weight_hh, cell.bias_hh)
    if isinstance(cell, nn.GRUCell):
        return _gru_cell(gates, recurrent, state[0])
    after = _cell(cell, gates + recurrent, state)
    return after if isinstance(cell, nn.LSTMCell) else after[0]
