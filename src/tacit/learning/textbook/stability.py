"""Privacy from stability: methods that compute without noise and add it once, because their path hardly depends on one person.

A gradient step on a smooth convex loss moves two points no farther apart. So a pass of stochastic descent over fixed places moves by at
most what one person's own step does, and one release of its end is enough: bolt-on descent. Phases of it on fresh people, each around
the end of the one before, are optimal for the population (localisation). Noise in every step is forgotten as later steps mix it:
amplification by iteration. The last class draws from the exponential mechanism over a convex set by a chain whose distance to it is proved.

>>> plan = BoltOnDescent.plan(Guarantee(epsilon=1, delta=1e-6), L2Ball(3), clip=1.0, smoothness=0.25, places=1000, length=0.05)
>>> plan.event == Gaussian(plan.multiplier, adjacency=Adjacency.ZERO_OUT)
True
>>> iteration_multiplier(position=1, places=100, clip=1.0, sigma=2.0)  # the first of a hundred people; the last has 2.0
20.0
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tacit.accounting import Adjacency, ApproxDP, Event, Gaussian, Guarantee, ParameterError
from tacit.learning.textbook.sets import L2Ball
from tacit.mechanisms import NoisySums, clip_rows
from tacit.noise import bernoulli_exp as coin
from tacit.noise import from_lattice, round_to_lattice, uniform_integers
from tacit.parameters import count, positive

Array = NDArray[np.float64]
#: One person's gradient as a function of the point; None for a place without a person.
Person = Callable[[Array], Array] | None
STEP = Fraction(1, 1 << 30)  # the lattice of a released point
ROUNDING = 2.0**-46  # of one float step, in units of the largest numbers in it, with room


def one_pass(people: Sequence[Person], ball: L2Ball, *, clip: float, length: float, passes: int = 1, start: Array | None = None) -> Array:
    """The mean of the points of projected stochastic descent in the order given, without noise: not private by itself."""
    theta = ball.project(np.zeros(ball.dimension) if start is None else start)
    total, turns = np.zeros(ball.dimension), 0
    for _ in range(passes):
        for person in people:
            gradient = np.zeros(ball.dimension) if person is None else clip_rows(np.asarray(person(theta))[None], clip)[0]
            theta = ball.project(theta - length * gradient)
            total, turns = total + theta, turns + 1
    return total / max(turns, 1)


def farthest_end(clip: float, length: float, passes: int, places: int, ball: L2Ball) -> float:
    """How far one place moves the mean of a descent with gradients of at most `clip`, with what floats may add.

    Zeroing out a place removes its step, of at most length * clip, once a pass; all other steps move points no farther apart where
    length <= 2 / smoothness (Hardt, Recht, Singer 2016, Lemma 3.7; Wu et al. 2017).
    """
    rounding = 2 * passes * places * ROUNDING * (ball.radius + length * clip) * math.sqrt(ball.dimension)
    return (passes * length * clip + rounding) * (1 + 1e-12)


@dataclass(frozen=True)
class BoltOnDescent:
    """Stochastic descent as it is, with noise on its end alone (Wu, Li, Kumar, Chaudhuri, Jha, Naughton 2017).

    Guarantee
        Statement: costs Gaussian(multiplier), under zero-out of one of `places` public places.
        Conditions: every person's loss is convex and `smoothness`-smooth for all values, which clipping cannot enforce: use a loss with a
        proof, on rows of bounded length, whose gradients are then within `clip` by themselves (clipping a longer gradient would break
        the contraction). length <= 2 / smoothness.
        Proved in: `farthest_end`; rounding to the lattice is added; rounded Gaussian noise on integers post-processes the textbook
        mechanism.
    """

    ball: L2Ball
    clip: float
    length: float
    passes: int
    places: int
    multiplier: float
    event: Event

    @classmethod
    def plan(
        cls, guarantee: Guarantee, ball: L2Ball, *, clip: float, smoothness: float, places: int,
        length: float | None = None, passes: int = 1,
    ) -> BoltOnDescent:  # fmt: skip
        """Without a length, the one that balances the regret D^2 / (2 length) + places length clip^2 / 2 with the noise."""
        n, turns, bound = count("places", places), count("passes", passes), float(positive("clip", clip))
        event, mu = guarantee.settle(lambda mu: Gaussian(1 / mu, adjacency=Adjacency.ZERO_OUT), Adjacency.ZERO_OUT)
        most = 2 / float(positive("smoothness", smoothness))
        if length is None:
            noise = math.sqrt(ball.dimension) * turns / mu
            length = min(most, 2 * ball.radius / (bound * math.sqrt(n * turns * (1 + 2 * noise))))
        if not 0 < length <= most:
            raise ParameterError(f"length must be above 0 and at most 2 / smoothness, {most:.6g}: longer steps move points apart")
        return cls(ball, bound, float(length), turns, n, 1 / mu, event)

    @property
    def noise(self) -> NoisySums:
        """The noise of the released point, on its lattice; rounding moves each of two points by half a step in every coordinate."""
        apart = farthest_end(self.clip, self.length, self.passes, self.places, self.ball) / float(STEP) + math.sqrt(self.ball.dimension)
        return NoisySums.of_multiplier(
            "gaussian", self.multiplier, Fraction(math.nextafter(apart, math.inf)), granularity=STEP, adjacency=Adjacency.ZERO_OUT
        )

    def run(self, people: Sequence[Person], start: Array | None = None) -> Array:
        """The released mean of the points."""
        given = list(people)[: self.places] + [None] * max(self.places - len(people), 0)
        mean = one_pass(given, self.ball, clip=self.clip, length=self.length, passes=self.passes, start=start)
        reach = self.ball.radius + 1
        return self.ball.project(self.noise.release(round_to_lattice(mean, STEP, bounds=(-reach, reach))))


@dataclass(frozen=True)
class PhasedDescent:
    """Localisation: phases on fresh people, half as many each time, with steps a quarter as long, each from the end of the one before.

    Feldman, Koren, Talwar 2020, Theorem 4.1: for the population the excess is of the order of 1/sqrt(n) + sqrt(p) / (n mu), which is the
    best possible, with one gradient a person. With `strong` > 0 about log log n whole runs on equal parts of the people follow one
    another, each in a ball around the last end, as wide as strong convexity says the optimum is away (their Theorem 5.1).

    Guarantee
        Statement: costs Gaussian(1 / mu), under zero-out: a person is in one phase, which costs that.
        Conditions and proof: as for `BoltOnDescent`; the phases hold different places (parallel composition), and a later phase sees an
        earlier one only through what it released.
    """

    ball: L2Ball
    clip: float
    smoothness: float
    places: int
    guarantee: Guarantee
    strong: float = 0.0

    @property
    def event(self) -> Event:
        return self.phases()[0][1].event

    def phases(self, ball: L2Ball | None = None, places: int | None = None) -> list[tuple[int, BoltOnDescent]]:
        """How many people each phase has, and its plan."""
        left, base = places or self.places, ball or self.ball
        mu = self.guarantee.gaussian_mu
        n = left
        first = 2 * base.radius / self.clip * min(1 / math.sqrt(n), mu / math.sqrt(base.dimension))
        found, turn = list[tuple[int, BoltOnDescent]](), 1
        while left > 0:
            size = max(min(n // 2**turn, left), 1)
            size = left if n // 2 ** (turn + 1) < 1 else size
            length = min(first / 4**turn, 2 / self.smoothness)
            found.append(
                (size, BoltOnDescent.plan(self.guarantee, base, clip=self.clip, smoothness=self.smoothness, places=size, length=length))
            )
            left, turn = left - size, turn + 1
        return found

    def run(self, people: Sequence[Person]) -> Array:
        """The end of the last phase."""
        given = list(people)[: self.places] + [None] * max(self.places - len(people), 0)
        if not self.strong:
            return self._localised(given, self.ball, np.zeros(self.ball.dimension))
        # the distance to the optimum goes as the root of the excess, so log log n rounds are enough
        rounds = max(1, round(math.log2(max(math.log2(max(self.places, 2)), 1))))
        theta, radius, mu = np.zeros(self.ball.dimension), self.ball.radius, self.guarantee.gaussian_mu
        for part in np.array_split(np.arange(self.places), rounds):
            theta = self._localised([given[i] for i in part], L2Ball(self.ball.dimension, radius=radius), theta)
            excess = self.clip * radius * (1 / math.sqrt(max(len(part), 1)) + math.sqrt(self.ball.dimension) / (max(len(part), 1) * mu))
            radius = min(radius, math.sqrt(2 * excess / self.strong))  # strong / 2 |theta - optimum|^2 <= excess
        return self.ball.project(theta)

    def _localised(self, people: Sequence[Person], ball: L2Ball, centre: Array) -> Array:
        """All phases, in coordinates around a centre, with which the ball moves."""

        def moved(person: Person) -> Person:
            return None if person is None else lambda theta: person(theta + centre)

        theta, at = np.zeros(ball.dimension), 0
        for size, plan in self.phases(ball, len(people)):
            theta = plan.run([moved(person) for person in people[at : at + size]], start=theta)
            at += size
        return centre + theta


def iteration_multiplier(*, position: int, places: int, clip: float, sigma: float) -> float:
    """The noise multiplier of the last point of noisy descent for the person at a place, where noise of `sigma` is on every gradient.

    Amplification by iteration (Feldman, Mironov, Talwar, Thakurta 2018, Theorem 23, for zero-out): with steps that move points no farther
    apart, later noise hides an earlier person: sigma sqrt(places + 1 - position) / clip instead of sigma / clip. It is a theorem about
    real numbers; a float's rounding does not contract, so nothing in Tacit is priced by it: a pass with noise in every step is priced
    by Gaussian(sigma / clip), each person once.
    """
    n, at = count("places", places), count("position", position)
    if at > n:
        raise ParameterError("position must be at most places")
    return float(positive("sigma", sigma)) * math.sqrt(n + 1 - at) / float(positive("clip", clip))


@dataclass(frozen=True)
class LocalExponential:
    """The exponential mechanism over the lattice points of a small ball, drawn by a chain of fixed length.

    Around a released centre (localisation), the sum of losses is compared with its value at the centre, and what lies `width` above or
    below counts as that. A chain of independent uniform proposals (Metropolis and Hastings) then forgets its start by the factor
    1 - exp(-2 width) a step, whatever the data are (Mengersen, Tweedie 1996, Theorem 2.1), so its length is public and its distance to the
    exact law is below `miss`.

    Guarantee
        Statement: costs ApproxDP(epsilon, (1 + e^epsilon) miss) under the relation given.
        Conditions: a person's loss changes by at most `slope` times the distance of two points, which is enforced by cutting it; the
        ball and the centre are public or released.
        Proved in: a person moves a score by at most slope * radius, twice when exchanged, in units that are cut towards 0, and weights are
        exp(epsilon score / (2 that)); a law within `miss` of an epsilon-DP one in total variation is (epsilon, (1 + e^epsilon) miss)-DP.
        Coins of probability exp(-x) are exact for the whole number of units x.
    """

    centre: Array
    radius: float
    points: int  # lattice points along a radius
    slope: float
    epsilon: float
    adjacency: Adjacency
    width: float = 3.0
    miss: float = 1e-9

    @property
    def steps(self) -> int:
        """How many proposals bring the chain within `miss` of its law."""
        return math.ceil(math.log(self.miss) / math.log1p(-math.exp(-2 * self.width)))

    @property
    def event(self) -> Event:
        return ApproxDP(self.epsilon, (1 + math.exp(self.epsilon)) * self.miss, adjacency=self.adjacency)

    @property
    def moved(self) -> int:
        """How many units one person moves a score by: a loss is 1 unit for a thousandth of its range."""
        return (1000 + 1) * (2 if self.adjacency is Adjacency.REPLACE_ONE else 1)

    def scores(self, losses: Callable[[Array], Array], thetas: Array) -> NDArray[np.int64]:
        """Minus the sum of losses at points less that at the centre, in units, cut to what `width` allows."""
        most = self.slope * self.radius

        def finite(theta: Array) -> Array:
            return np.clip(np.nan_to_num(np.asarray(losses(theta), dtype=np.float64)), -1e150, 1e150)

        here = finite(self.centre)
        sums = [int(np.trunc(np.clip(finite(theta) - here, -most, most) / most * 1000).astype(np.int64).sum()) for theta in thetas]
        limit = math.floor(self.width / float(self.rate))
        return -np.clip(np.array(sums, dtype=np.int64), -limit, limit)

    @property
    def rate(self) -> Fraction:
        """The exponent of one unit."""
        return Fraction(self.epsilon) / (2 * self.moved)

    def proposals(self, size: int) -> Array:
        """Uniform lattice points of the ball; the ball is public, so that trying again for a point outside tells nothing."""
        p, found = len(self.centre), list[Array]()
        while len(found) < size:
            drawn = np.asarray(uniform_integers(2 * self.points + 1, size=(size, p))) - self.points
            inside = (drawn * drawn).sum(axis=1) <= self.points**2
            found += list(self.centre + self.radius / self.points * drawn[inside])
        return np.array(found[:size])

    def run(self, losses: Callable[[Array], Array]) -> Array:
        """One draw; `losses` gives every person's loss at a point."""
        points = self.proposals(self.steps + 1)
        scores = self.scores(losses, points)
        at = 0
        for turn in range(1, len(points)):
            fall = max(int(scores[at] - scores[turn]), 0)
            if coin(self.rate * fall):
                at = turn
        found: Array = from_lattice(round_to_lattice(points[at], STEP), STEP)
        return found
