"""From the engine's integers to noisy ones: the groups are chosen here, and the question's `NoisySums` adds the noise.

Every declared group gets noise of its own, also one that nobody is in. Groups that were not declared are chosen by their selection rule
before anything else is known of them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tacit.accounting import Note
from tacit.mechanisms import half_width
from tacit.tables.engines.engine import DECIMAL, INT64
from tacit.tables.errors import WORDS
from tacit.tables.measure import measure_name
from tacit.tables.plan import Plan
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
    cells = [measure_name(i) for i, m in enumerate(plan.wanted.measures) if m.over == "cells"]
    first, count = plan.keys.first, plan.keys.count
    names = _names(table, plan) if plan.keys.private or cells else []
    ladders = {name: table.column(name).to_pylist() for name in cells}
    base = list(range(table.num_rows))
    if cells:
        base = [line for line in base if all(ladders[cell][line] is None for cell in cells)]
    groups: list[tuple[int, tuple[Any, ...]]] = [(number, ()) for number in range(count)]
    if plan.keys.private:
        groups = list(dict.fromkeys(names[line] for line in base if None not in names[line][1]))
    known = {group: place for place, group in enumerate(groups)} if names else {}
    if names:
        # Of which group which line tells.
        inside = [(known[names[line]], line) for line in base if names[line] in known]
        places, lines = np.array(inside, dtype=np.int64).reshape(-1, 2).T
    elif GROUP in table.column_names:
        numbers = _whole(table.column(GROUP))
        lines = ((numbers >= first) & (numbers < first + count)).nonzero()[0]
        places = (numbers[lines] - first).astype(np.int64)
    else:
        lines = np.arange(table.num_rows)
        places = np.zeros_like(lines)

    def by_group(name: str) -> NDArray[Any]:
        column = _whole(table.column(name))
        found = np.zeros(len(groups), dtype=column.dtype)
        np.add.at(found, places, column[lines])  # were two lines of one group, neither may take the other's place
        return found

    sums: list[NDArray[Any]] = []
    for index, measure in enumerate(plan.wanted.measures):
        if measure.over == "seen":
            # Told once, the same on every line; or on the lines of those who were counted.
            told = _whole(table.column(SEEN))[:1] if SEEN in table.column_names else _whole(table.column(SEEN_HERE))[base]
            found = np.array([sum(told.tolist())], dtype=object)
        elif measure.over == "kept":
            found = np.array([sum(_whole(table.column(measure_name(index)))[base].tolist())], dtype=object)
        elif measure.over == "cells":
            assert measure.ladder is not None
            found = np.zeros((len(groups), measure.ladder.cells), dtype=np.int64)
            column, rows = ladders[measure_name(index)], _whole(table.column(ROW))
            for line, cell in enumerate(column):
                if cell is not None and cell >= 0 and names[line] in known:
                    found[known[names[line]], int(cell)] += int(rows[line])
        else:
            found = by_group(measure_name(index))
        sums.append(found)
    return Exact(groups, sums, by_group(PEOPLE).tolist() if plan.wanted.people else [0] * len(groups))


def _names(table: pa.Table, plan: Plan) -> list[tuple[int, tuple[Any, ...]]]:
    """Which group each line is about: the number of its declared keys, and its private ones."""
    numbers = _whole(table.column(GROUP)).tolist() if GROUP in table.column_names else [plan.keys.first] * table.num_rows
    found: list[tuple[int, tuple[Any, ...]]] = [(number - plan.keys.first, ()) for number in numbers]
    if plan.keys.private:
        from tacit.mechanisms import plain_key  # with all mechanisms, which other questions do without

        private = [table.column(key_name(i)).to_pylist() for i in plan.keys.private]
        found = [(number, tuple(plain_key(_shortest(column[line])) for column in private)) for line, (number, _) in enumerate(found)]
    return found


def _shortest(value: Any) -> Any:
    """1.5 and 1.50 are one key, and which of them is handed over may depend on where the rows lie: a decimal without zeros at its end."""
    if not isinstance(value, Decimal):
        return value
    text = format(value, "f")
    return Decimal(text.rstrip("0").rstrip(".") if "." in text else text)


def _whole(column: pa.ChunkedArray) -> NDArray[Any]:
    """A column of whole numbers, 0 where there is none; those of 64 bits, and the decimals that sums come as, are read from memory.

    pyarrow's own ways are slower: `to_pylist` makes an object of every number first, `to_numpy` imports pandas, a cast all of
    `pyarrow.compute`.
    """
    found: list[NDArray[Any]] = []
    for chunk in column.chunks:
        words = 1 if chunk.type == INT64 else 2 if chunk.type == DECIMAL else 0
        if not words or not len(chunk) or chunk.null_count or sys.byteorder != "little":
            found.append(np.array([int(value or 0) for value in chunk.to_pylist()], dtype=object))
            continue
        start, end = words * chunk.offset, words * (chunk.offset + len(chunk))
        numbers = np.frombuffer(chunk.buffers()[1], dtype=np.int64)[start:end]
        if words == 2:
            low, high = numbers[0::2], numbers[1::2]
            fits = bool((high == low >> 63).all())  # the upper half repeats the sign: nothing but the lower one is needed
            numbers = low if fits else 2**64 * high.astype(object) + low.view(np.uint64).astype(object)
        found.append(numbers)
    return found[0] if len(found) == 1 else np.concatenate([np.empty(0, dtype=object), *found])


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
    return Released(released, tuple(plan.split.noise.add(row, block) for block, row in enumerate(rows)))


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
        return Note.of(WORDS, "loss-unknown", noise=wide_before + wide_after, share=paid)
    value = max(least, min(most, after / max(before, 1.0)))
    return (
        f"rows lost to the caps: about {1 - value:.0%} ({confidence:.0%} interval {1 - most:.0%} to {1 - least:.0%}), "
        f"counting at most {plan.loss.most} rows of one {plan.unit.noun}: where one has more, more are lost"
    )


def _most(after: float, before: float) -> float:
    return after / before if before > 0 else 1.0


