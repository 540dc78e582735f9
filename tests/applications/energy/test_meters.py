"""Meters: the profile is the table question it stands for; the attacks work before and fail after."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tacit.applications.energy import (
    EnergyError,
    attack_curve,
    attack_profile,
    load_profile,
    made_up_homes,
    occupied,
    running,
)
from tacit.applications.energy.meters import agreement, ranking
from tacit.ledger import Budget, Ledger
from tacit.tables import Session, Unit

UNIT = Unit("household", max_groups=48, rows_per_group=1)


def session(table: pa.Table, path: Path, epsilon: int = 10_000) -> Session:
    book = Ledger.open(f"sqlite:///{path / 'tacit.db'}")
    return Session(table, unit=UNIT, budget=Budget(epsilon=epsilon), name="meters", ledger=book, loss=False)


def test_a_profile_is_the_sum_of_clamped_readings(tmp_path: Path) -> None:
    homes = made_up_homes(60)
    answer = load_profile(session(homes.table(), tmp_path), intervals=range(48), clamp=(0, 2), epsilon=5000)
    found = answer.to_arrow()
    # The scale is 48 * 2 / 5000 kWh for each interval, and readings are rounded to the lattice.
    np.testing.assert_allclose(found.column("kwh").to_numpy(), homes.kwh.sum(axis=0), atol=0.6)


def test_a_household_is_protected_with_all_its_intervals(tmp_path: Path) -> None:
    """The price of a profile is that of 48 readings of up to 2 kWh, and epsilon in all."""
    asked = session(made_up_homes(5).table(), tmp_path)
    question = 'SELECT "interval", SUM("kwh") AS "kwh" FROM "meters" GROUP BY "interval"'
    price = asked.price(question, bounds={"kwh": (0, 2)}, keys={"interval": list(range(48))}, epsilon=1)
    assert price.epsilon <= 1
    assert price.errors["kwh"] == pytest.approx(48 * 2 * -math.log(0.05), rel=0.01)


def test_absurd_readings_change_no_other_interval(tmp_path: Path) -> None:
    rows = {"household": [1, 1, 1, 1], "interval": [0, 1, 2, 3], "kwh": [math.nan, math.inf, -1e308, 1e308]}
    found = load_profile(session(pa.table(rows), tmp_path), intervals=range(4), clamp=(0, 2), epsilon=5000)
    np.testing.assert_allclose(found.to_arrow().column("kwh").to_numpy(), [0, 2, 0, 2], atol=0.6)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"clamp": None}, "clamp is missing"), ({"clamp": (2, 0)}, "least below most"), ({"intervals": []}, "each once"),
        ({"intervals": [1, 1]}, "each once"),
    ],
)  # fmt: skip
def test_bad_requests_are_refused_before_anything_is_paid(tmp_path: Path, wrong: dict[str, object], words: str) -> None:
    asked = session(made_up_homes(3).table(), tmp_path)
    before = asked.left()
    with pytest.raises(EnergyError, match=words):
        load_profile(asked, **{"intervals": range(48), "clamp": (0, 2), "epsilon": 1, **wrong})  # type: ignore[arg-type]
    assert asked.left() == before


def test_ranking_is_the_share_of_pairs_in_order() -> None:
    rng = np.random.default_rng(1)
    score, truth = rng.integers(0, 6, 60), rng.random(60) < 0.4
    pairs = [(a > b) + (a == b) / 2 for a in score[truth] for b in score[~truth]]
    assert ranking(score, truth) == pytest.approx(np.mean(pairs))
    assert ranking([1, 2], [True, True]) == 0.5


def test_appliances_are_found_by_their_powers() -> None:
    powers = {"oven": 1.1, "kettle": 0.25, "washer": 0.45}
    rng = np.random.default_rng(4)
    on = {name: rng.random(96) < 0.2 for name in powers}
    curve = 0.1 + sum(power * on[name] for name, power in powers.items()) + rng.normal(0, 0.02, 96)
    found = running(curve, powers, base=0.1)
    assert min(agreement(found[name], on[name]) for name in powers) > 0.95
    with pytest.raises(EnergyError, match="1 to 12"):
        running(curve, {str(i): 1.0 for i in range(13)})


def test_a_curve_gives_the_household_away_and_the_profile_does_not(tmp_path: Path) -> None:
    """Before: occupancy is ranked at .85 or more. After, at epsilon 1, knowing all other households helps nothing beyond chance."""
    homes = made_up_homes(150)
    answer = load_profile(session(homes.table(), tmp_path), intervals=range(48), clamp=(0, 2), epsilon=1)
    profile = answer.to_arrow().column("kwh").to_numpy()
    found = [attack_profile(homes, profile, house) for house in range(100)]
    before, knowing = (np.mean([getattr(one, name).occupancy for one in found]) for name in ("before", "knowing_others"))
    assert before > 0.85 and 0.35 < knowing < 0.65
    told = [np.mean([getattr(one, name).appliances for one in found]) for name in ("before", "knowing_others")]
    assert told[0] > 0.45 > 0.25 > told[1]


def test_a_flat_curve_tells_nothing() -> None:
    flat = attack_curve(np.full(48, 3.0), np.arange(48) % 2 == 0, {"oven": np.zeros(48, bool)}, {"oven": 1.0})
    assert flat.occupancy == 0.5 and not occupied(np.full(48, 3.0)).any()
