"""A running service for browsers: one server, one browser, and signed-in people, shared by all tests of a file."""

from __future__ import annotations

import shutil
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn

from tacit.server import Service, application
from tacit.server.wire import Prompt

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run",
]  # fmt: skip
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SQL = "SELECT region, COUNT(*) AS visits, AVG(age) AS age FROM visits GROUP BY region"


def browser_path() -> str | None:
    """A chromium or chrome on PATH."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@contextmanager
def listening(service: Service) -> Iterator[str]:
    """The address of a service that answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = uvicorn.Config(
        application(service), host="127.0.0.1", port=port, log_level="critical", access_log=False, ws="none", http=Prompt
    )
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until = time.monotonic() + 30
    while not server.started and time.monotonic() < until:
        time.sleep(0.02)
    assert server.started
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(timeout=20)


def tamper(path: str) -> None:
    """Change a word of the book behind the service's back. The database itself forbids it, so its guards go first."""
    with closing(sqlite3.connect(path, timeout=30)) as book, book:
        for (trigger,) in book.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            book.execute(f"DROP TRIGGER {trigger}")
        for (table,) in book.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            columns = [row[1] for row in book.execute(f"PRAGMA table_info({table})")]
            if {"body", "hash", "seq"} <= set(columns):
                changed = book.execute(f"UPDATE {table} SET body = replace(body, 'bed-planning', 'bad-planning')").rowcount
                assert changed
                return
    raise AssertionError("no table of entries")


@dataclass
class Town:
    """A service, a browser, and what the browser complained about or fetched."""

    service: Service
    browser: Any
    base: str
    folder: Path
    complaints: list[str] = field(default_factory=list)
    abroad: list[str] = field(default_factory=list)
    _states: dict[str, Any] = field(default_factory=dict)

    def context(self, person: str | None = None, *, dark: bool = False, width: int = 1280, scripts: bool = True) -> Any:
        """A window of a person who is signed in, or of nobody."""
        state = None if person is None else self.signed(person)
        made = self.browser.new_context(
            base_url=self.base, viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light",
            java_script_enabled=scripts, storage_state=state,
        )  # fmt: skip
        made.set_default_timeout(20_000)
        made.on("console", self._noted)
        made.on("weberror", lambda error: self.complaints.append(str(error.error)))
        made.on("request", lambda request: self._asked(request.url))
        return made

    def _noted(self, message: Any) -> None:
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.complaints.append(message.text)

    def _asked(self, url: str) -> None:
        if not url.startswith((self.base, "data:", "blob:", "about:")):
            self.abroad.append(url)

    def signed(self, person: str) -> Any:
        """The cookies of someone who followed a sign-in link; one session each, so that the register stays short."""
        if person not in self._states:
            made = self.browser.new_context(base_url=self.base)
            page = made.new_page()
            page.goto(f"/sign-in/link/{self.service.register.link(person)}")
            page.click("main button")
            assert page.url.endswith("/datasets")
            self._states[person] = made.storage_state()
            made.close()
        return self._states[person]

    def page(self, person: str | None = None, path: str = "/", **options: Any) -> Any:
        """A page of a window of its own."""
        made = self.context(person, **options).new_page()
        made.goto(path)
        return made

    def spent(self) -> float:
        """The epsilon that the data set has spent."""
        return float(self.service.datasets["visits"].account.spent()["epsilon"])

    def asked(self, person: str = "ann", **changed: Any) -> str:
        """A question that was answered, without a browser; its number."""
        from tacit.server.requests import Ask

        caller = self.caller(person)
        given = {"dataset": "visits", "purpose": "bed-planning", "sql": SQL, "epsilon": "0.02", **changed}
        view = self.service.questions.ask(caller, Ask(**given), f"key-{time.monotonic_ns()}")
        return str(self.service.questions.wait(caller, view["id"], 30)["id"])

    def caller(self, person: str) -> Any:
        session = self.service.register.begin(person)
        assert session is not None
        return self.service.register.by_session(session)
