"""Embeddings: an example's gradient has as many rows as it has distinct tokens, and only those are ever touched.

>>> layer, book = nn.Embedding(10, 2), Pass(count=2)
>>> layer_forward(book, "tokens", layer, torch.tensor([[1, 1, 1], [1, 2, 3]])).sum().backward()
>>> [part.norms().tolist() for part, _ in book.take()]  # three times the same row: 2 numbers of 3; three rows: 6 numbers of 1
[[18.0, 6.0]]
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tacit.deep.clipping.parts import Part, blank, row_norms, weigh, working_dtype
from tacit.deep.clipping.passes import Pass


class Lookup(Part):
    """The gradient of a table: sum over time of output gradients, each in the row of its token."""

    def __init__(self, param: Tensor, tokens: Tensor, outputs: Tensor) -> None:
        self.param, self.tokens, self.outputs = param, tokens, outputs
        self.rows = len(param)

    def norms(self) -> Tensor:
        count, time = self.tokens.shape
        if time == 1:
            return row_norms(self.outputs)
        if time <= GRAM:
            same = (self.tokens.unsqueeze(1) == self.tokens.unsqueeze(2)).to(self.outputs.dtype)
            same *= torch.bmm(self.outputs, self.outputs.transpose(1, 2))
            return same.sum((1, 2)).clamp_(min=0)
        owner = torch.arange(count, device=self.tokens.device).unsqueeze(1)
        keys, places = torch.unique(owner * len(self.param) + self.tokens, return_inverse=True)
        rows = self.outputs.new_zeros(len(keys), self.outputs.shape[2]).index_add_(0, places.flatten(), self.outputs.flatten(0, 1))
        return self.outputs.new_zeros(count).index_add_(0, keys // len(self.param), row_norms(rows))

    def weighted(self, weights: Tensor) -> Tensor:
        table = torch.zeros_like(self.param, dtype=self.outputs.dtype)
        return table.index_add_(0, self.tokens.flatten(), weigh(self.outputs, weights).flatten(0, 1))

    def explicit(self, first: int, last: int) -> Tensor:
        tokens, outputs = self.tokens[first:last], self.outputs[first:last]
        tables = outputs.new_zeros(last - first, *self.param.shape)
        return tables.scatter_add_(1, tokens.unsqueeze(2).expand_as(outputs), outputs)

    def drop(self, rows: Tensor) -> None:
        self.outputs = blank(self.outputs, rows)


GRAM = 128  # up to so many tokens a Gram matrix is faster than sorting them


def layer_forward(book: Pass, path: str, layer: nn.Embedding, tokens: Tensor) -> Tensor:
    """nn.Embedding."""
    output = F.embedding(tokens, layer.weight.detach(), layer.padding_idx)
    watched = book.watch(path, tokens)

    def read(gradient: Tensor) -> Iterator[Part]:
        indices = watched.get()
        count, time = len(indices), torch.Size(indices.shape[1:]).numel()
        outputs = gradient.reshape(count, time, gradient.shape[-1]).to(working_dtype(gradient, layer.weight))
        indices = indices.reshape(count, time)
        if layer.padding_idx is not None:
            outputs = outputs.masked_fill((indices == layer.padding_idx).unsqueeze(2), 0)
        yield Lookup(layer.weight, indices, outputs)

    return book.tap(path, output, [layer.weight], read)
