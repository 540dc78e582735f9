"""The neural estimate of mutual information against exact channels and a closed form, and its limit as often as it says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom

from tacit.accounting import ParameterError
from tacit.audit.experiment import generator, spawn
from tacit.audit.leakage import Channel, Information, bounds, information, mine
from tacit.audit.leakage.builders import randomised_response, truncated_geometric
from tacit.audit.leakage.information import _both, _Critic, _lower, _upper


@pytest.mark.parametrize(("epsilon", "secrets"), [(2.0, 2), (1.0, 2), (2.0, 8)])
def test_randomised_response_by_its_matrix(epsilon: float, secrets: int) -> None:
    coin = randomised_response(secrets, epsilon)
    found = mine(*coin.sample(40_000, generator(1)), generator(2))  # limits are about 0.01 to 0.05 wide
    assert found.estimate == pytest.approx(coin.mutual_information(), abs=0.025)
    assert 0.75 * coin.mutual_information() < found.lower < coin.mutual_information()
    assert found.categories == secrets and 0.4 * epsilon < found.epsilon_lower < epsilon


def test_two_gaussians_by_their_closed_form() -> None:
    draws = generator(3).normal(size=(20_000, 2))
    first, second = draws[:, 0], 0.8 * draws[:, 0] + 0.6 * draws[:, 1]
    truth = -math.log(1 - 0.8**2) / 2
    # the integral of the definition agrees with the closed form: the conditional law of the second has variance 0.36
    assert quad(lambda x: math.exp(-x * x / 2) / math.sqrt(2 * math.pi) * (0.5 * (0.36 + 0.64 * x * x) - 0.5 - 0.5 * math.log(0.36)),
                -12, 12)[0] == pytest.approx(truth, rel=1e-9)
    found = mine(first, second, generator(4))
    assert found.estimate == pytest.approx(truth, abs=0.05) and 0.7 * truth < found.lower < truth and found.categories is None
    twice = mine(np.column_stack([first, draws[:, 1]]), np.column_stack([second, second]), generator(4))
    assert twice.estimate > found.estimate, "the pair determines the second number"


def test_a_geometric_channel_by_its_matrix() -> None:
    system = truncated_geometric(10, 100, 0.2)
    secrets, columns = system.sample(20_000, generator(1))
    found = mine(secrets, columns.astype(float), generator(2))
    assert 0.85 * system.mutual_information() < found.lower < system.mutual_information()


def test_the_limit_holds_as_often_as_it_says() -> None:
    """At 80 % confidence, in small experiments where the estimate itself is above the truth about as often as not."""
    coin, runs = randomised_response(2, 1.0), 120
    found = [mine(*coin.sample(400, own), own, confidence=0.8, steps=30) for own in spawn(generator(7), runs)]
    above = sum(one.lower > coin.mutual_information() for one in found)
    assert above <= binom.ppf(1 - 1e-6, runs, 0.2)
    assert sum(one.estimate > coin.mutual_information() for one in found) > runs / 10


def test_the_network_is_fixed_by_the_first_half(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kinds that only the second half has give the network no place of their own: else T would depend on what it is judged by."""
    networks: list[_Critic] = []
    monkeypatch.setattr(information, "_both", lambda critic, *pair: networks.append(critic) or _both(critic, *pair))
    draws = generator(9)
    secrets, seen = draws.integers(2, size=400), draws.integers(3, size=400)
    for last in (1, 7):
        secrets[-1] = seen[-1] = last
        assert mine(secrets, seen, generator(4), steps=20).categories == last + 1
    early, late = networks[0], networks[-1]
    for one, other in zip(early.weights + early.shifts, late.weights + late.shifts, strict=True):
        np.testing.assert_array_equal(one, other)


def test_independent_pairs_show_nothing() -> None:
    for seed in range(5):
        draws = generator(seed)
        found = mine(draws.integers(3, size=1_000), draws.normal(size=1_000), generator(seed + 50), steps=100)
        assert found.lower == 0 and found.epsilon_lower == 0


def test_no_information_beyond_what_examples_can_show() -> None:
    """A secret that is its observation: more secrets than examples, and no more than the logarithm of the examples is claimed."""
    draws = generator(1).random(2_000)
    found = mine(draws, draws, generator(2), steps=300)
    assert 0 < found.lower < math.log(1_000)


def test_the_lower_limit_cuts_off_and_gives_up_half_of_the_error_twice() -> None:
    real, joined = np.array([0.5, 0.7, 9.0, 0.6]), np.array([-0.5, -9.0, 0.1, 0.0])
    log = math.log(2 / 0.05)
    cut, raised = np.clip(real, -1, 1), np.exp(np.clip(joined, -1, 1))
    low = cut.mean() - math.sqrt(2 * cut.var(ddof=1) * log / 4) - 7 * 2 * log / 9
    assert _lower(real, joined, (-1.0, 1.0), 0.1) == pytest.approx(max(low, -1.0) - math.log(math.e), abs=1e-12)
    many = np.tile(raised, 10_000)
    wide = math.e - 1 / math.e
    expected = many.mean() + math.sqrt(2 * many.var(ddof=1) * log / 40_000) + 7 * wide * log / (3 * 39_999)
    assert _upper(many, math.e, 1 / math.e, 0.05) == pytest.approx(expected, rel=1e-12)


def test_gradients_of_the_network_by_differences() -> None:
    critic = _Critic(2, 1, 3.0, generator(1))
    critic.weights[-1] *= 20
    draws = generator(2)
    first, second, slope = draws.normal(size=(6, 2)), draws.normal(size=(6, 1)), draws.normal(size=6)
    found = critic._backward(critic._forward(first, second), slope)
    for gradient, value in zip(found, critic.weights + critic.shifts, strict=True):
        place = (0,) * value.ndim
        value[place] += 1e-6
        high = float(slope @ critic(first, second))
        value[place] -= 2e-6
        low = float(slope @ critic(first, second))
        value[place] += 1e-6
        assert gradient[place] == pytest.approx((high - low) / 2e-6, rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 3.0, 12.0])
@pytest.mark.parametrize("secrets", [None, 2, 5])
def test_ceilings_hold_for_channels_and_invert(epsilon: float, secrets: int | None) -> None:
    ceiling = bounds.information_ceiling(epsilon, secrets)
    draws = generator(5)
    for _ in range(40):
        many = secrets or int(draws.integers(2, 7))
        # any channel whose columns' entries differ by at most e^epsilon: mix extreme columns
        columns = np.exp(epsilon * draws.integers(2, size=(many, 12)))
        weights = draws.random(12)
        matrix = columns * weights
        sums = matrix.sum(axis=1)
        matrix = np.column_stack([matrix, np.full(many, sums.max()) - sums + sums.max()])
        channel = Channel(matrix / matrix.sum(axis=1, keepdims=True), prior=draws.dirichlet(np.ones(many)))
        if channel.epsilon() <= epsilon:
            assert channel.mutual_information() <= ceiling * (1 + 1e-9)
    if secrets == 2:
        assert randomised_response(2, epsilon).mutual_information() == pytest.approx(ceiling, rel=1e-9, abs=1e-15)
    if ceiling < math.log(secrets or 10**9) * (1 - 1e-4):
        floor = bounds.information_epsilon_floor(ceiling, secrets)
        assert floor <= epsilon and floor == pytest.approx(epsilon, rel=1e-4)


def test_what_is_refused_and_what_is_printed() -> None:
    numbers = np.arange(50) / 50
    for wrong in ((numbers[:40], numbers), (numbers[:20], numbers[:20]), (np.full(50, np.nan), numbers), (np.arange(50) - 1, numbers),
                  (np.arange(50) * 1_000, numbers), (["a"] * 50, numbers)):
        with pytest.raises(ParameterError):
            mine(*wrong, generator(1))
    with pytest.raises(ParameterError, match="confidence"):
        mine(numbers, numbers, generator(1), confidence=1.0)
    told = Information(0.5, 0.4, 0.95, 100, 100, None)
    assert str(told) == "about 0.5 nats on 100 held-out examples after 100; at least 0.4 (confidence 0.95)"
    assert bounds.information_epsilon_floor(0.0) == 0 and bounds.information_epsilon_floor(1.0, 2) == math.inf
