"""Nested arguments: tensors out, tensors in, everything else in its place."""

from __future__ import annotations

from collections import namedtuple

import torch

from tacit.deep.clipping.passes import flatten, repeat_first

Pair = namedtuple("Pair", ["left", "right"])


def test_round_trip_keeps_the_shape_of_things() -> None:
    value = [torch.zeros(1), (None, {"a": torch.ones(2), "b": "text"}), Pair(torch.zeros(3), 5)]
    tensors, rebuild = flatten(value)
    assert [len(tensor) for tensor in tensors] == [1, 2, 3]
    again = rebuild(tensors)
    assert again[1][1]["b"] == "text" and isinstance(again[2], Pair) and again[0] is tensors[0]


def test_one_more_example_in_every_tensor_or_in_the_first_alone() -> None:
    value = (torch.arange(2), torch.zeros(()), {"mask": torch.ones(2), "other": torch.ones(3)})
    longer = repeat_first(value, 2)
    assert longer[0].tolist() == [0, 1, 0] and len(longer[2]["mask"]) == 3 and len(longer[2]["other"]) == 3
    assert len(repeat_first(value, 2, only_one=True)[2]["mask"]) == 2
