"""How many patients match: a count with two-sided geometric noise, then the analyst's own prior and loss, for free.

One patient changes the count of a cohort by one. The noisy count, clamped to a public range, is best for every prior
and every loss at once (Ghosh, Roughgarden, Sundararajan 2012), so it is drawn and paid for once, and each analyst
then reads it in the light of what she knows and what an error costs her. `exponential_count` is the older way, in
which the loss is fixed before the draw.

>>> import pathlib, tempfile
>>> from tacit.ledger import Budget, Ledger
>>> from tacit.tables import Session, Unit
>>> book = Ledger.open(f"sqlite:///{pathlib.Path(tempfile.mkdtemp()) / 'tacit.db'}")
>>> patients = {"id": list(range(3000)), "age": [30 + i % 50 for i in range(3000)]}
>>> session = Session(patients, unit=Unit("id", max_rows=1), budget=Budget(epsilon=1), name="patients", ledger=book)
>>> found = cohort_count(session, "SELECT COUNT(*) FROM patients WHERE age >= 70", epsilon=0.5, at_most=10_000)
>>> found.event, abs(found.value - 600) < 40
(DiscreteLaplace(scale=2, sensitivity=1), True)
>>> found.read(prior=prevalence(0.06, 10_000), loss=asymmetric(over=2, under=1)) <= found.value + 5
True
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.accounting import Event
from tacit.calculus import Absolute, Integers, LInfinity, Measurement, Space, Vectors, restate
from tacit.errors import ParameterError
from tacit.exact import Typed, exact
from tacit.ledger import paying
from tacit.mechanisms import exponential, geometric
from tacit.parameters import count, positive, probability
from tacit.tables import Cut, Desk, EngineError

if TYPE_CHECKING:
    from tacit.tables import Session

Floats = NDArray[np.float64]
#: The loss of an answer that is off by so much: answer minus count.
Loss = Callable[[Floats], ArrayLike]
#: A loss that is no function of the difference is a matrix; beyond this many counts it would not fit into memory.
LARGEST_MATRIX = 5_000
#: Candidates whose expected losses a transform cannot tell apart are compared again, exactly.
CLOSE = 1e-9
COUNTS = Space(Integers(), Absolute())


# --- what an analyst knows, and what an error costs her ------------------------------------------------------


def prevalence(rate: float, n: int) -> Floats:
    """The prior of a cohort in which each of n people is with probability `rate`: binomial, over 0 to n.

    >>> prior = prevalence(0.01, 1000)
    >>> len(prior), int(prior.argmax()), round(float(prior.sum()), 12)
    (1001, 10, 1.0)
    """
    from scipy.special import gammaln, xlog1py, xlogy

    share, size = float(probability("rate", rate)), count("n", n)
    k = np.arange(size + 1, dtype=float)
    chosen = gammaln(size + 1) - gammaln(k + 1) - gammaln(size - k + 1)
    found: Floats = np.exp(chosen + xlogy(k, share) + xlog1py(size - k, -share))
    return np.asarray(found / found.sum())


def uniform(n: int) -> Floats:
    """The prior of an analyst who knows nothing: every count from 0 to n alike."""
    size = count("n", n)
    return np.full(size + 1, 1 / (size + 1))


def absolute(difference: Floats) -> Floats:
    """The loss of an answer that is off by so much: how much."""
    return np.abs(difference)


def squared(difference: Floats) -> Floats:
    """The square of how much an answer is off."""
    return difference**2


def asymmetric(over: float, under: float) -> Loss:
    """The loss of an answer that costs `over` for each patient too many and `under` for each too few.

    >>> asymmetric(over=2, under=1)(np.array([-3.0, 3.0])).tolist()
    [3.0, 6.0]
    """
    up, down = float(positive("over", over)), float(positive("under", under))
    return lambda difference: np.where(difference > 0, up * difference, -down * difference)


def prior_of(given: ArrayLike | None, n: int) -> Floats:
    """A prior over 0 to n that sums to one; refused where it is negative, not finite, of another length, or 0."""
    if given is None:
        return uniform(n)
    try:
        found = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        raise ParameterError("prior must be a list of numbers, such as prevalence(0.01, n)") from None
    if found.shape != (n + 1,):
        raise ParameterError(f"prior must have one number for each count from 0 to {n}, which is {n + 1}")
    if not np.isfinite(found).all() or (found < 0).any() or not found.sum() > 0:
        raise ParameterError("prior must be finite, none below 0, and not 0 everywhere; give prevalence(0.01, n)")
    return np.asarray(found / found.sum())


def posterior(noisy: int, n: int, epsilon: float, prior: ArrayLike | None = None) -> Floats:
    """How likely each count from 0 to n is, given what was released: proportional to prior times exp(-epsilon |c - noisy|).

    The clamp changes nothing: at 0 and at n the mass of all noise beyond has the same shape in c.

    >>> after = posterior(3, 10, 1.0)
    >>> int(after.argmax()), round(float(after[4] / after[3]), 12) == round(math.exp(-1), 12)
    (3, True)
    """
    before = prior_of(prior, n)
    exponent = -float(epsilon) * np.abs(np.arange(n + 1, dtype=float) - noisy)
    with np.errstate(divide="ignore"):
        weight = exponent + np.log(before)
    found: Floats = np.exp(weight - weight.max())
    return np.asarray(found / found.sum())


def best_answer(
    noisy: int, n: int, epsilon: float, *, prior: ArrayLike | None = None, loss: Loss | ArrayLike = absolute
) -> int:
    """The answer of least expected loss. `loss` is a function of answer minus count, or a matrix [count, answer].

    >>> [best_answer(1000, 5000, e, loss=asymmetric(over=2, under=1)) for e in (0.1, 0.05)]
    [996, 992]
    """
    after = posterior(noisy, n, epsilon, prior)
    if not callable(loss):
        return _by_matrix(after, loss, n)
    steps = np.arange(-n, n + 1, dtype=float)
    costs = np.asarray(loss(steps), dtype=float)
    if costs.shape != steps.shape or not np.isfinite(costs).all():
        raise ParameterError("loss must give one finite number for every difference, such as asymmetric(over=2, under=1)")
    # The expected loss of answer y is the sum over c of after[c] costs[y - c]: a convolution.
    size = 1 << (3 * n + 1).bit_length()
    expected = np.fft.irfft(np.fft.rfft(after, size) * np.fft.rfft(costs, size), size)[n : 2 * n + 1]
    # The transform errs by about 1e-16 of the largest loss, however small the least one is.
    near = np.flatnonzero(expected <= expected.min() + CLOSE * max(1.0, float(np.abs(costs).max())))
    if len(near) * (n + 1) > LARGEST_MATRIX**2:
        near = near[np.argsort(expected[near], kind="stable")[: max(1, LARGEST_MATRIX**2 // (n + 1))]]
    again = [float(after @ costs[n + y - np.arange(n + 1)]) for y in np.sort(near)]
    return int(np.sort(near)[int(np.argmin(again))])


def _by_matrix(after: Floats, loss: ArrayLike, n: int) -> int:
    if n > LARGEST_MATRIX:
        raise ParameterError(f"a matrix of losses is for counts up to {LARGEST_MATRIX}; give a function of the difference")
    try:
        costs = np.asarray(loss, dtype=float)
    except (TypeError, ValueError):
        raise ParameterError("loss must be a function of answer minus count, or a matrix of numbers [count, answer]") from None
    if costs.ndim != 2 or costs.shape[0] != n + 1 or not costs.shape[1] or not np.isfinite(costs).all():
        raise ParameterError(f"loss must be a finite matrix with a row for each count from 0 to {n}")
    return int(np.argmin(after @ costs))


# --- the count ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CohortPlan:
    """The count of a cohort before it is made: what is counted, at which price, with which error. No data was touched.

    Guarantee
        Statement: `draw` costs DiscreteLaplace(1 / epsilon, 1), which is epsilon-DP, attained; whatever is read from
        it afterwards costs nothing.
        Conditions: add-remove or replace-one of a patient. The desk caps a patient's matching rows at one, so the
        count moves by at most 1. `at_most` is a public bound on the count, not the size of the data.
        Proved in: Ghosh, Roughgarden, Sundararajan 2012, Theorem 3.1; Cho, Simmons, Kim, Berger 2020 for cohorts.
        Correction: (9.1) of the source prints the ratio as 1/epsilon; it is exp(-epsilon). It clamps the noise and
        adds it then, so that no answer is below the count, which is no privacy; the sum is clamped. (9.3) has a
        signed difference as its loss, whose minimum is at the end of the range; a loss is not negative.
    """

    cut: Cut
    measurement: Measurement
    epsilon: Fraction
    at_most: int

    @property
    def event(self) -> Event:
        """What is done to the data."""
        return restate(self.measurement.event(1), self.cut.unit.adjacency)

    def error(self, confidence: float = 0.95) -> float:
        """How far the noisy count may be off, with this confidence."""
        return geometric(1 / self.epsilon).accuracy(1 - confidence)

    def within(self, error: int) -> float:
        """The probability that the noise is at most `error`.

        >>> round(1 - 2 * math.exp(-0.05 * 3) / (1 + math.exp(-0.05)), 3)  # at epsilon 0.05, off by at most 2
        0.118
        """
        ratio = math.exp(-float(self.epsilon))
        return 1 - 2 * ratio ** (error + 1) / (1 + ratio)

    def draw(self) -> int:
        """Count and add noise. This touches the data: the caller has paid."""
        return int(self.measurement.release(int(self.cut.counts([()])[()])).value)


def plan_cohort(desk: Desk, sql: str, *, epsilon: Typed, at_most: int) -> CohortPlan:
    """Plan the count of the patients that match a plain count in SQL. Each counts once, however many rows match."""
    price = exact("epsilon", epsilon)
    positive("epsilon", price)
    most = count("at_most", at_most)
    unit = desk.unit
    if unit.person is not None and not unit.capped:  # the desk keeps one matching row of each patient
        desk = replace(desk, unit=replace(unit, max_rows=1, max_groups=None, rows_per_group=None))
    cut = Cut.of(desk, {}, rows=sql)
    if cut.reach != 1:
        raise ParameterError(
            f"one {unit.noun} can change this count by {cut.reach}: a cohort counts each patient once; declare the "
            "column of the patient as the unit, Unit('patient_id', max_rows=...), without capped=True"
        )
    return CohortPlan(cut, geometric(1 / price, lower=0, upper=most).bind(COUNTS), price, most)


@dataclass(frozen=True)
class CohortAnswer:
    """A noisy count and what it tells. `noisy` was paid for; everything read from it is free."""

    noisy: int
    at_most: int
    epsilon: Fraction
    event: Event
    private: bool
    entry: int | None = None
    prior: Any = None
    loss: Any = absolute

    @property
    def value(self) -> int:
        """The answer of least expected loss, by the prior and the loss that were given."""
        return self.read(prior=self.prior, loss=self.loss)

    def read(self, *, prior: ArrayLike | None = None, loss: Loss | ArrayLike = absolute) -> int:
        """The same noisy count in the light of another prior or loss."""
        return best_answer(self.noisy, self.at_most, float(self.epsilon), prior=prior, loss=loss)

    def posterior(self, prior: ArrayLike | None = None) -> Floats:
        """How likely each count is now."""
        return posterior(self.noisy, self.at_most, float(self.epsilon), self.prior if prior is None else prior)

    def interval(self, confidence: float = 0.95, prior: ArrayLike | None = None) -> tuple[int, int]:
        """Counts between which the truth lies with this probability, by the prior: as much is left out at either end."""
        chance = float(probability("confidence", confidence))
        running = np.cumsum(self.posterior(prior))
        ends = np.searchsorted(running, [(1 - chance) / 2, (1 + chance) / 2 * (1 - 1e-12)])
        return int(ends[0]), int(min(ends[1], self.at_most))

    def __repr__(self) -> str:
        low, high = self.interval()
        mark = "" if self.private else " NOT PRIVATE"
        return f"{self.value} patients, {low} to {high} with probability 95% ({self.event!r}){mark}"


def cohort_count(
    session: Session, sql: str, *, epsilon: Typed, at_most: int | None = None, prior: ArrayLike | None = None,
    loss: Loss | ArrayLike = absolute, purpose: str = "",
) -> CohortAnswer:
    """Count the patients that match, paid for from the session's account.

    `sql` is a plain count, 'SELECT COUNT(*) FROM patients WHERE age > 64'. The count lies between 0 and `at_most`, a
    public bound; without it, the length of the prior says it. The prior and the loss are checked before anything is
    spent, and can be changed afterwards.
    """
    if at_most is None:
        if prior is None:
            raise ParameterError("give at_most, a public bound on the count such as the size of the register, or a prior")
        at_most = len(np.atleast_1d(np.asarray(prior))) - 1
    planned = plan_cohort(session.desk, sql, epsilon=epsilon, at_most=at_most)
    best_answer(0, planned.at_most, float(planned.epsilon), prior=prior, loss=loss)  # refuses what cannot be read later
    guarantee = session.spend_of(epsilon=planned.epsilon)
    with paying(
        session.account, planned.event, purpose=purpose, analyst=session.analyst, delta=guarantee.delta or None,
        error=EngineError, advice="try the statement with session.explain(...)",
    ) as payment:  # fmt: skip
        noisy = planned.draw()
    return CohortAnswer(
        noisy, planned.at_most, planned.epsilon, planned.event, payment.private, payment.entry, prior, loss
    )


# --- the older way -----------------------------------------------------------------------------------------


def count_utilities(
    true: int, low: int, high: int, over: int = 1, under: int = 1, power_over: int = 1, power_under: int = 1
) -> list[int]:
    """The utility of every answer from low to high: minus what an answer costs that is too large or too small.

    >>> count_utilities(2, 0, 4, over=2)
    [-2, -1, 0, -2, -4]
    """
    centre = min(max(int(true), low), high)
    return [
        -over * (r - centre) ** power_over if r >= centre else -under * (centre - r) ** power_under
        for r in range(low, high + 1)
    ]


def farthest_utility(steps: int, over: int, under: int, power_over: int, power_under: int) -> int:
    """How far one patient can move a utility on a range of so many steps: where the error is largest."""
    found: int = max(
        over * (steps**power_over - (steps - 1) ** power_over), under * (steps**power_under - (steps - 1) ** power_under)
    )
    return found


def exponential_count(
    epsilon: Typed, low: int, high: int, *, over: int = 1, under: int = 1, power_over: int = 1, power_under: int = 1
) -> Measurement:
    """A count by the exponential mechanism, the loss fixed beforehand: over and under are what an error of one costs.

    It takes the true count, which is moved into [low, high] first. With powers above 1 the costs of errors rise
    faster than the error, and their sensitivity with the range.

    >>> plan = exponential_count(1, 0, 100, over=2)
    >>> plan.event(1), 0 <= plan.release(40).value <= 100
    (Exponential(epsilon=Fraction(1, 1), monotone=False), True)

    Guarantee
        Statement: epsilon-DP, as an exponential mechanism of range epsilon.
        Conditions: neighbours move the count by at most 1; low, high, costs and powers are public.
        Proved in: McSherry and Talwar 2007, Theorem 6, for the utility of Vinterbo, Sarwate, Boxwala 2012; moving
        the count into the range first does not widen a step. The sensitivity is the largest change of any utility
        over all neighbouring counts, computed here.
        Correction: the source gives no formula; the utility is that of its reference.
    """
    price = exact("epsilon", epsilon)
    positive("epsilon", price)
    least, most = count("low", low, least=0), count("high", high, least=0)
    if least >= most:
        raise ParameterError(f"low must be below high, and {least} is not below {most}")
    given = {"over": over, "under": under, "power_over": power_over, "power_under": power_under}
    costs = [count(name, value) for name, value in given.items()]
    steps = most - least
    reach = farthest_utility(steps, *costs)
    inner = exponential(price / reach).bind(Space(Vectors(Integers(), steps + 1), LInfinity()))

    def release(true: int) -> int:
        return least + int(inner.function(count_utilities(true, least, most, *costs)))

    return replace(
        inner, input=COUNTS, function=release, parts=(), accuracy=None,
        privacy=lambda distance: inner.event(reach * math.floor(distance)),
    )  # fmt: skip
