"""Embeddings against each example alone through plain autograd: repeated tokens, padding, long texts, ties."""

from __future__ import annotations

import pytest
import torch
from tests.deep.clipping.naive_clipping import agree
from torch import Tensor, nn


def tokens(*shape: int) -> Tensor:
    torch.manual_seed(2)
    return torch.randint(0, 7, shape)


class Tied(nn.Module):
    """One matrix reads the tokens and writes the scores."""

    def __init__(self) -> None:
        super().__init__()
        self.read, self.write = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
        self.write.weight = self.read.weight

    def forward(self, text: Tensor) -> Tensor:
        scores: Tensor = self.write(torch.tanh(self.read(text)))
        return scores


@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3), (150,)], ids=str)
@pytest.mark.parametrize("padding", [None, 0])
def test_texts(shape: tuple[int, ...], padding: int | None) -> None:
    """150 tokens of 7 are sorted, fewer go through a Gram matrix."""
    model = nn.Sequential(nn.Embedding(7, 4, padding_idx=padding), nn.Tanh(), nn.Linear(4, 2)).double()
    agree(model, tokens(6, *shape))


def test_sparse_tables_give_dense_sums() -> None:
    result = agree(nn.Embedding(7, 3, sparse=True, dtype=torch.float64), tokens(6, 4))
    assert not result.sums["weight"].is_sparse


def test_tied_to_the_output_layer() -> None:
    result = agree(Tied().double(), tokens(6, 5))
    assert set(result.sums) == {"read.weight"}
