"""Capacity and rate-distortion: closed forms, a general-purpose optimiser, and invariants of the iteration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.sparse import csr_array

from tacit.accounting import ParameterError
from tacit.audit.leakage.builders import Grid, randomised_response
from tacit.audit.leakage.channel import Channel, capacity, rate_distortion


def binary_entropy(p: float) -> float:
    return -p * math.log(p) - (1 - p) * math.log(1 - p)


@settings(max_examples=8)
@given(st.integers(2, 3), st.integers(2, 5), st.integers(0, 2**31))
def test_capacity_by_a_general_optimiser(secrets: int, outputs: int, key: int) -> None:
    channel = Channel(np.random.default_rng(key).dirichlet(np.ones(outputs), size=secrets))

    def negative(weights: np.ndarray) -> float:
        prior = np.exp(weights - weights.max())
        return -channel.with_prior(prior / prior.sum()).mutual_information()

    found = capacity(channel)
    best = max(-minimize(negative, start, method="Nelder-Mead", options={"maxiter": 4000, "fatol": 1e-12}).fun for start in np.eye(secrets))
    assert found.bound.lower - 1e-6 <= best <= found.bound.upper + 1e-12
    assert found.bound.width < 1e-8
    assert channel.with_prior(found.prior).mutual_information() == pytest.approx(found.bound.lower, abs=1e-8)
    assert capacity(Channel(csr_array(channel.matrix))).bound.upper == pytest.approx(found.bound.upper, abs=1e-12)


def test_few_steps_still_give_a_bracket() -> None:
    channel = Channel(np.array([[1.0, 0.0], [0.5, 0.5]]))
    short, long = capacity(channel, most=3), capacity(channel)
    assert short.steps == 3 and short.bound.width > 1e-4
    assert short.bound.lower < math.log(5 / 4) < short.bound.upper
    assert math.log(5 / 4) in long.bound and long.prior == pytest.approx([0.6, 0.4], abs=1e-4)


@pytest.mark.parametrize("target", [0.05, 0.2, 0.45])
def test_binary_source_with_hamming_distortion(target: float) -> None:
    """R(D) = h(p) - h(D) for a coin of bias p > D; the slope is beta = ln((1 - D) / D)."""
    found = rate_distortion([0.5, 0.5], 1 - np.eye(2), math.log((1 - target) / target), gap=1e-12)
    assert found.distortion == pytest.approx(target, abs=1e-6)
    assert found.rate == pytest.approx(math.log(2) - binary_entropy(target), abs=1e-6)


def test_skewed_source() -> None:
    found = rate_distortion([0.3, 0.7], 1 - np.eye(2), math.log(9), gap=1e-10, most=100_000)
    assert found.distortion == pytest.approx(0.1, abs=1e-5)
    assert found.rate == pytest.approx(binary_entropy(0.3) - binary_entropy(0.1), abs=1e-5)


def test_k_secrets_with_hamming_distortion_give_randomised_response() -> None:
    """The channel that tells least at a given error is k-ary randomised response with epsilon = beta."""
    found = rate_distortion(np.full(5, 0.2), 1 - np.eye(5), 1.7, gap=1e-12)
    assert found.channel.matrix == pytest.approx(randomised_response(5, 1.7).matrix, abs=1e-9)


def test_the_iteration_never_climbs_and_the_gap_is_honest() -> None:
    map_ = Grid(5, 5, 150)
    places = map_.centres()
    metres = np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1))
    prior = np.exp(-np.hypot(*(places - 200).T) / 150)
    prior /= prior.sum()
    rough = rate_distortion(prior, metres, math.log(2) / 100, gap=1e-2)
    exact = rate_distortion(prior, metres, math.log(2) / 100, gap=1e-9, most=200_000)
    assert (np.diff(exact.trace) <= 1e-12).all()
    assert exact.objective <= rough.objective <= exact.objective + rough.gap + 1e-12
    assert rough.gap <= 1e-2 and exact.gap <= 1e-8
    assert rough.channel.matrix.sum(axis=1) == pytest.approx(np.ones(25), abs=1e-12)
    assert rough.rate == pytest.approx(rough.channel.mutual_information()) and len(rough.trace) < len(exact.trace)


def test_less_weight_on_distortion_means_fewer_outputs() -> None:
    map_ = Grid(6, 6, 150)
    places = map_.centres()
    metres = np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1))
    prior = np.exp(-np.hypot(*(places - 300).T) / 100)
    prior /= prior.sum()
    found = [rate_distortion(prior, metres, math.log(nu) / 100, gap=1e-5, most=50_000, observations=places) for nu in (2, 3, 8)]
    supports = [each.support(1e-4) for each in found]
    assert supports == sorted(set(supports)), "strictly more outputs as distortion weighs more"
    assert [each.rate for each in found] == sorted(each.rate for each in found)
    assert [each.distortion for each in found] == sorted((each.distortion for each in found), reverse=True)
    assert found[0].channel.observations.shape == (36, 2)


def test_large_distortions_do_not_vanish() -> None:
    found = rate_distortion([0.5, 0.5], [[1e6, 1e6 + 1], [1e6 + 1, 1e6]], 5.0)
    assert found.channel.matrix[0, 0] == pytest.approx(1 / (1 + math.exp(-5)), rel=1e-6)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: rate_distortion([0.5, 0.6], np.eye(2), 1), "prior"),
        (lambda: rate_distortion([0.5, 0.5], np.eye(3), 1), "prior"),
        (lambda: rate_distortion([1.0], [[math.inf]], 1), "distortion"),
        (lambda: rate_distortion([1.0], [[0.0]], -1), "beta"),
        (lambda: capacity(Channel(np.eye(2)), width=0), "width"),
    ],
    ids=["prior", "shape", "infinite", "beta", "width"],
)
def test_bad_parameters_are_refused_by_name(call: object, name: str) -> None:
    with pytest.raises(ParameterError, match=name):
        call()  # type: ignore[operator]
