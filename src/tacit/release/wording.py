"""The report's words: what was promised, to whom, what was not, and what a reviewer asks. Made from public parameters only.

Whatever is rounded is rounded against us: an epsilon up, the reach of an attack up.

>>> from tacit.tables.unit import Unit
>>> short(Unit("patient_id", max_rows=12)), cap(Unit("patient_id", max_rows=12))
('each person (patient_id)', 'at most 12 rows of one person, chosen at random, count')
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit.accounting import Adjacency, Bound, Composed, Cost, Event, Gaussian, attack_rate, rounded_up
from tacit.release.planning import JobPlan, OutputPlan
from tacit.tables.unit import Unit

Record = dict[str, Any]

RELATIONS = {
    Adjacency.ADD_REMOVE: "add or remove: {unit} is in the data or is not; the number of rows is protected too",
    Adjacency.REPLACE_ONE: "replace one: the data of {unit} are exchanged for any other; how many there are is taken to be public",
    Adjacency.ZERO_OUT: "zero out: the data of {unit} are blanked; how many there are is taken to be public",
}


def promise(cost: Cost, found: Bound, delta: float, unit: Unit) -> Record:
    """The guarantee as an attacker meets it. All figures are rounded against us."""
    points = _attack(cost, found.upper, delta)
    posterior = cost.posterior(0.5).upper
    rate = min(_reach(points, 0.01), 1.0)
    who = one(unit)
    words = [
        f"Whoever sees these tables learns almost the same about {who} as if those data had never been collected. "
        "This holds against anyone, with any other knowledge and any computer, now and later.",
        f"ε says how much “almost” is: it bounds by what factor (e^ε, here at most {rounded_up(math.exp(min(found.upper, 700)), 3)}) any "
        "conclusion can become more or less likely because of one participation"
        + (f", except with a probability of about δ = {delta:g}." if delta else "."),
    ]
    return {
        "epsilon": rounded_up(found.upper, 4),
        "delta": f"{delta:g}" if delta else "",
        "posterior": upper_percent(posterior),
        "rate": upper_percent(rate),
        "gdp": _gdp(cost.event, cost),
        "words": words,
        "attack": [[x, y] for x, y in points],
    }


def _attack(cost: Cost, epsilon: float, delta: float) -> list[tuple[float, float]]:
    """An upper bound on the share of members found for each share of outsiders accused.

    What a few (epsilon, delta) allow is a bound that holds, whichever were chosen.
    """
    top = min(epsilon, 30.0) if math.isfinite(epsilon) else 30.0
    known = [(epsilon, delta)] if math.isfinite(epsilon) else []
    known += [(top * k / 10, cost.delta(top * k / 10).upper) for k in range(10)]
    places = [0.0, 0.001, 0.003, 0.01, 0.02, 0.04, *(k / 20 for k in range(1, 21))]
    allowed = attack_rate(np.array(places), *np.array(known).T)
    return [(x, max(x, y)) for x, y in zip(places, allowed.tolist(), strict=True)]


def _reach(points: Sequence[tuple[float, float]], fpr: float) -> float:
    return next(y for x, y in points if x >= fpr)


def _gdp(event: Event, cost: Cost) -> str:
    """mu where every part is Gaussian, so that it is known exactly; other jobs are better told by their curve."""
    parts = event.events if isinstance(event, Composed) else (event,)
    if not all(isinstance(part, Gaussian) for part in parts):
        return ""
    return rounded_up(cost.gdp().mu.upper, 4)


def limits(plan: JobPlan, unit: Unit) -> list[str]:
    """What the guarantee leaves out, in words."""
    bounds = [name for name, column in plan.job.columns.items() if column.bounds is not None]
    lists = [name for name, column in plan.job.columns.items() if column.categories is not None]
    found = [
        "What is true of whole groups. If a table shows that a treatment often fails, that can be concluded about a patient who had it, "
        "whether or not that patient is in the data.",
        "What was declared public: the questions, the names and types of columns"
        + (f", the bounds of {_list(bounds)}" if bounds else "")
        + (f", the possible values of {_list(lists)}" if lists else "")
        + ".",
    ]
    if unit.ends is not None and unit.person is not None:
        found.append("Who takes part at all: each relation between two is protected, and someone with many relations is protected less.")
    elif unit.ends is not None:
        found.append("Groups such as a family: the loss grows with each member.")
    elif unit.person is None:
        found.append("People with more than one row. Each row is protected by itself; a person with several is protected less.")
    else:
        found.append(f"People who go by several values of {unit.person}, or groups such as a family: the loss grows with each member.")
    if unit.capped:
        found.append("Anyone who has more rows than the declared cap: that the data obey it was declared, not enforced.")
    if unit.window is not None:
        found.append(f"A person over time: each {unit.window} is protected by itself, and losses of several add up.")
    if unit.adjacency is Adjacency.REPLACE_ONE:
        found.append("How many people there are: it is taken to be known.")
    found.append("Other releases from the same data add to the loss. The book knows those that were paid from this account, and no others.")
    found.append("The rows themselves: who may read the database, and how long a question takes, are matters of access, not of noise.")
    return found


def clamps(output: OutputPlan) -> list[str]:
    said = []
    for recipe in output.plan.recipes:
        for value, interval in zip((recipe.aggregate.value, recipe.aggregate.other), recipe.intervals, strict=False):
            if value is not None:
                ends = f"{float(interval.lower):g} to {float(interval.upper):g}"
                said.append(
                    f"{value.name or value.sql()} is clamped to its declared bounds, {ends}, before "
                    f"{recipe.aggregate.name} is computed. The intervals are about the clamped values; what lies beyond the bounds moves "
                    "the figure by an amount that they do not show."
                )
    return list(dict.fromkeys(said))


def finishing(output: OutputPlan) -> list[str]:
    post = output.spec.postprocess
    said = []
    if post.nonnegative:
        lifted = "which lifts small figures a little; where that changed a figure, the one released stands beside"
        said.append(f"Below zero, {_list(post.nonnegative)} was set to 0, {lifted}.")
    if post.whole:
        said.append(f"{_list(post.whole)} was rounded to whole numbers.")
    return said


def selection(output: OutputPlan) -> list[str]:
    rule = output.plan.selection
    if rule is None:
        return ["Groups were declared in advance; one that nobody is in shows noise around 0."] if output.plan.question.grouped else []
    return [
        f"Groups were selected privately: one with {rule.people_needed} people appears with an even chance, smaller ones rarely. "
        "That a group is missing does not mean that nobody is in it."
    ]


def budget(plan: JobPlan) -> str:
    limits = ", ".join(f"{name} {_fraction(amount)}" for name, amount in plan.job.budget.typed().limits.items())
    charged = ", ".join(f"{name} {_fraction(amount)}" for name, amount in plan.charge.items())
    return (
        f"The job may spend {limits}; {charged} was booked before any data was touched. It stays booked whatever happens afterwards: "
        "nothing is refunded and no draw is repeated."
    )


def review(plan: JobPlan, unit: Unit, epsilon: float, private: bool) -> list[list[str]]:
    """The hazards of NIST SP 800-226 that this job can answer for, answered from what was planned."""
    people = plan.job.expected.people
    delta = float(plan.delta)
    if not delta:
        small = "δ is 0."
    elif people is None:
        small = f"δ = {delta:g}. It should be well below one over the number of people, which the job does not declare."
    else:
        small = f"δ = {delta:g}; times the {people:,} people declared that makes {delta * people:.2g}, which should be well below 1."
    keys = "selected privately" if any(output.private_keys for output in plan.outputs) else "declared in advance"
    large = ": too large to promise much." if epsilon > 10 else "."
    return [
        ["Whom does it protect?", f"{short(unit).capitalize()}; {relation(unit)}."],
        ["Is ε meaningful?", f"ε ≤ {rounded_up(epsilon, 4)} for all tables together{large}"],
        ["Is δ small enough?", small],
        ["Are contributions bounded?", f"{cap(unit).capitalize()}."],
        [
            "Do bounds or groups come from the data?",
            f"No bounds do: they are declared in the job. Groups are {keys}; none is taken over from the data without noise.",
        ],
        [
            "Is everything accounted for?",
            "All tables of the job are one event, paid before the data were touched. Looking at the data to choose bounds or questions "
            "would not be accounted for; rehearse on made-up rows instead.",
        ],
        [
            "Can the rounding of numbers leak?",
            "Sums are whole numbers and exact; the noise is drawn on whole numbers"
            + (" from the operating system's entropy." if private else ", here from a seed: NOT PRIVATE."),
        ],
        [
            "Who bears the noise?",
            "Every group of a table gets noise of the same size, so small groups have the larger relative error: see the intervals.",
        ],
        ["Were there warnings?", " ".join(f"{str(notice).rstrip('.')}." for notice in plan.warnings) or "The plan raised none."],
    ]


# --- small words -----------------------------------------------------------------------------------------------------------------------


def relation(unit: Unit) -> str:
    """Which two data sets the guarantee compares."""
    return RELATIONS[unit.adjacency].format(unit=one(unit))


def one(unit: Unit) -> str:
    return f"one {unit.noun}" + (f" within one {unit.window}" if unit.window else "")


def short(unit: Unit) -> str:
    if unit.noun == "row":
        return "each single row"
    return f"each {unit.noun} ({told_by(unit)})" + (f" within one {unit.window}" if unit.window else "")


def told_by(unit: Unit) -> str:
    """Which columns tell one unit from another.

    >>> told_by(Unit.edge("caller", "called", max_rows=2)), told_by(Unit.node(ends=("a", "b"), max_rows=2, capped=True))
    ('caller – called', 'a or b')
    """
    if unit.ends is not None:
        return (" or " if unit.person is None else " → " if unit.directed else " – ").join(unit.ends)
    return unit.person or ""


def cap(unit: Unit) -> str:
    if unit.noun == "row":
        return "one row is one unit"
    caps = [f"at most {unit.max_rows} rows"] if unit.max_rows is not None else []
    if unit.max_groups is not None:
        caps.append(f"at most {unit.max_groups} groups")
    if unit.rows_per_group is not None:
        caps.append(f"at most {unit.rows_per_group} rows a group")
    return f"{' and '.join(caps)} of one {unit.noun}, " + ("as declared" if unit.capped else "chosen at random, count")


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else "".join(names)


def percent(share: float) -> str:
    return f"{100 * share:.6g} %"


def upper_percent(share: float) -> str:
    return f"{rounded_up(min(100.0, 100 * share), 3)} %"


def _fraction(amount: Any) -> str:
    return rounded_up(float(amount), 7)
