"""Fragments: the specification's example, planted words come out of the puzzle, enumerated epsilon, nothing raises."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tacit.accounting import ParameterError
from tacit.local import Collector, FragmentReports, FragmentSearch, Protocol, means, puzzle, to_batch, to_report
from tacit.local.fragments import HashedWords
from tacit.mechanisms import verify

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def test_apples_has_the_specifications_fragments() -> None:
    words = HashedWords(LETTERS, 6, 2, 256)
    assert words.fragments("apples") == [("ap", 1), ("pl", 3), ("es", 5)]
    randomiser = FragmentSearch(LETTERS, 6, epsilon=2).protocol.randomiser
    assert isinstance(randomiser, FragmentReports)
    place = words.place("apples")
    for group, fragment in enumerate(("ap", "pl", "es")):
        code, hashed = divmod(int(randomiser.mapped(group, np.array([place]))[0]), 256)
        assert words.letters(code) == fragment
        assert hashed == words.hashed("apples")


def test_the_enumerated_epsilon_is_the_claim() -> None:
    randomiser = FragmentReports(3**2 * 2, 1, 2, 1, 2, 2)
    found = verify(randomiser, itertools.permutations(range(18), 2), epsilon=1)
    assert found.epsilon.lower == pytest.approx(1, rel=1e-9)
    assert found.epsilon.upper <= 1 + 1e-9


def test_planted_words_are_found_and_no_others() -> None:
    """120,000 people at epsilon 3: fragments of the rarest word, 6%, lie 6 deviations above their threshold."""
    rng = np.random.default_rng(2)
    planted = {"badged": 24_000, "facade": 12_000, "head": 7_200}
    noise = rng.integers(97, 105, (76_800, 6)).astype(np.uint8).tobytes().decode()
    people = [word for word, n in planted.items() for _ in range(n)] + [noise[i : i + 6] for i in range(0, len(noise), 6)]
    found = puzzle(people, FragmentSearch("abcdefgh", 6, epsilon=3, hashes=64))
    assert [word for word, *_ in found] == list(planted)
    for word, share, deviation in found:
        assert abs(share - planted[word] / 120_000) < 6 * deviation + 0.003  # and the sample of people who were asked


def test_the_hash_keeps_words_apart() -> None:
    """Two words, four ways to mix their fragments: with hashes only the two; without (one hash) the puzzle has all four."""
    people = ["abab"] * 20_000 + ["cdcd"] * 20_000
    with_, without = FragmentSearch("abcd", 4, epsilon=4, hashes=64), FragmentSearch("abcd", 4, epsilon=4, hashes=1)
    found = [search.words(Collector(search.protocol).ingest([to_batch(search.protocol, people)])) for search in (with_, without)]
    assert sorted(found[0]) == ["abab", "cdcd"]
    assert sorted(found[1]) == ["abab", "abcd", "cdab", "cdcd"]
    assert {word for word, *_ in puzzle(people, without)} == {"abab", "cdcd"}  # whole words decide


def test_nothing_a_person_holds_raises() -> None:
    search = FragmentSearch("abc", 4, epsilon=1, hashes=4)
    nasty = [None, 3, "", "a\0", "x", "abcabc", b"ab", float("nan"), [], "abca"]
    assert len({search.protocol.place(value) for value in nasty[:-1]}) == 1
    assert len({len(to_report(search.protocol, value)) for value in nasty}) == 1
    assert Protocol.from_json(search.protocol.to_json()) == search.protocol


def test_questions_that_make_no_sense_are_refused() -> None:
    for wrong in ({"length": 5}, {"alphabet": "aa"}, {"miss": 0}, {"hashes": 0}, {"length": 60}):
        with pytest.raises(ParameterError):
            FragmentSearch(**{"alphabet": "abc", "length": 4, "epsilon": 1, **wrong})  # type: ignore[arg-type]
    with pytest.raises(ParameterError):
        FragmentSearch("abc", 4, epsilon=1).words(Collector(means(bounds=(0, 1), epsilon=1)))
