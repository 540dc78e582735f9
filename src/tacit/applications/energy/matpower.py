"""MATPOWER's case format: the text of a `.m` file of format 2 as tables, and back.

Only plain tables are read. A case that computes something (many distribution cases convert their units at the end) is
refused at that line, because nothing here runs MATLAB. Errors name the file, the line and the column, never the value.

>>> tables, lines, title = parse("function mpc = one\\nmpc.baseMVA = 100;\\nmpc.bus = [1 3 5; 2 1 x];", "one.m")
Traceback (most recent call last):
tacit.applications.energy.errors.EnergyError: one.m, line 3: a row of mpc.bus has 3 numbers and needs 13; ...
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.applications.energy.files import unreadable

Floats = NDArray[np.float64]

#: The fewest columns of each table.
WIDTHS = {"bus": 13, "gen": 10, "branch": 11, "gencost": 5}

_ASSIGNED = re.compile(r"\s*mpc\.([A-Za-z][\w.]*)\s*=\s*(.*)", re.DOTALL)
_FUNCTION = re.compile(r"\s*function\s+(\w+)\s*=\s*(\w+)\s*;?\s*")
_LITERAL = re.compile(r"\s*('[^']*'|\"[^\"]*\"|[-+.\w]+)\s*;?\s*")
_SAVE = "run loadcase and savecase in MATPOWER, which writes plain tables"
#: Tables that change the model and are not read.
_UNKNOWN = ("dcline", "dclinecost", "A", "N", "if", "reserves")


def parse(text: str, name: str) -> tuple[dict[str, Any], dict[str, list[int]], str]:
    """The tables of a case, the lines of their rows, and the case's own name. What is no plain table is refused."""
    tables: dict[str, Any] = {}
    lines: dict[str, list[int]] = {}
    title = ""
    for number, statement in _statements(text, name):
        function, assigned = _FUNCTION.fullmatch(statement), _ASSIGNED.fullmatch(statement)
        if function is not None and function[1] == "mpc" and not title:
            title = function[2]
        elif function is not None or (assigned is None and statement.lstrip().startswith("function")):
            raise unreadable(name, number, "this is not a case of format 2 (function mpc = name)", _SAVE)
        elif statement.strip() in ("end", "return"):
            continue
        elif assigned is None:
            raise unreadable(name, number, "this statement computes something, and only tables are read", _SAVE)
        else:
            _assign(assigned[1], assigned[2], number, name, tables, lines)
    if str(tables.get("version", "2")) != "2":
        raise unreadable(name, 1, "the case is not of format 2", _SAVE)
    for key in ("baseMVA", "bus", "gen", "branch"):
        if key not in tables:
            raise unreadable(name, text.count("\n") + 1, f"mpc.{key} is missing", "a case has baseMVA, bus, gen, branch and gencost")
    if "gencost" not in tables:
        raise unreadable(name, text.count("\n") + 1, "mpc.gencost is missing", "add what each generator costs; a dispatch needs it")
    return tables, lines, title or Path(name).stem


def _statements(text: str, name: str) -> Iterable[tuple[int, str]]:
    """Statements with the number of their first line; comments are gone, and a table is one statement."""
    pending, began, inside, comment = "", 0, "", 0
    for number, raw in enumerate(text.splitlines(), start=1):
        bare = raw.strip()
        if bare == "%{":
            comment += 1
        if comment:
            comment -= bare == "%}"
            continue
        line = _without_comment(raw)
        if not pending and not line.strip():
            continue
        began = began if pending else number
        pending += line if line.endswith("...") else line + "\n"
        if line.endswith("..."):
            pending = pending[:-3] + " "
            continue
        opened = inside or ("[" if "[" in pending else "{" if "{" in pending else "")
        if opened and {"[": "]", "{": "}"}[opened] not in line:
            inside = opened
            continue
        yield began, pending.rstrip()
        pending, inside = "", ""
    if pending.strip():
        raise unreadable(name, began, "a table is opened here and never closed", "add ]; after its last row")


def _without_comment(line: str) -> str:
    if "%" not in line:
        return line.rstrip()
    if "'" not in line:
        return line.partition("%")[0].rstrip()
    quoted = False
    for place, letter in enumerate(line):
        if letter == "'":
            quoted = not quoted
        elif letter == "%" and not quoted:
            return line[:place].rstrip()
    return line.rstrip()


def _assign(
    key: str, value: str, number: int, name: str, tables: dict[str, Any], lines: dict[str, list[int]]
) -> None:
    """Read what is assigned to a field. Fields that the model does not need are left alone."""
    if key in tables:
        raise unreadable(name, number, f"mpc.{key} is assigned twice", "keep one of them")
    if key.split(".")[0] in _UNKNOWN and re.search(r"[\d']", value):
        raise unreadable(name, number, f"mpc.{key} changes the model and is not supported", "remove it, or model it by branches")
    if key == "version" or key == "baseMVA":
        literal = _LITERAL.fullmatch(value)
        if literal is None:
            raise unreadable(name, number, f"mpc.{key} is no single value", _SAVE)
        tables[key] = literal[1].strip("'\"")
        if key == "baseMVA":
            base = _float(tables[key])
            if base is None or not 0 < base < math.inf:
                raise unreadable(name, number, "mpc.baseMVA is no positive number", "write mpc.baseMVA = 100;")
            tables[key] = base
    elif key in WIDTHS:
        tables[key], lines[key] = _table(key, value, number, name)
    else:
        tables[key] = None


def _table(key: str, value: str, number: int, name: str) -> tuple[Floats, list[int]]:
    """The rows of a table of numbers, with their lines."""
    text = value.rstrip().removesuffix(";").rstrip()
    if not text.startswith("[") or not text.endswith("]") or "[" in text[1:]:
        raise unreadable(name, number, f"mpc.{key} is no plain table", _SAVE)
    rows: list[list[float]] = []
    found: list[int] = []
    for offset, line in enumerate(text[1:-1].split("\n")):
        for part in line.split(";"):
            tokens = part.replace(",", " ").split()
            if not tokens:
                continue
            row = [_float(token) for token in tokens]
            here = number + offset
            if None in row:
                place = row.index(None) + 1
                raise unreadable(name, here, f"column {place} of mpc.{key} is no plain number", "write the number itself")
            if len(row) < WIDTHS[key] or (rows and len(row) != len(rows[0])):
                needed = WIDTHS[key] if not rows else len(rows[0])
                reason = f"a row of mpc.{key} has {len(row)} numbers and needs {needed}"
                raise unreadable(name, here, reason, "fill in the missing columns; each row of a table has equally many")
            rows.append([x for x in row if x is not None])
            found.append(here)
    if not rows:
        raise unreadable(name, number, f"mpc.{key} has no rows", "a network needs buses, branches and generators")
    return np.array(rows), found


def _float(token: str) -> float | None:
    if "_" in token:
        return None
    try:
        return float(token)
    except ValueError:
        return None


# --- writing it -----------------------------------------------------------------------------------------------------


def case_text(tables: Mapping[str, Floats], name: str, base_mva: float) -> str:
    """A MATPOWER case of format 2; every number is written so that it reads back as the same one."""
    title = re.sub(r"\W", "_", name) or "network"
    title = title if title[0].isalpha() else f"case_{title}"
    parts = [f"function mpc = {title}", "mpc.version = '2';", f"mpc.baseMVA = {_number(base_mva)};"]
    for key in ("bus", "gen", "branch", "gencost"):
        rows = ["\t" + "\t".join(_number(x) for x in row) + ";" for row in tables[key]]
        parts += [f"mpc.{key} = [", *rows, "];"]
    return "\n".join(parts) + "\n"


def _number(value: Any) -> str:
    number = float(value)
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "Inf" if number > 0 else "-Inf"
    return str(int(number)) if number == int(number) and abs(number) < 2**53 else repr(number)
