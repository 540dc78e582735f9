"""Parts of gradients: every form of one gradient has the same norms, sums and explicit rows."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tacit.deep.clipping import Clipper, flat, parts
from tacit.deep.clipping.embedding import Lookup
from tacit.deep.clipping.parts import Blocks, Bounds, Explicit, Joint, Outer, Part, combine, ghost_bounds, ghost_is_cheaper, row_norms


def outer(count: int = 4, time: int = 3, rows: int = 5, width: int = 2, **options: int) -> Outer:
    weight = nn.Parameter(torch.zeros(options.pop("total", rows), width, dtype=torch.float64))
    inputs, outputs = torch.randn(count, time, width, dtype=torch.float64), torch.randn(count, time, rows, dtype=torch.float64)
    return Outer(weight, inputs, outputs, **options)


def summed(part: Part, weights: torch.Tensor, rows: int = 2) -> torch.Tensor:
    """What a part adds to a sum of zeros, two rows at a time."""
    total = torch.zeros(part.explicit(0, 1).shape[1:], dtype=torch.float64)
    part.add(total, weights, Blocks(rows, torch.float64))
    return total


def check(part: Part, gradients: torch.Tensor) -> None:
    weights = torch.rand(len(gradients), dtype=torch.float64)
    lengths = gradients.flatten(1).square().sum(1).sqrt()
    for bounds in (part.bounds, part.settle):
        found = bounds()
        assert torch.allclose(found.norms, lengths) and bool((found.norms >= lengths * (1 - 1e-15)).all())
        assert bool((found.masses >= lengths * (1 - 1e-15)).all())
        assert torch.allclose(summed(part, weights), torch.einsum("n,n...->...", weights, gradients))
        assert torch.allclose(part.explicit(1, 3), gradients[1:3])
    part.drop(torch.tensor([True, *[False] * (len(gradients) - 1)]))
    assert torch.allclose(summed(part, weights), torch.einsum("n,n...->...", weights[1:], gradients[1:]))


@given(st.integers(2, 6), st.sampled_from([1, 2, 40]), st.integers(1, 12), st.integers(1, 12))
def test_outer_products(count: int, time: int, rows: int, width: int) -> None:
    part = outer(max(count, 3), time, rows, width)
    check(part, torch.einsum("ntp,ntd->npd", part.outputs, part.inputs))


@pytest.mark.parametrize("cheap", [True, False])
def test_both_ways_to_a_norm(cheap: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "ghost_is_cheaper", lambda *_: cheap)
    part = outer()
    check(part, torch.einsum("ntp,ntd->npd", part.outputs, part.inputs))


def test_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "ghost_is_cheaper", lambda *_: False)
    monkeypatch.setattr(parts, "KEEP", 0)
    monkeypatch.setattr(parts, "CHUNK", 1)
    part = outer()
    check(part, torch.einsum("ntp,ntd->npd", part.outputs, part.inputs))


@pytest.mark.parametrize("time", [1, 5, 200])
def test_lookups(time: int) -> None:
    table = nn.Parameter(torch.zeros(6, 3, dtype=torch.float64))
    tokens, outputs = torch.randint(0, 6, (4, time)), torch.randn(4, time, 3, dtype=torch.float64)
    one_hot = nn.functional.one_hot(tokens, 6).double()
    check(Lookup(table, tokens, outputs), torch.einsum("ntv,ntd->nvd", one_hot, outputs))


def test_uses_that_meet_are_added_before_the_norm() -> None:
    first, second = outer(), outer()
    second.param = first.param
    gradients = first.explicit(0, 4) + second.explicit(0, 4)
    (joined,) = combine([first, second], 4)
    assert isinstance(joined, Outer)  # time steps of one matrix stay time steps
    check(joined, gradients)
    assert not torch.allclose(first.bounds().norms + second.bounds().norms, row_norms(gradients))  # the mutant: norms simply added


def test_slices_apart_stay_apart_and_slices_that_overlap_are_joined() -> None:
    whole = outer(rows=6)
    low, high = outer(rows=3, start=0, total=6), outer(rows=3, start=3, total=6)
    low.param = high.param = whole.param
    assert combine([low, high], 4) == [low, high]
    (joined,) = combine([low, high, whole], 4)
    assert isinstance(joined, Joint)
    check(joined, whole.explicit(0, 4) + torch.cat([low.explicit(0, 4), high.explicit(0, 4)], 1))


def test_mixed_forms_are_joined() -> None:
    first = outer()
    second = Explicit(first.param, torch.randn(4, 5, 2, dtype=torch.float64))
    (joined,) = combine([first, second], 4)
    check(joined, first.explicit(0, 4) + second.explicit(0, 4))


def test_a_dropped_row_may_hold_anything() -> None:
    part = outer()
    part.inputs[0, 0, 0] = float("nan")
    part.drop(torch.tensor([True, False, False, False]))
    assert bool(summed(part, torch.ones(4)).isfinite().all())


def test_rounding_never_gives_a_negative_square() -> None:
    inputs = torch.randn(50, 2, 3)
    inputs[:, 1] = inputs[:, 0]
    outputs = torch.randn(50, 2, 3)
    outputs[:, 1] = -outputs[:, 0]  # the two steps cancel exactly
    assert bool((ghost_bounds(inputs, outputs).norms >= 0).all())


def test_costs_choose_by_shape() -> None:
    assert ghost_is_cheaper(1, 100, 100) and not ghost_is_cheaper(1000, 10, 10)


def cancelling_norm(seed: int) -> float:
    """The length of what one example adds, at threshold 1, when its two time steps are nearly opposite and a million times longer."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(512, 512, bias=False))
    x = torch.randn(1, 1, 512).repeat(1, 2, 1) * 1e6
    x[0, 1] += torch.randn(512) * 10.0
    sign = torch.tensor([1.0, -1.0]).view(1, 2, 1) * torch.randn(1, 1, 512)
    with Clipper(model, flat(1.0), loss_reduction="sum") as clipper:
        (model(x) * sign).sum().backward()
        return float(clipper.collect().sums["0.weight"].norm())


def test_steps_that_cancel_do_not_escape_the_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    """In single precision the Gram matrices lose the norm, and one example adds thousands of times the threshold."""

    def single(inputs: torch.Tensor, outputs: torch.Tensor) -> Bounds:
        gram = torch.bmm(inputs, inputs.transpose(1, 2)) * torch.bmm(outputs, outputs.transpose(1, 2))
        norms = gram.sum((1, 2)).clamp(min=0).sqrt().double()
        return Bounds(norms, norms)

    assert max(cancelling_norm(seed) for seed in range(12)) <= 1.0001
    monkeypatch.setattr(parts, "ghost_bounds", single)
    assert max(cancelling_norm(seed) for seed in range(12)) > 10
