"""Neighbouring relations: which two data sets must be hard to tell apart.

>>> hops(Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE)
2
"""

from __future__ import annotations

from enum import Enum

from tacit.accounting.errors import AdjacencyError


class Adjacency(Enum):
    """The relation a guarantee is stated for."""

    ADD_REMOVE = "add-remove"  # one record is present or absent
    REPLACE_ONE = "replace-one"  # one record is exchanged for any other; the size is public
    ZERO_OUT = "zero-out"  # one record is exchanged for the fixed null record; the size is public

    def __repr__(self) -> str:
        return f"Adjacency.{self.name}"


def hops(stated: Adjacency, asked: Adjacency, *, null_record: bool = False) -> int:
    """How many steps of the `stated` relation make one step of the `asked` relation.

    A replacement is a removal and an addition, so it costs a group of two. The way back, from a relation
    that keeps the size fixed to one that reveals it, exists only where a null record stands for an absent
    one (Steinke 2022, section 3.6: releasing n is free under replacement and infinite under addition).

    >>> hops(Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE, null_record=True)
    1
    """
    if stated is asked:
        return 1
    if asked is Adjacency.REPLACE_ONE:
        return 2
    if stated is Adjacency.REPLACE_ONE and asked is Adjacency.ZERO_OUT:
        return 1
    if asked is Adjacency.ZERO_OUT:
        return 1 if null_record else 2
    if null_record:
        return 1
    raise AdjacencyError(code="relation-not-covered", stated=stated, asked=asked)
