"""Several filters at once: each against its closed form, the whole against the exact law of an analyst who stops when it suits her."""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np
import pytest

from tacit.accounting import ZCDP, Adjacency, ApproxDP, Gaussian, Laplace, NonPrivate, PureDP
from tacit.ledger import AdaptiveFilter, BudgetExceeded, LedgerError
from tacit.ledger.adaptive import PROOFS, SHARES
from tacit.ledger.budget import conversion


def admitted(running: AdaptiveFilter, event, **how) -> int:
    count = 0
    while True:
        try:
            running = running.admit(event, **how)
        except BudgetExceeded:
            return count
        count += 1


def test_many_small_questions_go_by_advanced_composition() -> None:
    """100 questions of .1: 10 by adding, sum e^2 / 2 + sqrt(2 log(1/d) sum e^2) = 5.757 at d = 1e-6, 1.74 times less.

    The divergences of order 6 with the tight conversion need 5.422.
    """
    running = AdaptiveFilter(epsilon=100, delta=4e-6)
    for _ in range(100):
        running = running.admit(PureDP(Fraction(1, 10)))
    assert running.spent("advanced") == pytest.approx(0.5 + math.sqrt(2 * math.log(1e6)), rel=1e-9)
    assert running.spent("basic") == pytest.approx(10, rel=1e-9)
    assert running.spent("basic") / running.spent("advanced") > 1.7
    # an order of 128 alone has nothing left of its share of delta here
    assert admitted(AdaptiveFilter(epsilon=5.757, delta=4e-6, orders=(128,)), PureDP(Fraction(1, 10))) == 100
    assert admitted(AdaptiveFilter(epsilon=5.756, delta=4e-6, orders=(128,)), PureDP(Fraction(1, 10))) == 99
    up = math.exp(0.1) / (1 + math.exp(0.1))
    six = 20 * math.log(up * math.exp(0.5) + (1 - up) * math.exp(-0.5)) + (6 * math.log(5 / 6) - math.log(5) - math.log(2e-6 / 11)) / 5
    assert running.best == "renyi:6" and running.spent("renyi:6") == pytest.approx(six, rel=1e-9) and round(six, 3) == 5.422
    assert admitted(AdaptiveFilter(epsilon=5.423, delta=4e-6), PureDP(Fraction(1, 10))) == 100
    assert admitted(AdaptiveFilter(epsilon=5.422, delta=4e-6), PureDP(Fraction(1, 10))) == 99


def test_few_large_questions_go_by_adding_and_gaussian_noise_by_divergences() -> None:
    few = AdaptiveFilter(1, 1e-6).admit(PureDP(Fraction(1, 2))).admit(PureDP(Fraction(49, 100)))
    assert few.best == "basic" and few.left()["basic"] == pytest.approx(0.01, rel=1e-9)
    noise = AdaptiveFilter(3, 1e-6).admit(Gaussian(5))
    assert noise.best.startswith("renyi:") and noise.spent("basic") == math.inf
    order = int(noise.best.removeprefix("renyi:"))
    share = float(SHARES["renyi"]) * 1e-6 / len(noise.orders)
    tail = (order * math.log(1 - 1 / order) - math.log(order - 1) - math.log(share)) / (order - 1)
    assert noise.spent(noise.best) == pytest.approx(order / 50 + tail, rel=1e-9)
    assert admitted(AdaptiveFilter(3, 1e-6), Gaussian(5)) >= 4
    assert admitted(AdaptiveFilter(3, 1e-6), ZCDP(Fraction(1, 50))) == admitted(AdaptiveFilter(3, 1e-6), Gaussian(5))


def test_deltas_of_steps_come_from_their_share() -> None:
    running = AdaptiveFilter(5, 4e-6)
    running = running.admit(ApproxDP(0.1, 5e-7), delta=5e-7)
    with pytest.raises(BudgetExceeded, match="share of delta for steps") as refusal:
        running.admit(ApproxDP(0.1, 6e-7), delta=6e-7)
    assert refusal.value.code == "budget-exceeded" and running.spent("basic") == pytest.approx(0.1)


def test_a_refusal_names_every_filter_and_what_the_best_has_left() -> None:
    running = AdaptiveFilter(1, 1e-6).admit(PureDP(Fraction(3, 4)))
    with pytest.raises(BudgetExceeded) as refusal:
        running.admit(PureDP(Fraction(1, 2)))
    assert "basic would reach 1.25" in str(refusal.value) and "advanced would reach" in str(refusal.value)
    assert refusal.value.account == "basic" and refusal.value.fits == "epsilon 0.25 by basic"
    assert refusal.value.left["basic"] == pytest.approx(Fraction(1, 4))
    with pytest.raises(BudgetExceeded, match="no filter has a price"):
        running.admit(NonPrivate())
    assert running.spent("basic") == pytest.approx(0.75)  # a refusal costs nothing


def test_the_failure_probabilities_add_up_to_delta() -> None:
    assert sum(SHARES.values()) == 1
    assert set(PROOFS) == {"basic", "advanced", "renyi"}


@pytest.mark.parametrize("size", [0.02, 0.05])
def test_an_analyst_who_stops_when_the_loss_is_high_stays_within(size: float) -> None:
    """Randomised response with losses +-e, stopped as soon as the loss passes epsilon: the exact chance of that, by dynamic programming.

    A mutant that forgets log(1/d), as a sum of mean losses would, lets more questions through and fails.
    """
    delta, up = 4e-3, math.exp(size) / (1 + math.exp(size))

    def passing(questions: int, epsilon: float) -> float:
        top = max(k for k in range(int(epsilon / size) + 2) if k * size <= epsilon)
        law, passed = np.zeros(questions + top + 1), 0.0  # of the places -questions to top
        law[questions] = 1.0
        for _ in range(questions):
            passed += float(law[-1]) * up
            law = np.append(0.0, law[:-1]) * up + np.append(law[1:], 0.0) * (1 - up)
        return passed

    epsilon = 2.0
    allowed = admitted(AdaptiveFilter(epsilon, delta), PureDP(size))
    assert allowed > epsilon / size  # more than adding admits
    assert passing(allowed, epsilon) <= delta
    mean_only = int(epsilon / (0.5 * size * size))
    assert passing(mean_only, epsilon) > delta


@pytest.mark.parametrize(("order", "epsilon"), [(2, 7.0), (6, 2.0)])
def test_the_most_that_an_adaptive_analyst_gets_out_of_one_order(order: int, epsilon: float) -> None:
    """Coins of loss +-e and +-2e, chosen after every answer as long as their divergences add up to the limit: the largest delta of all such
    analysts, exactly, by dynamic programming. A limit of epsilon itself, as without a conversion, lets it pass its share.
    """
    step, share = 0.2, 0.002

    def divergence(loss: float) -> float:
        up = math.exp(loss) / (1 + math.exp(loss))
        return math.log(up * math.exp((order - 1) * loss) + (1 - up) * math.exp((1 - order) * loss)) / (order - 1)

    def worst(limit: float) -> float:
        @functools.cache
        def value(small: int, large: int, place: int) -> float:
            # delta = E[(1 - e^(epsilon - loss))+] under P, of the loss where the analyst stops
            best = max(0.0, -math.expm1(epsilon - place * step))
            for one, two, size in ((1, 0, 1), (0, 1, 2)):
                if (small + one) * divergence(step) + (large + two) * divergence(2 * step) <= limit:
                    up = 1 / (1 + math.exp(-size * step))
                    after = [value(small + one, large + two, place + move) for move in (size, -size)]
                    best = max(best, up * after[0] + (1 - up) * after[1])
            return best

        return value(0, 0, 0)

    allowed = worst(epsilon - conversion(order, share))
    assert 0 < allowed <= share
    assert worst(epsilon) > share


@pytest.mark.parametrize("bad", [{"epsilon": 0, "delta": 1e-6}, {"epsilon": 1, "delta": 0}, {"epsilon": 1, "delta": 1},
                                 {"epsilon": math.nan, "delta": 1e-6}, {"epsilon": 1, "delta": 1e-6, "orders": (1,)},
                                 {"epsilon": 1, "delta": 1e-6, "orders": ()}])
def test_bad_targets_are_refused(bad: dict) -> None:
    with pytest.raises(LedgerError):
        AdaptiveFilter(**bad)


def test_the_relation_is_the_account_s() -> None:
    replaced = AdaptiveFilter(3, 1e-6, adjacency=Adjacency.REPLACE_ONE).admit(Laplace(10))
    assert replaced.spent("basic") == pytest.approx(0.2)
    with pytest.raises(LedgerError):
        replaced.admit(Laplace(10), delta=2)
