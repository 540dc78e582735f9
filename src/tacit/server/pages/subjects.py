"""Purposes, and what people may demand about their own rows. The officer carries it out; the page says what it does not undo."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse

from tacit.server.access import Caller, check
from tacit.server.api import purposes as api
from tacit.server.api.calling import Serving
from tacit.server.desk import Service
from tacit.server.errors import ServiceError
from tacit.server.pages.view import Form, Looking, Posted, checked, lines, page, titles
from tacit.server.purposes import HARMS, PRINCIPLES
from tacit.server.requests import NewPurpose, SubjectRequest
from tacit.tables import KINDS

router = APIRouter(include_in_schema=False)
_FLOW = ("subject", "sender", "recipient", "type", "principle")


@router.get("/purposes")
def purposes(request: Request, service: Serving, caller: Looking) -> Response:
    """What the data are used for."""
    return _purposes(request, service, caller)


def _purposes(request: Request, service: Service, caller: Caller, error: ServiceError | None = None, **typed: Any) -> Response:
    return page(
        request, "purposes.html", caller, error=error, purposes=api.list_purposes(service, caller), titles=titles(service, caller),
        harms=HARMS, principles=PRINCIPLES, kinds=KINDS, typed=typed,
    )  # fmt: skip


@router.post("/purposes")
async def make(request: Request, service: Serving, sent: Posted) -> Response:
    """A new purpose of a curator."""
    check(sent.caller, "make_purpose")
    form = sent.form
    typed = form.given("id", "who", "statistics", "why", "epsilon", "basis", "until", "columns", *_FLOW)
    given: dict[str, Any] = {**form.given("id", "who", "statistics", "why", "epsilon", "basis", "until"), "datasets": form.all("datasets")}
    if form["columns"]:
        given["columns"] = lines(form["columns"].replace(",", "\n"))
    if form.all("kinds"):
        given["kinds"] = form.all("kinds")
    if any(form[name] for name in _FLOW):
        given["flow"] = form.given(*_FLOW)
    try:
        wanted = checked(NewPurpose, given)
        await run_in_threadpool(api.make_purpose, service, sent.caller, wanted)
    except ServiceError as error:
        if error.code == "not-found":
            raise
        return await run_in_threadpool(_purposes, request, service, sent.caller, error, **typed)
    return RedirectResponse("/purposes", 303)


@router.get("/subjects")
def subjects(request: Request, service: Serving, caller: Looking) -> Response:
    """What people may demand, and the form to carry it out."""
    return _subjects(request, service, caller)


@router.post("/subjects")
async def demand(request: Request, service: Serving, sent: Posted) -> Response:
    """Carry out what a person demands. What is shown about a person is made now and kept nowhere."""
    return await run_in_threadpool(_demanded, request, service, sent.caller, sent.form)


def _demanded(request: Request, service: Service, caller: Caller, form: Form) -> Response:
    desk = service.subjects
    calls = {
        "access": desk.access, "withdraw": desk.withdraw, "object": desk.object, "erase": desk.erase, "restore": desk.restore,
    }  # fmt: skip
    what = form["what"]
    check(caller, "subject_access")
    try:
        if what not in calls:
            raise ServiceError(code="invalid", fields={"what": "is none of the choices"})
        given: dict[str, Any] = form.given("dataset", "person")
        if form.all("purposes") and what != "erase":
            given["purposes"] = form.all("purposes")
        found = calls[what](caller, checked(SubjectRequest, given))
    except ServiceError as error:
        if error.code == "not-found":
            raise
        return _subjects(request, service, caller, error=error, chosen=what)
    # the identifier is not shown again: a page that lies open would keep it
    return _subjects(request, service, caller, done=None if what == "access" else found, known=found if what == "access" else None)


def _subjects(request: Request, service: Service, caller: Caller, **shown: Any) -> Response:
    check(caller, "subject_access")
    sets = [one for one in service.list_datasets(caller) if service.datasets[one["id"]].people_columns()]
    values = {"done": None, "known": None, "chosen": "access", "error": None, **shown}
    return page(request, "subjects.html", caller, datasets=sets, **values)
