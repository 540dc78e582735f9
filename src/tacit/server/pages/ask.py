"""Ask: write a question, see what it costs and how exact it would be, try it on made-up rows, and pay.

Accuracy comes first: "within 50, 19 times in 20". The prices of a log scale of epsilons are fetched once, so that the page's script
redraws the expected intervals as the slider moves without another request. Without scripts the same form shows the prices as a table.
A form holds a random number; with the question's text it is the key that makes a second click the same question.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse

from tacit.accounting import Refusal
from tacit.release import kinds, plan
from tacit.server.access import Caller
from tacit.server.api.calling import Serving, within
from tacit.server.datasets import Dataset
from tacit.server.desk import Service
from tacit.server.errors import ServiceError, not_found
from tacit.server.pages.view import Form, Looking, Posted, checked, page
from tacit.server.requests import Ask, PriceRequest
from tacit.tables import answer_record

router = APIRouter(include_in_schema=False)
#: The slider: so many prices, from the highest that the policy allows down to a two-hundredth of it. It starts low.
STEPS, SPAN, START = 25, 200.0, 9
#: What a budget counts in, and the name of its curve of prices.
CURRENCIES = {"epsilon": "epsilons", "rho": "rhos", "mu": "mus"}
#: With less than this left, no answer would say anything.
LEAST = 1e-4
#: What the buttons do, by the actions whose rates they have; without a button it is a price.
BUTTONS = {"build": "read_dataset", "dry": "dummy_rows", "ask": "ask"}
#: The prices that a page without scripts shows.
SHOWN = (0, 6, 12, 18, 24)
#: What the form can ask for, with the SQL of each.
FIGURES: Mapping[str, tuple[str, str]] = {
    "rows": ("how many rows", "COUNT(*) AS n"),
    "people": ("how many people", "COUNT(DISTINCT {person}) AS people"),
    "average": ("the average of", "AVG({column}) AS average_{column}"),
    "total": ("the total of", "SUM({column}) AS total_{column}"),
}


@router.get("/ask")
def form(
    request: Request, service: Serving, caller: Looking, dataset: Annotated[str, Query(max_length=63)] = "",
    purpose: Annotated[str, Query(max_length=63)] = "", sql: Annotated[str, Query(max_length=20_000)] = "",
) -> Response:  # fmt: skip
    """The form, with a question of an earlier page in it."""
    return _form(request, service, caller, {"dataset": dataset, "purpose": purpose, "sql": sql})


@router.post("/ask")
async def send(request: Request, service: Serving, sent: Posted) -> Response:
    """Show the price, try on made-up rows, write the SQL of the form's choices, or ask."""
    return await run_in_threadpool(_sent, request, service, sent.caller, sent.form)


def _sent(request: Request, service: Service, caller: Caller, form: Form) -> Response:
    names = ("dataset", "purpose", "sql", "by", "figure", "within", "epsilon", "rows", "nonce", "build_figure", "build_column", "build_by")
    values: dict[str, str] = {name: form[name] for name in names}
    shown: dict[str, Any] = {}
    try:
        within(service, caller, BUTTONS.get(form["do"], "price"))
        match form["do"]:
            case "build":
                values["sql"] = composed(service, caller, values)
            case "dry":
                shown["dry"] = answer_record(service.questions.dry_run(caller, checked(Ask, _asked(service, caller, values))))
                shown |= _priced(service, caller, values)
            case "ask":
                request_ = checked(Ask, _asked(service, caller, values))
                view = service.questions.ask(caller, request_, key_of(values["nonce"], request_))
                return RedirectResponse(f"/questions/{view['id']}", 303)
            case _:
                shown |= _priced(service, caller, values)
    except ServiceError as error:
        return _form(request, service, caller, values, error=error, **shown)
    return _form(request, service, caller, values, **shown)


def key_of(nonce: str, asked: Ask) -> str:
    """The key of a question that a form sends: the same form and the same question are the same key.

    >>> asked = Ask(dataset="visits", purpose="beds", sql="SELECT COUNT(*) AS n FROM visits", epsilon="0.1")
    >>> key_of("n" * 32, asked) == key_of("n" * 32, asked), key_of("n" * 32, asked) == key_of("m" * 32, asked)
    (True, False)
    """
    if not 16 <= len(nonce) <= 64 or not nonce.isalnum() or not nonce.isascii():
        raise ServiceError(code="form-expired")
    return f"{nonce}-{hashlib.sha256(asked.body().encode()).hexdigest()[:32]}"


def _form(
    request: Request, service: Service, caller: Caller, values: Mapping[str, str], error: ServiceError | None = None, **shown: Any
) -> Response:
    if caller.scope("ask") is None:
        raise not_found()
    sets = service.list_datasets(caller)
    chosen = next((one for one in sets if one["id"] == values.get("dataset")), sets[0] if sets else None)
    if chosen is None:
        raise not_found()
    purposes = [one for one in chosen["purposes"] if not one["ended"]]
    purpose = next((one for one in purposes if one["id"] == values.get("purpose")), purposes[0] if purposes else None)
    found = service.read_dataset(caller, chosen["id"])
    currency, most, limit = ("epsilon", 0.0, 0.0) if purpose is None else most_of(service, caller, chosen["id"], purpose["id"])
    above = service.configuration.limits.approve_above
    defaults = {"by": "accuracy" if values.get("within") else "epsilon", "rows": "1000", "figure": "", "within": ""}
    filled = {**defaults, **{name: value for name, value in values.items() if value}}
    filled |= {"dataset": chosen["id"], "purpose": "" if purpose is None else purpose["id"], "sql": values.get("sql") or _example(found)}
    steps = grid(most) if most > LEAST else []
    # a part of the page that a script asked for shows the refusal in its own place
    return page(
        request, "ask.html", caller, error=error, inline="hx-request" in request.headers, datasets=sets, set=found, purposes=purposes,
        purpose=purpose, values=filled, steps=steps, start=START, most=most, limit=limit, currency=currency,
        amount_in=amount_in, afterwards=afterwards,
        approve_above=None if above is None else float(above.epsilon),
        # kept: after a refusal "try again" must be the same question
        nonce=filled.get("nonce") or secrets.token_hex(16), figures=FIGURES, examples=_examples(found),
        **{"price": None, "curve": [], "warnings": [], "text": "", "dry": None, **shown},
    )  # fmt: skip


def grid(most: float) -> list[str]:
    """The prices of the slider, from low to the most that may be spent, on a log scale and in short numbers.

    >>> grid(2.0)[0], grid(2.0)[-1], len(grid(2.0))
    ('0.01', '2', 25)
    >>> all(float(low) < float(high) for low, high in zip(grid(0.37), grid(0.37)[1:]))
    True
    """
    found = [_short(most * SPAN ** (place / (STEPS - 1) - 1)) for place in range(STEPS - 1)]
    return [*found, _short(most)]


def _short(value: float) -> str:
    """At most this, in three digits."""
    places = 2 - math.floor(math.log10(value))
    return f"{math.floor(value * 10**places * (1 + 1e-12)) / 10**places:.{max(places, 0)}f}".rstrip("0").rstrip(".")


def most_of(service: Service, caller: Caller, dataset: str, purpose: str) -> tuple[str, float, float]:
    """What the purpose counts in; the most of it that one question may cost, which is what is left; and what there was."""
    for account in service.book.accounts(caller):
        if account["dataset"] == dataset and account["purpose"] == purpose:
            for currency in CURRENCIES:
                if (limit := amount_in(currency, account["limits"])) is not None:
                    return currency, amount_in(currency, account["left"]) or 0.0, limit
    return "epsilon", 0.0, 0.0


def amount_in(currency: str, amounts: Mapping[str, float]) -> float | None:
    """What an account's amounts are in a currency. The book adds up the squares of mu, because these are what composes.

    >>> amount_in("mu", {"mu2": 0.25}), amount_in("epsilon", {"epsilon": 1.0}), amount_in("rho", {"epsilon": 1.0})
    (0.5, 1.0, None)
    """
    if currency == "mu":
        return math.sqrt(max(0.0, amounts["mu2"])) if "mu2" in amounts else None
    return max(0.0, amounts[currency]) if currency in amounts else None


def afterwards(currency: str, left: Mapping[str, float], charge: Mapping[str, float]) -> float:
    """What is left after a charge, in a currency."""
    name = "mu2" if currency == "mu" else currency
    return amount_in(currency, {name: left.get(name, 0.0) - charge.get(name, 0.0)}) or 0.0


# --- prices -----------------------------------------------------------------------------------------------------------


def _statement(values: Mapping[str, str]) -> dict[str, Any]:
    return {name: values[name] for name in ("dataset", "purpose", "sql")}


def _asked(service: Service, caller: Caller, values: Mapping[str, str]) -> dict[str, Any]:
    """The question as the API takes it: a wanted error, or an epsilon."""
    if values["by"] == "accuracy":
        if not values["within"]:
            raise ServiceError(code="invalid", fields={"within": "say how exact the answer must be, such as 50"})
        figure = values["figure"] or next(iter(_once(service, caller, values, "0.1")["errors"]))
        return {**_statement(values), "accuracy": {figure: values["within"]}}
    currency, _, _ = most_of(service, caller, values["dataset"], values["purpose"])
    if not values["epsilon"]:
        raise ServiceError(code="invalid", fields={currency: "is missing"})
    return {**_statement(values), currency: values["epsilon"]}


def _rows(values: Mapping[str, str]) -> int:
    text = values["rows"].replace(",", "") or "1000"
    if not text.isascii() or not text.isdigit() or not 1 <= len(text) <= 12 or int(text) < 1:
        raise ServiceError(code="invalid", fields={"rows": "is a whole number of rows, such as 1000"})
    return int(text)


def _once(service: Service, caller: Caller, values: Mapping[str, str], amount: str) -> dict[str, Any]:
    currency, _, _ = most_of(service, caller, values["dataset"], values["purpose"])
    return service.questions.price(caller, checked(PriceRequest, {**_statement(values), currency: amount, "rows": _rows(values)}))


def _priced(service: Service, caller: Caller, values: Mapping[str, str]) -> dict[str, Any]:
    """The price of the question as it stands, a few others to choose from, and what planning warns of."""
    rows = _rows(values)
    asked = checked(PriceRequest, {**_asked(service, caller, values), "rows": rows})
    price = service.questions.price(caller, asked)
    currency, most, _ = most_of(service, caller, values["dataset"], values["purpose"])
    curve: list[dict[str, Any]] = []
    if most > LEAST:
        steps = grid(most)
        few = [steps[place] for place in SHOWN]
        wanted = checked(PriceRequest, {**_statement(values), CURRENCIES[currency]: few, "rows": rows})
        curve = [{**one, "amount": step} for one, step in zip(service.questions.price(caller, wanted)["prices"], few, strict=True)]
    dataset = service.dataset(caller, values["dataset"], "read_dataset")
    return {
        "price": price, "curve": curve, "text": service.questions.explain(caller, asked).partition("\nstatement:")[0],
        "warnings": warnings(dataset, values["sql"], price["charge"].get("epsilon", price["cost"]["upper"])),
    }  # fmt: skip


def warnings(dataset: Dataset, sql: str, epsilon: float) -> list[str]:
    """What `tacit plan` warns of for a job whose one output is this question, at this price. No data is touched."""
    with suppress(Refusal, ValueError):
        block = kinds.find("table").Block.model_validate({"name": "question", "sql": sql, "weight": 1})
        budget = {"epsilon": epsilon, **({"delta": dataset.job.budget.delta} if dataset.job.budget.delta is not None else {})}
        job = dataset.job.model_copy(
            update={"outputs": (block,), "budget": type(dataset.job.budget).model_validate(budget), "account": None}
        )
        return [str(notice) for notice in plan(job, base=dataset.base).warnings]
    return []


# --- the form that writes SQL -----------------------------------------------------------------------------------------


def composed(service: Service, caller: Caller, values: Mapping[str, str]) -> str:
    """The SQL of the form's choices. Names come from the declared columns only."""
    tables = [table for table in service.read_dataset(caller, values["dataset"])["tables"] if not table["public"]]
    columns = {column["name"]: column for column in tables[0]["columns"]}
    by, column = columns.get(values["build_by"]), columns.get(values["build_column"])
    words, text = FIGURES.get(values["build_figure"], FIGURES["rows"])
    if "{column}" in text and (column is None or column["bounds"] is None):
        raise ServiceError(code="invalid", fields={"column": f"{words} needs a column with declared bounds"})
    person = next((name for name, one in columns.items() if one["person"]), "")
    if "{person}" in text and not person:
        raise ServiceError(code="invalid", fields={"figure": "the rows of this data set do not say whose they are"})
    figure = text.format(column="" if column is None else column["name"], person=person)
    if by is None:
        return f"SELECT {figure} FROM {tables[0]['name']}"
    return f"SELECT {by['name']}, {figure}\nFROM {tables[0]['name']}\nGROUP BY {by['name']}"


def _example(found: Mapping[str, Any]) -> str:
    return _examples(found)[0][1]


def _examples(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Questions to start from, written from the declared columns."""
    table = next((one for one in found["tables"] if not one["public"]), found["tables"][0])
    groups = [column["name"] for column in table["columns"] if column["categories"]]
    numbers = [column["name"] for column in table["columns"] if column["bounds"] is not None]
    made = [("How many rows in all", f"SELECT COUNT(*) AS n FROM {table['name']}")]
    if groups:
        made.insert(0, (f"How many by {groups[0]}", f"SELECT {groups[0]}, COUNT(*) AS n\nFROM {table['name']}\nGROUP BY {groups[0]}"))
    if numbers:
        made.append((f"The average {numbers[0]}", f"SELECT AVG({numbers[0]}) AS average_{numbers[0]} FROM {table['name']}"))
    return made
