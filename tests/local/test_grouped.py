"""Groups: the price of a mixture against enumeration, and reports that are no reports."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tacit.accounting import Adjacency, ParameterError, account
from tacit.local import Collector, RangeTree, Response, Unary, as_batch, range_shares, to_batch
from tacit.local.grouped import mixed_event, oracle
from tacit.mechanisms import verify


@pytest.mark.parametrize("branching", [2, 3])
def test_the_enumerated_epsilon_is_the_claim(branching: int) -> None:
    randomiser = RangeTree(5, 1, branching)
    found = verify(randomiser, itertools.permutations(range(5), 2), epsilon=1)
    assert found.epsilon.lower == pytest.approx(1, rel=1e-9)
    assert found.epsilon.upper <= 1 + 1e-9


def test_a_mixture_costs_the_average() -> None:
    """Against the law itself: the largest sum over outcomes of the part of p above e^x q, over all pairs of values."""
    randomiser = RangeTree(4, 1, 2, "response")
    alpha = float(mixed_event(randomiser.parts).alpha or 0)
    assert alpha == pytest.approx((Response(2, 1).other + Response(4, 1).other) / 2, rel=1e-12)
    cost = account(randomiser.event, Adjacency.REPLACE_ONE)
    for epsilon in (0.2, 0.6, 0.95):
        worst = 0.0
        for a, b in itertools.permutations(range(4), 2):
            one, two = randomiser.distribution(a), randomiser.distribution(b)
            worst = max(worst, sum(max(0.0, float(one[o][0]) - np.exp(epsilon) * float(two[o][0])) for o in one))
        assert cost.delta(epsilon).upper == pytest.approx(worst, rel=1e-6)


def test_what_is_no_report_is_dropped_and_counted() -> None:
    protocol = range_shares(100, epsilon=1)
    good = protocol.randomiser.privatise(np.arange(50))
    bad = good.copy()
    bad[:, 0] = 200  # no such group
    collector = Collector(protocol).ingest([as_batch(protocol, good), as_batch(protocol, bad)])
    assert (collector.n, collector.dropped) == (50, {"malformed": 50})
    fuzzed = np.random.default_rng(1).integers(0, 256, (2000, protocol.randomiser.width)).astype(np.uint8)
    Collector(protocol).ingest([as_batch(protocol, fuzzed)])


def test_shards_merge_to_the_same_bytes() -> None:
    protocol = range_shares(100, epsilon=1)
    batches = [to_batch(protocol, np.arange(100)) for _ in range(4)]
    whole = Collector(protocol).ingest(batches).to_bytes()
    assert Collector(protocol).ingest(batches[3:]).merge(Collector(protocol).ingest(batches[:3])).to_bytes() == whole


def test_oracles_by_kind() -> None:
    assert oracle(10, 1, "unary") == Unary(10, 1)
    for kind in ("duchi", "nothing"):
        with pytest.raises(ParameterError):
            oracle(10, 1, kind)
