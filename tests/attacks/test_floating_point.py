"""Known failures 1 to 5 and 24: holes in floating-point noise, sums that lose or invent a row, sensitivities that wrap.

Each attack is run on the mistake first, where it must succeed, and then on ours, where it must not.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from tacit.calculus import AddRemove, Integers, Lattice, ReplaceOne, Rows, Space, clamp, exact_sum, total
from tacit.mechanisms import gaussian, laplace
from tacit.noise import test_mode

DRAWS = 100_000


def naive_laplace(true: float, n: int) -> NDArray[np.float64]:
    """The textbook sampler in floating point: Mironov's (2012) victim."""
    return true + np.random.default_rng(12).laplace(0.0, 1.0, n)


def off_the_coarse_grid(outputs: NDArray[np.float64]) -> float:
    """The share of outputs in (0, 1/4) that are no multiple of 2^-53."""
    near = outputs[(outputs > 0) & (outputs < 0.25)]
    scaled = near * 2.0**53
    return float((scaled != np.floor(scaled)).mean())


def test_the_bit_test_tells_naive_noise_apart() -> None:
    # Spec 06 A7.1: 84.1 % against none, so a single output often gives the input away with certainty.
    assert off_the_coarse_grid(naive_laplace(0.0, 10 * DRAWS)) == pytest.approx(0.841, abs=0.01)
    assert off_the_coarse_grid(naive_laplace(1.0, 10 * DRAWS)) == 0.0


def released(plan_noise: str, true: int, granularity: Fraction, n: int, seed: int) -> NDArray[np.float64]:
    """n noisy answers about a lattice value, by our mechanisms."""
    from tacit.calculus import L1, L2, Vectors

    domain = Vectors(Lattice(granularity), n)
    plan = Space(domain, L1()) >> laplace(scale=1) if plan_noise == "laplace" else Space(domain, L2()) >> gaussian(sigma=1)
    with test_mode(seed):
        return np.asarray(plan.release(np.full(n, true, dtype=np.int64)).value, dtype=float)


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("shift", [0, 1, 2**20, -(2**33) + 5])
def test_outputs_lie_on_one_lattice_whatever_the_input(kind: str, shift: int) -> None:
    granularity = Fraction(1, 2**10)
    outputs = released(kind, shift, granularity, 20_000, seed=5)
    multiples = outputs * 2**10
    assert (multiples == np.floor(multiples)).all()


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_low_bits_say_nothing_about_the_input(kind: str) -> None:
    # Known failure 2 (Haney et al. 2022): the trailing zero bits of the sum betray the size of the summand.
    granularity = Fraction(1, 2**10)

    def trailing(outputs: NDArray[np.float64]) -> NDArray[np.float64]:
        whole = (outputs * 2**10).astype(np.int64) & 7
        return np.bincount(whole, minlength=8) / len(whole)

    laws = [trailing(released(kind, true, granularity, DRAWS, seed)) for seed, true in enumerate((0, 1024, 2**40))]
    # Each share is 1/8 with a standard deviation of 0.00105; six of them allow for 1e-9 over 24 comparisons.
    assert all(np.abs(law - 0.125).max() < 0.0063 for law in laws)
    # The mutant: noise added to a large float loses its low bits.
    big = naive_laplace(1.5 * 2.0**46, DRAWS)
    assert abs(np.bincount((big * 2**10).astype(np.int64) & 7, minlength=8)[0] / DRAWS - 0.125) > 0.1


def test_the_same_outputs_are_possible_for_neighbours() -> None:
    outputs = [set(released("laplace", true, Fraction(1), DRAWS, seed).tolist()) for seed, true in enumerate((0, 1))]
    inner = [{v for v in seen if -6 <= v <= 6} for seen in outputs]
    assert inner[0] == inner[1] == set(map(float, range(-6, 7)))


def test_float_sums_depend_on_the_order_and_ours_do_not() -> None:
    rows = [1e16, 1.0, 1.0, -1e16]
    assert {float(sum(order)) for order in itertools.permutations(rows)} != {2.0}, "the mutant: a float sum"
    whole = [int(r) for r in rows]
    assert {exact_sum(np.array(order)) for order in itertools.permutations(whole)} == {2}


def test_a_sum_of_squares_has_the_sensitivity_it_claims() -> None:
    # Known failure 3: M = 2^50 and n = 1024 make a float sum move by more than the clamp allows.
    m, n = 2**50, 1024
    small, large = [m] * n, [m] * (n + 1)
    plan = Space(Rows(Integers()), AddRemove()) >> clamp(0, m) >> total()
    assert plan(large) - plan(small) <= plan.map(1) == m
    floats = np.array([float(m) ** 2] * n + [1.0])
    assert float(floats.sum()) == float(floats[:-1].sum()), "the mutant: a row that vanishes in a float sum"


@pytest.mark.parametrize(("low", "high"), [(-(2**62), 2**62), (-1, 2**61), (0, 2**70), (-(2**70), 1)])
@pytest.mark.parametrize("metric", [AddRemove(), ReplaceOne()], ids=str)
def test_sensitivity_is_exact_at_the_limits_of_the_type(low: int, high: int, metric: AddRemove | ReplaceOne) -> None:
    # Known failure 4: range computed in machine integers wraps; ours is Python's.
    plan = Space(Rows(Integers(low, high)), metric) >> total()
    assert plan.map(1) == (max(-low, high) if metric == AddRemove() else high - low)
    wrapped = int(np.int64(min(high, 2**63 - 1)) - np.int64(max(low, -(2**63)))) if high - low < 2**63 else None
    assert wrapped is None or wrapped == high - low


def test_sums_saturate_nowhere_and_never_raise() -> None:
    # Known failure 5: 6e8 rows of 5 overflow 32 bits; rows at the end of 64 bits overflow those.
    plan = Space(Rows(Integers()), AddRemove()) >> clamp(-(2**62), 2**62) >> total()
    extreme = np.full(5, 2**62, dtype=np.int64)
    assert plan(extreme) == 5 * 2**62
    assert plan([-(2**63)] * 3) == -3 * 2**62
    assert int(np.full(5, 2**62, dtype=np.int64).sum()) != 5 * 2**62, "the mutant: a machine sum that wraps"


def test_noise_has_the_mass_it_should_at_zero() -> None:
    # Known failure 24: a sampler with two zeros, or none, passes a test of moments.
    values = released("laplace", 0, Fraction(1), DRAWS, seed=9)
    share, truth = float((values == 0).mean()), -math.expm1(-0.5)
    assert abs(share - truth) < 6 * math.sqrt(truth * (1 - truth) / DRAWS)
