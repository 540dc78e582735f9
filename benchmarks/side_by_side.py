"""Timing and tables for the benchmarks: every contender in one process, medians after a warm-up, ratios to Tacit."""

from __future__ import annotations

import math
import statistics
import time
import warnings
from collections.abc import Callable, Sequence


def timed(call: Callable[[], float], *, seconds: float = 3.0, most: int = 15) -> tuple[float, float]:
    """(value, median seconds) of a call: once to warm up, then as often as fits into `seconds`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = call()
        times: list[float] = []
        while len(times) < most and (not times or sum(times) < seconds):
            start = time.perf_counter()
            value = call()
            times.append(time.perf_counter() - start)
    return float(value), statistics.median(times)


def attempt(call: Callable[[], float], **options: float) -> tuple[float, float, str]:
    """Like `timed`, but a failure becomes a remark: a missing package, a refusal, an overflow."""
    try:
        value, seconds = timed(call, **options)  # type: ignore[arg-type]
    except ImportError as error:
        return math.nan, math.nan, f"not installed ({error.name})"
    except Exception as error:
        return math.nan, math.nan, f"{type(error).__name__}: {str(error)[:60]}"
    return value, seconds, ""


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows in columns."""
    cells = [[str(c) for c in head], *([_cell(c) for c in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    print(f"\n{title}")
    for i, row in enumerate(cells):
        print("  " + "  ".join(c.ljust(w) if j == 0 else c.rjust(w) for j, (c, w) in enumerate(zip(row, widths, strict=True))))
        if i == 0:
            print("  " + "  ".join("-" * w for w in widths))


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.4g}"
    return str(value)
