"""Five sparse vectors that were published or shipped as private and are not, and the right one in the same form.

Lyu, Su and Li 2017 take the first four apart. A variant is a few parameters: scales of noise, the halt, and what is published.

>>> right(1).threshold, right(1).question, stoddard(1).question
(Fraction(2, 1), Fraction(4, 1), None)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

THRESHOLD = 0


@dataclass(frozen=True)
class Variant:
    """Sensitivity 1, threshold 0. Scales of noise (None: none), the halt (None: none), and what is published for one above."""

    claim: Fraction  # the epsilon it was published with
    threshold: Fraction
    question: Fraction | None
    aboves: int | None
    publishes: str = "bit"  # or "compared": the noisy number that was compared; or "raw": the number itself
    fault: str = "None."


def roth(epsilon: Fraction | int, aboves: int = 1) -> Variant:
    """Roth's lecture notes 2011 (Algorithm 3)."""
    fault = "The very number that was compared is published, and so where the threshold can lie."
    return Variant(Fraction(epsilon), 2 / Fraction(epsilon), 2 * aboves / Fraction(epsilon), aboves, "compared", fault)


def lee_clifton(epsilon: Fraction | int, aboves: int = 1) -> Variant:
    """Lee and Clifton 2014 (Algorithm 4): (1 + 6 c)/4 times the claim."""
    fault = "The noise of questions does not grow with the number of answers."
    return Variant(Fraction(epsilon), 4 / Fraction(epsilon), 4 / (3 * Fraction(epsilon)), aboves, fault=fault)


def stoddard(epsilon: Fraction | int) -> Variant:
    """Stoddard, Chen and Machanavajjhala 2014 (Algorithm 5)."""
    return Variant(Fraction(epsilon), 2 / Fraction(epsilon), None, None, fault="No noise on questions and no halt.")


def chen(epsilon: Fraction | int) -> Variant:
    """Chen, Xiao, Zhang and Xu 2015 (Algorithm 6)."""
    return Variant(Fraction(epsilon), 2 / Fraction(epsilon), 2 / Fraction(epsilon), None, fault="Noise on both sides, but no halt.")


def raw_values(epsilon: Fraction | int, aboves: int = 1) -> Variant:
    """As in a shipped federated-learning filter."""
    return replace(right(epsilon, aboves), publishes="raw", fault="The comparison is noisy, what passes is published as it is.")


def right(epsilon: Fraction | int, aboves: int = 1) -> Variant:
    """Lyu, Su and Li 2017, Algorithm 7, half of epsilon to the threshold."""
    return Variant(Fraction(epsilon), 2 / Fraction(epsilon), 4 * aboves / Fraction(epsilon), aboves)
