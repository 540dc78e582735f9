"""The worker of a process: it draws answers to claimed questions, renews its leases, and takes up what others left.

A question is handed to `Session.sql` under its key, which is booked with the spend. Whatever stops a worker, the book says
what to do next: not booked, so it may be taken up again; booked with an answer, so the answer is handed out; booked without
one, so it is lost. Nothing is drawn twice.

When a price is booked can be seen in the account, so it must not depend on how long other statements run. Each question has a thread;
one at a time has the turn to plan and to book, and gives it up while the engine works. More than one would not be quicker: all of
it is work of the interpreter, which lets one thread run and would only change between them. A question that equals one under way
is taken up when the outcome of that may be seen, so that its price does not tell whether the answer was in the book by then.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from fractions import Fraction
from typing import Any

from tacit.accounting import Refusal
from tacit.ledger import KeyKnown, LedgerBusy, LedgerUnwritable
from tacit.server.claims import Claims, Row
from tacit.server.database import new_id
from tacit.server.datasets import Dataset
from tacit.server.errors import ServiceError, of_refusal
from tacit.server.purposes import Purposes
from tacit.server.requests import Ask
from tacit.tables import EngineError, answer_record

#: Questions that others left are looked for so often, in seconds, and leases are renewed.
SWEEP = 2.0
#: Whoever plans, and whoever books, waits for the turn for so many seconds, and goes on without it then.
TO_PLAN, TO_BOOK = 2.0, 5.0
LOG = logging.getLogger("tacit.server")


class Worker:
    """Threads of this process that answer questions. `refresh` brings the lists of people who are left out up to date, and
    `still` says whether the person, under that token, may still ask about the data set."""

    def __init__(
        self, claims: Claims, datasets: Mapping[str, Dataset], purposes: Purposes, refresh: Callable[[Dataset, str], None],
        *, still: Callable[[str, str, str], bool] = lambda person, token, dataset: True, threads: int = 1, most: int = 256,
    ) -> None:  # fmt: skip
        self.claims, self.datasets, self.purposes, self.refresh, self.still = claims, datasets, purposes, refresh, still
        self._pool = ThreadPoolExecutor(max(threads, most), thread_name_prefix="tacit-question")
        self._turns, self._mine = threading.Semaphore(threads), threading.local()
        self.to_plan, self.to_book = TO_PLAN, TO_BOOK
        for dataset in datasets.values():
            dataset.outside = self._outside
        self._held: set[str] = set()
        self._ending: set[str] = set()  # of those, the ones whose outcome is written now, or has been
        self._statements: dict[str, str] = {}  # digests of the statements of questions that were compared
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._sweeper = threading.Thread(target=self._sweep, name="tacit-sweeper", daemon=True)
        self._sweeper.start()

    def file(
        self, values: Mapping[str, Any], *, daily: Fraction | None = None, waiting: int = 10**9, each: int = 10**9
    ) -> Row:
        """File a question, or find the one that has its key; the limits are those of `Claims.file`.

        A new one that waits for nobody is claimed by this worker in the same transaction, and answered soon.
        """
        question = new_id()
        # held before it is filed: its sweeper takes up what this worker has claimed and does not work on
        mine = values["state"] == "quoted" and self._hold(question)
        new = False
        try:
            row, new = self.claims.file({"id": question, **values}, daily=daily, waiting=waiting, each=each, mine=mine)
        finally:
            if mine and not new:
                self._let_go(question)
        if mine and new:
            self._begin(question, row)
        return row

    def submit(self, question: str) -> None:
        """Answer a question soon."""
        if self._hold(question):
            self._begin(question)

    def _hold(self, question: str) -> bool:
        """Whether this worker has a question from now on, which nobody else in this process had."""
        with self._lock:
            if self._stop.is_set() or question in self._held:
                return False
            self._held.add(question)
            return True

    def _begin(self, question: str, row: Row | None = None) -> None:
        """Answer a question that is held; `row` is there where it was filed as a claim of this worker."""
        future: Future[None] | None = None
        try:
            with self._lock:
                if not self._stop.is_set():
                    future = self._pool.submit(self._answer, question, row)
        finally:
            if future is None:  # closed, or no thread is to be had: the sweeper comes back to it
                self._let_go(question)
        if future is not None:
            future.add_done_callback(lambda _: self._let_go(question))

    def _let_go(self, question: str) -> None:
        with self._lock:
            self._held.discard(question)
            self._ending.discard(question)

    def at_work(self, question: str) -> bool:
        """Whether a question is worked on here and nothing has become of it yet, so that there is nothing to look up."""
        return question in self._held and question not in self._ending

    def close(self) -> None:
        """Finish what is under way, and take nothing more."""
        with self._lock:
            self._stop.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._sweeper.join(timeout=5)

    # --- answering ----------------------------------------------------------------------------------------------------

    def _answer(self, question: str, filed: Row | None = None) -> None:
        try:
            row = self.claims.row(question) if filed is None else filed
            if row is None or not self._after_its_like(row):
                return
            with self.turn(self.to_book):
                generation = self.claims.take(question) if filed is None else self.claims.held(question)
                if generation is not None:
                    self._draw(row, generation)
        except Exception:
            # the reason may depend on the data; what was booked under the key decides what comes of the question
            LOG.error("a question could not be answered; the book decides what becomes of it")

    @contextmanager
    def turn(self, patience: float | None = None) -> Iterator[None]:
        """The turn to plan and to book: this is work of the interpreter, and takes as long whatever the rows are.

        It spares time and protects nothing, so nobody waits for it without end: one who has it may wait for a book that
        is locked, or plan something long.
        """
        self._mine.turn = self._turns.acquire(timeout=self.to_plan if patience is None else patience)
        try:
            yield
        finally:
            if self._mine.turn:
                self._mine.turn = False
                self._turns.release()

    @contextmanager
    def _outside(self) -> Iterator[None]:
        """Without the turn, while the engine works on rows."""
        if not getattr(self._mine, "turn", False):
            yield
            return
        self._mine.turn = False
        self._turns.release()
        try:
            yield
        finally:
            self._mine.turn = self._turns.acquire(timeout=self.to_book)

    def _after_its_like(self, row: Row) -> bool:
        """Wait until no equal question of the same account is under way; False where the worker is closed before."""
        while alike := [one for one in self.claims.before(row) if self._alike(one, row)]:
            until = min(map(self.claims.next_time, alike))
            if self._stop.wait(max(0.001, until - self.claims.clock())):
                return False
        return True

    def _alike(self, one: Row, other: Row) -> bool:
        """Whether two questions of one account have the same statement; their price is the same already."""
        if one["body"] == other["body"]:
            return True
        first = self._statement(one)
        return first is not None and first == self._statement(other)

    def _statement(self, row: Row) -> str | None:
        """A digest of a question's statement, kept because it is compared with many; None where it has none."""
        found = self._statements.get(row["id"])
        dataset, purpose = self.datasets.get(row["dataset"]), self.purposes.find(row["purpose"])
        if found is not None or dataset is None or purpose is None:
            return found
        session, request = dataset.session(purpose, row["person"]), Ask.model_validate_json(row["request"])
        with suppress(Refusal), self.turn():
            text = session.desk.text_of(session.plan(request.sql, **request.options()))
            found = hashlib.sha256(text.encode()).hexdigest()
            if len(self._statements) > 10_000:
                self._statements.clear()
            self._statements[row["id"]] = found
        return found

    def _draw(self, row: Row, generation: int) -> None:
        state, values = "lost", dict[str, Any]()
        try:
            request = Ask.model_validate_json(row["request"])
            dataset, purpose = self.datasets.get(row["dataset"]), self.purposes.find(row["purpose"])
            if purpose is None or dataset is None:
                raise ServiceError(code="purpose-ended")
            # between the price and the draw days may pass, while an officer thinks; what was booked is handed out all the same
            ended = purpose.ended()
            allowed = not ended and self.still(row["person"], row["token"], row["dataset"])
            if not allowed and dataset.account_of(purpose, row["person"]).booked(row["key"]) is None:
                raise ServiceError(code="purpose-ended") if ended else ServiceError(code="access-ended")
            self.refresh(dataset, purpose.id)
            session = dataset.session(purpose, row["person"])
            answer = session.sql(request.sql, purpose=purpose.id, key=row["key"], body=row["body"], **request.options())
            state, values = "stored", {"answer": json.dumps(answer_record(answer)), "entry": answer.entry}
        except (LedgerBusy, LedgerUnwritable):
            state = "quoted"  # the sweeper comes back to it, and the book tells whether it was booked
        except KeyKnown as error:
            values = {"entry": error.facts["entry"]}
        except EngineError:
            pass
        except Refusal as error:
            found = of_refusal(error)
            if found.code in ("busy", "unavailable"):
                state = "quoted"  # a fault of the service's own database is no word about the question
            else:
                state, values = "refused", {"detail": json.dumps({"code": found.code, "message": found.message})}
        # one that is taken up again is not ready: an equal one that waits for it looks at the next time of the grid
        self._ending.add(row["id"])
        ready = None if state == "quoted" else self.claims.clock()
        self.claims.end(row["id"], generation, state, ready=ready, **values)

    # --- what others left ---------------------------------------------------------------------------------------------

    def _sweep(self) -> None:
        pause = min(SWEEP, max(0.05, self.claims.lease / 3))
        while True:
            # at once, too: a worker that starts may be there in place of one that was killed
            with suppress(Exception):
                self.sweep()
            if self._stop.wait(pause):
                return

    def sweep(self) -> None:
        """Renew what is held here, and decide about questions whose worker is gone."""
        with self._lock:
            held = set(self._held)
        self.claims.renew(held)
        # its own too: where the database failed at the last step, a question is running here and nobody works on it
        for question, state, generation in self.claims.expired(own=True):
            with self._lock:
                working = question in self._held
            # one that cannot be decided now must not keep the others from it
            with suppress(Exception):
                if not working and (state == "quoted" or self._again(question, generation)):
                    self.submit(question)

    def _again(self, question: str, generation: int) -> bool:
        """Whether a question that was running may be handed out again; otherwise it is lost, and marked so."""
        row = self.claims.row(question)
        if row is None:
            return False
        dataset, purpose = self.datasets.get(row["dataset"]), self.purposes.find(row["purpose"])
        if purpose is None or dataset is None:
            return False  # the service's file has them no more; a service that has them again decides
        booked = dataset.account_of(purpose, row["person"]).booked(row["key"])
        if booked is None or booked[2]:
            return self.claims.end(question, generation, "quoted")
        self.claims.end(question, generation, "lost", ready=self.claims.clock(), entry=booked[0])
        return False
