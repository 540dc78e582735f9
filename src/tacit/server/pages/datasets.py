"""Data sets: what there is, what may be asked about it, and what is left."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from tacit.server.access import Caller
from tacit.server.api.calling import Serving
from tacit.server.desk import Service
from tacit.server.pages.sign_in import EXAMPLES
from tacit.server.pages.view import Looking, page
from tacit.server.purposes import HARMS
from tacit.tables import record_of

router = APIRouter(include_in_schema=False)
Id = Annotated[str, Path(max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]
#: How many made-up rows a page shows.
SHOWN = 5


@router.get("/datasets")
def datasets(request: Request, service: Serving, caller: Looking) -> Response:
    """The data sets that exist for the caller."""
    found = service.list_datasets(caller)
    return page(request, "datasets.html", caller, datasets=found, accounts={one["id"]: left(service, caller, one["id"]) for one in found})


@router.get("/datasets/{dataset}")
def dataset(request: Request, service: Serving, caller: Looking, dataset: Id) -> Response:
    """One data set: whom it protects, its purposes, its columns, and made-up rows."""
    made = {
        name: {column: [record_of(value) for value in table[column].to_pylist()] for column in table.column_names}
        for name, table in service.dummy_rows(caller, dataset, SHOWN).items()
    }
    return page(request, "dataset.html", caller, set=service.read_dataset(caller, dataset), made=made)


@router.get("/datasets/{dataset}/plain")
def plain(request: Request, service: Serving, caller: Looking, dataset: Id) -> Response:
    """The plain-language page of one data set, to be printed or published by the curator."""
    found = service.read_dataset(caller, dataset)
    total = found["budget"].get("epsilon")
    examples = sorted({*EXAMPLES, total} - {None})
    return page(
        request, "plain.html", caller, set=found, examples=examples, total=total, chance=found["budget"].get("delta", 0), harms=HARMS
    )


def left(service: Service, caller: Caller, dataset: str) -> list[dict[str, Any]]:
    """What is left in epsilon: for an analyst for each purpose, for others in all."""
    found = []
    for account in service.book.accounts(caller):
        if account["dataset"] != dataset or "epsilon" not in account["limits"]:
            continue
        own = account["level"] == "analyst"
        if own == (caller.scope("ask") is not None) and account["level"] != "purpose" and (own or account["level"] == "data set"):
            label = account["purpose"] if own else "The whole data set"
            # what others spent counts too: the analyst's own limit is no promise
            found.append({"label": label, "limit": account["limits"]["epsilon"], "left": max(0.0, account["left"]["epsilon"])})
    return found
