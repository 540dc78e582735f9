r"""A job as one fixed plan: every output's share of the budget, its noise and its expected error, before any data is touched.

Because the whole job is fixed before the first answer, it is priced as one event. With Gaussian noise the outputs share the squared mu of
the job's (epsilon, delta), so the job as a whole is one Gaussian; with Laplace noise the shares are stretched until the privacy-loss
distribution of all outputs together just fits. The noise with the smaller errors is taken. Either way each output gets more than its part
of epsilon.

>>> from tacit.release.job import EXAMPLE, parse
>>> found = plan(parse(EXAMPLE))
>>> found.outputs[0].groups, found.cost.upper <= 1
(2, True)

**Warnings.** `RULES` hold the red flags of deployments (Desfontaines and Task, on deploying differential privacy).
They read the job and its plan, never data; each kind of output has rules of its own beside these. Sizes come from
what the job declares under `expected` and `rows_per_group`; rules that need a size stay silent without it, except
that its absence is said once.

>>> few = parse(EXAMPLE.replace("columns:", "expected: {people: 150}\ncolumns:", 1))
>>> [notice.rule for notice in plan(few).warnings]
['few people']
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from tacit.accounting import Bound, Composed, Event, Gaussian, Guarantee, Laplace, NoOp, account
from tacit.exact import at_most, exact, root
from tacit.ledger import price
from tacit.release import kinds
from tacit.release.errors import JobError
from tacit.release.job import Job
from tacit.release.kinds import Notice, OutputPlan, Portion, placed
from tacit.release.kinds.table import TableOutput
from tacit.release.preparation import unprepared
from tacit.release.sources import blank, desk_of
from tacit.tables import Desk, PriceSearch, Source

#: Fewer people than this are "a few hundred": noise that hides one of them is a large part of any figure.
FEW_PEOPLE = 500
#: Above this epsilon the worst-case guarantee says next to nothing: an even guess may become all but certain.
LARGE_EPSILON = 10.0
#: How often the weights of figures are moved towards the accuracies that were asked for.
BALANCED = 6
#: More figures than this per declared person ask for the data themselves: enough accurate ones rebuild the table (Dinur and Nissim 2003).
FIGURES_PER_PERSON = 1.0


def notices(plan: JobPlan) -> tuple[Notice, ...]:
    """All warnings about a plan, in the order of the rules."""
    found: list[Notice] = []
    for rule in RULES:
        found.extend(rule(plan))
    return tuple(found)


def _units(plan: JobPlan) -> str:
    return plan.job.unit.typed().nouns


def few_people(plan: JobPlan) -> Iterator[Notice]:
    """Fewer than a few hundred people."""
    people = plan.job.expected.people
    if people is not None and people < FEW_PEOPLE:
        yield Notice(
            "few people",
            "expected.people",
            f"{people} {_units(plan)} are too few: what hides one of them hides most of what they have in common. "
            f"Use data of at least {FEW_PEOPLE}, pool several periods, or do not publish tables",
        )


def large_epsilon(plan: JobPlan) -> Iterator[Notice]:
    """An epsilon that promises nothing."""
    if plan.cost.upper > LARGE_EPSILON:
        certain = 1 / (1 + math.exp(-min(plan.cost.upper, 700.0)))
        yield Notice(
            "large epsilon",
            "budget",
            f"epsilon {plan.cost.upper:.3g} is no meaningful promise: an attacker who was in doubt whether a "
            f"{plan.job.unit.typed().noun} is in the data may be {certain:.3%} sure "
            f"afterwards. Stay at {LARGE_EPSILON:g} or below, and most releases at about 1",
        )


def large_delta(plan: JobPlan) -> Iterator[Notice]:
    """A delta so large that one person's rows could be published."""
    people, delta = plan.job.expected.people, plan.delta
    if not delta or "delta" not in plan.job.budget.typed().limits:
        return
    if people is not None and delta * people >= 1:
        yield Notice(
            "large delta",
            "budget.delta",
            f"delta {float(delta):g} is at least one over {people} {_units(plan)}: it would allow to publish one of them outright. "
            f"Use {1 / (10 * people):.0e} or less",
        )
    elif people is None and delta > 1e-5:
        yield Notice(
            "large delta",
            "budget.delta",
            f"delta {float(delta):g} is large for most data; use well below one over the number of {_units(plan)}",
        )


def of_kinds(plan: JobPlan) -> Iterator[Notice]:
    """What each kind of output warns of, one rule after another."""
    found = [notice for i, output in enumerate(plan.outputs) for notice in kinds.of(output).notices(output, plan.job, f"outputs[{i}]")]
    for rule in dict.fromkeys(notice.rule for notice in found):
        yield from (notice for notice in found if notice.rule == rule)


def many_figures(plan: JobPlan) -> Iterator[Notice]:
    """As many figures as people: arbitrary analyses over everything."""
    people = plan.job.expected.people
    figures = sum(output.size for output in plan.outputs)
    if people is not None and figures > FIGURES_PER_PERSON * people:
        yield Notice(
            "many figures",
            "outputs",
            f"{figures} figures about {people} {_units(plan)}: if they were accurate, the table could be rebuilt from them, so they cannot "
            "be. Publish the few that matter",
        )


def unknown_sizes(plan: JobPlan) -> Iterator[Notice]:
    """Predictions without sizes. A job about the loads of a network has neither people nor rows."""
    if plan.job.expected.people is None and plan.job.unit.load is None:
        missing = "expected.people" if plan.job.expected.rows is not None else "expected.people and expected.rows"
        yield Notice("sizes not declared", "expected", f"without {missing}, delta and the size of groups cannot be judged")


def six_questions(plan: JobPlan) -> Iterator[Notice]:
    """What was to be decided before, of jobs that train a model or say that they decided it."""
    if plan.job.preparation is not None or any(output.spec.kind == "model" for output in plan.outputs):
        yield from unprepared(plan)


RULES: tuple[Callable[[JobPlan], Iterator[Notice]], ...] = (
    few_people, large_epsilon, large_delta, of_kinds, many_figures, unknown_sizes, six_questions,
)  # fmt: skip


#: The delta that a price in rho is also told at, in epsilon.
SHOWN_DELTA = Fraction(1, 10**6)
#: A stretch is found to this share of itself.
FINE = 1e-3
#: What is left for the last roundings when a stretch is verified.
_BACK = 1 - Fraction(1, 2**30)


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
    def protects(self) -> str:
        """What of one unit's data is protected, in words, where that is not all of them; the same for every output."""
        return kinds.protects(self.outputs[0])

    @property
    def digest(self) -> str:
        """The job's fingerprint."""
        return self.job.digest()

    @property
    def booked(self) -> Event:
        """What the ledger pays for: nothing where people's devices paid, because adding up what they sent tells no more."""
        return NoOp() if self.job.on_devices else self.event

    def __getitem__(self, name: str) -> OutputPlan:
        return next(output for output in self.outputs if output.spec.name == name)


def plan(job: Job, source: Source | None = None, *, base: str | Path | None = None) -> JobPlan:
    """Plan a job without touching private data, or say where it cannot be done. A source is asked for the types of columns only.

    `base` is the folder the job is in: joins with public tables are planned with the tables that are there.
    """
    from tacit.release.planning import notices

    desk = desk_of(job, blank(job, None if base is None else Path(base)) if source is None else source)
    found: JobPlan | None = None
    with suppress(OverflowError):  # of public numbers: no row was looked at
        planned = _Planner(job, desk).best()
        _one_thing(planned)
        if job.totals:
            from tacit.release.totals import check  # which reads plans, so it comes after this module

            check(planned)
        found = replace(planned, warnings=notices(planned))
    if found is None:
        raise JobError(code="number-out-of-range", place="outputs")
    return found


def faults_of_outputs(job: Job, *, base: str | Path | None = None) -> list[JobError]:
    """What each output cannot be planned with, one fault an output; empty where all can be read. No data is touched."""
    found: list[JobError] = []
    try:
        desk = desk_of(job, blank(job, None if base is None else Path(base)))
    except JobError as error:
        return [error]
    share = Portion(Fraction(1), _Planner.whole(job), None)
    for place, spec in enumerate(job.outputs):
        kind = kinds.find(spec.kind)
        try:
            asked = kind.prepare(spec, job, desk, f"outputs[{place}]")
            if spec.kind == "table":
                kind.plan(asked, share)
        except JobError as error:
            found.append(error)
    return found


def _one_thing(planned: JobPlan) -> None:
    """Refuse outputs that protect different things: an epsilon for pixels says nothing about people, and is not added to theirs."""
    found = {kinds.protects(output) or "all of its data": output.spec.name for output in planned.outputs}
    if len(found) > 1:
        (first, one), (second, other) = list(found.items())[:2]
        raise JobError(
            f"of each {planned.job.unit.typed().noun}, {one!r} protects {first} and {other!r} {second}; "
            "their prices cannot be added up, so give each a job of its own",
            place="outputs",
        )


def validate(job: Job) -> list[str]:
    """Check everything that can be checked without data; the warnings, in words. What cannot be planned raises `JobError`."""
    return [str(notice) for notice in plan(job).warnings]


class _Planner:
    def __init__(self, job: Job, desk: Desk) -> None:
        self.job = job
        self.budget = job.budget.typed()
        self.unit = job.unit.typed()
        self.amount = next(iter(self.budget.limits.values())) * (1 - self.budget.reserve)
        self.delta = self.budget.limits.get("delta", Fraction(0)) * (1 - self.budget.reserve)
        self.places = range(len(job.outputs))
        self.known: dict[tuple[int, Portion], OutputPlan] = {}
        self.plain: dict[int, Fraction] = {}
        self.weights = {i: exact("weight", spec.weight) for i in self.places if (spec := job.outputs[i]).weight is not None}
        self.kinds = [kinds.find(spec.kind) for spec in job.outputs]
        self.asked = [self.kinds[i].prepare(spec, job, desk, f"outputs[{i}]") for i, spec in enumerate(job.outputs)]
        #: The same with even weights of their figures, from which an accuracy is sought.
        self.even = list(self.asked)
        #: Outputs with a price in epsilon and delta of their own, such as tables whose keys are selected privately.
        self.private = {i for i in self.places if not self.asked[i].plain}

    @staticmethod
    def whole(job: Job) -> Guarantee:
        """All of the job's budget, as a price."""
        budget = job.budget.typed()
        return budget.guarantee

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

    def portion(self, place: int, part: Fraction, family: str) -> Portion:
        """A part of the budget with its price and law."""
        return Portion(part, self.spend(place, part, family), None if place in self.private or family == "each" else family)

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
        if place in self.private:
            return self.planned(place, self.portion(place, part, family)).event
        spend = self.spend(place, part, family)
        if spend.mu is not None:
            return Gaussian(1 / spend.mu, adjacency=self.unit.adjacency)
        return Laplace(1 / (spend.epsilon or Fraction(1)), adjacency=self.unit.adjacency)

    def planned(self, place: int, portion: Portion) -> OutputPlan:
        """The plan of one output, made once for each portion: rules for keys are slow to make."""
        found = self.known.get((place, portion))
        if found is None:
            found = self.known[place, portion] = self.kinds[place].plan(self.asked[place], portion)
        return found

    # --- plans --------------------------------------------------------------------------------------------------------------------

    def best(self) -> JobPlan:
        """The family of noise with the smaller errors."""
        if self.job.on_devices:
            return self.given()
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

    def given(self) -> JobPlan:
        """A job whose prices are fixed, because the noise was added on devices: it fits the budget or is refused."""
        whole = Guarantee(rho=self.amount) if self.budget.currency == "rho" else Guarantee(epsilon=self.amount, delta=self.delta)
        share = Fraction(1, len(self.job.outputs))
        outputs = tuple(self.planned(i, Portion(share, whole, None)) for i in self.places)
        events = [output.event for output in outputs]
        if not self.fits(events):
            found = {name: f"{float(amount):.4g}" for name, amount in self.charge(events).items() if amount}
            words = ", ".join(f"{name} {amount}" for name, amount in found.items())
            raise JobError(
                f"all reports that one person ever sends cost {words}, which is over the budget; the devices have paid that "
                "already. Promise fewer reports, shuffle more of them, or say the true price",
                place="budget",
            )
        return replace(self.finished(outputs, "each"), charge=self.charge([NoOp()]))

    def score(self, found: JobPlan) -> float:
        """Log errors, weighted by what each output deserves: 0.69 less is half the error everywhere."""
        total = 0.0
        for place, output in enumerate(found.outputs):
            weight = float(self.weights.get(place, Fraction(1)))
            total += weight * output.score
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
            outputs = tuple(self.planned(i, self.portion(i, shares[i], family)) for i in self.places)
            if self.fits([output.event for output in outputs]):
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
        within = spec.accuracy.within
        wanted = dict(within) if isinstance(within, dict) else dict.fromkeys(self.asked[place].figures, within)
        if any(exact("within", goal) == 0 for goal in wanted.values()):
            raise JobError(
                "exact figures cannot be released: any answer changes when one person's data do; allow an error",
                place=f"outputs[{place}].accuracy",
            )
        confidence = spec.accuracy.confidence

        def cheapest(asked: kinds.Output) -> OutputPlan:
            search, best = PriceSearch(wanted), None
            while not search.done:
                plan = self.kinds[place].plan(asked, self.portion(place, search.price, family))
                best = plan if search.tell(plan.errors_at(confidence)) else best
            assert best is not None  # a search ends with a price that is good enough, or with an error
            return best

        with placed(f"outputs[{place}].accuracy"):
            asked = self.asked[place] = self.even[place]
            found = cheapest(asked)
            if isinstance(asked, TableOutput) and isinstance(within, dict) and len(wanted) > 1 and not asked.spec.weights:
                self.asked[place], found = self._balanced(asked, found, cheapest, wanted, confidence)
        self.known = {key: plan for key, plan in self.known.items() if key[0] != place}
        return self._part(found.portion.spend)

    def _balanced(
        self, asked: TableOutput, found: OutputPlan, cheapest: Callable[[kinds.Output], OutputPlan], wanted: Mapping[str, Any],
        confidence: float,
    ) -> tuple[TableOutput, OutputPlan]:
        """The weights of figures at which all of them are about as exact as was asked, and no one more exact than that for nothing.

        A figure's error falls with its part of the budget, so the parts of those that are too exact are made smaller, a few times; the
        cheapest of all that was tried is taken. Nothing of it looks at data.
        """
        best, weights = (asked, found), {name: 1.0 for name in asked.figures}
        for _ in range(BALANCED):
            errors = found.errors_at(confidence)
            over = {name: errors[name] / float(exact("within", goal)) for name, goal in wanted.items()}
            if min(over.values()) > 0.97:
                break
            power = 2 if found.noise == "gaussian" else 1
            weights = {name: weights[name] * min(1.0, max(over.get(name, 0.02), 0.02)) ** power for name in weights}
            top = max(weights.values())
            weights = {name: max(weight / top, 1e-4) for name, weight in weights.items()}
            again = replace(asked, spec=asked.spec.model_copy(update={"weights": {n: float(f"{w:.3g}") for n, w in weights.items()}}))
            found = cheapest(again)
            if self._part(found.portion.spend) < self._part(best[1].portion.spend):
                best = (again, found)
        return best

    def _part(self, spend: Guarantee) -> Fraction:
        if spend.rho is not None:
            return spend.rho / self.amount
        if spend.mu is not None:
            return (spend.mu / self._mu) ** 2
        return (spend.epsilon or Fraction(0)) / self.amount

    def finished(self, outputs: tuple[OutputPlan, ...], family: str) -> JobPlan:
        events = [output.event for output in outputs]
        event = events[0] if len(events) == 1 else Composed(*events)
        told = SHOWN_DELTA if self.job.budget.delta is None else exact("delta", self.job.budget.delta)
        delta = self.delta or (told if self.budget.currency == "rho" else Fraction(0))
        cost = account(event, self.unit.adjacency).epsilon(at_most(delta))
        laws = sorted({output.noise for output in outputs})
        return JobPlan(self.job, outputs, event, self.charge(events), cost, delta, " and ".join(laws), self._naive())

    def _naive(self) -> dict[str, float]:
        """What each weighted output would get of epsilon (or rho) if shares were simply added up; the comparison in a report."""
        whole = sum(self.weights.values(), Fraction(0))
        return {self.job.outputs[i].name: float(self.amount * weight / whole) for i, weight in self.weights.items()}


def _floor_root(value: Fraction) -> Fraction:
    """A square root from below: value / root(value), where root rounds up."""
    return value / root(value)
