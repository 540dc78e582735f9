"""A session at a service: `tacit.connect(url, token=...)` has the methods of `Session`, and answers equal in type and content.

Prices and plans are made by the service; no row and no statement is on this machine. Each question is sent with a random
key, and sent again with the same one when the connection breaks, so that it is paid for once.

    session = tacit.connect("https://tacit.example.org", token="tacit_...", dataset="visits", purpose="bed-planning")
    session.sql("SELECT region, COUNT(*) AS n FROM visits GROUP BY region", epsilon=0.1)
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tacit.accounting import Guarantee, PackageMissing
from tacit.ledger import BudgetExceeded
from tacit.tables.answer import Answer
from tacit.tables.answer_record import answer_from, price_from, record_of, value_of
from tacit.tables.builder import Query
from tacit.tables.desk import Price
from tacit.tables.errors import EngineError, TableError
from tacit.tables.session import OPTIONS

if TYPE_CHECKING:
    import httpx
    import pyarrow as pa

#: The form of questions and answers that this client speaks.
PROTOCOL = "1"
#: A question is sent again so often when the connection breaks, with a pause that doubles.
ATTEMPTS = 6
#: This machine, for tokens that may travel in plain; the last name is that of test clients, which have no network.
LOCAL = ("127.0.0.1", "localhost", "::1", "testserver")
#: Options that are exact numbers: a fraction is sent as its text.
_NUMBERS = ("epsilon", "delta", "rho", "mu")


def connect(
    url: str, *, token: str, dataset: str | None = None, purpose: str | None = None, timeout: float = 120.0, client: Any = None
) -> RemoteSession:
    """A session at a service. Where the token sees one data set, or the data set has one purpose, it need not be named.

    `client` is an httpx client to use instead of a new one: for proxies, certificates and tests.
    """
    try:
        import httpx
    except ImportError:
        raise PackageMissing(code="package-missing", package="httpx", install="'tacit[client]'") from None
    parts = urlsplit(url)
    # the whole host, and no name before an @: http://localhost.example.org is another machine
    local = parts.scheme == "http" and parts.hostname in LOCAL and "@" not in parts.netloc
    if not (parts.scheme == "https" and parts.hostname) and not local:
        raise TableError("url must start with https://: a token must not travel in plain (http:// is for this machine only)")
    if not isinstance(token, str) or not token.startswith("tacit_"):
        raise TableError("token must be a text that the service showed once, such as tacit_...")
    own = client if client is not None else httpx.Client(base_url=url, timeout=timeout + 10)
    return RemoteSession(own, token, dataset, purpose, timeout)


class RemoteSession:
    """Questions about one data set of a service, for one purpose."""

    def __init__(self, client: httpx.Client, token: str, dataset: str | None, purpose: str | None, timeout: float) -> None:
        self._client, self._token, self._timeout = client, token, timeout
        names = [found["id"] for found in self._get("/v1/datasets")]
        self.name = _one("dataset", names, dataset)
        found = self._get(f"/v1/datasets/{self.name}")
        live = [one["id"] for one in found["purposes"] if not one["ended"]]
        self.purpose = _one("purpose", live, purpose)
        self.tables: list[dict[str, Any]] = found["tables"]
        self.unit: dict[str, Any] = found["unit"]

    def __repr__(self) -> str:
        return f"RemoteSession({self.name!r}, purpose={self.purpose!r})"

    # --- before asking ------------------------------------------------------------------------------------------------

    def left(self, period: str | None = None) -> Mapping[str, Fraction]:
        """What is left of the budget, through every account above."""
        if period is not None:
            raise TableError("period: the service tells what is left of accounts without a window only")
        for account in self._get("/v1/accounts"):
            if account["dataset"] == self.name and account["purpose"] == self.purpose and account["level"] == "analyst":
                return {name: Fraction(value) for name, value in account["left"].items()}
        return {}

    def price(self, question: str, *, rows: int = 1000, **options: Any) -> Price:
        """The cost of a question and the error of each figure, for a group of so many rows. Nothing is spent."""
        return price_from(self._post("/v1/price", {**self._body(question, options), "rows": rows}))

    def curve(self, question: str, epsilons: list[Any], *, rows: int = 1000, **options: Any) -> list[Price]:
        """The prices at many epsilons, in one call."""
        sent = {**self._body(question, options), "epsilons": [_number(epsilon) for epsilon in epsilons], "rows": rows}
        return [price_from(found) for found in self._post("/v1/price", sent)["prices"]]

    def explain(self, question: str, *, rows: int = 1000, **options: Any) -> str:
        """The plan in words. No data is touched."""
        return str(self._post("/v1/explain", {**self._body(question, options), "rows": rows})["text"])

    def dummy(self, rows: int = 1000, *, table: str | None = None) -> pa.Table:
        """Made-up rows with the columns of a table, for writing questions."""
        import pyarrow as pa

        found = self._get(f"/v1/datasets/{self.name}/dummy?rows={int(rows)}")
        name = next(iter(found)) if table is None else table
        if name not in found:
            raise TableError(f"there is no table {name!r}; there are {', '.join(found)}")
        return pa.table({column: [value_of(value) for value in values] for column, values in found[name].items()})

    # --- asking -------------------------------------------------------------------------------------------------------

    def sql(self, text: str, *, purpose: str = "", key: str = "", **options: Any) -> Answer:
        """Answer a question in SQL, and pay for it. `key` is one of your own, to ask for the same answer again later."""
        sent = self._body(text, options)
        if purpose:
            sent["purpose"] = purpose
        view = self._send("POST", "/v1/questions", sent, {"idempotency-key": key or secrets.token_urlsafe(24), "prefer": "wait=60"})
        until = time.monotonic() + self._timeout
        while view["state"] in ("quoted", "running", "waiting"):
            if time.monotonic() > until:
                raise EngineError(f"question {view['id']} is {view['state']}; it goes on, and session.answer({view['id']!r}) waits for it")
            view = self._send("GET", f"/v1/questions/{view['id']}", None, {"prefer": "wait=60"})
        return self._answered(view)

    def answer(self, question: str) -> Answer:
        """The answer to an earlier question, by the number that the service gave it."""
        if not isinstance(question, str) or not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", question):
            raise TableError("question must be a number that the service gave, such as that of session.history()")
        return self._answered(self._send("GET", f"/v1/questions/{question}", None, {"prefer": "wait=60"}))

    def history(self) -> list[dict[str, Any]]:
        """The questions that were asked before, newest first, without their answers."""
        return list(self._get("/v1/questions"))

    def query(self, table: str | None = None) -> Query:
        """The same questions in Python: `session.query().group_by("region").count("n").ask(epsilon=0.1)`."""
        name = self.tables[0]["name"] if table is None else table
        query = Query.of(name, None, "duckdb")
        return _Remote(query.source, query.catalog, query.dialect, self._ask_tree)

    def _ask_tree(self, text: str, **options: Any) -> Answer:
        return self.sql(text, **options)

    def _answered(self, view: Mapping[str, Any]) -> Answer:
        if view["state"] == "answered":
            return answer_from(view["answer"])
        raise EngineError(str(view.get("detail") or f"the question was {view['state']}"))

    # --- the wire -----------------------------------------------------------------------------------------------------

    def _body(self, question: str, options: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(question, str):
            raise TableError("a service is asked in SQL; use session.query() to write a question in Python")
        unknown = [name for name in options if name not in OPTIONS]
        if unknown:
            raise TableError(f"{unknown[0]!r} is no option of a question; there are {', '.join(OPTIONS)}")
        sent: dict[str, Any] = {"dataset": self.name, "purpose": self.purpose, "sql": question}
        for name, value in options.items():
            if value is None:
                continue
            if name in _NUMBERS:
                sent[name] = _number(value)
            elif name == "guarantee":
                asked = Guarantee.of(value)
                sent |= {part: str(found) for part in _NUMBERS if (found := getattr(asked, part, None))}
            elif name == "bounds":
                sent[name] = {column: [_number(end) for end in ends] for column, ends in dict(value).items()}
            elif name == "keys":
                sent[name] = {column: None if listed is None else [record_of(one) for one in listed] for column, listed in value.items()}
            elif name in ("weights", "accuracy"):
                sent[name] = {column: _number(one) for column, one in dict(value).items()}
            else:
                sent[name] = value
        return sent

    def _get(self, path: str) -> Any:
        return self._send("GET", path, None, {})

    def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        return self._send("POST", path, body, {})

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None, headers: Mapping[str, str]) -> Any:
        """One request, sent again while the connection breaks or the service is busy: its key makes that harmless."""
        import httpx

        sent = {"authorization": f"Bearer {self._token}", "tacit-protocol": PROTOCOL, "accept": "application/json", **headers}
        pause, words = 0.2, "the service cannot be reached; a question that was sent is paid for at most once"
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(pause)
                pause *= 2
            try:
                found = self._client.request(method, path, json=body, headers=sent)
            except httpx.TransportError:
                continue
            spoken = found.headers.get("tacit-protocol")
            if spoken != PROTOCOL:
                raise TableError("this address is no service that this version of Tacit can talk to; use the same version on both sides")
            if found.status_code in (429, 503) and attempt + 1 < ATTEMPTS:
                words = "the service is busy; try again later"
                continue
            return _told(found)
        raise EngineError(words)


def _told(response: Any) -> Any:
    """The JSON of an answer; a problem document becomes the error that a local session raises."""
    if response.status_code < 300:
        return response.json()
    try:
        problem = response.json()
        kind, words = str(problem["type"]).rpartition("/")[2], f"{problem.get('detail') or problem['title']}; {problem['fix']}"
    except (ValueError, KeyError, TypeError):
        kind, words = "", f"the service answered with status {response.status_code}"
        problem = {}
    if kind == "budget-exceeded":
        left, asked = ({part: Fraction(value) for part, value in problem.get(name, {}).items()} for name in ("left", "asked"))
        raise BudgetExceeded(words, left=left, asked=asked, fits=str(problem.get("fits", "")))
    raise TableError(words)


def _one(what: str, names: list[str], wanted: str | None) -> str:
    """The name that is meant, of those that there are."""
    if wanted is None and len(names) == 1:
        return names[0]
    if wanted in names:
        return str(wanted)
    raise TableError(f"{what} must be one of {', '.join(names) or 'none: this token sees nothing'}")


def _number(value: Any) -> Any:
    return value if isinstance(value, (int, float, str)) and not isinstance(value, bool) else str(value)


class _Remote(Query):
    """A query whose statement is sent as text: the service reads and checks it."""

    def ask(self, **options: Any) -> Any:
        """Send it."""
        if self.asker is None:
            raise TableError("this query belongs to no session")
        return self.asker(self.tree.sql(dialect=self.dialect), **options)
