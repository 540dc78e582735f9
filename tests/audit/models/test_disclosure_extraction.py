from __future__ import annotations

import itertools
import math

import pytest

from tacit.accounting import ParameterError
from tacit.audit.experiment import generator
from tacit.audit.models.disclosure import END, CharacterModel, exposure, extract

FILLER = ["the sun is out today", "it will rain on monday", "the bus is late again", "we had soup for lunch", "the pin was lost"]
SPACE = [f"the pin is {n:03d}" for n in range(1000)]


def exposed(times: int, order: int = 6) -> float:
    return exposure(CharacterModel(order).fit(FILLER * 4 + ["the pin is 731"] * times).log_likelihood, "the pin is 731", SPACE).bits


def test_probabilities_of_the_next_character_sum_to_one_with_the_unseen() -> None:
    model = CharacterModel(order=2).fit(["ab", "ac"])
    unseen = model.probability("\x02a", "?")
    assert sum(model.probability("\x02a", c) for c in model.alphabet) + unseen == pytest.approx(1)
    assert model.probability("ab", END) > 0.9


def test_exposure_grows_with_repetition_and_reaches_all_bits() -> None:
    found = [exposed(times) for times in (0, 1, 5)]
    assert found[0] == 0.0, "a secret like all others is in the last place"
    assert found[1] == found[2] == pytest.approx(math.log2(1000))
    short = CharacterModel(1).fit(FILLER * 4 + ["the pin is 731"])
    assert exposure(short.log_likelihood, "the pin is 731", SPACE).bits < 9.97, "a shorter memory keeps less"


def test_exposure_by_counting_ranks() -> None:
    value = {"a": 3.0, "b": 2.0, "c": 2.0, "d": 1.0}
    bits = {name: exposure(value.__getitem__, name, list(value)).bits for name in value}
    assert bits == {"a": 2.0, "b": pytest.approx(2 - math.log2(3)), "c": pytest.approx(2 - math.log2(3)), "d": 0.0}


def test_a_sample_bounds_the_exposure_from_below() -> None:
    """A secret in place 100 of 10,000, bounded from samples of 200: above the truth in at most five percent."""
    draw, truth, above = generator(2), math.log2(10_000) - math.log2(100), 0
    likelihood = lambda text: -float(text)  # noqa: E731
    for _ in range(200):
        sample = [str(1 + int(i)) for i in draw.permutation(10_000)[:200]]
        found = exposure(likelihood, "100", sample, space=10_000)
        above += found.at_least > truth
    assert above <= 10 + 3 * 3.1


def test_what_was_repeated_is_extracted_and_a_reference_helps() -> None:
    secret = "key 9f3a77c1"
    texts = FILLER * 6 + [secret] * 6
    model, reference = CharacterModel(order=5).fit(texts), CharacterModel(order=5).fit(FILLER * 6)
    found = extract(
        model.generate, model.log_likelihood, pool=80, keep=2, reference=reference.log_likelihood, training=texts, seed=3
    )
    assert found[0].text == secret and found[0].memorised
    by_compression = extract(model.generate, model.log_likelihood, pool=80, keep=3, training=texts, seed=3)
    assert any(one.memorised for one in by_compression)


def test_generated_texts_are_as_long_as_allowed() -> None:
    model = CharacterModel(order=1).fit(["aaaaaaaaaaaaaaaaaaaa"])
    assert all(len(model.generate(generator(i), longest=5)) <= 5 for i in range(10))
    assert "".join(itertools.islice(model.generate(generator(1), prompt="a"), 1)) == "a"


def test_refusals() -> None:
    with pytest.raises(ParameterError, match="other secret"):
        exposure(lambda text: 0.0, "a", ["a"])
    with pytest.raises(ParameterError, match="order"):
        CharacterModel(order=0)
