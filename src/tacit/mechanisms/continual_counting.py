"""Continual counting: the running total of a stream, published after every item, at one price for the whole stream.

Both mechanisms measure *whole-numbered* combinations of the stream with rounded noise; everything after that is
post-processing. `continual_counting` chooses between them for a price.

- `binary_tree`: at time t the sum of the last 2^i items, 2^i the largest power of two that divides t; a running total is a
  sum of at most floor(log2 T) + 1 of them (Dwork, Naor, Pitassi, Rothblum 2010; Chan, Shi, Song 2011).
- `square_root`: the stream filtered by the coefficients of (1 - z)^(-1/2), rounded to multiples of 2^-20, which are then
  inverted as they are; the running total comes out unbiased, and the sensitivity is that of the integers used, not of the
  irrational limit (Fichtenberger, Henzinger, Upadhyay 2023; Henzinger, Upadhyay, Upadhyay 2023).

>>> from tacit.calculus import Hamming, Integers, Vectors
>>> stream = Space(Vectors(Integers(0, 1), 1000), Hamming())
>>> plan = stream >> binary_tree(1000, scale=20)
>>> plan.event(1)
Repeated(event=Laplace(noise_multiplier=20, adjacency=Adjacency.REPLACE_ONE), count=10)
>>> counter = binary_tree(1000, scale=20).open(stream)
>>> [isinstance(counter.push(1), int) for _ in range(3)]
[True, True, True]
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Self

import numpy as np

from tacit.accounting import Event, NoOp, ParameterError, Repeated, tree_block, tree_blocks, tree_levels, whole_square_root
from tacit.calculus import L1, Domain, DomainError, Hamming, Integers, Measurement, MetricError, Space, Vectors
from tacit.exact import root
from tacit.ledger import HomeProcess
from tacit.mechanisms.accuracy import failure, gaussian_error, laplace_sum_error, largest_scale, rounded_up
from tacit.mechanisms.mechanism import Mechanism
from tacit.mechanisms.noisy_sums import Law, NoisySums, tidy
from tacit.mechanisms.smooth_sensitivity import bounded_rows
from tacit.noise import from_lattice
from tacit.parameters import Number, count, positive

PRECISION = 2**20


@dataclass(frozen=True)
class _Parts:
    """A mechanism on a space: its price, its noise, and the step from items, earlier measurements and noise to the next
    measurement and running total.
    """

    privacy: Callable[[Number], Event]
    draw: Callable[[int | None], Any]
    step: Callable[[list[int], list[int], int], tuple[int, Any]]


class Counter:
    """A running total that is told one item after the other. Its price covers the whole horizon, however much of it is used.

    Safe to use from several threads. It cannot be copied, and a forked child is refused: two copies would measure the same items twice.
    """

    def __init__(self, element: Domain, event: Event, parts: _Parts, horizon: int) -> None:
        self.event, self.horizon = event, horizon
        self._element, self._parts = element, parts
        self._items, self._measured = list[int](), list[int]()
        self._lock, self._home = threading.Lock(), HomeProcess()

    @property
    def time(self) -> int:
        """How many items were counted."""
        return len(self._items)

    def push(self, item: Any) -> Any:
        """Count one more item, moved into its public bounds, and publish the noisy total so far."""
        self._home.insist()
        # Two threads at once would measure one block twice, and leave another out.
        with self._lock:
            if self.time == self.horizon:
                raise ParameterError(f"the horizon of {self.horizon} items is reached; open another counter, which is another spend")
            self._items.append(int(self._element.enforce([item])[0]))
            measured, total = self._parts.step(self._items, self._measured, int(self._parts.draw(None)))
            self._measured.append(measured)
            return total


def _stream_of(space: Space, horizon: int, what: str) -> tuple[int, Fraction | None]:
    """The width of one item in granules and the granularity of a stream of public length; or a refusal."""
    if isinstance(space.metric, L1) and isinstance(space.domain, Vectors) and isinstance(space.domain.element, Integers):
        # Counts: a unit moves any of them, by the distance in all. The proofs only use how far all items move together.
        lower, upper, granularity = 0, 1, None
    else:
        lower, upper, granularity = bounded_rows(space, what)
        if not isinstance(space.domain, Vectors) or not isinstance(space.metric, Hamming):
            raise MetricError(f"{what} needs a stream: a vector of public length under Hamming(), not {space.domain} under {space.metric}")
    if space.domain.length != horizon:
        raise DomainError(f"the stream has {space.domain.length} items and the horizon is {horizon}; make them equal")
    if upper == lower:
        raise DomainError("the bounds of an item must not be equal: there is nothing to count")
    return upper - lower, granularity


class _Continual(Mechanism):
    """What both mechanisms share: the whole stream at once, or item by item."""

    horizon: int

    def _parts(self, space: Space) -> _Parts:
        raise NotImplementedError

    def bind(self, space: Space) -> Measurement:
        parts = self._parts(space)

        def answer(values: Any) -> np.ndarray:
            items, measured, totals = [], list[int](), []
            for value, drawn in zip(np.asarray(values).tolist(), parts.draw(self.horizon).tolist(), strict=True):
                items.append(int(value))
                found, total = parts.step(items, measured, int(drawn))
                measured.append(found)
                totals.append(total)
            return np.array(totals)

        name = f"{type(self).__name__}({self.horizon})"
        return Measurement(
            space, answer, parts.privacy, name, "see Guarantee", accuracy=lambda beta: self.error(beta, granularity=space.unit)
        )

    def open(self, space: Space, distance: Number = 1) -> Counter:
        """The mechanism as a stream: items are pushed one by one, and each running total is published at once."""
        parts, event = self._parts(space), self.bind(space).event(distance)
        assert isinstance(space.domain, Vectors)
        return Counter(space.domain.element, event, parts, self.horizon)

    def error(self, beta: Number, *, granularity: Number = 1, simultaneous: bool = False) -> float:
        raise NotImplementedError

    def accuracy(self, beta: Number) -> float:
        """The error at any one time on whole numbers; `error` has the details."""
        return self.error(beta)


@dataclass(frozen=True)
class BinaryTree(_Continual):
    """Running totals from noisy sums over blocks of 1, 2, 4, ... items; `scale` is the Laplace scale or the sigma of each block.

    Guarantee
        Statement: d changed items cost the composition of floor(log2 T) + 1 Laplace (or Gaussian) mechanisms, each shifted by d times the
        width of an item's bounds. This covers all T published totals together.
        Conditions: Hamming distance on a stream of public length, items in public bounds; or whole counts without bounds under L1(),
        where d is the sum of all changes and the width is 1.
        Proved in: Chan, Shi and Song 2011. Blocks of one size are disjoint, so d changed items shift them by d widths in total,
        and spread over several coordinates that is no worse than on one (see the Guarantee of `laplace`).
    """

    horizon: int
    scale: Number
    kind: Law = "laplace"

    def __post_init__(self) -> None:
        object.__setattr__(self, "horizon", count("horizon", self.horizon))
        object.__setattr__(self, "scale", positive("scale", self.scale))
        if self.kind not in ("laplace", "gaussian"):
            raise ParameterError(f"kind must be 'laplace' or 'gaussian', not {self.kind!r}")

    @property
    def levels(self) -> int:
        """In how many blocks one item is counted at most: floor(log2 T) + 1."""
        return tree_levels(self.horizon)

    @property
    def terms(self) -> int:
        """Of how many blocks a running total is made at most."""
        return max(self.horizon.bit_count(), self.horizon.bit_length() - 1)

    def _parts(self, space: Space) -> _Parts:
        width, granularity = _stream_of(space, self.horizon, "binary_tree")
        granules = Fraction(self.scale) / (granularity or 1)
        noise = NoisySums.of_scale(self.kind, granules, moved=width)

        def privacy(distance: Number) -> Event:
            changed = math.floor(distance)
            return Repeated(noise.moving(changed * width).event, self.levels) if changed else NoOp()

        def step(items: list[int], measured: list[int], drawn: int) -> tuple[int, Any]:
            time = len(items)
            found = sum(items[time - tree_block(time) :]) + drawn
            total = found + sum(measured[last - 1] for _, last in tree_blocks(time)[:-1])
            return found, total if granularity is None else from_lattice(total, granularity)

        return _Parts(privacy, noise.draw, step)

    def error(self, beta: Number, *, granularity: Number = 1, simultaneous: bool = False) -> float:
        """An error that a running total exceeds with probability at most beta; with `simultaneous`, that any of them does.

        >>> round(binary_tree(1000, scale=10).error(0.05), 1)
        88.7
        """
        each = failure(beta) / (self.horizon if simultaneous else 1)
        rounding = self.terms * float(granularity) / 2
        if self.kind == "laplace":
            return rounded_up(laplace_sum_error(self.terms, each, self.scale) + rounding)
        return rounded_up(gaussian_error(float(self.scale) * math.sqrt(self.terms) * (1 + 1e-15), each) + rounding)

    @classmethod
    def for_accuracy(cls, alpha: Number, beta: Number, *, horizon: int = 1000, kind: Law = "laplace") -> Self:
        """The largest scale whose totals, each by itself, err by more than alpha with probability at most beta."""
        wanted = float(positive("alpha", alpha))
        return cls(horizon, largest_scale(lambda scale: cls(horizon, scale, kind).error(beta) <= wanted, wanted), kind)

    @classmethod
    def for_epsilon(cls, epsilon: Number, *, horizon: int, width: Number = 1) -> Self:
        """The Laplace scale at which one changed item costs epsilon in all.

        >>> BinaryTree.for_epsilon(Fraction(1, 2), horizon=1000).scale
        20
        """
        levels = tree_levels(count("horizon", horizon))
        return cls(horizon, tidy(levels * Fraction(positive("width", width)) / Fraction(positive("epsilon", epsilon))))

    @classmethod
    def for_rho(cls, rho: Number, *, horizon: int, width: Number = 1) -> Self:
        """The sigma at which one changed item costs rho (zCDP) in all: width * sqrt(levels / (2 rho)), rounded up."""
        levels = tree_levels(count("horizon", horizon))
        return cls(horizon, tidy(Fraction(width) * root(Fraction(levels) / (2 * Fraction(positive("rho", rho))))), "gaussian")


@lru_cache(maxsize=16)
def coefficients(horizon: int) -> tuple[int, ...]:
    """binom(2k, k) / 4^k, the coefficients of (1 - z)^(-1/2), in whole multiples of 2^-20.

    >>> [c / PRECISION for c in coefficients(4)]
    [1.0, 0.5, 0.375, 0.3125]
    """
    # any whole numbers will do, for the inverse is taken of the ones that are used
    return tuple(whole_square_root(horizon, PRECISION).tolist())


@lru_cache(maxsize=16)
def _inverse(horizon: int) -> np.ndarray:
    """The coefficients of 1 / ((1 - z) R(z)): they turn measurements into running totals."""
    used = np.array(coefficients(horizon), dtype=float)
    inverse = np.zeros(horizon)
    inverse[0] = 1 / used[0]
    for k in range(1, horizon):
        inverse[k] = -(used[1 : k + 1] @ inverse[k - 1 :: -1] if k > 1 else used[1] * inverse[0]) / used[0]
    return np.cumsum(inverse)


@dataclass(frozen=True)
class SquareRoot(_Continual):
    """Running totals by the square-root factorisation; `sigma` is the Gaussian noise on each filtered item, in the unit of the stream.

    Guarantee
        Statement: d changed items cost one Gaussian mechanism of noise multiplier sigma / (d * width * norm), norm the Euclidean norm of
        the coefficients used. This covers all T published totals together.
        Conditions: Hamming distance on a stream of public length, items in public bounds; or whole counts without bounds under L1(),
        where d is the sum of all changes and the width is 1.
        Proved in: the measurements are integers whose distance is at most d * width * norm, as every column of the triangular filter is a
        piece of the first; rounded Gaussian noise is post-processing of Gaussian noise; the inverse filter is post-processing.
    """

    horizon: int
    sigma: Number

    def __post_init__(self) -> None:
        object.__setattr__(self, "horizon", count("horizon", self.horizon))
        object.__setattr__(self, "sigma", positive("sigma", self.sigma))

    @property
    def norm(self) -> Fraction:
        """The Euclidean norm of the coefficients, an upper bound within 2^-64 of the truth."""
        return root(Fraction(sum(c * c for c in coefficients(self.horizon)), PRECISION**2))

    def _parts(self, space: Space) -> _Parts:
        width, granularity = _stream_of(space, self.horizon, "square_root")
        granules = Fraction(self.sigma) / (granularity or 1)
        used, inverse = coefficients(self.horizon), _inverse(self.horizon)
        noise = NoisySums("gaussian", (granules * PRECISION,), granules / (width * self.norm))

        def privacy(distance: Number) -> Event:
            changed = math.floor(distance)
            return replace(noise, multiplier=noise.multiplier / changed).event if changed else NoOp()

        def step(items: list[int], measured: list[int], drawn: int) -> tuple[int, float]:
            found = sum(c * item for c, item in zip(used, reversed(items), strict=False)) + drawn
            total = math.fsum(w * m for w, m in zip(inverse.tolist(), [found, *reversed(measured)], strict=False))
            return found, total * float(granularity or 1)

        return _Parts(privacy, noise.draw, step)

    def error(self, beta: Number, *, granularity: Number = 1, simultaneous: bool = False) -> float:
        """An error that a running total exceeds with probability at most beta; with `simultaneous`, that any of them does.

        >>> round(square_root(1000, sigma=10).error(0.05), 1)
        35.4
        """
        each = failure(beta) / (self.horizon if simultaneous else 1)
        weights = _inverse(self.horizon) * PRECISION
        rounding = float(np.abs(weights).sum()) * float(granularity) / PRECISION / 2
        return rounded_up(gaussian_error(float(self.sigma) * float(np.linalg.norm(weights)) * (1 + 1e-12), each) + rounding)

    @classmethod
    def for_accuracy(cls, alpha: Number, beta: Number, *, horizon: int = 1000) -> Self:
        """The largest sigma whose totals, each by itself, err by more than alpha with probability at most beta."""
        wanted = float(positive("alpha", alpha))
        return cls(horizon, largest_scale(lambda sigma: cls(horizon, sigma).error(beta) <= wanted, wanted))

    @classmethod
    def for_rho(cls, rho: Number, *, horizon: int, width: Number = 1) -> Self:
        """The sigma at which one changed item costs rho (zCDP) in all: width * norm / sqrt(2 rho), rounded up."""
        norm = cls(horizon, 1).norm
        return cls(horizon, tidy(Fraction(width) * norm * root(1 / (2 * Fraction(positive("rho", rho))))))


def binary_tree(horizon: int, scale: Number, kind: Law = "laplace") -> BinaryTree:
    """Running totals from a binary tree of noisy sums; `BinaryTree.for_epsilon` and `.for_rho` work the scale out."""
    return BinaryTree(horizon, scale, kind)


def square_root(horizon: int, sigma: Number) -> SquareRoot:
    """Running totals by the square-root factorisation; `SquareRoot.for_rho` works sigma out."""
    return SquareRoot(horizon, sigma)


def continual_counting(
    horizon: int, *, epsilon: Number | None = None, rho: Number | None = None, width: Number = 1, beta: Number = 0.05
) -> BinaryTree | SquareRoot:
    """The mechanism that errs least for a price of epsilon (pure: the binary tree) or of rho (zCDP: whichever is better).

    >>> type(continual_counting(1000, rho=0.1)).__name__, type(continual_counting(1000, epsilon=1)).__name__
    ('SquareRoot', 'BinaryTree')
    """
    if (epsilon is None) == (rho is None):
        raise ParameterError("give either epsilon (pure, Laplace noise) or rho (zCDP, Gaussian noise)")
    if epsilon is not None:
        return BinaryTree.for_epsilon(epsilon, horizon=horizon, width=width)
    assert rho is not None
    tree, root_ = BinaryTree.for_rho(rho, horizon=horizon, width=width), SquareRoot.for_rho(rho, horizon=horizon, width=width)
    return tree if tree.error(beta) < root_.error(beta) else root_
