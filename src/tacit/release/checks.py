"""Soundness of what is about to be published. Checks read released figures and public parameters only, so they cost nothing.

One output that fails holds the whole release: publishing the good part would tell which part was not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tacit.release.errors import CheckFailed
from tacit.release.planning import JobPlan, OutputPlan
from tacit.tables.answer import Answer


@dataclass(frozen=True)
class Finding:
    """One check of one output, and whether it passed."""

    output: str
    check: str
    passed: bool

    def __str__(self) -> str:
        return f"{self.output}: {self.check}: {'passed' if self.passed else 'FAILED'}"


def findings(output: OutputPlan, answer: Answer) -> list[Finding]:
    """Every check of one output."""
    found: list[tuple[str, bool]] = []
    names = [recipe.aggregate.name for recipe in output.plan.recipes]
    question = output.plan.question
    keys = [key.name for key in question.keys]
    if question.outputs:
        found.append(("has the columns that were asked for", {*answer.keys, *answer.figures} == {shown.name for shown in question.outputs}))
    else:
        found.append(("has the figures that were asked for", list(answer.figures) == names))
        found.append(("has the keys that were asked for", list(answer.keys) == keys))
    shape = all(len(values) == answer.rows for values in answer.keys.values())
    for figures in answer.figures.values():
        shape = shape and len(figures.value) == len(figures.low) == len(figures.high) == answer.rows
    found.append(("every column has a value for every group", shape))
    groups = list(zip(*answer.keys.values(), strict=False)) if keys else [()]
    shortened = question.having is not None or question.limit is not None or question.offset > 0
    if not question.outputs:
        found.append(("no group appears twice", len(set(groups)) == len(groups)))
    if not output.private_keys and not question.outputs and not shortened:
        wanted = output.plan.keys.groups(range(output.groups), [()] * output.groups) if keys else [()]
        found.append(("every declared group is there", set(groups) == set(wanted)))
    # what is computed of several figures may have no value (a ratio of nothing), so only the figures themselves must have one
    for name, figures in ((name, figures) for name, figures in answer.figures.items() if name in names):
        ends = (figures.low, figures.value, figures.high)
        found.append((f"{name} is finite everywhere", all(bool(np.isfinite(part).all()) for part in ends)))
        found.append((f"{name} lies in its interval", bool(((figures.low <= figures.value) & (figures.value <= figures.high)).all())))
    for name, allowed in output.spec.checks.items():
        least, most = (other if end is None else end for end, other in ((allowed.least, -np.inf), (allowed.most, np.inf)))
        value = answer.figures[name].value
        found.append((f"{name} is between {least:g} and {most:g}", bool(((value >= least) & (value <= most)).all())))
    return [Finding(output.name, check, passed) for check, passed in found]


def passed(plan: JobPlan, answers: Mapping[str, Answer]) -> tuple[Finding, ...]:
    """All checks of all outputs; one failure stops the publication."""
    found = [finding for output in plan.outputs if output.name in answers for finding in findings(output, answers[output.name])]
    failed = [finding for finding in found if not finding.passed]
    if failed:
        raise CheckFailed(
            f"{failed[0].output!r} failed the check '{failed[0].check}'; nothing is published, and what was spent stays spent",
            place="outputs",
        )
    return tuple(found)
