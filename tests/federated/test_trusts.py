"""Local and silo trust over Flower and in simulations, and rounds that ask more clients than they need."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.federated.apps import app, plan, policy, run

from tacit import federated
from tacit.accounting import Adjacency, Gaussian, Poisson, Repeated, Sampled, account
from tacit.errors import ParameterError
from tacit.federated import Arriving, ClientUnit, FederatedError, FederatedPlan, as_table, client_app, on_weights, simulate
from tacit.noise import test_mode as repeated_draws

INSIDE = Repeated(Sampled(Poisson(0.01), Gaussian(1.0)), 100)


# --- local ---


def test_local_trust_costs_the_same_against_everyone() -> None:
    """One client's vector moves by two clips under noise z clips: Gaussian(z / 2), twice for two rounds; closed form."""
    made = plan(trust="local", noise_multiplier=8.0)
    assert set(made.events.values()) == {Repeated(Gaussian(4, adjacency=Adjacency.REPLACE_ONE), 2)}
    expected = account(Gaussian(4 / 2**0.5), Adjacency.ADD_REMOVE).epsilon(1e-5)
    assert made.prices()[1].epsilon == pytest.approx(expected.upper, rel=1e-4)
    assert made.deviation() == pytest.approx(8.0 / 6**0.5) and made.client_event == made.event
    aimed = plan(trust="local", noise_multiplier=None, epsilon=2.0)
    assert 1.999 < max(price.epsilon for price in aimed.prices()) <= 2.0
    assert FederatedPlan.from_record(made.to_record()) == made and "with all of its noise" in as_table(made)


def test_noise_is_in_each_vector_before_it_leaves() -> None:
    """What two nodes with the same data send differs by noise of the stated deviation, in 64 bits a number."""
    from tests.federated.test_client import answer, ask

    made = plan(trust="local", size=4, noise_multiplier=3.0)
    allowed: dict[str, Any] = {"trust": ("local",), "budget": "eps=1e6, delta=1e-5"}
    sent = [np.frombuffer(answer(app(lambda a, c: a, **allowed), ask(made).to_record()), dtype="<i8") for _ in range(40)]
    spread = np.concatenate(sent).std() / federated.central.CLIP
    assert 2.2 < spread < 3.8  # 160 draws of deviation 3: more than four of its deviations (.17) away


def test_local_rounds_run_on_the_grid_and_the_simulator_with_equal_sums() -> None:
    from tests.federated.apps import pushing

    made = plan(trust="local", rounds=1)

    def cohort(weights: Any, ids: Any) -> Any:
        return np.array([pushing(type("C", (), {"node_config": {"partition-id": int(i)}})) for i in ids])

    with repeated_draws(4):
        strategy, _ = run(made, app(trust=("local",)))
    with repeated_draws(4):
        other = simulate(made, np.zeros(4), cohort, keep_totals=True)
    assert (strategy.rounds.last_total == other.totals[0]).all() and strategy.rounds_void == 0


def test_implausible_local_vectors_are_left_out() -> None:
    from tacit.federated.sums import CentralSum

    total = CentralSum(plan(trust="local"), 1.0)
    assert not total.add(np.full(4, 2**62, dtype="<i8").tobytes()) and not total.add(bytes(16))
    assert not total.add(np.full(4, -(2**63), dtype="<i8").tobytes())
    assert total.add(np.full(4, 2**31, dtype="<i8").tobytes())


# --- silos ---


def silo_app(cost: Any, **changes: Any) -> Any:
    return client_app(on_weights(lambda arrays, context: ({"w": arrays["w"] + 0.1}, cost)), book=None,
                      policy=policy(trust=("silo",), unit="example", **changes))  # fmt: skip


def silo_plan(**changes: Any) -> FederatedPlan:
    return plan(**{"trust": "silo", "noise_multiplier": None, "inside": INSIDE, "unit": "example", **changes})


def test_silos_pay_what_their_training_costs_and_nothing_is_added() -> None:
    made = silo_plan()
    assert set(made.events.values()) == {Repeated(INSIDE, 2)} and made.deviation() == 0.0
    assert FederatedPlan.from_record(made.to_record()) == made and "trains privately inside" in str(made)
    strategy, result = run(made, silo_app(INSIDE))
    assert np.allclose(result.arrays["w"].numpy(), 0.2, atol=1e-6) and strategy.rounds_void == 0
    twice = silo_plan(unit=ClientUnit("example", clients=3))
    assert twice.event == Repeated(INSIDE, 6)  # three trainings a round, each with noise of its own


def test_a_silo_that_spends_otherwise_or_names_no_price_teaches_nothing() -> None:
    for cost in (Repeated(INSIDE, 2), Gaussian(0.01), 7, None):
        _, result = run(silo_plan(), silo_app(cost))
        assert (result.arrays["w"].numpy() == 0).all()
    client = silo_app(INSIDE, budget="eps=0.01, delta=1e-5")
    _, result = run(silo_plan(), client)
    assert (result.arrays["w"].numpy() == 0).all() and client.tacit.last_refusal == "federated-book-spent"


@pytest.mark.parametrize("changes", [{"weight_cap": 5}, {"adaptive": True}, {"inside": None}, {"trust": "central"}], ids=str)
def test_what_would_leave_a_silo_without_noise_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        silo_plan(**changes)


def test_questions_have_no_plan_under_local_or_silo_trust() -> None:
    for trust in ("local", "silo"):
        with pytest.raises(FederatedError) as refused:
            federated.count(clients=10, epsilon=1, delta=1e-6, trust=trust)
        assert refused.value.code == "federated-trust-planned"


# --- more than are needed ---


@pytest.mark.parametrize("trust", ["central", "distributed"])
def test_over_selection_makes_up_for_the_lost_and_counts_no_more(trust: str) -> None:
    made = plan(trust=trust, clients=6, rounds=1, selection=Arriving(6, over=1.5), dropouts=1 / 6 if trust == "distributed" else 0.0,
                noise_multiplier=0.05)  # fmt: skip
    allowed: dict[str, Any] = {"noise": 0.001, "budget": "eps=1e9, delta=1e-5"}
    first = "train.tacit_vector" if trust == "central" else "train.tacit_keys"
    strategy, _ = run(made, app(**allowed), nodes=12, faults={(first, 1): "lost", (first, 4): "silent"})
    assert strategy.rounds.survivors == (2, 3, 5, 6, 7, 8) and strategy.rounds_void == 0
    whole, _ = run(made, app(**allowed), nodes=12)
    assert whole.rounds.survivors == (1, 2, 3, 4, 5, 6)
    assert sum(whole.rounds.excluded[0].values()) == 3  # nine were asked
    assert made.prices()[0].epsilon == plan(trust=trust, clients=6, rounds=1, noise_multiplier=0.05,
                                            dropouts=made.dropouts).prices()[0].epsilon  # fmt: skip
