"""One record or user moves the computed sums by at most the sensitivity and its stated rounding, whatever the values are.

Every attack is measured on the sums, rounded to whole multiples of 2^-20 of the clip as noise on a lattice sees them. The oracle is the
difference itself: the sums of a batch with the record and without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tacit.deep.clipping import ROUNDING, Clipper, automatic, clipper, flat, linear, parts, per_layer
from tacit.deep.clipping.parts import Blocks, Bounds
from tacit.deep.users import UserClipper

CLIP, GRANULE = 1.0, 2.0**-20


def integers(clipping: Clipper, model: nn.Module, x: Any, weights: Tensor) -> Tensor:
    """The sums of the batch in granules; the loss is the outputs times weights of each example, so gradients can have any size."""
    with clipping:
        if len(weights):
            output = model(x)
            output = output[0] if isinstance(output, tuple) else output
            (output.flatten(1) * weights.to(output.dtype)).sum().backward()
        found = clipping.collect()
    flat_sums = torch.cat([value.reshape(-1) for value in found.sums.values()])
    assert flat_sums.dtype == torch.float64 and bool(flat_sums.isfinite().all())
    return (flat_sums / GRANULE).round()


def moved(model: nn.Module, x: Tensor, weights: Tensor, rule: Any = None) -> float:
    """How many clips the last record moves the sums of the others by."""
    rule = flat(CLIP) if rule is None else rule
    with_, without = (
        integers(Clipper(model, rule, loss_reduction="sum", check_batch=False), model, x[:n], weights[:n]) for n in (len(x), len(x) - 1)
    )
    return float((with_ - without).norm() * GRANULE)


ALLOWED = CLIP * (1 + 2 * ROUNDING) + 2e-4  # the granules of up to 1e5 coordinates


class Twice(nn.Module):
    """A Siamese network: the same layer on two halves of the input, one subtracted from the other."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Any:
        left, right = x.chunk(2, 1)
        return self.layer(left) - self.layer(right)


class Scale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(6))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale


class Tied(nn.Module):
    """One table as embedding and as output layer."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(9, 6)
        self.out = nn.Linear(6, 9, bias=False)
        self.out.weight = self.table.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.out(self.table(tokens).sum(1))


KINDS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(6, 5), (6,)),
    "sequence": (lambda: nn.Linear(6, 40), (4, 6)),
    "long sequence": (lambda: nn.Linear(6, 4), (40, 6)),
    "siamese linear": (lambda: Twice(nn.Linear(6, 5)), (12,)),
    "siamese conv": (lambda: Twice(nn.Conv1d(2, 3, 2)), (4, 6)),
    "conv": (lambda: nn.Conv1d(4, 3, 2, groups=1), (4, 6)),
    "deep conv": (lambda: nn.Conv1d(4, 64, 2, groups=2), (4, 6)),
    "layer norm": (lambda: nn.LayerNorm(6), (3, 6)),
    "group norm": (lambda: nn.GroupNorm(2, 4), (4, 6)),
    "prelu": (lambda: nn.PReLU(4), (4, 6)),
    "attention": (lambda: nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True), (4, 6)),
    "recurrent": (lambda: nn.LSTM(6, 5, batch_first=True), (4, 6)),
    "gru": (lambda: nn.GRU(6, 5, batch_first=True), (4, 6)),
    "fallback": (Scale, (6,)),
    "fallback conv": (lambda: nn.ConvTranspose1d(4, 3, 2), (4, 6)),
}


def values(count: int, shape: tuple[int, ...], exponents: Tensor, seed: int) -> Tensor:
    """Ordinary records, the last one with numbers of many sizes."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, *shape, generator=generator)
    powers = exponents[torch.randint(len(exponents), shape, generator=generator)]
    x[-1] = x[-1] * 10.0**powers
    return x


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_values_of_every_size_and_every_layer(kind: str, dtype: torch.dtype) -> None:
    make, shape = KINDS[kind]
    torch.manual_seed(5)
    model = make().to(dtype)
    for seed, powers in enumerate([[0], [30], [-30], [30, -30], [8, 0], [19, -23], [-23]]):
        x = values(5, shape, torch.tensor(powers, dtype=torch.float32), seed).to(dtype)
        for size in (1.0, 1e19, 1e30, 1e-30, -1e8):
            weights = torch.ones(5, 1)
            weights[-1] = size
            assert moved(model, x, weights.to(dtype)) <= ALLOWED, (kind, powers, size)


def cancelling(kind: str) -> tuple[nn.Module, Tensor, Tensor]:
    """Records whose last one has huge terms that cancel: exactly, or up to rounding."""
    torch.manual_seed(3)
    x, weights = torch.randn(6, 12), torch.ones(6, 1)
    if kind == "siamese linear":
        model: nn.Module = Twice(nn.Linear(6, 5))
        x[-1, 6:] = x[-1, :6]
        weights[-1] = 1e9
    elif kind == "siamese embedding":
        model = nn.Sequential(Twice(nn.Embedding(9, 6)), nn.Flatten())
        x, weights[-1] = torch.randint(9, (6, 4)), 1e9
        x[-1, 2:] = x[-1, :2]
    elif kind == "long siamese embedding":
        model = nn.Sequential(Twice(nn.Embedding(9, 6)), nn.Flatten())
        x, weights[-1] = torch.randint(9, (6, 400)), 1e9
        x[-1, 200:] = x[-1, :200]
    elif kind == "tied table":
        model, x = Tied(), torch.randint(9, (6, 4))
        weights[-1] = 1e12
    elif kind == "time":
        model = nn.Sequential(nn.Unflatten(1, (2, 6)), nn.Linear(6, 40), nn.Flatten(), Signs(80))
        x[-1, 6:] = x[-1, :6]
        weights[-1] = 1e9
    elif kind == "long time":
        model = nn.Sequential(nn.Unflatten(1, (64, 2)), nn.Linear(2, 3), nn.Flatten(), Signs(192))
        x = torch.randn(6, 128)
        x[-1] = x[-1, :2].repeat(64)
        weights[-1] = 1e9
    else:  # a convolution whose positions cancel
        model = nn.Sequential(nn.Unflatten(1, (1, 12)), nn.Conv1d(1, 40, 3, padding=1, padding_mode="circular"), nn.Flatten(), Signs(480))
        x[-1] = x[-1, 0]
        weights[-1] = 1e9
    return model, x, weights


class Signs(nn.Module):
    """Half of the outputs count negative."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.half = width // 2

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x[:, : self.half], -x[:, self.half :]], 1)


CANCELLING = ["siamese linear", "siamese embedding", "long siamese embedding", "tied table", "time", "long time", "conv"]


@pytest.mark.parametrize("rule", [flat(CLIP), per_layer(CLIP), automatic(CLIP)], ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("kind", CANCELLING)
def test_terms_that_cancel_do_not_wipe_out_the_others(kind: str, rule: Any) -> None:
    model, x, weights = cancelling(kind)
    assert moved(model, x, weights, rule) <= ALLOWED


def user_moved(sizes: list[int], model: nn.Module, x: Tensor, weights: Tensor) -> float:
    rows = sum(sizes[:-1])
    one, other = (
        integers(UserClipper(model, flat(CLIP), lambda n=n: sizes[:n], loss_reduction="sum", average=False), model, x[:k], weights[:k])  # type: ignore[misc]
        for n, k in ((len(sizes), len(x)), (len(sizes) - 1, rows))
    )
    return float((one - other).norm() * GRANULE)


@pytest.mark.parametrize("size", [1.0, 1e4, 1e9, 1e18, 1e-23])
@pytest.mark.parametrize("kind", ["linear", "sequence", "conv", "fallback"])
def test_records_of_one_user_that_cancel(kind: str, size: float) -> None:
    make, shape = KINDS[kind]
    torch.manual_seed(7)
    model, x, weights = make(), torch.randn(8, *shape), torch.ones(8, 1)
    x[7] = x[6]
    weights[6], weights[7] = size, -size  # the two records of the last user, exactly opposite
    assert user_moved([2, 2, 2, 2], model, x, weights) <= ALLOWED
    x[7] = x[6] * (1 + 1e-7)
    assert user_moved([2, 2, 2, 2], model, x, weights) <= ALLOWED


def test_small_inputs_with_large_gradients_are_seen() -> None:
    """x of 2.5e-23 underflows when squared; a gradient of 5e18 makes 3e-4 of it, thirty times the smaller clip."""
    model = nn.Linear(6, 5, bias=False)
    x, weights = torch.randn(4, 6), torch.ones(4, 1)
    for small, large in ((2.5e-23, 5e18), (2.5e-23, 1.7e19), (2.5e-23, 1e26), (1e-30, 1e38), (1e26, 2.5e-23)):
        x[-1], weights[-1] = small, large
        assert moved(model, x, weights) <= ALLOWED
        assert moved(model, x, weights, flat(1e-5)) <= 1e-5 * (1 + 2 * ROUNDING) + GRANULE * 30**0.5


def many(count: int) -> tuple[nn.Module, Tensor, Tensor]:
    """Records chosen so that single precision, adding them one by one, loses the same digits with each: the last one decides them."""
    x = torch.full((count, 1), 1.0)
    x[-1] = 1.0
    return nn.Linear(1, 1, bias=False), x, torch.full((count, 1), 1 + 2.0**-10)


@pytest.mark.slow
def test_a_hundred_thousand_records() -> None:
    model, x, weights = many(100_000)
    assert moved(model, x, weights) <= ALLOWED


def test_single_precision_adds_up_within_its_bound() -> None:
    """The oracle is the same sum in exact arithmetic: integers."""
    torch.manual_seed(0)
    left, right = torch.randint(-(2**11), 2**11, (700, 5)), torch.randint(-(2**11), 2**11, (700, 4))
    exact = (left.T @ right).double()
    mass = float((left.double().norm(dim=1) * right.double().norm(dim=1)).sum())
    for blocks in (Blocks(700), Blocks(57), Blocks(8), Blocks(64, torch.float64)):
        total = torch.zeros(5, 4, dtype=torch.float64)
        parts.add_products(total, left.float(), right.float(), blocks)
        assert float((total - exact).norm()) <= blocks.error(700) * mass


def test_the_bound_decides_the_precision() -> None:
    for mass, terms in ((1.0, 10), (512.0, 512), (5e3, 4096), (1e5, 100_000), (4096.0 * 64, 4096), (1e9, 10**6)):
        found = Blocks.within(ROUNDING, mass, terms)
        assert found.error(terms) * mass <= ROUNDING
    assert Blocks.within(ROUNDING, 1.0, 10).dtype == torch.float32 and Blocks.within(ROUNDING, 1e5, 10**5).dtype == torch.float64
    assert Blocks.within(ROUNDING, 1.0, 10, least=1.0).dtype == torch.float64, "underflow alone would be too much"


# Mutants: what the code did before, injected


@pytest.fixture
def old_norms(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Squares in single precision, no floor under what cancels, sums in one piece of single precision."""

    def squares(values: Tensor) -> Tensor:
        return torch.linalg.vector_norm(values.reshape(len(values), -1), dim=1).double()

    def gram(inputs: Tensor, outputs: Tensor) -> Bounds:
        product = torch.bmm(inputs, inputs.transpose(1, 2)) * torch.bmm(outputs, outputs.transpose(1, 2))
        norms = product.sum((1, 2)).clamp(min=0).sqrt().double()
        return Bounds(norms, norms)

    def in_single(total: Tensor, left: Tensor, right: Tensor, blocks: Blocks) -> None:
        total.copy_((total.float() + left.float().T @ right.float()).double())

    for module in (parts, linear):
        monkeypatch.setattr(module, "row_norms", squares)
    monkeypatch.setattr(parts, "ghost_bounds", gram)
    monkeypatch.setattr(parts, "floored", lambda norms, masses, dtype: Bounds(norms, masses))
    monkeypatch.setattr(parts, "add_products", in_single)
    monkeypatch.setattr(clipper.Blocks, "within", classmethod(lambda cls, *_, **__: Blocks(10**9)))
    yield


def test_mutant_the_old_norms_let_a_siamese_record_wipe_out_the_others(old_norms: None) -> None:
    _, x, weights = cancelling("siamese linear")
    assert moved(Twice(nn.Linear(6, 5, bias=False)), x, weights) > 1.5


def test_mutant_the_old_norms_underflow(old_norms: None) -> None:
    x, weights = torch.randn(4, 6), torch.ones(4, 1)
    x[-1], weights[-1] = 2.5e-23, 5e18
    assert moved(nn.Linear(6, 5, bias=False), x, weights, flat(1e-5)) > 10e-5
