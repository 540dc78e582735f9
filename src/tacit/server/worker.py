"""The worker of a process: it draws answers to claimed questions, renews its leases, and takes up what others left.

A question is handed to `Session.sql` under its key, which is booked with the spend. Whatever stops a worker, the book says
what to do next: not booked, so it may be taken up again; booked with an answer, so the answer is handed out; booked without
one, so it is lost. Nothing is drawn twice.

When a price is booked can be seen in the account, so it must not depend on how long other statements run. Each question has a thread;
a few at a time have a turn to plan and to book, and give it up while the engine works. A question that equals one under way is
taken up when the outcome of that may be seen, so that its price does not tell whether the answer was in the book by then.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

from tacit.accounting import Refusal
from tacit.ledger import KeyKnown, LedgerBusy, LedgerUnwritable
from tacit.server.claims import Claims
from tacit.server.datasets import Dataset
from tacit.server.errors import ServiceError, of_refusal
from tacit.server.purposes import Purposes
from tacit.server.requests import Ask
from tacit.tables import EngineError, answer_record

#: Questions that others left are looked for so often, in seconds, and leases are renewed.
SWEEP = 2.0
LOG = logging.getLogger("tacit.server")


class Worker:
    """Threads of this process that answer questions. `refresh` brings the lists of people who are left out up to date, and
    `still` says whether the person, under that token, may still ask about the data set."""

    def __init__(
        self, claims: Claims, datasets: Mapping[str, Dataset], purposes: Purposes, refresh: Callable[[Dataset, str], None],
        *, still: Callable[[str, str, str], bool] = lambda person, token, dataset: True, threads: int = 2, most: int = 256,
    ) -> None:  # fmt: skip
        self.claims, self.datasets, self.purposes, self.refresh, self.still = claims, datasets, purposes, refresh, still
        self._pool = ThreadPoolExecutor(max(threads, most), thread_name_prefix="tacit-question")
        self._turns, self._mine = threading.Semaphore(threads), threading.local()
        for dataset in datasets.values():
            dataset.outside = self._outside
        self._held: dict[str, Future[None]] = {}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._sweeper = threading.Thread(target=self._sweep, name="tacit-sweeper", daemon=True)
        self._sweeper.start()

    def submit(self, question: str) -> None:
        """Answer a question soon."""
        with self._lock:
            if self._stop.is_set() or question in self._held:
                return
            future = self._pool.submit(self._answer, question)
            self._held[question] = future
        future.add_done_callback(lambda _: self._let_go(question))

    def _let_go(self, question: str) -> None:
        with self._lock:
            self._held.pop(question, None)

    def close(self) -> None:
        """Finish what is under way, and take nothing more."""
        self._stop.set()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._sweeper.join(timeout=5)

    # --- answering ----------------------------------------------------------------------------------------------------

    def _answer(self, question: str) -> None:
        try:
            if not self._after_its_like(question):
                return
            with self._turn():
                generation = self.claims.take(question)
                if generation is not None:
                    self._draw(question, generation)
        except Exception:
            # the reason may depend on the data; what was booked under the key decides what comes of the question
            LOG.error("a question could not be answered; the book decides what becomes of it")

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """One of the few who plan and book at a time: this is work of the interpreter, and takes as long whatever the rows are."""
        with self._turns:
            self._mine.turn = True
            try:
                yield
            finally:
                self._mine.turn = False

    @contextmanager
    def _outside(self) -> Iterator[None]:
        """Without the turn, while the engine works."""
        if not getattr(self._mine, "turn", False):
            yield
            return
        self._mine.turn = False
        self._turns.release()
        try:
            yield
        finally:
            self._turns.acquire()
            self._mine.turn = True

    def _after_its_like(self, question: str) -> bool:
        """Wait until no equal question of the same account is under way; False where the worker is closed before."""
        row = self.claims.row(question)
        while row is not None:
            alike = [one for one in self.claims.before(row) if self._alike(one, row)]
            if not alike:
                return True
            until = min(map(self.claims.next_time, alike))
            if self._stop.wait(max(0.001, until - self.claims.clock())):
                return False
        return False

    def _alike(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
        """Whether two questions of one account have the same statement; their price is the same already."""
        dataset, purpose = self.datasets.get(one["dataset"]), self.purposes.find(one["purpose"])
        if dataset is None or purpose is None:
            return False
        session, texts = dataset.session(purpose, one["person"]), []
        try:
            for row in (one, other):
                request = Ask.model_validate_json(row["request"])
                texts.append(session.desk.text_of(session.plan(request.sql, **request.options())))
        except Refusal:
            return False
        return texts[0] == texts[1]

    def _draw(self, question: str, generation: int) -> None:
        row = self.claims.row(question)
        if row is None:
            return
        state, values = "lost", dict[str, Any]()
        try:
            request = Ask.model_validate_json(row["request"])
            dataset, purpose = self.datasets.get(row["dataset"]), self.purposes.find(row["purpose"])
            if purpose is None or dataset is None:
                raise ServiceError(code="purpose-ended")
            # between the price and the draw days may pass, while an officer thinks; what was booked is handed out all the same
            if dataset.account_of(purpose, row["person"]).booked(row["key"]) is None:
                if purpose.ended():
                    raise ServiceError(code="purpose-ended")
                if not self.still(row["person"], row["token"], row["dataset"]):
                    raise ServiceError(code="access-ended")
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
        ready = None if state == "quoted" else self.claims.clock()
        self.claims.end(question, generation, state, ready=ready, **values)

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
