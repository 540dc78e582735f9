"""Clipping rules: how much of each example's gradient is kept, such that no example moves the sum by more than the sensitivity.

A rule sees the norms of one or several groups of parameters (rows) for every example (columns) and answers with a factor for each.
A norm that is not finite gets the factor zero: such an example contributes nothing, and no other example notices.

>>> rule = flat(1.0)
>>> rule.factors(torch.tensor([[0.5, 2.0, torch.inf]])).tolist()
[[1.0, 0.5, 0.0]]
>>> rule.sensitivity(groups=1)
1.0

**Guarantee.** For every rule the clipped gradient of one example has norm at most `sensitivity(groups)`, so adding or removing an example
moves the sum by at most that (add/remove, and zero-out alike).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from tacit.errors import ParameterError
from tacit.mechanisms import NoisySums
from tacit.parameters import positive, probability


@runtime_checkable
class Rule(Protocol):
    """What the clipper asks of a rule."""

    @property
    def by_layer(self) -> bool:
        """Whether every layer is a group of its own; otherwise the whole model is one."""
        ...

    def factors(self, norms: Tensor) -> Tensor:
        """A factor for each group and example, from the norms of shape (groups, examples)."""
        ...

    def sensitivity(self, groups: int) -> float:
        """How far one example can move the sum."""
        ...


def _fit(norms: Tensor, bounds: float | Tensor) -> Tensor:
    """min(1, bound / norm), and zero where the norm is not finite: a bound over infinity is zero, over no number none."""
    return (bounds / norms.clamp(min=torch.finfo(norms.dtype).tiny)).clamp_(max=1).nan_to_num_(0.0)


@dataclass(frozen=True)
class Flat:
    """One threshold for the whole gradient (Abadi et al. 2016)."""

    clip: float
    by_layer: bool = False

    def factors(self, norms: Tensor) -> Tensor:
        return _fit(norms, self.clip)

    def sensitivity(self, groups: int) -> float:
        return self.clip


@dataclass(frozen=True)
class PerLayer:
    """One threshold for each layer (weight and bias together): an example's sum has norm at most the root of the squares."""

    clips: tuple[float, ...]  # a single one is the norm of all layers together, shared equally
    by_layer: bool = True

    def bounds(self, groups: int) -> tuple[float, ...]:
        """The threshold of each layer.

        >>> per_layer(1.0).bounds(4)
        (0.5, 0.5, 0.5, 0.5)
        """
        if len(self.clips) == 1:
            return self.clips * groups if groups == 1 else (self.clips[0] / math.sqrt(groups),) * groups
        if len(self.clips) != groups:
            raise ParameterError(
                f"clip must have one threshold for each of the model's {groups} trainable layers, not {len(self.clips)}; "
                "give one number to share it equally"
            )
        return self.clips

    def factors(self, norms: Tensor) -> Tensor:
        return _fit(norms, norms.new_tensor(self.bounds(len(norms))).unsqueeze(1))

    def sensitivity(self, groups: int) -> float:
        return self.clips[0] if len(self.clips) == 1 else math.nextafter(math.hypot(*self.bounds(groups)), math.inf)


@dataclass(frozen=True)
class Automatic:
    """Normalise instead of clip: the gradient over its norm plus gamma, times the threshold (Bu et al. 2023, AUTO-S)."""

    clip: float
    gamma: float
    by_layer: bool = False

    def factors(self, norms: Tensor) -> Tensor:
        return (self.clip / (norms + self.gamma)).where(norms.isfinite(), 0)

    def sensitivity(self, groups: int) -> float:
        return self.clip


@dataclass(frozen=True)
class Adaptive:
    """A threshold that follows a quantile of the norms (Andrew et al. 2021).

    Each step also counts the examples whose norm is within the threshold. Each is counted as plus or minus one half, so one example moves
    the count by one half, and `count_noise` is the deviation of the noise on it. Nothing about the count is free: the step as a whole is
    one Gaussian mechanism of multiplier z if the gradients get the larger multiplier `gradient_multiplier(z)`.
    """

    clip: float
    quantile: float
    learning_rate: float
    count_noise: float
    by_layer: bool = False

    def factors(self, norms: Tensor) -> Tensor:
        return _fit(norms, self.clip)

    def sensitivity(self, groups: int) -> float:
        return self.clip

    def gradient_multiplier(self, noise_multiplier: float) -> float:
        """The multiplier for the gradients such that they and the count together cost what `noise_multiplier` alone would.

        >>> round(adaptive(count_noise=5).gradient_multiplier(1.0), 7)
        1.0050378
        """
        return beside_count(noise_multiplier, self.count_noise)

    @property
    def count(self) -> NoisySums:
        """The noise on the count, in halves: one example moves it by one of them, whole numbers that exact noise can be added to."""
        return count_sums(self.count_noise)

    def updated(self, noisy_count: float, expected_batch: float) -> Adaptive:
        """The rule for the next step, from the noisy count of plus and minus halves and the public expected batch size.

        >>> adaptive(clip=0.1, count_noise=5).updated(noisy_count=-50, expected_batch=100).clip  # no record was within: grow
        0.1105170918075647...
        """
        size = float(positive("expected_batch", expected_batch))
        fraction = min(1.0, max(0.0, 0.5 + noisy_count / size))
        moved = self.clip * math.exp(-self.learning_rate * (fraction - self.quantile))
        return replace(self, clip=min(max(moved, 1e-30), 1e30))


def beside_count(noise_multiplier: float, count_noise: float) -> float:
    """The multiplier for gradients beside a count of halves with noise of deviation `count_noise`: together they cost `noise_multiplier`.

    >>> round(beside_count(1.0, count_noise=5), 7)
    1.0050378
    """
    z = float(positive("noise_multiplier", noise_multiplier))
    if z >= 2 * count_noise:
        raise ParameterError(
            f"noise_multiplier must be below 2 x count_noise = {2 * count_noise:g}, not {z:g}: the count alone would cost more; "
            "raise the noise of the count"
        )
    # z (1 - (z / 2b)^2)^(-1/2), rounded up
    return z / math.sqrt((1 - z / (2 * count_noise)) * (1 + z / (2 * count_noise))) * (1 + 2**-50)


def count_sums(count_noise: float) -> NoisySums:
    """The noise on a count of halves: one example moves it by one of them, whole numbers that exact noise can be added to.

    >>> count_sums(5.0).deviation()
    5.0
    """
    return NoisySums.of_multiplier("gaussian", 2 * Fraction(count_noise), granularity=Fraction(1, 2))


def halves(within: int, examples: int) -> int:
    """The count of examples within the threshold, each as plus or minus one half, as a whole number of halves.

    >>> halves(within=3, examples=4)
    2
    """
    return 2 * within - examples


def flat(clip: float) -> Flat:
    """Clip the whole gradient of each example to norm `clip`.

    >>> flat(0.5)
    Flat(clip=0.5, by_layer=False)
    """
    return Flat(float(positive("clip", clip)))


def per_layer(clip: float | Sequence[float]) -> PerLayer:
    """Clip each layer on its own: one number is shared equally among the layers, a list gives each its own.

    >>> per_layer([3.0, 4.0]).sensitivity(groups=2)
    5.00000000000000...
    """
    values = tuple(clip) if isinstance(clip, Sequence) else (clip,)
    if not values:
        raise ParameterError("clip must be a number or a list with one threshold for each layer, not an empty list")
    return PerLayer(tuple(float(positive("clip", value)) for value in values))


def automatic(clip: float = 1.0, gamma: float = 0.01) -> Automatic:
    """Normalise each gradient to just under `clip`: no threshold to tune, as the learning rate absorbs it.

    >>> automatic().factors(torch.tensor([[0.0, 0.99]])).tolist()
    [[100.0, 1.0]]
    """
    return Automatic(float(positive("clip", clip)), float(positive("gamma", gamma)))


def adaptive(clip: float = 0.1, *, quantile: float = 0.5, learning_rate: float = 0.2, count_noise: float) -> Adaptive:
    """Let the threshold follow a quantile of the norms. The authors suggest a count_noise of one twentieth of the expected batch.

    >>> adaptive(count_noise=5).clip
    0.1
    """
    return Adaptive(
        float(positive("clip", clip)),
        float(probability("quantile", quantile)),
        float(positive("learning_rate", learning_rate)),
        float(positive("count_noise", count_noise)),
    )
