"""Private questions about tables, in SQL or Python.

A `Session` answers questions one at a time and pays for each from an account; a `Desk` plans and answers without paying, for
release jobs. Both need a `Unit`: whom the guarantee protects, and how much one of them may contribute.
"""

from tacit.tables.answer import MARK, Answer, Figures
from tacit.tables.cross_counts import Brackets, Cut, Periods
from tacit.tables.desk import Desk, Price, explained, price_for_accuracy
from tacit.tables.dialects import known_dialect
from tacit.tables.engines.engine import Engine
from tacit.tables.errors import EngineError, Refused, TableError
from tacit.tables.figures import Released
from tacit.tables.plan import Plan, Recipe
from tacit.tables.question import Aggregate, Asked, Key, Output, Question
from tacit.tables.schema import Column, Schema
from tacit.tables.session import Session
from tacit.tables.source import CSV, DUCKDB, PARQUET, Source
from tacit.tables.unit import Unit, auto

__all__ = [
    "CSV", "DUCKDB", "MARK", "PARQUET", "Aggregate", "Answer", "Asked", "Brackets", "Column", "Cut", "Desk", "Engine", "EngineError",
    "Figures", "Key", "Output", "Periods", "Plan", "Price", "Question", "Recipe", "Refused", "Released", "Schema", "Session", "Source",
    "TableError", "Unit", "auto", "explained", "known_dialect", "price_for_accuracy",
]  # fmt: skip
