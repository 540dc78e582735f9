"""Five variants of the sparse vector technique that were published or shipped as private and are not; and the right one in the same form.

Lyu, Su and Li 2017 take apart the first four. A variant is a few parameters, so that one sampler and one exact law serve all of them: the
law of a variant is a sum over the noise of the threshold, and beyond a finite range both tails are sums of geometric series, so it is exact
for rational ratios of the noise and good to all digits in mpmath.

>>> stoddard(1).chance((0, 1), (False, True), ratio=exact_ratio) > 0
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import mpmath

from tacit.noise import discrete_laplace

Output = tuple[Any, ...]
THRESHOLD = 0


def exact_ratio(scale: Fraction | None) -> Any:
    """exp(-1 / scale) to 60 digits; 0 stands for no noise."""
    return mpmath.mpf(0) if scale is None else mpmath.exp(-mpmath.mpf(scale.denominator) / scale.numerator)


@dataclass(frozen=True)
class Variant:
    """Sensitivity 1, threshold 0. Scales of noise (None: none), the halt (None: none), and what is published for one above."""

    claim: Fraction  # the epsilon it was published with
    threshold: Fraction
    question: Fraction | None
    aboves: int | None
    publishes: str = "bit"  # or "compared": the noisy number that was compared; or "raw": the number itself

    def run(self, answers: Sequence[int]) -> Output:
        bar, left, found = THRESHOLD + discrete_laplace(self.threshold), self.aboves, []
        for answer in answers:
            if left == 0:
                break
            noisy = answer + (0 if self.question is None else discrete_laplace(self.question))
            if noisy >= bar:
                left = None if left is None else left - 1
                found.append({"bit": True, "compared": noisy, "raw": answer}[self.publishes])
            else:
                found.append(False)
        return tuple(found)

    def chance(self, answers: Sequence[int], output: Output, ratio: Callable[[Fraction | None], Any] = exact_ratio) -> Any:
        """The exact probability of an output. An answer False is "below"; anything else is what was published for one above."""
        p, q = ratio(self.threshold), ratio(self.question)
        values = [v for v in output if v is not False and self.publishes == "compared"]
        reach = 2 + max(abs(x) for x in (*answers, *values, THRESHOLD))

        def at(rho: int) -> Any:
            return math.prod((self._factor(a, o, THRESHOLD + rho, q) for a, o in zip(answers, output, strict=False)), start=p * 0 + 1)

        weight = (1 - p) / (1 + p)
        total = sum(weight * p ** abs(rho) * at(rho) for rho in range(-reach, reach + 1))
        return total + weight * (self._tail(answers, output, p, q, reach + 1, 1) + self._tail(answers, output, p, q, reach + 1, -1))

    def _factor(self, answer: int, output: Any, bar: int, q: Any) -> Any:
        upper = _reaches(bar - answer, q)
        if output is False:
            return 1 - upper
        if self.publishes == "bit":
            return upper
        if self.publishes == "raw":
            return upper if output == answer else 0 * q
        return _mass(output - answer, q) if output >= bar else 0 * q

    def _tail(self, answers: Sequence[int], output: Output, p: Any, q: Any, start: int, sign: int) -> Any:
        """The sum over rho = sign * start, sign * (start + 1), ... of p^|rho| times a polynomial in q^|rho|, as geometric series.

        Out there each factor is a + b q^|rho|; both come from its values at two places, where q is not 0.
        """
        terms = [q * 0 + 1]
        for answer, out in zip(answers, output, strict=False):
            near, far = (self._factor(answer, out, THRESHOLD + sign * r, q) for r in (start, start + 1))
            slope = (near - far) / (q**start - q ** (start + 1)) if q else q * 0
            base = near - slope * q**start
            terms = [base * x + slope * y for x, y in zip([*terms, 0 * q], [0 * q, *terms], strict=True)]
        return sum(c * (p * q**j) ** start / (1 - p * q**j) for j, c in enumerate(terms) if c)


def _reaches(least: int, q: Any) -> Any:
    """P(noise >= least)."""
    if q == 0:
        return q + (1 if least <= 0 else 0)
    return q**least / (1 + q) if least >= 1 else 1 - q ** (1 - least) / (1 + q)


def _mass(k: int, q: Any) -> Any:
    return (1 - q) / (1 + q) * q ** abs(k)


def roth(epsilon: Fraction | int, aboves: int = 1) -> Variant:
    """Roth's lecture notes 2011 (Algorithm 3): publishes the very number that was compared, and so where the threshold can lie."""
    return Variant(Fraction(epsilon), 2 / Fraction(epsilon), 2 * aboves / Fraction(epsilon), aboves, "compared")


def lee_clifton(epsilon: Fraction | int, aboves: int = 1) -> Variant:
    """Lee and Clifton 2014 (Algorithm 4): the noise of questions does not grow with the number of answers: (1 + 6 c)/4 times the claim."""
    return Variant(Fraction(epsilon), 4 / Fraction(epsilon), 4 / (3 * Fraction(epsilon)), aboves)


def stoddard(epsilon: Fraction | int) -> Variant:
    """Stoddard, Chen and Machanavajjhala 2014 (Algorithm 5): no noise on questions and no halt."""
    return Variant(Fraction(epsilon), 2 / Fraction(epsilon), None, None)


def chen(epsilon: Fraction | int) -> Variant:
    """Chen, Xiao, Zhang and Xu 2015 (Algorithm 6): noise on both, but no halt."""
    return Variant(Fraction(epsilon), 2 / Fraction(epsilon), 2 / Fraction(epsilon), None)


def raw_values(epsilon: Fraction | int, aboves: int = 1) -> Variant:
    """As in a shipped federated-learning filter: the comparison is noisy, what passes is published as it is."""
    return replace(right(epsilon, aboves), publishes="raw")


def right(epsilon: Fraction | int, aboves: int = 1) -> Variant:
    """Lyu, Su and Li 2017, Algorithm 7, half of epsilon to the threshold."""
    return Variant(Fraction(epsilon), 2 / Fraction(epsilon), 4 * aboves / Fraction(epsilon), aboves)


def loss(variant: Variant, first: Sequence[int], second: Sequence[int], output: Output) -> float:
    """The privacy loss of one output between two inputs, to 60 digits; infinite where only the first can produce it."""
    with mpmath.workdps(60):
        p, q = variant.chance(first, output), variant.chance(second, output)
        return math.inf if q <= 0 < p else float(mpmath.log(p / q))
