"""A case is judged by its claim and its floor; a claim is the exact price of its event."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tacit.accounting import GDP, Adjacency, ApproxDP, Gaussian, Laplace, PureDP, Repeated
from tacit.audit.claim import Claim
from tacit.audit.selftest.case import LENIENT, QUICK, Case, Mutant, promise
from tacit.noise import discrete_laplace


def counted(scale: Fraction, floor: float = 0.8) -> Case:
    return Case(
        "count", promise(PureDP(1)), lambda n: discrete_laplace(scale, size=n), lambda n: 1 + discrete_laplace(scale, size=n), floor, 20_000
    )


@pytest.mark.parametrize(
    ("scale", "floor", "reason"),
    [
        (Fraction(1), 0.8, ""),
        (Fraction(1, 2), 0.8, "above its claim"),
        (Fraction(4), 0.8, "below its floor of 80%"),
        (Fraction(4), 0.1, ""),
    ],
    ids=["right", "half the noise", "too much noise", "too much noise, low floor"],
)
def test_claim_and_floor(scale: Fraction, floor: float, reason: str) -> None:
    found = counted(scale, floor).tried(error=1e-8, seed=3)
    assert found.reason == reason and found.passed == (reason == "")


def test_quick_mode_draws_less_and_asks_for_less() -> None:
    case = counted(Fraction(1))
    found = case.tried(error=1e-8, seed=3, quick=True)
    assert found.verdict.evidence.trials == 20_000 // QUICK and found.floor == 0.8 / LENIENT and found.passed


def test_seeds_repeat_and_fresh_noise_does_not() -> None:
    case = counted(Fraction(1))
    seeded = [case.tried(trials=2000, error=1e-3, seed=5).verdict.evidence.details["hits"] for _ in range(2)]
    assert seeded[0] == seeded[1]
    fresh = {case.tried(trials=2000, error=1e-3, seed=None).verdict.evidence.details["hits"] for _ in range(3)}
    assert len(fresh) > 1  # equal hits three times: below 1e-3


@pytest.mark.parametrize(
    ("event", "relation", "epsilon", "mu"),
    [
        (Laplace(Fraction(1, 3)), Adjacency.ADD_REMOVE, 3, None),
        (Repeated(Laplace(2), 4), Adjacency.ADD_REMOVE, 2, None),
        (Repeated(Gaussian(4), 1), Adjacency.ADD_REMOVE, None, Fraction(1, 4)),
        (PureDP(1, adjacency=Adjacency.REPLACE_ONE), Adjacency.REPLACE_ONE, 1, None),
    ],
    ids=["laplace", "four of them", "one gaussian", "exchanged"],
)
def test_the_promise_of_an_event(event, relation: Adjacency, epsilon, mu) -> None:
    claim = promise(event, relation)
    assert claim.event == (PureDP(epsilon, adjacency=relation) if mu is None else GDP(mu, adjacency=relation))
    if epsilon is not None:
        # The best test at a false positive rate of 1/100 has e^epsilon times as many true ones, and no more: not twice the epsilon.
        assert claim.tpr(0.001) == pytest.approx(0.001 * 2.718281828459045**epsilon, rel=1e-4)


def test_other_events_stand_for_themselves() -> None:
    assert promise(ApproxDP(1, 0.05), text="words") == Claim(ApproxDP(1, 0.05), text="words")


def test_a_mutant_is_caught_by_what_it_does() -> None:
    def sometimes(rows: list[int]) -> int:
        """An exception that tells."""
        if len(rows) > 2:
            raise ValueError("too many")
        return 0

    mutant = Mutant("raises", sometimes, lambda rows: 0, ([1, 2], [1, 2, 3]), trials=400)
    assert mutant.what == "An exception that tells."
    assert mutant.caught(seed=1) and mutant.caught(seed=1, broken=False) == ""
