"""Six questions before anything is trained or published (section 13.1.1 of the textbook), as a form that a job answers.

A job may have a `preparation` block, and one that trains a model is told when it has none. Each question has an answer in words
and the decisions that a program can hold the job to; none has a default. What contradicts the rest of the job is refused when it is read;
what the plan cannot keep is a warning. The answers are in the plan, in the report and in release.json, with what was checked.
The service's page of models asks the same six.

>>> told = Preparation.model_validate({
...     "unit": {"answer": "a patient with all visits", "protects": "person"},
...     "complexity": {"answer": "counts by region are enough", "baseline": "none"},
...     "attack_model": {"answer": "anyone may read the tables", "sees": "everything", "inputs": "trusted"},
...     "environment": {"answer": "a server of the hospital", "logs": "curator"},
...     "data_window": {"answer": "visits of 2025, once", "again": "never"},
...     "accuracy_needed": {"answer": "beds are planned in tens", "within": {"by_region.visits": 20}},
... })
>>> told.unit.protects, list(QUESTIONS) == list(type(told).model_fields)
('person', True)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, StringConstraints

from tacit.exact import exact
from tacit.release.errors import JobError
from tacit.release.job_parts import JobPart, Number
from tacit.release.kinds import Notice

if TYPE_CHECKING:
    from tacit.release.job import Job
    from tacit.release.planning import JobPlan

#: The questions, with what a good answer says.
QUESTIONS: Mapping[str, tuple[str, str]] = {
    "unit": ("Whose privacy?", "One record, one person with all their records, or a household."),
    "complexity": ("How complex must it be?", "Say which simple baseline was tried: a table with GROUP BY, or a linear model."),
    "attack_model": ("Against whom?", "Who sees the model: its answers only, or its weights; who may feed it inputs; how often."),
    "environment": ("Where is it trained and run?", "Who sees logs, crashes, statistics and earlier versions."),
    "data_window": ("Which data, from when?", "All of history each week, and last month only, are different promises."),
    "accuracy_needed": ("How exact must it be?", "And what a wrong answer would do to whom."),
}
#: What follows from each decision, for the report.
FOLLOWS: Mapping[tuple[str, str, str], str] = {
    ("attack_model", "sees", "everything"): "the guarantee is for readers who see all that is published, weights included",
    ("attack_model", "sees", "answers"): "the guarantee holds even where all of it is handed over, so also for answers",
    ("attack_model", "inputs", "trusted"): "rows are taken to come from people themselves",
    ("attack_model", "inputs", "anyone"): (
        "an attacker who puts rows in learns no more about another person than the guarantee says, and may spoil what is published"
    ),
    ("environment", "logs", "curator"): "logs and errors hold no value of the data, and stay with the curator",
    ("environment", "logs", "shared"): (
        "logs and errors hold no value of the data; statistics or rehearsals on real rows that are shared are releases, to be paid for"
    ),
    ("data_window", "again", "never"): "one release of these data",
    ("data_window", "again", "new data"): "each release reads rows of its own; a person who is in several loses something in each",
    ("data_window", "again", "same data"): "each release reads the same people again, and the account adds all of them up",
}
_CLOSED: Mapping[str, str] = {"row": "one row", "person": "all of a person's rows", "edge": "one edge", "load": "one load"}
Sentence = Annotated[str, StringConstraints(min_length=1, max_length=2_000, strip_whitespace=True)]


class UnitAnswer(JobPart):
    """Whose privacy; `protects` must be what the job's unit protects."""

    answer: Sentence
    protects: Literal["row", "person", "edge", "load"]


class ComplexityAnswer(JobPart):
    """`baseline` names an output of the job that is simple, or is none."""

    answer: Sentence
    baseline: str = Field(min_length=1, max_length=200)


class AttackAnswer(JobPart):
    """What an attacker sees, and whether inputs can be trusted."""

    answer: Sentence
    sees: Literal["answers", "everything"]
    inputs: Literal["trusted", "anyone"]


class EnvironmentAnswer(JobPart):
    """Who sees logs."""

    answer: Sentence
    logs: Literal["curator", "shared"]


class WindowAnswer(JobPart):
    """Whether the same people will be released again."""

    answer: Sentence
    again: Literal["never", "new data", "same data"]


class AccuracyAnswer(JobPart):
    """How far figures may be off, such as {by_region.visits: 20}, with the publication's confidence; {} where no limit can be told."""

    answer: Sentence
    within: dict[str, Number]


class Preparation(JobPart):
    """The six answers."""

    unit: UnitAnswer
    complexity: ComplexityAnswer
    attack_model: AttackAnswer
    environment: EnvironmentAnswer
    data_window: WindowAnswer
    accuracy_needed: AccuracyAnswer


def agree(job: Job) -> None:
    """Refuse answers that the rest of the job contradicts. It looks at the job alone."""
    told = job.preparation
    assert told is not None
    protected = "row" if job.unit.row else "edge" if job.unit.edge is not None else "load" if job.unit.load is not None else "person"
    if told.unit.protects != protected:
        raise JobError(
            f"{_CLOSED[told.unit.protects]} cannot be what is protected: the job's unit protects {_CLOSED[protected]}; change one",
            place="preparation.unit.protects",
        )
    simple = {output.name for output in job.outputs if not getattr(output, "grows", False)}  # every model but one of trees is linear
    if told.complexity.baseline not in {"none", *simple}:
        raise JobError(
            f"must be none, or an output that is a table or a linear model: {', '.join(sorted(simple)) or 'this job has none'}",
            place="preparation.complexity.baseline",
        )
    if told.data_window.again == "never" and job.series is not None:
        raise JobError("says never, and the job is a series, which is made again every period", place="preparation.data_window.again")
    if told.data_window.again == "same data" and job.series is None and job.account is None:
        raise JobError(
            "the same data are released again, so all releases need one account that adds them up: write account or series",
            place="preparation.data_window.again",
        )
    names = {output.name for output in job.outputs}
    for name in told.accuracy_needed.within:
        if name.partition(".")[0] not in names or not name.partition(".")[2]:
            raise JobError(
                f"{name!r} is no output and figure, such as {sorted(names)[0]}.n", place="preparation.accuracy_needed.within"
            )  # fmt: skip


def accuracy(plan: JobPlan) -> Iterator[tuple[str, float, float | None]]:
    """Each figure that has a limit, the limit, and how far the plan foretells it to be off; None where there is no such figure."""
    if plan.job.preparation is None:
        return
    for name, limit in plan.job.preparation.accuracy_needed.within.items():
        output, _, figure = name.partition(".")
        yield name, float(exact("within", limit)), dict(plan[output].errors).get(figure)


def unprepared(plan: JobPlan) -> Iterator[Notice]:
    """A model without the six answers or without a baseline, and limits that the plan does not keep."""
    trains = any(output.spec.kind == "model" for output in plan.outputs)
    told = plan.job.preparation
    if told is None:
        if trains:
            yield Notice(
                "six questions", "preparation",
                f"a model is trained, and the questions before it are not answered: {', '.join(QUESTIONS)}. docs/jobs.md has the form",
            )  # fmt: skip
        return
    if trains and told.complexity.baseline == "none":
        yield Notice(
            "no baseline", "preparation.complexity.baseline",
            "a table with GROUP BY, or a linear model, is often enough and cheaper; add one as an output and compare",
        )  # fmt: skip
    for name, limit, foretold in accuracy(plan):
        place = f"preparation.accuracy_needed.within.{name}"
        if foretold is None:
            known = ", ".join(f"{name.partition('.')[0]}.{figure}" for figure in plan[name.partition(".")[0]].errors) or "none"
            yield Notice("accuracy unknown", place, f"nothing is foretold about this figure; foretold are {known}")
        elif foretold > limit:
            text = f"foretold to be off by {foretold:.4g}, and {limit:g} is needed; raise the budget or its share"
            yield Notice("accuracy missed", place, text)


def described_preparation(plan: JobPlan) -> list[dict[str, Any]]:
    """Questions, answers and what follows, for plan, report and release.json."""
    told = plan.job.preparation
    assert told is not None
    found = []
    for name, (question, _) in QUESTIONS.items():
        part = getattr(told, name)
        facts = [words for (where, field, value), words in FOLLOWS.items() if where == name and getattr(part, field) == value]
        if name == "unit":
            facts = [f"checked: the job's unit protects {_CLOSED[told.unit.protects]}"]
        elif name == "complexity":
            facts = [f"simple baseline: {told.complexity.baseline}"]
        elif name == "accuracy_needed":
            facts = [_judged(*one) for one in accuracy(plan)] or ["no limit was set"]
        found.append({"name": name, "question": question, "answer": part.answer, "follows": facts})
    return found


def _judged(name: str, limit: float, foretold: float | None) -> str:
    if foretold is None:
        return f"{name}: {limit:g} is needed, and nothing is foretold about it"
    return f"{name}: {limit:g} is needed, {foretold:.4g} is foretold: {'met' if foretold <= limit else 'NOT met'}"
