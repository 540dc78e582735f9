"""From the engine's integers to noisy ones: the only place where noise is added.

Every declared group gets noise of its own, also one that nobody is in. Groups that were not declared are chosen by their selection rule
before anything else is known of them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tacit import noise
from tacit.tables.answer import Floats
from tacit.tables.measure import measure_name
from tacit.tables.plan import Plan
from tacit.tables.ranks import half_width
from tacit.tables.split import Share
from tacit.tables.statement import GROUP, PEOPLE, ROW, SEEN, SEEN_HERE, key_name


@dataclass(frozen=True)
class Exact:
    """The engine's integers: never released. One entry of `sums` for each measure: a number, or a line of cells, for each group."""

    groups: list[tuple[int, tuple[Any, ...]]]
    sums: list[NDArray[Any]]
    people: list[int]


@dataclass(frozen=True)
class Released:
    """Noisy sums in granules, and the groups they are about."""

    groups: list[tuple[Any, ...]]
    sums: tuple[NDArray[Any], ...]

    def to_record(self) -> dict[str, Any]:
        """A JSON-able form, for a ledger that keeps answers."""
        return {"groups": [list(group) for group in self.groups], "sums": [_plain(row) for row in self.sums]}

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> Released:
        """The inverse of `to_record`."""
        return Released([tuple(group) for group in record["groups"]], tuple(np.array(row, dtype=object) for row in record["sums"]))


def _plain(row: NDArray[Any]) -> Any:
    return [[int(v) for v in line] if isinstance(line, np.ndarray) else int(line) for line in row]


def integers(table: pa.Table, plan: Plan) -> Exact:
    """The sums of every declared group, 0 where the engine saw nobody; of every group that occurs where keys are private."""
    columns = {name: _listed(table.column(name)) for name in table.column_names}
    lines = range(table.num_rows)
    cells = [measure_name(i) for i, m in enumerate(plan.wanted.measures) if m.over == "cells"]
    numbers = columns.get(GROUP, [plan.keys.first] * table.num_rows)
    private = [columns[key_name(i)] for i in plan.keys.private]
    first = plan.keys.first
    names: list[tuple[int, tuple[Any, ...]]] = []
    if private or cells:
        names = [(int(number) - first, ()) for number in numbers]
    if private:
        from tacit.mechanisms.partition_selection import plain_key  # with all mechanisms, which other questions do without

        names = [(number, tuple(plain_key(column[line]) for column in private)) for line, (number, _) in enumerate(names)]
    base = [line for line in lines if all(columns[cell][line] is None for cell in cells)] if cells else lines
    if private:
        groups = list(dict.fromkeys(names[line] for line in base if None not in names[line][1]))
    else:
        groups = [(number, ()) for number in range(plan.keys.count)]
    places = {group: place for place, group in enumerate(groups)} if names else {}
    if names:
        inside = [(places[names[line]], line) for line in base if names[line] in places]
    else:
        end = first + plan.keys.count
        inside = [(int(number) - first, line) for line, number in enumerate(numbers) if first <= number < end]
    sums: list[NDArray[Any]] = []
    for index, measure in enumerate(plan.wanted.measures):
        if measure.over == "seen":
            # Told once, the same on every line; or on the lines of those who were counted.
            told = columns[SEEN][:1] if SEEN in columns else [columns[SEEN_HERE][line] for line in base]
            found = np.array([sum(int(part or 0) for part in told)], dtype=object)
        elif measure.over == "kept":
            found = np.array([sum(int(columns[measure_name(index)][line] or 0) for line in base)], dtype=object)
        elif measure.over == "cells":
            assert measure.ladder is not None
            found = np.zeros((len(groups), measure.ladder.cells), dtype=np.int64)
            column = columns[measure_name(index)]
            for line in lines:
                if column[line] is not None and column[line] >= 0 and names[line] in places:
                    found[places[names[line]], int(column[line])] += int(columns[ROW][line])
        else:
            whole, column = [0] * len(groups), columns[measure_name(index)]
            for place, line in inside:
                whole[place] = int(column[line] or 0)
            found = np.array(whole, dtype=object)
        sums.append(found)
    people = [0] * len(groups)
    if plan.wanted.people:
        for place, line in inside:
            people[place] = int(columns[PEOPLE][line] or 0)
    return Exact(groups, sums, people)


def _listed(column: pa.ChunkedArray) -> list[Any]:
    """A column's values; whole numbers of 64 bits, and the decimals that sums come as, are read from memory.

    pyarrow's own ways are slower: `to_pylist` makes an object of every number first, `to_numpy` imports pandas, a cast all of
    `pyarrow.compute`.
    """
    found: list[Any] = []
    for chunk in column.chunks:
        words = 1 if chunk.type == pa.int64() else 2 if chunk.type == pa.decimal128(38, 0) else 0
        if not words or not len(chunk) or chunk.null_count or sys.byteorder != "little":
            found += chunk.to_pylist()
            continue
        start, end = words * chunk.offset, words * (chunk.offset + len(chunk))
        numbers = np.frombuffer(chunk.buffers()[1], dtype=np.int64)[start:end]
        if words == 1:
            found += numbers.tolist()
        else:
            low, high = numbers[0::2].view(np.uint64).tolist(), numbers[1::2].tolist()
            found += [2**64 * upper + lower for lower, upper in zip(low, high, strict=True)]
    return found


def release(exact: Exact, plan: Plan) -> Released:
    """Choose the groups where they are private, then add noise to everything that is left."""
    groups, rows = exact.groups, [np.asarray(row) for row in exact.sums]
    if plan.selection is not None:
        full = plan.keys.groups([number for number, _ in groups], [values for _, values in groups])
        order = {name: place for place, name in enumerate(full)}
        chosen = [order[name] for name in plan.selection.choose(full, exact.people)]
        rows = [row if m.over in ("seen", "kept") else row[chosen] for row, m in zip(rows, plan.wanted.measures, strict=True)]
        released = [full[place] for place in chosen]
    else:
        released = list(plan.keys.listed)
    return Released(released, tuple(noisy(share, row) for share, row in zip(plan.shares, rows, strict=True)))


def noisy(share: Share, sums: NDArray[Any]) -> NDArray[Any]:
    """The sums of one measure with noise, all whole numbers."""
    ladder = share.measure.ladder
    if ladder is not None:
        sums = sums @ ladder.encoder(share.law).T
    draw = noise.rounded_laplace if share.law == "laplace" else noise.rounded_gaussian
    drawn = np.asarray(draw(share.scale, sums.shape), dtype=object)
    return np.asarray(sums.astype(object) + drawn)


def loss_note(plan: Plan, released: Released, confidence: float) -> str | None:
    """What share of the rows the caps left out, with its interval, in a sentence. It is measured and paid for, or declared, never free."""
    if plan.loss is None:
        named = plan.unit.capped and plan.unit.noun != "row"
        return "rows lost to the caps: none; that the data obey the caps was declared" if named else None
    part = (1 + confidence) / 2
    seen, kept = plan.shares[plan.loss.seen], plan.shares[plan.loss.kept]
    before, after = float(released.sums[plan.loss.seen][0]), float(np.sum(released.sums[plan.loss.kept]))
    wide_before = float(half_width([seen.spread], seen.law, part)[0])
    many = np.full(len(released.sums[plan.loss.kept]), kept.spread)
    wide_after = float(half_width(many, kept.law, part)[0])
    ends = ((after - wide_after) / max(before + wide_before, 1.0), _most(after + wide_after, before - wide_before))
    least, most = (max(0.0, min(1.0, share)) for share in ends)
    if most - least > 0.9:
        paid = float(seen.part) + (float(kept.part) if kept.measure.over == "kept" else 0.0)
        return (
            f"rows lost to the caps: not known, because its noise ({wide_before + wide_after:.3g} rows, for {paid:.2%} of the budget) "
            "is as large as what it is about; a greater epsilon tells it, and loss=False saves it"
        )
    value = max(least, min(most, after / max(before, 1.0)))
    return (
        f"rows lost to the caps: about {1 - value:.0%} ({confidence:.0%} interval {1 - most:.0%} to {1 - least:.0%}), "
        f"counting at most {plan.loss.most} rows of one person"
    )


def _most(after: float, before: float) -> float:
    return after / before if before > 0 else 1.0


def expected_error(share: Share, confidence: float) -> float:
    """How far noise takes one released number, in the measure's unit."""
    return float(half_width([share.spread], share.law, confidence)[0]) + float(share.measure.granularity / Fraction(2))


__all__ = ["Exact", "Floats", "Released", "expected_error", "integers", "loss_note", "noisy", "release"]
