"""A question and its answer, files of it, sharing it, and the questions asked before.

An answer that is not there yet is looked at again by the page, at the service's own pace: what it shows before the grid lets an
answer out is the same whatever became of it.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse

from tacit.server.access import Caller
from tacit.server.api.calling import Serving
from tacit.server.api.questions import FORMS, written
from tacit.server.desk import Service
from tacit.server.errors import ServiceError, not_found
from tacit.server.pages.view import Looking, Posted, page, titles
from tacit.server.pages.words import cell

router = APIRouter(include_in_schema=False)
Id = Annotated[str, Path(max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]
#: Charts with more lines than this are hard to read; the table has them all.
LINES = 40
UNDER_WAY = ("quoted", "waiting", "running")


@router.get("/questions/{question}")
def question(request: Request, service: Serving, caller: Looking, question: Id) -> Response:
    """A question as its owner or the officer may see it."""
    view = service.questions.read(caller, question)
    service.questions.delivered(view)
    return _shown(request, service, caller, view, own=view["person"] == caller.person)


@router.get("/shared/{share}")
def shared(request: Request, service: Serving, caller: Looking, share: Id) -> Response:
    """A question that someone shared with everyone who may see its data set."""
    return _shown(request, service, caller, service.questions.shared(caller, share), own=False)


def _shown(request: Request, service: Service, caller: Caller, view: Mapping[str, Any], *, own: bool) -> Response:
    answer = view.get("answer")
    charts = [] if answer is None else [chart(answer, name) for name in answer["figures"]]
    origin = service.configuration.origin if service.configuration.listen.origin else str(request.base_url).rstrip("/")
    under_way = view["state"] in UNDER_WAY
    return page(
        request, "question.html", caller, view=view, own=own, answer=answer, charts=[one for one in charts if one], under_way=under_way,
        title=titles(service, caller).get(view["dataset"], view["dataset"]),
        share=None if not view["share"] else f"{origin}/shared/{view['share']}", code=notebook(view, origin), event=_event(view),
    )  # fmt: skip


def chart(answer: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """A figure's lines for the chart, with their intervals."""
    figures = answer["figures"][name]
    labels = [", ".join(cell(values[i]) for values in answer["keys"].values()) or name for i in range(len(figures["value"]))]
    rows = [
        {"label": label, "value": value, "low": low, "high": high}
        for label, value, low, high in zip(labels, figures["value"], figures["low"], figures["high"], strict=True)
        if all(isinstance(part, int | float) for part in (value, low, high))
    ]
    if not rows or len(rows) > LINES or len(set(labels)) < len(labels):
        return None
    return {"figure": name, "data": json.dumps({"rows": rows, "name": f"{name} with its intervals; the table has the same"})}


def notebook(view: Mapping[str, Any], origin: str) -> str:
    """The same question from a notebook. Asked again today, it is answered from the book for nothing."""
    asked = {name: value for name, value in view["request"].items() if name not in ("dataset", "purpose", "sql")}
    options = "".join(f", {name}={value!r}" for name, value in asked.items())
    return (
        "import tacit\n\n"
        f"session = tacit.connect({origin!r}, token=..., dataset={view['dataset']!r}, purpose={view['purpose']!r})\n"
        f"answer = session.sql({_literal(view['request']['sql'])}{options})\nanswer"
    )


def _literal(text: str) -> str:
    """A text as Python reads it back: over several lines where it has them, and never more than a text, whoever wrote it.

    >>> print(_literal("SELECT 1"))
    'SELECT 1'
    """
    lines = text.splitlines(keepends=True)
    return repr(text) if len(lines) < 2 else "(\n" + "\n".join(f"    {line!r}" for line in lines) + "\n)"


def _event(view: Mapping[str, Any]) -> str:
    from tacit.accounting import from_json

    return repr(from_json(json.dumps(view["price"]["event"])))


@router.get("/questions/{question}/answer.{form}")
async def download(service: Serving, caller: Looking, question: Id, form: Annotated[str, Path(max_length=10)]) -> Response:
    """The answer as a file."""
    kind = next((kind for kind, end in FORMS.items() if end == form), None)
    if kind is None:
        raise not_found()
    view = await run_in_threadpool(service.questions.read, caller, question)
    answer = service.questions.answer_of(view)
    await run_in_threadpool(service.questions.delivered, view)
    body = json.dumps(view["answer"], indent=1).encode() if form == "json" else await run_in_threadpool(written, answer, form)
    name = f'attachment; filename="answer-{view["id"]}.{form}"'
    return Response(body, media_type=kind, headers={"content-disposition": name})


@router.post("/questions/{question}/share")
async def share(service: Serving, sent: Posted, question: Id) -> Response:
    """Make a link for others who may see the data set."""
    await run_in_threadpool(service.questions.share, sent.caller, question)
    return RedirectResponse(f"/questions/{question}#share", 303)


@router.get("/history")
def history(request: Request, service: Serving, caller: Looking, before: Annotated[float | None, Query()] = None) -> Response:
    """The caller's questions, or everyone's for the officer, newest first."""
    if caller.scope("list_questions") is None:
        raise not_found()
    found = service.questions.list(caller, before=before, most=50)
    return page(
        request, "history.html", caller, questions=found, titles=titles(service, caller), everyone=caller.scope("list_questions") == "any",
        shared=service.questions.all_shared(caller), more=_asked(found[-1]) if len(found) == 50 else None,
    )


def _asked(view: Mapping[str, Any]) -> float:
    return datetime.datetime.fromisoformat(view["asked"]).timestamp()


@router.get("/shared")
def open_shared(caller: Looking, link: Annotated[str, Query(max_length=300)] = "") -> Response:
    """Open a link that someone sent, pasted into the history page."""
    name = link.rstrip("/").rpartition("/")[2]
    if not name.isalnum():
        raise ServiceError(code="not-found")
    return RedirectResponse(f"/shared/{name}", 303)
