"""Answers and prices as JSON, for a book, a service and its clients: what comes back is equal in type and content.

>>> import datetime
>>> value_of(record_of(datetime.date(2026, 1, 31))), value_of(record_of(None)), value_of(record_of("north"))
(datetime.date(2026, 1, 31), None, 'north')
>>> value_of(record_of(float("inf")))
inf
"""

from __future__ import annotations

import base64
import datetime
import json
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from tacit.accounting import Adjacency, Bound, from_json, to_json
from tacit.tables.answer import Answer, Bias, Figures, Noise
from tacit.tables.desk import Price
from tacit.tables.errors import TableError

_KINDS = {
    "date": datetime.date.fromisoformat,
    "timestamp": datetime.datetime.fromisoformat,
    "time": datetime.time.fromisoformat,
    "decimal": Decimal,
    "float": float,
    "bytes": base64.b64decode,
}


def record_of(value: Any) -> Any:
    """A value of a key as JSON: as itself where JSON has it, and otherwise as its kind and its text."""
    if value is None or isinstance(value, (bool, str, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, datetime.datetime):
        return {"timestamp": value.isoformat()}
    if isinstance(value, datetime.date):
        return {"date": value.isoformat()}
    if isinstance(value, datetime.time):
        return {"time": value.isoformat()}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    raise TableError(f"a value of type {type(value).__name__} has no JSON form")


def value_of(record: Any) -> Any:
    """The inverse of `record_of`."""
    if not isinstance(record, dict):
        return record
    (kind, text), *rest = record.items()
    if rest or kind not in _KINDS:
        raise TableError("this is no answer that this version of Tacit wrote")
    return _KINDS[kind](text)


def _numbers(values: Any) -> list[Any]:
    return [record_of(float(value)) for value in values]


def _figures(figures: Mapping[str, Figures]) -> dict[str, Any]:
    return {
        name: {"value": _numbers(f.value), "low": _numbers(f.low), "high": _numbers(f.high), **_bias(f.bias)}
        for name, f in figures.items()
    }


def _bias(bias: Bias | None) -> dict[str, Any]:
    """What is estimated to be cut off; a figure without an estimate has no such field."""
    if bias is None:
        return {}
    ends = {"low": _numbers(bias.low), "high": _numbers(bias.high), "sure": _numbers(bias.sure)}
    return {"bias": {**ends, "why": list(bias.why)}}


def _figures_of(record: Mapping[str, Any]) -> dict[str, Figures]:
    def floats(values: Sequence[Any]) -> Any:
        return np.array([value_of(value) for value in values], dtype=np.float64)

    def bias(found: Mapping[str, Any] | None) -> Bias | None:
        if found is None:
            return None
        return Bias(floats(found["low"]), floats(found["high"]), floats(found["sure"]), tuple(found["why"]))

    return {
        name: Figures(floats(f["value"]), floats(f["low"]), floats(f["high"]), bias=bias(f.get("bias")))
        for name, f in record.items()
    }


def _bound(bound: Bound) -> dict[str, Any]:
    return {"lower": record_of(bound.lower), "upper": record_of(bound.upper), "method": bound.method}


def _bound_of(record: Mapping[str, Any]) -> Bound:
    return Bound(value_of(record["lower"]), value_of(record["upper"]), method=record["method"])


def answer_record(answer: Answer, *, statement: bool = False) -> dict[str, Any]:
    """An answer as JSON; the text of the statement only where it is asked for."""
    return {
        "keys": {name: [record_of(value) for value in values] for name, values in answer.keys.items()},
        "figures": _figures(answer.figures),
        "raw": {name: [record_of(_plain(value)) for value in values] for name, values in answer.raw.items()},
        "noise": [[part.measure, part.law, part.deviation] for part in answer.noise],
        "event": json.loads(to_json(answer.event)),
        "adjacency": answer.adjacency.value,
        "cost": _bound(answer.cost),
        "delta": answer.delta,
        "confidence": answer.confidence,
        "private": answer.private,
        "notes": [str(note) for note in answer.notes],
        "entry": answer.entry,
        "statement": answer.statement if statement else "",
        "raw_figures": None if answer.raw_figures is None else _figures(answer.raw_figures),
        "bins": {name: {label: list(ends) for label, ends in bins.items()} for name, bins in answer.bins.items()},
    }


def answer_from(record: Mapping[str, Any]) -> Answer:
    """The inverse of `answer_record`."""
    raw_figures = record["raw_figures"]
    return Answer(
        keys={name: [value_of(value) for value in values] for name, values in record["keys"].items()},
        figures=_figures_of(record["figures"]),
        raw={name: [value_of(value) for value in values] for name, values in record["raw"].items()},
        noise=tuple(Noise(*part) for part in record["noise"]),
        event=from_json(json.dumps(record["event"])),
        adjacency=Adjacency.parse(record["adjacency"]),
        cost=_bound_of(record["cost"]),
        delta=record["delta"],
        confidence=record["confidence"],
        private=record["private"],
        notes=tuple(record["notes"]),
        entry=record["entry"],
        statement=record["statement"],
        raw_figures=None if raw_figures is None else _figures_of(raw_figures),
        bins={name: {label: (ends[0], ends[1]) for label, ends in bins.items()} for name, bins in record["bins"].items()},
    )


def price_record(price: Price) -> dict[str, Any]:
    """A price as JSON."""
    return {
        "spend": price.spend, "event": json.loads(to_json(price.event)), "cost": _bound(price.cost), "delta": price.delta,
        "errors": {name: record_of(float(error)) for name, error in price.errors.items()}, "rows": price.rows,
        "confidence": price.confidence,
    }  # fmt: skip


def price_from(record: Mapping[str, Any]) -> Price:
    """The inverse of `price_record`."""
    errors = {name: value_of(error) for name, error in record["errors"].items()}
    return Price(
        record["spend"], from_json(json.dumps(record["event"])), _bound_of(record["cost"]), record["delta"], errors,
        record["rows"], record["confidence"],
    )  # fmt: skip


def _plain(value: Any) -> Any:
    """A number of numpy as Python's."""
    return value.item() if isinstance(value, np.generic) else value
