"""Errors in the source texts on amplification: each test fails for the formula as printed (E8, E9, E10, E13, E15, E16)."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import brentq, linprog
from scipy.special import logsumexp

from tacit.accounting.theorems import amplification as amp
from tacit.accounting.theorems import conversions, renyi
from tacit.accounting.theorems import subsampled_renyi as sub
from tacit.errors import ParameterError

ORDERS = np.arange(2.0, 513)


def dpsgd_epsilon(rate: float, rho: float, steps: int, delta: float, orders: np.ndarray = ORDERS) -> float:
    return conversions.rdp_epsilon_basic(orders, steps * sub.poisson(orders, rate, lambda a: rho * a), delta)


def test_e8_the_base_of_the_amplification_is_the_sensitivity_on_the_sample() -> None:
    """The slides put the full data's B^2/(n^2 s^2) where the sample's B^2/(2 m^2 s^2) belongs, and so count the sampling twice."""
    n, m, steps, z = 60_000, 256, 14_063, 1.12
    right = 1 / (2 * z * z)
    as_printed = (m / n) ** 2 / z**2
    assert right / as_printed == pytest.approx(27466, abs=1)
    assert dpsgd_epsilon(m / n, right, steps, 1e-5) == pytest.approx(2.922354850, abs=6e-10)
    wide = np.arange(2.0, 8000, 25)
    assert dpsgd_epsilon(m / n, as_printed, steps, 1e-5, wide) == pytest.approx(0.013, abs=5e-4)


def test_e8_calibrated_as_printed_the_noise_is_far_too_small() -> None:
    rate, steps = 0.1, 100
    z = brentq(lambda z: dpsgd_epsilon(rate, rate**2 / z**2, steps, 1e-5) - 1, 0.1, 5)
    assert z == pytest.approx(0.7289, abs=6e-5)
    assert dpsgd_epsilon(rate, 1 / (2 * z * z), steps, 1e-5) == pytest.approx(16.93, abs=6e-3)  # promised: 1


def test_e9_the_order_in_the_fixed_size_bound() -> None:
    """Rate 1 makes both printed orders fail on three Gaussians in a row: truth 20, printed 11 and 12, corrected 36 (best split: 20)."""
    a, split = 10.0, 12.0

    def curve(x: float) -> float:
        return x / 2  # N(1) against N(0), and N(0) against N(-1)

    truth = a * 2**2 / 2
    printed_lemma = split / (split - 1) * curve(a * (split - 1) / split) + curve(split)
    printed_text = split / (split - 1) * curve(a * (split - 1) / a) + curve(split)
    assert (printed_lemma, printed_text) == (pytest.approx(11), pytest.approx(12))
    assert max(printed_lemma, printed_text) < truth
    corrected = renyi.triangle(a, split, lambda x: np.asarray(x) / 2, lambda x: np.asarray(x) / 2)
    assert corrected == pytest.approx(36) and corrected >= truth
    found = sub.without_replacement_group([a], 1.0, lambda x: np.asarray(x) / 2)[0]
    assert found == pytest.approx(truth, rel=1e-9)  # split 20


def test_e9_the_printed_order_fails_for_a_true_mixture_too() -> None:
    rate, a, split = 0.5, 4.0, 5.0
    x = np.arange(-20, 30, 0.01)
    down, rest, up = (-((x - s) ** 2) / 2 - math.log(2 * math.pi) / 2 for s in (-1, 0, 1))
    p, q = (np.logaddexp(math.log(rate) + d, math.log(1 - rate) + rest) for d in (up, down))
    truth = float(logsumexp(a * p + (1 - a) * q) + math.log(0.01)) / (a - 1)

    def half(order: float) -> float:
        return float(sub.gaussian([order], rate, 1)[0])

    for index in (a * (split - 1) / split, a * (split - 1) / a):
        added = float(sub.gaussian([split], rate, 1, "add")[0])
        assert split / (split - 1) * half(index) + added < truth
    assert sub.without_replacement_group([a], rate, lambda o: np.asarray(o) / 2)[0] >= truth


def test_e10_the_order_is_the_argument_not_the_scaled_order() -> None:
    """The slides evaluate the sampled curve at ceil(a B^2/(n^2 s^2)), which is 1, where it is 0/0; it is T eps(ceil(a))."""
    n, m, z, order = 60_000, 256, 1.12, 8.5
    argument = math.ceil(order * (m / n) ** 2 / z**2)
    assert argument == 1
    with pytest.raises(ParameterError, match="orders"):
        sub.poisson([argument], m / n, lambda a: a / (2 * z * z))
    curve = 14_063 * sub.poisson([math.ceil(order)], m / n, lambda a: a / (2 * z * z))
    assert conversions.rdp_epsilon_basic([9.0], curve, 1e-5) == pytest.approx(2.922354850, abs=6e-10)


def test_e13_dividing_by_the_random_batch_size_breaks_the_guarantee() -> None:
    """Poisson batches averaged over their own size: alone in a batch, a record moves the mean by its full norm."""
    n, rate, clip, z = 20, 0.2, 1.0, 2.0
    m = rate * n
    sigma, epsilon = z * clip / m, amp.amplified_epsilon(rate, 1.0)
    x = np.arange(-12 * sigma, clip + 12 * sigma, sigma / 200)

    def normal(shift: float) -> np.ndarray:
        return np.exp(-((x - shift) ** 2) / (2 * sigma**2)) / math.sqrt(2 * math.pi) / 200

    def delta(shift_of: list[float]) -> float:
        others = [math.comb(n - 1, j) * rate**j * (1 - rate) ** (n - 1 - j) for j in range(n)]
        p = (1 - rate) * normal(0) + rate * np.sum([w * normal(s) for w, s in zip(others, shift_of, strict=True)], axis=0)
        return float(np.maximum(p - math.exp(epsilon) * normal(0), 0).sum())

    claimed = amp.poisson(amp.gaussian_profile(1 / z), rate)(epsilon)
    assert delta([clip / m] * n) == pytest.approx(claimed, rel=1e-4)  # the fixed divisor
    assert delta([clip / (1 + j) for j in range(n)]) > 1.8 * claimed  # the divisor |U|


def coupling_exists(first: dict[frozenset[int], float], second: dict[frozenset[int], float], distance: int) -> bool:
    """Whether the two laws can be coupled with every pair at exactly this many replacements."""
    pairs = [(x, y) for x in first for y in second if len(x) == len(y) and len(x - y) == distance]
    rows = [[float(x == s) for x, _ in pairs] for s in first] + [[float(y == s) for _, y in pairs] for s in second]
    if not pairs:
        return False
    return bool(linprog(np.zeros(len(pairs)), A_eq=np.array(rows), b_eq=[*first.values(), *second.values()], bounds=(0, None)).status == 0)


def poisson_law(records: tuple[int, ...], rate: float) -> dict[frozenset[int], float]:
    subsets = itertools.chain.from_iterable(itertools.combinations(records, k) for k in range(len(records) + 1))
    return {frozenset(s): rate ** len(s) * (1 - rate) ** (len(records) - len(s)) for s in subsets}


def test_e15_the_two_conditional_laws_are_compatible() -> None:
    """The paper calls the samples with v and those with v' incompatible; adding v or v' to the same rest couples them at distance 1."""
    rest = poisson_law((0, 1, 2), 0.3)
    with_v = {s | {8}: p for s, p in rest.items()}
    with_other = {s | {9}: p for s, p in rest.items()}
    assert coupling_exists(with_v, with_other, 1)
    assert not coupling_exists(with_v, rest, 1)  # this one is the incompatible pair: sizes differ
    # hence the coupling bound for Poisson sampling under replacement exists, and holds
    epsilons = np.linspace(0, 2, 21)
    for sigma, rate in [(1, 0.1), (2, 0.1), (0.7, 0.5)]:
        bound = amp.poisson_replace(amp.gaussian_profile(1 / sigma), rate, amp.gaussian_profile(2 / sigma))(epsilons)
        assert np.all(amp.sampled_gaussian_replace(sigma, rate)(epsilons) <= bound * (1 + 1e-12))


def test_e16_a_substitution_is_two_steps() -> None:
    """Printed ||x - x'||_1 = 1; as multiplicities, a replacement has distance 2, and costs a group of two."""
    x, other = np.array([1, 1, 0]), np.array([1, 0, 1])
    assert np.abs(x - other).sum() == 2
    base, rate, epsilon = amp.gaussian_profile(1), 0.3, 0.4
    assert amp.sampled_gaussian_replace(1, rate)(epsilon) > amp.poisson(base, rate)(epsilon)  # one step is not enough
    assert amp.sampled_gaussian_replace(1, rate)(epsilon) <= amp.group(amp.poisson(base, rate), 2)(epsilon)


def test_e16_profiles_are_functions_of_epsilon_not_of_its_exponential() -> None:
    p, q = np.array([0.7, 0.3]), np.array([0.3, 0.7])
    epsilon = 0.4
    truth = amp.hockey_stick(p, q, epsilon)
    profile = amp.guarantee(math.log(7 / 3))  # the randomised response with these two laws
    assert profile(epsilon) == pytest.approx(truth, rel=1e-12)
    assert profile(math.exp(epsilon)) < truth  # as printed: too small


def test_e16_the_theorem_for_addition_and_removal_is_about_poisson_sampling() -> None:
    """Printed S^wo for S^po. Its proof needs: given that v is out, the sample is that of the data without v."""
    records, rate = (0, 1, 2, 3), 0.5

    def without_last(law: dict[frozenset[int], float]) -> dict[frozenset[int], float]:
        kept = {s: p for s, p in law.items() if 3 not in s}
        return {s: p / sum(kept.values()) for s, p in kept.items()}

    def subsets(data: tuple[int, ...], size: int) -> dict[frozenset[int], float]:
        return {frozenset(s): 1 / math.comb(len(data), size) for s in itertools.combinations(data, size)}

    conditional, plain = without_last(poisson_law(records, rate)), poisson_law(records[:3], rate)
    assert conditional.keys() == plain.keys() and all(conditional[s] == pytest.approx(plain[s]) for s in plain)
    fixed = without_last(subsets(records, 2))
    assert fixed.keys() != subsets(records[:3], 1).keys()  # a fixed share of three records is another size
