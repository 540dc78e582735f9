"""Models: each training on the data, the six questions of before, its payments, and what attacks found. Never the word safe."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse

from tacit.release import QUESTIONS
from tacit.server.access import Caller, check
from tacit.server.api.calling import Serving
from tacit.server.desk import Service
from tacit.server.errors import ServiceError
from tacit.server.pages.view import Looking, Posted, checked, page, titles
from tacit.server.requests import NewModel

router = APIRouter(include_in_schema=False)


@router.get("/models")
def models(request: Request, service: Serving, caller: Looking) -> Response:
    """The register of trainings."""
    return _page(request, service, caller)


def _page(request: Request, service: Service, caller: Caller, error: ServiceError | None = None, **typed: Any) -> Response:
    found = service.models.list(caller)
    return page(
        request, "models.html", caller, error=error, models=found["models"], totals=found["totals"], titles=titles(service, caller),
        questions=QUESTIONS, typed=typed,
    )  # fmt: skip


@router.post("/models")
async def enter(request: Request, service: Serving, sent: Posted) -> Response:
    """Enter a training."""
    check(sent.caller, "make_model")
    typed = sent.form.given("dataset", "name", "run", *QUESTIONS)
    try:
        wanted = checked(NewModel, {**typed, "attacks": sent.form.all("attacks")})
        await run_in_threadpool(service.models.add, sent.caller, wanted)
    except ServiceError as error:
        if error.code == "not-found":
            raise
        return await run_in_threadpool(_page, request, service, sent.caller, error, **typed)
    return RedirectResponse("/models", 303)
