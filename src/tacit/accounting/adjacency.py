"""Neighbouring relations: which two data sets must be hard to tell apart.

A relation is spelled "add-remove", "replace-one" or "zero-out" in Python, in jobs and in commands.
`Adjacency.parse` is the one place that reads it; underscores are read too, because older jobs and books have
them.

>>> Adjacency.parse("add-remove")
Adjacency.ADD_REMOVE
>>> hops(Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE)
2
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from tacit.errors import AdjacencyError, ParameterError


class Adjacency(Enum):
    """The relation a guarantee is stated for."""

    ADD_REMOVE = "add-remove"  # one record is present or absent
    REPLACE_ONE = "replace-one"  # one record is exchanged for any other; the size is public
    ZERO_OUT = "zero-out"  # one record is exchanged for the null record, which adds nothing; the size is public

    def __repr__(self) -> str:
        return f"Adjacency.{self.name}"

    @staticmethod
    def parse(
        given: Adjacency | str, *, among: Iterable[Adjacency] | None = None, name: str = "adjacency"
    ) -> Adjacency:
        """The relation that is meant, one of `among`; an error calls the parameter `name`.

        >>> Adjacency.parse("replace_one"), Adjacency.parse(Adjacency.ZERO_OUT)
        (Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT)
        """
        allowed = tuple(Adjacency if among is None else among)
        found = given
        if isinstance(given, str):
            found = next((one for one in allowed if one.value == given.replace("_", "-")), given)
        if isinstance(found, Adjacency) and found in allowed:
            return found
        names = [repr(relation.value) for relation in allowed]
        raise ParameterError(
            f"{name} must be {', '.join(names[:-1])} or {names[-1]}, not {str(given)[:40]!r}"
        )


def hops(stated: Adjacency, asked: Adjacency, *, null_record: bool = False) -> int:
    """How many steps of the `stated` relation make one step of the `asked` relation.

    A replacement is a removal and an addition, so it costs a group of two. A record that is zeroed out adds
    nothing, as an absent one does, so noise that hides an addition hides that. The way back, from a relation
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
        return 1
    if null_record:
        return 1
    raise AdjacencyError(code="relation-not-covered", stated=stated, asked=asked)
