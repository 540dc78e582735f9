"""What a curator should hear before spending: the red flags of deployments (Desfontaines and Task, on deploying differential privacy).

Rules read the job and its plan, never data; each kind of output has rules of its own beside these. Sizes come from what the job declares
under `expected` and `rows_per_group`; rules that need a size stay silent without it, except that its absence is said once.

>>> from tacit.release.job import EXAMPLE, parse
>>> from tacit.release.planning import plan
>>> few = parse(EXAMPLE.replace("columns:", "expected: {people: 150}\\ncolumns:", 1))
>>> [notice.rule for notice in plan(few).warnings]
['few people']
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from tacit.release import kinds
from tacit.release.kinds import Notice
from tacit.release.planning import JobPlan

#: Fewer people than this are "a few hundred": noise that hides one of them is a large part of any figure.
FEW_PEOPLE = 500
#: Above this epsilon the worst-case guarantee says next to nothing: an even guess may become all but certain.
LARGE_EPSILON = 10.0
#: More figures than this per declared person ask for the data themselves: enough accurate ones rebuild the table (Dinur and Nissim 2003).
FIGURES_PER_PERSON = 1.0


def notices(plan: JobPlan) -> tuple[Notice, ...]:
    """All warnings about a plan, in the order of the rules."""
    found: list[Notice] = []
    for rule in RULES:
        found.extend(rule(plan))
    return tuple(found)


def few_people(plan: JobPlan) -> Iterator[Notice]:
    """Fewer than a few hundred people."""
    people = plan.job.expected.people
    if people is not None and people < FEW_PEOPLE:
        yield Notice(
            "few people",
            "expected.people",
            f"{people} people are too few: what hides one of them hides most of what they have in common. "
            f"Use data of at least {FEW_PEOPLE}, pool several periods, or do not publish tables",
        )


def large_epsilon(plan: JobPlan) -> Iterator[Notice]:
    """An epsilon that promises nothing."""
    if plan.cost.upper > LARGE_EPSILON:
        certain = 1 / (1 + math.exp(-min(plan.cost.upper, 700.0)))
        yield Notice(
            "large epsilon",
            "budget",
            f"epsilon {plan.cost.upper:.3g} is no meaningful promise: somebody who was in two minds whether a person is in the data may be "
            f"{certain:.3%} sure afterwards. Stay at {LARGE_EPSILON:g} or below, and most releases at about 1",
        )


def large_delta(plan: JobPlan) -> Iterator[Notice]:
    """A delta that allows to publish somebody outright."""
    people, delta = plan.job.expected.people, plan.delta
    if not delta or "delta" not in plan.job.budget.typed().limits:
        return
    if people is not None and delta * people >= 1:
        yield Notice(
            "large delta",
            "budget.delta",
            f"delta {float(delta):g} is at least one over {people} people: it would allow to publish one of them outright. "
            f"Use {1 / (10 * people):.0e} or less",
        )
    elif people is None and delta > 1e-5:
        yield Notice(
            "large delta", "budget.delta", f"delta {float(delta):g} is large for most data; use well below one over the number of people"
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
            f"{figures} figures about {people} people: if they were accurate, the table could be rebuilt from them, so they cannot be. "
            "Publish the few that matter",
        )


def unknown_sizes(plan: JobPlan) -> Iterator[Notice]:
    """Predictions without sizes."""
    if plan.job.expected.people is None:
        yield Notice(
            "sizes not declared", "expected", "without expected.people and expected.rows, delta and the size of groups cannot be judged"
        )


RULES: tuple[Callable[[JobPlan], Iterator[Notice]], ...] = (
    few_people, large_epsilon, large_delta, of_kinds, many_figures, unknown_sizes,
)  # fmt: skip
