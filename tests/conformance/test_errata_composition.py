"""Errata of the source texts on composition, concentrated and Rényi DP: what is printed fails, what we compute holds.

Each test is named by its erratum. "Slides" are Yıldırım's, "lecture" is Smith's lecture 10, "book" is Steinke 2022.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from tacit.accounting.events.tree import Adjacency, hops
from tacit.accounting.theorems import composition as theorems
from tacit.accounting.theorems import conversions, dpsgd, gaussian, optimal, renyi, subsampled_renyi
from tacit.errors import AccountingError, AdjacencyError

LOG6 = math.log(1e6)


def test_e1_strong_composition_has_e_to_the_epsilon():
    """The lecture's scan reads (eps^eps - 1)/(eps^eps + 1): negative, so that more uses would cost less."""

    def printed(eps, k, delta):
        factor = (eps**eps - 1) / (eps**eps + 1)
        return eps * math.sqrt(2 * k * math.log(1 / delta)) + k * eps * factor

    assert pytest.approx(-0.0230218, abs=1e-7) == (0.01**0.01 - 1) / (0.01**0.01 + 1)
    assert math.tanh(0.005) == pytest.approx(0.00499996, abs=1e-8)
    assert printed(0.01, 2000, 1e-6) == pytest.approx(1.89035, abs=1e-5)
    assert optimal.delta_optimal(0.01, 0.0, 2000, printed(0.01, 2000, 1e-6)) > 1e-6  # below the optimum 1.99295
    assert optimal.delta_optimal(0.01, 0.0, 2000, theorems.strong([(0.01, 0.0, 2000)], 1e-6)) <= 1e-6
    unsafe = [k for k in range(1300, 1600) if printed(0.01, k, 1e-6) < optimal.epsilon_optimal(0.01, 0.0, k, 1e-6)]
    assert min(unsafe) == pytest.approx(1430, abs=10)
    assert printed(0.1, 1000, 1e-6) == pytest.approx(5.16025, abs=1e-5)
    assert optimal.delta_optimal(0.1, 0.0, 1000, printed(0.1, 1000, 1e-6)) == pytest.approx(0.365, abs=5e-4)
    assert theorems.strong([(0.1, 0.0, 1000)], 1e-6) == pytest.approx(21.618, abs=5e-4)


def test_e2_gaussian_variance_for_zcdp_has_a_two():
    """The slides add variance Delta^2/rho: safe, but sqrt(2) times the noise that rho needs."""
    for rho in (0.01, 0.3):
        printed, ours = math.sqrt(1 / rho), math.sqrt(1 / (2 * rho))
        assert float(renyi.gaussian(2.0, 1 / printed)) / 2 == pytest.approx(rho / 2)
        assert float(renyi.gaussian(2.0, 1 / ours)) / 2 == pytest.approx(rho)
        assert printed / ours == pytest.approx(math.sqrt(2))
        assert gaussian.mu_from_rho(rho) == pytest.approx(1 / ours)


def test_e3_zcdp_to_dp_has_a_square_root():
    """The slides print eps = rho + 4 rho log(1/delta)."""

    def printed(rho):
        return rho + 4 * rho * LOG6

    for rho, claimed, exact, true_delta in ((0.005, 0.28131, 0.39686, 8.37e-5), (0.001, 0.05626, 0.16794, 2.29e-3)):
        mu = gaussian.mu_from_rho(rho)
        assert printed(rho) == pytest.approx(claimed, abs=5e-6)
        assert gaussian.epsilon(mu, 1e-6) == pytest.approx(exact, abs=5e-6)
        assert gaussian.delta(mu, printed(rho)) == pytest.approx(true_delta, rel=2e-3)  # a real mechanism exceeds 1e-6
        assert gaussian.delta(mu, conversions.zcdp_epsilon_basic(rho, 1e-6)) <= 1e-6
        assert gaussian.delta(mu, conversions.zcdp_epsilon(rho, 1e-6)) <= 1e-6
    assert conversions.zcdp_epsilon_basic(0.005, 1e-6) == pytest.approx(0.53065, abs=5e-6)
    # right only where rho = 1/(4 log(1/delta)); unsafe below 0.010482, wasteful above
    meet = 1 / (4 * LOG6)
    assert meet == pytest.approx(0.0180956, abs=5e-8)
    assert printed(meet) == pytest.approx(conversions.zcdp_epsilon_basic(meet, 1e-6))
    assert gaussian.delta(gaussian.mu_from_rho(0.010482 - 2e-6), printed(0.010482 - 2e-6)) > 1e-6
    assert gaussian.delta(gaussian.mu_from_rho(0.010482 + 2e-6), printed(0.010482 + 2e-6)) < 1e-6
    assert printed(0.5) == pytest.approx(28.13, abs=5e-3)
    assert conversions.zcdp_epsilon_basic(0.5, 1e-6) == pytest.approx(5.757, abs=5e-4)


def slide_rho(eps, delta):
    """The slides' rho = sqrt(L + eps) - sqrt(L), without its square."""
    log = math.log(1 / delta)
    return math.sqrt(log + eps) - math.sqrt(log)


def test_e4_rho_for_epsilon_is_a_square():
    rho = slide_rho(1.0, 1e-6)
    assert rho == pytest.approx(0.1321700, abs=5e-8)
    assert conversions.zcdp_rho_basic(1.0, 1e-6) == pytest.approx(0.0174689, abs=5e-8)
    mu = gaussian.mu_from_rho(rho)  # sigma^2 = T B^2/(2 n^2 rho) makes the whole training this Gaussian
    assert gaussian.epsilon(mu, 1e-6) == pytest.approx(2.324, abs=5e-4)
    assert gaussian.delta(mu, 1.0) == pytest.approx(8.1e-3, rel=0.01)
    assert gaussian.delta(gaussian.mu_from_rho(conversions.zcdp_rho_basic(1.0, 1e-6)), 1.0) <= 1e-6
    assert gaussian.delta(gaussian.mu_from_rho(conversions.zcdp_rho(1.0, 1e-6)), 1.0) <= 1e-6


def test_e5_variance_of_full_batch_training():
    """The slides' T B^2/(n^2 rho^2) cancels E4 up to a safe factor of two; mending only one of them is unsafe or absurd."""
    n, steps, eps, delta = 1000, 100, 1.0, 1e-5
    wrong, right = slide_rho(eps, delta), conversions.zcdp_rho_basic(eps, delta)

    def mu(sigma):
        return math.sqrt(steps) / (n * sigma)

    as_printed = math.sqrt(steps / (n**2 * wrong**2))
    assert as_printed == pytest.approx(0.0693043, abs=5e-8)
    assert gaussian.epsilon(mu(as_printed), delta) == pytest.approx(0.50798, abs=5e-6)
    only_rho = math.sqrt(steps / (n**2 * right**2))
    assert only_rho == pytest.approx(0.4803088, abs=5e-8)
    assert (only_rho / 0.0490055517) ** 2 == pytest.approx(96, abs=0.1)
    only_power = math.sqrt(steps / (n**2 * wrong))
    assert only_power == pytest.approx(0.0263257, abs=5e-8)
    assert gaussian.epsilon(mu(only_power), delta) == pytest.approx(1.4685, abs=5e-5)
    assert gaussian.delta(mu(only_power), eps) == pytest.approx(8.1e-4, rel=0.01)
    half_mended = math.sqrt(steps / (2 * n**2 * wrong))
    assert gaussian.epsilon(mu(half_mended), delta) == pytest.approx(2.1596, abs=5e-5)
    assert gaussian.delta(mu(half_mended), eps) == pytest.approx(1.05e-2, rel=0.01)
    ours = dpsgd.full_batch_zcdp(size=n, steps=steps, clip=0.5, delta=delta, epsilon=eps, conversion="basic").noise
    assert ours == pytest.approx(0.0490056, abs=5e-8)
    assert gaussian.delta(mu(ours), eps) <= delta


def test_e6_randomised_response_has_a_plus():
    """The book prints e^eps/(e^eps - 1): not a probability."""
    assert math.e / (math.e - 1) == pytest.approx(1.582, abs=5e-4)
    u, v = theorems.leaky_randomised_response(1.0, 0.0)
    assert u.sum() == v.sum() == pytest.approx(1.0)
    assert u[0] == pytest.approx(math.e / (math.e + 1))
    assert math.log(u[0] / v[0]) == pytest.approx(1.0)


def test_e7_clipping_to_b_has_sensitivity_two_b_under_replacement():
    """The slides clip to B and call the sensitivity B, under the relation that replaces a person."""
    # two gradients clipped to l2 norm B can be opposite
    clip = 1.0
    one, other = np.array([clip, 0.0]), np.array([-clip, 0.0])
    assert np.linalg.norm(one - other) == 2 * clip
    # recipe 1 with the slides' sensitivity: the noise for eps = 1 gives 2.089
    noise = dpsgd.pure_without_replacement(size=1000, batch=100, steps=100, clip=0.5, epsilon=1.0).noise
    assert dpsgd.pure_without_replacement(size=1000, batch=100, steps=100, clip=1.0, noise=noise).epsilon == pytest.approx(2.089, abs=5e-4)
    # recipe 2, the slides' whole chain
    sigma = math.sqrt(100 / (1000**2 * slide_rho(1.0, 1e-5) ** 2))
    mu = math.sqrt(100) * 2 / (1000 * sigma)
    assert gaussian.epsilon(mu, 1e-5) == pytest.approx(1.08448, abs=5e-6)
    assert gaussian.delta(mu, 1.0) == pytest.approx(3.16e-5, rel=2e-3)
    ours = dpsgd.full_batch_zcdp(size=1000, steps=100, clip=1.0, delta=1e-5, epsilon=1.0, conversion="basic").noise
    assert gaussian.delta(math.sqrt(100) * 2 / (1000 * ours), 1.0) <= 1e-5


def test_e9_group_privacy_order():
    """The book prints D at a(a'-1)/a', and later a(a'-1)/a; its proof uses a(a'-1)/(a'-a)."""

    def unit(a):
        return float(renyi.gaussian(a, 1.0))

    a, b = 10.0, 12.0
    truth = float(renyi.gaussian(a, 2.0))
    assert truth == 20.0
    assert b / (b - 1) * unit(a * (b - 1) / b) + unit(b) == pytest.approx(11.0)  # printed: below the truth
    assert b / (b - 1) * unit(a * (b - 1) / a) + unit(b) == pytest.approx(12.0)  # printed elsewhere: below the truth
    curve = lambda x: renyi.gaussian(x, 1.0)  # noqa: E731
    assert renyi.triangle(a, b, curve, curve) == pytest.approx(36.0)
    assert renyi.triangle(a, 20.0, curve, curve) == pytest.approx(20.0)  # the best split is exact


def test_e9_on_random_triples():
    rng = np.random.default_rng(9)
    broken = 0
    for _ in range(500):
        p, q, r = (rng.dirichlet(np.ones(3)) for _ in range(3))
        a = rng.uniform(1.1, 5)
        b = a + rng.uniform(0.1, 5)
        truth = float(renyi.from_masses(a, p, r))
        first, second = (lambda x, p=p, q=q: renyi.from_masses(x, p, q)), (lambda x, q=q, r=r: renyi.from_masses(x, q, r))
        index = a * (b - 1) / b
        printed = b / (b - 1) * float(first(index)) + float(second(b)) if index > 1 else math.inf
        broken += truth > printed * (1 + 1e-9)
        assert truth <= renyi.triangle(a, b, first, second) * (1 + 1e-9)
    assert broken > 20


def test_e11_many_answers_must_be_uniform_over_the_others():
    """The slides' "otherwise answer at random", drawn over all K answers, costs log(1 + K e^eps/(K-1))."""

    def epsilon(matrix):
        return float(np.log(matrix.max(0) / matrix.min(0)).max())

    for k, eps, claimed in ((2, 1.0, 1.861995), (10, 1.0, 1.391360)):
        keep = math.exp(eps) / (math.exp(eps) + k - 1)
        printed = keep * np.eye(k) + (1 - keep) / k * np.ones((k, k))
        assert printed.sum(1) == pytest.approx(np.ones(k))
        assert epsilon(printed) == pytest.approx(claimed, abs=5e-7)
        assert epsilon(printed) == pytest.approx(math.log1p(k * math.exp(eps) / (k - 1)))
        others = keep * np.eye(k) + (1 - keep) / (k - 1) * (np.ones((k, k)) - np.eye(k))
        assert epsilon(others) == pytest.approx(eps)
        mended = (math.exp(eps) - 1) / (math.exp(eps) + k - 1)
        assert epsilon(mended * np.eye(k) + (1 - mended) / k * np.ones((k, k))) == pytest.approx(eps)
        # our curve is that of the right mechanism, at every order
        orders = np.array([1.5, 2.0, 20.0])
        assert renyi.randomised_response(orders, eps, k) == pytest.approx(renyi.from_masses(orders, others[0], others[1]), rel=1e-12)
        assert (renyi.from_masses(orders, printed[0], printed[1]) > renyi.randomised_response(orders, eps, k)).all()


def test_e12_the_power_is_inside_the_expectation():
    """The slides print E[P/Q]^a, which is 1 for every pair, so every mechanism would have divergence 0."""
    p, q, a = np.array([0.7, 0.3]), np.array([0.4, 0.6]), 3.0
    assert (q @ (p / q)) ** a == pytest.approx(1.0)
    inside = math.log(q @ (p / q) ** a) / (a - 1)
    assert float(renyi.from_masses(a, p, q)) == pytest.approx(inside)
    assert math.log(p @ (p / q) ** a) / (a - 1) != pytest.approx(inside)  # and it is x ~ Q, not x ~ P
    # delta = exp(-(a-1)(eps_DP - eps_RDP)): swapped symbols give a delta above 1
    eps = conversions.rdp_epsilon_basic(a, inside, 1e-3)
    assert math.exp(-(a - 1) * (eps - inside)) == pytest.approx(1e-3)
    assert math.exp(-(a - 1) * (inside - eps)) > 1


def test_e14_replacement_says_nothing_about_addition_without_a_null_record():
    """The slides turn a replace-one guarantee into an add/remove one; publishing the number of people refutes that."""
    with pytest.raises(AdjacencyError, match="null_record"):
        hops(Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE)
    same, size_n, size_n_plus_1 = [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]
    assert theorems.hockey_stick(same, size_n, 0.0) == 0.0  # replacement keeps n
    assert theorems.hockey_stick(size_n, size_n_plus_1, 100.0) == 1.0  # removal changes it


def test_e17_both_hypotheses_of_the_moment_lemma_have_a_positive_exponent():
    """The book's second hypothesis has e^-eps: with S = everything it reads 1 <= e^-eps + delta, which no useful pair meets."""
    p, eps, delta = np.array([0.5, 0.5]), 0.3, 1e-3
    assert p.sum() > math.exp(-eps) * p.sum() + delta  # identical distributions already break the printed hypothesis
    assert theorems.hockey_stick(p, p, eps) <= delta
    # with e^eps the conclusion holds; the pair that attains the largest shift
    u, v = theorems.leaky_randomised_response(eps, delta)
    values = np.array([1.0, -1.0, 1.0, -1.0])
    assert u @ values <= v @ values + math.expm1(eps) * (v @ np.abs(values)) + 2 * delta


def test_e18_condition_of_the_truncated_theorem():
    """The book's proof has 3 + 2 log(1/p)/log(1/rho), 9 at (p, rho) = (1e-3, 0.1), and would refuse what the statement covers."""
    p, rho = 1e-3, 0.1
    omega = min(math.log(1 / p) / (4 * rho), 1 + p**-0.25)
    assert omega == pytest.approx(6.623413, abs=5e-7)
    assert 3 + 2 * math.log(1 / rho) / math.log(1 / p) == pytest.approx(3.667, abs=5e-4)
    assert 3 + 2 * math.log(1 / p) / math.log(1 / rho) == pytest.approx(9.0)
    assert 3.667 < omega < 9
    slope, top = subsampled_renyi.truncated_concentrated(p, rho)
    assert (slope, top) == (pytest.approx(10 * p * p * rho), pytest.approx(omega))
    # and the conclusion it allows is true there
    orders = np.arange(2.0, math.floor(omega) + 1)
    assert (subsampled_renyi.poisson(orders, p, lambda a: rho * a) <= slope * orders).all()
    with pytest.raises(AccountingError):
        subsampled_renyi.truncated_concentrated(0.05, 0.5)


def test_e19_gaussian_profile_uses_the_upper_tail():
    """A line of the book has Phi for 1 - Phi: the result would grow with eps and be negative."""

    def phi(x):
        return 0.5 * math.erfc(-x / math.sqrt(2))

    rho, eps = 0.5, 1.0
    s = math.sqrt(2 * rho)
    printed = phi((eps - rho) / s) - math.exp(eps) * phi((eps + rho) / s)
    right = phi(-(eps - rho) / s) - math.exp(eps) * phi(-(eps + rho) / s)
    assert printed < 0
    assert right == pytest.approx(gaussian.delta(1.0, 1.0), rel=1e-12)


def test_e19_decomposition_of_the_simulation_lemma():
    """The book's line has (1 - delta) P'' for delta P'': then the parts do not add up to P."""
    p, q, eps, delta = np.array([0.6, 0.3, 0.1]), np.array([0.4, 0.4, 0.2]), 0.2, 0.2
    f = theorems.simulate(p, q, eps, delta)
    common = (math.exp(eps) * f[0] + f[1]) / (math.exp(eps) + 1)
    assert (1 - delta) * common + delta * f[2] == pytest.approx(p)
    assert ((1 - delta) * common + (1 - delta) * f[2]).sum() == pytest.approx(2 * (1 - delta))


def test_e19_last_step_of_theorem_3_34_and_its_truth():
    """The dropped "-1" does not hurt: D_a(Q||mix) is at most the larger of the two remove directions."""
    rng = np.random.default_rng(34)
    add_alone_larger = 0
    for _ in range(500):
        p, q = rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(3))
        rate, a = rng.uniform(0.01, 0.99), rng.uniform(1.1, 6)
        added = float(renyi.from_masses(a, q, rate * p + (1 - rate) * q))
        removed = float(renyi.from_masses(a, rate * p + (1 - rate) * q, q))
        mirrored = float(renyi.from_masses(a, rate * q + (1 - rate) * p, p))
        assert added <= max(removed, mirrored) * (1 + 1e-9)
        add_alone_larger += added > removed
    assert add_alone_larger > 0  # so asymmetric noise needs both directions


def test_e19_fingerprinting_needs_a_continuous_prior():
    """The book prints Uniform({0,1}) for Uniform([0,1]): with it the mean has no error at all and the lemma is false."""
    n = 4
    total = Fraction(0)
    for p in (Fraction(0), Fraction(1)):
        for x in itertools.product((0, 1), repeat=n):
            weight = math.prod((p if xi else 1 - p) for xi in x) * Fraction(1, 2)
            f = Fraction(sum(x), n)
            total += weight * (f - p) * sum(xi - p for xi in x)
        total += Fraction(1, 2) * (p - p) ** 2  # E[f | p] = p
    assert total == 0 < Fraction(1, 12)


def test_e20_lecture_construction_of_the_simulation():
    """The lecture prints max for min, and its F(0), F(1) normalise only if both directions leak the same amount."""
    eps = 0.5
    p, q = np.array([0.80, 0.15, 0.05]), np.array([0.30, 0.35, 0.35])
    leak_p, leak_q = theorems.hockey_stick(p, q, eps), theorems.hockey_stick(q, p, eps)
    delta = max(leak_p, leak_q)
    assert leak_p != pytest.approx(leak_q, abs=0.01)
    assert np.maximum(p, math.exp(eps) * q).sum() > 1  # max is no sub-distribution
    small_p, small_q = np.minimum(p, math.exp(eps) * q), np.minimum(q, math.exp(eps) * p)
    assert small_p.sum() == pytest.approx(1 - leak_p)
    # the lecture's F(0), with min put right, at its single delta
    zero = (math.exp(eps) * small_p - small_q) / ((math.exp(eps) - 1) * (1 - delta))
    assert zero.sum() != pytest.approx(1.0, abs=1e-3)
    f = theorems.simulate(p, q, eps, delta)
    assert f.sum(1) == pytest.approx(np.ones(4))
    assert (f >= 0).all()
    u, v = theorems.leaky_randomised_response(eps, delta)
    assert u @ f == pytest.approx(p)
    assert v @ f == pytest.approx(q)


def test_e20_mean_loss_and_crossover():
    """The mean loss is eps tanh(eps/2) <= eps^2/2, half of the printed eps^2; the crossover is near 27.9 uses, not log(1/delta) = 13.8."""
    for eps in (0.1, 1.0, 3.0):
        u, v = theorems.leaky_randomised_response(eps, 0.0)
        mean = float(u[:2] @ np.log(u[:2] / v[:2]))  # the logarithm of the ratio: its plain mean is above 1 and adds nothing up
        assert mean == pytest.approx(eps * math.tanh(eps / 2))
        assert mean <= eps**2 / 2
        assert float(u[:2] @ (u[:2] / v[:2])) > 1
    assert round(LOG6, 1) == 13.8
    assert theorems.strong([(0.01, 0.0, 14)], 1e-6, or_basic=False) > 0.14
    assert theorems.strong([(0.01, 0.0, 27)], 1e-6, or_basic=False) > 0.27
    assert theorems.strong([(0.01, 0.0, 28)], 1e-6, or_basic=False) < 0.28


def test_e21_approximate_dp_is_not_a_tail_bound():
    """(eps, delta)-DP does not say that the loss exceeds eps with probability at most delta; the converse holds."""
    assert gaussian.delta(1.0, 1.0) == pytest.approx(0.1269367375, abs=5e-11)
    assert gaussian.loss_tail(1.0, 1.0) == pytest.approx(0.3085375387, abs=5e-11)
    for mu, eps in itertools.product((0.1, 1.0, 3.0), (0.1, 1.0, 5.0)):
        assert gaussian.delta(mu, eps) <= gaussian.loss_tail(mu, eps)


def test_e21_improved_conversion_needs_no_large_epsilon():
    """The book restricts it to eps >= rho; it holds, and says something, below."""
    for rho in (0.5, 2.0):
        for eps in np.linspace(0, rho, 11):
            bound = conversions.zcdp_delta(rho, float(eps))
            assert gaussian.delta(gaussian.mu_from_rho(rho), float(eps)) <= bound < 1
