"""Releases: plan, run, list, and their files. And the register of trainings."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path
from starlette.responses import FileResponse

from tacit.server.api.calling import Serving, Signed
from tacit.server.requests import NewModel, PlanRelease, RunRelease

router = APIRouter(prefix="/v1", tags=["releases and models"])
Id = Annotated[str, Path(max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]


@router.post("/releases", operation_id="plan_release", status_code=201)
def plan_release(service: Serving, caller: Signed, request: PlanRelease) -> dict[str, Any]:
    """Plan a release of a data set's job. No data is touched."""
    return service.releases.plan(caller, request.dataset)


@router.post("/releases/{release}/run", operation_id="run_release", status_code=202)
def run_release(
    service: Serving, caller: Signed, release: Id, request: RunRelease | None = None
) -> dict[str, Any]:
    """Pay for a release, and publish it. One that was held back is published by `accept`, as it was drawn."""
    return service.releases.run(caller, release, accept=request is not None and request.accept)


@router.get("/releases", operation_id="list_releases")
def list_releases(service: Serving, caller: Signed) -> list[dict[str, Any]]:
    """The releases that the caller may see."""
    return service.releases.list(caller)


@router.get("/releases/{release}", operation_id="read_release")
def read_release(service: Serving, caller: Signed, release: Id) -> dict[str, Any]:
    """One release with the names of its files."""
    return service.releases.read(caller, release)


@router.get("/releases/{release}/{file}", operation_id="read_release_file", response_class=FileResponse)
def read_release_file(
    service: Serving, caller: Signed, release: Id, file: Annotated[str, Path(max_length=200, pattern=r"^[A-Za-z0-9._-]+$")]
) -> FileResponse:
    """A file of a published release."""
    path, kind = service.releases.file(caller, release, file)
    return FileResponse(path, media_type=kind, filename=path.name)


@router.get("/registry", operation_id="registry_records")
def registry_records(service: Serving, caller: Signed) -> list[dict[str, Any]]:
    """The records of published releases for the deployments registry."""
    return service.releases.registry(caller)


@router.get("/models", operation_id="list_models")
def list_models(service: Serving, caller: Signed) -> dict[str, Any]:
    """Every training on the data, and what they add up to."""
    return service.models.list(caller)


@router.post("/models", operation_id="make_model", status_code=201)
def make_model(service: Serving, caller: Signed, request: NewModel) -> dict[str, Any]:
    """Enter a training."""
    return service.models.add(caller, request)
