"""Two made-up populations for synthesis, of our own: households with mixed columns, and a random network.

    rows, sizes = households(seed)          # 48,842 x 15, a census-like table: heavy tails, rare cells, a function, a label
    rows, sizes = network(seed)             # 40,000 x 14, every column depends on two before it, 2 to 30 cells

A population is fixed; a seed draws people from it. Rows are lists of cell numbers, one array a column. `pair_error` is
the mean total variation of all marginals of k columns.
"""

from __future__ import annotations

import itertools

import numpy as np

from tacit.synthesis import counted

Table = tuple[list[np.ndarray], tuple[int, ...]]
#: Columns of a household table, with their cells.
HOUSEHOLDS = {
    "age": 37, "sector": 9, "weight": 32, "school": 16, "years": 16, "status": 7, "trade": 15, "role": 6,
    "origin": 5, "sex": 2, "gain": 32, "loss": 32, "hours": 33, "birthplace": 42, "label": 2,
}  # fmt: skip


def households(seed: int, rows: int = 48_842) -> Table:
    """People with an age, a schooling, a trade, an income label, ...; some columns nearly follow from others."""
    fixed, rng = np.random.default_rng(20260), np.random.default_rng([5, seed])
    sizes = tuple(HOUSEHOLDS.values())

    def given(logits: np.ndarray) -> np.ndarray:
        """One draw a row from its own soft-max."""
        noisy = logits + rng.gumbel(size=logits.shape)
        return noisy.argmax(axis=1)

    def effect(size: int, *factors: np.ndarray, scale: float = 0.9) -> np.ndarray:
        """Random smooth effects of some columns on the logits of another."""
        found = np.tile(1.6 * fixed.standard_normal(size) - 0.8, (rows, 1))
        for factor in factors:
            table = scale * fixed.standard_normal((int(factor.max(initial=0)) + 60, size))
            found = found + table[factor]
        return found

    age = np.clip(rng.gamma(2.3, 5.0, rows), 0, 36).astype(np.int64)
    band = age // 6
    sex = (rng.random(rows) < 0.66).astype(np.int64)
    origin = rng.choice(5, rows, p=[0.85, 0.09, 0.035, 0.015, 0.01])
    rare = np.concatenate([[4.0, 0.8], -1.5 + fixed.standard_normal(40)])
    birthplace = given(rare + np.where(origin[:, None] > 1, 2.0 * fixed.standard_normal(42), 0.0))
    school = given(effect(16, origin, band))
    status = given(effect(7, band, sex, scale=1.2))
    role = given(effect(6, status, sex, scale=2.0))
    trade = given(effect(15, school // 3, sex))
    sector = given(effect(9, trade))
    hours = np.clip(np.rint(13 + 3 * sex - 3 * (band < 1) + (trade % 4) + 3.6 * rng.standard_normal(rows)), 0, 32)
    hours = np.where(rng.random(rows) < 0.45, 13, hours).astype(np.int64)
    weight = np.clip(np.rint(15 + 4 * rng.standard_normal(rows) + (origin == 1)), 0, 31).astype(np.int64)
    rich = 0.35 * (school - 8) + 0.5 * (status == 0) + 0.2 * (band - 2) + 0.08 * (hours - 13)
    has_gain = rng.random(rows) < 1 / (1 + np.exp(3.0 - 0.3 * rich))
    gain = np.where(has_gain, np.clip(20 + 2 * rng.standard_normal(rows) + 0.8 * rich, 1, 31), 0).astype(np.int64)
    has_loss = ~has_gain & (rng.random(rows) < 0.045)
    loss = np.where(has_loss, np.clip(13 + 2.5 * rng.standard_normal(rows), 1, 31), 0).astype(np.int64)
    label = (rng.random(rows) < 1 / (1 + np.exp(1.4 - 0.7 * rich - 2.2 * (gain > 21)))).astype(np.int64)
    made = dict(
        age=age, sector=sector, weight=weight, school=school, years=school, status=status, trade=trade, role=role,
        origin=origin, sex=sex, gain=gain, loss=loss, hours=hours, birthplace=birthplace, label=label,
    )  # fmt: skip
    return [np.ascontiguousarray(made[name]) for name in HOUSEHOLDS], sizes


def network(seed: int, rows: int = 40_000, columns: int = 14) -> Table:
    """Each column is drawn from a random table of two columns before it."""
    fixed, rng = np.random.default_rng(31415), np.random.default_rng([6, seed])
    sizes = tuple(int(size) for size in np.rint(np.exp(fixed.uniform(np.log(2), np.log(30), columns))))
    found: list[np.ndarray] = []
    for column in range(columns):
        parents = fixed.choice(column, min(column, 2), replace=False) if column else []
        group = np.zeros(rows, dtype=np.int64)
        for parent in parents:
            group = group * sizes[parent] + found[parent]
        groups = int(np.prod([sizes[parent] for parent in parents], dtype=np.int64))
        cumulated = np.cumsum(fixed.dirichlet(np.full(sizes[column], 0.5), size=groups), axis=1)
        drawn = (rng.random(rows)[:, None] > cumulated[group]).sum(axis=1)
        found.append(np.minimum(drawn, sizes[column] - 1))
    return found, sizes


def pair_error(real: list[np.ndarray], made: list[np.ndarray], sizes: tuple[int, ...], k: int = 2) -> float:
    """The mean total variation of all marginals of k columns."""
    errors = []
    for columns in itertools.combinations(range(len(sizes)), k):
        first, second = (counted(rows, sizes, columns) / max(1, len(rows[0])) for rows in (real, made))
        errors.append(np.abs(first - second).sum() / 2)
    return float(np.mean(errors))
