"""Signing in and out: by a link that works once, or by an identity provider. There are no passwords."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.responses import RedirectResponse

from tacit.server.api.calling import Serving, Signed, address_of, cookie_name, same_origin
from tacit.server.desk import Service
from tacit.server.errors import ServiceError, not_found
from tacit.server.oidc import Provider

router = APIRouter(tags=["sign-in"], include_in_schema=False)
#: The text of a link; what stands at `/sign-in/link/` and is opened with GET is a page, the same for every text.
Secret = Annotated[str, Path(max_length=100, pattern=r"^[A-Za-z0-9_-]+$")]


def with_session(service: Service, session: str, where: str = "/") -> Response:
    """A redirect that gives the browser its session."""
    found = RedirectResponse(where, 303)
    secure = service.configuration.listen.secure
    total = int(service.configuration.limits.session_total)
    found.set_cookie(cookie_name(service), session, max_age=total, path="/", secure=secure, httponly=True, samesite="lax")
    return found


@router.post("/sign-in/link/{secret}")
def by_link(service: Serving, request: Request, secret: Secret) -> Response:
    """Sign in by a link, from the button of its page. It works once, for ten minutes; any other text is refused in the same words.

    What only follows links, such as a scanner of mail, uses nothing up, and another site cannot press the button: it would sign someone
    in as another person.
    """
    same_origin(request)
    service.rates.insist(address_of(request), "sign_in", service.configuration.limits.sign_in_per_minute)
    session = service.register.follow(secret)
    if session is None:
        raise ServiceError(code="sign-in-failed")
    return with_session(service, session)


@router.get("/sign-in/start")
def start(service: Serving, request: Request) -> Response:
    """Go to the identity provider."""
    service.rates.insist(address_of(request), "sign_in", service.configuration.limits.sign_in_per_minute)
    provider = _provider(service)
    address, browser = provider.start()
    found = RedirectResponse(address, 303)
    secure = service.configuration.listen.secure
    found.set_cookie(_binding(service), browser, max_age=600, path="/", secure=secure, httponly=True, samesite="lax")
    return found


@router.get("/sign-in/callback")
def callback(
    service: Serving, request: Request, state: Annotated[str, Query(max_length=200)] = "",
    code: Annotated[str, Query(max_length=4000)] = "",
) -> Response:  # fmt: skip
    """Come back from the identity provider. Someone whom the register does not know is refused in the words of every failure."""
    service.rates.insist(address_of(request), "sign_in", service.configuration.limits.sign_in_per_minute)
    subject = _provider(service).finish(state, code, request.cookies.get(_binding(service), ""))
    person = service.register.by_subject(subject)
    session = None if person is None else service.register.begin(person.id)
    if session is None:
        raise ServiceError(code="sign-in-failed")
    found = with_session(service, session)
    found.delete_cookie(_binding(service), path="/")
    return found


def _binding(service: Service) -> str:
    """The cookie that binds a sign-in under way to its browser."""
    return f"{cookie_name(service)}-sign-in"


def _provider(service: Service) -> Provider:
    if service.provider is None:
        raise not_found()
    return service.provider


@router.post("/sign-out")
def sign_out(service: Serving, caller: Signed) -> Response:
    """End the session on the server, and take the cookie back."""
    if caller.session:
        service.register.end(caller.session)
    found = RedirectResponse("/", 303)
    found.delete_cookie(cookie_name(service), path="/")
    return found
