"""A beacon: is this variant in the data, and in how many people? Answers are Beacon v2 documents, paid for by the asker.

The count of carriers is drawn with two-sided geometric noise, clamped, and read by Bayes' rule: "yes" where that costs
less. Rare variants are hidden by that, which is the point: always look at `operating_curve` before opening a
beacon. A request that is wrong, or that the asker's account cannot pay, is answered by an error document.

>>> curve = operating_curve(500, 0.2, absence=0.5)
>>> [round(curve[c], 3) for c in (0, 1, 10, 20, 40)]
[0.99, 0.012, 0.074, 0.55, 0.992]
>>> beacon = Beacon(lambda variant: 40, at_most=500, epsilon=1)
>>> found = beacon.answer({"referenceName": "1", "start": 99, "referenceBases": "A", "alternateBases": "T"}, account=None)
>>> found["responseSummary"]["exists"], found["meta"]["returnedGranularity"]
(True, 'boolean')
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit import __version__
from tacit.accounting import Event
from tacit.applications.health.cohort import COUNTS, best_answer, prior_of
from tacit.applications.health.genotypes import Genotypes
from tacit.errors import ParameterError
from tacit.exact import Typed, exact
from tacit.ledger import BudgetExceeded, LedgerError, ReleaseFailed, paying
from tacit.mechanisms import geometric
from tacit.parameters import count, positive, probability

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tacit.ledger import Account
    from tacit.pictures import Path

Floats = NDArray[np.float64]
API = "v2.0.0"
ENTITY = "genomicVariant"
MODEL = "https://raw.githubusercontent.com/ga4gh-beacon/beacon-v2/main/models/json/beacon-v2-default-model"
SCHEMAS = [{"entityType": ENTITY, "schema": "ga4gh-beacon-variant-v2.0.0"}]
GRANULARITIES = ("boolean", "count", "record")
BASES = frozenset("ACGTN")


# --- yes or no ---------------------------------------------------------------------------------------------


def prior_with_absence(n: int, absence: float) -> Floats:
    """The prior that a variant is absent with this probability, and else in 1 to n people alike."""
    size, none = count("n", n), float(probability("absence", absence))
    return np.concatenate([[none], np.full(size, (1 - none) / size)])


def says_yes(n: int, epsilon: float, prior: Floats, loss: Floats | None = None) -> NDArray[np.bool_]:
    """For every noisy count from 0 to n, whether "yes" costs less. `loss[c]` is what the wrong answer costs at count c.

    "Yes" where prior[0] a^noisy loss[0] is below the sum over c >= 1 of prior[c] a^|c - noisy| loss[c], a = exp(-epsilon).
    """
    costs = np.ones(n + 1) if loss is None else np.asarray(loss, dtype=float)
    if costs.shape != (n + 1,) or not np.isfinite(costs).all() or (costs < 0).any():
        raise ParameterError(f"loss must be {n + 1} finite numbers, none below 0: what the wrong answer costs at each count")
    weighted = prior * costs
    ratio = math.exp(-epsilon)
    # Two passes add up what lies below and above every noisy count.
    below, above = np.zeros(n + 1), np.zeros(n + 1)
    for c in range(1, n + 1):
        below[c] = ratio * below[c - 1] + weighted[c]
    for c in range(n - 1, -1, -1):
        above[c] = ratio * (above[c + 1] + weighted[c + 1])
    return np.asarray(weighted[0] * ratio ** np.arange(n + 1) < below + above)


def noisy_law(true: int, n: int, epsilon: float) -> Floats:
    """The law of the clamped noisy count over 0 to n."""
    ratio = math.exp(-epsilon)
    law = (1 - ratio) / (1 + ratio) * ratio ** np.abs(np.arange(n + 1) - true)
    law[0], law[-1] = ratio**true / (1 + ratio), ratio ** (n - true) / (1 + ratio)
    return np.asarray(law)


def operating_curve(
    n: int, epsilon: float, *, absence: float = 0.5, loss: Floats | None = None, counts: Sequence[int] | None = None
) -> dict[int, float]:
    """How likely the answer is right when so many people carry the variant; for every count, or for those named."""
    size, price = count("n", n), float(positive("epsilon", epsilon))
    yes = says_yes(size, price, prior_with_absence(size, absence), loss)
    asked = range(size + 1) if counts is None else [count("count", c, least=0) for c in counts]
    if any(c > size for c in asked):
        raise ParameterError(f"counts must be at most {size}, the number of people")
    found = {}
    for c in asked:
        said = float(noisy_law(c, size, price) @ yes)
        found[c] = said if c else 1 - said
    return found


def draw_curve(n: int, epsilons: Sequence[float], absence: float, path: Path | None = None) -> Figure:
    """A picture of the operating curve for several prices."""
    from tacit.pictures import BLUE, GREEN, ORANGE, PURPLE, RED, canvas, dress, finish

    figure, ax = canvas(None, path)
    colours = (BLUE, ORANGE, GREEN, RED, PURPLE)
    reach = max(2, min(n, math.ceil(12 / min(epsilons)) + 5))
    for i, epsilon in enumerate(epsilons):
        curve = operating_curve(n, epsilon, absence=absence)
        shown = [c for c in curve if 0 < c <= reach]
        ax.plot(shown, [curve[c] for c in shown], color=colours[i % len(colours)], label=f"epsilon {epsilon:g}")
        ax.plot([0], [curve[0]], "o", color=colours[i % len(colours)])
    ax.set_ylim(0, 1.04)
    ax.legend(loc="lower right")
    dress(ax, f"A beacon of {n} people: how often it is right", "people who carry the variant", "probability of the right answer")
    return finish(figure, path)


# --- requests and documents --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Variant:
    """A variant as Beacon asks for it: positions count from 0, `end` is left out for a single site."""

    reference_name: str
    start: int
    reference_bases: str
    alternate_bases: str
    assembly: str = ""
    end: int | None = None

    @staticmethod
    def parse(request: Mapping[str, Any]) -> Variant:
        """From the parameters of a request; refused where one is missing or is no such thing."""
        missing = [name for name in ("referenceName", "start", "referenceBases", "alternateBases") if request.get(name) is None]
        if missing:
            raise ParameterError(f"the parameters are incomplete: {', '.join(missing)} is missing")
        if request.get("filters"):
            raise ParameterError("this beacon has no filters; ask without")
        places = {name: _position(name, request[name]) for name in ("start", "end") if request.get(name) is not None}
        if "end" in places and places["end"] <= places["start"]:
            raise ParameterError("end must be above start")
        bases = [str(request[name]).upper() for name in ("referenceBases", "alternateBases")]
        if not all(0 < len(one) <= 10_000 and set(one) <= BASES for one in bases):
            raise ParameterError("referenceBases and alternateBases must be written in A, C, G, T and N")
        name = str(request["referenceName"])
        if not 0 < len(name) <= 100:
            raise ParameterError("referenceName must name a chromosome, such as 1 or chrX")
        assembly = str(request.get("assemblyId") or "")[:100]
        return Variant(name.removeprefix("chr"), places["start"], bases[0], bases[1], assembly, places.get("end"))

    @property
    def parameters(self) -> dict[str, Any]:
        """The same as a request writes it."""
        found: dict[str, Any] = {
            "referenceName": self.reference_name, "start": self.start,
            "referenceBases": self.reference_bases, "alternateBases": self.alternate_bases,
        }
        return found | ({"assemblyId": self.assembly} if self.assembly else {}) | ({} if self.end is None else {"end": self.end})


def _position(name: str, given: object) -> int:
    if isinstance(given, (list, tuple)) and len(given) == 1:
        given = given[0]
    try:
        found = int(given) if isinstance(given, (int, str)) and not isinstance(given, bool) else -1
    except ValueError:
        found = -1
    if not 0 <= found < 2**40:
        raise ParameterError(f"{name} must be one position, a whole number from 0 on")
    return found


@dataclass(frozen=True)
class Beacon:
    """A beacon over people whose carriers of a variant `carriers` counts, when it is paid for.

    `at_most` is a public bound on the number of people. `absence` is the prior that a variant is absent; `loss[c]`
    what the wrong answer costs at count c.

    Guarantee
        Statement: each answer costs DiscreteLaplace(1 / epsilon, 1) of the asker's account, yes, no and count
        alike; the same question asked again of an account that keeps answers gets the same answer for nothing.
        Conditions: add-remove or replace-one of a person, who is counted once as a carrier. Askers who talk to each
        other add up, so give a group of them one account.
        Proved in: Ghosh, Roughgarden, Sundararajan 2012; the decision is post-processing (Cho et al. 2020).
        Correction: (9.9) of the source speaks of a count in {0, 1}, which would be randomised response; its remark
        that common variants are answered right more often needs the count, as here.
    """

    carriers: Callable[[Variant], int]
    at_most: int
    epsilon: Typed
    absence: float = 0.5
    loss: Any = None
    id: str = "org.example.tacit.beacon"
    name: str = "A private beacon"
    organisation: str = "The curator"
    url: str = "https://example.org/"
    environment: str = "test"

    def __post_init__(self) -> None:
        positive("epsilon", self.price)
        _ = self.yes
        if self.environment not in ("prod", "test", "dev", "staging"):
            raise ParameterError("environment must be prod, test, dev or staging")

    @property
    def price(self) -> Fraction:
        """What one answer costs."""
        return exact("epsilon", self.epsilon)

    @cached_property
    def yes(self) -> NDArray[np.bool_]:
        """For every noisy count whether the answer is yes."""
        size = count("at_most", self.at_most)
        return says_yes(size, float(self.price), self.prior, self.loss)

    @cached_property
    def prior(self) -> Floats:
        """How likely each count is before anything is asked."""
        return prior_of(prior_with_absence(self.at_most, self.absence), self.at_most)

    @property
    def event(self) -> Event:
        """What one answer does to the data."""
        return geometric(1 / self.price).bind(COUNTS).event(1)

    def query(self, variant: Variant, account: Account | None) -> tuple[bool, int]:
        """Whether the variant is there, and in how many people, from one paid draw."""
        question = {"beacon": self.id, "variant": variant.parameters, "epsilon": str(self.price)}
        with paying(account, self.event, purpose="beacon", question=question) as payment:
            if payment.cached:
                assert isinstance(payment.answer, int)
                noisy = payment.answer
            else:
                plan = geometric(1 / self.price, lower=0, upper=self.at_most).bind(COUNTS)
                noisy = int(plan.function(int(self.carriers(variant))))
                payment.keep(noisy)
        return self.read(noisy)

    def read(self, noisy: int) -> tuple[bool, int]:
        """Whether the variant is there, and in how many people, by Bayes' rule from a noisy count. Nothing is spent."""
        within = min(max(int(noisy), 0), self.at_most)
        there = bool(self.yes[within])
        number = best_answer(within, self.at_most, float(self.price), prior=self.prior)
        return there, max(1, number) if there else 0

    def wanted(self, request: Mapping[str, Any]) -> tuple[str, Variant]:
        """The granularity and the variant that a request asks for; refused where it is wrong."""
        asked = request.get("requestedGranularity") or "boolean"
        if asked not in GRANULARITIES:
            raise ParameterError(f"requestedGranularity must be {', '.join(GRANULARITIES)}")
        return str(asked), Variant.parse(request)

    def answer(self, request: Mapping[str, Any], account: Account | None) -> dict[str, Any]:
        """The document for a request to /g_variants: an answer, or an error. It raises nothing that depends on data."""
        try:
            asked, variant = self.wanted(request)
        except ParameterError as error:
            asked = request.get("requestedGranularity") or "boolean"
            return self.error(400, str(error), str(asked) if asked in GRANULARITIES else "boolean")
        try:
            there, number = self.query(variant, account)
        except BudgetExceeded:
            return self.error(403, "the account of the asker cannot pay for this answer; nothing was spent", asked, variant)
        except ReleaseFailed:
            return self.error(500, "the answer failed after the data was touched; its price stays spent", asked, variant)
        except LedgerError:  # such as an account that was closed; its words are for the curator
            return self.error(403, "the account of the asker does not pay for answers now; ask the curator", asked, variant)
        return self.document(asked, variant, there, number)

    def document(self, asked: str, variant: Variant, there: bool, number: int) -> dict[str, Any]:
        """The document of an answer."""
        granularity = "boolean" if asked == "boolean" else "count"
        summary: dict[str, Any] = {"exists": there} | ({"numTotalResults": number} if granularity == "count" else {})
        told = {"epsilon": str(self.price), "noise": "two-sided geometric; a rare variant is likely answered no"}
        if asked == "record":
            told["granularity"] = "records are not given; the noisy count is"
        return {"meta": self._meta(asked, granularity, variant), "responseSummary": summary, "info": told}

    def error(self, code: int, message: str, asked: str = "boolean", variant: Variant | None = None) -> dict[str, Any]:
        """An error document."""
        return {"meta": self._meta(asked, "boolean", variant), "error": {"errorCode": code, "errorMessage": message}}

    def _meta(self, asked: str, returned: str, variant: Variant | None) -> dict[str, Any]:
        received: dict[str, Any] = {
            "apiVersion": API, "requestedSchemas": SCHEMAS, "pagination": {"skip": 0, "limit": 0}, "requestedGranularity": asked,
        }
        if variant is not None:
            received["requestParameters"] = {"g_variant": variant.parameters}
        return self._informational | {"returnedGranularity": returned, "receivedRequestSummary": received}

    @property
    def _informational(self) -> dict[str, Any]:
        return {"beaconId": self.id, "apiVersion": API, "returnedSchemas": SCHEMAS}

    # --- the framework's routes: nothing of them is private ---

    def documents(self) -> dict[str, dict[str, Any]]:
        """The documents of the framework's routes, by route; a service mounts them as they are."""
        entry = {
            ENTITY: {
                "id": ENTITY, "name": "Genomic variants", "partOfSpecification": "Beacon v2.0",
                "ontologyTermForThisType": {"id": "ENSGLOSSARY:0000092", "label": "Variant"},
                "defaultSchema": {
                    "id": SCHEMAS[0]["schema"], "name": "Default schema for a genomic variant",
                    "referenceToSchemaDefinition": f"{MODEL}/genomicVariations/defaultSchema.json", "schemaVersion": "v2.0.0",
                },
                "nonFilteredQueriesAllowed": True,
            }
        }
        status = {"prod": "PROD", "test": "TEST"}.get(self.environment, "DEV")
        info = {
            "id": self.id, "name": self.name, "apiVersion": API, "environment": self.environment,
            "organization": {"id": self.id.rpartition(".")[0] or self.id, "name": self.organisation, "welcomeUrl": self.url},
            "description": f"Every answer is noisy and costs epsilon {self.price} of the asker's account.",
        }
        configuration = {
            "$schema": "../../configuration/beaconConfigurationSchema.json",
            "maturityAttributes": {"productionStatus": status},
            "securityAttributes": {"defaultGranularity": "boolean", "securityLevels": ["REGISTERED"]},
            "entryTypes": entry,
        }
        sets = {ENTITY: {"entryType": ENTITY, "rootUrl": f"{self.url.rstrip('/')}/g_variants"}}
        service = {
            "id": self.id, "name": self.name, "type": {"group": "org.ga4gh", "artifact": "beacon", "version": API},
            "organization": {"name": self.organisation, "url": self.url}, "version": __version__, "environment": self.environment,
        }

        def told(response: dict[str, Any]) -> dict[str, Any]:
            return {"meta": self._informational, "response": response}

        return {
            "/": told(info),
            "/info": told(info),
            "/service-info": service,
            "/configuration": told(configuration),
            "/map": told({"$schema": "../../configuration/beaconMapSchema.json", "endpointSets": sets}),
            "/entry_types": told({"entryTypes": entry}),
            "/filtering_terms": told({"filteringTerms": []}),
        }


def carriers_in(study: Genotypes, variants: Sequence[Variant]) -> Callable[[Variant], int]:
    """Count carriers in genotypes whose columns are these variants. The data is read when a question is paid for."""
    if len(variants) != study.variants:
        raise ParameterError("variants must name every column of the genotypes")
    places = {(v.reference_name, v.start, v.reference_bases, v.alternate_bases): i for i, v in enumerate(variants)}

    def carriers(asked: Variant) -> int:
        place = places.get((asked.reference_name, asked.start, asked.reference_bases, asked.alternate_bases))
        seen = 0
        for block in study.blocks():  # all of it, whatever is asked: how long an answer takes says nothing
            if place is not None and 0 <= place - seen < block.shape[1]:
                found = int((block[:, place - seen] > 0).sum())
            seen += block.shape[1]
        return 0 if place is None else found

    return carriers
