"""FundShares: closed forms against quadrature and enumeration, the specification's study, and thresholds joined by AND."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate

from tacit.errors import ParameterError
from tacit.fairness import (
    all_thresholds,
    allocate,
    apportion,
    choose_shift,
    clipping_bias,
    seats_under_noise,
    threshold_error,
    weighted_regression,
)
from tacit.fairness.allocation import noise_of, upper_tail


@pytest.mark.parametrize("c", [0, 1, 5, 40])
@pytest.mark.parametrize("b", [0.5, 3.0, 20.0])
def test_clipping_bias_against_integrals_and_sums(c: int, b: float) -> None:
    def laplace(x: float) -> float:
        return max(0.0, c + x) * math.exp(-abs(x) / b) / (2 * b)

    points = [-c, 0] if c else [0]
    mean = sum(
        integrate.quad(laplace, low, high, limit=400, epsabs=1e-13)[0]
        for low, high in zip([-60 * b - c, *points], [*points, 60 * b], strict=True)
    )
    assert clipping_bias(c, b) == pytest.approx(mean - c, abs=1e-9)
    a = math.exp(-1 / b)
    k = np.arange(-2000, 2001)
    pmf = (1 - a) / (1 + a) * a ** np.abs(k).astype(float)
    assert clipping_bias(c, b, "discrete") == pytest.approx(float((np.maximum(c + k, 0) * pmf).sum()) - c, abs=1e-9)
    density = lambda x: math.exp(-x * x / 2 / b / b) / b / math.sqrt(2 * math.pi)  # noqa: E731
    normal = integrate.quad(lambda x: max(0, c + x) * density(x), -c, 40 * b, epsabs=1e-13)[0]
    assert clipping_bias(c, b, "gaussian") == pytest.approx(normal - c, abs=1e-9)


def test_the_study_of_districts() -> None:
    """Specification 11, 4.4: 2 / 20 / 200 / 5,000 people at scale 20 receive 5.32 / 1.14 / .967 / .966 of their due."""
    sizes = np.repeat([2, 20, 200, 5000], [200, 100, 50, 10])
    found = allocate(sizes, scale=20, total=1e6, repeats=400).by_size()
    for size, due in {2: 5.32, 20: 1.14, 200: 0.967, 5000: 0.966}.items():
        assert found[size] == pytest.approx(due, rel=0.03)


@pytest.mark.parametrize(
    ("epsilon", "slopes"), [(0.05, (0.413, 0.491, 0.453)), (0.1, (0.456, 0.493, 0.485)), (0.25, (0.488, 0.501, 0.499))]
)
def test_the_precincts(epsilon: float, slopes: tuple[float, float, float]) -> None:
    """Specification 11, 4.4: the slope of votes on shares (truth .5), unweighted, weighted by population, and above 50 people.

    Noise is on the two counts of a precinct, of the group and of the others. The printed slopes are of one study of 1,500 precincts,
    and the mean of 40 studies is compared with them: one study has a deviation of .008, .002 and .006 at eps .05.
    """
    found = []
    for turn in range(40):
        made = np.random.default_rng(turn)
        sizes, share = made.lognormal(5.5, 1.3, 1500), made.beta(0.6, 1.2, 1500)
        of_group, of_others = (sizes * part + made.laplace(0, 1 / epsilon, 1500) for part in (share, 1 - share))
        people = of_group + of_others
        known = people > 0
        seen, vote, people = np.clip(of_group[known] / people[known], 0, 1), 0.3 + 0.5 * share[known], people[known]
        large = people > 50
        found.append((
            weighted_regression(seen, vote)[0], weighted_regression(seen, vote, people)[0],
            weighted_regression(seen[large], vote[large])[0],
        ))  # fmt: skip
    assert np.mean(found, axis=0) == pytest.approx(slopes, abs=0.006)


@pytest.mark.parametrize("law", ["laplace", "discrete", "gaussian"])
def test_one_symmetric_threshold_never_errs_more_than_half_the_time(law: str) -> None:
    for size in range(80, 120):
        assert threshold_error(size, threshold=100, scale=7, law=law) <= 0.5 + 1e-12  # type: ignore[arg-type]


def test_two_conditions_joined_by_and_do() -> None:
    assert all_thresholds([100, 50], thresholds=[100, 50], scale=9) == pytest.approx(0.25)
    made, hits = np.random.default_rng(1), 0
    for one, other in made.laplace(0, 9, (4000, 2)):
        hits += 100 + one >= 100 and 50 + other >= 50
    assert hits / 4000 == pytest.approx(0.25, abs=0.03)


@pytest.mark.parametrize("law", ["laplace", "discrete", "gaussian"])
@pytest.mark.parametrize("target", [0.2, 0.01])
def test_the_shift_meets_its_target_in_simulation(law: str, target: float) -> None:
    shift = choose_shift(scale=12, refused=target, law=law)  # type: ignore[arg-type]
    drawn = noise_of(law, 12, (200_000,), np.random.default_rng(2))  # type: ignore[arg-type]
    refused = float((100 + drawn < 100 - shift).mean())
    assert refused <= target + 4 * math.sqrt(target / 200_000)
    if law == "discrete":  # the least whole shift
        assert 1 - upper_tail(1 - shift, 12, "discrete") > target
    else:
        assert refused >= target - 4 * math.sqrt(target / 200_000)


def test_seats() -> None:
    # against the other definition: one divisor under which quotas, rounded at the geometric mean, add up
    sizes = np.array([21878.0, 9713, 4167, 3252, 1065])
    for divisor in np.linspace(1200, 1900, 7001):
        whole = np.floor(sizes / divisor)
        rounded = whole + (sizes / divisor > np.sqrt(whole * (whole + 1)))
        if rounded.sum() == 26:
            assert apportion(sizes, 26, "huntington-hill").tolist() == rounded.tolist()
            break
    else:
        raise AssertionError("no divisor gives 26 seats")
    found = seats_under_noise([500, 300, 201], 7, scale=30, repeats=200)
    assert found.mean.sum() == pytest.approx(7) and 0 < found.moved < 1
    with pytest.raises(ParameterError):
        apportion([1, 2, 3], 2)


@pytest.mark.parametrize("sizes", [[], [-1, 2], [0, 0], [math.nan], [[1, 2]]])
def test_counts_that_are_none(sizes: list[float]) -> None:
    with pytest.raises(ParameterError):
        allocate(sizes, scale=1, total=1)


def test_pictures(tmp_path: object) -> None:
    found = allocate([10, 1000], scale=20, total=1e6, repeats=50)
    found.plot(path=f"{tmp_path}/funds.png")
    assert "received over due" in str(found) and found.moved > 0
