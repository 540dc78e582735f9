"""DAWA: the price of the partition by enumeration, the programme against all partitions, the error against plain strategies."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from tacit.accounting import Adjacency, Guarantee
from tacit.errors import ParameterError
from tacit.noise import test_mode as seeded
from tacit.workloads import AllRanges, Cells, Identity, Marginals, Prefix, Product, Ranges, with_dawa
from tacit.workloads.dawa import Bucketed, Partition, covariance, from_flat, on_buckets
from tacit.workloads.joint_strategy import OneProduct
from tacit.workloads.optimal import search
from tacit.workloads.strategy import Need, squared_error

EPSILON = 4  # noise of scale 1/2: eight values of each noise hold all but e^-16 of it


def chances(counts: list[int], noisy_singles: bool = True, scale: float = 2 / EPSILON) -> dict[tuple[int, ...], float]:
    """The law of the partition of three cells, by summing over all values of all six noises."""
    found = Partition(3, Fraction(EPSILON))
    distances, reach = found.distances(np.array(counts)), 8
    grids = np.meshgrid(*[np.arange(reach)] * 6, indexing="ij", sparse=True)
    weights = [np.exp(-g / scale) * (1 - math.exp(-1 / scale)) for g in grids]
    if not noisy_singles:
        grids = [g * (i > 2) for i, g in enumerate(grids)]
    penalties = [0, 0, 0, -1, -1, -2]
    costs = [d - g + p for d, g, p in zip(distances, grids, penalties, strict=True)]
    parts = {(0, 1, 2, 3): (2, 1, 0), (0, 2, 3): (2, 3), (0, 1, 3): (4, 0), (0, 3): (5,)}
    totals = [np.asarray(sum(costs[i] for i in part)) + np.zeros((reach,) * 6, dtype=int) for part in parts.values()]
    chosen = np.argmin(totals, axis=0)  # the first of equals, and the parts stand in the order of ties
    mass = math.prod(weights)
    return {part: float(np.broadcast_to(mass, chosen.shape)[chosen == i].sum()) for i, part in enumerate(parts)}


NEIGHBOURS = [
    ([0, 1, 2], [0, 2, 2]), ([1, 2, 4], [1, 3, 4]), ([0, 0, 0], [0, 1, 0]),
    ([1, 0, 0], [0, 0, 0]), ([2, 1, 2], [2, 2, 2]), ([3, 1, 0], [3, 2, 0]),
]


def loss(**changes: object) -> float:
    worst = 0.0
    for one, other in NEIGHBOURS:
        before, after = chances(one, **changes), chances(other, **changes)  # type: ignore[arg-type]
        for part, chance in before.items():
            if max(chance, after[part]) > 1e-6:
                worst = max(worst, abs(math.log(max(chance, 1e-300) / max(after[part], 1e-300))))
    return worst


def test_a_row_changes_the_chance_of_no_partition_by_more_than_the_price() -> None:
    assert 0.5 * EPSILON < loss() <= EPSILON + 1e-3
    assert loss(scale=1 / EPSILON) > EPSILON + 0.01  # half the noise is caught
    assert loss(noisy_singles=False) > 5 * EPSILON  # and noise that leaves single cells out


def test_single_cells_without_noise_are_not_private_under_laplace_noise_either() -> None:
    """All singles are kept iff every longer interval's noise exceeds its gain: a product, each factor moved by epsilon / 2."""
    scale, gain = 2.0, 5.0  # epsilon 1, and distances 0 or 1
    chance = [math.prod(0.5 * math.exp(-(gain - d) / scale) for d in distances) for distances in ((0, 0, 0), (1, 1, 1))]
    assert math.log(chance[1] / chance[0]) == pytest.approx(1.5)


def test_the_draw_has_the_enumerated_law() -> None:
    """4,000 draws against the enumeration: fails by chance once in 10^5 times (4.5 standard errors, four parts)."""
    found, counts = Partition(3, Fraction(EPSILON)), np.array([1, 2, 2])
    object.__setattr__(found, "penalties", lambda rows: [0, 0, 0, -1, -1, -2])
    with seeded(3):
        drawn = [tuple(found.draw(counts, 5.0)) for _ in range(4000)]
    for part, chance in chances([1, 2, 2]).items():
        assert abs(drawn.count(part) / 4000 - chance) < 4.5 * math.sqrt(chance * (1 - chance) / 4000) + 1e-3


def test_a_row_moves_every_distance_by_at_most_one() -> None:
    found, rng = Partition(13, Fraction(1)), np.random.default_rng(1)
    for _ in range(30):
        counts = rng.integers(0, 6, 13)
        cell = int(rng.integers(13))
        other = counts.copy()
        other[cell] += 1
        for (_, start, end), one, two in zip(found.intervals, found.distances(counts), found.distances(other), strict=True):
            assert abs(one - two) <= (start <= cell < end)
            assert one == min(np.abs(counts[start:end] - c).sum() for c in range(8))


def test_the_programme_finds_the_cheapest_partition() -> None:
    found, rng = Partition(7, Fraction(1)), np.random.default_rng(2)
    spans = {(start, end): i for i, (_, start, end) in enumerate(found.intervals)}
    assert len(spans) == len(found.intervals)
    for _ in range(20):
        costs = rng.integers(-3, 6, len(spans)).tolist()
        every = []
        for size in range(7):
            for inner in itertools.combinations(range(1, 7), size):
                edges = (0, *inner, 7)
                pieces = list(itertools.pairwise(edges))
                if all(piece in spans for piece in pieces):
                    lengths = tuple(end - start for start, end in reversed(pieces))
                    every.append((sum(costs[spans[piece]] for piece in pieces), lengths, edges))
        assert tuple(found.cheapest(costs)) == min(every)[2]


def test_wide_costs_stay_exact() -> None:
    found = Partition(3, Fraction(1))
    assert found.cheapest([2**70, 2**70, 2**70, 2**71 + 1, 2**71 - 1, 3 * 2**70]) == [0, 1, 3]


@pytest.mark.parametrize("factor", [AllRanges(9), Prefix(9), Identity(9), Ranges(9, ((0, 3), (2, 8)))])
def test_questions_about_buckets_are_those_about_cells(factor: object) -> None:
    edges = (0, 1, 4, 9)
    found = Bucketed.of(factor, edges)  # type: ignore[arg-type]
    spread = np.zeros((9, 3))
    for i, (start, end) in enumerate(itertools.pairwise(edges)):
        spread[start:end, i] = 1 / (end - start)
    rows = factor.matrix() @ spread  # type: ignore[attr-defined]
    assert np.allclose(found.matrix(), rows) and np.allclose(found.gram(), rows.T @ rows)
    sums = np.c_[rows[:, :2].sum(axis=1), rows[:, 2]]
    assert found.heaped(2) == pytest.approx(float((sums**2).sum()))
    covariance = np.diag([1.0, 2.0, 3.0]) + 0.5
    assert np.allclose(found.spread(covariance), np.einsum("ij,jk,ik->i", rows, covariance, rows))


def test_what_is_paid_for_is_the_sum_of_the_parts() -> None:
    workload = Product(age=AllRanges).on(Cells.of({"age": 30}))
    for text in ("eps=0.5", "eps=1, delta=1e-6", "rho=0.02"):
        for replaced in (False, True):
            spend = Guarantee.parse(text)
            for how in ("halving", "cheapest"):
                plan = with_dawa(workload, spend, reach=3, replaced=replaced, search=how)
                assert spend.admits(plan.event, plan.adjacency)
                assert not spend.share("0.98").admits(plan.event, plan.adjacency)
                least = {"halving": 4, "cheapest": 2}[how] * 3 * (1 + replaced) / plan.partition.epsilon
                assert least <= plan.partition.scale <= least * (1 + plan.partition.epsilon)
                counted = plan.buckets((0, 10, 30))
                assert plan.spend.admits(counted.event, plan.adjacency)
    assert plan.adjacency is Adjacency.REPLACE_ONE


def test_buckets_hold_their_noisy_counts_and_intervals_cover_the_noise() -> None:
    """On flat data nothing is flattened away: 300 draws of 528 answers, correlated, cover 95 % up to 3 %."""
    plan = with_dawa(Product(age=AllRanges).on(Cells.of({"age": 32})), Guarantee(epsilon=1))
    counts, edges = np.full(32, 50), [0, 4, 8, 16, 17, 32]
    (truth,) = plan.workload.answers(counts)
    measured, inside = plan.buckets(tuple(edges)), []
    with seeded(5):
        for _ in range(300):
            drawn = measured.draw({("age",): np.add.reduceat(counts, edges[:-1])})
            record = {"rows": 1600, "edges": edges, "sums": [block.tolist() for block in drawn]}
            (found,) = plan.answers(record)
            inside.append(float((np.abs(found.values - truth) <= found.widths).mean()))
    assert np.allclose(found.values, plan.workload.answers(plan.cells(record))[0])
    assert abs(float(np.mean(inside)) - 0.96) < 0.03


def test_the_covariance_of_buckets_is_that_of_least_squares() -> None:
    plan = with_dawa(Product(age=Prefix).on(Cells.of({"age": 200})), Guarantee(epsilon=1))
    measured = plan.buckets(tuple(range(0, 201, 2)))  # enough buckets for a tree, which is filled up
    assert isinstance(measured.selection, OneProduct)
    (strategy,) = measured.selection.strategies
    found = covariance(strategy)
    assert float((measured.workload.terms[0].factors[0][1].gram() * found).sum()) == pytest.approx(
        strategy.error(Need.of(measured.workload.terms[0].factors[0][1])), rel=1e-9
    )


def ranges_error(plan: object, record: dict[str, list[int]], counts: np.ndarray) -> float:
    """The root of the mean squared error over all ranges, over noise: computed, with the flattening as it happened."""
    edges = tuple(record["edges"])
    measured = plan.buckets(edges)  # type: ignore[attr-defined]
    widths = np.diff(edges)
    flat = np.repeat(np.add.reduceat(counts, edges[:-1]) / widths, widths)
    running = np.r_[0.0, np.cumsum(counts - flat)]
    size = len(counts)
    bias = (size + 1) * float((running**2).sum()) - float(running.sum()) ** 2
    return math.sqrt((measured.total_error + bias) / (size * (size + 1) / 2))


def plain_error(size: int, epsilon: float) -> float:
    need = Need.of(AllRanges(size))
    return math.sqrt(squared_error(search(need, "laplace"), need, "laplace") / (size * (size + 1) / 2)) / epsilon


def heavy_tailed(size: int) -> np.ndarray:
    """Most rows at 0, some at sixty amounts: a column of gains."""
    rng = np.random.default_rng(7)
    counts = np.zeros(size, dtype=np.int64)
    amounts = np.unique(np.exp(np.linspace(math.log(size / 100), math.log(size * 0.9), 60)).astype(int))
    np.add.at(counts, rng.choice(amounts, 4000), 1)
    counts[0] += 44_000
    return counts


def test_half_the_error_on_sparse_histograms_and_little_lost_on_rough_ones() -> None:
    size, epsilon = 2048, 0.1
    plan = with_dawa(Product(a=AllRanges).on(Cells.of({"a": size})), Guarantee(epsilon="0.1"))
    rough = np.where(np.arange(size) % 2, 5000, 0)
    ratios = {}
    for name, counts in {"sparse": heavy_tailed(size), "flat": np.full(size, 20), "rough": rough}.items():
        with seeded(9):
            ratios[name] = ranges_error(plan, plan.draw({("a",): counts}), counts) / plain_error(size, epsilon)
    assert ratios["sparse"] <= 0.5 and ratios["flat"] <= 0.5 and ratios["rough"] <= 1.5


def test_the_textbooks_property_constant_data_need_few_buckets() -> None:
    found = Partition(1024, Fraction(1, 40))
    with seeded(1):
        assert len(found.draw(np.full(1024, 40), 40_960.0)) < 80  # the printed cost gives 573


def test_refusals_depend_on_the_questions_and_the_price() -> None:
    two = Cells.of({"a": 3, "b": 3})
    with pytest.raises(ParameterError, match="one column"):
        with_dawa(Marginals("a", "b", ways=2).on(two), Guarantee(epsilon=1))
    with pytest.raises(ParameterError, match="at most 4096"):
        with_dawa(Product(a=AllRanges).on(Cells.of({"a": 5000})), Guarantee(epsilon=1))
    with pytest.raises(ParameterError, match="search"):
        with_dawa(Product(a=AllRanges).on(two), Guarantee(epsilon=1), search="best")
    with pytest.raises(ParameterError, match="no price"):
        with_dawa(Product(a=AllRanges).on(two), Guarantee(mu=1))
    with pytest.raises(ParameterError, match="too small"):
        with_dawa(Product(a=AllRanges).on(two), Guarantee(epsilon=Fraction(1, 2**40)))


def test_flat_distances_of_odd_and_even_widths() -> None:
    assert from_flat(np.array([[4, 1, 1, 9]])).tolist() == [11]
    assert from_flat(np.array([[7]])).tolist() == [0]
    assert on_buckets(Product(a=AllRanges).on(Cells.of({"a": 4})), (0, 2, 4)).questions == 10
