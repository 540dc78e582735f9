"""Data sets: what may be asked about, its public schema, and made-up rows of its shape."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from tacit.server.api.calling import Serving, Signed
from tacit.tables import record_of

router = APIRouter(prefix="/v1", tags=["data sets"])
Id = Annotated[str, Path(max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]


@router.get("/me", operation_id="me")
def me(caller: Signed) -> dict[str, Any]:
    """Who the caller is, in which roles, and within which limits."""
    daily = None if caller.epsilon_a_day is None else float(caller.epsilon_a_day)
    seen = None if caller.datasets is None else sorted(caller.datasets)
    return {"person": caller.person, "name": caller.name, "roles": caller.roles, "datasets": seen, "epsilon_a_day": daily}


@router.get("/datasets", operation_id="list_datasets")
def list_datasets(service: Serving, caller: Signed) -> list[dict[str, Any]]:
    """The data sets that the caller may see."""
    return service.list_datasets(caller)


@router.get("/datasets/{dataset}", operation_id="read_dataset")
def read_dataset(service: Serving, caller: Signed, dataset: Id) -> dict[str, Any]:
    """A data set: tables, columns with their types, bounds and categories, and whom it protects."""
    return service.read_dataset(caller, dataset)


@router.get("/datasets/{dataset}/dummy", operation_id="dummy_rows")
def dummy_rows(
    service: Serving, caller: Signed, dataset: Id, rows: Annotated[int, Query(ge=1, le=10_000)] = 100
) -> dict[str, dict[str, list[Any]]]:
    """Made-up rows within what is declared, for writing questions. No row of the data is read."""
    made = service.dummy_rows(caller, dataset, rows)
    return {
        name: {column: [record_of(value) for value in table[column].to_pylist()] for column in table.column_names}
        for name, table in made.items()
    }
