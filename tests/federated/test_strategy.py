"""Private rounds through Flower: the digits network, what is paid, what is refused, what a fault changes."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.federated import digits
from tests.federated.apps import app, plan, policy, pushing, run, start

from tacit import federated
from tacit.errors import ParameterError
from tacit.federated import FederatedError, InProcessGrid, Private, central, client_app
from tacit.ledger import Budget, BudgetExceeded, Ledger
from tacit.noise import test_mode as repeated_draws


@pytest.fixture
def ledger(tmp_path: Path) -> Any:
    with Ledger.open(f"sqlite:///{tmp_path / 'book.db'}") as opened:
        yield opened


def flower_train(message: Any, context: Any) -> Any:
    """A training function as Flower's users write it, with metrics that must not leave."""
    from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict

    parts, _ = digits.data(100)
    x, y = parts[context.node_config["partition-id"]]
    arrays = digits.trained({name: array.numpy() for name, array in message.content["arrays"].items()}, x, y)
    metrics = MetricRecord({"num-examples": len(y), "train-loss": 0.125})
    record = ArrayRecord({name: Array(array) for name, array in arrays.items()})
    return Message(RecordDict({"arrays": record, "metrics": metrics}), reply_to=message)


def test_digits_over_ten_rounds_with_plan_ledger_and_policy(ledger: Any) -> None:
    """100 clients, 10 rounds, z = 1: the accuracy of Flower's own wrappers at this noise is .89."""
    from flwr.app import Array, ArrayRecord
    from flwr.serverapp.strategy import FedAvg

    logging.getLogger("flwr").setLevel(logging.ERROR)
    made = federated.plan(clients=100, size=digits.SIZE, clip=1.0, rounds=10, noise_multiplier=1.0, delta=1e-5)
    account = ledger.account("digits", Budget(epsilon=20, delta="1e-5"))
    client = client_app(flower_train, policy=policy(), book=None)
    strategy = Private(FedAvg(), made, account)
    grid = InProcessGrid(client, nodes=100)
    first = ArrayRecord({name: Array(array) for name, array in digits.start().items()})
    result = strategy.start(grid, first)
    _, (x, y) = digits.data(100)
    assert digits.accuracy({name: array.numpy() for name, array in result.arrays.items()}, x, y) >= 0.87
    assert float(account.spent()["epsilon"]) == pytest.approx(made.prices()[0].epsilon, rel=1e-6)
    assert not any(strategy.rounds.excluded) and strategy.payment.status == "done"
    # One flat integer vector a round and client: 4 bytes a number, and nothing else.
    assert grid.bytes_in == 10 * 100 * 4 * digits.SIZE
    with pytest.raises(FederatedError):
        strategy.start(grid, first)
    with pytest.raises(BudgetExceeded):
        Private(FedAvg(), made, account).start(grid, first)


@pytest.mark.parametrize("name", ["Krum", "MultiKrum", "FedMedian", "FedTrimmedAvg", "Bulyan", "QFedAvg", "FedProx"])
def test_strategies_on_single_updates_are_refused(name: str) -> None:
    import flwr.serverapp.strategy as flower

    made = object.__new__(getattr(flower, name))
    with pytest.raises(FederatedError) as refused:
        Private(made, plan(), None)
    assert refused.value.code == "federated-strategy"


@pytest.mark.parametrize("name", ["FedAvg", "FedAvgM", "FedAdam", "FedYogi"])
def test_server_optimisers_see_the_noisy_mean_alone(name: str) -> None:
    """With next to no noise, a step is that of Flower's own strategy on the exact mean."""
    import flwr.serverapp.strategy as flower
    from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

    logging.getLogger("flwr").setLevel(logging.ERROR)
    more: dict[str, Any] = {"server_learning_rate": 0.5, "server_momentum": 0.9} if name == "FedAvgM" else {}
    made = plan(noise_multiplier=1e-7, rounds=3)
    mean = np.mean([pushing(type("C", (), {"node_config": {"partition-id": i}})) for i in range(6)], axis=0)
    strategy = Private(getattr(flower, name)(**more), made, None)
    grid = InProcessGrid(app(budget="eps=1e30, delta=1e-5", noise=1e-9), nodes=6)
    found = strategy.start(grid, start()).arrays["w"].numpy()
    plain, weights = getattr(flower, name)(**more), start()
    for turn in range(1, 4):
        asked = next(iter(plain.configure_train(turn, weights, ConfigRecord(), grid)))
        moved = ArrayRecord({"w": Array(weights["w"].numpy() + mean)})
        reply = Message(RecordDict({"arrays": moved, "metrics": MetricRecord({"num-examples": 1})}), reply_to=asked)
        weights, _ = plain.aggregate_train(turn, [reply])
    assert np.allclose(found, weights["w"].numpy(), atol=1e-5)


def test_one_local_step_is_a_central_step() -> None:
    """A26: with one step a client and no noise, the round is the gradient step of the pooled clients, to 1e-9 granules."""
    parts, _ = digits.data(5)
    parts = [(x[:200], y[:200]) for x, y in parts]
    arrays = {name: array.astype(np.float64) for name, array in digits.start().items()}
    updates = []
    for x, y in parts:
        moves = digits.gradients(arrays, x.astype(np.float64), y)
        updates.append(np.concatenate([-0.1 * moves[name].ravel() for name in arrays]))
    pooled = digits.gradients(arrays, np.concatenate([x for x, _ in parts]).astype(np.float64), np.concatenate([y for _, y in parts]))
    exact = np.concatenate([-0.1 * pooled[name].ravel() for name in arrays])
    assert np.abs(np.mean(updates, axis=0) - exact).max() < 1e-12
    made = federated.plan(clients=5, size=digits.SIZE, clip=10.0, rounds=1, noise_multiplier=1, delta=1e-5)
    lattice = np.sum([central.to_lattice(update, 10.0).astype(np.int64) for update in updates], axis=0)
    granule = made.radius() / central.CLIP
    assert np.abs(lattice * granule / 5 - exact).max() < 2 * granule + 1e-6 * np.abs(exact).max()


def test_a_client_with_a_thousand_examples_moves_the_mean_by_one_clip(ledger: Any) -> None:
    """F11: influence is bounded by the clip over the public divisor, with and without weights by examples."""
    for cap in (None, 10):
        made = plan(weight_cap=cap, rounds=1)

        def greedy(arrays: Any, context: Any) -> Any:
            large = context.node_config["partition-id"] == 0
            return {"w": arrays["w"] + (1e6 if large else 0.0)}, 1000 if large else 0

        strategy, _ = run(made, app(greedy))
        moved = strategy.rounds.last_total * (made.radius() / central.CLIP)
        assert np.linalg.norm(moved) <= made.radius() and np.linalg.norm(moved[:4]) <= 1.0


@pytest.mark.parametrize("fault", ["lost", "silent", "cut", "garbled", "doubled", "late", "error", "extra"])
def test_a_faulty_answer_is_left_out_and_the_others_count(fault: str) -> None:
    made = plan(rounds=1)
    whole, _ = run(made, app())
    faulty, _ = run(made, app(), faults={("train.tacit_vector", 3): fault})
    missing = central.to_lattice(pushing(type("C", (), {"node_config": {"partition-id": 2}})), made.radius())
    if fault == "doubled":
        assert (faulty.rounds.last_total == whole.rounds.last_total).all()
    elif fault != "garbled":  # one changed byte may still be a vector of the right norm
        assert (faulty.rounds.last_total == whole.rounds.last_total - missing).all()
    assert sum(faulty.rounds.excluded[0].values()) <= 1


def test_resumed_runs_have_new_noise_and_pay_again(ledger: Any) -> None:
    """F9: two runs from one checkpoint draw different noise, and one book holds the price of both."""
    made = plan()
    account = ledger.account("resumed", Budget(epsilon=60, delta="1e-3"))
    once, first = run(made, app(), account=account, run="a")
    spent = float(account.spent()["epsilon"])
    twice, second = run(made, app(), account=account, run="b")
    assert (first.arrays["w"].numpy() != second.arrays["w"].numpy()).all()
    assert float(account.spent()["epsilon"]) == pytest.approx(2 * spent)
    # The sums are equal but for the rounding of w + update - w, a granule a client.
    assert np.abs(once.rounds.last_total - twice.rounds.last_total).max() <= made.clients


def test_a_failure_of_the_grid_is_withheld_and_spent(ledger: Any) -> None:
    from flwr.serverapp.strategy import FedAvg

    class Broken(InProcessGrid):
        def send_and_receive(self, messages: Any, *, timeout: Any = None) -> Any:
            raise RuntimeError("secret 4711")

    account = ledger.account("broken", Budget(epsilon=60, delta="1e-3"))
    with pytest.raises(Exception, match="stays spent") as failed:
        Private(FedAvg(), plan(), account).start(Broken(app(), nodes=6), start())
    assert "4711" not in repr(failed.value) and failed.value.__context__ is None
    assert float(account.spent()["epsilon"]) > 0


def test_models_that_do_not_fit_are_refused_before_payment(ledger: Any) -> None:
    from flwr.app import Array, ArrayRecord
    from flwr.serverapp.strategy import FedAvg

    account = ledger.account("unfit", Budget(epsilon=60, delta="1e-3"))
    grid = InProcessGrid(app(), nodes=6)
    for record in (start(5), ArrayRecord({"w": Array(np.zeros(4, dtype=np.int64))})):
        with pytest.raises(ParameterError):
            Private(FedAvg(), plan(), account).start(grid, record)
    with pytest.raises(ParameterError):
        Private(FedAvg(), plan(), account).start(grid, start(), num_rounds=3)
    assert float(account.spent()["epsilon"]) == 0


def test_adaptive_thresholds_run_over_flower() -> None:
    made = plan(rounds=30, clip=1.0, adaptive=federated.AdaptiveClip(1.0, 6, deviation=3.0), noise_multiplier=0.5)
    strategy, _ = run(made, app(budget="eps=1e6, delta=1e-5"))
    assert len(strategy.thresholds) == 30 and strategy.threshold < 0.3  # norms are .01 to .06


def test_clients_that_come_back_too_early_are_refused() -> None:
    """F12: participations and separation of DP-FTRL are kept by the clients' books, whatever the server asks."""
    from tacit.accounting import Tree

    made = plan(rounds=8, strategy=Tree(8), participations=2, separation=4, noise_multiplier=2.0)
    strategy, _ = run(made, app())
    counts = [made.clients - excluded.get("vector", 0) for excluded in strategy.rounds.excluded]
    assert [bool(strategy.rounds.excluded[turn]) for turn in range(8)] == [False] * 8  # the server asks nobody too early
    strategy._separation.least = 1
    assert counts == [6] * 8
    client = app()
    rude = Private(strategy.inner, made, None, run="rude")
    rude._separation.least = 1  # a server that does not keep to its plan
    rude.start(InProcessGrid(client, nodes=6), start())
    answered = [6 - excluded.get("vector", 0) for excluded in rude.rounds.excluded]
    assert answered == [6, 0, 0, 0, 6, 0, 0, 0] and client.tacit.last_refusal == "federated-book-spent"


def test_equal_coins_give_equal_sums_on_grid_and_simulator() -> None:
    """F8: the same exact sums, and under the same coins the same noisy ones, under central and distributed trust."""
    from tacit.federated.simulate import simulate

    for trust in ("central", "distributed"):
        made = plan(trust=trust, rounds=2, dropouts=0.3 if trust == "distributed" else 0.0)

        def cohort(weights: Any, ids: Any) -> Any:
            moves = [pushing(type("C", (), {"node_config": {"partition-id": int(i)}})) for i in ids]
            return np.array([(weights + move) - weights for move in moves])

        with repeated_draws(5):
            strategy, result = run(made, app(), run="same")
        with repeated_draws(5):
            other = simulate(made, np.zeros(4), cohort, run="same", keep_totals=True)
        if trust == "central":
            assert (strategy.rounds.last_total == other.totals[-1]).all()
            assert np.allclose(result.arrays["w"].numpy(), other.weights, atol=1e-12)
        else:  # noise is drawn client by client in both
            assert (strategy.rounds.last_total == other.totals[-1]).all()
