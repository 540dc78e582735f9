"""Trainings on a data set: the six questions of chapter 13 before each, its payments, and what attacks on it found.

An attack's result is "leak found" or "none found", and never "safe". All trainings on one data set are listed together with what
they add up to, because their events share one budget.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacit.server.access import Caller, check
from tacit.server.bookkeeping import Bookkeeping
from tacit.server.database import Database, new_id
from tacit.server.datasets import Dataset
from tacit.server.errors import not_found
from tacit.server.purposes import Records
from tacit.server.requests import NewModel


class Models:
    """The register of trainings."""

    def __init__(self, database: Database, datasets: Mapping[str, Dataset], book: Bookkeeping) -> None:
        self._records, self.datasets, self.book = Records(database, "model"), datasets, book

    def add(self, caller: Caller, request: NewModel) -> dict[str, Any]:
        """Enter a training."""
        check(caller, "make_model", datasets=[request.dataset])
        if request.dataset not in self.datasets:
            raise not_found()
        name = new_id()
        self._records.add(name, caller.person, request.model_dump(mode="json"))
        return next(record for record in self.list(caller)["models"] if record["id"] == name)

    def list(self, caller: Caller) -> dict[str, Any]:
        """Every training, with its payments, and what each data set has spent in all."""
        check(caller, "list_models")
        seen = [record for record in self._records.all() if caller.may_see(record["dataset"])]
        shown = [{**record, "events": self.book.events_of(self.datasets[record["dataset"]], record["run"])} for record in seen]
        totals = {name: str(found.account.spent()) for name, found in self.datasets.items() if caller.may_see(name)}
        return {"models": shown, "totals": totals}
