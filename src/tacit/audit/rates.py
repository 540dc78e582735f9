"""What two error rates say about privacy, and how far observed counts may be trusted.

Use it to turn the counts of a test into a lower bound on epsilon or mu, or to ask how well any test may do under a
claim. Every lower bound here holds with the stated confidence, whatever the mechanism and however small the sample.

A test that tells two neighbouring inputs apart with false positive rate a and true positive rate b refutes every (epsilon, delta) with
b > e^epsilon a + delta or 1 - a > e^epsilon (1 - b) + delta (Kairouz, Oh and Viswanath 2015, Theorem 2.1; Wasserman and Zhou 2010).
Counts become rates by Clopper and Pearson's exact interval (1934), half of the error on each rate.

>>> found = operating_point(false_positives=10, negatives=1000, true_positives=100, positives=1000, confidence=0.95)
>>> round(found.epsilon(delta=0), 6)
1.500379
>>> round(epsilon_of(0.05, 0.9, 0), 6), round(mu_of(0.05, 0.9), 4)
(2.890372, 2.9264)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from scipy.special import betaincinv, ndtri

from tacit.accounting import ParameterError
from tacit.parameters import probability

Measure = Literal["epsilon", "mu"]  # what is bounded from below: epsilon at a delta, or mu of Gaussian privacy


def measured_in(measure: str) -> None:
    """Refuse what is neither epsilon nor mu."""
    if measure not in get_args(Measure):
        raise ParameterError(f"measure must be 'epsilon' or 'mu', not {measure!r}")


def lower_rate(hits: int, trials: int, error: float) -> float:
    """The largest rate that `hits` of `trials` rule out from below: the true rate is smaller with probability at most `error`.

    >>> round(lower_rate(1000, 1000, 0.025), 6), lower_rate(0, 10, 0.05)
    (0.996318, 0.0)
    """
    _counted(hits, trials)
    return 0.0 if hits == 0 else float(betaincinv(hits, trials - hits + 1, error))


def upper_rate(hits: int, trials: int, error: float) -> float:
    """The smallest rate that `hits` of `trials` rule out from above: the true rate is larger with probability at most `error`.

    >>> round(upper_rate(0, 1000, 0.025), 6), upper_rate(10, 10, 0.05)
    (0.003682, 1.0)
    """
    _counted(hits, trials)
    return 1.0 if hits == trials else float(betaincinv(hits + 1, trials - hits, 1 - error))


def _counted(hits: int, trials: int) -> None:
    if not 0 <= hits <= trials or trials < 1:
        raise ParameterError(f"hits must be between 0 and trials, and trials at least 1, not {hits} of {trials}: run the attack first")


def _rate(name: str, value: object) -> float:
    return float(probability(name, value))


def epsilon_of(fpr: float, tpr: float, delta: float = 0.0) -> float:
    """The least epsilon at `delta` that permits a test with these rates; 0 where guessing does as well.

    >>> round(epsilon_of(0.01, 0.1), 6), epsilon_of(0.5, 0.5), epsilon_of(0.0, 0.1)
    (2.302585, 0.0, inf)
    """
    fpr, tpr, delta = _rate("fpr", fpr), _rate("tpr", tpr), _rate("delta", delta)
    return max(log_ratio(tpr - delta, fpr), log_ratio(1 - delta - fpr, 1 - tpr), 0.0)


def log_ratio(top: float, bottom: float) -> float:
    """log(top / bottom), infinite where one of them is 0 or less."""
    if top <= 0:
        return -math.inf
    return math.inf if bottom <= 0 else math.log(top / bottom)


def mu_of(fpr: float, tpr: float) -> float:
    """The least mu for which a mu-GDP mechanism permits a test with these rates (Dong, Roth and Su 2022, Definition 2.6).

    >>> round(mu_of(0.01, 0.092362), 4)
    1.0
    """
    fpr, tpr = _rate("fpr", fpr), _rate("tpr", tpr)
    return max(0.0, float(ndtri(tpr) - ndtri(fpr))) if tpr > fpr else 0.0


@dataclass(frozen=True)
class OperatingPoint:
    """A test whose false positive rate is at most `fpr` and whose true positive rate is at least `tpr`, both with `confidence`.

    >>> OperatingPoint(0.1, 0.5, 0.95).advantage
    0.4
    """

    fpr: float
    tpr: float
    confidence: float

    def __post_init__(self) -> None:
        for name in ("fpr", "tpr", "confidence"):
            object.__setattr__(self, name, _rate(name, getattr(self, name)))

    def epsilon(self, delta: float = 0.0) -> float:
        """The epsilon at `delta` that this test refutes everything below."""
        return epsilon_of(self.fpr, self.tpr, delta)

    @property
    def mu(self) -> float:
        """The mu of Gaussian privacy that this test refutes everything below."""
        return mu_of(self.fpr, self.tpr)

    def lower(self, measure: Measure, delta: float = 0.0) -> float:
        """The largest epsilon at `delta`, or mu, that this test refutes everything below."""
        return self.mu if measure == "mu" else self.epsilon(delta)

    @property
    def advantage(self) -> float:
        """True less false positive rate, at least."""
        return max(0.0, self.tpr - self.fpr)


def operating_point(*, false_positives: int, negatives: int, true_positives: int, positives: int, confidence: float) -> OperatingPoint:
    """Counts of one test, fixed before they were seen, as rates that hold together with `confidence`.

    >>> perfect = operating_point(false_positives=0, negatives=1000, true_positives=1000, positives=1000, confidence=0.95)
    >>> round(perfect.epsilon(), 6)
    5.600588
    """
    error = (1 - _rate("confidence", confidence)) / 2
    return OperatingPoint(upper_rate(false_positives, negatives, error), lower_rate(true_positives, positives, error), confidence)


def most_true_positives(fpr: float, epsilon: float, delta: float = 0.0) -> float:
    """The highest true positive rate (epsilon, delta) permits at this false positive rate (spec 5.4.2, Theorem 5.7).

    >>> [round(most_true_positives(a, 1), 6) for a in (0.001, 0.01, 0.1)]
    [0.002718, 0.027183, 0.271828]
    """
    fpr, delta = _rate("fpr", fpr), _rate("delta", delta)
    grown = math.exp(min(epsilon, 700.0))
    return max(fpr, min(1.0, grown * fpr + delta, 1 - (1 - delta - fpr) / grown))


def most_accuracy(epsilon: float, delta: float = 0.0) -> float:
    """The best balanced accuracy that (epsilon, delta) permits.

    >>> round(most_accuracy(1), 6), round(most_accuracy(1, 0.1), 6)
    (0.731059, 0.757953)
    """
    return (1 + most_advantage(epsilon, delta)) / 2


def most_advantage(epsilon: float, delta: float = 0.0) -> float:
    """The best true less false positive rate that (epsilon, delta) permits.

    >>> round(most_advantage(1), 6)
    0.462117
    """
    shrunk = math.exp(-epsilon)
    return (1 - shrunk + 2 * _rate("delta", delta) * shrunk) / (1 + shrunk)


def poisoned_accuracy(epsilon: float, records: int) -> float:
    """The best accuracy of telling D from D with `records` more, under epsilon a record (group privacy).

    Printed as e^(k eps) / (1 + e^eps), which exceeds one; the right bound has k in both places.

    >>> [round(poisoned_accuracy(1, k), 4) for k in (1, 2, 8)]
    [0.7311, 0.8808, 0.9997]
    """
    return 1 / (1 + math.exp(-records * epsilon))
