"""Constraints: the possible cells by hand, every sampled row obeys, contradictions are refused without any data."""

from __future__ import annotations

import datetime
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.accounting import ParameterError
from tacit.ledger import Budget, Ledger
from tacit.noise import test_mode as seeded
from tacit.synthesis import constraints as module
from tacit.synthesis.bins import BoughtNumbers
from tacit.synthesis.columns import CategoryColumn, DateColumn, NumberColumn
from tacit.synthesis.constraints import Constraint, Determines, Impossible, Ordered, Sums, possible
from tacit.synthesis.estimate import NoisyMarginal, fit
from tacit.synthesis.sample import sampled
from tacit.synthesis.synthesizer import METHODS, synthesize

DAYS = tuple(datetime.date(2026, month, 1) for month in (1, 2, 4, 7))
COLUMNS = [
    CategoryColumn("job", ("nurse", "surgeon", "guest")),
    NumberColumn.between("grade", 0, 9, 5, whole=True),
    CategoryColumn("pregnant", (True, False)),
    CategoryColumn("sex", ("f", "m")),
    DateColumn("start", DAYS),
    DateColumn("end", (DAYS[0], datetime.date(2026, 3, 15), DAYS[3])),
    NumberColumn("a", (0, 2, 5), whole=True),
    NumberColumn("b", (0, 3, 8), whole=True),
    NumberColumn("total", (0, 4, 6, 14), whole=True),
]
RULES: list[Constraint] = [
    Determines("job", "grade", {"nurse": 3, "surgeon": 8}),
    Impossible({"sex": ["m"], "pregnant": [True]}),
    Ordered(("start", "end")),
    Sums("total", ("a", "b")),
]


def wild(rows: int) -> dict[str, list[Any]]:
    """Rows that break every rule as often as not."""
    draws = np.random.default_rng(0)
    day = [DAYS[0] + datetime.timedelta(int(d)) for d in draws.integers(0, 180, 2 * rows)]
    return {
        "job": draws.choice(["nurse", "surgeon", "guest"], rows).tolist(),
        "grade": draws.integers(0, 10, rows).tolist(),
        "pregnant": (draws.random(rows) < 0.3).tolist(),
        "sex": draws.choice(["f", "m", None], rows, p=[0.5, 0.4, 0.1]).tolist(),
        "start": day[:rows],
        "end": day[rows:],
        "a": draws.integers(0, 5, rows).tolist(),
        "b": draws.integers(0, 8, rows).tolist(),
        "total": draws.integers(0, 14, rows).tolist(),
    }


def broken(row: dict[str, Any]) -> list[str]:
    """Which rules a row of values breaks, written out once more."""
    found = []
    if row["job"] in ("nurse", "surgeon") and row["grade"] != {"nurse": 3, "surgeon": 8}[row["job"]]:
        found.append("determines")
    if row["sex"] == "m" and row["pregnant"] is True:
        found.append("impossible")
    if row["start"] is not None and row["end"] is not None and row["start"] > row["end"]:
        found.append("order")
    if None not in (row["a"], row["b"], row["total"]) and row["a"] + row["b"] != row["total"]:
        found.append("sum")
    return found


@pytest.mark.parametrize("method", sorted(set(METHODS) - {"histogram"}))
def test_every_sampled_row_obeys_whatever_the_data_does(method: str) -> None:
    small: Any = METHODS[method]
    small = replace(small, cap=3000) if hasattr(small, "cap") else small
    with seeded(1):
        made = synthesize(wild(1500), COLUMNS, mu=1, method=small, constraints=RULES)
        rows = made.sample(1500).to_pylist()
    assert not [row for row in rows if broken(row)]
    assert {row["job"] for row in rows} >= {"nurse", "surgeon", "guest"}
    assert len({row["start"] for row in rows}) > 30  # values are spread over the bins


def test_the_check_itself_finds_broken_rows() -> None:
    """The mutant: without constraints, half of the rows break a rule."""
    with seeded(1):
        rows = synthesize(wild(1500), COLUMNS, mu=1, method="independent").sample(1000).to_pylist()
    assert {name for row in rows for name in broken(row)} == {"determines", "impossible", "order", "sum"}


def test_histograms_keep_them_too() -> None:
    with seeded(2):
        made = synthesize(wild(500), COLUMNS[:4], mu=1, method="histogram", constraints=RULES[:2])
        rows = made.sample(500).to_pylist()
    assert not [row for row in rows if broken(row | dict.fromkeys(("start", "end", "a", "b", "total")))]


def test_possible_cells_are_those_with_a_value_that_obeys() -> None:
    """By enumeration of all values in the bins."""
    tables = possible(COLUMNS, RULES)
    assert set(tables) == {(0, 1), (2, 3), (4, 5), (6, 7, 8)}
    spans = [[*range(0, 2), *range(2, 5)], [*range(0, 3), *range(3, 8)], list(range(0, 14))]
    wanted = np.zeros((2, 2, 3), dtype=bool)
    for a, b in itertools.product(*spans[:2]):
        cell = [int(COLUMNS[place].encode([value])[0]) for place, value in ((6, a), (7, b), (8, a + b))]
        wanted[tuple(cell)] = True
    np.testing.assert_array_equal(tables[6, 7, 8][:2, :2, :3], wanted)
    assert tables[6, 7, 8][2].all() and tables[6, 7, 8][:, :, 3].all()
    dates = [DAYS[0] + datetime.timedelta(day) for day in range(181)]
    order = np.zeros((3, 2), dtype=bool)
    for start, end in itertools.combinations_with_replacement(dates, 2):
        order[COLUMNS[4].encode([start])[0], COLUMNS[5].encode([end])[0]] = True
    np.testing.assert_array_equal(tables[4, 5][:3, :2], order)
    assert not order.all()


def test_a_chain_of_three_is_ordered() -> None:
    columns = [NumberColumn(name, (0, 1.5, 4, 9)) for name in ("low", "middle", "high")]
    draws = np.random.default_rng(1)
    table = {name: (9 * draws.random(800)).tolist() for name in ("low", "middle", "high")}
    table["middle"][:300] = [None] * 300
    with seeded(3):
        made = synthesize(table, columns, mu=2, constraints=[Ordered(("low", "middle", "high"))]).sample(800).to_pylist()
    assert any(row["middle"] is None for row in made)
    for row in made:
        some = [row[name] for name in ("low", "middle", "high") if row[name] is not None]
        assert some == sorted(some)


def test_the_fit_is_the_conditional_model() -> None:
    """Exact marginals of a distribution with empty cells come back, and nothing enters the empty ones."""
    joint = np.random.default_rng(4).random((3, 4)) * 100
    closed = np.zeros((3, 4), dtype=bool)
    closed[0, 2] = closed[2, 1] = True
    joint[closed] = 0
    seen = [NoisyMarginal((0,), joint.sum(axis=1), 1.0), NoisyMarginal((1,), joint.sum(axis=0), 1.0)]
    found = fit((3, 4), seen, steps=3000, possible={(0, 1): ~closed})
    assert (found.marginal((0, 1))[closed] == 0).all()
    # quasi-independence: the largest entropy with these columns is u v on the open cells, by iterated scaling
    table = (~closed).astype(float)
    for _ in range(2000):
        table *= (joint.sum(axis=1) / table.sum(axis=1))[:, None]
        table *= joint.sum(axis=0) / table.sum(axis=0)
    np.testing.assert_allclose(found.marginal((0, 1)), table, atol=1e-4 * joint.sum())
    # a measurement that is all in closed cells moves nothing there
    wrong = NoisyMarginal((0, 1), np.where(closed, 500.0, 0.0), 1.0)
    hard = fit((3, 4), [wrong], possible={(0, 1): ~closed})
    assert (hard.marginal((0, 1))[closed] == 0).all() and np.isfinite(hard.loss)
    with seeded(1):
        rows = sampled(hard, 500)
    assert not closed[rows[0], rows[1]].any()


WRONG: list[list[Constraint]] = [
    [Impossible({"sex": ["f", "m"], "pregnant": [True, False]})],
    [Determines("job", "grade", {"nurse": 3}), Impossible({"job": ["nurse"], "grade": (0, 10)}), Impossible({"job": ["surgeon", "guest"]})],
    [Ordered(("a", "b")), Sums("total", ("a", "b"))],
    [Ordered(("a", "start"))],
    [Ordered(("a", "sex"))],
    [Ordered(("a",))],
    [Ordered(("a", "a"))],
    [Sums("start", ("a", "b"))],
    [Impossible({"colour": ["red"]})],
    [Impossible({"sex": ["x"]})],
    [Impossible({"a": (0, 3), "sex": ["f"]})],
    [Determines("job", "grade", {"nurse": 99})],
    [Determines("job", "grade", {"porter": 3})],
    [Determines("a", "b", {1: 1})],
]


@pytest.mark.parametrize("rules", WRONG)
def test_contradictions_are_refused_before_payment_and_without_data(tmp_path: Path, rules: list[Constraint]) -> None:
    account = Ledger.open(f"sqlite:///{tmp_path / 'book.db'}").account("people", Budget(rho=1))

    class Untouchable(list[Any]):
        def __iter__(self) -> Any:
            raise AssertionError("read")

    table = {column.name: Untouchable() for column in COLUMNS}
    with pytest.raises(ParameterError):
        synthesize(table, COLUMNS, rho=0.5, constraints=rules, account=account)
    assert str(account.spent()) == "rho 0"


def test_sums_that_cannot_reach_and_models_above_the_cap_are_refused() -> None:
    far = [NumberColumn("a", (0, 2)), NumberColumn("b", (0, 2)), NumberColumn("total", (50, 60))]
    with pytest.raises(ParameterError, match="no row without missing values"):
        possible(far, [Sums("total", ("a", "b"))])
    wide = [NumberColumn.between(name, 0, 100, 200) for name in "abc"]
    with pytest.raises(ParameterError, match="cells"):
        possible(wide, [Sums("a", ("b", "c"))], cap=1_000_000)
    with pytest.raises(ParameterError, match="declared bins"):
        synthesize({"a": [], "b": []}, [BoughtNumbers("a", (0, 9)), wide[1]], rho=1, constraints=[Ordered(("a", "b"))])


def test_a_rule_for_cells_alone_leaves_values_out_of_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: without drawing values anew, rows with both dates in bins that overlap break the order."""
    monkeypatch.setattr(module, "_settle_order", lambda *_: None)
    with seeded(1):
        rows = synthesize(wild(800), COLUMNS[4:6], mu=1, constraints=[RULES[2]]).sample(500).to_pylist()
    assert any(row["start"] and row["end"] and row["start"] > row["end"] for row in rows)
