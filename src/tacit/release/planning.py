"""A job as one fixed plan: every output's share of the budget, its noise and its expected error, before any data is near.

Because the whole job is fixed before the first answer, it is priced as one event. With Gaussian noise the outputs share the squared mu of
the job's (epsilon, delta), so the job as a whole is one Gaussian; with Laplace noise the shares are stretched until the privacy-loss
distribution of all outputs together just fits. The noise with the smaller errors is taken. Either way each output gets more than its part
of epsilon.

>>> from tacit.release.job import EXAMPLE, parse
>>> found = plan(parse(EXAMPLE))
>>> found.outputs[0].groups, found.cost.upper <= 1
(2, True)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from tacit.accounting import Bound, Composed, Event, Gaussian, Guarantee, Laplace, account
from tacit.exact import at_most, exact, root
from tacit.ledger import price
from tacit.release.desk import SHOWN_DELTA, Desk, placed
from tacit.release.errors import JobError
from tacit.release.job import Job
from tacit.release.job_parts import OutputSpec
from tacit.release.sources import blank
from tacit.tables.engines.engine import Engine
from tacit.tables.explain import price_for_accuracy
from tacit.tables.figures import expected
from tacit.tables.plan import Plan

#: Rows of a group that errors are foretold for where the job declares no sizes.
ASSUMED_ROWS = 1000
#: A stretch is found to this share of itself.
FINE = 1e-3
#: What is left for the last roundings when a stretch is verified.
_BACK = 1 - Fraction(1, 2**30)


@dataclass(frozen=True)
class OutputPlan:
    """One output: its price, its noise, and what error to expect in a group of `rows` rows with the publication's confidence."""

    spec: OutputSpec
    part: Fraction
    spend: Guarantee
    law: str | None
    plan: Plan
    groups: int
    rows: int
    assumed: bool
    errors: Mapping[str, float]

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def private_keys(self) -> bool:
        return self.plan.selection is not None

    @property
    def people_needed(self) -> int | None:
        """How many people a privately selected key needs to appear with an even chance; None where keys are declared."""
        return None if self.plan.selection is None else self.plan.selection.people_needed


@dataclass(frozen=True)
class Notice:
    """A warning: its rule, where in the job, and what to do. `refuses` marks what no budget can repair."""

    rule: str
    place: str
    text: str
    refuses: bool = False

    def __str__(self) -> str:
        return f"{self.place}: {self.text}" if self.place else self.text


@dataclass(frozen=True)
class JobPlan:
    """Everything that will be measured and what it costs; made from the job alone, the same every time."""

    job: Job
    outputs: tuple[OutputPlan, ...]
    event: Event
    charge: Mapping[str, Fraction]
    cost: Bound
    delta: Fraction
    noise: str
    naive: Mapping[str, float]
    warnings: tuple[Notice, ...] = ()

    @property
    def digest(self) -> str:
        """The job's fingerprint."""
        return self.job.digest()

    def __getitem__(self, name: str) -> OutputPlan:
        return next(output for output in self.outputs if output.name == name)


def plan(job: Job, engine: Engine | None = None, *, base: str | Path | None = None) -> JobPlan:
    """Plan a job without touching private data, or say where it cannot be done. An engine is asked for the types of columns only.

    `base` is the folder the job is in: joins with public tables are planned with the tables that are there.
    """
    from tacit.release.feasibility import notices

    found = _Planner(job, Desk(job, blank(job, None if base is None else Path(base)) if engine is None else engine)).best()
    return replace(found, warnings=notices(found))


def validate(job: Job) -> list[str]:
    """Check everything that can be checked without data; the warnings, in words. What cannot be planned raises `JobError`."""
    return [str(notice) for notice in plan(job).warnings]


class _Planner:
    def __init__(self, job: Job, desk: Desk) -> None:
        self.job, self.desk = job, desk
        self.budget = job.budget.typed()
        self.unit = job.unit.typed()
        self.amount = next(iter(self.budget.limits.values())) * (1 - self.budget.reserve)
        self.delta = self.budget.limits.get("delta", Fraction(0)) * (1 - self.budget.reserve)
        self.places = range(len(job.outputs))
        self.known: dict[tuple[int, Guarantee, str | None], Plan] = {}
        self.plain: dict[int, Fraction] = {}
        self.weights = {i: exact("weight", spec.weight) for i in self.places if (spec := job.outputs[i]).weight is not None}
        self.private = {i for i in self.places if None in desk.keys(i, desk.question(i)).values()}

    # --- prices -------------------------------------------------------------------------------------------------------------------

    def spend(self, place: int, part: Fraction, family: str) -> Guarantee:
        """A part of the budget, as a price of one output."""
        if self.budget.currency == "rho":
            return Guarantee(rho=self.amount * part)
        if place in self.private:
            # A rule for keys has a delta of its own, which grows with nothing: of the job's, half goes to the rules, by their plain parts.
            alone = len(self.job.outputs) == 1
            own = min(self.plain.get(place, part), Fraction(1))
            return Guarantee(epsilon=self.amount * part, delta=own * self.delta * (1 if alone else Fraction(1, 2)))
        if family == "gaussian":
            return Guarantee(mu=self._mu / root(1 / part) if part < 1 else self._mu * _floor_root(part))
        return Guarantee(epsilon=self.amount * part)

    @property
    def _mu(self) -> Fraction:
        whole = Guarantee(epsilon=self.amount, delta=self.delta).noise_multiplier
        if whole is None:
            raise JobError("Gaussian noise needs a delta greater than 0", place="budget.delta")
        return 1 / (whole * (1 + Fraction(1, 2**24)))

    def law(self, place: int, family: str) -> str | None:
        return None if place in self.private or family == "each" else family

    def charge(self, events: Sequence[Event]) -> dict[str, Fraction]:
        """What the ledger would book for the job."""
        event = events[0] if len(events) == 1 else Composed(*events)
        with placed("budget"):
            return price(event, tuple(self.budget.limits), self.unit.adjacency, delta=self.delta or None)

    def fits(self, events: Sequence[Event]) -> bool:
        charge = self.charge(events)
        return all(charge[name] <= limit * (1 - self.budget.reserve) for name, limit in self.budget.limits.items())

    def rough(self, place: int, part: Fraction, family: str) -> Event:
        """The event of an output at a part, near enough for a search."""
        spend = self.spend(place, part, family)
        if place in self.private:
            return self.planned(place, spend, None).event
        if spend.mu is not None:
            return Gaussian(1 / spend.mu, adjacency=self.unit.adjacency)
        return Laplace(1 / (spend.epsilon or Fraction(1)), adjacency=self.unit.adjacency)

    def planned(self, place: int, spend: Guarantee, law: str | None) -> Plan:
        """The plan of one output, made once for each price: rules for keys are slow to make."""
        found = self.known.get((place, spend, law))
        if found is None:
            found = self.known[place, spend, law] = self.desk.plan(place, spend, law)
        return found

    # --- plans --------------------------------------------------------------------------------------------------------------------

    def best(self) -> JobPlan:
        """The family of noise with the smaller errors."""
        families = {"approximate": ["gaussian", "laplace"], "pure": ["laplace"], "rho": ["each"]}[self.budget.currency]
        made: list[JobPlan] = []
        refusal: JobError | None = None
        for family in families:
            try:
                made.append(self.made(family))
            except JobError as error:
                refusal = refusal or error
        if not made:
            assert refusal is not None
            raise refusal
        return min(made, key=self.score)

    def score(self, found: JobPlan) -> float:
        """Log errors, weighted by what each output deserves: 0.69 less is half the error everywhere."""
        total = 0.0
        for place, output in enumerate(found.outputs):
            weight = float(self.weights.get(place, Fraction(1)))
            total += weight * math.fsum(float(share.part) * math.log(share.deviation) for share in output.plan.shares)
        return total

    def made(self, family: str) -> JobPlan:
        fixed = {i: self.accurate(i, family) for i in self.places if i not in self.weights}
        taken = sum(fixed.values(), Fraction(0))
        whole = sum(self.weights.values(), Fraction(0))
        left = 1 - taken
        events = [self.rough(i, part, family) for i, part in fixed.items()] if self.budget.currency == "approximate" else []
        if (events and not self.fits(events) and left <= 0) or (not events and left < 0) or (self.weights and left <= 0):
            raise JobError(
                f"the accuracies asked for cost {float(taken):.3g} times the budget; "
                "ask for less, tighten bounds and caps, or raise the budget",
                place="outputs",
            )
        parts = {i: weight / whole for i, weight in self.weights.items()}
        self.plain = {i: part * left for i, part in parts.items() if i in self.private}
        stretch = left
        if parts and self.budget.currency == "approximate" and (family == "laplace" or self.private):
            stretch = self._stretched(parts, events, family, left)
        while True:
            shares = {**fixed, **{i: part * stretch for i, part in parts.items()}}
            outputs = tuple(self.output(i, shares[i], family) for i in self.places)
            if self.fits([output.plan.event for output in outputs]):
                return self.finished(outputs, family)
            if not parts:
                raise JobError("the accuracies asked for cost more than the budget; ask for less, or raise the budget", place="outputs")
            stretch *= _BACK if family == "gaussian" and not self.private else Fraction(999, 1000)

    def _stretched(self, parts: Mapping[int, Fraction], fixed: Sequence[Event], family: str, start: Fraction) -> Fraction:
        """The largest stretch of the weighted outputs' parts, to a share FINE, whose price, all outputs together, still fits.

        The price grows like a power of the stretch, near enough: each try fixes the power, and a handful of tries is all it takes.
        """
        limit, fine = self.budget.limits["epsilon"] * (1 - self.budget.reserve), 4 * FINE if self.private else FINE
        low, high, power = Fraction(0), Fraction(64), 1.0
        tries: list[tuple[float, float]] = []
        guess = start
        for _ in range(40):
            events = [*fixed, *(self.rough(i, part * guess, family) for i, part in parts.items())]
            ratio = float(self.charge(events)["epsilon"] / limit)
            low, high = (guess, high) if self.fits(events) else (low, guess)
            if low and (float(high / low) <= 1 + fine or (guess == low and ratio > 1 - fine / 2)):
                break
            if tries and ratio not in (tries[-1][1], 0.0) and math.isfinite(ratio):
                power = math.log(ratio / tries[-1][1]) / math.log(float(guess) / tries[-1][0])
            tries = [(float(guess), ratio)] if 0 < ratio < math.inf else []
            wanted = float(guess) * ((1 - fine / 8) / ratio) ** (1 / min(max(power, 0.3), 3.0)) if tries else 0.0
            inside = float(low) < wanted < float(high)
            guess = Fraction(wanted) if inside else (low + high) / 2 if low else min(high, guess) / 2
            if guess < start / 2**20:
                break
        if not low:
            raise JobError("the accuracies asked for take the whole budget; ask for less, or raise the budget", place="outputs")
        return low

    def accurate(self, place: int, family: str) -> Fraction:
        """The part of the budget that an output's wanted accuracy takes."""
        spec = self.job.outputs[place]
        assert spec.accuracy is not None
        names = [a.name for a in self.desk.question(place).aggregates]
        within = spec.accuracy.within
        wanted = dict(within) if isinstance(within, dict) else dict.fromkeys(names, within)
        if any(exact("within", goal) == 0 for goal in wanted.values()):
            raise JobError(
                "exact figures cannot be released: any answer changes when one person's data do; allow an error",
                place=f"outputs[{place}].accuracy",
            )
        listed = [values for values in self.desk.keys(place, self.desk.question(place)).values() if values is not None]
        rows = self.rows(place, math.prod(len(values) for values in listed))[0]

        def planned(part: Fraction) -> Plan:
            return self.desk.plan(place, self.spend(place, part, family), self.law(place, family))

        with placed(f"outputs[{place}].accuracy"):
            spend = price_for_accuracy(planned, wanted, rows, spec.accuracy.confidence).spend
        return self._part(spend)

    def _part(self, spend: Guarantee) -> Fraction:
        if spend.rho is not None:
            return spend.rho / self.amount
        if spend.mu is not None:
            return (spend.mu / self._mu) ** 2
        return (spend.epsilon or Fraction(0)) / self.amount

    def rows(self, place: int, groups: int) -> tuple[int, bool]:
        spec = self.job.outputs[place]
        if spec.rows_per_group is not None:
            return spec.rows_per_group, False
        if self.job.expected.rows is not None and place not in self.private:
            return max(1, self.job.expected.rows // groups), False
        return ASSUMED_ROWS, True

    def output(self, place: int, part: Fraction, family: str) -> OutputPlan:
        spend, law = self.spend(place, part, family), self.law(place, family)
        found = self.planned(place, spend, law)
        rows, assumed = self.rows(place, found.keys.count)
        errors = expected(found, rows, self.job.publication.confidence)
        names = {*errors, *(shown.name for shown in found.question.outputs)}
        unknown = [
            name
            for name in (*self.job.outputs[place].postprocess.nonnegative, *self.job.outputs[place].postprocess.whole)
            if name not in names
        ]
        unknown += [name for name in self.job.outputs[place].checks if name not in names]
        if unknown:
            raise JobError(f"{unknown[0]!r} is no figure of this output; there are {', '.join(sorted(names))}", place=f"outputs[{place}]")
        return OutputPlan(self.job.outputs[place], part, spend, law, found, found.keys.count, rows, assumed, errors)

    def finished(self, outputs: tuple[OutputPlan, ...], family: str) -> JobPlan:
        events = [output.plan.event for output in outputs]
        event = events[0] if len(events) == 1 else Composed(*events)
        told = SHOWN_DELTA if self.job.budget.delta is None else exact("delta", self.job.budget.delta)
        delta = self.delta or (told if self.budget.currency == "rho" else Fraction(0))
        cost = account(event, self.unit.adjacency).epsilon(at_most(delta))
        laws = sorted({output.plan.split.law for output in outputs})
        return JobPlan(self.job, outputs, event, self.charge(events), cost, delta, " and ".join(laws), self._naive())

    def _naive(self) -> dict[str, float]:
        """What each weighted output would get of epsilon (or rho) if shares were simply added up; the comparison in a report."""
        whole = sum(self.weights.values(), Fraction(0))
        return {self.job.outputs[i].name: float(self.amount * weight / whole) for i, weight in self.weights.items()}


def _floor_root(value: Fraction) -> Fraction:
    """A square root from below: value / root(value), where root rounds up."""
    return value / root(value)
