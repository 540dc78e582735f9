"""Who is calling, and within which rates: what every route of the API and every page asks before it does anything.

A request is let in by a token (`Authorization: Bearer`), or by a browser's session cookie. With a cookie, whatever changes
something must come from the service's own origin and carry the form token.
"""

from __future__ import annotations

import secrets
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool

from tacit.server.access import Caller
from tacit.server.desk import Service
from tacit.server.errors import ServiceError

COOKIE, PLAIN_COOKIE = "__Host-tacit", "tacit-local"
#: Methods that change nothing.
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_RATES = {
    "price": "price_per_minute", "explain": "price_per_minute", "dummy_rows": "dummy_per_minute",
    "ask": "questions_per_minute", "ask_beacon": "questions_per_minute", "post_beacon": "questions_per_minute",
}  # fmt: skip


def service_of(request: Request) -> Service:
    """The service of an application."""
    found: Service = request.app.state.service
    return found


def address_of(request: Request) -> str:
    """Where a request comes from, as far as the service can tell; behind a declared proxy, what that says."""
    client = request.client.host if request.client else "unknown"
    if client in service_of(request).configuration.listen.proxy:
        forwarded = request.headers.get("x-forwarded-for", "").rpartition(",")[2].strip()
        return forwarded[:64] or client
    return client


def cookie_name(service: Service) -> str:
    """The name of the session's cookie: browsers accept `__Host-` through TLS only."""
    return COOKIE if service.configuration.listen.secure else PLAIN_COOKIE


async def signed_in(request: Request) -> Caller:
    """Who is calling; refused without a token or a session that holds."""
    service = service_of(request)
    given = request.headers.get("authorization", "")
    if given:
        scheme, _, text = given.partition(" ")
        fits = scheme.lower() == "bearer" and 8 < len(text) < 200
        caller = None
        if fits:
            text = text.strip()
            caller = service.register.at_once(token=text) or await run_in_threadpool(service.register.by_token, text)
        if caller is None:
            service.rates.insist(address_of(request), "sign_in", service.configuration.limits.sign_in_per_minute * 6)
            raise ServiceError(code="not-signed-in")
        return caller
    caller = await browsing(request)
    if caller is None:
        raise ServiceError(code="not-signed-in")
    if request.method not in SAFE:
        same_origin(request)
        if not secrets.compare_digest(await form_token(request), caller.form_token):
            raise ServiceError(code="form-expired")
    return caller


async def browsing(request: Request) -> Caller | None:
    """The caller of a browser's session; None where nobody is signed in."""
    service = service_of(request)
    cookie = request.cookies.get(cookie_name(service), "")
    if not 8 < len(cookie) < 200:
        return None
    return service.register.at_once(session=cookie) or await run_in_threadpool(service.register.by_session, cookie)


async def form_token(request: Request) -> str:
    """The token that a script sends as a header, and a plain form as a field."""
    given = request.headers.get("x-tacit-form")
    if given is None and request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        given = str((await request.form()).get("form_token", ""))
    return (given or "").encode("ascii", "replace").decode()


def same_origin(request: Request) -> None:
    """Refuse what another site had the browser send."""
    service = service_of(request)
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    if site is not None and site not in ("same-origin", "none"):
        raise ServiceError(code="forged")
    if origin is not None and origin != "null":
        host = urlsplit(origin).netloc
        if origin != service.configuration.origin and host != request.headers.get("host"):
            raise ServiceError(code="forged")
    if origin == "null" or (origin is None and site is None):
        raise ServiceError(code="forged")


async def limited(request: Request) -> Caller:
    """Who is calling, within the rates of the route."""
    caller = await signed_in(request)
    route = request.scope.get("route")
    within(service_of(request), caller, getattr(route, "operation_id", None) or "")
    return caller


def within(service: Service, caller: Caller, action: str) -> None:
    """Refuse an action beyond its rate. By person: who makes many tokens, or signs in many times, is one who asks."""
    kind = _RATES.get(action, "other_per_minute")
    service.rates.insist(caller.person, kind, getattr(service.configuration.limits, kind))


Signed = Annotated[Caller, Depends(limited)]


async def _serving(request: Request) -> Service:
    return service_of(request)  # a coroutine, because a plain function would be sent to a thread each time


Serving = Annotated[Service, Depends(_serving)]
