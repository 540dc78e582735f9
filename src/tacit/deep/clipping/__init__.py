"""Per-example clipping at about the cost of ordinary training: norms by book-keeping, one backward pass, no ordinary weight gradients.

>>> import torch
>>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
>>> with Clipper(model, flat(1.0)) as clipper:
...     loss = model(torch.ones(16, 4)).square().mean()
...     loss.backward()
...     clipped = clipper.collect()
>>> clipped.count, sorted(clipped.sums)
(16, ['0.bias', '0.weight', '2.bias', '2.weight'])
"""

from tacit.deep.errors import needs

with needs("torch", "torch"):
    import torch as torch

from tacit.deep.clipping.clipper import ROUNDING, ClippedSum, Clipper
from tacit.deep.clipping.passes import ClippingError
from tacit.deep.clipping.rules import (
    Adaptive,
    Automatic,
    Flat,
    PerLayer,
    Rule,
    adaptive,
    automatic,
    beside_count,
    count_sums,
    flat,
    halves,
    per_layer,
)

__all__ = [
    "ROUNDING",
    "Adaptive",
    "Automatic",
    "ClippedSum",
    "Clipper",
    "ClippingError",
    "Flat",
    "PerLayer",
    "Rule",
    "adaptive",
    "automatic",
    "beside_count",
    "count_sums",
    "flat",
    "halves",
    "per_layer",
]
