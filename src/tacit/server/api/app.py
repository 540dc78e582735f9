"""The application: routes, limits of bodies, headers, and errors as problem documents.

Who may come in is told by `calling`. Nothing that a caller sent is repeated in an error or in a log, and no answer has the
status 500: a fault of ours says `unavailable`. All routes are put together before the first request.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tacit import __version__
from tacit.accounting import Refusal
from tacit.server.api import beacons, books, datasets, health, people, purposes, questions, releases, sign_in, subjects
from tacit.server.api.calling import SAFE
from tacit.server.desk import Service
from tacit.server.errors import ServiceError, of_refusal, problem
from tacit.server.limits import depth
from tacit.server.pages import routers
from tacit.server.pages.view import is_page, problem_page
from tacit.server.telemetry import Telemetry

LOG = logging.getLogger("tacit.server")
#: What the client and the service must agree on; it changes when an answer's JSON does.
PROTOCOL = "1"
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
_PLAIN = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
_SECURE = [*_PLAIN, (b"strict-transport-security", b"max-age=31536000")]


def application(service: Service) -> FastAPI:
    """The service as an ASGI application."""

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.close)

    app = FastAPI(
        title="Tacit", version=__version__, openapi_url="/v1/openapi.json", docs_url=None, redoc_url=None, lifespan=life,
        redirect_slashes=False, strict_content_type=True,
    )  # fmt: skip
    app.state.service = service
    # routes are tried in this order, and budgets are looked at most
    for module in (books, datasets, questions, releases, purposes, people, subjects, health, sign_in):
        app.include_router(module.router)
    if service.beacons.names:
        app.include_router(beacons.router)
    for router in routers():
        app.include_router(router)
    app.add_exception_handler(ServiceError, _refused)
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_middleware(Guard, service=service)
    _put_together(app)
    return app


def _put_together(app: FastAPI) -> None:
    """Have FastAPI resolve its routes and its middleware now, in one thread.

    It does so at the first request otherwise, and a second thread that comes meanwhile finds half of the routes: a page that is
    there was not found.
    """
    for route in app.routes:
        route.matches({"type": "http", "method": "GET", "path": "/", "root_path": "", "headers": []})
    app.openapi()
    app.middleware_stack = app.build_middleware_stack()


# --- errors -----------------------------------------------------------------------------------------------------------


def answered(error: ServiceError) -> JSONResponse:
    """A refusal as a response."""
    headers = {"retry-after": str(error.facts["seconds"])} if error.code == "rate-limited" else {}
    if error.code == "not-signed-in":
        headers["www-authenticate"] = "Bearer"
    return JSONResponse(problem(error), error.status, headers, "application/problem+json")


def told(request: Request, error: ServiceError) -> Response:
    """A refusal as a response: a page where a page was asked for, and a beacon's document where a beacon was."""
    if request.url.path.startswith(beacons.PREFIX):
        return beacons.refused(error, answered(error).headers)
    return problem_page(request, error) if is_page(request) else answered(error)


def _worded(scope: Scope, error: ServiceError) -> Response:
    """A refusal before any route was found: a beacon's path gets a beacon's document."""
    plain = answered(error)
    return beacons.refused(error, plain.headers) if str(scope["path"]).startswith(beacons.PREFIX) else plain


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


# --- around every request ---------------------------------------------------------------------------------------------


class Guard:
    """Reads bodies within their limits, adds the headers, and lets no fault of ours tell what it was about."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app, self.service = app, service
        self.telemetry = Telemetry() if service.configuration.telemetry else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status, began = False, 0, time.time_ns()

        async def guarded(message: Message) -> None:
            nonlocal started, status
            if message["type"] == "http.response.start":
                started, status = True, message["status"]
                own = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(header for header in self._headers() if header[0] not in own)]
            await send(message)

        try:
            version = next((value for name, value in scope["headers"] if name == b"tacit-protocol"), None)
            if version is not None and version != PROTOCOL.encode():
                raise ServiceError(code="version", wanted=f"tacit {__version__} on both sides")
            safe = scope["method"] in SAFE
            await self.app(scope, receive if safe else _replayed(await self._body(scope, receive), receive), guarded)
        except ServiceError as error:
            if not started:
                await _worded(scope, error)(scope, receive, guarded)
        except Exception:
            # its words may quote anything
            LOG.error("a request failed by a fault of the service")
            if not started:
                await _worded(scope, ServiceError(code="unavailable"))(scope, receive, guarded)
        finally:
            if self.telemetry is not None:
                self.telemetry.request(scope, status, began)

    def _headers(self) -> list[tuple[bytes, bytes]]:
        return _SECURE if self.service.configuration.listen.secure else _PLAIN

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
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
