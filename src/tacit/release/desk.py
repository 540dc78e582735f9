"""The desk where a job's questions are planned, drawn and made into answers: the one place where jobs and tables meet.

A session pays for each question by itself. A job pays once for all of them, so the desk takes the same steps (plan, statement, integers,
noise, figures) without an account.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from sqlglot import exp

from tacit import noise
from tacit.accounting import AccountingError, Guarantee, Note
from tacit.exact import exact
from tacit.ledger import LedgerError, days
from tacit.release.errors import JobError, OutputFailed
from tacit.release.faults import WORDS, in_job
from tacit.release.job import Job
from tacit.release.job_parts import OutputSpec
from tacit.tables import outputs
from tacit.tables import plan as plans
from tacit.tables.answer import Answer
from tacit.tables.engines.engine import Engine
from tacit.tables.errors import TableError
from tacit.tables.plan import Plan, Settings
from tacit.tables.question import Asked, Question
from tacit.tables.relation import Catalog, Table
from tacit.tables.released import Released, integers, release
from tacit.tables.sql import parse
from tacit.tables.statement import salt_marked

#: The delta that a price in rho is also told at, in epsilon.
SHOWN_DELTA = Fraction(1, 10**6)


@contextmanager
def placed(place: str) -> Iterator[None]:
    """What the planner refuses, as an error of the job that says where."""
    try:
        yield
    except (TableError, LedgerError, AccountingError) as error:
        raise in_job(error, place) from None


@dataclass(frozen=True)
class Desk:
    """A job's tables on one engine."""

    job: Job
    engine: Engine

    def question(self, place: int) -> Question:
        """One output's question, read once."""
        if place not in self._read:
            self._read[place] = self._parsed(place)
        return self._read[place]

    @property
    def dialect(self) -> str:
        """The SQL that the outputs are written in: the job's, or the engine's own."""
        return self.job.dialect or self.engine.dialect

    @cached_property
    def _read(self) -> dict[int, Question]:
        return {}

    def _parsed(self, place: int) -> Question:
        with placed(f"outputs[{place}].sql"):
            found = parse(self.job.outputs[place].sql, self.dialect, self.catalog)
        if found.asked != Asked():
            raise JobError("price and unit are the job's, not the question's; leave OPTIONS out", place=f"outputs[{place}].sql")
        return found

    @cached_property
    def catalog(self) -> Catalog:
        """The job's tables; their columns are read once, and no row of a private one."""
        unit = self.job.unit.typed()
        with placed("sources"):
            columns = {name: self.engine.columns(exp.to_table(name, quoted=True)) for name in self.job.sources}
            tables = {name: Table(columns[name], public=source.public) for name, source in self.job.sources.items()}
        return Catalog(tables, unit, self._counted, salt_marked(self.engine), self.job.schema_().links)

    def _counted(self, statement: exp.Select) -> int:
        """A number about public tables only; at least 1, because a plan is also made where public tables are not there yet."""
        return max(1, int(self.engine.run(statement).column(0).to_pylist()[0] or 0))

    def keys(self, place: int, question: Question) -> dict[str, Any]:
        """The public values of each key, None for those to be selected privately. What is neither declared nor 'private' is refused."""
        spec, categories = self.job.outputs[place], self.job.schema_().categories_of(question, self.catalog.columns)
        given: Mapping[str, Any] = spec.keys if isinstance(spec.keys, dict) else {}
        names = [key.name for key in question.keys]
        unknown = [name for name in (spec.keys if isinstance(spec.keys, (dict, tuple)) else ()) if name not in names]
        if unknown:
            raise JobError(f"names {unknown[0]!r}, which the question is not grouped by", place=f"outputs[{place}].keys")
        found: dict[str, Any] = {}
        for name, listed in zip(names, (key.listed for key in question.keys), strict=True):
            if listed is not None:
                found[name] = listed
            elif spec.keys == "private" or given.get(name) == "private":
                found[name] = None
            elif name in given:
                found[name] = given[name]
            elif name in categories:
                found[name] = categories[name]
            else:
                raise JobError(
                    f"the values of {name!r} are in the data; list them under columns.{name}.categories or keys.{name}, "
                    f"or write keys: {{{name}: private}} to have them selected privately",
                    place=f"outputs[{place}].keys",
                )
        return found

    def plan(self, place: int, spend: Guarantee, law: str | None = None) -> Plan:
        """The plan of one output at a price."""
        spec = self.job.outputs[place]
        question = self.question(place)
        with placed(f"outputs[{place}]"):
            span = None if self.job.unit.window is None else days(self.job.unit.window, self.job.period or "")
            weights = {name: exact(f"weights[{name!r}]", value) for name, value in spec.weights.items()}
            computed = {name: (exact("bound", low), exact("bound", high)) for name, (low, high) in spec.bounds.items()}
            declared = self.job.schema_().bounds_of(question, self.catalog.columns)
            settings = Settings({**declared, **computed}, self.keys(place, question), weights, law, spec.loss, span)
            return plans.make(question, self.job.unit.typed(), self.engine, settings, spend)

    def draw(self, plan: Plan) -> Released:
        """Touch the data and add the noise. What fails here fails without a word about why: the reason may be in the data."""
        released: Released | None = None
        try:
            statement = plan.statement(self.engine, noise.uniform_integers(2**60))
            released = release(integers(self.engine.run(statement), plan), plan)
        except Exception:
            released = None
        if released is None:
            raise OutputFailed(code="output-failed")
        return released


def answered(plan: Plan, released: Released, spec: OutputSpec, confidence: float, private: bool, entry: int | None) -> Answer:
    """The answer that a draw amounts to, post-processed as the job says. Nothing here touches the data."""
    delta = plan.spend.delta or SHOWN_DELTA if plan.selection is not None or plan.split.law == "gaussian" else Fraction(0)
    found = outputs.answer_of(plan, released, delta=delta, confidence=confidence, private=private, entry=entry)
    found = replace(found, notes=tuple(note.said(WORDS) if isinstance(note, Note) else note for note in found.notes))
    post = spec.postprocess
    return found.finished(nonnegative=post.nonnegative, whole=post.whole) if post.nonnegative or post.whole else found
