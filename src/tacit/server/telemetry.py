"""Traces and counts of requests for those who run the service (extra `telemetry`): which route, which status, how long. No values.

A span has the route's template (`/v1/questions/{question}`), the method and the status, and nothing that a caller sent: no
address, no identifier, no body. There is no span of an engine's work. How long that takes depends on the rows, and traces go
to other systems; a request that waits for an answer ends on the grid, so its span tells what the answer's own time tells.

`telemetry: true` in the service's file turns it on. Where spans go is set as OpenTelemetry sets it, by its SDK's environment.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from tacit.accounting import PackageMissing

NAME = "tacit.server"
#: What a request is called whose address no route has; the address itself is the sender's.
UNKNOWN = "no such route"


class Telemetry:
    """Spans and a count of requests."""

    def __init__(self) -> None:
        try:
            from opentelemetry import metrics, trace
        except ImportError:
            raise PackageMissing(code="package-missing", package="opentelemetry-api", install="'tacit[telemetry]'") from None
        self._tracer = trace.get_tracer(NAME)
        self._requests = metrics.get_meter(NAME).create_counter("tacit.requests", description="requests by route and status")

    def request(self, scope: Mapping[str, Any], status: int, began: int) -> None:
        """Note a request that has ended; `began` is in nanoseconds since 1970."""
        route = getattr(scope.get("route"), "path", None) or UNKNOWN
        # methods are the sender's words too: those that HTTP has, or none
        method = scope["method"] if scope["method"] in ("GET", "HEAD", "POST", "DELETE", "OPTIONS", "PUT", "PATCH") else "_OTHER"
        told = {"http.request.method": method, "http.route": route, "http.response.status_code": status}
        span = self._tracer.start_span(f"{method} {route}", start_time=began, attributes=told)
        span.end(end_time=time.time_ns())
        self._requests.add(1, told)
