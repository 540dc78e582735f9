"""The room as an enemy sees it: servers, clocks, books and training code that do what they should not."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.federated.apps import app, plan, policy, run
from tests.federated.test_client import answer, ask

from tacit import federated
from tacit.accounting import Repeated, Sampled, account
from tacit.errors import ParameterError
from tacit.federated import CheckIns, ClientBook, Encoding, FederatedError, FederatedPlan, InProcessGrid, PoissonClients, central, simulate
from tacit.federated.kept import FORGOTTEN, KeptSums
from tacit.federated.messages import REFUSED

TODAY = datetime.date(2026, 11, 18)


# --- the sampler that is accounted is the sampler that runs ------------------------------------------------------


def checking_in(**changes: Any) -> FederatedPlan:
    return plan(rounds=8, selection=CheckIns(6, slots=4), **changes)


def test_check_ins_are_kept_by_the_clients_own_draws() -> None:
    """A server asks everyone in every round; each client answers once in each block of four, in a round of its own."""
    made = checking_in(clients=40)
    assert isinstance(made.event, Repeated) and isinstance(made.event.event, Sampled)
    strategy, _ = run(made, app(lambda arrays, context: {"w": arrays["w"]}))
    came = [40 - excluded.get("vector", 0) for excluded in strategy.rounds.excluded]
    assert sum(came[:4]) == sum(came[4:]) == 40
    assert max(came) < 30  # all in one round, which is what participations alone would allow, has chance 4^-39


def test_simulated_check_ins_come_once_in_each_block() -> None:
    seen: list[Any] = []
    simulate(checking_in(), np.zeros(4), lambda weights, ids: (seen.append(set(ids.tolist())), np.zeros((len(ids), 4)))[1], population=500)
    for block in (seen[:4], seen[4:]):
        assert sorted(client for ids in block for client in ids) == list(range(500))
        assert max(map(len, block)) < 200  # 125 expected, deviation 9.7


def test_slots_last_through_a_restart(tmp_path: Path) -> None:
    """A client that draws again whenever it is started would come to every round in the end."""
    made = checking_in()
    for turn in range(1, 9):
        came = []
        for _ in range(5):
            book = ClientBook(tmp_path / "me.db", policy())
            try:
                book.enter(made, run="r", turn=turn)
                came.append(turn)
            except FederatedError as refused:
                assert refused.code in ("federated-book-slot", "federated-book-again")
    assert len(ClientBook(tmp_path / "me.db", policy()).rounds(made, "r")) == 2


def test_questions_to_a_sample_are_asked_of_a_sample() -> None:
    """The price counts the sampling, so the simulator draws the sample, for every form of values."""
    how: dict[str, Any] = {"clients": 100, "population": 1000, "noise_multiplier": 1e-6, "delta": 1e-5}
    asked = federated.histogram(["a"], max_contributions=1, **how)
    for values in ([["a"]] * 1000, np.zeros((1000, 1), dtype=np.int64)):
        assert 40 < asked.simulate(values)["a"] < 160  # binomial, mean 100, deviation 9.5
    figures = federated.evaluation(most_loss=1.0, **how).simulate([(1.0, 1.0)] * 1000)
    assert 0.4 < figures.accuracy < 1.6
    with pytest.raises(ParameterError):
        federated.heavy_hitters("ab", 2, **how)


@pytest.mark.parametrize("changes", [{"participations": 3}, {"separation": 2}], ids=str)
def test_a_sample_that_depends_on_the_past_gets_no_credit(changes: dict[str, Any]) -> None:
    """Books that end a client's part, or keep its rounds apart, are no Poisson sampling: no theorem, no credit."""
    made = plan(rounds=10, selection=PoissonClients(6, population=600), **changes)
    assert not made.credited and made.event == Repeated(made.step(), made.participations)
    assert "sampling counted" not in str(made)
    assert plan(rounds=10, selection=PoissonClients(6, population=600)).credited


def test_a_search_for_words_costs_the_same_at_every_level() -> None:
    """Under distributed trust a longer vector costs more: the plan has the longest, and no level has a longer one."""
    search = federated.heavy_hitters("abcdefgh", 4, prefixes=20, clients=3000, epsilon=2, delta=1e-6, trust="distributed")
    assert search.level.plan.size == 180
    words = [a + b + c for a in "abcd" for b in "efgh" for c in "abcd"] * 60
    assert len(search.found(words)) <= 180
    longer = replace(search.level.plan, size=5000)
    assert account(search.level.plan.event).epsilon(1e-6).upper <= 2
    assert longer.event != search.level.plan.event  # so its price is not what was paid


# --- training code that leaves traps -----------------------------------------------------------------------------


@pytest.mark.parametrize("value", [1e-310, 1e-200, 0.1, 1e308, np.nan, np.inf])
def test_numpy_set_to_raise_by_training_tells_nothing(value: float) -> None:
    """An underflow in the clipping must not become a refusal: it would tell that the update was tiny."""

    def strict(arrays: Any, context: Any) -> Any:
        np.seterr(all="raise")
        return {"w": np.full(4, value)}

    before = np.geterr()
    try:
        assert len(answer(app(strict), ask(plan()).to_record())) == 16
        np.seterr(all="raise")
        made = Encoding(size=4, clip=1.0, clients=10, noise_multiplier=1.0, survivors=7, bits=20)
        assert made.encode(np.full(4, value), b"round").shape == (4,)
        assert np.isfinite(central.clipped(np.full(4, value), 1.0)[0]).all()
    finally:
        np.seterr(**before)


def test_training_that_ends_the_process_looks_like_a_zero_update() -> None:
    def leaving(arrays: Any, context: Any) -> Any:
        raise SystemExit("secret 4711")

    assert answer(app(leaving), ask(plan()).to_record()) == bytes(16)


@pytest.mark.parametrize("kind", ["<f2", "<f4", ">f8", "<i8", "complex128", "O", "bool"])
def test_updates_of_any_type_have_one_length(kind: str) -> None:
    made = np.full(4, 1).astype(kind)
    assert len(answer(app(lambda arrays, context: {"w": made}), ask(plan()).to_record())) == 16


# --- what a server may put into a request -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [{"delta": float("nan")}, {"delta": 1.0}, {"delta": -1.0}, {"against": "nobody"}, {"name": 5}, {"name": "x" * 300},
     {"clients": True}, {"size": 10**12}, {"clip": 1e-320}, {"clip": 1e300}, {"noise_multiplier": 1e-320}, {"colluding": 2.0},
     {"separation": 0}, {"trust": "friend"}, {"weight_cap": -1}],
    ids=str,
)  # fmt: skip
def test_odd_numbers_in_a_plan_are_refused_before_anything_is_made(changes: dict[str, Any]) -> None:
    record = json.loads(plan().text) | changes
    with pytest.raises((ParameterError, FederatedError)):
        FederatedPlan.from_record(record)
    assert answer(app(), ask(plan(), plan=json.dumps(record)).to_record()) == REFUSED


def test_thresholds_that_no_rule_reaches_are_refused() -> None:
    """Under a threshold near the smallest float an encoded number would be no number, and the sum no sum."""
    made = plan(adaptive=federated.AdaptiveClip(1.0, 6, deviation=3.0), clients=6)
    for threshold in (1e-320, 1e-7, 1e7, float("nan"), float("inf")):
        assert answer(app(), ask(made, threshold=threshold).to_record()) == REFUSED
    with pytest.raises(ParameterError):
        Encoding(size=4, clip=1e-320, clients=10, noise_multiplier=1.0, survivors=7, bits=20)


def test_a_configuration_of_its_own_for_one_client_gives_noise() -> None:
    """As a model of its own does: a rate of zero for all others would single the one out. Masks are bound to both."""
    from flwr.app import ConfigRecord
    from tests.federated.apps import start

    made = plan(trust="distributed", clients=5, rounds=1, noise_multiplier=0.01, dropouts=0.2)
    honest, _ = run(made, app(noise=0.001, budget="eps=1e9, delta=1e-5"))

    class Singling(InProcessGrid):
        def send_and_receive(self, messages: Any, *, timeout: Any = None) -> Any:
            listed = list(messages)
            for message in listed:
                record = message.content["tacit"]
                if message.metadata.dst_node_id == 3 and message.metadata.message_type.endswith("masked"):
                    message.content["tacit"] = ConfigRecord({**record, "config": '{"rate": 0.0}'})
            return super().send_and_receive(listed, timeout=timeout)

    strategy = federated.Private(honest.inner, made, None, run="test")
    strategy.start(Singling(app(noise=0.001, budget="eps=1e9, delta=1e-5"), nodes=5), start())
    total, right = (found.rounds.last_total.astype(np.int64) for found in (strategy, honest))
    half = 1 << (int(made.shares["bits"]) - 1)
    apart = np.abs((total - right + half) % (2 * half) - half)
    assert apart.max() > half / 16  # uniform numbers: four below half / 16 have chance 2e-5


def test_an_answer_of_an_earlier_round_does_not_count_in_this_one() -> None:
    """A late vector would be a part in a round that the client's book knows nothing of."""
    made = plan(rounds=2)
    turns: list[int] = []

    def fault(kind: str, node: int) -> Any:
        if node != 3:
            return None
        turns.append(1)
        return "silent" if len(turns) == 1 else "late"

    strategy, _ = run(made, app(), faults=fault)
    assert strategy.rounds.survivors == (1, 2, 4, 5, 6) and strategy.rounds.excluded[1] == {"vector": 1}


# --- policies, clocks and books ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [{"trust": "everyone"}, {"unit": "galaxy"}, {"noise": float("nan")}, {"clip": float("inf")}, {"clip": "1.0"}, {"cohort": True},
     {"colluding": float("nan")}, {"participations": 2.5}, {"window": "fortnight"}, {"expires": "soon"}],
    ids=str,
)  # fmt: skip
def test_policies_with_odd_limits_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        policy(**changes)


def test_a_clock_that_was_set_back_is_refused(tmp_path: Path) -> None:
    """An expired policy does not come to life again, and no week is had twice."""
    made = plan()
    for path in (None, tmp_path / "me.db"):
        book = ClientBook(path, policy(window="week", budget="eps=60, delta=1e-3"))
        book.enter(made, run="a", turn=1, today=TODAY)
        again = ClientBook(path, book.policy) if path else book
        with pytest.raises(FederatedError) as refused:
            again.enter(made, run="b", turn=1, today=TODAY - datetime.timedelta(days=2))
        assert refused.value.code == "federated-clock"
        again.enter(made, run="c", turn=1, today=TODAY - datetime.timedelta(days=1))  # a journey to the west
        assert again.day(TODAY - datetime.timedelta(days=1)) == TODAY


def test_a_book_in_memory_adds_up_the_runs_of_a_server() -> None:
    """A server that names a new run each time meets the budget all the same."""
    made = plan()
    cost = made.prices()[0].epsilon
    book = ClientBook(None, policy(budget=f"eps={2.5 * cost}, delta=3e-5"))
    for name in ("a", "b"):
        book.enter(made, run=name, turn=1)
    with pytest.raises(FederatedError) as refused:
        book.enter(made, run="c", turn=1)
    assert refused.value.code == "federated-book-spent"
    assert book.enter(made, run="b", turn=2).status == "open"  # a run that is paid for goes on


def test_a_book_that_was_deleted_or_put_back_is_refused(tmp_path: Path) -> None:
    made, path = plan(), tmp_path / "me.db"
    limits = policy(budget="eps=1000, delta=1e-3")

    def enter(name: str) -> None:
        book = ClientBook(path, limits)
        book.enter(made, run=name, turn=1)
        book.account.ledger.close() if hasattr(book.account, "ledger") else None

    enter("a")
    shutil.copy(path, tmp_path / "older.db")
    enter("b")
    for replaced in (True, False):
        path.unlink()
        if replaced:
            shutil.copy(tmp_path / "older.db", path)
        with pytest.raises(FederatedError) as refused:
            enter("c")
        assert refused.value.code == "federated-book-lost"


def test_open_sums_that_nobody_came_back_for_are_deleted(tmp_path: Path) -> None:
    """Secrets of a round that was given up, or of a process that died with a taken sum, do not stay on the disk."""
    from tacit.federated.secure_sum.client import SumClient
    from tacit.federated.secure_sum.wire import SumRound

    about = SumRound(1, bytes(32), clients=3, fewest=2, degree=2, threshold=2, length=2, bits=16)
    store = KeptSums(tmp_path / "me.db")
    store.keep("given up", SumClient(7, about))
    folder = tmp_path / "me.db.sums"
    (folder / "taken.0123").write_text("secret")
    for path in folder.iterdir():
        os.utime(path, (0, time.time() - FORGOTTEN - 60))
    store.keep("next", SumClient(7, about))
    assert len(list(folder.iterdir())) == 1 and store.take("given up") is None and store.take("next") is not None
