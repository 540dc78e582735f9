"""What makes a run repeatable: seeds, a clock that stands still, tokens that are known, and values as plain JSON.

Clock and tokens are replaced wherever a module of the package holds Python's `datetime` or `secrets`, whatever that module is called: so
nothing here has to follow when a module moves. Other libraries keep the true ones; some cannot be loaded without.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import hashlib
import importlib
import pkgutil
import secrets
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from types import ModuleType
from typing import Any

import duckdb
import numpy as np

from tacit.accounting import Bound, Event, to_json
from tacit.noise import test_mode

#: A case draws from a seed of its own, so that one more case changes no other.
Case = Callable[[], Any]
Cases = dict[str, Case]

_NOW = datetime.datetime(2026, 1, 31, 12, 0, 0, tzinfo=datetime.UTC)
_REAL = datetime.datetime


def seeded(cases: Cases) -> dict[str, Any]:
    """Every case's result as plain JSON, each drawn in a test mode of its own."""
    return {name: once(name, case) for name, case in cases.items()}


def once(name: str, case: Case) -> Any:
    """One case's result."""
    with repeatable(zlib.crc32(name.encode())):
        return plain(case())


@contextmanager
def repeatable(seed: int) -> Iterator[None]:
    """Test mode, with DuckDB's own generator seeded too: it shuffles rows before a cap, and so decides in which order groups come."""
    connect = duckdb.connect

    def connected(*arguments: Any, **options: Any) -> duckdb.DuckDBPyConnection:
        connection = connect(*arguments, **options)
        connection.execute("SELECT setseed(0.5)").fetchall()
        return connection

    duckdb.connect = connected
    try:
        with test_mode(seed):
            yield
    finally:
        duckdb.connect = connect


def plain(value: Any) -> Any:
    """A value as JSON without loss: floats in hexadecimal, fractions as "p/q", events by their own JSON. Names of classes are left out."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, Event):
        return {"event": to_json(value)}
    if isinstance(value, Bound):
        return [plain(value.lower), plain(value.upper)]
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value).hex()
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    if isinstance(value, (datetime.date, _REAL)):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(plain(name)): plain(entry) for name, entry in value.items()}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, (set, frozenset)):
        return sorted(plain(entry) for entry in value)
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    raise TypeError(f"no plain form for {type(value).__name__}")


class _Standing(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _REAL)


class _Clock(datetime.datetime, metaclass=_Standing):
    """The class `datetime.datetime`, at one moment."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:  # type: ignore[override]
        return _NOW.astimezone(tz) if tz is not None else _NOW.replace(tzinfo=None)


@contextmanager
def standing_still() -> Iterator[None]:
    """It is always noon on 31 January 2026, and the first token drawn is always the same, and so is the second."""
    drawn = 0

    def token_hex(size: int | None = None) -> str:
        nonlocal drawn
        drawn += 1
        return hashlib.sha256(f"token {drawn}".encode()).hexdigest()[: 2 * (size or 32)]

    instead: list[tuple[Any, Any]] = [
        (datetime, _copy(datetime, datetime=_Clock)),
        (_REAL, _Clock),
        (secrets, _copy(secrets, token_hex=token_hex)),
        (secrets.token_hex, token_hex),
    ]
    changed: list[tuple[ModuleType, str, Any]] = []
    for module in _of_the_package():
        for name, held in list(vars(module).items()):
            for real, stand_in in instead:
                if held is real:
                    changed.append((module, name, held))
                    setattr(module, name, stand_in)
    try:
        yield
    finally:
        for module, name, held in changed:
            setattr(module, name, held)


def _copy(module: ModuleType, **changes: Any) -> ModuleType:
    found = ModuleType(module.__name__)
    found.__dict__.update({**vars(module), **changes})
    return found


def _of_the_package() -> list[ModuleType]:
    """The modules of the ledger and of releases, loaded now: one that is loaded later would see the true clock."""
    for room in ("tacit.ledger", "tacit.release"):
        for found in pkgutil.walk_packages(importlib.import_module(room).__path__, f"{room}."):
            importlib.import_module(found.name)
    return [module for name, module in list(sys.modules.items()) if name.startswith("tacit.")]
