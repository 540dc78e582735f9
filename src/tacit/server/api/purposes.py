"""Purposes and decisions."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from tacit.server.access import check
from tacit.server.api.calling import Serving, Signed
from tacit.server.requests import NewDecision, NewPurpose

router = APIRouter(prefix="/v1", tags=["purposes and decisions"])


@router.get("/purposes", operation_id="list_purposes")
def list_purposes(service: Serving, caller: Signed) -> list[dict[str, Any]]:
    """The purposes of the data sets that the caller may see."""
    check(caller, "list_purposes")
    return [purpose.record() for purpose in service.purposes.all() if any(map(caller.may_see, purpose.spec.datasets))]


@router.post("/purposes", operation_id="make_purpose", status_code=201)
def make_purpose(service: Serving, caller: Signed, request: NewPurpose) -> dict[str, Any]:
    """A new purpose with its own budget."""
    check(caller, "make_purpose", datasets=request.datasets)
    return service.purposes.add(caller.person, request).record()


@router.get("/decisions", operation_id="list_decisions")
def list_decisions(service: Serving, caller: Signed) -> list[dict[str, Any]]:
    """Who set which epsilon, and why."""
    check(caller, "list_decisions")
    return service.decisions.all()


@router.post("/decisions", operation_id="make_decision", status_code=201)
def make_decision(service: Serving, caller: Signed, request: NewDecision) -> dict[str, str]:
    """Record a decision."""
    check(caller, "make_decision")
    return {"id": service.decisions.add(caller.person, request)}
