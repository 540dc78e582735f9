"""The edges of parameter space: always an answer or a refusal that says why, ends in order, monotone in every parameter."""

import itertools
import math

import pytest

from tacit.accounting import (
    AccountingError,
    Adjacency,
    Bound,
    DiscreteGaussian,
    Event,
    Gaussian,
    Laplace,
    Poisson,
    RandomAllocation,
    RandomizedResponse,
    Repeated,
    Sampled,
    WithoutReplacement,
    WithReplacement,
    account,
)

RATES = (1e-6, 1e-4, 0.01, 0.3, 1.0)
SIGMAS = (0.2, 1.0, 10.0, 100.0)
STEPS = (1, 30, 1000, 10**5, 10**7)
DELTAS = (1e-3, 1e-10, 1e-30)
AR, RO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE


def _price(event: Event, adjacency: Adjacency, delta: float) -> Bound | None:
    try:
        found = account(event, adjacency).epsilon(delta)
    except AccountingError as refusal:
        assert str(refusal)
        return None
    assert 0 <= found.lower <= found.upper and not math.isnan(found.upper)
    return found


def _sampled(rate: float, sigma: float, steps: int) -> Event:
    return Repeated(Sampled(Poisson(rate), Gaussian(sigma)), steps)


def _grid(cases, adjacency: Adjacency) -> None:
    """Prices on a whole grid, each compared with its neighbours in every parameter."""
    found = {case: _price(_sampled(*case[:3]), adjacency, case[3]) for case in cases}
    axes = [sorted({case[i] for case in cases}) for i in range(4)]
    dearer = (1, -1, 1, -1)  # the direction in which each parameter makes the cost grow
    for case, price in found.items():
        for i, direction in enumerate(dearer):
            place = axes[i].index(case[i]) + direction
            if not 0 <= place < len(axes[i]):
                continue
            neighbour = found.get((*case[:i], axes[i][place], *case[i + 1 :]))
            if price is not None and neighbour is not None:
                assert price.lower <= neighbour.upper * (1 + 1e-12), (case, axes[i][place])


def test_poisson_small_grid() -> None:
    _grid(list(itertools.product((1e-4, 0.01, 0.3), (0.5, 2.0), (1, 1000, 10**6), (1e-5, 1e-20))), AR)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", [AR, RO])
@pytest.mark.parametrize("sigma", SIGMAS)
def test_poisson_full_grid(adjacency: Adjacency, sigma: float) -> None:
    _grid(list(itertools.product(RATES, (sigma,), STEPS, DELTAS)), adjacency)


@pytest.mark.slow
@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("steps", STEPS)
def test_other_schemes(sigma: float, steps: int) -> None:
    for delta in DELTAS:
        for scheme in (WithoutReplacement(10**4, 10), WithReplacement(10**4, 10)):
            _price(Repeated(Sampled(scheme, Gaussian(sigma)), steps), RO, delta)
        if steps <= 1000:
            _price(Repeated(Sampled(RandomAllocation(100), Gaussian(sigma)), min(steps, 30)), AR, delta)


@pytest.mark.parametrize(
    "make", [Laplace, lambda s: RandomizedResponse(1 / s, adjacency=AR), DiscreteGaussian], ids=["laplace", "rr", "discrete"]
)
@pytest.mark.parametrize("scale", [0.2, 10.0])
def test_discrete_and_atomic_mechanisms(make, scale: float) -> None:
    previous = 0.0
    for steps in (1, 7, 1000, 10**6):
        found = _price(Repeated(make(scale), steps), AR, 1e-20)
        assert found is not None and found.upper >= previous
        previous = found.lower
