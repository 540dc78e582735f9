"""Rehearsals: a job repeated on dummy or public data, its errors by group and subgroup, beside what is done without privacy.

The errors are split into what the caps and bounds cut off, what the noise adds, and what post-processing changes; the three add up. The
baselines are a 40% sample of people, as some statistical offices publish, and suppression of groups of fewer than 25 people; neither
protects anybody (Desfontaines and Task, on benchmarks). Everything is drawn in test mode, so nothing of a rehearsal is private: hence no
real data.

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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp, parse_one

from tacit import noise
from tacit.release.desk import answered
from tacit.release.errors import JobError
from tacit.release.job import Job
from tacit.release.planning import OutputPlan, plan
from tacit.release.sources import opened
from tacit.tables.answer import MARK
from tacit.tables.engines.engine import Engine
from tacit.tables.figures import figures
from tacit.tables.released import integers, release

SAMPLE = 0.4
SUPPRESSED = 25
#: Data that a rehearsal may be about: what it computes is not private.
ROLES = ("dummy", "public")
_SCALED = ("count", "count_value", "count_person", "sum")


@dataclass(frozen=True)
class Line:
    """One figure of one group: the truth, and mean errors over all runs. `suppressed` is whether the second baseline drops the group.

    `cut` + `noise` + `post` is the mean error of the release; `size` is its root mean square, and `sample` that of a 40% sample.
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
    """All lines, and their summaries. Marked: a rehearsal is not private."""

    job: Job
    runs: int
    lines: tuple[Line, ...]
    mark: str = MARK

    def overall(self) -> dict[tuple[str, str], dict[str, float]]:
        """Mean sizes of errors for each figure, of the release and of both baselines."""
        return {key: _summary(lines) for key, lines in _grouped(self.lines, lambda line: (line.output, line.figure)).items()}

    def by(self, output: str, key: str) -> dict[Any, dict[str, dict[str, float]]]:
        """The same for each value of one key column: who pays for the noise."""
        lines = [line for line in self.lines if line.output == output]
        names = self._keys[output]
        if key not in names:
            raise JobError(f"{key!r} is no key of {output!r}; there are {', '.join(names) or 'none'}")
        place = names.index(key)
        found: dict[Any, dict[str, dict[str, float]]] = {}
        for (value, figure), some in _grouped(lines, lambda line: (line.group[place], line.figure)).items():
            found.setdefault(value, {})[figure] = _summary(some)
        return found

    @property
    def _keys(self) -> dict[str, list[str]]:
        from tacit.release.desk import Desk
        from tacit.release.sources import blank

        desk = Desk(self.job, blank(self.job))
        return {spec.name: [key.name for key in desk.question(i).keys] for i, spec in enumerate(self.job.outputs)}


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
    engine = opened(job, Path(), tables).engine
    person = job.unit.person
    random = np.random.default_rng(edition)
    found: list[Line] = []
    # NaN is no value in a release, so it is none in the truth.
    known = {name: pa.table({c: _known(table.column(c)) for c in table.column_names}) for name, table in tables.items()}
    truth = opened(job, Path(), known).engine
    samples = [opened(job, Path(), _sampled(job, known, person, random)).engine for _ in range(min(runs, 10))]
    for output in plan(job, engine).outputs:
        question = output.plan.question
        # what is computed of figures, cut short or selected is judged by the figures it is made of
        if not (output.private_keys or question.outputs or question.having is not None or question.limit is not None):
            found.extend(_lines(output, job, engine, truth, samples, runs, edition))
    return Rehearsal(job, runs, tuple(found))


def _sampled(job: Job, tables: Mapping[str, pa.Table], person: str | None, random: np.random.Generator) -> dict[str, pa.Table]:
    """40% of the people of every private table (of the rows, where a row is the unit)."""
    kept: dict[Any, bool] = {}
    found = {}
    for name, table in tables.items():
        if name in job.sources and not job.sources[name].public:
            if person is not None and person in table.column_names:
                people = table.column(person).to_pylist()
                for one in people:
                    if one not in kept:
                        kept[one] = bool(random.random() < SAMPLE)
                mask = [kept[one] for one in people]
            else:
                mask = (random.random(table.num_rows) < SAMPLE).tolist()
            table = table.filter(pa.array(mask, pa.bool_()))
        found[name] = table
    return found


def _known(column: Any) -> Any:
    return pc.if_else(pc.is_nan(column), None, column) if pa.types.is_floating(column.type) else column


def _lines(output: OutputPlan, job: Job, engine: Engine, known: Engine, samples: list[Engine], runs: int, edition: int) -> Iterator[Line]:
    planned = output.plan
    groups = planned.keys.groups(range(output.groups), [()] * output.groups) if planned.keys.keys else [()]
    names = [recipe.aggregate.name for recipe in planned.recipes]
    kinds = {recipe.aggregate.name: recipe.aggregate.kind for recipe in planned.recipes}
    truth = _true(output, known, groups)
    people = _people(output, job, known, groups)
    cut = {name: np.zeros(len(groups)) for name in names}
    noisy, post, square, covered = ({name: np.zeros(len(groups)) for name in names} for _ in range(4))
    for number in range(runs):
        exact = integers(engine.run(planned.statement(engine, edition * 1_000_003 + number)), planned)
        plain = figures(planned, exact.sums, job.publication.confidence)
        with noise.test_mode(edition + number):
            drawn = release(exact, planned)
        answer = answered(planned, drawn, output.spec, job.publication.confidence, False, None)
        raw = answer.raw_figures or answer.figures
        for name in names:
            cut[name] += (plain[name].value - truth[name]) / runs
            noisy[name] += (raw[name].value - plain[name].value) / runs
            post[name] += (answer.figures[name].value - raw[name].value) / runs
            square[name] += (answer.figures[name].value - truth[name]) ** 2 / runs
            covered[name] += ((raw[name].low <= truth[name]) & (truth[name] <= raw[name].high)) / runs
    sampled = {name: np.zeros(len(groups)) for name in names}
    for one in samples:
        values = _true(output, one, groups)
        for name in names:
            guess = values[name] / SAMPLE if kinds[name] in _SCALED else values[name]
            sampled[name] += np.nan_to_num(guess - truth[name], nan=0.0) ** 2 / len(samples)
    for place, group in enumerate(groups):
        for name in names:
            if math.isfinite(truth[name][place]):
                yield Line(
                    output.name, name, group, people[place], float(truth[name][place]), float(cut[name][place]), float(noisy[name][place]),
                    float(post[name][place]), math.sqrt(square[name][place]), float(covered[name][place]), math.sqrt(sampled[name][place]),
                    people[place] < SUPPRESSED,
                )  # fmt: skip


def _true(output: OutputPlan, engine: Engine, groups: list[tuple[Any, ...]]) -> dict[str, Any]:
    """The figures without privacy; a count of nobody is 0, a mean of nobody is unknown."""
    table = engine.run(_plain(output.spec.sql, engine)).to_pylist()
    keys = [key.name for key in output.plan.question.keys]
    rows = {tuple(row[name] for name in keys): list(row.values()) for row in table}
    names = list(table[0]) if table else []
    found: dict[str, Any] = {}
    for recipe in output.plan.recipes:
        name = recipe.aggregate.name
        empty = 0.0 if recipe.aggregate.kind in _SCALED or recipe.aggregate.kind.startswith("count") else math.nan
        place = names.index(name) if name in names else None
        found[name] = np.array([_number(rows[g][place]) if place is not None and g in rows else empty for g in groups])
    return found


def _people(output: OutputPlan, job: Job, engine: Engine, groups: list[tuple[Any, ...]]) -> list[int]:
    """How many people are in each group."""
    tree = _plain(output.spec.sql, engine)
    person = job.unit.person
    counted: exp.Expression = exp.Count(this=exp.Star())
    if person is not None:
        counted = exp.Count(this=exp.Distinct(expressions=[exp.column(person, quoted=True)]))
    keys = [key.name for key in output.plan.question.keys]
    kept = [part for part in tree.expressions if part.alias_or_name in keys]
    tree.set("expressions", [*kept, exp.alias_(counted, "people_", quoted=True)])
    for clause in ("having", "order", "limit"):
        tree.set(clause, None)
    rows = {tuple(row[name] for name in keys): int(row["people_"]) for row in engine.run(tree).to_pylist()}
    return [rows.get(group, 0) for group in groups]


def _plain(sql: str, engine: Engine) -> exp.Expression:
    """The output's own SQL, to be run as it stands."""
    found: Any = parse_one(sql, read=engine.dialect)
    return found  # type: ignore[no-any-return]


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


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
