"""Noise-aware tables: the rule by hand, coverage by simulation, and what is not covered said so."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, t

from tacit.errors import ParameterError
from tacit.noise import test_mode as seeded
from tacit.synthesis import CategoryColumn, Direct, NumberColumn, noise_aware, rubin, synthesize

COLUMNS = [
    CategoryColumn("sex", ("f", "m")),
    NumberColumn("grade", (1, 2, 3, 4, 5, 6), whole=True),
    NumberColumn("score", tuple(range(11)), whole=True),
]
PAIRS = Direct(((0, 1), (1, 2), (0, 2)))


def people(rows: int, draws: np.random.Generator) -> dict[str, list[Any]]:
    sex = draws.choice(["f", "m"], rows, p=[0.45, 0.55])
    grade = draws.integers(1, 6, rows)
    score = np.clip(np.rint(0.8 * grade + (sex == "m") + draws.normal(1.5, 1.2, rows)), 0, 9).astype(int)
    return {"sex": sex.tolist(), "grade": grade.tolist(), "score": score.tolist()}


def least_squares(table: dict[str, list[Any]]) -> np.ndarray:
    x = np.column_stack([np.ones(len(table["sex"])), table["grade"], np.array(table["sex"]) == "m"]).astype(float)
    return np.linalg.lstsq(x, np.array(table["score"], dtype=float), rcond=None)[0]


def test_the_rule_by_hand() -> None:
    estimates, variances = [4.0, 6.0, 5.5, 4.5], [0.3, 0.5, 0.4, 0.4]
    found = rubin(estimates, variances, confidence=0.9)
    between = np.var(estimates, ddof=1)
    whole = 0.4 + 1.25 * between
    freedom = 3 * (1 + 0.4 / (1.25 * between)) ** 2
    assert found.estimate == 5 and found.between == pytest.approx(between) and found.within == pytest.approx(0.4)
    assert (found.high - found.low) / 2 == pytest.approx(t.ppf(0.95, freedom) * math.sqrt(whole))
    about = rubin(estimates, variances, about="table")
    assert (about.high - about.low) / 2 == pytest.approx(t.ppf(0.975, 3) * math.sqrt(1.25 * between))
    same = rubin([2.0, 2.0], [1.0, 1.0])
    assert same.high == pytest.approx(2 + 1.959964, abs=1e-5)
    for wrong in (lambda: rubin([1.0], [1.0]), lambda: rubin([1.0, 2.0], [1.0, 1.0], about="all")):  # type: ignore[arg-type]
        with pytest.raises(ParameterError):
            wrong()


def covered(runs: int, mu: float, tables: int, rows: int = 2000) -> tuple[dict[str, int], dict[str, int]]:
    """How many intervals hold the truth, with the noise in them and without."""
    draws = np.random.default_rng(7)
    beta = least_squares(people(400_000, np.random.default_rng(5)))
    scores = np.mean(people(400_000, np.random.default_rng(6))["score"])
    aware: dict[str, int] = {}
    naive: dict[str, int] = {}
    for run in range(runs):
        table = people(rows, draws)
        with seeded(run):
            several = noise_aware(synthesize(table, COLUMNS, mu=mu, method=PAIRS), tables=tables, steps=120)
        line = several.regression("score", ["grade", "sex"])
        pair = sum(a == "f" and b == 2 for a, b in zip(table["sex"], table["grade"], strict=True))
        for name, one, truth in (
            ("mean", several.mean("score"), scores), ("mean of women", several.mean("grade", {"sex": "f"}), 3.0),
            ("women", several.count({"sex": "f"}), table["sex"].count("f")), ("cell", several.count({"sex": "f", "grade": 2}), pair),
            ("slope", line["grade"], beta[1]), ("men", line["sex m"], beta[2]),
        ):  # fmt: skip
            assert one.supported
            aware[name] = aware.get(name, 0) + (one.low <= truth <= one.high)
            blind = 1.96 * math.sqrt(one.within)
            naive[name] = naive.get(name, 0) + (abs(one.estimate - truth) <= blind)
    return aware, naive


def test_intervals_cover_and_those_without_the_noise_do_not() -> None:
    aware, naive = covered(30, mu=0.1, tables=6)
    # 30 intervals of 95 %: fewer than 23 hold the truth with probability 3e-4 for each of the six
    assert binom.cdf(22, 30, 0.95) < 4e-4
    assert min(aware.values()) >= 23, aware
    assert naive["slope"] < 23 and naive["men"] < 23 and naive["mean of women"] < 23, naive


@pytest.mark.slow
@pytest.mark.parametrize("mu", [0.2, 0.5])
def test_coverage_is_near_what_is_stated(mu: float) -> None:
    aware, _ = covered(400, mu=mu, tables=10)
    # 400 intervals: the share deviates by .011, and 4 of that is one in 16,000; wider than stated is allowed
    assert all(hits / 400 >= 0.95 - 0.044 for hits in aware.values()), aware


def test_what_was_not_measured_together_is_not_supported() -> None:
    draws = np.random.default_rng(1)
    with seeded(1):
        several = noise_aware(synthesize(people(500, draws), COLUMNS, mu=1, method="independent"), tables=2, steps=20)
    assert several.mean("score").supported and several.count({"sex": "f"}).supported
    assert not several.mean("grade", {"sex": "f"}).supported
    assert not any(one.supported for one in several.regression("score", ["grade", "sex"]).values())


def test_a_regression_is_least_squares_in_every_table() -> None:
    draws = np.random.default_rng(2)
    with seeded(3):
        several = noise_aware(synthesize(people(3000, draws), COLUMNS, mu=50, method=PAIRS), tables=3, steps=100)
    found = several.regression("score", ["grade", "sex"])
    assert list(found) == ["intercept", "grade", "sex m"]
    tables = [one.to_pydict() for one in (several.first, *several.tables)]
    betas = []
    for one in tables:
        whole = [row for row in zip(*one.values(), strict=True) if None not in row]
        betas.append(least_squares({name: [row[place] for row in whole] for place, name in enumerate(one)}))
    expected = 2 * betas[0] - np.mean(betas[1:], axis=0)
    assert [one.estimate for one in found.values()] == pytest.approx(expected.tolist())


def test_several_tables_touch_nothing_private_and_strange_ones_do_not_fail() -> None:
    with seeded(1):
        empty = synthesize({"sex": [], "grade": [], "score": []}, COLUMNS, mu=1)
        several = noise_aware(empty, tables=2, steps=5, rows=0)
    assert several.tables[0].num_rows == 0
    assert several.mean("score").estimate == 0 and several.regression("score", ["grade"])["grade"].estimate == 0
    with pytest.raises(ParameterError, match="no column"):
        several.mean("grade", {"age": 3})
    with pytest.raises(ParameterError, match="no column"):
        several.regression("score", ["age"])
