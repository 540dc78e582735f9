"""What a curator should hear before spending: the red flags of deployments (Desfontaines and Task, on deploying differential privacy).

Rules read the job and its plan, never data. Sizes come from what the job declares under `expected` and `rows_per_group`; rules that need a
size stay silent without it, except that its absence is said once.

>>> from tacit.release.job import EXAMPLE, parse
>>> from tacit.release.planning import plan
>>> few = parse(EXAMPLE.replace("columns:", "expected: {people: 150}\\ncolumns:", 1))
>>> [notice.rule for notice in plan(few).warnings]
['few people']
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from tacit.exact import exact
from tacit.release.planning import JobPlan, Notice
from tacit.tables.plan import Recipe

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


def noisy(plan: JobPlan) -> Iterator[Notice]:
    """Noise larger than the figure it is added to."""
    for place, output in enumerate(plan.outputs):
        if output.assumed:
            continue
        for recipe in output.plan.recipes:
            name, error = recipe.aggregate.name, output.errors[recipe.aggregate.name]
            value = _size(recipe, output.rows)
            if value is None or error < value:
                continue
            counted = recipe.aggregate.kind in (*_COUNTS, "sum")
            found = f"in a group where about {value:.3g} is expected" if counted else "which is all that its bounds leave open"
            yield Notice(
                "noise above value",
                f"outputs[{place}]",
                f"{name} of {output.name!r} would be off by up to {error:.3g}, {found}; "
                "use fewer or larger groups, lower caps, tighter bounds, or more weight",
            )


_COUNTS = ("count", "count_value", "count_person", "count_distinct")


def _size(recipe: Recipe, rows: int) -> float | None:
    """What a figure may be expected to be: a count the rows of its group, a sum half of the most they can add up to; of what lies between
    bounds, half of what they leave open."""
    kind = recipe.aggregate.kind
    if kind in _COUNTS:
        return float(rows)
    if kind == "corr":
        return 1.0
    if not recipe.intervals:
        return None
    low, high = float(recipe.intervals[0].lower), float(recipe.intervals[0].upper)
    if kind == "sum":
        return rows * max(abs(low), abs(high)) / 2
    return (high - low) / 2 if kind in ("avg", "quantile", "median", "min", "max") else None


def rare_keys(plan: JobPlan) -> Iterator[Notice]:
    """Keys that are selected privately and that too few people have."""
    people = plan.job.expected.people
    for place, output in enumerate(plan.outputs):
        needed = output.people_needed
        have = output.rows if not output.assumed else people
        if needed is not None and have is not None and needed > have:
            yield Notice(
                "rare keys",
                f"outputs[{place}]",
                f"a key of {output.name!r} appears only where about {needed} people have it, and {have} are expected"
                f"{' in all' if output.assumed else ' in a group'}: the table will be all but empty. Declare the keys, or raise its weight",
            )


def free_text(plan: JobPlan) -> Iterator[Notice]:
    """Texts that are published as they are found."""
    for place, output in enumerate(plan.outputs):
        question, types = output.plan.question, plan.job.columns
        for index in output.plan.keys.private:
            value = question.keys[index].value
            spec = next((c for n, c in types.items() if isinstance(value, exp.Column) and n.rpartition(".")[2] == value.name), None)
            if spec is not None and spec.type == "text":
                yield Notice(
                    "free text",
                    f"outputs[{place}].keys",
                    f"the values of {question.keys[index].name!r} that many people share are published as they are written: codes "
                    "are fine, what people typed themselves is not; list the public values where there is a code book",
                )


def many_groups(plan: JobPlan) -> Iterator[Notice]:
    """More groups than people, or than rows to put into them."""
    rows, people = plan.job.expected.rows, plan.job.expected.people
    for place, output in enumerate(plan.outputs):
        size = rows if rows is not None else people
        if size is not None and output.groups > 1 and output.groups * 10 > size:
            yield Notice(
                "many groups",
                f"outputs[{place}]",
                f"{output.groups} groups for about {size} {'rows' if rows is not None else 'people'}: most would hold fewer than ten. "
                "Coarsen the keys (age ranges, larger regions, longer periods) or leave a key out",
            )


def many_figures(plan: JobPlan) -> Iterator[Notice]:
    """As many figures as people: arbitrary analyses over everything."""
    people = plan.job.expected.people
    figures = sum(output.groups * len(output.plan.recipes) for output in plan.outputs)
    if people is not None and figures > FIGURES_PER_PERSON * people:
        yield Notice(
            "many figures",
            "outputs",
            f"{figures} figures about {people} people: if they were accurate, the table could be rebuilt from them, so they cannot be. "
            "Publish the few that matter",
        )


def joins(plan: JobPlan) -> Iterator[Notice]:
    """Private tables joined on something."""
    private = {name for name, source in plan.job.sources.items() if not source.public}
    for place, output in enumerate(plan.outputs):
        try:
            tables = {table.name for table in parse_one(output.spec.sql, read="duckdb").find_all(exp.Table)}
        except SqlglotError:
            continue
        if len(tables & private) > 1:
            yield Notice(
                "private join",
                f"outputs[{place}].sql",
                "joins private tables: one person's rows multiply, so caps cut more off; "
                "publish from each table where that answers the question",
            )


def exact_wanted(plan: JobPlan) -> Iterator[Notice]:
    """An accuracy that only exact figures have."""
    for place, output in enumerate(plan.outputs):
        wanted = output.spec.accuracy
        if wanted is None:
            continue
        goals = wanted.within.values() if isinstance(wanted.within, dict) else [wanted.within]
        counted = [r for r in output.plan.recipes if r.aggregate.kind.startswith("count")]
        if counted and min(exact("within", goal) for goal in goals) < 1:
            yield Notice(
                "exact figures",
                f"outputs[{place}].accuracy",
                "a count within less than 1 is an exact count: it changes when one person's data do, and that is what must not be seen. "
                "Ask which error would still do",
            )


def unknown_sizes(plan: JobPlan) -> Iterator[Notice]:
    """Predictions without sizes."""
    if plan.job.expected.people is None:
        yield Notice(
            "sizes not declared", "expected", "without expected.people and expected.rows, delta and the size of groups cannot be judged"
        )


RULES: tuple[Callable[[JobPlan], Iterator[Notice]], ...] = (
    few_people, large_epsilon, large_delta, noisy, rare_keys, free_text, many_groups, many_figures, joins, exact_wanted, unknown_sizes,
)  # fmt: skip
