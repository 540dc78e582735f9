"""How the columns of a file are read where they are not as a plain file would have them: encodings, formats,
missing codes, other values.

A curator's file has latin-1 beside UTF-8, dates as 31.12.2025, numbers as 1.234,56, and codes such as -9 for
what is missing. A `ColumnReading` says how one column is read. It is a function of one value, so it changes no
guarantee: what cannot be read is NULL, and no value makes a statement fail. A file in another encoding is
written once more as UTF-8, in memory where the system can, and DuckDB reads that.

>>> date_formats("dd.mm.yyyy"), ColumnReading("VARCHAR", missing=("unknown",)).sql('"city"')
(('%d.%m.%Y',), 'CASE WHEN TRIM("city") IN (\\'unknown\\') THEN NULL ELSE "city" END')
>>> ColumnReading("DOUBLE", missing=(-9, 999)).sql('"age"')
'NULLIF(NULLIF(TRY_CAST("age" AS DOUBLE), TRY_CAST(\\'-9\\' AS DOUBLE)), TRY_CAST(\\'999\\' AS DOUBLE))'
>>> "Zürich".encode() + "Zürich".encode("latin-1") == b"Z\\xc3\\xbcrichZ\\xfcrich"
True
>>> decoded(b"Z\\xc3\\xbcrich, Z\\xfcrich", "mixed")
'Zürich, Zürich'
"""

from __future__ import annotations

import codecs
import datetime
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from tacit.tables.errors import TableError

#: What a file's encoding may be called, and Python's name for it. `mixed` is UTF-8, and where that cannot be,
#: Windows' Latin letters.
ENCODINGS: Mapping[str, str] = {
    "utf-8": "utf-8", "utf8": "utf-8", "latin-1": "latin-1", "latin1": "latin-1", "iso-8859-1": "latin-1", "cp1252": "cp1252",
    "windows-1252": "cp1252", "mixed": "mixed",
}  # fmt: skip
#: Ways to write a number: the marks that stand between thousands, and the one before the decimals.
NUMBER_FORMATS: Mapping[str, tuple[str, str]] = {
    "1234.56": ("", "."), "1,234.56": (",", "."), "1'234.56": ("'’", "."), "1 234.56": (" \u00a0\u202f", "."),
    "1234,56": ("", ","), "1.234,56": (".", ","), "1 234,56": (" \u00a0\u202f", ","), "1'234,56": ("'’", ","),
    "decimal comma": (".", ","), "decimal point": (",", "."),
}  # fmt: skip
#: The parts of a date as people write them, longest first, and as strptime has them.
_WORDS = (
    ("yyyy", "%Y"), ("YYYY", "%Y"), ("mmm", "%b"), ("MMM", "%b"), ("mm", "%m"), ("dd", "%d"), ("DD", "%d"), ("yy", "%y"), ("YY", "%y"),
    ("HH", "%H"), ("hh", "%H"), ("MM", "%M"), ("ss", "%S"), ("SS", "%S"), ("d", "%d"), ("m", "%m"),
)  # fmt: skip
#: Types of whole numbers.
_WHOLE = frozenset({
    "TINYINT", "SMALLINT", "INTEGER", "INT", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT",
})  # fmt: skip
_SIGNS = set("YmdyHMSbBfjIp%")
_FALLBACK = "tacit-cp1252"


def encoding_of(name: str) -> str:
    """The encoding of this name, or an error that lists them."""
    found = ENCODINGS.get(name.lower())
    if found is None and name.lower().replace("_", "-").startswith(("utf-16", "utf16", "utf-32", "utf32")):
        # Bytes are taken in groups from the beginning of the file: one row with a byte too many would change all rows after it.
        raise TableError("a file in UTF-16 or UTF-32 is not read: one damaged row would change all others. Convert it first: "
                         "iconv -f UTF-16 -t UTF-8 old.csv > new.csv")
    if found is None:
        raise TableError(
            f"encoding must be one of {', '.join(dict.fromkeys(ENCODINGS.values()))}, not {name[:40]!r}"
        )
    return found


def marked(text: str) -> str:
    """A text with its marks as the bytes they stand for, for a screen.

    >>> marked("Z" + chr(MARKED + 0xFC) + "rich")
    'Z<FC>rich'
    """
    return "".join(f"<{ord(c) - MARKED:02X}>" if MARKED <= ord(c) < MARKED + 256 else c for c in text)


def date_formats(given: str | tuple[str, ...]) -> tuple[str, ...]:
    """Formats of dates for strptime, from words (dd.mm.yyyy) or from signs (%d.%m.%Y); several are tried in
    order.

    >>> date_formats(("dd.mm.yyyy", "%Y-%m-%d", "dd/mm/yyyy HH:MM"))
    ('%d.%m.%Y', '%Y-%m-%d', '%d/%m/%Y %H:%M')
    """
    found = []
    for text in (given,) if isinstance(given, str) else given:
        made = text
        if "%" not in text:
            made, rest = "", text
            while rest:
                word, sign = next(((w, s) for w, s in _WORDS if rest.startswith(w)), (rest[0], rest[0]))
                # After hours, mm are minutes.
                made += (
                    "%M"
                    if word == "mm" and "%H" in made
                    else "%m"
                    if word == "MM" and "%H" not in made
                    else sign
                )
                rest = rest[len(word) :]
        signs = re.findall(r"%(.?)", made)
        if (
            not signs
            or not set(signs) <= _SIGNS
            or len(made) > 60
            or re.search(r"[A-Za-z]{2,}", re.sub(r"%.", "", made))
        ):
            raise TableError(
                f"format {text[:40]!r} is not understood; write dates as dd.mm.yyyy, or as %d.%m.%Y"
            )
        found.append(made)
    return tuple(found)


def number_marks(given: str) -> tuple[str, str]:
    """The marks of a way to write numbers, such as 1.234,56."""
    found = NUMBER_FORMATS.get(given)
    if found is None:
        raise TableError(
            f"format {given[:40]!r} is not understood; numbers are written like {', '.join(NUMBER_FORMATS)}"
        )
    return found


@dataclass(frozen=True)
class ColumnReading:
    """How one column is read: its type in the engine, formats, codes that mean that nothing is there, and a
    value for all others.

    `known` are the values that stay as they are where `other` takes the place of the rest.
    """

    type: str
    formats: tuple[str, ...] = ()
    marks: tuple[str, str] | None = None
    missing: tuple[Any, ...] = ()
    known: tuple[Any, ...] = ()
    other: Any = None

    def sql(self, column: str, *, text: bool = True, stored: str | None = None) -> str:
        """The value in DuckDB's words; `text` says whether the column is stored as one, `stored` as which other type."""
        return self.rest(self.value(column, text=text, stored=stored), stored=None if text else stored)

    def value(self, column: str, *, text: bool = True, stored: str | None = None) -> str:
        """The value with its missing codes as NULL, before `other` takes the place of the rest."""
        codes = [code for code in self.missing if isinstance(code, str)]
        if text and codes:
            listed = ", ".join(literal(code) for code in codes)
            column = f"CASE WHEN TRIM({column}) IN ({listed}) THEN NULL ELSE {column} END"
        found = self.parsed(column, text=text)
        for code in self.missing:
            if not isinstance(code, str) or (not text and self.type == "VARCHAR"):
                found = f"NULLIF({found}, {self.constant(code, None if text else stored)})"
        return found

    def constant(self, value: Any, stored: str | None = None) -> str:
        """A public value in the column's own type; NULL, which equals nothing, where no value of the column can be it. Compared in any
        other type, DuckDB would bring the column's values to a type that not all of them fit into, and fail on one that does not.

        >>> reading = ColumnReading("DECIMAL(38,9)")
        >>> reading.constant(0.5), reading.constant(0.1234567891), reading.constant(-9, "HUGEINT"), reading.constant(0.5, "HUGEINT")
        ("TRY_CAST('0.5' AS DECIMAL(38,9))", 'NULL', "TRY_CAST('-9' AS HUGEINT)", 'NULL')
        """
        if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
            return literal(value)
        kind, number = stored or self.type, Decimal(str(value))
        sized = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", kind)
        decimals = int(sized[2]) if sized is not None else 0 if kind in _WHOLE else None
        exponent = number.normalize().as_tuple().exponent
        # A cast would round what has more decimals, and a rounded code would stand for values that it is not.
        exact = decimals is None or (isinstance(exponent, int) and -exponent <= decimals)
        return f"TRY_CAST({literal(format(number, 'f'))} AS {kind})" if exact else "NULL"

    def parsed(self, column: str, *, text: bool = True) -> str:
        """The value as it is written, codes included."""
        if not text:
            return column
        if self.formats:
            # DuckDB takes 1.2.26 for a day of the year 26: what has not the digits of the form is not read.
            ways = [
                f"CASE WHEN regexp_full_match(TRIM({column}), {literal(_digits(one))}) "
                f"THEN TRY_STRPTIME(TRIM({column}), {literal(one)}) END"
                for one in self.formats
            ]
            one = ways[0] if len(ways) == 1 else f"COALESCE({', '.join(ways)})"
            return f"CAST({one} AS {self.type})"
        if self.marks is not None:
            plain = f"TRIM({column})"
            for mark in self.marks[0]:
                plain = f"REPLACE({plain}, {literal(mark)}, '')"
            plain = plain if self.marks[1] == "." else f"REPLACE({plain}, ',', '.')"
            # 1.5 is no number where a point stands between thousands: to drop the point would make 15 of it.
            column = (
                f"CASE WHEN regexp_full_match(TRIM({column}), {literal(_shape(self.marks))}) THEN {plain} END"
            )
        return column if self.type == "VARCHAR" else read_as(column, self.type)

    def rest(self, value: str, *, stored: str | None = None) -> str:
        """The value, or `other` in place of one that is not known."""
        if self.other is None:
            return value
        listed = ", ".join(self.constant(one, stored) for one in self.known if one is not None) or "NULL"
        return f"CASE WHEN {value} IS NULL OR {value} IN ({listed}) THEN {value} ELSE {self.constant(self.other, stored)} END"


#: A whole number as it may be written: 7, +7, 7.0, 7e3.
WHOLE_NUMBER = r"[+-]?[0-9]+([.]0*)?([eE][+]?[0-9]+)?"


def read_as(column: str, kind: str) -> str:
    """A text as a value of a type in DuckDB's words; NULL where it is none. 1.5 is no whole number: rounded, two people whose
    identifiers are 1.5 and 2 would be one.

    >>> read_as('"id"', "DATE")
    'TRY_CAST("id" AS DATE)'
    """
    read = f"TRY_CAST({column} AS {kind})"
    return f"CASE WHEN regexp_full_match(TRIM({column}), {literal(WHOLE_NUMBER)}) THEN {read} END" if kind in _WHOLE else read


def _digits(form: str) -> str:
    """What a date in a form looks like, as a regular expression: years of four digits or two, other parts of one or two."""
    sizes = {"Y": "[0-9]{4}", "y": "[0-9]{2}", "b": "[^0-9]+", "B": "[^0-9]+", "f": "[0-9]+"}
    sizes |= {"j": "[0-9]{1,3}", "p": "[AaPp][Mm]", "%": "%"}
    found, rest = "", form
    while rest:
        if rest[0] == "%":
            found, rest = found + sizes.get(rest[1:2], "[0-9]{1,2}"), rest[2:]
        else:
            found, rest = found + (rest[0] if rest[0].isalnum() or rest[0] == " " else f"\\{rest[0]}"), rest[1:]
    return found


def _shape(marks: tuple[str, str]) -> str:
    """What a number with these marks looks like, as a regular expression: thousands apart in threes, or not
    at all.
    """
    between = f"([{marks[0]}][0-9]{{3}})*" if marks[0] else ""
    whole = rf"([0-9]{{1,3}}{between}|[0-9]+)" if between else "[0-9]+"
    return rf"[+-]?{whole}([{marks[1]}][0-9]*)?"


def literal(value: Any) -> str:
    """A public constant as DuckDB writes it."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, (int, float, Decimal)):
        return repr(value) if not isinstance(value, Decimal) else str(value)
    if isinstance(value, datetime.datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, datetime.date):
        return f"DATE '{value.isoformat()}'"
    return "'" + str(value).replace("'", "''") + "'"


# --- encodings
# ------------------------------------------------------------------------------------------------


def _as_windows(error: UnicodeError) -> tuple[str, int]:
    """Bytes that are no UTF-8 as Windows' Latin letters; the five that have none there as Latin-1's, so that
    nothing fails.
    """
    assert isinstance(error, UnicodeDecodeError)
    wrong = error.object[error.start : error.end]
    return "".join(
        bytes([byte]).decode("cp1252" if byte not in _NO_LETTER else "latin-1") for byte in wrong
    ), error.end


def _as_marks(error: UnicodeError) -> tuple[str, int]:
    """Bytes that are no UTF-8 as characters of the private use area, by which a check finds them."""
    assert isinstance(error, UnicodeDecodeError)
    return "".join(chr(MARKED + byte) for byte in error.object[error.start : error.end]), error.end


_NO_LETTER = frozenset({0x81, 0x8D, 0x8F, 0x90, 0x9D})
#: Where the characters begin that stand for bytes that are no UTF-8, in the encoding `marked`.
MARKED = 0xF700
codecs.register_error(_FALLBACK, _as_windows)
codecs.register_error("tacit-marked", _as_marks)
#: How bytes are read that an encoding has no letters for.
_ERRORS = {"mixed": _FALLBACK, "cp1252": _FALLBACK, "marked": "tacit-marked"}
_UTF8 = ("mixed", "marked")


def decoded(content: bytes, encoding: str) -> str:
    """Bytes as text; whatever they are, there is one. A value's text depends on its own bytes alone, also in
    `mixed`: separators are ASCII.
    """
    name = encoding_of(encoding)
    return content.decode("utf-8" if name in _UTF8 else name, _ERRORS.get(name, "replace"))


class Transcoded:
    """A file once more as UTF-8. It lives in memory where the system has files there, otherwise in a private
    file until `close`.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "cities.csv"
    >>> _ = file.write_bytes("city\\nZürich\\n".encode("latin-1"))
    >>> made = Transcoded(str(file), "latin-1")
    >>> pathlib.Path(made.path).read_text(encoding="utf-8")
    'city\\nZürich\\n'
    >>> made.close()
    """

    def __init__(self, file: str, encoding: str) -> None:
        self._file: str | None = None
        if hasattr(os, "memfd_create"):
            self._handle = os.memfd_create("tacit")
            self.path = f"/proc/{os.getpid()}/fd/{self._handle}"
        else:
            self._handle, self.path = tempfile.mkstemp(
                prefix="tacit-", suffix=".csv"
            )  # only this user may read it
            self._file = self.path
        self._open = True
        try:
            with os.fdopen(os.dup(self._handle), "wb") as out:
                for part in _texts(file, encoding if encoding == "marked" else encoding_of(encoding)):
                    out.write(part.encode("utf-8", "replace"))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the copy."""
        if self._open:
            self._open = False
            os.close(self._handle)
            if self._file is not None:
                Path(self._file).unlink(missing_ok=True)

    def __del__(self) -> None:
        self.close()


def _texts(file: str, encoding: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8" if encoding in _UTF8 else encoding)(
        _ERRORS.get(encoding, "replace")
    )
    import gzip

    with gzip.open(file, "rb") if file.endswith(".gz") else open(file, "rb") as stream:
        first = True
        while block := stream.read(1 << 20):
            text = decoder.decode(block)
            yield text.removeprefix("\ufeff") if first else text
            first = False
        yield decoder.decode(b"", True)
