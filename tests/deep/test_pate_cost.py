"""The cost on the votes cast: against exact divergences by quadrature; its release against every neighbour of small votes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from tacit.accounting import ParameterError
from tacit.deep.pate_cost import (
    FINE,
    WIDTH,
    LaplaceLaw,
    dependent_epsilon,
    disagreement,
    fixed_moment,
    gaps,
    independent_epsilon,
    moment,
    moments,
    publish_cost,
    reach,
    sensitivities,
    total_moment,
)
from tacit.mechanisms import ladder
from tacit.noise import discrete_laplace, rounded_laplace, test_mode


def winner_law(votes: Sequence[int], scale: float, law: Any = stats.laplace) -> NDArray[np.float64]:
    """P[label j has the largest noisy count]: density times the others' distribution functions, by Gauss's rule on smooth pieces."""
    edges = np.unique(np.array(votes, dtype=float))
    outside = scale * np.array([2.0, 6.0, 14.0, 30.0, 60.0])
    cuts = np.unique(
        np.concatenate([edges[0] - outside, edges[-1] + outside, *(np.linspace(a, b, 9) for a, b in itertools.pairwise(edges)), edges])
    )
    nodes, weights = np.polynomial.legendre.leggauss(40)
    middle, half = (cuts[1:] + cuts[:-1]) / 2, np.diff(cuts) / 2
    x, w = (middle[:, None] + half[:, None] * nodes).ravel(), (half[:, None] * weights).ravel()
    below = [law.cdf(x, vote, scale) for vote in votes]
    return np.array(
        [(w * law.pdf(x, own, scale) * np.prod([b for k, b in enumerate(below) if k != j], axis=0)).sum() for j, own in enumerate(votes)]
    )


def neighbours(votes: tuple[int, ...]) -> list[tuple[int, ...]]:
    found = []
    for source, target in itertools.permutations(range(len(votes)), 2):
        if votes[source]:
            moved = list(votes)
            moved[source] -= 1
            moved[target] += 1
            found.append(tuple(moved))
    return found


@pytest.mark.parametrize("votes", [(40, 2), (30, 8, 1), (14, 11), (25, 25), (3, 60, 9)], ids=str)
@pytest.mark.parametrize("gamma", [0.2, 0.6])
def test_the_moment_covers_the_exact_divergence(votes: tuple[int, ...], gamma: float) -> None:
    law = winner_law(votes, 2 / gamma)
    q = 1 - max(law) if len(set(votes)) == len(votes) else 1 - law[0]
    assert disagreement(votes, gamma) >= q - 1e-9
    if len(votes) == 2:
        assert disagreement(votes, gamma) == pytest.approx(q, rel=1e-5), "exact for two labels"
    for other in neighbours(votes):
        changed = winner_law(other, 2 / gamma)
        for lam in (1, 4, 15):
            exact = math.log(sum(p * (p / c) ** lam for p, c in zip(law, changed, strict=True)))
            assert exact <= moment(lam, gamma, disagreement(votes, gamma)) + 1e-8


def test_noise_on_whole_votes_would_break_the_bound() -> None:
    """Ties. Noise rounded to whole votes ties often, and a tie may go to the loser: (7.11) is then too small. Fine lattices mend it."""
    rows, gamma, gap = 400_000, 2.0, 1
    with test_mode(5):
        coarse = rounded_laplace(2 / gamma, size=(rows, 2))
        fine = rounded_laplace(2 * FINE / gamma, size=(rows, 2))
    stated = disagreement([gap, 0], gamma)
    spread = 6 * math.sqrt(0.25 / rows)
    assert float(np.mean(coarse[:, 1] >= coarse[:, 0] + gap)) > stated + spread, "the mutant"
    assert float(np.mean(fine[:, 1] >= fine[:, 0] + gap * FINE)) < stated + spread


def test_rounded_counts_are_allowed_for() -> None:
    """Two noisy counts, each rounded by half of 1/FINE, change places or tie while the real ones are up to 1/FINE apart."""

    def real(gap: float, gamma: float) -> float:
        return (2 + gamma / 2 * gap) / 4 * math.exp(-gamma / 2 * gap)

    for gap, gamma in ((60, 0.9), (3, 40.0)):
        assert disagreement([gap, 0], gamma) == pytest.approx(real(gap - 1 / FINE, gamma), rel=1e-11)
        assert disagreement([gap, 0], gamma) > real(gap, gamma) * (1 + 1e-7)


@settings(max_examples=60, deadline=None)
@given(st.floats(1e-3, 5), st.integers(1, 200))
def test_the_moment_grows_with_q_and_never_passes_the_fixed_one(gamma: float, lam: int) -> None:
    q = np.concatenate([[0.0], np.geomspace(1e-14, 3, 400)])
    values = moments(lam, gamma, q)
    assert np.isfinite(values).all()
    assert (np.diff(values) >= -1e-11 * values[1:]).all()
    assert values.max() == fixed_moment(lam, gamma)
    limit = 1 / (math.exp(gamma) + 1)
    assert values[q >= limit].min() == fixed_moment(lam, gamma)


@pytest.mark.parametrize("gamma", [1e-6, 50.0, 800.0])
def test_extreme_noise_gives_numbers(gamma: float) -> None:
    for votes in ([[10, 0]], [[0, 0]], [[10**9, 0, 0]]):
        assert 0 <= dependent_epsilon(votes, gamma, 1e-5) <= independent_epsilon(1, gamma, 1e-5) <= gamma


def test_dependent_is_never_more_than_independent() -> None:
    for votes in ([200, 50], [130, 120], [250, 0], [0, 0]):
        assert dependent_epsilon([votes] * 40, 0.1, 1e-5) <= independent_epsilon(40, 0.1, 1e-5)
    with pytest.raises(ParameterError, match="delta"):
        dependent_epsilon([[3, 1]], 0.1, 0)


# The release

LAM, LAW, GRANULE, TEACHERS = 6, LaplaceLaw(0.9), 1e-4, 7


def profiles() -> list[tuple[tuple[int, ...], ...]]:
    """All votes of seven teachers on two questions with two labels each."""
    one = [(k, TEACHERS - k) for k in range(TEACHERS + 1)]
    return list(itertools.product(one, one))


def near(votes: tuple[tuple[int, ...], ...]) -> list[tuple[tuple[int, ...], ...]]:
    """All votes that one teacher can make of these: each question changes by at most one vote."""
    return [other for other in profiles() if other != votes and all(abs(a[0] - b[0]) <= 1 for a, b in zip(votes, other, strict=True))]


def test_sensitivities_are_what_the_ladder_asks_for_all_small_votes() -> None:
    value = {v: total_moment(gaps(v), LAM, LAW, GRANULE) for v in profiles()}
    bounds = {v: sensitivities(gaps(v), LAM, LAW, GRANULE, most=5) for v in profiles()}
    for votes in profiles():
        for other in near(votes):
            assert abs(value[votes] - value[other]) <= bounds[votes][0]
            assert (bounds[votes][:-1] <= bounds[other][1:]).all()
    assert len(set(value.values())) > 5, "the votes do differ in cost"


def test_a_gap_that_moves_by_one_only_would_be_refuted() -> None:
    """The mutant: shifts of t instead of 2t. A vote taken from the winner and given to the second moves the gap by two."""
    values = {v: total_moment(gaps(v), LAM, LAW, GRANULE) for v in profiles()}

    def mutant(votes: Any) -> int:
        d = gaps(votes)
        high, low = (total_moment(d, LAM, LAW, GRANULE, shift) for shift in (-1, 1))
        return max(high - values[votes], values[votes] - low)

    assert any(abs(values[v] - values[w]) > mutant(v) for v in profiles() for w in near(v))


def test_the_release_is_private_on_all_small_votes() -> None:
    """Exact, on the ladder's own laws: neighbours' released moments and rungs are within epsilon of each other at every output."""
    epsilon = 0.8
    steps = ladder(2000, epsilon, None, 4)
    granule = 2 * LAW.fixed(LAM) / 1990
    outputs = np.arange(-4000, 6000, 7)

    def law(votes: Any) -> Any:
        d = gaps(votes)
        rung = steps.rung(np.minimum(sensitivities(d, LAM, LAW, granule, len(steps.scales)), 2000))
        scale = float(steps.scales[rung])
        centre = total_moment(d, LAM, LAW, granule)
        return rung, -np.log(scale**4 + (outputs - centre).astype(float) ** 4) - steps.law.log_total(scale)  # type: ignore[union-attr]

    laws = {v: law(v) for v in profiles()}
    assert len({rung for rung, _ in laws.values()}) > 1
    for votes in profiles():
        for other in near(votes):
            assert abs(laws[votes][0] - laws[other][0]) <= 1
            assert np.abs(laws[votes][1] - laws[other][1]).max() <= epsilon


def test_the_total_is_an_upper_bound_close_to_the_moment() -> None:
    votes = [[150, 60, 40], [250, 0, 0], [130, 120, 0], [200, 30, 20]]
    exact = sum(moment(15, 0.1, disagreement(v, 0.1)) for v in votes)
    tabulated = total_moment(gaps(votes), 15, LaplaceLaw(0.1), 1e-7) * 1e-7
    assert exact <= tabulated <= exact * 1.01 + 1e-6


@pytest.mark.parametrize("tail", [2, 4])
def test_the_released_bound_holds_as_often_as_it_says(tail: int) -> None:
    votes = [[1000, 0, 0]] * 20 + [[520, 480, 0]]
    truth = sum(moment(20, 0.1, disagreement(v, 0.1)) for v in votes)
    with test_mode(3):
        how = {"teachers": 1000, "delta": 1e-5, "order": 20, "epsilon": 2, "failure": 0.1, "tail": tail}
        told = [publish_cost(votes, LaplaceLaw(0.1), **how) for _ in range(120)]
    short = sum(one.moment < truth for one in told)
    assert short <= stats.binom.ppf(1 - 1e-6, 120, 0.1)
    assert min(one.epsilon for one in told) < independent_epsilon(21, 0.1, 1e-5)
    assert all(one.moment <= 21 * fixed_moment(20, 0.1) * (1 + 1e-9) for one in told)


def test_agreement_is_worth_publishing() -> None:
    votes = [[1000] + [0] * 9] * 200
    with test_mode(4):
        told = publish_cost(votes, LaplaceLaw(0.1), teachers=1000, delta=1e-5, order=20, epsilon=1)
    assert dependent_epsilon(votes, 0.1, 1e-5) < told.epsilon < 0.2 * independent_epsilon(200, 0.1, 1e-5)


@pytest.mark.parametrize("tail", [2, 4])
def test_reach_against_the_sum(tail: int) -> None:
    steps = ladder(5000, 1.0, None, tail)
    for rung in (0, len(steps.scales) // 2):
        scale = float(steps.scales[rung])
        k = np.arange(-(10**6), 10**6 + 1, dtype=float)
        mass = np.exp(-np.log(scale**tail + np.abs(k) ** tail) - steps.law.log_total(scale))  # type: ignore[union-attr]
        for failure in (0.05, 0.005):
            beyond = float(mass[k > reach(steps, rung, failure)].sum())
            assert beyond <= failure
    assert reach(steps, 1, 0.001) >= reach(steps, 1, 0.01)


def test_the_margin_of_the_rung_holds() -> None:
    """discrete Laplace noise of scale 1/h falls below -ceil(log(2/f)/h) with probability at most f/2."""
    h, failure = 0.5, 0.2
    margin = math.ceil(math.log(2 / failure) / h)
    a = math.exp(-h)
    assert a ** (margin + 1) / (1 + a) <= failure / 2
    with test_mode(2):
        assert float(np.mean(discrete_laplace(1 / h, size=20_000) < -margin)) <= failure / 2
    assert WIDTH > 10**6
