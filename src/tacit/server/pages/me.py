"""Your own page: who you are here, tokens for programs, and the browsers in which you are signed in."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from fastapi.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse

from tacit.server.access import Caller
from tacit.server.api import people
from tacit.server.api.calling import Serving
from tacit.server.desk import Service
from tacit.server.errors import ServiceError
from tacit.server.pages.view import Looking, Posted, checked, page, titles
from tacit.server.requests import NewToken

router = APIRouter(include_in_schema=False)
Id = Annotated[str, Path(max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]


@router.get("/me")
def me(request: Request, service: Serving, caller: Looking) -> Response:
    """Roles, tokens and sessions."""
    return _page(request, service, caller)


def _page(request: Request, service: Service, caller: Caller, **shown: Any) -> Response:
    return page(
        request, "me.html", caller, tokens=people.list_tokens(service, caller), sessions=people.list_sessions(service, caller),
        titles=titles(service, caller), **{"made": None, "error": None, **shown},
    )  # fmt: skip


@router.post("/me/tokens")
async def make_token(request: Request, service: Serving, sent: Posted) -> Response:
    """A new token. Its text is on this page, once."""
    given: dict[str, Any] = sent.form.given("role", "label", "epsilon_a_day")
    days = sent.form["days"]
    if days:
        given["days"] = int(days) if days.isascii() and days.isdigit() and len(days) < 5 else 0
    if sent.form.all("datasets"):
        given["datasets"] = sent.form.all("datasets")
    try:
        made = await run_in_threadpool(people.make_token, service, sent.caller, checked(NewToken, given))
    except ServiceError as error:
        return await run_in_threadpool(_page, request, service, sent.caller, error=error)
    return await run_in_threadpool(_page, request, service, sent.caller, made=made)


@router.post("/me/tokens/{token}/revoke")
async def revoke_token(service: Serving, sent: Posted, token: Id) -> Response:
    """From now on the token is none."""
    await run_in_threadpool(people.revoke_token, service, sent.caller, token)
    return RedirectResponse("/me", 303)


@router.post("/me/sessions/{session}/end")
async def end_session(service: Serving, sent: Posted, session: Id) -> Response:
    """Sign out another browser."""
    await run_in_threadpool(people.revoke_session, service, sent.caller, session)
    return RedirectResponse("/me", 303)
