"""The tap: the identity forwards, a reader backwards, and no obstacle to what follows."""

from __future__ import annotations

import torch

from tacit.deep.clipping.passes import tap


def test_the_gradient_passes_through_and_is_read() -> None:
    seen: list[torch.Tensor] = []
    x = torch.randn(3, 2, requires_grad=True)
    output = tap(x * 2, seen.append)
    (output * torch.arange(6.0).view(3, 2)).sum().backward()
    assert torch.equal(seen[0], torch.arange(6.0).view(3, 2)) and x.grad is not None
    assert torch.equal(x.grad, 2 * seen[0])


def test_in_place_activations_may_follow_even_if_nothing_before_needs_a_gradient() -> None:
    for x in (torch.randn(4), torch.randn(4, requires_grad=True)):
        seen: list[torch.Tensor] = []
        output = tap(x * 1, seen.append)
        expected = (output.detach() > 0).float()
        torch.relu_(output).sum().backward()
        assert torch.equal(seen[0], expected)
