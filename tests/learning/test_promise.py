"""What a model may cost: exactly one currency, never more than promised, with the accountant's last word."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.accounting import Adjacency, Composed, ParameterError, Repeated, account
from tacit.learning.promise import Promise, relation


@pytest.mark.parametrize(
    "given_",
    [{}, {"epsilon": 1}, {"delta": 1e-5}, {"epsilon": 1, "delta": 1e-5, "rho": 1}, {"rho": 1, "delta": 1e-5}, {"epsilon": 1, "delta": 1}],
    ids=["nothing", "no delta", "no epsilon", "both", "rho and delta", "delta 1"],
)
def test_exactly_one_way_and_no_defaults(given_: dict[str, float]) -> None:
    with pytest.raises(ParameterError):
        Promise.of(**given_)  # type: ignore[arg-type]


@given(epsilon=st.floats(0.01, 20), logd=st.floats(-12, -2), steps=st.integers(1, 200), share=st.floats(0.05, 0.9))
def test_a_settled_event_keeps_the_promise_and_wastes_next_to_nothing(epsilon: float, logd: float, steps: int, share: float) -> None:
    promise = Promise.of(epsilon=epsilon, delta=10**logd)
    event, mu = promise.settle(
        lambda mu: Composed(
            promise.stated(1 / (mu * math.sqrt(share))), Repeated(promise.stated(math.sqrt(steps / (1 - share)) / mu), steps)
        )
    )
    upper = account(event, Adjacency.ADD_REMOVE).epsilon(10**logd).upper
    assert (1 - 1e-6) * epsilon <= upper <= epsilon
    assert mu <= promise.mu


@given(rho=st.floats(1e-4, 10))
def test_rho_is_half_of_mu_squared(rho: float) -> None:
    promise = Promise.of(rho=rho, adjacency="replace-one")
    event, mu = promise.settle(lambda mu: promise.stated(1 / mu))
    assert mu**2 / 2 == pytest.approx(rho, rel=1e-9)
    assert account(event, Adjacency.REPLACE_ONE).rho().upper <= rho


def test_a_pure_promise_has_no_gaussian_noise() -> None:
    with pytest.raises(ParameterError, match="no pure epsilon"):
        _ = Promise.of(epsilon=1, delta=0).mu


def test_relations_are_named() -> None:
    assert relation("add-remove") is Adjacency.ADD_REMOVE
    assert relation(Adjacency.REPLACE_ONE) is Adjacency.REPLACE_ONE
    with pytest.raises(ParameterError, match="adjacency"):
        relation("bounded")
