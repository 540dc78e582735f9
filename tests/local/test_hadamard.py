"""Hadamard response: the transform against its definition, and every place of the code in use."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.local.oracles import supports

from tacit.accounting import Adjacency, Shuffled, account
from tacit.errors import ParameterError
from tacit.local import BlockHadamard, Collector, Hadamard, Projective, Protocol, as_batch
from tacit.local.hadamard import walsh
from tacit.local.randomiser import local_report


@pytest.mark.parametrize("size", [2, 3, 16, 17, 100])
def test_supports_by_their_definition(size: int) -> None:
    oracle = Hadamard(size, 1)
    reports = oracle.privatise(np.arange(300) % size).astype(np.int64)
    plain = [sum((int(r) >> 1 & v).bit_count() % 2 == int(r) & 1 for r in reports) for v in range(size)]
    assert supports(oracle, reports).tolist() == plain


def test_the_transform_twice_is_the_length() -> None:
    table = np.arange(64) ** 2 % 37
    assert (walsh(walsh(table)) == 64 * table).all()


def test_the_sampled_place_without_zero_is_not_used() -> None:
    """All places are drawn, also 0, whose bit says nothing: the plain form of the book."""
    places = np.unique(Hadamard(8, 1).privatise(np.zeros(2000, dtype=np.int64)) >> 1)
    assert places.tolist() == list(range(8))


# --- in blocks ---


@pytest.mark.parametrize(("size", "blocks"), [(2, 1), (2, 2), (5, 2), (9, 3), (16, 4), (100, 7)])
def test_halves_of_blocks_by_their_definition(size: int, blocks: int) -> None:
    oracle = BlockHadamard(size, 2, blocks)
    drawn = oracle.privatise(np.arange(400) % size).astype(np.int64)
    plain = np.zeros(size)
    for report in drawn.tolist():
        block, place = divmod(report, oracle.places)
        for v in range(size):
            plain[v] += 0.5 if v % blocks != block else float((place & (1 + v // blocks)).bit_count() % 2 == 0)
    assert supports(oracle, drawn).tolist() == plain.tolist()


@pytest.mark.parametrize(("size", "epsilon", "blocks"), [(5, 3, 3), (9, 2, 0), (4, 4, 4), (6, 1, 1)])
def test_the_variance_by_enumeration(size: int, epsilon: float, blocks: int) -> None:
    """One report's mean and variance from the enumerated law, for people spread evenly and for all in one block."""
    oracle = BlockHadamard(size, epsilon, blocks)
    laws = [{o: float(sum(m)) / 2 for o, m in oracle.distribution(v).items()} for v in range(size)]
    for target in range(size):
        told = {o: (float(supports(oracle, np.array([o]))[target]) - 0.5) / oracle.gap for o in laws[0]}
        means = [sum(told[o] * p for o, p in law.items()) for law in laws]
        spreads = [sum(told[o] ** 2 * p for o, p in law.items()) - m**2 for law, m in zip(laws, means, strict=True)]
        assert means == pytest.approx([float(v == target) for v in range(size)], abs=1e-9)
        block = [v for v in range(size) if v % oracle.blocks == target % oracle.blocks]
        for v in range(size):
            assert spreads[v] == pytest.approx(oracle._spread(float(v in block), float(v == target)), rel=1e-9)
        even = 1 / oracle.blocks
        assert oracle.variance(1) == pytest.approx(even * oracle._spread(1, 0) + (1 - even) * oracle._spread(0, 0), rel=1e-9)


def test_blocks_are_for_large_epsilon() -> None:
    """About twice the optimum 4 e / (e - 1)^2 where people are spread over the blocks, where plain Hadamard response stays above 1."""
    for epsilon in (3, 4, 6):
        odds = math.exp(epsilon)
        optimum, found = 4 * odds / (odds - 1) ** 2, BlockHadamard(1000, epsilon).variance(1)
        assert 1.8 * optimum < found < 2.2 * optimum < 1 < Hadamard(1000, epsilon).variance(1)
        assert Projective(200, epsilon).variance(1) < found
        best = BlockHadamard(1000, epsilon).blocks
        assert all(BlockHadamard(1000, epsilon, b).variance(1) >= found for b in (max(1, best - 1), best + 1, 2 * best))
    with pytest.raises(ParameterError, match="blocks"):
        BlockHadamard(4, 1, 5)


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_the_price_is_that_of_the_worse_pair(epsilon: float) -> None:
    """Two values of different blocks cost at least as much as two of one block, shuffled and alone."""
    oracle = BlockHadamard(40, epsilon, 4)
    within = local_report(epsilon, oracle.symbols * oracle.rare, 0.25 / oracle.blocks, 0.25 / oracle.blocks)
    for n, delta in ((1, 1e-3), (6, 1e-3), (1000, 1e-6), (10**5, 1e-8)):
        priced, same = (account(Shuffled(e, n), Adjacency.REPLACE_ONE).epsilon(delta).upper for e in (oracle.event, within))
        assert priced >= same * (1 - 1e-6)
    # the chance of what favours another value, by enumeration
    law = [{o: float(sum(m)) / 2 for o, m in oracle.distribution(v).items()} for v in (0, 1, 4)]
    against = [sum(p for o, p in law[0].items() if other[o] > p * 1.01) for other in law[1:]]
    assert max(against) == pytest.approx(float(oracle.event.alpha or 0), rel=1e-9) and against[1] < against[0]


@pytest.mark.parametrize("held", [[0], [0, 3, 6], list(range(60))], ids=["one", "block", "even"])
def test_deviations_of_blocks_come_from_the_reports(held: list[int]) -> None:
    """Wherever people are, the estimated deviation is that of 3,000 repetitions: 3%, of a relative deviation of .2%, over all values."""
    oracle, n, runs = BlockHadamard(60, 2, 3), 300, 3000
    protocol, values = Protocol(60, oracle), np.resize(held, 300)
    drawn = oracle.privatise(np.tile(values, runs)).reshape(runs, n)
    found = []
    for row in drawn:
        table = oracle.fresh()
        oracle.add(table, row)
        found.append(oracle.estimates(table, n))
    shares, variances = np.array([f[0] for f in found]), np.array([f[1] for f in found])
    assert (shares.var(axis=0) / variances.mean(axis=0)).mean() == pytest.approx(1, abs=0.03)
    whole = Collector(protocol).ingest(as_batch(protocol, drawn.ravel())).estimate()
    assert abs(whole.share.sum() - 1) < 6 * whole.deviation.max() * 60**0.5
