"""The columns of a file as it is stored, beside what a job declares of them: the column half of the curator's check. NOT PRIVATE.

`StoredSource` counts for every declared column how many values are empty, are codes for missing, cannot be read, and lie in the categories
or bounds, and looks for what is likely behind that: another encoding, another way to write dates or numbers, codes that no one declared.
`tacit.release.checking` puts it together with people, caps and figures.
"""

from __future__ import annotations

import datetime
import math
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tacit.exact import exact
from tacit.release.errors import JobError
from tacit.release.job import Job
from tacit.release.job_parts import ColumnSpec
from tacit.release.sources import TYPES
from tacit.tables import ColumnReading, DuckDB, date_formats, number_marks, reading

#: How many odd values are shown of a column.
SHOWN = 5
#: Numbers that often stand for something that is missing, where they lie beyond the bounds.
CODES = frozenset(
    {
        -1,
        -2,
        -7,
        -8,
        -9,
        -77,
        -88,
        -99,
        -999,
        -9999,
        9,
        88,
        98,
        99,
        777,
        888,
        998,
        999,
        9998,
        9999,
        99999,
        999999,
        9999999,
    }
)
#: A code is told from a value beyond the bounds by how often it occurs.
OFTEN = 0.002
#: Dates as they are mostly written, to try on what cannot be read.
DATES = (
    "yyyy-mm-dd",
    "dd.mm.yyyy",
    "d.m.yy",
    "dd/mm/yyyy",
    "mm/dd/yyyy",
    "yyyy/mm/dd",
    "yyyymmdd",
    "dd-mm-yyyy",
    "dd.mm.yyyy HH:MM",
)
#: Dates that are mostly no dates.
PLACEHOLDERS = ("1900-01-01", "1970-01-01", "1899-12-30", "9999-12-31", "2099-12-31", "1901-01-01")


@dataclass(frozen=True)
class ColumnCheck:
    """One column: of all rows, how many are empty, are codes for missing, cannot be read, and lie in the
    categories or bounds.

    `odd` are the most frequent values that cannot be read, or are in no category or beyond the bounds, with
    their counts.
    """

    table: str
    name: str
    type: str
    rows: int
    empty: int
    coded: int
    unread: int
    inside: int | None
    below: int = 0
    above: int = 0
    not_utf8: int = 0
    odd: tuple[tuple[str, int], ...] = ()
    hints: tuple[str, ...] = ()

    @property
    def there(self) -> int:
        """Rows with a value that is no code."""
        return self.rows - self.empty - self.coded

    @property
    def read(self) -> float:
        """The share of values that are of the declared type."""
        return 1.0 if self.there == 0 else 1 - self.unread / self.there


def share_of(part: int, whole: int) -> str:
    return f"{part / whole:.2%}" if whole else "0 %"


class StoredSource:
    """One source as it is stored, and what its columns are read as."""

    def __init__(self, job: Job, name: str, engine: DuckDB) -> None:
        self.job, self.name, self.engine = job, name, engine
        self.stored = engine.kinds(name)
        self.specs = {n: c for n, c in job.columns_of(name).items() if n in self.stored}
        missing = [n for n in job.columns_of(name) if n not in self.stored]
        if missing:
            raise JobError(
                f"table {name!r} has no such column; the job and the data have drifted apart",
                place=f"columns.{missing[0]}",
            )
        self.plain = job.encoding_of(name) == "utf-8"
        bad = (
            " OR ".join(self._marks(n) for n, kind in self.stored.items() if kind == "text")
            if self.plain
            else ""
        )
        counted = f"COUNT(*) FILTER ({bad})" if bad else "0"
        self.rows, self.dropped = (
            int(n) for n in self.ask(f"SELECT COUNT(*), {counted} FROM {quoted(name)}")[0]
        )

    def ask(self, text: str) -> list[tuple[Any, ...]]:
        return self.engine.looked_at(text)

    def _marks(self, column: str) -> str:
        return f"COALESCE(regexp_matches({quoted(column)}, '[{chr(reading.MARKED)}-{chr(reading.MARKED + 255)}]'), FALSE)"

    def columns(self) -> list[ColumnCheck]:
        """Every declared column, counted in one pass."""
        parts = {name: self._counts(name, spec) for name, spec in self.specs.items()}
        chosen = ", ".join(
            f"COUNT(*) FILTER (WHERE {condition})"
            for counts in parts.values()
            for condition in counts.values()
        )
        numbers = iter(self.ask(f"SELECT {chosen} FROM {quoted(self.name)}")[0]) if chosen else iter(())
        found = []
        for name, counts in parts.items():
            told = {what: int(next(numbers)) for what in counts}
            found.append(self._column(name, self.specs[name], told))
        return found

    def _values(self, name: str, spec: ColumnSpec) -> tuple[str, str, str, ColumnReading, bool]:
        """The condition that something is there, that it is a code, the value, how it is read, and whether it
        is stored as a text.
        """
        column, text = quoted(name), self.stored[name] == "text"
        reading = spec.reading(TYPES[spec.type])
        there = f"({column} IS NOT NULL{f' AND TRIM({column}) <> {_text()}' if text else ''})"
        value, parsed = reading.value(column, text=text), reading.parsed(column, text=text)
        codes = [code for code in reading.missing if isinstance(code, str)]
        listed = (
            f" OR TRIM(CAST({column} AS VARCHAR)) IN ({', '.join(_text(code) for code in codes)})"
            if codes
            else ""
        )
        coded = f"({there} AND {value} IS NULL AND ({parsed} IS NOT NULL{listed}))"
        return there, coded, value, reading, text

    def _counts(self, name: str, spec: ColumnSpec) -> dict[str, str]:
        there, coded, value, _, text = self._values(name, spec)
        counts = {
            "empty": f"NOT {there}",
            "coded": coded,
            "unread": f"{there} AND {value} IS NULL AND NOT {coded}",
        }
        if spec.bounds is not None:
            low, high = (float(exact("bound", end)) for end in spec.bounds)
            counts |= {"below": f"{value} < {low!r}", "above": f"{value} > {high!r}"}
        if spec.categories is not None:
            counts["inside"] = f"{value} IN ({_listed(spec)})"
        if text and self.plain:
            counts["not_utf8"] = self._marks(name)
        return counts

    def _column(self, name: str, spec: ColumnSpec, told: dict[str, int]) -> ColumnCheck:
        there = self.rows - told["empty"] - told["coded"] - told["unread"]
        inside = told.get("inside")
        if inside is None and spec.bounds is not None:
            inside = there - told["below"] - told["above"]
        odd = self._odd(name, spec, told)
        hints = [
            *self._formats(name, spec, told),
            *self._codes(spec, odd),
            *self._alike(spec, odd),
            *self._dates(name, spec, there),
        ]
        if told.get("not_utf8"):
            hints.append(
                f"{share_of(told['not_utf8'], self.rows)} of its texts are not UTF-8; write encoding: mixed, "
                "latin-1 or cp1252"
            )
        if spec.type == "text":
            garbled = self.ask(
                f"SELECT COUNT(*) FROM {quoted(self.name)} WHERE regexp_matches({quoted(name)}, '{_GARBLED}')"
            )[0][0]
            if garbled:
                hints.append(
                    f"{share_of(int(garbled), self.rows)} of its texts look like UTF-8 that was read as "
                    "Latin letters; mend the file"
                )
        return ColumnCheck(
            self.name, name, spec.type, self.rows, told["empty"], told["coded"], told["unread"], inside, told.get("below", 0),
            told.get("above", 0), told.get("not_utf8", 0), odd, tuple(hints),
        )  # fmt: skip

    def _odd(self, name: str, spec: ColumnSpec, told: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
        """The most frequent of what does not fit."""
        there, coded, value, _, _ = self._values(name, spec)
        wrong = [f"({there} AND {value} IS NULL AND NOT {coded})"] if told["unread"] else []
        if spec.bounds is not None and (told["below"] or told["above"]):
            low, high = (float(exact("bound", end)) for end in spec.bounds)
            wrong.append(f"{value} < {low!r} OR {value} > {high!r}")
        if spec.categories is not None:
            wrong.append(f"({value} IS NOT NULL AND {value} NOT IN ({_listed(spec)}))")
        if not wrong:
            return ()
        shown = f"CAST({quoted(name)} AS VARCHAR)"
        text = (
            f"SELECT {shown}, COUNT(*) FROM {quoted(self.name)} WHERE {' OR '.join(wrong)} GROUP BY 1 "
            f"ORDER BY 2 DESC, 1 LIMIT {SHOWN}"
        )
        return tuple((reading.marked(str(found))[:60], int(number)) for found, number in self.ask(text))

    def _formats(self, name: str, spec: ColumnSpec, told: Mapping[str, int]) -> Iterator[str]:
        """A way to write dates or numbers that reads what the declared one does not."""
        if not told["unread"] or self.stored[name] != "text" or spec.type in ("text", "boolean"):
            return
        there, coded, value, _, _ = self._values(name, spec)
        column, kind = quoted(name), TYPES[spec.type]
        dated = spec.type in ("date", "timestamp")
        ways = {way: ColumnReading(kind, formats=date_formats(way)) for way in DATES} if dated else {
            way: ColumnReading(kind, marks=number_marks(way)) for way in reading.NUMBER_FORMATS
        }  # fmt: skip
        tried = ", ".join(f"COUNT({reading.parsed(column)})" for reading in ways.values())
        text = f"SELECT {tried} FROM {quoted(self.name)} WHERE {there} AND {value} IS NULL AND NOT {coded}"
        best, way = max(zip((int(n) for n in self.ask(text)[0]), ways, strict=True), key=lambda pair: pair[0])
        share = (
            f"{told['unread'] / max(1, self.rows - told['empty']):.1%} of what is there is not read as "
            f"a {spec.type}"
        )
        if best < told["unread"] / 2:
            yield f"{share}, and counts as missing"
        elif spec.format is None and told["unread"] == self.rows - told["empty"] - told["coded"]:
            yield f"{share}; it is written as {way}: write format: {way}"
        else:
            both = f"[{', '.join([*_said(spec.format, dated), way])}]" if dated else way
            yield f"{share}, mostly because it is written as {way}: write format: {both}"

    def _codes(self, spec: ColumnSpec, odd: Sequence[tuple[str, int]]) -> Iterator[str]:
        """Numbers beyond the bounds that occur so often that they are codes."""
        if spec.bounds is None:
            return
        codes = []
        for text, number in odd:
            value = _number(text)
            if (
                value is not None
                and value == int(value)
                and number > OFTEN * self.rows
                and int(value) in CODES
            ):
                codes.append(int(value))
        if codes:
            listed = ", ".join(
                map(str, sorted({*codes, *(c for c in spec.missing or () if isinstance(c, int))}))
            )
            yield (
                (
                    f"{', '.join(map(str, codes))} {'is' if len(codes) == 1 else 'are'} beyond the bounds and "
                    "frequent, so probably no value "
                )
                + (
                    f"but a code for what is missing: write missing: [{listed}]; as it is, it is clamped "
                    "to a bound and counted"
                )
            )

    def _alike(self, spec: ColumnSpec, odd: Sequence[tuple[str, int]]) -> Iterator[str]:
        """Undeclared texts that are a declared one in other letters, and undeclared ones that many rows have."""
        if spec.categories is None or spec.type != "text":
            return
        known = {_folded(str(one)): str(one) for one in spec.categories if one is not None}
        for text, _ in odd:
            near = known.get(_folded(text))
            if near is not None:
                yield (
                    f"{text!r} differs from {near!r} only in capitals, accents or spaces; mend the file, "
                    "or TRIM and LOWER it in the question"
                )
        rest = sum(number for text, number in odd if _folded(text) not in known)
        if rest and spec.other is None:
            yield (
                f"at least {share_of(rest, self.rows)} of the rows have a value that is not declared, and "
                "are in no group; other: collects them"
            )

    def _dates(self, name: str, spec: ColumnSpec, there: int) -> Iterator[str]:
        """Dates that are mostly none, and dates in the future."""
        if spec.type not in ("date", "timestamp") or not there:
            return
        _, _, value, _, _ = self._values(name, spec)
        listed = ", ".join(f"DATE '{day}'" for day in PLACEHOLDERS)
        later = (datetime.datetime.now(datetime.UTC).date() + datetime.timedelta(days=366)).isoformat()
        day = f"CAST({value} AS DATE)"
        held, ahead = (
            int(n) for n in self.ask(
                f"SELECT COUNT(*) FILTER (WHERE {day} IN ({listed})), COUNT(*) FILTER (WHERE {day} > DATE "
                f"'{later}') FROM {quoted(self.name)}"
            )[0]
        )  # fmt: skip
        if held > OFTEN * self.rows:
            yield (
                f"{share_of(held, self.rows)} are dates that mostly stand for none, such as 1900-01-01 or "
                "9999-12-31; list them under missing"
            )
        elif ahead > OFTEN * self.rows:
            yield (
                f"{share_of(ahead, self.rows)} lie more than a year ahead; look whether day, month and "
                "year are in this order"
            )


#: What UTF-8 looks like that was read as Latin letters.
_GARBLED = "[ÃÂ][\u0080-\u00bf]|â€|\ufffd"


def quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _text(value: str = "") -> str:
    return "'" + value.replace("'", "''") + "'"


def _listed(spec: ColumnSpec) -> str:
    return ", ".join(reading.literal(value) for value in spec.categories or () if value is not None) or "NULL"


def _said(given: str | tuple[str, ...] | None, dated: bool) -> list[str]:
    if given is None:
        return ["yyyy-mm-dd"] if dated else []
    return [given] if isinstance(given, str) else list(given)


def _number(text: str) -> float | None:
    try:
        value = float(text.replace(",", "."))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _folded(text: str) -> str:
    """A text without capitals, accents and spaces at its ends."""
    plain = unicodedata.normalize("NFKD", text.strip().casefold())
    return "".join(c for c in plain if not unicodedata.combining(c))
