"""Errors of the tables package. They name columns, parameters and fixes: never a value from the data."""

from __future__ import annotations


class TableError(ValueError):
    """A question, a unit or a source cannot be used as given."""


class Refused(TableError):
    """The effect of one unit on the answer cannot be bounded; the message says why and what to declare."""


class EngineError(RuntimeError):
    """The engine could not run a statement. The engine's own words are withheld: they may quote the data."""
