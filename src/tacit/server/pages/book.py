"""The book: search it, verify it now, compare it with a head that was remembered elsewhere, and take it along."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from tacit.server.access import Caller
from tacit.server.api.calling import Serving
from tacit.server.desk import Service
from tacit.server.errors import ServiceError
from tacit.server.pages.view import Looking, Posted, checked, page
from tacit.server.requests import VerifyRequest

router = APIRouter(include_in_schema=False)
#: The entries of one page.
SHOWN = 50
#: What the kinds of entries are called.
KINDS: Mapping[str, str] = {
    "genesis": "the book begins", "account": "account opened", "identity": "data recognised", "reserve": "paid", "spend": "paid",
    "commit": "finished", "alias": "account named again",
}  # fmt: skip


@router.get("/book")
def book(
    request: Request, service: Serving, caller: Looking, since: Annotated[int, Query(ge=1, le=2**53)] = 1,
    search: Annotated[str, Query(max_length=100)] = "",
) -> Response:  # fmt: skip
    """Entries from a number on, and the head to remember."""
    return _page(request, service, caller, since, search)


@router.post("/book/verify")
async def verify(request: Request, service: Serving, sent: Posted) -> Response:
    """Read the whole book and say what is wrong with it."""
    head = sent.form["head"]
    try:
        wanted = checked(VerifyRequest, {"head": head} if head else {})
    except ServiceError as error:
        error.fields["head"] = "is a number, a colon and 64 letters and digits, as the book page shows it"
        return await run_in_threadpool(_page, request, service, sent.caller, 1, "", error=error, head=head)
    found = await run_in_threadpool(service.book.verify, sent.caller, wanted.head)
    return await run_in_threadpool(_page, request, service, sent.caller, 1, "", verified=found, head=head)


def _page(request: Request, service: Service, caller: Caller, since: int, search: str, **shown: Any) -> Response:
    entries = service.book.entries(caller, since=since, most=SHOWN, search=search)
    names = {account.spec.id: account.name for account in service.ledger.accounts()}
    rows = [
        {**entry, "what": KINDS.get(entry["kind"], entry["kind"]), "where": names.get(entry.get("account", 0), "")} for entry in entries
    ]
    records = [one for one in service.releases.list(caller) if "registry.yaml" in one["files"]]
    return page(
        request, "book.html", caller, entries=rows, since=since, search=search, now=service.book.head(caller), records=records,
        more=rows[-1]["seq"] + 1 if len(rows) == SHOWN else None, **{"verified": None, "head": "", "error": None, **shown},
    )  # fmt: skip
