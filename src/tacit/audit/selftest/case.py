"""What the self-test attacks: cases and mutants.

A case is a mechanism of Tacit on two neighbours. It must keep its claim, and the attack must reach its floor, a share
of the claim: otherwise the attack is too weak to say anything. A mutant is a known fault, and must be caught.

>>> from tacit.noise import discrete_laplace
>>> case = Case("count", Claim.of(epsilon=1), lambda n: discrete_laplace(1, size=n), lambda n: 1 + discrete_laplace(1, size=n), floor=0.8)
>>> found = case.tried(trials=20_000, error=1e-8, seed=1)
>>> found.passed, found.verdict.broken, found.verdict.share > 0.8
(True, False, True)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, TypedDict, Unpack

from tacit.accounting import GDP, Adjacency, Event, Gaussian, PureDP, Repeated, exact_pure
from tacit.audit.claim import Claim, Verdict, held_against
from tacit.audit.mechanisms.floats import bit_attack
from tacit.audit.mechanisms.neighbours import Neighbours
from tacit.audit.mechanisms.outputs import Sampler, outcomes
from tacit.audit.mechanisms.report import audit_mechanism
from tacit.audit.mechanisms.search import Kind, Terms, attack
from tacit.calculus import Measurement

QUICK = 4  # quick mode draws one sample of this many
LENIENT = 3  # and asks for a floor divided by this
ONE = Claim.of(epsilon=1)
LEAST = 800  # samples that quick mode never goes below


@dataclass(frozen=True)
class Case:
    """A mechanism on two neighbouring inputs between which it loses nearly what it claims.

    `first(n)` and `second(n)` draw n independent outputs. `floor` is the share of the claim that the attack must reach; `why` says
    why it is low where it is. `delta` is where epsilon is bounded; a claim of mu is bounded as mu. Quick mode leaves out what is `slow`
    and a case whose code it attacks `elsewhere`, in the cases of these names.
    """

    name: str
    claim: Claim
    first: Sampler
    second: Sampler
    floor: float
    trials: int = 200_000
    delta: float = 0.0
    why: str = ""
    events: Kind = "auto"
    slow: bool = False
    elsewhere: tuple[str, ...] = ()

    def tried(self, *, trials: int | None = None, error: float = 1e-6, seed: int | None = None, quick: bool = False) -> Outcome:
        """Attack it once; a right mechanism comes out broken with probability at most `error`."""
        found = attack(
            self.first, self.second, self.samples(quick) if trials is None else trials,
            confidence=1 - error, delta=self.delta, events=self.events, measure=self.claim.measure, seed=seed,
            game=f"worst case: two fixed neighbours of {self.name}, only the noise fresh",
        )
        return Outcome(self, held_against(self.claim, found), self.floor / LENIENT if quick else self.floor)

    def samples(self, quick: bool) -> int:
        """How many outputs are drawn on either input."""
        return max(LEAST, self.trials // QUICK) if quick else self.trials


@dataclass(frozen=True)
class Outcome:
    """What an attack on a case found, and the floor it had to reach."""

    case: Case
    verdict: Verdict
    floor: float

    @property
    def passed(self) -> bool:
        """Under its claim, and the attack strong enough to have seen more."""
        return not self.verdict.broken and self.verdict.share >= self.floor

    @property
    def reason(self) -> str:
        """Why it failed; empty where it did not."""
        if self.verdict.broken:
            return "above its claim"
        return "" if self.passed else f"below its floor of {self.floor:.0%}"


@dataclass(frozen=True)
class Mutant:
    """A fault: something that has it, the same without it, and two inputs on which it shows.

    `broken(data)` answers once, as any function under audit does; with `bulk`, `broken(data, n)` answers n times. `right` is of the same
    form. The claim is what was promised for the broken one.
    """

    name: str
    broken: Callable[..., Any]  # of one argument, or of two with `bulk`
    right: Callable[..., Any]
    pair: tuple[object, object]
    claim: Claim = ONE
    trials: int = 4000
    fault: str = ""
    delta: float = 0.0
    bulk: bool = False

    @property
    def pairs(self) -> list[Neighbours]:
        """The two inputs, for an audit."""
        return [Neighbours(self.name, *self.pair)]

    @property
    def what(self) -> str:
        """The fault in words."""
        return self.fault or (self.broken.__doc__ or self.name).strip().splitlines()[0]

    def caught(self, *, error: float = 1e-6, seed: int | None = None, broken: bool = True) -> str:
        """By what it was caught; empty where it was not. With `broken=False`, the right version is tried instead."""
        function = self.broken if broken else self.right
        if not self.bulk:
            report = audit_mechanism(function, self.claim, neighbours=self.pairs, trials=self.trials, confidence=1 - error, seed=seed)
            certain = next((found for found in report.divergences if found.certain), None)
            if report.worst.broken:
                return _by(report.worst)
            return "" if certain is None else f"replay: {certain.kind}"
        first, second = (partial(function, data) for data in self.pair)
        # Two attacks look at the same samples: each has half of the error.
        terms: Terms = {"delta": self.delta, "seed": seed, "confidence": 1 - error / 2}
        verdict = held_against(self.claim, attack(first, second, self.trials, measure=self.claim.measure, **terms))
        if not verdict.broken and self.claim.measure == "epsilon":
            verdict = held_against(self.claim, bit_attack(first, second, self.trials, **terms))
        return _by(verdict) if verdict.broken else ""


class Reasons(TypedDict, total=False):
    """Where epsilon is bounded, why a floor is low, and where else the same code is attacked."""

    delta: float
    why: str
    elsewhere: tuple[str, ...]


class Options(Reasons, total=False):
    """The fields of a case that have a usual value."""

    trials: int
    slow: bool


def between(name: str, claim: Claim, samplers: Iterable[Sampler], floor: float, **more: Unpack[Options]) -> Case:
    """A case whose two samplers come as one list."""
    first, second = samplers
    return Case(name, claim, first, second, floor, **more)


def measured(plan: object) -> Measurement:
    """The plan that a space and a mechanism make."""
    assert isinstance(plan, Measurement)
    return plan


def called(
    name: str, plan: Measurement, data: Iterable[object], floor: float, *,
    relation: Adjacency = Adjacency.ADD_REMOVE, distance: int = 1, read: Callable[[Any], object] | None = None,
    **more: Unpack[Options],
) -> Case:
    """A measurement that is called once for each sample, on two data sets; `read` says what of its answer is looked at."""
    function = plan.function if read is None else lambda rows: read(plan.function(rows))
    claim = promise(plan.event(distance), relation)
    return between(name, claim, [outcomes(function, rows) for rows in data], floor, **more)


def _by(verdict: Verdict) -> str:
    found = verdict.evidence
    return f"{found.attack}: {found.measure} ≥ {found.lower:.3g} where {verdict.permitted:.3g} is claimed"


def promise(event: Event, adjacency: Adjacency = Adjacency.ADD_REMOVE, text: str = "") -> Claim:
    """The claim of an event: its exact pure epsilon or its mu where it has one, itself (called `text`) otherwise.

    >>> from tacit.accounting import Laplace
    >>> promise(Laplace(2)).describe()
    'epsilon 0.5 (add-remove)'
    """
    while isinstance(event, Repeated) and event.count == 1:
        event = event.event
    pure = exact_pure(event, adjacency)
    if pure is not None:
        return Claim(PureDP(pure, adjacency=adjacency), adjacency, f"epsilon {float(pure):g}")
    if isinstance(event, Gaussian):
        mu = 1 / Fraction(event.noise_multiplier)
        return Claim(GDP(mu, adjacency=adjacency), adjacency, f"mu {float(mu):g}")
    return Claim(event, adjacency, text)
