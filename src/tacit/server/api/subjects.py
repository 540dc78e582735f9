"""What data subjects demand, carried out by the officer."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from tacit.server.api.calling import Serving, Signed
from tacit.server.requests import SubjectRequest

router = APIRouter(prefix="/v1/subjects", tags=["data subjects"])


@router.post("/access", operation_id="subject_access")
def subject_access(service: Serving, caller: Signed, request: SubjectRequest) -> dict[str, Any]:
    """Purposes, sources and columns that use a person's data. It is made on demand, and not kept."""
    return service.subjects.access(caller, request)


@router.post("/withdraw", operation_id="subject_withdraw")
def subject_withdraw(service: Serving, caller: Signed, request: SubjectRequest) -> dict[str, Any]:
    """Take consent back, for some purposes or all."""
    return service.subjects.withdraw(caller, request)


@router.post("/object", operation_id="subject_object")
def subject_object(service: Serving, caller: Signed, request: SubjectRequest) -> dict[str, Any]:
    """Object to some purposes, or all."""
    return service.subjects.object(caller, request)


@router.post("/erase", operation_id="subject_erase")
def subject_erase(service: Serving, caller: Signed, request: SubjectRequest) -> dict[str, Any]:
    """Leave a person out of everything from now on."""
    return service.subjects.erase(caller, request)


@router.post("/restore", operation_id="subject_restore")
def subject_restore(service: Serving, caller: Signed, request: SubjectRequest) -> dict[str, Any]:
    """Take a person in again who asks for it."""
    return service.subjects.restore(caller, request)
