"""The shuffler lets nothing small through, and nothing of who sent what."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.accounting import ParameterError, Shuffled
from tacit.local import Collector, Shuffler, frequencies, read_batch, to_batch, to_report

PROTOCOL = frequencies(["a", "b", "c"], epsilon=2)


def test_a_batch_goes_only_when_it_is_large_enough() -> None:
    shuffler = Shuffler(PROTOCOL, at_least=10)
    shuffler.add([to_report(PROTOCOL, "a") for _ in range(9)])
    with pytest.raises(ParameterError, match="9 reports wait"):
        shuffler.release()
    shuffler.add([to_report(PROTOCOL, "a")])
    assert shuffler.event == Shuffled(PROTOCOL.event, 10)
    assert shuffler.release().num_rows == 10 and shuffler.waiting == 0
    doubted = Shuffler(PROTOCOL, at_least=10, honest=0.5).add(to_batch(PROTOCOL, ["a"] * 19))
    assert not doubted.ready and doubted.add(to_batch(PROTOCOL, ["a"])).ready


def test_order_and_nonces_are_gone() -> None:
    values = ["a"] * 300 + ["b"] * 300
    batch = to_batch(PROTOCOL, values)
    before = read_batch(PROTOCOL, batch).reports
    out = Shuffler(PROTOCOL, at_least=600).add(batch).release()
    after = read_batch(PROTOCOL, out).reports
    assert out.schema.names == ["report"] and sorted(before) == sorted(after)
    # the chance that 600 reports keep their order is nil
    assert not np.array_equal(before, after)


def test_what_is_repeated_or_foreign_is_dropped() -> None:
    batch, foreign = to_batch(PROTOCOL, ["a"] * 5), to_batch(frequencies(["x", "y"], epsilon=1), ["x"] * 4)
    shuffler = Shuffler(PROTOCOL, at_least=5).add(batch).add(batch).add(foreign).add([b"", b"\x01" * 20])
    assert shuffler.waiting == 5 and shuffler.dropped == {"repeated": 5, "foreign": 4, "malformed": 2}


def test_the_collector_counts_a_shuffled_batch() -> None:
    out = Shuffler(PROTOCOL, at_least=100).add(to_batch(PROTOCOL, ["c"] * 100)).release()
    collector = Collector(PROTOCOL).ingest(out).ingest(out)
    assert collector.n == 100 and collector.dropped == {"repeated": 100}


def test_replays_without_nonces_do_not_fill_a_batch() -> None:
    """Ten people's reports, again and again, with and without nonces, singly and sliced, stay ten."""
    protocol = frequencies(["a", "b"], epsilon=1)
    batch = to_batch(protocol, ["a"] * 10)
    shuffler = Shuffler(protocol, at_least=20)
    for replay in (batch, batch, batch.select(["report"]), batch.slice(2, 5), batch.select(["report"]).slice(1, 3)):
        shuffler.add(replay)
    assert shuffler.waiting == 10 and not shuffler.ready and shuffler.dropped == {"repeated": 15, "mixed": 13}
    with pytest.raises(ParameterError, match="promised"):
        shuffler.release()
