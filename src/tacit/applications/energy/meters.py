"""Household load profiles from smart meters, and what a curve gives away before and after.

A meter's curve tells when people are at home and which appliances run. `load_profile` publishes the sum over all
households in every interval, with the household as the unit: all its readings together are protected, under a clamp
for each interval. The attacks are two: `occupied` takes a household for at home where its curve is high, and
`running` finds the appliances whose known powers explain the curve best (Hart 1992). `attack_profile` measures both
on the curve itself, on the published profile, and for an attacker who knows every other household and subtracts them.

>>> import pathlib, tempfile
>>> from tacit.applications.energy import load_profile, made_up_homes
>>> from tacit.ledger import Budget, Ledger
>>> from tacit.tables import Session, Unit
>>> homes = made_up_homes(300)
>>> book = Ledger.open(f"sqlite:///{pathlib.Path(tempfile.mkdtemp()) / 'tacit.db'}")
>>> unit = Unit("household", max_groups=48, rows_per_group=1)
>>> session = Session(homes.table(), unit=unit, budget=Budget(epsilon=1), name="meters", ledger=book)
>>> answer = load_profile(session, intervals=range(48), clamp=(0, 2), epsilon=1)
>>> len(answer.to_arrow()), answer.to_arrow().column_names[:2]
(48, ['interval', 'kwh'])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.applications.energy.errors import EnergyError
from tacit.exact import Typed, exact

if TYPE_CHECKING:
    import pyarrow as pa

    from tacit.tables import Answer, Session

Floats = NDArray[np.float64]
Bits = NDArray[np.bool_]

#: Appliances that are told apart at most: each doubles the work.
MOST_APPLIANCES = 12


# --- the release ----------------------------------------------------------------------------------------------------


def profile_question(table: str, interval: str, value: str) -> str:
    """The question that a profile stands for, in SQL."""

    def quoted(name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    return f"SELECT {quoted(interval)}, SUM({quoted(value)}) AS {quoted(value)} FROM {quoted(table)} GROUP BY {quoted(interval)}"


def checked_clamp(clamp: object) -> tuple[Any, Any]:
    """The least and most that one household counts for in an interval; a missing one is refused by name."""
    if not isinstance(clamp, (tuple, list)) or len(clamp) != 2:
        raise EnergyError("clamp is missing: declare the least and most kWh of a household in one interval, such as (0, 5)")
    low, high = (exact("clamp", end) for end in clamp)
    if not low < high:
        raise EnergyError("clamp must be (least, most) with least below most, in kWh for an interval")
    return clamp[0], clamp[1]


def load_profile(
    session: Session, *, intervals: Iterable[Any], clamp: tuple[Typed, Typed], epsilon: Typed, value: str = "kwh",
    interval: str = "interval", table: str | None = None, purpose: str = "load profile", **options: Any,
) -> Answer:
    """The energy of all households together in every public interval, with the session's unit protected.

    The unit should be a household, with max_groups for how many intervals of it count and rows_per_group for how many
    readings an interval has. `clamp` bounds a reading, in kWh. Other options are those of `Session.sql`. This is the
    table question it stands for, priced and paid as such; its guarantee is that of `tacit.tables`.
    """
    ends = checked_clamp(clamp)
    listed = list(intervals)
    if not listed or len(set(listed)) < len(listed):
        raise EnergyError("intervals must be the public intervals, each once, such as range(48)")
    question = profile_question(session.name if table is None else table, interval, value)
    return session.sql(
        question, bounds={value: ends}, keys={interval: listed}, epsilon=epsilon, purpose=purpose, **options
    )


# --- the attacks ----------------------------------------------------------------------------------------------------


def occupied(curve: ArrayLike, *, per_day: int = 48, quantile: float = 0.3) -> Bits:
    """Where a household's own curve says that someone is at home: above the level of its quiet intervals.

    The quiet level is a quantile of the curve, smoothed over an hour; no training data is needed (after Kleiminger,
    Beckel, Santini 2015).
    """
    values = np.asarray(curve, dtype=float)
    wide = max(1, per_day // 24)
    smooth = np.convolve(values, np.ones(wide) / wide, mode="same")
    level = np.quantile(smooth, quantile)
    spread = np.quantile(smooth, 0.9) - level
    found: Bits = smooth > level + 0.15 * spread
    return found


def running(curve: ArrayLike, appliances: Mapping[str, float], *, base: float | None = None) -> dict[str, Bits]:
    """When each appliance runs: in every interval the set whose powers, in kWh for an interval, explain the curve best.

    `base` is what always runs; without it, the curve's lowest decile.

    >>> found = running([0.1, 1.1, 0.6, 1.6], {"oven": 1.0, "washer": 0.5}, base=0.1)
    >>> found["oven"].tolist(), found["washer"].tolist()
    ([False, True, False, True], [False, False, True, True])
    """
    if not 0 < len(appliances) <= MOST_APPLIANCES:
        raise EnergyError(f"appliances must be 1 to {MOST_APPLIANCES}, with what each takes in an interval")
    values = np.asarray(curve, dtype=float)
    above = values - (np.quantile(values, 0.1) if base is None else base)
    sets = np.array(list(product([False, True], repeat=len(appliances))))
    totals = sets @ np.array(list(appliances.values()), dtype=float)
    best = sets[np.abs(above[:, None] - totals[None, :]).argmin(axis=1)]
    return {name: best[:, place] for place, name in enumerate(appliances)}


def ranking(score: ArrayLike, truth: ArrayLike) -> float:
    """The chance that an interval where it is true has the higher score: the area under the curve; ties count half.

    >>> ranking([1, 2, 3, 4], [False, False, True, True]), ranking([1, 1], [True, False])
    (1.0, 0.5)
    """
    values, known = np.asarray(score, dtype=float), np.asarray(truth, dtype=bool)
    yes, no = values[known], values[~known]
    if not len(yes) or not len(no):
        return 0.5
    ordered = np.sort(no)
    below = np.searchsorted(ordered, yes, "left") + np.searchsorted(ordered, yes, "right")
    return float(below.mean() / (2 * len(no)))


def agreement(guess: Bits, truth: Bits) -> float:
    """The F1 score of a guess: harmonic mean of how much of it is right and how much of the truth it finds."""
    both = int((guess & truth).sum())
    return 2 * both / max(1, int(guess.sum()) + int(truth.sum()))


@dataclass(frozen=True)
class MeterAttack:
    """What an attacker finds in one curve: occupancy as an area under the curve (.5 is guessing) and a share of intervals told right,
    appliances as a mean F1 score."""

    occupancy: float
    told_right: float
    appliances: float


@dataclass(frozen=True)
class ProfileAttack:
    """The attacks on a household: on its own curve, on the published profile, and on what is left when all others are subtracted."""

    before: MeterAttack
    after: MeterAttack
    knowing_others: MeterAttack


def attack_curve(curve: ArrayLike, home: Bits, used: Mapping[str, Bits], powers: Mapping[str, float]) -> MeterAttack:
    """Both attacks on one curve, against the truth."""
    guess = running(curve, powers)
    scores = [agreement(guess[name], used[name]) for name in powers]
    right = float((occupied(curve) == home).mean())
    return MeterAttack(ranking(curve, home), right, float(np.mean(scores)))


def attack_profile(homes: Homes, profile: ArrayLike, house: int) -> ProfileAttack:
    """The attacks on one made-up household, from a profile of sums that was published of all of them."""
    released = np.asarray(profile, dtype=float)
    others = np.clip(homes.kwh, 0, None).sum(axis=0) - homes.kwh[house]
    used = {name: bits[house] for name, bits in homes.used.items()}
    truth = homes.home[house]
    return ProfileAttack(
        attack_curve(homes.kwh[house], truth, used, homes.powers),
        attack_curve(released / len(homes.kwh), truth, used, homes.powers),
        attack_curve(released - others, truth, used, homes.powers),
    )


# --- made-up homes --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Homes:
    """Made-up households: `kwh[i, t]`, whether someone is at home, and when each appliance runs. They describe no real home."""

    kwh: Floats
    home: Bits
    used: Mapping[str, Bits]
    powers: Mapping[str, float]

    def table(self) -> pa.Table:
        """The readings as a table with household, interval and kwh."""
        import pyarrow as pa

        houses, intervals = self.kwh.shape
        return pa.table(
            {
                "household": np.repeat(np.arange(houses), intervals),
                "interval": np.tile(np.arange(intervals), houses),
                "kwh": self.kwh.ravel(),
            }
        )


#: Appliances of the made-up homes: kWh in half an hour, the hours in which they are likely, and how likely.
APPLIANCES: Mapping[str, tuple[float, Sequence[int], float]] = {
    "oven": (1.1, (18, 19), 0.35), "kettle": (0.25, (7, 8, 16, 21), 0.4), "washer": (0.45, (9, 10, 19), 0.2),
    "television": (0.08, (19, 20, 21, 22), 0.8),
}  # fmt: skip


def made_up_homes(count: int, *, days: int = 1, seed: int = 7) -> Homes:
    """Households with half-hourly readings, people who come and go, and four appliances.

    >>> homes = made_up_homes(5, days=2)
    >>> homes.kwh.shape, sorted(homes.powers)
    ((5, 96), ['kettle', 'oven', 'television', 'washer'])
    """
    made = np.random.default_rng(seed)
    hours = np.tile(np.repeat(np.arange(24), 2), days)
    shape = (count, len(hours))
    leaves, returns = made.normal(8, 1.0, (count, 1)), made.normal(17.5, 1.5, (count, 1))
    away = (hours[None, :] >= leaves) & (hours[None, :] < returns)
    kind = made.random((count, 1))  # a quarter stay at home, a fifth work at night
    late = (kind > 0.8) & ((hours[None, :] >= 20) | (hours[None, :] < 6))
    home: Bits = ~np.where(kind < 0.25, False, np.where(kind > 0.8, late, away))
    asleep = np.where(kind > 0.8, (hours >= 7) & (hours < 13), (hours < 6) | (hours >= 23))
    base = made.uniform(0.05, 0.12, (count, 1))
    kwh = base * made.normal(1, 0.05, shape) + np.where(home & ~asleep, made.gamma(3, 0.02, shape), 0.0)
    kwh = kwh + (made.random(shape) < 0.2) * 0.08  # a refrigerator, whoever is there
    used = {}
    for name, (power, likely, chance) in APPLIANCES.items():
        on = home & np.isin(hours, likely)[None, :] & (made.random(shape) < chance)
        used[name] = on
        kwh = kwh + on * power
    return Homes(np.maximum(kwh, 0.0), home & ~asleep, used, {name: power for name, (power, _, _) in APPLIANCES.items()})
