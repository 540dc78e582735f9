"""The sampler that runs is the sampler that is priced: inclusion probabilities and their covariances, against the law of the event."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from tacit.accounting import Adjacency, Gaussian, ParameterError, RandomAllocation, Repeated, Sampled, WithoutReplacement, account
from tacit.accounting import Poisson as PoissonScheme
from tacit.deep.samplers import Allocation, FixedSize, FullBatch, PoissonBatches, Sampler, coins
from tacit.noise import permutation, test_mode

RECORDS = 12
ROUNDS = 6000


def inclusions(sampler: Sampler, steps: int) -> NDArray[np.int64]:
    """For each round of `steps` steps, which record was in which step."""
    seen = np.zeros((ROUNDS, steps, RECORDS), dtype=np.int64)
    with test_mode(11):
        for turn in range(ROUNDS):
            batches = sampler.batches(RECORDS)
            for step in range(steps):
                seen[turn, step, next(batches)] = 1
    return seen


def worst_covariance(seen: NDArray[np.int64], truth: dict[str, float]) -> float:
    """The largest deviation, in standard deviations, of the joint inclusion frequencies of two (step, record) places from the truth."""
    steps = seen.shape[1]
    worst = 0.0
    for (s, r), (t, q) in itertools.combinations_with_replacement(list(itertools.product(range(steps), range(3))), 2):
        kind = "self" if (s, r) == (t, q) else "record" if r == q else "step" if s == t else "apart"
        p = truth[kind]
        found = float((seen[:, s, r] & seen[:, t, q]).mean())
        worst = max(worst, abs(found - p) / math.sqrt(max(p * (1 - p), 1e-4) / len(seen)))
    return worst


CASES = {
    "poisson": (PoissonBatches(3, RECORDS), {"self": 1 / 4, "record": 1 / 16, "step": 1 / 16, "apart": 1 / 16}),
    "allocation": (Allocation(4, RECORDS), {"self": 1 / 4, "record": 0.0, "step": 1 / 16, "apart": 1 / 16}),
    "fixed size": (FixedSize(3, RECORDS), {"self": 1 / 4, "record": 1 / 16, "step": 3 * 2 / (12 * 11), "apart": 1 / 16}),
    "full": (FullBatch(RECORDS), {"self": 1.0, "record": 1.0, "step": 1.0, "apart": 1.0}),
}


class Shuffled:
    """What must never be priced as any of the above: a shuffled order, cut into equal batches."""

    def batches(self, records: int):  # type: ignore[no-untyped-def]
        while True:
            yield from np.split(permutation(records), 4)


@pytest.mark.parametrize("name", CASES)
def test_inclusion_covariances_are_those_of_the_law(name: str) -> None:
    """About 80 frequencies within 5 standard deviations each (error below 5e-5), fixed seed; every other law is told apart."""
    sampler, truth = CASES[name]
    seen = inclusions(sampler, 4)
    assert worst_covariance(seen, truth) < 5
    for other, (_, law) in CASES.items():
        if other != name:
            assert worst_covariance(seen, law) > 5, f"{name} must not pass for {other}"


def test_shuffled_batches_pass_for_none_of_them() -> None:
    seen = inclusions(Shuffled(), 4)  # type: ignore[arg-type]
    assert all(worst_covariance(seen, law) > 5 for _, law in CASES.values())


def test_each_epoch_of_an_allocation_holds_everyone_once() -> None:
    batches = Allocation(5, 100).batches(103)
    for _ in range(3):
        epoch = [next(batches) for _ in range(5)]
        assert sorted(np.concatenate(epoch).tolist()) == list(range(103))


@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(1, 256), Fraction(255, 256), Fraction(1, 70000), Fraction(2, 3)], ids=str)
def test_coins_have_exactly_their_rate(rate: Fraction) -> None:
    """Within five standard deviations in two million trials; a rate off by its own size in a thousand is told apart where it can be."""
    n = 2_000_000
    with test_mode(3):
        heads = len(coins(rate, n))
    assert abs(heads - n * rate) < 5 * math.sqrt(n * rate * (1 - rate)) + 1


def test_coins_stop_on_terminating_rates() -> None:
    assert len(coins(Fraction(1, 2), 0)) == 0
    with test_mode(3):
        assert 400 < len(coins(Fraction(1, 2), 1000)) < 600


def test_events_are_the_laws_that_run() -> None:
    step = Gaussian(2)
    assert PoissonBatches(10, 1000).event(step, 7) == Repeated(Sampled(PoissonScheme(Fraction(1, 100)), step), 7)
    assert Allocation(10, 1000).event(step, 11) == Repeated(Sampled(RandomAllocation(10), step), 2)
    assert FixedSize(10, 1000).event(step, 7) == Repeated(Sampled(WithoutReplacement(1000, 10), step), 7)
    assert FullBatch(1000).event(step, 7) == Repeated(step, 7)
    assert PoissonBatches(10, 1000).epoch == 100 and FixedSize(10, 1000).epoch == 100 and FullBatch(5).epoch == 1
    for sampler in (PoissonBatches(10, 1000), Allocation(10, 1000), FixedSize(10, 1000), FullBatch(1000)):
        assert account(sampler.event(step, 10), sampler.adjacency).epsilon(1e-5).upper > 0


def test_allocation_is_cheaper_than_poisson_here() -> None:
    step = Gaussian(1)
    allocated, poisson = (account(sampler(100, 10**4).event(step, 100)).epsilon(1e-5) for sampler in (Allocation, PoissonBatches))
    assert allocated.upper < poisson.lower


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda: PoissonBatches(0, 10), "expected_batch"),
        (lambda: PoissonBatches(11, 10), "expected_batch"),
        (lambda: PoissonBatches(1, 0), "size"),
        (lambda: FixedSize(11, 10), "batch"),
        (lambda: FixedSize(1, 10, Adjacency.ADD_REMOVE), "PoissonBatches or Allocation"),
        (lambda: Allocation(0, 10), "steps"),
        (lambda: next(FixedSize(1, 10).batches(11)), "size"),
    ],
    ids=range(7),
)
def test_what_cannot_be_is_refused_by_name(make, names: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ParameterError, match=names):
        make()
