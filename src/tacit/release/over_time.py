"""A series over time: differences between periods and smoothed figures, made of releases alone, with
intervals that say what they hold.

Everything here is post-processing of published files, so it costs nothing. Figures that are sums with noise
(counts and sums) have known laws, and those of several periods combine to one exact or Chernoff interval. Of
other figures (means, medians) only intervals are known: their differences hold with less confidence, and the
result says with how much.

**Smoothing.** A mean of neighbouring periods has less noise and is about something else: the mean. It becomes
an estimate of one period only with a public bound on how much the truth can move from one period to the next
(`most_step`); the interval is then the noise plus the bias that such steps allow. The number of periods is
chosen by noise and step alone, never by the figures.

>>> import numpy as np
>>> law = {"law": "gaussian", "spreads": [10.0], "rounding": 0.0}
>>> found = TimeSeries(("2025-01", "2025-02", "2025-03"), (("north",),), np.array([[100.0], [130.0], [90.0]]), None, None, (law,) * 3, 0.95)
>>> differences(found, 1).value.ravel().tolist(), round(float(differences(found, 1).high[0, 0]), 1)
([30.0, -40.0], 57.7)
>>> smoothed(found, most_step=0).value.ravel().round(1).tolist()
[106.7, 106.7, 106.7]
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.mechanisms import half_width
from tacit.release.errors import JobError

Floats = NDArray[np.float64]
Law = Mapping[str, Any]


@dataclass(frozen=True)
class TimeSeries:
    """One figure of one output over periods: a line for each period and a column for each group.

    `laws` are those of the noise, None where a figure is no sum with noise; `low` and `high` are then the
    published intervals.
    """

    periods: tuple[str, ...]
    groups: tuple[tuple[Any, ...], ...]
    value: Floats
    low: Floats | None
    high: Floats | None
    laws: tuple[Law | None, ...]
    confidence: float
    cut: tuple[bool, ...] = ()


@dataclass(frozen=True)
class CombinedSeries:
    """Figures made of several periods, with intervals that hold with this confidence, and what to know about
    them.
    """

    periods: tuple[str, ...]
    groups: tuple[tuple[Any, ...], ...]
    value: Floats
    low: Floats
    high: Floats
    confidence: float
    what: str
    notes: tuple[str, ...] = ()

    def rows(self) -> list[dict[str, Any]]:
        """A line for each period and group."""
        return [
            {"period": period, "group": " · ".join(map(str, group)), "value": float(self.value[t, g]), "low": float(self.low[t, g]),
             "high": float(self.high[t, g])}
            for t, period in enumerate(self.periods) for g, group in enumerate(self.groups)
        ]  # fmt: skip


CUT = (
    "in some periods caps or bounds cut off more than the noise; differences are of what was left, and "
    "hold where the cut is the same"
)


def read_series(folders: Sequence[str | Path], output: str, figure: str) -> TimeSeries:
    """One figure from the folders of a series, in the order of their periods. Corrected releases take the
    place of those they correct.
    """
    found: dict[str, tuple[Mapping[str, Any], Path]] = {}
    for folder in map(Path, folders):
        record = _record(folder)
        period = str(record["unit"].get("period") or record["time"])
        older = found.get(period)
        if older is not None and (record.get("corrects") or {}).get("folder") != older[1].name:
            if (older[0].get("corrects") or {}).get("folder") == folder.name:
                continue
            raise JobError(
                f"two releases are about {period}, and neither corrects the other; name one of them",
                file=str(folder),
            )
        found[period] = (record, folder)
    if len(found) < 2:
        raise JobError("a series has at least two releases; name their folders")
    periods = sorted(found)
    tables = [_figure(*found[period], output, figure) for period in periods]
    groups = tuple(tables[0].groups)
    if any(set(table.groups) != set(groups) for table in tables):
        shared = [group for group in groups if all(group in table.groups for table in tables)]
        groups = tuple(shared)
    if not groups:
        raise JobError(f"{output!r} has no group that all of these releases have")

    def lined(what: str) -> Floats:
        return np.array(
            [[getattr(table, what)[table.groups.index(group)] for group in groups] for table in tables]
        )

    laws = tuple(table.law for table in tables)
    return TimeSeries(
        tuple(periods), groups, lined("value"), lined("low"), lined("high"), laws, min(table.confidence for table in tables),
        tuple(table.cut for table in tables),
    )  # fmt: skip


@dataclass(frozen=True)
class _Released:
    groups: list[tuple[Any, ...]]
    value: list[float]
    low: list[float]
    high: list[float]
    law: Law | None
    confidence: float
    cut: bool


def _record(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / "release.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict) or "outputs" not in found:
        raise JobError("there is no release here; name folders that tacit run wrote", file=str(folder))
    return found


def _figure(record: Mapping[str, Any], folder: Path, output: str, figure: str) -> _Released:
    own = next((one for one in record["outputs"] if one["name"] == output), None)
    columns = None if own is None else own.get("columns")
    if own is None or columns is None or figure not in columns["figures"]:
        known = [
            f"{one['name']}.{name}"
            for one in record["outputs"]
            for name in (one.get("columns") or {}).get("figures", ())
        ]
        raise JobError(
            f"there is no figure {output}.{figure}; there are {', '.join(known) or 'none'}", file=str(folder)
        )
    table = _table(folder, output)
    released = f"{figure}_raw" if f"{figure}_raw" in table else figure
    groups = list(zip(*(table[key] for key in columns["keys"]), strict=True)) if columns["keys"] else [()]
    value = [float(x) for x in table[released]]
    low, high = ([float(x) for x in table.get(f"{figure}{end}", value)] for end in ("_low", "_high"))
    confidence = float(record["job"]["content"]["publication"]["confidence"])
    cut = any(one["figure"] == figure for one in own.get("biased", ()))
    return _Released(groups, value, low, high, own.get("figures", {}).get(figure), confidence, cut)


def _table(folder: Path, output: str) -> dict[str, list[Any]]:
    from pyarrow import csv, parquet

    for form in ("parquet", "csv"):
        file = folder / f"{output}.{form}"
        if file.is_file():
            content = io.BytesIO(file.read_bytes())
            found: dict[str, list[Any]] = (
                parquet.read_table(content) if form == "parquet" else csv.read_csv(content)
            ).to_pydict()
            return found
    raise JobError(f"the table {output} is missing", file=str(folder))


@lru_cache(maxsize=4096)
def _wide(spreads: tuple[float, ...], law: str, confidence: float) -> float:
    """Periods with the same noise have the same intervals."""
    return float(half_width(spreads, law, confidence)[0])


def _half(parts: Sequence[tuple[float, Law]], confidence: float) -> float:
    """How far the noise takes a sum of figures, each with its factor."""
    spreads = [factor * spread for factor, law in parts for spread in law["spreads"]]
    laws = {law["law"] for _, law in parts}
    rounding = float(sum(abs(factor) * law["rounding"] for factor, law in parts))
    if len(laws) == 1:
        return _wide(tuple(spreads), str(laws.pop()), confidence) + rounding
    # Two laws: each gets half of the chance to be wrong.
    each = (1 + confidence) / 2
    return rounding + math.fsum(
        float(
            half_width([f * s for f, law in parts if law["law"] == name for s in law["spreads"]], name, each)[
                0
            ]
        )
        for name in laws
    )


def differences(series: TimeSeries, lag: int = 12) -> CombinedSeries:
    """Each period less the one `lag` before it: 12 months, for year over year."""
    count = len(series.periods)
    if not 1 <= lag < count:
        raise JobError(f"lag must lie between 1 and {count - 1}, the number of periods less one")
    value = series.value[lag:] - series.value[:-lag]
    notes = (CUT,) if any(series.cut) else ()
    what = f"change against {lag} period{'' if lag == 1 else 's'} before"
    laws = [(one, other) for one, other in zip(series.laws[lag:], series.laws[:-lag], strict=True)]
    if all(one is not None and other is not None for one, other in laws):
        halves = np.array(
            [_half([(1.0, one), (-1.0, other)], series.confidence) for one, other in laws if one and other]
        )[:, None]
        return CombinedSeries(
            series.periods[lag:],
            series.groups,
            value,
            value - halves,
            value + halves,
            series.confidence,
            what,
            notes,
        )
    assert series.low is not None and series.high is not None
    low, high = series.low[lag:] - series.high[:-lag], series.high[lag:] - series.low[:-lag]
    sure = max(0.0, 1 - 2 * (1 - series.confidence))
    words = (
        "the noise of this figure has no law that adds up, so both intervals must hold: confidence "
        f"{sure:.3g}"
    )
    return CombinedSeries(series.periods[lag:], series.groups, value, low, high, sure, what, (*notes, words))


def smoothed(series: TimeSeries, *, most_step: float | None = None, width: int | None = None) -> CombinedSeries:
    """Figures averaged over neighbouring periods.

    With `most_step`, the most by which the truth moves from one period to the next (public knowledge), the
    result is about each period: noise plus the bias that such steps allow, with as many neighbours on either
    side as make that smallest. Without it, `width` neighbours on either side are averaged, and the interval
    is about the mean of the true figures.
    """
    if (most_step is None) == (width is None):
        raise JobError(

                "smoothing takes most_step (how much the truth moves at most), or width (how many neighbours "
                "on either side)"

        )
    if most_step is not None and not most_step >= 0:
        raise JobError("most_step must be 0 or more")
    if any(law is None for law in series.laws):
        raise JobError(
            "only counts and sums are smoothed: the noise of other figures has no law that adds up"
        )
    laws = [law for law in series.laws if law is not None]
    count = len(laws)
    value, half = np.empty_like(series.value), np.empty(count)
    for t in range(count):
        options = range(count) if most_step is not None else [min(width or 0, count)]
        chosen = min(options, key=lambda k: _error(laws, t, k, most_step or 0.0, series.confidence))
        around = _around(t, chosen, count)
        value[t] = series.value[around].mean(axis=0)
        half[t] = _error(laws, t, chosen, most_step or 0.0, series.confidence)
    what = (
        "each period, smoothed" if most_step is not None else f"mean of up to {2 * (width or 0) + 1} periods"
    )
    words = (
        f"holds if the truth moves by at most {most_step:g} from one period to the next"
        if most_step is not None
        else "the interval is about the mean of these periods, not about one of them"
    )
    notes = (words, *((CUT,) if any(series.cut) else ()))
    wide = half[:, None]
    return CombinedSeries(
        series.periods, series.groups, value, value - wide, value + wide, series.confidence, what, notes
    )


def _around(t: int, k: int, count: int) -> list[int]:
    return list(range(max(0, t - k), min(count, t + k + 1)))


def _error(laws: Sequence[Law], t: int, k: int, step: float, confidence: float) -> float:
    """Noise of the mean of a period and k neighbours on either side, plus the most that steps take it from
    the period's own truth.
    """
    around = _around(t, k, len(laws))
    noise = _half([(1 / len(around), laws[i]) for i in around], confidence)
    return noise + step * sum(abs(i - t) for i in around) / len(around)
