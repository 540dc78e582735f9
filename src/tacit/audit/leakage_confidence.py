"""How far a measured error may be trusted, and in which direction.

An attacker's error on m fresh examples is a binomial share, so it has exact confidence limits. The error is at least the Bayes risk,
whatever the attacker: its **upper** limit is an upper confidence bound on the Bayes risk, hence a lower one on the leak. Its lower
limit says nothing about the Bayes risk, because a better attacker may exist: there is no confidence interval for it without assumptions
about the system.

>>> validation_size(0.05, confidence=0.95)
738
>>> round(risk_upper(250, 1000, confidence=0.95), 4)
0.2736
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tacit.accounting.errors import ParameterError
from tacit.accounting.parameters import count, probability
from tacit.audit.rates import lower_rate, upper_rate

__all__ = ["METHODS", "prior_upper", "risk_interval", "risk_upper", "validation_size"]

METHODS = ("clopper-pearson", "hoeffding")


def _error(confidence: float) -> float:
    error = 1 - float(probability("confidence", confidence))
    if not 0 < error < 1:
        raise ParameterError(f"confidence must be strictly between 0 and 1, not {confidence}")
    return error


def validation_size(margin: float, *, confidence: float = 0.95, one_sided: bool = False) -> int:
    """How many held-out examples put the measured error within `margin` of the true one (Hoeffding; section 15.8.2, rounded up).

    >>> validation_size(0.01), validation_size(0.05, one_sided=True)
    (18445, 600)
    """
    margin = float(probability("margin", margin))
    if margin == 0:
        raise ParameterError("margin must be above 0: no finite number of examples gives an exact error")
    return math.ceil(math.log((1 if one_sided else 2) / _error(confidence)) / (2 * margin**2))


def risk_upper(errors: int, examples: int, *, confidence: float = 0.95, method: str = "clopper-pearson") -> float:
    """An upper limit on the attacker's error, so on the Bayes risk too; it fails with probability at most 1 - confidence.

    >>> round(risk_upper(0, 100), 6), round(risk_upper(0, 100, method="hoeffding"), 6)
    (0.029513, 0.122387)
    """
    errors, examples, error = _checked(errors, examples, method), count("examples", examples), _error(confidence)
    if method == "clopper-pearson":
        return min(1.0, upper_rate(errors, examples, error) * (1 + 1e-12))
    return min(1.0, errors / examples + math.sqrt(-math.log(error) / (2 * examples)))


def risk_interval(errors: int, examples: int, *, confidence: float = 0.95, method: str = "clopper-pearson") -> tuple[float, float]:
    """Limits on the error of *this attacker*, both at once. Only the upper one says anything about the Bayes risk.

    >>> [round(end, 6) for end in risk_interval(25, 100)]
    [0.16878, 0.346552]
    """
    errors, examples, error = _checked(errors, examples, method), count("examples", examples), _error(confidence)
    if method == "clopper-pearson":
        return lower_rate(errors, examples, error / 2) * (1 - 1e-12), min(1.0, upper_rate(errors, examples, error / 2) * (1 + 1e-12))
    margin = math.sqrt(math.log(2 / error) / (2 * examples))
    return max(0.0, errors / examples - margin), min(1.0, errors / examples + margin)


def _checked(errors: int, examples: int, method: str) -> int:
    if method not in METHODS:
        raise ParameterError(f"method must be one of {', '.join(METHODS)}, not {method!r}")
    errors = count("errors", errors, least=0)
    if errors > count("examples", examples):
        raise ParameterError(f"errors must be at most examples, not {errors} of {examples}")
    return errors


def prior_upper(counts: Sequence[int], *, confidence: float = 0.95) -> float:
    """An upper limit on the largest prior probability, from how often each secret occurred: one limit for each, together with `confidence`.

    Needed where the prior is not known: a larger one makes a right guess less of an achievement, so this end is the safe one.

    >>> prior_upper([50, 50]) > 0.59
    True
    """
    numbers = [count("counts", n, least=0) for n in counts]
    total = sum(numbers)
    if not numbers or total == 0:
        raise ParameterError("counts must not be empty")
    return min(1.0, max(upper_rate(n, total, _error(confidence) / len(numbers)) for n in numbers) * (1 + 1e-12))
