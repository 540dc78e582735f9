"""The service in one process: everything that the API and the pages do, as plain calls. HTTP is somewhere else.

    service = Service.open(load("service.yaml"))
    caller = service.register.by_token(text)
    service.questions.ask(caller, Ask(...), key="...")

Each method takes the caller first and looks into the one table of `access`, so that the API and the pages cannot differ in
what they allow. A process opens its own; several may share a database.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from tacit.ledger import Ledger
from tacit.server.access import Caller, check
from tacit.server.beacons import Beacons
from tacit.server.bookkeeping import Bookkeeping
from tacit.server.claims import Claims
from tacit.server.config import Configuration, secret
from tacit.server.database import Database
from tacit.server.datasets import Dataset
from tacit.server.errors import not_found
from tacit.server.limits import CallRates
from tacit.server.models import Models
from tacit.server.oidc import Provider
from tacit.server.people import Register
from tacit.server.purposes import Decisions, Purposes
from tacit.server.questions import Questions
from tacit.server.releases import Releases
from tacit.server.subjects import Subjects
from tacit.server.worker import Worker


class Service:
    """An open service."""

    def __init__(self, configuration: Configuration, *, threads: int | None = None) -> None:
        limits = configuration.limits
        self.configuration = configuration
        self.database = Database(configuration.url)
        self.ledger = Ledger.open(configuration.url)
        self.register = Register(self.database, idle=limits.session_idle, total=limits.session_total)
        self.register.set(configuration.people)
        self.provider = _provider(configuration, self.database)
        self.rates = CallRates()
        self.grid = configuration.grid.typed(self.database.key("grid"))
        self.purposes = Purposes(self.database, configuration.purposes, configuration.datasets)
        self.decisions = Decisions(self.database)
        self.datasets = {
            name: Dataset.open(name, spec, configuration, self.ledger) for name, spec in configuration.datasets.items()
        }
        self.subjects = Subjects(configuration, self.datasets, self.purposes)
        self.claims = Claims(self.database, lease=limits.lease, clock=self.database.clock, grid=self.grid)
        threads = threads or (1 if self.database.sqlite else 2)
        self.worker = Worker(
            self.claims, self.datasets, self.purposes, self.subjects.refresh, still=self.register.still, threads=threads,
            most=limits.waiting,
        )  # fmt: skip
        self.questions = Questions(
            configuration, self.database, self.datasets, self.purposes, self.claims, self.worker, self.grid
        )
        self.beacons = Beacons(self.datasets, self.questions, configuration.origin)
        self.book = Bookkeeping(self.ledger, self.datasets, self.purposes)
        self.releases = Releases(self.database, self.ledger, self.datasets, self.subjects.guard)
        self.models = Models(self.database, self.datasets, self.book)

    @staticmethod
    def open(configuration: Configuration, *, threads: int | None = None) -> Service:
        """Open the data sets, the book and the service's own tables. `threads`: how many plan and book at a time.

        Without it, one where the book is a file, and two where it is on a server, which is waited for.
        """
        return Service(configuration, threads=threads)

    def close(self) -> None:
        """Finish what is under way, and let go of everything."""
        self.worker.close()
        for dataset in self.datasets.values():
            dataset.close()
        self.subjects.close()
        self.ledger.close()
        self.database.close()

    def __enter__(self) -> Service:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    # --- data sets ----------------------------------------------------------------------------------------------------

    def list_datasets(self, caller: Caller) -> list[dict[str, Any]]:
        """The data sets that exist for the caller."""
        check(caller, "list_datasets")
        return [self._dataset(found) for name, found in self.datasets.items() if caller.may_see(name)]

    def read_dataset(self, caller: Caller, name: str) -> dict[str, Any]:
        """One data set: its public schema, whom it protects, and its purposes."""
        dataset = self.dataset(caller, name, "read_dataset")
        return {**self._dataset(dataset), "tables": dataset.schema(), "unit": dataset.unit()}

    def dataset(self, caller: Caller, name: str, action: str) -> Dataset:
        """A data set that the caller may use for an action."""
        check(caller, action, datasets=[name])
        if name not in self.datasets:
            raise not_found()
        return self.datasets[name]

    def dummy_rows(self, caller: Caller, name: str, rows: int = 100) -> dict[str, Any]:
        """Made-up rows of each table, as Arrow tables. No row of the data is read."""
        return self.dataset(caller, name, "dummy_rows").made_up(rows)

    def _dataset(self, dataset: Dataset) -> dict[str, Any]:
        purposes = [p.record() for p in self.purposes.all() if dataset.name in p.spec.datasets]
        return {
            "id": dataset.name, "title": dataset.title, "description": dataset.job.purpose,
            "budget": {name: float(limit) for name, limit in dataset.account.budget.limits.items()}, "purposes": purposes,
        }  # fmt: skip


def _provider(configuration: Configuration, database: Database) -> Provider | None:
    """The identity provider, where one is configured; its secret is read once, here."""
    spec = configuration.sign_in
    if spec is None:
        return None
    known = secret(configuration.base, env=spec.secret_env, file=spec.secret_file)
    return Provider(spec, known, database, configuration.origin)
