"""What a model gives away about its data beside membership: attributes of a person, and texts verbatim.

**Attributes.** Fill the missing attribute with every value it may have and keep the one the model knows best. A guess
that a statistician could make from the rest of the record is no breach by the model, so the figure that counts is the
*advantage*: how much more often the guess is right for members than for other records of the same population (Yeom et
al. 2018, Experiment 3).

>>> table = {(1.0, 0.0): 0.9}
>>> model = lambda x: np.array([[1 - table.get(tuple(row), 0.5), table.get(tuple(row), 0.5)] for row in x.tolist()])
>>> records = np.array([[1.0, 0.0]]), np.array([1])
>>> infer_attribute(model, records, column=1, values=[0.0, 1.0]).tolist()
[0.0]

**Texts.** The *exposure* of an inserted secret is log2 of the number of possible secrets less log2 of its rank by
likelihood (Carlini et al. 2019, Definition 4): zero bits for a secret in the last place, all bits for the first. For a
space too large to rank, a sample bounds the rank from above with a stated confidence, and so exposure from below.
`extract` ranks what a model generates.

>>> language = CharacterModel(order=4).fit(["the pin is 0731"] * 3 + ["the sun is out today", "the rain is over now"])
>>> space = [f"the pin is {n:04d}" for n in range(10_000)]
>>> round(exposure(language.log_likelihood, "the pin is 0731", space).bits, 2)
13.29
"""

from __future__ import annotations

import math
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from tacit.accounting import ParameterError
from tacit.audit.experiment import Generator, generator
from tacit.audit.models.signals import LOSS, Floats, Model, Records, Signal, features_labels
from tacit.audit.rates import lower_rate, upper_rate
from tacit.parameters import count, positive, probability

START, END = "\x02", "\x03"  # of a text, for the model of characters


def infer_attribute(
    model: Model, records: Records, *,
    column: int, values: Sequence[float], prior: Sequence[float] | None = None, signal: Signal = LOSS,
) -> Floats:
    """The likeliest value of one column of the inputs for every record; what the column really holds is not looked at.

    With the loss as signal, the score of a value is its log-likelihood plus the logarithm of its prior. Ties go to the first value.
    """
    x, y = features_labels(records)
    inputs = np.asarray(x, dtype=np.float64)
    if not 0 <= column < inputs.shape[1] or not len(values):
        raise ParameterError(f"column must be between 0 and {inputs.shape[1] - 1}, and at least one value must be possible")
    weights = np.full(len(values), 1 / len(values)) if prior is None else np.asarray(prior, dtype=np.float64)
    if weights.shape != (len(values),) or (weights < 0).any() or not weights.sum() > 0:
        raise ParameterError("prior must hold one weight, zero or more, for each value")
    scores = []
    for value in values:
        filled = inputs.copy()
        filled[:, column] = value
        scores.append(signal(model, (filled, y)))
    with np.errstate(divide="ignore"):
        table = np.array(scores) + np.log(weights / weights.sum())[:, None]
    return np.asarray(np.asarray(values, dtype=np.float64)[table.argmax(axis=0)])


@dataclass(frozen=True)
class AttributeRisk:
    """How often the guess is right, for members and for others, and the difference between them with its confidence."""

    members: float
    others: float
    baseline: float
    advantage: float
    advantage_interval: tuple[float, float]
    confidence: float

    def __str__(self) -> str:
        low, high = self.advantage_interval
        return (
            f"the attribute is guessed right for {self.members:.1%} of members and {self.others:.1%} of others (most common value: "
            f"{self.baseline:.1%}); advantage {self.advantage:+.3f}, between {low:+.3f} and {high:+.3f} at {self.confidence:.0%} confidence"
        )


def attribute_risk(
    model: Model, members: Records, others: Records, *,
    column: int, values: Sequence[float], prior: Sequence[float] | None = None, signal: Signal = LOSS,
    confidence: float = 0.95,
) -> AttributeRisk:
    """The attack on members of the data and on others, whose attribute is known to the auditor. Exact intervals, half of the error each."""
    hits = []
    truths: list[Floats] = []
    for records in (members, others):
        truth = np.asarray(features_labels(records)[0], dtype=np.float64)[:, column]
        guess = infer_attribute(model, records, column=column, values=values, prior=prior, signal=signal)
        hits.append((int(np.sum(guess == truth)), len(truth)))
        truths.append(truth)
    error = (1 - float(probability("confidence", confidence))) / 4
    (a, n), (b, m) = hits
    ends = (lower_rate(a, n, error) - upper_rate(b, m, error), upper_rate(a, n, error) - lower_rate(b, m, error))
    everyone = np.concatenate(truths)
    baseline = max(float(np.mean(everyone == value)) for value in values)
    return AttributeRisk(a / n, b / m, baseline, a / n - b / m, ends, float(confidence))


class CharacterModel:
    """A small model of text: the next character given the last few, with additive smoothing. It memorises, which is what it is for."""

    def __init__(self, order: int = 4, smoothing: float = 0.01) -> None:
        self.order = count("order", order)
        self.smoothing = float(positive("smoothing", smoothing))
        self.counts: dict[str, Counter[str]] = {}
        self.alphabet: tuple[str, ...] = (END,)

    def fit(self, texts: Iterable[str]) -> Self:
        """Count which characters follow which."""
        counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        alphabet = {END}
        for text in texts:
            padded = START * self.order + text + END
            alphabet |= set(text)
            for i in range(self.order, len(padded)):
                counts[padded[i - self.order : i]][padded[i]] += 1
        self.counts, self.alphabet = dict(counts), tuple(sorted(alphabet))
        return self

    def probability(self, context: str, character: str) -> float:
        """Of one character after a context of `order` characters."""
        seen = self.counts.get(context, Counter())
        return (seen[character] + self.smoothing) / (seen.total() + self.smoothing * (len(self.alphabet) + 1))

    def log_likelihood(self, text: str) -> float:
        """Natural logarithm of the probability of a whole text."""
        padded = START * self.order + text + END
        return sum(math.log(self.probability(padded[i - self.order : i], padded[i])) for i in range(self.order, len(padded)))

    def generate(self, coins: Generator, *, longest: int = 80, prompt: str = "") -> str:
        """One text, drawn character by character."""
        text = prompt
        while len(text) < longest:
            context = (START * self.order + text)[-self.order :]
            weights = [self.probability(context, character) for character in self.alphabet]
            drawn = self.alphabet[int(coins.choice(len(weights), p=[w / sum(weights) for w in weights]))]
            if drawn == END:
                break
            text += drawn
        return text


@dataclass(frozen=True)
class Exposure:
    """The rank of a secret and its bits. `at_least` holds with `confidence`; where the whole space was ranked it equals `bits`."""

    rank: float
    space: int
    bits: float
    at_least: float
    confidence: float


def exposure(
    log_likelihood: Callable[[str], float], secret: str, others: Sequence[str], *,
    space: int | None = None, confidence: float = 0.95,
) -> Exposure:
    """The exposure of a secret among the others it might have been. Ties count against the model: a secret like all others is last.

    `others` is the whole space, or, with `space` its size, a uniform sample of it.

    >>> exposure(lambda text: 0.0, "b", ["a", "b", "c", "d"]).bits
    0.0
    """
    rivals = [text for text in others if text != secret]
    if not rivals:
        raise ParameterError("there must be at least one other secret to rank against")
    own = log_likelihood(secret)
    better = sum(log_likelihood(text) >= own for text in rivals)
    if space is None:
        rank, size = float(1 + better), len(rivals) + 1
        return Exposure(rank, size, math.log2(size) - math.log2(rank), math.log2(size) - math.log2(rank), float(confidence))
    size = count("space", space, least=2)
    share = upper_rate(better, len(rivals), 1 - float(probability("confidence", confidence)))
    guess, worst = 1 + better / len(rivals) * (size - 1), 1 + share * (size - 1)
    return Exposure(guess, size, math.log2(size) - math.log2(guess), math.log2(size) - math.log2(worst), float(confidence))


@dataclass(frozen=True)
class Extracted:
    """A generated text, why it stands out, and, where the auditor knows, whether it is in the training data."""

    text: str
    score: float
    memorised: bool | None


def extract(
    generate: Callable[[Generator], str], log_likelihood: Callable[[str], float], *, pool: int, keep: int,
    reference: Callable[[str], float] | None = None, training: Iterable[str] | None = None, seed: int | None = None,
) -> list[Extracted]:
    """Generate a pool, rank it, keep the top (Carlini et al. 2021): likelihood beyond what a reference model, or compression, expects.

    >>> model = CharacterModel(order=4).fit(["my key is 9f3a77c1"] * 5)
    >>> extract(model.generate, model.log_likelihood, pool=20, keep=1, training=["my key is 9f3a77c1"], seed=1)[0].memorised
    True
    """
    coins = generator(seed)
    texts = dict.fromkeys(generate(coins) for _ in range(count("pool", pool)))
    known = None if training is None else set(training)

    def stands_out(text: str) -> float:
        likelihood = log_likelihood(text)
        if reference is not None:
            return likelihood - reference(text)
        # How many bits a compressor needs for each nat the model needs: high where the model knows what no rule of repetition tells.
        return 8 * len(zlib.compress(text.encode())) / max(-likelihood, 1e-9)

    ranked = sorted(texts, key=stands_out, reverse=True)[: count("keep", keep)]
    return [Extracted(text, stands_out(text), None if known is None else text in known) for text in ranked]
