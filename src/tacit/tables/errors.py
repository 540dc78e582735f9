"""Errors of the tables package, and the wording of its notes.

They name columns, parameters and fixes: never a value from the data.

>>> str(Refused(code="table-unknown", table="visit", tables=("visits", "codes")))
'there is no table visit; the session has visits, codes'
"""

from __future__ import annotations

from collections.abc import Mapping

from tacit.accounting import Refusal

#: Refusals and notes, worded for a session in Python. `tacit.release.faults` words them for job files.
WORDS: Mapping[str, str] = {
    "argument-unknown": "{node} with {argument} is not understood; write it in another way, or without it",
    "bounds-missing": (
        "{column} has no bounds, so one row could move its sum by any amount; declare them: "
        "bounds={{{column!r}: (0, 100)}}"
    ),
    "cap-missing": (
        "a person may own any number of rows, so a cap is needed: max_rows=12, or max_groups=4 with "
        "rows_per_group=3; there is no default because what is cut off is your decision"
    ),
    "cap-not-enforceable": (
        "an edge belongs to both of its ends, and no cap on the edges of a node can be enforced: when a hub "
        "leaves, each of its neighbours has room for another edge. Declare the greatest degree that is known "
        "to hold, Unit.node(ends=('src', 'dst'), max_rows=50, capped=True); or protect edges, "
        "Unit.edge('src', 'dst', max_rows=1); or one end, Unit('src', max_rows=12)"
    ),
    "column-may-fail": (
        "{column} is computed as its rows are read, by something that may fail on one of them, and whether a paid statement fails would "
        "tell of rows; store it, as a column of a table or of a materialised view, or compute it in the question, where nothing can fail"
    ),
    "columns-unknown": "the columns of a joined table are not known; list them in the session",
    "digits-too-many": (
        "decimals of more than 38 digits together cannot be compared, added, multiplied or divided on Spark without leaving out some; "
        "say CAST(... AS DOUBLE) of one of them, or CAST it to a decimal with fewer digits"
    ),
    "foreign-key-missing": (
        "no declared foreign key leads from {table} to {key}, so its rows have no owner; declare it: "
        "columns={{'{table}.{person}': Column(references={key!r})}}, or declare {table} public"
    ),
    "groups-too-many": (
        "there would be {groups} groups, more than {most}; list the combinations you want: keys=[(...), ...]"
    ),
    "join-needs-person": (
        "private tables can be joined only on a person, and the unit has none; declare Unit('patient_id', "
        "max_rows=12), or Unit.node('person.id', max_rows=12) with foreign keys"
    ),
    "keys-need-delta": (
        "the values of {keys} are in the data, so listing those that occur would tell who is there; declare "
        "them: keys={{{keys}: [...]}}, or use a budget with epsilon and delta, and they are selected "
        "privately"
    ),
    "keys-need-person": (
        "the values of {keys} are in the data; declare them: keys={{{keys}: [...]}}; selection needs a "
        "person as unit"
    ),
    "loss-unknown": (
        "rows lost to the caps: not known, because its noise ({noise:.3g} rows, for {share:.2%} of the "
        "budget) is as large as what it is about; a greater epsilon tells it, and loss=False saves it"
    ),
    "node-unknown": "{node} is not understood in a question; write it in another way",
    "owners-several": (
        "a row of {table} leads to {key} in {ways} ways ({starts}), so it belongs to several at once, and no "
        "cap on one of them bounds what the others' coming and going changes; declare only the way that says "
        "who is protected, or where the greatest number of rows of one node is known: Unit.node(ends=('src', "
        "'dst'), max_rows=50, capped=True)"
    ),
    "person-needed": "{what} needs a unit with a person: Unit('patient_id', max_rows=12)",
    "rows-may-fail": (
        "the rows of {table} are {how} while a paid statement runs, and whether that fails on one of them would tell of rows; "
        "store them, as a table or a materialised view, and ask about that"
    ),
    "statement-failed": "{engine} could not run the statement; session.explain(...) shows it",
    "sub-query-not-person": (
        "EXISTS, IN and sub-queries in a condition are answered where they are about the person, {person}, on both sides; "
        "along a foreign key write a JOIN, which keeps rows of one person alone"
    ),
    "table-unknown": "there is no table {table}; the session has {tables}",
    "text-listed": (
        "{column} is of an enumeration, and {what} would follow the order of its list, not that of the letters; say "
        "CAST({column} AS VARCHAR) for the letters, or CASE {column} WHEN ... THEN 1 ... END for the list"
    ),
    "text-not-number": (
        "{what} needs numbers, and {column} is a text, as every column of a CSV file is until its type is declared; write "
        "CAST({written} AS DOUBLE), or open the session with types={{'{written}': 'DOUBLE'}}"
    ),
    "text-padded": (
        "{column} is a char(n), which is kept filled up with blanks: {what} sees them, and other functions do not; "
        "say CAST({column} AS VARCHAR), which has none at its end"
    ),
    "type-unsupported": (
        "{column} is of a type ({type}) that questions cannot use, because engines disagree about it, or fail on some "
        "of its values; ask about a table that has what you need of it as a number, a text or a date"
    ),
    "union-too-large": "a union may have at most {most} parts, with those of the unions in it; ask about fewer at once",
    "view-may-fail": (
        "view {table} computes which rows there are by something that may fail on one of them, or that is not known here (a cast, "
        "arithmetic, a window function, LIMIT, a sub-query in a condition), and whether a paid statement fails would tell of rows; "
        "store its rows, as a table or a materialised view (a frame of Spark by localCheckpoint), "
        "or ask about the table behind it: what a question computes cannot fail"
    ),
    "view-reads-files": (
        "view {table} reads a file, a function or another database, which has no budget under this name; name what "
        "it reads as a source of its own, or make a table of it"
    ),
    "window-incomplete": (
        "window and when belong together: window='month', when='visit_date' is a person within a month"
    ),
}


class TableError(Refusal, ValueError):
    """A question, a unit or a source cannot be used as given."""

    words = WORDS


class Refused(TableError):
    """The effect of one unit on the answer cannot be bounded; the message says why and what to declare."""


class EngineError(Refusal, RuntimeError):
    """The engine could not run a statement. The engine's own words are withheld: they may quote the data."""

    words = WORDS
