"""Releases of the data sets' own jobs: plan, run, and hand out the files. It is `tacit run`, paid from the same account.

A run is claimed by a row of the database and carried out by a thread; one that was stopped is run again under the same
reservation, as `release.run` does. Those who objected to everything or were erased are left out of its statements.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import yaml

from tacit.accounting import Refusal
from tacit.ledger import Ledger
from tacit.release import Job, plan, run
from tacit.server.access import Caller, check
from tacit.server.database import Database, new_id, releases
from tacit.server.datasets import Dataset
from tacit.server.errors import ServiceError, not_found
from tacit.tables import Source

#: A process that runs a release says so more often than this, in seconds.
LEASE = 60.0
LOG = logging.getLogger("tacit.server")
#: A file of a release that is handed out, and its media type. Others are not.
MEDIA = {
    ".csv": "text/csv", ".json": "application/json", ".parquet": "application/vnd.apache.parquet", ".html": "text/html",
    ".yaml": "application/yaml", ".png": "image/png", ".svg": "image/svg+xml",
}  # fmt: skip

#: Records as JSON.
Rows = list[dict[str, Any]]


class Releases:
    """The releases of a service. `guard` puts the list of people who are left out in front of a source."""

    def __init__(
        self, database: Database, ledger: Ledger, datasets: Mapping[str, Dataset], guard: Callable[[Dataset, Source], Source]
    ) -> None:
        self.database, self.ledger, self.datasets, self.guard = database, ledger, datasets, guard
        self._running: dict[str, threading.Thread] = {}
        self._lock = threading.Lock()

    def plan(self, caller: Caller, dataset: str) -> dict[str, Any]:
        """Plan a release of a data set's job: prices, errors and warnings. No data is touched."""
        check(caller, "plan_release", datasets=[dataset])
        if dataset not in self.datasets:
            raise not_found()
        number = new_id()
        values = {"id": number, "dataset": dataset, "person": caller.person, "state": "planned", "folder": f"releases/{number}"}
        summary = self._planned(self.datasets[dataset], values["folder"])
        with self.database.write() as connection:
            connection.execute(releases.insert().values(**values, job=json.dumps(summary), made=time.time()))
        return self.read(caller, number)

    def _planned(self, dataset: Dataset, folder: str) -> dict[str, Any]:
        try:
            found = plan(self._job(dataset, folder), base=dataset.base)
        except Refusal as error:
            fault = error.message
        else:
            return {
                "title": dataset.job.title,
                "outputs": [{"name": output.spec.name, "title": output.spec.title, "kind": output.spec.kind} for output in found.outputs],
                "warnings": [str(notice) for notice in found.warnings],
            }
        raise ServiceError(fault, code="job-refused")

    def _job(self, dataset: Dataset, folder: str) -> Job:
        """The data set's job, published into a folder of its own."""
        publication = dataset.job.publication.model_copy(update={"folder": folder})
        return dataset.job.model_copy(update={"publication": publication})

    def run(self, caller: Caller, number: str, *, accept: bool = False) -> dict[str, Any]:
        """Pay for a planned release and publish it; one that was stopped goes on under the same payment.

        A release whose totals contradict what was expected is held back until it is run with `accept`.
        """
        row = self._row(number)
        check(caller, "run_release", datasets=[row["dataset"]])
        with self._lock:
            if self._claimed(number):
                about = (number, row["dataset"], row["folder"], caller.person, accept)
                thread = threading.Thread(target=self._published, args=about, daemon=True)
                self._running[number] = thread
                thread.start()
        return self.read(caller, number)

    def _claimed(self, number: str) -> bool:
        """Take a release for this process; False where it is published, or another process runs it and says so now and then."""
        now, there = time.time(), self._running.get(number)
        if there is not None and there.is_alive():
            return False
        gone = sa.and_(releases.c.state == "running", releases.c.started <= now - LEASE)
        free = sa.or_(releases.c.state.in_(("planned", "failed")), gone)
        if there is not None:
            free = sa.or_(free, releases.c.state == "running")  # it ran here, and ended without a word
        with self.database.write() as connection:
            mine = releases.update().where(releases.c.id == number, free).values(state="running", started=now, detail="")
            return bool(connection.execute(mine).rowcount)

    def _still_running(self, number: str, over: threading.Event) -> None:
        while not over.wait(LEASE / 3):
            with suppress(Exception):
                self._set(number, started=time.time())

    def _published(self, number: str, name: str, folder: str, person: str, accept: bool) -> None:
        dataset, words = self.datasets[name], "it failed after it was paid for; running it again goes on under the same payment"
        over = threading.Event()
        threading.Thread(target=self._still_running, args=(number, over), daemon=True).start()
        try:
            (dataset.base / folder).parent.mkdir(parents=True, exist_ok=True)
            done = run(
                self._job(dataset, folder), base=dataset.base, ledger=self.ledger, analyst=person, accept=accept,
                through=lambda source: self.guard(dataset, source),
            )  # fmt: skip
            self._set(number, state="published", entry=done.entry, ready=time.time())
            return
        except Refusal as error:
            words = error.message
        except Exception:
            LOG.error("a release failed by a fault of the service")
        finally:
            over.set()
        self._set(number, state="failed", detail=words)

    def _set(self, number: str, **values: Any) -> None:
        with self.database.write() as connection:
            # what is published stays so, whatever another process says later
            connection.execute(releases.update().where(releases.c.id == number, releases.c.state != "published").values(**values))

    def _row(self, number: str) -> Mapping[str, Any]:
        with self.database.read() as connection:
            row = connection.execute(sa.select(releases).where(releases.c.id == number)).mappings().first()
        if row is None:
            raise not_found()
        return dict(row)

    # --- reading ------------------------------------------------------------------------------------------------------

    def list(self, caller: Caller) -> Rows:
        """The releases that exist for the caller: published ones, and for a curator and an officer all."""
        scope = check(caller, "list_releases")
        query = sa.select(releases).order_by(releases.c.made.desc())
        with self.database.read() as connection:
            rows = [dict(row) for row in connection.execute(query).mappings()]
        seen = [row for row in rows if caller.may_see(row["dataset"]) and (scope == "any" or row["state"] == "published")]
        return [self._view(row, entry=scope == "any") for row in seen]

    def read(self, caller: Caller, number: str) -> dict[str, Any]:
        """One release."""
        row = self._row(number)
        scope = check(caller, "read_release", datasets=[row["dataset"]])
        if scope == "own" and row["state"] != "published":
            raise not_found()
        return self._view(row, entry=scope == "any")

    def _view(self, row: Mapping[str, Any], *, entry: bool) -> dict[str, Any]:
        files = sorted(self._files(row)) if row["state"] == "published" else []
        return {
            "id": row["id"], "dataset": row["dataset"], "state": row["state"], "by": row["person"],
            "entry": row["entry"] if entry else None, "made": row["made"], "ready": row["ready"],
            "detail": row["detail"], "files": files, **json.loads(row["job"]),
        }  # fmt: skip

    def _files(self, row: Mapping[str, Any]) -> dict[str, Path]:
        """The files of a release by name: those that are there, and no others, whatever a name says."""
        folder = self.datasets[row["dataset"]].base / row["folder"]
        if not folder.is_dir():
            return {}
        return {path.name: path for path in folder.iterdir() if path.is_file() and not path.is_symlink() and path.suffix in MEDIA}

    def registry(self, caller: Caller) -> Rows:
        """What each published release tells the deployments registry, newest first."""
        check(caller, "registry_records")
        found = []
        for view in self.list(caller):
            if "registry.yaml" in view["files"]:
                path, _ = self.file(caller, view["id"], "registry.yaml")
                record = yaml.safe_load(path.read_text(encoding="utf-8"))
                found.append({"release": view["id"], "dataset": view["dataset"], "record": record})
        return found

    def file(self, caller: Caller, number: str, name: str) -> tuple[Path, str]:
        """A file of a published release, and its media type."""
        self.read(caller, number)
        row = self._row(number)
        found = self._files(row).get(name) if row["state"] == "published" else None
        if found is None:
            raise not_found()
        return found, MEDIA[found.suffix]
