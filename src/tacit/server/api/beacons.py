"""Beacon v2: the framework's documents, and /g_variants by GET and POST. Mounted where a data set has a beacon.

All answers and errors are Beacon documents. A request waits for its answer until the grid lets it out, at most a minute; the
same request asked again is the same question. An answer that was lost has the status of one that was not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from fastapi.concurrency import run_in_threadpool
from starlette.responses import JSONResponse

from tacit.server.access import Caller
from tacit.server.api.calling import Serving, Signed
from tacit.server.api.questions import LONGEST, padded, waited
from tacit.server.beacons import error_document
from tacit.server.desk import Service
from tacit.server.errors import ServiceError, not_found

PREFIX = "/v1/beacons/"
router = APIRouter(prefix="/v1/beacons", tags=["beacons"])
Named = Annotated[str, Path(max_length=63, pattern=r"^[a-z0-9][a-z0-9_-]*$")]
#: What the document of the API says of a request; a request is read by `BeaconOf.wanted`, and wrong ones get a beacon's document.
_PARAMETERS: list[dict[str, Any]] = [
    {"name": name, "in": "query", "required": needed, "schema": schema}
    for name, needed, schema in (
        ("referenceName", True, {"type": "string", "examples": ["chr1", "X"]}),
        ("start", True, {"type": "integer", "minimum": 0, "description": "counted from 0"}),
        ("end", False, {"type": "integer", "minimum": 1}),
        ("referenceBases", True, {"type": "string", "pattern": "^[ACGTUNacgtun]+$"}),
        ("alternateBases", True, {"type": "string", "pattern": "^[ACGTUNacgtun]+$"}),
        ("assemblyId", False, {"type": "string"}),
        ("requestedGranularity", False, {"type": "string", "enum": ["boolean", "count", "record"]}),
    )
]
#: States whose documents have the status of an answer: what comes after payment tells nothing by its status.
SEEN = frozenset({"answered", "lost"})


@router.get("/{dataset}", operation_id="read_beacon")
def read_beacon(service: Serving, caller: Signed, dataset: Named) -> dict[str, Any]:
    """What the beacon is."""
    return service.beacons.find(caller, dataset, "read_beacon").beacon.documents()["/"]


@router.get("/{dataset}/g_variants", operation_id="ask_beacon", openapi_extra={"parameters": _PARAMETERS})
async def ask_beacon(service: Serving, caller: Signed, dataset: Named, request: Request) -> Response:
    """Whether a variant is there, or in how many people; paid for by the asker."""
    given: dict[str, Any] = {}
    for name, value in request.query_params.multi_items():
        if name in given:
            raise ServiceError("a parameter is given twice", code="question-refused")
        given[name] = value
    return await _answered(service, caller, dataset, given)


@router.post("/{dataset}/g_variants", operation_id="post_beacon")
async def post_beacon(service: Serving, caller: Signed, dataset: Named, body: dict[str, Any]) -> Response:
    """The same with a request document: {"query": {"requestParameters": {...}, "requestedGranularity": "count"}}."""
    query = body.get("query", {})
    inner = query.get("requestParameters", {}) if isinstance(query, Mapping) else None
    inner = inner.get("g_variant", inner) if isinstance(inner, Mapping) else None
    if not isinstance(query, Mapping) or not isinstance(inner, Mapping) or set(body) - {"meta", "query", "$schema"}:
        raise ServiceError('a request has "query" with "requestParameters" in it', code="question-refused")
    return await _answered(service, caller, dataset, {**{k: v for k, v in query.items() if k != "requestParameters"}, **inner})


@router.get("/{dataset}/{document}", operation_id="read_beacon_document")
def read_beacon_document(service: Serving, caller: Signed, dataset: Named, document: str) -> dict[str, Any]:
    """The framework's documents: info, service-info, configuration, map, entry_types, filtering_terms."""
    found = service.beacons.find(caller, dataset, "read_beacon_document").beacon.documents().get(f"/{document}")
    if found is None:
        raise not_found()
    return found


async def _answered(service: Service, caller: Caller, dataset: str, given: Mapping[str, Any]) -> Response:
    beacon, asked, variant, view = await run_in_threadpool(service.beacons.ask, caller, dataset, given)
    view = await waited(service, caller, view["id"], 0.0 if view["state"] == "waiting" else LONGEST)
    document = await run_in_threadpool(beacon.document, view, asked, variant)
    await run_in_threadpool(service.questions.delivered, view)
    return padded(document, 200 if view["state"] in SEEN else document["error"]["errorCode"])


def refused(error: ServiceError, headers: Mapping[str, str]) -> Response:
    """A refusal as a beacon's document, with the status and headers that it has elsewhere."""
    kept = {name: value for name, value in headers.items() if name in ("retry-after", "www-authenticate")}
    return JSONResponse(error_document(error), error.status, kept)
