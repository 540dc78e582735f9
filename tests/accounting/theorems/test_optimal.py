"""Optimal composition against enumeration, 50-digit sums at a count of a million, and the two heterogeneous methods against each other."""

import itertools
import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting.theorems import composition as theorems
from tacit.accounting.theorems import optimal
from tacit.errors import ParameterError, UnsupportedError


def enumerated(epsilons, eps):
    """The leak of randomised responses over all 2^k signs, in exact order of the definition."""
    total = 0.0
    weight = math.prod(1 / (1 + math.exp(e)) for e in epsilons)
    for signs in itertools.product((0, 1), repeat=len(epsilons)):
        up = sum(e for e, s in zip(epsilons, signs, strict=True) if s)
        down = sum(e for e, s in zip(epsilons, signs, strict=True) if not s)
        total += max(0.0, math.exp(up) - math.exp(eps + down))
    return weight * total


def binomial_leak(eps0, k, eps):
    """The Kairouz-Oh-Viswanath sum in 50 digits, from the first term that counts."""
    with mp.workdps(50):
        e0, e = mp.mpf(eps0), mp.mpf(eps)
        high = 1 / (1 + mp.exp(-e0))
        hits = max(0, int(mp.floor((e / e0 + k) / 2)) - 1)
        mass, total = mp.binomial(k, hits) * high**hits * (1 - high) ** (k - hits), mp.mpf(0)
        while hits <= k:
            term = mass * max(0, 1 - mp.exp(e - (2 * hits - k) * e0))
            total += term
            if hits > k * high and 0 < term < total * mp.mpf(10) ** -25:
                break
            mass *= mp.exp(e0) * (k - hits) / (hits + 1)
            hits += 1
        return total


@pytest.mark.parametrize("k", [1, 2, 5, 9])
def test_equal_rows_by_enumeration(k):
    for eps0 in (0.01, 0.5, 2.0):
        for eps in np.linspace(-k * eps0 - 0.1, k * eps0 * 0.999, 17):
            assert optimal.delta_optimal(eps0, 0.0, k, float(eps)) == pytest.approx(enumerated([eps0] * k, float(eps)), rel=1e-11)
        assert optimal.delta_optimal(eps0, 0.0, k, k * eps0) == 0.0


def test_delta_rows_by_enumeration_of_the_leaky_pair():
    for eps0, delta0, k, eps in ((0.5, 0.01, 3, 0.75), (0.5, 0.2, 4, -0.3), (1.0, 0.05, 2, 3.0)):
        p, q = np.ones(1), np.ones(1)
        for _ in range(k):
            u, v = theorems.leaky_randomised_response(eps0, delta0)
            p, q = np.outer(p, u).ravel(), np.outer(q, v).ravel()
        assert optimal.delta_optimal(eps0, delta0, k, eps) == pytest.approx(theorems.hockey_stick(p, q, eps), rel=1e-13)
    assert optimal.delta_optimal(0.5, 1.0, 3, 0.1) == 1.0


@pytest.mark.parametrize(
    ("eps0", "k", "deviations"),
    [(1e-3, 10**6, 5), (1e-3, 10**6, -1), (0.1, 10**6, 8), (1.0, 10**6, 30), (3.0, 20_000, 12), (1e-4, 10**5, 36), (0.5, 1000, 2)],
)
def test_a_million_rows_keep_twelve_digits(eps0, k, deviations):
    eps = k * eps0 * math.tanh(eps0 / 2) + deviations * eps0 * math.sqrt(k) / math.cosh(eps0 / 2)
    truth = binomial_leak(eps0, k, min(eps, k * eps0 * (1 - 1e-9)))
    assert abs(mp.exp(optimal.log_leak(eps0, k, min(eps, k * eps0 * (1 - 1e-9)))) / truth - 1) < 3e-12


def test_binomial_weights():
    with mp.workdps(40):
        for k, eps in ((1, 0.3), (7, 2.0), (50, 0.01), (10**4, 5.0), (10**6, 0.2), (30, 800.0)):
            hits = np.unique(np.array([0, 1, 2, k // 3, k // 2, int(k / (1 + math.exp(-eps))), k - 1, k]).clip(0, k)).astype(float)
            high, low = 1 / (1 + mp.exp(-mp.mpf(eps))), 1 / (1 + mp.exp(mp.mpf(eps)))
            for h, value in zip(hits, optimal._log_binomial(k, hits, eps), strict=True):
                truth = mp.log(mp.binomial(k, int(h))) + int(h) * mp.log(high) + (k - int(h)) * mp.log(low)
                assert value == pytest.approx(float(truth), rel=1e-14, abs=1e-12)


@settings(max_examples=80, deadline=None)
@given(
    st.floats(-4, 1).map(lambda x: 10.0**x),
    st.sampled_from([0.0, 1e-12, 1e-6]),
    st.integers(1, 3000),
    st.floats(-40, -0.2).map(lambda x: 10.0**x),
)
def test_epsilon_is_safe_and_tight(eps0, delta0, k, delta):
    eps = optimal.epsilon_optimal(eps0, delta0, k, delta)
    if eps == math.inf:
        assert theorems.total_delta([(eps0, delta0, k)]) > delta
        return
    assert optimal.delta_optimal(eps0, delta0, k, eps) <= delta
    assert eps <= theorems.strong([(eps0, delta0, k)], delta)
    if eps > 0 and delta > 2 * k * delta0:
        assert optimal.delta_optimal(eps0, delta0, k, eps - 1e-9 * max(eps, eps0)) > delta * (1 - 1e-11)


def test_epsilon_at_the_edges():
    assert optimal.epsilon_optimal(0.1, 1e-6, 1, 1e-6) == 0.1
    assert optimal.epsilon_optimal(0.1, 1e-6, 10, 1e-6) == math.inf
    assert optimal.epsilon_optimal(0.1, 0.0, 10, 0.0) == 1.0
    assert optimal.epsilon_optimal(0.0, 0.0, 10, 1e-9) == 0.0
    assert optimal.epsilon_optimal(0.1, 0.0, 10, 1.0) == 0.0
    assert optimal.epsilon_optimal(0.1, 0.0, 1, 0.2) == 0.0
    assert optimal.epsilon_optimal(5.0, 0.0, 10**6, 0.999999) > 4e6  # the mean loss is far above zero
    assert optimal.delta_optimal(0.0, 0.0, 3, -1.0) == pytest.approx(-math.expm1(-1.0), rel=1e-14)


# --- unequal rows -----------------------------------------------------------------------------------------------------


def forced_grid(monkeypatch):
    monkeypatch.setattr(optimal, "_EXACT", 0)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0.01, 2), min_size=1, max_size=9), st.floats(-1.2, 0.999))
def test_exact_delta_by_enumeration(epsilons, share):
    eps = share * sum(epsilons)
    bound = optimal.delta_heterogeneous([(e, 0.0) for e in epsilons], eps)
    truth = enumerated(epsilons, eps)
    assert bound.method == "optimal composition (exact)"
    assert bound.lower * (1 - 1e-12) - 1e-15 <= truth <= bound.upper * (1 + 1e-12) + 1e-15
    assert bound.width <= 1e-10 * bound.upper


few_rows = st.lists(st.tuples(st.floats(0.01, 1), st.sampled_from([0.0, 1e-4]), st.integers(1, 3)), min_size=1, max_size=4)


@settings(max_examples=40, deadline=None)
@given(few_rows, st.floats(-3, -0.3))
def test_exact_epsilon_by_enumeration(rows, log_delta):
    delta = 10.0**log_delta
    bound = optimal.epsilon_heterogeneous(rows, delta)
    if bound.upper == math.inf:
        assert theorems.total_delta(rows) > delta
        return
    epsilons = [e for e, _, n in rows for _ in range(n)]
    gone = theorems.total_delta(rows)
    assert gone + (1 - gone) * enumerated(epsilons, bound.upper) <= delta * (1 + 1e-10)
    assert bound.upper == 0 or gone + (1 - gone) * enumerated(epsilons, bound.lower - 1e-12) >= delta * (1 - 1e-9)
    assert bound.width <= 1e-9 * max(1.0, bound.upper)


def test_equal_rows_agree_with_the_binomial_sum(monkeypatch):
    for k, delta in ((15, 1e-6), (1000, 1e-9)):
        single = optimal.epsilon_optimal(0.1, 1e-12, k, delta)
        rows = [(0.1, 1e-12, k - 3), (0.1, 1e-12, 3)]
        bound = optimal.epsilon_heterogeneous(rows, delta)
        assert bound.lower <= single <= bound.upper * (1 + 1e-12)
        forced_grid(monkeypatch)
        gridded = optimal.epsilon_heterogeneous(rows, delta)
        assert gridded.method == "optimal composition (grid)"
        assert gridded.lower <= single <= gridded.upper
        monkeypatch.undo()


@pytest.mark.parametrize("delta", [1e-3, 1e-8, 1e-20])
def test_grid_brackets_the_exact_figure(monkeypatch, delta):
    rng = np.random.default_rng(3)
    rows = [(float(e), 0.0) for e in rng.uniform(0.05, 0.6, 22)]
    exact = optimal.epsilon_heterogeneous(rows, delta)
    deltas = [optimal.delta_heterogeneous(rows, exact.upper * s) for s in (-0.5, 0.3, 0.9)]
    assert exact.method == "optimal composition (exact)"
    forced_grid(monkeypatch)
    grid = optimal.epsilon_heterogeneous(rows, delta)
    assert grid.method == "optimal composition (grid)"
    assert grid.lower <= exact.lower <= exact.upper <= grid.upper
    assert grid.width < 2e-3
    for s, truth in zip((-0.5, 0.3, 0.9), deltas, strict=True):
        bound = optimal.delta_heterogeneous(rows, exact.upper * s)
        assert bound.lower <= truth.lower * (1 + 1e-12)
        assert truth.upper <= bound.upper * (1 + 1e-12)


def test_many_rows_have_a_narrow_bracket():
    rng = np.random.default_rng(0)
    rows = [(float(e), 0.0) for e in rng.uniform(0.001, 0.2, 100)]
    bound = optimal.epsilon_heterogeneous(rows, 1e-6)
    assert bound.method == "optimal composition (grid)"
    assert bound.width < 1e-4
    assert bound.upper < theorems.strong(rows, 1e-6)


def test_two_kinds_a_million_times():
    rows = [(0.001, 0.0, 10**6), (0.002, 0.0, 10**6)]
    bound = optimal.epsilon_heterogeneous(rows, 1e-6)
    assert bound.width < 1e-9
    # nearly normal losses: mu^2 = 1 + 4, and the worst mechanisms are no worse than the normal limit says to 1e-4
    from tacit.accounting.theorems import gaussian

    assert bound.upper == pytest.approx(gaussian.epsilon(math.sqrt(5), 1e-6), rel=1e-4)


def test_heterogeneous_edges():
    assert optimal.epsilon_heterogeneous([(0.3, 1e-6)], 1e-6).upper == 0.3
    assert optimal.epsilon_heterogeneous([(0.3, 1e-6, 2)], 1e-6).lower == math.inf
    assert optimal.epsilon_heterogeneous([(math.inf, 0.0)], 0.5).upper == math.inf
    assert optimal.epsilon_heterogeneous([(0.0, 0.0, 5)], 0.0).upper == 0.0
    assert optimal.epsilon_heterogeneous([(0.3, 0.0), (0.5, 0.0)], 1.0).upper == 0.0
    assert optimal.epsilon_heterogeneous([(0.3, 0.0), (0.5, 0.0)], 0.0).upper == 0.8
    assert optimal.delta_heterogeneous([(math.inf, 0.0)], 0.5).upper == 1.0
    assert optimal.delta_heterogeneous([(0.0, 0.1)], 0.5).upper == pytest.approx(0.1)
    assert optimal.delta_heterogeneous([(0.0, 0.0)], -1.0).upper == pytest.approx(-math.expm1(-1))
    assert optimal.delta_heterogeneous([(0.3, 0.0), (0.5, 0.0)], 0.8).upper == 0.0


# --- lower bounds -----------------------------------------------------------------------------------------------------


def test_error_floor_checks_its_conditions():
    with pytest.raises(UnsupportedError, match="delta"):
        optimal.mean_error_floor(1000, 10**6, 1.0, 1e-4)
    with pytest.raises(UnsupportedError, match="queries"):
        optimal.mean_error_floor(1000, 10**5, 1.0, 1e-6)
    with pytest.raises(UnsupportedError, match="queries"):
        optimal.mean_error_floor(1000, 10**5, 1e3, 1e-6)
    assert optimal.mean_error_floor(10, 10**9, 0.1, 1e-6) == 0.1


def test_bad_input_names_the_parameter():
    for call, name in (
        (lambda: optimal.delta_optimal(-1.0, 0.0, 2, 1.0), "eps0"),
        (lambda: optimal.delta_optimal(1.0, 2.0, 2, 1.0), "delta0"),
        (lambda: optimal.epsilon_optimal(1.0, 0.0, 0, 0.1), "uses"),
        (lambda: optimal.epsilon_optimal(1.0, 0.0, 2, math.nan), "delta"),
        (lambda: optimal.epsilon_heterogeneous([], 0.1), "empty"),
    ):
        with pytest.raises(ParameterError, match=name):
            call()
