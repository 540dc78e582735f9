"""Error bars: the algebra against brute force, their coverage by simulation, and bounds that bound. Halved bars are caught."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression as Plain

from tacit.accounting import ParameterError
from tacit.learning import HuberRegressor, Lasso, LinearRegression, LogisticRegression, Ridge
from tacit.learning.estimator import RowSpace
from tacit.learning.linear.error_bars import NoiseBar, least_squares_noise, remembered, to_data_units
from tacit.noise import test_mode

FITS = 60
# 60 fits of 4 numbers, all independent: a share of 0.95 lies within 0.89 and 0.995 but for one time in 10,000; that of halved bars, 0.67,
# stays below 0.83 as surely. The seeds are fixed, so what passes once passes always.
LEAST, MOST, HALVED = 0.89, 0.995, 0.83


def linear(rows: int = 3000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    X = generator.uniform(0, 4, size=(rows, 3))
    return X, X @ [0.5, -0.3, 0.1] + 0.4 + generator.normal(size=rows) / 4


def fits(model: Any, X: np.ndarray, y: np.ndarray, count: int = FITS) -> tuple[np.ndarray, np.ndarray, Any]:
    """Coefficients and errors of many fits to the same data, and the last of the models."""
    found, errors = [], []
    for seed in range(count):
        with test_mode(seed):
            model.fit(X, y)
        found.append(np.append(model.coef_, model.intercept_))
        errors.append(np.append(model.coef_error_, model.intercept_error_))
    return np.array(found), np.array(errors), model


def test_what_steps_remember_is_what_a_loop_remembers() -> None:
    lengths, deviations, bend = np.array([0.4, 0.9, 0.2, 0.7]), np.array([1.0, 0.5, 2.0, 0.1]), np.array([0.0, 0.3, 1.2])
    for averaged, penalty in ((1, 0.0), (2, 0.0), (4, 0.0), (2, 0.8)):
        expected = np.zeros(3)
        for t in range(4):  # one unit of noise at step t and nowhere else, through the descent itself
            theta, mean = np.zeros(3), np.zeros(3)
            for k in range(4):
                theta = theta - lengths[k] * (bend * theta + (deviations[k] if k == t else 0.0))
                theta = theta / (1 + lengths[k] * penalty)
                mean += theta / averaged if k >= 4 - averaged else 0.0
            expected += mean**2
        assert remembered(lengths, deviations, bend, averaged, penalty) == pytest.approx(expected, rel=1e-12)


def test_least_squares_noise_is_the_sum_over_all_entries_of_the_matrix() -> None:
    """Every independent entry of the noise moved by a little, times its variance; nothing else of the formula is used."""
    generator = np.random.default_rng(1)
    rows = generator.normal(size=(50, 4))
    moment, s, step = rows.T @ rows, 0.7, 1e-6

    def theta(noise: np.ndarray) -> np.ndarray:
        noisy = moment + noise
        return np.linalg.solve(noisy[:3, :3], noisy[:3, 3])

    expected = np.zeros((3, 3))
    for i in range(4):
        for j in range(i, 4):
            one = np.zeros((4, 4))
            one[i, j] = one[j, i] = step
            slope = (theta(one) - theta(-one)) / (2 * step)
            expected += np.outer(slope, slope) * (s**2 if i == j else s**2 / 2)
    found = least_squares_noise(np.linalg.inv(moment[:3, :3]), theta(np.zeros((4, 4))), s)
    assert found == pytest.approx(expected, rel=1e-5)
    mutant = least_squares_noise(np.linalg.inv(moment[:3, :3]), np.zeros(3), s)  # without the noise of the matrix itself
    assert mutant != pytest.approx(expected, rel=0.01)


def test_units_are_those_of_the_coefficients() -> None:
    """Unit vectors through the same change of units as the coefficients; a feature with equal bounds has no error."""
    space = RowSpace.of(3, bounds=([0, -1, 5], [4, 1, 5]))
    columns = []
    for unit in np.eye(4):
        coef, intercept = space.unscale(unit[None, :3], unit[3:])
        columns.append(np.append(coef[0], intercept))
    change, covariance = np.array(columns).T, np.diag([1.0, 2.0, 3.0, 4.0])
    bar = to_data_units(NoiseBar(covariance, "exact"), space.half, space.centre)
    assert bar.covariance == pytest.approx(change @ covariance @ change.T)
    assert bar.errors[2] == 0 and bar.scaled(2.0).errors == pytest.approx(2 * bar.errors)


@pytest.mark.parametrize("solver", ["moments", "descent"])
@pytest.mark.parametrize("penalty", [None, 30.0], ids=["plain", "ridge"])
def test_bars_cover_what_noise_does(solver: str, penalty: float | None) -> None:
    """Fits of the same data scatter around their mean as the bars say: 95 of 100 within 1.96."""
    X, y = linear()
    public: dict[str, Any] = {"rho": 0.05, "bounds": (0, 4), "label_bounds": (-2, 4), "n_public": 3000, "solver": solver}
    model = LinearRegression(**public) if penalty is None else Ridge(penalty, **public)
    found, errors, fitted = fits(model, X, y)
    assert fitted.error_kind_ == "first order"
    away = np.abs(found - found.mean(axis=0)) / errors
    assert LEAST < np.mean(away < 1.96) < MOST
    assert np.mean(away < 0.98) < HALVED, "the mutant: half the bar"


def test_intervals_of_predictions_cover_the_fit_without_noise() -> None:
    """Ordinary least squares is the target; and twice as many rows make intervals about half as wide."""
    X, y = linear()
    public: dict[str, Any] = {"bounds": (0, 4), "label_bounds": (-2, 4), "solver": "moments"}
    target = Plain().fit(X, y)
    at = np.array([[0.0, 0.0, 0.0], [2.0, 2.0, 2.0], [4.0, 0.0, 1.0]])
    inside, widths = [], []
    for rows in (3000, 6000):
        copies = rows // 3000
        for seed in range(FITS // copies):
            with test_mode(seed):
                model = LinearRegression(rho=0.05, n_public=rows, **public).fit(np.tile(X, (copies, 1)), np.tile(y, copies))
            low, high = model.predict_interval(at)
            assert (low < model.predict(at)).all() and (model.predict(at) < high).all()
            inside += [(low < target.predict(at)) & (target.predict(at) < high)]
            widths.append((rows, float(np.mean(high - low))))
    assert 0.87 < np.mean(inside) < 1
    assert np.mean([w for n, w in widths if n == 3000]) == pytest.approx(2 * np.mean([w for n, w in widths if n == 6000]), rel=0.1)
    wide = model.predict_interval(at, 0.999)
    assert (wide[0] < low).all() and (wide[1] > high).all()


def test_sampling_is_in_the_interval_where_it_is_asked_for() -> None:
    """Fresh data for every fit: the expected label at a row is covered with `sampling`, and too seldom without."""
    at, truth = np.array([[1.0, 2.0, 3.0], [4.0, 0.0, 2.0]]), np.array([0.6, 2.6])
    covered: dict[bool, list[Any]] = {False: [], True: []}
    for seed in range(FITS):
        X, y = linear(800, seed + 100)
        with test_mode(seed):
            model = LinearRegression(rho=5.0, bounds=(0, 4), label_bounds=(-2, 4), n_public=800, solver="moments").fit(X, y)
        for sampling in (False, True):
            low, high = model.predict_interval(at, sampling=sampling)
            covered[sampling].append((low < truth) & (truth < high))
    assert np.mean(covered[True]) > 0.88 and np.mean(covered[False]) < HALVED


@pytest.mark.parametrize("solver", ["descent", "objective", "output"])
def test_bars_of_classifiers(solver: str) -> None:
    """Output perturbation exactly; the others are bounds, and no scatter is larger."""
    X, y = linear(1500)
    model = LogisticRegression(epsilon=1, delta=1e-5, bounds=(0, 4), classes=[0, 1], n_public=1500, solver=solver)
    found, errors, fitted = fits(model, X, (y > np.median(y)).astype(int), 30)
    ratio = found.std(axis=0) / errors.mean(axis=0)
    assert fitted.coef_error_.shape == fitted.coef_.shape and fitted.intercept_error_.shape == fitted.intercept_.shape
    if solver == "output":
        assert fitted.error_kind_ == "exact" and ratio == pytest.approx(np.ones(4), abs=0.4)
    else:
        assert fitted.error_kind_ == "bound" and (ratio < 0.9).all()


def test_bars_of_other_losses_bound_and_some_have_none() -> None:
    X, y = linear(1500)
    public: dict[str, Any] = {"rho": 0.1, "bounds": (0, 4), "label_bounds": (-2, 4), "n_public": 1500}
    found, errors, fitted = fits(HuberRegressor(0.5, **public), X, y, 20)
    assert fitted.error_kind_ == "bound" and (found.std(axis=0) < 0.9 * errors.mean(axis=0)).all()
    with pytest.raises(ParameterError, match="moments"):
        fitted.predict_interval(X[:2], sampling=True)
    with pytest.raises(ParameterError, match="no error bar"):
        Lasso(1.0, epsilon=1, delta=1e-5, **{k: v for k, v in public.items() if k != "rho"}).fit(X, y).predict_interval(X[:2])
    for wrong in (0, 1, -0.5, 2):
        with pytest.raises(ParameterError, match="confidence"):
            fitted.predict_interval(X[:2], wrong)


def test_pure_noise_is_not_normal_and_its_intervals_know() -> None:
    X, y = linear(300)
    model = LinearRegression(epsilon=1, delta=0, bounds=(0, 4), label_bounds=(-2, 4), n_public=300, solver="objective")
    with test_mode(1):
        model.fit(X, y)
    low, high = model.predict_interval(X[:1], 0.75)
    assert model.error_kind_ == "bound" and not model.bar_.gaussian
    assert (high - low)[0] == pytest.approx(4 * model.bar_.deviation(X[:1])[0]), "Chebyshev: two deviations hold three quarters"


def test_nothing_about_the_values_raises_and_bars_are_finite() -> None:
    X, y = linear(60)
    X[0], X[1], y[2], y[3] = np.nan, np.inf, np.nan, 1e308
    for rows in (0, 1, 60):
        for solver in ("moments", "descent"):
            model = LinearRegression(epsilon=0.1, delta=1e-6, bounds=(0, 4), label_bounds=(-2, 4), solver=solver).fit(X[:rows], y[:rows])
            assert np.isfinite(model.coef_error_).all() and np.isfinite(model.predict_interval(X)).all()
