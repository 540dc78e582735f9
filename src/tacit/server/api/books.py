"""Accounts and the book: what was spent, what is left, and whether the record is in order."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response, StreamingResponse

from tacit.server.api.calling import Serving, Signed, service_of
from tacit.server.requests import VerifyRequest

router = APIRouter(prefix="/v1", tags=["budgets and the book"])
Id = Annotated[str, Path(max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]


@router.get("/accounts", operation_id="list_accounts")
def list_accounts(service: Serving, caller: Signed) -> list[dict[str, Any]]:
    """The accounts that the caller may see."""
    return service.book.accounts(caller)


@router.get("/accounts/{account}", operation_id="read_account", response_model=dict[str, Any])
async def read_account(request: Request, caller: Signed, account: Id) -> Response:
    """One account with its odometer."""
    service = service_of(request)
    found = service.book.account_at_once(caller, account)
    if found is None:
        return JSONResponse(await run_in_threadpool(service.book.account, caller, account))
    return Response(found, media_type="application/json")


@router.get("/book/entries", operation_id="book_entries")
def book_entries(
    service: Serving, caller: Signed, since: Annotated[int, Query(ge=1, le=2**53)] = 1,
    most: Annotated[int, Query(ge=1, le=1000)] = 100, search: Annotated[str, Query(max_length=100)] = "",
) -> list[dict[str, Any]]:  # fmt: skip
    """Entries from a number on."""
    return service.book.entries(caller, since=since, most=most, search=search)


@router.get("/book/head", operation_id="book_head")
def book_head(service: Serving, caller: Signed) -> dict[str, str]:
    """The last entry's number and hash. Keep it elsewhere."""
    return {"head": service.book.head(caller)}


@router.get("/book/export", operation_id="book_export", response_class=StreamingResponse)
def book_export(service: Serving, caller: Signed) -> StreamingResponse:
    """The whole book, one entry a line."""
    headers = {"content-disposition": 'attachment; filename="book.jsonl"'}
    return StreamingResponse(service.book.export(caller), media_type="application/x-ndjson", headers=headers)


@router.post("/book/verify", operation_id="book_verify")
def book_verify(service: Serving, caller: Signed, request: VerifyRequest) -> dict[str, Any]:
    """Read the whole book and say what is wrong with it."""
    return service.book.verify(caller, request.head)
