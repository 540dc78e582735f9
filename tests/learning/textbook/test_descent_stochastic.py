"""Three scenarios: the price is the accountant's for the sampler that runs, the samplers are what they say, the divisor is fixed."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.accounting import ParameterError, account
from tacit.accounting.theorems.dpsgd import full_batch_zcdp, poisson_renyi, pure_without_replacement
from tacit.learning.textbook.descent import Scenario, StochasticDescent
from tacit.learning.textbook.sets import Everything
from tacit.noise import test_mode

COMMON = {"size": 1000, "steps": 100, "clip": 0.5, "epsilon": 1.0}


def test_noise_against_the_closed_forms() -> None:
    pure = StochasticDescent.plan("pure", batch=100, **COMMON)  # type: ignore[arg-type]
    assert pure.noise == pytest.approx(pure_without_replacement(batch=100, **COMMON).noise, rel=1e-9)  # type: ignore[arg-type]
    full = StochasticDescent.plan("full-batch", delta=1e-5, **COMMON)  # type: ignore[arg-type]
    assert full.noise == pytest.approx(full_batch_zcdp(delta=1e-5, conversion="exact", **COMMON).noise, rel=1e-6)  # type: ignore[arg-type]
    poisson = StochasticDescent.plan("poisson", batch=100, delta=1e-5, **COMMON)  # type: ignore[arg-type]
    renyi = poisson_renyi(batch=100, delta=1e-5, **COMMON).noise  # type: ignore[arg-type]
    assert 0.8 * renyi < poisson.noise < renyi, "the exact price is below the Rényi bound"


@pytest.mark.parametrize("scenario", ["pure", "full-batch", "poisson"])
def test_plans_keep_their_promise(scenario: Scenario) -> None:
    delta = 0.0 if scenario == "pure" else 1e-5
    plan = StochasticDescent.plan(scenario, batch=100, delta=delta, **COMMON)  # type: ignore[arg-type]
    assert 0.999 < account(plan.event, plan.adjacency).epsilon(delta).upper <= 1


def test_the_samplers_include_as_they_are_priced() -> None:
    """Inclusion rates and pair covariance: Poisson members are independent, without replacement they push each other out."""
    poisson = StochasticDescent.plan("poisson", size=20, batch=5, steps=3, clip=1.0, epsilon=1.0, delta=1e-5)
    exact = StochasticDescent.plan("pure", size=20, batch=5, steps=3, clip=1.0, epsilon=1.0)
    with test_mode(3):
        tables = {}
        for plan in (poisson, exact):
            seen = np.zeros((4000, 20))
            for row in seen:
                row[plan.sample(20)] = 1
            tables[plan.scenario] = seen
    assert set(tables["pure"].sum(axis=1)) == {5} and len(set(tables["poisson"].sum(axis=1))) > 5
    for seen in tables.values():
        assert seen.mean(axis=0) == pytest.approx(0.25, abs=0.04)
    off = ~np.eye(20, dtype=bool)
    assert np.cov(tables["poisson"].T)[off].mean() == pytest.approx(0, abs=1e-3)
    assert np.cov(tables["pure"].T)[off].mean() == pytest.approx(-0.25 * 0.75 / 19, abs=1e-3)


def test_an_empty_batch_takes_a_noisy_step_over_the_expected_size() -> None:
    plan = StochasticDescent.plan("poisson", size=1000, batch=100, steps=2, clip=1.0, epsilon=1.0, delta=1e-5)
    with test_mode(4):
        first = plan.run(lambda theta, chosen: np.zeros((len(chosen), 2000)), 0, Everything(2000), length=1.0)
    # two steps, the second half averaged: the second point, with the noise of both steps
    assert first.std() == pytest.approx(plan.noise * np.sqrt(2), rel=0.1)


@pytest.mark.parametrize("scenario", ["pure", "full-batch", "poisson"])
def test_it_learns(scenario: Scenario) -> None:
    generator = np.random.default_rng(1)
    x = generator.normal(size=(2000, 2)) / 2
    y = np.where(x @ np.array([2.0, -1.0]) > 0, 1.0, -1.0)
    delta = 0.0 if scenario == "pure" else 1e-5
    plan = StochasticDescent.plan(scenario, size=2000, batch=200, steps=30, clip=1.0, epsilon=2.0, delta=delta)
    with test_mode(5):
        theta = plan.run(
            lambda at, who: -(y[who] / (1 + np.exp(y[who] * (x[who] @ at))))[:, None] * x[who], 2000, Everything(2), length=2.0
        )
    assert np.mean(np.sign(x @ theta) == y) > 0.9


def test_refusals() -> None:
    with pytest.raises(ParameterError):
        StochasticDescent.plan("shuffled", delta=1e-5, **COMMON)  # type: ignore[arg-type]
    with pytest.raises(ParameterError):
        StochasticDescent.plan("poisson", batch=2000, delta=1e-5, **COMMON)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="public number"):
        StochasticDescent.plan("pure", batch=100, **COMMON).sample(999)  # type: ignore[arg-type]
