"""Releases: what was published, its report and files; and for the curator, planning and running the next one."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from fastapi.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse

from tacit.server.access import check
from tacit.server.api.calling import Serving
from tacit.server.pages.view import Looking, Posted, checked, page, titles
from tacit.server.requests import PlanRelease, RunRelease

router = APIRouter(include_in_schema=False)
Id = Annotated[str, Path(max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]


@router.get("/releases")
def releases(request: Request, service: Serving, caller: Looking) -> Response:
    """Every release that exists for the caller."""
    return page(request, "releases.html", caller, releases=service.releases.list(caller), titles=titles(service, caller))


@router.get("/releases/{release}")
def release(request: Request, service: Serving, caller: Looking, release: Id) -> Response:
    """One release: its outputs, warnings, files."""
    return page(request, "release.html", caller, release=service.releases.read(caller, release), titles=titles(service, caller))


@router.post("/releases")
async def plan(service: Serving, sent: Posted) -> Response:
    """Plan a release of a data set's own job. No data is touched."""
    check(sent.caller, "plan_release")
    wanted = checked(PlanRelease, sent.form.given("dataset"))
    made = await run_in_threadpool(service.releases.plan, sent.caller, wanted.dataset)
    return RedirectResponse(f"/releases/{made['id']}", 303)


@router.post("/releases/{release}/run")
async def run(service: Serving, sent: Posted, release: Id) -> Response:
    """Pay for a planned release, and publish it; one that was held back is accepted as it is."""
    wanted = checked(RunRelease, {"accept": bool(sent.form.given("accept"))})
    await run_in_threadpool(partial(service.releases.run, sent.caller, release, accept=wanted.accept))
    return RedirectResponse(f"/releases/{release}", 303)
