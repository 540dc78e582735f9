"""What the sections of a report share: figures as JSON and as text, brackets on a price, and templates that escape all they are given.

A kind of output makes its section with these and with `tacit.release.pictures`; the page around the sections is `tacit.release.report`.

>>> plain(float("nan")) is None, listed(["a", "b", "c"])
(True, 'a, b and c')
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_FLOOR, Context, Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.accounting import Bound
from tacit.accounting.compare import rounded_up
from tacit.release import pictures

if TYPE_CHECKING:
    from jinja2 import Template


def bracket(found: Bound, delta: float) -> dict[str, Any]:
    return {
        "lower": _rounded_down(found.lower),
        "upper": rounded_up(found.upper, 7),
        "delta": f"{delta:g}" if delta else "",
        "method": found.method,
    }


def _rounded_down(value: float) -> str:
    """Seven digits, never above the value: a lower end is a claim too."""
    if not math.isfinite(value):
        return "∞"
    return f"{Context(prec=7, rounding=ROUND_FLOOR).create_decimal(Decimal(value)).normalize():f}"


def plain(value: float) -> float | None:
    """JSON has no NaN and no infinity; neither says more than a dash would."""
    return float(value) if math.isfinite(value) else None


def listed(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else "".join(names)


def _number(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """A figure to read, with the digits that its interval tells apart."""
    wide = math.inf if low is None or high is None else high - low
    return pictures.number(math.nan if value is None else value, wide)


@cache
def template(name: str) -> Template:
    """A template of this folder; whatever is put into it is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folder = Path(__file__).resolve().parent / "templates"
    environment = Environment(loader=FileSystemLoader(folder), autoescape=True, undefined=StrictUndefined, auto_reload=False)
    environment.filters["number"] = _number
    return environment.get_template(name)
