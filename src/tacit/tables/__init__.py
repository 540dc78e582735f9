"""Private questions about tables, in SQL or Python."""

from tacit.tables.answer import Answer, Figures
from tacit.tables.desk import Desk, Price
from tacit.tables.errors import EngineError, Refused, TableError
from tacit.tables.plan import Plan
from tacit.tables.question import Aggregate, Key, Question
from tacit.tables.schema import Column, Schema
from tacit.tables.session import Session
from tacit.tables.unit import Unit, auto

__all__ = [
    "Aggregate",
    "Answer",
    "Column",
    "Desk",
    "EngineError",
    "Figures",
    "Key",
    "Plan",
    "Price",
    "Question",
    "Refused",
    "Schema",
    "Session",
    "TableError",
    "Unit",
    "auto",
]
