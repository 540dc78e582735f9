"""The mean and the variance of values with public bounds.

Sums are taken about the middle of the bounds, which halves what one person can change. Where the number of rows is private
(add/remove) it gets noise of its own; where it is public (replace-one) it is used as it is. The answer also has the noisy
pieces it was made of, since they are paid for.

>>> from tacit.calculus import AddRemove, Integers, ReplaceOne, Rows
>>> from tacit.mechanisms.laplace import laplace
>>> plan = Space(Rows(Integers(0, 100)), AddRemove()) >> bounded_mean(total=laplace(100), count=laplace(2))
>>> plan.event(1)  # 50 is the most one person adds: epsilon 1/2 each
Composed(Laplace(noise_multiplier=2), Laplace(noise_multiplier=2))
>>> answer = plan.release([40] * 1000).value
>>> 30 < answer.value < 50
True
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np

from tacit.accounting import Composed, Event, NoOp, ParameterError
from tacit.calculus import Absolute, Integers, Lattice, Measurement, MetricError, Space, Step, exact_sum, exchanged
from tacit.mechanisms.accuracy import failure, least_that_keeps, rounded_up
from tacit.mechanisms.laplace import LaplaceMechanism
from tacit.mechanisms.mechanism import Mechanism, whole_rows
from tacit.parameters import Number, count, positive

PROOF = "composition of noisy sums about the middle of the bounds and, under add/remove, a noisy count; the rest is post-processing"


@dataclass(frozen=True)
class MeanAnswer:
    """A mean within its bounds, and the noisy pieces it was made of: the sum of deviations from `centre`, and the number of rows."""

    value: float
    total: float
    count: float
    centre: float


@dataclass(frozen=True)
class VarianceAnswer:
    """A variance between 0 and a quarter of the squared width of the bounds, the mean, and the noisy pieces.

    `squares` is the noisy sum of squared deviations from the centre, each less half of the largest.
    """

    value: float
    mean: float
    total: float
    squares: float
    count: float
    centre: float


@dataclass(frozen=True)
class _Rows:
    """Rows of whole numbers with public bounds, and how they may differ."""

    low: int
    high: int
    granularity: Fraction
    replaced: bool

    @property
    def width(self) -> int:
        return self.high - self.low

    @property
    def middle(self) -> Fraction:
        """The centre of the bounds in the unit of the answer."""
        return Fraction(self.low + self.high, 2) * self.granularity

    def sum_of_deviations(self, data: Any) -> int:
        """The sum of 2x - (low + high): deviations from the middle, in half granules; each at most the width in size."""
        return 2 * exact_sum(data) - len(data) * (self.low + self.high)

    def sum_of_squares(self, data: Any) -> int:
        """The sum of 2 (2x - low - high)^2 - width^2: eighths of squared granules; each at most width^2 in size."""
        array = np.asarray(data)
        shift = self.low + self.high
        if array.dtype != object and self.width < 2**30 and abs(shift) < 2**61:
            squares = exact_sum((2 * array - shift) ** 2)
        else:
            squares = sum((2 * x - shift) ** 2 for x in array.tolist())
        return 2 * squares - len(array) * self.width**2


def _rows(space: Space, what: str) -> _Rows:
    low, high, granularity = whole_rows(space, what)
    return _Rows(low, high, granularity or Fraction(1), exchanged(space, what))


def _check_least(least: Number) -> None:
    if positive("least", least) < 1:
        raise ParameterError(f"least must be at least 1: the number of rows never to divide by less than, not {least}")


def _counted(rows: _Rows, mechanism: Mechanism | None) -> Measurement | None:
    """The noisy count, where the number of rows is private."""
    if not rows.replaced and mechanism is None:
        raise MetricError("the number of rows is private under add/remove and needs noise of its own: give count=laplace(scale)")
    if rows.replaced and mechanism is not None:
        raise MetricError("the number of rows is public under replace-one; leave count out and spend the budget on the sum")
    return None if mechanism is None else mechanism.bind(Space(Integers(), Absolute()))


def _on(mechanism: Mechanism, granularity: Fraction) -> Measurement:
    return mechanism.bind(Space(Lattice(granularity), Absolute()))


def _priced(parts: list[tuple[Measurement, int]], counted: Measurement | None) -> Callable[[Number], Event]:
    """The composition of sums that move by so many granules a row, and of the count."""

    def privacy(distance: Number) -> Event:
        events = [part.privacy(distance * moved) for part, moved in [*parts, *([(counted, 1)] if counted else [])]]
        found = [event for event in events if not isinstance(event, NoOp)]
        return Composed(*found) if found else NoOp()

    return privacy


def _float(value: int | float) -> float:
    """A released piece as a float, infinite where it does not fit: a wild draw must not raise an error."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _share(total: float, rows: float) -> float:
    """total / rows, or 0 where a wild draw left floating point."""
    found = total / rows if math.isfinite(total) and math.isfinite(rows) else 0.0
    return found if math.isfinite(found) else 0.0


@dataclass(frozen=True)
class BoundedMean(Step):
    """A noisy sum about the middle of the bounds over a noisy (or public) number of rows, moved into the bounds.

    Guarantee
        Statement: d rows cost the composition of `total` at distance d (U - L)/2 and `count` at distance d under add/remove, and `total` at
        distance d (U - L) alone under replace-one.
        Conditions: values with public bounds L and U on a lattice; `least` public, at least 1.
        Proved in: textbook 1.4.4 with the noisy count of the classical remedy; composition.
        Correction: the textbook gives the mean a sensitivity of (U - L)/n under add/remove (E6). That holds only for exchanged rows and a
        public n; with n private the scale of the noise would itself depend on the data.
    """

    total: Mechanism
    count: Mechanism | None = None
    least: Number = 1

    def __post_init__(self) -> None:
        _check_least(self.least)

    def bind(self, space: Space) -> Measurement:
        rows = _rows(space, "bounded_mean")
        counted, total = _counted(rows, self.count), _on(self.total, rows.granularity / 2)
        parts = [(total, rows.width * (2 if rows.replaced else 1))]
        centre, half = float(rows.middle), float(rows.width * rows.granularity / 2)

        def function(data: Any) -> MeanAnswer:
            deviation = _float(total.function(rows.sum_of_deviations(data)))
            number = _float(len(data) if counted is None else counted.function(len(data)))
            offset = _share(deviation, max(number, float(self.least)))
            return MeanAnswer(centre + min(max(offset, -half), half), deviation, number, centre)

        return Measurement(space, function, _priced(parts, counted), "bounded_mean()", PROOF)

    def accuracy(self, beta: Number, *, n: int, space: Space) -> float:
        """The error of the mean of n rows of a space that is exceeded with probability at most beta; at most the width of the bounds.

        With errors a of the sum and b of the count, (S + a) / (n + b) is off by at most (|a| + |b| (U - L)/2) / (n - |b|).

        >>> from tacit.calculus import Integers, ReplaceOne, Rows
        >>> from tacit.mechanisms.laplace import laplace
        >>> plan = Space(Rows(Integers(0, 100), size=10_000), ReplaceOne())
        >>> round(bounded_mean(laplace(200)).accuracy(0.05, n=10_000, space=plan), 4)
        0.0599
        """
        fail, people = failure(beta), count("n", n)
        rows = _rows(space, "bounded_mean")
        counted, total = _counted(rows, self.count), _on(self.total, rows.granularity / 2)
        half = float(rows.width * rows.granularity / 2)
        if total.accuracy is None or (counted is not None and counted.accuracy is None):
            raise ParameterError("total and count must be mechanisms whose accuracy is known, such as laplace(scale)")
        if counted is None or counted.accuracy is None:
            return min(2 * half, rounded_up(total.accuracy(fail) / max(people, float(self.least))))
        off, lost = total.accuracy(fail / 2), counted.accuracy(fail / 2)
        left = max(people - lost, float(self.least))
        return min(2 * half, rounded_up((off + half * lost) / left)) if people >= self.least else 2 * half

    @classmethod
    def for_accuracy(
        cls, alpha: Number, beta: Number, *, n: int, space: Space, share: Number = Fraction(1, 2), least: Number = 1
    ) -> Self:
        """The mean with Laplace noise of least epsilon whose error on n rows of a space exceeds alpha with probability at most beta.

        Of epsilon, `share` goes to the sum and the rest to the count, where the number of rows is private.

        >>> from tacit.calculus import AddRemove, Integers, Rows
        >>> ages = Space(Rows(Integers(0, 100)), AddRemove())
        >>> found = BoundedMean.for_accuracy(1, 0.05, n=10_000, space=ages)
        >>> round(float((ages >> found).event(1).events[0].noise_multiplier), 2), found.accuracy(0.05, n=10_000, space=ages) <= 1
        (26.84, True)
        """
        rows, goal = _rows(space, "bounded_mean"), float(positive("alpha", alpha))

        ends = Fraction(rows.low) * rows.granularity, Fraction(rows.high) * rows.granularity

        def parts(epsilon: float) -> tuple[Mechanism, Mechanism | None]:
            found = mean_for_epsilon(epsilon, *ends, n_public=rows.replaced, share=share)
            return found.total, found.count

        epsilon = least_that_keeps(lambda epsilon: cls(*parts(epsilon), least).accuracy(beta, n=n, space=space) <= goal)
        return cls(*parts(epsilon), least)


@dataclass(frozen=True)
class BoundedVariance(Step):
    """Noisy sums of deviations and of their squares over a noisy (or public) number of rows: E(x - c)^2 - (E(x - c))^2.

    Guarantee
        Statement: d rows cost the composition of `total` at distance d R, `squares` at distance d R^2/2 and `count` at distance d under
        add/remove, where R = (U - L)/2; twice the first two, and no count, under replace-one.
        Conditions: values with public bounds on a lattice; `least` public, at least 1.
        Proved in: |x - c| <= R, and (x - c)^2 - R^2/2 lies within R^2/2 of 0; composition.
        Correction: none.
    """

    total: Mechanism
    squares: Mechanism
    count: Mechanism | None = None
    least: Number = 1

    def __post_init__(self) -> None:
        _check_least(self.least)

    def bind(self, space: Space) -> Measurement:
        rows = _rows(space, "bounded_variance")
        counted, twice = _counted(rows, self.count), 2 if rows.replaced else 1
        total, squares = _on(self.total, rows.granularity / 2), _on(self.squares, rows.granularity**2 / 8)
        parts = [(total, rows.width * twice), (squares, rows.width**2 * twice)]
        centre, half = float(rows.middle), float(rows.width * rows.granularity / 2)

        def function(data: Any) -> VarianceAnswer:
            deviation = _float(total.function(rows.sum_of_deviations(data)))
            spread = _float(squares.function(rows.sum_of_squares(data)))
            number = _float(len(data) if counted is None else counted.function(len(data)))
            divisor = max(number, float(self.least))
            offset = min(max(_share(deviation, divisor), -half), half)
            second = min(max(_share(spread, divisor) + half**2 / 2, 0.0), half**2)
            return VarianceAnswer(min(max(second - offset**2, 0.0), half**2), centre + offset, deviation, spread, number, centre)

        return Measurement(space, function, _priced(parts, counted), "bounded_variance()", PROOF)

    def accuracy(self, beta: Number, *, n: int, space: Space) -> float:
        """The error of the variance of n rows of a space that is exceeded with probability at most beta; at most R^2, its own range.

        With the second moment within a and the mean within b, each cut to its range, the variance is within a + 2 R b.

        >>> from tacit.calculus import Integers, ReplaceOne, Rows
        >>> from tacit.mechanisms.laplace import laplace
        >>> rows = Space(Rows(Integers(0, 100), size=10_000), ReplaceOne())
        >>> round(bounded_variance(laplace(200), laplace(5000)).accuracy(0.05, n=10_000, space=rows), 2)
        9.22
        """
        fail, people = failure(beta), count("n", n)
        rows = _rows(space, "bounded_variance")
        counted, half = _counted(rows, self.count), float(rows.width * rows.granularity / 2)
        errors = [_on(self.total, rows.granularity / 2).accuracy, _on(self.squares, rows.granularity**2 / 8).accuracy]
        errors += [counted.accuracy] if counted is not None else []
        if any(error is None for error in errors):
            raise ParameterError("total, squares and count must be mechanisms whose accuracy is known, such as laplace(scale)")
        off, wide, *lost = (error(fail / len(errors)) for error in errors if error is not None)
        missed = lost[0] if lost else 0.0
        left = max(people - missed, float(self.least))
        if people < self.least:
            return half**2
        mean, second = (off + half * missed) / left, (wide + half**2 / 2 * missed) / left
        return min(half**2, rounded_up(second + 2 * half * min(mean, 2 * half)))

    @classmethod
    def for_accuracy(cls, alpha: Number, beta: Number, *, n: int, space: Space, least: Number = 1) -> Self:
        """The variance with Laplace noise of least epsilon, in equal parts, whose error on n rows exceeds alpha with probability at most
        beta.

        >>> from tacit.calculus import AddRemove, Integers, Rows
        >>> ages = Space(Rows(Integers(0, 100)), AddRemove())
        >>> BoundedVariance.for_accuracy(100, 0.05, n=10_000, space=ages).accuracy(0.05, n=10_000, space=ages) <= 100
        True
        """
        rows, goal = _rows(space, "bounded_variance"), float(positive("alpha", alpha))
        width, twice = rows.width * rows.granularity, 2 if rows.replaced else 1

        def parts(epsilon: float) -> tuple[Mechanism, Mechanism, Mechanism | None]:
            each = Fraction(positive("epsilon", epsilon)) / (2 if rows.replaced else 3)
            total = LaplaceMechanism.for_epsilon(each, width / 2 * twice)
            squares = LaplaceMechanism.for_epsilon(each, width**2 / 8 * twice)
            return total, squares, None if rows.replaced else LaplaceMechanism.for_epsilon(each)

        epsilon = least_that_keeps(lambda epsilon: cls(*parts(epsilon), least).accuracy(beta, n=n, space=space) <= goal)
        return cls(*parts(epsilon), least)


def bounded_mean(total: Mechanism, count: Mechanism | None = None, *, least: Number = 1) -> BoundedMean:
    """The mean by a noisy sum and, under add/remove, a noisy count; `least` is the number of rows never to divide by less than."""
    return BoundedMean(total, count, least)


def bounded_variance(total: Mechanism, squares: Mechanism, count: Mechanism | None = None, *, least: Number = 1) -> BoundedVariance:
    """The variance by noisy sums of deviations and squares and, under add/remove, a noisy count."""
    return BoundedVariance(total, squares, count, least)


def mean_for_epsilon(
    epsilon: Number, lower: Number, upper: Number, *, n_public: bool = False, share: Number = Fraction(1, 2)
) -> BoundedMean:
    """The mean with Laplace noise that costs epsilon a row in all: `share` of it for the sum, the rest for the count.

    >>> mean_for_epsilon(1, 0, 100)
    BoundedMean(total=LaplaceMechanism(scale=100), count=LaplaceMechanism(scale=2), least=1)
    """
    budget, width = Fraction(positive("epsilon", epsilon)), Fraction(upper) - Fraction(lower)
    if width <= 0:
        raise ParameterError(f"lower must be below upper, not {lower} and {upper}")
    if n_public:
        return BoundedMean(LaplaceMechanism.for_epsilon(budget, width))
    part = Fraction(positive("share", share))
    if not part < 1:
        raise ParameterError(f"share must lie strictly between 0 and 1, not {share}")
    return BoundedMean(LaplaceMechanism.for_epsilon(budget * part, width / 2), LaplaceMechanism.for_epsilon(budget * (1 - part)))
