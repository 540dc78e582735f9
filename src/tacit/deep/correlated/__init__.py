"""Correlated noise for private training: the noise of one step takes back part of that of earlier ones, so that running sums are precise.

>>> import torch
>>> from tacit.deep.ftrl import FTRL, Passes
>>> from tacit.deep.private import make_private
>>> model, data = torch.nn.Linear(4, 1), (torch.randn(120, 4), torch.randn(120, 1))
>>> optimizer, sampler = FTRL(model.parameters(), lr=0.1), Passes(steps=12, size=120)
>>> noise = correlated_noise(sampler, epochs=3, kind="buffered")
>>> private = make_private(model, optimizer, data, noise_multiplier=8.0, clip=1.0, sampler=sampler, epochs=3, noise=noise)
>>> for _ in range(3):
...     for x, y in private.loader:
...         loss = (model(x) - y).square().mean()
...         loss.backward()
...         optimizer.step()
>>> type(private.event).__name__, private.event.participations, private.event.separation
('MatrixMechanism', 3, 12)

No sampling is needed and none is credited: `Passes` runs through the data in an order that is drawn once. `CyclicPoisson` with a banded
strategy has both, sampling and correlation.
"""

from tacit.accounting import Buffered, SquareRoot, Strategy, Toeplitz, Tree, max_error, mean_error, sensitivity
from tacit.deep.correlated.design import banded, buffered
from tacit.deep.correlated.noise import Correlated, correlated_noise
from tacit.deep.correlated.streams import stream_of

__all__ = [
    "Buffered",
    "Correlated",
    "SquareRoot",
    "Strategy",
    "Toeplitz",
    "Tree",
    "banded",
    "buffered",
    "correlated_noise",
    "max_error",
    "mean_error",
    "sensitivity",
    "stream_of",
]
