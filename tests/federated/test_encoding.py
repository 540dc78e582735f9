"""Encoding: norms, scales, noise and errors are those that are priced, whatever an update holds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.linalg import hadamard as scipy_hadamard

from tacit import noise
from tacit.accounting import Adjacency, DistributedDiscreteGaussian, ParameterError, Skellam, UnsupportedError, account
from tacit.federated import Encoding, flatten, rounded_norm, unflatten
from tacit.federated.encoding import clipped, hadamard, rotated, rounded, signs_of, squared_norm

SEED = b"public seed of a round"


def small(**changes: Any) -> Encoding:
    facts: dict[str, Any] = {
        "size": 200,
        "clip": 1.0,
        "clients": 20,
        "noise_multiplier": 1.0,
        "survivors": 14,
        "bits": 18,
    }
    return Encoding(**{**facts, **changes})


# --- the numbers of specification 10, section 5


@pytest.mark.parametrize(
    ("s", "d", "norm"), [(100, 1024, 101.843), (10, 1024, 19.545), (200, 65536, 238.143)]
)
def test_rounded_norms(s: float, d: int, norm: float) -> None:
    assert rounded_norm(s, d) == pytest.approx(norm, rel=1e-5)
    assert squared_norm(s, d) <= s * s + d / 4 + s + math.sqrt(d) / 2
    assert rounded_norm(1, 1024) ** 2 <= (1 + 32) ** 2  # never more than unconditional rounding
    assert math.sqrt(squared_norm(0.01, 4)) <= 0.01 + 2


@pytest.mark.parametrize(
    ("bits", "scaled", "inflation"), [(16, 829, 1.1762), (18, 3866, 1.0089), (20, 15590, 1.0006)]
)
def test_bits_and_what_they_cost(bits: int, scaled: float, inflation: float) -> None:
    """n = 100, d = 2^20, z = 4, wrap below 1e-9."""
    found = Encoding(size=2**20, clip=2.5, clients=100, noise_multiplier=4, survivors=100, bits=bits)
    assert found.scaled_clip == pytest.approx(scaled, abs=1) and found.inflation == pytest.approx(
        inflation, rel=1e-4
    )
    assert found.wrap_chance <= 1e-9 < found._wraps(float(found.scaled_clip or 0) * 1.001, bits)


def test_another_setting_and_the_choice_of_bits() -> None:
    found = Encoding(size=2**14, clip=1, clients=1000, noise_multiplier=2, survivors=1000, bits=16)
    assert found.scaled_clip == pytest.approx(515, abs=1) and found.inflation == pytest.approx(
        1.0088, rel=1e-4
    )
    chosen = Encoding(size=2**20, clip=1, clients=100, noise_multiplier=4, survivors=100)
    assert chosen.bits == 18 and chosen.inflation <= 1.01
    assert (
        Encoding(size=2**20, clip=1, clients=100, noise_multiplier=4, survivors=100, bits=17).inflation > 1.01
    )


def test_fewest_survivors() -> None:
    """70 of 100 must survive: 1.1952 times the noise when all do."""
    found = Encoding(size=1000, clip=1, clients=100, noise_multiplier=1, survivors=70, bits=24)
    all_stay = Encoding(
        size=1000,
        clip=1,
        clients=100,
        noise_multiplier=1,
        survivors=100,
        bits=24,
        scaled_clip=found.scaled_clip,
    )
    assert found.deviation(100) / all_stay.deviation(100) == pytest.approx(1.1952, rel=1e-4)
    assert found.deviation(70) == pytest.approx(1, rel=1e-4)
    assert found.event().variance == pytest.approx(all_stay.event().variance, rel=1e-4)


def test_prices_follow_the_honest() -> None:
    """What is drawn is what is priced: shares of the fewest survivors, or of the honest among them."""
    for kind in ("skellam", "discrete-gaussian"):
        found = small(noise=kind, survivors=10)
        whole, half = (
            account(found.event()).epsilon(1e-6).upper,
            account(found.event(honest=5)).epsilon(1e-6).upper,
        )
        assert half > whole
        assert whole == pytest.approx(5.2215, rel=1e-3)  # a Gaussian of multiplier 1 by its divergences
    stated_in_full = small().event(adjacency=Adjacency.ZERO_OUT)
    assert account(stated_in_full).epsilon(1e-6).upper == account(small().event()).epsilon(1e-6).upper
    event = small().event()
    assert (
        isinstance(event, Skellam)
        and event.variance == 14 * small().share_variance
        and event.dimension == 256
    )
    event = small(noise="discrete-gaussian").event()
    assert (
        isinstance(event, DistributedDiscreteGaussian)
        and event.sigma == small(noise="discrete-gaussian").share_sigma
    )
    assert float(small().share_variance) >= (small().norm * 1.0) ** 2 / 14


def test_discrete_gaussian_shares_that_are_too_small_are_refused() -> None:
    """n = 1000, d = 1024, scaled clip 10, z = 1: tau is 5.88. Skellam noise has a price there."""
    facts: dict[str, Any] = {
        "size": 1024,
        "clip": 1,
        "clients": 1000,
        "noise_multiplier": 1,
        "survivors": 1000,
        "scaled_clip": 10,
        "bits": 20,
    }
    with pytest.raises(UnsupportedError) as refused:
        Encoding(noise="discrete-gaussian", **facts)
    assert refused.value.code == "shares-too-small"
    found = Encoding(**facts)
    assert account(found.event()).epsilon(1e-6).upper == pytest.approx(5.23355, rel=1e-4)
    assert math.sqrt(found.share_variance) == pytest.approx(0.6181, rel=1e-3)


# --- each step


@pytest.mark.parametrize("size", [1, 2, 4, 16, 32, 64, 512])
def test_the_transform_is_hadamard_s(size: int) -> None:
    vector = np.random.normal(size=size)
    oracle = scipy_hadamard(size) @ vector / math.sqrt(size)
    assert np.allclose(hadamard(vector), oracle, atol=1e-12)
    signs = signs_of(SEED, size)
    assert set(signs.tolist()) <= {-1.0, 1.0} and (signs == signs_of(SEED, size)).all()
    assert np.allclose(hadamard(rotated(vector, signs)) * signs, vector, atol=1e-12)
    if size > 60:
        assert (signs != signs_of(b"another", size)).any() and abs(signs.mean()) < 4.5 / math.sqrt(size)


@given(arrays(np.float64, 6, elements=st.floats(allow_nan=True, allow_infinity=True)), st.floats(1e-3, 1e3))
def test_clipping_keeps_the_norm_whatever_comes(vector: Any, clip: float) -> None:
    found = clipped(vector, clip)
    assert np.isfinite(found).all() and np.linalg.norm(found) <= clip * (1 + 1e-12)
    finite = np.where(np.isfinite(vector), vector, 0.0)
    with np.errstate(over="ignore"):
        norm = np.linalg.norm(finite)
    if norm <= clip:
        assert np.allclose(found, finite, rtol=1e-12, atol=0)
    else:
        assert np.linalg.norm(found) == pytest.approx(clip, rel=1e-9)


@given(arrays(np.float64, 16, elements=st.floats(-1, 1)), st.floats(0.3, 300))
def test_a_rounded_vector_keeps_its_norm_always(vector: Any, scaled: float) -> None:
    length = np.linalg.norm(vector)
    scaled_vector = vector / length * scaled if length else vector
    limit = squared_norm(scaled, 16)
    found = rounded(scaled_vector, limit)
    assert int(np.dot(found, found)) <= limit
    assert (np.abs(found - scaled_vector) < 1 + 1e-9).all()


def test_the_worst_fractions_keep_the_norm_too() -> None:
    """All fractions one half: some roundings of one try exceed the limit, and none of `rounded` does."""
    vector = np.full(64, 0.5)
    limit = squared_norm(float(np.linalg.norm(vector)), 64)
    assert all(int(np.dot(found, found)) <= limit for found in (rounded(vector, limit) for _ in range(300)))
    ones = np.random.default_rng(1).binomial(64, 0.5, size=2000)
    assert (
        0 < (ones > limit).mean() < math.exp(-0.5)
    )  # one try alone would fail, as often as the theorem allows at most


def test_rounding_is_unbiased_and_exact_in_law() -> None:
    """40,000 coins for each fraction: within 4.5 deviations (eight cells, error rate 6e-5)."""
    for fraction in (0.0, 0.1, 0.25, 0.5, 0.9, 2.0**-31, 1 - 2.0**-32, 1.0):
        found = rounded(np.full(40_000, 7 + fraction), 10**9)
        assert (
            abs((found - 7).mean() - fraction) <= 4.5 * math.sqrt(fraction * (1 - fraction) / 40_000) + 1e-9
        )
        assert (rounded(np.full(9, -7 - fraction), 10**9) <= -7).all()


def test_work_and_draws_do_not_depend_on_the_update() -> None:
    """The same random words and laws for every update, so the time of an encoding says nothing about it."""
    encoding = small(size=64)
    seen = []
    for update in (np.zeros(64), np.full(64, 1e308), np.full(64, np.nan), np.arange(64.0), np.full(64, 0.5)):
        with noise.watch(draws=True) as watched, noise.test_mode(3):
            encoding.encode(update, SEED)
        seen.append(watched.draws)
    assert all(draws == seen[0] for draws in seen) and seen[0]


# --- from end to end


@pytest.mark.parametrize("kind", ["skellam", "discrete-gaussian"])
def test_a_sum_comes_back_with_its_sign(kind: Any) -> None:
    encoding = small(noise=kind, noise_multiplier=0.01)
    updates = np.random.normal(size=(20, 200))
    updates[:, 0] = -5  # a sum that is surely negative
    total = np.zeros(encoding.dimension, dtype=encoding.word)
    for update in updates:
        total += encoding.encode(update, SEED)
    truth = sum(clipped(update, 1.0) for update in updates)
    assert np.allclose(encoding.decode(total, SEED), truth, atol=6 * encoding.deviation(20))
    assert encoding.decode(total, SEED)[0] < -5 and encoding.word == np.uint32


def decoded_variance(encoding: Encoding, present: int, rounds: int) -> float:
    """The variance of the noise in the decoded mean over `clients`, when so many are in the sum."""
    errors = []
    for _ in range(rounds):
        total = np.zeros(encoding.dimension, dtype=np.int64)
        for _ in range(present):
            total += encoding.encode(np.zeros(encoding.size), SEED).astype(np.int64)
        errors.append(encoding.decode(total & (encoding.modulus - 1), SEED) / encoding.clients)
    return float(np.mean(np.square(errors)))


@pytest.mark.parametrize("kind", ["skellam", "discrete-gaussian"])
@pytest.mark.parametrize("present", [20, 17, 14])
def test_the_variance_of_the_mean_is_the_planned_one_and_never_below(present: int, kind: Any) -> None:
    """(z c / n)^2 at the fewest survivors (14), in proportion to who is there above, within 3 %: 49,152
    numbers, 4.7 deviations."""
    encoding = small(size=2**13, clip=3.0, noise=kind, noise_multiplier=0.7, bits=15)
    planned = (0.7 * 3.0 / 20) ** 2
    found = decoded_variance(encoding, present, 6)
    assert encoding.inflation < 1.001
    assert found == pytest.approx(planned * present / 14, rel=0.03)
    assert found >= planned * 0.97 and (encoding.deviation(present) / 20) ** 2 == pytest.approx(
        planned * present / 14, rel=5e-3
    )


def test_shares_for_the_selected_instead_of_the_surviving_would_be_seen() -> None:
    """The mutant: noise dimensioned for all 20, of whom 14 are there."""
    encoding = small(size=2**13, clip=3.0, noise_multiplier=0.7, survivors=20, bits=15)
    assert decoded_variance(encoding, 14, 3) < 0.75 * (0.7 * 3.0 / 20) ** 2


def test_one_seed_for_all_would_be_seen() -> None:
    """The mutant: every client draws the same share, and the variance grows with the square."""
    encoding = small(size=2**13, noise_multiplier=1.0, bits=15)
    total = np.zeros(encoding.dimension, dtype=np.int64)
    for _ in range(14):
        with noise.test_mode(5):
            total += encoding.encode(np.zeros(encoding.size), SEED).astype(np.int64)
    spread = float(np.mean(encoding.decode(total & (encoding.modulus - 1), SEED) ** 2))
    assert spread > 10 * encoding.deviation(14) ** 2


def test_weights_are_summed_inside_the_vector() -> None:
    encoding = small(weighted=True, noise_multiplier=0.001)
    assert encoding.dimension == 256 and encoding.joint_clip == pytest.approx(math.sqrt(2))
    total = np.zeros(encoding.dimension, dtype=encoding.word)
    update = np.zeros(200)
    update[3] = 0.5
    for weight in (1.0, 0.25, 0.0, 7.0, math.nan):  # above 1 counts as 1, NaN as none
        total += encoding.encode(update, SEED, weight=weight)
    found = encoding.decode(total, SEED)
    assert (
        len(found) == 201
        and found[-1] == pytest.approx(2.25, abs=0.01)
        and found[3] == pytest.approx(1.125, abs=0.01)
    )


def test_a_sum_that_wraps_is_rare() -> None:
    """n = 20 equal updates at the largest scale for a wrap of 1e-9: no number is lost, with every update in
    one direction."""
    encoding = Encoding(size=64, clip=1.0, clients=20, noise_multiplier=1.0, survivors=14, bits=12)
    update = np.zeros(64)
    update[0] = 1.0
    for seed in range(20):
        total = np.zeros(64, dtype=encoding.word)
        for _ in range(20):
            total += encoding.encode(update, bytes([seed + 1]))
        found = encoding.decode(total, bytes([seed + 1]))
        assert np.abs(found - 20 * update).max() < 6 * encoding.deviation(20)


# --- what no update may do


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 0.0])
def test_strange_numbers_leave_as_ordinary_vectors(value: float) -> None:
    encoding = small(size=50)
    found = encoding.encode(np.full(50, value), SEED)
    assert found.dtype == encoding.word and found.shape == (64,) and int(found.max()) < encoding.modulus
    with np.errstate(over="ignore"):
        narrow = np.full(50, value).astype(np.float32)
    assert encoding.encode(narrow, SEED).shape == (64,)


@pytest.mark.parametrize(
    "update",
    [
        np.zeros(49),
        np.zeros((50, 1)),
        np.zeros(50, dtype=complex),
        np.zeros(50, dtype=object),
        np.zeros(50, dtype=bool),
        [0.0] * 50,
        None,
    ],
)
def test_wrong_forms_are_refused_by_public_facts(update: Any) -> None:
    with pytest.raises(ParameterError) as refused:
        small(size=50).encode(update, SEED)
    assert str(refused.value) == "update must be a numpy vector of 50 real numbers"


def test_flatten_takes_the_planned_arrays_only() -> None:
    shapes = [(2, 3), (4,), ()]
    given = [np.arange(6, dtype=np.float32).reshape(2, 3), np.ones(4, dtype=np.int32), np.array(2.5)]
    vector = flatten(given, shapes)
    assert vector.tolist() == [0, 1, 2, 3, 4, 5, 1, 1, 1, 1, 2.5]
    assert [part.tolist() for part in unflatten(vector, shapes)] == [array.tolist() for array in given]
    for wrong in (
        given[:2],
        [*given, np.zeros(1)],
        [given[0].T, *given[1:]],
        [given[0].astype(complex), *given[1:]],
        [1, 2, 3],
    ):
        with pytest.raises(ParameterError):
            flatten(wrong, shapes)  # type: ignore[arg-type]
    with pytest.raises(ParameterError):
        unflatten(vector[:-1], shapes)


@pytest.mark.parametrize(
    "changes",
    [
        {"size": 0}, {"clip": 0}, {"clip": -1}, {"clients": 0}, {"survivors": 21}, {"survivors": 0}, {"noise_multiplier": 0},
        {"bits": 3}, {"bits": 64}, {"noise": "laplace"}, {"wrap": 0}, {"wrap": 1}, {"bits": 4, "size": 10**4},
        {"bits": 8, "scaled_clip": 1000}, {"scaled_clip": 2.0**31},
    ],
)  # fmt: skip
def test_plans_that_cannot_be(changes: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        small(**changes)


def test_seeds_and_totals_have_a_form() -> None:
    encoding = small(size=50)
    for seed in (b"", "text", None):
        with pytest.raises(ParameterError):
            encoding.encode(np.zeros(50), seed)  # type: ignore[arg-type]
    for total in (np.zeros(64), np.zeros(50, dtype=np.int64), [0] * 64):
        with pytest.raises(ParameterError):
            encoding.decode(total, SEED)  # type: ignore[arg-type]
    with pytest.raises(ParameterError):
        encoding.encode(np.zeros(50), SEED, weight="heavy")  # type: ignore[arg-type]
