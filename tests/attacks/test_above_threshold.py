"""The broken sparse vectors must be caught, by exact losses and from outside; ours must stand the same attacks."""

from __future__ import annotations

import itertools
import math

import pytest
from tests.attacks.attack import lower_bound
from tests.attacks.broken_svt import chen, lee_clifton, loss, raw_values, right, roth, stoddard

from tacit.calculus import Integers, LInfinity, Space, Vectors
from tacit.mechanisms import above_threshold

NO, YES = False, True

#: For each broken variant: two inputs whose answers differ by at most 1, and an output that gives one of them away.
CASES = {
    "roth": (roth(1), [0] * 12 + [1], [1] * 12 + [0], (NO,) * 12 + (0,)),
    "lee_clifton": (lee_clifton(1, aboves=6), [0] * 12 + [1] * 6, [1] * 12 + [0] * 6, (NO,) * 12 + (YES,) * 6),
    "stoddard": (stoddard(1), [0, 1], [1, 0], (NO, YES)),
    "chen": (chen(1), [0] * 8 + [1] * 8, [1] * 8 + [0] * 8, (NO,) * 8 + (YES,) * 8),
    "raw_values": (raw_values(1), [1], [0], (1,)),
}


@pytest.mark.parametrize("name", CASES)
def test_every_broken_variant_exceeds_its_claim(name):
    variant, first, second, output = CASES[name]
    found = loss(variant, first, second, output)
    assert found > 1.2 * float(variant.claim)
    if name in ("stoddard", "raw_values"):
        assert found == math.inf


@pytest.mark.parametrize("name", ["roth", "lee_clifton", "chen"])
def test_the_broken_ones_get_worse_without_end(name):
    """More questions, more loss: there is no epsilon at all, or one that grows with the number of answers."""

    def loss_at(m):
        match name:
            case "roth":
                return loss(roth(1), [0] * m + [1], [1] * m + [0], (NO,) * m + (0,))
            case "lee_clifton":
                return loss(lee_clifton(1, aboves=m), [0] * m + [1] * m, [1] * m + [0] * m, (NO,) * m + (YES,) * m)
        return loss(chen(1), [0] * m + [1] * m, [1] * m + [0] * m, (NO,) * m + (YES,) * m)

    losses = [loss_at(m) for m in (4, 8, 16, 24)]
    assert losses == sorted(losses)
    assert losses[-1] > losses[0] + 1


@pytest.mark.parametrize("name", CASES)
def test_the_right_one_stands_the_same_attacks(name):
    _, first, second, output = CASES[name]
    bits = tuple(out is not NO for out in output)
    variant = right(1, aboves=max(1, sum(bits)))
    assert loss(variant, first, second, bits) <= 1
    assert loss(variant, second, first, bits) <= 1


def test_the_right_one_stands_all_outputs_of_short_lists():
    variant = right(1, aboves=2)
    worst = 0.0
    for first in itertools.product((0, 1), repeat=4):
        second = tuple(1 - a for a in first)
        for output in itertools.product((NO, YES), repeat=4):
            if sum(output) < 2 or (sum(output) == 2 and output[-1]):
                worst = max(worst, loss(variant, first, second, output))
    assert 0.4 < worst <= 1


def test_long_lists_use_up_the_price_of_the_right_one():
    """The proof gives away little: what is "below" many times in a row pins the threshold, and then one answer costs its whole share."""
    answers, others, output = [0] * 60 + [1], [1] * 60 + [0], (NO,) * 60 + (YES,)
    assert 0.85 < loss(right(1), answers, others, output) <= 1


def outputs(answers, plan):
    return lambda n: [tuple(plan.function(answers)) for _ in range(n)]


def test_from_outside_ours_leaks_a_good_part_of_its_price_and_no_more():
    plan = Space(Vectors(Integers(), 2), LInfinity()) >> above_threshold(epsilon=2, threshold=0)
    found = lower_bound(outputs([0, 1], plan), outputs([1, 0], plan), 2500, seed=1)
    assert 0.5 < found <= 2


def test_from_outside_a_broken_one_is_caught():
    for variant, first, second in ((stoddard(1), [0, 1], [1, 0]), (chen(2), [0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0])):
        draws = [(lambda n, a=a, v=variant: [v.run(a) for _ in range(n)]) for a in (first, second)]
        assert lower_bound(*draws, 2000, seed=2) > float(variant.claim)
