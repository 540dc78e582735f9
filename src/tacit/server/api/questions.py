"""Questions: price, explain, ask, wait, read in four forms, share, approve.

`POST /v1/questions` needs an `Idempotency-Key`. With `Prefer: wait=30` it answers when the answer leaves; without, at once
with the state of the question, and `GET` waits. An outcome has the same status and the same size class, answered or lost.
"""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Response
from fastapi.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, StreamingResponse

from tacit.server.access import Caller
from tacit.server.api.calling import Serving, Signed
from tacit.server.desk import Service
from tacit.server.errors import ServiceError
from tacit.server.requests import Ask, Decide, PriceRequest

router = APIRouter(prefix="/v1", tags=["questions"])
Id = Annotated[str, Path(max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]
#: The longest that a request waits, in seconds.
LONGEST = 60.0
#: Whoever waits is asked for again, whatever there is to tell, after so many seconds.
AGAIN = 1.0
ARROW, PARQUET = "application/vnd.apache.arrow.stream", "application/vnd.apache.parquet"
#: The forms of an answer, with the end of a file's name.
FORMS = {"application/json": "json", "text/csv": "csv", ARROW: "arrow", PARQUET: "parquet"}


@router.post("/price", operation_id="price", response_model=dict[str, Any])
def price(service: Serving, caller: Signed, request: PriceRequest) -> Response:
    """What a question costs and how exact it would be; a curve for `epsilons` or `accuracies`. Nothing is spent."""
    return JSONResponse(service.questions.price(caller, request))  # a response as it is: FastAPI would check it in a second thread


@router.post("/explain", operation_id="explain")
def explain(service: Serving, caller: Signed, request: PriceRequest) -> dict[str, str]:
    """The plan in words. No data is touched."""
    return {"text": service.questions.explain(caller, request)}


@router.post("/questions", operation_id="ask", status_code=202)
async def ask(
    service: Serving, caller: Signed, request: Ask,
    idempotency_key: Annotated[str, Header(max_length=200)] = "", prefer: Annotated[str, Header(max_length=100)] = "",
) -> Response:  # fmt: skip
    """Ask, and pay. The same key and body are the same question, however often they are sent."""
    view = await run_in_threadpool(service.questions.ask, caller, request, idempotency_key)
    seconds = _wait(prefer)
    if seconds:
        view = await waited(service, caller, view["id"], seconds)
    found = padded(view, 200 if view["state"] in ("answered", "lost") else 202)
    found.headers["location"] = f"/v1/questions/{view['id']}"
    return found


@router.get("/questions", operation_id="list_questions")
def list_questions(
    service: Serving, caller: Signed, before: Annotated[float | None, Query()] = None,
    most: Annotated[int, Query(ge=1, le=200)] = 50,
) -> list[dict[str, Any]]:  # fmt: skip
    """The caller's questions, or everyone's for the officer, newest first, without their answers."""
    return service.questions.list(caller, before=before, most=most)


@router.get("/questions/{question}", operation_id="read_question")
async def read_question(
    service: Serving, caller: Signed, question: Id, accept: Annotated[str, Header(max_length=500)] = "application/json",
    prefer: Annotated[str, Header(max_length=100)] = "",
) -> Response:  # fmt: skip
    """A question and its answer, as JSON, CSV, Arrow or Parquet."""
    form = _form(accept)
    view = await waited(service, caller, question, _wait(prefer))
    if form == "application/json":
        await run_in_threadpool(service.questions.delivered, view)
        return padded(view)
    answer = service.questions.answer_of(view)
    await run_in_threadpool(service.questions.delivered, view)
    body = await run_in_threadpool(written, answer, FORMS[form])
    name = f'attachment; filename="answer-{view["id"]}.{FORMS[form]}"'
    return Response(body, media_type=form, headers={"content-disposition": name})


@router.get("/questions/{question}/events", operation_id="watch_question", response_class=StreamingResponse)
async def watch_question(service: Serving, caller: Signed, question: Id) -> StreamingResponse:
    """The states of a question as server-sent events, until it has ended."""
    first = await run_in_threadpool(service.questions.read, caller, question)

    async def events() -> AsyncIterator[str]:
        state = ""
        view = first
        for _ in range(1000):
            if view["state"] != state:
                state = view["state"]
                yield f"event: state\ndata: {json.dumps({'id': view['id'], 'state': state})}\n\n"
            if state not in ("quoted", "waiting", "running"):
                return
            try:
                view = await waited(service, caller, question, LONGEST, changed=state)
            except ServiceError:
                return  # whoever watched may not see it any more
            yield ": still here\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


@router.post("/questions/{question}/share", operation_id="share_question")
def share_question(service: Serving, caller: Signed, question: Id) -> dict[str, str]:
    """A link under which others who may see the data set can read the answer."""
    return {"share": service.questions.share(caller, question)}


@router.get("/shared/{share}", operation_id="read_shared")
def read_shared(service: Serving, caller: Signed, share: Id) -> Response:
    """A question and its answer that someone shared with everyone who may see the data set."""
    return padded(service.questions.shared(caller, share))


@router.get("/approvals", operation_id="list_approvals")
def list_approvals(service: Serving, caller: Signed) -> list[dict[str, Any]]:
    """Questions that wait for the officer."""
    return service.questions.approvals(caller)


@router.post("/approvals/{question}", operation_id="approve")
def approve(service: Serving, caller: Signed, question: Id, request: Decide) -> dict[str, Any]:
    """Approve or decline a question."""
    return service.questions.decide(caller, question, request)


async def waited(service: Service, caller: Caller, question: str, seconds: float, changed: str = "") -> dict[str, Any]:
    """The question when its outcome may be seen, or as it is after so many seconds. Nothing is looked at between two times of the grid.

    Whoever has waited is asked for again before anything is told, and every second: a token that was revoked meanwhile
    hears nothing more.
    """
    questions, now, register = service.questions, service.claims.clock, service.register
    known = now()
    until, fresh = known + seconds, True
    row, quick = None, False
    while True:
        if row is None or not service.worker.at_work(question):  # while it is, the row says the same
            # a thousand who watch look every few seconds: a thread for each look would be all that the process does
            row = questions.at_once(caller, question)
            quick = row is not None
            if row is None:
                row = await run_in_threadpool(questions.row, caller, question)
        due = questions.seen(row) or now() >= until or bool(changed and questions.shown(row) != changed)
        if due and fresh:
            own = row["person"] == caller.person
            first = questions.drawn(row) if quick else None
            if first is not None:  # without a thread: an answer leaves at its time, however busy threads are
                return questions.view(row, answer=own, first=first, entry=not own)
            return await run_in_threadpool(questions.view, row, answer=own, entry=not own)
        if due or now() - known > AGAIN:
            still = register.again_at_once(caller) or await run_in_threadpool(register.again, caller)
            if still is None:
                raise ServiceError(code="not-signed-in")
            caller, known, fresh = still, now(), True
            if due:
                row = None  # looked up once more for who they are now, before anything is told
                continue
        if not due:
            await asyncio.sleep(max(0.001, min(questions.next_look(row, now()), until) - now()))
            fresh = False


def _wait(prefer: str) -> float:
    """The seconds of `Prefer: wait=30` (RFC 7240), at most a minute."""
    for part in prefer.split(","):
        name, _, value = part.strip().partition("=")
        if name == "wait" and value.isascii() and value.isdigit() and len(value) < 6:
            return min(float(value), LONGEST)
    return 0.0


def _form(accept: str) -> str:
    """The first form that is accepted and offered."""
    for part in accept.split(","):
        kind = part.partition(";")[0].strip().lower()
        if kind in ("*/*", "application/*", ""):
            return "application/json"
        if kind in FORMS:
            return kind
        if kind == "text/*":
            return "text/csv"
    raise ServiceError(code="not-acceptable")


def written(answer: Any, form: str) -> bytes:
    """An answer as a file. A cell of CSV that a spreadsheet would run as a formula is made a text."""
    import pyarrow as pa

    table, out = answer.to_arrow(), io.BytesIO()
    if form == "arrow":
        with pa.ipc.new_stream(out, table.schema) as stream:
            stream.write_table(table)
    elif form == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(table, out)
    else:
        from pyarrow import csv

        for place, name in enumerate(table.column_names):
            if pa.types.is_string(table.schema.types[place]):
                plain = [_harmless(value) for value in table.column(place).to_pylist()]
                table = table.set_column(place, name, pa.array(plain, pa.string()))
        # names are the analyst's own words, and others open the file too
        csv.write_csv(table.rename_columns([_harmless(name) or "" for name in table.column_names]), out)
    return out.getvalue()


def _harmless(value: str | None) -> str | None:
    return f"'{value}" if value and value[0] in "=+-@\t\r" else value


def padded(content: Any, status: int = 200) -> Response:
    """JSON whose length tells its size class only: blanks at its end fill it up to a power of two."""
    text = json.dumps(content, separators=(",", ":")).encode()
    size = 4096
    while size < len(text):
        size *= 2
    return Response(text.ljust(size), status, media_type="application/json")
