"""`tacit init`: a job to fill in, written from a table's schema.

It reads the names and types of columns, and no row. What a person must decide is written as `???`, and no
command accepts a job that still has one.

>>> print(text("visits.parquet", {"patient_id": "integer", "age": "integer"}).splitlines()[5])
title: ???
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tacit.cli.options import OptionError, shown

#: Files that are read as CSV, by the end of their names; tests hold it to be the engine's own list, which takes long to import.
CSV = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz")

BLANK = "???"
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"}
_LONGEST_LINE = 1_000_000
_PEOPLE = r"client|customer|employee|household|member|patient|person|pupil|student|subject|user"
_ID = re.compile(rf"(?:{_PEOPLE})(?:id)?", re.IGNORECASE)


def columns(source: str, table: str | None) -> dict[str, str]:
    """Column names and the job's words for their types, from a file's schema or a database's catalogue; no row is read."""
    if "://" in source:
        return _catalogue(source, table)
    path = Path(source)
    suffix = path.suffix.lower()
    if not path.is_file():
        raise OptionError(f"{shown(source)}: there is no such file; give a .parquet, .arrow or .csv file, or a database URL with --table")
    if source.lower().endswith(CSV):
        return dict.fromkeys(_header(path), BLANK)
    if suffix not in (".parquet", ".arrow", ".feather"):
        ends = ", ".join((".parquet", ".arrow", ".feather", *CSV))
        raise OptionError(f"{shown(source)}: a schema is read from {ends}, or from a database URL with --table")
    found: Any = None
    try:
        if suffix == ".parquet":
            import pyarrow.parquet as pq

            found = pq.read_schema(path)
        else:
            import pyarrow as pa

            with pa.memory_map(str(path)) as stream:
                found = pa.ipc.open_file(stream).schema
    except Exception:
        found = None
    if found is None:
        raise OptionError(f"{shown(source)}: the file's schema cannot be read; is it {suffix[1:]}?")
    return {field.name: _kind(str(field.type), _ARROW) for field in found}


def tells_apart(column: str) -> bool:
    """Whether a column is called as those are that tell people apart: by an id among its words, or by one word for a person at the end.

    >>> [name for name in ("patient_id", "idNum", "PatientID", "userid", "customer", "personSearch", "paid", "grid") if tells_apart(name)]
    ['patient_id', 'idNum', 'PatientID', 'userid', 'customer']
    """
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", column)
    return any(word.lower() == "id" for word in words) or bool(words and re.fullmatch(_ID, words[-1]))


def _between(source: str, delimiter: str) -> str:
    return "" if delimiter == "," or ".tsv" in source.lower() else f", delimiter: {_text(delimiter)}"


def text(source: str, found: Mapping[str, str], *, table: str | None = None, delimiter: str = ",") -> str:
    """The job as YAML, commented."""
    called = re.sub(r"[^A-Za-z0-9_]", "_", table or Path(source).name.partition(".")[0]) or "data"
    if not _PLAIN.fullmatch(called):
        called = f"t_{called}"
    where = (
        f"{{url: {_text(source)}, table: {_text(table or '')}}}"
        if "://" in source
        else f"{{path: {_text(source)}{_between(source, delimiter)}}}"
    )
    likely = [column for column in found if tells_apart(column)]
    people = ", ".join(column for column in likely if _PLAIN.fullmatch(column))
    lines = [
        "# A release job. Every ??? is a decision that only you can take; commands refuse the job until none is left.",
        "# Nothing here was read from rows: names and types come from the schema. `tacit plan` shows prices and errors before you pay.",
        "version: 1",
        "",
        "# What readers see at the top of the report, and why the figures are published, in plain words.",
        f"title: {BLANK}",
        f"purpose: {BLANK}",
        "",
        "sources:",
        f"  {_word(called)}: {where}",
        "",
        "# Whom the guarantee protects: the column that tells people apart" + (f" (perhaps {people})." if people else "."),
        "# max_rows: of a person with more rows, so many are kept at random. Choose it from knowledge of the subject, not from the data.",
        "# adjacency: add-remove also protects the fact that a person is there; replace-one takes the number of people to be public.",
        "# In place of person and max_rows: row: true, where no person has two rows; edge: [src, dst] or "
        "node: [src, dst] for a graph;",
        "# node: person.id for several tables with foreign keys. Beside them: window: month and when: <date column>, with period: 2026-03.",
        "unit:",
        f"  person: {BLANK}",
        f"  max_rows: {BLANK}",
        "  adjacency: add-remove",
        "",
        "# For all outputs together. epsilon around 1 is a strong promise, above 10 means little; delta well below 1 / number of people.",
        "budget:",
        f"  epsilon: {BLANK}",
        f"  delta: {BLANK}",
        "",
        "# Sizes that are known in public, for predictions and warnings only; take the # away and fill them in.",
        "# expected: {people: 10000, rows: 40000}",
        "",
        "# For a release that is made again every month, about the same people, with {period} in path, title and folder (in quotes):",
        "# series: {name: visits, every: month, budget: {epsilon: 12, delta: 1e-5}, per: total}",
        "",
        "# Six questions to answer first, each in words and with its decisions; docs/jobs.md has the form. Needed before a training:",
        "# preparation: {unit: ..., complexity: ..., attack_model: ..., environment: ..., data_window: ..., accuracy_needed: ...}",
        "",
        "# What is public about the columns, from a code book. Numbers need bounds: [low, high] before they are summed or averaged;",
        "# texts need categories: [a, b] before they are grouped by, or keys: private in the output. Delete columns that you do not use.",
        "# Files are rarely clean: encoding: mixed (or latin-1), format: dd.mm.yyyy or 1.234,56, missing: [-9, 999], other: Other.",
        "# Then: tacit check-data tells what does not fit (NOT PRIVATE, for your eyes alone).",
        "columns:",
        *(f"  {_word(column)}: {{type: {_word(kind)}{_whose(column, called)}}}{_hint(kind)}" for column, kind in found.items()),
        "",
        "# One table each: a question in SQL and its weight, or in place of the weight accuracy: {within: 50, confidence: 0.95}.",
        "outputs:",
        "  - name: overall",
        f"    sql: SELECT COUNT(*) AS n FROM {called}",
        "    weight: 1",
        *_grouped(called, {column: kind for column, kind in found.items() if column not in likely}),
        "",
        "publication:",
        "  folder: release",
        "  formats: [csv, parquet]",
        "  confidence: 0.95",
        "",
    ]
    return "\n".join(lines)


def _grouped(called: str, found: Mapping[str, str]) -> list[str]:
    """A second output as a comment, with the table's own columns, where there are some to group by and to average."""
    key = next((name for name, kind in found.items() if kind == "text" and _PLAIN.fullmatch(name)), None)
    value = next((name for name, kind in found.items() if kind in ("integer", "number", "decimal") and _PLAIN.fullmatch(name)), None)
    if key is None or value is None:
        return []
    return [
        f"  # - name: by_{key}",
        f"  #   sql: SELECT {key}, COUNT(*) AS n, AVG({value}) AS mean FROM {called} GROUP BY {key}",
        "  #   weight: 2",
    ]


def _catalogue(url: str, table: str | None) -> dict[str, str]:
    if table is None:
        raise OptionError("--table is missing; a database URL needs the name of a table")
    import sqlalchemy as sa

    found: list[Any] | None = None
    try:
        engine = sa.create_engine(url)
        try:
            found = list(sa.inspect(engine).get_columns(table))
        finally:
            engine.dispose()
    except Exception:
        found = None
    if not found:
        # the driver's own words could repeat the URL, and with it a password
        raise OptionError("the database does not show such a table; check the URL and --table, and that its driver is installed")
    return {str(column["name"]): _kind(str(column["type"]).upper(), _SQL) for column in found}


def delimiter_of(source: str) -> str:
    """What stands between the names in the first line of a CSV file: a comma, or what else there is in place of one."""
    if not source.lower().endswith(CSV) or not Path(source).is_file():
        return ","
    if ".tsv" in source.lower():
        return "\t"
    line = _first_line(Path(source))
    return next((mark for mark in (",", ";", "|", "\t") if mark in line), ",")


def _first_line(path: Path) -> str:
    import gzip

    try:
        with gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb") as stream:
            return stream.readline(_LONGEST_LINE).decode("utf-8-sig")
    except (OSError, ValueError, EOFError):
        return ""


def _header(path: Path) -> list[str]:
    """The names in the first line. A line that holds numbers is a row, not names, and is not shown."""
    import csv

    try:
        names = next(csv.reader([_first_line(path)], delimiter=delimiter_of(str(path))), [])
    except csv.Error:
        names = []
    if not names or len(set(names)) < len(names) or any(not name.strip() or re.fullmatch(r"[-+.\d\s:eE/]+", name) for name in names):
        raise OptionError(
            f"{shown(str(path))}: the first line must hold the names of the columns, each once, in UTF-8; it does not seem to"
        )
    return names


_ARROW = {
    **{"int": "integer", "uint": "integer", "float": "number", "double": "number", "halffloat": "number", "decimal": "decimal"},
    **{"bool": "boolean", "date": "date", "timestamp": "timestamp", "string": "text", "large_string": "text"},
    **{"dictionary<values=string": "text", "dictionary<values=large_string": "text"},
}
_SQL = {
    **{"BIGINT": "integer", "INT": "integer", "SMALLINT": "integer", "TINYINT": "integer", "DOUBLE": "number", "FLOAT": "number"},
    **{"REAL": "number", "NUMERIC": "decimal", "DECIMAL": "decimal", "BOOL": "boolean", "DATETIME": "timestamp", "TIMESTAMP": "timestamp"},
    **{"DATE": "date", "VARCHAR": "text", "TEXT": "text", "CHAR": "text", "UUID": "text"},
}


def _kind(name: str, known: Mapping[str, str]) -> str:
    return next((word for start, word in known.items() if name.startswith(start)), BLANK)


def _whose(column: str, called: str) -> str:
    """A dot in a name would be taken for the end of a table's, so the table is said."""
    return f", table: {_word(called)}" if "." in column else ""


def _hint(kind: str) -> str:
    if kind in ("integer", "number", "decimal"):
        return "  # bounds: [low, high]?"
    if kind == "text":
        return "  # categories: [...]?"
    return "  # integer, number, decimal, text, boolean, date or timestamp" if kind == BLANK else ""


def _word(name: str) -> str:
    return name if _PLAIN.fullmatch(name) and name.lower() not in _WORDS else _text(name)


def _text(value: str) -> str:
    """A text in quotes, whatever is in it."""
    import yaml

    return str(yaml.safe_dump(value, default_style='"', width=10**9, allow_unicode=True)).strip()
