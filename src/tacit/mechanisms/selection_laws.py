"""The law of every mechanism that selects, enclosed in fractions, so that `verify` can check what it leaks on small inputs.

Scores are whole numbers or fractions, and few: a law lists every answer. Where a probability is irrational it is a pair of fractions around
it, from brackets of the exponential function; nothing is drawn, and nothing is taken from the code that draws.

>>> low, high = exponential_law([0, 1], rate=1)[1]  # e / (1 + e)
>>> round(float(low), 12), high - low < Fraction(1, 2**120)
(0.73105857863, True)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction

from tacit.accounting import ParameterError
from tacit.mechanisms.verify import Interval, exp_bracket
from tacit.parameters import Number, count, positive

_LARGEST = 12  # candidates or questions whose answers are listed


def _scores(values: Sequence[Number]) -> list[Fraction]:
    found = [Fraction(value) for value in values]
    if not 1 <= len(found) <= _LARGEST:
        raise ParameterError(f"a law is listed for 1 to {_LARGEST} scores, not {len(found)}; verify the mechanism on a small input")
    return found


def _weights(scores: Sequence[Fraction], rate: Fraction, bits: int) -> list[Interval]:
    """exp(rate (score - best)) for every candidate."""
    best = max(scores)
    return [exp_bracket(rate * (score - best), bits) if score != best else (Fraction(1), Fraction(1)) for score in scores]


def exponential_law(values: Sequence[Number], rate: Number, bits: int = 128) -> dict[int, Interval]:
    """Each candidate with probability proportional to exp(rate * score): the exponential mechanism, or the maximum with Gumbel noise."""
    weights = _weights(_scores(values), Fraction(positive("rate", rate)), bits)
    low, high = sum(w[0] for w in weights), sum(w[1] for w in weights)
    return {i: (down / (down + high - up), up / (up + low - down)) for i, (down, up) in enumerate(weights)}


def permute_and_flip_law(values: Sequence[Number], rate: Number, bits: int = 128) -> dict[int, Interval]:
    """Candidates in random order, each taken with probability w = exp(rate (score - best)): or the maximum with exponential noise.

    Let every candidate come at a uniform time: i at time t is the first head with probability w_i times the product over the others of
    1 - t w_j, so its probability is the integral of that over t from 0 to 1.

    >>> [round(float(low), 9) for low, _ in permute_and_flip_law([0, 0, 0], rate=1).values()]
    [0.333333333, 0.333333333, 0.333333333]
    """
    weights = _weights(_scores(values), Fraction(positive("rate", rate)), 2 * bits)
    law = {}
    for i, (down, up) in enumerate(weights):
        ends = []
        for end in (0, 1):  # the integral falls as the others' weights grow
            product = [Fraction(1)]
            for j, other in enumerate(weights):
                if j != i:
                    product = [a - other[1 - end] * b for a, b in zip([*product, Fraction(0)], [Fraction(0), *product], strict=True)]
            ends.append((down, up)[end] * sum((c / (k + 1) for k, c in enumerate(product)), Fraction(0)))
        law[i] = (ends[0], ends[1])
    return law


def top_k_law(values: Sequence[Number], k: int, rate: Number, bits: int = 128) -> dict[tuple[int, ...], Interval]:
    """k candidates in order, each by the exponential mechanism among those that are left.

    >>> law = top_k_law([0, 0, 0], 2, rate=1)
    >>> len(law), round(float(law[0, 1][0]), 9)
    (6, 0.166666667)
    """
    scores = _scores(values)
    if not 1 <= count("k", k) <= len(scores):
        raise ParameterError(f"k must be at most the number of scores ({len(scores)}), not {k}")
    law = {}
    for chosen in itertools.permutations(range(len(scores)), k):
        low = high = Fraction(1)
        for place, i in enumerate(chosen):
            left = [j for j in range(len(scores)) if j not in chosen[:place]]
            down, up = exponential_law([scores[j] for j in left], rate, bits)[left.index(i)]
            low, high = low * down, high * up
        law[chosen] = (low, high)
    return law


def above_threshold_law(
    values: Sequence[Number], threshold: Number, aboves: int, scales: tuple[Fraction, Fraction], bits: int = 96
) -> dict[tuple[bool, ...], Interval]:
    """The answers of a sparse vector to whole numbers asked in order, up to the halt.

    Given the noise z of the threshold the answers are independent, so a sequence's probability is a sum over z of products. Both noises are
    discrete Laplace of the given scales: P(z) = (1 - r)/(1 + r) r^|z| and P(noise >= x) = r^x / (1 + r) for x >= 1, r = exp(-1/scale). The
    far tail of z is added to the upper ends.

    >>> law = above_threshold_law([5], 0, 1, (Fraction(1), Fraction(1)))
    >>> [round(float(low), 6) for low, _ in law.values()]
    [0.993389, 0.006611]
    """
    asked = [-((-score.numerator) // score.denominator) for score in _scores(values)]
    if any(Fraction(value) != whole for value, whole in zip(values, asked, strict=True)):
        raise ParameterError("questions are whole numbers")
    bar = -((-Fraction(threshold).numerator) // Fraction(threshold).denominator)
    first, second = (exp_bracket(-1 / positive_fraction(scale), 2 * bits) for scale in scales)
    unit = 1 << (2 * bits)

    def outwards(low: Fraction, high: Fraction) -> Interval:
        """The same interval, a little wider, with short fractions: otherwise powers of them grow without limit."""
        return Fraction(low.numerator * unit // low.denominator, unit), Fraction(-(-high.numerator * unit // high.denominator), unit)

    def powers(ratio: Interval, most: int) -> list[Interval]:
        found = [(Fraction(1), Fraction(1))]
        for _ in range(most):
            found.append(outwards(found[-1][0] * ratio[0], found[-1][1] * ratio[1]))
        return found

    reach = 1
    while float(first[1]) ** reach > 2.0**-bits:
        reach *= 2
    spread = max(abs(value - bar) for value in asked)
    threshold_powers, question_powers = powers(first, reach + 1), powers(second, reach + spread + 2)

    def at_least(x: int) -> Interval:
        """P(noise of a question >= x)."""
        low, high = question_powers[x if x > 0 else 1 - x]
        tail = (low / (1 + second[1]), high / (1 + second[0]))
        return tail if x > 0 else (1 - tail[1], 1 - tail[0])

    law: dict[tuple[bool, ...], Interval] = {answers: (Fraction(0), Fraction(0)) for answers in _answers(len(asked), aboves)}
    rest = (Fraction(0), 2 * threshold_powers[reach + 1][1] / (1 + first[0]))
    for z in range(-reach, reach + 1):
        low, high = threshold_powers[abs(z)]
        mass = outwards(low * (1 - first[1]) / (1 + first[1]), high * (1 - first[0]) / (1 + first[0]))
        yes = [outwards(*at_least(bar + z - value)) for value in asked]
        for answers, (below, above) in law.items():
            down, up = mass
            for answer, (least, most) in zip(answers, yes, strict=False):
                down, up = (down * least, up * most) if answer else (down * (1 - most), up * (1 - least))
                down, up = outwards(down, up)
            law[answers] = (below + down, above + up)
    return {answers: (low, high + rest[1]) for answers, (low, high) in law.items()}


def positive_fraction(scale: Number) -> Fraction:
    """A scale as an exact number."""
    return Fraction(positive("scale", scale))


def _answers(questions: int, aboves: int) -> Iterator[tuple[bool, ...]]:
    """All sequences of answers that end with the last question or with the last "above" that is paid for."""
    for answers in itertools.product((True, False), repeat=questions):
        places = [i for i, answer in enumerate(answers) if answer]
        if len(places) < aboves or places[aboves - 1] == questions - 1:
            yield answers
        elif not any(answers[places[aboves - 1] + 1 :]):
            yield answers[: places[aboves - 1] + 1]


def score_pairs(length: int, largest: int = 2, *, monotone: bool = False) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """All pairs of whole scores from 0 to `largest` that lie at L-infinity distance 1; with `monotone` all move the same way.

    Selections depend on differences of scores alone, so small numbers reach every case near a tie.

    >>> len(list(score_pairs(2, 1, monotone=True)))
    16
    """
    moves = (0, 1) if monotone else (-1, 0, 1)
    for scores in itertools.product(range(count("largest", largest) + 1), repeat=count("length", length)):
        for step in itertools.product(moves, repeat=length):
            yield scores, tuple(a + b for a, b in zip(scores, step, strict=True))
