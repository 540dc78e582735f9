"""Forgetting: bit for bit the model without the record, at the least work; what it does not promise, and what privacy does."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import Gaussian, ParameterError, PureDP, account
from tacit.deep import Shards, SummationForm, already_forgotten

NUMBERS = st.floats(-1e6, 1e6, allow_nan=False)


@given(st.lists(NUMBERS, min_size=2, max_size=20), st.data())
def test_sums_come_back_to_the_last_bit(rows: list[float], data: Any) -> None:
    gone = data.draw(st.integers(0, len(rows) - 1))
    with_all, without = (SummationForm(lambda row: [1.0, row, row * row], solve=lambda sums: sums) for _ in range(2))
    for row in rows:
        with_all.learn(row)
    with_all.forget(rows[gone])
    for k, row in enumerate(rows):
        if k != gone:
            without.learn(row)
    assert with_all.sums.tobytes() == without.sums.tobytes()


def test_least_squares_from_sums() -> None:
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(50, 3)), generator.normal(size=50)

    def statistic(row: Any) -> Any:
        return np.concatenate([np.outer(row[0], row[0]).ravel(), row[0] * row[1]])

    form = SummationForm(statistic, solve=lambda sums: np.linalg.solve(sums[:9].reshape(3, 3), sums[9:]))
    for row in zip(x, y, strict=True):
        form.learn(row)
    form.forget((x[7], y[7]))
    kept = np.arange(50) != 7
    assert np.allclose(form.model(), np.linalg.lstsq(x[kept], y[kept], rcond=None)[0], atol=1e-9)
    with pytest.raises(ParameterError, match="same length"):
        form.learn((x[0, :2], y[0]))
    with pytest.raises(ParameterError, match="nothing was learned"):
        SummationForm(statistic, solve=lambda sums: sums).model()


class Counting:
    """A model that depends on the order of its rows, and a count of slices that were trained."""

    def __init__(self) -> None:
        self.slices = 0

    def __call__(self, model: Any, rows: list[int]) -> Any:
        self.slices += 1
        state = 7 if model is None else model
        for row in rows:
            state = (31 * state + row) % 1_000_003
        return state


@given(st.integers(1, 5), st.integers(1, 4), st.data())
def test_shards_are_those_trained_without_the_rows(shards: int, slices: int, data: Any) -> None:
    rows = list(range(23))
    gone = data.draw(st.lists(st.sampled_from(rows), unique=True, max_size=6))
    fit = Counting()
    ensemble = Shards(fit, rows, shards=shards, slices=slices)
    assert fit.slices == shards * slices
    before = ensemble.models()
    work = ensemble.forget(gone)
    assert fit.slices == shards * slices + work
    # By hand: each shard's slices without the rows, from the beginning.
    expected = []
    for k in range(shards):
        state = None
        for cut in range(slices):
            state = Counting()(state, [row for row in rows[k::shards][cut::slices] if row not in gone])
        expected.append(state)
    assert ensemble.models() == expected
    touched = {row % shards for row in gone}
    assert [before[k] for k in range(shards) if k not in touched] == [expected[k] for k in range(shards) if k not in touched]
    first = {k: min(rows[k::shards].index(row) % slices for row in gone if row % shards == k) for k in touched}
    assert work == sum(slices - cut for cut in first.values())


def test_a_vote_decides() -> None:
    ensemble = Shards(lambda model, rows: lambda x: np.full(len(x), min(rows)), range(6), shards=3)
    assert ensemble.predict([0, 0]).tolist() == [0, 0]
    with pytest.raises(ParameterError, match="not there"):
        ensemble.forget([99])
    with pytest.raises(ParameterError, match="not there"):
        ensemble.forget([1, 1])
    with pytest.raises(ParameterError, match="differ"):
        Shards(lambda model, rows: model, [1, 1], shards=1)


def test_what_was_forgotten_shows_in_the_difference() -> None:
    """Exact unlearning is not private: two published means and the public number of rows give the record away."""
    form = SummationForm(lambda row: [1.0, row], solve=lambda sums: sums[1] / sums[0])
    for row in (4.0, 8.0, 42.0):
        form.learn(row)
    before = form.model()
    form.forget(42.0)
    assert 3 * before - 2 * form.model() == pytest.approx(42)


def test_privacy_forgets_in_advance() -> None:
    assert already_forgotten(PureDP(0.5), 4, 0.0).upper == pytest.approx(2.0)
    one, three = (already_forgotten(Gaussian(5.0), records, 1e-6).upper for records in (1, 3))
    assert one == account(Gaussian(5.0)).epsilon(1e-6).upper
    assert three == pytest.approx(account(Gaussian(5.0 / 3)).epsilon(1e-6).upper, rel=1e-6)
    assert math.isclose(already_forgotten(PureDP(0.1), 1, 0.0).upper, 0.1, rel_tol=1e-9)
