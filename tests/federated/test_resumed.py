"""Servers and clients that die between any two steps: nothing is released that was not paid for, and no round runs twice."""

from __future__ import annotations

import json
import logging
import os
import signal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.federated.apps import plan, policy, pushing, start

from tacit import federated
from tacit.accounting import Composed, Tree
from tacit.accounting import account as priced
from tacit.errors import ParameterError
from tacit.federated import ClientBook, FederatedError, InProcessGrid, Private, checkpoint, client_app, kept, on_weights
from tacit.ledger import Budget, Ledger

ROUNDS, CLIENTS = 3, 3


def made_plan(trust: str = "distributed") -> Any:
    more = {"dropouts": 1 / 3} if trust == "distributed" else {}
    return plan(trust=trust, clients=CLIENTS, rounds=ROUNDS, noise_multiplier=1.0, **more)


def limits() -> Any:
    return policy(budget="eps=1000, delta=1e-3")


class Recording(InProcessGrid):
    """Notes which vectors left which client in which round, in a file, before the answer is handed on."""

    folder: Path

    def send_and_receive(self, messages: Any, *, timeout: Any = None) -> Any:
        step("asking")
        replies = super().send_and_receive(messages, timeout=timeout)
        step("asked")
        return replies


COUNTED = 0
LAST = -1


def step(name: str) -> None:
    """One step; the process dies at the chosen one."""
    global COUNTED
    COUNTED += 1
    if COUNTED - 1 == LAST:
        os.kill(os.getpid(), signal.SIGKILL)


def stepping(function: Any) -> Any:
    def around(*args: Any, **more: Any) -> Any:
        step("before")
        found = function(*args, **more)
        step("after")
        return found

    return around


def patched() -> None:
    """Every durable step of both sides: the book, the open sums, the checkpoint, and the ledger's payment."""
    ClientBook.enter = stepping(ClientBook.enter)  # type: ignore[method-assign]
    kept.KeptSums.keep = stepping(kept.KeptSums.keep)  # type: ignore[method-assign]
    kept.KeptSums.take = stepping(kept.KeptSums.take)  # type: ignore[method-assign]
    checkpoint.Checkpoint.write = stepping(checkpoint.Checkpoint.write)  # type: ignore[method-assign]
    checkpoint.KeptRun.payment = stepping(checkpoint.KeptRun.payment)  # type: ignore[method-assign]


def whole_run(folder: Path, trust: str) -> Private:
    """Run, or go on with, the run of this folder. What was released is appended to a file, round by round."""
    from flwr.serverapp.strategy import FedAvg

    logging.getLogger("flwr").setLevel(logging.ERROR)

    with Ledger.open(f"sqlite:///{folder / 'server.db'}") as ledger:
        account = ledger.account("run", Budget(epsilon=10_000, delta="1e-2"))
        client = client_app(on_weights(lambda arrays, context: {"w": arrays["w"] + pushing(context)}), policy=limits())
        grid = Recording(client, nodes=CLIENTS, node_config=lambda node: {"tacit-book": str(folder / f"{node}.db")})
        strategy = Private(FedAvg(), made_plan(trust), account, checkpoint=folder / "run.checkpoint")

        def released(turn: int, arrays: Any) -> None:
            if turn:
                said = {"turn": turn, "survivors": list(strategy.rounds.survivors), "run": strategy.rounds.run}
                with (folder / "released").open("a") as file:
                    file.write(json.dumps(said) + "\n")
                    file.flush()

        strategy.start(grid, start(), evaluate_fn=released)
        return strategy


def in_a_child(folder: Path, trust: str, last: int) -> tuple[bool, int]:
    """Run in a process that dies at a step: whether it was killed, and how many steps it took at the most."""
    global LAST, COUNTED
    child = os.fork()
    if child == 0:  # pragma: no cover
        try:
            LAST, COUNTED = last, 0
            patched()
            whole_run(folder, trust)
            (folder / "steps").write_text(str(COUNTED))
            os._exit(0)
        except BaseException:
            import traceback

            (folder / "error").write_text(traceback.format_exc())
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert not (folder / "error").exists(), (folder / "error").read_text()
    steps = folder / "steps"
    return os.WIFSIGNALED(status), int(steps.read_text()) if steps.exists() else 0


@cache
def prices(trust: str) -> tuple[float, float]:
    """What a run costs in a client's book, and in the server's."""
    made = made_plan(trust)
    return priced(made.client_event).epsilon(made.delta).upper, priced(made.event).epsilon(made.delta).upper


def checked(folder: Path, trust: str) -> int:
    """Spent is at least released, on both sides; the number of rounds that were released."""
    made = made_plan(trust)
    file = folder / "released"
    found = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    for said in found:
        for node in said["survivors"]:
            book = ClientBook(folder / f"{node}.db", limits())
            assert said["turn"] in book.rounds(made, said["run"])
    own, price = prices(trust)
    turns = [(said["run"], said["turn"]) for said in found]
    assert len(set(turns)) == len(turns)  # no round is released twice
    for node in range(1, CLIENTS + 1):
        if not (folder / f"{node}.db").exists():
            continue
        account = ClientBook(folder / f"{node}.db", limits()).account
        runs = {said["run"] for said in found if node in said["survivors"]}
        assert float(account.spent()["epsilon"]) >= len(runs) * own * (1 - 1e-9)
    if (folder / "server.db").exists() and found:
        with Ledger.open(f"sqlite:///{folder / 'server.db'}") as ledger:
            spent = float(ledger.account("run", Budget(epsilon=10_000, delta="1e-2")).spent()["epsilon"])
        runs = {said["run"] for said in found}
        assert spent >= len(runs) * price * (1 - 1e-9)
    return len(found)


def killed_everywhere(tmp_path: Path, trust: str, points: int | None = None) -> None:
    """Die at every step of a run, or at some of them, and go on."""
    warm = tmp_path / "warm"
    warm.mkdir()
    whole_run(warm, trust)  # prices are worked out once, here, and every child has them
    whole = tmp_path / "whole"
    whole.mkdir()
    killed, steps = in_a_child(whole, trust, -1)
    assert not killed and steps > 20 and checked(whole, trust) == ROUNDS
    deaths = 0
    chosen = list(range(steps)) if points is None else [int(place) for place in np.linspace(2, steps - 2, points)]
    for last in chosen:
        folder = tmp_path / f"killed-{last}"
        folder.mkdir()
        killed, _ = in_a_child(folder, trust, last)
        deaths += killed
        before = checked(folder, trust)
        killed, _ = in_a_child(folder, trust, -1)  # the same command again
        assert not killed
        # The round under way is lost; the others run, once each.
        assert checked(folder, trust) >= max(before, ROUNDS - 1 if (folder / "run.checkpoint").exists() else 0)
    assert deaths == len(chosen)


@pytest.mark.parametrize(("trust", "points"), [("central", 4), ("distributed", 3)])
def test_a_kill_between_two_steps_releases_nothing_unpaid(tmp_path: Path, trust: str, points: int) -> None:
    killed_everywhere(tmp_path, trust, points)


@pytest.mark.slow
@pytest.mark.parametrize("trust", ["central", "distributed"])
def test_a_kill_between_any_two_steps(tmp_path: Path, trust: str) -> None:
    killed_everywhere(tmp_path, trust)


def test_the_check_would_see_a_round_that_no_client_entered(tmp_path: Path) -> None:
    """The mutant: a release that the books know nothing of."""
    in_a_child(tmp_path, "central", -1)
    with (tmp_path / "released").open("a") as file:
        file.write(json.dumps({"turn": 1, "survivors": [1], "run": "another"}) + "\n")
    with pytest.raises(AssertionError):
        checked(tmp_path, "central")


# --- resumption -------------------------------------------------------------------------------------------------------


class Failing(InProcessGrid):
    """A grid that fails in one round."""

    calls = 0

    def send_and_receive(self, messages: Any, *, timeout: Any = None) -> Any:
        type(self).calls += 1
        if type(self).calls == 2:
            raise OSError("the network is gone")
        return super().send_and_receive(messages, timeout=timeout)


def begun(tmp_path: Path, account: Any, client: Any) -> Any:
    from flwr.serverapp.strategy import FedAvg

    Failing.calls = 0
    strategy = Private(FedAvg(), made_plan("central"), account, checkpoint=tmp_path / "run")
    with pytest.raises(Exception, match="withheld"):
        strategy.start(Failing(client, nodes=CLIENTS), start())
    return strategy


def test_a_run_goes_on_with_new_noise_under_the_same_payment(tmp_path: Path) -> None:
    from flwr.serverapp.strategy import FedAvg

    client = client_app(on_weights(lambda a, c: {"w": a["w"] + pushing(c)}), policy=limits(), book=None)
    with Ledger.open(f"sqlite:///{tmp_path / 'book.db'}") as ledger:
        account = ledger.account("a", Budget(epsilon=1000, delta="1e-3"))
        first = begun(tmp_path, account, client)
        spent = account.spent()["epsilon"]
        second = Private(FedAvg(), made_plan("central"), account, checkpoint=tmp_path / "run")
        result = second.start(InProcessGrid(client, nodes=CLIENTS), start())
        assert account.spent()["epsilon"] == spent and second.payment.status == "done"
        assert second.rounds.run == first.rounds.run and len(second.rounds.excluded) == 1  # round 3; round 2 was under way
        assert np.isfinite(result.arrays["w"].numpy()).all()
        with pytest.raises(FederatedError) as refused:  # its payment is concluded
            third = Private(FedAvg(), made_plan("central"), account, checkpoint=tmp_path / "run")
            third.start(InProcessGrid(client, nodes=CLIENTS), start())
        assert refused.value.code == "federated-checkpoint" and account.spent()["epsilon"] == spent


def test_checkpoints_of_other_plans_models_and_files_are_refused(tmp_path: Path) -> None:
    from flwr.serverapp.strategy import FedAvg

    client = client_app(on_weights(lambda a, c: a), policy=limits(), book=None)
    begun(tmp_path, None, client)
    grid = InProcessGrid(client, nodes=CLIENTS)
    other = plan(clients=CLIENTS, rounds=ROUNDS, noise_multiplier=2.0)
    with pytest.raises(FederatedError) as refused:
        Private(FedAvg(), other, None, checkpoint=tmp_path / "run").start(grid, start())
    assert refused.value.code == "federated-checkpoint"
    (tmp_path / "odd").write_bytes(b"no checkpoint")
    with pytest.raises(ParameterError, match="not the checkpoint"):
        Private(FedAvg(), other, None, checkpoint=tmp_path / "odd").start(grid, start())
    tree = plan(clients=CLIENTS, rounds=4, strategy=Tree(4), noise_multiplier=2.0)
    checkpoint.Checkpoint(tree.fingerprint, "r", 1, 1.0, {"w": np.zeros(4)}).write(tmp_path / "tree")
    with pytest.raises(FederatedError, match="lost with its process"):
        Private(FedAvg(), tree, None, checkpoint=tmp_path / "tree").start(grid, start())


def test_tuning_pays_for_every_trial_once(tmp_path: Path) -> None:
    """Each setting runs its plan over the grid without an account, and the one payment is the price of all."""
    from flwr.serverapp.strategy import FedAvg

    made = plan(rounds=1, noise_multiplier=4.0)

    def train(rate: float) -> Any:
        client = client_app(on_weights(lambda a, c: {"w": a["w"] + rate * pushing(c)}), policy=limits(), book=None)
        return Private(FedAvg(), made, None).start(InProcessGrid(client, nodes=6), start()).arrays["w"].numpy()

    with Ledger.open(f"sqlite:///{tmp_path / 'book.db'}") as ledger:
        paid = ledger.account("a", Budget(epsilon=1000, delta="1e-3"))
        found = federated.tune(train, [0.1, 1.0, 10.0], plan=made, score=lambda w: float(np.abs(w).sum()), score_plan="public",
                               account=paid, delta=1e-5)  # fmt: skip
        assert len(found) == 3 and found[0].event == Composed(*[made.event] * 3)
        expected = priced(found[0].event).epsilon(1e-5).upper
        assert float(paid.spent()["epsilon"]) == pytest.approx(expected, rel=1e-6)
        assert expected < 3 * made.prices()[0].epsilon
