"""The pages: what people see in a browser. Views around the calls of `tacit.server.desk`, and nothing of their own behind them.

Each page is rendered on the server and works without scripts. A form is sent with the session's form token, and a question with a
key, so that a second click is the same question. `routers` are included by the application beside the API's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import APIRouter


def routers() -> list[APIRouter]:
    """The routers of all pages, and of the files that they need."""
    from tacit.server.pages import answers, ask, book, budget, datasets, files, me, models, releases, sign_in, subjects

    modules = (sign_in, files, datasets, ask, answers, releases, budget, book, subjects, models, me)
    return [module.router for module in modules]
