"""Rows as few wide integers: what has public bounds is packed into 63 bits before an engine sorts, and unpacked after.

Sorting is what caps cost, and it costs by the width of a row: DuckDB picks ten rows of each person twice as fast when group, count and sum
are one integer. Values are first held within their public bounds, so that packing cannot mix them up whatever a row says.

>>> pack = Packing.of({"group_": (0, 99), "sum_0": (-5, 5)})
>>> [word.sql("duckdb") for word in pack.words()]
['CAST((LEAST(GREATEST("group_", 0), 99)) * 16 + (LEAST(GREATEST("sum_0", -5), 5) + 5) AS BIGINT)']
>>> pack.value("group_").sql("duckdb"), pack.value("sum_0").sql("duckdb")
('("pack_0" >> 4)', '("pack_0" & 15) - 5')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

#: Bits of a packed word; the sign is not used.
WIDTH = 62


@dataclass(frozen=True)
class Packing:
    """Where each column lies: its word, the bits below it, its width and its lowest value."""

    places: Mapping[str, tuple[int, int, int, int, int]]

    @staticmethod
    def of(ranges: Mapping[str, tuple[int, int]]) -> Packing:
        """Columns into words, in their order; a column too wide for a word is left out."""
        words: list[list[str]] = []
        widths = {name: max(1, (high - low).bit_length()) for name, (low, high) in ranges.items()}
        for name, width in widths.items():
            if width <= WIDTH and max(map(abs, ranges[name])) < 2**WIDTH:
                fits = next((word for word in words if sum(widths[other] for other in word) + width <= WIDTH), None)
                if fits is None:
                    words.append([name])
                else:
                    fits.append(name)
        places = {}
        for index, word in enumerate(words):
            shift = 0
            for name in reversed(word):  # the last column has the lowest bits
                places[name] = (index, shift, widths[name], *ranges[name])
                shift += widths[name]
        return Packing(places)

    @property
    def count(self) -> int:
        """How many words there are."""
        return len({place[0] for place in self.places.values()})

    def name(self, word: int) -> str:
        """The column of a word."""
        return f"pack_{word}"

    def words(self) -> list[exp.Expression]:
        """Each word, from the columns."""
        found: list[exp.Expression] = []
        for word in range(self.count):
            whole: exp.Expression | None = None
            for name, (index, _, width, low, high) in sorted(self.places.items(), key=lambda item: -item[1][1]):
                if index == word:
                    part: Any = exp.func("LEAST", exp.func("GREATEST", _column(name), _whole(low)), _whole(high))
                    part = part if low == 0 else exp.Paren(this=exp.Add(this=part, expression=_whole(-low)))
                    above = None if whole is None else exp.Mul(this=exp.Paren(this=whole), expression=_whole(2**width))
                    whole = part if above is None else exp.Add(this=above, expression=part)
            assert whole is not None
            found.append(exp.cast(whole, "BIGINT"))
        return found

    def value(self, name: str) -> exp.Expression:
        """A column, from its word."""
        word, shift, width, low, _ = self.places[name]
        found: exp.Expression = _column(self.name(word))
        top = all(place[0] != word or place[1] <= shift for place in self.places.values())
        if shift:
            found = exp.Paren(this=exp.BitwiseRightShift(this=found, expression=_whole(shift)))
        if not top:
            found = exp.Paren(this=exp.BitwiseAnd(this=found, expression=_whole(2**width - 1)))
        return found if low == 0 else exp.Sub(this=found, expression=_whole(-low))


@dataclass(frozen=True)
class Packed:
    """Rows with their bounded columns packed, and the way back."""

    rows: exp.Select
    names: tuple[str, ...]
    packing: Packing

    @staticmethod
    def of(rows: exp.Select, apart: Sequence[str], ranges: Mapping[str, tuple[int, int]]) -> Packed:
        """Pack all columns of `rows` that have a range, but those that must stay `apart` because rows are grouped by them."""
        names = tuple(projection.alias_or_name for projection in rows.selects)
        packing = Packing.of({name: ranges[name] for name in names if name in ranges and name not in apart})
        if len(packing.places) <= packing.count:  # nothing shares a word
            return Packed(rows, names, Packing({}))
        plain = [_column(name) for name in names if name not in packing.places]
        words: list[Any] = [exp.alias_(word, packing.name(i), quoted=True) for i, word in enumerate(packing.words())]
        return Packed(_from([*plain, *words], rows, "wide_"), names, packing)

    @property
    def values(self) -> list[str]:
        """The columns of the packed rows."""
        return [projection.alias_or_name for projection in self.rows.selects]

    def unpacked(self, found: exp.Select) -> exp.Select:
        """What was found among the packed rows, with the columns it had."""
        places = self.packing.places
        chosen: list[Any] = [
            exp.alias_(self.packing.value(name), name, quoted=True) if name in places else _column(name) for name in self.names
        ]
        return _from(chosen, found, "packed_")


def _from(chosen: Sequence[exp.Expression], rows: exp.Select, name: str) -> exp.Select:
    inner = exp.Subquery(this=rows, alias=exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
    return exp.Select(expressions=list(chosen)).from_(inner, copy=False)


def _column(name: str) -> exp.Column:
    return exp.column(name, quoted=True)


def _whole(value: int) -> exp.Expression:
    literal = exp.Literal.number(str(abs(value)))
    return exp.Neg(this=literal) if value < 0 else literal
