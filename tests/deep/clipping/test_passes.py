"""One pass: shapes are checked by name, inputs are guarded, and gradients arrive once."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tacit.deep.clipping import ClippingError
from tacit.deep.clipping.parts import Explicit
from tacit.deep.clipping.passes import Pass, Probe


def test_an_input_without_the_examples_is_refused_by_name_and_shape() -> None:
    book = Pass(3)
    book.check("encoder.0", torch.zeros(3, 2))
    book.check("encoder.0", torch.zeros(2, 3), dim=1)
    for bad in (torch.zeros(2, 3), torch.zeros(()), torch.zeros(6)):
        with pytest.raises(ClippingError, match=r"'encoder.0'.*dimension 0 must be the 3 examples.*batch_first=True"):
            book.check("encoder.0", bad)


def test_a_watched_input_may_not_change() -> None:
    x = torch.zeros(2, 2)
    watched = Pass(2).watch("layer", x)
    assert watched.get() is not None
    x += 1
    with pytest.raises(ClippingError, match="in place"):
        watched.get()


def test_norms_are_taken_at_once_only_if_a_parameter_has_one_use() -> None:
    weight = nn.Parameter(torch.zeros(2))
    for uses in (1, 2):
        book = Pass(3)
        outputs = [book.tap("layer", torch.ones(3, 2), [weight], lambda g: [Explicit(weight, g)]) for _ in range(uses)]
        sum(output.sum() for output in outputs).backward()  # type: ignore[union-attr]
        assert bool(book.settled) == (uses == 1) and book.received
        (found,) = book.take()
        assert found[1].norms.square().tolist() == pytest.approx([2.0 * uses**2] * 3, rel=1e-4)


def test_a_probe_keeps_nothing() -> None:
    book, x = Probe(2), torch.ones(2, 2)
    assert book.tap("layer", x, [], lambda g: []) is x and book.probing and not Pass(2).probing


def test_a_closed_pass_says_why() -> None:
    book = Pass(1)
    output = book.tap("layer", torch.ones(1, 1), [], lambda g: [])
    book.closed = "the reason"
    with pytest.raises(ClippingError, match="the reason"):
        output.sum().backward()
