"""A keyed order of a person's rows that is the same on every engine: md5 of the salt and of a text of each value.

Engines write numbers, times and NULL differently. So a value is first brought to a form that they share: whole numbers, decimals, dates,
Booleans and texts are their own text; floating-point numbers become whole numbers by exact steps (powers of two and floors); instants are
counted in microseconds. The end of each text is marked, so that no two lists of values look alike. Floats that agree to 2**-52 below the
point, or lie beyond 2**62, are not told apart: rows that differ in nothing else would be kept in the engine's order.

>>> words = Words(exp.DataType.Type.TEXT, "typeof", ("DOUBLE", "FLOAT"), ("TIMESTAMP WITH TIME ZONE",), "epoch_us")
>>> portable_key(7, [exp.column("a")], words).sql("duckdb").startswith("MD5('7' || ")
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

#: Beyond this, a floating-point number has no place among 64-bit integers.
FARTHEST = 2**62
#: The bits of a fraction.
FINEST = 2**52


@dataclass(frozen=True)
class Words:
    """How an engine says what is needed: its text type, the type of a value, its float and instant types, microseconds of an instant."""

    text: Any  # a member of exp.DataType.Type, which sqlglot does not declare as a type
    type_of: str
    floats: tuple[str, ...]
    instants: tuple[str, ...]
    microseconds: str


def portable_key(salt: int, values: Sequence[exp.Expression], words: Words) -> exp.Expression:
    """md5 over the salt and the canonical texts of the values."""
    whole: exp.Expression = exp.Literal.string(str(salt))
    for value in values:
        whole = exp.DPipe(this=whole, expression=_framed(_canonical(value, words)), safe=True)
    return exp.Anonymous(this="md5", expressions=[whole])


def _canonical(value: exp.Expression, words: Words) -> exp.Expression:
    """The text of a value, by its type. Branches that are not taken must still have types, so they start from the text."""
    text = exp.cast(value.copy(), words.text)
    kind = exp.cast(exp.Anonymous(this=words.type_of, expressions=[value.copy()]), words.text)
    number = exp.TryCast(this=text.copy(), to=exp.DataType.build("DOUBLE"), safe=True)
    instant = exp.TryCast(this=text.copy(), to=exp.DataType.build("TIMESTAMPTZ"), safe=True)
    micros = exp.cast(exp.Anonymous(this=words.microseconds, expressions=[instant]), words.text)
    missing = exp.If(this=exp.Is(this=value.copy(), expression=exp.null()), true=exp.null())  # LEAST and GREATEST would pass over it
    return exp.Case(
        ifs=[
            missing,
            exp.If(this=_among(kind, words.floats), true=_float(number, words)),
            exp.If(this=_among(kind.copy(), words.instants), true=micros),
        ],
        default=text,
    )


def _float(number: exp.Expression, words: Words) -> exp.Expression:
    """Two whole numbers: the floor, and the first bits of what is left. Every step is exact, or rounded by IEEE 754 alike everywhere."""
    near = exp.func("LEAST", exp.func("GREATEST", number, _double(-FARTHEST)), _double(FARTHEST))
    floor = exp.func("FLOOR", near)
    part = exp.func("FLOOR", exp.Mul(this=exp.Paren(this=exp.Sub(this=near.copy(), expression=floor.copy())), expression=_double(FINEST)))
    texts = [exp.cast(exp.cast(whole, "BIGINT"), words.text) for whole in (floor, part)]
    return exp.DPipe(this=exp.DPipe(this=texts[0], expression=exp.Literal.string("."), safe=True), expression=texts[1], safe=True)


def _framed(text: exp.Expression) -> exp.Expression:
    """The text with its end marked: a bar is doubled, '|;' ends a value and '|~' is NULL, so a list of values can be read back."""
    doubled = exp.Anonymous(this="replace", expressions=[text, exp.Literal.string("|"), exp.Literal.string("||")])
    return exp.DPipe(this=exp.func("COALESCE", doubled, exp.Literal.string("|~")), expression=exp.Literal.string("|;"), safe=True)


def _among(kind: exp.Expression, names: tuple[str, ...]) -> exp.Expression:
    return exp.In(this=kind, expressions=[exp.Literal.string(name) for name in names])


def _double(value: int) -> exp.Expression:
    literal = exp.Literal.number(f"{float(abs(value))!r}")
    return exp.cast(exp.Neg(this=literal) if value < 0 else literal, "DOUBLE")
