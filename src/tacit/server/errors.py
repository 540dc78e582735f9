"""What the service refuses, as problem documents (RFC 9457): a code, a status, a constant title and the fix.

A text is made of public things only: names of fields, declared limits, the analyst's own question. After the data was
touched there is one text for everything. What one may not see does not exist: `NOT_FOUND` is the same for both.

>>> problem(ServiceError(code="not-found"))["status"], problem(ServiceError(code="not-found"))["title"]
(404, 'Not found')
>>> problem(ServiceError(code="rate-limited", seconds=7))["fix"]
'wait 7 seconds'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tacit.accounting import Refusal
from tacit.ledger import BudgetExceeded, LedgerBusy, LedgerError, LedgerUnwritable
from tacit.tables import EngineError


@dataclass(frozen=True)
class Problem:
    """One kind of problem: the status, what happened, and what to do about it. `fix` may name facts."""

    status: int
    title: str
    fix: str


#: Every problem that the service answers with.
PROBLEMS: Mapping[str, Problem] = {
    "not-found": Problem(404, "Not found", "check the address; what you may not see does not exist either"),
    "not-signed-in": Problem(401, "Not signed in", "send a token (Authorization: Bearer ...), or sign in"),
    "forged": Problem(403, "The request came from another site", "send it from this service's own pages, or with a token"),
    "form-expired": Problem(403, "The form is out of date", "load the page again, and send the form once more"),
    "method": Problem(405, "This address does not know that method", "see /v1/openapi.json"),
    "invalid": Problem(422, "The request cannot be read", "correct the named fields; see /v1/openapi.json"),
    "not-json": Problem(400, "The body is not JSON", "send UTF-8 JSON with content-type application/json"),
    "too-deep": Problem(400, "The body is nested too deeply", "send at most {deepest} levels"),
    "too-large": Problem(413, "The body is too large", "send at most {most} bytes"),
    "too-slow": Problem(408, "The body took too long to arrive", "send it within {seconds:g} seconds"),
    "media-type": Problem(415, "This media type is not read here", "send application/json"),
    "not-acceptable": Problem(
        406, "This form of the answer is not offered", "accept JSON, CSV, Arrow or Parquet (see /v1/openapi.json)"
    ),
    "rate-limited": Problem(429, "Too many requests", "wait {seconds} seconds"),
    "queue-full": Problem(503, "Too many questions are waiting", "try again later; {waiting} are waiting"),
    "key-missing": Problem(
        400, "Idempotency-Key is missing", "send a new random key with each question, and the same one when you try again"
    ),
    "key-other-body": Problem(
        409, "This Idempotency-Key was used for another question", "use a new key for a new question; nothing was spent"
    ),
    "question-refused": Problem(422, "The question was refused, and nothing was spent", "change the question as the detail says"),
    "purpose-refused": Problem(
        422, "The purpose does not allow this question, and nothing was spent", "ask for what the purpose allows, or under another purpose"
    ),
    "purpose-ended": Problem(422, "The purpose has ended, and nothing was spent", "ask the curator for a new purpose; retention is due"),
    "access-ended": Problem(422, "You may no longer ask about this, and nothing was spent", "ask the curator"),
    "purpose-vague": Problem(422, "The purpose is too vague", "say who uses which statistics, and why, in words that rule something out"),
    "budget-exceeded": Problem(
        409, "The budget does not allow this, and nothing was spent", "ask for less, as the detail says, or for fewer figures"
    ),
    "daily-limit": Problem(409, "The token's daily limit does not allow this, and nothing was spent", "ask for less, or tomorrow"),
    "lost": Problem(409, "The question was paid for, and its answer is lost", "it is never drawn again; a new attempt is a new question"),
    "not-answered": Problem(409, "There is no answer yet", "wait for it: GET with Prefer: wait=30"),
    "not-waiting": Problem(409, "The question does not wait for approval", "look at its state"),
    "read-only": Problem(409, "This is set in the service's file", "change service.yaml, and start the service again"),
    "taken": Problem(409, "The name is taken", "choose another one"),
    "job-refused": Problem(422, "The release job was refused, and nothing was spent", "change the job as the detail says"),
    "subject-refused": Problem(422, "The request of the person cannot be carried out as sent", "correct the named field"),
    "busy": Problem(503, "The book is busy, and nothing was spent", "try again with the same key"),
    "unavailable": Problem(503, "The service cannot do this now", "try again with the same key; a key is never paid for twice"),
    "version": Problem(400, "The client and the service speak different versions", "install {wanted}"),
    "sign-in-failed": Problem(403, "Signing in failed", "start again from the sign-in page; a link works once, for ten minutes"),
    "set-up": Problem(500, "The service is not set up for this", "see the log of the service's start"),
}
WORDS: Mapping[str, str] = {code: found.title for code, found in PROBLEMS.items()}


class ServiceError(Refusal, RuntimeError):
    """A refusal by the service; its code is one of `PROBLEMS`. `detail` is what it says beyond the title, and `fields` names what
    is wrong in the request, without values."""

    words = WORDS

    def __init__(self, message: str = "", *, code: str, fields: Mapping[str, str] | None = None, **facts: object) -> None:
        super().__init__(message, code=code, **facts)
        self.detail, self.fields = message, dict(fields or {})

    @property
    def status(self) -> int:
        """The HTTP status."""
        return PROBLEMS[self.code].status


class ConfigurationError(Refusal, ValueError):
    """The service's file, or the way it is started, cannot be used as given; the message names the place and the fix."""


def not_found() -> ServiceError:
    """What is not there, and what may not be seen."""
    return ServiceError(code="not-found")


def problem(error: ServiceError) -> dict[str, Any]:
    """The problem document of a refusal."""
    kind = PROBLEMS[error.code]
    found: dict[str, Any] = {
        "type": f"/problems/{error.code}",
        "title": kind.title,
        "status": kind.status,
        "fix": kind.fix.format(**error.facts),
    }
    if error.detail:
        found["detail"] = error.detail
    if error.fields:
        found["fields"] = error.fields
    told = {name: _plain(error.facts[name]) for name in ("left", "asked", "fits", "refusal", "entry") if name in error.facts}
    return found | told


def _plain(value: object) -> object:
    """Facts as JSON: exact amounts become numbers that are not above them."""
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    return float(value) if isinstance(value, Fraction) else value


def of_refusal(error: Refusal) -> ServiceError:
    """A refusal of a room below in the service's words; what failed after the data was touched says nothing."""
    match error:
        case ServiceError():
            return error
        case EngineError():
            return ServiceError(code="lost")
        case BudgetExceeded():
            return ServiceError(error.message, code="budget-exceeded", left=error.left, asked=error.asked, fits=error.fits)
        case LedgerBusy():
            return ServiceError(code="busy")
        case LedgerUnwritable():
            return ServiceError(code="unavailable")
        case LedgerError() if error.code in PROBLEMS:
            return ServiceError(code=error.code)
        case _:
            return ServiceError(error.message, code="question-refused", refusal=error.code)
