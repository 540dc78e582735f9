"""A lower bound for several steps out of many: a sum of scores that is close to the loss, and a function of the outputs.

>>> low = score_floor(GaussianRatio(1.0), 100, 5, 1, 1.0, None, 0.5)
>>> 0 < low < 1
True
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tacit.accounting.likelihood_ratio import GaussianRatio, Ratio
from tacit.accounting.pairs import Array
from tacit.accounting.special import irfft, ndtr, next_fast_len, rfft
from tacit.accounting.stop_loss import POINTS, UNIT, log_mgf


@dataclass(frozen=True)
class Score:
    """P- and Q-law of a sum of rounded scores over all steps, tilted by exp(theta T) and scaled, around one epsilon."""

    place: Array
    theta: float
    log_scale: tuple[float, float]
    mass: tuple[Array, Array]
    noise: tuple[float, float]
    outside: float
    relative: float

    def delta(self, epsilon: float) -> float:
        """A lower bound on P(T >= c) - e^epsilon Q(T >= c), for the best c."""
        exponents = [self.log_scale[0] - self.theta * self.place, self.log_scale[1] + epsilon - self.theta * self.place]
        start = int(np.argmax(np.maximum(*exponents) < 600)) if np.maximum(*exponents)[-1] < 600 else len(self.place) - 1
        gain, cost = (np.exp(np.minimum(e[start:], 600.0)) for e in exponents)
        net = gain * (self.mass[0][start:] * (1 - self.relative) - self.noise[0])
        net -= cost * (self.mass[1][start:] * (1 + self.relative) + self.noise[1])
        return max(0.0, float((np.cumsum(net[::-1])[::-1] - self.outside * gain).max()) * (1 - 1e-9))


def score_for(ratio: GaussianRatio, steps: int, selected: int, epochs: int, near: float) -> Score:
    """The law of T = sum of rounded scores log(1 - q + q Y), q = selected / steps, over all steps of all epochs.

    The score is the loss of one Poisson sampled step, so T is close to the loss of the whole; and being a function of the outputs it
    can only lose. Its two laws are powers of one step's, whichever steps were chosen. The tilt makes it good around epsilon = near.
    """
    s, q, uses = 1 / ratio.sigma, selected / steps, (steps * epochs - selected * epochs, selected * epochs)
    y, log_weight = ratio.sketch(math.inf)
    weight, score = np.exp(log_weight), np.log1p(q * (y - 1))
    deviation = math.sqrt(max(float(weight @ score**2) - float(weight @ score) ** 2, 1e-300))
    unit = deviation / 32 * max(1.0, math.sqrt(sum(uses)) * 1e3 / POINTS)
    low, high = (math.floor(x / unit) for x in np.log1p(q * (np.exp(s * np.array([-12.0, 12.0 + s]) - s * s / 2) - 1)))
    index = np.arange(low, min(high, low + POINTS) + 1)
    ends = np.expm1(unit * (index[1:] - 0.5)) / q + 1  # ratios at which the rounded score goes up
    z = np.concatenate([[-math.inf], ratio.z(np.maximum(ends, 0.0)), [math.inf]])
    laws = [np.where(v[:-1] > 0, ndtr(-v[:-1]) - ndtr(-v[1:]), ndtr(v[1:]) - ndtr(v[:-1])) for v in (z, z - s)]
    with np.errstate(divide="ignore"):
        logs = [np.log(law) for law in laws]
    powers = (uses, (sum(uses), 0))  # how many steps have the law without and with the record: under P, then under Q

    def cumulant(theta: float, times: tuple[int, int]) -> float:
        return math.fsum(n * log_mgf(log, unit * index, theta) for log, n in zip(logs, times, strict=True) if n)

    theta = min((float(c) for c in np.exp(np.linspace(-7.0, 5.0, 25))), key=lambda c: cumulant(c, uses) - c * near)
    tilted = [np.exp(log + theta * unit * index - log_mgf(log, unit * index, theta)) for log in logs]
    mean = sum(n * float(w @ index) for w, n in zip(tilted, uses, strict=True))
    width = math.sqrt(sum(n * float(w @ (index - w @ index) ** 2) for w, n in zip(tilted, uses, strict=True)))
    size = next_fast_len(min(POINTS, int(24 * width) + len(index)), real=True)
    first = int(mean) - size // 2
    place = unit * np.arange(first, first + size)
    error = 8 * UNIT * (math.log2(size) + 2)
    transforms = [rfft(np.bincount((index - low) % size, w, size)) for w in tilted]
    modulus, angle = [np.abs(f) for f in transforms], [np.angle(f) for f in transforms]
    mass, noise = [], []
    for times in powers:
        used = [(n, m, a) for n, m, a in zip(times, modulus, angle, strict=True) if n]
        with np.errstate(divide="ignore"):
            power = np.exp(sum(n * np.log(m) for n, m, _ in used))
        most = np.exp(sum(n * np.log(m + 2 * error) for n, m, _ in used))
        turned = power * np.exp(1j * sum(n * a for n, _, a in used))
        mass.append(np.roll(irfft(turned, size), -((first - low * sum(uses)) % size)))
        noise.append(2 * float((most - power + (16 * sum(uses) * UNIT + error + 400 * UNIT) * power).sum()) / size)
    level = cumulant(theta, uses)
    etas = [float(x) for x in np.exp(np.linspace(-3.0, 3.0, 13)) * 6 / max(width * unit, 1e-300)]
    above = min(cumulant(theta + eta, uses) - level - eta * float(place[-1]) for eta in etas)
    below = min(cumulant(theta - eta, uses) - level + eta * float(place[0]) for eta in etas)
    return Score(
        place=np.asarray(place, dtype=np.float64),
        theta=theta,
        log_scale=(level, cumulant(theta, powers[1])),
        mass=(mass[0], mass[1]),
        noise=(noise[0], noise[1]),
        outside=math.exp(min(above, 0.0)) + math.exp(min(below, 0.0)),
        relative=1e-12 * (1 + sum(uses)),
    )


def score_floor(ratio: Ratio, steps: int, selected: int, epochs: int, upper: float, delta: float | None, epsilon: float | None) -> float:
    """The best lower bound from the sum of scores, on epsilon or delta."""
    if not isinstance(ratio, GaussianRatio):
        return 0.0
    if epsilon is not None:
        return min(upper, score_for(ratio, steps, selected, epochs, epsilon).delta(epsilon))
    assert delta is not None
    low, near = 0.0, upper
    for _ in range(2):
        score = score_for(ratio, steps, selected, epochs, near)
        high = upper
        while high - low > 1e-7 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if score.delta(middle) > delta else (low, middle)
        near = low
    return low
