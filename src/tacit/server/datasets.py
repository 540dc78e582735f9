"""A data set of the service: the file of a release job, opened once, with an account for each purpose and analyst.

The accounts are a tree in the book: the data set at the top, with the budget of the job's file; below it each purpose
with its own; below that each analyst. What an analyst asks is charged to all three, so analysts who pool what they
learnt have learnt no more than the purpose, and purposes no more than the data set, allows.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.accounting import Refusal
from tacit.ledger import Account, Ledger
from tacit.release import Job, account_for, desk_of, identities, load, opened, tables_for
from tacit.server.config import Configuration, DatasetSpec
from tacit.server.errors import ConfigurationError
from tacit.server.purposes import Purpose
from tacit.tables import Answer, Desk, Engine, LeftOut, Plan, Question, Session, Source, record_of

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

#: The list of people who are left out of a purpose's statements, in the engine of the data.
LISTED = "tacit_left_out_"


class Outside:
    """An engine whose statements about rows run outside of a worker's turn, so that the next question need not wait for them."""

    def __init__(self, engine: Engine, dataset: Dataset) -> None:
        self.engine, self.dataset = engine, dataset

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)  # everything else is the engine's own

    @property
    def dialect(self) -> str:
        """The engine's."""
        return self.engine.dialect

    def run(self, statement: exp.Expression) -> pa.Table:
        """The engine's. To write the text is work of the interpreter, and still done in turn."""
        write: Callable[[exp.Expression], None] | None = getattr(self.engine, "write", None)
        if write is not None:
            write(statement)
        with self.dataset.outside():
            return self.engine.run(statement)


class Dataset:
    """One data set. `Subjects` keeps the lists of people who are left out; without any, every statement reads an empty list."""

    def __init__(self, name: str, spec: DatasetSpec, job: Job, base: Path, source: Source, ledger: Ledger) -> None:
        self.name, self.spec, self.job, self.base, self.source = name, spec, job, base, source
        self.desk = desk_of(job, source)
        known, _ = identities(source, ledger)
        self.account = account_for(job, ledger, known)
        self._accounts: dict[tuple[str, str], Account] = {}  # handles, which are never out of date
        self._sessions: dict[tuple[str, str], Session] = {}
        self._desks: dict[str, Desk] = {}
        self._dummy: Desk | None = None
        self._people: dict[str, str] | None = None
        #: What a worker does around a statement about rows.
        self.outside: Callable[[], AbstractContextManager[None]] = nullcontext

    @staticmethod
    def open(name: str, spec: DatasetSpec, configuration: Configuration, ledger: Ledger) -> Dataset:
        """Read the job's file, open its sources and its account. No row is read, except to know the data by."""
        path = configuration.base / spec.job
        try:
            job = load(path)
            if job.without_rows:
                raise ConfigurationError("a data set of the service is a table; reports and networks are published by release jobs")
            return Dataset(name, spec, job, path.resolve().parent, opened(job, path.resolve().parent), ledger)
        except Refusal as error:
            raise ConfigurationError(f"datasets.{name}: {error.message}").coded_as(error) from None

    # --- what is public -----------------------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        """What people call it."""
        return self.spec.title or self.job.title

    def schema(self) -> list[dict[str, Any]]:
        """The tables and their columns, as the job declares them."""
        return [
            {
                "name": table,
                "public": table in self.source.public,
                "columns": [
                    {
                        "name": name,
                        "type": column.type,
                        "bounds": None if column.bounds is None else list(column.bounds),
                        "categories": None if column.categories is None else [record_of(value) for value in column.categories],
                        "person": name == self.desk.unit.person,
                    }
                    for name, column in self.job.columns_of(table).items()
                ],
            }
            for table in self.job.sources
        ]

    def unit(self) -> dict[str, Any]:
        """Whom the guarantee protects."""
        unit = self.desk.unit
        return {"whom": unit.whom, "noun": unit.noun, "max_rows": None if unit.person is None else unit.most_rows,
                "adjacency": unit.adjacency.value, "window": unit.window}  # fmt: skip

    # --- accounts and sessions ----------------------------------------------------------------------------------------

    def purse(self, purpose: Purpose) -> Account:
        """The account of a purpose, below that of the data set."""
        found = self._accounts.get((purpose.id, ""))
        if found is None:
            budget = purpose.spec.budget(self.account.budget)
            terms = {"collusion": False} if not purpose.spec.collusion else {}
            found = self._accounts[purpose.id, ""] = self.account.child(f"{self.account.name}/{purpose.id}", budget, **terms)
        return found

    def account_of(self, purpose: Purpose, person: str) -> Account:
        """The account of an analyst within a purpose; it answers the same question once."""
        found = self._accounts.get((purpose.id, person))
        if found is None:
            above = self.purse(purpose)
            if len(self._accounts) > 10_000:
                self._accounts.clear()
            found = self._accounts[purpose.id, person] = above.child(f"{above.name}/{person}", above.budget, cache=True)
        return found

    def session(self, purpose: Purpose, person: str) -> Session:
        """A session of an analyst. Answers of today stand for identical questions of today: the calendar is public."""
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        found = self._sessions.get((purpose.id, person))
        if found is None or found.desk.epoch != today:
            desk = replace(self.desk_for(purpose.id), epoch=today)
            found = Session(desk, name=self.name, account=self.account_of(purpose, person), analyst=person)
            if len(self._sessions) > 10_000:
                self._sessions.clear()
            self._sessions[purpose.id, person] = found
        return found

    def desk_for(self, purpose: str) -> Desk:
        """The desk whose statements leave out those who withdrew from a purpose."""
        if purpose not in self._desks:
            self._desks[purpose] = replace(self.desk, source=self.guarded(purpose, self.source))
        return self._desks[purpose]

    def guarded(self, purpose: str, source: Source) -> Source:
        """A source without those who withdrew; as it is, where rows have no person."""
        people, engine = self.people_columns(), Outside(source.engine, self)
        return replace(source, engine=LeftOut(engine, people, self.listed(purpose)) if people else engine)

    def listed(self, purpose: str) -> str:
        """The name of a purpose's list in the engine. Data sets of one database have lists of their own, and a database cuts long names."""
        whose = hashlib.sha256(json.dumps([self.name, self.account.name, purpose]).encode()).hexdigest()
        return LISTED + whose[:32]

    def people_columns(self) -> dict[str, str]:
        """The private tables, each with the column that says whose row it is. Looked for once: the schema is that of the job's file."""
        if self._people is None:
            self._people = self._columns_of_people()
        return dict(self._people)

    def _columns_of_people(self) -> dict[str, str]:
        unit = self.desk.unit
        private = [table for table in self.source.tables if table not in self.source.public]
        if unit.key is not None:
            home, _, column = unit.key.rpartition(".")
            links = {home: column}
            for name, declared in self.job.columns.items():
                if declared.references == unit.key:
                    table = declared.table or name.rpartition(".")[0] or home
                    links[table] = name.rpartition(".")[2]
            return links if set(private) <= set(links) else {}
        if unit.person is None or unit.ends is not None:
            return {}
        found = {table: unit.person for table in private if unit.person in self.source.columns(table)}
        return found if len(found) == len(private) else {}

    def made_up(self, rows: int = 1000) -> dict[str, Any]:
        """Made-up rows of every table, as Arrow tables, within what is declared. No row is read."""
        return dict(tables_for(self.job, rows))

    def dry_run(self, text: str, plan: Plan, options: Mapping[str, Any]) -> Answer:
        """The question asked of made-up rows, with the noise of its plan. It costs nothing, and says NOT PRIVATE."""
        if self._dummy is None:
            self._dummy = desk_of(self.job, opened(self.job, self.base, self.made_up()))
        desk = self._dummy
        declared = {name: options.get(name) for name in ("bounds", "keys", "weights", "law", "loss")}
        again = desk.plan(desk.question(text), plan.spend, **declared)
        delta = plan.spend.delta if plan.spend.epsilon is not None else Fraction(1, 10**6)
        return desk.answer(again, desk.draw(again)[0], delta=delta, private=False)

    def close(self) -> None:
        """Let go of files and connections."""
        self.source.close()


def columns_of(question: Question, known: set[str]) -> set[str]:
    """The columns of the data that a question looks at, by name; those of the rows it is made from are among them."""
    from sqlglot import exp

    relation = question.relation if isinstance(question.relation, exp.Expression) else question.relation.expression()
    trees = [relation, *(key.value for key in question.keys), question.where]
    trees += [part for aggregate in question.aggregates for part in (aggregate.value, aggregate.other)]
    found = {column.name.casefold() for tree in trees if tree is not None for column in tree.find_all(exp.Column)}
    return {name for name in known if name.casefold() in found}
