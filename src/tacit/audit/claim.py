"""What is promised, what an attack found, and whether the second breaks the first.

A claim is an event under a relation, so the accountant says what the claim permits at any false positive rate and any
delta. Evidence is what an attack found: a lower bound that holds with a stated confidence. An estimate without a
confidence is never evidence. `judge` holds one against the other.

>>> claim = Claim.of("eps=1,delta=1e-6")
>>> claim.describe()
'epsilon 1 at delta 1e-06 (add-remove)'
>>> found = Evidence("threshold on the sum", "worst case: both inputs fixed", lower=1.9, delta=1e-6, confidence=0.999, trials=10**5)
>>> verdict = judge(claim, found)
>>> verdict.broken
True
>>> print(verdict)
BROKEN: threshold on the sum reached epsilon 1.9 at delta 1e-06 (confidence 99.9%); the claim permits 1
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from tacit.accounting import GDP, Adjacency, ApproxDP, Cost, Event, Guarantee, ParameterError, PureDP, account, from_json, to_json
from tacit.audit.rates import Measure, OperatingPoint, measured_in, most_true_positives

VISIBLE = 0.01  # the delta for claims that name none


def surely(confidence: float) -> str:
    """A confidence, never rounded to certainty.

    >>> surely(0.95), surely(1 - 1e-8)
    ('95%', '1 - 1e-08')
    """
    return f"{100 * confidence:.6g}%" if confidence < 0.99995 else f"1 - {1 - confidence:.1g}"


@dataclass(frozen=True)
class Claim:
    """A promise: what the event permits under the relation.

    >>> Claim.of(mu=1).tpr(0.01) < 0.0924
    True
    """

    event: Event
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    text: str = ""

    @staticmethod
    def of(
        given: Guarantee | str | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        mu: float | None = None,
        rho: float | None = None,
        adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
    ) -> Claim:
        """The claim that a guarantee holds: a `Guarantee`, its text as it is typed on a command line, or the shorthand.

        >>> Claim.of(rho=0.1).describe(), Claim.of("mu=0.5").describe()
        ('rho 0.1 (add-remove)', 'mu 0.5 (add-remove)')
        """
        relation = Adjacency.parse(adjacency)
        whole = Guarantee.of(given, epsilon=epsilon, delta=delta, rho=rho, mu=mu)
        if whole.currency == "renyi":
            raise ParameterError("a claim is epsilon (with delta), mu or rho; state a Rényi guarantee as the event of a Claim")
        # Stored claims hold the numbers as they were typed, so these are kept, not the fractions.
        typed = {"epsilon": epsilon, "delta": delta, "rho": rho, "mu": mu}
        known = {name: typed[name] if type(typed[name]) in (int, float) else getattr(whole.floats, name) for name in typed}
        event = whole.as_event(relation)
        stated = replace(event, **{name: value for name, value in known.items() if hasattr(event, name)})
        return Claim(stated, relation, whole.words.replace(", delta", " at delta"))

    @cached_property
    def account(self) -> Cost:
        """The accountant's view of the promise."""
        return account(self.event, self.adjacency)

    @property
    def measure(self) -> Measure:
        """Whether an attack should bound mu, for a claim of mu, or epsilon."""
        return "mu" if isinstance(self.event, GDP) else "epsilon"

    @property
    def delta(self) -> float:
        """The delta at which an attack should bound epsilon: the claim's own, 0 for a pure one.

        For other claims it is one that some thousand samples can see.
        """
        if isinstance(self.event, ApproxDP):
            return float(self.event.delta)
        return 0.0 if isinstance(self.event, (PureDP, GDP)) else VISIBLE

    def epsilon(self, delta: float) -> float:
        """The largest epsilon at `delta` that the claim permits; infinite where it promises none."""
        if isinstance(self.event, PureDP):
            return float(self.event.epsilon)
        if isinstance(self.event, ApproxDP) and delta < self.event.delta:
            return math.inf
        return self.account.epsilon(delta).upper if delta > 0 else math.inf

    def tpr(self, fpr: float) -> float:
        """The largest true positive rate that the claim permits at this false positive rate.

        >>> round(Claim.of(epsilon=1).tpr(0.01), 6)
        0.027183
        """
        event = self.event
        if isinstance(event, (PureDP, ApproxDP)) and event.adjacency is self.adjacency:
            # The closed form is what the accountant would search for; a few roundings must not make a claim look broken.
            delta = event.delta if isinstance(event, ApproxDP) else 0.0
            return min(1.0, most_true_positives(fpr, float(event.epsilon), float(delta)) * (1 + 1e-12))
        return self.account.tpr(fpr).upper

    def describe(self) -> str:
        """The claim in words, with its relation."""
        return f"{self.text or repr(self.event)} ({self.adjacency.value})"

    def to_json(self) -> dict[str, object]:
        """The claim as plain values; `from_json` reads it back.

        >>> Claim.from_json(Claim.of(mu=1).to_json()) == Claim.of(mu=1)
        True
        """
        return {"event": to_json(self.event), "adjacency": self.adjacency.value, "text": self.text}

    @staticmethod
    def from_json(record: Mapping[str, object]) -> Claim:
        """The claim that `to_json` wrote."""
        event, relation, text = (str(record[name]) for name in ("event", "adjacency", "text"))
        return Claim(from_json(event), Adjacency.parse(relation), text)


@dataclass(frozen=True)
class Evidence:
    """What an attack found: `lower` is a bound on epsilon at `delta` (or on mu) from below, with `confidence`.

    `attack` says what was tried and `game` what was fixed and what was fresh; a report without them says nothing. `point` is the test that
    was found, where there is one: it can be held against any claim. `estimate` is a point estimate, kept apart because it proves nothing.

    >>> point = OperatingPoint(fpr=0.01, tpr=0.1, confidence=0.95)
    >>> round(Evidence.of_point(point, attack="loss", game="fixed model", delta=0, trials=1000).lower, 4)
    2.3026
    """

    attack: str
    game: str
    lower: float
    delta: float
    confidence: float
    trials: int
    measure: Measure = "epsilon"
    point: OperatingPoint | None = None
    estimate: float | None = None
    assumptions: tuple[str, ...] = ()
    details: Mapping[str, object] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        measured_in(self.measure)
        if not self.attack or not self.game:
            raise ParameterError("evidence must name its attack and its game: what was tried, and what was fixed while it was tried")
        if not 0 < self.confidence < 1:
            raise ParameterError(f"confidence must lie between 0 and 1, not {self.confidence!r}: no finite sample is certain")

    @staticmethod
    def of_point(
        point: OperatingPoint, *, attack: str, game: str, delta: float, trials: int,
        measure: Measure = "epsilon", estimate: float | None = None, details: Mapping[str, object] | None = None,
    ) -> Evidence:
        """The evidence that a test with these rates gives: on epsilon at `delta`, or on mu."""
        return Evidence(
            attack, game, point.lower(measure, delta), delta, point.confidence, trials,
            measure=measure, point=point, estimate=estimate, details=details or {},
        )

    def __str__(self) -> str:
        at = f" at delta {self.delta:g}" if self.measure == "epsilon" and self.delta else ""
        return f"{self.attack} reached {self.measure} {self.lower:.4g}{at} (confidence {surely(self.confidence)})"


@dataclass(frozen=True)
class Verdict:
    """A claim and what an attack found against it. It is never "safe": an attack that finds nothing proves nothing."""

    claim: Claim
    evidence: Evidence
    permitted: float
    broken: bool

    @property
    def share(self) -> float:
        """How much of what is permitted the attack reached: near 1 says that the claim is tight and the attack strong."""
        return self.evidence.lower / self.permitted if 0 < self.permitted < math.inf else 0.0

    def __str__(self) -> str:
        if self.broken:
            return f"BROKEN: {self.evidence}; the claim permits {self.permitted:.4g}"
        return f"not broken by this attack: {self.evidence}; the claim permits {self.permitted:.4g}"


def judge(claim: Claim, evidence: Evidence) -> Verdict:
    """Hold evidence against a claim.

    A test that was found is held against the claim's whole trade-off curve; a bound on epsilon against the claim at the same delta; a
    bound on mu against a claim of Gaussian privacy.

    >>> evidence = Evidence("threshold", "worst case", lower=0.9, delta=0, confidence=0.99, trials=1000)
    >>> judge(Claim.of(epsilon=1), evidence).broken
    False
    """
    if evidence.measure == "mu":
        if not isinstance(claim.event, GDP):
            raise ParameterError("a bound on mu can be held only against a claim of mu; ask the attack for epsilon at the claim's delta")
        permitted = float(claim.event.mu)
    else:
        permitted = claim.epsilon(evidence.delta)
    point = evidence.point
    # The curve of a long composition takes seconds: it is asked only where the bound alone does not decide.
    broken = evidence.lower > permitted or (point is not None and 0 < point.fpr < 1 and point.tpr > claim.tpr(point.fpr))
    return Verdict(claim, evidence, permitted, broken)


def held_against(claim: Claim, evidence: Evidence) -> Verdict:
    """The verdict on a claim; one of rho, whose trade-off curve is only bounded by way of epsilon, is judged by epsilon alone.

    >>> found = Evidence("a test", "worst case", 2.0, 0.01, 0.95, 1000, point=OperatingPoint(0.01, 0.1, 0.95))
    >>> held_against(Claim.of(rho=0.05), found).broken
    True
    """
    known = isinstance(claim.event, (PureDP, ApproxDP, GDP))
    return judge(claim, evidence if known else replace(evidence, point=None))
