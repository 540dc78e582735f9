"""The application: routes, sign-in of each request, limits, headers, and errors as problem documents.

A request is let in by a token (`Authorization: Bearer`), or by a browser's session cookie. With a cookie, whatever changes
something must come from the service's own origin and carry the form token. Nothing that a caller sent is repeated in an
error or in a log, and no answer has the status 500: a fault of ours says `unavailable`, and which request it was.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import Depends, FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tacit import __version__
from tacit.accounting import Refusal
from tacit.server.access import Caller
from tacit.server.desk import Service
from tacit.server.errors import ServiceError, of_refusal, problem
from tacit.server.limits import depth

LOG = logging.getLogger("tacit.server")
#: What the client and the service must agree on; it changes when an answer's JSON does.
PROTOCOL = "1"
COOKIE, PLAIN_COOKIE = "__Host-tacit", "tacit-local"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
    "tacit-protocol": PROTOCOL,
}
#: Methods that change nothing.
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_RATES = {"price": "price_per_minute", "explain": "price_per_minute", "ask": "questions_per_minute", "dummy_rows": "dummy_per_minute"}


def application(service: Service) -> FastAPI:
    """The service as an ASGI application."""
    from tacit.server.api import books, datasets, health, people, purposes, questions, releases, sign_in, subjects
    from tacit.server.pages import routers

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.close)

    app = FastAPI(
        title="Tacit", version=__version__, openapi_url="/v1/openapi.json", docs_url=None, redoc_url=None, lifespan=life,
        redirect_slashes=False, strict_content_type=True,
    )  # fmt: skip
    app.state.service = service
    for module in (datasets, questions, books, releases, purposes, people, subjects, health, sign_in):
        app.include_router(module.router)
    for router in routers():
        app.include_router(router)
    app.add_exception_handler(ServiceError, _refused)
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_middleware(Guard, service=service)
    # FastAPI puts its routes together at the first request. Two first requests in two threads would each see half of them.
    app.openapi()
    return app


# --- errors -----------------------------------------------------------------------------------------------------------


def answered(error: ServiceError) -> JSONResponse:
    """A refusal as a response."""
    headers = {"retry-after": str(error.facts["seconds"])} if error.code == "rate-limited" else {}
    if error.code == "not-signed-in":
        headers["www-authenticate"] = "Bearer"
    return JSONResponse(problem(error), error.status, headers, "application/problem+json")


def told(request: Request, error: ServiceError) -> Response:
    """A refusal as a response: a page where a page was asked for."""
    from tacit.server.pages.view import is_page, problem_page

    return problem_page(request, error) if is_page(request) else answered(error)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return told(request, of_refusal(error))


async def _invalid(request: Request, error: Exception) -> Response:
    """Which fields are wrong and why, in pydantic's constant words. What was sent is not repeated."""
    assert isinstance(error, RequestValidationError)
    if any(fault["type"] == "json_invalid" for fault in error.errors()):
        return told(request, ServiceError(code="not-json"))
    fields = {}
    for fault in error.errors():
        # a name that the schema does not have is the sender's, and is not repeated either
        place = fault["loc"][:-1] if fault["type"] in ("extra_forbidden", "invalid_key") else fault["loc"]
        known = [str(part) if not isinstance(part, int) else "[]" for part in place[:3] if isinstance(part, int) or _plain(part)]
        fields[".".join(known)] = _WORDS.get(fault["type"], "is not of the form that the schema asks for")
    return told(request, ServiceError(code="invalid", fields=dict(list(fields.items())[:20])))


_WORDS = {
    "missing": "is missing",
    "extra_forbidden": "has a field that is not known",
    "string_too_long": "is too long",
    "string_too_short": "is too short",
    "too_long": "has too many items",
    "too_short": "has too few items",
    "string_type": "must be a text",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "literal_error": "is none of the values that are allowed",
    "string_pattern_mismatch": "is not written as it must be",
    "value_error": "does not go together with the other fields",
}


def _plain(part: object) -> bool:
    return isinstance(part, str) and part.isidentifier() and len(part) <= 40


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    codes = {404: "not-found", 405: "method", 400: "not-json", 415: "media-type"}
    return told(request, ServiceError(code=codes.get(error.status_code, "unavailable")))


# --- who is calling ---------------------------------------------------------------------------------------------------


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
        caller = await run_in_threadpool(service.register.by_token, text.strip()) if fits else None
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
    return await run_in_threadpool(service.register.by_session, cookie) if 8 < len(cookie) < 200 else None


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


async def limited(request: Request, caller: Annotated[Caller, Depends(signed_in)]) -> Caller:
    """Who is calling, within the rates of the route."""
    service, route = service_of(request), request.scope.get("route")
    kind = _RATES.get(getattr(route, "operation_id", None) or "", "other_per_minute")
    service.rates.insist(caller.token or caller.session, kind, getattr(service.configuration.limits, kind))
    return caller


Signed = Annotated[Caller, Depends(limited)]


async def _serving(request: Request) -> Service:
    return service_of(request)  # a coroutine, because a plain function would be sent to a thread each time


Serving = Annotated[Service, Depends(_serving)]


# --- around every request ---------------------------------------------------------------------------------------------


class Guard:
    """Reads bodies within their limits, adds the headers, and lets no fault of ours tell what it was about."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def guarded(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                own = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *((name.encode(), value.encode()) for name, value in self._headers().items() if name.encode() not in own),
                ]
            await send(message)

        try:
            version = next((value for name, value in scope["headers"] if name == b"tacit-protocol"), None)
            if version is not None and version != PROTOCOL.encode():
                raise ServiceError(code="version", wanted=f"tacit {__version__} on both sides")
            body = await self._body(scope, receive)
            await self.app(scope, _replayed(body, receive), guarded)
        except ServiceError as error:
            if not started:
                await answered(error)(scope, receive, guarded)
        except Exception:
            # its words may quote anything
            LOG.error("a request failed by a fault of the service")
            if not started:
                await answered(ServiceError(code="unavailable"))(scope, receive, guarded)

    def _headers(self) -> dict[str, str]:
        if self.service.configuration.listen.secure:
            return {**HEADERS, "strict-transport-security": "max-age=31536000"}
        return HEADERS

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        if scope["method"] in SAFE:
            return b""
        limits = self.service.configuration.limits
        declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if not declared.isdigit() or int(declared) > limits.body_bytes:
            raise ServiceError(code="too-large", most=limits.body_bytes)
        parts, size = list[bytes](), 0
        try:
            async with asyncio.timeout(limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        break
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > limits.body_bytes:
                        raise ServiceError(code="too-large", most=limits.body_bytes)
                    if not message.get("more_body"):
                        break
        except TimeoutError:
            slow = True
        else:
            slow = False
        if slow:
            raise ServiceError(code="too-slow", seconds=limits.body_seconds)
        body = b"".join(parts)
        kind = next((value for name, value in scope["headers"] if name == b"content-type"), b"")
        if body and b"json" in kind:
            try:
                text = body.decode()
            except UnicodeDecodeError:
                text = ""
            if not text:
                raise ServiceError(code="not-json")
            if depth(text) > limits.body_depth:
                raise ServiceError(code="too-deep", deepest=limits.body_depth)
        return body


def _replayed(body: bytes, receive: Receive) -> Receive:
    """A body that was read already, once; then whatever comes."""
    sent = False

    async def again() -> Message:
        nonlocal sent
        if not sent:
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return again


def padded(content: Any, status: int = 200) -> Response:
    """JSON whose length tells its size class only: blanks at its end fill it up to a power of two."""
    text = json.dumps(content, separators=(",", ":")).encode()
    size = 4096
    while size < len(text):
        size *= 2
    return Response(text.ljust(size), status, media_type="application/json")


