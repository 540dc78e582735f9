"""What is wrong with a job file, in the words of the file: the place, what may be written there, the likely slip.

A fault that pydantic finds is worded by its type, a refusal of another room by its code. What was written is not
repeated, because an address may hold a password. Names of fields are repeated, because most often one of them is
misspelt.

>>> nearest("maxrows", ["max_rows", "max_groups", "person"])
'; did you mean max_rows?'
>>> in_words({"type": "less_than", "ctx": {"lt": 1.0}, "loc": ("publication", "confidence"), "msg": ""})
'must be less than 1; write 95 % as 0.95'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from tacit.accounting import Refusal
from tacit.release.errors import JobError
from tacit.tables import TableError

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
        error = fault.get("ctx", {}).get("error")  # pydantic keeps what a validator raised
        return error.said(WORDS) if isinstance(error, Refusal) else str(error or fault["msg"])
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


def in_job(error: Refusal, place: str = "") -> JobError:
    """What another room refuses, as an error of the job: in the job's words, and with its place.

    >>> from tacit.tables import TableError
    >>> unknown = TableError(code="table-unknown", table="visit", tables=("visits", "codes"))
    >>> str(in_job(unknown, "outputs[0].sql"))
    'outputs[0].sql: there is no table visit; the job has visits, codes'
    """
    return JobError(error.said(WORDS), place=place).coded_as(error)


#: What is said of a question's SQL reads the same in a job as in Python.
_ALIKE = (
    "argument-unknown", "digits-too-many", "node-unknown", "sub-query-not-person", "text-listed", "text-padded", "union-too-large",
)  # fmt: skip
#: The refusals and notes of other rooms, in the words of a job file. Other codes read the same everywhere.
WORDS: Mapping[str, str] = {
    **{code: TableError.words[code] for code in _ALIKE},
    "bounds-missing": (
        "{column} has no bounds, so one row could move its sum by any amount; declare them: "
        "columns.{column}.bounds: [0, 100] (what is computed: bounds: {{{column}: [0, 100]}} in the output)"
    ),
    "cap-missing": (
        "a person may own any number of rows, so a cap is needed: max_rows: 12, or max_groups: 4 with "
        "rows_per_group: 3; there is no default because what is cut off is your decision"
    ),
    "cap-not-enforceable": (
        "an edge belongs to both of its ends, and no cap on the edges of a node can be enforced: when a hub "
        "leaves, each of its neighbours has room for another edge. Declare the greatest degree that is known "
        "to hold, unit: {{node: [src, dst], max_rows: 50, capped: true}}; or protect edges, unit: {{edge: "
        "[src, dst], max_rows: 1}}; or one end, unit: {{person: src, max_rows: 12}}"
    ),
    "columns-unknown": "the columns of a joined table are not known; list them under columns",
    "foreign-key-missing": (
        "no declared foreign key leads from {table} to {key}, so its rows have no owner; declare it: "
        "columns: {{{table}.{person}: {{type: ..., references: {key}}}}}, or declare {table} public"
    ),
    "groups-too-many": (
        "there would be {groups} groups, more than {most}; list fewer values, or write keys: private"
    ),
    "join-needs-person": (
        "private tables can be joined only on a person, and the unit has none; declare unit: {{person: "
        "patient_id, max_rows: 12}}, or unit: {{node: person.id, max_rows: 12}} with foreign keys"
    ),
    "keys-need-delta": (
        "the values of {keys} are in the data, so listing those that occur would tell who is there; list "
        "them under categories or keys, or use a budget with epsilon and delta, and they are selected "
        "privately"
    ),
    "keys-need-person": (
        "the values of {keys} are in the data; list them under categories or keys; selection needs a person "
        "as unit"
    ),
    "text-not-number": (
        "{what} needs numbers, and {column} is a text; write CAST({written} AS DOUBLE), or declare columns.{written}.type: number"
    ),
    "loss-unknown": (
        "rows lost to the caps: not known, because its noise ({noise:.3g} rows, for {share:.2%} of the "
        "budget) is as large as what it is about; a greater epsilon tells it, and loss: false in the output "
        "saves it"
    ),
    "owners-several": (
        "a row of {table} leads to {key} in {ways} ways ({starts}), so it belongs to several at once, and no "
        "cap on one of them bounds what the others' coming and going changes; declare only the way that says "
        "who is protected, or where the greatest number of rows of one node is known: unit: {{node: [src, "
        "dst], max_rows: 50, capped: true}}"
    ),
    "person-needed": "{what} needs a unit with a person: unit: {{person: patient_id, max_rows: 12}}",
    "price-not-gaussian": (
        "the account's budget of mu admits only Gaussian noise, and {event} is none; use an account whose "
        "budget is {{rho: ...}} or {{epsilon: ..., delta: ...}}"
    ),
    "price-not-pure": (
        "the account's budget of pure epsilon admits only a finite epsilon at delta = 0 ({reason}); plan the "
        "job in pure epsilon (delta: 0), or use an account whose budget is {{epsilon: ..., delta: ...}} or "
        "{{rho: ...}}"
    ),
    "account-closed": "account {account!r} was closed by an officer: {reason}; the job cannot spend from it",
    "analyst-barred": "analyst {analyst!r} is {state} by an officer's decision: {reason}",
    "analyst-not-listed": "account {account!r} admits the analysts {analysts}, and {analyst} is none of them",
    "purpose-missing": "account {account!r} asks what each spend is for; the job's purpose must be one of: {purposes}",
    "purpose-not-listed": (
        "account {account!r} admits the purposes {purposes}, and the job's, {purpose!r}, is none of them (details go behind a colon)"
    ),
    "purpose-vague": (
        "account {account!r} asks what each spend is for, and the job's purpose, {purpose!r}, does not say it; name the "
        "product and its reader"
    ),
    "table-unknown": "there is no table {table}; the job has {tables}",
    "terms-fixed": (
        "{term}: {name!r} is account {account!r}, which was opened with {term}={opened!r}; terms never "
        "change. An earlier job opened the account of these data; declare account: {{name: ..., budget: "
        "...}} with its terms, and this job's own budget is taken from it"
    ),
    "rows-may-fail": (
        "the rows of {table} are {how} while a paid statement runs, and whether that fails on one of them would tell of rows; "
        "store them, as a table or a materialised view, and name that"
    ),
    "column-may-fail": (
        "{column} is computed as its rows are read, by something that may fail on one of them, and whether a paid statement fails would "
        "tell of rows; store it, as a column of a table or of a materialised view, or compute it in the output, where nothing can fail"
    ),
    "type-unsupported": (
        "{column} is of a type ({type}) that questions cannot use, because engines disagree about it, or fail on some "
        "of its values; name a table that has what you need of it as a number, a text or a date"
    ),
    "view-may-fail": (
        "view {table} computes which rows there are by something that may fail on one of them, or that is not known here (a cast, "
        "arithmetic, a window function, LIMIT, a sub-query in a condition), and whether a paid statement fails would tell of rows; "
        "store its rows, as a table or a materialised view (a frame of Spark by localCheckpoint), "
        "or name the table behind it: what an output computes cannot fail"
    ),
    "view-reads-files": (
        "view {table} reads a file, a function or another database, which has no budget under this name; name what "
        "it reads under sources, or make a table of it"
    ),
    "window-incomplete": (
        "window and when belong together: window: month, when: visit_date is a person within a month"
    ),
}
