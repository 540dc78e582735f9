"""Mutual information between secrets and observations from examples alone: a neural estimate, and a limit from below that holds.

MINE (Belghazi et al. 2018) trains a small network T to make E[T] over real pairs minus log E[exp T] over shuffled pairs large.
By Donsker and Varadhan that difference is at most the mutual information, whatever T is. So one part of the examples trains T, and
what it shows on the rest is an estimate from below; with confidence limits on both means it is a lower bound, and bounds epsilon.

>>> from tacit.audit.experiment import generator
>>> from tacit.audit.leakage.builders import randomised_response
>>> coin = randomised_response(2, 2.0)
>>> secrets, seen = coin.sample(40_000, generator(1))
>>> found = mine(secrets, seen, generator(2))
>>> found.lower < coin.mutual_information() and abs(found.estimate - coin.mutual_information()) < 0.02
True
>>> 1.7 < found.epsilon_lower < 2.0
True

Mutual information is about an attacker with unlimited guesses; report min-entropy leakage first (`Leakage.min_entropy`). No method can
show more than about the logarithm of the number of examples with confidence (McAllester and Stratos 2020), so a large leak
comes out as a smaller one.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.audit.experiment import Generator
from tacit.audit.leakage.bounds import information_epsilon_floor
from tacit.errors import ParameterError
from tacit.parameters import count, probability

Reals = NDArray[np.float64]
_HIDDEN = 32  # units in each of two layers
_BATCH = 512
_RATE = 3e-3  # of Adam, which falls to a tenth of it
_FORGET = 0.95  # of the running mean that takes the place of one batch's mean in the gradient (section 3.2 of the paper)
_CATEGORIES = 1000  # whole numbers up to this many kinds get a coordinate each


@dataclass(frozen=True)
class Information:
    """What the trained network showed on held-out examples, in nats.

    `estimate` bounds nothing. `lower` is at most the mutual information with probability `confidence`, if examples are independent.
    `categories` is the number of secrets, from 0 to the largest in the examples, or None where these are numbers or vectors.
    """

    estimate: float
    lower: float
    confidence: float
    training: int
    validation: int
    categories: int | None

    @property
    def epsilon_lower(self) -> float:
        """The channel is epsilon-locally private for no epsilon below this, with the same confidence.

        It may have no more secrets than `categories`; `information_epsilon_floor(lower)` holds for any number of them.
        """
        return information_epsilon_floor(self.lower, secrets=self.categories)

    def __str__(self) -> str:
        return (
            f"about {self.estimate:.4g} nats on {self.validation} held-out examples after {self.training};"
            f" at least {self.lower:.4g} (confidence {self.confidence:.4g})"
        )


def mine(
    secrets: ArrayLike, observations: ArrayLike, generator: Generator, *, confidence: float = 0.95, steps: int = 1000
) -> Information:
    """Estimate the mutual information of independent pairs (secret, observation), and bound it from below.

    Whole numbers are categories, other numbers and rows of numbers are taken as they are. The first half of the examples trains the
    network for `steps` batches and says where to cut T off, the second is looked at once.

    **Guarantee.** With probability `confidence` over the examples, `lower` is at most the mutual information. T is fixed by the first
    half, and so are the two ends it is cut off at. The second half has m examples. The mean of T over its pairs gets an empirical
    Bernstein limit (Maurer and Pontil 2009) with half of the error, and so does the mean of e^T over the m/2 pairs that join
    the secret of one example with the observation of the next; each example is used once, so these are independent draws from the
    product of the marginals.
    I(S; O) >= E[T] - log E[e^T] is the bound of Donsker and Varadhan (1983).

    >>> from tacit.audit.experiment import generator
    >>> draws = generator(3)
    >>> mine(draws.integers(4, size=2_000), draws.random(2_000), generator(4), steps=200).lower
    0.0
    """
    first, kinds = _coordinates("secrets", secrets)
    second, _ = _coordinates("observations", observations)
    if len(first) != len(second) or len(first) < 40:
        raise ParameterError(f"there must be as many observations as secrets, and 40 at least, not {len(second)} for {len(first)}")
    error = 1 - float(probability("confidence", confidence))
    if not 0 < error < 1:
        raise ParameterError(f"confidence must be strictly between 0 and 1, not {confidence}")
    half = len(first) // 2
    held = len(first) - half
    bound = max(1.0, math.log(held) / 2)
    critic = _Critic(first.shape[1], second.shape[1], bound, generator)
    critic.scale(first[:half], second[:half])
    critic.train(first[:half], second[:half], count("steps", steps), generator)
    fresh, seen = first[half:], second[half:]
    ends = critic.ends(first[:half], second[:half], error)
    real, joined = _both(critic, fresh, seen)
    others = np.exp(np.concatenate([critic(fresh, np.roll(seen, shift, axis=0)) for shift in (1, 2, 3, 4)]))
    estimate = float(real.mean() - math.log(others.mean()))
    return Information(max(0.0, estimate), max(0.0, _lower(real, joined, ends, error)), confidence, half, held, kinds)


def _both(critic: _Critic, first: Reals, second: Reals) -> tuple[Reals, Reals]:
    """T of every pair, and of pairs that join a secret with the next example's observation, each example used once."""
    even = len(first) // 2 * 2
    return critic(first, second), critic(first[0:even:2], second[1:even:2])


def _lower(real: Reals, joined: Reals, ends: tuple[float, float], error: float) -> float:
    """A lower limit on E[T] - log E[e^T] for T cut off at `ends`, wrong with probability at most `error`."""
    low, high = ends
    least = -_upper(-np.clip(real, low, high), -low, -high, error / 2)
    return least - math.log(_upper(np.exp(np.clip(joined, low, high)), math.exp(high), math.exp(low), error / 2))


def _coordinates(name: str, values: ArrayLike) -> tuple[Reals, int | None]:
    """Rows of numbers; of whole numbers a coordinate for each kind, and how many there are.

    What only the second half has stands at 0: a coordinate of its own would let T depend on that half.
    """
    found = np.asarray(values)
    if found.ndim == 1 and found.dtype.kind in "iub":
        kinds = int(found.max(initial=0)) + 1
        if (found.size and found.min() < 0) or kinds > _CATEGORIES:
            raise ParameterError(f"{name} that are whole numbers must be 0 to {_CATEGORIES - 1}; give others as decimals")
        trained = int(found[: len(found) // 2].max(initial=0)) + 1
        return np.eye(kinds)[found.astype(np.int64)][:, :trained], kinds
    if found.ndim not in (1, 2) or found.dtype.kind not in "iubf" or not np.isfinite(found.astype(np.float64)).all():
        raise ParameterError(f"{name} must be a vector or rows of finite numbers")
    return (found[:, None] if found.ndim == 1 else found).astype(np.float64), None


def _upper(values: Reals, most: float, least: float, error: float) -> float:
    """An upper limit on the mean of independent values between `least` and `most`, wrong with probability at most `error`."""
    n, log = len(values), math.log(2 / error)
    shift = math.sqrt(2 * float(values.var(ddof=1)) * log / n) + 7 * (most - least) * log / (3 * (n - 1))
    return min(most, float(values.mean()) + shift) if most > least else most


class _Critic:
    """The network T: two hidden layers, and an end that stays between -bound and bound. Gradients are written out, Adam moves it."""

    def __init__(self, left: int, right: int, bound: float, generator: Generator) -> None:
        sizes = (left + right, _HIDDEN, _HIDDEN, 1)
        self.bound = bound
        self.weights = [generator.normal(size=(a, b)) * math.sqrt(2 / a) for a, b in itertools.pairwise(sizes)]
        self.weights[-1] *= 0.1  # begins near T = 0
        self.shifts = [np.zeros(b) for b in sizes[1:]]
        self.centre, self.spread = np.zeros(left + right), np.ones(left + right)

    def scale(self, first: Reals, second: Reals) -> None:
        joined = np.hstack([first, second])
        spread = joined.std(axis=0)
        self.centre, self.spread = joined.mean(axis=0), np.where(spread > 0, spread, 1.0)

    def __call__(self, first: Reals, second: Reals) -> Reals:
        parts = [self._forward(first[i : i + 2**16], second[i : i + 2**16])[-1] for i in range(0, len(first), 2**16)]
        return np.concatenate(parts)[:, 0]

    def _forward(self, first: Reals, second: Reals) -> list[Reals]:
        layers = [(np.hstack([first, second]) - self.centre) / self.spread]
        for weight, shift in zip(self.weights[:-1], self.shifts[:-1], strict=True):
            layers.append(np.maximum(layers[-1] @ weight + shift, 0.0))
        return [*layers, self.bound * np.tanh((layers[-1] @ self.weights[-1] + self.shifts[-1]) / self.bound)]

    def _backward(self, layers: list[Reals], slope: Reals) -> list[Reals]:
        """The gradients of sum(slope * T), weights first, then shifts."""
        back = slope[:, None] * (1 - (layers[-1] / self.bound) ** 2)
        weights, shifts = list[Reals](), list[Reals]()
        for place in range(len(self.weights) - 1, -1, -1):
            weights.insert(0, layers[place].T @ back)
            shifts.insert(0, back.sum(axis=0))
            if place:
                back = (back @ self.weights[place].T) * (layers[place] > 0)
        return weights + shifts

    def ends(self, first: Reals, second: Reals, error: float) -> tuple[float, float]:
        """Where to cut T off: of a few quantiles of its values on the training examples those that would show most there."""
        real, joined = _both(self, first, second)
        values = np.concatenate([real, joined])
        ranges = [tuple(np.quantile(values, [share, 1 - share]).tolist()) for share in (0.0, 0.001, 0.01, 0.03, 0.1)]
        return max(ranges, key=lambda pair: _lower(real, joined, pair, error))

    def train(self, first: Reals, second: Reals, steps: int, generator: Generator) -> None:
        """Climb E[T] - log E[e^T], with shuffled pairs from the batch itself."""
        values = self.weights + self.shifts
        speed, power = [np.zeros_like(v) for v in values], [np.zeros_like(v) for v in values]
        running = 1.0
        size = min(_BATCH, len(first))
        for step in range(1, steps + 1):
            chosen, other = generator.integers(len(first), size=size), generator.integers(len(first), size=size)
            real, joined = self._forward(first[chosen], second[chosen]), self._forward(first[chosen], second[other])
            raised = np.exp(joined[-1][:, 0])
            running = _FORGET * running + (1 - _FORGET) * float(raised.mean())
            up, down = self._backward(real, np.full(size, 1 / size)), self._backward(joined, raised / (running * size))
            rate = _RATE * (1 - 0.9 * step / steps)
            for place, value in enumerate(values):
                slope = up[place] - down[place]
                speed[place] = 0.9 * speed[place] + 0.1 * slope
                power[place] = 0.999 * power[place] + 0.001 * slope**2
                value += rate * (speed[place] / (1 - 0.9**step)) / (np.sqrt(power[place] / (1 - 0.999**step)) + 1e-8)
