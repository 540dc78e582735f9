"""Above threshold, the sparse vector technique: ask any number of questions, learn which lie above a public threshold, pay once.

Answers of "below" are free, however many there are; after `aboves` answers of "above" it halts. The whole price is charged
when the mechanism is made, before the first question. Questions are plans without noise, whose stability is checked against
the declared sensitivity before they touch the data. On a vector of scores in L-infinity the questions are its coordinates,
asked in order.

>>> from tacit.calculus import AddRemove, Integers, Rows, Space, count
>>> rows = Space(Rows(Integers(0, 9)), AddRemove())
>>> plan = rows >> above_threshold(epsilon=1, threshold=1000, aboves=2)
>>> plan.event(1)
PureDP(epsilon=Fraction(1, 1))
>>> queries = plan.release([1, 2, 3]).value
>>> queries.ask(rows >> count()), queries.halted
(False, False)
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Self

from tacit.accounting import Event, NoOp, ParameterError, PureDP, Refusal
from tacit.calculus import Absolute, CalculusError, Integers, Lattice, LInfinity, Measurement, MetricError, Space, Transformation, Vectors
from tacit.ledger import HomeProcess, InteractiveMeasurement
from tacit.mechanisms.exponential import above, least_epsilon, scores_of
from tacit.mechanisms.mechanism import Mechanism
from tacit.mechanisms.selection_laws import above_threshold_law
from tacit.mechanisms.verify import Interval
from tacit.noise import discrete_laplace, from_lattice, is_private
from tacit.parameters import Number, count, number, positive, probability

Answer = bool | int | float | None


class HaltedError(Refusal, RuntimeError):
    """All answers that were paid for have been given."""


@dataclass(frozen=True)
class AboveThreshold(Mechanism):
    """Whether each question's answer lies at or above a threshold, until `aboves` of them did.

    With `numeric`, a share of epsilon buys the value of each one above, with noise of its own: NumericSparse (Dwork and Roth 2014,
    Algorithm 3).

    Guarantee
        Statement: with questions of sensitivity at most `sensitivity`, epsilon * d-DP at distance d, whatever is asked, in whatever order,
        and however questions depend on answers before.
        Conditions: answers are whole numbers (of granules). Noise on the threshold is discrete Laplace of scale sensitivity / e1, drawn
        once; on each question, fresh, of scale 2 * aboves * sensitivity / e2, or half of it where `monotone`: between neighbours all
        answers move the same way. Values, where asked for, have fresh noise of scale aboves * sensitivity / e3. e1 + e2 + e3 = epsilon.
        Proved in: Lyu, Su and Li 2017, Theorems 2 to 5 (Algorithm 7); Dwork and Roth 2014, Theorem 3.23, for one "above". Both move the
        noise of the threshold by the sensitivity and that of an "above" by twice that, whole numbers here, so the proofs hold
        for discrete noise word for word. Groups: the price grows by one sensitivity with each step between neighbours.
        Correction: four published variants are not private (Lyu, Su and Li 2017, Algorithms 3 to 6), nor is one that publishes raw values:
        `tests/attacks/broken_svt.py` has them, with what gives them away. What they leave out: fresh noise on questions, noise that
        grows with `aboves`, the halt, or new noise for a value that is published.
    """

    epsilon: Number
    threshold: Number
    aboves: int = 1
    sensitivity: Number = 1
    monotone: bool = False
    numeric: Number = 0
    share: Number | None = None
    granularity: Number = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive("epsilon", self.epsilon))
        object.__setattr__(self, "aboves", count("aboves", self.aboves))
        object.__setattr__(self, "sensitivity", positive("sensitivity", self.sensitivity))
        object.__setattr__(self, "granularity", positive("granularity", self.granularity))
        threshold = number("threshold", self.threshold)
        if isinstance(threshold, float) and math.isinf(threshold):
            raise ParameterError("threshold must be finite")
        object.__setattr__(self, "threshold", threshold)
        if not 0 <= number("numeric", self.numeric) < 1:
            raise ParameterError(f"numeric, the share of epsilon for values, must be at least 0 and less than 1, not {self.numeric}")
        if self.share is not None and not 0 < number("share", self.share) < 1:
            raise ParameterError(f"share, of the threshold in what is left for comparisons, must lie between 0 and 1, not {self.share}")

    @property
    def budgets(self) -> tuple[Fraction, Fraction, Fraction]:
        """Epsilon for the threshold, the comparisons and the values; they add up to epsilon exactly.

        Threshold to comparisons as 1 to (2 aboves)^(2/3), or aboves^(2/3) where monotone: least variance of the difference of the two
        noises (Lyu, Su and Li 2017, section 4.2). Any split is private; this one is kept to twelve digits.

        >>> above_threshold(epsilon=1, threshold=0, share=Fraction(1, 2)).budgets
        (Fraction(1, 2), Fraction(1, 2), Fraction(0, 1))
        """
        total = Fraction(self.epsilon)
        values = total * Fraction(self.numeric)
        share = self.share
        if share is None:
            share = Fraction(round(10**12 / (1 + ((1 if self.monotone else 2) * self.aboves) ** (2 / 3))), 10**12)
        first = (total - values) * Fraction(share)
        return first, total - values - first, values

    @property
    def scales(self) -> tuple[Fraction, Fraction, Fraction | None]:
        """The scales of noise, in real units: of the threshold, of each question, and of each value (None without)."""
        first, second, third = self.budgets
        step = Fraction(self.sensitivity)
        questions = (1 if self.monotone else 2) * self.aboves * step / second
        return step / first, questions, self.aboves * step / third if third else None

    def bind(self, space: Space) -> Measurement:
        function: Callable[[Any], Any]
        if isinstance(space.domain, Vectors):
            function, per_unit = self._on_scores(space)
        elif space.metric.adjacency is not None:
            if self.monotone:
                raise MetricError("monotone=True is for scores in LInfinity(monotone=True); no step says that it only grows with the data")
            function, per_unit = (lambda data: Queries(self, space, data)), Fraction(1)
        else:
            raise MetricError(f"above_threshold asks questions of a data set or of scores in LInfinity(), not in {space.metric}")

        def privacy(distance: Number) -> Event:
            price = Fraction(self.epsilon) * math.floor(distance) * per_unit
            return PureDP(price) if price else NoOp()

        return Measurement(space, function, privacy, f"above_threshold(epsilon={self.epsilon})", "Lyu, Su and Li 2017, Theorems 2 to 5")

    def interactive(self, space: Space) -> InteractiveMeasurement | None:
        """The same as a conversation that a `Queryable` opens; None on a vector of scores, which is answered at once.

        It is pure, and conversations of pure mechanisms may be interleaved at the price of composition (Vadhan and Wang 2021); a
        queryable whose conversations may not be interleaved freezes it when something else is asked.
        """
        if isinstance(space.domain, Vectors):
            return None
        plan = self.bind(space)
        return InteractiveMeasurement(
            space, lambda data: Queries(self, space, data).ask, plan.privacy, plan.name, "Lyu, Su and Li 2017, Theorems 2 to 5"
        )

    def _on_scores(self, space: Space) -> tuple[Callable[[Any], list[Answer]], Fraction]:
        """All coordinates in order, up to the halt; and how many sensitivities one granule of distance is worth."""
        scores = scores_of(space, "above_threshold")
        if self.monotone and space.metric != LInfinity(monotone=True):
            raise MetricError(f"monotone=True needs scores in LInfinity(monotone=True), and distances are measured by {space.metric}")

        def run(values: Any) -> list[Answer]:
            sparse = Sparse(self, scores.granularity)
            return [sparse.ask(int(value)) for value in values if not sparse.halted]

        return run, scores.granularity / Fraction(self.sensitivity)

    def distribution(self, value: Sequence[Number], *, bits: int = 96) -> dict[tuple[bool, ...], Interval]:
        """The probability of every sequence of answers to these whole numbers, asked in order up to the halt, enclosed in fractions.

        >>> law = above_threshold(epsilon=1, threshold=0).distribution([0, 0])
        >>> sorted(law)
        [(False, False), (False, True), (True,)]
        """
        threshold, question, numeric = self.scales
        if numeric is not None:
            raise ParameterError("with numeric values there are too many answers to list; verify the same mechanism without them")
        unit = Fraction(self.granularity)
        return above_threshold_law(value, Fraction(self.threshold) / unit, self.aboves, (threshold / unit, question / unit), bits)

    def accuracy(self, beta: Number, questions: int = 1) -> float:
        """Except with probability `beta`, every "above" of so many answers is at least threshold - alpha, every "below" at most + alpha.

        >>> above_threshold(epsilon=1, threshold=0).accuracy(0.05, questions=100)
        40.63561...
        """
        asked, chance = count("questions", questions), positive("beta", probability("beta", beta))
        threshold, question, _ = self.scales
        # A discrete Laplace exceeds t either way with probability below 2 exp(-t / scale); half of beta goes to the threshold.
        tail = math.log(4) - math.log(chance)
        return above(float(threshold) * tail + float(question) * (tail + math.log(asked)))

    @classmethod
    def for_accuracy(cls, alpha: Number, beta: Number, threshold: Number = 0, questions: int = 1, aboves: int = 1) -> Self:
        """The mechanism with the least epsilon that keeps an error of `alpha` in all questions except with probability `beta`.

        >>> above_threshold(1, 0).for_accuracy(10, 0.05, questions=100).accuracy(0.05, questions=100) <= 10
        True
        """
        epsilon = least_epsilon(lambda epsilon: cls(epsilon, threshold, aboves).accuracy(beta, questions), alpha)
        return cls(epsilon, threshold, aboves)


@dataclass
class Sparse:
    """The running state on whole numbers: the noisy threshold and how many answers of "above" are left.

    It believes its caller about the sensitivity; `Queries` checks it. The noise of the threshold is drawn once, at the start, that of
    each question when it is asked. Safe to use from several threads; a forked child is refused, for it would answer as often again.

    >>> sparse = Sparse(above_threshold(epsilon=1, threshold=0))
    >>> sparse.ask(1000), sparse.halted
    (True, True)
    """

    mechanism: AboveThreshold
    granularity: Fraction = Fraction(1)
    left: int = field(init=False)
    _bar: int = field(init=False, repr=False)
    _scales: tuple[Fraction, Fraction, Fraction | None] = field(init=False, repr=False)
    _lock: threading.Lock = field(init=False, repr=False, default_factory=threading.Lock)
    _home: HomeProcess = field(init=False, repr=False, default_factory=HomeProcess)

    def __post_init__(self) -> None:
        self.left, self._scales = self.mechanism.aboves, self.mechanism.scales
        # A threshold between two lattice points is met by the same points as the upper one.
        self._bar = math.ceil(Fraction(self.mechanism.threshold) / self.granularity) + self._noise(self._scales[0])

    def _noise(self, scale: Fraction) -> int:
        return discrete_laplace(scale / self.granularity)

    @property
    def halted(self) -> bool:
        """Whether all answers of "above" have been given. Public: it follows from the answers."""
        return self.left == 0

    def ask(self, value: int) -> Answer:
        """Whether a whole number (of granules) is at or above the threshold, up to noise; in the numeric form its noisy value, or None."""
        self._home.insist()
        with self._lock:
            if self.halted:
                raise HaltedError(
                    f"all {self.mechanism.aboves} answers above the threshold have been given; a new above_threshold costs again"
                )
            _, question, numeric = self._scales
            found = value + self._noise(question) >= self._bar
            self.left -= found
            if numeric is None:
                return bool(found)
            if not found:
                return None
            noisy = value + self._noise(numeric)
            return noisy if self.granularity == 1 else from_lattice(noisy, self.granularity)


class Queries:
    """An interactive measurement: questions about one data set, asked one at a time. Made by `above_threshold` on a data set.

    `private` is False as soon as noise came from a seed.
    """

    def __init__(self, mechanism: AboveThreshold, space: Space, data: Any) -> None:
        self._space, self._data = space, data
        self._mechanism = mechanism
        self._sparse = Sparse(mechanism, Fraction(mechanism.granularity))
        self.private = is_private()

    def __repr__(self) -> str:
        return f"Queries({self._mechanism!r}, left={self.left})"

    @property
    def left(self) -> int:
        """How many answers of "above" are left."""
        return self._sparse.left

    @property
    def halted(self) -> bool:
        """Whether no more questions are answered."""
        return self._sparse.halted

    def ask(self, question: Transformation) -> Answer:
        """One question: a plan from the data to one whole number. Refused, before it touches the data, if its sensitivity is too large."""
        step = self._check(question)
        self.private &= is_private()
        return self._sparse.ask(step * int(question(self._data)))

    def _check(self, question: Transformation) -> int:
        if not isinstance(question, Transformation):
            raise CalculusError("a question is a plan without noise, such as rows >> count(); a measurement is paid for on its own")
        question.input.accepts(self._space)
        if question.unproved:
            raise CalculusError(f"a question must have a proof of its stability, and {', '.join(question.unproved)} has none")
        domain = question.output.domain
        if not isinstance(question.output.metric, Absolute) or not isinstance(domain, (Integers, Lattice)):
            raise CalculusError(f"a question ends in one whole number or lattice value, not in {domain}; add a step such as count()")
        unit = question.output.unit
        step = unit / Fraction(self._mechanism.granularity)
        if step.denominator != 1:
            raise CalculusError(f"answers are multiples of {unit}, which is no multiple of granularity={self._mechanism.granularity}")
        moves = math.floor(question.map(1)) * unit
        if moves > Fraction(self._mechanism.sensitivity):
            raise CalculusError(
                f"the question's sensitivity is {moves} and the declared one {self._mechanism.sensitivity}; "
                "clamp the question, or declare a larger sensitivity"
            )
        return int(step)


def above_threshold(
    epsilon: Number, threshold: Number, aboves: int = 1, *, sensitivity: Number = 1, monotone: bool = False,
    numeric: Number = 0, share: Number | None = None, granularity: Number = 1,
) -> AboveThreshold:  # fmt: skip
    """The sparse vector technique: `epsilon` in total, for any number of questions, up to `aboves` answers of "above".

    `numeric` is the share of epsilon that buys the values above; `share` what the threshold gets of the rest; `granularity` the lattice on
    which questions are compared, of which the answers of all questions must be multiples.

    >>> above_threshold(epsilon=1, threshold=10, aboves=3).scales[1] > above_threshold(epsilon=1, threshold=10).scales[1]
    True
    """
    return AboveThreshold(epsilon, threshold, aboves, sensitivity, monotone, numeric, share, granularity)
