"""Policies and client books: what is refused, before anything is looked at, and what a crash leaves behind."""

from __future__ import annotations

import datetime
import math
import multiprocessing
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.federated.apps import plan, policy

from tacit.errors import ParameterError
from tacit.federated import ClientBook, ClientUnit, FederatedError, Policy, code_hash
from tacit.federated.policy import as_yaml

KEY = bytes(range(32))


def public() -> bytes:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(KEY).public_key().public_bytes_raw()


@pytest.mark.parametrize(
    ("limits", "changes", "code"),
    [
        ({"clip": 0.5}, {}, "federated-clip"),
        ({"noise": 2.0}, {}, "federated-noise"),
        ({"trust": ("distributed",)}, {}, "federated-trust"),
        ({"unit": "silo"}, {}, "federated-unit"),
        ({"participations": 1}, {}, "federated-participations"),
        ({"separation": 3}, {}, "federated-separation"),
        ({"cohort": 7}, {}, "federated-cohort"),
        ({"cohort": 5}, {"trust": "distributed", "dropouts": 0.3}, "federated-cohort"),
        ({"colluding": 0.2}, {"trust": "distributed"}, "federated-collusion"),
        ({"expires": "2020-01-01"}, {}, "federated-expired"),
        ({"workloads": ("ab" * 32,)}, {}, "federated-workload"),
        ({"code": ("ab" * 32,)}, {}, "federated-code"),
    ],
    ids=str,
)
def test_every_limit_refuses(limits: dict[str, Any], changes: dict[str, Any], code: str) -> None:
    policy().check(plan(**changes))  # without the limit the plan is allowed
    with pytest.raises(FederatedError) as refused:
        policy(**limits).check(plan(**changes))
    assert refused.value.code == code


def test_the_book_pays_for_the_strongest_adversary_whatever_the_server_aims_at() -> None:
    shared = plan(trust="distributed", clients=100, dropouts=0.3, colluding=0.2, noise_multiplier=4.0)
    weak = replace(shared, against="model")
    assert weak.event != shared.event and weak.client_event == shared.client_event == shared.events["server and clients"]


def test_a_listed_workload_and_its_code_are_allowed() -> None:
    made = plan()
    strict = policy(workloads=(made.fingerprint,), code=(code_hash(plan),))
    strict.check(made, code=code_hash(plan))
    with pytest.raises(FederatedError):
        strict.check(replace(made, clip=0.9), code=code_hash(plan))  # A27: another hash
    with pytest.raises(FederatedError):
        strict.check(made, code=code_hash(code_hash))


def test_signatures_cover_every_field(tmp_path: Path) -> None:
    signed = policy().signed(KEY)
    signed.verify(public())
    path = tmp_path / "policy.yaml"
    path.write_text(as_yaml(signed), encoding="utf-8")
    assert Policy.load(path, signer=public()) == signed
    changes: dict[str, Any] = {
        "name": "x", "budget": "eps=61, delta=1e-5", "expires": "2099-01-02", "clip": 1.5, "noise": 0.02, "unit": "device",
        "trust": ("central",), "participations": 101, "separation": 2, "cohort": 3, "colluding": 0.1, "window": "week",
        "workloads": ("ab",),
        "code": ("ab",),
    }  # fmt: skip
    for name, value in changes.items():
        with pytest.raises(FederatedError):
            replace(signed, **{name: value}).verify(public())
    for signature in ("", "00" * 64, "zz"):
        with pytest.raises(FederatedError):
            replace(signed, signature=signature).verify(public())


@pytest.mark.parametrize(
    "changes",
    [{"clip": -1}, {"clip": float("nan")}, {"noise": 0}, {"budget": "much"}, {"expires": "soon"}, {"window": "age"},
     {"participations": 0}, {"more": 1}, {"clip": "1"}],
    ids=str,
)  # fmt: skip
def test_bad_policies_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises((ParameterError, ValueError)):
        Policy.from_record({**policy().to_record(), **changes})


def test_the_book_counts_rounds_and_keeps_them_apart(tmp_path: Path) -> None:
    made = plan(rounds=20, participations=3, separation=4)
    for path in (None, tmp_path / "me.db"):
        book = ClientBook(path, policy())
        book.enter(made, run="a", turn=1)
        for turn, code in ((1, "federated-book-again"), (4, "federated-book-early")):
            with pytest.raises(FederatedError) as refused:
                book.enter(made, run="a", turn=turn)
            assert refused.value.code == code
        book.enter(made, run="a", turn=5)
        book.enter(made, run="a", turn=9)
        with pytest.raises(FederatedError) as refused:
            book.enter(made, run="a", turn=20)
        assert refused.value.code == "federated-book-spent"
        assert book.rounds(made, "a") == [1, 5, 9]
    again = ClientBook(tmp_path / "me.db", policy())
    assert again.rounds(made, "a") == [1, 5, 9]  # after a restart
    with pytest.raises(FederatedError):
        again.enter(made, run="a", turn=30)


def test_a_run_is_paid_once_and_the_budget_ends(tmp_path: Path) -> None:
    made = plan()  # epsilon about 6.2
    book = ClientBook(tmp_path / "me.db", policy(budget="eps=14, delta=2e-5"))
    book.enter(made, run="a", turn=1)
    spent = book.account.spent()
    book.enter(made, run="a", turn=2)
    assert book.account.spent() == spent
    book.enter(made, run="b", turn=1)
    with pytest.raises(FederatedError) as refused:
        book.enter(made, run="c", turn=1)
    assert refused.value.code == "federated-book-spent" and book.rounds(made, "c") == []
    small = ClientBook(None, policy(budget="eps=1, delta=1e-5"))
    with pytest.raises(FederatedError):
        small.enter(made, run="a", turn=1)


def test_a_weekly_budget_begins_anew(tmp_path: Path) -> None:
    """A27: epsilon ln 3 a week and device; a second question in the week is refused, one in the next week is not."""
    made = plan(noise_multiplier=4.0, rounds=1, unit=ClientUnit("device", window="week"))
    cost = made.prices()[0].epsilon
    assert cost < math.log(3) < 2 * cost
    book = ClientBook(tmp_path / "me.db", policy(unit="device", budget=f"eps={math.log(3):.12f}, delta=2e-5", window="week"))
    monday = datetime.date(2026, 11, 16)
    book.enter(made, run="one", turn=1, today=monday)
    with pytest.raises(FederatedError):
        book.enter(made, run="two", turn=1, today=monday + datetime.timedelta(days=3))
    book.enter(made, run="three", turn=1, today=monday + datetime.timedelta(days=7))


def _enters_and_dies(path: str, place: str) -> None:
    """In a process of its own: enter a round, and be killed where `place` says."""
    from tacit.federated import policy as module

    def die(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    book = module.ClientBook(path, policy())
    if place == "before paying":
        module.ClientBook._payment = die  # type: ignore[method-assign,assignment]
    if place == "after paying":
        paid = module.ClientBook._payment

        def pay_and_die(self: Any, *rest: Any) -> None:
            paid(self, *rest)
            die()

        module.ClientBook._payment = pay_and_die  # type: ignore[method-assign,assignment]
    book.enter(plan(), run="a", turn=1)
    die()


@pytest.mark.parametrize("place", ["before paying", "after paying", "after entering"])
def test_a_killed_client_has_paid_for_whatever_it_entered(tmp_path: Path, place: str) -> None:
    path = str(tmp_path / "me.db")
    process = multiprocessing.get_context("fork").Process(target=_enters_and_dies, args=(path, place))
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    book = ClientBook(path, policy())
    entered = book.rounds(plan(), "a")
    paid = float(book.account.spent()["epsilon"]) > 0 if place != "before paying" else True
    assert paid and (entered == [] or place == "after entering")  # nothing is entered that was not paid for
