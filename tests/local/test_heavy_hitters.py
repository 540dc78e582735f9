"""Heavy hitters: the specification's search finds all planted words, false ones are as rare as stated, nothing raises."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.accounting import Adjacency, ParameterError, account
from tacit.local import Collector, PrefixCandidates, PrefixSearch, Protocol, find, frequencies, to_batch, to_report
from tacit.local.heavy_hitters import END

LETTERS = "abcdefghijklmnopqrstuvwxyz"
PLANTED = {"apples": 0.10, "orange": 0.08, "bananas"[:6]: 0.05, "kiwi": 0.04, "plum": 0.03}


def people(n: int, seed: int) -> list[str]:
    """Planted words, and the rest random ones of six letters."""
    rng = np.random.default_rng(seed)
    found = [word for word, share in PLANTED.items() for _ in range(round(n * share))]
    codes = rng.integers(97, 123, (n - len(found), 6)).astype(np.uint8).tobytes().decode()
    return found + [codes[i : i + 6] for i in range(0, len(codes), 6)]


def runs(number: int) -> tuple[int, int]:
    """How many runs find all five words, and how many other words are found."""
    held, search = people(300_000, 1), PrefixSearch(LETTERS, 6, epsilon=2)
    complete = false = 0
    for _ in range(number):
        found = {word: (share, deviation) for word, share, deviation in find(held, search)}
        complete += set(PLANTED) <= set(found)
        false += len(set(found) - set(PLANTED))
        for word in set(PLANTED) & set(found):
            assert abs(found[word][0] - PLANTED[word]) < 6 * found[word][1]
    return complete, false


def test_ten_searches_find_all_planted_words() -> None:
    """Chance of a miss: the rarest word, 3%, lies 6 deviations above the threshold; of 3 false words in 10 runs: below 1e-3."""
    complete, false = runs(10)
    assert complete == 10
    assert false <= 2


@pytest.mark.slow
def test_two_hundred_searches_find_all_planted_words() -> None:
    complete, false = runs(200)
    assert complete == 200
    assert false <= 8  # two expected at the most, the specification's own run had 4


def test_candidates_of_rounds() -> None:
    """Specification 01, 2.5: apples by steps of two: ap, appl, apples; 676 pairs of letters, against 308,915,776 words."""
    search = PrefixSearch(LETTERS, 6, epsilon=1)
    assert search.lengths == [2, 4, 6]
    first = search.candidates(0, ())
    assert sum(END not in each for each in first) == 26**2 == 676
    assert 26**6 == 308_915_776
    assert len(first) == 676 + 26 + 1
    second = search.candidates(1, ["ap", "a" + END])
    assert "appl" in second
    assert [each for each in second if each.startswith("a" + END)] == ["a" + END * 3]
    assert PrefixSearch(LETTERS, 3, epsilon=1, method="treehist").lengths == [1, 2, 3, 3]
    assert PrefixSearch(LETTERS, 5, epsilon=1).lengths == [2, 4, 5]


def test_the_threshold_is_the_specifications() -> None:
    """1.22% at 100,000 people a round, deviation .269%: z for .01 over three rounds of 676 times some candidates."""
    search = PrefixSearch(LETTERS, 6, epsilon=2)
    protocol = search.protocol(1, ["ap", "or", "ba", "ki", "pl"])
    deviation = math.sqrt(protocol.randomiser.variance(100_000))
    assert deviation == pytest.approx(0.00269, rel=0.01)
    limit = search.deviates(protocol.size - 1) * deviation
    assert 0.0122 < limit < 0.0145  # above the reference's, which counts one round's candidates only


@pytest.mark.parametrize("method", ["treehist", "privtrie"])
def test_other_ways_to_grow(method: str) -> None:
    rng = np.random.default_rng(4)
    held = ["bad"] * 20_000 + ["fade"] * 14_000 + ["a"] * 10_000
    held += ["".join(each) for each in rng.choice(list("abcdef"), (16_000, 4))]
    found = find(held, PrefixSearch("abcdef", 4, epsilon=3, method=method, step=2, least=0.08))
    assert [word for word, *_ in found] == ["bad", "fade", "a"]
    for (_, share, deviation), truth in zip(found, (20 / 60, 14 / 60, 10 / 60), strict=True):
        assert abs(share - truth) < 6 * deviation + 0.002
    if method == "privtrie":  # a word below the least share is not kept, one above is
        assert [word for word, *_ in find(held, PrefixSearch("abcdef", 4, epsilon=3, method=method, least=0.2))] == ["bad", "fade"]


def test_false_words_are_as_rare_as_stated() -> None:
    """Forty searches among people who all hold words that are too long: nothing is found but with a chance of 1% each."""
    held = ["toolong"] * 6000
    found = [find(held, PrefixSearch("abc", 2, epsilon=1, step=1)) for _ in range(40)]
    assert sum(map(bool, found)) <= 4
    careless = PrefixSearch("abc", 2, epsilon=1, step=1, miss=0.9999)  # the mutant without Bonferroni's care finds words
    assert sum(bool(careless.heavy(Collector(p).ingest([to_batch(p, held)]))) for p in [careless.protocol(0)] * 40) > 4


def test_nothing_a_person_holds_raises_or_shows() -> None:
    search = PrefixSearch("abc", 3, epsilon=1, step=1)
    protocol = search.protocol(0)
    nasty = [None, 3, "", "a\0b", "x" * 10**6, "é", b"ab", float("nan"), ["a"], "abc"]
    sent = [to_report(protocol, value) for value in nasty]
    assert len({len(one) for one in sent}) == 1
    assert Collector(protocol).ingest(sent).n == len(nasty)
    assert [protocol.place(value) for value in nasty[:6]] == [0, 0, 1 + search.candidates(0, ()).index(END), 0, 0, 0]
    assert Protocol.from_json(protocol.to_json()) == protocol
    assert account(search.event, Adjacency.REPLACE_ONE).epsilon(0).upper <= 1 + 1e-9


def test_questions_that_make_no_sense_are_refused() -> None:
    for wrong in ({"alphabet": "aa"}, {"alphabet": ""}, {"method": "x"}, {"miss": 0}, {"step": 6, "alphabet": LETTERS}):
        with pytest.raises(ParameterError):
            PrefixSearch(**{"alphabet": "abc", "length": 6, "epsilon": 1, **wrong})  # type: ignore[arg-type]
    with pytest.raises(ParameterError):
        PrefixCandidates(2, 4, ("abc",))
    with pytest.raises(ParameterError):
        PrefixSearch("ab", 2, epsilon=1).heavy(Collector(frequencies(3, epsilon=1)))


def test_a_word_just_below_the_least_share_is_rarely_found() -> None:
    """19.7% where `least` is 20%: six searches with miss .01 find it twice with a chance below 2e-3. Taking every word whose estimate
    reaches `least`, as decided or not, finds it in about four of ten."""
    rng = np.random.default_rng(7)
    held = ["bad"] * 12_000 + ["fade"] * 5_900 + ["".join(each) for each in rng.choice(list("abcdef"), (12_100, 4))]
    search = PrefixSearch("abcdef", 4, epsilon=3, method="privtrie", least=0.2)
    found = [{word for word, *_ in find(held, search)} for _ in range(6)]
    assert all("bad" in words for words in found)
    assert sum("fade" in words for words in found) <= 1
