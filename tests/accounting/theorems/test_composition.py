"""The composition theorems against enumeration of the worst mechanisms, and the simulation lemma on random pairs."""

import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.accounting.theorems import composition as theorems
from tacit.errors import ParameterError

THEOREMS = [theorems.basic, theorems.advanced, theorems.strong, theorems.drv]


def composed_delta(rows, eps):
    """delta at eps of independent leaky randomised responses, by enumerating all 4^k outcomes."""
    p, q = np.ones(1), np.ones(1)
    for e, d, n in theorems.rows_checked(rows):
        u, v = theorems.leaky_randomised_response(e, d)
        for _ in range(n):
            p, q = np.outer(p, u).ravel(), np.outer(q, v).ravel()
    return theorems.hockey_stick(p, q, eps)


rows = st.lists(st.tuples(st.floats(0, 1.5), st.floats(0, 0.05), st.integers(1, 2)), min_size=1, max_size=3)


@settings(max_examples=60, deadline=None)
@given(rows, st.floats(0, 0.5))
def test_every_theorem_bounds_the_worst_mechanisms(found, delta):
    for theorem in THEOREMS:
        eps = theorem(found, delta)
        assert eps == math.inf or composed_delta(found, eps) <= delta + 1e-12
        assert eps == math.inf or eps <= theorems.basic(found, delta)


def test_order_of_the_theorems():
    for eps in (0.01, 0.1, 0.5):
        for k in (1, 30, 1000):
            found = [(eps, 1e-9, k)]
            strong, advanced, drv = (f(found, 1e-4, or_basic=False) for f in (theorems.strong, theorems.advanced, theorems.drv))
            assert strong <= advanced <= drv


def test_counts_are_repetitions_and_cost_nothing():
    for theorem in THEOREMS:
        assert theorem([(0.1, 1e-8, 7), (0.2, 0.0)], 1e-5) == pytest.approx(theorem([(0.1, 1e-8)] * 7 + [(0.2, 0.0)], 1e-5), rel=1e-15)
    start = time.process_time()
    for _ in range(100):
        theorems.strong([(1e-3, 1e-12, 10**6)], 1e-5)
    assert time.process_time() - start < 1.0  # 0.003, however busy the machine is


def test_single_guarantee_costs_itself():
    for delta in (1e-300, 1e-17, 3e-7, 0.1, 0.7):
        for theorem in THEOREMS:
            assert theorem([(0.3, delta)], delta) == 0.3


def test_delta_that_cannot_be_met_is_infinite():
    for theorem in THEOREMS:
        assert theorem([(0.1, 1e-6, 10)], 9e-6) == math.inf
        assert theorem([(0.1, 1e-6, 10)], 1e-5) < math.inf
        assert theorem([(0.1, 0.0, 10)], 0.0) == 1.0
        assert theorem([(0.1, 0.3)], 1.0) == 0.0
        assert theorem([(math.inf, 0.0)], 0.5) == math.inf
    assert theorems.advanced([(0.1, 0.0)], 0.0, or_basic=False) == math.inf


@settings(max_examples=100, deadline=None)
@given(rows)
def test_total_delta_is_what_leaks_at_infinite_epsilon(found):
    leaked = 1 - math.prod((1 - d) ** n for _, d, n in found)
    assert theorems.total_delta(found) == pytest.approx(leaked, abs=1e-15)
    assert theorems.total_delta(found) <= math.fsum(d * n for _, d, n in found)


def test_sharp_spare_delta_is_exact():
    # (1 - spare) prod(1 - delta_j) = 1 - delta
    found, delta = [(0.1, 0.01, 5), (0.3, 0.02, 3)], 0.3
    spare = theorems.spare_delta(found, delta)
    assert (1 - spare) * 0.99**5 * 0.98**3 == pytest.approx(0.7, rel=1e-14)
    assert theorems.spare_delta(found, delta, sharp=False) == pytest.approx(0.3 - 0.11, rel=1e-14)
    assert theorems.spare_delta(found, 0.1) < 0
    assert theorems.spare_delta([(0.1, 1.0)], 0.9) < 0
    assert theorems.advanced(found, delta) < theorems.advanced(found, delta, sharp=False)


def test_crossover_of_strong_and_basic():
    for eps, delta in ((0.01, 1e-6), (0.3, 1e-3)):
        at = theorems.strong_crossover(eps, delta)
        for k, better in ((math.floor(at), False), (math.ceil(at), True)):
            assert (theorems.strong([(eps, 0.0, k)], delta, or_basic=False) < k * eps) is better


def test_laplace_scale_is_safe_and_tight():
    for k, eps, delta in ((100, 1.0, 1e-6), (3, 1.0, 1e-6), (10**6, 0.1, 1e-9), (5, 2.0, 0.0)):
        scale = theorems.laplace_scale(k, eps, delta)
        assert theorems.advanced([(1 / scale, 0.0, k)], delta) <= eps
        assert theorems.advanced([(1 / (scale * (1 - 1e-9)), 0.0, k)], delta) > eps


# --- the simulation lemma ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("eps", "delta"), [(0.0, 0.0), (0.0, 0.3), (1.0, 0.0), (1.0, 0.2), (40.0, 0.1), (800.0, 0.0), (1.0, 1.0)])
def test_worst_pair_is_tight(eps, delta):
    u, v = theorems.leaky_randomised_response(eps, delta)
    assert u.sum() == pytest.approx(1, abs=1e-15)
    assert sorted(u) == sorted(v)
    if eps < 700:
        assert theorems.hockey_stick(u, v, eps) == pytest.approx(delta, abs=1e-15)
        assert u[0] <= 1 / (1 + math.exp(-eps))  # the largest atom an eps-DP mechanism can have at loss eps


@settings(deadline=None)
@given(st.integers(2, 6), st.just(0.0) | st.floats(1e-3, 3), st.booleans(), st.integers(0, 10**6))
def test_any_pair_is_a_post_processing_of_the_worst_pair(size, eps, exact, seed):
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.full(size, 0.7)), rng.dirichlet(np.full(size, 0.7))
    if rng.random() < 0.3:
        p = np.where(np.arange(size) == 0, 0.0, p)
        p = p / p.sum()
    need = max(theorems.hockey_stick(p, q, eps), theorems.hockey_stick(q, p, eps))
    delta = need if exact else min(1.0, need + rng.uniform(0, 1 - need))
    f = theorems.simulate(p, q, eps, delta)
    u, v = theorems.leaky_randomised_response(eps, delta)
    # a row that has no mass in either pair may be anything
    used = (u + v) > 1e-9
    assert (f >= 0).all()
    assert f[used].sum(1) == pytest.approx(np.ones(used.sum()), abs=1e-8)
    assert u @ f == pytest.approx(p, abs=1e-9)
    assert v @ f == pytest.approx(q, abs=1e-9)


def test_lecture_example_laplace_from_randomised_response():
    # rounded Laplace noise on neighbouring values is a post-processing of plain randomised response
    scale, grid = 2.0, np.arange(-40, 42)
    p, q = np.exp(-np.abs(grid) / scale), np.exp(-np.abs(grid - 1) / scale)
    p, q = p / np.exp(-np.abs(np.arange(-4000, 4000)) / scale).sum(), q / np.exp(-np.abs(np.arange(-4000, 4000)) / scale).sum()
    p[0], q[0] = p[0] + (1 - p.sum()), q[0] + (1 - q.sum())
    f = theorems.simulate(p, q, 1 / scale + 1e-6, 0.0)
    u, v = theorems.leaky_randomised_response(1 / scale + 1e-6, 0.0)
    assert u @ f == pytest.approx(p, abs=1e-12)
    assert v @ f == pytest.approx(q, abs=1e-12)


def test_distinguishable_pairs_are_refused():
    with pytest.raises(ParameterError, match="indistinguishable"):
        theorems.simulate([0.9, 0.1], [0.1, 0.9], 0.5, 0.01)


def test_hockey_stick_is_the_best_event():
    rng = np.random.default_rng(0)
    for _ in range(20):
        p, q, eps = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(5)), rng.uniform(-1, 1)
        best = max(sum(p[list(s)]) - math.exp(eps) * sum(q[list(s)]) for r in range(6) for s in itertools.combinations(range(5), r))
        assert theorems.hockey_stick(p, q, eps) == pytest.approx(best, abs=1e-15)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: theorems.basic([], 0.1), "empty"),
        (lambda: theorems.basic([(0.1,)], 0.1), "row"),
        (lambda: theorems.basic([(-0.1, 0.0)], 0.1), "eps"),
        (lambda: theorems.basic([(math.nan, 0.0)], 0.1), "eps"),
        (lambda: theorems.advanced([(0.1, 1.5)], 0.1), "delta"),
        (lambda: theorems.strong([(0.1, 0.0, 0)], 0.1), "count"),
        (lambda: theorems.drv([(0.1, 0.0)], -0.1), "delta"),
    ],
)
def test_bad_input_names_the_parameter(call, name):
    with pytest.raises(ParameterError, match=name):
        call()
