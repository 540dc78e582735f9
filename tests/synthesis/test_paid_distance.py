"""The paid figure: what one person moves, what is booked, and what an unpaid figure would give away."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.accounting import Adjacency, Laplace
from tacit.audit.mechanisms.replay import intercepted, record, replay
from tacit.errors import ParameterError
from tacit.ledger import Budget, BudgetExceeded, Ledger, ReleaseFailed
from tacit.mechanisms import NoisySums
from tacit.noise import test_mode as seeded
from tacit.synthesis import CategoryColumn, paid_distance, synthesize

COLUMNS = [CategoryColumn("a", ("x", "y", "z")), CategoryColumn("b", (1, 2)), CategoryColumn("c", ("u", "v"))]
MADE = {"a": ["x", "y", "z", "z"] * 5, "b": [1, 2, 2, 2] * 5, "c": ["u", "v"] * 10}
ROWS: dict[str, list[Any]] = {"id": [f"p{i}" for i in range(24)], "a": ["x", "y"] * 12, "b": [1, 1, 2] * 8, "c": ["u"] * 24}


def asked(rows: Any, **options: Any) -> Any:
    return paid_distance(rows, MADE, COLUMNS, total=24, **{"epsilon": 1, **options})


def plain(rows: dict[str, list[Any]], total: float) -> float:
    """Half the L1 distance of all pairs, by counting."""
    found = []
    for a, b in itertools.combinations(["a", "b", "c"], 2):
        cells = {*zip(rows[a], rows[b], strict=True), *zip(MADE[a], MADE[b], strict=True)}
        real, made = ([list(zip(t[a], t[b], strict=True)).count(cell) for cell in cells] for t in (rows, MADE))
        found.append(sum(abs(x - total * y / 20) for x, y in zip(real, made, strict=True)) / 2)
    return float(np.mean(found))


def test_it_is_the_mean_number_of_rows_that_are_off() -> None:
    with seeded(1):
        found = asked(ROWS, epsilon=10**6)
    assert found.rows == pytest.approx(plain(ROWS, 24), abs=0.02)  # expected counts are rounded to 1/64 row
    assert found.share == found.rows / 24 and not found.private and "NOT PRIVATE" in str(found)


def moved_by(rows: Any, other: Any, **options: Any) -> tuple[int, Any]:
    """How far the noisy sum's input moves between two tables, and how far it may."""
    seen: list[tuple[int, Any]] = []

    def noted(sums: NoisySums, value: int, block: int = 0) -> dict[str, Any]:
        seen.append((value, sums.scales[0] * sums.reach))
        return {"name": "sum", "value": value}

    with seeded(1), intercepted(NoisySums, "add", noted):
        asked(rows, **options)
        asked(other, **options)
    return abs(seen[0][0] - seen[1][0]), seen[0][1]


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_one_row_moves_it_by_no_more_than_is_paid_for(relation: str) -> None:
    worst = 0.0
    for a, b, c in itertools.product(["x", "y", "z", None, "never declared"], [1, 2, float("nan")], ["u", 7]):
        row = {"id": ["new"], "a": [a], "b": [b], "c": [c]}
        kept = {name: values[(relation != "add-remove") :] for name, values in ROWS.items()}
        other = {name: kept[name] + row[name] for name in ROWS}
        moved, permitted = moved_by(ROWS, other, relation=relation)
        assert moved <= permitted
        worst = max(worst, moved / permitted)
    assert worst > 0.6  # the bound is nearly met: half of the noise would not do


def test_a_person_with_a_thousand_rows_counts_as_many_as_are_kept() -> None:
    crowd = {name: values + [value] * 1000 for (name, values), value in zip(ROWS.items(), ["new", "z", 1, "v"], strict=True)}
    moved, permitted = moved_by(ROWS, crowd, person="id", max_rows=3)
    assert 0 < moved <= permitted == 64 * 3 * 3
    assert moved_by(ROWS, crowd)[0] > 64 * 3  # without the cap it is far off
    with pytest.raises(ParameterError, match="person="):
        asked(ROWS, max_rows=3)


def test_it_is_booked_before_a_value_is_read(tmp_path: Path) -> None:
    account = Ledger.open(f"sqlite:///{tmp_path / 'book.db'}").account("people", Budget(epsilon=1))

    class Untouchable(list[object]):
        def __iter__(self) -> object:  # type: ignore[override]
            raise AssertionError("read")

        __getitem__ = __len__ = __iter__  # type: ignore[assignment]

    with pytest.raises(BudgetExceeded):
        asked({**ROWS, "a": Untouchable()}, epsilon=2, account=account)
    with seeded(1):
        found = asked(ROWS, epsilon="0.5", account=account)
    assert found.event == Laplace(2) and str(account.spent()) == "epsilon 0.5"
    with pytest.raises(ReleaseFailed) as raised:
        asked({**ROWS, "a": Untouchable()}, epsilon="0.5", account=account)
    assert "read" not in str(raised.value).split()
    assert str(account.spent()) == "epsilon 1"


def test_intervals_cover_as_often_as_they_say() -> None:
    truth = plain(ROWS, 24)
    with seeded(3):
        hits = [one.low <= truth <= one.high for one in (asked(ROWS, epsilon=0.5) for _ in range(600))]
    # 600 intervals of 95 %: the share deviates by .009, and 4 of that is one in 16,000
    assert np.mean(hits) == pytest.approx(0.95, abs=0.036)


def test_with_frozen_noise_neighbours_look_alike_and_an_unpaid_figure_does_not() -> None:
    def paid(rows: Any) -> object:
        found = asked(rows)
        return found.rows, found.low, found.high, repr(found.event)

    def unpaid(rows: Any) -> object:
        """The exact figure beside the paid one."""
        return *paid(rows), plain(rows, 24)

    def noisy(sums: NoisySums, value: int, block: int = 0) -> dict[str, Any]:
        return {"name": "sum", "value": value, "sensitivity": sums.scales[0] * sums.reach, "scale": str(sums.scales)}

    fewer = {name: values[1:] for name, values in ROWS.items()}
    with intercepted(NoisySums, "add", noisy):
        assert replay(record(paid, ROWS, again=1), fewer) == []
        assert [one.kind for one in replay(record(unpaid, ROWS, again=1), fewer)] == ["output"]


def test_a_synthesizer_brings_its_columns_and_rows() -> None:
    with seeded(2):
        made = synthesize(ROWS, COLUMNS, mu=5)
        found = paid_distance(ROWS, made, epsilon=1, marginals=[("a",), ("a", "b")])
    assert found.total == made.rows_ and found.marginals == (("a",), ("a", "b"))


def test_refusals_depend_on_what_is_declared() -> None:
    for options in ({"epsilon": 0}, {"marginals": [("a", "a")]}, {"marginals": [("d",)]}, {"relation": Adjacency.ZERO_OUT}):
        with pytest.raises(ParameterError):
            asked(ROWS, **options)
    with pytest.raises(ParameterError, match="total="):
        paid_distance(ROWS, MADE, COLUMNS, epsilon=1)
