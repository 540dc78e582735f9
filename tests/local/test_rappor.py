"""RAPPOR: the two prices by enumeration, decoding of planted words with few false ones, joint shares, memory across restarts."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from tacit.accounting import Repeated
from tacit.errors import ParameterError
from tacit.local.rappor import BloomCounts, Device, Rappor, joint_shares
from tacit.mechanisms.verify import exp_bracket, max_divergence


def reports(rappor: Rappor, words: list[str]) -> list[tuple[int, np.ndarray]]:
    return [Device(rappor).report(word) for word in words]


def test_the_prices_of_the_paper() -> None:
    rappor = Rappor(bits=128, hashes=2, f=0.5, p=0.5, q=0.75)
    assert rappor.lifetime_epsilon == pytest.approx(4.394449, abs=5e-7) and rappor.epsilon == pytest.approx(1.074286, abs=5e-7)


@pytest.mark.parametrize("small", [Fraction(1, 10**k) for k in (1, 2, 3, 4, 8, 12, 18)])
def test_prices_near_nothing_are_not_below_the_laws(small: Fraction) -> None:
    """f near 1, or p near q: ratios near 1, which floating-point chances lose. The oracle is the ratio itself, in fractions."""
    for f, p, q in ((1 - small, Fraction(1, 3), Fraction(2, 3)), (Fraction(1, 2), Fraction(2, 5), Fraction(2, 5) + small / 7)):
        rappor = Rappor(bits=8, hashes=1, f=f, p=p, q=q)
        one, zero = f * (p + q) / 2 + (1 - f) * q, f * (p + q) / 2 + (1 - f) * p
        for price, ratio in ((rappor.lifetime_epsilon, ((2 - f) / f) ** 2), (rappor.epsilon, one * (1 - zero) / (zero * (1 - one)))):
            assert exp_bracket(price, 400)[0] >= ratio
            assert exp_bracket(price * (1 - 1e-8), 400)[1] < ratio


@pytest.mark.parametrize("parameters", [(Fraction(1, 2), Fraction(1, 2), Fraction(3, 4)), (Fraction(1, 4), Fraction(1, 5), Fraction(4, 5))])
def test_the_prices_by_enumeration(parameters: tuple[Fraction, Fraction, Fraction]) -> None:
    """Four bits, two hash functions, filters 1100 and 0011: the laws of the permanent answer and of one report, in fractions."""
    f, p, q = parameters
    rappor = Rappor(bits=4, hashes=2, f=f, p=p, q=q)
    one, zero = f * (p + q) / 2 + (1 - f) * q, f * (p + q) / 2 + (1 - f) * p
    for high, low, price in ((1 - f / 2, f / 2, rappor.lifetime_epsilon), (one, zero, rappor.epsilon)):
        laws = []
        for true in ((1, 1, 0, 0), (0, 0, 1, 1)):
            law = {}
            for row in itertools.product((0, 1), repeat=4):
                law[row] = math.prod((high if t else low) if b else 1 - (high if t else low) for t, b in zip(true, row, strict=True))
            laws.append(law)
        assert max_divergence(laws[0], laws[1]).upper == pytest.approx(price, rel=1e-12)


def test_bits_are_drawn_with_their_chances() -> None:
    """100,000 bits of each sort; limits of 6 deviations. Permanent bits turned round would be seen."""
    rappor, n = Rappor(bits=2, hashes=1, f=Fraction(1, 4)), 100_000
    for true, permanent in ((True, 7 / 8), (False, 1 / 8)):
        kept = rappor.permanent(np.full(n, true))
        assert abs(kept.mean() - permanent) < 6 * 0.5 / math.sqrt(n)
        chance = permanent * 0.75 + (1 - permanent) * 0.5
        assert abs(rappor.instantaneous(kept).mean() - chance) < 6 * 0.5 / math.sqrt(n)
        assert abs((1 - kept).mean() - permanent) > 6 * 0.5 / math.sqrt(n)


@pytest.mark.parametrize("method", ["lasso", "nnls"])
def test_planted_words_are_decoded(method: str) -> None:
    """20,000 people, 60 candidates of whom 4 are held: all found, people within 6 deviations, at most one false word."""
    rappor = Rappor(bits=32, hashes=2, cohorts=16, f=Fraction(1, 10), p=Fraction(1, 4), q=Fraction(3, 4))
    held = {"apple": 9000, "pear": 6000, "plum": 3000, "fig": 2000}
    told = BloomCounts(rappor).add(reports(rappor, [word for word, n in held.items() for _ in range(n)]))
    candidates = [*held, *(f"word{k}" for k in range(56))]
    found = told.decode(candidates, method=method)
    assert found.found[:4].all() and found.found[4:].sum() <= 1
    for k, number in enumerate(held.values()):
        assert abs(found.people[k] - number) < 6 * found.deviation[k] + 0.02 * number
    assert [word for word, _ in found.top(2)] == ["apple", "pear"]


def test_words_that_nobody_holds_are_rarely_found() -> None:
    """No candidate is held, ten surveys, 40 candidates each: under a rate of 5% at most 3 surveys find any (chance 1%)."""
    rappor, wrong = Rappor(bits=16, hashes=2, cohorts=8, f=Fraction(1, 4)), 0
    for _ in range(10):
        told = BloomCounts(rappor).add(reports(rappor, [f"other{k}" for k in range(400)]))
        told.ones = np.array([[np.random.binomial(n, rappor._reported()[1]) for _ in range(16)] for n in told.n])
        wrong += bool(told.decode([f"word{k}" for k in range(40)]).found.any())
    assert wrong <= 3


def test_joint_shares_find_words_that_no_list_holds() -> None:
    """Words of two parts, ap+ple and fi+g: their parts are listed, the words are not. A third joint share stays small."""
    rappor = Rappor(bits=16, hashes=2, cohorts=4, f=Fraction(1, 20), p=Fraction(1, 10), q=Fraction(9, 10))
    told = [(Device(rappor).report(a), Device(rappor).report(b)) for a, b in [("ap", "ple")] * 700 + [("fi", "gs")] * 300]
    shares = joint_shares(rappor, told, ["ap", "fi", "xx"], ["ple", "gs", "yy"])
    assert shares.sum() == pytest.approx(1)
    assert shares[0, 0] == pytest.approx(0.7, abs=0.06) and shares[1, 1] == pytest.approx(0.3, abs=0.06)
    assert sum(shares[a, b] for a, b in itertools.product(range(3), repeat=2) if a != b or a == 2) < 0.05


def test_the_memory_outlives_the_device() -> None:
    rappor = Rappor(bits=64, cohorts=4, f=Fraction(1, 2))
    device = Device(rappor, values=2)
    device.report("a")
    again = Device.from_json(rappor, device.to_json())
    assert again.cohort == device.cohort and (again._memo["a"] == device._memo["a"]).all()
    for word in ("b", "c", "d", 7, None):
        again.report(word)
    assert list(again._memo) == ["a", "b"]  # the third value repeats the last memory
    assert again.event == Repeated(rappor.lifetime, 2) and Device(rappor).event == rappor.lifetime


def test_years_of_reports_tell_no_more_than_the_permanent_answer() -> None:
    """3,650 reports averaged give the permanent bits, not the true ones: a mutant that draws the permanent answer anew gives these."""
    rappor = Rappor(bits=64, hashes=2, cohorts=1)
    device = Device(rappor)
    mean = np.mean([device.report("a")[1] for _ in range(3650)], axis=0)
    assert ((mean > 0.625) == device._memo["a"]).all() and (device._memo["a"] != rappor.filter("a", 0)).sum() > 5
    fresh = np.mean([Device(rappor).report("a")[1] for _ in range(3650)], axis=0)
    one, zero = rappor._reported()
    assert ((fresh > (one + zero) / 2) == rappor.filter("a", 0)).all()


def test_what_is_no_report_is_counted() -> None:
    rappor = Rappor(bits=8, cohorts=2)
    good = np.zeros(8, dtype=np.bool_)
    told = BloomCounts(rappor).add([(0, good), (2, good), (-1, good), (0, good[:5]), (1, good.astype(int)), ("x", good), (None, good)])  # type: ignore[list-item]
    assert told.dropped == 6 and told.n.tolist() == [1, 0]
    for bad in ({"f": 0}, {"p": 0.8, "q": 0.5}, {"bits": 1}, {"hashes": 9, "bits": 8}, {"f": 2}):
        with pytest.raises(ParameterError):
            Rappor(**bad)  # type: ignore[arg-type]
    for words, method in (([], "lasso"), (["a", "a"], "lasso"), (["a"], "guess")):
        with pytest.raises(ParameterError):
            told.decode(words, method=method)
