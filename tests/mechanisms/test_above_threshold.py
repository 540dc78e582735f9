"""Above threshold: the price by exact enumeration in rational numbers, the law of its draws, its budget, and that it halts."""

from __future__ import annotations

import itertools
import math
import threading
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import chdtrc
from tests.attacks.broken_svt import Variant, exact_ratio

from tacit.accounting import NoOp, ParameterError, PureDP
from tacit.calculus import (
    Absolute,
    AddRemove,
    CalculusError,
    Integers,
    Lattice,
    LInfinity,
    MetricError,
    Rows,
    Space,
    Transformation,
    Vectors,
    clamp,
    count,
    total,
)
from tacit.mechanisms import HaltedError, above_threshold
from tacit.mechanisms.above_threshold import AboveThreshold, Sparse
from tacit.noise import test_mode as seeded

ROWS = Space(Rows(Integers(0, 9)), AddRemove())


def scores(n, *, monotone=False):
    return Space(Vectors(Integers(), n), LInfinity(monotone=monotone))


def patterns(n, aboves):
    """All outputs on n questions: they end with the last answer above that is paid for, or with the last question."""
    for length in range(1, n + 1):
        for bits in itertools.product((False, True), repeat=length):
            total_ = sum(bits)
            if (total_ == aboves and bits[-1]) or (length == n and total_ < aboves):
                yield bits


def test_the_law_adds_up_and_agrees_with_a_truncated_sum():
    variant = Variant(Fraction(1), Fraction(3, 2), Fraction(5, 2), 2)
    with mpmath.workdps(40):
        assert abs(sum(variant.chance([1, 0, -2], bits) for bits in patterns(3, 2)) - 1) < 1e-35
        p, q = exact_ratio(variant.threshold), exact_ratio(variant.question)
        reach = 160
        masses = [(1 - q) / (1 + q) * q ** abs(k) for k in range(-reach, reach)]
        tails = [mpmath.mpf(0)]
        for mass in reversed(masses):
            tails.append(tails[-1] + mass)
        tails.reverse()  # P(noise >= k) at k + reach
        brute = sum((1 - p) / (1 + p) * p ** abs(r) * (1 - tails[r - 1 + reach]) * tails[r + reach] for r in range(1 - reach, reach))
        assert abs(variant.chance([1, 0], (False, True)) - brute) < 1e-25


@pytest.mark.parametrize(("aboves", "monotone"), [(1, False), (2, False), (1, True), (2, True)])
def test_three_questions_exactly_in_rational_numbers(aboves, monotone):
    """With rational ratios p and q of the two noises, every probability is rational and the theorem reads: ratio <= 1/p * (1/q)^(2 c)."""
    ratios = {Fraction(1): Fraction(1, 2), Fraction(2): Fraction(2, 3)}
    variant = Variant(Fraction(1), Fraction(1), Fraction(2), aboves)
    law = {
        answers: {bits: variant.chance(answers, bits, ratio=ratios.__getitem__) for bits in patterns(3, aboves)}
        for answers in itertools.product(range(-2, 3), repeat=3)
    }
    assert all(sum(chances.values()) == 1 for chances in law.values())
    claim = 2 * Fraction(3, 2) ** ((1 if monotone else 2) * aboves)
    metric, worst = LInfinity(monotone=monotone), Fraction(0)
    for first in itertools.product(range(-1, 2), repeat=3):
        for move in itertools.product((-1, 0, 1), repeat=3):
            second = tuple(a + m for a, m in zip(first, move, strict=True))
            if metric.distance(first, second) <= 1:
                worst = max(worst, *(law[first][bits] / law[second][bits] for bits in law[first]))
    assert worst <= claim
    if aboves == 1:  # with so few questions two answers above cannot use up their price
        assert math.log(worst) > 0.6 * math.log(claim)
    if (aboves, monotone) == (1, False):
        assert worst > 2 * Fraction(3, 2) ** aboves  # noise of half the scale is for monotone questions only


def test_draws_follow_the_law_and_shared_or_missing_noise_is_caught():
    answers = [1, -1, 2]
    mechanism = above_threshold(epsilon=3, threshold=1, aboves=2)
    plan = scores(3) >> mechanism
    with seeded(9):
        found = Counter(tuple(plan.function(answers)) for _ in range(6000))
    threshold, question, _ = mechanism.scales
    variant = Variant(Fraction(3), threshold, question, 2)
    shifted = [a - 1 for a in answers]  # the variant's threshold is 0

    def p_value(model):
        chances = {bits: float(model.chance(shifted, bits)) for bits in patterns(3, 2)}
        return float(chdtrc(len(chances) - 1, sum((found[b] - 6000 * c) ** 2 / (6000 * max(c, 1e-9)) for b, c in chances.items())))

    assert sum(found.values()) == 6000
    assert p_value(variant) > 1e-3
    assert p_value(replace(variant, question=question / 2)) < 1e-9
    assert p_value(replace(variant, threshold=threshold / 4)) < 1e-9


@given(
    st.fractions(Fraction(1, 100), 10),
    st.integers(1, 50),
    st.booleans(),
    st.fractions(0, Fraction(9, 10)),
    st.fractions(Fraction(1, 10), 10),
)
def test_budgets_add_up_exactly_and_scales_are_the_theorems(epsilon, aboves, monotone, numeric, sensitivity):
    mechanism = AboveThreshold(epsilon, 0, aboves, sensitivity, monotone, numeric)
    first, second, third = mechanism.budgets
    assert first + second + third == epsilon
    threshold, question, values = mechanism.scales
    assert threshold * first == sensitivity
    assert question * second == (1 if monotone else 2) * aboves * sensitivity
    assert values is None or values * third == aboves * sensitivity
    assert float(second / first) == pytest.approx(((1 if monotone else 2) * aboves) ** (2 / 3), rel=1e-9)


def test_price_is_charged_once_and_grows_with_the_distance():
    plan = ROWS >> above_threshold(epsilon=Fraction(1, 2), threshold=10, aboves=3)
    assert [plan.event(d) for d in (0, 1, 3)] == [NoOp(), PureDP(Fraction(1, 2)), PureDP(Fraction(3, 2))]
    lattice = Space(Vectors(Lattice(Fraction(1, 4)), 2), LInfinity())
    assert (lattice >> above_threshold(epsilon=1, threshold=0, sensitivity=2)).event(8) == PureDP(1)


def test_it_halts_and_below_is_free():
    plan = scores(200) >> above_threshold(epsilon=50, threshold=100, aboves=2)
    answers = [0] * 100 + [10**6, 0, 10**6] + [10**6] * 97
    found = plan.release(answers).value
    assert len(found) == 103
    assert sum(found) == 2
    sparse = Sparse(above_threshold(epsilon=1, threshold=0))
    assert sparse.ask(10**9) is True
    assert sparse.halted
    with pytest.raises(HaltedError, match="costs again"):
        sparse.ask(0)


def test_threshold_noise_is_drawn_once_and_question_noise_each_time():
    with seeded(4):
        sparse = Sparse(above_threshold(epsilon=1, threshold=0, aboves=10**6))
        bar = sparse._bar
        answers = [sparse.ask(bar) for _ in range(400)]  # nearly a fair coin each time, if the noise is fresh; always the same if not
        assert sparse._bar == bar
    assert 170 < sum(answers) < 290


def test_numeric_form_has_noise_of_its_own():
    mechanism = above_threshold(epsilon=2, threshold=50, aboves=400, numeric=Fraction(1, 2))
    with seeded(5):
        sparse = Sparse(mechanism)
        values = [sparse.ask(10**6) for _ in range(400)]
    assert sparse.ask.__self__.halted
    scale = float(mechanism.scales[2])
    spread = math.sqrt(sum((v - 10**6) ** 2 for v in values) / 400)
    assert 0.8 < spread / (scale * math.sqrt(2)) < 1.25
    assert len(set(values)) > 100
    with seeded(6):
        assert Sparse(above_threshold(epsilon=1, threshold=10**6, numeric=Fraction(1, 2))).ask(0) is None


def test_questions_on_a_data_set_are_checked_before_they_touch_it():
    queries = (ROWS >> above_threshold(epsilon=100, threshold=20, sensitivity=9, aboves=5)).release([9, 9, 9, 9]).value
    assert queries.ask(ROWS >> total()) is True
    assert queries.ask(ROWS >> count()) is False
    assert queries.left == 4
    assert queries.private
    wide = Space(Rows(Integers(0, 100)), AddRemove())
    touched = []
    spy = Transformation(ROWS, Space(Integers(), Absolute()), lambda d: touched.append(1) or 0, lambda d: 10 * d, "spy", "declared")
    unproved = Transformation(ROWS, Space(Integers(), Absolute()), lambda d: touched.append(1) or 0, lambda d: d, "unproved")
    for bad, message in ((spy, "sensitivity"), (unproved, "proof"), (ROWS >> clamp(0, 5), "whole number")):
        with pytest.raises(CalculusError, match=message):
            queries.ask(bad)
    with pytest.raises(CalculusError):
        queries.ask(Space(Rows(Integers(0, 5)), AddRemove()) >> total())
    with pytest.raises(CalculusError, match="without noise"):
        queries.ask(ROWS >> above_threshold(1, 1))
    assert queries.ask(wide >> clamp(0, 1) >> total()) is False
    assert not touched


def test_lattice_questions_share_one_granularity():
    space = Space(Rows(Lattice(Fraction(1, 4), 0, 1)), AddRemove())
    plan = space >> above_threshold(epsilon=10**4, threshold=Fraction(5, 2), granularity=Fraction(1, 8), aboves=3)
    queries = plan.release([4, 4, 4]).value  # granules: a total of 3
    assert queries.ask(space >> total()) is True
    assert queries.ask(space >> count()) is True
    with pytest.raises(CalculusError, match="multiple of granularity"):
        (space >> above_threshold(epsilon=1, threshold=0)).release([1]).value.ask(space >> total())


def test_seeded_noise_marks_the_queries():
    plan = ROWS >> above_threshold(epsilon=1, threshold=10**6)
    queries = plan.release([1]).value
    with seeded(1):
        queries.ask(ROWS >> count())
        assert not plan.release([1]).private
    assert not queries.private


def test_monotone_needs_a_monotone_metric():
    with pytest.raises(MetricError, match="monotone"):
        scores(3) >> above_threshold(epsilon=1, threshold=0, monotone=True)
    with pytest.raises(MetricError, match="monotone"):
        ROWS >> above_threshold(epsilon=1, threshold=0, monotone=True)
    assert (scores(3, monotone=True) >> above_threshold(epsilon=1, threshold=0, monotone=True)).event(1) == PureDP(1)
    with pytest.raises(MetricError, match="above_threshold"):
        Space(Integers(), Absolute()) >> above_threshold(epsilon=1, threshold=0)


def test_accuracy_by_simulation_and_inverse():
    mechanism, questions, beta = above_threshold(epsilon=1, threshold=0), 20, 0.2
    alpha = math.ceil(mechanism.accuracy(beta, questions))
    plan = scores(questions) >> mechanism
    with seeded(3):
        wrong = sum(plan.function([-alpha] * (questions - 1) + [alpha]) != [False] * (questions - 1) + [True] for _ in range(400))
    assert wrong <= beta * 400
    assert AboveThreshold.for_accuracy(10, 0.05, questions=100).accuracy(0.05, questions=100) <= 10


def test_threads_never_get_one_more_above():
    sparse = Sparse(above_threshold(epsilon=100, threshold=0, aboves=5))
    given_, refused = [], []

    def ask():
        for _ in range(20):
            try:
                given_.append(sparse.ask(10**9))
            except HaltedError:
                refused.append(1)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(given_) == 5
    assert len(refused) == 75


@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon": 0},
        {"epsilon": math.nan},
        {"threshold": math.inf},
        {"aboves": 0},
        {"aboves": 1.5},
        {"sensitivity": -1},
        {"numeric": 1},
        {"share": 0},
        {"granularity": 0},
    ],
    ids=repr,
)
def test_bad_parameters_name_themselves(bad):
    with pytest.raises(ParameterError, match=next(iter(bad))):
        above_threshold(**{"epsilon": 1, "threshold": 0, **bad})
