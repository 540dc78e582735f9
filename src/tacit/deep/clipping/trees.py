"""Tensors inside nested arguments and results: lists, tuples and dictionaries of tensors and of anything else.

>>> tensors, rebuild = flatten((torch.zeros(2), {"mask": torch.ones(3), "flag": True}))
>>> [len(tensor) for tensor in tensors], rebuild([1, 2])
([2, 3], (1, {'mask': 2, 'flag': True}))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

Rebuild = Callable[[Sequence[Any]], Any]


def flatten(value: Any) -> tuple[list[Tensor], Rebuild]:
    """The tensors in `value`, in order, and the function that puts others in their places."""
    tensors: list[Tensor] = []
    shape = _outline(value, tensors)

    def rebuild(others: Sequence[Any]) -> Any:
        return _fill(shape, list(others))

    return tensors, rebuild


class _Place:
    def __init__(self, index: int) -> None:
        self.index = index


def _outline(value: Any, tensors: list[Tensor]) -> Any:
    if isinstance(value, Tensor):
        tensors.append(value)
        return _Place(len(tensors) - 1)
    if isinstance(value, dict):
        return {key: _outline(item, tensors) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return _rebuilt(value, [_outline(item, tensors) for item in value])
    return value


def _fill(shape: Any, values: list[Any]) -> Any:
    if isinstance(shape, _Place):
        return values[shape.index]
    if isinstance(shape, dict):
        return {key: _fill(item, values) for key, item in shape.items()}
    if isinstance(shape, tuple | list):
        return _rebuilt(shape, [_fill(item, values) for item in shape])
    return shape


def _rebuilt(old: Any, items: list[Any]) -> Any:
    return type(old)(*items) if hasattr(old, "_fields") else type(old)(items)


def repeat_first(value: Any, count: int, *, only_one: bool = False) -> Any:
    """The arguments with one more example: the first one again, in every tensor that holds `count` of them, or only in the first such.

    >>> repeat_first([torch.arange(2), torch.zeros(3), torch.ones(2)], 2)
    [tensor([0, 1, 0]), tensor([0., 0., 0.]), tensor([1., 1., 1.])]
    """
    tensors, rebuild = flatten(value)
    longer: list[Tensor] = []
    grown = False
    for tensor in tensors:
        grow = tensor.ndim > 0 and len(tensor) == count and not (only_one and grown)
        longer.append(torch.cat([tensor, tensor[:1]]) if grow else tensor)
        grown = grown or grow
    return rebuild(longer)
