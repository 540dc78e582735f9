"""Class sums: one person moves one of them, the noise is the priced one, and the fit and its error bar are those of the formulas."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting import Adjacency, Guarantee, ParameterError, PureDP
from tacit.learning.linear import pure as class_sums
from tacit.learning.linear.pure import REACH, ClassSums, deviation
from tacit.noise import test_mode

AR = Adjacency.ADD_REMOVE


def norm(sums: np.ndarray) -> float:
    """The norm of the noise: the largest coordinate of every class, summed."""
    return float(np.abs(sums).max(axis=1).sum())


def silent(scale: Fraction, dimension: int) -> np.ndarray:
    return np.zeros(dimension, dtype=np.int64)


@settings(max_examples=30)
@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=6, max_size=6), st.integers(-1, 2), st.integers(-1, 2))
def test_one_person_moves_the_sums_by_no_more_than_is_priced(values: list[float], one: int, other: int) -> None:
    plan = ClassSums.plan(Guarantee(epsilon=1, delta=0), AR, features=3, classes=3, rows=None)
    generator = np.random.default_rng(3)
    others, codes = generator.uniform(-1, 1, (5, 3)), generator.integers(0, 3, 5)
    a, b = np.array(values[:3]), np.array(values[3:])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(class_sums, "cube_noise", silent)
        without = plan.sums(others, codes)
        first = plan.sums(np.vstack([others, a]), np.append(codes, one))
        second = plan.sums(np.vstack([others, b]), np.append(codes, other))
        both = plan.sums(np.vstack([others, a, a]), np.append(codes, [0, 1]))
    assert norm(first - without) <= 1 and norm(first - second) <= 2
    assert norm(both - without) == 2, "the mutant, a person counted in two classes, is caught: the constant alone shows it"


@pytest.mark.parametrize("adjacency", [Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE])
def test_the_noise_that_is_drawn_is_the_noise_that_is_priced(adjacency: Adjacency, monkeypatch: pytest.MonkeyPatch) -> None:
    guarantee = Guarantee(epsilon=0.5, delta=0)
    plan = ClassSums.plan(guarantee, adjacency, features=4, classes=3, rows=100)
    drawn = []

    def spy(scale: Fraction, dimension: int) -> np.ndarray:
        drawn.append((scale / (1 << 24), dimension))
        return silent(scale, dimension)

    monkeypatch.setattr(class_sums, "cube_noise", spy)
    plan.run(np.zeros((2, 4)), np.zeros(2, dtype=np.int64))
    assert isinstance(plan.event, PureDP) and 0.4999999 < guarantee.typed_price(plan.event, adjacency).upper <= 0.5
    moved = 1 if adjacency is Adjacency.ADD_REMOVE else 2
    assert drawn == [(moved / Fraction(float(plan.event.epsilon)), 5)] * 3
    assert plan.noise == pytest.approx(moved * deviation(5) / 0.5)


def test_without_people_the_sums_are_noise_of_the_stated_size() -> None:
    plan = ClassSums.plan(Guarantee(epsilon=0.1, delta=0), AR, features=3999, classes=2, rows=10)
    with test_mode(1):
        found = plan.sums(np.zeros((0, 3999)), np.zeros(0, dtype=np.int64))
    assert found.std() == pytest.approx(plan.noise, rel=0.1)


@pytest.mark.parametrize("classes", [2, 3])
def test_without_noise_slopes_are_sums_around_the_centre(classes: int) -> None:
    generator = np.random.default_rng(1)
    U, codes = generator.uniform(-0.6, 0.6, (400, 3)) + 0.1, generator.integers(0, classes, 400)
    plan = ClassSums.plan(Guarantee(epsilon=1e7, delta=0), AR, features=3, classes=classes, rows=400)
    with test_mode(1):
        found = plan.run(U, codes)
    centred = U / REACH - U.mean(axis=0) / REACH
    slopes = np.array([centred[codes == k].sum(axis=0) for k in range(classes)])
    slopes = slopes if classes > 2 else slopes[[1]] - slopes[[0]]
    assert found.coef / np.linalg.norm(found.coef) == pytest.approx(slopes / np.linalg.norm(slopes), abs=1e-4)
    shares = np.log(np.bincount(codes) / 400)
    level = shares if classes > 2 else shares[[1]] - shares[[0]]
    assert found.intercept == pytest.approx(level - found.coef @ U.mean(axis=0), rel=1e-3, abs=1e-3)


def test_a_rare_class_is_rarely_foretold() -> None:
    """The mutant, without the logarithms of the shares, cuts through the centre and calls half of the rows rare."""
    generator = np.random.default_rng(5)
    codes = (generator.random(4000) < 0.1).astype(np.int64)
    U = np.clip(generator.normal(0.0, 0.4, (4000, 5)) + 0.1 * codes[:, None], -1, 1)
    plan = ClassSums.plan(Guarantee(epsilon=0.5, delta=0), AR, features=5, classes=2, rows=4000)
    with test_mode(1):
        found = plan.run(U, codes)
    scores = U @ found.coef[0] + found.intercept[0]
    assert np.mean((scores > 0) == codes) > 0.88
    assert np.mean((scores > np.median(scores)) == codes) < 0.65


@pytest.mark.parametrize("classes", [2, 3])
def test_the_error_bar_is_the_first_order_of_the_fit(classes: int) -> None:
    """Against a numerical derivative by every sum; the shrinking factor is all but 1 here."""
    d, n = 3, 100_000
    plan = ClassSums.plan(Guarantee(epsilon=1, delta=0), AR, features=d, classes=classes, rows=n)
    generator = np.random.default_rng(2)
    sums = np.hstack([generator.uniform(0.1, 0.6, (classes, d)) * n / classes, np.full((classes, 1), n / classes)])
    sums[:, -1] += np.arange(classes) * 2000.0 - 1000.0 * (classes - 1)
    spreads = []
    for output in range(1 if classes == 2 else classes):
        columns = []
        for place in np.ndindex(sums.shape):
            up, down = sums.copy(), sums.copy()
            up[place] += 1.0
            down[place] -= 1.0
            high, low = plan.fit(up), plan.fit(down)
            columns.append(np.append(high.coef[output] - low.coef[output], high.intercept[output] - low.intercept[output]) / 2)
        jacobian = np.array(columns).T
        spreads.append(plan.noise**2 * jacobian @ jacobian.T)
    bar = plan.fit(sums).bar
    assert bar is not None and bar.kind == "first order" and not bar.gaussian
    assert min(np.abs(bar.covariance - spread).max() / np.abs(spread).max() for spread in spreads) < 1e-3


def test_a_private_number_of_rows_is_read_off_the_sums() -> None:
    generator = np.random.default_rng(4)
    U = np.clip(generator.normal(0.3, 0.2, (5000, 2)), -1, 1)
    codes = (U[:, 0] > U[:, 1]).astype(np.int64)
    public, private = (ClassSums.plan(Guarantee(epsilon=1, delta=0), AR, features=2, classes=2, rows=rows) for rows in (5000, None))
    with test_mode(3):
        sums = public.sums(U, codes)
        empty = private.run(np.zeros((0, 2)), np.zeros(0, dtype=np.int64))
    a, b = public.fit(sums), private.fit(sums)
    assert b.coef == pytest.approx(a.coef, rel=0.02) and np.isfinite(empty.coef).all()
    scores = U @ a.coef[0] + a.intercept[0]
    assert np.mean((scores > 0) == codes) > 0.95


def test_only_pure_promises() -> None:
    for guarantee in (Guarantee(epsilon=1, delta=1e-6), Guarantee(rho=1), Guarantee(mu=1)):
        with pytest.raises(ParameterError, match="pure"):
            ClassSums.plan(guarantee, AR, features=2, classes=2, rows=None)
    assert math.isfinite(ClassSums.plan(Guarantee(epsilon=1e-12, delta=0), AR, features=2, classes=2, rows=None).noise)
