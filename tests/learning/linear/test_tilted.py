"""The tilted minimum: shares of classes as its floor, the price of its determinant, and the plain minimum with much budget."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression as Plain

from tacit.accounting import Adjacency, Guarantee
from tacit.learning import LogisticRegression
from tacit.learning.linear.losses import logistic, multinomial
from tacit.learning.linear.prior import DOUBT, Prior, agreed_length, bearable_noise, class_shares, held, kept
from tacit.learning.linear.pure import deviation
from tacit.learning.linear.purse import Purse
from tacit.learning.linear.tilted import CONSTANT, LENGTH, best_ridge, turns_wrongly
from tacit.mechanisms import farthest
from tacit.noise import test_mode

AR, RO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE


@pytest.mark.parametrize("adjacency", [AR, RO])
@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 30.0])
def test_the_ridge_is_the_best_of_its_prediction_and_leaves_something_for_the_tilt(epsilon: float, adjacency: Adjacency) -> None:
    for loss, outputs in ((logistic, 1), (multinomial(4), 4)):
        ridge, determinant = best_ridge(loss, epsilon, 50.0, 7, outputs, adjacency)
        bend = loss.curvature * (7 + CONSTANT**2)
        assert determinant == pytest.approx(loss.rank * math.log1p(bend / ridge)) and 0 < determinant < 0.9 * epsilon

        def error(at: float, loss: object = loss, outputs: int = outputs, bend: float = bend) -> float:
            left = epsilon - loss.rank * math.log1p(bend / at)  # type: ignore[attr-defined]
            noise = deviation(8) * farthest(loss.total_slope(outputs), adjacency) / left  # type: ignore[attr-defined]
            return float(outputs * 8 * noise**2 * 50 / (50 + at) ** 2 + 50 * (at * LENGTH / (50 + at)) ** 2)

        assert error(ridge) <= min(error(ridge * 1.5), error(ridge / 1.05) if error(ridge / 1.05) > 0 else math.inf) * 1.05


def unequal(seed: int, rows: int = 6000) -> tuple[np.ndarray, np.ndarray]:
    """Four classes in five are 0, and skewed features say nothing about it."""
    generator = np.random.default_rng(seed)
    X = np.minimum(generator.exponential(0.08, (rows, 10)), 1.0) * 2 - 1
    return X, (generator.random(rows) < 0.2).astype(int)


@pytest.mark.parametrize("delta", [1e-6, 0.0])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_with_nothing_to_learn_the_larger_class_is_predicted(epsilon: float, delta: float) -> None:
    found = []
    for seed in range(4):
        X, y = unequal(seed)
        with test_mode(seed):
            model = LogisticRegression(epsilon=epsilon, delta=delta, bounds=(-1, 1), classes=[0, 1]).fit(X[::2], y[::2])
        found.append(model.score(X[1::2], y[1::2]) - np.mean(y[1::2] == 0))
    assert np.mean(found) > -0.01


def test_skewed_features_are_fitted_as_without_privacy() -> None:
    generator = np.random.default_rng(6)
    raw = np.minimum(generator.exponential(0.05, (6000, 6)), 1.0)
    y = (generator.random(6000) < 1 / (1 + np.exp(-(30 * raw[:, 0] - 30 * raw[:, 1] - 1)))).astype(int)
    X = 2 * raw - 1
    plain = Plain(C=1e4, max_iter=2000).fit(X[::2], y[::2]).score(X[1::2], y[1::2])
    with test_mode(2):
        mine = LogisticRegression(epsilon=10, delta=0, bounds=(-1, 1), classes=[0, 1]).fit(X[::2], y[::2])
    assert mine.score(X[1::2], y[1::2]) > plain - 0.01


def test_what_noise_alone_would_make_is_not_kept() -> None:
    assert kept(1.0, 1.0, 10) == 0 and kept(4.0, 1.0, 10) == 0.75
    generator = np.random.default_rng(1)
    noise = generator.normal(size=(4000, 10))
    false = np.mean([kept(float(row @ row), 10.0, 10) > 0 for row in noise])
    assert 0.17 < false < 0.22  # a chi-squared of ten degrees more than .8 of a deviation above its mean: 0.194, and five errors
    shares = class_shares(np.array([5.0, -3.0, 2.0]), 1.0)
    assert shares.sum() == pytest.approx(1) and shares.min() > 0


@pytest.mark.parametrize("guarantee", [Guarantee(rho=1e4), Guarantee(epsilon=1e3, delta=0)])
def test_a_slope_is_held_to_what_the_labels_bear_out(guarantee: Guarantee) -> None:
    """The oracle, where noise is small: Newton's step along the scores, sum r s / (p (1 - p) sum s^2), longer by half the spread of
    scores that it gives; and 0 for no agreement."""
    generator = np.random.default_rng(5)
    s = generator.uniform(-1, 1, (20_000, 1))
    codes = (generator.random(20_000) < 0.3 + 0.1 * s[:, 0]).astype(np.int64)
    prior = Prior(np.array([0.7, 0.3]), 20_000.0, True)
    newton = float(((codes - 0.3) * s[:, 0]).sum() / (0.21 * (s**2).sum()))
    longest = newton * (1 + newton * math.sqrt(0.21 * float((s**2).mean()) / 0.2) / 2)
    with test_mode(1):
        assert agreed_length(8 * s, codes, prior, 8.0, Purse.of(guarantee, AR)) == pytest.approx(longest / 8, rel=0.02)
        assert agreed_length(newton * s, codes, prior, newton, Purse.of(guarantee, AR)) == 1.0
        assert agreed_length(-8 * s, codes, prior, 8.0, Purse.of(guarantee, AR)) == 0.0


@pytest.mark.parametrize("weights", [None, np.full(12_000, 0.5)])
def test_a_slope_that_turns_people_and_puts_no_more_of_them_right_is_seen(weights: np.ndarray | None) -> None:
    codes = np.tile([0, 1, 1], 4000)
    sign = np.where(codes == 1, 1.0, -1.0)[:, None]
    turned = np.where(np.arange(12_000) % 6 < 3, -2.0, 2.0)[:, None]  # both classes alike
    # agrees, disagrees, turns half of each class, turns nobody
    for scores, wrongly in ((3 * sign, False), (-3 * sign, True), (turned, True), (0.1 * sign, False)):
        purse = Purse.of(Guarantee(epsilon=1, delta=0), AR)
        with test_mode(5):
            assert turns_wrongly(scores, codes, np.array([0.5]), purse, 0.5, weights) is wrongly
        assert purse.left == 0.5


def test_a_fit_of_shares_alone_has_error_bars() -> None:
    """So little budget that only the classes are counted: no slope, an error for the intercept and none for the coefficients."""
    X, y = np.zeros((40, 9)), np.tile([0, 1], 20)
    with test_mode(2):
        model = LogisticRegression(epsilon=0.1, delta=0, bounds=(0, 1), classes=[0, 1]).fit(X, y)
    assert not model.coef_.any() and not model.coef_error_.any()
    assert model.intercept_error_[0] > 0 and model.error_kind_ == "first order"


@pytest.mark.parametrize("larger", [0.53, 0.6, 0.76, 0.95])
def test_bearable_noise_costs_what_it_may_by_simulation(larger: float) -> None:
    """Scores that are the offset plus noise of the bearable deviation lose DOUBT of accuracy to the larger class: counted, not computed."""
    deviation_allowed = bearable_noise(np.array([1 - larger, larger]))
    generator, offset = np.random.default_rng(3), math.log(larger / (1 - larger))
    turned = np.mean(offset + deviation_allowed * generator.normal(size=2_000_000) < 0)
    assert turned * (2 * larger - 1) == pytest.approx(DOUBT, abs=3e-4)  # four deviations of the mean of two million
    assert bearable_noise(np.array([0.1 * larger, 0.9 * larger, 1 - larger])) > 0


def test_weak_signals_in_unequal_classes_and_long_rows_keep_the_floor() -> None:
    """Rows beyond the cut are scored as they are, so the floor must hold for them too, and not only for cut rows."""
    generator = np.random.default_rng(4)
    X = np.clip(generator.standard_t(1.5, (2500, 20)) * 0.05, -1, 1)
    y = (generator.random(2500) < 0.76).astype(int)
    scores = []
    for seed in range(12):
        with test_mode(seed):
            scores.append(LogisticRegression(epsilon=1, delta=0, bounds=(-1, 1), classes=[0, 1]).fit(X, y).score(X, y))
    assert np.mean(scores) >= y.mean() - 0.01


def test_error_bars_are_in_the_units_of_the_coefficients() -> None:
    """Narrower features have larger coefficients, and errors as much larger as the spread they are divided by is smaller; a bar in units
    of that spread would stay as it is."""
    generator = np.random.default_rng(1)
    wide = np.clip(generator.normal(0.3, 0.15, (20_000, 2)), -1, 1)
    y = (generator.random(20_000) < 1 / (1 + np.exp(-3 * (wide[:, 0] - 0.3)))).astype(int)
    found = []
    for X in (wide, 0.3 + (wide - 0.3) / 10):
        with test_mode(2):
            found.append(LogisticRegression(epsilon=3, delta=0, bounds=(-1, 1), classes=[0, 1]).fit(X, y).coef_error_)
    # a variance is released with .001 and two deviations of its noise on top: box noise in four coordinates for 7 % of epsilon
    more = 0.001 + 2 * deviation(4) / (0.07 * 3) / 20_000
    assert found[1] / found[0] == pytest.approx(math.sqrt((0.15**2 + more) / (0.015**2 + more)), rel=0.1)


def test_a_doubtful_slope_costs_no_more_than_it_may() -> None:
    """Energies of noise alone in four directions: where classes are unequal the mean cost is DOUBT, where they are even all is kept."""
    generator, unequal = np.random.default_rng(7), np.array([0.3, 0.7])
    offset, lost = math.log(7 / 3), []
    for row in generator.normal(size=(4000, 4)):
        factor = held(float(row @ row), 4.0, 4, unequal, 2.0)
        assert factor == kept(float(row @ row), 4.0, 4) or factor <= bearable_noise(unequal) / 2.0
        if not kept(float(row @ row), 4.0, 4):
            turned = 0.5 * math.erfc(offset / (factor * 2.0) / math.sqrt(2))  # the normal law's own tail: the oracle
            lost.append(turned * math.tanh(offset / 2))
    assert np.mean(lost) == pytest.approx(DOUBT, rel=1e-6)
    assert held(1.0, 4.0, 4, np.array([0.499, 0.501]), 100.0) == 1.0
