"""Tacit: publish from sensitive data under one budget, proved from above and attacked from below.

>>> import tacit
>>> tacit.__version__.count(".")
2
>>> tacit.Unit("patient_id", max_rows=12)
Unit(person='patient_id', max_rows=12)
"""

from typing import Any

__version__ = "0.1.0"

#: Names that are reached from here and loaded when first used: `import tacit` itself stays light.
_HOMES = {
    "Budget": "ledger",
    "Guarantee": "accounting",
    "Ledger": "ledger",
    "Session": "tables",
    "Unit": "tables",
    "auto": "tables",
}

__all__ = ["__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tacit' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"tacit.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
