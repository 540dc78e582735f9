"""The tilted minimum: shares of classes as its floor, the price of its determinant, and the plain minimum with much budget."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression as Plain

from tacit.accounting import Adjacency, Guarantee
from tacit.learning import LogisticRegression
from tacit.learning.linear import tilted
from tacit.learning.linear.losses import logistic, multinomial
from tacit.learning.linear.prior import (
    FLOOR,
    NOTHING,
    SPREADS,
    Agreement,
    Prior,
    agreement,
    believed,
    class_shares,
    held,
    kept,
    second_share,
)
from tacit.learning.linear.pure import cube_noise, deviation
from tacit.learning.linear.purse import Purse
from tacit.learning.linear.tilted import CONSTANT, LENGTH, alike, best_cut, best_ridge, turns_wrongly
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
def test_an_agreement_is_the_covariance_with_labels_beside_the_curvature(guarantee: Guarantee) -> None:
    """The oracle, where noise is small: numpy's sums. Scores of Newton's length agree as they would if they were right."""
    generator = np.random.default_rng(5)
    s = generator.uniform(-1, 1, (20_000, 1))
    codes = (generator.random(20_000) < 0.3 + 0.1 * s[:, 0]).astype(np.int64)
    prior = Prior(np.array([0.7, 0.3]), 20_000.0, True)
    product, curve = float(((codes - 0.3) * s[:, 0]).sum()), float(0.21 * (s**2).sum())
    newton = product / curve
    with test_mode(1):
        for length in (8.0, newton, -8.0):
            found = agreement(length * s, codes, prior, abs(length), 1.0, Purse.of(guarantee, AR))
            assert found.total == pytest.approx(math.copysign(product, length), rel=0.01)
            assert found.whole == pytest.approx(abs(length) * curve, rel=0.01)
        rough = agreement(s, codes, prior, 2.0, 30.0, Purse.of(Guarantee(epsilon=1e-3, delta=0), AR))
    assert rough.whole == 15.0  # noise would hide the curvature, and it is not bought


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


@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize("apart", [0.0, 40.0, 120.0, 400.0])
def test_a_second_look_holds_the_cost_of_the_wrong_class_by_simulation(apart: float, pure: bool) -> None:
    """Two looks at a difference, joined: wrong signs are counted, and cost the difference. No look is bought where none is needed."""
    rows, before, whole = 2000.0, np.array([150.0, 0.0]), np.array([20.0, 1.0])
    share = second_share(apart, before, whole, rows, pure=pure)
    assert 0 <= share < 0.4 and (share == 0) is (apart == 400.0)
    generator = np.random.default_rng(3)
    true = apart + 150.0 * generator.normal(size=1_000_000)
    other = 20.0 / (share if pure else math.sqrt(share)) if share else math.inf
    left = (150.0**-2 + other**-2) ** -0.5
    cost = np.mean(np.abs(true) * (true * (true + left * generator.normal(size=len(true))) < 0)) / rows
    assert cost < FLOOR + 1e-4  # an error of the mean of a million is 1.5e-5
    assert share == 0 or cost > 0.7 * FLOOR  # and no more is spent than is needed: shares are 13 % apart
    assert second_share(0.0, before, 1e3 * whole, rows, pure=pure) == 0.4


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


def gains(parts: list[float], slopes: np.ndarray, noise: np.ndarray, apart: float, rows: np.ndarray) -> np.ndarray:
    """What parts of noisy slopes gain in accuracy over the larger class, by the labels' true probabilities at given rows."""
    truth, found = slopes @ rows.T, (slopes + noise) @ rows.T
    turned = apart + np.array(parts)[:, None] * found < 0
    right = np.tanh((apart + truth) / 2)  # how much more often the larger class is right
    mean: np.ndarray = -(turned * right).mean(axis=1)
    return mean


def test_the_part_that_is_kept_gains_more_than_any_fixed_part() -> None:
    """Simulated slopes, rows and labels' probabilities: in the mean over strengths of the signal `held` beats every fixed part and the
    constant, and costs next to nothing where there is nothing to learn. The mutant that keeps all of a slope costs forty times that."""
    generator, size, apart = np.random.default_rng(7), 8, math.log(0.6 / 0.4)
    prior, rows = Prior(np.array([0.4, 0.6]), 1e4, False), generator.normal(size=(1000, size))
    fixed = [0.1, 0.3, 0.5, 0.7, 1.0]
    kept_gain, fixed_gain, nothing, all_kept = list[float](), list[np.ndarray](), list[float](), list[float]()
    for turn in range(900):
        spread = 0.0 if turn % 3 == 0 else float(np.exp(generator.uniform(math.log(0.05), math.log(5.0))))
        slopes, noise = (generator.normal(0, each / math.sqrt(size), (1, size)) for each in (spread, 1.0))
        energy = float(((slopes + noise) ** 2).sum())
        part = held(energy, 1.0, size, prior, 1.0)
        found = np.concatenate([gains([each], slopes, noise, apart, rows) for each in [part, *fixed]])
        kept_gain.append(float(found[0]))
        fixed_gain.append(found[1:])
        if spread == 0.0:
            nothing.append(float(found[0]))
            all_kept.append(float(found[-1]))
    error = 3 * np.std(np.array(kept_gain)[:, None] - np.array(fixed_gain), axis=0) / math.sqrt(900)
    assert np.mean(kept_gain) > 0
    assert (np.mean(kept_gain) > np.mean(fixed_gain, axis=0) - error).all()
    assert np.mean(nothing) > -0.004 and np.mean(all_kept) < 20 * np.mean(nothing) < 0


def test_what_is_kept_grows_with_energy_and_agreement() -> None:
    uneven, even = Prior(np.array([0.3, 0.7]), 1e4, False), Prior(np.array([0.5, 0.5]), 1e4, False)
    parts = [held(energy, 1.0, 6, uneven, 1.5) for energy in (0.5, 1.0, 2.0, 4.0, 8.0, 64.0)]
    assert parts == sorted(parts) and parts[0] < 0.1 and parts[-1] > 0.95
    against, with_it = (held(2.0, 1.0, 6, uneven, 1.5, Agreement(total, 10.0, 60.0)) for total in (-10.0, 60.0))
    assert against < held(2.0, 1.0, 6, uneven, 1.5) < with_it
    # where classes are even nobody falls below the larger one: the mean part that is signal is kept
    assert held(2.0, 1.0, 6, even, 1.5) >= held(2.0, 1.0, 6, uneven, 1.5) > 0


def test_the_energy_of_cube_noise_varies_as_is_said() -> None:
    """Drawn, with unequal weights: a chi-squared of `alike` degrees has the same relative variance. Five errors of a variance."""
    weights = np.array([1.0, 1.0, 0.5, 0.1])
    with test_mode(4):
        drawn = np.array([cube_noise(Fraction(1000), 4) for _ in range(20_000)], dtype=np.float64)
    energy = drawn**2 @ weights
    relative = energy.var() / energy.mean() ** 2
    spread = np.std([part.var() / part.mean() ** 2 for part in np.split(energy, 40)]) / math.sqrt(40)
    assert relative == pytest.approx(2 / alike(weights), abs=5 * spread)
    assert abs(relative - 2 * float(weights @ weights) / float(weights.sum()) ** 2) > 10 * spread  # the mutant: independent normal parts


@pytest.mark.parametrize("weights", [None, np.full(6000, 0.5)])
def test_the_best_cut_is_the_one_that_puts_most_people_right(weights: np.ndarray | None) -> None:
    """With much budget, the oracle is counting: a clear slope is kept, one cut aside is found where the level is wrong, a slope that says
    nothing gives way to the larger class, and so does one that is against the labels."""
    generator = np.random.default_rng(3)
    scores = generator.normal(size=6000)
    for sign, level, expected in ((1.0, 0.0, "slope"), (1.0, 1.0, "slope"), (0.0, 0.4, "one"), (0.0, -0.4, "zero"), (-1.0, 0.7, "one")):
        true = 4 * scores + 4 * level if sign > 0 else level - 4 * (sign < 0) * (scores - 1)
        codes = (true > generator.logistic(size=6000)).astype(np.int64)
        with test_mode(5):
            purse = Purse.of(Guarantee(epsilon=1, delta=0), AR)
            factor, found = best_cut(scores, codes, 0.0, [0.5, 0.8], 1.0, purse, weights)
        assert purse.left == 0 and (factor > 0) == (expected == "slope")
        if factor:
            candidates = [np.mean((scores + each > 0) == codes) for each in (-1.0, 0.0, 1.0)]
            assert np.mean((factor * scores + found[0] > 0) == codes) > max(candidates) - 0.005
        else:
            assert (found[0] > 0) == (expected == "one")


def test_a_choice_between_two_classes_is_clearer_than_two_counts() -> None:
    """A difference of 24 people in 800 at epsilon .1: exponential noise of scale 10 in two sums takes the smaller class with probability
    exp(-2.4) / 2, two Laplace counts with exp(-2.4) (2 + 2.4) / 4, as the law of the difference of two of them says. A slope for
    nobody has no part in it. Two thousand turns, and four errors of a share."""
    codes, wrong, counted = np.repeat([0, 1], [412, 388]).astype(np.int64), 0, 0
    right = np.column_stack([codes == 0, codes == 1]).astype(np.float64)
    with test_mode(2):
        for _ in range(2000):
            wrong += Purse.of(Guarantee(epsilon=0.1, delta=0), AR).choice(right, np.zeros(2), 1.0) == 1
            counts, _ = Purse.of(Guarantee(epsilon=0.1, delta=0), AR).counts(codes[:, None], 2, 1.0)
            counted += counts[0, 1] > counts[0, 0]
    for share, law in ((wrong / 2000, math.exp(-2.4) / 2), (counted / 2000, math.exp(-2.4) * (2 + 2.4) / 4)):
        assert share == pytest.approx(law, abs=4 * math.sqrt(law * (1 - law) / 2000))


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_few_rows_and_nearly_even_classes_keep_the_floor(delta: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """800 rows, 55 % in one class and nothing to learn, at epsilon .1: 240 fits lose less than .01 in the mean beside the larger class,
    where one fit that says the smaller class to everybody loses .1. The error of the mean is .0017. The mutant, two looks at the classes in
    place of the choice, loses more than .01."""
    X = np.random.default_rng(1).uniform(-1, 1, (800, 4))
    codes = np.repeat([0, 1], [360, 440])

    def loss() -> float:
        found: list[float] = []
        for seed in range(240):
            y = np.random.default_rng(seed).permutation(codes)
            with test_mode(seed):
                found.append(LogisticRegression(epsilon=0.1, delta=delta, bounds=(-1, 1), classes=[0, 1]).fit(X, y).predict(X).mean())
        return float(np.mean(0.1 * (1 - np.array(found))))

    least = loss()
    assert least < 0.01
    if not delta:
        monkeypatch.setattr(tilted, "CHOSEN", 0.0)
        monkeypatch.setattr(tilted, "FEW", 0.0)
        assert loss() > max(0.01, least + 0.003)


def test_what_is_believed_of_a_slope_is_the_signal_in_it() -> None:
    """Simulated from the law that is taken to hold: the mean of true energies over the mean of all, by bins of the energy that came out."""
    generator, size = np.random.default_rng(6), 6
    spreads = np.where(generator.random(200_000) < NOTHING, 0.0, generator.choice(SPREADS, 200_000))
    energy = (spreads**2 + 1) * generator.chisquare(size, 200_000) / size
    for low, high in ((0.5, 0.6), (1.0, 1.2), (2.0, 2.4), (5.0, 6.0)):
        inside = (energy > low) & (energy < high)
        signal = float(np.mean(spreads[inside] ** 2 / (spreads[inside] ** 2 + 1)))
        assert believed(low, 1.0, size) - 0.02 < signal < believed(high, 1.0, size) + 0.02
