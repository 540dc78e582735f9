"""Rehearsals: a job repeated on dummy or public data, its errors by group and subgroup, beside what is done without privacy.

The errors are split into what the caps and bounds cut off, what the noise adds, and what post-processing changes; the three add up. The
baselines are a 40% sample of people, as some statistical offices publish, and suppression of groups of fewer than 25 people; neither
protects anybody (Desfontaines and Task, on benchmarks). Where the job protects rows, edges or nodes, "people" are those (see `baselines`).
Everything is drawn in test mode, so nothing of a rehearsal is private: hence no real data.

>>> from tacit.release.job import EXAMPLE, parse
>>> import pyarrow as pa
>>> table = pa.table({"patient_id": list(range(600)), "region": ["north"] * 500 + ["south"] * 100})
>>> found = rehearse(parse(EXAMPLE), {"visits": table}, data="dummy", runs=5)
>>> [(line.group, line.truth) for line in found.lines]
[(('north',), 500.0), (('south',), 100.0)]
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from tacit import noise
from tacit.release.baselines import SAMPLE, SUPPRESSED, beyond, chance, keys_of, owners_of, plain, sampled, units_in
from tacit.release.errors import JobError
from tacit.release.job import Job
from tacit.release.kinds.table import TablePlan, answered
from tacit.release.planning import plan
from tacit.release.sources import opened
from tacit.tables.answer import MARK
from tacit.tables.engines.engine import Engine
from tacit.tables.errors import EngineError
from tacit.tables.figures import columns
from tacit.tables.plan import Plan
from tacit.tables.released import Exact, Released, integers, release

#: Data that a rehearsal may be about: what it computes is not private.
ROLES = ("dummy", "public")


@dataclass(frozen=True)
class Line:
    """One figure of one group: the truth, and mean errors over all runs. `suppressed` is whether the second baseline drops the group.

    `people` counts the job's units. `cut` + `noise` + `post` is the mean error of the release; `size` is its root mean square, and
    `sample` that of a 40% sample.
    """

    output: str
    figure: str
    group: tuple[Any, ...]
    people: int
    truth: float
    cut: float
    noise: float
    post: float
    size: float
    covered: float
    sample: float
    suppressed: bool


@dataclass(frozen=True)
class Rehearsal:
    """All lines, and their summaries; `left_out` says of each output that was not compared why, and `broken` which declared caps the data
    break. Marked: it is not private."""

    job: Job
    runs: int
    lines: tuple[Line, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    broken: tuple[str, ...] = ()
    mark: str = MARK

    @property
    def unit(self) -> str:
        """Whom errors and baselines are about, in one word: people, rows, edges or nodes."""
        return _many(self.job.unit.typed().noun)

    def overall(self) -> dict[tuple[str, str], dict[str, float]]:
        """Mean sizes of errors for each figure, of the release and of both baselines."""
        return {key: _summary(lines) for key, lines in _grouped(self.lines, lambda line: (line.output, line.figure)).items()}

    def by(self, output: str, key: str) -> dict[Any, dict[str, dict[str, float]]]:
        """The same for each value of one key column: who pays for the noise."""
        names = self.keys.get(output)
        if names is None:
            raise JobError(f"{output!r} is no output of the job; there are {', '.join(self.keys)}")
        if key not in names:
            raise JobError(f"{key!r} is no key of {output!r}; there are {', '.join(names) or 'none'}")
        lines = [line for line in self.lines if line.output == output]
        place = names.index(key)
        found: dict[Any, dict[str, dict[str, float]]] = {}
        for (value, figure), some in _grouped(lines, lambda line: (line.group[place], line.figure)).items():
            found.setdefault(value, {})[figure] = _summary(some)
        return found

    @cached_property
    def keys(self) -> dict[str, list[str]]:
        """The key columns of every output."""
        return keys_of(self.job)


def rehearse(job: Job, tables: Mapping[str, pa.Table], *, data: str, runs: int = 20, edition: int = 1) -> Rehearsal:
    """Run a job's outputs so many times on tables that are nobody's (`data='dummy'`) or known to everybody (`data='public'`)."""
    if data not in ROLES:
        raise JobError(
            f"data must be {' or '.join(repr(role) for role in ROLES)}: a rehearsal prints true figures, so it is not for private data"
        )
    if isinstance(runs, bool) or not isinstance(runs, int) or not 1 <= runs <= 10_000:
        raise JobError(f"runs must be a whole number between 1 and 10000, not {runs!r}")
    missing = [name for name in job.sources if name not in tables]
    if missing:
        raise JobError(f"tables must have {missing[0]!r}", place=f"sources.{missing[0]}")
    source = opened(job, Path(), tables)
    random = np.random.default_rng(edition)
    # NaN is no value in a release, so it is none in the truth.
    known = {name: pa.table({c: _known(table.column(c)) for c in table.column_names}) for name, table in tables.items()}
    truth = opened(job, Path(), known).engine
    owners = owners_of(job, known)
    samples = [
        opened(job, Path(), sampled(known, owners, lambda count: random.random(count) < SAMPLE)).engine for _ in range(min(runs, 10))
    ]
    found: list[Line] = []
    left_out: dict[str, str] = {}
    for output in plan(job, source).outputs:
        if not isinstance(output, TablePlan):
            left_out[output.spec.name] = f"it is no table but {output.spec.kind}, so there are no groups to compare"
            continue
        names, why = _figures(output)
        try:
            found.extend(_lines(_whole(output), names, job, source.engine, truth, samples, runs, edition))
        except EngineError:
            why = "its SQL means something only to a private question, so there is no truth to compare with"
        if why:
            left_out[output.name] = why
    broken = tuple(_broken(job, name, *numbers) for name, numbers in beyond(job, owners).items())
    return Rehearsal(job, runs, tuple(found), left_out, broken)


def _broken(job: Job, name: str, units: int, most: int) -> str:
    unit = job.unit.typed()
    said = f"{units:,} {_many(unit.noun)} of {name} have" if units > 1 else f"one {unit.noun} of {name} has"
    return (
        f"capped: true is not true of these data: {said} more than {unit.most_rows} rows, up to {most:,}. If yours are alike, the "
        f"guarantee does not hold: raise max_rows to what is known to hold{'' if unit.person is None else ', or leave capped out'}"
    )


def _many(noun: str) -> str:
    return "people" if noun == "person" else f"{noun}s"


def _known(column: Any) -> Any:
    return pc.if_else(pc.is_nan(column), None, column) if pa.types.is_floating(column.type) else column


def _figures(output: TablePlan) -> tuple[list[str], str]:
    """The figures that are compared, by the names they are shown under; or why none can be."""
    question = output.plan.question
    if output.private_keys:
        return [], "its keys are selected privately, so each run has other groups; declare the keys to compare it"
    if not question.outputs:
        return [recipe.aggregate.name for recipe in output.plan.recipes], ""
    shown = {one.name: one.value for one in question.outputs}
    keys = {key.name for key in question.keys}
    if keys - set(shown):
        return [], "it does not show the columns it is grouped by; select them to compare it"
    return [name for name, value in shown.items() if {node.name for node in value.find_all(exp.Column)} - keys], ""


def _whole(output: TablePlan) -> TablePlan:
    """The output with all its groups in their own order: what HAVING, ORDER BY and LIMIT show differs from run to run."""
    question = replace(output.plan.question, having=None, order=(), limit=None)
    return replace(output, plan=replace(output.plan, question=question))


def _lines(
    output: TablePlan, names: list[str], job: Job, engine: Engine, known: Engine, samples: list[Engine], runs: int, edition: int
) -> Iterator[Line]:
    if not names:
        return
    planned = output.plan
    groups = planned.keys.groups(range(output.groups), [()] * output.groups) if planned.keys.keys else [()]
    truth = _true(output, names, job, known, groups)
    people = units_in(output, job, known)
    cut = {name: np.zeros(len(groups)) for name in names}
    noisy, post, square, covered = ({name: np.zeros(len(groups)) for name in names} for _ in range(4))
    for number in range(runs):
        exact = integers(engine.run(planned.statement(engine, edition * 1_000_003 + number)), planned)
        _, unnoised = columns(planned, _encoded(exact, planned, groups), job.publication.confidence)
        with noise.test_mode(edition + number):
            drawn = release(exact, planned)
        answer = answered(output, drawn, False, None)
        raw = answer.raw_figures or answer.figures
        for name in names:
            value, drew, told = (_there(some[name].value) for some in (unnoised, raw, answer.figures))
            cut[name] += (value - truth[name]) / runs
            noisy[name] += (drew - value) / runs
            post[name] += (told - drew) / runs
            square[name] += (told - truth[name]) ** 2 / runs
            covered[name] += ((raw[name].low <= truth[name]) & (truth[name] <= raw[name].high)) / runs
    sample = {name: np.zeros(len(groups)) for name in names}
    for one in samples:
        guess = _true(output, names, job, one, groups, chance(job))
        for name in names:
            sample[name] += (_there(guess[name]) - truth[name]) ** 2 / len(samples)
    for place, group in enumerate(groups):
        for name in names:
            if math.isfinite(truth[name][place]):
                yield Line(
                    output.name, name, group, people[place], float(truth[name][place]), float(cut[name][place]), float(noisy[name][place]),
                    float(post[name][place]), math.sqrt(square[name][place]), float(covered[name][place]), math.sqrt(sample[name][place]),
                    people[place] < SUPPRESSED,
                )  # fmt: skip


def _there(values: Any) -> Any:
    """Values, and 0 where there is none (a mean of nobody, a ratio of nothing): that is wrong by the whole figure, as suppression is."""
    return np.where(np.isfinite(values), values, 0.0)


def _encoded(exact: Exact, planned: Plan, groups: list[tuple[Any, ...]]) -> Released:
    """What a release would be without noise; the cells of a quantile become the sums that noise is added to."""
    ladders = [(share.measure.ladder, share.law) for share in planned.shares]
    sums = (row if ladder is None else row @ ladder.encoder(law).T for row, (ladder, law) in zip(exact.sums, ladders, strict=True))
    return Released(groups, tuple(sums))


def _true(
    output: TablePlan, names: list[str], job: Job, engine: Engine, groups: list[tuple[Any, ...]], share: float = 1.0
) -> dict[str, Any]:
    """The figures without privacy; a count of nobody is 0, a mean of nobody is unknown."""
    table = engine.run(plain(output, job, share))
    values = {name: table.column(place).to_pylist() for place, name in enumerate(table.column_names)}
    keys = list(zip(*(values.get(key.name, ()) for key in output.plan.question.keys), strict=True)) if groups != [()] else [()]
    places = {key: place for place, key in enumerate(keys)}
    kinds = {recipe.aggregate.name: recipe.aggregate.kind for recipe in output.plan.recipes}
    found: dict[str, Any] = {}
    for name in names:
        kind = kinds.get(name, "")
        empty = 0.0 if kind == "sum" or kind.startswith("count") else math.nan
        found[name] = np.array([_number(values[name][places[g]], empty) if g in places else empty for g in groups])
    return found


def _number(value: Any, empty: float) -> float:
    return empty if value is None or isinstance(value, (str, bytes)) else float(value)


def _grouped(lines: Any, key: Any) -> dict[Any, list[Line]]:
    found: dict[Any, list[Line]] = {}
    for line in lines:
        found.setdefault(key(line), []).append(line)
    return found


def _summary(lines: list[Line]) -> dict[str, float]:
    """Mean sizes of errors; a suppressed group is counted as its whole figure, and a kept one as exact."""
    count = len(lines)
    return {
        "groups": float(count),
        "error": math.fsum(line.size for line in lines) / count,
        "cut": math.fsum(abs(line.cut) for line in lines) / count,
        "coverage": math.fsum(line.covered for line in lines) / count,
        "sample error": math.fsum(line.sample for line in lines) / count,
        "suppression error": math.fsum(abs(line.truth) for line in lines if line.suppressed) / count,
        "suppressed": sum(line.suppressed for line in lines) / count,
    }


__all__ = ["Line", "Rehearsal", "rehearse"]
