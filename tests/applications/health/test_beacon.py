"""Beacons: the operating curve by enumeration, documents by the schemas, payments, and the attack before and after."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from tacit.accounting import DiscreteLaplace
from tacit.applications.health import (
    Beacon,
    BeaconAnswers,
    Genotypes,
    Variant,
    auc,
    auc_limit,
    beacon_attack,
    carriers_in,
    operating_curve,
    simulated_people,
)
from tacit.applications.health.beacon import noisy_law, prior_with_absence, says_yes
from tacit.errors import ParameterError
from tacit.ledger import Budget, Ledger

ROOT = Path(__file__).resolve().parents[3]
SCHEMAS = ROOT.parent / "shared" / "beacon-v2" / "framework" / "json"
if not SCHEMAS.is_dir():  # a worktree lies one folder deeper
    SCHEMAS = ROOT.parent.parent / "shared" / "beacon-v2" / "framework" / "json"
ASKED = {"referenceName": "chr1", "start": "99", "referenceBases": "a", "alternateBases": "T", "assemblyId": "GRCh38"}


@pytest.mark.parametrize("epsilon", [0.2, 1.0])
@pytest.mark.parametrize("absence", [0.1, 0.5, 0.9])
def test_the_decision_is_the_one_of_least_expected_loss(epsilon: float, absence: float) -> None:
    n = 30
    prior, loss = prior_with_absence(n, absence), np.linspace(1, 3, n + 1)
    yes = says_yes(n, epsilon, prior, loss)
    for noisy in range(n + 1):
        likely = np.array([noisy_law(c, n, epsilon)[noisy] for c in range(n + 1)]) * prior * loss
        assert yes[noisy] == (likely[0] < likely[1:].sum())
    assert all(math.isclose(noisy_law(c, n, epsilon).sum(), 1) for c in range(n + 1))


def test_the_curve_is_how_often_the_answer_is_right() -> None:
    curve = operating_curve(40, 0.5, absence=0.3)
    beacon = Beacon(lambda variant: 6, at_most=40, epsilon=0.5, absence=0.3)
    said = [beacon.query(Variant.parse(ASKED), None)[0] for _ in range(2000)]
    # Fails by chance once in 10^5 times.
    assert abs(np.mean(said) - curve[6]) < 4.5 * math.sqrt(0.25 / 2000)


# --- documents ---


def schema_errors(document: dict, name: str) -> list[str]:
    if not SCHEMAS.is_dir():
        pytest.skip("the Beacon v2 schemas are not beside the repository (../shared/beacon-v2)")
    from jsonschema import Draft202012Validator
    from referencing import Registry, Resource

    def retrieve(uri: str) -> Resource:
        return Resource.from_contents(json.loads(Path(uri.removeprefix("file://")).read_text(encoding="utf-8")))

    path = SCHEMAS / name
    schema = {**json.loads(path.read_text(encoding="utf-8")), "$id": path.as_uri()}
    found = Draft202012Validator(schema, registry=Registry(retrieve=retrieve)).iter_errors(document)
    return [error.message for error in found]


def beacon(**more) -> Beacon:
    return Beacon(lambda variant: 40, **{"at_most": 500, "epsilon": 1, **more})


@pytest.mark.parametrize(
    ("granularity", "schema"),
    [
        (None, "beaconBooleanResponse"),
        ("boolean", "beaconBooleanResponse"),
        ("count", "beaconCountResponse"),
        ("record", "beaconCountResponse"),
    ],
)
def test_answers_are_valid(granularity, schema: str) -> None:
    found = beacon().answer({**ASKED, "requestedGranularity": granularity}, None)
    assert schema_errors(found, f"responses/{schema}.json") == []
    assert found["meta"]["returnedGranularity"] == ("count" if "Count" in schema else "boolean")
    assert set(found["meta"]) >= {"beaconId", "apiVersion", "returnedSchemas", "returnedGranularity", "receivedRequestSummary"}
    assert found["responseSummary"]["exists"] is True
    assert ("numTotalResults" in found["responseSummary"]) == ("Count" in schema)
    if granularity == "record":
        assert "records are not given" in found["info"]["granularity"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"start": None}, "start is missing"), ({"start": "x"}, "whole number"), ({"start": -1}, "whole number"),
        ({"end": 3}, "above start"), ({"alternateBases": "<DEL>"}, "A, C, G, T"), ({"filters": ["HP:1"]}, "no filters"),
        ({"requestedGranularity": "all"}, "Granularity"),
        ({"referenceName": "x" * 999}, "chromosome"), ({"start": True}, "whole number"), ({"start": [1, 2]}, "whole number"),
    ],
)  # fmt: skip
def test_a_wrong_request_is_an_error_document(change: dict, said: str) -> None:
    found = beacon().answer({**ASKED, **change}, None)
    assert found["error"]["errorCode"] == 400 and said in found["error"]["errorMessage"]
    assert schema_errors(found, "responses/beaconErrorResponse.json") == []


@pytest.mark.parametrize(
    ("route", "schema"),
    [
        ("/", "beaconInfoResponse"), ("/info", "beaconInfoResponse"), ("/service-info", "ga4gh-service-info-1-0-0-schema"),
        ("/configuration", "beaconConfigurationResponse"), ("/map", "beaconMapResponse"), ("/entry_types", "beaconEntryTypesResponse"),
        ("/filtering_terms", "beaconFilteringTermsResponse"),
    ],
)  # fmt: skip
def test_the_frameworks_documents_are_valid(route: str, schema: str) -> None:
    documents = beacon().documents()
    assert schema_errors(documents[route], f"responses/{schema}.json") == []
    json.dumps(documents)


def test_an_invalid_document_is_found() -> None:
    found = beacon().answer(ASKED, None)
    del found["meta"]["beaconId"]
    assert schema_errors(found, "responses/beaconBooleanResponse.json")


# --- payments ---


def test_each_answer_is_paid_for_by_its_asker_and_a_kept_one_is_free(tmp_path: Path) -> None:
    book = Ledger.open(f"sqlite:///{tmp_path / 'tacit.db'}")
    asker = book.account("asker", Budget(epsilon=2), cache=True)
    one = beacon()
    assert one.event == DiscreteLaplace(1, 1)
    first = one.answer({**ASKED, "requestedGranularity": "count"}, asker)
    assert one.answer({**ASKED, "requestedGranularity": "count"}, asker) == first and asker.left()["pure"] == 1
    one.answer({**ASKED, "start": 100}, asker)
    refused = one.answer({**ASKED, "start": 101}, asker)
    assert refused["error"]["errorCode"] == 403 and asker.left()["pure"] == 0
    assert schema_errors(refused, "responses/beaconErrorResponse.json") == []


def test_what_fails_inside_says_nothing() -> None:
    def broken(variant: Variant) -> int:
        raise KeyError("row 17 has an odd value")

    found = Beacon(broken, at_most=10, epsilon=1).answer(ASKED, None)
    assert found["error"]["errorCode"] == 500 and "odd" not in json.dumps(found)


def test_carriers_are_counted_once_each() -> None:
    study = Genotypes.of_array(np.array([[2, 0], [1, 0], [0, 1], [9, 0]]))
    variants = [Variant("1", 99, "A", "T"), Variant("1", 100, "A", "T")]
    carriers = carriers_in(study, variants)
    assert [carriers(v) for v in (*variants, Variant("2", 5, "A", "T"))] == [2, 1, 0]
    with pytest.raises(ParameterError):
        carriers_in(study, variants[:1])


@pytest.mark.parametrize("more", [{"epsilon": 0}, {"at_most": 0}, {"absence": 2}, {"loss": [1, 2]}, {"environment": "moon"}])
def test_a_beacon_that_makes_no_sense_is_refused(more: dict) -> None:
    with pytest.raises(ParameterError):
        beacon(**more)


# --- the attack ---

PEOPLE = 500


@pytest.fixture(scope="module")
def population() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    shares = np.exp(rng.uniform(math.log(1e-4), math.log(0.5), 20_000))
    return shares, simulated_people(PEOPLE, shares, rng), simulated_people(PEOPLE, shares, rng)


@pytest.mark.parametrize(("number", "least"), [(5, 0.98), (10, 0.985), (20, 0.985)])
def test_exact_answers_tell_who_is_a_member(population, number: int, least: float) -> None:
    shares, members, others = population
    there = (members > 0).any(axis=0)
    known = BeaconAnswers.exact(PEOPLE)
    scores = [beacon_attack(group, shares, lambda i: bool(there[i]), known, number=number) for group in (members, others)]
    assert auc(*scores) >= least


@pytest.mark.parametrize("number", [5, 20])
def test_at_epsilon_one_in_all_the_attack_stays_below_its_limit(population, number: int) -> None:
    """Each target's questions get epsilon 1 together. 1,000 targets: the AUC has a standard error of at most .018."""
    shares, members, others = population
    carriers = (members > 0).sum(axis=0)
    each = 1 / number
    yes = says_yes(PEOPLE, each, prior_with_absence(PEOPLE, 0.5))
    rng = np.random.default_rng(3)
    ratio = math.exp(-each)

    def ask(i: int) -> bool:
        noise = rng.geometric(1 - ratio) - rng.geometric(1 - ratio)
        return bool(yes[int(np.clip(carriers[i] + noise, 0, PEOPLE))])

    known = BeaconAnswers.noisy(PEOPLE, each)
    found = auc(*(beacon_attack(group, shares, ask, known, number=number) for group in (members, others)))
    assert 0.4 < found < auc_limit(1) + 3 * 0.018 and round(auc_limit(1), 3) == 0.731


def test_an_account_that_does_not_pay_is_an_error_document_too(tmp_path: Path) -> None:
    from tacit.ledger import LedgerError

    class Closed:
        def __getattr__(self, name: str) -> object:
            raise LedgerError("the account of Ann was closed on Monday")

    found = beacon().answer(ASKED, Closed())  # type: ignore[arg-type]
    assert found["error"]["errorCode"] == 403 and "Ann" not in json.dumps(found)
    assert schema_errors(found, "responses/beaconErrorResponse.json") == []
