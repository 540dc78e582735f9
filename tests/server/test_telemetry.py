"""Spans and counts: routes and statuses, and nothing that a caller sent or that the data hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.server.house import SQL, House

from tacit.server import telemetry


def recording(monkeypatch: pytest.MonkeyPatch) -> tuple[Callable[[], Sequence[Any]], Callable[[], str]]:
    """Keep what is sent through OpenTelemetry from now on: the spans, and all of it as text."""
    sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="opentelemetry is not installed")
    from opentelemetry import metrics, trace
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept, reader, provider = InMemorySpanExporter(), InMemoryMetricReader(), sdk.TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    monkeypatch.setattr(metrics, "get_meter", MeterProvider([reader]).get_meter)

    def text() -> str:
        return json.dumps([json.loads(span.to_json()) for span in kept.get_finished_spans()]) + str(reader.get_metrics_data())

    return kept.get_finished_spans, text


def test_spans_hold_routes_and_statuses_and_no_values(
    house_in: Callable[..., House], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished, told = recording(monkeypatch)
    house = house_in(tmp_path, extra="telemetry: true\n")
    canary = "canary-7f3a"
    try:
        view = house.ask("ann", f"key-{canary}").json()
        house.send("ann", "GET", f"/v1/questions/{view['id']}")
        house.send("ann", "POST", "/v1/price", {"dataset": canary, "purpose": canary, "sql": SQL, "epsilon": "1"})
        house.send("olga", "POST", "/v1/subjects/erase", {"dataset": "visits", "person": "13572468"})
        house.send(None, "GET", f"/{canary}?q={canary}", user_agent=canary)
        house.send(None, canary.upper(), "/v1/me")
        house.send("ann", "POST", "/v1/questions", [canary])
    finally:
        house.service.close()
    spans = finished()
    names = {span.name for span in spans}
    assert {"POST /v1/questions", "GET /v1/questions/{question}", "POST /v1/subjects/erase"} <= names, names
    assert f"GET {telemetry.UNKNOWN}" in names and any(name.startswith("_OTHER ") for name in names)
    assert {tuple(sorted(span.attributes or {})) for span in spans} == {
        ("http.request.method", "http.response.status_code", "http.route")
    }
    text = told()
    for secret in (canary, canary.upper(), view["id"], "13572468", house.token("ann"), "region", "ann\""):
        assert secret not in text, secret
    assert all(span.end_time >= span.start_time for span in spans)


def test_it_is_off_unless_asked_for(own_house: House) -> None:
    assert own_house.service.configuration.telemetry is False
