"""The first pages: sign in, and what is promised in plain words. Neither needs anyone to be signed in."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from tacit.server.api.calling import Serving, browsing
from tacit.server.pages.view import page
from tacit.server.purposes import HARMS

router = APIRouter(include_in_schema=False)
#: The amounts of epsilon that the plain-language page gives as examples.
EXAMPLES = (0.1, 0.5, 1.0, 2.0)


@router.get("/")
async def home(request: Request) -> Response:
    """The data sets for who is signed in, and the page to sign in for others."""
    return RedirectResponse("/sign-in" if await browsing(request) is None else "/datasets", 303)


@router.get("/sign-in")
async def sign_in(request: Request, service: Serving) -> Response:
    """How to sign in."""
    if await browsing(request) is not None:
        return RedirectResponse("/datasets", 303)
    return page(request, "sign_in.html", provider=service.provider is not None)


@router.get("/sign-in/link/{secret}")
async def link(request: Request, secret: str) -> Response:
    """The button that signs in. The page is the same for every text, and opening it uses nothing up."""
    return page(request, "sign_in_link.html")


@router.get("/plain")
async def plain(request: Request) -> Response:
    """What is promised, for those whose data are used. It tells nothing about data sets."""
    return page(request, "plain.html", await browsing(request), set=None, examples=EXAMPLES, total=None, chance=0, harms=HARMS)
