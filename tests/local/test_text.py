"""The model of the next word: two small tables, right without noise, better with more people."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tacit.accounting import Adjacency, account
from tacit.errors import ParameterError
from tacit.local import Collector, TaggedTexts, TagWordModel, Triple, frequencies, next_words, sampled_triple, to_batch
from tacit.mechanisms import verify
from tacit.noise import test_mode as seeded

TAGS, WORDS = ("noun", "verb", "adverb"), ("<other>", "dogs", "cats", "bark", "sleep", "loudly", "often")
TEXTS = [
    [("dogs", "noun"), ("bark", "verb"), ("loudly", "adverb"), ("dogs", "noun"), ("bark", "verb")],
    [("cats", "noun"), ("sleep", "verb"), ("often", "adverb"), ("cats", "noun"), ("sleep", "verb")],
]


def triples(text):  # type: ignore[no-untyped-def]
    return [Triple(*text[i : i + 3]) for i in range(len(text) - 2)]


def counted(holding: TaggedTexts, people: list[Triple]) -> TagWordModel:
    """The model that plain counting makes."""
    t, w = len(holding.tags), len(holding.words)
    tags, words = np.zeros((t, t, t)), np.zeros((w, t, w))
    for one in people:
        a, b, c = (holding.tags.index(pair[1]) for pair in (one.before, one.latest, one.following))
        tags[a, b, c] += 1
        words[holding.words.index(one.latest[0]), c, holding.words.index(one.following[0])] += 1
    return TagWordModel.from_shares(holding, tags, words)


def test_the_tables_have_the_sizes_of_the_two_triples() -> None:
    parts = next_words(TAGS, WORDS, epsilon=1).randomiser.parts  # type: ignore[attr-defined]
    assert [part.size for part in parts] == [3**3, 7 * 3 * 7]


def test_predictions_without_noise_are_those_of_plain_counting() -> None:
    protocol = next_words(TAGS, WORDS, epsilon=40)  # a lie in 1e17 reports
    people = [one for text in TEXTS for one in triples(text)] * 40
    with seeded(5):
        collector = Collector(protocol).ingest([to_batch(protocol, people)])
    found, true = TagWordModel.of(collector), counted(protocol.values, people)  # type: ignore[arg-type]
    for text in TEXTS:
        for end in range(2, len(text)):
            assert found.predict(text[:end], top=1) == true.predict(text[:end], top=1) == [text[end][0]]


def test_accuracy_grows_with_the_number_of_people() -> None:
    protocol = next_words(TAGS, WORDS, epsilon=2)
    asked = [(text[: end + 1], text[end + 1][0]) for text in TEXTS for end in range(1, len(text) - 1)]
    right = []
    with seeded(7):
        for people in (40, 40_000):
            held = [sampled_triple(TEXTS[i % 2]) for i in range(people)]
            model = TagWordModel.of(Collector(protocol).ingest([to_batch(protocol, held)]))
            right.append(sum(model.predict(text, top=1) == [word] for text, word in asked) / len(asked))
    assert right[1] == 1 > right[0]


def test_the_enumerated_price_is_the_claim_and_alpha_is_tight() -> None:
    protocol = next_words(("n", "v"), ("<other>", "a"), epsilon=1)
    laws = [protocol.randomiser.distribution(value) for value in range(0, protocol.size, 3)]
    pairs = [(0, value) for value in range(1, protocol.size, 5)]
    assert verify(protocol.randomiser, pairs).epsilon.upper == pytest.approx(1, abs=1e-9)
    alone = account(protocol.event, Adjacency.REPLACE_ONE).epsilon(0).upper
    assert alone == 1
    # any two places: the largest ratio of outcome chances is e
    worst = max(float(a[o][1] / b[o][0]) for a in laws for b in laws for o in a)
    assert worst == pytest.approx(np.e, rel=1e-12)


def test_what_is_in_no_table_counts_as_the_first_entry() -> None:
    holding = TaggedTexts(TAGS, WORDS)
    odd: list[object] = [None, "text", 3, Triple(("x", "y"), ("z", 1), ("dogs", "noun")), Triple(1, 2, 3), float("nan")]  # type: ignore[arg-type]
    assert [holding.place(value) for value in odd][:3] == [0, 0, 0]
    assert all(0 <= holding.place(value) < holding.size for value in odd)
    assert sampled_triple([("a", "b")]) is None
    for tags, words in ((("n",), WORDS), (("n", "n"), WORDS), (TAGS, ("a", 1))):
        with pytest.raises(ParameterError):
            TaggedTexts(tags, words)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="next_words"):
        TagWordModel.of(Collector(frequencies(3, epsilon=1)))


def test_places_of_a_text_are_drawn_alike() -> None:
    with seeded(3):
        found = Counter(sampled_triple(TEXTS[0]).before[0] for _ in range(3000))  # type: ignore[union-attr]
    # three places, 1,000 each; six deviations of a binomial count are 155
    assert all(abs(number - 1000) < 155 for number in found.values()) and len(found) == 3
