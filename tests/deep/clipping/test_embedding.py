"""Embeddings against each example alone through plain autograd: repeated tokens, padding, long texts, ties."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.deep.clipping.naive_clipping import agree, clipped, distance, gradients, squares
from torch import Tensor, nn

from tacit.deep.clipping import Clipper, ClippingError, flat


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


class Positions(nn.Module):
    """Learned positions, looked up once for all examples: by `look`, which then uses them in its own way."""

    def __init__(self, look: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.tokens, self.positions, self.layer = nn.Embedding(7, 5), nn.Embedding(12, 5), nn.Linear(5, 2)
        self.look = look

    def forward(self, text: Tensor) -> Tensor:
        output: Tensor = self.layer(torch.tanh(self.tokens(text) + self.look(self.positions, torch.arange(text.shape[1]))))
        return output


SHARED: dict[str, Callable[[nn.Module, Tensor], Tensor]] = {
    "no dimension": lambda layer, steps: layer(steps),
    "a dimension of one": lambda layer, steps: layer(steps[None]),
    "expanded after": lambda layer, steps: layer(steps[None]) * torch.ones(1, 1, 1, dtype=torch.float64),
    "used twice": lambda layer, steps: layer(steps) - layer(steps.flip(0))[..., :1],
}
MET: dict[str, Callable[[nn.Module, Tensor], Tensor]] = {
    "the first": lambda layer, steps: layer(steps[None])[0],
    "the last": lambda layer, steps: layer(steps[None])[-1],
    "the mean": lambda layer, steps: layer(steps).mean(0) if layer(steps).ndim == 3 else layer(steps),
    "turned": lambda layer, steps: layer(steps[None]).roll(1, 0),
}


@pytest.mark.parametrize("look", list(SHARED))
@pytest.mark.parametrize("time", [3, 6, 7], ids=["fewer", "as many as examples", "one more"])
def test_positions_that_all_examples_share(look: str, time: int) -> None:
    """Six examples: the shapes of six and of seven positions are those of the batch and of the probe."""
    agree(Positions(SHARED[look]).double(), tokens(6, time))


@pytest.mark.parametrize("look", list(SHARED))
def test_what_is_shared_is_settled_once(look: str) -> None:
    """Batches of other sizes, the length of the text among them, come after the first."""
    model = Positions(SHARED[look]).double().train()
    with Clipper(model, flat(0.3), loss_reduction="sum") as clipper:
        for count in (3, 5, 1, 8):
            text = tokens(count, 5)
            squares(model(text)).backward()
            found = clipper.collect()
            clipper.detach()
            expected = clipped(gradients(model, (text,), squares), 0.3)
            clipper.attach()
            assert distance(found.sums, expected) < 1e-10


@pytest.mark.parametrize("look", list(MET))
@pytest.mark.parametrize("time", [3, 6])
def test_copies_of_shared_positions_must_not_meet(look: str, time: int) -> None:
    """Each example gets its own copy: one that is used for another would carry that one's gradient."""
    model = Positions(MET[look]).double()
    with Clipper(model, flat(1.0)), pytest.raises(ClippingError, match="reaches another"):
        model(tokens(6, time))


def test_without_the_probe_nothing_is_shared() -> None:
    model = Positions(SHARED["no dimension"])
    with Clipper(model, flat(1.0), check_batch=False), pytest.raises(ClippingError, match="keep the batch first"):
        model(tokens(6, 3))
