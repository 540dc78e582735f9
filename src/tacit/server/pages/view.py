"""How pages are made: the templates, the sign-in of a page's forms, and refusals as pages.

A page's form is `application/x-www-form-urlencoded` and carries the session's form token. What was typed is shown again when a
form is refused; it is escaped by the templates, and is in no log.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pydantic import BaseModel, ValidationError
from starlette.responses import HTMLResponse, RedirectResponse, Response

from tacit import __version__
from tacit.server.access import Caller
from tacit.server.api.calling import limited
from tacit.server.desk import Service
from tacit.server.errors import ServiceError, problem
from tacit.server.pages import files, words

Body = TypeVar("Body", bound=BaseModel)
TEMPLATES = Path(__file__).parent.parent / "templates"
#: The most fields of a form: a question's and a purpose's have far fewer.
FIELDS = 200
#: The menu: address, name, and the action that the table of access must allow.
MENU = (
    ("/datasets", "Data sets", "list_datasets"),
    ("/ask", "Ask", "ask"),
    ("/history", "History", "list_questions"),
    ("/releases", "Releases", "list_releases"),
    ("/budget", "Budget", "list_accounts"),
    ("/book", "Book", "book_entries"),
    ("/purposes", "Purposes", "list_purposes"),
    ("/subjects", "People in the data", "subject_access"),
    ("/models", "Models", "list_models"),
)


@lru_cache(maxsize=1)
def environment() -> Environment:
    """The templates; everything that is put into one is escaped, and a name that is not there is an error."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters.update(words.FILTERS)
    made.globals.update(version=__version__, static=files.address, words=words)
    return made


def page(request: Request, template: str, caller: Caller | None = None, status: int = 200, **values: Any) -> HTMLResponse:
    """A page. `error` is a refusal that is shown at its top."""
    error = values.pop("error", None)
    shown = problem(error) if isinstance(error, ServiceError) else error
    if shown is not None:
        # the address of the API's description helps programs, not people
        shown = {**shown, "fix": shown["fix"].partition("; see /v1/")[0]}
    menu = [] if caller is None else [(where, name) for where, name, action in MENU if caller.scope(action) is not None]
    context = {
        "caller": caller, "menu": menu, "here": request.url.path, "error": shown,
        "may": (lambda action: False) if caller is None else (lambda action: caller.scope(action) is not None), **values,
    }  # fmt: skip
    status = error.status if isinstance(error, ServiceError) else status
    return HTMLResponse(environment().get_template(template).render(context), status)


def problem_page(request: Request, error: ServiceError) -> Response:
    """A refusal as a page; who is not signed in is sent to the page for it."""
    if error.code == "not-signed-in" and request.method == "GET":
        return RedirectResponse("/sign-in", 303)
    return page(request, "problem.html", _known(request), error=error)


def _known(request: Request) -> Caller | None:
    """Who is looking, so that a refusal keeps the menu; nobody where that cannot be told."""
    found = getattr(request.state, "caller", None)
    return found if isinstance(found, Caller) else None


def is_page(request: Request) -> bool:
    """Whether an address is a page's: its refusals are pages too."""
    return not request.url.path.startswith(("/v1/", "/healthz", "/readyz", "/static/"))


# --- who is looking, and what they sent -------------------------------------------------------------------------------


class Form:
    """The fields of a form that was sent. A field that was left empty is as if it were not there."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = [(name, value.strip()) for name, value in pairs if value.strip()]

    def __getitem__(self, name: str) -> str:
        return next((value for key, value in self._pairs if key == name), "")

    def all(self, name: str) -> list[str]:
        """Every value of a field that may come several times."""
        return [value for key, value in self._pairs if key == name]

    def given(self, *names: str) -> dict[str, str]:
        """The named fields that are there."""
        return {name: self[name] for name in names if self[name]}


async def form_of(request: Request) -> Form:
    """The form of a request; the application has already bounded its size and its time."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise ServiceError(code="media-type")
    found = await request.form(max_files=0, max_fields=FIELDS)
    return Form([(name, value.replace("\r\n", "\n")) for name, value in found.multi_items() if isinstance(value, str)])


class Sent:
    """A form and its sender, who carried the session's form token."""

    def __init__(self, caller: Caller, form: Form) -> None:
        self.caller, self.form = caller, form


async def sent(request: Request, caller: Annotated[Caller, Depends(limited)]) -> Sent:
    """The form that was sent, by a browser that is signed in, from this service's own pages."""
    request.state.caller = caller
    return Sent(caller, await form_of(request))


def looking(request: Request, caller: Annotated[Caller, Depends(limited)]) -> Caller:
    """Who is looking at a page."""
    request.state.caller = caller
    return caller


Posted = Annotated[Sent, Depends(sent)]
Looking = Annotated[Caller, Depends(looking)]


def checked(kind: type[Body], given: Mapping[str, Any]) -> Body:
    """A request as the API would have read it from JSON; what does not fit is told by field."""
    fields: dict[str, str] = {}
    try:
        return kind.model_validate(dict(given))
    except ValidationError as error:
        for fault in error.errors(include_url=False, include_input=False):
            place = ".".join(str(part) for part in fault["loc"][:1]) or "form"
            fields[place] = _TOLD.get(fault["type"], "is not written as it must be")
    raise ServiceError(code="invalid", fields=fields)


_TOLD = {
    "missing": "is missing",
    "string_too_long": "is too long",
    "string_too_short": "is missing",
    "too_short": "is missing",
    "literal_error": "is none of the choices",
    "string_pattern_mismatch": "takes small letters, digits, - and _",
    "date_from_datetime_parsing": "is no date; write it as 2027-12-31",
    "date_parsing": "is no date; write it as 2027-12-31",
    "value_error": "does not go together with the other fields",
}


def lines(text: str) -> list[str]:
    """The lines of a text that have something on them."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def titles(service: Service, caller: Caller) -> dict[str, str]:
    """What the data sets that exist for the caller are called."""
    return {name: found.title for name, found in service.datasets.items() if caller.may_see(name)}
