"""The clock: stated error rates, drift that cancels, and samplers whose time follows their noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from scipy.stats import binom, spearmanr

from tacit.accounting import ParameterError
from tacit.audit.experiment import generator
from tacit.audit.mechanisms.timing import compare_times, paired_times, regress_times, time_draws


class Machine:
    """A clock that stands still unless work is done, with noise and drift of its own: time under the test's control."""

    def __init__(self, seed: int, drift: float = 0.0) -> None:
        self.now, self.coins, self.drift, self.calls = 0, generator(seed), drift, 0

    def clock(self) -> int:
        return self.now

    def work(self, nanoseconds: float) -> Callable[[], None]:
        def run() -> None:
            self.calls += 1
            self.now += int(nanoseconds + self.drift * self.calls + self.coins.gamma(2.0, 200.0))

        return run


def test_a_difference_is_found_and_none_is_not() -> None:
    machine = Machine(1)
    found = compare_times(machine.work(1000), machine.work(1200), 1000, seed=1, clock=machine.clock)
    assert found.found and 100 < found.effect < 300 and "LEAK" in str(found)
    same = compare_times(machine.work(1000), machine.work(1000), 1000, seed=2, clock=machine.clock)
    assert not same.found and "no leak seen" in str(same) and 0 < same.detectable < 200


def test_drift_of_the_machine_is_no_leak_and_the_mutant_takes_it_for_one() -> None:
    machine = Machine(2, drift=5.0)
    assert not compare_times(machine.work(1000), machine.work(1000), 500, seed=3, clock=machine.clock).found
    # The mutant: all runs of one input, then all of the other, compared as if the machine were the same.
    spent = []
    for _ in range(1000):
        start = machine.clock()
        machine.work(1000)()
        spent.append(machine.clock() - start)
    assert paired_times(np.array(spent[500:]) - np.array(spent[:500]), seed=1).found


def test_an_exception_is_timed_like_any_call() -> None:
    machine = Machine(3)

    def fails() -> None:
        machine.work(5000)()
        raise ValueError

    assert compare_times(machine.work(1000), fails, 100, seed=1, clock=machine.clock).found


def test_the_error_rate_is_what_is_stated() -> None:
    coins = generator(4)
    alarms = sum(paired_times(coins.standard_cauchy(40), error=0.05, seed=coins).found for _ in range(400))
    assert alarms <= binom.ppf(1 - 1e-4, 400, 0.05)
    alarms = sum(regress_times(coins.pareto(1.0, 40), coins.laplace(size=40), error=0.05, seed=coins).found for _ in range(400))
    assert alarms <= binom.ppf(1 - 1e-4, 400, 0.05)


def test_the_detectable_effect_is_detected() -> None:
    coins = generator(5)
    null = paired_times(coins.normal(0, 100, 500), error=0.01, seed=coins)
    found = sum(paired_times(coins.normal(null.detectable, 100, 500), error=0.01, seed=coins).found for _ in range(60))
    assert found >= 40  # promised in 80% of runs: 48 expected, 40 is beyond three standard deviations below


def test_rank_correlation_agrees_with_another_implementation() -> None:
    coins = generator(6)
    one, two = coins.integers(10, size=200).astype(float), coins.normal(size=200)
    assert regress_times(one, two, seed=1).effect == pytest.approx(spearmanr(one, two).statistic, abs=1e-9)


def test_a_sampler_whose_time_follows_its_noise_is_caught() -> None:
    machine = Machine(7)
    values: Iterator[int] = iter(generator(7).geometric(0.1, 4000).tolist())

    def counting() -> int:
        """The mutant: a geometric draw by tossing coins until heads."""
        value = next(values)
        machine.work(100 * value)()
        return value

    def table() -> int:
        value = next(values)
        machine.work(500)()
        return -value

    assert time_draws(counting, 1000, seed=1, clock=machine.clock).found
    assert not time_draws(table, 1000, seed=1, clock=machine.clock).found


def test_our_own_sampler_is_timed_without_an_error() -> None:
    """Live times on a shared machine prove nothing; that the test runs and answers is what is checked here."""
    from tacit.noise import discrete_laplace

    found = time_draws(lambda: discrete_laplace(3), 300)
    assert 0 < found.p_value <= 1 and found.trials == 300


def test_refusals() -> None:
    with pytest.raises(ParameterError, match="equally many"):
        regress_times([1.0], [1.0, 2.0])
    with pytest.raises(ParameterError, match="at least 1e-5"):
        paired_times(np.ones(50), error=1e-9)
