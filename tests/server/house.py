"""A service on a small made-up hospital: its client, and a token for each of its people."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

from tacit.server import Service

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it uses a name of anyio that is going to move
    from fastapi.testclient import TestClient as TestClient

SQL = "SELECT region, COUNT(*) AS n FROM visits GROUP BY region"
ASK: dict[str, Any] = {"dataset": "visits", "purpose": "bed-planning", "sql": SQL, "epsilon": "0.1"}


def followed(client: TestClient, secret: str) -> Any:
    """What the button of a sign-in link's page is answered, sent as a browser sends it from that page."""
    return client.post(f"/sign-in/link/{secret}", headers={"sec-fetch-site": "same-origin"}, follow_redirects=False)


@dataclass
class House:
    """A service with its client and a token for each person."""

    service: Service
    client: TestClient
    tokens: dict[str, str] = field(default_factory=dict)

    def token(self, person: str) -> str:
        if person not in self.tokens:
            known = self.service.register.find(person)
            assert known is not None
            self.tokens[person] = self.service.register.issue(person, role=known.roles[0]).text
        return self.tokens[person]

    def send(self, person: str | None, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """A request of a person by token, or of nobody."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if person is not None:
            sent["authorization"] = f"Bearer {self.token(person)}"
        return self.client.request(method, path, json=body, headers=sent)

    def ask(self, person: str, key: str, wait: int = 30, **changed: Any) -> Any:
        headers = {"idempotency_key": key, **({"prefer": f"wait={wait}"} if wait else {})}
        return self.send(person, "POST", "/v1/questions", {**ASK, **changed}, **headers)

    def entry(self, view: Any) -> int | None:
        """The entry of the book that a question of someone was paid with, which is not told to who asked."""
        row = self.service.claims.row(view["id"])
        assert row is not None
        return None if row["entry"] is None else int(row["entry"])

    def browser(self, person: str) -> TestClient:
        """A browser that signed in by a link."""
        client = TestClient(self.client.app, base_url="http://127.0.0.1:8400")
        found = followed(client, self.service.register.link(person))
        assert found.status_code == 303
        return client
