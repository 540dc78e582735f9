"""Sketches: enumerated epsilon, unbiased over public functions, noise as stated, Apple's own estimator, any key without an error."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tacit.accounting import ParameterError
from tacit.local import (
    Bloom,
    Collector,
    CountMeanSketch,
    CountSketch,
    Protocol,
    Randomiser,
    SketchAnswers,
    means,
    sketched,
    to_batch,
    to_report,
)
from tacit.local.sketches import KEYS, AnyKeys
from tacit.mechanisms import verify

KINDS = ["cms", "hcms", "auto", "count-sketch", "bloom"]
PLACES = [AnyKeys().place(each) for each in "abcdef"]


@pytest.mark.parametrize(
    "randomiser",
    [CountMeanSketch(KEYS, 1, 2, 8, 0, "hadamard"), CountMeanSketch(KEYS, 1, 2, 4, 0, "symmetric-unary"), CountSketch(KEYS, 1, 2, 8),
     Bloom(KEYS, 1, 8, 1)],
    ids=["hcms", "cms", "count-sketch", "bloom"],
)  # fmt: skip
def test_the_enumerated_epsilon_is_the_claim(randomiser: Randomiser) -> None:
    found = verify(randomiser, itertools.permutations(PLACES[:4], 2), epsilon=1)
    assert found.epsilon.upper <= 1 + 1e-9
    assert found.epsilon.lower == pytest.approx(1, rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_shares_are_unbiased_over_public_functions(kind: str) -> None:
    """Forty seeds: the mean of each key's share within 5 deviations of noise and collisions; without the correction it would not be."""
    keys = ["a"] * 1200 + ["b"] * 500 + [f"rare {i}" for i in range(300)]
    found = []
    for seed in range(40):
        protocol = sketched(epsilon=3, kind=kind, rows=4, buckets=16, family=seed)
        answers = SketchAnswers.of(Collector(protocol).ingest([to_batch(protocol, keys)]))
        shares, deviation = answers.shares(["a", "b", "absent"])
        found.append(shares)
    wide = 5 * math.hypot(deviation, answers.collisions * 0.7) / math.sqrt(40)
    assert np.mean(found, axis=0) == pytest.approx([0.6, 0.25, 0.0], abs=wide)
    assert wide < 0.2


@pytest.mark.parametrize("kind", KINDS)
def test_noise_is_as_stated(kind: str) -> None:
    """Sixty runs with one key and an absent one, under one public function: the spread is at most the stated one (30% of chance)."""
    protocol = sketched(epsilon=2, kind=kind, rows=4, buckets=64)
    found = []
    for _ in range(60):
        shares, deviation = SketchAnswers.of(Collector(protocol).ingest([to_batch(protocol, [7] * 1000)])).shares([7, "x"])
        found.append(shares)
    spread = np.std(found, axis=0)
    assert (spread < 1.3 * deviation).all()
    assert spread[1] > 0.6 * deviation
    assert np.mean(found, axis=0)[0] == pytest.approx(1, abs=5 * deviation / math.sqrt(60) + (0.05 if kind == "bloom" else 1e-9))


def test_it_is_apples_estimator() -> None:
    """CMS as published: c = (e^(eps/2) + 1) / (e^(eps/2) - 1), rows of k (c v / 2 + 1/2), m / (m - 1) (mean - N / m)."""
    protocol = sketched(epsilon=2, kind="cms", rows=2, buckets=16)
    randomiser = protocol.randomiser
    assert isinstance(randomiser, CountMeanSketch)
    reports = randomiser.privatise(protocol.places(["a", "b", "c", "d"] * 500))
    group = reports[:, 0].astype(int)
    even = np.concatenate([np.flatnonzero(group == row)[:900] for row in (0, 1)])  # rows of equal size, where both forms are one
    reports, group = reports[even], group[even]
    bits = np.unpackbits(reports[:, 2:], axis=1)[:, :16]
    c, k, m, n = (math.e + 1) / (math.e - 1), 2, 16, len(reports)
    sketch = np.stack([(k * (c / 2 * (2.0 * bits[group == row] - 1) + 0.5)).sum(axis=0) for row in (0, 1)])
    place = protocol.places(["a"])
    wanted = m / (m - 1) * (np.mean([sketch[row, randomiser.mapped(row, place)[0]] for row in (0, 1)]) - n / m)
    table = randomiser.fresh()
    randomiser.add(table, reports)
    assert randomiser.key_shares(table, n, place)[0][0] * n == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_any_key_is_taken(kind: str) -> None:
    protocol = sketched(epsilon=1, kind=kind, buckets=64)
    nasty = [None, "", "\ud800", "x" * 10**5, b"\0", -1, 10**10000, float("nan"), [], True, np.int64(3), 3]
    places = [protocol.place(value) for value in nasty]
    assert places[0] == places[1] == places[7] == places[9]
    assert places[10] == places[11]
    assert all(0 <= place < protocol.size for place in places)
    sent = [to_report(protocol, value) for value in nasty]
    assert len({len(one) for one in sent}) == 1
    assert Collector(protocol).ingest(sent).n == len(nasty)
    assert Protocol.from_json(protocol.to_json()) == protocol
    assert sketched(epsilon=1, kind=kind, buckets=64, family=1).fingerprint != protocol.fingerprint


def test_questions_that_make_no_sense_are_refused() -> None:
    for wrong in ({"kind": "x"}, {"buckets": 100}, {"rows": 0}, {"kind": "bloom", "buckets": 4}):
        with pytest.raises(ParameterError):
            sketched(epsilon=1, **wrong)  # type: ignore[arg-type]
    with pytest.raises(ParameterError):
        SketchAnswers.of(Collector(means(bounds=(0, 1), epsilon=1)))
    with pytest.raises(ParameterError):
        SketchAnswers.of(Collector(sketched(epsilon=1)))
    with pytest.raises(ParameterError, match="SketchAnswers"):
        Collector(sketched(epsilon=1)).protocol.randomiser.support(np.zeros(1, dtype=np.int64), 2)
