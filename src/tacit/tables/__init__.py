"""Private questions about tables, in SQL or Python.

A `Session` answers questions one at a time and pays for each from an account; a `Desk` plans and answers without paying, for
release jobs. Both need a `Unit`: whom the guarantee protects, and how much one of them may contribute.
"""

# Imports inside functions: PostgreSQL, Spark and polars are extras, and the cold start of a question is
# measured.

from typing import TYPE_CHECKING

from tacit.lazy import lazily
from tacit.tables import reading
from tacit.tables.answer import MARK, Answer, Figures
from tacit.tables.desk import Desk, Price, PriceSearch, explained, price_for_accuracy
from tacit.tables.dialects import Asked, known_dialect
from tacit.tables.engines.duckdb import DuckDB
from tacit.tables.engines.engine import Engine
from tacit.tables.engines.types import kind_of
from tacit.tables.errors import EngineError, Refused, TableError
from tacit.tables.figures import Lost, Released, both_ways, rows_lost
from tacit.tables.plan import Plan, Recipe
from tacit.tables.question import KINDS, Aggregate, Key, Output, Question
from tacit.tables.reading import ColumnReading, date_formats, encoding_of, number_marks
from tacit.tables.relation import Column, Schema
from tacit.tables.session import Session
from tacit.tables.source import CSV, DUCKDB, PARQUET, Source
from tacit.tables.unit import Unit, auto

if TYPE_CHECKING:
    from tacit.tables.answer_record import answer_from, answer_record, price_from, price_record, record_of, value_of
    from tacit.tables.cross_counts import Brackets, Cut, Periods
    from tacit.tables.left_out import LeftOut
    from tacit.tables.magic import register_magic
    from tacit.tables.remote import RemoteSession, connect

#: What a single question does not need is loaded when it is first used.
__getattr__, __dir__ = lazily(__name__, {
    "answer_record": ("answer_from", "answer_record", "price_from", "price_record", "record_of", "value_of"),
    "cross_counts": ("Brackets", "Cut", "Periods"),
    "left_out": ("LeftOut",),
    "magic": ("register_magic",),
    "remote": ("RemoteSession", "connect"),
})  # fmt: skip

__all__ = [
    "CSV", "DUCKDB", "KINDS", "MARK", "PARQUET", "Aggregate", "Answer", "Asked", "Brackets", "Column",
    "ColumnReading", "Cut", "Desk", "DuckDB", "Engine", "EngineError", "Figures", "Key", "LeftOut", "Lost", "Output",
    "Periods", "Plan", "Price", "PriceSearch", "Question", "Recipe", "Refused", "Released", "RemoteSession", "Schema",
    "Session", "Source", "TableError", "Unit", "answer_from", "answer_record", "auto", "both_ways", "connect",
    "date_formats", "encoding_of", "explained", "kind_of", "known_dialect", "number_marks", "price_for_accuracy",
    "price_from", "price_record", "reading", "record_of", "register_magic", "rows_lost", "value_of",
]  # fmt: skip
