"""Known failure 13: keys that only one person has. From outside, every rule keeps its price; a threshold without delta is caught."""

from __future__ import annotations

from tests.attacks.attack import lower_bound

from tacit.accounting import account
from tacit.calculus import AddRemove, Anything, Rows, Space
from tacit.mechanisms import GaussianSelection, LaplaceSelection, optimal_selection

PEOPLE = Space(Rows(Anything()), AddRemove())


def outputs(plan, data):
    return lambda n: [tuple(plan.function(data)) for _ in range(n)]


def people(n, extra=()):
    return [["flu"]] * n + [[*keys] for keys in extra]


def test_the_optimal_rule_uses_its_whole_price_and_no_more():
    plan = PEOPLE >> optimal_selection(epsilon=1, delta=0.05)
    found = lower_bound(outputs(plan, people(3)), outputs(plan, people(2)), 1500, delta=0.05, seed=1)
    assert 0.6 < found <= 1
    alone = lower_bound(outputs(plan, people(1)), outputs(plan, []), 1000, delta=0.05, seed=2)
    assert alone == 0  # one person's key is within delta


def test_thresholds_keep_their_price():
    for rule in (LaplaceSelection(1, 3), GaussianSelection(1, 3)):
        plan = PEOPLE >> rule
        delta = 0.08
        found = lower_bound(outputs(plan, people(2, [["flu"]])), outputs(plan, people(2)), 800, delta=delta, seed=3)
        assert found <= account(rule.price(1)).epsilon(delta).upper


def test_publishing_whatever_is_there_is_caught():
    """No threshold to speak of: a key of one person comes out about half of the time, at a claim of (1, 1e-3)."""
    plan = PEOPLE >> LaplaceSelection(1, 1)
    assert lower_bound(outputs(plan, people(0, [["rare"]])), outputs(plan, []), 500, delta=1e-3, seed=4) > 1
    ours = PEOPLE >> LaplaceSelection.for_budget(1, 1e-3)
    assert lower_bound(outputs(ours, people(0, [["rare"]])), outputs(ours, []), 500, delta=1e-3, seed=4) <= 1
