"""Audits from examples: valid on tight mechanisms, able to refute false claims, and never a bound from a point estimate."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tacit.accounting import ParameterError
from tacit.audit.experiment import Generator, generator
from tacit.audit.leakage.attack import audit_examples, audit_local, audit_neighbours, estimate_risk, risk_upper
from tacit.audit.leakage.bounds import local_epsilon_floor, local_risk_floor
from tacit.audit.leakage.builders import randomised_response
from tacit.audit.leakage.channel import Channel
from tacit.audit.leakage.estimators import k_nearest


def runs(channel: Channel) -> Any:
    def mechanism(secrets: Any, draws: Generator) -> Any:
        return channel.sample(len(secrets), draws, secrets=secrets)[1]

    return mechanism


def laplace(scale: float) -> Any:
    return lambda secrets, draws: secrets + draws.laplace(scale=scale, size=len(secrets))


@pytest.mark.parametrize(("secrets", "epsilon"), [(2, 1.0), (10, 2.0), (5, 0.5)])
def test_a_bound_close_to_a_tight_mechanism(secrets: int, epsilon: float) -> None:
    # Above epsilon with probability 1e-7. The error of 20,000 examples deviates by sqrt(risk (1 - risk) / 20,000), and the bound lies 5.2
    # deviations below it; five more would be bad luck of less than one in a million.
    found = audit_local(runs(randomised_response(secrets, epsilon)), secrets, 40_000, generator(1), confidence=1 - 1e-7)
    risk = local_risk_floor(epsilon, secrets)
    unlucky = local_epsilon_floor(risk + 10.3 * math.sqrt(risk * (1 - risk) / 20_000), secrets)
    assert unlucky < found.epsilon_lower < epsilon and unlucky > 0.65 * epsilon
    assert found.refutes(unlucky) and not found.refutes(epsilon)
    assert found.estimate.validation == 20_000 and found.estimate.training == 20_000 and set(found.scores) == {
        *("frequentist", "nearest", "knn-ln", "knn-log10")
    }
    assert "at least" in str(found) and "knows the mechanism" in str(found) and "safe" not in str(found)


def failures(level: float, count: int, *, point: bool) -> int:
    """How often the bound, or the mutant that plugs in the point estimate, exceeds the truth."""
    channel, wrong = randomised_response(2, 1.0), 0
    for run in range(count):
        found = audit_local(runs(channel), 2, 600, generator(run), rules=["frequentist"], confidence=level)
        wrong += (local_epsilon_floor(found.estimate.point, 2) if point else found.epsilon_lower) > 1.0
    return wrong


def test_validity_on_a_tight_mechanism() -> None:
    """In 300 runs with confidence 0.95 at most 30 bounds exceed the truth: four deviations above the 15 that are allowed, seeds fixed."""
    assert failures(0.95, 300, point=False) <= 30
    assert failures(0.95, 100, point=True) > 25, "the mutant: a point estimate called a bound"


@pytest.mark.slow
def test_validity_in_a_thousand_runs() -> None:
    """At most 5% of 1000 runs, with three deviations of a binomial on top."""
    assert failures(0.95, 1000, point=False) <= 50 + 3 * math.sqrt(47.5)


def test_the_best_rule_is_chosen_before_the_last_part_is_seen() -> None:
    """Outputs that are pure noise: sixteen attackers, of whom the luckiest on the second part is measured on the third."""
    rules = [k_nearest(k) for k in range(1, 33, 2)]
    wrong = mutant = 0
    for run in range(60):
        found = audit_local(lambda s, draws: draws.random(len(s)), 2, 300, generator(run), rules=rules, confidence=0.9)
        wrong += found.epsilon_lower > 0
        mutant += risk_upper(round(50 * min(found.scores.values())), 50, confidence=0.9) < 0.5
    allowed = 14  # a tenth of 60 and 3.4 deviations
    assert wrong <= allowed
    assert mutant > allowed, "the mutant: the part on which it was chosen also judges it"


def test_laplace_noise_never_shows_all_of_its_epsilon() -> None:
    """The Bayes risk of two Laplace answers is exp(-eps / 2) / 2: the most this audit can find at eps 1 is 0.8318."""
    found = audit_local(laplace(1.0), 2, 60_000, generator(3), rules=["knn-ln"])
    ceiling = local_epsilon_floor(0.5 * math.exp(-0.5), 2)
    assert ceiling == pytest.approx(0.831797, abs=1e-6)
    assert 0.5 < found.epsilon_lower < ceiling
    broken = audit_local(laplace(0.25), 2, 6_000, generator(3))
    assert broken.refutes(1.0), "the mutant: noise for a sensitivity of one quarter"


def test_two_neighbouring_inputs() -> None:
    draws = generator(4)

    def count(data: list[int]) -> float:
        return len(data) + float(draws.laplace(scale=0.2))

    found = audit_neighbours(count, [0] * 5, [0] * 6, 6_000, generator(5))
    assert found.refutes(1.0) and not found.refutes(5.0) and found.epsilon_lower > 1.8
    with_delta = audit_neighbours(count, [0] * 5, [0] * 6, 3_000, generator(5), delta=0.2)
    assert with_delta.delta == 0.2 and with_delta.epsilon_lower < found.epsilon_lower
    words = audit_neighbours(lambda data: "yes" if len(data) > 5 else "no", [0] * 5, [0] * 6, 300, generator(6))
    assert words.estimate.rule == "frequentist" and words.epsilon_lower > 3


def test_examples_from_an_unknown_prior() -> None:
    """Theorem 15.9, with limits on the prior: valid, and weaker than with a known uniform prior."""
    channel = randomised_response(4, 3.0, prior=[0.4, 0.3, 0.2, 0.1])
    labels, seen = channel.sample(40_000, generator(7))
    found = audit_examples(labels, seen, 4)
    exact = channel.leakage().local_epsilon()
    assert 0.8 * exact < found.epsilon_lower < exact < 3.0
    assert found.estimate.confidence == pytest.approx(0.975)
    with pytest.raises(ParameterError, match="labels"):
        audit_examples([0] * 11, [0] * 11, 2)


def test_an_estimate_says_what_it_is() -> None:
    found = estimate_risk("nearest", ([0, 1], [0.0, 1.0]), ([0] * 50 + [1] * 50, [0.1] * 50 + [0.9] * 40 + [0.2] * 10))
    assert found.errors == 10 and found.point == 0.1
    low, high = found.interval
    assert low < 0.1 < found.upper < high
    assert found.leakage().bayes_risk == found.upper and found.leakage().guess_risk == 0.5
    assert found.leakage(0.3).guess_risk == 0.3
    assert "at most" in str(found) and found.caveats == () and "Bayes risk" in found.guarantee


def test_counting_warns_where_it_cannot_learn() -> None:
    draws = generator(8)
    labels, seen = draws.integers(2, size=100), draws.random(100)
    found = estimate_risk("frequentist", (labels, seen), (labels, seen))
    assert len(found.caveats) == 2 and "not converged" in found.caveats[0] and "continuous" in found.caveats[1]
    many = np.tile([0, 1], 50)
    assert estimate_risk("frequentist", (many, many), (many, many)).caveats == ()


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: audit_local(laplace(1.0), 1, 100, generator(1)), "secrets"),
        (lambda: audit_local(laplace(1.0), 2, 5, generator(1)), "trials"),
        (lambda: audit_local(laplace(1.0), 2, 100, generator(1), rules=[]), "rules"),
        (lambda: estimate_risk("nearest", ([], []), ([0], [0])), "labels|training"),
        (lambda: estimate_risk("nearest", ([0], [0]), (np.zeros(0, dtype=int), np.zeros(0))), "validation"),
    ],
    ids=["one secret", "few", "no rule", "no training", "no validation"],
)
def test_bad_parameters_are_refused_by_name(call: object, name: str) -> None:
    with pytest.raises(ParameterError, match=name):
        call()  # type: ignore[operator]
