"""`tacit serve` as a stranger starts it: from an empty folder, by the printed links, to an answer, a shared link, a book that is in order
and an erasure. The second start is of two processes on the same folder."""

from __future__ import annotations

import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import tacit

SOURCES = Path(tacit.__file__).parents[1]
ROWS = "SELECT region, COUNT(*) AS n FROM visits GROUP BY region"
#: Longer than a busy machine takes to make the data and to start.
PATIENCE = 120


def words(port: int, *more: str) -> list[str]:
    return [sys.executable, "-m", "tacit.cli", "serve", *more, "--port", str(port)]


@contextmanager
def served(folder: Path, *more: str) -> Iterator[tuple[str, list[str]]]:
    """The address of a service that is ready, and what it printed until then."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    base, said = f"http://127.0.0.1:{port}", folder / f"said-{port}"
    environment = {**os.environ, "PYTHONPATH": str(SOURCES), "OPENBLAS_NUM_THREADS": "1"}
    with said.open("w") as out:
        process = subprocess.Popen(words(port, *more), cwd=folder, env=environment, stdout=out, stderr=out, start_new_session=True)
    try:
        until = time.monotonic() + PATIENCE
        while True:
            try:
                if httpx.get(f"{base}/readyz", timeout=5).status_code == 200:
                    break
            except httpx.TransportError:
                pass
            assert process.poll() is None and time.monotonic() < until, said.read_text()
            time.sleep(0.1)
        yield base, said.read_text().splitlines()
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(60) is not None and "Traceback" not in said.read_text()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)


class Browser:
    """What a person does: follow a link, look at a page, send its form."""

    def __init__(self, base: str, link: str) -> None:
        self.base, self.client = base, httpx.Client(base_url=base, timeout=60, follow_redirects=True)
        page = self.client.get(link)  # opening it uses nothing up
        assert page.status_code == 200 and '<form method="post">' in page.text
        found = self.client.post(link, headers={"sec-fetch-site": "same-origin"})
        assert found.status_code == 200 and found.url.path == "/datasets", found.text

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def look(self, path: str) -> str:
        found = self.client.get(path)
        assert found.status_code == 200, found.text
        return found.text

    def send(self, path: str, **fields: str) -> httpx.Response:
        token = re.search(r'name="form_token" value="([^"]+)"', self.look("/me"))
        assert token is not None
        same = {"origin": self.base, "sec-fetch-site": "same-origin"}
        return self.client.post(path, data={"form_token": token[1], **fields}, headers=same)

    def ask(self, sql: str, epsilon: str) -> str:
        """Ask in the form's way, and wait as a page does; the path of the answer."""
        fields = {"dataset": "visits", "purpose": "bed-planning", "sql": sql, "by": "epsilon", "epsilon": epsilon}
        found = self.send("/ask", **fields, nonce=secrets.token_hex(16), do="ask")
        until = time.monotonic() + 60
        while "tag answered" not in (text := self.look(found.url.path)):
            assert time.monotonic() < until, text
            time.sleep(0.2)
        return found.url.path


def links(said: list[str]) -> dict[str, str]:
    return {found[1]: found[2] for line in said if (found := re.match(r"  (\w+) \(\w+\): (http\S+)$", line))}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stranger")


def test_a_stranger_asks_shares_verifies_and_erases(folder: Path) -> None:
    with ExitStack() as opened, served(folder, "--demo", "--out", "here") as (base, said):
        found = links(said)
        assert set(found) == {"Ann", "Ben", "Cleo", "Olga"} and "within ten minutes" in said[0]
        ann, ben, olga = (opened.enter_context(Browser(base, found[name])) for name in ("Ann", "Ben", "Olga"))
        assert httpx.post(found["Ann"], headers={"sec-fetch-site": "same-origin"}).status_code == 403  # once
        where = ann.ask(ROWS, "0.1")
        assert "19 times in 20" in ann.look(where) and "Capital" in ann.look(where)
        ann.send(f"{where}/share")
        shared = re.search(r"/shared/\w+", ann.look(where))
        assert shared is not None and "Capital" in ben.look(shared[0])
        assert "The book is in order" in olga.send("/book/verify", head="").text
        erased = olga.send("/subjects", dataset="visits", person="21", what="erase").text
        assert "Done" in erased and "not refunded" in erased
        again = ann.ask(ROWS, "0.11")
        assert again != where and "Capital" in ann.look(again)
        assert "The book is in order" in olga.send("/book/verify", head="").text


def test_two_processes_serve_the_same_people_and_the_same_answers(folder: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    with served(folder, "here/service.yaml", "--workers", "2") as (base, _):
        made = subprocess.run([*words(int(base.rpartition(":")[2]), "here/service.yaml", "--link", "ann")],
                              cwd=folder, env=environment, capture_output=True, text=True, check=True)  # fmt: skip
        with Browser(base, made.stdout.strip()) as ann:
            asked = [ann.ask(f"SELECT COUNT(*) AS n FROM visits WHERE age > {age}", "0.01") for age in range(2)]
        # a connection stays with one process, a new one goes to either
        for where in asked:
            seen: set[Any] = set()
            for _ in range(6):
                with httpx.Client(base_url=base, cookies=ann.client.cookies, timeout=60) as other:
                    view = other.get(f"/v1{where}").json()
                    seen.add((view["state"], view["answered"], str(view["answer"]["figures"])))
            assert len(seen) == 1 and next(iter(seen))[0] == "answered"
