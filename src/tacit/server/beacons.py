"""Beacons of the service: Beacon v2 documents over the questions of a data set.

A data set with a `beacon` in `service.yaml` has a private table with a row for each variant that a person carries. What a
beacon is asked becomes a question in SQL, a count of different people, and goes the way of all questions: its purpose must
allow it and not have ended, the asker's account pays before a row is read, people who withdrew or were erased are left
out, a fault after that is lost and withheld, and the outcome is seen when the answer grid lets it out. The document is
read from the noisy count, which costs nothing.

The key of a question is made from what is asked and the day, so that a client that repeats a request gets the answer it
had and pays once. `tacit.applications.health.Beacon` has the rule of yes and no, and its guarantee.
"""

from __future__ import annotations

import datetime
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tacit.applications.health import Beacon, Variant
from tacit.errors import ParameterError
from tacit.ledger import canonical
from tacit.server.access import Caller, check
from tacit.server.config import BeaconSpec
from tacit.server.datasets import Dataset
from tacit.server.errors import PROBLEMS, ConfigurationError, ServiceError, not_found
from tacit.server.questions import Questions
from tacit.server.requests import Ask
from tacit.tables import answer_from

#: What a request may have beside the variant: these change no answer here. Whatever else it has would, and is refused.
KNOWN = frozenset({
    "referenceName", "start", "end", "referenceBases", "alternateBases", "assemblyId", "filters", "requestedGranularity",
    "includeResultsetResponses", "pagination", "skip", "limit", "requestedSchema", "requestedSchemas", "testMode", "apiVersion",
})  # fmt: skip
#: Names of chromosomes that are put into a statement.
CHROMOSOME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
#: The name of the figure in a question's answer.
CARRIERS = "carriers"
#: What a beacon says of the states that a question may be in without an answer.
STATES = {
    "waiting": (403, "an officer must approve this question; ask the same again later"),
    "declined": (403, "an officer declined this question; nothing was spent"),
    "refused": (403, "this question was refused before anything was spent; ask the curator"),
    "lost": (500, "the answer was lost after it was paid for; it is never drawn again today"),
}
LATER = (503, "the answer is under way; ask the same again, which costs nothing more")


def _asked_elsewhere(variant: Variant) -> int:
    raise ServiceError(code="set-up")  # the service counts in the data set's engine


@dataclass(frozen=True)
class BeaconOf:
    """The beacon of one data set."""

    dataset: Dataset
    spec: BeaconSpec
    beacon: Beacon
    person: str

    @staticmethod
    def of(dataset: Dataset, spec: BeaconSpec, origin: str) -> BeaconOf:
        """Check a beacon's block against the public schema of its data set. No row is read."""
        place = f"datasets.{dataset.name}.beacon"
        people = dataset.people_columns()
        if spec.table not in people:
            raise ConfigurationError(
                f"{place}.table: people must be able to withdraw from a beacon, so it needs a private table whose rows say whose they "
                "are; PLINK and VCF files cannot leave a person out: write their calls into a table first"
            )
        known = dataset.source.columns(spec.table)
        for name in ("chromosome", "position", "reference", "alternate"):
            if getattr(spec, name) not in known:
                raise ConfigurationError(f"{place}.{name}: the table has no such column")
        try:
            made = Beacon(
                _asked_elsewhere, spec.people, spec.epsilon, spec.absence, id=spec.id, name=spec.name, organisation=spec.organisation,
                url=f"{origin}/v1/beacons/{dataset.name}", environment=spec.environment,
            )  # fmt: skip
        except ParameterError as error:
            raise ConfigurationError(f"{place}: {error}") from None
        return BeaconOf(dataset, spec, made, people[spec.table])

    def wanted(self, request: Mapping[str, Any]) -> tuple[str, Variant]:
        """The granularity and the variant that a request asks for; a wrong one is refused before anything is spent."""
        if set(request) - KNOWN:
            raise ParameterError("the request has a parameter that this beacon does not know; ask for a variant by its place and bases")
        asked, variant = self.beacon.wanted(request)
        if not CHROMOSOME.fullmatch(variant.reference_name):
            raise ParameterError("referenceName must name a chromosome, such as 1 or chrX")
        if self.spec.assembly and variant.assembly and variant.assembly.casefold() != self.spec.assembly.casefold():
            raise ParameterError(f"this beacon has assembly {self.spec.assembly}")
        return asked, variant

    def question(self, variant: Variant) -> Ask:
        """What is asked of the data set: how many different people carry the variant."""
        spec = self.spec
        found = {
            spec.chromosome: f"'{variant.reference_name}'", spec.position: str(variant.start + spec.first_position),
            spec.reference: f"'{variant.reference_bases}'", spec.alternate: f"'{variant.alternate_bases}'",
        }  # fmt: skip
        rule = " AND ".join(f"{_quoted(name)} = {value}" for name, value in found.items())
        table = ".".join(_quoted(part) for part in spec.table.split("."))
        text = f"SELECT COUNT(DISTINCT {_quoted(self.person)}) AS {CARRIERS} FROM {table} WHERE {rule}"
        return Ask(dataset=self.dataset.name, purpose=spec.purpose, sql=text, epsilon=str(Fraction(self.beacon.price)), law="laplace")

    def key(self, variant: Variant) -> str:
        """One key for one variant on one day."""
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        asked = {name: value for name, value in variant.parameters.items() if name not in ("assemblyId", "end")}
        return "beacon-" + hashlib.sha256(canonical([self.dataset.name, self.beacon.id, asked, today]).encode()).hexdigest()

    def document(self, view: Mapping[str, Any], asked: str, variant: Variant) -> dict[str, Any]:
        """The document of a question as it stands."""
        if view["state"] == "answered":
            noisy = answer_from(view["answer"]).to_arrow().column(CARRIERS)[0].as_py()
            return self.beacon.document(asked, variant, *self.beacon.read(round(noisy)))
        code, words = STATES.get(view["state"], LATER)
        return self.beacon.error(code, words, asked, variant)


class Beacons:
    """The beacons of a service, by the names of their data sets."""

    def __init__(self, datasets: Mapping[str, Dataset], questions: Questions, origin: str) -> None:
        self.questions = questions
        self._found = {
            name: BeaconOf.of(dataset, dataset.spec.beacon, origin)
            for name, dataset in datasets.items() if dataset.spec.beacon is not None
        }  # fmt: skip

    @property
    def names(self) -> tuple[str, ...]:
        """The data sets that have one."""
        return tuple(self._found)

    def find(self, caller: Caller, name: str, action: str) -> BeaconOf:
        """A beacon that the caller may use for an action."""
        check(caller, action, datasets=[name])
        if name not in self._found:
            raise not_found()
        return self._found[name]

    def ask(self, caller: Caller, name: str, request: Mapping[str, Any]) -> tuple[BeaconOf, str, Variant, dict[str, Any]]:
        """File the question that a request stands for, as anything that is asked; the beacon, what was wanted, and the question."""
        found = self.find(caller, name, "ask_beacon")
        # a link on another site makes a browser send its cookie; a GET that spends is for tokens
        if not caller.token:
            raise ServiceError(code="not-signed-in")
        try:
            asked, variant = found.wanted(request)
        except ParameterError as error:
            wrong = ServiceError(str(error), code="question-refused")
        else:
            return found, asked, variant, self.questions.ask(caller, found.question(variant), found.key(variant))
        raise wrong


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def error_document(error: ServiceError) -> dict[str, Any]:
    """A refusal of the service as a beacon's error document, whatever beacon was asked: it may not be there for the caller."""
    words = PROBLEMS[error.code].title if not error.detail else f"{PROBLEMS[error.code].title}: {error.detail}"
    return Beacon(_asked_elsewhere, 1, 1).error(error.status, words)
