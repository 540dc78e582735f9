"""What a finite mechanism leaks, in rational arithmetic: the largest ratio of probabilities, and the hockey-stick divergence.

Probabilities are fractions, or pairs of fractions that enclose them where they are irrational; whatever is enclosed stays enclosed, so
the figures are theorems about the law that was written down. The exponential function is bracketed here, with its own series.

>>> yes, no = {"yes": Fraction(3, 4), "no": Fraction(1, 4)}, {"yes": Fraction(1, 4), "no": Fraction(3, 4)}
>>> round(max_divergence(yes, no).upper, 7)  # two fair coins: ln 3
1.0986123
>>> pure(yes, no, 1.0986), pure(yes, no, 1.0987)
(False, True)
>>> low, high = delta(yes, no, 1)
>>> round(float(high), 10), high - low < Fraction(1, 10**30)
(0.0704295429, True)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from tacit.accounting import AccountingError, Bound, ParameterError
from tacit.parameters import Number, count, number

Interval = tuple[Fraction, Fraction]
Mass = Fraction | int | Interval
Law = Mapping[Any, Mass]


class Enumerable(Protocol):
    """A mechanism that can list the probability of each of its answers."""

    def distribution(self, value: Any, *, bits: int = 128) -> Mapping[Any, Mass]: ...


def exp_bracket(exponent: Number, bits: int = 128) -> Interval:
    """Two fractions around e^exponent, apart by a relative 2^-bits or less.

    The argument is halved until it is below 1/2, Taylor's series is summed with its remainder added on one side, and the result is
    squared as often, always rounding outwards.

    >>> low, high = exp_bracket(1, 60)
    >>> low < Fraction("2.718281828459045235360287471352662498") < high, high / low - 1 < Fraction(1, 2**60)
    (True, True)
    """
    x = Fraction(number("exponent", exponent))
    if x < 0:
        under, over = exp_bracket(-x, bits)
        return 1 / over, 1 / under
    if x > 10**6:
        raise ParameterError("exponent must not exceed 1e6 in size; such a ratio of probabilities protects no person")
    halvings = max(0, (x.numerator // x.denominator).bit_length() + 1) if x >= Fraction(1, 2) else 0
    precision = count("bits", bits) + 2 * halvings + 24
    one = 1 << precision
    small = x / 2**halvings
    down, up = (small.numerator * one) // small.denominator, -((-small.numerator * one) // small.denominator)
    low = high = term_low = term_high = one
    index = 0
    while term_high > 1:
        index += 1
        term_low = term_low * down // (one * index)
        term_high = -(-term_high * up // (one * index))
        low, high = low + term_low, high + term_high
    high += 2 * term_high  # what is left is a geometric series of ratio below 1/2
    for _ in range(halvings):
        low, high = low * low >> precision, -(-high * high >> precision)
    return Fraction(low, one), Fraction(high, one)


def log_bracket(ratio: Interval) -> Bound:
    """Floats around the logarithm of every number between two positive fractions.

    >>> log_bracket((Fraction(3), Fraction(3))).lower <= math.log(3) <= log_bracket((Fraction(3), Fraction(3))).upper
    True
    """
    return Bound(_log(ratio[0], down=True), _log(ratio[1], down=False), "enumeration in fractions")


def _log(value: Fraction, *, down: bool) -> float:
    """A float on the stated side of the logarithm, settled by brackets of the exponential."""
    if value <= 0:
        return -math.inf
    guess = math.log(value.numerator) - math.log(value.denominator)
    step = max(abs(guess), 1e-300) * 2.0**-52 + 2.0**-1060
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > 1000:
        step = max(step, 2.0**-40)
    while True:
        low, high = exp_bracket(guess, 160)
        if (high <= value) if down else (low >= value):
            return guess
        guess, step = (guess - step if down else guess + step), 2 * step


def enclosed(law: Law) -> dict[Any, Interval]:
    """Every probability as an interval; refuses what cannot be a law.

    >>> enclosed({"a": 1})
    {'a': (Fraction(1, 1), Fraction(1, 1))}
    """
    found = {}
    for outcome, mass in law.items():
        low, high = mass if isinstance(mass, tuple) else (Fraction(mass), Fraction(mass))
        if not (isinstance(low, Fraction | int) and isinstance(high, Fraction | int)):
            raise ParameterError("a probability must be a Fraction or a pair of them; floats do not add up to 1")
        if not 0 <= low <= high:
            raise ParameterError("a probability must be zero or more, and the lower end of its bracket must not exceed the upper")
        found[outcome] = (max(Fraction(low), Fraction(0)), Fraction(high))
    if not sum(low for low, _ in found.values()) <= 1 <= sum(high for _, high in found.values()):
        raise ParameterError("the probabilities of a law must add up to 1; list every outcome")
    return found


def ratio(first: Law, second: Law) -> tuple[Fraction, Fraction | None]:
    """The largest ratio of first to second over all sets of outcomes, enclosed; None stands for infinity.

    The largest ratio over sets is attained at a single outcome.

    >>> ratio({"a": Fraction(1, 2), "b": Fraction(1, 2)}, {"a": Fraction(1, 8), "b": Fraction(7, 8)})
    (Fraction(4, 1), Fraction(4, 1))
    """
    p, q = enclosed(first), enclosed(second)
    zero = (Fraction(0), Fraction(0))
    least, most = Fraction(0), Fraction(0)
    for outcome in p.keys() | q.keys():
        (p_low, p_high), (q_low, q_high) = p.get(outcome, zero), q.get(outcome, zero)
        if p_high == 0:
            continue
        if q_low == 0:
            return least, None
        least, most = max(least, p_low / q_high), max(most, p_high / q_low)
    return least, most


def max_divergence(first: Law, second: Law) -> Bound:
    """The smallest epsilon that covers both directions: max |log P/Q|, infinite where one law has an outcome the other has not.

    >>> max_divergence({"a": 1}, {"b": 1}).upper
    inf
    """
    low = high = Fraction(1)
    for one, other in ((first, second), (second, first)):
        least, most = ratio(one, other)
        if most is None:
            certain = any(p[0] > 0 and enclosed(other).get(o, (0, 0))[1] == 0 for o, p in enclosed(one).items())
            return Bound(math.inf if certain else max(0.0, _log(max(low, least), down=True)), math.inf, "enumeration in fractions")
        low, high = max(low, least), max(high, most)
    found = log_bracket((low, high))
    return Bound(max(0.0, found.lower), max(0.0, found.upper), found.method) if high > 1 else Bound(0.0, 0.0, found.method)


def pure(first: Law, second: Law, epsilon: Number, *, bits: int = 256) -> bool:
    """Whether the two laws are epsilon-indistinguishable: every ratio at most e^epsilon, compared in fractions.

    Refuses to answer where the brackets of the laws are too wide to tell.

    >>> pure({"a": Fraction(1, 3), "b": Fraction(2, 3)}, {"a": Fraction(2, 3), "b": Fraction(1, 3)}, Fraction(6931, 10000))
    False
    """
    limit = exp_bracket(epsilon, bits)
    ends = [ratio(first, second), ratio(second, first)]
    if all(most is not None and most <= limit[0] for _, most in ends):
        return True
    if any(least > limit[1] for least, _ in ends) or max_divergence(first, second).lower == math.inf:
        return False
    raise AccountingError("the brackets are too wide to tell; enumerate the laws with more bits, or ask for a slightly larger epsilon")


def delta(first: Law, second: Law, epsilon: Number, *, bits: int = 256) -> Interval:
    """The hockey-stick divergence at epsilon, the worse direction, enclosed: sum over outcomes of max(0, P - e^epsilon Q).

    >>> delta({"a": Fraction(1, 2), "b": Fraction(1, 2)}, {"a": 1}, 0)
    (Fraction(1, 2), Fraction(1, 2))
    """
    factor = (Fraction(1), Fraction(1)) if epsilon == 0 else exp_bracket(epsilon, bits)
    p, q = enclosed(first), enclosed(second)
    one, other = _hockey_stick(p, q, factor), _hockey_stick(q, p, factor)
    return max(one[0], other[0]), min(Fraction(1), max(one[1], other[1]))


def _hockey_stick(p: Mapping[Hashable, Interval], q: Mapping[Hashable, Interval], factor: Interval) -> Interval:
    low = high = Fraction(0)
    zero = (Fraction(0), Fraction(0))
    for outcome, (p_low, p_high) in p.items():
        q_low, q_high = q.get(outcome, zero)
        low += max(Fraction(0), p_low - factor[1] * q_high)
        high += max(Fraction(0), p_high - factor[0] * q_low)
    return low, high


@dataclass(frozen=True)
class Verification:
    """What enumeration found over all pairs of inputs: the smallest pure epsilon, and where asked, delta at one epsilon."""

    epsilon: Bound
    delta: Interval | None = None


def verify(mechanism: Enumerable, pairs: Iterable[tuple[Any, Any]], *, epsilon: Number | None = None, bits: int = 128) -> Verification:
    """The exact leak of a finite mechanism over pairs of neighbouring inputs.

    >>> from tacit.mechanisms.geometric import geometric
    >>> found = verify(geometric(2, lower=0, upper=5), [(value, value + 1) for value in range(5)], epsilon=1 / 2)
    >>> round(found.epsilon.lower, 12), found.delta[1] < Fraction(1, 10**30)
    (0.5, True)
    """
    law = _listed(mechanism, bits)
    worst, gap = Bound(0.0, 0.0, "enumeration in fractions"), (Fraction(0), Fraction(0))
    low = high = Fraction(1)  # ratios are compared as fractions, and only the largest one gets a logarithm
    for first, second in pairs:
        one, other = law(first), law(second)
        for p, q in ((one, other), (other, one)):
            least, most = ratio(p, q)
            low = max(low, least)
            if most is None:
                worst = worst.worst(max_divergence(one, other))
            else:
                high = max(high, most)
        if epsilon is not None:
            found = delta(one, other, epsilon, bits=bits)
            gap = (max(gap[0], found[0]), max(gap[1], found[1]))
    if high > 1:
        largest = log_bracket((low, high))
        worst = worst.worst(Bound(max(0.0, largest.lower), max(0.0, largest.upper), largest.method))
    return Verification(worst, gap if epsilon is not None else None)


def _listed(mechanism: Enumerable, bits: int) -> Callable[[Any], dict[Any, Interval]]:
    """The law of each input, worked out once where inputs can be told apart."""
    known: dict[Any, dict[Any, Interval]] = {}

    def law(value: Any) -> dict[Any, Interval]:
        if not isinstance(value, Hashable):
            return enclosed(mechanism.distribution(value, bits=bits))
        if value not in known:
            known[value] = enclosed(mechanism.distribution(value, bits=bits))
        return known[value]

    return law


@dataclass(frozen=True)
class Counterexample:
    """Two neighbouring inputs and a set of answers that is more likely on the first than (epsilon, delta) allows, by at least `excess`."""

    first: Any
    second: Any
    answers: tuple[Any, ...]
    excess: Fraction


def counterexample(
    mechanism: Enumerable, pairs: Iterable[tuple[Any, Any]], *, epsilon: Number, delta: Number = 0, bits: int = 128
) -> Counterexample | None:
    """The pair of inputs, in either order, that breaks (epsilon, delta)-DP most, with the answers that show it; None where none does.

    The best set of answers for two inputs holds those whose probability on the first exceeds e^epsilon times that on the second, so nothing
    needs to be searched but the inputs.

    >>> from tacit.mechanisms.randomised_response import randomised_response
    >>> counterexample(randomised_response(1), [(0, 1)], epsilon=1) is None
    True
    >>> found = counterexample(randomised_response(1), [(0, 1)], epsilon=Fraction(9, 10))
    >>> found.first, found.answers, found.excess > 0
    (0, (0,), True)
    """
    factor, most = exp_bracket(epsilon, bits)[1], Fraction(delta)
    worst: Counterexample | None = None
    law = _listed(mechanism, bits)
    for pair in pairs:
        laws = [law(value) for value in pair]
        for (one, p), (other, q) in (((pair[0], laws[0]), (pair[1], laws[1])), ((pair[1], laws[1]), (pair[0], laws[0]))):
            gains = {answer: low - factor * q.get(answer, (Fraction(0), Fraction(0)))[1] for answer, (low, _) in p.items()}
            chosen = tuple(answer for answer, gain in gains.items() if gain > 0)
            excess = sum((gains[answer] for answer in chosen), Fraction(0)) - most
            if excess > (worst.excess if worst is not None else 0):
                worst = Counterexample(one, other, chosen, excess)
    return worst
