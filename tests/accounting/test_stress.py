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
    TruncatedPoisson,
    WithoutReplacement,
    WithReplacement,
    account,
)

RATES = (1e-6, 1e-4, 0.01, 0.3, 1.0)
SIGMAS = (0.2, 1.0, 10.0, 100.0)
STEPS = (1, 30, 1000, 10**5, 10**7)
DELTAS = (1e-3, 1e-10, 1e-30)
EPSILONS = (1e-3, 0.1, 10.0, 1e4)
AR, RO, ZO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT
SIZE = 10**6

Case = tuple[float, float, int, float]  # rate, sigma, steps, and delta or epsilon
DEARER = (1, -1, 1, -1)  # the direction in which each of these makes the answer grow


def _event(scheme: str, rate: float, sigma: float, steps: int) -> Event:
    drawn = max(1, round(SIZE * rate))
    noise = Gaussian(sigma, adjacency=ZO) if scheme == "zero-out" else Gaussian(sigma)
    if scheme in ("add/remove", "replace-one", "zero-out"):
        return Repeated(Sampled(Poisson(rate), noise), steps)
    if scheme == "truncated":
        return Repeated(Sampled(TruncatedPoisson(rate, SIZE, int(drawn + 14 * math.sqrt(drawn) + 40)), noise), steps)
    if scheme == "without":
        return Repeated(Sampled(WithoutReplacement(SIZE, drawn), noise), steps)
    if scheme == "with":
        return Repeated(Sampled(WithReplacement(SIZE, drawn), noise), steps)
    return Repeated(Sampled(RandomAllocation(max(1, round(1 / rate))), noise), steps)


RELATIONS = {
    "add/remove": AR,
    "replace-one": RO,
    "zero-out": ZO,
    "truncated": AR,
    "without": RO,
    "with": RO,
    "allocation": AR,
}


def _price(event: Event, adjacency: Adjacency, delta: float | None = None, epsilon: float | None = None) -> Bound | None:
    try:
        asked = account(event, adjacency)
        found = asked.epsilon(delta) if epsilon is None and delta is not None else asked.delta(epsilon or 0.0)
    except AccountingError as refusal:
        assert len(str(refusal)) > 20
        return None
    assert 0 <= found.lower <= found.upper and not math.isnan(found.upper)
    return found


def _violations(found: dict[Case, Bound | None]) -> list[tuple[Case, Case]]:
    """Neighbours on the grid of which the dearer one is certified to cost less than the cheaper one is certified to."""
    axes = [sorted({case[i] for case in found}) for i in range(4)]
    wrong = []
    for case, price in found.items():
        for i, direction in enumerate(DEARER):
            place = axes[i].index(case[i]) + direction
            if not 0 <= place < len(axes[i]):
                continue
            dear = (*case[:i], axes[i][place], *case[i + 1 :])
            dearer = found.get(dear)  # type: ignore[arg-type]
            if price is not None and dearer is not None and price.lower > dearer.upper * (1 + 1e-12):
                wrong.append((case, dear))
    return wrong  # type: ignore[return-value]


def _grid(scheme: str, cases: list[Case], *, ask: str = "delta") -> dict[Case, Bound | None]:
    return {case: _price(_event(scheme, *case[:3]), RELATIONS[scheme], **{ask: case[3]}) for case in cases}


@pytest.mark.parametrize("scheme", ["add/remove", "replace-one"])
def test_poisson_small_grid(scheme: str) -> None:
    found = _grid(scheme, list(itertools.product((1e-6, 1e-3, 0.3), (0.5, 3.0), (1, 10**6), (1e-5, 1e-25))))
    assert None not in found.values()
    assert not _violations(found)
    assert not [case for case, price in found.items() if price is not None and price.width > max(0.02 * price.upper, 1e-12)]


@pytest.mark.parametrize("scheme", ["zero-out", "truncated", "without", "with", "allocation"])
def test_other_schemes_small_grid(scheme: str) -> None:
    found = _grid(scheme, list(itertools.product((1e-3, 0.1), (0.8, 5.0), (100,), (1e-5,))))
    assert None not in found.values()
    assert not _violations(found)


@pytest.mark.parametrize("scheme", ["add/remove", pytest.param("without", marks=pytest.mark.slow)])
def test_deltas_small_grid(scheme: str) -> None:
    found = _grid(scheme, list(itertools.product((1e-5, 0.1), (0.5, 20.0), (10, 10**5), (0.1, 1e4))), ask="epsilon")
    assert None not in found.values()
    assert not _violations(found)


def test_a_wrong_order_would_be_seen() -> None:
    """The mutant that prices more steps like fewer, and fewer like more, is caught by the very check of the grids."""
    cases = list(itertools.product((0.01,), (1.0,), (10, 1000), (1e-6,)))
    found = _grid("add/remove", cases)
    assert not _violations(found)
    assert _violations(dict(zip(cases, reversed(found.values()), strict=True)))


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["add/remove", "replace-one", "without", "with"])
@pytest.mark.parametrize("sigma", SIGMAS)
def test_full_grid(scheme: str, sigma: float) -> None:
    assert not _violations(_grid(scheme, list(itertools.product(RATES, (sigma,), STEPS, DELTAS))))


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["truncated", "zero-out", "allocation"])
@pytest.mark.parametrize("sigma", SIGMAS)
def test_full_grid_of_rarer_schemes(scheme: str, sigma: float) -> None:
    assert not _violations(_grid(scheme, list(itertools.product((1e-5, 0.01, 0.3), (sigma,), (1, 30, 10**5), (1e-3, 1e-20)))))


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["add/remove", "replace-one", "without"])
@pytest.mark.parametrize("sigma", SIGMAS)
def test_full_grid_of_deltas(scheme: str, sigma: float) -> None:
    assert not _violations(_grid(scheme, list(itertools.product(RATES, (sigma,), STEPS, EPSILONS)), ask="epsilon"))


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
