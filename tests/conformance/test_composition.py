"""The printed numbers of the composition theorems and lower bounds: Steinke 2022, sections 3.2 to 3.5 and 3.7; Smith's lecture 10."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from tacit.accounting import closed_form
from tacit.accounting.theorems import composition as theorems
from tacit.accounting.theorems import conversions, gaussian, optimal

# k, basic, advanced, strong, zCDP improved, its order, optimal, Gaussian of the same variance: eps0 = 0.1, delta = 1e-6
FIGURE_3_1 = [
    (1, 0.1, 0.53065218, 0.53064801, 0.42994147, 45.7063, 0.09999810, 0.27401432),
    (10, 1, 1.71225814, 1.71221651, 1.47159475, 15.8669, 0.99937091, 0.94051553),
    (50, 5, 3.96692219, 3.96671406, 3.54229130, 7.8569, 3.17290273, 2.25408465),
    (100, 10, 5.75652177, 5.75610552, 5.22153444, 5.9070, 4.77456759, 3.30760072),
    (200, 20, 8.43384438, 8.43301188, 7.76621663, 4.5085, 7.18559446, 4.88655412),
    (500, 50, 14.25394000, 14.25185875, 13.37365225, 3.2483, 12.51787996, 8.30622505),
    (1000, 100, 21.62258136, 21.61841886, 20.55194881, 2.6037, 19.34467145, 12.59524674),
]


@pytest.mark.parametrize("row", FIGURE_3_1, ids=lambda r: f"k={r[0]}")
def test_figure_3_1(row):
    k, basic, advanced, strong, zcdp, order, kov, normal = row
    rows = [(0.1, 0.0, k)]
    assert theorems.basic(rows, 1e-6) == pytest.approx(basic, rel=1e-14)
    assert round(theorems.advanced(rows, 1e-6, or_basic=False), 8) == advanced
    assert round(theorems.strong(rows, 1e-6, or_basic=False), 8) == strong
    assert round(conversions.zcdp_epsilon(k * closed_form.rho_from_pure(0.1), 1e-6), 8) == zcdp
    assert round(conversions.zcdp_order(k * 0.005, conversions.zcdp_epsilon(k * 0.005, 1e-6)), 4) == order
    assert round(optimal.epsilon_optimal(0.1, 0.0, k, 1e-6), 8) == kov
    assert round(gaussian.epsilon(math.sqrt(k / 200), 1e-6), 8) == normal
    if k >= 31:
        assert normal < kov < zcdp < strong < advanced < basic


def test_first_uses_at_which_each_theorem_beats_basic():
    def first(beats):
        return next(k for k in range(1, 100) if beats(k))

    assert first(lambda k: theorems.advanced([(0.1, 0.0, k)], 1e-6) < k * 0.1) == 31
    assert first(lambda k: theorems.strong([(0.1, 0.0, k)], 1e-6) < k * 0.1) == 31
    assert first(lambda k: conversions.zcdp_epsilon(k * 0.005, 1e-6) < k * 0.1) == 24
    assert first(lambda k: theorems.strong([(0.01, 0.0, k)], 1e-6) < k * 0.01 * (1 - 1e-12)) == 28
    assert round(theorems.strong_crossover(0.01, 1e-6), 6) == 27.909415


def test_basic_is_optimal_for_laplace():
    # k Laplace(k/eps) answers moved by one each: on the event that all are large, of probability 2^-k, the loss is eps exactly
    k, eps = 5, 0.7
    assert theorems.basic([(eps / k, 0.0, k)], 0.0) == pytest.approx(eps, rel=1e-15)
    rng = np.random.default_rng(0)
    y = np.abs(rng.laplace(scale=k / eps, size=k))
    losses = (np.abs(y + 1) - np.abs(y)) / (k / eps)
    assert losses.sum() == pytest.approx(eps, rel=1e-14)


def test_advanced_approximate():
    rows = [(0.1, 1e-8, 100)]
    assert round(theorems.advanced(rows, 1e-5, sharp=False), 9) == 5.320432757
    assert theorems.advanced(rows, 1e-5) < 5.320432757
    assert theorems.spare_delta(rows, 1e-5) == pytest.approx(9.00000949e-6, abs=1e-14)
    assert round(optimal.epsilon_optimal(0.1, 1e-8, 100, 1e-5), 9) == 4.329636714
    assert theorems.basic(rows, 1e-5) == pytest.approx(10)
    assert theorems.basic(rows, 1e-6) == pytest.approx(10)  # sum delta_j suffices for basic


def test_first_advanced_composition():
    assert round(theorems.drv([(0.1, 0.0, 100)], 1e-6), 8) == 6.30823095


@pytest.mark.parametrize(
    ("eps0", "delta0", "k", "eps", "printed"),
    [
        (1, 0, 2, 1, "0.3378347121"),
        (0.5, 0.01, 3, 0.75, "0.1531736722"),
        (0.3, 0, 5, 0.9, "0.02822219396"),
        (0.3, 0, 5, 0.3, "0.1482484400"),
        (0.1, 0, 100, 3, "1.361398695e-3"),
        (0.1, 0, 100, 5, "2.792636101e-7"),
    ],
)
def test_optimal_homogeneous(eps0, delta0, k, eps, printed):
    assert optimal.delta_optimal(eps0, delta0, k, eps) == pytest.approx(float(printed), rel=5.1e-10)


def test_optimal_heterogeneous():
    staircase = [(0.02 * j, 0.0) for j in range(1, 16)]
    leaky = [(0.02 * j, 1e-8) for j in range(1, 16)]
    mixed = [(1.0, 0.0), (0.5, 0.0, 2), (0.25, 0.0, 4)]
    for rows, delta, printed in (
        (staircase, 1e-6, 2.389445237),
        (staircase, 1e-3, 1.854266638),
        (leaky, 1e-6, 2.391035569),
        (mixed, 1e-5, 2.999646482),
        (mixed, 1e-2, 2.563886293),
        ([(0.1, 0.0)] * 15, 1e-6, 1.484102965),
    ):
        bound = optimal.epsilon_heterogeneous(rows, delta)
        assert round(bound.upper, 9) == printed
        assert round(bound.lower, 9) == printed
    assert round(theorems.advanced(staircase, 1e-6, or_basic=False), 9) == 3.950024645
    assert round(theorems.advanced(staircase, 1e-3, or_basic=False), 9) == 2.865726731


def test_lecture_figure_1():
    strong = {100: 0.53065214, 500: 1.20039379, 1000: 1.71225772, 2000: 2.45078717}
    kov = {100: 0.39226394, 500: 0.93749756, 1000: 1.36544671, 2000: 1.99294681}
    for k in strong:
        assert round(theorems.strong([(0.01, 0.0, k)], 1e-6), 8) == strong[k]
        assert round(optimal.epsilon_optimal(0.01, 0.0, k, 1e-6), 8) == kov[k]


def test_budgeting_a_hundred_laplace_answers():
    assert round(theorems.laplace_scale(100, 1.0, 1e-6), 8) == 53.49980062
    assert theorems.laplace_scale(100, 1.0, 0.0) == 100.0
    scale = 41.64743874
    assert optimal.epsilon_optimal(1 / scale, 0.0, 100, 1e-6) == pytest.approx(1.0, abs=2e-9)
    assert round(1 / scale, 10) == 0.0240110804


def test_largest_atom_of_a_pure_mechanism():
    for eps in (0.1, 1.0, 3.0):
        u, _ = theorems.leaky_randomised_response(eps, 0.0)
        assert u.max() == pytest.approx(1 / (1 + math.exp(-eps)), rel=1e-15)


def test_peers_figures_for_optimal_composition():
    assert optimal.epsilon_optimal(0.1, 0.0, 1000, 1e-5) == pytest.approx(17.7871285, abs=1e-7)
    assert round(optimal.epsilon_optimal(0.1, 1e-6, 100, 2e-4), 7) == 3.7552028


def test_shuffling_analogy():
    step = math.log1p(math.expm1(1.0) / 1e4)
    assert step == pytest.approx(1.718134221e-4, abs=5e-14)
    assert round(theorems.advanced([(step, 0.0, 10_000)], 1e-6), 10) == 0.0904616986


# --- lower bounds -----------------------------------------------------------------------------------------------------


def test_error_floor_of_many_means():
    floor = optimal.mean_error_floor(1000, 600_000, 1.0, 1e-5)
    assert round(floor, 10) == 0.0281748262
    assert 200 * math.expm1(1.0) ** 2 * 1000 == pytest.approx(590498.49, abs=0.005)
    # the exact Gaussian mechanism: l2 sensitivity sqrt(k)/n under replacement of bits
    noise = gaussian.sigma_for(1.0, 1e-5, math.sqrt(600_000) / 1000)
    assert round(noise, 9) == 2.889734838
    assert noise > floor
    assert round(noise / floor, 1) == 102.6


def fingerprint(f, n):
    """E[(f(X) - P) sum(X_i - P)] + E_P[(E[f(X)|P] - P)^2] for P uniform on [0, 1], X_i Bernoulli(P): exact, by beta integrals."""

    def beta(a, b):  # integral of p^a (1-p)^b
        return Fraction(math.factorial(a) * math.factorial(b), math.factorial(a + b + 1))

    def times(poly, other):
        out = {}
        for (i, j), (k, m) in itertools.product(poly.items(), other.items()):
            out[i + k] = out.get(i + k, Fraction(0)) + j * m
        return out

    def power(ones):  # p^ones (1-p)^(n-ones) as a polynomial in p
        return {ones + j: Fraction(math.comb(n - ones, j) * (-1) ** j) for j in range(n - ones + 1)}

    def integral(poly):
        return sum((c * beta(i, 0) for i, c in poly.items()), Fraction(0))

    first, mean = Fraction(0), {}
    for x in itertools.product((0, 1), repeat=n):
        weight, ones = power(sum(x)), sum(x)
        first += integral(times(times(weight, {0: f(x), 1: Fraction(-1)}), {0: Fraction(ones), 1: Fraction(-n)}))
        for i, c in weight.items():
            mean[i] = mean.get(i, Fraction(0)) + c * f(x)
    mean[1] = mean.get(1, Fraction(0)) - 1
    return first + integral(times(mean, mean))


def test_fingerprinting_lemma():
    n = 4
    assert fingerprint(lambda x: Fraction(1, 2), n) == Fraction(1, 12)  # tight
    assert fingerprint(lambda x: Fraction(sum(x), n), n) == Fraction(1, 6)
    for table in itertools.islice(itertools.product((0, 1), repeat=16), 0, 65536, 257):
        values = dict(zip(itertools.product((0, 1), repeat=n), table, strict=True))
        assert fingerprint(lambda x, v=values: Fraction(v[x]), n) >= Fraction(1, 12)


def test_expectations_move_little_under_dp():
    # E X <= E Y + (e^eps - 1) E|Y| + 2 delta Delta for |X|, |Y| <= Delta, (eps, delta)-indistinguishable (Lemma 3.26, corrected)
    rng = np.random.default_rng(1)
    for _ in range(2000):
        values = rng.uniform(-1, 1, 5)
        p, q, eps = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(5)), rng.uniform(0, 1)
        delta = max(theorems.hockey_stick(p, q, eps), theorems.hockey_stick(q, p, eps))
        assert p @ values <= q @ values + math.expm1(eps) * (q @ np.abs(values)) + 2 * delta + 1e-12
