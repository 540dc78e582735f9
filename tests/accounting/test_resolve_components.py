"""From trees to steps: counts multiply, equal children merge, and samplers build the pairs the theorems name."""

import itertools
import math

import numpy as np
import pytest

from tacit.accounting import (
    ZCDP,
    Adjacency,
    ApproxDP,
    Composed,
    Gaussian,
    Group,
    Laplace,
    Poisson,
    RandomAllocation,
    RandomizedResponse,
    Repeated,
    Sampled,
    TruncatedPoisson,
    UnsupportedError,
    WithoutReplacement,
    WithReplacement,
    account,
)
from tacit.accounting.pairs.mixture import MixturePair
from tacit.accounting.pairs.sampled import DrawnGaussian, FixedSizeGaussian
from tacit.accounting.resolve import renyi_curve, resolve
from tacit.accounting.theorems.amplification import log_binomial_tail

AR, RO, ZO = Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT


def test_counts_multiply_and_equal_children_merge() -> None:
    parts = resolve(Repeated(Composed(Gaussian(1), Repeated(Laplace(2), 3), Gaussian(1)), 5), AR)
    assert sorted(step.count for step in parts.steps) == [10, 15]


def test_poisson_pair_and_its_group() -> None:
    (step,) = resolve(Sampled(Poisson(0.1), Gaussian(2)), AR).steps
    assert isinstance(step.remove, MixturePair) and step.remove.up == ((0.0, 0.9), (0.5, 0.1)) and step.add.down == step.remove.up
    (grouped,) = resolve(Group(Sampled(Poisson(0.5), Gaussian(2)), 2), AR).steps
    assert isinstance(grouped.remove, MixturePair) and [w for _, w in grouped.remove.up] == [0.25, 0.5, 0.25]
    (replaced,) = resolve(Sampled(Poisson(0.1), Gaussian(2)), RO).steps
    assert isinstance(replaced.remove, MixturePair) and replaced.remove.up == replaced.remove.down


def test_rates_of_zero_and_one() -> None:
    assert resolve(Sampled(Poisson(0), Gaussian(1)), AR).steps == ()
    (step,) = resolve(Sampled(Poisson(1), Gaussian(1)), AR).steps
    assert isinstance(step.remove, MixturePair) and step.remove.up == ((1.0, 1.0),)


def test_fixed_size_pairs() -> None:
    (step,) = resolve(Sampled(WithoutReplacement(100, 10), Gaussian(1)), RO).steps
    assert isinstance(step.remove, FixedSizeGaussian) and step.remove.mu == 2.0 and step.remove.rate == 0.1
    (drawn,) = resolve(Sampled(WithReplacement(100, 10), Gaussian(1)), RO).steps
    assert isinstance(drawn.remove, DrawnGaussian)
    assert drawn.remove.shift == 2.0
    assert sum(w for _, w in drawn.remove.counts) + drawn.remove.given_up == pytest.approx(1 - 0.99**10)


def test_zero_out_does_not_claim_what_only_a_replacement_costs() -> None:
    """With noise stated for zero-out, a null record is one unit away from the others, not two: no lower end may say more."""
    for scheme in (WithoutReplacement(100, 10), WithReplacement(100, 10)):
        event = Sampled(scheme, Gaussian(1, adjacency=ZO))
        (step,) = resolve(event, ZO).steps
        assert step.floor is not None and isinstance(step.floor[0], MixturePair) and step.floor[0].up[1][0] == 1.0
        assert account(event, ZO).epsilon(1e-5).lower < account(event, RO).epsilon(1e-5).lower


def _cut_law(values: list[float], rate: float, batch: int) -> dict[float, float]:
    """The law of the noiseless sum over a Poisson sample of the values, cut at random to `batch` records: all samples, one by one."""
    law: dict[float, float] = {}
    for sample in itertools.product((0, 1), repeat=len(values)):
        chance = math.prod(rate if bit else 1 - rate for bit in sample)
        chosen = [v for v, bit in zip(values, sample, strict=True) if bit]
        kept = list(itertools.combinations(chosen, min(batch, len(chosen))))
        for subset in kept:
            law[sum(subset)] = law.get(sum(subset), 0.0) + chance / len(kept)
    return law


def _hockey_stick(p: dict[float, float], q: dict[float, float], sigma: float, epsilon: float) -> float:
    u = np.linspace(-12 - 12 * sigma, 12 + 12 * sigma, 20_001)

    def density(law: dict[float, float]) -> np.ndarray:
        return sum(w * np.exp(-0.5 * ((u - m) / sigma) ** 2) for m, w in law.items()) / (sigma * math.sqrt(2 * math.pi))

    return float(np.maximum(density(p) - math.exp(epsilon) * density(q), 0.0).sum() * (u[1] - u[0]))


@pytest.mark.parametrize("others", [[], [1.0, 1.0, 1.0], [-1.0, -1.0, -1.0], [1.0, -1.0, 0.0]], ids=["none", "same", "opposite", "mixed"])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0])
def test_cut_batches_cost_no_more_than_if_they_were_disclosed(others: list[float], epsilon: float) -> None:
    """Every sample of up to four records, in both directions and under both relations, against leak + (1 - leak) delta."""
    rate, batch, sigma = 0.5, 2, 0.7
    event = Sampled(TruncatedPoisson(rate, 4, batch), Gaussian(sigma))
    laws = [_cut_law([*others, *extra], rate, batch) for extra in ([1.0], [], [-1.0])]
    leak = 5 * 0.5**4  # P(Bin(4, 1/2) > 2)
    assert resolve(event, AR).uncut().leak == pytest.approx(leak)
    for adjacency, pairs in ((AR, ((0, 1), (1, 0))), (RO, ((0, 2), (2, 0)))):
        bound = account(event, adjacency).delta(epsilon)
        plain = account(Sampled(Poisson(rate), Gaussian(sigma)), adjacency).delta(epsilon)
        found = max(_hockey_stick(laws[i], laws[j], sigma, epsilon) for i, j in pairs)
        # a sum with step 0.002 over a kink is off by less than 1e-6
        assert found - 1e-6 <= bound.upper <= leak + (1 - leak) * plain.upper + 1e-12
        if not others:  # too few records for any batch to be cut: this is the lower end
            assert found == pytest.approx(plain.upper, abs=1e-6) and bound.lower <= found + 1e-6


def test_cut_batches_cost_more_than_plain_ones_somewhere() -> None:
    """The mutant that forgets the cut: with the batch cut to one of three equal records, the add direction exceeds the plain price."""
    rate, batch, sigma, epsilon = 0.9, 1, 0.1, 3.0
    with_record, without = (_cut_law([-1.0, -1.0, *extra], rate, batch) for extra in ([1.0], []))
    plain = account(Sampled(Poisson(rate), Gaussian(sigma)), AR).delta(epsilon).upper
    replaced = _cut_law([-1.0, -1.0, -1.0], rate, batch)
    found = max(_hockey_stick(a, b, sigma, epsilon) for a, b in ((with_record, without), (without, with_record)))
    assert 0 < found < plain  # here cutting hides the record
    assert _hockey_stick(with_record, replaced, sigma, epsilon) > 0.25


def test_cut_batches_of_groups() -> None:
    event = Group(Sampled(TruncatedPoisson(0.1, 100, 40), Gaussian(2)), 2)
    assert resolve(event, AR).leak == pytest.approx(math.exp(log_binomial_tail(100, 0.1, 38)))
    black_box = Group(Sampled(TruncatedPoisson(0.1, 100, 40), Laplace(2)), 2)
    assert account(black_box, AR).epsilon(1e-6).upper > account(Group(Sampled(Poisson(0.1), Laplace(2)), 2), AR).epsilon(1e-6).lower


def test_composed_gaussians_are_sampled_as_one() -> None:
    (step,) = resolve(Sampled(Poisson(0.1), Composed(Gaussian(3), Gaussian(4))), AR).steps
    assert isinstance(step.remove, MixturePair) and step.remove.up[1][0] == pytest.approx(5 / 12)


def test_allocation_is_kept_apart() -> None:
    parts = resolve(Repeated(Sampled(RandomAllocation(10, 2), Gaussian(1)), 7), AR)
    assert parts.steps == () and parts.allocations[0].count == 7
    full = resolve(Sampled(RandomAllocation(3, 3), Gaussian(1)), AR)
    assert full.steps[0].count == 3
    with pytest.raises(UnsupportedError):
        resolve(Group(Sampled(RandomAllocation(10), Gaussian(1)), 2), AR)


def test_renyi_curves_add_over_both_kinds_of_step() -> None:
    parts = resolve(Composed(ZCDP(0.5), Gaussian(1)), AR)
    assert renyi_curve(parts)([2.0, 5.0]) == pytest.approx([2.0, 5.0])
    assert renyi_curve(resolve(ApproxDP(1, 0.1), AR))([2.0])[0] == float("inf")


def test_groups_of_local_reports_are_compositions() -> None:
    parts = resolve(Group(RandomizedResponse(0.5), 3), RO)
    assert parts.steps[0].count == 3
