"""The budget for those who answer for it: what was spent over time and by whom, what waits for approval, and who decided what.

The forecast is a straight line through the last thirty days. It is a reading aid, and says so.
"""

from __future__ import annotations

import datetime
import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from fastapi.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse

from tacit.server.access import Caller, check
from tacit.server.api import purposes
from tacit.server.api.calling import Serving
from tacit.server.desk import Service
from tacit.server.errors import ServiceError
from tacit.server.pages.view import Looking, Posted, checked, lines, page, titles
from tacit.server.requests import Decide, NewDecision

router = APIRouter(include_in_schema=False)
Id = Annotated[str, Path(max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]
#: The days whose pace the forecast takes.
PACE = 30
_DAY = 86400.0


@router.get("/budget")
def budget(request: Request, service: Serving, caller: Looking) -> Response:
    """Accounts of the whole tree; for an analyst, their own."""
    return _page(request, service, caller)


def _page(request: Request, service: Service, caller: Caller, error: ServiceError | None = None, **typed: Any) -> Response:
    accounts = sorted(service.book.accounts(caller), key=_place)
    whole = caller.scope("book_entries") is not None
    return page(
        request, "budget.html", caller, error=error, accounts=accounts, titles=titles(service, caller),
        burn={} if not whole else {one["dataset"]: burn(service, caller, one) for one in accounts if one["level"] == "data set"},
        approvals=service.questions.approvals(caller) if caller.scope("list_approvals") else [], whole=whole,
        decisions=purposes.list_decisions(service, caller) if caller.scope("list_decisions") else [], typed=typed,
    )  # fmt: skip


def _place(account: Mapping[str, Any]) -> tuple[str, ...]:
    """Each data set with its purposes below it, and these with their analysts; the book has them as they were opened."""
    return account["dataset"], account["purpose"], account["person"] or ""


def payments(service: Service, caller: Caller, dataset: str) -> Iterator[tuple[float, float]]:
    """When a data set's budget was spent, and how much epsilon, in the order of the book."""
    top = service.datasets[dataset].account
    below = {found.spec.id for found in service.ledger.accounts() if found.path()[-1].id == top.spec.id}
    since = 1
    while entries := service.book.entries(caller, since=since, most=1000):
        for entry in entries:
            if entry.get("account") in below and "epsilon" in (entry.get("charge") or {}):
                yield datetime.datetime.fromisoformat(entry["time"]).timestamp(), float(Fraction(entry["charge"]["epsilon"]))
        since = entries[-1]["seq"] + 1


def burn(service: Service, caller: Caller, account: Mapping[str, Any]) -> dict[str, Any] | None:
    """What was spent of a data set over time, where that leads at the pace of the last thirty days, and both as a table."""
    limit = account["limits"].get("epsilon")
    if limit is None:
        return None
    paid, now = list(payments(service, caller, account["dataset"])), time.time()
    total, spent = 0.0, [(paid[0][0] - 60.0 if paid else now - 60.0, 0.0)]
    for moment, amount in paid:
        total += amount
        spent.append((moment, total))
    spent.append((now, total))
    end = used_up(paid, limit, now)
    forecast = [] if end is None else [(now, total), (end, limit)] if end - now < 400 * _DAY else [(now, total)]
    days: dict[str, float] = defaultdict(float)
    for moment, amount in paid:
        days[datetime.datetime.fromtimestamp(moment, datetime.UTC).date().isoformat()] += amount
    name = f"Epsilon spent over time: {total:.3g} of {limit:g}; the table has the same"
    return {
        "data": json.dumps({"spent": spent, "budget": limit, "forecast": forecast, "name": name}), "days": dict(days), "total": total,
        "limit": limit, "end": end, "pace": PACE,
    }  # fmt: skip


def used_up(paid: list[tuple[float, float]], limit: float, now: float) -> float | None:
    """When a budget is used up at the pace of the last thirty days, or None at no pace at all.

    >>> used_up([(now := 1e9) and (1e9 - 15 * 86400, 0.5)], 1.5, 1e9) == 1e9 + 60 * 86400
    True
    >>> used_up([], 1.0, 0.0) is None
    True
    """
    lately = sum(amount for moment, amount in paid if moment > now - PACE * _DAY)
    left = limit - sum(amount for _, amount in paid)
    return None if lately <= 0 else now + max(0.0, left) / lately * PACE * _DAY


@router.post("/approvals/{question}")
async def decide(request: Request, service: Serving, sent: Posted, question: Id) -> Response:
    """Approve or decline a question."""
    check(sent.caller, "approve")
    word = checked(Decide, sent.form.given("decision", "reason"))
    await run_in_threadpool(service.questions.decide, sent.caller, question, word)
    return RedirectResponse("/budget#approvals", 303)


@router.post("/decisions")
async def decision(request: Request, service: Serving, sent: Posted) -> Response:
    """Write down who set an epsilon, and why."""
    check(sent.caller, "make_decision")
    typed = sent.form.given("subject", "epsilon", "rationale", "alternatives", "reviewers")
    given = {**typed, "alternatives": lines(sent.form["alternatives"]), "reviewers": lines(sent.form["reviewers"].replace(",", "\n"))}
    try:
        made = checked(NewDecision, given)
        await run_in_threadpool(purposes.make_decision, service, sent.caller, made)
    except ServiceError as error:
        if error.code == "not-found":
            raise
        return await run_in_threadpool(_page, request, service, sent.caller, error, **typed)
    return RedirectResponse("/budget#decisions", 303)
