"""Embeddings: an example's gradient has as many rows as it has distinct tokens, and only those are ever touched.

>>> layer, book = nn.Embedding(10, 2), Pass(count=2)
>>> layer_forward(book, "tokens", layer, torch.tensor([[1, 1, 1], [1, 2, 3]])).sum().backward()
>>> [[round(norm**2, 2) for norm in bounds.norms.tolist()] for _, bounds in book.take()]  # 2 numbers of 3; 6 numbers of 1
[[18.0, 6.0]]
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tacit.deep.clipping.parts import DOUBLE, UNIT, Blocks, Bounds, Part, blank, floored, row_norms, weigh, working_dtype
from tacit.deep.clipping.passes import Pass


class Lookup(Part):
    """The gradient of a table: sum over time of output gradients, each in the row of its token."""

    def __init__(self, param: Tensor, tokens: Tensor, outputs: Tensor) -> None:
        self.param, self.tokens, self.outputs = param, tokens, outputs
        self.rows = len(param)

    @property
    def terms(self) -> int:
        return self.tokens.numel() * DOUBLE[0]  # each is added by itself, in double precision, whatever the blocks

    @property
    def dtype(self) -> torch.dtype:
        return self.outputs.dtype

    def bounds(self) -> Bounds:
        count, time = self.tokens.shape
        lengths = row_norms(self.outputs.flatten(0, 1)).view(count, time)
        if time == 1:
            return Bounds(lengths[:, 0], lengths[:, 0])
        masses, wide = lengths.sum(1), self.outputs.double()
        if time <= GRAM:
            same = torch.bmm(wide, wide.transpose(1, 2))
            same.masked_fill_(self.tokens.unsqueeze(1) != self.tokens.unsqueeze(2), 0)
            squares = same.sum((1, 2)).clamp_(min=0)
        else:
            owner = torch.arange(count, device=self.tokens.device).unsqueeze(1)
            keys, places = torch.unique(owner * len(self.param) + self.tokens, return_inverse=True)
            rows = wide.new_zeros(len(keys), wide.shape[2]).index_add_(0, places.flatten(), wide.flatten(0, 1))
            squares = wide.new_zeros(count).index_add_(0, keys // len(self.param), rows.square().sum(1))
        lost = (time * time + wide.shape[2] + 8) * UNIT[torch.float64]
        return floored((squares + masses.square() * lost).sqrt_(), masses, self.dtype)

    def add(self, total: Tensor, weights: Tensor, blocks: Blocks) -> None:
        total.index_add_(0, self.tokens.flatten(), weigh(self.outputs.double(), weights).flatten(0, 1))

    def explicit(self, first: int, last: int) -> Tensor:
        tokens, outputs = self.tokens[first:last], self.outputs[first:last]
        tables = outputs.new_zeros(last - first, *self.param.shape)
        return tables.scatter_add_(1, tokens.unsqueeze(2).expand_as(outputs), outputs)

    def drop(self, rows: Tensor) -> None:
        self.outputs = blank(self.outputs, rows)


GRAM = 128  # up to so many tokens a Gram matrix is faster than sorting them


def layer_forward(book: Pass, path: str, layer: nn.Embedding, tokens: Tensor) -> Tensor:
    """nn.Embedding. Where all examples share the input (positions), each gets its own copy of the output, which adds up the same."""
    given, tokens = tokens, book.spread(path, tokens)
    output = F.embedding(tokens, layer.weight.detach(), layer.padding_idx)
    if tokens is not given:
        output = book.stirred(output)
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
