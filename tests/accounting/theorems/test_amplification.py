"""Amplification of privacy profiles, against closed forms, quadrature and brute-force sampling of random finite mechanisms."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from tacit.accounting.theorems import amplification as amp
from tacit.errors import ParameterError

EPSILONS = np.array([0.0, 0.05, 0.3, 1.0, 2.5])
Law = dict[tuple[int, ...], float]  # sample -> probability
Table = dict[tuple[int, ...], np.ndarray]  # sample -> output distribution


# ---- brute force: what sampling does to an explicit mechanism ---------------------------------------------------------------------


def divergence(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return sum(max(float(x) - math.exp(epsilon) * float(y), 0.0) for x, y in zip(p, q, strict=True))


def table(samples: Iterable[tuple[int, ...]], seed: int) -> Table:
    rng = np.random.default_rng(seed)
    concentration = rng.choice([0.3, 1.0, 5.0])
    return {sample: rng.dirichlet(np.full(3, concentration)) for sample in samples}


def profile_of(mechanism: Table, related: Callable[[tuple[int, ...], tuple[int, ...]], bool]) -> amp.Profile:
    """The exact profile of an explicit mechanism over all related pairs of samples."""
    pairs = [(mechanism[x], mechanism[y]) for x in mechanism for y in mechanism if related(x, y)]

    def delta(epsilon: object) -> np.ndarray:
        eps = np.asarray(epsilon, dtype=float)
        values = [max((divergence(p, q, float(e)) for p, q in pairs), default=0.0) for e in np.atleast_1d(eps).ravel()]
        return np.array(values).reshape(eps.shape)

    return delta


def replacements(x: tuple[int, ...], y: tuple[int, ...]) -> int:
    """How many replacements turn one multiset into another of the same size."""
    return len(x) - sum((Counter(x) & Counter(y)).values())


def one_more(x: tuple[int, ...], y: tuple[int, ...]) -> bool:
    return abs(len(x) - len(y)) == 1 and (set(x) < set(y) or set(y) < set(x))


def output(law: Law, mechanism: Table) -> np.ndarray:
    return np.sum([p * mechanism[sample] for sample, p in law.items()], axis=0)


def poisson_law(records: tuple[int, ...], rate: float) -> Law:
    subsets = itertools.chain.from_iterable(itertools.combinations(records, k) for k in range(len(records) + 1))
    return {s: rate ** len(s) * (1 - rate) ** (len(records) - len(s)) for s in subsets}


def subset_law(records: tuple[int, ...], size: int) -> Law:
    return {s: 1 / math.comb(len(records), size) for s in itertools.combinations(records, size)}


def draws_law(records: tuple[int, ...], size: int) -> Law:
    law: Law = {}
    for draw in itertools.product(records, repeat=size):
        key = tuple(sorted(draw))
        law[key] = law.get(key, 0.0) + len(records) ** -size
    return law


def truncated_law(records: tuple[int, ...], rate: float, batch: int) -> Law:
    law: Law = {}
    for sample, p in poisson_law(records, rate).items():
        kept = list(itertools.combinations(sample, batch)) if len(sample) > batch else [sample]
        for k in kept:
            law[k] = law.get(k, 0.0) + p / len(kept)
    return law


def worst(first: Law, second: Law, mechanism: Table) -> np.ndarray:
    p, q = output(first, mechanism), output(second, mechanism)
    return np.array([max(divergence(p, q, e), divergence(q, p, e)) for e in EPSILONS])


seeds = st.integers(0, 2**32 - 1)
rates = st.sampled_from([0.01, 0.2, 0.5, 0.9])


@settings(max_examples=40)
@given(seed=seeds, n=st.integers(1, 4), rate=rates)
def test_poisson_sampling_of_random_mechanisms(seed: int, n: int, rate: float) -> None:
    records = tuple(range(n))
    mechanism = table(poisson_law(records, 0.5), seed)
    bound = amp.poisson(profile_of(mechanism, one_more), rate)
    truth = worst(poisson_law(records, rate), poisson_law(records[:-1], rate), mechanism)
    assert np.all(truth <= bound(EPSILONS) + 1e-12)


@settings(max_examples=20)
@given(seed=seeds, n=st.integers(2, 4), rate=rates)
def test_poisson_sampling_under_replacement(seed: int, n: int, rate: float) -> None:
    mechanism = table(poisson_law(tuple(range(n + 1)), 0.5), seed)
    single = profile_of(mechanism, one_more)
    replaced = profile_of(mechanism, lambda x, y: len(x) == len(y) and replacements(x, y) == 1)
    truth = worst(poisson_law(tuple(range(n)), rate), poisson_law((*range(n - 1), n), rate), mechanism)
    assert np.all(truth <= amp.poisson_replace(single, rate)(EPSILONS) + 1e-12)
    assert np.all(truth <= amp.poisson_replace(single, rate, replaced)(EPSILONS) + 1e-12)


@settings(max_examples=40)
@given(seed=seeds, n=st.integers(2, 5), data=st.data())
def test_sampling_without_replacement(seed: int, n: int, data: st.DataObject) -> None:
    m = data.draw(st.integers(1, n))
    mechanism = table(itertools.combinations(range(n + 1), m), seed)
    bound = amp.without_replacement(profile_of(mechanism, lambda x, y: replacements(x, y) == 1), n, m)
    truth = worst(subset_law(tuple(range(n)), m), subset_law((*range(n - 1), n), m), mechanism)
    assert np.all(truth <= bound(EPSILONS) + 1e-12)


def group_family(mechanism: Table) -> amp.Groups:
    return lambda k: profile_of(mechanism, lambda x, y: replacements(x, y) <= k)


@settings(max_examples=30)
@given(seed=seeds, n=st.integers(1, 4), m=st.integers(1, 3))
def test_sampling_with_replacement(seed: int, n: int, m: int) -> None:
    mechanism = table(itertools.combinations_with_replacement(range(n + 1), m), seed)
    bound = amp.with_replacement(group_family(mechanism), n, m)
    truth = worst(draws_law(tuple(range(n)), m), draws_law((*range(n - 1), n), m), mechanism)
    assert np.all(truth <= bound(EPSILONS) + 1e-12)


@settings(max_examples=30)
@given(seed=seeds, n=st.integers(2, 4), m=st.integers(1, 3))
def test_with_replacement_under_addition_and_removal(seed: int, n: int, m: int) -> None:
    mechanism = table(itertools.combinations_with_replacement(range(n), m), seed)
    truth = worst(draws_law(tuple(range(n)), m), draws_law(tuple(range(n - 1)), m), mechanism)
    bound = amp.hybrid(group_family(mechanism), n, m)(EPSILONS)
    assert np.all(truth <= bound + 1e-12)
    if n > 2:  # any smaller size is a bound too
        assert np.all(bound <= amp.hybrid(group_family(mechanism), n - 1, m)(EPSILONS) + 1e-12)


@settings(max_examples=40)
@given(seed=seeds, n=st.integers(2, 4), rate=rates, batch=st.integers(1, 4))
def test_truncated_poisson_sampling(seed: int, n: int, rate: float, batch: int) -> None:
    records = tuple(range(n))
    mechanism = table(poisson_law(records, 0.5), seed)
    bound = amp.truncated(amp.poisson(profile_of(mechanism, one_more), rate), rate, n, batch)
    truth = worst(truncated_law(records, rate, batch), truncated_law(records[:-1], rate, batch), mechanism)
    assert np.all(truth <= bound(EPSILONS) + 1e-12)


def test_truncation_has_a_price() -> None:
    """A full batch swaps records instead of adding one, so the plain bound fails for a mechanism on which a swap costs two steps."""
    rate, records, epsilon = 0.9, (0, 1), 0.9
    chance = {(): 0.05, (1,): 0.05 * math.exp(1), (0,): 0.05 * math.exp(-1), (0, 1): 0.05}
    mechanism = {s: np.array([p, 1 - p]) for s, p in chance.items()}
    plain = amp.poisson(profile_of(mechanism, one_more), rate)
    with_record, without = (output(truncated_law(x, rate, 1), mechanism) for x in (records, records[:1]))
    truth = divergence(with_record, without, epsilon)
    assert plain(epsilon) < truth <= amp.truncated(plain, rate, 2, 1)(epsilon)
    assert amp.truncated(plain, rate, 2, 2)(epsilon) == plain(epsilon)  # nothing is ever cut
    tail = rate**2
    assert amp.truncated(plain, rate, 2, 1)(0.01) == pytest.approx(min(1, plain(0.01) + (1 + math.exp(0.01)) * tail))
    small = amp.truncated(amp.guarantee(0.5, 1e-9), 0.01, 1000, 30)
    assert small(0.5) == pytest.approx(1e-9 + (1 + math.exp(0.5)) * math.exp(amp.log_binomial_tail(1000, 0.01, 30)), rel=1e-9)


# ---- tight cases ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (0.3, 0.1), (2.0, 0.0)])
def test_randomised_membership_attains_the_theorems(epsilon: float, delta: float) -> None:
    n, p = 4, amp.membership_probability(epsilon, delta)
    yes, no = np.array([p, 1 - p]), np.array([1 - p, p])

    def mechanism(samples: Iterable[tuple[int, ...]]) -> Table:
        return {s: yes if 0 in s else no for s in samples}

    subsets = mechanism(poisson_law(tuple(range(n + 1)), 0.5))
    multisets = mechanism(itertools.combinations_with_replacement(range(n + 1), 3))
    base = profile_of(subsets, one_more)
    assert float(base(epsilon)) == pytest.approx(delta, abs=1e-15)  # Lemma 12: it is (epsilon, delta)-private, and no better
    assert np.all(base(EPSILONS) <= amp.guarantee(epsilon, delta)(EPSILONS) + 1e-15)
    neighbours = (tuple(range(n)), (*range(1, n), n))
    cases = [
        (0.3, worst(poisson_law(neighbours[0], 0.3), poisson_law(neighbours[0][1:], 0.3), subsets)),
        (2 / n, worst(subset_law(neighbours[0], 2), subset_law(neighbours[1], 2), subsets)),
        (amp.with_replacement_rate(n, 3), worst(draws_law(neighbours[0], 3), draws_law(neighbours[1], 3), multisets)),
    ]
    for rate, truth in cases:
        assert truth == pytest.approx(amp.membership_profile(rate, epsilon, delta)(EPSILONS), abs=1e-15)
        at = amp.amplified_epsilon(rate, epsilon)
        assert amp.membership_profile(rate, epsilon, delta)(at) == pytest.approx(rate * delta, abs=1e-15)
        assert np.all(truth <= amp.poisson(amp.guarantee(epsilon, delta), rate)(EPSILONS) + 1e-15)


def test_randomised_response_on_the_sum_is_the_pure_tight_case() -> None:
    epsilon, rate = 1.0, 0.25
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    value = {0: 0, 1: 0, 2: 0, 3: 1}
    yes, no = np.array([keep, 1 - keep]), np.array([1 - keep, keep])
    zero = {s: yes if sum(value[i] for i in s) == 0 else no for s in poisson_law(tuple(value), 0.5)}
    p, q = output(poisson_law((0, 1, 2), rate), zero), output(poisson_law((0, 1, 2, 3), rate), zero)
    assert max(np.log(q / p)) == pytest.approx(amp.amplified_epsilon(rate, epsilon), rel=1e-14)
    assert amp.membership_profile(rate, epsilon)(0.1) == pytest.approx(divergence(q, p, 0.1), rel=1e-13)


@settings(max_examples=200)
@given(seed=seeds, rate=st.floats(0.001, 1), epsilon=st.floats(0, 6))
def test_advanced_joint_convexity_is_an_equality(seed: int, rate: float, epsilon: float) -> None:
    m0, m1, m2 = np.random.default_rng(seed).dirichlet(np.full(5, 0.7), size=3)
    left, right = amp.joint_convexity(m0, m1, m2, rate, epsilon)
    assert left == pytest.approx(right, abs=2e-15)


@settings(max_examples=100)
@given(seed=seeds, rate=st.floats(0.01, 1))
def test_both_directions_of_poisson_sampling_are_exact_for_a_pair(seed: int, rate: float) -> None:
    p, q = np.random.default_rng(seed).dirichlet(np.full(4, 0.7), size=2)
    mixed = rate * p + (1 - rate) * q
    leaves = amp.poisson(lambda e: np.vectorize(lambda x: divergence(p, q, x))(e), rate)
    joins = amp.poisson_add(lambda e: np.vectorize(lambda x: divergence(q, p, min(x, 700)))(e), rate)
    for e in EPSILONS:
        assert leaves(e) == pytest.approx(divergence(mixed, q, e), abs=1e-14)
        assert joins(e) == pytest.approx(divergence(q, mixed, e), abs=1e-14)


@settings(max_examples=60)
@given(seed=seeds, k=st.integers(1, 4))
def test_group_profiles_of_random_chains(seed: int, k: int) -> None:
    chain = np.random.default_rng(seed).dirichlet(np.full(3, 2.0), size=k + 1)
    steps = {(i,): chain[i] for i in range(k + 1)}
    base = profile_of(steps, lambda x, y: abs(x[0] - y[0]) == 1)
    truth = np.array([max(divergence(chain[0], chain[-1], e), divergence(chain[-1], chain[0], e)) for e in EPSILONS])
    assert np.all(truth <= amp.group(base, k)(EPSILONS) + 1e-13)
    point = amp.group_guarantee(0.4, float(base(0.4)), k)
    assert divergence(chain[0], chain[-1], point[0]) <= point[1] + 1e-13


def test_groups_of_one_cost_nothing_more_and_guarantees_agree_with_profiles() -> None:
    base = amp.gaussian_profile(0.7)
    assert amp.group(base, 1)(EPSILONS) == pytest.approx(base(EPSILONS), rel=1e-14)
    for k in (2, 3, 7):
        epsilon, delta = amp.group_guarantee(0.4, base(0.4), k)
        assert (epsilon, delta) == (pytest.approx(0.4 * k), pytest.approx(amp.group(base, k)(0.4 * k), rel=1e-12))
        assert amp.gaussian_groups(0.7)(k)(1.0) <= amp.group(base, k)(1.0)
        assert amp.laplace_groups(0.7)(k)(1.0) <= amp.group(amp.laplace_profile(0.7), k)(1.0) + 1e-15
    assert amp.group_guarantee(0, 1e-3, 5) == (0.0, pytest.approx(5e-3))
    assert amp.group_guarantee(800, 1e-300, 2) == (1600.0, 1.0)
    assert amp.replace_from_add_remove(0.5, 1e-4) == (1.0, pytest.approx((1 + math.exp(0.5)) * 1e-4))


def test_the_coupling_value_is_the_optimum_over_all_couplings() -> None:
    """Theorem 7 by linear programming: the draws that hit the record, against the draws from the other data set."""
    n, m = 3, 3
    hit = {s: p for s, p in draws_law(tuple(range(n)), m).items() if n - 1 in s}
    rate = sum(hit.values())
    first = {s: p / rate for s, p in hit.items()}
    second = draws_law(tuple(range(n - 1)), m)
    family = amp.laplace_groups(0.4)
    cost = np.array([[float(family(replacements(x, y))(0.2)) for y in second] for x in first])
    rows = [np.kron(np.eye(len(first))[i], np.ones(len(second))) for i in range(len(first))]
    columns = [np.kron(np.ones(len(first)), np.eye(len(second))[j]) for j in range(len(second))]
    best = linprog(cost.ravel(), A_eq=np.array(rows + columns), b_eq=[*first.values(), *second.values()], bounds=(0, None))
    weights = [sum(p for s, p in first.items() if s.count(n - 1) == k) for k in range(1, m + 1)]
    assert amp.coupling_value(weights, family)(0.2) == pytest.approx(best.fun, rel=1e-9)
    inner = amp.base_epsilon(rate, 0.1)
    assert rate * amp.coupling_value(weights, family)(inner) == pytest.approx(amp.with_replacement(family, n, m)(0.1), rel=1e-12)


# ---- numbers ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1e-12, 1e-3, 1.0, 50.0, 689.9, 690.1, 705.0, 3000.0])
@pytest.mark.parametrize("rate", [1e-200, 1e-12, 1e-3, 0.5, 1 - 1e-9, 1.0])
def test_amplified_epsilon_against_fifty_digits(rate: float, epsilon: float) -> None:
    with mp.workdps(400):
        truth = mp.log(1 + mp.mpf(rate) * mp.expm1(epsilon))
        back = mp.log(1 + mp.expm1(epsilon) / mp.mpf(rate))
        assert float(amp.amplified_epsilon(rate, epsilon) / truth - 1) == pytest.approx(0, abs=3e-14)
        assert float(amp.base_epsilon(rate, epsilon) / back - 1) == pytest.approx(0, abs=3e-14)


def test_amplified_epsilon_at_its_ends() -> None:
    assert amp.amplified_epsilon(0, 5.0) == 0 and amp.amplified_epsilon(1, 5.0) == pytest.approx(5.0, rel=1e-15)
    assert amp.amplified_epsilon(0.5, math.inf) == math.inf and amp.base_epsilon(0, 1.0) == math.inf
    assert amp.base_epsilon(0.3, 0.0) == 0 and amp.amplified_epsilon(Fraction(1, 3), np.array([0.0, 1.0])).shape == (2,)


@pytest.mark.parametrize(("mu", "epsilon"), [(1e-6, 1e-5), (0.1, 3.0), (1, 30), (5, 0.1), (3, 100)])
def test_gaussian_profile_against_sixty_digits(mu: float, epsilon: float) -> None:
    with mp.workdps(60):
        m, e = mp.mpf(mu), mp.mpf(epsilon)
        truth = mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)
        assert float(amp.gaussian_profile(mu)(epsilon) / truth - 1) == pytest.approx(0, abs=1e-12)


def test_laplace_profile_by_integration() -> None:
    theta, epsilon = 1.3, 0.4
    with mp.workdps(30):
        density = lambda x, c: mp.exp(-abs(x - c)) / 2  # noqa: E731
        crossing = (theta + epsilon) / 2 if epsilon < theta else theta
        truth = mp.quad(lambda x: density(x, theta) - mp.exp(epsilon) * density(x, 0), [crossing, theta, 60])
        assert amp.laplace_profile(theta)(epsilon) == pytest.approx(float(truth), rel=1e-14)
    assert amp.laplace_profile(theta)(2.0) == 0


@pytest.mark.parametrize(
    ("sigma", "rate", "epsilon"),
    [
        *[(1, 0.1, 0.5), (100, 0.01, 0.001), (1e4, 0.3, 1e-4), (0.3, 0.9, 20), (0.1, 0.01, 50)],
        *[(1, 0.5, 0), (1e6, 1e-6, 1e-12), (0.05, 0.3, 150)],
    ],
)
def test_sampled_gaussian_under_replacement_against_sixty_digits(sigma: float, rate: float, epsilon: float) -> None:
    with mp.workdps(250):
        s, g, a = mp.mpf(sigma), mp.mpf(rate), mp.exp(mp.mpf(epsilon))
        c, lead = mp.exp(-1 / (2 * s * s)), (1 - g) * (a - 1)
        x = s * s * mp.log((lead + mp.sqrt(lead * lead + 4 * a * g * g * c * c)) / (2 * g * c))
        tail = lambda y: mp.erfc(y / s / mp.sqrt(2)) / 2  # noqa: E731
        truth = (1 - g) * (1 - a) * tail(x) + g * (tail(x - 1) - a * tail(x + 1))
        assert float(amp.sampled_gaussian_replace(sigma, rate)(epsilon) / truth - 1) == pytest.approx(0, abs=1e-12)


def test_no_other_pair_of_records_is_worse_for_the_sampled_gaussian() -> None:
    """The pair (+1, -1) against other pairs of vectors in the plane, by summation over a grid."""
    sigma, rate, epsilon, step = 0.8, 0.3, 0.25, 0.05
    grid = np.arange(-6, 6, step)
    x, y = np.meshgrid(grid, grid)

    def density(v: tuple[float, float]) -> np.ndarray:
        return np.exp(-((x - v[0]) ** 2 + (y - v[1]) ** 2) / (2 * sigma**2)) * step**2 / (2 * math.pi * sigma**2)

    def delta(v: tuple[float, float], w: tuple[float, float]) -> float:
        p, q = ((1 - rate) * density((0, 0)) + rate * density(u) for u in (v, w))
        return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())

    worst_case = amp.sampled_gaussian_replace(sigma, rate)(epsilon)
    assert delta((1, 0), (-1, 0)) == pytest.approx(worst_case, rel=1e-3)
    for angle in np.linspace(0, math.pi, 7)[:-1]:
        for norm in (0.0, 0.5, 1.0):
            other = (norm * math.cos(angle), norm * math.sin(angle))
            assert delta((1, 0), other) < worst_case and delta(other, (1, 0)) < worst_case


def test_bounds_under_replacement_are_ordered() -> None:
    epsilons = np.linspace(0, 3, 40)
    for sigma, rate in [(0.6, 0.05), (1, 0.1), (2, 0.5), (1, 0.99)]:
        exact = amp.sampled_gaussian_replace(sigma, rate)(epsilons)
        white = amp.poisson_replace(amp.gaussian_profile(1 / sigma), rate, amp.gaussian_profile(2 / sigma))(epsilons)
        black = amp.poisson_replace(amp.gaussian_profile(1 / sigma), rate)(epsilons)
        assert np.all(exact <= white + 1e-15) and np.all(white <= black + 1e-15)
        assert np.all(amp.poisson(amp.gaussian_profile(1 / sigma), rate)(epsilons) <= exact + 1e-15)  # a removal is half a replacement


def test_sampled_gaussian_limits() -> None:
    e = np.linspace(0, 4, 9)
    assert amp.sampled_gaussian_replace(1.3, 1)(e) == pytest.approx(amp.gaussian_profile(2 / 1.3)(e), rel=1e-12)
    assert np.all(amp.sampled_gaussian_replace(1.3, 0)(e) == 0)
    assert amp.sampled_gaussian_replace(1, 0.5)(math.inf) == 0
    assert amp.sampled_gaussian_replace(0.001, 0.25)(1.0) == pytest.approx(0.25, rel=1e-12)  # no noise: the record shows when it is drawn


@pytest.mark.parametrize(
    ("n", "rate", "cut"), [(10, 0.3, 4), (10, 0.3, 2), (300, 0.1, 200), (300, 0.97, 200), (50, 1e-9, 30), (7, 0.5, 0), (400, 0.5, 399)]
)
def test_binomial_tail_against_exact_fractions(n: int, rate: float, cut: int) -> None:
    q = Fraction(rate)
    exact = sum(math.comb(n, k) * q**k * (1 - q) ** (n - k) for k in range(cut + 1, n + 1))
    with mp.workdps(40):
        truth = mp.log(mp.mpf(exact.numerator)) - mp.log(mp.mpf(exact.denominator))
        assert float(amp.log_binomial_tail(n, rate, cut) - truth) == pytest.approx(0, abs=2e-13)


def test_binomial_tail_of_a_large_population() -> None:
    """n = 1e9, far below 1e-100: the sum of the first terms at forty digits."""
    n, cut = 10**9, 2000
    with mp.workdps(40):
        q = mp.mpf(1e-6)
        log_choose = mp.loggamma(n + 1) - mp.loggamma(cut + 2) - mp.loggamma(n - cut)
        first = mp.exp(log_choose + (cut + 1) * mp.log(q) + (n - cut - 1) * mp.log(1 - q))
        total, term = mp.mpf(0), first
        for k in range(cut + 1, cut + 200):
            total += term
            term *= (n - k) * q / ((k + 1) * (1 - q))
        assert amp.log_binomial_tail(n, 1e-6, cut) == pytest.approx(float(mp.log(total)), abs=1e-12)


def test_binomial_tail_ends_and_order() -> None:
    assert amp.log_binomial_tail(5, 0.5, 5) == -math.inf and amp.log_binomial_tail(5, 0, 0) == -math.inf
    assert amp.log_binomial_tail(5, 1, 4) == 0 and amp.log_binomial_tail(5, 0.5, -1) == 0
    values = [amp.log_binomial_tail(10**12, 1e-6, cut) for cut in range(999_000, 1_001_001, 250)]
    assert all(a > b for a, b in itertools.pairwise(values)) and values[4] == pytest.approx(math.log(0.5), abs=1e-3)


def test_with_replacement_adds_up() -> None:
    n, m, family = 30, 50, amp.gaussian_groups(0.3)
    rate = 1 - (1 - 1 / n) ** m
    inner = amp.base_epsilon(rate, 0.4)
    total = sum(math.comb(m, k) * n**-k * (1 - 1 / n) ** (m - k) * family(k)(inner) for k in range(1, m + 1))
    assert amp.with_replacement(family, n, m)(0.4) == pytest.approx(total, rel=1e-12)
    assert amp.with_replacement(family, 1, 3)(0.4) == family(3)(0.4)
    assert 0 < amp.with_replacement(family, 10**6, 10**6)(3.0) < 1
    assert amp.with_replacement(amp.groups(amp.laplace_profile(0.01)), 10**5, 10**3)(50.0) >= 0


# ---- shape ------------------------------------------------------------------------------------------------------------------------

COMBINATORS: list[Callable[[amp.Profile, float], amp.Profile]] = [
    amp.poisson,
    amp.poisson_add,
    amp.poisson_replace,
    lambda profile, rate: amp.without_replacement(profile, 1000, max(1, round(1000 * rate))),
    lambda profile, rate: amp.truncated(amp.poisson(profile, rate), rate, 50, 40),
    lambda profile, rate: amp.with_replacement(amp.groups(profile), 100, max(1, round(100 * rate))),
]


@pytest.mark.parametrize("combinator", COMBINATORS)
@pytest.mark.parametrize("base", [amp.gaussian_profile(1), amp.laplace_profile(2), amp.guarantee(1, 1e-3)])
def test_profiles_stay_profiles(combinator: Callable[[amp.Profile, float], amp.Profile], base: amp.Profile) -> None:
    epsilons = np.concatenate([[0.0], np.geomspace(1e-9, 800, 60), [math.inf]])
    previous = np.zeros_like(epsilons)
    for rate in (0.01, 0.1, 0.5, 1.0):
        delta = combinator(base, rate)(epsilons)
        assert np.all((delta >= 0) & (delta <= 1))
        if combinator is not COMBINATORS[4] and base(math.inf) == 0:  # e^epsilon times a constant grows in the end
            assert np.all(np.diff(delta) <= 1e-12)
        assert np.all(delta >= previous - 1e-12)  # more sampling never costs less
        previous = delta
    assert isinstance(combinator(base, 0.3)(0.5), float) and combinator(base, 0.3)(np.ones((2, 3))).shape == (2, 3)


@pytest.mark.parametrize("combinator", [amp.poisson, amp.poisson_add, amp.poisson_replace])
def test_rates_zero_and_one(combinator: Callable[[amp.Profile, float], amp.Profile]) -> None:
    base = amp.gaussian_profile(1)
    assert np.all(combinator(base, 0)(EPSILONS) == 0)
    assert combinator(base, 1e-14)(0.1) < 1e-14
    if combinator is not amp.poisson_replace:
        assert combinator(base, 1)(EPSILONS) == pytest.approx(base(EPSILONS), rel=1e-13)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: amp.poisson(amp.gaussian_profile(1), 1.5), "rate"),
        (lambda: amp.poisson(amp.gaussian_profile(1), math.nan), "rate"),
        (lambda: amp.poisson(amp.gaussian_profile(1), 0.5)(-1.0), "epsilon"),
        (lambda: amp.poisson(amp.gaussian_profile(1), 0.5)(math.nan), "epsilon"),
        (lambda: amp.poisson(lambda e: e * math.nan, 0.5)(1.0), "profile"),
        (lambda: amp.without_replacement(amp.gaussian_profile(1), 10, 11), "sample"),
        (lambda: amp.with_replacement(amp.gaussian_groups(1), 0, 11), "size"),
        (lambda: amp.sampled_gaussian_replace(0, 0.5), "noise_multiplier"),
        (lambda: amp.gaussian_profile(-1), "mu"),
        (lambda: amp.group(amp.gaussian_profile(1), 0), "size"),
        (lambda: amp.log_binomial_tail(10, 2, 3), "rate"),
        (lambda: amp.guarantee(1, 2), "delta"),
    ],
)
def test_bad_input_names_the_parameter(call: Callable[[], object], word: str) -> None:
    with pytest.raises(ParameterError, match=word):
        call()
