"""Sums of clipped gradients: side by side in one piece of memory, equal to sums kept apart, and untouched once they are handed out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tacit.deep.clipping import Clipper, flat
from tacit.deep.clipping.parts import Blocks, Explicit, Outer, Part, Sums


def parameters() -> dict[str, nn.Parameter]:
    return {"weight": nn.Parameter(torch.zeros(4, 3)), "bias": nn.Parameter(torch.zeros(4)), "scale": nn.Parameter(torch.zeros(()))}


def parts(held: dict[str, nn.Parameter]) -> list[tuple[str, Part]]:
    """A whole matrix, two slices of a vector, and a number, of five examples."""
    return [
        ("weight", Outer(held["weight"], torch.randn(5, 2, 3), torch.randn(5, 2, 4))),
        ("bias", Explicit(held["bias"], torch.randn(5, 2), start=2)),
        ("bias", Explicit(held["bias"], torch.randn(5, 2), start=0)),
        ("weight", Explicit(held["weight"], torch.randn(5, 4, 3))),
        ("scale", Explicit(held["scale"], torch.randn(5))),
    ]


def test_sums_are_the_explicit_ones_and_lie_side_by_side() -> None:
    held, weights = parameters(), torch.rand(5)
    sums, wanted = Sums(held), {name: torch.zeros_like(param, dtype=torch.float64) for name, param in held.items()}
    for name, part in parts(held):
        rows = part.explicit(0, 5)
        target = wanted[name] if part.whole else wanted[name][part.start : part.start + part.rows]
        target += (weights.view(-1, *[1] * (rows.ndim - 1)) * rows).sum(0)
        sums.add(name, part, weights, Blocks(2))
    found, together = sums.take(held)
    assert together is not None
    assert torch.equal(together, torch.cat([found[name].reshape(-1) for name in held]))
    assert found["bias"].data_ptr() == together[12:].data_ptr(), "views, not copies"
    for name in held:
        assert torch.allclose(found[name], wanted[name], atol=1e-6)


def test_what_got_nothing_is_zero_and_what_is_frozen_is_left_out() -> None:
    held = parameters()
    held["bias"].requires_grad_(False)
    found, together = Sums(held).take(held)
    assert list(found) == ["weight", "scale"] and together is not None and not together.any() and len(together) == 13


def test_sums_are_wide_whatever_the_parameters_are() -> None:
    """In half precision one record could move a sum by eight clips; in double none is lost."""
    held = parameters() | {"half": nn.Parameter(torch.zeros(2, 2, dtype=torch.bfloat16))}
    sums = Sums(held)
    sums.add("half", Explicit(held["half"], torch.ones(1029, 2, 2)), torch.ones(1029), Blocks(2))
    found, together = sums.take(held)
    assert together is not None and {value.dtype for value in found.values()} == {torch.float64}
    assert found["half"].tolist() == [[1029.0] * 2] * 2


@pytest.mark.parametrize("freeze", [True, False])
def test_what_is_frozen_or_freed_on_the_way_is_summed_all_the_same(freeze: bool) -> None:
    """A parameter that is trained from the second piece of a batch on, or up to the first."""
    held, rows = parameters(), torch.ones(5, 4)
    held["bias"].requires_grad_(freeze)
    sums = Sums(held)
    held["bias"].requires_grad_(not freeze)
    if not freeze:
        sums.add("bias", Explicit(held["bias"], rows), torch.ones(5), Blocks(2))
    found, together = sums.take(held)
    assert together is None
    assert ("bias" in found) != freeze
    if not freeze:
        assert found["bias"].tolist() == [5.0] * 4


def test_a_collection_is_not_touched_by_the_next() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))

    def once(clipper: Clipper) -> tuple[dict[str, Tensor], Tensor | None]:
        model(torch.randn(6, 3)).square().mean().backward()
        collected = clipper.collect()
        return collected.sums, collected.together

    with Clipper(model, flat(1.0)) as clipper:
        first, together = once(clipper)
        kept = {name: value.clone() for name, value in first.items()}
        second, _ = once(clipper)
    assert together is not None and all(torch.equal(first[name], kept[name]) for name in first)
    assert not torch.equal(first["0.weight"], second["0.weight"])


def test_one_group_of_blocks_is_summed_in_single_precision_within_the_same_error() -> None:
    """As computed, against exact sums in double precision; a second pass goes on in double."""
    torch.manual_seed(3)
    weight = nn.Parameter(torch.zeros(6, 9))
    left, right, factors = torch.randn(160, 1, 6), torch.randn(160, 1, 9) * torch.logspace(-3, 3, 160).view(-1, 1, 1), torch.rand(160)
    blocks, part = Blocks(rows=20), Outer(weight, right, left)
    exact = torch.einsum("n,ni,nj->ij", factors.double(), left[:, 0].double(), right[:, 0].double())
    mass = float((factors.double() * left.double().norm(dim=2)[:, 0] * right.double().norm(dim=2)[:, 0]).sum())
    sums = Sums({"weight": weight}, torch.float32)
    sums.add("weight", part, factors, blocks)
    assert blocks.grouped(160)
    found = sums.take({"weight": weight})[0]["weight"]
    assert found.dtype == torch.float32 and float((found.double() - exact).norm()) <= blocks.error(160) * mass
    wide = sums.widened({"weight": weight})
    wide.add("weight", part, factors, blocks)
    twice, together = wide.take({"weight": weight})
    assert together is not None and twice["weight"].dtype == torch.float64
    assert float((twice["weight"] - 2 * exact).norm()) <= 2 * blocks.error(160) * mass
    assert torch.equal(found, sums.take({"weight": weight})[0]["weight"]), "what was handed out is left alone"
