"""Buffers, silos, the threat model and the key log."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.federated.apps import plan, policy

from tacit.accounting import Composed, Gaussian, Worst, account
from tacit.errors import ParameterError
from tacit.federated import Arriving, BufferedRounds, FederatedError, KeyLog, as_table, central, train_silos, who_sees
from tacit.federated.threats import ACTORS, PRINCIPLES, THINGS
from tacit.ledger import Budget, BudgetExceeded, Ledger


def vector(*numbers: float) -> bytes:
    return central.to_lattice(np.array(numbers), 1.0).tobytes()


def test_a_buffer_steps_when_it_is_full_and_takes_nobody_twice() -> None:
    made = plan(clients=3, size=2, rounds=2, selection=Arriving(3), participations=1, noise_multiplier=1e-6)
    server = BufferedRounds(made, np.zeros(2))
    assert [server.offer(client, vector(0.3, 0.0)) for client in (1, 2, 2, 1)] == [True, True, False, False]
    assert server.version == 0 and server.offer(3, vector(0.0, 0.3)) and server.version == 1
    assert np.allclose(server.weights, [0.2, 0.1], atol=1e-4)
    assert not server.offer(1, vector(0.3, 0.0))  # took part once
    assert not server.offer(4, b"junk")
    assert [server.offer(client, vector(0.3, 0.0)) for client in (5, 6, 7, 8)] == [True, True, True, False]
    assert server.version == 2
    for changes in ({"population": 30}, {"trust": "distributed"}):
        with pytest.raises(ParameterError):
            BufferedRounds(plan(clients=3, size=2, **changes), np.zeros(2))


def test_cyclical_transfer_and_averages_charge_each_silo_alone() -> None:
    visits: list[str] = []

    def silo(name: str, sigma: float) -> Any:
        def visit(weights: Any) -> Any:
            visits.append(name)
            return [w + 1 for w in weights], Gaussian(sigma)

        return visit

    ring = train_silos({"a": silo("a", 2), "b": silo("b", 4)}, [0.0], passes=2)
    assert visits == ["a", "b", "a", "b"] and ring.weights == [4.0]
    assert ring.event() == Worst(Composed(Gaussian(2), Gaussian(2)), Composed(Gaussian(4), Gaussian(4)))
    # a patient of one silo pays for the dearer silo, one of both for all four visits
    assert account(ring.event()).epsilon(1e-6).upper == pytest.approx(account(Gaussian(2 / math.sqrt(2))).epsilon(1e-6).upper, rel=1e-3)
    both = 1 / math.sqrt(2 / 4 + 2 / 16)
    assert account(ring.event(silos=2)).epsilon(1e-6).upper == pytest.approx(account(Gaussian(both)).epsilon(1e-6).upper, rel=1e-3)
    assert train_silos({"a": silo("a", 2), "b": silo("b", 4)}, [0.0], passes=3, transfer="average").weights == [3.0]
    with pytest.raises(ParameterError):
        train_silos({}, [0.0], passes=1)


def test_the_threat_model_covers_every_actor_and_thing() -> None:
    for trust in ("central", "distributed"):
        seen = who_sees(plan(trust=trust))
        assert set(seen) == set(ACTORS) and all(set(things) == set(THINGS) for things in seen.values())
        assert "raw data" not in seen["server"]["update"] and seen["server"]["raw data"] == "nothing"
        table = as_table(plan(trust=trust))
        assert table.count("\n") == len(ACTORS) + 1
    assert len(PRINCIPLES) == 4


def test_the_key_log_keeps_to_policy_and_budget_and_notices_changes(tmp_path: Path) -> None:
    made = plan(noise_multiplier=4.0, rounds=1)
    with Ledger.open(f"sqlite:///{tmp_path / 'b.db'}") as ledger:
        paying = ledger.account("data", Budget(epsilon=f"{math.log(3):.12f}", delta="2e-5"))
        log = KeyLog(policy(workloads=(made.fingerprint,), code=("ab",)), paying)
        assert len(log.release(made, code="ab")) == 32
        for workload, code, error in ((plan(), "ab", FederatedError), (made, "cd", FederatedError), (made, "ab", BudgetExceeded)):
            with pytest.raises(error):
                log.release(workload, code=code)
    assert len(log.entries) == 4 and log.verify()
    log.entries[1] = log.entries[1].replace("federated", "federate")
    assert not log.verify()
    del log.entries[1]
    assert not log.verify()
