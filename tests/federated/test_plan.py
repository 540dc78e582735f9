"""Plans: prices against each adversary, targets, refusals, records."""

from __future__ import annotations

import json
import math

import pytest
from tests.federated.apps import plan

from tacit import federated
from tacit.accounting import (
    Adjacency,
    Gaussian,
    MatrixMechanism,
    NonPrivate,
    Poisson,
    Repeated,
    Sampled,
    SquareRoot,
    Tree,
    WithoutReplacement,
    account,
)
from tacit.errors import ParameterError
from tacit.federated import (
    AdaptiveClip,
    Arriving,
    CheckIns,
    ClientUnit,
    FederatedError,
    FederatedPlan,
    FixedCohort,
    PoissonClients,
)


def test_the_target_is_met_and_not_by_far() -> None:
    for more in ({}, {"population": 1000}, {"unit": ClientUnit("user", clients=2)}):
        made = federated.plan(clients=100, size=10, clip=1, rounds=20, epsilon=3, delta=1e-6, **more)
        assert 2.99 < made.prices()[0].epsilon <= 3, more


def test_sampling_counts_for_the_models_only() -> None:
    made = plan(population=1000, rounds=50)
    assert made.events["model"] == Repeated(Sampled(Poisson(made.selection.rate), Gaussian(1)), 50)  # type: ignore[attr-defined]
    assert isinstance(made.events["server"], NonPrivate)
    shared = plan(trust="distributed", selection=PoissonClients(6, population=1000), dropouts=0.3)
    assert shared.events["model"] == shared.events["server"]  # no credit
    assert not any(isinstance(event, Sampled) for event in shared.events.values())


def test_a_fixed_cohort_replaces_and_pays_for_both() -> None:
    made = plan(selection=FixedCohort(6, population=60), noise_multiplier=4)
    assert made.event == Repeated(Sampled(WithoutReplacement(60, 6), Gaussian(2, adjacency=Adjacency.REPLACE_ONE)), 2)
    assert made.adjacency is Adjacency.REPLACE_ONE


def test_unknown_arrivals_get_no_credit() -> None:
    assert plan(selection=Arriving(6), rounds=9, participations=4).event == Repeated(Gaussian(1), 4)


def test_check_ins_are_random_allocation() -> None:
    made = plan(selection=CheckIns(6, slots=20), rounds=20, noise_multiplier=2)
    assert made.participations == 1
    cheaper = account(made.event).epsilon(1e-5).upper
    assert cheaper < account(Gaussian(2)).epsilon(1e-5).upper  # one participation in a known slot


def test_a_person_in_several_clients_is_a_group() -> None:
    alone, twice = plan(noise_multiplier=4), plan(noise_multiplier=4, unit=ClientUnit("user", clients=2))
    # two clients of one person move the sum twice as far: the same as half the noise
    assert twice.prices()[0].epsilon >= account(Repeated(Gaussian(2), 2)).epsilon(1e-5).lower
    assert twice.prices()[0].epsilon > alone.prices()[0].epsilon


def test_zcdp_numbers_of_production_models() -> None:
    """A25: rho to epsilon at delta 1e-10, as reported for models trained by DP-FTRL."""
    for rho, epsilon in ((0.81, 8.922), (0.01309, 0.994), (1.7317, 13.69), (0.2, 4.167)):
        from tacit.accounting import ZCDP

        assert account(ZCDP(rho)).epsilon(1e-10).upper == pytest.approx(epsilon, rel=1e-3)


@pytest.mark.parametrize("strategy", [Tree(8), Tree(8, reduced=True), SquareRoot(8)], ids=repr)
def test_correlated_plans_are_priced_by_participations_and_separation(strategy: object) -> None:
    few = plan(rounds=8, strategy=strategy, participations=2, separation=4)
    many = plan(rounds=8, strategy=strategy)
    assert few.event == MatrixMechanism(1, strategy, 2, 4)  # type: ignore[arg-type]
    assert account(few.event).epsilon(1e-5).upper < account(many.event).epsilon(1e-5).upper


def test_adaptive_and_weights_keep_the_price_and_widen_the_vector() -> None:
    made = plan(adaptive=AdaptiveClip(1.0, 100), weight_cap=10, noise_multiplier=1.0)
    assert made.event == plan().event and made.length == 6
    inside = 1 + 0.25**2 + (1.0050378 / 5 / 2) ** 2  # update, weight, half a flag
    assert made.radius() == pytest.approx(math.sqrt(inside), rel=1e-6)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epsilon": 1.0}, "give epsilon with delta, or noise_multiplier"),
        ({"delta": 0}, "delta must be between"),
        ({"delta": float("nan")}, "NaN"),
        ({"clip": 0}, "clip must be positive"),
        ({"clip": float("inf")}, "clip must be positive"),
        ({"clients": 2.5}, "whole number"),
        ({"rounds": True}, "rounds"),
        ({"size": float("inf")}, "whole number"),
        ({"unit": "person"}, "unit must be one of"),
        ({"trust": "nobody"}, "trust"),
        ({"trust": "silo"}, "inside"),
        ({"population": 3}, "at most population"),
        ({"population": 10, "selection": Arriving(6)}, "not both"),
        ({"strategy": Tree(5)}, "5 rounds"),
        ({"strategy": Tree(2), "population": 100}, "no proof with sampled cohorts"),
        ({"strategy": Tree(2), "trust": "distributed"}, "goes with central trust"),
        ({"dropouts": 0.9, "trust": "distributed"}, "fewer than two honest"),
        ({"bits": 16}, "only plans with trust='distributed'"),
        ({"trust": "distributed", "bite": 16}, "bite"),
        ({"adaptive": AdaptiveClip(1.0, 2, deviation=0.1)}, "count_deviation"),
        ({"separation": 0}, "separation"),
    ],
    ids=str,
)
def test_bad_plans_are_refused_before_anything_is_sent(changes: dict[str, object], words: str) -> None:
    with pytest.raises((ParameterError, FederatedError), match=words):
        plan(**changes).radius()


def test_records_come_back_and_changed_ones_have_another_fingerprint() -> None:
    plans = [
        plan(), plan(population=100), plan(selection=CheckIns(6, slots=3)), plan(adaptive=True, weight_cap=7),
        plan(strategy=SquareRoot(2)), plan(trust="distributed", dropouts=0.3, colluding=0.1),
        plan(unit=ClientUnit("device", window="week")),
    ]  # fmt: skip
    for made in plans:
        again = FederatedPlan.from_record(json.loads(made.text))
        assert again == made and again.fingerprint == made.fingerprint and again.event == made.event
    assert len({made.fingerprint for made in plans}) == len(plans)
    with pytest.raises(ParameterError):
        FederatedPlan.from_record({**plan().to_record(), "more": 1})


def test_the_printed_plan_says_against_whom_and_what_is_not_promised() -> None:
    text = str(plan(trust="distributed", clients=100, dropouts=0.3, colluding=0.2, noise_multiplier=4))
    for words in ("the server with 20 clients", "<- the target", "Modulus: 2^", "wraps with chance", "Graph: 58 neighbours",
                  "void, and spent", "honest but curious", "lies about its clip", "Nothing is amplified against the server"):  # fmt: skip
        assert words in text


def test_survivors_and_honest_ones() -> None:
    made = plan(trust="distributed", clients=100, dropouts=0.3, colluding=0.2, noise_multiplier=4)
    assert (made.least, made.honest) == (70, 50)
    from tacit.federated.distributed import encoding_of

    encoding = encoding_of(made)
    # Dimensioned for 70 survivors: 1.1952 times the noise when all 100 stay.
    assert encoding.deviation(100) / encoding.deviation(70) == pytest.approx(1.1952, rel=1e-4)
    prices = {price.adversary: price.epsilon for price in made.prices()}
    exact = account(Repeated(Gaussian(4 * math.sqrt(50 / 70)), 2)).epsilon(1e-5).upper
    assert exact < prices["server and clients"] < 1.1 * exact  # Skellam by Renyi, the Gaussian exactly
