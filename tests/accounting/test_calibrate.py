"""Calibration meets its target from the safe side, and wastes almost nothing."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting import Gaussian, Laplace, ParameterError, Poisson, PureDP, Repeated, Sampled, UnsupportedError, account, calibrate


@pytest.mark.parametrize(
    ("epsilon", "delta", "sigma"), [(1, 1e-5, 3.730631635), (1, 1e-6, 4.224678889), (0.5, 1e-6, 8.057618481), (8, 1e-5, 0.600229072)]
)
def test_gaussian_noise(epsilon: float, delta: float, sigma: float) -> None:
    found = calibrate(Gaussian, epsilon=epsilon, delta=delta)
    assert found == pytest.approx(sigma, rel=1e-7)
    assert account(Gaussian(found)).epsilon(delta).upper <= epsilon


def test_training_noise() -> None:
    def make(sigma: float) -> Repeated:
        return Repeated(Sampled(Poisson(0.01), Gaussian(sigma)), 10_000)

    found = calibrate(make, epsilon=1, delta=1e-6)
    assert found == pytest.approx(4.3021064656, rel=1e-7)
    assert account(make(found)).epsilon(1e-6).upper <= 1 < account(make(found * (1 - 1e-6))).epsilon(1e-6).upper


def test_other_parameters() -> None:
    rate = calibrate(lambda q: Repeated(Sampled(Poisson(q), Gaussian(1)), 1000), epsilon=1, delta=1e-6, high=1, start=0.01)
    assert account(Repeated(Sampled(Poisson(rate), Gaussian(1)), 1000)).epsilon(1e-6).upper <= 1
    queries = calibrate(lambda n: Repeated(Gaussian(10), n), rho=0.1, integer=True)
    assert queries == 20
    assert calibrate(Gaussian, mu=0.5) == pytest.approx(2, rel=1e-7)
    assert calibrate(lambda b: Laplace(b), epsilon=0.5) == pytest.approx(2, rel=1e-7)
    assert calibrate(lambda e: PureDP(e), epsilon=0.25) == pytest.approx(0.25, rel=1e-7)


@given(epsilon=st.floats(0.05, 20), log_delta=st.floats(-40, -2), scale=st.floats(0.1, 30))
@settings(max_examples=15, deadline=None)
def test_never_over_target(epsilon: float, log_delta: float, scale: float) -> None:
    delta = 10 ** (log_delta / 2.3)
    found = calibrate(lambda s: Repeated(Gaussian(s * scale), 3), epsilon=epsilon, delta=delta)
    assert account(Repeated(Gaussian(found * scale), 3)).epsilon(delta).upper <= epsilon
    assert account(Repeated(Gaussian(found * scale * 0.999), 3)).epsilon(delta).upper > epsilon


def test_out_of_reach_targets_say_so() -> None:
    with pytest.raises(UnsupportedError, match="widen the limits"):
        calibrate(Gaussian, epsilon=1e-9, delta=1e-6, high=10)
    with pytest.raises(UnsupportedError, match="exceeds"):
        calibrate(lambda n: Repeated(Gaussian(0.1), n), epsilon=0.1, delta=1e-6, integer=True)
    assert calibrate(Gaussian, epsilon=1e6, delta=1e-6, low=0.5) == pytest.approx(0.5)


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"epsilon": 1, "rho": 1},
        {"rho": 1, "delta": 1e-5},
        {"epsilon": -1, "delta": 1e-5},
        {"epsilon": 1, "delta": 2},
        {"epsilon": 1, "delta": 1e-5, "low": 0},
    ],
)
def test_bad_targets(bad) -> None:
    with pytest.raises(ParameterError):
        calibrate(Gaussian, **bad)


def test_whole_numbers_of_sampled_steps_are_found_without_a_start() -> None:
    """Few steps are dear to price, so the search keeps away from them."""
    make = lambda steps: Repeated(Sampled(Poisson(0.01), Gaussian(2)), steps)  # noqa: E731
    calibrate(make, epsilon=1, delta=1e-6, integer=True)  # loads what is loaded once
    started = time.process_time()
    assert calibrate(make, epsilon=1, delta=1e-6, integer=True) == 1873
    assert time.process_time() - started < 0.6  # 0.3 s on a machine of its own
