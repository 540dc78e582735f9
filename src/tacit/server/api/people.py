"""People, their tokens and sessions."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Response

from tacit.server.access import check
from tacit.server.api.calling import Serving, Signed
from tacit.server.errors import ServiceError, not_found
from tacit.server.requests import NewPerson, NewToken

router = APIRouter(prefix="/v1", tags=["people"])
Id = Annotated[str, Path(max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]


@router.get("/people", operation_id="list_people")
def list_people(service: Serving, caller: Signed) -> list[dict[str, Any]]:
    """Everyone who may sign in."""
    check(caller, "list_people")
    return [
        {"id": found.id, "name": found.name, "roles": found.roles, "datasets": found.datasets, "active": found.active}
        for found in service.register.all()
    ]


@router.post("/people", operation_id="make_person", status_code=201)
def make_person(service: Serving, caller: Signed, request: NewPerson) -> dict[str, Any]:
    """Add someone. Those of the service's file are changed there. A role that approves is given in the file only."""
    check(caller, "make_person", datasets=request.datasets or ())
    if caller.datasets is not None and request.datasets is None:
        raise ServiceError(code="invalid", fields={"datasets": "must be among your own: you give nobody more than you have"})
    if request.id in service.configuration.people:
        raise ServiceError(code="read-only")
    if "officer" in request.roles:
        # a curator who could make an officer could approve what she likes
        raise ServiceError(code="invalid", fields={"roles": "an officer is named in the service's file"})
    if service.register.find(request.id) is not None:
        raise ServiceError(code="taken")
    unknown = set(request.datasets or ()) - set(service.datasets)
    if unknown or ("analyst" in request.roles and request.datasets is None):
        raise ServiceError(code="invalid", fields={"datasets": "must name data sets that an analyst may ask about"})
    service.register.add(
        request.id, roles=request.roles, datasets=request.datasets, name=request.name, subject=request.subject, new=True
    )  # fmt: skip
    return {"id": request.id}


@router.get("/tokens", operation_id="list_tokens")
def list_tokens(service: Serving, caller: Signed) -> list[dict[str, Any]]:
    """The caller's tokens, without their texts."""
    check(caller, "list_tokens")
    return service.register.tokens_of(caller.person)


@router.post("/tokens", operation_id="make_token", status_code=201)
def make_token(service: Serving, caller: Signed, request: NewToken) -> dict[str, Any]:
    """A new token. Its text is shown here, once. A token makes no wider one than itself."""
    check(caller, "make_token", datasets=request.datasets or ())
    if request.role not in caller.roles or caller.token:
        raise ServiceError(code="invalid", fields={"role": "a token is made after signing in, for one of your roles"})
    made = service.register.issue(
        caller.person, role=request.role, label=request.label, days=request.days, datasets=request.datasets,
        epsilon_a_day=request.epsilon_a_day,
    )  # fmt: skip
    return {"id": made.id, "token": made.text, "expires": made.expires}


def _check_owner(caller: Signed, action: str, owner: str | None) -> None:
    """Refuse who may not do this to what another one owns; what is not there is said only to who may."""
    if owner is None:
        check(caller, action)
        raise not_found()
    check(caller, action, owner=owner)


@router.delete("/tokens/{token}", operation_id="revoke_token", status_code=204)
def revoke_token(service: Serving, caller: Signed, token: Id) -> Response:
    """From now on the token is none."""
    _check_owner(caller, "revoke_token", service.register.owner_of_token(token))
    service.register.revoke_token(token)
    return Response(status_code=204)


@router.get("/sessions", operation_id="list_sessions")
def list_sessions(service: Serving, caller: Signed) -> list[dict[str, Any]]:
    """The caller's sessions in browsers."""
    check(caller, "list_sessions")
    return service.register.sessions_of(caller.person)


@router.delete("/sessions/{session}", operation_id="revoke_session", status_code=204)
def revoke_session(service: Serving, caller: Signed, session: Id) -> Response:
    """End a session."""
    _check_owner(caller, "revoke_session", service.register.owner_of_session(session))
    service.register.end(session)
    return Response(status_code=204)
