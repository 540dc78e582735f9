"""What is wrong with a job file, in the words of somebody who has to put it right: where, what may be written, and the likely slip.

What was written is not repeated, because an address may hold a password. Names of fields are, because mostly it is one that is misspelt.

>>> nearest("maxrows", ["max_rows", "max_groups", "person"])
'; did you mean max_rows?'
>>> in_words({"type": "less_than", "ctx": {"lt": 1.0}, "loc": ("publication", "confidence"), "msg": ""})
'must be less than 1; write 95 % as 0.95'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

#: What may be written where several kinds of thing may be: pydantic would name the first kind only.
_SEVERAL = {
    "keys": "must be private, a list of the keys to select privately, or for each key its list of values: {region: [north, south]}",
    "within": "must be a number, or one for each figure: {visits: 50, age: 2}",
    "node": "must be a table and its key, such as person.id, or the two ends of edges: [src, dst]",
    "edge": "must be the two columns that an edge lies between: [src, dst]",
    "bounds": "must be two numbers: [lower, upper]",
}


def nearest(name: str, known: Sequence[str]) -> str:
    """A question whether one of the known names was meant, or nothing."""
    found = get_close_matches(name.lower(), known, 1, 0.7)
    return f"; did you mean {found[0]}?" if found else ""


def unknown(name: str, parent: str, known: Sequence[str]) -> str:
    """A field that there is not. One with a space in it is the rest of a text that a comma cut off."""
    if any(sign in name for sign in " ()"):
        return "this is the rest of a text that has a comma; put the whole text in quotes, or on lines of its own after |"
    return f"there is no such field{nearest(name, known)}; {parent or 'a job'} has {', '.join(known)}"


def in_words(fault: Mapping[str, Any]) -> str:
    """One fault of pydantic's, as a sentence about the field."""
    location = fault.get("loc", ())
    fields = [part for part in location if isinstance(part, str)]
    if fault["type"] in _KINDS:
        several = next((_SEVERAL[part] for part in reversed(fields) if part in _SEVERAL), None)
        return several or _KINDS[fault["type"]]
    made = _LIMITS.get(fault["type"])
    if made is None:
        return in_job(str(fault["msg"]).removeprefix("Value error, "))
    # a member of a union comes after the field itself
    named = [part for part in reversed(fields) if "[" not in part]
    field = next((part for part in named if part in _SEVERAL), named[0] if named else "")
    return made(dict(fault.get("ctx", {}), field=field))


_KINDS = {
    "string_type": "must be a text; put it in quotes",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "tuple_type": "must be a list, such as [a, b]",
    "dict_type": "must have fields of its own, below it or in braces: {name: value}",
    "model_type": "must have fields of its own, below it or in braces: {name: value}",
    "finite_number": "must be a finite number",
    "none_required": "must be left out",
    "date_type": "must be a single value: a text, a number, a date, true or false",
}


def _at_most(context: Mapping[str, Any]) -> str:
    percent = "; write 95 % as 0.95" if context["field"] == "confidence" else ""
    return f"must be less than {context['lt']:g}{percent}"


def _choice(context: Mapping[str, Any]) -> str:
    known = str(context["expected"]).replace("'", "")
    return _SEVERAL["keys"] if context["field"] == "keys" else f"must be {known}"


def _short(context: Mapping[str, Any]) -> str:
    if context["field"] in ("bounds", "edge", "node"):
        return _SEVERAL[context["field"]]
    return f"must have at least {context['min_length']} entr{'y' if context['min_length'] == 1 else 'ies'}"


def _long(context: Mapping[str, Any]) -> str:
    return _SEVERAL.get(context["field"]) or f"must have at most {context['max_length']} entries"


_LIMITS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "less_than": _at_most,
    "greater_than": lambda context: f"must be greater than {context['gt']:g}",
    "greater_than_equal": lambda context: f"must be at least {context['ge']:g}",
    "literal_error": _choice,
    "too_short": _short,
    "too_long": _long,
    "string_too_short": lambda context: "must not be empty",
    "string_too_long": lambda context: f"must have at most {context['max_length']} characters",
}


def in_job(words: str) -> str:
    """What the planner says to somebody with a session, said to somebody with a job.

    >>> in_job("age has no bounds; declare them: bounds={'age': (0, 100)}")
    'age has no bounds; declare them: columns.age.bounds: [0, 100] (what is computed: bounds: {age: [0, 100]} in the output)'
    """
    for session, job in _SAID.items():
        words = re.sub(session, job, words)
    return words


_SAID = {
    r"bounds=\{'([^']*)': \(([^)]*)\)\}": r"columns.\1.bounds: [\2] (what is computed: bounds: {\1: [\2]} in the output)",
    r"the session has ": "the job has ",
    r"list them in the session": "list them under columns",
    r"Unit\('([^']*)', max_rows=(\d+)\)": r"unit: {person: \1, max_rows: \2}",
    r"Unit\.node\('([^']*)', max_rows=(\d+)\)": r"unit: {node: \1, max_rows: \2}",
    r"Unit\.node\(ends=\('(\w+)', '(\w+)'\), max_rows=(\d+), capped=True\)": r"unit: {node: [\1, \2], max_rows: \3, capped: true}",
    r"Unit\.edge\('(\w+)', '(\w+)', max_rows=(\d+)\)": r"unit: {edge: [\1, \2], max_rows: \3}",
    r"columns=\{'([^']*)': Column\(references='([^']*)'\)\}": r"columns: {\1: {type: ..., references: \2}}",
    r"window='(\w+)', when='(\w+)'": r"window: \1, when: \2",
    r", and loss=False saves it": ", and loss: false in the output saves it",
}
