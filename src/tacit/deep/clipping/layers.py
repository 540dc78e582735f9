"""Which layers are clipped by book-keeping, and how: everything else goes to the fall-back.

>>> how(nn.Linear(2, 2)).__name__, how(nn.Bilinear(2, 2, 2)) is None
('layer_forward', True)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from tacit.deep.clipping import attention, convolution, embedding, linear, recurrent, scaling

Forward = Callable[..., Any]

LAYERS: dict[type[nn.Module], Forward] = {
    nn.Linear: linear.layer_forward,
    nn.Conv1d: convolution.layer_forward,
    nn.Conv2d: convolution.layer_forward,
    nn.Conv3d: convolution.layer_forward,
    nn.Embedding: embedding.layer_forward,
    nn.LayerNorm: scaling.layer_norm,
    nn.RMSNorm: scaling.rms_norm,
    nn.GroupNorm: scaling.group_norm,
    nn.InstanceNorm1d: scaling.instance_norm,
    nn.InstanceNorm2d: scaling.instance_norm,
    nn.InstanceNorm3d: scaling.instance_norm,
    nn.PReLU: scaling.prelu,
    nn.RNN: recurrent.layer_forward,
    nn.LSTM: recurrent.layer_forward,
    nn.GRU: recurrent.layer_forward,
    nn.RNNCell: recurrent.cell_forward,
    nn.LSTMCell: recurrent.cell_forward,
    nn.GRUCell: recurrent.cell_forward,
    nn.MultiheadAttention: attention.layer_forward,
}


def how(layer: nn.Module) -> Forward | None:
    """The book-keeping forward of a layer, or None if the layer is not known.

    A subclass counts as its parent only if it computes the same: it has the parent's forward, and its parameters are real ones rather
    than computed from others.
    """
    for base in type(layer).__mro__:
        if base in LAYERS:
            forward = LAYERS[base]
            same = type(layer).forward is base.forward and not _computed(layer)
            if isinstance(layer, nn.MultiheadAttention):
                plain = type(layer.out_proj).forward is nn.Linear.forward and not _computed(layer.out_proj)
                same = same and plain and attention.supported(layer)
            if isinstance(layer, nn.RNN | nn.LSTM | nn.GRU):
                same = same and recurrent.supported(layer)
            return forward if same else None
    return None


def _computed(layer: nn.Module) -> bool:
    """Whether some parameter is computed by a parametrisation (weight normalisation, orthogonality)."""
    return "parametrizations" in layer._modules
