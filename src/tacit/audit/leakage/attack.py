"""Attack a mechanism by guessing its input, and turn the success into a lower bound on epsilon with a stated confidence.

Secrets are drawn uniformly and the mechanism runs on each. Several rules learn from one part of the examples, the best
of them is chosen on a second part, and its error is measured once on a third that no rule has seen. The upper confidence
limit of that error bounds the Bayes risk from above (proposition 15.8 with the point estimate replaced by a limit), and
so epsilon from below.

>>> from tacit.audit.experiment import generator
>>> from tacit.audit.leakage.builders import randomised_response
>>> coin = randomised_response(2, 1.0)
>>> def mechanism(secrets, generator):
...     return coin.sample(len(secrets), generator, secrets=secrets)[1]
>>> found = audit_local(mechanism, 2, 20_000, generator(1))
>>> 0.9 < found.epsilon_lower < 1.0, found.refutes(0.5), found.refutes(1.0)
(True, True, False)

A claim that is not refuted is not proved. Bayes risk is one test among many: two Laplace answers at epsilon 1 never show
more than 0.832 here, however many examples there are; `tacit.audit.attack`, which searches over sets of outputs, finds
more.

An attacker's error on m fresh examples is a binomial share, so it has exact confidence limits. The error is at least the
Bayes risk, whatever the attacker: its **upper** limit is an upper confidence bound on the Bayes risk. Its lower limit
says nothing about the Bayes risk, because a better attacker may exist: there is no confidence interval for it without
assumptions about the system.

>>> validation_size(0.05, confidence=0.95)
738
>>> round(risk_upper(250, 1000, confidence=0.95), 4)
0.2736
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.audit.experiment import Generator
from tacit.audit.leakage.bounds import Leakage, central_epsilon_floor, local_epsilon_floor
from tacit.audit.leakage.estimators import RULES, Rule, examples, fit, rule_named
from tacit.audit.rates import lower_rate, upper_rate
from tacit.errors import ParameterError
from tacit.parameters import count, nonnegative, probability

METHODS = ("clopper-pearson", "hoeffding")
ASSUMES = "the attacker knows the mechanism and everything but the secret, sees one output, and examples are independent"
Rules = Iterable[str | Rule]
Input = TypeVar("Input")


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


@dataclass(frozen=True)
class RiskEstimate:
    """How one attacker fared on held-out examples.

    `point` estimates the attacker's own error and bounds nothing. `upper` is a confidence limit on it and on the Bayes risk, valid if
    the rule was settled before the held-out examples were looked at.
    """

    rule: str
    errors: int
    validation: int
    training: int
    secrets: int
    confidence: float
    guarantee: str
    caveats: tuple[str, ...] = ()

    @property
    def point(self) -> float:
        return self.errors / self.validation

    @property
    def upper(self) -> float:
        return risk_upper(self.errors, self.validation, confidence=self.confidence)

    @property
    def interval(self) -> tuple[float, float]:
        """Limits on this attacker's error; the lower one is no bound on the Bayes risk."""
        return risk_interval(self.errors, self.validation, confidence=self.confidence)

    def leakage(self, guess_risk: float | None = None) -> Leakage:
        """Leakage measures at the upper limit: each is at least this, with confidence. Uniform prior unless `guess_risk` is given."""
        blind = 1 - 1 / self.secrets if guess_risk is None else guess_risk
        return Leakage(self.upper, blind, self.secrets)

    def __str__(self) -> str:
        return (
            f"{self.rule}: error {self.point:.4g} on {self.validation} held-out examples after {self.training};"
            f" the Bayes risk is at most {self.upper:.4g} (confidence {self.confidence:.4g})"
        )


def estimate_risk(
    rule: str | Rule, training: tuple[ArrayLike, ArrayLike], validation: tuple[ArrayLike, ArrayLike], *,
    secrets: int | None = None, confidence: float = 0.95,
) -> RiskEstimate:
    """Fit a rule to the training pair (labels, observations) and measure it on the validation pair.

    >>> found = estimate_risk("nearest", ([0, 1], [0.0, 1.0]), ([0, 0, 1, 1], [0.1, 0.2, 0.9, 0.3]))
    >>> found.point, found.upper > 0.6
    (0.25, True)
    """
    chosen = rule_named(rule)
    (known, seen), (truth, fresh) = examples(*training), examples(*validation)
    if not len(known) or not len(truth):
        raise ParameterError("training and validation must have at least one example each")
    many = count("secrets", secrets) if secrets is not None else int(max(known.max(), truth.max())) + 1
    attacker = fit(chosen, known, seen, secrets=many)
    errors = int((attacker.predict(fresh) != truth).sum())
    caveats = []
    distinct = len(attacker.data.points)
    if chosen.pairs_only and many > 2:
        caveats.append(f"what is proved of {chosen.name} is proved for two secrets, not for {many}")
    if chosen.counts:
        if len(known) < many * distinct:
            caveats.append(f"{len(known)} examples for {many} secrets times {distinct} distinct observations: counting has not converged")
        if 2 * distinct > len(known):
            caveats.append("most observations occur once: outputs look continuous, and counting cannot learn from them")
    return RiskEstimate(chosen.name, errors, len(truth), len(known), many, confidence, chosen.guarantee, tuple(caveats))


@dataclass(frozen=True)
class LeakageAudit:
    """A lower bound on epsilon at `delta`, valid with `confidence`; what the other rules showed on the second part is in `scores`."""

    estimate: RiskEstimate
    epsilon_lower: float
    delta: float
    confidence: float
    scores: dict[str, float]
    relation: str
    assumes: str = ASSUMES

    def refutes(self, epsilon: float) -> bool:
        """Whether the claim of this epsilon is broken. False means nothing was found, not that the claim holds."""
        return self.epsilon_lower > float(nonnegative("epsilon", epsilon))

    def __str__(self) -> str:
        return f"epsilon is at least {self.epsilon_lower:.4g} at delta {self.delta:g}, {self.relation} ({self.estimate}); {self.assumes}"


def audit_local(
    mechanism: Callable[[NDArray[np.int64], Generator], ArrayLike], secrets: int, trials: int, generator: Generator, *,
    delta: float = 0.0, rules: Rules = tuple(RULES), confidence: float = 0.95,
) -> LeakageAudit:
    """Audit a local randomiser: `mechanism(secrets, generator)` gets an array of secrets and returns an observation for each.

    A mechanism with its own source of randomness ignores the generator. A third of the `trials` train, a sixth select, half validate.
    """
    secrets, trials = count("secrets", secrets, least=2), count("trials", trials, least=12)
    drawn = generator.integers(secrets, size=trials)
    seen = np.asarray(mechanism(drawn, generator))
    estimate, scores = _select(drawn, seen, secrets, rules, confidence)
    floor = local_epsilon_floor(estimate.upper, secrets, delta=delta)
    return LeakageAudit(estimate, floor, float(delta), confidence, scores, "every two secrets neighbours")


def audit_neighbours(
    mechanism: Callable[[Input], ArrayLike], first: Input, second: Input, trials: int, generator: Generator, *,
    delta: float = 0.0, rules: Rules = tuple(RULES), confidence: float = 0.95,
) -> LeakageAudit:
    """Audit a central mechanism on two neighbouring inputs (theorem 15.11 with one record): `mechanism(data)` returns one observation.

    >>> from tacit.audit.experiment import generator
    >>> leaky = audit_neighbours(lambda data: float(sum(data)), [1, 1], [1, 1, 1], 600, generator(1))
    >>> leaky.epsilon_lower > 4
    True
    """
    trials = count("trials", trials, least=12)
    drawn = generator.integers(2, size=trials)
    seen = np.asarray([mechanism((first, second)[which]) for which in drawn])
    estimate, scores = _select(drawn, seen, 2, rules, confidence)
    floor = central_epsilon_floor(estimate.upper, 1) if delta == 0 else local_epsilon_floor(estimate.upper, 2, delta=delta)
    return LeakageAudit(estimate, floor, float(delta), confidence, scores, "one pair of neighbours, the attacker knowing all other records")


def audit_examples(
    labels: ArrayLike, observations: ArrayLike, secrets: int, *,
    delta: float = 0.0, rules: Rules = tuple(RULES), confidence: float = 0.95,
) -> LeakageAudit:
    """Audit pairs that were drawn elsewhere, from a prior that is not known (theorem 15.9): half of the error goes to the prior.

    Examples must be independent and are used in the order given.
    """
    known, seen = examples(labels, observations)
    secrets = count("secrets", secrets, least=2)
    if len(known) < 12 or known.max(initial=0) >= secrets:
        raise ParameterError(f"labels must be 12 or more numbers below secrets = {secrets}")
    half = (1 + float(probability("confidence", confidence))) / 2
    estimate, scores = _select(known, seen, secrets, rules, half)
    likeliest = prior_upper(np.bincount(known, minlength=secrets).tolist(), confidence=half)
    floor = local_epsilon_floor(estimate.upper, secrets, guess_risk=1 - likeliest, delta=delta)
    return LeakageAudit(estimate, floor, float(delta), confidence, scores, "every two secrets neighbours, prior estimated")


def _select(
    labels: ArrayLike, seen: ArrayLike, secrets: int, rules: Rules, confidence: float
) -> tuple[RiskEstimate, dict[str, float]]:
    """Choose a rule on the second part, refit it on the first two, and measure it once on the third."""
    known, observed = examples(labels, seen)
    chosen = [rule_named(rule) for rule in rules]
    if observed.dtype.kind in "US":
        chosen = [rule for rule in chosen if rule.counts]
    if not chosen:
        raise ParameterError("rules must name at least one rule that fits the observations; strings can only be counted: 'frequentist'")
    first, second = len(known) // 3, len(known) // 2
    scores = {}
    for rule in chosen:
        guesses = fit(rule, known[:first], observed[:first], secrets=secrets).predict(observed[first:second])
        scores[rule.name] = float((guesses != known[first:second]).mean())
    best = min(chosen, key=lambda rule: scores[rule.name])
    training, validation = (known[:second], observed[:second]), (known[second:], observed[second:])
    return estimate_risk(best, training, validation, secrets=secrets, confidence=confidence), scores
